// SPDX-License-Identifier: Apache-2.0
// How many keys a tile's rows take (chain_keys.h). A causal mask hides those behind the last row's:
// their weights are 0. Blocks of nothing else are left out, unless some value there is an infinity
// or NaN, of which 0 times is NaN: all threads look at these values first, which takes a small part
// of what multiplying by them would.
#include "backend_cuda/emit/chain_keys.h"
#include "backend_cuda/emit/ptx.h"
#include "backend_llvm/emit/index.h"

#define AHEAD 8 // units that a thread has asked for at once
#define WORDS 4 // of a unit

// Keys that rows of the item may see, in whole blocks, but at least one and no more than there are.
static LLVMValueRef seen(dt_keys_t *q) {
  dt_scores_t *s = &q->base.s;
  dt_emit_t *m = s->m;
  if (!dt__scores_take(s, s->score, s->schedules[0]))
    return s->extent_n;
  dt__scores_begin_stage(s);
  LLVMValueRef unseen = dt__index_scalar(s->k, q->unseen),
               keys = dt__emit_i64(m, DT_ATTENTION_KEYS);
  dt__body_at(s->k, PART);
  LLVMValueRef last = dt__emit_i64(m, DT_ATTENTION_ROWS - 1 + DT_ATTENTION_KEYS - 1);
  LLVMValueRef end = LLVMBuildAdd(m->b, LLVMBuildAdd(m->b, s->t->first_row, last, ""), unseen, "");
  end = LLVMBuildSelect(m->b, below(m, end, keys), keys, end, "");
  end = LLVMBuildSub(m->b, end, LLVMBuildURem(m->b, end, keys, ""), "");
  return lesser(m, end, s->extent_n);
}

// Words of which both halves, or one, have the largest exponent carry into the sign.
static LLVMValueRef carries(dt_keys_t *q, LLVMValueRef words) {
  dt_emit_t *m = q->base.s.m;
  bool wide = q->base.s.head_plan.b.dtype == DT_F16;
  uint32_t exponent = wide ? 0x7c007c00 : 0x7f807f80, one = wide ? 0x04000400 : 0x00800080;
  LLVMValueRef all = NULL;
  for (uint32_t w = 0; w < WORDS; w++) {
    LLVMValueRef word = LLVMBuildExtractElement(m->b, words, i32(m, w), "");
    word = add(m, low_bits(m, word, exponent), i32(m, one));
    all = all ? LLVMBuildOr(m->b, all, word, "") : word;
  }
  return all;
}

// ORs what values from key `end` on carry to `found`.
static void look(dt_keys_t *q, LLVMValueRef end, LLVMValueRef found) {
  dt_scores_t *s = &q->base.s;
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  if (!dt__scores_take(s, s->head, s->schedules[2]))
    return;
  dt__scores_begin_stage(s);
  const dt_operand_t *v = &s->head_plan.b;
  const dt_inst_t *load = &k->stage->insts.items[v->load];
  uint32_t units = dt__scores_units(s->cols), each = s->score_plan.threads / units;
  LLVMValueRef stride = dt__chain_stride(k, load, k->stage->vars[0]), thread = dt__ptx_thread(m);
  dt__body_at(k, PART);
  dt__scope_open(k, STEP, below(m, end, s->extent_n));
  LLVMValueRef inner = times(m, LLVMBuildURem(m->b, thread, i32(m, units), ""), UNIT);
  inner = LLVMBuildSelect(m->b, below(m, inner, i32(m, s->cols)), inner, i32(m, 0), "");
  dt__bind_symbol(k, k->stage->vars[0], STEP, dt__emit_i64(m, 0));
  dt__bind_symbol(k, v->var, STEP, wide(m, inner));
  dt_sym_t offset = dt__access_offset(k, load->buffer, load->index);
  LLVMValueRef from = dt__access_address(k, load->buffer, offset, STEP).at[0];
  dt__body_at(k, STEP);
  LLVMValueRef row = wide(m, LLVMBuildUDiv(m->b, thread, i32(m, units), ""));
  LLVMValueRef last = LLVMBuildNSWSub(m->b, s->extent_n, dt__emit_i64(m, 1), "");
  LLVMValueRef first = dt__loop_open(k, ROUND, end, s->extent_n, (int64_t)AHEAD * each);
  dt__ptx_no_unroll(m);
  LLVMValueRef units_of[AHEAD], all = LLVMBuildLoad2(m->b, m->t_i32, found, "");
  for (uint32_t i = 0; i < AHEAD; i++) {
    LLVMValueRef at = LLVMBuildNSWAdd(m->b, row, dt__emit_i64(m, i * each), "");
    at = lesser(m, LLVMBuildNSWAdd(m->b, first, at, ""), last);
    LLVMValueRef unit = dt__emit_offset(m, from, LLVMBuildMul(m->b, at, stride, ""));
    units_of[i] = dt__emit_load_at(m, DT_I32, WORDS, unit, UNIT * HALF, false);
  }
  for (uint32_t i = 0; i < AHEAD; i++)
    all = LLVMBuildOr(m->b, all, carries(q, units_of[i]), "");
  LLVMBuildStore(m->b, all, found);
  dt__loop_close(k, ROUND);
  dt__body_at(k, STEP);
  dt__scope_close(k, STEP);
  dt__body_at(k, PART);
}

// Whether any thread of the block has found one.
static LLVMValueRef anyone(dt_keys_t *q, LLVMValueRef found) {
  dt_scores_t *s = &q->base.s;
  dt_emit_t *m = s->m;
  LLVMValueRef own = low_bits(m, LLVMBuildLoad2(m->b, m->t_i32, found, ""), 0x80008000);
  LLVMValueRef any = dt__ptx_any(m, LLVMBuildICmp(m->b, LLVMIntNE, own, i32(m, 0), ""));
  LLVMValueRef warp = down(m, dt__ptx_thread(m), 5), lane = low_bits(m, dt__ptx_thread(m), 31);
  dt__scope_open(s->k, STEP, LLVMBuildICmp(m->b, LLVMIntEQ, lane, i32(m, 0), ""));
  dt__emit_store_at(m, DT_I32, LLVMBuildZExt(m->b, any, m->t_i32, ""),
                    shared_at(m, s->shared, times(m, warp, WORD), q->found_at), WORD);
  dt__scope_close(s->k, STEP);
  dt__body_at(s->k, PART);
  dt__cuda_block_sync(m);
  LLVMValueRef all = NULL;
  for (uint32_t w = 0; w < DT_ATTENTION_FOUND / WORD; w++) {
    LLVMValueRef at = shared_at(m, s->shared, i32(m, w * WORD), q->found_at);
    LLVMValueRef one = dt__emit_load_at(m, DT_I32, 0, at, WORD, false);
    all = all ? LLVMBuildOr(m->b, all, one, "") : one;
  }
  return LLVMBuildICmp(m->b, LLVMIntNE, all, i32(m, 0), "");
}

void dt__keys_bound(dt_keys_t *q) {
  dt_scores_t *s = &q->base.s;
  dt_emit_t *m = s->m;
  q->end = s->extent_n;
  if (!q->bounded || !q->base.aligned)
    return;
  LLVMValueRef end = seen(q), found = dt__body_slot(s->k, m->t_i32, 1);
  LLVMBuildStore(m->b, i32(m, 0), found);
  look(q, end, found);
  q->end = LLVMBuildSelect(m->b, anyone(q, found), s->extent_n, end, "");
}
