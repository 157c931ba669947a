// SPDX-License-Identifier: Apache-2.0
// Reference values and distances in ulp.
#include "test/unit/math/math_oracle.h"

#include <math.h>
#include <mpfr.h>
#include <string.h>

enum { PRECISION = 256 };

static const math_oracle_t ORACLES[MATH_ALL] = {
#define MATH(id, name, ulp_f32, ulp_f64) {#name, {ulp_f32, ulp_f64}},
#include "backend_llvm/emit/math_table.def"
    {"pow", {1.0, 2.0}},
};

static double rsqrt(double x) { return 1 / sqrt(x); }
static double sigmoid(double x) {
  double e = exp(-fabs(x));
  return x < 0 ? e / (1 + e) : 1 / (1 + e);
}
static long double rsqrtl(long double x) { return 1 / sqrtl(x); }
static long double sigmoidl(long double x) {
  long double e = expl(-fabsl(x));
  return x < 0 ? e / (1 + e) : 1 / (1 + e);
}
static int mpfr_rsqrt(mpfr_t out, const mpfr_t x, mpfr_rnd_t rounding) {
  if (mpfr_zero_p(x)) {
    mpfr_set_inf(out, mpfr_sgn(x) < 0 || mpfr_signbit(x) ? -1 : 1);
    return 0;
  }
  return mpfr_rec_sqrt(out, x, rounding);
}
static int mpfr_sigmoid(mpfr_t out, const mpfr_t x, mpfr_rnd_t rounding) {
  mpfr_neg(out, x, rounding);
  mpfr_exp(out, out, rounding);
  mpfr_add_ui(out, out, 1, rounding);
  return mpfr_ui_div(out, 1, out, rounding);
}

typedef struct functions_t {
  double (*f64)(double);
  long double (*f80)(long double);
  int (*exact)(mpfr_t, const mpfr_t, mpfr_rnd_t);
} functions_t;

static const functions_t FUNCTIONS[DT_MATH_COUNT] = {
#define MATH(id, name, ulp_f32, ulp_f64) {name, name##l, mpfr_##name},
#include "backend_llvm/emit/math_table.def"
};

const math_oracle_t *math_oracle(int fn) { return &ORACLES[fn]; }

double math_fast_f32(int fn, double x, double y) {
  return fn == MATH_POW ? pow(x, y) : FUNCTIONS[fn].f64(x);
}

long double math_fast_f64(int fn, long double x, long double y) {
  return fn == MATH_POW ? powl(x, y) : FUNCTIONS[fn].f80(x);
}

double math_ulp_f32(float got, double exact) {
  if (isnan(exact) || isnan(got))
    return isnan(exact) && isnan(got) ? 0 : INFINITY;
  if (exact == 0 || isinf(exact))
    return got == (float)exact && !signbit(got) == !signbit(exact) ? 0 : INFINITY;
  double got_wide = got;
  if (isinf(got)) {
    if (fabs(exact) >= 0x1p128)
      return signbit(got) == signbit(exact) ? 0 : INFINITY;
    got_wide = copysign(0x1p128, got);
  }
  uint64_t bits;
  memcpy(&bits, &exact, sizeof bits);
  int64_t exponent = (int64_t)(bits >> 52 & 0x7ff) - 1023;
  exponent = exponent < -126 ? -126 : exponent > 127 ? 127 : exponent;
  // 1 / ulp is at most 2^149.
  bits = (uint64_t)(1023 + 23 - exponent) << 52;
  double per_ulp;
  memcpy(&per_ulp, &bits, sizeof per_ulp);
  return fabs(got_wide - exact) * per_ulp;
}

double math_ulp_f64(double got, long double exact) {
  if (isnan(exact) || isnan(got))
    return isnan(exact) && isnan(got) ? 0 : INFINITY;
  if (exact == 0 || isinf(exact))
    return got == (double)exact && !signbit(got) == !signbit(exact) ? 0 : INFINITY;
  long double got_wide = got;
  if (isinf(got)) {
    if (fabsl(exact) >= 0x1p1024L)
      return signbit(got) == signbit(exact) ? 0 : INFINITY;
    got_wide = copysignl(0x1p1024L, got);
  }
  int exponent;
  (void)frexpl(exact, &exponent);
  exponent--;
  exponent = exponent < -1022 ? -1022 : exponent > 1023 ? 1023 : exponent;
  return (double)ldexpl(fabsl(got_wide - exact), 52 - exponent);
}

double math_ulp_mpfr(int fn, bool wide, double got, double x, double y) {
  mpfr_t mx, my, exact, distance;
  mpfr_inits2(PRECISION, mx, my, exact, distance, (mpfr_ptr)0);
  mpfr_set_d(mx, x, MPFR_RNDN);
  mpfr_set_d(my, y, MPFR_RNDN);
  if (fn == MATH_POW)
    mpfr_pow(exact, mx, my, MPFR_RNDN);
  else
    FUNCTIONS[fn].exact(exact, mx, MPFR_RNDN);
  double result;
  if (mpfr_nan_p(exact) || isnan(got) || mpfr_zero_p(exact) || mpfr_inf_p(exact)) {
    result = math_ulp_f64(got, mpfr_get_d(exact, MPFR_RNDN));
  } else {
    long top = wide ? 1024 : 128, bottom = wide ? -1022 : -126, stored = wide ? 52 : 23;
    long exponent = mpfr_get_exp(exact) - 1;
    if (isinf(got))
      mpfr_set_si_2exp(distance, signbit(got) ? -1 : 1, top, MPFR_RNDN);
    else
      mpfr_set_d(distance, got, MPFR_RNDN);
    if (isinf(got) && exponent >= top && !signbit(got) == (mpfr_sgn(exact) > 0))
      mpfr_set(distance, exact, MPFR_RNDN);
    mpfr_sub(distance, distance, exact, MPFR_RNDN);
    exponent = exponent < bottom ? bottom : exponent >= top ? top - 1 : exponent;
    mpfr_mul_2si(distance, distance, stored - exponent, MPFR_RNDN);
    result = fabs(mpfr_get_d(distance, MPFR_RNDN));
  }
  mpfr_clears(mx, my, exact, distance, (mpfr_ptr)0);
  return result;
}
