// SPDX-License-Identifier: Apache-2.0
// Updates of inputs. An update is a value like any other, and the call writes it after all reads.
// While tracing, the input, and every input that is the same memory in the call being traced, reads
// as the new value from then on.
#include "runtime/trace/builder.h"

#include "runtime/trace/declare.h"

#include <string.h>

// ---- Memory -------------------------------------------------------------------------------------
dt_bytes_t dt__tensor_reach(const dt_tensor_t *tensor) {
  uintptr_t data = (uintptr_t)tensor->data;
  if (tensor->contiguous)
    return (dt_bytes_t){data, data + dt__tensor_bytes(tensor)};
  int64_t item = (int64_t)dt_dtype_size(tensor->dtype);
  int64_t low = 0, high = item; // of a strided tensor, which has elements
  for (uint32_t k = 0; k < tensor->rank; k++) {
    int64_t reach = (tensor->sizes[k] - 1) * tensor->strides[k] * item;
    if (reach < 0)
      low += reach;
    else
      high += reach;
  }
  return (dt_bytes_t){data + (uintptr_t)low, data + (uintptr_t)high};
}

bool dt__bytes_meet(dt_bytes_t a, dt_bytes_t b) {
  return a.begin < b.end && b.begin < a.end && a.begin != a.end && b.begin != b.end;
}

static bool same_memory(const dt_tensor_t *a, const dt_tensor_t *b) {
  return a->data == b->data && a->dtype == b->dtype && a->rank == b->rank && a->count &&
         memcmp(a->sizes, b->sizes, a->rank * sizeof(a->sizes[0])) == 0 &&
         memcmp(a->strides, b->strides, a->rank * sizeof(a->strides[0])) == 0;
}

// Whether two indices may name one element: false only where each stride steps over all that the
// smaller ones reach.
static bool overlaps_itself(const dt_tensor_t *tensor) {
  if (tensor->contiguous)
    return false;
  uint32_t left = 0;
  for (uint32_t k = 0; k < tensor->rank; k++)
    left |= tensor->sizes[k] > 1 ? 1u << k : 0;
  for (int64_t reach = 0; left;) {
    uint32_t least = 0;
    int64_t stride = INT64_MAX;
    for (uint32_t k = 0; k < tensor->rank; k++) {
      int64_t own = tensor->strides[k] < 0 ? -tensor->strides[k] : tensor->strides[k];
      if ((left >> k & 1) && own <= stride) {
        stride = own;
        least = k;
      }
    }
    if (stride <= reach)
      return true;
    reach += (tensor->sizes[least] - 1) * stride;
    left &= ~(1u << least);
  }
  return false;
}

// ---- The builder --------------------------------------------------------------------------------
// By input: the first that is the same memory.
static bool find_shared(dt_trace_t *trace) {
  const dt_trace_request_t *request = trace->request;
  if (trace->traced->shared)
    return true;
  uint32_t *shared = DT_ARENA_ARRAY(&trace->traced->arena, uint32_t, request->n_inputs);
  if (!shared)
    return dt__trace_take(trace, DT_NO_MEMORY());
  for (uint32_t k = 0; k < request->n_inputs; k++) {
    shared[k] = k;
    if (!request->example || !dt__is_tensor_kind(request->inputs[k].kind))
      continue;
    for (uint32_t j = 0; j < k && shared[k] == k; j++) {
      if (dt__is_tensor_kind(request->inputs[j].kind) &&
          same_memory(request->example[j], request->example[k]))
        shared[k] = j;
    }
  }
  trace->traced->shared = shared;
  return true;
}

// The tensor input behind the handle; false fails the trace.
static bool find_input(dt_trace_t *trace, dt_value_t input, uint32_t *out) {
  const dt_trace_request_t *request = trace->request;
  uint32_t k = 0;
  while (k < request->n_inputs && trace->inputs[k].handle.id != input.id)
    k++;
  *out = k;
  bool marked = input.trace == (trace->tag | DT_TRACE_ARGUMENT);
  if (k == request->n_inputs || (!marked && dt__is_tensor_kind(request->inputs[k].kind)))
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT,
                  "the input is no value of in[]: inputs alone can be updated");
  else if (!dt__is_tensor_kind(request->inputs[k].kind))
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "%s is an integer; expected a tensor",
                  dt__input_label(request, k).text);
  else if (request->example && overlaps_itself(request->example[k]))
    DT_TRACE_FAIL(
        trace, DT_E_ARGUMENT,
        "%s is updated, and two of its indices may name one element: expected strides that "
        "step over each other",
        dt__input_label(request, k).text);
  else
    return true;
  return false;
}

static bool require_sizes(dt_trace_t *trace, uint32_t rank, const dt_sym_t *a, const dt_sym_t *b) {
  for (uint32_t d = 0; d < rank; d++) {
    dt_sym_t equal = dt__trace_made(trace, dt__sym_eq(trace->env, a[d], b[d]));
    if (!equal.id || !dt__trace_take(trace, dt__sym_require(trace->env, equal, &trace->origin,
                                                            "an update has its input's sizes")))
      return false;
  }
  return true;
}

