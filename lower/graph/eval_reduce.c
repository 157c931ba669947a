// SPDX-License-Identifier: Apache-2.0
// Evaluation of reductions and of the matrix product.
#include "lower/graph/eval_private.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#include <float.h>
#include <math.h>

// ---- Folds --------------------------------------------------------------------------------------
static dt_approx_t fold_sum(const dt_row_t *row) {
  dt_sum_t sum = dt__sum_zero();
  for (int64_t k = 0; k < row->n; k++)
    dt__sum_add(&sum, row->x[k].v.f, row->x[k].b);
  return dt__sum_total(&sum, row->out->dtype, 0);
}

// Beyond what sums of this dtype are held in: halves are held as f32.
static bool overflows(dt_dtype_t dtype, double x) {
  return dtype == DT_F64 ? isinf(x) : isinf((float)x);
}

static bool underflows(dt_dtype_t dtype, double x) {
  return x < (dtype == DT_F64 ? DBL_MIN : (double)FLT_MIN);
}

// The product's relative errors add up; the bound is the product of magnitudes at their largest.
// Where some order of the factors may come upon infinity or zero that the product itself is not,
// nothing is known of the result.
static dt_approx_t fold_prod(const dt_row_t *row) {
  dt_dtype_t dtype = row->out->dtype;
  double product = 1.0, largest = 1.0, least = 1.0, partial = 1.0, smallest = 1.0;
  bool exact = true;
  for (int64_t k = 0; k < row->n; k++) {
    double x = row->x[k].v.f;
    product *= x;
    least *= fabs(x);
    largest *= fabs(x) + row->x[k].b;
    // The largest product of any subset, which an implementation may hold in between.
    partial *= fmax(1.0, fabs(x) + row->x[k].b);
    // And the smallest.
    smallest *= fmin(1.0, fmax(0.0, fabs(x) - row->x[k].b));
    exact = exact && row->x[k].b == 0.0 && x == trunc(x);
  }
  if (exact && partial <= dt__approx_integers(dtype))
    return dt__approx_real(product);
  if (!isnan(product) &&
      (overflows(dtype, product) ? underflows(dtype, smallest) : overflows(dtype, partial)))
    return (dt_approx_t){.v = {.f = product}, .b = INFINITY};
  double spread = isfinite(product) ? largest - least : (isinf(largest) ? 0.0 : NAN);
  double tiny = dt__approx_normal(dtype) * (isfinite(partial) ? partial : 1.0);
  return dt__approx_rounded(dtype, product, spread, (double)row->n, tiny);
}

typedef struct fold_t {
  dt_scalar_op_t op; // joins two
  double first;      // the result over nothing; saturates to the dtype's lowest or highest
  dt_approx_t (*real)(const dt_row_t *row); // for floats where bounds are not those of `op`
} fold_t;

static const fold_t folds[DT_OP_COUNT] = {
    [DT_OP_sum] = {DT_SCALAR_add, 0.0, fold_sum},
    [DT_OP_prod] = {DT_SCALAR_mul, 1.0, fold_prod},
    [DT_OP_amax] = {DT_SCALAR_maximum, -INFINITY, NULL},
    [DT_OP_amin] = {DT_SCALAR_minimum, INFINITY, NULL},
    [DT_OP_any] = {DT_SCALAR_logical_or, 0.0, NULL},
    [DT_OP_all] = {DT_SCALAR_logical_and, 1.0, NULL},
};

static void row_reduce(const dt_row_t *row) {
  const fold_t *fold = &folds[row->node->op];
  dt_dtype_t dtype = row->out->dtype;
  dt_approx_t result;
  if (fold->real && dt__dtype_is_float(dtype)) {
    result = fold->real(row);
  } else {
    result.v = dt__scalar_cast(DT_F64, dtype, (dt_scalar_t){.f = fold->first});
    result.b = 0.0;
    for (int64_t k = 0; k < row->n; k++)
      result = dt__approx_2(fold->op, dtype, result, row->x[k]);
  }
  dt__eval_put(row->out, row->index, result);
}

dt_status_t dt__eval_reduce(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  return dt__eval_rows(e, node, dt__eval_axes(node), out, row_reduce);
}

// ---- The place of the largest or smallest -------------------------------------------------------
static bool is_nan(dt_dtype_t dtype, dt_scalar_t x) {
  return dt__dtype_is_float(dtype) && isnan(x.f);
}

static void row_argreduce(const dt_row_t *row) {
  dt_dtype_t dtype = dt__eval_in(row->e, row->node, 0)->dtype;
  dt_scalar_op_t better = row->node->op == DT_OP_argmax ? DT_SCALAR_gt : DT_SCALAR_lt;
  int64_t best = 0;
  for (int64_t k = 1; k < row->n && !is_nan(dtype, row->x[best].v); k++) {
    const dt_scalar_t pair[2] = {row->x[k].v, row->x[best].v};
    if (is_nan(dtype, pair[0]) || dt__scalar_eval(better, dtype, pair).i)
      best = k;
  }
  dt_approx_t result = {.v = {.i = best}, .b = 0.0};
  for (int64_t k = 0; k < row->n && row->e->bounds && !is_nan(dtype, row->x[best].v); k++) {
    // Another could win only where its bound and the winner's overlap.
    if (k != best && dt__approx_2(better, dtype, row->x[k], row->x[best]).b > 0)
      result.b = INFINITY;
  }
  dt__eval_put(row->out, row->index, result);
}

