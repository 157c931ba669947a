// SPDX-License-Identifier: Apache-2.0
// The code generator's text for ductile-opt.
#ifndef DT_TOOLS_OPT_LLVM_H
#define DT_TOOLS_OPT_LLVM_H

#include "lower/loop/loop.h"

// Appends the LLVM IR of every unit of a planned program. DT_E_UNSUPPORTED in a build without LLVM.
dt_status_t opt_llvm_print(dt_program_t *program, dt_text_t *out) DT_MUST_USE;

#endif // DT_TOOLS_OPT_LLVM_H
