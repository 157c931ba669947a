// SPDX-License-Identifier: Apache-2.0
// The order of kernels by the readbacks (numbers read back from data) that they wait for.
#ifndef DT_FUSE_ORDER_H
#define DT_FUSE_ORDER_H

#include "lower/loop/loop.h"

// The segment in which each kernel can first run, and in which each readback is bound at the
// beginning: arena arrays; `out_readbacks` may be NULL. Kernels that run once are in segment 0;
// those that update arguments in the last one. Kernels must stand in order.
dt_status_t dt__find_segments(dt_program_t *program, uint32_t **out_kernels,
                              uint32_t **out_readbacks) DT_MUST_USE;

#endif // DT_FUSE_ORDER_H
