// SPDX-License-Identifier: Apache-2.0
// Conversions of 16-bit floats. Most CPUs have instructions for F16, which LLVM uses for fpext and
// fptrunc. Without them LLVM would call a library function, so integer code does the same. BF16 is
// the upper half of an f32; GPUs round to it by an instruction for two (compute capability 8.0).
#include "backend_llvm/emit/half.h"

static LLVMValueRef pick(dt_emit_t *m, LLVMValueRef c, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildSelect(m->b, c, a, b, "");
}

static LLVMValueRef as(dt_emit_t *m, LLVMValueRef value, LLVMTypeRef scalar) {
  return LLVMBuildBitCast(m->b, value, dt__emit_like(value, scalar), "");
}

static LLVMValueRef like(LLVMValueRef value, int64_t number) {
  return dt__emit_int(LLVMTypeOf(value), number);
}

static LLVMValueRef and_bits(dt_emit_t *m, LLVMValueRef x, int64_t bits) {
  return LLVMBuildAnd(m->b, x, like(x, bits), "");
}

static LLVMValueRef up(dt_emit_t *m, LLVMValueRef x, int64_t by) {
  return LLVMBuildShl(m->b, x, like(x, by), "");
}

static LLVMValueRef down(dt_emit_t *m, LLVMValueRef x, int64_t by) {
  return LLVMBuildLShr(m->b, x, like(x, by), "");
}

// ---- Extension -----------------------------------------------------------------------------------------
// The fields of an f16, moved to where f32 has them, are the number times 2^-112, subnormals too;
// the product with 2^112 is exact. Infinities and NaN have another top exponent instead.
static LLVMValueRef extend_by_fields(dt_emit_t *m, LLVMValueRef wide) {
  LLVMValueRef rest = and_bits(m, wide, 0x7fff);
  LLVMValueRef fields = up(m, rest, 13);
  LLVMValueRef number = as(m, fields, m->t_f32);
  number = LLVMBuildFMul(m->b, number, dt__emit_float(LLVMTypeOf(number), 0x1p112), "");
  LLVMValueRef special = LLVMBuildICmp(m->b, LLVMIntUGE, rest, like(rest, 0x7c00), "");
  LLVMValueRef top = LLVMBuildOr(m->b, fields, like(fields, 0x7f800000), "");
  LLVMValueRef size = pick(m, special, top, as(m, number, m->t_i32));
  LLVMValueRef sign = up(m, and_bits(m, wide, 0x8000), 16);
  return as(m, LLVMBuildOr(m->b, size, sign, ""), m->t_f32);
}

// Two at a time, where words hold them: one op each. What was chosen lane by lane is in no word
// yet: the choice comes after, and the literal that is one of the two is widened here.
static LLVMValueRef extend_pairs(dt_emit_t *m, LLVMValueRef bits, uint32_t lanes) {
  if (LLVMIsASelectInst(bits) && LLVMIsConstant(LLVMGetOperand(bits, 2)))
    return pick(m, LLVMGetOperand(bits, 0), extend_pairs(m, LLVMGetOperand(bits, 1), lanes),
                extend_pairs(m, LLVMGetOperand(bits, 2), lanes));
  LLVMTypeRef words = LLVMVectorType(m->t_i32, lanes / 2);
  LLVMValueRef pairs = LLVMBuildBitCast(m->b, bits, words, ""), order[DT_MAX_LANES];
  LLVMValueRef even = up(m, pairs, 16), odd = and_bits(m, pairs, 0xffff0000);
  for (uint32_t i = 0; i < lanes; i++)
    order[i] = dt__emit_i32(m, i / 2 + i % 2 * (lanes / 2));
  LLVMValueRef all = LLVMBuildShuffleVector(m->b, even, odd, LLVMConstVector(order, lanes), "");
  return as(m, all, m->t_f32);
}

