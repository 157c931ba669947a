// SPDX-License-Identifier: Apache-2.0
// The solver: what follows from a condition that is true. Equalities become replacements or values,
// inequalities become bounds, remainders become residues; all others are kept as facts that proofs
// may subtract. Limits here cost strength, never soundness.
#include "symshape/sym_private.h"

// The node and its negation answer 1 and 0 from now on.
static dt_tri_t mark_true(dt_symenv_t *env, uint32_t cond) {
  if (!dt__may_say(env, cond))
    return DT_TRUE;
  uint32_t opposite = dt__sym_not(env, SYM(cond)).id;
  uint32_t one = dt__literal(env, 1), zero = dt__literal(env, 0);
  if (!opposite || !one || !zero)
    return dt__no_memory(env);
  env->nodes[cond].rep = one;
  if (env->nodes[opposite].op != DT_SYM_CONST)
    env->nodes[opposite].rep = zero;
  env->epoch++;
  return DT_TRUE;
}

static dt_tri_t add_fact(dt_symenv_t *env, uint32_t cond, uint32_t ge0) {
  return dt__fact_add(env, cond, ge0) ? DT_TRUE : DT_UNKNOWN;
}

// x >= max(a, b) is x >= a and x >= b; likewise min.
static dt_tri_t learn_arguments(dt_symenv_t *env, const dt_poly_t *f, uint32_t depth) {
  dt_tri_t answer = DT_TRUE;
  for (uint32_t k = 0; k < f->n && f->n <= SYM_MAX_REFINE_TERMS; k++) {
    uint32_t atom = f->t[k].mono, op = env->nodes[atom].op;
    if (op != (f->t[k].coef < 0 ? DT_SYM_MAX : DT_SYM_MIN))
      continue;
    uint32_t n = env->nodes[atom].n_args;
    for (uint32_t j = 0; j < n && answer == DT_TRUE; j++) {
      dt_poly_t part, value;
      dt__poly_init(&part);
      dt__poly_init(&value);
      int64_t minus;
      bool ok = dt__poly_copy(env, &part, f) && dt__mul_i64(f->t[k].coef, -1, &minus) &&
                dt__poly_add_term(env, &part, minus, atom) &&
                dt__poly_load(env, &value, dt__arg(env, atom, j)) &&
                dt__poly_add(env, &part, &value, f->t[k].coef);
      if (ok)
        answer = dt__learn_le(env, dt__literal(env, 0), dt__poly_node(env, &part), depth);
      dt__poly_fini(&part);
      dt__poly_fini(&value);
    }
  }
  return answer;
}

static dt_tri_t learn_order(dt_symenv_t *env, uint32_t cond, uint32_t depth) {
  dt_poly_t f;
  dt__poly_init(&f);
  dt_tri_t answer = mark_true(env, cond);
  if (answer == DT_TRUE && dt__order_poly(env, cond, &f)) {
    if (f.n > 1) {
      uint32_t node = dt__poly_node(env, &f);
      answer = node ? add_fact(env, cond, node) : dt__no_memory(env);
    } else if (f.n && env->nodes[f.t[0].mono].op != DT_SYM_SYMBOL) {
      answer = add_fact(env, cond, 0);
    }
    answer = dt__both(answer, dt__refine_terms(env, &f, depth));
    answer = dt__both(answer, learn_arguments(env, &f, depth));
  }
  dt__poly_fini(&f);
  return answer;
}

// ---- Equalities --------------------------------------------------------------------------------
static bool has_kind(const dt_symenv_t *env, uint32_t id, uint32_t kinds) {
  const dt_sym_node_t *node = &env->nodes[id];
  if (node->op == DT_SYM_SYMBOL)
    return (kinds >> env->symbols[node->value].kind) & 1;
  for (uint32_t k = 0; k < node->n_args; k++)
    if (has_kind(env, dt__arg(env, id, k), kinds))
      return true;
  return false;
}

#define INNER_KINDS ((1u << DT_SYMBOL_LOOP) | (1u << DT_SYMBOL_DATA) | (1u << DT_SYMBOL_SLICE))
#define LATE_KINDS (INNER_KINDS | (1u << DT_SYMBOL_UNBACKED))

