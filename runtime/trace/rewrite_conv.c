// SPDX-License-Identifier: Apache-2.0
// Convolutions whose results are scaled and shifted by channel, as batch norms of trained models
// do: the scale goes into the weights, and what is added becomes one bias.
//
//        conv(x, w) ─► + b ─► - mean ─► * scale ─► / deviation ─► + shift      steps, in any order
//        conv(x, w s) + t         s, t: the steps done on 1 and 0
//
// w s and t are made of constants, so they are computed once, when a variant is made. Of
// dequantised integers the scale goes to that of the integers' sum (rewrite_integer_conv.c).
#include "runtime/trace/rewrites.h"

#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#define MOST_STEPS 16

// What is done to a value, with an operand that has one number for each channel.
typedef struct step_t {
  dt_op_t op;
  bool swapped;   // the value is the second operand
  uint32_t value; // node
  uint32_t other; // node: before it is repeated over batch and places
} step_t;

static bool is_one(const dt_match_t *m, dt_sym_t size) {
  int64_t value = 0;
  return dt__sym_is_const(m->r->work.env, size, &value) && value == 1;
}

// What operand `id` repeats over all dims but that of channels; 0: it has more numbers, or they are
// no constants.
static uint32_t by_channel(const dt_match_t *m, uint32_t id) {
  const dt_node_t *node = dt__match_node(m, id);
  while (node->op == DT_OP_expand) {
    id = node->inputs[0].id;
    node = dt__match_node(m, id);
  }
  for (uint32_t d = 0; d < node->rank; d++)
    if (d != 1 && !is_one(m, node->sizes[d]))
      return 0;
  return dt__rewrite_is_constant(m, id) ? id : 0;
}

static bool is_step(dt_op_t op) {
  return op == DT_OP_add || op == DT_OP_sub || op == DT_OP_mul || op == DT_OP_div;
}

static bool read_step(const dt_match_t *m, uint32_t id, step_t *out) {
  const dt_node_t *node = dt__match_node(m, id);
  if (!is_step(node->op))
    return false;
  for (uint32_t k = 0; k < 2; k++) {
    bool swapped = k == 0;
    if (swapped && node->op == DT_OP_div)
      continue;
    uint32_t other = by_channel(m, node->inputs[k].id);
    *out = (step_t){node->op, swapped, node->inputs[1 - k].id, other};
    if (other)
      return true;
  }
  return false;
}

// From the last step to the convolution's result; how many steps.
static uint32_t read_steps(const dt_match_t *m, uint32_t root, step_t *steps, uint32_t *conv) {
  uint32_t n = 0;
  *conv = root;
  while (n < MOST_STEPS && read_step(m, *conv, &steps[n]))
    *conv = steps[n++].value;
  return n;
}

static const char *refuse_conv(const dt_match_t *m, uint32_t id) {
  const dt_node_t *node = dt__match_node(m, id);
  if (node->op != DT_OP_conv && node->op != DT_OP_conv_transpose)
    return "wanted a convolution behind scales and shifts by channel";
  if (node->dtype != DT_F32 && node->dtype != DT_F64)
    return "wanted f32 or f64: scaled weights would be rounded to a half";
  if (!dt__rewrite_is_constant(m, node->inputs[1].id))
    return "wanted weights made of constants";
  bool one_group = is_one(m, node->attrs->syms[4 * node->attrs->n_axes]);
  return node->op == DT_OP_conv_transpose && !one_group ? "wanted one group of a transposed one"
                                                        : NULL;
}

static bool is_of_conv(const dt_match_t *m, uint32_t id) {
  for (uint32_t k = 0; k < 2; k++) {
    dt_op_t op = dt__match_node(m, dt__match_node(m, id)->inputs[k].id)->op;
    if (op == DT_OP_conv || op == DT_OP_conv_transpose)
      return true;
  }
  return false;
}

