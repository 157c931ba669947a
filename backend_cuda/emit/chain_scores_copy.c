// SPDX-License-Identifier: Apache-2.0
// How operands of chains whose scores stay in registers come to shared memory: a unit of 16 bytes
// at a time, by the tensor cores' copies where operands are aligned, else by elements.
#include "backend_cuda/emit/chain_scores.h"
#include "backend_cuda/emit/ptx.h"
#include "backend_llvm/emit/index.h"

// ---- Places ---------------------------------------------------------------------------------------
LLVMValueRef dt__scores_place(dt_emit_t *m, LLVMValueRef col) {
  LLVMValueRef high = low_bits(m, col, ~15U);
  LLVMValueRef pair = low_bits(m, down(m, col, 2), 3), b = bit(m, col, 1);
  LLVMValueRef row = add(m, add(m, times(m, b, 8), times(m, pair, 2)), low_bits(m, col, 1));
  return LLVMBuildOr(m->b, high, row, "");
}

// The same of a number known here.
static uint32_t place_of(uint32_t col) {
  return (col & ~15U) + (col >> 1 & 1) * 8 + (col >> 2 & 3) * 2 + (col & 1);
}

LLVMValueRef dt__scores_unit_place(dt_emit_t *m, const dt_rows_place_t *p, LLVMValueRef row,
                                   LLVMValueRef unit) {
  if (!p->panels) {
    LLVMValueRef at = times(m, row, p->pitch);
    return add(m, at, times(m, times(m, unit, UNIT), HALF));
  }
  LLVMValueRef panel = times(m, down(m, unit, 3), p->rows * DT_PANEL_BYTES);
  return add(m, panel, dt__chain_group_unit(m, row, low_bits(m, unit, 7)));
}

// ---- Rows -----------------------------------------------------------------------------------------
// One unit, element by element: those that are there, else zeros.
static LLVMValueRef read_unit(dt_scores_t *s, LLVMValueRef from, LLVMValueRef inside) {
  dt_emit_t *m = s->m;
  dt_dtype_t dtype = s->score_plan.a.dtype;
  LLVMValueRef unit = LLVMConstNull(LLVMVectorType(dt__emit_type(m, dtype), UNIT));
  LLVMValueRef safe = LLVMBuildSelect(m->b, inside, from, s->k->dead, "");
  for (uint32_t e = 0; e < UNIT; e++) {
    // Where there is nothing the first element of what is there is read again.
    LLVMValueRef step =
        LLVMBuildSelect(m->b, inside, dt__emit_i64(m, e * HALF), dt__emit_i64(m, 0), "");
    LLVMValueRef one = dt__emit_load(m, dtype, 0, dt__emit_offset(m, safe, step), NULL, NULL);
    unit = LLVMBuildInsertElement(m->b, unit, one, i32(m, e), "");
  }
  return LLVMBuildSelect(m->b, inside, unit, LLVMConstNull(LLVMTypeOf(unit)), "");
}

static void copy_unit(dt_scores_t *s, bool by_elements, LLVMValueRef to, LLVMValueRef from,
                      LLVMValueRef inside) {
  dt_emit_t *m = s->m;
  if (by_elements)
    dt__emit_store_at(m, s->score_plan.a.dtype, read_unit(s, from, inside), to, UNIT * HALF);
  else
    dt__ptx_copy(m, to, from, LLVMBuildSelect(m->b, inside, i32(m, UNIT * HALF), i32(m, 0), ""));
}

// Whether a thread whose first row is `row` copies, where there are `each` rows at a time.
static LLVMValueRef wanted_of(dt_emit_t *m, const dt_rows_copy_t *p, LLVMValueRef row,
                              uint32_t each) {
  if (p->place.rows >= each)
    return p->wanted;
  LLVMValueRef has_row = below(m, row, i32(m, p->place.rows));
  return p->wanted ? both(m, p->wanted, has_row) : has_row;
}

// Whether row `row` from the thread's first one on is there.
static LLVMValueRef is_left(dt_emit_t *m, const dt_rows_copy_t *p, LLVMValueRef left,
                            uint32_t row) {
  return below(m, p->narrow_left ? i32(m, row) : dt__emit_i64(m, row), left);
}

