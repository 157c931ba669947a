// SPDX-License-Identifier: Apache-2.0
// Keywords as fields of the library's structs of options, by tables.
#include "python/src/core.h"

#include <string.h>
#include <time.h>

#define AT(type, field) offsetof(type, field), NULL
#define OF(type, field, choices) offsetof(type, field), choices

const dt_py_option_t dt__py_function_options[] = {
    {"name", DT_PY_TEXT, AT(dt_function_options_t, name)},
    {"answer", DT_PY_CHOICE, OF(dt_function_options_t, answer, "compiled evaluator")},
    {"variant_limit", DT_PY_U32, AT(dt_function_options_t, variant_limit)},
    {"strict_fp", DT_PY_BOOL, AT(dt_function_options_t, strict_fp)},
    {"dynamic", DT_PY_CHOICE, OF(dt_function_options_t, dynamic, "symbolic automatic static")},
    {"limit_action", DT_PY_CHOICE,
     OF(dt_function_options_t, limit_action, "generic error evaluator")},
    {"compile_limit", DT_PY_U32, AT(dt_function_options_t, compile_limit)},
    {"call_mode", DT_PY_CHOICE,
     OF(dt_function_options_t, call_mode, "default plain reduce-overhead")},
    {"max_call_bytes", DT_PY_U64, AT(dt_function_options_t, max_call_bytes)},
    {"passes", DT_PY_TEXT, AT(dt_function_options_t, passes)},
    {"hot_percent", DT_PY_U64, AT(dt_function_options_t, hot_percent)},
    DT_PY_END,
};

const dt_py_option_t dt__py_dim_options[] = {
    {"name", DT_PY_TEXT, AT(dt_dim_decl_t, name)},
    {"min", DT_PY_I64, AT(dt_dim_decl_t, min)},
    {"max", DT_PY_I64, AT(dt_dim_decl_t, max)},
    {"value", DT_PY_I64, AT(dt_dim_decl_t, value)},
    {"is_static", DT_PY_BOOL, AT(dt_dim_decl_t, is_static)},
    {"mark", DT_PY_CHOICE, OF(dt_dim_decl_t, mark, "none dynamic maybe_dynamic static unbacked")},
    {"multiple_of", DT_PY_I64, AT(dt_dim_decl_t, multiple_of)},
    {"of", DT_PY_TEXT, AT(dt_dim_decl_t, of)},
    {"scale", DT_PY_I64, AT(dt_dim_decl_t, scale)},
    {"offset", DT_PY_I64, AT(dt_dim_decl_t, offset)},
    DT_PY_END,
};

const dt_py_option_t dt__py_prepare_options[] = {
    {"form", DT_PY_CHOICE, OF(dt_prepare_options_t, form, "best first")},
    {"layouts", DT_PY_CHOICE64, OF(dt_prepare_options_t, layouts, "contiguous rows strided")},
    {"timeout", DT_PY_TIMEOUT, AT(dt_prepare_options_t, deadline_ns)},
    {"cancel", DT_PY_CANCEL, AT(dt_prepare_options_t, cancel)},
    DT_PY_END,
};

const dt_py_option_t dt__py_call_options[] = {
    {"mode", DT_PY_CHOICE, OF(dt_call_options_t, mode, "default plain reduce-overhead")},
    {"timeout", DT_PY_TIMEOUT, AT(dt_call_options_t, deadline_ns)},
    {"cancel", DT_PY_CANCEL, AT(dt_call_options_t, cancel)},
    DT_PY_END,
};

// The number of a name among those of a choice; -1: none.
static int choice(const char *choices, const char *name) {
  size_t length = strlen(name);
  int number = 0;
  for (const char *at = choices; *at; number++) {
    size_t n = strcspn(at, " ");
    if (n == length && memcmp(at, name, n) == 0)
      return number;
    at += n + (at[n] == ' ');
  }
  return -1;
}

static bool set_choice(PyObject *value, const dt_py_option_t *row, void *field) {
  const char *name = PyUnicode_AsUTF8AndSize(value, NULL);
  if (!name)
    return false;
  int number = choice(row->choices, name);
  if (number < 0) {
    PyErr_Format(PyExc_ValueError, "%s: \"%s\"; expected one of: %s", row->name, name,
                 row->choices);
    return false;
  }
  if (row->kind == DT_PY_CHOICE64)
    *(uint64_t *)field = (uint64_t)number;
  else
    *(uint32_t *)field = (uint32_t)number;
  return true;
}

