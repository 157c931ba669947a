// SPDX-License-Identifier: Apache-2.0
// Graphs of matrix products: element types, layouts of operands, and what follows the product.
#ifndef DT_TESTS_UNIT_CUDA_EMIT_GEMM_GRAPH_H
#define DT_TESTS_UNIT_CUDA_EMIT_GEMM_GRAPH_H

#include "runtime/base/text.h"

#include <stdbool.h>

typedef enum gemm_follow_t {
  GEMM_NOTHING,
  GEMM_BIAS_GELU,
  GEMM_RESIDUAL,
  GEMM_TWO_RESULTS
} gemm_follow_t;

typedef struct gemm_case_t {
  const char *dtype;
  bool a_turned, b_turned, batched, strict;
  gemm_follow_t follow;
} gemm_case_t;

// The graph's text, over sizes s0 (rows), s1 (columns), s2 (what is summed over) and s3 (batch),
// all symbols. `out` is initialised, and owns it.
const char *gemm_graph(const gemm_case_t *c, dt_text_t *out);

#endif // DT_TESTS_UNIT_CUDA_EMIT_GEMM_GRAPH_H
