// SPDX-License-Identifier: Apache-2.0
// Builders of sizes from data: numbers read from tensors and used as sizes, selections whose size
// is known only at a call, running sums and searches; and ranges, slices and splits by such sizes.
#include "runtime/trace/builder.h"

#include "runtime/base/dtype.h"

#include <string.h>

static const dt_value_t none_value = {0};

// ---- Pieces -------------------------------------------------------------------------------------
static const dt_node_t *node_of(const dt_trace_t *trace, dt_value_t x) {
  return dt__graph_node(trace->graph, (dt_node_id_t){x.id});
}

static dt_sym_t literal(dt_trace_t *trace, int64_t value) {
  return dt__trace_made(trace, dt__sym_const(trace->env, value));
}

static dt_value_t one(dt_trace_t *trace, dt_op_t op, dt_value_t x, const dt_attrs_t *attrs) {
  return dt__trace_add(trace, op, &x, 1, attrs);
}

static dt_value_t cast(dt_trace_t *trace, dt_value_t x, dt_dtype_t dtype) {
  dt_attrs_t attrs = {0};
  attrs.dtype = dtype;
  if (trace->status || node_of(trace, x)->dtype == dtype)
    return x;
  return one(trace, DT_OP_cast, x, &attrs);
}

static dt_value_t reduce_all(dt_trace_t *trace, dt_op_t op, dt_value_t x) {
  dt_attrs_t attrs = {0};
  if (trace->status)
    return none_value;
  attrs.n_axes = node_of(trace, x)->rank;
  for (uint32_t k = 0; k < attrs.n_axes; k++)
    attrs.axes[k] = (int32_t)k;
  return one(trace, op, x, &attrs);
}

static dt_value_t size_node(dt_trace_t *trace, dt_sym_t a) {
  dt_attrs_t attrs = {0};
  attrs.n_syms = 1;
  attrs.syms[0] = a;
  return dt__trace_add(trace, DT_OP_size, NULL, 0, &attrs);
}

static dt_value_t iota(dt_trace_t *trace, dt_dtype_t dtype, dt_sym_t n) {
  dt_attrs_t attrs = {0};
  attrs.dtype = dtype;
  attrs.n_axes = attrs.n_syms = 1;
  attrs.syms[0] = n;
  return dt__trace_add(trace, DT_OP_iota, NULL, 0, &attrs);
}

static dt_value_t cumsum(dt_trace_t *trace, dt_value_t x, uint32_t axis, uint32_t mode) {
  dt_attrs_t attrs = {0};
  attrs.n_axes = 1;
  attrs.axes[0] = (int32_t)axis;
  attrs.mode = mode;
  return one(trace, DT_OP_cumsum, x, &attrs);
}

// A condition that the program needs: proved, refused, or checked at each call.
static bool required(dt_trace_t *trace, dt_sym_t cond, const char *what) {
  return !trace->status && dt__trace_made(trace, cond).id &&
         dt__trace_take(trace, dt__sym_require(trace->env, cond, &trace->origin, what));
}

// ---- Numbers from data --------------------------------------------------------------------------
dt_sym_t dt_item(dt_trace_t *trace, dt_value_t x) {
  if (!dt__trace_begin(trace, "item") || !dt__trace_node(trace, x, "argument 0"))
    return DT_SYM_NONE_ID;
  dt_sym_t number = dt__trace_number(trace, x);
  return trace->status ? DT_SYM_NONE_ID : dt__trace_told(trace, number);
}

// ---- Selections ---------------------------------------------------------------------------------
// How many elements of a bool value are true: at most all of them.
static dt_sym_t count_true(dt_trace_t *trace, dt_value_t mask) {
  dt_value_t sum = reduce_all(trace, DT_OP_sum, cast(trace, mask, DT_I64));
  dt_sym_t count = trace->status ? DT_SYM_NONE_ID
                                 : dt__trace_bind(trace, sum, (dt_range_t){0, DT_SIZE_LIMIT - 1});
  if (trace->status)
    return DT_SYM_NONE_ID;
  const dt_node_t *node = node_of(trace, mask);
  dt_sym_t all = literal(trace, 1);
  for (uint32_t k = 0; k < node->rank; k++)
    all = dt__sym_mul(trace->env, all, node->sizes[k]);
  dt__trace_known(trace, dt__sym_le(trace->env, count, all));
  return count;
}

