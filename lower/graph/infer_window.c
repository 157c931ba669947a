// SPDX-License-Identifier: Apache-2.0
// Shape rules of windows and of what is made of them: convolutions, and the sums of overlapping
// windows.
#include "lower/graph/infer.h"
#include "lower/graph/window.h"
#include "runtime/base/status.h"

#define FIELDS 4 // of attrs.syms, a dim

// The windows' dims: at least one, and `each` of the argument's dims for each of them.
static dt_status_t check_dims(const dt_infer_t *ctx, uint32_t each, uint32_t more) {
  uint32_t n = ctx->attrs->n_axes, rank = dt__infer_in(ctx, 0)->rank;
  if (n == 0 || n > FIELDS || n * each > rank)
    return dt__infer_fail(ctx, DT_E_ARGUMENT, "windows over %u dims of an argument of rank %u", n,
                          rank);
  return dt__infer_syms(ctx, FIELDS * n + more);
}

static dt_status_t at_least_one(const dt_infer_t *ctx, dt_sym_t e, const char *what, uint32_t dim) {
  return dt__infer_need(ctx, dt__sym_le(ctx->env, dt__sym_const(ctx->env, 1), e),
                        "windows have elements and move on", "%s of dim %u must be 1 or more", what,
                        dim);
}

// ---- Window, overlap_add ------------------------------------------------------------------------
// Unless there is no element at all.
static dt_status_t check_inside(const dt_infer_t *ctx, const dt_sym_t *field, dt_sym_t room,
                                uint32_t dim) {
  dt_symenv_t *env = ctx->env;
  dt_sym_t zero = dt__sym_const(env, 0);
  dt_sym_t span =
      dt__window_span(env, field[0], field[2], dt__window_reach(env, field[1], field[3]));
  dt_sym_t inside = dt__sym_le(env, span, room);
  if (dt__infer_holds(ctx, inside))
    return NULL;
  for (uint32_t k = 0; k < 2; k++)
    if (!dt__sym_known_true(env, dt__sym_lt(env, zero, field[k])))
      inside = dt__sym_or(env, dt__sym_eq(env, field[k], zero), inside);
  return dt__infer_need(ctx, inside, "windows lie inside",
                        "the last window over dim %u ends outside", dim);
}

dt_status_t dt__shape_rule_window(dt_infer_t *ctx) {
  const dt_node_t *in = dt__infer_in(ctx, 0);
  DT_TRY(check_dims(ctx, 1, 0));
  uint32_t n = ctx->attrs->n_axes;
  ctx->rank = in->rank + n;
  if (ctx->rank > DT_MAX_RANK)
    return dt__infer_fail(ctx, DT_E_LIMIT, "the result would have %u dims, the most is %d",
                          ctx->rank, DT_MAX_RANK);
  for (uint32_t k = 0; k < in->rank; k++)
    ctx->sizes[k] = in->sizes[k];
  for (uint32_t k = 0; k < n; k++) {
    const dt_sym_t *field = &ctx->attrs->syms[FIELDS * k];
    uint32_t dim = in->rank - n + k;
    DT_TRY(dt__infer_size(ctx, field[0], "the number of windows", dim));
    DT_TRY(dt__infer_size(ctx, field[1], "the window", dim));
    DT_TRY(at_least_one(ctx, field[2], "the stride", dim));
    DT_TRY(at_least_one(ctx, field[3], "the dilation", dim));
    DT_TRY(check_inside(ctx, field, in->sizes[dim], dim));
    ctx->sizes[dim] = field[0];
    ctx->sizes[in->rank + k] = field[1];
  }
  return NULL;
}

// Result sizes, strides and dilations of windows whose elements are added up.
static dt_status_t overlapped(dt_infer_t *ctx, uint32_t lead) {
  for (uint32_t k = 0; k < ctx->attrs->n_axes; k++) {
    const dt_sym_t *field = &ctx->attrs->syms[FIELDS * k];
    DT_TRY(dt__infer_size(ctx, field[0], "the size", lead + k));
    DT_TRY(at_least_one(ctx, field[1], "the stride", lead + k));
    DT_TRY(at_least_one(ctx, field[2], "the dilation", lead + k));
    ctx->sizes[lead + k] = field[0];
  }
  return NULL;
}

dt_status_t dt__shape_rule_overlap(dt_infer_t *ctx) {
  const dt_node_t *in = dt__infer_in(ctx, 0);
  DT_TRY(check_dims(ctx, 2, 0));
  uint32_t n = ctx->attrs->n_axes, lead = in->rank - 2 * n;
  ctx->rank = lead + n;
  for (uint32_t k = 0; k < lead; k++)
    ctx->sizes[k] = in->sizes[k];
  return overlapped(ctx, lead);
}

