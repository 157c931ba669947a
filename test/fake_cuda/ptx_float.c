// SPDX-License-Identifier: Apache-2.0
// Scalar operations on f32 and f64, computed in their own type and rounded once.
#include "test/fake_cuda/ptx_decode.h"
#include "test/fake_cuda/ptx_run.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

#define ARGS uint64_t a, uint64_t b, uint64_t c, uint64_t d, const ptx_insn_t *in
#define UNUSED (void)a, (void)b, (void)c, (void)d, (void)in

static double as_double(uint64_t bits) { return ptx_decode_float(bits, PTX_F64); }

static float single_of(uint64_t bits, const ptx_insn_t *in) {
  return ptx_float(in->ftz ? ptx_flush((uint32_t)bits, PTX_F32) : bits);
}

static uint64_t single_result(float x, const ptx_insn_t *in) {
  if (in->sat)
    x = isnan(x) ? 0 : x < 0 ? 0 : x > 1 ? 1 : x;
  uint64_t bits = ptx_float_bits(x);
  return in->ftz ? ptx_flush(bits, PTX_F32) : bits;
}

static uint64_t double_result(double x) {
  return isnan(x) ? 0x7fffffffffffffff : ptx_encode(x, PTX_F64, PTX_RN);
}

static const int directions[] = {[PTX_RN] = FE_TONEAREST,
                                 [PTX_RZ] = FE_TOWARDZERO,
                                 [PTX_RM] = FE_DOWNWARD,
                                 [PTX_RP] = FE_UPWARD};

// An expression over x, y, z in both types. The volatile values keep the operation between the two
// changes of direction.
#define DIRECTED(name, single_expr, double_expr)                                                   \
  static uint64_t name##_f32(ARGS) {                                                               \
    UNUSED;                                                                                        \
    if (in->round == PTX_RN) {                                                                     \
      float x = single_of(a, in), y = single_of(b, in), z = single_of(c, in);                      \
      (void)y, (void)z;                                                                            \
      return single_result(single_expr, in);                                                       \
    }                                                                                              \
    volatile float x = single_of(a, in), y = single_of(b, in), z = single_of(c, in), result;       \
    (void)x, (void)y, (void)z;                                                                     \
    (void)fesetround(directions[in->round]);                                                       \
    result = (single_expr);                                                                        \
    (void)fesetround(FE_TONEAREST);                                                                \
    return single_result(result, in);                                                              \
  }                                                                                                \
  static uint64_t name##_f64(ARGS) {                                                               \
    UNUSED;                                                                                        \
    volatile double x = as_double(a), y = as_double(b), z = as_double(c), result;                  \
    (void)x, (void)y, (void)z;                                                                     \
    if (in->round != PTX_RN)                                                                       \
      (void)fesetround(directions[in->round]);                                                     \
    result = (double_expr);                                                                        \
    (void)fesetround(FE_TONEAREST);                                                                \
    return double_result(result);                                                                  \
  }

DIRECTED(add, x + y, x + y)
DIRECTED(sub, x - y, x - y)
DIRECTED(mul, x *y, x *y)
DIRECTED(fma, fmaf(x, y, z), fma(x, y, z))
DIRECTED(div, x / y, x / y)
// `.approx` is as wrong as the manual lets it be, so that nothing relies on what one GPU does; what
// a float holds exactly is exact. Within a unit of the last place: the neighbour on the far side.
static float faithful(double y) {
  float near = (float)y;
  return (double)near == y || !isfinite(near)
             ? near
             : nextafterf(near, (double)near < y ? INFINITY : -INFINITY);
}

// Within 2^-22.5 of its size, the rounding to a float included; upwards or down by the argument.
static float power_of_two(float x) {
  double y = exp2((double)x), wrong = 0x1.6a09p-23 - 0x1p-24;
  bool up = __builtin_popcountll(ptx_float_bits(x)) % 2 != 0;
  return (double)(float)y == y ? (float)y : (float)(up ? y + y * wrong : y - y * wrong);
}

// Of approximate doubles the low word is zero, and 20 digits are right.
static double gross(double y) {
  uint64_t bits = 0;
  memcpy(&bits, &y, sizeof(bits));
  bits = (bits & ~(uint64_t)UINT32_MAX) ^ (uint64_t)1 << 32;
  if (isfinite(y) && y != 0)
    memcpy(&y, &bits, sizeof(y));
  return y;
}

DIRECTED(rcp, in->approx ? faithful(1 / (double)x) : 1 / x, in->approx ? gross(1 / x) : 1 / x)
DIRECTED(sqrt, sqrtf(x), sqrt(x))

#define SINGLE(name, expr)                                                                         \
  static uint64_t name##_f32(ARGS) {                                                               \
    UNUSED;                                                                                        \
    float x = single_of(a, in);                                                                    \
    return single_result(expr, in);                                                                \
  }