static dt_value_t select_by(dt_trace_t *trace, dt_op_t op, const dt_value_t *in, uint32_t n,
                            dt_value_t mask) {
  dt_attrs_t attrs = {0};
  attrs.n_syms = 1;
  attrs.syms[0] = count_true(trace, mask);
  return trace->status ? none_value : dt__trace_add(trace, op, in, n, &attrs);
}

dt_value_t dt_nonzero(dt_trace_t *trace, dt_value_t x) {
  if (!dt__trace_begin(trace, "nonzero") || !dt__trace_node(trace, x, "argument 0"))
    return none_value;
  return select_by(trace, DT_OP_nonzero, &x, 1, cast(trace, x, DT_BOOL));
}

dt_value_t dt_masked_select(dt_trace_t *trace, dt_value_t x, dt_value_t mask) {
  if (!dt__trace_begin(trace, "masked_select") || !dt__trace_node(trace, x, "argument 0"))
    return none_value;
  const dt_node_t *node = dt__trace_node(trace, mask, "the mask");
  if (!node)
    return none_value;
  if (node->dtype != DT_BOOL) {
    DT_TRACE_FAIL(trace, DT_E_DTYPE, "the mask must be bool, got %s; use cast",
                  dt_dtype_name(node->dtype));
    return none_value;
  }
  dt_node_id_t in[2] = {{x.id}, {mask.id}};
  if (!dt__trace_take(trace, dt__graph_broadcast(trace->graph, in, 2, &trace->origin)))
    return none_value;
  dt_value_t values[2] = {{.id = in[0].id}, {.id = in[1].id}};
  return select_by(trace, DT_OP_masked_select, values, 2, values[1]);
}

// Repeats of a negative number: said as what it is, before anything uses them as a size.
static bool check_repeats(dt_trace_t *trace, dt_sym_t least) {
  static const char what[] = "repeats must not be negative";
  dt_sym_t cond = trace->status
                      ? DT_SYM_NONE_ID
                      : dt__trace_made(trace, dt__sym_le(trace->env, literal(trace, 0), least));
  if (!cond.id || dt__sym_known_true(trace->env, cond))
    return cond.id != 0;
  if (dt__sym_known(trace->env, cond) == DT_FALSE) {
    DT_TRACE_FAIL(trace, DT_E_RANGE, "%s", what);
    return false;
  }
  dt_graph_assert_t check = {
      .cond = cond, .what = what, .origin = trace->origin, .code = DT_E_RANGE};
  if (!DT_VEC_PUSH(&trace->traced->arena, &trace->graph->asserts, check))
    (void)dt__trace_take(trace, DT_NO_MEMORY());
  dt__trace_known(trace, cond);
  return !trace->status;
}

// Every row `times` times: a view of repeated elements.
static dt_value_t repeat_all(dt_trace_t *trace, dt_value_t x, uint32_t axis, dt_sym_t times) {
  dt_node_t node = *node_of(trace, x);
  dt_sym_t apart[DT_MAX_RANK + 1], wide[DT_MAX_RANK + 1], joined[DT_MAX_RANK];
  for (uint32_t k = 0, to = 0; k < node.rank; k++) {
    apart[to] = wide[to] = joined[k] = node.sizes[k];
    to++;
    if (k != axis)
      continue;
    apart[to] = literal(trace, 1);
    wide[to++] = times;
    joined[k] = dt__trace_made(trace, dt__sym_mul(trace->env, node.sizes[k], times));
  }
  x = dt__trace_reshape(trace, x, node.rank + 1, apart);
  x = dt__trace_expand(trace, x, node.rank + 1, wide);
  return dt__trace_reshape(trace, x, node.rank, joined);
}

