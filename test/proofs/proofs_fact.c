// SPDX-License-Identifier: Apache-2.0
// Proofs of FACT_VALUE, with what symshape/learn.c concludes from a condition that is true: values,
// bounds and residues.
#include "test/proofs/rules.h"

static void learned_value(goal_t *g) {
  value_t x = v_any(g, "x"), y = v_any(g, "y"), fact = v_eq(g, x, y);
  given(g, t_and(g, fact.exact, t_in_word(g, fact)));
  side(g, t_eq(g, fact.v, ONE), t_true(g));
  claim_rewrite(g, x, y);
}

// c*s + rest == 0 solved for s, where c is 1 or -1.
static void solved_value(goal_t *g) {
  value_t s = v_any(g, "s"), rest = v_any(g, "rest"), c = v_literal(g, "c");
  side(g, t_or(g, t_eq(g, c.v, ONE), t_eq(g, c.v, t_int(g, -1))), t_not(g, t_eq(g, c.v, ZERO)));
  value_t sum = v_add(g, v_mul(g, c, s), rest);
  given(g, t_and(g, sum.exact, sum.has));
  given(g, t_eq(g, sum.v, ZERO));
  lemma_times(g, c.v, ONE, s.v);
  lemma_times(g, c.v, t_int(g, -1), s.v);
  lemma_times(g, c.v, ONE, rest.v);
  lemma_times(g, c.v, t_int(g, -1), rest.v);
  claim_rewrite(g, s, v_sub(g, v_int(g, 0), v_mul(g, c, rest)));
}

// c*m + rest >= 0 and rest <= hi: m is at least -hi/c rounded up, or at most, by the sign of c.
static void bound_of_term(goal_t *g) {
  value_t c = v_literal(g, "c"), m = v_any(g, "m"), hi = v_any(g, "hi");
  term_t rest = v_any(g, "rest").v, cm = t_mul(g, c.v, m.v);
  given(g, t_le(g, ZERO, t_add(g, cm, rest)));
  side(g, t_le(g, rest, hi.v), t_true(g));
  // Rounded up: -(hi // c), since -hi/c up is -(hi/c down).
  value_t minus = v_sub(g, v_int(g, 0), c);
  division_t up = v_divide(g, hi, c), down = v_divide(g, hi, minus);
  lemma_sign(g, c.v, t_add(g, t_add(g, m.v, up.k), ONE));
  lemma_sign(g, minus.v, t_sub(g, t_sub(g, m.v, down.k), ONE));
  claim(g, t_implies(g, t_lt(g, ZERO, c.v), t_le(g, t_sub(g, ZERO, up.k), m.v)));
  claim(g, t_implies(g, t_lt(g, c.v, ZERO), t_le(g, m.v, down.k)));
}

// lo <= x//c <= hi is c*lo <= x <= c*hi + c - 1.
static void bound_of_quotient(goal_t *g) {
  value_t x = v_any(g, "x"), c = v_literal(g, "c");
  term_t lo = v_literal(g, "lo").v, hi = v_literal(g, "hi").v;
  side(g, t_le(g, ONE, c.v), t_true(g));
  division_t d = v_divide(g, x, c);
  lemma_sign(g, c.v, t_sub(g, d.k, lo));
  lemma_sign(g, c.v, t_sub(g, t_sub(g, lo, d.k), ONE));
  lemma_sign(g, c.v, t_sub(g, hi, d.k));
  lemma_sign(g, c.v, t_sub(g, t_sub(g, d.k, hi), ONE));
  term_t last = t_sub(g, t_add(g, t_mul(g, c.v, hi), c.v), ONE);
  claim(g, t_eq(g, t_le(g, lo, d.k), t_le(g, t_mul(g, c.v, lo), x.v)));
  claim(g, t_eq(g, t_le(g, d.k, hi), t_le(g, x.v, last)));
}

// a*b <= hi with b >= lo >= 1 and a >= 0: a <= hi // lo.
static void bound_of_factor(goal_t *g) {
  term_t a = v_any(g, "a").v, b = v_any(g, "b").v;
  value_t hi = v_literal(g, "hi"), lo = v_literal(g, "lo");
  side(g, t_le(g, ZERO, a), t_true(g));
  given(g, t_and(g, t_le(g, ONE, lo.v), t_le(g, lo.v, b)));
  given(g, t_le(g, t_mul(g, a, b), hi.v));
  division_t d = v_divide(g, hi, lo);
  lemma_sign(g, a, t_sub(g, b, lo.v));
  lemma_sign(g, lo.v, t_sub(g, t_sub(g, a, d.k), ONE));
  claim(g, t_le(g, a, d.k));
}

