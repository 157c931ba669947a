// SPDX-License-Identifier: Apache-2.0
// Which nodes become one. Each node has a stage: the most times that a way to it leads from nodes
// that are taken through some that are not and back. Nodes of one stage that are taken are a part:
// no way leads out of it and back, and parts of higher stages read those of lower ones only.
#include "onnxruntime/graph.h"

// ---- Stages -----------------------------------------------------------------------------------------
static bool is_ours(const ep_node_t *node) { return !node->taken && !node->reason; }

// Before any that are taken, nodes that are not have stage -1.
static int32_t stage_of(const ep_graph_t *graph, const int32_t *stages, const ep_node_t *node) {
  bool ours = is_ours(node);
  int32_t stage = ours ? 0 : -1;
  for (uint32_t k = 0; k < node->n_in; k++) {
    uint32_t maker = node->in[k] == EP_NONE ? EP_NONE : graph->values[node->in[k]].maker;
    if (maker == EP_NONE)
      continue;
    int32_t least = stages[maker] + (ours && !is_ours(&graph->nodes[maker]) ? 1 : 0);
    if (least > stage)
      stage = least;
  }
  return stage;
}

// ---- Boundaries -------------------------------------------------------------------------------------
enum { IS_IN = 1, IS_OUT = 2 };

// Marks values that the part reads from outside, or others read of it.
static void mark_boundary(const ep_graph_t *graph, uint32_t index, unsigned char *marks) {
  for (uint32_t k = 0; k < graph->n_nodes; k++) {
    const ep_node_t *node = &graph->nodes[k];
    for (uint32_t i = 0; i < node->n_in; i++) {
      const ep_value_t *value = node->in[i] == EP_NONE ? NULL : &graph->values[node->in[i]];
      uint32_t maker = value ? value->maker : EP_NONE;
      bool made_here = maker != EP_NONE && graph->nodes[maker].part == index;
      if (value && node->part == index && !made_here && !value->constant)
        marks[node->in[i]] |= IS_IN;
      else if (value && node->part != index && made_here)
        marks[node->in[i]] |= IS_OUT;
    }
    for (uint32_t i = 0; node->part == index && i < node->n_out; i++)
      if (node->out[i] != EP_NONE && graph->values[node->out[i]].output)
        marks[node->out[i]] |= IS_OUT;
  }
}

// `marks` is room for it.
static ort_status_t *find_boundary(const ort_api_t *api, const ep_graph_t *graph, uint32_t index,
                                   unsigned char *marks, ep_part_t *part) {
  memset(marks, 0, graph->n_values);
  mark_boundary(graph, index, marks);
  for (uint32_t k = 0; k < graph->n_values; k++) {
    part->n_in += (marks[k] & IS_IN) != 0;
    part->n_out += (marks[k] & IS_OUT) != 0;
  }
  part->in = EP_ARRAY(graph->arena, uint32_t, part->n_in + 1u);
  part->out = EP_ARRAY(graph->arena, uint32_t, part->n_out + 1u);
  if (!part->in || !part->out)
    return ep_no_memory(api);
  uint32_t n_in = 0, n_out = 0;
  for (uint32_t k = 0; k < graph->n_values; k++) {
    if (marks[k] & IS_IN)
      part->in[n_in++] = k;
    if (marks[k] & IS_OUT)
      part->out[n_out++] = k;
  }
  return NULL;
}

// Whether a node of the part reads the value itself, not only a graph within one.
static bool is_read_openly(const ep_graph_t *graph, uint32_t part, uint32_t value) {
  for (uint32_t k = 0; k < graph->n_nodes; k++)
    for (uint32_t i = 0; graph->nodes[k].part == part && i < graph->nodes[k].n_own; i++)
      if (graph->nodes[k].in[i] == value)
        return true;
  return false;
}

// NULL: the value can be handed over.
static ort_status_t *why_not(const ort_api_t *api, const ep_graph_t *graph, uint32_t value,
                             const char **out) {
  ep_type_t type;
  *out = NULL;
  EP_TRY(ep_type_of(api, graph->values[value].info, graph->arena, &type));
  // Else a value of unknown rank looks like a scalar.
  bool scalar = type.rank == 0 && api->version < EP_TELLS_RANKS;
  if (type.kind != ORT_TENSOR)
    *out = "a value that is no tensor";
  else if (ep_dtype(type.element) == DT_DTYPE_NONE)
    *out = "elements of a type that is not handed over";
  else if (!type.ranked || (scalar && graph->values[value].maker != EP_NONE))
    *out = "a tensor of unknown rank";
  else if (type.rank > DT_MAX_RANK)
    *out = "a tensor of more than 8 dims";
  return NULL;
}

static ort_status_t *refuse(const ort_api_t *api, const ep_graph_t *graph, ep_node_t *node,
                            const char *does, uint32_t value, const char *why) {
  ep_bytes_t text = {0};
  ep_printf(&text, "it %s \"%.200s\", %s", does, graph->values[value].name, why);
  char *own = EP_ARRAY(graph->arena, char, text.len + 1);
  if (own && !text.failed)
    memcpy(own, text.data, text.len);
  bool failed = text.failed || !own;
  ep_free(&text);
  node->reason = own;
  return failed ? ep_no_memory(api) : NULL;
}

