// SPDX-License-Identifier: Apache-2.0
// Reading expressions: views, ranges, linear form, symbols, evaluation.
#include "symshape/sym_private.h"

#include <math.h>
#include <string.h>

typedef __int128 wide_t;

dt_sym_view_t dt__sym_view(const dt_symenv_t *env, dt_sym_t e) {
  if (e.id >= env->n_nodes)
    e.id = 0;
  const dt_sym_node_t *node = &env->nodes[e.id];
  dt_sym_view_t view = {.op = (dt_sym_op_t)node->op,
                        .n_args = node->n_args,
                        .args = node->n_args ? env->args + node->first : NULL};
  if (node->op == DT_SYM_CONST)
    view.value = node->value;
  if (node->op == DT_SYM_SYMBOL)
    view.symbol = (uint32_t)node->value;
  return view;
}

bool dt__sym_exists(const dt_symenv_t *env, uint32_t id) { return id > 0 && id < env->n_nodes; }

bool dt__sym_is_const(const dt_symenv_t *env, dt_sym_t e, int64_t *out_value) {
  if (env->nodes[e.id].op != DT_SYM_CONST)
    return false;
  if (out_value)
    *out_value = env->nodes[e.id].value;
  return true;
}

bool dt__sym_is_symbol(const dt_symenv_t *env, dt_sym_t e, uint32_t *out_symbol) {
  if (env->nodes[e.id].op != DT_SYM_SYMBOL)
    return false;
  if (out_symbol)
    *out_symbol = (uint32_t)env->nodes[e.id].value;
  return true;
}

dt_range_t dt__sym_range(dt_symenv_t *env, dt_sym_t e) {
  dt_sym_t now = dt__sym_simplify(env, e);
  int64_t value;
  if (!now.id)
    return (dt_range_t){INT64_MIN, INT64_MAX};
  if (dt__literal_value(env, now.id, &value))
    return (dt_range_t){value, value};
  return dt__range_of(env, now.id);
}

bool dt__sym_linear(dt_symenv_t *env, dt_sym_t e, dt_sym_t var, dt_sym_t *coef, dt_sym_t *rest) {
  *coef = *rest = DT_SYM_NONE_ID;
  if (!e.id || env->nodes[var.id].op != DT_SYM_SYMBOL)
    return false;
  dt_poly_t p, a, r;
  dt__poly_init(&p);
  dt__poly_init(&a);
  dt__poly_init(&r);
  bool ok = dt__poly_load(env, &p, e.id) && dt__poly_split(env, &p, var.id, &a, &r);
  if (ok) {
    *coef = SYM(dt__poly_node(env, &a));
    *rest = SYM(dt__poly_node(env, &r));
    ok = coef->id && rest->id && !dt__sym_depends(env, *coef, var) &&
         !dt__sym_depends(env, *rest, var);
  }
  if (!ok)
    *coef = *rest = DT_SYM_NONE_ID;
  dt__poly_fini(&p);
  dt__poly_fini(&a);
  dt__poly_fini(&r);
  return ok;
}

bool dt__sym_depends(const dt_symenv_t *env, dt_sym_t e, dt_sym_t var) {
  if (e.id == var.id)
    return e.id != 0;
  const dt_sym_node_t *node = &env->nodes[e.id];
  if (!(node->mask & env->nodes[var.id].mask))
    return false;
  for (uint32_t k = 0; k < node->n_args; k++)
    if (dt__sym_depends(env, SYM(dt__arg(env, e.id, k)), var))
      return true;
  return false;
}

// Marks symbols [first, first + 64*words) in `seen`.
static void mark_symbols(const dt_symenv_t *env, uint32_t id, uint32_t first, uint32_t words,
                         uint64_t *seen) {
  const dt_sym_node_t *node = &env->nodes[id];
  if (node->op == DT_SYM_SYMBOL) {
    uint64_t index = (uint64_t)node->value - first;
    if ((uint64_t)node->value >= first && index < 64ull * words)
      seen[index / 64] |= 1ull << (index % 64);
    return;
  }
  for (uint32_t k = 0; node->mask && k < node->n_args; k++)
    mark_symbols(env, dt__arg(env, id, k), first, words, seen);
}

