// SPDX-License-Identifier: Apache-2.0
// Parts of onnxruntime's graphs as ONNX models: all bytes in memory, but for the data of large
// constants, which the model reads where onnxruntime has them.
#include "onnxruntime/graph.h"
#include "onnxruntime/wire.h"

#include <stdio.h>
#include <stdlib.h>

// Fields of onnx.proto.
enum { MODEL_IR = 1, MODEL_PRODUCER = 2, MODEL_GRAPH = 7, MODEL_OPSET = 8 };
enum { OPSET_DOMAIN = 1, OPSET_VERSION = 2 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_CONSTANT = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT, NODE_NAME, NODE_OP, NODE_ATTRIBUTE, NODE_DOMAIN = 7 };
enum {
  ATTR_NAME = 1,
  ATTR_F,
  ATTR_I,
  ATTR_S,
  ATTR_T,
  ATTR_G,
  ATTR_FLOATS,
  ATTR_INTS,
  ATTR_STRINGS
};
enum { ATTR_TYPE = 20 };
enum { IS_FLOAT = 1, IS_INT, IS_STRING, IS_TENSOR, IS_GRAPH, IS_FLOATS, IS_INTS, IS_STRINGS };
enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9 };
enum {
  TENSOR_EXTERNAL = 13,
  TENSOR_LOCATION = 14,
  IS_EXTERNAL = 1,
  ENTRY_KEY = 1,
  ENTRY_VALUE = 2
};
enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1, TYPE_ELEMENT = 1, TYPE_SHAPE = 2 };
enum { SHAPE_DIM = 1, DIM_VALUE = 1, DIM_NAME = 2 };

// Below, data are copied into the model: onnxruntime may have made them for this question only.
enum { LEAST_LENT = 1024, MOST_DEPTH = 32 };

typedef struct writer_t {
  const ort_api_t *api;
  ep_arena_t *arena;
  ep_bytes_t *out;
  ep_model_t *model;
  uint32_t depth; // of graphs within nodes
} writer_t;

// ---- Constants --------------------------------------------------------------------------------------
typedef struct data_t { // of a tensor
  ort_element_t element;
  size_t rank, bytes;
  int64_t *dims;
  const void *at;
} data_t;

static ort_status_t *read_shape(const writer_t *w, const ort_shape_t *shape, data_t *out) {
  EP_TRY(w->api->GetTensorElementType(shape, &out->element));
  EP_TRY(w->api->GetDimensionsCount(shape, &out->rank));
  out->dims = EP_ARRAY(w->arena, int64_t, out->rank + 1);
  if (!out->dims)
    return ep_no_memory(w->api);
  return out->rank > 0 ? w->api->GetDimensions(shape, out->dims, out->rank) : NULL;
}

static ort_status_t *read_tensor(const writer_t *w, const ort_value_t *value, data_t *out) {
  ort_shape_t *shape = NULL;
  *out = (data_t){0};
  EP_TRY(w->api->GetTensorTypeAndShape(value, &shape));
  ort_status_t *status = read_shape(w, shape, out);
  w->api->ReleaseTensorTypeAndShapeInfo(shape);
  if (status)
    return status;
  if (ep_onnx_element(out->element) == 0)
    return ep_fail(w->api, ORT_NOT_IMPLEMENTED, "a constant of strings or complex numbers");
  EP_TRY(w->api->GetTensorSizeInBytes(value, &out->bytes));
  return w->api->GetTensorData(value, &out->at);
}

static void put_entry(ep_bytes_t *out, const char *key, const char *value) {
  size_t entry = ep_wire_begin(out, TENSOR_EXTERNAL);
  ep_wire_text(out, ENTRY_KEY, key);
  ep_wire_text(out, ENTRY_VALUE, value);
  ep_wire_end(out, entry);
}

static ort_status_t *lend(writer_t *w, const char *name, const data_t *data) {
  ep_model_t *model = w->model;
  char location[16];
  if (model->n_lent == model->lent_room) {
    uint32_t room = 2 * model->lent_room + 16;
    ep_lent_t *grown = EP_ARRAY(w->arena, ep_lent_t, room);
    if (!grown)
      return ep_no_memory(w->api);
    if (model->n_lent > 0)
      memcpy(grown, model->lent, model->n_lent * sizeof(*grown));
    model->lent = grown;
    model->lent_room = room;
  }
  (void)snprintf(location, sizeof(location), "%u", model->n_lent);
  model->lent[model->n_lent++] = (ep_lent_t){name, data->at, data->bytes};
  put_entry(w->out, "location", location);
  ep_wire_int(w->out, TENSOR_LOCATION, IS_EXTERNAL);
  return NULL;
}

