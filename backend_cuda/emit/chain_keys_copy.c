// SPDX-License-Identifier: Apache-2.0
// How queries, keys and values come to shared memory (chain_keys.h).
#include "backend_cuda/emit/chain_keys.h"
#include "backend_cuda/emit/ptx.h"
#include "backend_llvm/emit/index.h"

// Rows of an operand on their way to shared memory, from row `first` (i64) of it on; `to` (i32) is
// where the first one stands.
typedef struct rows_t {
  const dt_operand_t *o;
  dt_sym_t outer, inner, extent;
  LLVMValueRef first, to;
  uint32_t rows, pitch, elements;
  bool ordered;
} rows_t;

// One unit, element by element: those that are there, else zeros.
static LLVMValueRef read_unit(dt_keys_t *q, LLVMValueRef from, LLVMValueRef inside) {
  dt_emit_t *m = q->s.m;
  LLVMTypeRef half = dt__emit_type(m, q->s.score_plan.a.dtype);
  LLVMValueRef unit = LLVMConstNull(LLVMVectorType(half, UNIT));
  LLVMValueRef safe = LLVMBuildSelect(m->b, inside, from, q->s.k->dead, "");
  for (uint32_t e = 0; e < UNIT; e++) {
    // Where there is nothing the first element of what is there is read again.
    LLVMValueRef step =
        LLVMBuildSelect(m->b, inside, dt__emit_i64(m, e * HALF), dt__emit_i64(m, 0), "");
    LLVMValueRef one =
        dt__emit_load(m, q->s.score_plan.a.dtype, 0, dt__emit_offset(m, safe, step), NULL, NULL);
    unit = LLVMBuildInsertElement(m->b, unit, one, i32(m, e), "");
  }
  return LLVMBuildSelect(m->b, inside, unit, LLVMConstNull(LLVMTypeOf(unit)), "");
}

// Inside of `level` - 1; kernel and stage are at hand.
static void copy_rows(dt_keys_t *q, uint32_t level, const rows_t *p) {
  dt_scores_t *s = &q->s;
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  const dt_inst_t *load = &k->stage->insts.items[p->o->load];
  uint32_t units = dt__scores_units(p->elements), each = s->score_plan.threads / units;
  LLVMValueRef stride = dt__chain_stride(k, load, p->outer);
  LLVMValueRef extent = dt__index_scalar(k, p->extent);
  dt__body_at(k, level - 1);
  LLVMValueRef tid = dt__ptx_thread(m);
  LLVMValueRef row = LLVMBuildUDiv(m->b, tid, i32(m, units), "");
  LLVMValueRef unit = LLVMBuildURem(m->b, tid, i32(m, units), ""), inner = times(m, unit, UNIT);
  bool few = p->rows < each;
  dt__scope_open(k, level, few ? below(m, row, i32(m, p->rows)) : NULL);
  LLVMValueRef at = LLVMBuildNSWAdd(m->b, p->first, wide(m, row), "");
  dt__bind_symbol(k, p->outer, level, at);
  dt__bind_symbol(k, p->inner, level, wide(m, inner));
  dt_sym_t offset = dt__access_offset(k, load->buffer, load->index);
  LLVMValueRef from = dt__access_address(k, load->buffer, offset, level).at[0];
  dt__body_at(k, level);
  LLVMValueRef place = p->ordered ? dt__scores_place(m, row) : row;
  LLVMValueRef to = add(m, dt__keys_place(q, place, unit, p->rows, p->pitch), p->to);
  LLVMValueRef left = LLVMBuildNSWSub(m->b, extent, at, "");
  LLVMValueRef in_row = below(m, inner, i32(m, p->elements));
  for (uint32_t i = 0; i < (few ? 1 : p->rows / each); i++) {
    LLVMValueRef inside = both(m, below(m, dt__emit_i64(m, i * each), left), in_row);
    LLVMValueRef shift = LLVMBuildMul(m->b, stride, dt__emit_i64(m, i * each), "");
    LLVMValueRef here = dt__emit_offset(m, from, shift);
    LLVMValueRef there = shared_at(m, s->shared, to, i * each * p->pitch);
    if (q->aligned)
      dt__ptx_copy(m, there, here, LLVMBuildSelect(m->b, inside, i32(m, 16), i32(m, 0), ""));
    else
      dt__emit_store_at(m, s->score_plan.a.dtype, read_unit(q, here, inside), there, 16);
  }
  dt__scope_close(k, level);
}

LLVMValueRef dt__keys_place(dt_keys_t *q, LLVMValueRef row, LLVMValueRef unit, uint32_t rows,
                            uint32_t pitch) {
  dt_emit_t *m = q->s.m;
  if (!q->groups)
    return add(m, times(m, row, pitch), times(m, unit, UNIT * HALF));
  LLVMValueRef panel = times(m, down(m, unit, 3), rows * DT_PANEL_BYTES);
  return add(m, panel, dt__chain_group_unit(m, row, low_bits(m, unit, 7)));
}

LLVMValueRef dt__keys_stage(dt_keys_t *q, LLVMValueRef first, uint32_t bytes) {
  dt_emit_t *m = q->s.m;
  LLVMValueRef number = LLVMBuildUDiv(m->b, first, dt__emit_i64(m, DT_ATTENTION_KEYS), "");
  return times(m, low_bits(m, narrow(m, number), dt__attention_stages(q->groups) - 1), bytes);
}

