// SPDX-License-Identifier: Apache-2.0
// Guards: the conditions under which a variant is valid, as a flat program over the metadata of a
// call's arguments. Running one binds the variant's symbols and says hit or miss; a miss is a plain
// value. The verbose walk that explains a miss is separate and never runs on the call path.
#ifndef DT_GUARDS_GUARDS_H
#define DT_GUARDS_GUARDS_H

#include "lower/graph/graph.h"
#include "runtime/tensor/tensor.h"

// A condition on symbols that tracing assumed, and who asked for it.
typedef struct dt_guard_cond_t {
  dt_sym_t cond;
  dt_origin_t origin;
} dt_guard_cond_t;

// One block of memory, immutable once made: fixed-size records without pointers, cheapest and
// likeliest to fail first, symbols bound before they are used. [any thread may run it]
typedef struct dt_guards dt_guards_t;

// Guards of a graph: for each input dtype, rank, device, sizes (bound, or equal to an expression,
// or within a range), layout (contiguous or strides as the graph says, where "size <= 1 or stride =
// e"); then `conds`, those implied by the others or by ranges dropped. Data is aligned to its dtype
// in every tensor there is, so nothing tests that. Names in the conditions' origins are copied.
// DT_E_INTERNAL when a symbol is bound by no input.
dt_status_t dt__guards_create(const dt_graph_t *graph, const dt_guard_cond_t *conds,
                              uint32_t n_conds, dt_guards_t **out) DT_MUST_USE;
void dt__guards_destroy(dt_guards_t *guards); // NULL allowed
// Length of the symbol array dt__guards_run fills: the environment's symbol count when made.
uint32_t dt__guards_symbol_count(const dt_guards_t *guards);
uint32_t dt__guards_count(const dt_guards_t *guards); // records that can fail
// True: all hold, `symbols` holds every input symbol's value (others are 0). False: a miss,
// `symbols` partly written. `inputs` has as many tensors as the graph has inputs, none NULL.
// Allocates nothing.
bool dt__guards_run(const dt_guards_t *guards, dt_tensor_t *const *inputs, int64_t *symbols);
// The first guard that fails for `inputs`: one line with the guard, expected, actual, the asking op
// and source line, without a newline; nothing when all hold. Returns whether one failed.
bool dt__guards_explain(const dt_guards_t *guards, dt_tensor_t *const *inputs, dt_text_t *out);
// All guards, one a line, deterministic.
void dt__guards_print(const dt_guards_t *guards, dt_text_t *out);

#endif // DT_GUARDS_GUARDS_H