#define FEW_SYMBOLS 16

// Puts the symbols of expression `id` into `few`, ascending; false: there are more.
static bool find_few(const dt_symenv_t *env, uint32_t id, uint32_t *few, uint32_t *n) {
  const dt_sym_node_t *node = &env->nodes[id];
  if (node->op != DT_SYM_SYMBOL) {
    for (uint32_t k = 0; node->mask && k < node->n_args; k++)
      if (!find_few(env, dt__arg(env, id, k), few, n))
        return false;
    return true;
  }
  uint32_t symbol = (uint32_t)node->value, at = *n;
  while (at > 0 && few[at - 1] > symbol)
    at--;
  if (at > 0 && few[at - 1] == symbol)
    return true;
  if (*n == FEW_SYMBOLS)
    return false;
  memmove(few + at + 1, few + at, (*n - at) * sizeof(*few));
  few[at] = symbol;
  (*n)++;
  return true;
}

uint32_t dt__sym_symbols(const dt_symenv_t *env, dt_sym_t e, uint32_t *out, uint32_t cap) {
  uint32_t few[FEW_SYMBOLS], n = 0;
  if (find_few(env, e.id, few, &n)) {
    memcpy(out, few, (n < cap ? n : cap) * sizeof(*few));
    return n;
  }
  enum { WORDS = 64 };
  uint64_t seen[WORDS];
  uint32_t count = 0;
  for (uint32_t first = 0; first < env->n_symbols; first += 64 * WORDS) {
    memset(seen, 0, sizeof seen);
    mark_symbols(env, e.id, first, WORDS, seen);
    for (uint32_t w = 0; w < WORDS; w++)
      for (uint64_t bits = seen[w]; bits; bits &= bits - 1, count++)
        if (count < cap)
          out[count] = first + w * 64 + (uint32_t)__builtin_ctzll(bits);
  }
  return count;
}

// 1 + the index of the newest UNBACKED symbol, but at least `least`.
static uint32_t newest_unbacked(const dt_symenv_t *env, uint32_t id, uint32_t least) {
  const dt_sym_node_t *node = &env->nodes[id];
  if (node->op == DT_SYM_SYMBOL) {
    uint32_t index = (uint32_t)node->value;
    return env->symbols[index].kind == DT_SYMBOL_UNBACKED && index >= least ? index + 1 : least;
  }
  for (uint32_t k = 0; node->mask && k < node->n_args; k++)
    least = newest_unbacked(env, dt__arg(env, id, k), least);
  return least;
}

bool dt__sym_newest_unbacked(const dt_symenv_t *env, dt_sym_t e, uint32_t *out) {
  uint32_t newest = newest_unbacked(env, e.id, 0);
  if (newest)
    *out = newest - 1;
  return newest != 0;
}

// ---- Evaluation --------------------------------------------------------------------------------
typedef struct reading_t {
  const dt_symenv_t *env;
  const int64_t *values; // NULL: hints
  const int64_t *only;   // the value of the one symbol there is; NULL: more
} reading_t;

static bool eval(const reading_t *v, uint32_t id, int64_t *out);

// The value of a sum or product modulo 2^128, with an estimate and how far off that may be: where
// the estimate is well below 2^127 the wrapped value is the exact one, though parts of the sum may
// have been much larger (up to about 2^180; a sum with larger parts has no value).
typedef struct dt_ring_t {
  unsigned __int128 wrapped;
  long double near, off;
} dt_ring_t;

#define RING_EPSILON 0x1p-62L // twice the rounding error of one long double operation

