// SPDX-License-Identifier: Apache-2.0
// Conversions of 16-bit floats, all of them: every value each way, and what lies between every two
// neighbours, at its midpoint and as close to it as float64 comes.
#include "test/support/check.h"

#include "runtime/base/half.h"

#include <math.h>
#include <string.h>

typedef struct format_t {
  const char *name;
  int fraction, lowest; // bits of fraction; exponent of the smallest normal number
  uint32_t infinity;    // its bits
} format_t;
static const format_t formats[] = {{"f16", 10, -14, 0x7c00}, {"bf16", 7, -126, 0x7f80}};

static double widen(const format_t *f, uint32_t bits) {
  return f->fraction == 10 ? dt__f16_widen((dt_f16_t){(uint16_t)bits})
                           : dt__bf16_widen((dt_bf16_t){(uint16_t)bits});
}

static uint32_t rounded(const format_t *f, double x) {
  return f->fraction == 10 ? dt__f16_round(x).bits : dt__bf16_round(x).bits;
}

static void expect(const format_t *f, double x, uint32_t want) {
  for (uint32_t sign = 0; sign <= 0x8000; sign += 0x8000) {
    double given = sign ? -x : x;
    uint32_t got = rounded(f, given);
    if (got != (want | sign))
      fail_msg("%s of %a: got %04x, expected %04x", f->name, given, got, want | sign);
  }
}

// The value that the fields of a number mean.
static double meaning(const format_t *f, uint32_t bits) {
  uint32_t exponent = (bits & 0x7fff) >> f->fraction;
  double part = (double)(bits & ((1U << f->fraction) - 1)) / (double)(1U << f->fraction);
  double size =
      exponent ? (1.0 + part) * exp2((int)exponent - 1 + f->lowest) : part * exp2(f->lowest);
  return bits & 0x8000 ? -size : size;
}

static void test_values(void **state) {
  (void)state;
  for (size_t k = 0; k < 2; k++) {
    const format_t *f = &formats[k];
    for (uint32_t bits = 0; bits <= 0xffff; bits++) {
      double x = widen(f, bits);
      uint32_t size = bits & 0x7fff, back = rounded(f, x);
      assert_int_equal(signbit(x) != 0, bits >> 15);
      if (size > f->infinity) {
        assert_true(isnan(x));
        assert_true((back & 0x7fff) > f->infinity && back >> 15 == bits >> 15);
        continue;
      }
      if (size == f->infinity)
        assert_true(isinf(x));
      else
        assert_true(x == meaning(f, bits));
      assert_int_equal(back, bits);
    }
  }
}

static void test_between(void **state) {
  (void)state;
  for (size_t k = 0; k < 2; k++) {
    const format_t *f = &formats[k];
    for (uint32_t bits = 0; bits < f->infinity; bits++) {
      double low = widen(f, bits);
      // Past the largest number the next one would be a power of two.
      double high = bits + 1 < f->infinity ? widen(f, bits + 1) : meaning(f, f->infinity);
      double middle = low + (high - low) / 2;
      expect(f, middle, bits + (bits & 1));
      expect(f, nextafter(middle, low), bits);
      expect(f, nextafter(middle, high), bits + 1);
      expect(f, nextafter(low, high), bits);
      expect(f, nextafter(high, low), bits + 1);
    }
  }
}

static void test_ends(void **state) {
  (void)state;
  for (size_t k = 0; k < 2; k++) {
    const format_t *f = &formats[k];
    expect(f, 0.0, 0);
    expect(f, 0x1p-1074, 0);
    expect(f, 1.7e308, f->infinity);
    expect(f, INFINITY, f->infinity);
    assert_true((rounded(f, NAN) & 0x7fff) > f->infinity);
  }
  assert_int_equal(dt__f16_round(65519.999).bits, 0x7bff);
  assert_int_equal(dt__f16_round(65520.0).bits, 0x7c00);
  assert_int_equal(dt__f16_round(0x1p-25).bits, 0);
  assert_int_equal(dt__f16_round(0x1.8p-24).bits, 2);
  assert_int_equal(dt__bf16_round(1.0).bits, 0x3f80);
}

// The upper half of an f32 is the bf16 it is cut to.
static void test_upper_half(void **state) {
  (void)state;
  for (uint32_t bits = 0; bits <= 0xffff; bits++) {
    uint32_t wide = bits << 16;
    float x;
    memcpy(&x, &wide, sizeof(x));
    double got = dt__bf16_widen((dt_bf16_t){(uint16_t)bits});
    assert_true(isnan(x) ? isnan(got) : got == (double)x);
  }
}

// The exact sum, cut to float64 so that its last bit says that there was more ("to odd").
static double sum_to_odd(double a, double b) {
  double s = a + b, part = s - a, rest = (a - (s - part)) + (b - part);
  uint64_t bits;
  memcpy(&bits, &s, sizeof(bits));
  if (isfinite(s) && rest != 0 && !(bits & 1)) {
    bits = (rest > 0) == (s > 0) ? bits + 1 : bits - 1;
    memcpy(&s, &bits, sizeof(s));
  }
  return s;
}

static void expect_same(const format_t *f, float once, double exact, uint32_t a, uint32_t b) {
  uint32_t twice = rounded(f, once), want = rounded(f, exact);
  bool nan = (twice & 0x7fff) > f->infinity && (want & 0x7fff) > f->infinity;
  if (twice != want && !nan)
    fail_msg("%s %04x and %04x: %04x by f32, expected %04x", f->name, a, b, twice, want);
}

// What f32 gives of two halves, rounded to a half, is the exact number rounded once: all halves and
// each of a set. backend_llvm/emit/halves.c relies on it.
static void test_rounded_once(void **state) {
  (void)state;
  for (size_t k = 0; k < 2; k++) {
    const format_t *f = &formats[k];
    uint32_t unit = 1U << f->fraction, one = k ? 0x3f80 : 0x3c00;
    const uint32_t partners[] = {0,           1,           3,           unit - 1,
                                 unit,        unit + 1,    one,         one - 1,
                                 one + 1,     one + 0x55,  one - 0x4b,  f->infinity - 1,
                                 f->infinity, one / 2 + 1, one / 2 - 3, one + one / 2 - 1};
    for (size_t p = 0; p < sizeof(partners) / sizeof(partners[0]); p++)
      for (uint32_t bits = 0; bits <= 0xffff; bits++) {
        float a = (float)widen(f, bits), b = (float)widen(f, partners[p]);
        expect_same(f, a + b, sum_to_odd(a, b), bits, partners[p]);
        expect_same(f, a - b, sum_to_odd(a, -b), bits, partners[p]);
        expect_same(f, a * b, (double)a * b, bits, partners[p]);
      }
  }
}

RUN_TESTS(TEST(test_rounded_once), TEST(test_values), TEST(test_between), TEST(test_ends),
          TEST(test_upper_half))
