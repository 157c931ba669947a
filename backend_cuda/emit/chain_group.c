// SPDX-License-Identifier: Apache-2.0
// Products of a chain by groups of four warps (matmul_group.c has their form): each warp reads the
// fragments of its 16 rows of A from where they were made, the tensor cores read B from the ring
// themselves. A chunk of B is as deep as a panel is wide where k is innermost, rows being columns;
// else its rows are of k, and panels of 64 columns follow one another.
//
// While a chunk is multiplied nobody may change what its fragments stand in. So two chunks that are
// under way at once have registers of their own: code for one of them stands there twice.
#include "backend_cuda/emit/chain.h"
#include "backend_cuda/emit/ptx.h"

#include "runtime/base/status.h"

#define STEP 16 // of k
#define HALF 2  // bytes
#define HELD 4  // registers of a fragment

bool dt__chain_group_fits(const dt_matmul_plan_t *plan) {
  uint32_t wide = DT_PANEL_BYTES / HALF, width = plan->matmul->group_cols;
  return plan->slices == 1 && plan->a.copy == DT_COPY_NONE && plan->matmul->ring > 2 &&
         plan->matmul->depth == wide && (plan->b.along_k ? width % STEP : width % wide) == 0;
}

LLVMValueRef dt__chain_group_unit(dt_emit_t *m, LLVMValueRef row, LLVMValueRef unit) {
  LLVMValueRef low = LLVMBuildAnd(m->b, row, dt__emit_i32(m, 7), "");
  LLVMValueRef place = LLVMBuildXor(m->b, unit, low, "");
  LLVMValueRef at = LLVMBuildMul(m->b, row, dt__emit_i32(m, DT_PANEL_BYTES), "");
  return LLVMBuildAdd(m->b, at, LLVMBuildMul(m->b, place, dt__emit_i32(m, 16), ""), "");
}

static void load_sums(dt_emit_t *m, const dt_chain_group_t *g, LLVMValueRef *sums) {
  for (uint32_t i = 0; i < g->n_sums; i++)
    sums[i] = LLVMBuildLoad2(m->b, m->t_f32, g->sums[i], "");
}

static void store_sums(dt_emit_t *m, const dt_chain_group_t *g, LLVMValueRef *sums) {
  for (uint32_t i = 0; i < g->n_sums; i++)
    LLVMBuildStore(m->b, sums[i], g->sums[i]);
}

void dt__chain_group_begin(dt_emit_t *m, const dt_chain_group_t *g) {
  const dt_operand_t *o = &g->plan->b;
  dt_ptx_group_t group = {.dtype = o->dtype,
                          .width = g->plan->matmul->group_cols,
                          .steps = g->plan->matmul->depth / STEP,
                          .b_turned = !o->along_k,
                          .a_held = true};
  if (group.steps > DT_PTX_MAX_STEPS || !m->target->matrix_groups) {
    dt__emit_fail(m, DT_FAIL(DT_E_INTERNAL, "chain: no groups of warps"));
    return;
  }
  LLVMValueRef a[DT_PTX_MAX_STEPS * HELD], b[DT_PTX_MAX_STEPS], sums[DT_MATMUL_MAX_SUMS];
  LLVMValueRef b_at = dt__matmul_panels(m, o, g->b);
  for (uint32_t s = 0; s < group.steps; s++) {
    LLVMValueRef step = dt__emit_i32(m, s * STEP * HALF);
    dt__ptx_matrices(m, LLVMBuildGEP2(m->b, m->t_i8, g->a, &step, 1, ""), false, &a[s * HELD]);
    uint32_t bytes = s * STEP * (o->along_k ? HALF : DT_PANEL_BYTES);
    b[s] = LLVMBuildAdd(m->b, b_at, dt__emit_i64(m, bytes / 16), "");
  }
  load_sums(m, g, sums);
  dt__ptx_group_multiply(m, &group, a, b, sums);
  store_sums(m, g, sums);
}

void dt__chain_group_end(dt_emit_t *m, const dt_chain_group_t *g, uint32_t behind) {
  LLVMValueRef sums[DT_MATMUL_MAX_SUMS];
  load_sums(m, g, sums);
  dt__ptx_group_wait(m, behind, g->n_sums, sums);
  store_sums(m, g, sums);
}
