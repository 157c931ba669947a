// SPDX-License-Identifier: Apache-2.0
// Graphs of the fake driver as callers build them: nodes, edges, conditions. What was destroyed is
// known as such until its place is needed again, so that a later use is named.
#include "test/fake_cuda/fake_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CUDA_SYM(name, symbol, params) FAKE_API dt_cu_result_t symbol params;
#include "backend_cuda/driver/driver_syms.def"

#define MAX_NODES 262144
#define MAX_GRAPHS 65536

static struct CUgraphNode_st nodes[MAX_NODES];
static struct CUgraph_st graphs[MAX_GRAPHS];
static fake_condition_t conditions[FAKE_CONDITIONS];
// How many places were ever taken, and where the search for the next one begins.
static uint32_t n_nodes, n_graphs, n_conditions, next_node, next_graph, next_condition;
static uint64_t n_made;
fake_graph_counts_t fake_graph_counts;

void fake_cuda_graphs(fake_graph_counts_t *out) { *out = fake_graph_counts; }

// ---- Kernels' parameters ------------------------------------------------------------------------

dt_cu_result_t fake_setting_create(fake_setting_t **out, const dt_cu_kernel_node_t *params) {
  *out = NULL;
  if (!params || !params->function || params->kernel || params->extra)
    return DT_CU_INVALID_VALUE;
  dt_cu_launch_config_t config = {.shared_bytes = params->shared_bytes};
  memcpy(config.grid, params->grid, sizeof(config.grid));
  memcpy(config.block, params->block, sizeof(config.block));
  fake_code_t code;
  dt_cu_result_t result = fake_code_read(&config, params->function, params->params, &code);
  if (result)
    return result;
  size_t bytes = code.launch.param_bytes;
  fake_setting_t *setting = calloc(1, sizeof(*setting) + bytes + 1);
  if (!setting)
    abort();
  setting->uses = 1;
  setting->function = params->function;
  setting->code = code;
  memcpy(setting->param, code.launch.param, bytes);
  free((void *)(uintptr_t)code.launch.param);
  (void)snprintf(setting->name, sizeof(setting->name), "%s", code.launch.name);
  setting->code.launch.param = setting->param;
  setting->code.launch.name = setting->name;
  *out = setting;
  return DT_CU_SUCCESS;
}

void fake_setting_release(fake_setting_t *setting) {
  if (setting && --setting->uses == 0)
    free(setting);
}

// ---- Places -------------------------------------------------------------------------------------

// The next place of `most` that `is_free`; `most`: none.
static uint32_t find_free(uint32_t *next, uint32_t *n, uint32_t most, bool (*is_free)(uint32_t)) {
  for (uint32_t k = 0; k < most; k++) {
    uint32_t at = (*next + k) % most;
    if (!is_free(at))
      continue;
    *next = (at + 1) % most;
    *n = at + 1 > *n ? at + 1 : *n;
    return at;
  }
  return most;
}
static bool free_node(uint32_t k) { return !nodes[k].live; }
static bool free_graph(uint32_t k) { return !graphs[k].live; }
static bool free_condition(uint32_t k) { return !conditions[k].live; }

bool fake_is_graph(dt_cu_graph_t graph) {
  return graph >= graphs && graph < graphs + MAX_GRAPHS && graph->live;
}

bool fake_is_node(dt_cu_node_t node, const char *what) {
  bool ours = node >= nodes && node < nodes + MAX_NODES;
  if (ours && node->live)
    return true;
  fake_violation("%s: %s", what,
                 ours && node < nodes + n_nodes ? "the node's graph was destroyed"
                                                : "no such node");
  return false;
}

const fake_condition_t *fake_condition_at(uint32_t index) { return &conditions[index]; }

bool fake_conditions_used(dt_cu_graph_t graph) {
  for (uint32_t k = 0; k < n_conditions; k++)
    if (conditions[k].live && conditions[k].graph == graph && !conditions[k].used)
      return false;
  return true;
}