// `lasts`: the data stay where they are.
static ort_status_t *put_tensor(writer_t *w, uint32_t field, const char *name,
                                const ort_value_t *value, bool lasts) {
  data_t data;
  EP_TRY(read_tensor(w, value, &data));
  size_t tensor = ep_wire_begin(w->out, field);
  for (size_t k = 0; k < data.rank; k++)
    ep_wire_int(w->out, TENSOR_DIMS, (uint64_t)data.dims[k]);
  ep_wire_int(w->out, TENSOR_TYPE, ep_onnx_element(data.element));
  if (name)
    ep_wire_text(w->out, TENSOR_NAME, name);
  if (lasts && data.bytes >= LEAST_LENT)
    EP_TRY(lend(w, name, &data));
  else
    ep_wire_bytes(w->out, TENSOR_RAW, data.at, data.bytes);
  ep_wire_end(w->out, tensor);
  return NULL;
}

static ort_status_t *put_constant(writer_t *w, const ort_value_info_t *info, const char *name,
                                  bool lasts) {
  const ort_value_t *value = NULL;
  EP_TRY(w->api->ValueInfo_GetInitializerValue(info, &value));
  if (!value)
    return ep_fail(w->api, ORT_EP_FAIL, "constant \"%s\" has no value", name);
  return put_tensor(w, GRAPH_CONSTANT, name, value, lasts);
}

// ---- Types ------------------------------------------------------------------------------------------
static void put_shape(ep_bytes_t *out, const ep_type_t *type) {
  size_t shape = ep_wire_begin(out, TYPE_SHAPE);
  for (uint32_t k = 0; k < type->rank; k++) {
    size_t dim = ep_wire_begin(out, SHAPE_DIM);
    if (type->dims[k] >= 0)
      ep_wire_int(out, DIM_VALUE, (uint64_t)type->dims[k]);
    else if (type->names[k] && type->names[k][0])
      ep_wire_text(out, DIM_NAME, type->names[k]);
    ep_wire_end(out, dim);
  }
  ep_wire_end(out, shape);
}

// What is no tensor has a name only.
static ort_status_t *put_value(writer_t *w, uint32_t field, const char *name,
                               const ort_value_info_t *info) {
  ep_type_t type;
  EP_TRY(ep_type_of(w->api, info, w->arena, &type));
  uint32_t element = type.kind == ORT_TENSOR ? ep_onnx_element(type.element) : 0;
  if (field == GRAPH_INPUT && w->depth == 0 && w->model->guess) {
    element = element ? element : ep_onnx_element(ORT_F32);
    type.ranked = true; // of rank 0 where it was not
  }
  size_t value = ep_wire_begin(w->out, field);
  ep_wire_text(w->out, VALUE_NAME, name);
  if (element) {
    size_t outer = ep_wire_begin(w->out, VALUE_TYPE), inner = ep_wire_begin(w->out, TYPE_TENSOR);
    ep_wire_int(w->out, TYPE_ELEMENT, element);
    if (type.ranked)
      put_shape(w->out, &type);
    ep_wire_end(w->out, inner);
    ep_wire_end(w->out, outer);
  }
  ep_wire_end(w->out, value);
  return NULL;
}

// ---- Attributes -------------------------------------------------------------------------------------
// What an attribute says, in the arena.
static ort_status_t *read_attr(const writer_t *w, const ort_attr_t *attr, ort_attr_type_t type,
                               const unsigned char **out, size_t *out_bytes) {
  unsigned char few[8];
  *out_bytes = 0;
  w->api->ReleaseStatus(w->api->ReadOpAttr(attr, type, few, 0, out_bytes));
  unsigned char *data = EP_ARRAY(w->arena, unsigned char, *out_bytes + 8);
  if (!data)
    return ep_no_memory(w->api);
  *out = data;
  return *out_bytes > 0 ? w->api->ReadOpAttr(attr, type, data, *out_bytes, out_bytes) : NULL;
}

static void put_ints(ep_bytes_t *out, uint32_t field, const unsigned char *data, size_t bytes) {
  for (size_t at = 0; at + sizeof(int64_t) <= bytes; at += sizeof(int64_t)) {
    int64_t value;
    memcpy(&value, data + at, sizeof(value));
    ep_wire_int(out, field, (uint64_t)value);
  }
}

