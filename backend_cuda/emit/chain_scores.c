// SPDX-License-Identifier: Apache-2.0
// Chains of product, rows, product whose rows are short enough to stay in registers all the way (as
// in FlashAttention-2, but for the rescaling: rows are whole here). Everything is copied to shared
// memory at once. Tensor cores leave a quad of threads 16 rows x 16 columns as
//
//   thread q of four:  row g, and row g + 8, each with columns 4 q … 4 q + 3
//
// where B's columns stand in another order in shared memory: of 16, those with number 4 c + 2 b + e
// are row 8 b + 2 c + e. That is how a team of four threads with vectors of 4 lanes walks a row
// (backend_llvm/emit/resident.c), so the row kernel runs on these registers; and what it makes is
// operand A of the next product as tensor cores want it, where B's rows stand in the same order.
// Warps side by side take 16 columns of a row in turn, and are one team with more threads:
//
//   Q, K ─► scores ─► stages ─► row stages, both rows of a thread together ─► · V ─► parts of C
//                               each reduction: own columns, quad, then warps shared memory │
//                               in their order, through shared memory        later stages ◄─┘
//
// Rows that end anywhere do: past the end columns take no part in reductions, and are zeros for the
// product.
//
// Here: versions and their steps; chain_scores_form.c says which chains have the form,
// chain_scores_copy.c has copies, chain_scores_product.c both products, chain_scores_rows.c what
// comes between and after them.
#include "backend_cuda/emit/chain_scores.h"
#include "backend_cuda/emit/ptx.h"
#include "backend_llvm/emit/aligned.h"
#include "backend_llvm/emit/grid.h"
#include "backend_llvm/emit/index.h"

bool dt__scores_take(dt_scores_t *s, const dt_kernel_t *kernel, const dt_schedule_t *schedule) {
  dt_status_t status = dt__body_take(s->k, kernel, schedule);
  if (status)
    dt__emit_fail(s->m, status);
  return !status;
}

void dt__scores_begin_stage(dt_scores_t *s) {
  dt_body_t *k = s->k;
  k->stage_index = 0;
  k->stage = &k->kernel->stages.items[0];
  k->axis = k->outer_lanes = k->acc_vector = k->resident.on = false;
  k->team = s->score_plan.threads;
  k->rank = NULL;
  k->lanes = 1;
  k->aligned = true;
  k->item_level = STEP;
}

// ---- Versions -------------------------------------------------------------------------------------
static void emit_step(dt_scores_t *s) {
  dt_emit_t *m = s->m;
  dt__scores_place_thread(s);
  dt__scores_place_rows(s);
  dt__scores_multiply(s);
  dt__scores_make(s);
  dt__body_at(s->k, STEP);
  dt__scores_make_rows(s);
  dt__body_at(s->k, STEP);
  dt__ptx_copies_wait(m, 0);
  dt__cuda_block_sync(m);
  dt__scores_place_thread(s);
  dt__scores_multiply_rows(s);
  dt__scores_finish(s);
  dt__body_at(s->k, STEP);
  dt__cuda_block_sync(m);
}

// One after another, up to the matrix' last row.
static void emit_steps(dt_scores_t *s) {
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  uint32_t each = s->warps_m * BLOCK;
  if (s->steps == 1) {
    s->above = i32(m, 0);
    dt__level_enter(k, STEP);
    emit_step(s);
    dt__level_leave(k, STEP);
    return;
  }
  LLVMValueRef left = LLVMBuildNSWSub(m->b, s->extent_m, s->t->first_row, "");
  left = lesser(m, left, dt__emit_i64(m, (int64_t)s->steps * each));
  LLVMValueRef above = dt__loop_open(k, STEP, dt__emit_i64(m, 0), left, each);
  dt__ptx_no_unroll(m);
  s->above = LLVMBuildTrunc(m->b, above, m->t_i32, "");
  emit_step(s);
  dt__loop_close(k, STEP);
}

static void emit_version(dt_scores_t *s, LLVMValueRef wanted) {
  dt_body_t *k = s->k;
  dt__scope_open(k, PART, wanted);
  k->base_level = PART;
  dt__chain_wait(s->t);
  dt__scores_place_thread(s);
  dt__scores_copy(s);
  dt__body_at(k, PART);
  dt__ptx_copies_wait(s->m, 1);
  dt__cuda_block_sync(s->m);
  emit_steps(s);
  dt__scope_close(k, PART);
  k->base_level = ITEM;
}

// What every version needs beside `all`, at level 0; NULL: never.
static LLVMValueRef fits(dt_scores_t *s, LLVMValueRef all) {
  dt_emit_t *m = s->m;
  dt_body_t *k = s->k;
  LLVMValueRef own = NULL;
  if (!dt__scores_take(s, s->score, s->schedules[0]))
    return NULL;
  dt__scores_begin_stage(s);
  own = dt__cuda_matmul_aligned(k);
  s->extent_m = dt__index_scalar(k, s->score_plan.a.extent);
  s->extent_n = dt__index_scalar(k, s->score_plan.b.extent);
  dt__body_at(k, 0);
  if (!own || !dt__scores_take(s, s->head, s->schedules[2]))
    return NULL;
  all = both(m, all, own);
  dt__scores_begin_stage(s);
  own = dt__cuda_matmul_aligned(k);
  LLVMValueRef groups = dt__lanes_aligned(k, LANES);
  dt__body_at(k, 0);
  return own && groups ? both(m, all, both(m, own, groups)) : NULL;
}

