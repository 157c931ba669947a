// SPDX-License-Identifier: Apache-2.0
// Sums and products in canonical form: rules SUM_*, PRODUCT_*.
#include "symshape/sym_private.h"

// Replaces term k of p, coef*mono, by coef*rest*value where mono == atom*rest.
static bool replace_factor(dt_symenv_t *env, dt_poly_t *p, uint32_t k, uint32_t rest,
                           const dt_poly_t *value) {
  dt_poly_term_t term = p->t[k];
  int64_t minus;
  return dt__mul_i64(term.coef, -1, &minus) && dt__poly_add_term(env, p, minus, term.mono) &&
         dt__poly_add_product(env, p, term.coef, rest, value);
}

// FACT_VALUE: a factor, or the whole monomial, with a learned value.
static bool use_value(dt_symenv_t *env, dt_poly_t *p, uint32_t k, uint32_t atom, bool *ok) {
  uint32_t rep = env->nodes[atom].rep, rest = 0;
  if (!rep || !dt__mono_div(env, p->t[k].mono, atom, &rest))
    return false;
  dt_poly_t value;
  dt__poly_init(&value);
  *ok = dt__poly_load(env, &value, rep) && replace_factor(env, p, k, rest, &value);
  dt__poly_fini(&value);
  dt__rule(env, DT_RULE_FACT_VALUE);
  return true;
}

// SUM_EXACT_DIV: coef*rest*(x//q) where q divides coef*rest and x's residue by q is known.
static bool exact_div(dt_symenv_t *env, dt_poly_t *p, uint32_t k, uint32_t atom, bool *ok) {
  uint32_t x = dt__arg(env, atom, 0), q = dt__arg(env, atom, 1), rest = 0;
  int64_t divisor, coef = p->t[k].coef, residue;
  uint32_t q_mono = 0;
  if (!dt__mono_div(env, p->t[k].mono, atom, &rest))
    return false;
  if (!dt__literal_value(env, q, &divisor)) {
    const dt_sym_node_t *node = &env->nodes[q];
    if (node->op == DT_SYM_ADD)
      return false;
    divisor = 1;
    q_mono = q;
    if (node->op == DT_SYM_MUL && node->value) {
      divisor = env->nodes[dt__arg(env, q, 0)].value;
      q_mono = (uint32_t)node->value;
    }
  }
  if (divisor <= 0 || coef % divisor || (q_mono && !dt__mono_div(env, rest, q_mono, &rest)))
    return false;
  dt_congruence_t c = dt__congruence(env, x, 3);
  if (!q_mono && (c.modulus == 0 || c.modulus % divisor == 0)) {
    residue = dt__mod_i64(c.residue, divisor);
  } else {
    uint32_t mod = dt__sym_mod(env, SYM(x), SYM(q)).id;
    if (!mod || !dt__literal_value(env, mod, &residue))
      return false;
  }
  dt_poly_t value;
  dt__poly_init(&value);
  int64_t minus;
  dt_poly_term_t term = p->t[k];
  *ok = dt__poly_load(env, &value, x) && dt__mul_i64(residue, -1, &minus) &&
        dt__poly_add_literal(&value, minus) && dt__mul_i64(coef, -1, &minus) &&
        dt__poly_add_term(env, p, minus, term.mono) &&
        dt__poly_add_product(env, p, coef / divisor, rest, &value);
  dt__poly_fini(&value);
  dt__rule(env, DT_RULE_SUM_EXACT_DIV);
  return true;
}

static const dt_poly_term_t *find_term(const dt_poly_t *p, uint32_t mono) {
  for (uint32_t k = 0; k < p->n; k++)
    if (p->t[k].mono == mono)
      return &p->t[k];
  return NULL;
}

