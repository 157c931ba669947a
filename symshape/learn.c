// SPDX-License-Identifier: Apache-2.0
// The solver: what follows from a condition that is true. Equalities become replacements or values,
// inequalities become bounds, remainders become residues; what does not fit is kept as a fact that
// proofs may subtract. Nothing is lost by a limit here except strength.
#include "symshape/sym_private.h"

#define MAX_LEARN_DEPTH 12u
#define MAX_REFINE_TERMS 64u

typedef __int128 wide_t;

static dt_tri_t both(dt_tri_t a, dt_tri_t b) {
  return a == DT_FALSE || b == DT_FALSE ? DT_FALSE
         : a == DT_TRUE && b == DT_TRUE ? DT_TRUE
                                        : DT_UNKNOWN;
}

static dt_tri_t no_memory(dt_symenv_t *env) {
  dt__sym_fail(env, DT_E_NO_MEMORY, "out of memory");
  return DT_UNKNOWN;
}

// The node and its negation answer 1 and 0 from now on.
static dt_tri_t mark_true(dt_symenv_t *env, uint32_t cond) {
  uint32_t opposite = dt__sym_not(env, SYM(cond)).id;
  uint32_t one = dt__literal(env, 1), zero = dt__literal(env, 0);
  if (!opposite || !one || !zero)
    return no_memory(env);
  env->nodes[cond].rep = one;
  if (env->nodes[opposite].op != DT_SYM_CONST)
    env->nodes[opposite].rep = zero;
  env->epoch++;
  return DT_TRUE;
}

static dt_tri_t add_fact(dt_symenv_t *env, uint32_t cond, uint32_t ge0) {
  if (!dt__grow((void **)&env->facts, &env->cap_facts, env->n_facts + 1, sizeof *env->facts))
    return no_memory(env);
  env->facts[env->n_facts++] = (dt_fact_t){cond, ge0};
  env->epoch++;
  return DT_TRUE;
}

// ---- Replacement of a symbol -------------------------------------------------------------------
static dt_tri_t learn_le(dt_symenv_t *env, uint32_t a, uint32_t b, uint32_t depth) {
  dt_sym_t cond = dt__sym_le(env, SYM(a), SYM(b));
  return cond.id ? dt__learn(env, cond.id, depth + 1) : no_memory(env);
}

// Facts that mention the symbol say something new about its replacement.
static dt_tri_t relearn_facts(dt_symenv_t *env, uint64_t mask, uint32_t depth) {
  dt_tri_t answer = DT_TRUE;
  uint32_t n_facts = env->n_facts;
  for (uint32_t i = 0; i < n_facts && answer == DT_TRUE; i++) {
    uint32_t cond = env->facts[i].cond;
    if (!cond || !(env->nodes[cond].mask & mask))
      continue;
    dt_sym_t few[8];
    uint32_t n = env->nodes[cond].n_args;
    bool same = n > 8;
    for (uint32_t k = 0; k < n && n <= 8; k++) {
      dt_sym_t arg = SYM(dt__arg(env, cond, k));
      few[k] = dt__sym_simplify(env, arg);
      same = few[k].id == arg.id && (k == 0 || same);
    }
    if (same)
      continue;
    dt_sym_t again = dt__rebuild(env, (dt_sym_op_t)env->nodes[cond].op, few, n);
    if (!again.id)
      return no_memory(env);
    env->facts[i].cond = 0;
    env->facts[i].ge0 = 0;
    answer = dt__learn(env, again.id, depth + 1);
  }
  return answer;
}

