// SPDX-License-Identifier: Apache-2.0
// Operators whose results have as many rows as data say: boxes that do not overlap, values without
// their repetitions.
#include "frontends/onnx/import/loop.h"

#include <math.h>

static dt_value_t i64(dt_imp_node_t *n, int64_t value) {
  return dt_scalar(n->t, DT_I64, (double)value);
}

static dt_value_t scalar_in(dt_imp_node_t *n, uint32_t k) {
  dt_value_t x = dt__imp_in(n, k);
  return dt__imp_failed(n) || dt_value_rank(n->t, x) == 0 ? x : dt_reshape(n->t, x, 0, NULL);
}

// ---- NonMaxSuppression ------------------------------------------------------------------------------
// A trip takes the best box that is left of every class of every part of the batch, and drops what
// overlaps it.
typedef struct nms_t {
  dt_value_t low[2], high[2]; // corners, [B, 1, N]
  dt_value_t area;
  dt_value_t scores;  // [B, C, N]
  dt_value_t overlap; // a number: more than this is dropped
} nms_t;

// Input 0 is [B, N, 4].
static void read_boxes(dt_imp_node_t *n, nms_t *nms) {
  dt_trace_t *t = n->t;
  dt_value_t boxes = dt__imp_in(n, 0), part[4];
  bool centred = dt__imp_int(n, "center_point_box", 0) != 0;
  for (int k = 0; k < 4; k++) {
    part[k] = dt_slice(t, boxes, 2, dt_sym_const(t, k), dt_sym_const(t, 1), 1);
    part[k] = dt_transpose(t, part[k], 1, 2);
  }
  for (int k = 0; k < 2; k++) {
    dt_value_t a = part[k], b = part[k + 2];
    if (centred) { // centre and extent
      dt_value_t half = dt_div(t, b, dt_scalar(t, DT_F32, 2));
      b = dt_add(t, a, half);
      a = dt_sub(t, a, half);
    }
    nms->low[k] = dt_minimum(t, a, b);
    nms->high[k] = dt_maximum(t, a, b);
  }
  nms->area = dt_mul(t, dt_sub(t, nms->high[0], nms->low[0]), dt_sub(t, nms->high[1], nms->low[1]));
}

// The element of x [.., N] where `chosen` is true, which is for one of each row at most.
static dt_value_t pick(dt_imp_node_t *n, dt_value_t chosen, dt_value_t x) {
  const int32_t last = -1;
  return dt_sum(n->t, dt_where(n->t, chosen, x, dt_scalar(n->t, DT_F32, 0)), 1, &last, true);
}

// Whether boxes overlap the chosen one too much. [B, C, N]
static dt_value_t overlaps(dt_imp_node_t *n, const nms_t *nms, dt_value_t chosen) {
  dt_trace_t *t = n->t;
  dt_value_t zero = dt_scalar(t, DT_F32, 0), shared = {0};
  for (int k = 0; k < 2; k++) {
    dt_value_t low = dt_maximum(t, pick(n, chosen, nms->low[k]), nms->low[k]);
    dt_value_t high = dt_minimum(t, pick(n, chosen, nms->high[k]), nms->high[k]);
    dt_value_t side = dt_maximum(t, dt_sub(t, high, low), zero);
    shared = k ? dt_mul(t, shared, side) : side;
  }
  dt_value_t joint = dt_sub(t, dt_add(t, pick(n, chosen, nms->area), nms->area), shared);
  dt_value_t some = dt_logical_and(t, dt_gt(t, shared, zero), dt_gt(t, joint, zero));
  return dt_logical_and(t, some, dt_gt(t, dt_div(t, shared, joint), nms->overlap));
}

