// SPDX-License-Identifier: Apache-2.0
// Builders of elements and slices by index: taken, replaced, and put in order.
#include "runtime/trace/capture.h"

static const dt_value_t none_value = {0};

#define REFUSE(trace, name)                                                                        \
  do {                                                                                             \
    if (dt__trace_begin(trace, name))                                                              \
      DT_TRACE_FAIL(trace, DT_E_UNSUPPORTED, "not built yet");                                     \
  } while (0)

// ---- Pieces -------------------------------------------------------------------------------------
// The node of a builder's first operand; NULL when there is nothing to do.
static const dt_node_t *begin(dt_trace_t *trace, const char *op, dt_value_t x) {
  return dt__trace_begin(trace, op) ? dt__trace_node(trace, x, "argument 0") : NULL;
}

// The last dim of tuples of indices gets a literal size, under a guard where it has none: the ranks
// of what follows depend on it.
static bool literal_tuples(dt_trace_t *trace, const char *op, dt_value_t indices) {
  const dt_node_t *node = dt__trace_node(trace, indices, "the indices");
  if (!node)
    return false;
  if (node->rank == 0) {
    DT_TRACE_FAIL(trace, DT_E_SHAPE, "the indices must have rank 1 or more; use reshape");
    return false;
  }
  (void)(dt_sym_int)(trace, node->sizes[node->rank - 1]);
  return dt__trace_begin(trace, op); // which has named itself
}

// ---- Taking -------------------------------------------------------------------------------------
dt_value_t dt_gather_elements(dt_trace_t *trace, dt_value_t x, dt_value_t indices, int32_t axis) {
  const dt_node_t *node = begin(trace, "gather_elements", x);
  uint32_t at = 0;
  if (!node || !dt__trace_axis(trace, axis, node->rank, &at))
    return none_value;
  dt_attrs_t attrs = {0};
  attrs.n_axes = 1;
  attrs.axes[0] = (int32_t)at;
  return dt__trace_add(trace, DT_OP_gather_elements, (dt_value_t[]){x, indices}, 2, &attrs);
}

dt_value_t dt_gather_nd(dt_trace_t *trace, dt_value_t x, dt_value_t indices, uint32_t batch_dims) {
  dt_attrs_t attrs = {0};
  attrs.n_axes = batch_dims;
  if (!begin(trace, "gather_nd", x) || !literal_tuples(trace, "gather_nd", indices))
    return none_value;
  return dt__trace_add(trace, DT_OP_gather_nd, (dt_value_t[]){x, indices}, 2, &attrs);
}

// ---- Replacing ----------------------------------------------------------------------------------
_Static_assert((int)DT_SCATTER_ADD == (int)DT_JOIN_ADD && (int)DT_SCATTER_MUL == (int)DT_JOIN_MUL &&
                   (int)DT_SCATTER_MAX == (int)DT_JOIN_MAX &&
                   (int)DT_SCATTER_MIN == (int)DT_JOIN_MIN,
               "the public modes are the graph's");

static bool known_mode(dt_trace_t *trace, dt_scatter_mode_t mode) {
  if ((unsigned)mode < DT_JOIN_COUNT)
    return true;
  DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "the mode %d is none of dt_scatter_mode_t", (int)mode);
  return false;
}

dt_value_t dt_scatter_elements(dt_trace_t *trace, dt_value_t x, dt_value_t indices,
                               dt_value_t updates, int32_t axis, dt_scatter_mode_t mode) {
  const dt_node_t *node = begin(trace, "scatter_elements", x);
  uint32_t at = 0;
  if (!node || !dt__trace_axis(trace, axis, node->rank, &at) || !known_mode(trace, mode))
    return none_value;
  dt_attrs_t attrs = {0};
  attrs.n_axes = 1;
  attrs.axes[0] = (int32_t)at;
  attrs.mode = (uint32_t)mode;
  return dt__trace_add(trace, DT_OP_scatter_elements, (dt_value_t[]){x, indices, updates}, 3,
                       &attrs);
}

dt_value_t dt_scatter_nd(dt_trace_t *trace, dt_value_t x, dt_value_t indices, dt_value_t updates,
                         dt_scatter_mode_t mode) {
  dt_attrs_t attrs = {0};
  attrs.mode = (uint32_t)mode;
  if (!begin(trace, "scatter_nd", x) || !known_mode(trace, mode) ||
      !literal_tuples(trace, "scatter_nd", indices))
    return none_value;
  return dt__trace_add(trace, DT_OP_scatter_nd, (dt_value_t[]){x, indices, updates}, 3, &attrs);
}

dt_value_t dt_update_slice(dt_trace_t *trace, dt_value_t x, dt_value_t update, dt_value_t start,
                           int32_t axis, dt_update_mode_t mode) {
  (void)x;
  (void)update;
  (void)start;
  (void)axis;
  (void)mode;
  REFUSE(trace, "update_slice");
  return none_value;
}

void dt_topk(dt_trace_t *trace, dt_value_t x, dt_sym_t k, int32_t axis, bool largest,
             dt_value_t *out_values, dt_value_t *out_indices) {
  (void)x;
  (void)k;
  (void)axis;
  (void)largest;
  *out_values = *out_indices = none_value;
  REFUSE(trace, "topk");
}

void dt_sort(dt_trace_t *trace, dt_value_t x, int32_t axis, bool descending, dt_value_t *out_values,
             dt_value_t *out_indices) {
  (void)x;
  (void)axis;
  (void)descending;
  *out_values = *out_indices = none_value;
  REFUSE(trace, "sort");
}
