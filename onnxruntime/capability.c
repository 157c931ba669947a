// SPDX-License-Identifier: Apache-2.0
// What of a graph Ductile takes: the largest parts in which no node keeps a function from being
// made. Each part is written as a model and traced for all sizes; what it says of a node is a
// reason against that, and parts are made anew.
#include "onnxruntime/provider.h"

enum { MOST_ROUNDS = 200, MOST_TOLD = 12 };

typedef struct question_t {
  ep_t *ep;
  const ort_api_t *api;
  ep_arena_t arena;
  ep_graph_t graph;
  ep_part_t *parts;
  uint32_t n_parts;
  ep_part_t *passed; // that were asked and have no obstacle
  uint32_t n_passed;
} question_t;

// ---- Asking -----------------------------------------------------------------------------------------
static ort_status_t *refuse(question_t *q, uint32_t node, const char *why) {
  size_t len = strlen(why);
  char *own = EP_ARRAY(&q->arena, char, len + 1);
  if (!own)
    return ep_no_memory(q->api);
  memcpy(own, why, len);
  if (!q->graph.nodes[node].reason)
    q->graph.nodes[node].reason = own;
  return NULL;
}

static ort_status_t *refuse_part(question_t *q, const ep_part_t *part, const char *why) {
  for (uint32_t k = 0; k < q->graph.n_nodes; k++)
    if (part->marked[k])
      EP_TRY(refuse(q, k, why));
  return NULL;
}

// Obstacles count the part's nodes alone.
static uint32_t node_of(const question_t *q, const ep_part_t *part, uint32_t nth) {
  for (uint32_t k = 0; k < q->graph.n_nodes; k++)
    if (part->marked[k] && nth-- == 0)
      return k;
  return EP_NONE;
}

// What is not the model's fault ends the session.
static bool is_refusal(dt_code_t code) {
  return code == DT_E_UNSUPPORTED || code == DT_E_FORMAT || code == DT_E_LIMIT ||
         code == DT_E_ARGUMENT || code == DT_E_DTYPE || code == DT_E_SHAPE || code == DT_E_RANGE ||
         code == DT_E_STATE;
}

static ort_status_t *take_failure(question_t *q, const ep_part_t *part, dt_status_t status) {
  if (!is_refusal(dt_status_code(status)))
    return ep_status(q->api, status, "asking for what is supported");
  ort_status_t *told = refuse_part(q, part, dt_status_message(status));
  dt_status_free(status);
  return told;
}

static ort_status_t *take_obstacles(question_t *q, const ep_part_t *part,
                                    const dt_onnx_obstacles_t *found) {
  for (uint32_t k = 0; k < found->n; k++) {
    uint32_t node = node_of(q, part, found->items[k]->node);
    if (node == EP_NONE)
      return ep_fail(q->api, ORT_EP_FAIL, "Ductile: no node %u", found->items[k]->node);
    EP_TRY(refuse(q, node, found->items[k]->reason));
  }
  return NULL;
}

static ort_status_t *ask_model(question_t *q, const ep_part_t *part, const ep_model_t *model,
                               bool *out_good) {
  dt_onnx_t *file = NULL;
  dt_onnx_obstacles_t *found = NULL;
  ep_function_t options;
  dt_status_t status = ep_model_open(model, &q->arena, &file);
  if (status)
    return take_failure(q, part, status);
  ort_status_t *told = ep_function_options(q->ep, file, &options);
  if (!told) {
    status = dt_onnx_obstacles(q->ep->runtime->runtime, file, &options.all, &found);
    told = status ? take_failure(q, part, status) : take_obstacles(q, part, found);
    *out_good = !status && found->n == 0;
  }
  dt_onnx_obstacles_free(found);
  dt_onnx_close(file);
  return told;
}

// A status that tells of a node is a reason against it.
static ort_status_t *take_unwritten(question_t *q, const ep_part_t *part, uint32_t node,
                                    ort_status_t *status) {
  if (q->api->GetErrorCode(status) != ORT_NOT_IMPLEMENTED)
    return status;
  const char *why = q->api->GetErrorMessage(status);
  ort_status_t *told = node == EP_NONE ? refuse_part(q, part, why) : refuse(q, node, why);
  q->api->ReleaseStatus(status);
  return told;
}

static ort_status_t *ask_part(question_t *q, const ep_part_t *part, bool *out_good) {
  ep_model_t model = {0};
  *out_good = false;
  if (part->n_out == 0)
    return refuse_part(q, part, "nobody reads its results");
  ort_status_t *status = ep_model_write(q->api, &q->graph, part->marked, part->in, part->n_in,
                                        part->out, part->n_out, &model);
  status =
      status ? take_unwritten(q, part, model.failed, status) : ask_model(q, part, &model, out_good);
  ep_free(&model.bytes);
  return status;
}

