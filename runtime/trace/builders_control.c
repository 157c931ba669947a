// SPDX-License-Identifier: Apache-2.0
// Builders of control that data decides. A body is traced where it stands, into the program's
// graph; bodies.c makes it a graph of its own when both have ended.
#include "runtime/trace/capture.h"

#include "runtime/base/dtype.h"
#include "runtime/base/log.h"

#include <string.h>

static void clear(uint32_t n, dt_value_t *out) {
  for (uint32_t k = 0; out && k < n; k++)
    out[k] = (dt_value_t){0};
}

static dt_value_t *values(dt_trace_t *trace, uint32_t n) {
  dt_value_t *made = DT_ARENA_ARRAY(&trace->traced->arena, dt_value_t, (size_t)n + 1);
  if (!made)
    (void)dt__trace_take(trace, DT_NO_MEMORY());
  return made;
}

// `in` as it reads now; false fails the trace.
static bool take_operands(dt_trace_t *trace, uint32_t n, const dt_value_t *in, const char *what,
                          dt_value_t *out) {
  if (n && !in) {
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "%s: no values", what);
    return false;
  }
  for (uint32_t k = 0; k < n; k++) {
    if (!dt__trace_node(trace, in[k], what))
      return false;
    out[k] = dt__trace_current(trace, in[k]);
  }
  return true;
}

static bool check_call(dt_trace_t *trace, dt_branch_fn_t first, dt_branch_fn_t second, uint32_t n,
                       const dt_value_t *out) {
  if (first && second && n && out)
    return true;
  DT_TRACE_FAIL(trace, DT_E_ARGUMENT,
                n ? "a function or the memory for results is missing" : "no value would come out");
  return false;
}

// ---- Bodies -------------------------------------------------------------------------------------
// Runs a body; its outputs are values of the trace.
static bool run(dt_trace_t *trace, dt_branch_fn_t fn, void *closure, const dt_value_t *in,
                uint32_t n_out, dt_value_t *out, const char *name) {
  dt_origin_t origin = trace->origin;
  clear(n_out, out);
  dt_status_t returned = fn(trace, in, out, closure);
  // A body may hand back what dt_trace_status lent it.
  if (returned && returned != trace->status)
    (void)dt__trace_take(trace, returned);
  if (trace->status)
    return false;
  trace->origin = origin;
  for (uint32_t k = 0; k < n_out; k++) {
    if (out[k].id == 0) {
      DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "output %u of %u was not set by %s", k, n_out, name);
      return false;
    }
    if (!dt__trace_node(trace, out[k], "an output of a body"))
      return false;
    out[k] = dt__trace_current(trace, out[k]);
  }
  return true;
}

// The state as a body sees it: values that nothing is known of.
static bool declare_state(dt_trace_t *trace, uint32_t n, const dt_value_t *init, dt_value_t *out) {
  dt_graph_t *graph = trace->graph;
  for (uint32_t k = 0; k < n; k++) {
    const dt_node_t *node = dt__graph_node(graph, (dt_node_id_t){init[k].id});
    dt_graph_input_t input = {
        .name = "", .dtype = node->dtype, .rank = node->rank, .contiguous = true};
    memcpy(input.sizes, node->sizes, sizeof(input.sizes));
    memcpy(input.strides, node->sizes, sizeof(input.strides)); // read by nobody
    dt_node_id_t id;
    if (!dt__trace_take(trace, dt__graph_add_input(graph, &input, &id)))
      return false;
    out[k] = (dt_value_t){id.id};
  }
  return true;
}

// Traces body b of `control` over `in`, of which the first n_state are replaced.
static bool trace_body(dt_trace_t *trace, dt_trace_control_t *control, uint32_t b,
                       dt_branch_fn_t fn, void *closure, dt_value_t *in, uint32_t n_out) {
  dt_value_t *out = values(trace, n_out);
  uint32_t n_inputs = trace->graph->inputs.len;
  control->bodies[b].begin = trace->graph->nodes.len;
  trace->n_open++;
  bool ok = out && declare_state(trace, control->n_state, control->init, in) &&
            run(trace, fn, closure, in, n_out, out, dt__control_body_name(control->op, b));
  trace->n_open--;
  trace->graph->inputs.len = n_inputs;
  ok = ok && dt__trace_end_body(trace, &control->bodies[b]);
  control->outputs[b] = out;
  control->n_outputs[b] = n_out;
  return ok;
}

