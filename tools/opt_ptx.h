// SPDX-License-Identifier: Apache-2.0
// GPUs for ductile-opt: known ones by name, and the code of their kernels.
#ifndef DT_TOOLS_OPT_PTX_H
#define DT_TOOLS_OPT_PTX_H

#include "fuse/target.h"
#include "lower/loop/loop.h"

// The GPU `name` (sm_80, sm_89, sm_90); false: none of these.
bool opt_ptx_known(const char *name);
// Describes it.
dt_status_t opt_ptx_target(const char *name, dt_target_t *out) DT_MUST_USE;
// Appends the PTX of all kernels of a program planned for `target`. DT_E_UNSUPPORTED in a build
// without LLVM.
dt_status_t opt_ptx_print(dt_program_t *program, const dt_target_t *target,
                          dt_text_t *out) DT_MUST_USE;

#endif // DT_TOOLS_OPT_PTX_H
