// SPDX-License-Identifier: Apache-2.0
// Two-step folds, for those with too few outer iterations to use more than one thread.
#ifndef DT_FUSE_SPLIT_FOLD_H
#define DT_FUSE_SPLIT_FOLD_H

#include "fuse/target.h"
#include "lower/loop/loop.h"

// A kernel that is one fold over one long loop, and whose outer iterations are known to be few,
// becomes a kernel that folds chunks of fixed length into a temporary and one that folds the
// chunks. The chunk length depends on nothing but the dtype, so results do not change with threads.
dt_status_t dt__split_folds(dt_program_t *program, const dt_target_t *target) DT_MUST_USE;

#endif // DT_FUSE_SPLIT_FOLD_H
