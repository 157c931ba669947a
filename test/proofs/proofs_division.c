// SPDX-License-Identifier: Apache-2.0
// Proofs of DIV_* and MOD_*: symshape/simplify_div.c.
#include "test/proofs/rules.h"

// q*a
static value_t times(goal_t *g, value_t q, value_t a) { return v_mul(g, q, a); }

// q*k + r
static value_t whole_and_rest(goal_t *g, value_t q, value_t k, value_t r) {
  return v_add(g, v_mul(g, q, k), r);
}

// 0 <= r < q, proved for divisors that are not 0; weaker: r may be q.
static void rest_below(goal_t *g, value_t r, value_t q) {
  term_t lower = t_le(g, ZERO, r.v), some = t_not(g, t_eq(g, q.v, ZERO));
  side(g, t_implies(g, some, t_and(g, lower, t_lt(g, r.v, q.v))),
       t_implies(g, some, t_and(g, lower, t_le(g, r.v, q.v))));
}

// q >= 0; weaker: any sign.
static void not_negative(goal_t *g, value_t q) { side(g, t_le(g, ZERO, q.v), t_true(g)); }

static void by_one(goal_t *g) {
  value_t x = v_any(g, "x");
  division_t d = v_divide(g, x, v_int(g, 1));
  lemma_once(g, &d, x.v, ZERO);
  claim_rewrite(g, d.quotient, x);
  claim_rewrite(g, d.remainder, v_int(g, 0));
}

static void of_zero(goal_t *g) {
  division_t d = v_divide(g, v_int(g, 0), v_any(g, "x"));
  lemma_once(g, &d, ZERO, ZERO);
  claim_rewrite(g, d.quotient, v_int(g, 0));
  claim_rewrite(g, d.remainder, v_int(g, 0));
}

// C's quotient t and remainder s, rounded to 0, corrected as dt__floordiv_i64 and dt__mod_i64 do.
static void of_literals(goal_t *g) {
  value_t a = v_literal(g, "a"), b = v_literal(g, "b");
  division_t d = v_divide(g, a, b);
  term_t t = t_fresh(g, "t"), s = t_fresh(g, "s"), some = t_not(g, t_eq(g, b.v, ZERO));
  term_t a_negative = t_lt(g, a.v, ZERO), b_negative = t_lt(g, b.v, ZERO);
  term_t s_negative = t_lt(g, s, ZERO), rest = t_not(g, t_eq(g, s, ZERO));
  term_t size_b = t_if(g, b_negative, t_sub(g, ZERO, b.v), b.v);
  given(g, t_fits(g, t));
  given(g, t_implies(g, some, t_eq(g, a.v, t_add(g, t_mul(g, b.v, t), s))));
  given(g, t_implies(g, some, t_and(g, t_lt(g, s, size_b), t_lt(g, t_sub(g, ZERO, size_b), s))));
  given(g, t_implies(g, rest, t_eq(g, s_negative, a_negative)));
  term_t down = t_and(g, rest, t_not(g, t_eq(g, a_negative, b_negative)));
  term_t low = t_and(g, rest, t_not(g, t_eq(g, s_negative, b_negative)));
  lemma_once(g, &d, t, s);
  lemma_once(g, &d, t_sub(g, t, ONE), t_add(g, s, b.v));
  given(g, some);
  claim(g, t_eq(g, d.k, t_if(g, down, t_sub(g, t, ONE), t)));
  claim(g, t_eq(g, d.r, t_if(g, low, t_add(g, s, b.v), s)));
}

static void of_itself(goal_t *g) {
  value_t q = v_any(g, "q"), x = v_any(g, "x");
  division_t d = v_divide(g, times(g, q, x), q);
  lemma_once(g, &d, x.v, ZERO);
  claim_rewrite(g, d.quotient, x);
  claim_rewrite(g, d.remainder, v_int(g, 0));
}

// Long division: x == q*k + r stays true when m is added to k and q*m taken from r.
static void long_division(goal_t *g) {
  value_t q = v_any(g, "q"), k = v_any(g, "k"), r = v_any(g, "r"), m = v_any(g, "m");
  term_t before = whole_and_rest(g, q, k, r).v;
  term_t after = whole_and_rest(g, q, v_add(g, k, m), v_sub(g, r, v_mul(g, q, m))).v;
  claim(g, t_eq(g, before, after));
}

