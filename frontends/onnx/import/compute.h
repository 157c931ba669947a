// SPDX-License-Identifier: Apache-2.0
// What operators that compute share. Private to the importer.
#ifndef DT_FRONTENDS_ONNX_IMPORT_COMPUTE_H
#define DT_FRONTENDS_ONNX_IMPORT_COMPUTE_H

#include "frontends/onnx/import/nn.h"

// Halves as f32, and else what it was: a formula of several ops is rounded once, at its end.
dt_value_t dt__imp_widen(dt_imp_node_t *n, dt_value_t x);
dt_value_t dt__imp_in_wide(dt_imp_node_t *n, uint32_t k);
void dt__imp_out_as(dt_imp_node_t *n, uint32_t k, dt_value_t value, dt_dtype_t dtype);
// A single element of rank 1 as rank 0; others as they are.
dt_value_t dt__imp_scalar(dt_imp_node_t *n, dt_value_t x);
// Backwards along an axis.
dt_value_t dt__imp_reversed(dt_imp_node_t *n, dt_value_t x, int32_t axis);
// Those that are computed with.
bool dt__imp_is_float(dt_dtype_t dtype);
// How a cast rounds to low-bit floats: DT_CAST_*, by attributes "saturate" and "round_mode".
uint32_t dt__imp_cast_how(dt_imp_node_t *n);

// Softmax of x, of input 0's shape, along attribute "axis"; before operator set 13 of all dims from
// it on as one (ops_activation.c).
dt_value_t dt__imp_softmax(dt_imp_node_t *n, dt_value_t x, int64_t opset);
// The mean over windows of x, of input 0's shape, as a pool's attributes say (ops_pool.c).
dt_value_t dt__imp_average(dt_imp_node_t *n, dt_value_t x);

// What a reduction goes over (ops_reduce.c).
typedef struct dt_imp_over_t {
  uint32_t n; // 0: all axes
  int32_t axes[DT_MAX_RANK];
  bool keep;
  bool none; // no axes are given, and that means none
} dt_imp_over_t;
// Axes are an attribute before operator set `inputs_since`, and an input from there on.
bool dt__imp_read_over(dt_imp_node_t *n, int64_t inputs_since, dt_imp_over_t *out);

#endif // DT_FRONTENDS_ONNX_IMPORT_COMPUTE_H
