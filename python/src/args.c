// SPDX-License-Identifier: Apache-2.0
// Reads arguments of builders by the texts of builders.def.
#include "python/src/args.h"

#include <stdlib.h>
#include <string.h>

// One argument of a text.
typedef struct part_t {
  char letter;
  char name[24];
  char words[80];    // of a choice
  const char *given; // the default's text
  size_t n_given;
  bool has_default;
} part_t;

// Reads the next part; NULL: there is none.
static const char *next_part(const char *at, part_t *out) {
  at += strspn(at, ", ");
  if (!*at)
    return NULL;
  *out = (part_t){.letter = *at++};
  if (*at == '{') {
    size_t n = strcspn(at, "}");
    memcpy(out->words, at + 1, n - 1);
    at += n + 1;
  }
  at += strspn(at, " ");
  size_t n = strcspn(at, "=,");
  memcpy(out->name, at, n);
  at += n;
  if (*at == '=') {
    out->has_default = true;
    out->given = ++at;
    out->n_given = strcspn(at, ",");
    at += out->n_given;
  }
  return at;
}

// ---- One argument -----------------------------------------------------------------------------------

static bool read_number(PyObject *object, const part_t *part, dt_py_arg_t *out) {
  out->number = PyLong_AsLongLong(object);
  if (PyErr_Occurred())
    return false;
  bool fits = part->letter == 'u' ? out->number >= 0 && out->number <= UINT32_MAX
                                  : strcmp(part->name, "axis") != 0 ||
                                        (out->number >= INT32_MIN && out->number <= INT32_MAX);
  return fits || dt__py_raise(DT_E_ARGUMENT, "%s: %lld is out of range", part->name,
                              (long long)out->number);
}

static bool read_word(PyObject *object, const part_t *part, dt_py_arg_t *out) {
  dt_py_option_t row = {part->name, DT_PY_CHOICE, 0, part->words};
  uint32_t number;
  if (!dt__py_option(object, &row, &number))
    return false;
  out->number = number;
  return true;
}

static bool read_size_list(dt_trace_t *trace, PyObject *object, dt_py_arg_t *out) {
  bool one = PyLong_Check(object) || Py_TYPE(object) == dt__py_types.size;
  Py_ssize_t n = one ? 1 : PySequence_Size(object);
  out->sizes = n < 0 ? NULL : calloc((size_t)n + 1, sizeof(*out->sizes));
  if (!out->sizes)
    return n < 0 ? false : PyErr_NoMemory() != NULL;
  for (Py_ssize_t k = 0; k < n; k++) {
    PyObject *item = one ? Py_NewRef(object) : PySequence_GetItem(object, k);
    bool read = item && dt__py_as_size(trace, item, &out->sizes[k]);
    Py_XDECREF(item);
    if (!read)
      return false;
  }
  out->n = (uint32_t)n;
  return true;
}

static bool read_axes(PyObject *object, dt_py_arg_t *out) {
  bool one = PyLong_Check(object);
  Py_ssize_t n = object == Py_None ? 0 : one ? 1 : PySequence_Size(object);
  out->axes = n < 0 ? NULL : calloc((size_t)n + 1, sizeof(*out->axes));
  if (!out->axes)
    return n < 0 ? false : PyErr_NoMemory() != NULL;
  for (Py_ssize_t k = 0; k < n; k++) {
    PyObject *item = one ? Py_NewRef(object) : PySequence_GetItem(object, k);
    long long axis = item ? PyLong_AsLongLong(item) : 0;
    Py_XDECREF(item);
    if (PyErr_Occurred())
      return false;
    if (axis < INT32_MIN || axis > INT32_MAX)
      return dt__py_raise(DT_E_ARGUMENT, "axis %lld is out of range", axis);
    out->axes[k] = (int32_t)axis;
  }
  out->n = (uint32_t)n;
  return true;
}

static bool read_value_list(dt_trace_t *trace, PyObject *object, dt_dtype_t dtype,
                            dt_py_arg_t *out) {
  Py_ssize_t n = PySequence_Size(object);
  out->values = n < 0 ? NULL : calloc((size_t)n + 1, sizeof(*out->values));
  if (!out->values)
    return n < 0 ? false : PyErr_NoMemory() != NULL;
  for (Py_ssize_t k = 0; k < n; k++) {
    PyObject *item = PySequence_GetItem(object, k);
    bool read = item && dt__py_as_value(trace, item, dtype, &out->values[k]);
    Py_XDECREF(item);
    if (!read)
      return false;
  }
  out->n = (uint32_t)n;
  return true;
}

static bool read_part(dt_trace_t *trace, PyObject *object, const part_t *part, dt_dtype_t dtype,
                      dt_py_arg_t *out) {
  switch (part->letter) {
  case 'v':
    return dt__py_as_value(trace, object, dtype, &out->value);
  case 'p':
    return dt__py_as_value(trace, object, DT_BOOL, &out->value);
  case 'x':
    return dt__py_as_value(trace, object, DT_I64, &out->value);
  case 'o':
    return object == Py_None || dt__py_as_value(trace, object, DT_I64, &out->value);
  case 'V':
    return read_value_list(trace, object, dtype, out);
  case 'i':
  case 'u':
    return read_number(object, part, out);
  case 'b':
    out->number = PyObject_IsTrue(object);
    return out->number >= 0;
  case 'f':
    out->real = PyFloat_AsDouble(object);
    return !PyErr_Occurred();
  case 'd':
    out->dtype = dt__py_dtype(object);
    return out->dtype != DT_DTYPE_NONE;
  case 't':
    out->text = PyUnicode_AsUTF8AndSize(object, NULL);
    return out->text != NULL;
  case 's':
    return dt__py_as_size(trace, object, &out->size);
  case 'S':
    return read_size_list(trace, object, out);
  case 'A':
    return object == Py_None || read_size_list(trace, object, out);
  case 'a':
    return read_axes(object, out);
  default:
    return read_word(object, part, out);
  }
}

