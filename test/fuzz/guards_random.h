// SPDX-License-Identifier: Apache-2.0
// Random guard programs over one signature, and random arguments near the edges of what they
// accept.
#ifndef DT_TESTS_FUZZ_GUARDS_RANDOM_H
#define DT_TESTS_FUZZ_GUARDS_RANDOM_H

#include "guards/guards.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "test/support/random.h"

#define FUZZ_MAX_INPUTS 4u
#define FUZZ_MAX_CAPTURES 2u
#define FUZZ_MAX_SYMBOLS 64u

bool fuzz_chance(rng_t *rng, uint32_t percent);

// What all variants of a function have in common, more or less.
typedef struct fuzz_signature_t {
  uint32_t n_inputs, n_captures;
  struct {
    dt_dtype_t dtype;
    uint32_t rank;
    bool contiguous, is_int;
  } inputs[FUZZ_MAX_INPUTS];
  bool updates, modes;
} fuzz_signature_t;
void fuzz_signature(rng_t *rng, fuzz_signature_t *out);

typedef struct fuzz_variant_t {
  dt_arena_t arena;
  dt_symenv_t *env;
  dt_graph_t *graph;
  dt_guards_t *guards;
} fuzz_variant_t;
dt_status_t fuzz_variant_init(rng_t *rng, const fuzz_signature_t *signature,
                              fuzz_variant_t *out) DT_MUST_USE;
void fuzz_variant_fini(fuzz_variant_t *variant);

// Arguments: `variant` guides what they look like, and chance what they do not.
typedef struct fuzz_args_t {
  dt_tensor_t *inputs[FUZZ_MAX_INPUTS];
  int64_t captured[FUZZ_MAX_CAPTURES];
  dt_guard_args_t args;
} fuzz_args_t;
dt_status_t fuzz_args_init(rng_t *rng, const fuzz_signature_t *signature,
                           const fuzz_variant_t *variant, fuzz_args_t *out) DT_MUST_USE;
void fuzz_args_fini(fuzz_args_t *args);

#endif // DT_TESTS_FUZZ_GUARDS_RANDOM_H
