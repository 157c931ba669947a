// SPDX-License-Identifier: Apache-2.0
// Graph passes. Each takes a graph and makes a new one in the same arena (or returns the old one
// when nothing changed), keeps inputs, constants, asserts, captures, updates and the order of
// outputs, and adds no guard; the bodies of `cond` and `while` are passed over like the graph, but
// for grouping. The pipeline (runtime/compile/pipeline.c) says in which order they run and verifies
// in between.
#ifndef DT_LOWER_PASSES_PASSES_H
#define DT_LOWER_PASSES_PASSES_H

#include "lower/graph/graph.h"

typedef dt_status_t (*dt_graph_pass_fn_t)(dt_arena_t *arena, const dt_graph_t *graph,
                                          const dt_graph_t **out);

// Marks running sums of floats, so that their rows are summed whole (DT_SCAN_WHOLE): one element
// after another.
dt_status_t dt__pass_in_order(dt_arena_t *arena, const dt_graph_t *graph,
                              const dt_graph_t **out) DT_MUST_USE;
// Replaces composites by the ops of their decomposition, until none is left.
dt_status_t dt__pass_decompose(dt_arena_t *arena, const dt_graph_t *graph,
                               const dt_graph_t **out) DT_MUST_USE;
// Applies the fold rules (fold_rules.def) bottom up: literals, identities, chains of views.
dt_status_t dt__pass_fold(dt_arena_t *arena, const dt_graph_t *graph,
                          const dt_graph_t **out) DT_MUST_USE;
// Shares equal nodes.
dt_status_t dt__pass_cse(dt_arena_t *arena, const dt_graph_t *graph,
                         const dt_graph_t **out) DT_MUST_USE;
// Joins products of one left operand with constants, and what follows all of them alike.
dt_status_t dt__pass_group(dt_arena_t *arena, const dt_graph_t *graph,
                           const dt_graph_t **out) DT_MUST_USE;
// Drops nodes that no output needs. Inputs stay.
dt_status_t dt__pass_dce(dt_arena_t *arena, const dt_graph_t *graph,
                         const dt_graph_t **out) DT_MUST_USE;

// Sizes that are known to be multiples of a number become that number times a symbol of their own,
// their part: what is divided by it, or by a divisor of it, has no remainder that could be in the
// way.
dt_status_t dt__pass_parts(dt_arena_t *arena, const dt_graph_t *graph,
                           const dt_graph_t **out) DT_MUST_USE;

#endif // DT_LOWER_PASSES_PASSES_H
