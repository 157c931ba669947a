// SPDX-License-Identifier: Apache-2.0
// Common subexpressions: two nodes of one op with equal inputs (in any order where the op commutes)
// and attributes become one. Stands after folding, which makes equal what was written differently.
#include "lower/passes/passes.h"
#include "lower/passes/rewrite.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"

#include <string.h>

typedef struct cse_t {
  uint32_t *table; // open addressing: new node ids, 0 empty
  uint32_t mask;
} cse_t;

static bool commutes(const dt_node_t *node) {
  return node->n_inputs == 2 && (dt__op_info(node->op)->flags & DT_OPF_COMM);
}

static uint64_t node_hash(const dt_node_t *node, const dt_node_id_t *inputs) {
  uint64_t hash = dt__hash(node->attrs, sizeof(*node->attrs), (uint64_t)node->op);
  if (commutes(node))
    return dt__hash_mix(hash, (uint64_t)inputs[0].id + inputs[1].id);
  return dt__hash_mix(hash, dt__hash(inputs, node->n_inputs * sizeof(*inputs), 0));
}

static bool same_inputs(const dt_node_t *a, const dt_node_id_t *inputs) {
  if (a->n_inputs == 0 || memcmp(a->inputs, inputs, a->n_inputs * sizeof(*inputs)) == 0)
    return true;
  return commutes(a) && a->inputs[0].id == inputs[1].id && a->inputs[1].id == inputs[0].id;
}

static bool same_node(const dt_node_t *a, const dt_node_t *b, const dt_node_id_t *inputs) {
  return a->op == b->op && a->dtype == b->dtype && a->n_inputs == b->n_inputs &&
         dt__attrs_equal(a->attrs, b->attrs) && same_inputs(a, inputs);
}

static dt_status_t share(dt_rewrite_t *rw, const dt_node_t *node, const dt_node_id_t *inputs,
                         dt_node_id_t *out) {
  cse_t *cse = rw->user;
  uint32_t at = (uint32_t)node_hash(node, inputs) & cse->mask;
  for (; cse->table[at]; at = (at + 1) & cse->mask) {
    dt_node_id_t other = {cse->table[at]};
    if (same_node(dt__graph_node(rw->to, other), node, inputs)) {
      *out = other;
      rw->changed = true;
      return NULL;
    }
  }
  DT_TRY(dt__rewrite_copy(rw, node, inputs, out));
  cse->table[at] = out->id;
  return NULL;
}

static dt_status_t run_one(dt_arena_t *arena, const dt_graph_t *graph, const dt_graph_t **out) {
  cse_t cse = {.mask = 15};
  while (cse.mask < graph->nodes.len * 2)
    cse.mask = cse.mask * 2 + 1;
  cse.table = DT_ARENA_ARRAY(arena, uint32_t, (size_t)cse.mask + 1);
  if (!cse.table)
    return DT_NO_MEMORY();
  return dt__rewrite(arena, graph, share, NULL, &cse, out);
}

dt_status_t dt__pass_cse(dt_arena_t *arena, const dt_graph_t *graph, const dt_graph_t **out) {
  return dt__rewrite_bodies(arena, graph, run_one, out);
}