LLVMValueRef dt__emit_half_extend(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef bits) {
  if (dtype == DT_F16 && m->target->half_convert) {
    LLVMValueRef half = as(m, bits, LLVMHalfTypeInContext(m->context));
    return LLVMBuildFPExt(m->b, half, dt__emit_like(bits, m->t_f32), "");
  }
  uint32_t lanes = dt__emit_lanes(LLVMTypeOf(bits));
  if (dtype == DT_BF16 && m->device && lanes && lanes % 2 == 0)
    return extend_pairs(m, bits, lanes);
  LLVMValueRef wide = LLVMBuildZExt(m->b, bits, dt__emit_like(bits, m->t_i32), "");
  return dtype == DT_BF16 ? as(m, up(m, wide, 16), m->t_f32) : extend_by_fields(m, wide);
}

// ---- Rounding ------------------------------------------------------------------------------------------
// x / 2^by to nearest, ties to even: half a unit less one is added, and one more where the unit is
// odd.
static LLVMValueRef shift_to_nearest(dt_emit_t *m, LLVMValueRef x, int64_t by) {
  LLVMValueRef odd = and_bits(m, down(m, x, by), 1);
  LLVMValueRef more = LLVMBuildAdd(m->b, odd, like(x, ((int64_t)1 << (by - 1)) - 1), "");
  return down(m, LLVMBuildAdd(m->b, x, more, ""), by);
}

// A carry out of the fraction goes into the exponent, up to infinity, which is what rounding does.
static LLVMValueRef round_bf16(dt_emit_t *m, LLVMValueRef value) {
  LLVMValueRef bits = as(m, value, m->t_i32);
  LLVMValueRef quiet = LLVMBuildOr(m->b, down(m, bits, 16), like(bits, 0x40), "");
  LLVMValueRef is_nan = LLVMBuildFCmp(m->b, LLVMRealUNO, value, value, "");
  return pick(m, is_nan, quiet, shift_to_nearest(m, bits, 16));
}

// Three cases by size. Below 2^-14, in subnormals of f16, adding 0.5 rounds at the last place of
// 0.5 in f32, which is that of the subnormals, and leaves their count in the low bits. From 65520
// on infinity is nearest. In between the exponent changes its bias, and the fraction is rounded as
// above.
static LLVMValueRef round_f16(dt_emit_t *m, LLVMValueRef value) {
  LLVMValueRef bits = as(m, value, m->t_i32);
  LLVMValueRef size = and_bits(m, bits, 0x7fffffff), magnitude = as(m, size, m->t_f32);
  LLVMValueRef sum = LLVMBuildFAdd(m->b, magnitude, dt__emit_float(LLVMTypeOf(magnitude), 0.5), "");
  LLVMValueRef tiny = LLVMBuildSub(m->b, as(m, sum, m->t_i32), like(size, 0x3f000000), "");
  LLVMValueRef rebiased = LLVMBuildSub(m->b, size, like(size, (int64_t)112 << 23), "");
  LLVMValueRef is_tiny = LLVMBuildICmp(m->b, LLVMIntULT, size, like(size, 0x38800000), "");
  LLVMValueRef is_huge = LLVMBuildICmp(m->b, LLVMIntUGE, size, like(size, 0x477ff000), "");
  LLVMValueRef is_nan = LLVMBuildICmp(m->b, LLVMIntUGT, size, like(size, 0x7f800000), "");
  LLVMValueRef special = pick(m, is_nan, like(size, 0x7e00), like(size, 0x7c00));
  LLVMValueRef rounded = pick(m, is_tiny, tiny, shift_to_nearest(m, rebiased, 13));
  rounded = pick(m, is_huge, special, rounded);
  return LLVMBuildOr(m->b, rounded, and_bits(m, down(m, bits, 16), 0x8000), "");
}

