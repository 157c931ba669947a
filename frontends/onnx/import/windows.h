// SPDX-License-Identifier: Apache-2.0
// Windows as attributes of nodes describe them. Private to the importer.
#ifndef DT_FRONTENDS_ONNX_IMPORT_WINDOWS_H
#define DT_FRONTENDS_ONNX_IMPORT_WINDOWS_H

#include "frontends/onnx/import/nn.h"

typedef enum dt_imp_padding_t {
  DT_IMP_PADS = 0, // as attribute "pads" says
  DT_IMP_SAME_UPPER = 1,
  DT_IMP_SAME_LOWER = 2,
  DT_IMP_VALID = 3,
} dt_imp_padding_t;

// NULL, or why strides, dilations, auto_pad and the like are refused.
const char *dt__imp_check_windows(dt_imp_node_t *n);
const char *dt__imp_check_pool(dt_imp_node_t *n); // the same, and a kernel_shape is needed
dt_imp_padding_t dt__imp_padding(dt_imp_node_t *n);
// Strides, dilations and paddings of `count` spatial dims of sizes in[] for kernels of size[];
// .size stays none. False: failed.
bool dt__imp_windows(dt_imp_node_t *n, uint32_t count, const dt_sym_t *in, const dt_sym_t *size,
                     dt_window_t *out);
// Entry k of a list attribute; `otherwise` without it.
int64_t dt__imp_entry(dt_imp_node_t *n, const char *name, uint32_t k, int64_t otherwise);
// Elements of x that a window reaches over: (size - 1) * dilation + 1.
dt_sym_t dt__imp_reach(dt_imp_node_t *n, const dt_window_t *window, dt_sym_t size);

#endif // DT_FRONTENDS_ONNX_IMPORT_WINDOWS_H
