// SPDX-License-Identifier: Apache-2.0
// Calls of functions: arguments are borrowed from arrays for the time of the call, during which
// other Python threads run.
#include "python/src/core.h"

#include <stdlib.h>
#include <string.h>

enum { FEW = 12 };

// What a call works with; `few` serves where there is not much of it.
typedef struct call_t {
  dt_py_function_t *function;
  dt_py_session_t *object; // whose session it is; NULL: the thread's own
  dt_session_t *session;
  dt_py_borrowed_t *inputs; // n_inputs
  dt_tensor_t **tensors;    // n_inputs and n_outputs
  dt_py_borrowed_t *given;  // n_outputs, where outputs are given; else NULL
  void *memory;
  struct {
    dt_py_borrowed_t inputs[FEW];
    dt_tensor_t *tensors[2 * FEW];
  } few;
} call_t;

static void close_call(call_t *call) {
  dt__py_give_back(call->inputs, call->function->n_inputs);
  if (call->given)
    dt__py_give_back(call->given, call->function->n_outputs);
  if (call->object)
    call->object->calls--;
  Py_XDECREF((PyObject *)call->object);
  free(call->memory);
}

static bool open_call(call_t *call, dt_py_function_t *function, bool gives) {
  const uint32_t n = function->n_inputs, m = function->n_outputs;
  call->function = function;
  call->memory = NULL;
  call->given = NULL;
  call->inputs = call->few.inputs;
  call->tensors = call->few.tensors;
  if (n > FEW || m > FEW || gives) {
    size_t borrowed = (size_t)n + m;
    call->memory = calloc(borrowed + 1, sizeof(*call->inputs) + sizeof(*call->tensors));
    if (!call->memory) {
      PyErr_NoMemory();
      return false;
    }
    call->inputs = call->memory;
    call->tensors = (dt_tensor_t **)(call->inputs + borrowed);
    call->given = gives ? call->inputs + n : NULL;
  }
  for (uint32_t k = 0; k < n; k++) {
    call->inputs[k].tensor = NULL;
    call->inputs[k].view.obj = NULL;
  }
  for (uint32_t k = 0; k < n + m; k++)
    call->tensors[k] = NULL;
  call->session = dt__py_current(function->runtime, &call->object);
  Py_XINCREF((PyObject *)call->object);
  // Nobody closes the session while arrays are asked for their elements.
  if (call->object)
    call->object->calls++;
  if (call->session)
    return true;
  close_call(call);
  return false;
}

static void *stream_of(const call_t *call) {
  return call->object && call->object->device != DT_CPU ? dt_session_stream(call->session) : NULL;
}

static const char *label_of(const dt_py_function_t *function, uint32_t k) {
  const char *label = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(function->labels, k), NULL);
  return label ? label : "argument";
}

static bool take_inputs(call_t *call, PyObject *args) {
  dt_py_function_t *function = call->function;
  void *stream = stream_of(call);
  for (uint32_t k = 0; k < function->n_inputs; k++) {
    const dt_input_decl_t *decl = dt_function_input(function->function, k);
    if (!dt__py_borrow(PyTuple_GetItem(args, k), decl ? decl->dtype : DT_DTYPE_NONE, false,
                       label_of(function, k), stream, &call->inputs[k]))
      return false;
    call->tensors[k] = call->inputs[k].tensor;
  }
  return true;
}

static bool take_outputs(call_t *call, PyObject *out) {
  const uint32_t n = call->function->n_inputs, m = call->function->n_outputs;
  if (PySequence_Size(out) != (Py_ssize_t)m) {
    if (!PyErr_Occurred())
      dt__py_raise(DT_E_ARGUMENT, "out: expected %u places, None or an array each", m);
    return false;
  }
  for (uint32_t k = 0; k < m; k++) {
    PyObject *place = PySequence_GetItem(out, k);
    bool taken = place && (place == Py_None || dt__py_borrow(place, DT_DTYPE_NONE, true, "out",
                                                             stream_of(call), &call->given[k]));
    Py_XDECREF(place); // the sequence keeps it, or the buffer does
    if (!taken)
      return false;
    call->tensors[n + k] = call->given[k].tensor;
  }
  return true;
}

