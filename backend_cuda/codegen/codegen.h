// SPDX-License-Identifier: Apache-2.0
// CUDA's code generation: kernels as PTX, made into one cubin a unit by the driver and loaded.
#ifndef DT_BACKEND_CUDA_CODEGEN_CODEGEN_H
#define DT_BACKEND_CUDA_CODEGEN_CODEGEN_H

#include "backend_cuda/exec/launch.h"
#include "ductile/device.h"
#include "runtime/compile/codegen.h"

extern const dt_codegen_t dt__cuda_codegen;

// emit.c: what code is for, how it is made by the code generator, and how it becomes a device's.
dt_status_t dt__cuda_codegen_target(const void *device, const dt_target_t *host,
                                    dt_target_t *out) DT_MUST_USE;
dt_status_t dt__cuda_codegen_level_target(uint32_t level, const dt_target_t *host,
                                          dt_target_t *out) DT_MUST_USE;
uint32_t dt__cuda_codegen_suits(const void *device, uint32_t level);
dt_status_t dt__cuda_codegen_emit(const dt_program_t *program, const dt_unit_map_t *map,
                                  uint32_t unit, const dt_target_t *target,
                                  const dt_compile_options_t *options, void **out,
                                  size_t *out_bytes) DT_MUST_USE;
dt_status_t dt__cuda_codegen_describe(dt_program_t *program, const dt_unit_map_t *map,
                                      const dt_target_t *target, uint32_t *out_infos) DT_MUST_USE;
dt_status_t dt__cuda_codegen_load(dt_jobs_t *jobs, const dt_codegen_request_t *request,
                                  const dt_unit_map_t *map, const dt_object_t *units, uint32_t n,
                                  dt_compiled_t *out) DT_MUST_USE;
dt_status_t dt__cuda_codegen_load_carried(dt_jobs_t *jobs, void *device,
                                          const dt_artifact_t *artifact,
                                          dt_compiled_t *out) DT_MUST_USE;

// codegen.c. Kernels of a GPU's code, which `out` then owns; NULL where there are none.
dt_status_t dt__cuda_codegen_take(dt_cuda_code_t *code, uint32_t n, dt_compiled_t *out) DT_MUST_USE;

#endif // DT_BACKEND_CUDA_CODEGEN_CODEGEN_H
