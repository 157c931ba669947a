// SPDX-License-Identifier: Apache-2.0
// What the launches of a variant compute: their ops with source lines, what they read and write,
// and how much work they are at given sizes.
#ifndef DT_RUNTIME_EXEC_TIMING_KERNELS_H
#define DT_RUNTIME_EXEC_TIMING_KERNELS_H

#include "runtime/compile/again.h"
#include "runtime/exec/timing.h"
#include "runtime/exec/timing_sources.h"

// A launch of the program: a kernel, or a chain of them.
typedef struct dt_timed_launch_t {
  uint32_t first, end; // kernels
  const char *name;
  bool packs;
  uint32_t n_sources;
  const dt_profile_source_t *const *sources;
} dt_timed_launch_t;

typedef struct dt_timed_kernels_t {
  dt_again_t again;
  dt_arena_t arena; // of texts
  uint32_t n;
  dt_timed_launch_t *launches; // in the order of the program; those of constants are none
  uint32_t *writers;           // by buffer, [id - 1]: 1 + the launch that writes it last; 0: none
  dt_status_t failed;          // why nothing is known; else NULL
} dt_timed_kernels_t;

// Always gives one, but without memory.
dt_timed_kernels_t *dt__timed_kernels_make(dt_timed_t *timed, dt_compiler_t *compiler);
// Whether `code` (UINT32_MAX: a user's kernel) is one of the launch's.
bool dt__timed_launch_has(const dt_timed_kernels_t *kernels, uint32_t launch, uint32_t code);

// Of one launch at these sizes (by symbol, as long as `n`). False: they cannot be computed.
typedef struct dt_timed_work_t {
  double bytes, flops;
  double slices; // so many such launches follow each other
} dt_timed_work_t;
typedef struct dt_timed_meter_t dt_timed_meter_t;                          // memory for it
dt_timed_meter_t *dt__timed_meter_make(const dt_timed_kernels_t *kernels); // NULL: no memory
bool dt__timed_work(dt_timed_meter_t *meter, uint32_t launch, const int64_t *values, uint32_t n,
                    dt_timed_work_t *out);
void dt__timed_meter_free(dt_timed_meter_t *meter); // NULL allowed

#endif // DT_RUNTIME_EXEC_TIMING_KERNELS_H