static bool make_call(call_t *call, const dt_call_options_t *options) {
  dt_py_function_t *function = call->function;
  const uint32_t n = function->n_inputs, m = function->n_outputs;
  dt_status_t status;
  Py_BEGIN_ALLOW_THREADS;
  status =
      dt_call(call->session, function->function, call->tensors, n, call->tensors + n, m, options);
  Py_END_ALLOW_THREADS;
  return dt__py_traced_ok(status);
}

// Result k: what was given for it, an array, or a Tensor.
static PyObject *result_of(call_t *call, uint32_t k, PyObject *out, bool tensors) {
  dt_tensor_t **place = &call->tensors[call->function->n_inputs + k], *tensor = *place;
  *place = NULL;
  if (call->given && call->given[k].tensor)
    return PySequence_GetItem(out, k);
  PyObject *session =
      call->object && call->object->device != DT_CPU ? (PyObject *)call->object : NULL;
  PyObject *made = dt__py_tensor(tensor, session);
  if (!made || tensors)
    return made;
  PyObject *array = dt__py_array(made);
  Py_DECREF(made);
  return array;
}

static PyObject *results_of(call_t *call, PyObject *out, bool tensors) {
  const uint32_t n = call->function->n_inputs, m = call->function->n_outputs;
  if (m == 1)
    return result_of(call, 0, out, tensors);
  PyObject *tuple = PyTuple_New(m);
  for (uint32_t k = 0; tuple && k < m; k++) {
    PyObject *result = result_of(call, k, out, tensors);
    if (!result || PyTuple_SetItem(tuple, k, result) < 0)
      Py_CLEAR(tuple);
  }
  for (uint32_t k = 0; !tuple && k < m; k++) {
    if (!call->given || !call->given[k].tensor)
      dt_tensor_release(call->tensors[n + k]);
  }
  return tuple;
}

static PyObject *call_with(dt_py_function_t *function, PyObject *args, PyObject *out,
                           const dt_call_options_t *options, bool tensors) {
  call_t call;
  if (!open_call(&call, function, out != NULL))
    return NULL;
  PyObject *results = NULL;
  if (take_inputs(&call, args) && (!out || take_outputs(&call, out)) && make_call(&call, options))
    results = results_of(&call, out, tensors);
  close_call(&call);
  return results;
}

// ---- Arguments --------------------------------------------------------------------------------------

// The place of an input by its name; -1 with an exception.
static Py_ssize_t place_of(dt_py_function_t *self, PyObject *name) {
  for (Py_ssize_t k = 0; k < (Py_ssize_t)self->n_inputs; k++) {
    if (PyUnicode_Compare(PyTuple_GetItem(self->names, k), name) == 0)
      return k;
  }
  if (!PyErr_Occurred())
    PyErr_Format(PyExc_TypeError, "there is no input %R; there are %S", name, self->names);
  return -1;
}

static bool set_named(dt_py_function_t *self, PyObject *tuple, PyObject *keywords) {
  PyObject *name, *value;
  for (Py_ssize_t at = 0; PyDict_Next(keywords, &at, &name, &value);) {
    Py_ssize_t k = place_of(self, name);
    if (k < 0)
      return false;
    if (PyTuple_GetItem(tuple, k)) {
      PyErr_Format(PyExc_TypeError, "input %R is given twice", name);
      return false;
    }
    if (PyTuple_SetItem(tuple, k, Py_NewRef(value)) < 0)
      return false;
  }
  return true;
}

static bool is_whole(dt_py_function_t *self, PyObject *tuple) {
  for (uint32_t k = 0; k < self->n_inputs; k++) {
    if (!PyTuple_GetItem(tuple, k)) {
      PyErr_Format(PyExc_TypeError, "input %R is missing", PyTuple_GetItem(self->names, k));
      return false;
    }
  }
  return true;
}

