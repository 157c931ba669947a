// SPDX-License-Identifier: Apache-2.0
// Code generation: a scheduled, planned program to object files. Units are independent and may be
// compiled by several threads at once, each with its own LLVM context and its own clone of the
// environment. Call only from Ductile's compile threads (LLVM needs a large stack).
#ifndef DT_BACKEND_LLVM_EMIT_COMPILE_H
#define DT_BACKEND_LLVM_EMIT_COMPILE_H

#include "backend_llvm/units/units.h"

// Compiles one unit. *out_object is owned by the caller (dt__free). Symbols defined: dt_k<code
// index> (dt_kernel_fn_t) for its kernels; in the host unit dt_once, and dt_plan_<segment>,
// dt_run_<segment>. The program is only read; the expressions made on the way go to a clone.
dt_status_t dt__llvm_compile_unit(const dt_program_t *program, const dt_unit_map_t *map,
                                  uint32_t unit, const dt_target_t *target,
                                  const dt_compile_options_t *options, void **out_object,
                                  size_t *out_bytes) DT_MUST_USE;
// Scratch bytes dt_once needs are those the plan of a program with no symbols would ask; the host
// unit exports dt_once_scratch (an int64 (*)(void)).

#endif // DT_BACKEND_LLVM_EMIT_COMPILE_H
