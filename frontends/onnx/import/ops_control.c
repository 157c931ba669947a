// SPDX-License-Identifier: Apache-2.0
// If, Loop and Scan.
#include "frontends/onnx/import/loop.h"
#include "frontends/onnx/import/trips.h"

// Loops whose bodies need numbers, or carry sequences, are traced trip by trip: up to this.
#define MOST_TRIPS 1024

// One element of any rank as rank 0.
static dt_value_t as_rank_0(dt_imp_node_t *n, dt_value_t x, dt_dtype_t dtype) {
  if (dt__imp_failed(n))
    return (dt_value_t){0};
  if (dt_value_rank(n->t, x) > 0)
    x = dt_reshape(n->t, x, 0, NULL);
  return dt_value_dtype(n->t, x) == dtype ? x : dt_cast(n->t, x, dtype);
}

static const dt_imp_val_t *number_val(dt_imp_node_t *n, dt_dtype_t dtype, uint32_t rank,
                                      dt_sym_t sym) {
  const int64_t size = 1;
  dt_imp_known_t *known = dt__imp_known_make(n, dtype, rank, &size);
  dt_imp_val_t *value = known ? dt__imp_new_val(n->imp) : NULL;
  if (value) {
    known->items[0].sym = sym;
    value->known = known;
  }
  return value;
}

// Rank that a body declares for its input k; 0 where it says nothing.
static uint32_t declared_rank(const dt_onnx_graph_t *graph, uint32_t k) {
  const dt_onnx_type_t *type = graph->input.items[k].type;
  const dt_onnx_tensor_type_t *tensor = type ? type->tensor_type : NULL;
  return tensor && tensor->shape && tensor->shape->dim.len == 1 ? 1 : 0;
}

static const dt_imp_val_t *tensor_val(dt_imp_node_t *n, dt_value_t x, uint32_t rank) {
  return dt__imp_val_of(n, rank == 1 ? dt_unsqueeze(n->t, x, 0) : x);
}

static bool has_list(uint32_t count, const dt_imp_val_t *const *values) {
  for (uint32_t k = 0; k < count; k++)
    if (values[k] && values[k]->list)
      return true;
  return false;
}

// ---- If ---------------------------------------------------------------------------------------------
typedef struct if_t {
  dt_imp_node_t *n;
  const dt_onnx_graph_t *graphs[2]; // then, else
} if_t;

const char *dt__imp_check_If(dt_imp_node_t *n) {
  const dt_onnx_graph_t *then_graph = dt__imp_attr_graph(n, "then_branch"),
                        *else_graph = dt__imp_attr_graph(n, "else_branch");
  if (!then_graph || !else_graph)
    return "a branch is missing";
  if (then_graph->input.len > 0 || else_graph->input.len > 0)
    return "a branch has inputs";
  return then_graph->output.len < dt__imp_n_out(n) || else_graph->output.len < dt__imp_n_out(n)
             ? "a branch has fewer outputs than the node"
             : NULL;
}

static dt_status_t branch(const if_t *c, uint32_t which, dt_value_t *out) {
  dt_imp_node_t *n = c->n;
  const dt_onnx_graph_t *graph = c->graphs[which];
  const dt_imp_val_t **made = DT_IMP_ARRAY(n, const dt_imp_val_t *, graph->output.len);
  dt__imp_enter_body(n);
  if (made && dt__imp_run_graph(n, graph, 0, NULL, made))
    for (uint32_t k = 0; k < dt__imp_n_out(n) && !dt__imp_failed(n); k++) {
      if (made[k] && made[k]->list)
        dt__imp_fail(n, DT_E_UNSUPPORTED,
                     "output %u is a sequence or optional that data choose; the predicate must be "
                     "known from sizes",
                     k);
      else
        out[k] = dt__imp_val_tensor(n, made[k]);
    }
  dt__imp_leave_body(n);
  return dt_trace_status(n->t);
}

static dt_status_t then_branch(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  (void)t, (void)in;
  return branch(closure, 0, out);
}

static dt_status_t else_branch(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  (void)t, (void)in;
  return branch(closure, 1, out);
}

