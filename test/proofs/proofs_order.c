// SPDX-License-Identifier: Apache-2.0
// Proofs of ORDER_* and EQUAL_*, with the steps of the proofs that a sum is >= 0:
// symshape/simplify_logic.c, prove.c.
#include "test/proofs/rules.h"

// C compares 64-bit numbers as integers; in bit-vectors: as their sign extensions.
static void literals(goal_t *g) {
  value_t c = v_literal(g, "c"), d = v_literal(g, "d");
  term_t less = t_lt(g, t_sub(g, c.v, d.v), ZERO);
  claim(g, t_eq(g, less, t_eq(g, v_lt(g, c, d).v, ONE)));
  claim(g, t_eq(g, t_not(g, t_lt(g, t_sub(g, d.v, c.v), ZERO)), t_eq(g, v_le(g, c, d).v, ONE)));
}

static void proved_true(goal_t *g) {
  value_t a = v_any(g, "a"), b = v_any(g, "b");
  side(g, t_le(g, ZERO, t_sub(g, b.v, a.v)), t_le(g, t_int(g, -1), t_sub(g, b.v, a.v)));
  claim_rewrite(g, v_le(g, a, b), v_int(g, 1));
  claim_rewrite(g, v_lt(g, b, a), v_int(g, 0));
}

static void proved_false(goal_t *g) {
  value_t a = v_any(g, "a"), b = v_any(g, "b");
  side(g, t_le(g, ONE, t_sub(g, a.v, b.v)), t_le(g, ZERO, t_sub(g, a.v, b.v)));
  claim_rewrite(g, v_le(g, a, b), v_int(g, 0));
  claim_rewrite(g, v_lt(g, b, a), v_int(g, 1));
}

// The new sides n and p: sums of the same parts.
static value_t side_of(goal_t *g, const char *name, value_t a, value_t b) {
  value_t s = v_add(g, a, b);
  s.v = v_any(g, name).v;
  return s;
}

// f = b - a, less one for <, is turned into n <= p with p - n == f, or n < p with p - n == f + 1.
static void order_sides(goal_t *g) {
  value_t a = v_any(g, "a"), b = v_any(g, "b");
  value_t n = side_of(g, "n", a, b), p = side_of(g, "p", a, b);
  term_t f = t_sub(g, b.v, a.v), sides = t_sub(g, p.v, n.v);
  side_fits(g, n);
  side_fits(g, p);
  value_t le = v_le(g, a, b), lt = v_lt(g, a, b), new_le = v_le(g, n, p), new_lt = v_lt(g, n, p);
  term_t is[4] = {t_eq(g, sides, f), t_eq(g, sides, t_add(g, f, ONE)),
                  t_eq(g, sides, t_sub(g, f, ONE)), t_eq(g, sides, f)};
  value_t left[4] = {le, le, lt, lt}, right[4] = {new_le, new_lt, new_le, new_lt};
  for (int k = 0; k < 4; k++) {
    left[k].exact = t_and(g, left[k].exact, is[k]);
    left[k].has = t_and(g, left[k].has, is[k]);
    claim_rewrite(g, left[k], right[k]);
  }
}

// Sums of terms >= 0: the new sides are at most the old ones. One term of each kind: u on both
// sides, v on the right only, w on the left only; then literals.
typedef struct plain_t {
  value_t a, b;           // the old sides
  term_t u, v, w, cu, du; // a = cu*u + w + ca, b = du*u + v + cb
  term_t ca, cb;
} plain_t;

static plain_t plain_sides(goal_t *g) {
  plain_t s;
  value_t u = v_any(g, "u"), v = v_any(g, "v"), w = v_any(g, "w");
  value_t cu = v_literal(g, "cu"), du = v_literal(g, "du");
  value_t ca = v_literal(g, "ca"), cb = v_literal(g, "cb");
  value_t *all[7] = {&u, &v, &w, &cu, &du, &ca, &cb};
  for (int k = 0; k < 7; k++)
    given(g, t_le(g, ZERO, all[k]->v));
  s.a = v_add(g, v_add(g, v_mul(g, cu, u), w), ca);
  s.b = v_add(g, v_add(g, v_mul(g, du, u), v), cb);
  s.u = u.v;
  s.v = v.v;
  s.w = w.v;
  s.cu = cu.v;
  s.du = du.v;
  s.ca = ca.v;
  s.cb = cb.v;
  lemma_sign(g, t_sub(g, du.v, cu.v), u.v);
  lemma_sign(g, cu.v, u.v);
  lemma_sign(g, du.v, u.v);
  return s;
}

