// SPDX-License-Identifier: Apache-2.0
// Lowering of ops that compute each element on its own: element-wise ops, casts, gather, pad,
// concat.
#include "lower/graph/scalar.h"
#include "lower/loop/lower_private.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

// ---- Element-wise -----------------------------------------------------------------------------------
static dt_status_t lower_elements(dt_lowering_t *ctx, dt_node_id_t id, dt_inst_t *inst) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  dt_kernel_t kernel;
  dt_stage_t stage = {0};
  dt_sym_t at[DT_MAX_RANK];
  dt_buffer_id_t buffer;
  uint32_t value = 0;
  DT_TRY(dt__lower_begin(ctx, id, DT_OPEN_SQUEEZED, &kernel, at));
  for (uint32_t k = 0; k < node->n_inputs; k++)
    DT_TRY(
        dt__lower_read(ctx, &stage, node->inputs[k], at, DT_NO_INST, DT_NO_INST, &inst->args[k]));
  DT_TRY(dt__stage_add(ctx->program, &stage, inst, &value));
  DT_TRY(dt__lower_result(ctx, id, &buffer));
  return dt__lower_end(ctx, &kernel, &stage, buffer, at, value);
}

dt_status_t dt__lower_ew(dt_lowering_t *ctx, dt_node_id_t id) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  dt_inst_t inst = {
      .kind = DT_INST_SCALAR, .dtype = node->dtype, .op = dt__op_info(node->op)->scalar};
  if (inst.op == DT_SCALAR_NONE || dt__scalar_info(inst.op)->arity != node->n_inputs)
    return DT_FAIL(DT_E_INTERNAL, "no scalar op of this name and arity");
  return lower_elements(ctx, id, &inst);
}

dt_status_t dt__lower_cast(dt_lowering_t *ctx, dt_node_id_t id) {
  dt_inst_t inst = {.kind = DT_INST_CAST, .dtype = dt__lower_node(ctx, id)->dtype};
  return lower_elements(ctx, id, &inst);
}

// ---- Gather -----------------------------------------------------------------------------------------
static dt_status_t add_check(dt_lowering_t *ctx, const dt_node_t *node, uint32_t *out) {
  const dt_node_t *indices = dt__lower_node(ctx, node->inputs[1]);
  const char *name = "";
  if (indices->op == DT_OP_input)
    name = ctx->graph->inputs.items[indices->attrs->index].name;
  dt_check_t check = {.what = name[0] ? dt__arena_printf(ctx->arena, "gather: index of %s", name)
                                      : "gather: index",
                      .origin = node->origin};
  if (!check.what || !DT_VEC_PUSH(ctx->arena, &ctx->program->checks, check))
    return DT_NO_MEMORY();
  *out = ctx->program->checks.len - 1;
  return NULL;
}

dt_status_t dt__lower_gather(dt_lowering_t *ctx, dt_node_id_t id) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  const dt_node_t *in = dt__lower_node(ctx, node->inputs[0]);
  const dt_node_t *indices = dt__lower_node(ctx, node->inputs[1]);
  uint32_t axis = (uint32_t)node->attrs->axes[0], value = 0, found = 0;
  dt_kernel_t kernel;
  dt_stage_t stage = {0};
  dt_sym_t at[DT_MAX_RANK], old[DT_MAX_RANK];
  dt_buffer_id_t buffer;
  DT_TRY(dt__lower_begin(ctx, id, DT_OPEN_SQUEEZED, &kernel, at));
  dt_inst_t bind = {.kind = DT_INST_BIND,
                    .dtype = DT_BOOL,
                    .mask = DT_NO_INST,
                    .extent = dt__sym_simplify(ctx->env, in->sizes[axis])};
  bind.sym = dt__program_new_data(ctx->program, bind.extent);
  DT_TRY(add_check(ctx, node, &bind.check));
  DT_TRY(dt__lower_read(ctx, &stage, node->inputs[1], at + axis, DT_NO_INST, DT_NO_INST,
                        &bind.args[0]));
  DT_TRY(dt__stage_add(ctx->program, &stage, &bind, &found));
  // Result dims: those of x before the axis, those of the indices, those of x after the axis.
  for (uint32_t d = 0; d < in->rank; d++)
    old[d] = d < axis ? at[d] : d == axis ? bind.sym : at[d + indices->rank - 1];
  DT_TRY(dt__lower_read(ctx, &stage, node->inputs[0], old, found, DT_NO_INST, &value));
  DT_TRY(dt__lower_result(ctx, id, &buffer));
  return dt__lower_end(ctx, &kernel, &stage, buffer, at, value);
}

