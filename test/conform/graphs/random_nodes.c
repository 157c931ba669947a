// SPDX-License-Identifier: Apache-2.0
// Nodes of random programs: how they are appended and picked, and the leaves, which are inputs,
// constants and numbers.
#include "test/conform/graphs/random_gen.h"

#include "runtime/base/dtype.h"

#include <math.h>

// ---- Nodes ----------------------------------------------------------------------------------------
// Appends a node when it is valid; its number, or NONE.
uint32_t gen_put(gen_t *g, const rg_node_t *node) {
  rg_program_t *p = g->p;
  if (p->n_nodes == RG_NODES)
    return NONE;
  bool asks = p->asks;
  p->nodes[p->n_nodes] = *node;
  if (rg_check_node(p, p->n_nodes))
    return p->n_nodes++;
  p->asks = asks;
  return NONE;
}

uint32_t gen_put_op(gen_t *g, rg_op_t op, uint32_t n_args, const uint32_t *args, uint32_t n_numbers,
                    const int32_t *numbers) {
  rg_node_t node = {.op = op, .n_args = n_args, .n_numbers = n_numbers};
  for (uint32_t k = 0; k < n_args; k++) {
    if (args[k] == NONE)
      return NONE;
    node.args[k] = args[k];
  }
  for (uint32_t k = 0; k < n_numbers; k++)
    node.numbers[k] = numbers[k];
  return gen_put(g, &node);
}

static bool in_domain(char domain, dt_dtype_t dtype) {
  return domain == 'A' || (domain == 'F' && dt__dtype_is_float(dtype)) ||
         (domain == 'N' && dtype != DT_BOOL) || (domain == 'B' && dtype == DT_BOOL) ||
         (domain == 'I' && dtype != DT_BOOL && !dt__dtype_is_float(dtype));
}

// A node of the domain, a late one more often than not.
uint32_t gen_pick(gen_t *g, char domain) {
  uint32_t n = g->p->n_nodes;
  for (uint32_t tries = 0; tries < 24 && n; tries++) {
    uint32_t i = gen_chance(g, 60) && n > 4 ? n - 1 - gen_below(g, 4) : gen_below(g, n);
    if (in_domain(domain, gen_node(g, i)->dtype))
      return i;
  }
  return NONE;
}

dt_dtype_t gen_dtype(gen_t *g, char domain) {
  static const dt_dtype_t any[] = {DT_F32,  DT_F32, DT_F32, DT_F32, DT_F64, DT_F16,
                                   DT_BF16, DT_I32, DT_I64, DT_I8,  DT_I16, DT_U8,
                                   DT_U16,  DT_U32, DT_U64, DT_I32, DT_I64, DT_BOOL};
  for (;;) {
    dt_dtype_t dtype = any[gen_below(g, COUNT(any))];
    if (in_domain(domain, dtype))
      return dtype;
  }
}

// What a model computes in.
dt_dtype_t gen_float(gen_t *g) {
  static const dt_dtype_t floats[] = {DT_F32, DT_F32, DT_F32, DT_F16, DT_BF16};
  return floats[gen_below(g, COUNT(floats))];
}

// ---- Leaves ---------------------------------------------------------------------------------------
int32_t gen_literal(gen_t *g) {
  static const int32_t literals[] = {1, 1, 2, 2, 3, 4, 4, 5, 7, 8, 8, 12, 16, 17, 24, 33};
  return literals[gen_below(g, COUNT(literals))];
}

int32_t gen_dim(gen_t *g) {
  return gen_chance(g, 60) ? -1 - (int32_t)gen_below(g, g->p->n_symbols) : gen_literal(g);
}

uint32_t gen_put_leaf(gen_t *g, dt_dtype_t dtype, uint32_t rank, const int32_t *dims, int32_t fill,
                      int32_t bound) {
  rg_node_t node = {.op = RG_constant, .dtype = dtype, .n_numbers = rank + 2};
  for (uint32_t d = 0; d < rank; d++) {
    node.numbers[d] = dims[d];
    if (dims[d] < 0)
      node.op = RG_input;
  }
  if (gen_chance(g, rank ? 40 : 90))
    node.op = RG_input;
  node.numbers[rank] = fill;
  node.numbers[rank + 1] = bound;
  return gen_put(g, &node);
}

int32_t gen_fill(gen_t *g) {
  if (g->style == RG_STYLE_exact)
    return RG_FILL_WHOLE;
  uint32_t roll = gen_below(g, 10);
  return roll < 2                                ? RG_FILL_WHOLE
         : roll < 9 || g->style == RG_STYLE_tame ? RG_FILL_SMOOTH
                                                 : RG_FILL_ANY;
}

