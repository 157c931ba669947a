// SPDX-License-Identifier: Apache-2.0
// Fold rules of views, padding and joining: what renames nothing goes, and chains become one.
#include "lower/passes/fold.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"

static dt_symenv_t *env_of(const dt_folding_t *f) { return f->rw->to->env; }

static bool is_zero(const dt_folding_t *f, dt_sym_t e) {
  return dt__sym_known_eq(env_of(f), e, dt__sym_const(env_of(f), 0));
}

// The input, if the node's op is also its.
static const dt_node_t *inner(const dt_folding_t *f) {
  const dt_node_t *x = dt__fold_input(f, 0);
  return x->op == f->node->op ? x : NULL;
}

// scalar → reshape → expand is how a literal is repeated; anything else over a literal becomes
// that.
dt_status_t dt__fold_view_literal(dt_folding_t *f, dt_node_id_t *out) {
  const dt_node_t *node = f->node;
  dt_scalar_t value;
  if (!(dt__op_info(node->op)->flags & DT_OPF_VIEW) ||
      !dt__fold_literal(f, node->inputs[0], &value))
    return NULL;
  const dt_node_t *x = dt__fold_input(f, 0);
  bool ones = node->op == DT_OP_reshape && x->op == DT_OP_scalar;
  for (uint32_t d = 0; ones && d < node->rank; d++)
    ones = dt__sym_is_const(env_of(f), node->sizes[d], NULL);
  bool repeated = node->op == DT_OP_expand && x->op == DT_OP_reshape &&
                  dt__fold_node(f, x->inputs[0])->op == DT_OP_scalar;
  if (ones || repeated)
    return NULL;
  return dt__fold_full(f, value, out);
}

// ---- Chains ---------------------------------------------------------------------------------------------
// The node over its input's input: the sizes that it gives stand in its own attributes.
static dt_status_t skip_inner(dt_folding_t *f, const dt_attrs_t *attrs, dt_node_id_t *out) {
  dt_node_id_t base = dt__fold_input(f, 0)->inputs[0];
  return dt__fold_push(f, f->node->op, &base, 1, attrs, out);
}

dt_status_t dt__fold_chain_reshape(dt_folding_t *f, dt_node_id_t *out) {
  return inner(f) ? skip_inner(f, f->node->attrs, out) : NULL;
}

// A dim that is kept or repeated twice is kept or repeated once.
dt_status_t dt__fold_chain_expand(dt_folding_t *f, dt_node_id_t *out) {
  return inner(f) ? skip_inner(f, f->node->attrs, out) : NULL;
}

dt_status_t dt__fold_chain_permute(dt_folding_t *f, dt_node_id_t *out) {
  const dt_node_t *x = inner(f);
  if (!x)
    return NULL;
  dt_attrs_t attrs = *f->node->attrs;
  for (uint32_t d = 0; d < f->node->rank; d++)
    attrs.axes[d] = x->attrs->axes[f->node->attrs->axes[d]];
  return skip_inner(f, &attrs, out);
}

dt_status_t dt__fold_chain_slice(dt_folding_t *f, dt_node_id_t *out) {
  const dt_node_t *x = inner(f);
  dt_symenv_t *env = env_of(f);
  if (!x)
    return NULL;
  dt_attrs_t attrs = *f->node->attrs;
  for (uint32_t d = 0; d < f->node->rank; d++) {
    int64_t step = x->attrs->ints[d];
    if (!dt__mul_i64(attrs.ints[d], step, &attrs.ints[d]))
      return NULL;
    dt_sym_t past = dt__sym_mul(env, attrs.syms[2 * d], dt__sym_const(env, step));
    attrs.syms[2 * d] = dt__sym_add(env, x->attrs->syms[2 * d], past);
    if (!attrs.syms[2 * d].id)
      return dt__symenv_status(env);
  }
  return skip_inner(f, &attrs, out);
}

// ---- Nothing to do ----------------------------------------------------------------------------------------
dt_status_t dt__fold_same_sizes(dt_folding_t *f, dt_node_id_t *out) {
  const dt_node_t *x = dt__fold_input(f, 0);
  if (x->rank != f->node->rank)
    return NULL;
  for (uint32_t d = 0; d < x->rank; d++)
    if (!dt__sym_known_eq(env_of(f), x->sizes[d], f->node->sizes[d]))
      return NULL;
  *out = f->node->inputs[0];
  return NULL;
}

dt_status_t dt__fold_permute_same(dt_folding_t *f, dt_node_id_t *out) {
  for (uint32_t d = 0; d < f->node->rank; d++)
    if (f->node->attrs->axes[d] != (int32_t)d)
      return NULL;
  *out = f->node->inputs[0];
  return NULL;
}

dt_status_t dt__fold_slice_whole(dt_folding_t *f, dt_node_id_t *out) {
  const dt_node_t *x = dt__fold_input(f, 0);
  const dt_attrs_t *attrs = f->node->attrs;
  for (uint32_t d = 0; d < x->rank; d++)
    if (attrs->ints[d] != 1 || !is_zero(f, attrs->syms[2 * d]) ||
        !dt__sym_known_eq(env_of(f), attrs->syms[2 * d + 1], x->sizes[d]))
      return NULL;
  *out = f->node->inputs[0];
  return NULL;
}

dt_status_t dt__fold_pad_nothing(dt_folding_t *f, dt_node_id_t *out) {
  for (uint32_t k = 0; k < 2 * f->node->rank; k++)
    if (!is_zero(f, f->node->attrs->syms[k]))
      return NULL;
  *out = f->node->inputs[0];
  return NULL;
}

dt_status_t dt__fold_concat_one(dt_folding_t *f, dt_node_id_t *out) {
  if (f->node->n_inputs == 1)
    *out = f->node->inputs[0];
  return NULL;
}