static dt_cu_graph_t new_graph(dt_cu_graph_t parent) {
  uint32_t at = find_free(&next_graph, &n_graphs, MAX_GRAPHS, free_graph);
  if (at == MAX_GRAPHS)
    return NULL;
  graphs[at] =
      (struct CUgraph_st){.live = true, .owned = parent != NULL, .id = ++n_made, .parent = parent};
  return &graphs[at];
}

// With all that its conditional nodes own.
static void kill_graph(dt_cu_graph_t graph) {
  for (uint32_t k = 0; k < graph->n; k++) {
    struct CUgraphNode_st *node = graph->nodes[k];
    for (uint32_t b = 0; b < node->is.n_bodies; b++)
      kill_graph(node->bodies[b]);
    fake_setting_release(node->setting);
    free(node->is.in), free(node->bodies);
    *node = (struct CUgraphNode_st){0};
  }
  for (uint32_t k = 0; k < n_conditions; k++)
    if (conditions[k].graph == graph)
      conditions[k].live = false;
  free(graph->nodes);
  *graph = (struct CUgraph_st){0};
}

void fake_graph_reset_nodes(void) {
  for (uint32_t k = 0; k < n_graphs; k++)
    if (graphs[k].live && !graphs[k].owned)
      kill_graph(&graphs[k]);
  memset(conditions, 0, n_conditions * sizeof(conditions[0]));
  n_nodes = n_graphs = n_conditions = next_node = next_graph = next_condition = 0;
  memset(&fake_graph_counts, 0, sizeof(fake_graph_counts));
}

uint32_t fake_graph_held_nodes(void) {
  uint32_t held = 0;
  for (uint32_t k = 0; k < n_graphs; k++)
    held += graphs[k].live && !graphs[k].owned;
  return held;
}

// ---- Edges --------------------------------------------------------------------------------------

static bool is_edge(const dt_cu_edge_t *edge) {
  static const uint8_t zero[5];
  bool full = edge->type == DT_CU_EDGE_FULL && edge->from_port == DT_CU_PORT_DEFAULT;
  bool programmatic =
      edge->type == DT_CU_EDGE_PROGRAMMATIC && edge->from_port == DT_CU_PORT_PROGRAMMATIC;
  return (full || programmatic) && edge->to_port == 0 &&
         memcmp(edge->reserved, zero, sizeof(zero)) == 0;
}

static bool has_edge(dt_cu_node_t from, dt_cu_node_t to) {
  for (uint32_t k = 0; k < to->is.n_in; k++)
    if (to->is.in[k].from == from->place)
      return true;
  return false;
}

// Whether such an edge may lead from the node to one of that kind.
static bool may_follow(dt_cu_graph_t graph, dt_cu_node_t from, bool to_kernel,
                       const dt_cu_edge_t *edge, const char *what) {
  if (!fake_is_node(from, what) || from->graph != graph)
    return false;
  return !edge ||
         (is_edge(edge) && (edge->type == DT_CU_EDGE_FULL || (to_kernel && from->is.kernel)));
}

static void add_edge(dt_cu_node_t from, dt_cu_node_t to, const dt_cu_edge_t *edge) {
  fake_edge_t *in = realloc(to->is.in, (to->is.n_in + 1) * sizeof(*in));
  if (!in)
    abort();
  to->is.in = in;
  in[to->is.n_in++] = (fake_edge_t){.from = from->place,
                                    .programmatic = edge && edge->type == DT_CU_EDGE_PROGRAMMATIC};
}

