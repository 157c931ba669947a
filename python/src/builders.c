// SPDX-License-Identifier: Apache-2.0
// The functions of the module ductile.ops: the library's builders, made from its table of ops and
// from builders.def.
#include "python/src/args.h"

#include <stdlib.h>
#include <string.h>

// What one builder does with its arguments.
typedef PyObject *(*build_t)(dt_trace_t *t, dt_py_arg_t *a);

typedef struct builder_t {
  const char *name, *spec, *doc;
  build_t build;
} builder_t;

#define v(k) a[k].value
#define i(k) ((int32_t)a[k].number)
#define u(k) ((uint32_t)a[k].number)
#define i64(k) a[k].number
#define f(k) a[k].real
#define b(k) (a[k].number != 0)
#define d(k) a[k].dtype
#define t(k) a[k].text
#define s(k) a[k].size
#define c(k) a[k].number
#define n(k) a[k].n
#define vs(k) a[k].values
#define ss(k) a[k].sizes
#define as(k) a[k].axes

// ---- From the table of ops ----------------------------------------------------------------------------

#define BUILD_unary(name)                                                                          \
  static PyObject *build_##name(dt_trace_t *t, dt_py_arg_t *a) {                                   \
    return dt__py_value(t, dt_##name(t, v(0)));                                                    \
  }
#define BUILD_binary(name)                                                                         \
  static PyObject *build_##name(dt_trace_t *t, dt_py_arg_t *a) {                                   \
    return dt__py_value(t, dt_##name(t, v(0), v(1)));                                              \
  }
#define BUILD_reduce(name)                                                                         \
  static PyObject *build_##name(dt_trace_t *t, dt_py_arg_t *a) {                                   \
    return dt__py_value(t, dt_##name(t, v(0), n(1), as(1), b(2)));                                 \
  }
#define BUILD_argreduce(name)
#define BUILD_along(name)
#define BUILD_own(name)
#define BUILD_none(name)
#define OP(name, arity, flags, dtype_rule, shape_rule, decompose, lower, eval, build, derivative,  \
           batch, doc)                                                                             \
  BUILD_##build(name)
#include "lower/graph/ops.def"

// ---- From builders.def -------------------------------------------------------------------------------

// Windows of arguments k: size, stride, dilation, low, high, extra; -1 or none: not given.
static const dt_window_t *windows(const dt_py_arg_t *a, const int *arguments, dt_window_t *out) {
  bool given = false;
  memset(out, 0, DT_MAX_RANK * sizeof(*out));
  for (int field = 0; field < 6; field++) {
    if (arguments[field] < 0)
      continue;
    const dt_py_arg_t *arg = &a[arguments[field]];
    for (uint32_t k = 0; k < arg->n && k < DT_MAX_RANK; k++) {
      dt_window_t *window = &out[k];
      dt_sym_t *const fields[] = {&window->size, &window->stride, &window->dilation,
                                  &window->low,  &window->high,   &window->extra};
      *fields[field] = arg->sizes[k];
      given = true;
    }
  }
  return given ? out : NULL;
}

static PyObject *tuple_of(dt_trace_t *t, uint32_t n, const dt_value_t *values) {
  if (!dt__py_trace_ok(t))
    return NULL;
  PyObject *tuple = PyTuple_New(n);
  for (uint32_t k = 0; tuple && k < n; k++) {
    PyObject *value = dt__py_value(t, values[k]);
    if (!value || PyTuple_SetItem(tuple, k, value) < 0)
      Py_CLEAR(tuple);
  }
  return tuple;
}

// Whether argument k has an entry for each dim of the first one, a value; else the trace fails.
static bool of_rank(dt_trace_t *t, const dt_py_arg_t *a, int k) {
  if (a[k].n == dt_value_rank(t, a[0].value))
    return true;
  dt_trace_fail(t, DT_E_SHAPE, "expected an entry for each dim");
  return false;
}

static bool of_one_length(dt_trace_t *t, const dt_py_arg_t *a, int j, int k) {
  if (a[j].n == a[k].n)
    return true;
  dt_trace_fail(t, DT_E_SHAPE, "expected sizes and strides of one length");
  return false;
}

static const dt_value_t none;

enum { MOST_RESULTS = 64 };

#define VALUE(name, spec, expression, doc)                                                         \
  static PyObject *build_##name(dt_trace_t *t, dt_py_arg_t *a) {                                   \
    dt_window_t w[DT_MAX_RANK];                                                                    \
    (void)w;                                                                                       \
    return dt__py_value(t, expression);                                                            \
  }
#define VALUES(name, spec, count, statement, doc)                                                  \
  static PyObject *build_##name(dt_trace_t *t, dt_py_arg_t *a) {                                   \
    dt_value_t out[MOST_RESULTS];                                                                  \
    if ((count) > MOST_RESULTS) {                                                                  \
      dt__py_raise(DT_E_LIMIT, #name ": at most %d parts", (int)MOST_RESULTS);                     \
      return NULL;                                                                                 \
    }                                                                                              \
    statement;                                                                                     \
    return tuple_of(t, (count), out);                                                              \
  }
