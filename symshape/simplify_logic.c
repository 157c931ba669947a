// SPDX-License-Identifier: Apache-2.0
// Comparisons, and, or, not: rules ORDER_*, EQUAL_*, NOT_*, JUNCTION_*.
//
// a < b and a <= b become one sum f >= 0 over exact integers; a == b becomes f == 0. A proof
// decides the sum; otherwise it is written back as two sides without a common term, so that equal
// questions are one node. Sides are only changed if the new ones fit in 64 bits wherever the old
// ones did.
#include "symshape/sym_private.h"

#include <string.h>

static uint32_t truth(dt_symenv_t *env, bool value) { return dt__literal(env, value); }

// out = b - a, less one for LT.
static bool order_sum(dt_symenv_t *env, bool strict, uint32_t a, uint32_t b, dt_poly_t *out) {
  dt_poly_t q;
  dt__poly_init(&q);
  bool ok = dt__poly_load(env, out, b) && dt__poly_load(env, &q, a) &&
            dt__poly_add(env, out, &q, -1) && (!strict || dt__poly_add_literal(out, -1));
  dt__poly_fini(&q);
  return ok;
}

bool dt__order_poly(dt_symenv_t *env, uint32_t cond, dt_poly_t *out) {
  return order_sum(env, env->nodes[cond].op == DT_SYM_LT, dt__arg(env, cond, 0),
                   dt__arg(env, cond, 1), out);
}

static bool sum_is_plain(dt_symenv_t *env, uint32_t id) {
  dt_poly_t p;
  dt__poly_init(&p);
  bool plain = dt__poly_load(env, &p, id) && dt__poly_plain(env, &p);
  dt__poly_fini(&p);
  return plain;
}

// Positive terms of f to `p`, negated negative ones to `n`; literals are left out.
static bool sides(dt_symenv_t *env, const dt_poly_t *f, dt_poly_t *p, dt_poly_t *n) {
  for (uint32_t k = 0; k < f->n; k++) {
    int64_t minus;
    if (f->t[k].coef > 0 ? !dt__poly_add_term(env, p, f->t[k].coef, f->t[k].mono)
                         : (!dt__mul_i64(f->t[k].coef, -1, &minus) ||
                            !dt__poly_add_term(env, n, minus, f->t[k].mono)))
      return false;
  }
  return f->c != INT64_MIN;
}

// f -> -f - 1: the opposite of f >= 0.
static bool opposite(dt_symenv_t *env, const dt_poly_t *f, dt_poly_t *out) {
  bool ok = dt__poly_copy(env, out, f);
  out->c = 0;
  ok = ok && dt__poly_scale(out, -1);
  out->c = -1 - f->c; // fits for every literal
  return ok;
}

// 1 or 0 when f >= 0 is decided, else -1.
static int decide_order(dt_symenv_t *env, const dt_poly_t *f) {
  if (dt__prove_ge0(env, f, 0))
    return 1;
  dt_poly_t not_f;
  dt__poly_init(&not_f);
  int answer = opposite(env, f, &not_f) && dt__prove_ge0(env, &not_f, 0) ? 0 : -1;
  dt__poly_fini(&not_f);
  return answer;
}

// Divides f >= 0 by the common factor of its coefficients; false: there is none.
static bool reduce_order(dt_symenv_t *env, dt_poly_t *f) {
  int64_t g = dt__poly_gcd(f);
  if (g <= 1)
    return false;
  dt__rule(env, DT_RULE_ORDER_GCD);
  for (uint32_t k = 0; k < f->n; k++)
    f->t[k].coef /= g;
  f->c = dt__floordiv_i64(f->c, g);
  return true;
}

// ORDER_BOOL: f is a - 1 or -a for one condition a.
static uint32_t order_bool(dt_symenv_t *env, const dt_poly_t *f) {
  if (f->n != 1 || !dt__is_bool(env, f->t[0].mono) || f->c != (f->t[0].coef > 0 ? -1 : 0))
    return 0;
  dt__rule(env, DT_RULE_ORDER_BOOL);
  return f->t[0].coef > 0 ? dt__finish(env, f->t[0].mono) : dt__sym_not(env, SYM(f->t[0].mono)).id;
}

// f >= 0 as a node; 0 when the sides may not be changed.
static uint32_t order_node(dt_symenv_t *env, const dt_poly_t *f, bool plain) {
  dt_poly_t p, n;
  dt__poly_init(&p);
  dt__poly_init(&n);
  uint32_t id = 0;
  bool strict = false, ok = sides(env, f, &p, &n);
  if (ok && f->c >= 0) {
    p.c = f->c;
  } else if (ok && n.n == 0 && f->c < -1) {
    n.c = -f->c;
  } else if (ok) {
    n.c = -f->c - 1;
    strict = true;
  }
  if (ok && (plain || (dt__poly_fits(env, &p) && dt__poly_fits(env, &n)))) {
    dt__rule(env, DT_RULE_ORDER_SIDES);
    id = dt__intern2(env, strict ? DT_SYM_LT : DT_SYM_LE, dt__poly_node(env, &n),
                     dt__poly_node(env, &p));
  }
  dt__poly_fini(&p);
  dt__poly_fini(&n);
  return id;
}

