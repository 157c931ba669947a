// SPDX-License-Identifier: Apache-2.0
// The type Function, and where functions come from: models and traced programs.
#include "python/src/core.h"

#include <stdlib.h>
#include <string.h>

#include "ductile/device.h"

static dt_py_function_t *of(PyObject *self) { return (dt_py_function_t *)self; }

// ---- Making -----------------------------------------------------------------------------------------

static bool add_labels(dt_py_function_t *self) {
  self->names = PyTuple_New(self->n_inputs);
  self->labels = PyTuple_New(self->n_inputs);
  for (uint32_t k = 0; self->names && self->labels && k < self->n_inputs; k++) {
    const dt_input_decl_t *decl = dt_function_input(self->function, k);
    const char *given = decl ? decl->name : NULL;
    PyObject *name = given ? PyUnicode_FromString(given) : PyUnicode_FromFormat("argument%u", k);
    PyObject *label = given ? PyUnicode_FromFormat("argument %u \"%s\"", k, given)
                            : PyUnicode_FromFormat("argument %u", k);
    if (!name || !label) {
      Py_XDECREF(name);
      Py_XDECREF(label);
      return false;
    }
    (void)PyTuple_SetItem(self->names, k, name);
    (void)PyTuple_SetItem(self->labels, k, label);
  }
  return self->names && self->labels;
}

PyObject *dt__py_function(dt_function_t *function, PyObject *runtime) {
  dt_py_function_t *self = dt__py_new(dt__py_types.function);
  if (!self) {
    dt_function_release(function);
    return NULL;
  }
  self->function = function;
  self->runtime = Py_NewRef(runtime);
  self->n_inputs = dt_function_n_inputs(function);
  self->n_outputs = dt_function_n_outputs(function);
  if (add_labels(self))
    return (PyObject *)self;
  Py_DECREF(self);
  return NULL;
}

static int traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(of(self)->program);
  Py_VISIT(of(self)->constants);
  return 0;
}

static int clear(PyObject *self) {
  Py_CLEAR(of(self)->program);
  Py_CLEAR(of(self)->constants);
  return 0;
}

static void dealloc(PyObject *self) {
  PyObject_GC_UnTrack(self);
  dt_function_t *function = of(self)->function;
  of(self)->function = NULL;
  Py_BEGIN_ALLOW_THREADS;
  dt_function_release(function);
  Py_END_ALLOW_THREADS;
  (void)clear(self);
  Py_CLEAR(of(self)->runtime);
  Py_CLEAR(of(self)->names);
  Py_CLEAR(of(self)->labels);
  dt__py_free(self);
}

// Takes keyword `name` out of a dict that is the caller's own; a new reference, or NULL.
static PyObject *pop(PyObject *keywords, const char *name) {
  PyObject *value = PyDict_GetItemString(keywords, name);
  if (!value)
    return NULL;
  Py_INCREF(value);
  (void)PyDict_DelItemString(keywords, name);
  return value;
}

// ---- Models -----------------------------------------------------------------------------------------

static const dt_py_option_t open_options[] = {
    {"access", DT_PY_CHOICE, offsetof(dt_onnx_options_t, access), "read map"},
    {"data_folder", DT_PY_TEXT, offsetof(dt_onnx_options_t, data_folder), NULL},
    {"timeout", DT_PY_TIMEOUT, offsetof(dt_onnx_options_t, deadline_ns), NULL},
    {"cancel", DT_PY_CANCEL, offsetof(dt_onnx_options_t, cancel), NULL},
    DT_PY_END,
};
static const dt_py_option_t model_options[] = {
    {"names_are_hints", DT_PY_BOOL, offsetof(dt_onnx_function_options_t, names_are_hints), NULL},
    {"timeout", DT_PY_TIMEOUT, offsetof(dt_onnx_function_options_t, deadline_ns), NULL},
    {"cancel", DT_PY_CANCEL, offsetof(dt_onnx_function_options_t, cancel), NULL},
    {"seed", DT_PY_U64, offsetof(dt_onnx_function_options_t, seed), NULL},
    {"seed_input", DT_PY_BOOL, offsetof(dt_onnx_function_options_t, seed_input), NULL},
    {"weights", DT_PY_DTYPE, offsetof(dt_onnx_function_options_t, weights), NULL},
    DT_PY_END,
};

