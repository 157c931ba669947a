// SPDX-License-Identifier: Apache-2.0
// Reductions, and sums and products up to each element.
#include "frontends/onnx/import/compute.h"

// ---- Axes -------------------------------------------------------------------------------------------
bool dt__imp_read_over(dt_imp_node_t *n, int64_t inputs_since, dt_imp_over_t *out) {
  dt_imp_ints_t axes = {0};
  uint32_t rank = dt__imp_rank(n, 0);
  *out = (dt_imp_over_t){.keep = dt__imp_int(n, "keepdims", 1) != 0};
  if (n->opset < inputs_since)
    (void)dt__imp_attr_ints(n, "axes", &axes);
  else if (dt__imp_has(n, 1) && !dt__imp_ints(n, 1, &axes))
    return false;
  out->none =
      axes.len == 0 && n->opset >= inputs_since && dt__imp_int(n, "noop_with_empty_axes", 0) != 0;
  if (axes.len > rank)
    dt__imp_fail(n, DT_E_SHAPE, "%u axes of a tensor of rank %u", axes.len, rank);
  for (uint32_t k = 0; k < axes.len && !dt__imp_failed(n); k++)
    out->axes[out->n++] = (int32_t)dt__imp_dim_of(n, axes.items[k], rank);
  return !dt__imp_failed(n);
}

typedef dt_value_t (*reduce_fn_t)(dt_trace_t *t, dt_value_t x, uint32_t n_axes, const int32_t *axes,
                                  bool keepdims);

static dt_value_t over(dt_imp_node_t *n, const dt_imp_over_t *o, reduce_fn_t fn, dt_value_t x) {
  return o->none ? x : fn(n->t, x, o->n, o->axes, o->keep);
}

// ---- Formulas ---------------------------------------------------------------------------------------
// Each gets the input, with halves as f32.
static dt_value_t sum(dt_imp_node_t *n, const dt_imp_over_t *o, dt_value_t x) {
  return over(n, o, dt_sum, x);
}

static dt_value_t prod(dt_imp_node_t *n, const dt_imp_over_t *o, dt_value_t x) {
  return over(n, o, dt_prod, x);
}

static dt_value_t largest(dt_imp_node_t *n, const dt_imp_over_t *o, dt_value_t x) {
  return over(n, o, dt_value_dtype(n->t, x) == DT_BOOL ? dt_any : dt_amax, x);
}

static dt_value_t smallest(dt_imp_node_t *n, const dt_imp_over_t *o, dt_value_t x) {
  return over(n, o, dt_value_dtype(n->t, x) == DT_BOOL ? dt_all : dt_amin, x);
}

// A mean of integers is rounded to zero.
static dt_value_t mean(dt_imp_node_t *n, const dt_imp_over_t *o, dt_value_t x) {
  dt_dtype_t dtype = dt_value_dtype(n->t, x);
  if (o->none || dt__imp_is_float(dtype))
    return over(n, o, dt_mean, x);
  dt_sym_t count = dt_sym_const(n->t, 1);
  for (uint32_t k = 0; k < (o->n ? o->n : dt_value_rank(n->t, x)); k++)
    count = dt_sym_mul(n->t, count, dt_dim(n->t, x, o->n ? o->axes[k] : (int32_t)k));
  return dt_div(n->t, sum(n, o, x), dt_cast(n->t, dt_size_value(n->t, count), dtype));
}

static dt_value_t l1(dt_imp_node_t *n, const dt_imp_over_t *o, dt_value_t x) {
  return sum(n, o, dt_abs(n->t, x));
}

static dt_value_t sum_square(dt_imp_node_t *n, const dt_imp_over_t *o, dt_value_t x) {
  return sum(n, o, dt_mul(n->t, x, x));
}

static dt_value_t as_float(dt_imp_node_t *n, dt_value_t x) {
  return dt__imp_is_float(dt_value_dtype(n->t, x)) ? x : dt_cast(n->t, x, DT_F64);
}

