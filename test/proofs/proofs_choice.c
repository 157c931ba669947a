// SPDX-License-Identifier: Apache-2.0
// Proofs of MINMAX_*, SELECT_*, NOT_* and JUNCTION_*: symshape/simplify_minmax.c, simplify_logic.c.
#include "test/proofs/rules.h"

static void minmax_literals(goal_t *g) {
  value_t c = v_literal(g, "c"), d = v_literal(g, "d"), x = v_any(g, "x");
  side(g, t_le(g, c.v, d.v), t_true(g));
  claim_rewrite(g, v_min(g, v_min(g, c, d), x), v_min(g, c, x));
  claim_rewrite(g, v_max(g, v_max(g, c, d), x), v_max(g, d, x));
}

static void minmax_flat(goal_t *g) {
  value_t x = v_any(g, "x"), y = v_any(g, "y"), a = v_any(g, "a");
  claim_rewrite(g, v_min(g, v_min(g, x, y), a), v_min(g, x, v_min(g, y, a)));
  claim_rewrite(g, v_max(g, v_max(g, x, y), a), v_max(g, x, v_max(g, y, a)));
  claim_rewrite(g, v_min(g, x, y), v_min(g, y, x));
  claim_rewrite(g, v_max(g, x, y), v_max(g, y, x));
  claim_rewrite(g, v_min(g, x, x), x);
  claim_rewrite(g, v_max(g, x, x), x);
}

static void minmax_bound(goal_t *g) {
  value_t x = v_any(g, "x"), y = v_any(g, "y");
  side(g, t_le(g, ZERO, t_sub(g, y.v, x.v)), t_le(g, t_int(g, -1), t_sub(g, y.v, x.v)));
  claim_rewrite(g, v_min(g, x, y), x);
  claim_rewrite(g, v_max(g, x, y), y);
}

static void select_known(goal_t *g) {
  value_t c = v_literal(g, "c"), x = v_any(g, "x"), y = v_any(g, "y");
  value_t branch = x;
  term_t yes = t_not(g, t_eq(g, c.v, ZERO));
  branch.exact = t_if(g, yes, x.exact, y.exact);
  branch.has = t_if(g, yes, x.has, y.has);
  branch.v = t_if(g, yes, x.v, y.v);
  claim_rewrite(g, v_select(g, c, x, y), branch);
}

static void select_same(goal_t *g) {
  value_t c = v_any(g, "c"), x = v_any(g, "x");
  claim_rewrite(g, v_select(g, c, x, x), x);
}

static void select_condition(goal_t *g) {
  value_t a = v_any(g, "a");
  side(g, t_between(g, ZERO, a.v, ONE), t_le(g, ZERO, a.v));
  claim_rewrite(g, v_select(g, a, v_int(g, 1), v_int(g, 0)), a);
}

static void select_flip(goal_t *g) {
  value_t a = v_any(g, "a"), b = v_any(g, "b"), x = v_any(g, "x"), y = v_any(g, "y");
  claim_rewrite(g, v_select(g, v_ne(g, a, b), x, y), v_select(g, v_eq(g, a, b), y, x));
  claim_rewrite(g, v_select(g, a, v_int(g, 0), v_int(g, 1)), v_not(g, a));
}

static void select_equal(goal_t *g) {
  value_t a = v_any(g, "a"), b = v_any(g, "b");
  claim_rewrite(g, v_select(g, v_eq(g, a, b), a, b), b);
  claim_rewrite(g, v_select(g, v_eq(g, a, b), b, a), a);
}

static void select_nested(goal_t *g) {
  value_t c = v_any(g, "c"), x = v_any(g, "x"), y = v_any(g, "y"), z = v_any(g, "z");
  claim_rewrite(g, v_select(g, c, v_select(g, c, x, y), z), v_select(g, c, x, z));
  claim_rewrite(g, v_select(g, c, z, v_select(g, c, x, y)), v_select(g, c, z, y));
}

