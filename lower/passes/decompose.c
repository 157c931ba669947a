// SPDX-License-Identifier: Apache-2.0
// Decompositions: each composite of ops.def as simpler ops, one function a `decompose` column. They
// keep the dtype, and follow the op's definition where rows are empty or hold NaN. What they use
// may be composite itself: the pass repeats until nothing is. Those of sizes from data stand in
// decompose_data.c.
#include "lower/passes/decompose.h"
#include "lower/passes/passes.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#include <math.h>
#include <string.h>

dt_node_id_t dt__build_op(dt_build_t *b, dt_op_t op, const dt_node_id_t *inputs, uint32_t n,
                          const dt_attrs_t *attrs) {
  dt_node_id_t out = {0};
  if (!b->status)
    b->status = dt__graph_add(b->rw->to, op, inputs, n, attrs, &b->node->origin, &out);
  return out;
}

static dt_node_id_t one(dt_build_t *b, dt_op_t op, dt_node_id_t x) {
  return dt__build_op(b, op, &x, 1, NULL);
}

// Broadcasts: values here differ from each other only in dims that are 1 by construction.
void dt__build_learn(dt_build_t *b, dt_sym_t fact) {
  dt_symenv_t *env = b->rw->to->env;
  if (!b->status && dt__sym_known(env, fact) != DT_TRUE)
    b->status = dt__sym_learn_at(env, fact, &b->node->origin);
}

void dt__build_size(dt_build_t *b, dt_sym_t size) {
  dt_symenv_t *env = b->rw->to->env;
  dt_sym_t below = dt__sym_lt(env, size, dt__sym_const(env, DT_SIZE_LIMIT));
  if (!b->status && dt__sym_known(env, below) == DT_FALSE)
    b->status = DT_FAIL(DT_E_LIMIT, "%s: a size on the way to its result is %lld or more",
                        dt__op_info(b->node->op)->name, (long long)DT_SIZE_LIMIT);
  dt__build_learn(b, below);
}

dt_node_id_t dt__build_pair(dt_build_t *b, dt_op_t op, dt_node_id_t x, dt_node_id_t y) {
  dt_node_id_t in[2] = {x, y};
  if (!b->status)
    b->status = dt__graph_broadcast(b->rw->to, in, 2, &b->node->origin);
  return dt__build_op(b, op, in, 2, NULL);
}

static dt_node_id_t number(dt_build_t *b, double value) {
  dt_attrs_t attrs = {0};
  attrs.dtype = b->node->dtype;
  attrs.floats[0] = value;
  attrs.ints[0] = (int64_t)value;
  if (dt__dtype_is_float(attrs.dtype))
    attrs.ints[0] = 0;
  else
    attrs.floats[0] = 0;
  return dt__build_op(b, DT_OP_scalar, NULL, 0, &attrs);
}

// Folds x over the node's axes, kept as size 1.
static dt_node_id_t fold(dt_build_t *b, dt_op_t op, dt_node_id_t x, uint32_t n_axes,
                         const int32_t *axes, bool keepdims) {
  dt_attrs_t attrs = {0};
  attrs.n_axes = n_axes;
  memcpy(attrs.axes, axes, n_axes * sizeof(*axes));
  attrs.keepdims = keepdims;
  return dt__build_op(b, op, &x, 1, &attrs);
}

// The number of elements folded, as a value of the node's dtype.
static dt_node_id_t count(dt_build_t *b, dt_node_id_t x, uint32_t n_axes, const int32_t *axes) {
  if (b->status)
    return (dt_node_id_t){0};
  const dt_node_t *node = dt__graph_node(b->rw->to, x);
  dt_symenv_t *env = b->rw->to->env;
  dt_attrs_t attrs = {0};
  attrs.dtype = DT_I64;
  attrs.n_syms = 1;
  attrs.syms[0] = dt__sym_const(env, 1);
  for (uint32_t k = 0; k < n_axes; k++)
    attrs.syms[0] = dt__sym_mul(env, attrs.syms[0], node->sizes[axes[k]]);
  dt_node_id_t size = dt__build_op(b, DT_OP_size, NULL, 0, &attrs);
  dt_attrs_t cast = {0};
  cast.dtype = b->node->dtype;
  return dt__build_op(b, DT_OP_cast, &size, 1, &cast);
}

static dt_node_id_t mean_of(dt_build_t *b, dt_node_id_t x, uint32_t n, const int32_t *axes,
                            bool keepdims) {
  dt_node_id_t sum = fold(b, DT_OP_sum, x, n, axes, keepdims);
  return dt__build_pair(b, DT_OP_div, sum, count(b, x, n, axes));
}

// ---- One function a decompose column -----------------------------------------------------------------

dt_node_id_t dt__decompose_mean(dt_build_t *b) {
  const dt_attrs_t *a = b->node->attrs;
  return mean_of(b, b->in[0], a->n_axes, a->axes, a->keepdims);
}

dt_node_id_t dt__decompose_var(dt_build_t *b) {
  const dt_attrs_t *a = b->node->attrs;
  dt_node_id_t centred =
      dt__build_pair(b, DT_OP_sub, b->in[0], mean_of(b, b->in[0], a->n_axes, a->axes, true));
  return mean_of(b, dt__build_pair(b, DT_OP_mul, centred, centred), a->n_axes, a->axes,
                 a->keepdims);
}

dt_node_id_t dt__decompose_relu(dt_build_t *b) {
  return dt__build_pair(b, DT_OP_maximum, b->in[0], number(b, 0));
}

dt_node_id_t dt__decompose_silu(dt_build_t *b) {
  return dt__build_pair(b, DT_OP_mul, b->in[0], one(b, DT_OP_sigmoid, b->in[0]));
}

