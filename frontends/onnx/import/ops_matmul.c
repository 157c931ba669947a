// SPDX-License-Identifier: Apache-2.0
// Products of matrices.
#include "frontends/onnx/import/nn.h"

void dt__imp_make_MatMul(dt_imp_node_t *n) {
  dt__imp_out(n, 0, dt_matmul(n->t, dt__imp_in(n, 0), dt__imp_weights(n, 1)));
}

// alpha * A' * B' + beta * C. Old forms give C a `broadcast` attribute; it says nothing new.
void dt__imp_make_Gemm(dt_imp_node_t *n) {
  dt_value_t a = dt__imp_in(n, 0), b = dt__imp_weights(n, 1);
  if (dt__imp_int(n, "transA", 0))
    a = dt_transpose(n->t, a, 0, 1);
  if (dt__imp_int(n, "transB", 0))
    b = dt_transpose(n->t, b, 0, 1);
  double beta = dt__imp_float(n, "beta", 1.0);
  dt_value_t y = dt__imp_times(n, dt_matmul(n->t, a, b), dt__imp_float(n, "alpha", 1.0));
  if (dt__imp_has(n, 2) && beta != 0.0)
    y = dt_add(n->t, y, dt__imp_times(n, dt__imp_in(n, 2), beta));
  dt__imp_out(n, 0, y);
}
