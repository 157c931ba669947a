// SPDX-License-Identifier: Apache-2.0
// Whether conditions exclude each other. Learning finds only direct consequences. Here conditions
// that leave a choice are tried both ways, on clones. It does not matter there when a number from
// data is read: all conditions hold at the end of a call. Slow, for failures only.
#include "symshape/sym_private.h"

#define CHOICES 16u // tried in a round
#define ROUNDS 4
#define DEPTH 2

static bool is_refuted(dt_symenv_t *env, dt_sym_t cond) {
  if (!cond.id)
    return false;
  if (dt__sym_known(env, cond) != DT_UNKNOWN)
    return dt__sym_known(env, cond) == DT_FALSE;
  env->late = 0;
  dt_tri_t answer = dt__learn(env, cond.id, 0);
  return dt__both(answer, dt__propagate(env)) == DT_FALSE;
}

// The fact in what the others have made of its numbers.
static dt_sym_t as_now(dt_symenv_t *env, uint32_t cond) {
  dt_sym_t args[8];
  uint32_t n = env->nodes[cond].n_args;
  if (n == 0 || n > 8)
    return SYM(cond);
  for (uint32_t k = 0; k < n; k++)
    args[k] = dt__sym_simplify(env, SYM(dt__arg(env, cond, k)));
  return dt__rebuild(env, (dt_sym_op_t)env->nodes[cond].op, args, n);
}

static bool is_refuted_by_facts(dt_symenv_t *env) {
  for (int round = 0; round < ROUNDS; round++) {
    uint32_t epoch = env->epoch;
    for (uint32_t k = 0; k < env->n_facts; k++)
      if (env->facts[k].cond && is_refuted(env, as_now(env, env->facts[k].cond)))
        return true;
    if (env->epoch == epoch)
      return false;
  }
  return false;
}

// ---- Choices ----------------------------------------------------------------------------------------
typedef struct choices_t {
  uint32_t n;
  dt_sym_t conds[CHOICES];
} choices_t;

static void add_choice(dt_symenv_t *env, choices_t *out, dt_sym_t cond) {
  for (uint32_t k = 0; k < out->n; k++)
    if (out->conds[k].id == cond.id)
      return;
  if (cond.id && out->n < CHOICES && dt__sym_known(env, cond) == DT_UNKNOWN)
    out->conds[out->n++] = cond;
}

// What an expression is made of: one of several conditions, the lower or higher of two, either
// side.
static void find_choices(dt_symenv_t *env, uint32_t id, choices_t *out) {
  uint32_t n = env->nodes[id].n_args;
  dt_sym_op_t op = (dt_sym_op_t)env->nodes[id].op;
  for (uint32_t k = 0; k < n && out->n < CHOICES; k++) {
    dt_sym_t a = SYM(dt__arg(env, id, k)), b = SYM(dt__arg(env, id, k + 1 < n ? k + 1 : 0));
    if (op == DT_SYM_OR || (op == DT_SYM_SELECT && k == 0))
      add_choice(env, out, a);
    if ((op == DT_SYM_MIN || op == DT_SYM_MAX) && k + 1 < n)
      add_choice(env, out, dt__sym_le(env, a, b));
    if (op == DT_SYM_NE && k == 0)
      add_choice(env, out, dt__sym_lt(env, a, b));
    find_choices(env, dt__arg(env, id, k), out);
  }
}

static bool is_excluded(dt_symenv_t *env, int depth);

static bool is_excluded_with(const dt_symenv_t *env, dt_sym_t cond, int depth) {
  dt_symenv_t *clone = NULL;
  dt_status_t status = dt__symenv_clone(env, &clone);
  bool excluded = !status && (is_refuted(clone, cond) || is_excluded(clone, depth));
  dt_status_free(status);
  dt__symenv_destroy(clone);
  return excluded;
}

// A choice of which one side is excluded is the other side.
static bool is_excluded(dt_symenv_t *env, int depth) {
  if (is_refuted_by_facts(env))
    return true;
  for (int round = 0; depth && round < ROUNDS; round++) {
    choices_t choices = {0};
    bool learned = false;
    for (uint32_t k = 0; k < env->n_facts; k++)
      if (env->facts[k].cond)
        find_choices(env, as_now(env, env->facts[k].cond).id, &choices);
    for (uint32_t k = 0; k < choices.n; k++) {
      dt_sym_t yes = choices.conds[k], no = dt__sym_not(env, yes);
      if (dt__sym_known(env, yes) != DT_UNKNOWN)
        continue;
      bool never = is_excluded_with(env, yes, depth - 1);
      bool always = is_excluded_with(env, no, depth - 1);
      if (!never && !always)
        continue;
      if ((never && always) || is_refuted(env, never ? no : yes) || is_refuted_by_facts(env))
        return true;
      learned = true;
    }
    if (!learned)
      return false;
  }
  return false;
}

// ---- Anew -------------------------------------------------------------------------------------------
// A condition of `from` in an environment with the same symbols that knows nothing else.
static dt_sym_t copy(const dt_symenv_t *from, uint32_t id, dt_symenv_t *to) {
  const dt_sym_node_t *node = dt__node(from, id);
  dt_sym_t args[16];
  if (node->op == DT_SYM_CONST)
    return dt__sym_const(to, node->value);
  if (node->op == DT_SYM_SYMBOL)
    return dt__symbol_sym(to, (uint32_t)node->value);
  if (node->n_args == 0 || node->n_args > 16)
    return SYM(0);
  for (uint32_t k = 0; k < node->n_args; k++) {
    args[k] = copy(from, dt__arg(from, id, k), to);
    if (!args[k].id)
      return SYM(0);
  }
  return dt__rebuild(to, (dt_sym_op_t)node->op, args, node->n_args);
}

static bool excludes(const dt_symenv_t *from, uint32_t n, const dt_sym_t *conds, dt_symenv_t *to) {
  for (uint32_t k = 0; k < from->n_symbols; k++) {
    dt_symbol_info_t info = dt__symbol_info(from, k);
    if (info.range.lo > info.range.hi)
      return true;
    (void)dt__sym_new(to, info.kind, info.range, NULL, info.name);
  }
  for (uint32_t k = 0; k < n; k++)
    if (is_refuted(to, copy(from, conds[k].id, to)))
      return true;
  return is_excluded(to, DEPTH);
}

bool dt__sym_exclude_each_other(const dt_symenv_t *env, uint32_t n, const dt_sym_t *conds) {
  dt_symenv_t *anew = NULL;
  dt_status_t status = dt__symenv_create(&anew);
  bool excluded = !status && excludes(env, n, conds, anew);
  dt_status_free(status);
  dt__symenv_destroy(anew);
  return excluded;
}
