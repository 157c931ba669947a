// SPDX-License-Identifier: Apache-2.0
// Which loops of few trips are traced trip by trip. Written out they fuse with what is around them,
// and their state may change its sizes; but trips multiply where loops stand in each other, so all
// of a trace's together have a budget, and what is over it stays a loop: the outer one first, since
// a loop around few written ones costs a call the least.
#include "frontends/onnx/import/trips.h"

#define MOST_WRITTEN 2048 // nodes that all loops written out may come to
#define MOST_NESTED 128   // of one that has loops in it

typedef struct count_t {
  const dt_onnx_model_t *model;
  uint64_t most; // counting stops behind it
  bool loops;    // there are loops among the nodes
} count_t;

// Nodes as they are traced, with every loop's body as often as it may be written out.
static uint64_t count_nodes(count_t *count, const dt_onnx_nodes_t *nodes) {
  uint64_t n = 0;
  for (uint32_t k = 0; k < nodes->len && n <= count->most; k++) {
    const dt_onnx_node_t *node = &nodes->items[k];
    bool loop = dt__imp_is_op(node, "Loop") || dt__imp_is_op(node, "Scan");
    count->loops = count->loops || loop;
    n++;
    if (node->function)
      n += count_nodes(count, &count->model->functions.items[node->function - 1].node);
    for (uint32_t i = 0; i < node->attribute.len && n <= count->most; i++)
      if (node->attribute.items[i].g)
        n += (loop ? DT_IMP_FEW_TRIPS : 1) * count_nodes(count, &node->attribute.items[i].g->node);
  }
  return n;
}

bool dt__imp_write_out(dt_imp_node_t *n, const dt_onnx_graph_t *body, int64_t trips) {
  dt_imp_t *imp = n->imp;
  // What stands in a written loop was counted with it.
  if (imp->writing == 0) {
    count_t count = {.model = &imp->model->file->model, .most = MOST_WRITTEN};
    uint64_t nodes = count_nodes(&count, &body->node) * (trips > 1 ? (uint64_t)trips : 1);
    if (nodes > MOST_WRITTEN - imp->n_written || (count.loops && nodes > MOST_NESTED))
      return false;
    imp->n_written += nodes;
  }
  imp->writing++;
  return true;
}

void dt__imp_written(dt_imp_node_t *n) { n->imp->writing--; }
