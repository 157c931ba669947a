// SPDX-License-Identifier: Apache-2.0
// Builders of views, and of ops that join, pad and index.
#include "runtime/trace/builder.h"

static const dt_value_t none_value = {0};

// The node of a builder's one operand; NULL when there is nothing to do.
static const dt_node_t *begin(dt_trace_t *trace, const char *op, dt_value_t x) {
  return dt__trace_begin(trace, op) ? dt__trace_node(trace, x, "argument 0") : NULL;
}

// ---- Views --------------------------------------------------------------------------------------
dt_value_t dt_reshape(dt_trace_t *trace, dt_value_t x, uint32_t rank, const dt_sym_t *sizes) {
  dt_attrs_t attrs = {0};
  attrs.n_syms = rank;
  if (!begin(trace, "reshape", x) ||
      !dt__trace_syms(trace, rank, sizes, DT_MAX_RANK, "sizes", attrs.syms))
    return none_value;
  return dt__trace_add(trace, DT_OP_reshape, &x, 1, &attrs);
}

dt_value_t dt_permute(dt_trace_t *trace, dt_value_t x, const int32_t *axes) {
  const dt_node_t *node = begin(trace, "permute", x);
  if (!node)
    return none_value;
  if (node->rank && !axes) {
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "axes: NULL; expected %u", node->rank);
    return none_value;
  }
  dt_attrs_t attrs = {0};
  attrs.n_axes = node->rank;
  for (uint32_t k = 0; k < node->rank; k++) {
    uint32_t dim = 0;
    if (!dt__trace_axis(trace, axes[k], node->rank, &dim))
      return none_value;
    attrs.axes[k] = (int32_t)dim;
  }
  return dt__trace_add(trace, DT_OP_permute, &x, 1, &attrs);
}

dt_value_t dt_transpose(dt_trace_t *trace, dt_value_t x, int32_t axis_a, int32_t axis_b) {
  const dt_node_t *node = begin(trace, "transpose", x);
  uint32_t a = 0, b = 0;
  if (!node || !dt__trace_axis(trace, axis_a, node->rank, &a) ||
      !dt__trace_axis(trace, axis_b, node->rank, &b))
    return none_value;
  dt_attrs_t attrs = {0};
  attrs.n_axes = node->rank;
  for (uint32_t k = 0; k < node->rank; k++)
    attrs.axes[k] = (int32_t)(k == a ? b : k == b ? a : k);
  return dt__trace_add(trace, DT_OP_permute, &x, 1, &attrs);
}

dt_value_t dt_unsqueeze(dt_trace_t *trace, dt_value_t x, int32_t axis) {
  const dt_node_t *node = begin(trace, "unsqueeze", x);
  uint32_t at = 0;
  if (!node || !dt__trace_axis(trace, axis, node->rank + 1, &at))
    return none_value;
  if (node->rank == DT_MAX_RANK) {
    DT_TRACE_FAIL(trace, DT_E_LIMIT, "the result would have %u dims; the most is %d",
                  node->rank + 1, DT_MAX_RANK);
    return none_value;
  }
  dt_sym_t sizes[DT_MAX_RANK];
  for (uint32_t k = 0; k <= node->rank; k++)
    sizes[k] = k < at    ? node->sizes[k]
               : k == at ? dt__trace_made(trace, dt__sym_const(trace->env, 1))
                         : node->sizes[k - 1];
  return dt__trace_reshape(trace, x, node->rank + 1, sizes);
}

// A dim can be dropped when its size is 1.
static bool require_one(dt_trace_t *trace, dt_sym_t size, uint32_t dim) {
  dt_symenv_t *env = trace->env;
  dt_sym_t cond = dt__trace_made(trace, dt__sym_eq(env, size, dt__sym_const(env, 1)));
  if (!cond.id)
    return false;
  if (dt__sym_known(env, cond) != DT_FALSE)
    return dt__trace_take(trace,
                          dt__sym_require(env, cond, &trace->origin, "a dropped dim has size 1"));
  dt_text_t text;
  dt__text_init(&text);
  dt__sym_print(env, dt__sym_simplify(env, size), &text);
  DT_TRACE_FAIL(trace, DT_E_SHAPE, "dim %u has size %s; a dropped dim has size 1", dim,
                dt__text_str(&text));
  dt__text_fini(&text);
  return false;
}

dt_value_t dt_squeeze(dt_trace_t *trace, dt_value_t x, int32_t axis) {
  const dt_node_t *node = begin(trace, "squeeze", x);
  uint32_t at = 0;
  if (!node || !dt__trace_axis(trace, axis, node->rank, &at))
    return none_value;
  if (!require_one(trace, node->sizes[at], at))
    return none_value;
  dt_sym_t sizes[DT_MAX_RANK];
  uint32_t rank = 0;
  for (uint32_t k = 0; k < node->rank; k++) {
    if (k != at)
      sizes[rank++] = node->sizes[k];
  }
  return dt__trace_reshape(trace, x, rank, sizes);
}

dt_value_t dt_expand(dt_trace_t *trace, dt_value_t x, uint32_t rank, const dt_sym_t *sizes) {
  const dt_node_t *node = begin(trace, "expand", x);
  dt_sym_t want[DT_MAX_RANK], aligned[DT_MAX_RANK];
  if (!node || !dt__trace_syms(trace, rank, sizes, DT_MAX_RANK, "sizes", want))
    return none_value;
  if (rank < node->rank) {
    DT_TRACE_FAIL(trace, DT_E_SHAPE, "%u sizes for a value of rank %u; expected at least %u", rank,
                  node->rank, node->rank);
    return none_value;
  }
  uint32_t added = rank - node->rank;
  for (uint32_t k = 0; k < rank; k++)
    aligned[k] =
        k < added ? dt__trace_made(trace, dt__sym_const(trace->env, 1)) : node->sizes[k - added];
  return dt__trace_expand(trace, dt__trace_reshape(trace, x, rank, aligned), rank, want);
}

