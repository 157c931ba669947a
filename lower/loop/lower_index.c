// SPDX-License-Identifier: Apache-2.0
// Lowering of ops that read and replace elements by indices, which are checked where they are read.
//
// A scatter is a copy of its operand, and a kernel that revises the copy. Updates that may meet are
// in its inner loops, which run in order: one iteration of the outer loops has all updates of its
// elements, so results do not depend on threads. If an argument may receive the updates, too, the
// places are checked and kept by a kernel of their own: those that write arguments may not fail.
#include "lower/loop/lower_private.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

// Of one element's place: the check they share, and whether all indices so far were in range.
typedef struct places_t {
  dt_lowering_t *ctx;
  const dt_node_t *node;
  dt_stage_t *stage;
  uint32_t check, found;
  dt_buffer_id_t kept; // where the places are, checked; or none
} places_t;

static dt_status_t add_check(places_t *p) {
  dt_lowering_t *ctx = p->ctx;
  const dt_node_t *indices = dt__lower_node(ctx, p->node->inputs[1]);
  const char *op = dt__op_info(p->node->op)->name, *name = "";
  p->check = DT_NO_CHECK;
  p->found = DT_NO_INST;
  if (p->kept.id)
    return NULL;
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
  return NULL;
}

static dt_status_t read_place(places_t *p, const dt_sym_t *at, uint32_t *out) {
  dt_lowering_t *ctx = p->ctx;
  dt_sym_t index[DT_MAX_RANK];
  if (!p->kept.id)
    return dt__lower_read(ctx, p->stage, p->node->inputs[1], at, DT_NO_INST, DT_NO_INST, out);
  const dt_buffer_t *kept = dt__program_buffer(ctx->program, p->kept);
  int64_t size = 0;
  for (uint32_t d = 0; d < kept->rank; d++)
    index[d] = dt__sym_is_const(ctx->env, kept->sizes[d], &size) && size == 1
                   ? dt__sym_const(ctx->env, 0)
                   : at[d];
  dt_inst_t load = {
      .kind = DT_INST_LOAD, .dtype = DT_I64, .mask = DT_NO_INST, .buffer = p->kept, .index = index};
  return dt__stage_add(ctx->program, p->stage, &load, out);
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
  DT_TRY(read_place(p, at, &inst.args[0]));
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

// The indices are start, start + 1, … along the axis, whatever the others are, and are computed
// from sizes alone.
static bool follow(const dt_lowering_t *ctx, const dt_node_t *node, dt_sym_t *start) {
  const dt_lowered_t *indices = &ctx->values[node->inputs[1].id - 1];
  dt_sym_t var = indices->places[node->attrs->axes[0]], zero = dt__sym_const(ctx->env, 0);
  if (!var.id || indices->read.kind != DT_INST_INDEX)
    return false;
  *start = dt__sym_subst(ctx->env, indices->read.sym, &var, &zero, 1);
  for (uint32_t d = 0; d < node->rank; d++)
    if (indices->places[d].id && dt__sym_depends(ctx->env, *start, indices->places[d]))
      return false;
  return dt__sym_known_eq(ctx->env, indices->read.sym, dt__sym_add(ctx->env, *start, var));
}

// Indices that are computed from loops and sizes alone, as those of a slice, and never lie outside:
// nothing is to be checked.
static bool are_inside(const dt_lowering_t *ctx, const dt_node_t *node) {
  dt_symenv_t *env = ctx->env;
  if (!by_element(node))
    return false;
  const dt_inst_t *read = &ctx->values[node->inputs[1].id - 1].read;
  uint32_t axis = (uint32_t)node->attrs->axes[0];
  dt_sym_t extent = dt__lower_node(ctx, node->inputs[0])->sizes[axis], start;
  if (read->kind != DT_INST_INDEX || read->dtype != DT_I64 ||
      !dt__sym_known_true(env, dt__sym_le(env, dt__sym_const(env, 0), read->sym)))
    return false;
  if (dt__sym_known_true(env, dt__sym_lt(env, read->sym, extent)))
    return true;
  dt_sym_t count = dt__lower_node(ctx, node->inputs[1])->sizes[axis];
  return follow(ctx, node, &start) &&
         dt__sym_known_true(env, dt__sym_le(env, dt__sym_add(env, start, count), extent));
}

// The index in x of the element that `at` speaks of: an index of the gather's result, or of the
// scatter's updates.
static dt_status_t find_place(places_t *p, const dt_sym_t *at, dt_sym_t *out) {
  const dt_node_t *x = dt__lower_node(p->ctx, p->node->inputs[0]);
  const dt_node_t *indices = dt__lower_node(p->ctx, p->node->inputs[1]);
  if (by_element(p->node)) {
    uint32_t axis = (uint32_t)p->node->attrs->axes[0];
    for (uint32_t d = 0; d < x->rank; d++)
      out[d] = at[d];
    if (are_inside(p->ctx, p->node)) {
      dt_inst_t read;
      dt__lower_substitute(p->ctx, &p->ctx->values[p->node->inputs[1].id - 1], at, &read, NULL);
      out[axis] = read.sym;
      p->found = DT_NO_INST;
      return NULL;
    }
    DT_TRY(add_check(p));
    return bind(p, at, x->sizes[axis], &out[axis]);
  }
  DT_TRY(add_check(p));
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

// What joins an update with the element that it is for; or none, where it replaces that.
static dt_scalar_op_t join_op(const dt_node_t *node) {
  static const dt_scalar_op_t ops[DT_JOIN_COUNT] = {DT_SCALAR_NONE, DT_SCALAR_add, DT_SCALAR_mul,
                                                    DT_SCALAR_maximum, DT_SCALAR_minimum};
  return ops[node->attrs->mode % DT_JOIN_APART];
}

// The update joined with what is at `to` of the buffer.
static dt_status_t join(places_t *p, dt_buffer_id_t buffer, const dt_sym_t *to, uint32_t *value) {
  dt_inst_t scalar = {.kind = DT_INST_SCALAR,
                      .dtype = p->node->dtype,
                      .op = join_op(p->node),
                      .args = {0, *value, DT_NO_INST}};
  if (scalar.op == DT_SCALAR_NONE)
    return NULL;
  dt_inst_t load = {.kind = DT_INST_LOAD,
                    .dtype = dt__program_buffer(p->ctx->program, buffer)->dtype,
                    .mask = p->found,
                    .args = {DT_NO_INST, DT_NO_INST, DT_NO_INST},
                    .buffer = buffer,
                    .index = to};
  DT_TRY(dt__stage_add(p->ctx->program, p->stage, &load, &scalar.args[0]));
  DT_TRY(dt__lower_bits_inst(p->ctx, p->stage, load.dtype, p->node->dtype, &scalar.args[0]));
  return dt__stage_add(p->ctx->program, p->stage, &scalar, value);
}

// ---- Kept places ------------------------------------------------------------------------------------
// Whether the indices differ along dim d: those of a slice mostly do along its axis only.
static bool varies(const dt_lowering_t *ctx, const dt_lowered_t *indices, uint32_t d) {
  const dt_inst_t *read = &indices->read;
  dt_sym_t var = indices->places[d];
  bool varies = read->kind == DT_INST_INDEX && dt__sym_depends(ctx->env, read->sym, var);
  if (!var.id || read->kind != DT_INST_LOAD)
    return var.id && varies;
  for (uint32_t k = 0; k < dt__program_buffer(ctx->program, read->buffer)->rank; k++)
    varies = varies || dt__sym_depends(ctx->env, read->index[k], var);
  return varies;
}

static dt_status_t places_buffer(dt_lowering_t *ctx, const dt_node_t *node, dt_buffer_id_t *out) {
  const dt_node_t *indices = dt__lower_node(ctx, node->inputs[1]);
  dt_buffer_t buffer = {.kind = DT_BUFFER_TEMP, .dtype = DT_I64, .rank = indices->rank};
  for (uint32_t d = 0; d < indices->rank; d++) {
    bool tuple = !by_element(node) && d + 1 == indices->rank;
    buffer.sizes[d] = tuple || varies(ctx, &ctx->values[node->inputs[1].id - 1], d)
                          ? dt__sym_simplify(ctx->env, indices->sizes[d])
                          : dt__sym_const(ctx->env, 1);
  }
  return dt__program_add_buffer(ctx->program, &buffer, out);
}

// The index that is checked at `at` of the indices, stored there.
static dt_status_t keep_place(places_t *p, dt_buffer_id_t buffer, const dt_sym_t *at,
                              dt_sym_t extent) {
  dt_lowering_t *ctx = p->ctx;
  dt_inst_t place = {.kind = DT_INST_INDEX, .dtype = DT_I64};
  dt_store_t store = {.buffer = buffer, .mask = DT_NO_INST};
  DT_TRY(bind(p, at, extent, &place.sym));
  DT_TRY(dt__stage_add(ctx->program, p->stage, &place, &store.value));
  store.index = dt__exprs_copy(ctx->arena, at, dt__program_buffer(ctx->program, buffer)->rank);
  return store.index && DT_VEC_PUSH(ctx->arena, &p->stage->stores, store) ? NULL : DT_NO_MEMORY();
}

static dt_status_t keep_places(dt_lowering_t *ctx, dt_node_id_t id) {
  const dt_node_t *node = dt__lower_node(ctx, id), *x = dt__lower_node(ctx, node->inputs[0]);
  dt_kernel_t kernel = {.name = "places", .section = dt__lower_section(ctx)};
  dt_stage_t stage = {0};
  dt_buffer_id_t buffer;
  dt_sym_t at[DT_MAX_RANK];
  int64_t k = 1;
  places_t p = {.ctx = ctx, .node = node, .stage = &stage};
  DT_TRY(places_buffer(ctx, node, &buffer));
  dt_buffer_t made = *dt__program_buffer(ctx->program, buffer);
  uint32_t batch = node->attrs->n_axes, rank = by_element(node) ? made.rank : made.rank - 1;
  if (rank < made.rank && !dt__sym_is_const(ctx->env, made.sizes[rank], &k))
    return DT_FAIL(DT_E_INTERNAL, "tuples of indices of no literal size");
  DT_TRY(dt__lower_loops(ctx, rank, made.sizes, DT_OPEN_SQUEEZED, kernel.vars, kernel.extents,
                         &kernel.n_loops, at));
  DT_TRY(add_check(&p));
  if (by_element(node))
    DT_TRY(keep_place(&p, buffer, at, x->sizes[node->attrs->axes[0]]));
  for (uint32_t d = 0; !by_element(node) && d < (uint32_t)k; d++) {
    at[rank] = dt__sym_const(ctx->env, d);
    DT_TRY(keep_place(&p, buffer, at, x->sizes[batch + d]));
  }
  ctx->places[id.id - 1] = buffer;
  if (stage.stores.len == 0)
    return NULL; // tuples of nothing
  if (!DT_VEC_PUSH(ctx->arena, &kernel.stages, stage) ||
      !DT_VEC_PUSH(ctx->arena, &ctx->program->kernels, kernel))
    return DT_NO_MEMORY();
  return NULL;
}

// ---- Scatters ---------------------------------------------------------------------------------------
dt_status_t dt__lower_revision(dt_lowering_t *ctx, dt_node_id_t id, const dt_lowered_t *whole,
                               dt_buffer_id_t source) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  dt_kernel_t kernel = {.name = source.id ? "update" : dt__op_info(node->op)->name,
                        .section = dt__lower_section(ctx)};
  dt_stage_t stage = {0};
  dt_sym_t at[DT_MAX_RANK], to[DT_MAX_RANK], index[DT_MAX_RANK];
  dt_inst_t place, load = {.kind = DT_INST_LOAD,
                           .dtype = node->dtype,
                           .mask = DT_NO_INST,
                           .buffer = source,
                           .index = at};
  uint32_t value = 0;
  places_t p = {.ctx = ctx, .node = node, .stage = &stage, .kept = ctx->places[id.id - 1]};
  DT_TRY(open_loops(ctx, node, &kernel, &stage, at));
  DT_TRY(find_place(&p, at, to));
  if (source.id)
    DT_TRY(dt__stage_add(ctx->program, &stage, &load, &value));
  else
    DT_TRY(dt__lower_read(ctx, &stage, node->inputs[2], at, DT_NO_INST, DT_NO_INST, &value));
  dt__lower_substitute(ctx, whole, to, &place, index);
  DT_TRY(join(&p, place.buffer, index, &value));
  dt_dtype_t stored = dt__program_buffer(ctx->program, place.buffer)->dtype;
  DT_TRY(dt__lower_bits_inst(ctx, &stage, node->dtype, stored, &value));
  dt_store_t store = {.buffer = place.buffer,
                      .index = dt__exprs_copy(ctx->arena, index,
                                              dt__program_buffer(ctx->program, place.buffer)->rank),
                      .value = value,
                      .mask = p.found,
                      .revises = true};
  if (!store.index || !DT_VEC_PUSH(ctx->arena, &stage.stores, store) ||
      !DT_VEC_PUSH(ctx->arena, &kernel.stages, stage) ||
      !DT_VEC_PUSH(ctx->arena, &ctx->program->kernels, kernel))
    return DT_NO_MEMORY();
  return NULL;
}

// Rows of the operand, whole, that follow one another along the axis.
typedef struct rows_t {
  uint32_t axis;
  bool known;     // the first is number `start`, an expression of loops of other dims and of sizes
  dt_sym_t start; // else there is one, and its place is read
  dt_sym_t count;
  bool tuple;    // the place is a tuple of one index; the updates have `lead` dims of size 1
  uint32_t lead; // before those of the row, which has no axis
} rows_t;

// As long as the operand along every dim but the axis.
static bool are_whole(const dt_lowering_t *ctx, const dt_node_t *node) {
  const dt_node_t *x = dt__lower_node(ctx, node->inputs[0]);
  const dt_node_t *updates = dt__lower_node(ctx, node->inputs[2]);
  for (uint32_t d = 0; d < x->rank; d++)
    if ((int32_t)d != node->attrs->axes[0] &&
        !dt__sym_known_eq(ctx->env, updates->sizes[d], x->sizes[d]))
      return false;
  return true;
}

// The scatter has one tuple of one index.
static bool find_tuple(const dt_lowering_t *ctx, const dt_node_t *node, rows_t *out) {
  const dt_node_t *indices = dt__lower_node(ctx, node->inputs[1]);
  dt_sym_t one = dt__sym_const(ctx->env, 1);
  *out = (rows_t){.tuple = true, .lead = indices->rank - 1};
  for (uint32_t d = 0; d < indices->rank; d++)
    if (!dt__sym_known_eq(ctx->env, indices->sizes[d], one))
      return false;
  return node->attrs->n_axes == 0;
}

static bool find_rows(const dt_lowering_t *ctx, const dt_node_t *node, rows_t *out) {
  if (!by_element(node))
    return find_tuple(ctx, node, out);
  if (!are_whole(ctx, node))
    return false;
  uint32_t axis = (uint32_t)node->attrs->axes[0];
  *out = (rows_t){.axis = axis, .count = dt__lower_node(ctx, node->inputs[2])->sizes[axis]};
  if (dt__sym_known_eq(ctx->env, out->count, dt__sym_const(ctx->env, 1)))
    return true;
  out->known = true;
  return are_inside(ctx, node) && follow(ctx, node, &out->start);
}

// Whether element `all` of the operand is of one of the rows; `row` receives its index in the
// updates.
static dt_status_t is_row(places_t *p, const rows_t *rows, const dt_sym_t *all, dt_sym_t *row) {
  dt_lowering_t *ctx = p->ctx;
  dt_symenv_t *env = ctx->env;
  uint32_t axis = rows->axis, rank = p->node->rank;
  dt_sym_t at = all[axis], place[DT_MAX_RANK];
  dt_inst_t here = {.kind = DT_INST_INDEX, .dtype = DT_I64, .sym = at};
  dt_inst_t same = {.kind = DT_INST_SCALAR, .dtype = DT_BOOL, .op = DT_SCALAR_eq};
  for (uint32_t d = 0; d < DT_MAX_RANK; d++)
    row[d] = place[d] = dt__sym_const(env, 0);
  for (uint32_t d = 0; d < rank; d++)
    if (d != axis)
      row[rows->tuple ? rows->lead + d - 1 : d] = all[d];
  if (!rows->known) {
    DT_TRY(dt__stage_add(ctx->program, p->stage, &here, &same.args[0]));
    DT_TRY(read_place(p, rows->tuple ? place : row, &same.args[1]));
    return dt__stage_add(ctx->program, p->stage, &same, &p->found);
  }
  dt_sym_t end = dt__sym_add(env, rows->start, rows->count);
  row[axis] = dt__sym_sub(env, at, rows->start);
  here.dtype = DT_BOOL;
  here.sym = dt__sym_and(env, dt__sym_le(env, rows->start, at), dt__sym_lt(env, at, end));
  return dt__stage_add(ctx->program, p->stage, &here, &p->found);
}

// Element `row` of the updates where it is one of the rows, or joined with the operand's element
// `old`; else that.
static dt_status_t choose(places_t *p, const dt_sym_t *row, uint32_t old, uint32_t *out) {
  dt_lowering_t *ctx = p->ctx;
  dt_scalar_op_t op = join_op(p->node);
  dt_inst_t joined = {
      .kind = DT_INST_SCALAR, .dtype = p->node->dtype, .op = op, .args = {old, 0, DT_NO_INST}};
  dt_inst_t where = {.kind = DT_INST_SCALAR,
                     .dtype = p->node->dtype,
                     .op = DT_SCALAR_where,
                     .args = {p->found, 0, old}};
  if (op == DT_SCALAR_NONE)
    return dt__lower_read(ctx, p->stage, p->node->inputs[2], row, p->found, old, out);
  DT_TRY(dt__lower_read(ctx, p->stage, p->node->inputs[2], row, p->found, DT_NO_INST,
                        &joined.args[1]));
  DT_TRY(dt__stage_add(ctx->program, p->stage, &joined, &where.args[1]));
  return dt__stage_add(ctx->program, p->stage, &where, out);
}

// A map, which can be inlined: each element is made of that of a row, or is the operand's. So who
// reads the value reads the operand where it lies, and the rows.
static dt_status_t choose_rows(dt_lowering_t *ctx, dt_node_id_t id, const rows_t *rows) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  uint32_t old = 0, value = 0;
  dt_kernel_t kernel;
  dt_stage_t stage = {0};
  dt_buffer_id_t buffer;
  dt_sym_t at[DT_MAX_RANK], row[DT_MAX_RANK];
  places_t p = {.ctx = ctx, .node = node, .stage = &stage, .kept = ctx->places[id.id - 1]};
  DT_TRY(dt__lower_begin(ctx, id, DT_OPEN_SQUEEZED, &kernel, at));
  DT_TRY(is_row(&p, rows, at, row));
  DT_TRY(dt__lower_read(ctx, &stage, node->inputs[0], at, DT_NO_INST, DT_NO_INST, &old));
  DT_TRY(choose(&p, row, old, &value));
  DT_TRY(dt__lower_result(ctx, id, &buffer));
  return dt__lower_end(ctx, &kernel, &stage, buffer, at, value);
}

dt_status_t dt__lower_scatter(dt_lowering_t *ctx, dt_node_id_t id) {
  dt_buffer_id_t buffer;
  rows_t rows;
  if (ctx->commits[id.id - 1] && !are_inside(ctx, dt__lower_node(ctx, id)))
    DT_TRY(keep_places(ctx, id));
  if (ctx->commits[id.id - 1] && find_rows(ctx, dt__lower_node(ctx, id), &rows))
    return choose_rows(ctx, id, &rows);
  DT_TRY(dt__lower_temp(ctx, id, &buffer));
  DT_TRY(dt__lower_copy(ctx, dt__lower_node(ctx, id)->inputs[0], buffer));
  DT_TRY(dt__lower_from_buffer(ctx, id, buffer));
  return dt__lower_revision(ctx, id, &ctx->values[id.id - 1], (dt_buffer_id_t){0});
}
