// SPDX-License-Identifier: Apache-2.0
// Lowering of leaves, and the description of a value as the instruction that reads it.
#include "lower/loop/lower_private.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

// ---- Reading a value --------------------------------------------------------------------------------
dt_status_t dt__lower_places(dt_lowering_t *ctx, dt_node_id_t id, dt_lowered_t *value,
                             dt_sym_t *at) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  dt_sym_t vars[DT_MAX_LOOPS], extents[DT_MAX_LOOPS];
  dt_sym_t sizes[DT_MAX_RANK];
  uint32_t n_loops = 0;
  dt__lower_stored(ctx, node->dtype, node->rank, node->sizes, sizes);
  DT_TRY(dt__lower_loops(ctx, node->rank, sizes, DT_OPEN_SQUEEZED, vars, extents, &n_loops, at));
  *value = (dt_lowered_t){.rank = node->rank};
  for (uint32_t k = 0; k < node->rank; k++)
    value->places[k] = dt__sym_is_const(ctx->env, at[k], NULL) ? DT_SYM_NONE_ID : at[k];
  return NULL;
}

void dt__lower_substitute(dt_lowering_t *ctx, const dt_lowered_t *value, const dt_sym_t *at,
                          dt_inst_t *out, dt_sym_t *index) {
  dt_sym_t from[DT_MAX_RANK], to[DT_MAX_RANK];
  uint32_t n = 0;
  for (uint32_t k = 0; k < value->rank; k++) {
    if (!value->places[k].id)
      continue;
    from[n] = value->places[k];
    to[n++] = at[k];
  }
  *out = value->read;
  if (out->kind == DT_INST_INDEX)
    out->sym = dt__sym_subst(ctx->env, out->sym, from, to, n);
  if (out->kind != DT_INST_LOAD)
    return;
  uint32_t rank = dt__program_buffer(ctx->program, out->buffer)->rank;
  for (uint32_t d = 0; d < rank; d++)
    index[d] = dt__sym_subst(ctx->env, value->read.index[d], from, to, n);
  out->index = index;
}

dt_status_t dt__lower_from_buffer(dt_lowering_t *ctx, dt_node_id_t id, dt_buffer_id_t buffer) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  dt_lowered_t *value = &ctx->values[id.id - 1];
  dt_sym_t at[DT_MAX_RANK];
  DT_TRY(dt__lower_places(ctx, id, value, at));
  dt_sym_t *index = dt__exprs_copy(ctx->arena, at, node->rank);
  if (!index)
    return DT_NO_MEMORY();
  value->read = (dt_inst_t){.kind = DT_INST_LOAD,
                            .dtype = dt__dtype_stored(node->dtype),
                            .args = {DT_NO_INST, DT_NO_INST, DT_NO_INST},
                            .mask = DT_NO_INST,
                            .buffer = buffer,
                            .index = index};
  return NULL;
}

// ---- Leaves -----------------------------------------------------------------------------------------
static dt_status_t lower_input(dt_lowering_t *ctx, dt_node_id_t id) {
  uint32_t index = dt__lower_node(ctx, id)->attrs->index;
  const dt_graph_input_t *input = &ctx->graph->inputs.items[index];
  if (!input->is_int)
    return dt__lower_from_buffer(ctx, id, ctx->inputs[index]);
  ctx->values[id.id - 1].read = (dt_inst_t){.kind = DT_INST_INDEX,
                                            .dtype = input->dtype,
                                            .sym = dt__sym_simplify(ctx->env, input->value)};
  return NULL;
}

static dt_status_t lower_constant(dt_lowering_t *ctx, dt_node_id_t id) {
  uint32_t index = dt__lower_node(ctx, id)->attrs->index;
  dt_buffer_id_t *made = &ctx->constants[index];
  if (!made->id) {
    const dt_graph_constant_t *constant = &ctx->graph->constants.items[index];
    dt_buffer_t buffer = {.kind = DT_BUFFER_CONSTANT,
                          .dtype = dt__dtype_stored(constant->dtype),
                          .rank = constant->rank,
                          .index = index};
    dt_sym_t sizes[DT_MAX_RANK];
    for (uint32_t d = 0; d < constant->rank; d++)
      sizes[d] = dt__sym_const(ctx->env, constant->sizes[d]);
    dt__lower_stored(ctx, constant->dtype, constant->rank, sizes, buffer.sizes);
    DT_TRY(dt__program_add_buffer(ctx->program, &buffer, made));
  }
  return dt__lower_from_buffer(ctx, id, *made);
}

static dt_status_t lower_scalar(dt_lowering_t *ctx, dt_node_id_t id) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  dt_lowered_t *value = &ctx->values[id.id - 1];
  value->read = (dt_inst_t){.kind = DT_INST_CONST, .dtype = node->dtype};
  if (dt__dtype_is_float(node->dtype))
    value->read.value.f = node->attrs->floats[0];
  else
    value->read.value.i = node->attrs->ints[0];
  return NULL;
}

static dt_status_t lower_size(dt_lowering_t *ctx, dt_node_id_t id) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  ctx->values[id.id - 1].read =
      (dt_inst_t){.kind = DT_INST_INDEX,
                  .dtype = node->dtype,
                  .sym = dt__sym_simplify(ctx->env, node->attrs->syms[0])};
  return NULL;
}

static dt_status_t lower_iota(dt_lowering_t *ctx, dt_node_id_t id) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  dt_lowered_t *value = &ctx->values[id.id - 1];
  dt_sym_t at[DT_MAX_RANK];
  DT_TRY(dt__lower_places(ctx, id, value, at));
  value->read =
      (dt_inst_t){.kind = DT_INST_INDEX, .dtype = node->dtype, .sym = at[node->attrs->axes[0]]};
  return NULL;
}

static const dt_lower_fn_t leaf_fns[DT_OP_COUNT] = {
    [DT_OP_input] = lower_input, [DT_OP_constant] = lower_constant, [DT_OP_scalar] = lower_scalar,
    [DT_OP_size] = lower_size,   [DT_OP_iota] = lower_iota,
};

dt_status_t dt__lower_leaf(dt_lowering_t *ctx, dt_node_id_t id) {
  dt_lower_fn_t fn = leaf_fns[dt__lower_node(ctx, id)->op];
  if (!fn)
    return DT_FAIL(DT_E_INTERNAL, "a leaf without a lowering");
  return fn(ctx, id);
}
