// SPDX-License-Identifier: Apache-2.0
// Code for each row of scalar_ops.def, over scalars and vectors of any dtype. Nothing traps and
// nothing is poison: divisors are made safe before they are used, casts saturate. Float operations
// carry no fast-math flag and no contraction. Each result is rounded, so a difference of equal
// results is 0 and no value depends on fusion. Multiply-adds are used only in sums of products, in
// reductions and templates (dt__emit_mul_add).
#include "backend_llvm/emit/context.h"
#include "backend_llvm/emit/half.h"

#include <float.h>
#include <math.h>

typedef LLVMValueRef (*scalar_fn_t)(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef *args);

static bool is_float(dt_dtype_t dtype) { return dt__dtype_is_float(dtype); }
static bool is_signed(dt_dtype_t dtype) { return dt__dtype_kind(dtype) == DT_KIND_SINT; }

static LLVMValueRef zero_like(LLVMValueRef x) { return LLVMConstNull(LLVMTypeOf(x)); }

static LLVMValueRef compare(dt_emit_t *m, dt_dtype_t dtype, LLVMRealPredicate real,
                            LLVMIntPredicate sign, LLVMIntPredicate unsign, LLVMValueRef a,
                            LLVMValueRef b) {
  if (is_float(dtype))
    return LLVMBuildFCmp(m->b, real, a, b, "");
  return LLVMBuildICmp(m->b, is_signed(dtype) ? sign : unsign, a, b, "");
}

static LLVMValueRef less(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef a, LLVMValueRef b) {
  return compare(m, dtype, LLVMRealOLT, LLVMIntSLT, LLVMIntULT, a, b);
}

static LLVMValueRef pick(dt_emit_t *m, LLVMValueRef c, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildSelect(m->b, c, a, b, "");
}

// ---- Arithmetic --------------------------------------------------------------------------------------
static LLVMValueRef op_neg(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef *a) {
  return is_float(dtype) ? LLVMBuildFNeg(m->b, a[0], "") : LLVMBuildNeg(m->b, a[0], "");
}

static LLVMValueRef op_abs(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef *a) {
  if (is_float(dtype))
    return dt__emit_intrinsic1(m, "llvm.fabs", a[0]);
  if (!is_signed(dtype))
    return a[0];
  LLVMValueRef negative = less(m, dtype, a[0], zero_like(a[0]));
  if (!m->device)
    return pick(m, negative, LLVMBuildNeg(m->b, a[0], ""), a[0]);
  // x - 2 min(x, 0). Of PTX's abs, ptxas takes it that no result is negative, and drops the abs of
  // a float made of it; the least integer is its own abs here.
  LLVMValueRef below = pick(m, negative, a[0], zero_like(a[0]));
  return LLVMBuildSub(m->b, a[0], LLVMBuildAdd(m->b, below, below, ""), "");
}

static LLVMValueRef op_sign(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef *a) {
  LLVMTypeRef type = LLVMTypeOf(a[0]);
  LLVMValueRef zero = zero_like(a[0]);
  bool f = is_float(dtype);
  LLVMValueRef one = f ? dt__emit_float(type, 1) : dt__emit_int(type, 1);
  LLVMValueRef minus = f ? dt__emit_float(type, -1) : dt__emit_int(type, -1);
  LLVMValueRef rest = zero; // NaN stays, -0 becomes 0
  if (f)
    rest = pick(m, LLVMBuildFCmp(m->b, LLVMRealUNO, a[0], a[0], ""), a[0], zero);
  rest = pick(m, less(m, dtype, zero, a[0]), one, rest);
  return dt__dtype_is_signed(dtype) ? pick(m, less(m, dtype, a[0], zero), minus, rest) : rest;
}

static LLVMValueRef op_add(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef *a) {
  return is_float(dtype) ? LLVMBuildFAdd(m->b, a[0], a[1], "") : LLVMBuildAdd(m->b, a[0], a[1], "");
}

static LLVMValueRef op_sub(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef *a) {
  return is_float(dtype) ? LLVMBuildFSub(m->b, a[0], a[1], "") : LLVMBuildSub(m->b, a[0], a[1], "");
}

static LLVMValueRef op_mul(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef *a) {
  return is_float(dtype) ? LLVMBuildFMul(m->b, a[0], a[1], "") : LLVMBuildMul(m->b, a[0], a[1], "");
}

