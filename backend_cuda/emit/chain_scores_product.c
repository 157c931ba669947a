// SPDX-License-Identifier: Apache-2.0
// Both products of a chain whose scores stay in registers, by tensor cores.
#include "backend_cuda/emit/chain_scores.h"
#include "backend_cuda/emit/ptx.h"

// Again for each part of the work: then nothing of it takes registers from the others.
void dt__scores_place_thread(dt_scores_t *s) {
  dt_emit_t *m = s->m;
  s->tid = dt__ptx_thread(m);
  s->lane = low_bits(m, s->tid, DT_WARP - 1);
  s->quad_lane = low_bits(m, s->lane, QUAD - 1);
  LLVMValueRef warp = down(m, s->tid, 5);
  s->warp_col = LLVMBuildURem(m->b, warp, i32(m, s->warps_n), "");
  s->warp_row = LLVMBuildUDiv(m->b, warp, i32(m, s->warps_n), "");
}

// This thread's two rows of the step from the tile's row s->above on, or the matrix' last one.
void dt__scores_place_rows(dt_scores_t *s) {
  dt_emit_t *m = s->m;
  LLVMValueRef row = add(m, times(m, s->warp_row, BLOCK), down(m, s->lane, 2));
  LLVMValueRef last = LLVMBuildNSWSub(m->b, s->extent_m, dt__emit_i64(m, 1), "");
  for (uint32_t r = 0; r < 2; r++) {
    LLVMValueRef own = wide(m, add(m, add(m, row, s->above), i32(m, r * BLOCK / 2)));
    s->row[r] = lesser(m, LLVMBuildNSWAdd(m->b, s->t->first_row, own, ""), last);
  }
}

void dt__scores_multiply(dt_scores_t *s) {
  dt_emit_t *m = s->m;
  LLVMValueRef a[4], b[4], row = low_bits(m, s->lane, 15), high = down(m, s->lane, 4);
  LLVMValueRef a_at = add(m, add(m, times(m, s->warp_row, BLOCK), row), s->above);
  a_at = times(m, a_at, s->row_pitch);
  a_at = add(m, a_at, times(m, high, 16));
  LLVMValueRef col = add(m, low_bits(m, s->lane, 7), times(m, high, 8));
  LLVMValueRef b_at = times(m, add(m, times(m, s->warp_col, BLOCK), col), s->row_pitch);
  b_at = add(m, b_at, times(m, low_bits(m, down(m, s->lane, 3), 1), 16));
  b_at = s->k_stage ? add(m, b_at, s->k_stage) : b_at;
  for (uint32_t i = 0; i < s->vectors * 8; i++)
    s->sums[i] = LLVMConstNull(m->t_f32);
  for (uint32_t deep = 0; deep < fragments_in(s->depth); deep++) {
    dt__ptx_matrices(m, shared_at(m, s->shared, a_at, deep * BLOCK * HALF), false, a);
    for (uint32_t c = 0; c < s->vectors; c++) {
      uint32_t from = s->k_at + c * BLOCK * s->warps_n * s->row_pitch + deep * BLOCK * HALF;
      dt__ptx_matrices(m, shared_at(m, s->shared, b_at, from), false, b);
      for (uint32_t half = 0; half < 2; half++)
        dt__ptx_multiply(m, s->score_plan.a.dtype, a, &b[half * 2], &s->sums[(c * 2 + half) * 4]);
    }
  }
}

// Parts of the second product's rows: of this warp's columns.
void dt__scores_multiply_rows(dt_scores_t *s) {
  for (uint32_t i = 0; i < fragments_in(s->cols) * 8; i++)
    s->sums[i] = LLVMConstNull(s->m->t_f32);
  dt__scores_add_rows(s);
}

void dt__scores_add_rows(dt_scores_t *s) {
  dt_emit_t *m = s->m;
  uint32_t across = fragments_in(s->cols);
  LLVMValueRef b[4], row = low_bits(m, s->lane, 15);
  LLVMValueRef at = times(m, add(m, times(m, s->warp_col, BLOCK), row), s->col_pitch);
  at = add(m, at, times(m, down(m, s->lane, 4), 16));
  at = s->v_stage ? add(m, at, s->v_stage) : at;
  for (uint32_t c = 0; c < s->vectors; c++)
    for (uint32_t j = 0; j < across; j++) {
      uint32_t from = s->v_at + c * BLOCK * s->warps_n * s->col_pitch + j * BLOCK * HALF;
      dt__ptx_matrices(m, shared_at(m, s->shared, at, from), true, b);
      for (uint32_t half = 0; half < 2; half++)
        dt__ptx_multiply(m, s->head_plan.a.dtype, s->fragments[c], &b[half * 2],
                         &s->sums[(j * 2 + half) * 4]);
    }
}