// Declarations by name: {"batch": Dim(max=8), "width": 64}.
static bool read_dims(PyObject *dims, PyObject *kept, dt_dim_decl_t **out, uint32_t *out_n) {
  PyObject *name, *value;
  Py_ssize_t at = 0, n = dims && dims != Py_None ? PyDict_Size(dims) : 0;
  if (n <= 0)
    return n == 0;
  *out = calloc((size_t)n, sizeof(**out));
  if (!*out) {
    PyErr_NoMemory();
    return false;
  }
  // What is asked may change the dict.
  for (; (Py_ssize_t)*out_n < n && PyDict_Next(dims, &at, &name, &value); (*out_n)++) {
    dt_dim_decl_t *dim = &(*out)[*out_n];
    if (PyList_Append(kept, name) < 0 || PyList_Append(kept, value) < 0 ||
        !dt__py_dim(value, kept, dim))
      return false;
    dim->name = PyUnicode_AsUTF8AndSize(name, NULL);
    if (!dim->name)
      return false;
  }
  return true;
}

static dt_function_t *load_model(dt_py_runtime_t *runtime, const char *path,
                                 const dt_onnx_options_t *opening,
                                 const dt_onnx_function_options_t *options) {
  dt_function_t *function = NULL;
  dt_onnx_t *model = NULL;
  dt_status_t status;
  Py_BEGIN_ALLOW_THREADS;
  status = dt_onnx_open(path, opening, &model);
  if (!status)
    status = dt_onnx_function_create(runtime->runtime, model, options, &function);
  dt_onnx_close(model);
  Py_END_ALLOW_THREADS;
  return dt__py_ok(status) ? function : NULL;
}

// load(path, *, dims=None, runtime=None, …)
static PyObject *load(PyObject *module, PyObject *args, PyObject *keywords) {
  (void)module;
  dt_onnx_options_t opening = {.struct_size = sizeof(opening)};
  dt_function_options_t functions = {.struct_size = sizeof(functions)};
  dt_onnx_function_options_t options = {
      .struct_size = sizeof(options), .dim_size = sizeof(dt_dim_decl_t), .function = &functions};
  dt_py_options_t groups[] = {
      {open_options, &opening}, {model_options, &options}, {dt__py_function_options, &functions}};
  PyObject *path = NULL, *made = NULL, *kept = NULL;
  dt_dim_decl_t *decls = NULL;
  if (!PyArg_ParseTuple(args, "O&:load", PyUnicode_FSConverter, &path))
    return NULL;
  PyObject *left = keywords ? PyDict_Copy(keywords) : PyDict_New();
  PyObject *dims = left ? pop(left, "dims") : NULL, *object = left ? pop(left, "runtime") : NULL;
  dt_py_runtime_t *runtime = left ? dt__py_runtime(object) : NULL;
  if (dims && dims != Py_None && !PyDict_Check(dims))
    PyErr_SetString(PyExc_TypeError, "dims: expected a dict of dims by their names");
  else if (runtime && dt__py_options(left, groups, 3, "load") && (kept = PyList_New(0)) != NULL &&
           read_dims(dims, kept, &decls, &options.n_dims)) {
    options.dims = decls;
    dt_function_t *function = load_model(runtime, PyBytes_AsString(path), &opening, &options);
    made = function ? dt__py_function(function, (PyObject *)runtime) : NULL;
  }
  free(decls);
  Py_XDECREF(kept);
  Py_XDECREF(dims);
  Py_XDECREF(object);
  Py_XDECREF(left);
  Py_DECREF(path);
  return made;
}

// ---- Programs ---------------------------------------------------------------------------------------

static const dt_py_option_t input_options[] = {
    {"name", DT_PY_TEXT, offsetof(dt_input_decl_t, name), NULL},
    {"dtype", DT_PY_DTYPE, offsetof(dt_input_decl_t, dtype), NULL},
    {"kind", DT_PY_CHOICE, offsetof(dt_input_decl_t, kind),
     "tensor integer boolean integers donated"},
    {"alignment", DT_PY_U32, offsetof(dt_input_decl_t, alignment), NULL},
    DT_PY_END,
};

