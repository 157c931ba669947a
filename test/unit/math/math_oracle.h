// SPDX-License-Identifier: Apache-2.0
// What the elementary functions should answer: a fast reference of more precision than the type
// under test (libm's double for float, long double for double), and MPFR to confirm.
#ifndef DT_TESTS_UNIT_MATH_ORACLE_H
#define DT_TESTS_UNIT_MATH_ORACLE_H

#include <stdbool.h>

#include "test/unit/math/math_kernels.h"

typedef struct math_oracle_t {
  const char *name;
  double bound[2]; // ulp for float and double
} math_oracle_t;

const math_oracle_t *math_oracle(int fn);
double math_fast_f32(int fn, double x, double y);
long double math_fast_f64(int fn, long double x, long double y);

// The distance of `got` from `exact` in units of exact's last place; infinity where one is NaN, the
// sign of a zero is wrong, or an infinity stands for what is far from overflow.
double math_ulp_f32(float got, double exact);
double math_ulp_f64(double got, long double exact);
// The same from MPFR at 256 bits.
double math_ulp_mpfr(int fn, bool wide, double got, double x, double y);

#endif
