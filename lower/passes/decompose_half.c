// SPDX-License-Identifier: Apache-2.0
// Ops on 16-bit floats as ops on f32: inputs are cast, the whole op is computed in f32, sums and
// composites with all their inner steps, and the result is rounded once by a cast. Every op's
// result is rounded, whatever is fused later: a cast from f32 to a half and back is never folded
// away. What only moves elements keeps its dtype.
#include "lower/passes/decompose.h"
#include "runtime/base/dtype.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"

static dt_node_id_t cast(dt_build_t *b, dt_node_id_t x, dt_dtype_t dtype) {
  dt_attrs_t attrs = {0};
  attrs.dtype = dtype;
  return dt__build_op(b, DT_OP_cast, &x, 1, &attrs);
}

dt_node_id_t dt__build_widened(dt_build_t *b) {
  const dt_node_t *node = b->node;
  dt_node_id_t in[3], out;
  bool half = false;
  if (!dt__op_info(node->op)->computes)
    return (dt_node_id_t){0};
  for (uint32_t k = 0; k < node->n_inputs; k++)
    half = half || dt__dtype_is_half(dt__graph_node(b->rw->to, b->in[k])->dtype);
  if (!half)
    return (dt_node_id_t){0};
  for (uint32_t k = 0; k < node->n_inputs && k < 3; k++)
    in[k] = cast(b, b->in[k], DT_F32);
  out = dt__build_op(b, node->op, in, node->n_inputs, node->attrs);
  return dt__dtype_is_half(node->dtype) ? cast(b, out, node->dtype) : out;
}
