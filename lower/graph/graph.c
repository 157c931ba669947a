// SPDX-License-Identifier: Apache-2.0
// Building graphs: nodes, inputs, constants, outputs. Everything a graph holds is copied into its
// arena, but constants' data and origins' strings, which are borrowed.
#include "lower/graph/graph.h"

#include "lower/graph/infer.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"
#include "runtime/tensor/tensor.h"

#include <string.h>

dt_graph_t *dt__graph_create(dt_arena_t *arena, dt_symenv_t *env) {
  dt_graph_t *graph = DT_ARENA_NEW(arena, dt_graph_t);
  if (!graph)
    return NULL;
  graph->arena = arena;
  graph->env = env;
  return graph;
}

// ---- Nodes --------------------------------------------------------------------------------------
// What a `cond` or `while` gives is read by `result` alone.
static bool is_value(const dt_graph_t *graph, dt_node_id_t id) {
  return !dt__op_is_control(dt__graph_node(graph, id)->op);
}

static dt_status_t check_inputs(const dt_graph_t *graph, const dt_op_info_t *info,
                                const dt_node_id_t *inputs, uint32_t n_inputs) {
  if (info->arity >= 0 && (uint32_t)info->arity != n_inputs)
    return DT_FAIL(DT_E_ARGUMENT, "%s: %d arguments are needed, %u given", info->name, info->arity,
                   n_inputs);
  if (info->arity < 0 && n_inputs == 0)
    return DT_FAIL(DT_E_ARGUMENT, "%s: at least one argument is needed", info->name);
  for (uint32_t k = 0; k < n_inputs; k++) {
    if (inputs[k].id == 0 || inputs[k].id > graph->nodes.len)
      return DT_FAIL(DT_E_ARGUMENT, "%s: argument %u is no value of this graph", info->name, k);
    if (!is_value(graph, inputs[k]) && info != dt__op_info(DT_OP_result))
      return DT_FAIL(DT_E_ARGUMENT, "%s: argument %u is no value but what `result` reads",
                     info->name, k);
  }
  return NULL;
}

static dt_status_t append(dt_graph_t *graph, const dt_infer_t *ctx, dt_node_id_t *out) {
  dt_node_id_t *inputs = NULL;
  if (ctx->n_inputs) {
    inputs = DT_ARENA_ARRAY(graph->arena, dt_node_id_t, ctx->n_inputs);
    if (!inputs)
      return DT_NO_MEMORY();
    memcpy(inputs, ctx->inputs, ctx->n_inputs * sizeof(*inputs));
  }
  dt_node_t node = {.op = ctx->op,
                    .dtype = ctx->dtype,
                    .rank = ctx->rank,
                    .n_inputs = ctx->n_inputs,
                    .inputs = inputs,
                    .attrs = ctx->attrs,
                    .origin = ctx->origin};
  memcpy(node.sizes, ctx->sizes, ctx->rank * sizeof(node.sizes[0]));
  if (!DT_VEC_PUSH(graph->arena, &graph->nodes, node))
    return DT_NO_MEMORY();
  out->id = graph->nodes.len;
  return NULL;
}

static dt_status_t add_node(dt_graph_t *graph, dt_op_t op, const dt_node_id_t *inputs,
                            uint32_t n_inputs, const dt_attrs_t *attrs, const dt_origin_t *origin,
                            dt_node_id_t *out) {
  if (!dt__op_exists(op))
    return DT_FAIL(DT_E_ARGUMENT, "%u is no op", (unsigned)op);
  const dt_op_info_t *info = dt__op_info(op);
  DT_TRY(check_inputs(graph, info, inputs, n_inputs));
  if (graph->nodes.len >= DT_GRAPH_MAX_NODES)
    return DT_FAIL(DT_E_LIMIT, "%s: the graph has %u nodes, which is the most", info->name,
                   DT_GRAPH_MAX_NODES);
  dt_attrs_t *own = DT_ARENA_NEW(graph->arena, dt_attrs_t);
  if (!own)
    return DT_NO_MEMORY();
  uint32_t rank = n_inputs ? dt__graph_node(graph, inputs[0])->rank : 0;
  DT_TRY(dt__attrs_normalize(op, rank, attrs, own));
  dt_infer_t ctx = {.graph = graph,
                    .env = graph->env,
                    .op = op,
                    .info = info,
                    .n_inputs = n_inputs,
                    .inputs = inputs,
                    .attrs = own};
  if (origin)
    ctx.origin = *origin;
  if (!ctx.origin.op)
    ctx.origin.op = info->name;
  if (!ctx.origin.file)
    ctx.origin.file = "";
  DT_TRY(dt__infer(&ctx));
  return append(graph, &ctx, out);
}

