// SPDX-License-Identifier: Apache-2.0
// Inference: the rules of the op's row one after the other, what rules share, and the checks that
// every result passes. How failures read is decided here.
#include "lower/graph/infer.h"
#include "lower/graph/scalar.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#include <stdarg.h>
#include <stdio.h>

// ---- Messages -----------------------------------------------------------------------------------
static void print_inputs(const dt_infer_t *ctx, dt_text_t *out) {
  for (uint32_t k = 0; k < ctx->n_inputs; k++) {
    const dt_node_t *in = dt__infer_in(ctx, k);
    dt__text_put(out, k ? ", " : "; inputs ");
    if (k == 8) {
      dt__text_printf(out, "and %u more", ctx->n_inputs - k);
      return;
    }
    dt__print_name(ctx->graph, ctx->inputs[k], out);
    dt__text_printf(out, " %s", dt_dtype_name(in->dtype));
    dt__print_sizes(ctx->env, in->rank, in->sizes, out);
  }
}

static void put_place(const dt_infer_t *ctx, dt_text_t *out) {
  if (ctx->origin.file && ctx->origin.file[0])
    dt__text_printf(out, "%s:%d: ", ctx->origin.file, ctx->origin.line);
  dt__text_printf(out, "%s: ", ctx->info->name);
}

dt_status_t dt__infer_fail(const dt_infer_t *ctx, dt_code_t code, const char *fmt, ...) {
  char message[512];
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(message, sizeof(message), fmt, args);
  va_end(args);
  dt_text_t text;
  dt__text_init(&text);
  put_place(ctx, &text);
  dt__text_put(&text, message);
  print_inputs(ctx, &text);
  dt_status_t status = DT_FAIL(code, "%s", dt__text_str(&text));
  dt__text_fini(&text);
  return status;
}

// ---- Demands ------------------------------------------------------------------------------------
bool dt__infer_holds(const dt_infer_t *ctx, dt_sym_t cond) {
  if (cond.id == 0)
    return false;
  dt_tri_t known = dt__sym_known(ctx->env, cond);
  return known == DT_TRUE || (ctx->check_only && known != DT_FALSE);
}

dt_status_t dt__infer_demand(const dt_infer_t *ctx, dt_sym_t cond, const char *what,
                             dt_text_t *message) {
  dt_status_t status = NULL;
  dt_text_t text;
  dt__text_init(&text);
  if (cond.id == 0) {
    status = dt__symenv_status(ctx->env);
    if (!status)
      status = DT_FAIL(DT_E_ARGUMENT, "a size is no expression (an earlier operation failed)");
  } else if (dt__infer_holds(ctx, cond)) {
    goto done;
  } else if (dt__sym_known(ctx->env, cond) == DT_FALSE) {
    put_place(ctx, &text);
    dt__text_put(&text, dt__text_str(message));
    status = DT_FAIL(DT_E_SHAPE, "%s", dt__text_str(&text));
    goto done;
  } else {
    status = dt__sym_require(ctx->env, cond, &ctx->origin, what);
  }
  if (status) {
    put_place(ctx, &text);
    dt__text_put(&text, dt__text_str(message));
    status = dt__status_annotate(status, "%s", dt__text_str(&text));
  }
done:
  dt__text_fini(&text);
  dt__text_fini(message);
  return status;
}

dt_status_t dt__infer_need(const dt_infer_t *ctx, dt_sym_t cond, const char *what, const char *fmt,
                           ...) {
  if (dt__infer_holds(ctx, cond))
    return NULL;
  char line[512];
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(line, sizeof(line), fmt, args);
  va_end(args);
  dt_text_t message;
  dt__text_init(&message);
  dt__text_put(&message, line);
  print_inputs(ctx, &message);
  return dt__infer_demand(ctx, cond, what, &message);
}

static void put_size_of(const dt_infer_t *ctx, uint32_t k, uint32_t dim, dt_text_t *out) {
  const dt_node_t *in = dt__infer_in(ctx, k);
  dt__sym_print(ctx->env, in->sizes[dim], out);
  dt__text_put(out, " (of ");
  dt__print_name(ctx->graph, ctx->inputs[k], out);
  dt__text_put(out, " ");
  dt__print_sizes(ctx->env, in->rank, in->sizes, out);
  dt__text_put(out, ")");
}

dt_status_t dt__infer_equal(const dt_infer_t *ctx, uint32_t a, uint32_t da, uint32_t b, uint32_t db,
                            const char *advice) {
  dt_sym_t cond =
      dt__sym_eq(ctx->env, dt__infer_in(ctx, a)->sizes[da], dt__infer_in(ctx, b)->sizes[db]);
  if (dt__infer_holds(ctx, cond))
    return NULL;
  dt_text_t message;
  dt__text_init(&message);
  if (da == db)
    dt__text_printf(&message, "sizes must be equal in dim %u: expected ", da);
  else
    dt__text_printf(&message, "sizes must be equal in dims %u and %u: expected ", da, db);
  put_size_of(ctx, a, da, &message);
  dt__text_put(&message, ", got ");
  put_size_of(ctx, b, db, &message);
  dt__text_printf(&message, "; %s", advice);
  return dt__infer_demand(ctx, cond, "sizes must be equal", &message);
}

