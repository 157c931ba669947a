// SPDX-License-Identifier: Apache-2.0
// Element-wise operators of several operands on values known as numbers. Integers wrap where all
// are literals; with sizes among them a sum or product beyond 64 bits fails the trace.
#include "frontends/onnx/import/fold.h"

#include <math.h>

// ---- Operands ---------------------------------------------------------------------------------------
#define MOST_OPERANDS 8

// The index in `x` of element `at` of a shape that it broadcasts to.
static uint32_t source(const dt_imp_known_t *x, const dt_imp_known_t *out, uint32_t at) {
  uint32_t index = 0, step = 1;
  for (uint32_t k = 0; k < x->rank; k++) {
    uint32_t dim = x->rank - 1 - k;
    int64_t size = out->sizes[out->rank - 1 - k];
    if (x->sizes[dim] != 1)
      index += (uint32_t)(at % size) * step;
    step *= (uint32_t)x->sizes[dim];
    at = (uint32_t)(at / size);
  }
  return index;
}

// Makes the shape of `sizes` (aligned at its end) that of both; false: they do not broadcast.
static bool join(int64_t sizes[DT_MAX_RANK], const dt_imp_known_t *x) {
  for (uint32_t k = 0; k < x->rank; k++) {
    int64_t *size = &sizes[DT_MAX_RANK - 1 - k], given = x->sizes[x->rank - 1 - k];
    if (*size != given && *size != 1 && given != 1)
      return false;
    *size = *size == 1 ? given : *size;
  }
  return true;
}

// All inputs' numbers, and a result of all shapes. NULL: one is not known, they do not broadcast,
// or it is too large.
static dt_imp_known_t *gather(dt_imp_node_t *n, uint32_t count, dt_dtype_t dtype,
                              const dt_imp_known_t **out) {
  int64_t sizes[DT_MAX_RANK];
  uint32_t rank = 0;
  for (uint32_t k = 0; k < DT_MAX_RANK; k++)
    sizes[k] = 1;
  for (uint32_t k = 0; k < count; k++) {
    out[k] = dt__imp_known(n, k);
    if (!out[k] || !join(sizes, out[k]))
      return NULL;
    rank = out[k]->rank > rank ? out[k]->rank : rank;
  }
  return dt__imp_known_make(n, dtype, rank, sizes + DT_MAX_RANK - rank);
}

bool dt__imp_fold_one(dt_imp_node_t *n, dt_dtype_t dtype, const dt_imp_number_t *in,
                      dt_dtype_t result, dt_imp_fold_fn_t fn, dt_imp_number_t *out) {
  int64_t value = 0;
  return fn(n, dtype, in, out) &&
         (!dt__imp_is_integral(result) || !out->sym.id || dt__imp_is_literal(n, out->sym, &value) ||
          dt__imp_fits(n, result, out->sym));
}

bool dt__imp_fold_each(dt_imp_node_t *n, uint32_t first, uint32_t count, dt_dtype_t dtype,
                       dt_imp_fold_fn_t fn) {
  const dt_imp_known_t *in[MOST_OPERANDS];
  dt_imp_number_t numbers[MOST_OPERANDS];
  if (first + count > MOST_OPERANDS || !dt__imp_known(n, first))
    return false;
  dt_dtype_t operands = dt__imp_known(n, first)->dtype;
  dt_imp_known_t *out = gather(n, first + count, dtype ? dtype : operands, in);
  if (!out)
    return false;
  for (uint32_t k = first; k < first + count; k++)
    if (in[k]->dtype != operands)
      return false;
  for (uint32_t k = 0; k < out->n; k++) {
    for (uint32_t i = 0; i < first + count; i++)
      numbers[i] = in[i]->items[source(in[i], out, k)];
    if (!dt__imp_fold_one(n, operands, numbers, out->dtype, fn, &out->items[k]))
      return false;
  }
  dt__imp_out_known(n, 0, out);
  return true;
}

// ---- Arithmetic -------------------------------------------------------------------------------------
static bool is_number(dt_imp_node_t *n, dt_dtype_t dtype, dt_imp_number_t number, int64_t *out) {
  return dt__imp_is_integral(dtype) && dt__imp_is_literal(n, number.sym, out);
}

static bool are_reals(dt_dtype_t dtype, const dt_imp_number_t *in) {
  return (dtype == DT_F32 || dtype == DT_F64) && !in[0].sym.id && !in[1].sym.id;
}

static dt_imp_number_t negated(dt_imp_node_t *n, dt_dtype_t dtype, dt_imp_number_t x) {
  int64_t value = 0;
  if (!dt__imp_is_integral(dtype))
    return (dt_imp_number_t){x.sym, -x.real};
  if (!is_number(n, dtype, x, &value))
    return (dt_imp_number_t){dt_sym_neg(n->t, x.sym), 0};
  return (dt_imp_number_t){dt_sym_const(n->t, dt__imp_wrapped(dtype, 0 - (uint64_t)value)), 0};
}