dt_status_t dt__graph_add(dt_graph_t *graph, dt_op_t op, const dt_node_id_t *inputs,
                          uint32_t n_inputs, const dt_attrs_t *attrs, const dt_origin_t *origin,
                          dt_node_id_t *out) {
  // `out` may be one of the inputs, so it is written last.
  dt_node_id_t made = {0};
  dt_status_t status = add_node(graph, op, inputs, n_inputs, attrs, origin, &made);
  *out = made;
  return status;
}

// ---- Inputs and constants -----------------------------------------------------------------------
static dt_status_t check_declared(const char *what, const char *name, dt_dtype_t dtype,
                                  uint32_t rank) {
  if (!dt__dtype_is_valid(dtype))
    return DT_FAIL(DT_E_DTYPE, "%s \"%s\": %d is no dtype", what, name, (int)dtype);
  if (rank > DT_MAX_RANK)
    return DT_FAIL(DT_E_LIMIT, "%s \"%s\": rank %u, the most is %d", what, name, rank, DT_MAX_RANK);
  return NULL;
}

static dt_status_t check_input_kind(const dt_graph_t *graph, const dt_graph_input_t *input,
                                    const char *name) {
  if (input->align & (input->align - 1))
    return DT_FAIL(DT_E_ARGUMENT, "input \"%s\": alignment %u is no power of two", name,
                   input->align);
  if (!input->is_int)
    return NULL;
  if (input->rank != 0 || dt__dtype_is_float(input->dtype))
    return DT_FAIL(DT_E_ARGUMENT,
                   "input \"%s\": an integer argument is a scalar, not %s of rank %u", name,
                   dt_dtype_name(input->dtype), input->rank);
  if (input->value.id == 0) {
    DT_TRY(dt__symenv_status(graph->env));
    return DT_FAIL(DT_E_ARGUMENT, "input \"%s\": its value is no expression", name);
  }
  return NULL;
}

dt_status_t dt__graph_declare_input(dt_graph_t *graph, const dt_graph_input_t *input) {
  dt_graph_input_t own = *input;
  own.name = input->name ? input->name : "";
  DT_TRY(check_declared("input", own.name, input->dtype, input->rank));
  DT_TRY(check_input_kind(graph, input, own.name));
  for (uint32_t k = 0; k < input->rank; k++) {
    if (input->sizes[k].id != 0 && input->strides[k].id != 0)
      continue;
    DT_TRY(dt__symenv_status(graph->env));
    return DT_FAIL(DT_E_ARGUMENT, "input \"%s\": size or stride %u is no expression", own.name, k);
  }
  if (graph->inputs.len >= DT_GRAPH_MAX_NODES)
    return DT_FAIL(DT_E_LIMIT, "the graph has %u inputs, which is the most", graph->inputs.len);
  own.name = dt__arena_strdup(graph->arena, own.name);
  if (!own.name || !DT_VEC_PUSH(graph->arena, &graph->inputs, own))
    return DT_NO_MEMORY();
  return NULL;
}

