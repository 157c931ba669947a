// SPDX-License-Identifier: Apache-2.0
// Parts of a graph as functions.
#include "onnxruntime/provider.h"

#include <stdlib.h>

// ---- What the node reads and makes ------------------------------------------------------------------
typedef struct making_t {
  ep_compute_t *compute;
  const ort_api_t *api;
  ep_arena_t arena; // of this making
  ep_graph_t graph;
  const ort_value_info_t **in, **out; // of the node that takes the part's place
  size_t n_in, n_out;
  uint32_t *inputs, *outputs; // values of the graph
  uint32_t n_inputs;
} making_t;

static ort_status_t *list_values(making_t *m, const ort_node_t *node) {
  EP_TRY(m->api->Node_GetNumInputs(node, &m->n_in));
  EP_TRY(m->api->Node_GetNumOutputs(node, &m->n_out));
  m->in = EP_ARRAY(&m->arena, const ort_value_info_t *, m->n_in + 1);
  m->out = EP_ARRAY(&m->arena, const ort_value_info_t *, m->n_out + 1);
  m->inputs = EP_ARRAY(&m->arena, uint32_t, m->n_in + 1);
  m->outputs = EP_ARRAY(&m->arena, uint32_t, m->n_out + 1);
  if (!m->in || !m->out || !m->inputs || !m->outputs)
    return ep_no_memory(m->api);
  if (m->n_in > 0)
    EP_TRY(m->api->Node_GetInputs(node, m->in, m->n_in));
  return m->n_out > 0 ? m->api->Node_GetOutputs(node, m->out, m->n_out) : NULL;
}

static ort_status_t *find(const making_t *m, const ort_value_info_t *info, uint32_t *out) {
  const char *name = NULL;
  *out = EP_NONE;
  if (info)
    EP_TRY(m->api->GetValueInfoName(info, &name));
  if (name)
    *out = ep_graph_find(&m->graph, name);
  return NULL;
}

// Constants come with each call, but are the function's own.
static ort_status_t *take_inputs(making_t *m) {
  ep_compute_t *compute = m->compute;
  compute->inputs = EP_ARRAY(&compute->arena, uint32_t, m->n_in + 1);
  compute->dtypes = EP_ARRAY(&compute->arena, dt_dtype_t, m->n_in + 1);
  compute->numbers = EP_ARRAY(&compute->arena, bool, m->n_in + 1);
  if (!compute->inputs || !compute->dtypes || !compute->numbers)
    return ep_no_memory(m->api);
  for (size_t k = 0; k < m->n_in; k++) {
    uint32_t value = EP_NONE;
    ep_type_t type;
    EP_TRY(find(m, m->in[k], &value));
    if (value == EP_NONE || m->graph.values[value].constant)
      continue;
    EP_TRY(ep_type_of(m->api, m->graph.values[value].info, &m->arena, &type));
    compute->dtypes[compute->n_inputs] = ep_dtype(type.element);
    compute->inputs[compute->n_inputs++] = (uint32_t)k;
    m->inputs[m->n_inputs++] = value;
  }
  return NULL;
}

static ort_status_t *take_outputs(making_t *m) {
  for (size_t k = 0; k < m->n_out; k++) {
    EP_TRY(find(m, m->out[k], &m->outputs[k]));
    if (m->outputs[k] == EP_NONE)
      return ep_fail(m->api, ORT_EP_FAIL, "Ductile: a result of the node is none of its graph");
  }
  m->compute->n_outputs = (uint32_t)m->n_out;
  return NULL;
}

// What was lent is kept as long as the function, by the node's inputs.
static ort_status_t *keep_lent(making_t *m) {
  ep_compute_t *compute = m->compute;
  ep_model_t *model = &compute->model;
  ep_lent_t *lent = EP_ARRAY(&compute->arena, ep_lent_t, model->n_lent + 1u);
  compute->lent = EP_ARRAY(&compute->arena, uint32_t, model->n_lent + 1u);
  if (!lent || !compute->lent)
    return ep_no_memory(m->api);
  for (uint32_t k = 0; k < model->n_lent; k++) {
    uint32_t wanted = ep_graph_find(&m->graph, model->lent[k].name);
    lent[k] = model->lent[k];
    lent[k].name = "";
    compute->lent[k] = EP_NONE;
    for (size_t i = 0; i < m->n_in && compute->lent[k] == EP_NONE; i++) {
      uint32_t value = EP_NONE;
      EP_TRY(find(m, m->in[i], &value));
      if (value == wanted)
        compute->lent[k] = (uint32_t)i;
    }
    if (compute->lent[k] == EP_NONE)
      return ep_fail(m->api, ORT_EP_FAIL, "Ductile: constant \"%s\" is no input of the node",
                     model->lent[k].name);
  }
  model->lent = lent;
  return NULL;
}

static ort_status_t *write_model(making_t *m) {
  bool *marked = EP_ARRAY(&m->arena, bool, m->graph.n_nodes + 1u);
  if (!marked)
    return ep_no_memory(m->api);
  memset(marked, true, m->graph.n_nodes);
  EP_TRY(ep_model_write(m->api, &m->graph, marked, m->inputs, m->n_inputs, m->outputs,
                        (uint32_t)m->n_out, &m->compute->model));
  return keep_lent(m);
}

