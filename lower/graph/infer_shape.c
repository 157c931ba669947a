// SPDX-License-Identifier: Apache-2.0
// Shape rules of leaves, element-wise ops, reductions, indexing, norms and the matrix product.
// Those that rename indices stand in infer_view.c.
#include "lower/graph/infer.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

static void result_like(dt_infer_t *ctx, const dt_node_t *in) {
  ctx->rank = in->rank;
  for (uint32_t k = 0; k < in->rank; k++)
    ctx->sizes[k] = in->sizes[k];
}

// ---- Leaves -------------------------------------------------------------------------------------
dt_status_t dt__shape_rule_input(dt_infer_t *ctx) {
  const dt_graph_input_t *input = &ctx->graph->inputs.items[ctx->attrs->index];
  ctx->rank = input->rank;
  for (uint32_t k = 0; k < input->rank; k++)
    ctx->sizes[k] = input->sizes[k];
  return NULL;
}

dt_status_t dt__shape_rule_constant(dt_infer_t *ctx) {
  const dt_graph_constant_t *constant = &ctx->graph->constants.items[ctx->attrs->index];
  ctx->rank = constant->rank;
  for (uint32_t k = 0; k < constant->rank; k++)
    ctx->sizes[k] = dt__sym_const(ctx->env, constant->sizes[k]);
  return NULL;
}

dt_status_t dt__shape_rule_scalar(dt_infer_t *ctx) {
  ctx->rank = 0;
  return dt__infer_value(ctx, ctx->dtype);
}

dt_status_t dt__shape_rule_size(dt_infer_t *ctx) {
  ctx->rank = 0;
  return dt__infer_syms(ctx, 1);
}

dt_status_t dt__shape_rule_iota(dt_infer_t *ctx) {
  uint32_t rank = ctx->attrs->n_syms;
  if (rank > DT_MAX_RANK)
    return dt__infer_fail(ctx, DT_E_LIMIT, "the result would have %u dims, the most is %d", rank,
                          DT_MAX_RANK);
  DT_TRY(dt__infer_syms(ctx, rank));
  DT_TRY(dt__infer_axis(ctx, rank));
  ctx->rank = rank;
  for (uint32_t k = 0; k < rank; k++) {
    ctx->sizes[k] = ctx->attrs->syms[k];
    DT_TRY(dt__infer_size(ctx, ctx->sizes[k], "the size", k));
  }
  return NULL;
}

// ---- Element-wise, one axis ---------------------------------------------------------------------
dt_status_t dt__shape_rule_same(dt_infer_t *ctx) {
  DT_TRY(dt__infer_same_sizes(ctx));
  result_like(ctx, dt__infer_in(ctx, 0));
  return NULL;
}

dt_status_t dt__shape_rule_axis(dt_infer_t *ctx) {
  const dt_node_t *in = dt__infer_in(ctx, 0);
  DT_TRY(dt__infer_axis(ctx, in->rank));
  result_like(ctx, in);
  return NULL;
}

// ---- Reductions ---------------------------------------------------------------------------------
dt_status_t dt__shape_rule_reduce(dt_infer_t *ctx) {
  const dt_node_t *in = dt__infer_in(ctx, 0);
  if (ctx->info->lower == DT_LOWER_argreduce)
    DT_TRY(dt__infer_axis(ctx, in->rank));
  DT_TRY(dt__infer_axes(ctx, in->rank));
  uint32_t next = 0;
  ctx->rank = 0;
  for (uint32_t dim = 0; dim < in->rank; dim++) {
    bool folded = next < ctx->attrs->n_axes && (uint32_t)ctx->attrs->axes[next] == dim;
    if (folded)
      next++;
    if (!folded)
      ctx->sizes[ctx->rank++] = in->sizes[dim];
    else if (ctx->attrs->keepdims)
      ctx->sizes[ctx->rank++] = dt__sym_const(ctx->env, 1);
  }
  return NULL;
}

dt_status_t dt__shape_rule_norm(dt_infer_t *ctx) {
  const dt_node_t *in = dt__infer_in(ctx, 0);
  uint32_t n = ctx->attrs->n_axes;
  if (n == 0 || n > in->rank)
    return dt__infer_fail(ctx, DT_E_ARGUMENT, "1 to %u dims can be normalised, %u given", in->rank,
                          n);
  // What the implementation adds is the epsilon of the dtype that it computes in.
  DT_TRY(dt__infer_value(ctx, dt__dtype_computed(ctx->dtype)));
  for (uint32_t k = 1; k < ctx->n_inputs; k++) {
    if (dt__infer_in(ctx, k)->rank != n)
      return dt__infer_fail(ctx, DT_E_SHAPE,
                            "argument %u must have rank %u, the normalised dims, "
                            "got %u",
                            k, n, dt__infer_in(ctx, k)->rank);
    for (uint32_t dim = 0; dim < n; dim++)
      DT_TRY(dt__infer_equal(ctx, 0, in->rank - n + dim, k, dim,
                             "scale and bias have the sizes of the normalised dims"));
  }
  result_like(ctx, in);
  return NULL;
}

// ---- Indexing -----------------------------------------------------------------------------------
dt_status_t dt__shape_rule_gather(dt_infer_t *ctx) {
  const dt_node_t *in = dt__infer_in(ctx, 0), *indices = dt__infer_in(ctx, 1);
  DT_TRY(dt__infer_axis(ctx, in->rank));
  if (in->rank - 1 + indices->rank > DT_MAX_RANK)
    return dt__infer_fail(ctx, DT_E_LIMIT, "the result would have %u dims, the most is %d",
                          in->rank - 1 + indices->rank, DT_MAX_RANK);
  uint32_t axis = (uint32_t)ctx->attrs->axes[0];
  ctx->rank = 0;
  for (uint32_t dim = 0; dim < in->rank; dim++) {
    if (dim != axis) {
      ctx->sizes[ctx->rank++] = in->sizes[dim];
      continue;
    }
    for (uint32_t k = 0; k < indices->rank; k++)
      ctx->sizes[ctx->rank++] = indices->sizes[k];
  }
  return NULL;
}

// ---- Matrix product -----------------------------------------------------------------------------
dt_status_t dt__shape_rule_matmul(dt_infer_t *ctx) {
  const dt_node_t *a = dt__infer_in(ctx, 0), *b = dt__infer_in(ctx, 1);
  if (a->rank < 2 || b->rank < 2)
    return dt__infer_fail(ctx, DT_E_SHAPE, "both arguments need rank 2 or more; use reshape");
  if (b->rank != 2 && b->rank != a->rank)
    return dt__infer_fail(ctx, DT_E_SHAPE,
                          "the second argument must have rank 2 or the first's "
                          "(%u), got %u; use reshape and expand",
                          a->rank, b->rank);
  if (b->rank > 2) {
    for (uint32_t dim = 0; dim + 2 < a->rank; dim++)
      DT_TRY(dt__infer_equal(ctx, 0, dim, 1, dim, "batch sizes are expanded first"));
  }
  DT_TRY(dt__infer_equal(ctx, 0, a->rank - 1, 1, b->rank - 2,
                         "columns of the first are multiplied with rows of the second"));
  result_like(ctx, a);
  ctx->sizes[a->rank - 1] = b->sizes[b->rank - 1];
  return NULL;
}
