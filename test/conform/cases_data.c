// SPDX-License-Identifier: Apache-2.0
// Cases in which data decides: sizes and places by numbers that are read, selections, searches,
// cumulative sums, branches and loops; see cases.h.
#include "test/conform/cases_rows.h"

// ---- Sizes from data ------------------------------------------------------------------------------
static dt_sym_t count_true(dt_trace_t *t, v_t mask) {
  return dt_item(t, dt_sum(t, dt_cast(t, mask, DT_I64), 0, NULL, false));
}
static v_t flat(dt_trace_t *t, v_t x) {
  return dt_reshape(t, x, 1, (const dt_sym_t[]){dt_sym_const(t, -1)});
}
// Whole numbers from 0 to 100, ascending, each three times or less.
static v_t make_sorted(dt_trace_t *t, dt_sym_t n, dt_dtype_t dtype) {
  v_t x = dt_div(t, dt_iota(t, DT_I64, 1, &n, 0), dt_scalar(t, DT_I64, 3));
  return dt_cast(t, dt_minimum(t, x, dt_scalar(t, DT_I64, 100)), dtype);
}
// As many rows of x (again and again) as x has elements that are not 0.
static v_t make_item(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  (void)dtype;
  dt_sym_t n = count_true(t, dt_cast(t, x[0], DT_BOOL));
  v_t at = dt_iota(t, DT_I64, 1, &n, 0);
  return dt_gather(t, flat(t, x[0]), at, 0);
}
// A matrix whose two sizes data tells, the second from what the first made.
static v_t make_items(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  (void)dtype;
  dt_sym_t rows = count_true(t, dt_cast(t, x[0], DT_BOOL));
  v_t below = dt_slice_range(t, flat(t, x[0]), 0, dt_sym_const(t, 0),
                             dt_sym_floordiv(t, rows, dt_sym_const(t, 2)), 1);
  dt_sym_t columns = count_true(t, dt_isnan(t, below));
  dt_sym_t sizes[2] = {dt_sym_add(t, columns, dt_sym_const(t, 1)), rows};
  return dt_iota(t, DT_F32, 2, sizes, 1);
}
MAKE(cumsum_rows, dt_cumsum(t, x[0], 1, DT_CUMSUM_INCLUSIVE))
MAKE(cumsum_columns, dt_cumsum(t, x[0], 0, DT_CUMSUM_INCLUSIVE))
MAKE(cumsum_exclusive, dt_cumsum(t, x[0], -1, DT_CUMSUM_EXCLUSIVE))
MAKE(cumsum_reverse, dt_cumsum(t, x[0], 0, DT_CUMSUM_REVERSE))
MAKE(cumsum_both, dt_cumsum(t, x[0], 1, DT_CUMSUM_EXCLUSIVE_REVERSE))
MAKE(cumsum_flat, dt_cumsum(t, flat(t, x[0]), 0, DT_CUMSUM_INCLUSIVE))
MAKE(cumsum_flat_both, dt_cumsum(t, flat(t, x[0]), 0, DT_CUMSUM_EXCLUSIVE_REVERSE))
MAKE(search, dt_searchsorted(t, make_sorted(t, dt_dim(t, x[0], 1), dtype), x[0], false))
MAKE(search_inclusive, dt_searchsorted(t, make_sorted(t, dt_dim(t, x[0], 1), dtype), x[0], true))
MAKE(nonzero, dt_nonzero(t, x[0]))
MAKE(nonzero_flat, dt_nonzero(t, flat(t, x[0])))
MAKE(nonzero_fused, dt_nonzero(t, dt_lt(t, x[0], dt_scalar(t, dtype, 1))))
MAKE(masked_select, dt_masked_select(t, x[0], x[1]))
MAKE(masked_fused,
     dt_neg(t, dt_masked_select(t, dt_add(t, x[0], x[0]), dt_lt(t, x[0], dt_scalar(t, dtype, 1)))))
MAKE(masked_sum, dt_sum(t, dt_masked_select(t, x[0], x[1]), 0, NULL, false))
MAKE(nonzero_sum,
     dt_sum(t, dt_gather(t, flat(t, x[0]), dt_squeeze(t, dt_nonzero(t, flat(t, x[1])), 1), 0), 0,
            NULL, false))
MAKE(repeat_rows, dt_repeat_interleave(t, x[0], x[1], 0))
MAKE(repeat_columns, dt_repeat_interleave(t, x[0], x[1], 1))
MAKE(repeat_all, dt_repeat_interleave(t, x[0], x[1], 1))

