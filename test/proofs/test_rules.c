// SPDX-License-Identifier: Apache-2.0
// Every rule of symshape/rules.def is proved for 64-bit integers; see docs/proofs.md.
//
// The test fails when a rule has no proof, when Z3 refutes one (its counterexample is printed) or
// does not answer in time; when what a proof is given contradicts itself; and when a proof also
// holds with a weaker side condition, which would show that it proves nothing.
#include "test/support/check.h"

#include "test/proofs/rules.h"

#include <stdio.h>
#include <stdlib.h>

#define LIMIT_MS 20000

static const char *const rule_names[] = {
#define RULE(id, doc) #id,
#include "symshape/rules.def"
};

static const proof_t *const tables[] = {lemma_proofs, sum_proofs,    fact_proofs,  division_proofs,
                                        form_proofs,  choice_proofs, order_proofs, NULL};

static const char *rule_name(const proof_t *proof) {
  return proof->rule < 0 ? "lemma" : rule_names[proof->rule];
}

// Runs the goal; what is not `wanted` is printed with its model. True when it is.
static bool expect(const proof_t *proof, const goal_run_t *run, verdict_t wanted,
                   const char *failure, double *seconds) {
  goal_result_t result = goal_run(proof->goal, run);
  bool ok = result.verdict == wanted;
  if (!ok)
    print_error("%s (%s): %s: %s\n%s\n", rule_name(proof), proof->what, failure,
                result.verdict == UNKNOWN   ? "no answer"
                : result.verdict == REFUTED ? "refuted"
                                            : "proved",
                result.model ? result.model : "");
  *seconds += result.seconds;
  free(result.model);
  return ok;
}

static arith_t arith_of(const proof_t *proof) {
  return proof->rule == LEMMA_OF_PRODUCTS ? ARITH_TRUE : ARITH_EXACT;
}

static void test_proofs(void **state) {
  (void)state;
  int n_cases[DT_RULE_COUNT] = {0}, n_lost[DT_RULE_COUNT] = {0}, lemmas_lost = 0;
  double seconds = 0;
  for (int i = 0; tables[i]; i++)
    for (const proof_t *p = tables[i]; p->goal; p++) {
      goal_run_t run = {.arith = arith_of(p), .weaken = -1, .limit_ms = LIMIT_MS};
      bool ok = expect(p, &run, PROVED, "not proved", &seconds);
      if (p->rule < 0) {
        lemmas_lost += !ok;
        continue;
      }
      n_cases[p->rule]++;
      n_lost[p->rule] += !ok;
    }
  int n_proved = 0;
  for (int r = 0; r < DT_RULE_COUNT; r++) {
    if (!n_cases[r])
      print_error("rule %s has no proof\n", rule_names[r]);
    n_proved += n_cases[r] && !n_lost[r];
  }
  print_message("rules proved at 64 bits: %d/%d in %.1f s\n", n_proved, (int)DT_RULE_COUNT,
                seconds);
  assert_int_equal(lemmas_lost, 0);
  assert_int_equal(n_proved, DT_RULE_COUNT);
}

// The same by bit-vectors, which share neither number theory nor arithmetic with the integers of
// Z3.
static void test_proofs_by_bits(void **state) {
  (void)state;
  int failures = 0, count = 0, n_cases[DT_RULE_COUNT] = {0}, n_rules = 0;
  double seconds = 0;
  for (int i = 0; tables[i]; i++)
    for (const proof_t *p = tables[i]; p->goal; p++) {
      if (p->rule >= 0 && p->engines != WITH_BITS)
        n_cases[p->rule] = -1000;
      if (p->engines != WITH_BITS)
        continue;
      goal_run_t run = {.arith = ARITH_BITS, .weaken = -1, .limit_ms = LIMIT_MS};
      bool ok = expect(p, &run, PROVED, "not proved by bit-vectors", &seconds);
      failures += !ok;
      count++;
      n_cases[p->rule] += ok;
    }
  for (int r = 0; r < DT_RULE_COUNT; r++)
    n_rules += n_cases[r] > 0;
  print_message("proofs repeated by bit-vectors: %d/%d, %d rules in full, in %.1f s\n",
                count - failures, count, n_rules, seconds);
  assert_int_equal(failures, 0);
}

// With true products: a solution exists, so that what is given is no contradiction.
static void test_givens_have_solutions(void **state) {
  (void)state;
  int failures = 0, count = 0;
  double seconds = 0;
  for (int i = 0; tables[i]; i++)
    for (const proof_t *p = tables[i]; p->goal; p++, count++) {
      goal_run_t run = {
          .arith = ARITH_BRUTE, .weaken = -1, .only_givens = true, .limit_ms = LIMIT_MS};
      failures += !expect(p, &run, REFUTED, "what is given has no solution", &seconds);
    }
  print_message("proofs whose givens have a solution: %d/%d in %.1f s\n", count - failures, count,
                seconds);
  assert_int_equal(failures, 0);
}

static int weaker_conditions(const proof_t *proof) {
  goal_run_t run = {.arith = ARITH_BRUTE, .weaken = -1, .count_only = true};
  goal_result_t result = goal_run(proof->goal, &run);
  free(result.model);
  return result.n_weaker;
}

// Each weaker side condition is refuted: by a true counterexample in a small word, and at 64 bits
// in the arithmetic of the proof.
static void test_weaker_conditions_fail(void **state) {
  (void)state;
  int failures = 0, count = 0;
  double seconds = 0;
  for (int i = 0; tables[i]; i++)
    for (const proof_t *p = tables[i]; p->goal; p++)
      for (int k = 0, n = weaker_conditions(p); k < n; k++, count++) {
        goal_run_t small = {.arith = ARITH_BRUTE, .weaken = k, .limit_ms = LIMIT_MS};
        goal_run_t large = {.arith = arith_of(p), .weaken = k, .limit_ms = LIMIT_MS};
        char text[64];
        snprintf(text, sizeof text, "weaker condition %d is not refuted", k);
        bool ok = expect(p, &small, REFUTED, text, &seconds);
        failures += !expect(p, &large, REFUTED, text, &seconds) || !ok;
      }
  print_message("weaker side conditions refuted: %d/%d in %.1f s\n", count - failures, count,
                seconds);
  assert_int_equal(failures, 0);
}

RUN_TESTS(TEST(test_proofs), TEST(test_proofs_by_bits), TEST(test_givens_have_solutions),
          TEST(test_weaker_conditions_fail))
