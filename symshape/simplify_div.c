// SPDX-License-Identifier: Apache-2.0
// Quotients and remainders, rounded to minus infinity: rules DIV_* and MOD_*.
//
// Both are computed together: x is divided by q as polynomials, x == q*k + r, and then the quotient
// is k + r//q and the remainder r%q, whatever the signs. Then r//q must be shown to be 0 or -1, or
// r and q must be made smaller.
#include "symshape/sym_private.h"

typedef struct dt_division_t {
  bool mod;       // the remainder is asked for
  uint32_t x, q;  // as asked
  dt_poly_t p, d; // x and q
  dt_poly_t k, r; // p == d*k + r
  bool single;    // d is one term or a literal:
  int64_t coef;   //   coef *
  uint32_t mono;  //   mono (0: none)
} dt_division_t;

static void division_init(dt_division_t *v) {
  dt__poly_init(&v->p);
  dt__poly_init(&v->d);
  dt__poly_init(&v->k);
  dt__poly_init(&v->r);
}
static void division_fini(dt_division_t *v) {
  dt__poly_fini(&v->p);
  dt__poly_fini(&v->d);
  dt__poly_fini(&v->k);
  dt__poly_fini(&v->r);
}

static uint32_t build(dt_symenv_t *env, bool mod, uint32_t x, uint32_t q) {
  return (mod ? dt__sym_mod(env, SYM(x), SYM(q)) : dt__sym_floordiv(env, SYM(x), SYM(q))).id;
}

// The sum of p and a node, or p alone for node 0.
static uint32_t plus(dt_symenv_t *env, const dt_poly_t *p, uint32_t node) {
  return node ? dt__sym_add(env, SYM(dt__poly_node(env, p)), SYM(node)).id : 0;
}

// Splits a literal c = g*k + r with 0 <= r < g.
static bool split_literal(dt_poly_t *k, dt_poly_t *r, int64_t c, int64_t g) {
  r->c = dt__mod_i64(c, g);
  return dt__add_i64(k->c, dt__floordiv_i64(c, g), &k->c);
}

// p == g*a + r, with every term that g = coef*mono divides in a. coef >= 1.
static bool divide_by_term(dt_symenv_t *env, const dt_poly_t *p, int64_t coef, uint32_t mono,
                           dt_poly_t *a, dt_poly_t *r) {
  a->n = r->n = 0;
  a->c = 0;
  r->c = p->c;
  if (!mono && !split_literal(a, r, p->c, coef))
    return false;
  for (uint32_t k = 0; k < p->n; k++) {
    uint32_t left = p->t[k].mono;
    bool divides = p->t[k].coef % coef == 0 && (!mono || dt__mono_div(env, left, mono, &left));
    if (!divides ? !dt__poly_add_term(env, r, p->t[k].coef, p->t[k].mono)
                 : !dt__poly_add_term(env, a, p->t[k].coef / coef, left))
      return false;
  }
  return true;
}

// Long division by a sum, led by its first term.
static bool divide_by_sum(dt_symenv_t *env, dt_division_t *v) {
  int64_t coef = v->d.t[0].coef, minus;
  uint32_t mono = v->d.t[0].mono, left = 0;
  if (!dt__poly_copy(env, &v->r, &v->p))
    return false;
  if (coef == -1)
    return true;
  for (int round = 0; round < 32; round++) {
    uint32_t k = 0;
    while (k < v->r.n &&
           (v->r.t[k].coef % coef != 0 || !dt__mono_div(env, v->r.t[k].mono, mono, &left)))
      k++;
    if (k == v->r.n)
      return true;
    int64_t ratio = v->r.t[k].coef / coef;
    if (!dt__mul_i64(ratio, -1, &minus) || !dt__poly_add_term(env, &v->k, ratio, left) ||
        !dt__poly_add_product(env, &v->r, minus, left, &v->d))
      return false;
  }
  return true;
}

