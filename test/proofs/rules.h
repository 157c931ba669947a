// SPDX-License-Identifier: Apache-2.0
// The proofs of symshape's rewrite rules: one row for each case of a rule, in one table a file.
#ifndef DT_TESTS_PROOF_RULES_H
#define DT_TESTS_PROOF_RULES_H

#include "symshape/sym_private.h"
#include "test/proofs/prove.h"

typedef struct proof_t {
  int rule; // dt_rule_t, or a lemma
  const char *what;
  goal_fn_t goal;
  enum { INTEGERS_ONLY, WITH_BITS } engines; // WITH_BITS: proved by bit-vectors too
} proof_t;
#define LEMMA (-1)
#define LEMMA_OF_PRODUCTS (-2) // proved without the others, of products as they are

// Each ends with a row without a goal.
extern const proof_t sum_proofs[], fact_proofs[], range_proofs[], division_proofs[], form_proofs[],
    choice_proofs[], order_proofs[], lemma_proofs[];

#define ZERO t_int(g, 0)
#define ONE t_int(g, 1)

#endif // DT_TESTS_PROOF_RULES_H
