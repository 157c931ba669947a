// SPDX-License-Identifier: Apache-2.0
// Fold rules of views, padding and joining: what renames nothing goes, and chains become one.
#include "lower/passes/fold.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <string.h>

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

// ---- Parts ------------------------------------------------------------------------------------------------
// Of which a rule looks at no more: each is compared with what stands before it.
#define MOST_PARTS 64

static bool is_equal(const dt_folding_t *f, dt_sym_t a, dt_sym_t b) {
  return a.id && b.id && dt__sym_known_eq(env_of(f), a, b);
}

// Padding by less than nothing cuts: what was cut is not there to be padded.
static bool only_adds(const dt_folding_t *f, const dt_node_t *pad) {
  for (uint32_t k = 0; k < 2 * pad->rank; k++)
    if (!dt__sym_known_le(env_of(f), dt__sym_const(env_of(f), 0), pad->attrs->syms[k]))
      return false;
  return true;
}

dt_status_t dt__fold_pad_pad(dt_folding_t *f, dt_node_id_t *out) {
  const dt_node_t *x = inner(f);
  if (!x || memcmp(x->attrs->floats, f->node->attrs->floats, sizeof(x->attrs->floats)) != 0 ||
      memcmp(x->attrs->ints, f->node->attrs->ints, sizeof(x->attrs->ints)) != 0 ||
      !only_adds(f, x) || !only_adds(f, f->node))
    return NULL;
  dt_attrs_t attrs = *f->node->attrs;
  for (uint32_t k = 0; k < 2 * f->node->rank; k++) {
    attrs.syms[k] = dt__sym_add(env_of(f), attrs.syms[k], x->attrs->syms[k]);
    if (!attrs.syms[k].id)
      return dt__symenv_status(env_of(f));
  }
  return skip_inner(f, &attrs, out);
}

// Whether elements `start` to `start + size` of a dim are those from `low` on of `n`; *moved is
// where they begin there.
static bool is_inside(const dt_folding_t *f, dt_sym_t start, dt_sym_t size, dt_sym_t low,
                      dt_sym_t n, dt_sym_t *moved) {
  dt_symenv_t *env = env_of(f);
  *moved = dt__sym_try(env, dt__sym_sub, start, low);
  return moved->id && dt__sym_known_le(env, low, start) &&
         dt__sym_known_le(env, dt__sym_try(env, dt__sym_add, *moved, size), n);
}

dt_status_t dt__fold_slice_pad(dt_folding_t *f, dt_node_id_t *out) {
  const dt_node_t *pad = dt__fold_input(f, 0);
  if (pad->op != DT_OP_pad)
    return NULL;
  const dt_node_t *x = dt__fold_node(f, pad->inputs[0]);
  dt_attrs_t attrs = *f->node->attrs;
  for (uint32_t d = 0; d < x->rank; d++)
    if (attrs.ints[d] != 1 || !is_inside(f, attrs.syms[2 * d], attrs.syms[2 * d + 1],
                                         pad->attrs->syms[2 * d], x->sizes[d], &attrs.syms[2 * d]))
      return NULL;
  return skip_inner(f, &attrs, out);
}

dt_status_t dt__fold_slice_concat(dt_folding_t *f, dt_node_id_t *out) {
  const dt_node_t *all = dt__fold_input(f, 0);
  if (all->op != DT_OP_concat || all->n_inputs > MOST_PARTS)
    return NULL;
  uint32_t axis = (uint32_t)all->attrs->axes[0];
  dt_attrs_t attrs = *f->node->attrs;
  dt_sym_t start = attrs.syms[2 * axis], size = attrs.syms[2 * axis + 1];
  dt_sym_t low = dt__sym_const(env_of(f), 0);
  if (attrs.ints[axis] != 1)
    return NULL;
  for (uint32_t k = 0; k < all->n_inputs && low.id; k++) {
    dt_node_id_t part = all->inputs[k];
    dt_sym_t n = dt__fold_node(f, part)->sizes[axis];
    if (is_inside(f, start, size, low, n, &attrs.syms[2 * axis]))
      return dt__fold_push(f, DT_OP_slice, &part, 1, &attrs, out);
    low = dt__sym_try(env_of(f), dt__sym_add, low, n);
  }
  return NULL;
}

