// SPDX-License-Identifier: Apache-2.0
// The error function.
#include "backend_llvm/emit/math_build.h"
#include "backend_llvm/emit/math_coef.h"

// erf(x) / x is smooth in x^2; one polynomial over the range in which erf is not yet 1 needs neither
// a division nor an exponential.
static dt_val_t erf_f32(const dt_math_build_t *b, dt_val_t x) {
  const double end = 0x1.f7efbe0000000p+1; // sqrt(15.5) rounded down
  dt_val_t c = dt__math_at_most(b, dt__math_at_least(b, x, -end), end);
  dt_val_t v = dt__math_fma(b, f_mul(b, c, c), dt__math_f(b, (float)(1 / 7.75)),
                            dt__math_f(b, -1.0));
  dt_val_t y = f_mul(b, c, dt__math_poly(b, v, dt__math_erf_f32, 16));
  return dt__math_at_most(b, dt__math_at_least(b, y, -1.0), 1.0);
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
