// SPDX-License-Identifier: Apache-2.0
// The part of code generation that a CUDA device adds: kernels as PTX, made into one cubin by the
// driver and loaded. The host program is a CPU's.
#ifndef DT_RUNTIME_COMPILE_CODEGEN_CUDA_H
#define DT_RUNTIME_COMPILE_CODEGEN_CUDA_H

#include "backend_cuda/exec/launch.h"
#include "backend_llvm/emit/compile.h"
#include "runtime/compile/codegen.h"

// Describes the device; `host` (borrowed by *out) runs its host programs.
dt_status_t dt__codegen_cuda_target(const dt_cuda_device_t *device, const dt_target_t *host,
                                    dt_target_t *out) DT_MUST_USE;
// Links and loads all images on the compile threads and fills cuda, kernels, device and code_bytes
// of `out`, which the caller destroys also on failure; and what the request keeps.
dt_status_t dt__codegen_cuda_load(dt_jobs_t *jobs, const dt_codegen_request_t *request,
                                  const dt_unit_map_t *map, const dt_cuda_image_t *images,
                                  uint32_t n_images, dt_compiled_t *out) DT_MUST_USE;

#endif // DT_RUNTIME_COMPILE_CODEGEN_CUDA_H
