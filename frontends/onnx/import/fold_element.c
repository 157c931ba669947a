// SPDX-License-Identifier: Apache-2.0
// Element-wise arithmetic on values known as numbers. Integers wrap at 64 bits where all are
// literals; with sizes among them a sum or product beyond 64 bits fails the trace.
#include "frontends/onnx/import/known.h"

#include <math.h>

// ---- Pairs ------------------------------------------------------------------------------------------
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

// A result of both shapes; NULL: they do not broadcast, or it is too large.
static dt_imp_known_t *broadcast(dt_imp_node_t *n, dt_dtype_t dtype, const dt_imp_known_t *a,
                                 const dt_imp_known_t *b) {
  int64_t sizes[DT_MAX_RANK];
  uint32_t rank = a->rank > b->rank ? a->rank : b->rank;
  for (uint32_t k = 0; k < rank; k++) {
    int64_t x = k < a->rank ? a->sizes[a->rank - 1 - k] : 1;
    int64_t y = k < b->rank ? b->sizes[b->rank - 1 - k] : 1;
    if (x != y && x != 1 && y != 1)
      return NULL;
    sizes[rank - 1 - k] = x == 1 ? y : x;
  }
  return dt__imp_known_make(n, dtype, rank, sizes);
}

typedef dt_sym_t (*sym_fn_t)(dt_trace_t *trace, dt_sym_t a, dt_sym_t b);
// False: what comes out is no number of the dtype that is known.
typedef bool (*real_fn_t)(dt_imp_node_t *n, dt_dtype_t dtype, dt_imp_number_t a, dt_imp_number_t b,
                          dt_imp_number_t *out);
typedef bool (*wrap_fn_t)(int64_t a, int64_t b, int64_t *out);

typedef struct pair_t {
  sym_fn_t sym;
  wrap_fn_t wrap; // of literals; NULL: what `sym` says
  real_fn_t real; // NULL: floats are not folded
  bool to_bool;
} pair_t;

static bool apply(dt_imp_node_t *n, const pair_t *pair, dt_dtype_t dtype, dt_imp_number_t a,
                  dt_imp_number_t b, dt_imp_number_t *out) {
  int64_t x = 0, y = 0, made = 0;
  if (!dt__imp_is_integral(dtype))
    return pair->real && pair->real(n, dtype, a, b, out);
  if (pair->wrap && dt__imp_is_literal(n, a.sym, &x) && dt__imp_is_literal(n, b.sym, &y)) {
    if (!pair->wrap(x, y, &made))
      return false;
    out->sym = dt_sym_const(n->t, made);
  } else {
    out->sym = pair->sym(n->t, a.sym, b.sym);
  }
  return true;
}

static bool fold_pair(dt_imp_node_t *n, const pair_t *pair) {
  const dt_imp_known_t *a = dt__imp_known(n, 0), *b = dt__imp_known(n, 1);
  if (!a || !b || a->dtype != b->dtype)
    return false;
  dt_imp_known_t *out = broadcast(n, pair->to_bool ? DT_BOOL : a->dtype, a, b);
  for (uint32_t k = 0; out && k < out->n; k++)
    if (!apply(n, pair, a->dtype, a->items[source(a, out, k)], b->items[source(b, out, k)],
               &out->items[k]))
      return false;
  dt__imp_out_known(n, 0, out);
  return out != NULL;
}

// ---- Arithmetic -------------------------------------------------------------------------------------
static bool wrap_add(int64_t a, int64_t b, int64_t *out) {
  *out = (int64_t)((uint64_t)a + (uint64_t)b);
  return true;
}

static bool wrap_sub(int64_t a, int64_t b, int64_t *out) {
  *out = (int64_t)((uint64_t)a - (uint64_t)b);
  return true;
}

static bool wrap_mul(int64_t a, int64_t b, int64_t *out) {
  *out = (int64_t)((uint64_t)a * (uint64_t)b);
  return true;
}

static bool wrap_div(int64_t a, int64_t b, int64_t *out) {
  if (b == 0)
    return false;
  *out = b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
  return true;
}

static double rounded(dt_dtype_t dtype, double x) { return dtype == DT_F32 ? (double)(float)x : x; }

static bool are_reals(dt_dtype_t dtype, dt_imp_number_t a, dt_imp_number_t b) {
  return (dtype == DT_F32 || dtype == DT_F64) && !a.sym.id && !b.sym.id;
}

#define REAL(name, op)                                                                             \
  static bool real_##name(dt_imp_node_t *n, dt_dtype_t dtype, dt_imp_number_t a,                   \
                          dt_imp_number_t b, dt_imp_number_t *out) {                               \
    (void)n;                                                                                       \
    out->real = rounded(dtype, a.real op b.real);                                                  \
    return are_reals(dtype, a, b);                                                                 \
  }
REAL(add, +)
REAL(sub, -)
#undef REAL

// Whether real * sym is exact in the dtype for all sizes admitted: `real` is a small multiple of a
// power of two, and sizes above a bound are kept out by a guard.
static bool is_exact(dt_imp_node_t *n, dt_dtype_t dtype, double real, dt_sym_t sym) {
  int exponent = 0;
  double significand = frexp(real, &exponent);
  int64_t odd = (int64_t)ldexp(fabs(significand), 12);
  if (!isfinite(real) || real == 0 || ldexp(fabs(significand), 12) != (double)odd ||
      exponent < -40 || exponent > 40)
    return false;
  int64_t bound = dtype == DT_F32 ? (int64_t)1 << 12 : (int64_t)1 << 41;
  dt_sym_t low = dt_sym_le(n->t, dt_sym_const(n->t, -bound), sym);
  dt_sym_t high = dt_sym_le(n->t, sym, dt_sym_const(n->t, bound));
  return dt_sym_guard_or(n->t, dt_sym_and(n->t, low, high), false);
}

static bool scaled(dt_imp_node_t *n, dt_dtype_t dtype, dt_imp_number_t a, double by,
                   dt_imp_number_t *out) {
  *out = (dt_imp_number_t){a.sym, a.real * by};
  return (dtype == DT_F32 || dtype == DT_F64) && is_exact(n, dtype, a.real * by, a.sym);
}

static bool real_mul(dt_imp_node_t *n, dt_dtype_t dtype, dt_imp_number_t a, dt_imp_number_t b,
                     dt_imp_number_t *out) {
  out->real = rounded(dtype, a.real * b.real);
  if (are_reals(dtype, a, b))
    return true;
  if (a.sym.id && b.sym.id)
    return false;
  return a.sym.id ? scaled(n, dtype, a, b.real, out) : scaled(n, dtype, b, a.real, out);
}

static bool real_div(dt_imp_node_t *n, dt_dtype_t dtype, dt_imp_number_t a, dt_imp_number_t b,
                     dt_imp_number_t *out) {
  out->real = rounded(dtype, a.real / b.real);
  if (are_reals(dtype, a, b))
    return true;
  return a.sym.id && !b.sym.id && b.real != 0 && scaled(n, dtype, a, 1 / b.real, out);
}

#define FOLD(op, ...)                                                                              \
  bool dt__imp_fold_##op(dt_imp_node_t *n) {                                                       \
    static const pair_t pair = {__VA_ARGS__};                                                      \
    return fold_pair(n, &pair);                                                                    \
  }
FOLD(Add, dt_sym_add, wrap_add, real_add, false)
FOLD(Sub, dt_sym_sub, wrap_sub, real_sub, false)
FOLD(Mul, dt_sym_mul, wrap_mul, real_mul, false)
FOLD(Div, dt_sym_truncdiv, wrap_div, real_div, false)
#undef FOLD
