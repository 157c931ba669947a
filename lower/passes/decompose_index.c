// SPDX-License-Identifier: Apache-2.0
// Decompositions of what works by index.
#include "lower/passes/decompose.h"
#include "runtime/base/dtype.h"

static dt_node_id_t cast(dt_build_t *b, dt_node_id_t x, dt_dtype_t dtype) {
  dt_attrs_t attrs = {0};
  attrs.dtype = dtype;
  return dt__build_op(b, DT_OP_cast, &x, 1, &attrs);
}

// Halves are joined in f32 and rounded once; where they only take each other's place they stay.
dt_node_id_t dt__decompose_scatter(dt_build_t *b) {
  const dt_node_t *node = b->node;
  if (!dt__dtype_is_half(node->dtype) || node->attrs->mode % DT_JOIN_APART == DT_JOIN_REPLACE)
    return (dt_node_id_t){0};
  dt_node_id_t in[3] = {cast(b, b->in[0], DT_F32), b->in[1], cast(b, b->in[2], DT_F32)};
  return cast(b, dt__build_op(b, node->op, in, 3, node->attrs), node->dtype);
}
