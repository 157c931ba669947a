// SPDX-License-Identifier: Apache-2.0
// Lowering of ops whose results' sizes come from data, and of the ops that compute such sizes:
// numbers read back, running reductions, searches, and stores at places from data.
#include "lower/loop/lower_private.h"
#include "runtime/base/status.h"

// ---- Readbacks ----------------------------------------------------------------------------------
// The number lands in a buffer that the host reads; the value itself is the symbol from then on.
dt_status_t dt__lower_item(dt_lowering_t *ctx, dt_node_id_t id) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  const dt_node_t *in = dt__lower_node(ctx, node->inputs[0]);
  dt_kernel_t kernel = {.name = dt__op_info(node->op)->name, .section = dt__lower_section(ctx)};
  dt_stage_t stage = {0};
  dt_readback_t readback = {.what = kernel.name, .origin = node->origin};
  uint32_t value = 0;
  if (!dt__sym_is_symbol(ctx->env, node->attrs->syms[0], &readback.symbol))
    return DT_FAIL(DT_E_INTERNAL, "a readback that binds no symbol");
  if (node->origin.op && node->origin.op[0])
    readback.what = node->origin.op;
  DT_TRY(dt__lower_read(ctx, &stage, node->inputs[0], NULL, DT_NO_INST, DT_NO_INST, &value));
  dt_inst_t cast = {.kind = DT_INST_CAST, .dtype = DT_I64, .args = {value}};
  if (in->dtype != DT_I64)
    DT_TRY(dt__stage_add(ctx->program, &stage, &cast, &value));
  DT_TRY(dt__lower_temp(ctx, id, &readback.buffer));
  DT_TRY(dt__lower_end(ctx, &kernel, &stage, readback.buffer, NULL, value));
  ctx->values[id.id - 1].read =
      (dt_inst_t){.kind = DT_INST_INDEX,
                  .dtype = node->dtype,
                  .sym = dt__sym_simplify(ctx->env, node->attrs->syms[0])};
  return DT_VEC_PUSH(ctx->arena, &ctx->program->readbacks, readback) ? NULL : DT_NO_MEMORY();
}

// ---- Running sums -----------------------------------------------------------------------------------
dt_status_t dt__lower_scan(dt_lowering_t *ctx, dt_node_id_t id) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  uint32_t axis = (uint32_t)node->attrs->axes[0], value = 0;
  dt_kernel_t kernel = {
      .name = dt__op_info(node->op)->name, .n_rows = 1, .section = dt__lower_section(ctx)};
  dt_stage_t stage = {0};
  dt_sym_t at[DT_MAX_RANK];
  dt_buffer_id_t buffer;
  if (node->attrs->mode & (DT_SCAN_EXCLUSIVE | DT_SCAN_REVERSE))
    return DT_FAIL(DT_E_INTERNAL, "a scan of mode %u is decomposed first", node->attrs->mode);
  for (uint32_t d = 0; d < node->rank; d++) {
    bool inner = d == axis;
    DT_TRY(dt__lower_loops(ctx, 1, &node->sizes[d], DT_OPEN_SQUEEZED,
                           inner ? stage.vars : kernel.vars, inner ? stage.extents : kernel.extents,
                           inner ? &stage.n_loops : &kernel.n_loops, &at[d]));
  }
  dt_reduction_t reduction = {.kind = DT_REDUCE_SUM, .index = DT_NO_INST, .dtype = node->dtype};
  dt_inst_t running = {.kind = DT_INST_RUNNING, .dtype = node->dtype};
  DT_TRY(
      dt__lower_read(ctx, &stage, node->inputs[0], at, DT_NO_INST, DT_NO_INST, &reduction.value));
  DT_TRY(dt__stage_add(ctx->program, &stage, &running, &value));
  if (!DT_VEC_PUSH(ctx->arena, &stage.reductions, reduction))
    return DT_NO_MEMORY();
  DT_TRY(dt__lower_result(ctx, id, &buffer));
  return dt__lower_end(ctx, &kernel, &stage, buffer, at, value);
}

// ---- Searches ---------------------------------------------------------------------------------------
// The value as a rank-1 buffer that holds it and nothing else; made where it is read otherwise.
static dt_status_t whole_buffer(dt_lowering_t *ctx, dt_node_id_t id, dt_buffer_id_t *out) {
  const dt_lowered_t *value = &ctx->values[id.id - 1];
  const dt_inst_t *read = &value->read;
  *out = (dt_buffer_id_t){0};
  if (read->kind == DT_INST_LOAD && read->mask == DT_NO_INST) {
    const dt_buffer_t *buffer = dt__program_buffer(ctx->program, read->buffer);
    if (buffer->rank == 1 && value->places[0].id && read->index[0].id == value->places[0].id &&
        dt__sym_known_eq(ctx->env, buffer->sizes[0], dt__lower_node(ctx, id)->sizes[0])) {
      *out = read->buffer;
      return NULL;
    }
  }
  DT_TRY(dt__lower_temp(ctx, id, out));
  return dt__lower_copy(ctx, id, *out);
}

