// SPDX-License-Identifier: Apache-2.0
// The error function, and the distribution that gelu weighs by.
#include "backend_llvm/emit/math_build.h"
#include "backend_llvm/emit/math_coef.h"

// Up to 1: x + x P(x^2). Above: 1 - Q(x)^4; the fourth root of erfc is so flat that a polynomial
// does, and its error is small beside 1. Neither a division nor an exponential is needed.
static dt_val_t erf_f32(const dt_math_build_t *b, dt_val_t x) {
  dt_val_t a = dt__math_at_most(b, f_abs(b, x), 0x1.f8p1); // erf is 1 from 3.92 on
  dt_val_t z = f_mul(b, a, a);
  dt_val_t small = dt__math_fma(b, a, dt__math_poly(b, z, dt__math_erf_small_f32, 7), a);
  dt_val_t root = dt__math_poly(b, f_sub(b, a, dt__math_f(b, 2.4375)), dt__math_erfc_root_f32, 10);
  dt_val_t square = f_mul(b, root, root);
  dt_val_t big = dt__math_fma(b, f_neg(b, square), square, dt__math_f(b, 1.0));
  return dt__math_copysign(b, f_sel(b, f_is(b, LLVMRealOLT, a, 1.0), small, big), x);
}

// Up to 1: x + x P(x^2). Above: 1 - e^(-x^2) R(q), q = (x - 2.5) / (x + 2.5); rounding x^2 costs
// little there because erfc is small beside 1.
dt_val_t dt__math_erf(const dt_math_build_t *b, dt_val_t x) {
  if (!b->wide)
    return erf_f32(b, x);
  dt_val_t a = dt__math_at_most(b, f_abs(b, x), 6.0);
  dt_val_t z = f_mul(b, a, a);
  dt_val_t small = dt__math_fma(b, a, dt__math_poly(b, z, dt__math_erf_small_f64, 13), a);
  dt_val_t n;
  dt_val_t p = dt__math_exp_reduced(b, f_neg(b, z), b->bias, &n);
  dt_val_t s = from_bits(b, i_shl(b, n, b->mantissa));
  dt_val_t e = dt__math_fma(b, p, s, s);
  dt_val_t q = f_div(b, f_sub(b, a, dt__math_f(b, 2.5)), f_add(b, a, dt__math_f(b, 2.5)));
  dt_val_t tail = f_mul(b, e, dt__math_poly(b, q, dt__math_erfcx_f64, 19));
  dt_val_t big = f_sub(b, dt__math_f(b, 1.0), tail);
  return dt__math_copysign(b, f_sel(b, f_is(b, LLVMRealOLT, a, 1.0), small, big), x);
}

// 2^x for x <= 0, or NaN; below 2^-126 it is 0.
static dt_val_t power_of_two(const dt_math_build_t *b, dt_val_t x) {
  if (b->fast)
    return dt__math_fast_exp2(b, x);
  x = dt__math_at_least(b, x, -127);
  dt_val_t magic = dt__math_f(b, dt__math_magic(b) + (double)b->bias);
  dt_val_t t = f_add(b, x, magic);
  dt_val_t r = f_mul(b, f_sub(b, x, f_sub(b, t, magic)), dt__math_f(b, 0x1.62e430p-1));
  dt_val_t s = from_bits(b, i_shl(b, to_bits(b, t), b->mantissa));
  return dt__math_fma(b, dt__math_exp_poly(b, r), s, s);
}

// The lower tail is 2^P(|x|), one polynomial for all of it, and the other side one minus that: no
// digits are lost in the tail, as they are in 1 + erf. P's first coefficient is negative, so that
// P(infinity) is minus infinity.
LLVMValueRef dt__emit_ndtr(const dt_emit_math_t *m, LLVMValueRef x) {
  dt_math_build_t b;
  dt__math_build_init(&b, m, LLVMTypeOf(x));
  if (b.wide) {
    dt_val_t half = dt__math_f(&b, 0.5);
    dt_val_t e = dt__math_erf(&b, f_mul(&b, x, dt__math_f(&b, 0x1.6a09e667f3bcdp-1)));
    return dt__math_fma(&b, e, half, half);
  }
  dt_val_t tail = power_of_two(&b, dt__math_poly(&b, f_abs(&b, x), dt__math_ndtr_f32, 9));
  return f_sel(&b, f_is(&b, LLVMRealOGT, x, 0.0), f_sub(&b, dt__math_f(&b, 1.0), tail), tail);
}
