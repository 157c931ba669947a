// SPDX-License-Identifier: Apache-2.0
// The entry of one kernel or of one chain: its parameters, its place in the grid, and the loop over
// its grid items.
#ifndef DT_BACKEND_CUDA_EMIT_KERNEL_H
#define DT_BACKEND_CUDA_EMIT_KERNEL_H

#include "backend_cuda/emit/device.h"

// Threads of a block: a team of several warps, or as many teams as make up the target's.
static inline uint32_t dt__cuda_block_threads(const dt_target_t *target,
                                              const dt_schedule_t *schedule) {
  return schedule->team > DT_WARP ? schedule->team : target->block_threads;
}
// One kernel, with its makers where it is the head of a chain, as entry `name`, for launch.h's
// dt_cuda_kernel_info_t: under each of `n` schedules, which have the same threads.
dt_status_t dt__cuda_emit_entry(dt_emit_t *m, const dt_code_origin_t *codes, uint32_t n,
                                const char *name) DT_MUST_USE;

// ---- Chains (chain.c) -----------------------------------------------------------------------------
typedef struct dt_cuda_chain_t {
  dt_kernel_chain_t kernels;
  uint32_t schedule;       // number, of each
  uint32_t shared_bytes;   // the most that a member needs beside scratch
  uint32_t blocks;         // on one processor, by which registers are shared out
  LLVMValueRef in_shared;  // i1: scratch, and slabs with it, is in shared memory
  bool in_registers;       // the items being emitted: chain_scores.c
  bool bare;               // other items hardly ever occur: their code is as small as can be
  uint32_t covered;        // rows of up to so many elements are made in registers, not in SLABs,
                           // but for rare cases, which need not be fast
  const dt_sym_t *offsets; // in scratch: dt__chain_scratch's
} dt_cuda_chain_t;

dt_status_t dt__cuda_chain(dt_program_t *program, uint32_t head, uint32_t s, bool strict,
                           dt_cuda_chain_t *out) DT_MUST_USE;
// Gives this unit's SLABs the strides that they have in scratch; once, before any code.
dt_status_t dt__cuda_slabs_stride(dt_emit_t *m) DT_MUST_USE;
// Once a kernel, at level 0: addresses of all SLABs and LOCALs.
void dt__cuda_chain_place(dt_body_t *k, dt_cuda_chain_t *chain);
// Once a kernel, at level 0: i1, where items may be without SLABs; NULL: nowhere (chain_scores.c).
LLVMValueRef dt__cuda_chain_scores(dt_body_t *k, const dt_cuda_chain_t *chain);
// One grid item, at level 1, at its position on each of the `n` axes.
void dt__cuda_chain_item(dt_body_t *k, const dt_cuda_chain_t *chain, LLVMValueRef *digits,
                         uint32_t n);

#endif // DT_BACKEND_CUDA_EMIT_KERNEL_H
