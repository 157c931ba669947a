// SPDX-License-Identifier: Apache-2.0
// Generates random programs. Instructions are chosen by weight and filled in at random; those that
// the check refuses are dropped and another is tried. Patterns that models are made of are put in
// whole now and then, since chance alone seldom builds them.
#include "test/conform/graphs/random_data.h"

#include "runtime/base/dtype.h"

#include <math.h>
#include <string.h>

#define NONE UINT32_MAX
#define COUNT(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))

typedef struct gen_t {
  rg_program_t *p;
  uint64_t state;
  rg_style_t style; // the wildest ops allowed
  uint32_t total_weight;
} gen_t;

uint32_t rg_random(uint64_t *state) {
  uint64_t z = (*state += 0x9E3779B97F4A7C15U);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return (uint32_t)((z ^ (z >> 31)) >> 16);
}

static uint32_t below(gen_t *g, uint32_t n) { return n ? rg_below(&g->state, n) : 0; }
static bool chance(gen_t *g, uint32_t percent) { return below(g, 100) < percent; }

// ---- Nodes ----------------------------------------------------------------------------------------
static const rg_node_t *node_of(const gen_t *g, uint32_t i) { return &g->p->nodes[i]; }

// Appends a node when it is valid; its number, or NONE.
static uint32_t put(gen_t *g, const rg_node_t *node) {
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

static uint32_t put_op(gen_t *g, rg_op_t op, uint32_t n_args, const uint32_t *args,
                       uint32_t n_numbers, const int32_t *numbers) {
  rg_node_t node = {.op = op, .n_args = n_args, .n_numbers = n_numbers};
  for (uint32_t k = 0; k < n_args; k++) {
    if (args[k] == NONE)
      return NONE;
    node.args[k] = args[k];
  }
  for (uint32_t k = 0; k < n_numbers; k++)
    node.numbers[k] = numbers[k];
  return put(g, &node);
}

#define PUT(g, op, arg, ...)                                                                       \
  put_op((g), (op), 1, (const uint32_t[]){arg},                                                    \
         (uint32_t)(sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t)), (int32_t[]){__VA_ARGS__})
#define PUT_2(g, op, a, b) put_op((g), (op), 2, (const uint32_t[]){a, b}, 0, NULL)

static bool in_domain(char domain, dt_dtype_t dtype) {
  return domain == 'A' || (domain == 'F' && dt__dtype_is_float(dtype)) ||
         (domain == 'N' && dtype != DT_BOOL) || (domain == 'B' && dtype == DT_BOOL) ||
         (domain == 'I' && dtype != DT_BOOL && !dt__dtype_is_float(dtype));
}

// A node of the domain, a late one more often than not.
static uint32_t pick(gen_t *g, char domain) {
  uint32_t n = g->p->n_nodes;
  for (uint32_t tries = 0; tries < 24 && n; tries++) {
    uint32_t i = chance(g, 60) && n > 4 ? n - 1 - below(g, 4) : below(g, n);
    if (in_domain(domain, node_of(g, i)->dtype))
      return i;
  }
  return NONE;
}

static dt_dtype_t some_dtype(gen_t *g, char domain) {
  static const dt_dtype_t any[] = {DT_F32,  DT_F32, DT_F32, DT_F32, DT_F64, DT_F16,
                                   DT_BF16, DT_I32, DT_I64, DT_I8,  DT_I16, DT_U8,
                                   DT_U16,  DT_U32, DT_U64, DT_I32, DT_I64, DT_BOOL};
  for (;;) {
    dt_dtype_t dtype = any[below(g, COUNT(any))];
    if (in_domain(domain, dtype))
      return dtype;
  }
}

// What a model computes in.
static dt_dtype_t some_float(gen_t *g) {
  static const dt_dtype_t floats[] = {DT_F32, DT_F32, DT_F32, DT_F16, DT_BF16};
  return floats[below(g, COUNT(floats))];
}

// ---- Leaves ---------------------------------------------------------------------------------------
static int32_t some_literal(gen_t *g) {
  static const int32_t literals[] = {1, 1, 2, 2, 3, 4, 4, 5, 7, 8, 8, 12, 16, 17, 24, 33};
  return literals[below(g, COUNT(literals))];
}

static int32_t some_dim(gen_t *g) {
  return chance(g, 60) ? -1 - (int32_t)below(g, g->p->n_symbols) : some_literal(g);
}

static uint32_t put_leaf(gen_t *g, dt_dtype_t dtype, uint32_t rank, const int32_t *dims,
                         int32_t fill, int32_t bound) {
  rg_node_t node = {.op = RG_constant, .dtype = dtype, .n_numbers = rank + 2};
  for (uint32_t d = 0; d < rank; d++) {
    node.numbers[d] = dims[d];
    if (dims[d] < 0)
      node.op = RG_input;
  }
  if (chance(g, rank ? 40 : 90))
    node.op = RG_input;
  node.numbers[rank] = fill;
  node.numbers[rank + 1] = bound;
  return put(g, &node);
}

