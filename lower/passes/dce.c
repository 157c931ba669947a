// SPDX-License-Identifier: Apache-2.0
// Dead nodes: what no output needs goes. Needs nothing of other passes; stands after those that
// leave nodes behind. Nodes of inputs stay; declarations of inputs and constants always do.
#include "lower/passes/passes.h"
#include "lower/passes/rewrite.h"
#include "runtime/base/status.h"

dt_status_t dt__pass_dce(dt_arena_t *arena, const dt_graph_t *graph, const dt_graph_t **out) {
  bool *live = DT_ARENA_ARRAY(arena, bool, graph->nodes.len + 1);
  if (!live)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < graph->outputs.len; k++)
    live[graph->outputs.items[k].id - 1] = true;
  for (uint32_t k = graph->nodes.len; k-- > 0;) {
    live[k] |= graph->nodes.items[k].op == DT_OP_input;
    for (uint32_t i = 0; live[k] && i < graph->nodes.items[k].n_inputs; i++)
      live[graph->nodes.items[k].inputs[i].id - 1] = true;
  }
  return dt__rewrite(arena, graph, dt__rewrite_copy, live, NULL, out);
}
