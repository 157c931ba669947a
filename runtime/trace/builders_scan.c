// SPDX-License-Identifier: Apache-2.0
// Builders of loops along an axis: dt_scan and dt_map, as one `while` whose state is the trip's
// number, the carry, and the values of all trips, which each trip writes its own into. The body is
// traced first and once: it says what sizes the stacked values have, and then these are made.
#include "runtime/trace/builder.h"

#include "runtime/base/dtype.h"

#include <string.h>

#define DT_MAX_VALUES 65536u // of a kind: carry, xs, ys

typedef struct scan_t {
  dt_trace_t *trace;
  dt_origin_t origin;
  dt_branch_fn_t body;
  void *closure;
  uint32_t n_carry, n_xs, n_ys;
  bool backwards, numbered;
  dt_value_t *xs;
  dt_value_t *init; // the trip's number, the carry, the stacked values
  dt_sym_t length;  // trips
  dt_sym_t room;    // of the stacked values: 1 or more
  dt_trace_control_t control;
} scan_t;

static const dt_node_t *node_of(const dt_trace_t *trace, dt_value_t x) {
  return dt__graph_node(trace->graph, (dt_node_id_t){x.id});
}

static dt_sym_t literal(dt_trace_t *trace, int64_t value) {
  return dt__trace_made(trace, dt__sym_const(trace->env, value));
}

// ---- What is given ------------------------------------------------------------------------------
static bool check_call(dt_trace_t *trace, dt_branch_fn_t body, uint32_t n_carry, uint32_t n_xs,
                       uint32_t n_ys, uint32_t flags, const dt_value_t *out) {
  if (!body || !out)
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "the body or the memory for results is missing");
  else if (n_carry > DT_MAX_VALUES || n_xs > DT_MAX_VALUES || n_ys > DT_MAX_VALUES)
    DT_TRACE_FAIL(trace, DT_E_LIMIT, "more than %u values of a kind", DT_MAX_VALUES);
  else if (n_carry + n_ys == 0)
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "no value would come out");
  else if (flags & ~(uint32_t)(DT_SCAN_BACKWARDS | DT_SCAN_NUMBERED))
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "the flags %u are none of dt_scan_flag_t", flags);
  return !trace->status;
}

// How many trips, which all xs agree about.
static bool find_length(scan_t *scan, dt_sym_t length) {
  dt_trace_t *trace = scan->trace;
  if (!length.id && scan->n_xs == 0)
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "nothing says how many trips there are: no xs, no length");
  else if (length.id && !dt__trace_sym(trace, &length, "the length"))
    return false;
  for (uint32_t k = 0; k < scan->n_xs && !trace->status; k++) {
    const dt_node_t *x = node_of(trace, scan->xs[k]);
    if (x->rank == 0) {
      DT_TRACE_FAIL(trace, DT_E_SHAPE, "xs[%u] has rank 0 and no axis to go along; capture it", k);
      return false;
    }
    if (!length.id)
      length = x->sizes[0];
    dt_sym_t same = dt__trace_made(trace, dt__sym_eq(trace->env, x->sizes[0], length));
    if (same.id && dt__sym_known(trace->env, same) == DT_FALSE)
      DT_TRACE_FAIL(trace, DT_E_SHAPE,
                    "xs[%u] has another size in dim 0 than the length or the xs before it; slice "
                    "it",
                    k);
    else if (same.id)
      (void)dt__trace_take(trace, dt__sym_require(trace->env, same, &scan->origin,
                                                  "what a scan goes along has one length"));
  }
  scan->length = length;
  return !trace->status;
}

static dt_sym_t room_for(dt_trace_t *trace, dt_sym_t length) {
  dt_sym_t one = literal(trace, 1);
  dt_sym_t some = dt__trace_made(trace, dt__sym_le(trace->env, one, length));
  if (!some.id || (dt_sym_guard_or)(trace, some, false))
    return length;
  return (dt_sym_guard_or)(trace, some, true)
             ? dt__trace_made(trace, dt__sym_max(trace->env, one, length))
             : one;
}

dt_sym_t dt_scan_room(dt_trace_t *trace, dt_sym_t length) {
  if (!dt__trace_begin(trace, "scan_room") || !dt__trace_sym(trace, &length, "the length"))
    return DT_SYM_NONE_ID;
  dt_sym_t room = room_for(trace, length);
  return trace->status ? DT_SYM_NONE_ID : dt__trace_told(trace, room);
}

// ---- The body -----------------------------------------------------------------------------------
// Where trip `index` finds its slices and puts its values.
static dt_value_t place_of(const scan_t *scan, dt_value_t index) {
  dt_trace_t *trace = scan->trace;
  if (!scan->backwards)
    return index;
  dt_sym_t last = dt__trace_made(trace, dt__sym_sub(trace->env, scan->length, literal(trace, 1)));
  if (trace->status)
    return index;
  return (dt_sub)(trace, (dt_size_value)(trace, last), index);
}

