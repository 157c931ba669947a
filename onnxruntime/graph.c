// SPDX-License-Identifier: Apache-2.0
// Graphs of onnxruntime's: nodes, and the values between them by name.
#include "onnxruntime/graph.h"

// ---- Values -----------------------------------------------------------------------------------------
// FNV-1a.
static uint32_t hash_of(const char *name) {
  uint32_t hash = 0x811c9dc5;
  for (; *name; name++)
    hash = (hash ^ (unsigned char)*name) * 0x01000193;
  return hash;
}

// The name's place in the table, or a free one.
static uint32_t *place_of(const ep_graph_t *graph, const char *name) {
  uint32_t at = hash_of(name) & graph->mask;
  while (graph->table[at] && strcmp(graph->values[graph->table[at] - 1].name, name) != 0)
    at = (at + 1) & graph->mask;
  return &graph->table[at];
}

uint32_t ep_graph_find(const ep_graph_t *graph, const char *name) {
  uint32_t *place = place_of(graph, name);
  return *place ? *place - 1 : EP_NONE;
}

// The value that `info` tells of; EP_NONE for NULL, and for one without a name.
static ort_status_t *add_value(const ort_api_t *api, ep_graph_t *graph,
                               const ort_value_info_t *info, uint32_t *out) {
  const char *name = NULL;
  *out = EP_NONE;
  if (!info)
    return NULL;
  EP_TRY(api->GetValueInfoName(info, &name));
  if (!name || !name[0])
    return NULL;
  uint32_t *place = place_of(graph, name);
  if (!*place) {
    ep_value_t *value = &graph->values[graph->n_values];
    *value = (ep_value_t){.name = name, .info = info, .maker = EP_NONE};
    EP_TRY(api->ValueInfo_IsConstantInitializer(info, &value->constant));
    *place = ++graph->n_values;
  }
  *out = *place - 1;
  return NULL;
}

// ---- Nodes ------------------------------------------------------------------------------------------
typedef ort_status_t *(*count_fn_t)(const ort_node_t *, size_t *);
typedef ort_status_t *(*list_fn_t)(const ort_node_t *, const ort_value_info_t **, size_t);

static ort_status_t *list_values(const ort_api_t *api, ep_graph_t *graph, const ort_node_t *node,
                                 list_fn_t list, size_t n, uint32_t *out) {
  const ort_value_info_t **infos = EP_ARRAY(graph->arena, const ort_value_info_t *, n + 1);
  if (!infos)
    return ep_no_memory(api);
  if (n > 0)
    EP_TRY(list(node, infos, n));
  for (size_t k = 0; k < n; k++)
    EP_TRY(add_value(api, graph, infos[k], &out[k]));
  return NULL;
}

typedef struct counts_t {
  size_t in, implicit, out;
} counts_t;

static ort_status_t *count(const ort_api_t *api, const ort_node_t *node, counts_t *out) {
  EP_TRY(api->Node_GetNumInputs(node, &out->in));
  EP_TRY(api->Node_GetNumImplicitInputs(node, &out->implicit));
  return api->Node_GetNumOutputs(node, &out->out);
}

static ort_status_t *read_node(const ort_api_t *api, ep_graph_t *graph, uint32_t index,
                               const counts_t *counts) {
  ep_node_t *node = &graph->nodes[index];
  const char *provider = NULL;
  EP_TRY(api->Node_GetOperatorType(node->node, &node->op));
  EP_TRY(api->Node_GetDomain(node->node, &node->domain));
  EP_TRY(api->Node_GetEpName(node->node, &provider));
  node->taken = provider && provider[0];
  node->n_own = (uint32_t)counts->in;
  node->n_in = (uint32_t)(counts->in + counts->implicit);
  node->n_out = (uint32_t)counts->out;
  node->in = EP_ARRAY(graph->arena, uint32_t, node->n_in + 1u);
  node->out = EP_ARRAY(graph->arena, uint32_t, node->n_out + 1u);
  if (!node->in || !node->out)
    return ep_no_memory(api);
  EP_TRY(list_values(api, graph, node->node, api->Node_GetInputs, counts->in, node->in));
  EP_TRY(list_values(api, graph, node->node, api->Node_GetImplicitInputs, counts->implicit,
                     node->in + counts->in));
  EP_TRY(list_values(api, graph, node->node, api->Node_GetOutputs, counts->out, node->out));
  for (uint32_t k = 0; k < node->n_out; k++)
    if (node->out[k] != EP_NONE)
      graph->values[node->out[k]].maker = index;
  return NULL;
}

