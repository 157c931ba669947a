// SPDX-License-Identifier: Apache-2.0
// Evaluation of what takes and replaces elements at places that indices say, one at a time.
#include "lower/graph/eval_private.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#include <math.h>

// ---- Places -------------------------------------------------------------------------------------
// A negative index counts from the end. *unsure becomes infinite where the index itself is.
static dt_status_t index_of(const dt_node_t *node, const dt_eval_value_t *indices, int64_t at,
                            int64_t size, int64_t *out, double *unsure) {
  dt_approx_t given = dt__eval_at(indices, at);
  *out = given.v.i < 0 ? given.v.i + size : given.v.i;
  if (isinf(given.b))
    *unsure = INFINITY;
  if (*out < 0 || *out >= size)
    return DT_FAIL(DT_E_RANGE, "%s: index %lld (element %lld) is not in [-%lld, %lld)",
                   dt__op_info(node->op)->name, (long long)given.v.i, (long long)at,
                   (long long)size, (long long)size);
  return NULL;
}

// Where the indices at `walk`, an index of theirs or of what has their sizes, say: in x.
static dt_status_t place_of_element(const dt_node_t *node, const dt_eval_value_t *x,
                                    const dt_eval_value_t *indices, const dt_walk_t *walk,
                                    int64_t at, int64_t *out, double *unsure) {
  int64_t strides[DT_MAX_RANK], index = 0;
  int32_t axis = node->attrs->axes[0];
  dt__eval_strides(x, strides);
  DT_TRY(index_of(node, indices, at, x->sizes[axis], &index, unsure));
  *out = index * strides[axis];
  for (uint32_t d = 0; d < x->rank; d++) {
    if ((int32_t)d != axis && walk->index[d] >= x->sizes[d])
      return dt__eval_misfit(node, "the indices are longer than what they index");
    *out += (int32_t)d != axis ? walk->index[d] * strides[d] : 0;
  }
  return NULL;
}

// The same for tuples; `walk` is over the dims of the indices but the last, then the rest of x.
static dt_status_t place_of_tuple(const dt_node_t *node, const dt_eval_value_t *x,
                                  const dt_eval_value_t *indices, const dt_walk_t *walk,
                                  uint32_t batch, int64_t *out, double *unsure) {
  int64_t to[DT_MAX_RANK], from[DT_MAX_RANK], at = 0, index = 0;
  uint32_t places = indices->rank - 1, k = (uint32_t)indices->sizes[places];
  dt__eval_strides(x, to);
  dt__eval_strides(indices, from);
  *out = 0;
  for (uint32_t d = 0; d < places; d++)
    at += walk->index[d] * from[d];
  for (uint32_t d = 0; d < batch; d++)
    *out += walk->index[d] * to[d];
  for (uint32_t d = 0; d < k; d++) {
    DT_TRY(index_of(node, indices, at + d, x->sizes[batch + d], &index, unsure));
    *out += index * to[batch + d];
  }
  for (uint32_t d = batch + k; d < x->rank; d++)
    *out += walk->index[places + d - batch - k] * to[d];
  return NULL;
}

static dt_status_t place_of(const dt_node_t *node, const dt_eval_value_t *x,
                            const dt_eval_value_t *indices, const dt_walk_t *walk, int64_t at,
                            int64_t *out, double *unsure) {
  if (node->op == DT_OP_gather_elements || node->op == DT_OP_scatter_elements)
    return place_of_element(node, x, indices, walk, at, out, unsure);
  return place_of_tuple(node, x, indices, walk, node->attrs->n_axes, out, unsure);
}

// ---- Taking -------------------------------------------------------------------------------------
static dt_status_t take(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  const dt_eval_value_t *x = dt__eval_in(e, node, 0), *indices = dt__eval_in(e, node, 1);
  int64_t none[DT_MAX_RANK] = {0}, from = 0;
  dt_walk_t walk = dt__walk_begin(out->rank, out->sizes, none);
  for (int64_t k = 0; k < out->count; k++, dt__walk_next(&walk)) {
    double unsure = 0.0;
    DT_TRY(place_of(node, x, indices, &walk, k, &from, &unsure));
    dt_approx_t got = dt__eval_at(x, from);
    got.b = unsure > 0.0 ? unsure : got.b;
    dt__eval_put(out, k, got);
  }
  return NULL;
}

