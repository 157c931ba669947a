// SPDX-License-Identifier: Apache-2.0
// Values with error bounds: how each scalar op spreads its operands' errors, and what its own
// rounding adds. Spread is judged by the function at both ends of the operand's interval (most are
// monotone there), so a pole or the end of a domain inside it shows as infinity or NaN and becomes
// an infinite bound. Results that the arithmetic makes exactly, from exact operands, have the bound
// 0.
#include "lower/graph/eval_private.h"
#include "runtime/base/dtype.h"

#include <float.h>
#include <math.h>

// Of the dtype that ops on a dtype compute in.
typedef struct format_t {
  double unit, normal, integers, smallest, largest;
} format_t;
static const format_t *format_of(dt_dtype_t dtype) {
  static const format_t single = {0x1p-24, (double)FLT_MIN, 0x1p24, 0x1p-149, (double)FLT_MAX};
  static const format_t wide = {0x1p-53, DBL_MIN, 0x1p53, 0x1p-1074, DBL_MAX};
  return dt__dtype_computed(dtype) == DT_F32 ? &single : &wide;
}

double dt__approx_unit(dt_dtype_t dtype) { return format_of(dtype)->unit; }
double dt__approx_normal(dt_dtype_t dtype) { return format_of(dtype)->normal; }
double dt__approx_integers(dt_dtype_t dtype) { return format_of(dtype)->integers; }

static double smallest(dt_dtype_t dtype) { return format_of(dtype)->smallest; }
static double largest(dt_dtype_t dtype) { return format_of(dtype)->largest; }

// Rounding is monotone, so where an implementation may be before it tells where it may be after it:
// mostly at the one number that the whole interval rounds to.
dt_approx_t dt__approx_stored(dt_dtype_t dtype, dt_approx_t x) {
  if (!dt__dtype_is_half(dtype))
    return x;
  dt_approx_t y = {dt__scalar_cast(DT_F64, dtype, x.v), x.b};
  if (isnan(y.v.f) || isinf(x.b) || x.b == 0.0)
    return y;
  double high = dt__scalar_cast(DT_F64, dtype, (dt_scalar_t){.f = x.v.f + x.b}).f;
  double low = dt__scalar_cast(DT_F64, dtype, (dt_scalar_t){.f = x.v.f - x.b}).f;
  if (high == low)
    y.b = 0.0;
  else
    y.b = isinf(y.v.f) ? INFINITY : fmax(high - y.v.f, y.v.f - low);
  return y;
}

dt_approx_t dt__approx_rounded(dt_dtype_t dtype, double value, double spread, double roundings,
                               double tiny) {
  dt_approx_t x = dt__approx_real(value);
  if (isnan(spread) || isinf(spread))
    x.b = INFINITY;
  else if (isfinite(value))
    x.b = spread + roundings * dt__approx_unit(dtype) * (fabs(value) + spread) + tiny;
  // Near or past the largest number an implementation may have made an infinity of it.
  if (isfinite(value) && fabs(value) + x.b > largest(dtype))
    x.b = INFINITY;
  return x;
}

dt_approx_t dt__approx_slack(dt_dtype_t dtype, dt_approx_t x, double roundings) {
  if (isfinite(x.v.f))
    x.b += roundings * dt__approx_unit(dtype) * (fabs(x.v.f) + x.b);
  return x;
}

// ---- Rules: the result's value is made, they make its bound -------------------------------------
typedef struct step_t {
  dt_scalar_op_t op;
  dt_dtype_t dtype; // of the operands, a float
  const dt_approx_t *a;
} step_t;
typedef dt_approx_t (*bound_fn_t)(const step_t *s, dt_scalar_t value);

static double apply(const step_t *s, double x) {
  return dt__scalar_eval(s->op, s->dtype, &(dt_scalar_t){.f = x}).f;
}

// How far a monotone function's value moves over the operand's interval.
static double end_spread(const step_t *s, double value) {
  double x = s->a[0].v.f, b = s->a[0].b;
  if (b == 0.0)
    return 0.0;
  if (isinf(b))
    return INFINITY; // a NaN, too
  double high = apply(s, x + b), low = apply(s, x - b);
  if (isnan(value) && isnan(high) && isnan(low) && fabs(x) > b)
    return 0.0; // outside the domain as a whole
  double up = fabs(high - value), down = fabs(low - value);
  return isnan(up) || isnan(down) ? NAN : fmax(up, down);
}