static void not_comparison(goal_t *g) {
  value_t a = v_any(g, "a"), b = v_any(g, "b");
  claim_rewrite(g, v_not(g, v_lt(g, a, b)), v_le(g, b, a));
  claim_rewrite(g, v_not(g, v_le(g, a, b)), v_lt(g, b, a));
  claim_rewrite(g, v_not(g, v_eq(g, a, b)), v_ne(g, a, b));
  claim_rewrite(g, v_not(g, v_ne(g, a, b)), v_eq(g, a, b));
  claim_rewrite(g, v_not(g, a), v_eq(g, a, v_int(g, 0)));
}

static void not_junction(goal_t *g) {
  value_t a = v_any(g, "a"), b = v_any(g, "b");
  claim_rewrite(g, v_not(g, v_and(g, a, b)), v_or(g, v_not(g, a), v_not(g, b)));
  claim_rewrite(g, v_not(g, v_or(g, a, b)), v_and(g, v_not(g, a), v_not(g, b)));
}

static void junction_flat(goal_t *g) {
  value_t a = v_any(g, "a"), b = v_any(g, "b"), c = v_any(g, "c");
  claim_rewrite(g, v_and(g, v_and(g, a, b), c), v_and(g, a, v_and(g, b, c)));
  claim_rewrite(g, v_or(g, v_or(g, a, b), c), v_or(g, a, v_or(g, b, c)));
  claim_rewrite(g, v_and(g, a, b), v_and(g, b, a));
  claim_rewrite(g, v_or(g, a, b), v_or(g, b, a));
  // An argument stands for "it is not 0".
  value_t some = v_ne(g, a, v_int(g, 0));
  claim_rewrite(g, v_and(g, a, b), v_and(g, some, b));
  claim_rewrite(g, v_or(g, a, b), v_or(g, some, b));
  claim_rewrite(g, v_and(g, a, a), some);
  claim_rewrite(g, v_or(g, a, a), some);
}

static void junction_literal(goal_t *g) {
  value_t a = v_bool(g, "a"), c = v_literal(g, "c");
  value_t zero = v_int(g, 0), one = v_int(g, 1);
  side(g, t_not(g, t_eq(g, c.v, ZERO)), t_true(g));
  claim_rewrite(g, v_and(g, a, c), a);
  claim_rewrite(g, v_or(g, a, c), one);
  claim_rewrite(g, v_and(g, a, zero), zero);
  claim_rewrite(g, v_or(g, a, zero), a);
}

// n is what "not a" was simplified to: where that has a value, n has the same.
static void junction_complement(goal_t *g) {
  value_t a = v_any(g, "a"), n = v_any(g, "n"), opposite = v_not(g, a);
  side(g, t_implies(g, opposite.exact, t_and(g, n.exact, t_eq(g, n.v, opposite.v))),
       t_implies(g, opposite.exact, n.exact));
  claim_rewrite(g, v_and(g, a, n), v_int(g, 0));
  claim_rewrite(g, v_or(g, a, n), v_int(g, 1));
}

const proof_t choice_proofs[] = {
    {DT_RULE_MINMAX_LITERALS, "", minmax_literals, WITH_BITS},
    {DT_RULE_MINMAX_FLAT, "", minmax_flat, WITH_BITS},
    {DT_RULE_MINMAX_BOUND, "", minmax_bound, WITH_BITS},
    {DT_RULE_SELECT_KNOWN, "", select_known, WITH_BITS},
    {DT_RULE_SELECT_SAME, "both branches", select_same, WITH_BITS},
    {DT_RULE_SELECT_SAME, "1 and 0", select_condition, WITH_BITS},
    {DT_RULE_SELECT_FLIP, "", select_flip, WITH_BITS},
    {DT_RULE_SELECT_EQUAL, "", select_equal, WITH_BITS},
    {DT_RULE_SELECT_NESTED, "", select_nested, WITH_BITS},
    {DT_RULE_NOT_PUSH, "comparisons", not_comparison, WITH_BITS},
    {DT_RULE_NOT_PUSH, "and, or", not_junction, WITH_BITS},
    {DT_RULE_JUNCTION_FLAT, "order, repetition", junction_flat, WITH_BITS},
    {DT_RULE_JUNCTION_FLAT, "literals", junction_literal, WITH_BITS},
    {DT_RULE_JUNCTION_COMPLEMENT, "", junction_complement, WITH_BITS},
    {0, 0, 0, 0},
};
