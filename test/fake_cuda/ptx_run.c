// SPDX-License-Identifier: Apache-2.0
// Runs a block, or the blocks of a cluster: their warps take turns, and within a warp the threads
// at the lowest position go first (they lie deepest in calls and come together again by
// themselves), all those at one position at a time. Where nothing moves any more, threads wait for
// what cannot come.
#include "test/fake_cuda/ptx_run.h"

#include <string.h>

#define TURN 4096                      // instructions of a warp before others have theirs
#define MOST_STEPS ((uint64_t)1 << 31) // of a block's warps: more is taken for no end

static uint32_t runnable(const ptx_warp_t *warp) {
  return warp->alive & ~warp->waiting & ~warp->barred;
}

// The lowest position among `lanes` from `least` on, and who is there.
static uint32_t lowest(const ptx_warp_t *warp, uint32_t lanes, uint32_t least, uint32_t *out_pc) {
  uint32_t pc = UINT32_MAX, at = 0;
  PTX_EACH(lane, lanes) {
    if (warp->pc[lane] < least || warp->pc[lane] > pc)
      continue;
    if (warp->pc[lane] < pc)
      at = 0;
    pc = warp->pc[lane];
    at |= 1u << lane;
  }
  *out_pc = pc;
  return at;
}

// ---- Meetings -----------------------------------------------------------------------------------------

// Lanes that wait at the same meeting as `lane`: the same place, or of one kind that may be spread.
static uint32_t met_with(const ptx_warp_t *warp, uint32_t lane) {
  const ptx_insn_t *code = warp->run->module->code, *in = &code[warp->pc[lane]];
  uint32_t met = 0;
  PTX_EACH(other, warp->waiting) {
    bool same =
        in->anywhere ? code[warp->pc[other]].exec == in->exec : warp->pc[other] == warp->pc[lane];
    if (same && warp->need[other] == warp->need[lane])
      met |= 1u << other;
  }
  return met;
}

static void hold_meeting(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t met) {
  warp->waiting &= ~met;
  PTX_EACH(lane, met) warp->pc[lane]++;
  if (in->members != ptx_members_self && in->exec != ptx_exec_barrier &&
      in->exec != ptx_exec_cluster_arrive && in->exec != ptx_exec_cluster_wait)
    ptx_order_lanes(warp, met);
  in->exec(warp, in, met);
}

// Holds a meeting whose members have all come. False: there is none.
static bool try_meetings(ptx_warp_t *warp) {
  PTX_EACH(lane, warp->waiting) {
    uint32_t met = met_with(warp, lane);
    const ptx_insn_t *in = &warp->run->module->code[warp->pc[lane]];
    uint32_t need = in->members == ptx_members_self ? met : warp->need[lane] & warp->alive;
    if (in->members == ptx_members_alive || in->members == ptx_members_whole)
      need = warp->alive;
    if ((need & ~met) == 0) {
      hold_meeting(warp, in, met);
      return true;
    }
  }
  return false;
}

// The lanes of `mask` come to a meeting; those that a guard keeps away go on.
static void come(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t pc, uint32_t group,
                 uint32_t mask) {
  PTX_EACH(other, group) warp->pc[other] = pc + !(mask >> other & 1);
  PTX_EACH(lane, mask) {
    warp->need[lane] = in->members(warp, in, lane);
    if (warp->run->stopped)
      return;
    if (!(warp->need[lane] >> lane & 1)) {
      ptx_violation(warp, in, lane, "the thread is not in its own mask of members %08x",
                    warp->need[lane]);
      return;
    }
  }
  warp->waiting |= mask;
  if (mask)
    (void)try_meetings(warp);
}

// ---- Warps ----------------------------------------------------------------------------------------------

static uint32_t guarded(const ptx_warp_t *warp, const ptx_insn_t *in, uint32_t group) {
  if (in->guard < 0)
    return group;
  const uint64_t *p = ptx_in(warp, in->guard);
  uint32_t mask = 0;
  for (uint32_t lane = 0; lane < PTX_LANES; lane++)
    mask |= (uint32_t)(p[lane] & 1) << lane;
  return (in->guard_not ? ~mask : mask) & group;
}