#define SIZE(name, spec, expression, doc)                                                          \
  static PyObject *build_##name(dt_trace_t *t, dt_py_arg_t *a) {                                   \
    return dt__py_size(t, expression);                                                             \
  }
#define TRUTH(name, spec, expression, doc)                                                         \
  static PyObject *build_##name(dt_trace_t *t, dt_py_arg_t *a) {                                   \
    bool truth = expression;                                                                       \
    return dt__py_trace_ok(t) ? PyBool_FromLong(truth) : NULL;                                     \
  }
#define NOTHING(name, spec, statement, doc)                                                        \
  static PyObject *build_##name(dt_trace_t *t, dt_py_arg_t *a) {                                   \
    statement;                                                                                     \
    return dt__py_trace_ok(t) ? Py_NewRef(Py_None) : NULL;                                         \
  }
#include "python/src/builders.def"

#undef v
#undef i
#undef u
#undef i64
#undef f
#undef b
#undef d
#undef t
#undef s
#undef c
#undef n
#undef vs
#undef ss
#undef as

// ---- The table --------------------------------------------------------------------------------------

#define ROW_unary(name, doc) {#name, "v x", doc, build_##name},
#define ROW_binary(name, doc) {#name, "v a, v b", doc, build_##name},
#define ROW_reduce(name, doc) {#name, "v x, a axes=, b keepdims=0", doc, build_##name},
#define ROW_argreduce(name, doc)
#define ROW_along(name, doc)
#define ROW_own(name, doc)
#define ROW_none(name, doc)
#define VALUE(name, spec, expression, doc) {#name, spec, doc, build_##name},
#define VALUES(name, spec, count, statement, doc) VALUE(name, spec, , doc)
#define SIZE(name, spec, expression, doc) VALUE(name, spec, , doc)
#define TRUTH(name, spec, expression, doc) VALUE(name, spec, , doc)
#define NOTHING(name, spec, statement, doc) VALUE(name, spec, , doc)
static const builder_t builders[] = {
#define OP(name, arity, flags, dtype_rule, shape_rule, decompose, lower, eval, build, derivative,  \
           batch, doc)                                                                             \
  ROW_##build(name, doc)
#include "lower/graph/ops.def"
#include "python/src/builders.def"
};
enum { N_BUILDERS = sizeof(builders) / sizeof(builders[0]) };

static PyObject *run(PyObject *self, PyObject *args, PyObject *keywords) {
  const builder_t *builder = PyCapsule_GetPointer(self, NULL);
  dt_py_arg_t read[DT_PY_MOST_ARGS];
  dt_trace_t *trace = builder ? dt__py_trace(builder->name) : NULL;
  if (!trace)
    return NULL;
  PyObject *result = NULL;
  if (dt__py_args(trace, builder->name, builder->spec, args, keywords, read))
    result = builder->build(trace, read);
  dt__py_args_free(read);
  return result;
}

// "softmax(x, axis=-1)", by which Python shows the signature, and what it does; kept for good.
static char *doc_of(const builder_t *builder) {
  PyObject *signature = dt__py_args_signature(builder->spec);
  PyObject *text =
      signature ? PyUnicode_FromFormat("%s(%U)\n--\n\n%s", builder->name, signature, builder->doc)
                : NULL;
  const char *utf8 = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
  char *kept = utf8 ? malloc(strlen(utf8) + 1) : NULL;
  if (kept)
    memcpy(kept, utf8, strlen(utf8) + 1);
  Py_XDECREF(text);
  Py_XDECREF(signature);
  return kept;
}

static PyObject *all; // the builders by their names

PyObject *dt__py_builder(const char *name) { return PyDict_GetItemString(all, name); }

int dt__py_add_builders(PyObject *module) {
  static PyMethodDef definitions[N_BUILDERS];
  all = PyDict_New();
  PyObject *home = PyUnicode_FromString("ductile.ops");
  for (size_t k = 0; all && home && k < N_BUILDERS; k++) {
    definitions[k] = (PyMethodDef){builders[k].name, (PyCFunction)(void (*)(void))run,
                                   METH_VARARGS | METH_KEYWORDS, doc_of(&builders[k])};
    PyObject *self = PyCapsule_New((void *)(uintptr_t)&builders[k], NULL, NULL);
    PyObject *function = self ? PyCFunction_NewEx(&definitions[k], self, home) : NULL;
    Py_XDECREF(self);
    if (!function || PyDict_SetItemString(all, builders[k].name, function) < 0)
      Py_CLEAR(all);
    Py_XDECREF(function);
  }
  Py_XDECREF(home);
  return all ? PyModule_AddObjectRef(module, "_ops", all) : -1;
}
