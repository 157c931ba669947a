// SPDX-License-Identifier: Apache-2.0
// From a planned program to loaded machine code. codegen.c does it with LLVM; a build without LLVM
// has codegen_none.c in its place, which refuses.
#ifndef DT_RUNTIME_COMPILE_CODEGEN_H
#define DT_RUNTIME_COMPILE_CODEGEN_H

#include "lower/loop/loop.h"
#include "runtime/compile/artifact.h"
#include "runtime/compile/jobs.h"
#include "runtime/compile/worker.h"

typedef struct dt_codegen_request_t {
  dt_program_t *program; // planned; its arena receives what splitting makes
  const dt_target_t *target;
  struct dt_cuda_device_t *cuda; // the device whose target that is; NULL: a CPU
  dt_workers_t *workers;         // that make the code; NULL: this process does
  uint32_t threads;              // of `jobs`
  bool verify;
  const char *name; // for dumps
  uint32_t variant;
  dt_artifact_t *keep; // receives the code of a device; NULL: not wanted
} dt_codegen_request_t;

// Whether this build makes code: NULL, or DT_E_UNSUPPORTED saying what to do.
dt_status_t dt__codegen_available(void) DT_MUST_USE;
// Whether the system lets this process make code, where this build would: DT_E_UNSUPPORTED says
// what it forbids and what to do.
dt_status_t dt__codegen_allowed(void) DT_MUST_USE;
// Workers for requests to come. dt__codegen_stop ends requests under way; dt__codegen_end when
// there are none. NULL allowed in both.
dt_status_t dt__codegen_isolate(const dt_workers_options_t *options,
                                dt_workers_t **out) DT_MUST_USE;
void dt__codegen_stop(dt_workers_t *workers);
void dt__codegen_end(dt_workers_t *workers);
// Describes the host, or the CPU of that name. On a compile thread.
dt_status_t dt__codegen_target(dt_workers_t *workers, const char *cpu, uint32_t pool_width,
                               dt_target_t *out) DT_MUST_USE;
// Describes a CUDA device; `host` (borrowed by *out) runs its host programs.
dt_status_t dt__codegen_device(const struct dt_cuda_device_t *device, const dt_target_t *host,
                               dt_target_t *out) DT_MUST_USE;
// Compiles all units on the compile threads, loads them and fills units, kernels, plan, once, run,
// once_scratch_bytes and code_bytes of `out`, of which the caller owns what was filled also on
// failure. On any thread but a compile thread.
dt_status_t dt__codegen_run(dt_jobs_t *jobs, const dt_codegen_request_t *request,
                            dt_compiled_t *out) DT_MUST_USE;

#endif // DT_RUNTIME_COMPILE_CODEGEN_H
