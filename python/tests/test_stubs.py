# SPDX-License-Identifier: Apache-2.0
"""usage: test_stubs.py SOURCES. The stubs say what there is: names, parameters and defaults, in both directions."""

import ast
import importlib.util
import inspect
import os
import subprocess
import sys
import tempfile
import unittest

import ductile
import ductile.onnxruntime as provider
from ductile import _core, ops

SOURCES = sys.argv.pop(1)
FOLDER = os.path.dirname(ductile.__file__)
OF_TYPES = {"Dtype", "Array", "Dim", "Operand", "Results", "Body"}


def stub(name):
    """What a stub defines, by name; the last definition of each."""
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        tree = ast.parse(file.read())
    found = {}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found[node.name] = node
        elif isinstance(node, ast.ImportFrom):
            found.update((alias.asname, node) for alias in node.names if alias.asname)
        elif isinstance(node, ast.Assign):
            found[node.targets[0].id] = node
        elif isinstance(node, ast.AnnAssign):
            found[node.target.id] = node
    return {key: node for key, node in found.items() if not key.startswith("_") or key == "__version__"}


def parameters(node):
    """Names and defaults, as inspect has them."""
    args = node.args
    plain = args.posonlyargs + args.args
    defaults = [None] * (len(plain) - len(args.defaults)) + args.defaults
    both = list(zip(plain, defaults)) + list(zip(args.kwonlyargs, args.kw_defaults))
    return {arg.arg: ast.literal_eval(default) if default else inspect.Parameter.empty
            for arg, default in both if arg.arg not in ("self", "cls")}


class Stubs(unittest.TestCase):
    def test_names(self):
        public = lambda module: {n for n in vars(module) if not n.startswith("_")} | {"__version__"}
        self.assertEqual(set(stub("_core.pyi")) - OF_TYPES, public(_core) - {"ops"})
        self.assertEqual(set(stub("__init__.pyi")), set(ductile.__all__))
        self.assertEqual(set(stub("ops.pyi")) - OF_TYPES, public(ops) - {"__version__"})
        self.assertEqual(set(stub("onnxruntime.pyi")), set(provider.__all__))

    def test_made(self):
        done = subprocess.run([sys.executable, "-B", os.path.join(SOURCES, "python", "stubs.py"), "--check"])
        self.assertEqual(done.returncode, 0)

    def test_builders(self):
        compared = 0
        for name, node in stub("ops.pyi").items():
            if not isinstance(node, ast.FunctionDef):
                continue
            signature = inspect.signature(getattr(ops, name))
            self.assertEqual({p.name: p.default for p in signature.parameters.values()}, parameters(node), name)
            self.assertTrue(getattr(ops, name).__doc__, name)
            compared += 1
        self.assertGreater(compared, 140)

    def test_classes(self):
        """Methods and properties are the types' own; what both write out has equal parameters."""
        for name, node in stub("_core.pyi").items():
            if not isinstance(node, ast.ClassDef) or name.endswith("Error") or name == "Spec":
                continue
            kind = getattr(_core, name)
            there = {n for n in vars(kind) if not n.startswith("__")}
            said = {n.name: n for n in node.body if isinstance(n, ast.FunctionDef)}
            self.assertEqual(there, {n for n in said if not n.startswith("__")}, name)
            for method, definition in said.items():
                if method != "__buffer__":
                    self.assertTrue(hasattr(kind, method), (name, method))
                self.compare(getattr(kind, method, None), definition)
        for module, name in ((_core, "_core.pyi"), (provider, "onnxruntime.pyi")):
            for name, node in stub(name).items():
                if isinstance(node, ast.FunctionDef):
                    self.compare(getattr(module, name), node)

    def compare(self, actual, node):
        if not callable(actual) or node.name.startswith("__"):
            return
        signature = inspect.signature(actual)
        kinds = [p.kind for p in signature.parameters.values()]
        named = {p.name: p.default for p in signature.parameters.values()
                 if p.name != "self" and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
        stated = parameters(node)
        if inspect.Parameter.VAR_KEYWORD in kinds:
            stated = {key: stated[key] for key in named}  # the rest are the options
        self.assertEqual(named, stated, node.name)

    def test_options(self):
        """Options of functions are those of the tables, which refuse others by name."""
        for name, call in (("load", lambda **o: ductile.load("/nowhere.onnx", **o)),
                           ("open_package", lambda **o: ductile.open_package("/nowhere", **o)),
                           ("write_package", lambda **o: ductile.write_package("/nowhere/x", [], **o))):
            for option, default in parameters(stub("_core.pyi")[name]).items():
                if default is inspect.Parameter.empty or option == "runtime":
                    continue
                with self.assertRaises((ductile.Error), msg=option):
                    call(**{option: default})

    def test_codes(self):
        errors = {n.name: [b.id for b in n.bases] for n in stub("_core.pyi").values()
                  if isinstance(n, ast.ClassDef) and n.name.endswith("Error") and n.name != "Error"}
        for name, bases in errors.items():
            self.assertEqual([b.__name__ for b in getattr(ductile, name).__bases__], bases)

    @unittest.skipIf(importlib.util.find_spec("mypy") is None, "no mypy")
    def test_mypy(self):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write("import ductile\n\nf: ductile.Function = ductile.load('m.onnx', dims={'n': 3})\n"
                       "f.prepare(layouts='rows')\n")
            file.flush()
            done = subprocess.run([sys.executable, "-m", "mypy", "--strict", file.name, FOLDER])
        self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
    sys.exit(0 if unittest.main(exit=False).result.wasSuccessful() else 1)
