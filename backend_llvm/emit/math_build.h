// SPDX-License-Identifier: Apache-2.0
// Shared by the emitters of elementary functions: a builder that knows the element type and lane
// count, so that one emitter serves float, double and vectors of both. Private to math*.c.
#ifndef DT_BACKEND_LLVM_EMIT_MATH_BUILD_H
#define DT_BACKEND_LLVM_EMIT_MATH_BUILD_H

#include <stdbool.h>
#include <stdint.h>

#include "backend_llvm/emit/math.h"

typedef LLVMValueRef dt_val_t;

typedef struct dt_math_build_t {
  LLVMContextRef context;
  LLVMModuleRef module;
  LLVMBuilderRef at;
  LLVMTypeRef fp;             // the value's type
  LLVMTypeRef bits;           // integers of the same width and lanes
  uint32_t lanes;             // 0 for a scalar
  bool wide;                  // double
  const dt_fast_math_t *fast; // as dt_emit_math_t says
  uint32_t mantissa;          // stored bits
  int64_t bias;
} dt_math_build_t;

void dt__math_build_init(dt_math_build_t *b, const dt_emit_math_t *m, LLVMTypeRef type);
// The same lanes and position, elements of double.
void dt__math_build_widen(dt_math_build_t *out_wide, const dt_math_build_t *b);

dt_val_t dt__math_f(const dt_math_build_t *b, double value); // splat; must be exact in the type
dt_val_t dt__math_i(const dt_math_build_t *b, int64_t value);
dt_val_t dt__math_fma(const dt_math_build_t *b, dt_val_t x, dt_val_t y, dt_val_t z);
dt_val_t dt__math_unary(const dt_math_build_t *b, const char *intrinsic, dt_val_t x);
dt_val_t dt__math_copysign(const dt_math_build_t *b, dt_val_t magnitude, dt_val_t sign);
// coef[0] + x (coef[1] + x (…)), by fused multiply-adds.
dt_val_t dt__math_poly(const dt_math_build_t *b, dt_val_t x, const double *coef, uint32_t n);
// The lesser of x and limit, or x where it is NaN; the greater.
dt_val_t dt__math_at_most(const dt_math_build_t *b, dt_val_t x, double limit);
dt_val_t dt__math_at_least(const dt_math_build_t *b, dt_val_t x, double limit);
// Float to double and back, lane by lane.
dt_val_t dt__math_extend(const dt_math_build_t *wide, dt_val_t x);
dt_val_t dt__math_truncate(const dt_math_build_t *narrow, dt_val_t x);

// Of floats, where there are fast ones (dt_fast_math_t).
dt_val_t dt__math_fast_exp2(const dt_math_build_t *b, dt_val_t x);
dt_val_t dt__math_fast_reciprocal(const dt_math_build_t *b, dt_val_t x);

// Emits `fn` on doubles for a float argument; its error then vanishes in the last rounding.
dt_val_t dt__math_through_double(const dt_math_build_t *b, dt_val_t x,
                                 dt_val_t (*fn)(const dt_math_build_t *, dt_val_t));

