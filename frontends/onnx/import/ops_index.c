// SPDX-License-Identifier: Apache-2.0
// Operators that read and write at indices.
#include "frontends/onnx/import/import.h"

void dt__imp_make_Gather(dt_imp_node_t *n) {
  dt__imp_out(
      n, 0,
      dt_gather(n->t, dt__imp_in(n, 0), dt__imp_in(n, 1), (int32_t)dt__imp_int(n, "axis", 0)));
}

// Dims first, as the format has it.
void dt__imp_make_NonZero(dt_imp_node_t *n) {
  dt__imp_out(n, 0, dt_transpose(n->t, dt_nonzero(n->t, dt__imp_in(n, 0)), 0, 1));
}