dt_value_t dt__trace_slice(dt_trace_t *trace, dt_value_t x, uint32_t axis, dt_sym_t start,
                           dt_sym_t size, int64_t step) {
  dt_attrs_t attrs = {0};
  if (trace->status)
    return none_value;
  const dt_node_t *node = dt__graph_node(trace->graph, (dt_node_id_t){x.id});
  attrs.n_syms = 2 * node->rank;
  for (uint32_t k = 0; k < node->rank; k++) {
    attrs.syms[2 * k] = k == axis ? start : dt__trace_made(trace, dt__sym_const(trace->env, 0));
    attrs.syms[2 * k + 1] = k == axis ? size : node->sizes[k];
    attrs.ints[k] = k == axis ? step : 1;
  }
  return dt__trace_add(trace, DT_OP_slice, &x, 1, &attrs);
}

dt_value_t dt_slice(dt_trace_t *trace, dt_value_t x, int32_t axis, dt_sym_t start, dt_sym_t size,
                    int64_t step) {
  const dt_node_t *node = begin(trace, "slice", x);
  uint32_t at = 0;
  if (!node || !dt__trace_axis(trace, axis, node->rank, &at) ||
      !dt__trace_sym(trace, &start, "start") || !dt__trace_sym(trace, &size, "size"))
    return none_value;
  return dt__trace_slice(trace, x, at, start, size, step);
}

// ---- Joining, padding, indexing -----------------------------------------------------------------
dt_value_t dt_concat(dt_trace_t *trace, uint32_t n, const dt_value_t *values, int32_t axis) {
  if (!dt__trace_begin(trace, "concat"))
    return none_value;
  if (n == 0 || !values) {
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "%s; expected at least one value",
                  n ? "values: NULL" : "no values");
    return none_value;
  }
  const dt_node_t *first = dt__trace_node(trace, values[0], "argument 0");
  uint32_t at = 0;
  if (!first || !dt__trace_axis(trace, axis, first->rank, &at))
    return none_value;
  dt_attrs_t attrs = {0};
  attrs.n_axes = 1;
  attrs.axes[0] = (int32_t)at;
  return dt__trace_add(trace, DT_OP_concat, values, n, &attrs);
}

// Takes away what a negative amount says, and leaves what is to be added: sizes for which neither
// is known get both, one of them nothing.
static dt_value_t crop(dt_trace_t *trace, dt_value_t x, dt_sym_t *low, dt_sym_t *high) {
  dt_symenv_t *env = trace->env;
  dt_node_t node = *dt__graph_node(trace->graph, (dt_node_id_t){x.id});
  dt_sym_t zero = dt__sym_const(env, 0);
  dt_attrs_t attrs = {0};
  bool any = false;
  attrs.n_syms = 2 * node.rank;
  for (uint32_t k = 0; k < node.rank; k++) {
    dt_sym_t *amounts[2] = {&low[k], &high[k]}, taken[2] = {zero, zero};
    for (uint32_t side = 0; side < 2; side++) {
      dt_sym_t amount = *amounts[side];
      if (dt__sym_known_true(env, dt__sym_le(env, zero, amount)))
        continue;
      taken[side] = dt__sym_max(env, zero, dt__sym_neg(env, amount));
      *amounts[side] = dt__trace_made(trace, dt__sym_max(env, zero, amount));
      any = true;
    }
    attrs.syms[2 * k] = taken[0];
    attrs.syms[2 * k + 1] = dt__trace_made(
        trace, dt__sym_sub(env, dt__sym_sub(env, node.sizes[k], taken[0]), taken[1]));
    attrs.ints[k] = 1;
  }
  return any && !trace->status ? dt__trace_add(trace, DT_OP_slice, &x, 1, &attrs) : x;
}

dt_value_t dt_pad(dt_trace_t *trace, dt_value_t x, const dt_sym_t *low, const dt_sym_t *high,
                  double value) {
  const dt_node_t *node = begin(trace, "pad", x);
  dt_attrs_t attrs = {0};
  dt_sym_t lows[DT_MAX_RANK], highs[DT_MAX_RANK];
  if (!node || !dt__trace_syms(trace, node->rank, low, DT_MAX_RANK, "low", lows) ||
      !dt__trace_syms(trace, node->rank, high, DT_MAX_RANK, "high", highs) ||
      !dt__trace_literal(trace, node->dtype, value, &attrs))
    return none_value;
  uint32_t rank = node->rank;
  x = crop(trace, x, lows, highs);
  attrs.n_syms = 2 * rank;
  for (uint32_t k = 0; k < rank; k++) {
    attrs.syms[2 * k] = lows[k];
    attrs.syms[2 * k + 1] = highs[k];
  }
  return dt__trace_add(trace, DT_OP_pad, &x, 1, &attrs);
}

dt_value_t dt_gather(dt_trace_t *trace, dt_value_t x, dt_value_t indices, int32_t axis) {
  const dt_node_t *node = begin(trace, "gather", x);
  uint32_t at = 0;
  if (!node || !dt__trace_axis(trace, axis, node->rank, &at))
    return none_value;
  dt_attrs_t attrs = {0};
  attrs.n_axes = 1;
  attrs.axes[0] = (int32_t)at;
  return dt__trace_add(trace, DT_OP_gather, (dt_value_t[]){x, indices}, 2, &attrs);
}