// ---- Control that data decides --------------------------------------------------------------------
static dt_status_t take_first(dt_trace_t *t, in_t x, v_t *out, void *closure) {
  (void)closure;
  dt_value_t one = dt_slice(t, x[0], 0, dt_sym_const(t, 0), dt_dim(t, x[0], 0), 1);
  out[0] = dt_where(t, x[1], one, x[0]);
  return NULL;
}
static dt_status_t take_rows(dt_trace_t *t, in_t x, v_t *out, void *closure) {
  (void)closure;
  out[0] = dt_concat(t, 1, (v_t[]){x[0]}, 0);
  return NULL;
}
static v_t make_cond(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  v_t out;
  (void)dtype;
  dt_cond(t, dt_any(t, x[1], 0, NULL, false), take_first, take_rows, NULL, 2, x, 1, &out);
  return out;
}
// How many elements of x[1] are true says the case.
static dt_status_t take_twice(dt_trace_t *t, in_t x, v_t *out, void *closure) {
  (void)closure;
  out[0] = dt_where(t, x[1], x[0], dt_slice(t, x[0], 1, dt_sym_const(t, 0), dt_dim(t, x[0], 1), 1));
  return NULL;
}
static v_t make_switch(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  static const dt_branch_fn_t ways[] = {take_rows, take_first, take_twice};
  v_t out, count = dt_sum(t, dt_cast(t, x[1], DT_I64), 0, NULL, false);
  (void)dtype;
  dt_switch(t, dt_mod(t, count, dt_scalar(t, DT_I64, 4)), 3, ways, NULL, 2, x, 1, &out);
  return out;
}
// As many trips as x[1] has elements that are true, four at most; each moves the rows by one.
static dt_status_t trips_left(dt_trace_t *t, in_t x, v_t *out, void *closure) {
  (void)closure;
  out[0] = dt_lt(t, x[0], x[2]);
  return NULL;
}
static dt_status_t next_trip(dt_trace_t *t, in_t x, v_t *out, void *closure) {
  (void)closure;
  v_t flipped = dt_slice(t, x[1], 1, dt_sym_sub(t, dt_dim(t, x[1], 1), dt_sym_const(t, 1)),
                         dt_dim(t, x[1], 1), -1);
  out[0] = dt_add(t, x[0], dt_scalar(t, DT_I64, 1));
  out[1] = dt_where(t, x[3], flipped, x[1]);
  return NULL;
}
static v_t make_while(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  (void)dtype;
  v_t trips = dt_sum(t, dt_cast(t, x[1], DT_I64), 0, NULL, false);
  v_t state[2] = {dt_scalar(t, DT_I64, 0), x[0]};
  v_t captured[2] = {dt_minimum(t, trips, dt_scalar(t, DT_I64, 4)), x[1]};
  dt_while(t, trips_left, next_trip, NULL, 2, state, 2, captured, state);
  return state[1];
}

// The same body three times: the rows go to and fro where x[1] says so.
static dt_status_t flip_some(dt_trace_t *t, in_t x, v_t *out, void *closure) {
  (void)closure;
  v_t flipped = dt_slice(t, x[0], 0, dt_sym_sub(t, dt_dim(t, x[0], 0), dt_sym_const(t, 1)),
                         dt_dim(t, x[0], 0), -1);
  out[0] = dt_where(t, x[1], flipped, x[0]);
  return NULL;
}
static v_t make_call(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  v_t in[2] = {x[0], x[1]};
  (void)dtype;
  for (int k = 0; k < 3; k++)
    dt_subgraph(t, flip_some, NULL, 2, in, 1, 0, in);
  return in[0];
}

// ---- Places that data tells -----------------------------------------------------------------------
// Between a third and two thirds of the columns, by what data says of them.
static v_t make_slice_data(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  (void)dtype;
  dt_sym_t a = dt_item(t, x[1]), b = dt_sym_sub(t, dt_sym_const(t, 1), dt_item(t, x[1]));
  v_t rows = dt_slice_range(t, x[0], 0, a, dt_sym_const(t, INT64_MAX), 2);
  return dt_slice_range(t, rows, 1, dt_sym_const(t, -1), b, -1);
}
static v_t make_split_data(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  dt_sym_t a = count_true(t, x[1]), b = count_true(t, dt_logical_not(t, x[1]));
  v_t parts[2];
  (void)dtype;
  dt_split(t, x[0], 1, 2, (const dt_sym_t[]){a, b}, parts);
  return dt_concat(t, 3, (const dt_value_t[]){parts[1], parts[0], parts[1]}, 1);
}
static v_t make_range_data(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  dt_sym_t n = dt_item(t, x[0]), step = dt_sym_sub(t, n, dt_sym_const(t, 5));
  return dt_range(t, dtype, dt_sym_const(t, 9), n, step);
}
// Two sizes from data that are equal, or one of them 1.
static v_t make_broadcast_data(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  dt_sym_t a = dt_item(t, dt_amin(t, x[0], 0, NULL, false)), one = dt_sym_const(t, 1);
  dt_sym_t b = dt_item(t, x[1]);
  dt_sym_t wide = dt_sym_add(t, dt_sym_mul(t, dt_sym_sub(t, a, one), dt_sym_min(t, b, one)), one);
  return dt_add(t, dt_full(t, dtype, 2, 1, &a), dt_iota(t, dtype, 1, &wide, 0));
}
MAKE(full_data, dt_add(t, dt_full(t, dtype, 3, 1, (const dt_sym_t[]){dt_dim(t, x[0], 1)}), x[0]))

