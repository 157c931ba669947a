// SPDX-License-Identifier: Apache-2.0
// Launches: the parameter block, the grid, and where teams have their scratch. See launch.h.
#include "backend_cuda/exec/session.h"

#include "runtime/base/control.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <string.h>

#define MOST_BLOCKS ((int64_t)INT32_MAX) // of a grid's first dimension
#define SCRATCH_BLOCKS 4                 // a multiprocessor, with scratch in global memory
#define LINE ((int64_t)64)
#define EMPTY_BLOCKS DT_CUDA_CLUSTER // of a grid without items

// Function and data pointers are of one size wherever code is generated; ISO C has no cast.
const dt_cuda_kernel_t *dt__cuda_kernel_of(dt_kernel_fn_t fn) {
  union {
    dt_kernel_fn_t fn;
    const dt_cuda_kernel_t *kernel;
  } entry = {.fn = fn};
  return entry.kernel;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

uint32_t dt__cuda_blocks(const dt_cuda_kernel_t *kernel, const dt_cuda_device_t *device,
                         int64_t count) {
  int64_t teams = kernel->info.teams;
  if (count <= 0)
    return EMPTY_BLOCKS;
  int64_t blocks = least((count - 1) / teams + 1, MOST_BLOCKS);
  if (kernel->info.most_blocks)
    blocks = least(blocks, (int64_t)kernel->info.most_blocks * device->processors);
  return (uint32_t)blocks;
}

#define SYSTEM_SHARED 1024u // bytes of every block, the system's own

uint32_t dt__cuda_resident(const dt_cuda_device_t *device, const dt_cuda_kernel_t *kernel,
                           uint32_t shared_bytes) {
  uint32_t shared = shared_bytes + kernel->static_shared + SYSTEM_SHARED;
  uint32_t registers = kernel->registers * kernel->info.threads;
  uint32_t blocks = (uint32_t)device->threads_per_processor / kernel->info.threads;
  uint32_t fit = (uint32_t)device->shared_per_processor / shared;
  blocks = fit < blocks ? fit : blocks;
  fit = registers ? (uint32_t)device->registers_per_block / registers : blocks;
  blocks = fit < blocks ? fit : blocks;
  return blocks ? blocks : 1;
}

// Fills the tail's scratch, adds to the launch's shared memory, which begins with what the kernel
// keeps for itself, and may make the grid smaller.
static dt_status_t place_scratch(dt_cuda_launch_frame_t *launch, const dt_cuda_kernel_t *kernel,
                                 int64_t bytes, dt_cuda_ready_t *ready, dt_cuda_tail_t *tail) {
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
    ready->shared_bytes += (uint32_t)all;
    return NULL;
  }
  uint32_t needed = dt__cuda_blocks(kernel, device, tail->count);
  int64_t blocks = least(needed, (int64_t)device->processors * SCRATCH_BLOCKS);
  blocks = (blocks + DT_CUDA_CLUSTER - 1) / DT_CUDA_CLUSTER * DT_CUDA_CLUSTER;
  ready->blocks = (uint32_t)blocks;
  if (!dt__mul_i64(teams, tail->scratch_stride, &all) || !dt__mul_i64(all, blocks, &all))
    return DT_FAIL(DT_E_LIMIT, "%lld blocks with %lld bytes of scratch a team", (long long)blocks,
                   (long long)bytes);
  DT_TRY(dt__cuda_region_grow(launch->scratch, launch->gpu, (size_t)all));
  tail->scratch = launch->scratch->base;
  return NULL;
}

dt_status_t dt__cuda_ready(dt_cuda_launch_frame_t *launch, dt_kernel_fn_t fn, const uint64_t *words,
                           int64_t count, int64_t bytes, uint32_t blocks, dt_cuda_ready_t *out) {
  const dt_cuda_kernel_t *kernel = dt__cuda_kernel_of(fn);
  uint32_t n = kernel->info.n_words; // loading has seen that they fit
  dt_cuda_tail_t tail = {.count = count > 0 ? count : 0,
                         .record = kernel->info.checks ? launch->record : launch->no_record,
                         .member = kernel->info.member};
  out->kernel = kernel;
  out->blocks = blocks ? blocks : dt__cuda_blocks(kernel, launch->gpu->device, count);
  out->shared_bytes = kernel->info.shared_bytes;
  out->n_params = n + DT_CUDA_TAIL_WORDS;
  if (count > 0)
    DT_TRY(place_scratch(launch, kernel, bytes, out, &tail));
  memcpy(out->params, words, n * sizeof(out->params[0]));
  memcpy(out->params + n, &tail, sizeof(tail));
  return NULL;
}

static dt_status_t launch_kernel(dt_cuda_launch_frame_t *launch, dt_kernel_fn_t fn,
                                 const uint64_t *words, int64_t count, int64_t bytes) {
  dt_cuda_ready_t ready;
  DT_TRY(dt__cuda_ready(launch, fn, words, count, bytes, 0, &ready));
  const dt_cuda_kernel_t *kernel = ready.kernel;
  dt_cu_launch_config_t config = {.grid = {ready.blocks, 1, 1},
                                  .block = {kernel->info.threads, 1, 1},
                                  .shared_bytes = ready.shared_bytes,
                                  .stream = launch->stream};
  // A kernel that does not wait would end before the work in front of it, and what follows would
  // take that for ended, too.
  dt_cu_launch_attr_t early = {.id = DT_CU_LAUNCH_PROGRAMMATIC, .value.programmatic = 1};
  if (launch->early && launch->follows && kernel->info.waits) {
    config.attrs = &early;
    config.n_attrs = 1;
  }
  void *params[] = {ready.params};
  DT_CUDA_TRY(launch->gpu->device, launch, &config, kernel->function, params, NULL);
  DT_LOG(DT_LOG_EXEC, 2, "%u blocks of %u threads, %u bytes shared: %lld items%s", ready.blocks,
         kernel->info.threads, ready.shared_bytes, (long long)count,
         config.n_attrs ? ", early" : "");
  launch->launches++;
  launch->follows = kernel->info.waits;
  return NULL;
}

void dt__cuda_launch(dt_frame_t *frame, dt_kernel_fn_t fn, const uint64_t *words, int64_t count,
                     int64_t grain) {
  dt_cuda_launch_frame_t *launch = (dt_cuda_launch_frame_t *)frame;
  if (launch->status || count <= 0)
    return;
  launch->status = dt__control_check(frame->control);
  if (!launch->status)
    launch->status = launch_kernel(launch, fn, words, count, grain);
}