static bool has_passed(const question_t *q, const ep_part_t *part) {
  for (uint32_t k = 0; k < q->n_passed; k++)
    if (memcmp(q->passed[k].marked, part->marked, q->graph.n_nodes * sizeof(bool)) == 0)
      return true;
  return false;
}

static ort_status_t *ask_parts(question_t *q, bool *out_all) {
  ep_part_t *passed = EP_ARRAY(&q->arena, ep_part_t, q->n_parts + 1u);
  uint32_t n = 0;
  if (!passed)
    return ep_no_memory(q->api);
  for (uint32_t k = 0; k < q->n_parts; k++) {
    const ep_part_t *part = &q->parts[k];
    bool good = has_passed(q, part);
    if (!good && ep_part_pays(&q->graph, part, q->ep->options.min_nodes))
      EP_TRY(ask_part(q, part, &good));
    else if (!good)
      EP_TRY(refuse_part(q, part, "a part of too few nodes (min_nodes)"));
    if (good)
      passed[n++] = *part;
  }
  q->passed = passed;
  q->n_passed = n;
  *out_all = n == q->n_parts;
  return NULL;
}

static ort_status_t *ask(question_t *q) {
  bool all = false;
  for (uint32_t round = 0; !all; round++) {
    EP_TRY(ep_parts_make(q->api, &q->graph, &q->parts, &q->n_parts));
    EP_TRY(ask_parts(q, &all));
    if (!all && round >= MOST_ROUNDS) { // what has passed by then is taken
      for (uint32_t k = 0; k < q->n_parts; k++)
        if (!has_passed(q, &q->parts[k]))
          EP_TRY(refuse_part(q, &q->parts[k], "too many nodes around it are not supported"));
    }
  }
  return NULL;
}

// ---- Answering --------------------------------------------------------------------------------------
// Nodes that nobody takes, and why; each reason once.
static uint32_t list_left(const question_t *q, ep_bytes_t *out) {
  uint32_t left = 0, told = 0;
  for (uint32_t k = 0; k < q->graph.n_nodes; k++) {
    const ep_node_t *node = &q->graph.nodes[k];
    if (node->taken || node->part != EP_NONE)
      continue;
    left++;
    if (told++ < MOST_TOLD)
      ep_printf(out, "%s%s%s%s: %.300s", told > 1 ? "; " : "", node->domain ? node->domain : "",
                node->domain && node->domain[0] ? "." : "", node->op,
                node->reason ? node->reason : "");
  }
  if (told > MOST_TOLD)
    ep_printf(out, "; and %u more", told - MOST_TOLD);
  return left;
}

static ort_status_t *fuse(question_t *q, const bool *marked, uint32_t n, ort_support_t *support) {
  const ort_node_t **nodes = EP_ARRAY(&q->arena, const ort_node_t *, n + 1u);
  ort_fusion_t options = {.version = ORT_VERSION, .drop_constants = false};
  uint32_t len = 0;
  if (!nodes)
    return ep_no_memory(q->api);
  for (uint32_t k = 0; k < q->graph.n_nodes; k++)
    if (marked ? marked[k] : !q->graph.nodes[k].taken)
      nodes[len++] = q->graph.nodes[k].node;
  return len == 0 ? NULL
                  : q->ep->factory->ep_api.EpGraphSupportInfo_AddNodesToFuse(support, nodes, len,
                                                                             &options);
}

static ort_status_t *answer(question_t *q, ort_support_t *support) {
  ep_bytes_t text = {0};
  uint32_t left = list_left(q, &text), ours = 0;
  ort_status_t *status = NULL;
  for (uint32_t k = 0; k < q->n_parts; k++)
    ours += q->parts[k].n_nodes;
  if (left > 0)
    ep_log(q->api, q->ep->logger, ORT_WARNING,
           "Ductile takes %u of %u nodes, in %u parts, and leaves the others: %s", ours,
           q->graph.n_nodes, q->n_parts, ep_text(&text));
  else
    ep_log(q->api, q->ep->logger, ORT_INFO, "Ductile takes all %u nodes, in %u parts", ours,
           q->n_parts);
  if (left > 0 && q->ep->options.strict) {
    status =
        ep_keep_refusal(q->ep, ep_fail(q->api, ORT_NOT_IMPLEMENTED,
                                       "Ductile: %u of %u nodes are not supported (strict): %s",
                                       left, q->graph.n_nodes, ep_text(&text)));
    if (!status)
      status = fuse(q, NULL, q->graph.n_nodes, support);
  } else {
    for (uint32_t k = 0; k < q->n_parts && !status; k++)
      status = fuse(q, q->parts[k].marked, q->parts[k].n_nodes, support);
  }
  ep_free(&text);
  return status;
}

