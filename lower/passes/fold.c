// SPDX-License-Identifier: Apache-2.0
// Fold rules, applied bottom up: inputs are folded before the node that reads them, and a rule's
// result is tried again until no rule fires. The rules are listed in fold_rules.def; those of
// single elements stand in fold_element.c, those of views in fold_view.c.
#include "lower/passes/fold.h"
#include "lower/passes/passes.h"
#include "runtime/base/dtype.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <math.h>
#include <string.h>

#define MAX_ROUNDS 16 // rules shrink, so a node settles after a few

// ---- What rules are made of -----------------------------------------------------------------------------
bool dt__fold_literal(const dt_folding_t *f, dt_node_id_t id, dt_scalar_t *out) {
  const dt_node_t *node = dt__fold_node(f, id);
  while (dt__op_info(node->op)->flags & DT_OPF_VIEW)
    node = dt__fold_node(f, node->inputs[0]);
  if (node->op != DT_OP_scalar)
    return false;
  if (dt__dtype_is_float(node->dtype))
    out->f = dt__scalar_cast(DT_F64, node->dtype, (dt_scalar_t){.f = node->attrs->floats[0]}).f;
  else
    out->i = node->attrs->ints[0];
  return true;
}

bool dt__fold_is(const dt_folding_t *f, dt_node_id_t id, double value) {
  dt_scalar_t got;
  if (!dt__fold_literal(f, id, &got))
    return false;
  dt_dtype_t dtype = dt__fold_node(f, id)->dtype;
  if (!dt__dtype_is_float(dtype)) // -1 is no number of an unsigned dtype, whatever its bits
    return (value >= 0 || dt__dtype_is_signed(dtype)) && got.i == (int64_t)value;
  return got.f == value && !signbit(got.f) == !signbit(value);
}

dt_status_t dt__fold_push(dt_folding_t *f, dt_op_t op, const dt_node_id_t *inputs, uint32_t n,
                          const dt_attrs_t *attrs, dt_node_id_t *out) {
  dt_node_t made = *f->node;
  made.op = op;
  made.n_inputs = n;
  made.attrs = attrs;
  return dt__rewrite_copy(f->rw, &made, inputs, out);
}

// Always as scalar, reshape to ones, expand: what dt__graph_full writes.
dt_status_t dt__fold_full(dt_folding_t *f, dt_scalar_t value, dt_node_id_t *out) {
  dt_node_t made = *f->node;
  dt_attrs_t attrs = {0}, ones = {0}, sizes = {0};
  dt_node_id_t id = {0};
  attrs.dtype = made.dtype;
  if (dt__dtype_is_float(made.dtype))
    attrs.floats[0] = value.f;
  else
    attrs.ints[0] = value.i;
  ones.n_syms = sizes.n_syms = made.rank;
  for (uint32_t d = 0; d < made.rank; d++) {
    ones.syms[d] = dt__sym_const(f->rw->to->env, 1);
    sizes.syms[d] = made.sizes[d];
  }
  made.op = DT_OP_scalar;
  made.rank = 0;
  made.n_inputs = 0;
  made.attrs = &attrs;
  DT_TRY(dt__rewrite_copy(f->rw, &made, NULL, &id));
  if (f->node->rank) {
    made = *f->node;
    made.op = DT_OP_reshape;
    made.n_inputs = 1;
    made.attrs = &ones;
    memcpy(made.sizes, ones.syms, sizeof(made.sizes));
    DT_TRY(dt__rewrite_copy(f->rw, &made, &id, &id));
    DT_TRY(dt__fold_push(f, DT_OP_expand, &id, 1, &sizes, &id));
  }
  *out = id;
  return NULL;
}

dt_status_t dt__fold_whole_full(dt_folding_t *f, int64_t value, dt_node_id_t *out) {
  return dt__fold_full(f, dt__scalar_cast(DT_I64, f->node->dtype, (dt_scalar_t){.i = value}), out);
}

// ---- The pass ---------------------------------------------------------------------------------------------
typedef struct rule_t {
  const char *id;
  dt_op_t op; // NONE: any
  dt_holds_t dtypes;
  dt_fold_fn_t fn;
} rule_t;

static const rule_t rules[] = {
#define FOLD(id, op, dtypes, fn, doc) {#id, DT_OP_##op, DT_HOLDS_##dtypes, dt__fold_##fn},
#include "lower/passes/fold_rules.def"
};

// The dtype that a node's op works on: where and its like have the odd operand first.
static dt_dtype_t operand_dtype(const dt_graph_t *graph, const dt_node_t *node) {
  return node->n_inputs ? dt__graph_node(graph, node->inputs[node->n_inputs - 1])->dtype
                        : node->dtype;
}

static dt_status_t apply_once(dt_rewrite_t *rw, dt_node_id_t id, dt_node_id_t *next) {
  for (size_t k = 0; k < sizeof(rules) / sizeof(rules[0]); k++) {
    dt_node_t node = *dt__graph_node(rw->to, id);
    dt_folding_t f = {.rw = rw, .node = &node};
    if ((rules[k].op != DT_OP_NONE && rules[k].op != node.op) ||
        !dt__holds_for(rules[k].dtypes, operand_dtype(rw->to, &node)))
      continue;
    DT_TRY(rules[k].fn(&f, next));
    if (!next->id)
      continue;
    DT_LOG(DT_LOG_FOLD, 1, "%s: %s at %s:%d", rules[k].id, dt__op_info(node.op)->name,
           node.origin.file ? node.origin.file : "", node.origin.line);
    return NULL;
  }
  return NULL;
}

static dt_status_t visit(dt_rewrite_t *rw, const dt_node_t *node, const dt_node_id_t *inputs,
                         dt_node_id_t *out) {
  DT_TRY(dt__rewrite_copy(rw, node, inputs, out));
  for (int round = 0; round < MAX_ROUNDS; round++) {
    dt_node_id_t next = {0};
    DT_TRY(apply_once(rw, *out, &next));
    if (!next.id)
      return NULL;
    *out = next;
    rw->changed = true;
  }
  return NULL;
}

static dt_status_t run_one(dt_arena_t *arena, const dt_graph_t *graph, const dt_graph_t **out) {
  return dt__rewrite(arena, graph, visit, NULL, NULL, out);
}

dt_status_t dt__pass_fold(dt_arena_t *arena, const dt_graph_t *graph, const dt_graph_t **out) {
  return dt__rewrite_bodies(arena, graph, run_one, out);
}