dt_status_t dt__lower_search(dt_lowering_t *ctx, dt_node_id_t id) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  dt_kernel_t kernel;
  dt_stage_t stage = {0};
  dt_sym_t at[DT_MAX_RANK];
  dt_buffer_id_t buffer;
  uint32_t value = 0;
  dt_inst_t search = {.kind = DT_INST_SEARCH,
                      .dtype = DT_I64,
                      .inclusive = (node->attrs->mode & DT_SEARCH_INCLUSIVE) != 0};
  DT_TRY(whole_buffer(ctx, node->inputs[0], &search.buffer));
  DT_TRY(dt__lower_begin(ctx, id, DT_OPEN_SQUEEZED, &kernel, at));
  DT_TRY(dt__lower_read(ctx, &stage, node->inputs[1], at, DT_NO_INST, DT_NO_INST, &search.args[0]));
  DT_TRY(dt__stage_add(ctx->program, &stage, &search, &value));
  DT_TRY(dt__lower_result(ctx, id, &buffer));
  return dt__lower_end(ctx, &kernel, &stage, buffer, at, value);
}

// ---- Rows by place ------------------------------------------------------------------------------------
// No values a row: the result has no elements, but is written like any other.
static dt_status_t compress_nothing(dt_lowering_t *ctx, dt_node_id_t id) {
  dt_kernel_t kernel;
  dt_stage_t stage = {0};
  dt_sym_t at[DT_MAX_RANK];
  dt_buffer_id_t buffer;
  uint32_t value = 0;
  dt_inst_t zero = {.kind = DT_INST_CONST, .dtype = dt__lower_node(ctx, id)->dtype};
  DT_TRY(dt__lower_begin(ctx, id, DT_OPEN_SQUEEZED, &kernel, at));
  DT_TRY(dt__stage_add(ctx->program, &stage, &zero, &value));
  DT_TRY(dt__lower_result(ctx, id, &buffer));
  return dt__lower_end(ctx, &kernel, &stage, buffer, at, value);
}

static dt_status_t add_store(dt_lowering_t *ctx, dt_stage_t *stage, dt_buffer_id_t buffer,
                             dt_sym_t row, uint32_t column, uint32_t value, uint32_t mask) {
  dt_sym_t index[2] = {row, dt__sym_const(ctx->env, column)};
  dt_store_t store = {.buffer = buffer,
                      .index = dt__exprs_copy(ctx->arena, index, 2),
                      .value = value,
                      .mask = mask};
  return store.index && DT_VEC_PUSH(ctx->arena, &stage->stores, store) ? NULL : DT_NO_MEMORY();
}

// Each element under the mask stores its values in the row that `places` says. A place outside of
// the result, which correct counts cannot give, is a failure and not a store.
dt_status_t dt__lower_compress(dt_lowering_t *ctx, dt_node_id_t id) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  if (node->n_inputs <= 2)
    return compress_nothing(ctx, id);
  dt_kernel_t kernel;
  dt_stage_t stage = {0};
  dt_sym_t at[DT_MAX_RANK];
  dt_buffer_id_t buffer;
  uint32_t stored = 0;
  dt_check_t check = {.what = "compress: place", .origin = node->origin};
  if (!DT_VEC_PUSH(ctx->arena, &ctx->program->checks, check))
    return DT_NO_MEMORY();
  dt_inst_t bind = {.kind = DT_INST_BIND,
                    .dtype = DT_BOOL,
                    .check = ctx->program->checks.len - 1,
                    .extent = dt__sym_simplify(ctx->env, node->sizes[0])};
  bind.sym = dt__program_new_data(ctx->program, bind.extent);
  DT_TRY(dt__lower_begin(ctx, node->inputs[0], DT_OPEN_SQUEEZED, &kernel, at));
  kernel.name = dt__op_info(node->op)->name;
  DT_TRY(dt__lower_read(ctx, &stage, node->inputs[0], at, DT_NO_INST, DT_NO_INST, &bind.mask));
  DT_TRY(dt__lower_read(ctx, &stage, node->inputs[1], at, DT_NO_INST, DT_NO_INST, &bind.args[0]));
  DT_TRY(dt__stage_add(ctx->program, &stage, &bind, &stored));
  DT_TRY(dt__lower_result(ctx, id, &buffer));
  for (uint32_t k = 2; k < node->n_inputs; k++) {
    uint32_t value = 0;
    DT_TRY(dt__lower_read(ctx, &stage, node->inputs[k], at, DT_NO_INST, DT_NO_INST, &value));
    DT_TRY(add_store(ctx, &stage, buffer, bind.sym, k - 2, value, stored));
  }
  if (!DT_VEC_PUSH(ctx->arena, &kernel.stages, stage) ||
      !DT_VEC_PUSH(ctx->arena, &ctx->program->kernels, kernel))
    return DT_NO_MEMORY();
  return NULL;
}
