// SPDX-License-Identifier: Apache-2.0
// Small parts that operators of networks are put together from. Private to the importer.
#ifndef DT_FRONTENDS_ONNX_IMPORT_NN_H
#define DT_FRONTENDS_ONNX_IMPORT_NN_H

#include "frontends/onnx/import/import.h"

dt_sym_t dt__imp_lit(dt_imp_node_t *n, int64_t value);                       // a literal
dt_value_t dt__imp_number(dt_imp_node_t *n, dt_dtype_t dtype, double value); // rank 0
dt_value_t dt__imp_like(dt_imp_node_t *n, dt_value_t x, double value);       // of x's dtype
dt_value_t dt__imp_times(dt_imp_node_t *n, dt_value_t x, double factor);     // x where it is 1
dt_value_t dt__imp_plus(dt_imp_node_t *n, dt_value_t x, double term);        // x where it is 0
dt_value_t dt__imp_as(dt_imp_node_t *n, dt_value_t x, dt_dtype_t dtype);     // x where it is
uint32_t dt__imp_shape(dt_imp_node_t *n, dt_value_t x, dt_sym_t *out);       // its rank
dt_sym_t dt__imp_product(dt_imp_node_t *n, const dt_sym_t *sizes, uint32_t count); // 1 of none
// x with `behind` dims of size 1 behind its own.
dt_value_t dt__imp_trailing(dt_imp_node_t *n, dt_value_t x, uint32_t behind);
// A vector over dim 1 of something of rank `rank`: [C, 1, …].
dt_value_t dt__imp_per_channel(dt_imp_node_t *n, dt_value_t vector, uint32_t rank);
// All axes from `first` on; their number.
uint32_t dt__imp_axes_from(uint32_t first, uint32_t rank, int32_t *out);
// A negative axis counted from the last; fails where there is none such. 0 after a failure.
uint32_t dt__imp_dim_of(dt_imp_node_t *n, int64_t axis, uint32_t rank);
// x without its mean and divided by its standard deviation over some axes, which both keep.
typedef struct dt_imp_normal_t {
  dt_value_t y, mean, inverse; // inverse: 1 / sqrt(var + epsilon)
} dt_imp_normal_t;
dt_imp_normal_t dt__imp_normalise(dt_imp_node_t *n, dt_value_t x, uint32_t n_axes,
                                  const int32_t *axes, double epsilon);
// 0, 1, … size - 1 with `behind` dims of size 1 behind them.
dt_value_t dt__imp_index(dt_imp_node_t *n, dt_dtype_t dtype, dt_sym_t size, uint32_t behind);

#endif // DT_FRONTENDS_ONNX_IMPORT_NN_H
