// SPDX-License-Identifier: Apache-2.0
// Attention with scores for a block of keys at a time (fuse/attention.h), after FlashAttention-2
// (Dao, 2023): a warp has 16 rows of queries, all in registers but for what comes from shared
// memory:
//
//   m = -inf, l = 0, C = 0, by row
//   for each block of 64 keys:
//     x = stages of (Q · Kᵀ), as chain_scores.c has them in registers
//     n = max(m, max of x);  a = 2^((m - n) log2 e);  p = 2^((x - n) log2 e)
//     l = l a + sum of p;  C = C a + p · V;  m = n
//   C / l, and the stages after the second product
//
// Keys and values of the next block are on their way meanwhile, by units of 16 bytes where operands
// are aligned, else by elements. A row whose maximum is -inf so far has p = 0, and is NaN where it
// stays so, as a softmax of such a row is. p is rounded before it is multiplied, as weights are.
#include "backend_cuda/emit/chain_keys.h"
#include "backend_cuda/emit/ptx.h"
#include "backend_llvm/emit/loops.h"

#include "runtime/base/status.h"

// ---- Form -----------------------------------------------------------------------------------------
static void lay_out(dt_keys_t *q) {
  dt_scores_t *s = &q->base.s;
  s->sums_pitch = dt__attention_sums_pitch(s->cols);
  s->row_pitch = q->groups ? DT_PANEL_BYTES : dt__attention_pitch(s->depth);
  s->col_pitch = q->groups ? DT_PANEL_BYTES : dt__attention_pitch(s->cols);
  uint32_t row = dt__attention_row(s->depth, q->groups),
           col = dt__attention_row(s->cols, q->groups);
  q->k_stage = DT_ATTENTION_KEYS * row;
  q->v_stage = DT_ATTENTION_KEYS * col;
  s->k_at = DT_ATTENTION_ROWS * row;
  s->v_at = s->k_at + dt__attention_stages(q->groups) * q->k_stage;
  s->sums_at = 0; // in the place of all of them
  s->bytes = dt__attention_bytes(s->depth, s->cols, q->groups);
  q->found_at = s->bytes - DT_ATTENTION_FOUND;
}

static dt_status_t open_keys(dt_program_t *program, const dt_cuda_chain_t *chain, bool strict,
                             dt_keys_t *out) {
  *out = (dt_keys_t){.base = {.s = {.vectors = MOST_VECTORS}, .rows = 2}};
  dt_scores_t *s = &out->base.s;
  DT_TRY(dt__attend_open(program, chain, strict, &out->base));
  const dt_team_matmul_t *tile = &s->schedules[2]->team_matmul;
  s->warps_m = tile->tile_rows / BLOCK;
  s->warps_n = s->steps = 1;
  if (tile->tile_rows != DT_ATTENTION_ROWS || s->warps_m != DT_CHAIN_WARPS ||
      tile->keys != DT_ATTENTION_KEYS || DT_ATTENTION_KEYS != MOST_VECTORS * BLOCK)
    return DT_FAIL(DT_E_INTERNAL, "chain: tiles of %u rows and %u keys", tile->tile_rows,
                   tile->keys);
  out->groups = s->head_plan.groups;
  out->held = out->ahead = out->groups && dt__attend_blocks(&out->base) == 1;
  out->bounded = dt__attention_bound(program, &out->base.a, &out->unseen);
  lay_out(out);
  return NULL;
}

dt_status_t dt__chain_keys_plan(dt_program_t *program, bool strict, dt_cuda_chain_t *chain) {
  dt_keys_t q;
  DT_TRY(open_keys(program, chain, strict, &q));
  dt__attend_plan(&q.base, chain);
  return NULL;
}

// ---- One block of keys ----------------------------------------------------------------------------
static void take_row(dt_keys_t *q, uint32_t r, LLVMValueRef end, LLVMValueRef *out_factor) {
  LLVMValueRef x[MOST_VECTORS * LANES];
  dt__attend_widen(&q->base, r, end, x);
  LLVMValueRef most = x[0];
  for (uint32_t i = 1; i < q->base.s.vectors * LANES; i++)
    most = greater(q->base.s.m, most, x[i]);
  dt__attend_take_row(&q->base, r, x, most, out_factor);
}

