// SPDX-License-Identifier: Apache-2.0
// Conversions of the low-bit floats, all of them: every code against the formula of its format, and
// every rounding against a search for the nearest number: of each number, each midpoint of two
// neighbours, what is as close to both as float64 comes, and beyond the largest.
#include "test/support/check.h"

#include "runtime/base/dtype.h"
#include "runtime/base/low.h"

#include <math.h>

// As the formats are published: ONNX "Float stored in 8 bits", OCP MX 1.0 for f4e2m1 and f8e8m0.
typedef struct format_t {
  dt_dtype_t dtype;
  int exponent, fraction, bias; // bits, bits
  bool has_infinity, one_zero;  // one_zero: the code of -0 is the one NaN
  bool last_is_nan;
  double most;
} format_t;
static const format_t formats[] = {
    {DT_F8E4M3FN, 4, 3, 7, false, false, true, 448},
    {DT_F8E5M2, 5, 2, 15, true, false, false, 57344},
    {DT_F8E4M3FNUZ, 4, 3, 8, false, true, false, 240},
    {DT_F8E5M2FNUZ, 5, 2, 16, false, true, false, 57344},
    {DT_F4E2M1, 2, 1, 1, false, false, false, 6},
};
#define N_FORMATS (sizeof(formats) / sizeof(formats[0]))

static unsigned sign_of(const format_t *f) { return 1U << (f->exponent + f->fraction); }

// (-1)^S 2^(E - bias) (1 + F), or (-1)^S 2^(1 - bias) F.
static double meaning(const format_t *f, unsigned code) {
  unsigned size = code & (sign_of(f) - 1), e = size >> f->fraction;
  double part = (double)(size & ((1U << f->fraction) - 1)) / (double)(1U << f->fraction);
  double sign = code & sign_of(f) ? -1.0 : 1.0;
  if (f->one_zero && code == sign_of(f))
    return (double)NAN;
  if (f->last_is_nan && size == sign_of(f) - 1)
    return (double)NAN;
  if (f->has_infinity && e == (1U << f->exponent) - 1)
    return part == 0 ? sign * (double)INFINITY : (double)NAN;
  return sign * (e ? (1.0 + part) * exp2((int)e - f->bias) : part * exp2(1 - f->bias));
}

static void test_values(void **state) {
  (void)state;
  for (size_t k = 0; k < N_FORMATS; k++)
    for (unsigned code = 0; code < 2 * sign_of(&formats[k]); code++) {
      double want = meaning(&formats[k], code),
             got = dt__low_widen(formats[k].dtype, (uint8_t)code);
      bool same = isnan(want) ? isnan(got) : want == got && signbit(want) == signbit(got);
      if (!same)
        fail_msg("%s %02x: got %g, expected %g", dt_dtype_name(formats[k].dtype), code, got, want);
      assert_true(isnan(want) || isinf(want) || fabs(want) <= formats[k].most);
    }
}

// What a finite number becomes, by looking at all codes of its sign: the nearest, of two as near
// the even one. One more of the format's steps stands for all that is beyond.
static unsigned nearest(const format_t *f, double x, bool overflow) {
  unsigned best = 0, sign = signbit(x) ? sign_of(f) : 0;
  double distance = (double)INFINITY, size = fmin(fabs(x), 4 * f->most);
  for (unsigned code = 0; code < sign_of(f); code++) {
    double value = meaning(f, code);
    if (isnan(value) || isinf(value))
      continue;
    double away = fabs(value - size);
    if (away < distance || (away == distance && code % 2 == 0)) {
      best = code;
      distance = away;
    }
  }
  double last = meaning(f, best), step = f->most - meaning(f, best > 0 ? best - 1 : 0);
  bool at_end = last == f->most, even = best % 2 == 0;
  bool beyond = at_end && (size - f->most > step / 2 || (size - f->most == step / 2 && !even));
  if (beyond && overflow && f->dtype != DT_F4E2M1)
    return f->has_infinity ? sign | (31U << f->fraction)
           : f->one_zero   ? sign_of(f)
                           : sign_of(f) - 1;
  return best == 0 && f->one_zero ? 0 : best | sign;
}

static void check_round(const format_t *f, double x) {
  for (int turn = 0; turn < 4; turn++) {
    double given = turn & 1 ? -x : x;
    bool overflow = turn >= 2;
    unsigned got = dt__low_round(f->dtype, given, overflow ? DT_CAST_OVERFLOW : 0);
    unsigned want = nearest(f, given, overflow);
    if (got != want)
      fail_msg("%s of %a%s: got %02x, expected %02x", dt_dtype_name(f->dtype), given,
               overflow ? ", overflowing" : "", got, want);
  }
}

static void check_around(const format_t *f, double x) {
  check_round(f, x);
  check_round(f, nextafter(x, (double)INFINITY));
  check_round(f, nextafter(x, 0));
  check_round(f, (double)nextafterf((float)x, INFINITY));
  check_round(f, (double)nextafterf((float)x, 0));
}