static void put_floats(ep_bytes_t *out, uint32_t field, const unsigned char *data, size_t bytes) {
  for (size_t at = 0; at + sizeof(float) <= bytes; at += sizeof(float)) {
    float value;
    memcpy(&value, data + at, sizeof(value));
    ep_wire_float(out, field, value);
  }
}

// Each ends with a zero.
static void put_strings(ep_bytes_t *out, uint32_t field, const unsigned char *data, size_t bytes) {
  for (size_t at = 0; at < bytes;) {
    size_t len = strnlen((const char *)data + at, bytes - at);
    ep_wire_bytes(out, field, data + at, len);
    at += len + 1;
  }
}

static ort_status_t *put_attr_tensor(writer_t *w, const ort_attr_t *attr) {
  ort_value_t *value = NULL;
  EP_TRY(w->api->OpAttr_GetTensorAttributeAsOrtValue(attr, &value));
  ort_status_t *status = put_tensor(w, ATTR_T, NULL, value, false);
  w->api->ReleaseValue(value);
  ep_wire_int(w->out, ATTR_TYPE, IS_TENSOR);
  return status;
}

static ort_status_t *put_attr_value(writer_t *w, const ort_attr_t *attr, ort_attr_type_t type) {
  static const uint32_t is[] = {0, IS_INT, IS_INTS, IS_FLOAT, IS_FLOATS, IS_STRING, IS_STRINGS};
  const unsigned char *data = NULL;
  size_t bytes = 0;
  if (type == ORT_ATTR_TENSOR)
    return put_attr_tensor(w, attr);
  if (type <= ORT_ATTR_UNDEFINED || type > ORT_ATTR_STRINGS)
    return ep_fail(w->api, ORT_NOT_IMPLEMENTED,
                   "an attribute of a type that onnxruntime does not hand out");
  EP_TRY(read_attr(w, attr, type, &data, &bytes));
  if (type == ORT_ATTR_INT || type == ORT_ATTR_INTS)
    put_ints(w->out, type == ORT_ATTR_INT ? ATTR_I : ATTR_INTS, data, bytes);
  else if (type == ORT_ATTR_FLOAT || type == ORT_ATTR_FLOATS)
    put_floats(w->out, type == ORT_ATTR_FLOAT ? ATTR_F : ATTR_FLOATS, data, bytes);
  else if (type == ORT_ATTR_STRINGS)
    put_strings(w->out, ATTR_STRINGS, data, bytes);
  else
    ep_wire_bytes(w->out, ATTR_S, data, strnlen((const char *)data, bytes));
  ep_wire_int(w->out, ATTR_TYPE, is[type]);
  return NULL;
}

static ort_status_t *put_attr(writer_t *w, const ort_attr_t *attr) {
  const char *name = NULL;
  ort_attr_type_t type = ORT_ATTR_UNDEFINED;
  EP_TRY(w->api->OpAttr_GetName(attr, &name));
  EP_TRY(w->api->OpAttr_GetType(attr, &type));
  if (type == ORT_ATTR_GRAPH)
    return NULL; // these come by another way
  size_t begun = ep_wire_begin(w->out, NODE_ATTRIBUTE);
  ep_wire_text(w->out, ATTR_NAME, name);
  EP_TRY(put_attr_value(w, attr, type));
  ep_wire_end(w->out, begun);
  return NULL;
}

// ---- Nodes and graphs -------------------------------------------------------------------------------
static ort_status_t *put_graph(writer_t *w, uint32_t field, const ort_graph_t *from);

static ort_status_t *put_graphs(writer_t *w, const ort_node_t *node) {
  size_t n = 0;
  EP_TRY(w->api->Node_GetNumSubgraphs(node, &n));
  const ort_graph_t **graphs = EP_ARRAY(w->arena, const ort_graph_t *, n + 1);
  const char **names = EP_ARRAY(w->arena, const char *, n + 1);
  if (!graphs || !names)
    return ep_no_memory(w->api);
  if (n > 0)
    EP_TRY(w->api->Node_GetSubgraphs(node, graphs, n, names));
  for (size_t k = 0; k < n; k++) {
    size_t begun = ep_wire_begin(w->out, NODE_ATTRIBUTE);
    ep_wire_text(w->out, ATTR_NAME, names[k]);
    EP_TRY(put_graph(w, ATTR_G, graphs[k]));
    ep_wire_int(w->out, ATTR_TYPE, IS_GRAPH);
    ep_wire_end(w->out, begun);
  }
  return NULL;
}

