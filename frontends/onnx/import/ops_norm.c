// SPDX-License-Identifier: Apache-2.0
// Normalisation.
#include "frontends/onnx/import/nn.h"

// ---- BatchNormalization -----------------------------------------------------------------------------
// Forms before 14 are trained where more than one output is asked for, or is_test is 0.
static bool is_training(dt_imp_node_t *n) {
  return n->opset >= 14 ? dt__imp_int(n, "training_mode", 0) != 0 : dt__imp_n_out(n) > 1;
}

const char *dt__imp_check_BatchNormalization(dt_imp_node_t *n) {
  return n->opset < 14 && dt__imp_n_out(n) > 1 ? "training with this operator set is not supported"
                                               : NULL;
}

// Statistics and factors of another precision than x: all is computed in the wider one.
static dt_dtype_t widest_input(dt_imp_node_t *n) {
  dt_dtype_t widest = dt__imp_dtype(n, 0);
  for (uint32_t k = 1; k < 5 && !dt__imp_failed(n); k++)
    if (dt_dtype_size(dt__imp_dtype(n, k)) > dt_dtype_size(widest))
      widest = dt__imp_dtype(n, k);
  return widest;
}

static dt_value_t moved(dt_imp_node_t *n, uint32_t k, dt_value_t found) {
  double momentum = (double)(float)dt__imp_float(n, "momentum", 0.9F);
  dt_value_t before = dt__imp_in(n, k);
  dt_value_t now = dt__imp_as(n, found, dt__imp_dtype(n, k));
  return dt_add(n->t, dt__imp_times(n, before, momentum), dt__imp_times(n, now, 1.0 - momentum));
}

void dt__imp_make_BatchNormalization(dt_imp_node_t *n) {
  uint32_t rank = dt__imp_rank(n, 0), n_axes = 0;
  bool spatial = dt__imp_int(n, "spatial", 1) != 0;
  dt_dtype_t wide = widest_input(n);
  dt_value_t x = dt__imp_as(n, dt__imp_in(n, 0), wide), rows[4];
  int32_t axes[DT_MAX_RANK];
  for (uint32_t k = 0; k < 4; k++) {
    rows[k] = dt__imp_as(n, dt__imp_in(n, k + 1), wide);
    if (spatial)
      rows[k] = dt__imp_per_channel(n, rows[k], rank);
  }
  if (rank < 2 && !dt__imp_failed(n)) // [N]: one channel
    rank = 1;
  if (is_training(n) && rank > 0) {
    axes[n_axes++] = 0;
    n_axes += dt__imp_axes_from(2, rank, axes + 1);
    dt_value_t mean = dt_mean(n->t, x, n_axes, axes, false);
    dt_value_t variance = dt_var(n->t, x, n_axes, axes, false);
    dt__imp_out(n, 1, moved(n, 3, mean));
    dt__imp_out(n, 2, moved(n, 4, variance));
    rows[2] = dt__imp_per_channel(n, mean, rank);
    rows[3] = dt__imp_per_channel(n, variance, rank);
  }
  double epsilon = dt__imp_float(n, "epsilon", 1e-5F);
  dt_value_t factor = dt_mul(n->t, rows[0], dt_rsqrt(n->t, dt__imp_plus(n, rows[3], epsilon)));
  dt_value_t y = dt_add(n->t, dt_mul(n->t, dt_sub(n->t, x, rows[2]), factor), rows[1]);
  dt__imp_out(n, 0, dt__imp_as(n, y, dt__imp_dtype(n, 0)));
}

// ---- LayerNormalization, RMSNormalization -----------------------------------------------------------
// Input k with the sizes of x's dims from `axis` on, where it may broadcast.
static dt_value_t over_dims(dt_imp_node_t *n, uint32_t k, dt_value_t x, uint32_t axis) {
  dt_sym_t sizes[DT_MAX_RANK], own[DT_MAX_RANK];
  dt_value_t in = dt__imp_in(n, k);
  uint32_t rank = dt__imp_shape(n, x, sizes), count = rank - axis, same = 0;
  int64_t one = 0;
  if (dt__imp_failed(n) || dt_value_rank(n->t, in) > count)
    return in;
  uint32_t own_rank = dt__imp_shape(n, in, own);
  for (uint32_t i = 0; i < own_rank; i++)
    same += !dt_sym_constant(n->t, own[i], &one) || one != 1;
  return own_rank == count && same == count ? in : dt_expand(n->t, in, count, sizes + axis);
}

static bool check_rank(dt_imp_node_t *n, uint32_t k, uint32_t most) {
  uint32_t rank = dt__imp_rank(n, k);
  if (rank > most && !dt__imp_failed(n))
    dt__imp_fail(n, DT_E_UNSUPPORTED, "input %u has rank %u; at most %u is supported", k, rank,
                 most);
  return !dt__imp_failed(n);
}