static void take_branch(dt_imp_node_t *n, const dt_onnx_graph_t *graph) {
  const dt_imp_val_t **made = DT_IMP_ARRAY(n, const dt_imp_val_t *, graph->output.len);
  if (made && dt__imp_run_graph(n, graph, 0, NULL, made))
    for (uint32_t k = 0; k < dt__imp_n_out(n); k++)
      dt__imp_out_val(n, k, made[k]);
}

void dt__imp_make_If(dt_imp_node_t *n) {
  if_t c = {n, {dt__imp_attr_graph(n, "then_branch"), dt__imp_attr_graph(n, "else_branch")}};
  uint32_t n_out = dt__imp_n_out(n);
  dt_sym_t known = dt__imp_number_of(n, dt__imp_val(n, 0));
  if (known.id) {
    take_branch(n, c.graphs[dt_sym_true(n->t, known) ? 0 : 1]);
    return;
  }
  dt_value_t *out = DT_IMP_ARRAY(n, dt_value_t, n_out);
  dt_value_t pred = as_rank_0(n, dt__imp_in(n, 0), DT_BOOL);
  if (!out || dt__imp_failed(n))
    return;
  dt_cond(n->t, pred, then_branch, else_branch, &c, 0, NULL, n_out, out);
  for (uint32_t k = 0; k < n_out; k++)
    dt__imp_out(n, k, out[k]);
}

// ---- Loop: what it is -------------------------------------------------------------------------------
typedef struct loop_t {
  const dt_onnx_graph_t *graph;
  uint32_t n_state, n_rows;
  const dt_imp_val_t **init;
  dt_sym_t trips,
      first; // what is known of the trip count and of the first condition; id 0: nothing
  bool has_trips, has_first;
  bool written;              // trip by trip because it has few, not because it must
  bool stays;                // the condition that each trip gives is its own, a number, or counted
  const dt_imp_val_t *gives; // the number; NULL: its own
} loop_t;

const char *dt__imp_check_Loop(dt_imp_node_t *n) {
  const dt_onnx_graph_t *graph = dt__imp_attr_graph(n, "body");
  uint32_t n_in = dt__imp_n_in(n), n_state = n_in > 2 ? n_in - 2 : 0;
  if (!graph)
    return "the body is missing";
  if (graph->input.len < n_state + 2 || graph->output.len + 1 < graph->input.len)
    return "inputs and outputs of the body are not those of the node";
  return dt__imp_has(n, 0) || dt__imp_has(n, 1) || graph->input.len > 1 ? NULL
                                                                        : "a loop without an end";
}

// The condition that the body gives, where it is found without tracing.
static void see_condition(dt_imp_node_t *n, loop_t *loop) {
  const dt_onnx_graph_t *graph = loop->graph;
  uint32_t id = graph->output.items[0].name.id;
  const dt_onnx_node_t *node = dt__imp_maker(graph, id);
  while ((dt__imp_is_op(node, "Identity") || dt__imp_is_op(node, "Cast")) && node->input.len > 0) {
    id = node->input.items[0].id;
    node = dt__imp_maker(graph, id);
  }
  loop->stays = id == graph->input.items[1].name.id;
  if (loop->stays)
    return;
  loop->gives = dt__imp_body_val(n, graph, id);
  loop->stays = dt__imp_number_of(n, loop->gives).id != 0;
}

// A trip count where the node has none, or one that the condition ends before. What something else
// may end, too, is bounded by it, as rows need.
static void see_trips(dt_imp_node_t *n, loop_t *loop) {
  bool exact = false;
  if (loop->stays || (loop->has_trips && !loop->trips.id))
    return;
  dt_sym_t most = dt__imp_counted_trips(n, loop->graph, loop->init, &exact);
  if (!most.id || (!exact && (loop->has_trips || !loop->n_rows)))
    return;
  loop->trips = loop->has_trips ? dt_sym_min(n->t, loop->trips, most) : most;
  loop->has_trips = true;
  loop->stays = exact;
}