static dt_sym_t order(dt_symenv_t *env, dt_sym_op_t op, dt_sym_t a, dt_sym_t b) {
  if (!a.id || !b.id)
    return DT_SYM_NONE_ID;
  uint32_t x = dt__resolve(env, a.id), y = dt__resolve(env, b.id), id = 0;
  int64_t l, r;
  if (dt__literal_value(env, x, &l) && dt__literal_value(env, y, &r)) {
    dt__rule(env, DT_RULE_ORDER_LITERALS);
    return SYM(truth(env, op == DT_SYM_LT ? l < r : l <= r));
  }
  if (dt__cache_get(env, op, x, y, &id))
    return SYM(id);
  dt_poly_t f;
  dt__poly_init(&f);
  env->quiet++;
  if (order_sum(env, op == DT_SYM_LT, x, y, &f)) {
    int answer = decide_order(env, &f);
    if (answer < 0 && reduce_order(env, &f))
      answer = decide_order(env, &f); // smaller literals may be decided
    if (answer >= 0) {
      dt__rule(env, DT_RULE_ORDER_PROVED);
      id = truth(env, answer);
    } else {
      id = order_bool(env, &f);
      id = id ? id : order_node(env, &f, sum_is_plain(env, x) && sum_is_plain(env, y));
    }
  }
  env->quiet--;
  dt__poly_fini(&f);
  if (!id)
    id = dt__intern2(env, op, x, y);
  id = dt__finish(env, id);
  dt__cache_put(env, op, x, y, id);
  return SYM(id);
}

// The product of the literal divisors in f, or 0.
static int64_t divisors(const dt_symenv_t *env, const dt_poly_t *f) {
  int64_t product = 1;
  for (uint32_t k = 0; k < f->n; k++)
    for (uint32_t i = 0; i < dt__mono_count(env, f->t[k].mono); i++) {
      uint32_t atom = dt__mono_factor(env, f->t[k].mono, i);
      int64_t d;
      if (env->nodes[atom].op != DT_SYM_FLOORDIV ||
          !dt__literal_value(env, dt__arg(env, atom, 1), &d) || d < 2)
        continue;
      product *= d / dt__gcd(product, d);
      if (d > 1 << 20 || product > 1 << 20)
        return 0;
    }
  return product == 1 ? 0 : product;
}

// Divides f == 0 by the common factor of its literals.
static void reduce_equal(dt_poly_t *f) {
  int64_t g = dt__gcd(dt__poly_gcd(f), f->c);
  for (uint32_t k = 0; g > 1 && k < f->n; k++)
    f->t[k].coef /= g;
  if (g > 1)
    f->c /= g;
}

// 1 or 0 when f == 0 is decided, else -1.
static int decide_equal(dt_symenv_t *env, const dt_poly_t *f) {
  if (f->n == 0) {
    dt__rule(env, DT_RULE_EQUAL_SAME);
    return f->c == 0;
  }
  dt_congruence_t c = dt__poly_congruence(env, f);
  if (c.residue != 0) {
    dt__rule(env, DT_RULE_EQUAL_CONGRUENCE);
    return 0;
  }
  dt_poly_t g;
  dt__poly_init(&g);
  bool apart =
      dt__poly_copy(env, &g, f) && dt__poly_add_literal(&g, -1) && dt__prove_ge0(env, &g, 0);
  g.n = 0;
  g.c = 0;
  apart = apart || (opposite(env, f, &g) && dt__prove_ge0(env, &g, 0));
  int answer = apart ? 0 : -1;
  if (apart)
    dt__rule(env, DT_RULE_EQUAL_PROVED);
  int64_t scale = apart ? 0 : divisors(env, f), value;
  if (scale && dt__poly_copy(env, &g, f) && dt__poly_scale(&g, scale)) {
    uint32_t id = dt__sum_finish(env, &g);
    if (id && dt__literal_value(env, id, &value)) {
      dt__rule(env, DT_RULE_EQUAL_SCALED);
      answer = value == 0;
    }
  }
  dt__poly_fini(&g);
  return answer;
}