static dt_tri_t replace_symbol(dt_symenv_t *env, uint32_t symbol, uint32_t value, uint32_t depth) {
  uint32_t node = env->symbols[symbol].node;
  dt_range_t range = {env->nodes[node].lo, env->nodes[node].hi};
  int64_t modulus = env->symbols[symbol].modulus, residue = env->symbols[symbol].residue;
  uint64_t mask = env->nodes[node].mask;
  if (!dt__grow((void **)&env->replaced, &env->cap_replaced, env->n_replaced + 1,
                sizeof *env->replaced))
    return no_memory(env);
  env->nodes[node].rep = value;
  env->replaced[env->n_replaced++] = symbol;
  env->epoch++;
  for (uint32_t k = 0; k + 1 < env->n_replaced; k++) {
    uint32_t other = env->symbols[env->replaced[k]].node, rep = env->nodes[other].rep;
    if (!(env->nodes[rep].mask & mask))
      continue;
    dt_sym_t fresh = dt__sym_simplify(env, SYM(rep));
    if (!fresh.id)
      return no_memory(env);
    env->nodes[other].rep = fresh.id;
  }
  dt_tri_t answer = DT_TRUE;
  if (range.lo != INT64_MIN)
    answer = both(answer, learn_le(env, dt__literal(env, range.lo), value, depth));
  if (range.hi != INT64_MAX)
    answer = both(answer, learn_le(env, dt__sym_simplify(env, SYM(value)).id,
                                   dt__literal(env, range.hi), depth));
  if (modulus > 1) {
    dt_sym_t rest =
        dt__sym_mod(env, dt__sym_simplify(env, SYM(value)), dt__sym_const(env, modulus));
    dt_sym_t cond = dt__sym_eq(env, rest, dt__sym_const(env, residue));
    answer = both(answer, cond.id ? dt__learn(env, cond.id, depth + 1) : no_memory(env));
  }
  return both(answer, relearn_facts(env, mask, depth));
}

// ---- Bounds ------------------------------------------------------------------------------------
static dt_tri_t refine_node(dt_symenv_t *env, uint32_t id, dt_range_t to, uint32_t depth);

// Bounds of a product of factors >= 0 bound each factor.
static dt_tri_t refine_factors(dt_symenv_t *env, uint32_t mono, dt_range_t to, uint32_t depth) {
  uint32_t n = dt__mono_count(env, mono);
  for (uint32_t k = 0; k < n; k++)
    if (dt__range_of(env, dt__mono_factor(env, mono, k)).lo < 0)
      return DT_TRUE;
  dt_tri_t answer = DT_TRUE;
  if (to.lo >= 1) // then no factor is 0
    for (uint32_t k = 0; k < n && answer == DT_TRUE; k++)
      answer =
          refine_node(env, dt__mono_factor(env, mono, k), (dt_range_t){1, INT64_MAX}, depth + 1);
  for (uint32_t k = 0; k < n && answer == DT_TRUE; k++) {
    dt_range_t others = {1, 1};
    for (uint32_t j = 0; j < n; j++)
      if (j != k)
        others = dt__range_mul(others, dt__range_of(env, dt__mono_factor(env, mono, j)));
    if (others.lo >= 1 && to.hi != INT64_MAX && to.hi >= 0)
      answer = refine_node(env, dt__mono_factor(env, mono, k),
                           (dt_range_t){INT64_MIN, to.hi / others.lo}, depth + 1);
  }
  return answer;
}

// lo <= x//c <= hi is c*lo <= x <= c*hi + c - 1.
static dt_tri_t refine_quotient(dt_symenv_t *env, uint32_t id, dt_range_t to, uint32_t depth) {
  int64_t c, bound;
  dt_tri_t answer = DT_TRUE;
  uint32_t x = dt__arg(env, id, 0);
  if (!dt__literal_value(env, dt__arg(env, id, 1), &c) || c < 1)
    return answer;
  if (to.lo != INT64_MIN && dt__mul_i64(to.lo, c, &bound))
    answer = learn_le(env, dt__literal(env, bound), x, depth);
  if (to.hi != INT64_MAX && dt__mul_i64(to.hi, c, &bound) && dt__add_i64(bound, c - 1, &bound))
    answer = both(answer, learn_le(env, x, dt__literal(env, bound), depth));
  return answer;
}

