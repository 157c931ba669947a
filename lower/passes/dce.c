// SPDX-License-Identifier: Apache-2.0
// Dead nodes: what no output, update or assert needs goes. Needs nothing of other passes; stands
// after those that leave nodes behind. Nodes of inputs stay; declarations of inputs and constants
// always do.
#include "lower/passes/passes.h"
#include "lower/passes/rewrite.h"
#include "runtime/base/status.h"

static dt_status_t run_one(dt_arena_t *arena, const dt_graph_t *graph, const dt_graph_t **out) {
  bool *live = NULL;
  DT_TRY(dt__graph_live(graph, arena, &live));
  for (uint32_t k = 0; k < graph->nodes.len; k++)
    live[k] = live[k] || graph->nodes.items[k].op == DT_OP_input;
  return dt__rewrite(arena, graph, dt__rewrite_copy, live, NULL, out);
}

dt_status_t dt__pass_dce(dt_arena_t *arena, const dt_graph_t *graph, const dt_graph_t **out) {
  return dt__rewrite_bodies(arena, graph, run_one, out);
}
