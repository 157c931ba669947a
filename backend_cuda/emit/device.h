// SPDX-License-Identifier: Apache-2.0
// What a GPU does in its own way inside of kernels: registers that say who a thread is, barriers,
// exchanges between threads, failed checks.
#ifndef DT_BACKEND_CUDA_EMIT_DEVICE_H
#define DT_BACKEND_CUDA_EMIT_DEVICE_H

#include "backend_cuda/emit/target.h"
#include "backend_cuda/exec/launch.h"
#include "backend_llvm/emit/body.h"

// Offsets in dt_cuda_record_t.
#define DT_RECORD_CHECK offsetof(dt_cuda_record_t, check)
#define DT_RECORD_VALUE offsetof(dt_cuda_record_t, value)
#define DT_RECORD_EXTENT offsetof(dt_cuda_record_t, extent)
#define DT_RECORD_CLAIM offsetof(dt_cuda_record_t, claim)

extern const dt_device_emit_t dt__cuda_device_emit;

typedef enum dt_cuda_register_t {
  DT_CUDA_TID,    // of this thread in its block
  DT_CUDA_CTAID,  // of this block in the grid
  DT_CUDA_NCTAID, // blocks of the grid
} dt_cuda_register_t;
// As i64.
LLVMValueRef dt__cuda_register(dt_emit_t *m, dt_cuda_register_t which);
// Dynamic shared memory of the block, as a generic address; 16-byte aligned.
LLVMValueRef dt__cuda_dynamic_shared(dt_emit_t *m);
// The same in its own address space. A kernel's own bytes (dt_cuda_kernel_info_t's shared_bytes)
// come first, scratch after them.
LLVMValueRef dt__cuda_shared_base(dt_emit_t *m);
// Shared memory of the block's own, in its address space; 16-byte aligned. The same name gives the
// same memory.
LLVMValueRef dt__cuda_shared(dt_emit_t *m, const char *name, LLVMTypeRef type);
// tiles.c: one square of a TILES schedule.
void dt__cuda_tile(dt_body_t *k, LLVMValueRef row, LLVMValueRef col);
// Waits for all threads of the block.
void dt__cuda_block_sync(dt_emit_t *m);

#endif // DT_BACKEND_CUDA_EMIT_DEVICE_H