// Truncated quotient with x / 0 = 0 and lowest / -1 = lowest. Vectors have no integer division, so
// narrow ones go through floats wide enough for the quotient to be exact: the quotient of two
// n-bit integers, rounded to 2n bits or more, never reaches the next integer.
static LLVMValueRef narrow_quotient(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef a,
                                    LLVMValueRef b) {
  LLVMTypeRef type = LLVMTypeOf(a);
  LLVMTypeRef real = dt__emit_like(a, dt_dtype_size(dtype) == 4 ? m->t_f64 : m->t_f32);
  LLVMTypeRef wide = dt__emit_like(a, dt_dtype_size(dtype) == 4 ? m->t_i64 : m->t_i32);
  bool s = is_signed(dtype);
  LLVMValueRef zero = LLVMBuildICmp(m->b, LLVMIntEQ, b, zero_like(b), "");
  b = pick(m, zero, dt__emit_int(type, 1), b);
  LLVMValueRef x = s ? LLVMBuildSIToFP(m->b, a, real, "") : LLVMBuildUIToFP(m->b, a, real, "");
  LLVMValueRef y = s ? LLVMBuildSIToFP(m->b, b, real, "") : LLVMBuildUIToFP(m->b, b, real, "");
  LLVMValueRef q = LLVMBuildFPToSI(m->b, LLVMBuildFDiv(m->b, x, y, ""), wide, "");
  return pick(m, zero, zero_like(a), LLVMBuildTrunc(m->b, q, type, ""));
}

static LLVMValueRef quotient(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef a, LLVMValueRef b) {
  if (dt__emit_lanes(LLVMTypeOf(a)) && dt_dtype_size(dtype) <= 4 && !LLVMIsConstant(b))
    return narrow_quotient(m, dtype, a, b);
  LLVMTypeRef type = LLVMTypeOf(a);
  LLVMValueRef one = dt__emit_int(type, 1);
  LLVMValueRef zero = LLVMBuildICmp(m->b, LLVMIntEQ, b, zero_like(b), "");
  if (!is_signed(dtype)) {
    LLVMValueRef q = LLVMBuildUDiv(m->b, a, pick(m, zero, one, b), "");
    return pick(m, zero, zero_like(a), q);
  }
  LLVMValueRef minus = LLVMBuildICmp(m->b, LLVMIntEQ, b, dt__emit_int(type, -1), "");
  LLVMValueRef safe = pick(m, LLVMBuildOr(m->b, zero, minus, ""), one, b);
  LLVMValueRef q = LLVMBuildSDiv(m->b, a, safe, "");
  q = pick(m, minus, LLVMBuildNeg(m->b, a, ""), q);
  return pick(m, zero, zero_like(a), q);
}

static LLVMValueRef op_div(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef *a) {
  return is_float(dtype) ? LLVMBuildFDiv(m->b, a[0], a[1], "") : quotient(m, dtype, a[0], a[1]);
}

// A repeated divisor d: with y = 1 / d rounded once, q = x y is corrected by its own rest,
// q + y (x - q d), which rounds as the true quotient does. Both are scaled by a power of two first
// where d is so small or large that y would leave the range; then the dividend's part of the range
// where that is inexact has quotients of 0 or infinity anyway. Where q is 0 or not finite, or d is
// 0, infinite or NaN, q itself is the answer.
dt_divisor_t dt__emit_divisor(dt_emit_t *m, LLVMValueRef divisor) {
  LLVMTypeRef type = LLVMTypeOf(divisor);
  LLVMTypeRef scalar = dt__emit_lanes(type) ? LLVMGetElementType(type) : type;
  bool wide = scalar == m->t_f64;
  double small = wide ? 0x1p-900 : 0x1p-100, up = wide ? 0x1p512 : 0x1p64;
  LLVMValueRef size = dt__emit_intrinsic1(m, "llvm.fabs", divisor);
  LLVMValueRef is_small = LLVMBuildFCmp(m->b, LLVMRealOLT, size, dt__emit_float(type, small), "");
  LLVMValueRef is_large =
      LLVMBuildFCmp(m->b, LLVMRealOGT, size, dt__emit_float(type, 1 / small), "");
  dt_divisor_t by;
  by.scale = pick(m, is_large, dt__emit_float(type, 1 / up), dt__emit_float(type, 1));
  by.scale = pick(m, is_small, dt__emit_float(type, up), by.scale);
  by.divisor = LLVMBuildFMul(m->b, divisor, by.scale, "");
  by.reciprocal = LLVMBuildFDiv(m->b, dt__emit_float(type, 1), by.divisor, "");
  LLVMValueRef scaled = dt__emit_intrinsic1(m, "llvm.fabs", by.divisor);
  LLVMValueRef nonzero = LLVMBuildFCmp(m->b, LLVMRealOGT, scaled, LLVMConstNull(type), "");
  LLVMValueRef infinity = dt__emit_float(type, __builtin_inf());
  LLVMValueRef finite = LLVMBuildFCmp(m->b, LLVMRealOLT, scaled, infinity, "");
  by.ordinary = LLVMBuildAnd(m->b, nonzero, finite, "");
  return by;
}

