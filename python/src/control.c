// SPDX-License-Identifier: Apache-2.0
// Control that data decides, with bodies that are Python functions: branches, loops and scans.
#include "python/src/core.h"

#include <stdlib.h>

enum { MOST_BODIES = 64, MOST_VALUES = 64 };

// The bodies of one builder; it lives while the builder runs, in which all of them are traced.
typedef struct bodies_t {
  PyObject *functions;     // a tuple
  uint32_t n_in, n_out[2]; // of the first body, and of all others
} bodies_t;

static dt_status_t run(bodies_t *bodies, uint32_t which, dt_trace_t *trace, const dt_value_t *in,
                       dt_value_t *out) {
  return dt__py_body(PyTuple_GetItem(bodies->functions, which), trace, bodies->n_in, in,
                     bodies->n_out[which > 0], out);
}

// The library knows a body by its address alone, so there is one for each place.
#define ROW(eight)                                                                                 \
  BODY(eight##0)                                                                                   \
  BODY(eight##1)                                                                                   \
  BODY(eight##2) BODY(eight##3) BODY(eight##4) BODY(eight##5) BODY(eight##6) BODY(eight##7)
#define ROWS ROW(0) ROW(01) ROW(02) ROW(03) ROW(04) ROW(05) ROW(06) ROW(07)
#define BODY(k)                                                                                    \
  static dt_status_t body_##k(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,            \
                              void *closure) {                                                     \
    return run(closure, k, trace, in, out);                                                        \
  }
ROWS
#undef BODY
#define BODY(k) body_##k,
    static const dt_branch_fn_t places[MOST_BODIES] = {ROWS};
#undef BODY

// Values of a sequence, at most MOST_VALUES with those that are there.
static bool read_values(dt_trace_t *trace, PyObject *sequence, dt_value_t *values, uint32_t *n) {
  Py_ssize_t more = PySequence_Size(sequence);
  if (more < 0)
    return false;
  if (more + (Py_ssize_t)*n > MOST_VALUES)
    return dt__py_raise(DT_E_LIMIT, "at most %d values", MOST_VALUES);
  for (Py_ssize_t k = 0; k < more; k++, ++*n) {
    PyObject *item = PySequence_GetItem(sequence, k);
    bool read = item && dt__py_as_value(trace, item, DT_DTYPE_NONE, &values[*n]);
    Py_XDECREF(item);
    if (!read)
      return false;
  }
  return true;
}

static bool within(uint32_t n) {
  return n <= MOST_VALUES || dt__py_raise(DT_E_LIMIT, "at most %d values", MOST_VALUES);
}

static PyObject *results(dt_trace_t *trace, uint32_t n, const dt_value_t *values) {
  PyObject *tuple = dt__py_trace_ok(trace) ? PyTuple_New(n) : NULL;
  for (uint32_t k = 0; tuple && k < n; k++) {
    PyObject *value = dt__py_value(trace, values[k]);
    if (!value || PyTuple_SetItem(tuple, k, value) < 0)
      Py_CLEAR(tuple);
  }
  return tuple;
}

// _switch(index, cases, inputs, n_outputs): of a bool index the second case is that of true.
static PyObject *switch_on(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *index_object, *cases, *inputs;
  unsigned n_out;
  dt_value_t in[MOST_VALUES], out[MOST_VALUES], index;
  uint32_t n_in = 0;
  if (!PyArg_ParseTuple(args, "OOOI:switch", &index_object, &cases, &inputs, &n_out))
    return NULL;
  dt_trace_t *trace = dt__py_trace("switch");
  if (!trace || !within(n_out) || !dt__py_as_value(trace, index_object, DT_I64, &index) ||
      !read_values(trace, inputs, in, &n_in))
    return NULL;
  bodies_t bodies = {.functions = PySequence_Tuple(cases)};
  if (!bodies.functions)
    return NULL;
  Py_ssize_t n = PyTuple_Size(bodies.functions);
  bodies.n_in = n_in;
  bodies.n_out[0] = bodies.n_out[1] = n_out;
  PyObject *made = NULL;
  if (n < 1 || n > MOST_BODIES)
    dt__py_raise(DT_E_LIMIT, "switch: %zd cases; expected 1 to %d", n, MOST_BODIES);
  else {
    dt_switch(trace, index, (uint32_t)n, places, &bodies, n_in, in, n_out, out);
    made = results(trace, n_out, out);
  }
  Py_DECREF(bodies.functions);
  return made;
}

// _cond(predicate, (then, otherwise), inputs, n_outputs)
static PyObject *cond(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *predicate, *functions, *inputs;
  unsigned n_out;
  dt_value_t in[MOST_VALUES], out[MOST_VALUES], pred;
  bodies_t bodies = {0};
  if (!PyArg_ParseTuple(args, "OO!OI:cond", &predicate, &PyTuple_Type, &functions, &inputs, &n_out))
    return NULL;
  dt_trace_t *trace = dt__py_trace("cond");
  if (!trace || !within(n_out) || !dt__py_as_value(trace, predicate, DT_BOOL, &pred) ||
      !read_values(trace, inputs, in, &bodies.n_in))
    return NULL;
  bodies.functions = functions;
  bodies.n_out[0] = bodies.n_out[1] = n_out;
  dt_cond(trace, pred, places[0], places[1], &bodies, bodies.n_in, in, n_out, out);
  return results(trace, n_out, out);
}

// _while((condition, body), state, captured)
static PyObject *loop(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *functions, *state, *captured;
  dt_value_t in[MOST_VALUES], out[MOST_VALUES];
  bodies_t bodies = {0};
  uint32_t n_state = 0, n_captured = 0;
  if (!PyArg_ParseTuple(args, "O!OO:while_loop", &PyTuple_Type, &functions, &state, &captured))
    return NULL;
  dt_trace_t *trace = dt__py_trace("while_loop");
  if (!trace || !read_values(trace, state, in, &n_state))
    return NULL;
  n_captured = n_state;
  if (!read_values(trace, captured, in, &n_captured))
    return NULL;
  bodies = (bodies_t){functions, n_captured, {1, n_state}};
  dt_while(trace, places[0], places[1], &bodies, n_state, in, n_captured - n_state, in + n_state,
           out);
  return results(trace, n_state, out);
}

// _scan((body,), init, xs, n_ys, length, flags)
static PyObject *scan(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *functions, *init, *xs, *length;
  unsigned n_ys, flags;
  dt_value_t in[MOST_VALUES], out[2 * MOST_VALUES];
  dt_sym_t trips = {0};
  uint32_t n_carry = 0;
  if (!PyArg_ParseTuple(args, "O!OOIOI:scan", &PyTuple_Type, &functions, &init, &xs, &n_ys, &length,
                        &flags))
    return NULL;
  dt_trace_t *trace = dt__py_trace("scan");
  if (!trace || !within(n_ys) || !read_values(trace, init, in, &n_carry))
    return NULL;
  uint32_t n = n_carry;
  if (!read_values(trace, xs, in, &n) ||
      (length != Py_None && !dt__py_as_size(trace, length, &trips)))
    return NULL;
  bodies_t bodies = {functions, n + ((flags & DT_SCAN_NUMBERED) != 0), {n_carry + n_ys, 0}};
  dt_scan(trace, places[0], &bodies, n_carry, in, n - n_carry, in + n_carry, trips, n_ys, flags,
          out);
  return results(trace, n_carry + n_ys, out);
}

// _associative_scan((combine,), xs, axis, flags)
static PyObject *associative_scan(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *functions, *xs;
  int axis;
  unsigned flags;
  dt_value_t in[MOST_VALUES], out[MOST_VALUES];
  uint32_t n = 0;
  if (!PyArg_ParseTuple(args, "O!OiI:associative_scan", &PyTuple_Type, &functions, &xs, &axis,
                        &flags))
    return NULL;
  dt_trace_t *trace = dt__py_trace("associative_scan");
  if (!trace || !read_values(trace, xs, in, &n))
    return NULL;
  bodies_t bodies = {functions, 2 * n, {n, 0}};
  dt_associative_scan(trace, places[0], &bodies, n, in, axis, flags, out);
  return results(trace, n, out);
}

// ---- Subgraphs --------------------------------------------------------------------------------------

static void free_bodies(PyObject *capsule) {
  bodies_t *bodies = PyCapsule_GetPointer(capsule, NULL);
  Py_DECREF(bodies->functions);
  free(bodies);
}

// The library shares what it traced of a subgraph between calls with one closure: of one function
// with as many operands and results it is the same until the trace ends. Borrowed; NULL with an
// exception.
static bodies_t *closure_of(PyObject *function, uint32_t n_in, uint32_t n_out) {
  dt_py_trace_t *here = dt__py_tracing();
  if (!here->subgraphs && !(here->subgraphs = PyDict_New()))
    return NULL;
  PyObject *key = Py_BuildValue("(NII)", PyLong_FromVoidPtr(function), n_in, n_out);
  PyObject *capsule = key ? PyDict_GetItemWithError(here->subgraphs, key) : NULL;
  bodies_t *bodies = capsule ? PyCapsule_GetPointer(capsule, NULL) : NULL;
  if (key && !capsule && !PyErr_Occurred()) {
    PyObject *functions = PyTuple_Pack(1, function);
    bodies = functions ? malloc(sizeof(*bodies)) : NULL;
    capsule = bodies ? PyCapsule_New(bodies, NULL, free_bodies) : NULL;
    if (capsule) {
      *bodies = (bodies_t){functions, n_in, {n_out, 0}};
      if (PyDict_SetItem(here->subgraphs, key, capsule) < 0)
        bodies = NULL; // the capsule frees it
      Py_DECREF(capsule);
    } else {
      free(bodies);
      bodies = NULL;
      Py_XDECREF(functions);
      if (!PyErr_Occurred())
        PyErr_NoMemory();
    }
  }
  Py_XDECREF(key);
  return bodies;
}

// _subgraph(function, inputs, n_outputs)
static PyObject *subgraph(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *function, *inputs;
  unsigned n_out;
  dt_value_t in[MOST_VALUES], out[MOST_VALUES];
  uint32_t n_in = 0;
  if (!PyArg_ParseTuple(args, "OOI:subgraph", &function, &inputs, &n_out))
    return NULL;
  dt_trace_t *trace = dt__py_trace("subgraph");
  if (!trace || !within(n_out) || !read_values(trace, inputs, in, &n_in))
    return NULL;
  bodies_t *bodies = closure_of(function, n_in, n_out);
  if (!bodies)
    return NULL;
  dt_subgraph(trace, places[0], bodies, n_in, in, n_out, 0, out);
  return results(trace, n_out, out);
}

static PyMethodDef functions[] = {
    {"_subgraph", subgraph, METH_VARARGS, NULL},
    {"_switch", switch_on, METH_VARARGS, NULL},
    {"_cond", cond, METH_VARARGS, NULL},
    {"_while", loop, METH_VARARGS, NULL},
    {"_scan", scan, METH_VARARGS, NULL},
    {"_associative_scan", associative_scan, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int dt__py_add_control(PyObject *module) { return PyModule_AddFunctions(module, functions); }
