// SPDX-License-Identifier: Apache-2.0
// Branches, calls and ends of threads: each sets where its lanes go on.
#include "test/fake_cuda/ptx_run.h"

#include <string.h>

void ptx_exec_nothing(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  (void)warp, (void)in, (void)mask;
}

void ptx_exec_grid_wait(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  (void)in;
  warp->waited |= mask;
}

void ptx_exec_branch(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  PTX_EACH(lane, mask) warp->pc[lane] = in->target;
}

void ptx_exec_branch_index(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  const ptx_targets_t *targets = &warp->run->module->targets[in->extra];
  PTX_EACH(lane, mask) {
    uint32_t index = (uint32_t)ptx_in(warp, in->in[0])[lane];
    if (index >= targets->n) {
      ptx_violation(warp, in, lane, "target %u of %u", index, targets->n);
      return;
    }
    warp->pc[lane] = targets->at[index];
  }
}

static void copy_slots(ptx_warp_t *warp, const ptx_copy_t *copies, uint32_t n, uint32_t mask) {
  for (uint32_t k = 0; k < n; k++) {
    uint64_t *to = ptx_out(warp, copies[k].to);
    const uint64_t *from = ptx_in(warp, copies[k].from);
    PTX_EACH(lane, mask) to[lane] = from[lane];
  }
}

// There is no recursion, so that each function has one place for where to go back to.
void ptx_exec_call(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  const ptx_module_t *m = warp->run->module;
  const ptx_call_t *call = &m->calls[in->extra];
  copy_slots(warp, call->in, call->n_in, mask);
  uint64_t *back = ptx_out(warp, m->functions[call->function].return_slot);
  PTX_EACH(lane, mask) {
    back[lane] = warp->pc[lane]; // already that of the next instruction
    warp->pc[lane] = in->target;
  }
}

void ptx_exec_results(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  const ptx_call_t *call = &warp->run->module->calls[in->extra];
  copy_slots(warp, call->out, call->n_out, mask);
}

void ptx_exec_return(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  const uint64_t *back = ptx_in(warp, (int32_t)in->extra);
  PTX_EACH(lane, mask) warp->pc[lane] = (uint32_t)back[lane];
}

void ptx_exec_exit(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  uint32_t hasty = warp->run->launch->programmatic ? mask & ~warp->waited : 0;
  if (hasty) {
    ptx_violation(warp, in, (uint32_t)__builtin_ctz(hasty),
                  "the thread of a launch that came early ends without griddepcontrol.wait");
    warp->run->hasty = true;
  }
  warp->alive &= ~mask;
  warp->run->alive -= (uint32_t)__builtin_popcount(mask);
  ptx_try_barriers(warp->run);
}

void ptx_exec_trap(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  ptx_violation(warp, in, (uint32_t)__builtin_ctz(mask), "the thread traps");
}

// ---- Who must meet ------------------------------------------------------------------------------------

uint32_t ptx_members_named(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t lane) {
  return (uint32_t)ptx_in(warp, in->in[0])[lane];
}

uint32_t ptx_members_alive(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t lane) {
  (void)in, (void)lane;
  return warp->exists;
}

uint32_t ptx_members_whole(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t lane) {
  if (warp->alive != PTX_ALL)
    ptx_violation(warp, in, lane, "the instruction needs all 32 lanes; those there are %08x",
                  warp->alive);
  return PTX_ALL;
}

uint32_t ptx_members_self(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t lane) {
  (void)warp, (void)in, (void)lane;
  return PTX_ALL;
}

// ---- Barriers of a block --------------------------------------------------------------------------------

static void release(ptx_run_t *run, uint32_t id) {
  ptx_barrier_t *barrier = &run->barriers[id];
  const ptx_insn_t *code = run->module->code;
  for (uint32_t w = 0; w < run->n_warps; w++) {
    ptx_warp_t *warp = &run->warps[w];
    uint32_t freed = 0;
    PTX_EACH(lane, warp->barred) {
      if (warp->barrier[lane] != id)
        continue;
      freed |= 1u << lane;
      const ptx_insn_t *in = &code[warp->pc[lane] - 1];
      uint32_t yes = barrier->true_count;
      uint64_t value = in->action == 1 ? yes : in->action == 2 ? yes == barrier->arrived : yes > 0;
      if (in->action)
        ptx_out(warp, in->out[0])[lane] = value;
    }
    warp->barred &= ~freed;
    for (uint32_t k = 0; freed && k < run->n_warps; k++)
      if (barrier->known[k] > warp->known[k])
        warp->known[k] = barrier->known[k];
    if (freed)
      ptx_order_lanes(warp, freed);
  }
  *barrier = (ptx_barrier_t){0};
}

// Barriers without a count wait for the threads that are still there.
void ptx_try_barriers(ptx_run_t *run) {
  for (uint32_t id = 0; id < PTX_BARRIERS; id++) {
    const ptx_barrier_t *barrier = &run->barriers[id];
    if (barrier->used && barrier->arrived >= (barrier->counted ? barrier->expected : run->alive))
      release(run, id);
  }
}

static bool join_barrier(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t lane) {
  uint32_t id = (uint32_t)ptx_in(warp, in->in[0])[lane];
  uint32_t count = in->has_count ? (uint32_t)ptx_in(warp, in->in[1])[lane] : 0;
  if (id >= PTX_BARRIERS || (in->has_count && (count == 0 || count % PTX_LANES))) {
    ptx_violation(warp, in, lane, "no barrier %u for %u threads", id, count);
    return false;
  }
  ptx_barrier_t *barrier = &warp->run->barriers[id];
  if (barrier->used && (barrier->counted != in->has_count || barrier->expected != count)) {
    ptx_violation(warp, in, lane, "barrier %u is for %u threads here and for %u at line %u", id,
                  count, barrier->expected, barrier->line);
    return false;
  }
  barrier->used = true;
  barrier->counted = in->has_count;
  barrier->expected = count;
  barrier->line = in->line;
  barrier->arrived++;
  if (in->action)
    barrier->true_count += ((ptx_in(warp, in->in[2])[lane] & 1) != 0) != ((in->in_not & 4) != 0);
  for (uint32_t k = 0; k < warp->run->n_warps; k++)
    if (warp->known[k] > barrier->known[k])
      barrier->known[k] = warp->known[k];
  if (warp->time > barrier->known[warp->index])
    barrier->known[warp->index] = warp->time;
  warp->barrier[lane] = (uint8_t)id;
  if (in->mode == 0)
    warp->barred |= 1u << lane;
  return true;
}

void ptx_exec_barrier(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  PTX_EACH(lane, mask) if (!join_barrier(warp, in, lane)) return;
  warp->time++; // what comes next is not before the barrier
  ptx_try_barriers(warp->run);
}