static bool divide(dt_symenv_t *env, dt_division_t *v) {
  if (!dt__poly_load(env, &v->p, v->x) || !dt__poly_load(env, &v->d, v->q))
    return false;
  v->single = v->d.n + (v->d.c != 0) == 1;
  if (!v->single)
    return divide_by_sum(env, v);
  v->coef = v->d.n ? v->d.t[0].coef : v->d.c;
  v->mono = v->d.n ? v->d.t[0].mono : 0;
  if (v->coef > 0)
    return divide_by_term(env, &v->p, v->coef, v->mono, &v->k, &v->r);
  // A negative divisor: x == q*k + r with q = -|q| and k = -k'.
  return v->coef != INT64_MIN && divide_by_term(env, &v->p, -v->coef, v->mono, &v->k, &v->r) &&
         dt__poly_scale(&v->k, -1);
}

static bool is_zero(const dt_poly_t *p) { return p->n == 0 && p->c == 0; }

// Proves lo <= r and r < hi given as sums; `positive` may be taken >= 1.
static bool between(dt_symenv_t *env, const dt_poly_t *r, const dt_poly_t *below,
                    uint32_t positive) {
  dt_poly_t room;
  dt__poly_init(&room);
  bool ok = dt__prove_ge0(env, r, positive) && dt__poly_copy(env, &room, below) &&
            dt__poly_add(env, &room, r, -1) && dt__poly_add_literal(&room, -1) &&
            dt__prove_ge0(env, &room, positive);
  dt__poly_fini(&room);
  return ok;
}

// DIV_NEGATIVE_ONE: -q <= r < 0. The sum r + q is in [0, q).
static uint32_t negative_one(dt_symenv_t *env, dt_division_t *v, uint32_t positive) {
  if (dt__poly_range(env, &v->r).lo >= 0)
    return 0;
  dt_poly_t up;
  dt__poly_init(&up);
  uint32_t id = 0;
  if (dt__poly_copy(env, &up, &v->r) && dt__poly_add(env, &up, &v->d, 1) &&
      between(env, &up, &v->d, positive) && dt__poly_add_literal(&v->k, -1)) {
    dt__rule(env, DT_RULE_DIV_NEGATIVE_ONE);
    id = dt__sum_finish(env, v->mod ? &up : &v->k);
  }
  dt__poly_fini(&up);
  return id;
}

// DIV_QUOTIENT_RANGE for a literal divisor.
static uint32_t quotient_range(dt_symenv_t *env, dt_division_t *v) {
  dt_range_t range = dt__poly_range(env, &v->r);
  if (v->d.n || v->d.c < 1 || range.lo == INT64_MIN || range.hi == INT64_MAX)
    return 0;
  int64_t quotient = dt__floordiv_i64(range.lo, v->d.c), part;
  if (quotient != dt__floordiv_i64(range.hi, v->d.c) || !dt__mul_i64(quotient, -v->d.c, &part) ||
      !dt__poly_add_literal(&v->k, quotient) || !dt__poly_add_literal(&v->r, part))
    return 0;
  dt__rule(env, DT_RULE_DIV_QUOTIENT_RANGE);
  return dt__sum_finish(env, v->mod ? &v->r : &v->k);
}

// DIV_CANCEL with g = coef*mono, a divisor of q.
static uint32_t cancel_by(dt_symenv_t *env, dt_division_t *v, int64_t coef, uint32_t mono) {
  uint32_t id = 0, left = 0;
  dt_poly_t a, r, g, h;
  dt__poly_init(&a);
  dt__poly_init(&r);
  dt__poly_init(&g);
  dt__poly_init(&h);
  bool ok = divide_by_term(env, &v->p, coef, mono, &a, &r) &&
            (!mono || dt__mono_div(env, v->mono, mono, &left)) &&
            dt__poly_add_term(env, &h, v->coef / coef, mono ? left : v->mono) &&
            dt__poly_add_term(env, &g, coef, mono);
  // By a negative g, a or h may be 2^63 where the products fit.
  bool positive = ok && dt__poly_range(env, &g).lo >= 0;
  if (ok && is_zero(&r))
    ok = positive || (dt__poly_fits(env, &a) && dt__poly_fits(env, &h));
  else
    ok =
        positive && dt__poly_range(env, &h).lo >= 0 && between(env, &r, &g, dt__poly_node(env, &g));
  if (ok) {
    dt__rule(env, DT_RULE_DIV_CANCEL);
    id = build(env, v->mod, dt__poly_node(env, &a), dt__poly_node(env, &h));
    if (id && v->mod)
      id = plus(env, &r, dt__sym_mul(env, SYM(dt__poly_node(env, &g)), SYM(id)).id);
  }
  dt__poly_fini(&a);
  dt__poly_fini(&r);
  dt__poly_fini(&g);
  dt__poly_fini(&h);
  return id;
}

