// SPDX-License-Identifier: Apache-2.0
// Lowering of a graph: dispatch, outputs, and the common parts of lowering an op. lower_<kind>.c
// has the ops themselves.
//
// A view makes no kernel, but another description of how its input is read. Every other op makes
// one kernel that stores its whole result in one buffer (concat: one kernel a part).
#include "lower/loop/lower_private.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#include <string.h>

static const dt_lower_fn_t lower_fns[] = {
    [DT_LOWER_none] = NULL,
    [DT_LOWER_leaf] = dt__lower_leaf,
    [DT_LOWER_ew] = dt__lower_ew,
    [DT_LOWER_part] = dt__lower_ew,
    [DT_LOWER_cast] = dt__lower_cast,
    [DT_LOWER_bits] = dt__lower_bits,
    [DT_LOWER_view] = dt__lower_view,
    [DT_LOWER_reduce] = dt__lower_reduce,
    [DT_LOWER_argreduce] = dt__lower_argreduce,
    [DT_LOWER_gather] = dt__lower_gather,
    [DT_LOWER_gather_at] = dt__lower_gather_at,
    [DT_LOWER_scatter] = dt__lower_scatter,
    [DT_LOWER_pad] = dt__lower_pad,
    [DT_LOWER_concat] = dt__lower_concat,
    [DT_LOWER_matmul] = dt__lower_matmul,
    [DT_LOWER_item] = dt__lower_item,
    [DT_LOWER_scan] = dt__lower_scan,
    [DT_LOWER_search] = dt__lower_search,
    [DT_LOWER_compress] = dt__lower_compress,
    [DT_LOWER_control] = dt__lower_control,
    [DT_LOWER_external] = dt__lower_external,
    [DT_LOWER_overlap] = dt__lower_overlap,
};

// ---- Pieces ---------------------------------------------------------------------------------------
dt_status_t dt__lower_loops(dt_lowering_t *ctx, uint32_t rank, const dt_sym_t *sizes, dt_open_t how,
                            dt_sym_t *vars, dt_sym_t *extents, uint32_t *n_loops, dt_sym_t *at) {
  for (uint32_t k = 0; k < rank; k++) {
    dt_sym_t size = dt__sym_simplify(ctx->env, sizes[k]);
    int64_t literal = 0;
    if (how == DT_OPEN_SQUEEZED && dt__sym_is_const(ctx->env, size, &literal) && literal == 1) {
      at[k] = dt__sym_const(ctx->env, 0);
      continue;
    }
    if (*n_loops == DT_MAX_LOOPS)
      return DT_FAIL(DT_E_LIMIT, "a kernel would have more than %d loops", DT_MAX_LOOPS);
    at[k] = dt__sym_new_loop(ctx->env, size);
    vars[*n_loops] = at[k];
    extents[(*n_loops)++] = size;
  }
  return dt__symenv_status(ctx->env);
}

uint32_t dt__lower_section(const dt_lowering_t *ctx) {
  return ctx->program->n_sections ? ctx->program->n_sections - 1 : 0;
}

uint32_t dt__lower_new_section(dt_lowering_t *ctx) {
  dt_program_t *program = ctx->program;
  program->n_sections = program->n_sections ? program->n_sections + 1 : 2;
  return program->n_sections - 1;
}

dt_status_t dt__lower_begin(dt_lowering_t *ctx, dt_node_id_t id, dt_open_t how, dt_kernel_t *kernel,
                            dt_sym_t *at) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  memset(kernel, 0, sizeof(*kernel));
  kernel->name = dt__op_info(node->op)->name;
  kernel->section = dt__lower_section(ctx);
  dt_sym_t sizes[DT_MAX_RANK];
  dt__lower_stored(ctx, node->dtype, node->rank, node->sizes, sizes);
  return dt__lower_loops(ctx, node->rank, sizes, how, kernel->vars, kernel->extents,
                         &kernel->n_loops, at);
}

static dt_status_t add_buffer(dt_lowering_t *ctx, dt_node_id_t id, dt_buffer_kind_t kind,
                              uint32_t index, dt_buffer_id_t *out) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  dt_buffer_t buffer = {
      .kind = kind, .dtype = dt__dtype_stored(node->dtype), .rank = node->rank, .index = index};
  dt__lower_stored(ctx, node->dtype, node->rank, node->sizes, buffer.sizes);
  return dt__program_add_buffer(ctx->program, &buffer, out);
}

