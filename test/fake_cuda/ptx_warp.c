// SPDX-License-Identifier: Apache-2.0
// What the lanes of a warp do together: exchanges, votes, reductions.
#include "test/fake_cuda/ptx_run.h"

#include <string.h>

void ptx_exec_warp_sync(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  (void)warp, (void)in, (void)mask; // the order of what came before is all that it gives
}

void ptx_exec_active_mask(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  PTX_EACH(lane, mask) ptx_out(warp, in->out[0])[lane] = mask;
}

// The lane that is read, and whether it is in range of the segment; c holds the segment's mask in
// its upper half and the bound in its lower one.
static uint32_t source_lane(uint32_t mode, uint32_t lane, uint32_t b, uint32_t c, bool *out_valid) {
  uint32_t segment = c >> 8 & 31, bound = c & 31;
  uint32_t most = (lane & segment) | (bound & ~segment), least = lane & segment;
  int64_t from = 0;
  b &= 31;
  switch (mode) {
  case 0:
    from = (int64_t)lane - b;
    *out_valid = from >= (int64_t)most;
    break;
  case 1:
    from = (int64_t)lane + b;
    *out_valid = from <= (int64_t)most;
    break;
  case 2:
    from = lane ^ b;
    *out_valid = from <= (int64_t)most;
    break;
  default:
    from = least | (b & ~segment);
    *out_valid = from <= (int64_t)most;
    break;
  }
  return *out_valid ? (uint32_t)from : lane;
}

void ptx_exec_shuffle(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  uint32_t values[PTX_LANES];
  for (uint32_t lane = 0; lane < PTX_LANES; lane++)
    values[lane] = (uint32_t)ptx_in(warp, in->in[1])[lane];
  uint32_t results[PTX_LANES] = {0}, valids = 0;
  PTX_EACH(lane, mask) {
    bool valid;
    uint32_t b = (uint32_t)ptx_in(warp, in->in[2])[lane],
             c = (uint32_t)ptx_in(warp, in->in[3])[lane];
    uint32_t from = source_lane(in->mode, lane, b, c, &valid);
    if (!(mask >> from & 1)) {
      ptx_violation(warp, in, lane, "reads lane %u, which is not there: the lanes are %08x", from,
                    mask);
      return;
    }
    results[lane] = values[from];
    valids |= (uint32_t)valid << lane;
  }
  PTX_EACH(lane, mask) {
    ptx_out(warp, in->out[0])[lane] = results[lane];
    ptx_out(warp, in->out[1])[lane] = valids >> lane & 1;
  }
}

void ptx_exec_vote(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  uint32_t yes = 0;
  PTX_EACH(lane, mask) yes |= (uint32_t)(ptx_in(warp, in->in[1])[lane] & 1) << lane;
  if (in->in_not)
    yes = ~yes & mask;
  uint64_t result = in->mode == 0   ? yes == mask
                    : in->mode == 1 ? yes != 0
                    : in->mode == 2 ? yes == 0 || yes == mask
                                    : yes;
  PTX_EACH(lane, mask) ptx_out(warp, in->out[0])[lane] = result;
}

static uint32_t combine(const ptx_insn_t *in, uint32_t x, uint32_t y) {
  bool below = in->type == PTX_S32 ? (int32_t)x < (int32_t)y : x < y;
  switch (in->action) {
  case PTX_ADD:
    return x + y;
  case PTX_MIN:
    return below ? x : y;
  case PTX_MAX:
    return below ? y : x;
  case PTX_BIT_AND:
    return x & y;
  case PTX_BIT_OR:
    return x | y;
  default:
    return x ^ y;
  }
}

void ptx_exec_reduce(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  uint32_t result = 0;
  bool first = true;
  PTX_EACH(lane, mask) {
    uint32_t x = (uint32_t)ptx_in(warp, in->in[1])[lane];
    result = first ? x : combine(in, result, x);
    first = false;
  }
  PTX_EACH(lane, mask) ptx_out(warp, in->out[0])[lane] = result;
}

void ptx_exec_match(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  uint64_t values[PTX_LANES];
  memcpy(values, ptx_in(warp, in->in[1]), sizeof(values));
  uint32_t results[PTX_LANES] = {0};
  PTX_EACH(lane, mask)
  for (uint32_t other = 0; other < PTX_LANES; other++) {
    bool same = in->type == PTX_B32 ? (uint32_t)values[lane] == (uint32_t)values[other]
                                    : values[lane] == values[other];
    if (mask >> other & 1 && same)
      results[lane] |= 1u << other;
  }
  PTX_EACH(lane, mask) {
    bool all = results[lane] == mask;
    ptx_out(warp, in->out[0])[lane] = in->mode == 0 || all ? results[lane] : 0;
    ptx_out(warp, in->out[1])[lane] = all;
  }
}

void ptx_exec_elect(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  uint32_t leader = (uint32_t)__builtin_ctz(mask);
  PTX_EACH(lane, mask) {
    ptx_out(warp, in->out[0])[lane] = leader;
    ptx_out(warp, in->out[1])[lane] = lane == leader;
  }
}