// Tries the common divisors of q and one term of x, those of most factors and largest first.
static uint32_t cancel(dt_symenv_t *env, dt_division_t *v) {
  dt_poly_term_t tried[8];
  uint32_t n = 0;
  if (!v->single || v->coef < 1)
    return 0;
  for (uint32_t k = 0; k < v->p.n && n < 8; k++) {
    dt_poly_term_t g = {dt__gcd(v->p.t[k].coef, v->coef),
                        v->mono ? dt__mono_gcd(env, v->p.t[k].mono, v->mono) : 0};
    bool known = (g.coef == 1 && !g.mono) || (g.coef == v->coef && g.mono == v->mono);
    for (uint32_t j = 0; j < n; j++)
      known |= tried[j].coef == g.coef && tried[j].mono == g.mono;
    if (known)
      continue;
    uint32_t at = n++;
    for (; at; at--) {
      uint32_t more = dt__mono_count(env, g.mono), less = dt__mono_count(env, tried[at - 1].mono);
      if (more < less || (more == less && g.coef <= tried[at - 1].coef))
        break;
      tried[at] = tried[at - 1];
    }
    tried[at] = g;
  }
  for (uint32_t j = 0; j < n; j++) {
    uint32_t id = cancel_by(env, v, tried[j].coef, tried[j].mono);
    if (id)
      return id;
  }
  return 0;
}

static bool never_negative(dt_symenv_t *env, uint32_t id) { return dt__range_of(env, id).lo >= 0; }

// DIV_NESTED: x is y//q2 + c.
static uint32_t nested(dt_symenv_t *env, dt_division_t *v) {
  uint32_t inner = v->p.n == 1 && v->p.t[0].coef == 1 ? v->p.t[0].mono : 0;
  if (v->mod || !inner || env->nodes[inner].op != DT_SYM_FLOORDIV)
    return 0;
  uint32_t y = dt__arg(env, inner, 0), q2 = dt__arg(env, inner, 1), id = 0;
  if (!never_negative(env, q2) || !never_negative(env, v->q))
    return 0;
  dt_poly_t top, by, product;
  dt__poly_init(&top);
  dt__poly_init(&by);
  dt__poly_init(&product);
  if (dt__poly_load(env, &top, y) && dt__poly_load(env, &by, q2) &&
      dt__poly_mul(env, &product, &by, &v->d) && dt__poly_add(env, &top, &by, v->p.c) &&
      (v->p.c == 0 || dt__poly_fits(env, &top)) && dt__poly_fits(env, &product)) {
    dt__rule(env, DT_RULE_DIV_NESTED);
    uint32_t above = dt__sum_finish(env, &top), below = dt__sum_finish(env, &product);
    id = build(env, false, above, below);
  }
  dt__poly_fini(&top);
  dt__poly_fini(&by);
  dt__poly_fini(&product);
  return id;
}

// DIV_NEGATED: all terms of x are negative and the divisor is a literal.
static uint32_t negated(dt_symenv_t *env, dt_division_t *v) {
  if (v->mod || v->d.n || v->d.c < 2)
    return 0;
  for (uint32_t k = 0; k < v->p.n; k++)
    if (v->p.t[k].coef > 0)
      return 0;
  dt_poly_t up;
  dt__poly_init(&up);
  uint32_t id = 0;
  if (dt__poly_copy(env, &up, &v->p) && dt__poly_scale(&up, -1) &&
      dt__poly_add_literal(&up, v->d.c - 1) && dt__poly_fits(env, &up)) {
    dt__rule(env, DT_RULE_DIV_NEGATED);
    id = dt__sym_neg(env, SYM(build(env, false, dt__poly_node(env, &up), v->q))).id;
  }
  dt__poly_fini(&up);
  return id;
}

