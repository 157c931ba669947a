// SPDX-License-Identifier: Apache-2.0
// What the parts of attention by blocks of keys share; chain_keys.c tells how it goes.
#ifndef DT_BACKEND_CUDA_EMIT_CHAIN_KEYS_H
#define DT_BACKEND_CUDA_EMIT_CHAIN_KEYS_H

#include "backend_cuda/emit/chain_attention.h"

#define DT_KEYS_SCORES (DT_ATTENTION_KEYS / 2) // of a block that a thread has

typedef struct dt_keys_t {
  dt_attend_t base;
  bool groups;               // of four warps multiply (chain_keys_group.c)
  bool held;                 // queries are in registers
  bool ahead;                // they multiply the next block's scores while this one's are made
  uint32_t k_stage, v_stage; // bytes of a block
  uint32_t found_at;         // bytes: DT_ATTENTION_FOUND
  bool bounded;              // rows see no keys from number row + `unseen` on
  dt_sym_t unseen;
  LLVMValueRef end;                  // i64: keys of the item that are taken
  LLVMValueRef next[DT_KEYS_SCORES]; // slots: the next block's scores, where they are ahead
  LLVMValueRef queries[DT_ATTENTION_MOST / BLOCK * 4]; // fragments
} dt_keys_t;

// ---- Copies (chain_keys_copy.c) -------------------------------------------------------------------
// Without groups the next block is on its way while one is made, and all threads meet once a block.
// With groups two are, and the groups of warps are not bound to each other's pace: each tells the
// other when what it has copied of the next block is there, and waits for the other's part of its
// own. So a group is at most one block ahead, and overwrites what both have done with.
void dt__keys_copy_first(dt_keys_t *q);
// The block from number `first` (i64) on is there.
void dt__keys_await(dt_keys_t *q, LLVMValueRef first);
// Begins to copy what follows the block from `first` on, at `level`; what is not there is zero.
void dt__keys_copy_next(dt_keys_t *q, uint32_t level, LLVMValueRef first);
// What this group has copied of the block from `next` on is there.
void dt__keys_tell(dt_keys_t *q, LLVMValueRef next);
// Nothing is on its way, and nobody reads any of it.
void dt__keys_end(dt_keys_t *q);
// Bytes behind k_at or v_at of the block's place, each of `bytes`.
LLVMValueRef dt__keys_stage(dt_keys_t *q, LLVMValueRef first, uint32_t bytes);

// ---- How many keys (chain_keys_bound.c) -----------------------------------------------------------
// Sets q->end, at PART, once the first copies are on their way.
void dt__keys_bound(dt_keys_t *q);

// ---- Products by groups of warps (chain_keys_group.c) ---------------------------------------------
// Reads queries into registers, once an item.
void dt__keys_hold_queries(dt_keys_t *q);
// Begins the scores of the block from number `first` on.
void dt__keys_begin_scores(dt_keys_t *q, LLVMValueRef first, LLVMValueRef *sums);
// Begins s->sums += s->fragments times the values of the block.
void dt__keys_begin_sums(dt_keys_t *q, LLVMValueRef first);

#endif // DT_BACKEND_CUDA_EMIT_CHAIN_KEYS_H
