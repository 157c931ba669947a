// SPDX-License-Identifier: Apache-2.0
// Types, constants and intrinsics for the emitters of elementary functions.
#include "backend_llvm/emit/math_build.h"

#include <string.h>

static void set_types(dt_math_build_t *b, bool wide) {
  LLVMTypeRef fp = wide ? LLVMDoubleTypeInContext(b->context) : LLVMFloatTypeInContext(b->context);
  LLVMTypeRef bits = wide ? LLVMInt64TypeInContext(b->context) : LLVMInt32TypeInContext(b->context);
  b->wide = wide;
  b->mantissa = wide ? 52 : 23;
  b->bias = wide ? 1023 : 127;
  b->fp = b->lanes ? LLVMVectorType(fp, b->lanes) : fp;
  b->bits = b->lanes ? LLVMVectorType(bits, b->lanes) : bits;
}

void dt__math_build_init(dt_math_build_t *b, const dt_emit_math_t *m, LLVMTypeRef type) {
  b->fast = m->fast;
  bool vector = LLVMGetTypeKind(type) == LLVMVectorTypeKind;
  LLVMTypeRef element = vector ? LLVMGetElementType(type) : type;
  b->context = m->context;
  b->module = m->module;
  b->at = m->builder;
  b->lanes = vector ? LLVMGetVectorSize(type) : 0;
  set_types(b, LLVMGetTypeKind(element) == LLVMDoubleTypeKind);
}

void dt__math_build_widen(dt_math_build_t *out_wide, const dt_math_build_t *b) {
  *out_wide = *b;
  set_types(out_wide, true);
}

// Written as an insertion into lane 0 and a shuffle, for any number of lanes; the builder folds
// both.
static dt_val_t splat(const dt_math_build_t *b, dt_val_t scalar) {
  if (!b->lanes)
    return scalar;
  LLVMTypeRef i32 = LLVMInt32TypeInContext(b->context);
  dt_val_t empty = LLVMGetPoison(LLVMVectorType(LLVMTypeOf(scalar), b->lanes));
  dt_val_t first = LLVMBuildInsertElement(b->at, empty, scalar, LLVMConstInt(i32, 0, 0), "");
  dt_val_t zeros = LLVMConstNull(LLVMVectorType(i32, b->lanes));
  return LLVMBuildShuffleVector(b->at, first, empty, zeros, "");
}

dt_val_t dt__math_f(const dt_math_build_t *b, double value) {
  LLVMTypeRef type = b->lanes ? LLVMGetElementType(b->fp) : b->fp;
  return splat(b, LLVMConstReal(type, value));
}

dt_val_t dt__math_i(const dt_math_build_t *b, int64_t value) {
  LLVMTypeRef type = b->lanes ? LLVMGetElementType(b->bits) : b->bits;
  uint64_t mask = b->wide ? UINT64_MAX : UINT32_MAX;
  return splat(b, LLVMConstInt(type, (uint64_t)value & mask, 0));
}

static dt_val_t call(const dt_math_build_t *b, const char *name, dt_val_t *args, uint32_t n) {
  uint32_t id = LLVMLookupIntrinsicID(name, strlen(name));
  LLVMTypeRef overload = b->fp;
  dt_val_t fn = LLVMGetIntrinsicDeclaration(b->module, id, &overload, 1);
  LLVMTypeRef type = LLVMIntrinsicGetType(b->context, id, &overload, 1);
  return LLVMBuildCall2(b->at, type, fn, args, n, "");
}

dt_val_t dt__math_fma(const dt_math_build_t *b, dt_val_t x, dt_val_t y, dt_val_t z) {
  return call(b, "llvm.fma", (dt_val_t[]){x, y, z}, 3);
}

dt_val_t dt__math_unary(const dt_math_build_t *b, const char *intrinsic, dt_val_t x) {
  return call(b, intrinsic, &x, 1);
}

dt_val_t dt__math_copysign(const dt_math_build_t *b, dt_val_t magnitude, dt_val_t sign) {
  return call(b, "llvm.copysign", (dt_val_t[]){magnitude, sign}, 2);
}