dt_status_t dt__graph_declare_constant(dt_graph_t *graph, const dt_graph_constant_t *constant) {
  dt_graph_constant_t own = *constant;
  own.name = constant->name ? constant->name : "";
  DT_TRY(check_declared("constant", own.name, constant->dtype, constant->rank));
  if (constant->key == 0)
    return DT_FAIL(DT_E_ARGUMENT, "constant \"%s\": the key is 0", own.name);
  // Sizes are multiplied with each 0 taken as 1, so that no product of the others may overflow.
  int64_t bytes = (int64_t)dt_dtype_size(constant->dtype);
  bool empty = false;
  for (uint32_t k = 0; k < constant->rank; k++) {
    int64_t size = constant->sizes[k];
    if (size < 0 || size >= DT_SIZE_LIMIT)
      return DT_FAIL(DT_E_SHAPE, "constant \"%s\": size %u is %lld, which is not in [0, %lld)",
                     own.name, k, (long long)size, (long long)DT_SIZE_LIMIT);
    empty = empty || size == 0;
    if (!dt__mul_i64(bytes, size ? size : 1, &bytes) || bytes >= DT_SIZE_LIMIT)
      return DT_FAIL(DT_E_LIMIT, "constant \"%s\": its bytes reach the limit of %lld", own.name,
                     (long long)DT_SIZE_LIMIT);
  }
  if (!constant->data && !empty)
    return DT_FAIL(DT_E_ARGUMENT, "constant \"%s\": no data", own.name);
  if (graph->constants.len >= DT_GRAPH_MAX_NODES)
    return DT_FAIL(DT_E_LIMIT, "the graph has %u constants, which is the most",
                   graph->constants.len);
  own.name = dt__arena_strdup(graph->arena, own.name);
  if (!own.name || !DT_VEC_PUSH(graph->arena, &graph->constants, own))
    return DT_NO_MEMORY();
  return NULL;
}

dt_status_t dt__graph_add_input(dt_graph_t *graph, const dt_graph_input_t *input,
                                dt_node_id_t *out) {
  *out = (dt_node_id_t){0};
  DT_TRY(dt__graph_declare_input(graph, input));
  dt_attrs_t attrs = {0};
  attrs.index = graph->inputs.len - 1;
  dt_status_t status = dt__graph_add(graph, DT_OP_input, NULL, 0, &attrs, NULL, out);
  if (status)
    graph->inputs.len--; // a refused declaration leaves nothing behind
  return status;
}

dt_status_t dt__graph_add_constant(dt_graph_t *graph, const dt_graph_constant_t *constant,
                                   const dt_origin_t *origin, dt_node_id_t *out) {
  *out = (dt_node_id_t){0};
  DT_TRY(dt__graph_declare_constant(graph, constant));
  dt_attrs_t attrs = {0};
  attrs.index = graph->constants.len - 1;
  dt_status_t status = dt__graph_add(graph, DT_OP_constant, NULL, 0, &attrs, origin, out);
  if (status)
    graph->constants.len--;
  return status;
}

dt_status_t dt__graph_add_capture(dt_graph_t *graph, const dt_graph_capture_t *capture) {
  dt_graph_capture_t own = *capture;
  if (capture->value.id == 0) {
    DT_TRY(dt__symenv_status(graph->env));
    return DT_FAIL(DT_E_ARGUMENT, "capture \"%s\": its value is no expression", capture->name);
  }
  own.name = dt__arena_strdup(graph->arena, capture->name);
  if (!own.name || !DT_VEC_PUSH(graph->arena, &graph->captures, own))
    return DT_NO_MEMORY();
  return NULL;
}

