// SPDX-License-Identifier: Apache-2.0
// Arrays of others as tensors: Tensors, what has a buffer, what speaks DLPack, and numbers. Nothing
// is copied; what does not fit is refused by name.
#include "python/src/dtype.h"

#include <stdlib.h>
#include <string.h>

// The dtype of an array of ml_dtypes, of which numpy gives no buffer; DT_DTYPE_NONE: it is none.
static dt_dtype_t dtype_of_bits(PyObject *object) {
  PyObject *dtype = PyObject_GetAttrString(object, "dtype");
  dt_dtype_t found = dtype ? dt__py_dtype(dtype) : DT_DTYPE_NONE;
  Py_XDECREF(dtype);
  PyErr_Clear();
  return found && !dt__py_format_of(found) ? found : DT_DTYPE_NONE;
}

// The buffer of the integers of the same bits; false without an exception where there is none.
static bool buffer_of_bits(PyObject *object, const char *what, int flags, Py_buffer *view,
                           dt_dtype_t *out_dtype) {
  *out_dtype = dtype_of_bits(object);
  if (!*out_dtype)
    return false;
  uint32_t bits = dt_dtype_bits(*out_dtype);
  if (bits != 8 && bits != 16) {
    return dt__py_raise(DT_E_DTYPE,
                        "%s: arrays have a byte for each %s, tensors do not: give "
                        "ductile.tensor(packed, \"%s\", shape)",
                        what, dt__py_array_name(*out_dtype), dt_dtype_name(*out_dtype));
  }
  PyObject *seen = PyObject_CallMethod(object, "view", "s", bits == 8 ? "u1" : "u2");
  if (!seen)
    return false;
  int failed = PyObject_GetBuffer(seen, view, flags);
  Py_DECREF(seen);
  return failed == 0;
}

static bool get_buffer(PyObject *object, bool writable, const char *what, Py_buffer *view,
                       dt_dtype_t *out_dtype) {
  int flags = PyBUF_STRIDES | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
  view->obj = NULL;
  if (PyObject_GetBuffer(object, view, flags) == 0) {
    *out_dtype = dt__py_dtype_of_format(view->format, view->itemsize);
    if (*out_dtype)
      return true;
    dt__py_raise(DT_E_DTYPE,
                 "%s: elements of format \"%s\" with %zd bytes; expected numbers or bools in the "
                 "machine's order of bytes",
                 what, view->format ? view->format : "B", view->itemsize);
    PyBuffer_Release(view);
    return false;
  }
  view->obj = NULL;
  PyObject *type, *error, *back;
  PyErr_Fetch(&type, &error, &back);
  bool found = buffer_of_bits(object, what, flags, view, out_dtype);
  if (!found && !PyErr_Occurred()) {
    PyErr_NormalizeException(&type, &error, &back);
    dt__py_raise(DT_E_ARGUMENT, "%s: %S", what, error);
  }
  Py_XDECREF(type);
  Py_XDECREF(error);
  Py_XDECREF(back);
  return found;
}

// Sizes and strides of a view, as a tensor has them.
static bool describe(const Py_buffer *view, dt_dtype_t dtype, const char *what, int64_t *sizes,
                     int64_t *strides, dt_tensor_desc_t *out) {
  if (view->ndim > DT_MAX_RANK) {
    return dt__py_raise(DT_E_SHAPE, "%s: %d dims; a tensor has at most %d", what, view->ndim,
                        DT_MAX_RANK);
  }
  for (int k = 0; k < view->ndim; k++) {
    sizes[k] = view->shape[k];
    strides[k] = view->strides[k] / view->itemsize;
    if (view->strides[k] % view->itemsize != 0 && sizes[k] > 1) {
      return dt__py_raise(DT_E_SHAPE,
                          "%s: a stride of %zd bytes in dim %d is no multiple of its elements' %zd",
                          what, view->strides[k], k, view->itemsize);
    }
  }
  *out = (dt_tensor_desc_t){.struct_size = sizeof(*out),
                            .dtype = dtype,
                            .rank = (uint32_t)view->ndim,
                            .sizes = sizes,
                            .strides = strides,
                            .data = view->buf};
  return true;
}

// Raises a failure with `what` in front of its text.
static bool made(dt_status_t status, const char *what) {
  if (!status)
    return true;
  dt__py_raise(dt_status_code(status), "%s: %s", what, dt_status_message(status));
  dt_status_free(status);
  return false;
}