// Row k as often as repeats[k] says: output row j is of the first k whose rows end after j.
static dt_value_t repeat_each(dt_trace_t *trace, dt_value_t x, uint32_t axis, dt_value_t repeats) {
  if (!check_repeats(trace, dt__trace_number(trace, reduce_all(trace, DT_OP_amin, repeats))))
    return none_value;
  dt_sym_t total = dt__trace_number(trace, reduce_all(trace, DT_OP_sum, repeats));
  dt_value_t in[2] = {cumsum(trace, repeats, 0, 0)};
  dt_attrs_t search = {0}, gather = {0};
  search.mode = DT_SEARCH_INCLUSIVE;
  gather.n_axes = 1;
  gather.axes[0] = (int32_t)axis;
  in[1] = trace->status ? none_value : iota(trace, DT_I64, total);
  if (trace->status)
    return none_value;
  dt_value_t from = dt__trace_add(trace, DT_OP_searchsorted, in, 2, &search);
  return dt__trace_add(trace, DT_OP_gather, (dt_value_t[]){x, from}, 2, &gather);
}

dt_value_t dt_repeat_interleave(dt_trace_t *trace, dt_value_t x, dt_value_t repeats, int32_t axis) {
  uint32_t at = 0;
  const dt_node_t *node =
      dt__trace_begin(trace, "repeat_interleave") ? dt__trace_node(trace, x, "argument 0") : NULL;
  const dt_node_t *counts = node ? dt__trace_node(trace, repeats, "repeats") : NULL;
  if (!counts || !dt__trace_axis(trace, axis, node->rank, &at))
    return none_value;
  if (counts->rank > 1 || dt__dtype_is_float(counts->dtype) || dt__dtype_is_bool(counts->dtype)) {
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "repeats: rank %u %s; expected rank 1 or 0 of integers",
                  counts->rank, dt_dtype_name(counts->dtype));
    return none_value;
  }
  if (counts->rank == 0 && node->rank < DT_MAX_RANK) {
    dt_sym_t times = dt__trace_number(trace, repeats);
    return check_repeats(trace, times) ? repeat_all(trace, x, at, times) : none_value;
  }
  dt_sym_t n = node->sizes[at], row = literal(trace, 1);
  bool one_for_all = counts->rank == 0;
  repeats = cast(trace, repeats, DT_I64);
  if (one_for_all)
    repeats = dt__trace_reshape(trace, repeats, 1, &row);
  repeats = dt__trace_expand(trace, repeats, 1, &n);
  return trace->status ? none_value : repeat_each(trace, x, at, repeats);
}

// ---- Running sums and searches --------------------------------------------------------------------
_Static_assert((int)DT_CUMSUM_EXCLUSIVE == (int)DT_SCAN_EXCLUSIVE &&
                   (int)DT_CUMSUM_REVERSE == (int)DT_SCAN_REVERSE,
               "the public modes are the graph's");

dt_value_t dt_cumsum(dt_trace_t *trace, dt_value_t x, int32_t axis, dt_cumsum_mode_t mode) {
  uint32_t at = 0;
  const dt_node_t *node =
      dt__trace_begin(trace, "cumsum") ? dt__trace_node(trace, x, "argument 0") : NULL;
  if (!node || !dt__trace_axis(trace, axis, node->rank, &at))
    return none_value;
  if ((unsigned)mode > DT_CUMSUM_EXCLUSIVE_REVERSE) {
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "the mode %d is none of dt_cumsum_mode_t", (int)mode);
    return none_value;
  }
  return cumsum(trace, x, at, (uint32_t)mode);
}

dt_value_t dt_searchsorted(dt_trace_t *trace, dt_value_t sorted, dt_value_t values,
                           bool inclusive) {
  dt_attrs_t attrs = {0};
  attrs.mode = inclusive ? DT_SEARCH_INCLUSIVE : 0;
  if (!dt__trace_begin(trace, "searchsorted"))
    return none_value;
  return dt__trace_add(trace, DT_OP_searchsorted, (dt_value_t[]){sorted, values}, 2, &attrs);
}