// Runs the lanes of `group`, all at one position, until they part, meet, or come to other lanes.
static uint32_t run_group(ptx_warp_t *warp, uint32_t group, uint32_t pc, uint32_t stop,
                          uint32_t left) {
  ptx_run_t *run = warp->run;
  const ptx_insn_t *code = run->module->code;
  uint32_t lanes = (uint32_t)__builtin_popcount(group), done = 0;
  while (!run->stopped) {
    const ptx_insn_t *in = &code[pc];
    uint32_t mask = guarded(warp, in, group);
    done++;
    run->instructions += lanes;
    if (in->flow == PTX_NEXT) {
      if (mask)
        in->exec(warp, in, mask);
      if (++pc < stop && done < left)
        continue;
      break;
    }
    if (in->flow == PTX_MEET) {
      come(warp, in, pc, group, mask);
      return done;
    }
    PTX_EACH(lane, group) warp->pc[lane] = pc + 1;
    if (mask)
      in->exec(warp, in, mask);
    uint32_t first = warp->pc[__builtin_ctz(group)], same = group & warp->alive;
    if (same != group || done >= left)
      return done;
    PTX_EACH(lane, group) if (warp->pc[lane] != first) return done;
    if (first >= stop || stop != UINT32_MAX)
      return done;
    pc = first;
  }
  PTX_EACH(lane, group) warp->pc[lane] = pc;
  return done;
}

// One turn of a warp. False: no lane could move.
static bool run_warp(ptx_warp_t *warp) {
  uint32_t left = TURN, pc = 0;
  bool moved = false;
  while (!warp->run->stopped && left > 0) {
    uint32_t lanes = runnable(warp);
    if (!lanes && !try_meetings(warp))
      break;
    moved = true;
    lanes = runnable(warp);
    if (!lanes) // the meeting was the block's barrier
      continue;
    uint32_t group = lowest(warp, lanes, warp->bias, &pc);
    if (!group)
      group = lowest(warp, lanes, 0, &pc);
    uint32_t stop, others = lanes & ~group;
    (void)lowest(warp, others, pc + 1, &stop);
    uint32_t done = run_group(warp, group, pc, stop, left);
    left -= done < left ? done : left;
  }
  // Whoever spins at a low position must let others come on: the next turn begins above it.
  bool spent = left == 0;
  warp->bias = spent && warp->bias == 0 ? pc + 1 : 0;
  warp->run->steps += TURN - left;
  return moved;
}

// ---- Blocks ---------------------------------------------------------------------------------------------

static void name_deadlock(ptx_run_t *run) {
  for (uint32_t w = 0; w < run->n_warps; w++) {
    ptx_warp_t *warp = &run->warps[w];
    if (warp->waiting) {
      uint32_t lane = (uint32_t)__builtin_ctz(warp->waiting);
      const ptx_insn_t *in = &run->module->code[warp->pc[lane]];
      uint32_t need = in->members == ptx_members_named ? warp->need[lane] : warp->exists;
      ptx_violation(warp, in, lane,
                    "deadlock: the lanes %08x wait for lanes %08x, which do not come",
                    met_with(warp, lane), need & ~met_with(warp, lane));
      return;
    }
  }
  for (uint32_t w = 0; w < run->n_warps; w++) {
    ptx_warp_t *warp = &run->warps[w];
    if (!warp->barred)
      continue;
    uint32_t lane = (uint32_t)__builtin_ctz(warp->barred);
    if (warp->barrier[lane] == PTX_BARRIERS) {
      ptx_violation(warp, &run->module->code[warp->pc[lane] - 1], lane,
                    "deadlock: the cluster's barrier has %u of %u threads, and no more come",
                    run->meeting.arrived, run->alive);
      return;
    }
    const ptx_barrier_t *barrier = &run->barriers[warp->rank][warp->barrier[lane]];
    ptx_violation(warp, &run->module->code[warp->pc[lane] - 1], lane,
                  "deadlock: barrier %u has %u of %u threads, and no more come",
                  warp->barrier[lane], barrier->arrived,
                  barrier->counted ? barrier->expected : run->block_alive[warp->rank]);
    return;
  }
}

void ptx_run_block(ptx_run_t *run) {
  uint64_t begin = run->steps;
  uint32_t first = (uint32_t)(fake_random() % run->n_warps);
  while (run->alive && !run->stopped) {
    bool moved = false;
    for (uint32_t k = 0; k < run->n_warps && !run->stopped; k++)
      moved |= run_warp(&run->warps[(first + k) % run->n_warps]);
    if (!moved && !run->stopped && run->alive)
      name_deadlock(run);
    if (run->steps - begin > MOST_STEPS)
      ptx_violation(&run->warps[0], &run->module->code[run->warps[0].pc[0]], 0,
                    "the block does not end");
  }
}
