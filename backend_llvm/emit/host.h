// SPDX-License-Identifier: Apache-2.0
// The host program of a variant: dt_once, dt_once_scratch, and dt_plan_<k>, dt_run_<k> for each
// segment k (native.h).
#ifndef DT_BACKEND_LLVM_EMIT_HOST_H
#define DT_BACKEND_LLVM_EMIT_HOST_H

#include "backend_llvm/emit/context.h"

dt_status_t dt__emit_host(dt_emit_t *m, const dt_unit_map_t *map) DT_MUST_USE;

// dt_run_<segment> of a segment with regions: calls of parts (dt_part_<first kernel>) in order,
// under the regions' predicates, which dt_flag_<region> finds. (host_region.c)
dt_status_t dt__emit_regions(dt_emit_t *m, const char *name, uint32_t first,
                             uint32_t last) DT_MUST_USE;
// The kernel at which the part that begins with kernel `first` ends: where a region begins, or at
// `last`. `after`: regions from there on count (dt__region_at).
uint32_t dt__region_part_end(const dt_program_t *program, uint32_t first, uint32_t last,
                             uint32_t after);

// Refuses IR that does anything but what emission is known to make (allow_list.c): unknown
// instructions, calls of functions that are neither ours nor listed intrinsics, and, outside the
// host program, calls through pointers.
dt_status_t dt__emit_check(dt_emit_t *m, bool host) DT_MUST_USE;

#endif // DT_BACKEND_LLVM_EMIT_HOST_H
