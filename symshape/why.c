// SPDX-License-Identifier: Apache-2.0
// Why a symbol has its value or range: a list for each symbol of the conditions that fixed or
// narrowed it.
#include "symshape/sym_private.h"

bool dt__note_why(dt_symenv_t *env, uint32_t symbol) {
  dt_symbol_t *s = &env->symbols[symbol];
  if (!env->asked.cond.id ||
      (s->last_why && env->whys[s->last_why].fact.cond.id == env->asked.cond.id))
    return true;
  uint32_t at = env->n_whys ? env->n_whys : 1;
  if (!dt__grow((void **)&env->whys, &env->cap_whys, at + 1, sizeof *env->whys)) {
    dt__no_memory(env);
    return false;
  }
  env->whys[at] = (dt_why_t){env->asked, 0};
  env->n_whys = at + 1;
  if (s->last_why)
    env->whys[s->last_why].next = at;
  else
    s->why = at;
  s->last_why = at;
  return true;
}

uint32_t dt__symbol_facts(const dt_symenv_t *env, uint32_t symbol, dt_sym_fact_t *out,
                          uint32_t cap) {
  uint32_t n = 0, at = symbol < env->n_symbols ? env->symbols[symbol].why : 0;
  for (; at; at = env->whys[at].next, n++)
    if (n < cap)
      out[n] = env->whys[at].fact;
  return n;
}
