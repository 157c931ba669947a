// SPDX-License-Identifier: Apache-2.0
// Element-wise operators.
#include "frontends/onnx/import/compute.h"

#include "runtime/base/dtype.h"

#include <float.h>

#define UNARY(op, build)                                                                           \
  void dt__imp_make_##op(dt_imp_node_t *n) { dt__imp_out(n, 0, build(n->t, dt__imp_in(n, 0))); }
#define BINARY(op, build)                                                                          \
  void dt__imp_make_##op(dt_imp_node_t *n) {                                                       \
    dt__imp_out(n, 0, build(n->t, dt__imp_in(n, 0), dt__imp_in(n, 1)));                            \
  }
UNARY(Abs, dt_abs)
UNARY(Acos, dt_acos)
UNARY(Acosh, dt_acosh)
UNARY(Asin, dt_asin)
UNARY(Asinh, dt_asinh)
UNARY(Atan, dt_atan)
UNARY(Atanh, dt_atanh)
UNARY(BitwiseNot, dt_bit_not)
UNARY(Ceil, dt_ceil)
UNARY(Cos, dt_cos)
UNARY(Cosh, dt_cosh)
UNARY(Erf, dt_erf)
UNARY(Exp, dt_exp)
UNARY(Floor, dt_floor)
UNARY(IsNaN, dt_isnan)
UNARY(Log, dt_log)
UNARY(Neg, dt_neg)
UNARY(Not, dt_logical_not)
UNARY(Reciprocal, dt_reciprocal)
UNARY(Round, dt_round)
UNARY(Sign, dt_sign)
UNARY(Sin, dt_sin)
UNARY(Sinh, dt_sinh)
UNARY(Sqrt, dt_sqrt)
UNARY(Tan, dt_tan)
UNARY(Tanh, dt_tanh)
BINARY(Add, dt_add)
BINARY(And, dt_logical_and)
BINARY(BitwiseAnd, dt_bit_and)
BINARY(BitwiseOr, dt_bit_or)
BINARY(BitwiseXor, dt_bit_xor)
BINARY(Div, dt_div)
BINARY(Equal, dt_eq)
BINARY(Greater, dt_gt)
BINARY(GreaterOrEqual, dt_ge)
BINARY(Less, dt_lt)
BINARY(LessOrEqual, dt_le)
BINARY(Mul, dt_mul)
BINARY(Or, dt_logical_or)
BINARY(Sub, dt_sub)
BINARY(Xor, dt_logical_xor)
#undef UNARY
#undef BINARY

void dt__imp_make_Where(dt_imp_node_t *n) {
  dt__imp_out(n, 0, dt_where(n->t, dt__imp_in(n, 0), dt__imp_in(n, 1), dt__imp_in(n, 2)));
}

// Which infinities count.
void dt__imp_make_IsInf(dt_imp_node_t *n) {
  bool low = dt__imp_int(n, "detect_negative", 1) != 0;
  bool high = dt__imp_int(n, "detect_positive", 1) != 0;
  dt_value_t x = dt__imp_in(n, 0), found = dt_isinf(n->t, x), zero = dt__imp_like(n, x, 0);
  if (!low)
    found = dt_logical_and(n->t, found, dt_gt(n->t, x, zero));
  if (!high)
    found = dt_logical_and(n->t, found, dt_lt(n->t, x, zero));
  dt__imp_out(n, 0, found);
}

void dt__imp_make_BitShift(dt_imp_node_t *n) {
  dt_value_t x = dt__imp_in(n, 0), by = dt__imp_in(n, 1);
  bool left = dt__imp_str_is(n, "direction", "", "LEFT");
  dt__imp_out(n, 0, left ? dt_shift_left(n->t, x, by) : dt_shift_right(n->t, x, by));
}

const char *dt__imp_check_BitShift(dt_imp_node_t *n) {
  return dt__imp_str_is(n, "direction", "", "LEFT") || dt__imp_str_is(n, "direction", "", "RIGHT")
             ? NULL
             : "attribute \"direction\" is neither \"LEFT\" nor \"RIGHT\"";
}

// ---- Remainders, powers -----------------------------------------------------------------------------
// Attribute `fmod`: the dividend's sign. Floats have no other remainder before operator set 28.
void dt__imp_make_Mod(dt_imp_node_t *n) {
  dt_value_t a = dt__imp_in(n, 0), b = dt__imp_in(n, 1);
  bool only = n->opset < 28 && dt__imp_is_float(dt__imp_dtype(n, 0));
  bool by_dividend = dt__imp_int(n, "fmod", 0) != 0 || only;
  dt__imp_out(n, 0, by_dividend ? dt_fmod(n->t, a, b) : dt_mod(n->t, a, b));
}

// The result is of the base's dtype.
void dt__imp_make_Pow(dt_imp_node_t *n) {
  dt_dtype_t base = dt__imp_dtype(n, 0), exponent = dt__imp_dtype(n, 1);
  bool exact = !dt__imp_is_float(base) && dt__imp_is_float(exponent);
  dt_value_t a = dt__imp_in(n, 0), b = dt__imp_in(n, 1);
  dt_dtype_t in = exact ? DT_F64 : base;
  if (base != in)
    a = dt_cast(n->t, a, in);
  if (exponent != in)
    b = dt_cast(n->t, b, in);
  dt__imp_out_as(n, 0, dt_pow(n->t, a, b), base);
}

