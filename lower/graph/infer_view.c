// SPDX-License-Identifier: Apache-2.0
// Shape rules of views, padding and joining: what they demand of sizes given as attributes.
#include "lower/graph/infer.h"
#include "runtime/base/status.h"

// ---- Reshape ------------------------------------------------------------------------------------
// Factors of a product of sizes: one literal and other expressions.
#define MAX_FACTORS 64
typedef struct factors_t {
  int64_t literal;
  uint32_t n;
  dt_sym_t items[MAX_FACTORS];
  bool overflow; // of the literal or of the table
} factors_t;

static void factors_add(const dt_symenv_t *env, factors_t *factors, dt_sym_t size) {
  int64_t value = 0;
  if (dt__sym_is_const(env, size, &value)) {
    if (!dt__mul_i64(factors->literal, value, &factors->literal))
      factors->overflow = true;
    return;
  }
  dt_sym_view_t view = dt__sym_view(env, size);
  if (view.op == DT_SYM_MUL) {
    // Products are flat, so this goes one level deep.
    for (uint32_t k = 0; k < view.n_args; k++)
      factors_add(env, factors, view.args[k]);
  } else if (factors->n < MAX_FACTORS) {
    factors->items[factors->n++] = size;
  } else {
    factors->overflow = true;
  }
}

// Takes common factors out of both. Valid for sizes of 0 too: for x = 0, both products are 0
// whatever the rest is, and the rest still is an answer.
static void factors_cancel(factors_t *a, factors_t *b) {
  for (uint32_t i = 0; i < a->n;) {
    uint32_t j = 0;
    while (j < b->n && b->items[j].id != a->items[i].id)
      j++;
    if (j == b->n) {
      i++;
      continue;
    }
    a->items[i] = a->items[--a->n];
    b->items[j] = b->items[--b->n];
  }
  if (b->literal > 0 && a->literal % b->literal == 0) {
    a->literal /= b->literal;
    b->literal = 1;
  }
}

static dt_sym_t factors_product(dt_symenv_t *env, const factors_t *factors) {
  dt_sym_t product = dt__sym_const(env, factors->literal);
  for (uint32_t k = 0; k < factors->n; k++)
    product = dt__sym_mul(env, product, factors->items[k]);
  return product;
}

static dt_sym_t product_of(dt_symenv_t *env, uint32_t rank, const dt_sym_t *sizes) {
  dt_sym_t product = dt__sym_const(env, 1);
  for (uint32_t k = 0; k < rank; k++)
    product = dt__sym_mul(env, product, sizes[k]);
  return product;
}

// The size that makes the products equal: what is left of the input's factors over what is left of
// the given ones. A divisor that may be 0 is raised to 1; the demand that both products be equal,
// made by the caller, then holds only where the input is empty too.
static dt_status_t solve_open_size(dt_infer_t *ctx, uint32_t open) {
  const dt_node_t *in = dt__infer_in(ctx, 0);
  factors_t have = {.literal = 1}, given = {.literal = 1};
  for (uint32_t k = 0; k < in->rank; k++)
    factors_add(ctx->env, &have, dt__sym_simplify(ctx->env, in->sizes[k]));
  for (uint32_t k = 0; k < ctx->attrs->n_syms; k++) {
    if (k != open)
      factors_add(ctx->env, &given, dt__sym_simplify(ctx->env, ctx->attrs->syms[k]));
  }
  if (have.overflow || given.overflow)
    return dt__infer_fail(ctx, DT_E_LIMIT, "the product of the sizes is too large");
  if (given.literal == 0)
    return dt__infer_fail(ctx, DT_E_SHAPE,
                          "size %u cannot be found: another size is 0; give it explicitly", open);
  factors_cancel(&have, &given);
  dt_sym_t divisor = factors_product(ctx->env, &given);
  dt_sym_t one = dt__sym_const(ctx->env, 1);
  if (!dt__sym_known_true(ctx->env, dt__sym_le(ctx->env, one, divisor)))
    divisor = dt__sym_max(ctx->env, divisor, one);
  ctx->attrs->syms[open] = dt__sym_floordiv(ctx->env, factors_product(ctx->env, &have), divisor);
  if (ctx->attrs->syms[open].id == 0) {
    DT_TRY(dt__symenv_status(ctx->env));
    return dt__infer_fail(ctx, DT_E_LIMIT, "size %u has no value", open);
  }
  return NULL;
}

