// SPDX-License-Identifier: Apache-2.0
// Short names for the tables of cases (cases*.c alone): of programs of one line, and of inputs.
#ifndef DT_TESTS_CONFORM_CASES_ROWS_H
#define DT_TESTS_CONFORM_CASES_ROWS_H

#include "test/conform/cases.h"

typedef dt_value_t v_t;
typedef const dt_value_t *in_t;

// The program make_<id>: an expression over t, the inputs x[0], … and dtype.
#define MAKE(id, ...)                                                                              \
  static v_t make_##id(dt_trace_t *t, in_t x, dt_dtype_t dtype) {                                  \
    (void)dtype;                                                                                   \
    (void)x;                                                                                       \
    (void)t;                                                                                       \
    return __VA_ARGS__;                                                                            \
  }

#define MN DIM_M, DIM_N
#define INPUT(dtype, fill, rank, ...)                                                              \
  {                                                                                                \
    dtype, fill, rank, { __VA_ARGS__ }                                                             \
  }
#define COUNTS(rank, ...) INPUT(DT_I64, FILL_COUNT, rank, __VA_ARGS__)
#define BOOLS(rank, ...) INPUT(DT_BOOL, FILL_ANY, rank, __VA_ARGS__)
#define ANY(rank, ...) INPUT(DT_DTYPE_NONE, FILL_ANY, rank, __VA_ARGS__)
#define FINITE(rank, ...) INPUT(DT_DTYPE_NONE, FILL_FINITE, rank, __VA_ARGS__)
#define SMALL(rank, ...) INPUT(DT_DTYPE_NONE, FILL_SMALL, rank, __VA_ARGS__)

#endif // DT_TESTS_CONFORM_CASES_ROWS_H