// Mean and inverse have the type of the statistics.
static void layer_statistics(dt_imp_node_t *n, dt_value_t x, uint32_t axis, double epsilon) {
  int32_t axes[DT_MAX_RANK];
  dt_dtype_t dtype = dt__imp_int(n, "stash_type", 1) == 1 ? DT_F32 : dt__imp_dtype(n, 0);
  uint32_t n_axes = dt__imp_axes_from(axis, dt__imp_rank(n, 0), axes);
  dt_imp_normal_t stats = dt__imp_normalise(n, dt__imp_as(n, x, dtype), n_axes, axes, epsilon);
  dt__imp_out(n, 1, stats.mean);
  dt__imp_out(n, 2, stats.inverse);
}

const char *dt__imp_check_stash_type(dt_imp_node_t *n) {
  int64_t type = dt__imp_int(n, "stash_type", 1);
  return type == 1 || type == 10 || type == 11 || type == 16
             ? NULL
             : "attribute \"stash_type\" is no type of floats that is supported";
}

void dt__imp_make_LayerNormalization(dt_imp_node_t *n) {
  uint32_t rank = dt__imp_rank(n, 0);
  uint32_t axis = dt__imp_dim_of(n, dt__imp_int(n, "axis", -1), rank);
  double epsilon = dt__imp_float(n, "epsilon", 1e-5F);
  dt_value_t x = dt__imp_in(n, 0), bias;
  if (!check_rank(n, 1, rank - axis) || (dt__imp_has(n, 2) && !check_rank(n, 2, rank - axis)))
    return;
  dt_value_t scale = over_dims(n, 1, x, axis);
  dt_sym_t sizes[DT_MAX_RANK];
  if (dt__imp_has(n, 2))
    bias = over_dims(n, 2, x, axis);
  else
    bias = dt_full(n->t, dt__imp_dtype(n, 1), 0.0, dt__imp_shape(n, scale, sizes), sizes);
  dt__imp_out(n, 0, dt_layer_norm(n->t, x, scale, bias, epsilon));
  if (dt__imp_wants(n, 1) || dt__imp_wants(n, 2))
    layer_statistics(n, x, axis, epsilon);
}

void dt__imp_make_RMSNormalization(dt_imp_node_t *n) {
  uint32_t rank = dt__imp_rank(n, 0);
  uint32_t axis = dt__imp_dim_of(n, dt__imp_int(n, "axis", -1), rank);
  dt_value_t x = dt__imp_in(n, 0);
  if (!check_rank(n, 1, rank - axis))
    return;
  dt_dtype_t dtype = dt__imp_dtype(n, 1); // the result's; it may be another than x's
  dt_value_t scale = over_dims(n, 1, x, axis);
  double epsilon = dt__imp_float(n, "epsilon", 1e-5F);
  dt__imp_out(n, 0, dt_rms_norm(n->t, dt__imp_as(n, x, dtype), scale, epsilon));
}

// ---- InstanceNormalization, GroupNormalization ------------------------------------------------------
void dt__imp_make_InstanceNormalization(dt_imp_node_t *n) {
  int32_t axes[DT_MAX_RANK];
  uint32_t rank = dt__imp_rank(n, 0), n_axes = dt__imp_axes_from(2, rank, axes);
  dt_value_t x = dt__imp_in(n, 0);
  double epsilon = dt__imp_float(n, "epsilon", 1e-5F);
  dt_value_t y = dt__imp_normalise(n, x, n_axes, axes, epsilon).y;
  y = dt_mul(n->t, y, dt__imp_per_channel(n, dt__imp_in(n, 1), rank));
  dt__imp_out(n, 0, dt_add(n->t, y, dt__imp_per_channel(n, dt__imp_in(n, 2), rank)));
}

const char *dt__imp_check_GroupNormalization(dt_imp_node_t *n) {
  return dt__imp_int(n, "num_groups", 0) > 0 ? dt__imp_check_stash_type(n)
                                             : "attribute \"num_groups\" is not positive";
}

// [N, C, …] as [N, groups, C / groups * …].
static dt_value_t grouped(dt_imp_node_t *n, dt_value_t x, int64_t groups) {
  dt_sym_t sizes[DT_MAX_RANK];
  uint32_t rank = dt__imp_shape(n, x, sizes);
  if (rank < 2)
    return x;
  dt_sym_t each = dt_sym_exactdiv(n->t, sizes[1], dt__imp_lit(n, groups));
  dt_sym_t three[] = {sizes[0], dt__imp_lit(n, groups),
                      dt_sym_mul(n->t, each, dt__imp_product(n, sizes + 2, rank - 2))};
  return dt_reshape(n->t, x, 3, three);
}

