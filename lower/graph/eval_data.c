// SPDX-License-Identifier: Apache-2.0
// Evaluation of what reads sizes from data and of what such sizes are for: items, running sums,
// searches, and the elements that a mask selects. Where rounding may change which elements are
// selected, no element of the result is certain.
#include "lower/graph/eval_private.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#include <math.h>

// ---- Items --------------------------------------------------------------------------------------
// The sizes of later nodes are computed with what this binds.
dt_status_t dt__eval_item(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  const dt_eval_value_t *in = dt__eval_in(e, node, 0);
  uint32_t symbol = 0;
  if (!dt__sym_is_symbol(e->graph->env, node->attrs->syms[0], &symbol))
    return dt__eval_misfit(node, "what it binds is no symbol");
  dt__eval_put(out, 0, dt__eval_at(in, 0));
  e->symbols[symbol] = out->data[0].i;
  return NULL;
}

// ---- Running sums -------------------------------------------------------------------------------
static void scan_floats(const dt_row_t *row, bool exclusive, bool reverse) {
  dt_sum_t sum = dt__sum_zero();
  for (int64_t step = 0; step < row->n; step++) {
    int64_t k = reverse ? row->n - 1 - step : step;
    if (exclusive)
      dt__eval_put(row->out, row->at[k], dt__sum_total(&sum, row->out->dtype, 0));
    dt__sum_add(&sum, row->x[k].v.f, row->x[k].b);
    if (!exclusive)
      dt__eval_put(row->out, row->at[k], dt__sum_total(&sum, row->out->dtype, 0));
  }
}

static void scan_integers(const dt_row_t *row, bool exclusive, bool reverse) {
  dt_approx_t sum = {.v = {.i = 0}};
  for (int64_t step = 0; step < row->n; step++) {
    int64_t k = reverse ? row->n - 1 - step : step;
    dt_approx_t next = dt__approx_2(DT_SCALAR_add, row->out->dtype, sum, row->x[k]);
    dt__eval_put(row->out, row->at[k], exclusive ? sum : next);
    sum = next;
  }
}

static void scan_row(const dt_row_t *row) {
  uint32_t mode = row->node->attrs->mode;
  bool exclusive = mode & DT_SCAN_EXCLUSIVE, reverse = mode & DT_SCAN_REVERSE;
  if (dt__dtype_is_float(row->out->dtype))
    scan_floats(row, exclusive, reverse);
  else
    scan_integers(row, exclusive, reverse);
}

dt_status_t dt__eval_cumsum(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  return dt__eval_rows(e, node, dt__eval_axes(node), out, scan_row);
}

// ---- Searches -----------------------------------------------------------------------------------
dt_status_t dt__eval_searchsorted(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  const dt_eval_value_t *sorted = dt__eval_in(e, node, 0), *values = dt__eval_in(e, node, 1);
  dt_scalar_op_t before = node->attrs->mode & DT_SEARCH_INCLUSIVE ? DT_SCALAR_le : DT_SCALAR_lt;
  if (values->count != out->count)
    return dt__eval_misfit(node, "the values do not fit the result");
  for (int64_t k = 0; k < out->count; k++) {
    dt_approx_t count = {.v = {.i = 0}};
    for (int64_t i = 0; i < sorted->count; i++) {
      dt_approx_t less =
          dt__approx_2(before, sorted->dtype, dt__eval_at(sorted, i), dt__eval_at(values, k));
      count.v.i += less.v.i != 0;
      count.b = less.b > 0.0 ? INFINITY : count.b;
    }
    dt__eval_put(out, k, count);
  }
  return NULL;
}

// ---- Selected elements --------------------------------------------------------------------------
dt_status_t dt__eval_compress(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  const dt_eval_value_t *mask = dt__eval_in(e, node, 0), *places = dt__eval_in(e, node, 1);
  int64_t count = out->sizes[0], columns = out->sizes[1], filled = 0;
  bool *taken = DT_ARENA_ARRAY(e->arena, bool, count);
  if (!taken)
    return DT_NO_MEMORY();
  double unsure = 0.0;
  for (int64_t i = 0; i < mask->count; i++) {
    dt_approx_t place = dt__eval_at(places, i);
    if (dt__eval_at(mask, i).b > 0.0 || place.b > 0.0)
      unsure = INFINITY;
    if (!mask->data[i].i)
      continue;
    if (place.v.i < 0 || place.v.i >= count || taken[place.v.i])
      return DT_FAIL(DT_E_RANGE, "compress: place %lld (element %lld) is not in [0, %lld) or twice",
                     (long long)place.v.i, (long long)i, (long long)count);
    taken[place.v.i] = true;
    filled++;
    for (int64_t k = 0; k < columns; k++)
      dt__eval_put(out, place.v.i * columns + k,
                   dt__eval_at(dt__eval_in(e, node, 2 + (uint32_t)k), i));
  }
  if (filled != count)
    return dt__eval_misfit(node, "not every row is given");
  for (int64_t k = 0; out->bound && unsure > 0.0 && k < out->count; k++)
    out->bound[k] = unsure;
  return NULL;
}

// Whether the element is not 0; *unsure is raised where rounding may change the answer.
static bool is_nonzero(const dt_eval_value_t *in, int64_t at, double *unsure) {
  dt_approx_t truth = dt__approx_cast(in->dtype, DT_BOOL, dt__eval_at(in, at));
  *unsure = truth.b > 0.0 ? INFINITY : *unsure;
  return truth.v.i != 0;
}

dt_status_t dt__eval_nonzero(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  const dt_eval_value_t *in = dt__eval_in(e, node, 0);
  int64_t none[DT_MAX_RANK] = {0}, found = 0;
  double unsure = 0.0;
  dt_walk_t walk = dt__walk_begin(in->rank, in->sizes, none);
  for (int64_t i = 0; i < in->count; i++, dt__walk_next(&walk)) {
    if (!is_nonzero(in, i, &unsure))
      continue;
    if (found == out->sizes[0])
      return dt__eval_misfit(node, "more elements are selected");
    for (uint32_t k = 0; k < in->rank; k++)
      dt__eval_put(out, found * in->rank + k, (dt_approx_t){.v = {.i = walk.index[k]}});
    found++;
  }
  if (found != out->sizes[0])
    return dt__eval_misfit(node, "fewer elements are selected");
  for (int64_t k = 0; out->bound && unsure > 0.0 && k < out->count; k++)
    out->bound[k] = unsure;
  return NULL;
}

dt_status_t dt__eval_masked_select(const dt_eval_t *e, const dt_node_t *node,
                                   dt_eval_value_t *out) {
  const dt_eval_value_t *in = dt__eval_in(e, node, 0), *mask = dt__eval_in(e, node, 1);
  int64_t found = 0;
  double unsure = 0.0;
  if (in->count != mask->count)
    return dt__eval_misfit(node, "the mask does not fit");
  for (int64_t i = 0; i < in->count; i++) {
    if (!is_nonzero(mask, i, &unsure))
      continue;
    if (found == out->count)
      return dt__eval_misfit(node, "more elements are selected");
    dt__eval_put(out, found++, dt__eval_at(in, i));
  }
  if (found != out->count)
    return dt__eval_misfit(node, "fewer elements are selected");
  for (int64_t k = 0; out->bound && unsure > 0.0 && k < out->count; k++)
    out->bound[k] = unsure;
  return NULL;
}
