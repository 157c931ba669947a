// SPDX-License-Identifier: Apache-2.0
// Bounds of expressions over readbacks, as expressions without readbacks. Each step holds for the
// values of one call, so it may use what is known of sizes. It may not assume that a readback is at
// its bound, since two readbacks need not be at their bounds at once.
#include "lower/loop/loop_private.h"

#define MAX_ARGS 64 // of one operation; with more there is no bound

typedef struct bounds_t {
  dt_program_t *program;
  dt_symenv_t *env;
} bounds_t;

static dt_sym_t bound_of(bounds_t *b, dt_sym_t e, bool upper);

static dt_sym_t of_symbol(const bounds_t *b, uint32_t symbol, bool upper) {
  const dt_program_t *program = b->program;
  int64_t lo = dt__symbol_info(b->env, symbol).range.lo;
  if (!upper)
    return lo == INT64_MIN ? DT_SYM_NONE_ID : dt__sym_const(b->env, lo);
  for (uint32_t k = 0; k < program->readbacks.len; k++)
    if (program->readbacks.items[k].symbol == symbol)
      return program->readbacks.items[k].most;
  return DT_SYM_NONE_ID;
}

static dt_sym_t of_sum(bounds_t *b, const dt_sym_t *args, uint32_t n, bool upper) {
  dt_sym_t sum = dt__sym_const(b->env, 0);
  for (uint32_t k = 0; k < n && sum.id; k++)
    sum = dt__sym_add(b->env, sum, bound_of(b, args[k], upper));
  return sum;
}

// One factor has readbacks; the sign of the others says which of its bounds counts.
static dt_sym_t of_product(bounds_t *b, const dt_sym_t *args, uint32_t n, bool upper) {
  dt_sym_t rest = dt__sym_const(b->env, 1), own = DT_SYM_NONE_ID;
  for (uint32_t k = 0; k < n; k++) {
    if (!dt__expr_readbacks(b->program, args[k]))
      rest = dt__sym_mul(b->env, rest, args[k]);
    else if (own.id)
      return DT_SYM_NONE_ID;
    else
      own = args[k];
  }
  dt_range_t sign = dt__sym_range(b->env, rest);
  if (sign.lo < 0 && sign.hi > 0)
    return DT_SYM_NONE_ID;
  own = bound_of(b, own, sign.lo >= 0 ? upper : !upper);
  return own.id ? dt__sym_mul(b->env, own, rest) : own;
}

// min, for the upper bound (max, for the lower): any argument with a bound has it for all.
static dt_sym_t of_extreme(bounds_t *b, dt_sym_op_t op, const dt_sym_t *args, uint32_t n,
                           bool upper) {
  bool any = (op == DT_SYM_MIN) == upper;
  dt_sym_t all = DT_SYM_NONE_ID;
  for (uint32_t k = 0; k < n; k++) {
    dt_sym_t own = bound_of(b, args[k], upper);
    if (!own.id && !any)
      return own;
    if (!own.id)
      continue;
    all = !all.id
              ? own
              : (op == DT_SYM_MIN ? dt__sym_min(b->env, all, own) : dt__sym_max(b->env, all, own));
  }
  return all;
}

static dt_sym_t of_select(bounds_t *b, const dt_sym_t *args, bool upper) {
  dt_sym_t yes = bound_of(b, args[1], upper), no = bound_of(b, args[2], upper);
  if (!yes.id || !no.id)
    return DT_SYM_NONE_ID;
  return upper ? dt__sym_max(b->env, yes, no) : dt__sym_min(b->env, yes, no);
}

// The divisor must be at least 1. Where it depends on readbacks it is taken at its least: quotients
// are farthest from 0 there. That bounds them on one side of 0; on the other side 0 does.
static dt_sym_t of_quotient(bounds_t *b, const dt_sym_t *args, bool upper) {
  dt_symenv_t *env = b->env;
  dt_sym_t own = bound_of(b, args[0], upper), by = bound_of(b, args[1], false);
  dt_sym_t zero = dt__sym_const(env, 0);
  if (!own.id || !by.id || dt__sym_range(env, by).lo < 1)
    return DT_SYM_NONE_ID;
  if (!dt__expr_readbacks(b->program, args[1]))
    return dt__sym_floordiv(env, own, by);
  own = upper ? dt__sym_max(env, own, zero) : dt__sym_min(env, own, zero);
  return dt__sym_floordiv(env, own, by);
}

static dt_sym_t of_remainder(bounds_t *b, const dt_sym_t *args, bool upper) {
  dt_sym_t most = bound_of(b, args[1], true);
  if (!most.id || dt__sym_range(b->env, args[1]).lo < 1)
    return DT_SYM_NONE_ID;
  return upper ? dt__sym_sub(b->env, most, dt__sym_const(b->env, 1)) : dt__sym_const(b->env, 0);
}

static dt_sym_t bound_of(bounds_t *b, dt_sym_t e, bool upper) {
  dt_sym_t args[MAX_ARGS];
  if (!e.id || !dt__expr_readbacks(b->program, e))
    return e;
  dt_sym_view_t view = dt__sym_view(b->env, e);
  uint32_t n = view.n_args;
  if (n > MAX_ARGS)
    return DT_SYM_NONE_ID;
  for (uint32_t k = 0; k < n; k++)
    args[k] = view.args[k];
  switch (view.op) {
  case DT_SYM_SYMBOL:
    return of_symbol(b, view.symbol, upper);
  case DT_SYM_ADD:
    return of_sum(b, args, n, upper);
  case DT_SYM_MUL:
    return of_product(b, args, n, upper);
  case DT_SYM_MIN:
  case DT_SYM_MAX:
    return of_extreme(b, view.op, args, n, upper);
  case DT_SYM_SELECT:
    return of_select(b, args, upper);
  case DT_SYM_FLOORDIV:
    return of_quotient(b, args, upper);
  case DT_SYM_MOD:
    return of_remainder(b, args, upper);
  case DT_SYM_EQ:
  case DT_SYM_NE:
  case DT_SYM_LT:
  case DT_SYM_LE:
  case DT_SYM_AND:
  case DT_SYM_OR:
  case DT_SYM_NOT:
    return dt__sym_const(b->env, upper);
  default:
    return DT_SYM_NONE_ID;
  }
}

dt_sym_t dt__program_most(dt_program_t *program, dt_sym_t e) {
  bounds_t b = {.program = program, .env = program->env};
  return bound_of(&b, e, true);
}

dt_sym_t dt__program_least(dt_program_t *program, dt_sym_t e) {
  bounds_t b = {.program = program, .env = program->env};
  return bound_of(&b, e, false);
}
