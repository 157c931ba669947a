// SPDX-License-Identifier: Apache-2.0
// Instructions of random programs, by form: what each takes besides its first operand.
#include "test/conform/graphs/random_gen.h"

#include <string.h>

static uint32_t put_elementwise(gen_t *g, rg_op_t op, uint32_t a) {
  dt_dtype_t dtype = gen_node(g, a)->dtype;
  if (rg_ops[op].form == RG_FORM_where) {
    uint32_t args[3] = {gen_partner(g, a, DT_BOOL), a, gen_partner(g, a, dtype)};
    return gen_put_op(g, op, 3, args, 0, NULL);
  }
  uint32_t b = gen_partner(g, a, dtype);
  if (rg_ops[op].form == RG_FORM_ternary) {
    uint32_t args[3] = {b, gen_partner(g, a, dtype), a};
    return gen_put_op(g, op, 3, args, 0, NULL);
  }
  return gen_chance(g, 50) ? PUT_2(g, op, a, b) : PUT_2(g, op, b, a);
}

static uint32_t put_permute(gen_t *g, uint32_t a) {
  rg_node_t node = {.op = RG_permute, .n_args = 1, .args = {a}};
  node.n_numbers = gen_node(g, a)->rank;
  for (uint32_t d = 0; d < node.n_numbers; d++) {
    uint32_t at = gen_below(g, d + 1);
    node.numbers[d] = node.numbers[at];
    node.numbers[at] = (int32_t)d;
  }
  return gen_put(g, &node);
}

static uint32_t put_regroup(gen_t *g, uint32_t a) {
  rg_node_t node = {.op = RG_regroup, .n_args = 1, .args = {a}};
  uint32_t rank = gen_node(g, a)->rank, order[RG_RANK] = {0};
  bool keep = gen_chance(g, 60);
  for (uint32_t d = 0; d < rank; d++) {
    uint32_t at = keep ? d : gen_below(g, d + 1);
    order[d] = order[at];
    order[at] = d;
  }
  for (uint32_t d = 0; d < rank; d++) {
    if (d && gen_chance(g, 50))
      node.numbers[node.n_numbers++] = -1;
    node.numbers[node.n_numbers++] = (int32_t)order[d];
  }
  return gen_put(g, &node);
}

static uint32_t put_split(gen_t *g, uint32_t a) {
  for (uint32_t tries = 0; tries < 8; tries++) {
    int32_t axis = (int32_t)gen_below(g, gen_node(g, a)->rank),
            factor = 1 + (int32_t)gen_below(g, 8);
    if (factor == 1 && gen_chance(g, 80))
      continue;
    uint32_t out = PUT(g, RG_split, a, axis, factor, (int32_t)gen_below(g, 2));
    if (out != NONE)
      return out;
  }
  return NONE;
}

static uint32_t put_reshape_like(gen_t *g, uint32_t a) {
  for (uint32_t tries = 0; tries < 12; tries++) {
    uint32_t out = PUT_2(g, RG_reshape_like, a, gen_pick(g, 'A'));
    if (out != NONE)
      return out;
  }
  return NONE;
}

static uint32_t put_expand(gen_t *g, uint32_t a) {
  const rg_node_t *x = gen_node(g, a);
  int32_t axis = -1;
  for (uint32_t d = 0; d < x->rank; d++)
    if (rg_dim_is(g->p, &x->dims[d], 1) && gen_chance(g, 60))
      axis = (int32_t)d;
  if (axis < 0 && gen_chance(g, 60))
    return NONE;
  uint32_t like = gen_pick(g, 'A');
  if (gen_chance(g, 40) || gen_node(g, like)->rank == 0)
    return PUT(g, RG_expand, a, axis, gen_literal(g));
  int32_t numbers[2] = {axis, (int32_t)gen_below(g, gen_node(g, like)->rank)};
  return gen_put_op(g, RG_expand, 2, (const uint32_t[]){a, like}, 2, numbers);
}

