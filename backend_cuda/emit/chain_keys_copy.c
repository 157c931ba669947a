// SPDX-License-Identifier: Apache-2.0
// How queries, keys and values come to shared memory (chain_keys.h).
#include "backend_cuda/emit/chain_keys.h"
#include "backend_cuda/emit/ptx.h"

// By all threads of the block, inside of `level` - 1; kernel and stage are at hand.
static void copy_rows(dt_keys_t *q, uint32_t level, dt_rows_copy_t p) {
  dt_scores_t *s = &q->base.s;
  dt__body_at(s->k, level - 1);
  p.threads = s->score_plan.threads;
  p.thread = dt__ptx_thread(s->m);
  p.by_elements = !q->base.aligned;
  dt__scores_copy_rows(s, level, &p);
}

LLVMValueRef dt__keys_stage(dt_keys_t *q, LLVMValueRef first, uint32_t bytes) {
  dt_emit_t *m = q->base.s.m;
  LLVMValueRef number = LLVMBuildUDiv(m->b, first, dt__emit_i64(m, DT_ATTENTION_KEYS), "");
  return times(m, low_bits(m, narrow(m, number), dt__attention_stages(q->groups) - 1), bytes);
}

static void copy_queries(dt_keys_t *q) {
  dt_scores_t *s = &q->base.s;
  const dt_operand_t *a = &s->score_plan.a;
  if (!dt__scores_take(s, s->score, s->schedules[0]))
    return;
  dt__scores_begin_stage(s);
  dt__body_at(s->k, PART);
  copy_rows(q, STEP,
            (dt_rows_copy_t){.o = a,
                             .outer = a->var,
                             .inner = s->k->stage->vars[0],
                             .extent = a->extent,
                             .first = s->t->first_row,
                             .place = {DT_ATTENTION_ROWS, s->row_pitch, q->groups},
                             .elements = s->depth});
}

static void copy_keys(dt_keys_t *q, uint32_t level, LLVMValueRef first) {
  dt_scores_t *s = &q->base.s;
  const dt_operand_t *b = &s->score_plan.b;
  if (!dt__scores_take(s, s->score, s->schedules[0]))
    return;
  dt__scores_begin_stage(s);
  dt__body_at(s->k, level - 1);
  LLVMValueRef to = add(s->m, dt__keys_stage(q, first, q->k_stage), i32(s->m, s->k_at));
  copy_rows(q, level,
            (dt_rows_copy_t){.o = b,
                             .outer = b->var,
                             .inner = s->k->stage->vars[0],
                             .extent = b->extent,
                             .first = first,
                             .place = {DT_ATTENTION_KEYS, s->row_pitch, q->groups},
                             .to = to,
                             .elements = s->depth,
                             .ordered = true});
}

static void copy_values(dt_keys_t *q, uint32_t level, LLVMValueRef first) {
  dt_scores_t *s = &q->base.s;
  const dt_operand_t *v = &s->head_plan.b;
  if (!dt__scores_take(s, s->head, s->schedules[2]))
    return;
  dt__scores_begin_stage(s);
  dt__body_at(s->k, level - 1);
  LLVMValueRef to = add(s->m, dt__keys_stage(q, first, q->v_stage), i32(s->m, s->v_at));
  copy_rows(q, level,
            (dt_rows_copy_t){.o = v,
                             .outer = s->k->stage->vars[0],
                             .inner = v->var,
                             .extent = s->k->stage->extents[0],
                             .first = first,
                             .place = {DT_ATTENTION_KEYS, s->col_pitch, q->groups},
                             .to = to,
                             .elements = s->cols,
                             .ordered = true});
}

// ---- Order ----------------------------------------------------------------------------------------
// Keys from `keys` on, where `ahead` one block more, and values from `values` on are one group.
static void copy_block(dt_keys_t *q, uint32_t level, LLVMValueRef first) {
  dt_emit_t *m = q->base.s.m;
  LLVMValueRef one = dt__emit_i64(m, DT_ATTENTION_KEYS);
  copy_keys(q, level, q->ahead ? LLVMBuildNSWAdd(m->b, first, one, "") : first);
  dt__body_at(q->base.s.k, level - 1);
  copy_values(q, level, first);
  dt__ptx_copies_commit(m);
  dt__body_at(q->base.s.k, level - 1);
}

// The barrier at which group `group` (i32: 0, 1) waits for what the other one copies of the block
// from number `first` on.
static void meet(dt_keys_t *q, LLVMValueRef group, LLVMValueRef first, bool wait) {
  dt_emit_t *m = q->base.s.m;
  LLVMValueRef number =
      narrow(m, LLVMBuildUDiv(m->b, first, dt__emit_i64(m, DT_ATTENTION_KEYS), ""));
  LLVMValueRef id = add(m, times(m, group, 2), low_bits(m, number, 1));
  dt__ptx_meet(m, add(m, id, i32(m, 1)), q->base.s.score_plan.threads, wait);
}

static LLVMValueRef group_of(dt_keys_t *q) {
  return down(q->base.s.m, dt__ptx_thread(q->base.s.m), 7);
}

void dt__keys_copy_first(dt_keys_t *q) {
  dt_body_t *k = q->base.s.k;
  dt_emit_t *m = q->base.s.m;
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
  dt_emit_t *m = q->base.s.m;
  if (q->groups) {
    meet(q, group_of(q), first, true);
    return;
  }
  dt__ptx_copies_wait(m, 0);
  dt__cuda_block_sync(m);
}

void dt__keys_copy_next(dt_keys_t *q, uint32_t level, LLVMValueRef first) {
  dt_emit_t *m = q->base.s.m;
  int64_t further = (q->groups ? 2 : 1) * DT_ATTENTION_KEYS;
  copy_block(q, level, LLVMBuildNSWAdd(m->b, first, dt__emit_i64(m, further), ""));
}

void dt__keys_tell(dt_keys_t *q, LLVMValueRef next) {
  dt_emit_t *m = q->base.s.m;
  dt__ptx_copies_wait(m, 1);
  dt__ptx_fence_async(m);
  meet(q, LLVMBuildXor(m->b, group_of(q), i32(m, 1), ""), next, false);
}

void dt__keys_end(dt_keys_t *q) {
  dt_emit_t *m = q->base.s.m;
  LLVMValueRef keys = dt__emit_i64(m, DT_ATTENTION_KEYS);
  dt__ptx_copies_wait(m, 0);
  if (q->groups) {
    LLVMValueRef most = LLVMBuildNSWAdd(m->b, q->end, dt__emit_i64(m, DT_ATTENTION_KEYS - 1), "");
    LLVMValueRef rest = LLVMBuildURem(m->b, most, keys, "");
    meet(q, group_of(q), LLVMBuildNSWSub(m->b, most, rest, ""), true);
  }
  dt__cuda_block_sync(m);
}
