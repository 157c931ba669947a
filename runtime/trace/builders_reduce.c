// SPDX-License-Identifier: Apache-2.0
// Builders of reductions, of other ops along one axis, and of norms. Those of one signature are
// made from ops.def, like the element-wise ones.
#include "runtime/trace/builder.h"

static const dt_value_t none_value = {0};

// Ascending axes of a reduction into attrs; none given means all.
static bool set_axes(dt_trace_t *trace, uint32_t rank, uint32_t n_axes, const int32_t *axes,
                     dt_attrs_t *attrs) {
  if (n_axes && !axes) {
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "axes: NULL; expected %u", n_axes);
    return false;
  }
  uint32_t chosen = n_axes ? 0 : (1u << rank) - 1;
  for (uint32_t k = 0; k < n_axes; k++) {
    uint32_t dim = 0;
    if (!dt__trace_axis(trace, axes[k], rank, &dim))
      return false;
    if (chosen & (1u << dim)) {
      DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "axis %d is given twice", axes[k]);
      return false;
    }
    chosen |= 1u << dim;
  }
  for (uint32_t dim = 0; dim < rank; dim++) {
    if (chosen & (1u << dim))
      attrs->axes[attrs->n_axes++] = (int32_t)dim;
  }
  return true;
}

static dt_value_t reduce(dt_trace_t *trace, dt_op_t op, const char *name, dt_value_t x,
                         uint32_t n_axes, const int32_t *axes, bool keepdims) {
  const dt_node_t *node =
      dt__trace_begin(trace, name) ? dt__trace_node(trace, x, "argument 0") : NULL;
  dt_attrs_t attrs = {0};
  if (!node || !set_axes(trace, node->rank, n_axes, axes, &attrs))
    return none_value;
  attrs.keepdims = keepdims;
  return dt__trace_add(trace, op, &x, 1, &attrs);
}

// One axis, and keepdims where the op has it.
static dt_value_t along(dt_trace_t *trace, dt_op_t op, const char *name, dt_value_t x, int32_t axis,
                        bool keepdims) {
  const dt_node_t *node =
      dt__trace_begin(trace, name) ? dt__trace_node(trace, x, "argument 0") : NULL;
  uint32_t dim = 0;
  if (!node || !dt__trace_axis(trace, axis, node->rank, &dim))
    return none_value;
  dt_attrs_t attrs = {0};
  attrs.n_axes = 1;
  attrs.axes[0] = (int32_t)dim;
  attrs.keepdims = keepdims;
  return dt__trace_add(trace, op, &x, 1, &attrs);
}

// ---- From ops.def -------------------------------------------------------------------------------
#define BUILD_reduce(name)                                                                         \
  dt_value_t dt_##name(dt_trace_t *trace, dt_value_t x, uint32_t n_axes, const int32_t *axes,      \
                       bool keepdims) {                                                            \
    return reduce(trace, DT_OP_##name, #name, x, n_axes, axes, keepdims);                          \
  }
#define BUILD_argreduce(name)                                                                      \
  dt_value_t dt_##name(dt_trace_t *trace, dt_value_t x, int32_t axis, bool keepdims) {             \
    return along(trace, DT_OP_##name, #name, x, axis, keepdims);                                   \
  }
#define BUILD_along(name)                                                                          \
  dt_value_t dt_##name(dt_trace_t *trace, dt_value_t x, int32_t axis) {                            \
    return along(trace, DT_OP_##name, #name, x, axis, false);                                      \
  }
#define BUILD_unary(name)
#define BUILD_binary(name)
#define BUILD_own(name)
#define BUILD_none(name)
#define OP(name, arity, flags, dtype_rule, shape_rule, decompose, lower, eval, build, derivative,  \
           batch, doc)                                                                             \
  BUILD_##build(name)
#include "lower/graph/ops.def"

// ---- Norms --------------------------------------------------------------------------------------
static dt_value_t norm(dt_trace_t *trace, dt_op_t op, const char *name, const dt_value_t *inputs,
                       uint32_t n, double epsilon) {
  const dt_node_t *scale =
      dt__trace_begin(trace, name) ? dt__trace_node(trace, inputs[1], "scale") : NULL;
  if (!scale)
    return none_value;
  if (!(epsilon >= 0)) {
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "epsilon: %g; expected 0 or more", epsilon);
    return none_value;
  }
  if (scale->rank == 0) {
    DT_TRACE_FAIL(trace, DT_E_SHAPE, "scale is a scalar; expected the sizes of the last dims");
    return none_value;
  }
  dt_attrs_t attrs = {0};
  attrs.n_axes = scale->rank;
  attrs.floats[0] = epsilon;
  return dt__trace_add(trace, op, inputs, n, &attrs);
}

dt_value_t dt_layer_norm(dt_trace_t *trace, dt_value_t x, dt_value_t scale, dt_value_t bias,
                         double epsilon) {
  return norm(trace, DT_OP_layer_norm, "layer_norm", (dt_value_t[]){x, scale, bias}, 3, epsilon);
}

dt_value_t dt_rms_norm(dt_trace_t *trace, dt_value_t x, dt_value_t scale, double epsilon) {
  return norm(trace, DT_OP_rms_norm, "rms_norm", (dt_value_t[]){x, scale}, 2, epsilon);
}
