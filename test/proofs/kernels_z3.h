// SPDX-License-Identifier: Apache-2.0
// Expressions of sizes and indices as Z3 terms, for what is claimed of whole programs.
//
// A value is an exact integer with the condition that 64-bit evaluation has it, as in prove.h.
// Products are multiplied by Z3 itself here, so a query may have no answer within its limit.
// Division by a literal is Z3's own; by anything else the quotient and remainder are unknowns with
// x == q*k + r.
#ifndef DT_TESTS_PROOFS_KERNELS_Z3_H
#define DT_TESTS_PROOFS_KERNELS_Z3_H

#include "symshape/symshape.h"
#include "test/proofs/prove.h"

typedef struct kz_t kz_t;

typedef struct kz_value_t {
  Z3_ast v;   // the exact integer
  Z3_ast has; // 64-bit evaluation has the parts that operations read; the value itself may not fit
} kz_value_t;

// `env` holds the expressions. Of symbols only their kind is used, and the range of unbacked ones,
// which is checked when they are bound: what `env` has learned is not taken for granted.
kz_t *kz_create(const dt_symenv_t *env, unsigned limit_ms);
void kz_destroy(kz_t *kz);
Z3_context kz_context(const kz_t *kz);
// Given to every query: a condition that holds and has a value.
void kz_always(kz_t *kz, dt_sym_t cond);
// The same, that `e` has a value in `range`.
void kz_always_in(kz_t *kz, dt_sym_t e, dt_range_t range);

// ---- One query ------------------------------------------------------------------------------------
void kz_begin(kz_t *kz);
void kz_given(kz_t *kz, Z3_ast cond);
// The term of `e`, with the ranges of its symbols and the meaning of its divisions given.
kz_value_t kz_term(kz_t *kz, dt_sym_t e);
// `cond` is true and has a value.
void kz_given_sym(kz_t *kz, dt_sym_t cond);
// The loop runs, and its symbol is one of its iterations.
void kz_given_loop(kz_t *kz, dt_sym_t var, dt_sym_t extent);
// Adds what Z3 does not find by itself: for each quotient q of x by d > 0 in `e`, whose d is no
// literal, q >= end gives q*d >= end*d, and q < 0 gives q*d <= -d. True of all integers: an
// instance of the sign of a product, which is proved among the lemmas.
void kz_compare_quotients(kz_t *kz, dt_sym_t e, dt_sym_t end);
// The same for products: for each product i*c in `e` of a loop symbol i, c >= 0 gives
// i*c <= (extent - 1)*c.
void kz_bound_products(kz_t *kz, dt_sym_t e);
// Whether what is given implies `claim`. *out_model (may be NULL): the counterexample, or the
// reason of UNKNOWN; free() it.
verdict_t kz_prove(kz_t *kz, Z3_ast claim, char **out_model);
void kz_limit(kz_t *kz, unsigned limit_ms); // of the queries from now on

// ---- Terms ----------------------------------------------------------------------------------------
Z3_ast kz_int(const kz_t *kz, int64_t value);
Z3_ast kz_flag(kz_t *kz); // a condition of which nothing is known
Z3_ast kz_fresh(kz_t *kz);
Z3_ast kz_and(const kz_t *kz, Z3_ast a, Z3_ast b);
Z3_ast kz_or(const kz_t *kz, Z3_ast a, Z3_ast b);
Z3_ast kz_fits(const kz_t *kz, Z3_ast v); // in 64 bits
Z3_ast kz_true(const kz_t *kz);
Z3_ast kz_is_true(const kz_t *kz, Z3_ast v);            // not 0
Z3_ast kz_inside(const kz_t *kz, Z3_ast v, Z3_ast end); // 0 <= v < end
Z3_ast kz_whole(const kz_t *kz, kz_value_t value);      // it has a value that fits

uint32_t kz_queries(const kz_t *kz);
double kz_seconds(const kz_t *kz); // spent in queries

#endif // DT_TESTS_PROOFS_KERNELS_Z3_H
