// SPDX-License-Identifier: Apache-2.0
// Packages: functions with their compiled variants in a file.
#include "python/src/core.h"

#include <stdlib.h>

typedef struct dt_py_package_t {
  PyObject_HEAD dt_package_t *package;
  PyObject *runtime;
} dt_py_package_t;

static dt_py_package_t *of(PyObject *self) { return (dt_py_package_t *)self; }

static const dt_py_option_t open_options[] = {
    {"copy", DT_PY_BOOL, offsetof(dt_package_options_t, copy), NULL},
    {"folder", DT_PY_TEXT, offsetof(dt_package_options_t, folder), NULL},
    DT_PY_END,
};
static const dt_py_option_t write_options[] = {
    {"levels", DT_PY_TEXT, offsetof(dt_package_write_options_t, levels), NULL},
    {"no_forms", DT_PY_BOOL, offsetof(dt_package_write_options_t, no_forms), NULL},
    DT_PY_END,
};

// open_package(path, runtime=None, /, **options)
static PyObject *open_package(PyObject *module, PyObject *args, PyObject *keywords) {
  (void)module;
  dt_package_options_t options = {.struct_size = sizeof(options)};
  dt_py_options_t group = {open_options, &options};
  PyObject *path = NULL, *object = Py_None;
  dt_package_t *package = NULL;
  dt_status_t status;
  if (!PyArg_ParseTuple(args, "O&|O:open_package", PyUnicode_FSConverter, &path, &object))
    return NULL;
  dt_py_runtime_t *runtime = dt__py_runtime(object);
  const char *text = PyBytes_AsString(path);
  dt_py_package_t *self = NULL;
  if (runtime && dt__py_options(keywords, &group, 1, "open_package")) {
    Py_BEGIN_ALLOW_THREADS;
    status = dt_package_open(runtime->runtime, text, &options, &package);
    Py_END_ALLOW_THREADS;
    if (dt__py_ok(status) && !(self = dt__py_new(dt__py_types.package)))
      dt_package_release(package);
  }
  if (self) {
    self->package = package;
    self->runtime = Py_NewRef((PyObject *)runtime);
  }
  Py_DECREF(path);
  return (PyObject *)self;
}

static void dealloc(PyObject *self) {
  dt_package_release(of(self)->package);
  Py_XDECREF(of(self)->runtime);
  dt__py_free(self);
}

static PyObject *names(PyObject *self, PyObject *unused) {
  (void)unused;
  uint32_t n = dt_package_n_functions(of(self)->package);
  PyObject *tuple = PyTuple_New(n);
  for (uint32_t k = 0; tuple && k < n; k++) {
    PyObject *name = PyUnicode_FromString(dt_package_function_name(of(self)->package, k));
    if (!name || PyTuple_SetItem(tuple, k, name) < 0)
      Py_CLEAR(tuple);
  }
  return tuple;
}

// function(name=None, /, **options)
static PyObject *function(PyObject *self, PyObject *args, PyObject *keywords) {
  dt_function_options_t options = {.struct_size = sizeof(options)};
  dt_py_options_t group = {dt__py_function_options, &options};
  const char *name = NULL;
  dt_function_t *made = NULL;
  dt_status_t status;
  if (!PyArg_ParseTuple(args, "|z:function", &name) ||
      !dt__py_options(keywords, &group, 1, "function"))
    return NULL;
  Py_BEGIN_ALLOW_THREADS;
  status = dt_package_function(of(self)->package, name, &options, &made);
  Py_END_ALLOW_THREADS;
  return dt__py_ok(status) ? dt__py_function(made, of(self)->runtime) : NULL;
}

static PyObject *get_item(PyObject *self, PyObject *key) {
  PyObject *all = names(self, NULL), *args = NULL;
  int there = all ? PySequence_Contains(all, key) : -1;
  Py_XDECREF(all);
  if (there == 0)
    PyErr_SetObject(PyExc_KeyError, key);
  if (there > 0)
    args = PyTuple_Pack(1, key);
  PyObject *made = args ? function(self, args, NULL) : NULL;
  Py_XDECREF(args);
  return made;
}

static Py_ssize_t count(PyObject *self) {
  return (Py_ssize_t)dt_package_n_functions(of(self)->package);
}