static bool read_loop(dt_imp_node_t *n, loop_t *loop) {
  loop->graph = dt__imp_attr_graph(n, "body");
  loop->n_state = loop->graph->input.len - 2;
  loop->n_rows = loop->graph->output.len - 1 - loop->n_state;
  loop->init = DT_IMP_ARRAY(n, const dt_imp_val_t *, loop->n_state);
  if (!loop->init)
    return false;
  for (uint32_t k = 0; k < loop->n_state; k++)
    loop->init[k] = dt__imp_val(n, k + 2);
  loop->has_trips = dt__imp_has(n, 0);
  loop->has_first = dt__imp_has(n, 1);
  loop->trips = loop->has_trips ? dt__imp_number_of(n, dt__imp_val(n, 0)) : (dt_sym_t){0};
  loop->first = loop->has_first ? dt__imp_number_of(n, dt__imp_val(n, 1)) : dt_sym_const(n->t, 1);
  see_condition(n, loop);
  see_trips(n, loop);
  return !dt__imp_failed(n);
}

// Whether trips are traced one after another: few of a literal number, or a body that cannot do
// otherwise.
static bool is_unrolled(dt_imp_node_t *n, loop_t *loop) {
  const dt_onnx_graph_t *graph = loop->graph;
  bool known = loop->trips.id && loop->first.id && loop->stays;
  int64_t trips = 0;
  if (has_list(loop->n_state, loop->init))
    return true;
  if (!known)
    return false;
  loop->written = dt_sym_constant(n->t, loop->trips, &trips) && trips <= DT_IMP_FEW_TRIPS &&
                  dt__imp_write_out(n, graph, trips);
  if (loop->written)
    return true;
  bool *needed = DT_IMP_ARRAY(n, bool, graph->input.len);
  if (!needed || !dt__imp_needs_numbers(n, graph, needed))
    return false;
  bool any = needed[0];
  for (uint32_t k = 0; k < loop->n_state; k++)
    any = any || (needed[k + 2] && loop->init[k] && dt__imp_val_known(n, loop->init[k]));
  return any;
}

// ---- Loop, trip by trip -----------------------------------------------------------------------------
typedef struct trips_t {
  const loop_t *loop;
  const dt_imp_val_t **in, **out;
  dt_value_t *rows; // n_rows times `most`
  uint32_t done, most;
} trips_t;

static bool one_trip(dt_imp_node_t *n, trips_t *s) {
  const loop_t *loop = s->loop;
  s->in[0] = number_val(n, DT_I64, declared_rank(loop->graph, 0), dt_sym_const(n->t, s->done));
  dt_value_t index = dt_scalar(n->t, DT_I64, (double)s->done);
  if (!dt__imp_run_trip(n, index, loop->graph, loop->graph->input.len, s->in, s->out))
    return false;
  for (uint32_t k = 0; k < loop->n_rows && !dt__imp_failed(n); k++)
    s->rows[k * s->most + s->done] =
        dt_unsqueeze(n->t, dt__imp_val_tensor(n, s->out[1 + loop->n_state + k]), 0);
  for (uint32_t k = 0; k <= loop->n_state; k++)
    s->in[1 + k] = s->out[k];
  s->done++;
  return !dt__imp_failed(n);
}

// No trips: rows have the sizes that they would have had.
static dt_value_t no_rows(dt_imp_node_t *n, dt_value_t row) {
  return dt__imp_failed(n)
             ? row
             : dt_slice(n->t, row, 0, dt_sym_const(n->t, 0), dt_sym_const(n->t, 0), 1);
}

static void set_trips(dt_imp_node_t *n, trips_t *s) {
  const loop_t *loop = s->loop;
  uint32_t done = s->done;
  for (uint32_t k = 0; k < loop->n_state; k++)
    dt__imp_out_val(n, k, s->in[2 + k]);
  if (loop->n_rows > 0 && done == 0 && !one_trip(n, s))
    return;
  for (uint32_t k = 0; k < loop->n_rows; k++) {
    const dt_value_t *rows = s->rows + (size_t)k * s->most;
    dt__imp_out(n, loop->n_state + k,
                done == 0   ? no_rows(n, rows[0])
                : done == 1 ? rows[0]
                            : dt_concat(n->t, done, rows, 0));
  }
}

// Whether the trip at hand is made.
static bool goes_on(dt_imp_node_t *n, const trips_t *s) {
  dt_sym_t known = dt__imp_number_of(n, s->in[1]);
  if (known.id)
    return dt_sym_true(n->t, known);
  dt__imp_fail(n, DT_E_UNSUPPORTED,
               "the loop carries a sequence, or numbers that its body needs, and data end it");
  return false;
}

