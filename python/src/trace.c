// SPDX-License-Identifier: Apache-2.0
// Traces: the library calls back into a Python program, which builds with the trace of its thread.
// What the program raises is kept until the library returns, and then raised to whoever called.
#include "python/src/core.h"

#include <stdlib.h>
#include <string.h>

static _Thread_local dt_py_trace_t *innermost;

// What a program of this thread raised.
static _Thread_local struct {
  PyObject *type, *error, *back;
} raised;

static void keep_raised(void) {
  Py_XDECREF(raised.type);
  Py_XDECREF(raised.error);
  Py_XDECREF(raised.back);
  PyErr_Fetch(&raised.type, &raised.error, &raised.back);
  PyErr_NormalizeException(&raised.type, &raised.error, &raised.back);
}

static bool raise_kept(void) {
  if (!raised.type)
    return false;
  PyErr_Restore(raised.type, raised.error, raised.back);
  raised.type = raised.error = raised.back = NULL;
  return true;
}

static void drop_kept(void) {
  Py_CLEAR(raised.type);
  Py_CLEAR(raised.error);
  Py_CLEAR(raised.back);
}

bool dt__py_traced_ok(dt_status_t status) {
  if (!status) {
    drop_kept();
    return true;
  }
  if (raise_kept()) {
    dt_status_free(status);
    return false;
  }
  return dt__py_ok(status);
}

bool dt__py_trace_ok(dt_trace_t *trace) {
  dt_status_t status = dt_trace_status(trace);
  if (!status)
    return true;
  if (!raise_kept())
    dt__py_raise(dt_status_code(status), "%s", dt_status_message(status));
  return false;
}

dt_py_trace_t *dt__py_tracing(void) { return innermost; }

// The next builder is at the caller's line.
static void note_line(dt_trace_t *trace) {
  PyFrameObject *frame = PyEval_GetFrame();
  PyObject *code = frame ? (PyObject *)PyFrame_GetCode(frame) : NULL;
  PyObject *file = code ? PyObject_GetAttrString(code, "co_filename") : NULL;
  const char *path = file ? PyUnicode_AsUTF8AndSize(file, NULL) : NULL;
  if (path)
    (void)dt_trace_at(trace, path, PyFrame_GetLineNumber(frame));
  else
    PyErr_Clear();
  Py_XDECREF(file);
  Py_XDECREF(code);
}

dt_trace_t *dt__py_trace(const char *what) {
  if (!innermost) {
    dt__py_raise(DT_E_STATE, "%s: no program is traced on this thread", what);
    return NULL;
  }
  dt_trace_t *trace = innermost->trace;
  if (!dt__py_trace_ok(trace))
    return NULL;
  note_line(trace);
  return trace;
}

// ---- What the library calls -----------------------------------------------------------------------

static PyObject *call_program(PyObject *program, dt_trace_t *trace, uint32_t n,
                              const dt_value_t *in) {
  PyObject *args = PyTuple_New(n);
  for (uint32_t k = 0; args && k < n; k++) {
    PyObject *value = dt__py_value(trace, in[k]);
    if (!value || PyTuple_SetItem(args, k, value) < 0)
      Py_CLEAR(args);
  }
  PyObject *result = args ? PyObject_Call(program, args, NULL) : NULL;
  Py_XDECREF(args);
  return result;
}

// A result of a program: one value, or a sequence of as many as there are.
static bool read_results(dt_trace_t *trace, PyObject *result, uint32_t n, dt_value_t *out) {
  bool several = PyTuple_Check(result) || PyList_Check(result);
  Py_ssize_t given = several ? PySequence_Size(result) : result == Py_None && n == 0 ? 0 : 1;
  if (given != (Py_ssize_t)n) {
    return dt__py_raise(DT_E_ARGUMENT, "the program returned %zd values; %u are declared", given,
                        n);
  }
  for (uint32_t k = 0; k < n; k++) {
    PyObject *item = several ? PySequence_GetItem(result, k) : Py_NewRef(result);
    bool read = item && dt__py_as_value(trace, item, DT_DTYPE_NONE, &out[k]);
    Py_XDECREF(item);
    if (!read)
      return false;
  }
  return true;
}

