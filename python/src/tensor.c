// SPDX-License-Identifier: Apache-2.0
// The type Tensor: elements that the library or an array owns, given to others as a buffer, by
// DLPack and as an array of numpy, without a copy.
#include "python/src/dtype.h"

#include <stdlib.h>

#include "ductile/device.h"

static dt_py_tensor_t *of(PyObject *self) { return (dt_py_tensor_t *)self; }

PyObject *dt__py_tensor(dt_tensor_t *tensor, PyObject *session) {
  dt_py_tensor_t *self = dt__py_new(dt__py_types.tensor);
  if (!self) {
    dt_tensor_release(tensor);
    return NULL;
  }
  self->tensor = tensor;
  self->session = Py_XNewRef(session);
  return (PyObject *)self;
}

static void dealloc(PyObject *self) {
  dt_tensor_release(of(self)->tensor);
  Py_XDECREF(of(self)->session);
  dt__py_free(self);
}

// ---- Properties -----------------------------------------------------------------------------------

static PyObject *tuple_of(uint32_t n, const int64_t *numbers) {
  PyObject *tuple = PyTuple_New(n);
  for (uint32_t k = 0; tuple && k < n; k++) {
    PyObject *number = PyLong_FromLongLong(numbers[k]);
    if (!number || PyTuple_SetItem(tuple, k, number) < 0)
      Py_CLEAR(tuple);
  }
  return tuple;
}

static PyObject *get_shape(PyObject *self, void *unused) {
  (void)unused;
  return tuple_of(dt_tensor_rank(of(self)->tensor), dt_tensor_sizes(of(self)->tensor));
}
static PyObject *get_strides(PyObject *self, void *unused) {
  (void)unused;
  return tuple_of(dt_tensor_rank(of(self)->tensor), dt_tensor_strides(of(self)->tensor));
}
static PyObject *get_dtype(PyObject *self, void *unused) {
  (void)unused;
  return PyUnicode_FromString(dt_dtype_name(dt_tensor_dtype(of(self)->tensor)));
}
static PyObject *get_nbytes(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromSize_t(dt_tensor_bytes(of(self)->tensor));
}
static PyObject *get_device(PyObject *self, void *unused) {
  (void)unused;
  dt_device_t device = dt_tensor_device(of(self)->tensor);
  if (device == DT_CPU)
    return PyUnicode_FromString(dt_device_name(device));
  return PyUnicode_FromFormat("%s:%d", dt_device_name(device),
                              (int)dt_tensor_ordinal(of(self)->tensor));
}

