// SPDX-License-Identifier: Apache-2.0
// Sizes that kernels and the host program share: grid axes and scratch.
#ifndef DT_BACKEND_LLVM_EMIT_GRID_H
#define DT_BACKEND_LLVM_EMIT_GRID_H

#include "backend_llvm/emit/body.h"

// Extents of the grid axes, outermost first; their product is the number of grid items. Of a
// chain's head: its batch loops, tiles of rows, and groups of tiles of columns: as many as it takes
// to have some items for each processor, of which each makes its rows anew.
uint32_t dt__grid_axes(dt_emit_t *m, const dt_kernel_t *kernel, const dt_schedule_t *schedule,
                       dt_sym_t *out_extents);
// Threads of a bundle's blocks: the fewest that a block of one of its kernels would have alone.
uint32_t dt__bundle_threads(const dt_program_t *program, const dt_target_t *target,
                            dt_kernel_chain_t bundle);
// Blocks of so many threads that are dealt out to one of its kernels, and to all.
dt_sym_t dt__bundled_blocks(dt_emit_t *m, const dt_kernel_t *kernel, uint32_t threads);
dt_sym_t dt__bundle_blocks(dt_emit_t *m, dt_kernel_chain_t bundle);
// Byte offset of LOCAL buffers in scratch, by buffer - 1 (none for others), and the total.
dt_sym_t dt__scratch_layout(dt_emit_t *m, const dt_kernel_t *kernel, const dt_schedule_t *schedule,
                            dt_sym_t *out_offsets);
// The same for the chain whose head is kernel `head`, or for that one kernel, under schedule number
// `s`: SLABs come first, then what the members have for themselves, one after another in the same
// place. Each group of a block has a copy of its own for makers of rows, a multiple of 64 bytes.
// Bundles have none.
dt_sym_t dt__chain_scratch(dt_emit_t *m, uint32_t head, uint32_t s, dt_sym_t *out_offsets);
// Elements from one row of a SLAB to the next.
dt_sym_t dt__slab_pitch(dt_emit_t *m, const dt_buffer_t *slab);
// Lanes on an outer loop: copies of each LOCAL element, side by side. In a team's matrix product
// each thread has its own.
static inline uint32_t dt__local_stride(const dt_schedule_t *schedule) {
  uint32_t copies = schedule->lanes * schedule->unroll;
  return schedule->kind == DT_SCHEDULE_TEAM_MATMUL ? copies * schedule->team : copies;
}
// Grid items a thread should take at least.
dt_sym_t dt__grid_grain(dt_emit_t *m, const dt_kernel_t *kernel, const dt_schedule_t *schedule);

#endif // DT_BACKEND_LLVM_EMIT_GRID_H
