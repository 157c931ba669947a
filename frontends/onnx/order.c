// SPDX-License-Identifier: Apache-2.0
// Nodes in an order in which each comes after what it reads. The format asks for that; tools that
// rewrite models append nodes, and other runtimes sort. Nodes that are in order stay as they are,
// others keep their order but for those that are drawn before their first reader.
#include "frontends/onnx/check.h"
#include "runtime/base/status.h"

typedef enum node_state_t { NODE_NEW, NODE_WAITS, NODE_PLACED } node_state_t;

typedef struct order_t {
  dt_onnx_check_t *check;
  const dt_onnx_nodes_t *nodes;
  uint32_t reader;          // whose reads are looked at
  bool ahead;               // some node reads what a later one makes
  bool collect;             // keep them
  DT_VEC(uint32_t) needs;   // nodes that are read, one reader after another
  uint32_t *first;          // by node, where its own begin in `needs`; and one more
  DT_VEC(uint32_t) waiting; // nodes whose needs come first
  uint32_t *next;           // by node, which need is the next to look at
  node_state_t *state;      // by node
  bool circle;              // nodes need each other
  dt_onnx_node_t *placed;
  uint32_t n_placed;
  dt_status_t late; // what ended the pace
} order_t;

// ---- Reads ----------------------------------------------------------------------------------------
// Names that stand in no scope around the nodes, and that one of them makes.
static bool read_name(order_t *o, dt_onnx_name_t name) {
  uint32_t maker = name.id ? o->check->maker[name.id] : 0;
  if (!maker || maker - 1 == o->reader || dt__onnx_is_defined(o->check, name))
    return true;
  o->ahead |= maker - 1 > o->reader;
  uint32_t node = maker - 1;
  return !o->collect || DT_VEC_PUSH(&o->check->scratch, &o->needs, node);
}

static bool read_node(order_t *o, const dt_onnx_node_t *node);

// What a graph within a node reads may stand outside of it.
static bool read_graph(order_t *o, const dt_onnx_graph_t *graph) {
  bool ok = true;
  for (uint32_t k = 0; ok && k < graph->node.len; k++)
    ok = read_node(o, &graph->node.items[k]);
  for (uint32_t k = 0; ok && k < graph->output.len; k++)
    ok = read_name(o, graph->output.items[k].name);
  return ok;
}

static bool read_node(order_t *o, const dt_onnx_node_t *node) {
  o->late = dt__onnx_go_on(o->check->pace, 4 + (uint64_t)node->input.len);
  bool ok = !o->late;
  for (uint32_t k = 0; ok && k < node->input.len; k++)
    ok = read_name(o, node->input.items[k]);
  for (uint32_t k = 0; ok && k < node->attribute.len; k++) {
    const dt_onnx_attribute_t *a = &node->attribute.items[k];
    ok = !a->g || read_graph(o, a->g);
    for (uint32_t i = 0; ok && i < a->graphs.len; i++)
      ok = read_graph(o, &a->graphs.items[i]);
  }
  return ok;
}

static bool read_all(order_t *o) {
  bool ok = true;
  for (o->reader = 0; ok && o->reader < o->nodes->len; o->reader++) {
    if (o->collect)
      o->first[o->reader] = o->needs.len;
    ok = read_node(o, &o->nodes->items[o->reader]);
  }
  if (o->collect)
    o->first[o->nodes->len] = o->needs.len;
  return ok;
}

// ---- Sorting --------------------------------------------------------------------------------------
static bool wait_for(order_t *o, uint32_t node) {
  o->state[node] = NODE_WAITS;
  return DT_VEC_PUSH(&o->check->scratch, &o->waiting, node);
}

// Places the node behind what it needs.
static bool place(order_t *o, uint32_t node) {
  o->late = dt__onnx_go_on(o->check->pace, 8 + (uint64_t)o->first[node + 1] - o->first[node]);
  bool ok = !o->late && (o->state[node] == NODE_PLACED || wait_for(o, node));
  while (ok && o->waiting.len > 0) {
    uint32_t at = o->waiting.items[o->waiting.len - 1];
    if (o->next[at] == o->first[at + 1]) {
      o->placed[o->n_placed++] = o->nodes->items[at];
      o->state[at] = NODE_PLACED;
      o->waiting.len--;
      continue;
    }
    uint32_t need = o->needs.items[o->next[at]++];
    o->circle |= o->state[need] == NODE_WAITS;
    if (o->state[need] == NODE_NEW)
      ok = wait_for(o, need);
  }
  return ok;
}

static dt_status_t sort(order_t *o, dt_onnx_nodes_t *nodes) {
  dt_arena_t *scratch = &o->check->scratch;
  uint32_t len = nodes->len;
  o->collect = true;
  o->first = DT_ARENA_ARRAY(scratch, uint32_t, (size_t)len + 1);
  o->next = DT_ARENA_ARRAY(scratch, uint32_t, len);
  o->state = DT_ARENA_ARRAY(scratch, node_state_t, len);
  o->placed = DT_ARENA_ARRAY(o->check->arena, dt_onnx_node_t, len);
  if (!o->first || !o->next || !o->state || !o->placed || !read_all(o))
    return o->late ? o->late : DT_NO_MEMORY();
  for (uint32_t k = 0; k < len; k++)
    o->next[k] = o->first[k];
  for (uint32_t k = 0; k < len; k++)
    if (!place(o, k))
      return o->late ? o->late : DT_NO_MEMORY();
  // The check of what is read names nodes that need each other, as they stand.
  if (!o->circle)
    nodes->items = o->placed;
  return NULL;
}

dt_status_t dt__onnx_sort_nodes(dt_onnx_check_t *c, dt_onnx_nodes_t *nodes) {
  order_t order = {.check = c, .nodes = nodes};
  for (uint32_t k = 0; k < nodes->len; k++)
    for (uint32_t i = 0; i < nodes->items[k].output.len; i++)
      c->maker[nodes->items[k].output.items[i].id] = k + 1;
  const dt_onnx_nodes_t before = *nodes;
  (void)read_all(&order);
  dt_status_t status = order.late;
  if (!status && order.ahead)
    status = sort(&order, nodes);
  // Graphs within the nodes have makers of their own.
  for (uint32_t k = 0; k < before.len; k++)
    for (uint32_t i = 0; i < before.items[k].output.len; i++)
      c->maker[before.items[k].output.items[i].id] = 0;
  return status;
}