static bool exact_operands(const step_t *s, uint32_t n) {
  bool exact = true;
  for (uint32_t k = 0; k < n; k++)
    exact = exact && s->a[k].b == 0.0;
  return exact;
}

static bool representable(dt_dtype_t dtype, double value) {
  return dt__scalar_cast(DT_F64, dtype, (dt_scalar_t){.f = value}).f == value;
}

static dt_approx_t basic(const step_t *s, double value, double spread, bool exact) {
  if (exact && isfinite(value) && representable(s->dtype, value))
    return dt__approx_real(value);
  return dt__approx_rounded(s->dtype, value, spread, 1, smallest(s->dtype));
}

static dt_approx_t bound_passes(const step_t *s, dt_scalar_t value) {
  return (dt_approx_t){value, s->a[0].b};
}

// Monotone, and every result is a number of any float dtype.
static dt_approx_t bound_step(const step_t *s, dt_scalar_t value) {
  double spread = end_spread(s, value.f);
  return (dt_approx_t){value, isnan(spread) || isinf(s->a[0].b) ? INFINITY : spread};
}

// Elementary functions: within 4 u, and in float64 our own value within 2 u more.
static dt_approx_t elementary(const step_t *s, dt_scalar_t value, double spread) {
  return dt__approx_rounded(s->dtype, value.f, spread, s->dtype == DT_F64 ? 6 : 4,
                            dt__approx_normal(s->dtype));
}

static dt_approx_t bound_monotone(const step_t *s, dt_scalar_t value) {
  return elementary(s, value, end_spread(s, value.f));
}

// One monotone branch on each side of 0, and nothing in between.
static dt_approx_t bound_pole(const step_t *s, dt_scalar_t value) {
  double x = s->a[0].v.f, b = s->a[0].b;
  bool pole = b > 0.0 && fabs(x) <= b;
  if (s->op == DT_SCALAR_reciprocal && !pole) {
    bool exact = exact_operands(s, 1) && fma(value.f, x, -1.0) == 0.0;
    return basic(s, value.f, end_spread(s, value.f), exact);
  }
  return elementary(s, value, pole ? INFINITY : end_spread(s, value.f));
}

static dt_approx_t bound_wave(const step_t *s, dt_scalar_t value) {
  double b = s->a[0].b;
  return elementary(s, value, b < 2.0 || isinf(b) ? b : 2.0);
}

// Made to be multiplied by x: as right as numbers near 1 are.
static dt_approx_t bound_ndtr(const step_t *s, dt_scalar_t value) {
  return elementary(s, value, end_spread(s, value.f) + 4 * dt__approx_unit(s->dtype));
}

static dt_approx_t bound_tan(const step_t *s, dt_scalar_t value) {
  double x = s->a[0].v.f, b = s->a[0].b;
  bool pole = b >= 1.0 || (b > 0.0 && (cos(x - b) > 0.0) != (cos(x + b) > 0.0));
  return elementary(s, value, pole ? INFINITY : end_spread(s, value.f));
}

static dt_approx_t bound_sqrt(const step_t *s, dt_scalar_t value) {
  bool exact = exact_operands(s, 1) && fma(value.f, value.f, -s->a[0].v.f) == 0.0;
  return basic(s, value.f, end_spread(s, value.f), exact);
}

static dt_approx_t bound_add(const step_t *s, dt_scalar_t value) {
  double x = s->a[0].v.f, y = s->op == DT_SCALAR_sub ? -s->a[1].v.f : s->a[1].v.f;
  // What the rounded sum leaves behind, exactly.
  double part = value.f - x, rest = (x - (value.f - part)) + (y - part);
  return basic(s, value.f, s->a[0].b + s->a[1].b, exact_operands(s, 2) && rest == 0.0);
}

static dt_approx_t bound_mul(const step_t *s, dt_scalar_t value) {
  const dt_approx_t *a = s->a;
  double spread = 0.0;
  if (a[0].b > 0.0)
    spread += a[0].b * (fabs(a[1].v.f) + a[1].b);
  if (a[1].b > 0.0)
    spread += a[1].b * fabs(a[0].v.f);
  // An infinity stays one of its sign, times what is certainly not 0.
  if (isinf(value.f) && fabs(a[0].v.f) > a[0].b && fabs(a[1].v.f) > a[1].b &&
      (isinf(a[0].v.f) || isinf(a[1].v.f)))
    spread = 0.0;
  bool exact = exact_operands(s, 2) && fma(a[0].v.f, a[1].v.f, -value.f) == 0.0;
  return basic(s, value.f, isfinite(value.f) && isnan(spread) ? INFINITY : spread, exact);
}