static dt_status_t failed(void) {
  keep_raised();
  return dt__py_status(raised.type, raised.error);
}

dt_status_t dt__py_body(PyObject *program, dt_trace_t *trace, uint32_t n_in, const dt_value_t *in,
                        uint32_t n_out, dt_value_t *out) {
  PyObject *result = call_program(program, trace, n_in, in);
  bool read = result && read_results(trace, result, n_out, out);
  Py_XDECREF(result);
  return read ? NULL : failed();
}

dt_status_t dt__py_program(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                           void *closure) {
  dt_py_function_t *function = closure;
  if (!Py_IsInitialized())
    return dt_status_make(DT_E_STATE, "the interpreter has ended");
  PyGILState_STATE state = PyGILState_Ensure();
  dt_py_trace_t here = {.trace = trace, .function = function, .outer = innermost};
  dt_status_t status;
  PyObject *program = Py_XNewRef(function->program);
  drop_kept();
  innermost = &here;
  status = program ? dt__py_body(program, trace, function->n_inputs, in, function->n_outputs, out)
                   : dt_status_make(DT_E_STATE, "the program has been collected");
  innermost = here.outer;
  Py_XDECREF(here.subgraphs);
  Py_XDECREF(program);
  PyGILState_Release(state);
  return status;
}

// ---- The type Value ---------------------------------------------------------------------------------

typedef struct dt_py_value_t {
  PyObject_HEAD dt_value_t value;
} dt_py_value_t;

static dt_py_value_t *of(PyObject *self) { return (dt_py_value_t *)self; }

PyObject *dt__py_value(dt_trace_t *trace, dt_value_t value) {
  if (!dt__py_trace_ok(trace))
    return NULL;
  dt_py_value_t *self = dt__py_new(dt__py_types.value);
  if (self)
    self->value = value;
  return (PyObject *)self;
}

// (name, array, Tensor) of a constant; borrowed, NULL with an exception.
static PyObject *entry_of(PyObject *array, PyObject *name) {
  PyObject *constants = innermost->function->constants;
  PyObject *key = name ? Py_NewRef(name) : PyLong_FromVoidPtr(array);
  PyObject *entry = key ? PyDict_GetItemWithError(constants, key) : NULL;
  if (entry && PyTuple_GetItem(entry, 1) != array)
    entry = NULL; // another trace's, of the same name
  if (key && !entry && !PyErr_Occurred()) {
    PyObject *kept = dt__py_keep(array, "constant");
    PyObject *named =
        name ? Py_NewRef(name) : PyUnicode_FromFormat("constant%zd", PyDict_Size(constants));
    PyObject *whole = kept && named ? PyTuple_Pack(3, named, array, kept) : NULL;
    if (whole && PyDict_SetItem(constants, key, whole) == 0)
      entry = whole; // the dict keeps it
    Py_XDECREF(whole);
    Py_XDECREF(named);
    Py_XDECREF(kept);
  }
  Py_XDECREF(key);
  return entry;
}

// A constant of the function: of one object always the same.
static bool constant_of(dt_trace_t *trace, PyObject *array, PyObject *name, dt_value_t *out) {
  PyObject *entry = entry_of(array, name);
  const char *text = entry ? PyUnicode_AsUTF8AndSize(PyTuple_GetItem(entry, 0), NULL) : NULL;
  if (!text)
    return false;
  *out = dt_constant(trace, text, ((dt_py_tensor_t *)PyTuple_GetItem(entry, 2))->tensor);
  return dt__py_trace_ok(trace);
}

