// SPDX-License-Identifier: Apache-2.0
// Schedules of devices: which threads share a grid item.
#ifndef DT_FUSE_TEAMS_H
#define DT_FUSE_TEAMS_H

#include "fuse/target.h"
#include "lower/loop/loop.h"

// Gives the kernel's one schedule, made as for a CPU, its team; where the best team depends on
// sizes of the call, one schedule a case with a predicate before the last.
dt_status_t dt__schedule_teams(dt_program_t *program, dt_kernel_t *kernel,
                               const dt_target_t *target) DT_MUST_USE;

// The extent of rows that are walked more than once, by stages of one loop each and all of one
// extent: threads may keep such rows in registers. None: others.
dt_sym_t dt__row_extent(dt_program_t *program, const dt_kernel_t *kernel);

// Adds `schedule` where `condition` holds and no schedule before it was taken; *done, false at
// first, when that surely is so: then nothing more is added.
dt_status_t dt__schedule_offer(dt_program_t *program, dt_kernel_t *kernel, dt_schedule_t schedule,
                               dt_sym_t condition, bool *done) DT_MUST_USE;

#endif // DT_FUSE_TEAMS_H
