// SPDX-License-Identifier: Apache-2.0
// The polynomials of math_coef.c. Arrays are lowest degree first; each value is exact in the type
// its name ends with. tools/math/derive.py defines what they approximate.
#ifndef DT_BACKEND_LLVM_EMIT_MATH_COEF_H
#define DT_BACKEND_LLVM_EMIT_MATH_COEF_H

extern const double dt__math_exp_f32[5];   // (e^r - 1 - r) / r^2, |r| <= ln2 / 2
extern const double dt__math_exp_f64[11];  // the same
extern const double dt__math_log_f32[9];   // (log(1+f) - f) / f^2, |f| <= 1/3
extern const double dt__math_log2_f32[10]; // log2(1+f) / f, |f| <= 1/3
extern const double dt__math_atanh_f64[8]; // (log((1+s)/(1-s)) - 2s) / s^3 of z = s^2 <= 0.04
extern const double dt__math_pow_f64[9];   // (atanh(s)/s - 1 - z/3) / z^2 of the same z
extern const double dt__math_sin_f32[3];   // (sin r - r) / r^3 of z = r^2, |r| <= pi/4
extern const double dt__math_sin_f64[6];
extern const double dt__math_cos_f32[3]; // (cos r - 1 + z/2) / z^2 of z = r^2
extern const double dt__math_cos_f64[6];
extern const double dt__math_tanh_f32[5]; // (tanh t - t) / t^3 of z = t^2, |t| <= 9/16
extern const double dt__math_tanh_f64[12];
extern const double dt__math_atan_f32[5]; // (atan t - t) / t^3 of z = t^2, |t| <= tan(pi/8)
extern const double dt__math_atan_f64[11];
extern const double dt__math_asin_f32[6]; // (asin t - t) / t^3 of z = t^2, |t| <= 1/2
extern const double dt__math_asin_f64[13];
extern const double dt__math_erf_small_f32[7];  // erf(x) / x - 1 of z = x^2, |x| <= 1
extern const double dt__math_erfc_root_f32[10]; // erfc(x)^(1/4) of x - 2.4375, 0.97 .. 3.94
extern const double dt__math_erf_small_f64[13];
extern const double dt__math_ndtr_f32[9];   // log2 of (1 - erf(x / sqrt 2)) / 2 of x, 0 .. 5.7
extern const double dt__math_erfcx_f64[19]; // erfc(x) e^(x^2) of (x - 2.5) / (x + 2.5), 0.95 .. 6

// For the reduction of huge arguments by pi / 2: row k is {2^-s, c1, c2, …}, the c being a sum of
// (2^s 2/pi) mod 4, for |x| from 2^(48 + step k) on.
enum { DT_MATH_PI_NARROW_STEP = 30, DT_MATH_PI_WIDE_STEP = 39 };
extern const double dt__math_pi_narrow[3][4]; // s = 25 + 30 k
extern const double dt__math_pi_wide[26][5];  // s = -4 + 39 k

#endif