static void test_roundings(void **state) {
  (void)state;
  for (size_t k = 0; k < N_FORMATS; k++) {
    const format_t *f = &formats[k];
    for (unsigned code = 0; code < sign_of(f); code++) {
      double value = meaning(f, code), next = meaning(f, code + 1);
      if (isnan(value) || isinf(value))
        continue;
      check_around(f, value);
      if (value < f->most)
        check_around(f, (value + next) / 2);
    }
    double step = f->most * exp2(-f->fraction) / (2 - exp2(-f->fraction));
    check_around(f, f->most + step / 2); // where the next number would be as near
    static const double far[] = {1e-300, 0x1p-1074, 0x1p-149, 1e3, 1e6, 1e30, 1e300};
    for (size_t i = 0; i < sizeof(far) / sizeof(far[0]); i++)
      check_around(f, far[i]);
  }
}

static void test_specials(void **state) {
  (void)state;
  static const struct {
    dt_dtype_t dtype;
    unsigned nan, saturated, overflown, minus; // of NaN, of infinity both ways, of -infinity
  } cases[] = {{DT_F8E4M3FN, 0x7f, 0x7e, 0x7f, 0x7f},   {DT_F8E5M2, 0x7e, 0x7b, 0x7c, 0xfc},
               {DT_F8E4M3FNUZ, 0x80, 0x7f, 0x80, 0x80}, {DT_F8E5M2FNUZ, 0x80, 0x7f, 0x80, 0x80},
               {DT_F4E2M1, 0x8, 0x7, 0x7, 0xf},         {DT_F8E8M0, 0xff, 0xff, 0xff, 0xff}};
  for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
    dt_dtype_t dtype = cases[k].dtype;
    for (uint32_t how = 0; how < 2; how++) {
      assert_int_equal(dt__low_round(dtype, (double)NAN, how), cases[k].nan);
      assert_int_equal(dt__low_round(dtype, -(double)NAN, how), cases[k].nan);
    }
    assert_int_equal(dt__low_round(dtype, (double)INFINITY, 0), cases[k].saturated);
    assert_int_equal(dt__low_round(dtype, (double)INFINITY, DT_CAST_OVERFLOW), cases[k].overflown);
    assert_int_equal(dt__low_round(dtype, -(double)INFINITY, DT_CAST_OVERFLOW), cases[k].minus);
  }
}

// ---- Powers of two --------------------------------------------------------------------------------
// The code of the exponent asked for, by looking at all powers.
static unsigned power(double x, uint32_t how) {
  double size = fabs(x);
  unsigned code = 0;
  if (how & DT_CAST_NEAREST) // up where two are as near
    while (code < 255 && size >= 1.5 * ldexp(1, (int)code - 127))
      code++;
  else if (how & DT_CAST_DOWN)
    while (code < 255 && size >= ldexp(1, (int)code - 126))
      code++;
  else
    while (code < 255 && size > ldexp(1, (int)code - 127))
      code++;
  return code < 255 ? code : how & DT_CAST_OVERFLOW ? 255 : 254;
}

static void test_powers(void **state) {
  (void)state;
  static const uint32_t hows[] = {0,
                                  DT_CAST_DOWN,
                                  DT_CAST_NEAREST,
                                  DT_CAST_OVERFLOW,
                                  DT_CAST_OVERFLOW | DT_CAST_DOWN,
                                  DT_CAST_OVERFLOW | DT_CAST_NEAREST};
  for (unsigned code = 0; code < 255; code++)
    assert_true(dt__low_widen(DT_F8E8M0, (uint8_t)code) == ldexp(1, (int)code - 127));
  assert_true(isnan(dt__low_widen(DT_F8E8M0, 255)));
  for (size_t k = 0; k < sizeof(hows) / sizeof(hows[0]); k++)
    for (int e = -1074; e < 1024; e++)
      for (int part = 0; part < 6; part++) {
        static const double parts[] = {1, 1.25, 1.5, 1.75};
        double x = part < 4    ? ldexp(parts[part], e)
                   : part == 4 ? nextafter(ldexp(1.5, e), 0)
                               : nextafter(ldexp(1, e), (double)INFINITY);
        assert_int_equal(dt__low_round(DT_F8E8M0, x, hows[k]), power(x, hows[k]));
        assert_int_equal(dt__low_round(DT_F8E8M0, -x, hows[k]), power(x, hows[k]));
      }
  assert_int_equal(dt__low_round(DT_F8E8M0, 0, 0), 0);
}

// ---- What makes a difference ------------------------------------------------------------------------
static void test_how(void **state) {
  (void)state;
  const uint32_t all = DT_CAST_OVERFLOW | DT_CAST_NEAREST;
  assert_int_equal(dt__low_how(DT_F8E5M2, all), DT_CAST_OVERFLOW);
  assert_int_equal(dt__low_how(DT_F8E8M0, all), all);
  assert_int_equal(dt__low_how(DT_F4E2M1, all), 0);
  assert_int_equal(dt__low_how(DT_I4, all), 0);
  assert_int_equal(dt__low_how(DT_F32, all), 0);
}

RUN_TESTS(TEST(test_values), TEST(test_roundings), TEST(test_specials), TEST(test_powers),
          TEST(test_how))
