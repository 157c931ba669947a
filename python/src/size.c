// SPDX-License-Identifier: Apache-2.0
// The type Size: a symbolic number of a trace. It adds and compares as numbers do; where Python
// wants the truth of a condition, or the number itself, a guard is made. What is the same for all
// sizes is an int or a bool of Python instead.
#include "python/src/core.h"

#include <stdlib.h>

typedef struct dt_py_size_t {
  PyObject_HEAD dt_sym_t size;
  bool condition;
} dt_py_size_t;

static dt_py_size_t *of(PyObject *self) { return (dt_py_size_t *)self; }

static PyObject *make(dt_trace_t *trace, dt_sym_t size, bool condition) {
  int64_t number;
  if (!dt__py_trace_ok(trace))
    return NULL;
  if (dt_sym_constant(trace, size, &number))
    return condition ? PyBool_FromLong(number != 0) : PyLong_FromLongLong(number);
  dt_py_size_t *self = dt__py_new(dt__py_types.size);
  if (!self)
    return NULL;
  self->size = size;
  self->condition = condition;
  return (PyObject *)self;
}

PyObject *dt__py_size(dt_trace_t *trace, dt_sym_t size) { return make(trace, size, false); }

bool dt__py_as_size(dt_trace_t *trace, PyObject *object, dt_sym_t *out) {
  if (Py_TYPE(object) == dt__py_types.size) {
    *out = of(object)->size;
    return true;
  }
  if (!PyIndex_Check(object)) {
    PyErr_Format(PyExc_TypeError, "expected a size, a number or a Size, not %R",
                 (PyObject *)Py_TYPE(object));
    return false;
  }
  PyObject *number = PyNumber_Index(object);
  int64_t value = number ? PyLong_AsLongLong(number) : 0;
  Py_XDECREF(number);
  if (PyErr_Occurred())
    return false;
  *out = dt_sym_const(trace, value);
  return dt__py_trace_ok(trace);
}

// ---- Numbers ----------------------------------------------------------------------------------------

typedef dt_sym_t (*binary_t)(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
typedef dt_sym_t (*unary_t)(dt_trace_t *trace, dt_sym_t a);

static bool is_size(PyObject *object) {
  return Py_TYPE(object) == dt__py_types.size || PyLong_Check(object);
}

static PyObject *binary(PyObject *a, PyObject *b, binary_t build, bool condition) {
  dt_sym_t left, right;
  if (!is_size(a) || !is_size(b))
    return Py_NewRef(Py_NotImplemented);
  dt_trace_t *trace = dt__py_trace("a Size");
  if (!trace || !dt__py_as_size(trace, a, &left) || !dt__py_as_size(trace, b, &right))
    return NULL;
  return make(trace, build(trace, left, right), condition);
}

static PyObject *unary(PyObject *a, unary_t build, bool condition) {
  dt_trace_t *trace = dt__py_trace("a Size");
  return trace ? make(trace, build(trace, of(a)->size), condition) : NULL;
}

#define BINARY(slot, name, condition)                                                              \
  static PyObject *slot(PyObject *a, PyObject *b) { return binary(a, b, dt_sym_##name, condition); }
BINARY(add, add, false)
BINARY(subtract, sub, false)
BINARY(multiply, mul, false)
BINARY(floor_divide, floordiv, false)
BINARY(remainder_of, mod, false)
BINARY(shift_left, shl, false)
BINARY(shift_right, shr, false)
BINARY(both, and, true)
BINARY(either, or, true)

static PyObject *negative(PyObject *a) { return unary(a, dt_sym_neg, false); }
static PyObject *absolute(PyObject *a) { return unary(a, dt_sym_abs, false); }
static PyObject *invert(PyObject *a) { return unary(a, dt_sym_not, true); }

static PyObject *compare(PyObject *a, PyObject *b, int how) {
  switch (how) {
  case Py_LT:
    return binary(a, b, dt_sym_lt, true);
  case Py_LE:
    return binary(a, b, dt_sym_le, true);
  case Py_GT:
    return binary(b, a, dt_sym_lt, true);
  case Py_GE:
    return binary(b, a, dt_sym_le, true);
  case Py_EQ:
    return binary(a, b, dt_sym_eq, true);
  default:
    return binary(a, b, dt_sym_ne, true);
  }
}

static int truth(PyObject *self) {
  dt_trace_t *trace = dt__py_trace("a condition");
  if (!trace)
    return -1;
  bool answer = dt_sym_true(trace, of(self)->size);
  return dt__py_trace_ok(trace) ? answer : -1;
}

static PyObject *as_int(PyObject *self) {
  dt_trace_t *trace = dt__py_trace("int");
  if (!trace)
    return NULL;
  int64_t number = dt_sym_int(trace, of(self)->size);
  return dt__py_trace_ok(trace) ? PyLong_FromLongLong(number) : NULL;
}

static PyObject *repr(PyObject *self) {
  return PyUnicode_FromString(of(self)->condition ? "<ductile condition>" : "<ductile.Size>");
}

int dt__py_add_size(PyObject *module) {
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, dt__py_free},
      {Py_tp_repr, repr},
      {Py_tp_richcompare, compare},
      {Py_tp_hash, PyObject_HashNotImplemented},
      {Py_nb_add, add},
      {Py_nb_subtract, subtract},
      {Py_nb_multiply, multiply},
      {Py_nb_floor_divide, floor_divide},
      {Py_nb_remainder, remainder_of},
      {Py_nb_lshift, shift_left},
      {Py_nb_rshift, shift_right},
      {Py_nb_and, both},
      {Py_nb_or, either},
      {Py_nb_negative, negative},
      {Py_nb_absolute, absolute},
      {Py_nb_invert, invert},
      {Py_nb_bool, truth},
      {Py_nb_int, as_int},
      {Py_tp_doc, "A symbolic number of a trace, or a condition over such numbers."},
      {0, NULL},
  };
  static PyType_Spec spec = {"ductile.Size", sizeof(dt_py_size_t), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  return dt__py_add_type(module, &spec, &dt__py_types.size) ? 0 : -1;
}