LLVMValueRef dt__emit_divide(dt_emit_t *m, LLVMValueRef x, const dt_divisor_t *by) {
  LLVMTypeRef type = LLVMTypeOf(x);
  x = LLVMBuildFMul(m->b, x, by->scale, "");
  LLVMValueRef q = LLVMBuildFMul(m->b, x, by->reciprocal, "");
  LLVMValueRef rest[3] = {LLVMBuildFNeg(m->b, q, ""), by->divisor, x};
  LLVMValueRef last[3] = {NULL, by->reciprocal, q};
  last[0] = dt__emit_intrinsic(m, "llvm.fma", &type, 1, rest, 3);
  LLVMValueRef better = dt__emit_intrinsic(m, "llvm.fma", &type, 1, last, 3);
  LLVMValueRef size = dt__emit_intrinsic1(m, "llvm.fabs", q);
  LLVMValueRef finite =
      LLVMBuildFCmp(m->b, LLVMRealOLT, size, dt__emit_float(type, __builtin_inf()), "");
  // A quotient of 0 is right as it is: its rest would lose the sign.
  LLVMValueRef nonzero = LLVMBuildFCmp(m->b, LLVMRealONE, q, LLVMConstNull(type), "");
  finite = LLVMBuildAnd(m->b, finite, nonzero, "");
  return pick(m, LLVMBuildAnd(m->b, finite, by->ordinary, ""), better, q);
}

// ---- Float remainder ---------------------------------------------------------------------------------
// double fmod(double a, double b), exact: from the largest b * 2^(50 n) below |a| downwards, each
// step takes a multiple away by one fused multiply-subtract whose result is representable. A
// quotient rounded up to the next integer leaves a small negative rest, which is made good.
//
//   r = |a|; d = |b|;  while (d * 2^50 <= r) d *= 2^50;
//   loop: r -= trunc(r / d) * d;  if (r < 0) r += d;  if (d == |b|) stop;  d *= 2^-50
static void fmod_body(dt_emit_t *m, LLVMValueRef fn) {
  LLVMValueRef a = LLVMGetParam(fn, 0), b = LLVMGetParam(fn, 1);
  LLVMBasicBlockRef entry = dt__emit_block(m, fn, "entry"), up = dt__emit_block(m, fn, "up");
  LLVMBasicBlockRef down = dt__emit_block(m, fn, "down"), next = dt__emit_block(m, fn, "next");
  LLVMBasicBlockRef done = dt__emit_block(m, fn, "done"), bad = dt__emit_block(m, fn, "bad");
  LLVMBasicBlockRef start = dt__emit_block(m, fn, "start");
  LLVMValueRef step = LLVMConstReal(m->t_f64, 0x1p50), back = LLVMConstReal(m->t_f64, 0x1p-50);
  LLVMPositionBuilderAtEnd(m->b, entry);
  LLVMValueRef x = dt__emit_intrinsic1(m, "llvm.fabs", a);
  LLVMValueRef y = dt__emit_intrinsic1(m, "llvm.fabs", b);
  LLVMValueRef finite = LLVMBuildFCmp(m->b, LLVMRealOLE, x, LLVMConstReal(m->t_f64, DBL_MAX), "");
  LLVMValueRef nonzero = LLVMBuildFCmp(m->b, LLVMRealOGT, y, LLVMConstNull(m->t_f64), "");
  LLVMBuildCondBr(m->b, LLVMBuildAnd(m->b, finite, nonzero, ""), start, bad);
  LLVMPositionBuilderAtEnd(m->b, bad);
  LLVMValueRef product = LLVMBuildFMul(m->b, a, b, "");
  LLVMBuildRet(m->b, LLVMBuildFDiv(m->b, product, product, ""));
  LLVMPositionBuilderAtEnd(m->b, start);
  LLVMBuildCondBr(m->b, LLVMBuildFCmp(m->b, LLVMRealOLT, x, y, ""), done, up);

  LLVMPositionBuilderAtEnd(m->b, up);
  LLVMValueRef d = LLVMBuildPhi(m->b, m->t_f64, "");
  LLVMValueRef d_up = LLVMBuildFMul(m->b, d, step, "");
  LLVMValueRef more = LLVMBuildFCmp(m->b, LLVMRealOLE, d_up, x, "");
  LLVMBuildCondBr(m->b, more, up, down);
  LLVMAddIncoming(d, (LLVMValueRef[]){y, d_up}, (LLVMBasicBlockRef[]){start, up}, 2);

  LLVMPositionBuilderAtEnd(m->b, down);
  LLVMValueRef r = LLVMBuildPhi(m->b, m->t_f64, ""), e = LLVMBuildPhi(m->b, m->t_f64, "");
  LLVMValueRef q = dt__emit_intrinsic1(m, "llvm.trunc", LLVMBuildFDiv(m->b, r, e, ""));
  LLVMValueRef fma[3] = {LLVMBuildFNeg(m->b, q, ""), e, r};
  LLVMTypeRef type = m->t_f64;
  LLVMValueRef rest = dt__emit_intrinsic(m, "llvm.fma", &type, 1, fma, 3);
  LLVMValueRef below = LLVMBuildFCmp(m->b, LLVMRealOLT, rest, LLVMConstNull(m->t_f64), "");
  rest = pick(m, below, LLVMBuildFAdd(m->b, rest, e, ""), rest);
  LLVMBuildCondBr(m->b, LLVMBuildFCmp(m->b, LLVMRealOLE, e, y, ""), done, next);
  LLVMPositionBuilderAtEnd(m->b, next);
  LLVMValueRef e_down = LLVMBuildFMul(m->b, e, back, "");
  LLVMBuildBr(m->b, down);
  LLVMAddIncoming(r, (LLVMValueRef[]){x, rest}, (LLVMBasicBlockRef[]){up, next}, 2);
  LLVMAddIncoming(e, (LLVMValueRef[]){d, e_down}, (LLVMBasicBlockRef[]){up, next}, 2);

  LLVMPositionBuilderAtEnd(m->b, done);
  LLVMValueRef result = LLVMBuildPhi(m->b, m->t_f64, "");
  LLVMAddIncoming(result, (LLVMValueRef[]){x, rest}, (LLVMBasicBlockRef[]){start, down}, 2);
  LLVMBuildRet(m->b, dt__emit_intrinsic2(m, "llvm.copysign", result, a));
}

