// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/import/resize.h"

#include <math.h>

// ---- Coordinates ------------------------------------------------------------------------------------
typedef dt_value_t (*way_fn_t)(dt_imp_node_t *n, const dt_imp_resized_t *a, dt_value_t i);

// The result's size before it is rounded.
static dt_value_t width_of(dt_imp_node_t *n, const dt_imp_resized_t *a) {
  return dt_mul(n->t, a->scale, dt__imp_real_size(n, a->in));
}

static dt_value_t if_one(dt_imp_node_t *n, const dt_imp_resized_t *a, dt_value_t one,
                         dt_value_t otherwise) {
  dt_value_t is_one = dt_eq(n->t, width_of(n, a), dt__imp_real(n, 1.0));
  return dt_where(n->t, is_one, one, otherwise);
}

static dt_value_t tf_half_pixel(dt_imp_node_t *n, const dt_imp_resized_t *a, dt_value_t i) {
  return dt_div(n->t, dt__imp_plus(n, i, 0.5), a->scale);
}

static dt_value_t half_pixel(dt_imp_node_t *n, const dt_imp_resized_t *a, dt_value_t i) {
  return dt__imp_plus(n, tf_half_pixel(n, a, i), -0.5);
}

static dt_value_t half_pixel_symmetric(dt_imp_node_t *n, const dt_imp_resized_t *a, dt_value_t i) {
  dt_value_t adjusted = dt_div(n->t, dt__imp_real_size(n, a->out), width_of(n, a));
  dt_value_t centre = dt__imp_times(n, dt__imp_real_size(n, a->in), 0.5);
  dt_value_t offset = dt_mul(n->t, centre, dt_sub(n->t, dt__imp_real(n, 1.0), adjusted));
  return dt_add(n->t, offset, half_pixel(n, a, i));
}

static dt_value_t pytorch_half_pixel(dt_imp_node_t *n, const dt_imp_resized_t *a, dt_value_t i) {
  dt_value_t is_one = dt_eq(n->t, dt__imp_real_size(n, a->out), dt__imp_real(n, 1.0));
  return dt_where(n->t, is_one, dt__imp_real(n, 0.0), half_pixel(n, a, i));
}

static dt_value_t asymmetric(dt_imp_node_t *n, const dt_imp_resized_t *a, dt_value_t i) {
  return dt_div(n->t, i, a->scale);
}

// `i` of 0 … width - 1 as a part of 0 … in - 1.
static dt_value_t stretched(dt_imp_node_t *n, const dt_imp_resized_t *a, dt_value_t i,
                            dt_value_t part) {
  dt_value_t last = dt__imp_plus(n, dt__imp_real_size(n, a->in), -1.0);
  dt_value_t taken = dt_mul(n->t, i, part.id ? dt_mul(n->t, part, last) : last);
  return dt_div(n->t, taken, dt__imp_plus(n, width_of(n, a), -1.0));
}

static dt_value_t align_corners(dt_imp_node_t *n, const dt_imp_resized_t *a, dt_value_t i) {
  return if_one(n, a, dt__imp_real(n, 0.0), stretched(n, a, i, (dt_value_t){0}));
}

static dt_value_t crop(dt_imp_node_t *n, const dt_imp_resized_t *a, dt_value_t i) {
  dt_value_t part = dt_sub(n->t, a->end, a->begin);
  dt_value_t last = dt__imp_plus(n, dt__imp_real_size(n, a->in), -1.0);
  dt_value_t middle = dt__imp_times(n, dt_mul(n->t, part, last), 0.5);
  return dt_add(n->t, if_one(n, a, middle, stretched(n, a, i, part)), dt_mul(n->t, a->begin, last));
}