static bool scalar_of(dt_trace_t *trace, PyObject *object, dt_dtype_t dtype, dt_value_t *out) {
  if (dtype == DT_DTYPE_NONE) {
    PyErr_Format(PyExc_TypeError,
                 "%R: a number takes the dtype of another operand, and there is "
                 "none: use ops.scalar",
                 object);
    return false;
  }
  if (!PyFloat_Check(object) && !PyBool_Check(object)) {
    // Integers that a double does not have.
    int64_t number = PyLong_AsLongLong(object);
    if (PyErr_Occurred())
      return false;
    if (number > (INT64_C(1) << 53) || number < -(INT64_C(1) << 53)) {
      *out = dt_cast(trace, dt_size_value(trace, dt_sym_const(trace, number)), dtype);
      return dt__py_trace_ok(trace);
    }
  }
  double number = PyFloat_AsDouble(object);
  if (PyErr_Occurred())
    return false;
  *out = dt_scalar(trace, dtype, number);
  return dt__py_trace_ok(trace);
}

bool dt__py_as_value(dt_trace_t *trace, PyObject *object, dt_dtype_t dtype, dt_value_t *out) {
  if (Py_TYPE(object) == dt__py_types.value) {
    *out = of(object)->value;
    return true;
  }
  if (Py_TYPE(object) == dt__py_types.size) {
    dt_sym_t size;
    if (!dt__py_as_size(trace, object, &size))
      return false;
    *out = dt_size_value(trace, size);
    if (dtype && dtype != DT_I64)
      *out = dt_cast(trace, *out, dtype);
    return dt__py_trace_ok(trace);
  }
  if (PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyBool_Check(object))
    return scalar_of(trace, object, dtype, out);
  return constant_of(trace, object, NULL, out);
}

static PyObject *get_shape(PyObject *self, void *unused) {
  (void)unused;
  dt_trace_t *trace = dt__py_trace("shape");
  if (!trace)
    return NULL;
  uint32_t rank = dt_value_rank(trace, of(self)->value);
  PyObject *tuple = dt__py_trace_ok(trace) ? PyTuple_New(rank) : NULL;
  for (uint32_t k = 0; tuple && k < rank; k++) {
    PyObject *size = dt__py_size(trace, dt_dim(trace, of(self)->value, (int32_t)k));
    if (!size || PyTuple_SetItem(tuple, k, size) < 0)
      Py_CLEAR(tuple);
  }
  return tuple;
}

static PyObject *get_dtype(PyObject *self, void *unused) {
  (void)unused;
  dt_trace_t *trace = dt__py_trace("dtype");
  if (!trace)
    return NULL;
  dt_dtype_t dtype = dt_value_dtype(trace, of(self)->value);
  return dt__py_trace_ok(trace) ? PyUnicode_FromString(dt_dtype_name(dtype)) : NULL;
}

static PyObject *get_rank(PyObject *self, void *unused) {
  (void)unused;
  dt_trace_t *trace = dt__py_trace("ndim");
  if (!trace)
    return NULL;
  uint32_t rank = dt_value_rank(trace, of(self)->value);
  return dt__py_trace_ok(trace) ? PyLong_FromUnsignedLong(rank) : NULL;
}