static PyGetSetDef properties[] = {
    {"shape", get_shape, NULL, "The sizes.", NULL},
    {"strides", get_strides, NULL, "From one element to the next, in elements.", NULL},
    {"dtype", get_dtype, NULL, "The element type, such as \"f32\".", NULL},
    {"device", get_device, NULL,
     "Where the elements are: \"cpu\", or a device and its number behind a colon.", NULL},
    {"nbytes", get_nbytes, NULL, "Bytes of all elements, lying close together.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyObject *repr(PyObject *self) {
  PyObject *shape = get_shape(self, NULL);
  PyObject *device = get_device(self, NULL);
  PyObject *text = NULL;
  if (shape && device) {
    text = PyUnicode_FromFormat("ductile.Tensor(%s, %S, %S)",
                                dt_dtype_name(dt_tensor_dtype(of(self)->tensor)), shape, device);
  }
  Py_XDECREF(shape);
  Py_XDECREF(device);
  return text;
}

// ---- The buffer protocol ---------------------------------------------------------------------------

static bool is_contiguous(const dt_tensor_t *tensor) {
  int64_t expected = 1;
  for (uint32_t k = dt_tensor_rank(tensor); k-- > 0;) {
    int64_t size = dt_tensor_sizes(tensor)[k];
    if (size != 1 && dt_tensor_strides(tensor)[k] != expected)
      return dt_tensor_count(tensor) == 0;
    expected *= size;
  }
  return true;
}

static int refuse(const char *why) {
  PyErr_SetString(PyExc_BufferError, why);
  return -1;
}

static int get_buffer(PyObject *object, Py_buffer *view, int flags) {
  dt_py_tensor_t *self = of(object);
  dt_tensor_t *tensor = self->tensor;
  const dt_dtype_t dtype = dt_tensor_dtype(tensor);
  const char *format = dt__py_format_of(dtype);
  const uint32_t rank = dt_tensor_rank(tensor);
  const size_t item = dt_dtype_size(dtype);
  const bool whole = is_contiguous(tensor);
  view->obj = NULL;
  if (dt_tensor_device(tensor) != DT_CPU)
    return refuse("the elements are not in host memory: take them by DLPack");
  if (!format)
    return refuse("buffers have no elements of this type: see Tensor.bits");
  if ((flags & PyBUF_WRITABLE) && self->read_only)
    return refuse("the elements are read-only");
  if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && rank > 1)
    return refuse("the elements do not lie in Fortran's order");
  bool wants_whole = (flags & PyBUF_STRIDES) != PyBUF_STRIDES ||
                     (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS;
  if (wants_whole && !whole)
    return refuse("the elements have gaps between them");
  Py_ssize_t *numbers = malloc((2 * rank + 1) * sizeof(*numbers));
  if (!numbers) {
    PyErr_NoMemory();
    return -1;
  }
  Py_ssize_t next = (Py_ssize_t)item;
  for (uint32_t k = rank; k-- > 0;) {
    numbers[k] = dt_tensor_sizes(tensor)[k];
    numbers[rank + k] = whole ? next : dt_tensor_strides(tensor)[k] * (Py_ssize_t)item;
    next *= numbers[k] ? numbers[k] : 1;
  }
  view->buf = dt_tensor_data(tensor);
  view->len = dt_tensor_count(tensor) * (Py_ssize_t)item;
  view->itemsize = (Py_ssize_t)item;
  view->readonly = self->read_only;
  view->ndim = (int)rank;
  view->format = (flags & PyBUF_FORMAT) ? (char *)(uintptr_t)format : NULL;
  view->shape = (flags & PyBUF_ND) ? numbers : NULL;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? numbers + rank : NULL;
  view->suboffsets = NULL;
  view->internal = numbers;
  view->obj = Py_NewRef(object);
  return 0;
}

static void release_buffer(PyObject *object, Py_buffer *view) {
  (void)object;
  free(view->internal);
}

// ---- The same bits as another tensor ----------------------------------------------------------------

static void let_go(void *user) { dt_tensor_release(user); }

static PyObject *over(dt_py_tensor_t *self, dt_dtype_t dtype, uint32_t rank, const int64_t *sizes,
                      const int64_t *strides) {
  dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                           .dtype = dtype,
                           .device = dt_tensor_device(self->tensor),
                           .ordinal = dt_tensor_ordinal(self->tensor),
                           .rank = rank,
                           .sizes = sizes,
                           .strides = strides,
                           .data = dt_tensor_data(self->tensor),
                           .release = let_go,
                           .user = self->tensor};
  dt_tensor_t *made = NULL;
  dt_tensor_retain(self->tensor);
  if (!dt__py_ok(dt_tensor_create(&desc, &made))) {
    dt_tensor_release(self->tensor);
    return NULL;
  }
  PyObject *tensor = dt__py_tensor(made, self->session);
  if (tensor)
    of(tensor)->read_only = self->read_only;
  return tensor;
}

static PyObject *bits(PyObject *object, PyObject *unused) {
  (void)unused;
  static const dt_dtype_t of_bytes[9] = {[1] = DT_U8, [2] = DT_U16, [4] = DT_U32, [8] = DT_U64};
  dt_tensor_t *tensor = of(object)->tensor;
  const uint32_t rank = dt_tensor_rank(tensor), width = dt_dtype_bits(dt_tensor_dtype(tensor));
  if (width >= 8)
    return over(of(object), of_bytes[width / 8], rank, dt_tensor_sizes(tensor),
                dt_tensor_strides(tensor));
  int64_t sizes[DT_MAX_RANK] = {1};
  for (uint32_t k = 0; k < rank; k++)
    sizes[k] = dt_tensor_sizes(tensor)[k];
  if (rank > 0)
    sizes[rank - 1] = (sizes[rank - 1] * (int64_t)width + 7) / 8;
  return over(of(object), DT_U8, rank > 0 ? rank : 1, sizes, NULL);
}

static bool read_sizes(PyObject *object, int64_t *sizes, uint32_t *out_rank) {
  Py_ssize_t n = PySequence_Size(object);
  if (n < 0 || n > DT_MAX_RANK)
    return n < 0 ? false : dt__py_raise(DT_E_SHAPE, "a tensor has at most %d dims", DT_MAX_RANK);
  for (Py_ssize_t k = 0; k < n; k++) {
    PyObject *item = PySequence_GetItem(object, k);
    sizes[k] = item ? PyLong_AsLongLong(item) : -1;
    Py_XDECREF(item);
    if (PyErr_Occurred())
      return false;
  }
  *out_rank = (uint32_t)n;
  return true;
}