dt_cu_result_t cuGraphAddDependencies_v2(dt_cu_graph_t graph, const dt_cu_node_t *from,
                                         const dt_cu_node_t *to, const dt_cu_edge_t *edges,
                                         size_t n) {
  FAKE_ENTER(graph_add_edges, FAKE_IN_CONTEXT);
  static const char what[] = "cuGraphAddDependencies";
  if (!fake_is_graph(graph) || (n && (!from || !to)))
    return fake_leave(DT_CU_INVALID_VALUE);
  for (size_t k = 0; k < n; k++) {
    bool fine = fake_is_node(to[k], what) && to[k]->graph == graph && from[k] != to[k] &&
                may_follow(graph, from[k], to[k]->is.kernel, edges ? &edges[k] : NULL, what) &&
                !has_edge(from[k], to[k]);
    for (size_t p = 0; p < k && fine; p++)
      fine = from[p] != from[k] || to[p] != to[k];
    if (!fine)
      return fake_leave(DT_CU_INVALID_VALUE);
  }
  for (size_t k = 0; k < n; k++)
    add_edge(from[k], to[k], edges ? &edges[k] : NULL);
  return fake_leave(DT_CU_SUCCESS);
}

// ---- Nodes --------------------------------------------------------------------------------------

static bool may_add(dt_cu_graph_t graph, const dt_cu_node_t *after, const dt_cu_edge_t *edges,
                    size_t n, bool kernel, const char *what) {
  if (!fake_is_graph(graph) || (n && !after))
    return false;
  for (size_t k = 0; k < n; k++) {
    if (!may_follow(graph, after[k], kernel, edges ? &edges[k] : NULL, what))
      return false;
    for (size_t p = 0; p < k; p++)
      if (after[p] == after[k])
        return false;
  }
  return true;
}

// A node of the graph, which must be allowed; NULL: there is no more room.
static dt_cu_node_t add_node(dt_cu_graph_t graph, fake_node_t is, const dt_cu_node_t *after,
                             const dt_cu_edge_t *edges, size_t n) {
  uint32_t at = find_free(&next_node, &n_nodes, MAX_NODES, free_node);
  if (at == MAX_NODES)
    return NULL;
  dt_cu_node_t *list = realloc(graph->nodes, (graph->n + 1) * sizeof(list[0]));
  if (!list)
    abort();
  graph->nodes = list;
  nodes[at] = (struct CUgraphNode_st){.live = true, .graph = graph, .place = graph->n, .is = is};
  list[graph->n++] = &nodes[at];
  for (size_t k = 0; k < n; k++)
    add_edge(after[k], &nodes[at], edges ? &edges[k] : NULL);
  return &nodes[at];
}

dt_cu_result_t cuGraphAddKernelNode_v2(dt_cu_node_t *out, dt_cu_graph_t graph,
                                       const dt_cu_node_t *after, size_t n_after,
                                       const dt_cu_kernel_node_t *params) {
  FAKE_ENTER(graph_add_kernel, FAKE_IN_CONTEXT);
  if (!may_add(graph, after, NULL, n_after, true, "cuGraphAddKernelNode"))
    return fake_leave(DT_CU_INVALID_VALUE);
  fake_setting_t *setting = NULL;
  dt_cu_result_t result = fake_setting_create(&setting, params);
  if (result)
    return fake_leave(result);
  dt_cu_node_t node = add_node(graph, (fake_node_t){.kernel = true}, after, NULL, n_after);
  if (!node) {
    fake_setting_release(setting);
    return fake_leave(DT_CU_OUT_OF_MEMORY);
  }
  node->setting = setting;
  *out = node;
  return fake_leave(DT_CU_SUCCESS);
}

// ---- Conditions ---------------------------------------------------------------------------------

dt_cu_result_t cuGraphConditionalHandleCreate(dt_cu_condition_t *out, dt_cu_graph_t graph,
                                              dt_cu_context_t context, uint32_t value,
                                              uint32_t flags) {
  FAKE_ENTER(graph_condition, FAKE_IN_CONTEXT);
  (void)context;
  if (!fake_is_graph(graph) || (flags & ~(uint32_t)DT_CU_CONDITION_ASSIGN_DEFAULT))
    return fake_leave(DT_CU_INVALID_VALUE);
  uint32_t at = find_free(&next_condition, &n_conditions, FAKE_CONDITIONS, free_condition);
  if (at == FAKE_CONDITIONS)
    return fake_leave(DT_CU_OUT_OF_MEMORY);
  conditions[at] =
      (fake_condition_t){.live = true, .assigns = flags != 0, .value = value, .graph = graph};
  *out = FAKE_CONDITION(at);
  return fake_leave(DT_CU_SUCCESS);
}

