// SPDX-License-Identifier: Apache-2.0
// Scalar operations on f16 and bf16, alone and in pairs: computed in double and rounded once.
#include "test/fake_cuda/ptx_decode.h"
#include "test/fake_cuda/ptx_run.h"

#include <math.h>
#include <string.h>

#define ARGS uint64_t a, uint64_t b, uint64_t c, uint64_t d, const ptx_insn_t *in

typedef double (*half_fn_t)(double x, double y, double z, const ptx_insn_t *in);

static double add(double x, double y, double z, const ptx_insn_t *in) {
  return (void)z, (void)in, x + y;
}
static double sub(double x, double y, double z, const ptx_insn_t *in) {
  return (void)z, (void)in, x - y;
}
static double mul(double x, double y, double z, const ptx_insn_t *in) {
  return (void)z, (void)in, x * y;
}

// The product is exact in double; the sum is rounded to odd, so that rounding it again to half is
// right.
static double fused(double x, double y, double z, const ptx_insn_t *in) {
  (void)in;
  double p = x * y, s = p + z;
  if (isnan(s) || isinf(s))
    return s;
  double v = s - p, error = (p - (s - v)) + (z - v);
  uint64_t bits;
  memcpy(&bits, &s, sizeof(bits));
  if (error != 0 && !(bits & 1)) {
    bits = (error > 0) == (s > 0) ? bits + 1 : bits - 1;
    memcpy(&s, &bits, sizeof(s));
  }
  return s;
}

static double pick(double x, double y, bool greater, bool nan) {
  if (isnan(x) || isnan(y))
    return nan || (isnan(x) && isnan(y)) ? (double)NAN : isnan(x) ? y : x;
  if (x == y)
    return (signbit(x) != 0) == greater ? y : x;
  return (x > y) == greater ? x : y;
}
static double least(double x, double y, double z, const ptx_insn_t *in) {
  return (void)z, pick(x, y, false, in->nan);
}
static double greatest(double x, double y, double z, const ptx_insn_t *in) {
  return (void)z, pick(x, y, true, in->nan);
}
static double power(double x, double y, double z, const ptx_insn_t *in) {
  return (void)y, (void)z, (void)in, exp2(x);
}
static double tangent(double x, double y, double z, const ptx_insn_t *in) {
  return (void)y, (void)z, (void)in, tanh(x);
}

static uint64_t one(half_fn_t fn, ptx_type_t type, uint64_t a, uint64_t b, uint64_t c,
                    const ptx_insn_t *in) {
  if (in->ftz) {
    a = ptx_flush(a & 0xffff, type);
    b = ptx_flush(b & 0xffff, type);
    c = ptx_flush(c & 0xffff, type);
  }
  double x = ptx_decode_float(a & 0xffff, type), y = ptx_decode_float(b & 0xffff, type),
         z = ptx_decode_float(c & 0xffff, type);
  double result = fn(x, y, z, in);
  if (in->relu && !isnan(result) && result < 0)
    result = 0;
  if (in->sat)
    result = isnan(result) || result < 0 ? 0 : result > 1 ? 1 : result;
  uint64_t bits = ptx_encode(result, type, PTX_RN);
  return in->ftz ? ptx_flush(bits, type) : bits;
}

static uint64_t two(half_fn_t fn, ptx_type_t type, uint64_t a, uint64_t b, uint64_t c,
                    const ptx_insn_t *in) {
  return one(fn, type, a, b, c, in) | one(fn, type, a >> 16, b >> 16, c >> 16, in) << 16;
}

#define HALVES(name, fn)                                                                           \
  static uint64_t name##_f16(ARGS) { return (void)d, one(fn, PTX_F16, a, b, c, in); }              \
  static uint64_t name##_bf16(ARGS) { return (void)d, one(fn, PTX_BF16, a, b, c, in); }            \
  static uint64_t name##_f16x2(ARGS) { return (void)d, two(fn, PTX_F16, a, b, c, in); }            \
  static uint64_t name##_bf16x2(ARGS) { return (void)d, two(fn, PTX_BF16, a, b, c, in); }
HALVES(add, add)
HALVES(sub, sub)
HALVES(mul, mul)
HALVES(fma, fused)
HALVES(min, least)
HALVES(max, greatest)
HALVES(ex2, power)
HALVES(tanh, tangent)

#define UNUSED (void)a, (void)b, (void)c, (void)d, (void)in
// With the sign set of what is not a number (ptx_float.c).
static uint64_t neg_half(uint64_t a, ptx_type_t type) {
  return isnan(ptx_decode_float(a & 0xffff, type)) ? 0xffff : (a ^ 0x8000) & 0xffff;
}
static uint64_t abs_half(uint64_t a, ptx_type_t type) {
  return isnan(ptx_decode_float(a & 0xffff, type)) ? 0xffff : a & 0x7fff;
}
#define SIGN(name)                                                                                 \
  static uint64_t name##_f16(ARGS) { return UNUSED, name##_half(a, PTX_F16); }                     \
  static uint64_t name##_bf16(ARGS) { return UNUSED, name##_half(a, PTX_BF16); }                   \
  static uint64_t name##_f16x2(ARGS) {                                                             \
    return UNUSED, name##_half(a, PTX_F16) | name##_half(a >> 16, PTX_F16) << 16;                  \
  }                                                                                                \
  static uint64_t name##_bf16x2(ARGS) {                                                            \
    return UNUSED, name##_half(a, PTX_BF16) | name##_half(a >> 16, PTX_BF16) << 16;                \
  }
SIGN(neg)
SIGN(abs)

#define ROW(name, type, n, fn, may) {name, PTX_##type, n, fn, may}
#define ROWS(name, n, fn, may)                                                                     \
  ROW(name, F16, n, fn##_f16, may), ROW(name, BF16, n, fn##_bf16, may),                            \
      ROW(name, F16X2, n, fn##_f16x2, may), ROW(name, BF16X2, n, fn##_bf16x2, may)

const ptx_scalar_row_t ptx_half_rows[] = {
    ROWS("add", 2, add, "rn ftz sat"),
    ROWS("sub", 2, sub, "rn ftz sat"),
    ROWS("mul", 2, mul, "rn ftz sat"),
    ROWS("fma", 3, fma, "rn ftz sat relu"),
    ROWS("min", 2, min, "ftz NaN"),
    ROWS("max", 2, max, "ftz NaN"),
    ROWS("ex2", 1, ex2, "approx ftz"),
    ROWS("tanh", 1, tanh, "approx"),
    ROWS("neg", 1, neg, ""),
    ROWS("abs", 1, abs, ""),
    {0},
};