// ---- Values of a size -----------------------------------------------------------------------------
dt_value_t dt_full(dt_trace_t *trace, dt_dtype_t dtype, double value, uint32_t rank,
                   const dt_sym_t *sizes) {
  dt_sym_t want[DT_MAX_RANK], ones[DT_MAX_RANK];
  dt_attrs_t attrs = {0};
  attrs.dtype = dtype;
  if (!dt__trace_begin(trace, "full") ||
      !dt__trace_syms(trace, rank, sizes, DT_MAX_RANK, "sizes", want) ||
      !dt__trace_literal(trace, dtype, value, &attrs))
    return none_value;
  for (uint32_t k = 0; k < rank; k++)
    ones[k] = literal(trace, 1);
  dt_value_t x = dt__trace_add(trace, DT_OP_scalar, NULL, 0, &attrs);
  return dt__trace_expand(trace, dt__trace_reshape(trace, x, rank, ones), rank, want);
}

dt_value_t dt_range(dt_trace_t *trace, dt_dtype_t dtype, dt_sym_t start, dt_sym_t limit,
                    dt_sym_t step) {
  if (!dt__trace_begin(trace, "range") || !dt__trace_sym(trace, &start, "start") ||
      !dt__trace_sym(trace, &limit, "limit") || !dt__trace_sym(trace, &step, "step"))
    return none_value;
  dt_symenv_t *env = trace->env;
  dt_sym_t zero = literal(trace, 0);
  if (!dt__dtype_is_valid(dtype) || dt__dtype_is_bool(dtype)) {
    DT_TRACE_FAIL(trace, DT_E_DTYPE, "a range is of numbers, not of %s", dt_dtype_name(dtype));
    return none_value;
  }
  if (!required(trace, dt__sym_ne(env, step, zero), "the step is not 0"))
    return none_value;
  // -floor(-(limit - start) / step) is the quotient rounded up, for steps of both signs.
  dt_sym_t down = dt__sym_floordiv(env, dt__sym_sub(env, start, limit), step);
  dt_sym_t n = dt__trace_made(trace, dt__sym_max(env, zero, dt__sym_neg(env, down)));
  if (!n.id)
    return none_value;
  bool from_zero = dt__sym_known_eq(env, start, zero);
  if (from_zero && dt__sym_known_eq(env, step, literal(trace, 1)))
    return iota(trace, dtype, n);
  dt_value_t x = iota(trace, DT_I64, n);
  dt_value_t by[2] = {x, trace->status ? none_value : size_node(trace, step)};
  if (!trace->status && !dt__sym_known_eq(env, step, literal(trace, 1)))
    x = dt__trace_add_broadcast(trace, DT_OP_mul, by, 2, NULL);
  dt_value_t past[2] = {x, trace->status ? none_value : size_node(trace, start)};
  if (!trace->status && !from_zero)
    x = dt__trace_add_broadcast(trace, DT_OP_add, past, 2, NULL);
  return trace->status ? none_value : cast(trace, x, dtype);
}

// ---- Slices and splits ----------------------------------------------------------------------------
// A literal beyond all sizes is an open end: what is added to it would not fit in 64 bits.
static dt_sym_t near_enough(dt_symenv_t *env, dt_sym_t bound) {
  int64_t value = 0;
  if (!dt__sym_is_const(env, bound, &value) || (value > -DT_SIZE_LIMIT && value < DT_SIZE_LIMIT))
    return bound;
  return dt__sym_const(env, value < 0 ? -DT_SIZE_LIMIT : DT_SIZE_LIMIT);
}

// A bound as Python takes it: from the end where it is negative, and then between low and high.
static dt_sym_t clamp_bound(dt_symenv_t *env, dt_sym_t bound, dt_sym_t n, dt_sym_t low,
                            dt_sym_t high) {
  bound = near_enough(env, bound);
  dt_sym_t negative = dt__sym_lt(env, bound, dt__sym_const(env, 0));
  dt_sym_t from_end = dt__sym_max(env, dt__sym_add(env, bound, n), low);
  dt_sym_t from_start = dt__sym_min(env, bound, high);
  dt_tri_t sign = negative.id ? dt__sym_known(env, negative) : DT_UNKNOWN;
  if (sign != DT_UNKNOWN)
    return sign == DT_TRUE ? from_end : from_start;
  return dt__sym_select(env, negative, from_end, from_start);
}

