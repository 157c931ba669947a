// SPDX-License-Identifier: Apache-2.0
// The form of a node: its grid and its dynamic shared memory (launch configuration). Each changed
// form costs the next launch (docs/graphs.md). So a call of new sizes keeps forms that are good
// enough, and later calls of the same sizes set the best ones.
#include "cudagraphs/exec_private.h"

// A multiprocessor's blocks that cost a launch nothing when they are idle, as far as they fit.
#define IDLE_BLOCKS 4u
// A grid may have this part more than is of use.
#define GRID_ROOM 8u
// Idle blocks that cost more than a change of the grid.
#define MANY_IDLE 1200u
// Bytes of dynamic shared memory for a block with less scratch than that: it keeps no block off a
// multiprocessor, and is what every size gets.
#define LITTLE_SHARED 8192u

// Where what a node has will do: whether it is set nevertheless.
static bool set_now(dt_graph_frame_t *frame, bool wanted) {
  if (wanted && frame->forms_left) {
    frame->forms_left--;
    return true;
  }
  frame->deferred = true;
  return false;
}

// ---- Shared memory --------------------------------------------------------------------------------

// Blocks of the kernel that a multiprocessor holds at once, as worked out before where it was.
static uint32_t fit_of(const dt_cuda_device_t *device, const dt_cuda_kernel_t *kernel,
                       const dt_graph_node_t *node, uint32_t shared) {
  if (shared == kernel->info.shared_bytes)
    return kernel->fit;
  if (node && node->kernel == kernel && node->shared_bytes == shared)
    return node->fit;
  return dt__cuda_resident(device, kernel, shared);
}

// More than is needed will do while it keeps no block off a multiprocessor that there is work for.
static uint32_t choose_shared(dt_graph_frame_t *frame, const dt_cuda_kernel_t *kernel,
                              const dt_graph_node_t *node, uint32_t needed, uint32_t useful) {
  const dt_cuda_device_t *device = frame->exec->gpu->device;
  uint32_t own = kernel->info.shared_bytes;
  bool scratch = needed > own || (node && node->shared_bytes > own);
  uint32_t wanted = scratch && needed < LITTLE_SHARED ? LITTLE_SHARED : needed;
  if (!node || node->shared_bytes < needed || node->shared_bytes == wanted)
    return wanted;
  uint32_t fit = fit_of(device, kernel, node, node->shared_bytes);
  if (fit < fit_of(device, kernel, node, wanted) &&
      (uint64_t)fit * (uint32_t)device->processors < useful)
    return wanted;
  return set_now(frame, frame->equal) ? wanted : node->shared_bytes;
}

// ---- Grids ----------------------------------------------------------------------------------------

static uint32_t whole_clusters(uint64_t blocks) {
  uint64_t whole = (blocks + DT_CUDA_CLUSTER - 1) / DT_CUDA_CLUSTER * DT_CUDA_CLUSTER;
  return (uint32_t)(whole <= INT32_MAX ? whole : blocks);
}

// What fits at once, as far as blocks without work cost nothing; for more work as many blocks as
// are of use, and some room: blocks that end make place for others then, and none waits for a slow
// one.
static uint32_t wanted_grid(const dt_cuda_device_t *device, const dt_cuda_kernel_t *kernel,
                            uint32_t fit, uint32_t before, uint32_t useful) {
  uint32_t processors = (uint32_t)device->processors;
  uint64_t most = (uint64_t)kernel->info.most_blocks * processors;
  uint64_t least = (uint64_t)processors * (fit < IDLE_BLOCKS ? fit : IDLE_BLOCKS);
  if (most && least > most)
    least = most;
  uint64_t wanted = useful > least ? useful : least;
  if (before >= wanted && before - wanted <= wanted / GRID_ROOM)
    return before;
  if (useful <= least || !before)
    return whole_clusters(wanted);
  uint64_t room = wanted + wanted / GRID_ROOM / 2;
  room = most && room > most && most >= wanted ? most : room;
  return whole_clusters(room <= INT32_MAX ? room : wanted);
}

// Any grid computes everything, but idle blocks may take longer than a change does.
static uint32_t choose_grid(dt_graph_frame_t *frame, uint32_t wanted, uint32_t before,
                            uint32_t useful) {
  if (!before || before == wanted)
    return wanted;
  uint64_t busy = useful > wanted ? useful : wanted;
  return set_now(frame, frame->equal || before > busy + MANY_IDLE) ? wanted : before;
}

uint32_t dt__graph_form(dt_graph_frame_t *frame, const dt_graph_node_t *node,
                        dt_cuda_ready_t *ready) {
  const dt_cuda_device_t *device = frame->exec->gpu->device;
  const dt_cuda_kernel_t *kernel = ready->kernel;
  uint32_t useful = ready->blocks;
  if (node && node->kernel->function != kernel->function)
    node = NULL; // its form is another function's
  ready->shared_bytes = choose_shared(frame, kernel, node, ready->shared_bytes, useful);
  uint32_t fit = fit_of(device, kernel, node, ready->shared_bytes);
  uint32_t before = node ? node->blocks : 0;
  // Scratch in global memory is for as many blocks as are of use.
  if (ready->params[kernel->info.n_words + DT_CUDA_TAIL_SCRATCH] == 0)
    ready->blocks =
        choose_grid(frame, wanted_grid(device, kernel, fit, before, useful), before, useful);
  return fit;
}
