// SPDX-License-Identifier: Apache-2.0
// Decompositions of what reads sizes from data: running sums become inclusive, forward ones, long
// rows in two levels so that threads can share them; selections become masked stores at the places
// that a running sum of the mask gives.
#include "lower/passes/decompose.h"
#include "runtime/base/status.h"

// Elements of a row that one iteration sums on its own.
#define ROW 1024

static dt_symenv_t *env_of(const dt_build_t *b) { return b->rw->to->env; }
static dt_sym_t literal(const dt_build_t *b, int64_t value) {
  return dt__sym_const(env_of(b), value);
}
// Of a value made here; none after a failure.
static const dt_node_t *node_of(const dt_build_t *b, dt_node_id_t x) {
  return b->status ? NULL : dt__graph_node(b->rw->to, x);
}

// ---- Pieces -------------------------------------------------------------------------------------
static dt_node_id_t reshape(dt_build_t *b, dt_node_id_t x, uint32_t rank, const dt_sym_t *sizes) {
  dt_attrs_t attrs = {0};
  attrs.n_syms = rank;
  for (uint32_t k = 0; k < rank; k++)
    attrs.syms[k] = sizes[k];
  return dt__build_op(b, DT_OP_reshape, &x, 1, &attrs);
}

static dt_node_id_t cast(dt_build_t *b, dt_node_id_t x, dt_dtype_t dtype) {
  dt_attrs_t attrs = {0};
  attrs.dtype = dtype;
  return dt__build_op(b, DT_OP_cast, &x, 1, &attrs);
}

// `size` elements along `axis` from `start`.
static dt_node_id_t slice(dt_build_t *b, dt_node_id_t x, uint32_t axis, dt_sym_t start,
                          dt_sym_t size, int64_t step) {
  const dt_node_t *in = node_of(b, x);
  dt_attrs_t attrs = {0};
  if (!in)
    return x;
  attrs.n_syms = 2 * in->rank;
  for (uint32_t k = 0; k < in->rank; k++) {
    attrs.syms[2 * k] = k == axis ? start : literal(b, 0);
    attrs.syms[2 * k + 1] = k == axis ? size : in->sizes[k];
    attrs.ints[k] = k == axis ? step : 1;
  }
  return dt__build_op(b, DT_OP_slice, &x, 1, &attrs);
}

// Zeros before and after, along `axis`.
static dt_node_id_t pad(dt_build_t *b, dt_node_id_t x, uint32_t axis, dt_sym_t low, dt_sym_t high) {
  const dt_node_t *in = node_of(b, x);
  dt_attrs_t attrs = {0};
  if (!in)
    return x;
  attrs.n_syms = 2 * in->rank;
  for (uint32_t k = 0; k < in->rank; k++) {
    attrs.syms[2 * k] = k == axis ? low : literal(b, 0);
    attrs.syms[2 * k + 1] = k == axis ? high : literal(b, 0);
  }
  return dt__build_op(b, DT_OP_pad, &x, 1, &attrs);
}

static dt_node_id_t cumsum(dt_build_t *b, dt_node_id_t x, uint32_t axis, uint32_t mode) {
  dt_attrs_t attrs = {0};
  attrs.n_axes = 1;
  attrs.axes[0] = (int32_t)axis;
  attrs.mode = mode;
  return dt__build_op(b, DT_OP_cumsum, &x, 1, &attrs);
}

static dt_sym_t count_of(dt_build_t *b, const dt_node_t *x) {
  dt_sym_t count = literal(b, 1);
  for (uint32_t k = 0; k < x->rank; k++)
    count = dt__sym_mul(env_of(b), count, x->sizes[k]);
  return count;
}

// ---- Running sums -------------------------------------------------------------------------------
// A row that is the whole of the tensor and may be long.
static bool is_long(dt_build_t *b) {
  const dt_node_t *node = b->node;
  for (uint32_t k = 0; k < node->rank; k++) {
    int64_t size = 0;
    if ((int32_t)k != node->attrs->axes[0] &&
        !(dt__sym_is_const(env_of(b), node->sizes[k], &size) && size == 1))
      return false;
  }
  return dt__sym_range(env_of(b), node->sizes[node->attrs->axes[0]]).hi > ROW;
}