dt_status_t dt__lower_temp(dt_lowering_t *ctx, dt_node_id_t id, dt_buffer_id_t *out) {
  return add_buffer(ctx, id, DT_BUFFER_TEMP, 0, out);
}

dt_status_t dt__lower_result(dt_lowering_t *ctx, dt_node_id_t id, dt_buffer_id_t *out) {
  DT_TRY(dt__lower_temp(ctx, id, out));
  return dt__lower_from_buffer(ctx, id, *out);
}

dt_status_t dt__lower_end(dt_lowering_t *ctx, dt_kernel_t *kernel, dt_stage_t *stage,
                          dt_buffer_id_t buffer, const dt_sym_t *at, uint32_t value) {
  uint32_t rank = dt__program_buffer(ctx->program, buffer)->rank;
  dt_store_t store = {.buffer = buffer,
                      .index = dt__exprs_copy(ctx->arena, at, rank),
                      .value = value,
                      .mask = DT_NO_INST};
  if (!store.index || !DT_VEC_PUSH(ctx->arena, &stage->stores, store) ||
      !DT_VEC_PUSH(ctx->arena, &kernel->stages, *stage) ||
      !DT_VEC_PUSH(ctx->arena, &ctx->program->kernels, *kernel))
    return DT_NO_MEMORY();
  return NULL;
}

dt_status_t dt__lower_read(dt_lowering_t *ctx, dt_stage_t *stage, dt_node_id_t id,
                           const dt_sym_t *at, uint32_t mask, uint32_t fill, uint32_t *out) {
  const dt_lowered_t *value = &ctx->values[id.id - 1];
  dt_sym_t index[DT_MAX_RANK];
  dt_inst_t read;
  dt__lower_substitute(ctx, value, at, &read, index);
  if (mask == DT_NO_INST)
    return dt__stage_add(ctx->program, stage, &read, out);
  if (read.kind == DT_INST_LOAD) {
    read.mask = mask;
    read.args[0] = fill;
    return dt__stage_add(ctx->program, stage, &read, out);
  }
  uint32_t leaf = 0;
  DT_TRY(dt__stage_add(ctx->program, stage, &read, &leaf));
  if (fill == DT_NO_INST) {
    dt_inst_t zero = {.kind = DT_INST_CONST, .dtype = read.dtype};
    DT_TRY(dt__stage_add(ctx->program, stage, &zero, &fill));
  }
  dt_inst_t where = {.kind = DT_INST_SCALAR,
                     .dtype = read.dtype,
                     .op = DT_SCALAR_where,
                     .args = {mask, leaf, fill}};
  return dt__stage_add(ctx->program, stage, &where, out);
}

dt_status_t dt__lower_row(dt_lowering_t *ctx, dt_stage_t *stage, dt_dtype_t dtype, uint32_t row,
                          uint32_t *out) {
  dt_inst_t inst = {.kind = DT_INST_ROW, .dtype = dtype, .row = row};
  return dt__stage_add(ctx->program, stage, &inst, out);
}

// ---- Outputs --------------------------------------------------------------------------------------
// What a call gives may be read by views, and be one of its operands.
static bool is_whole(const dt_lowering_t *ctx, dt_node_id_t id) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  const dt_lowered_t *value = &ctx->values[id.id - 1];
  if (value->read.kind != DT_INST_LOAD)
    return false;
  const dt_buffer_t *buffer = dt__program_buffer(ctx->program, value->read.buffer);
  dt_sym_t sizes[DT_MAX_RANK];
  dt__lower_stored(ctx, node->dtype, node->rank, node->sizes, sizes);
  bool whole = buffer->rank == node->rank && !dt__dtype_is_packed(node->dtype);
  for (uint32_t d = 0; whole && d < node->rank; d++) {
    int64_t zero = 1;
    whole =
        buffer->sizes[d].id == dt__sym_simplify(ctx->env, sizes[d]).id &&
        (value->places[d].id ? value->read.index[d].id == value->places[d].id
                             : dt__sym_is_const(ctx->env, value->read.index[d], &zero) && !zero);
  }
  return whole;
}

dt_buffer_id_t dt__lower_own_buffer(const dt_lowering_t *ctx, dt_node_id_t id) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  dt_lower_kind_t kind = dt__op_info(node->op)->lower;
  if (node->op == DT_OP_result && dt__lower_node(ctx, node->inputs[0])->op == DT_OP_call &&
      !is_whole(ctx, id))
    return (dt_buffer_id_t){0};
  if (kind == DT_LOWER_view || kind == DT_LOWER_leaf)
    return (dt_buffer_id_t){0};
  if (dt__lower_is_view(ctx, id))
    return dt__lower_own_buffer(ctx, node->inputs[0]);
  return ctx->values[id.id - 1].read.buffer;
}