static LLVMValueRef fmod_one(dt_emit_t *m, LLVMValueRef a, LLVMValueRef b) {
  LLVMTypeRef params[2] = {m->t_f64, m->t_f64};
  LLVMTypeRef type = LLVMFunctionType(m->t_f64, params, 2, 0);
  if (!m->fn_fmod) {
    LLVMBasicBlockRef at = LLVMGetInsertBlock(m->b);
    m->fn_fmod = dt__emit_function(m, "dt_fmod", type, false);
    fmod_body(m, m->fn_fmod);
    dt__emit_resume(m, at);
  }
  LLVMTypeRef scalar = LLVMTypeOf(a);
  if (scalar == m->t_f32) {
    a = LLVMBuildFPExt(m->b, a, m->t_f64, "");
    b = LLVMBuildFPExt(m->b, b, m->t_f64, "");
  }
  LLVMValueRef r = LLVMBuildCall2(m->b, type, m->fn_fmod, (LLVMValueRef[]){a, b}, 2, "");
  return scalar == m->t_f32 ? LLVMBuildFPTrunc(m->b, r, m->t_f32, "") : r;
}

static LLVMValueRef float_remainder(dt_emit_t *m, LLVMValueRef a, LLVMValueRef b) {
  uint32_t lanes = dt__emit_lanes(LLVMTypeOf(a));
  if (!lanes)
    return fmod_one(m, a, b);
  LLVMValueRef all = LLVMGetPoison(LLVMTypeOf(a));
  for (uint32_t i = 0; i < lanes; i++) {
    LLVMValueRef at = dt__emit_i64(m, i);
    LLVMValueRef one = fmod_one(m, LLVMBuildExtractElement(m->b, a, at, ""),
                                LLVMBuildExtractElement(m->b, b, at, ""));
    all = LLVMBuildInsertElement(m->b, all, one, at, "");
  }
  return all;
}

static LLVMValueRef op_fmod(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef *a) {
  if (is_float(dtype))
    return float_remainder(m, a[0], a[1]);
  LLVMValueRef product = LLVMBuildMul(m->b, quotient(m, dtype, a[0], a[1]), a[1], "");
  LLVMValueRef rest = LLVMBuildSub(m->b, a[0], product, "");
  LLVMValueRef zero = LLVMBuildICmp(m->b, LLVMIntEQ, a[1], zero_like(a[1]), "");
  return pick(m, zero, zero_like(rest), rest);
}

// The remainder towards zero, moved by one divisor where it is not 0 and has the other sign.
static LLVMValueRef op_mod(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef *a) {
  LLVMValueRef rest = op_fmod(m, dtype, a);
  if (!dt__dtype_is_signed(dtype))
    return rest;
  LLVMValueRef zero = zero_like(rest);
  LLVMValueRef differ =
      LLVMBuildXor(m->b, less(m, dtype, rest, zero), less(m, dtype, a[1], zero), "");
  LLVMValueRef nonzero = compare(m, dtype, LLVMRealONE, LLVMIntNE, LLVMIntNE, rest, zero);
  LLVMValueRef moved =
      is_float(dtype) ? LLVMBuildFAdd(m->b, rest, a[1], "") : LLVMBuildAdd(m->b, rest, a[1], "");
  rest = pick(m, LLVMBuildAnd(m->b, differ, nonzero, ""), moved, rest);
  if (!is_float(dtype))
    return rest;
  LLVMValueRef no_rest = LLVMBuildFCmp(m->b, LLVMRealOEQ, rest, zero, "");
  return pick(m, no_rest, dt__emit_intrinsic2(m, "llvm.copysign", zero, a[1]), rest);
}

