// SPDX-License-Identifier: Apache-2.0
// Patterns that chance alone seldom builds: parts of models, and what fold rules look for.
#include "test/conform/graphs/random_gen.h"

#include "runtime/base/dtype.h"

// x W + b, and an activation.
static void put_linear(gen_t *g) {
  int32_t in = gen_literal(g), out = gen_literal(g), dims[3] = {gen_dim(g), gen_dim(g), in};
  uint32_t lead = gen_below(g, 2);
  dt_dtype_t dtype = gen_float(g);
  uint32_t x = gen_put_leaf(g, dtype, 3 - lead, dims + lead, gen_fill(g), 0);
  uint32_t w = gen_put_leaf(g, dtype, 2, (int32_t[]){in, out}, gen_fill(g), 0);
  uint32_t b = gen_put_leaf(g, dtype, 1, &out, gen_fill(g), 0);
  uint32_t y = PUT_2(g, RG_add, PUT_2(g, RG_matmul, x, w), b);
  (void)gen_put_op(g, g->style == RG_STYLE_exact ? RG_relu : RG_gelu, 1, &y, 0, NULL);
}

// softmax(q k^T) v over heads.
static void put_attention(gen_t *g) {
  int32_t heads = 1 + (int32_t)gen_below(g, 3), width = 1 + (int32_t)gen_below(g, 9);
  int32_t dims[3] = {gen_dim(g), gen_dim(g), heads * width};
  uint32_t part[3];
  dt_dtype_t dtype = gen_float(g);
  for (uint32_t k = 0; k < 3; k++) {
    uint32_t x = k && gen_chance(g, 40) ? part[0] : gen_put_leaf(g, dtype, 3, dims, gen_fill(g), 0);
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
  uint32_t x = gen_pick(g, 'F');
  if (x == NONE || gen_node(g, x)->rank == 0)
    return;
  int32_t axis = (int32_t)gen_below(g, gen_node(g, x)->rank);
  uint32_t centred = PUT_2(g, RG_sub, x, PUT(g, RG_amax, x, 1, axis));
  uint32_t squares = PUT(g, RG_sum, PUT_2(g, RG_mul, centred, centred), 1, axis);
  (void)PUT_2(g, g->style == RG_STYLE_wild ? RG_div : RG_maximum, centred, squares);
}

// What fold rules look for: ops with literals, ops that undo each other, casts there and back.
static void put_folded(gen_t *g) {
  static const rg_op_t numbers[] = {RG_add, RG_sub, RG_mul,     RG_div,     RG_pow,
                                    RG_mod, RG_neg, RG_maximum, RG_minimum, RG_abs};
  static const rg_op_t truths[] = {RG_logical_and, RG_logical_or, RG_logical_xor, RG_logical_not};
  uint32_t x = gen_pick(g, 'A');
  for (uint32_t k = 0; k < 4 && x != NONE; k++) {
    dt_dtype_t dtype = gen_node(g, x)->dtype;
    rg_op_t op = dtype == DT_BOOL ? truths[gen_below(g, COUNT(truths))]
                                  : numbers[gen_below(g, COUNT(numbers))];
    if (dt__dtype_is_float(dtype) && rg_ops[op].style > g->style)
      op = RG_neg;
    uint32_t made = NONE;
    if (gen_chance(g, 15))
      made = gen_put_cast(g, x);
    else if (rg_ops[op].form == RG_FORM_unary)
      made = gen_put_op(g, op, 1, &x, 0, NULL);
    else if (gen_chance(g, 75))
      made = PUT_2(g, op, x, gen_chance(g, 80) ? gen_put_scalar(g, dtype) : x);
    else
      made = PUT_2(g, op, gen_put_scalar(g, dtype), x);
    x = made;
  }
}

static uint32_t put_number(gen_t *g, dt_dtype_t dtype, double value) {
  rg_node_t node = {.op = RG_scalar, .dtype = dtype, .value = value};
  return gen_put(g, &node);
}

static uint32_t put_cast(gen_t *g, uint32_t x, dt_dtype_t dtype) {
  rg_node_t node = {.op = RG_cast, .dtype = dtype, .n_args = 1, .args = {x}};
  return x == NONE ? NONE : gen_put(g, &node);
}

// (x - zero) * scale of 8 bits. Scales are powers of two: no sum is rounded, in whatever order.
static uint32_t put_real(gen_t *g, uint32_t x, dt_dtype_t dtype) {
  static const double zeros[] = {0, 0, 128, 117, 255, -128, 3}, scales[] = {1, 0.5, 0.125, 2};
  double zero = zeros[gen_below(g, COUNT(zeros))];
  x = put_cast(g, x, dtype);
  if (zero != 0)
    x = PUT_2(g, RG_sub, x, put_number(g, dtype, zero));
  double scale = scales[dtype == DT_I32 ? 0 : gen_below(g, COUNT(scales))];
  return PUT_2(g, RG_mul, x, put_number(g, dtype, scale));
}

// A quantised layer: a product of what was dequantised, with something added, quantised again.
static void put_quantised(gen_t *g) {
  static const dt_dtype_t types[] = {DT_U8, DT_I8};
  int32_t in = gen_literal(g), out = gen_literal(g), dims[3] = {gen_dim(g), gen_dim(g), in};
  uint32_t lead = gen_below(g, 2);
  bool turned = gen_chance(g, 30);
  const int32_t shape[2] = {turned ? out : in, turned ? in : out};
  dt_dtype_t to = types[gen_below(g, 2)];
  uint32_t x = gen_put_leaf(g, types[gen_below(g, 2)], 3 - lead, dims + lead, gen_fill(g), 0);
  uint32_t w = gen_put_leaf(g, types[gen_below(g, 2)], 2, shape, gen_fill(g), 0);
  dt_dtype_t sums = gen_chance(g, 15) ? DT_I32 : DT_F32;
  x = put_real(g, x, sums);
  w = put_real(g, w, sums);
  w = turned ? PUT(g, RG_permute, w, 1, 0) : w;
  uint32_t y = PUT_2(g, RG_matmul, x, w);
  y = put_cast(g, y, DT_F32);
  double low = to == DT_U8 ? 0 : -128;
  uint32_t q = PUT_2(g, RG_mul, y, put_number(g, DT_F32, gen_chance(g, 50) ? 0.25 : 0.0078125));
  q = gen_put_op(g, RG_round, 1, &q, 0, NULL);
  q = PUT_2(g, RG_maximum, PUT_2(g, RG_add, q, put_number(g, DT_F32, 9)),
            put_number(g, DT_F32, low));
  q = put_cast(g, PUT_2(g, RG_minimum, q, put_number(g, DT_F32, low + 255)), to);
  if (gen_chance(g, 50)) // that others read, too
    (void)PUT_2(g, RG_add, put_real(g, q, DT_F32), put_real(g, q, DT_F32));
}

void gen_put_pattern(gen_t *g) {
  switch (gen_below(g, 11)) {
  case 0:
    put_linear(g);
    break;
  case 1:
    put_attention(g);
    break;
  case 2:
    put_rows(g);
    break;
  case 3:
  case 4:
    put_quantised(g);
    break;
  default:
    put_folded(g);
    break;
  }
}