// ---- Graphs within nodes ----------------------------------------------------------------------------
// Whether a function can be made of the node around the graph, as far as operators show it. It
// stands in a graph that is not there yet: what it reads may have no types here, and numbers that a
// trace would want.
static ort_status_t *ask_model_of(question_t *q, const ep_model_t *model, bool *out) {
  dt_onnx_t *file = NULL;
  dt_function_t *function = NULL;
  dt_status_t status = ep_model_open(model, &q->arena, &file);
  if (!status)
    status = dt_onnx_function_create(q->ep->runtime->runtime, file, NULL, &function);
  dt_function_release(function);
  dt_onnx_close(file);
  *out = !status;
  if (!status || !is_refusal(dt_status_code(status)))
    return ep_status(q->api, status, "asking for what is supported");
  dt_status_free(status);
  return NULL;
}

static ort_status_t *ask_around(question_t *q, const ort_graph_t *graph, const ort_node_t *around,
                                bool *out) {
  const ep_graph_t *one = &q->graph;
  ep_model_t model = {.guess = true};
  bool marked = true;
  *out = false;
  EP_TRY(ep_graph_of_node(q->api, graph, around, &q->arena, &q->graph));
  uint32_t *in = EP_ARRAY(&q->arena, uint32_t, one->n_values + 1u), n_in = 0;
  uint32_t *made = EP_ARRAY(&q->arena, uint32_t, one->n_values + 1u), n_made = 0;
  if (!in || !made)
    return ep_no_memory(q->api);
  for (uint32_t k = 0; k < one->n_values; k++) {
    if (one->values[k].output)
      made[n_made++] = k;
    else if (!one->values[k].constant)
      in[n_in++] = k;
  }
  ort_status_t *status = ep_model_write(q->api, one, &marked, in, n_in, made, n_made, &model);
  if (!status)
    status = ask_model_of(q, &model, out);
  else if (q->api->GetErrorCode(status) == ORT_NOT_IMPLEMENTED) {
    q->api->ReleaseStatus(status);
    status = NULL;
  }
  ep_free(&model.bytes);
  return status;
}

// onnxruntime 1.23 does not say what stands around a graph. Graphs within nodes read values from
// outside, or have no inputs, or those of loops.
static ort_status_t *may_be_within(question_t *q, bool *out) {
  const ort_api_t *api = q->api;
  size_t n = 0;
  *out = false;
  if (api->version >= EP_TELLS_RANKS)
    return NULL;
  for (uint32_t k = 0; k < q->graph.n_values && !*out; k++)
    if (q->graph.values[k].maker == EP_NONE)
      EP_TRY(api->ValueInfo_IsFromOuterScope(q->graph.values[k].info, out));
  EP_TRY(api->Graph_GetNumInputs(q->graph.graph, &n));
  const ort_value_info_t **inputs = EP_ARRAY(&q->arena, const ort_value_info_t *, n + 1);
  if (!inputs)
    return ep_no_memory(api);
  *out |= n == 0;
  if (n < 2)
    return NULL;
  ep_type_t trip, more;
  EP_TRY(api->Graph_GetInputs(q->graph.graph, inputs, n));
  EP_TRY(ep_type_of(api, inputs[0], &q->arena, &trip));
  EP_TRY(ep_type_of(api, inputs[1], &q->arena, &more));
  *out |= trip.element == ORT_I64 && trip.rank == 0 && more.element == ORT_BOOL && more.rank == 0;
  return NULL;
}

static ort_status_t *ask_graph(question_t *q, const ort_graph_t *graph, ort_support_t *support) {
  const ort_node_t *around = NULL;
  bool ours = false;
  EP_TRY(q->api->Graph_GetParentNode(graph, &around));
  bool refused = q->ep->refusal.len > 0;
  if (around && (refused || q->ep->options.strict || q->api->version < EP_NAMES_PARTS))
    return NULL;
  if (around)
    EP_TRY(ask_around(q, graph, around, &ours));
  if (ours)
    return NULL; // as a part of that node
  EP_TRY(ep_graph_read(q->api, graph, &q->arena, &q->graph));
  bool within = false;
  EP_TRY(may_be_within(q, &within));
  if (q->graph.n_nodes == 0 || within)
    return NULL;
  if (!refused)
    EP_TRY(ep_keep_refusal(q->ep, ask(q)));
  if (q->ep->refusal.len > 0) // all is taken, to be refused where it is compiled
    return fuse(q, NULL, q->graph.n_nodes, support);
  return answer(q, support);
}

ort_status_t *ep_capability(ort_ep_t *self, const ort_graph_t *graph, ort_support_t *support) {
  ep_t *ep = (ep_t *)self;
  question_t q = {.ep = ep, .api = ep->api};
  ort_status_t *status = ask_graph(&q, graph, support);
  ep_drop(&q.arena);
  return status;
}
