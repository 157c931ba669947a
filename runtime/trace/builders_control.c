// SPDX-License-Identifier: Apache-2.0
// Builders of control that data decides. A body is traced where it stands, into the program's
// graph. After that bodies.c makes it a graph of its own.
#include "runtime/trace/builder.h"

#include "runtime/base/dtype.h"
#include "runtime/base/log.h"

#include <string.h>

void dt__trace_clear(uint32_t n, dt_value_t *out) {
  for (uint32_t k = 0; out && k < n; k++)
    out[k] = (dt_value_t){0};
}

dt_value_t *dt__trace_values(dt_trace_t *trace, uint32_t n) {
  dt_value_t *made = DT_ARENA_ARRAY(&trace->traced->arena, dt_value_t, (size_t)n + 1);
  if (!made)
    (void)dt__trace_take(trace, DT_NO_MEMORY());
  return made;
}

bool dt__trace_operands(dt_trace_t *trace, uint32_t n, const dt_value_t *in, const char *what,
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
// The graphs of a rewriter have their bodies: passes, and decompositions in them, make none.
static bool may_branch(dt_trace_t *trace) {
  if (trace->pass && !trace->status)
    DT_TRACE_FAIL(trace, DT_E_STATE,
                  "bodies are for programs: a pass, or the decomposition of an op, has no branches "
                  "and loops");
  else if (trace->n_open > DT_MOST_BODY_DEPTH && !trace->status)
    DT_TRACE_FAIL(trace, DT_E_LIMIT,
                  "bodies in bodies, more than %u deep: a body that runs itself has no end",
                  DT_MOST_BODY_DEPTH);
  return !trace->status;
}

bool dt__trace_run_body(dt_trace_t *trace, dt_branch_fn_t fn, void *closure, const dt_value_t *in,
                        uint32_t n_out, dt_value_t *out, const char *name) {
  dt_origin_t origin = trace->origin;
  if (!may_branch(trace))
    return false;
  dt__trace_clear(n_out, out);
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

bool dt__trace_declare_state(dt_trace_t *trace, uint32_t n, const dt_value_t *like, bool elements,
                             dt_value_t *out) {
  dt_graph_t *graph = trace->graph;
  for (uint32_t k = 0; k < n; k++) {
    const dt_node_t *node = dt__graph_node(graph, (dt_node_id_t){like[k].id});
    dt_graph_input_t input = {
        .name = "", .dtype = node->dtype, .rank = elements ? 0 : node->rank, .contiguous = true};
    memcpy(input.sizes, node->sizes, sizeof(input.sizes));
    memcpy(input.strides, node->sizes, sizeof(input.strides)); // read by nobody
    dt_node_id_t id;
    if (!dt__trace_take(trace, dt__graph_add_input(graph, &input, &id)))
      return false;
    out[k] = dt__trace_value(trace, id);
  }
  return true;
}

bool dt__trace_body(dt_trace_t *trace, dt_trace_control_t *control, uint32_t b, dt_branch_fn_t fn,
                    void *closure, dt_value_t *in, uint32_t n_out) {
  if (!may_branch(trace))
    return false;
  dt_value_t *out = dt__trace_values(trace, n_out);
  dt_value_t *states = dt__trace_values(trace, control->n_state);
  uint32_t n_inputs = trace->graph->inputs.len;
  control->bodies[b].begin = trace->graph->nodes.len;
  trace->n_open++;
  bool ok = out && states &&
            dt__trace_declare_state(trace, control->n_state, control->init,
                                    control->op == DT_OP_associative_scan, in);
  for (uint32_t k = 0; ok && k < control->n_state; k++)
    states[k] = in[k]; // the body may write to `in`
  ok = ok && dt__trace_run_body(trace, fn, closure, in, n_out, out,
                                dt__control_body_name(control->op, b));
  trace->n_open--;
  trace->graph->inputs.len = n_inputs;
  ok = ok && dt__trace_end_body(trace, &control->bodies[b]);
  control->states[b] = states;
  control->outputs[b] = out;
  control->n_outputs[b] = n_out;
  return ok;
}

void dt__trace_results(dt_trace_t *trace, dt_value_t control, uint32_t n, dt_value_t *out) {
  for (uint32_t k = 0; k < n && !trace->status; k++) {
    dt_attrs_t attrs = {0};
    attrs.index = k;
    out[k] = dt__trace_add(trace, DT_OP_result, &control, 1, &attrs);
  }
  if (trace->status)
    dt__trace_clear(n, out);
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
  if (!dt__trace_run_body(trace, fn, closure, in, n_out, out, taken ? "then" : "else"))
    dt__trace_clear(n_out, out);
}

// ---- Branches of different sizes ----------------------------------------------------------------
// Each branch gets a cond of its own, whose other way gives zeros of the same sizes; the results
// are cut and filled up to what the predicate, read as a number, says is the size.

// That guards cannot make the outputs alike: they differ, or do so in the call being traced.
static bool sizes_differ(const dt_trace_t *trace, const dt_trace_control_t *control) {
  for (uint32_t k = 0; k < control->n_outputs[0]; k++) {
    const dt_node_t *a = dt__graph_node(trace->graph, (dt_node_id_t){control->outputs[0][k].id});
    const dt_node_t *b = dt__graph_node(trace->graph, (dt_node_id_t){control->outputs[1][k].id});
    if (a->dtype != b->dtype || a->rank != b->rank)
      return false; // refused for that
    for (uint32_t d = 0; d < a->rank; d++) {
      int64_t hint = 1;
      dt_sym_t same = dt__sym_eq(trace->env, a->sizes[d], b->sizes[d]);
      dt_tri_t known = same.id ? dt__sym_known(trace->env, same) : DT_TRUE;
      if (known == DT_FALSE ||
          (known == DT_UNKNOWN && dt__sym_hint(trace->env, same, &hint) && !hint))
        return true;
    }
  }
  return false;
}

typedef struct like_t {
  const dt_value_t *values;
  uint32_t n;
} like_t;

static dt_status_t zeros_like(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                              void *closure) {
  const like_t *like = closure;
  (void)in;
  for (uint32_t k = 0; k < like->n && !trace->status; k++) {
    const dt_node_t *node = dt__graph_node(trace->graph, (dt_node_id_t){like->values[k].id});
    dt_sym_t sizes[DT_MAX_RANK];
    memcpy(sizes, node->sizes, sizeof(sizes));
    out[k] = (dt_full)(trace, node->dtype, 0, node->rank, sizes);
  }
  return NULL;
}

// Branch b of `control`, or zeros; out[] are its results.
static bool split_branch(dt_trace_t *trace, const dt_trace_control_t *control, uint32_t b,
                         dt_value_t *out) {
  uint32_t n_out = control->n_outputs[b];
  like_t like = {control->outputs[b], n_out};
  dt_trace_control_t own = *control;
  dt_origin_t origin = trace->origin;
  if (!dt__trace_body(trace, &own, 1 - b, zeros_like, &like, NULL, n_out))
    return false;
  trace->origin = origin;
  dt__trace_results(trace, dt__trace_add_control(trace, &own), n_out, out);
  return !trace->status;
}

// x with the given sizes: what is beyond them is cut off, what is missing is 0.
static dt_value_t fit(dt_trace_t *trace, dt_value_t x, const dt_sym_t *sizes) {
  dt_sym_t zeros[DT_MAX_RANK], high[DT_MAX_RANK];
  dt_node_t node = *dt__graph_node(trace->graph, (dt_node_id_t){x.id});
  for (uint32_t d = 0; d < node.rank && !trace->status; d++) {
    dt_sym_t kept = dt__sym_min(trace->env, node.sizes[d], sizes[d]);
    zeros[d] = dt__sym_const(trace->env, 0);
    high[d] = dt__trace_made(trace, dt__sym_sub(trace->env, sizes[d], kept));
    if (!dt__sym_known_eq(trace->env, kept, node.sizes[d]))
      x = (dt_slice)(trace, x, (int32_t)d, zeros[d], kept, 1);
  }
  return trace->status ? (dt_value_t){0} : (dt_pad)(trace, x, zeros, high, 0);
}

// Result k by the predicate `taken`, 0 or 1, of what the branches gave.
static dt_value_t join(dt_trace_t *trace, dt_value_t pred, dt_sym_t taken, dt_value_t a,
                       dt_value_t b) {
  dt_sym_t sizes[DT_MAX_RANK];
  dt_node_t first = *dt__graph_node(trace->graph, (dt_node_id_t){a.id});
  dt_node_t second = *dt__graph_node(trace->graph, (dt_node_id_t){b.id});
  for (uint32_t d = 0; d < first.rank && !trace->status; d++)
    sizes[d] =
        dt__trace_made(trace, dt__sym_select(trace->env, taken, first.sizes[d], second.sizes[d]));
  dt_value_t fitted[2] = {fit(trace, a, sizes), fit(trace, b, sizes)};
  return (dt_where)(trace, pred, fitted[0], fitted[1]);
}

static void split(dt_trace_t *trace, const dt_trace_control_t *control, dt_value_t *out) {
  uint32_t n_out = control->n_outputs[0];
  dt_origin_t origin = trace->origin;
  dt_value_t *then_out = dt__trace_values(trace, n_out), *else_out = dt__trace_values(trace, n_out);
  if (!then_out || !else_out || !split_branch(trace, control, 0, then_out) ||
      !split_branch(trace, control, 1, else_out))
    return;
  dt_sym_t taken = dt__trace_number(trace, control->pred);
  for (uint32_t k = 0; k < n_out && !trace->status; k++) {
    out[k] = join(trace, control->pred, taken, then_out[k], else_out[k]);
    trace->origin = origin;
  }
  if (trace->status)
    dt__trace_clear(n_out, out);
}

void dt_cond(dt_trace_t *trace, dt_value_t pred, dt_branch_fn_t then_fn, dt_branch_fn_t else_fn,
             void *closure, uint32_t n_in, const dt_value_t *in, uint32_t n_out, dt_value_t *out) {
  bool taken = false, good = dt__trace_begin(trace, "cond") &&
                             check_call(trace, then_fn, else_fn, n_out, out) &&
                             check_pred(trace, pred);
  dt_value_t *own = good ? dt__trace_values(trace, n_in) : NULL;
  good = own && dt__trace_operands(trace, n_in, in, "an operand", own);
  dt__trace_clear(n_out, out); // which may be `in`
  if (!good)
    return;
  pred = dt__trace_current(trace, pred);
  if (is_literal(trace, pred, &taken)) {
    take_one(trace, taken, taken ? then_fn : else_fn, closure, own, n_out, out);
    return;
  }
  dt_trace_control_t control = {.op = DT_OP_cond, .n_bodies = 2, .pred = pred};
  if (!dt__trace_body(trace, &control, 0, then_fn, closure, own, n_out) ||
      !dt__trace_body(trace, &control, 1, else_fn, closure, own, n_out))
    return;
  // In a body no number can be read: there the branches must agree.
  if (trace->n_open == 0 && sizes_differ(trace, &control)) {
    split(trace, &control, out);
    return;
  }
  dt_value_t made = dt__trace_add_control(trace, &control);
  dt__trace_results(trace, made, n_out, out);
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
  dt_value_t *own = good ? dt__trace_values(trace, n_in) : NULL;
  good = own && dt__trace_operands(trace, n_in, in, "an operand", own);
  dt__trace_clear(n_out, out); // which may be `in`
  if (!good)
    return;
  uint32_t taken = 0;
  if (n_cases == 1 || is_literal_index(trace, index, n_cases, &taken)) {
    if (!dt__trace_run_body(trace, cases[taken], closure, own, n_out, out, "case"))
      dt__trace_clear(n_out, out);
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
    if (!dt__trace_body(trace, control, b, cases[b], closure, own, n_out))
      return;
  if (!trace->status)
    dt__trace_results(trace, dt__trace_add_control(trace, control), n_out, out);
}

// ---- while --------------------------------------------------------------------------------------
void dt_while(dt_trace_t *trace, dt_branch_fn_t cond_fn, dt_branch_fn_t body_fn, void *closure,
              uint32_t n_state, const dt_value_t *init, uint32_t n_captured,
              const dt_value_t *captured, dt_value_t *out) {
  bool good = dt__trace_begin(trace, "while") && check_call(trace, cond_fn, body_fn, n_state, out);
  dt_value_t *own = good ? dt__trace_values(trace, n_state) : NULL;
  dt_value_t *in = own ? dt__trace_values(trace, n_state + n_captured) : NULL;
  good = in && dt__trace_operands(trace, n_state, init, "the first state", own) &&
         dt__trace_operands(trace, n_captured, captured, "a captured value", in + n_state);
  dt__trace_clear(n_state, out); // which may be `init`
  if (!good)
    return;
  dt_trace_control_t control = {.op = DT_OP_while, .n_bodies = 2, .n_state = n_state, .init = own};
  if (!dt__trace_body(trace, &control, 0, cond_fn, closure, in, 1) ||
      !dt__trace_body(trace, &control, 1, body_fn, closure, in, n_state))
    return;
  dt_value_t made = dt__trace_add_control(trace, &control);
  dt__trace_results(trace, made, n_state, out);
}
