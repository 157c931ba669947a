// SPDX-License-Identifier: Apache-2.0
// Windows over a dim: the expressions that builders, inference and decompositions have in common,
// so that what one of them has asked of sizes is what the others rely on.
#ifndef DT_LOWER_GRAPH_WINDOW_H
#define DT_LOWER_GRAPH_WINDOW_H

#include "symshape/symshape.h"

#define DT_MOST_SPATIAL 3 // dims that a convolution or a pool has windows over

// From a window's first element to its last, both counted.
static inline dt_sym_t dt__window_reach(dt_symenv_t *env, dt_sym_t size, dt_sym_t dilation) {
  dt_sym_t one = dt__sym_const(env, 1);
  return dt__sym_add(env, dt__sym_mul(env, dt__sym_sub(env, size, one), dilation), one);
}

// How many windows fit into `room` elements, of which there are at least as many as one reaches.
static inline dt_sym_t dt__window_places(dt_symenv_t *env, dt_sym_t room, dt_sym_t reach,
                                         dt_sym_t stride) {
  dt_sym_t steps = dt__sym_floordiv(env, dt__sym_sub(env, room, reach), stride);
  return dt__sym_add(env, steps, dt__sym_const(env, 1));
}

// From the first element of the first of `places` windows to the last of the last.
static inline dt_sym_t dt__window_span(dt_symenv_t *env, dt_sym_t places, dt_sym_t stride,
                                       dt_sym_t reach) {
  dt_sym_t steps = dt__sym_sub(env, places, dt__sym_const(env, 1));
  return dt__sym_add(env, dt__sym_mul(env, steps, stride), reach);
}

#endif // DT_LOWER_GRAPH_WINDOW_H
