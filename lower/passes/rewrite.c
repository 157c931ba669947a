// SPDX-License-Identifier: Apache-2.0
// See rewrite.h.
#include "lower/passes/rewrite.h"

#include "runtime/base/status.h"

dt_status_t dt__rewrite_copy(dt_rewrite_t *rw, const dt_node_t *node, const dt_node_id_t *inputs,
                             dt_node_id_t *out) {
  // Its inputs are what they were, so it is valid as it stands. Inferring it again would ask the
  // environment what building it asked, which may have become a guard, and a frozen one answers none.
  dt_node_t copy = *node;
  copy.inputs = inputs;
  for (uint32_t k = 0; k < node->rank; k++)
    copy.sizes[k] = dt__sym_simplify(rw->to->env, node->sizes[k]);
  if (!DT_VEC_PUSH(rw->to->arena, &rw->to->nodes, copy))
    return DT_NO_MEMORY();
  *out = (dt_node_id_t){rw->to->nodes.len};
  return NULL;
}

// A node's sizes are not negative, or building it had failed. Where that was not provable, nodes made
// with its sizes would have to ask, and a frozen environment answers from facts only.
static dt_status_t learn_sizes(dt_symenv_t *env, const dt_node_t *node) {
  for (uint32_t k = 0; k < node->rank; k++) {
    dt_sym_t fact = dt__sym_le(env, dt__sym_const(env, 0), node->sizes[k]);
    if (dt__sym_known(env, fact) == DT_UNKNOWN)
      DT_TRY(dt__sym_learn(env, fact));
  }
  return NULL;
}

static dt_status_t visit_one(dt_rewrite_t *rw, const dt_node_t *node, dt_visit_fn_t visit,
                             dt_node_id_t *out) {
  if (node->op == DT_OP_input)
    return dt__graph_add_input(rw->to, &rw->from->inputs.items[node->attrs->index], out);
  if (node->op == DT_OP_constant)
    return dt__graph_add_constant(rw->to, &rw->from->constants.items[node->attrs->index],
                                  &node->origin, out);
  dt_node_id_t *inputs = DT_ARENA_ARRAY(rw->arena, dt_node_id_t, node->n_inputs + 1);
  if (!inputs)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < node->n_inputs; k++)
    inputs[k] = rw->map[node->inputs[k].id - 1];
  return visit(rw, node, inputs, out);
}

dt_status_t dt__rewrite(dt_arena_t *arena, const dt_graph_t *graph, dt_visit_fn_t visit,
                        const bool *live, void *user, const dt_graph_t **out) {
  dt_rewrite_t rw = {.arena = arena, .from = graph, .user = user};
  rw.to = dt__graph_create(arena, graph->env);
  rw.map = DT_ARENA_ARRAY(arena, dt_node_id_t, graph->nodes.len + 1);
  if (!rw.to || !rw.map)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < graph->nodes.len; k++) {
    const dt_node_t *node = &graph->nodes.items[k];
    // Inputs and constants keep their numbers, used or not.
    if (live && !live[k] && node->op != DT_OP_input && node->op != DT_OP_constant) {
      rw.changed = true;
      continue;
    }
    DT_TRY(learn_sizes(graph->env, node));
    DT_TRY(visit_one(&rw, node, visit, &rw.map[k]));
  }
  if (!rw.changed) {
    *out = graph;
    return NULL;
  }
  for (uint32_t k = 0; k < graph->outputs.len; k++)
    DT_TRY(dt__graph_add_output(rw.to, rw.map[graph->outputs.items[k].id - 1]));
  for (uint32_t k = 0; k < graph->asserts.len; k++)
    if (!DT_VEC_PUSH(arena, &rw.to->asserts, graph->asserts.items[k]))
      return DT_NO_MEMORY();
  *out = rw.to;
  return NULL;
}