static bool neg(dt_imp_node_t *n, dt_dtype_t dtype, const dt_imp_number_t *in,
                dt_imp_number_t *out) {
  *out = negated(n, dtype, in[0]);
  return true;
}

static bool sub(dt_imp_node_t *n, dt_dtype_t dtype, const dt_imp_number_t *in,
                dt_imp_number_t *out) {
  const dt_imp_number_t pair[] = {in[0], negated(n, dtype, in[1])};
  return dt__imp_number_add(n, dtype, pair, out);
}

// A divisor of 0 is left to the op.
static bool divide(dt_imp_node_t *n, dt_dtype_t dtype, const dt_imp_number_t *in,
                   dt_imp_number_t *out) {
  int64_t by = 0;
  int exponent = 0;
  if (dt__imp_is_integral(dtype)) {
    if (is_number(n, dtype, in[1], &by) && by == -1)
      return neg(n, dtype, in, out);
    out->sym = is_number(n, dtype, in[1], &by) && by == 0
                   ? (dt_sym_t){0}
                   : dt_sym_truncdiv(n->t, in[0].sym, in[1].sym);
    return out->sym.id != 0;
  }
  out->real = dt__imp_rounded(dtype, in[0].real / in[1].real);
  if (are_reals(dtype, in))
    return true;
  // By a power of two.
  if (in[1].sym.id || in[1].real == 0 || fabs(frexp(in[1].real, &exponent)) != 0.5)
    return false;
  const dt_imp_number_t pair[] = {in[0], {.real = 1 / in[1].real}};
  return dt__imp_number_mul(n, dtype, pair, out);
}

static bool modulo(dt_imp_node_t *n, dt_dtype_t dtype, const dt_imp_number_t *in,
                   dt_imp_number_t *out) {
  int64_t by = 0;
  out->real = fmod(in[0].real, in[1].real);
  if (!dt__imp_is_integral(dtype))
    return are_reals(dtype, in);
  if (is_number(n, dtype, in[1], &by) && by == 0)
    return false;
  out->sym = dt__imp_int(n, "fmod", 0) ? dt_sym_truncmod(n->t, in[0].sym, in[1].sym)
                                       : dt_sym_mod(n->t, in[0].sym, in[1].sym);
  return true;
}

// A small whole number that is a literal; 0: it is none.
static int64_t small_exponent(dt_imp_node_t *n, dt_dtype_t dtype, dt_imp_number_t x) {
  int64_t value = 0;
  if (dt__imp_is_integral(dtype) ? !is_number(n, dtype, x, &value) : x.sym.id != 0)
    return 0;
  for (int64_t k = 1; k <= 64; k++)
    if (dt__imp_is_integral(dtype) ? value == k : x.real == (double)k)
      return k;
  return 0;
}

static bool power(dt_imp_node_t *n, dt_dtype_t dtype, const dt_imp_number_t *in,
                  dt_imp_number_t *out) {
  out->real = dt__imp_rounded(dtype, pow(in[0].real, in[1].real));
  if (are_reals(dtype, in))
    return true;
  int64_t exponent = small_exponent(n, dtype, in[1]);
  *out = in[0];
  for (int64_t k = 1; k < exponent; k++) {
    const dt_imp_number_t pair[] = {*out, in[0]};
    if (!dt__imp_number_mul(n, dtype, pair, out))
      return false;
  }
  return exponent > 0;
}

#define FOLD(op, count, dtype, fn)                                                                 \
  bool dt__imp_fold_##op(dt_imp_node_t *n) { return dt__imp_fold_each(n, 0, count, dtype, fn); }
FOLD(Add, 2, DT_DTYPE_NONE, dt__imp_number_add)
FOLD(Div, 2, DT_DTYPE_NONE, divide)
FOLD(Mod, 2, DT_DTYPE_NONE, modulo)
FOLD(Mul, 2, DT_DTYPE_NONE, dt__imp_number_mul)
FOLD(Neg, 1, DT_DTYPE_NONE, neg)
FOLD(Pow, 2, DT_DTYPE_NONE, power)
FOLD(Sub, 2, DT_DTYPE_NONE, sub)

// ---- Any number of operands -------------------------------------------------------------------------
static bool all(dt_imp_node_t *n, dt_dtype_t dtype, const dt_imp_number_t *in, dt_imp_number_t *out,
                dt_imp_fold_fn_t fn) {
  *out = in[0];
  for (uint32_t k = 1; k < dt__imp_n_in(n); k++) {
    const dt_imp_number_t pair[] = {*out, in[k]};
    if (!fn(n, dtype, pair, out))
      return false;
  }
  return true;
}

#define VARIADIC(op, name, fn)                                                                     \
  static bool name(dt_imp_node_t *n, dt_dtype_t dtype, const dt_imp_number_t *in,                  \
                   dt_imp_number_t *out) {                                                         \
    return all(n, dtype, in, out, fn);                                                             \
  }                                                                                                \
  FOLD(op, dt__imp_n_in(n), DT_DTYPE_NONE, name)
