// SPDX-License-Identifier: Apache-2.0
// Lowering of ops that read and replace elements by indices, which are checked where they are read.
//
// A scatter is a copy of its operand, and a kernel that revises the copy. Updates that may meet are
// in its inner loops, which run in order: one iteration of the outer loops has all updates of its
// elements, so results do not depend on threads.
#include "lower/loop/lower_private.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

// Of one element's place: the check they share, and whether all indices so far were in range.
typedef struct places_t {
  dt_lowering_t *ctx;
  const dt_node_t *node;
  dt_stage_t *stage;
  uint32_t check, found;
} places_t;

static dt_status_t add_check(places_t *p) {
  dt_lowering_t *ctx = p->ctx;
  const dt_node_t *indices = dt__lower_node(ctx, p->node->inputs[1]);
  const char *op = dt__op_info(p->node->op)->name, *name = "";
  if (indices->op == DT_OP_input)
    name = ctx->graph->inputs.items[indices->attrs->index].name;
  if (p->node->origin.op && p->node->origin.op[0])
    op = p->node->origin.op;
  dt_check_t check = {
      .what = dt__arena_printf(ctx->arena, name[0] ? "%s: index of %s" : "%s: index", op, name),
      .origin = p->node->origin};
  if (!check.what || !DT_VEC_PUSH(ctx->arena, &ctx->program->checks, check))
    return DT_NO_MEMORY();
  p->check = ctx->program->checks.len - 1;
  p->found = DT_NO_INST;
  return NULL;
}

// The index at `at` of the indices, into a dim of size `extent`.
static dt_status_t bind(places_t *p, const dt_sym_t *at, dt_sym_t extent, dt_sym_t *out) {
  dt_lowering_t *ctx = p->ctx;
  uint32_t found = 0;
  dt_inst_t inst = {.kind = DT_INST_BIND,
                    .dtype = DT_BOOL,
                    .mask = DT_NO_INST,
                    .check = p->check,
                    .extent = dt__sym_simplify(ctx->env, extent)};
  inst.sym = *out = dt__program_new_data(ctx->program, inst.extent);
  DT_TRY(
      dt__lower_read(ctx, p->stage, p->node->inputs[1], at, DT_NO_INST, DT_NO_INST, &inst.args[0]));
  DT_TRY(dt__stage_add(ctx->program, p->stage, &inst, &found));
  dt_inst_t both = {.kind = DT_INST_SCALAR,
                    .dtype = DT_BOOL,
                    .op = DT_SCALAR_logical_and,
                    .args = {p->found, found, DT_NO_INST}};
  if (p->found != DT_NO_INST)
    return dt__stage_add(ctx->program, p->stage, &both, &p->found);
  p->found = found;
  return NULL;
}

static bool by_element(const dt_node_t *node) {
  return node->op == DT_OP_gather_elements || node->op == DT_OP_scatter_elements;
}

// The index in x of the element that `at` speaks of: an index of the gather's result, or of the
// scatter's updates.
static dt_status_t find_place(places_t *p, const dt_sym_t *at, dt_sym_t *out) {
  const dt_node_t *x = dt__lower_node(p->ctx, p->node->inputs[0]);
  const dt_node_t *indices = dt__lower_node(p->ctx, p->node->inputs[1]);
  DT_TRY(add_check(p));
  if (by_element(p->node)) {
    uint32_t axis = (uint32_t)p->node->attrs->axes[0];
    for (uint32_t d = 0; d < x->rank; d++)
      out[d] = at[d];
    return bind(p, at, x->sizes[axis], &out[axis]);
  }
  dt_sym_t from[DT_MAX_RANK];
  uint32_t places = indices->rank - 1, batch = p->node->attrs->n_axes;
  int64_t k = 0;
  if (!dt__sym_is_const(p->ctx->env, dt__sym_simplify(p->ctx->env, indices->sizes[places]), &k))
    return DT_FAIL(DT_E_INTERNAL, "tuples of indices of no literal size");
  for (uint32_t d = 0; d < places; d++)
    from[d] = at[d];
  for (uint32_t d = 0; d < batch; d++)
    out[d] = at[d];
  for (uint32_t d = 0; d < (uint32_t)k; d++) {
    from[places] = dt__sym_const(p->ctx->env, d);
    DT_TRY(bind(p, from, x->sizes[batch + d], &out[batch + d]));
  }
  for (uint32_t d = batch + (uint32_t)k; d < x->rank; d++)
    out[d] = at[places + d - batch - (uint32_t)k];
  return NULL;
}