static int32_t some_fill(gen_t *g) {
  if (g->style == RG_STYLE_exact)
    return RG_FILL_WHOLE;
  uint32_t roll = below(g, 10);
  return roll < 2                                ? RG_FILL_WHOLE
         : roll < 9 || g->style == RG_STYLE_tame ? RG_FILL_SMOOTH
                                                 : RG_FILL_ANY;
}

static uint32_t put_input(gen_t *g) {
  static const uint8_t ranks[] = {0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 5};
  int32_t dims[RG_RANK];
  uint32_t rank = ranks[below(g, COUNT(ranks))];
  for (uint32_t d = 0; d < rank; d++)
    dims[d] = some_dim(g);
  return put_leaf(g, some_dtype(g, 'A'), rank, dims, some_fill(g), 0);
}

// A dim as a declaration says it.
static bool express(const gen_t *g, const rg_dim_t *dim, int32_t *out) {
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
static uint32_t put_leaf_like(gen_t *g, dt_dtype_t dtype, uint32_t rank, const rg_dim_t *dims) {
  int32_t numbers[RG_RANK];
  for (uint32_t d = 0; d < rank; d++)
    if (!express(g, &dims[d], &numbers[d]))
      return NONE;
  return put_leaf(g, dtype, rank, numbers, some_fill(g), 0);
}

// What rules and code look for: zeros of both signs, ones, extremes, and what is no number.
static double hostile(gen_t *g, dt_dtype_t dtype) {
  static const double reals[] = {0,        -0.0,      1,   -1,       2,     -2,   0.5,
                                 INFINITY, -INFINITY, NAN, 0x1p-140, 65504, 3e38, -3e38};
  static const double wholes[] = {0, 1, -1, 2, 0, 1, -1, 2, 3, 8, 31, 64, 127};
  int bits = 8 * (int)dt_dtype_size(dtype);
  if (dtype == DT_BOOL)
    return below(g, 2);
  if (dt__dtype_is_float(dtype))
    return reals[below(g, g->style == RG_STYLE_wild && chance(g, 50) ? COUNT(reals) : 6)];
  bool is_signed = dt__dtype_is_signed(dtype);
  double high = ldexp(1, is_signed ? bits - 1 : bits);
  // The largest that a double tells; u64's and i64's own are complements of others.
  double most = bits == 64 ? high / 2 : high - 1;
  double value = wholes[below(g, COUNT(wholes))];
  uint32_t roll = below(g, 10);
  return roll == 0 ? most : roll == 1 && is_signed ? -high : is_signed || value >= 0 ? value : most;
}

static uint32_t put_scalar(gen_t *g, dt_dtype_t dtype) {
  static const double reals[] = {0.5, 0.125, -3, 1.5, 0.1, 1e-3, 7};
  rg_node_t node = {.op = RG_scalar, .dtype = dtype};
  node.value = hostile(g, dtype);
  if (dt__dtype_is_float(dtype) && g->style != RG_STYLE_exact && chance(g, 40))
    node.value = reals[below(g, COUNT(reals))];
  return put(g, &node);
}

// ---- Operands -------------------------------------------------------------------------------------
// A leaf that broadcasts with `a`: its last dims, some of them 1.
static uint32_t put_broadcast_leaf(gen_t *g, uint32_t a, dt_dtype_t dtype) {
  const rg_node_t *from = node_of(g, a);
  uint32_t drop = chance(g, 40) ? below(g, from->rank + 1) : 0, rank = from->rank - drop;
  int32_t numbers[RG_RANK];
  for (uint32_t d = 0; d < rank; d++) {
    if (chance(g, 20))
      numbers[d] = 1;
    else if (!express(g, &from->dims[drop + d], &numbers[d]))
      return NONE;
  }
  return put_leaf(g, dtype, rank, numbers, some_fill(g), 0);
}

// Something of `dtype` to go with `a` in an element-wise op; whether it fits is checked later.
static uint32_t partner(gen_t *g, uint32_t a, dt_dtype_t dtype) {
  uint32_t roll = below(g, 10);
  if (roll < 2)
    return put_scalar(g, dtype);
  if (roll < 4)
    return put_broadcast_leaf(g, a, dtype);
  char domain = dtype == DT_BOOL ? 'B' : dt__dtype_is_float(dtype) ? 'F' : 'N';
  uint32_t b = pick(g, domain);
  if (b != NONE && node_of(g, b)->dtype != dtype) {
    rg_node_t cast = {.op = RG_cast, .dtype = dtype, .n_args = 1, .args = {b}};
    return put(g, &cast);
  }
  return b;
}

// ---- Forms ----------------------------------------------------------------------------------------
static uint32_t put_elementwise(gen_t *g, rg_op_t op, uint32_t a) {
  dt_dtype_t dtype = node_of(g, a)->dtype;
  if (rg_ops[op].form != RG_FORM_where) {
    uint32_t b = partner(g, a, dtype);
    return chance(g, 50) ? PUT_2(g, op, a, b) : PUT_2(g, op, b, a);
  }
  uint32_t args[3] = {partner(g, a, DT_BOOL), a, partner(g, a, dtype)};
  return put_op(g, op, 3, args, 0, NULL);
}

static uint32_t put_permute(gen_t *g, uint32_t a) {
  rg_node_t node = {.op = RG_permute, .n_args = 1, .args = {a}};
  node.n_numbers = node_of(g, a)->rank;
  for (uint32_t d = 0; d < node.n_numbers; d++) {
    uint32_t at = below(g, d + 1);
    node.numbers[d] = node.numbers[at];
    node.numbers[at] = (int32_t)d;
  }
  return put(g, &node);
}

static uint32_t put_regroup(gen_t *g, uint32_t a) {
  rg_node_t node = {.op = RG_regroup, .n_args = 1, .args = {a}};
  uint32_t rank = node_of(g, a)->rank, order[RG_RANK] = {0};
  bool keep = chance(g, 60);
  for (uint32_t d = 0; d < rank; d++) {
    uint32_t at = keep ? d : below(g, d + 1);
    order[d] = order[at];
    order[at] = d;
  }
  for (uint32_t d = 0; d < rank; d++) {
    if (d && chance(g, 50))
      node.numbers[node.n_numbers++] = -1;
    node.numbers[node.n_numbers++] = (int32_t)order[d];
  }
  return put(g, &node);
}

static uint32_t put_split(gen_t *g, uint32_t a) {
  for (uint32_t tries = 0; tries < 8; tries++) {
    int32_t axis = (int32_t)below(g, node_of(g, a)->rank), factor = 1 + (int32_t)below(g, 8);
    if (factor == 1 && chance(g, 80))
      continue;
    uint32_t out = PUT(g, RG_split, a, axis, factor, (int32_t)below(g, 2));
    if (out != NONE)
      return out;
  }
  return NONE;
}

static uint32_t put_reshape_like(gen_t *g, uint32_t a) {
  for (uint32_t tries = 0; tries < 12; tries++) {
    uint32_t out = PUT_2(g, RG_reshape_like, a, pick(g, 'A'));
    if (out != NONE)
      return out;
  }
  return NONE;
}

static uint32_t put_expand(gen_t *g, uint32_t a) {
  const rg_node_t *x = node_of(g, a);
  int32_t axis = -1;
  for (uint32_t d = 0; d < x->rank; d++)
    if (rg_dim_is(g->p, &x->dims[d], 1) && chance(g, 60))
      axis = (int32_t)d;
  if (axis < 0 && chance(g, 60))
    return NONE;
  uint32_t like = pick(g, 'A');
  if (chance(g, 40) || node_of(g, like)->rank == 0)
    return PUT(g, RG_expand, a, axis, some_literal(g));
  int32_t numbers[2] = {axis, (int32_t)below(g, node_of(g, like)->rank)};
  return put_op(g, RG_expand, 2, (const uint32_t[]){a, like}, 2, numbers);
}

static uint32_t put_slice(gen_t *g, uint32_t a) {
  const rg_node_t *x = node_of(g, a);
  if (x->rank == 0)
    return NONE;
  uint32_t axis = below(g, x->rank), mode = below(g, RG_SLICE_COUNT);
  if (mode == RG_SLICE_NONE && chance(g, 70))
    mode = RG_SLICE_REVERSE;
  const rg_dim_t *dim = &x->dims[axis];
  if (mode != RG_SLICE_LITERAL || !rg_dim_is(g->p, dim, dim->at[0]) || dim->at[0] == 0)
    return PUT(g, RG_slice, a, (int32_t)axis,
               (int32_t)(mode == RG_SLICE_LITERAL ? RG_SLICE_REVERSE : mode),
               1 + (int32_t)below(g, 4));
  int32_t n = (int32_t)dim->at[0], start = (int32_t)below(g, (uint32_t)n);
  int32_t step = 1 + (int32_t)below(g, 3);
  if (chance(g, 50))
    step = -step;
  int32_t most = (step > 0 ? n - 1 - start : start) / (step > 0 ? step : -step) + 1;
  return PUT(g, RG_slice, a, (int32_t)axis, RG_SLICE_LITERAL, start,
             (int32_t)below(g, (uint32_t)most + 1), step);
}

static uint32_t put_concat(gen_t *g, uint32_t a) {
  const rg_node_t *x = node_of(g, a);
  if (x->rank == 0)
    return NONE;
  int32_t axis = (int32_t)below(g, x->rank);
  uint32_t n = 2 + below(g, 2), args[RG_ARGS] = {a, a, a};
  for (uint32_t k = 1; k < n; k++) {
    uint32_t other = pick(g, 'A');
    rg_dim_t dims[RG_RANK];
    memcpy(dims, node_of(g, a)->dims, sizeof(dims));
    uint32_t rank = node_of(g, a)->rank;
    dt_dtype_t dtype = node_of(g, a)->dtype;
    if (chance(g, 40) && rank) {
      int64_t size = some_literal(g);
      for (uint32_t at = 0; at < RG_POINTS; at++)
        dims[axis].at[at] = size;
      other = put_leaf_like(g, dtype, rank, dims);
    }
    uint32_t pair[2] = {a, other};
    // Only whether they fit is of interest.
    uint32_t joined = other == NONE ? NONE : put_op(g, RG_concat, 2, pair, 1, &axis);
    if (joined != NONE) {
      g->p->n_nodes--;
      args[k] = other;
    }
  }
  return put_op(g, RG_concat, n, args, 1, &axis);
}

static uint32_t put_pad(gen_t *g, uint32_t a) {
  rg_node_t node = {.op = RG_pad, .n_args = 1, .args = {a}};
  node.n_numbers = 2 * node_of(g, a)->rank;
  for (uint32_t k = 0; k < node.n_numbers; k++)
    node.numbers[k] = chance(g, 50) ? 0 : (int32_t)below(g, 4);
  node.value = chance(g, 50) ? 0 : hostile(g, node_of(g, a)->dtype);
  return put(g, &node);
}

static uint32_t put_gather(gen_t *g, uint32_t a) {
  const rg_node_t *x = node_of(g, a);
  if (x->rank == 0)
    return NONE;
  int32_t axis = (int32_t)below(g, x->rank);
  dt_dtype_t dtype = chance(g, 50) ? DT_I32 : DT_I64;
  int32_t numbers[2] = {axis, 0};
  const rg_dim_t *dim = &x->dims[axis];
  if (rg_dim_is(g->p, dim, dim->at[0]) && dim->at[0] > 0 && chance(g, 50)) {
    int32_t dims[2] = {some_dim(g), some_dim(g)};
    numbers[1] = 1;
    uint32_t ids = put_leaf(g, dtype, 1 + below(g, 2), dims, RG_FILL_INDEX, (int32_t)dim->at[0]);
    return put_op(g, RG_gather, 2, (const uint32_t[]){a, ids}, 2, numbers);
  }
  if (chance(g, 40)) {
    uint32_t rank = node_of(g, a)->rank;
    // A table with at least one row whatever the sizes are.
    rg_node_t grown = {.op = RG_pad, .n_args = 1, .args = {a}, .n_numbers = 2 * rank};
    grown.numbers[2 * axis] = 1;
    uint32_t table = put(g, &grown);
    if (table != NONE)
      a = table;
  }
  uint32_t from = pick(g, 'N');
  if (from == NONE)
    return NONE;
  rg_node_t cast = {.op = RG_cast, .dtype = dtype, .n_args = 1, .args = {from}};
  return put_op(g, RG_gather, 2, (const uint32_t[]){a, put(g, &cast)}, 2, numbers);
}

static uint32_t put_reduce(gen_t *g, rg_op_t op, uint32_t a) {
  rg_node_t node = {.op = op, .n_args = 1, .args = {a}, .n_numbers = 1};
  uint32_t rank = node_of(g, a)->rank;
  node.numbers[0] = chance(g, 50);
  bool all = chance(g, 15);
  for (uint32_t d = rank; d-- > 0 && !all;)
    if (chance(g, d + 1 == rank ? 60 : 35))
      node.numbers[node.n_numbers++] = (int32_t)d;
  return put(g, &node);
}

static uint32_t put_norm(gen_t *g, rg_op_t op, uint32_t a) {
  const rg_node_t *x = node_of(g, a);
  if (x->rank == 0)
    return NONE;
  uint32_t n = 1 + (chance(g, 20) ? below(g, x->rank) : 0), from = x->rank - n;
  dt_dtype_t dtype = x->dtype;
  rg_dim_t dims[RG_RANK];
  memcpy(dims, x->dims, sizeof(dims));
  uint32_t args[3] = {a, put_leaf_like(g, dtype, n, dims + from), NONE};
  if (op == RG_layer_norm)
    args[2] = put_leaf_like(g, dtype, n, dims + from);
  return put_op(g, op, op == RG_layer_norm ? 3 : 2, args, 0, NULL);
}

static uint32_t put_matmul(gen_t *g, uint32_t a) {
  for (uint32_t tries = 0; tries < 8; tries++) {
    uint32_t b = pick(g, 'N');
    uint32_t out = chance(g, 50) ? PUT_2(g, RG_matmul, a, b) : PUT_2(g, RG_matmul, b, a);
    if (out != NONE)
      return out;
  }
  const rg_node_t *x = node_of(g, a);
  if (x->rank == 0)
    return NONE;
  uint32_t rank = x->rank;
  dt_dtype_t dtype = x->dtype;
  int32_t inner = 0, dims[RG_RANK];
  if (chance(g, 30) && rank >= 2) { // against itself, transposed
    int32_t last = (int32_t)rank - 1;
    return PUT_2(g, RG_matmul, a, PUT(g, RG_transpose, a, last - 1, last));
  }
  if (!express(g, &x->dims[rank - 1], &inner))
    return NONE;
  uint32_t lead = rank > 2 && chance(g, 40) ? rank - 2 : 0;
  for (uint32_t d = 0; d < lead; d++)
    if (chance(g, 25))
      dims[d] = 1;
    else if (!express(g, &node_of(g, a)->dims[d], &dims[d]))
      return NONE;
  dims[lead] = inner;
  dims[lead + 1] = some_dim(g);
  uint32_t b =
      put_leaf(g, dtype, lead + (lead == 0 && chance(g, 15) ? 1 : 2), dims, some_fill(g), 0);
  return PUT_2(g, RG_matmul, a, b);
}

static uint32_t put_cast(gen_t *g, uint32_t a) {
  rg_node_t node = {.op = RG_cast, .dtype = some_dtype(g, 'A'), .n_args = 1, .args = {a}};
  return put(g, &node);
}

static uint32_t put_iota(gen_t *g, uint32_t a) {
  rg_node_t node = {.op = RG_iota, .dtype = some_dtype(g, 'N'), .n_args = 1, .args = {a}};
  node.n_numbers = 1;
  node.numbers[0] = (int32_t)below(g, node_of(g, a)->rank);
  return put(g, &node);
}

static uint32_t put_squeeze(gen_t *g, uint32_t a) {
  const rg_node_t *x = node_of(g, a);
  for (uint32_t d = 0; d < x->rank; d++)
    if (rg_dim_is(g->p, &x->dims[d], 1))
      return PUT(g, RG_squeeze, a, (int32_t)d);
  return NONE;
}

// ---- What data decide ---------------------------------------------------------------------------
// A rank-0 integer, or bool, of some node's elements.
static uint32_t put_number(gen_t *g, bool truth) {
  uint32_t a = pick(g, truth ? 'N' : 'I');
  if (a == NONE)
    return NONE;
  if (truth) {
    uint32_t zero = put_scalar(g, node_of(g, a)->dtype);
    a = PUT_2(g, RG_gt, a, zero);
  }
  if (a != NONE && node_of(g, a)->rank)
    a = PUT(g, truth ? RG_any : RG_amax, a, 0);
  return a;
}

// A node of `dtype` and of the dims of `like`, or made from one.
static uint32_t put_like(gen_t *g, uint32_t like, dt_dtype_t dtype) {
  const rg_node_t *x = node_of(g, like);
  for (uint32_t tries = 0; tries < 8; tries++) {
    uint32_t b = pick(g, 'A');
    const rg_node_t *y = node_of(g, b);
    bool same = y->rank == x->rank;
    for (uint32_t d = 0; same && d < x->rank; d++)
      same = rg_dim_same(g->p, &x->dims[d], &y->dims[d]);
    rg_node_t cast = {.op = RG_cast, .dtype = dtype, .n_args = 1, .args = {b}};
    if (same)
      return y->dtype == dtype ? b : put(g, &cast);
  }
  return put_leaf_like(g, dtype, x->rank, x->dims);
}

static uint32_t put_scatter_rows(gen_t *g, uint32_t a) {
  rg_dim_t dims[RG_RANK + 1];
  const rg_node_t *x = node_of(g, a);
  int32_t size = some_dim(g), mode = (int32_t)below(g, x->dtype == DT_BOOL ? 1 : 5);
  uint32_t rank = x->rank;
  dt_dtype_t dtype = x->dtype;
  if (rank == 0)
    return NONE;
  memcpy(dims, x->dims, rank * sizeof(*dims));
  uint32_t at = put_leaf(g, some_dtype(g, 'N'), 1, &size, RG_FILL_ANY, 0);
  if (at == NONE)
    return NONE;
  dims[0] = node_of(g, at)->dims[0];
  uint32_t rows = put_leaf_like(g, dtype, rank, dims);
  return put_op(g, RG_scatter_nd, 3, (const uint32_t[]){a, at, rows}, 1, &mode);
}

static uint32_t put_conv(gen_t *g, rg_op_t op) {
  int32_t channels = 1 + (int32_t)below(g, 4), made = 1 + (int32_t)below(g, 4);
  int32_t x_dims[3] = {some_dim(g), channels, some_dim(g)};
  int32_t w_dims[3] = {made, channels, 1 + (int32_t)below(g, 4)};
  int32_t numbers[3] = {1 + (int32_t)below(g, 3), 1 + (int32_t)below(g, 2), (int32_t)below(g, 3)};
  dt_dtype_t dtype = chance(g, 60) ? some_float(g) : some_dtype(g, 'N');
  if (op == RG_conv_transpose) {
    w_dims[0] = channels;
    w_dims[1] = made;
  }
  uint32_t x = put_leaf(g, dtype, 3, x_dims, some_fill(g), 0);
  uint32_t w = put_leaf(g, dtype, 3, w_dims, some_fill(g), 0);
  return put_op(g, op, 2, (const uint32_t[]){x, w}, 3, numbers);
}

static uint32_t put_data(gen_t *g, rg_op_t op, uint32_t a) {
  const rg_node_t *x = node_of(g, a);
  int32_t axis = (int32_t)below(g, x->rank), mode = (int32_t)below(g, x->dtype == DT_BOOL ? 1 : 5);
  dt_dtype_t dtype = x->dtype;
  uint32_t args[3] = {a, NONE, NONE};
  switch (rg_ops[op].form) {
  case RG_FORM_scan:
    return PUT(g, op, a, axis, (int32_t)below(g, 4));
  case RG_FORM_search:
    return PUT(g, op, a, (int32_t)below(g, 2));
  case RG_FORM_pick:
    args[1] = put_like(g, a, some_dtype(g, 'N'));
    return put_op(g, op, 2, args, 1, &axis);
  case RG_FORM_pick_rows:
    return PUT_2(g, op, a, pick(g, 'N'));
  case RG_FORM_scatter:
    args[1] = put_like(g, a, some_dtype(g, 'N'));
    args[2] = put_like(g, a, dtype);
    return put_op(g, op, 3, args, 2, (const int32_t[]){axis, mode});
  case RG_FORM_scatter_rows:
    return put_scatter_rows(g, a);
  case RG_FORM_places:
    return put_op(g, op, 1, args, 0, NULL);
  case RG_FORM_select:
    return PUT_2(g, op, a, put_like(g, a, DT_BOOL));
  case RG_FORM_item:
    args[0] = put_number(g, false);
    return put_op(g, op, 1, args, 0, NULL);
  case RG_FORM_cond:
    args[1] = put_number(g, true);
    return put_op(g, op, 2, args, 1, (const int32_t[]){0});
  case RG_FORM_switch:
  case RG_FORM_while:
    args[1] = put_number(g, false);
    return put_op(g, op, 2, args, 1, (const int32_t[]){0});
  case RG_FORM_conv:
  case RG_FORM_conv_transpose:
    return put_conv(g, op);
  default:
    return NONE;
  }
}

static uint32_t put_random(gen_t *g, rg_op_t op) {
  const rg_op_info_t *info = &rg_ops[op];
  uint32_t a = pick(g, info->form == RG_FORM_iota ? 'A' : info->domain);
  if (a == NONE)
    return NONE;
  int32_t rank = (int32_t)node_of(g, a)->rank, axis = (int32_t)below(g, (uint32_t)rank);
  switch (info->form) {
  case RG_FORM_input:
  case RG_FORM_constant:
    return put_input(g);
  case RG_FORM_scalar:
    return put_scalar(g, some_dtype(g, 'A'));
  case RG_FORM_unary:
  case RG_FORM_test:
    return put_op(g, op, 1, &a, 0, NULL);
  case RG_FORM_iota:
    return put_iota(g, a);
  case RG_FORM_cast:
    return put_cast(g, a);
  case RG_FORM_binary:
  case RG_FORM_compare:
  case RG_FORM_where:
    return put_elementwise(g, op, a);
  case RG_FORM_permute:
    return put_permute(g, a);
  case RG_FORM_transpose:
    return PUT(g, op, a, axis, (int32_t)below(g, (uint32_t)rank));
  case RG_FORM_unsqueeze:
    return PUT(g, op, a, (int32_t)below(g, (uint32_t)rank + 1));
  case RG_FORM_squeeze:
    return put_squeeze(g, a);
  case RG_FORM_regroup:
    return put_regroup(g, a);
  case RG_FORM_split:
    return put_split(g, a);
  case RG_FORM_flatten:
    return PUT(g, op, a, axis, axis + (int32_t)below(g, (uint32_t)(rank - axis)));
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
    return PUT(g, op, a, axis, (int32_t)below(g, 2));
  case RG_FORM_along:
  case RG_FORM_size:
    return PUT(g, op, a, axis);
  case RG_FORM_layer_norm:
  case RG_FORM_rms_norm:
    return put_norm(g, op, a);
  case RG_FORM_matmul:
    return put_matmul(g, a);
  case RG_FORM_branch:
    return PUT(g, op, a, axis, 1 + (int32_t)below(g, 8));
  default:
    return put_data(g, op, a);
  }
}

static void put_by_weight(gen_t *g) {
  for (uint32_t tries = 0; tries < 40; tries++) {
    uint32_t roll = below(g, g->total_weight), op = 0;
    for (;; op++) {
      uint32_t weight = rg_ops[op].style <= g->style ? rg_ops[op].weight : 0;
      if (roll < weight)
        break;
      roll -= weight;
    }
    uint32_t before = g->p->n_nodes;
    // Questions split programs into regions; few should.
    if (rg_ops[op].form == RG_FORM_branch && chance(g, 70))
      continue;
    if (put_random(g, (rg_op_t)op) != NONE)
      return;
    g->p->n_nodes = before;
  }
}

// ---- Patterns -------------------------------------------------------------------------------------
// x W + b, and an activation.
static void put_linear(gen_t *g) {
  int32_t in = some_literal(g), out = some_literal(g), dims[3] = {some_dim(g), some_dim(g), in};
  uint32_t lead = below(g, 2);
  dt_dtype_t dtype = some_float(g);
  uint32_t x = put_leaf(g, dtype, 3 - lead, dims + lead, some_fill(g), 0);
  uint32_t w = put_leaf(g, dtype, 2, (int32_t[]){in, out}, some_fill(g), 0);
  uint32_t b = put_leaf(g, dtype, 1, &out, some_fill(g), 0);
  uint32_t y = PUT_2(g, RG_add, PUT_2(g, RG_matmul, x, w), b);
  (void)put_op(g, g->style == RG_STYLE_exact ? RG_relu : RG_gelu, 1, &y, 0, NULL);
}

// softmax(q k^T) v over heads.
static void put_attention(gen_t *g) {
  int32_t heads = 1 + (int32_t)below(g, 3), width = 1 + (int32_t)below(g, 9);
  int32_t dims[3] = {some_dim(g), some_dim(g), heads * width};
  uint32_t part[3];
  dt_dtype_t dtype = some_float(g);
  for (uint32_t k = 0; k < 3; k++) {
    uint32_t x = k && chance(g, 40) ? part[0] : put_leaf(g, dtype, 3, dims, some_fill(g), 0);
    part[k] = x;
  }
  for (uint32_t k = 0; k < 3; k++) {
    uint32_t x = PUT(g, RG_split, part[k], 2, heads, 1);
    part[k] = k == 1 ? PUT(g, RG_permute, x, 0, 2, 3, 1) : PUT(g, RG_permute, x, 0, 2, 1, 3);
  }
  uint32_t scores = PUT_2(g, RG_matmul, part[0], part[1]);
  if (g->style != RG_STYLE_exact)
    scores = PUT(g, RG_softmax, scores, 3);
  uint32_t mixed = PUT_2(g, RG_matmul, scores, part[2]);
  (void)PUT(g, RG_regroup, PUT(g, RG_permute, mixed, 0, 2, 1, 3), 0, -1, 1, -1, 2, 3);
}

// x - max(x), divided by a row's sum of squares.
static void put_rows(gen_t *g) {
  uint32_t x = pick(g, 'F');
  if (x == NONE || node_of(g, x)->rank == 0)
    return;
  int32_t axis = (int32_t)below(g, node_of(g, x)->rank);
  uint32_t centred = PUT_2(g, RG_sub, x, PUT(g, RG_amax, x, 1, axis));
  uint32_t squares = PUT(g, RG_sum, PUT_2(g, RG_mul, centred, centred), 1, axis);
  (void)PUT_2(g, g->style == RG_STYLE_wild ? RG_div : RG_maximum, centred, squares);
}

// What fold rules look for: ops with literals, ops that undo each other, casts there and back.
static void put_folded(gen_t *g) {
  static const rg_op_t numbers[] = {RG_add, RG_sub, RG_mul,     RG_div,     RG_pow,
                                    RG_mod, RG_neg, RG_maximum, RG_minimum, RG_abs};
  static const rg_op_t truths[] = {RG_logical_and, RG_logical_or, RG_logical_xor, RG_logical_not};
  uint32_t x = pick(g, 'A');
  for (uint32_t k = 0; k < 4 && x != NONE; k++) {
    dt_dtype_t dtype = node_of(g, x)->dtype;
    rg_op_t op =
        dtype == DT_BOOL ? truths[below(g, COUNT(truths))] : numbers[below(g, COUNT(numbers))];
    if (dt__dtype_is_float(dtype) && rg_ops[op].style > g->style)
      op = RG_neg;
    uint32_t made = NONE;
    if (chance(g, 15))
      made = put_cast(g, x);
    else if (rg_ops[op].form == RG_FORM_unary)
      made = put_op(g, op, 1, &x, 0, NULL);
    else if (chance(g, 75))
      made = PUT_2(g, op, x, chance(g, 80) ? put_scalar(g, dtype) : x);
    else
      made = PUT_2(g, op, put_scalar(g, dtype), x);
    x = made;
  }
}

static void put_pattern(gen_t *g) {
  switch (below(g, 9)) {
  case 0:
    put_linear(g);
    break;
  case 1:
    put_attention(g);
    break;
  case 2:
    put_rows(g);
    break;
  default:
    put_folded(g);
    break;
  }
}

// ---- Programs -------------------------------------------------------------------------------------
static const int64_t alphabet[] = {0,  1,  2,  3,  4,  5,  7,   8,   15,
                                   16, 17, 31, 33, 64, 65, 129, 257, 1025};

static void choose_sizes(gen_t *g, bool paired) {
  rg_program_t *p = g->p;
  static const int64_t primes[RG_PRIMES][RG_SYMBOLS] = {
      {1009, 1013, 1019}, {499, 563, 521}, {1163, 1151, 1153}};
  memcpy(p->primes, primes, sizeof(primes));
  for (uint32_t k = 0; k < p->n_calls; k++) {
    rg_call_t *call = &p->calls[k];
    do {
      for (uint32_t s = 0; s < p->n_symbols; s++)
        call->sizes[s] = alphabet[below(g, COUNT(alphabet))];
    } while ((call->sizes[0] + 1) * (call->sizes[1] + 1) * (call->sizes[2] + 1) > 3000);
    call->layout = chance(g, 25) ? 1 + (int32_t)below(g, p->odd ? RG_LAYOUTS - 1 : 2) : 0;
    // Half of the programs whose sizes are bounded have a symbol of at most 1, or of 1.
    if (p->seed % 12 == 1)
      call->sizes[p->seed / 12 % RG_SYMBOLS] = (int64_t)(p->seed / 36 + k) % 3 == 0;
    if (p->seed % 12 == 4)
      call->sizes[p->seed / 12 % RG_SYMBOLS] = 1;
  }
  if (!paired)
    return;
  // m and n broadcast with each other: equal, or one of them 1.
  p->primes[0][1] = p->primes[0][0];
  p->primes[1][1] = 1;
  p->primes[2][0] = 1;
  for (uint32_t k = 0; k < p->n_calls; k++) {
    uint32_t roll = below(g, 4);
    int64_t *sizes = p->calls[k].sizes;
    if (roll < 2)
      sizes[1] = sizes[0];
    else
      sizes[roll - 2] = 1;
  }
}

static void choose_outputs(gen_t *g, uint32_t first_op) {
  rg_program_t *p = g->p;
  bool used[RG_NODES] = {false};
  for (uint32_t i = 0; i < p->n_nodes; i++)
    for (uint32_t k = 0; k < p->nodes[i].n_args; k++)
      used[p->nodes[i].args[k]] = true;
  p->outputs[p->n_outputs++] = p->n_nodes - 1;
  for (uint32_t i = p->n_nodes - 1; i-- > first_op && p->n_outputs < RG_OUTPUTS;)
    if (!used[i] && chance(g, 75))
      p->outputs[p->n_outputs++] = i;
  while (p->n_outputs < RG_OUTPUTS && chance(g, 25))
    p->outputs[p->n_outputs++] = below(g, p->n_nodes);
}

// Inputs that take a value of their dtype and dims at the end.
static void choose_updates(gen_t *g) {
  rg_program_t *p = g->p;
  for (uint32_t i = 0; i < p->n_nodes && p->n_updates < RG_UPDATES; i++) {
    if (p->nodes[i].op != RG_input || chance(g, 50))
      continue;
    for (uint32_t k = p->n_nodes; k-- > 0;) {
      const rg_node_t *from = &p->nodes[k];
      bool fits = k != i && from->dtype == p->nodes[i].dtype && from->rank == p->nodes[i].rank;
      for (uint32_t d = 0; fits && d < from->rank; d++)
        fits = rg_dim_same(p, &from->dims[d], &p->nodes[i].dims[d]);
      if (!fits || chance(g, 30))
        continue;
      p->updates[p->n_updates].input = i;
      p->updates[p->n_updates++].value = k;
      break;
    }
  }
}

static void choose_options(gen_t *g) {
  rg_program_t *p = g->p;
  p->threads = 1 + below(g, 3);
  p->strict = chance(g, 15);
  p->dynamic = chance(g, 20) ? (dt_dynamic_t)(1 + below(g, 2)) : DT_DYNAMIC_SYMBOLIC;
  p->odd = chance(g, 20);
}

void rg_generate(uint64_t seed, uint32_t n_calls, rg_program_t *out) {
  for (uint64_t attempt = 0;; attempt++) {
    *out = (rg_program_t){.seed = seed, .n_calls = n_calls, .bounded = seed % 3 == 1};
    gen_t g = {.p = out, .state = seed * 0x2545F4914F6CDD1DU + attempt * 977};
    uint32_t style = below(&g, 20);
    g.style = style < 7 ? RG_STYLE_exact : style < 15 ? RG_STYLE_tame : RG_STYLE_wild;
    for (uint32_t op = 0; op < RG_OP_COUNT; op++)
      g.total_weight += rg_ops[op].style <= g.style ? rg_ops[op].weight : 0;
    out->n_symbols = 1 + below(&g, RG_SYMBOLS);
    out->prepare = chance(&g, 40);
    choose_options(&g);
    choose_sizes(&g, out->n_symbols > 1 && chance(&g, 8));
    uint32_t n_inputs = 1 + below(&g, 3);
    for (uint32_t k = 0; k < n_inputs; k++)
      (void)put_input(&g);
    uint32_t first_op = out->n_nodes, n_ops = 1 + below(&g, 30);
    while (out->n_nodes < first_op + n_ops && out->n_nodes + 20 < RG_NODES && out->n_nodes) {
      uint32_t before = out->n_nodes;
      if (chance(&g, 14))
        put_pattern(&g);
      else
        put_by_weight(&g);
      if (out->n_nodes == before)
        break;
    }
    if (out->n_nodes > first_op)
      choose_outputs(&g, first_op);
    if (out->n_nodes > first_op && chance(&g, 25))
      choose_updates(&g);
    // A question about sizes has no answer without them, and of static ones none is known.
    if (out->dynamic == DT_DYNAMIC_STATIC)
      out->prepare = false;
    for (uint32_t i = 0; i < out->n_nodes; i++)
      if (out->nodes[i].op == RG_branch || out->nodes[i].op == RG_conv ||
          out->nodes[i].op == RG_conv_transpose)
        out->prepare = false;
    if (rg_check(out))
      return;
  }
}
