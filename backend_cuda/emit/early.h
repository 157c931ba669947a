// SPDX-License-Identifier: Apache-2.0
// Kernels that may be set up while those before them run (programmatic dependent launch, compute
// capability 9.0): such a kernel waits by itself, in every thread, before it touches memory that
// any kernel writes. Launches are allowed to come early where that holds (exec/launch.h). Before
// the wait it may compute from its parameters and copy constants.
#ifndef DT_BACKEND_CUDA_EMIT_EARLY_H
#define DT_BACKEND_CUDA_EMIT_EARLY_H

#include "backend_llvm/emit/body.h"

// Whether kernels for the target wait by themselves: the same for all of its kernels.
bool dt__cuda_waits(const dt_target_t *target);
// Waits until all work before this launch has ended and can be seen, then lets the launch after it
// begin. Stands on every path to memory and to the end; where the thread has waited already it
// costs next to nothing. Nothing for targets without the instructions.
void dt__cuda_wait_for_work(dt_emit_t *m);

// Whether nothing writes the buffer from the time when a call can begin on: constants, and what is
// computed from them when the variant is made, but for the kernels that do this.
bool dt__cuda_is_settled(const dt_body_t *k, dt_buffer_id_t buffer);
// As dt__ptx_copy, of a settled buffer: the only access to global memory that may come before the
// wait, marked as such in the text.
void dt__cuda_copy_early(dt_emit_t *m, LLVMValueRef to, LLVMValueRef from, LLVMValueRef bytes);

// Looks at the text that became of it, as code generators move what they think they may: on every
// path of each entry what comes before its wait are marked copies, shared memory and registers.
// DT_E_INTERNAL names the entry and the line.
dt_status_t dt__cuda_check_waits(const char *ptx) DT_MUST_USE;
// Entries of *ptx (*bytes without its zero) that the check refuses wait first of all: slower by
// what could have come early, and right. *ptx may move.
dt_status_t dt__cuda_settle_waits(char **ptx, size_t *bytes) DT_MUST_USE;

#endif // DT_BACKEND_CUDA_EMIT_EARLY_H