// A default as an object: a new reference.
static PyObject *default_of(const part_t *part) {
  char text[48] = {0};
  size_t n = part->n_given < sizeof(text) - 1 ? part->n_given : sizeof(text) - 1;
  memcpy(text, part->given, n);
  if (n == 0)
    return Py_NewRef(Py_None);
  if (part->letter == 'f')
    return PyFloat_FromDouble(strtod(text, NULL));
  if (part->letter == 'b')
    return PyBool_FromLong(text[0] == '1');
  if (strchr("ius", part->letter))
    return PyLong_FromLongLong(strtoll(text, NULL, 10));
  return PyUnicode_FromString(text);
}

// ---- All of them ------------------------------------------------------------------------------------

// The dtype that numbers among the operands take: that of the first Value.
static dt_dtype_t dtype_of(dt_trace_t *trace, PyObject *object) {
  dt_value_t value;
  if (!object || Py_TYPE(object) != dt__py_types.value ||
      !dt__py_as_value(trace, object, DT_DTYPE_NONE, &value))
    return DT_DTYPE_NONE;
  return dt_value_dtype(trace, value);
}

static PyObject *given(PyObject *args, PyObject *keywords, Py_ssize_t k, const char *name) {
  if (k < PyTuple_Size(args))
    return PyTuple_GetItem(args, k);
  return keywords ? PyDict_GetItemString(keywords, name) : NULL;
}

static dt_dtype_t find_dtype(dt_trace_t *trace, const char *spec, PyObject *args,
                             PyObject *keywords) {
  part_t part;
  dt_dtype_t dtype = DT_DTYPE_NONE;
  for (Py_ssize_t k = 0; !dtype && (spec = next_part(spec, &part)); k++) {
    PyObject *object = given(args, keywords, k, part.name);
    if (part.letter == 'v')
      dtype = dtype_of(trace, object);
    Py_ssize_t n = object && part.letter == 'V' ? PySequence_Size(object) : 0;
    for (Py_ssize_t item = 0; !dtype && item < n; item++) {
      PyObject *one = PySequence_GetItem(object, item);
      dtype = dtype_of(trace, one);
      Py_XDECREF(one);
    }
  }
  PyErr_Clear();
  return dtype;
}

bool dt__py_args(dt_trace_t *trace, const char *name, const char *spec, PyObject *args,
                 PyObject *keywords, dt_py_arg_t *out) {
  memset(out, 0, DT_PY_MOST_ARGS * sizeof(*out));
  dt_dtype_t dtype = find_dtype(trace, spec, args, keywords);
  Py_ssize_t k = 0, n = PyTuple_Size(args), used = 0;
  part_t part;
  for (; (spec = next_part(spec, &part)); k++) {
    PyObject *object = given(args, keywords, k, part.name);
    PyObject *named = keywords ? PyDict_GetItemString(keywords, part.name) : NULL;
    used += named != NULL;
    if (named && k < n) {
      PyErr_Format(PyExc_TypeError, "%s: %s is given twice", name, part.name);
      return false;
    }
    if (!object && !part.has_default) {
      PyErr_Format(PyExc_TypeError, "%s: %s is missing", name, part.name);
      return false;
    }
    PyObject *owned = object ? Py_NewRef(object) : default_of(&part);
    bool read = owned && read_part(trace, owned, &part, dtype, &out[k]);
    if (read && !object && part.letter == 't')
      out[k].text = part.given; // the last default of its text
    Py_XDECREF(owned);
    if (!read)
      return false;
  }
  if (n > k || (keywords && PyDict_Size(keywords) > used)) {
    PyErr_Format(PyExc_TypeError, "%s: there are %zd arguments, or one has another name", name, k);
    return false;
  }
  return true;
}

void dt__py_args_free(dt_py_arg_t *args) {
  for (size_t k = 0; k < DT_PY_MOST_ARGS; k++) {
    free(args[k].values);
    free(args[k].sizes);
    free(args[k].axes);
  }
}

PyObject *dt__py_args_signature(const char *spec) {
  PyObject *text = PyUnicode_FromString("");
  part_t part;
  while (text && (spec = next_part(spec, &part))) {
    PyObject *value = part.has_default ? default_of(&part) : NULL;
    PyObject *more =
        value ? PyUnicode_FromFormat("%U%s%s=%R", text, PyUnicode_GetLength(text) ? ", " : "",
                                     part.name, value)
              : PyUnicode_FromFormat("%U%s%s", text, PyUnicode_GetLength(text) ? ", " : "",
                                     part.name);
    Py_XDECREF(value);
    Py_DECREF(text);
    text = more;
  }
  return text;
}