static bool check_carry(const scan_t *scan, const dt_value_t *out) {
  dt_trace_t *trace = scan->trace;
  for (uint32_t k = 0; k < scan->n_carry && !trace->status; k++) {
    const dt_node_t *was = node_of(trace, scan->init[1 + k]), *now = node_of(trace, out[k]);
    if (was->dtype != now->dtype || was->rank != now->rank)
      DT_TRACE_FAIL(trace, was->dtype == now->dtype ? DT_E_SHAPE : DT_E_DTYPE,
                    "carry %u begins as %s of rank %u, and the body gives %s of rank %u; use cast "
                    "or reshape",
                    k, dt_dtype_name(was->dtype), was->rank, dt_dtype_name(now->dtype), now->rank);
  }
  return !trace->status;
}

// The stacked values as the body sees them: value k of the trip and one dim in front.
static bool declare_stack(const scan_t *scan, dt_value_t y, dt_value_t *out) {
  dt_trace_t *trace = scan->trace;
  const dt_node_t *node = node_of(trace, y);
  dt_graph_input_t input = {
      .name = "", .dtype = node->dtype, .rank = node->rank + 1, .contiguous = true};
  dt_node_id_t id;
  if (input.rank > DT_MAX_RANK) {
    DT_TRACE_FAIL(trace, DT_E_LIMIT, "the values stacked have rank %u; at most %d", input.rank,
                  DT_MAX_RANK);
    return false;
  }
  input.sizes[0] = scan->room;
  memcpy(input.sizes + 1, node->sizes, node->rank * sizeof(input.sizes[0]));
  memcpy(input.strides, input.sizes, sizeof(input.strides)); // read by nobody
  if (!dt__trace_take(trace, dt__graph_add_input(trace->graph, &input, &id)))
    return false;
  *out = dt__trace_value(trace, id);
  return true;
}

// What the loop's body is: out[] is the next state, states[] the one that it reads.
static bool make_trip(scan_t *scan, dt_value_t *states, dt_value_t *out) {
  dt_trace_t *trace = scan->trace;
  uint32_t n_carry = scan->n_carry;
  uint32_t first = scan->numbered; // of the carry among what the body gets
  dt_value_t *in = dt__trace_values(trace, first + n_carry + scan->n_xs);
  if (!in || !dt__trace_declare_state(trace, 1 + n_carry, scan->init, false, states))
    return false;
  dt_value_t place = place_of(scan, states[0]);
  for (uint32_t k = 0; k < first + n_carry; k++)
    in[k] = states[1 - first + k];
  for (uint32_t k = 0; k < scan->n_xs && !trace->status; k++)
    in[first + n_carry + k] = (dt_gather)(trace, scan->xs[k], place, 0);
  trace->origin = scan->origin;
  if (trace->status || !dt__trace_run_body(trace, scan->body, scan->closure, in,
                                           n_carry + scan->n_ys, out + 1, "the body"))
    return false;
  if (!check_carry(scan, out + 1))
    return false;
  for (uint32_t k = 0; k < scan->n_ys && !trace->status; k++) {
    uint32_t at = 1 + n_carry + k;
    if (!declare_stack(scan, out[at], &states[at]))
      return false;
    dt_value_t row = (dt_unsqueeze)(trace, out[at], 0);
    out[at] = (dt_update_slice)(trace, states[at], row, place, 0, DT_UPDATE_CHECKED);
  }
  out[0] = (dt_add)(trace, states[0], (dt_scalar)(trace, DT_I64, 1));
  trace->origin = scan->origin;
  return !trace->status;
}

static bool trace_trip(scan_t *scan) {
  dt_trace_t *trace = scan->trace;
  uint32_t n_inputs = trace->graph->inputs.len;
  dt_trace_control_t *control = &scan->control;
  dt_value_t *states = dt__trace_values(trace, control->n_state);
  dt_value_t *out = dt__trace_values(trace, control->n_state);
  control->bodies[1].begin = trace->graph->nodes.len;
  trace->n_open++;
  bool ok = states && out && make_trip(scan, states, out);
  trace->n_open--;
  trace->graph->inputs.len = n_inputs;
  control->states[1] = states;
  control->outputs[1] = out;
  control->n_outputs[1] = control->n_state;
  return ok && dt__trace_end_body(trace, &control->bodies[1]);
}

// ---- The loop -----------------------------------------------------------------------------------
// Zeros to write the values of trips into.
static void make_stacks(scan_t *scan) {
  dt_trace_t *trace = scan->trace;
  for (uint32_t at = 1 + scan->n_carry; at < scan->control.n_state && !trace->status; at++) {
    const dt_node_t *node = node_of(trace, scan->control.states[1][at]);
    dt_sym_t sizes[DT_MAX_RANK];
    memcpy(sizes, node->sizes, sizeof(sizes));
    scan->init[at] = (dt_full)(trace, node->dtype, 0, node->rank, sizes);
  }
  trace->origin = scan->origin;
}