static dt_value_t l2(dt_imp_node_t *n, const dt_imp_over_t *o, dt_value_t x) {
  return dt_sqrt(n->t, sum_square(n, o, as_float(n, x)));
}

static dt_value_t log_sum(dt_imp_node_t *n, const dt_imp_over_t *o, dt_value_t x) {
  return dt_log(n->t, sum(n, o, as_float(n, x)));
}

// log(sum(e^(x - m))) + m for the largest m, so that nothing overflows; an infinite m is left out.
static dt_value_t log_sum_exp(dt_imp_node_t *n, const dt_imp_over_t *o, dt_value_t given) {
  dt_value_t x = as_float(n, given);
  if (o->none)
    return x;
  dt_value_t zero = dt__imp_like(n, x, 0);
  dt_value_t all = dt_amax(n->t, x, o->n, o->axes, true);
  dt_value_t most = dt_where(n->t, dt_isinf(n->t, all), zero, all);
  dt_value_t made = dt_sum(n->t, dt_exp(n->t, dt_sub(n->t, x, most)), o->n, o->axes, o->keep);
  dt_value_t kept = o->keep ? most : dt_amax(n->t, most, o->n, o->axes, false);
  return dt_add(n->t, dt_log(n->t, made), kept);
}

typedef dt_value_t (*formula_t)(dt_imp_node_t *n, const dt_imp_over_t *o, dt_value_t x);

static void reduce(dt_imp_node_t *n, int64_t inputs_since, formula_t formula) {
  dt_imp_over_t o;
  dt_value_t x = dt__imp_in_wide(n, 0);
  if (dt__imp_read_over(n, inputs_since, &o))
    dt__imp_out_as(n, 0, formula(n, &o, x), dt__imp_dtype(n, 0));
}

#define REDUCE(op, since, formula)                                                                 \
  void dt__imp_make_##op(dt_imp_node_t *n) { reduce(n, since, formula); }
REDUCE(ReduceL1, 18, l1)
REDUCE(ReduceL2, 18, l2)
REDUCE(ReduceLogSum, 18, log_sum)
REDUCE(ReduceLogSumExp, 18, log_sum_exp)
REDUCE(ReduceMax, 18, largest)
REDUCE(ReduceMean, 18, mean)
REDUCE(ReduceMin, 18, smallest)
REDUCE(ReduceProd, 18, prod)
REDUCE(ReduceSum, 13, sum)
REDUCE(ReduceSumSquare, 18, sum_square)
#undef REDUCE

// ---- Where the extremes are -------------------------------------------------------------------------
typedef dt_value_t (*arg_fn_t)(dt_trace_t *t, dt_value_t x, int32_t axis, bool keepdims);

// The last of equal elements is the first from behind.
static void arg(dt_imp_node_t *n, arg_fn_t fn) {
  dt_trace_t *t = n->t;
  int32_t axis = (int32_t)dt__imp_dim_of(n, dt__imp_int(n, "axis", 0), dt__imp_rank(n, 0));
  bool keep = dt__imp_int(n, "keepdims", 1) != 0;
  bool last = dt__imp_int(n, "select_last_index", 0) != 0;
  dt_value_t x = dt__imp_in(n, 0);
  if (dt__imp_failed(n))
    return;
  if (last)
    x = dt__imp_reversed(n, x, axis);
  dt_value_t made = fn(t, x, axis, keep);
  dt_sym_t one = dt_sym_const(t, 1);
  dt_sym_t end = dt_sym_sub(t, dt_sym_max(t, dt_dim(t, x, axis), one), one);
  dt__imp_out(n, 0, last ? dt_sub(t, dt_size_value(t, end), made) : made);
}

void dt__imp_make_ArgMax(dt_imp_node_t *n) { arg(n, dt_argmax); }
void dt__imp_make_ArgMin(dt_imp_node_t *n) { arg(n, dt_argmin); }

