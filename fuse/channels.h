// SPDX-License-Identifier: Apache-2.0
// Convolutions with their channels innermost (channels.c).
#ifndef DT_FUSE_CHANNELS_H
#define DT_FUSE_CHANNELS_H

#include "fuse/flow.h"
#include "fuse/target.h"

// Turns convolutions into products whose rows are places, and puts the channels of the temporaries
// around them innermost. `flow` is of the program as it is; afterwards, where *out_changed, it is
// of one without the kernels that were added.
dt_status_t dt__channels_innermost(dt_program_t *program, const dt_target_t *target,
                                   dt_flow_t *flow, bool *out_changed) DT_MUST_USE;

// Takes padding apart whose temporary has an order: what is copied into its middle, and the borders
// (borders.c). Afterwards `flow` is of the program as it was.
dt_status_t dt__borders_apart(dt_program_t *program, dt_flow_t *flow,
                              bool *out_changed) DT_MUST_USE;

#endif // DT_FUSE_CHANNELS_H