// Rows of ROW elements on their own, then the sums of the rows before each.
static dt_node_id_t in_two_levels(dt_build_t *b) {
  dt_symenv_t *env = env_of(b);
  const dt_node_t *node = b->node;
  dt_sym_t n = node->sizes[node->attrs->axes[0]];
  dt_sym_t rows = dt__sym_ceildiv(env, n, literal(b, ROW));
  dt_sym_t whole = dt__sym_mul(env, rows, literal(b, ROW));
  dt_sym_t rest = dt__sym_sub(env, whole, n);
  // True of any n: rounding up.
  dt__build_learn(b, dt__sym_le(env, literal(b, 0), rest));
  dt__build_learn(b, dt__sym_le(env, literal(b, 0), rows));
  dt__build_size(b, whole);
  dt_sym_t square[2] = {rows, literal(b, ROW)}, column[2] = {rows, literal(b, 1)};
  dt_node_id_t x = pad(b, reshape(b, b->in[0], 1, &n), 0, literal(b, 0), rest);
  dt_node_id_t own = cumsum(b, reshape(b, x, 2, square), 1, DT_SCAN_WHOLE);
  dt_node_id_t totals = slice(b, own, 1, literal(b, ROW - 1), literal(b, 1), 1);
  dt_node_id_t before =
      cumsum(b, reshape(b, totals, 1, &rows), 0, DT_SCAN_EXCLUSIVE | DT_SCAN_WHOLE);
  dt_node_id_t sum = dt__build_pair(b, DT_OP_add, own, reshape(b, before, 2, column));
  x = slice(b, reshape(b, sum, 1, &whole), 0, literal(b, 0), n, 1);
  return reshape(b, x, node->rank, node->sizes);
}

dt_node_id_t dt__decompose_cumsum(dt_build_t *b) {
  const dt_node_t *node = b->node;
  uint32_t axis = (uint32_t)node->attrs->axes[0], mode = node->attrs->mode;
  bool reverse = mode & DT_SCAN_REVERSE, exclusive = mode & DT_SCAN_EXCLUSIVE;
  if (!reverse && !exclusive)
    return mode == 0 && is_long(b) ? in_two_levels(b) : (dt_node_id_t){0};
  dt_sym_t n = node->sizes[axis], zero = literal(b, 0), one = literal(b, 1);
  dt_sym_t last = dt__sym_sub(env_of(b), n, one);
  dt_node_id_t x = b->in[0];
  if (reverse)
    x = slice(b, x, axis, last, n, -1);
  if (exclusive) // a zero takes the first place, and the last element its leave
    x = slice(b, pad(b, x, axis, one, zero), axis, zero, n, 1);
  x = cumsum(b, x, axis, mode & DT_SCAN_WHOLE);
  return reverse ? slice(b, x, axis, last, n, -1) : x;
}

// ---- Selections ---------------------------------------------------------------------------------
// How many elements before each one are selected.
static dt_node_id_t places_of(dt_build_t *b, dt_node_id_t mask) {
  const dt_node_t *in = node_of(b, mask);
  if (!in)
    return mask;
  dt_sym_t count = count_of(b, in), sizes[DT_MAX_RANK];
  uint32_t rank = in->rank;
  for (uint32_t k = 0; k < rank; k++)
    sizes[k] = in->sizes[k];
  dt_node_id_t flat = cast(b, reshape(b, mask, 1, &count), DT_I64);
  return reshape(b, cumsum(b, flat, 0, DT_SCAN_EXCLUSIVE), rank, sizes);
}

static dt_node_id_t compress(dt_build_t *b, const dt_node_id_t *inputs, uint32_t n) {
  dt_attrs_t attrs = {0};
  attrs.n_syms = 1;
  attrs.syms[0] = b->node->attrs->syms[0];
  return dt__build_op(b, DT_OP_compress, inputs, n, &attrs);
}

dt_node_id_t dt__decompose_nonzero(dt_build_t *b) {
  dt_node_id_t in[2 + DT_MAX_RANK] = {b->in[0]}, out = {0};
  dt_node_t x = *dt__graph_node(b->rw->to, b->in[0]);
  if (x.rank == 0) {
    if (!b->status)
      b->status = dt__graph_full(b->rw->to, DT_I64, 0, 2, b->node->sizes, &b->node->origin, &out);
    return out;
  }
  if (x.dtype != DT_BOOL)
    in[0] = cast(b, in[0], DT_BOOL);
  in[1] = places_of(b, in[0]);
  for (uint32_t k = 0; k < x.rank; k++) {
    dt_attrs_t attrs = {0};
    attrs.dtype = DT_I64;
    attrs.n_axes = 1;
    attrs.axes[0] = (int32_t)k;
    attrs.n_syms = x.rank;
    for (uint32_t d = 0; d < x.rank; d++)
      attrs.syms[d] = x.sizes[d];
    in[2 + k] = dt__build_op(b, DT_OP_iota, NULL, 0, &attrs);
  }
  return compress(b, in, 2 + x.rank);
}

dt_node_id_t dt__decompose_masked_select(dt_build_t *b) {
  dt_node_id_t in[3] = {b->in[1], places_of(b, b->in[1]), b->in[0]};
  return reshape(b, compress(b, in, 3), 1, b->node->sizes);
}
