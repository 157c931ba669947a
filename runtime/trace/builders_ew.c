// SPDX-License-Identifier: Apache-2.0
// Element-wise builders. Those that take values alone are made from ops.def, one a row, so that
// table and public header cannot drift: a row without a prototype, or a prototype without a row,
// does not build.
#include "runtime/trace/capture.h"

#include "runtime/base/dtype.h"

static const dt_value_t none_value = {0};

// BUILD_<arity>_<lower> of rows whose shape rule is `same`; where and cast are written out below.
#define UNARY(name)                                                                                \
  dt_value_t dt_##name(dt_trace_t *trace, dt_value_t x) {                                          \
    if (!dt__trace_begin(trace, #name))                                                            \
      return none_value;                                                                           \
    return dt__trace_add(trace, DT_OP_##name, &x, 1, NULL);                                        \
  }
#define BINARY(name)                                                                               \
  dt_value_t dt_##name(dt_trace_t *trace, dt_value_t a, dt_value_t b) {                            \
    if (!dt__trace_begin(trace, #name))                                                            \
      return none_value;                                                                           \
    return dt__trace_add_broadcast(trace, DT_OP_##name, (dt_value_t[]){a, b}, 2, NULL);            \
  }
#define BUILD_1_ew(name) UNARY(name)
#define BUILD_1_part(name)
#define BUILD_1_none(name) UNARY(name)
#define BUILD_1_cast(name)
#define BUILD_2_ew(name) BINARY(name)
#define BUILD_3_ew(name)

#define ROW_same(name, arity, lower) BUILD_##arity##_##lower(name)
#define ROW_input(name, arity, lower)
#define ROW_constant(name, arity, lower)
#define ROW_cond(name, arity, lower)
#define ROW_switch(name, arity, lower)
#define ROW_while(name, arity, lower)
#define ROW_result(name, arity, lower)
#define ROW_scalar(name, arity, lower)
#define ROW_size(name, arity, lower)
#define ROW_iota(name, arity, lower)
#define ROW_axis(name, arity, lower)
#define ROW_reduce(name, arity, lower)
#define ROW_reshape(name, arity, lower)
#define ROW_permute(name, arity, lower)
#define ROW_expand(name, arity, lower)
#define ROW_slice(name, arity, lower)
#define ROW_pad(name, arity, lower)
#define ROW_concat(name, arity, lower)
#define ROW_window(name, arity, lower)
#define ROW_overlap(name, arity, lower)
#define ROW_conv(name, arity, lower)
#define ROW_conv_transpose(name, arity, lower)
#define ROW_gather(name, arity, lower)
#define ROW_gather_elements(name, arity, lower)
#define ROW_gather_nd(name, arity, lower)
#define ROW_scatter_elements(name, arity, lower)
#define ROW_scatter_nd(name, arity, lower)
#define ROW_matmul(name, arity, lower)
#define ROW_norm(name, arity, lower)
#define ROW_item(name, arity, lower)
#define ROW_scan(name, arity, lower)
#define ROW_search(name, arity, lower)
#define ROW_compress(name, arity, lower)
#define ROW_nonzero(name, arity, lower)
#define ROW_select(name, arity, lower)
#define OP(name, arity, flags, dtype_rule, shape_rule, decompose, lower, eval, doc)                \
  ROW_##shape_rule(name, arity, lower)
#include "lower/graph/ops.def"

dt_value_t dt_where(dt_trace_t *trace, dt_value_t cond, dt_value_t a, dt_value_t b) {
  if (!dt__trace_begin(trace, "where"))
    return none_value;
  return dt__trace_add_broadcast(trace, DT_OP_where, (dt_value_t[]){cond, a, b}, 3, NULL);
}

dt_value_t dt_cast(dt_trace_t *trace, dt_value_t x, dt_dtype_t dtype) {
  const dt_node_t *node =
      dt__trace_begin(trace, "cast") ? dt__trace_node(trace, x, "argument 0") : NULL;
  if (!node)
    return none_value;
  if (!dt__dtype_is_valid(dtype)) {
    DT_TRACE_FAIL(trace, DT_E_DTYPE, "%d is no dtype", (int)dtype);
    return none_value;
  }
  if (node->dtype == dtype)
    return x;
  dt_attrs_t attrs = {0};
  attrs.dtype = dtype;
  return dt__trace_add(trace, DT_OP_cast, &x, 1, &attrs);
}