dt_status_t dt__infer_same_sizes(const dt_infer_t *ctx) {
  const dt_node_t *first = dt__infer_in(ctx, 0);
  for (uint32_t k = 1; k < ctx->n_inputs; k++) {
    if (dt__infer_in(ctx, k)->rank != first->rank)
      return dt__infer_fail(ctx, DT_E_SHAPE,
                            "arguments must have one rank: argument 0 has %u, argument %u has %u; "
                            "use reshape or broadcast",
                            first->rank, k, dt__infer_in(ctx, k)->rank);
    for (uint32_t dim = 0; dim < first->rank; dim++)
      DT_TRY(dt__infer_equal(ctx, 0, dim, k, dim, "use expand or reshape"));
  }
  return NULL;
}

dt_sym_t dt__infer_repeats(dt_symenv_t *env, dt_sym_t in, dt_sym_t out) {
  return dt__sym_or(env, dt__sym_eq(env, in, out), dt__sym_eq(env, in, dt__sym_const(env, 1)));
}

// ---- Attributes ---------------------------------------------------------------------------------
dt_status_t dt__infer_axes(const dt_infer_t *ctx, uint32_t rank) {
  const dt_attrs_t *attrs = ctx->attrs;
  for (uint32_t k = 0; k < attrs->n_axes; k++) {
    if (attrs->axes[k] < 0 || (uint32_t)attrs->axes[k] >= rank)
      return dt__infer_fail(ctx, DT_E_ARGUMENT, "axis %d is not in [0, %u)", attrs->axes[k], rank);
    if (k > 0 && attrs->axes[k] <= attrs->axes[k - 1])
      return dt__infer_fail(ctx, DT_E_ARGUMENT, "axes must ascend: %d follows %d", attrs->axes[k],
                            attrs->axes[k - 1]);
  }
  return NULL;
}

dt_status_t dt__infer_axis(const dt_infer_t *ctx, uint32_t rank) {
  if (ctx->attrs->n_axes != 1)
    return dt__infer_fail(ctx, DT_E_ARGUMENT, "exactly one axis is needed, %u given",
                          ctx->attrs->n_axes);
  return dt__infer_axes(ctx, rank);
}

dt_status_t dt__infer_syms(const dt_infer_t *ctx, uint32_t n) {
  if (ctx->attrs->n_syms != n)
    return dt__infer_fail(ctx, DT_E_ARGUMENT, "%u sizes are needed, %u given", n,
                          ctx->attrs->n_syms);
  for (uint32_t k = 0; k < n; k++) {
    if (ctx->attrs->syms[k].id != 0)
      continue;
    dt_status_t status = dt__symenv_status(ctx->env);
    if (status)
      return dt__status_annotate(status, "%s: size %u", ctx->info->name, k);
    return dt__infer_fail(ctx, DT_E_ARGUMENT,
                          "size %u is no expression (an earlier operation failed)", k);
  }
  return NULL;
}

dt_status_t dt__infer_natural(const dt_infer_t *ctx, dt_sym_t e, dt_infer_follows_fn_t follows,
                              uint32_t k) {
  dt_sym_t natural = dt__sym_le(ctx->env, dt__sym_const(ctx->env, 0), e);
  if (dt__infer_holds(ctx, natural) || !follows(ctx, e, k))
    return NULL;
  return dt__sym_learn_at(ctx->env, natural, &ctx->origin);
}

// What is a size of an input, or the product of all of them, is not negative: that was seen to when
// the input was made.
static bool is_of_an_input(const dt_infer_t *ctx, dt_sym_t e, uint32_t k) {
  (void)k;
  for (uint32_t i = 0; i < ctx->n_inputs; i++) {
    const dt_node_t *in = dt__infer_in(ctx, i);
    dt_sym_t product = dt__sym_const(ctx->env, 1);
    for (uint32_t d = 0; d < in->rank; d++) {
      if (dt__sym_known_eq(ctx->env, in->sizes[d], e))
        return true;
      product = dt__sym_mul(ctx->env, product, in->sizes[d]);
    }
    if (dt__sym_known_eq(ctx->env, product, e))
      return true;
  }
  return false;
}

// After tracing nothing can be asked: what is not known of sizes then is learned, and the call,
// which looks at every size that it makes, refuses what is otherwise.
static dt_status_t need_of_size(const dt_infer_t *ctx, dt_sym_t cond, const char *what,
                                const char *message, const char *of, uint32_t dim) {
  if (dt__symenv_is_frozen(ctx->env) && cond.id && dt__sym_known(ctx->env, cond) == DT_UNKNOWN)
    return dt__sym_learn_at(ctx->env, cond, &ctx->origin);
  return dt__infer_need(ctx, cond, what, message, of, dim, (long long)DT_SIZE_LIMIT);
}