// State: what is left [B, C, N]. Rows: the box taken, and whether there was one, [B, C].
static void take_boxes(dt_imp_node_t *n, void *user, dt_imp_trip_t *trip) {
  const nms_t *nms = user;
  dt_trace_t *t = n->t;
  const int32_t last = -1;
  dt_value_t left = trip->state[0];
  dt_value_t scores = dt_where(t, left, nms->scores, dt_scalar(t, DT_F32, -INFINITY));
  dt_value_t best = dt_argmax(t, scores, -1, true);
  dt_sym_t size = dt_dim(t, left, 2);
  dt_value_t chosen = dt_eq(t, dt_iota(t, DT_I64, 1, &size, 0), best);
  chosen = dt_logical_and(t, chosen, left);
  dt_value_t gone = dt_logical_or(t, chosen, overlaps(n, nms, chosen));
  trip->next[0] = dt_logical_and(t, left, dt_logical_not(t, gone));
  trip->rows[0] = dt_squeeze(t, best, -1);
  trip->rows[1] = dt_any(t, chosen, 1, &last, false);
  trip->more = dt_any(t, trip->next[0], 0, NULL, false);
}

// Rows [T, B, C] to what the operator gives: [number, (part of the batch, class, box)], in order.
static dt_value_t list_boxes(dt_imp_node_t *n, dt_value_t boxes, dt_value_t taken) {
  dt_trace_t *t = n->t;
  const int32_t order[3] = {1, 2, 0};
  const dt_sym_t flat[1] = {dt_sym_const(t, -1)}, zero = dt_sym_const(t, 0),
                 one = dt_sym_const(t, 1), two = dt_sym_const(t, 2);
  dt_value_t where = dt_nonzero(t, dt_permute(t, taken, order)), at = {0};
  dt_sym_t width = dt_sym_const(t, 1);
  for (int k = 1; k >= -1; k--) { // of [number, (b, c, trip)] as a place in boxes
    int column = k < 0 ? 2 : k;
    dt_value_t index = dt_slice(t, where, 1, dt_sym_const(t, column), one, 1);
    index = dt_mul(t, index, dt_size_value(t, width));
    at = at.id ? dt_add(t, at, index) : index;
    width = k < 0 ? width : dt_sym_mul(t, width, dt_dim(t, boxes, k + 1));
  }
  dt_value_t parts[2] = {dt_slice(t, where, 1, zero, two, 1),
                         dt_gather(t, dt_reshape(t, boxes, 1, flat), at, 0)};
  return dt_concat(t, 2, parts, 1);
}

void dt__imp_make_NonMaxSuppression(dt_imp_node_t *n) {
  dt_trace_t *t = n->t;
  nms_t nms = {.scores = dt__imp_in(n, 1)};
  if (dt__imp_rank(n, 0) != 3 || dt__imp_rank(n, 1) != 3)
    dt__imp_fail(n, DT_E_SHAPE, "boxes and scores have ranks %u and %u; expected 3",
                 dt__imp_rank(n, 0), dt__imp_rank(n, 1));
  dt_sym_t most = dt__imp_sym(n, 2, 0), zero = dt_sym_const(t, 0);
  if (dt__imp_failed(n))
    return;
  read_boxes(n, &nms);
  nms.overlap = dt__imp_has(n, 3) ? scalar_in(n, 3) : dt_scalar(t, DT_F32, 0);
  dt_sym_t sizes[3];
  for (int k = 0; k < 3; k++)
    sizes[k] = dt_dim(t, nms.scores, k);
  dt_value_t left =
      dt__imp_has(n, 4) ? dt_gt(t, nms.scores, scalar_in(n, 4)) : dt_full(t, DT_BOOL, 1, 3, sizes);
  const dt_value_t like[2] = {dt_full(t, DT_I64, 0, 2, sizes), dt_full(t, DT_BOOL, 0, 2, sizes)};
  const dt_imp_loop_t loop = {.body = take_boxes,
                              .user = &nms,
                              .n_state = 1,
                              .n_rows = 2,
                              .init = &left,
                              .bound = dt_sym_max(t, dt_sym_min(t, most, sizes[2]), zero),
                              .more = dt_any(t, left, 0, NULL, false),
                              .like = like};
  dt_value_t state, rows[2];
  if (dt__imp_loop(n, &loop, &state, rows, NULL))
    dt__imp_out(n, 0, list_boxes(n, rows[0], rows[1]));
}