static dt_approx_t bound_div(const step_t *s, dt_scalar_t value) {
  const dt_approx_t *a = s->a;
  double below = fabs(a[1].v.f) - a[1].b, spread = 0.0;
  if (a[1].b > 0.0 && !(below > 0.0))
    spread = INFINITY;
  else if (a[0].b > 0.0 || a[1].b > 0.0)
    spread = isinf(a[1].v.f) && isfinite(a[0].b) ? 0.0 : (a[0].b + fabs(value.f) * a[1].b) / below;
  if (isinf(a[0].v.f) && isfinite(a[0].b) && isinf(value.f) && below > 0.0)
    spread = 0.0;
  bool exact = exact_operands(s, 2) && fma(value.f, a[1].v.f, -a[0].v.f) == 0.0;
  return basic(s, value.f, spread, exact);
}

// The remainder jumps where the quotient passes an integer; elsewhere it moves with both operands.
static dt_approx_t bound_rest(const step_t *s, dt_scalar_t value) {
  const dt_approx_t *a = s->a;
  if (exact_operands(s, 2)) {
    // fmod of two numbers is always a number; mod may add the divisor, and round.
    return s->op == DT_SCALAR_fmod || !isfinite(value.f)
               ? dt__approx_real(value.f)
               : dt__approx_rounded(s->dtype, value.f, 0, 1, smallest(s->dtype));
  }
  double quotient = a[0].v.f / a[1].v.f, below = fabs(a[1].v.f) - a[1].b;
  double reach = (a[0].b + fabs(quotient) * a[1].b) / below;
  // An implementation may find the quotient with a rounding before it cuts it.
  reach += 4 * dt__approx_unit(s->dtype) * fabs(quotient);
  bool same = below > 0.0 && floor(quotient - reach) == floor(quotient + reach) &&
              trunc(quotient - reach) == trunc(quotient + reach);
  double spread = same ? a[0].b + (fabs(quotient) + 1) * a[1].b : INFINITY;
  return dt__approx_rounded(s->dtype, value.f, spread, 2, smallest(s->dtype));
}

// Monotone in each operand for positive bases, so the corners hold the extremes; for other bases
// only the base may be uncertain, where the power has a pole or turns at 0.
static dt_approx_t bound_pow(const step_t *s, dt_scalar_t value) {
  const dt_approx_t *a = s->a;
  double spread = 0.0;
  if (!exact_operands(s, 2)) {
    bool crosses = fabs(a[0].v.f) <= a[0].b, below = a[0].v.f - a[0].b < 0.0;
    if (isinf(a[0].b) || isinf(a[1].b) || (below && a[1].b > 0.0) ||
        (crosses && a[1].v.f - a[1].b < 0.0))
      spread = INFINITY;
    for (uint32_t k = 0; k < 4; k++) {
      double x = a[0].v.f + (k & 1 ? a[0].b : -a[0].b), y = a[1].v.f + (k & 2 ? a[1].b : -a[1].b);
      double moved = fabs(pow(x, y) - value.f);
      spread = isnan(moved) || isnan(spread) ? NAN : fmax(spread, moved);
    }
  }
  return dt__approx_rounded(s->dtype, value.f, spread, 8, dt__approx_normal(s->dtype));
}

static dt_approx_t bound_choice(const step_t *s, dt_scalar_t value) {
  return (dt_approx_t){value, fmax(s->a[0].b, s->a[1].b)};
}

// Comparisons: certain unless the intervals touch.
static dt_approx_t bound_compare(const step_t *s, dt_scalar_t value) {
  double reach = s->a[0].b + s->a[1].b;
  double apart = fabs(s->a[0].v.f - s->a[1].v.f);
  return (dt_approx_t){value, reach > 0.0 && !(apart > reach) ? INFINITY : 0.0};
}

static dt_approx_t bound_test(const step_t *s, dt_scalar_t value) {
  return (dt_approx_t){value, isinf(s->a[0].b) ? INFINITY : 0.0};
}

