// SPDX-License-Identifier: Apache-2.0
// The dtype rules of ops.def. There is no promotion: inputs that differ are refused, with advice.
#include "lower/graph/infer.h"
#include "runtime/base/dtype.h"
#include "runtime/base/low.h"
#include "runtime/base/status.h"

// All inputs from `first` on have one dtype; it becomes the result's.
static dt_status_t one_dtype(dt_infer_t *ctx, uint32_t first) {
  ctx->dtype = dt__infer_in(ctx, first)->dtype;
  for (uint32_t k = first + 1; k < ctx->n_inputs; k++) {
    if (dt__infer_in(ctx, k)->dtype != ctx->dtype)
      return dt__infer_fail(
          ctx, DT_E_DTYPE, "argument %u must be %s like argument %u, got %s; use cast", k,
          dt_dtype_name(ctx->dtype), first, dt_dtype_name(dt__infer_in(ctx, k)->dtype));
  }
  return NULL;
}

static dt_status_t expected(dt_infer_t *ctx, uint32_t k, const char *what) {
  return dt__infer_fail(ctx, DT_E_DTYPE, "argument %u must be %s, got %s; use cast", k, what,
                        dt_dtype_name(dt__infer_in(ctx, k)->dtype));
}

dt_status_t dt__dtype_rule_same(dt_infer_t *ctx) { return one_dtype(ctx, 0); }

dt_status_t dt__dtype_rule_float_only(dt_infer_t *ctx) {
  DT_TRY(one_dtype(ctx, 0));
  return dt__dtype_is_float(ctx->dtype) ? NULL : expected(ctx, 0, "a float");
}

dt_status_t dt__dtype_rule_number(dt_infer_t *ctx) {
  DT_TRY(one_dtype(ctx, 0));
  return dt__dtype_is_bool(ctx->dtype) ? expected(ctx, 0, "a number") : NULL;
}

dt_status_t dt__dtype_rule_integer(dt_infer_t *ctx) {
  DT_TRY(one_dtype(ctx, 0));
  bool other = dt__dtype_is_bool(ctx->dtype) || dt__dtype_is_float(ctx->dtype);
  return other ? expected(ctx, 0, "an integer") : NULL;
}

dt_status_t dt__dtype_rule_logic(dt_infer_t *ctx) {
  DT_TRY(one_dtype(ctx, 0));
  return dt__dtype_is_bool(ctx->dtype) ? NULL : expected(ctx, 0, "bool");
}

dt_status_t dt__dtype_rule_compare(dt_infer_t *ctx) {
  DT_TRY(one_dtype(ctx, 0));
  ctx->dtype = DT_BOOL;
  return NULL;
}

dt_status_t dt__dtype_rule_order(dt_infer_t *ctx) {
  DT_TRY(dt__dtype_rule_number(ctx));
  ctx->dtype = DT_BOOL;
  return NULL;
}

dt_status_t dt__dtype_rule_float_test(dt_infer_t *ctx) {
  DT_TRY(dt__dtype_rule_float_only(ctx));
  ctx->dtype = DT_BOOL;
  return NULL;
}

dt_status_t dt__dtype_rule_arg(dt_infer_t *ctx) {
  DT_TRY(dt__dtype_rule_number(ctx));
  ctx->dtype = DT_I64;
  return NULL;
}

dt_status_t dt__dtype_rule_attr(dt_infer_t *ctx) {
  ctx->dtype = ctx->attrs->dtype;
  if (!dt__dtype_is_valid(ctx->dtype))
    return dt__infer_fail(ctx, DT_E_DTYPE, "%d is no dtype", (int)ctx->dtype);
  return NULL;
}

dt_status_t dt__dtype_rule_cast(dt_infer_t *ctx) {
  DT_TRY(dt__dtype_rule_attr(ctx));
  if (ctx->attrs->mode & ~(uint32_t)(DT_CAST_OVERFLOW | DT_CAST_DOWN | DT_CAST_NEAREST) ||
      (ctx->attrs->mode & DT_CAST_DOWN && ctx->attrs->mode & DT_CAST_NEAREST))
    return dt__infer_fail(ctx, DT_E_ARGUMENT,
                          "how: %u is no way to round; expected DT_CAST_* joined",
                          ctx->attrs->mode);
  ctx->attrs->mode = dt__low_how(ctx->dtype, ctx->attrs->mode);
  return NULL;
}

dt_status_t dt__dtype_rule_bits(dt_infer_t *ctx) {
  DT_TRY(dt__dtype_rule_attr(ctx));
  dt_dtype_t from = dt__infer_in(ctx, 0)->dtype, to = ctx->dtype;
  bool packed =
      (dt__dtype_is_packed(from) && to == DT_U8) || (dt__dtype_is_packed(to) && from == DT_U8);
  if (dt__dtype_is_bool(from) || dt__dtype_is_bool(to))
    return dt__infer_fail(ctx, DT_E_DTYPE, "%s as %s: a bool has no bits to take; use cast",
                          dt_dtype_name(from), dt_dtype_name(to));
  if (dt_dtype_bits(from) != dt_dtype_bits(to) && !packed)
    return dt__infer_fail(
        ctx, DT_E_DTYPE,
        "%s as %s: expected a dtype of the same width, or u8 for elements of less "
        "than a byte",
        dt_dtype_name(from), dt_dtype_name(to));
  return NULL;
}