static void unrolled(dt_imp_node_t *n, const loop_t *loop) {
  trips_t s = {.loop = loop, .most = MOST_TRIPS};
  uint32_t n_in = loop->graph->input.len, n_out = loop->graph->output.len;
  int64_t trips = MOST_TRIPS + 1;
  if (loop->has_trips && !loop->trips.id) {
    dt__imp_fail(n, DT_E_UNSUPPORTED,
                 "the loop carries a sequence, and data say how many trips it makes");
    return;
  }
  if (loop->has_trips)
    trips = dt_sym_int(n->t, loop->trips);
  if (trips >= 0 && trips < MOST_TRIPS)
    s.most = trips > 0 ? (uint32_t)trips : 1;
  s.in = DT_IMP_ARRAY(n, const dt_imp_val_t *, n_in);
  s.out = DT_IMP_ARRAY(n, const dt_imp_val_t *, n_out);
  s.rows = DT_IMP_ARRAY(n, dt_value_t, (size_t)loop->n_rows * s.most);
  if (!s.in || !s.out || !s.rows || dt__imp_failed(n))
    return;
  s.in[1] = loop->has_first
                ? dt__imp_val(n, 1)
                : number_val(n, DT_BOOL, declared_rank(loop->graph, 1), dt_sym_const(n->t, 1));
  for (uint32_t k = 0; k < loop->n_state; k++)
    s.in[2 + k] = loop->init[k];
  while (s.done < trips && !dt__imp_failed(n) && goes_on(n, &s)) {
    if (s.done == MOST_TRIPS)
      dt__imp_fail(n, DT_E_LIMIT,
                   "the loop carries a sequence, or numbers that its body needs, over more than "
                   "%d trips, the limit",
                   MOST_TRIPS);
    else if (!one_trip(n, &s))
      return;
  }
  if (!dt__imp_failed(n))
    set_trips(n, &s);
}

// ---- Loop, as one -----------------------------------------------------------------------------------
static void loop_body(dt_imp_node_t *n, void *user, dt_imp_trip_t *trip) {
  const loop_t *loop = user;
  const dt_onnx_graph_t *graph = loop->graph;
  const dt_imp_val_t **in = DT_IMP_ARRAY(n, const dt_imp_val_t *, graph->input.len);
  const dt_imp_val_t **out = DT_IMP_ARRAY(n, const dt_imp_val_t *, graph->output.len);
  if (!in || !out)
    return;
  in[0] = tensor_val(n, trip->index, declared_rank(graph, 0));
  // A trip is made where its condition is true.
  in[1] = number_val(n, DT_BOOL, declared_rank(graph, 1), dt_sym_const(n->t, 1));
  for (uint32_t k = 0; k < loop->n_state; k++)
    in[2 + k] = dt__imp_val_of(n, trip->state[k]);
  if (dt__imp_failed(n) || !dt__imp_run_trip(n, trip->index, graph, graph->input.len, in, out))
    return;
  trip->more = as_rank_0(n, dt__imp_val_tensor(n, out[0]), DT_BOOL);
  for (uint32_t k = 0; k < loop->n_state; k++)
    trip->next[k] = dt__imp_val_tensor(n, out[1 + k]);
  for (uint32_t k = 0; k < loop->n_rows; k++)
    trip->rows[k] = dt__imp_val_tensor(n, out[1 + loop->n_state + k]);
}

