// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/import/nn.h"

// ---- Numbers ----------------------------------------------------------------------------------------
dt_sym_t dt__imp_lit(dt_imp_node_t *n, int64_t value) { return dt_sym_const(n->t, value); }

dt_value_t dt__imp_number(dt_imp_node_t *n, dt_dtype_t dtype, double value) {
  return dt_scalar(n->t, dtype, value);
}

static dt_dtype_t dtype_of(dt_imp_node_t *n, dt_value_t x) {
  return dt__imp_failed(n) ? DT_F32 : dt_value_dtype(n->t, x);
}

dt_value_t dt__imp_like(dt_imp_node_t *n, dt_value_t x, double value) {
  return dt_scalar(n->t, dtype_of(n, x), value);
}

dt_value_t dt__imp_times(dt_imp_node_t *n, dt_value_t x, double factor) {
  return factor == 1.0 ? x : dt_mul(n->t, x, dt__imp_like(n, x, factor));
}

dt_value_t dt__imp_plus(dt_imp_node_t *n, dt_value_t x, double term) {
  return term == 0.0 ? x : dt_add(n->t, x, dt__imp_like(n, x, term));
}

dt_value_t dt__imp_as(dt_imp_node_t *n, dt_value_t x, dt_dtype_t dtype) {
  return dtype_of(n, x) == dtype ? x : dt_cast(n->t, x, dtype);
}

// ---- Shapes -----------------------------------------------------------------------------------------
uint32_t dt__imp_shape(dt_imp_node_t *n, dt_value_t x, dt_sym_t *out) {
  uint32_t rank = dt__imp_failed(n) ? 0 : dt_value_rank(n->t, x);
  for (uint32_t k = 0; k < rank; k++)
    out[k] = dt_dim(n->t, x, (int32_t)k);
  return rank;
}

dt_sym_t dt__imp_product(dt_imp_node_t *n, const dt_sym_t *sizes, uint32_t count) {
  dt_sym_t all = count > 0 ? sizes[0] : dt__imp_lit(n, 1);
  for (uint32_t k = 1; k < count; k++)
    all = dt_sym_mul(n->t, all, sizes[k]);
  return all;
}

dt_value_t dt__imp_trailing(dt_imp_node_t *n, dt_value_t x, uint32_t behind) {
  dt_sym_t sizes[DT_MAX_RANK];
  uint32_t rank = dt__imp_shape(n, x, sizes);
  if (behind == 0 || dt__imp_failed(n))
    return x;
  if (rank + behind > DT_MAX_RANK) {
    dt__imp_fail(n, DT_E_LIMIT, "more than %d dims are needed", DT_MAX_RANK);
    return x;
  }
  for (uint32_t k = 0; k < behind; k++)
    sizes[rank++] = dt__imp_lit(n, 1);
  return dt_reshape(n->t, x, rank, sizes);
}

dt_value_t dt__imp_per_channel(dt_imp_node_t *n, dt_value_t vector, uint32_t rank) {
  return dt__imp_trailing(n, vector, rank > 2 ? rank - 2 : 0);
}

dt_value_t dt__imp_index(dt_imp_node_t *n, dt_dtype_t dtype, dt_sym_t size, uint32_t behind) {
  dt_sym_t sizes[DT_MAX_RANK] = {size};
  for (uint32_t k = 1; k <= behind && k < DT_MAX_RANK; k++)
    sizes[k] = dt__imp_lit(n, 1);
  return dt_iota(n->t, dtype, behind + 1, sizes, 0);
}

uint32_t dt__imp_axes_from(uint32_t first, uint32_t rank, int32_t *out) {
  uint32_t count = 0;
  for (uint32_t k = first; k < rank; k++)
    out[count++] = (int32_t)k;
  return count;
}

uint32_t dt__imp_dim_of(dt_imp_node_t *n, int64_t axis, uint32_t rank) {
  uint32_t at = 0;
  if (!dt__imp_failed(n))
    (void)dt__imp_axis(n, axis, rank, &at);
  return at;
}

// ---- Normalisation ----------------------------------------------------------------------------------
dt_imp_normal_t dt__imp_normalise(dt_imp_node_t *n, dt_value_t x, uint32_t n_axes,
                                  const int32_t *axes, double epsilon) {
  dt_imp_normal_t made = {x, x, x};
  if (n_axes == 0) { // axes of no entries stand for all of them in the builders
    made.mean = x;
    made.inverse = dt_rsqrt(n->t, dt__imp_plus(n, dt_sub(n->t, x, x), epsilon));
    made.y = dt_mul(n->t, dt_sub(n->t, x, x), made.inverse);
    return made;
  }
  made.mean = dt_mean(n->t, x, n_axes, axes, true);
  dt_value_t variance = dt_var(n->t, x, n_axes, axes, true);
  made.inverse = dt_rsqrt(n->t, dt__imp_plus(n, variance, epsilon));
  made.y = dt_mul(n->t, dt_sub(n->t, x, made.mean), made.inverse);
  return made;
}
