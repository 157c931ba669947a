// SPDX-License-Identifier: Apache-2.0
// Two-step reductions, for reductions with too few outer iterations to use more than one thread.
#ifndef DT_FUSE_SPLIT_REDUCTION_H
#define DT_FUSE_SPLIT_REDUCTION_H

#include "fuse/target.h"
#include "lower/loop/loop.h"

// A kernel that is one reduction over one long loop, and whose outer iterations are known to be
// few, becomes a kernel that reduces chunks of fixed length into a temporary and one that reduces
// the chunks. The chunk length depends on nothing but the dtype, so results do not change with
// threads.
dt_status_t dt__split_reductions(dt_program_t *program, const dt_target_t *target) DT_MUST_USE;

#endif // DT_FUSE_SPLIT_REDUCTION_H