// EQUAL_BOOL: one side is a condition, the other 0 or 1.
static uint32_t equal_bool(dt_symenv_t *env, uint32_t x, uint32_t y) {
  int64_t value;
  if (dt__is_bool(env, y)) {
    uint32_t keep = x;
    x = y;
    y = keep;
  }
  if (!dt__is_bool(env, x) || !dt__literal_value(env, y, &value) || value < 0 || value > 1)
    return 0;
  dt__rule(env, DT_RULE_EQUAL_BOOL);
  return value ? dt__finish(env, x) : dt__sym_not(env, SYM(x)).id;
}

// f == 0 as a node; 0 when the sides may not be changed.
static uint32_t equal_node(dt_symenv_t *env, dt_poly_t *f, bool plain) {
  dt_poly_t p, n;
  dt__poly_init(&p);
  dt__poly_init(&n);
  bool ok = (f->t[0].coef > 0 || dt__poly_scale(f, -1)) && sides(env, f, &p, &n);
  if (f->c > 0 && n.n)
    p.c = f->c;
  else if (ok)
    n.c = -f->c;
  uint32_t id = 0;
  if (ok && (plain || (dt__poly_fits(env, &p) && dt__poly_fits(env, &n)))) {
    uint32_t left = dt__poly_node(env, &p), right = dt__poly_node(env, &n);
    dt__rule(env, DT_RULE_EQUAL_SIDES);
    if (left && right)
      id = equal_bool(env, left, right);
    id = id ? id : dt__intern2(env, DT_SYM_EQ, left, right);
  }
  dt__poly_fini(&p);
  dt__poly_fini(&n);
  return id;
}

// Remembers the sides of a comparison that is false as it is built, for messages.
static dt_sym_t compared(dt_symenv_t *env, dt_sym_op_t op, dt_sym_t a, dt_sym_t b, dt_sym_t made) {
  int64_t value;
  if (env->quiet || env->asked.cond.id || env->prove_depth)
    return made;
  bool no = made.id && dt__literal_value(env, made.id, &value) && value == 0;
  env->refused.op = no ? op : DT_SYM_NONE;
  env->refused.a = a;
  env->refused.b = b;
  return made;
}

static dt_sym_t equal(dt_symenv_t *env, dt_sym_t a, dt_sym_t b) {
  if (!a.id || !b.id)
    return DT_SYM_NONE_ID;
  uint32_t x = dt__resolve(env, a.id), y = dt__resolve(env, b.id), id = 0;
  int64_t l, r;
  if (dt__literal_value(env, x, &l) && dt__literal_value(env, y, &r)) {
    dt__rule(env, DT_RULE_EQUAL_SAME);
    return SYM(truth(env, l == r));
  }
  if (dt__cache_get(env, DT_SYM_EQ, x, y, &id))
    return SYM(id);
  id = equal_bool(env, x, y);
  if (id)
    return SYM(id);
  dt_poly_t f, q;
  dt__poly_init(&f);
  dt__poly_init(&q);
  env->quiet++;
  // The difference the other way round may fit where this one does not.
  if ((dt__poly_load(env, &f, x) && dt__poly_load(env, &q, y) && dt__poly_add(env, &f, &q, -1)) ||
      (dt__poly_load(env, &f, y) && dt__poly_load(env, &q, x) && dt__poly_add(env, &f, &q, -1))) {
    reduce_equal(&f);
    int answer = decide_equal(env, &f);
    id = answer >= 0 ? truth(env, answer)
                     : equal_node(env, &f, sum_is_plain(env, x) && sum_is_plain(env, y));
  }
  env->quiet--;
  dt__poly_fini(&f);
  dt__poly_fini(&q);
  if (!id)
    id = dt__sym_order(env, x, y) <= 0 ? dt__intern2(env, DT_SYM_EQ, x, y)
                                       : dt__intern2(env, DT_SYM_EQ, y, x);
  id = dt__finish(env, id);
  dt__cache_put(env, DT_SYM_EQ, x, y, id);
  return SYM(id);
}

dt_sym_t dt__sym_eq(dt_symenv_t *env, dt_sym_t a, dt_sym_t b) {
  return compared(env, DT_SYM_EQ, a, b, equal(env, a, b));
}
dt_sym_t dt__sym_ne(dt_symenv_t *env, dt_sym_t a, dt_sym_t b) {
  return compared(env, DT_SYM_NE, a, b, dt__sym_not(env, equal(env, a, b)));
}
dt_sym_t dt__sym_lt(dt_symenv_t *env, dt_sym_t a, dt_sym_t b) {
  return compared(env, DT_SYM_LT, a, b, order(env, DT_SYM_LT, a, b));
}
dt_sym_t dt__sym_le(dt_symenv_t *env, dt_sym_t a, dt_sym_t b) {
  return compared(env, DT_SYM_LE, a, b, order(env, DT_SYM_LE, a, b));
}

