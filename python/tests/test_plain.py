# SPDX-License-Identifier: Apache-2.0
"""The package without numpy, and without a code generator: arrays of Python's own, the evaluator."""

import array
import sys
import unittest

import ductile
from ductile import ops

EVALUATOR = {"answer": "evaluator"}


def double(x):
    return x + x


class Plain(unittest.TestCase):
    def test_evaluator(self):
        f = ductile.function(double, inputs=[ductile.Input("x", "f64", ["n"])], **EVALUATOR)
        x = array.array("d", [1, 2, 3])
        y = f.run([x], tensors=True)
        self.assertEqual(memoryview(y).tolist(), [2, 4, 6])
        self.assertEqual((y.shape, y.strides, y.dtype, y.device, y.nbytes), ((3,), (1,), "f64", "cpu", 24))
        self.assertEqual(f.stats()["evaluator_calls"], 1)

    def test_buffers(self):
        x = ductile.tensor(memoryview(bytes(range(12))).cast("B", [3, 4]))
        self.assertEqual((x.dtype, x.shape), ("u8", (3, 4)))
        self.assertTrue(memoryview(x).readonly)

    def test_codes(self):
        names = [name for name in dir(ductile) if name.endswith("Error")]
        codes = {getattr(ductile, name).code for name in names if name != "Error"}
        self.assertEqual(len(codes), len(names) - 1)
        self.assertIs(ductile.ShapeError.__mro__[1], ductile.Error)
        self.assertTrue(issubclass(ductile.NoMemoryError, MemoryError))

    def test_version(self):
        self.assertRegex(ductile.__version__, r"^\d+\.\d+\.\d+$")

    def test_without_trace(self):
        with self.assertRaises(ductile.StateError):
            ops.iota("f32", [3])


if __name__ == "__main__":
    sys.exit(0 if unittest.main(exit=False, verbosity=1).result.wasSuccessful() else 1)