dt_value_t dt_slice_range(dt_trace_t *trace, dt_value_t x, int32_t axis, dt_sym_t begin,
                          dt_sym_t end, int64_t step) {
  uint32_t at = 0;
  const dt_node_t *node =
      dt__trace_begin(trace, "slice_range") ? dt__trace_node(trace, x, "argument 0") : NULL;
  if (!node || !dt__trace_axis(trace, axis, node->rank, &at) ||
      !dt__trace_sym(trace, &begin, "begin") || !dt__trace_sym(trace, &end, "end"))
    return none_value;
  if (step == 0 || step == INT64_MIN) {
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "the step is %s", step ? "too large" : "0");
    return none_value;
  }
  dt_symenv_t *env = trace->env;
  dt_sym_t n = node->sizes[at], zero = literal(trace, 0), one_sym = literal(trace, 1);
  dt_sym_t low = step > 0 ? zero : literal(trace, -1);
  dt_sym_t high = step > 0 ? n : dt__sym_sub(env, n, one_sym);
  dt_sym_t first = clamp_bound(env, begin, n, low, high);
  dt_sym_t past = clamp_bound(env, end, n, low, high);
  dt_sym_t way = step > 0 ? dt__sym_sub(env, past, first) : dt__sym_sub(env, first, past);
  dt_sym_t stride = literal(trace, step > 0 ? step : -step);
  dt_sym_t size = dt__sym_max(env, zero, dt__sym_ceildiv(env, way, stride));
  dt_sym_t jump = dt__sym_mul(env, dt__sym_sub(env, size, one_sym), literal(trace, step));
  dt_sym_t last = dt__sym_add(env, first, jump);
  if (!dt__trace_made(trace, last).id)
    return none_value;
  // Clamping makes these true; an empty slice lies one step beside its start.
  dt__trace_known(trace, dt__sym_le(env, zero, size));
  dt__trace_known(trace, dt__sym_le(env, zero, step > 0 ? first : last));
  dt__trace_known(trace, dt__sym_lt(env, step > 0 ? last : first, n));
  return dt__trace_slice(trace, x, at, first, size, step);
}

void dt_split(dt_trace_t *trace, dt_value_t x, int32_t axis, uint32_t n, const dt_sym_t *sizes,
              dt_value_t *out) {
  for (uint32_t k = 0; out && k < n; k++)
    out[k] = none_value;
  uint32_t at = 0;
  const dt_node_t *node =
      dt__trace_begin(trace, "split") ? dt__trace_node(trace, x, "argument 0") : NULL;
  if (!node || !dt__trace_axis(trace, axis, node->rank, &at))
    return;
  if (n == 0 || !sizes || !out) {
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "%s; expected at least one part",
                  n == 0 ? "no sizes" : "NULL");
    return;
  }
  dt_symenv_t *env = trace->env;
  dt_sym_t whole = node->sizes[at], zero = literal(trace, 0), start = zero;
  dt_sym_t *parts = DT_ARENA_ARRAY(&trace->traced->arena, dt_sym_t, n);
  if (!parts)
    (void)dt__trace_take(trace, DT_NO_MEMORY());
  if (!parts || !dt__trace_syms(trace, n, sizes, n, "a size", parts))
    return;
  for (uint32_t k = 0; k < n; k++) {
    if (!required(trace, dt__sym_le(env, zero, parts[k]), "the sizes of parts are not negative"))
      return;
    start = dt__sym_add(env, start, parts[k]);
  }
  if (!required(trace, dt__sym_eq(env, start, whole), "the sizes of the parts add up to the whole"))
    return;
  start = zero;
  for (uint32_t k = 0; k < n; k++) {
    // Parts of a sum without negative terms.
    dt_sym_t end = dt__sym_add(env, start, parts[k]);
    dt__trace_follows(trace, dt__sym_le(env, zero, start), n, parts);
    dt__trace_follows(trace, dt__sym_le(env, end, whole), n, parts);
    out[k] = dt__trace_slice(trace, x, at, start, parts[k], 1);
    start = end;
  }
}
