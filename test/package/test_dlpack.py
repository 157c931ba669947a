# SPDX-License-Identifier: Apache-2.0
"""usage: test_dlpack.py LIBRARY. Arrays of numpy as tensors and back, through DLPack's structs, and
through its capsules where numpy has those of DLPack 1. Skipped (77) where numpy is not there."""

import ctypes
import sys

try:
    import numpy as np
except ImportError:
    print("SKIP: no numpy")
    sys.exit(77)
HAS_CAPSULES = tuple(int(part) for part in np.__version__.split(".")[:2]) >= (2, 1)

GIVEN, TAKEN = b"dltensor_versioned", b"used_dltensor_versioned"
python = ctypes.pythonapi
python.PyCapsule_GetPointer.restype = ctypes.c_void_p
python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_New.restype = ctypes.py_object
python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Options(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("read_only", ctypes.c_bool),
        ("session", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
    ]


class Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    """DLManagedTensorVersioned."""


Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(Managed))
Managed._fields_ = [
    ("version", ctypes.c_uint32 * 2),
    ("context", ctypes.c_void_p),
    ("deleter", Deleter),
    ("flags", ctypes.c_uint64),
    ("tensor", Tensor),
]
READ_ONLY = 1
CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}


def declare(library: ctypes.CDLL) -> None:
    """The arguments and results of the functions used here."""
    pointer = ctypes.POINTER(ctypes.c_void_p)
    library.dt_tensor_from_dlpack.restype = ctypes.c_void_p
    library.dt_tensor_from_dlpack.argtypes = [ctypes.c_void_p, pointer]
    library.dt_tensor_to_dlpack.restype = ctypes.c_void_p
    library.dt_tensor_to_dlpack.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    library.dt_tensor_release.argtypes = [ctypes.c_void_p]
    library.dt_tensor_data.restype = ctypes.c_void_p
    library.dt_tensor_data.argtypes = [ctypes.c_void_p]
    library.dt_status_message.restype = ctypes.c_char_p
    library.dt_status_message.argtypes = [ctypes.c_void_p]


class Given:
    """What numpy takes a tensor from."""

    def __init__(self, library: ctypes.CDLL, tensor: ctypes.c_void_p, read_only: bool):
        self.library, self.tensor, self.read_only = library, tensor, read_only

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **_):
        managed = ctypes.c_void_p()
        options = Options(ctypes.sizeof(Options), self.read_only)
        failed = self.library.dt_tensor_to_dlpack(
            self.tensor, ctypes.byref(options), ctypes.byref(managed)
        )
        assert not failed, self.library.dt_status_message(failed)
        return python.PyCapsule_New(managed, GIVEN, None)


def taken(library: ctypes.CDLL, array: np.ndarray) -> ctypes.c_void_p:
    """A tensor over an array's elements."""
    capsule, tensor = array.__dlpack__(max_version=(1, 1)), ctypes.c_void_p()
    managed = python.PyCapsule_GetPointer(capsule, GIVEN)
    failed = library.dt_tensor_from_dlpack(managed, ctypes.byref(tensor))
    if failed:
        raise TypeError(library.dt_status_message(failed).decode())
    python.PyCapsule_SetName(capsule, TAKEN)
    return tensor


class Owner:
    """An array's elements as a struct, and how often they were let go."""

    def __init__(self, array: np.ndarray):
        self.array, self.ended = array, 0
        self.sizes = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
        steps = [step // array.itemsize for step in array.strides]
        self.strides = (ctypes.c_int64 * max(array.ndim, 1))(*steps)
        self.deleter = Deleter(self.end)
        self.managed = Managed(
            (1, 1),
            None,
            self.deleter,
            0 if array.flags.writeable else READ_ONLY,
            Tensor(
                array.ctypes.data,
                (1, 0),
                array.ndim,
                CODES[array.dtype.kind],
                8 * array.itemsize,
                1,
                self.sizes,
                self.strides,
                0,
            ),
        )

    def end(self, _) -> None:
        self.ended += 1


def by_structs(library: ctypes.CDLL, array: np.ndarray, read_only: bool) -> None:
    """Fails where the struct that comes back is not the one that went, or is not let go once."""
    owner, tensor, back = Owner(array), ctypes.c_void_p(), ctypes.POINTER(Managed)()
    failed = library.dt_tensor_from_dlpack(ctypes.byref(owner.managed), ctypes.byref(tensor))
    if failed:
        raise TypeError(library.dt_status_message(failed).decode())
    options = Options(ctypes.sizeof(Options), read_only)
    failed = library.dt_tensor_to_dlpack(tensor, ctypes.byref(options), ctypes.byref(back))
    assert not failed, library.dt_status_message(failed)
    library.dt_tensor_release(tensor)
    given, got = owner.managed.tensor, back.contents.tensor
    assert tuple(back.contents.version)[0] == 1 and tuple(got.device) == (1, 0)
    assert (got.code, got.bits, got.lanes) == (given.code, given.bits, given.lanes), array.dtype
    sizes = tuple(got.sizes[: got.rank])
    assert sizes == array.shape, (sizes, array.shape)
    if array.size > 0:
        assert (got.data or 0) + got.byte_offset == array.ctypes.data
        for d, size in enumerate(sizes):
            assert size == 1 or got.strides[d] == given.strides[d], (d, array.strides)
    shut = read_only or not array.flags.writeable
    assert bool(back.contents.flags & READ_ONLY) == shut
    assert owner.ended == 0, "let go while somebody has it"
    back.contents.deleter(back)
    assert owner.ended == 1, owner.ended


def there_and_back(library: ctypes.CDLL, array: np.ndarray, read_only: bool) -> None:
    """Fails where the same elements do not come back, at the same place."""
    by_structs(library, array, read_only)
    if not HAS_CAPSULES:
        return
    tensor = taken(library, array)
    back = np.from_dlpack(Given(library, tensor, read_only))
    library.dt_tensor_release(tensor)
    assert back.dtype == array.dtype and back.shape == array.shape, (back.dtype, array.dtype)
    assert back.size == 0 or back.ctypes.data == array.ctypes.data
    assert np.array_equal(back, array), array.dtype
    assert back.flags.writeable == (array.flags.writeable and not read_only)


def main() -> int:
    library = ctypes.CDLL(sys.argv[1])
    declare(library)
    names = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64"
    for name in names.split():
        whole = np.arange(60).reshape(3, 4, 5).astype(name)
        for array in (whole, whole[:, ::2], whole.transpose(2, 0, 1), whole[::-1], whole[:0]):
            for read_only in (False, True):
                there_and_back(library, array, read_only)
        there_and_back(library, np.array(1, dtype=name), False)
    shut = np.zeros(3, dtype="float32")
    shut.flags.writeable = False
    there_and_back(library, shut, False)
    refused = np.zeros(3, dtype="complex64")
    ways = [lambda: by_structs(library, refused, False)]
    ways += [lambda: taken(library, refused)] if HAS_CAPSULES else []
    for way in ways:
        try:
            way()
        except TypeError as error:
            assert "complex" in str(error), error
        else:
            raise AssertionError("complex64 was taken")
    how = "by capsules and structs" if HAS_CAPSULES else "by structs alone"
    print("numpy", np.__version__, "there and back", how)
    return 0


if __name__ == "__main__":
    sys.exit(main())