// One input by its `fields` and `dims`; its declared dims are allocated.
static bool read_input(PyObject *object, PyObject *kept, dt_input_decl_t *out) {
  PyObject *fields = PyObject_GetAttrString(object, "fields");
  PyObject *dims = fields ? PyObject_GetAttrString(object, "dims") : NULL;
  dt_py_options_t group = {input_options, out};
  bool read = dims && PyList_Append(kept, fields) == 0 && PyList_Append(kept, dims) == 0;
  if (read && !PyDict_Check(fields)) {
    PyErr_Format(PyExc_TypeError, "an input is a ductile.Input, not %R", object);
    read = false;
  }
  read = read && dt__py_options(fields, &group, 1, "Input");
  Py_ssize_t n = read ? PySequence_Size(dims) : -1;
  dt_dim_decl_t *decls = n >= 0 ? calloc((size_t)n + 1, sizeof(*decls)) : NULL;
  if (n >= 0 && !decls)
    PyErr_NoMemory();
  out->dims = decls;
  out->rank = n >= 0 ? (uint32_t)n : 0;
  read = read && decls;
  for (Py_ssize_t k = 0; read && k < n; k++) {
    PyObject *dim = PySequence_GetItem(dims, k);
    read = dim && PyList_Append(kept, dim) == 0 && dt__py_dim(dim, kept, &decls[k]);
    Py_XDECREF(dim);
  }
  Py_XDECREF(dims);
  Py_XDECREF(fields);
  return read;
}

static void free_inputs(dt_input_decl_t *inputs, uint32_t n) {
  for (uint32_t k = 0; inputs && k < n; k++)
    free((void *)(uintptr_t)inputs[k].dims);
  free(inputs);
}

static dt_input_decl_t *read_inputs(PyObject *sequence, PyObject *kept, uint32_t *out_n) {
  Py_ssize_t n = PySequence_Size(sequence);
  dt_input_decl_t *inputs = n >= 0 ? calloc((size_t)n + 1, sizeof(*inputs)) : NULL;
  if (n >= 0 && !inputs)
    PyErr_NoMemory();
  for (Py_ssize_t k = 0; inputs && k < n; k++) {
    PyObject *item = PySequence_GetItem(sequence, k);
    bool read = item && read_input(item, kept, &inputs[k]);
    Py_XDECREF(item);
    if (!read) {
      free_inputs(inputs, (uint32_t)n);
      return NULL;
    }
  }
  *out_n = n > 0 ? (uint32_t)n : 0;
  return inputs;
}

// _trace(program, inputs, n_outputs, runtime, **options): `inputs` is a tuple of Inputs.
static PyObject *trace(PyObject *module, PyObject *args, PyObject *keywords) {
  (void)module;
  PyObject *program, *inputs, *object;
  dt_function_options_t options = {.struct_size = sizeof(options),
                                   .input_size = sizeof(dt_input_decl_t),
                                   .dim_size = sizeof(dt_dim_decl_t)};
  dt_py_options_t group = {dt__py_function_options, &options};
  if (!PyArg_ParseTuple(args, "OOIO:_trace", &program, &inputs, &options.n_outputs, &object) ||
      !dt__py_options(keywords, &group, 1, "function"))
    return NULL;
  dt_py_runtime_t *runtime = dt__py_runtime(object);
  PyObject *kept = runtime ? PyList_New(0) : NULL;
  dt_input_decl_t *decls = kept ? read_inputs(inputs, kept, &options.n_inputs) : NULL;
  if (!decls) {
    Py_XDECREF(kept);
    return NULL;
  }
  options.inputs = decls;
  dt_py_function_t *self = dt__py_new(dt__py_types.function);
  bool made = self && (self->constants = PyDict_New()) != NULL;
  if (made) {
    self->program = Py_NewRef(program);
    self->runtime = Py_NewRef((PyObject *)runtime);
    made = dt__py_ok(
        dt_function_create(runtime->runtime, dt__py_program, self, &options, &self->function));
  }
  if (made) {
    self->n_inputs = options.n_inputs;
    self->n_outputs = options.n_outputs;
    made = add_labels(self);
  }
  free_inputs(decls, options.n_inputs);
  Py_DECREF(kept);
  if (!made)
    Py_CLEAR(self);
  return (PyObject *)self;
}

// ---- Methods ----------------------------------------------------------------------------------------

static PyObject *prepare(PyObject *self, PyObject *args, PyObject *keywords) {
  dt_prepare_options_t options = {.struct_size = sizeof(options)};
  dt_py_options_t group = {dt__py_prepare_options, &options};
  const char *device = NULL;
  dt_status_t status;
  if (!PyArg_ParseTuple(args, "|s:prepare", &device) ||
      !dt__py_options(keywords, &group, 1, "prepare") ||
      (device && !dt__py_ok(dt_device_parse(device, &options.device, &options.ordinal))))
    return NULL;
  Py_BEGIN_ALLOW_THREADS;
  status = dt_function_prepare(of(self)->function, &options);
  Py_END_ALLOW_THREADS;
  return dt__py_traced_ok(status) ? Py_NewRef(Py_None) : NULL;
}

