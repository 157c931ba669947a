// SPDX-License-Identifier: Apache-2.0
// What the histogram says of a function's sizes: declarations for the calls that are most of them,
// and arguments to measure by.
#ifndef DT_RUNTIME_EXEC_HOT_SIZES_H
#define DT_RUNTIME_EXEC_HOT_SIZES_H

#include "runtime/exec/function.h"

#define DT_MOST_HOT_CALLS 4

// Sizes of a call, by source, and how often it came.
typedef struct dt_hot_row_t {
  const int64_t *values;
  uint64_t calls;
} dt_hot_row_t;

// A variant that may pay: for calls whose sizes lie in ranges and have divisors, by source. All in
// the arena of who asked.
typedef struct dt_hot_offer_t {
  uint32_t n;                            // sources
  int64_t *low, *high, *divisor;         // equal low and high: one size; divisor 1: none
  dt_hot_row_t calls[DT_MOST_HOT_CALLS]; // the most frequent ones that it takes
  uint32_t n_calls;
  uint64_t hash;
} dt_hot_offer_t;

// The offers for calls that are `percent` of all that were sampled, best first; at most one for one
// size, and one for ranges and divisors. False: no memory.
bool dt__hot_offers(dt_function_t *function, dt_arena_t *arena, uint32_t percent,
                    dt_hot_offer_t out[2], uint32_t *out_n);
// The function's declarations with those of the offer.
dt_input_decl_t *dt__hot_declare(const dt_function_t *function, dt_arena_t *arena,
                                 const dt_hot_offer_t *offer);
// Arguments of a call of these sizes: floats between -1 and 1, and zeros. The caller's.
dt_status_t dt__hot_arguments(const dt_function_t *function, const dt_hot_row_t *row,
                              dt_tensor_t **out) DT_MUST_USE;

#endif // DT_RUNTIME_EXEC_HOT_SIZES_H
