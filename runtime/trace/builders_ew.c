// SPDX-License-Identifier: Apache-2.0
// Element-wise builders. Those that take only values are made from ops.def, one a row, so that
// table and public header cannot drift: a row without a prototype, or a prototype without a row,
// does not build.
#include "runtime/trace/builder.h"

#include "runtime/base/dtype.h"

static const dt_value_t none_value = {0};

// Other rows are in builders_reduce.c or written out.
#define BUILD_unary(name)                                                                          \
  dt_value_t dt_##name(dt_trace_t *trace, dt_value_t x) {                                          \
    if (!dt__trace_begin(trace, #name))                                                            \
      return none_value;                                                                           \
    return dt__trace_add(trace, DT_OP_##name, &x, 1, NULL);                                        \
  }
#define BUILD_binary(name)                                                                         \
  dt_value_t dt_##name(dt_trace_t *trace, dt_value_t a, dt_value_t b) {                            \
    if (!dt__trace_begin(trace, #name))                                                            \
      return none_value;                                                                           \
    return dt__trace_add_broadcast(trace, DT_OP_##name, (dt_value_t[]){a, b}, 2, NULL);            \
  }
#define BUILD_reduce(name)
#define BUILD_argreduce(name)
#define BUILD_along(name)
#define BUILD_own(name)
#define BUILD_none(name)
#define OP(name, arity, flags, dtype_rule, shape_rule, decompose, lower, eval, build, derivative,  \
           batch, doc)                                                                             \
  BUILD_##build(name)
#include "lower/graph/ops.def"

dt_value_t dt_where(dt_trace_t *trace, dt_value_t cond, dt_value_t a, dt_value_t b) {
  if (!dt__trace_begin(trace, "where"))
    return none_value;
  return dt__trace_add_broadcast(trace, DT_OP_where, (dt_value_t[]){cond, a, b}, 3, NULL);
}

// `x` as `dtype` by `op`; as it is where it is that already.
static dt_value_t as_dtype(dt_trace_t *trace, dt_op_t op, dt_value_t x, dt_dtype_t dtype,
                           uint32_t how) {
  const dt_node_t *node = dt__trace_node(trace, x, "argument 0");
  if (!node)
    return none_value;
  if (!dt__dtype_is_valid(dtype)) {
    DT_TRACE_FAIL(trace, DT_E_DTYPE, "%d is no dtype", (int)dtype);
    return none_value;
  }
  if (node->dtype == dtype)
    return dt__trace_current(trace, x);
  dt_attrs_t attrs = {0};
  attrs.dtype = dtype;
  attrs.mode = how;
  return dt__trace_add(trace, op, &x, 1, &attrs);
}

dt_value_t dt_cast(dt_trace_t *trace, dt_value_t x, dt_dtype_t dtype) {
  return dt__trace_begin(trace, "cast") ? as_dtype(trace, DT_OP_cast, x, dtype, 0) : none_value;
}

dt_value_t dt_cast_as(dt_trace_t *trace, dt_value_t x, dt_dtype_t dtype, uint32_t how) {
  return dt__trace_begin(trace, "cast_as") ? as_dtype(trace, DT_OP_cast, x, dtype, how)
                                           : none_value;
}

dt_value_t dt_bitcast(dt_trace_t *trace, dt_value_t x, dt_dtype_t dtype) {
  return dt__trace_begin(trace, "bitcast") ? as_dtype(trace, DT_OP_bitcast, x, dtype, 0)
                                           : none_value;
}
