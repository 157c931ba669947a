// SPDX-License-Identifier: Apache-2.0
// Proofs of SHIFT_* and TRUNC_*: symshape/simplify_shift.c, forms.c.
#include "test/proofs/rules.h"

// ---- Shifts ------------------------------------------------------------------------------------
// A count y with its power p = 2^y; whether it is a count at all is a condition of its own.
typedef struct count_t {
  term_t ok, p;
} count_t;

static count_t any_count(goal_t *g) { return (count_t){t_flag(g, "count"), v_any(g, "power").v}; }

static value_t counted(goal_t *g, count_t c, value_t v) {
  v.exact = t_and(g, v.exact, c.ok);
  v.has = t_and(g, v.has, c.ok);
  return v;
}

static value_t power_of(goal_t *g, count_t c) {
  value_t p = v_int(g, 1);
  p.v = c.p;
  return p;
}

// x is read, and the result is written: both fit.
static value_t v_shl(goal_t *g, value_t x, count_t c) {
  value_t v = counted(g, c, v_mul(g, x, power_of(g, c)));
  v.has = t_and(g, v.has, t_and(g, t_fits(g, x.v), t_fits(g, v.v)));
  return v;
}

static void by_literal(goal_t *g) {
  value_t x = v_any(g, "x");
  count_t c = {t_true(g), v_literal(g, "power").v};
  given(g, t_le(g, ONE, c.p));
  claim_rewrite(g, v_shl(g, x, c), v_mul(g, x, power_of(g, c)));
}

// x//2^63 is (x//2^62)//2: the power is 2*p.
static void by_all_bits(goal_t *g) {
  value_t x = v_any(g, "x"), p = v_literal(g, "p"), two = v_int(g, 2);
  given(g, t_le(g, ONE, p.v));
  value_t end = v_mul(g, two, p);
  end.has = t_flag(g, "end"); // what divides need not be a literal here
  division_t whole = v_divide(g, x, end), half = v_divide(g, x, p);
  division_t rest = v_divide(g, half.quotient, two);
  value_t left = {whole.quotient.exact, t_and(g, t_in_word(g, x), t_fits(g, whole.k)), whole.k};
  lemma_times(g, half.k, t_add(g, t_mul(g, t_int(g, 2), rest.k), rest.r), p.v);
  lemma_sign(g, p.v, rest.r);
  lemma_sign(g, p.v, t_sub(g, ONE, rest.r));
  lemma_once(g, &whole, rest.k, t_add(g, t_mul(g, p.v, rest.r), half.r));
  lemma_size(g, &half);
  lemma_size(g, &rest);
  claim_rewrite(g, left, rest.quotient);
}

static void of_same(goal_t *g) {
  count_t c = any_count(g);
  side(g, t_le(g, ONE, c.p), t_not(g, t_eq(g, c.p, ZERO)));
  value_t p = power_of(g, c), zero = v_int(g, 0), minus = v_int(g, -1);
  p.has = t_true(g);
  division_t of_zero = v_divide(g, zero, p), of_minus = v_divide(g, minus, p);
  lemma_once(g, &of_zero, ZERO, ZERO);
  lemma_once(g, &of_minus, t_int(g, -1), t_sub(g, c.p, ONE));
  claim_rewrite(g, v_shl(g, zero, c), zero);
  claim_rewrite(g, counted(g, c, of_zero.quotient), zero);
  claim(g, t_eq(g, of_minus.k, t_int(g, -1)));
}

static void back(goal_t *g) {
  value_t x = v_any(g, "x");
  count_t c = any_count(g);
  given(g, t_le(g, ONE, c.p));
  value_t up = v_shl(g, x, c);
  division_t d = v_divide(g, up, power_of(g, c));
  lemma_once(g, &d, x.v, ZERO);
  value_t left = counted(g, c, d.quotient);
  left.has = t_and(g, left.has, t_in_word(g, up));
  claim_rewrite(g, left, x);
}

// ---- C's division ------------------------------------------------------------------------------
// x == q*t + s, where s is smaller than q in size and has the sign of x, or is 0.
typedef struct truncation_t {
  value_t quotient, remainder;
  term_t t, s;
} truncation_t;

static term_t size(goal_t *g, term_t x) { return t_if(g, t_lt(g, x, ZERO), t_sub(g, ZERO, x), x); }

static truncation_t truncate(goal_t *g, value_t x, value_t q) {
  truncation_t c = {.t = t_fresh(g, "t"), .s = t_fresh(g, "s")};
  term_t some = t_not(g, t_eq(g, q.v, ZERO)), zero = t_eq(g, c.s, ZERO);
  term_t alike = t_or(g, t_and(g, t_lt(g, c.s, ZERO), t_lt(g, x.v, ZERO)),
                      t_and(g, t_lt(g, ZERO, c.s), t_lt(g, ZERO, x.v)));
  given(g, t_implies(g, some, t_eq(g, x.v, t_add(g, t_mul(g, q.v, c.t), c.s))));
  given(g, t_implies(g, some, t_lt(g, size(g, c.s), size(g, q.v))));
  given(g, t_implies(g, some, t_or(g, zero, alike)));
  value_t read = {t_and(g, t_and(g, x.exact, q.exact), some),
                  t_and(g, t_and(g, t_in_word(g, x), t_in_word(g, q)), some), c.s};
  c.remainder = read;
  c.quotient = read;
  c.quotient.v = c.t;
  c.quotient.has = t_and(g, read.has, t_fits(g, c.t));
  return c;
}

