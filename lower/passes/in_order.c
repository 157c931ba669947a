// SPDX-License-Identifier: Apache-2.0
// Running sums of floats whose rows may not be summed in parts: they are marked, so that
// decomposition leaves the rows whole. Stands before it. Other sums are one node up to lowering,
// and what makes loops of them keeps their order (dt_target_t.strict_fp).
#include "lower/passes/passes.h"
#include "lower/passes/rewrite.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

static dt_status_t visit(dt_rewrite_t *rw, const dt_node_t *node, const dt_node_id_t *inputs,
                         dt_node_id_t *out) {
  if (node->op != DT_OP_cumsum || !dt__dtype_is_float(node->dtype) ||
      (node->attrs->mode & DT_SCAN_WHOLE))
    return dt__rewrite_copy(rw, node, inputs, out);
  dt_attrs_t attrs = *node->attrs;
  attrs.mode |= DT_SCAN_WHOLE;
  rw->changed = true;
  return dt__graph_add(rw->to, node->op, inputs, node->n_inputs, &attrs, &node->origin, out);
}

static dt_status_t run_one(dt_arena_t *arena, const dt_graph_t *graph, const dt_graph_t **out) {
  return dt__rewrite(arena, graph, visit, NULL, NULL, out);
}

dt_status_t dt__pass_in_order(dt_arena_t *arena, const dt_graph_t *graph, const dt_graph_t **out) {
  return dt__rewrite_bodies(arena, graph, run_one, out);
}