static const way_fn_t ways[DT_IMP_WAYS] = {
    [DT_IMP_HALF_PIXEL] = half_pixel,
    [DT_IMP_HALF_PIXEL_SYMMETRIC] = half_pixel_symmetric,
    [DT_IMP_PYTORCH_HALF_PIXEL] = pytorch_half_pixel,
    [DT_IMP_TF_HALF_PIXEL] = tf_half_pixel,
    [DT_IMP_ALIGN_CORNERS] = align_corners,
    [DT_IMP_ASYMMETRIC] = asymmetric,
    [DT_IMP_CROP] = crop,
};

// ---- Nearest ----------------------------------------------------------------------------------------
static dt_value_t rounded(dt_imp_node_t *n, dt_value_t at, dt_imp_rounding_t rounding) {
  switch (rounding) {
  case DT_IMP_ROUND_DOWN:
    return dt_ceil(n->t, dt__imp_plus(n, at, -0.5));
  case DT_IMP_ROUND_UP:
    return dt_floor(n->t, dt__imp_plus(n, at, 0.5));
  case DT_IMP_FLOOR:
    return dt_floor(n->t, at);
  case DT_IMP_CEIL:
  default:
    return dt_ceil(n->t, at);
  }
}

// An index that is in x.
static dt_value_t clamped(dt_imp_node_t *n, const dt_imp_resized_t *a, dt_value_t at) {
  dt_value_t last = dt_size_value(n->t, dt_sym_sub(n->t, a->in, dt__imp_lit(n, 1)));
  return dt_maximum(n->t, dt_minimum(n->t, at, last), dt_scalar(n->t, DT_I64, 0.0));
}

// Whether each element of x stands `literal` times, one behind another.
static bool is_repeated(const dt_imp_resize_t *r, const dt_imp_resized_t *a) {
  bool middle = r->way <= DT_IMP_PYTORCH_HALF_PIXEL && r->rounding <= DT_IMP_ROUND_UP;
  bool corner = r->way == DT_IMP_ASYMMETRIC && r->rounding == DT_IMP_FLOOR;
  return (middle || corner) && a->literal >= 1.0 && a->literal < 1e6 &&
         floor(a->literal) == a->literal;
}

static dt_value_t repeated(dt_imp_node_t *n, const dt_imp_resized_t *a, dt_value_t x) {
  dt_sym_t sizes[DT_MAX_RANK], more[DT_MAX_RANK];
  uint32_t rank = dt__imp_shape(n, x, sizes);
  for (uint32_t k = 0; k <= rank && rank < DT_MAX_RANK; k++)
    more[k] = k <= a->dim       ? sizes[k]
              : k == a->dim + 1 ? dt__imp_lit(n, (int64_t)a->literal)
                                : sizes[k - 1];
  sizes[a->dim] = a->out;
  dt_value_t split = dt_unsqueeze(n->t, x, (int32_t)a->dim + 1);
  return dt_reshape(n->t, dt_expand(n->t, split, rank + 1, more), rank, sizes);
}

static dt_value_t nearest(dt_imp_node_t *n, const dt_imp_resize_t *r, dt_value_t x,
                          const dt_imp_resized_t *a, dt_value_t at) {
  dt_value_t index = dt_cast(n->t, rounded(n, at, r->rounding), DT_I64);
  return dt_gather(n->t, x, clamped(n, a, index), (int32_t)a->dim);
}

// ---- Kernels ----------------------------------------------------------------------------------------
// Polynomials by Horner's rule, highest power first.
static dt_value_t polynomial(dt_imp_node_t *n, dt_value_t d, const double *factors,
                             uint32_t count) {
  dt_value_t sum = dt__imp_like(n, d, factors[0]);
  for (uint32_t k = 1; k < count; k++)
    sum = dt__imp_plus(n, dt_mul(n->t, sum, d), factors[k]);
  return sum;
}

dt_value_t dt__imp_cubic_near(dt_imp_node_t *n, dt_value_t d, double a) {
  const double factors[] = {a + 2.0, -(a + 3.0), 0.0, 1.0};
  return polynomial(n, d, factors, 4);
}

dt_value_t dt__imp_cubic_far(dt_imp_node_t *n, dt_value_t d, double a) {
  const double factors[] = {a, -5.0 * a, 8.0 * a, -4.0 * a};
  return polynomial(n, d, factors, 4);
}