static void split(goal_t *g) {
  value_t q = v_any(g, "q"), k = v_any(g, "k"), r = v_any(g, "r");
  rest_below(g, r, q);
  division_t d = v_divide(g, whole_and_rest(g, q, k, r), q);
  lemma_once(g, &d, k.v, r.v);
  claim_rewrite(g, d.quotient, k);
  claim_rewrite(g, d.remainder, r);
}

static void negative_one(goal_t *g) {
  value_t q = v_any(g, "q"), k = v_any(g, "k"), r = v_any(g, "r");
  value_t up = v_add(g, r, q);
  rest_below(g, up, q);
  division_t d = v_divide(g, whole_and_rest(g, q, k, r), q);
  lemma_once(g, &d, t_sub(g, k.v, ONE), up.v);
  claim_rewrite(g, d.quotient, v_sub(g, k, v_int(g, 1)));
  claim_rewrite(g, d.remainder, up);
}

// A quotient k of both ends of r's bounds is that of r.
static void quotient_range(goal_t *g) {
  value_t c = v_literal(g, "c"), m = v_any(g, "m"), r = v_any(g, "r");
  value_t lo = v_literal(g, "lo"), hi = v_literal(g, "hi");
  given(g, t_le(g, ONE, c.v));
  given(g, t_between(g, lo.v, r.v, hi.v));
  division_t low = v_divide(g, lo, c), high = v_divide(g, hi, c);
  value_t k = {low.quotient.exact, low.quotient.exact, low.k};
  side(g, t_eq(g, low.k, high.k), t_le(g, high.k, t_add(g, low.k, ONE)));
  lemma_times(g, low.k, high.k, c.v);
  division_t d = v_divide(g, whole_and_rest(g, c, m, r), c);
  value_t rest = v_sub(g, r, v_mul(g, c, k));
  lemma_once(g, &d, t_add(g, m.v, k.v), rest.v);
  claim_rewrite(g, d.quotient, v_add(g, m, k));
  claim_rewrite(g, d.remainder, rest);
}

// The quotient and the remainder of the rewrite, where the quotient by h is (k, r).
static void claim_cancel(goal_t *g, value_t p, value_t a, value_t f, value_t h, value_t r) {
  division_t left = v_divide(g, p, v_mul(g, f, h)), right = v_divide(g, a, h);
  term_t up = t_sub(g, h.v, right.r);
  lemma_sign(g, f.v, right.r);
  lemma_sign(g, f.v, up);
  lemma_sign(g, f.v, t_sub(g, up, ONE));
  lemma_sign(g, f.v, t_add(g, up, ONE));
  lemma_sign(g, f.v, t_add(g, right.r, ONE));
  lemma_sign(g, f.v, t_sub(g, right.r, ONE));
  lemma_smaller(g, a.v, f.v);
  lemma_smaller(g, t_add(g, a.v, ONE), f.v);
  lemma_smaller(g, h.v, f.v);
  lemma_times(g, a.v, t_add(g, t_mul(g, h.v, right.k), right.r), f.v);
  lemma_once(g, &left, right.k, t_add(g, t_mul(g, f.v, right.r), r.v));
  claim_rewrite(g, left.quotient, right.quotient);
  claim_rewrite(g, left.remainder, v_add(g, v_mul(g, f, right.remainder), r));
}

static void cancel(goal_t *g) {
  value_t f = v_any(g, "g"), h = v_any(g, "h"), a = v_any(g, "a");
  side(g,
       t_or(g, t_le(g, ZERO, f.v),
            t_and(g, t_implies(g, a.has, t_fits(g, a.v)), t_implies(g, h.has, t_fits(g, h.v)))),
       t_true(g));
  example(g, t_and(g, t_eq(g, f.v, t_int(g, -1)), t_eq(g, h.v, t_int(g, 2))));
  claim_cancel(g, times(g, f, a), a, f, h, v_int(g, 0));
}

static void cancel_rest(goal_t *g) {
  value_t f = v_any(g, "g"), h = v_any(g, "h"), a = v_any(g, "a"), r = v_any(g, "r");
  rest_below(g, r, f);
  not_negative(g, h);
  claim_cancel(g, whole_and_rest(g, f, a, r), a, f, h, r);
}

