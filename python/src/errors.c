// SPDX-License-Identifier: Apache-2.0
// Failures as exceptions: a class for each code that the library has, below ductile.Error.
#include "python/src/core.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MOST_CODES = 64 };

static PyObject *base, *classes[MOST_CODES];

// Exceptions of Python's own that a code's class is one of, too.
static const struct {
  const char *code;
  PyObject **also;
} kinds[] = {
    {"DT_E_ARGUMENT", &PyExc_ValueError},   {"DT_E_SHAPE", &PyExc_ValueError},
    {"DT_E_DTYPE", &PyExc_TypeError},       {"DT_E_RANGE", &PyExc_IndexError},
    {"DT_E_NO_MEMORY", &PyExc_MemoryError}, {"DT_E_UNSUPPORTED", &PyExc_NotImplementedError},
    {"DT_E_FORMAT", &PyExc_ValueError},     {"DT_E_IO", &PyExc_OSError},
    {"DT_E_DEADLINE", &PyExc_TimeoutError},
};

static PyObject *class_of(dt_code_t code) {
  PyObject *found = (int)code > 0 && (int)code < MOST_CODES ? classes[code] : NULL;
  return found ? found : base;
}

bool dt__py_raise(dt_code_t code, const char *format, ...) {
  va_list values;
  va_start(values, format);
  (void)PyErr_FormatV(class_of(code), format, values);
  va_end(values);
  return false;
}

dt_status_t dt__py_status(PyObject *type, PyObject *error) {
  // Of another exception nothing is said of the arguments: the next call traces again.
  dt_code_t code = DT_E_STATE;
  for (int k = 1; k < MOST_CODES; k++) {
    if (classes[k] && PyErr_GivenExceptionMatches(type, classes[k]))
      code = (dt_code_t)k;
  }
  PyObject *name = PyObject_GetAttrString(type, "__name__");
  PyObject *text = name ? PyUnicode_FromFormat("the program raised %U: %S", name, error) : NULL;
  const char *message = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
  dt_status_t status = dt_status_make(code, message ? message : "the program raised an exception");
  PyErr_Clear();
  Py_XDECREF(text);
  Py_XDECREF(name);
  return status;
}

bool dt__py_ok(dt_status_t status) {
  if (!status)
    return true;
  PyObject *text = PyUnicode_DecodeUTF8(dt_status_message(status),
                                        (Py_ssize_t)strlen(dt_status_message(status)), "replace");
  if (text) {
    PyErr_SetObject(class_of(dt_status_code(status)), text);
    Py_DECREF(text);
  }
  dt_status_free(status);
  return false;
}

// DT_E_NO_MEMORY is NoMemoryError.
static void name_of(const char *code, char *out, size_t room) {
  size_t n = 0;
  bool upper = true;
  for (const char *at = code + strlen("DT_E_"); *at && n + sizeof("Error") < room; at++) {
    if (*at == '_')
      upper = true;
    else {
      out[n++] = upper ? *at : (char)tolower((unsigned char)*at);
      upper = false;
    }
  }
  memcpy(out + n, "Error", sizeof("Error"));
}

static PyObject *make_class(const char *name, PyObject *bases, const char *code, const char *doc) {
  char path[64];
  (void)snprintf(path, sizeof(path), "ductile.%s", name);
  PyObject *fields = Py_BuildValue("{ss}", "code", code);
  PyObject *made = fields ? PyErr_NewExceptionWithDoc(path, doc, bases, fields) : NULL;
  Py_XDECREF(fields);
  return made;
}

static PyObject *make_code(const char *code, const char *name) {
  PyObject *also = NULL;
  for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
    if (strcmp(kinds[k].code, code) == 0)
      also = *kinds[k].also;
  }
  PyObject *bases = also ? PyTuple_Pack(2, base, also) : PyTuple_Pack(1, base);
  PyObject *made = bases ? make_class(name, bases, code, NULL) : NULL;
  Py_XDECREF(bases);
  return made;
}

int dt__py_add_errors(PyObject *module) {
  base = make_class("Error", NULL, "", "A failure of the library. `code` is its name in C.");
  if (!base || PyModule_AddObjectRef(module, "Error", base) < 0)
    return -1;
  const char *unknown = dt_code_name((dt_code_t)-1);
  for (int code = 1; code < MOST_CODES; code++) {
    const char *text = dt_code_name((dt_code_t)code);
    if (strcmp(text, unknown) == 0)
      break;
    char name[48];
    name_of(text, name, sizeof(name));
    classes[code] = make_code(text, name);
    if (!classes[code] || PyModule_AddObjectRef(module, name, classes[code]) < 0)
      return -1;
  }
  return 0;
}
