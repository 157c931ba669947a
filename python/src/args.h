// SPDX-License-Identifier: Apache-2.0
// Arguments of builders, as a text describes them (builders.def).
#ifndef DUCTILE_PYTHON_ARGS_H
#define DUCTILE_PYTHON_ARGS_H

#include "python/src/core.h"

enum { DT_PY_MOST_ARGS = 10 };

typedef struct dt_py_arg_t {
  dt_value_t value;
  dt_sym_t size;
  int64_t number;
  double real;
  dt_dtype_t dtype;
  const char *text;
  uint32_t n; // items of a sequence
  dt_value_t *values;
  dt_sym_t *sizes;
  int32_t *axes;
} dt_py_arg_t;

// Reads a builder's arguments into `out`; false with an exception. Either way they are freed by
// dt__py_args_free.
bool dt__py_args(dt_trace_t *trace, const char *name, const char *spec, PyObject *args,
                 PyObject *keywords, dt_py_arg_t *out);
void dt__py_args_free(dt_py_arg_t *args);
// The signature of a builder as Python has it, such as "x, axis=-1"; a new str.
PyObject *dt__py_args_signature(const char *spec);

#endif // DUCTILE_PYTHON_ARGS_H
