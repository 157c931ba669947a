// SPDX-License-Identifier: Apache-2.0
// See rewrite.h.
#include "lower/passes/rewrite.h"

#include "runtime/base/status.h"

#include <string.h>

// The node's inputs are what they were, so it is valid as it stands. Inferring it again would ask
// the environment what building it asked, which may have become a guard, and a frozen one answers
// none.
dt_status_t dt__rewrite_copy(dt_rewrite_t *rw, const dt_node_t *node, const dt_node_id_t *inputs,
                             dt_node_id_t *out) {
  dt_node_t made = *node;
  for (uint32_t k = 0; k < node->rank; k++)
    made.sizes[k] = dt__sym_simplify(rw->to->env, node->sizes[k]);
  dt_node_id_t *list = DT_ARENA_ARRAY(rw->arena, dt_node_id_t, node->n_inputs + 1);
  dt_attrs_t *attrs = DT_ARENA_NEW(rw->arena, dt_attrs_t);
  // `out` may be one of the inputs.
  if (list && node->n_inputs)
    memcpy(list, inputs, node->n_inputs * sizeof(*list));
  *out = (dt_node_id_t){0};
  if (!list || !attrs)
    return DT_NO_MEMORY();
  // As bytes: the padding takes part in comparisons.
  if (node->attrs)
    memcpy(attrs, node->attrs, sizeof(*attrs));
  made.inputs = list;
  made.attrs = attrs;
  if (!DT_VEC_PUSH(rw->arena, &rw->to->nodes, made))
    return DT_NO_MEMORY();
  *out = (dt_node_id_t){rw->to->nodes.len};
  return NULL;
}

// Inputs and constants keep their numbers, used or not.
static dt_status_t declare(dt_rewrite_t *rw) {
  dt_graph_t *to = rw->to;
  const dt_graph_t *from = rw->from;
  bool ok = true;
  for (uint32_t k = 0; ok && k < from->inputs.len; k++)
    ok = DT_VEC_PUSH(rw->arena, &to->inputs, from->inputs.items[k]);
  for (uint32_t k = 0; ok && k < from->constants.len; k++)
    ok = DT_VEC_PUSH(rw->arena, &to->constants, from->constants.items[k]);
  for (uint32_t k = 0; ok && k < from->asserts.len; k++)
    ok = DT_VEC_PUSH(rw->arena, &to->asserts, from->asserts.items[k]);
  for (uint32_t k = 0; ok && k < from->captures.len; k++)
    ok = DT_VEC_PUSH(rw->arena, &to->captures, from->captures.items[k]);
  for (uint32_t k = 0; ok && k < from->controls.len; k++)
    ok = DT_VEC_PUSH(rw->arena, &to->controls, from->controls.items[k]);
  for (uint32_t k = 0; ok && k < from->externals.len; k++)
    ok = DT_VEC_PUSH(rw->arena, &to->externals, from->externals.items[k]);
  return ok ? NULL : DT_NO_MEMORY();
}

dt_status_t dt__rewrite_learn_sizes(dt_symenv_t *env, const dt_node_t *node) {
  for (uint32_t k = 0; k < node->rank; k++) {
    dt_sym_t fact = dt__sym_le(env, dt__sym_const(env, 0), node->sizes[k]);
    if (dt__sym_known(env, fact) == DT_UNKNOWN)
      DT_TRY(dt__sym_learn_at(env, fact, &node->origin));
  }
  return NULL;
}

static dt_status_t visit_one(dt_rewrite_t *rw, const dt_node_t *node, dt_visit_fn_t visit,
                             dt_node_id_t *out) {
  dt_node_id_t *inputs = DT_ARENA_ARRAY(rw->arena, dt_node_id_t, node->n_inputs + 1);
  if (!inputs)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < node->n_inputs; k++)
    inputs[k] = rw->map[node->inputs[k].id - 1];
  return visit(rw, node, inputs, out);
}

dt_status_t dt__rewrite(dt_arena_t *arena, const dt_graph_t *graph, dt_visit_fn_t visit,
                        const bool *live, void *user, const dt_graph_t **out) {
  *out = graph;
  dt_rewrite_t rw = {.arena = arena, .from = graph, .user = user};
  rw.to = dt__graph_create(arena, graph->env);
  rw.map = DT_ARENA_ARRAY(arena, dt_node_id_t, graph->nodes.len + 1);
  if (!rw.to || !rw.map)
    return DT_NO_MEMORY();
  DT_TRY(declare(&rw));
  for (uint32_t k = 0; k < graph->nodes.len; k++) {
    if (live && !live[k]) {
      rw.changed = true;
      continue;
    }
    DT_TRY(dt__rewrite_learn_sizes(graph->env, &graph->nodes.items[k]));
    DT_TRY(visit_one(&rw, &graph->nodes.items[k], visit, &rw.map[k]));
  }
  DT_TRY(dt__symenv_status(graph->env));
  if (!rw.changed)
    return NULL;
  for (uint32_t k = 0; k < graph->outputs.len; k++)
    if (!DT_VEC_PUSH(arena, &rw.to->outputs, rw.map[graph->outputs.items[k].id - 1]))
      return DT_NO_MEMORY();
  rw.to->orders.items = graph->orders.items;
  rw.to->orders.len = graph->orders.len;
  if (!DT_VEC_COPY(arena, &rw.to->orders))
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < graph->updates.len; k++) {
    dt_graph_update_t update = graph->updates.items[k];
    update.value = rw.map[update.value.id - 1];
    if (!DT_VEC_PUSH(arena, &rw.to->updates, update))
      return DT_NO_MEMORY();
  }
  *out = rw.to;
  return NULL;
}

// ---- Bodies -------------------------------------------------------------------------------------
dt_status_t dt__rewrite_bodies(dt_arena_t *arena, const dt_graph_t *graph, dt_graph_pass_fn_t pass,
                               const dt_graph_t **out) {
  *out = graph;
  DT_TRY(pass(arena, graph, out));
  const dt_graph_t *made = *out;
  uint32_t n = made->controls.len;
  bool changed = false;
  dt_graph_control_t *controls = DT_ARENA_ARRAY(arena, dt_graph_control_t, n + 1);
  if (!controls)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < n; k++) {
    if (dt__control_shares(made->controls.items, controls, k))
      continue;
    for (uint32_t b = 0; b < dt__control_n(&made->controls.items[k]); b++) {
      const dt_graph_t *body = made->controls.items[k].bodies[b];
      DT_TRY(dt__rewrite_bodies(arena, body, pass, &controls[k].bodies[b]));
      changed = changed || controls[k].bodies[b] != body;
    }
  }
  if (!changed)
    return NULL;
  dt_graph_t *copy = DT_ARENA_NEW(arena, dt_graph_t);
  if (!copy)
    return DT_NO_MEMORY();
  *copy = *made;
  copy->controls.items = controls;
  copy->controls.cap = n;
  *out = copy;
  return NULL;
}