// tensor(array, dtype=None, shape=None): `dtype` says what the bits of unsigned integers are.
static PyObject *as_tensor(PyObject *module, PyObject *args, PyObject *keywords) {
  (void)module;
  static char *names[] = {"array", "dtype", "shape", NULL};
  PyObject *array, *name = Py_None, *shape = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|OO:tensor", names, &array, &name, &shape))
    return NULL;
  PyObject *kept = dt__py_keep(array, "array");
  if (!kept || name == Py_None)
    return kept;
  dt_tensor_t *tensor = of(kept)->tensor;
  dt_dtype_t dtype = dt__py_dtype(name), had = dt_tensor_dtype(tensor);
  PyObject *made = NULL;
  if (dtype == had && shape == Py_None)
    return kept;
  int64_t sizes[DT_MAX_RANK] = {0};
  uint32_t rank = dt_tensor_rank(tensor), width = dt_dtype_bits(dtype);
  if (dtype && width < 8 && (shape == Py_None || had != DT_U8 || !is_contiguous(tensor)))
    dt__py_raise(DT_E_ARGUMENT, "packed elements are given as contiguous u8, with their shape");
  else if (dtype && width >= 8 && (shape != Py_None || width != dt_dtype_bits(had)))
    dt__py_raise(DT_E_ARGUMENT, "%s and %s differ in width; cast in a program", dt_dtype_name(had),
                 dt_dtype_name(dtype));
  else if (dtype && width >= 8)
    made = over(of(kept), dtype, rank, dt_tensor_sizes(tensor), dt_tensor_strides(tensor));
  else if (dtype && read_sizes(shape, sizes, &rank))
    made = over(of(kept), dtype, rank, sizes, NULL);
  if (made && width < 8 && dt_tensor_bytes(of(made)->tensor) != dt_tensor_bytes(tensor)) {
    dt__py_raise(DT_E_SHAPE, "that shape takes %zu bytes; there are %zu",
                 dt_tensor_bytes(of(made)->tensor), dt_tensor_bytes(tensor));
    Py_CLEAR(made);
  }
  Py_DECREF(kept);
  return made;
}

static PyObject *from_dlpack(PyObject *module, PyObject *object) {
  (void)module;
  dt_tensor_t *tensor = dt__py_from_dlpack(object, "from_dlpack", NULL);
  return tensor ? dt__py_tensor_taken(tensor) : NULL;
}

static PyObject *empty(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *name, *shape;
  int64_t sizes[DT_MAX_RANK];
  uint32_t rank = 0;
  dt_tensor_t *tensor = NULL;
  if (!PyArg_ParseTuple(args, "OO:empty", &name, &shape))
    return NULL;
  dt_dtype_t dtype = dt__py_dtype(name);
  if (!dtype || !read_sizes(shape, sizes, &rank) ||
      !dt__py_ok(dt_tensor_create_empty(dtype, rank, sizes, &tensor)))
    return NULL;
  return dt__py_tensor(tensor, NULL);
}

// ---- Arrays of numpy -------------------------------------------------------------------------------

// numpy.from_dlpack and .asarray, or None: there is no numpy.
static PyObject *as_array;

static bool find_numpy(void) {
  if (as_array)
    return as_array != Py_None;
  PyObject *numpy = PyImport_ImportModule("numpy");
  if (numpy)
    as_array = PyObject_GetAttrString(numpy, "asarray");
  Py_XDECREF(numpy);
  if (!as_array) {
    PyErr_Clear();
    as_array = Py_NewRef(Py_None);
  }
  return as_array != Py_None;
}

// An array of what ml_dtypes adds to numpy; NULL without an exception where that is not there.
static PyObject *array_of_bits(PyObject *tensor, dt_dtype_t dtype) {
  PyObject *names = PyImport_ImportModule("ml_dtypes");
  PyObject *type = names ? PyObject_GetAttrString(names, dt__py_array_name(dtype)) : NULL;
  Py_XDECREF(names);
  if (!type) {
    PyErr_Clear();
    return NULL;
  }
  PyObject *seen = bits(tensor, NULL);
  PyObject *array = seen ? PyObject_CallFunctionObjArgs(as_array, seen, NULL) : NULL;
  PyObject *result = array ? PyObject_CallMethod(array, "view", "O", type) : NULL;
  Py_XDECREF(array);
  Py_XDECREF(seen);
  Py_DECREF(type);
  return result;
}

