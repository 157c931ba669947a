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
  warp->run->block_alive[warp->rank] -= (uint32_t)__builtin_popcount(mask);
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

static void release(ptx_run_t *run, uint32_t rank, uint32_t id) {
  ptx_barrier_t *barrier = &run->barriers[rank][id];
  const ptx_insn_t *code = run->module->code;
  uint32_t own = run->n_warps / run->cluster;
  for (uint32_t w = rank * own; w < (rank + 1) * own; w++) {
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

// ---- The cluster's barrier ------------------------------------------------------------------------------

static void know(ptx_warp_t *warp, const uint32_t *times) {
  for (uint32_t k = 0; k < warp->run->n_warps; k++)
    if (times[k] > warp->known[k])
      warp->known[k] = times[k];
}

// Who waits goes on; who has arrived, and comes to the wait later, finds it open.
static void open_meeting(ptx_run_t *run) {
  ptx_meeting_t *meeting = &run->meeting;
  memcpy(meeting->open, meeting->known, sizeof(meeting->open));
  memset(meeting->known, 0, sizeof(meeting->known));
  meeting->arrived = 0;
  meeting->opened++;
  for (uint32_t w = 0; w < run->n_warps; w++) {
    ptx_warp_t *warp = &run->warps[w];
    uint32_t freed = 0;
    PTX_EACH(lane, warp->barred) if (warp->barrier[lane] == PTX_BARRIERS) freed |= 1u << lane;
    warp->barred &= ~freed;
    warp->arrived &= ~freed;
    if (!freed)
      continue;
    know(warp, meeting->open);
    ptx_order_lanes(warp, freed);
  }
}

void ptx_exec_cluster_arrive(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  ptx_meeting_t *meeting = &warp->run->meeting;
  if (warp->arrived & mask) {
    ptx_violation(warp, in, (uint32_t)__builtin_ctz(warp->arrived & mask),
                  "the thread arrives at the cluster's barrier twice without waiting");
    return;
  }
  warp->arrived |= mask;
  PTX_EACH(lane, mask) warp->arrived_at[lane] = meeting->opened;
  meeting->arrived += (uint32_t)__builtin_popcount(mask);
  for (uint32_t k = 0; k < warp->run->n_warps; k++)
    if (warp->known[k] > meeting->known[k])
      meeting->known[k] = warp->known[k];
  if (warp->time > meeting->known[warp->index])
    meeting->known[warp->index] = warp->time;
  warp->time++;
  ptx_try_barriers(warp->run);
}

void ptx_exec_cluster_wait(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  ptx_meeting_t *meeting = &warp->run->meeting;
  if (mask & ~warp->arrived) {
    ptx_violation(warp, in, (uint32_t)__builtin_ctz(mask & ~warp->arrived),
                  "the thread waits for the cluster's barrier, at which it has not arrived");
    return;
  }
  PTX_EACH(lane, mask) {
    if (warp->arrived_at[lane] != meeting->opened) {
      warp->arrived &= ~(1u << lane);
      know(warp, meeting->open);
      continue;
    }
    warp->barrier[lane] = PTX_BARRIERS;
    warp->barred |= 1u << lane;
  }
  ptx_order_lanes(warp, mask);
}

// Barriers without a count wait for the threads that are still there.
void ptx_try_barriers(ptx_run_t *run) {
  for (uint32_t r = 0; r < run->cluster; r++)
    for (uint32_t id = 0; id < PTX_BARRIERS; id++) {
      const ptx_barrier_t *barrier = &run->barriers[r][id];
      uint32_t all = barrier->counted ? barrier->expected : run->block_alive[r];
      if (barrier->used && barrier->arrived >= all)
        release(run, r, id);
    }
  if (run->meeting.arrived && run->meeting.arrived >= run->alive)
    open_meeting(run);
}

static bool join_barrier(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t lane) {
  uint32_t id = (uint32_t)ptx_in(warp, in->in[0])[lane];
  uint32_t count = in->has_count ? (uint32_t)ptx_in(warp, in->in[1])[lane] : 0;
  if (id >= PTX_BARRIERS || (in->has_count && (count == 0 || count % PTX_LANES))) {
    ptx_violation(warp, in, lane, "no barrier %u for %u threads", id, count);
    return false;
  }
  ptx_barrier_t *barrier = &warp->run->barriers[warp->rank][id];
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
