// SPDX-License-Identifier: Apache-2.0
// Kernels of the host over the kernel pool: the launch callback of the CPU's frames.
#ifndef DT_RUNTIME_EXEC_LAUNCH_H
#define DT_RUNTIME_EXEC_LAUNCH_H

#include "runtime/base/pool.h"
#include "runtime/exec/variant.h"

// A frame and what its launch callback needs. Generated code sees the frame alone.
typedef struct dt_launch_frame_t {
  dt_frame_t frame; // first; its control is NULL where launches are dt__launch's
  dt_pool_t *pool;
  dt_pool_level_t level; // in `pool`
  char *scratch;
  size_t scratch_stride;
  uint32_t threads;               // the most that work on one kernel; 0: all
  const dt_variant_t *told;       // whose kernels dt__launch_told names; else NULL
  struct dt_recorder_t *recorder; // of dt__launch_recorded; else NULL
} dt_launch_frame_t;
void dt__launch(dt_frame_t *frame, dt_kernel_fn_t fn, const uint64_t *words, int64_t count,
                int64_t grain);
// The same under frame->control: pieces of each kernel, with a look between them; none once it is
// stopped.
void dt__launch_controlled(dt_frame_t *frame, dt_kernel_fn_t fn, const uint64_t *words,
                           int64_t count, int64_t grain);
// call_log.c. Either of them, which is told before (channel exec, level 2).
void dt__launch_told(dt_frame_t *frame, dt_kernel_fn_t fn, const uint64_t *words, int64_t count,
                     int64_t grain);

// Any of them, noted in the frame's recorder (timing.h).
void dt__launch_recorded(dt_frame_t *frame, dt_kernel_fn_t fn, const uint64_t *words, int64_t count,
                         int64_t grain);

#endif // DT_RUNTIME_EXEC_LAUNCH_H