uint32_t gen_put_input(gen_t *g) {
  static const uint8_t ranks[] = {0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 5};
  int32_t dims[RG_RANK];
  uint32_t rank = ranks[gen_below(g, COUNT(ranks))];
  for (uint32_t d = 0; d < rank; d++)
    dims[d] = gen_dim(g);
  return gen_put_leaf(g, gen_dtype(g, 'A'), rank, dims, gen_fill(g), 0);
}

// A dim as a declaration says it.
bool gen_express(const gen_t *g, const rg_dim_t *dim, int32_t *out) {
  if (dim->at[0] < 64 && rg_dim_is(g->p, dim, dim->at[0])) {
    *out = (int32_t)dim->at[0];
    return true;
  }
  for (uint32_t s = 0; s < g->p->n_symbols; s++) {
    bool same = true;
    for (uint32_t k = 0; same && k < rg_point_count(g->p); k++)
      same = dim->at[k] == rg_symbol_at(g->p, s, k);
    if (same) {
      *out = -1 - (int32_t)s;
      return true;
    }
  }
  return false;
}

// A leaf of the given dims, or NONE where no declaration says them.
uint32_t gen_put_leaf_like(gen_t *g, dt_dtype_t dtype, uint32_t rank, const rg_dim_t *dims) {
  int32_t numbers[RG_RANK];
  for (uint32_t d = 0; d < rank; d++)
    if (!gen_express(g, &dims[d], &numbers[d]))
      return NONE;
  return gen_put_leaf(g, dtype, rank, numbers, gen_fill(g), 0);
}

// What rules and code look for: zeros of both signs, ones, extremes, and what is no number.
double gen_hostile(gen_t *g, dt_dtype_t dtype) {
  static const double reals[] = {0,        -0.0,      1,   -1,       2,     -2,   0.5,
                                 INFINITY, -INFINITY, NAN, 0x1p-140, 65504, 3e38, -3e38};
  static const double wholes[] = {0, 1, -1, 2, 0, 1, -1, 2, 3, 8, 31, 64, 127};
  int bits = 8 * (int)dt_dtype_size(dtype);
  if (dtype == DT_BOOL)
    return gen_below(g, 2);
  if (dt__dtype_is_float(dtype))
    return reals[gen_below(g, g->style == RG_STYLE_wild && gen_chance(g, 50) ? COUNT(reals) : 6)];
  bool is_signed = dt__dtype_is_signed(dtype);
  double high = ldexp(1, is_signed ? bits - 1 : bits);
  // The largest that a double tells; u64's and i64's own are complements of others.
  double most = bits == 64 ? high / 2 : high - 1;
  double value = wholes[gen_below(g, COUNT(wholes))];
  uint32_t roll = gen_below(g, 10);
  return roll == 0 ? most : roll == 1 && is_signed ? -high : is_signed || value >= 0 ? value : most;
}

uint32_t gen_put_scalar(gen_t *g, dt_dtype_t dtype) {
  static const double reals[] = {0.5, 0.125, -3, 1.5, 0.1, 1e-3, 7};
  rg_node_t node = {.op = RG_scalar, .dtype = dtype};
  node.value = gen_hostile(g, dtype);
  if (dt__dtype_is_float(dtype) && g->style != RG_STYLE_exact && gen_chance(g, 40))
    node.value = reals[gen_below(g, COUNT(reals))];
  return gen_put(g, &node);
}

// ---- Operands -------------------------------------------------------------------------------------
// A leaf that broadcasts with `a`: its last dims, some of them 1.
static uint32_t put_broadcast_leaf(gen_t *g, uint32_t a, dt_dtype_t dtype) {
  const rg_node_t *from = gen_node(g, a);
  uint32_t drop = gen_chance(g, 40) ? gen_below(g, from->rank + 1) : 0, rank = from->rank - drop;
  int32_t numbers[RG_RANK];
  for (uint32_t d = 0; d < rank; d++) {
    if (gen_chance(g, 20))
      numbers[d] = 1;
    else if (!gen_express(g, &from->dims[drop + d], &numbers[d]))
      return NONE;
  }
  return gen_put_leaf(g, dtype, rank, numbers, gen_fill(g), 0);
}

// Something of `dtype` to go with `a` in an element-wise op; whether it fits is checked later.
uint32_t gen_partner(gen_t *g, uint32_t a, dt_dtype_t dtype) {
  uint32_t roll = gen_below(g, 10);
  if (roll < 2)
    return gen_put_scalar(g, dtype);
  if (roll < 4)
    return put_broadcast_leaf(g, a, dtype);
  char domain = dtype == DT_BOOL ? 'B' : dt__dtype_is_float(dtype) ? 'F' : 'N';
  uint32_t b = gen_pick(g, domain);
  if (b != NONE && gen_node(g, b)->dtype != dtype) {
    rg_node_t cast = {.op = RG_cast, .dtype = dtype, .n_args = 1, .args = {b}};
    return gen_put(g, &cast);
  }
  return b;
}