dt_status_t dt__lower_copy(dt_lowering_t *ctx, dt_node_id_t id, dt_buffer_id_t buffer) {
  dt_kernel_t kernel;
  dt_stage_t stage = {0};
  dt_sym_t at[DT_MAX_RANK];
  uint32_t value = 0;
  DT_TRY(dt__lower_begin(ctx, id, DT_OPEN_SQUEEZED, &kernel, at));
  kernel.name = "copy";
  DT_TRY(dt__lower_read(ctx, &stage, id, at, DT_NO_INST, DT_NO_INST, &value));
  return dt__lower_end(ctx, &kernel, &stage, buffer, at, value);
}

dt_status_t dt__lower_move(dt_lowering_t *ctx, dt_node_id_t id, dt_buffer_id_t from,
                           dt_buffer_id_t to, const char *name) {
  dt_kernel_t kernel;
  dt_stage_t stage = {0};
  dt_sym_t at[DT_MAX_RANK];
  uint32_t value = 0;
  DT_TRY(dt__lower_begin(ctx, id, DT_OPEN_SQUEEZED, &kernel, at));
  kernel.name = name;
  dt_inst_t load = {.kind = DT_INST_LOAD,
                    .dtype = dt__program_buffer(ctx->program, from)->dtype,
                    .mask = DT_NO_INST,
                    .buffer = from,
                    .index = at};
  DT_TRY(dt__stage_add(ctx->program, &stage, &load, &value));
  return dt__lower_end(ctx, &kernel, &stage, to, at, value);
}

// The order of the result, if it is not row-major. What stores to it stores there.
static dt_status_t order_output(dt_lowering_t *ctx, uint32_t index, dt_buffer_id_t id) {
  const dt_graph_order_t *order = dt__graph_order(ctx->graph, index);
  dt_buffer_t *buffer = dt__program_buffer(ctx->program, id);
  if (!order)
    return NULL;
  DT_TRY(dt__layout_of_order(ctx->arena, order->dims, buffer->rank, &buffer->layout));
  dt__buffer_set_strides(ctx->env, buffer);
  return NULL;
}

// A call of a user's op reads or writes the buffer: row-major.
static bool is_of_call(const dt_lowering_t *ctx, dt_buffer_id_t id) {
  for (uint32_t k = 0; k < ctx->program->kernels.len; k++) {
    const dt_kernel_t *kernel = &ctx->program->kernels.items[k];
    const dt_stage_t *stage = kernel->stages.items;
    if (!kernel->external)
      continue;
    for (uint32_t i = 0; i < stage->insts.len; i++)
      if (stage->insts.items[i].buffer.id == id.id)
        return true;
    if (dt__kernel_stores_to(kernel, id.id))
      return true;
  }
  return false;
}

static bool takes_order(const dt_lowering_t *ctx, uint32_t index, dt_buffer_id_t id) {
  const dt_graph_order_t *order = dt__graph_order(ctx->graph, index);
  bool plain = true;
  for (uint32_t k = 0; order && k < dt__program_buffer(ctx->program, id)->rank; k++)
    plain = plain && order->dims[k] == k;
  return plain || !is_of_call(ctx, id);
}

static dt_status_t lower_output(dt_lowering_t *ctx, uint32_t index) {
  dt_program_t *program = ctx->program;
  dt_node_id_t id = ctx->graph->outputs.items[index];
  dt_buffer_id_t buffer = dt__lower_own_buffer(ctx, id);
  if (buffer.id && dt__program_buffer(program, buffer)->kind == DT_BUFFER_TEMP &&
      takes_order(ctx, index, buffer)) {
    dt_buffer_t *made = dt__program_buffer(program, buffer);
    made->kind = DT_BUFFER_OUTPUT;
    made->index = index;
  } else {
    DT_TRY(add_buffer(ctx, id, DT_BUFFER_OUTPUT, index, &buffer));
    DT_TRY(dt__lower_copy(ctx, id, buffer));
  }
  DT_TRY(order_output(ctx, index, buffer));
  const dt_node_t *node = dt__lower_node(ctx, id);
  if (node->rank && dt__dtype_is_packed(node->dtype))
    dt__program_buffer(program, buffer)->row =
        dt__sym_simplify(ctx->env, node->sizes[node->rank - 1]);
  if (!DT_VEC_PUSH(ctx->arena, &program->outputs, buffer))
    return DT_NO_MEMORY();
  return NULL;
}