// C times the rows' factors, where a row of the warp has one that is not 1; mostly none has.
static void rescale(dt_keys_t *q, const LLVMValueRef factors[2]) {
  dt_body_t *k = q->base.s.k;
  dt_emit_t *m = q->base.s.m;
  LLVMValueRef one = LLVMConstReal(m->t_f32, 1);
  LLVMValueRef moved = LLVMBuildOr(m->b, LLVMBuildFCmp(m->b, LLVMRealUNE, factors[0], one, ""),
                                   LLVMBuildFCmp(m->b, LLVMRealUNE, factors[1], one, ""), "");
  dt__scope_open(k, ROUND, dt__ptx_any(m, moved));
  for (uint32_t i = 0; i < dt__attend_sums(&q->base); i++) {
    LLVMValueRef own = LLVMBuildLoad2(m->b, m->t_f32, q->base.slots[i], "");
    LLVMBuildStore(m->b, LLVMBuildFMul(m->b, own, factors[dt__attend_row_of(i)], ""),
                   q->base.slots[i]);
  }
  dt__scope_close(k, ROUND);
  dt__body_at(k, STEP);
}

static void load_sums(dt_keys_t *q) {
  for (uint32_t i = 0; i < dt__attend_sums(&q->base); i++)
    q->base.s.sums[i] = LLVMBuildLoad2(q->base.s.m->b, q->base.s.m->t_f32, q->base.slots[i], "");
}

// The scores of the block from number `first` on, into s->sums; where they are ahead those of the
// next one, from `next` on, are begun in `begun`. Copies go on meanwhile, those of elements before:
// they need registers.
static void multiply(dt_keys_t *q, LLVMValueRef first, LLVMValueRef next, LLVMValueRef *begun) {
  dt_scores_t *s = &q->base.s;
  dt_emit_t *m = s->m;
  if (!q->groups) {
    dt__keys_copy_next(q, ROUND, first);
    dt__body_at(s->k, STEP);
    s->k_stage = dt__keys_stage(q, first, q->k_stage);
    dt__scores_multiply(s);
    return;
  }
  if (!q->base.aligned)
    dt__keys_copy_next(q, ROUND, first);
  dt__body_at(s->k, STEP);
  dt__keys_begin_scores(q, q->ahead ? next : first, begun);
  if (q->base.aligned)
    dt__keys_copy_next(q, ROUND, first);
  dt__body_at(s->k, STEP);
  dt__keys_tell(q, next);
  if (!q->ahead)
    dt__ptx_group_wait(m, 0, DT_KEYS_SCORES, begun);
  for (uint32_t i = 0; i < DT_KEYS_SCORES; i++)
    s->sums[i] = q->ahead ? LLVMBuildLoad2(m->b, m->t_f32, q->next[i], "") : begun[i];
}

// s->sums += s->fragments times the values of the block; what has been begun has ended.
static void add_rows(dt_keys_t *q, LLVMValueRef first, LLVMValueRef *begun) {
  dt_scores_t *s = &q->base.s;
  dt_emit_t *m = s->m;
  if (!q->groups) {
    s->v_stage = dt__keys_stage(q, first, q->v_stage);
    dt__scores_add_rows(s);
    return;
  }
  dt__keys_begin_sums(q, first);
  if (q->ahead) {
    dt__ptx_group_wait(m, 1, DT_KEYS_SCORES, begun);
    for (uint32_t i = 0; i < DT_KEYS_SCORES; i++)
      LLVMBuildStore(m->b, begun[i], q->next[i]);
  }
  dt__ptx_group_wait(m, 0, dt__attend_sums(&q->base), s->sums);
}

// Keys from number `first` on, at STEP; `full`: there are as many as a block has.
static void emit_block(dt_keys_t *q, LLVMValueRef first, bool full) {
  dt_scores_t *s = &q->base.s;
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  LLVMValueRef begun[DT_KEYS_SCORES], keys = dt__emit_i64(m, DT_ATTENTION_KEYS);
  s->full = full;
  s->first_col = first;
  dt__keys_await(q, first);
  LLVMValueRef next = LLVMBuildNSWAdd(m->b, first, keys, "");
  dt__scores_place_thread(s);
  dt__scores_place_rows(s);
  multiply(q, first, next, begun);
  dt__scores_make(s);
  dt__body_at(k, STEP);
  dt__scores_place_thread(s);
  LLVMValueRef end = narrow(m, LLVMBuildNSWSub(m->b, s->extent_n, first, "")), factors[2];
  for (uint32_t r = 0; r < 2 && !m->failure; r++)
    take_row(q, r, end, &factors[r]);
  if (m->failure)
    return;
  rescale(q, factors);
  load_sums(q);
  add_rows(q, first, begun);
  for (uint32_t i = 0; i < dt__attend_sums(&q->base); i++)
    LLVMBuildStore(m->b, s->sums[i], q->base.slots[i]);
}