// How many trips there may be: a number, from data (no more rows than these), or without an end.
static void bound_loop(dt_imp_node_t *n, const loop_t *loop, dt_imp_loop_t *made) {
  dt_sym_t zero = dt_sym_const(n->t, 0);
  int64_t trips = 0;
  if (loop->trips.id)
    made->bound = dt_sym_max(n->t, loop->trips, zero);
  else if (loop->has_trips && loop->n_rows > 0)
    made->bound = dt_sym_max(n->t, dt__imp_sym(n, 0, 0), zero);
  else if (loop->has_trips)
    made->trips = as_rank_0(n, dt__imp_in(n, 0), DT_I64);
  if (made->bound.id && loop->first.id && loop->has_first)
    made->bound = dt_sym_select(n->t, loop->first, made->bound, zero);
  bool open = !made->bound.id || (dt_sym_constant(n->t, made->bound, &trips) && trips > INT32_MAX);
  if (loop->n_rows > 0 && open)
    dt__imp_fail(n, DT_E_UNSUPPORTED,
                 "scan outputs of a loop without a trip count that bounds their rows");
  // Without a number it is the condition that says whether there is a first trip.
  int64_t kept = 0;
  bool on = loop->stays &&
            (!loop->gives ||
             (dt_sym_constant(n->t, dt__imp_number_of(n, loop->gives), &kept) && kept != 0));
  if (on && loop->first.id && made->bound.id)
    return;
  if (loop->has_first)
    made->more = as_rank_0(n, dt__imp_in(n, 1), DT_BOOL);
  else if (!on)
    made->more = dt_scalar(n->t, DT_BOOL, 1);
  if (!made->more.id && !made->bound.id && !made->trips.id)
    dt__imp_fail(n, DT_E_UNSUPPORTED, "a loop without an end");
}

static void looped(dt_imp_node_t *n, loop_t *loop) {
  dt_value_t *init = DT_IMP_ARRAY(n, dt_value_t, loop->n_state);
  dt_value_t *state = DT_IMP_ARRAY(n, dt_value_t, loop->n_state);
  dt_value_t *rows = DT_IMP_ARRAY(n, dt_value_t, loop->n_rows), trips;
  if (!init || !state || !rows)
    return;
  dt_imp_loop_t made = {.body = loop_body,
                        .user = loop,
                        .n_state = loop->n_state,
                        .n_rows = loop->n_rows,
                        .init = init};
  bound_loop(n, loop, &made);
  for (uint32_t k = 0; k < loop->n_state && !dt__imp_failed(n); k++)
    init[k] = dt__imp_val_tensor(n, loop->init[k]);
  if (!dt__imp_loop(n, &made, state, rows, &trips))
    return;
  for (uint32_t k = 0; k < loop->n_state; k++)
    dt__imp_out(n, k, state[k]);
  dt_sym_t count = made.more.id && loop->n_rows > 0 ? dt_item(n->t, trips) : (dt_sym_t){0};
  if (count.id)
    dt_check(n->t, dt_sym_le(n->t, count, made.bound), "trips of a loop");
  for (uint32_t k = 0; k < loop->n_rows; k++)
    dt__imp_out(n, loop->n_state + k,
                count.id ? dt_slice(n->t, rows[k], 0, dt_sym_const(n->t, 0), count, 1) : rows[k]);
}

void dt__imp_make_Loop(dt_imp_node_t *n) {
  loop_t loop = {0};
  if (!read_loop(n, &loop))
    return;
  if (is_unrolled(n, &loop)) {
    unrolled(n, &loop);
    if (loop.written)
      dt__imp_written(n);
  } else if (!dt__imp_failed(n))
    looped(n, &loop);
}

// ---- Scan -------------------------------------------------------------------------------------------
typedef struct scan_t {
  const dt_onnx_graph_t *graph;
  uint32_t n_state, n_scans, n_rows;
  const dt_value_t *in;     // states, scans
  const int32_t *axes;      // of the scans
  const bool *reversed;     // the scans
  const bool *out_reversed; // the rows
  dt_value_t trips;         // as for a loop
  dt_sym_t length;
} scan_t;

const char *dt__imp_check_Scan(dt_imp_node_t *n) {
  const dt_onnx_graph_t *graph = dt__imp_attr_graph(n, "body");
  int64_t n_scans = dt__imp_int(n, "num_scan_inputs", 0), n_in = dt__imp_n_in(n);
  if (n->opset == 8)
    n_in--; // sequence_lens
  if (!graph)
    return "the body is missing";
  if (n_scans < 1 || n_scans > n_in)
    return "attribute \"num_scan_inputs\" is out of range";
  return graph->input.len != n_in || graph->output.len < n_in - n_scans
             ? "inputs and outputs of the body are not those of the node"
             : NULL;
}

