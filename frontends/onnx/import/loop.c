// SPDX-License-Identifier: Apache-2.0
// Loops over tensors, as one dt_scan or dt_while, or trip by trip.
#include "frontends/onnx/import/loop.h"

static dt_value_t i64(dt_imp_node_t *n, int64_t value) {
  return dt_scalar(n->t, DT_I64, (double)value);
}

// ---- Rows -------------------------------------------------------------------------------------------
// Where the row of a trip stands, of `len`.
static dt_value_t place_of(dt_imp_node_t *n, dt_value_t index, bool reversed, dt_sym_t len) {
  if (!reversed)
    return index;
  dt_sym_t last = dt_sym_sub(n->t, len, dt_sym_const(n->t, 1));
  return dt_sub(n->t, dt_size_value(n->t, last), index);
}

dt_value_t dt__imp_loop_row(dt_imp_node_t *n, const dt_imp_trip_t *trip, dt_value_t x, int32_t axis,
                            bool reversed, dt_sym_t len) {
  dt_sym_t one = dt_sym_const(n->t, 1);
  if (!trip->at.id)
    return dt_gather(n->t, x, place_of(n, trip->index, reversed, len), axis);
  dt_sym_t at = reversed ? dt_sym_sub(n->t, dt_sym_sub(n->t, len, one), trip->at) : trip->at;
  return dt_squeeze(n->t, dt_slice(n->t, x, axis, at, one, 1), axis);
}

// Rows of 0 to be written, of the sizes of `like`.
static dt_value_t empty_rows(dt_imp_node_t *n, dt_value_t like, dt_sym_t bound) {
  dt_sym_t sizes[DT_MAX_RANK];
  uint32_t rank = dt_value_rank(n->t, like);
  if (rank + 1 > DT_MAX_RANK) {
    dt__imp_fail(n, DT_E_LIMIT, "a result of a loop has rank %u; at most %d", rank + 1,
                 DT_MAX_RANK);
    return (dt_value_t){0};
  }
  sizes[0] = bound;
  for (uint32_t k = 0; k < rank; k++)
    sizes[k + 1] = dt_dim(n->t, like, (int32_t)k);
  return dt_full(n->t, dt_value_dtype(n->t, like), 0, rank + 1, sizes);
}

// ---- Trip by trip -----------------------------------------------------------------------------------
static bool is_reversed(const dt_imp_loop_t *loop, uint32_t k) {
  return loop->reversed && loop->reversed[k];
}

static bool unroll(dt_imp_node_t *n, const dt_imp_loop_t *loop, int64_t trips,
                   dt_value_t *out_state, dt_value_t *out_rows) {
  uint32_t count = (uint32_t)trips;
  dt_value_t *state = DT_IMP_ARRAY(n, dt_value_t, loop->n_state);
  dt_value_t *rows = DT_IMP_ARRAY(n, dt_value_t, loop->n_rows);
  dt_value_t *all = DT_IMP_ARRAY(n, dt_value_t, (size_t)loop->n_rows * count);
  if (!state || !rows || !all)
    return false;
  for (uint32_t k = 0; k < loop->n_state; k++)
    out_state[k] = loop->init[k];
  for (uint32_t i = 0; i < count && !dt__imp_failed(n); i++) {
    for (uint32_t k = 0; k < loop->n_state; k++)
      state[k] = out_state[k];
    dt_imp_trip_t trip = {.index = i64(n, i),
                          .at = dt_sym_const(n->t, i),
                          .state = state,
                          .next = out_state,
                          .rows = rows};
    loop->body(n, loop->user, &trip);
    for (uint32_t k = 0; k < loop->n_rows && !dt__imp_failed(n); k++)
      all[k * count + (is_reversed(loop, k) ? count - 1 - i : i)] = dt_unsqueeze(n->t, rows[k], 0);
  }
  for (uint32_t k = 0; k < loop->n_rows; k++)
    out_rows[k] = count == 1 ? all[k] : dt_concat(n->t, count, &all[k * count], 0);
  return !dt__imp_failed(n);
}

// ---- As one loop ------------------------------------------------------------------------------------
// The state of the dt_while: index, more (where it is wanted), the loop's state, rows.
typedef struct while_t {
  dt_imp_node_t *n;
  const dt_imp_loop_t *loop;
  uint32_t first; // of the loop's state
} while_t;

static dt_status_t goes_on(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const while_t *w = closure;
  const dt_imp_loop_t *loop = w->loop;
  dt_value_t trips = loop->trips;
  if (!trips.id && loop->bound.id)
    trips = dt_size_value(t, loop->bound);
  dt_value_t within = trips.id ? dt_lt(t, in[0], trips) : (dt_value_t){0};
  if (loop->more.id && within.id)
    out[0] = dt_logical_and(t, within, in[1]);
  else
    out[0] = loop->more.id ? in[1] : within;
  return dt_trace_status(t);
}

static dt_status_t make_trip(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const while_t *w = closure;
  const dt_imp_loop_t *loop = w->loop;
  dt_imp_node_t *n = w->n;
  dt_value_t *rows = DT_IMP_ARRAY(n, dt_value_t, loop->n_rows);
  dt__imp_enter_body(n);
  dt_imp_trip_t trip = {
      .index = in[0], .state = in + w->first, .next = out + w->first, .rows = rows};
  if (rows && !dt__imp_failed(n))
    loop->body(n, loop->user, &trip);
  dt__imp_leave_body(n);
  if (!rows || dt__imp_failed(n))
    return dt_trace_status(t);
  out[0] = dt_add(t, in[0], i64(n, 1));
  if (loop->more.id)
    out[1] = trip.more;
  uint32_t at = w->first + loop->n_state;
  for (uint32_t k = 0; k < loop->n_rows; k++)
    out[at + k] = dt_update_slice(t, in[at + k], dt_unsqueeze(t, rows[k], 0),
                                  place_of(n, in[0], is_reversed(loop, k), loop->bound), 0,
                                  DT_UPDATE_CHECKED);
  return dt_trace_status(t);
}

