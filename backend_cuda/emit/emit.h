// SPDX-License-Identifier: Apache-2.0
// Code generation for NVIDIA GPUs: scheduled kernels to PTX text, on backend_llvm/emit. Host
// programs are backend_llvm's. Call only from Ductile's compile threads.
#ifndef DT_BACKEND_CUDA_EMIT_EMIT_H
#define DT_BACKEND_CUDA_EMIT_EMIT_H

#include "backend_cuda/emit/target.h"
#include "backend_cuda/exec/launch.h"
#include "backend_llvm/emit/compile.h"

// Compiles one kernel unit (not the last, the host's). *out_text: PTX, zero-terminated, owned by
// the caller (dt__free). Entries dt_k<code> as backend_cuda/exec/launch.h says.
dt_status_t dt__cuda_compile_unit(const dt_program_t *program, const dt_unit_map_t *map,
                                  uint32_t unit, const dt_target_t *target,
                                  const dt_compile_options_t *options, char **out_text,
                                  size_t *out_bytes) DT_MUST_USE;
// How code `code` is launched, which was compiled for `target`.
dt_status_t dt__cuda_kernel_info(dt_program_t *program, const dt_unit_map_t *map, uint32_t code,
                                 const dt_target_t *target, dt_cuda_kernel_info_t *out) DT_MUST_USE;

#endif // DT_BACKEND_CUDA_EMIT_EMIT_H
