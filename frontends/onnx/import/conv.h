// SPDX-License-Identifier: Apache-2.0
// Parts of convolutions that fused operators use. Private to the importer.
#ifndef DT_FRONTENDS_ONNX_IMPORT_CONV_H
#define DT_FRONTENDS_ONNX_IMPORT_CONV_H

#include "frontends/onnx/import/windows.h"

// x and w by the node's attributes.
dt_value_t dt__imp_convolve(dt_imp_node_t *n, dt_value_t x, dt_value_t w);
// y of rank `rank` and input k, a vector over its channels, where that is given.
dt_value_t dt__imp_add_bias(dt_imp_node_t *n, dt_value_t y, uint32_t k, uint32_t rank);

#endif // DT_FRONTENDS_ONNX_IMPORT_CONV_H
