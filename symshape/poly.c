// SPDX-License-Identifier: Apache-2.0
// Sums of literal * monomial with checked coefficients, and the products of atoms in them.
#include "symshape/sym_private.h"

#include <string.h>

void dt__poly_init(dt_poly_t *p) {
  p->t = p->small;
  p->n = 0;
  p->cap = sizeof p->small / sizeof p->small[0];
  p->c = 0;
}

void dt__poly_fini(dt_poly_t *p) {
  if (p->t != p->small)
    dt__free(p->t);
  dt__poly_init(p);
}

void dt__poly_swap(dt_poly_t *a, dt_poly_t *b) {
  dt_poly_t keep = *a;
  *a = *b;
  *b = keep;
  if (a->t == b->small)
    a->t = a->small;
  if (b->t == a->small)
    b->t = b->small;
}

static bool reserve(dt_symenv_t *env, dt_poly_t *p, uint32_t need) {
  if (need <= p->cap)
    return true;
  if (need > SYM_MAX_TERMS) {
    dt__sym_fail(env, DT_E_LIMIT, "a symbolic expression has more than 4096 terms");
    return false;
  }
  uint32_t cap = p->cap * 2 > need ? p->cap * 2 : need;
  bool small = p->t == p->small;
  dt_poly_term_t *moved = dt__realloc(small ? NULL : p->t, cap * sizeof *moved);
  if (!moved) {
    dt__sym_fail(env, DT_E_NO_MEMORY, "out of memory");
    return false;
  }
  if (small)
    memcpy(moved, p->small, p->n * sizeof *moved);
  p->t = moved;
  p->cap = cap;
  return true;
}

bool dt__poly_copy(dt_symenv_t *env, dt_poly_t *p, const dt_poly_t *from) {
  if (!reserve(env, p, from->n))
    return false;
  memcpy(p->t, from->t, from->n * sizeof *p->t);
  p->n = from->n;
  p->c = from->c;
  return true;
}

bool dt__poly_add_literal(dt_poly_t *p, int64_t value) { return dt__add_i64(p->c, value, &p->c); }

bool dt__poly_add_term(dt_symenv_t *env, dt_poly_t *p, int64_t coef, uint32_t mono) {
  if (!mono)
    return dt__poly_add_literal(p, coef);
  if (!coef)
    return true;
  uint32_t lo = 0, hi = p->n;
  while (lo < hi) {
    uint32_t mid = (lo + hi) / 2;
    int order = dt__sym_order(env, p->t[mid].mono, mono);
    if (order == 0) {
      if (!dt__add_i64(p->t[mid].coef, coef, &p->t[mid].coef))
        return false;
      if (!p->t[mid].coef) {
        memmove(p->t + mid, p->t + mid + 1, (p->n - mid - 1) * sizeof *p->t);
        p->n--;
      }
      dt__rule(env, DT_RULE_SUM_MERGE);
      return true;
    }
    if (order < 0)
      lo = mid + 1;
    else
      hi = mid;
  }
  if (!reserve(env, p, p->n + 1))
    return false;
  memmove(p->t + lo + 1, p->t + lo, (p->n - lo) * sizeof *p->t);
  p->t[lo] = (dt_poly_term_t){coef, mono};
  p->n++;
  return true;
}

// One node of a sum as coefficient and monomial (0: a literal).
static dt_poly_term_t term_of(const dt_symenv_t *env, uint32_t id) {
  const dt_sym_node_t *node = &env->nodes[id];
  if (node->op == DT_SYM_CONST)
    return (dt_poly_term_t){node->value, 0};
  if (node->op == DT_SYM_MUL && node->value)
    return (dt_poly_term_t){env->nodes[dt__arg(env, id, 0)].value, (uint32_t)node->value};
  return (dt_poly_term_t){1, id};
}

bool dt__poly_load(dt_symenv_t *env, dt_poly_t *p, uint32_t id) {
  p->n = 0;
  p->c = 0;
  id = dt__resolve(env, id);
  if (!id)
    return false;
  if (env->nodes[id].op != DT_SYM_ADD) {
    dt_poly_term_t term = term_of(env, id);
    return dt__poly_add_term(env, p, term.coef, term.mono);
  }
  uint32_t n = env->nodes[id].n_args;
  if (!reserve(env, p, n))
    return false;
  for (uint32_t k = 0; k < n; k++) {
    dt_poly_term_t term = term_of(env, dt__arg(env, id, k));
    if (!term.mono)
      p->c = term.coef;
    else
      p->t[p->n++] = term;
  }
  return true;
}

