// SPDX-License-Identifier: Apache-2.0
// pow. |x|^y = 2^(y log2 |x|). Float takes double's log2 and exp2. Double needs log2 to about 2^-64
// relative, since the exponent reaches 1075: it is computed as an unevaluated sum of two doubles.
#include "backend_llvm/emit/math_build.h"
#include "backend_llvm/emit/math_coef.h"

typedef struct pair_t {
  dt_val_t high, low;
} pair_t;

// |high| >= |low| or high = 0.
static pair_t renormal(const dt_math_build_t *b, dt_val_t high, dt_val_t low) {
  dt_val_t sum = f_add(b, high, low);
  return (pair_t){sum, f_sub(b, low, f_sub(b, sum, high))};
}

static pair_t product(const dt_math_build_t *b, pair_t x, pair_t y) {
  dt_val_t p = f_mul(b, x.high, y.high);
  dt_val_t e = f_fms(b, x.high, y.high, p);
  e = dt__math_fma(b, x.high, y.low, e);
  e = dt__math_fma(b, x.low, y.high, e);
  return renormal(b, p, e);
}

static pair_t constant(const dt_math_build_t *b, double high, double low) {
  return (pair_t){dt__math_f(b, high), dt__math_f(b, low)};
}

// log2 of a positive finite x. log m = 2 atanh s = 2s (1 + z/3 + z^2 B(z)), s = (m-1) / (m+1).
static pair_t log2_pair(const dt_math_build_t *b, dt_val_t x) {
  dt_val_t one = dt__math_f(b, 1.0);
  dt_val_t e;
  dt_val_t m = dt__math_log_split(b, x, &e);
  dt_val_t f = f_sub(b, m, one), d = f_add(b, m, one);
  dt_val_t d_low = f_sub(b, m, f_sub(b, d, one));
  pair_t s;
  s.high = f_div(b, f, d);
  dt_val_t rest = dt__math_fma(b, f_neg(b, s.high), d, f);
  rest = dt__math_fma(b, f_neg(b, s.high), d_low, rest);
  s.low = f_div(b, rest, d);
  pair_t z = product(b, s, s);
  pair_t a = product(b, z, constant(b, 0x1.5555555555555p-2, 0x1.5555555555555p-56));
  dt_val_t tail = f_mul(b, f_mul(b, z.high, z.high), dt__math_poly(b, z.high, dt__math_pow_f64, 9));
  a = renormal(b, a.high, f_add(b, a.low, tail));
  pair_t factor = renormal(b, one, a.high);
  factor.low = f_add(b, factor.low, a.low);
  // 2 / ln2 as a pair.
  pair_t l = product(b, s, constant(b, 0x1.71547652b82fep1, 0x1.777d0ffda0d24p-55));
  l = product(b, l, factor);
  // |e| is 0 or above |l|; for 0 the sum is l itself.
  pair_t sum = renormal(b, e, l.high);
  return renormal(b, sum.high, f_add(b, sum.low, l.low));
}

// x^y for x > 0 finite, through pairs.
static dt_val_t pow_f64(const dt_math_build_t *b, dt_val_t a, dt_val_t y) {
  pair_t l = log2_pair(b, a);
  dt_val_t high = f_mul(b, y, l.high);
  dt_val_t low = dt__math_fma(b, y, l.low, f_fms(b, y, l.high, high));
  // Past the thresholds the low part is noise, or NaN from infinities.
  dt_val_t inside = f_is(b, LLVMRealOLT, f_abs(b, high), 1100.0);
  low = f_sel(b, inside, low, dt__math_f(b, 0.0));
  high = dt__math_at_most(b, dt__math_at_least(b, high, -1090.0), 1090.0);
  dt_val_t magic = dt__math_f(b, dt__math_magic(b) + (double)(2 * b->bias));
  dt_val_t t = f_add(b, high, magic);
  dt_val_t r = f_add(b, f_sub(b, high, f_sub(b, t, magic)), low);
  r = f_mul(b, r, dt__math_f(b, 0x1.62e42fefa39efp-1));
  return dt__math_exp_scale(b, dt__math_exp_poly(b, r), to_bits(b, t));
}

// x^y for x > 0 finite, both floats.
static dt_val_t pow_f32(const dt_math_build_t *b, dt_val_t a, dt_val_t y) {
  dt_math_build_t w;
  dt__math_build_widen(&w, b);
  dt_val_t l = dt__math_log2(&w, dt__math_extend(&w, a));
  dt_val_t p = dt__math_exp2(&w, f_mul(&w, l, dt__math_extend(&w, y)));
  return dt__math_truncate(b, p);
}

// The rules of C's Annex F around the finite positive core.
static dt_val_t pow_rules(const dt_math_build_t *b, dt_val_t x, dt_val_t y, dt_val_t core) {
  double infinity = __builtin_inf();
  dt_val_t zero = dt__math_f(b, 0.0), one = dt__math_f(b, 1.0);
  dt_val_t inf = dt__math_f(b, infinity), nan = dt__math_f(b, __builtin_nan(""));
  dt_val_t a = f_abs(b, x);
  dt_val_t y_negative = f_is(b, LLVMRealOLT, y, 0.0);
  // 0 and inf to any power but 0 and NaN.
  dt_val_t of_zero = f_sel(b, y_negative, inf, zero), of_inf = f_sel(b, y_negative, zero, inf);
  dt_val_t p = f_sel(b, f_is(b, LLVMRealOEQ, a, 0.0), of_zero, core);
  p = f_sel(b, f_is(b, LLVMRealOEQ, a, infinity), of_inf, p);
  p = f_sel(b, f_is(b, LLVMRealOEQ, a, 1.0), one, p);
  // A negative x: the sign for odd y, NaN for a finite x and no integer y.
  dt_val_t half = f_mul(b, y, dt__math_f(b, 0.5));
  dt_val_t whole = LLVMBuildFCmp(b->at, LLVMRealOEQ, f_rint(b, y), y, "");
  dt_val_t half_broken = LLVMBuildFCmp(b->at, LLVMRealONE, f_rint(b, half), half, "");
  dt_val_t odd = LLVMBuildAnd(b->at, whole, half_broken, "");
  p = f_sel(b, odd, dt__math_copysign(b, p, x), p);
  dt_val_t finite_negative =
      LLVMBuildAnd(b->at, f_is(b, LLVMRealOLT, x, 0.0), f_is(b, LLVMRealOGT, x, -infinity), "");
  dt_val_t broken = LLVMBuildNot(b->at, whole, "");
  p = f_sel(b, LLVMBuildAnd(b->at, finite_negative, broken, ""), nan, p);
  // A NaN operand, unless the other one decides alone.
  p = f_sel(b, LLVMBuildFCmp(b->at, LLVMRealUNO, x, y, ""), nan, p);
  dt_val_t decided =
      LLVMBuildOr(b->at, f_is(b, LLVMRealOEQ, x, 1.0), f_is(b, LLVMRealOEQ, y, 0.0), "");
  return f_sel(b, decided, one, p);
}

LLVMValueRef dt__emit_pow(const dt_emit_math_t *m, LLVMValueRef x, LLVMValueRef y) {
  dt_math_build_t b;
  dt__math_build_init(&b, m, LLVMTypeOf(x));
  dt_val_t a = f_abs(&b, x);
  dt_val_t core = b.wide ? pow_f64(&b, a, y) : pow_f32(&b, a, y);
  return pow_rules(&b, x, y, core);
}
