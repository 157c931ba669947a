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

#endif // DT_FUSE_PLACE_H
