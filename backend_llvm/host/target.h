// SPDX-License-Identifier: Apache-2.0
// The CPU that runs host programs and kernels, in numbers. No LLVM.
#ifndef DT_BACKEND_LLVM_HOST_TARGET_H
#define DT_BACKEND_LLVM_HOST_TARGET_H

#include "fuse/target.h"

// Fills `out` for the CPU this process runs on, or for `cpu`, a level's name (cpu.h), when not "",
// which this machine need not have. `threads` is the kernel pool's width. The generator is not
// named.
dt_status_t dt__host_target(const char *cpu, uint32_t threads, dt_target_t *out) DT_MUST_USE;
// Whether this machine has what all code needs, and all of `cpu`, a level's name or "":
// DT_E_UNSUPPORTED says what it lacks.
dt_status_t dt__host_runs(const char *cpu) DT_MUST_USE;

#endif // DT_BACKEND_LLVM_HOST_TARGET_H