// ---- Pad, concat ------------------------------------------------------------------------------------
dt_status_t dt__lower_pad(dt_lowering_t *ctx, dt_node_id_t id) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  const dt_node_t *in = dt__lower_node(ctx, node->inputs[0]);
  dt_symenv_t *env = ctx->env;
  dt_kernel_t kernel;
  dt_stage_t stage = {0};
  dt_sym_t at[DT_MAX_RANK], old[DT_MAX_RANK];
  dt_buffer_id_t buffer;
  uint32_t mask = DT_NO_INST, fill = DT_NO_INST, value = 0;
  DT_TRY(dt__lower_begin(ctx, id, DT_OPEN_SQUEEZED, &kernel, at));
  dt_sym_t inside = dt__sym_const(env, 1);
  for (uint32_t d = 0; d < in->rank; d++) {
    dt_sym_t low = node->attrs->syms[2 * d];
    old[d] = dt__sym_sub(env, at[d], low);
    inside = dt__sym_and(env, inside, dt__sym_le(env, low, at[d]));
    inside = dt__sym_and(env, inside, dt__sym_lt(env, at[d], dt__sym_add(env, low, in->sizes[d])));
  }
  if (!dt__sym_known_true(env, inside)) {
    dt_inst_t number = {.kind = DT_INST_CONST, .dtype = node->dtype};
    if (dt__dtype_is_float(node->dtype))
      number.value.f = node->attrs->floats[0];
    else
      number.value.i = node->attrs->ints[0];
    dt_inst_t test = {.kind = DT_INST_INDEX, .dtype = DT_BOOL, .sym = inside};
    DT_TRY(dt__stage_add(ctx->program, &stage, &number, &fill));
    DT_TRY(dt__stage_add(ctx->program, &stage, &test, &mask));
  }
  DT_TRY(dt__lower_read(ctx, &stage, node->inputs[0], old, mask, fill, &value));
  DT_TRY(dt__lower_result(ctx, id, &buffer));
  return dt__lower_end(ctx, &kernel, &stage, buffer, at, value);
}

// One kernel a part, each storing into its own range of the result.
dt_status_t dt__lower_concat(dt_lowering_t *ctx, dt_node_id_t id) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  uint32_t axis = (uint32_t)node->attrs->axes[0];
  dt_sym_t offset = dt__sym_const(ctx->env, 0);
  dt_buffer_id_t buffer;
  DT_TRY(dt__lower_result(ctx, id, &buffer));
  for (uint32_t k = 0; k < node->n_inputs; k++) {
    dt_kernel_t kernel;
    dt_stage_t stage = {0};
    dt_sym_t at[DT_MAX_RANK];
    uint32_t value = 0;
    DT_TRY(dt__lower_begin(ctx, node->inputs[k], DT_OPEN_SQUEEZED, &kernel, at));
    kernel.name = dt__op_info(node->op)->name;
    DT_TRY(dt__lower_read(ctx, &stage, node->inputs[k], at, DT_NO_INST, DT_NO_INST, &value));
    at[axis] = dt__sym_add(ctx->env, at[axis], offset);
    DT_TRY(dt__lower_end(ctx, &kernel, &stage, buffer, at, value));
    offset = dt__sym_add(ctx->env, offset, dt__lower_node(ctx, node->inputs[k])->sizes[axis]);
  }
  return NULL;
}