// The form of set 18 has a scale and a bias a group, that of 21 a channel.
void dt__imp_make_GroupNormalization(dt_imp_node_t *n) {
  const int32_t last = 2;
  dt_sym_t sizes[DT_MAX_RANK];
  dt_value_t x = dt__imp_in(n, 0);
  uint32_t rank = dt__imp_shape(n, x, sizes);
  dt_value_t y = grouped(n, x, dt__imp_int(n, "num_groups", 1));
  y = dt__imp_normalise(n, y, 1, &last, dt__imp_float(n, "epsilon", 1e-5F)).y;
  uint32_t factors = n->opset < 21 ? 3 : rank;
  if (factors == rank)
    y = dt_reshape(n->t, y, rank, sizes);
  y = dt_mul(n->t, y, dt__imp_per_channel(n, dt__imp_in(n, 1), factors));
  y = dt_add(n->t, y, dt__imp_per_channel(n, dt__imp_in(n, 2), factors));
  dt__imp_out(n, 0, dt_reshape(n->t, y, rank, sizes));
}

// ---- LRN --------------------------------------------------------------------------------------------
#define MOST_CHANNELS 64

const char *dt__imp_check_LRN(dt_imp_node_t *n) {
  int64_t size = dt__imp_int(n, "size", 0);
  return size < 1               ? "attribute \"size\" is not positive"
         : size > MOST_CHANNELS ? "normalisation over more than 64 channels is not supported"
                                : NULL;
}

// Squares of `size` channels around each, added up.
static dt_value_t sum_around(dt_imp_node_t *n, dt_value_t x, int64_t size) {
  dt_sym_t low[DT_MAX_RANK], high[DT_MAX_RANK], sizes[DT_MAX_RANK];
  uint32_t rank = dt__imp_shape(n, x, sizes);
  if (rank < 2)
    return x;
  for (uint32_t k = 0; k < rank; k++)
    low[k] = high[k] = dt__imp_lit(n, 0);
  low[1] = dt__imp_lit(n, (size - 1) / 2);
  high[1] = dt__imp_lit(n, size / 2);
  dt_value_t padded = dt_pad(n->t, dt_mul(n->t, x, x), low, high, 0.0), sum = {0};
  for (int64_t k = 0; k < size; k++) {
    dt_value_t one = dt_slice(n->t, padded, 1, dt__imp_lit(n, k), sizes[1], 1);
    sum = k == 0 ? one : dt_add(n->t, sum, one);
  }
  return sum;
}

void dt__imp_make_LRN(dt_imp_node_t *n) {
  dt_value_t x = dt__imp_in(n, 0);
  int64_t size = dt__imp_int(n, "size", 1);
  double alpha = dt__imp_float(n, "alpha", 1e-4F), beta = dt__imp_float(n, "beta", 0.75);
  dt_value_t sum = dt__imp_times(n, sum_around(n, x, size), alpha / (double)size);
  sum = dt_add(n->t, sum, dt__imp_like(n, x, dt__imp_float(n, "bias", 1.0)));
  dt__imp_out(n, 0, dt_div(n->t, x, dt_pow(n->t, sum, dt__imp_like(n, x, beta))));
}

// ---- LpNormalization, MeanVarianceNormalization -----------------------------------------------------
const char *dt__imp_check_LpNormalization(dt_imp_node_t *n) {
  int64_t p = dt__imp_int(n, "p", 2);
  return p == 1 || p == 2 ? NULL : "attribute \"p\" is neither 1 nor 2";
}

void dt__imp_make_LpNormalization(dt_imp_node_t *n) {
  dt_value_t x = dt__imp_in(n, 0), norm;
  int32_t axis = (int32_t)dt__imp_dim_of(n, dt__imp_int(n, "axis", -1), dt__imp_rank(n, 0));
  if (dt__imp_int(n, "p", 2) == 1)
    norm = dt_sum(n->t, dt_abs(n->t, x), 1, &axis, true);
  else
    norm = dt_sqrt(n->t, dt_sum(n->t, dt_mul(n->t, x, x), 1, &axis, true));
  dt_value_t zero = dt__imp_like(n, x, 0.0);
  dt__imp_out(n, 0, dt_where(n->t, dt_eq(n->t, norm, zero), zero, dt_div(n->t, x, norm)));
}

void dt__imp_make_MeanVarianceNormalization(dt_imp_node_t *n) {
  static const int64_t usual[] = {0, 2, 3};
  dt_imp_ints_t given = {3, usual};
  int32_t axes[DT_MAX_RANK];
  dt_value_t x = dt__imp_in(n, 0);
  uint32_t rank = dt__imp_rank(n, 0);
  dt_imp_ints_t attr;
  if (dt__imp_attr_ints(n, "axes", &attr))
    given = attr;
  if (given.len > DT_MAX_RANK)
    dt__imp_fail(n, DT_E_FORMAT, "attribute \"axes\" has %u entries", given.len);
  for (uint32_t k = 0; k < given.len && !dt__imp_failed(n); k++)
    axes[k] = (int32_t)dt__imp_dim_of(n, given.items[k], rank);
  if (dt__imp_failed(n))
    return;
  dt_value_t mean = dt_mean(n->t, x, given.len, axes, true);
  dt_value_t deviation = dt_sqrt(n->t, dt_var(n->t, x, given.len, axes, true));
  dt__imp_out(n, 0, dt_div(n->t, dt_sub(n->t, x, mean), dt__imp_plus(n, deviation, 1e-9)));
}
