// SPDX-License-Identifier: Apache-2.0
// The type Runtime, and the process's own one, which is made when it is first needed.
#include "python/src/core.h"

#include <string.h>

#include "ductile/device.h"

#define AT(field, kind) {#field, kind, offsetof(dt_runtime_options_t, field), NULL}

static const dt_py_option_t options_of[] = {
    AT(threads, DT_PY_U32),
    AT(compile_threads, DT_PY_U32),
    AT(max_nodes, DT_PY_U32),
    AT(max_compile_ns, DT_PY_U64),
    AT(max_compile_bytes, DT_PY_U64),
    AT(max_bytes, DT_PY_U64),
    AT(max_device_bytes, DT_PY_U64),
    {"isolation", DT_PY_CHOICE, offsetof(dt_runtime_options_t, isolation),
     "default in_process worker"},
    AT(worker_path, DT_PY_TEXT),
    AT(cpus, DT_PY_TEXT),
    DT_PY_END,
};
#undef AT

static dt_py_runtime_t *of(PyObject *self) { return (dt_py_runtime_t *)self; }

static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  static uint64_t last_id;
  dt_runtime_options_t options = {.struct_size = sizeof(options)};
  dt_py_options_t group = {options_of, &options};
  dt_runtime_t *runtime = NULL;
  dt_status_t status;
  if (!PyArg_ParseTuple(args, ":Runtime") || !dt__py_options(keywords, &group, 1, "Runtime"))
    return NULL;
  Py_BEGIN_ALLOW_THREADS;
  status = dt_runtime_create(&options, &runtime);
  Py_END_ALLOW_THREADS;
  if (!dt__py_ok(status))
    return NULL;
  dt_py_runtime_t *self = dt__py_new(type);
  if (!self) {
    dt_runtime_release(runtime);
    return NULL;
  }
  self->runtime = runtime;
  self->id = ++last_id;
  return (PyObject *)self;
}

static void dealloc(PyObject *self) {
  // The last reference waits for compiles under way.
  dt_runtime_t *runtime = of(self)->runtime;
  uint64_t id = of(self)->id;
  Py_BEGIN_ALLOW_THREADS;
  dt__py_forget(id);
  dt_runtime_release(runtime);
  Py_END_ALLOW_THREADS;
  dt__py_free(self);
}

static dt_py_runtime_t *own;

dt_py_runtime_t *dt__py_runtime(PyObject *object) {
  if (object && object != Py_None) {
    if (Py_TYPE(object) == dt__py_types.runtime)
      return of(object);
    PyErr_SetString(PyExc_TypeError, "runtime: expected a ductile.Runtime");
    return NULL;
  }
  if (!own) {
    PyObject *none = PyTuple_New(0);
    PyObject *made = none ? create(dt__py_types.runtime, none, NULL) : NULL;
    Py_XDECREF(none);
    // Another thread may have made it meanwhile.
    if (made && own)
      Py_DECREF(made);
    else
      own = of(made);
  }
  return own;
}

static PyObject *get_own(PyObject *module, PyObject *unused) {
  (void)module, (void)unused;
  return Py_XNewRef((PyObject *)dt__py_runtime(NULL));
}

// ---- Methods --------------------------------------------------------------------------------------

#define AT(field) {#field, offsetof(dt_runtime_stats_t, field)}
static const struct {
  const char *name;
  size_t offset;
} counts[] = {
    AT(max_bytes),
    AT(bytes),
    AT(evicted_variants),
    AT(evicted_bytes),
    AT(trims),
    AT(max_device_bytes),
    AT(device_bytes),
    AT(evicted_device_bytes),
    AT(evicted_graphs),
    AT(packed_bytes),
    AT(shared_bytes),
    AT(program_bytes),
    AT(session_bytes),
    AT(warm_bytes),
    AT(code_bytes),
    AT(mapped_bytes),
    AT(constant_bytes),
};
#undef AT

static PyObject *stats(PyObject *self, PyObject *unused) {
  (void)unused;
  dt_runtime_stats_t numbers = {.struct_size = sizeof(numbers)};
  dt_status_t status;
  Py_BEGIN_ALLOW_THREADS;
  status = dt_runtime_stats(of(self)->runtime, &numbers);
  Py_END_ALLOW_THREADS;
  if (!dt__py_ok(status))
    return NULL;
  PyObject *dict = PyDict_New();
  for (size_t k = 0; dict && k < sizeof(counts) / sizeof(counts[0]); k++) {
    uint64_t count;
    memcpy(&count, (const char *)&numbers + counts[k].offset, sizeof(count));
    PyObject *number = PyLong_FromUnsignedLongLong(count);
    if (!number || PyDict_SetItemString(dict, counts[k].name, number) < 0)
      Py_CLEAR(dict);
    Py_XDECREF(number);
  }
  return dict;
}

static const dt_py_option_t modes[] = {
    {"deterministic", DT_PY_U32, DT_MODE_DETERMINISTIC, NULL},
    {"strict_fp", DT_PY_U32, DT_MODE_STRICT_FP, NULL},
    {"kernel_threads", DT_PY_U32, DT_MODE_KERNEL_THREADS, NULL},
    DT_PY_END,
};

// The mode of a name; NULL with an exception.
static const dt_py_option_t *mode_of(const char *name) {
  for (const dt_py_option_t *row = modes; row->name; row++) {
    if (strcmp(row->name, name) == 0)
      return row;
  }
  PyErr_Format(PyExc_ValueError, "there is no mode \"%s\"", name);
  return NULL;
}

