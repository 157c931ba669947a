// SPDX-License-Identifier: Apache-2.0
// What tests of guards share: an environment and graph to fill, tensors of any shape over no
// memory, and running a guard program on them.
#ifndef DT_TESTS_UNIT_GUARDS_GUARD_TEST_H
#define DT_TESTS_UNIT_GUARDS_GUARD_TEST_H

#include "guards/guards.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "test/support/check.h"

#define MAX_CONDS 16
#define MAX_INPUTS 4

typedef struct guard_fixture_t {
  dt_arena_t arena;
  dt_symenv_t *env;
  dt_graph_t *graph;
  dt_guards_t *guards;
  dt_guard_cond_t conds[MAX_CONDS];
  uint32_t n_conds;
  dt_guard_context_t context; // for make_guards
  dt_tensor_t *inputs[MAX_INPUTS];
  const int64_t *captures[MAX_INPUTS]; // read at each run
  int64_t captured[MAX_INPUTS];
  uint64_t modes; // of the call
  int64_t symbols[64];
} guard_fixture_t;

void guard_fixture_init(
    guard_fixture_t *f); // also collects assumptions of the environment into conds
void guard_fixture_fini(guard_fixture_t *f);

dt_sym_t size_symbol(guard_fixture_t *f, int64_t lo, int64_t hi, const char *name);
dt_sym_t literal(guard_fixture_t *f, int64_t value);
// A contiguous input.
void add_input(guard_fixture_t *f, const char *name, dt_dtype_t dtype, uint32_t rank,
               const dt_sym_t *sizes);
// One with the given strides.
void add_strided(guard_fixture_t *f, const char *name, uint32_t rank, const dt_sym_t *sizes,
                 const dt_sym_t *strides);
// An integer argument, and an integer outside of the arguments.
void add_integer(guard_fixture_t *f, const char *name, dt_dtype_t dtype, dt_sym_t value);
void add_capture(guard_fixture_t *f, const char *name, dt_sym_t value);
void add_update(guard_fixture_t *f, uint32_t input); // the call writes into it
void add_cond(guard_fixture_t *f, dt_sym_t cond, const char *op, const char *file, int line);
void make_guards(guard_fixture_t *f);

// Replaces argument `k`. Strides NULL: contiguous.
void set_input(guard_fixture_t *f, uint32_t k, dt_dtype_t dtype, uint32_t rank,
               const int64_t *sizes, const int64_t *strides);
// The same over memory of the caller's.
void set_input_at(guard_fixture_t *f, uint32_t k, dt_dtype_t dtype, uint32_t rank,
                  const int64_t *sizes, const int64_t *strides, void *data);
// dt__guards_run, compared with dt__guards_explain and with a decision over the one program, which
// must agree.
bool hit(guard_fixture_t *f);
// What the first failing guard says, and the program's text; in the arena.
const char *why(guard_fixture_t *f);
const char *text_of(guard_fixture_t *f);

#endif // DT_TESTS_UNIT_GUARDS_GUARD_TEST_H