static const bound_fn_t rules[DT_SCALAR_COUNT] = {
    [DT_SCALAR_neg] = bound_passes,
    [DT_SCALAR_abs] = bound_passes,
    [DT_SCALAR_sign] = bound_step,
    [DT_SCALAR_exp] = bound_monotone,
    [DT_SCALAR_expm1] = bound_monotone,
    [DT_SCALAR_log] = bound_monotone,
    [DT_SCALAR_log1p] = bound_monotone,
    [DT_SCALAR_log2] = bound_monotone,
    [DT_SCALAR_sqrt] = bound_sqrt,
    [DT_SCALAR_rsqrt] = bound_pole,
    [DT_SCALAR_reciprocal] = bound_pole,
    [DT_SCALAR_sin] = bound_wave,
    [DT_SCALAR_cos] = bound_wave,
    [DT_SCALAR_tan] = bound_tan,
    [DT_SCALAR_asin] = bound_monotone,
    [DT_SCALAR_acos] = bound_monotone,
    [DT_SCALAR_atan] = bound_monotone,
    [DT_SCALAR_sinh] = bound_monotone,
    // cosh turns at 0, but rises at least as far outwards as it falls inwards.
    [DT_SCALAR_cosh] = bound_monotone,
    [DT_SCALAR_tanh] = bound_monotone,
    [DT_SCALAR_asinh] = bound_monotone,
    [DT_SCALAR_acosh] = bound_monotone,
    [DT_SCALAR_atanh] = bound_monotone,
    [DT_SCALAR_erf] = bound_monotone,
    [DT_SCALAR_sigmoid] = bound_monotone,
    [DT_SCALAR_ndtr] = bound_ndtr,
    [DT_SCALAR_floor] = bound_step,
    [DT_SCALAR_ceil] = bound_step,
    [DT_SCALAR_trunc] = bound_step,
    [DT_SCALAR_round] = bound_step,
    [DT_SCALAR_isnan] = bound_test,
    [DT_SCALAR_isinf] = bound_test,
    [DT_SCALAR_add] = bound_add,
    [DT_SCALAR_sub] = bound_add,
    [DT_SCALAR_mul] = bound_mul,
    [DT_SCALAR_div] = bound_div,
    [DT_SCALAR_mod] = bound_rest,
    [DT_SCALAR_fmod] = bound_rest,
    [DT_SCALAR_pow] = bound_pow,
    [DT_SCALAR_maximum] = bound_choice,
    [DT_SCALAR_minimum] = bound_choice,
    [DT_SCALAR_eq] = bound_compare,
    [DT_SCALAR_ne] = bound_compare,
    [DT_SCALAR_lt] = bound_compare,
    [DT_SCALAR_le] = bound_compare,
    [DT_SCALAR_gt] = bound_compare,
    [DT_SCALAR_ge] = bound_compare,
};

// ---- Ops outside floats -------------------------------------------------------------------------
// One of two values, by a condition that may itself be uncertain.
static dt_approx_t select_approx(dt_dtype_t dtype, const dt_approx_t *a, dt_scalar_t value) {
  const dt_approx_t *taken = a[0].v.i ? &a[1] : &a[2], *other = a[0].v.i ? &a[2] : &a[1];
  dt_approx_t x = {value, taken->b};
  if (a[0].b == 0.0)
    return x;
  if (!dt__dtype_is_float(dtype)) {
    x.b = taken->v.i == other->v.i ? fmax(taken->b, other->b) : INFINITY;
    return x;
  }
  double reach = fabs(taken->v.f - other->v.f) + other->b;
  x.b = isnan(reach) ? INFINITY : fmax(taken->b, reach);
  return x;
}

// A certain operand that decides alone: false for and, true for or.
static bool decided(dt_scalar_op_t op, const dt_approx_t *a) {
  for (uint32_t k = 0; k < 2; k++) {
    if (a[k].b == 0.0 && ((op == DT_SCALAR_logical_and && a[k].v.i == 0) ||
                          (op == DT_SCALAR_logical_or && a[k].v.i != 0)))
      return true;
  }
  return false;
}

// NaN makes NaN, or a certain answer, whatever the other operand is.
static bool poisoned(dt_scalar_op_t op, const dt_approx_t *args, uint32_t arity,
                     dt_scalar_t value) {
  bool nan = false, finite = true;
  for (uint32_t k = 0; k < arity; k++) {
    nan = nan || isnan(args[k].v.f);
    finite = finite && isfinite(args[k].b);
  }
  return nan && finite && (dt__scalar_info(op)->result_bool || isnan(value.f));
}

