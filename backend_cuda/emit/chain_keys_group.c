// SPDX-License-Identifier: Apache-2.0
// Both products of attention by blocks of keys, by groups of four warps (matmul_group.c has the
// descriptors' form). A group has 64 rows of queries. Queries, keys and values lie in panels, keys
// and values in the order that chain_scores.c tells, so that scores come out as tensor cores take
// weights in: the second product reads them from registers. Queries stay in registers too, for the
// whole item, where a block has a processor for itself; all else is read from shared memory.
#include "backend_cuda/emit/chain_keys.h"
#include "backend_cuda/emit/ptx.h"

#define GROUP_BITS 7 // of a thread's number
#define GROUP_ROWS 64
#define HELD 4 // registers of a fragment

// From a row's first elements to its 16 of number `step`, in the same panel of `rows` or a later
// one; in units of 16 bytes.
static uint32_t along_row(uint32_t step, uint32_t rows) {
  uint32_t each = DT_PANEL_BYTES / (BLOCK * HALF);
  return (step / each * rows * DT_PANEL_BYTES + step % each * BLOCK * HALF) / 16;
}

static LLVMValueRef panels_at(dt_keys_t *q, bool along_k, LLVMValueRef at) {
  const dt_operand_t o = {.along_k = along_k, .outer = DT_ATTENTION_KEYS};
  return dt__matmul_panels(q->base.s.m, &o, shared_at(q->base.s.m, q->base.s.shared, at, 0));
}

static LLVMValueRef further(dt_emit_t *m, LLVMValueRef descriptor, uint32_t units) {
  return LLVMBuildAdd(m->b, descriptor, dt__emit_i64(m, units), "");
}

void dt__keys_hold_queries(dt_keys_t *q) {
  dt_scores_t *s = &q->base.s;
  dt_emit_t *m = s->m;
  if (!q->held)
    return;
  LLVMValueRef row = add(m, times(m, s->warp_row, BLOCK), low_bits(m, s->lane, 15));
  LLVMValueRef high = down(m, s->lane, 4);
  const dt_rows_place_t place = {DT_ATTENTION_ROWS, s->row_pitch, q->groups};
  for (uint32_t deep = 0; deep < fragments_in(s->depth); deep++) {
    LLVMValueRef unit = add(m, high, i32(m, deep * 2));
    LLVMValueRef at = dt__scores_unit_place(m, &place, row, unit);
    dt__ptx_matrices(m, shared_at(m, s->shared, at, 0), false, &q->queries[deep * HELD]);
  }
}

void dt__keys_begin_scores(dt_keys_t *q, LLVMValueRef first, LLVMValueRef *sums) {
  dt_scores_t *s = &q->base.s;
  dt_emit_t *m = s->m;
  dt_ptx_group_t group = {.dtype = s->score_plan.a.dtype,
                          .width = DT_ATTENTION_KEYS,
                          .steps = fragments_in(s->depth),
                          .a_held = q->held,
                          .fresh = true};
  LLVMValueRef a[DT_PTX_MAX_STEPS], b[DT_PTX_MAX_STEPS];
  LLVMValueRef place = down(m, dt__ptx_thread(m), GROUP_BITS);
  LLVMValueRef a_at = panels_at(q, true, times(m, place, GROUP_ROWS * DT_PANEL_BYTES));
  LLVMValueRef b_at =
      panels_at(q, true, add(m, dt__keys_stage(q, first, q->k_stage), i32(m, s->k_at)));
  for (uint32_t step = 0; step < group.steps; step++) {
    a[step] = further(m, a_at, along_row(step, DT_ATTENTION_ROWS));
    b[step] = further(m, b_at, along_row(step, DT_ATTENTION_KEYS));
  }
  for (uint32_t i = 0; i < DT_KEYS_SCORES; i++)
    sums[i] = LLVMGetUndef(m->t_f32);
  dt__ptx_group_multiply(m, &group, q->held ? q->queries : a, b, sums);
}

void dt__keys_begin_sums(dt_keys_t *q, LLVMValueRef first) {
  dt_scores_t *s = &q->base.s;
  dt_emit_t *m = s->m;
  dt_ptx_group_t group = {.dtype = s->head_plan.a.dtype,
                          .width = fragments_in(s->cols) * BLOCK,
                          .steps = DT_ATTENTION_KEYS / BLOCK,
                          .b_turned = true,
                          .a_held = true};
  LLVMValueRef a[DT_ATTENTION_KEYS / BLOCK * HELD], b[DT_ATTENTION_KEYS / BLOCK];
  LLVMValueRef b_at =
      panels_at(q, false, add(m, dt__keys_stage(q, first, q->v_stage), i32(m, s->v_at)));
  for (uint32_t step = 0; step < group.steps; step++) {
    for (uint32_t i = 0; i < HELD; i++)
      a[step * HELD + i] = s->fragments[step][i];
    b[step] = further(m, b_at, step * BLOCK * DT_PANEL_BYTES / 16);
  }
  dt__ptx_group_multiply(m, &group, a, b, s->sums);
}