// x != c at an end of x's bounds.
static void bound_of_unequal(goal_t *g) {
  term_t x = v_any(g, "x").v, lo = v_literal(g, "lo").v, hi = v_literal(g, "hi").v;
  term_t c = v_literal(g, "c").v;
  given(g, t_between(g, lo, x, hi));
  side(g, t_not(g, t_eq(g, x, c)), t_true(g));
  claim(g, t_implies(g, t_eq(g, c, lo), t_le(g, t_add(g, lo, ONE), x)));
  claim(g, t_implies(g, t_eq(g, c, hi), t_le(g, x, t_sub(g, hi, ONE))));
}

// c*s + n == 0 modulo m, with u the inverse of c: s == -n*u modulo m.
static void residue(goal_t *g) {
  term_t c = v_literal(g, "c").v, n = v_literal(g, "n").v, m = v_literal(g, "m").v;
  term_t u = v_literal(g, "u").v, s = v_any(g, "s").v, t = v_any(g, "t").v, w = v_any(g, "w").v;
  term_t uc = t_mul(g, u, c), one = t_add(g, t_mul(g, m, w), ONE);
  given(g, t_eq(g, t_add(g, t_mul(g, c, s), n), t_mul(g, m, t)));
  side(g, t_eq(g, uc, one), t_eq(g, t_mul(g, u, c), t_mul(g, m, w)));
  lemma_times(g, t_add(g, t_mul(g, c, s), n), t_mul(g, m, t), u);
  lemma_times(g, uc, one, s);
  term_t times = t_sub(g, t_mul(g, u, t), t_mul(g, w, s));
  claim(g, t_eq(g, s, t_sub(g, t_mul(g, m, times), t_mul(g, n, u))));
}

// s == r modulo f*p and s == r + f*e modulo f*n, with u the inverse of p modulo n: s is known
// modulo f*p*n, from k with p*k == e modulo n.
static void residues_joined(goal_t *g) {
  term_t f = v_any(g, "f").v, p = v_any(g, "p").v, n = v_any(g, "n").v, e = v_any(g, "e").v;
  term_t a = v_any(g, "a").v, b = v_any(g, "b").v, c = v_any(g, "c").v, k = v_any(g, "k").v;
  term_t u = v_any(g, "u").v, w = v_any(g, "w").v, r = v_any(g, "r").v, s = v_any(g, "s").v;
  term_t pa = t_mul(g, p, a), eb = t_add(g, e, t_mul(g, n, b));
  term_t pk = t_mul(g, p, k), ec = t_add(g, e, t_mul(g, n, c));
  term_t up = t_mul(g, u, p), one = t_add(g, t_mul(g, n, w), ONE);
  given(g, t_eq(g, s, t_add(g, r, t_mul(g, t_mul(g, f, p), a))));
  given(g, t_eq(g, pa, eb));
  given(g, t_eq(g, pk, ec));
  side(g, t_eq(g, up, one), t_true(g));
  lemma_times(g, pa, eb, u);
  lemma_times(g, pk, ec, u);
  lemma_times(g, up, one, a);
  lemma_times(g, up, one, k);
  term_t times = t_sub(g, t_mul(g, u, t_sub(g, b, c)), t_mul(g, w, t_sub(g, a, k)));
  lemma_times(g, t_sub(g, a, k), t_mul(g, n, times), t_mul(g, f, p));
  term_t first = t_add(g, r, t_mul(g, t_mul(g, f, p), k));
  term_t modulus = t_mul(g, t_mul(g, f, p), n);
  claim(g, t_eq(g, s, t_add(g, first, t_mul(g, modulus, times))));
}

// c*max(x, y) + rest >= 0 for c < 0 holds for x and for y; likewise min for c > 0.
static void arguments(goal_t *g) {
  value_t x = v_any(g, "x"), y = v_any(g, "y");
  term_t c = v_literal(g, "c").v, rest = v_any(g, "rest").v, negative = t_lt(g, c, ZERO);
  term_t t = t_if(g, negative, v_max(g, x, y).v, v_min(g, x, y).v);
  given(g, t_le(g, ZERO, t_add(g, t_mul(g, c, t), rest)));
  lemma_sign(g, c, t_sub(g, t, x.v));
  lemma_sign(g, c, t_sub(g, t, y.v));
  claim(g, t_le(g, ZERO, t_add(g, t_mul(g, c, x.v), rest)));
  claim(g, t_le(g, ZERO, t_add(g, t_mul(g, c, y.v), rest)));
}