// Whether f == 0 may be solved for the symbol of term k: the others do not hold it, and nothing in
// them is bound later than it. Sizes and integer arguments are bound at entry.
static bool may_solve(const dt_symenv_t *env, const dt_poly_t *f, uint32_t k) {
  uint32_t mono = f->t[k].mono;
  if (env->nodes[mono].op != DT_SYM_SYMBOL || !dt__may_say(env, mono))
    return false;
  uint32_t symbol = (uint32_t)env->nodes[mono].value, kind = env->symbols[symbol].kind;
  if ((1u << kind) & INNER_KINDS)
    return false;
  for (uint32_t j = 0; j < f->n; j++) {
    uint32_t other = f->t[j].mono;
    if (j != k && (dt__sym_depends(env, SYM(other), SYM(mono)) ||
                   has_kind(env, other, kind == DT_SYMBOL_UNBACKED ? INNER_KINDS : LATE_KINDS) ||
                   env->nodes[other].late > env->nodes[mono].late))
      return false;
  }
  return true;
}

// How good it is to solve f == 0 for term k: 0 no. Data sizes go first, then what gives a sum
// without negative terms; a factor that must be divided by is for data sizes only.
static uint32_t solve_score(const dt_symenv_t *env, const dt_poly_t *f, uint32_t k) {
  int64_t coef = f->t[k].coef;
  bool one = coef == 1 || coef == -1, positive = coef < 0 ? f->c >= 0 : f->c <= 0;
  if (!may_solve(env, f, k) || coef == INT64_MIN)
    return 0;
  bool data = env->symbols[env->nodes[f->t[k].mono].value].kind == DT_SYMBOL_UNBACKED;
  bool exact = false; // that the others are a multiple of the factor may be said of them
  for (uint32_t j = 0; j < f->n; j++) {
    positive &= j == k || (f->t[j].coef < 0) != (coef < 0);
    exact |= j != k && dt__may_say(env, f->t[j].mono);
  }
  if (!one && !exact)
    return 0;
  return one ? 2 + (data ? 8u : 0) + (positive ? 4u : 0) : data ? 1 : 0;
}

// The symbol of term k is value / |coef|, which is exact.
static dt_tri_t solve_for(dt_symenv_t *env, const dt_poly_term_t *term, dt_poly_t *value,
                          uint32_t depth) {
  uint32_t symbol = (uint32_t)env->nodes[term->mono].value;
  int64_t factor = term->coef < 0 ? -term->coef : term->coef;
  dt_sym_t sum = SYM(dt__sum_finish(env, value)), by = dt__sym_const(env, factor);
  if (factor != 1) {
    dt_sym_t exact = dt__sym_eq(env, dt__sym_mod(env, sum, by), dt__sym_const(env, 0));
    dt_tri_t answer = exact.id ? dt__learn(env, exact.id, depth + 1) : dt__no_memory(env);
    if (answer != DT_TRUE)
      return answer;
    sum = dt__sym_floordiv(env, dt__sym_simplify(env, sum), by);
  }
  return sum.id ? dt__replace_symbol(env, symbol, sum.id, depth) : dt__no_memory(env);
}

// Solves f == 0 for a symbol; of equally good ones, the younger. DT_UNKNOWN with *found false:
// there is none to solve for.
static dt_tri_t solve(dt_symenv_t *env, const dt_poly_t *f, uint32_t depth, bool *found) {
  uint32_t best = 0, at = 0;
  for (uint32_t k = 0; k < f->n; k++) {
    uint32_t score = solve_score(env, f, k);
    if (score && (score > best || (score == best && env->nodes[f->t[k].mono].value >
                                                        env->nodes[f->t[at].mono].value))) {
      best = score;
      at = k;
    }
  }
  *found = best != 0;
  if (!best)
    return DT_UNKNOWN;
  dt_poly_t value;
  dt__poly_init(&value);
  dt_poly_term_t term = f->t[at];
  dt_tri_t answer = DT_UNKNOWN;
  // coef*s + rest == 0: |coef|*s == -sign*rest.
  if (dt__poly_add(env, &value, f, term.coef < 0 ? 1 : -1) &&
      dt__poly_add_term(env, &value, term.coef < 0 ? -term.coef : term.coef, term.mono))
    answer = solve_for(env, &term, &value, depth);
  else
    *found = false;
  dt__poly_fini(&value);
  return answer;
}

// m == value for a product or an operation m.
static dt_tri_t learn_value(dt_symenv_t *env, uint32_t m, int64_t value, uint32_t depth) {
  dt_tri_t answer = DT_TRUE;
  int64_t q;
  if (env->nodes[m].op == DT_SYM_MOD && dt__literal_value(env, dt__arg(env, m, 1), &q) && q > 1) {
    dt_poly_t x;
    dt__poly_init(&x);
    if (dt__poly_load(env, &x, dt__arg(env, m, 0)) && dt__poly_add_literal(&x, -value))
      answer = dt__learn_residues(env, &x, q, depth);
    dt__poly_fini(&x);
  }
  return dt__both(answer, dt__refine_node(env, m, (dt_range_t){value, value}, depth));
}

