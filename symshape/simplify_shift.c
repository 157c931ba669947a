// SPDX-License-Identifier: Apache-2.0
// Shifts: rules SHIFT_*. By a literal they are products and quotients, for which all other rules
// hold; by an unknown count they stay operations of their own.
#include "symshape/sym_private.h"

// shl(x, c), shr(x, c) for a literal c; none when c is not a count.
static dt_sym_t by_literal(dt_symenv_t *env, bool left, dt_sym_t x, int64_t c) {
  if (c < 0 || c > (left ? 62 : 63))
    return DT_SYM_NONE_ID;
  dt__rule(env, DT_RULE_SHIFT_LITERAL);
  if (c == 63) // 2^63 is no literal
    return dt__sym_floordiv(env, by_literal(env, left, x, 62), dt__sym_const(env, 2));
  dt_sym_t power = dt__sym_const(env, (int64_t)1 << c);
  return left ? dt__sym_mul(env, x, power) : dt__sym_floordiv(env, x, power);
}

static dt_sym_t shift(dt_symenv_t *env, bool left, dt_sym_t a, dt_sym_t b) {
  if (!a.id || !b.id)
    return DT_SYM_NONE_ID;
  uint32_t x = dt__resolve(env, a.id), y = dt__resolve(env, b.id);
  int64_t value, count;
  if (dt__literal_value(env, y, &count) && count >= 0 && count <= (left ? 62 : 63))
    return by_literal(env, left, SYM(x), count);
  if (dt__literal_value(env, x, &value) && (value == 0 || (value == -1 && !left))) {
    dt__rule(env, DT_RULE_SHIFT_SAME);
    return SYM(x);
  }
  if (!left && env->nodes[x].op == DT_SYM_SHL && dt__arg(env, x, 1) == y) {
    dt__rule(env, DT_RULE_SHIFT_BACK);
    return SYM(dt__resolve(env, dt__arg(env, x, 0)));
  }
  return SYM(dt__finish(env, dt__intern2(env, left ? DT_SYM_SHL : DT_SYM_SHR, x, y)));
}

dt_sym_t dt__sym_shl(dt_symenv_t *env, dt_sym_t a, dt_sym_t b) { return shift(env, true, a, b); }
dt_sym_t dt__sym_shr(dt_symenv_t *env, dt_sym_t a, dt_sym_t b) { return shift(env, false, a, b); }