// m/q for terms; 0 when q does not divide m.
static uint32_t term_ratio(dt_symenv_t *env, uint32_t m, const dt_division_t *v) {
  dt_poly_t p, a, r;
  dt__poly_init(&p);
  dt__poly_init(&a);
  dt__poly_init(&r);
  uint32_t id = 0;
  if (v->single && v->coef > 0 && dt__poly_load(env, &p, m) &&
      divide_by_term(env, &p, v->coef, v->mono, &a, &r) && is_zero(&r))
    id = dt__poly_node(env, &a);
  dt__poly_fini(&p);
  dt__poly_fini(&a);
  dt__poly_fini(&r);
  return id;
}

// DIV_OF_MOD: x is y % m.
static uint32_t div_of_mod(dt_symenv_t *env, dt_division_t *v) {
  uint32_t inner = v->p.n == 1 && v->p.c == 0 && v->p.t[0].coef == 1 ? v->p.t[0].mono : 0;
  if (v->mod || !inner || env->nodes[inner].op != DT_SYM_MOD)
    return 0;
  uint32_t y = dt__arg(env, inner, 0), h = term_ratio(env, dt__arg(env, inner, 1), v);
  if (!h || !never_negative(env, h) || !never_negative(env, v->q))
    return 0;
  dt__rule(env, DT_RULE_DIV_OF_MOD);
  return build(env, true, build(env, false, y, v->q), h);
}

// MOD_OF_MOD: a factor y % m of some term, where q divides m.
static uint32_t mod_of_mod(dt_symenv_t *env, dt_division_t *v) {
  for (uint32_t k = 0; v->mod && k < v->r.n; k++) {
    dt_poly_term_t term = v->r.t[k];
    for (uint32_t f = 0; f < dt__mono_count(env, term.mono); f++) {
      uint32_t atom = dt__mono_factor(env, term.mono, f), rest = 0, id = 0;
      int64_t minus;
      if (env->nodes[atom].op != DT_SYM_MOD || !term_ratio(env, dt__arg(env, atom, 1), v))
        continue;
      dt_poly_t y, sum;
      dt__poly_init(&y);
      dt__poly_init(&sum);
      if (dt__mono_div(env, term.mono, atom, &rest) &&
          dt__poly_load(env, &y, dt__arg(env, atom, 0)) && dt__poly_copy(env, &sum, &v->r) &&
          dt__mul_i64(term.coef, -1, &minus) && dt__poly_add_term(env, &sum, minus, term.mono) &&
          dt__poly_add_product(env, &sum, term.coef, rest, &y) && dt__poly_fits(env, &sum)) {
        dt__rule(env, DT_RULE_MOD_OF_MOD);
        id = build(env, true, dt__sum_finish(env, &sum), v->q);
      }
      dt__poly_fini(&y);
      dt__poly_fini(&sum);
      if (id)
        return id;
    }
  }
  return 0;
}

// MOD_CONGRUENCE and MOD_COEFFICIENT for a literal divisor.
static uint32_t mod_literal(dt_symenv_t *env, dt_division_t *v) {
  if (!v->mod || v->d.n || v->d.c < 1)
    return 0;
  int64_t d = v->d.c;
  dt_congruence_t c = dt__poly_congruence(env, &v->r);
  if (c.modulus == 0 || c.modulus % d == 0) {
    dt__rule(env, DT_RULE_MOD_CONGRUENCE);
    return dt__literal(env, dt__mod_i64(c.residue, d));
  }
  bool plain = dt__poly_plain(env, &v->p), changed = false;
  for (uint32_t k = 0; k < v->r.n; k++) {
    changed |= v->r.t[k].coef >= d || v->r.t[k].coef <= -d;
    v->r.t[k].coef %= d; // never 0: terms that d divides are in k
  }
  if (!changed || (!plain && !dt__poly_fits(env, &v->r)))
    return 0;
  dt__rule(env, DT_RULE_MOD_COEFFICIENT);
  return build(env, true, dt__sum_finish(env, &v->r), v->q);
}

