// SPDX-License-Identifier: Apache-2.0
// Scans in blocks, on devices: a thread that walks the whole axis leaves all others idle.
#ifndef DT_FUSE_SPLIT_SCAN_H
#define DT_FUSE_SPLIT_SCAN_H

#include "fuse/target.h"
#include "lower/loop/loop.h"

// A kernel that is one associative scan becomes three: one that scans blocks and keeps their last
// tuples, one that scans these, and one that scans the blocks again from what is before them. The
// more rows there are to share out, the fewer blocks. Floats under strict_fp stay in their order.
dt_status_t dt__split_scans(dt_program_t *program, const dt_target_t *target) DT_MUST_USE;

#endif // DT_FUSE_SPLIT_SCAN_H
