// SPDX-License-Identifier: Apache-2.0
// What a program gave for its results, and the order of dims in which each is to lie.
#include "runtime/trace/builder.h"
#include "runtime/trace/declare.h"

#include <stdio.h>

const char *dt__output_name(const dt_output_decl_t *outputs, uint32_t index, char *buf,
                            size_t bytes) {
  const char *name = outputs ? outputs[index].name : NULL;
  if (name && name[0])
    (void)snprintf(buf, bytes, "result '%s'", name);
  else
    (void)snprintf(buf, bytes, "result %u", index);
  return buf;
}

bool dt__trace_order_is_asked(const dt_trace_request_t *request, uint32_t input) {
  for (uint32_t k = 0; request->outputs && k < request->n_outputs; k++)
    if (request->outputs[k].like_input == input + 1)
      return true;
  return false;
}

// ---- Orders ---------------------------------------------------------------------------------------
static dt_graph_order_t row_major(void) {
  dt_graph_order_t order = {0};
  for (uint32_t k = 0; k < DT_MAX_RANK; k++)
    order.dims[k] = (uint8_t)k;
  return order;
}

// That of the call's argument; row-major where it has none, or there is no call.
static dt_status_t order_like(const dt_trace_t *trace, uint32_t input, uint32_t rank,
                              dt_graph_order_t *out) {
  const dt_trace_request_t *request = trace->request;
  uint32_t expected = request->inputs[input].rank;
  if (rank != expected)
    return DT_FAIL(DT_E_SHAPE, "rank %u; expected that of %s, whose order of dims it takes: %u",
                   rank, dt__input_label(request, input).text, expected);
  uint32_t order = request->example ? request->example[input]->order : DT_ORDER_ROW_MAJOR;
  for (uint32_t k = 0; k < rank && order != DT_ORDER_APART; k++)
    out->dims[k] = (uint8_t)dt__order_dim(order, k);
  out->like = input + 1;
  return NULL;
}

static dt_status_t order_output(dt_trace_t *trace, uint32_t k) {
  const dt_output_decl_t *output = &trace->request->outputs[k];
  const dt_node_t *node = dt__graph_node(trace->graph, trace->graph->outputs.items[k]);
  dt_graph_order_t order = row_major();
  if (output->like_input)
    DT_TRY(order_like(trace, output->like_input - 1, node->rank, &order));
  if (output->order && output->rank != node->rank)
    return DT_FAIL(DT_E_SHAPE, "rank %u; expected that of its order: %u", node->rank, output->rank);
  for (uint32_t d = 0; output->order && d < output->rank; d++)
    order.dims[d] = (uint8_t)output->order[d];
  return dt__graph_add_order(trace->graph, &order);
}

static bool is_plain(const dt_trace_request_t *request) {
  for (uint32_t k = 0; request->outputs && k < request->n_outputs; k++)
    if (request->outputs[k].order || request->outputs[k].like_input)
      return false;
  return true;
}

static dt_status_t order_outputs(dt_trace_t *trace) {
  const dt_trace_request_t *request = trace->request;
  for (uint32_t k = 0; k < request->n_outputs && !is_plain(request); k++) {
    char name[96];
    dt_status_t status = order_output(trace, k);
    if (status)
      return dt__status_annotate(status, "%s",
                                 dt__output_name(request->outputs, k, name, sizeof(name)));
  }
  return NULL;
}

// ---- Values ---------------------------------------------------------------------------------------
dt_status_t dt__trace_add_outputs(dt_trace_t *trace, const dt_value_t *out) {
  uint32_t n = trace->request->n_outputs;
  for (uint32_t k = 0; k < n; k++) {
    if (out[k].id == 0)
      return DT_FAIL(DT_E_ARGUMENT, "output %u of %u was not set by the program", k, n);
    if (out[k].id > trace->graph->nodes.len)
      return DT_FAIL(DT_E_ARGUMENT, "output %u (id %u) is no value of this trace", k, out[k].id);
    dt_value_t value = dt__trace_current(trace, out[k]);
    if (dt__trace_has_ended(trace, value))
      return DT_FAIL(DT_E_ARGUMENT,
                     "output %u (id %u) was made in a body of cond, switch, while or subgraph that "
                     "has ended: make it "
                     "an output of the body",
                     k, out[k].id);
    DT_TRY(dt__graph_add_output(trace->graph, (dt_node_id_t){value.id}));
  }
  return order_outputs(trace);
}
