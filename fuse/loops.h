// SPDX-License-Identifier: Apache-2.0
// How accesses move with loops, and merging adjacent loops that all accesses walk as one.
#ifndef DT_FUSE_LOOPS_H
#define DT_FUSE_LOOPS_H

#include "lower/loop/loop.h"

// How an address moves when a loop variable steps by one.
typedef enum dt_step_t {
  DT_STEP_NONE,    // stays
  DT_STEP_UNIT,    // to the next element
  DT_STEP_STRIDED, // by a fixed other distance
  DT_STEP_OTHER,   // not linear
} dt_step_t;
dt_step_t dt__access_step(dt_program_t *program, dt_buffer_id_t buffer, const dt_sym_t *index,
                          dt_sym_t var);

// Counts of steps over accesses; stores count in their own fields too.
typedef struct dt_step_count_t {
  uint32_t none, unit, strided, other;
  uint32_t unit_stores, strided_stores;
} dt_step_count_t;
bool dt__has_inner_loops(const dt_kernel_t *kernel); // of any stage
// Outer loop `from` goes behind those up to and with `to`, which is not before it.
void dt__kernel_move_loop(dt_kernel_t *kernel, uint32_t from, uint32_t to);
// Adds the accesses of `stage`, as loop `var` steps.
void dt__count_steps(dt_program_t *program, const dt_stage_t *stage, dt_sym_t var,
                     dt_step_count_t *count);

// Adds those of its loads whose places data decides that changes as `var` steps: no neighbours.
dt_status_t dt__count_gathers(dt_program_t *program, const dt_stage_t *stage, dt_sym_t var,
                              dt_step_count_t *count) DT_MUST_USE;

// Drops outer and inner loops of the literal extent 1 (split.c).
dt_status_t dt__drop_unit_loops(dt_program_t *program, dt_kernel_t *kernel) DT_MUST_USE;

// Merges adjacent outer loops [first, n_loops) of a kernel, and each stage's adjacent inner loops,
// where every access moves by the inner extent times the inner step: fewer loops, longer vectors.
dt_status_t dt__merge_outer_loops(dt_program_t *program, dt_kernel_t *kernel,
                                  uint32_t end) DT_MUST_USE;
// The same for the first `end` loops that `n` kernels share, symbols and extents, as *kernels[0]
// has them: they are merged in all or in none.
dt_status_t dt__merge_shared_loops(dt_program_t *program, dt_kernel_t *const *kernels, uint32_t n,
                                   uint32_t end) DT_MUST_USE;
// Merges the outer loop that operand b of a product does not know with the loop of its rows, where
// rows may then be found by a division, unless they fill a tile alone. `a` and `b`: its loads.
dt_status_t dt__merge_rows(dt_program_t *program, dt_kernel_t *kernel, uint32_t a, uint32_t b,
                           uint32_t tile_rows) DT_MUST_USE;
// The same where each row of operand a is found or tested by itself anyway, as places of an image
// are.
dt_status_t dt__merge_places(dt_program_t *program, dt_kernel_t *kernel, uint32_t a,
                             uint32_t b) DT_MUST_USE;
// Loops of maps that together count the columns of a product become one, as the product has it: the
// map can then be what is done where the product stores.
dt_status_t dt__merge_columns(dt_program_t *program) DT_MUST_USE;
// Splits the stage's inner loops that indices take apart, and drops those of one iteration
// (split.c).
dt_status_t dt__split_inner_loops(dt_program_t *program, dt_stage_t *stage) DT_MUST_USE;
// Load `packed` (DT_NO_INST: none) is found by the number of all loops together, however many.
dt_status_t dt__merge_inner_loops(dt_program_t *program, dt_stage_t *stage,
                                  uint32_t packed) DT_MUST_USE;

#endif // DT_FUSE_LOOPS_H
