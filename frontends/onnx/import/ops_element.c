// SPDX-License-Identifier: Apache-2.0
// Element-wise operators.
#include "frontends/onnx/import/import.h"

#define UNARY(op, build)                                                                           \
  void dt__imp_make_##op(dt_imp_node_t *n) { dt__imp_out(n, 0, build(n->t, dt__imp_in(n, 0))); }
#define BINARY(op, build)                                                                          \
  void dt__imp_make_##op(dt_imp_node_t *n) {                                                       \
    dt__imp_out(n, 0, build(n->t, dt__imp_in(n, 0), dt__imp_in(n, 1)));                            \
  }
UNARY(Relu, dt_relu)
BINARY(Add, dt_add)
BINARY(Div, dt_div)
BINARY(Mul, dt_mul)
BINARY(Sub, dt_sub)
#undef UNARY
#undef BINARY

// ---- Cast -------------------------------------------------------------------------------------------
const char *dt__imp_check_Cast(dt_imp_node_t *n) {
  return dt__imp_attr_dtype(n, "to", DT_DTYPE_NONE) == DT_DTYPE_NONE
             ? "a cast to an element type that is not supported"
             : NULL;
}

void dt__imp_make_Cast(dt_imp_node_t *n) {
  dt__imp_out(n, 0, dt_cast(n->t, dt__imp_in(n, 0), dt__imp_attr_dtype(n, "to", DT_F32)));
}