// ---- Integer powers -----------------------------------------------------------------------------------
// uint64_t power(uint64_t a, uint64_t b), modulo 2^64:
//   for (p = 1; b; b >>= 1, a *= a) if (b & 1) p *= a;
static void power_body(dt_emit_t *m, LLVMValueRef fn) {
  LLVMBasicBlockRef entry = dt__emit_block(m, fn, "entry"), test = dt__emit_block(m, fn, "test");
  LLVMBasicBlockRef next = dt__emit_block(m, fn, "next"), done = dt__emit_block(m, fn, "done");
  LLVMValueRef one = dt__emit_i64(m, 1), zero = dt__emit_i64(m, 0);
  LLVMPositionBuilderAtEnd(m->b, entry);
  LLVMBuildBr(m->b, test);
  LLVMPositionBuilderAtEnd(m->b, test);
  LLVMValueRef p = LLVMBuildPhi(m->b, m->t_i64, ""), a = LLVMBuildPhi(m->b, m->t_i64, "");
  LLVMValueRef b = LLVMBuildPhi(m->b, m->t_i64, "");
  LLVMBuildCondBr(m->b, LLVMBuildICmp(m->b, LLVMIntNE, b, zero, ""), next, done);
  LLVMPositionBuilderAtEnd(m->b, next);
  LLVMValueRef low = LLVMBuildAnd(m->b, b, one, "");
  LLVMValueRef odd = LLVMBuildICmp(m->b, LLVMIntNE, low, zero, "");
  LLVMValueRef by = pick(m, odd, a, one);
  LLVMBasicBlockRef from[2] = {entry, next};
  LLVMValueRef ps[2] = {one, LLVMBuildMul(m->b, p, by, "")};
  LLVMValueRef as[2] = {LLVMGetParam(fn, 0), LLVMBuildMul(m->b, a, a, "")};
  LLVMValueRef bs[2] = {LLVMGetParam(fn, 1), LLVMBuildLShr(m->b, b, one, "")};
  LLVMAddIncoming(p, ps, from, 2);
  LLVMAddIncoming(a, as, from, 2);
  LLVMAddIncoming(b, bs, from, 2);
  LLVMBuildBr(m->b, test);
  LLVMPositionBuilderAtEnd(m->b, done);
  LLVMBuildRet(m->b, p);
}

static LLVMValueRef power_one(dt_emit_t *m, LLVMValueRef a, LLVMValueRef b) {
  LLVMTypeRef params[2] = {m->t_i64, m->t_i64};
  LLVMTypeRef type = LLVMFunctionType(m->t_i64, params, 2, 0);
  if (!m->fn_power) {
    LLVMBasicBlockRef at = LLVMGetInsertBlock(m->b);
    m->fn_power = dt__emit_function(m, "dt_power", type, false);
    power_body(m, m->fn_power);
    dt__emit_resume(m, at);
  }
  return LLVMBuildCall2(m->b, type, m->fn_power, (LLVMValueRef[]){a, b}, 2, "");
}

// Lane by lane.
static LLVMValueRef powers(dt_emit_t *m, LLVMValueRef a, LLVMValueRef b) {
  uint32_t lanes = dt__emit_lanes(LLVMTypeOf(a));
  if (!lanes)
    return power_one(m, a, b);
  LLVMValueRef all = LLVMGetPoison(LLVMTypeOf(a));
  for (uint32_t i = 0; i < lanes; i++) {
    LLVMValueRef at = dt__emit_i64(m, i);
    LLVMValueRef one = power_one(m, LLVMBuildExtractElement(m->b, a, at, ""),
                                 LLVMBuildExtractElement(m->b, b, at, ""));
    all = LLVMBuildInsertElement(m->b, all, one, at, "");
  }
  return all;
}

// With a negative exponent only 1 and -1 give whole numbers, which depend on the exponent's last
// bit alone; all others give 0.
static LLVMValueRef integer_power(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef a, LLVMValueRef b) {
  LLVMTypeRef type = LLVMTypeOf(a), wide = dt__emit_like(a, m->t_i64);
  bool s = is_signed(dtype);
  LLVMValueRef negative = s ? less(m, dtype, b, zero_like(b)) : NULL;
  LLVMValueRef exponent =
      s ? pick(m, negative, LLVMBuildAnd(m->b, b, dt__emit_int(type, 1), ""), b) : b;
  LLVMValueRef x = a;
  if (dt_dtype_size(dtype) < 8) {
    x = LLVMBuildZExt(m->b, a, wide, "");
    exponent = LLVMBuildZExt(m->b, exponent, wide, "");
  }
  LLVMValueRef p = powers(m, x, exponent);
  if (dt_dtype_size(dtype) < 8)
    p = LLVMBuildTrunc(m->b, p, type, "");
  if (!s)
    return p;
  LLVMValueRef plus = LLVMBuildICmp(m->b, LLVMIntEQ, a, dt__emit_int(type, 1), "");
  LLVMValueRef minus = LLVMBuildICmp(m->b, LLVMIntEQ, a, dt__emit_int(type, -1), "");
  LLVMValueRef none = LLVMBuildNot(m->b, LLVMBuildOr(m->b, plus, minus, ""), "");
  return pick(m, LLVMBuildAnd(m->b, negative, none, ""), zero_like(p), p);
}

// ---- Elementary functions ------------------------------------------------------------------------------
#define MATH_OP(name, id)                                                                          \
  static LLVMValueRef op_##name(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef *a) {                 \
    (void)dtype;                                                                                   \
    return dt__emit_math(&m->math, DT_MATH_##id, a[0]);                                            \
  }