dt_status_t dt__eval_gather_elements(const dt_eval_t *e, const dt_node_t *node,
                                     dt_eval_value_t *out) {
  if (out->count != dt__eval_in(e, node, 1)->count)
    return dt__eval_misfit(node, "the indices do not fit the result");
  return take(e, node, out);
}

dt_status_t dt__eval_gather_nd(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  const dt_eval_value_t *x = dt__eval_in(e, node, 0), *indices = dt__eval_in(e, node, 1);
  uint32_t places = indices->rank - 1, k = (uint32_t)indices->sizes[places];
  for (uint32_t d = 0; d < out->rank; d++) {
    uint32_t dim = d - places + node->attrs->n_axes + k;
    if (out->sizes[d] != (d < places ? indices->sizes[d] : x->sizes[dim]))
      return dt__eval_misfit(node, "the indices do not fit the result");
  }
  for (uint32_t d = 0; d < node->attrs->n_axes; d++)
    if (indices->sizes[d] != x->sizes[d])
      return dt__eval_misfit(node, "batch dims differ");
  return take(e, node, out);
}

// ---- Replacing ----------------------------------------------------------------------------------
// What an update makes of the element it meets; sums of halves are f32 until they are stored.
static dt_approx_t joined(uint32_t mode, dt_dtype_t dtype, dt_approx_t old, dt_approx_t update) {
  static const dt_scalar_op_t ops[DT_JOIN_COUNT] = {DT_SCALAR_NONE, DT_SCALAR_add, DT_SCALAR_mul,
                                                    DT_SCALAR_maximum, DT_SCALAR_minimum};
  dt_scalar_op_t op = ops[mode % DT_JOIN_APART];
  return op == DT_SCALAR_NONE ? update : dt__approx_2(op, dt__dtype_computed(dtype), old, update);
}

static dt_status_t replace(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  const dt_eval_value_t *indices = dt__eval_in(e, node, 1), *updates = dt__eval_in(e, node, 2);
  uint32_t mode = node->attrs->mode;
  int64_t none[DT_MAX_RANK] = {0}, to = 0;
  double unsure = 0.0;
  bool *met = DT_ARENA_ARRAY(e->arena, bool, out->count + 1);
  if (!met)
    return DT_NO_MEMORY();
  dt_walk_t walk = dt__walk_begin(updates->rank, updates->sizes, none);
  for (int64_t k = 0; k < updates->count; k++, dt__walk_next(&walk)) {
    DT_TRY(place_of(node, out, indices, &walk, k, &to, &unsure));
    if (met[to] && mode & DT_JOIN_APART)
      return dt__eval_misfit(node, "two updates meet that should not");
    met[to] = true;
    dt__eval_put(out, to, joined(mode, out->dtype, dt__eval_at(out, to), dt__eval_at(updates, k)));
  }
  for (int64_t k = 0; k < out->count && mode % DT_JOIN_APART; k++)
    dt__eval_put(out, k, dt__approx_stored(out->dtype, dt__eval_at(out, k)));
  for (int64_t k = 0; out->bound && unsure > 0.0 && k < out->count; k++)
    out->bound[k] = unsure;
  return NULL;
}

static dt_status_t replace_in_copy(const dt_eval_t *e, const dt_node_t *node,
                                   dt_eval_value_t *out) {
  const dt_eval_value_t *x = dt__eval_in(e, node, 0);
  if (x->count != out->count)
    return dt__eval_misfit(node, "the result has other sizes");
  for (int64_t k = 0; k < out->count; k++)
    dt__eval_put(out, k, dt__eval_at(x, k));
  return replace(e, node, out);
}

dt_status_t dt__eval_scatter_elements(const dt_eval_t *e, const dt_node_t *node,
                                      dt_eval_value_t *out) {
  if (dt__eval_in(e, node, 1)->count != dt__eval_in(e, node, 2)->count)
    return dt__eval_misfit(node, "updates do not fit the indices");
  return replace_in_copy(e, node, out);
}

dt_status_t dt__eval_scatter_nd(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  const dt_eval_value_t *x = dt__eval_in(e, node, 0), *indices = dt__eval_in(e, node, 1);
  const dt_eval_value_t *updates = dt__eval_in(e, node, 2);
  uint32_t places = indices->rank - 1, k = (uint32_t)indices->sizes[places];
  for (uint32_t d = 0; d < updates->rank; d++)
    if (updates->sizes[d] != (d < places ? indices->sizes[d] : x->sizes[d - places + k]))
      return dt__eval_misfit(node, "updates do not fit the indices");
  return replace_in_copy(e, node, out);
}
