// SPDX-License-Identifier: Apache-2.0
// The 16-bit floats, IEEE binary16 (f16) and bfloat16 (bf16), as they lie in memory, and their
// conversion from and to float64. Storage only: nothing computes in them.
#ifndef DT_RUNTIME_BASE_HALF_H
#define DT_RUNTIME_BASE_HALF_H

#include <stdint.h>

typedef struct dt_f16_t {
  uint16_t bits; // sign, 5 bits of exponent, 10 of fraction
} dt_f16_t;
typedef struct dt_bf16_t {
  uint16_t bits; // sign, 8 bits of exponent, 7 of fraction: the upper half of an f32
} dt_bf16_t;

// Exact; NaN stays one.
double dt__f16_widen(dt_f16_t x);
double dt__bf16_widen(dt_bf16_t x);
// To nearest, ties to even, once: subnormal results and overflow to infinity as IEEE 754 has them.
// A NaN becomes the quiet one of its sign.
dt_f16_t dt__f16_round(double x);
dt_bf16_t dt__bf16_round(double x);

#endif // DT_RUNTIME_BASE_HALF_H