// The number of elements is known to stay the same, and all other sizes to be positive: then a size
// is as good as the input, whether it shows that it is not negative or not.
static bool size_follows(const dt_infer_t *ctx, dt_sym_t e, uint32_t k) {
  (void)e;
  const dt_node_t *in = dt__infer_in(ctx, 0);
  const dt_attrs_t *attrs = ctx->attrs;
  dt_sym_t one = dt__sym_const(ctx->env, 1);
  for (uint32_t other = 0; other < attrs->n_syms; other++)
    if (other != k && !dt__sym_known_true(ctx->env, dt__sym_le(ctx->env, one, attrs->syms[other])))
      return false;
  return dt__sym_known_eq(ctx->env, product_of(ctx->env, in->rank, in->sizes),
                          product_of(ctx->env, attrs->n_syms, attrs->syms));
}

dt_status_t dt__shape_rule_reshape(dt_infer_t *ctx) {
  const dt_node_t *in = dt__infer_in(ctx, 0);
  dt_attrs_t *attrs = ctx->attrs;
  if (attrs->n_syms > DT_MAX_RANK)
    return dt__infer_fail(ctx, DT_E_LIMIT, "the result would have %u dims, the most is %d",
                          attrs->n_syms, DT_MAX_RANK);
  DT_TRY(dt__infer_syms(ctx, attrs->n_syms));
  uint32_t open = UINT32_MAX;
  for (uint32_t k = 0; k < attrs->n_syms && !ctx->check_only; k++) {
    int64_t value = 0;
    if (!dt__sym_is_const(ctx->env, attrs->syms[k], &value) || value != -1)
      continue;
    if (open != UINT32_MAX)
      return dt__infer_fail(ctx, DT_E_ARGUMENT, "only one size may be -1, dims %u and %u are", open,
                            k);
    open = k;
  }
  for (uint32_t k = 0; k < attrs->n_syms; k++) {
    if (k == open)
      continue;
    DT_TRY(dt__infer_natural(ctx, attrs->syms[k], size_follows, k));
    DT_TRY(dt__infer_size(ctx, attrs->syms[k], "the size", k));
  }
  if (open != UINT32_MAX)
    DT_TRY(solve_open_size(ctx, open));
  dt_sym_t have = product_of(ctx->env, in->rank, in->sizes);
  dt_sym_t want = product_of(ctx->env, attrs->n_syms, attrs->syms);
  dt_sym_t cond = dt__sym_eq(ctx->env, have, want);
  if (!dt__infer_holds(ctx, cond)) {
    dt_text_t message;
    dt__text_init(&message);
    dt__text_put(&message, "the number of elements must stay the same: ");
    dt__sym_print(ctx->env, have, &message);
    dt__text_put(&message, " (of ");
    dt__print_name(ctx->graph, ctx->inputs[0], &message);
    dt__text_put(&message, " ");
    dt__print_sizes(ctx->env, in->rank, in->sizes, &message);
    dt__text_put(&message, "), asked for ");
    dt__sym_print(ctx->env, want, &message);
    dt__text_put(&message, " ");
    dt__print_sizes(ctx->env, attrs->n_syms, attrs->syms, &message);
    DT_TRY(dt__infer_demand(ctx, cond, "the number of elements stays the same", &message));
  }
  ctx->rank = attrs->n_syms;
  for (uint32_t k = 0; k < ctx->rank; k++)
    ctx->sizes[k] = attrs->syms[k];
  return NULL;
}