static void claim_extract(goal_t *g, value_t q, value_t k, value_t r) {
  division_t left = v_divide(g, whole_and_rest(g, q, k, r), q), right = v_divide(g, r, q);
  lemma_once(g, &left, t_add(g, k.v, right.k), right.r);
  lemma_size(g, &right);
  claim_rewrite(g, left.quotient, v_add(g, k, right.quotient));
  claim_rewrite(g, left.remainder, right.remainder);
}

static void extract(goal_t *g) {
  value_t q = v_any(g, "q"), k = v_any(g, "k"), r = v_any(g, "r");
  side_fits(g, r);
  term_t end = t_sub(g, ZERO, t_word_end(g));
  side(g, t_or(g, t_lt(g, end, r.v), t_not(g, t_eq(g, q.v, t_int(g, -1)))), t_true(g));
  claim_extract(g, q, k, r);
}

// A sum of terms >= 0: its part r is at most the sum.
static void extract_part(goal_t *g) {
  value_t q = v_any(g, "q"), k = v_any(g, "k"), r = v_any(g, "r");
  given(g, t_le(g, ZERO, r.v));
  side(g, t_le(g, ZERO, t_mul(g, q.v, k.v)), t_true(g));
  claim_extract(g, q, k, r);
}

static void nested(goal_t *g) {
  value_t x = v_any(g, "x"), q = v_any(g, "q"), h = v_any(g, "h"), k = v_literal(g, "k");
  value_t top = v_add(g, x, v_mul(g, k, q)), by = v_mul(g, q, h);
  not_negative(g, h);
  term_t kept = t_eq(g, k.v, ZERO);
  side(g, t_or(g, kept, t_implies(g, top.has, t_fits(g, top.v))), t_true(g));
  side_fits(g, by);
  division_t inner = v_divide(g, x, q), outer = v_divide(g, v_add(g, inner.quotient, k), h);
  division_t flat = v_divide(g, top, by);
  term_t rest = t_add(g, t_mul(g, q.v, outer.r), inner.r);
  lemma_times(g, outer.x, t_add(g, t_mul(g, h.v, outer.k), outer.r), q.v);
  lemma_sign(g, k.v, q.v);
  lemma_sign(g, q.v, outer.r);
  lemma_sign(g, q.v, t_sub(g, t_sub(g, h.v, ONE), outer.r));
  lemma_smaller(g, h.v, q.v);
  lemma_once(g, &flat, outer.k, rest);
  claim_rewrite(g, outer.quotient, flat.quotient);
}

// Two digits of x are one: the lower by q, the next by h.
static void digits(goal_t *g) {
  value_t x = v_any(g, "x"), q = v_any(g, "q"), h = v_any(g, "h"), by = v_mul(g, q, h);
  not_negative(g, h);
  side_fits(g, by);
  division_t low = v_divide(g, x, q), high = v_divide(g, low.quotient, h);
  division_t flat = v_divide(g, x, by);
  term_t rest = t_add(g, t_mul(g, q.v, high.r), low.r);
  lemma_times(g, high.x, t_add(g, t_mul(g, h.v, high.k), high.r), q.v);
  lemma_sign(g, q.v, high.r);
  lemma_sign(g, q.v, t_sub(g, t_sub(g, h.v, ONE), high.r));
  lemma_smaller(g, h.v, q.v);
  lemma_once(g, &flat, high.k, rest);
  claim_rewrite(g, v_add(g, v_mul(g, q, high.remainder), low.remainder), flat.remainder);
}

static void of_remainder(goal_t *g) {
  value_t x = v_any(g, "x"), q = v_any(g, "q"), h = v_any(g, "h");
  not_negative(g, q);
  not_negative(g, h);
  value_t m = v_mul(g, q, h);
  division_t inner = v_divide(g, x, m), outer = v_divide(g, inner.remainder, q);
  division_t first = v_divide(g, x, q), second = v_divide(g, first.quotient, h);
  // x == q*h*K + R and R == q*k + r: x//q is h*K + k, and k is in [0, h).
  lemma_once(g, &first, t_add(g, t_mul(g, h.v, inner.k), outer.k), outer.r);
  lemma_sign(g, q.v, t_sub(g, outer.k, h.v));
  lemma_sign(g, q.v, t_add(g, outer.k, ONE));
  lemma_once(g, &second, inner.k, outer.k);
  lemma_smaller(g, h.v, q.v);
  lemma_size(g, &first);
  claim_rewrite(g, outer.quotient, second.remainder);
}