static PyObject *freeze(PyObject *self, PyObject *args) {
  int frozen = 1;
  dt_status_t status;
  if (!PyArg_ParseTuple(args, "|p:freeze", &frozen))
    return NULL;
  Py_BEGIN_ALLOW_THREADS;
  status = dt_function_freeze(of(self)->function, frozen);
  Py_END_ALLOW_THREADS;
  return dt__py_ok(status) ? Py_NewRef(Py_None) : NULL;
}

static PyObject *stats(PyObject *self, PyObject *unused) {
  (void)unused;
  char *text = NULL;
  dt_status_t status;
  Py_BEGIN_ALLOW_THREADS;
  status = dt_function_stats_json(of(self)->function, &text);
  Py_END_ALLOW_THREADS;
  return dt__py_ok(status) ? dt__py_json(text, false) : NULL;
}

static PyObject *update(PyObject *self, PyObject *args) {
  const char *name;
  PyObject *array;
  dt_status_t status;
  if (!PyArg_ParseTuple(args, "sO:update", &name, &array))
    return NULL;
  PyObject *kept = dt__py_keep(array, name);
  if (!kept)
    return NULL;
  Py_BEGIN_ALLOW_THREADS;
  status = dt_constant_update(of(self)->function, name, ((dt_py_tensor_t *)kept)->tensor);
  Py_END_ALLOW_THREADS;
  Py_DECREF(kept);
  return dt__py_ok(status) ? Py_NewRef(Py_None) : NULL;
}

#define WITH_KEYWORDS(function)                                                                    \
  (PyCFunction)(void (*)(void))(function), METH_VARARGS | METH_KEYWORDS

static PyMethodDef methods[] = {
    {"run", WITH_KEYWORDS(dt__py_run),
     "run($self, inputs, *, out=None, tensors=False, **options)\n--\n\n"
     "A call with options: inputs in a sequence or by name, out=, tensors=, timeout=, cancel=."},
    {"prepare", WITH_KEYWORDS(prepare),
     "prepare($self, device='cpu', /, **options)\n--\n\n"
     "Compiles for all sizes, and waits for it."},
    {"tune", WITH_KEYWORDS(dt__py_tune),
     "tune($self, calls, /, **options)\n--\n\n"
     "Measures other code by these calls, and keeps the best; what was tried, as a list of dicts."},
    {"freeze", freeze, METH_VARARGS,
     "freeze($self, frozen=True, /)\n--\n\n"
     "While a function is frozen no call compiles."},
    {"update", update, METH_VARARGS,
     "update($self, name, array, /)\n--\n\n"
     "Replaces the elements of a constant between calls."},
    {"output_sizes", WITH_KEYWORDS(dt__py_output_sizes),
     "output_sizes($self, *inputs, **named)\n--\n\n"
     "(dtype, shape) of each result for these inputs; a size is None where the data decide."},
    {"explain", WITH_KEYWORDS(dt__py_explain),
     "explain($self, *inputs, **named)\n--\n\n"
     "Variants, guards and compiles as text; of inputs, how a call with them would go."},
    {"report", WITH_KEYWORDS(dt__py_report),
     "report($self, *inputs, **named)\n--\n\n"
     "The same as a list of dicts."},
    {"stats", stats, METH_NOARGS,
     "stats($self)\n--\n\n"
     "Counts since the function was made."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"inputs", dt__py_specs, NULL, "A Spec of each input.", NULL},
    {"outputs", dt__py_results, NULL, "A Spec of each result, for all sizes.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef functions[] = {
    {"load", WITH_KEYWORDS(load),
     "load(path, /, *, dims=None, runtime=None, **options)\n--\n\n"
     "A Function of an ONNX model."},
    {"_trace", WITH_KEYWORDS(trace), NULL},
    {NULL, NULL, 0, NULL},
};

int dt__py_add_function(PyObject *module) {
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, dealloc},
      {Py_tp_traverse, traverse},
      {Py_tp_clear, clear},
      {Py_tp_call, dt__py_call},
      {Py_tp_methods, methods},
      {Py_tp_getset, properties},
      {Py_tp_doc, "A program with its compiled variants; any number of threads may call it."},
      {0, NULL},
  };
  static PyType_Spec spec = {
      "ductile.Function", sizeof(dt_py_function_t), 0,
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  return dt__py_add_type(module, &spec, &dt__py_types.function)
             ? PyModule_AddFunctions(module, functions)
             : -1;
}