static uint32_t put_slice(gen_t *g, uint32_t a) {
  const rg_node_t *x = gen_node(g, a);
  if (x->rank == 0)
    return NONE;
  uint32_t axis = gen_below(g, x->rank), mode = gen_below(g, RG_SLICE_COUNT);
  if (mode == RG_SLICE_NONE && gen_chance(g, 70))
    mode = RG_SLICE_REVERSE;
  const rg_dim_t *dim = &x->dims[axis];
  if (mode != RG_SLICE_LITERAL || !rg_dim_is(g->p, dim, dim->at[0]) || dim->at[0] == 0)
    return PUT(g, RG_slice, a, (int32_t)axis,
               (int32_t)(mode == RG_SLICE_LITERAL ? RG_SLICE_REVERSE : mode),
               1 + (int32_t)gen_below(g, 4));
  int32_t n = (int32_t)dim->at[0], start = (int32_t)gen_below(g, (uint32_t)n);
  int32_t step = 1 + (int32_t)gen_below(g, 3);
  if (gen_chance(g, 50))
    step = -step;
  int32_t most = (step > 0 ? n - 1 - start : start) / (step > 0 ? step : -step) + 1;
  return PUT(g, RG_slice, a, (int32_t)axis, RG_SLICE_LITERAL, start,
             (int32_t)gen_below(g, (uint32_t)most + 1), step);
}

static uint32_t put_concat(gen_t *g, uint32_t a) {
  const rg_node_t *x = gen_node(g, a);
  if (x->rank == 0)
    return NONE;
  int32_t axis = (int32_t)gen_below(g, x->rank);
  uint32_t n = 2 + gen_below(g, 2), args[RG_ARGS] = {a, a, a};
  for (uint32_t k = 1; k < n; k++) {
    uint32_t other = gen_pick(g, 'A');
    rg_dim_t dims[RG_RANK];
    memcpy(dims, gen_node(g, a)->dims, sizeof(dims));
    uint32_t rank = gen_node(g, a)->rank;
    dt_dtype_t dtype = gen_node(g, a)->dtype;
    if (gen_chance(g, 40) && rank) {
      int64_t size = gen_literal(g);
      for (uint32_t at = 0; at < RG_POINTS; at++)
        dims[axis].at[at] = size;
      other = gen_put_leaf_like(g, dtype, rank, dims);
    }
    uint32_t pair[2] = {a, other};
    // Only whether they fit is of interest.
    uint32_t joined = other == NONE ? NONE : gen_put_op(g, RG_concat, 2, pair, 1, &axis);
    if (joined != NONE) {
      g->p->n_nodes--;
      args[k] = other;
    }
  }
  return gen_put_op(g, RG_concat, n, args, 1, &axis);
}

static uint32_t put_pad(gen_t *g, uint32_t a) {
  rg_node_t node = {.op = RG_pad, .n_args = 1, .args = {a}};
  node.n_numbers = 2 * gen_node(g, a)->rank;
  for (uint32_t k = 0; k < node.n_numbers; k++)
    node.numbers[k] = gen_chance(g, 50) ? 0 : (int32_t)gen_below(g, 4);
  node.value = gen_chance(g, 50) ? 0 : gen_hostile(g, gen_node(g, a)->dtype);
  return gen_put(g, &node);
}