static void remainder_of_remainder(goal_t *g) {
  value_t x = v_any(g, "x"), q = v_any(g, "q"), h = v_any(g, "h"), k = v_any(g, "k");
  value_t a = v_any(g, "a"), sum = v_add(g, v_mul(g, k, x), a);
  side_fits(g, sum);
  example(g, t_and(g, t_eq(g, q.v, t_int(g, 2)), t_and(g, t_eq(g, h.v, ONE), t_eq(g, a.v, ZERO))));
  division_t inner = v_divide(g, x, v_mul(g, q, h));
  value_t m = v_any(g, "m"), rest = v_add(g, v_mul(g, k, inner.remainder), a);
  division_t left = v_divide(g, whole_and_rest(g, q, m, rest), q), right = v_divide(g, sum, q);
  term_t more = t_sub(g, t_mul(g, t_mul(g, k.v, h.v), inner.k), m.v);
  lemma_times(g, x.v, t_add(g, t_mul(g, inner.q, inner.k), inner.r), k.v);
  lemma_once(g, &right, t_add(g, left.k, more), left.r);
  claim_rewrite(g, left.remainder, right.remainder);
}

// d*m + c*x + a, where d divides what is before c*x.
typedef struct reduction_t {
  value_t c, d, m, x, a;
  value_t s, t; // c == d*t + s as C's % gives it
} reduction_t;

static reduction_t reduction(goal_t *g) {
  reduction_t p = {v_literal(g, "c"), v_literal(g, "d"), v_any(g, "m"),    v_any(g, "x"),
                   v_any(g, "a"),     v_literal(g, "s"), v_literal(g, "t")};
  value_t whole = v_add(g, v_mul(g, p.d, p.t), p.s);
  given(g, t_le(g, ONE, p.d.v));
  given(g, t_eq(g, p.c.v, whole.v));
  given(g, t_and(g, t_lt(g, t_sub(g, ZERO, p.d.v), p.s.v), t_lt(g, p.s.v, p.d.v)));
  lemma_times(g, p.c.v, whole.v, p.x.v);
  return p;
}

static value_t reduced_sum(goal_t *g, const reduction_t *p) {
  return v_add(g, v_mul(g, p->s, p->x), p->a);
}

static void claim_reduction(goal_t *g, const reduction_t *p) {
  value_t rest = v_add(g, v_mul(g, p->c, p->x), p->a);
  division_t left = v_divide(g, whole_and_rest(g, p->d, p->m, rest), p->d);
  division_t right = v_divide(g, reduced_sum(g, p), p->d);
  term_t more = t_add(g, p->m.v, t_mul(g, p->t.v, p->x.v));
  lemma_once(g, &right, t_sub(g, left.k, more), left.r);
  claim_rewrite(g, left.remainder, right.remainder);
}

static void coefficient(goal_t *g) {
  reduction_t p = reduction(g);
  side_fits(g, reduced_sum(g, &p));
  claim_reduction(g, &p);
}

// All terms >= 0: the new sum is at most the old one.
static void coefficient_part(goal_t *g) {
  reduction_t p = reduction(g);
  side(g, t_le(g, ZERO, p.c.v), t_true(g));
  side(g, t_le(g, ZERO, p.x.v), t_true(g));
  side(g, t_le(g, ZERO, p.a.v), t_true(g));
  side(g, t_le(g, ZERO, t_mul(g, p.d.v, p.m.v)), t_true(g));
  // C's remainder of c >= 0 is >= 0, and at most c.
  given(g, t_implies(g, t_le(g, ZERO, p.c.v), t_between(g, ZERO, p.s.v, p.c.v)));
  lemma_sign(g, p.s.v, p.x.v);
  lemma_sign(g, t_sub(g, p.c.v, p.s.v), p.x.v);
  claim_reduction(g, &p);
}