static dt_tri_t refine_node(dt_symenv_t *env, uint32_t id, dt_range_t to, uint32_t depth) {
  dt_range_t now = dt__range_of(env, id);
  if (depth > MAX_LEARN_DEPTH || (to.lo <= now.lo && to.hi >= now.hi))
    return DT_TRUE;
  to.lo = to.lo > now.lo ? to.lo : now.lo;
  to.hi = to.hi < now.hi ? to.hi : now.hi;
  if (to.lo > to.hi)
    return DT_FALSE;
  env->nodes[id].lo = to.lo;
  env->nodes[id].hi = to.hi;
  env->epoch++;
  uint32_t op = env->nodes[id].op;
  if (to.lo == to.hi && !env->nodes[id].rep) {
    uint32_t value = dt__literal(env, to.lo);
    if (!value)
      return no_memory(env);
    if (op == DT_SYM_SYMBOL)
      return replace_symbol(env, (uint32_t)env->nodes[id].value, value, depth);
    env->nodes[id].rep = value;
  }
  if (op == DT_SYM_MUL)
    return refine_factors(env, id, to, depth);
  if (op == DT_SYM_FLOORDIV)
    return refine_quotient(env, id, to, depth);
  return DT_TRUE;
}

static int64_t divide_up(wide_t a, int64_t b) { // b > 0; clamped
  wide_t q = a / b + (a % b > 0);
  return q < INT64_MIN ? INT64_MIN : q > INT64_MAX ? INT64_MAX : (int64_t)q;
}

// f >= 0 bounds each of its monomials by the bounds of the others.
static dt_tri_t refine_terms(dt_symenv_t *env, const dt_poly_t *f, uint32_t depth) {
  dt_tri_t answer = DT_TRUE;
  if (f->n > MAX_REFINE_TERMS)
    return answer;
  for (uint32_t k = 0; k < f->n && answer == DT_TRUE; k++) {
    dt_term_t term = f->t[k];
    dt_range_t rest = {f->c, f->c};
    for (uint32_t j = 0; j < f->n; j++)
      if (j != k)
        rest = dt__range_add(rest, dt__range_mul((dt_range_t){f->t[j].coef, f->t[j].coef},
                                                 dt__range_of(env, f->t[j].mono)));
    if (rest.hi == INT64_MAX || term.coef == INT64_MIN)
      continue;
    // coef*m >= -rest.hi
    dt_range_t to = {INT64_MIN, INT64_MAX};
    if (term.coef > 0)
      to.lo = divide_up(-(wide_t)rest.hi, term.coef);
    else
      to.hi = -divide_up(-(wide_t)rest.hi, -term.coef);
    answer = refine_node(env, term.mono, to, depth + 1);
  }
  return answer;
}

