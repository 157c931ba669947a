// SPDX-License-Identifier: Apache-2.0
// Lowering of `associative_scan`: one kernel whose inner loop runs along the axis in its order. The
// tuple that an iteration makes is what the next one reads as PRIOR; the first takes its elements
// as they are.
//
//   stage inner i < n:  v = load x[i, c];  p = prior r0;  j = combine(p, v)
//                       w = where(i == 0, v, j);  store y[i, c] = w;  reduce last r0 = w
#include "lower/loop/lower_private.h"
#include "runtime/base/status.h"

#include <string.h>

typedef struct scan_t {
  dt_lowering_t *ctx;
  const dt_node_t *node;
  const dt_graph_t *body;
  uint32_t n; // values of a tuple
  dt_kernel_t kernel;
  dt_stage_t stage;
  dt_sym_t at[DT_MAX_RANK];
  uint32_t *operands; // instructions of the body's inputs
  uint32_t *made;     // by node of the body, [id - 1]: its instruction
} scan_t;

static dt_status_t add(scan_t *scan, const dt_inst_t *inst, uint32_t *out) {
  return dt__stage_add(scan->ctx->program, &scan->stage, inst, out);
}

// The body's inputs: what the iteration before left, this one's elements, what is captured.
static dt_status_t read_operands(scan_t *scan) {
  uint32_t n = scan->n;
  for (uint32_t k = 0; k < n; k++) {
    dt_inst_t prior = {.kind = DT_INST_PRIOR,
                       .dtype = dt__lower_node(scan->ctx, scan->node->inputs[k])->dtype,
                       .row = k};
    DT_TRY(add(scan, &prior, &scan->operands[k]));
  }
  for (uint32_t k = 0; k < scan->node->n_inputs; k++)
    DT_TRY(dt__lower_read(scan->ctx, &scan->stage, scan->node->inputs[k], scan->at, DT_NO_INST,
                          DT_NO_INST, &scan->operands[n + k]));
  return NULL;
}

// A literal or a size, by the lowering of leaves.
static dt_status_t add_leaf(scan_t *scan, dt_lowering_t *inner, dt_node_id_t id, uint32_t *out) {
  DT_TRY(dt__lower_leaf(inner, id));
  return dt__lower_read(inner, &scan->stage, id, NULL, DT_NO_INST, DT_NO_INST, out);
}

static dt_status_t add_node(scan_t *scan, dt_lowering_t *inner, dt_node_id_t id) {
  const dt_node_t *node = dt__graph_node(scan->body, id);
  const dt_op_info_t *info = dt__op_info(node->op);
  uint32_t *out = &scan->made[id.id - 1];
  dt_inst_t inst = {.kind = DT_INST_SCALAR, .dtype = node->dtype, .op = info->scalar};
  for (uint32_t k = 0; k < 3; k++)
    inst.args[k] = k < node->n_inputs ? scan->made[node->inputs[k].id - 1] : DT_NO_INST;
  switch (info->lower) {
  case DT_LOWER_leaf:
    if (node->op != DT_OP_input)
      return add_leaf(scan, inner, id, out);
    *out = scan->operands[node->attrs->index];
    return NULL;
  case DT_LOWER_view: // of one element
    *out = inst.args[0];
    return NULL;
  case DT_LOWER_cast:
    inst.kind = DT_INST_CAST;
    return add(scan, &inst, out);
  case DT_LOWER_bits:
    *out = inst.args[0];
    return dt__lower_bits_inst(
        inner, &scan->stage, dt__graph_node(scan->body, node->inputs[0])->dtype, node->dtype, out);
  case DT_LOWER_ew:
  case DT_LOWER_part:
    return add(scan, &inst, out);
  default:
    return DT_FAIL(DT_E_INTERNAL, "%s is no element-wise op of a combine", info->name);
  }
}

static dt_status_t add_body(scan_t *scan) {
  dt_lowering_t inner = *scan->ctx;
  inner.graph = scan->body;
  DT_TRY(dt__lower_tables(&inner));
  for (uint32_t k = 0; k < scan->body->nodes.len; k++)
    DT_TRY(add_node(scan, &inner, (dt_node_id_t){k + 1}));
  return NULL;
}

