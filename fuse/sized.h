// SPDX-License-Identifier: Apache-2.0
// Programs of device sizes: the device knows sizes before the host does.
#ifndef DT_FUSE_SIZED_H
#define DT_FUSE_SIZED_H

#include "lower/loop/loop.h"

// Makes a program in segments one of device sizes (loop.h), where the host needs no readback: no
// result is sized by one, and all that is has a bound. Elsewhere it stays in segments, and
// segments_reason says why.
dt_status_t dt__size_on_device(dt_program_t *program) DT_MUST_USE;

// A kernel that checks readbacks [first, end) and the asserts that wait for them; without stages,
// where there is nothing to check. `gate` is that of the checks before, or none, and becomes its
// own.
// *out_reason: why there can be none, or NULL.
dt_status_t dt__readback_checks(dt_program_t *program, uint32_t first, uint32_t end,
                                dt_buffer_id_t *gate, dt_kernel_t *out,
                                const char **out_reason) DT_MUST_USE;

#endif // DT_FUSE_SIZED_H
