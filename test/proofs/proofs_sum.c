// SPDX-License-Identifier: Apache-2.0
// Proofs of SUM_*, PRODUCT_* and RANGE_VALUE, with the bounds that ranges are made of:
// symshape/simplify_sum.c, range.c.
#include "test/proofs/rules.h"

static void merge(goal_t *g) {
  value_t x = v_any(g, "x"), c = v_literal(g, "c"), d = v_literal(g, "d");
  claim_rewrite(g, v_add(g, v_mul(g, c, x), v_mul(g, d, x)), v_mul(g, v_add(g, c, d), x));
  claim_rewrite(g, v_add(g, x, v_int(g, 0)), x);
}

static void distribute(goal_t *g) {
  value_t x = v_any(g, "x"), a = v_any(g, "a"), b = v_any(g, "b");
  claim_rewrite(g, v_mul(g, x, v_add(g, a, b)), v_add(g, v_mul(g, x, a), v_mul(g, x, b)));
}

static void quotient_and_remainder(goal_t *g) {
  value_t x = v_any(g, "x"), q = v_any(g, "q");
  division_t d = v_divide(g, x, q);
  claim_rewrite(g, v_add(g, v_mul(g, q, d.quotient), d.remainder), x);
}

// The residue is known from a congruence, or because x % q is r.
static void exact_division(goal_t *g) {
  value_t x = v_any(g, "x"), q = v_any(g, "q"), r = v_literal(g, "r"), m = v_any(g, "m");
  given(g, t_eq(g, x.v, t_add(g, t_mul(g, q.v, m.v), r.v)));
  side(g, t_implies(g, t_not(g, t_eq(g, q.v, ZERO)), t_remainder(g, q.v, r.v)), t_le(g, ZERO, r.v));
  division_t d = v_divide(g, x, q);
  lemma_once(g, &d, m.v, r.v);
  lemma_times(g, d.k, m.v, q.v);
  claim_rewrite(g, v_mul(g, q, d.quotient), v_sub(g, x, r));
}

static void range_value(goal_t *g) {
  value_t x = v_any(g, "x"), c = v_literal(g, "c");
  side(g, t_between(g, c.v, x.v, c.v), t_between(g, c.v, x.v, t_add(g, c.v, ONE)));
  claim_rewrite(g, x, c);
}

// ---- Bounds ------------------------------------------------------------------------------------
typedef struct bounds_t {
  term_t lo, hi;
} bounds_t;

// x with bounds; an end that is infinite is one that stays a free number.
static term_t bounded_any(goal_t *g, const char *name, bounds_t *b) {
  term_t x = v_any(g, name).v;
  *b = (bounds_t){v_any(g, "lo").v, v_any(g, "hi").v};
  given(g, t_between(g, b->lo, x, b->hi));
  return x;
}

static void sum_bounds(goal_t *g) {
  bounds_t a, b;
  term_t x = bounded_any(g, "x", &a), y = bounded_any(g, "y", &b);
  claim(g, t_between(g, t_add(g, a.lo, b.lo), t_add(g, x, y), t_add(g, a.hi, b.hi)));
}

static term_t least(goal_t *g, term_t a, term_t b) { return t_if(g, t_lt(g, b, a), b, a); }
static term_t most(goal_t *g, term_t a, term_t b) { return t_if(g, t_lt(g, a, b), b, a); }

static void product_bounds(goal_t *g) {
  bounds_t a, b;
  term_t x = bounded_any(g, "x", &a), y = bounded_any(g, "y", &b);
  term_t v[4] = {t_mul(g, a.lo, b.lo), t_mul(g, a.lo, b.hi), t_mul(g, a.hi, b.lo),
                 t_mul(g, a.hi, b.hi)};
  lemma_sign(g, t_sub(g, x, a.lo), y);
  lemma_sign(g, t_sub(g, a.hi, x), y);
  lemma_sign(g, t_sub(g, y, b.lo), a.lo);
  lemma_sign(g, t_sub(g, b.hi, y), a.lo);
  lemma_sign(g, t_sub(g, y, b.lo), a.hi);
  lemma_sign(g, t_sub(g, b.hi, y), a.hi);
  term_t lo = least(g, least(g, v[0], v[1]), least(g, v[2], v[3]));
  term_t hi = most(g, most(g, v[0], v[1]), most(g, v[2], v[3]));
  claim(g, t_between(g, lo, t_mul(g, x, y), hi));
}

