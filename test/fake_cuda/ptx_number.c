// SPDX-License-Identifier: Apache-2.0
// Floats as bits: rounding to a smaller type in any direction, exactly; what is not a number; what
// is too small.
#include "test/fake_cuda/ptx_run.h"

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

static uint64_t bits_of(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
}

// To nearest among normal numbers: on the bits, whose carry goes into the exponent by itself.
// False: the number or its result is none that this may be done with.
static bool round_bits(double x, const format_t *f, double *out) {
  uint64_t bits = bits_of(x);
  int exponent = (int)(bits >> 52 & 0x7ff) - 1023, drop = 53 - f->digits;
  if (exponent < f->least || exponent >= f->most)
    return false;
  bits += (((uint64_t)1 << (drop - 1)) - 1) + (bits >> drop & 1);
  bits = bits >> drop << drop;
  memcpy(out, &bits, sizeof(bits));
  return true;
}

double ptx_round_to(double x, ptx_type_t type, ptx_round_t round) {
  if (type == PTX_F64 || isnan(x) || isinf(x) || x == 0)
    return x;
  format_t f = format_of(type);
  double nearest;
  if (round == PTX_RN && round_bits(x, &f, &nearest))
    return nearest;
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
  if (type == PTX_F64)
    return bits_of(x);
  if (isnan(x))
    return format_of(type).nan;
  if (type == PTX_F32 && round == PTX_RN)
    return ptx_float_bits((float)x);
  double y = ptx_round_to(x, type, round);
  if (type != PTX_F16) {
    uint32_t bits = (uint32_t)ptx_float_bits((float)y);
    return type == PTX_BF16 ? bits >> 16 : bits;
  }
  uint64_t sign = signbit(y) ? 0x8000 : 0;
  y = fabs(y);
  if (isinf(y))
    return sign | 0x7c00;
  int exponent = (int)(bits_of(y) >> 52) - 1023;
  if (exponent < -14)
    return sign | (uint64_t)ldexp(y, 24);
  return sign | (uint64_t)(exponent + 15) << 10 | (bits_of(y) >> 42 & 0x3ff);
}

// A half's fields, moved to those of a float.
static double half_value(uint64_t bits) {
  uint64_t exponent = bits >> 10 & 31, fraction = bits & 0x3ff, sign = bits >> 15 & 1;
  if (exponent == 0) {
    double x = (double)fraction * 0x1p-24;
    return sign ? -x : x;
  }
  uint64_t wide = exponent == 31 ? 255 : exponent + 112;
  return (double)ptx_float(sign << 31 | wide << 23 | fraction << 13);
}

double ptx_decode_float(uint64_t bits, ptx_type_t type) {
  if (type == PTX_F64) {
    double x;
    memcpy(&x, &bits, sizeof(x));
    return x;
  }
  if (type == PTX_BF16)
    return (double)ptx_float(bits << 16);
  return type == PTX_F16 ? half_value(bits) : (double)ptx_float(bits);
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
