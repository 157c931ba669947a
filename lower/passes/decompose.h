// SPDX-License-Identifier: Apache-2.0
// What the files of decompositions share: a decomposition in the making, and one function a
// `decompose` column of ops.def. It gives the value that takes the node's place, or none where the
// node is better left alone.
#ifndef DT_LOWER_PASSES_DECOMPOSE_H
#define DT_LOWER_PASSES_DECOMPOSE_H

#include "lower/passes/rewrite.h"

// Failure is sticky, so that formulas read as formulas.
typedef struct dt_build_t {
  dt_rewrite_t *rw;
  const dt_node_t *node;
  const dt_node_id_t *in;
  dt_status_t status;
} dt_build_t;

dt_node_id_t dt__build_op(dt_build_t *b, dt_op_t op, const dt_node_id_t *inputs, uint32_t n,
                          const dt_attrs_t *attrs);
// Of two operands, brought to one shape first.
dt_node_id_t dt__build_pair(dt_build_t *b, dt_op_t op, dt_node_id_t x, dt_node_id_t y);

// Learns what is so by construction.
void dt__build_learn(dt_build_t *b, dt_sym_t fact);
// Learns that a size on the way to the node's result is like all others, which a call refuses from
// the limit on. DT_E_LIMIT where it is known to be beyond.
void dt__build_size(dt_build_t *b, dt_sym_t size);

// An op that computes with halves, as the same op of f32 between casts; none for other nodes.
dt_node_id_t dt__build_widened(dt_build_t *b);

// A cast from or to a low-bit dtype as arithmetic on codes, and what moves elements of one as the
// same over codes; none for other nodes.
dt_node_id_t dt__build_low(dt_build_t *b);

typedef dt_node_id_t (*dt_decompose_fn_t)(dt_build_t *b);
// Rows that share a function declare it again; `none` is declared, too, and nowhere defined.
#define OP(name, arity, flags, dtype_rule, shape_rule, decompose, lower, eval, build, derivative,  \
           batch, doc)                                                                             \
  dt_node_id_t dt__decompose_##decompose(dt_build_t *b);
#include "lower/graph/ops.def"

#endif // DT_LOWER_PASSES_DECOMPOSE_H
