// SPDX-License-Identifier: Apache-2.0
// Cases of scans: associative ones of several combines, cumulative ops, loops along an axis; see
// cases.h.
#include "test/conform/cases_rows.h"

static v_t flat(dt_trace_t *t, v_t x) {
  return dt_reshape(t, x, 1, (const dt_sym_t[]){dt_sym_const(t, -1)});
}

MAKE(cumprod, dt_cumprod(t, x[0], 0, DT_CUMSUM_INCLUSIVE))
MAKE(cumprod_both, dt_cumprod(t, x[0], -1, DT_CUMSUM_EXCLUSIVE_REVERSE))
MAKE(cummax, dt_cummax(t, x[0], 1, DT_CUMSUM_INCLUSIVE))
MAKE(cummax_exclusive, dt_cummax(t, x[0], 0, DT_CUMSUM_EXCLUSIVE))
MAKE(cummin_reverse, dt_cummin(t, x[0], 0, DT_CUMSUM_REVERSE))
MAKE(cummin_both, dt_cummin(t, x[0], 1, DT_CUMSUM_EXCLUSIVE_REVERSE))
MAKE(cummax_flat, dt_cummax(t, flat(t, x[0]), 0, DT_CUMSUM_INCLUSIVE))
MAKE(logcumsumexp, dt_logcumsumexp(t, x[0], 0, DT_CUMSUM_INCLUSIVE))
MAKE(logcumsumexp_both, dt_logcumsumexp(t, x[0], 1, DT_CUMSUM_EXCLUSIVE_REVERSE))

// ---- Combines -----------------------------------------------------------------------------------
// h = a h + b.
static dt_status_t recur(dt_trace_t *t, in_t x, v_t *out, void *closure) {
  (void)closure;
  out[0] = dt_mul(t, x[0], x[2]);
  out[1] = dt_add(t, dt_mul(t, x[2], x[1]), x[3]);
  return NULL;
}
static v_t recurrence(dt_trace_t *t, in_t x, int32_t axis, uint32_t flags, uint32_t which) {
  v_t out[2];
  dt_associative_scan(t, recur, NULL, 2, x, axis, flags, out);
  return which < 2 ? out[which] : dt_concat(t, 2, out, 0);
}
MAKE(recurrence, recurrence(t, x, 0, 0, 1))
MAKE(recurrence_rows, recurrence(t, x, 1, 0, 1))
MAKE(recurrence_backwards, recurrence(t, x, 0, DT_SCAN_BACKWARDS, 1))
MAKE(recurrence_all, recurrence(t, x, -1, DT_SCAN_BACKWARDS, 2))
// Of what is made before, and read by something after.
static v_t make_recurrence_fused(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  v_t in[2] = {dt_sub(t, x[0], x[1]), dt_add(t, x[1], dt_scalar(t, dtype, 1))};
  return dt_neg(t, recurrence(t, in, 0, 0, 1));
}

// Sums that begin again where a bool says so.
static dt_status_t sum_segments(dt_trace_t *t, in_t x, v_t *out, void *closure) {
  (void)closure;
  out[0] = dt_logical_or(t, x[0], x[2]);
  out[1] = dt_where(t, x[2], x[3], dt_add(t, x[1], x[3]));
  return NULL;
}
static v_t make_segments(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  v_t in[2] = {x[1], x[0]}, out[2];
  (void)dtype;
  dt_associative_scan(t, sum_segments, NULL, 2, in, 1, 0, out);
  return out[1];
}
static v_t make_flags(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  v_t in[2] = {x[1], x[0]}, out[2];
  (void)dtype;
  dt_associative_scan(t, sum_segments, NULL, 2, in, 0, DT_SCAN_BACKWARDS, out);
  return out[0];
}

// The last one that is below what was computed outside, or the first.
static dt_status_t keep_below(dt_trace_t *t, in_t x, v_t *out, void *closure) {
  v_t most = *(const v_t *)closure;
  out[0] = dt_where(t, dt_lt(t, x[1], dt_cast(t, most, dt_value_dtype(t, x[1]))), x[1], x[0]);
  return NULL;
}
static v_t make_captured(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  v_t most = dt_sum(t, dt_cast(t, dt_isnan(t, dt_cast(t, x[0], DT_F32)), DT_F32), 0, NULL, false);
  v_t out;
  (void)dtype;
  dt_associative_scan(t, keep_below, &most, 1, x, 1, 0, &out);
  return out;
}

// Any dtype: the last element that a bool beside it marks.
static dt_status_t keep_marked(dt_trace_t *t, in_t x, v_t *out, void *closure) {
  (void)closure;
  out[0] = dt_where(t, x[3], x[2], x[0]);
  out[1] = dt_logical_or(t, x[1], x[3]);
  return NULL;
}
static v_t make_marked(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  v_t out[2];
  (void)dtype;
  dt_associative_scan(t, keep_marked, NULL, 2, x, 0, 0, out);
  return out[0];
}

