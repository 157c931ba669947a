// SPDX-License-Identifier: Apache-2.0
// What operators that compute share.
#include "frontends/onnx/import/compute.h"

bool dt__imp_is_float(dt_dtype_t dtype) {
  return dtype == DT_F64 || dtype == DT_F32 || dtype == DT_F16 || dtype == DT_BF16;
}

dt_value_t dt__imp_widen(dt_imp_node_t *n, dt_value_t x) {
  dt_dtype_t dtype = dt__imp_failed(n) ? DT_F32 : dt_value_dtype(n->t, x);
  return dtype == DT_F16 || dtype == DT_BF16 ? dt_cast(n->t, x, DT_F32) : x;
}

dt_value_t dt__imp_in_wide(dt_imp_node_t *n, uint32_t k) {
  return dt__imp_widen(n, dt__imp_in(n, k));
}

void dt__imp_out_as(dt_imp_node_t *n, uint32_t k, dt_value_t value, dt_dtype_t dtype) {
  dt__imp_out(n, k, dt__imp_as(n, value, dtype));
}

dt_value_t dt__imp_scalar(dt_imp_node_t *n, dt_value_t x) {
  int64_t size = 0;
  if (dt__imp_failed(n) || dt_value_rank(n->t, x) != 1)
    return x;
  return dt_sym_constant(n->t, dt_dim(n->t, x, 0), &size) && size == 1 ? dt_squeeze(n->t, x, 0) : x;
}

dt_value_t dt__imp_reversed(dt_imp_node_t *n, dt_value_t x, int32_t axis) {
  dt_sym_t size = dt_dim(n->t, x, axis);
  dt_sym_t last = dt_sym_sub(n->t, size, dt_sym_const(n->t, 1));
  return dt_slice(n->t, x, axis, dt_sym_max(n->t, last, dt_sym_const(n->t, 0)), size, -1);
}