// The parts of f = b - a that go to p (positive ones) and, turned, to n.
static void plain_parts(goal_t *g, const plain_t *s, term_t *p, term_t *n) {
  term_t right = t_lt(g, s->cu, s->du), rest = t_mul(g, t_sub(g, s->du, s->cu), s->u);
  *p = t_add(g, s->v, t_if(g, right, rest, ZERO));
  *n = t_add(g, s->w, t_if(g, right, ZERO, t_sub(g, ZERO, rest)));
}

static void order_plain(goal_t *g) {
  plain_t s = plain_sides(g);
  term_t p, n, c = t_fresh(g, "c"), end = t_sub(g, ZERO, t_word_end(g));
  plain_parts(g, &s, &p, &n);
  term_t less = t_flag(g, "less"); // for a < b
  given(g, t_eq(g, c, t_sub(g, t_sub(g, s.cb, s.ca), t_if(g, less, ONE, ZERO))));
  side(g, t_lt(g, end, c), t_true(g));
  term_t words = t_and(g, t_fits(g, s.a.v), t_fits(g, s.b.v));
  term_t right = t_le(g, ZERO, c), minus = t_sub(g, ZERO, c);
  // n <= p + c; or n + (-c - 1) < p; or, when n has no terms and c < -1, -c <= p.
  claim(g, t_implies(g, t_and(g, words, right), t_and(g, t_fits(g, n), t_fits(g, t_add(g, p, c)))));
  claim(g, t_implies(g, t_and(g, words, t_not(g, right)),
                     t_and(g, t_fits(g, t_sub(g, t_add(g, n, minus), ONE)), t_fits(g, p))));
  claim(g, t_implies(g, t_not(g, right), t_fits(g, minus)));
}

static void equal_plain(goal_t *g) {
  plain_t s = plain_sides(g);
  term_t p, n, c = t_sub(g, s.cb, s.ca), minus = t_sub(g, ZERO, c);
  plain_parts(g, &s, &p, &n);
  term_t words = t_and(g, t_fits(g, s.a.v), t_fits(g, s.b.v)), right = t_lt(g, ZERO, c);
  claim(g, t_implies(g, t_and(g, words, right), t_and(g, t_fits(g, n), t_fits(g, t_add(g, p, c)))));
  claim(g, t_implies(g, t_and(g, words, t_not(g, right)),
                     t_and(g, t_fits(g, t_add(g, n, minus)), t_fits(g, p))));
  claim(g, t_implies(g, words, t_and(g, t_fits(g, p), t_fits(g, n))));
  claim(g, t_fits(g, minus));
}

// f = g*x + c >= 0 is x + c//g >= 0.
static void order_gcd(goal_t *g) {
  value_t f = v_literal(g, "g"), x = v_any(g, "x"), c = v_literal(g, "c");
  given(g, t_le(g, ONE, f.v));
  division_t d = v_divide(g, c, f);
  lemma_sign(g, f.v, t_add(g, x.v, d.k));
  lemma_sign(g, f.v, t_add(g, t_add(g, x.v, d.k), ONE));
  term_t sum = t_add(g, t_mul(g, f.v, x.v), c.v);
  claim(g, t_eq(g, t_le(g, ZERO, sum), t_le(g, ZERO, t_add(g, x.v, d.k))));
}

// f = c*a - 1 >= 0 for c >= 1, and f = c*a >= 0 for c < 0.
static void order_bool(goal_t *g) {
  value_t a = v_any(g, "a"), c = v_literal(g, "c");
  side(g, t_between(g, ZERO, a.v, ONE), t_between(g, t_int(g, -1), a.v, ONE));
  term_t ca = t_mul(g, c.v, a.v);
  lemma_times(g, a.v, ZERO, c.v);
  lemma_times(g, a.v, ONE, c.v);
  claim(g, t_implies(g, t_le(g, ONE, c.v), t_eq(g, t_le(g, ONE, ca), t_eq(g, a.v, ONE))));
  claim(g, t_implies(g, t_lt(g, c.v, ZERO), t_eq(g, t_le(g, ZERO, ca), t_eq(g, a.v, ZERO))));
  claim_rewrite(g, v_le(g, v_int(g, 1), a), a);
  claim_rewrite(g, v_le(g, a, v_int(g, 0)), v_not(g, a));
}

