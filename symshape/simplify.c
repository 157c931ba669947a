// SPDX-License-Identifier: Apache-2.0
// Rebuilds expressions: by what was learned since, and by substitution.
#include "symshape/sym_private.h"

dt_sym_t dt__sym_const(dt_symenv_t *env, int64_t value) {
  env->refused.op = DT_SYM_NONE; // what comes next is not about the last comparison
  return SYM(dt__literal(env, value));
}

static dt_sym_t rebuild_sum(dt_symenv_t *env, const dt_sym_t *args, uint32_t n) {
  dt_poly_t p, q;
  dt__poly_init(&p);
  dt__poly_init(&q);
  dt_sym_t sum = DT_SYM_NONE_ID;
  bool ok = true;
  for (uint32_t k = 0; ok && k < n; k++)
    ok = dt__poly_load(env, &q, args[k].id) && dt__poly_add(env, &p, &q, 1);
  if (ok)
    sum = SYM(dt__sum_finish(env, &p));
  else
    dt__sym_fail(env, DT_E_LIMIT, "a literal of a symbolic expression does not fit in 64 bits");
  dt__poly_fini(&p);
  dt__poly_fini(&q);
  return sum;
}

dt_sym_t dt__rebuild(dt_symenv_t *env, dt_sym_op_t op, dt_sym_t *args, uint32_t n) {
  dt_sym_t e;
  for (uint32_t k = 0; k < n; k++)
    if (!args[k].id)
      return DT_SYM_NONE_ID;
  switch (op) {
  case DT_SYM_ADD:
    return rebuild_sum(env, args, n);
  case DT_SYM_MUL:
    e = args[0];
    for (uint32_t k = 1; k < n; k++)
      e = dt__sym_mul(env, e, args[k]);
    return e;
  case DT_SYM_FLOORDIV:
    return dt__sym_floordiv(env, args[0], args[1]);
  case DT_SYM_MOD:
    return dt__sym_mod(env, args[0], args[1]);
  case DT_SYM_MIN:
  case DT_SYM_MAX:
    return dt__build_minmax(env, op, args, n);
  case DT_SYM_SELECT:
    return dt__sym_select(env, args[0], args[1], args[2]);
  case DT_SYM_EQ:
    return dt__sym_eq(env, args[0], args[1]);
  case DT_SYM_NE:
    return dt__sym_ne(env, args[0], args[1]);
  case DT_SYM_LT:
    return dt__sym_lt(env, args[0], args[1]);
  case DT_SYM_LE:
    return dt__sym_le(env, args[0], args[1]);
  case DT_SYM_AND:
  case DT_SYM_OR:
    return dt__build_junction(env, op, args, n);
  case DT_SYM_NOT:
    return dt__sym_not(env, args[0]);
  case DT_SYM_SHL:
    return dt__sym_shl(env, args[0], args[1]);
  case DT_SYM_SHR:
    return dt__sym_shr(env, args[0], args[1]);
  default:
    return DT_SYM_NONE_ID;
  }
}

typedef dt_sym_t (*visit_t)(dt_symenv_t *env, dt_sym_t e);

// Rebuilds node e with `visit` of its arguments.
static dt_sym_t rebuild_with(dt_symenv_t *env, dt_sym_t e, visit_t visit) {
  uint32_t n = env->nodes[e.id].n_args;
  dt_sym_t few[8], *args = n <= 8 ? few : dt__alloc(n * sizeof *args);
  if (!args)
    return dt__sym_fail(env, DT_E_NO_MEMORY, "out of memory");
  for (uint32_t k = 0; k < n; k++)
    args[k] = visit(env, SYM(dt__arg(env, e.id, k)));
  dt_sym_t result = dt__rebuild(env, (dt_sym_op_t)env->nodes[e.id].op, args, n);
  if (args != few)
    dt__free(args);
  return result;
}

dt_sym_t dt__sym_simplify(dt_symenv_t *env, dt_sym_t e) {
  if (!e.id)
    return e;
  // A replacement holds no replaced symbol, but later facts may make it simpler.
  e.id = dt__resolve(env, e.id);
  uint32_t op = env->nodes[e.id].op;
  if (op == DT_SYM_SYMBOL) { // a loop whose extent became 1 stands still
    dt_range_t range = dt__range_of(env, e.id);
    return range.lo == range.hi ? SYM(dt__literal(env, range.lo)) : e;
  }
  if (op == DT_SYM_CONST)
    return e;
  if (env->nodes[e.id].simp_epoch == env->epoch)
    return SYM(env->nodes[e.id].simp);
  dt_sym_t result = rebuild_with(env, e, dt__sym_simplify);
  if (result.id) {
    env->nodes[e.id].simp = result.id;
    env->nodes[e.id].simp_epoch = env->epoch;
  }
  return result;
}

static dt_sym_t subst_node(dt_symenv_t *env, dt_sym_t e) {
  if (!e.id || env->nodes[e.id].subst_run == env->subst_run)
    return e.id ? SYM(env->nodes[e.id].subst) : e;
  uint32_t op = env->nodes[e.id].op;
  if (op == DT_SYM_CONST || op == DT_SYM_SYMBOL)
    return e;
  bool same = true;
  uint32_t n = env->nodes[e.id].n_args;
  for (uint32_t k = 0; same && k < n; k++) {
    dt_sym_t arg = SYM(dt__arg(env, e.id, k));
    same = subst_node(env, arg).id == arg.id;
  }
  dt_sym_t result = same ? e : rebuild_with(env, e, subst_node);
  if (result.id) {
    env->nodes[e.id].subst = result.id;
    env->nodes[e.id].subst_run = env->subst_run;
  }
  return result;
}

dt_sym_t dt__sym_subst(dt_symenv_t *env, dt_sym_t e, const dt_sym_t *from, const dt_sym_t *to,
                       uint32_t n) {
  if (!e.id)
    return e;
  uint64_t mask = 0;
  env->subst_run++;
  for (uint32_t k = 0; k < n; k++) {
    if (!from[k].id || !to[k].id)
      return DT_SYM_NONE_ID;
    dt_sym_node_t *node = &env->nodes[from[k].id];
    if (node->op != DT_SYM_SYMBOL)
      return dt__sym_fail(env, DT_E_ARGUMENT, "substitution of what is not a symbol");
    node->subst = to[k].id;
    node->subst_run = env->subst_run;
    mask |= node->mask;
  }
  return env->nodes[e.id].mask & mask ? subst_node(env, e) : e;
}