// ---- Up to each element -----------------------------------------------------------------------------
static int32_t axis_input(dt_imp_node_t *n) {
  dt_imp_ints_t axis;
  if (!dt__imp_ints(n, 1, &axis) || axis.len != 1) {
    dt__imp_fail(n, DT_E_SHAPE, "the axis has %u elements; expected one", axis.len);
    return 0;
  }
  return (int32_t)dt__imp_dim_of(n, axis.items[0], dt__imp_rank(n, 0));
}

void dt__imp_make_CumSum(dt_imp_node_t *n) {
  int mode = (dt__imp_int(n, "exclusive", 0) ? DT_CUMSUM_EXCLUSIVE : DT_CUMSUM_INCLUSIVE) |
             (dt__imp_int(n, "reverse", 0) ? DT_CUMSUM_REVERSE : DT_CUMSUM_INCLUSIVE);
  int32_t axis = axis_input(n);
  dt__imp_out(n, 0, dt_cumsum(n->t, dt__imp_in(n, 0), axis, (dt_cumsum_mode_t)mode));
}

// Products by doubling: in step k each element takes that of 2^k places before it along.
typedef struct cumprod_t {
  int32_t axis;
} cumprod_t;

static dt_sym_t size_along(dt_trace_t *t, const cumprod_t *c, dt_value_t x) {
  return dt_dim(t, x, c->axis);
}

static dt_status_t cumprod_more(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *user) {
  out[0] = dt_lt(t, in[1], dt_size_value(t, size_along(t, user, in[0])));
  return dt_trace_status(t);
}

static dt_status_t cumprod_step(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *user) {
  const cumprod_t *c = user;
  dt_value_t x = in[0], shift = in[1];
  dt_sym_t size = size_along(t, c, x);
  dt_value_t from = dt_sub(t, dt_iota(t, DT_I64, 1, &size, 0), shift);
  dt_value_t zero = dt_scalar(t, DT_I64, 0), one = dt_scalar(t, dt_value_dtype(t, x), 1);
  dt_value_t inside = dt_ge(t, from, zero);
  for (uint32_t k = (uint32_t)c->axis + 1; k < dt_value_rank(t, x); k++)
    inside = dt_unsqueeze(t, inside, -1);
  dt_value_t before = dt_gather(t, x, dt_maximum(t, from, zero), c->axis);
  out[0] = dt_mul(t, x, dt_where(t, inside, before, one));
  out[1] = dt_add(t, shift, shift);
  return dt_trace_status(t);
}

// Moved on by one place, with a 1 in front.
static dt_value_t moved(dt_imp_node_t *n, dt_value_t x, int32_t axis) {
  dt_sym_t low[DT_MAX_RANK], high[DT_MAX_RANK], zero = dt_sym_const(n->t, 0);
  for (uint32_t k = 0; k < DT_MAX_RANK; k++)
    low[k] = high[k] = zero;
  dt_sym_t some = dt_sym_min(n->t, dt_sym_const(n->t, 1), dt_dim(n->t, x, axis));
  low[axis] = some;
  high[axis] = dt_sym_neg(n->t, some);
  return dt_pad(n->t, x, low, high, 1);
}

void dt__imp_make_CumProd(dt_imp_node_t *n) {
  bool reverse = dt__imp_int(n, "reverse", 0) != 0;
  int32_t axis = axis_input(n);
  dt_value_t x = dt__imp_in_wide(n, 0), out[2] = {{0}, {0}};
  cumprod_t *c = DT_IMP_ARRAY(n, cumprod_t, 1);
  if (!c || dt__imp_failed(n))
    return;
  c->axis = axis;
  x = reverse ? dt__imp_reversed(n, x, axis) : x;
  if (dt__imp_int(n, "exclusive", 0))
    x = moved(n, x, axis);
  const dt_value_t init[] = {x, dt_scalar(n->t, DT_I64, 1)};
  dt_while(n->t, cumprod_more, cumprod_step, c, 2, init, 0, NULL, out);
  x = reverse ? dt__imp_reversed(n, out[0], axis) : out[0];
  dt__imp_out_as(n, 0, x, dt__imp_dtype(n, 0));
}
