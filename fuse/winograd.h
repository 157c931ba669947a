// SPDX-License-Identifier: Apache-2.0
// Convolutions of 3 x 3 with fewer multiplications (winograd.c).
#ifndef DT_FUSE_WINOGRAD_H
#define DT_FUSE_WINOGRAD_H

#include "fuse/operands.h"

// If `c` is a convolution whose places can be made four at a time, and with so many channels that
// this pays, gives it that form and its schedule, and puts the kernel that transforms its weights
// in front of it. `lanes` of a vector of f32; `matmul`: the tile that the product would have.
dt_status_t dt__take_winograd(dt_program_t *program, const dt_target_t *target,
                              const dt_contraction_t *c, uint32_t lanes, const dt_matmul_t *matmul,
                              dt_kernel_t *before, uint32_t *n_before, bool *taken) DT_MUST_USE;

#endif // DT_FUSE_WINOGRAD_H
