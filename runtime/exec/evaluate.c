// SPDX-License-Identifier: Apache-2.0
// Calls answered by the reference evaluator (DT_ANSWER_EVALUATOR). Slow on purpose; nothing falls
// back to it on its own.
#include "runtime/exec/call.h"

#include "lower/graph/eval.h"
#include "runtime/base/dtype.h"
#include "runtime/base/fp.h"
#include "runtime/base/status.h"

#include <string.h>

#define SMALL_BLOCK 4096 // of memory that counts against a call's limit

// The traced graph with the constants' data as bound at the moment; nodes are shared. What inputs
// are updated with stands behind the outputs.
static dt_status_t bind_graph(dt_arena_t *arena, const dt_graph_t *graph,
                              const dt_bindings_t *bindings, dt_graph_t *out) {
  *out = *graph;
  uint32_t n = graph->constants.len;
  out->constants.items = DT_ARENA_ARRAY(arena, dt_graph_constant_t, n);
  if (!out->constants.items)
    return DT_NO_MEMORY();
  out->constants.cap = n;
  for (uint32_t i = 0; i < n; i++) {
    out->constants.items[i] = graph->constants.items[i];
    out->constants.items[i].data = bindings->addresses[i];
  }
  uint32_t n_outputs = graph->outputs.len, n_updates = graph->updates.len;
  out->outputs.items = DT_ARENA_ARRAY(arena, dt_node_id_t, n_outputs + n_updates);
  if (!out->outputs.items)
    return DT_NO_MEMORY();
  for (uint32_t i = 0; i < n_outputs; i++)
    out->outputs.items[i] = graph->outputs.items[i];
  for (uint32_t i = 0; i < n_updates; i++)
    out->outputs.items[n_outputs + i] = graph->updates.items[i].value;
  out->outputs.len = out->outputs.cap = n_outputs + n_updates;
  return NULL;
}

// Element by element in row-major order, to wherever the tensor has it.
static void store_value(const dt_eval_value_t *value, dt_tensor_t *to) {
  size_t item = dt_dtype_size(value->dtype);
  int64_t at[DT_MAX_RANK] = {0}, offset = 0;
  for (int64_t i = 0; to->contiguous && i < value->count; i++)
    dt__element_store(value->dtype, to->data, dt__eval_row(value), i, value->data[i]);
  for (int64_t i = 0; !to->contiguous && i < value->count; i++) {
    dt__scalar_store(value->dtype, (char *)to->data + offset * (int64_t)item, value->data[i]);
    for (uint32_t k = to->rank; k-- > 0;) {
      offset += to->strides[k];
      if (++at[k] < to->sizes[k])
        break;
      offset -= at[k] * to->strides[k];
      at[k] = 0;
    }
  }
}

static dt_status_t evaluate(dt_arena_t *arena, const dt_call_t *call, const dt_variant_t *variant,
                            const dt_bindings_t *bindings) {
  dt_session_t *session = call->session;
  dt_graph_t graph;
  DT_TRY(bind_graph(arena, variant->traced->graph, bindings, &graph));
  dt_eval_arg_t *args = DT_ARENA_ARRAY(arena, dt_eval_arg_t, graph.inputs.len);
  dt_eval_value_t *values = DT_ARENA_ARRAY(arena, dt_eval_value_t, graph.outputs.len);
  if (!args || !values)
    return DT_NO_MEMORY();
  for (uint32_t i = 0; i < graph.inputs.len; i++)
    args[i] = (dt_eval_arg_t){.data = call->inputs[i]->data,
                              .sizes = call->inputs[i]->sizes,
                              .strides = call->inputs[i]->strides};
  const dt_eval_options_t options = {.control = call->control};
  DT_TRY(dt__graph_eval(&graph, session->symbols, args, &options, arena, values));
  int64_t *sizes = session->sizes;
  uint32_t n_outputs = call->function->n_outputs;
  for (uint32_t k = 0; k < n_outputs; k++) {
    for (uint32_t axis = 0; axis < values[k].rank; axis++)
      *sizes++ = values[k].sizes[axis];
  }
  DT_TRY(dt__call_admit_evaluated(call, variant, arena->total_bytes));
  DT_TRY(dt__outputs_prepare(call, variant, NULL, 0));
  for (uint32_t k = 0; k < n_outputs; k++)
    store_value(&values[k], session->results[k]);
  for (uint32_t k = 0; k < graph.updates.len; k++)
    store_value(&values[n_outputs + k], call->inputs[graph.updates.items[k].input]);
  return NULL;
}

dt_status_t dt__evaluate(const dt_call_t *call, const dt_variant_t *variant,
                         const dt_bindings_t *bindings) {
  dt_arena_t arena;
  dt_watch_t watch;
  const dt_watch_limits_t limits = {.max_bytes = call->function->max_call_bytes};
  dt__arena_init(&arena, limits.max_bytes ? SMALL_BLOCK : 0);
  dt__watch_init(&watch, &limits);
  arena.watch = limits.max_bytes ? &watch : NULL;
  if (variant->n_output_sizes)
    memset(call->session->sizes, 0, variant->n_output_sizes * sizeof(call->session->sizes[0]));
  uint32_t before = dt__fp_enter();
  dt_status_t status = evaluate(&arena, call, variant, bindings);
  dt__fp_leave(before);
  uint64_t refused = atomic_load_explicit(&watch.refused, memory_order_relaxed);
  if (refused) { // the arena said that there is no memory
    dt_status_free(status);
    status = dt__call_admit_evaluated(call, variant, refused);
  }
  dt__arena_fini(&arena);
  return status;
}
