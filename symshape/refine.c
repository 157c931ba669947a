// SPDX-License-Identifier: Apache-2.0
// Applies conditions to single symbols: replacements, bounds and residues, each of which may cause
// others. When a symbol changed, the facts that mention it are read again.
#include "symshape/sym_private.h"

#include <stdlib.h>

#define MAX_TRIED 64u     // values at an end of a symbol's bounds that are tried
#define MAX_READ 64u      // facts about one symbol that are read again
#define MAX_PROPAGATE 256 // facts that are read again after one condition

typedef __int128 wide_t;

// ---- Replacement of a symbol -------------------------------------------------------------------
dt_tri_t dt__learn_le(dt_symenv_t *env, uint32_t a, uint32_t b, uint32_t depth) {
  dt_sym_t cond = dt__sym_le(env, SYM(a), SYM(b));
  return cond.id ? dt__learn(env, cond.id, depth + 1) : dt__no_memory(env);
}

// Learns a fact again in what its arguments have become; nothing where they are the same.
static dt_tri_t relearn_fact(dt_symenv_t *env, uint32_t fact, uint32_t depth) {
  uint32_t cond = env->facts[fact].cond;
  dt_sym_t few[8];
  uint32_t n = cond ? env->nodes[cond].n_args : 0;
  bool same = true;
  for (uint32_t k = 0; k < n && n <= 8; k++) {
    dt_sym_t arg = SYM(dt__arg(env, cond, k));
    few[k] = dt__sym_simplify(env, arg);
    same &= few[k].id == arg.id;
  }
  if (same)
    return DT_TRUE;
  dt_sym_t again = dt__rebuild(env, (dt_sym_op_t)env->nodes[cond].op, few, n);
  if (!again.id)
    return dt__no_memory(env);
  uint32_t late = env->late;
  env->late = env->facts[fact].late > late ? env->facts[fact].late : late;
  dt__fact_drop(env, fact);
  dt_tri_t answer = dt__learn(env, again.id, depth + 1);
  env->late = late;
  return answer;
}

