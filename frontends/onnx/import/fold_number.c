// SPDX-License-Identifier: Apache-2.0
// Numbers that are known, one by one: as fractions, and joined.
#include "frontends/onnx/import/fold.h"

#include "runtime/base/dtype.h"

#include <math.h>

// ---- Fractions --------------------------------------------------------------------------------------
#define MOST_SHIFT 40

static int digits_of(dt_dtype_t dtype) { return dtype == DT_F64 ? 53 : 24; }

static bool is_plain(dt_dtype_t dtype) { return dtype == DT_F32 || dtype == DT_F64; }

// Sizes for which it has more digits are kept out by a guard.
static bool is_exact(dt_imp_node_t *n, dt_dtype_t dtype, dt_sym_t top) {
  int64_t bound = (int64_t)1 << digits_of(dtype);
  dt_sym_t low = dt_sym_le(n->t, dt_sym_const(n->t, -bound), top);
  dt_sym_t high = dt_sym_le(n->t, top, dt_sym_const(n->t, bound));
  return dt_sym_guard_or(n->t, dt_sym_and(n->t, low, high), false);
}

// real = *out_top / 2^shift in lowest terms; false: of other form, or too large.
static bool split(double real, int64_t *out_top, uint32_t *out_shift) {
  int exponent = 0;
  double significand = frexp(real, &exponent);
  int64_t top = (int64_t)ldexp(significand, 53);
  int shift = 53 - exponent;
  if (!isfinite(real) || exponent > 53)
    return false;
  for (; shift > 0 && top % 2 == 0; shift--)
    top /= 2;
  *out_top = top;
  *out_shift = top ? (uint32_t)shift : 0;
  return shift <= MOST_SHIFT || top == 0;
}

bool dt__imp_fraction(dt_imp_node_t *n, dt_dtype_t dtype, dt_imp_number_t number,
                      dt_imp_fraction_t *out) {
  int64_t top = 0;
  if (!is_plain(dtype) || !split(number.real, &top, &out->shift))
    return false;
  out->top = dt_sym_const(n->t, top);
  if (number.sym.id && top != 1)
    out->top = dt_sym_mul(n->t, out->top, number.sym);
  else if (number.sym.id)
    out->top = number.sym;
  return is_exact(n, dtype, out->top);
}

bool dt__imp_from_fraction(dt_imp_node_t *n, dt_dtype_t dtype, dt_imp_fraction_t fraction,
                           dt_imp_number_t *out) {
  int64_t top = 0;
  double unit = ldexp(1, -(int)fraction.shift);
  if (dt__imp_is_literal(n, fraction.top, &top)) {
    *out = (dt_imp_number_t){.real = (double)top * unit};
    return dt__imp_rounded(dtype, out->real) == out->real;
  }
  *out = (dt_imp_number_t){fraction.top, unit};
  return fraction.shift <= MOST_SHIFT && is_exact(n, dtype, fraction.top);
}

static dt_sym_t shifted(dt_imp_node_t *n, dt_sym_t top, uint32_t by) {
  return by == 0 ? top : dt_sym_mul(n->t, top, dt_sym_const(n->t, (int64_t)1 << by));
}

bool dt__imp_fractions(dt_imp_node_t *n, dt_dtype_t dtype, const dt_imp_number_t *in,
                       dt_imp_fraction_t out[2]) {
  if (!dt__imp_fraction(n, dtype, in[0], &out[0]) || !dt__imp_fraction(n, dtype, in[1], &out[1]))
    return false;
  uint32_t shift = out[0].shift > out[1].shift ? out[0].shift : out[1].shift;
  if (shift + (uint32_t)digits_of(dtype) > 62 && (out[0].shift != shift || out[1].shift != shift))
    return false;
  for (uint32_t k = 0; k < 2; k++)
    out[k] = (dt_imp_fraction_t){shifted(n, out[k].top, shift - out[k].shift), shift};
  return true;
}

double dt__imp_rounded(dt_dtype_t dtype, double x) {
  return dtype == DT_F32 ? (double)(float)x : x;
}

int64_t dt__imp_wrapped(dt_dtype_t dtype, uint64_t bits) {
  switch (dtype) {
  case DT_I8:
    return (int8_t)bits;
  case DT_U8:
    return (uint8_t)bits;
  case DT_I16:
    return (int16_t)bits;
  case DT_U16:
    return (uint16_t)bits;
  case DT_I32:
    return (int32_t)bits;
  case DT_U32:
    return (uint32_t)bits;
  default:
    return (int64_t)bits;
  }
}