// Value k of this iteration's tuple.
static dt_status_t add_value(scan_t *scan, uint32_t k, uint32_t *out) {
  dt_symenv_t *env = scan->ctx->env;
  dt_inst_t first = {
      .kind = DT_INST_INDEX,
      .dtype = DT_BOOL,
      .sym = dt__sym_eq(env, scan->at[scan->node->attrs->axes[0]], dt__sym_const(env, 0))};
  dt_inst_t where = {.kind = DT_INST_SCALAR,
                     .dtype = dt__lower_node(scan->ctx, scan->node->inputs[k])->dtype,
                     .op = DT_SCALAR_where};
  where.args[1] = scan->operands[scan->n + k];
  where.args[2] = scan->made[scan->body->outputs.items[k].id - 1];
  DT_TRY(add(scan, &first, &where.args[0]));
  return add(scan, &where, out);
}

// A buffer for value k, and the store to it, where a `result` reads it.
static dt_status_t add_store(scan_t *scan, dt_node_id_t id, uint32_t k, uint32_t value) {
  dt_lowering_t *ctx = scan->ctx;
  dt_store_t store = {.value = value, .mask = DT_NO_INST};
  for (uint32_t at = ctx->next_result[id.id - 1]; at; at = ctx->next_result[at - 1]) {
    dt_node_id_t result = {at};
    if (dt__lower_node(ctx, result)->attrs->index != k)
      continue;
    if (!store.buffer.id)
      DT_TRY(dt__lower_temp(ctx, result, &store.buffer));
    DT_TRY(dt__lower_from_buffer(ctx, result, store.buffer));
  }
  if (!store.buffer.id)
    return NULL;
  store.index =
      dt__exprs_copy(ctx->arena, scan->at, dt__lower_node(ctx, scan->node->inputs[k])->rank);
  return store.index && DT_VEC_PUSH(ctx->arena, &scan->stage.stores, store) ? NULL : DT_NO_MEMORY();
}

// The loop along the axis is the inner one, all others are outer ones.
static dt_status_t open_loops(scan_t *scan) {
  const dt_node_t *x = dt__lower_node(scan->ctx, scan->node->inputs[0]);
  dt_kernel_t *kernel = &scan->kernel;
  dt_stage_t *stage = &scan->stage;
  for (uint32_t d = 0; d < x->rank; d++) {
    bool inner = (int32_t)d == scan->node->attrs->axes[0];
    DT_TRY(dt__lower_loops(scan->ctx, 1, &x->sizes[d], DT_OPEN_SQUEEZED,
                           inner ? stage->vars : kernel->vars,
                           inner ? stage->extents : kernel->extents,
                           inner ? &stage->n_loops : &kernel->n_loops, &scan->at[d]));
  }
  return NULL;
}

dt_status_t dt__lower_associative_scan(dt_lowering_t *ctx, dt_node_id_t id) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  scan_t scan = {.ctx = ctx, .node = node, .body = dt__graph_control(ctx->graph, node)->bodies[0]};
  if (!ctx->next_result[id.id - 1])
    return NULL;
  scan.n = scan.body->outputs.len;
  scan.kernel.name = dt__op_info(node->op)->name;
  scan.kernel.section = dt__lower_section(ctx);
  scan.kernel.n_rows = scan.n;
  scan.operands = DT_ARENA_ARRAY(ctx->arena, uint32_t, (size_t)scan.body->inputs.len + 1);
  scan.made = DT_ARENA_ARRAY(ctx->arena, uint32_t, (size_t)scan.body->nodes.len + 1);
  if (!scan.operands || !scan.made)
    return DT_NO_MEMORY();
  DT_TRY(open_loops(&scan));
  DT_TRY(read_operands(&scan));
  DT_TRY(add_body(&scan));
  for (uint32_t k = 0; k < scan.n; k++) {
    dt_reduction_t last = {.kind = DT_REDUCE_LAST,
                           .index = DT_NO_INST,
                           .row = k,
                           .dtype = dt__lower_node(ctx, node->inputs[k])->dtype};
    DT_TRY(add_value(&scan, k, &last.value));
    DT_TRY(add_store(&scan, id, k, last.value));
    if (!DT_VEC_PUSH(ctx->arena, &scan.stage.reductions, last))
      return DT_NO_MEMORY();
  }
  return DT_VEC_PUSH(ctx->arena, &scan.kernel.stages, scan.stage) &&
                 DT_VEC_PUSH(ctx->arena, &ctx->program->kernels, scan.kernel)
             ? NULL
             : DT_NO_MEMORY();
}