// ---- Cases ----------------------------------------------------------------------------------------
const case_t data_cases[] = {
    {"data", "item", "size", T_ALL, 1, {ANY(2, MN)}, false, make_item},
    {"data", "item", "two", T_FLOAT, 1, {ANY(2, MN)}, false, make_items},
    {"data", "cumsum", "rows", T_NUMBER, 1, {ANY(2, MN)}, false, make_cumsum_rows},
    {"data", "cumsum", "columns", T_NUMBER, 1, {ANY(2, MN)}, false, make_cumsum_columns},
    {"data", "cumsum", "exclusive", T_NUMBER, 1, {FINITE(2, MN)}, false, make_cumsum_exclusive},
    {"data", "cumsum", "reverse", T_NUMBER, 1, {FINITE(2, MN)}, false, make_cumsum_reverse},
    {"data", "cumsum", "both", T_NUMBER, 1, {ANY(2, MN)}, false, make_cumsum_both},
    {"data", "cumsum", "flat", T_NUMBER, 1, {FINITE(2, MN)}, false, make_cumsum_flat},
    {"data", "cumsum", "flat exact", T_NUMBER, 1, {SMALL(2, MN)}, false, make_cumsum_flat},
    {"data", "cumsum", "flat both", T_NUMBER, 1, {SMALL(2, MN)}, false, make_cumsum_flat_both},
    {"data", "searchsorted", "", T_NUMBER, 1, {ANY(2, MN)}, false, make_search},
    {"data", "searchsorted", "inclusive", T_NUMBER, 1, {ANY(2, MN)}, false, make_search_inclusive},
    {"data", "nonzero", "", T_ALL, 1, {SMALL(2, MN)}, false, make_nonzero},
    {"data", "nonzero", "specials", T_FLOAT, 1, {ANY(2, MN)}, false, make_nonzero_flat},
    {"data", "nonzero", "rank 3", T_ALL, 1, {SMALL(3, DIM_M, 3, DIM_N)}, false, make_nonzero},
    {"data",
     "compress",
     "nonzero of a comparison",
     T_NUMBER,
     1,
     {ANY(2, MN)},
     false,
     make_nonzero_fused},
    {"data", "masked_select", "", T_ALL, 2, {ANY(2, MN), BOOLS(2, MN)}, false, make_masked_select},
    {"data",
     "masked_select",
     "rows",
     T_ALL,
     2,
     {ANY(2, MN), BOOLS(1, DIM_N)},
     false,
     make_masked_select},
    {"data", "masked_select", "fused", T_NUMBER, 1, {ANY(2, MN)}, false, make_masked_fused},
    {"data", "cond", "", T_ALL, 2, {ANY(2, MN), BOOLS(2, MN)}, false, make_cond},
    {"data", "result", "of a branch", T_ALL, 2, {ANY(2, MN), BOOLS(2, MN)}, false, make_cond},
    {"data", "switch", "", T_ALL, 2, {ANY(2, MN), BOOLS(2, MN)}, false, make_switch},
    {"data", "while", "", T_ALL, 2, {ANY(2, MN), BOOLS(2, MN)}, false, make_while},
    {"data", "call", "", T_ALL, 2, {ANY(2, MN), BOOLS(2, MN)}, false, make_call},
    {"data",
     "masked_select",
     "summed",
     T_NUMBER,
     2,
     {FINITE(2, MN), BOOLS(2, MN)},
     false,
     make_masked_sum},
    {"data",
     "gather",
     "by nonzero, summed",
     T_NUMBER,
     2,
     {FINITE(2, MN), BOOLS(2, MN)},
     false,
     make_nonzero_sum},
    {"data",
     "gather",
     "repeats of rows",
     T_ALL,
     2,
     {ANY(2, MN), COUNTS(1, DIM_M)},
     false,
     make_repeat_rows},
    {"data",
     "gather",
     "repeats of columns",
     T_ALL,
     2,
     {ANY(2, MN), COUNTS(1, DIM_N)},
     false,
     make_repeat_columns},
    {"data",
     "expand",
     "repeats alike",
     T_ALL,
     2,
     {ANY(2, MN), COUNTS(0, 0)},
     false,
     make_repeat_all},
    {"data", "slice", "by data", T_ALL, 2, {ANY(2, MN), COUNTS(0, 0)}, false, make_slice_data},
    {"data",
     "slice",
     "split by data",
     T_ALL,
     2,
     {ANY(2, MN), BOOLS(1, DIM_N)},
     false,
     make_split_data},
    {"data", "iota", "range by data", T_NUMBER, 1, {COUNTS(0, 0)}, false, make_range_data},
    {"data",
     "add",
     "sizes by data",
     T_NUMBER,
     2,
     {COUNTS(1, 1), COUNTS(0, 0)},
     false,
     make_broadcast_data},
    {"data", "add", "full", T_NUMBER, 1, {ANY(2, MN)}, false, make_full_data},
};
const uint32_t n_data_cases = sizeof(data_cases) / sizeof(data_cases[0]);
