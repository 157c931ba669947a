// SPDX-License-Identifier: Apache-2.0 Lowering of calls of users' ops: a kernel that names the
// call, alone in a section, so that nothing is fused with it. Operands are whole buffers: arguments
// as they lie, and temporaries; views and literals are copied first.
#include "lower/graph/external.h"
#include "lower/loop/lower_private.h"
#include "runtime/base/status.h"

// The value is read element by element as the buffer holds it.
static bool reads_whole(const dt_lowering_t *ctx, const dt_lowered_t *value,
                        const dt_node_t *node) {
  if (value->read.kind != DT_INST_LOAD || value->read.mask != DT_NO_INST)
    return false;
  const dt_buffer_t *buffer = dt__program_buffer(ctx->program, value->read.buffer);
  if (buffer->rank != node->rank || buffer->dtype != node->dtype)
    return false;
  for (uint32_t d = 0; d < buffer->rank; d++) {
    bool one = !value->places[d].id; // of size 1: its index is 0
    int64_t index = 0;
    bool same = one ? dt__sym_is_const(ctx->env, value->read.index[d], &index) && index == 0
                    : value->read.index[d].id == value->places[d].id;
    if (!same || !dt__sym_known_eq(ctx->env, buffer->sizes[d], node->sizes[d]))
      return false;
  }
  return true;
}

static dt_status_t operand(dt_lowering_t *ctx, dt_node_id_t id, dt_buffer_id_t *out) {
  const dt_lowered_t *value = &ctx->values[id.id - 1];
  *out = value->read.buffer;
  if (reads_whole(ctx, value, dt__lower_node(ctx, id)))
    return NULL;
  DT_TRY(dt__lower_temp(ctx, id, out));
  return dt__lower_copy(ctx, id, *out);
}

static dt_status_t add_operands(dt_lowering_t *ctx, const dt_node_t *node, dt_stage_t *stage) {
  for (uint32_t k = 0; k < node->n_inputs; k++) {
    dt_inst_t whole = {.kind = DT_INST_WHOLE,
                       .dtype = dt__lower_node(ctx, node->inputs[k])->dtype,
                       .args = {DT_NO_INST, DT_NO_INST, DT_NO_INST},
                       .mask = DT_NO_INST};
    DT_TRY(operand(ctx, node->inputs[k], &whole.buffer));
    if (!DT_VEC_PUSH(ctx->arena, &stage->insts, whole)) // not shared: operands keep their order
      return DT_NO_MEMORY();
  }
  return NULL;
}

static dt_status_t add_result(dt_lowering_t *ctx, const dt_external_result_t *result, uint32_t k,
                              dt_stage_t *stage) {
  dt_buffer_t buffer = {.kind = DT_BUFFER_TEMP, .dtype = result->dtype, .rank = result->rank};
  dt_sym_t zeros[DT_MAX_RANK];
  for (uint32_t d = 0; d < result->rank; d++) {
    buffer.sizes[d] = dt__sym_simplify(ctx->env, result->sizes[d]);
    zeros[d] = dt__sym_const(ctx->env, 0);
  }
  dt_inst_t whole = {.kind = DT_INST_WHOLE,
                     .dtype = result->dtype,
                     .args = {DT_NO_INST, DT_NO_INST, DT_NO_INST},
                     .mask = DT_NO_INST,
                     .row = k};
  dt_store_t store = {.index = dt__exprs_copy(ctx->arena, zeros, result->rank),
                      .value = stage->insts.len,
                      .mask = DT_NO_INST,
                      .whole = true};
  DT_TRY(dt__program_add_buffer(ctx->program, &buffer, &store.buffer));
  if (!store.index || !DT_VEC_PUSH(ctx->arena, &stage->insts, whole) ||
      !DT_VEC_PUSH(ctx->arena, &stage->stores, store))
    return DT_NO_MEMORY();
  return NULL;
}

// The node and its `result` nodes read what the kernel stores.
static dt_status_t give_results(dt_lowering_t *ctx, dt_node_id_t id, const dt_stage_t *stage) {
  DT_TRY(dt__lower_from_buffer(ctx, id, stage->stores.items[0].buffer));
  for (uint32_t at = ctx->next_result[id.id - 1]; at; at = ctx->next_result[at - 1]) {
    uint32_t k = dt__lower_node(ctx, (dt_node_id_t){at})->attrs->index;
    DT_TRY(dt__lower_from_buffer(ctx, (dt_node_id_t){at}, stage->stores.items[k].buffer));
  }
  return NULL;
}

dt_status_t dt__lower_external(dt_lowering_t *ctx, dt_node_id_t id) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  const dt_graph_external_t *external = dt__graph_external(ctx->graph, node);
  dt_kernel_t kernel = {.name = external->name};
  dt_stage_t stage = {0};
  dt_sym_t at, one = dt__sym_const(ctx->env, 1);
  dt_schedule_t schedule = {.kind = DT_SCHEDULE_SERIAL, .lanes = 1, .unroll = 1, .grain = 1};
  DT_TRY(add_operands(ctx, node, &stage));
  for (uint32_t k = 0; k < external->n_results; k++)
    DT_TRY(add_result(ctx, &external->results[k], k, &stage));
  dt_sym_t items = dt__sym_max(ctx->env, one, external->items);
  DT_TRY(dt__lower_loops(ctx, 1, &items, DT_OPEN_ONES, kernel.vars, kernel.extents, &kernel.n_loops,
                         &at));
  kernel.section = dt__lower_new_section(ctx);
  kernel.external = ctx->program->externals.len + 1;
  if (!DT_VEC_PUSH(ctx->arena, &ctx->program->externals, external) ||
      !DT_VEC_PUSH(ctx->arena, &kernel.stages, stage) ||
      !DT_VEC_PUSH(ctx->arena, &kernel.schedules, schedule) ||
      !DT_VEC_PUSH(ctx->arena, &ctx->program->kernels, kernel))
    return DT_NO_MEMORY();
  (void)dt__lower_new_section(ctx);
  return give_results(ctx, id, &stage);
}