static bool set_number(PyObject *value, const dt_py_option_t *row, void *field) {
  if (row->kind == DT_PY_I64) {
    *(int64_t *)field = PyLong_AsLongLong(value);
    return !PyErr_Occurred();
  }
  uint64_t number = PyLong_AsUnsignedLongLong(value);
  if (PyErr_Occurred())
    return false;
  if (row->kind == DT_PY_U64) {
    *(uint64_t *)field = number;
    return true;
  }
  if (number > UINT32_MAX) {
    PyErr_Format(PyExc_OverflowError, "%s: %llu is too large", row->name,
                 (unsigned long long)number);
    return false;
  }
  *(uint32_t *)field = (uint32_t)number;
  return true;
}

static bool set_timeout(PyObject *value, int64_t *out) {
  if (value == Py_None)
    return true;
  double seconds = PyFloat_AsDouble(value);
  if (PyErr_Occurred())
    return false;
  if (!(seconds >= 0)) {
    PyErr_SetString(PyExc_ValueError, "timeout: expected seconds, 0 or more");
    return false;
  }
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  int64_t ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
  // More than a century is no deadline.
  *out = seconds > 4e9 ? 0 : ns + (int64_t)(seconds * 1e9);
  return true;
}

static bool set_cancel(PyObject *value, const dt_cancel_t **out) {
  if (value == Py_None)
    return true;
  if (!PyObject_TypeCheck(value, dt__py_types.cancel)) {
    PyErr_SetString(PyExc_TypeError, "cancel: expected a ductile.Cancel");
    return false;
  }
  *out = &((dt_py_cancel_t *)value)->flag;
  return true;
}

bool dt__py_option(PyObject *value, const dt_py_option_t *row, void *target) {
  void *field = (char *)target + row->offset;
  switch (row->kind) {
  case DT_PY_U32:
  case DT_PY_U64:
  case DT_PY_I64:
    return set_number(value, row, field);
  case DT_PY_BOOL: {
    int truth = PyObject_IsTrue(value);
    *(bool *)field = truth > 0;
    return truth >= 0;
  }
  case DT_PY_TEXT: {
    const char *text = value == Py_None ? NULL : PyUnicode_AsUTF8AndSize(value, NULL);
    *(const char **)field = text;
    return text || value == Py_None;
  }
  case DT_PY_CHOICE:
  case DT_PY_CHOICE64:
    return set_choice(value, row, field);
  case DT_PY_DTYPE: {
    dt_dtype_t dtype = value == Py_None ? DT_DTYPE_NONE : dt__py_dtype(value);
    *(dt_dtype_t *)field = dtype;
    return dtype != DT_DTYPE_NONE || value == Py_None;
  }
  case DT_PY_TIMEOUT:
    return set_timeout(value, field);
  case DT_PY_CANCEL:
    return set_cancel(value, field);
  }
  return true;
}

bool dt__py_options(PyObject *keywords, const dt_py_options_t *groups, size_t n, const char *what) {
  PyObject *key, *value;
  Py_ssize_t at = 0;
  while (keywords && PyDict_Next(keywords, &at, &key, &value)) {
    const char *name = PyUnicode_AsUTF8AndSize(key, NULL);
    if (!name)
      return false;
    bool found = false;
    for (size_t k = 0; k < n; k++) {
      for (const dt_py_option_t *row = groups[k].rows; row->name; row++) {
        if (strcmp(row->name, name) != 0)
          continue;
        if (!dt__py_option(value, row, groups[k].target))
          return false;
        found = true;
      }
    }
    if (!found) {
      PyErr_Format(PyExc_TypeError, "%s: there is no option %s", what, name);
      return false;
    }
  }
  return true;
}

bool dt__py_dim(PyObject *object, PyObject *kept, dt_dim_decl_t *out) {
  *out = (dt_dim_decl_t)DT_ZERO;
  if (object == Py_None)
    return true;
  if (PyLong_Check(object)) {
    out->value = PyLong_AsLongLong(object);
    out->is_static = true;
    return !PyErr_Occurred();
  }
  if (PyUnicode_Check(object)) {
    out->name = PyUnicode_AsUTF8AndSize(object, NULL);
    return out->name != NULL;
  }
  PyObject *fields = PyObject_GetAttrString(object, "fields");
  if (!fields || !PyDict_Check(fields)) {
    Py_XDECREF(fields);
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "a dim is None, a number, a name or a ductile.Dim, not %R",
                 object);
    return false;
  }
  dt_py_options_t group = {dt__py_dim_options, out};
  bool set = PyList_Append(kept, fields) == 0 && dt__py_options(fields, &group, 1, "Dim");
  Py_DECREF(fields);
  return set;
}