// DIV_EXTRACT: the whole part in front.
static uint32_t extract(dt_symenv_t *env, dt_division_t *v) {
  if (is_zero(&v->k))
    return 0;
  bool part = v->single && v->coef > 0 && dt__poly_plain(env, &v->p);
  if (!part && !dt__poly_fits(env, &v->r))
    return 0;
  // -2^63 // -1 has no value where the whole quotient may have one. Literals -1 leave no r.
  if (!v->mod && v->d.n && !never_negative(env, v->q) && dt__poly_range(env, &v->r).lo == INT64_MIN)
    return 0;
  dt__rule(env, DT_RULE_DIV_EXTRACT);
  uint32_t rest = build(env, v->mod, dt__sum_finish(env, &v->r), v->q);
  return v->mod ? rest : plus(env, &v->k, rest);
}

static uint32_t simple_cases(dt_symenv_t *env, bool mod, uint32_t x, uint32_t q) {
  int64_t a, b;
  bool literal_q = dt__literal_value(env, q, &b), literal_x = dt__literal_value(env, x, &a);
  if ((literal_q && b == 1) || (literal_x && a == 0 && !(literal_q && b == 0))) {
    dt__rule(env, DT_RULE_DIV_ONE);
    return mod ? dt__literal(env, 0) : literal_q && b == 1 ? x : dt__literal(env, 0);
  }
  if (literal_x && literal_q && b != 0 && (b != -1 || mod || a != INT64_MIN)) {
    dt__rule(env, DT_RULE_DIV_LITERALS);
    return dt__literal(env, mod ? dt__mod_i64(a, b) : dt__floordiv_i64(a, b));
  }
  return 0;
}

static uint32_t rules(dt_symenv_t *env, dt_division_t *v) {
  if (!divide(env, v))
    return 0;
  if (is_zero(&v->r)) {
    dt__rule(env, DT_RULE_DIV_SELF);
    return v->mod ? dt__literal(env, 0) : dt__sum_finish(env, &v->k);
  }
  uint32_t positive = never_negative(env, v->q) ? v->q : 0;
  if (between(env, &v->r, &v->d, positive)) {
    dt__rule(env, DT_RULE_DIV_SPLIT);
    return dt__sum_finish(env, v->mod ? &v->r : &v->k);
  }
  uint32_t id = quotient_range(env, v);
  id = id || !positive ? id : negative_one(env, v, positive);
  id = id ? id : cancel(env, v);
  id = id ? id : negated(env, v);
  id = id ? id : nested(env, v);
  id = id ? id : div_of_mod(env, v);
  id = id ? id : mod_of_mod(env, v);
  id = id ? id : extract(env, v);
  return id ? id : mod_literal(env, v);
}

static dt_sym_t divide_or_mod(dt_symenv_t *env, bool mod, dt_sym_t a, dt_sym_t b) {
  if (!a.id || !b.id)
    return DT_SYM_NONE_ID;
  dt_sym_op_t op = mod ? DT_SYM_MOD : DT_SYM_FLOORDIV;
  uint32_t x = dt__resolve(env, a.id), q = dt__resolve(env, b.id), id;
  if (dt__cache_get(env, op, x, q, &id))
    return SYM(id);
  id = simple_cases(env, mod, x, q);
  int64_t literal;
  bool zero = dt__literal_value(env, q, &literal) && literal == 0;
  if (!id && !zero) {
    dt_division_t v = {.mod = mod, .x = x, .q = q};
    division_init(&v);
    env->quiet++;
    id = rules(env, &v);
    env->quiet--;
    division_fini(&v);
  }
  if (!id)
    id = dt__intern2(env, op, x, q);
  if (id && !zero)
    id = dt__finish(env, id);
  dt__cache_put(env, op, x, q, id);
  return SYM(id);
}

dt_sym_t dt__sym_floordiv(dt_symenv_t *env, dt_sym_t a, dt_sym_t b) {
  return divide_or_mod(env, false, a, b);
}
dt_sym_t dt__sym_mod(dt_symenv_t *env, dt_sym_t a, dt_sym_t b) {
  return divide_or_mod(env, true, a, b);
}
dt_sym_t dt__sym_ceildiv(dt_symenv_t *env, dt_sym_t a, dt_sym_t b) {
  dt_sym_t less_one = dt__sym_sub(env, b, dt__sym_const(env, 1));
  return dt__sym_floordiv(env, dt__sym_add(env, a, less_one), b);
}
