// SPDX-License-Identifier: Apache-2.0
// Operators of one operand, casts, and reductions of all elements, on values known as numbers.
#include "frontends/onnx/import/compute.h"
#include "frontends/onnx/import/fold.h"

#include "runtime/base/dtype.h"

#include <math.h>

static dt_imp_number_t whole(dt_imp_node_t *n, dt_sym_t sym) { // as a float
  int64_t value = 0;
  return dt__imp_is_literal(n, sym, &value) ? (dt_imp_number_t){.real = (double)value}
                                            : (dt_imp_number_t){sym, 1};
}

// ---- Rounding ---------------------------------------------------------------------------------------
static dt_sym_t floor_of(dt_imp_node_t *n, dt_imp_fraction_t f) {
  return dt_sym_floordiv(n->t, f.top, dt_sym_const(n->t, (int64_t)1 << f.shift));
}

static dt_sym_t ceil_of(dt_imp_node_t *n, dt_imp_fraction_t f) {
  return dt_sym_ceildiv(n->t, f.top, dt_sym_const(n->t, (int64_t)1 << f.shift));
}

static dt_sym_t trunc_of(dt_imp_node_t *n, dt_imp_fraction_t f) {
  return dt_sym_truncdiv(n->t, f.top, dt_sym_const(n->t, (int64_t)1 << f.shift));
}

// Of two that are as near the even one.
static dt_sym_t round_of(dt_imp_node_t *n, dt_imp_fraction_t f) {
  if (f.shift == 0)
    return f.top;
  dt_trace_t *t = n->t;
  dt_sym_t one = dt_sym_const(t, 1), two = dt_sym_const(t, 2);
  dt_sym_t unit = dt_sym_const(t, (int64_t)1 << f.shift);
  dt_sym_t moved = dt_sym_add(t, f.top, dt_sym_const(t, (int64_t)1 << (f.shift - 1)));
  dt_sym_t up = dt_sym_floordiv(t, moved, unit);
  dt_sym_t tie = dt_sym_eq(t, dt_sym_mod(t, moved, unit), dt_sym_const(t, 0));
  dt_sym_t odd = dt_sym_eq(t, dt_sym_mod(t, up, two), one);
  return dt_sym_sub(t, up, dt_sym_and(t, tie, odd));
}

typedef dt_sym_t (*round_fn_t)(dt_imp_node_t *n, dt_imp_fraction_t f);

static bool rounded(dt_imp_node_t *n, dt_dtype_t dtype, const dt_imp_number_t *in, round_fn_t fn,
                    double of_real, dt_imp_number_t *out) {
  dt_imp_fraction_t f;
  *out = (dt_imp_number_t){.real = of_real};
  if (dt__imp_is_integral(dtype) || !in[0].sym.id)
    return !dt__imp_is_integral(dtype);
  if (!dt__imp_fraction(n, dtype, in[0], &f))
    return false;
  *out = whole(n, fn(n, f));
  return true;
}

#define FOLD(op, name)                                                                             \
  bool dt__imp_fold_##op(dt_imp_node_t *n) {                                                       \
    return dt__imp_fold_each(n, 0, 1, DT_DTYPE_NONE, name);                                        \
  }
#define ROUND(op, name, fn, real_fn)                                                               \
  static bool name(dt_imp_node_t *n, dt_dtype_t dtype, const dt_imp_number_t *in,                  \
                   dt_imp_number_t *out) {                                                         \
    return rounded(n, dtype, in, fn, real_fn(in[0].real), out);                                    \
  }                                                                                                \
  FOLD(op, name)
ROUND(Ceil, to_ceil, ceil_of, ceil)
ROUND(Floor, to_floor, floor_of, floor)
ROUND(Round, to_nearest, round_of, rint)
#undef ROUND

// ---- Others -----------------------------------------------------------------------------------------
static bool absolute(dt_imp_node_t *n, dt_dtype_t dtype, const dt_imp_number_t *in,
                     dt_imp_number_t *out) {
  int64_t value = 0;
  *out = (dt_imp_number_t){in[0].sym, fabs(in[0].real)};
  if (in[0].sym.id && dt__imp_is_literal(n, in[0].sym, &value))
    out->sym = dt_sym_const(n->t, value < 0 ? dt__imp_wrapped(dtype, 0 - (uint64_t)value) : value);
  else if (in[0].sym.id)
    out->sym = dt_sym_abs(n->t, in[0].sym);
  return true;
}
FOLD(Abs, absolute)

static bool root(dt_imp_node_t *n, dt_dtype_t dtype, const dt_imp_number_t *in,
                 dt_imp_number_t *out) {
  (void)n;
  out->real = dt__imp_rounded(dtype, sqrt(in[0].real));
  return (dtype == DT_F32 || dtype == DT_F64) && !in[0].sym.id;
}
FOLD(Sqrt, root)
#undef FOLD

