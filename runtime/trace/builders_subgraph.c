// SPDX-License-Identifier: Apache-2.0
// dt_subgraph: a body that is traced once and called often. Calls with one key share the graph of
// the body, and by that all that compiles make of it.
#include "runtime/trace/builder.h"

#include <string.h>

#define MOST_VALUES 65536u // operands, or results

static const dt_node_t *node_of(const dt_trace_t *trace, dt_node_id_t id) {
  return dt__graph_node(trace->graph, id);
}

// ---- The key ------------------------------------------------------------------------------------
static bool is_alike(const dt_trace_t *trace, dt_node_id_t a, dt_value_t b) {
  const dt_node_t *one = node_of(trace, a), *other = node_of(trace, (dt_node_id_t){b.id});
  bool alike = one->dtype == other->dtype && one->rank == other->rank;
  for (uint32_t d = 0; alike && d < one->rank; d++)
    alike = dt__sym_known_eq(trace->env, one->sizes[d], other->sizes[d]);
  return alike;
}

// What a captured value is where the trace stands now; none: it ended with a body.
static dt_node_id_t still(const dt_trace_t *trace, dt_node_id_t id) {
  while (dt__trace_has_ended(trace, (dt_value_t){.id = id.id})) {
    dt_node_id_t outside = dt__trace_lifted(trace, id);
    if (outside.id == id.id)
      return (dt_node_id_t){0};
    id = outside;
  }
  return id;
}

// A captured argument that was updated since reads as another value.
static bool is_as_it_was(const dt_trace_t *trace, dt_node_id_t id) {
  dt_value_t input = dt__trace_input_of(trace, id.id);
  return !input.id || dt__trace_current(trace, input).id == id.id;
}

static bool can_serve(const dt_trace_t *trace, const dt_trace_subgraph_t *known, dt_branch_fn_t fn,
                      const void *closure, uint32_t n_in, const dt_value_t *in, uint32_t n_out) {
  if (known->fn != fn || known->closure != closure || known->n_in != n_in || known->n_out != n_out)
    return false;
  const dt_node_t *call = node_of(trace, known->call);
  bool good = true;
  for (uint32_t k = 0; good && k < n_in; k++)
    good = is_alike(trace, call->inputs[k], in[k]);
  for (uint32_t k = n_in; good && k < call->n_inputs; k++)
    good =
        still(trace, call->inputs[k]).id != 0 && is_as_it_was(trace, still(trace, call->inputs[k]));
  return good;
}

static const dt_trace_subgraph_t *find(const dt_trace_t *trace, dt_branch_fn_t fn,
                                       const void *closure, uint32_t n_in, const dt_value_t *in,
                                       uint32_t n_out) {
  for (uint32_t k = trace->subgraphs.len; k-- > 0;)
    if (can_serve(trace, &trace->subgraphs.items[k], fn, closure, n_in, in, n_out))
      return &trace->subgraphs.items[k];
  return NULL;
}

// ---- Calls --------------------------------------------------------------------------------------
static dt_status_t add_call(dt_trace_t *trace, dt_node_id_t first, uint32_t n_in,
                            const dt_value_t *in, dt_node_id_t *out) {
  const dt_node_t *call = node_of(trace, first);
  uint32_t n = call->n_inputs;
  dt_graph_control_t control = *dt__graph_control(trace->graph, call);
  dt_node_id_t *inputs = DT_ARENA_ARRAY(trace->graph->arena, dt_node_id_t, (size_t)n + 1);
  if (!inputs)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < n; k++)
    inputs[k] = k < n_in ? (dt_node_id_t){in[k].id} : still(trace, call->inputs[k]);
  return dt__graph_add_control(trace->graph, DT_OP_call, &control, inputs, n, NULL, &trace->origin,
                               out);
}

static dt_value_t call_again(dt_trace_t *trace, const dt_trace_subgraph_t *known,
                             const dt_value_t *in) {
  dt_node_id_t made = {0};
  bool good = dt__trace_take(trace, add_call(trace, known->call, known->n_in, in, &made));
  return good ? (dt_value_t){.id = made.id} : (dt_value_t){0};
}

static dt_value_t call_first(dt_trace_t *trace, dt_trace_subgraph_t *known, const dt_value_t *in) {
  dt_trace_control_t *control = DT_ARENA_NEW(&trace->traced->arena, dt_trace_control_t);
  dt_value_t *inside = dt__trace_values(trace, known->n_in);
  if (!control)
    (void)dt__trace_take(trace, DT_NO_MEMORY());
  if (trace->status)
    return (dt_value_t){0};
  *control =
      (dt_trace_control_t){.op = DT_OP_call, .n_bodies = 1, .n_state = known->n_in, .init = in};
  if (!dt__trace_body(trace, control, 0, known->fn, known->closure, inside, known->n_out))
    return (dt_value_t){0};
  dt_value_t made = dt__trace_add_control(trace, control);
  known->call = (dt_node_id_t){made.id};
  if (made.id && !DT_VEC_PUSH(&trace->traced->arena, &trace->subgraphs, *known))
    (void)dt__trace_take(trace, DT_NO_MEMORY());
  return made;
}

static bool check(dt_trace_t *trace, dt_branch_fn_t fn, uint32_t n_in, uint32_t n_out,
                  uint32_t flags, const dt_value_t *out) {
  if (!fn || !out || !n_in || !n_out)
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT,
                  !n_in    ? "a subgraph reads one operand at least"
                  : !n_out ? "no value would come out"
                           : "the function or the memory for results is missing");
  else if (flags)
    DT_TRACE_FAIL(trace, DT_E_UNSUPPORTED, "the flags 0x%x are none that this version knows",
                  flags);
  else if (n_in > MOST_VALUES || n_out > MOST_VALUES)
    DT_TRACE_FAIL(trace, DT_E_LIMIT, "more than %u values of a kind", MOST_VALUES);
  return !trace->status;
}

void dt_subgraph(dt_trace_t *trace, dt_branch_fn_t fn, void *closure, uint32_t n_in,
                 const dt_value_t *in, uint32_t n_out, uint32_t flags, dt_value_t *out) {
  bool good = dt__trace_begin(trace, "subgraph") && check(trace, fn, n_in, n_out, flags, out);
  dt_value_t *own = good ? dt__trace_values(trace, n_in) : NULL;
  good = own && dt__trace_operands(trace, n_in, in, "an operand", own);
  if (n_out <= MOST_VALUES)
    dt__trace_clear(n_out, out); // which may be `in`
  if (!good)
    return;
  const dt_trace_subgraph_t *known = find(trace, fn, closure, n_in, own, n_out);
  dt_trace_subgraph_t fresh = {.fn = fn, .closure = closure, .n_in = n_in, .n_out = n_out};
  dt_value_t made = known ? call_again(trace, known, own) : call_first(trace, &fresh, own);
  if (!trace->status)
    dt__trace_results(trace, made, n_out, out);
}
