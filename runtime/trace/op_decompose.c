// SPDX-License-Identifier: Apache-2.0
// Calls of users' ops that no kernel computes on the device: what they are decomposed into. Passes
// at DT_POINT_TRACED have seen them whole.
#include "runtime/trace/rewriter.h"

#include "runtime/trace/op_call.h"

#include <string.h>

// What a decomposition gives is what infer said.
static bool check_result(dt_op_call_t *call, uint32_t k, dt_value_t result) {
  dt_trace_t *trace = call->trace;
  const dt_external_result_t *said = &call->external.results[k];
  const char *name = call->external.name;
  const dt_node_t *node = dt__trace_node(trace, result, "a result of the decomposition");
  if (!node)
    return false;
  bool same = node->dtype == said->dtype && node->rank == said->rank &&
              dt__syms_known_eq(trace->env, said->rank, node->sizes, said->sizes);
  if (!same)
    DT_TRACE_FAIL(
        trace, DT_E_SHAPE,
        "%s: result %u of the decomposition is not of the dtype and sizes that infer said", name,
        k);
  return same;
}

bool dt__op_decompose(dt_op_call_t *call, dt_value_t *results) {
  dt_trace_t *trace = call->trace;
  const dt_op_options_t *op = &call->def->options;
  memset(results, 0, DT_OP_MAX_RESULTS * sizeof(*results));
  dt_status_t returned = op->decompose(call, results, op->closure);
  if (trace->status) {
    if (returned != trace->status)
      dt_status_free(returned);
    return false;
  }
  if (returned)
    return dt__trace_take(trace, dt__status_annotate(returned, "%s", op->name));
  for (uint32_t k = 0; k < call->external.n_results; k++)
    if (!check_result(call, k, results[k]))
      return false;
  return true;
}

// ---- All calls of a graph -----------------------------------------------------------------------
// The nodes that read the results, the call's own first.
static dt_status_t replace_results(dt_rewriter_t *r, dt_value_t node, const dt_value_t *results) {
  dt_node_info_t info = {.struct_size = sizeof(info)};
  DT_TRY(dt_rewriter_node(r, node, &info));
  for (uint32_t k = info.n_users; k-- > 0;) {
    dt_value_t user = dt_rewriter_user(r, node, k);
    dt_node_info_t read = {.struct_size = sizeof(read)};
    DT_TRY(dt_rewriter_node(r, user, &read));
    if (strcmp(read.op, "result") != 0)
      continue;
    DT_TRY(dt_rewriter_replace(r, user, results[read.index]));
    DT_TRY(dt_rewriter_erase(r, user));
  }
  return dt_rewriter_replace(r, node, results[0]);
}

static dt_status_t decompose_one(dt_rewriter_t *r, dt_value_t value,
                                 const dt_graph_external_t *external) {
  const dt_node_t *node = dt__graph_node(&r->work, (dt_node_id_t){value.id});
  dt_value_t inputs[DT_OP_MAX_INPUTS], results[DT_OP_MAX_RESULTS];
  dt_op_call_t call = {.trace = &r->trace,
                       .def = external->def,
                       .origin = node->origin,
                       .external = *external,
                       .n_inputs = node->n_inputs,
                       .inputs = inputs};
  for (uint32_t k = 0; k < node->n_inputs; k++)
    inputs[k] = dt__trace_value(&r->trace, node->inputs[k]);
  DT_TRY(dt_rewriter_at(r, value));
  r->trace.origin = node->origin;
  r->trace.origin.op = external->name;
  if (!dt__op_decompose(&call, results))
    return NULL; // the trace's failure is the pass's
  return replace_results(r, value, results);
}

static dt_status_t decompose_all(dt_rewriter_t *r, void *closure) {
  (void)closure;
  dt_value_t next;
  for (dt_value_t at = dt_rewriter_next(r, (dt_value_t){0}); at.id; at = next) {
    const dt_node_t *node = dt__graph_node(&r->work, (dt_node_id_t){at.id});
    const dt_graph_external_t *external =
        node->op == DT_OP_external ? dt__graph_external(&r->work, node) : NULL;
    bool apart = external && external->def && !dt__op_has_kernel(external->def, r->site->device);
    if (apart)
      DT_TRY(decompose_one(r, at, external));
    next = dt_rewriter_next(r, at);
    if (r->trace.status)
      return NULL; // which is the pass's failure
    if (apart)
      DT_TRY(dt_rewriter_erase(r, at));
  }
  return NULL;
}

static bool has_calls(const dt_graph_t *graph) {
  bool has = graph->externals.len != 0;
  for (uint32_t k = 0; k < graph->controls.len && !has; k++)
    for (uint32_t b = 0; b < dt__control_own_n(&graph->controls.items[k]) && !has; b++)
      has = has_calls(graph->controls.items[k].bodies[b]);
  return has;
}

dt_status_t dt__ops_decompose(const dt_site_t *site, dt_arena_t *arena, const dt_graph_t *graph,
                              const dt_graph_t **out) {
  *out = graph;
  return has_calls(graph)
             ? dt__pass_run("decompositions", decompose_all, NULL, site, arena, graph, out)
             : NULL;
}