static void equal_same(goal_t *g) {
  value_t x = v_any(g, "x"), c = v_literal(g, "c");
  claim_rewrite(g, v_eq(g, x, x), v_int(g, 1));
  given(g, t_not(g, t_eq(g, c.v, ZERO)));
  claim_rewrite(g, v_eq(g, v_add(g, x, c), x), v_int(g, 0));
}

static void equal_proved(goal_t *g) {
  value_t a = v_any(g, "a"), b = v_any(g, "b");
  term_t ab = t_sub(g, a.v, b.v), ba = t_sub(g, b.v, a.v);
  side(g, t_or(g, t_le(g, ONE, ab), t_le(g, ONE, ba)),
       t_or(g, t_le(g, ZERO, ab), t_le(g, ONE, ba)));
  claim_rewrite(g, v_eq(g, a, b), v_int(g, 0));
}

// a - b == m*t + r with 0 < r < m.
static void equal_congruence(goal_t *g) {
  value_t a = v_any(g, "a"), b = v_any(g, "b"), t = v_any(g, "t");
  value_t m = v_literal(g, "m"), r = v_literal(g, "r");
  term_t mt = t_mul(g, m.v, t.v);
  given(g, t_eq(g, t_sub(g, a.v, b.v), t_add(g, mt, r.v)));
  side(g, t_lt(g, ZERO, r.v), t_le(g, ZERO, r.v));
  side(g, t_lt(g, r.v, m.v), t_le(g, r.v, m.v));
  lemma_sign(g, m.v, t.v);
  lemma_sign(g, m.v, t_add(g, t.v, ONE));
  claim_rewrite(g, v_eq(g, a, b), v_int(g, 0));
}

// i*(p - n) == j*(a - b): divided by a common factor, or turned.
static void equal_sides(goal_t *g) {
  value_t a = v_any(g, "a"), b = v_any(g, "b"), i = v_literal(g, "i"), j = v_literal(g, "j");
  value_t n = side_of(g, "n", a, b), p = side_of(g, "p", a, b);
  term_t f = t_sub(g, a.v, b.v), s = t_sub(g, p.v, n.v);
  given(g, t_not(g, t_eq(g, i.v, ZERO)));
  side(g, t_not(g, t_eq(g, j.v, ZERO)), t_true(g));
  side_fits(g, n);
  side_fits(g, p);
  given(g, t_eq(g, t_mul(g, i.v, s), t_mul(g, j.v, f)));
  lemma_times(g, f, ZERO, j.v);
  lemma_times(g, s, ZERO, i.v);
  lemma_smaller(g, s, i.v);
  lemma_smaller(g, f, j.v);
  claim_rewrite(g, v_eq(g, a, b), v_eq(g, n, p));
}

// k*(a - b) == c.
static void equal_scaled(goal_t *g) {
  value_t a = v_any(g, "a"), b = v_any(g, "b"), k = v_literal(g, "k"), c = v_literal(g, "c");
  term_t f = t_sub(g, a.v, b.v);
  side(g, t_not(g, t_eq(g, k.v, ZERO)), t_true(g));
  given(g, t_eq(g, t_mul(g, k.v, f), c.v));
  lemma_times(g, f, ZERO, k.v);
  lemma_smaller(g, f, k.v);
  value_t answer = v_int(g, 0);
  answer.v = t_if(g, t_eq(g, c.v, ZERO), ONE, ZERO);
  claim_rewrite(g, v_eq(g, a, b), answer);
}

static void equal_bool(goal_t *g) {
  value_t a = v_any(g, "a");
  side(g, t_between(g, ZERO, a.v, ONE), t_le(g, ZERO, a.v));
  claim_rewrite(g, v_eq(g, a, v_int(g, 0)), v_not(g, a));
  claim_rewrite(g, v_eq(g, a, v_int(g, 1)), a);
}

// ---- Steps of proofs: c*t + rest >= 0 from the same with a bound for t -----------------------------
static term_t not_below(goal_t *g, term_t c, term_t t, term_t bound) {
  return t_le(g, t_mul(g, c, bound), t_mul(g, c, t));
}

// 0 <= t <= e - 1: a loop symbol, or a remainder by e >= 1.
static void step_loop(goal_t *g) {
  term_t c = v_any(g, "c").v, t = v_any(g, "t").v, e = v_any(g, "e").v;
  term_t last = t_sub(g, e, ONE);
  side(g, t_between(g, ZERO, t, last), t_between(g, ZERO, t, e));
  lemma_sign(g, c, t);
  lemma_sign(g, c, t_sub(g, last, t));
  claim(g, t_implies(g, t_le(g, ZERO, c), not_below(g, c, t, ZERO)));
  claim(g, t_implies(g, t_le(g, c, ZERO), not_below(g, c, t, last)));
}