// The condition that a node of the graph may have: of the graph or of one around it, without a node
// so far. FAKE_CONDITIONS: none.
static uint32_t find_condition(dt_cu_graph_t graph, dt_cu_condition_t handle) {
  for (uint32_t k = 0; k < n_conditions; k++) {
    if (FAKE_CONDITION(k) != handle)
      continue;
    for (dt_cu_graph_t at = graph; at; at = at->parent)
      if (conditions[k].live && !conditions[k].used && conditions[k].graph == at)
        return k;
  }
  return FAKE_CONDITIONS;
}

static bool is_conditional(const dt_cu_node_params_t *params) {
  const dt_cu_condition_node_t *c = &params->of.condition;
  bool fits = c->type == DT_CU_CONDITION_IF      ? c->n == 1 || c->n == 2
              : c->type == DT_CU_CONDITION_WHILE ? c->n == 1
                                                 : c->type == DT_CU_CONDITION_SWITCH && c->n > 0;
  return fits && !params->reserved[0] && !params->reserved[1] && !params->reserved[2] &&
         !params->reserved_too;
}

static bool add_bodies(dt_cu_node_t node, uint32_t n) {
  node->bodies = calloc(n, sizeof(dt_cu_graph_t));
  if (!node->bodies)
    abort();
  for (; node->is.n_bodies < n; node->is.n_bodies++) {
    dt_cu_graph_t body = new_graph(node->graph);
    if (!body)
      return false;
    node->bodies[node->is.n_bodies] = body;
  }
  return true;
}

dt_cu_result_t cuGraphAddNode_v2(dt_cu_node_t *out, dt_cu_graph_t graph, const dt_cu_node_t *after,
                                 const dt_cu_edge_t *edges, size_t n_after,
                                 dt_cu_node_params_t *params) {
  FAKE_ENTER(graph_add_node, FAKE_IN_CONTEXT);
  if (params->type != DT_CU_NODE_CONDITIONAL)
    return fake_leave(DT_CU_NOT_SUPPORTED);
  uint32_t condition = fake_is_graph(graph) ? find_condition(graph, params->of.condition.condition)
                                            : FAKE_CONDITIONS;
  if (condition == FAKE_CONDITIONS || !is_conditional(params) ||
      !may_add(graph, after, edges, n_after, false, "cuGraphAddNode"))
    return fake_leave(DT_CU_INVALID_VALUE);
  fake_node_t is = {.condition = condition, .type = params->of.condition.type};
  dt_cu_node_t node = add_node(graph, is, after, edges, n_after);
  if (!node || !add_bodies(node, params->of.condition.n))
    return fake_leave(DT_CU_OUT_OF_MEMORY); // what there is of the node goes with its graph
  conditions[condition].used = true;
  params->of.condition.bodies = node->bodies;
  *out = node;
  return fake_leave(DT_CU_SUCCESS);
}

// ---- Graphs -------------------------------------------------------------------------------------

dt_cu_result_t cuGraphCreate(dt_cu_graph_t *out, uint32_t flags) {
  FAKE_ENTER(graph_create, FAKE_IN_CONTEXT);
  dt_cu_graph_t graph = flags ? NULL : new_graph(NULL);
  if (!graph)
    return fake_leave(flags ? DT_CU_INVALID_VALUE : DT_CU_OUT_OF_MEMORY);
  fake_graph_counts.graphs++;
  *out = graph;
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuGraphDestroy(dt_cu_graph_t graph) {
  FAKE_ENTER(graph_destroy, FAKE_IN_CONTEXT);
  if (!fake_is_graph(graph) || graph->owned) {
    fake_violation("cuGraphDestroy: %s",
                   fake_is_graph(graph) ? "the graph is a node's" : "no such graph");
    return fake_leave(DT_CU_INVALID_VALUE);
  }
  kill_graph(graph);
  return fake_leave(DT_CU_SUCCESS);
}