// Replaces term k of p and all terms of `whole`, where p has them with these coefficients, by
// coef*rest*value; false: it has not.
static bool replace_pair(dt_symenv_t *env, dt_poly_t *p, uint32_t k, uint32_t rest,
                         const dt_poly_t *whole, uint32_t value, bool *ok) {
  dt_poly_term_t mod = p->t[k];
  int64_t minus;
  bool found = whole->n != 0;
  for (uint32_t j = 0; found && j < whole->n; j++) {
    const dt_poly_term_t *term = find_term(p, whole->t[j].mono);
    found = term && term->coef == whole->t[j].coef;
  }
  if (!found)
    return false;
  dt_poly_t by;
  dt__poly_init(&by);
  *ok = value && dt__poly_add(env, p, whole, -1) && dt__mul_i64(mod.coef, -1, &minus) &&
        dt__poly_add_term(env, p, minus, mod.mono) && dt__poly_load(env, &by, value) &&
        dt__poly_add_product(env, p, mod.coef, rest, &by);
  dt__poly_fini(&by);
  return true;
}

// coef*rest*q*high.
static bool times_digit(dt_symenv_t *env, dt_poly_t *whole, dt_poly_term_t term, uint32_t rest,
                        uint32_t q, uint32_t high) {
  dt_poly_t a, b, product;
  dt__poly_init(&a);
  dt__poly_init(&b);
  dt__poly_init(&product);
  bool made = dt__poly_load(env, &a, high) && dt__poly_load(env, &b, q) &&
              dt__poly_mul(env, &product, &a, &b) &&
              dt__poly_add_product(env, whole, term.coef, rest, &product);
  dt__poly_fini(&a);
  dt__poly_fini(&b);
  dt__poly_fini(&product);
  return made;
}

// A factor of another term that is quotient % h; h, where q*h fits and h is not negative.
static uint32_t next_digit(dt_symenv_t *env, const dt_poly_t *p, uint32_t quotient, uint32_t q,
                           uint32_t *out_factor) {
  for (uint32_t j = 0; j < p->n; j++)
    for (uint32_t f = 0; f < dt__mono_count(env, p->t[j].mono); f++) {
      uint32_t atom = dt__mono_factor(env, p->t[j].mono, f);
      if (env->nodes[atom].op != DT_SYM_MOD || dt__arg(env, atom, 0) != quotient)
        continue;
      uint32_t h = dt__arg(env, atom, 1);
      dt_poly_t product;
      dt__poly_init(&product);
      bool fits = dt__range_of(env, h).lo >= 0 &&
                  times_digit(env, &product, (dt_poly_term_t){1, 0}, 0, q, h) &&
                  dt__poly_fits(env, &product);
      dt__poly_fini(&product);
      *out_factor = atom;
      if (fits)
        return h;
    }
  return 0;
}

// SUM_DIVMOD: coef*rest*(x%q) together with coef*rest*q*(x//q), the latter as it was built.
// SUM_DIGITS: with coef*rest*q*((x//q)%h).
static bool divmod(dt_symenv_t *env, dt_poly_t *p, uint32_t k, uint32_t atom, bool *ok) {
  uint32_t x = dt__arg(env, atom, 0), q = dt__arg(env, atom, 1), rest = 0, factor = 0;
  if (p->n < 2 || !dt__mono_div(env, p->t[k].mono, atom, &rest))
    return false;
  dt_poly_t whole;
  dt__poly_init(&whole);
  uint32_t quotient = dt__sym_floordiv(env, SYM(x), SYM(q)).id;
  bool found = quotient && times_digit(env, &whole, p->t[k], rest, q, quotient) &&
               replace_pair(env, p, k, rest, &whole, x, ok);
  dt__poly_fini(&whole);
  if (found) {
    dt__rule(env, DT_RULE_SUM_DIVMOD);
    return true;
  }
  uint32_t h = quotient ? next_digit(env, p, quotient, q, &factor) : 0;
  if (!h)
    return false;
  dt__poly_init(&whole);
  uint32_t both = dt__sym_mod(env, SYM(x), dt__sym_mul(env, SYM(q), SYM(h))).id;
  found = both && times_digit(env, &whole, p->t[k], rest, q, factor) &&
          replace_pair(env, p, k, rest, &whole, both, ok);
  dt__poly_fini(&whole);
  if (found)
    dt__rule(env, DT_RULE_SUM_DIGITS);
  return found;
}