// x % q <= x for x >= 0.
static void step_remainder(goal_t *g) {
  value_t x = v_any(g, "x"), q = v_any(g, "q");
  term_t c = v_any(g, "c").v;
  given(g, t_and(g, t_le(g, ONE, q.v), t_le(g, c, ZERO)));
  side(g, t_le(g, ZERO, x.v), t_true(g));
  division_t d = v_divide(g, x, q);
  lemma_once(g, &d, ZERO, x.v);
  lemma_sign(g, d.q, t_add(g, d.k, ONE));
  lemma_sign(g, d.q, d.k);
  lemma_sign(g, c, t_sub(g, x.v, d.r));
  claim(g, not_below(g, c, d.r, x.v));
}

// q*(x//q) is in [x - q + 1, x].
static void step_quotient(goal_t *g) {
  value_t x = v_any(g, "x"), q = v_any(g, "q");
  term_t ratio = v_any(g, "ratio").v, a = t_mul(g, q.v, ratio);
  side(g, t_le(g, ONE, q.v), t_true(g));
  division_t d = v_divide(g, x, q);
  term_t low = t_add(g, t_sub(g, x.v, q.v), ONE), qk = t_mul(g, q.v, d.k);
  lemma_smaller(g, ratio, q.v);
  lemma_sign(g, ratio, t_sub(g, x.v, qk));
  lemma_sign(g, ratio, t_sub(g, qk, low));
  lemma_times(g, x.v, t_add(g, qk, d.r), ratio);
  term_t aq = t_mul(g, a, d.k);
  claim(g, t_implies(g, t_le(g, a, ZERO), t_le(g, t_mul(g, ratio, x.v), aq)));
  claim(g, t_implies(g, t_le(g, ZERO, a), t_le(g, t_mul(g, ratio, low), aq)));
}

// d = a*(x//q) + rest: q*d + q - 1 >= 0 with an end of [x - q + 1, x] for q*(x//q) gives d >= 0.
static void step_quotient_scaled(goal_t *g) {
  value_t x = v_any(g, "x"), q = v_any(g, "q");
  term_t a = v_any(g, "a").v, rest = v_any(g, "rest").v;
  side(g, t_le(g, ONE, q.v), t_true(g));
  division_t d = v_divide(g, x, q);
  term_t qk = t_mul(g, q.v, d.k), low = t_add(g, t_sub(g, x.v, q.v), ONE);
  term_t sum = t_add(g, t_mul(g, a, d.k), rest);
  term_t more = t_sub(g, t_add(g, t_mul(g, q.v, rest), q.v), ONE);
  lemma_sign(g, a, t_sub(g, x.v, qk));
  lemma_sign(g, a, t_sub(g, qk, low));
  lemma_sign(g, q.v, t_add(g, sum, ONE));
  term_t with_x = t_le(g, ZERO, t_add(g, t_mul(g, a, x.v), more));
  term_t with_low = t_le(g, ZERO, t_add(g, t_mul(g, a, low), more));
  claim(g, t_implies(g, t_and(g, t_le(g, a, ZERO), with_x), t_le(g, ZERO, sum)));
  claim(g, t_implies(g, t_and(g, t_le(g, ZERO, a), with_low), t_le(g, ZERO, sum)));
}

// x <= y gives x//q <= y//q for q >= 1.
static void step_quotient_by_loops(goal_t *g) {
  value_t x = v_any(g, "x"), y = v_any(g, "y"), q = v_any(g, "q");
  side(g, t_le(g, ONE, q.v), t_not(g, t_eq(g, q.v, ZERO)));
  given(g, t_le(g, x.v, y.v));
  division_t a = v_divide(g, x, q), b = v_divide(g, y, q);
  lemma_sign(g, q.v, t_sub(g, t_sub(g, a.k, b.k), ONE));
  claim(g, t_le(g, a.k, b.k));
}