// A trip that nothing reads the values of: only their sizes.
static const dt_value_t *see_rows(dt_imp_node_t *n, const dt_imp_loop_t *loop) {
  dt_value_t *next = DT_IMP_ARRAY(n, dt_value_t, loop->n_state);
  dt_value_t *rows = DT_IMP_ARRAY(n, dt_value_t, loop->n_rows);
  if (!next || !rows)
    return NULL;
  dt_imp_trip_t trip = {.index = i64(n, 0), .state = loop->init, .next = next, .rows = rows};
  loop->body(n, loop->user, &trip);
  return dt__imp_failed(n) ? NULL : rows;
}

// ---- As a scan --------------------------------------------------------------------------------------
// Whether the number of trips is known before them, and all rows are stacked in one direction.
static bool is_scan(const dt_imp_loop_t *loop) {
  bool one_way = true;
  for (uint32_t k = 1; k < loop->n_rows; k++)
    one_way = one_way && is_reversed(loop, k) == is_reversed(loop, 0);
  return loop->bound.id && !loop->more.id && !loop->trips.id && one_way &&
         loop->n_state + loop->n_rows > 0;
}

static dt_status_t scan_trip(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const while_t *w = closure;
  dt_imp_trip_t trip = {
      .index = in[0], .state = in + 1, .next = out, .rows = out + w->loop->n_state};
  dt__imp_enter_body(w->n);
  if (!dt__imp_failed(w->n))
    w->loop->body(w->n, w->loop->user, &trip);
  dt__imp_leave_body(w->n);
  return dt_trace_status(t);
}

static bool scan_on(dt_imp_node_t *n, const dt_imp_loop_t *loop, dt_value_t *out_state,
                    dt_value_t *out_rows) {
  while_t w = {.n = n, .loop = loop};
  uint32_t count = loop->n_state + loop->n_rows, flags = DT_SCAN_NUMBERED;
  dt_value_t *out = DT_IMP_ARRAY(n, dt_value_t, count);
  if (!out)
    return false;
  if (loop->n_rows > 0 && is_reversed(loop, 0))
    flags |= DT_SCAN_BACKWARDS;
  dt_scan(n->t, scan_trip, &w, loop->n_state, loop->init, 0, NULL, loop->bound, loop->n_rows, flags,
          out);
  for (uint32_t k = 0; k < loop->n_state; k++)
    out_state[k] = out[k];
  for (uint32_t k = 0; k < loop->n_rows; k++)
    out_rows[k] = out[loop->n_state + k];
  return !dt__imp_failed(n);
}

// ---- As a loop that something else may end ----------------------------------------------------------
static bool loop_on(dt_imp_node_t *n, const dt_imp_loop_t *loop, dt_value_t *out_state,
                    dt_value_t *out_rows, dt_value_t *out_trips) {
  while_t w = {.n = n, .loop = loop, .first = loop->more.id ? 2 : 1};
  uint32_t at = w.first + loop->n_state, count = at + loop->n_rows;
  dt_value_t *state = DT_IMP_ARRAY(n, dt_value_t, count);
  const dt_value_t *like = loop->like || !loop->n_rows ? loop->like : see_rows(n, loop);
  if (!state || dt__imp_failed(n))
    return false;
  dt_sym_t room = loop->n_rows ? dt_scan_room(n->t, loop->bound) : loop->bound;
  state[0] = i64(n, 0);
  if (loop->more.id)
    state[1] = loop->more;
  for (uint32_t k = 0; k < loop->n_state; k++)
    state[w.first + k] = loop->init[k];
  for (uint32_t k = 0; k < loop->n_rows; k++)
    state[at + k] = empty_rows(n, like[k], room);
  if (dt__imp_failed(n))
    return false;
  dt_while(n->t, goes_on, make_trip, &w, count, state, 0, NULL, state);
  for (uint32_t k = 0; k < loop->n_state; k++)
    out_state[k] = state[w.first + k];
  for (uint32_t k = 0; k < loop->n_rows; k++)
    out_rows[k] = room.id == loop->bound.id
                      ? state[at + k]
                      : dt_slice(n->t, state[at + k], 0, dt_sym_const(n->t, 0), loop->bound, 1);
  if (out_trips)
    *out_trips = state[0];
  return !dt__imp_failed(n);
}

bool dt__imp_loop(dt_imp_node_t *n, const dt_imp_loop_t *loop, dt_value_t *out_state,
                  dt_value_t *out_rows, dt_value_t *out_trips) {
  int64_t trips = 0;
  if (out_trips)
    *out_trips = (dt_value_t){0};
  if (dt__imp_failed(n))
    return false;
  if (!loop->more.id && !loop->trips.id && dt_sym_constant(n->t, loop->bound, &trips) &&
      trips > 0 && trips <= loop->unrolled)
    return unroll(n, loop, trips, out_state, out_rows);
  if (is_scan(loop))
    return scan_on(n, loop, out_state, out_rows);
  return loop_on(n, loop, out_state, out_rows, out_trips);
}
