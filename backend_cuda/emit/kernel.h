// SPDX-License-Identifier: Apache-2.0
// One kernel's entry: its parameters, its place in the grid, and the loop over its grid items.
#ifndef DT_BACKEND_CUDA_EMIT_KERNEL_H
#define DT_BACKEND_CUDA_EMIT_KERNEL_H

#include "backend_cuda/emit/device.h"

// Threads of a block: a team of several warps, or as many teams as make up the target's.
static inline uint32_t dt__cuda_block_threads(const dt_target_t *target,
                                              const dt_schedule_t *schedule) {
  return schedule->team > DT_WARP ? schedule->team : target->block_threads;
}
// Kernel under `schedule` as entry `name`, for launch.h's dt_cuda_kernel_info_t.
void dt__cuda_emit_kernel(dt_emit_t *m, const dt_kernel_t *kernel, const dt_schedule_t *schedule,
                          const char *name);

#endif // DT_BACKEND_CUDA_EMIT_KERNEL_H