// x in [a, b], 1 <= q in [m, n]: each end's quotient by the divisor that makes it furthest out.
static void quotient_bounds(goal_t *g) {
  bounds_t a, b;
  value_t x = {t_true(g), t_true(g), bounded_any(g, "x", &a)};
  value_t q = {t_true(g), t_true(g), bounded_any(g, "q", &b)};
  value_t lo = {t_true(g), t_true(g), a.lo}, hi = {t_true(g), t_true(g), a.hi};
  value_t m = {t_true(g), t_true(g), t_if(g, t_lt(g, a.lo, ZERO), b.lo, b.hi)};
  value_t n = {t_true(g), t_true(g), t_if(g, t_lt(g, a.hi, ZERO), b.hi, b.lo)};
  side(g, t_le(g, ONE, b.lo), t_le(g, ZERO, b.lo));
  term_t by_m = t_fresh(g, "m"), by_n = t_fresh(g, "n");
  given(g, t_eq(g, by_m, m.v));
  given(g, t_eq(g, by_n, n.v));
  m.v = by_m;
  n.v = by_n;
  division_t d = v_divide(g, x, q), down = v_divide(g, lo, m), up = v_divide(g, hi, n);
  // Were d.k below down.k, then q*(d.k + 1) <= q*down.k <= m*down.k <= a <= x < q*(d.k + 1).
  lemma_sign(g, q.v, t_sub(g, t_sub(g, down.k, d.k), ONE));
  lemma_sign(g, t_sub(g, q.v, by_m), down.k);
  lemma_sign(g, by_m, down.k);
  lemma_sign(g, by_m, t_add(g, down.k, ONE));
  lemma_sign(g, q.v, t_sub(g, t_sub(g, d.k, up.k), ONE));
  lemma_sign(g, t_sub(g, q.v, by_n), t_add(g, up.k, ONE));
  lemma_sign(g, by_n, up.k);
  lemma_sign(g, by_n, t_add(g, up.k, ONE));
  claim(g, t_between(g, down.k, d.k, up.k));
}

// A divisor as large as one likes: -1 or 0 is next.
static void quotient_by_any(goal_t *g) {
  value_t x = v_any(g, "x"), q = v_any(g, "q");
  side(g, t_le(g, ONE, q.v), t_true(g));
  division_t d = v_divide(g, x, q);
  lemma_size(g, &d);
  lemma_sign(g, d.q, d.k);
  lemma_sign(g, d.q, t_add(g, d.k, ONE));
  claim(g, t_implies(g, t_le(g, ZERO, x.v), t_between(g, ZERO, d.k, x.v)));
  claim(g, t_implies(g, t_lt(g, x.v, ZERO), t_between(g, x.v, d.k, t_int(g, -1))));
}

// Divisors of both signs: not larger than the dividend; and both signs turned give the same.
static void quotient_by_either(goal_t *g) {
  value_t x = v_any(g, "x"), q = v_any(g, "q"), zero = v_int(g, 0);
  division_t d = v_divide(g, x, q), e = v_divide(g, v_sub(g, zero, x), v_sub(g, zero, q));
  lemma_size(g, &d);
  lemma_once(g, &e, d.k, t_sub(g, ZERO, d.r));
  term_t minus = t_sub(g, ZERO, x.v), some = t_not(g, t_eq(g, q.v, ZERO));
  term_t size = most(g, x.v, minus);
  claim(g, t_implies(g, some, t_between(g, t_sub(g, ZERO, size), d.k, size)));
  claim(g, t_implies(g, some, t_eq(g, d.k, e.k)));
}

static void remainder_bounds(goal_t *g) {
  bounds_t b;
  value_t x = v_any(g, "x"), q = {t_true(g), t_true(g), bounded_any(g, "q", &b)};
  division_t d = v_divide(g, x, q);
  lemma_once(g, &d, ZERO, x.v);
  lemma_sign(g, d.q, d.k);
  lemma_sign(g, d.q, t_add(g, d.k, ONE));
  given(g, t_not(g, t_eq(g, q.v, ZERO)));
  term_t positive = t_le(g, ZERO, x.v);
  claim(g, t_implies(g, t_le(g, ZERO, b.lo), t_between(g, ZERO, d.r, t_sub(g, b.hi, ONE))));
  claim(g, t_implies(g, t_and(g, positive, t_le(g, ZERO, b.lo)), t_le(g, d.r, x.v)));
  claim(g, t_implies(g, t_and(g, positive, t_lt(g, x.v, b.lo)), t_eq(g, d.r, x.v)));
  claim(g, t_implies(g, t_le(g, b.hi, ZERO), t_between(g, t_add(g, b.lo, ONE), d.r, ZERO)));
  claim(g, t_implies(g, t_and(g, t_lt(g, b.lo, ZERO), t_lt(g, ZERO, b.hi)),
                     t_between(g, t_add(g, b.lo, ONE), d.r, t_sub(g, b.hi, ONE))));
}

static void choice_bounds(goal_t *g) {
  bounds_t a, b;
  value_t x = {t_true(g), t_true(g), bounded_any(g, "x", &a)};
  value_t y = {t_true(g), t_true(g), bounded_any(g, "y", &b)}, c = v_any(g, "c");
  term_t lo = least(g, a.lo, b.lo), hi = most(g, a.hi, b.hi);
  claim(g, t_between(g, lo, v_min(g, x, y).v, least(g, a.hi, b.hi)));
  claim(g, t_between(g, most(g, a.lo, b.lo), v_max(g, x, y).v, hi));
  claim(g, t_between(g, lo, v_select(g, c, x, y).v, hi));
}

