// SPDX-License-Identifier: Apache-2.0
// Inverse trigonometric functions.
#include "backend_llvm/emit/math_build.h"
#include "backend_llvm/emit/math_coef.h"

// Multiples of pi / 4 as a value of the type and what it lacks.
typedef struct pi_parts_t {
  double quarter, quarter_low, half, half_low, full, full_low;
} pi_parts_t;

static const pi_parts_t PI_PARTS[2] = {
    {0x1.921fb6p-1, -0x1.777a5cp-26, 0x1.921fb6p0, -0x1.777a5cp-25, 0x1.921fb6p1, -0x1.777a5cp-24},
    {0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55, 0x1.921fb54442d18p0, 0x1.1a62633145c07p-54,
     0x1.921fb54442d18p1, 0x1.1a62633145c07p-53},
};

// tail(t) = t^3 P(t^2), so that the function is t + tail.
static dt_val_t odd_tail(const dt_math_build_t *b, dt_val_t t, dt_val_t z, const double *coef,
                         uint32_t n) {
  return f_mul(b, f_mul(b, t, z), dt__math_poly(b, z, coef, n));
}

// |x| > tan(3 pi / 8): pi/2 + atan(-1 / |x|). Above tan(pi / 8): pi/4 + atan((|x|-1) / (|x|+1)).
dt_val_t dt__math_atan(const dt_math_build_t *b, dt_val_t x) {
  const pi_parts_t *pi = &PI_PARTS[b->wide];
  dt_val_t one = dt__math_f(b, 1.0), zero = dt__math_f(b, 0.0);
  dt_val_t a = f_abs(b, x);
  dt_val_t middle = f_is(b, LLVMRealOGT, a, 0x1.a8p-2);
  dt_val_t large = f_is(b, LLVMRealOGT, a, 0x1.35p1);
  dt_val_t num = f_sel(b, middle, f_sub(b, a, one), a);
  dt_val_t den = f_sel(b, middle, f_add(b, a, one), one);
  num = f_sel(b, large, dt__math_f(b, -1.0), num);
  den = f_sel(b, large, a, den);
  dt_val_t base = f_sel(b, middle, dt__math_f(b, pi->quarter), zero);
  dt_val_t base_low = f_sel(b, middle, dt__math_f(b, pi->quarter_low), zero);
  base = f_sel(b, large, dt__math_f(b, pi->half), base);
  base_low = f_sel(b, large, dt__math_f(b, pi->half_low), base_low);
  dt_val_t t = f_div(b, num, den);
  dt_val_t z = f_mul(b, t, t);
  dt_val_t tail =
      b->wide ? odd_tail(b, t, z, dt__math_atan_f64, 11) : odd_tail(b, t, z, dt__math_atan_f32, 5);
  dt_val_t y = f_add(b, base, f_add(b, t, f_add(b, tail, base_low)));
  return dt__math_copysign(b, y, x);
}

// For |x| <= 1/2: t = x and z = x^2. Above: z = (1 - |x|) / 2 and t = sqrt z, with
// asin |x| = pi/2 - 2 asin t. Returns the tail of asin t and where the second form holds.
static dt_val_t asin_reduced(const dt_math_build_t *b, dt_val_t x, dt_val_t *out_t,
                             dt_val_t *out_reduced) {
  dt_val_t a = f_abs(b, x);
  dt_val_t reduced = f_is(b, LLVMRealOGT, a, 0.5);
  dt_val_t half = dt__math_f(b, 0.5);
  dt_val_t z = f_sel(b, reduced, dt__math_fma(b, a, dt__math_f(b, -0.5), half), f_mul(b, a, a));
  dt_val_t t = f_sel(b, reduced, f_sqrt(b, z), a);
  *out_t = t;
  *out_reduced = reduced;
  return b->wide ? odd_tail(b, t, z, dt__math_asin_f64, 13)
                 : odd_tail(b, t, z, dt__math_asin_f32, 6);
}

dt_val_t dt__math_asin(const dt_math_build_t *b, dt_val_t x) {
  const pi_parts_t *pi = &PI_PARTS[b->wide];
  dt_val_t t, reduced;
  dt_val_t tail = asin_reduced(b, x, &t, &reduced);
  // pi/2 - 2t - 2 tail: what rounding pi/2 - 2t loses joins the small parts.
  dt_val_t minus_two = dt__math_f(b, -2.0), half_pi = dt__math_f(b, pi->half);
  dt_val_t high = dt__math_fma(b, t, minus_two, half_pi);
  dt_val_t lost = dt__math_fma(b, t, minus_two, f_sub(b, half_pi, high));
  dt_val_t low = dt__math_fma(b, tail, minus_two, dt__math_f(b, pi->half_low));
  low = f_add(b, low, lost);
  dt_val_t y = f_sel(b, reduced, f_add(b, high, low), f_add(b, t, tail));
  return dt__math_copysign(b, y, x);
}

dt_val_t dt__math_acos(const dt_math_build_t *b, dt_val_t x) {
  const pi_parts_t *pi = &PI_PARTS[b->wide];
  dt_val_t t, reduced;
  dt_val_t tail = asin_reduced(b, x, &t, &reduced);
  dt_val_t negative = f_is(b, LLVMRealOLT, x, 0.0);
  // |x| <= 1/2: pi/2 - (t + tail). x > 1/2: 2 (t + tail). x < -1/2: pi - 2 (t + tail).
  dt_val_t signed_t = dt__math_copysign(b, t, x), signed_tail = dt__math_copysign(b, tail, x);
  dt_val_t near_high = f_sub(b, dt__math_f(b, pi->half), signed_t);
  dt_val_t near_low = f_sub(b, dt__math_f(b, pi->half_low), signed_tail);
  dt_val_t sum = f_add(b, t, tail);
  dt_val_t minus_two = dt__math_f(b, -2.0);
  dt_val_t far_high = dt__math_fma(b, t, minus_two, dt__math_f(b, pi->full));
  dt_val_t far_low = dt__math_fma(b, tail, minus_two, dt__math_f(b, pi->full_low));
  dt_val_t far = f_sel(b, negative, f_add(b, far_high, far_low), f_add(b, sum, sum));
  return f_sel(b, reduced, far, f_add(b, near_high, near_low));
}