LLVMValueRef dt__emit_half_round(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef value) {
  LLVMTypeRef type = dt__emit_like(value, m->t_i16);
  if (dtype == DT_F16 && m->target->half_convert) {
    LLVMTypeRef half = dt__emit_like(value, LLVMHalfTypeInContext(m->context));
    return as(m, LLVMBuildFPTrunc(m->b, value, half, ""), m->t_i16);
  }
  if (dtype == DT_BF16 && m->device) {
    LLVMTypeRef half = dt__emit_like(value, LLVMBFloatTypeInContext(m->context));
    return as(m, LLVMBuildFPTrunc(m->b, value, half, ""), m->t_i16);
  }
  LLVMValueRef bits = dtype == DT_BF16 ? round_bf16(m, value) : round_f16(m, value);
  return LLVMBuildTrunc(m->b, bits, type, "");
}

// ---- Casts ---------------------------------------------------------------------------------------------
// f64 to f32, towards zero with the last bit set where anything was cut off ("to odd"): rounding
// that again, to a much shorter fraction, rounds the f64 itself.
static LLVMValueRef narrow_to_odd(dt_emit_t *m, LLVMValueRef x) {
  LLVMValueRef near = LLVMBuildFPTrunc(m->b, x, dt__emit_like(x, m->t_f32), "");
  LLVMValueRef back = LLVMBuildFPExt(m->b, near, LLVMTypeOf(x), "");
  LLVMValueRef inexact = LLVMBuildFCmp(m->b, LLVMRealONE, back, x, "");
  LLVMValueRef above = LLVMBuildFCmp(m->b, LLVMRealOGT, dt__emit_intrinsic1(m, "llvm.fabs", back),
                                     dt__emit_intrinsic1(m, "llvm.fabs", x), "");
  LLVMValueRef bits = as(m, near, m->t_i32);
  LLVMValueRef cut = LLVMBuildSub(m->b, bits, LLVMBuildZExt(m->b, above, LLVMTypeOf(bits), ""), "");
  LLVMValueRef odd = LLVMBuildOr(m->b, cut, like(bits, 1), "");
  return as(m, pick(m, inexact, odd, bits), m->t_f32);
}

// 64-bit integers to f64: what does not fit in 53 bits leaves its trace in the last of them.
static LLVMValueRef integer_to_odd(dt_emit_t *m, bool is_signed, LLVMValueRef x) {
  LLVMTypeRef real = dt__emit_like(x, m->t_f64);
  LLVMValueRef negative = NULL, size = x;
  if (is_signed) {
    negative = LLVMBuildICmp(m->b, LLVMIntSLT, x, like(x, 0), "");
    size = pick(m, negative, LLVMBuildNeg(m->b, x, ""), x);
  }
  LLVMValueRef fits = LLVMBuildICmp(m->b, LLVMIntULT, size, like(x, (int64_t)1 << 53), "");
  LLVMValueRef low = and_bits(m, size, 0x7ff);
  LLVMValueRef any = LLVMBuildICmp(m->b, LLVMIntNE, low, like(x, 0), "");
  LLVMValueRef trace = up(m, LLVMBuildZExt(m->b, any, LLVMTypeOf(x), ""), 11);
  LLVMValueRef cut = LLVMBuildOr(m->b, and_bits(m, size, ~(int64_t)0x7ff), trace, "");
  LLVMValueRef f = LLVMBuildUIToFP(m->b, pick(m, fits, size, cut), real, "");
  return negative ? pick(m, negative, LLVMBuildFNeg(m->b, f, ""), f) : f;
}

LLVMValueRef dt__emit_half_cast(dt_emit_t *m, dt_dtype_t from, dt_dtype_t to, LLVMValueRef value) {
  if (from != DT_F32 && from != DT_F64) {
    size_t bytes = dt_dtype_size(from);
    dt_dtype_t exact = bytes <= 2 ? DT_F32 : DT_F64; // holds all integers of up to 4 bytes
    bool is_signed = dt__dtype_kind(from) == DT_KIND_SINT;
    value = bytes == 8 ? integer_to_odd(m, is_signed, value) : dt__emit_cast(m, from, exact, value);
    from = exact;
  }
  if (from == DT_F64)
    value = narrow_to_odd(m, value);
  return dt__emit_half_round(m, to, value);
}