// Of a symbol: 0 <= i <= extent - 1 where the loop runs.
static void loop_bounds(goal_t *g) {
  bounds_t e;
  term_t extent = bounded_any(g, "extent", &e), i = v_any(g, "i").v;
  given(g, t_between(g, ZERO, i, t_sub(g, extent, ONE)));
  claim(g, t_between(g, ZERO, i, most(g, ZERO, t_sub(g, e.hi, ONE))));
  claim(g, t_le(g, ONE, extent));
}

// x*x for lo <= x <= hi: not negative, at most the larger square of the ends, and at least the
// smaller one when both ends have one sign.
static void square_bounds(goal_t *g) {
  term_t x = v_any(g, "x").v, lo = v_any(g, "lo").v, hi = v_any(g, "hi").v;
  side(g, t_between(g, lo, x, hi), t_le(g, lo, x));
  term_t xx = t_mul(g, x, x), ll = t_mul(g, lo, lo), hh = t_mul(g, hi, hi);
  lemma_sign(g, x, x);
  lemma_sign(g, lo, t_sub(g, x, lo));
  lemma_sign(g, x, t_sub(g, x, lo));
  lemma_sign(g, hi, t_sub(g, hi, x));
  lemma_sign(g, x, t_sub(g, hi, x));
  claim(g, t_le(g, ZERO, xx));
  claim(g, t_or(g, t_le(g, xx, ll), t_le(g, xx, hh)));
  claim(g, t_implies(g, t_le(g, ZERO, lo), t_le(g, ll, xx)));
  claim(g, t_implies(g, t_le(g, hi, ZERO), t_le(g, hh, xx)));
}

// From p <= x^n <= q with 0 <= p and 0 <= lo <= x <= hi: x^(n+1) is in [lo*p, hi*q]. Odd powers of
// what is negative are those of its opposite, turned.
static void power_bounds(goal_t *g) {
  term_t x = v_any(g, "x").v, lo = v_any(g, "lo").v, hi = v_any(g, "hi").v;
  term_t y = v_any(g, "y").v, p = v_any(g, "p").v, q = v_any(g, "q").v;
  given(g, t_between(g, lo, x, hi));
  given(g, t_between(g, p, y, q));
  side(g, t_le(g, ZERO, lo), t_true(g));
  side(g, t_le(g, ZERO, p), t_true(g));
  lemma_sign(g, t_sub(g, x, lo), y);
  lemma_sign(g, lo, t_sub(g, y, p));
  lemma_sign(g, t_sub(g, hi, x), q);
  lemma_sign(g, x, t_sub(g, q, y));
  claim(g, t_between(g, t_mul(g, lo, p), t_mul(g, x, y), t_mul(g, hi, q)));
}

// max(x, y) >= c/2 and min(x, y) <= c/2 for x + y == c, rounded up and down.
static void half_sum(goal_t *g) {
  value_t x = v_any(g, "x"), y = v_any(g, "y"), c = v_literal(g, "c");
  side(g, t_eq(g, t_add(g, x.v, y.v), c.v), t_le(g, t_add(g, x.v, y.v), c.v));
  division_t half = v_divide(g, c, v_int(g, 2));
  term_t up = t_add(g, half.k, half.r);
  claim(g, t_le(g, up, v_max(g, x, y).v));
  claim(g, t_le(g, v_min(g, x, y).v, half.k));
}

const proof_t sum_proofs[] = {
    {DT_RULE_SUM_MERGE, "", merge, WITH_BITS},
    {DT_RULE_PRODUCT_DISTRIBUTE, "", distribute, WITH_BITS},
    {DT_RULE_SUM_DIVMOD, "", quotient_and_remainder, WITH_BITS},
    {DT_RULE_SUM_EXACT_DIV, "", exact_division, INTEGERS_ONLY},
    {DT_RULE_RANGE_VALUE, "", range_value, WITH_BITS},
    {DT_RULE_RANGE_VALUE, "bounds of a sum", sum_bounds, INTEGERS_ONLY},
    {DT_RULE_RANGE_VALUE, "bounds of a product", product_bounds, INTEGERS_ONLY},
    {DT_RULE_RANGE_VALUE, "bounds of a quotient", quotient_bounds, INTEGERS_ONLY},
    {DT_RULE_RANGE_VALUE, "by a divisor without bound", quotient_by_any, INTEGERS_ONLY},
    {DT_RULE_RANGE_VALUE, "by a divisor of either sign", quotient_by_either, INTEGERS_ONLY},
    {DT_RULE_RANGE_VALUE, "bounds of a remainder", remainder_bounds, INTEGERS_ONLY},
    {DT_RULE_RANGE_VALUE, "bounds of min, max, select", choice_bounds, INTEGERS_ONLY},
    {DT_RULE_RANGE_VALUE, "bounds of a square", square_bounds, INTEGERS_ONLY},
    {DT_RULE_RANGE_VALUE, "bounds of a power from the one before", power_bounds, INTEGERS_ONLY},
    {DT_RULE_RANGE_VALUE, "half of a sum", half_sum, INTEGERS_ONLY},
    {DT_RULE_RANGE_VALUE, "bounds of a loop symbol", loop_bounds, WITH_BITS},
    {0, 0, 0, 0},
};
