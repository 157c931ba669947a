// SPDX-License-Identifier: Apache-2.0
// What instructions on values do, lane by lane.
#include "test/fake_cuda/ptx_run.h"

#include <math.h>

void ptx_exec_unary(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  uint64_t *out = ptx_out(warp, in->out[0]);
  const uint64_t *a = ptx_in(warp, in->in[0]);
  for (uint32_t lane = 0; lane < PTX_LANES; lane++)
    if (mask >> lane & 1)
      out[lane] = in->scalar(a[lane], 0, 0, 0, in);
}

void ptx_exec_binary(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  uint64_t *out = ptx_out(warp, in->out[0]);
  const uint64_t *a = ptx_in(warp, in->in[0]), *b = ptx_in(warp, in->in[1]);
  for (uint32_t lane = 0; lane < PTX_LANES; lane++)
    if (mask >> lane & 1)
      out[lane] = in->scalar(a[lane], b[lane], 0, 0, in);
}

void ptx_exec_ternary(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  uint64_t *out = ptx_out(warp, in->out[0]);
  const uint64_t *a = ptx_in(warp, in->in[0]), *b = ptx_in(warp, in->in[1]),
                 *c = ptx_in(warp, in->in[2]);
  for (uint32_t lane = 0; lane < PTX_LANES; lane++)
    if (mask >> lane & 1)
      out[lane] = in->scalar(a[lane], b[lane], c[lane], 0, in);
}

void ptx_exec_quaternary(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  uint64_t *out = ptx_out(warp, in->out[0]);
  const uint64_t *a = ptx_in(warp, in->in[0]), *b = ptx_in(warp, in->in[1]),
                 *c = ptx_in(warp, in->in[2]), *d = ptx_in(warp, in->in[3]);
  for (uint32_t lane = 0; lane < PTX_LANES; lane++)
    if (mask >> lane & 1)
      out[lane] = in->scalar(a[lane], b[lane], c[lane], d[lane], in);
}

__extension__ typedef unsigned __int128 uint128_t;

// A difference is a sum with the complement: its carry says that nothing was borrowed. PTX keeps
// the borrow, the opposite.
void ptx_exec_carry(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  uint64_t *out = ptx_out(warp, in->out[0]), *flag = ptx_out(warp, PTX_CARRY);
  uint32_t bits = 8 * ptx_type_bytes(in->type);
  uint64_t ones = UINT64_MAX >> (64 - bits);
  PTX_EACH(lane, mask) {
    uint128_t a = ptx_in(warp, in->in[0])[lane] & ones, b = ptx_in(warp, in->in[1])[lane] & ones;
    if (in->space) {
      uint128_t product = ptx_type_kind(in->type) == PTX_SINT && bits == 32
                              ? (uint64_t)((int64_t)(int32_t)a * (int32_t)b)
                              : a * b;
      a = (in->space == 1 ? product : product >> bits) & ones;
      b = ptx_in(warp, in->in[2])[lane] & ones;
    }
    uint64_t carry = in->mode ? flag[lane] & 1 : 0;
    uint128_t sum = in->action ? a + (~b & ones) + (carry ^ 1) : a + b + carry;
    out[lane] = (uint64_t)sum & ones;
    if (in->width)
      flag[lane] = ((uint64_t)(sum >> bits) & 1) ^ in->action;
  }
}

void ptx_exec_pack(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  uint32_t bits = 8u * in->width;
  PTX_EACH(lane, mask) {
    uint64_t whole = 0;
    for (uint32_t k = 0; k < in->n_in; k++)
      whole |= (ptx_in(warp, in->in[k])[lane] & (UINT64_MAX >> (64 - bits))) << bits * k;
    ptx_out(warp, in->out[0])[lane] = whole;
  }
}

void ptx_exec_unpack(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  uint32_t bits = 8u * in->width;
  PTX_EACH(lane, mask) {
    uint64_t whole = ptx_in(warp, in->in[0])[lane];
    for (uint32_t k = 0; k < in->n_out; k++)
      ptx_out(warp, in->out[k])[lane] = whole >> bits * k & (UINT64_MAX >> (64 - bits));
  }
}

// ---- Comparisons ------------------------------------------------------------------------------------

static bool holds(ptx_compare_t compare, bool below, bool equal) {
  switch (compare) {
  case PTX_EQ:
    return equal;
  case PTX_NE:
    return !equal;
  case PTX_LT:
    return below;
  case PTX_LE:
    return below || equal;
  case PTX_GT:
    return !below && !equal;
  case PTX_GE:
    return !below;
  default:
    return compare == PTX_NUM;
  }
}

static bool compare(uint64_t a, uint64_t b, const ptx_insn_t *in) {
  uint32_t shift = 64 - 8 * ptx_type_bytes(in->from);
  a <<= shift, b <<= shift; // the type's bits on top keep its order
  switch (ptx_type_kind(in->from)) {
  case PTX_SINT:
    return holds(in->compare, (int64_t)a < (int64_t)b, a == b);
  case PTX_FLOAT: {
    a >>= shift, b >>= shift;
    if (in->ftz && in->from == PTX_F32)
      a = ptx_flush(a, PTX_F32), b = ptx_flush(b, PTX_F32);
    double x = ptx_decode_float(a, in->from), y = ptx_decode_float(b, in->from);
    return isnan(x) || isnan(y) ? in->nan : holds(in->compare, x < y, x == y);
  }
  default:
    return holds(in->compare, a < b, a == b);
  }
}

