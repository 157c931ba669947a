// SPDX-License-Identifier: Apache-2.0
// What the parts of a chain's products out of shared memory share; chain_product.c draws them.
#ifndef DT_BACKEND_CUDA_EMIT_CHAIN_PRODUCT_H
#define DT_BACKEND_CUDA_EMIT_CHAIN_PRODUCT_H

#include "backend_cuda/emit/chain_operand.h"

#define ROUND DT_CHAIN_ROUND
#define GROUP 4    // columns that a thread finishes at a time
#define TOGETHER 6 // groups of one row that are finished at once, where that is many

// One product while it is emitted.
typedef struct dt_product_t {
  dt_chain_item_t *t;
  dt_body_t *k;
  dt_emit_t *m;
  dt_matmul_plan_t plan;
  const dt_team_matmul_t *tile;
  int64_t depth;                  // 0: not known
  uint32_t n_groups, panel_pitch; // bytes; of A's copy
  uint32_t panel_at, sums_at;     // bytes in shared memory: A's copy; sums handed on
  LLVMValueRef shared;            // shared memory
  LLVMValueRef tid, lane, warp_row, warp_col, slice;        // i32
  LLVMValueRef extent_m, extent_n, extent_k, chunks, tiles; // i64
  LLVMValueRef from, by_var, by_k;                          // B's first unit of this thread; bytes
  LLVMValueRef own_var, own_k, to; // i32: where it stands in the chunk; byte of the ring
  LLVMValueRef a_at, a_pitch;      // shared memory: of this lane's row; i32, bytes
  LLVMValueRef sums[DT_MATMUL_MAX_SUMS];
  LLVMValueRef group[TOGETHER][GROUP]; // being finished
  uint32_t first;                      // of them, where they are finished one by one
  bool early;                          // what is copied now comes before the wait for earlier work
} dt_product_t;

// Bytes of one place of B's ring.
uint32_t dt__product_b_bytes(const dt_matmul_plan_t *plan);
// Whether tiles of columns are all whole.
bool dt__product_whole_columns(dt_product_t *p);

// Chunks whose copies are under way while one is multiplied; by groups the one before it still may
// be, too.
static inline uint32_t ahead_of(const dt_product_t *p) {
  return p->tile->ring - 1 - p->plan.groups;
}

// ---- Copies (chain_product_copy.c) ----------------------------------------------------------------
// The thread's first unit of B's first chunk, at PART.
void dt__product_place_units(dt_product_t *p);
// What is copied first, of B from tile of columns `from` on, at PART; and the wait for earlier
// work.
void dt__product_copy_begin(dt_product_t *p, LLVMValueRef from, LLVMValueRef step);
// The next chunk, if there is one, into the ring's next place, at `level` with one for itself.
void dt__product_copy_next(dt_product_t *p, LLVMValueRef step, uint32_t level);

// ---- What follows (chain_product_finish.c) --------------------------------------------------------
// The later stages on the sums of a tile from column `first_col` on, at ROUND; `vectors` (i1):
// where they may have four columns at a time, NULL: nowhere.
void dt__product_finish(dt_product_t *p, LLVMValueRef first_col, LLVMValueRef vectors);

#endif // DT_BACKEND_CUDA_EMIT_CHAIN_PRODUCT_H
