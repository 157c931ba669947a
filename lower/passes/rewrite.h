// SPDX-License-Identifier: Apache-2.0
// The walk that every pass is: old nodes in order, each replaced by nodes of a new graph.
#ifndef DT_LOWER_PASSES_REWRITE_H
#define DT_LOWER_PASSES_REWRITE_H

#include "lower/passes/passes.h"

typedef struct dt_rewrite {
  dt_arena_t *arena;
  const dt_graph_t *from;
  dt_graph_t *to;    // has all declarations and asserts of `from` from the beginning
  dt_node_id_t *map; // [old id - 1]: the new node
  bool changed;      // set by a visitor that did something
  void *user;
} dt_rewrite_t;

// Makes the counterpart of `node` in rw->to: `inputs` are its inputs there. Usually it ends in
// dt__rewrite_copy.
typedef dt_status_t (*dt_visit_fn_t)(dt_rewrite_t *rw, const dt_node_t *node,
                                     const dt_node_id_t *inputs, dt_node_id_t *out);

// Runs `visit` over all nodes. *out is the new graph, or `graph` itself when no visitor set
// rw->changed. `live` (by id - 1) leaves nodes out; NULL: all stay.
dt_status_t dt__rewrite(dt_arena_t *arena, const dt_graph_t *graph, dt_visit_fn_t visit,
                        const bool *live, void *user, const dt_graph_t **out) DT_MUST_USE;
// The node as it is, over other inputs of the same dtypes and sizes. Nothing is inferred again, so
// nothing can be asked of the environment.
dt_status_t dt__rewrite_copy(dt_rewrite_t *rw, const dt_node_t *node, const dt_node_id_t *inputs,
                             dt_node_id_t *out) DT_MUST_USE;

// A node's sizes are not negative, or building it had failed. Where that was not provable, nodes
// made with its sizes would have to ask, and a frozen environment answers from facts only.
dt_status_t dt__rewrite_learn_sizes(dt_symenv_t *env, const dt_node_t *node) DT_MUST_USE;

// A pass over the graph and over the bodies of all its `cond` and `while` nodes, and of theirs.
dt_status_t dt__rewrite_bodies(dt_arena_t *arena, const dt_graph_t *graph, dt_graph_pass_fn_t pass,
                               const dt_graph_t **out) DT_MUST_USE;

#endif // DT_LOWER_PASSES_REWRITE_H