static void put_names(ep_bytes_t *out, uint32_t field, const ep_graph_t *graph, uint32_t n,
                      const uint32_t *values) {
  for (uint32_t k = 0; k < n; k++)
    ep_wire_text(out, field, values[k] == EP_NONE ? "" : graph->values[values[k]].name);
}

static ort_status_t *put_node(writer_t *w, const ep_graph_t *graph, const ep_node_t *node) {
  const char *name = NULL;
  size_t n = 0;
  EP_TRY(w->api->Node_GetName(node->node, &name));
  EP_TRY(w->api->Node_GetNumAttributes(node->node, &n));
  const ort_attr_t **attrs = EP_ARRAY(w->arena, const ort_attr_t *, n + 1);
  if (!attrs)
    return ep_no_memory(w->api);
  if (n > 0)
    EP_TRY(w->api->Node_GetAttributes(node->node, attrs, n));
  size_t begun = ep_wire_begin(w->out, GRAPH_NODE);
  put_names(w->out, NODE_INPUT, graph, node->n_own, node->in);
  put_names(w->out, NODE_OUTPUT, graph, node->n_out, node->out);
  if (name && name[0])
    ep_wire_text(w->out, NODE_NAME, name);
  ep_wire_text(w->out, NODE_OP, node->op);
  if (node->domain && node->domain[0])
    ep_wire_text(w->out, NODE_DOMAIN, node->domain);
  for (size_t k = 0; k < n; k++)
    if (attrs[k])
      EP_TRY(put_attr(w, attrs[k]));
  EP_TRY(put_graphs(w, node->node));
  ep_wire_end(w->out, begun);
  return NULL;
}

typedef ort_status_t *(*count_fn_t)(const ort_graph_t *, size_t *);
typedef ort_status_t *(*list_fn_t)(const ort_graph_t *, const ort_value_info_t **, size_t);

// Values that a graph within a node has of a kind: inputs, outputs, constants.
static ort_status_t *put_values(writer_t *w, const ort_graph_t *from, count_fn_t count,
                                list_fn_t list, uint32_t field) {
  size_t n = 0;
  EP_TRY(count(from, &n));
  const ort_value_info_t **infos = EP_ARRAY(w->arena, const ort_value_info_t *, n + 1);
  if (!infos)
    return ep_no_memory(w->api);
  if (n > 0)
    EP_TRY(list(from, infos, n));
  for (size_t k = 0; k < n; k++) {
    const char *name = NULL;
    EP_TRY(w->api->GetValueInfoName(infos[k], &name));
    // A graph within goes when its node does, and its constants with it.
    EP_TRY(field == GRAPH_CONSTANT ? put_constant(w, infos[k], name, false)
                                   : put_value(w, field, name, infos[k]));
  }
  return NULL;
}

static ort_status_t *put_graph(writer_t *w, uint32_t field, const ort_graph_t *from) {
  const ort_api_t *api = w->api;
  ep_graph_t graph;
  if (++w->depth > MOST_DEPTH)
    return ep_fail(api, ORT_NOT_IMPLEMENTED, "graphs within each other, deeper than %d",
                   MOST_DEPTH);
  EP_TRY(ep_graph_read(api, from, w->arena, &graph));
  size_t begun = ep_wire_begin(w->out, field);
  ep_wire_text(w->out, GRAPH_NAME, "within");
  for (uint32_t k = 0; k < graph.n_nodes; k++) {
    if (graph.nodes[k].taken)
      return ep_fail(api, ORT_NOT_IMPLEMENTED, "nodes of a graph within it are taken already");
    EP_TRY(put_node(w, &graph, &graph.nodes[k]));
  }
  EP_TRY(put_values(w, from, api->Graph_GetNumInitializers, api->Graph_GetInitializers,
                    GRAPH_CONSTANT));
  EP_TRY(put_values(w, from, api->Graph_GetNumInputs, api->Graph_GetInputs, GRAPH_INPUT));
  EP_TRY(put_values(w, from, api->Graph_GetNumOutputs, api->Graph_GetOutputs, GRAPH_OUTPUT));
  ep_wire_end(w->out, begun);
  w->depth--;
  return NULL;
}