// ---- Items ----------------------------------------------------------------------------------------
static void end_sums(dt_keys_t *q) {
  dt_scores_t *s = &q->base.s;
  dt_emit_t *m = s->m;
  LLVMValueRef factors[2];
  for (uint32_t r = 0; r < 2; r++) {
    LLVMValueRef sum = LLVMBuildLoad2(m->b, m->t_f32, q->base.sum[r], "");
    sum = dt__attend_quad(&q->base, sum, NULL);
    factors[r] = LLVMBuildFDiv(m->b, LLVMConstReal(m->t_f32, 1), sum, "");
  }
  load_sums(q);
  for (uint32_t i = 0; i < dt__attend_sums(&q->base); i++)
    s->sums[i] = LLVMBuildFMul(m->b, s->sums[i], factors[dt__attend_row_of(i)], "");
}

// What is done with queries once an item: they are held, and the first block's scores are made.
static void begin_scores(dt_keys_t *q) {
  dt_scores_t *s = &q->base.s;
  dt_emit_t *m = s->m;
  LLVMValueRef none = dt__emit_i64(m, 0);
  if (!q->groups)
    return;
  dt__keys_hold_queries(q);
  if (!q->ahead)
    return;
  dt__keys_begin_scores(q, none, s->sums);
  dt__ptx_group_wait(m, 0, DT_KEYS_SCORES, s->sums);
  for (uint32_t i = 0; i < DT_KEYS_SCORES; i++) {
    q->next[i] = dt__body_slot(s->k, m->t_f32, 1);
    LLVMBuildStore(m->b, s->sums[i], q->next[i]);
  }
}

static void emit_version(void *own, LLVMValueRef wanted) {
  dt_keys_t *q = own;
  dt_scores_t *s = &q->base.s;
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  dt__scope_open(k, PART, wanted);
  k->base_level = PART;
  dt__chain_wait(s->t);
  dt__scores_place_thread(s);
  s->above = i32(m, 0);
  dt__keys_copy_first(q);
  dt__keys_bound(q);
  dt__attend_begin_sums(&q->base);
  begin_scores(q);
  uint32_t keys = DT_ATTENTION_KEYS;
  LLVMValueRef rest = LLVMBuildURem(m->b, q->end, dt__emit_i64(m, keys), "");
  LLVMValueRef whole = LLVMBuildNSWSub(m->b, q->end, rest, "");
  LLVMValueRef first = dt__loop_open(k, STEP, dt__emit_i64(m, 0), whole, keys);
  dt__ptx_no_unroll(m);
  emit_block(q, first, true);
  dt__body_at(k, STEP);
  dt__loop_close(k, STEP);
  dt__body_at(k, PART);
  dt__scope_open(k, STEP, below(m, whole, q->end));
  emit_block(q, whole, false);
  dt__scope_close(k, STEP);
  dt__body_at(k, PART);
  dt__keys_end(q);
  dt__level_enter(k, STEP);
  dt__scores_place_thread(s);
  end_sums(q);
  dt__scores_finish(s);
  dt__body_at(k, STEP);
  dt__cuda_block_sync(m); // the next item's copies go to where these sums are
  dt__level_leave(k, STEP);
  dt__body_at(k, PART);
  dt__scope_close(k, PART);
  k->base_level = ITEM;
  s->first_col = NULL;
}

void dt__chain_keys(dt_chain_item_t *t) {
  dt_emit_t *m = t->k->m;
  dt_keys_t q;
  dt_status_t status = open_keys(&m->program, t->chain, m->target->strict_fp, &q);
  if (status) {
    dt__emit_fail(m, status);
    return;
  }
  dt__attend_item(&q.base, t);
  if (q.groups)
    LLVMSetAlignment(q.base.s.shared, 8 * DT_PANEL_BYTES); // after which places in panels repeat
  dt__attend_versions(&q.base, emit_version, &q);
}