dt_status_t dt__eval_argreduce(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  return dt__eval_rows(e, node, dt__eval_axes(node), out, row_argreduce);
}

// ---- Mean and variance --------------------------------------------------------------------------
static dt_approx_t mean_of(const dt_row_t *row) {
  dt_dtype_t dtype = row->out->dtype;
  dt_approx_t mean =
      dt__approx_2(DT_SCALAR_div, dtype, fold_sum(row), dt__approx_real((double)row->n));
  return dt__approx_slack(dtype, mean, dt__approx_mean_slack(mean, row->n));
}

static void row_mean(const dt_row_t *row) { dt__eval_put(row->out, row->index, mean_of(row)); }

static void row_var(const dt_row_t *row) {
  dt_dtype_t dtype = row->out->dtype;
  dt_approx_t mean = mean_of(row);
  for (int64_t k = 0; k < row->n; k++) {
    dt_approx_t d = dt__approx_2(DT_SCALAR_sub, dtype, row->x[k], mean);
    row->x[k] = dt__approx_2(DT_SCALAR_mul, dtype, d, d);
  }
  dt__eval_put(row->out, row->index, mean_of(row));
}

dt_status_t dt__eval_mean(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  return dt__eval_rows(e, node, dt__eval_axes(node), out, row_mean);
}

dt_status_t dt__eval_var(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  return dt__eval_rows(e, node, dt__eval_axes(node), out, row_var);
}

// ---- Matrix product -----------------------------------------------------------------------------
// One element: `inner` products of a[a_at + k] and b[b_at + k * step].
static dt_approx_t dot(const dt_eval_value_t *a, const dt_eval_value_t *b, int64_t a_at,
                       int64_t b_at, int64_t step, int64_t inner) {
  if (!dt__dtype_is_float(a->dtype)) {
    uint64_t sum = 0;
    double bound = 0.0;
    for (int64_t k = 0; k < inner; k++) {
      dt_approx_t x = dt__eval_at(a, a_at + k), y = dt__eval_at(b, b_at + k * step);
      sum += (uint64_t)x.v.i * (uint64_t)y.v.i;
      bound = x.b > 0 || y.b > 0 ? INFINITY : bound;
    }
    // Wrapping once at the end is wrapping each time. From i64, whose bits any integer dtype cuts.
    dt_scalar_t bits = {.i = (int64_t)sum};
    return (dt_approx_t){.v = dt__scalar_cast(DT_I64, a->dtype, bits), .b = bound};
  }
  dt_sum_t sum = dt__sum_zero();
  for (int64_t k = 0; k < inner; k++) {
    dt_approx_t x = dt__eval_at(a, a_at + k), y = dt__eval_at(b, b_at + k * step);
    double bound = 0.0;
    if (x.b > 0)
      bound += x.b * (fabs(y.v.f) + y.b);
    if (y.b > 0)
      bound += fabs(x.v.f) * y.b;
    dt__sum_add(&sum, x.v.f * y.v.f, bound);
  }
  return dt__sum_total(&sum, a->dtype, 1);
}

dt_status_t dt__eval_matmul(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  const dt_eval_value_t *a = dt__eval_in(e, node, 0), *b = dt__eval_in(e, node, 1);
  int64_t rows = a->sizes[a->rank - 2], inner = a->sizes[a->rank - 1];
  int64_t columns = b->sizes[b->rank - 1], batches = 1;
  if (b->sizes[b->rank - 2] != inner)
    return dt__eval_misfit(node, "inner sizes differ");
  for (uint32_t k = 0; k + 2 < a->rank; k++) {
    if ((b->rank > 2 && b->sizes[k] != a->sizes[k]) || out->sizes[k] != a->sizes[k])
      return dt__eval_misfit(node, "batch sizes differ");
  }
  if (out->sizes[a->rank - 2] != rows || out->sizes[a->rank - 1] != columns)
    return dt__eval_misfit(node, "the result has other sizes");
  if (out->count == 0)
    return NULL;
  for (uint32_t k = 0; k + 2 < a->rank; k++)
    batches *= a->sizes[k];
  int64_t b_batch = b->rank > 2 ? inner * columns : 0;
  for (int64_t n = 0; n < batches; n++) {
    for (int64_t row = 0; row < rows; row++) {
      for (int64_t column = 0; column < columns; column++)
        dt__eval_put(out, (n * rows + row) * columns + column,
                     dot(a, b, (n * rows + row) * inner, n * b_batch + column, columns, inner));
    }
  }
  return NULL;
}
