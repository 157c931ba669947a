// SPDX-License-Identifier: Apache-2.0
// Kernels that may be set up while those before them run (programmatic dependent launch, compute
// capability 9.0): such a kernel waits by itself, in every thread, before it touches memory that
// any kernel writes. Launches are allowed to come early where that holds (exec/launch.h).
#ifndef DT_BACKEND_CUDA_EMIT_EARLY_H
#define DT_BACKEND_CUDA_EMIT_EARLY_H

#include "backend_llvm/emit/context.h"

// Whether kernels for the target wait by themselves: the same for all of its kernels.
bool dt__cuda_waits(const dt_target_t *target);
// What an entry begins with: waits until all work before this launch has ended and can be seen,
// then lets the launch after it begin. Nothing for targets without the instructions.
void dt__cuda_wait_for_work(dt_emit_t *m);
// Looks at the text that became of it, as code generators move what they think they may: each entry
// has only parameters and registers before its wait, on one path. DT_E_INTERNAL names the entry and
// the line.
dt_status_t dt__cuda_check_waits(const char *ptx) DT_MUST_USE;

#endif // DT_BACKEND_CUDA_EMIT_EARLY_H
