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
#include "backend_llvm/emit/aligned.h"
#include "backend_llvm/emit/index.h"
#include "backend_llvm/emit/loops.h"

#include "runtime/base/status.h"

#define LOG2_E 1.4426950408889634

// ---- Form -----------------------------------------------------------------------------------------
static void lay_out(dt_keys_t *q) {
  dt_scores_t *s = &q->s;
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
}

// On one processor.
static uint32_t blocks_of(const dt_keys_t *q) {
  return q->s.cols > DT_ATTENTION_MOST / 2 || q->s.depth > DT_ATTENTION_MOST / 2 ? 1 : 2;
}

static dt_status_t open_keys(dt_program_t *program, const dt_cuda_chain_t *chain, bool strict,
                             dt_keys_t *out) {
  *out = (dt_keys_t){.s = {.vectors = MOST_VECTORS}};
  dt_scores_t *s = &out->s;
  if (strict || !dt__chain_attention(program, chain->kernels, &out->a))
    return DT_FAIL(DT_E_INTERNAL, "chain: kernels from %u on are no attention",
                   chain->kernels.first);
  s->score = out->a.score;
  s->rows = out->a.rows;
  s->head = out->a.head;
  s->made = out->a.scores;
  s->weights = out->a.weights;
  s->depth = out->a.depth;
  s->cols = out->a.cols;
  const dt_kernel_t *kernels[MEMBERS] = {s->score, s->rows, s->head};
  for (uint32_t i = 0; i < MEMBERS; i++)
    s->schedules[i] = &kernels[i]->schedules.items[chain->schedule];
  DT_TRY(dt__matmul_plan(program, s->score, s->schedules[0], strict, &s->score_plan));
  DT_TRY(dt__matmul_plan(program, s->head, s->schedules[2], strict, &s->head_plan));
  const dt_team_matmul_t *tile = &s->schedules[2]->team_matmul;
  s->warps_m = tile->tile_rows / BLOCK;
  s->warps_n = s->steps = 1;
  if (tile->tile_rows != DT_ATTENTION_ROWS || s->warps_m != DT_CHAIN_WARPS ||
      tile->keys != DT_ATTENTION_KEYS || DT_ATTENTION_KEYS != MOST_VECTORS * BLOCK)
    return DT_FAIL(DT_E_INTERNAL, "chain: tiles of %u rows and %u keys", tile->tile_rows,
                   tile->keys);
  out->groups = s->head_plan.groups;
  out->held = out->ahead = out->groups && blocks_of(out) == 1;
  lay_out(out);
  return NULL;
}

dt_status_t dt__chain_keys_plan(dt_program_t *program, bool strict, dt_cuda_chain_t *chain) {
  dt_keys_t q;
  DT_TRY(open_keys(program, chain, strict, &q));
  chain->shared_bytes = (q.s.bytes + 63) & ~63U;
  chain->blocks = blocks_of(&q);
  return NULL;
}

// ---- One block of keys ----------------------------------------------------------------------------
static LLVMValueRef quad_join(dt_keys_t *q, LLVMValueRef value, const char *join) {
  dt_emit_t *m = q->s.m;
  for (uint32_t distance = 1; distance < QUAD; distance *= 2) {
    LLVMValueRef other = m->device->exchange(q->s.k, value, distance);
    value =
        join ? dt__emit_intrinsic2(m, join, value, other) : LLVMBuildFAdd(m->b, value, other, "");
  }
  return value;
}

static LLVMValueRef power(dt_keys_t *q, LLVMValueRef x, LLVMValueRef less) {
  dt_emit_t *m = q->s.m;
  LLVMValueRef log = LLVMConstReal(m->t_f32, LOG2_E);
  LLVMValueRef by = LLVMBuildFMul(m->b, LLVMBuildFSub(m->b, x, less, ""), log, "");
  return dt__ptx_power(m, by);
}

// The elements of row r, cast to f32; -inf past the end of rows.
static void widen(dt_keys_t *q, uint32_t r, LLVMValueRef end, LLVMValueRef *out) {
  dt_scores_t *s = &q->s;
  dt_emit_t *m = s->m;
  dt_dtype_t dtype = dt__program_buffer(&m->program, s->made)->dtype;
  LLVMValueRef none = LLVMConstReal(m->t_f32, -__builtin_inf());
  for (uint32_t c = 0; c < s->vectors; c++) {
    LLVMValueRef vector = s->values[r][c];
    if (dtype != DT_F32)
      vector = dt__emit_cast(m, dtype, DT_F32, vector);
    else if (q->a.round != DT_F32)
      vector = dt__emit_cast(m, q->a.round, DT_F32, dt__emit_cast(m, DT_F32, q->a.round, vector));
    for (uint32_t i = 0; i < LANES; i++) {
      LLVMValueRef x = LLVMBuildExtractElement(m->b, vector, i32(m, i), "");
      if (!s->full) {
        LLVMValueRef col = add(m, dt__scores_column(s, c), i32(m, i));
        x = LLVMBuildSelect(m->b, below(m, col, end), x, none, "");
      }
      out[c * LANES + i] = x;
    }
  }
}