static PyObject *iterate(PyObject *self) {
  PyObject *all = names(self, NULL);
  PyObject *iterator = all ? PyObject_GetIter(all) : NULL;
  Py_XDECREF(all);
  return iterator;
}

static PyObject *report(PyObject *self, PyObject *unused) {
  (void)unused;
  char *text = NULL;
  return dt__py_ok(dt_package_report_text(of(self)->package, &text)) ? dt__py_text(text) : NULL;
}

// ---- Writing ----------------------------------------------------------------------------------------

static dt_function_t **functions_of(PyObject *sequence, uint32_t *out_n) {
  Py_ssize_t n = PySequence_Size(sequence);
  dt_function_t **all = n >= 0 ? calloc((size_t)n + 1, sizeof(dt_function_t *)) : NULL;
  if (n >= 0 && !all)
    PyErr_NoMemory();
  for (Py_ssize_t k = 0; all && k < n; k++) {
    PyObject *item = PySequence_GetItem(sequence, k);
    bool fits = item && PyObject_TypeCheck(item, dt__py_types.function);
    if (fits)
      all[k] = ((dt_py_function_t *)item)->function;
    else if (item)
      PyErr_SetString(PyExc_TypeError, "write_package: expected Functions");
    Py_XDECREF(item); // the tuple keeps it
    if (!fits) {
      free(all);
      return NULL;
    }
  }
  *out_n = n > 0 ? (uint32_t)n : 0;
  return all;
}

// write_package(path, functions, /, **options)
static PyObject *write_package(PyObject *module, PyObject *args, PyObject *keywords) {
  (void)module;
  dt_package_write_options_t options = {.struct_size = sizeof(options)};
  dt_py_options_t group = {write_options, &options};
  PyObject *path = NULL, *sequence;
  dt_status_t status;
  uint32_t n = 0;
  if (!PyArg_ParseTuple(args, "O&O:write_package", PyUnicode_FSConverter, &path, &sequence))
    return NULL;
  const char *text = PyBytes_AsString(path);
  PyObject *kept = PySequence_Tuple(sequence);
  dt_function_t **functions =
      kept && dt__py_options(keywords, &group, 1, "write_package") ? functions_of(kept, &n) : NULL;
  bool written = false;
  if (functions) {
    Py_BEGIN_ALLOW_THREADS;
    status = dt_package_write(text, functions, n, &options);
    Py_END_ALLOW_THREADS;
    written = dt__py_traced_ok(status);
  }
  free(functions);
  Py_XDECREF(kept);
  Py_DECREF(path);
  return written ? Py_NewRef(Py_None) : NULL;
}

#define WITH_KEYWORDS(fn) (PyCFunction)(void (*)(void))(fn), METH_VARARGS | METH_KEYWORDS

static PyMethodDef methods[] = {
    {"keys", names, METH_NOARGS,
     "keys($self)\n--\n\n"
     "The names of the functions."},
    {"function", WITH_KEYWORDS(function),
     "function($self, name=None, /, **options)\n--\n\n"
     "A Function by its name, with options."},
    {"report", report, METH_NOARGS,
     "report($self)\n--\n\n"
     "What is in the package, as text."},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef module_functions[] = {
    {"open_package", WITH_KEYWORDS(open_package),
     "open_package(path, runtime=None, /, **options)\n--\n\n"
     "Opens a package of compiled functions."},
    {"write_package", WITH_KEYWORDS(write_package),
     "write_package(path, functions, /, **options)\n--\n\n"
     "Writes functions with their code to a file."},
    {NULL, NULL, 0, NULL},
};

int dt__py_add_package(PyObject *module) {
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, dealloc},
      {Py_tp_methods, methods},
      {Py_tp_iter, iterate},
      {Py_mp_subscript, get_item},
      {Py_mp_length, count},
      {Py_tp_doc, "An open package: its functions by their names."},
      {0, NULL},
  };
  static PyType_Spec spec = {"ductile.Package", sizeof(dt_py_package_t), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  return dt__py_add_type(module, &spec, &dt__py_types.package)
             ? PyModule_AddFunctions(module, module_functions)
             : -1;
}
