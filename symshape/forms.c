// SPDX-License-Identifier: Apache-2.0
// Operations that are written in terms of others: absolute value, exact division, and C's division
// and remainder (rules TRUNC_*), which become floor forms if the signs are known.
#include "symshape/sym_private.h"

dt_sym_t dt__sym_abs(dt_symenv_t *env, dt_sym_t a) {
  return dt__sym_max(env, a, dt__sym_neg(env, a));
}

dt_sym_t dt__sym_exactdiv(dt_symenv_t *env, dt_sym_t a, dt_sym_t b) {
  return dt__sym_floordiv(env, a, b);
}

static dt_sym_t divide(dt_symenv_t *env, bool rest, dt_sym_t a, dt_sym_t b) {
  return rest ? dt__sym_mod(env, a, b) : dt__sym_floordiv(env, a, b);
}

// C's quotient or remainder where a and b have opposite signs, by the negated a, or the negated b.
static dt_sym_t by_negated(dt_symenv_t *env, bool rest, dt_sym_t a, dt_sym_t b, bool negate_a) {
  if (negate_a)
    return dt__sym_neg(env, divide(env, rest, dt__sym_neg(env, a), b));
  dt_sym_t quotient = divide(env, rest, a, dt__sym_neg(env, b));
  return rest ? quotient : dt__sym_neg(env, quotient);
}

// Any signs: the floor form is one off where the division leaves a rest and the signs differ.
static dt_sym_t adjusted(dt_symenv_t *env, bool rest, dt_sym_t a, dt_sym_t b) {
  dt_sym_t zero = dt__sym_const(env, 0), floor = divide(env, rest, a, b);
  dt_sym_t differ = dt__sym_ne(env, dt__sym_lt(env, a, zero), dt__sym_lt(env, b, zero));
  dt_sym_t some = dt__sym_ne(env, dt__sym_mod(env, a, b), zero);
  dt_sym_t other =
      rest ? dt__sym_sub(env, floor, b) : dt__sym_add(env, floor, dt__sym_const(env, 1));
  return dt__sym_select(env, dt__sym_and(env, some, differ), other, floor);
}

static dt_sym_t truncated(dt_symenv_t *env, bool rest, dt_sym_t a, dt_sym_t b) {
  if (!a.id || !b.id)
    return DT_SYM_NONE_ID;
  a.id = dt__resolve(env, a.id);
  b.id = dt__resolve(env, b.id);
  dt_range_t x = dt__range_of(env, a.id), q = dt__range_of(env, b.id);
  if ((x.lo >= 0 && q.lo >= 0) || (x.hi <= 0 && q.hi <= 0)) {
    dt__rule(env, DT_RULE_TRUNC_FLOOR);
    return divide(env, rest, a, b);
  }
  bool minus_x = x.lo > INT64_MIN, minus_q = q.lo > INT64_MIN; // -a, -b fit
  if ((x.hi <= 0 && q.lo >= 0 && minus_x) || (x.lo >= 0 && q.hi <= 0 && minus_q)) {
    dt__rule(env, DT_RULE_TRUNC_NEGATED);
    return by_negated(env, rest, a, b, x.hi <= 0);
  }
  if (q.lo >= 0 && minus_x) {
    dt__rule(env, DT_RULE_TRUNC_SELECT);
    dt_sym_t negative = dt__sym_lt(env, a, dt__sym_const(env, 0));
    return dt__sym_select(env, negative, by_negated(env, rest, a, b, true),
                          divide(env, rest, a, b));
  }
  dt__rule(env, DT_RULE_TRUNC_ADJUST);
  return adjusted(env, rest, a, b);
}

dt_sym_t dt__sym_truncdiv(dt_symenv_t *env, dt_sym_t a, dt_sym_t b) {
  return truncated(env, false, a, b);
}
dt_sym_t dt__sym_truncmod(dt_symenv_t *env, dt_sym_t a, dt_sym_t b) {
  return truncated(env, true, a, b);
}
