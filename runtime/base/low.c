// SPDX-License-Identifier: Apache-2.0
// See low.h. Conversion by arithmetic on the fields, as half.c does it.
#include "runtime/base/low.h"

#include "runtime/base/dtype.h"

#include <math.h>

static const dt_low_float_t formats[DT_DTYPE_END] = {
    [DT_F8E4M3FN] = {3, 7, 0x80, 0x7e, 0x7f, 0x7f, false},
    [DT_F8E5M2] = {2, 15, 0x80, 0x7b, 0x7c, 0x7e, false},
    [DT_F8E4M3FNUZ] = {3, 8, 0x80, 0x7f, 0x80, 0x80, true},
    [DT_F8E5M2FNUZ] = {2, 16, 0x80, 0x7f, 0x80, 0x80, true},
    // It has no NaN: -0 stands for one, as in ONNX's own data.
    [DT_F4E2M1] = {1, 1, 0x8, 0x7, 0x7, 0x8, false},
};

const dt_low_float_t *dt__low_float(dt_dtype_t dtype) {
  return (unsigned)dtype < DT_DTYPE_END && formats[dtype].sign ? &formats[dtype] : NULL;
}

uint32_t dt__low_how(dt_dtype_t dtype, uint32_t how) {
  if (dtype == DT_F8E8M0)
    return how;
  const dt_low_float_t *format = dt__low_float(dtype);
  return format && format->beyond != format->most ? how & DT_CAST_OVERFLOW : 0;
}

double dt__low_widen(dt_dtype_t dtype, uint8_t code) {
  const dt_low_float_t *f = dt__low_float(dtype);
  if (!f)
    return code == DT_E8M0_NAN ? (double)NAN : ldexp(1.0, code - DT_E8M0_BIAS);
  uint32_t size = code & (f->sign - 1), rest = size & ((1u << f->fraction) - 1);
  double value;
  if (f->one_zero && code == f->nan)
    return (double)NAN;
  if (size > f->most)
    value = size == f->beyond && f->beyond != f->nan ? (double)INFINITY : (double)NAN;
  else if (size >> f->fraction == 0)
    value = ldexp((double)rest, 1 - f->bias - (int)f->fraction);
  else
    value = ldexp((double)(rest | 1u << f->fraction),
                  (int)(size >> f->fraction) - f->bias - (int)f->fraction);
  return copysign(value, code & f->sign ? -1.0 : 1.0);
}

static uint8_t round_e8m0(double x, uint32_t how) {
  int exponent = 0;
  if (isnan(x) || isinf(x))
    return DT_E8M0_NAN;
  double part = 2 * frexp(fabs(x), &exponent); // in [1, 2), or 0
  exponent += part == 0 ? -2 * DT_E8M0_BIAS : -1;
  if (how & DT_CAST_NEAREST)
    exponent += part >= 1.5;
  else if (!(how & DT_CAST_DOWN))
    exponent += part > 1;
  int code = exponent + DT_E8M0_BIAS;
  if (code > (int)DT_E8M0_MOST)
    return how & DT_CAST_OVERFLOW ? DT_E8M0_NAN : DT_E8M0_MOST;
  return (uint8_t)(code < 0 ? 0 : code);
}

// |x| is counted in units of the last place it will have. A count that carries into the next power
// of two carries into the exponent's field with the same addition.
uint8_t dt__low_round(dt_dtype_t dtype, double x, uint32_t how) {
  const dt_low_float_t *f = dt__low_float(dtype);
  if (!f)
    return round_e8m0(x, how);
  if (isnan(x))
    return (uint8_t)f->nan;
  uint32_t bits = f->most + 1;
  if (x == 0.0) {
    bits = 0;
  } else if (!isinf(x)) {
    int lowest = 1 - f->bias, exponent = ilogb(x);
    if (exponent < lowest)
      exponent = lowest;
    uint32_t count = (uint32_t)nearbyint(ldexp(fabs(x), (int)f->fraction - exponent));
    bits = ((uint32_t)(exponent - lowest) << f->fraction) + count;
  }
  if (bits > f->most)
    bits = how & DT_CAST_OVERFLOW ? f->beyond : f->most;
  bool bare = bits == f->nan || (bits == 0 && f->one_zero);
  return (uint8_t)(signbit(x) && !bare ? bits | f->sign : bits);
}