// Where vectors are all in the row or none, at level 0; NULL: never.
static LLVMValueRef are_whole(dt_scores_t *s) {
  dt_body_t *k = s->k;
  dt_schedule_t own = *s->schedules[1];
  own.lanes = LANES;
  if (!dt__scores_take(s, s->score, s->schedules[0]))
    return NULL;
  dt__scores_begin_stage(s);
  LLVMValueRef scores = dt__lanes_aligned(k, LANES);
  if (!scores || !dt__scores_take(s, s->rows, &own))
    return NULL;
  dt__scores_begin_stage(s);
  LLVMValueRef rows = dt__lanes_aligned(k, LANES);
  dt__body_at(k, 0);
  return rows ? both(s->m, scores, rows) : NULL;
}

// Rows are no longer than this version's, and there is memory, at level 0.
static LLVMValueRef is_short(dt_scores_t *s, LLVMValueRef have) {
  dt_emit_t *m = s->m;
  LLVMValueRef most = dt__emit_i64(m, columns_of(s));
  LLVMValueRef some = below(m, dt__emit_i64(m, 0), s->extent_n);
  LLVMValueRef fit = LLVMBuildICmp(m->b, LLVMIntSLE, s->extent_n, most, "");
  LLVMValueRef room = LLVMBuildICmp(m->b, LLVMIntSLE, dt__emit_i64(m, s->bytes), have, "");
  return both(m, both(m, some, fit), room);
}

// Versions for so long rows, where `wanted`: for whole vectors, and for any.
static void emit_both(dt_scores_t *s, LLVMValueRef wanted, LLVMValueRef whole) {
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  if (whole) {
    dt__body_at(k, ITEM);
    LLVMValueRef some = both(m, wanted, whole);
    s->whole = true;
    if (s->warps_m == MOST_ROWS) { // most of the work of rows that fill them
      LLVMValueRef most = dt__emit_i64(m, columns_of(s));
      LLVMValueRef full = LLVMBuildICmp(m->b, LLVMIntEQ, s->extent_n, most, "");
      s->full = true;
      emit_version(s, both(m, some, full));
      dt__body_at(k, ITEM);
      s->full = false;
      some = both(m, some, LLVMBuildNot(m->b, full, ""));
    }
    emit_version(s, some);
  }
  if (!s->open)
    return;
  dt__body_at(k, ITEM);
  s->whole = false;
  emit_version(s, whole ? both(m, wanted, LLVMBuildNot(m->b, whole, "")) : wanted);
}

static bool open_scores(dt_scores_t *s, dt_body_t *k, const dt_cuda_chain_t *chain) {
  dt_emit_t *m = k->m;
  if (!dt__scores_form(s, &m->program, chain->kernels, chain->schedule, m->target->strict_fp))
    return false;
  s->k = k;
  s->m = m;
  s->shared = dt__cuda_shared_base(m);
  return true;
}

static LLVMValueRef memory_of(dt_scores_t *s, const dt_cuda_chain_t *chain) {
  dt_emit_t *m = s->m;
  dt_sym_t scratch = dt__chain_scratch(m, chain->kernels.end - 1, chain->schedule, NULL);
  LLVMValueRef bytes = dt__index_scalar(s->k, scratch);
  dt__body_at(s->k, 0);
  return LLVMBuildAdd(m->b, bytes, dt__emit_i64(m, chain->shared_bytes), "");
}

LLVMValueRef dt__cuda_chain_scores(dt_body_t *k, const dt_cuda_chain_t *chain) {
  dt_scores_t s;
  LLVMValueRef any = NULL;
  dt_emit_t *m = k->m;
  const dt_kernel_t *kernel = k->kernel;
  const dt_schedule_t *schedule = k->schedule;
  if (!open_scores(&s, k, chain))
    return NULL;
  LLVMValueRef wanted = fits(&s, chain->in_shared);
  LLVMValueRef whole = wanted ? are_whole(&s) : NULL;
  if (wanted && (whole || s.open)) {
    LLVMValueRef have = memory_of(&s, chain);
    for (uint32_t v = dt__scores_usual_vectors(&s); v <= dt__scores_most_vectors(&s); v *= 2) {
      dt__scores_lay_out(&s, v);
      LLVMValueRef own = is_short(&s, have);
      any = any ? LLVMBuildOr(m->b, any, own, "") : own;
    }
    any = both(m, wanted, s.open ? any : both(m, any, whole));
  }
  (void)dt__scores_take(&s, kernel, schedule);
  return any;
}

void dt__chain_scores(dt_chain_item_t *t) {
  dt_scores_t s;
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  if (!open_scores(&s, k, t->chain) || !fits(&s, t->chain->in_shared))
    return;
  s.t = t;
  LLVMValueRef whole = are_whole(&s), have = memory_of(&s, t->chain), wanted = NULL;
  dt__body_at(k, ITEM);
  // What registers hold is not made again for other columns: the first group makes them all.
  wanted = LLVMBuildICmp(m->b, LLVMIntEQ, t->group, dt__emit_i64(m, 0), "");
  for (uint32_t v = dt__scores_usual_vectors(&s); v <= dt__scores_most_vectors(&s); v *= 2) {
    dt__scores_lay_out(&s, v);
    LLVMValueRef own = NULL;
    if (v < dt__scores_most_vectors(&s)) { // else it is all there is
      dt__body_at(k, 0);
      own = is_short(&s, have);
      dt__body_at(k, ITEM);
    }
    emit_both(&s, own ? both(m, wanted, own) : wanted, whole);
    dt__body_at(k, ITEM);
    if (own)
      wanted = both(m, wanted, LLVMBuildNot(m->b, own, ""));
  }
}