// ---- Convolutions -------------------------------------------------------------------------------
// x and w agree: one rank, groups into which the dims `divided` (of x and of w) fall.
static dt_status_t check_factors(const dt_infer_t *ctx) {
  const dt_node_t *x = dt__infer_in(ctx, 0), *w = dt__infer_in(ctx, 1);
  uint32_t n = ctx->attrs->n_axes;
  if (n == 0 || n > DT_MOST_SPATIAL || x->rank != n + 2 || w->rank != n + 2)
    return dt__infer_fail(ctx, DT_E_SHAPE,
                          "both arguments need rank %u, for 1 to %d dims that windows move along, "
                          "got %u and %u",
                          n + 2, DT_MOST_SPATIAL, x->rank, w->rank);
  DT_TRY(dt__infer_syms(ctx, FIELDS * n + 1));
  return dt__infer_need(
      ctx, dt__sym_le(ctx->env, dt__sym_const(ctx->env, 1), ctx->attrs->syms[FIELDS * n]),
      "there are groups", "there must be 1 group or more");
}

static dt_status_t check_divisible(const dt_infer_t *ctx, dt_sym_t size, dt_sym_t groups,
                                   const char *what) {
  dt_symenv_t *env = ctx->env;
  dt_sym_t rest = dt__sym_mod(env, size, groups);
  return dt__infer_need(ctx, dt__sym_eq(env, rest, dt__sym_const(env, 0)), "groups are of one size",
                        "the groups do not divide %s", what);
}

// One dim of a convolution: what fits into x and its padding.
static dt_status_t conv_dim(dt_infer_t *ctx, uint32_t k) {
  dt_symenv_t *env = ctx->env;
  const dt_sym_t *field = &ctx->attrs->syms[FIELDS * k];
  dt_sym_t size = dt__infer_in(ctx, 1)->sizes[2 + k];
  DT_TRY(at_least_one(ctx, field[0], "the stride", 2 + k));
  DT_TRY(at_least_one(ctx, field[1], "the dilation", 2 + k));
  DT_TRY(dt__infer_size(ctx, field[2], "the padding before", 2 + k));
  DT_TRY(dt__infer_size(ctx, field[3], "the padding after", 2 + k));
  DT_TRY(at_least_one(ctx, size, "the kernel", 2 + k));
  dt_sym_t room =
      dt__sym_add(env, dt__infer_in(ctx, 0)->sizes[2 + k], dt__sym_add(env, field[2], field[3]));
  dt_sym_t reach = dt__window_reach(env, size, field[1]);
  // Of windows of one element there are as many as there is room for: none, too.
  if (!dt__sym_known_eq(env, reach, dt__sym_const(env, 1)))
    DT_TRY(dt__infer_need(ctx, dt__sym_le(env, reach, room),
                          "the kernel fits into the padded input",
                          "the kernel does not fit into dim %u with its padding", 2 + k));
  ctx->sizes[2 + k] = dt__window_places(env, room, reach, field[0]);
  return NULL;
}

dt_status_t dt__shape_rule_conv(dt_infer_t *ctx) {
  const dt_node_t *x = dt__infer_in(ctx, 0), *w = dt__infer_in(ctx, 1);
  DT_TRY(check_factors(ctx));
  dt_symenv_t *env = ctx->env;
  uint32_t n = ctx->attrs->n_axes;
  dt_sym_t groups = ctx->attrs->syms[FIELDS * n];
  dt_sym_t same = dt__sym_eq(env, x->sizes[1], dt__sym_mul(env, w->sizes[1], groups));
  DT_TRY(
      dt__infer_need(ctx, same, "channels are those of all groups",
                     "dim 1 of the first argument must be dim 1 of the second times the groups"));
  DT_TRY(check_divisible(ctx, w->sizes[0], groups, "dim 0 of the second argument"));
  ctx->rank = x->rank;
  ctx->sizes[0] = x->sizes[0];
  ctx->sizes[1] = w->sizes[0];
  for (uint32_t k = 0; k < n; k++)
    DT_TRY(conv_dim(ctx, k));
  return NULL;
}

dt_status_t dt__shape_rule_conv_transpose(dt_infer_t *ctx) {
  const dt_node_t *x = dt__infer_in(ctx, 0), *w = dt__infer_in(ctx, 1);
  DT_TRY(check_factors(ctx));
  dt_sym_t groups = ctx->attrs->syms[FIELDS * ctx->attrs->n_axes];
  DT_TRY(dt__infer_equal(ctx, 0, 1, 1, 0, "the kernel has a row for each channel"));
  DT_TRY(check_divisible(ctx, w->sizes[0], groups, "the channels"));
  ctx->rank = x->rank;
  ctx->sizes[0] = x->sizes[0];
  ctx->sizes[1] = dt__sym_mul(ctx->env, w->sizes[1], groups);
  return overlapped(ctx, 2);
}
