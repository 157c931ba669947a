// SPDX-License-Identifier: Apache-2.0
// Indexes facts: lists of those that mention a symbol, of those whose sum subtracts a monomial, and
// of those that subtract one and add another. So a question reads the facts that may answer it,
// however many there are.
#include "symshape/sym_private.h"

#include "runtime/base/hash.h"

#define MAX_PAIR_TERMS 8u // sums with more terms on a side are in the lists of single terms only
#define FIRST_PAIRS 64u

bool dt__use_add(dt_symenv_t *env, uint32_t *head, uint32_t what) {
  uint32_t at = env->n_uses ? env->n_uses : 1, first = *head;
  // `head` may lie in an array of the environment, but never in `uses`.
  if (!dt__grow((void **)&env->uses, &env->cap_uses, at + 1, sizeof *env->uses)) {
    dt__no_memory(env);
    return false;
  }
  env->uses[at] = (dt_use_t){what, first};
  env->n_uses = at + 1;
  *head = at;
  return true;
}

uint32_t dt__use_live(dt_symenv_t *env, uint32_t *head) {
  while (*head && !env->facts[env->uses[*head].what].cond && !env->facts[env->uses[*head].what].ge0)
    *head = env->uses[*head].next;
  return *head;
}

static dt_pair_t *pair_slot(const dt_symenv_t *env, uint32_t less, uint32_t more) {
  uint64_t h = dt__hash_mix(less, more);
  uint32_t slot = (uint32_t)(h ^ (h >> 32)) & (env->cap_pairs - 1);
  while (env->pairs[slot].uses && (env->pairs[slot].less != less || env->pairs[slot].more != more))
    slot = (slot + 1) & (env->cap_pairs - 1);
  return &env->pairs[slot];
}

uint32_t *dt__fact_pair(dt_symenv_t *env, uint32_t less, uint32_t more) {
  if (!env->n_pairs)
    return NULL;
  dt_pair_t *pair = pair_slot(env, less, more);
  return pair->uses ? &pair->uses : NULL;
}

static bool grow_pairs(dt_symenv_t *env) {
  dt_pair_t *old = env->pairs;
  uint32_t cap = env->cap_pairs, bigger = cap ? cap * 2 : FIRST_PAIRS;
  dt_pair_t *made = dt__calloc(bigger, sizeof *made);
  if (!made) {
    dt__no_memory(env);
    return false;
  }
  env->pairs = made;
  env->cap_pairs = bigger;
  for (uint32_t k = 0; k < cap; k++)
    if (old[k].uses)
      *pair_slot(env, old[k].less, old[k].more) = old[k];
  dt__free(old);
  return true;
}

static bool add_pair(dt_symenv_t *env, uint32_t less, uint32_t more, uint32_t fact) {
  if (env->n_pairs * 2 >= env->cap_pairs && !grow_pairs(env))
    return false;
  dt_pair_t *pair = pair_slot(env, less, more);
  if (!pair->uses) {
    pair->less = less;
    pair->more = more;
    env->n_pairs++;
  }
  return dt__use_add(env, &pair->uses, fact);
}

bool dt__fact_pair_restore(dt_symenv_t *env, uint32_t less, uint32_t more, uint32_t uses) {
  if (env->n_pairs * 2 >= env->cap_pairs && !grow_pairs(env))
    return false;
  dt_pair_t *pair = pair_slot(env, less, more);
  env->n_pairs += !pair->uses;
  *pair = (dt_pair_t){less, more, uses};
  return true;
}

// Enters a sum that is >= 0 by its terms.
static bool index_sum(dt_symenv_t *env, uint32_t ge0, uint32_t fact) {
  dt_poly_t f;
  dt__poly_init(&f);
  bool ok = dt__poly_load(env, &f, ge0);
  uint32_t n_less = 0, n_more = 0;
  for (uint32_t k = 0; k < f.n; k++)
    f.t[k].coef < 0 ? n_less++ : n_more++;
  bool pairs = n_less <= MAX_PAIR_TERMS && n_more <= MAX_PAIR_TERMS;
  for (uint32_t k = 0; ok && k < f.n; k++) {
    if (f.t[k].coef > 0)
      continue;
    ok = dt__use_add(env, &env->nodes[f.t[k].mono].less, fact);
    for (uint32_t j = 0; ok && pairs && j < f.n; j++)
      if (f.t[j].coef > 0)
        ok = add_pair(env, f.t[k].mono, f.t[j].mono, fact);
  }
  dt__poly_fini(&f);
  return ok;
}

static bool index_symbols(dt_symenv_t *env, uint32_t id, uint32_t fact) {
  uint32_t few[32], n = dt__sym_symbols(env, SYM(id), few, 32), *symbols = few;
  if (n > 32 && !(symbols = dt__alloc(n * sizeof *symbols))) {
    dt__no_memory(env);
    return false;
  }
  if (n > 32)
    dt__sym_symbols(env, SYM(id), symbols, n);
  bool ok = true;
  for (uint32_t k = 0; ok && k < n; k++)
    ok = dt__use_add(env, &env->symbols[symbols[k]].facts, fact);
  env->facts[fact].only = n == 1 ? 1 + symbols[0] : 0;
  if (symbols != few)
    dt__free(symbols);
  return ok;
}

bool dt__fact_add(dt_symenv_t *env, uint32_t cond, uint32_t ge0) {
  if (!dt__grow((void **)&env->facts, &env->cap_facts, env->n_facts + 1, sizeof *env->facts)) {
    dt__no_memory(env);
    return false;
  }
  uint32_t fact = env->n_facts++;
  env->facts[fact] = (dt_fact_t){.cond = cond, .ge0 = ge0, .late = env->late};
  env->epoch++;
  if (!index_symbols(env, cond ? cond : ge0, fact) || (ge0 && !index_sum(env, ge0, fact)))
    return false;
  uint32_t only = env->facts[fact].only;
  return !only || dt__note_dirty(env, only - 1); // its bounds may exclude values at their ends
}

uint32_t dt__symbol_bounds(dt_symenv_t *env, uint32_t symbol, dt_sym_t *out, uint32_t cap) {
  dt_sym_t var = dt__symbol_sym(env, symbol), coef, rest;
  uint32_t n = 0;
  for (uint32_t at = dt__use_live(env, &env->symbols[symbol].facts); at;
       at = dt__use_live(env, &env->uses[at].next)) {
    uint32_t ge0 = env->facts[env->uses[at].what].ge0;
    int64_t by = 0;
    if (!ge0 || !dt__sym_linear(env, SYM(ge0), var, &coef, &rest) ||
        !dt__sym_is_const(env, coef, &by) || by >= 0 || by == INT64_MIN)
      continue;
    dt_sym_t bound = dt__sym_floordiv(env, rest, dt__sym_const(env, -by));
    if (!bound.id || dt__sym_is_const(env, bound, NULL))
      continue;
    if (n < cap)
      out[n] = bound;
    n++;
  }
  return n;
}

void dt__fact_drop(dt_symenv_t *env, uint32_t fact) { env->facts[fact] = (dt_fact_t){0}; }

bool dt__note_dirty(dt_symenv_t *env, uint32_t symbol) {
  if (env->symbols[symbol].dirty)
    return true;
  if (!dt__grow((void **)&env->dirty, &env->cap_dirty, env->n_dirty + 1, sizeof *env->dirty)) {
    dt__no_memory(env);
    return false;
  }
  env->symbols[symbol].dirty = true;
  env->dirty[env->n_dirty++] = symbol;
  return true;
}