static bool check_value(dt_trace_t *trace, uint32_t k, const dt_node_t *node) {
  const dt_graph_input_t *input = &trace->graph->inputs.items[k];
  if (node->dtype == input->dtype && node->rank == input->rank)
    return require_sizes(trace, node->rank, node->sizes, input->sizes);
  DT_TRACE_FAIL(trace, node->dtype == input->dtype ? DT_E_SHAPE : DT_E_DTYPE,
                "%s: the value is %s of rank %u; expected %s of rank %u",
                dt__input_label(trace->request, k).text, dt_dtype_name(node->dtype), node->rank,
                dt_dtype_name(input->dtype), input->rank);
  return false;
}

dt_value_t dt__trace_input_of(const dt_trace_t *trace, uint32_t id) {
  for (uint32_t k = 0; k < trace->request->n_inputs; k++)
    if (trace->inputs[k].handle.id == id || trace->inputs[k].current.id == id)
      return trace->inputs[k].handle;
  for (uint32_t k = trace->versions.len; k-- > 0;)
    if (trace->versions.items[k].value.id == id)
      return trace->versions.items[k].input;
  return (dt_value_t){0};
}

// The value as a node that is no other argument's, so that views of it are views of one argument.
static dt_value_t own_value(dt_trace_t *trace, dt_value_t value) {
  value = dt__trace_current(trace, value);
  if (!dt__trace_input_of(trace, value.id).id)
    return value;
  const dt_node_t *node = dt__graph_node(trace->graph, (dt_node_id_t){value.id});
  dt_attrs_t attrs = {.n_syms = node->rank};
  memcpy(attrs.syms, node->sizes, node->rank * sizeof(attrs.syms[0]));
  return dt__trace_add(trace, DT_OP_reshape, &value, 1, &attrs);
}

// The last update of a memory is what is written.
static bool record(dt_trace_t *trace, uint32_t root, dt_value_t value) {
  dt_graph_t *graph = trace->graph;
  for (uint32_t k = 0; k < graph->updates.len; k++) {
    if (graph->updates.items[k].input != root)
      continue;
    graph->updates.items[k].value = (dt_node_id_t){value.id};
    return true;
  }
  dt_graph_update_t update = {.input = root, .value = {value.id}};
  return dt__trace_take(trace, dt__graph_add_update(graph, &update));
}

void dt_update(dt_trace_t *trace, dt_value_t input, dt_value_t value) {
  if (dt__trace_begin(trace, "update"))
    dt__trace_update(trace, input, value);
}

void dt__trace_update(dt_trace_t *trace, dt_value_t input, dt_value_t value) {
  uint32_t k = 0;
  if (trace->n_open) {
    DT_TRACE_FAIL(trace, DT_E_STATE,
                  "a body of cond, switch, while or subgraph updates no input: give the value out, "
                  "and update then");
    return;
  }
  if (!find_input(trace, input, &k))
    return;
  const dt_node_t *node = dt__trace_node(trace, value, "the value");
  if (!node || !check_value(trace, k, node) || !find_shared(trace))
    return;
  value = own_value(trace, value);
  if (trace->status)
    return;
  const uint32_t *shared = trace->traced->shared;
  const dt_graph_input_t *inputs = trace->graph->inputs.items;
  for (uint32_t j = 0; j < trace->request->n_inputs; j++) {
    if (shared[j] != shared[k])
      continue;
    if (!require_sizes(trace, inputs[k].rank, inputs[j].sizes, inputs[k].sizes))
      return;
    trace->inputs[j].current = value;
  }
  trace->updates = true;
  dt_trace_version_t version = {value, trace->inputs[k].handle};
  if (!DT_VEC_PUSH(&trace->traced->arena, &trace->versions, version))
    (void)dt__trace_take(trace, DT_NO_MEMORY());
  (void)record(trace, shared[k], value);
}

bool dt__trace_is_shared(dt_trace_t *trace, dt_value_t a, dt_value_t b) {
  uint32_t j = 0, k = 0;
  return find_input(trace, a, &j) && find_input(trace, b, &k) && find_shared(trace) &&
         trace->traced->shared[j] == trace->traced->shared[k];
}

// ---- Donated inputs -----------------------------------------------------------------------------
// One that is the memory of another is read as that after it was written.
static void keep_shared(dt_trace_t *trace, const uint32_t *shared) {
  dt_graph_input_t *inputs = trace->graph->inputs.items;
  for (uint32_t k = 0; k < trace->request->n_inputs; k++)
    if (shared[k] != k)
      inputs[k].donated = inputs[shared[k]].donated = false;
}

// ---- Overlap in part ----------------------------------------------------------------------------
dt_status_t dt__trace_check_updates(dt_trace_t *trace) {
  const dt_trace_request_t *request = trace->request;
  const uint32_t *shared = trace->traced->shared;
  if (trace->graph->updates.len)
    keep_shared(trace, shared);
  for (uint32_t u = 0; request->example && u < trace->graph->updates.len; u++) {
    uint32_t k = trace->graph->updates.items[u].input;
    dt_bytes_t own = dt__tensor_reach(request->example[k]);
    for (uint32_t j = 0; j < request->n_inputs; j++) {
      if (shared[j] == k || !dt__bytes_meet(own, dt__tensor_reach(request->example[j])))
        continue;
      return DT_FAIL(DT_E_ARGUMENT,
                     "%s is updated and overlaps %s in part; expected the same elements or memory "
                     "of its own",
                     dt__input_label(request, k).text, dt__input_label(request, j).text);
    }
  }
  return NULL;
}