static value_t negate(goal_t *g, value_t a) { return v_sub(g, v_int(g, 0), a); }
static term_t minus(goal_t *g, term_t a) { return t_sub(g, ZERO, a); }

static void trunc_floor(goal_t *g) {
  value_t x = v_any(g, "x"), q = v_any(g, "q");
  term_t up = t_and(g, t_le(g, ZERO, x.v), t_le(g, ZERO, q.v));
  term_t down = t_and(g, t_le(g, x.v, ZERO), t_le(g, q.v, ZERO));
  side(g, t_or(g, up, down), t_true(g));
  truncation_t c = truncate(g, x, q);
  division_t d = v_divide(g, x, q);
  lemma_once(g, &d, c.t, c.s);
  claim_rewrite(g, c.quotient, d.quotient);
  claim_rewrite(g, c.remainder, d.remainder);
}

static void trunc_negated_dividend(goal_t *g) {
  value_t x = v_any(g, "x"), q = v_any(g, "q"), other = negate(g, x);
  side(g, t_le(g, x.v, ZERO), t_true(g));
  side(g, t_le(g, ZERO, q.v), t_true(g));
  side_fits(g, other);
  truncation_t c = truncate(g, x, q);
  division_t d = v_divide(g, other, q);
  lemma_once(g, &d, minus(g, c.t), minus(g, c.s));
  lemma_size(g, &d);
  claim_rewrite(g, c.quotient, negate(g, d.quotient));
  claim_rewrite(g, c.remainder, negate(g, d.remainder));
}

static void trunc_negated_divisor(goal_t *g) {
  value_t x = v_any(g, "x"), q = v_any(g, "q"), other = negate(g, q);
  side(g, t_le(g, ZERO, x.v), t_true(g));
  side(g, t_le(g, q.v, ZERO), t_true(g));
  side_fits(g, other);
  truncation_t c = truncate(g, x, q);
  division_t d = v_divide(g, x, other);
  lemma_once(g, &d, minus(g, c.t), c.s);
  lemma_size(g, &d);
  claim_rewrite(g, c.quotient, negate(g, d.quotient));
  claim_rewrite(g, c.remainder, d.remainder);
}

static void trunc_select(goal_t *g) {
  value_t x = v_any(g, "x"), q = v_any(g, "q"), other = negate(g, x);
  side(g, t_le(g, ZERO, q.v), t_true(g));
  side_fits(g, other);
  truncation_t c = truncate(g, x, q);
  division_t d = v_divide(g, x, q), n = v_divide(g, other, q);
  lemma_once(g, &d, c.t, c.s);
  lemma_once(g, &n, minus(g, c.t), minus(g, c.s));
  lemma_size(g, &n);
  value_t low = v_lt(g, x, v_int(g, 0));
  claim_rewrite(g, c.quotient, v_select(g, low, negate(g, n.quotient), d.quotient));
  claim_rewrite(g, c.remainder, v_select(g, low, negate(g, n.remainder), d.remainder));
}

static void trunc_adjust(goal_t *g) {
  value_t x = v_any(g, "x"), q = v_any(g, "q"), zero = v_int(g, 0);
  truncation_t c = truncate(g, x, q);
  division_t d = v_divide(g, x, q);
  lemma_once(g, &d, c.t, c.s);
  lemma_once(g, &d, t_sub(g, c.t, ONE), t_add(g, c.s, q.v));
  lemma_size(g, &d);
  value_t some = v_ne(g, d.remainder, zero);
  value_t differ = v_ne(g, v_lt(g, x, zero), v_lt(g, q, zero));
  value_t off = v_and(g, some, differ);
  claim_rewrite(g, c.quotient, v_select(g, off, v_add(g, d.quotient, v_int(g, 1)), d.quotient));
  claim_rewrite(g, c.remainder, v_select(g, off, v_sub(g, d.remainder, q), d.remainder));
}

const proof_t form_proofs[] = {
    {DT_RULE_SHIFT_LITERAL, "to the left", by_literal, WITH_BITS},
    {DT_RULE_SHIFT_LITERAL, "to the right by 63", by_all_bits, INTEGERS_ONLY},
    {DT_RULE_SHIFT_SAME, "", of_same, WITH_BITS},
    {DT_RULE_SHIFT_BACK, "", back, WITH_BITS},
    {DT_RULE_TRUNC_FLOOR, "", trunc_floor, INTEGERS_ONLY},
    {DT_RULE_TRUNC_NEGATED, "the dividend", trunc_negated_dividend, INTEGERS_ONLY},
    {DT_RULE_TRUNC_NEGATED, "the divisor", trunc_negated_divisor, INTEGERS_ONLY},
    {DT_RULE_TRUNC_SELECT, "", trunc_select, INTEGERS_ONLY},
    {DT_RULE_TRUNC_ADJUST, "", trunc_adjust, INTEGERS_ONLY},
    {0, 0, 0, 0},
};