static void scan_body(dt_imp_node_t *n, void *user, dt_imp_trip_t *trip) {
  const scan_t *scan = user;
  uint32_t n_in = scan->n_state + scan->n_scans;
  const dt_imp_val_t **in = DT_IMP_ARRAY(n, const dt_imp_val_t *, n_in);
  const dt_imp_val_t **out = DT_IMP_ARRAY(n, const dt_imp_val_t *, scan->graph->output.len);
  if (!in || !out)
    return;
  for (uint32_t k = 0; k < n_in && !dt__imp_failed(n); k++) {
    uint32_t s = k - scan->n_state;
    in[k] =
        dt__imp_val_of(n, k < scan->n_state ? trip->state[k]
                                            : dt__imp_loop_row(n, trip, scan->in[k], scan->axes[s],
                                                               scan->reversed[s], scan->length));
  }
  if (dt__imp_failed(n) || !dt__imp_run_trip(n, trip->index, scan->graph, n_in, in, out))
    return;
  for (uint32_t k = 0; k < scan->n_state; k++)
    trip->next[k] = dt__imp_val_tensor(n, out[k]);
  for (uint32_t k = 0; k < scan->n_rows; k++)
    trip->rows[k] = dt__imp_val_tensor(n, out[scan->n_state + k]);
}

// out: states, rows.
static bool run_scan(dt_imp_node_t *n, scan_t *scan, dt_value_t *out) {
  for (uint32_t k = 0; k < scan->n_scans && !dt__imp_failed(n); k++) {
    dt_sym_t length = dt_dim(n->t, scan->in[scan->n_state + k], scan->axes[k]);
    if (k == 0)
      scan->length = length;
    else
      dt_check(n->t, dt_sym_eq(n->t, length, scan->length), "inputs of a Scan have one length");
  }
  int64_t trips = 0;
  bool written = !dt__imp_failed(n) && !scan->trips.id &&
                 dt_sym_constant(n->t, scan->length, &trips) && trips <= DT_IMP_FEW_TRIPS &&
                 dt__imp_write_out(n, scan->graph, trips);
  const dt_imp_loop_t loop = {.body = scan_body,
                              .user = scan,
                              .n_state = scan->n_state,
                              .n_rows = scan->n_rows,
                              .init = scan->in,
                              .bound = scan->length,
                              .trips = scan->trips,
                              .reversed = scan->out_reversed,
                              .unrolled = written ? DT_IMP_FEW_TRIPS : 1};
  bool ok = dt__imp_loop(n, &loop, out, out + scan->n_state, NULL);
  if (written)
    dt__imp_written(n);
  return ok;
}

// Attribute of one integer a scan or row; 0 where it says nothing. NULL: failed.
static const int64_t *list_of(dt_imp_node_t *n, const char *name, uint32_t len) {
  dt_imp_ints_t ints;
  int64_t *out = DT_IMP_ARRAY(n, int64_t, len);
  if (!out || !dt__imp_attr_ints(n, name, &ints))
    return out;
  if (ints.len != len) {
    dt__imp_fail(n, DT_E_FORMAT, "attribute \"%s\" has %u entries; expected %u", name, ints.len,
                 len);
    return NULL;
  }
  for (uint32_t k = 0; k < len; k++)
    out[k] = ints.items[k];
  return out;
}

static const bool *flags_of(dt_imp_node_t *n, const char *name, uint32_t len) {
  const int64_t *list = list_of(n, name, len);
  bool *out = list ? DT_IMP_ARRAY(n, bool, len) : NULL;
  for (uint32_t k = 0; out && k < len; k++)
    out[k] = list[k] != 0;
  return out;
}

static const int32_t *axes_of(dt_imp_node_t *n, const char *name, uint32_t len) {
  const int64_t *list = list_of(n, name, len);
  int32_t *out = list ? DT_IMP_ARRAY(n, int32_t, len) : NULL;
  for (uint32_t k = 0; out && k < len; k++) {
    out[k] = list[k] < -DT_MAX_RANK || list[k] >= DT_MAX_RANK ? DT_MAX_RANK : (int32_t)list[k];
  }
  return out;
}

static bool read_scan(dt_imp_node_t *n, uint32_t first, scan_t *scan) {
  scan->graph = dt__imp_attr_graph(n, "body");
  scan->n_scans = (uint32_t)dt__imp_int(n, "num_scan_inputs", 0);
  scan->n_state = scan->graph->input.len - scan->n_scans;
  scan->n_rows = scan->graph->output.len - scan->n_state;
  dt_value_t *in = DT_IMP_ARRAY(n, dt_value_t, scan->graph->input.len);
  for (uint32_t k = 0; in && k < scan->graph->input.len && !dt__imp_failed(n); k++)
    in[k] = dt__imp_in(n, first + k);
  scan->in = in;
  return in && !dt__imp_failed(n);
}

