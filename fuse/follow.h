// SPDX-License-Identifier: Apache-2.0
// Orders of temporaries that follow those of arguments and results.
#ifndef DT_FUSE_FOLLOW_H
#define DT_FUSE_FOLLOW_H

#include "fuse/flow.h"

// Gives temporaries the order of dims that what stands beside them in kernels has, so that a
// program whose arguments and results are channels-last stays so in between. Before any other pass:
// nothing but layouts changes.
dt_status_t dt__follow_orders(dt_program_t *program, dt_flow_t *flow) DT_MUST_USE;

#endif // DT_FUSE_FOLLOW_H