bool dt__imp_fits(dt_imp_node_t *n, dt_dtype_t dtype, dt_sym_t sym) {
  if (dtype == DT_I64 || dtype == DT_BOOL)
    return true;
  dt_dtype_bounds_t bounds = dt__dtype_bounds(dtype);
  dt_sym_t above = dt_sym_le(n->t, dt_sym_const(n->t, bounds.low), sym);
  dt_sym_t below = dt_sym_le(n->t, sym, dt_sym_const(n->t, bounds.high));
  return dt_sym_guard_or(n->t, dt_sym_and(n->t, above, below), false);
}

// ---- Sums, products ---------------------------------------------------------------------------------
static bool are_reals(dt_dtype_t dtype, const dt_imp_number_t *in) {
  return is_plain(dtype) && !in[0].sym.id && !in[1].sym.id;
}

bool dt__imp_number_add(dt_imp_node_t *n, dt_dtype_t dtype, const dt_imp_number_t *in,
                        dt_imp_number_t *out) {
  int64_t x = 0, y = 0;
  dt_imp_fraction_t f[2];
  if (dt__imp_is_integral(dtype)) {
    bool both = dt__imp_is_literal(n, in[0].sym, &x) && dt__imp_is_literal(n, in[1].sym, &y);
    out->sym = both ? dt_sym_const(n->t, dt__imp_wrapped(dtype, (uint64_t)x + (uint64_t)y))
                    : dt_sym_add(n->t, in[0].sym, in[1].sym);
    return true;
  }
  out->real = dt__imp_rounded(dtype, in[0].real + in[1].real);
  if (are_reals(dtype, in))
    return true;
  return dt__imp_fractions(n, dtype, in, f) &&
         dt__imp_from_fraction(
             n, dtype, (dt_imp_fraction_t){dt_sym_add(n->t, f[0].top, f[1].top), f[0].shift}, out);
}

bool dt__imp_number_mul(dt_imp_node_t *n, dt_dtype_t dtype, const dt_imp_number_t *in,
                        dt_imp_number_t *out) {
  int64_t x = 0, y = 0;
  dt_imp_fraction_t a, b;
  if (dt__imp_is_integral(dtype)) {
    bool both = dt__imp_is_literal(n, in[0].sym, &x) && dt__imp_is_literal(n, in[1].sym, &y);
    out->sym = both ? dt_sym_const(n->t, dt__imp_wrapped(dtype, (uint64_t)x * (uint64_t)y))
                    : dt_sym_mul(n->t, in[0].sym, in[1].sym);
    return true;
  }
  out->real = dt__imp_rounded(dtype, in[0].real * in[1].real);
  if (are_reals(dtype, in))
    return true;
  return dt__imp_fraction(n, dtype, in[0], &a) && dt__imp_fraction(n, dtype, in[1], &b) &&
         dt__imp_from_fraction(
             n, dtype, (dt_imp_fraction_t){dt_sym_mul(n->t, a.top, b.top), a.shift + b.shift}, out);
}

// ---- Extremes ---------------------------------------------------------------------------------------
typedef dt_sym_t (*sym_fn_t)(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);

static bool extreme(dt_imp_node_t *n, dt_dtype_t dtype, const dt_imp_number_t *in, sym_fn_t fn,
                    bool first, dt_imp_number_t *out) {
  dt_imp_fraction_t f[2];
  if (dt__imp_is_integral(dtype)) {
    out->sym = fn(n->t, in[0].sym, in[1].sym);
    return true;
  }
  if (!in[0].sym.id && !in[1].sym.id) { // NaN wins
    *out = isnan(in[0].real) || (first && !isnan(in[1].real)) ? in[0] : in[1];
    return true;
  }
  return dt__imp_fractions(n, dtype, in, f) &&
         dt__imp_from_fraction(n, dtype,
                               (dt_imp_fraction_t){fn(n->t, f[0].top, f[1].top), f[0].shift}, out);
}

bool dt__imp_number_max(dt_imp_node_t *n, dt_dtype_t dtype, const dt_imp_number_t *in,
                        dt_imp_number_t *out) {
  double x = in[0].real, y = in[1].real; // 0 is larger than -0
  return extreme(n, dtype, in, dt_sym_max, x > y || (x == y && signbit(x) == 0), out);
}

bool dt__imp_number_min(dt_imp_node_t *n, dt_dtype_t dtype, const dt_imp_number_t *in,
                        dt_imp_number_t *out) {
  double x = in[0].real, y = in[1].real;
  return extreme(n, dtype, in, dt_sym_min, x < y || (x == y && signbit(x) != 0), out);
}
