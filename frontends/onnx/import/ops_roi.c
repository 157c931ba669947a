// SPDX-License-Identifier: Apache-2.0
// RoiAlign: means, or largest elements, of boxes in images, read between their elements.
#include "frontends/onnx/import/nn.h"

#include <math.h>

const char *dt__imp_check_RoiAlign(dt_imp_node_t *n) {
  if (dt__imp_int(n, "output_height", 1) < 1 || dt__imp_int(n, "output_width", 1) < 1)
    return "a size of the result is not positive";
  if (!dt__imp_str_is(n, "mode", "avg", "avg") && !dt__imp_str_is(n, "mode", "avg", "max"))
    return "attribute \"mode\" is neither avg nor max";
  return dt__imp_str_is(n, "coordinate_transformation_mode", "half_pixel", "half_pixel") ||
                 dt__imp_str_is(n, "coordinate_transformation_mode", "half_pixel",
                                "output_half_pixel")
             ? NULL
             : "attribute \"coordinate_transformation_mode\" has a value that is not known";
}

// Of one dim of the images; tensors are [boxes, cells, samples], `count` without cells and samples.
typedef struct samples_t {
  dt_sym_t cells;      // of the result
  dt_value_t count;    // samples in a cell
  dt_value_t used;     // whether a sample is one of them
  dt_value_t index[2]; // neighbours
  dt_value_t weight[2];
} samples_t;

static dt_value_t column(dt_imp_node_t *n, dt_value_t boxes, int64_t at) {
  dt_value_t one = dt_slice(n->t, boxes, 1, dt__imp_lit(n, at), dt__imp_lit(n, 1), 1);
  return dt__imp_trailing(n, dt_squeeze(n->t, one, 1), 2);
}

// How many samples each box's cells have, and the most of any.
static dt_sym_t count_samples(dt_imp_node_t *n, dt_value_t cell, samples_t *out) {
  int64_t ratio = dt__imp_int(n, "sampling_ratio", 0);
  out->count = ratio > 0 ? dt__imp_trailing(n, dt__imp_like(n, cell, (double)ratio), 3)
                         : dt_maximum(n->t, dt_ceil(n->t, cell), dt__imp_like(n, cell, 0.0));
  if (ratio > 0)
    return dt__imp_lit(n, ratio);
  dt_value_t most = dt_amax(n->t, dt_cast(n->t, out->count, DT_I64), 0, NULL, false);
  most = dt_maximum(n->t, most, dt_scalar(n->t, DT_I64, 0.0)); // there may be no box
  dt_sym_t made = dt_item(n->t, most);
  dt_check(n->t, dt_sym_le(n->t, dt__imp_lit(n, 0), made), "a box has no size");
  return made;
}

static void find_samples(dt_imp_node_t *n, dt_value_t boxes, uint32_t dim, dt_sym_t size,
                         samples_t *out) {
  bool half = n->opset >= 16 &&
              dt__imp_str_is(n, "coordinate_transformation_mode", "half_pixel", "half_pixel");
  double scale = dt__imp_float(n, "spatial_scale", 1.0), offset = half ? -0.5 : 0.0;
  int64_t cells = dt__imp_int(n, dim ? "output_width" : "output_height", 1);
  dt_value_t begin = dt__imp_plus(n, dt__imp_times(n, column(n, boxes, 1 - dim), scale), offset);
  dt_value_t end = dt__imp_plus(n, dt__imp_times(n, column(n, boxes, 3 - dim), scale), offset);
  dt_value_t all = dt_sub(n->t, end, begin);
  if (!half)
    all = dt_maximum(n->t, all, dt__imp_like(n, all, 1.0));
  if (dt__imp_failed(n))
    return;
  dt_dtype_t dtype = dt_value_dtype(n->t, all);
  dt_value_t cell = dt_div(n->t, all, dt__imp_number(n, dtype, (double)cells));
  out->cells = dt__imp_lit(n, cells);
  dt_sym_t most = count_samples(n, cell, out);
  dt_value_t sample = dt__imp_index(n, dtype, most, 0);
  dt_value_t part = dt_div(n->t, dt_mul(n->t, dt__imp_plus(n, sample, 0.5), cell), out->count);
  dt_value_t at = dt_mul(n->t, dt__imp_index(n, dtype, out->cells, 1), cell);
  at = dt_add(n->t, dt_add(n->t, begin, at), part);
  dt_value_t whole = dt__imp_as(n, dt_size_value(n->t, size), dtype), zero = dt__imp_like(n, at, 0);
  dt_value_t inside =
      dt_logical_and(n->t, dt_ge(n->t, at, dt__imp_like(n, at, -1.0)), dt_le(n->t, at, whole));
  dt_value_t last = dt__imp_plus(n, whole, -1.0), one = dt__imp_like(n, at, 1.0);
  at = dt_minimum(n->t, dt_maximum(n->t, at, zero), last);
  dt_value_t low = dt_floor(n->t, at), ratio = dt_sub(n->t, at, low);
  out->used = dt_lt(n->t, sample, out->count);
  out->index[0] = dt_maximum(n->t, dt_cast(n->t, low, DT_I64), dt_scalar(n->t, DT_I64, 0.0));
  out->index[1] = dt_cast(n->t, dt_minimum(n->t, dt_add(n->t, low, one), last), DT_I64);
  out->index[1] = dt_maximum(n->t, out->index[1], dt_scalar(n->t, DT_I64, 0.0));
  out->weight[0] = dt_where(n->t, inside, dt_sub(n->t, one, ratio), zero);
  out->weight[1] = dt_where(n->t, inside, ratio, zero);
}

