// SPDX-License-Identifier: Apache-2.0
// Conversions between scalar types.
#include "test/fake_cuda/ptx_decode.h"
#include "test/fake_cuda/ptx_run.h"

#include <fenv.h>
#include <math.h>

#define ARGS uint64_t a, uint64_t b, uint64_t c, uint64_t d, const ptx_insn_t *in
#define UNUSED (void)b, (void)c, (void)d

static uint64_t extend(uint64_t bits, ptx_type_t type) {
  uint32_t shift = 64 - 8 * ptx_type_bytes(type);
  return ptx_type_kind(type) == PTX_SINT ? (uint64_t)((int64_t)(bits << shift) >> shift)
                                         : bits << shift >> shift;
}

static uint64_t int_to_int(ARGS) {
  UNUSED;
  uint64_t x = extend(a, in->from);
  if (!in->sat)
    return extend(x, in->type);
  bool from_signed = ptx_type_kind(in->from) == PTX_SINT;
  bool to_signed = ptx_type_kind(in->type) == PTX_SINT;
  uint32_t bits = 8 * ptx_type_bytes(in->type);
  uint64_t most = UINT64_MAX >> (64 - bits + to_signed);
  if (from_signed && (int64_t)x < 0) {
    int64_t least = to_signed ? -(int64_t)most - 1 : 0;
    return (int64_t)x < least ? (uint64_t)least : x;
  }
  return x > most ? most : x;
}

static const int directions[] = {[PTX_RN] = FE_TONEAREST,
                                 [PTX_RZ] = FE_TOWARDZERO,
                                 [PTX_RM] = FE_DOWNWARD,
                                 [PTX_RP] = FE_UPWARD};

// Rounded once, in the direction of the mode, from all 64 bits.
static uint64_t int_to_float(ARGS) {
  UNUSED;
  uint64_t x = extend(a, in->from);
  bool negative = ptx_type_kind(in->from) == PTX_SINT && (int64_t)x < 0;
  if (in->type == PTX_F32 || in->type == PTX_F64) {
    (void)fesetround(directions[in->round]);
    volatile int64_t sx = (int64_t)x;
    volatile uint64_t ux = x;
    volatile float single = negative ? (float)sx : (float)ux;
    volatile double twice = negative ? (double)sx : (double)ux;
    (void)fesetround(FE_TONEAREST);
    return in->type == PTX_F32 ? ptx_float_bits(single) : ptx_encode(twice, PTX_F64, PTX_RN);
  }
  // The halves round from 53 bits; bits below them only say that there is something.
  uint64_t size = negative ? 0 - x : x;
  if (size >> 53)
    size = (size & ~(uint64_t)0xfff) | (size & 0xfff ? 0x1000u : 0u);
  return ptx_encode(negative ? -(double)size : (double)size, in->type, in->round);
}

static double to_integral(double x, ptx_round_t round) {
  return round == PTX_RZ   ? trunc(x)
         : round == PTX_RM ? floor(x)
         : round == PTX_RP ? ceil(x)
                           : nearbyint(x);
}

static double source_of(uint64_t a, const ptx_insn_t *in) {
  bool flush = in->ftz && (in->from == PTX_F32 || in->from == PTX_F16);
  return ptx_decode_float(flush ? ptx_flush(a, in->from) : a, in->from);
}

// Out of range is the nearest in range; what is not a number is zero, or the least number where
// 64 bits take part.
static uint64_t float_to_int(ARGS) {
  UNUSED;
  double x = source_of(a, in);
  bool is_signed = ptx_type_kind(in->type) == PTX_SINT;
  uint32_t bits = 8 * ptx_type_bytes(in->type);
  if (isnan(x))
    return bits == 64 || in->from == PTX_F64 ? (uint64_t)1 << (bits - 1) : 0;
  x = to_integral(x, in->round);
  if (is_signed) {
    double most = ldexp(1, (int)bits - 1);
    int64_t value = x >= most    ? (int64_t)(UINT64_MAX >> (65 - bits))
                    : x <= -most ? -(int64_t)(UINT64_MAX >> (65 - bits)) - 1
                                 : (int64_t)x;
    return (uint64_t)value;
  }
  return x >= ldexp(1, (int)bits) ? UINT64_MAX >> (64 - bits) : x <= 0 ? 0 : (uint64_t)x;
}

static uint64_t encode(double x, const ptx_insn_t *in, ptx_type_t type) {
  if (in->relu)
    x = isnan(x) ? x : x > 0 ? x : 0;
  if (in->sat)
    x = isnan(x) || x < 0 ? 0 : x > 1 ? 1 : x;
  if (isnan(x) && type == PTX_F64) // an H100 keeps the sign
    return 0x7fffffffffffffff | (signbit(x) ? (uint64_t)1 << 63 : 0);
  uint64_t bits = ptx_encode(x, type, in->round);
  return in->ftz && type == PTX_F32 ? ptx_flush(bits, type) : bits;
}

static uint64_t float_to_float(ARGS) {
  UNUSED;
  double x = source_of(a, in);
  return encode(in->integral ? to_integral(x, in->round) : x, in, in->type);
}

// Two f32 to a pair of halves: the first source is the upper half.
static uint64_t floats_to_pair(ARGS) {
  (void)c, (void)d;
  ptx_type_t type = in->type == PTX_F16X2 ? PTX_F16 : PTX_BF16;
  return encode(source_of(a, in), in, type) << 16 | encode(source_of(b, in), in, type);
}

static bool is_float(ptx_type_t type) { return ptx_type_kind(type) == PTX_FLOAT; }

static bool is_int(ptx_type_t type) {
  return ptx_type_kind(type) == PTX_UINT || ptx_type_kind(type) == PTX_SINT;
}

ptx_scalar_t ptx_conversion(ptx_type_t to, ptx_type_t from, uint8_t *out_n) {
  *out_n = 1;
  if ((to == PTX_F16X2 || to == PTX_BF16X2) && from == PTX_F32) {
    *out_n = 2;
    return floats_to_pair;
  }
  if (is_int(to) && is_int(from))
    return int_to_int;
  if (is_float(to) && is_int(from) && to != PTX_TF32)
    return int_to_float;
  if (is_int(to) && is_float(from))
    return float_to_int;
  return is_float(to) && is_float(from) ? float_to_float : NULL;
}