static PyGetSetDef properties[] = {
    {"shape", get_shape, NULL, "Its sizes: numbers where they are always the same.", NULL},
    {"dtype", get_dtype, NULL, "The element type, such as \"f32\".", NULL},
    {"ndim", get_rank, NULL, "How many dims it has.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

// ---- Operators --------------------------------------------------------------------------------------

static PyObject *binary(const char *name, PyObject *a, PyObject *b) {
  return PyObject_CallFunctionObjArgs(dt__py_builder(name), a, b, NULL);
}
static PyObject *unary(const char *name, PyObject *a) {
  return PyObject_CallFunctionObjArgs(dt__py_builder(name), a, NULL);
}

static bool is_bool(PyObject *a, PyObject *b) {
  PyObject *value = Py_TYPE(a) == dt__py_types.value ? a : b;
  return innermost && dt_value_dtype(innermost->trace, of(value)->value) == DT_BOOL;
}

#define BINARY(slot, name)                                                                         \
  static PyObject *slot(PyObject *a, PyObject *b) { return binary(#name, a, b); }
BINARY(add, add)
BINARY(subtract, sub)
BINARY(multiply, mul)
BINARY(true_divide, div)
BINARY(remainder_of, mod)
BINARY(shift_left, shift_left)
BINARY(shift_right, shift_right)
BINARY(matmul, matmul)

static PyObject *power(PyObject *a, PyObject *b, PyObject *modulus) {
  return modulus == Py_None ? binary("pow", a, b) : Py_NewRef(Py_NotImplemented);
}
static PyObject *both(PyObject *a, PyObject *b) {
  return binary(is_bool(a, b) ? "logical_and" : "bit_and", a, b);
}
static PyObject *either(PyObject *a, PyObject *b) {
  return binary(is_bool(a, b) ? "logical_or" : "bit_or", a, b);
}
static PyObject *differ(PyObject *a, PyObject *b) {
  return binary(is_bool(a, b) ? "logical_xor" : "bit_xor", a, b);
}
static PyObject *negative(PyObject *a) { return unary("neg", a); }
static PyObject *absolute(PyObject *a) { return unary("abs", a); }
static PyObject *invert(PyObject *a) { return unary(is_bool(a, a) ? "logical_not" : "bit_not", a); }

static PyObject *compare(PyObject *a, PyObject *b, int how) {
  static const char *const names[] = {
      [Py_LT] = "lt", [Py_LE] = "le", [Py_EQ] = "eq",
      [Py_NE] = "ne", [Py_GT] = "gt", [Py_GE] = "ge",
  };
  return binary(names[how], a, b);
}

static int truth(PyObject *self) {
  (void)self;
  PyErr_SetString(PyExc_TypeError, "a traced value has no truth, for data decide it: use ops.where "
                                   "or ops.cond; conditions over sizes have one");
  return -1;
}

// ---- Indexing ---------------------------------------------------------------------------------------

// An end of a slice; a missing one is as far as it goes.
static bool read_end(dt_trace_t *trace, PyObject *object, int64_t missing, dt_sym_t *out) {
  if (object != Py_None)
    return dt__py_as_size(trace, object, out);
  *out = dt_sym_const(trace, missing);
  return true;
}

static bool slice_axis(dt_trace_t *trace, PyObject *item, int32_t axis, dt_value_t *value) {
  static const char *const names[] = {"start", "stop", "step"};
  PyObject *parts[3] = {NULL, NULL, NULL};
  dt_sym_t begin, end;
  bool got = true;
  int64_t step = 1;
  for (size_t k = 0; k < 3; k++)
    got = got && (parts[k] = PyObject_GetAttrString(item, names[k])) != NULL;
  if (got && parts[2] != Py_None) {
    step = PyLong_AsLongLong(parts[2]);
    got = !PyErr_Occurred();
  }
  got = got && read_end(trace, parts[0], step > 0 ? 0 : INT64_MAX, &begin) &&
        read_end(trace, parts[1], step > 0 ? INT64_MAX : INT64_MIN, &end);
  bool all = got && step == 1 && parts[0] == Py_None && parts[1] == Py_None;
  for (size_t k = 0; k < 3; k++)
    Py_XDECREF(parts[k]);
  if (got && !all)
    *value = dt_slice_range(trace, *value, axis, begin, end, step);
  return got && dt__py_trace_ok(trace);
}

// One item of an index: takes it from `value`, and moves `axis` on.
static bool index_by(dt_trace_t *trace, PyObject *item, int32_t *axis, dt_value_t *value) {
  if (PySlice_Check(item))
    return slice_axis(trace, item, (*axis)++, value);
  if (item == Py_None) {
    *value = dt_unsqueeze(trace, *value, (*axis)++);
    return dt__py_trace_ok(trace);
  }
  if (PyLong_Check(item) || Py_TYPE(item) == dt__py_types.size) {
    dt_sym_t begin, size = dt_dim(trace, *value, *axis);
    if (!dt__py_as_size(trace, item, &begin))
      return false;
    int64_t number;
    if (dt_sym_constant(trace, begin, &number) && number < 0)
      begin = dt_sym_add(trace, size, begin);
    *value = dt_slice(trace, *value, *axis, begin, dt_sym_const(trace, 1), 1);
    *value = dt_squeeze(trace, *value, *axis);
    return dt__py_trace_ok(trace);
  }
  dt_value_t indices;
  if (!dt__py_as_value(trace, item, DT_I64, &indices))
    return false;
  *value = dt_gather(trace, *value, indices, *axis);
  *axis += (int32_t)dt_value_rank(trace, indices);
  return dt__py_trace_ok(trace);
}

// How many dims of the value an index names, and how many items are arrays.
static int count_items(PyObject *items, int *out_arrays) {
  int dims = 0;
  *out_arrays = 0;
  for (Py_ssize_t k = 0; k < PyTuple_Size(items); k++) {
    PyObject *item = PyTuple_GetItem(items, k);
    if (item == Py_None || item == Py_Ellipsis)
      continue;
    dims++;
    if (!PySlice_Check(item) && !PyLong_Check(item) && Py_TYPE(item) != dt__py_types.size)
      ++*out_arrays;
  }
  return dims;
}

static PyObject *get_item(PyObject *self, PyObject *key) {
  dt_trace_t *trace = dt__py_trace("an index");
  PyObject *items = !trace ? NULL : PyTuple_Check(key) ? Py_NewRef(key) : PyTuple_Pack(1, key);
  if (!items)
    return NULL;
  dt_value_t value = of(self)->value;
  int arrays, dims = count_items(items, &arrays);
  int32_t axis = 0, rank = (int32_t)dt_value_rank(trace, value);
  bool good = dims <= rank && arrays <= 1;
  if (!good) {
    dt__py_raise(DT_E_SHAPE,
                 arrays > 1 ? "an index has one array at most: use ops.gather_nd"
                            : "an index of %d dims into a value of rank %d",
                 dims, rank);
  }
  for (Py_ssize_t k = 0; good && k < PyTuple_Size(items); k++) {
    PyObject *item = PyTuple_GetItem(items, k);
    if (item == Py_Ellipsis)
      axis += rank - dims;
    else
      good = index_by(trace, item, &axis, &value);
  }
  Py_DECREF(items);
  return good ? dt__py_value(trace, value) : NULL;
}

// ---- The module's part ------------------------------------------------------------------------------

static PyObject *constant(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *name, *array;
  dt_value_t value;
  if (!PyArg_ParseTuple(args, "UO:constant", &name, &array))
    return NULL;
  dt_trace_t *trace = dt__py_trace("constant");
  return trace && constant_of(trace, array, name, &value) ? dt__py_value(trace, value) : NULL;
}

static PyMethodDef functions[] = {
    {"_constant", constant, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int dt__py_add_trace(PyObject *module) {
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, dt__py_free},
      {Py_tp_getset, properties},
      {Py_tp_richcompare, compare},
      {Py_tp_hash, PyObject_HashNotImplemented},
      {Py_mp_subscript, get_item},
      {Py_nb_add, add},
      {Py_nb_subtract, subtract},
      {Py_nb_multiply, multiply},
      {Py_nb_true_divide, true_divide},
      {Py_nb_remainder, remainder_of},
      {Py_nb_power, power},
      {Py_nb_lshift, shift_left},
      {Py_nb_rshift, shift_right},
      {Py_nb_and, both},
      {Py_nb_or, either},
      {Py_nb_xor, differ},
      {Py_nb_matrix_multiply, matmul},
      {Py_nb_negative, negative},
      {Py_nb_absolute, absolute},
      {Py_nb_invert, invert},
      {Py_nb_bool, truth},
      {Py_tp_doc, "A tensor of a trace, which operators and builders compute with."},
      {0, NULL},
  };
  static PyType_Spec spec = {"ductile.Value", sizeof(dt_py_value_t), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  return dt__py_add_type(module, &spec, &dt__py_types.value)
             ? PyModule_AddFunctions(module, functions)
             : -1;
}