// x == m*t + p with d dividing m, or x == p.
static void congruence(goal_t *g) {
  value_t x = v_any(g, "x"), d = v_literal(g, "d"), j = v_any(g, "m/d"), t = v_any(g, "t");
  value_t p = v_literal(g, "p"), k = v_any(g, "k");
  given(g, t_le(g, ONE, d.v));
  side(g, t_eq(g, x.v, t_add(g, t_mul(g, t_mul(g, d.v, j.v), t.v), p.v)),
       t_eq(g, x.v, t_add(g, t_mul(g, j.v, t.v), p.v)));
  division_t left = v_divide(g, whole_and_rest(g, d, k, x), d), right = v_divide(g, p, d);
  lemma_once(g, &left, t_add(g, t_add(g, k.v, t_mul(g, j.v, t.v)), right.k), right.r);
  value_t r = {left.remainder.exact, left.remainder.has, right.r};
  claim_rewrite(g, left.remainder, r);
}

// With a common divisor d of the moduli, x + y keeps the sum of the residues.
static void congruence_of_sum(goal_t *g) {
  term_t d = v_any(g, "d").v, i = v_any(g, "i").v, j = v_any(g, "j").v;
  term_t s = v_any(g, "s").v, t = v_any(g, "t").v, p = v_literal(g, "p").v;
  term_t r = v_literal(g, "r").v;
  term_t x = t_add(g, t_mul(g, t_mul(g, d, i), s), p);
  term_t y = t_add(g, t_mul(g, t_mul(g, d, j), t), r);
  term_t times = t_add(g, t_mul(g, i, s), t_mul(g, j, t));
  claim(g, t_eq(g, t_add(g, x, y), t_add(g, t_mul(g, d, times), t_add(g, p, r))));
}

// d divides m*n, m*r and n*p.
static void congruence_of_product(goal_t *g) {
  term_t m = v_any(g, "m").v, n = v_any(g, "n").v, p = v_literal(g, "p").v;
  term_t r = v_literal(g, "r").v, s = v_any(g, "s").v, t = v_any(g, "t").v;
  term_t x = t_add(g, t_mul(g, m, s), p), y = t_add(g, t_mul(g, n, t), r);
  term_t parts = t_add(g, t_mul(g, t_mul(g, m, n), t_mul(g, s, t)),
                       t_add(g, t_mul(g, t_mul(g, m, r), s), t_mul(g, t_mul(g, n, p), t)));
  claim(g, t_eq(g, t_mul(g, x, y), t_add(g, parts, t_mul(g, p, r))));
}

// d divides both moduli and the difference of the residues: either value is p modulo d.
static void congruence_of_either(goal_t *g) {
  term_t d = v_any(g, "d").v, i = v_any(g, "i").v, e = v_any(g, "e").v, s = v_any(g, "s").v;
  term_t p = v_literal(g, "p").v, r = v_literal(g, "r").v;
  given(g, t_eq(g, t_sub(g, r, p), t_mul(g, d, e)));
  term_t y = t_add(g, t_mul(g, t_mul(g, d, i), s), r);
  term_t times = t_add(g, t_mul(g, i, s), e);
  claim(g, t_eq(g, y, t_add(g, t_mul(g, d, times), p)));
}

// x == c*n*t + p: x//c is n*t + p//c.
static void congruence_of_quotient(goal_t *g) {
  value_t x = v_any(g, "x"), c = v_literal(g, "c"), p = v_literal(g, "p");
  term_t n = v_any(g, "n").v, t = v_any(g, "t").v;
  given(g, t_le(g, ONE, c.v));
  side(g, t_eq(g, x.v, t_add(g, t_mul(g, t_mul(g, c.v, n), t), p.v)),
       t_eq(g, x.v, t_add(g, t_mul(g, n, t), p.v)));
  division_t left = v_divide(g, x, c), right = v_divide(g, p, c);
  term_t nt = t_mul(g, n, t);
  lemma_once(g, &left, t_add(g, nt, right.k), right.r);
  claim(g, t_eq(g, left.k, t_add(g, nt, right.k)));
}