MATH_OP(exp, EXP)
MATH_OP(expm1, EXPM1)
MATH_OP(log, LOG)
MATH_OP(log1p, LOG1P)
MATH_OP(log2, LOG2)
MATH_OP(rsqrt, RSQRT)
MATH_OP(sin, SIN)
MATH_OP(cos, COS)
MATH_OP(tan, TAN)
MATH_OP(asin, ASIN)
MATH_OP(acos, ACOS)
MATH_OP(atan, ATAN)
MATH_OP(sinh, SINH)
MATH_OP(cosh, COSH)
MATH_OP(tanh, TANH)
MATH_OP(asinh, ASINH)
MATH_OP(acosh, ACOSH)
MATH_OP(atanh, ATANH)
MATH_OP(erf, ERF)
MATH_OP(sigmoid, SIGMOID)

#define INTRINSIC_OP(name, intrinsic)                                                              \
  static LLVMValueRef op_##name(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef *a) {                 \
    (void)dtype;                                                                                   \
    return dt__emit_intrinsic1(m, intrinsic, a[0]);                                                \
  }
INTRINSIC_OP(sqrt, "llvm.sqrt")
INTRINSIC_OP(floor, "llvm.floor")
INTRINSIC_OP(ceil, "llvm.ceil")
INTRINSIC_OP(trunc, "llvm.trunc")
INTRINSIC_OP(round, "llvm.roundeven")

static LLVMValueRef op_reciprocal(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef *a) {
  (void)dtype;
  return LLVMBuildFDiv(m->b, dt__emit_float(LLVMTypeOf(a[0]), 1), a[0], "");
}

static LLVMValueRef op_ndtr(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef *a) {
  (void)dtype;
  return dt__emit_ndtr(&m->math, a[0]);
}

static LLVMValueRef op_pow(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef *a) {
  if (!is_float(dtype))
    return integer_power(m, dtype, a[0], a[1]);
  return dt__emit_pow(&m->math, a[0], a[1]);
}

// ---- Comparisons and logic -----------------------------------------------------------------------------
static bool known_number(LLVMValueRef value) {
  LLVMBool loses;
  LLVMValueRef one = value;
  if (dt__emit_lanes(LLVMTypeOf(value)))
    one = LLVMIsAConstantDataVector(value) ? LLVMGetAggregateElement(value, 0) : NULL;
  if (!one || !LLVMIsAConstantFP(one))
    return false;
  double number = LLVMConstRealGetDouble(one, &loses);
  return number - number == 0;
}

// 0, or -0, where that is asked for.
static bool known_zero(LLVMValueRef number, bool negative) {
  LLVMBool loses;
  if (dt__emit_lanes(LLVMTypeOf(number)))
    number = LLVMGetAggregateElement(number, 0);
  double value = LLVMConstRealGetDouble(number, &loses);
  return value == 0 && !signbit(value) == !negative;
}

// Against a number: which is kept where both are equal matters for the zero that wins over the
// other alone. x86's own maximum gives its second operand for NaN, and for zeros.
static LLVMValueRef extremum_known(dt_emit_t *m, bool larger, LLVMValueRef x, LLVMValueRef number) {
  if (known_zero(number, !larger)) {
    LLVMRealPredicate gives = larger ? LLVMRealOLE : LLVMRealOGE;
    return pick(m, LLVMBuildFCmp(m->b, gives, x, number, ""), number, x);
  }
  LLVMRealPredicate wins = larger ? LLVMRealOGT : LLVMRealOLT;
  return pick(m, LLVMBuildFCmp(m->b, wins, number, x, ""), number, x);
}

// Equal numbers have equal bits but for the sign of zero: that of a maximum is the signs' and.
static LLVMValueRef extremum_by_parts(dt_emit_t *m, bool larger, LLVMValueRef a, LLVMValueRef b) {
  LLVMTypeRef type = LLVMTypeOf(a), bits = dt__emit_like(a, m->t_i64);
  LLVMValueRef x = LLVMBuildBitCast(m->b, a, bits, ""), y = LLVMBuildBitCast(m->b, b, bits, "");
  LLVMValueRef both = larger ? LLVMBuildAnd(m->b, x, y, "") : LLVMBuildOr(m->b, x, y, "");
  LLVMRealPredicate wins = larger ? LLVMRealOGT : LLVMRealOLT;
  LLVMValueRef best = pick(m, LLVMBuildFCmp(m->b, wins, a, b, ""), a, b);
  best = pick(m, LLVMBuildFCmp(m->b, LLVMRealOEQ, a, b, ""), LLVMBuildBitCast(m->b, both, type, ""),
              best);
  return pick(m, LLVMBuildFCmp(m->b, LLVMRealUNO, a, a, ""), a, best);
}

// NaN if either is, and 0 larger than -0, as IEEE 754's maximum, which devices have for f32 and
// AVX-512 nearly has.
LLVMValueRef dt__emit_extremum(dt_emit_t *m, dt_dtype_t dtype, bool larger, LLVMValueRef a,
                               LLVMValueRef b) {
  if (!is_float(dtype)) {
    LLVMValueRef first = larger ? less(m, dtype, b, a) : less(m, dtype, a, b);
    return pick(m, first, a, b);
  }
  if (!m->device && (known_number(a) || known_number(b)))
    return known_number(b) ? extremum_known(m, larger, a, b) : extremum_known(m, larger, b, a);
  if (m->device && dtype == DT_F64)
    return extremum_by_parts(m, larger, a, b);
  return dt__emit_intrinsic2(m, larger ? "llvm.maximum" : "llvm.minimum", a, b);
}

