// SPDX-License-Identifier: Apache-2.0
// Kernels as loops over grid items and stages, and the beginning of their code.
#ifndef DT_BACKEND_LLVM_EMIT_LOOPS_H
#define DT_BACKEND_LLVM_EMIT_LOOPS_H

#include "backend_llvm/emit/body.h"

// Stage `index` in all its loops, and its row values (loops.c).
void dt__stage_emit(dt_body_t *k, uint32_t index);
// The vector loop over the last outer variable in [from, to), with stages first … last - 1 inside.
// `prepare` (or NULL) runs at its beginning, once a vector.
void dt__outer_vectors(dt_body_t *k, LLVMValueRef from, LLVMValueRef to, bool whole, uint32_t first,
                       uint32_t last, void (*prepare)(dt_body_t *k, void *user), void *user);
// The same for the one vector at `at`, or for so many copies of it, a team's vectors apart.
void dt__outer_vector(dt_body_t *k, LLVMValueRef at, uint32_t copies, uint32_t first, uint32_t last,
                      void (*prepare)(dt_body_t *k, void *user), void *user);
// Makes the last outer loop, inside of k->item_level, the lane axis of stages first … last - 1;
// false: it failed. What of a vector's lanes is left when `left` iterations are; whether every grid
// item has a whole number of unrolled groups.
bool dt__outer_enter(dt_body_t *k, uint32_t first, uint32_t last);
LLVMValueRef dt__tail_mask(dt_body_t *k, LLVMValueRef left);
bool dt__blocks_are_whole(dt_body_t *k);
// A grid item of a schedule with iterations side by side: lanes in [from, to) (beside.c).
void dt__beside_item(dt_body_t *k, LLVMValueRef from, LLVMValueRef to);
// All stages of INNER_LANES and SERIAL kernels, once, at k->item_level; `resident`: rows stay in
// registers (loops.c).
void dt__stages_emit(dt_body_t *k, bool resident);
// One grid item at its position on each of the `n` axes, at level 1 (loops.c).
void dt__item_emit(dt_body_t *k, LLVMValueRef *digits, uint32_t n);
// Buffer addresses and symbols from k->words, LOCAL buffers in k->scratch (loops.c).
void dt__bind_parameters(dt_body_t *k, const dt_kernel_params_t *params);
// Parameter i of these alone.
void dt__bind_parameter(dt_body_t *k, const dt_kernel_params_t *params, uint32_t i);
// Programs of device sizes, after that: the kernel ends where its gate is shut; else binds symbols
// of items to what their buffers hold.
void dt__bind_readbacks(dt_body_t *k, const dt_kernel_params_t *params);
// Programs of device sizes: some axis of the grid is only known once items are bound.
bool dt__grid_has_readbacks(dt_body_t *k);
void dt__place_locals(dt_body_t *k);
// The extents of the grid's axes, at level 0 (loops.c).
uint32_t dt__grid_extents(dt_body_t *k, LLVMValueRef *out);
// Makes the lane variable one of `level` (loops.c).
void dt__bind_lane(dt_body_t *k, uint32_t level);
// Where this thread's first vector stands in a loop of its team from `start` on (loops.c).
LLVMValueRef dt__own_start(dt_body_t *k, LLVMValueRef start);
// n, or 1 where it is less.
LLVMValueRef dt__at_least_one(dt_body_t *k, LLVMValueRef n);
// One kernel under one schedule as function `name`.
void dt__emit_kernel(dt_emit_t *m, const dt_kernel_t *kernel, const dt_schedule_t *schedule,
                     const char *name);
// Checks what emission relies on in a kernel and a schedule.
dt_status_t dt__schedule_verify(dt_emit_t *m, const dt_kernel_t *kernel,
                                const dt_schedule_t *schedule) DT_MUST_USE;

#endif // DT_BACKEND_LLVM_EMIT_LOOPS_H
