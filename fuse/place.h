// SPDX-License-Identifier: Apache-2.0
// Places of temporaries in the block.
#ifndef DT_FUSE_PLACE_H
#define DT_FUSE_PLACE_H

#include "lower/loop/loop.h"

// Bytes that a buffer takes, alignment included.
dt_sym_t dt__placed_bytes(dt_program_t *program, dt_buffer_id_t id);
// Sets offsets of TEMP buffers, the segments' block_bytes and the program's. Kernels stand in order
// of their segments.
dt_status_t dt__place_temps(dt_program_t *program) DT_MUST_USE;

// What stage `at` loads is gone only when the store of stage `stage` comes: it is the very element,
// or one of those that the same outer iteration stores later. Stores of one kernel never meet, so
// elements of different outer iterations differ in dims that no inner loop moves.
bool dt__reads_before(const dt_program_t *program, const dt_kernel_t *kernel, const dt_inst_t *load,
                      uint32_t at, const dt_store_t *store, uint32_t stage);
// Lets kernels of loops write the state themselves, where no other needs the old one after them,
// and drops the copies that did it (carry.c). Before anything is placed; regions are settled.
dt_status_t dt__carry_in_place(dt_program_t *program) DT_MUST_USE;

#endif // DT_FUSE_PLACE_H
