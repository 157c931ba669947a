// SPDX-License-Identifier: Apache-2.0
// Fold rules, applied bottom up: inputs are folded before the node that reads them, and a rule's
// result is tried again until no rule fires. See fold_rules.def for the rules.
#include "lower/graph/scalar.h"
#include "lower/passes/passes.h"
#include "lower/passes/rewrite.h"
#include "runtime/base/dtype.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <math.h>
#include <string.h>

#define MAX_ROUNDS 16 // rules shrink, so a node settles after a few

// The node under examination, in the new graph; a rule may answer with *out.
typedef struct fold_t {
  dt_rewrite_t *rw;
  const dt_node_t *node; // valid until nodes are added
} fold_t;

static const dt_node_t *input(const fold_t *f, uint32_t k) {
  return dt__graph_node(f->rw->to, f->node->inputs[k]);
}

// The literal that `id` is, through views that repeat it.
static bool literal(const fold_t *f, dt_node_id_t id, dt_scalar_t *out) {
  const dt_node_t *node = dt__graph_node(f->rw->to, id);
  while (node->op == DT_OP_expand || node->op == DT_OP_reshape)
    node = dt__graph_node(f->rw->to, node->inputs[0]);
  if (node->op != DT_OP_scalar)
    return false;
  if (dt__dtype_is_float(node->dtype)) {
    out->f = node->dtype == DT_F32 ? (double)(float)node->attrs->floats[0] : node->attrs->floats[0];
  } else {
    out->i = node->attrs->ints[0];
  }
  return true;
}

static bool is_number(const fold_t *f, dt_node_id_t id, double value) {
  dt_scalar_t got;
  if (!literal(f, id, &got))
    return false;
  if (!dt__dtype_is_float(dt__graph_node(f->rw->to, id)->dtype))
    return got.i == (int64_t)value;
  return got.f == value && signbit(got.f) == signbit(value);
}

// ---- Rules: true when *out answers ------------------------------------------------------------------

static dt_status_t fold_same_dtype(fold_t *f, dt_node_id_t *out) {
  if (input(f, 0)->dtype == f->node->dtype)
    *out = f->node->inputs[0];
  return NULL;
}

static dt_status_t fold_same_sizes(fold_t *f, dt_node_id_t *out) {
  const dt_node_t *x = input(f, 0);
  if (x->rank != f->node->rank)
    return NULL;
  for (uint32_t d = 0; d < x->rank; d++)
    if (!dt__sym_known_eq(f->rw->to->env, x->sizes[d], f->node->sizes[d]))
      return NULL;
  *out = f->node->inputs[0];
  return NULL;
}

static dt_status_t fold_permute_same(fold_t *f, dt_node_id_t *out) {
  for (uint32_t d = 0; d < f->node->rank; d++)
    if (f->node->attrs->axes[d] != (int32_t)d)
      return NULL;
  *out = f->node->inputs[0];
  return NULL;
}

static dt_status_t fold_slice_whole(fold_t *f, dt_node_id_t *out) {
  dt_symenv_t *env = f->rw->to->env;
  const dt_node_t *x = input(f, 0);
  const dt_attrs_t *a = f->node->attrs;
  for (uint32_t d = 0; d < x->rank; d++)
    if (a->ints[d] != 1 || !dt__sym_known_eq(env, a->syms[2 * d], dt__sym_const(env, 0)) ||
        !dt__sym_known_eq(env, a->syms[2 * d + 1], x->sizes[d]))
      return NULL;
  *out = f->node->inputs[0];
  return NULL;
}

static dt_status_t fold_over_reshape(fold_t *f, dt_node_id_t *out) {
  const dt_node_t *x = input(f, 0);
  if (x->op != DT_OP_reshape)
    return NULL;
  dt_node_id_t base = x->inputs[0];
  dt_attrs_t attrs = *f->node->attrs;
  return dt__graph_add(f->rw->to, DT_OP_reshape, &base, 1, &attrs, &f->node->origin, out);
}

static dt_status_t fold_over_permute(fold_t *f, dt_node_id_t *out) {
  const dt_node_t *x = input(f, 0);
  if (x->op != DT_OP_permute)
    return NULL;
  dt_node_id_t base = x->inputs[0];
  dt_attrs_t attrs = *f->node->attrs;
  for (uint32_t d = 0; d < f->node->rank; d++)
    attrs.axes[d] = x->attrs->axes[f->node->attrs->axes[d]];
  return dt__graph_add(f->rw->to, DT_OP_permute, &base, 1, &attrs, &f->node->origin, out);
}

static dt_status_t fold_over_itself(fold_t *f, dt_node_id_t *out) {
  const dt_node_t *x = input(f, 0);
  if (x->op == f->node->op)
    *out = x->inputs[0];
  return NULL;
}

static dt_status_t fold_one_right(fold_t *f, dt_node_id_t *out) {
  if (is_number(f, f->node->inputs[1], 1))
    *out = f->node->inputs[0];
  return NULL;
}

static dt_status_t fold_one_left(fold_t *f, dt_node_id_t *out) {
  if (is_number(f, f->node->inputs[0], 1))
    *out = f->node->inputs[1];
  return NULL;
}