static bool find(dt_match_t *m, uint32_t root) {
  step_t steps[MOST_STEPS];
  uint32_t conv = 0, n = 0;
  bool scales = false;
  if (m->r->depth || dt__match_node(m, root)->rank < 3)
    return false;
  n = read_steps(m, root, steps, &conv);
  for (uint32_t k = 0; k < n; k++)
    scales = scales || steps[k].op == DT_OP_mul || steps[k].op == DT_OP_div;
  const char *why = n ? refuse_conv(m, conv) : "wanted one number for each channel, of constants";
  if (!why && !scales)
    why = "nothing scales";
  if (why) {
    dt__match_miss(m, n || is_of_conv(m, root), n ? conv : root, "%s", why);
    return false;
  }
  m->wild[0] = dt__match_node(m, conv)->inputs[0].id;
  m->wild[1] = dt__match_node(m, conv)->inputs[1].id;
  if (!dt__rewrite_take(m, conv))
    return false;
  while (n-- > 0)
    if (!dt__rewrite_take(m, n ? steps[n - 1].value : root))
      return false;
  return true;
}

// ---- What is built ------------------------------------------------------------------------------
// y = scale * conv + shift; none: 1 and 0.
typedef struct affine_t {
  dt_value_t scale, shift;
} affine_t;

static dt_value_t times(dt_trace_t *t, dt_value_t a, dt_value_t b) {
  return a.id ? dt_mul(t, a, b) : b;
}

static void negate(dt_trace_t *t, dt_dtype_t dtype, affine_t *a) {
  a->scale = a->scale.id ? dt_neg(t, a->scale) : dt_scalar(t, dtype, -1);
  a->shift = a->shift.id ? dt_neg(t, a->shift) : a->shift;
}

static void do_step(dt_trace_t *t, dt_dtype_t dtype, const step_t *step, affine_t *a) {
  dt_value_t c = dt__trace_value(t, (dt_node_id_t){step->other});
  switch (step->op) {
  case DT_OP_mul:
    a->scale = times(t, a->scale, c);
    a->shift = a->shift.id ? dt_mul(t, a->shift, c) : a->shift;
    return;
  case DT_OP_div:
    a->scale = dt_div(t, a->scale.id ? a->scale : dt_scalar(t, dtype, 1), c);
    a->shift = a->shift.id ? dt_div(t, a->shift, c) : a->shift;
    return;
  case DT_OP_sub:
    if (!step->swapped) {
      a->shift = a->shift.id ? dt_sub(t, a->shift, c) : dt_neg(t, c);
      return;
    }
    negate(t, dtype, a);
    break;
  default:
    break;
  }
  a->shift = a->shift.id ? dt_add(t, a->shift, c) : c;
}

static dt_status_t build(dt_match_t *m, dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                         void *closure) {
  step_t steps[MOST_STEPS];
  uint32_t conv = 0, root = m->outputs[0], n = read_steps(m, root, steps, &conv);
  affine_t a = {{0, 0}, {0, 0}};
  dt_node_t node = *dt__match_node(m, conv); // nodes move as others are added
  (void)closure;
  while (n-- > 0)
    do_step(t, node.dtype, &steps[n], &a);
  // [1, M, 1, …] over w's dims: [M, C, …], or [C, M, …] of a transposed one.
  if (dt__match_real_conv(m, conv)) {
    DT_TRY(dt__rewrite_real_sum(m, t, conv, &a.scale, &out[0]));
  } else {
    if (node.op == DT_OP_conv)
      a.scale = dt_transpose(t, a.scale, 0, 1);
    dt_value_t operands[2] = {in[0], dt_mul(t, in[1], a.scale)};
    out[0] = dt__trace_add(t, node.op, operands, 2, node.attrs);
  }
  if (a.shift.id)
    out[0] = dt_add(t, out[0], a.shift);
  return NULL;
}

const dt_rewrite_row_t dt__rewrite_conv_affine = {
    .roots = {DT_OP_add, DT_OP_sub, DT_OP_mul, DT_OP_div},
    .anchors = {DT_OP_conv, DT_OP_conv_transpose},
    .n_values = 2,
    .find = find,
    .build = build};