static void copy_queries(dt_keys_t *q) {
  dt_scores_t *s = &q->s;
  const dt_operand_t *a = &s->score_plan.a;
  if (!dt__scores_take(s, s->score, s->schedules[0]))
    return;
  dt__scores_begin_stage(s);
  dt__body_at(s->k, PART);
  copy_rows(q, STEP,
            &(rows_t){a, a->var, s->k->stage->vars[0], a->extent, s->t->first_row, i32(s->m, 0),
                      DT_ATTENTION_ROWS, s->row_pitch, s->depth, false});
}

static void copy_keys(dt_keys_t *q, uint32_t level, LLVMValueRef first) {
  dt_scores_t *s = &q->s;
  const dt_operand_t *b = &s->score_plan.b;
  if (!dt__scores_take(s, s->score, s->schedules[0]))
    return;
  dt__scores_begin_stage(s);
  dt__body_at(s->k, level - 1);
  LLVMValueRef to = add(s->m, dt__keys_stage(q, first, q->k_stage), i32(s->m, s->k_at));
  copy_rows(q, level,
            &(rows_t){b, b->var, s->k->stage->vars[0], b->extent, first, to, DT_ATTENTION_KEYS,
                      s->row_pitch, s->depth, true});
}

static void copy_values(dt_keys_t *q, uint32_t level, LLVMValueRef first) {
  dt_scores_t *s = &q->s;
  const dt_operand_t *v = &s->head_plan.b;
  if (!dt__scores_take(s, s->head, s->schedules[2]))
    return;
  dt__scores_begin_stage(s);
  dt__body_at(s->k, level - 1);
  LLVMValueRef to = add(s->m, dt__keys_stage(q, first, q->v_stage), i32(s->m, s->v_at));
  copy_rows(q, level,
            &(rows_t){v, s->k->stage->vars[0], v->var, s->k->stage->extents[0], first, to,
                      DT_ATTENTION_KEYS, s->col_pitch, s->cols, true});
}

// ---- Order ----------------------------------------------------------------------------------------
// Keys from `keys` on, where `ahead` one block more, and values from `values` on are one group.
static void copy_block(dt_keys_t *q, uint32_t level, LLVMValueRef first) {
  dt_emit_t *m = q->s.m;
  LLVMValueRef one = dt__emit_i64(m, DT_ATTENTION_KEYS);
  copy_keys(q, level, q->ahead ? LLVMBuildNSWAdd(m->b, first, one, "") : first);
  dt__body_at(q->s.k, level - 1);
  copy_values(q, level, first);
  dt__ptx_copies_commit(m);
  dt__body_at(q->s.k, level - 1);
}

// The barrier at which group `group` (i32: 0, 1) waits for what the other one copies of the block
// from number `first` on.
static void meet(dt_keys_t *q, LLVMValueRef group, LLVMValueRef first, bool wait) {
  dt_emit_t *m = q->s.m;
  LLVMValueRef number =
      narrow(m, LLVMBuildUDiv(m->b, first, dt__emit_i64(m, DT_ATTENTION_KEYS), ""));
  LLVMValueRef id = add(m, times(m, group, 2), low_bits(m, number, 1));
  dt__ptx_meet(m, add(m, id, i32(m, 1)), q->s.score_plan.threads, wait);
}

static LLVMValueRef group_of(dt_keys_t *q) { return down(q->s.m, dt__ptx_thread(q->s.m), 7); }

void dt__keys_copy_first(dt_keys_t *q) {
  dt_body_t *k = q->s.k;
  dt_emit_t *m = q->s.m;
  copy_queries(q);
  dt__body_at(k, PART);
  if (q->ahead) {
    copy_keys(q, STEP, dt__emit_i64(m, 0));
    dt__body_at(k, PART);
  }
  copy_block(q, STEP, dt__emit_i64(m, 0));
  if (!q->groups)
    return;
  copy_block(q, STEP, dt__emit_i64(m, DT_ATTENTION_KEYS));
  dt__ptx_copies_wait(m, 1);
  dt__ptx_fence_async(m);
  dt__cuda_block_sync(m);
  meet(q, LLVMBuildXor(m->b, group_of(q), i32(m, 1), ""), dt__emit_i64(m, 0), false);
}

void dt__keys_await(dt_keys_t *q, LLVMValueRef first) {
  dt_emit_t *m = q->s.m;
  if (q->groups) {
    meet(q, group_of(q), first, true);
    return;
  }
  dt__ptx_copies_wait(m, 0);
  dt__cuda_block_sync(m);
}

void dt__keys_copy_next(dt_keys_t *q, uint32_t level, LLVMValueRef first) {
  dt_emit_t *m = q->s.m;
  int64_t further = (q->groups ? 2 : 1) * DT_ATTENTION_KEYS;
  copy_block(q, level, LLVMBuildNSWAdd(m->b, first, dt__emit_i64(m, further), ""));
}

void dt__keys_tell(dt_keys_t *q, LLVMValueRef next) {
  dt_emit_t *m = q->s.m;
  dt__ptx_copies_wait(m, 1);
  dt__ptx_fence_async(m);
  meet(q, LLVMBuildXor(m->b, group_of(q), i32(m, 1), ""), next, false);
}

void dt__keys_end(dt_keys_t *q) {
  dt_emit_t *m = q->s.m;
  LLVMValueRef keys = dt__emit_i64(m, DT_ATTENTION_KEYS);
  dt__ptx_copies_wait(m, 0);
  if (q->groups) {
    LLVMValueRef most =
        LLVMBuildNSWAdd(m->b, q->s.extent_n, dt__emit_i64(m, DT_ATTENTION_KEYS - 1), "");
    LLVMValueRef rest = LLVMBuildURem(m->b, most, keys, "");
    meet(q, group_of(q), LLVMBuildNSWSub(m->b, most, rest, ""), true);
  }
  dt__cuda_block_sync(m);
}
