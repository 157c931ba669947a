// SPDX-License-Identifier: Apache-2.0
// Sine, cosine and tangent, for every finite argument.
//
// x = n pi/2 + r with |r| <= pi/4; n mod 4 picks sine or cosine of r and a sign. For float, r is
// found in double. Up to 2^48, n pi/2 is subtracted in parts by fused multiply-adds. Beyond, x is
// y 2^s with y an integer, so that only (2^s 2/pi) mod 4 matters: for a window of exponents it is a
// sum of constants c_i, and y c_i mod 4 is exact for each. The windows are selected lane by lane.
#include <stddef.h>

#include "backend_llvm/emit/math_build.h"
#include "backend_llvm/emit/math_coef.h"

static const double HUGE_FROM = 0x1p48;
static const double TWO_OVER_PI = 0x1.45f306dc9c883p-1;
// pi/2 in three parts of 53 bits.
static const double HALF_PI_1 = 0x1.921fb54442d18p0;
static const double HALF_PI_2 = 0x1.1a62633145c07p-54;
static const double HALF_PI_3 = -0x1.f1976b7ed8fbcp-110;

// A number as an unevaluated sum.
typedef struct pair_t {
  dt_val_t high, low;
} pair_t;

// Of double: r as a sum, n in the low bits of an integer.
typedef struct reduced_t {
  pair_t r;
  dt_val_t n;
} reduced_t;

// x + y and its rounding error, whichever is larger.
static pair_t two_sum(const dt_math_build_t *w, dt_val_t x, dt_val_t y) {
  dt_val_t sum = f_add(w, x, y);
  dt_val_t y_in = f_sub(w, sum, x);
  dt_val_t x_in = f_sub(w, sum, y_in);
  return (pair_t){sum, f_add(w, f_sub(w, x, x_in), f_sub(w, y, y_in))};
}

static pair_t two_product(const dt_math_build_t *w, dt_val_t x, dt_val_t y) {
  dt_val_t product = f_mul(w, x, y);
  return (pair_t){product, f_fms(w, x, y, product)};
}

// The nearest integer, and the same in the low bits of *out_n.
static dt_val_t nearest(const dt_math_build_t *w, dt_val_t x, dt_val_t *out_n) {
  dt_val_t magic = dt__math_f(w, dt__math_magic(w));
  dt_val_t t = f_add(w, x, magic);
  *out_n = to_bits(w, t);
  return f_sub(w, t, magic);
}

static dt_val_t mod4(const dt_math_build_t *w, dt_val_t x) {
  dt_val_t n = f_rint(w, f_mul(w, x, dt__math_f(w, 0.25)));
  return dt__math_fma(w, n, dt__math_f(w, -4.0), x);
}

// |x| < 2^48. The first subtraction is exact: its result is below 1 and, unless x itself is finer
// and n = 0, a multiple of 2^-52.
static reduced_t reduce_moderate(const dt_math_build_t *w, dt_val_t x, bool narrow) {
  reduced_t out;
  dt_val_t magic = dt__math_f(w, dt__math_magic(w));
  dt_val_t t = dt__math_fma(w, x, dt__math_f(w, TWO_OVER_PI), magic);
  dt_val_t n = f_sub(w, t, magic);
  out.n = to_bits(w, t);
  dt_val_t r = dt__math_fma(w, n, dt__math_f(w, -HALF_PI_1), x);
  if (narrow) {
    out.r = (pair_t){dt__math_fma(w, n, dt__math_f(w, -HALF_PI_2), r), NULL};
    return out;
  }
  pair_t p = two_product(w, n, dt__math_f(w, -HALF_PI_2));
  pair_t s = two_sum(w, r, p.high);
  dt_val_t low = dt__math_fma(w, n, dt__math_f(w, -HALF_PI_3), f_add(w, s.low, p.low));
  out.r.high = f_add(w, s.high, low);
  out.r.low = f_add(w, f_sub(w, s.high, out.r.high), low);
  return out;
}

// A column of a window table by the magnitude of x.
static dt_val_t window(const dt_math_build_t *w, const dt_val_t *above, const double *table,
                       uint32_t rows, uint32_t columns, uint32_t column) {
  dt_val_t v = dt__math_f(w, table[column]);
  for (uint32_t k = 1; k < rows; k++)
    v = f_sel(w, above[k], dt__math_f(w, table[k * columns + column]), v);
  return v;
}