static bool combined(bool first, bool with, ptx_combine_t combine) {
  return combine == PTX_AND   ? first && with
         : combine == PTX_OR  ? first || with
         : combine == PTX_XOR ? first != with
                              : first;
}

static bool with_of(const ptx_warp_t *warp, const ptx_insn_t *in, uint32_t lane) {
  return in->combine && ((ptx_in(warp, in->in[2])[lane] & 1) != 0) != ((in->in_not & 4) != 0);
}

// Pairs of halves: a predicate for the lower ones, then one for the upper.
static void compare_pairs(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  const uint64_t *a = ptx_in(warp, in->in[0]), *b = ptx_in(warp, in->in[1]);
  ptx_insn_t half = *in;
  half.from = in->from == PTX_F16X2 ? PTX_F16 : PTX_BF16;
  PTX_EACH(lane, mask) {
    bool with = with_of(warp, in, lane);
    bool low = compare(a[lane] & 0xffff, b[lane] & 0xffff, &half);
    bool high = compare(a[lane] >> 16 & 0xffff, b[lane] >> 16 & 0xffff, &half);
    ptx_out(warp, in->out[0])[lane] = combined(low, with, in->combine);
    ptx_out(warp, in->out[1])[lane] = combined(high, with, in->combine);
  }
}

void ptx_exec_compare(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  if (in->from == PTX_F16X2 || in->from == PTX_BF16X2) {
    compare_pairs(warp, in, mask);
    return;
  }
  const uint64_t *a = ptx_in(warp, in->in[0]), *b = ptx_in(warp, in->in[1]);
  PTX_EACH(lane, mask) {
    bool is = compare(a[lane], b[lane], in), with = with_of(warp, in, lane);
    ptx_out(warp, in->out[0])[lane] = combined(is, with, in->combine);
    ptx_out(warp, in->out[1])[lane] = combined(!is, with, in->combine);
  }
}

void ptx_exec_set(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  const uint64_t *a = ptx_in(warp, in->in[0]), *b = ptx_in(warp, in->in[1]);
  uint64_t yes =
      ptx_type_kind(in->type) == PTX_FLOAT ? ptx_encode(1, in->type, PTX_RN) : UINT64_MAX;
  PTX_EACH(lane, mask)
  ptx_out(warp, in->out[0])[lane] =
      combined(compare(a[lane], b[lane], in), with_of(warp, in, lane), in->combine) ? yes : 0;
}

void ptx_exec_select(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  const uint64_t *a = ptx_in(warp, in->in[0]), *b = ptx_in(warp, in->in[1]),
                 *p = ptx_in(warp, in->in[2]);
  uint64_t *out = ptx_out(warp, in->out[0]);
  PTX_EACH(lane, mask) out[lane] = p[lane] & 1 ? a[lane] : b[lane];
}

void ptx_exec_slct(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  PTX_EACH(lane, mask) {
    uint64_t c = ptx_in(warp, in->in[2])[lane];
    bool first =
        in->from == PTX_S32 ? (int32_t)c >= 0 : ptx_float(in->ftz ? ptx_flush(c, PTX_F32) : c) >= 0;
    ptx_out(warp, in->out[0])[lane] = ptx_in(warp, in->in[first ? 0 : 1])[lane];
  }
}

void ptx_exec_test(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  PTX_EACH(lane, mask) {
    uint64_t a = ptx_in(warp, in->in[0])[lane];
    double x = ptx_decode_float(a, in->type);
    float single = ptx_float(a);
    int class = in->type == PTX_F32 ? fpclassify(single) : fpclassify(x);
    const bool is[] = {isfinite(x) != 0, isinf(x) != 0,      !isnan(x),
                       isnan(x) != 0,    class == FP_NORMAL, class == FP_SUBNORMAL};
    ptx_out(warp, in->out[0])[lane] = is[in->mode];
  }
}

// ---- Addresses and clocks ---------------------------------------------------------------------------

void ptx_exec_clock(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  uint64_t now = warp->run->steps >> (in->mode ? 32 : 0);
  if (ptx_type_bytes(in->type) == 4)
    now = (uint32_t)now;
  PTX_EACH(lane, mask) ptx_out(warp, in->out[0])[lane] = now;
}

static uint64_t window(ptx_space_t space) {
  bool has = space == PTX_SHARED || space == PTX_LOCAL || space == PTX_PARAM;
  return has ? PTX_WINDOW(space) : 0;
}

void ptx_exec_to_generic(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  PTX_EACH(lane, mask)
  ptx_out(warp, in->out[0])[lane] = ptx_in(warp, in->in[0])[lane] + window(in->space);
}

void ptx_exec_to_space(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  PTX_EACH(lane, mask)
  ptx_out(warp, in->out[0])[lane] = ptx_in(warp, in->in[0])[lane] - window(in->space);
}

void ptx_exec_map_beside(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  uint64_t *out = ptx_out(warp, in->out[0]);
  const uint64_t *place = ptx_in(warp, in->in[0]), *rank = ptx_in(warp, in->in[1]);
  PTX_EACH(lane, mask) {
    if (rank[lane] >= warp->run->cluster) {
      ptx_violation(warp, in, lane, "block %llu of a cluster of %u", (unsigned long long)rank[lane],
                    warp->run->cluster);
      return;
    }
    out[lane] = PTX_BESIDE(rank[lane]) + (place[lane] & (PTX_BESIDE(0) - 1));
  }
}

void ptx_exec_is_space(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t mask) {
  PTX_EACH(lane, mask) {
    uint64_t top = ptx_in(warp, in->in[0])[lane] >> 60 << 60;
    ptx_out(warp, in->out[0])[lane] = top == window(in->space);
  }
}
