// SPDX-License-Identifier: Apache-2.0
// Sine, cosine and tangent.
//
// x = n pi/2 + r with |r| <= pi/4; n mod 4 picks sine or cosine of r and a sign. For float, r is
// found in double. Up to 2^48, n pi/2 is subtracted in parts by fused multiply-adds. Beyond, |x| is
// an integer, y 2^s with y an integer too, and only 2^s (2/pi) mod 4 matters: it is kept as a sum of
// parts for a few windows of exponents (REDUCE.md would be this comment; the tables follow).
#include "backend_llvm/emit/math_build.h"
#include "backend_llvm/emit/math_coef.h"
#include "backend_llvm/emit/math_pi.h"

// Both are of double: a reduced argument as a sum, and n in the low bits.
typedef struct reduced_t {
  dt_val_t r, low, n;
} reduced_t;

static const double TWO_OVER_PI = 0x1.45f306dc9c883p-1;
// pi/2 in three parts of 53 bits.
static const double HALF_PI_1 = 0x1.921fb54442d18p0;
static const double HALF_PI_2 = 0x1.1a62633145c07p-54;
static const double HALF_PI_3 = -0x1.f1976b7ed8fbcp-110;