static int by_number(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

// Facts that mention the symbol say something new about its replacement; oldest first.
static dt_tri_t relearn_facts(dt_symenv_t *env, uint32_t symbol, uint32_t depth) {
  uint32_t few[16], *facts = few, n = 0, k = 0;
  uint32_t head = env->symbols[symbol].facts;
  for (uint32_t at = head; at; at = env->uses[at].next)
    n++;
  if (n > 16 && !(facts = dt__alloc(n * sizeof *facts)))
    return dt__no_memory(env);
  for (uint32_t at = head; at; at = env->uses[at].next)
    facts[k++] = env->uses[at].what;
  qsort(facts, n, sizeof *facts, by_number);
  dt_tri_t answer = DT_TRUE;
  for (k = 0; k < n && answer == DT_TRUE; k++)
    answer = relearn_fact(env, facts[k], depth);
  if (facts != few)
    dt__free(facts);
  return answer;
}

// Sets a symbol's replacement, and enters it with the symbols that it mentions.
static bool set_replacement(dt_symenv_t *env, uint32_t symbol, uint32_t value) {
  uint32_t few[32], n = dt__sym_symbols(env, SYM(value), few, 32), *symbols = few;
  if (n > 32 && !(symbols = dt__alloc(n * sizeof *symbols))) {
    dt__no_memory(env);
    return false;
  }
  if (n > 32)
    dt__sym_symbols(env, SYM(value), symbols, n);
  bool ok = true;
  for (uint32_t k = 0; ok && k < n; k++)
    ok = dt__use_add(env, &env->symbols[symbols[k]].in, symbol);
  if (symbols != few)
    dt__free(symbols);
  env->nodes[env->symbols[symbol].node].rep = value;
  env->epoch++;
  return ok;
}

dt_tri_t dt__replace_symbol(dt_symenv_t *env, uint32_t symbol, uint32_t value, uint32_t depth) {
  uint32_t node = env->symbols[symbol].node;
  dt_range_t range = {env->nodes[node].lo, env->nodes[node].hi};
  int64_t modulus = env->symbols[symbol].modulus, residue = env->symbols[symbol].residue;
  if (!dt__note_why(env, symbol) || !set_replacement(env, symbol, value))
    return DT_UNKNOWN;
  for (uint32_t at = env->symbols[symbol].in; at; at = env->uses[at].next) {
    uint32_t other = env->uses[at].what, rep = env->nodes[env->symbols[other].node].rep;
    if (!dt__sym_depends(env, SYM(rep), SYM(node)))
      continue;
    dt_sym_t fresh = dt__sym_simplify(env, SYM(rep));
    if (!fresh.id || !set_replacement(env, other, fresh.id))
      return dt__no_memory(env);
  }
  dt_tri_t answer = DT_TRUE;
  if (range.lo != INT64_MIN)
    answer = dt__both(answer, dt__learn_le(env, dt__literal(env, range.lo), value, depth));
  if (range.hi != INT64_MAX)
    answer = dt__both(answer, dt__learn_le(env, dt__sym_simplify(env, SYM(value)).id,
                                           dt__literal(env, range.hi), depth));
  if (modulus > 1) {
    dt_sym_t rest =
        dt__sym_mod(env, dt__sym_simplify(env, SYM(value)), dt__sym_const(env, modulus));
    dt_sym_t cond = dt__sym_eq(env, rest, dt__sym_const(env, residue));
    answer = dt__both(answer, cond.id ? dt__learn(env, cond.id, depth + 1) : dt__no_memory(env));
  }
  return dt__both(answer, relearn_facts(env, symbol, depth));
}

// ---- Bounds ------------------------------------------------------------------------------------
// Whether the end of a symbol's bounds is finite and no axiom: those stay, so that guards need not
// say them.
static bool has_lo(const dt_symenv_t *env, uint32_t symbol, int64_t lo) {
  return lo != INT64_MIN && !(env->symbols[symbol].kind == DT_SYMBOL_SIZE && lo == 0);
}
static bool has_hi(const dt_symenv_t *env, uint32_t symbol, int64_t hi) {
  bool size = env->symbols[symbol].kind == DT_SYMBOL_SIZE;
  return hi != INT64_MAX && !(size && hi == DT_SIZE_LIMIT - 1);
}

// The part of `to` that begins and ends with numbers of the symbol's residue.
static dt_range_t fit_residue(const dt_symenv_t *env, uint32_t symbol, dt_range_t to) {
  int64_t modulus = env->symbols[symbol].modulus, residue = env->symbols[symbol].residue;
  if (modulus < 2)
    return to;
  if (has_lo(env, symbol, to.lo)) {
    int64_t up = dt__mod_i64(residue - dt__mod_i64(to.lo, modulus), modulus);
    if (!dt__add_i64(to.lo, up, &to.lo))
      to.lo = INT64_MAX;
  }
  if (has_hi(env, symbol, to.hi)) {
    int64_t down = dt__mod_i64(dt__mod_i64(to.hi, modulus) - residue, modulus);
    if (!dt__add_i64(to.hi, -down, &to.hi))
      to.hi = INT64_MIN;
  }
  return to;
}

// Bounds of a product of factors >= 0 bound each factor.
static dt_tri_t refine_factors(dt_symenv_t *env, uint32_t mono, dt_range_t to, uint32_t depth) {
  uint32_t n = dt__mono_count(env, mono);
  for (uint32_t k = 0; k < n; k++)
    if (dt__range_of(env, dt__mono_factor(env, mono, k)).lo < 0)
      return DT_TRUE;
  dt_tri_t answer = DT_TRUE;
  if (to.lo >= 1) // then no factor is 0
    for (uint32_t k = 0; k < n && answer == DT_TRUE; k++)
      answer = dt__refine_node(env, dt__mono_factor(env, mono, k), (dt_range_t){1, INT64_MAX},
                               depth + 1);
  for (uint32_t k = 0; k < n && answer == DT_TRUE; k++) {
    dt_range_t others = {1, 1};
    for (uint32_t j = 0; j < n; j++)
      if (j != k)
        others = dt__range_mul(others, dt__range_of(env, dt__mono_factor(env, mono, j)));
    if (others.lo >= 1 && to.hi != INT64_MAX && to.hi >= 0)
      answer = dt__refine_node(env, dt__mono_factor(env, mono, k),
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
    answer = dt__learn_le(env, dt__literal(env, bound), x, depth);
  if (to.hi != INT64_MAX && dt__mul_i64(to.hi, c, &bound) && dt__add_i64(bound, c - 1, &bound))
    answer = dt__both(answer, dt__learn_le(env, x, dt__literal(env, bound), depth));
  return answer;
}

dt_tri_t dt__refine_node(dt_symenv_t *env, uint32_t id, dt_range_t to, uint32_t depth) {
  dt_range_t now = dt__range_of(env, id);
  if (depth > SYM_MAX_LEARN_DEPTH || (to.lo <= now.lo && to.hi >= now.hi) || !dt__may_say(env, id))
    return DT_TRUE;
  to.lo = to.lo > now.lo ? to.lo : now.lo;
  to.hi = to.hi < now.hi ? to.hi : now.hi;
  uint32_t op = env->nodes[id].op;
  if (op == DT_SYM_SYMBOL)
    to = fit_residue(env, (uint32_t)env->nodes[id].value, to);
  if (to.lo > to.hi)
    return DT_FALSE;
  env->nodes[id].lo = to.lo;
  env->nodes[id].hi = to.hi;
  env->epoch++;
  if (op == DT_SYM_SYMBOL && (!dt__note_why(env, (uint32_t)env->nodes[id].value) ||
                              !dt__note_dirty(env, (uint32_t)env->nodes[id].value)))
    return DT_UNKNOWN;
  if (to.lo == to.hi && !env->nodes[id].rep) {
    uint32_t value = dt__literal(env, to.lo);
    if (!value)
      return dt__no_memory(env);
    if (op == DT_SYM_SYMBOL)
      return dt__replace_symbol(env, (uint32_t)env->nodes[id].value, value, depth);
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
dt_tri_t dt__refine_terms(dt_symenv_t *env, const dt_poly_t *f, uint32_t depth) {
  dt_tri_t answer = DT_TRUE;
  if (f->n > SYM_MAX_REFINE_TERMS)
    return answer;
  for (uint32_t k = 0; k < f->n && answer == DT_TRUE; k++) {
    dt_poly_term_t term = f->t[k];
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
    answer = dt__refine_node(env, term.mono, to, depth + 1);
  }
  return answer;
}

// ---- Residues ----------------------------------------------------------------------------------
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
static dt_tri_t learn_residue(dt_symenv_t *env, uint32_t symbol, int64_t modulus, int64_t residue,
                              uint32_t depth) {
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
  uint32_t node = s->node;
  dt_range_t range =
      fit_residue(env, symbol, (dt_range_t){env->nodes[node].lo, env->nodes[node].hi});
  return dt__note_why(env, symbol) ? dt__refine_node(env, node, range, depth + 1) : DT_UNKNOWN;
}

// f == 0 modulo g, the common factor of all other terms (and of `modulus`), fixes a residue.
dt_tri_t dt__learn_residues(dt_symenv_t *env, const dt_poly_t *f, int64_t modulus, uint32_t depth) {
  dt_tri_t answer = DT_TRUE;
  for (uint32_t k = 0; k < f->n && f->n <= SYM_MAX_REFINE_TERMS && answer == DT_TRUE; k++) {
    if (env->nodes[f->t[k].mono].op != DT_SYM_SYMBOL || !dt__may_say(env, f->t[k].mono))
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
    answer = learn_residue(env, (uint32_t)env->nodes[f->t[k].mono].value, g, residue, depth);
  }
  return answer;
}

// ---- Reading facts again -----------------------------------------------------------------------
// Whether a fact about this symbol alone is false for `value`.
static bool excluded(dt_symenv_t *env, uint32_t symbol, int64_t value) {
  uint32_t at = env->symbols[symbol].facts;
  for (uint32_t n = 0; at && n < MAX_READ; at = env->uses[at].next, n++) {
    const dt_fact_t *fact = &env->facts[env->uses[at].what];
    int64_t truth;
    bool in_time = fact->late <= env->nodes[env->symbols[symbol].node].late;
    if (fact->cond && fact->only == symbol + 1 && in_time &&
        dt__eval_one(env, fact->cond, value, &truth) && !truth)
      return true;
  }
  return false;
}

// Takes values for which a fact is false off the ends of the symbol's bounds.
static dt_tri_t trim(dt_symenv_t *env, uint32_t symbol) {
  uint32_t node = env->symbols[symbol].node;
  dt_range_t range = {env->nodes[node].lo, env->nodes[node].hi};
  dt_range_t to =
      fit_residue(env, symbol, range); // a loop's own bounds may be wider than its extent
  int64_t step = env->symbols[symbol].modulus;
  bool lo = has_lo(env, symbol, range.lo), hi = has_hi(env, symbol, range.hi);
  for (uint32_t n = 0; lo && n < MAX_TRIED && to.lo <= to.hi && excluded(env, symbol, to.lo); n++)
    lo = dt__add_i64(to.lo, step, &to.lo);
  for (uint32_t n = 0; hi && n < MAX_TRIED && to.lo <= to.hi && excluded(env, symbol, to.hi); n++)
    hi = dt__add_i64(to.hi, -step, &to.hi);
  if (to.lo > to.hi)
    return DT_FALSE;
  return dt__refine_node(env, node, to, 1);
}

// The one term that a comparison bounds says more of its parts when the others have new bounds.
static dt_tri_t read_term(dt_symenv_t *env, uint32_t cond) {
  dt_tri_t answer = DT_TRUE;
  for (uint32_t k = 0; cond && k < env->nodes[cond].n_args && answer == DT_TRUE; k++) {
    uint32_t term = dt__arg(env, cond, k);
    if (env->nodes[term].op == DT_SYM_MUL && env->nodes[term].value)
      term = (uint32_t)env->nodes[term].value;
    dt_range_t known = {env->nodes[term].lo, env->nodes[term].hi};
    if (env->nodes[term].op == DT_SYM_MUL)
      answer = refine_factors(env, term, known, SYM_MAX_LEARN_DEPTH / 2);
    else if (env->nodes[term].op == DT_SYM_FLOORDIV)
      answer = refine_quotient(env, term, known, SYM_MAX_LEARN_DEPTH / 2);
  }
  return answer;
}

// What a fact says now that bounds of symbols in it have changed.
static dt_tri_t read_fact(dt_symenv_t *env, uint32_t fact) {
  uint32_t cond = env->facts[fact].cond, ge0 = env->facts[fact].ge0;
  if (cond && env->nodes[cond].op == DT_SYM_OR)
    return relearn_fact(env, fact, 1);
  if (!ge0)
    return read_term(env, cond);
  dt_poly_t f;
  dt__poly_init(&f);
  dt_tri_t answer =
      dt__poly_load(env, &f, ge0) ? dt__refine_terms(env, &f, SYM_MAX_LEARN_DEPTH / 2) : DT_TRUE;
  dt__poly_fini(&f);
  return answer;
}

dt_tri_t dt__propagate(dt_symenv_t *env) {
  int left = MAX_PROPAGATE;
  dt_tri_t answer = DT_TRUE;
  uint32_t late = env->late; // each fact says what it says from when it holds itself
  while (env->n_dirty) {
    uint32_t symbol = env->dirty[--env->n_dirty];
    env->symbols[symbol].dirty = false;
    if (left <= 0 || answer != DT_TRUE || env->nodes[env->symbols[symbol].node].rep)
      continue;
    env->late = 0;
    answer = trim(env, symbol);
    uint32_t at = dt__use_live(env, &env->symbols[symbol].facts);
    for (uint32_t n = 0; at && n < MAX_READ && left > 0 && answer == DT_TRUE; n++, left--) {
      env->late = env->facts[env->uses[at].what].late;
      answer = read_fact(env, env->uses[at].what);
      at = env->uses[at].next;
    }
  }
  env->late = late;
  return answer;
}