// c*u == n: u is n//c, and n%c is 0.
static void solved_by_division(goal_t *g) {
  value_t u = v_any(g, "u"), n = v_any(g, "n"), c = v_literal(g, "c");
  side(g, t_le(g, ONE, c.v), t_le(g, ZERO, c.v));
  given(g, t_eq(g, t_mul(g, c.v, u.v), n.v));
  division_t d = v_divide(g, n, c);
  lemma_once(g, &d, u.v, ZERO);
  claim(g, t_and(g, t_eq(g, d.k, u.v), t_eq(g, d.r, ZERO)));
}

// s == r modulo m moves the ends of s's bounds to numbers of that residue.
static void bound_of_residue(goal_t *g) {
  term_t s = v_any(g, "s").v, t = v_any(g, "t").v;
  value_t m = v_literal(g, "m"), r = v_literal(g, "r");
  value_t lo = v_literal(g, "lo"), hi = v_literal(g, "hi");
  given(g, t_le(g, ONE, m.v));
  given(g, t_between(g, lo.v, s, hi.v));
  side(g, t_eq(g, s, t_add(g, t_mul(g, m.v, t), r.v)), t_true(g));
  division_t up = v_divide(g, v_sub(g, r, lo), m), down = v_divide(g, v_sub(g, hi, r), m);
  lemma_sign(g, m.v, t_add(g, t, up.k));
  lemma_sign(g, m.v, t_add(g, t_add(g, t, up.k), ONE));
  lemma_sign(g, m.v, t_sub(g, t, down.k));
  lemma_sign(g, m.v, t_sub(g, t_sub(g, t, down.k), ONE));
  claim(g, t_le(g, t_add(g, lo.v, up.r), s));
  claim(g, t_le(g, s, t_sub(g, hi.v, down.r)));
}

// Ends that are numbers of the residue, and are excluded, move by the modulus.
static void bound_of_excluded(goal_t *g) {
  term_t s = v_any(g, "s").v, lo = v_literal(g, "lo").v, hi = v_literal(g, "hi").v;
  term_t m = v_literal(g, "m").v, t = v_any(g, "t").v, u = v_any(g, "u").v;
  given(g, t_le(g, ONE, m));
  given(g, t_between(g, lo, s, hi));
  given(g, t_and(g, t_eq(g, t_sub(g, s, lo), t_mul(g, m, t)),
                 t_eq(g, t_sub(g, hi, s), t_mul(g, m, u))));
  side(g, t_not(g, t_eq(g, s, lo)), t_true(g));
  side(g, t_not(g, t_eq(g, s, hi)), t_true(g));
  lemma_sign(g, m, t);
  lemma_sign(g, m, u);
  lemma_sign(g, m, t_sub(g, t, ONE));
  lemma_sign(g, m, t_sub(g, u, ONE));
  lemma_times(g, t, ZERO, m);
  lemma_times(g, u, ZERO, m);
  claim(g, t_le(g, t_add(g, lo, m), s));
  claim(g, t_le(g, s, t_sub(g, hi, m)));
}

const proof_t fact_proofs[] = {
    {DT_RULE_FACT_VALUE, "learned", learned_value, WITH_BITS},
    {DT_RULE_FACT_VALUE, "solved for a symbol", solved_value, WITH_BITS},
    {DT_RULE_FACT_VALUE, "solved by an exact division", solved_by_division, INTEGERS_ONLY},
    {DT_RULE_FACT_VALUE, "bound of a residue", bound_of_residue, INTEGERS_ONLY},
    {DT_RULE_FACT_VALUE, "bound that is excluded", bound_of_excluded, INTEGERS_ONLY},
    {DT_RULE_FACT_VALUE, "bound of a term", bound_of_term, INTEGERS_ONLY},
    {DT_RULE_FACT_VALUE, "bound of a quotient", bound_of_quotient, INTEGERS_ONLY},
    {DT_RULE_FACT_VALUE, "bound of a factor", bound_of_factor, INTEGERS_ONLY},
    {DT_RULE_FACT_VALUE, "bound of what is not an end", bound_of_unequal, INTEGERS_ONLY},
    {DT_RULE_FACT_VALUE, "residue", residue, INTEGERS_ONLY},
    {DT_RULE_FACT_VALUE, "residues joined", residues_joined, INTEGERS_ONLY},
    {DT_RULE_FACT_VALUE, "arguments of min and max", arguments, INTEGERS_ONLY},
    {0, 0, 0, 0},
};
