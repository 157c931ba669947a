// SPDX-License-Identifier: Apache-2.0
// The checker: ids, declarations, and each node's inference run again on a clone of the
// environment, so that it learns nothing and asks for no guard. A demand on sizes fails only where
// it is known not to hold; that it holds at each call is what the guards of building are for.
#include "lower/graph/infer.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#include <string.h>

// Any failure of a check as what it means here: the graph is malformed at `where`.
static dt_status_t malformed(dt_status_t status, const char *where, uint32_t id) {
  if (!status || dt_status_code(status) == DT_E_NO_MEMORY)
    return status;
  dt_status_t made = DT_FAIL(DT_E_FORMAT, "%s%u: %s", where, id, dt_status_message(status));
  dt_status_free(status);
  return made;
}

static dt_status_t check_ids(const dt_graph_t *graph, uint32_t id) {
  const dt_node_t *node = &graph->nodes.items[id - 1];
  if ((unsigned)node->op >= DT_OP_COUNT || node->op == DT_OP_NONE)
    return DT_FAIL(DT_E_FORMAT, "%u is no op", (unsigned)node->op);
  const dt_op_info_t *info = dt__op_info(node->op);
  if (!node->attrs)
    return DT_FAIL(DT_E_FORMAT, "%s: no attributes", info->name);
  if (info->arity >= 0 ? node->n_inputs != (uint32_t)info->arity : node->n_inputs == 0)
    return DT_FAIL(DT_E_FORMAT, "%s: %u arguments", info->name, node->n_inputs);
  for (uint32_t k = 0; k < node->n_inputs; k++) {
    if (node->inputs[k].id == 0 || node->inputs[k].id >= id)
      return DT_FAIL(DT_E_FORMAT, "%s: argument %u is %%%u, which does not come before it",
                     info->name, k, node->inputs[k].id);
  }
  if (node->rank > DT_MAX_RANK)
    return DT_FAIL(DT_E_FORMAT, "%s: rank %u", info->name, node->rank);
  for (uint32_t k = 0; k < node->rank; k++) {
    if (node->sizes[k].id == 0)
      return DT_FAIL(DT_E_FORMAT, "%s: size %u is no expression", info->name, k);
  }
  return NULL;
}

static dt_status_t check_node(const dt_graph_t *graph, dt_symenv_t *env, uint32_t id) {
  DT_TRY(check_ids(graph, id));
  const dt_node_t *node = &graph->nodes.items[id - 1];
  uint32_t rank = node->n_inputs ? dt__graph_node(graph, node->inputs[0])->rank : 0;
  dt_attrs_t attrs;
  DT_TRY(dt__attrs_normalize(node->op, rank, node->attrs, &attrs));
  dt_infer_t ctx = {.graph = graph,
                    .env = env,
                    .check_only = true,
                    .op = node->op,
                    .info = dt__op_info(node->op),
                    .n_inputs = node->n_inputs,
                    .inputs = node->inputs,
                    .attrs = &attrs};
  DT_TRY(dt__infer(&ctx));
  if (!dt__attrs_equal(&attrs, node->attrs))
    return dt__infer_fail(&ctx, DT_E_FORMAT, "attributes are not in normal form");
  if (ctx.dtype != node->dtype)
    return dt__infer_fail(&ctx, DT_E_FORMAT, "the dtype must be %s, not %s",
                          dt_dtype_name(ctx.dtype), dt_dtype_name(node->dtype));
  if (ctx.rank != node->rank)
    return dt__infer_fail(&ctx, DT_E_FORMAT, "the rank must be %u, not %u", ctx.rank, node->rank);
  for (uint32_t k = 0; k < ctx.rank; k++) {
    if (dt__sym_known(env, dt__sym_eq(env, ctx.sizes[k], node->sizes[k])) == DT_FALSE)
      return dt__infer_fail(&ctx, DT_E_FORMAT,
                            "size %u of the result cannot be what inference says", k);
  }
  return NULL;
}

static dt_status_t check_declarations(const dt_graph_t *graph) {
  for (uint32_t k = 0; k < graph->inputs.len; k++) {
    const dt_graph_input_t *input = &graph->inputs.items[k];
    if (!input->name || !dt__dtype_is_valid(input->dtype) || input->rank > DT_MAX_RANK)
      return DT_FAIL(DT_E_FORMAT, "input %u: no name, dtype or rank", k);
    for (uint32_t dim = 0; dim < input->rank; dim++) {
      if (input->sizes[dim].id == 0 || input->strides[dim].id == 0)
        return DT_FAIL(DT_E_FORMAT, "input %u: size or stride %u is no expression", k, dim);
    }
  }
  for (uint32_t k = 0; k < graph->constants.len; k++) {
    const dt_graph_constant_t *constant = &graph->constants.items[k];
    bool empty = false;
    if (!constant->name || !dt__dtype_is_valid(constant->dtype) || constant->rank > DT_MAX_RANK ||
        constant->key == 0)
      return DT_FAIL(DT_E_FORMAT, "constant %u: no name, dtype, rank or key", k);
    for (uint32_t dim = 0; dim < constant->rank; dim++) {
      if (constant->sizes[dim] < 0 || constant->sizes[dim] >= DT_SIZE_LIMIT)
        return DT_FAIL(DT_E_FORMAT, "constant %u: size %u is out of range", k, dim);
      empty = empty || constant->sizes[dim] == 0;
    }
    if (!constant->data && !empty)
      return DT_FAIL(DT_E_FORMAT, "constant %u: no data", k);
  }
  return NULL;
}

dt_status_t dt__graph_verify(const dt_graph_t *graph) {
  DT_TRY(check_declarations(graph));
  dt_symenv_t *env = NULL;
  DT_TRY(dt__symenv_clone(graph->env, &env));
  dt_status_t status = NULL;
  for (uint32_t id = 1; id <= graph->nodes.len && !status; id++)
    status = malformed(check_node(graph, env, id), "node %", id);
  dt__symenv_destroy(env);
  DT_TRY(status);
  for (uint32_t k = 0; k < graph->outputs.len; k++) {
    if (graph->outputs.items[k].id == 0 || graph->outputs.items[k].id > graph->nodes.len)
      return DT_FAIL(DT_E_FORMAT, "output %u is no value of the graph", k);
  }
  for (uint32_t k = 0; k < graph->asserts.len; k++) {
    if (graph->asserts.items[k].cond.id == 0)
      return DT_FAIL(DT_E_FORMAT, "assert %u has no condition", k);
  }
  return NULL;
}
