# SPDX-License-Identifier: Apache-2.0
"""The library by ctypes: open a model, bind inputs and results, call. No more than benchmarks need."""
import ctypes
import json

import numpy as np
from ml_dtypes import bfloat16

# dt_dtype_t
DTYPES = {np.dtype(kind): number for number, kind in enumerate(
    (np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
     np.float16, bfloat16, np.float32, np.float64), start=1)}
KINDS = {number: kind for kind, number in DTYPES.items()}
ACCESS_MAP = 1
ALIGNMENT = 64
c_size, c_pointer = ctypes.c_int64, ctypes.c_void_p


class Refused(Exception):
    """What the library says of a call."""


def structure(name, fields):
    """A struct of the public headers, `fields` as they stand there, behind its struct_size."""
    fields = [("struct_size", ctypes.c_uint32), *fields]
    made = type(name, (ctypes.Structure,), {"_fields_": fields})
    return lambda **values: made(struct_size=ctypes.sizeof(made), **values)


u32, u64 = ctypes.c_uint32, ctypes.c_uint64
runtime_options = structure("dt_runtime_options_t", [
    ("threads", u32), ("compile_threads", u32), ("max_nodes", u32), ("max_compile_ns", u64),
    ("max_compile_bytes", u64), ("max_bytes", u64), ("isolation", ctypes.c_int),
    ("worker_path", ctypes.c_char_p), ("max_device_bytes", u64)])
onnx_options = structure("dt_onnx_options_t", [
    ("access", ctypes.c_int), ("max_file_bytes", u64), ("max_structure_bytes", u64),
    ("max_nodes", u32), ("max_tensors", u32), ("max_depth", u32), ("data_folder", ctypes.c_char_p),
    ("max_external_bytes", u64), ("deadline_ns", ctypes.c_int64), ("cancel", c_pointer)])
tensor_desc = structure("dt_tensor_desc_t", [
    ("dtype", ctypes.c_int), ("device", ctypes.c_int), ("rank", u32),
    ("sizes", ctypes.POINTER(c_size)), ("strides", ctypes.POINTER(c_size)), ("data", c_pointer),
    ("release", c_pointer), ("user", c_pointer), ("ordinal", ctypes.c_int32)])


def empty(shape, dtype):
    """An array whose data lie as the library's own do."""
    dtype = np.dtype(dtype)
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = np.empty(count + ALIGNMENT, np.uint8)
    at = -raw.ctypes.data % ALIGNMENT
    return raw[at:at + count].view(dtype).reshape(shape)


def aligned(array):
    array = np.asarray(array)
    copy = empty(array.shape, array.dtype)
    copy[...] = array
    return copy


class Library:
    def __init__(self, path):
        self.so = ctypes.CDLL(path)
        for name in ("dt_version", "dt_status_message", "dt_onnx_input_name", "dt_onnx_output_name"):
            getattr(self.so, name).restype = ctypes.c_char_p
        for name in ("dt_runtime_create", "dt_session_create", "dt_onnx_open", "dt_call",
                     "dt_onnx_function_create", "dt_tensor_create", "dt_function_stats_json"):
            getattr(self.so, name).restype = c_pointer
        self.so.dt_tensor_sizes.restype = ctypes.POINTER(c_size)
        self.so.dt_tensor_data.restype = c_pointer

    def check(self, status):
        if status:
            message = self.so.dt_status_message(c_pointer(status)).decode(errors="replace")
            self.so.dt_status_free(c_pointer(status))
            raise Refused(message)

    def version(self):
        return self.so.dt_version().decode()

    def make(self, function, *arguments):
        """What a function gives in its last place."""
        out = c_pointer()
        self.check(function(*arguments, ctypes.byref(out)))
        return out

    def tensor(self, array):
        """A tensor over the array's memory, which must stay."""
        desc = tensor_desc(dtype=DTYPES[array.dtype], rank=array.ndim, data=array.ctypes.data,
                           sizes=(c_size * max(1, array.ndim))(*array.shape))
        return self.make(self.so.dt_tensor_create, ctypes.byref(desc))

    def array(self, tensor):
        """A copy of a tensor's elements."""
        sizes = self.so.dt_tensor_sizes(tensor)
        shape = [sizes[d] for d in range(self.so.dt_tensor_rank(tensor))]
        result = empty(shape, KINDS[self.so.dt_tensor_dtype(tensor)])
        if result.nbytes:
            ctypes.memmove(result.ctypes.data, self.so.dt_tensor_data(tensor), result.nbytes)
        return result


class Function:
    """A model's function in a session of its own."""

    def __init__(self, library, path, threads):
        self.library, so = library, library.so
        about, access = runtime_options(threads=threads), onnx_options(access=ACCESS_MAP)
        self.runtime = library.make(so.dt_runtime_create, ctypes.byref(about))
        self.session = library.make(so.dt_session_create, self.runtime, None)
        model = library.make(so.dt_onnx_open, str(path).encode(), ctypes.byref(access))
        self.inputs = [so.dt_onnx_input_name(model, k).decode()
                       for k in range(so.dt_onnx_n_inputs(model))]
        self.outputs = [so.dt_onnx_output_name(model, k).decode()
                        for k in range(so.dt_onnx_n_outputs(model))]
        try:
            self.function = library.make(so.dt_onnx_function_create, self.runtime, model, None)
        finally:
            so.dt_onnx_close(model)
        self.tensors, self.arrays = (), ()

    def first(self, inputs):
        """Binds the inputs, calls, and gives the results; later calls write over them in place."""
        self.release()
        so, n = self.library.so, len(self.outputs)
        self.kept = [aligned(inputs[name]) for name in self.inputs]
        self.tensors = [self.library.tensor(array) for array in self.kept]
        self.ins = (c_pointer * max(1, len(self.tensors)))(*(t.value for t in self.tensors))
        self.outs = (c_pointer * max(1, n))()
        self.call()
        made = [c_pointer(value) for value in self.outs[:n]]
        self.arrays = [self.library.array(tensor) for tensor in made]
        answers = [array.copy() for array in self.arrays]
        for tensor in made:
            so.dt_tensor_release(tensor)
        bound = [self.library.tensor(array) for array in self.arrays]
        self.tensors += bound
        self.outs = (c_pointer * max(1, n))(*(t.value for t in bound))
        return dict(zip(self.outputs, answers))

    def call(self):
        status = self.library.so.dt_call(self.session, self.function, self.ins, len(self.inputs),
                                         self.outs, len(self.outputs), None)
        if status:
            self.library.check(status)

    def stats(self):
        text = self.library.make(self.library.so.dt_function_stats_json, self.function)
        found = json.loads(ctypes.string_at(text))
        self.library.so.dt_text_free(text)
        return found

    def release(self):
        for tensor in self.tensors:
            self.library.so.dt_tensor_release(tensor)
        self.tensors = []