static void read_results(dt_trace_t *trace, dt_value_t control, uint32_t n, dt_value_t *out) {
  for (uint32_t k = 0; k < n && !trace->status; k++) {
    dt_attrs_t attrs = {0};
    attrs.index = k;
    out[k] = dt__trace_add(trace, DT_OP_result, &control, 1, &attrs);
  }
  if (trace->status)
    clear(n, out);
}

// ---- cond ---------------------------------------------------------------------------------------
static bool is_literal(const dt_trace_t *trace, dt_value_t pred, bool *taken) {
  const dt_node_t *node = dt__graph_node(trace->graph, (dt_node_id_t){pred.id});
  while (dt__op_info(node->op)->flags & DT_OPF_VIEW)
    node = dt__graph_node(trace->graph, node->inputs[0]);
  *taken = node->attrs->ints[0] != 0;
  return node->op == DT_OP_scalar;
}

static bool check_pred(dt_trace_t *trace, dt_value_t pred) {
  const dt_node_t *node = dt__trace_node(trace, pred, "the predicate");
  if (!node)
    return false;
  if (node->dtype == DT_BOOL && node->rank == 0)
    return true;
  DT_TRACE_FAIL(trace, node->rank ? DT_E_SHAPE : DT_E_DTYPE,
                "the predicate is %s of rank %u; expected one bool of rank 0 (use cast, reshape, "
                "any or all)",
                dt_dtype_name(node->dtype), node->rank);
  return false;
}

static void take_one(dt_trace_t *trace, bool taken, dt_branch_fn_t fn, void *closure,
                     const dt_value_t *in, uint32_t n_out, dt_value_t *out) {
  dt_origin_t origin = trace->origin;
  DT_LOG(DT_LOG_DYNAMIC, 1, "cond at %s:%d: its predicate is a constant: %s alone is traced",
         origin.file ? origin.file : "", origin.line, taken ? "then" : "else");
  if (!run(trace, fn, closure, in, n_out, out, taken ? "then" : "else"))
    clear(n_out, out);
}

void dt_cond(dt_trace_t *trace, dt_value_t pred, dt_branch_fn_t then_fn, dt_branch_fn_t else_fn,
             void *closure, uint32_t n_in, const dt_value_t *in, uint32_t n_out, dt_value_t *out) {
  bool taken = false, good = dt__trace_begin(trace, "cond") &&
                             check_call(trace, then_fn, else_fn, n_out, out) &&
                             check_pred(trace, pred);
  dt_value_t *own = good ? values(trace, n_in) : NULL;
  good = own && take_operands(trace, n_in, in, "an operand", own);
  clear(n_out, out); // which may be `in`
  if (!good)
    return;
  pred = dt__trace_current(trace, pred);
  if (is_literal(trace, pred, &taken)) {
    take_one(trace, taken, taken ? then_fn : else_fn, closure, own, n_out, out);
    return;
  }
  dt_trace_control_t control = {.op = DT_OP_cond, .n_bodies = 2, .pred = pred};
  if (!trace_body(trace, &control, 0, then_fn, closure, own, n_out) ||
      !trace_body(trace, &control, 1, else_fn, closure, own, n_out))
    return;
  dt_value_t made = dt__trace_add_control(trace, &control);
  read_results(trace, made, n_out, out);
}

// ---- switch -------------------------------------------------------------------------------------
// The index as a byte in [0, n).
static dt_value_t clamp_index(dt_trace_t *trace, dt_value_t index, uint32_t n) {
  const dt_node_t *node = dt__trace_node(trace, index, "the index");
  if (!node)
    return (dt_value_t){0};
  dt_dtype_t dtype = node->dtype;
  bool integer = dtype == DT_BOOL || dt__dtype_is_int(dtype);
  if (!integer || node->rank) {
    DT_TRACE_FAIL(trace, node->rank ? DT_E_SHAPE : DT_E_DTYPE,
                  "the index is %s of rank %u; expected one integer of rank 0 (use cast, reshape, "
                  "or argmax)",
                  dt_dtype_name(dtype), node->rank);
    return (dt_value_t){0};
  }
  dt_origin_t origin = trace->origin;
  if (dtype == DT_BOOL)
    index = (dt_cast)(trace, index, dtype = DT_U8);
  dt_value_t last = (dt_scalar)(trace, dtype, (double)(n - 1));
  index = (dt_minimum)(trace, (dt_maximum)(trace, index, (dt_scalar)(trace, dtype, 0)), last);
  index = (dt_cast)(trace, index, DT_U8);
  trace->origin = origin;
  return index;
}