static uint32_t put_gather(gen_t *g, uint32_t a) {
  const rg_node_t *x = gen_node(g, a);
  if (x->rank == 0)
    return NONE;
  int32_t axis = (int32_t)gen_below(g, x->rank);
  dt_dtype_t dtype = gen_chance(g, 50) ? DT_I32 : DT_I64;
  int32_t numbers[2] = {axis, 0};
  const rg_dim_t *dim = &x->dims[axis];
  if (rg_dim_is(g->p, dim, dim->at[0]) && dim->at[0] > 0 && gen_chance(g, 50)) {
    int32_t dims[2] = {gen_dim(g), gen_dim(g)};
    numbers[1] = 1;
    uint32_t ids =
        gen_put_leaf(g, dtype, 1 + gen_below(g, 2), dims, RG_FILL_INDEX, (int32_t)dim->at[0]);
    return gen_put_op(g, RG_gather, 2, (const uint32_t[]){a, ids}, 2, numbers);
  }
  if (gen_chance(g, 40)) {
    uint32_t rank = gen_node(g, a)->rank;
    // A table with at least one row whatever the sizes are.
    rg_node_t grown = {.op = RG_pad, .n_args = 1, .args = {a}, .n_numbers = 2 * rank};
    grown.numbers[2 * axis] = 1;
    uint32_t table = gen_put(g, &grown);
    if (table != NONE)
      a = table;
  }
  uint32_t from = gen_pick(g, 'N');
  if (from == NONE)
    return NONE;
  rg_node_t cast = {.op = RG_cast, .dtype = dtype, .n_args = 1, .args = {from}};
  return gen_put_op(g, RG_gather, 2, (const uint32_t[]){a, gen_put(g, &cast)}, 2, numbers);
}

static uint32_t put_reduce(gen_t *g, rg_op_t op, uint32_t a) {
  rg_node_t node = {.op = op, .n_args = 1, .args = {a}, .n_numbers = 1};
  uint32_t rank = gen_node(g, a)->rank;
  node.numbers[0] = gen_chance(g, 50);
  bool all = gen_chance(g, 15);
  for (uint32_t d = rank; d-- > 0 && !all;)
    if (gen_chance(g, d + 1 == rank ? 60 : 35))
      node.numbers[node.n_numbers++] = (int32_t)d;
  return gen_put(g, &node);
}

static uint32_t put_norm(gen_t *g, rg_op_t op, uint32_t a) {
  const rg_node_t *x = gen_node(g, a);
  if (x->rank == 0)
    return NONE;
  uint32_t n = 1 + (gen_chance(g, 20) ? gen_below(g, x->rank) : 0), from = x->rank - n;
  dt_dtype_t dtype = x->dtype;
  rg_dim_t dims[RG_RANK];
  memcpy(dims, x->dims, sizeof(dims));
  uint32_t args[3] = {a, gen_put_leaf_like(g, dtype, n, dims + from), NONE};
  if (op == RG_layer_norm)
    args[2] = gen_put_leaf_like(g, dtype, n, dims + from);
  return gen_put_op(g, op, op == RG_layer_norm ? 3 : 2, args, 0, NULL);
}

static uint32_t put_matmul(gen_t *g, uint32_t a) {
  for (uint32_t tries = 0; tries < 8; tries++) {
    uint32_t b = gen_pick(g, 'N');
    uint32_t out = gen_chance(g, 50) ? PUT_2(g, RG_matmul, a, b) : PUT_2(g, RG_matmul, b, a);
    if (out != NONE)
      return out;
  }
  const rg_node_t *x = gen_node(g, a);
  if (x->rank == 0)
    return NONE;
  uint32_t rank = x->rank;
  dt_dtype_t dtype = x->dtype;
  int32_t inner = 0, dims[RG_RANK];
  if (gen_chance(g, 30) && rank >= 2) { // against itself, transposed
    int32_t last = (int32_t)rank - 1;
    return PUT_2(g, RG_matmul, a, PUT(g, RG_transpose, a, last - 1, last));
  }
  if (!gen_express(g, &x->dims[rank - 1], &inner))
    return NONE;
  uint32_t lead = rank > 2 && gen_chance(g, 40) ? rank - 2 : 0;
  for (uint32_t d = 0; d < lead; d++)
    if (gen_chance(g, 25))
      dims[d] = 1;
    else if (!gen_express(g, &gen_node(g, a)->dims[d], &dims[d]))
      return NONE;
  dims[lead] = inner;
  dims[lead + 1] = gen_dim(g);
  uint32_t b =
      gen_put_leaf(g, dtype, lead + (lead == 0 && gen_chance(g, 15) ? 1 : 2), dims, gen_fill(g), 0);
  return PUT_2(g, RG_matmul, a, b);
}

