// SPDX-License-Identifier: Apache-2.0
// Instructions of GPUs that work on whole warps or go on by themselves: asynchronous copies and
// tensor cores, by LLVM's own names for them. All exist from compute capability 8.0 on.
#ifndef DT_BACKEND_CUDA_EMIT_PTX_H
#define DT_BACKEND_CUDA_EMIT_PTX_H

#include "backend_llvm/emit/context.h"

// The thread's number in its block, i32, read anew: what is computed from it is not kept in
// registers from before a loop that has better use for them.
LLVMValueRef dt__ptx_thread(dt_emit_t *m);
// The i64 `value`, of which nothing is known: what is computed from it is computed here, and not
// before a loop around it.
LLVMValueRef dt__ptx_anew(dt_emit_t *m, LLVMValueRef value);
// Begins a part of the code whose instructions are not joined with those of another in front of
// both.
void dt__ptx_part(dt_emit_t *m, uint32_t number);
// Keeps the assembler from unrolling the loop whose first block this stands in.
void dt__ptx_no_unroll(dt_emit_t *m);
// Whether `value` (i1) holds for any thread of the warp, all of which are here.
LLVMValueRef dt__ptx_any(dt_emit_t *m, LLVMValueRef value);
// Arrives at barrier `id` (i32, 1 … 15) of so many threads, and waits for all of them if `wait`.
void dt__ptx_meet(dt_emit_t *m, LLVMValueRef id, uint32_t threads, bool wait);
// Starts a copy of 16 bytes from global to shared memory, both aligned: of the first `bytes` (i32,
// 0 or 16), zeros after them. `from` is a generic address; it is not read where `bytes` is 0.
void dt__ptx_copy(dt_emit_t *m, LLVMValueRef to, LLVMValueRef from, LLVMValueRef bytes);
// Puts the copies that this thread has started since the last time into a group.
void dt__ptx_copies_commit(dt_emit_t *m);
// Waits until at most `pending` of the thread's groups, the last ones, are under way.
void dt__ptx_copies_wait(dt_emit_t *m, uint32_t pending);
// The threads of a warp meet: what each did to memory is there for the others.
void dt__ptx_warp_sync(dt_emit_t *m);
// Four 8 x 8 matrices of 16-bit elements from shared memory, `from` of each thread being the
// address of one row of one of them: lane l has row l % 8 of matrix l / 8. Each thread gets two
// elements of each, transposed where wanted, as i32.
void dt__ptx_matrices(dt_emit_t *m, LLVMValueRef from, bool transposed, LLVMValueRef out[4]);
// c += a * b for a 16 x 16, b 16 x 8, c 16 x 8 of f32; `dtype`: F16 or BF16.
void dt__ptx_multiply(dt_emit_t *m, dt_dtype_t dtype, const LLVMValueRef a[4],
                      const LLVMValueRef b[2], LLVMValueRef c[4]);
// 2^x of an f32, to about its last place; 0 for -inf.
LLVMValueRef dt__ptx_power(dt_emit_t *m, LLVMValueRef x);
// What this thread has put into shared memory is there for what goes on by itself in it, too, once
// threads have met after this.
void dt__ptx_fence_async(dt_emit_t *m);
// Clusters: blocks that are under way together (compute capability 9.0). All threads of all of the
// cluster's blocks meet: what each did to its shared memory is there for the others.
void dt__ptx_cluster_sync(dt_emit_t *m);
// Where block `rank` (i32) of the cluster has what is at `at` of this block's shared memory.
LLVMValueRef dt__ptx_cluster_place(dt_emit_t *m, LLVMValueRef at, LLVMValueRef rank);

// One step of a group of four warps (compute capability 9.0 alone): sums of a 64 x 16 and
// b 16 x `width`, in shared memory as descriptors (i64) say; `turned`: k is not innermost. Where a
// is held each warp has its 16 rows of it in registers as dt__ptx_multiply takes them, four for a
// step (i32), which nobody may touch before the end of the wait for it.
typedef struct dt_ptx_group_t {
  dt_dtype_t dtype; // F16 or BF16
  uint32_t width, steps;
  bool a_turned, b_turned, a_held;
  bool fresh; // sums begin at zero, whatever they are
} dt_ptx_group_t;
#define DT_PTX_MAX_STEPS 8
// Begins sums += a * b for all steps, in order. `sums`: width / 2 values of a thread, f32, those of
// 16 rows of its warp as dt__ptx_multiply has them. Then waits until they are there, but for the
// last `behind` calls.
void dt__ptx_group_multiply(dt_emit_t *m, const dt_ptx_group_t *g, const LLVMValueRef *a,
                            const LLVMValueRef *b, LLVMValueRef *sums);
void dt__ptx_group_wait(dt_emit_t *m, uint32_t behind, uint32_t n, LLVMValueRef *sums);

#endif // DT_BACKEND_CUDA_EMIT_PTX_H
