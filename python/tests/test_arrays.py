# SPDX-License-Identifier: Apache-2.0
"""Arrays in and out: every dtype, strides, sizes of 0, order of bytes, DLPack's capsules, lifetimes."""

import ctypes
import gc
import unittest
import weakref

from support import NUMPY, main, np, same

import ductile
from ductile import ops

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()
BITS = {"bfloat16": "bf16", "float8_e4m3fn": "f8e4m3fn", "float8_e5m2": "f8e5m2",
        "float8_e4m3fnuz": "f8e4m3fnuz", "float8_e5m2fnuz": "f8e5m2fnuz", "float8_e8m0fnu": "f8e8m0"}


def identity(dtype, rank):
    """A function that returns its argument."""
    return ductile.function(lambda x: x, inputs=[ductile.Input("x", dtype, [None] * rank)])


def views(whole):
    """An array of rank 3 in many layouts."""
    return (whole, whole[:, ::2], whole.transpose(2, 0, 1), whole[::-1], whole[:0], whole[:, :0],
            np.broadcast_to(whole[:1], whole.shape), whole[1:2, 1:2, 1:2], np.asfortranarray(whole))


class Arrays(unittest.TestCase):
    def test_dtypes_and_strides(self):
        for name in DTYPES:
            whole = (np.arange(60).reshape(3, 4, 5) % 7).astype(name)
            f = identity(name, 3)
            for array in views(whole):
                self.assertTrue(same(f(array), array), (name, array.strides))
            self.assertTrue(same(identity(name, 0)(np.array(1, name)), np.array(1, name)))

    def test_read_only(self):
        x = np.arange(3, dtype="f4")
        x.flags.writeable = False
        self.assertTrue(same(identity("f32", 1)(x), x))
        with self.assertRaises(ductile.ArgumentError):
            identity("f32", 1).run([x], out=[x])
        kept = ductile.tensor(x)
        self.assertTrue(memoryview(kept).readonly)
        if NUMPY >= (2, 1):  # the first that takes capsules of version 1
            self.assertFalse(np.from_dlpack(kept).flags.writeable)
        with self.assertRaises(BufferError):
            kept.__dlpack__()  # before version 1 nothing says so

    def test_refused(self):
        f = identity("f32", 1)
        x = np.arange(4, dtype="f4")
        cases = [
            (x.astype("f8"), ductile.DtypeError, "f64"),
            (x.astype(">f4"), ductile.DtypeError, ">f"),
            (x.astype("c8"), ductile.DtypeError, "Zf"),
            (np.array(["a"]), ductile.DtypeError, "1w"),
            (np.zeros(2, [("a", "f4"), ("b", "i2")]), ductile.DtypeError, "T{"),
            (np.zeros(2, [("a", "f4"), ("b", "i2")])["a"], ductile.ShapeError, "6 bytes"),
            (np.zeros(2, "M8[s]"), ductile.ArgumentError, "argument 0"),
            (x.reshape(2, 2), ductile.ShapeError, "rank"),
            (np.zeros((1,) * 9, "f4"), ductile.ShapeError, "9 dims"),
            (np.zeros(5, "u1")[1:].view("f4"), ductile.ArgumentError, "aligned"),
            (object(), ductile.ArgumentError, "__dlpack__"),
            ([1.0, 2.0], ductile.ArgumentError, "list"),
            (None, ductile.ArgumentError, "NoneType"),
            ("text", ductile.ArgumentError, "str"),
        ]
        for value, error, text in cases:
            with self.assertRaises(error, msg=repr(value)) as caught:
                f(value)
            self.assertIn(text, str(caught.exception))
            self.assertIn("argument 0", str(caught.exception))

    def test_numbers(self):
        f = ductile.function(lambda x, n: ops.cast(n, "f32") * x,
                             inputs=[ductile.Input("x", "f32", []),
                                     ductile.Input("n", "i32", [], kind="integer")])
        self.assertEqual(float(f(1.5, 4)), 6.0)
        self.assertEqual(float(f(np.float32(1.5), np.int32(-4))), -6.0)
        self.assertEqual(float(f(2, True)), 2.0)
        for bad in (1 << 31, -(1 << 31) - 1, 0.5):
            with self.assertRaises(ductile.DtypeError):
                f(1.0, bad)
        with self.assertRaises(OverflowError):
            f(1.0, 1 << 70)
        self.assertEqual(int(identity("u8", 0)(255)), 255)
        with self.assertRaises(ductile.DtypeError):
            identity("u8", 0)(-1)
        self.assertEqual(int(identity("u64", 0)((1 << 64) - 1)), (1 << 64) - 1)
        self.assertEqual(int(identity("i64", 0)(-(1 << 63))), -(1 << 63))

    def test_results_own_memory(self):
        f = identity("f32", 1)
        x = np.arange(3, dtype="f4")
        y = f(x)
        x[:] = 9
        self.assertEqual(y.tolist(), [0, 1, 2])
        self.assertTrue(y.flags.writeable)
        tensor = f.run([x], tensors=True)
        view = memoryview(tensor)
        del tensor, f
        gc.collect()
        self.assertEqual(view.tolist(), [9, 9, 9])

    def test_tensor_keeps_array(self):
        class Array(np.ndarray):
            pass
        x = np.arange(3, dtype="f4").view(Array)
        watch = weakref.ref(x)
        tensor = ductile.tensor(x)
        del x
        gc.collect()
        self.assertIsNotNone(watch())
        self.assertEqual(memoryview(tensor).tolist(), [0, 1, 2])
        del tensor
        gc.collect()
        self.assertIsNone(watch())

    def test_out(self):
        f = ductile.function(lambda x: (x + 1, ops.sum(x)), outputs=2,
                             inputs=[ductile.Input("x", "f32", [None])])
        x, y = np.arange(3, dtype="f4"), np.zeros(3, "f4")
        given, total = f.run([x], out=[y, None])
        self.assertIs(given, y)
        self.assertEqual((y.tolist(), float(total)), ([1, 2, 3], 3))
        for bad, error in ((np.zeros(2, "f4"), ductile.ShapeError), (np.zeros(3, "f8"), ductile.DtypeError),
                           (x, ductile.ArgumentError), (np.zeros(6, "f4")[::2], ductile.ShapeError)):
            with self.assertRaises((error, ductile.ArgumentError)):
                f.run([x], out=[bad, None])
        with self.assertRaises(ductile.ArgumentError):
            f.run([x], out=[y])
        room = ductile.empty("f32", [3])
        self.assertIs(f.run({"x": x}, out=[room, None])[0], room)
        self.assertEqual(room.numpy().tolist(), [1, 2, 3])

    @unittest.skipIf(ml_dtypes is None, "no ml_dtypes")
    def test_few_bits(self):
        for name, ours in BITS.items():
            x = np.array([[1, 2, 0.5], [4, 8, 0.25]], getattr(ml_dtypes, name))
            for array in (x, x.T, x[:, ::2], x[:0]):
                y = identity(name, 2)(array)
                self.assertEqual(y.dtype, x.dtype)
                bits = f"u{x.itemsize}"
                self.assertTrue(same(y.view(bits), np.ascontiguousarray(array).view(bits)), name)
            bits = f"u{x.itemsize}"
            tensor = ductile.tensor(x.view(bits), ours)
            self.assertEqual(tensor.dtype, ours)
            self.assertTrue(same(tensor.bits().numpy(), x.view(bits)))
            self.assertTrue(same(tensor.numpy().view(bits), x.view(bits)))
            with self.assertRaises(BufferError):
                memoryview(tensor)
        with self.assertRaises(ductile.DtypeError) as caught:
            identity("i4", 1)(np.zeros(3, ml_dtypes.int4))
        self.assertIn("ductile.tensor", str(caught.exception))

    def test_packed(self):
        f = ductile.function(lambda x: ops.cast(x, "i8"), inputs=[ductile.Input("x", "i4", [None, None])])
        packed = np.array([[0x21, 0x0F], [0x78, 0x03]], "u1")
        x = ductile.tensor(packed, "i4", [2, 3])
        self.assertEqual(f(x).tolist(), [[1, 2, -1], [-8, 7, 3]])
        self.assertEqual((x.nbytes, x.bits().shape), (4, (2, 2)))
        back = ductile.function(lambda x: ops.cast(x, "i4"), inputs=[ductile.Input("x", "i8", [None, None])])
        self.assertEqual(back(f(x)).bits().numpy().tolist(), packed.tolist())
        for bad in ([2, 5], [1, 3], [9]):
            with self.assertRaises(ductile.ShapeError):
                ductile.tensor(packed, "i4", bad)
        with self.assertRaises(ductile.ArgumentError):
            ductile.tensor(packed, "i4")
        with self.assertRaises(ductile.UnsupportedError):
            x.numpy()