SINGLE(rsqrt, faithful(1 / sqrt((double)x)))
SINGLE(ex2, power_of_two(x))
SINGLE(lg2, log2f(x))
SINGLE(sin, sinf(x))
SINGLE(cos, cosf(x))
SINGLE(tanh, tanhf(x))
static uint64_t rsqrt_f64(ARGS) { return UNUSED, double_result(gross(1 / sqrt(as_double(a)))); }

// Of what is not a number, neg and abs give any that is none (PTX ISA): here one whose sign is set,
// which is what an H100 gives where a conversion follows. copysign moves bits.
#define SIGN32 ((uint64_t)0x80000000)
#define SIGN64 ((uint64_t)1 << 63)
static uint64_t flushed(uint64_t bits, const ptx_insn_t *in) {
  return in->ftz ? ptx_flush((uint32_t)bits, PTX_F32) : (uint32_t)bits;
}
static uint64_t neg_f32(ARGS) {
  return UNUSED, isnan(single_of(a, in)) ? 0xffc00000 : flushed(a, in) ^ SIGN32;
}
static uint64_t neg_f64(ARGS) {
  return UNUSED, isnan(as_double(a)) ? (uint64_t)0xfff8 << 48 : a ^ SIGN64;
}
static uint64_t abs_f32(ARGS) {
  return UNUSED, isnan(single_of(a, in)) ? 0xffc00000 : flushed(a, in) & ~SIGN32;
}
static uint64_t abs_f64(ARGS) {
  return UNUSED, isnan(as_double(a)) ? (uint64_t)0xfff8 << 48 : a & ~SIGN64;
}
// copysign d, a, b: the sign of a on b.
static uint64_t copysign_f32(ARGS) { return UNUSED, (uint32_t)((b & ~SIGN32) | (a & SIGN32)); }
static uint64_t copysign_f64(ARGS) { return UNUSED, (b & ~SIGN64) | (a & SIGN64); }

// The greater or smaller number; -0 is below +0; of what is not a number, the other, or with .NaN
// that itself.
static double pick(double x, double y, bool greater, bool nan) {
  if (isnan(x) || isnan(y))
    return nan || (isnan(x) && isnan(y)) ? (double)NAN : isnan(x) ? y : x;
  if (x == y)
    return (signbit(x) != 0) == greater ? y : x;
  return (x > y) == greater ? x : y;
}

static uint64_t pick_single(uint64_t a, uint64_t b, const ptx_insn_t *in, bool greater) {
  uint64_t sign = (a ^ b) & SIGN32;
  if (in->absolute)
    a &= ~SIGN32, b &= ~SIGN32;
  double x = pick((double)single_of(a, in), (double)single_of(b, in), greater, in->nan);
  uint64_t bits = single_result((float)x, in);
  return in->absolute ? bits | sign : bits;
}
static uint64_t min_f32(ARGS) { return UNUSED, pick_single(a, b, in, false); }
static uint64_t max_f32(ARGS) { return UNUSED, pick_single(a, b, in, true); }
static uint64_t min_f64(ARGS) {
  return UNUSED, double_result(pick(as_double(a), as_double(b), false, false));
}
static uint64_t max_f64(ARGS) {
  return UNUSED, double_result(pick(as_double(a), as_double(b), true, false));
}

#define ROW(name, type, n, fn, may) {name, PTX_##type, n, fn, may}
#define BOTH(name, n, fn, may32, may64)                                                            \
  ROW(name, F32, n, fn##_f32, may32), ROW(name, F64, n, fn##_f64, may64)
#define ANY "rn rz rm rp"

const ptx_scalar_row_t ptx_float_rows[] = {
    BOTH("add", 2, add, ANY " ftz sat", ANY),
    BOTH("sub", 2, sub, ANY " ftz sat", ANY),
    BOTH("mul", 2, mul, ANY " ftz sat", ANY),
    BOTH("fma", 3, fma, ANY " ftz sat", ANY),
    BOTH("mad", 3, fma, ANY " ftz sat", ANY),
    BOTH("div", 2, div, ANY " approx full ftz", ANY),
    BOTH("rcp", 1, rcp, ANY " approx ftz", ANY " approx ftz"),
    BOTH("sqrt", 1, sqrt, ANY " approx ftz", ANY),
    BOTH("rsqrt", 1, rsqrt, "approx ftz", "approx ftz"),
    ROW("ex2", F32, 1, ex2_f32, "approx ftz"),
    ROW("lg2", F32, 1, lg2_f32, "approx ftz"),
    ROW("sin", F32, 1, sin_f32, "approx ftz"),
    ROW("cos", F32, 1, cos_f32, "approx ftz"),
    ROW("tanh", F32, 1, tanh_f32, "approx"),
    BOTH("neg", 1, neg, "ftz", ""),
    BOTH("abs", 1, abs, "ftz", ""),
    BOTH("copysign", 2, copysign, "", ""),
    BOTH("min", 2, min, "ftz NaN xorsign abs", ""),
    BOTH("max", 2, max, "ftz NaN xorsign abs", ""),
    {0},
};