static PyObject *mode_set(PyObject *self, PyObject *args) {
  const char *name;
  unsigned value;
  if (!PyArg_ParseTuple(args, "sI:set_mode", &name, &value))
    return NULL;
  const dt_py_option_t *row = mode_of(name);
  if (!row || !dt__py_ok(dt_runtime_mode_set(of(self)->runtime, (dt_mode_t)row->offset, value)))
    return NULL;
  Py_RETURN_NONE;
}

static PyObject *mode_get(PyObject *self, PyObject *args) {
  const char *name;
  if (!PyArg_ParseTuple(args, "s:mode", &name))
    return NULL;
  const dt_py_option_t *row = mode_of(name);
  return row ? PyLong_FromUnsignedLong(
                   dt_runtime_mode_get(of(self)->runtime, (dt_mode_t)row->offset))
             : NULL;
}

static PyObject *device_count(PyObject *self, PyObject *args) {
  const char *text;
  dt_device_t device;
  int32_t ordinal, count = 0;
  if (!PyArg_ParseTuple(args, "s:device_count", &text) ||
      !dt__py_ok(dt_device_parse(text, &device, &ordinal)))
    return NULL;
  dt_status_t status;
  Py_BEGIN_ALLOW_THREADS;
  status = dt_device_count(of(self)->runtime, device, &count);
  Py_END_ALLOW_THREADS;
  // No driver is no device.
  if (dt_status_code(status) == DT_E_UNSUPPORTED) {
    dt_status_free(status);
    status = NULL;
  }
  return dt__py_ok(status) ? PyLong_FromLong(count) : NULL;
}

static PyObject *metrics(PyObject *self, PyObject *unused) {
  (void)unused;
  char *text = NULL;
  dt_status_t status;
  Py_BEGIN_ALLOW_THREADS;
  status = dt_metrics_text(of(self)->runtime, &text);
  Py_END_ALLOW_THREADS;
  return dt__py_ok(status) ? dt__py_text(text) : NULL;
}

static PyObject *metrics_latency(PyObject *self, PyObject *args) {
  int on = 1;
  if (!PyArg_ParseTuple(args, "|p:metrics_latency", &on) ||
      !dt__py_ok(dt_metrics_latency(of(self)->runtime, on)))
    return NULL;
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"stats", stats, METH_NOARGS,
     "stats($self)\n--\n\n"
     "What the runtime holds, in bytes and counts."},
    {"metrics", metrics, METH_NOARGS,
     "metrics($self)\n--\n\n"
     "What the runtime and its functions count, in the text format of Prometheus."},
    {"metrics_latency", metrics_latency, METH_VARARGS,
     "metrics_latency($self, on=True, /)\n--\n\n"
     "Whether calls are timed for the histograms of metrics(), from now on."},
    {"set_mode", mode_set, METH_VARARGS,
     "set_mode($self, name, value, /)\n--\n\n"
     "Sets a mode from each session's next call on."},
    {"mode", mode_get, METH_VARARGS,
     "mode($self, name, /)\n--\n\n"
     "A mode's value."},
    {"device_count", device_count, METH_VARARGS,
     "device_count($self, kind, /)\n--\n\n"
     "How many devices of a kind there are."},
    {NULL, NULL, 0, NULL},
};

// ---- Cancel ---------------------------------------------------------------------------------------

static dt_cancel_t *flag_of(PyObject *self) { return &((dt_py_cancel_t *)self)->flag; }

static PyObject *cancel_request(PyObject *self, PyObject *unused) {
  (void)unused;
  dt_cancel_request(flag_of(self));
  Py_RETURN_NONE;
}
static PyObject *cancel_reset(PyObject *self, PyObject *unused) {
  (void)unused;
  dt_cancel_reset(flag_of(self));
  Py_RETURN_NONE;
}

static PyMethodDef cancel_methods[] = {
    {"request", cancel_request, METH_NOARGS,
     "request($self)\n--\n\n"
     "Ends the calls that were given this flag."},
    {"reset", cancel_reset, METH_NOARGS,
     "reset($self)\n--\n\n"
     "Clears the flag for later calls."},
    {NULL, NULL, 0, NULL},
};

// ---- The module's part -----------------------------------------------------------------------------

static PyMethodDef functions[] = {
    {"runtime", get_own, METH_NOARGS,
     "runtime()\n--\n\n"
     "The process's own runtime."},
    {NULL, NULL, 0, NULL},
};

int dt__py_add_runtime(PyObject *module) {
  static PyType_Slot slots[] = {
      {Py_tp_new, create},
      {Py_tp_dealloc, dealloc},
      {Py_tp_methods, methods},
      {Py_tp_doc, "Threads, budgets and modes that functions and sessions share."},
      {0, NULL},
  };
  static PyType_Spec spec = {"ductile.Runtime", sizeof(dt_py_runtime_t), 0, Py_TPFLAGS_DEFAULT,
                             slots};
  static PyType_Slot cancel_slots[] = {
      {Py_tp_dealloc, dt__py_free},
      {Py_tp_methods, cancel_methods},
      {Py_tp_doc, "A flag that ends calls."},
      {0, NULL},
  };
  static PyType_Spec cancel_spec = {"ductile.Cancel", sizeof(dt_py_cancel_t), 0, Py_TPFLAGS_DEFAULT,
                                    cancel_slots};
  return dt__py_add_type(module, &spec, &dt__py_types.runtime) &&
                 dt__py_add_type(module, &cancel_spec, &dt__py_types.cancel)
             ? PyModule_AddFunctions(module, functions)
             : -1;
}
