// SPDX-License-Identifier: Apache-2.0
// Builders of associative scans: dt_associative_scan over any combine, and the cumulative ops that
// are one. Backwards and without the element itself are views around a scan that is neither.
#include "runtime/trace/builder.h"

#include "lower/graph/scalar.h"
#include "runtime/base/dtype.h"

#define DT_MOST_SCANNED 64u // values of a tuple

static const dt_value_t none_value = {0};

static const dt_node_t *node_of(const dt_trace_t *trace, dt_value_t x) {
  return dt__graph_node(trace->graph, (dt_node_id_t){x.id});
}

static dt_sym_t literal(dt_trace_t *trace, int64_t value) {
  return dt__trace_made(trace, dt__sym_const(trace->env, value));
}

static dt_value_t cast(dt_trace_t *trace, dt_value_t x, dt_dtype_t dtype) {
  dt_attrs_t attrs = {0};
  attrs.dtype = dtype;
  if (trace->status || node_of(trace, x)->dtype == dtype)
    return x;
  return dt__trace_add(trace, DT_OP_cast, &x, 1, &attrs);
}

// ---- Views --------------------------------------------------------------------------------------
static dt_value_t turned(dt_trace_t *trace, dt_value_t x, uint32_t axis) {
  if (trace->status)
    return none_value;
  dt_sym_t n = node_of(trace, x)->sizes[axis];
  dt_sym_t last = dt__trace_made(trace, dt__sym_sub(trace->env, n, literal(trace, 1)));
  return dt__trace_slice(trace, x, axis, last, n, -1);
}

// `start` takes the first place along the axis, and the last element its leave.
static dt_value_t shifted(dt_trace_t *trace, dt_value_t x, uint32_t axis, dt_scalar_t start) {
  dt_attrs_t attrs = {0};
  if (trace->status)
    return none_value;
  const dt_node_t *in = node_of(trace, x);
  dt_sym_t n = in->sizes[axis];
  attrs.n_syms = 2 * in->rank;
  for (uint32_t k = 0; k < attrs.n_syms; k++)
    attrs.syms[k] = literal(trace, k == 2 * axis);
  if (dt__dtype_is_float(in->dtype))
    attrs.floats[0] = start.f;
  else
    attrs.ints[0] = start.i;
  x = dt__trace_add(trace, DT_OP_pad, &x, 1, &attrs);
  return dt__trace_slice(trace, x, axis, literal(trace, 0), n, 1);
}

// ---- Any combine --------------------------------------------------------------------------------
// Out of n values scanned forwards, none of which is a half.
static void scan_forwards(dt_trace_t *trace, dt_branch_fn_t combine, void *closure, uint32_t n,
                          const dt_value_t *xs, uint32_t axis, dt_value_t *out) {
  dt_value_t *both = dt__trace_values(trace, 2 * n), *in = dt__trace_values(trace, 2 * n);
  dt_trace_control_t *control = DT_ARENA_NEW(&trace->traced->arena, dt_trace_control_t);
  if (!both || !in || !control) {
    (void)dt__trace_take(trace, DT_NO_MEMORY());
    return;
  }
  for (uint32_t k = 0; k < 2 * n; k++)
    both[k] = xs[k % n];
  *control = (dt_trace_control_t){
      .op = DT_OP_associative_scan, .n_bodies = 1, .n_state = 2 * n, .init = both, .axis = axis};
  if (dt__trace_body(trace, control, 0, combine, closure, in, n))
    dt__trace_results(trace, dt__trace_add_control(trace, control), n, out);
}

static void scan(dt_trace_t *trace, dt_branch_fn_t combine, void *closure, uint32_t n,
                 dt_value_t *xs, uint32_t axis, bool backwards, dt_value_t *out) {
  dt_dtype_t *dtypes = DT_ARENA_ARRAY(&trace->traced->arena, dt_dtype_t, n);
  dt_origin_t origin = trace->origin;
  if (!dtypes)
    (void)dt__trace_take(trace, DT_NO_MEMORY());
  for (uint32_t k = 0; k < n && !trace->status; k++) {
    dtypes[k] = node_of(trace, xs[k])->dtype;
    if (dt__dtype_is_half(dtypes[k]))
      xs[k] = cast(trace, xs[k], DT_F32);
    if (backwards)
      xs[k] = turned(trace, xs[k], axis);
  }
  if (!trace->status)
    scan_forwards(trace, combine, closure, n, xs, axis, out);
  trace->origin = origin;
  for (uint32_t k = 0; k < n && !trace->status; k++) {
    out[k] = cast(trace, out[k], dtypes[k]);
    if (backwards)
      out[k] = turned(trace, out[k], axis);
  }
  if (trace->status)
    dt__trace_clear(n, out);
}

static bool check_call(dt_trace_t *trace, dt_branch_fn_t combine, uint32_t n, uint32_t flags,
                       const dt_value_t *out) {
  if (!combine || !n || !out)
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT,
                  n ? "combine or the memory for results is missing" : "nothing is scanned");
  else if (flags & ~(uint32_t)DT_SCAN_BACKWARDS)
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "the flags %u are none of dt_scan_flag_t", flags);
  else if (n > DT_MOST_SCANNED)
    DT_TRACE_FAIL(trace, DT_E_LIMIT, "%u values are scanned; at most %u", n, DT_MOST_SCANNED);
  return !trace->status;
}