void dt__scores_copy_rows(dt_scores_t *s, uint32_t level, const dt_rows_copy_t *p) {
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  const dt_inst_t *load = &k->stage->insts.items[p->o->load];
  uint32_t units = dt__scores_units(p->elements), each = p->threads / units; // rows at a time
  uint32_t rows = p->place.rows;
  LLVMValueRef stride = dt__chain_stride(k, load, p->outer);
  LLVMValueRef extent = dt__index_scalar(k, p->extent);
  dt__body_at(k, level - 1);
  LLVMValueRef row = LLVMBuildUDiv(m->b, p->thread, i32(m, units), "");
  LLVMValueRef unit = LLVMBuildURem(m->b, p->thread, i32(m, units), "");
  LLVMValueRef inner = times(m, unit, UNIT);
  dt__scope_open(k, level, wanted_of(m, p, row, each));
  LLVMValueRef at = LLVMBuildNSWAdd(m->b, p->first, wide(m, row), "");
  dt__bind_symbol(k, p->outer, level, at);
  dt__bind_symbol(k, p->inner, level, wide(m, inner));
  dt_sym_t offset = dt__access_offset(k, load->buffer, load->index);
  LLVMValueRef from = dt__access_address(k, load->buffer, offset, level).at[0];
  dt__body_at(k, level);
  LLVMValueRef place = p->ordered ? dt__scores_place(m, row) : row;
  LLVMValueRef to = dt__scores_unit_place(m, &p->place, place, unit);
  to = p->to ? add(m, to, p->to) : to;
  LLVMValueRef left = LLVMBuildNSWSub(m->b, extent, at, "");
  if (p->narrow_left)
    left = narrow(m, lesser(m, left, dt__emit_i64(m, rows)));
  LLVMValueRef in_row = below(m, inner, i32(m, p->elements));
  for (uint32_t i = 0; i < rows; i += each) { // bits that `row` does not have
    LLVMValueRef inside = both(m, is_left(m, p, left, i), in_row);
    LLVMValueRef shift = LLVMBuildMul(m->b, stride, dt__emit_i64(m, i), "");
    LLVMValueRef here = dt__emit_offset(m, from, shift);
    uint32_t further = (p->ordered ? place_of(i) : i) * p->place.pitch;
    copy_unit(s, p->by_elements, shared_at(m, s->shared, to, p->at + further), here, inside);
  }
  dt__scope_close(k, level);
}

// ---- All at once ----------------------------------------------------------------------------------
// At PART; kernel and stage are at hand.
static void copy_panel(dt_scores_t *s, dt_rows_copy_t p) {
  p.threads = s->score_plan.threads;
  p.thread = s->tid;
  p.narrow_left = true;
  dt__scores_copy_rows(s, STEP, &p);
}

void dt__scores_copy(dt_scores_t *s) {
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  const dt_operand_t *q = &s->score_plan.a, *b = &s->score_plan.b, *v = &s->head_plan.b;
  LLVMValueRef none = dt__emit_i64(m, 0);
  if (!dt__scores_take(s, s->score, s->schedules[0]))
    return;
  dt__scores_begin_stage(s);
  copy_panel(s, (dt_rows_copy_t){.o = q,
                                 .outer = q->var,
                                 .inner = k->stage->vars[0],
                                 .extent = q->extent,
                                 .first = s->t->first_row,
                                 .place = {s->steps * s->warps_m * BLOCK, s->row_pitch, false},
                                 .elements = s->depth});
  copy_panel(s, (dt_rows_copy_t){.o = b,
                                 .outer = b->var,
                                 .inner = k->stage->vars[0],
                                 .extent = b->extent,
                                 .first = none,
                                 .place = {columns_of(s), s->row_pitch, false},
                                 .at = s->k_at,
                                 .elements = s->depth,
                                 .ordered = true});
  dt__ptx_copies_commit(m);
  if (!dt__scores_take(s, s->head, s->schedules[2]))
    return;
  dt__scores_begin_stage(s);
  copy_panel(s, (dt_rows_copy_t){.o = v,
                                 .outer = k->stage->vars[0],
                                 .inner = v->var,
                                 .extent = k->stage->extents[0],
                                 .first = none,
                                 .place = {columns_of(s), s->col_pitch, false},
                                 .at = s->v_at,
                                 .elements = s->cols,
                                 .ordered = true});
  dt__ptx_copies_commit(m);
}
