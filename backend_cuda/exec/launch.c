// SPDX-License-Identifier: Apache-2.0
// Launches: the parameter block, the grid, and where teams have their scratch. See launch.h.
#include "backend_cuda/exec/session.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <string.h>

#define MOST_BLOCKS ((int64_t)INT32_MAX) // of a grid's first dimension
#define SCRATCH_BLOCKS 4                 // a multiprocessor, with scratch in global memory
#define LINE ((int64_t)64)

// Function and data pointers are of one size wherever code is generated; ISO C has no cast.
static const dt_cuda_kernel_t *kernel_of(dt_kernel_fn_t fn) {
  union {
    dt_kernel_fn_t fn;
    const dt_cuda_kernel_t *kernel;
  } entry = {.fn = fn};
  return entry.kernel;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t grid_of(const dt_cuda_kernel_t *kernel, const dt_cuda_device_t *device,
                       int64_t count) {
  int64_t teams = kernel->info.teams;
  int64_t blocks = least((count - 1) / teams + 1, MOST_BLOCKS);
  if (kernel->info.most_blocks)
    blocks = least(blocks, (int64_t)kernel->info.most_blocks * device->processors);
  return blocks;
}

// Fills the tail's scratch, adds to the launch's shared memory, which begins with what the kernel
// keeps for itself, and may make the grid smaller.
static dt_status_t place_scratch(dt_cuda_launch_frame_t *launch, const dt_cuda_kernel_t *kernel,
                                 int64_t bytes, dt_cu_launch_config_t *config,
                                 dt_cuda_tail_t *tail) {
  dt_cuda_device_t *device = launch->gpu->device;
  int64_t teams = kernel->info.teams, all = 0;
  if (bytes <= 0)
    return NULL;
  if (bytes >= DT_SIZE_LIMIT)
    return DT_FAIL(DT_E_LIMIT, "a kernel's scratch is %lld bytes", (long long)bytes);
  tail->scratch_stride = (bytes + LINE - 1) / LINE * LINE;
  if (dt__mul_i64(teams, tail->scratch_stride, &all) && all <= (int64_t)device->shared_per_block -
                                                                   kernel->static_shared -
                                                                   kernel->info.shared_bytes) {
    config->shared_bytes += (uint32_t)all;
    return NULL;
  }
  int64_t blocks = least(config->grid[0], (int64_t)device->processors * SCRATCH_BLOCKS);
  config->grid[0] = (uint32_t)blocks;
  if (!dt__mul_i64(teams, tail->scratch_stride, &all) || !dt__mul_i64(all, blocks, &all))
    return DT_FAIL(DT_E_LIMIT, "%lld blocks with %lld bytes of scratch a team", (long long)blocks,
                   (long long)bytes);
  DT_TRY(dt__cuda_region_grow(launch->scratch, launch->gpu, (size_t)all));
  tail->scratch = launch->scratch->base;
  return NULL;
}

static dt_status_t launch_kernel(dt_cuda_launch_frame_t *launch, const dt_cuda_kernel_t *kernel,
                                 const uint64_t *words, int64_t count, int64_t bytes) {
  uint64_t block[DT_CUDA_PARAM_BYTES / 8];
  dt_cuda_device_t *device = launch->gpu->device;
  uint32_t n = kernel->info.n_words; // loading has seen that they fit
  dt_cuda_tail_t tail = {.count = count, .record = launch->record};
  dt_cu_launch_config_t config = {.grid = {(uint32_t)grid_of(kernel, device, count), 1, 1},
                                  .block = {kernel->info.threads, 1, 1},
                                  .shared_bytes = kernel->info.shared_bytes,
                                  .stream = launch->stream};
  // A kernel that does not wait would end before the work in front of it, and what follows would
  // take that for ended, too.
  dt_cu_launch_attr_t early = {.id = DT_CU_LAUNCH_PROGRAMMATIC, .value.programmatic = 1};
  if (launch->early && launch->follows && kernel->info.waits) {
    config.attrs = &early;
    config.n_attrs = 1;
  }
  DT_TRY(place_scratch(launch, kernel, bytes, &config, &tail));
  memcpy(block, words, n * sizeof(block[0]));
  memcpy(block + n, &tail, sizeof(tail));
  void *params[] = {block};
  DT_CUDA_TRY(device, launch, &config, kernel->function, params, NULL);
  launch->launches++;
  launch->follows = kernel->info.waits;
  return NULL;
}

void dt__cuda_launch(dt_frame_t *frame, dt_kernel_fn_t fn, const uint64_t *words, int64_t count,
                     int64_t grain) {
  dt_cuda_launch_frame_t *launch = (dt_cuda_launch_frame_t *)frame;
  if (launch->status || count <= 0)
    return;
  launch->status = launch_kernel(launch, kernel_of(fn), words, count, grain);
}