PyObject *dt__py_array(PyObject *object) {
  dt_tensor_t *tensor = of(object)->tensor;
  dt_dtype_t dtype = dt_tensor_dtype(tensor);
  if (dt_tensor_device(tensor) != DT_CPU || !find_numpy())
    return Py_NewRef(object);
  if (dt__py_format_of(dtype))
    return PyObject_CallFunctionObjArgs(as_array, object, NULL);
  PyObject *array = dt_dtype_bits(dtype) >= 8 ? array_of_bits(object, dtype) : NULL;
  return array || PyErr_Occurred() ? array : Py_NewRef(object);
}

// The elements on the host: waits for the session's work and copies where they are on a device.
static dt_tensor_t *read_back(dt_py_tensor_t *self) {
  dt_tensor_t *from = self->tensor, *to = NULL;
  dt_py_session_t *session = (dt_py_session_t *)self->session;
  if (!session || !session->session) {
    dt__py_raise(DT_E_STATE, "the session of these elements is closed; read them before");
    return NULL;
  }
  if (!dt__py_ok(dt_tensor_create_empty(dt_tensor_dtype(from), dt_tensor_rank(from),
                                        dt_tensor_sizes(from), &to)))
    return NULL;
  dt_status_t status;
  session->calls++;
  Py_BEGIN_ALLOW_THREADS;
  status = dt_tensor_read(session->session, from, dt_tensor_data(to), dt_tensor_bytes(to));
  Py_END_ALLOW_THREADS;
  session->calls--;
  if (dt__py_ok(status))
    return to;
  dt_tensor_release(to);
  return NULL;
}

static PyObject *numpy(PyObject *self, PyObject *unused) {
  (void)unused;
  PyObject *host = NULL;
  if (dt_tensor_device(of(self)->tensor) == DT_CPU)
    host = Py_NewRef(self);
  else {
    dt_tensor_t *copy = read_back(of(self));
    host = copy ? dt__py_tensor(copy, NULL) : NULL;
  }
  PyObject *array = host ? dt__py_array(host) : NULL;
  if (array && Py_TYPE(array) == dt__py_types.tensor) {
    Py_CLEAR(array);
    dt__py_raise(DT_E_UNSUPPORTED, "numpy has no elements of %s here: see Tensor.bits",
                 dt_dtype_name(dt_tensor_dtype(of(self)->tensor)));
  }
  Py_XDECREF(host);
  return array;
}

// ---- The module's part -----------------------------------------------------------------------------

static PyMethodDef methods[] = {
    {"numpy", numpy, METH_NOARGS,
     "numpy($self)\n--\n\n"
     "The elements as an array of numpy; copied from a device."},
    {"bits", bits, METH_NOARGS,
     "bits($self)\n--\n\n"
     "The bits of the elements as unsigned integers: of bf16 u16, of f8 and packed elements u8."},
    {"__dlpack__", (PyCFunction)(void (*)(void))dt__py_to_dlpack, METH_VARARGS | METH_KEYWORDS,
     "DLPack's capsule."},
    {"__dlpack_device__", dt__py_dlpack_device, METH_NOARGS, "DLPack's numbers of the device."},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef functions[] = {
    {"tensor", (PyCFunction)(void (*)(void))as_tensor, METH_VARARGS | METH_KEYWORDS,
     "tensor(array, dtype=None, shape=None)\n--\n\n"
     "A Tensor over an array's elements, without a copy."},
    {"from_dlpack", from_dlpack, METH_O,
     "from_dlpack(source, /)\n--\n\n"
     "A Tensor over what has __dlpack__, without a copy."},
    {"empty", empty, METH_VARARGS,
     "empty(dtype, shape, /)\n--\n\n"
     "A Tensor in host memory whose elements are not set."},
    {NULL, NULL, 0, NULL},
};

int dt__py_add_tensor(PyObject *module) {
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, dealloc},
      {Py_tp_repr, repr},
      {Py_tp_methods, methods},
      {Py_tp_getset, properties},
      {Py_bf_getbuffer, get_buffer},
      {Py_bf_releasebuffer, release_buffer},
      {Py_tp_doc, "Typed elements in memory; made by calls, tensor(), from_dlpack() and empty()."},
      {0, NULL},
  };
  static PyType_Spec spec = {"ductile.Tensor", sizeof(dt_py_tensor_t), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  return dt__py_add_type(module, &spec, &dt__py_types.tensor)
             ? PyModule_AddFunctions(module, functions)
             : -1;
}
