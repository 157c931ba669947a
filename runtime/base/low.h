// SPDX-License-Identifier: Apache-2.0
// The low-bit floats (dtypes.def): their formats, and their conversion from and to float64. Codes
// are an element's bits, in the low bits of a byte. The values of f8 are those of ONNX ("Float
// stored in 8 bits"), those of f4e2m1 and f8e8m0 of the OCP's Microscaling Formats 1.0.
#ifndef DT_RUNTIME_BASE_LOW_H
#define DT_RUNTIME_BASE_LOW_H

#include "ductile/base.h"

// A sign, an exponent and a fraction; exponent 0 has subnormal numbers. f8e8m0 is none of these.
typedef struct dt_low_float_t {
  uint32_t fraction; // bits of it
  int32_t bias;
  uint32_t sign; // the sign's bit, the one above the exponent
  // Codes without sign: the largest number, what larger ones become where they do not saturate (an
  // infinity, or `nan`), and what a NaN becomes, which is never given a sign.
  uint32_t most, beyond, nan;
  bool one_zero; // the code of -0 is NaN
} dt_low_float_t;

#define DT_E8M0_BIAS 127
#define DT_E8M0_MOST 254u
#define DT_E8M0_NAN 255u

// NULL: `dtype` is none of them.
const dt_low_float_t *dt__low_float(dt_dtype_t dtype);
// Exact. `dtype` is a low-bit float.
double dt__low_widen(dt_dtype_t dtype, uint8_t code);
// To nearest, ties to even, once, but f8e8m0; `how`: DT_CAST_* joined.
uint8_t dt__low_round(dt_dtype_t dtype, double x, uint32_t how);
// The bits of `how` that make a difference for casts to `dtype`.
uint32_t dt__low_how(dt_dtype_t dtype, uint32_t how);

#endif // DT_RUNTIME_BASE_LOW_H