// ---- The graph ------------------------------------------------------------------------------------
static dt_status_t lower_inputs(dt_lowering_t *ctx) {
  for (uint32_t k = 0; k < ctx->graph->inputs.len; k++) {
    const dt_graph_input_t *input = &ctx->graph->inputs.items[k];
    dt_buffer_t buffer = {.kind = DT_BUFFER_INPUT,
                          .dtype = dt__dtype_stored(input->dtype),
                          .rank = input->rank,
                          .index = k,
                          .donated = input->donated};
    dt__lower_stored(ctx, input->dtype, input->rank, input->sizes, buffer.sizes);
    for (uint32_t d = 0; d < input->rank; d++)
      buffer.strides[d] = dt__sym_simplify(ctx->env, input->strides[d]);
    if (dt__dtype_is_packed(input->dtype))
      dt__buffer_set_strides(ctx->env, &buffer);
    DT_TRY(dt__program_add_buffer(ctx->program, &buffer, &ctx->inputs[k]));
  }
  return NULL;
}

dt_status_t dt__lower_node_of(dt_lowering_t *ctx, dt_node_id_t id) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  const dt_op_info_t *info = dt__op_info(node->op);
  dt_lower_fn_t fn = lower_fns[info->lower];
  if (!fn)
    return DT_FAIL(DT_E_INTERNAL, "%s: not decomposed before lowering", info->name);
  uint32_t before = ctx->program->kernels.len;
  dt_status_t status = fn(ctx, id);
  for (uint32_t k = before; k < ctx->program->kernels.len; k++)
    if (!ctx->program->kernels.items[k].origin.op) // else of a node in a body
      ctx->program->kernels.items[k].origin = node->origin;
  if (!status)
    status = dt__symenv_status(ctx->env);
  return dt__status_annotate(status, "lowering %s (node %u)", info->name, id.id);
}

dt_status_t dt__lower_tables(dt_lowering_t *ctx) {
  uint32_t n = ctx->graph->nodes.len;
  ctx->values = DT_ARENA_ARRAY(ctx->arena, dt_lowered_t, (size_t)n + 1);
  ctx->next_result = DT_ARENA_ARRAY(ctx->arena, uint32_t, (size_t)n + 1);
  ctx->commits = DT_ARENA_ARRAY(ctx->arena, bool, (size_t)n + 1);
  ctx->places = DT_ARENA_ARRAY(ctx->arena, dt_buffer_id_t, (size_t)n + 1);
  if (!ctx->values || !ctx->next_result || !ctx->commits || !ctx->places)
    return DT_NO_MEMORY();
  for (uint32_t k = n; k-- > 0;) {
    const dt_node_t *node = &ctx->graph->nodes.items[k];
    if (node->op != DT_OP_result)
      continue;
    uint32_t *first = &ctx->next_result[node->inputs[0].id - 1];
    ctx->next_result[k] = *first;
    *first = k + 1;
  }
  return NULL;
}

dt_status_t dt__lower_graph(dt_arena_t *arena, dt_symenv_t *env, const dt_graph_t *graph,
                            dt_program_t **out) {
  *out = NULL;
  uint32_t n = graph->nodes.len;
  dt_lowered_call_t *calls = NULL;
  dt_lowering_t ctx = {.calls = &calls,
                       .program = dt__program_create(arena, env, graph),
                       .arena = arena,
                       .env = env,
                       .graph = graph,
                       .inputs = DT_ARENA_ARRAY(arena, dt_buffer_id_t, graph->inputs.len + 1),
                       .constants =
                           DT_ARENA_ARRAY(arena, dt_buffer_id_t, graph->constants.len + 1)};
  if (!ctx.program || !ctx.inputs || !ctx.constants)
    return DT_NO_MEMORY();
  DT_TRY(dt__lower_tables(&ctx));
  DT_TRY(lower_inputs(&ctx));
  dt__lower_find_commits(&ctx);
  for (uint32_t k = 1; k <= n; k++)
    DT_TRY(dt__lower_node_of(&ctx, (dt_node_id_t){k}));
  for (uint32_t k = 0; k < graph->outputs.len; k++)
    DT_TRY(lower_output(&ctx, k));
  DT_TRY(dt__lower_updates(&ctx));
  DT_TRY(dt__program_settle_regions(ctx.program));
  DT_TRY(dt__symenv_status(env));
  *out = ctx.program;
  return NULL;
}