// ---- Unique -----------------------------------------------------------------------------------------
const char *dt__imp_check_Unique(dt_imp_node_t *n) {
  return dt__imp_has_attr(n, "axis") ? "of slices along an axis" : NULL;
}

typedef struct unique_t {
  dt_value_t sorted, from; // the elements in order and where each was, [N]
  dt_value_t is_first;     // of equal ones
} unique_t;

static void sort_all(dt_imp_node_t *n, dt_value_t x, unique_t *u) {
  dt_trace_t *t = n->t;
  dt_sym_t size = dt_dim(t, x, 0);
  dt_sort(t, x, 0, false, &u->sorted, &u->from);
  dt_value_t at = dt_iota(t, DT_I64, 1, &size, 0);
  dt_value_t before = dt_maximum(t, dt_sub(t, at, i64(n, 1)), i64(n, 0));
  dt_value_t other = dt_ne(t, u->sorted, dt_gather(t, u->sorted, before, 0));
  u->is_first = dt_logical_or(t, dt_eq(t, at, i64(n, 0)), other);
}

// x's value at `at`, put where `places` says: [N] for a permutation.
static dt_value_t placed(dt_imp_node_t *n, dt_value_t places, dt_value_t values) {
  return dt_scatter_elements(n->t, values, places, values, 0, DT_SCATTER_REPLACE);
}

void dt__imp_make_Unique(dt_imp_node_t *n) {
  dt_trace_t *t = n->t;
  const dt_sym_t flat[1] = {dt_sym_const(t, -1)};
  unique_t u = {0};
  dt_value_t x = dt_reshape(t, dt__imp_in(n, 0), 1, flat);
  if (dt__imp_failed(n))
    return;
  sort_all(n, x, &u);
  // One each: where in the order it begins, which of equal ones comes first in x.
  dt_value_t begins = dt_reshape(t, dt_nonzero(t, u.is_first), 1, flat);
  dt_value_t first = dt_gather(t, u.from, begins, 0);
  dt_sym_t count = dt__imp_failed(n) ? (dt_sym_t){0} : dt_dim(t, first, 0);
  dt_sym_t size = dt_dim(t, x, 0);
  dt_value_t rank = dt_searchsorted(t, begins, dt_iota(t, DT_I64, 1, &size, 0), true);
  dt_value_t inverse = placed(n, u.from, dt_sub(t, rank, i64(n, 1)));
  // Each ends where the next one begins.
  const dt_sym_t one_dim[1] = {count};
  dt_value_t all = dt_size_value(t, dt_dim(t, x, 0));
  dt_value_t bounds[2] = {begins, dt_unsqueeze(t, all, 0)};
  dt_value_t ends = dt_slice(t, dt_concat(t, 2, bounds, 0), 0, dt_sym_const(t, 1), count, 1);
  dt_value_t counts = dt_sub(t, ends, begins);
  if (!dt__imp_int(n, "sorted", 1)) {
    dt_value_t order, back; // by first appearance
    dt_sort(t, first, 0, false, &first, &order);
    counts = dt_gather(t, counts, order, 0);
    dt_value_t numbers = dt_iota(t, DT_I64, 1, one_dim, 0);
    back = dt_scatter_elements(t, numbers, order, numbers, 0, DT_SCATTER_REPLACE);
    inverse = dt_gather(t, back, inverse, 0);
  }
  dt__imp_out(n, 0, dt_gather(t, x, first, 0));
  dt__imp_out(n, 1, first);
  dt__imp_out(n, 2, inverse);
  dt__imp_out(n, 3, counts);
}
