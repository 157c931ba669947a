// SPDX-License-Identifier: Apache-2.0
// Logarithms and the inverse hyperbolic functions made of them.
//
// x = m 2^e with m in [2/3, 4/3), so that e is 0 around 1 and log(1 + f), f = m - 1, keeps its
// relative accuracy there. Float takes a polynomial of f; double, s = f / (2 + f) and
// log(1 + f) = log((1 + s) / (1 - s)), whose series in s^2 is half as long.
#include "backend_llvm/emit/math_build.h"
#include "backend_llvm/emit/math_coef.h"

static const double LN2_HIGH[2] = {0x1.62e4p-1, 0x1.62e42feep-1};
static const double LN2_LOW[2] = {0x1.7f7d1cp-20, 0x1.a39ef35793c76p-33};

dt_val_t dt__math_log_split(const dt_math_build_t *b, dt_val_t x, dt_val_t *out_e) {
  int64_t two_thirds = b->wide ? 0x3fe5555555555555 : 0x3f2aaaab;
  double up = b->wide ? 0x1p54 : 0x1p24;
  dt_val_t small = f_is(b, LLVMRealOLT, x, b->wide ? 0x1p-1022 : 0x1p-126);
  dt_val_t scaled = f_sel(b, small, f_mul(b, x, dt__math_f(b, up)), x);
  dt_val_t bits = to_bits(b, scaled);
  dt_val_t e = i_sar(b, i_sub(b, bits, dt__math_i(b, two_thirds)), b->mantissa);
  dt_val_t m = from_bits(b, i_sub(b, bits, i_shl(b, e, b->mantissa)));
  dt_val_t offset = f_sel(b, small, dt__math_f(b, b->wide ? -54 : -24), dt__math_f(b, 0.0));
  *out_e = f_add(b, LLVMBuildSIToFP(b->at, e, b->fp, ""), offset);
  return m;
}

// log(1 + f) = f - tail: the tail for |f| <= 1/3.
static dt_val_t log_tail(const dt_math_build_t *b, dt_val_t f) {
  if (!b->wide)
    return f_neg(b, f_mul(b, f_mul(b, f, f), dt__math_poly(b, f, dt__math_log_f32, 9)));
  // log(1 + f) = 2s + s z A(z), and 2s = f - s f.
  dt_val_t s = f_div(b, f, f_add(b, f, dt__math_f(b, 2.0)));
  dt_val_t z = f_mul(b, s, s);
  dt_val_t za = f_mul(b, z, dt__math_poly(b, z, dt__math_atanh_f64, 8));
  return f_mul(b, s, f_sub(b, f, za));
}

// e ln2 + log(1 + f).
static dt_val_t log_join(const dt_math_build_t *b, dt_val_t f, dt_val_t e) {
  dt_val_t low = f_sub(b, f_mul(b, e, dt__math_f(b, LN2_LOW[b->wide])), log_tail(b, f));
  return dt__math_fma(b, e, dt__math_f(b, LN2_HIGH[b->wide]), f_add(b, f, low));
}

// What a logarithm of u answers outside of 0 < u < inf, where it is `y`: -inf at either zero, NaN
// below, u itself for inf and NaN.
static dt_val_t log_specials(const dt_math_build_t *b, dt_val_t u, dt_val_t y) {
  double inf = __builtin_inf();
  dt_val_t nan = dt__math_f(b, __builtin_nan(""));
  dt_val_t low = f_sel(b, f_is(b, LLVMRealOEQ, u, 0.0), dt__math_f(b, -inf), nan);
  y = f_sel(b, f_is(b, LLVMRealOLT, u, inf), y, u);
  return f_sel(b, f_is(b, LLVMRealOLE, u, 0.0), low, y);
}

dt_val_t dt__math_log(const dt_math_build_t *b, dt_val_t x) {
  dt_val_t e;
  dt_val_t f = f_sub(b, dt__math_log_split(b, x, &e), dt__math_f(b, 1.0));
  return log_specials(b, x, log_join(b, f, e));
}

// e + (high + low) log2(e) with log(1 + f) as an unevaluated sum, because rounding it first would
// cost a whole unit.
static dt_val_t log2_join_f64(const dt_math_build_t *b, dt_val_t f, dt_val_t e) {
  const double log2e = 0x1.71547652b82fep0, log2e_low = 0x1.777d0ffda0d24p-56;
  dt_val_t tail = log_tail(b, f);
  dt_val_t high = f_sub(b, f, tail);
  dt_val_t low = f_sub(b, f_sub(b, f, high), tail);
  dt_val_t y = f_mul(b, high, dt__math_f(b, log2e));
  dt_val_t rest = f_fms(b, high, dt__math_f(b, log2e), y);
  rest = dt__math_fma(b, high, dt__math_f(b, log2e_low), rest);
  rest = dt__math_fma(b, low, dt__math_f(b, log2e), rest);
  // |e| is 0 or above |y|: the error of their sum comes out exactly.
  dt_val_t sum = f_add(b, e, y);
  rest = f_add(b, rest, f_sub(b, y, f_sub(b, sum, e)));
  return f_add(b, sum, rest);
}

