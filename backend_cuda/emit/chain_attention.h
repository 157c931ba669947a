// SPDX-License-Identifier: Apache-2.0
// What attention by blocks of keys (chain_keys.c) and attention whose keys are shared out
// (chain_shares.c) have in common: what the chain says, versions for aligned operands and for
// others, and rows whose scores come a block at a time.
#ifndef DT_BACKEND_CUDA_EMIT_CHAIN_ATTENTION_H
#define DT_BACKEND_CUDA_EMIT_CHAIN_ATTENTION_H

#include "backend_cuda/emit/chain_scores.h"
#include "fuse/attention.h"

typedef struct dt_attend_t {
  dt_scores_t s;
  dt_attention_t a;
  bool aligned;  // this version copies units
  uint32_t rows; // of a thread: 1 where the upper half of the tile is never there, else 2
  LLVMValueRef slots[DT_ATTENTION_MOST / 2]; // C
  LLVMValueRef max[2], sum[2];               // slots, by row of this thread
} dt_attend_t;

// ---- Form -----------------------------------------------------------------------------------------
// Sets what the chain says, and plans both products. DT_E_INTERNAL: it is no attention.
dt_status_t dt__attend_open(dt_program_t *program, const dt_cuda_chain_t *chain, bool strict,
                            dt_attend_t *q) DT_MUST_USE;
// Sets what the chain is told: shared memory, and blocks on one processor.
void dt__attend_plan(const dt_attend_t *q, dt_cuda_chain_t *chain);
// On one processor.
uint32_t dt__attend_blocks(const dt_attend_t *q);

// ---- Items ----------------------------------------------------------------------------------------
// Begins the item.
void dt__attend_item(dt_attend_t *q, dt_chain_item_t *t);
// `emit` makes a version, at ITEM, where `wanted` (NULL: always): the one for aligned operands, if
// there may be such, and the one for others.
void dt__attend_versions(dt_attend_t *q, void (*emit)(void *own, LLVMValueRef wanted), void *own);

// ---- Rows -----------------------------------------------------------------------------------------
// Elements of C that a thread has, and which of its rows has element i.
static inline uint32_t dt__attend_sums(const dt_attend_t *q) { return fragments_in(q->s.cols) * 8; }
static inline uint32_t dt__attend_row_of(uint32_t i) { return i / 2 % 2; }

static inline LLVMValueRef greater(dt_emit_t *m, LLVMValueRef a, LLVMValueRef b) {
  return dt__emit_intrinsic2(m, "llvm.maximum", a, b);
}

// Makes the slots: nothing has been summed yet.
void dt__attend_begin_sums(dt_attend_t *q);
// The values of four threads that have a row, joined by the intrinsic `join`; NULL: added.
LLVMValueRef dt__attend_quad(dt_attend_t *q, LLVMValueRef value, const char *join);
// e to the power of x - less.
LLVMValueRef dt__attend_power(dt_emit_t *m, LLVMValueRef x, LLVMValueRef less);
// What is taken from a row's elements whose maximum is this: nothing has an exponential of 0.
LLVMValueRef dt__attend_base(dt_emit_t *m, LLVMValueRef most);
// The thread's elements of its row r, cast to f32; -inf from the block's column `end` (i32) on.
void dt__attend_widen(dt_attend_t *q, uint32_t r, LLVMValueRef end, LLVMValueRef *out);
// Takes these, `most` being the greatest of them, into the row's maximum and sum, and makes
// s->fragments of them. What was summed before is to be multiplied by *out_factor.
void dt__attend_take_row(dt_attend_t *q, uint32_t r, const LLVMValueRef *x, LLVMValueRef most,
                         LLVMValueRef *out_factor);

#endif // DT_BACKEND_CUDA_EMIT_CHAIN_ATTENTION_H
