// SPDX-License-Identifier: Apache-2.0
// Instructions whose operands say places, amounts or ways: the forms behind RG_FORM_scan.
#include "test/conform/graphs/random_gen.h"

#include <string.h>

// A rank-0 integer, or bool, of some node's elements.
static uint32_t put_number(gen_t *g, bool truth) {
  uint32_t a = gen_pick(g, truth ? 'N' : 'I');
  if (a == NONE)
    return NONE;
  if (truth) {
    uint32_t zero = gen_put_scalar(g, gen_node(g, a)->dtype);
    a = PUT_2(g, RG_gt, a, zero);
  }
  if (a != NONE && gen_node(g, a)->rank)
    a = PUT(g, truth ? RG_any : RG_amax, a, 0);
  return a;
}

// A node of `dtype` and of the dims of `like`, or made from one.
static uint32_t put_like(gen_t *g, uint32_t like, dt_dtype_t dtype) {
  const rg_node_t *x = gen_node(g, like);
  for (uint32_t tries = 0; tries < 8; tries++) {
    uint32_t b = gen_pick(g, 'A');
    const rg_node_t *y = gen_node(g, b);
    bool same = y->rank == x->rank;
    for (uint32_t d = 0; same && d < x->rank; d++)
      same = rg_dim_same(g->p, &x->dims[d], &y->dims[d]);
    rg_node_t cast = {.op = RG_cast, .dtype = dtype, .n_args = 1, .args = {b}};
    if (same)
      return y->dtype == dtype ? b : gen_put(g, &cast);
  }
  return gen_put_leaf_like(g, dtype, x->rank, x->dims);
}

static uint32_t put_scatter_rows(gen_t *g, uint32_t a) {
  rg_dim_t dims[RG_RANK + 1];
  const rg_node_t *x = gen_node(g, a);
  int32_t size = gen_dim(g), mode = (int32_t)gen_below(g, x->dtype == DT_BOOL ? 1 : 5);
  uint32_t rank = x->rank;
  dt_dtype_t dtype = x->dtype;
  if (rank == 0)
    return NONE;
  memcpy(dims, x->dims, rank * sizeof(*dims));
  uint32_t at = gen_put_leaf(g, gen_dtype(g, 'N'), 1, &size, RG_FILL_ANY, 0);
  if (at == NONE)
    return NONE;
  dims[0] = gen_node(g, at)->dims[0];
  uint32_t rows = gen_put_leaf_like(g, dtype, rank, dims);
  return gen_put_op(g, RG_scatter_nd, 3, (const uint32_t[]){a, at, rows}, 1, &mode);
}

static uint32_t put_conv(gen_t *g, rg_op_t op) {
  int32_t channels = 1 + (int32_t)gen_below(g, 4), made = 1 + (int32_t)gen_below(g, 4);
  int32_t x_dims[3] = {gen_dim(g), channels, gen_dim(g)};
  int32_t w_dims[3] = {made, channels, 1 + (int32_t)gen_below(g, 4)};
  int32_t numbers[3] = {1 + (int32_t)gen_below(g, 3), 1 + (int32_t)gen_below(g, 2),
                        (int32_t)gen_below(g, 3)};
  dt_dtype_t dtype = gen_chance(g, 60) ? gen_float(g) : gen_dtype(g, 'N');
  if (op == RG_conv_transpose) {
    w_dims[0] = channels;
    w_dims[1] = made;
  }
  uint32_t x = gen_put_leaf(g, dtype, 3, x_dims, gen_fill(g), 0);
  uint32_t w = gen_put_leaf(g, dtype, 3, w_dims, gen_fill(g), 0);
  return gen_put_op(g, op, 2, (const uint32_t[]){x, w}, 3, numbers);
}

uint32_t gen_put_data(gen_t *g, rg_op_t op, uint32_t a) {
  const rg_node_t *x = gen_node(g, a);
  int32_t axis = (int32_t)gen_below(g, x->rank),
          mode = (int32_t)gen_below(g, x->dtype == DT_BOOL ? 1 : 5);
  dt_dtype_t dtype = x->dtype;
  uint32_t args[3] = {a, NONE, NONE};
  switch (rg_ops[op].form) {
  case RG_FORM_scan:
    return PUT(g, op, a, axis, (int32_t)gen_below(g, 4));
  case RG_FORM_search:
    return PUT(g, op, a, (int32_t)gen_below(g, 2));
  case RG_FORM_pick:
    args[1] = put_like(g, a, gen_dtype(g, 'N'));
    return gen_put_op(g, op, 2, args, 1, &axis);
  case RG_FORM_pick_rows:
    return PUT_2(g, op, a, gen_pick(g, 'N'));
  case RG_FORM_scatter:
    args[1] = put_like(g, a, gen_dtype(g, 'N'));
    args[2] = put_like(g, a, dtype);
    return gen_put_op(g, op, 3, args, 2, (const int32_t[]){axis, mode});
  case RG_FORM_scatter_rows:
    return put_scatter_rows(g, a);
  case RG_FORM_places:
    return gen_put_op(g, op, 1, args, 0, NULL);
  case RG_FORM_select:
    return PUT_2(g, op, a, put_like(g, a, DT_BOOL));
  case RG_FORM_item:
    args[0] = put_number(g, false);
    return gen_put_op(g, op, 1, args, 0, NULL);
  case RG_FORM_cond:
    args[1] = put_number(g, true);
    return gen_put_op(g, op, 2, args, 1, (const int32_t[]){0});
  case RG_FORM_switch:
  case RG_FORM_while:
    args[1] = put_number(g, false);
    return gen_put_op(g, op, 2, args, 1, (const int32_t[]){0});
  case RG_FORM_call:
    args[1] = put_like(g, a, dtype);
    return gen_put_op(g, op, 2, args, 1, (const int32_t[]){0});
  case RG_FORM_call_axis:
    return PUT(g, op, a, axis, op == RG_call_halves ? (int32_t)gen_below(g, 2) : 0);
  case RG_FORM_call_where:
    args[1] = put_like(g, a, dtype);
    args[2] = put_like(g, a, DT_BOOL);
    return gen_put_op(g, op, 3, args, 2, (const int32_t[]){0, 0});
  case RG_FORM_call_pair:
    args[1] = put_like(g, a, dtype);
    return gen_put_op(g, op, 2, args, 2, (const int32_t[]){0, (int32_t)gen_below(g, 2)});
  case RG_FORM_conv:
  case RG_FORM_conv_transpose:
    return put_conv(g, op);
  default:
    return NONE;
  }
}