dt_status_t dt__infer_size(const dt_infer_t *ctx, dt_sym_t e, const char *what, uint32_t dim) {
  dt_symenv_t *env = ctx->env;
  uint32_t symbol = 0;
  DT_TRY(dt__infer_natural(ctx, e, is_of_an_input, 0));
  DT_TRY(need_of_size(ctx, dt__sym_le(env, dt__sym_const(env, 0), e), "sizes are not negative",
                      "%s of dim %u must not be negative", what, dim));
  if (!dt__sym_newest_unbacked(env, e, &symbol))
    return NULL;
  return need_of_size(ctx, dt__sym_lt(env, e, dt__sym_const(env, DT_SIZE_LIMIT)),
                      "sizes are below the limit", "%s of dim %u must be below %lld", what, dim);
}

dt_status_t dt__infer_value(const dt_infer_t *ctx, dt_dtype_t dtype) {
  dt_attrs_t *attrs = ctx->attrs;
  if (dt__dtype_is_float(dtype)) {
    attrs->ints[0] = 0;
    attrs->floats[0] = dt__scalar_cast(DT_F64, dtype, (dt_scalar_t){.f = attrs->floats[0]}).f;
    return NULL;
  }
  attrs->floats[0] = 0.0;
  dt_scalar_t value = {.i = attrs->ints[0]};
  if (dt__scalar_cast(DT_I64, dtype, value).i != value.i)
    return dt__infer_fail(ctx, DT_E_ARGUMENT, "the value %lld does not fit %s", (long long)value.i,
                          dt_dtype_name(dtype));
  return NULL;
}

// ---- The result ---------------------------------------------------------------------------------
// Sizes are expressions, not known to be negative, and neither a dim nor the bytes are known to
// reach the limit. What is not known is checked at run time, where sizes are made. They are kept as
// all that was learned so far simplifies them.
static dt_status_t check_result(dt_infer_t *ctx) {
  int64_t bytes = (int64_t)dt_dtype_size(ctx->dtype); // of packed elements: more than they take
  if (ctx->rank > DT_MAX_RANK)
    return dt__infer_fail(ctx, DT_E_LIMIT, "the result would have %u dims, the most is %d",
                          ctx->rank, DT_MAX_RANK);
  for (uint32_t k = 0; k < ctx->rank; k++) {
    if (ctx->sizes[k].id == 0) {
      DT_TRY(dt__symenv_status(ctx->env));
      return dt__infer_fail(ctx, DT_E_ARGUMENT, "size %u of the result is no expression", k);
    }
    if (!ctx->check_only)
      ctx->sizes[k] = dt__sym_simplify(ctx->env, ctx->sizes[k]);
    dt_range_t range = dt__sym_range(ctx->env, ctx->sizes[k]);
    if (range.hi < 0)
      return dt__infer_fail(ctx, DT_E_SHAPE, "size %u of the result is negative (at most %lld)", k,
                            (long long)range.hi);
    int64_t least = range.lo < 0 ? 0 : range.lo;
    if (least >= DT_SIZE_LIMIT)
      return dt__infer_fail(ctx, DT_E_LIMIT, "size %u of the result is at least %lld, limit %lld",
                            k, (long long)least, (long long)DT_SIZE_LIMIT);
    if (!dt__mul_i64(bytes, least, &bytes))
      bytes = INT64_MAX;
    // A later zero makes the product zero again, so overflow only counts where no size may be zero.
  }
  if (bytes >= DT_SIZE_LIMIT)
    return dt__infer_fail(ctx, DT_E_LIMIT, "the result has at least %lld bytes, limit %lld",
                          (long long)bytes, (long long)DT_SIZE_LIMIT);
  return NULL;
}

// Low-bit dtypes are moved and cast: what computes, compares or makes literals refuses them.
static dt_status_t check_low_inputs(const dt_infer_t *ctx) {
  if (ctx->info->moves)
    return NULL;
  for (uint32_t k = 0; k < ctx->n_inputs; k++) {
    dt_dtype_t dtype = dt__infer_in(ctx, k)->dtype;
    if (dt__dtype_is_low(dtype))
      return dt__infer_fail(ctx, DT_E_DTYPE,
                            "argument %u is %s, a dtype for storage that this op does not compute "
                            "with; dt_cast it to %s first",
                            k, dt_dtype_name(dtype),
                            dt__dtype_is_float(dtype) ? "f32" : "i8 or i32");
  }
  return NULL;
}

static dt_status_t check_low_result(const dt_infer_t *ctx) {
  if (ctx->info->moves || !dt__dtype_is_low(ctx->dtype))
    return NULL;
  return dt__infer_fail(
      ctx, DT_E_DTYPE, "the result would be %s, a dtype for storage; make it in %s and dt_cast it",
      dt_dtype_name(ctx->dtype), dt__dtype_is_float(ctx->dtype) ? "f32" : "i8 or i32");
}

dt_status_t dt__infer(dt_infer_t *ctx) {
  DT_TRY(check_low_inputs(ctx));
  DT_TRY(ctx->info->infer_dtype(ctx));
  DT_TRY(check_low_result(ctx));
  DT_TRY(ctx->info->infer_shape(ctx));
  return check_result(ctx);
}