// ---- Casts ------------------------------------------------------------------------------------------
// An integer in the dtype: as it is where it fits, a literal wrapped; false where neither.
static bool to_integer(dt_imp_node_t *n, dt_sym_t sym, dt_dtype_t to, dt_imp_number_t *out) {
  int64_t value = 0;
  out->sym = sym;
  if (to == DT_BOOL)
    out->sym = dt_sym_ne(n->t, sym, dt_sym_const(n->t, 0));
  else if (to != DT_U64 && dt__imp_is_literal(n, sym, &value))
    out->sym = dt_sym_const(n->t, dt__imp_wrapped(to, (uint64_t)value));
  else
    return to != DT_U64 && dt__imp_fits(n, to, sym);
  return true;
}

// Literals to zero and saturated; NaN is 0.
static bool from_real(dt_imp_node_t *n, double real, dt_dtype_t to, dt_imp_number_t *out) {
  if (to == DT_U64)
    return false;
  dt_dtype_bounds_t bounds = dt__dtype_bounds(to);
  double whole_part = isnan(real) ? 0 : trunc(real);
  int64_t value = whole_part <= (double)bounds.low    ? bounds.low
                  : whole_part >= (double)bounds.high ? bounds.high
                                                      : (int64_t)whole_part;
  out->sym = dt_sym_const(n->t, to == DT_BOOL ? real != 0 : value);
  return true;
}

// An integer as a float, a literal rounded once.
static dt_imp_number_t as_float(dt_imp_node_t *n, dt_sym_t sym, dt_dtype_t to) {
  int64_t value = 0;
  if (to == DT_F32 && dt__imp_is_literal(n, sym, &value))
    return (dt_imp_number_t){.real = (double)(float)value};
  return whole(n, sym);
}

static bool cast(dt_imp_node_t *n, dt_dtype_t from, dt_imp_number_t in, dt_dtype_t to,
                 dt_imp_number_t *out) {
  dt_imp_fraction_t f;
  if (dt__imp_is_integral(from) && dt__imp_is_integral(to))
    return to_integer(n, in.sym, to, out);
  if (dt__imp_is_integral(to) && !in.sym.id)
    return from_real(n, in.real, to, out);
  if (dt__imp_is_integral(to))
    return dt__imp_fraction(n, from, in, &f) &&
           to_integer(n, to == DT_BOOL ? f.top : trunc_of(n, f), to, out);
  *out = dt__imp_is_integral(from) ? as_float(n, in.sym, to) : in;
  if (to != DT_F32 && to != DT_F64)
    return false;
  if (!out->sym.id)
    out->real = dt__imp_rounded(to, out->real);
  else if (!dt__imp_is_integral(from) && from != to)
    return to == DT_F64 && dt__imp_fraction(n, from, in, &f);
  return true;
}

static bool fold_cast(dt_imp_node_t *n, dt_dtype_t to) {
  const dt_imp_known_t *in = dt__imp_known(n, 0);
  dt_imp_known_t *out = in && to ? dt__imp_known_make(n, to, in->rank, in->sizes) : NULL;
  for (uint32_t k = 0; out && k < out->n; k++)
    if (!cast(n, in->dtype, in->items[k], to, &out->items[k]))
      return false;
  dt__imp_out_known(n, 0, out);
  return out != NULL;
}

bool dt__imp_fold_Cast(dt_imp_node_t *n) {
  return fold_cast(n, dt__imp_attr_dtype(n, "to", DT_DTYPE_NONE));
}

bool dt__imp_fold_CastLike(dt_imp_node_t *n) {
  return dt__imp_known(n, 0) && fold_cast(n, dt__imp_dtype(n, 1));
}

// ---- Reductions -------------------------------------------------------------------------------------
// Of all elements, of which there are some.
static bool reduce(dt_imp_node_t *n, int64_t inputs_since, dt_imp_fold_fn_t fn) {
  static const int64_t ones[DT_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
  const dt_imp_known_t *in = dt__imp_known(n, 0);
  dt_imp_over_t over;
  if (!in || in->n == 0 || in->dtype == DT_BOOL || !dt__imp_read_over(n, inputs_since, &over) ||
      over.none || (over.n > 0 && over.n < in->rank))
    return false;
  dt_imp_known_t *out = dt__imp_known_make(n, in->dtype, over.keep ? in->rank : 0, ones);
  if (!out)
    return false;
  out->items[0] = in->items[0];
  for (uint32_t k = 1; k < in->n; k++) {
    const dt_imp_number_t pair[] = {out->items[0], in->items[k]};
    if (!dt__imp_fold_one(n, in->dtype, pair, in->dtype, fn, &out->items[0]))
      return false;
  }
  dt__imp_out_known(n, 0, out);
  return true;
}

#define REDUCE(op, since, fn)                                                                      \
  bool dt__imp_fold_##op(dt_imp_node_t *n) { return reduce(n, since, fn); }
REDUCE(ReduceMax, 18, dt__imp_number_max)
REDUCE(ReduceMin, 18, dt__imp_number_min)
REDUCE(ReduceProd, 18, dt__imp_number_mul)
REDUCE(ReduceSum, 13, dt__imp_number_add)
#undef REDUCE
_Static_assert(DT_MAX_RANK == 8, "a size of 1 for each dim");