// ---- Permute ------------------------------------------------------------------------------------
dt_status_t dt__shape_rule_permute(dt_infer_t *ctx) {
  const dt_node_t *in = dt__infer_in(ctx, 0);
  if (ctx->attrs->n_axes != in->rank)
    return dt__infer_fail(ctx, DT_E_ARGUMENT, "all %u dims must be named, got %u", in->rank,
                          ctx->attrs->n_axes);
  uint32_t seen = 0;
  ctx->rank = in->rank;
  for (uint32_t k = 0; k < in->rank; k++) {
    int32_t axis = ctx->attrs->axes[k];
    if (axis < 0 || (uint32_t)axis >= in->rank)
      return dt__infer_fail(ctx, DT_E_ARGUMENT, "axis %d is not in [0, %u)", axis, in->rank);
    if (seen & (1u << axis))
      return dt__infer_fail(ctx, DT_E_ARGUMENT, "axis %d is named twice", axis);
    seen |= 1u << axis;
    ctx->sizes[k] = in->sizes[axis];
  }
  return NULL;
}

// ---- Expand -------------------------------------------------------------------------------------
// Whether the sizes at hand are those of a repeated dim, or data will say, so that the variant
// should admit both cases.
static bool may_repeat(const dt_symenv_t *env, dt_sym_t in, dt_sym_t out) {
  int64_t in_hint = 0, out_hint = 0;
  uint32_t newest = 0;
  if (dt__sym_newest_unbacked(env, in, &newest) || dt__sym_newest_unbacked(env, out, &newest))
    return true;
  return dt__sym_hint(env, in, &in_hint) && dt__sym_hint(env, out, &out_hint) && in_hint == 1;
}

static dt_status_t expand_dim(const dt_infer_t *ctx, uint32_t dim) {
  const dt_node_t *in = dt__infer_in(ctx, 0);
  dt_sym_t from = in->sizes[dim], to = ctx->attrs->syms[dim];
  if (dt__sym_known_eq(ctx->env, from, to))
    return NULL;
  DT_TRY(dt__infer_size(ctx, to, "the size", dim));
  dt_sym_t one = dt__sym_const(ctx->env, 1);
  if (dt__sym_known_eq(ctx->env, from, one))
    return NULL;
  dt_sym_t either = dt__infer_repeats(ctx->env, from, to);
  if (dt__infer_holds(ctx, either))
    return NULL;
  dt_sym_t equal = dt__sym_eq(ctx->env, from, to);
  dt_sym_t cond = may_repeat(ctx->env, from, to) && dt__sym_known(ctx->env, either) != DT_FALSE
                      ? either
                      : equal;
  dt_text_t message;
  dt__text_init(&message);
  dt__text_printf(&message, "dim %u must have size 1 or be kept: expected ", dim);
  dt__sym_print(ctx->env, from, &message);
  dt__text_put(&message, " (of ");
  dt__print_name(ctx->graph, ctx->inputs[0], &message);
  dt__text_put(&message, " ");
  dt__print_sizes(ctx->env, in->rank, in->sizes, &message);
  dt__text_put(&message, "), asked for ");
  dt__sym_print(ctx->env, to, &message);
  return dt__infer_demand(ctx, cond, "a dim has size 1 or is kept", &message);
}

dt_status_t dt__shape_rule_expand(dt_infer_t *ctx) {
  const dt_node_t *in = dt__infer_in(ctx, 0);
  if (ctx->attrs->n_syms != in->rank)
    return dt__infer_fail(ctx, DT_E_SHAPE,
                          "the rank stays the same (%u), %u sizes given; use "
                          "reshape to add dims",
                          in->rank, ctx->attrs->n_syms);
  DT_TRY(dt__infer_syms(ctx, in->rank));
  ctx->rank = in->rank;
  for (uint32_t dim = 0; dim < in->rank; dim++) {
    DT_TRY(expand_dim(ctx, dim));
    ctx->sizes[dim] = ctx->attrs->syms[dim];
  }
  return NULL;
}

// ---- Slice --------------------------------------------------------------------------------------
// `inside` must hold unless nothing is taken.
static dt_status_t slice_bound(const dt_infer_t *ctx, uint32_t dim, dt_sym_t size, dt_sym_t inside,
                               const char *end) {
  dt_symenv_t *env = ctx->env;
  if (dt__infer_holds(ctx, inside))
    return NULL;
  dt_sym_t zero = dt__sym_const(env, 0);
  dt_sym_t cond = inside;
  if (!dt__sym_known_true(env, dt__sym_lt(env, zero, size)))
    cond = dt__sym_or(env, dt__sym_eq(env, size, zero), inside);
  return dt__infer_need(ctx, cond, "a slice lies inside",
                        "the %s element taken from dim %u lies "
                        "outside",
                        end, dim);
}