// ---- The function -----------------------------------------------------------------------------------
ort_status_t *ep_make_function(ep_compute_t *compute) {
  const ort_api_t *api = compute->api;
  dt_onnx_t *file = NULL;
  ep_arena_t arena = {0};
  ep_function_t options;
  ort_status_t *told = NULL;
  dt_status_t status = ep_model_open(&compute->model, &arena, &file);
  if (!status) {
    told = ep_function_options(compute->ep, file, &options);
    options.function.name = compute->name;
  }
  if (!status && !told)
    status = dt_onnx_function_create(compute->ep->runtime->runtime, file, &options.all,
                                     &compute->function);
  for (uint32_t k = 0; compute->function && k < compute->n_inputs; k++) {
    compute->numbers[k] = dt_function_input(compute->function, k)->kind != DT_INPUT_TENSOR;
    compute->reads_numbers |= compute->numbers[k];
  }
  dt_onnx_close(file);
  ep_drop(&arena);
  return told ? told : ep_status(api, status, compute->name);
}

// So that no call waits for a compiler. Where the program needs the sizes of a call, that compiles.
static ort_status_t *prepare(ep_compute_t *compute) {
  dt_prepare_options_t options = {.struct_size = sizeof(options)};
  if (compute->ep->options.prepare == EP_PREPARE_NONE)
    return NULL;
  options.form =
      compute->ep->options.prepare == EP_PREPARE_FIRST ? DT_PREPARE_FIRST : DT_PREPARE_BEST;
  dt_status_t status = dt_function_prepare(compute->function, &options);
  if (dt_status_code(status) != DT_E_STATE)
    return ep_status(compute->api, status, NULL);
  ep_log(compute->api, compute->ep->logger, ORT_INFO, "Ductile: %s: compiled by calls: %s",
         compute->name, dt_status_message(status));
  dt_status_free(status);
  return NULL;
}

// ---- States -----------------------------------------------------------------------------------------
static ort_status_t *create_state(ort_compute_t *self, ort_compute_context_t *context, void **out) {
  (void)context;
  *out = self; // calls take seats of their own
  return NULL;
}

static void release_state(ort_compute_t *self, void *state) {
  (void)self;
  (void)state;
}

static void drop_compute(ep_compute_t *compute) {
  if (!compute)
    return;
  ep_seats_drop(compute);
  dt_function_release(compute->function);
  ep_free(&compute->model.bytes);
  ep_drop(&compute->arena);
  (void)pthread_mutex_destroy(&compute->lock);
  free(compute);
}

static ort_status_t *name_compute(ep_compute_t *compute, const ort_node_t *node) {
  const char *name = NULL;
  EP_TRY(compute->api->Node_GetName(node, &name));
  size_t len = name ? strlen(name) : 0;
  compute->name = EP_ARRAY(&compute->arena, char, len + 5);
  if (!compute->name)
    return ep_no_memory(compute->api);
  memcpy(compute->name, len ? name : "part", len ? len : 4);
  return NULL;
}

static ort_status_t *fill_compute(ep_compute_t *compute, const ort_graph_t *graph,
                                  const ort_node_t *node) {
  making_t m = {.compute = compute, .api = compute->api};
  ort_status_t *status = name_compute(compute, node);
  if (!status)
    status = ep_graph_read(m.api, graph, &m.arena, &m.graph);
  if (!status)
    status = list_values(&m, node);
  if (!status)
    status = take_inputs(&m);
  if (!status)
    status = take_outputs(&m);
  if (!status)
    status = write_model(&m);
  if (!status)
    status = ep_make_function(compute);
  if (!status)
    status = prepare(compute);
  ep_drop(&m.arena);
  return status;
}

static ort_status_t *make_compute(ep_t *ep, const ort_graph_t *graph, const ort_node_t *node,
                                  ort_compute_t **out) {
  ep_compute_t *compute = calloc(1, sizeof(*compute));
  if (!compute)
    return ep_no_memory(ep->api);
  compute->head = (ort_compute_t){.version = ORT_VERSION,
                                  .CreateState = create_state,
                                  .Compute = ep_call,
                                  .ReleaseState = release_state};
  compute->ep = ep;
  compute->api = ep->api;
  atomic_init(&compute->looked, false);
  (void)pthread_mutex_init(&compute->lock, NULL);
  ort_status_t *status = fill_compute(compute, graph, node);
  if (status)
    drop_compute(compute);
  else
    *out = &compute->head;
  return status;
}

ort_status_t *ep_compile(ort_ep_t *self, const ort_graph_t **graphs, const ort_node_t **nodes,
                         size_t n, ort_compute_t **out, ort_node_t **out_context_nodes) {
  ep_t *ep = (ep_t *)self;
  (void)out_context_nodes;
  if (ep->refusal.len > 0)
    return ep_fail(ep->api, ep->refusal_code, "%s", ep_text(&ep->refusal));
  for (size_t k = 0; k < n; k++)
    EP_TRY(make_compute(ep, graphs[k], nodes[k], &out[k]));
  return NULL;
}

void ep_release_computes(ort_ep_t *self, ort_compute_t **computes, size_t n) {
  (void)self;
  for (size_t k = 0; k < n; k++)
    drop_compute((ep_compute_t *)computes[k]);
}
