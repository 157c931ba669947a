// SPDX-License-Identifier: Apache-2.0
// Evaluation of softmax and of normalisations, each row from its definition. Bounds follow the same
// steps, with a few u more for implementations that multiply with reciprocals.
#include "lower/graph/eval_private.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#include <math.h>

#define SLACK 4

// Puts x - max(x) into the row.
static void shift_by_max(const dt_row_t *row) {
  dt_dtype_t dtype = row->out->dtype;
  dt_approx_t largest = dt__approx_real(-INFINITY);
  for (int64_t k = 0; k < row->n; k++)
    largest = dt__approx_2(DT_SCALAR_maximum, dtype, largest, row->x[k]);
  for (int64_t k = 0; k < row->n; k++)
    row->x[k] = dt__approx_2(DT_SCALAR_sub, dtype, row->x[k], largest);
}

static dt_approx_t sum_of_exp(const dt_row_t *row) {
  dt_sum_t sum = dt__sum_zero();
  for (int64_t k = 0; k < row->n; k++) {
    dt_approx_t term = dt__approx_1(DT_SCALAR_exp, row->out->dtype, row->x[k]);
    dt__sum_add(&sum, term.v.f, term.b);
  }
  return dt__sum_total(&sum, row->out->dtype, 0);
}

static void row_softmax(const dt_row_t *row) {
  dt_dtype_t dtype = row->out->dtype;
  shift_by_max(row);
  dt_approx_t sum = sum_of_exp(row);
  for (int64_t k = 0; k < row->n; k++) {
    dt_approx_t part = dt__approx_1(DT_SCALAR_exp, dtype, row->x[k]);
    part = dt__approx_2(DT_SCALAR_div, dtype, part, sum);
    dt__eval_put(row->out, row->at[k], dt__approx_slack(dtype, part, SLACK));
  }
}

static void row_log_softmax(const dt_row_t *row) {
  dt_dtype_t dtype = row->out->dtype;
  shift_by_max(row);
  dt_approx_t log_sum = dt__approx_1(DT_SCALAR_log, dtype, sum_of_exp(row));
  for (int64_t k = 0; k < row->n; k++)
    dt__eval_put(row->out, row->at[k], dt__approx_2(DT_SCALAR_sub, dtype, row->x[k], log_sum));
}

dt_status_t dt__eval_softmax(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  return dt__eval_rows(e, node, dt__eval_axes(node), out, row_softmax);
}

dt_status_t dt__eval_log_softmax(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  return dt__eval_rows(e, node, dt__eval_axes(node), out, row_log_softmax);
}

// ---- Normalisations -----------------------------------------------------------------------------
static dt_approx_t mean(const dt_sum_t *sum, dt_dtype_t dtype, double per_term) {
  dt_approx_t total = dt__sum_total(sum, dtype, per_term);
  total = dt__approx_2(DT_SCALAR_div, dtype, total, dt__approx_real((double)sum->n));
  return dt__approx_slack(dtype, total, dt__approx_mean_slack(total, sum->n));
}

// x / sqrt(mean(x^2) + epsilon) * scale, plus bias when there is one.
static void scale_row(const dt_row_t *row) {
  dt_dtype_t dtype = row->out->dtype;
  dt_sum_t squares = dt__sum_zero();
  for (int64_t k = 0; k < row->n; k++) {
    dt_approx_t square = dt__approx_2(DT_SCALAR_mul, dtype, row->x[k], row->x[k]);
    dt__sum_add(&squares, square.v.f, square.b);
  }
  dt_scalar_t epsilon = dt__scalar_cast(DT_F64, dt__dtype_computed(dtype),
                                        (dt_scalar_t){.f = row->node->attrs->floats[0]});
  dt_approx_t size = dt__approx_2(DT_SCALAR_add, dtype, mean(&squares, dtype, 0),
                                  (dt_approx_t){.v = epsilon, .b = 0.0});
  size = dt__approx_1(DT_SCALAR_sqrt, dtype, size);
  const dt_eval_value_t *scale = dt__eval_in(row->e, row->node, 1);
  for (int64_t k = 0; k < row->n; k++) {
    dt_approx_t y = dt__approx_2(DT_SCALAR_div, dtype, row->x[k], size);
    y = dt__approx_slack(dtype, y, SLACK);
    y = dt__approx_2(DT_SCALAR_mul, dtype, y, dt__eval_at(scale, k));
    if (row->node->n_inputs > 2)
      y = dt__approx_2(DT_SCALAR_add, dtype, y, dt__eval_at(dt__eval_in(row->e, row->node, 2), k));
    dt__eval_put(row->out, row->at[k], y);
  }
}

static void row_layer_norm(const dt_row_t *row) {
  dt_dtype_t dtype = row->out->dtype;
  dt_sum_t sum = dt__sum_zero();
  for (int64_t k = 0; k < row->n; k++)
    dt__sum_add(&sum, row->x[k].v.f, row->x[k].b);
  dt_approx_t center = mean(&sum, dtype, 0);
  for (int64_t k = 0; k < row->n; k++)
    row->x[k] = dt__approx_2(DT_SCALAR_sub, dtype, row->x[k], center);
  scale_row(row);
}

static dt_status_t norm(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out,
                        dt_row_fn_t fn) {
  uint32_t first = out->rank - node->attrs->n_axes, folded = 0;
  for (uint32_t dim = first; dim < out->rank; dim++) {
    folded |= 1u << dim;
    for (uint32_t k = 1; k < node->n_inputs; k++) {
      if (dt__eval_in(e, node, k)->sizes[dim - first] != out->sizes[dim])
        return dt__eval_misfit(node, "scale or bias has other sizes");
    }
  }
  return dt__eval_rows(e, node, folded, out, fn);
}

dt_status_t dt__eval_layer_norm(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  return norm(e, node, out, row_layer_norm);
}

dt_status_t dt__eval_rms_norm(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  return norm(e, node, out, scale_row);
}