static dt_tri_t learn_equal(dt_symenv_t *env, uint32_t cond, uint32_t depth) {
  dt_poly_t f, q;
  dt__poly_init(&f);
  dt__poly_init(&q);
  dt_tri_t answer = DT_TRUE;
  bool found = false;
  if (dt__poly_load(env, &f, dt__arg(env, cond, 0)) &&
      dt__poly_load(env, &q, dt__arg(env, cond, 1)) && dt__poly_add(env, &f, &q, -1)) {
    answer = solve(env, &f, depth, &found);
    if (!found && env->fail_code != DT_E_NO_MEMORY) {
      answer = dt__both(mark_true(env, cond), dt__learn_residues(env, &f, 0, depth));
      int64_t coef = f.n == 1 ? f.t[0].coef : 0;
      if (coef && coef != INT64_MIN && f.c != INT64_MIN && f.c % coef == 0) {
        if (env->nodes[f.t[0].mono].op != DT_SYM_SYMBOL)
          answer = dt__both(answer, add_fact(env, cond, 0));
        answer = dt__both(answer, learn_value(env, f.t[0].mono, -f.c / coef, depth));
      } else {
        uint32_t node = dt__poly_node(env, &f);
        uint32_t minus = dt__poly_scale(&f, -1) ? dt__poly_node(env, &f) : 0;
        answer = dt__both(answer, node && minus
                                      ? dt__both(add_fact(env, cond, node), add_fact(env, 0, minus))
                                      : dt__no_memory(env));
        answer = dt__both(answer, dt__refine_terms(env, &f, depth));
        if (dt__poly_scale(&f, -1))
          answer = dt__both(answer, dt__refine_terms(env, &f, depth));
      }
    }
  } else {
    answer = mark_true(env, cond);
  }
  dt__poly_fini(&f);
  dt__poly_fini(&q);
  return answer;
}

// x != c at an end of x's range moves the end.
static dt_tri_t learn_unequal(dt_symenv_t *env, uint32_t cond, uint32_t depth) {
  dt_tri_t answer = dt__both(mark_true(env, cond), add_fact(env, cond, 0));
  uint32_t x = dt__arg(env, cond, 0);
  int64_t c;
  if (answer != DT_TRUE || !dt__literal_value(env, dt__arg(env, cond, 1), &c))
    return answer;
  dt_range_t r = dt__range_of(env, x);
  if (r.lo == c && c != INT64_MIN)
    return dt__learn_le(env, dt__literal(env, c + 1), x, depth);
  if (r.hi == c && c != INT64_MAX)
    return dt__learn_le(env, x, dt__literal(env, c - 1), depth);
  return answer;
}

dt_tri_t dt__learn(dt_symenv_t *env, uint32_t cond, uint32_t depth) {
  uint32_t id = dt__sym_simplify(env, SYM(cond)).id;
  int64_t value;
  if (!id)
    return dt__no_memory(env);
  if (dt__literal_value(env, id, &value))
    return value ? DT_TRUE : DT_FALSE;
  if (depth > SYM_MAX_LEARN_DEPTH || env->n_learned >= SYM_MAX_LEARNED)
    return mark_true(env, id);
  env->n_learned++;
  switch (env->nodes[id].op) {
  case DT_SYM_AND: {
    dt_tri_t answer = DT_TRUE;
    for (uint32_t k = 0; k < env->nodes[id].n_args && answer == DT_TRUE; k++)
      answer = dt__learn(env, dt__arg(env, id, k), depth + 1);
    return answer;
  }
  case DT_SYM_OR:
    return dt__both(mark_true(env, id), add_fact(env, id, 0));
  case DT_SYM_EQ:
    return learn_equal(env, id, depth);
  case DT_SYM_NE:
    return learn_unequal(env, id, depth);
  case DT_SYM_LT:
  case DT_SYM_LE:
    return learn_order(env, id, depth);
  default: {
    dt_sym_t truth = dt__sym_ne(env, SYM(id), dt__sym_const(env, 0));
    return truth.id ? dt__learn(env, truth.id, depth + 1) : dt__no_memory(env);
  }
  }
}