// The weight at a distance.
static dt_value_t kernel(dt_imp_node_t *n, const dt_imp_resize_t *r, dt_value_t distance) {
  dt_value_t zero = dt__imp_real(n, 0.0), one = dt__imp_real(n, 1.0);
  if (r->mode == DT_IMP_LINEAR)
    return dt_maximum(n->t, dt_sub(n->t, one, distance), zero);
  dt_value_t far = dt_where(n->t, dt_lt(n->t, distance, dt__imp_real(n, 2.0)),
                            dt__imp_cubic_far(n, distance, r->cubic), zero);
  return dt_where(n->t, dt_le(n->t, distance, one), dt__imp_cubic_near(n, distance, r->cubic), far);
}

// `tap`: its distance from floor(at) in x, a number or i64; *out_index: not clamped.
static dt_value_t weigh(dt_imp_node_t *n, const dt_imp_resize_t *r, const dt_imp_resized_t *a,
                        dt_value_t at, dt_value_t tap, dt_value_t shrink, dt_value_t *out_index) {
  dt_value_t base = dt_floor(n->t, at), ratio = dt_sub(n->t, at, base);
  dt_value_t distance = dt_abs(n->t, dt_sub(n->t, dt_cast(n->t, tap, DT_IMP_REAL), ratio));
  if (shrink.id)
    distance = dt_mul(n->t, distance, shrink);
  dt_value_t weight = kernel(n, r, distance);
  dt_value_t index = dt_add(n->t, dt_cast(n->t, base, DT_I64), tap);
  if (r->exclude_outside) {
    dt_value_t inside = dt_logical_and(n->t, dt_ge(n->t, index, dt_scalar(n->t, DT_I64, 0.0)),
                                       dt_lt(n->t, index, dt_size_value(n->t, a->in)));
    weight = dt_where(n->t, inside, weight, dt__imp_real(n, 0.0));
  }
  *out_index = clamped(n, a, index);
  return weight;
}

// ---- Few neighbours ---------------------------------------------------------------------------------
static dt_value_t few(dt_imp_node_t *n, const dt_imp_resize_t *r, dt_value_t x,
                      const dt_imp_resized_t *a, dt_value_t at) {
  int first = r->mode == DT_IMP_LINEAR ? 0 : -1, last = r->mode == DT_IMP_LINEAR ? 1 : 2;
  dt_value_t weights[4], parts[4], all = {0}, sum = {0};
  uint32_t count = 0, behind = dt_value_rank(n->t, x) - 1 - a->dim;
  for (int tap = first; tap <= last; tap++, count++) {
    dt_value_t index = {0}, where = dt_scalar(n->t, DT_I64, tap);
    weights[count] = weigh(n, r, a, at, where, (dt_value_t){0}, &index);
    parts[count] = dt_gather(n->t, x, index, (int32_t)a->dim);
    all = count == 0 ? weights[0] : dt_add(n->t, all, weights[count]);
  }
  for (uint32_t k = 0; k < count && !dt__imp_failed(n); k++) {
    dt_value_t weight = r->exclude_outside ? dt_div(n->t, weights[k], all) : weights[k];
    weight = dt__imp_trailing(n, dt__imp_as(n, weight, dt_value_dtype(n->t, x)), behind);
    dt_value_t part = dt_mul(n->t, parts[k], weight);
    sum = k == 0 ? part : dt_add(n->t, sum, part);
  }
  return sum;
}

