// SPDX-License-Identifier: Apache-2.0
// Guards: the conditions under which a variant is valid, as a flat program over the metadata of a
// call's arguments. Running one binds the variant's symbols and returns hit or miss; a miss is a
// plain value. A separate verbose walk explains a miss; it never runs on the call path.
#ifndef DT_GUARDS_GUARDS_H
#define DT_GUARDS_GUARDS_H

#include "lower/graph/graph.h"
#include "runtime/tensor/tensor.h"

// A condition on symbols that tracing assumed, and who asked for it.
typedef struct dt_guard_cond_t {
  dt_sym_t cond;
  dt_origin_t origin;
} dt_guard_cond_t;

// What a variant's validity may depend on besides the graph and what it assumed.
typedef struct dt_guard_context_t {
  // (a call's modes & modes_mask) == modes. A place among them (guards/modes.h) is where tensor
  // inputs are.
  uint64_t modes, modes_mask;
  // How the inputs shared memory when traced: shared[k] is the first input with the same data,
  // dtype, sizes and strides as input k (k itself: none before it). NULL: every one its own. Read
  // only where the graph updates an input: then a pair of which one is updated is either the same
  // memory or has no byte in common, and an updated input has no two indices for one element.
  const uint32_t *shared;
} dt_guard_context_t;

// What a call brings. Borrowed; no pointer in it NULL where the graph has such inputs or captures.
typedef struct dt_guard_args_t {
  dt_tensor_t *const *inputs;
  const int64_t *captures; // values of captured integers, by the graph's captures, read once a call
  uint64_t modes;          // DT_MODE_* of the runtime, packed (guards/modes.h)
} dt_guard_args_t;

// One block of memory, immutable once made: fixed-size records without pointers, cheapest and
// likeliest to fail first, symbols bound before they are used. [any thread may run it]
typedef struct dt_guards dt_guards_t;

// Guards of a graph: for each input dtype, rank, device, sizes (bound, or equal to an expression,
// or within a range), layout (contiguous or strides as the graph says, where "size <= 1 or stride =
// e"), value (integer arguments, captures), alignment beyond the dtype's where the graph promises
// it; then `context` (NULL: nothing); then `conds`, those implied by the others or by ranges
// dropped. Names in the conditions' origins are copied. DT_E_INTERNAL when a symbol is bound by no
// input.
dt_status_t dt__guards_create(const dt_graph_t *graph, const dt_guard_cond_t *conds,
                              uint32_t n_conds, const dt_guard_context_t *context,
                              dt_guards_t **out) DT_MUST_USE;
void dt__guards_destroy(dt_guards_t *guards); // NULL allowed
// Length of the symbol array dt__guards_run fills: the environment's symbol count when made.
uint32_t dt__guards_symbol_count(const dt_guards_t *guards);
uint32_t dt__guards_count(const dt_guards_t *guards); // records that can fail
// True: all hold, `symbols` holds every input symbol's value (others are 0). False: a miss,
// `symbols` partly written. Allocates nothing.
bool dt__guards_run(const dt_guards_t *guards, const dt_guard_args_t *args, int64_t *symbols);
// The first guard that fails for `args`: one line with the guard, expected, actual, the asking op
// and source line, without a newline; nothing when all hold. Returns whether one failed.
bool dt__guards_explain(const dt_guards_t *guards, const dt_guard_args_t *args, dt_text_t *out);
// All guards, one a line, deterministic.
void dt__guards_print(const dt_guards_t *guards, dt_text_t *out);

// ---- For explanations ---------------------------------------------------------------------------
// A guard and who asked for it. Strings are the program's own; `file` is "" where no source line
// asked.
typedef struct dt_guard_told_t {
  const char *guard, *op, *file; // "s0 <= 512", "sym_true", "model.c"
  int line;
  bool can_fail; // false: it only binds a symbol
} dt_guard_told_t;
uint32_t dt__guards_record_count(const dt_guards_t *guards);
dt_guard_told_t dt__guards_tell(const dt_guards_t *guards, uint32_t record);

#define DT_GUARD_TOLD_SYMBOLS 8
// The first guard that does not hold.
typedef struct dt_guard_failure_t {
  uint32_t record; // the later, the nearer the arguments are to a hit
  dt_guard_told_t told;
  dt_text_t actual;   // "s0 = 600 (batch)"
  dt_text_t remedy;   // what to declare or change so that it need not fail
  bool no_value;      // its expression has none in 64 bits for these numbers
  uint32_t n_symbols; // what the guard reads, each once
  uint32_t symbols[DT_GUARD_TOLD_SYMBOLS];
} dt_guard_failure_t;
// False: all hold, *out is empty. True: *out is released with dt__guard_failure_fini.
bool dt__guards_failure(const dt_guards_t *guards, const dt_guard_args_t *args,
                        dt_guard_failure_t *out);
// As dt__guards_explain tells it.
void dt__guard_failure_put(const dt_guard_failure_t *failure, dt_text_t *out);
void dt__guard_failure_fini(dt_guard_failure_t *failure);

#endif // DT_GUARDS_GUARDS_H
