// SPDX-License-Identifier: Apache-2.0
#include "examples/minilm/half.h"

#include <math.h>
#include <string.h>

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// The upper `32 - drop` bits of a finite number, rounded. A carry goes into the exponent, as it
// should.
static uint32_t round_off(uint32_t bits, int drop) {
  uint32_t odd = bits >> drop & 1;
  return (bits + (1u << (drop - 1)) - 1 + odd) >> drop;
}

// ---- f16: 1 bit of sign, 5 of exponent (bias 15), 10 of fraction --------------------------------

enum { F16_INFINITY = 0x7c00, F16_NAN = 0x7e00 };

static uint16_t f16_from(float value) {
  uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return (uint16_t)(sign | F16_NAN);
  if (magnitude >= bits_of(0x1p16f))
    return (uint16_t)(sign | F16_INFINITY);
  if (magnitude < bits_of(0x1p-14f)) // counts of the smallest number, 2^-24
    return (uint16_t)(sign | (uint32_t)lrintf(float_of(magnitude) * 0x1p24f));
  return (uint16_t)(sign | round_off(magnitude - ((127 - 15) << 23), 13));
}

static float f16_to(uint16_t half) {
  uint32_t sign = (uint32_t)(half & 0x8000) << 16, magnitude = half & 0x7fff;
  if (magnitude >= F16_INFINITY)
    return float_of(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
  if (magnitude < 0x400)
    return float_of(sign | bits_of((float)magnitude * 0x1p-24f));
  return float_of(sign | ((magnitude << 13) + ((127 - 15) << 23)));
}

// ---- bf16: the upper half of an f32 -------------------------------------------------------------

static uint16_t bf16_from(float value) {
  uint32_t bits = bits_of(value);
  return (uint16_t)(isnan(value) ? bits >> 16 | 0x40 : round_off(bits, 16));
}

static float bf16_to(uint16_t half) { return float_of((uint32_t)half << 16); }

// ---- All of them --------------------------------------------------------------------------------

static float read_one(const void *from, dt_dtype_t dtype, int64_t index) {
  if (dtype == DT_F32)
    return ((const float *)from)[index];
  uint16_t half = ((const uint16_t *)from)[index];
  return dtype == DT_F16 ? f16_to(half) : bf16_to(half);
}

void convert_floats(const void *from, dt_dtype_t from_dtype, void *to, dt_dtype_t to_dtype,
                    int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    float value = read_one(from, from_dtype, i);
    if (to_dtype == DT_F32)
      ((float *)to)[i] = value;
    else
      ((uint16_t *)to)[i] = to_dtype == DT_F16 ? f16_from(value) : bf16_from(value);
  }
}
