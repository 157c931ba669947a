// SPDX-License-Identifier: Apache-2.0
// What is tried of each op: a program over one or more inputs whose dims are m and n.
#ifndef DT_TESTS_CONFORM_CASES_H
#define DT_TESTS_CONFORM_CASES_H

#include "ductile/ductile.h"

enum { CASE_INPUTS = 3, CASE_RANK = 4 };

// A dim of an input: a symbol, or a literal.
typedef enum dim_kind_t { DIM_M = -1, DIM_N = -2 } dim_kind_t; // 0 and more: literal

typedef enum fill_t {
  FILL_ANY,     // ordinary values, and NaN, infinities, zeros of both signs, denormals
  FILL_SMALL,   // small integers as any dtype: sums and products are exact
  FILL_FINITE,  // ordinary values without specials
  FILL_INDEX_M, // indices in [-m, m)
  FILL_COUNT,   // 0 to 3
} fill_t;

typedef struct input_t {
  dt_dtype_t dtype; // DT_DTYPE_NONE: the dtype of the case
  fill_t fill;
  uint32_t rank;
  int dims[CASE_RANK];
} input_t;

enum { // dtypes a case is tried with
  T_F32 = 1,
  T_F64 = 2,
  T_F16 = 16,
  T_BF16 = 32,
  T_FLOAT = T_F16 | T_BF16 | T_F32 | T_F64,
  T_INT = 4,
  T_NUMBER = T_FLOAT | T_INT,
  T_BOOL = 8,
  T_ALL = T_NUMBER | T_BOOL,
};

typedef struct case_t {
  const char *group, *op, *form; // `op` as ops.def names it
  uint32_t dtypes;
  uint32_t n_inputs;
  input_t in[CASE_INPUTS];
  bool needs_rows; // not tried with m == 0 (an index into nothing)
  dt_value_t (*make)(dt_trace_t *t, const dt_value_t *in, dt_dtype_t dtype);
} case_t;

extern const case_t cases[];
extern const uint32_t n_cases;
extern const case_t data_cases[]; // cases_data.c
extern const uint32_t n_data_cases;
extern const case_t index_cases[]; // cases_index.c
extern const uint32_t n_index_cases;
extern const case_t window_cases[]; // cases_window.c
extern const uint32_t n_window_cases;
extern const case_t scan_cases[]; // cases_scan.c
extern const uint32_t n_scan_cases;

#endif // DT_TESTS_CONFORM_CASES_H