dt_status_t dt__graph_add_update(dt_graph_t *graph, const dt_graph_update_t *update) {
  if (update->input >= graph->inputs.len || graph->inputs.items[update->input].is_int)
    return DT_FAIL(DT_E_ARGUMENT, "update of %u, which is no tensor input", update->input);
  if (update->value.id == 0 || update->value.id > graph->nodes.len)
    return DT_FAIL(DT_E_ARGUMENT, "update of input %u: %%%u is no value of this graph",
                   update->input, update->value.id);
  const dt_graph_input_t *input = &graph->inputs.items[update->input];
  const dt_node_t *value = dt__graph_node(graph, update->value);
  if (!is_value(graph, update->value))
    return DT_FAIL(DT_E_ARGUMENT, "update of input %u: no value but what `result` reads",
                   update->input);
  if (value->dtype != input->dtype || value->rank != input->rank)
    return DT_FAIL(DT_E_ARGUMENT, "update of input %u: %s of rank %u; expected %s of rank %u",
                   update->input, dt_dtype_name(value->dtype), value->rank,
                   dt_dtype_name(input->dtype), input->rank);
  for (uint32_t k = 0; k < graph->updates.len; k++) {
    if (graph->updates.items[k].input == update->input)
      return DT_FAIL(DT_E_ARGUMENT, "input %u is updated twice", update->input);
  }
  if (!DT_VEC_PUSH(graph->arena, &graph->updates, *update))
    return DT_NO_MEMORY();
  return NULL;
}

static bool is_order(const dt_graph_order_t *order, uint32_t rank) {
  uint32_t seen = 0;
  for (uint32_t k = 0; k < rank; k++) {
    if (order->dims[k] >= rank)
      return false;
    seen |= 1u << order->dims[k];
  }
  return seen == (1u << rank) - 1;
}

dt_status_t dt__graph_add_order(dt_graph_t *graph, const dt_graph_order_t *order) {
  uint32_t k = graph->orders.len;
  if (k >= graph->outputs.len)
    return DT_FAIL(DT_E_ARGUMENT, "the order of output %u of %u", k, graph->outputs.len);
  const dt_node_t *node = dt__graph_node(graph, graph->outputs.items[k]);
  if (!is_order(order, node->rank))
    return DT_FAIL(DT_E_ARGUMENT, "output %u: no order of its %u dims", k, node->rank);
  if (order->like > graph->inputs.len ||
      (order->like && graph->inputs.items[order->like - 1].rank != node->rank))
    return DT_FAIL(DT_E_ARGUMENT, "output %u: rank %u, and like no input of it", k, node->rank);
  for (uint32_t d = 0; dt__dtype_is_packed(node->dtype) && d < node->rank; d++)
    if (order->dims[d] != d)
      return DT_FAIL(DT_E_UNSUPPORTED,
                     "output %u: elements of %s share bytes, and tensors of them are row-major; "
                     "expected no other order",
                     k, dt_dtype_name(node->dtype));
  return DT_VEC_PUSH(graph->arena, &graph->orders, *order) ? NULL : DT_NO_MEMORY();
}

bool dt__graph_input_order(const dt_graph_t *graph, uint32_t index, uint32_t *out) {
  const dt_graph_input_t *input = &graph->inputs.items[index];
  for (uint32_t k = 0; k < graph->orders.len; k++) {
    const dt_graph_order_t *order = &graph->orders.items[k];
    if (order->like != index + 1)
      continue;
    uint32_t found = DT_ORDER_ROW_MAJOR;
    for (uint32_t place = 0; place < input->rank; place++)
      found = dt__order_with(found, place, order->dims[place]);
    bool apart = found == DT_ORDER_ROW_MAJOR && !input->contiguous && input->rank;
    *out = apart ? DT_ORDER_APART : found;
    return true;
  }
  return false;
}

dt_status_t dt__graph_add_output(dt_graph_t *graph, dt_node_id_t value) {
  if (value.id == 0 || value.id > graph->nodes.len)
    return DT_FAIL(DT_E_ARGUMENT, "output %u is no value of this graph", graph->outputs.len);
  if (!is_value(graph, value))
    return DT_FAIL(DT_E_ARGUMENT, "output %u is no value but what `result` reads",
                   graph->outputs.len);
  if (graph->outputs.len >= DT_GRAPH_MAX_NODES)
    return DT_FAIL(DT_E_LIMIT, "the graph has %u outputs, which is the most", graph->outputs.len);
  if (!DT_VEC_PUSH(graph->arena, &graph->outputs, value))
    return DT_NO_MEMORY();
  return NULL;
}
