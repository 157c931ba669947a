// SPDX-License-Identifier: Apache-2.0
// Names of element types: the library's, and those that numpy and ml_dtypes use.
#include "python/src/dtype.h"

#include <string.h>

static const char *const array_names[] = {
    [DT_BOOL] = "bool",
    [DT_I8] = "int8",
    [DT_I16] = "int16",
    [DT_I32] = "int32",
    [DT_I64] = "int64",
    [DT_U8] = "uint8",
    [DT_U16] = "uint16",
    [DT_U32] = "uint32",
    [DT_U64] = "uint64",
    [DT_F16] = "float16",
    [DT_BF16] = "bfloat16",
    [DT_F32] = "float32",
    [DT_F64] = "float64",
    [DT_F8E4M3FN] = "float8_e4m3fn",
    [DT_F8E5M2] = "float8_e5m2",
    [DT_F8E4M3FNUZ] = "float8_e4m3fnuz",
    [DT_F8E5M2FNUZ] = "float8_e5m2fnuz",
    [DT_F8E8M0] = "float8_e8m0fnu",
    [DT_F4E2M1] = "float4_e2m1fn",
    [DT_I4] = "int4",
    [DT_U4] = "uint4",
    [DT_I2] = "int2",
    [DT_U2] = "uint2",
};
enum { N_DTYPES = sizeof(array_names) / sizeof(array_names[0]) };

// What a letter of the buffer protocol is, whose width is that of the item.
static const struct {
  const char *letters;
  dt_dtype_t of_bytes[9]; // by the bytes of an item
} formats[] = {
    {"?", {[1] = DT_BOOL}},
    {"bhilqn", {[1] = DT_I8, [2] = DT_I16, [4] = DT_I32, [8] = DT_I64}},
    {"BHILQN", {[1] = DT_U8, [2] = DT_U16, [4] = DT_U32, [8] = DT_U64}},
    {"efd", {[2] = DT_F16, [4] = DT_F32, [8] = DT_F64}},
};

dt_dtype_t dt__py_dtype_of_format(const char *format, Py_ssize_t bytes) {
  if (!format)
    format = "B";
  if (*format == '@' || *format == '=' || *format == '<' || *format == '|')
    format++;
  if (!format[0] || format[1] || bytes < 1 || bytes > 8)
    return DT_DTYPE_NONE;
  for (size_t k = 0; k < sizeof(formats) / sizeof(formats[0]); k++) {
    if (strchr(formats[k].letters, *format))
      return formats[k].of_bytes[bytes];
  }
  return DT_DTYPE_NONE;
}

const char *dt__py_format_of(dt_dtype_t dtype) {
  static const char *const letters[N_DTYPES] = {
      [DT_BOOL] = "?", [DT_I8] = "b",  [DT_I16] = "h", [DT_I32] = "i",
      [DT_I64] = "q",  [DT_U8] = "B",  [DT_U16] = "H", [DT_U32] = "I",
      [DT_U64] = "Q",  [DT_F16] = "e", [DT_F32] = "f", [DT_F64] = "d",
  };
  return (unsigned)dtype < N_DTYPES ? letters[dtype] : NULL;
}

const char *dt__py_array_name(dt_dtype_t dtype) {
  return (unsigned)dtype < N_DTYPES ? array_names[dtype] : NULL;
}

dt_dtype_t dt__py_dtype_named(const char *name) {
  for (int k = 1; k < N_DTYPES; k++) {
    if (strcmp(name, array_names[k]) == 0 || strcmp(name, dt_dtype_name((dt_dtype_t)k)) == 0)
      return (dt_dtype_t)k;
  }
  return DT_DTYPE_NONE;
}

dt_dtype_t dt__py_dtype(PyObject *object) {
  static const char *const attributes[] = {"name", "__name__"};
  PyObject *name = NULL;
  if (PyUnicode_Check(object))
    name = Py_NewRef(object);
  for (size_t k = 0; !name && k < sizeof(attributes) / sizeof(attributes[0]); k++) {
    name = PyObject_GetAttrString(object, attributes[k]);
    if (!name)
      PyErr_Clear();
  }
  const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
  dt_dtype_t dtype = text ? dt__py_dtype_named(text) : DT_DTYPE_NONE;
  if (!dtype && !PyErr_Occurred())
    dt__py_raise(DT_E_DTYPE, "%R is no element type; there are f32, float32 and others", object);
  Py_XDECREF(name);
  return dtype;
}