VARIADIC(Max, most, dt__imp_number_max)
VARIADIC(Min, least, dt__imp_number_min)
VARIADIC(Sum, sum, dt__imp_number_add)
#undef VARIADIC

// ---- Comparison, logic ------------------------------------------------------------------------------
typedef dt_sym_t (*sym_fn_t)(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);

static bool compare(dt_imp_node_t *n, dt_dtype_t dtype, const dt_imp_number_t *in, sym_fn_t fn,
                    bool of_reals, dt_imp_number_t *out) {
  dt_imp_fraction_t f[2];
  if (dt__imp_is_integral(dtype)) {
    out->sym = fn(n->t, in[0].sym, in[1].sym);
    return true;
  }
  if (!in[0].sym.id && !in[1].sym.id)
    out->sym = dt_sym_const(n->t, of_reals);
  else if (dt__imp_fractions(n, dtype, in, f))
    out->sym = fn(n->t, f[0].top, f[1].top);
  return out->sym.id != 0;
}

static dt_sym_t sym_gt(dt_trace_t *t, dt_sym_t a, dt_sym_t b) { return dt_sym_lt(t, b, a); }
static dt_sym_t sym_ge(dt_trace_t *t, dt_sym_t a, dt_sym_t b) { return dt_sym_le(t, b, a); }

#define COMPARE(op, name, fn, sign)                                                                \
  static bool name(dt_imp_node_t *n, dt_dtype_t dtype, const dt_imp_number_t *in,                  \
                   dt_imp_number_t *out) {                                                         \
    return compare(n, dtype, in, fn, in[0].real sign in[1].real, out);                             \
  }                                                                                                \
  FOLD(op, 2, DT_BOOL, name)
COMPARE(Equal, equal, dt_sym_eq, ==)
COMPARE(Greater, greater, sym_gt, >)
COMPARE(GreaterOrEqual, greater_or_equal, sym_ge, >=)
COMPARE(Less, less, dt_sym_lt, <)
COMPARE(LessOrEqual, less_or_equal, dt_sym_le, <=)
#undef COMPARE

#define LOGIC(op, name, fn)                                                                        \
  static bool name(dt_imp_node_t *n, dt_dtype_t dtype, const dt_imp_number_t *in,                  \
                   dt_imp_number_t *out) {                                                         \
    out->sym = dtype == DT_BOOL ? fn(n->t, in[0].sym, in[1].sym) : (dt_sym_t){0};                  \
    return out->sym.id != 0;                                                                       \
  }                                                                                                \
  FOLD(op, 2, DT_BOOL, name)
LOGIC(And, logical_and, dt_sym_and)
LOGIC(Or, logical_or, dt_sym_or)
LOGIC(Xor, logical_xor, dt_sym_ne)
#undef LOGIC

static bool logical_not(dt_imp_node_t *n, dt_dtype_t dtype, const dt_imp_number_t *in,
                        dt_imp_number_t *out) {
  out->sym = dtype == DT_BOOL ? dt_sym_not(n->t, in[0].sym) : (dt_sym_t){0};
  return out->sym.id != 0;
}
FOLD(Not, 1, DT_BOOL, logical_not)
#undef FOLD

// ---- Choosing ---------------------------------------------------------------------------------------
static bool choose(dt_imp_node_t *n, dt_dtype_t dtype, const dt_imp_number_t *in,
                   dt_imp_number_t *out) {
  int64_t taken = 0;
  dt_imp_fraction_t f[2];
  if (dt__imp_is_literal(n, in[0].sym, &taken)) {
    *out = taken ? in[1] : in[2];
    return true;
  }
  if (dt__imp_is_integral(dtype)) {
    out->sym = dt_sym_select(n->t, in[0].sym, in[1].sym, in[2].sym);
    return true;
  }
  if (!dt__imp_fractions(n, dtype, in + 1, f))
    return false;
  f[0].top = dt_sym_select(n->t, in[0].sym, f[0].top, f[1].top);
  return dt__imp_from_fraction(n, dtype, f[0], out);
}

bool dt__imp_fold_Where(dt_imp_node_t *n) {
  const dt_imp_known_t *which = dt__imp_known(n, 0);
  return which && which->dtype == DT_BOOL && dt__imp_fold_each(n, 1, 2, DT_DTYPE_NONE, choose);
}

static bool clip(dt_imp_node_t *n, dt_dtype_t dtype, const dt_imp_number_t *in,
                 dt_imp_number_t *out) {
  dt_imp_number_t pair[2] = {in[0], in[1]};
  if (!dt__imp_number_max(n, dtype, pair, out))
    return false;
  if (!dt__imp_has(n, 2))
    return true;
  pair[0] = *out;
  pair[1] = in[2];
  return dt__imp_number_min(n, dtype, pair, out);
}

bool dt__imp_fold_Clip(dt_imp_node_t *n) {
  return dt__imp_has(n, 1) &&
         dt__imp_fold_each(n, 0, dt__imp_has(n, 2) ? 3 : 2, DT_DTYPE_NONE, clip);
}