// min(x, y) is one of its arguments, and not above either.
static void step_choice(goal_t *g) {
  value_t x = v_any(g, "x"), y = v_any(g, "y"), s = v_any(g, "s");
  term_t c = v_any(g, "c").v, rest = v_any(g, "rest").v;
  term_t all[4] = {v_min(g, x, y).v, v_max(g, x, y).v, v_select(g, s, x, y).v, NULL};
  term_t with_x = t_le(g, ZERO, t_add(g, t_mul(g, c, x.v), rest));
  term_t with_y = t_le(g, ZERO, t_add(g, t_mul(g, c, y.v), rest));
  for (int k = 0; all[k]; k++) {
    lemma_times(g, all[k], x.v, c);
    lemma_times(g, all[k], y.v, c);
    term_t with = t_le(g, ZERO, t_add(g, t_mul(g, c, all[k]), rest));
    claim(g, t_implies(g, t_and(g, with_x, with_y), with));
    if (k == 2)
      continue;
    lemma_sign(g, c, t_sub(g, all[k], x.v));
    lemma_sign(g, c, t_sub(g, all[k], y.v));
    term_t one_does = k == 0 ? t_le(g, c, ZERO) : t_le(g, ZERO, c);
    claim(g, t_implies(g, t_and(g, one_does, t_or(g, with_x, with_y)), with));
  }
}

// d - s*f >= 0 with a fact f >= 0, s >= 1.
static void step_fact(goal_t *g) {
  term_t d = v_any(g, "d").v, f = v_any(g, "f").v, s = v_literal(g, "s").v;
  given(g, t_le(g, ZERO, f));
  side(g, t_le(g, ONE, s), t_true(g));
  given(g, t_le(g, ZERO, t_sub(g, d, t_mul(g, s, f))));
  lemma_sign(g, s, f);
  claim(g, t_le(g, ZERO, d));
}

// A product of factors >= 0 that is >= 1 has factors >= 1.
static void step_positive(goal_t *g) {
  term_t a = v_any(g, "a").v, b = v_any(g, "b").v;
  side(g, t_and(g, t_le(g, ZERO, a), t_le(g, ZERO, b)), t_true(g));
  given(g, t_le(g, ONE, t_mul(g, a, b)));
  lemma_sign(g, a, b);
  claim(g, t_and(g, t_le(g, ONE, a), t_le(g, ONE, b)));
}

const proof_t order_proofs[] = {
    {DT_RULE_ORDER_LITERALS, "", literals, WITH_BITS},
    {DT_RULE_ORDER_PROVED, "true", proved_true, WITH_BITS},
    {DT_RULE_ORDER_PROVED, "false", proved_false, WITH_BITS},
    {DT_RULE_ORDER_PROVED, "step: loop symbols and remainders", step_loop, INTEGERS_ONLY},
    {DT_RULE_ORDER_PROVED, "step: x % q <= x", step_remainder, INTEGERS_ONLY},
    {DT_RULE_ORDER_PROVED, "step: quotients", step_quotient, INTEGERS_ONLY},
    {DT_RULE_ORDER_PROVED, "step: the sum times a divisor", step_quotient_scaled, INTEGERS_ONLY},
    {DT_RULE_ORDER_PROVED, "step: quotients of loop symbols", step_quotient_by_loops,
     INTEGERS_ONLY},
    {DT_RULE_ORDER_PROVED, "step: min, max, select", step_choice, INTEGERS_ONLY},
    {DT_RULE_ORDER_PROVED, "step: facts", step_fact, INTEGERS_ONLY},
    {DT_RULE_ORDER_PROVED, "step: factors of what is >= 1", step_positive, WITH_BITS},
    {DT_RULE_ORDER_SIDES, "both sides fit", order_sides, INTEGERS_ONLY},
    {DT_RULE_ORDER_SIDES, "sums of terms >= 0", order_plain, INTEGERS_ONLY},
    {DT_RULE_ORDER_GCD, "", order_gcd, INTEGERS_ONLY},
    {DT_RULE_ORDER_BOOL, "", order_bool, WITH_BITS},
    {DT_RULE_EQUAL_SAME, "", equal_same, WITH_BITS},
    {DT_RULE_EQUAL_PROVED, "", equal_proved, WITH_BITS},
    {DT_RULE_EQUAL_CONGRUENCE, "", equal_congruence, WITH_BITS},
    {DT_RULE_EQUAL_SIDES, "both sides fit", equal_sides, INTEGERS_ONLY},
    {DT_RULE_EQUAL_SIDES, "sums of terms >= 0", equal_plain, INTEGERS_ONLY},
    {DT_RULE_EQUAL_SCALED, "", equal_scaled, INTEGERS_ONLY},
    {DT_RULE_EQUAL_BOOL, "", equal_bool, WITH_BITS},
    {0, 0, 0, 0},
};