bool dt__poly_add(dt_symenv_t *env, dt_poly_t *p, const dt_poly_t *q, int64_t scale) {
  int64_t c;
  if (!dt__mul_i64(q->c, scale, &c) || !dt__add_i64(p->c, c, &c))
    return false;
  if (q->n < 4) {
    for (uint32_t k = 0; k < q->n; k++) {
      int64_t coef;
      if (!dt__mul_i64(q->t[k].coef, scale, &coef) ||
          !dt__poly_add_term(env, p, coef, q->t[k].mono))
        return false;
    }
    p->c = c;
    return true;
  }
  dt_poly_t out;
  dt__poly_init(&out);
  bool ok = reserve(env, &out, p->n + q->n < SYM_MAX_TERMS ? p->n + q->n : SYM_MAX_TERMS);
  uint32_t a = 0, b = 0;
  while (ok && (a < p->n || b < q->n)) {
    int order = a == p->n ? 1 : b == q->n ? -1 : dt__sym_order(env, p->t[a].mono, q->t[b].mono);
    dt_poly_term_t term = order <= 0 ? p->t[a] : (dt_poly_term_t){0, q->t[b].mono};
    if (order >= 0) {
      int64_t coef;
      ok = dt__mul_i64(q->t[b].coef, scale, &coef) && dt__add_i64(term.coef, coef, &term.coef);
      b++;
    }
    if (order == 0)
      dt__rule(env, DT_RULE_SUM_MERGE);
    a += order <= 0;
    if (ok && term.coef) {
      ok = reserve(env, &out, out.n + 1);
      if (ok)
        out.t[out.n++] = term;
    }
  }
  out.c = c;
  if (ok)
    dt__poly_swap(p, &out);
  dt__poly_fini(&out);
  return ok;
}

bool dt__poly_scale(dt_poly_t *p, int64_t scale) {
  bool ok = dt__mul_i64(p->c, scale, &p->c);
  for (uint32_t k = 0; ok && k < p->n; k++)
    ok = dt__mul_i64(p->t[k].coef, scale, &p->t[k].coef);
  if (!scale)
    p->n = 0;
  return ok;
}

bool dt__poly_add_product(dt_symenv_t *env, dt_poly_t *p, int64_t scale, uint32_t mono,
                          const dt_poly_t *q) {
  if (!mono)
    return dt__poly_add(env, p, q, scale);
  int64_t coef;
  if (!dt__mul_i64(q->c, scale, &coef) || !dt__poly_add_term(env, p, coef, mono))
    return false;
  for (uint32_t k = 0; k < q->n; k++) {
    uint32_t product = dt__mono_mul(env, mono, q->t[k].mono);
    if (!product || !dt__mul_i64(q->t[k].coef, scale, &coef) ||
        !dt__poly_add_term(env, p, coef, product))
      return false;
  }
  return true;
}

bool dt__poly_mul(dt_symenv_t *env, dt_poly_t *out, const dt_poly_t *a, const dt_poly_t *b) {
  out->n = 0;
  out->c = 0;
  if (!dt__poly_add(env, out, a, b->c))
    return false;
  if (a->n + (a->c != 0) > 1 || b->n + (b->c != 0) > 1)
    dt__rule(env, DT_RULE_PRODUCT_DISTRIBUTE);
  for (uint32_t k = 0; k < b->n; k++)
    if (!dt__poly_add_product(env, out, b->t[k].coef, b->t[k].mono, a))
      return false;
  return true;
}

uint32_t dt__poly_node(dt_symenv_t *env, const dt_poly_t *p) {
  if (p->n == 0)
    return dt__literal(env, p->c);
  dt_sym_t few[16], *terms = few;
  uint32_t n = p->n + (p->c != 0), id = 0;
  if (n > 16 && !(terms = dt__alloc(n * sizeof *terms)))
    return dt__sym_fail(env, DT_E_NO_MEMORY, "out of memory").id;
  for (uint32_t k = 0; k < p->n; k++) {
    uint32_t mono = p->t[k].mono;
    if (p->t[k].coef != 1) {
      uint32_t count = dt__mono_count(env, mono);
      dt_sym_t inner[16], *factors = inner;
      if (count + 1 > 16 && !(factors = dt__alloc((count + 1) * sizeof *factors))) {
        dt__sym_fail(env, DT_E_NO_MEMORY, "out of memory");
        goto done;
      }
      factors[0] = SYM(dt__literal(env, p->t[k].coef));
      for (uint32_t f = 0; f < count; f++)
        factors[f + 1] = SYM(dt__mono_factor(env, mono, f));
      mono = dt__intern(env, DT_SYM_MUL, factors, count + 1, 0);
      if (factors != inner)
        dt__free(factors);
    }
    terms[k] = SYM(mono);
  }
  if (p->c)
    terms[p->n] = SYM(dt__literal(env, p->c));
  id = n == 1 ? terms[0].id : dt__intern(env, DT_SYM_ADD, terms, n, 0);
done:
  if (terms != few)
    dt__free(terms);
  return id;
}

