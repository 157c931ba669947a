// SPDX-License-Identifier: Apache-2.0
// Builders that read and replace elements and slices by index.
#include "runtime/trace/builder.h"

static const dt_value_t none_value = {0};

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

// ---- Slices -------------------------------------------------------------------------------------
static dt_value_t number(dt_trace_t *trace, dt_sym_t a) {
  return trace->status ? none_value : (dt_size_value)(trace, a);
}

// Where the slice begins, so that what is outside of x is an index outside of it.
static dt_value_t first_place(dt_trace_t *trace, dt_value_t start, dt_sym_t size, dt_sym_t length,
                              dt_update_mode_t mode) {
  dt_value_t zero = number(trace, dt__trace_made(trace, dt__sym_const(trace->env, 0)));
  if (mode == DT_UPDATE_CHECKED)
    return (dt_where)(trace, (dt_lt)(trace, start, zero), number(trace, size), start);
  if (mode == DT_UPDATE_CIRCULAR)
    return (dt_mod)(trace, start, number(trace, size));
  dt_sym_t last = dt__trace_made(trace, dt__sym_sub(trace->env, size, length));
  return (dt_maximum)(trace, zero, (dt_minimum)(trace, start, number(trace, last)));
}

// The index along `axis` of each element of the update: of the update's sizes.
static dt_value_t places(dt_trace_t *trace, const dt_node_t *update, dt_value_t start,
                         uint32_t start_rank, uint32_t axis, dt_sym_t size, dt_update_mode_t mode) {
  dt_sym_t shape[DT_MAX_RANK], length = update->sizes[axis];
  dt_sym_t one = dt__trace_made(trace, dt__sym_const(trace->env, 1));
  for (uint32_t d = 0; d < update->rank; d++)
    shape[d] = d == axis ? length : one;
  dt_value_t along = (dt_iota)(trace, DT_I64, update->rank, shape, (int32_t)axis);
  start = first_place(trace, start, size, length, mode);
  for (uint32_t d = 0; d < update->rank; d++)
    shape[d] = d == 0 && start_rank ? update->sizes[0] : one;
  start = trace->status ? none_value : dt__trace_reshape(trace, start, update->rank, shape);
  dt_value_t at = (dt_add)(trace, start, along);
  if (mode == DT_UPDATE_CIRCULAR)
    at = (dt_mod)(trace, at, number(trace, size));
  return trace->status ? none_value : dt__trace_expand(trace, at, update->rank, update->sizes);
}

static bool update_fits(dt_trace_t *trace, const dt_node_t *x, const dt_node_t *update,
                        const dt_node_t *start, uint32_t axis) {
  if (update->rank != x->rank)
    DT_TRACE_FAIL(trace, DT_E_SHAPE, "the update must have rank %u like argument 0, got %u",
                  x->rank, update->rank);
  else if (start->dtype != DT_I32 && start->dtype != DT_I64)
    DT_TRACE_FAIL(trace, DT_E_DTYPE, "the start must be i32 or i64, got %s; use cast",
                  dt_dtype_name(start->dtype));
  else if (start->rank > 1 || (start->rank == 1 && axis == 0))
    DT_TRACE_FAIL(trace, DT_E_SHAPE,
                  "the start must have rank 0, or rank 1 with a start for each index of dim 0 "
                  "where another is the axis; got rank %u, axis %u",
                  start->rank, axis);
  return !trace->status;
}

// What the program needs of sizes: proved, or a guard.
static bool sizes_fit(dt_trace_t *trace, const dt_node_t *x, const dt_node_t *update,
                      uint32_t axis) {
  dt_symenv_t *env = trace->env;
  for (uint32_t d = 0; d < x->rank && !trace->status; d++) {
    dt_sym_t cond = d == axis ? dt__sym_le(env, update->sizes[d], x->sizes[d])
                              : dt__sym_eq(env, update->sizes[d], x->sizes[d]);
    const char *what = d == axis ? "an update is no longer than what it is of"
                                 : "an update has the other sizes of what it is of";
    if (dt__trace_made(trace, cond).id && dt__sym_known(env, cond) == DT_FALSE)
      DT_TRACE_FAIL(trace, DT_E_SHAPE, "%s: dim %u differs", what, d);
    else if (!trace->status)
      (void)dt__trace_take(trace, dt__sym_require(env, cond, &trace->origin, what));
  }
  return !trace->status;
}

dt_value_t dt_update_slice(dt_trace_t *trace, dt_value_t x, dt_value_t update, dt_value_t start,
                           int32_t axis, dt_update_mode_t mode) {
  const dt_node_t *own = begin(trace, "update_slice", x);
  const dt_node_t *part = own ? dt__trace_node(trace, update, "the update") : NULL;
  const dt_node_t *from = part ? dt__trace_node(trace, start, "the start") : NULL;
  uint32_t at = 0;
  if (!from || !dt__trace_axis(trace, axis, own->rank, &at))
    return none_value;
  if ((unsigned)mode > DT_UPDATE_CIRCULAR) {
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "the mode %d is none of dt_update_mode_t", (int)mode);
    return none_value;
  }
  if (!update_fits(trace, own, part, from, at) || !sizes_fit(trace, own, part, at))
    return none_value;
  dt_node_t whole = *own, piece = *part; // nodes move when others are added
  uint32_t start_rank = from->rank;
  dt_origin_t origin = trace->origin;
  if (from->dtype != DT_I64)
    start = (dt_cast)(trace, start, DT_I64);
  dt_value_t indices = places(trace, &piece, start, start_rank, at, whole.sizes[at], mode);
  trace->origin = origin;
  dt_attrs_t attrs = {0};
  attrs.n_axes = 1;
  attrs.axes[0] = (int32_t)at;
  attrs.mode = DT_JOIN_REPLACE + DT_JOIN_APART;
  if (trace->status)
    return none_value;
  return dt__trace_add(trace, DT_OP_scatter_elements, (dt_value_t[]){x, indices, update}, 3,
                       &attrs);
}
