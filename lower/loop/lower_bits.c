// SPDX-License-Identifier: Apache-2.0
// Lowering of bitcast. Loop IR has low-bit dtypes as U8; what it stores of a packed one has the
// size of its bytes as last dim. Elements are taken out of bytes by shifts, and a byte is made of
// all its elements by the one iteration that stores it. A bitcast between dtypes that are stored as
// one is a view.
#include "lower/graph/scalar.h"
#include "lower/loop/lower_private.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

void dt__lower_stored(const dt_lowering_t *ctx, dt_dtype_t dtype, uint32_t rank,
                      const dt_sym_t *sizes, dt_sym_t *out) {
  dt_sym_t per = dt__sym_const(ctx->env, dt__dtype_per_byte(dtype));
  for (uint32_t k = 0; k < rank; k++)
    out[k] = dt__sym_simplify(ctx->env, sizes[k]);
  if (rank && dt__dtype_is_packed(dtype))
    out[rank - 1] = dt__sym_simplify(ctx->env, dt__sym_ceildiv(ctx->env, out[rank - 1], per));
}

// ---- Instructions -------------------------------------------------------------------------------
static dt_status_t byte_op(dt_lowering_t *ctx, dt_stage_t *stage, dt_scalar_op_t op, uint32_t a,
                           uint32_t b, uint32_t *out) {
  dt_inst_t inst = {.kind = DT_INST_SCALAR,
                    .dtype = DT_U8,
                    .op = op,
                    .args = {a, b, DT_NO_INST},
                    .mask = DT_NO_INST};
  return dt__stage_add(ctx->program, stage, &inst, out);
}

static dt_status_t byte_op_const(dt_lowering_t *ctx, dt_stage_t *stage, dt_scalar_op_t op,
                                 uint32_t a, int64_t value, uint32_t *out) {
  dt_inst_t number = {.kind = DT_INST_CONST, .dtype = DT_U8, .value = {.i = value}};
  uint32_t b = 0;
  DT_TRY(dt__stage_add(ctx->program, stage, &number, &b));
  return byte_op(ctx, stage, op, a, b, out);
}

dt_status_t dt__lower_bits_inst(dt_lowering_t *ctx, dt_stage_t *stage, dt_dtype_t from,
                                dt_dtype_t to, uint32_t *value) {
  dt_dtype_t packed = dt__dtype_is_packed(from) ? from : to;
  dt_inst_t inst = {.kind = DT_INST_BITS, .dtype = dt__dtype_stored(to), .args = {*value}};
  if (dt__dtype_is_packed(packed))
    return byte_op_const(ctx, stage, DT_SCALAR_bit_and, *value,
                         ((int64_t)1 << dt_dtype_bits(packed)) - 1, value);
  return dt__dtype_stored(from) == inst.dtype ? NULL
                                              : dt__stage_add(ctx->program, stage, &inst, value);
}

// ---- Views --------------------------------------------------------------------------------------
bool dt__lower_is_alias(const dt_lowering_t *ctx, const dt_node_t *node) {
  if (dt__op_info(node->op)->lower != DT_LOWER_bits)
    return false;
  dt_dtype_t from = dt__lower_node(ctx, node->inputs[0])->dtype;
  return !dt__dtype_is_packed(from) && !dt__dtype_is_packed(node->dtype);
}

bool dt__lower_is_view(const dt_lowering_t *ctx, dt_node_id_t id) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  if (!dt__lower_is_alias(ctx, node))
    return dt__op_info(node->op)->lower == DT_LOWER_view;
  dt_dtype_t from = dt__lower_node(ctx, node->inputs[0])->dtype;
  return dt__dtype_stored(from) == dt__dtype_stored(node->dtype) &&
         ctx->values[node->inputs[0].id - 1].read.kind == DT_INST_LOAD;
}

// ---- From ---------------------------------------------------------------------------------------
// The element of the packed value `id` at `at`, in the low bits of an U8, with others above it.
static dt_status_t read_packed(dt_lowering_t *ctx, dt_stage_t *stage, dt_node_id_t id,
                               const dt_sym_t *at, uint32_t *out) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  dt_sym_t byte[DT_MAX_RANK], per = dt__sym_const(ctx->env, dt__dtype_per_byte(node->dtype));
  uint32_t value = 0, below = 0;
  for (uint32_t k = 0; k < node->rank; k++)
    byte[k] = at[k];
  if (node->rank == 0)
    return dt__lower_read(ctx, stage, id, at, DT_NO_INST, DT_NO_INST, out);
  dt_sym_t last = at[node->rank - 1];
  byte[node->rank - 1] = dt__sym_floordiv(ctx->env, last, per);
  dt_sym_t place = dt__sym_mul(ctx->env, dt__sym_mod(ctx->env, last, per),
                               dt__sym_const(ctx->env, dt_dtype_bits(node->dtype)));
  dt_inst_t shift = {.kind = DT_INST_INDEX, .dtype = DT_U8, .sym = place};
  DT_TRY(dt__lower_read(ctx, stage, id, byte, DT_NO_INST, DT_NO_INST, &value));
  DT_TRY(dt__stage_add(ctx->program, stage, &shift, &below));
  return byte_op(ctx, stage, DT_SCALAR_shift_right, value, below, out);
}