PyObject *dt__py_arguments(dt_py_function_t *self, PyObject *args, PyObject *keywords) {
  Py_ssize_t n = PyTuple_Size(args), named = keywords ? PyDict_Size(keywords) : 0;
  if (n + named > (Py_ssize_t)self->n_inputs || (!named && n != (Py_ssize_t)self->n_inputs)) {
    PyErr_Format(PyExc_TypeError, "%zd inputs given; there are %u: %S", n + named, self->n_inputs,
                 self->names);
    return NULL;
  }
  if (!named)
    return Py_NewRef(args);
  PyObject *tuple = PyTuple_New(self->n_inputs);
  bool set = tuple != NULL;
  for (Py_ssize_t k = 0; set && k < n; k++)
    set = PyTuple_SetItem(tuple, k, Py_NewRef(PyTuple_GetItem(args, k))) == 0;
  if (set && set_named(self, tuple, keywords) && is_whole(self, tuple))
    return tuple;
  Py_XDECREF(tuple);
  return NULL;
}

static bool has_value(PyObject *args) {
  for (Py_ssize_t k = 0; k < PyTuple_Size(args); k++) {
    if (Py_TYPE(PyTuple_GetItem(args, k)) == dt__py_types.value)
      return true;
  }
  return false;
}

// A call in a program, of Values: the function's program becomes a part of it.
static PyObject *call_inside(dt_py_function_t *function, PyObject *args) {
  if (function->program)
    return PyObject_Call(function->program, args, NULL);
  dt__py_raise(DT_E_UNSUPPORTED,
               "a program calls functions of programs alone, not those of models");
  return NULL;
}

PyObject *dt__py_call(PyObject *self, PyObject *args, PyObject *keywords) {
  dt_py_function_t *function = (dt_py_function_t *)self;
  PyObject *ordered = dt__py_arguments(function, args, keywords), *results = NULL;
  if (ordered && dt__py_tracing() && has_value(ordered))
    results = call_inside(function, ordered);
  else if (ordered)
    results = call_with(function, ordered, NULL, NULL, false);
  Py_XDECREF(ordered);
  return results;
}

PyObject *dt__py_inputs(dt_py_function_t *self, PyObject *inputs) {
  PyObject *args = PyDict_Check(inputs) ? PyTuple_New(0) : PySequence_Tuple(inputs);
  PyObject *ordered =
      args ? dt__py_arguments(self, args, PyDict_Check(inputs) ? inputs : NULL) : NULL;
  Py_XDECREF(args);
  return ordered;
}

// run(inputs, *, out=None, tensors=False, mode=, timeout=, cancel=)
PyObject *dt__py_run(PyObject *object, PyObject *args, PyObject *keywords) {
  dt_py_function_t *self = (dt_py_function_t *)object;
  dt_call_options_t options = {.struct_size = sizeof(options)};
  dt_py_options_t group = {dt__py_call_options, &options};
  PyObject *inputs, *out = NULL, *tensors = NULL, *left = NULL, *results = NULL;
  if (!PyArg_ParseTuple(args, "O:run", &inputs))
    return NULL;
  if (keywords) {
    left = PyDict_Copy(keywords);
    out = PyDict_GetItemString(keywords, "out");
    tensors = PyDict_GetItemString(keywords, "tensors");
    if (!left || (out && PyDict_DelItemString(left, "out") < 0) ||
        (tensors && PyDict_DelItemString(left, "tensors") < 0))
      goto done;
  }
  if (!dt__py_options(left, &group, 1, "run"))
    goto done;
  PyObject *ordered = dt__py_inputs(self, inputs);
  if (ordered) {
    int as_tensors = tensors ? PyObject_IsTrue(tensors) : 0;
    if (as_tensors >= 0)
      results = call_with(self, ordered, out == Py_None ? NULL : out, &options, as_tensors);
    Py_DECREF(ordered);
  }
done:
  Py_XDECREF(left);
  return results;
}

// ---- Asked without a call ---------------------------------------------------------------------------

static PyObject *shape_of(const dt_output_shape_t *shape) {
  PyObject *sizes = PyTuple_New(shape->rank);
  for (uint32_t k = 0; sizes && k < shape->rank; k++) {
    PyObject *size =
        shape->sizes[k] < 0 ? Py_NewRef(Py_None) : PyLong_FromLongLong(shape->sizes[k]);
    if (!size || PyTuple_SetItem(sizes, k, size) < 0)
      Py_CLEAR(sizes);
  }
  return sizes ? Py_BuildValue("(sN)", dt_dtype_name(shape->dtype), sizes) : NULL;
}

