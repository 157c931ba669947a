// SPDX-License-Identifier: Apache-2.0
// Conversion of 16-bit floats by arithmetic on their fields, for any split between exponent and
// fraction.
#include "runtime/base/half.h"

#include <math.h>

#define F16_FRACTION 10
#define BF16_FRACTION 7

static uint32_t top_exponent(int fraction) { return (1U << (15 - fraction)) - 1; }
static int bias(int fraction) { return (int)(top_exponent(fraction) >> 1); }

static double widen(int fraction, uint32_t bits) {
  uint32_t exponent = (bits & 0x7fffU) >> fraction, rest = bits & ((1U << fraction) - 1);
  double size;
  if (exponent == top_exponent(fraction))
    size = rest ? (double)NAN : (double)INFINITY;
  else if (exponent == 0)
    size = ldexp((double)rest, 1 - bias(fraction) - fraction);
  else
    size = ldexp((double)(rest | (1U << fraction)), (int)exponent - bias(fraction) - fraction);
  return copysign(size, bits & 0x8000U ? -1.0 : 1.0);
}

// |x| is counted in units of the last place it will have. A count that carries into the next power
// of two carries into the exponent's field with the same addition, and past the last one makes an
// infinity.
static uint16_t round_to(int fraction, double x) {
  uint32_t sign = signbit(x) ? 0x8000U : 0, infinity = top_exponent(fraction) << fraction;
  if (isnan(x))
    return (uint16_t)(sign | infinity | (1U << (fraction - 1)));
  if (isinf(x))
    return (uint16_t)(sign | infinity);
  if (x == 0.0)
    return (uint16_t)sign;
  int lowest = 1 - bias(fraction), exponent = ilogb(x);
  if (exponent < lowest)
    exponent = lowest;
  uint32_t count = (uint32_t)nearbyint(ldexp(fabs(x), fraction - exponent));
  uint32_t bits = ((uint32_t)(exponent - lowest) << fraction) + count;
  return (uint16_t)(sign | (bits < infinity ? bits : infinity));
}

double dt__f16_widen(dt_f16_t x) { return widen(F16_FRACTION, x.bits); }
double dt__bf16_widen(dt_bf16_t x) { return widen(BF16_FRACTION, x.bits); }
dt_f16_t dt__f16_round(double x) { return (dt_f16_t){round_to(F16_FRACTION, x)}; }
dt_bf16_t dt__bf16_round(double x) { return (dt_bf16_t){round_to(BF16_FRACTION, x)}; }