dt_val_t dt__math_log2(const dt_math_build_t *b, dt_val_t x) {
  dt_val_t e, y;
  dt_val_t f = f_sub(b, dt__math_log_split(b, x, &e), dt__math_f(b, 1.0));
  if (b->wide)
    y = log2_join_f64(b, f, e);
  else
    y = dt__math_fma(b, f, dt__math_poly(b, f, dt__math_log2_f32, 10), e);
  return log_specials(b, x, y);
}

// With u the rounded 1 + x and c what the rounding lost, 1 + x = 2^e (m + c 2^-e).
dt_val_t dt__math_log1p(const dt_math_build_t *b, dt_val_t x) {
  dt_val_t one = dt__math_f(b, 1.0);
  dt_val_t u = f_add(b, x, one);
  dt_val_t x_in_u = f_sub(b, u, one);
  dt_val_t c = f_add(b, f_sub(b, one, f_sub(b, u, x_in_u)), f_sub(b, x, x_in_u));
  dt_val_t e;
  dt_val_t m = dt__math_log_split(b, u, &e);
  // 2^-e; for e at the top of the range c is negligible and 0 will do.
  dt_val_t field = i_sub(b, dt__math_i(b, b->bias), LLVMBuildFPToSI(b->at, e, b->bits, ""));
  dt_val_t zero = dt__math_i(b, 0);
  field = f_sel(b, LLVMBuildICmp(b->at, LLVMIntSLT, field, zero, ""), zero, field);
  dt_val_t scale = from_bits(b, i_shl(b, field, b->mantissa));
  dt_val_t f = dt__math_fma(b, c, scale, f_sub(b, m, one));
  dt_val_t y = log_specials(b, u, log_join(b, f, e));
  return f_sel(b, f_is(b, LLVMRealOEQ, x, 0.0), x, y);
}

// log1p(a + a^2 / (1 + sqrt(1 + a^2))); from 2^500 on, log1p(a) + ln2.
dt_val_t dt__math_asinh(const dt_math_build_t *b, dt_val_t x) {
  if (!b->wide)
    return dt__math_through_double(b, x, dt__math_asinh);
  dt_val_t one = dt__math_f(b, 1.0);
  dt_val_t a = f_abs(b, x);
  dt_val_t huge = f_is(b, LLVMRealOGE, a, 0x1p500);
  dt_val_t z = f_mul(b, a, a);
  dt_val_t root = f_sqrt(b, dt__math_fma(b, a, a, one));
  dt_val_t arg = f_add(b, a, f_div(b, z, f_add(b, root, one)));
  dt_val_t y = dt__math_log1p(b, f_sel(b, huge, a, arg));
  y = f_sel(b, huge, f_add(b, y, dt__math_f(b, 0x1.62e42fefa39efp-1)), y);
  return dt__math_copysign(b, y, x);
}

// log1p(t + sqrt(2t + t^2)) with t = x - 1; from 2^500 on, log1p(x) + ln2.
dt_val_t dt__math_acosh(const dt_math_build_t *b, dt_val_t x) {
  if (!b->wide)
    return dt__math_through_double(b, x, dt__math_acosh);
  dt_val_t huge = f_is(b, LLVMRealOGE, x, 0x1p500);
  dt_val_t t = f_sub(b, x, dt__math_f(b, 1.0));
  dt_val_t root = f_sqrt(b, f_mul(b, t, f_add(b, t, dt__math_f(b, 2.0))));
  dt_val_t y = dt__math_log1p(b, f_sel(b, huge, x, f_add(b, t, root)));
  y = f_sel(b, huge, f_add(b, y, dt__math_f(b, 0x1.62e42fefa39efp-1)), y);
  return f_sel(b, f_is(b, LLVMRealOLT, x, 1.0), dt__math_f(b, __builtin_nan("")), y);
}

// log1p(2a / (1 - a)) / 2; 1 - a is exact from 1/2 on, and below it 2a + 2a^2 / (1 - a) is as good.
dt_val_t dt__math_atanh(const dt_math_build_t *b, dt_val_t x) {
  if (!b->wide)
    return dt__math_through_double(b, x, dt__math_atanh);
  dt_val_t a = f_abs(b, x);
  dt_val_t twice = f_add(b, a, a);
  dt_val_t rest = f_sub(b, dt__math_f(b, 1.0), a);
  dt_val_t low = f_add(b, twice, f_div(b, f_mul(b, twice, a), rest));
  dt_val_t high = f_div(b, twice, rest);
  dt_val_t y = dt__math_log1p(b, f_sel(b, f_is(b, LLVMRealOLT, a, 0.5), low, high));
  // a > 1 gives log1p of something below -2: NaN as it must be.
  y = f_mul(b, y, dt__math_f(b, 0.5));
  y = f_sel(b, f_is(b, LLVMRealOLT, a, 0x1p-28), a, y);
  return dt__math_copysign(b, y, x);
}