static void take_row(dt_keys_t *q, uint32_t r, LLVMValueRef end, LLVMValueRef *out_factor) {
  dt_scores_t *s = &q->s;
  dt_emit_t *m = s->m;
  LLVMValueRef x[MOST_VECTORS * LANES], none = LLVMConstReal(m->t_f32, -__builtin_inf());
  uint32_t n = s->vectors * LANES;
  widen(q, r, end, x);
  LLVMValueRef most = x[0], all = NULL;
  for (uint32_t i = 1; i < n; i++)
    most = dt__emit_intrinsic2(m, "llvm.maximum", most, x[i]);
  most = quad_join(q, most, "llvm.maximum");
  LLVMValueRef before = LLVMBuildLoad2(m->b, m->t_f32, q->max[r], "");
  most = dt__emit_intrinsic2(m, "llvm.maximum", before, most);
  LLVMValueRef empty = LLVMBuildFCmp(m->b, LLVMRealOEQ, most, none, "");
  LLVMValueRef less = LLVMBuildSelect(m->b, empty, LLVMConstNull(m->t_f32), most, "");
  LLVMValueRef factor = power(q, before, less);
  LLVMTypeRef lanes = LLVMVectorType(m->t_f32, LANES);
  for (uint32_t c = 0; c < s->vectors; c++) {
    LLVMValueRef p = LLVMGetPoison(lanes);
    for (uint32_t i = 0; i < LANES; i++) {
      LLVMValueRef one = power(q, x[c * LANES + i], less);
      p = LLVMBuildInsertElement(m->b, p, one, i32(m, i), "");
      all = all ? LLVMBuildFAdd(m->b, all, one, "") : one;
    }
    LLVMValueRef words = dt__emit_cast(m, DT_F32, s->head_plan.a.dtype, p);
    words = LLVMBuildBitCast(m->b, words, LLVMVectorType(m->t_i32, 2), "");
    for (uint32_t i = 0; i < 2; i++)
      s->fragments[c][i * 2 + r] = LLVMBuildExtractElement(m->b, words, i32(m, i), "");
  }
  LLVMValueRef sum = LLVMBuildLoad2(m->b, m->t_f32, q->sum[r], "");
  sum = LLVMBuildFAdd(m->b, LLVMBuildFMul(m->b, sum, factor, ""), all, "");
  LLVMBuildStore(m->b, sum, q->sum[r]);
  LLVMBuildStore(m->b, most, q->max[r]);
  *out_factor = factor;
}

// C times the rows' factors, where a row of the warp has one that is not 1; mostly none has.
static void rescale(dt_keys_t *q, const LLVMValueRef factors[2]) {
  dt_body_t *k = q->s.k;
  dt_emit_t *m = q->s.m;
  LLVMValueRef one = LLVMConstReal(m->t_f32, 1);
  LLVMValueRef moved = LLVMBuildOr(m->b, LLVMBuildFCmp(m->b, LLVMRealUNE, factors[0], one, ""),
                                   LLVMBuildFCmp(m->b, LLVMRealUNE, factors[1], one, ""), "");
  dt__scope_open(k, ROUND, dt__ptx_any(m, moved));
  for (uint32_t i = 0; i < dt__keys_sums(q); i++) {
    LLVMValueRef own = LLVMBuildLoad2(m->b, m->t_f32, q->slots[i], "");
    LLVMBuildStore(m->b, LLVMBuildFMul(m->b, own, factors[i / 2 % 2], ""), q->slots[i]);
  }
  dt__scope_close(k, ROUND);
  dt__body_at(k, STEP);
}

static void load_sums(dt_keys_t *q) {
  for (uint32_t i = 0; i < dt__keys_sums(q); i++)
    q->s.sums[i] = LLVMBuildLoad2(q->s.m->b, q->s.m->t_f32, q->slots[i], "");
}

// The scores of the block from number `first` on, into s->sums; where they are ahead those of the
// next one, from `next` on, are begun in `begun`. Copies go on meanwhile, those of elements before:
// they need registers.
static void multiply(dt_keys_t *q, LLVMValueRef first, LLVMValueRef next, LLVMValueRef *begun) {
  dt_scores_t *s = &q->s;
  dt_emit_t *m = s->m;
  if (!q->groups) {
    dt__keys_copy_next(q, ROUND, first);
    dt__body_at(s->k, STEP);
    s->k_stage = dt__keys_stage(q, first, q->k_stage);
    dt__scores_multiply(s);
    return;
  }
  if (!q->aligned)
    dt__keys_copy_next(q, ROUND, first);
  dt__body_at(s->k, STEP);
  dt__keys_begin_scores(q, q->ahead ? next : first, begun);
  if (q->aligned)
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
  dt_scores_t *s = &q->s;
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
  dt__ptx_group_wait(m, 0, dt__keys_sums(q), s->sums);
}

// Keys from number `first` on, at STEP; `full`: there are as many as a block has.
static void emit_block(dt_keys_t *q, LLVMValueRef first, bool full) {
  dt_scores_t *s = &q->s;
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
  for (uint32_t i = 0; i < dt__keys_sums(q); i++)
    LLVMBuildStore(m->b, s->sums[i], q->slots[i]);
}

