// SPDX-License-Identifier: Apache-2.0
// Shape rules of what reads sizes from data and of what such sizes are for: items, running sums,
// searches, and the elements that a mask selects.
#include "lower/graph/infer.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

static void result_like(dt_infer_t *ctx, const dt_node_t *in) {
  ctx->rank = in->rank;
  for (uint32_t k = 0; k < in->rank; k++)
    ctx->sizes[k] = in->sizes[k];
}

static dt_status_t mode_below(const dt_infer_t *ctx, uint32_t end) {
  if (ctx->attrs->mode >= end)
    return dt__infer_fail(ctx, DT_E_ARGUMENT, "the mode %u is not in [0, %u)", ctx->attrs->mode,
                          end);
  return NULL;
}

// The number of selected elements is a size.
static dt_status_t count_size(dt_infer_t *ctx) {
  DT_TRY(dt__infer_syms(ctx, 1));
  ctx->sizes[0] = ctx->attrs->syms[0];
  return dt__infer_size(ctx, ctx->sizes[0], "the number of selected elements, the size", 0);
}

dt_status_t dt__shape_rule_item(dt_infer_t *ctx) {
  uint32_t symbol = 0;
  if (dt__infer_in(ctx, 0)->rank != 0)
    return dt__infer_fail(ctx, DT_E_SHAPE, "the argument must have rank 0; use reshape");
  DT_TRY(dt__infer_syms(ctx, 1));
  if (!dt__sym_is_symbol(ctx->env, ctx->attrs->syms[0], &symbol) ||
      dt__symbol_info(ctx->env, symbol).kind != DT_SYMBOL_UNBACKED)
    return dt__infer_fail(ctx, DT_E_ARGUMENT, "what it binds must be an unbacked symbol");
  ctx->rank = 0;
  return NULL;
}

dt_status_t dt__shape_rule_scan(dt_infer_t *ctx) {
  const dt_node_t *in = dt__infer_in(ctx, 0);
  DT_TRY(dt__infer_axis(ctx, in->rank));
  DT_TRY(mode_below(ctx, 2 * DT_SCAN_WHOLE));
  result_like(ctx, in);
  return NULL;
}

dt_status_t dt__shape_rule_search(dt_infer_t *ctx) {
  if (dt__infer_in(ctx, 0)->rank != 1)
    return dt__infer_fail(ctx, DT_E_SHAPE, "argument 0, which is searched, must have rank 1");
  DT_TRY(mode_below(ctx, DT_SEARCH_INCLUSIVE + 1));
  result_like(ctx, dt__infer_in(ctx, 1));
  return NULL;
}

dt_status_t dt__shape_rule_compress(dt_infer_t *ctx) {
  DT_TRY(dt__infer_same_sizes(ctx));
  DT_TRY(count_size(ctx));
  ctx->rank = 2;
  ctx->sizes[1] = dt__sym_const(ctx->env, (int64_t)ctx->n_inputs - 2);
  return NULL;
}

dt_status_t dt__shape_rule_nonzero(dt_infer_t *ctx) {
  DT_TRY(count_size(ctx));
  ctx->rank = 2;
  ctx->sizes[1] = dt__sym_const(ctx->env, (int64_t)dt__infer_in(ctx, 0)->rank);
  return NULL;
}

dt_status_t dt__shape_rule_select(dt_infer_t *ctx) {
  DT_TRY(dt__infer_same_sizes(ctx));
  DT_TRY(count_size(ctx));
  ctx->rank = 1;
  return NULL;
}