static dt_status_t goes_on(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                           void *closure) {
  const scan_t *scan = closure;
  out[0] = (dt_lt)(trace, in[0], (dt_size_value)(trace, scan->length));
  return NULL;
}

static void run_scan(scan_t *scan, dt_value_t *out) {
  dt_trace_t *trace = scan->trace;
  dt_trace_control_t *control = &scan->control;
  uint32_t n = control->n_state;
  dt_value_t *in = dt__trace_values(trace, n), *all = dt__trace_values(trace, n);
  if (!in || !all)
    return;
  scan->room = scan->n_ys ? room_for(trace, scan->length) : scan->length;
  scan->init[0] = (dt_scalar)(trace, DT_I64, 0);
  trace->origin = scan->origin;
  if (trace->status || !trace_trip(scan))
    return;
  make_stacks(scan);
  if (trace->status || !dt__trace_body(trace, control, 0, goes_on, scan, in, 1))
    return;
  dt__trace_results(trace, dt__trace_add_control(trace, control), n, all);
  for (uint32_t k = 0; k + 1 < n && !trace->status; k++) {
    bool stacked = k >= scan->n_carry && scan->room.id != scan->length.id;
    out[k] =
        stacked ? (dt_slice)(trace, all[1 + k], 0, literal(trace, 0), scan->length, 1) : all[1 + k];
  }
}

static void begin_scan(scan_t *scan, const dt_value_t *init, const dt_value_t *xs, dt_sym_t length,
                       dt_value_t *out) {
  dt_trace_t *trace = scan->trace;
  uint32_t n_out = scan->n_carry + scan->n_ys;
  scan->control = (dt_trace_control_t){.op = DT_OP_while, .n_bodies = 2, .n_state = 1 + n_out};
  scan->origin = trace->origin;
  scan->init = dt__trace_values(trace, 1 + n_out);
  scan->xs = dt__trace_values(trace, scan->n_xs);
  bool good = scan->init && scan->xs &&
              dt__trace_operands(trace, scan->n_carry, init, "the first carry", scan->init + 1) &&
              dt__trace_operands(trace, scan->n_xs, xs, "what a scan goes along", scan->xs);
  dt__trace_clear(n_out, out); // which may be `init` or `xs`
  scan->control.init = scan->init;
  if (good && find_length(scan, length))
    run_scan(scan, out);
  if (trace->status)
    dt__trace_clear(n_out, out);
}

// Nothing comes out of what failed before, or is refused.
static void scan_along(dt_trace_t *trace, bool good, const scan_t *given, const dt_value_t *init,
                       const dt_value_t *xs, dt_sym_t length, dt_value_t *out) {
  scan_t *scan = good ? DT_ARENA_NEW(&trace->traced->arena, scan_t) : NULL;
  if (good && !scan)
    (void)dt__trace_take(trace, DT_NO_MEMORY());
  if (!scan) {
    if (given->n_carry <= DT_MAX_VALUES && given->n_ys <= DT_MAX_VALUES)
      dt__trace_clear(given->n_carry + given->n_ys, out);
    return;
  }
  *scan = *given;
  scan->trace = trace;
  begin_scan(scan, init, xs, length, out);
}

void dt_scan(dt_trace_t *trace, dt_branch_fn_t body, void *closure, uint32_t n_carry,
             const dt_value_t *init, uint32_t n_xs, const dt_value_t *xs, dt_sym_t length,
             uint32_t n_ys, uint32_t flags, dt_value_t *out) {
  const scan_t scan = {.body = body,
                       .closure = closure,
                       .n_carry = n_carry,
                       .n_xs = n_xs,
                       .n_ys = n_ys,
                       .backwards = flags & DT_SCAN_BACKWARDS,
                       .numbered = (flags & DT_SCAN_NUMBERED) != 0};
  bool good =
      dt__trace_begin(trace, "scan") && check_call(trace, body, n_carry, n_xs, n_ys, flags, out);
  scan_along(trace, good, &scan, init, xs, length, out);
}

void dt_map(dt_trace_t *trace, dt_branch_fn_t body, void *closure, uint32_t n_xs,
            const dt_value_t *xs, uint32_t n_ys, dt_value_t *out) {
  const scan_t scan = {.body = body, .closure = closure, .n_xs = n_xs, .n_ys = n_ys};
  bool good = dt__trace_begin(trace, "map") && check_call(trace, body, 0, n_xs, n_ys, 0, out);
  scan_along(trace, good, &scan, NULL, xs, (dt_sym_t){0}, out);
}