static bool is_along(const dt_node_t *node, int32_t axis) {
  return node->op == DT_OP_concat && node->attrs->axes[0] == axis;
}

dt_status_t dt__fold_concat_concat(dt_folding_t *f, dt_node_id_t *out) {
  dt_node_id_t parts[MOST_PARTS];
  uint32_t n = 0;
  bool any = false;
  for (uint32_t k = 0; k < f->node->n_inputs; k++) {
    const dt_node_t *part = dt__fold_input(f, k);
    bool opened = is_along(part, f->node->attrs->axes[0]);
    uint32_t more = opened ? part->n_inputs : 1;
    if (more > MOST_PARTS - n)
      return NULL;
    memcpy(&parts[n], opened ? part->inputs : &f->node->inputs[k], more * sizeof(parts[0]));
    n += more;
    any = any || opened;
  }
  return any ? dt__fold_push(f, DT_OP_concat, parts, n, f->node->attrs, out) : NULL;
}

// Whether slice `b` goes on where `a` ends, along `axis`, and is like it in all other dims.
static bool goes_on(const dt_folding_t *f, const dt_node_t *a, const dt_node_t *b, uint32_t axis) {
  const dt_attrs_t *x = a->attrs, *y = b->attrs;
  if (a->op != DT_OP_slice || b->op != DT_OP_slice || a->inputs[0].id != b->inputs[0].id)
    return false;
  for (uint32_t d = 0; d < a->rank; d++)
    if (x->ints[d] != y->ints[d] ||
        (d != axis && (!is_equal(f, x->syms[2 * d], y->syms[2 * d]) ||
                       !is_equal(f, x->syms[2 * d + 1], y->syms[2 * d + 1]))))
      return false;
  dt_symenv_t *env = env_of(f);
  dt_sym_t reach =
      dt__sym_try(env, dt__sym_mul, x->syms[2 * axis + 1], dt__sym_const(env, x->ints[axis]));
  return is_equal(f, dt__sym_try(env, dt__sym_add, x->syms[2 * axis], reach), y->syms[2 * axis]);
}

// Each run of slices that follow each other becomes one; the first run that there is.
dt_status_t dt__fold_concat_slices(dt_folding_t *f, dt_node_id_t *out) {
  const dt_node_t *node = f->node;
  uint32_t axis = (uint32_t)node->attrs->axes[0], first = 0, n = 1;
  dt_node_id_t parts[MOST_PARTS], base;
  if (node->n_inputs > MOST_PARTS)
    return NULL;
  for (uint32_t k = 1; k < node->n_inputs; k++) {
    bool same_run = goes_on(f, dt__fold_input(f, k - 1), dt__fold_input(f, k), axis);
    if (same_run && n == 1)
      first = k - 1;
    if (same_run)
      n++;
    else if (n > 1)
      break;
  }
  if (n == 1)
    return NULL;
  dt_node_t run = *dt__fold_input(f, first);
  dt_attrs_t attrs = *run.attrs;
  base = run.inputs[0];
  for (uint32_t k = 1; k < n; k++) {
    dt_sym_t more = dt__fold_input(f, first + k)->attrs->syms[2 * axis + 1];
    attrs.syms[2 * axis + 1] = dt__sym_add(env_of(f), attrs.syms[2 * axis + 1], more);
    if (!attrs.syms[2 * axis + 1].id)
      return dt__symenv_status(env_of(f));
  }
  run.attrs = &attrs;
  run.sizes[axis] = attrs.syms[2 * axis + 1];
  DT_TRY(dt__rewrite_copy(f->rw, &run, &base, out));
  if (n == node->n_inputs)
    return NULL;
  memcpy(parts, node->inputs, first * sizeof(parts[0]));
  parts[first] = *out;
  memcpy(&parts[first + 1], &node->inputs[first + n],
         (node->n_inputs - first - n) * sizeof(parts[0]));
  return dt__fold_push(f, DT_OP_concat, parts, node->n_inputs - n + 1, node->attrs, out);
}