// ---- Taking -----------------------------------------------------------------------------------------
dt_status_t dt__lower_gather_at(dt_lowering_t *ctx, dt_node_id_t id) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  dt_kernel_t kernel;
  dt_stage_t stage = {0};
  dt_sym_t at[DT_MAX_RANK], from[DT_MAX_RANK];
  dt_buffer_id_t buffer;
  uint32_t value = 0;
  places_t p = {.ctx = ctx, .node = node, .stage = &stage};
  DT_TRY(dt__lower_begin(ctx, id, DT_OPEN_SQUEEZED, &kernel, at));
  DT_TRY(find_place(&p, at, from));
  DT_TRY(dt__lower_read(ctx, &stage, node->inputs[0], from, p.found, DT_NO_INST, &value));
  DT_TRY(dt__lower_result(ctx, id, &buffer));
  return dt__lower_end(ctx, &kernel, &stage, buffer, at, value);
}

// ---- Replacing --------------------------------------------------------------------------------------
// Updates that differ in dim d alone may meet.
static bool may_meet(const dt_lowering_t *ctx, const dt_node_t *node, uint32_t d) {
  if (node->attrs->mode & DT_JOIN_APART)
    return false;
  if (by_element(node))
    return (int32_t)d == node->attrs->axes[0];
  return d + 1 < dt__lower_node(ctx, node->inputs[1])->rank;
}

static dt_status_t open_loops(dt_lowering_t *ctx, const dt_node_t *node, dt_kernel_t *kernel,
                              dt_stage_t *stage, dt_sym_t *at) {
  const dt_node_t *updates = dt__lower_node(ctx, node->inputs[2]);
  for (uint32_t d = 0; d < updates->rank; d++) {
    bool inner = may_meet(ctx, node, d);
    DT_TRY(dt__lower_loops(ctx, 1, &updates->sizes[d], DT_OPEN_SQUEEZED,
                           inner ? stage->vars : kernel->vars,
                           inner ? stage->extents : kernel->extents,
                           inner ? &stage->n_loops : &kernel->n_loops, &at[d]));
  }
  return NULL;
}

// The update joined with what is at `to` of the copy.
static dt_status_t join(places_t *p, dt_buffer_id_t buffer, const dt_sym_t *to, uint32_t *value) {
  static const dt_scalar_op_t ops[DT_JOIN_COUNT] = {DT_SCALAR_NONE, DT_SCALAR_add, DT_SCALAR_mul,
                                                    DT_SCALAR_maximum, DT_SCALAR_minimum};
  dt_inst_t scalar = {.kind = DT_INST_SCALAR,
                      .dtype = p->node->dtype,
                      .op = ops[p->node->attrs->mode % DT_JOIN_APART],
                      .args = {0, *value, DT_NO_INST}};
  if (scalar.op == DT_SCALAR_NONE)
    return NULL;
  dt_inst_t load = {.kind = DT_INST_LOAD,
                    .dtype = p->node->dtype,
                    .mask = p->found,
                    .args = {DT_NO_INST, DT_NO_INST, DT_NO_INST},
                    .buffer = buffer,
                    .index = to};
  DT_TRY(dt__stage_add(p->ctx->program, p->stage, &load, &scalar.args[0]));
  return dt__stage_add(p->ctx->program, p->stage, &scalar, value);
}

dt_status_t dt__lower_scatter(dt_lowering_t *ctx, dt_node_id_t id) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  dt_kernel_t kernel = {.name = dt__op_info(node->op)->name, .section = dt__lower_section(ctx)};
  dt_stage_t stage = {0};
  dt_sym_t at[DT_MAX_RANK], to[DT_MAX_RANK];
  dt_buffer_id_t buffer;
  uint32_t value = 0;
  places_t p = {.ctx = ctx, .node = node, .stage = &stage};
  DT_TRY(dt__lower_temp(ctx, id, &buffer));
  DT_TRY(dt__lower_copy(ctx, node->inputs[0], buffer));
  DT_TRY(open_loops(ctx, node, &kernel, &stage, at));
  DT_TRY(find_place(&p, at, to));
  DT_TRY(dt__lower_read(ctx, &stage, node->inputs[2], at, DT_NO_INST, DT_NO_INST, &value));
  DT_TRY(join(&p, buffer, to, &value));
  dt_store_t store = {.buffer = buffer,
                      .index = dt__exprs_copy(ctx->arena, to, node->rank),
                      .value = value,
                      .mask = p.found,
                      .revises = true};
  if (!store.index || !DT_VEC_PUSH(ctx->arena, &stage.stores, store) ||
      !DT_VEC_PUSH(ctx->arena, &kernel.stages, stage) ||
      !DT_VEC_PUSH(ctx->arena, &ctx->program->kernels, kernel))
    return DT_NO_MEMORY();
  return dt__lower_from_buffer(ctx, id, buffer);
}