PyObject *dt__py_output_sizes(PyObject *object, PyObject *args, PyObject *keywords) {
  dt_py_function_t *self = (dt_py_function_t *)object;
  const uint32_t m = self->n_outputs;
  call_t call;
  PyObject *ordered = dt__py_arguments(self, args, keywords), *tuple = NULL;
  if (!ordered)
    return NULL;
  if (!open_call(&call, self, false)) {
    Py_DECREF(ordered);
    return NULL;
  }
  dt_output_shape_t *shapes = calloc((size_t)m + 1, sizeof(*shapes));
  if (!shapes)
    PyErr_NoMemory();
  else if (take_inputs(&call, ordered)) {
    dt_status_t status;
    Py_BEGIN_ALLOW_THREADS;
    status = dt_function_output_sizes(call.session, self->function, call.tensors, self->n_inputs,
                                      shapes, sizeof(*shapes), m);
    Py_END_ALLOW_THREADS;
    if (dt__py_traced_ok(status))
      tuple = PyTuple_New(m);
    for (uint32_t k = 0; tuple && k < m; k++) {
      PyObject *shape = shape_of(&shapes[k]);
      if (!shape || PyTuple_SetItem(tuple, k, shape) < 0)
        Py_CLEAR(tuple);
    }
  }
  free(shapes);
  close_call(&call);
  Py_DECREF(ordered);
  return tuple;
}

static char *report_of(dt_py_function_t *self, dt_tensor_t *const *inputs, uint32_t n, bool json) {
  dt_report_t *report = NULL;
  dt_status_t status;
  char *text = NULL;
  Py_BEGIN_ALLOW_THREADS;
  status = dt_function_report(self->function, inputs, n, &report);
  if (!status)
    status = json ? dt_report_json(report, 0, &text) : dt_report_text(report, 0, &text);
  dt_report_free(report);
  Py_END_ALLOW_THREADS;
  return dt__py_traced_ok(status) ? text : NULL;
}

// The report's text: without inputs it does not say how a call would go.
static char *report_for(dt_py_function_t *self, PyObject *args, PyObject *keywords, bool json) {
  call_t call;
  char *text = NULL;
  if (PyTuple_Size(args) == 0 && (!keywords || PyDict_Size(keywords) == 0))
    return report_of(self, NULL, 0, json);
  PyObject *ordered = dt__py_arguments(self, args, keywords);
  if (ordered && open_call(&call, self, false)) {
    if (take_inputs(&call, ordered))
      text = report_of(self, call.tensors, self->n_inputs, json);
    close_call(&call);
  }
  Py_XDECREF(ordered);
  return text;
}

PyObject *dt__py_explain(PyObject *self, PyObject *args, PyObject *keywords) {
  return dt__py_text(report_for((dt_py_function_t *)self, args, keywords, false));
}

PyObject *dt__py_report(PyObject *self, PyObject *args, PyObject *keywords) {
  return dt__py_json(report_for((dt_py_function_t *)self, args, keywords, true), true);
}

PyObject *dt__py_text(char *text) {
  PyObject *made = text ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace") : NULL;
  dt_text_free(text);
  return made;
}

PyObject *dt__py_json(char *text, bool lines) {
  PyObject *json = text ? PyImport_ImportModule("json") : NULL;
  PyObject *made = NULL;
  if (json && !lines)
    made = PyObject_CallMethod(json, "loads", "s", text);
  else if (json)
    made = PyList_New(0);
  for (char *at = text, *end; made && lines && *at; at = end) {
    end = at + strcspn(at, "\n");
    PyObject *item = PyObject_CallMethod(json, "loads", "s#", at, (Py_ssize_t)(end - at));
    if (!item || PyList_Append(made, item) < 0)
      Py_CLEAR(made);
    Py_XDECREF(item);
    end += *end == '\n';
  }
  Py_XDECREF(json);
  dt_text_free(text);
  return made;
}
