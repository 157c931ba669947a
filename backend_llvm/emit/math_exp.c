// SPDX-License-Identifier: Apache-2.0
// Exponentials and functions made of them: exp, exp2, expm1, tanh, sigmoid, sinh, cosh.
//
// x = n ln2 + r with |r| <= ln2 / 2, so e^x = 2^n (1 + p) with p = expm1(r), a polynomial. n comes
// from the low bits of x / ln2 + 1.5 * 2^mantissa, where an offset makes it a ready exponent field.
// exp scales by two powers of two of about n / 2 each: both are normal numbers over the whole
// range, and only the last product can overflow or become denormal.
#include "backend_llvm/emit/math_build.h"
#include "backend_llvm/emit/math_coef.h"

typedef struct exp_limits_t {
  double low, high;             // beyond these e^x is 0 and infinity
  double low_base2, high_base2; // the same for 2^x
  double low_minus1;            // below this e^x - 1 rounds to -1
  double one_tanh;              // above this tanh rounds to 1
  double one_sigmoid;           // above this the sigmoid rounds to 1
  double tiny;                  // below this expm1 and sinh are their argument
  double ln2_high, ln2_low;     // n * ln2_high is exact for every n
} exp_limits_t;

static const exp_limits_t LIMITS[2] = {
    {-104, 89, -151, 129, -18, 10, 20, 0x1p-26, 0x1.62e4p-1, 0x1.7f7d1cp-20},
    {-746, 710, -1076, 1025, -40, 20, 40, 0x1p-56, 0x1.62e42feep-1, 0x1.a39ef35793c76p-33},
};

static const exp_limits_t *limits(const dt_math_build_t *b) { return &LIMITS[b->wide]; }

dt_val_t dt__math_exp_poly(const dt_math_build_t *b, dt_val_t r) {
  dt_val_t q = b->wide ? dt__math_poly(b, r, dt__math_exp_f64, 11)
                       : dt__math_poly(b, r, dt__math_exp_f32, 5);
  return dt__math_fma(b, f_mul(b, r, r), q, r);
}

dt_val_t dt__math_exp_reduced(const dt_math_build_t *b, dt_val_t x, int64_t offset,
                              dt_val_t *out_n) {
  double log2e = b->wide ? 0x1.71547652b82fep0 : 0x1.715476p0;
  dt_val_t magic = dt__math_f(b, dt__math_magic(b) + (double)offset);
  dt_val_t t = dt__math_fma(b, x, dt__math_f(b, log2e), magic);
  dt_val_t n = f_sub(b, t, magic);
  dt_val_t r = dt__math_fma(b, n, dt__math_f(b, -limits(b)->ln2_high), x);
  r = dt__math_fma(b, n, dt__math_f(b, -limits(b)->ln2_low), r);
  *out_n = to_bits(b, t);
  return dt__math_exp_poly(b, r);
}

dt_val_t dt__math_exp_scale(const dt_math_build_t *b, dt_val_t p, dt_val_t n) {
  dt_val_t half = i_shr(b, n, 1);
  dt_val_t s1 = from_bits(b, i_shl(b, half, b->mantissa));
  dt_val_t s2 = from_bits(b, i_shl(b, i_sub(b, n, half), b->mantissa));
  return f_mul(b, dt__math_fma(b, p, s1, s1), s2);
}

// e^x of floats where there is a fast 2^r: that times 2^n. n is kept where 2^n is a number, and r
// takes what is beyond, so that results overflow and become denormal as they should by themselves.
static dt_val_t fast_exp(const dt_math_build_t *b, dt_val_t x) {
  double log2e = 0x1.715476p0, log2e_low = 0x1.4ae0cp-26, magic = dt__math_magic(b) + 127;
  dt_val_t t = dt__math_fma(b, x, dt__math_f(b, log2e), dt__math_f(b, magic));
  t = dt__math_at_most(b, dt__math_at_least(b, t, magic - 126), magic + 127);
  dt_val_t n = f_sub(b, t, dt__math_f(b, magic));
  dt_val_t r = dt__math_fma(b, x, dt__math_f(b, log2e), f_neg(b, n));
  r = dt__math_fma(b, x, dt__math_f(b, log2e_low), r);
  dt_val_t power = from_bits(b, i_shl(b, to_bits(b, t), b->mantissa));
  return f_mul(b, dt__math_fast_exp2(b, r), power);
}

// e^x times 2^shift.
static dt_val_t exp_shifted(const dt_math_build_t *b, dt_val_t x, int64_t shift) {
  dt_val_t n;
  dt_val_t p = dt__math_exp_reduced(b, x, 2 * b->bias + shift, &n);
  return dt__math_exp_scale(b, p, n);
}

dt_val_t dt__math_exp(const dt_math_build_t *b, dt_val_t x) {
  if (b->fast && !b->wide)
    return fast_exp(b, x);
  x = dt__math_at_most(b, dt__math_at_least(b, x, limits(b)->low), limits(b)->high);
  return exp_shifted(b, x, 0);
}

