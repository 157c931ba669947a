// SPDX-License-Identifier: Apache-2.0
// The form of a node: its grid and its dynamic shared memory. A launch pays for each form that was
// changed since the one before it (docs/graphs.md), so that both are of few sizes, and stay as they
// are wherever that costs the kernel less than a change does.
#include "cudagraphs/exec_private.h"

// A multiprocessor's blocks that cost a launch nothing when they are idle, as far as they fit.
#define IDLE_BLOCKS 4u
// Blocks of use, for each that fits at once, from which a grid is as large as the work: blocks that
// end make room for others then, so that none waits for a slow one.
#define MOST_ROUNDS 8u
// Such a grid may have this part more than is of use.
#define GRID_ROOM 8u
// Idle blocks that cost more than a change of the grid.
#define MANY_IDLE 1200u
// The steps of shared memory: the first one, and the part by which the next is larger at least.
#define LITTLE_SHARED 8192u
#define NEXT_STEP 4u
#define SHARED_UNIT 1024u

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

// The least step with room for `needed` that keeps as many blocks on a multiprocessor; where that
// is none, the most that keeps them.
static uint32_t step_for(const dt_cuda_device_t *device, const dt_cuda_kernel_t *kernel,
                         uint32_t needed) {
  uint32_t step = LITTLE_SHARED, fit = dt__cuda_resident(device, kernel, needed);
  if (!needed)
    return 0;
  while (step < needed)
    step = (step + step / NEXT_STEP + SHARED_UNIT - 1) / SHARED_UNIT * SHARED_UNIT;
  while (step > needed && (step + kernel->static_shared > (uint32_t)device->shared_per_block ||
                           dt__cuda_resident(device, kernel, step) < fit))
    step = step - needed > SHARED_UNIT ? step - SHARED_UNIT : needed;
  return step;
}

// More than is needed stays while it keeps no block off a multiprocessor that there is work for.
static uint32_t choose_shared(const dt_cuda_device_t *device, const dt_cuda_kernel_t *kernel,
                              const dt_graph_node_t *node, uint32_t needed, uint32_t useful) {
  uint32_t before = node ? node->shared_bytes : 0;
  if (node && before >= needed) {
    uint32_t fit = fit_of(device, kernel, node, before);
    if (fit >= fit_of(device, kernel, node, needed) ||
        (uint64_t)fit * (uint32_t)device->processors >= useful)
      return before;
  }
  return step_for(device, kernel, needed > kernel->room ? needed : kernel->room);
}

// ---- Grids ----------------------------------------------------------------------------------------

// Three sizes: what fits at once, as far as blocks without work cost nothing; all that fits at
// once; for much work as many blocks as are of use, and some more.
static uint32_t wanted_grid(const dt_cuda_device_t *device, const dt_cuda_kernel_t *kernel,
                            uint32_t fit, uint32_t before, uint32_t useful) {
  uint32_t processors = (uint32_t)device->processors;
  uint64_t most = (uint64_t)kernel->info.most_blocks * processors;
  if (useful > (uint64_t)fit * processors * MOST_ROUNDS) {
    if (before >= useful && before - useful <= useful / GRID_ROOM)
      return before;
    uint64_t room = before ? (uint64_t)useful + useful / GRID_ROOM / 2 : useful;
    room = most && room > most ? most : room;
    return room <= INT32_MAX ? (uint32_t)room : useful;
  }
  uint32_t some = fit < IDLE_BLOCKS ? fit : IDLE_BLOCKS;
  uint64_t grid = (uint64_t)processors * (useful > some * processors ? fit : some);
  return (uint32_t)(most && grid > most ? most : grid);
}

// Any grid computes everything: one that is not what is wanted is left to an equal call to come,
// unless its idle blocks take longer than a change does.
static uint32_t choose_grid(dt_graph_frame_t *frame, uint32_t wanted, uint32_t before,
                            uint32_t useful) {
  if (!before || before == wanted)
    return wanted;
  uint32_t busy = useful > wanted ? useful : wanted;
  bool now = frame->equal || before > (uint64_t)busy + MANY_IDLE;
  if (!now || frame->grids_left == 0) {
    frame->deferred = true;
    return before;
  }
  frame->grids_left--;
  return wanted;
}

uint32_t dt__graph_form(dt_graph_frame_t *frame, const dt_graph_node_t *node,
                        dt_cuda_ready_t *ready) {
  const dt_cuda_device_t *device = frame->exec->gpu->device;
  const dt_cuda_kernel_t *kernel = ready->kernel;
  uint32_t useful = ready->blocks;
  if (node && (!node->kernel || node->kernel->function != kernel->function))
    node = NULL; // its form is another kernel's
  ready->shared_bytes = choose_shared(device, kernel, node, ready->shared_bytes, useful);
  uint32_t fit = fit_of(device, kernel, node, ready->shared_bytes);
  uint32_t before = node ? node->blocks : 0;
  // Scratch in global memory is for as many blocks as are of use.
  if (ready->params[kernel->info.n_words + DT_CUDA_TAIL_SCRATCH] == 0)
    ready->blocks =
        choose_grid(frame, wanted_grid(device, kernel, fit, before, useful), before, useful);
  return fit;
}