static LLVMValueRef op_maximum(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef *a) {
  return dt__emit_extremum(m, dtype, true, a[0], a[1]);
}

static LLVMValueRef op_minimum(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef *a) {
  return dt__emit_extremum(m, dtype, false, a[0], a[1]);
}

static LLVMValueRef op_isnan(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef *a) {
  (void)dtype;
  return LLVMBuildFCmp(m->b, LLVMRealUNO, a[0], a[0], "");
}

static LLVMValueRef op_isinf(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef *a) {
  (void)dtype;
  LLVMValueRef magnitude = dt__emit_intrinsic1(m, "llvm.fabs", a[0]);
  LLVMValueRef infinity = dt__emit_float(LLVMTypeOf(a[0]), __builtin_inf());
  return LLVMBuildFCmp(m->b, LLVMRealOEQ, magnitude, infinity, "");
}

#define COMPARE_OP(name, real, sign, unsign)                                                       \
  static LLVMValueRef op_##name(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef *a) {                 \
    return compare(m, dtype, LLVMReal##real, LLVMInt##sign, LLVMInt##unsign, a[0], a[1]);          \
  }
COMPARE_OP(eq, OEQ, EQ, EQ)
COMPARE_OP(ne, UNE, NE, NE)
COMPARE_OP(lt, OLT, SLT, ULT)
COMPARE_OP(le, OLE, SLE, ULE)
COMPARE_OP(gt, OGT, SGT, UGT)
COMPARE_OP(ge, OGE, SGE, UGE)

static LLVMValueRef op_logical_not(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef *a) {
  (void)dtype;
  return LLVMBuildNot(m->b, a[0], "");
}

#define LOGIC_OP(name, build)                                                                      \
  static LLVMValueRef op_##name(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef *a) {                 \
    (void)dtype;                                                                                   \
    return build(m->b, a[0], a[1], "");                                                            \
  }
LOGIC_OP(logical_and, LLVMBuildAnd)
LOGIC_OP(logical_or, LLVMBuildOr)
LOGIC_OP(logical_xor, LLVMBuildXor)

// ---- Bits ----------------------------------------------------------------------------------------------
LOGIC_OP(bit_and, LLVMBuildAnd)
LOGIC_OP(bit_or, LLVMBuildOr)
LOGIC_OP(bit_xor, LLVMBuildXor)

static LLVMValueRef op_bit_not(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef *a) {
  return op_logical_not(m, dtype, a);
}

// A shift by the width or more would be poison: the amount is made safe first. For devices its low
// bits are taken: their shifts have 32-bit amounts, and the code generator, seeing the same amount
// compared and shifted by, would take a 64-bit one's low half.
static LLVMValueRef in_width(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef by) {
  int64_t width = 8 * (int64_t)dt_dtype_size(dtype);
  return LLVMBuildICmp(m->b, LLVMIntULT, by, dt__emit_int(LLVMTypeOf(by), width), "");
}

static LLVMValueRef shift_amount(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef inside,
                                 LLVMValueRef by) {
  int64_t most = 8 * (int64_t)dt_dtype_size(dtype) - 1;
  if (m->device)
    return LLVMBuildAnd(m->b, by, dt__emit_int(LLVMTypeOf(by), most), "");
  return pick(m, inside, by, zero_like(by));
}

static LLVMValueRef op_shift_left(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef *a) {
  LLVMValueRef inside = in_width(m, dtype, a[1]);
  LLVMValueRef by = shift_amount(m, dtype, inside, a[1]);
  return pick(m, inside, LLVMBuildShl(m->b, a[0], by, ""), zero_like(a[1]));
}

static LLVMValueRef op_shift_right(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef *a) {
  LLVMValueRef inside = in_width(m, dtype, a[1]);
  int64_t most = 8 * (int64_t)dt_dtype_size(dtype) - 1;
  if (is_signed(dtype))
    return LLVMBuildAShr(m->b, a[0], pick(m, inside, a[1], dt__emit_int(LLVMTypeOf(a[1]), most)),
                         "");
  LLVMValueRef by = shift_amount(m, dtype, inside, a[1]);
  return pick(m, inside, LLVMBuildLShr(m->b, a[0], by, ""), zero_like(a[1]));
}

static LLVMValueRef op_philox(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef *a) {
  return dt__emit_philox(m, dtype, a);
}

static LLVMValueRef op_where(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef *a) {
  (void)dtype;
  return pick(m, a[0], a[1], a[2]);
}

static const scalar_fn_t scalar_fns[DT_SCALAR_COUNT] = {
    NULL,
#define SCALAR_OP(name, arity, domain, result, cost, doc) op_##name,
#include "lower/graph/scalar_ops.def"
};