// ---- Not, and, or ------------------------------------------------------------------------------
static dt_sym_t not_junction(dt_symenv_t *env, uint32_t id) {
  uint32_t n = env->nodes[id].n_args;
  dt_sym_t few[16], *items = n <= 16 ? few : dt__alloc(n * sizeof *items);
  if (!items)
    return dt__sym_fail(env, DT_E_NO_MEMORY, "out of memory");
  for (uint32_t k = 0; k < n; k++)
    items[k] = dt__sym_not(env, SYM(dt__arg(env, id, k)));
  dt_sym_op_t op = env->nodes[id].op == DT_SYM_AND ? DT_SYM_OR : DT_SYM_AND;
  dt_sym_t result = dt__build_junction(env, op, items, n);
  if (items != few)
    dt__free(items);
  return result;
}

dt_sym_t dt__sym_not(dt_symenv_t *env, dt_sym_t a) {
  uint32_t id = a.id ? dt__resolve(env, a.id) : 0;
  if (!id)
    return DT_SYM_NONE_ID;
  int64_t value;
  if (dt__literal_value(env, id, &value))
    return SYM(truth(env, !value));
  if (dt__is_bool(env, id))
    dt__rule(env, DT_RULE_NOT_PUSH);
  switch (env->nodes[id].op) {
  case DT_SYM_EQ:
  case DT_SYM_NE: {
    dt_sym_op_t op = env->nodes[id].op == DT_SYM_EQ ? DT_SYM_NE : DT_SYM_EQ;
    return SYM(dt__finish(env, dt__intern2(env, op, dt__arg(env, id, 0), dt__arg(env, id, 1))));
  }
  case DT_SYM_LT:
    return dt__sym_le(env, SYM(dt__arg(env, id, 1)), SYM(dt__arg(env, id, 0)));
  case DT_SYM_LE:
    return dt__sym_lt(env, SYM(dt__arg(env, id, 1)), SYM(dt__arg(env, id, 0)));
  case DT_SYM_AND:
  case DT_SYM_OR:
    return not_junction(env, id);
  default:
    return dt__sym_eq(env, SYM(id), dt__sym_const(env, 0));
  }
}

static bool has_complement(dt_symenv_t *env, const dt_sym_t *items, uint32_t n) {
  for (uint32_t k = 0; n > 1 && n <= 16 && k < n; k++) {
    uint32_t other = dt__sym_not(env, items[k]).id;
    for (uint32_t j = 0; j < n; j++)
      if (other && items[j].id == other)
        return true;
  }
  return false;
}

static uint32_t junction_of(dt_symenv_t *env, dt_sym_op_t op, dt_sym_t *items, uint32_t count) {
  dt__sym_sort(env, items, count);
  uint32_t kept = 0;
  for (uint32_t k = 0; k < count; k++) {
    int64_t value;
    if (!items[k].id)
      return 0;
    if (dt__literal_value(env, items[k].id, &value)) {
      dt__rule(env, DT_RULE_JUNCTION_FLAT);
      if ((value != 0) == (op == DT_SYM_OR))
        return truth(env, op == DT_SYM_OR);
    } else if (!kept || items[kept - 1].id != items[k].id) {
      items[kept++] = items[k];
    }
  }
  if (kept == 0)
    return truth(env, op == DT_SYM_AND);
  if (has_complement(env, items, kept)) {
    dt__rule(env, DT_RULE_JUNCTION_COMPLEMENT);
    return truth(env, op == DT_SYM_OR);
  }
  return kept == 1 ? items[0].id : dt__finish(env, dt__intern(env, op, items, kept, 0));
}

dt_sym_t dt__build_junction(dt_symenv_t *env, dt_sym_op_t op, const dt_sym_t *args, uint32_t n) {
  dt_sym_items_t items;
  if (!dt__items_open(env, op, args, n, &items))
    return DT_SYM_NONE_ID;
  bool whole = true;
  for (uint32_t k = 0; k < items.n; k++) {
    if (!dt__is_bool(env, items.at[k].id))
      items.at[k] = dt__sym_ne(env, items.at[k], dt__sym_const(env, 0));
    whole &= items.at[k].id != 0;
  }
  uint32_t id = whole ? junction_of(env, op, items.at, items.n) : 0;
  dt__items_close(&items);
  return SYM(id);
}

dt_sym_t dt__sym_and(dt_symenv_t *env, dt_sym_t a, dt_sym_t b) {
  dt_sym_t args[2] = {a, b};
  return dt__build_junction(env, DT_SYM_AND, args, 2);
}
dt_sym_t dt__sym_or(dt_symenv_t *env, dt_sym_t a, dt_sym_t b) {
  dt_sym_t args[2] = {a, b};
  return dt__build_junction(env, DT_SYM_OR, args, 2);
}