dt_status_t dt__dtype_rule_iota(dt_infer_t *ctx) {
  DT_TRY(dt__dtype_rule_attr(ctx));
  if (dt__dtype_is_bool(ctx->dtype))
    return dt__infer_fail(ctx, DT_E_DTYPE, "the result must be a number, not bool");
  return NULL;
}

dt_status_t dt__dtype_rule_where(dt_infer_t *ctx) {
  if (!dt__dtype_is_bool(dt__infer_in(ctx, 0)->dtype))
    return expected(ctx, 0, "bool");
  return one_dtype(ctx, 1);
}

dt_status_t dt__dtype_rule_gather(dt_infer_t *ctx) {
  dt_dtype_t index = dt__infer_in(ctx, 1)->dtype;
  if (index != DT_I32 && index != DT_I64)
    return expected(ctx, 1, "i32 or i64");
  ctx->dtype = dt__infer_in(ctx, 0)->dtype;
  return NULL;
}

dt_status_t dt__dtype_rule_scatter(dt_infer_t *ctx) {
  DT_TRY(dt__dtype_rule_gather(ctx));
  if (dt__infer_in(ctx, 2)->dtype != ctx->dtype)
    return expected(ctx, 2, dt_dtype_name(ctx->dtype));
  if (ctx->attrs->mode % DT_JOIN_APART != DT_JOIN_REPLACE && dt__dtype_is_bool(ctx->dtype))
    return expected(ctx, 0, "a number");
  if (ctx->attrs->mode % DT_JOIN_APART != DT_JOIN_REPLACE && dt__dtype_is_low(ctx->dtype))
    return expected(ctx, 0, "a dtype that is computed with, where updates are joined");
  return NULL;
}

dt_status_t dt__dtype_rule_index(dt_infer_t *ctx) {
  ctx->dtype = DT_I64;
  return NULL;
}

dt_status_t dt__dtype_rule_item(dt_infer_t *ctx) {
  if (dt__dtype_is_float(dt__infer_in(ctx, 0)->dtype))
    return expected(ctx, 0, "an integer or bool");
  ctx->dtype = DT_I64;
  return NULL;
}

dt_status_t dt__dtype_rule_search(dt_infer_t *ctx) {
  DT_TRY(dt__dtype_rule_number(ctx));
  ctx->dtype = DT_I64;
  return NULL;
}

dt_status_t dt__dtype_rule_compress(dt_infer_t *ctx) {
  if (ctx->n_inputs < 3)
    return dt__infer_fail(ctx, DT_E_ARGUMENT, "a mask, places and at least one value are needed");
  if (!dt__dtype_is_bool(dt__infer_in(ctx, 0)->dtype))
    return expected(ctx, 0, "bool");
  if (dt__infer_in(ctx, 1)->dtype != DT_I64)
    return expected(ctx, 1, "i64");
  return one_dtype(ctx, 2);
}

dt_status_t dt__dtype_rule_select(dt_infer_t *ctx) {
  if (!dt__dtype_is_bool(dt__infer_in(ctx, 1)->dtype))
    return expected(ctx, 1, "bool");
  ctx->dtype = dt__infer_in(ctx, 0)->dtype;
  return NULL;
}

dt_status_t dt__dtype_rule_input(dt_infer_t *ctx) {
  if (ctx->attrs->index >= ctx->graph->inputs.len)
    return dt__infer_fail(ctx, DT_E_ARGUMENT, "there is no input %u, the graph has %u",
                          ctx->attrs->index, ctx->graph->inputs.len);
  ctx->dtype = ctx->graph->inputs.items[ctx->attrs->index].dtype;
  return NULL;
}

dt_status_t dt__dtype_rule_constant(dt_infer_t *ctx) {
  if (ctx->attrs->index >= ctx->graph->constants.len)
    return dt__infer_fail(ctx, DT_E_ARGUMENT, "there is no constant %u, the graph has %u",
                          ctx->attrs->index, ctx->graph->constants.len);
  ctx->dtype = ctx->graph->constants.items[ctx->attrs->index].dtype;
  return NULL;
}

dt_status_t dt__dtype_rule_control(dt_infer_t *ctx) {
  ctx->dtype = DT_BOOL;
  return NULL;
}

dt_status_t dt__dtype_rule_result(dt_infer_t *ctx) {
  dt_infer_output_t output;
  DT_TRY(dt__infer_output(ctx, &output));
  ctx->dtype = output.dtype;
  return NULL;
}