dt_node_id_t dt__decompose_gelu(dt_build_t *b) {
  return dt__build_pair(b, DT_OP_mul, b->in[0], one(b, DT_OP_ndtr, b->in[0]));
}

// x/2 * (1 + tanh z) with z = sqrt(2/pi) * (x + 0.044715 x^3) (Hendrycks and Gimpel, 2016), where
// (1 + tanh z) / 2 is the sigmoid of 2 z.
dt_node_id_t dt__decompose_gelu_tanh(dt_build_t *b) {
  dt_node_id_t x = b->in[0];
  dt_node_id_t cube = dt__build_pair(b, DT_OP_mul, dt__build_pair(b, DT_OP_mul, x, x), x);
  dt_node_id_t inner =
      dt__build_pair(b, DT_OP_add, x, dt__build_pair(b, DT_OP_mul, cube, number(b, 0.044715)));
  dt_node_id_t z = dt__build_pair(b, DT_OP_mul, inner, number(b, 2 * sqrt(M_2_PI)));
  return dt__build_pair(b, DT_OP_mul, x, one(b, DT_OP_sigmoid, z));
}

// x - max along the axis: at most 0, so that exp cannot overflow.
static dt_node_id_t below_max(dt_build_t *b) {
  const int32_t *axes = b->node->attrs->axes;
  return dt__build_pair(b, DT_OP_sub, b->in[0], fold(b, DT_OP_amax, b->in[0], 1, axes, true));
}

// The sum is at least 1, so that its reciprocal is a number that multiplications can do with.
dt_node_id_t dt__decompose_softmax(dt_build_t *b) {
  dt_node_id_t e = one(b, DT_OP_exp, below_max(b));
  dt_node_id_t sum = fold(b, DT_OP_sum, e, 1, b->node->attrs->axes, true);
  return dt__build_pair(b, DT_OP_mul, e, one(b, DT_OP_reciprocal, sum));
}

dt_node_id_t dt__decompose_log_softmax(dt_build_t *b) {
  dt_node_id_t d = below_max(b);
  dt_node_id_t sum = fold(b, DT_OP_sum, one(b, DT_OP_exp, d), 1, b->node->attrs->axes, true);
  return dt__build_pair(b, DT_OP_sub, d, one(b, DT_OP_log, sum));
}

static uint32_t last_axes(const dt_build_t *b, int32_t *axes) {
  uint32_t n = b->node->attrs->n_axes;
  for (uint32_t k = 0; k < n; k++)
    axes[k] = (int32_t)(b->node->rank - n + k);
  return n;
}

dt_node_id_t dt__decompose_layer_norm(dt_build_t *b) {
  int32_t axes[DT_MAX_RANK];
  uint32_t n = last_axes(b, axes);
  dt_node_id_t centred =
      dt__build_pair(b, DT_OP_sub, b->in[0], mean_of(b, b->in[0], n, axes, true));
  dt_node_id_t var = mean_of(b, dt__build_pair(b, DT_OP_mul, centred, centred), n, axes, true);
  dt_node_id_t scale =
      one(b, DT_OP_rsqrt, dt__build_pair(b, DT_OP_add, var, number(b, b->node->attrs->floats[0])));
  dt_node_id_t y =
      dt__build_pair(b, DT_OP_mul, dt__build_pair(b, DT_OP_mul, centred, scale), b->in[1]);
  return dt__build_pair(b, DT_OP_add, y, b->in[2]);
}

dt_node_id_t dt__decompose_rms_norm(dt_build_t *b) {
  int32_t axes[DT_MAX_RANK];
  uint32_t n = last_axes(b, axes);
  dt_node_id_t square = mean_of(b, dt__build_pair(b, DT_OP_mul, b->in[0], b->in[0]), n, axes, true);
  dt_node_id_t scale = one(
      b, DT_OP_rsqrt, dt__build_pair(b, DT_OP_add, square, number(b, b->node->attrs->floats[0])));
  return dt__build_pair(b, DT_OP_mul, dt__build_pair(b, DT_OP_mul, b->in[0], scale), b->in[1]);
}

// ---- The pass ---------------------------------------------------------------------------------------

#define dt__decompose_none NULL
static const dt_decompose_fn_t decompositions[DT_OP_COUNT] = {
#define OP(name, arity, flags, dtype_rule, shape_rule, decompose, lower, eval, build, derivative,  \
           batch, doc)                                                                             \
  [DT_OP_##name] = dt__decompose_##decompose,
#include "lower/graph/ops.def"
};

static dt_status_t visit(dt_rewrite_t *rw, const dt_node_t *node, const dt_node_id_t *inputs,
                         dt_node_id_t *out) {
  dt_decompose_fn_t fn = decompositions[node->op];
  dt_build_t b = {.rw = rw, .node = node, .in = inputs};
  dt_node_id_t made = dt__build_low(&b);
  if (!made.id && !b.status)
    made = dt__build_widened(&b);
  if (!made.id && !b.status && fn)
    made = fn(&b);
  if (!made.id && !b.status) // nothing better than the op itself
    return dt__rewrite_copy(rw, node, inputs, out);
  *out = made;
  rw->changed = true;
  return b.status;
}

static dt_status_t run_one(dt_arena_t *arena, const dt_graph_t *graph, const dt_graph_t **out) {
  const dt_graph_t *next = graph;
  do {
    graph = next;
    DT_TRY(dt__rewrite(arena, graph, visit, NULL, NULL, &next));
  } while (next != graph);
  *out = next;
  return NULL;
}

dt_status_t dt__pass_decompose(dt_arena_t *arena, const dt_graph_t *graph, const dt_graph_t **out) {
  return dt__rewrite_bodies(arena, graph, run_one, out);
}