static bool eval_ring(const reading_t *v, uint32_t id, dt_ring_t *out) {
  const dt_sym_node_t *node = &v->env->nodes[id];
  if (node->op != DT_SYM_ADD && node->op != DT_SYM_MUL) {
    int64_t value;
    if (!eval(v, id, &value))
      return false;
    *out = (dt_ring_t){(unsigned __int128)(wide_t)value, (long double)value, 0};
    return true;
  }
  bool product = node->op == DT_SYM_MUL;
  dt_ring_t r = {product, product, 0}, x;
  for (uint32_t k = 0; k < node->n_args; k++) {
    if (!eval_ring(v, dt__arg(v->env, id, k), &x))
      return false;
    if (product) {
      r.off = fabsl(r.near) * x.off + fabsl(x.near) * r.off + r.off * x.off;
      r.near *= x.near;
      r.wrapped *= x.wrapped;
    } else {
      r.off += x.off;
      r.near += x.near;
      r.wrapped += x.wrapped;
    }
    r.off += fabsl(r.near) * RING_EPSILON;
  }
  *out = r;
  return true;
}

static bool eval_exact(const reading_t *v, uint32_t id, int64_t *out) {
  dt_ring_t r;
  if (!eval_ring(v, id, &r) || fabsl(r.near) + r.off >= 0x1p126L)
    return false;
  wide_t exact = (wide_t)r.wrapped;
  *out = (int64_t)exact;
  return exact == (int64_t)exact;
}

static bool eval_symbol(const reading_t *v, uint32_t symbol, int64_t *out) {
  const dt_symbol_t *s = &v->env->symbols[symbol];
  if (v->only) {
    *out = *v->only;
    return true;
  }
  *out = v->values ? v->values[symbol] : s->hint;
  return v->values || s->has_hint;
}

// False if one argument is false (AND), true if one is true (OR), whatever the others are.
static bool eval_junction(const reading_t *v, uint32_t id, bool deciding, int64_t *out) {
  bool all = true;
  for (uint32_t k = 0; k < v->env->nodes[id].n_args; k++) {
    int64_t x;
    bool ok = eval(v, dt__arg(v->env, id, k), &x);
    all &= ok;
    if (ok && (x != 0) == deciding) {
      *out = deciding;
      return true;
    }
  }
  *out = !deciding;
  return all;
}

static bool take(dt_sym_number_t number, int64_t *out) {
  *out = number.value;
  return number.known;
}

static bool eval_minmax(const reading_t *v, uint32_t id, int64_t *out) {
  dt_sym_op_t op = (dt_sym_op_t)v->env->nodes[id].op;
  for (uint32_t k = 0; k < v->env->nodes[id].n_args; k++) {
    int64_t x;
    if (!eval(v, dt__arg(v->env, id, k), &x))
      return false;
    *out = k == 0 ? x : dt__sym_apply(op, *out, x).value;
  }
  return true;
}

static bool eval(const reading_t *v, uint32_t id, int64_t *out) {
  const dt_sym_node_t *node = &v->env->nodes[id];
  int64_t a, b;
  switch (node->op) {
  case DT_SYM_NONE:
    return false;
  case DT_SYM_CONST:
    *out = node->value;
    return true;
  case DT_SYM_SYMBOL:
    return eval_symbol(v, (uint32_t)node->value, out);
  case DT_SYM_ADD:
  case DT_SYM_MUL:
    return eval_exact(v, id, out);
  case DT_SYM_MIN:
  case DT_SYM_MAX:
    return eval_minmax(v, id, out);
  case DT_SYM_SELECT:
    return eval(v, dt__arg(v->env, id, 0), &a) && eval(v, dt__arg(v->env, id, a ? 1 : 2), out);
  case DT_SYM_AND:
  case DT_SYM_OR:
    return eval_junction(v, id, node->op == DT_SYM_OR, out);
  case DT_SYM_NOT:
    if (!eval(v, dt__arg(v->env, id, 0), &a))
      return false;
    *out = a == 0;
    return true;
  default:
    return eval(v, dt__arg(v->env, id, 0), &a) && eval(v, dt__arg(v->env, id, 1), &b) &&
           take(dt__sym_apply((dt_sym_op_t)node->op, a, b), out);
  }
}