class Capsules(unittest.TestCase):
    """DLPack, by numpy and by hand."""

    def test_there_and_back(self):
        for name in DTYPES:
            if name == "bool" and NUMPY < (1, 25):
                continue  # it hands out none
            whole = (np.arange(60).reshape(3, 4, 5) % 7).astype(name)
            for array in views(whole):
                if array.flags.writeable:
                    tensor = ductile.from_dlpack(array)
                    back = np.from_dlpack(tensor)
                    self.assertTrue(same(back, array), name)
                    self.assertTrue(array.size == 0 or back.ctypes.data == array.ctypes.data)

    def test_old_capsule(self):
        tensor = ductile.tensor(np.arange(3, dtype="i4"))
        for version in ({}, {"max_version": None}, {"max_version": (0, 8)}, {"max_version": (1, 0)}):
            capsule = tensor.__dlpack__(**version)
            new = "versioned" in repr(capsule)
            self.assertEqual(new, version.get("max_version") == (1, 0))
            again = ductile.from_dlpack(capsule)
            self.assertEqual(memoryview(again).tolist(), [0, 1, 2])
            with self.assertRaises(ductile.ArgumentError) as caught:
                ductile.from_dlpack(capsule)
            self.assertIn("taken before", str(caught.exception))

    def test_unconsumed(self):
        x = np.arange(1 << 12, dtype="f4")
        for version in (None, (1, 1)):
            for _ in range(100):
                ductile.tensor(x).__dlpack__(max_version=version)

    def test_other_givers(self):
        class Old:
            """One that knows no versions."""
            def __init__(self, array):
                self.array = array

            def __dlpack__(self, stream=None):
                return self.array.__dlpack__()

            def __dlpack_device__(self):
                return (1, 0)
        class Broken:
            def __dlpack__(self, **_):
                raise RuntimeError("no elements today")
        x = np.arange(4, dtype="f4")
        self.assertTrue(same(identity("f32", 1)(Old(x)), x))
        with self.assertRaises(RuntimeError):
            identity("f32", 1)(Broken())
        with self.assertRaises(ductile.ArgumentError):
            ductile.from_dlpack(3)

    def test_asked_for_more(self):
        tensor = ductile.tensor(np.arange(3, dtype="i4"))
        for asked in ({"copy": True}, {"dl_device": (2, 0)}, {"dl_device": (1, 1)}):
            with self.assertRaises(BufferError):
                tensor.__dlpack__(max_version=(1, 0), **asked)
        self.assertEqual(tensor.__dlpack_device__(), (1, 0))
        tensor.__dlpack__(max_version=(1, 0), dl_device=(1, 0), copy=False, stream=None)
        with self.assertRaises(TypeError):
            tensor.__dlpack__(nothing=1)

    def test_deleter_runs_elsewhere(self):
        """Whoever took the elements may free them in any thread, without the interpreter's lock."""
        x = np.arange(3, dtype="f4")
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        rename = ctypes.pythonapi.PyCapsule_SetName
        rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
        capsule = ductile.tensor(x).__dlpack__(max_version=(1, 0))
        managed = get(capsule, b"dltensor_versioned")
        rename(capsule, b"used_dltensor_versioned")
        # version, context, deleter
        deleter = ctypes.cast(managed + 16, ctypes.POINTER(ctypes.c_void_p))[0]
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter)(managed)  # lets the lock go

    def test_torch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("no PyTorch")
        x = torch.arange(4, dtype=torch.float32)
        y = torch.from_dlpack(identity("f32", 1).run([x], tensors=True))
        self.assertTrue(torch.equal(x, y))


if __name__ == "__main__":
    main()