LLVMValueRef dt__emit_scalar_op(dt_emit_t *m, dt_scalar_op_t op, dt_dtype_t dtype,
                                LLVMValueRef *args) {
  if (op <= DT_SCALAR_NONE || op >= DT_SCALAR_COUNT) {
    dt__emit_fail(m, DT_FAIL(DT_E_INTERNAL, "loop IR: scalar op %d does not exist", (int)op));
    return args[0];
  }
  return scalar_fns[op](m, dtype, args);
}

// ---- Casts -------------------------------------------------------------------------------------------
static LLVMValueRef cast_to_float(dt_emit_t *m, dt_dtype_t from, dt_dtype_t to, LLVMValueRef x) {
  LLVMTypeRef type = dt__emit_like(x, dt__emit_type(m, to));
  if (is_float(from))
    return to == DT_F64 ? LLVMBuildFPExt(m->b, x, type, "") : LLVMBuildFPTrunc(m->b, x, type, "");
  return is_signed(from) ? LLVMBuildSIToFP(m->b, x, type, "") : LLVMBuildUIToFP(m->b, x, type, "");
}

// The integers that x may become, as floats of its own dtype: from `low` to `high`, the largest
// one that is no more than the largest integer. `exact`: it is that one.
typedef struct int_range_t {
  double low, high;
  bool exact;
} int_range_t;

static int_range_t range_of(dt_dtype_t real, dt_dtype_t to) {
  int bits = 8 * (int)dt_dtype_size(to) - is_signed(to), digits = real == DT_F64 ? 53 : 24;
  int_range_t range = {.low = is_signed(to) ? -ldexp(1, bits) : 0, .exact = bits <= digits};
  range.high = ldexp(1, bits) - (range.exact ? 1 : ldexp(1, bits - digits));
  return range;
}

// Saturated, and NaN as 0. LLVM's own saturating conversion takes a vector apart, where processors
// have none; so what is converted is brought into range as a float, by the maximum and the minimum
// that processors have: they give their second operand for NaN.
static LLVMValueRef saturate(dt_emit_t *m, dt_dtype_t from, dt_dtype_t to, LLVMValueRef x) {
  LLVMTypeRef real = LLVMTypeOf(x), type = dt__emit_like(x, dt__emit_type(m, to));
  int_range_t range = range_of(from, to);
  LLVMValueRef low = dt__emit_float(real, range.low), high = dt__emit_float(real, range.high);
  LLVMValueRef in = pick(m, LLVMBuildFCmp(m->b, LLVMRealOGT, x, low, ""), x, low);
  in = pick(m, LLVMBuildFCmp(m->b, LLVMRealOLT, in, high, ""), in, high);
  if (is_signed(to)) // else `low` is what NaN becomes
    in = pick(m, LLVMBuildFCmp(m->b, LLVMRealORD, x, x, ""), in, LLVMConstNull(real));
  if (dt_dtype_size(to) < 4)
    return LLVMBuildTrunc(m->b, LLVMBuildFPToSI(m->b, in, dt__emit_like(x, m->t_i32), ""), type,
                          "");
  LLVMValueRef whole =
      is_signed(to) ? LLVMBuildFPToSI(m->b, in, type, "") : LLVMBuildFPToUI(m->b, in, type, "");
  if (range.exact)
    return whole;
  int64_t most = is_signed(to) ? INT64_MAX >> (64 - 8 * (int)dt_dtype_size(to)) : -1;
  LLVMValueRef above = LLVMBuildFCmp(m->b, LLVMRealOGT, x, high, "");
  return pick(m, above, dt__emit_int(type, most), whole);
}

static LLVMValueRef cast_to_int(dt_emit_t *m, dt_dtype_t from, dt_dtype_t to, LLVMValueRef x) {
  LLVMTypeRef types[2] = {dt__emit_like(x, dt__emit_type(m, to)), LLVMTypeOf(x)};
  if (is_float(from) && !m->device)
    return saturate(m, from, to, x);
  if (is_float(from))
    return dt__emit_intrinsic(m, is_signed(to) ? "llvm.fptosi.sat" : "llvm.fptoui.sat", types, 2,
                              &x, 1);
  if (from != DT_BOOL && dt_dtype_size(from) == dt_dtype_size(to))
    return x;
  if (from != DT_BOOL && dt_dtype_size(from) > dt_dtype_size(to))
    return LLVMBuildTrunc(m->b, x, types[0], "");
  return is_signed(from) ? LLVMBuildSExt(m->b, x, types[0], "")
                         : LLVMBuildZExt(m->b, x, types[0], "");
}

LLVMValueRef dt__emit_cast(dt_emit_t *m, dt_dtype_t from, dt_dtype_t to, LLVMValueRef x) {
  if (from == to)
    return x;
  if (dt__dtype_is_half(from))
    return dt__emit_cast(m, DT_F32, to, dt__emit_half_extend(m, from, x));
  if (dt__dtype_is_half(to))
    return dt__emit_half_cast(m, from, to, x);
  if (to == DT_BOOL)
    return compare(m, from, LLVMRealUNE, LLVMIntNE, LLVMIntNE, x, zero_like(x));
  return is_float(to) ? cast_to_float(m, from, to, x) : cast_to_int(m, from, to, x);
}