// x == d*j*t + p: x%(d*i) is p modulo d.
static void congruence_of_remainder(goal_t *g) {
  value_t x = v_any(g, "x"), d = v_any(g, "d"), i = v_any(g, "i");
  term_t j = v_any(g, "j").v, t = v_any(g, "t").v, p = v_literal(g, "p").v;
  division_t left = v_divide(g, x, v_mul(g, d, i));
  given(g, t_not(g, t_eq(g, left.q, ZERO)));
  side(g, t_eq(g, x.v, t_add(g, t_mul(g, t_mul(g, d.v, j), t), p)), t_true(g));
  term_t times = t_sub(g, t_mul(g, j, t), t_mul(g, i.v, left.k));
  claim(g, t_eq(g, left.r, t_add(g, t_mul(g, d.v, times), p)));
}

static void negated(goal_t *g) {
  value_t x = v_any(g, "x"), c = v_literal(g, "c"), one = v_int(g, 1);
  side(g, t_le(g, ONE, c.v), t_true(g));
  value_t up = v_sub(g, v_add(g, x, c), one), minus = v_sub(g, v_int(g, 0), x);
  side_fits(g, up);
  division_t left = v_divide(g, minus, c), right = v_divide(g, up, c);
  lemma_once(g, &left, t_sub(g, ZERO, right.k), t_sub(g, t_sub(g, c.v, ONE), right.r));
  lemma_size(g, &right);
  lemma_size(g, &left);
  claim_rewrite(g, left.quotient, v_sub(g, v_int(g, 0), right.quotient));
}

const proof_t division_proofs[] = {
    {DT_RULE_DIV_ONE, "by 1", by_one, WITH_BITS},
    {DT_RULE_DIV_ONE, "of 0", of_zero, WITH_BITS},
    {DT_RULE_DIV_LITERALS, "as the C code rounds", of_literals, INTEGERS_ONLY},
    {DT_RULE_DIV_SELF, "", of_itself, WITH_BITS},
    {DT_RULE_DIV_SELF, "a step of long division", long_division, WITH_BITS},
    {DT_RULE_DIV_SPLIT, "", split, WITH_BITS},
    {DT_RULE_DIV_CANCEL, "r = 0", cancel, INTEGERS_ONLY},
    {DT_RULE_DIV_CANCEL, "0 <= r < g", cancel_rest, INTEGERS_ONLY},
    {DT_RULE_DIV_EXTRACT, "r fits", extract, INTEGERS_ONLY},
    {DT_RULE_DIV_EXTRACT, "sum of terms >= 0", extract_part, INTEGERS_ONLY},
    {DT_RULE_DIV_NEGATIVE_ONE, "", negative_one, WITH_BITS},
    {DT_RULE_DIV_QUOTIENT_RANGE, "", quotient_range, INTEGERS_ONLY},
    {DT_RULE_DIV_NEGATED, "", negated, INTEGERS_ONLY},
    {DT_RULE_DIV_NESTED, "", nested, INTEGERS_ONLY},
    {DT_RULE_SUM_DIGITS, "", digits, INTEGERS_ONLY},
    {DT_RULE_DIV_OF_MOD, "", of_remainder, INTEGERS_ONLY},
    {DT_RULE_MOD_OF_MOD, "", remainder_of_remainder, INTEGERS_ONLY},
    {DT_RULE_MOD_COEFFICIENT, "the new sum fits", coefficient, INTEGERS_ONLY},
    {DT_RULE_MOD_COEFFICIENT, "sum of terms >= 0", coefficient_part, INTEGERS_ONLY},
    {DT_RULE_MOD_CONGRUENCE, "", congruence, INTEGERS_ONLY},
    {DT_RULE_MOD_CONGRUENCE, "of a sum", congruence_of_sum, WITH_BITS},
    {DT_RULE_MOD_CONGRUENCE, "of a product", congruence_of_product, WITH_BITS},
    {DT_RULE_MOD_CONGRUENCE, "of one of two values", congruence_of_either, WITH_BITS},
    {DT_RULE_MOD_CONGRUENCE, "of a quotient", congruence_of_quotient, INTEGERS_ONLY},
    {DT_RULE_MOD_CONGRUENCE, "of a remainder", congruence_of_remainder, INTEGERS_ONLY},
    {0, 0, 0, 0},
};
