// SPDX-License-Identifier: Apache-2.0
// What running a host program on a GPU needs besides the program: the frame's launch callback.
#ifndef DT_BACKEND_CUDA_EXEC_SESSION_H
#define DT_BACKEND_CUDA_EXEC_SESSION_H

#include "backend_cuda/exec/gpu.h"
#include "backend_cuda/exec/launch.h"
#include "backend_llvm/load/native.h"

// A frame and what its launch callback needs. Generated code sees the frame alone.
typedef struct dt_cuda_launch_frame_t {
  dt_frame_t frame; // first
  dt_cuda_gpu_t *gpu;
  dt_cu_stream_t stream;
  dt_cuda_region_t *scratch; // of teams that shared memory does not hold; grows
  dt_cu_ptr_t record;        // dt_cuda_record_t as the device sees it
  dt_cu_ptr_t no_record;     // the one that nobody looks at
  bool early;                // launches may come early, where kernels wait by themselves
  bool follows;              // what was queued last is a kernel of this frame that waits
  uint64_t launches;         // kernels queued
  dt_status_t status;        // the first failure; launches after it do nothing. The caller's
} dt_cuda_launch_frame_t;

// A launch with everything settled but where it goes.
typedef struct dt_cuda_ready_t {
  const dt_cuda_kernel_t *kernel;
  uint32_t blocks, shared_bytes; // of the grid; dynamic, of a block
  uint32_t n_params;             // words and tail
  uint64_t params[DT_CUDA_PARAM_BYTES / 8];
} dt_cuda_ready_t;
// The kernel that an entry of a device's frame->kernels is.
const dt_cuda_kernel_t *dt__cuda_kernel_of(dt_kernel_fn_t fn);
// How many blocks are of use for `count` grid items, at least 1. Any number from one on is right.
uint32_t dt__cuda_blocks(const dt_cuda_kernel_t *kernel, const dt_cuda_device_t *device,
                         int64_t count);
// Settles a launch as frame->launch was told of it. With `blocks` 0 the grid is what is of use; a
// kernel that keeps scratch in global memory never gets more than that. Empty work (count 0 or
// less) is settled, too, as blocks that return.
dt_status_t dt__cuda_ready(dt_cuda_launch_frame_t *launch, dt_kernel_fn_t fn, const uint64_t *words,
                           int64_t count, int64_t bytes, uint32_t blocks,
                           dt_cuda_ready_t *out) DT_MUST_USE;

// frame->launch of a dt_cuda_launch_frame_t. The device's context is current. Whoever queues
// anything else on the stream clears `follows`: only what comes right after a kernel of the frame
// is early.
void dt__cuda_launch(dt_frame_t *frame, dt_kernel_fn_t fn, const uint64_t *words, int64_t count,
                     int64_t grain);

#endif // DT_BACKEND_CUDA_EXEC_SESSION_H