// `out` is left alone where there is no value.
__attribute__((noinline)) static bool eval_any(const dt_symenv_t *env, uint32_t id,
                                               const int64_t *values, const int64_t *only,
                                               int64_t *out) {
  reading_t v = {env, values, only};
  int64_t result;
  if (!eval(&v, id, &result))
    return false;
  *out = result;
  return true;
}

// ---- Without wide numbers ----------------------------------------------------------------------
// The interpreter asks once an element, and nearly all it asks is sums and products that do not
// overflow. What is not known here is asked of eval.
static dt_sym_number_t plain(const dt_symenv_t *env, const int64_t *values, uint32_t id);

// Sums, products, least and greatest ones.
static dt_sym_number_t plain_many(const dt_symenv_t *env, const int64_t *values, uint32_t id) {
  dt_sym_op_t op = (dt_sym_op_t)env->nodes[id].op;
  dt_sym_number_t all = plain(env, values, dt__arg(env, id, 0));
  for (uint32_t k = 1; all.known && k < env->nodes[id].n_args; k++) {
    dt_sym_number_t x = plain(env, values, dt__arg(env, id, k));
    // Overflow of 64 bits is left to eval; here it must not be computed in them.
    wide_t wide = op == DT_SYM_ADD   ? (wide_t)all.value + x.value
                  : op == DT_SYM_MUL ? (wide_t)all.value * x.value
                  : op == DT_SYM_MAX ? (x.value > all.value ? x.value : all.value)
                                     : (x.value < all.value ? x.value : all.value);
    all.value = (int64_t)wide;
    all.known = x.known && wide == (wide_t)all.value;
  }
  return all;
}

static dt_sym_number_t plain_pair(dt_sym_op_t op, dt_sym_number_t a, dt_sym_number_t b) {
  return a.known && b.known ? dt__sym_apply(op, a.value, b.value) : (dt_sym_number_t){0, false};
}

static dt_sym_number_t plain(const dt_symenv_t *env, const int64_t *values, uint32_t id) {
  const dt_sym_node_t *node = &env->nodes[id];
  switch (node->op) {
  case DT_SYM_CONST:
    return (dt_sym_number_t){node->value, true};
  case DT_SYM_SYMBOL:
    return (dt_sym_number_t){values[node->value], true};
  case DT_SYM_ADD:
  case DT_SYM_MUL:
  case DT_SYM_MIN:
  case DT_SYM_MAX:
    return plain_many(env, values, id);
  case DT_SYM_FLOORDIV:
  case DT_SYM_MOD:
  case DT_SYM_EQ:
  case DT_SYM_NE:
  case DT_SYM_LT:
  case DT_SYM_LE:
    return plain_pair((dt_sym_op_t)node->op, plain(env, values, dt__arg(env, id, 0)),
                      plain(env, values, dt__arg(env, id, 1)));
  default:
    return (dt_sym_number_t){0, false};
  }
}

bool dt__sym_eval(const dt_symenv_t *env, dt_sym_t e, const int64_t *values, int64_t *out) {
  if (values) {
    dt_sym_number_t p = plain(env, values, e.id);
    if (p.known) {
      *out = p.value;
      return true;
    }
  }
  return eval_any(env, e.id, values, NULL, out);
}

bool dt__eval_one(const dt_symenv_t *env, uint32_t id, int64_t value, int64_t *out) {
  return eval_any(env, id, NULL, &value, out);
}

bool dt__sym_hint(const dt_symenv_t *env, dt_sym_t e, int64_t *out) {
  return dt__sym_eval(env, e, NULL, out);
}
