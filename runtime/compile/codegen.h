// SPDX-License-Identifier: Apache-2.0
// From a planned program to loaded machine code, by the code generator (backend_llvm/jit/jit.h) or
// by workers that have one. A dt_codegen_t is what a kind of device adds to the CPU's code
// generation.
#ifndef DT_RUNTIME_COMPILE_CODEGEN_H
#define DT_RUNTIME_COMPILE_CODEGEN_H

#include "backend_llvm/units/units.h"
#include "lower/graph/external.h"
#include "lower/loop/loop.h"
#include "runtime/compile/artifact.h"
#include "runtime/compile/jobs.h"
#include "runtime/compile/worker.h"

struct dt_maker_t;

typedef struct dt_codegen_request_t {
  dt_program_t *program; // planned; its arena receives what splitting makes
  const dt_target_t *target;
  const dt_codegen_t *codegen; // of the device whose target that is; NULL: a CPU
  void *device;                // as it knows it
  dt_workers_t *workers;       // that make the code; NULL: this process does
  uint32_t threads;            // of `jobs`
  uint32_t units;              // that kernels are cut into, at most; 0: one a thread
  bool verify;
  dt_haste_t haste; // of kernels for CPUs
  // On a compile thread: kernels will be made in their quick form. NULL: nobody wants to know.
  void (*on_quick)(void *user);
  void *user;
  const char *name; // for dumps
  uint32_t variant;
  dt_artifact_t *keep;   // receives the code; NULL: not wanted
  const uint32_t *infos; // of a device's codes (dt_codegen_t.describe)
  bool carried; // for devices elsewhere: kernels are kept as they were emitted, and not loaded
} dt_codegen_request_t;

// A kind of device. The host program of a variant is always the CPU's, and the last unit; the units
// before it are kernels. Everything runs on compile threads but load and load_carried, which give
// their work to them, unload, same and what is said of levels.
struct dt_codegen_t {
  uint64_t unit_work; // the most work of a unit (dt__llvm_split)
  // Describes a device; `host` (borrowed by *out) runs its host programs.
  dt_status_t (*target)(const void *device, const dt_target_t *host, dt_target_t *out);
  // Makes the code of a unit of kernels, as bytes that the caller owns (dt__free).
  dt_status_t (*emit)(const dt_program_t *program, const dt_unit_map_t *map, uint32_t unit,
                      const dt_target_t *target, const dt_compile_options_t *options, void **out,
                      size_t *out_bytes);
  // How each code is launched, info_words numbers a code; asked where code is made. NULL: load
  // knows.
  dt_status_t (*describe)(dt_program_t *program, const dt_unit_map_t *map,
                          const dt_target_t *target, uint32_t *out_infos);
  // Loads the code of `n` units and fills kernels, n_kernels, device_code, code_bytes,
  // device_code_bytes and device_load_ns of `out`; and the request's artifact, where it has one.
  dt_status_t (*load)(dt_jobs_t *jobs, const dt_codegen_request_t *request,
                      const dt_unit_map_t *map, const dt_object_t *units, uint32_t n,
                      dt_compiled_t *out);
  // The same from an artifact, whose objects it may take.
  dt_status_t (*reload)(void *device, dt_artifact_t *artifact, dt_compiled_t *out);
  // The same of kernels as they were emitted, for a level of this device. Not on a compile thread.
  dt_status_t (*load_carried)(dt_jobs_t *jobs, void *device, const dt_artifact_t *artifact,
                              dt_compiled_t *out);
  void (*unload)(void *device_code);
  // Loads a user's kernel of `n_words` words: its code, for unload, and what is launched. NULL:
  // such a device runs none.
  dt_status_t (*external)(void *device, const struct dt_op_device_kernel_t *kernel,
                          uint32_t n_words, void **out_code, dt_kernel_fn_t *out);
  // Whether kernels of `fresh` can take the places of those of `old`, one by one.
  bool (*same)(const dt_compiled_t *old, const dt_compiled_t *fresh);
  // Where whole compiles are kept; NULL: nowhere, as where the function is. And what names the
  // device in their keys.
  struct dt_disk_cache_t *(*cache)(const void *device);
  void (*key)(const void *device, dt_text_t *out);
  uint32_t info_words; // numbers that say how a kernel is launched (dt_artifact_t.infos)
  bool (*lost)(const void *device); // nothing can be loaded there any more
  // Levels of such devices, for which code is made also where there is none: their names, then
  // NULL. NULL: there are no levels. With what describes a common device of one, as `target`.
  const char *const *levels;
  dt_status_t (*level_target)(uint32_t level, const dt_target_t *host, dt_target_t *out);
  // How well code for a level suits the device: the more the better; 0: it does not run there. And
  // the device in words, with its own level.
  uint32_t (*suits)(const void *device, uint32_t level);
  void (*name)(const void *device, dt_text_t *out);
};
// By dt_device_t; NULL: none is needed (the CPU), or there is no such device.
extern const dt_codegen_t *const dt__codegens[DT_DEVICES];

// Whether the system lets this process make code, where this build would: DT_E_UNSUPPORTED says
// what it forbids and what to do.
dt_status_t dt__codegen_allowed(void) DT_MUST_USE;
// Workers for requests to come. dt__codegen_stop ends requests under way; dt__codegen_end when
// there are none. NULL allowed in both.
dt_status_t dt__codegen_isolate(const dt_workers_options_t *options,
                                dt_workers_t **out) DT_MUST_USE;
void dt__codegen_stop(dt_workers_t *workers);
void dt__codegen_end(dt_workers_t *workers);
// Describes the host, or as much of it as the CPU of that name has. With workers it also sees that
// one can be started. On a compile thread.
dt_status_t dt__codegen_target(dt_workers_t *workers, const char *cpu, uint32_t pool_width,
                               dt_target_t *out) DT_MUST_USE;
// Before code is made: opens the code generator, where there are no workers. `jit` is its file, ""
// for where it is looked for. DT_E_UNSUPPORTED: there is none. On a compile thread.
dt_status_t dt__codegen_open(const dt_workers_t *workers, const char *jit) DT_MUST_USE;
// Whether code can be made at once: nothing need be opened. [any]
bool dt__codegen_is_open(const dt_workers_t *workers);
// Who makes the code. On a compile thread.
dt_status_t dt__codegen_maker(dt_workers_t *workers, const char *jit,
                              struct dt_maker_t *out) DT_MUST_USE;
// Compiles all units on the compile threads, loads them and fills units, kernels, plan, once, run,
// once_scratch_bytes and code_bytes of `out`, of which the caller owns what was filled also on
// failure. On any thread but a compile thread.
dt_status_t dt__codegen_run(dt_jobs_t *jobs, const dt_codegen_request_t *request,
                            dt_compiled_t *out) DT_MUST_USE;

#endif // DT_RUNTIME_COMPILE_CODEGEN_H
