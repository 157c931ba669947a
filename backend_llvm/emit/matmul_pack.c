// SPDX-License-Identifier: Apache-2.0
// Panels that a tile of a matrix product packs for itself, if B's columns lie in memory as their
// producer left them. The panel of the current depth is copied to scratch, and every group of rows
// then reads it from the cache. So no packed operand is written to memory and read again.
#include "backend_llvm/emit/body.h"
#include "backend_llvm/emit/insts.h"
#include "backend_llvm/emit/loops.h"
#include "backend_llvm/emit/matmul.h"

int64_t dt__matmul_panel_bytes(const dt_kernel_t *kernel, const dt_matmul_t *matmul,
                               size_t element) {
  dt_dtype_t held = kernel->stages.items[0].insts.items[matmul->b].dtype;
  if (matmul->dots)
    return (int64_t)matmul->tile_rows * DT_MATMUL_BIG_ROWS * dt__matmul_side_stride(matmul) *
           (int64_t)sizeof(float);
  return matmul->own_panels || matmul->bits || held == DT_F16
             ? (int64_t)DT_MATMUL_DEPTH * matmul->width * (int64_t)element
             : 0;
}

// Lanes of copy `c` that have a column.
static LLVMValueRef column_mask(dt_body_t *k, LLVMValueRef left, uint32_t c) {
  dt_emit_t *m = k->m;
  LLVMValueRef column = dt__emit_ramp(m->t_i64, k->lanes, 1);
  column = LLVMBuildAdd(m->b, column,
                        dt__emit_splat(m, dt__emit_i64(m, (int64_t)(c * k->lanes)), k->lanes), "");
  return LLVMBuildICmp(m->b, LLVMIntSLT, column, dt__emit_splat(m, left, k->lanes), "");
}

// Lanes on the columns from `col` on, at `level`; stage 0's loop is the next one.
static bool enter_columns(dt_body_t *k, uint32_t level, LLVMValueRef col, LLVMValueRef end) {
  dt_emit_t *m = k->m;
  const dt_kernel_t *kernel = k->kernel;
  const dt_matmul_t *matmul = &k->schedule->matmul;
  dt_dtype_t dtype = kernel->stages.items[0].reductions.items[0].dtype;
  dt__level_enter(k, level);
  k->outer_lanes = k->axis = true;
  k->lanes = m->target->vector_bytes / (uint32_t)dt_dtype_size(dtype);
  k->copies = matmul->width / k->lanes;
  k->item_level = level - 1;
  k->stage_level = k->lane_level = level;
  k->lane_var = kernel->vars[kernel->n_loops - 1];
  k->lane_base = col;
  dt__bind_lane(k, level);
  dt_status_t status = dt__stage_enter(k, 0);
  if (status) {
    dt__emit_fail(m, status);
    return false;
  }
  dt__body_at(k, level);
  LLVMValueRef left = LLVMBuildSub(m->b, end, col, "");
  for (uint32_t c = 0; c < k->copies; c++)
    k->masks[c] = column_mask(k, left, c);
  return true;
}

// Elements of k as they are, a row of the panel each.
static void store_elements(dt_body_t *k, dt_lanes_t value, LLVMValueRef at, LLVMValueRef panel) {
  dt_emit_t *m = k->m;
  dt_dtype_t dtype = k->kernel->stages.items[0].reductions.items[0].dtype;
  LLVMValueRef row = LLVMBuildMul(m->b, at, dt__emit_i64(m, k->schedule->matmul.width), "");
  for (uint32_t c = 0; c < k->copies; c++) {
    LLVMValueRef to = LLVMBuildAdd(m->b, row, dt__emit_i64(m, (int64_t)(c * k->lanes)), "");
    dt__emit_store(m, dtype, value.v[c], dt__emit_element(m, dt__emit_type(m, dtype), panel, to),
                   NULL);
  }
}

// Elements of 8 bits, of which each goes into its byte of a word: the first one of a word leaves
// zeros in the others, which are there where k ends within a word.
static void store_bytes(dt_body_t *k, dt_lanes_t value, LLVMValueRef at, LLVMValueRef panel) {
  dt_emit_t *m = k->m;
  LLVMTypeRef words = LLVMVectorType(m->t_i32, k->lanes);
  LLVMValueRef byte = LLVMBuildURem(m->b, at, dt__emit_i64(m, DT_MATMUL_WORD), "");
  LLVMValueRef word = LLVMBuildUDiv(m->b, at, dt__emit_i64(m, DT_MATMUL_WORD), "");
  LLVMValueRef row = LLVMBuildMul(m->b, word, dt__emit_i64(m, k->schedule->matmul.width), "");
  LLVMValueRef first = LLVMBuildICmp(m->b, LLVMIntEQ, byte, dt__emit_i64(m, 0), "");
  LLVMValueRef by = LLVMBuildMul(m->b, byte, dt__emit_i64(m, 8), "");
  by = dt__emit_splat(m, LLVMBuildTrunc(m->b, by, m->t_i32, ""), k->lanes);
  for (uint32_t c = 0; c < k->copies; c++) {
    LLVMValueRef to = LLVMBuildAdd(m->b, row, dt__emit_i64(m, (int64_t)(c * k->lanes)), "");
    LLVMValueRef place = dt__emit_element(m, m->t_i32, panel, to);
    LLVMValueRef old = dt__emit_load(m, DT_I32, k->lanes, place, NULL, NULL);
    old = LLVMBuildSelect(m->b, first, LLVMConstNull(words), old, "");
    LLVMValueRef now = LLVMBuildShl(m->b, LLVMBuildZExt(m->b, value.v[c], words, ""), by, "");
    dt__emit_store(m, DT_I32, LLVMBuildOr(m->b, old, now, ""), place, NULL);
  }
}

void dt__matmul_pack(dt_body_t *k, uint32_t level, LLVMValueRef col, LLVMValueRef end,
                     LLVMValueRef first_k, LLVMValueRef depth, LLVMValueRef panel) {
  dt_emit_t *m = k->m;
  const dt_matmul_t *matmul = &k->schedule->matmul;
  const dt_stage_t *stage = &k->kernel->stages.items[0];
  uint32_t item_level = k->item_level, stage_level = k->stage_level, lanes = k->lanes;
  if (!enter_columns(k, level, col, end))
    return;
  LLVMValueRef at = dt__loop_open(k, level + 1, dt__emit_i64(m, 0), depth, 1);
  dt__bind_symbol(k, stage->vars[0], level + 1, LLVMBuildAdd(m->b, first_k, at, ""));
  dt_lanes_t value = dt__inst_value(k, matmul->b);
  dt__body_at(k, level + 1);
  if (dt_dtype_size(stage->insts.items[matmul->b].dtype) == 1)
    store_bytes(k, value, at, panel);
  else
    store_elements(k, value, at, panel);
  dt__loop_close(k, level + 1);
  dt__level_leave(k, level);
  for (uint32_t c = 0; c < k->copies; c++)
    k->masks[c] = NULL;
  k->outer_lanes = k->axis = false;
  k->copies = 1;
  k->lanes = lanes;
  k->item_level = item_level;
  k->stage_level = stage_level;
}
