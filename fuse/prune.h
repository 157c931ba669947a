// SPDX-License-Identifier: Apache-2.0
// Dead code removal for one stage or kernel, for passes that leave some behind.
#ifndef DT_FUSE_PRUNE_H
#define DT_FUSE_PRUNE_H

#include "lower/loop/loop.h"

// Drops instructions that no store, reduction or bind needs.
dt_status_t dt__prune_stage(dt_program_t *program, dt_stage_t *stage) DT_MUST_USE;
// Drops stores to buffers with loads[id - 1] == 0, unused reductions and empty stages; keeps
// `loads` (loads of each buffer in the whole program) true.
dt_status_t dt__prune_kernel(dt_program_t *program, dt_kernel_t *kernel,
                             uint32_t *loads) DT_MUST_USE;
// Drops stages that only make checks which other stages make too, and loops that no check needs.
// Kernels may be left without stages.
dt_status_t dt__prune_checks(dt_program_t *program, bool *out_changed) DT_MUST_USE;

#endif // DT_FUSE_PRUNE_H
