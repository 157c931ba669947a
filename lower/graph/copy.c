// SPDX-License-Identifier: Apache-2.0
// Copies of graphs: every pointer into the graph's arena is followed.
#include "lower/graph/external.h"
#include "runtime/base/status.h"

static bool copy_text(dt_arena_t *arena, const char **text) {
  if (!*text)
    return true;
  *text = dt__arena_strdup(arena, *text);
  return *text != NULL;
}

static bool copy_nodes(dt_graph_t *copy) {
  dt_arena_t *arena = copy->arena;
  bool good = DT_VEC_COPY(arena, &copy->nodes);
  for (uint32_t k = 0; good && k < copy->nodes.len; k++) {
    dt_node_t *node = &copy->nodes.items[k];
    node->inputs = dt__arena_copy(arena, node->inputs, node->n_inputs * sizeof(*node->inputs));
    node->attrs = dt__arena_copy(arena, node->attrs, sizeof(*node->attrs));
    good = node->inputs && node->attrs;
  }
  return good;
}

static bool copy_names(dt_graph_t *copy) {
  dt_arena_t *arena = copy->arena;
  bool good = true;
  for (uint32_t k = 0; good && k < copy->inputs.len; k++)
    good = copy_text(arena, &copy->inputs.items[k].name);
  for (uint32_t k = 0; good && k < copy->constants.len; k++)
    good = copy_text(arena, &copy->constants.items[k].name);
  for (uint32_t k = 0; good && k < copy->asserts.len; k++)
    good = copy_text(arena, &copy->asserts.items[k].what);
  for (uint32_t k = 0; good && k < copy->captures.len; k++)
    good = copy_text(arena, &copy->captures.items[k].name);
  return good;
}

static bool copy_externals(dt_graph_t *copy) {
  for (uint32_t k = 0; k < copy->externals.len; k++) {
    dt_graph_external_t *external = DT_ARENA_NEW(copy->arena, dt_graph_external_t);
    if (!external || !dt__external_copy(copy->arena, copy->externals.items[k], external))
      return false;
    copy->externals.items[k] = external;
  }
  return true;
}

static dt_status_t copy_bodies(dt_graph_t *copy) {
  for (uint32_t k = 0; k < copy->controls.len; k++) {
    dt_graph_control_t *control = &copy->controls.items[k];
    if (dt__control_shares(copy->controls.items, copy->controls.items, k))
      continue;
    for (uint32_t b = 0; b < DT_MOST_CASES && control->bodies[b]; b++) {
      dt_graph_t *body = NULL;
      DT_TRY(dt__graph_copy(copy->arena, control->bodies[b], &body));
      control->bodies[b] = body;
    }
  }
  return NULL;
}

dt_status_t dt__graph_copy(dt_arena_t *arena, const dt_graph_t *graph, dt_graph_t **out) {
  *out = NULL;
  dt_graph_t *copy = dt__arena_copy(arena, graph, sizeof(*graph));
  if (!copy)
    return DT_NO_MEMORY();
  copy->arena = arena;
  if (!copy_nodes(copy) || !DT_VEC_COPY(arena, &copy->inputs) ||
      !DT_VEC_COPY(arena, &copy->constants) || !DT_VEC_COPY(arena, &copy->outputs) ||
      !DT_VEC_COPY(arena, &copy->asserts) || !DT_VEC_COPY(arena, &copy->captures) ||
      !DT_VEC_COPY(arena, &copy->updates) || !DT_VEC_COPY(arena, &copy->controls) ||
      !DT_VEC_COPY(arena, &copy->externals) || !DT_VEC_COPY(arena, &copy->orders) ||
      !copy_names(copy) || !copy_externals(copy))
    return DT_NO_MEMORY();
  DT_TRY(copy_bodies(copy));
  *out = copy;
  return NULL;
}