// Of dim 0 or 1, for [boxes, channels, cells, samples, cells, samples].
static dt_value_t spread(dt_imp_node_t *n, dt_value_t x, uint32_t dim) {
  x = dt_unsqueeze(n->t, x, 1);
  for (uint32_t k = 0; k < 2; k++)
    x = dt_unsqueeze(n->t, x, dim == 0 ? -1 : 2);
  return x;
}

// The first element of each channel of each box's image, in all images: [boxes, channels, 1, …].
static dt_value_t origins(dt_imp_node_t *n, const dt_sym_t *in, dt_value_t images) {
  dt_value_t channels = dt_size_value(n->t, in[1]);
  images = dt__imp_trailing(n, dt__imp_as(n, images, DT_I64), 5);
  dt_value_t plane =
      dt_add(n->t, dt_mul(n->t, images, channels), dt__imp_index(n, DT_I64, in[1], 4));
  return dt_mul(n->t, plane, dt_size_value(n->t, dt_sym_mul(n->t, in[2], in[3])));
}

void dt__imp_make_RoiAlign(dt_imp_node_t *n) {
  const int32_t within[] = {3, 5};
  dt_sym_t in[DT_MAX_RANK];
  samples_t s[2] = {0};
  dt_value_t x = dt__imp_in(n, 0), boxes = dt__imp_in(n, 1), y = {0};
  bool mean = dt__imp_str_is(n, "mode", "avg", "avg");
  if (dt__imp_shape(n, x, in) != 4 || dt__imp_rank(n, 1) != 2 || dt__imp_rank(n, 2) != 1) {
    if (!dt__imp_failed(n))
      dt__imp_fail(n, DT_E_SHAPE, "inputs must have ranks 4, 2 and 1");
    return;
  }
  dt_dtype_t dtype = dt__imp_dtype(n, 0), wide = dtype == DT_F64 ? DT_F64 : DT_F32;
  boxes = dt__imp_as(n, boxes, wide);
  find_samples(n, boxes, 0, in[2], &s[0]);
  find_samples(n, boxes, 1, in[3], &s[1]);
  dt_sym_t all = dt__imp_product(n, in, 4);
  dt_value_t flat = dt__imp_as(n, dt_reshape(n->t, x, 1, &all), wide);
  dt_value_t origin = origins(n, in, dt__imp_in(n, 2)), width = dt_size_value(n->t, in[3]);
  for (uint32_t k = 0; k < 4; k++) {
    dt_value_t at = dt_mul(n->t, spread(n, s[0].index[k / 2], 0), width);
    at = dt_add(n->t, origin, dt_add(n->t, at, spread(n, s[1].index[k % 2], 1)));
    dt_value_t weight =
        dt_mul(n->t, spread(n, s[0].weight[k / 2], 0), spread(n, s[1].weight[k % 2], 1));
    dt_value_t one = dt_mul(n->t, dt_gather(n->t, flat, at, 0), weight);
    y = k == 0 ? one : mean ? dt_add(n->t, y, one) : dt_maximum(n->t, y, one);
  }
  dt_value_t used = dt_logical_and(n->t, spread(n, s[0].used, 0), spread(n, s[1].used, 1));
  dt_value_t count = dt_mul(n->t, s[0].count, s[1].count); // [boxes, 1, 1]
  count = dt_unsqueeze(n->t, count, 1);
  y = dt_where(n->t, used, y, dt__imp_like(n, y, mean ? 0.0 : -INFINITY));
  if (mean)
    y = dt_div(n->t, dt_sum(n->t, y, 2, within, false),
               dt_maximum(n->t, count, dt__imp_like(n, count, 1.0)));
  else
    y = dt_where(n->t, dt_gt(n->t, count, dt__imp_like(n, count, 0.0)),
                 dt_amax(n->t, y, 2, within, false), dt__imp_like(n, count, 0.0));
  dt__imp_out(n, 0, dt__imp_as(n, y, dtype));
}