// Ranks and sizes alike: proved, or a guard.
static bool check_shapes(dt_trace_t *trace, uint32_t n, const dt_value_t *xs) {
  dt_symenv_t *env = trace->env;
  for (uint32_t k = 1; k < n && !trace->status; k++) {
    const dt_node_t *first = node_of(trace, xs[0]), *x = node_of(trace, xs[k]);
    if (x->rank != first->rank)
      DT_TRACE_FAIL(trace, DT_E_SHAPE, "xs[%u] has rank %u, xs[0] rank %u; all have one shape", k,
                    x->rank, first->rank);
    for (uint32_t d = 0; d < first->rank && !trace->status; d++) {
      dt_sym_t same = dt__trace_made(trace, dt__sym_eq(env, first->sizes[d], x->sizes[d]));
      if (same.id && dt__sym_known(env, same) == DT_FALSE)
        DT_TRACE_FAIL(trace, DT_E_SHAPE,
                      "xs[%u] and xs[0] have different sizes in dim %u; use expand", k, d);
      else if (same.id)
        (void)dt__trace_take(
            trace, dt__sym_require(env, same, &trace->origin, "what is scanned has one shape"));
    }
  }
  return !trace->status;
}

void dt_associative_scan(dt_trace_t *trace, dt_branch_fn_t combine, void *closure, uint32_t n,
                         const dt_value_t *xs, int32_t axis, uint32_t flags, dt_value_t *out) {
  uint32_t at = 0;
  bool good =
      dt__trace_begin(trace, "associative_scan") && check_call(trace, combine, n, flags, out);
  dt_value_t *own = good ? dt__trace_values(trace, n) : NULL;
  good = own && dt__trace_operands(trace, n, xs, "what is scanned", own);
  dt__trace_clear(good || n <= DT_MOST_SCANNED ? n : 0, out); // which may be `xs`
  if (good && check_shapes(trace, n, own) &&
      dt__trace_axis(trace, axis, node_of(trace, own[0])->rank, &at))
    scan(trace, combine, closure, n, own, at, flags & DT_SCAN_BACKWARDS, out);
}

// ---- Cumulative ops -----------------------------------------------------------------------------
static dt_status_t join_prod(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = (dt_mul)(t, in[0], in[1]);
  return NULL;
}

static dt_status_t join_max(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = (dt_maximum)(t, in[0], in[1]);
  return NULL;
}

static dt_status_t join_min(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = (dt_minimum)(t, in[0], in[1]);
  return NULL;
}

// log(e^a + e^b) by the larger one, which alone counts where it is infinite.
static dt_status_t join_log(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t larger = (dt_maximum)(t, in[0], in[1]), less = (dt_minimum)(t, in[0], in[1]);
  dt_value_t rest = (dt_log1p)(t, (dt_exp)(t, (dt_sub)(t, less, larger)));
  out[0] = (dt_where)(t, (dt_isinf)(t, larger), larger, (dt_add)(t, larger, rest));
  return NULL;
}

// What is over nothing.
static dt_scalar_t start_of(dt_branch_fn_t join, dt_dtype_t dtype) {
  bool real = dt__dtype_is_float(dtype);
  if (join == join_prod)
    return real ? (dt_scalar_t){.f = 1} : (dt_scalar_t){.i = 1};
  return join == join_min ? dt__scalar_highest(dtype) : dt__scalar_lowest(dtype);
}

static dt_value_t cumulative(dt_trace_t *trace, const char *name, dt_branch_fn_t join, dt_value_t x,
                             int32_t axis, dt_cumsum_mode_t mode) {
  uint32_t at = 0;
  dt_value_t out = none_value;
  const dt_node_t *node =
      dt__trace_begin(trace, name) ? dt__trace_node(trace, x, "argument 0") : NULL;
  if (!node || !dt__trace_axis(trace, axis, node->rank, &at))
    return none_value;
  bool floats = join == join_log;
  if (floats ? !dt__dtype_is_float(node->dtype) : node->dtype == DT_BOOL)
    DT_TRACE_FAIL(trace, DT_E_DTYPE, "argument 0 is %s, expected %s; use cast",
                  dt_dtype_name(node->dtype), floats ? "a float" : "a number");
  else if ((unsigned)mode > DT_CUMSUM_EXCLUSIVE_REVERSE)
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "the mode %d is none of dt_cumsum_mode_t", (int)mode);
  if (trace->status)
    return none_value;
  x = dt__trace_current(trace, x);
  dt_dtype_t dtype = node->dtype;
  bool backwards = mode & DT_CUMSUM_REVERSE;
  if (backwards)
    x = turned(trace, x, at);
  if (mode & DT_CUMSUM_EXCLUSIVE)
    x = shifted(trace, x, at, start_of(join, dtype));
  if (!trace->status)
    scan(trace, join, NULL, 1, &x, at, false, &out);
  return backwards ? turned(trace, out, at) : out;
}

dt_value_t dt_cumprod(dt_trace_t *trace, dt_value_t x, int32_t axis, dt_cumsum_mode_t mode) {
  return cumulative(trace, "cumprod", join_prod, x, axis, mode);
}

dt_value_t dt_cummax(dt_trace_t *trace, dt_value_t x, int32_t axis, dt_cumsum_mode_t mode) {
  return cumulative(trace, "cummax", join_max, x, axis, mode);
}

dt_value_t dt_cummin(dt_trace_t *trace, dt_value_t x, int32_t axis, dt_cumsum_mode_t mode) {
  return cumulative(trace, "cummin", join_min, x, axis, mode);
}

dt_value_t dt_logcumsumexp(dt_trace_t *trace, dt_value_t x, int32_t axis, dt_cumsum_mode_t mode) {
  return cumulative(trace, "logcumsumexp", join_log, x, axis, mode);
}