dt_approx_t dt__approx_scalar(dt_scalar_op_t op, dt_dtype_t dtype, const dt_approx_t *args) {
  uint32_t arity = dt__scalar_info(op)->arity;
  dt_scalar_t values[3] = {{0}, {0}, {0}};
  dtype = dt__dtype_computed(dtype);
  for (uint32_t k = 0; k < arity && k < 3; k++)
    values[k] = args[k].v;
  dt_scalar_t value = dt__scalar_eval(op, dtype, values);
  if (op == DT_SCALAR_where)
    return select_approx(dtype, args, value);
  if (dt__dtype_is_float(dtype) && poisoned(op, args, arity, value))
    return (dt_approx_t){value, 0.0};
  if (dt__dtype_is_float(dtype) && rules[op]) {
    const step_t step = {op, dtype, args};
    return rules[op](&step, value);
  }
  dt_approx_t x = {value, 0.0};
  for (uint32_t k = 0; k < arity && k < 3; k++)
    x.b = args[k].b > 0.0 ? INFINITY : x.b;
  if (x.b > 0.0 && decided(op, args))
    x.b = 0.0;
  return x;
}

// To a low-bit float: as dt__approx_stored has it, where no end of the interval is beyond the
// largest, and 0, from which f8e8m0 counts, is not inside.
dt_approx_t dt__approx_cast_low(dt_dtype_t from, dt_dtype_t to, uint32_t how, dt_approx_t x) {
  dt_approx_t y = {dt__scalar_cast_as(from, to, how, x.v), x.b};
  if (x.b == 0.0)
    return y;
  y.b = INFINITY;
  if (!dt__dtype_is_float(from) || isinf(x.b) || isnan(x.v.f) ||
      (to == DT_F8E8M0 && fabs(x.v.f) <= x.b))
    return y;
  double one = dt__scalar_cast_as(DT_F64, to, how, (dt_scalar_t){.f = x.v.f + x.b}).f;
  double other = dt__scalar_cast_as(DT_F64, to, how, (dt_scalar_t){.f = x.v.f - x.b}).f;
  if (one == other)
    y.b = 0.0;
  else if (isfinite(one) && isfinite(other))
    y.b = fmax(fabs(one - y.v.f), fabs(other - y.v.f));
  return y;
}

dt_approx_t dt__approx_cast(dt_dtype_t from, dt_dtype_t to, dt_approx_t x) {
  if (dt__dtype_is_float(from) && from != to && dt__dtype_is_half(to))
    return dt__approx_stored(to, x);
  dt_approx_t y = {dt__scalar_cast(from, to, x.v), x.b};
  if (from == to || x.b == 0.0)
    return y;
  if (!dt__dtype_is_float(from)) {
    y.b = INFINITY;
    return y;
  }
  if (dt__dtype_is_float(to)) // narrowing rounds here and there
    return to == DT_F32 ? dt__approx_rounded(to, y.v.f, x.b, 2, smallest(to)) : y;
  dt_scalar_t low = {.f = x.v.f - x.b}, high = {.f = x.v.f + x.b};
  bool same = dt__scalar_cast(from, to, low).i == dt__scalar_cast(from, to, high).i;
  // To bool both ends may be true with 0 between them.
  bool zero = dt__dtype_is_bool(to) && fabs(x.v.f) <= x.b;
  y.b = isfinite(x.b) && same && !zero ? 0.0 : INFINITY;
  return y;
}

// ---- Sums ---------------------------------------------------------------------------------------
void dt__sum_add(dt_sum_t *sum, double value, double bound) {
  double total = sum->sum + value;
  // What the addition dropped, from the larger of both.
  if (isfinite(total)) {
    sum->rest +=
        fabs(sum->sum) >= fabs(value) ? (sum->sum - total) + value : (value - total) + sum->sum;
  }
  if (isfinite(value))
    sum->magnitude += fabs(value);
  sum->whole = sum->whole && bound == 0.0 && value == trunc(value);
  sum->sum = total;
  sum->bound += bound;
  sum->n++;
}

dt_approx_t dt__sum_total(const dt_sum_t *sum, dt_dtype_t dtype, double per_term) {
  double value = isfinite(sum->sum) ? sum->sum + sum->rest : sum->sum;
  if (isfinite(value) && sum->whole && sum->magnitude <= dt__approx_integers(dtype))
    return dt__approx_real(value);
  double additions = sum->n > 1 ? (double)(sum->n - 1) : 0.0;
  double gamma = (additions + per_term) * dt__approx_unit(dtype);
  double spread = sum->bound + gamma * (sum->magnitude + sum->bound);
  // Sums of a part may overflow where the whole does not, and then meet an infinity.
  if (sum->magnitude + spread > largest(dtype))
    spread = INFINITY;
  double tiny = sum->n > 1 ? smallest(dtype) * (double)sum->n * per_term : 0.0;
  return dt__approx_rounded(dtype, value, spread, 0, tiny);
}
