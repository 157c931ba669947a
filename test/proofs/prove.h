// SPDX-License-Identifier: Apache-2.0
// A small language for proof obligations over symbolic integers, on Z3.
//
// A goal collects what is given and what is claimed; it is proved when Z3 finds that the givens and
// the opposite of the claims have no common solution. Values are exact integers together with two
// conditions: that the exact value exists (no divisor is 0), and that 64-bit evaluation has it (all
// that operations read fits in 64 bits besides). Products of two unknowns are given to Z3 as
// unknowns of their own, after multiplying out; what it needs to know of them is stated by
// instances of the lemmas below, which are goals themselves. So every query is linear.
#ifndef DT_TESTS_PROVE_H
#define DT_TESTS_PROVE_H

#include <stdbool.h>
#include <stdint.h>
#include <z3.h>

typedef enum arith_t {
  ARITH_BITS,  // bit-vectors wide enough for every product; products of unknowns abstracted
  ARITH_EXACT, // integers of any size; products of unknowns abstracted
  ARITH_TRUE,  // integers of any size, with products as they are and no lemma given
  ARITH_BRUTE, // bit-vectors for a small word, products multiplied: finds counterexamples
} arith_t;

typedef enum verdict_t { PROVED, REFUTED, UNKNOWN } verdict_t;

typedef struct goal_t goal_t;
typedef void (*goal_fn_t)(goal_t *g);

// What one run of a goal is to do.
typedef struct goal_run_t {
  arith_t arith;
  int weaken;       // index of the side condition to weaken, or -1
  bool only_givens; // claim nothing: REFUTED then means that the givens have a solution
  bool count_only;  // ask nothing: only n_weaker is wanted
  unsigned limit_ms;
} goal_run_t;

typedef struct goal_result_t {
  verdict_t verdict;
  int n_weaker; // side conditions that can be weakened
  char *model;  // the counterexample in Z3's words, or the reason of UNKNOWN; free() it
  double seconds;
} goal_result_t;

goal_result_t goal_run(goal_fn_t fn, const goal_run_t *run);

// ---- Terms -------------------------------------------------------------------------------------
typedef Z3_ast term_t; // an integer or a condition
term_t t_int(goal_t *g, int64_t value);
term_t t_word_end(goal_t *g); // 2^63, or what it is in the goal's word
term_t t_true(goal_t *g);
term_t t_fresh(goal_t *g, const char *name);
term_t t_flag(goal_t *g, const char *name);
term_t t_add(goal_t *g, term_t a, term_t b);
term_t t_sub(goal_t *g, term_t a, term_t b);
term_t t_mul(goal_t *g, term_t a, term_t b);
term_t t_eq(goal_t *g, term_t a, term_t b);
term_t t_le(goal_t *g, term_t a, term_t b);
term_t t_lt(goal_t *g, term_t a, term_t b);
term_t t_not(goal_t *g, term_t a);
term_t t_and(goal_t *g, term_t a, term_t b);
term_t t_or(goal_t *g, term_t a, term_t b);
term_t t_if(goal_t *g, term_t c, term_t a, term_t b);
term_t t_implies(goal_t *g, term_t a, term_t b);
term_t t_between(goal_t *g, term_t lo, term_t x, term_t hi); // lo <= x <= hi
term_t t_fits(goal_t *g, term_t x);                          // in 64 bits

// ---- Givens and claims -------------------------------------------------------------------------
void given(goal_t *g, term_t cond);
// A side condition of the rule; `weaker` (NULL: not tried) must make the goal false in its place.
void side(goal_t *g, term_t cond, term_t weaker);
// After a side condition: where to look for the counterexample when that one is the weakened one.
void example(goal_t *g, term_t cond);
void claim(goal_t *g, term_t cond);

// ---- Values ------------------------------------------------------------------------------------
typedef struct value_t {
  term_t exact; // the exact value exists
  term_t has;   // the parts of it have 64-bit values; what reads it also needs that it fits
  term_t v;
} value_t;

value_t v_any(goal_t *g, const char *name);     // any expression: a sum is not bounded by 64 bits
value_t v_literal(goal_t *g, const char *name); // any 64-bit number
value_t v_int(goal_t *g, int64_t value);
value_t v_bool(goal_t *g, const char *name); // an expression that is 0 or 1
// Sums and products are exact inside.
value_t v_add(goal_t *g, value_t a, value_t b);
value_t v_sub(goal_t *g, value_t a, value_t b);
value_t v_mul(goal_t *g, value_t a, value_t b);
// The others read their arguments.
typedef struct division_t {
  value_t quotient, remainder; // rounded to minus infinity
  term_t x, q, k, r;           // x == q*k + r
} division_t;
division_t v_divide(goal_t *g, value_t x, value_t q);
value_t v_min(goal_t *g, value_t a, value_t b);
value_t v_max(goal_t *g, value_t a, value_t b);
value_t v_select(goal_t *g, value_t c, value_t a, value_t b);
value_t v_eq(goal_t *g, value_t a, value_t b);
value_t v_ne(goal_t *g, value_t a, value_t b);
value_t v_lt(goal_t *g, value_t a, value_t b);
value_t v_le(goal_t *g, value_t a, value_t b);
value_t v_and(goal_t *g, value_t a, value_t b);
value_t v_or(goal_t *g, value_t a, value_t b);
value_t v_not(goal_t *g, value_t a);

void side_fits(goal_t *g, value_t a);   // fits where it has a value; weaker: it need not
term_t t_in_word(goal_t *g, value_t a); // has a 64-bit value: `has`, and fits
// The rule "left -> right": where left has an exact value, right has the same; where left has a
// 64-bit value, right has one.
void claim_rewrite(goal_t *g, value_t left, value_t right);

// ---- Lemmas, as instances ----------------------------------------------------------------------
// The sign of a*b from those of a and b.
void lemma_sign(goal_t *g, term_t a, term_t b);
// A quotient and its remainder are the only ones: d.x == d.q*k + r with r of a remainder's size
// gives d.k == k, d.r == r.
void lemma_once(goal_t *g, const division_t *d, term_t k, term_t r);
// a == b gives c*a == c*b.
void lemma_times(goal_t *g, term_t a, term_t b, term_t c);
// x is no larger than a*x in size when a is not 0.
void lemma_smaller(goal_t *g, term_t x, term_t a);
// For: a quotient is not larger than x in size, but that of -2^63 by -1.
void lemma_size(goal_t *g, const division_t *d);

// r is what a remainder by q can be.
term_t t_remainder(goal_t *g, term_t q, term_t r);

#endif // DT_TESTS_PROVE_H
