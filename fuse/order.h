// SPDX-License-Identifier: Apache-2.0
// The order of kernels: by what they read, and by the items (numbers read back from data) that they
// wait for.
#ifndef DT_FUSE_ORDER_H
#define DT_FUSE_ORDER_H

#include "fuse/body.h"

// The segment in which each kernel can first run, and in which each item is bound at the beginning:
// arena arrays; `out_items` may be NULL. Kernels that run once are in segment 0; those that update
// arguments in the last one. Kernels must stand in order.
dt_status_t dt__find_segments(dt_program_t *program, uint32_t **out_kernels,
                              uint32_t **out_items) DT_MUST_USE;
// Puts kernels so that each stands after all it reads from and waits for, and after none that
// updates an argument unless it does so too; otherwise in their present order.
dt_status_t dt__sort_kernels(dt_program_t *program) DT_MUST_USE;
// Puts the kernels k with in[k] side by side: what they wait for before them, what waits for them
// behind. order[k] is where kernel k stood before, *out_first where the first of them stands now;
// UINT32_MAX, and nothing moved, where another kernel must stand between two of them or `segments`
// (by kernel) parts them.
dt_status_t dt__gather_kernels(dt_program_t *program, const dt_access_t *access,
                               const uint32_t *segments, const bool *in, uint32_t *order,
                               uint32_t *out_first) DT_MUST_USE;

#endif // DT_FUSE_ORDER_H
