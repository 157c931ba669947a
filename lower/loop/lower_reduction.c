// SPDX-License-Identifier: Apache-2.0
// Lowering of reductions and of the matrix product: a stage that reduces over inner loops, then a
// stage without inner loops that stores the row value.
#include "lower/loop/lower_private.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

typedef struct reduction_op_t {
  bool known;
  dt_reduction_kind_t kind;
} reduction_op_t;

static const reduction_op_t reduction_ops[DT_OP_COUNT] = {
#define REDUCTION(id, name, op, combine, start, takes, gives, order, doc)                          \
  [DT_OP_##op] = {true, DT_REDUCE_##id},
#include "lower/loop/reductions.def"
};

dt_status_t dt__lower_end_row(dt_lowering_t *ctx, dt_node_id_t id, dt_kernel_t *kernel,
                              dt_stage_t *reductions, dt_reduction_t *reduction,
                              const dt_sym_t *at) {
  dt_stage_t last = {0};
  dt_buffer_id_t buffer;
  uint32_t value = 0;
  reduction->row = kernel->n_rows++;
  reduction->dtype = dt__lower_node(ctx, id)->dtype;
  if (!DT_VEC_PUSH(ctx->arena, &reductions->reductions, *reduction) ||
      !DT_VEC_PUSH(ctx->arena, &kernel->stages, *reductions))
    return DT_NO_MEMORY();
  DT_TRY(dt__lower_row(ctx, &last, reduction->dtype, reduction->row, &value));
  DT_TRY(dt__lower_result(ctx, id, &buffer));
  return dt__lower_end(ctx, kernel, &last, buffer, at, value);
}

// Loops over the reduced dims; `old` is the input's index, of outer indices `at` and inner ones.
static dt_status_t open_reduced(dt_lowering_t *ctx, const dt_node_t *node, dt_stage_t *stage,
                                const dt_sym_t *at, dt_sym_t *old) {
  const dt_node_t *in = dt__lower_node(ctx, node->inputs[0]);
  uint32_t reduced = 0, kept = 0;
  for (uint32_t k = 0; k < node->attrs->n_axes; k++)
    reduced |= 1u << node->attrs->axes[k];
  for (uint32_t d = 0; d < in->rank; d++) {
    if (!(reduced >> d & 1)) {
      old[d] = at[kept++];
      continue;
    }
    kept += node->attrs->keepdims != 0;
    DT_TRY(dt__lower_loops(ctx, 1, &in->sizes[d], DT_OPEN_SQUEEZED, stage->vars, stage->extents,
                           &stage->n_loops, &old[d]));
  }
  return NULL;
}

static dt_status_t lower_reduction(dt_lowering_t *ctx, dt_node_id_t id, bool with_index) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  if (!reduction_ops[node->op].known)
    return DT_FAIL(DT_E_INTERNAL, "a reduction without a reduction");
  dt_reduction_t reduction = {.kind = reduction_ops[node->op].kind, .index = DT_NO_INST};
  dt_kernel_t kernel;
  dt_stage_t stage = {0};
  dt_sym_t at[DT_MAX_RANK], old[DT_MAX_RANK];
  DT_TRY(dt__lower_begin(ctx, id, DT_OPEN_SQUEEZED, &kernel, at));
  DT_TRY(open_reduced(ctx, node, &stage, at, old));
  DT_TRY(
      dt__lower_read(ctx, &stage, node->inputs[0], old, DT_NO_INST, DT_NO_INST, &reduction.value));
  if (with_index) {
    dt_inst_t index = {.kind = DT_INST_INDEX, .dtype = DT_I64, .sym = old[node->attrs->axes[0]]};
    DT_TRY(dt__stage_add(ctx->program, &stage, &index, &reduction.index));
  }
  return dt__lower_end_row(ctx, id, &kernel, &stage, &reduction, at);
}

dt_status_t dt__lower_reduce(dt_lowering_t *ctx, dt_node_id_t id) {
  return lower_reduction(ctx, id, false);
}

dt_status_t dt__lower_argreduce(dt_lowering_t *ctx, dt_node_id_t id) {
  return lower_reduction(ctx, id, true);
}

// Outer loops are the batch dims, m and n, and the inner loop is k, also where a size is the
// literal 1: templates look for just that.
// An element of a factor. Halves, and integers of 8 bits, are read as they lie, and cast here: no
// wide copy of them is made that the product would then read.
static bool is_widened(const dt_node_t *cast, dt_dtype_t from) {
  if (cast->op != DT_OP_cast)
    return false;
  return cast->dtype == DT_F32 ? dt__dtype_is_half(from)
                               : cast->dtype == DT_I32 && (from == DT_U8 || from == DT_I8);
}

static dt_status_t read_factor(dt_lowering_t *ctx, dt_stage_t *stage, dt_node_id_t id,
                               const dt_sym_t *at, uint32_t *out) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  if (!node->n_inputs || !is_widened(node, dt__lower_node(ctx, node->inputs[0])->dtype))
    return dt__lower_read(ctx, stage, id, at, DT_NO_INST, DT_NO_INST, out);
  dt_inst_t cast = {.kind = DT_INST_CAST, .dtype = node->dtype};
  DT_TRY(dt__lower_read(ctx, stage, node->inputs[0], at, DT_NO_INST, DT_NO_INST, &cast.args[0]));
  return dt__stage_add(ctx->program, stage, &cast, out);
}

dt_status_t dt__lower_matmul(dt_lowering_t *ctx, dt_node_id_t id) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  const dt_node_t *a = dt__lower_node(ctx, node->inputs[0]);
  const dt_node_t *b = dt__lower_node(ctx, node->inputs[1]);
  uint32_t rank = node->rank;
  dt_kernel_t kernel;
  dt_stage_t stage = {0};
  dt_sym_t at[DT_MAX_RANK], at_a[DT_MAX_RANK], at_b[DT_MAX_RANK], k;
  DT_TRY(dt__lower_begin(ctx, id, DT_OPEN_ONES, &kernel, at));
  DT_TRY(dt__lower_loops(ctx, 1, &a->sizes[rank - 1], DT_OPEN_ONES, stage.vars, stage.extents,
                         &stage.n_loops, &k));
  for (uint32_t d = 0; d + 2 < rank; d++)
    at_a[d] = at_b[d] = at[d];
  at_a[rank - 2] = at[rank - 2];
  at_a[rank - 1] = k;
  at_b[b->rank - 2] = k;
  at_b[b->rank - 1] = at[rank - 1];
  dt_inst_t product = {.kind = DT_INST_SCALAR, .dtype = node->dtype, .op = DT_SCALAR_mul};
  dt_reduction_t reduction = {.kind = DT_REDUCE_SUM, .index = DT_NO_INST};
  DT_TRY(read_factor(ctx, &stage, node->inputs[0], at_a, &product.args[0]));
  DT_TRY(read_factor(ctx, &stage, node->inputs[1], at_b, &product.args[1]));
  DT_TRY(dt__stage_add(ctx->program, &stage, &product, &reduction.value));
  return dt__lower_end_row(ctx, id, &kernel, &stage, &reduction, at);
}