static dt_status_t fold_square(fold_t *f, dt_node_id_t *out) {
  if (!is_number(f, f->node->inputs[1], 2))
    return NULL;
  dt_node_id_t in[2] = {f->node->inputs[0], f->node->inputs[0]};
  return dt__graph_add(f->rw->to, DT_OP_mul, in, 2, NULL, &f->node->origin, out);
}

static dt_status_t fold_zero_integer(fold_t *f, dt_node_id_t *out) {
  if (dt__dtype_is_float(f->node->dtype))
    return NULL; // -0 + 0 is 0
  for (uint32_t k = 0; k < 2; k++)
    if (is_number(f, f->node->inputs[k], 0))
      *out = f->node->inputs[1 - k];
  return NULL;
}

static dt_status_t fold_zero_right(fold_t *f, dt_node_id_t *out) {
  if (is_number(f, f->node->inputs[1], 0))
    *out = f->node->inputs[0];
  return NULL;
}

static dt_status_t fold_where_known(fold_t *f, dt_node_id_t *out) {
  dt_scalar_t cond;
  if (literal(f, f->node->inputs[0], &cond))
    *out = f->node->inputs[cond.i ? 1 : 2];
  return NULL;
}

// The value, rounded to the node's dtype as code would round it.
static dt_status_t fold_scalars(fold_t *f, dt_node_id_t *out) {
  const dt_node_t *node = f->node;
  const dt_op_info_t *info = dt__op_info(node->op);
  if (info->lower != DT_LOWER_ew && info->lower != DT_LOWER_cast)
    return NULL;
  dt_scalar_t args[3], value;
  for (uint32_t k = 0; k < node->n_inputs; k++)
    if (!literal(f, node->inputs[k], &args[k]))
      return NULL;
  dt_dtype_t operand = input(f, node->n_inputs == 3 ? 1 : 0)->dtype;
  if (info->lower == DT_LOWER_cast)
    value = dt__scalar_cast(operand, node->dtype, args[0]);
  else
    value = dt__scalar_eval(dt__scalar_find(info->name, strlen(info->name)), operand, args);
  dt_attrs_t attrs = {0};
  attrs.dtype = node->dtype;
  if (dt__dtype_is_float(node->dtype))
    attrs.floats[0] = node->dtype == DT_F32 ? (double)(float)value.f : value.f;
  else
    attrs.ints[0] = value.i;
  if (dt__dtype_is_float(node->dtype) && isnan(attrs.floats[0]))
    return NULL; // text has no NaN literal worth keeping
  dt_origin_t origin = node->origin;
  uint32_t rank = node->rank;
  dt_attrs_t shape = {.n_syms = rank};
  memcpy(shape.syms, node->sizes, rank * sizeof(*node->sizes));
  dt_node_id_t id;
  DT_TRY(dt__graph_add(f->rw->to, DT_OP_scalar, NULL, 0, &attrs, &origin, &id));
  if (rank) {
    dt_attrs_t ones = {.n_syms = rank};
    for (uint32_t d = 0; d < rank; d++)
      ones.syms[d] = dt__sym_const(f->rw->to->env, 1);
    DT_TRY(dt__graph_add(f->rw->to, DT_OP_reshape, &id, 1, &ones, &origin, &id));
    DT_TRY(dt__graph_add(f->rw->to, DT_OP_expand, &id, 1, &shape, &origin, &id));
  }
  *out = id;
  return NULL;
}

// ---- The pass ---------------------------------------------------------------------------------------

typedef struct rule_t {
  const char *id;
  dt_op_t op; // NONE: any
  dt_status_t (*fn)(fold_t *f, dt_node_id_t *out);
} rule_t;

static const rule_t rules[] = {
#define FOLD(id, op, fn, doc) {#id, DT_OP_##op, fold_##fn},
#include "lower/passes/fold_rules.def"
};

static dt_status_t apply(dt_rewrite_t *rw, dt_node_id_t *id) {
  for (int round = 0; round < MAX_ROUNDS; round++) {
    dt_node_id_t next = {0};
    for (size_t k = 0; k < sizeof(rules) / sizeof(rules[0]) && next.id == 0; k++) {
      // A copy: adding nodes moves the array that `node` would point into.
      dt_node_t node = *dt__graph_node(rw->to, *id);
      fold_t f = {.rw = rw, .node = &node};
      if (rules[k].op != DT_OP_NONE && rules[k].op != node.op)
        continue;
      DT_TRY(rules[k].fn(&f, &next));
      if (next.id)
        DT_LOG(DT_LOG_FOLD, 1, "%s: %s at %s:%d", rules[k].id, dt__op_info(node.op)->name,
               node.origin.file ? node.origin.file : "", node.origin.line);
    }
    if (next.id == 0)
      return NULL;
    *id = next;
    rw->changed = true;
  }
  return NULL;
}

static dt_status_t visit(dt_rewrite_t *rw, const dt_node_t *node, const dt_node_id_t *inputs,
                         dt_node_id_t *out) {
  DT_TRY(dt__rewrite_copy(rw, node, inputs, out));
  return apply(rw, out);
}

dt_status_t dt__pass_fold(dt_arena_t *arena, const dt_graph_t *graph, const dt_graph_t **out) {
  return dt__rewrite(arena, graph, visit, NULL, NULL, out);
}
