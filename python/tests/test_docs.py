# SPDX-License-Identifier: Apache-2.0
"""usage: test_docs.py PAGE [MODULE]. Runs the blocks of Python in a page one after another, in a folder with model.onnx,
y [batch, 2] = x [batch, 4] by ones; a block of text under one must be what it printed. Skipped (77) without the module
that the page needs."""

import contextlib
import importlib
import io
import os
import re
import shutil
import sys
import tempfile

import support  # skips where there is no numpy

MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "model.onnx")


def main():
    page = os.path.abspath(sys.argv[1])
    for name in sys.argv[2:]:
        try:
            needed = importlib.import_module(name)
        except ImportError:
            print(f"SKIP: no {name}: scripts/deps --python")
            return 77
        if name == "onnxruntime" and not hasattr(needed, "register_execution_provider_library"):
            print(f"SKIP: onnxruntime {needed.__version__} has no providers in libraries")
            return 77
    with open(page, encoding="utf-8") as file:
        text = file.read()
    failures = blocks = 0
    names = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        shutil.copy(MODEL, "model.onnx")
        pattern = r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?"
        for match in re.finditer(pattern, text, re.DOTALL | re.MULTILINE):
            code, expected = match.groups()
            line = text[:match.start(1)].count("\n")
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile("\n" * line + code, page, "exec"), names)
            blocks += 1
            said = re.sub(r"[ \t]+$", "", printed.getvalue(), flags=re.MULTILINE)
            if said.rstrip("\n") != (expected or "").rstrip("\n"):
                failures += 1
                print(f"{page}:{line + 1}: it printed\n{printed.getvalue()}")
        os.chdir("/")
    print(f"{blocks} blocks run, {failures} print something else")
    return failures > 0 or blocks < 6


if __name__ == "__main__":
    sys.exit(main())