// Dim 0 of x becomes dim `axis`.
static dt_value_t move_first(dt_imp_node_t *n, dt_value_t x, int32_t axis) {
  int32_t order[DT_MAX_RANK];
  int32_t rank = dt__imp_failed(n) ? 0 : (int32_t)dt_value_rank(n->t, x);
  int32_t at = axis < 0 ? axis + rank : axis;
  if (at == 0 || dt__imp_failed(n))
    return x;
  if (at < 0 || at >= rank) {
    dt__imp_fail(n, DT_E_SHAPE, "attribute \"scan_output_axes\": axis %d of rank %d", axis, rank);
    return x;
  }
  for (int32_t k = 0; k < rank; k++)
    order[k] = k < at ? k + 1 : k == at ? 0 : k;
  return dt_permute(n->t, x, order);
}

void dt__imp_make_Scan(dt_imp_node_t *n) {
  scan_t scan = {0};
  if (!read_scan(n, 0, &scan))
    return;
  scan.axes = axes_of(n, "scan_input_axes", scan.n_scans);
  scan.reversed = flags_of(n, "scan_input_directions", scan.n_scans);
  scan.out_reversed = flags_of(n, "scan_output_directions", scan.n_rows);
  const int32_t *out_axes = axes_of(n, "scan_output_axes", scan.n_rows);
  dt_value_t *out = DT_IMP_ARRAY(n, dt_value_t, scan.graph->output.len);
  if (!scan.axes || !scan.reversed || !scan.out_reversed || !out_axes || !out ||
      !run_scan(n, &scan, out))
    return;
  for (uint32_t k = 0; k < scan.graph->output.len; k++)
    dt__imp_out(n, k,
                k < scan.n_state ? out[k] : move_first(n, out[k], out_axes[k - scan.n_state]));
}

// ---- Scan of operator set 8: a scan for each part of a batch ----------------------------------------
typedef struct batch_t {
  scan_t scan;        // over the batch as a whole
  dt_value_t lengths; // [B]; id 0: all of the scans
} batch_t;

static void batch_body(dt_imp_node_t *n, void *user, dt_imp_trip_t *trip) {
  const batch_t *batch = user;
  scan_t scan = batch->scan;
  uint32_t n_in = scan.n_state + scan.n_scans;
  dt_value_t *in = DT_IMP_ARRAY(n, dt_value_t, n_in);
  for (uint32_t k = 0; in && k < n_in; k++)
    in[k] = dt__imp_loop_row(n, trip, batch->scan.in[k], 0, false, (dt_sym_t){0});
  if (batch->lengths.id)
    scan.trips = dt__imp_loop_row(n, trip, batch->lengths, 0, false, (dt_sym_t){0});
  scan.in = in;
  if (in)
    (void)run_scan(n, &scan, trip->rows);
}

void dt__imp_make_Scan8(dt_imp_node_t *n) {
  batch_t batch = {0};
  if (!read_scan(n, 1, &batch.scan))
    return;
  scan_t *scan = &batch.scan;
  scan->axes = DT_IMP_ARRAY(n, int32_t, scan->n_scans);
  scan->reversed = flags_of(n, "directions", scan->n_scans);
  dt_value_t *out = DT_IMP_ARRAY(n, dt_value_t, scan->graph->output.len);
  if (!scan->axes || !scan->reversed || !out)
    return;
  if (dt__imp_has(n, 0))
    batch.lengths = dt_cast(n->t, dt__imp_in(n, 0), DT_I64);
  const dt_imp_loop_t loop = {.body = batch_body,
                              .user = &batch,
                              .n_rows = scan->graph->output.len,
                              .bound = dt_dim(n->t, scan->in[0], 0),
                              .unrolled = 1};
  if (dt__imp_loop(n, &loop, NULL, out, NULL))
    for (uint32_t k = 0; k < scan->graph->output.len; k++)
      dt__imp_out(n, k, out[k]);
}
