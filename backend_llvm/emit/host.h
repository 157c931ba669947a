// SPDX-License-Identifier: Apache-2.0
// The host program of a variant: dt_once, dt_once_scratch, and dt_plan_<k>, dt_run_<k> for each
// segment k (native.h).
#ifndef DT_BACKEND_LLVM_EMIT_HOST_H
#define DT_BACKEND_LLVM_EMIT_HOST_H

#include "backend_llvm/emit/context.h"

dt_status_t dt__emit_host(dt_emit_t *m, const dt_unit_map_t *map) DT_MUST_USE;

// Refuses IR that does anything but what emission is known to make (allow_list.c): unknown
// instructions, calls of functions that are neither ours nor listed intrinsics, and, outside the
// host program, calls through pointers.
dt_status_t dt__emit_check(dt_emit_t *m, bool host) DT_MUST_USE;

#endif // DT_BACKEND_LLVM_EMIT_HOST_H
