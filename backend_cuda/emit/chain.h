// SPDX-License-Identifier: Apache-2.0
// What the parts of a chain's emission share: the item, and the levels of its code.
#ifndef DT_BACKEND_CUDA_EMIT_CHAIN_H
#define DT_BACKEND_CUDA_EMIT_CHAIN_H

#include "backend_cuda/emit/kernel.h"
#include "backend_cuda/emit/matmul.h"

#define DT_CHAIN_WARPS 8 // of a chain's block
#define DT_CHAIN_ITEM 1
#define DT_CHAIN_PART 2  // a member in one of its versions
#define DT_CHAIN_ROUND 3 // one of its rows, or tiles of columns

typedef struct dt_chain_item_t {
  dt_body_t *k;
  const dt_cuda_chain_t *chain;
  const dt_kernel_t *head;
  uint32_t tile_rows;
  LLVMValueRef first_row, group, groups; // i64
  LLVMValueRef rank;                     // i32: of the block in its cluster; NULL: it is alone
  const dt_sym_t *offsets; // of SLABs and LOCALs in scratch, by buffer - 1; none: others
  bool waits; // whatever comes next waits for the work before this launch (early.h), but for copies
              // of constants
  // Where the product under way copies next, slots: tile of columns (i64), chunk of its depth and
  // byte of the ring (i32); chain_product_copy.c.
  LLVMValueRef next_tile, next_chunk, next_at;
} dt_chain_item_t;

// Before what is no constant is read, and before scratch is written.
void dt__chain_wait(const dt_chain_item_t *t);
// Who this thread is, i64; asked anew wherever it matters, so that it is kept in no register.
LLVMValueRef dt__chain_thread(dt_emit_t *m);
// The same address, of which nothing is known.
LLVMValueRef dt__chain_address_anew(dt_emit_t *m, LLVMValueRef address);

// The addresses of buffers where scratch is in shared memory, at PART: of SLABs so that accesses
// are known to be to shared memory, and no register outlives the member for them. NULL: it failed.
LLVMValueRef *dt__chain_shared_bases(dt_chain_item_t *t);

// ---- Rows (chain_rows.c) --------------------------------------------------------------------------
// The item's rows of the kernel at hand, then a wait for all threads.
void dt__chain_rows(dt_chain_item_t *t);

// ---- Scores, rows and their product in registers (chain_scores*.c) --------------------------------
// Bytes that rows of usual length need of shared memory beside SLABs; 0: the chain has another
// form. Sets what the chain says of items with SLABs.
uint32_t dt__chain_scores_bytes(dt_program_t *program, bool strict, dt_cuda_chain_t *chain);
// The whole item, at ITEM, of a chain whose items are in_registers.
void dt__chain_scores(dt_chain_item_t *t);

// ---- Attention by blocks of keys (chain_keys.c) ---------------------------------------------------
// Shared memory and blocks of a chain whose head's schedule says so. DT_E_INTERNAL: it is no such.
dt_status_t dt__chain_keys_plan(dt_program_t *program, bool strict,
                                dt_cuda_chain_t *chain) DT_MUST_USE;
// The whole item, at ITEM.
void dt__chain_keys(dt_chain_item_t *t);

// ---- Attention of few rows, whose keys warps share out (chain_shares.c) ----------------------------
// The same as dt__chain_keys_plan, and the item.
dt_status_t dt__chain_shares_plan(dt_program_t *program, bool strict,
                                  dt_cuda_chain_t *chain) DT_MUST_USE;
void dt__chain_shares(dt_chain_item_t *t);

// ---- Products of halves out of shared memory (chain_product*.c) -----------------------------------
// Bytes that such a product needs; 0: the kernel has another form.
uint32_t dt__chain_product_bytes(const dt_program_t *program, const dt_kernel_t *kernel,
                                 const dt_matmul_plan_t *plan);
// Once a member, at level 0: i1, where it may be computed so; NULL: nowhere.
LLVMValueRef dt__chain_product_fits(dt_chain_item_t *t);
// What it reads of operand B first, and A where that is no slab, is on its way then. The ring is
// nobody else's until the product has ended.
void dt__chain_product_begin(dt_chain_item_t *t, LLVMValueRef wanted, LLVMValueRef from,
                             LLVMValueRef step);
// Tiles of columns from number `from` on, where `wanted`; begin has been called with the same.
void dt__chain_product(dt_chain_item_t *t, LLVMValueRef wanted, LLVMValueRef from,
                       LLVMValueRef step);

// ---- By groups of warps (chain_group.c) -----------------------------------------------------------
// The product of a chunk by four warps together, A's fragments read by each warp.
typedef struct dt_chain_group_t {
  const dt_matmul_plan_t *plan;
  LLVMValueRef a, b;  // shared memory: this lane's row of A, B's first column of the group; there
                      // the chunk begins
  LLVMValueRef *sums; // slots
  uint32_t n_sums;
} dt_chain_group_t;
// Whether B's chunks have the form.
bool dt__chain_group_fits(const dt_matmul_plan_t *plan);
// Begins it, and ends all but the last `behind`.
void dt__chain_group_begin(dt_emit_t *m, const dt_chain_group_t *g);
void dt__chain_group_end(dt_emit_t *m, const dt_chain_group_t *g, uint32_t behind);
// Where unit `unit` of row `row` of a panel stands, bytes; both i32.
LLVMValueRef dt__chain_group_unit(dt_emit_t *m, LLVMValueRef row, LLVMValueRef unit);

#endif // DT_BACKEND_CUDA_EMIT_CHAIN_H
