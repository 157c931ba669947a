// SPDX-License-Identifier: Apache-2.0
// Shape rules of what takes and replaces elements at places that indices say.
#include "lower/graph/infer.h"
#include "runtime/base/status.h"

static void result_like(dt_infer_t *ctx, const dt_node_t *in) {
  ctx->rank = in->rank;
  for (uint32_t k = 0; k < in->rank; k++)
    ctx->sizes[k] = in->sizes[k];
}

// ---- Element by element -------------------------------------------------------------------------
// Indices have x's rank, and along other dims than the axis no more elements than x.
static dt_status_t indices_fit(dt_infer_t *ctx) {
  const dt_node_t *in = dt__infer_in(ctx, 0), *indices = dt__infer_in(ctx, 1);
  DT_TRY(dt__infer_axis(ctx, in->rank));
  if (indices->rank != in->rank)
    return dt__infer_fail(ctx, DT_E_SHAPE,
                          "the indices must have rank %u like argument 0, got %u; use reshape",
                          in->rank, indices->rank);
  for (uint32_t d = 0; d < in->rank; d++) {
    if ((int32_t)d == ctx->attrs->axes[0])
      continue;
    dt_sym_t cond = dt__sym_le(ctx->env, indices->sizes[d], in->sizes[d]);
    DT_TRY(dt__infer_need(ctx, cond, "indices are no longer than what they index",
                          "dim %u of the indices is longer than that of argument 0", d));
  }
  return NULL;
}

dt_status_t dt__shape_rule_gather_elements(dt_infer_t *ctx) {
  DT_TRY(indices_fit(ctx));
  result_like(ctx, dt__infer_in(ctx, 1));
  return NULL;
}

static dt_status_t mode_known(const dt_infer_t *ctx) {
  uint32_t mode = ctx->attrs->mode;
  if (mode >= 2 * DT_JOIN_APART || mode % DT_JOIN_APART >= DT_JOIN_COUNT)
    return dt__infer_fail(ctx, DT_E_ARGUMENT, "the mode %u is none", mode);
  return NULL;
}

dt_status_t dt__shape_rule_scatter_elements(dt_infer_t *ctx) {
  const dt_node_t *indices = dt__infer_in(ctx, 1), *updates = dt__infer_in(ctx, 2);
  DT_TRY(mode_known(ctx));
  DT_TRY(indices_fit(ctx));
  if (updates->rank != indices->rank)
    return dt__infer_fail(ctx, DT_E_SHAPE, "the updates must have rank %u like the indices, got %u",
                          indices->rank, updates->rank);
  for (uint32_t d = 0; d < indices->rank; d++)
    DT_TRY(dt__infer_equal(ctx, 1, d, 2, d, "updates have the sizes of the indices"));
  result_like(ctx, dt__infer_in(ctx, 0));
  return NULL;
}

// ---- By tuples of indices -----------------------------------------------------------------------
// How many dims of x behind the `batch` ones the indices' last dim speaks of.
static dt_status_t tuple_size(dt_infer_t *ctx, uint32_t batch, uint32_t *out) {
  const dt_node_t *in = dt__infer_in(ctx, 0), *indices = dt__infer_in(ctx, 1);
  int64_t k = 0;
  if (indices->rank <= batch || in->rank <= batch)
    return dt__infer_fail(ctx, DT_E_SHAPE,
                          "both arguments need more dims than the %u batch dims, got %u and %u",
                          batch, in->rank, indices->rank);
  dt_sym_t last = dt__sym_simplify(ctx->env, indices->sizes[indices->rank - 1]);
  if (!dt__sym_is_const(ctx->env, last, &k))
    return dt__infer_fail(ctx, DT_E_SHAPE,
                          "the last dim of the indices must have a literal size; use reshape");
  if (k < 1 || k > (int64_t)(in->rank - batch))
    return dt__infer_fail(ctx, DT_E_SHAPE,
                          "the last dim of the indices must have size 1 to %u, the dims of "
                          "argument 0 behind %u batch dims, got %lld",
                          in->rank - batch, batch, (long long)k);
  *out = (uint32_t)k;
  return NULL;
}

dt_status_t dt__shape_rule_gather_nd(dt_infer_t *ctx) {
  const dt_node_t *in = dt__infer_in(ctx, 0), *indices = dt__infer_in(ctx, 1);
  uint32_t batch = ctx->attrs->n_axes, k = 0;
  DT_TRY(tuple_size(ctx, batch, &k));
  for (uint32_t d = 0; d < batch; d++)
    DT_TRY(dt__infer_equal(ctx, 0, d, 1, d, "batch dims are the same"));
  uint32_t rest = in->rank - batch - k;
  if (indices->rank - 1 + rest > DT_MAX_RANK)
    return dt__infer_fail(ctx, DT_E_LIMIT, "the result would have %u dims, the most is %d",
                          indices->rank - 1 + rest, DT_MAX_RANK);
  ctx->rank = 0;
  for (uint32_t d = 0; d + 1 < indices->rank; d++)
    ctx->sizes[ctx->rank++] = indices->sizes[d];
  for (uint32_t d = batch + k; d < in->rank; d++)
    ctx->sizes[ctx->rank++] = in->sizes[d];
  return NULL;
}

dt_status_t dt__shape_rule_scatter_nd(dt_infer_t *ctx) {
  const dt_node_t *in = dt__infer_in(ctx, 0), *indices = dt__infer_in(ctx, 1);
  const dt_node_t *updates = dt__infer_in(ctx, 2);
  uint32_t k = 0;
  DT_TRY(mode_known(ctx));
  DT_TRY(tuple_size(ctx, 0, &k));
  uint32_t places = indices->rank - 1, rank = places + in->rank - k;
  if (updates->rank != rank)
    return dt__infer_fail(ctx, DT_E_SHAPE,
                          "the updates must have rank %u: the indices' but the last, and the rest "
                          "of argument 0; got %u",
                          rank, updates->rank);
  for (uint32_t d = 0; d < places; d++)
    DT_TRY(dt__infer_equal(ctx, 1, d, 2, d, "there is an update for each place"));
  for (uint32_t d = places; d < rank; d++)
    DT_TRY(dt__infer_equal(ctx, 0, d - places + k, 2, d,
                           "an update has the sizes of what it replaces"));
  result_like(ctx, in);
  return NULL;
}