enum { MAX_WINDOWS = 26, MAX_PARTS = 4 };

static void select_window(const dt_math_build_t *w, dt_val_t x, bool narrow, dt_val_t *out_y,
                          dt_val_t *out_parts) {
  const double *table = narrow ? dt__math_pi_narrow[0] : dt__math_pi_wide[0];
  uint32_t rows = narrow ? 3 : MAX_WINDOWS, columns = narrow ? 4 : 5;
  int step = narrow ? DT_MATH_PI_NARROW_STEP : DT_MATH_PI_WIDE_STEP;
  dt_val_t a = f_abs(w, x), above[MAX_WINDOWS] = {0};
  for (uint32_t k = 1; k < rows; k++)
    above[k] = f_is(w, LLVMRealOGE, a, __builtin_ldexp(1.0, 48 + step * (int)k));
  *out_y = f_mul(w, x, window(w, above, table, rows, columns, 0));
  for (uint32_t i = 1; i < columns; i++)
    out_parts[i - 1] = window(w, above, table, rows, columns, i);
}

// Float's argument: y has 24 bits and c1, c2 have 29, so the products are exact.
static reduced_t reduce_huge_narrow(const dt_math_build_t *w, dt_val_t x) {
  reduced_t out;
  dt_val_t y, c[MAX_PARTS];
  select_window(w, x, true, &y, c);
  pair_t s = two_sum(w, mod4(w, f_mul(w, y, c[0])), mod4(w, f_mul(w, y, c[1])));
  pair_t t = two_sum(w, s.high, f_mul(w, y, c[2]));
  dt_val_t n = nearest(w, t.high, &out.n);
  dt_val_t turn = f_add(w, f_sub(w, t.high, n), f_add(w, s.low, t.low));
  out.r = (pair_t){f_mul(w, turn, dt__math_f(w, HALF_PI_1)), NULL};
  return out;
}

// Double's argument: all products as pairs; the sum is kept to twice the precision, because r may
// be as small as 2^-62.
static reduced_t reduce_huge_wide(const dt_math_build_t *w, dt_val_t x) {
  enum { TERMS = 7 };
  reduced_t out;
  dt_val_t y, c[MAX_PARTS], term[TERMS], error[TERMS];
  select_window(w, x, false, &y, c);
  pair_t p1 = two_product(w, y, c[0]), p2 = two_product(w, y, c[1]), p3 = two_product(w, y, c[2]);
  term[0] = mod4(w, p1.high);
  term[1] = mod4(w, p1.low);
  term[2] = mod4(w, p2.high);
  term[3] = p2.low;
  term[4] = p3.high;
  term[5] = p3.low;
  term[6] = f_mul(w, y, c[3]);
  dt_val_t sum = term[0];
  for (uint32_t i = 1; i < TERMS; i++) {
    pair_t s = two_sum(w, sum, term[i]);
    sum = s.high;
    error[i] = s.low;
  }
  dt_val_t n = nearest(w, sum, &out.n);
  dt_val_t low = error[1], least = NULL;
  for (uint32_t i = 2; i < TERMS; i++) {
    pair_t s = two_sum(w, low, error[i]);
    low = s.high;
    least = least ? f_add(w, least, s.low) : s.low;
  }
  pair_t turn = two_sum(w, f_sub(w, sum, n), low);
  turn.low = f_add(w, turn.low, least);
  pair_t r = two_product(w, turn.high, dt__math_f(w, HALF_PI_1));
  r.low = dt__math_fma(w, turn.high, dt__math_f(w, HALF_PI_2), r.low);
  out.r.high = r.high;
  out.r.low = dt__math_fma(w, turn.low, dt__math_f(w, HALF_PI_1), r.low);
  return out;
}

// `x` is of double; `narrow` says that it was a float, and that one double is enough for r.
static reduced_t reduce(const dt_math_build_t *w, dt_val_t x, bool narrow) {
  reduced_t moderate = reduce_moderate(w, x, narrow);
  reduced_t huge = narrow ? reduce_huge_narrow(w, x) : reduce_huge_wide(w, x);
  dt_val_t is_huge = f_is(w, LLVMRealOGE, f_abs(w, x), HUGE_FROM);
  reduced_t out;
  out.r.high = f_sel(w, is_huge, huge.r.high, moderate.r.high);
  out.r.low = narrow ? NULL : f_sel(w, is_huge, huge.r.low, moderate.r.low);
  out.n = f_sel(w, is_huge, huge.n, moderate.n);
  return out;
}