// x >= max(a, b) is x >= a and x >= b; likewise min.
static dt_tri_t learn_arguments(dt_symenv_t *env, const dt_poly_t *f, uint32_t depth) {
  dt_tri_t answer = DT_TRUE;
  for (uint32_t k = 0; k < f->n && f->n <= MAX_REFINE_TERMS; k++) {
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
        answer = learn_le(env, dt__literal(env, 0), dt__poly_node(env, &part), depth);
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
      answer = node ? add_fact(env, cond, node) : no_memory(env);
    }
    answer = both(answer, refine_terms(env, &f, depth));
    answer = both(answer, learn_arguments(env, &f, depth));
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

#define LATE_KINDS ((1u << DT_SYMBOL_UNBACKED) | (1u << DT_SYMBOL_LOOP) | (1u << DT_SYMBOL_DATA))
#define INNER_KINDS ((1u << DT_SYMBOL_LOOP) | (1u << DT_SYMBOL_DATA))

// How good it is to solve f == 0 for term k: 0 no. Data sizes go first, then what gives a sum
// without negative terms, then the younger symbol.
static uint32_t solve_score(const dt_symenv_t *env, const dt_poly_t *f, uint32_t k) {
  int64_t coef = f->t[k].coef;
  uint32_t mono = f->t[k].mono;
  if (env->nodes[mono].op != DT_SYM_SYMBOL || (coef != 1 && coef != -1))
    return 0;
  uint32_t kind = env->symbols[env->nodes[mono].value].kind;
  if (kind == DT_SYMBOL_LOOP || kind == DT_SYMBOL_DATA)
    return 0;
  bool positive = coef < 0 ? f->c >= 0 : f->c <= 0;
  for (uint32_t j = 0; j < f->n; j++) {
    uint32_t other = f->t[j].mono;
    if (j == k)
      continue;
    positive &= (f->t[j].coef < 0) != (coef < 0);
    if (dt__sym_depends(env, SYM(other), SYM(mono)) ||
        has_kind(env, other, kind == DT_SYMBOL_UNBACKED ? INNER_KINDS : LATE_KINDS))
      return 0;
  }
  return 1 + (kind == DT_SYMBOL_UNBACKED ? 4u : 0) + (positive ? 2u : 0);
}

// Solves f == 0 for a symbol. DT_UNKNOWN with *found false: there is none to solve for.
static dt_tri_t solve(dt_symenv_t *env, const dt_poly_t *f, uint32_t depth, bool *found) {
  uint32_t best = 0, at = 0;
  for (uint32_t k = 0; k < f->n; k++) {
    uint32_t score = solve_score(env, f, k);
    if (score && (score > best || (score == best && f->t[k].mono > f->t[at].mono))) {
      best = score;
      at = k;
    }
  }
  *found = best != 0;
  if (!best)
    return DT_UNKNOWN;
  dt_poly_t value;
  dt__poly_init(&value);
  int64_t sign = f->t[at].coef, minus = -sign;
  dt_tri_t answer = DT_UNKNOWN;
  // coef*s + rest == 0: s == -rest/coef, coef being 1 or -1.
  if (dt__poly_add(env, &value, f, minus) && dt__poly_add_term(env, &value, 1, f->t[at].mono)) {
    uint32_t id = dt__sum_finish(env, &value);
    answer = id ? replace_symbol(env, (uint32_t)env->nodes[f->t[at].mono].value, id, depth)
                : no_memory(env);
  } else {
    *found = false;
  }
  dt__poly_fini(&value);
  return answer;
}

// The inverse of a modulo m, for coprime a in [0, m).
static int64_t inverse(int64_t a, int64_t m) {
  wide_t r0 = m, r1 = a, t0 = 0, t1 = 1;
  while (r1) {
    wide_t q = r0 / r1, r = r0 - q * r1, t = t0 - q * t1;
    r0 = r1;
    r1 = r;
    t0 = t1;
    t1 = t;
  }
  return (int64_t)((t0 % m + m) % m);
}

// symbol == residue (mod modulus), joined with what was known; DT_FALSE when they exclude each
// other.
static dt_tri_t learn_residue(dt_symenv_t *env, uint32_t symbol, int64_t modulus, int64_t residue) {
  dt_symbol_t *s = &env->symbols[symbol];
  int64_t g = dt__gcd(s->modulus, modulus);
  if ((s->residue - residue) % g)
    return DT_FALSE;
  wide_t lcm = (wide_t)(s->modulus / g) * modulus;
  if (lcm > DT_SIZE_LIMIT || lcm == s->modulus)
    return DT_TRUE;
  // residue of s plus the multiple of its modulus that meets the new residue.
  int64_t step = modulus / g, part = (residue - s->residue) / g % step;
  int64_t inv = step > 1 ? inverse(s->modulus / g % step, step) : 0;
  wide_t k = ((wide_t)(part < 0 ? part + step : part) * inv) % step;
  s->residue = (int64_t)((s->residue + k * s->modulus) % lcm);
  s->modulus = (int64_t)lcm;
  env->epoch++;
  return DT_TRUE;
}

// f == 0 modulo g, the common factor of all other terms (and of `modulus`), fixes a residue.
static dt_tri_t learn_residues(dt_symenv_t *env, const dt_poly_t *f, int64_t modulus) {
  dt_tri_t answer = DT_TRUE;
  for (uint32_t k = 0; k < f->n && f->n <= MAX_REFINE_TERMS && answer == DT_TRUE; k++) {
    if (env->nodes[f->t[k].mono].op != DT_SYM_SYMBOL)
      continue;
    int64_t g = modulus;
    for (uint32_t j = 0; j < f->n; j++)
      if (j != k)
        g = dt__gcd(g, f->t[j].coef);
    int64_t coef = g > 1 ? (f->t[k].coef % g + g) % g : 0;
    if (g < 2 || g >= DT_SIZE_LIMIT || dt__gcd(coef, g) != 1)
      continue;
    int64_t right = (int64_t)((-(wide_t)f->c % g + g) % g);
    int64_t residue = (int64_t)((wide_t)right * inverse(coef, g) % g);
    answer = learn_residue(env, (uint32_t)env->nodes[f->t[k].mono].value, g, residue);
  }
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
      answer = learn_residues(env, &x, q);
    dt__poly_fini(&x);
  }
  return both(answer, refine_node(env, m, (dt_range_t){value, value}, depth));
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
      answer = both(mark_true(env, cond), learn_residues(env, &f, 0));
      int64_t coef = f.n == 1 ? f.t[0].coef : 0;
      if (coef && coef != INT64_MIN && f.c != INT64_MIN && f.c % coef == 0) {
        answer = both(answer, learn_value(env, f.t[0].mono, -f.c / coef, depth));
      } else {
        uint32_t node = dt__poly_node(env, &f);
        uint32_t minus = dt__poly_scale(&f, -1) ? dt__poly_node(env, &f) : 0;
        answer =
            both(answer, node && minus ? both(add_fact(env, cond, node), add_fact(env, 0, minus))
                                       : no_memory(env));
        answer = both(answer, refine_terms(env, &f, depth));
        if (dt__poly_scale(&f, -1))
          answer = both(answer, refine_terms(env, &f, depth));
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
  dt_tri_t answer = both(mark_true(env, cond), add_fact(env, cond, 0));
  uint32_t x = dt__arg(env, cond, 0);
  int64_t c;
  if (answer != DT_TRUE || !dt__literal_value(env, dt__arg(env, cond, 1), &c))
    return answer;
  dt_range_t r = dt__range_of(env, x);
  if (r.lo == c && c != INT64_MIN)
    return learn_le(env, dt__literal(env, c + 1), x, depth);
  if (r.hi == c && c != INT64_MAX)
    return learn_le(env, x, dt__literal(env, c - 1), depth);
  return answer;
}

dt_tri_t dt__learn(dt_symenv_t *env, uint32_t cond, uint32_t depth) {
  uint32_t id = dt__sym_simplify(env, SYM(cond)).id;
  int64_t value;
  if (!id)
    return no_memory(env);
  if (dt__literal_value(env, id, &value))
    return value ? DT_TRUE : DT_FALSE;
  if (depth > MAX_LEARN_DEPTH)
    return mark_true(env, id);
  switch (env->nodes[id].op) {
  case DT_SYM_AND: {
    dt_tri_t answer = DT_TRUE;
    for (uint32_t k = 0; k < env->nodes[id].n_args && answer == DT_TRUE; k++)
      answer = dt__learn(env, dt__arg(env, id, k), depth + 1);
    return answer;
  }
  case DT_SYM_OR:
    return both(mark_true(env, id), add_fact(env, id, 0));
  case DT_SYM_EQ:
    return learn_equal(env, id, depth);
  case DT_SYM_NE:
    return learn_unequal(env, id, depth);
  case DT_SYM_LT:
  case DT_SYM_LE:
    return learn_order(env, id, depth);
  default: {
    dt_sym_t truth = dt__sym_ne(env, SYM(id), dt__sym_const(env, 0));
    return truth.id ? dt__learn(env, truth.id, depth + 1) : no_memory(env);
  }
  }
}