static bool borrow_number(PyObject *object, dt_dtype_t dtype, const char *what,
                          dt_py_borrowed_t *out) {
  const uint32_t bits = dt_dtype_bits(dtype);
  const char *format = dt__py_format_of(dtype);
  if (!format || dtype == DT_F16 || (PyFloat_Check(object) && dtype != DT_F32 && dtype != DT_F64)) {
    return dt__py_raise(DT_E_DTYPE, "%s: %R is no %s; give an array", what, object,
                        dt_dtype_name(dtype));
  }
  if (dtype == DT_F32 || dtype == DT_F64) {
    double number = PyFloat_AsDouble(object);
    float narrow = (float)number;
    if (PyErr_Occurred())
      return false;
    memcpy(&out->number, dtype == DT_F64 ? (void *)&number : (void *)&narrow, bits / 8);
  } else if (dtype == DT_U64) {
    uint64_t number = PyLong_AsUnsignedLongLong(object);
    if (PyErr_Occurred())
      return false;
    memcpy(&out->number, &number, sizeof(number));
  } else {
    int64_t number = PyLong_AsLongLong(object);
    if (PyErr_Occurred())
      return false;
    bool is_signed = strchr("bhiq", *format) != NULL;
    int64_t most = dtype == DT_BOOL ? 1
                   : bits == 64     ? INT64_MAX
                                    : (INT64_C(1) << (bits - is_signed)) - 1;
    int64_t least = is_signed ? -most - 1 : 0;
    if (number < least || number > most) {
      return dt__py_raise(DT_E_DTYPE, "%s: %lld is no %s", what, (long long)number,
                          dt_dtype_name(dtype));
    }
    out->number = number; // the low bytes come first
  }
  dt_tensor_desc_t desc = {.struct_size = sizeof(desc), .dtype = dtype, .data = &out->number};
  return made(dt_tensor_create(&desc, &out->tensor), what);
}

bool dt__py_borrow(PyObject *object, dt_dtype_t dtype, bool writable, const char *what,
                   void *stream, dt_py_borrowed_t *out) {
  out->tensor = NULL;
  out->view.obj = NULL;
  if (Py_TYPE(object) == dt__py_types.tensor) {
    out->tensor = ((dt_py_tensor_t *)object)->tensor;
    dt_tensor_retain(out->tensor);
    return true;
  }
  if (PyObject_CheckBuffer(object)) {
    int64_t sizes[DT_MAX_RANK], strides[DT_MAX_RANK];
    dt_tensor_desc_t desc;
    dt_dtype_t found;
    if (!get_buffer(object, writable, what, &out->view, &found))
      return false;
    if (describe(&out->view, found, what, sizes, strides, &desc) &&
        made(dt_tensor_create(&desc, &out->tensor), what))
      return true;
    PyBuffer_Release(&out->view);
    return false;
  }
  if (dtype && !writable &&
      (PyBool_Check(object) || PyLong_CheckExact(object) || PyFloat_CheckExact(object)))
    return borrow_number(object, dtype, what, out);
  out->tensor = dt__py_from_dlpack(object, what, stream);
  return out->tensor != NULL;
}

void dt__py_give_back(dt_py_borrowed_t *borrowed, size_t n) {
  for (size_t k = 0; k < n; k++) {
    dt_tensor_release(borrowed[k].tensor);
    if (borrowed[k].view.obj)
      PyBuffer_Release(&borrowed[k].view);
  }
}

// ---- Kept ---------------------------------------------------------------------------------------

static void let_go(void *user) {
  Py_buffer *view = user;
  if (Py_IsInitialized()) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyBuffer_Release(view);
    PyGILState_Release(state);
  }
  free(view);
}

static dt_tensor_t *keep_buffer(PyObject *object, const char *what, bool *out_read_only) {
  int64_t sizes[DT_MAX_RANK], strides[DT_MAX_RANK];
  dt_tensor_desc_t desc;
  dt_dtype_t dtype;
  dt_tensor_t *tensor = NULL;
  Py_buffer *view = malloc(sizeof(*view));
  if (!view) {
    PyErr_NoMemory();
    return NULL;
  }
  if (!get_buffer(object, false, what, view, &dtype)) {
    free(view);
    return NULL;
  }
  *out_read_only = view->readonly;
  if (describe(view, dtype, what, sizes, strides, &desc)) {
    desc.release = let_go;
    desc.user = view;
    if (made(dt_tensor_create(&desc, &tensor), what))
      return tensor;
  }
  PyBuffer_Release(view);
  free(view);
  return NULL;
}

PyObject *dt__py_keep(PyObject *object, const char *what) {
  if (Py_TYPE(object) == dt__py_types.tensor)
    return Py_NewRef(object);
  if (!PyObject_CheckBuffer(object)) {
    dt_tensor_t *taken = dt__py_from_dlpack(object, what, NULL);
    return taken ? dt__py_tensor_taken(taken) : NULL;
  }
  bool read_only = false;
  dt_tensor_t *tensor = keep_buffer(object, what, &read_only);
  PyObject *kept = tensor ? dt__py_tensor(tensor, NULL) : NULL;
  if (kept)
    ((dt_py_tensor_t *)kept)->read_only = read_only;
  return kept;
}