// ---- As many as x is shrunk -------------------------------------------------------------------------
// The first neighbour, not above 0, and how many there are: first … 1 - first.
static dt_sym_t first_tap(dt_imp_node_t *n, const dt_imp_resize_t *r, const dt_imp_resized_t *a,
                          dt_value_t shrink) {
  double reach = r->mode == DT_IMP_LINEAR ? 1.0 : 2.0;
  if (a->literal > 0.0)
    return dt__imp_lit(n, (int64_t)floor(-reach / fmin(a->literal, 1.0)) + 1);
  if (a->to.id) {
    dt_sym_t to = dt_sym_max(n->t, a->to, dt__imp_lit(n, 1)), from = dt_sym_max(n->t, a->from, to);
    dt_sym_t far = dt_sym_mul(n->t, from, dt__imp_lit(n, (int64_t)-reach));
    return dt_sym_add(n->t, dt_sym_floordiv(n->t, far, to), dt__imp_lit(n, 1));
  }
  dt_value_t far = dt_floor(n->t, dt_div(n->t, dt__imp_real(n, -reach), shrink));
  dt_sym_t first = dt_item(n->t, dt_cast(n->t, far, DT_I64));
  return dt_sym_min(n->t, dt_sym_add(n->t, first, dt__imp_lit(n, 1)), dt__imp_lit(n, 0));
}

static dt_value_t many(dt_imp_node_t *n, const dt_imp_resize_t *r, dt_value_t x,
                       const dt_imp_resized_t *a, dt_value_t at) {
  const int32_t last = -1, taps = (int32_t)a->dim + 1;
  dt_value_t shrink = dt_minimum(n->t, a->scale, dt__imp_real(n, 1.0)), index = {0};
  dt_sym_t first = first_tap(n, r, a, shrink);
  dt_sym_t count = dt_sym_sub(n->t, dt__imp_lit(n, 2), dt_sym_add(n->t, first, first));
  dt_value_t tap = dt_add(n->t, dt__imp_index(n, DT_I64, count, 0), dt_size_value(n->t, first));
  dt_value_t weight = weigh(n, r, a, dt_unsqueeze(n->t, at, 1), tap, shrink, &index);
  weight = dt_div(n->t, weight, dt_sum(n->t, weight, 1, &last, true));
  dt_value_t parts = dt_gather(n->t, x, index, (int32_t)a->dim);
  if (dt__imp_failed(n))
    return x;
  weight = dt__imp_as(n, weight, dt_value_dtype(n->t, x));
  weight = dt__imp_trailing(n, weight, dt_value_rank(n->t, x) - 1 - a->dim);
  return dt_sum(n->t, dt_mul(n->t, parts, weight), 1, &taps, false);
}

// ---- One dim ----------------------------------------------------------------------------------------
static dt_value_t cropped(dt_imp_node_t *n, const dt_imp_resize_t *r, dt_value_t y,
                          const dt_imp_resized_t *a, dt_value_t at) {
  dt_value_t last = dt__imp_plus(n, dt__imp_real_size(n, a->in), -1.0);
  dt_value_t outside =
      dt_logical_or(n->t, dt_lt(n->t, at, dt__imp_real(n, 0.0)), dt_gt(n->t, at, last));
  if (dt__imp_failed(n))
    return y;
  outside = dt__imp_trailing(n, outside, dt_value_rank(n->t, y) - 1 - a->dim);
  return dt_where(n->t, outside, dt__imp_like(n, y, r->outside), y);
}

dt_value_t dt__imp_resize_dim(dt_imp_node_t *n, const dt_imp_resize_t *r, dt_value_t x,
                              const dt_imp_resized_t *axis) {
  if (dt__imp_failed(n))
    return x;
  if (r->mode == DT_IMP_NEAREST && is_repeated(r, axis) && dt_value_rank(n->t, x) < DT_MAX_RANK)
    return repeated(n, axis, x);
  dt_value_t at = ways[r->way](n, axis, dt__imp_index(n, DT_IMP_REAL, axis->out, 0)), y;
  if (dt__imp_failed(n))
    return x;
  if (r->mode == DT_IMP_NEAREST)
    y = nearest(n, r, x, axis, at);
  else
    y = r->antialias && !(axis->literal >= 1.0) ? many(n, r, x, axis, at) : few(n, r, x, axis, at);
  return r->way == DT_IMP_CROP ? cropped(n, r, y, axis, at) : y;
}