static inline dt_val_t f_add(const dt_math_build_t *b, dt_val_t x, dt_val_t y) {
  return LLVMBuildFAdd(b->at, x, y, "");
}
static inline dt_val_t f_sub(const dt_math_build_t *b, dt_val_t x, dt_val_t y) {
  return LLVMBuildFSub(b->at, x, y, "");
}
static inline dt_val_t f_mul(const dt_math_build_t *b, dt_val_t x, dt_val_t y) {
  return LLVMBuildFMul(b->at, x, y, "");
}
static inline dt_val_t f_div(const dt_math_build_t *b, dt_val_t x, dt_val_t y) {
  return LLVMBuildFDiv(b->at, x, y, "");
}
// The same within one unit in the last place, for a finite y in [1, 2^100] and a quotient that is
// not denormal.
dt_val_t dt__math_div(const dt_math_build_t *b, dt_val_t x, dt_val_t y);
static inline dt_val_t f_neg(const dt_math_build_t *b, dt_val_t x) {
  return LLVMBuildFNeg(b->at, x, "");
}
// x * y - z with one rounding; the error of a product when z is that product rounded.
static inline dt_val_t f_fms(const dt_math_build_t *b, dt_val_t x, dt_val_t y, dt_val_t z) {
  return dt__math_fma(b, x, y, f_neg(b, z));
}
static inline dt_val_t f_is(const dt_math_build_t *b, LLVMRealPredicate p, dt_val_t x, double y) {
  return LLVMBuildFCmp(b->at, p, x, dt__math_f(b, y), "");
}
static inline dt_val_t f_sel(const dt_math_build_t *b, dt_val_t c, dt_val_t x, dt_val_t y) {
  return LLVMBuildSelect(b->at, c, x, y, "");
}
static inline dt_val_t f_abs(const dt_math_build_t *b, dt_val_t x) {
  return dt__math_unary(b, "llvm.fabs", x);
}
static inline dt_val_t f_sqrt(const dt_math_build_t *b, dt_val_t x) {
  return dt__math_unary(b, "llvm.sqrt", x);
}
static inline dt_val_t f_rint(const dt_math_build_t *b, dt_val_t x) {
  return dt__math_unary(b, "llvm.rint", x);
}
static inline dt_val_t i_add(const dt_math_build_t *b, dt_val_t x, dt_val_t y) {
  return LLVMBuildAdd(b->at, x, y, "");
}
static inline dt_val_t i_sub(const dt_math_build_t *b, dt_val_t x, dt_val_t y) {
  return LLVMBuildSub(b->at, x, y, "");
}
static inline dt_val_t i_and(const dt_math_build_t *b, dt_val_t x, int64_t y) {
  return LLVMBuildAnd(b->at, x, dt__math_i(b, y), "");
}
static inline dt_val_t i_shl(const dt_math_build_t *b, dt_val_t x, uint32_t n) {
  return LLVMBuildShl(b->at, x, dt__math_i(b, n), "");
}
static inline dt_val_t i_shr(const dt_math_build_t *b, dt_val_t x, uint32_t n) {
  return LLVMBuildLShr(b->at, x, dt__math_i(b, n), "");
}
static inline dt_val_t i_sar(const dt_math_build_t *b, dt_val_t x, uint32_t n) {
  return LLVMBuildAShr(b->at, x, dt__math_i(b, n), "");
}
static inline dt_val_t to_bits(const dt_math_build_t *b, dt_val_t x) {
  return LLVMBuildBitCast(b->at, x, b->bits, "");
}
static inline dt_val_t from_bits(const dt_math_build_t *b, dt_val_t x) {
  return LLVMBuildBitCast(b->at, x, b->fp, "");
}

// One emitter a row of math_table.def.
#define MATH(id, name, ulp_f32, ulp_f64)                                                           \
  dt_val_t dt__math_##name(const dt_math_build_t *b, dt_val_t x);
#include "backend_llvm/emit/math_table.def"

// 1.5 * 2^mantissa: added to a number of small magnitude, it leaves the nearest integer in the low
// bits of the sum.
double dt__math_magic(const dt_math_build_t *b);

// expm1 of r = x - n ln2 for the integer n nearest x / ln2, and n + offset in the low bits of
// *out_n (the bits above are those of dt__math_magic). x is within the range where n fits.
dt_val_t dt__math_exp_reduced(const dt_math_build_t *b, dt_val_t x, int64_t offset,
                              dt_val_t *out_n);
// expm1(r) for |r| <= ln2 / 2.
dt_val_t dt__math_exp_poly(const dt_math_build_t *b, dt_val_t r);
// (1 + p) 2^n from n + 2 bias as above; overflows to infinity, rounds once into the denormals.
dt_val_t dt__math_exp_scale(const dt_math_build_t *b, dt_val_t p, dt_val_t n);

// x = m 2^e with m in [2/3, 4/3); *out_e as a float. Zero, negatives, inf and NaN give anything.
dt_val_t dt__math_log_split(const dt_math_build_t *b, dt_val_t x, dt_val_t *out_e);

#endif
