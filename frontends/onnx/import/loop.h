// SPDX-License-Identifier: Apache-2.0
// Loops over tensors: what Loop, Scan and recurrent operators have in common. Private to the
// importer.
//
// A trip reads its index and the state, and gives the next state and a row for each of the rows'
// results, which have a row a trip. One dt_while, whose sizes stay symbols: rows are put into
// tensors that are part of its state. A few trips of a literal number are traced one after another.
#ifndef DT_FRONTENDS_ONNX_IMPORT_LOOP_H
#define DT_FRONTENDS_ONNX_IMPORT_LOOP_H

#include "frontends/onnx/import/import.h"

typedef struct dt_imp_trip_t {
  dt_value_t index; // i64, rank 0
  dt_sym_t at;      // the same where it is a number; id 0: it is not
  const dt_value_t *state;
  // Set by the body.
  dt_value_t *next, *rows;
  dt_value_t more; // where the loop has `more`: whether another trip follows, one bool of rank 0
} dt_imp_trip_t;

// What it fails at, it fails the trace with.
typedef void (*dt_imp_body_t)(dt_imp_node_t *n, void *user, dt_imp_trip_t *trip);

typedef struct dt_imp_loop_t {
  dt_imp_body_t body;
  void *user;
  uint32_t n_state, n_rows;
  const dt_value_t *init; // n_state
  dt_sym_t bound;         // no trip has this index, and results of rows have as many; id 0: none
  dt_value_t trips;       // i64, rank 0: how many trips; id 0: as many as `bound`
  dt_value_t more;      // bool, rank 0: whether there is a first trip; id 0: `bound` alone ends it
  const bool *reversed; // n_rows: the first trip gives the last row; NULL: none
  const dt_value_t *like; // n_rows, of a row's dtype and sizes; NULL: a trip is traced to see them
  uint32_t unrolled;      // as many trips, if literal, are traced one after another
} dt_imp_loop_t;

// out_state: n_state; out_rows: n_rows, of one rank more than a row. *out_trips (may be NULL): how
// many trips there were, i64; the none value where `bound` says. False: failed.
bool dt__imp_loop(dt_imp_node_t *n, const dt_imp_loop_t *loop, dt_value_t *out_state,
                  dt_value_t *out_rows, dt_value_t *out_trips);
// x without `axis`, at the trip's index or, `reversed`, as far from the end of `len`.
dt_value_t dt__imp_loop_row(dt_imp_node_t *n, const dt_imp_trip_t *trip, dt_value_t x, int32_t axis,
                            bool reversed, dt_sym_t len);

#endif // DT_FRONTENDS_ONNX_IMPORT_LOOP_H
