// SPDX-License-Identifier: Apache-2.0
// What strict_fp promises, as plain loops: arrays of numbers of one dtype, each held exactly in a
// double, and folds that take one element after another in row-major order, each step rounded to
// the dtype that sums have (f64 for f64, else f32).
#ifndef DT_TESTS_UNIT_EXEC_STRICT_MODEL_H
#define DT_TESTS_UNIT_EXEC_STRICT_MODEL_H

#include "test/support/subjects.h"

typedef struct array_t {
  uint32_t rank;
  int64_t sizes[DT_MAX_RANK];
  double *at; // row-major; owned
} array_t;

array_t array_of(uint32_t rank, const int64_t *sizes); // zeros
int64_t array_count(const array_t *a);
void array_free(array_t *a);

dt_dtype_t sums_of(dt_dtype_t dtype);       // the dtype in which `dtype` is summed
double rounded(dt_dtype_t dtype, double x); // to nearest, ties to even
void array_round(dt_dtype_t dtype, array_t *a);

// One operation, rounded to `dtype` (f32 or f64).
double plus(dt_dtype_t dtype, double a, double b);
double times(dt_dtype_t dtype, double a, double b);
double over(dt_dtype_t dtype, double a, double b);

// Folds of x over the axes whose bits are set, in `dtype` (of sums), which are dropped, or kept as
// 1. `product`: multiplies instead of adding.
array_t folded(dt_dtype_t dtype, const array_t *x, uint32_t axes, bool product, bool keep);
// Element i of x, in what x is broadcast from `small`: same rank, sizes equal or 1.
double broadcast(const array_t *small, const array_t *x, int64_t i);
// [b, m, k] x [b, k, n].
array_t multiplied(dt_dtype_t dtype, const array_t *a, const array_t *b);
// mode: dt_cumsum_mode_t.
array_t running(dt_dtype_t dtype, const array_t *x, uint32_t axis, int mode);

// Elements in memory. `strides` in elements; `to` is element (0, …).
void array_store(dt_dtype_t dtype, const array_t *a, const int64_t *strides, void *to);
double element(dt_dtype_t dtype, const void *from, int64_t index);

#endif // DT_TESTS_UNIT_EXEC_STRICT_MODEL_H
