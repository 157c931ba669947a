// SPDX-License-Identifier: Apache-2.0
// A guard program in the making: the data that its files share, from the graph that they read to
// the block that they make. Everything here lives in one arena and ends with it.
#ifndef DT_GUARDS_BUILD_H
#define DT_GUARDS_BUILD_H

#include "guards/record.h"
#include "runtime/base/memory.h"

typedef struct dt_guard_build_t {
  const dt_graph_t *graph;
  const dt_symenv_t *env; // the graph's
  dt_arena_t arena;
  uint32_t n_symbols;
  dt_device_t place;          // where tensors are
  bool *bound;                // by symbol: an input binds it
  dt_text_t text;             // strings one after the other, each with its NUL
  DT_VEC(dt_guard_t) records; // in the order they were asked for
  DT_VEC(dt_guard_step_t) steps;
  DT_VEC(dt_guard_reason_t) reasons;
} dt_guard_build_t;

// ---- Assembly (assemble.c) ----------------------------------------------------------------------
// Puts a string into the text and returns its offset; failure shows in build->text.
uint32_t dt__guard_text(dt_guard_build_t *build, const char *string);
// Appends a record that `origin` asked for and that reads as `text` (fini'ed here).
dt_status_t dt__guard_emit(dt_guard_build_t *build, dt_guard_t record, dt_text_t *text,
                           const dt_origin_t *origin) DT_MUST_USE;
// Sorts the records and copies everything into one block.
dt_status_t dt__guard_assemble(dt_guard_build_t *build, dt_guards_t **out) DT_MUST_USE;

// ---- Collection (collect.c, collect_context.c) ----------------------------------------------------
// An input's name, or "argument 2".
void dt__guard_put_input(const dt_guard_build_t *build, uint32_t k, dt_text_t *text);
// Modes, alignment and how inputs share memory. `context` may be NULL.
dt_status_t dt__guard_collect_context(dt_guard_build_t *build,
                                      const dt_guard_context_t *context) DT_MUST_USE;

// ---- Expressions (expression.c) -----------------------------------------------------------------
// Steps for `e`, whose symbols must all be bound: DT_E_INTERNAL otherwise.
dt_status_t dt__guard_compile(dt_guard_build_t *build, dt_sym_t e, uint32_t *out_at,
                              uint32_t *out_n) DT_MUST_USE;
// Records for a condition: one a conjunct, in the cheapest kind that expresses it.
dt_status_t dt__guard_condition(dt_guard_build_t *build, dt_sym_t cond,
                                const dt_origin_t *origin) DT_MUST_USE;
dt_status_t dt__guard_check_bound(const dt_guard_build_t *build, dt_sym_t e,
                                  const char *what) DT_MUST_USE;

// ---- Implication (imply.c) ----------------------------------------------------------------------
// An environment in which nothing holds but what is put into it: the graph's own has learned from
// the guards themselves, so it would call every one of them implied.
typedef struct dt_guard_facts_t {
  const dt_symenv_t *from;
  dt_symenv_t *env;
  dt_sym_t *symbols; // by symbol of `from`: here
} dt_guard_facts_t;

// `ranges`: of each symbol of `from`, or NULL for what its kind alone says.
dt_status_t dt__guard_facts_init(dt_guard_facts_t *facts, dt_arena_t *arena,
                                 const dt_symenv_t *from, const dt_range_t *ranges) DT_MUST_USE;
void dt__guard_facts_fini(dt_guard_facts_t *facts);
// Whether `cond` (of `from`) follows from what was learned, wherever its sums and products fit.
bool dt__guard_facts_imply(dt_guard_facts_t *facts, dt_sym_t cond);
// Takes `cond` for true. What cannot be expressed or contradicts is left out.
void dt__guard_facts_learn(dt_guard_facts_t *facts, dt_sym_t cond);
dt_range_t dt__guard_facts_range(const dt_guard_facts_t *facts, uint32_t symbol);

#endif // DT_GUARDS_BUILD_H