// Applies the first rule that fits somewhere; false when none does.
static bool step(dt_symenv_t *env, dt_poly_t *p, bool *ok) {
  for (uint32_t k = 0; k < p->n; k++) {
    uint32_t mono = p->t[k].mono, n = dt__mono_count(env, mono);
    if (use_value(env, p, k, mono, ok))
      return true;
    for (uint32_t f = 0; f < n; f++) {
      uint32_t atom = dt__mono_factor(env, mono, f), op = env->nodes[atom].op;
      if ((n > 1 && use_value(env, p, k, atom, ok)) ||
          (op == DT_SYM_FLOORDIV && exact_div(env, p, k, atom, ok)) ||
          (op == DT_SYM_MOD && divmod(env, p, k, atom, ok)))
        return true;
    }
  }
  return false;
}

uint32_t dt__sum_finish(dt_symenv_t *env, dt_poly_t *p) {
  dt_poly_t work;
  dt__poly_init(&work);
  for (int round = 0; round < 16; round++) {
    // A rule whose new literals overflow leaves the sum as it was.
    bool ok = true;
    if (!dt__poly_copy(env, &work, p))
      break;
    env->quiet++;
    bool found = step(env, &work, &ok);
    env->quiet--;
    if (!found || !ok)
      break;
    dt__poly_swap(p, &work);
  }
  dt__poly_fini(&work);
  return dt__finish(env, dt__poly_node(env, p));
}

static dt_sym_t overflow(dt_symenv_t *env) {
  return dt__sym_fail(env, DT_E_LIMIT,
                      "a literal of a symbolic expression does not fit in 64 bits");
}

static dt_sym_t linear(dt_symenv_t *env, dt_sym_t a, dt_sym_t b, int64_t scale) {
  if (!a.id || !b.id)
    return DT_SYM_NONE_ID;
  dt_poly_t p, q;
  dt__poly_init(&p);
  dt__poly_init(&q);
  dt_sym_t sum;
  if (dt__poly_load(env, &p, a.id) && dt__poly_load(env, &q, b.id) &&
      dt__poly_add(env, &p, &q, scale))
    sum = SYM(dt__sum_finish(env, &p));
  else
    sum = overflow(env);
  dt__poly_fini(&p);
  dt__poly_fini(&q);
  return sum;
}

dt_sym_t dt__sym_add(dt_symenv_t *env, dt_sym_t a, dt_sym_t b) { return linear(env, a, b, 1); }
dt_sym_t dt__sym_sub(dt_symenv_t *env, dt_sym_t a, dt_sym_t b) { return linear(env, a, b, -1); }
dt_sym_t dt__sym_neg(dt_symenv_t *env, dt_sym_t a) {
  return dt__sym_sub(env, dt__sym_const(env, 0), a);
}

dt_sym_t dt__sym_mul(dt_symenv_t *env, dt_sym_t a, dt_sym_t b) {
  if (!a.id || !b.id)
    return DT_SYM_NONE_ID;
  dt_poly_t p, q, product;
  dt__poly_init(&p);
  dt__poly_init(&q);
  dt__poly_init(&product);
  dt_sym_t result;
  if (dt__poly_load(env, &p, a.id) && dt__poly_load(env, &q, b.id) &&
      dt__poly_mul(env, &product, &p, &q))
    result = SYM(dt__sum_finish(env, &product));
  else
    result = overflow(env);
  dt__poly_fini(&p);
  dt__poly_fini(&q);
  dt__poly_fini(&product);
  return result;
}