// ---- The model --------------------------------------------------------------------------------------
static ort_status_t *put_opsets(writer_t *w, const ort_graph_t *graph) {
  size_t n = 0;
  EP_TRY(w->api->Graph_GetNumOperatorSets(graph, &n));
  const char **domains = EP_ARRAY(w->arena, const char *, n + 1);
  int64_t *versions = EP_ARRAY(w->arena, int64_t, n + 1);
  if (!domains || !versions)
    return ep_no_memory(w->api);
  EP_TRY(w->api->Graph_GetOperatorSets(graph, domains, versions, n));
  for (size_t k = 0; k < n; k++) {
    size_t opset = ep_wire_begin(w->out, MODEL_OPSET);
    ep_wire_text(w->out, OPSET_DOMAIN, domains[k]);
    ep_wire_int(w->out, OPSET_VERSION, (uint64_t)versions[k]);
    ep_wire_end(w->out, opset);
  }
  return NULL;
}

// Constants that marked nodes read, each once.
static ort_status_t *put_constants(writer_t *w, const ep_graph_t *graph, const bool *marked) {
  bool *there = EP_ARRAY(w->arena, bool, graph->n_values + 1u);
  if (!there)
    return ep_no_memory(w->api);
  for (uint32_t k = 0; k < graph->n_nodes; k++)
    for (uint32_t i = 0; marked[k] && i < graph->nodes[k].n_in; i++) {
      uint32_t index = graph->nodes[k].in[i];
      const ep_value_t *value = index == EP_NONE ? NULL : &graph->values[index];
      if (!value || !value->constant || there[index])
        continue;
      there[index] = true;
      w->model->failed = k;
      EP_TRY(put_constant(w, value->info, value->name, true));
    }
  return NULL;
}

ort_status_t *ep_model_write(const ort_api_t *api, const ep_graph_t *graph, const bool *marked,
                             const uint32_t *inputs, uint32_t n_inputs, const uint32_t *outputs,
                             uint32_t n_outputs, ep_model_t *out) {
  writer_t writer = {.api = api, .arena = graph->arena, .out = &out->bytes, .model = out};
  writer_t *w = &writer;
  const char *name = NULL;
  int64_t ir = 0;
  EP_TRY(api->Graph_GetName(graph->graph, &name));
  EP_TRY(api->Graph_GetOnnxIRVersion(graph->graph, &ir));
  out->failed = EP_NONE;
  ep_wire_int(w->out, MODEL_IR, (uint64_t)ir);
  ep_wire_text(w->out, MODEL_PRODUCER, "onnxruntime");
  EP_TRY(put_opsets(w, graph->graph));
  size_t begun = ep_wire_begin(w->out, MODEL_GRAPH);
  ep_wire_text(w->out, GRAPH_NAME, name && name[0] ? name : "graph");
  for (uint32_t k = 0; k < graph->n_nodes; k++)
    if (marked[k]) {
      out->failed = k;
      EP_TRY(put_node(w, graph, &graph->nodes[k]));
    }
  EP_TRY(put_constants(w, graph, marked));
  out->failed = EP_NONE;
  for (uint32_t k = 0; k < n_inputs; k++)
    EP_TRY(put_value(w, GRAPH_INPUT, graph->values[inputs[k]].name, graph->values[inputs[k]].info));
  for (uint32_t k = 0; k < n_outputs; k++)
    EP_TRY(
        put_value(w, GRAPH_OUTPUT, graph->values[outputs[k]].name, graph->values[outputs[k]].info));
  ep_wire_end(w->out, begun);
  return out->bytes.failed ? ep_no_memory(api) : NULL;
}

dt_status_t ep_model_open(const ep_model_t *model, ep_arena_t *arena, dt_onnx_t **out) {
  dt_onnx_memory_t *memory = EP_ARRAY(arena, dt_onnx_memory_t, model->n_lent + 1u);
  char (*names)[16] = ep_take(arena, model->n_lent + 1u, sizeof(*names));
  if (!memory || !names)
    return dt_status_make(DT_E_NO_MEMORY, "out of memory");
  for (uint32_t k = 0; k < model->n_lent; k++) {
    (void)snprintf(names[k], sizeof(names[k]), "%u", k);
    memory[k] = (dt_onnx_memory_t){names[k], model->lent[k].data, model->lent[k].bytes};
  }
  dt_onnx_options_t options = {.struct_size = sizeof(options),
                               .memory = memory,
                               .n_memory = model->n_lent,
                               .memory_size = sizeof(*memory)};
  return dt_onnx_open_memory(model->bytes.data, model->bytes.len, &options, out);
}
