// SPDX-License-Identifier: Apache-2.0
// The copies of a chain whose scores stay in registers, and both of its products by tensor cores.
#include "backend_cuda/emit/chain_scores.h"
#include "backend_cuda/emit/ptx.h"
#include "backend_llvm/emit/index.h"

// ---- Copies ---------------------------------------------------------------------------------------
// Rows of an operand that stand in shared memory: element (outer, inner) at row `outer`.
typedef struct panel_t {
  const dt_operand_t *o;
  dt_sym_t outer, inner, outer_extent, inner_extent;
  LLVMValueRef first; // i64: row 0 of the panel
  uint32_t rows, at, pitch, units;
  bool ordered; // columns of tensor cores' B: in the order that chain_scores.c tells
} panel_t;

LLVMValueRef dt__scores_place(dt_emit_t *m, LLVMValueRef col) {
  LLVMValueRef high = low_bits(m, col, ~15U);
  LLVMValueRef pair = low_bits(m, down(m, col, 2), 3), b = bit(m, col, 1);
  LLVMValueRef row = add(m, add(m, times(m, b, 8), times(m, pair, 2)), low_bits(m, col, 1));
  return LLVMBuildOr(m->b, high, row, "");
}

// Zeros outside of the matrix. At PART; kernel and stage are at hand.
static void copy_panel(dt_scores_t *s, const panel_t *p) {
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  const dt_inst_t *load = &k->stage->insts.items[p->o->load];
  uint32_t each = s->score_plan.threads / p->units; // rows at a time
  LLVMValueRef stride = dt__chain_stride(k, load, p->outer);
  LLVMValueRef extent = dt__index_scalar(k, p->outer_extent);
  int64_t inner_extent = 0;
  (void)dt__sym_is_const(m->env, p->inner_extent, &inner_extent);
  dt__body_at(k, PART);
  LLVMValueRef row = LLVMBuildUDiv(m->b, s->tid, i32(m, p->units), "");
  LLVMValueRef inner = times(m, LLVMBuildURem(m->b, s->tid, i32(m, p->units), ""), UNIT);
  bool few = p->rows < each;
  dt__scope_open(k, STEP, few ? below(m, row, i32(m, p->rows)) : NULL);
  LLVMValueRef at = LLVMBuildNSWAdd(m->b, p->first, wide(m, row), "");
  dt__bind_symbol(k, p->outer, STEP, at);
  dt__bind_symbol(k, p->inner, STEP, wide(m, inner));
  dt_sym_t offset = dt__access_offset(k, load->buffer, load->index);
  LLVMValueRef from = dt__access_address(k, load->buffer, offset, STEP).at[0];
  dt__body_at(k, STEP);
  LLVMValueRef to = times(m, p->ordered ? dt__scores_place(m, row) : row, p->pitch);
  to = add(m, to, times(m, inner, HALF));
  LLVMValueRef left = LLVMBuildNSWSub(m->b, extent, at, "");
  left = LLVMBuildTrunc(m->b, lesser(m, left, dt__emit_i64(m, p->rows)), m->t_i32, "");
  LLVMValueRef in_row = below(m, inner, i32(m, (uint32_t)inner_extent));
  for (uint32_t i = 0; i < (few ? 1 : p->rows / each); i++) {
    LLVMValueRef inside = both(m, below(m, i32(m, i * each), left), in_row);
    LLVMValueRef bytes = LLVMBuildSelect(m->b, inside, i32(m, 16), i32(m, 0), "");
    LLVMValueRef shift = LLVMBuildMul(m->b, stride, dt__emit_i64(m, i * each), "");
    dt__ptx_copy(m, shared_at(m, s->shared, to, p->at + i * each * p->pitch),
                 dt__emit_offset(m, from, shift), bytes);
  }
  dt__scope_close(k, STEP);
}

// Q and K, then V, as two groups.
void dt__scores_copy(dt_scores_t *s) {
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  const dt_operand_t *q = &s->score_plan.a, *b = &s->score_plan.b, *v = &s->head_plan.b;
  LLVMValueRef none = dt__emit_i64(m, 0);
  if (!dt__scores_take(s, s->score, s->schedules[0]))
    return;
  dt__scores_begin_stage(s);
  dt_sym_t deep = k->stage->vars[0], depth = k->stage->extents[0];
  uint32_t units = dt__scores_units(s->depth);
  copy_panel(s, &(panel_t){q, q->var, deep, q->extent, depth, s->t->first_row,
                           s->steps * s->warps_m * BLOCK, 0, s->row_pitch, units, false});
  copy_panel(s, &(panel_t){b, b->var, deep, b->extent, depth, none, columns_of(s), s->k_at,
                           s->row_pitch, units, true});
  dt__ptx_copies_commit(m);
  if (!dt__scores_take(s, s->head, s->schedules[2]))
    return;
  dt__scores_begin_stage(s);
  copy_panel(s, &(panel_t){v, k->stage->vars[0], v->var, k->stage->extents[0], v->extent, none,
                           columns_of(s), s->v_at, s->col_pitch, dt__scores_units(s->cols), true});
  dt__ptx_copies_commit(m);
}

// ---- Products -------------------------------------------------------------------------------------
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