int64_t dt__gcd(int64_t a, int64_t b) {
  if (a == INT64_MIN || b == INT64_MIN)
    return 1;
  a = a < 0 ? -a : a;
  b = b < 0 ? -b : b;
  while (b) {
    int64_t r = a % b;
    a = b;
    b = r;
  }
  return a;
}

int64_t dt__poly_gcd(const dt_poly_t *p) {
  int64_t g = 0;
  for (uint32_t k = 0; k < p->n && g != 1; k++)
    g = dt__gcd(g, p->t[k].coef);
  return g;
}

// ---- Monomials ---------------------------------------------------------------------------------
uint32_t dt__mono_count(const dt_symenv_t *env, uint32_t mono) {
  if (!mono)
    return 0;
  return env->nodes[mono].op == DT_SYM_MUL ? env->nodes[mono].n_args : 1;
}

uint32_t dt__mono_factor(const dt_symenv_t *env, uint32_t mono, uint32_t k) {
  return env->nodes[mono].op == DT_SYM_MUL ? dt__arg(env, mono, k) : mono;
}

static uint32_t mono_node(dt_symenv_t *env, const dt_sym_t *factors, uint32_t n) {
  return n == 0 ? 0 : n == 1 ? factors[0].id : dt__intern(env, DT_SYM_MUL, factors, n, 0);
}

#define MONO_MAX 64 // factors of a product

uint32_t dt__mono_mul(dt_symenv_t *env, uint32_t a, uint32_t b) {
  if (!a || !b)
    return a ? a : b;
  uint32_t na = dt__mono_count(env, a), nb = dt__mono_count(env, b), i = 0, j = 0, n = 0;
  if (na + nb > MONO_MAX)
    return dt__sym_fail(env, DT_E_LIMIT, "a symbolic product has more than 64 factors").id;
  dt_sym_t factors[MONO_MAX];
  while (i < na || j < nb) {
    bool left = j == nb || (i < na && dt__sym_order(env, dt__mono_factor(env, a, i),
                                                    dt__mono_factor(env, b, j)) <= 0);
    factors[n++] = SYM(left ? dt__mono_factor(env, a, i++) : dt__mono_factor(env, b, j++));
  }
  return mono_node(env, factors, n);
}

bool dt__mono_div(dt_symenv_t *env, uint32_t mono, uint32_t by, uint32_t *out) {
  uint32_t n = dt__mono_count(env, mono), m = dt__mono_count(env, by), j = 0, left = 0;
  dt_sym_t factors[MONO_MAX];
  if (m > n)
    return false;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t factor = dt__mono_factor(env, mono, i);
    if (j < m && factor == dt__mono_factor(env, by, j))
      j++;
    else
      factors[left++] = SYM(factor);
  }
  if (j < m)
    return false;
  *out = mono_node(env, factors, left);
  return left == 0 || *out;
}

uint32_t dt__mono_gcd(dt_symenv_t *env, uint32_t a, uint32_t b) {
  uint32_t na = dt__mono_count(env, a), nb = dt__mono_count(env, b), n = 0;
  dt_sym_t factors[MONO_MAX];
  for (uint32_t i = 0, j = 0; i < na && j < nb;) {
    uint32_t x = dt__mono_factor(env, a, i), y = dt__mono_factor(env, b, j);
    int order = dt__sym_order(env, x, y);
    if (order == 0)
      factors[n++] = SYM(x);
    i += order <= 0;
    j += order >= 0;
  }
  return mono_node(env, factors, n);
}

bool dt__poly_split(dt_symenv_t *env, const dt_poly_t *p, uint32_t t, dt_poly_t *a,
                    dt_poly_t *rest) {
  a->n = rest->n = 0;
  a->c = 0;
  rest->c = p->c;
  for (uint32_t k = 0; k < p->n; k++) {
    uint32_t left = 0;
    bool has = dt__mono_div(env, p->t[k].mono, t, &left);
    uint32_t again;
    if (has && left && dt__mono_div(env, left, t, &again))
      return false;
    if (!dt__poly_add_term(env, has ? a : rest, p->t[k].coef, has ? left : p->t[k].mono))
      return false;
  }
  return true;
}
