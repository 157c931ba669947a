# SPDX-License-Identifier: Apache-2.0
"""usage: test_packages.py MODEL. Packages, preparing, freezing and reports; packages without the code generator,
in a process of their own, that compile nothing."""

import os
import subprocess
import sys
import tempfile
import unittest

from support import main, np

import ductile
from ductile import ops

MODEL = sys.argv.pop(1)

ALONE = """
import os, sys
import numpy as np, ductile
package = ductile.open_package(sys.argv[1])
scale, total = package["scale"], package["total"]
x = np.arange(12, dtype="f4").reshape(3, 4)
assert np.array_equal(scale(x, 2), x * 2 + 1)
assert np.array_equal(total(x[:0]), np.zeros(4, "f4"))
assert not any("libductile-jit" in line for line in open("/proc/self/maps"))
try:
    scale(np.asfortranarray(x), 2)
except ductile.Error as error:
    print(error.code)
fresh = ductile.function(lambda x: x + 1, inputs=[ductile.Input("x", "f32", ["n"])])
try:
    fresh(np.ones(3, "f4"))
except ductile.UnsupportedError as error:
    print(error.code, "libductile-jit" in str(error))
"""


def functions():
    weights = np.ones(1, "f4")
    scale = ductile.function(lambda x, n: x * ops.cast(n, "f32") + ops.constant("w", weights), name="scale", inputs=[
        ductile.Input("x", "f32", ["rows", 4]), ductile.Input("n", "i64", [], kind="integer")])
    total = ductile.function(lambda x: ops.sum(x, 0), name="total", inputs=[ductile.Input("x", "f32", ["rows", 4])])
    return scale, total


class Packages(unittest.TestCase):
    def test_written_and_read(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "both.dtp")
            scale, total = functions()
            scale.prepare()
            ductile.write_package(path, [scale, total], levels="v2,v3")
            package = ductile.open_package(path)
            self.assertEqual((package.keys(), list(package), len(package)), (("scale", "total"), ["scale", "total"], 2))
            self.assertIn("total", package.report())
            again = package.function("scale", variant_limit=2)
            self.assertEqual(again(np.zeros((1, 4), "f4"), 3).tolist(), [[1] * 4])
            self.assertEqual([s.name for s in again.inputs], ["x", "n"])
            self.assertEqual(again.outputs[0].dims, ("rows", 4))
            with self.assertRaises(KeyError):
                package["nothing"]
            with self.assertRaises(ductile.ArgumentError):
                package.function("nothing")
            with self.assertRaises(ductile.ArgumentError):
                package.function()  # which of two?
            del package
            self.assertEqual(again(np.zeros((1, 4), "f4"), 3).tolist(), [[1] * 4])
            with self.assertRaises(TypeError):
                ductile.write_package(path, [3])
            # Where there is no code generator.
            done = subprocess.run([sys.executable, "-B", "-c", ALONE, path], capture_output=True, text=True,
                                  env={**os.environ, "DUCTILE_JIT": "/nowhere/libductile-jit.so"})
            self.assertEqual(done.stderr, "")
            self.assertEqual(done.stdout.split("\n")[1], "DT_E_UNSUPPORTED True")


class Prepared(unittest.TestCase):
    def test_prepare(self):
        scale, total = functions()
        total.prepare("cpu", form="first")
        total.freeze()
        self.assertEqual(total(np.ones((2, 4), "f4")).tolist(), [2] * 4)
        wide = np.ones((4, 8), "f4")[:, :4]
        with self.assertRaises(ductile.StateError):
            total(wide)
        scale.prepare(layouts="rows", timeout=60)
        scale.freeze()
        self.assertEqual(scale(wide, 1).tolist(), [[2] * 4] * 4)
        with self.assertRaises(ductile.StateError):
            scale(np.ones((4, 2), "f4").T, 1)
        with self.assertRaises(ductile.UnsupportedError):
            scale.prepare("cuda:7")
        with self.assertRaises(ductile.DeadlineError):
            functions()[0].prepare(timeout=0)

    def test_tune(self):
        scale, total = functions()
        x = np.linspace(-1, 1, 40, dtype="f4").reshape(10, 4)
        before = total(x)
        tried = total.tune([[x], {"x": x[:3]}], weights=[2, 1], seconds=1, forget=True)
        self.assertEqual({row["event"] for row in tried}, {"choice", "tuned"})
        last = tried[-1]
        self.assertEqual([call["call"] for call in last["calls"]], [0, 1])
        self.assertFalse(last["kept"])
        outcomes = {row["outcome"] for row in tried if row["event"] == "choice"}
        self.assertIn("other bits", outcomes)
        self.assertNotIn("failed", outcomes)
        self.assertEqual(total(x).tobytes(), before.tobytes())
        self.assertIn("tuned: ", total.explain())
        self.assertTrue(scale.tune([(x, 3)], seconds=0.2))
        for calls, error in (([], ductile.ArgumentError), ([[x, x]], TypeError), (3, TypeError),
                             ([{"y": x}], TypeError), ([[x[0]]], ductile.ShapeError)):
            with self.assertRaises(error):
                total.tune(calls)
        with self.assertRaises(TypeError):
            total.tune([[x]], fast=True)
        with self.assertRaises(ductile.ArgumentError):
            total.tune([[x]], weights=[1, 2])
        with self.assertRaises(ductile.DeadlineError):
            total.tune([[x]], timeout=0)

    def test_reports(self):
        scale, total = functions()
        x = np.ones((2, 4), "f4")
        self.assertIn("no variant yet", total.explain(x))
        total(x)
        self.assertEqual({row["event"] for row in total.report(x)}, {"variant", "hit", "compile"})
        missed = [row for row in total.report(x[:, ::-1]) if row["event"] == "miss"]
        self.assertEqual(len(missed), 1)
        self.assertIn("no variant takes", total.explain(x[:, ::-1]))
        self.assertEqual(total.stats()["variants"], 1)
        self.assertEqual(total.output_sizes(x), (("f32", (4,)),))
        self.assertEqual(scale.output_sizes(x=x, n=3), (("f32", (2, 4)),))
        with self.assertRaises(ductile.ShapeError):
            total.output_sizes(x[0])


class Models(unittest.TestCase):
    def test_model(self):
        f = ductile.load(MODEL, access="map", name="model")
        self.assertTrue(all(spec.name and spec.dtype for spec in f.inputs))
        sizes = [[size if isinstance(size, int) else 2 for size in spec.dims] for spec in f.inputs]
        arrays = {s.name: np.ones(n, ductile.tensor(ductile.empty(s.dtype, n)).numpy().dtype)
                  for s, n in zip(f.inputs, sizes)}
        results = f(**arrays)
        results = results if isinstance(results, tuple) else (results,)
        self.assertEqual([spec.dtype for spec in f.outputs],
                         [ductile.tensor(r).dtype for r in results])
        bound = ductile.load(MODEL, dims={}, strict_fp=True, timeout=60)
        self.assertEqual(len(bound.inputs), len(f.inputs))
        with self.assertRaises(ductile.ArgumentError):
            ductile.load(MODEL, dims={"no such dim": 3})
        with self.assertRaises(ductile.DeadlineError):
            ductile.load(MODEL, timeout=0)


if __name__ == "__main__":
    main()