// ---- Loops along an axis ------------------------------------------------------------------------
static dt_status_t trip(dt_trace_t *t, in_t x, v_t *out, void *closure) {
  (void)closure;
  out[0] = dt_maximum(t, x[0], x[1]);
  out[1] = dt_sub(t, x[1], x[0]);
  return NULL;
}
static v_t along(dt_trace_t *t, in_t x, uint32_t flags, bool carry) {
  v_t out[2], first = dt_amin(t, x[0], 1, (const int32_t[]){0}, false);
  dt_scan(t, trip, NULL, 1, &first, 1, x, (dt_sym_t){0}, 1, flags, out);
  return out[carry ? 0 : 1];
}
MAKE(scan, along(t, x, 0, false))
MAKE(scan_carry, along(t, x, 0, true))
MAKE(scan_backwards, along(t, x, DT_SCAN_BACKWARDS, false))
// A row's elements in ascending order: more than element-wise ops.
static dt_status_t map_rows(dt_trace_t *t, in_t x, v_t *out, void *closure) {
  (void)closure;
  out[0] = dt_sub(t, x[0], dt_amax(t, x[0], 0, NULL, false));
  return NULL;
}
static v_t make_map(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  v_t out;
  (void)dtype;
  dt_map(t, map_rows, NULL, 1, x, 1, &out);
  return out;
}

// ---- Cases ----------------------------------------------------------------------------------------
#define SCAN(form, dtypes, n, make, ...)                                                           \
  {"scan", "associative_scan", form, dtypes, n, {__VA_ARGS__}, false, make}
#define LOOP(form, make) {"scan", "while", form, T_NUMBER, 1, {ANY(2, MN)}, false, make}

const case_t scan_cases[] = {
    SCAN("cumprod", T_NUMBER, 1, make_cumprod, SMALL(2, MN)),
    SCAN("cumprod specials", T_NUMBER, 1, make_cumprod, ANY(2, MN)),
    SCAN("cumprod both", T_NUMBER, 1, make_cumprod_both, SMALL(2, MN)),
    SCAN("cummax", T_NUMBER, 1, make_cummax, ANY(2, MN)),
    SCAN("cummax exclusive", T_NUMBER, 1, make_cummax_exclusive, ANY(2, MN)),
    SCAN("cummax flat", T_NUMBER, 1, make_cummax_flat, FINITE(2, MN)),
    SCAN("cummin reverse", T_NUMBER, 1, make_cummin_reverse, ANY(2, MN)),
    SCAN("cummin both", T_NUMBER, 1, make_cummin_both, ANY(2, MN)),
    SCAN("logcumsumexp", T_FLOAT, 1, make_logcumsumexp, ANY(2, MN)),
    SCAN("logcumsumexp both", T_FLOAT, 1, make_logcumsumexp_both, FINITE(2, MN)),
    SCAN("recurrence", T_NUMBER, 2, make_recurrence, FINITE(2, MN), SMALL(2, MN)),
    SCAN("recurrence specials", T_NUMBER, 2, make_recurrence, ANY(2, MN), ANY(2, MN)),
    SCAN("recurrence of rows", T_NUMBER, 2, make_recurrence_rows, SMALL(2, MN), SMALL(2, MN)),
    SCAN("recurrence backwards", T_NUMBER, 2, make_recurrence_backwards, SMALL(2, MN),
         FINITE(2, MN)),
    SCAN("recurrence, all results", T_NUMBER, 2, make_recurrence_all, SMALL(2, MN), SMALL(2, MN)),
    SCAN("recurrence, fused", T_NUMBER, 2, make_recurrence_fused, SMALL(2, MN), FINITE(2, MN)),
    SCAN("recurrence of rank 3", T_FLOAT, 2, make_recurrence_rows, SMALL(3, DIM_M, DIM_N, 3),
         SMALL(3, DIM_M, DIM_N, 3)),
    SCAN("segments", T_NUMBER, 2, make_segments, FINITE(2, MN), BOOLS(2, MN)),
    SCAN("flags", T_NUMBER, 2, make_flags, FINITE(2, MN), BOOLS(2, MN)),
    SCAN("captured", T_NUMBER, 1, make_captured, ANY(2, MN)),
    SCAN("marked", T_ALL, 2, make_marked, ANY(2, MN), BOOLS(2, MN)),
    LOOP("scan", make_scan),
    LOOP("scan, its carry", make_scan_carry),
    LOOP("scan backwards", make_scan_backwards),
    LOOP("map", make_map),
};
const uint32_t n_scan_cases = sizeof(scan_cases) / sizeof(scan_cases[0]);