static ort_status_t *make_table(const ort_api_t *api, ep_graph_t *graph, size_t n_values) {
  graph->mask = 15;
  while (graph->mask < 2 * n_values)
    graph->mask = 2 * graph->mask + 1;
  graph->values = EP_ARRAY(graph->arena, ep_value_t, n_values + 1);
  graph->table = EP_ARRAY(graph->arena, uint32_t, (size_t)graph->mask + 1);
  return graph->values && graph->table ? NULL : ep_no_memory(api);
}

static ort_status_t *read_nodes(const ort_api_t *api, ep_graph_t *graph,
                                const ort_node_t *const *nodes, size_t n, size_t n_more) {
  counts_t *counts = EP_ARRAY(graph->arena, counts_t, n + 1);
  graph->nodes = EP_ARRAY(graph->arena, ep_node_t, n + 1);
  if (!counts || !graph->nodes)
    return ep_no_memory(api);
  size_t n_values = n_more;
  for (size_t k = 0; k < n; k++) {
    EP_TRY(count(api, nodes[k], &counts[k]));
    n_values += counts[k].in + counts[k].implicit + counts[k].out;
  }
  EP_TRY(make_table(api, graph, n_values));
  for (uint32_t k = 0; k < n; k++) {
    graph->nodes[k].node = nodes[k];
    EP_TRY(read_node(api, graph, k, &counts[k]));
  }
  graph->n_nodes = (uint32_t)n;
  return NULL;
}

typedef ort_status_t *(*count_graph_fn_t)(const ort_graph_t *, size_t *);
typedef ort_status_t *(*list_graph_fn_t)(const ort_graph_t *, const ort_value_info_t **, size_t);

typedef struct infos_t {
  const ort_value_info_t **items;
  size_t n;
} infos_t;

static ort_status_t *list_infos(const ort_api_t *api, const ep_graph_t *graph,
                                count_graph_fn_t count_of, list_graph_fn_t list, infos_t *out) {
  EP_TRY(count_of(graph->graph, &out->n));
  out->items = EP_ARRAY(graph->arena, const ort_value_info_t *, out->n + 1);
  if (!out->items)
    return ep_no_memory(api);
  return out->n > 0 ? list(graph->graph, out->items, out->n) : NULL;
}

ort_status_t *ep_graph_read(const ort_api_t *api, const ort_graph_t *graph, ep_arena_t *arena,
                            ep_graph_t *out) {
  infos_t inputs = {0}, outputs = {0};
  size_t n = 0;
  uint32_t value = EP_NONE;
  *out = (ep_graph_t){.graph = graph, .arena = arena};
  EP_TRY(api->Graph_GetNumNodes(graph, &n));
  EP_TRY(list_infos(api, out, api->Graph_GetNumInputs, api->Graph_GetInputs, &inputs));
  EP_TRY(list_infos(api, out, api->Graph_GetNumOutputs, api->Graph_GetOutputs, &outputs));
  const ort_node_t **nodes = EP_ARRAY(arena, const ort_node_t *, n + 1);
  if (!nodes)
    return ep_no_memory(api);
  if (n > 0)
    EP_TRY(api->Graph_GetNodes(graph, nodes, n));
  EP_TRY(read_nodes(api, out, nodes, n, inputs.n + outputs.n));
  for (size_t k = 0; k < inputs.n; k++)
    EP_TRY(add_value(api, out, inputs.items[k], &value));
  for (size_t k = 0; k < outputs.n; k++) {
    EP_TRY(add_value(api, out, outputs.items[k], &value));
    if (value != EP_NONE)
      out->values[value].output = true;
  }
  return NULL;
}