// ---- Any number of operands -------------------------------------------------------------------------
typedef dt_value_t (*pair_fn_t)(dt_trace_t *t, dt_value_t a, dt_value_t b);

static dt_value_t joined(dt_imp_node_t *n, pair_fn_t pair, bool wide) {
  dt_value_t made = wide ? dt__imp_in_wide(n, 0) : dt__imp_in(n, 0);
  for (uint32_t k = 1; k < dt__imp_n_in(n); k++)
    made = pair(n->t, made, wide ? dt__imp_in_wide(n, k) : dt__imp_in(n, k));
  return made;
}

void dt__imp_make_Max(dt_imp_node_t *n) { dt__imp_out(n, 0, joined(n, dt_maximum, false)); }
void dt__imp_make_Min(dt_imp_node_t *n) { dt__imp_out(n, 0, joined(n, dt_minimum, false)); }

void dt__imp_make_Sum(dt_imp_node_t *n) {
  dt__imp_out_as(n, 0, joined(n, dt_add, true), dt__imp_dtype(n, 0));
}

void dt__imp_make_Mean(dt_imp_node_t *n) {
  dt_value_t sum = joined(n, dt_add, true);
  dt_value_t mean = dt_div(n->t, sum, dt__imp_like(n, sum, dt__imp_n_in(n)));
  dt__imp_out_as(n, 0, mean, dt__imp_dtype(n, 0));
}

// ---- Clip -------------------------------------------------------------------------------------------
static void clip(dt_imp_node_t *n, const dt_value_t *low, const dt_value_t *high) {
  dt_value_t x = dt__imp_in(n, 0);
  if (low)
    x = dt_maximum(n->t, x, *low);
  if (high)
    x = dt_minimum(n->t, x, *high);
  dt__imp_out(n, 0, x);
}

void dt__imp_make_Clip(dt_imp_node_t *n) {
  dt_value_t low = {0}, high = {0};
  if (dt__imp_has(n, 1))
    low = dt__imp_scalar(n, dt__imp_in(n, 1));
  if (dt__imp_has(n, 2))
    high = dt__imp_scalar(n, dt__imp_in(n, 2));
  clip(n, dt__imp_has(n, 1) ? &low : NULL, dt__imp_has(n, 2) ? &high : NULL);
}

void dt__imp_make_Clip_attr(dt_imp_node_t *n) {
  dt_value_t x = dt__imp_in(n, 0);
  bool has_low = dt__imp_has_attr(n, "min"), has_high = dt__imp_has_attr(n, "max");
  dt_value_t low = dt__imp_like(n, x, dt__imp_float(n, "min", -(double)FLT_MAX));
  dt_value_t high = dt__imp_like(n, x, dt__imp_float(n, "max", (double)FLT_MAX));
  clip(n, has_low ? &low : NULL, has_high ? &high : NULL);
}

// ---- Casts ------------------------------------------------------------------------------------------
const char *dt__imp_check_Cast(dt_imp_node_t *n) {
  return dt__imp_attr_dtype(n, "to", DT_DTYPE_NONE) == DT_DTYPE_NONE
             ? "a cast to an element type that is not supported"
             : NULL;
}

uint32_t dt__imp_cast_how(dt_imp_node_t *n) {
  uint32_t how = dt__imp_int(n, "saturate", 1) ? 0 : DT_CAST_OVERFLOW;
  if (dt__imp_str_is(n, "round_mode", "up", "down"))
    return how | DT_CAST_DOWN;
  return dt__imp_str_is(n, "round_mode", "up", "nearest") ? how | DT_CAST_NEAREST : how;
}

// ONNX's data have of floats that integers of 4 and 2 bits do not hold the lowest bits.
static void cast_to(dt_imp_node_t *n, dt_dtype_t to) {
  dt_value_t x = dt__imp_in(n, 0);
  bool narrow = dt__dtype_is_packed(to) && !dt__dtype_is_float(to);
  if (narrow && dt__imp_is_float(dt__imp_dtype(n, 0)))
    x = dt_cast(n->t, x, DT_I32);
  dt__imp_out(n, 0, dt_cast_as(n->t, x, to, dt__imp_cast_how(n)));
}

void dt__imp_make_Cast(dt_imp_node_t *n) { cast_to(n, dt__imp_attr_dtype(n, "to", DT_F32)); }

void dt__imp_make_CastLike(dt_imp_node_t *n) { cast_to(n, dt__imp_dtype(n, 1)); }

// A bool as a byte is its number.
void dt__imp_make_BitCast(dt_imp_node_t *n) {
  dt_dtype_t from = dt__imp_dtype(n, 0), to = dt__imp_attr_dtype(n, "to", DT_F32);
  if (dt_dtype_bits(from) != dt_dtype_bits(to))
    dt__imp_fail(n, DT_E_FORMAT, "%s as %s: the widths differ", dt_dtype_name(from),
                 dt_dtype_name(to));
  else if (from != to && to == DT_BOOL)
    dt__imp_fail(n, DT_E_UNSUPPORTED, "the bits of %s as %s", dt_dtype_name(from),
                 dt_dtype_name(to));
  else if (from == DT_BOOL)
    dt__imp_out(n, 0, dt_bitcast(n->t, dt_cast(n->t, dt__imp_in(n, 0), DT_U8), to));
  else
    dt__imp_out(n, 0, dt_bitcast(n->t, dt__imp_in(n, 0), to));
}