dt_val_t dt__math_poly(const dt_math_build_t *b, dt_val_t x, const double *coef, uint32_t n) {
  dt_val_t sum = dt__math_f(b, coef[n - 1]);
  for (uint32_t k = n - 1; k > 0; k--)
    sum = dt__math_fma(b, sum, x, dt__math_f(b, coef[k - 1]));
  return sum;
}

// Written so that x86's min and max instructions, which answer the second operand for NaN, fit.
// Those of devices with fast functions answer NaN.
dt_val_t dt__math_at_most(const dt_math_build_t *b, dt_val_t x, double limit) {
  dt_val_t y = dt__math_f(b, limit);
  if (b->fast && !b->wide)
    return call(b, "llvm.minimum", (dt_val_t[]){x, y}, 2);
  return f_sel(b, LLVMBuildFCmp(b->at, LLVMRealOLT, y, x, ""), y, x);
}

dt_val_t dt__math_at_least(const dt_math_build_t *b, dt_val_t x, double limit) {
  dt_val_t y = dt__math_f(b, limit);
  if (b->fast && !b->wide)
    return call(b, "llvm.maximum", (dt_val_t[]){x, y}, 2);
  return f_sel(b, LLVMBuildFCmp(b->at, LLVMRealOGT, y, x, ""), y, x);
}

dt_val_t dt__math_extend(const dt_math_build_t *wide, dt_val_t x) {
  return LLVMBuildFPExt(wide->at, x, wide->fp, "");
}

dt_val_t dt__math_truncate(const dt_math_build_t *narrow, dt_val_t x) {
  return LLVMBuildFPTrunc(narrow->at, x, narrow->fp, "");
}

double dt__math_magic(const dt_math_build_t *b) { return b->wide ? 0x1.8p52 : 0x1.8p23; }

dt_val_t dt__math_through_double(const dt_math_build_t *b, dt_val_t x,
                                 dt_val_t (*fn)(const dt_math_build_t *, dt_val_t)) {
  dt_math_build_t wide;
  dt__math_build_widen(&wide, b);
  return dt__math_truncate(b, fn(&wide, dt__math_extend(&wide, x)));
}

// An instruction that takes one float, lane by lane.
static dt_val_t fast_unary(const dt_math_build_t *b, const char *name, dt_val_t x) {
  uint32_t id = LLVMLookupIntrinsicID(name, strlen(name));
  LLVMTypeRef one = LLVMFloatTypeInContext(b->context);
  size_t overloads = LLVMIntrinsicIsOverloaded(id) ? 1 : 0;
  dt_val_t fn = LLVMGetIntrinsicDeclaration(b->module, id, &one, overloads);
  LLVMTypeRef type = LLVMIntrinsicGetType(b->context, id, &one, overloads);
  if (!b->lanes)
    return LLVMBuildCall2(b->at, type, fn, &x, 1, "");
  dt_val_t all = LLVMGetPoison(b->fp);
  for (uint32_t i = 0; i < b->lanes; i++) {
    dt_val_t at = LLVMConstInt(LLVMInt32TypeInContext(b->context), i, 0);
    dt_val_t lane = LLVMBuildExtractElement(b->at, x, at, "");
    lane = LLVMBuildCall2(b->at, type, fn, &lane, 1, "");
    all = LLVMBuildInsertElement(b->at, all, lane, at, "");
  }
  return all;
}

dt_val_t dt__math_fast_exp2(const dt_math_build_t *b, dt_val_t x) {
  return fast_unary(b, b->fast->exp2, x);
}

dt_val_t dt__math_fast_reciprocal(const dt_math_build_t *b, dt_val_t x) {
  return fast_unary(b, b->fast->reciprocal, x);
}

// A reciprocal of about the last place, and the quotient corrected by its own rest.
dt_val_t dt__math_div(const dt_math_build_t *b, dt_val_t x, dt_val_t y) {
  if (!b->fast || b->wide)
    return f_div(b, x, y);
  dt_val_t reciprocal = dt__math_fast_reciprocal(b, y);
  dt_val_t q = f_mul(b, x, reciprocal);
  dt_val_t rest = dt__math_fma(b, f_neg(b, q), y, x);
  return dt__math_fma(b, rest, reciprocal, q);
}
