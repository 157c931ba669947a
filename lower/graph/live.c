// SPDX-License-Identifier: Apache-2.0
// Which nodes a call needs: those that results are made of, and the items that bind the symbols in
// their sizes and attributes and in the graph's asserts.
#include "lower/graph/graph.h"
#include "runtime/base/status.h"

typedef struct live_t {
  const dt_graph_t *graph;
  uint32_t n_symbols;
  bool has_items;    // nothing needs the rest otherwise
  bool *symbols;     // by symbol: needed
  uint32_t *scratch; // n_symbols
  bool *nodes;       // by id - 1
} live_t;

static void need_symbols(live_t *l, uint32_t n, const dt_sym_t *exprs) {
  for (uint32_t k = 0; l->has_items && k < n; k++) {
    if (dt__sym_is_const(l->graph->env, exprs[k], NULL))
      continue;
    uint32_t found = dt__sym_symbols(l->graph->env, exprs[k], l->scratch, l->n_symbols);
    for (uint32_t i = 0; i < found && i < l->n_symbols; i++)
      l->symbols[l->scratch[i]] = true;
  }
}

// What the bodies of a node use counts as the node's own.
static void need_bodies(live_t *l, const dt_graph_t *graph, const dt_node_t *node) {
  bool looks = l->has_items && dt__op_is_control(node->op);
  const dt_graph_control_t *control = looks ? dt__graph_control(graph, node) : NULL;
  for (uint32_t b = 0; control && b < dt__control_n(control); b++) {
    const dt_graph_t *body = control->bodies[b];
    for (uint32_t k = 0; k < body->nodes.len; k++) {
      const dt_node_t *inner = &body->nodes.items[k];
      need_symbols(l, inner->rank, inner->sizes);
      need_symbols(l, inner->attrs->n_syms, inner->attrs->syms);
      need_bodies(l, body, inner);
    }
  }
}

static bool binds_needed(const live_t *l, const dt_node_t *node) {
  uint32_t symbol = 0;
  return node->op == DT_OP_item &&
         dt__sym_is_symbol(l->graph->env, node->attrs->syms[0], &symbol) && l->symbols[symbol];
}

// Inputs of a node come before it, as does the item of each symbol it uses, so one pass from the
// end finds everything.
static void walk(live_t *l) {
  const dt_graph_t *graph = l->graph;
  for (uint32_t k = graph->nodes.len; k-- > 0;) {
    const dt_node_t *node = &graph->nodes.items[k];
    l->nodes[k] = l->nodes[k] || binds_needed(l, node);
    if (!l->nodes[k])
      continue;
    for (uint32_t i = 0; i < node->n_inputs; i++)
      l->nodes[node->inputs[i].id - 1] = true;
    need_symbols(l, node->rank, node->sizes);
    need_symbols(l, node->attrs->n_syms, node->attrs->syms);
    need_bodies(l, graph, node);
  }
}

dt_status_t dt__graph_live(const dt_graph_t *graph, dt_arena_t *arena, bool **out) {
  *out = NULL;
  live_t l = {.graph = graph, .n_symbols = dt__symenv_symbol_count(graph->env)};
  l.symbols = DT_ARENA_ARRAY(arena, bool, (size_t)l.n_symbols + 1);
  l.scratch = DT_ARENA_ARRAY(arena, uint32_t, (size_t)l.n_symbols + 1);
  l.nodes = DT_ARENA_ARRAY(arena, bool, (size_t)graph->nodes.len + 1);
  if (!l.symbols || !l.scratch || !l.nodes)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < graph->nodes.len && !l.has_items; k++)
    l.has_items = graph->nodes.items[k].op == DT_OP_item;
  for (uint32_t k = 0; k < graph->asserts.len; k++)
    need_symbols(&l, 1, &graph->asserts.items[k].cond);
  for (uint32_t k = 0; k < graph->outputs.len; k++)
    l.nodes[graph->outputs.items[k].id - 1] = true;
  for (uint32_t k = 0; k < graph->updates.len; k++)
    l.nodes[graph->updates.items[k].value.id - 1] = true;
  walk(&l);
  *out = l.nodes;
  return NULL;
}
