// SPDX-License-Identifier: Apache-2.0
// See chain_attention.h.
#include "backend_cuda/emit/chain_attention.h"
#include "backend_cuda/emit/ptx.h"
#include "backend_llvm/emit/aligned.h"
#include "backend_llvm/emit/index.h"

#include "runtime/base/status.h"

#define LOG2_E 1.4426950408889634

// ---- Form -----------------------------------------------------------------------------------------
dt_status_t dt__attend_open(dt_program_t *program, const dt_cuda_chain_t *chain, bool strict,
                            dt_attend_t *q) {
  dt_scores_t *s = &q->s;
  if (strict || !dt__chain_attention(program, chain->kernels, &q->a))
    return DT_FAIL(DT_E_INTERNAL, "chain: kernels from %u on are no attention",
                   chain->kernels.first);
  s->score = q->a.score;
  s->rows = q->a.rows;
  s->head = q->a.head;
  s->made = q->a.scores;
  s->weights = q->a.weights;
  s->depth = q->a.depth;
  s->cols = q->a.cols;
  const dt_kernel_t *kernels[MEMBERS] = {s->score, s->rows, s->head};
  for (uint32_t i = 0; i < MEMBERS; i++)
    s->schedules[i] = &kernels[i]->schedules.items[chain->schedule];
  DT_TRY(dt__matmul_plan(program, s->score, s->schedules[0], strict, &s->score_plan));
  return dt__matmul_plan(program, s->head, s->schedules[2], strict, &s->head_plan);
}

uint32_t dt__attend_blocks(const dt_attend_t *q) {
  return q->s.cols > DT_ATTENTION_MOST / 2 || q->s.depth > DT_ATTENTION_MOST / 2 ? 1 : 2;
}

void dt__attend_plan(const dt_attend_t *q, dt_cuda_chain_t *chain) {
  chain->shared_bytes = (q->s.bytes + 63) & ~63U;
  chain->blocks = dt__attend_blocks(q);
}

// ---- Items ----------------------------------------------------------------------------------------
void dt__attend_item(dt_attend_t *q, dt_chain_item_t *t) {
  q->s.t = t;
  q->s.k = t->k;
  q->s.m = t->k->m;
  q->s.shared = dt__cuda_shared_base(q->s.m);
}

// Where copies go by units and what follows the products by vectors, at level 0; NULL: never.
static LLVMValueRef is_aligned(dt_scores_t *s) {
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

void dt__attend_versions(dt_attend_t *q, void (*emit)(void *own, LLVMValueRef wanted), void *own) {
  dt_body_t *k = q->s.k;
  dt_emit_t *m = q->s.m;
  LLVMValueRef aligned = is_aligned(&q->s);
  if (m->failure)
    return;
  dt__body_at(k, ITEM);
  if (aligned) {
    q->aligned = q->s.whole = true;
    emit(own, aligned);
    dt__body_at(k, ITEM);
    aligned = LLVMBuildNot(m->b, aligned, "");
  }
  q->aligned = q->s.whole = false;
  emit(own, aligned);
}

// ---- Rows -----------------------------------------------------------------------------------------
void dt__attend_begin_sums(dt_attend_t *q) {
  dt_body_t *k = q->s.k;
  dt_emit_t *m = q->s.m;
  for (uint32_t i = 0; i < dt__attend_sums(q); i++) {
    if (dt__attend_row_of(i) >= q->rows)
      continue;
    q->slots[i] = dt__body_slot(k, m->t_f32, 1);
    LLVMBuildStore(m->b, LLVMConstNull(m->t_f32), q->slots[i]);
  }
  for (uint32_t r = 0; r < q->rows; r++) {
    q->max[r] = dt__body_slot(k, m->t_f32, 1);
    q->sum[r] = dt__body_slot(k, m->t_f32, 1);
    LLVMBuildStore(m->b, LLVMConstReal(m->t_f32, -__builtin_inf()), q->max[r]);
    LLVMBuildStore(m->b, LLVMConstNull(m->t_f32), q->sum[r]);
  }
}

LLVMValueRef dt__attend_quad(dt_attend_t *q, LLVMValueRef value, const char *join) {
  dt_emit_t *m = q->s.m;
  for (uint32_t distance = 1; distance < QUAD; distance *= 2) {
    LLVMValueRef other = m->device->exchange(q->s.k, value, distance);
    value =
        join ? dt__emit_intrinsic2(m, join, value, other) : LLVMBuildFAdd(m->b, value, other, "");
  }
  return value;
}

LLVMValueRef dt__attend_power(dt_emit_t *m, LLVMValueRef x, LLVMValueRef less) {
  LLVMValueRef log = LLVMConstReal(m->t_f32, LOG2_E);
  return dt__ptx_power(m, LLVMBuildFMul(m->b, LLVMBuildFSub(m->b, x, less, ""), log, ""));
}

LLVMValueRef dt__attend_base(dt_emit_t *m, LLVMValueRef most) {
  LLVMValueRef none = LLVMConstReal(m->t_f32, -__builtin_inf());
  LLVMValueRef empty = LLVMBuildFCmp(m->b, LLVMRealOEQ, most, none, "");
  return LLVMBuildSelect(m->b, empty, LLVMConstNull(m->t_f32), most, "");
}

void dt__attend_widen(dt_attend_t *q, uint32_t r, LLVMValueRef end, LLVMValueRef *out) {
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

void dt__attend_take_row(dt_attend_t *q, uint32_t r, const LLVMValueRef *x, LLVMValueRef most,
                         LLVMValueRef *out_factor) {
  dt_scores_t *s = &q->s;
  dt_emit_t *m = s->m;
  LLVMValueRef all = NULL, before = LLVMBuildLoad2(m->b, m->t_f32, q->max[r], "");
  most = greater(m, before, dt__attend_quad(q, most, "llvm.maximum"));
  LLVMValueRef less = dt__attend_base(m, most), factor = dt__attend_power(m, before, less);
  for (uint32_t c = 0; c < s->vectors; c++) {
    LLVMValueRef p = LLVMGetPoison(LLVMVectorType(m->t_f32, LANES));
    for (uint32_t i = 0; i < LANES; i++) {
      LLVMValueRef one = dt__attend_power(m, x[c * LANES + i], less);
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