// A literal, which decides while the program is traced.
static bool is_literal_index(dt_trace_t *trace, dt_value_t index, uint32_t n, uint32_t *taken) {
  if (!dt__trace_node(trace, index, "the index"))
    return false;
  const dt_node_t *node = dt__graph_node(trace->graph, (dt_node_id_t){index.id});
  int64_t value = node->attrs->ints[0];
  if (node->op != DT_OP_scalar || node->rank || !dt__dtype_is_int(node->dtype))
    return false;
  bool beyond = node->dtype == DT_U64 ? (uint64_t)value >= n : value >= (int64_t)n;
  *taken = beyond ? n - 1 : value < 0 ? 0 : (uint32_t)value;
  DT_LOG(DT_LOG_DYNAMIC, 1, "switch at %s:%d: its index is a constant: case %u alone is traced",
         trace->origin.file ? trace->origin.file : "", trace->origin.line, *taken);
  return true;
}

static bool check_cases(dt_trace_t *trace, uint32_t n, const dt_branch_fn_t *cases, uint32_t n_out,
                        const dt_value_t *out) {
  if (n == 0 || n > DT_MOST_CASES) {
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "%u cases; expected 1 to %u", n, DT_MOST_CASES);
    return false;
  }
  for (uint32_t k = 0; k < n; k++)
    if (!cases || !check_call(trace, cases[k], cases[k], n_out, out))
      return false;
  return true;
}

void dt_switch(dt_trace_t *trace, dt_value_t index, uint32_t n_cases, const dt_branch_fn_t *cases,
               void *closure, uint32_t n_in, const dt_value_t *in, uint32_t n_out,
               dt_value_t *out) {
  bool good = dt__trace_begin(trace, "switch") && check_cases(trace, n_cases, cases, n_out, out);
  dt_value_t *own = good ? values(trace, n_in) : NULL;
  good = own && take_operands(trace, n_in, in, "an operand", own);
  clear(n_out, out); // which may be `in`
  if (!good)
    return;
  uint32_t taken = 0;
  if (n_cases == 1 || is_literal_index(trace, index, n_cases, &taken)) {
    if (!run(trace, cases[taken], closure, own, n_out, out, "case"))
      clear(n_out, out);
    return;
  }
  dt_trace_control_t *control = DT_ARENA_NEW(&trace->traced->arena, dt_trace_control_t);
  if (!control) {
    (void)dt__trace_take(trace, DT_NO_MEMORY());
    return;
  }
  dt_value_t pred = clamp_index(trace, dt__trace_current(trace, index), n_cases);
  *control = (dt_trace_control_t){.op = DT_OP_switch, .n_bodies = n_cases, .pred = pred};
  for (uint32_t b = 0; b < n_cases && !trace->status; b++)
    if (!trace_body(trace, control, b, cases[b], closure, own, n_out))
      return;
  if (!trace->status)
    read_results(trace, dt__trace_add_control(trace, control), n_out, out);
}

// ---- while --------------------------------------------------------------------------------------
void dt_while(dt_trace_t *trace, dt_branch_fn_t cond_fn, dt_branch_fn_t body_fn, void *closure,
              uint32_t n_state, const dt_value_t *init, uint32_t n_captured,
              const dt_value_t *captured, dt_value_t *out) {
  bool good = dt__trace_begin(trace, "while") && check_call(trace, cond_fn, body_fn, n_state, out);
  dt_value_t *own = good ? values(trace, n_state) : NULL;
  dt_value_t *in = own ? values(trace, n_state + n_captured) : NULL;
  good = in && take_operands(trace, n_state, init, "the first state", own) &&
         take_operands(trace, n_captured, captured, "a captured value", in + n_state);
  clear(n_state, out); // which may be `init`
  if (!good)
    return;
  dt_trace_control_t control = {.op = DT_OP_while, .n_bodies = 2, .n_state = n_state, .init = own};
  if (!trace_body(trace, &control, 0, cond_fn, closure, in, 1) ||
      !trace_body(trace, &control, 1, body_fn, closure, in, n_state))
    return;
  dt_value_t made = dt__trace_add_control(trace, &control);
  read_results(trace, made, n_state, out);
}