static dt_status_t lower_bits(dt_lowering_t *ctx, dt_node_id_t id) {
  const dt_node_t *node = dt__lower_node(ctx, id), *in = dt__lower_node(ctx, node->inputs[0]);
  dt_kernel_t kernel;
  dt_stage_t stage = {0};
  dt_sym_t at[DT_MAX_RANK];
  dt_buffer_id_t buffer;
  uint32_t value = 0;
  DT_TRY(dt__lower_begin(ctx, id, DT_OPEN_SQUEEZED, &kernel, at));
  if (dt__dtype_is_packed(in->dtype))
    DT_TRY(read_packed(ctx, &stage, node->inputs[0], at, &value));
  else
    DT_TRY(dt__lower_read(ctx, &stage, node->inputs[0], at, DT_NO_INST, DT_NO_INST, &value));
  DT_TRY(dt__lower_bits_inst(ctx, &stage, in->dtype, node->dtype, &value));
  DT_TRY(dt__lower_result(ctx, id, &buffer));
  return dt__lower_end(ctx, &kernel, &stage, buffer, at, value);
}

// ---- To -----------------------------------------------------------------------------------------
// Element k of the byte at `at`, at its place in the byte; 0 behind the end of the row.
static dt_status_t place_element(dt_lowering_t *ctx, dt_stage_t *stage, dt_node_id_t id,
                                 const dt_sym_t *at, uint32_t k, uint32_t *out) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  dt_sym_t element[DT_MAX_RANK], per = dt__sym_const(ctx->env, dt__dtype_per_byte(node->dtype));
  uint32_t rank = node->rank, mask = DT_NO_INST;
  for (uint32_t d = 0; d < rank; d++)
    element[d] = at[d];
  if (rank) {
    dt_sym_t *last = &element[rank - 1];
    *last = dt__sym_add(ctx->env, dt__sym_mul(ctx->env, *last, per), dt__sym_const(ctx->env, k));
    dt_inst_t test = {.kind = DT_INST_INDEX,
                      .dtype = DT_BOOL,
                      .sym = dt__sym_lt(ctx->env, *last, node->sizes[rank - 1])};
    if (k > 0 && !dt__sym_known_true(ctx->env, test.sym))
      DT_TRY(dt__stage_add(ctx->program, stage, &test, &mask));
  }
  DT_TRY(dt__lower_read(ctx, stage, node->inputs[0], element, mask, DT_NO_INST, out));
  DT_TRY(dt__lower_bits_inst(ctx, stage, DT_U8, node->dtype, out));
  return k == 0 ? NULL
                : byte_op_const(ctx, stage, DT_SCALAR_shift_left, *out,
                                k * (int64_t)dt_dtype_bits(node->dtype), out);
}

static dt_status_t lower_pack(dt_lowering_t *ctx, dt_node_id_t id) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  uint32_t n = node->rank ? dt__dtype_per_byte(node->dtype) : 1, value = 0, more = 0;
  dt_kernel_t kernel;
  dt_stage_t stage = {0};
  dt_sym_t at[DT_MAX_RANK];
  dt_buffer_id_t buffer;
  DT_TRY(dt__lower_begin(ctx, id, DT_OPEN_SQUEEZED, &kernel, at));
  DT_TRY(place_element(ctx, &stage, id, at, 0, &value));
  for (uint32_t k = 1; k < n; k++) {
    DT_TRY(place_element(ctx, &stage, id, at, k, &more));
    DT_TRY(byte_op(ctx, &stage, DT_SCALAR_bit_or, value, more, &value));
  }
  DT_TRY(dt__lower_result(ctx, id, &buffer));
  return dt__lower_end(ctx, &kernel, &stage, buffer, at, value);
}

dt_status_t dt__lower_bits(dt_lowering_t *ctx, dt_node_id_t id) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  if (!dt__lower_is_view(ctx, id))
    return dt__dtype_is_packed(node->dtype) ? lower_pack(ctx, id) : lower_bits(ctx, id);
  ctx->values[id.id - 1] = ctx->values[node->inputs[0].id - 1];
  return NULL;
}