dt_status_t dt__shape_rule_slice(dt_infer_t *ctx) {
  const dt_node_t *in = dt__infer_in(ctx, 0);
  dt_symenv_t *env = ctx->env;
  DT_TRY(dt__infer_syms(ctx, 2 * in->rank));
  dt_sym_t zero = dt__sym_const(env, 0);
  ctx->rank = in->rank;
  for (uint32_t dim = 0; dim < in->rank; dim++) {
    dt_sym_t start = ctx->attrs->syms[2 * dim], size = ctx->attrs->syms[2 * dim + 1];
    int64_t step = ctx->attrs->ints[dim];
    if (step == 0)
      return dt__infer_fail(ctx, DT_E_ARGUMENT, "the step of dim %u is 0", dim);
    DT_TRY(dt__infer_size(ctx, size, "the size", dim));
    ctx->sizes[dim] = size;
    if (dt__sym_known_eq(env, size, zero))
      continue;
    dt_sym_t last = dt__sym_sub(env, size, dt__sym_const(env, 1));
    last = dt__sym_add(env, start, dt__sym_mul(env, last, dt__sym_const(env, step)));
    // At least one element is taken, so the lower of first and last is the first for positive
    // steps.
    DT_TRY(slice_bound(ctx, dim, size, dt__sym_le(env, zero, step > 0 ? start : last),
                       step > 0 ? "first" : "last"));
    DT_TRY(slice_bound(ctx, dim, size, dt__sym_lt(env, step > 0 ? last : start, in->sizes[dim]),
                       step > 0 ? "last" : "first"));
  }
  return NULL;
}

// ---- Pad, concat --------------------------------------------------------------------------------
dt_status_t dt__shape_rule_pad(dt_infer_t *ctx) {
  const dt_node_t *in = dt__infer_in(ctx, 0);
  DT_TRY(dt__infer_syms(ctx, 2 * in->rank));
  DT_TRY(dt__infer_value(ctx, ctx->dtype));
  ctx->rank = in->rank;
  for (uint32_t dim = 0; dim < in->rank; dim++) {
    dt_sym_t low = ctx->attrs->syms[2 * dim], high = ctx->attrs->syms[2 * dim + 1];
    DT_TRY(dt__infer_size(ctx, low, "the padding before", dim));
    DT_TRY(dt__infer_size(ctx, high, "the padding after", dim));
    ctx->sizes[dim] = dt__sym_add(ctx->env, dt__sym_add(ctx->env, in->sizes[dim], low), high);
  }
  return NULL;
}

dt_status_t dt__shape_rule_concat(dt_infer_t *ctx) {
  const dt_node_t *first = dt__infer_in(ctx, 0);
  DT_TRY(dt__infer_axis(ctx, first->rank));
  uint32_t axis = (uint32_t)ctx->attrs->axes[0];
  ctx->rank = first->rank;
  for (uint32_t dim = 0; dim < first->rank; dim++)
    ctx->sizes[dim] = first->sizes[dim];
  for (uint32_t k = 1; k < ctx->n_inputs; k++) {
    const dt_node_t *in = dt__infer_in(ctx, k);
    if (in->rank != first->rank)
      return dt__infer_fail(ctx, DT_E_SHAPE,
                            "argument 0 has rank %u, argument %u has %u; use "
                            "reshape",
                            first->rank, k, in->rank);
    for (uint32_t dim = 0; dim < first->rank; dim++) {
      if (dim != axis)
        DT_TRY(dt__infer_equal(ctx, 0, dim, k, dim, "only the joined dim may differ"));
    }
    ctx->sizes[axis] = dt__sym_add(ctx->env, ctx->sizes[axis], in->sizes[axis]);
  }
  return NULL;
}
