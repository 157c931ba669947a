// SPDX-License-Identifier: Apache-2.0
// Floats as bits: rounding to a smaller type in any direction, exactly; what is not a number; what
// is too small.
#include "tests/fake_cuda/ptx_run.h"

#include <math.h>
#include <string.h>

typedef struct format_t {
  int digits, least, most; // of the significand; exponents of the least and greatest normal
  uint64_t nan;
} format_t;

static format_t format_of(ptx_type_t type) {
  switch (type) {
  case PTX_F16:
    return (format_t){11, -14, 15, 0x7fff};
  case PTX_BF16:
    return (format_t){8, -126, 127, 0x7fff};
  case PTX_TF32:
    return (format_t){11, -126, 127, 0x7fffffff};
  default:
    return (format_t){24, -126, 127, 0x7fffffff};
  }
}

static double in_direction(double x, ptx_round_t round) {
  switch (round) {
  case PTX_RZ:
    return trunc(x);
  case PTX_RM:
    return floor(x);
  case PTX_RP:
    return ceil(x);
  case PTX_RNA:
    return copysign(floor(fabs(x) + 0.5), x);
  default:
    return nearbyint(x); // to even
  }
}

double ptx_round_to(double x, ptx_type_t type, ptx_round_t round) {
  if (type == PTX_F64 || isnan(x) || isinf(x) || x == 0)
    return x;
  format_t f = format_of(type);
  int exponent = ilogb(x);
  if (exponent < f.least)
    exponent = f.least;
  int shift = f.digits - 1 - exponent;
  double y = ldexp(in_direction(ldexp(x, shift), round), -shift);
  double most = ldexp(2 - ldexp(1, 1 - f.digits), f.most);
  if (fabs(y) <= most)
    return y;
  bool stays = round == PTX_RZ || (round == PTX_RM && y > 0) || (round == PTX_RP && y < 0);
  return copysign(stays ? most : INFINITY, y);
}

uint64_t ptx_encode(double x, ptx_type_t type, ptx_round_t round) {
  if (type == PTX_F64) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
  }
  if (isnan(x))
    return format_of(type).nan;
  double y = ptx_round_to(x, type, round);
  if (type != PTX_F16) {
    uint32_t bits = (uint32_t)ptx_float_bits((float)y);
    return type == PTX_BF16 ? bits >> 16 : bits;
  }
  uint64_t sign = signbit(y) ? 0x8000 : 0;
  y = fabs(y);
  if (isinf(y))
    return sign | 0x7c00;
  int exponent = y == 0 ? -15 : ilogb(y);
  if (exponent < -14)
    return sign | (uint64_t)ldexp(y, 24);
  return sign | ((uint64_t)(exponent + 15) << 10) | ((uint64_t)ldexp(y, 10 - exponent) & 0x3ff);
}

double ptx_decode_float(uint64_t bits, ptx_type_t type) {
  if (type == PTX_F64) {
    double x;
    memcpy(&x, &bits, sizeof(x));
    return x;
  }
  if (type == PTX_BF16)
    return (double)ptx_float(bits << 16);
  if (type != PTX_F16)
    return (double)ptx_float(bits);
  int exponent = (int)(bits >> 10 & 31);
  double fraction = (double)(bits & 0x3ff);
  double x = exponent == 31  ? (fraction != 0 ? (double)NAN : (double)INFINITY)
             : exponent == 0 ? ldexp(fraction, -24)
                             : ldexp(fraction + 1024, exponent - 25);
  return bits & 0x8000 ? -x : x;
}

float ptx_float(uint64_t bits) {
  uint32_t word = (uint32_t)bits;
  float x;
  memcpy(&x, &word, sizeof(x));
  return x;
}

uint64_t ptx_float_bits(float x) {
  uint32_t word;
  memcpy(&word, &x, sizeof(word));
  return isnan(x) ? 0x7fffffff : word;
}

uint64_t ptx_flush(uint64_t bits, ptx_type_t type) {
  uint64_t exponent = type == PTX_F16 ? 0x7c00 : type == PTX_BF16 ? 0x7f80 : 0x7f800000;
  uint64_t sign = ptx_type_bytes(type) == 2 ? 0x8000 : 0x80000000;
  return bits & exponent ? bits : bits & sign;
}
