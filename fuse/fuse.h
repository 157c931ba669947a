// SPDX-License-Identifier: Apache-2.0
// From one kernel an op to few kernels and a memory plan. Works on loop IR alone: legality is a
// comparison of index expressions, profit is bytes saved; no op and no model is named here. Each
// pass edits the program in place; after each pass it means the same (dt__program_interpret agrees)
// and verifies.
#ifndef DT_FUSE_FUSE_H
#define DT_FUSE_FUSE_H

#include "fuse/target.h"
#include "lower/loop/loop.h"

// Drops dims of temporaries that their values do not depend on: sums that are the same along a dim
// are made once.
dt_status_t dt__fuse_invariant(dt_program_t *program, const dt_target_t *target) DT_MUST_USE;
// Reorders dims of temporaries that are read in another order than they are made.
dt_status_t dt__fuse_layouts(dt_program_t *program, const dt_target_t *target) DT_MUST_USE;
// Gives matrix products operands in the template's layout: a packing kernel for B, a copy of A
// where its rows are not plain; the product gets a MATMUL schedule.
dt_status_t dt__fuse_operands(dt_program_t *program, const dt_target_t *target) DT_MUST_USE;
// Drops loops of extent 1 and splits loops that indices take apart (i // c and i % c), where c is
// proved to divide the extent.
dt_status_t dt__fuse_split(dt_program_t *program, const dt_target_t *target) DT_MUST_USE;
// Puts maps into the loads of their users where that saves memory traffic or is free.
dt_status_t dt__fuse_inline(dt_program_t *program, const dt_target_t *target) DT_MUST_USE;
// Joins kernels that share outer loops into one with several stages: reductions with their
// producers and consumers, row-persistent chains, and independent kernels over the same outer loops
// that read the same buffers. Temporaries that live inside one kernel become LOCAL or vanish.
dt_status_t dt__fuse_stages(dt_program_t *program, const dt_target_t *target) DT_MUST_USE;
// Drops kernels and buffers whose values nobody reads.
dt_status_t dt__fuse_prune(dt_program_t *program, const dt_target_t *target) DT_MUST_USE;
// Checks of places that are proved to be in range are none.
dt_status_t dt__fuse_proven(dt_program_t *program, const dt_target_t *target) DT_MUST_USE;
// Stores a temporary of f32 as f16 or bf16 where that has room for every value in it.
dt_status_t dt__fuse_narrow(dt_program_t *program, const dt_target_t *target) DT_MUST_USE;
// Devices: runs products together with the kernels that make their operand A row by row, as one
// launch over slabs.
dt_status_t dt__fuse_chains(dt_program_t *program, const dt_target_t *target) DT_MUST_USE;
// Runs kernels that hand each other temporaries quadratic in a size over their common outer loops a
// slice at a time, so that those hold a slice only.
dt_status_t dt__fuse_slices(dt_program_t *program, const dt_target_t *target) DT_MUST_USE;
// Splits reductions that have too few outer iterations, merges loops, and gives every kernel its
// schedules.
dt_status_t dt__fuse_schedule(dt_program_t *program, const dt_target_t *target) DT_MUST_USE;
// From how many grid items on the host hands a launch to other threads: an expression of the call's
// sizes, at least 1. `schedule` is one of the kernel's.
dt_sym_t dt__schedule_grain(dt_program_t *program, const dt_kernel_t *kernel,
                            const dt_schedule_t *schedule);
// Devices: runs small maps that have nothing to do with each other together, as one launch.
dt_status_t dt__fuse_foreach(dt_program_t *program, const dt_target_t *target) DT_MUST_USE;
// Moves kernels that read constants only to the front (n_once), makes their results ONCE buffers,
// and places TEMP and ONCE buffers: which may share memory is decided here, offsets are
// expressions.
dt_status_t dt__fuse_plan(dt_program_t *program, const dt_target_t *target) DT_MUST_USE;
// Makes kernels that are equal but for numbers equal, with the numbers as parameters: one code then
// serves them. For targets that say so.
dt_status_t dt__fuse_parameters(dt_program_t *program, const dt_target_t *target) DT_MUST_USE;

// Runs one of the passes above, any before the plan, on each section of a program with regions by
// itself. To the pass, buffers that sections hand each other are arguments and results: it reads
// the former, keeps the latter, and moves nothing over the border of a region.
typedef dt_status_t (*dt_fuse_fn_t)(dt_program_t *program, const dt_target_t *target);
dt_status_t dt__fuse_each_section(dt_program_t *program, const dt_target_t *target,
                                  dt_fuse_fn_t pass) DT_MUST_USE;

#endif // DT_FUSE_FUSE_H
