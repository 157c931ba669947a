// SPDX-License-Identifier: Apache-2.0
// Proofs of the lemmas whose instances the other proofs are given. The sign of a product and
// products of equals are proved of true products, the others from those.
#include "test/proofs/rules.h"

static void sign(goal_t *g) {
  term_t a = v_any(g, "a").v, b = v_any(g, "b").v, ab = t_mul(g, a, b);
  term_t a_up = t_le(g, ZERO, a), a_down = t_le(g, a, ZERO);
  term_t b_up = t_le(g, ZERO, b), b_down = t_le(g, b, ZERO);
  claim(g, t_implies(g, t_and(g, a_up, b_up), t_le(g, ZERO, ab)));
  claim(g, t_implies(g, t_and(g, a_down, b_down), t_le(g, ZERO, ab)));
  claim(g, t_implies(g, t_and(g, a_up, b_down), t_le(g, ab, ZERO)));
  claim(g, t_implies(g, t_and(g, a_down, b_up), t_le(g, ab, ZERO)));
}

static void times(goal_t *g) {
  term_t a = v_any(g, "a").v, b = v_any(g, "b").v, c = v_any(g, "c").v;
  given(g, t_eq(g, a, b));
  claim(g, t_eq(g, t_mul(g, c, a), t_mul(g, c, b)));
}

static term_t size(goal_t *g, term_t x) { return t_if(g, t_lt(g, x, ZERO), t_sub(g, ZERO, x), x); }

static void smaller(goal_t *g) {
  term_t x = v_any(g, "x").v, a = v_any(g, "a").v;
  lemma_smaller(g, x, a);
  side(g, t_not(g, t_eq(g, a, ZERO)), t_true(g));
  claim(g, t_le(g, size(g, x), size(g, t_mul(g, a, x))));
}

static void once(goal_t *g) {
  value_t x = v_any(g, "x"), q = v_any(g, "q");
  term_t k = v_any(g, "k").v, r = v_any(g, "r").v;
  term_t zero = t_int(g, 0);
  division_t d = v_divide(g, x, q);
  given(g, t_eq(g, x.v, t_add(g, t_mul(g, q.v, k), r)));
  side(g, t_remainder(g, q.v, r), t_between(g, zero, r, q.v));
  term_t apart = t_sub(g, d.k, k);
  lemma_sign(g, q.v, t_sub(g, apart, ONE));
  lemma_sign(g, q.v, t_add(g, apart, ONE));
  lemma_times(g, d.k, k, q.v);
  claim(g, t_and(g, t_eq(g, d.k, k), t_eq(g, d.r, r)));
}

const proof_t lemma_proofs[] = {
    {LEMMA_OF_PRODUCTS, "the sign of a product", sign, INTEGERS_ONLY},
    {LEMMA_OF_PRODUCTS, "products of equals are equal", times, INTEGERS_ONLY},
    {LEMMA, "a factor is not larger than the product", smaller, INTEGERS_ONLY},
    {LEMMA, "quotient and remainder are the only ones", once, INTEGERS_ONLY},
    {0, 0, 0, 0},
};