// sin r and cos r for |r| <= pi/4; r.low may be NULL.
static void sin_cos_kernel(const dt_math_build_t *b, pair_t r, dt_val_t *out_sin,
                           dt_val_t *out_cos) {
  dt_val_t one = dt__math_f(b, 1.0), half = dt__math_f(b, 0.5);
  dt_val_t z = f_mul(b, r.high, r.high);
  dt_val_t s =
      b->wide ? dt__math_poly(b, z, dt__math_sin_f64, 6) : dt__math_poly(b, z, dt__math_sin_f32, 3);
  dt_val_t c =
      b->wide ? dt__math_poly(b, z, dt__math_cos_f64, 6) : dt__math_poly(b, z, dt__math_cos_f32, 3);
  dt_val_t rz = f_mul(b, r.high, z), zz = f_mul(b, z, z);
  dt_val_t half_z = f_mul(b, z, half);
  dt_val_t top = f_sub(b, one, half_z);
  // 1 - z/2 and the error of its subtraction.
  dt_val_t lost = f_sub(b, f_sub(b, one, top), half_z);
  dt_val_t cos_tail = dt__math_fma(b, zz, c, lost);
  dt_val_t sin_tail = f_mul(b, rz, s);
  if (r.low) {
    cos_tail = f_sub(b, cos_tail, f_mul(b, r.high, r.low));
    sin_tail = f_add(b, sin_tail, f_mul(b, r.low, top));
  }
  *out_sin = f_add(b, r.high, sin_tail);
  *out_cos = f_add(b, top, cos_tail);
}

// sin (x + quarter pi/2).
static dt_val_t sin_turned(const dt_math_build_t *b, dt_val_t x, int64_t quarter) {
  dt_math_build_t w;
  dt__math_build_widen(&w, b);
  reduced_t red = reduce(&w, b->wide ? x : dt__math_extend(&w, x), !b->wide);
  pair_t r = red.r;
  dt_val_t n = red.n;
  if (!b->wide) {
    r.high = dt__math_truncate(b, r.high);
    n = LLVMBuildTrunc(b->at, n, b->bits, "");
  }
  if (quarter)
    n = i_add(b, n, dt__math_i(b, quarter));
  dt_val_t s, c;
  sin_cos_kernel(b, r, &s, &c);
  dt_val_t odd = LLVMBuildICmp(b->at, LLVMIntNE, i_and(b, n, 1), dt__math_i(b, 0), "");
  dt_val_t sign = i_shl(b, i_and(b, n, 2), b->wide ? 62 : 30);
  dt_val_t y = to_bits(b, f_sel(b, odd, c, s));
  return from_bits(b, LLVMBuildXor(b->at, y, sign, ""));
}

// A zero is answered itself, which keeps its sign.
dt_val_t dt__math_sin(const dt_math_build_t *b, dt_val_t x) {
  dt_val_t y = sin_turned(b, x, 0);
  return f_sel(b, f_is(b, LLVMRealOEQ, x, 0.0), x, y);
}

dt_val_t dt__math_cos(const dt_math_build_t *b, dt_val_t x) { return sin_turned(b, x, 1); }

dt_val_t dt__math_tan(const dt_math_build_t *b, dt_val_t x) {
  dt_math_build_t w;
  dt__math_build_widen(&w, b);
  reduced_t red = reduce(&w, b->wide ? x : dt__math_extend(&w, x), !b->wide);
  dt_val_t s, c;
  sin_cos_kernel(&w, red.r, &s, &c);
  dt_val_t odd = LLVMBuildICmp(b->at, LLVMIntNE, i_and(&w, red.n, 1), dt__math_i(&w, 0), "");
  dt_val_t y = f_div(&w, f_sel(&w, odd, f_neg(&w, c), s), f_sel(&w, odd, s, c));
  if (!b->wide)
    y = dt__math_truncate(b, y);
  return f_sel(b, f_is(b, LLVMRealOEQ, x, 0.0), x, y);
}