uint32_t gen_put_cast(gen_t *g, uint32_t a) {
  rg_node_t node = {.op = RG_cast, .dtype = gen_dtype(g, 'A'), .n_args = 1, .args = {a}};
  return gen_put(g, &node);
}

static uint32_t put_iota(gen_t *g, uint32_t a) {
  rg_node_t node = {.op = RG_iota, .dtype = gen_dtype(g, 'N'), .n_args = 1, .args = {a}};
  node.n_numbers = 1;
  node.numbers[0] = (int32_t)gen_below(g, gen_node(g, a)->rank);
  return gen_put(g, &node);
}

static uint32_t put_squeeze(gen_t *g, uint32_t a) {
  const rg_node_t *x = gen_node(g, a);
  for (uint32_t d = 0; d < x->rank; d++)
    if (rg_dim_is(g->p, &x->dims[d], 1))
      return PUT(g, RG_squeeze, a, (int32_t)d);
  return NONE;
}

uint32_t gen_put_form(gen_t *g, rg_op_t op) {
  const rg_op_info_t *info = &rg_ops[op];
  uint32_t a = gen_pick(g, info->form == RG_FORM_iota ? 'A' : info->domain);
  if (a == NONE)
    return NONE;
  int32_t rank = (int32_t)gen_node(g, a)->rank, axis = (int32_t)gen_below(g, (uint32_t)rank);
  switch (info->form) {
  case RG_FORM_input:
  case RG_FORM_constant:
    return gen_put_input(g);
  case RG_FORM_scalar:
    return gen_put_scalar(g, gen_dtype(g, 'A'));
  case RG_FORM_unary:
  case RG_FORM_test:
    return gen_put_op(g, op, 1, &a, 0, NULL);
  case RG_FORM_iota:
    return put_iota(g, a);
  case RG_FORM_cast:
    return gen_put_cast(g, a);
  case RG_FORM_binary:
  case RG_FORM_compare:
  case RG_FORM_where:
  case RG_FORM_ternary:
    return put_elementwise(g, op, a);
  case RG_FORM_permute:
    return put_permute(g, a);
  case RG_FORM_transpose:
    return PUT(g, op, a, axis, (int32_t)gen_below(g, (uint32_t)rank));
  case RG_FORM_unsqueeze:
    return PUT(g, op, a, (int32_t)gen_below(g, (uint32_t)rank + 1));
  case RG_FORM_squeeze:
    return put_squeeze(g, a);
  case RG_FORM_regroup:
    return put_regroup(g, a);
  case RG_FORM_split:
    return put_split(g, a);
  case RG_FORM_flatten:
    return PUT(g, op, a, axis, axis + (int32_t)gen_below(g, (uint32_t)(rank - axis)));
  case RG_FORM_reshape_like:
    return put_reshape_like(g, a);
  case RG_FORM_expand:
    return put_expand(g, a);
  case RG_FORM_slice:
    return put_slice(g, a);
  case RG_FORM_concat:
    return put_concat(g, a);
  case RG_FORM_pad:
    return put_pad(g, a);
  case RG_FORM_gather:
    return put_gather(g, a);
  case RG_FORM_reduce:
    return put_reduce(g, op, a);
  case RG_FORM_argreduce:
    return PUT(g, op, a, axis, (int32_t)gen_below(g, 2));
  case RG_FORM_along:
  case RG_FORM_size:
    return PUT(g, op, a, axis);
  case RG_FORM_layer_norm:
  case RG_FORM_rms_norm:
    return put_norm(g, op, a);
  case RG_FORM_matmul:
    return put_matmul(g, a);
  case RG_FORM_branch:
    return PUT(g, op, a, axis, 1 + (int32_t)gen_below(g, 8));
  default:
    return gen_put_data(g, op, a);
  }
}