dt_val_t dt__math_exp2(const dt_math_build_t *b, dt_val_t x) {
  x = dt__math_at_most(b, dt__math_at_least(b, x, limits(b)->low_base2), limits(b)->high_base2);
  dt_val_t magic = dt__math_f(b, dt__math_magic(b) + (double)(2 * b->bias));
  dt_val_t t = f_add(b, x, magic);
  dt_val_t r = f_sub(b, x, f_sub(b, t, magic));
  r = f_mul(b, r, dt__math_f(b, b->wide ? 0x1.62e42fefa39efp-1 : 0x1.62e430p-1));
  return dt__math_exp_scale(b, dt__math_exp_poly(b, r), to_bits(b, t));
}

// (e^x - 1) 2^shift, for a shift that keeps the power of two finite at the greatest x.
static dt_val_t shifted_expm1(const dt_math_build_t *b, dt_val_t x, int shift) {
  dt_val_t n;
  dt_val_t p = dt__math_exp_reduced(b, x, b->bias + shift, &n);
  dt_val_t s = from_bits(b, i_shl(b, n, b->mantissa));
  double one = 1.0 / (double)(1 << -shift);
  return dt__math_fma(b, p, s, f_sub(b, s, dt__math_f(b, one)));
}

// x where it is so small that the function equals it, which also keeps denormals and -0.
static dt_val_t unless_tiny(const dt_math_build_t *b, dt_val_t x, dt_val_t y) {
  return f_sel(b, f_is(b, LLVMRealOLT, f_abs(b, x), limits(b)->tiny), x, y);
}

dt_val_t dt__math_expm1(const dt_math_build_t *b, dt_val_t x) {
  dt_val_t c = dt__math_at_least(b, x, limits(b)->low_minus1);
  dt_val_t h = shifted_expm1(b, dt__math_at_most(b, c, limits(b)->high), -1);
  return unless_tiny(b, x, f_add(b, h, h));
}

// Up to 9/16: x + x^3 P(x^2). Above, with t = expm1(2|x|): tanh |x| = t / (t + 2).
dt_val_t dt__math_tanh(const dt_math_build_t *b, dt_val_t x) {
  dt_val_t a = dt__math_at_most(b, f_abs(b, x), limits(b)->one_tanh);
  dt_val_t z = f_mul(b, a, a);
  dt_val_t q = b->wide ? dt__math_poly(b, z, dt__math_tanh_f64, 12)
                       : dt__math_poly(b, z, dt__math_tanh_f32, 5);
  dt_val_t small = dt__math_fma(b, f_mul(b, a, z), q, a);
  dt_val_t n;
  dt_val_t p = dt__math_exp_reduced(b, f_add(b, a, a), b->bias, &n);
  dt_val_t s = from_bits(b, i_shl(b, n, b->mantissa));
  dt_val_t t = dt__math_fma(b, p, s, f_sub(b, s, dt__math_f(b, 1.0)));
  dt_val_t big = dt__math_div(b, t, f_add(b, t, dt__math_f(b, 2.0)));
  return dt__math_copysign(b, f_sel(b, f_is(b, LLVMRealOLT, a, 0.5625), small, big), x);
}

// e / (1 + e) with e = e^x: unlike 1 / (1 + e^-x), it keeps its accuracy down into the denormals.
// For small e the rounding of 1 + e would cost a unit of the result; e - e^2 / (1 + e) avoids that.
dt_val_t dt__math_sigmoid(const dt_math_build_t *b, dt_val_t x) {
  bool fast = b->fast && !b->wide;
  if (!fast)
    x = dt__math_at_least(b, x, limits(b)->low);
  x = dt__math_at_most(b, x, limits(b)->one_sigmoid);
  dt_val_t e = fast ? fast_exp(b, x) : exp_shifted(b, x, 0);
  dt_val_t small = f_is(b, LLVMRealOLT, e, 0.375);
  dt_val_t num = f_sel(b, small, f_mul(b, e, e), e);
  dt_val_t q = dt__math_div(b, num, f_add(b, e, dt__math_f(b, 1.0)));
  return f_sel(b, small, f_sub(b, e, q), q);
}

// sinh a = t / 2 + t / (2t + 2) with t = expm1(a), computed on t / 4 so that nothing overflows
// early. The clamp lies above the point of overflow; where 2t + 2 overflows its quotient is
// negligible.
dt_val_t dt__math_sinh(const dt_math_build_t *b, dt_val_t x) {
  if (!b->wide)
    return dt__math_through_double(b, x, dt__math_sinh);
  dt_val_t a = dt__math_at_most(b, f_abs(b, x), 710.5);
  dt_val_t h = shifted_expm1(b, a, -2);
  dt_val_t d = dt__math_fma(b, h, dt__math_f(b, 4.0), dt__math_f(b, 1.0));
  dt_val_t y = f_add(b, h, f_div(b, h, d));
  return unless_tiny(b, x, dt__math_copysign(b, f_add(b, y, y), x));
}

dt_val_t dt__math_cosh(const dt_math_build_t *b, dt_val_t x) {
  if (!b->wide)
    return dt__math_through_double(b, x, dt__math_cosh);
  dt_val_t h = exp_shifted(b, dt__math_at_most(b, f_abs(b, x), 711), -1);
  return f_add(b, h, f_div(b, dt__math_f(b, 0.25), h));
}