// Reasons against nodes at the boundary; *io_found: there are some.
static ort_status_t *check_boundary(const ort_api_t *api, ep_graph_t *graph, uint32_t index,
                                    const ep_part_t *part, bool *io_found) {
  const char *why = NULL;
  for (uint32_t k = 0; k < part->n_in; k++) {
    EP_TRY(why_not(api, graph, part->in[k], &why));
    if (!why && api->version < EP_GIVES_CAPTURED && !is_read_openly(graph, index, part->in[k]))
      why = "which onnxruntime before 1.27 does not hand over, since only graphs within nodes read "
            "it";
    for (uint32_t i = 0; why && i < graph->n_nodes; i++) {
      ep_node_t *node = &graph->nodes[i];
      for (uint32_t n = 0; node->part == index && !node->reason && n < node->n_in; n++)
        if (node->in[n] == part->in[k])
          EP_TRY(refuse(api, graph, node, "reads", part->in[k], why));
    }
    *io_found |= why != NULL;
  }
  for (uint32_t k = 0; k < part->n_out; k++) {
    EP_TRY(why_not(api, graph, part->out[k], &why));
    ep_node_t *maker = &graph->nodes[graph->values[part->out[k]].maker];
    if (why && !maker->reason)
      EP_TRY(refuse(api, graph, maker, "makes", part->out[k], why));
    *io_found |= why != NULL;
  }
  return NULL;
}

// ---- Parts ------------------------------------------------------------------------------------------
// By stage: parts are numbered without gaps.
static ort_status_t *number(const ort_api_t *api, ep_graph_t *graph, uint32_t *out_n) {
  int32_t *stages = EP_ARRAY(graph->arena, int32_t, graph->n_nodes + 1u);
  uint32_t *parts = EP_ARRAY(graph->arena, uint32_t, graph->n_nodes + 1u); // by stage: 1 + part
  *out_n = 0;
  if (!stages || !parts)
    return ep_no_memory(api);
  for (uint32_t k = 0; k < graph->n_nodes; k++) {
    ep_node_t *node = &graph->nodes[k];
    stages[k] = stage_of(graph, stages, node);
    node->part = EP_NONE;
    if (!is_ours(node))
      continue;
    if (!parts[stages[k]])
      parts[stages[k]] = ++*out_n;
    node->part = parts[stages[k]] - 1;
  }
  return NULL;
}

static ort_status_t *try_parts(const ort_api_t *api, ep_graph_t *graph, ep_part_t **out,
                               uint32_t *out_n, bool *out_found) {
  *out_found = false;
  EP_TRY(number(api, graph, out_n));
  *out = EP_ARRAY(graph->arena, ep_part_t, *out_n + 1u);
  unsigned char *marks = EP_ARRAY(graph->arena, unsigned char, graph->n_values + 1u);
  if (!*out || !marks)
    return ep_no_memory(api);
  for (uint32_t k = 0; k < *out_n; k++) {
    ep_part_t *part = &(*out)[k];
    part->marked = EP_ARRAY(graph->arena, bool, graph->n_nodes + 1u);
    if (!part->marked)
      return ep_no_memory(api);
    for (uint32_t i = 0; i < graph->n_nodes; i++)
      if (graph->nodes[i].part == k) {
        part->marked[i] = true;
        part->n_nodes++;
      }
    EP_TRY(find_boundary(api, graph, k, marks, part));
    EP_TRY(check_boundary(api, graph, k, part, out_found));
  }
  return NULL;
}

ort_status_t *ep_parts_make(const ort_api_t *api, ep_graph_t *graph, ep_part_t **out, uint32_t *n) {
  bool found = true;
  while (found) // each time there are more reasons
    EP_TRY(try_parts(api, graph, out, n, &found));
  return NULL;
}

static bool does_much(const char *op) {
  static const char *const ops[] = {
      "Attention",
      "Conv",
      "ConvInteger",
      "ConvTranspose",
      "Einsum",
      "FusedConv",
      "FusedGemm",
      "FusedMatMul",
      "GRU",
      "Gemm",
      "GroupQueryAttention",
      "LSTM",
      "Loop",
      "MatMul",
      "MatMulInteger",
      "MatMulNBits",
      "MultiHeadAttention",
      "QLinearConv",
      "QLinearMatMul",
      "RNN",
      "Scan",
  };
  for (size_t k = 0; k < sizeof(ops) / sizeof(ops[0]); k++)
    if (strcmp(ops[k], op) == 0)
      return true;
  return false;
}

bool ep_part_pays(const ep_graph_t *graph, const ep_part_t *part, uint32_t least) {
  if (part->n_nodes >= least || part->n_nodes == graph->n_nodes)
    return true;
  for (uint32_t k = 0; k < graph->n_nodes; k++)
    if (part->marked[k] && does_much(graph->nodes[k].op))
      return true;
  return false;
}