ort_status_t *ep_graph_of_node(const ort_api_t *api, const ort_graph_t *within,
                               const ort_node_t *node, ep_arena_t *arena, ep_graph_t *out) {
  *out = (ep_graph_t){.graph = within, .arena = arena};
  EP_TRY(read_nodes(api, out, &node, 1, 0));
  for (uint32_t k = 0; k < out->nodes[0].n_out; k++)
    if (out->nodes[0].out[k] != EP_NONE)
      out->values[out->nodes[0].out[k]].output = true;
  return NULL;
}

// ---- Types ------------------------------------------------------------------------------------------
static ort_status_t *read_dims(const ort_api_t *api, const ort_shape_t *shape, ep_arena_t *arena,
                               ep_type_t *out) {
  size_t rank = 0;
  EP_TRY(api->GetDimensionsCount(shape, &rank));
  out->rank = (uint32_t)rank;
  out->dims = EP_ARRAY(arena, int64_t, rank + 1);
  out->names = EP_ARRAY(arena, const char *, rank + 1);
  if (!out->dims || !out->names)
    return ep_no_memory(api);
  if (rank == 0)
    return NULL;
  EP_TRY(api->GetDimensions(shape, out->dims, rank));
  return api->GetSymbolicDimensions(shape, out->names, rank);
}

ort_status_t *ep_type_of(const ort_api_t *api, const ort_value_info_t *info, ep_arena_t *arena,
                         ep_type_t *out) {
  const ort_type_t *type = NULL;
  const ort_shape_t *shape = NULL;
  *out = (ep_type_t){.kind = ORT_UNKNOWN};
  EP_TRY(api->GetValueInfoTypeInfo(info, &type));
  if (!type)
    return NULL;
  EP_TRY(api->GetOnnxTypeFromTypeInfo(type, &out->kind));
  if (out->kind != ORT_TENSOR)
    return NULL;
  EP_TRY(api->CastTypeInfoToTensorInfo(type, &shape));
  if (!shape)
    return NULL;
  EP_TRY(api->GetTensorElementType(shape, &out->element));
  out->ranked = !api->TensorTypeAndShape_HasShape || api->TensorTypeAndShape_HasShape(shape);
  return out->ranked ? read_dims(api, shape, arena, out) : NULL;
}

// ---- Element types ----------------------------------------------------------------------------------
static const struct {
  ort_element_t element;
  uint32_t onnx;
  dt_dtype_t dtype; // packed ones lie in memory in another way
} elements[] = {
    {ORT_F32, 1, DT_F32},
    {ORT_U8, 2, DT_U8},
    {ORT_I8, 3, DT_I8},
    {ORT_U16, 4, DT_U16},
    {ORT_I16, 5, DT_I16},
    {ORT_I32, 6, DT_I32},
    {ORT_I64, 7, DT_I64},
    {ORT_BOOL, 9, DT_BOOL},
    {ORT_F16, 10, DT_F16},
    {ORT_F64, 11, DT_F64},
    {ORT_U32, 12, DT_U32},
    {ORT_U64, 13, DT_U64},
    {ORT_BF16, 16, DT_BF16},
    {ORT_F8E4M3FN, 17, DT_F8E4M3FN},
    {ORT_F8E4M3FNUZ, 18, DT_F8E4M3FNUZ},
    {ORT_F8E5M2, 19, DT_F8E5M2},
    {ORT_F8E5M2FNUZ, 20, DT_F8E5M2FNUZ},
    {ORT_U4, 21, DT_DTYPE_NONE},
    {ORT_I4, 22, DT_DTYPE_NONE},
    {ORT_F4E2M1, 23, DT_DTYPE_NONE},
    {ORT_F8E8M0, 24, DT_F8E8M0},
    {ORT_U2, 25, DT_DTYPE_NONE},
    {ORT_I2, 26, DT_DTYPE_NONE},
};

uint32_t ep_onnx_element(ort_element_t element) {
  for (size_t k = 0; k < sizeof(elements) / sizeof(elements[0]); k++)
    if (elements[k].element == element)
      return elements[k].onnx;
  return 0;
}

dt_dtype_t ep_dtype(ort_element_t element) {
  for (size_t k = 0; k < sizeof(elements) / sizeof(elements[0]); k++)
    if (elements[k].element == element)
      return elements[k].dtype;
  return DT_DTYPE_NONE;
}