// ---- Items ----------------------------------------------------------------------------------------
static void begin_sums(dt_keys_t *q) {
  dt_body_t *k = q->s.k;
  dt_emit_t *m = q->s.m;
  for (uint32_t i = 0; i < dt__keys_sums(q); i++) {
    q->slots[i] = dt__body_slot(k, m->t_f32, 1);
    LLVMBuildStore(m->b, LLVMConstNull(m->t_f32), q->slots[i]);
  }
  for (uint32_t r = 0; r < 2; r++) {
    q->max[r] = dt__body_slot(k, m->t_f32, 1);
    q->sum[r] = dt__body_slot(k, m->t_f32, 1);
    LLVMBuildStore(m->b, LLVMConstReal(m->t_f32, -__builtin_inf()), q->max[r]);
    LLVMBuildStore(m->b, LLVMConstNull(m->t_f32), q->sum[r]);
  }
}

static void end_sums(dt_keys_t *q) {
  dt_scores_t *s = &q->s;
  dt_emit_t *m = s->m;
  LLVMValueRef factors[2];
  for (uint32_t r = 0; r < 2; r++) {
    LLVMValueRef sum = quad_join(q, LLVMBuildLoad2(m->b, m->t_f32, q->sum[r], ""), NULL);
    factors[r] = LLVMBuildFDiv(m->b, LLVMConstReal(m->t_f32, 1), sum, "");
  }
  load_sums(q);
  for (uint32_t i = 0; i < dt__keys_sums(q); i++)
    s->sums[i] = LLVMBuildFMul(m->b, s->sums[i], factors[i / 2 % 2], "");
}

// What is done with queries once an item: they are held, and the first block's scores are made.
static void begin_scores(dt_keys_t *q) {
  dt_scores_t *s = &q->s;
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

static void emit_version(dt_keys_t *q, LLVMValueRef wanted) {
  dt_scores_t *s = &q->s;
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  dt__scope_open(k, PART, wanted);
  k->base_level = PART;
  dt__chain_wait(s->t);
  dt__scores_place_thread(s);
  s->above = i32(m, 0);
  dt__keys_copy_first(q);
  begin_sums(q);
  begin_scores(q);
  uint32_t keys = DT_ATTENTION_KEYS;
  LLVMValueRef rest = LLVMBuildURem(m->b, s->extent_n, dt__emit_i64(m, keys), "");
  LLVMValueRef whole = LLVMBuildNSWSub(m->b, s->extent_n, rest, "");
  LLVMValueRef first = dt__loop_open(k, STEP, dt__emit_i64(m, 0), whole, keys);
  dt__ptx_no_unroll(m);
  emit_block(q, first, true);
  dt__body_at(k, STEP);
  dt__loop_close(k, STEP);
  dt__body_at(k, PART);
  dt__scope_open(k, STEP, below(m, whole, s->extent_n));
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

// Where copies go by units and what follows the products by vectors, at level 0; NULL: never.
static LLVMValueRef is_aligned(dt_keys_t *q) {
  dt_scores_t *s = &q->s;
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  const dt_kernel_t *kernels[2] = {s->score, s->head};
  const dt_schedule_t *schedules[2] = {s->schedules[0], s->schedules[2]};
  LLVMValueRef all = NULL;
  for (uint32_t i = 0; i < 2; i++) {
    if (!dt__scores_take(s, kernels[i], schedules[i]))
      return NULL;
    dt__scores_begin_stage(s);
    LLVMValueRef units = dt__cuda_matmul_aligned(k), vectors = dt__lanes_aligned(k, LANES);
    if (i == 0) {
      s->extent_m = dt__index_scalar(k, s->score_plan.a.extent);
      s->extent_n = dt__index_scalar(k, s->score_plan.b.extent);
    }
    dt__body_at(k, 0);
    if (!units || !vectors)
      return NULL;
    units = both(m, units, vectors);
    all = all ? both(m, all, units) : units;
  }
  return all;
}

void dt__chain_keys(dt_chain_item_t *t) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  dt_keys_t q;
  dt_status_t status = open_keys(&m->program, t->chain, m->target->strict_fp, &q);
  if (status) {
    dt__emit_fail(m, status);
    return;
  }
  q.s.t = t;
  q.s.k = k;
  q.s.m = m;
  q.s.shared = dt__cuda_shared_base(m);
  if (q.groups)
    LLVMSetAlignment(q.s.shared, 8 * DT_PANEL_BYTES); // after which places in panels repeat
  LLVMValueRef aligned = is_aligned(&q);
  if (m->failure)
    return;
  dt__body_at(k, ITEM);
  if (aligned) {
    q.aligned = q.s.whole = true;
    emit_version(&q, aligned);
    dt__body_at(k, ITEM);
    aligned = LLVMBuildNot(m->b, aligned, "");
  }
  q.aligned = q.s.whole = false;
  emit_version(&q, aligned);
}
