// SPDX-License-Identifier: Apache-2.0
// Function.tune: calls to measure by, borrowed for as long as that takes, and its report.
#include "python/src/core.h"

#include <stdlib.h>

typedef struct tune_t {
  dt_py_function_t *function;
  dt_py_session_t *object; // whose session it is; NULL: the thread's own
  dt_session_t *session;
  uint32_t n; // calls that are taken
  size_t n_borrowed;
  dt_tune_call_t *calls;
  dt_py_borrowed_t *borrowed; // n * n_inputs
  dt_tensor_t **tensors;      // the same
} tune_t;

static const dt_py_option_t options_rows[] = {
    {"allow_other_bits", DT_PY_BOOL, offsetof(dt_tune_options_t, allow_other_bits), NULL},
    {"forget", DT_PY_BOOL, offsetof(dt_tune_options_t, forget), NULL},
    {"timeout", DT_PY_TIMEOUT, offsetof(dt_tune_options_t, deadline_ns), NULL},
    {"cancel", DT_PY_CANCEL, offsetof(dt_tune_options_t, cancel), NULL},
    DT_PY_END,
};

// ---- Calls ----------------------------------------------------------------------------------------
static bool take_call(tune_t *tune, uint32_t k, PyObject *inputs) {
  dt_py_function_t *function = tune->function;
  PyObject *ordered = dt__py_inputs(function, inputs);
  uint32_t n = function->n_inputs;
  bool taken = ordered != NULL;
  for (uint32_t i = 0; taken && i < n; i++) {
    const dt_input_decl_t *decl = dt_function_input(function->function, i);
    size_t at = (size_t)k * n + i;
    taken = dt__py_borrow(PyTuple_GetItem(ordered, i), decl ? decl->dtype : DT_DTYPE_NONE, false,
                          "an input", NULL, &tune->borrowed[at]);
    tune->tensors[at] = tune->borrowed[at].tensor;
  }
  tune->calls[k].inputs = tune->tensors + (size_t)k * n;
  Py_XDECREF(ordered);
  return taken;
}

static bool take_calls(tune_t *tune, PyObject *calls) {
  Py_ssize_t n = PySequence_Size(calls);
  if (n < 0)
    return false;
  if (n > DT_TUNE_MOST_CALLS)
    return dt__py_raise(DT_E_ARGUMENT, "calls: %zd; expected at most %d", n, DT_TUNE_MOST_CALLS);
  size_t all = (size_t)n * tune->function->n_inputs + 1;
  tune->n_borrowed = all - 1;
  tune->calls = calloc((size_t)n + 1, sizeof(*tune->calls));
  tune->borrowed = calloc(all, sizeof(*tune->borrowed));
  tune->tensors = calloc(all, sizeof(dt_tensor_t *));
  if (!tune->calls || !tune->borrowed || !tune->tensors)
    return PyErr_NoMemory() != NULL;
  for (; tune->n < (uint32_t)n; tune->n++) {
    PyObject *inputs = PySequence_GetItem(calls, tune->n);
    bool taken = inputs && take_call(tune, tune->n, inputs);
    Py_XDECREF(inputs); // the sequence keeps it, or the buffers do
    if (!taken)
      return false;
  }
  return true;
}

static bool take_weights(tune_t *tune, PyObject *weights) {
  if (!weights || weights == Py_None)
    return true;
  if (PySequence_Size(weights) != (Py_ssize_t)tune->n)
    return PyErr_Occurred()
               ? false
               : dt__py_raise(DT_E_ARGUMENT, "weights: expected one a call, %u", tune->n);
  for (uint32_t k = 0; k < tune->n; k++) {
    PyObject *weight = PySequence_GetItem(weights, k);
    tune->calls[k].weight = weight ? PyFloat_AsDouble(weight) : 0;
    Py_XDECREF(weight);
    if (PyErr_Occurred())
      return false;
  }
  return true;
}

static bool open_session(tune_t *tune) {
  tune->session = dt__py_current(tune->function->runtime, &tune->object);
  Py_XINCREF((PyObject *)tune->object);
  if (tune->object) // nobody closes it meanwhile
    tune->object->calls++;
  return tune->session != NULL;
}

static void end(tune_t *tune) {
  if (tune->borrowed)
    dt__py_give_back(tune->borrowed, tune->n_borrowed);
  if (tune->object)
    tune->object->calls--;
  Py_XDECREF((PyObject *)tune->object);
  free(tune->calls);
  free(tune->borrowed);
  free(tune->tensors);
}

// ---- The method -----------------------------------------------------------------------------------
static PyObject *run(tune_t *tune, dt_tune_options_t *options) {
  dt_tune_report_t *report = NULL;
  char *text = NULL;
  options->n_calls = tune->n;
  options->calls = tune->calls;
  options->call_size = sizeof(*tune->calls);
  dt_status_t status;
  Py_BEGIN_ALLOW_THREADS;
  status = dt_function_tune(tune->session, tune->function->function, options, &report);
  if (!status)
    status = dt_tune_report_json(report, &text);
  dt_tune_report_free(report);
  Py_END_ALLOW_THREADS;
  return dt__py_traced_ok(status) ? dt__py_json(text, true) : NULL;
}

// The keyword, taken out of the dict; borrowed from `keywords`.
static PyObject *take(PyObject *left, PyObject *keywords, const char *name) {
  PyObject *value = keywords ? PyDict_GetItemString(keywords, name) : NULL;
  return value && PyDict_DelItemString(left, name) == 0 ? value : NULL;
}

static bool take_seconds(PyObject *seconds, dt_tune_options_t *options) {
  double value = seconds ? PyFloat_AsDouble(seconds) : 0;
  if (PyErr_Occurred())
    return false;
  if (!(value >= 0 && value < 1e9))
    return dt__py_raise(DT_E_ARGUMENT, "seconds: expected 0 or more");
  options->budget_ns = (uint64_t)(value * 1e9);
  return true;
}

// tune(calls, /, *, weights=, seconds=, allow_other_bits=, forget=, timeout=, cancel=)
PyObject *dt__py_tune(PyObject *object, PyObject *args, PyObject *keywords) {
  tune_t tune = {.function = (dt_py_function_t *)object};
  dt_tune_options_t options = {.struct_size = sizeof(options)};
  dt_py_options_t group = {options_rows, &options};
  PyObject *calls, *made = NULL;
  if (!PyArg_ParseTuple(args, "O:tune", &calls))
    return NULL;
  PyObject *left = keywords ? PyDict_Copy(keywords) : PyDict_New();
  if (!left)
    return NULL;
  PyObject *weights = take(left, keywords, "weights"), *seconds = take(left, keywords, "seconds");
  if (!PyErr_Occurred() && dt__py_options(left, &group, 1, "tune") &&
      take_seconds(seconds, &options) && open_session(&tune) && take_calls(&tune, calls) &&
      take_weights(&tune, weights))
    made = run(&tune, &options);
  end(&tune);
  Py_DECREF(left);
  return made;
}
