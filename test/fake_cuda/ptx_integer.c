// SPDX-License-Identifier: Apache-2.0
// Scalar operations on integers and bits. Values come as 64 bits of which the type's lowest count.
#include "test/fake_cuda/ptx_decode.h"

#define ARGS uint64_t a, uint64_t b, uint64_t c, uint64_t d, const ptx_insn_t *in
#define UNUSED (void)a, (void)b, (void)c, (void)d, (void)in

// An expression over uint64_t whose low bits are right at any width.
#define WRAP(name, expr)                                                                           \
  static uint64_t name##_16(ARGS) { return UNUSED, (uint16_t)(expr); }                             \
  static uint64_t name##_32(ARGS) { return UNUSED, (uint32_t)(expr); }                             \
  static uint64_t name##_64(ARGS) { return UNUSED, (expr); }
// An expression over x, y, z of the type itself.
#define TYPED(name, suffix, type, unsigned_type, expr)                                             \
  static uint64_t name##_##suffix(ARGS) {                                                          \
    UNUSED;                                                                                        \
    type x = (type)a, y = (type)b, z = (type)c;                                                    \
    (void)x, (void)y, (void)z;                                                                     \
    return (unsigned_type)(expr);                                                                  \
  }
#define UNSIGNED(name, expr)                                                                       \
  TYPED(name, u16, uint16_t, uint16_t, expr)                                                       \
  TYPED(name, u32, uint32_t, uint32_t, expr) TYPED(name, u64, uint64_t, uint64_t, expr)
#define SIGNED(name, expr)                                                                         \
  TYPED(name, s16, int16_t, uint16_t, expr)                                                        \
  TYPED(name, s32, int32_t, uint32_t, expr) TYPED(name, s64, int64_t, uint64_t, expr)

WRAP(add, a + b)
WRAP(sub, a - b)
WRAP(mul_lo, a *b)
WRAP(mad_lo, a *b + c)
WRAP(neg, 0 - a)
WRAP(and, a &b)
WRAP(or, a | b)
WRAP(xor, a ^ b)
WRAP(not, ~a)
UNSIGNED(cnot, x == 0)
UNSIGNED(min, x < y ? x : y)
UNSIGNED(max, x > y ? x : y)
SIGNED(min, x < y ? x : y)
SIGNED(max, x > y ? x : y)
SIGNED(abs, x < 0 ? 0 - (uint64_t)(int64_t)x : (uint64_t)x)
// The device gives all ones for a division by zero, and wraps at the least number.
UNSIGNED(div, y == 0 ? UINT64_MAX : (uint64_t)x / y)
UNSIGNED(rem, y == 0 ? x : (uint64_t)x % y)
SIGNED(div, y == 0 ? -1 : y == -1 ? (int64_t)(0 - (uint64_t)(int64_t)x) : x / y)
SIGNED(rem, y == 0 ? (int64_t)x : y == -1 ? 0 : x % y)

__extension__ typedef __int128 int128_t;
__extension__ typedef unsigned __int128 uint128_t;
UNSIGNED(mul_hi, ((uint128_t)x * (uint128_t)y) >> (8 * sizeof(x)))
SIGNED(mul_hi, (uint128_t)((int128_t)x * (int128_t)y) >> (8 * sizeof(x)))
UNSIGNED(mad_hi, (((uint128_t)x * (uint128_t)y) >> (8 * sizeof(x))) + z)
SIGNED(mad_hi, ((uint128_t)((int128_t)x * (int128_t)y) >> (8 * sizeof(x))) + (uint128_t)z)
TYPED(mul_wide, u16, uint16_t, uint32_t, (uint32_t)x *(uint32_t)y)
TYPED(mul_wide, u32, uint32_t, uint64_t, (uint64_t)x *(uint64_t)y)
TYPED(mul_wide, s16, int16_t, uint32_t, (int32_t)x *(int32_t)y)
TYPED(mul_wide, s32, int32_t, uint64_t, (int64_t)x *(int64_t)y)
TYPED(mad_wide, u16, uint16_t, uint32_t, (uint32_t)x *(uint32_t)y + (uint32_t)c)
TYPED(mad_wide, u32, uint32_t, uint64_t, (uint64_t)x *(uint64_t)y + c)
TYPED(mad_wide, s16, int16_t, uint32_t, (uint32_t)((int32_t)x * (int32_t)y) + (uint32_t)c)
TYPED(mad_wide, s32, int32_t, uint64_t, (uint64_t)((int64_t)x * (int64_t)y) + c)

// Shift amounts are 32-bit; those beyond the width clamp.
#define AMOUNT ((uint32_t)b)
UNSIGNED(shl, AMOUNT >= 8 * sizeof(x) ? 0 : (uint64_t)x << AMOUNT)
UNSIGNED(shr, AMOUNT >= 8 * sizeof(x) ? 0 : x >> AMOUNT)
SIGNED(shr, AMOUNT >= 8 * sizeof(x) ? (x < 0 ? -1 : 0) : x >> AMOUNT)

static uint64_t pair_of(uint64_t low, uint64_t high) { return high << 32 | (uint32_t)low; }
static uint64_t shf_l_wrap(ARGS) { return UNUSED, (uint32_t)(pair_of(a, b) << (c & 31) >> 32); }
static uint64_t shf_r_wrap(ARGS) { return UNUSED, (uint32_t)(pair_of(a, b) >> (c & 31)); }
static uint64_t shf_l_clamp(ARGS) {
  UNUSED;
  return (uint32_t)c >= 32 ? (uint32_t)a : shf_l_wrap(a, b, c, d, in);
}
static uint64_t shf_r_clamp(ARGS) {
  UNUSED;
  return (uint32_t)c >= 32 ? (uint32_t)b : shf_r_wrap(a, b, c, d, in);
}

// ---- Bits -----------------------------------------------------------------------------------------

static uint64_t popc_32(ARGS) { return UNUSED, (uint64_t)__builtin_popcount((uint32_t)a); }
static uint64_t popc_64(ARGS) { return UNUSED, (uint64_t)__builtin_popcountll(a); }
static uint64_t clz_32(ARGS) {
  return UNUSED, (uint32_t)a ? (uint64_t)__builtin_clz((uint32_t)a) : 32;
}
static uint64_t clz_64(ARGS) { return UNUSED, a ? (uint64_t)__builtin_clzll(a) : 64; }
static uint64_t brev_64(ARGS) {
  UNUSED;
  uint64_t result = 0;
  for (uint32_t k = 0; k < 64; k++)
    result |= (a >> k & 1) << (63 - k);
  return result;
}
static uint64_t brev_32(ARGS) { return brev_64(a, b, c, d, in) >> 32; }

// The highest bit that differs from the sign; all ones when there is none.
static uint64_t find_bit(uint64_t x) { return x ? 63 - (uint64_t)__builtin_clzll(x) : UINT32_MAX; }
static uint64_t bfind_of_u32(ARGS) { return UNUSED, find_bit((uint32_t)a); }
static uint64_t bfind_of_u64(ARGS) { return UNUSED, find_bit(a); }
static uint64_t bfind_of_s32(ARGS) { return UNUSED, find_bit((uint32_t)((int32_t)a < 0 ? ~a : a)); }
static uint64_t bfind_of_s64(ARGS) { return UNUSED, find_bit((int64_t)a < 0 ? ~a : a); }
static uint64_t bfind_shift_u32(ARGS) {
  return UNUSED, (uint32_t)a ? 31 - find_bit((uint32_t)a) : UINT32_MAX;
}

static uint64_t mask_of(uint64_t bits) {
  return bits >= 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
}

static uint64_t bfe(uint64_t x, uint64_t position, uint64_t n, uint32_t width, bool sign) {
  position &= 255, n &= 255;
  uint64_t top = position + n > width ? width - 1 : position + n - 1;
  if (n == 0)
    return 0;
  bool fill = sign && (x >> top & 1);
  uint64_t field = position >= width ? 0 : x >> position;
  uint64_t kept = position >= width ? 0 : top - position + 1;
  field &= mask_of(kept);
  return (fill ? field | ~mask_of(kept) : field) & mask_of(width);
}
static uint64_t bfe_u32(ARGS) { return UNUSED, bfe((uint32_t)a, b, c, 32, false); }
static uint64_t bfe_u64(ARGS) { return UNUSED, bfe(a, b, c, 64, false); }
static uint64_t bfe_s32(ARGS) { return UNUSED, bfe((uint32_t)a, b, c, 32, true); }
static uint64_t bfe_s64(ARGS) { return UNUSED, bfe(a, b, c, 64, true); }

static uint64_t bfi(uint64_t field, uint64_t base, uint64_t position, uint64_t n, uint32_t width) {
  position &= 255, n &= 255;
  uint64_t mask = position >= width ? 0 : mask_of(n) << position;
  return ((base & ~mask) | (position >= width ? 0 : field << position & mask)) & mask_of(width);
}
static uint64_t bfi_32(ARGS) { return UNUSED, bfi(a, b, c, d, 32); }
static uint64_t bfi_64(ARGS) { return UNUSED, bfi(a, b, c, d, 64); }
static uint64_t bmsk_wrap(ARGS) { return UNUSED, (uint32_t)(mask_of(b & 31) << (a & 31)); }
static uint64_t bmsk_clamp(ARGS) {
  UNUSED;
  uint32_t from = (uint32_t)a, n = (uint32_t)b;
  return from >= 32 ? 0 : (uint32_t)(mask_of(n > 32 ? 32 : n) << from);
}

static uint64_t select_bytes(uint64_t pair, uint32_t selector) {
  uint64_t result = 0;
  for (uint32_t k = 0; k < 4; k++) {
    uint32_t pick = selector >> 4 * k & 15;
    uint64_t byte = pair >> 8 * (pick & 7) & 255;
    if (pick & 8)
      byte = byte & 128 ? 255 : 0;
    result |= byte << 8 * k;
  }
  return result;
}
static uint64_t prmt(ARGS) { return UNUSED, select_bytes(pair_of(a, b), (uint32_t)c); }
// The four selectors of a mode, for the low bits of c.
#define PRMT_MODE(name, s0, s1, s2, s3)                                                            \
  static uint64_t prmt_##name(ARGS) {                                                              \
    static const uint32_t selectors[] = {s0, s1, s2, s3};                                          \
    return UNUSED, select_bytes(pair_of(a, b), selectors[c & 3]);                                  \
  }
PRMT_MODE(f4e, 0x3210, 0x4321, 0x5432, 0x6543)
PRMT_MODE(b4e, 0x5670, 0x6701, 0x7012, 0x0123)
PRMT_MODE(rc8, 0x0000, 0x1111, 0x2222, 0x3333)
PRMT_MODE(ecl, 0x3210, 0x3211, 0x3222, 0x3333)
PRMT_MODE(ecr, 0x0000, 0x1110, 0x2210, 0x3210)
PRMT_MODE(rc16, 0x1010, 0x3232, 0x1010, 0x3232)

static uint64_t lop3(ARGS) {
  UNUSED;
  uint64_t result = 0;
  for (uint32_t k = 0; k < 8; k++)
    if (d >> k & 1)
      result |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
  return (uint32_t)result;
}

static uint64_t and_pred(ARGS) { return UNUSED, a & b & 1; }
static uint64_t or_pred(ARGS) { return UNUSED, (a | b) & 1; }
static uint64_t xor_pred(ARGS) { return UNUSED, (a ^ b) & 1; }
static uint64_t not_pred(ARGS) { return UNUSED, ~a & 1; }
static uint64_t move_8(ARGS) { return UNUSED, (uint8_t)a; }
static uint64_t move_16(ARGS) { return UNUSED, (uint16_t)a; }
static uint64_t move_32(ARGS) { return UNUSED, (uint32_t)a; }
static uint64_t move_64(ARGS) { return UNUSED, a; }

// Dot products of four bytes.
#define BYTE(x, k, signed_)                                                                        \
  (signed_ ? (int64_t)(int8_t)((x) >> 8 * (k)) : (int64_t)((x) >> 8 * (k) & 255))
#define DP4A(name, sa, sb)                                                                         \
  static uint64_t dp4a_##name(ARGS) {                                                              \
    UNUSED;                                                                                        \
    int64_t sum = 0;                                                                               \
    for (uint32_t k = 0; k < 4; k++)                                                               \
      sum += BYTE(a, k, sa) * BYTE(b, k, sb);                                                      \
    return (uint32_t)((uint64_t)sum + c);                                                          \
  }
DP4A(uu, false, false)
DP4A(ss, true, true)

// Two numbers of 16 bits at once.
#define PAIR(name, fn)                                                                             \
  static uint64_t pair_##name(ARGS) {                                                              \
    return fn(a, b, c, d, in) | fn(a >> 16, b >> 16, c >> 16, d, in) << 16;                        \
  }
PAIR(add, add_16)
PAIR(min_u, min_u16)
PAIR(max_u, max_u16)
PAIR(min_s, min_s16)
PAIR(max_s, max_s16)

static uint64_t sad_u32(ARGS) {
  UNUSED;
  uint32_t x = (uint32_t)a, y = (uint32_t)b;
  return (uint32_t)((x > y ? x - y : y - x) + c);
}
static uint64_t add_sat_s32(ARGS) {
  UNUSED;
  int64_t sum = (int64_t)(int32_t)a + (int32_t)b;
  return (uint32_t)(sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum);
}
static uint64_t sub_sat_s32(ARGS) {
  UNUSED;
  int64_t sum = (int64_t)(int32_t)a - (int32_t)b;
  return (uint32_t)(sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum);
}

// ---- Rows -----------------------------------------------------------------------------------------

#define ROW(name, type, n, fn) {name, PTX_##type, n, fn, ""}
#define ROWS_WRAP(name, n, fn)                                                                     \
  ROW(name, U16, n, fn##_16), ROW(name, S16, n, fn##_16), ROW(name, U32, n, fn##_32),              \
      ROW(name, S32, n, fn##_32), ROW(name, U64, n, fn##_64), ROW(name, S64, n, fn##_64)
#define ROWS_TYPED(name, n, fn)                                                                    \
  ROW(name, U16, n, fn##_u16), ROW(name, S16, n, fn##_s16), ROW(name, U32, n, fn##_u32),           \
      ROW(name, S32, n, fn##_s32), ROW(name, U64, n, fn##_u64), ROW(name, S64, n, fn##_s64)
#define ROWS_BITS(name, n, fn)                                                                     \
  ROW(name, B16, n, fn##_16), ROW(name, B32, n, fn##_32), ROW(name, B64, n, fn##_64)
#define ROWS_WIDE(name, n, fn)                                                                     \
  ROW(name, U16, n, fn##_u16), ROW(name, S16, n, fn##_s16), ROW(name, U32, n, fn##_u32),           \
      ROW(name, S32, n, fn##_s32)
#define ROWS_32_64(name, type, n, fn) ROW(name, type##32, n, fn##32), ROW(name, type##64, n, fn##64)

const ptx_scalar_row_t ptx_integer_rows[] = {
    ROWS_WRAP("add", 2, add),
    ROWS_WRAP("sub", 2, sub),
    ROW("add.sat", S32, 2, add_sat_s32),
    ROW("sub.sat", S32, 2, sub_sat_s32),
    ROWS_WRAP("mul.lo", 2, mul_lo),
    ROWS_TYPED("mul.hi", 2, mul_hi),
    ROWS_WIDE("mul.wide", 2, mul_wide),
    ROWS_WRAP("mad.lo", 3, mad_lo),
    ROWS_TYPED("mad.hi", 3, mad_hi),
    ROWS_WIDE("mad.wide", 3, mad_wide),
    ROWS_TYPED("div", 2, div),
    ROWS_TYPED("rem", 2, rem),
    ROWS_TYPED("min", 2, min),
    ROWS_TYPED("max", 2, max),
    ROW("neg", S16, 1, neg_16),
    ROW("neg", S32, 1, neg_32),
    ROW("neg", S64, 1, neg_64),
    ROW("abs", S16, 1, abs_s16),
    ROW("abs", S32, 1, abs_s32),
    ROW("abs", S64, 1, abs_s64),
    ROW("add", U16X2, 2, pair_add),
    ROW("add", S16X2, 2, pair_add),
    ROW("min", U16X2, 2, pair_min_u),
    ROW("max", U16X2, 2, pair_max_u),
    ROW("min", S16X2, 2, pair_min_s),
    ROW("max", S16X2, 2, pair_max_s),
    ROW("sad", U32, 3, sad_u32),
    ROWS_BITS("and", 2, and),
    ROWS_BITS("or", 2, or),
    ROWS_BITS("xor", 2, xor),
    ROWS_BITS("not", 1, not),
    ROW("and", PRED, 2, and_pred),
    ROW("or", PRED, 2, or_pred),
    ROW("xor", PRED, 2, xor_pred),
    ROW("not", PRED, 1, not_pred),
    ROW("cnot", B16, 1, cnot_u16),
    ROW("cnot", B32, 1, cnot_u32),
    ROW("cnot", B64, 1, cnot_u64),
    ROW("shl", B16, 2, shl_u16),
    ROW("shl", B32, 2, shl_u32),
    ROW("shl", B64, 2, shl_u64),
    ROWS_TYPED("shr", 2, shr),
    ROW("shr", B16, 2, shr_u16),
    ROW("shr", B32, 2, shr_u32),
    ROW("shr", B64, 2, shr_u64),
    ROW("shf.l.wrap", B32, 3, shf_l_wrap),
    ROW("shf.r.wrap", B32, 3, shf_r_wrap),
    ROW("shf.l.clamp", B32, 3, shf_l_clamp),
    ROW("shf.r.clamp", B32, 3, shf_r_clamp),
    ROWS_32_64("popc", B, 1, popc_),
    ROWS_32_64("clz", B, 1, clz_),
    ROWS_32_64("brev", B, 1, brev_),
    ROW("bfind", U32, 1, bfind_of_u32),
    ROW("bfind", U64, 1, bfind_of_u64),
    ROW("bfind", S32, 1, bfind_of_s32),
    ROW("bfind", S64, 1, bfind_of_s64),
    ROW("bfind.shiftamt", U32, 1, bfind_shift_u32),
    ROWS_32_64("bfe", U, 3, bfe_u),
    ROWS_32_64("bfe", S, 3, bfe_s),
    ROWS_32_64("bfi", B, 4, bfi_),
    ROW("bmsk.clamp", B32, 2, bmsk_clamp),
    ROW("bmsk.wrap", B32, 2, bmsk_wrap),
    ROW("prmt", B32, 3, prmt),
    ROW("prmt.f4e", B32, 3, prmt_f4e),
    ROW("prmt.b4e", B32, 3, prmt_b4e),
    ROW("prmt.rc8", B32, 3, prmt_rc8),
    ROW("prmt.ecl", B32, 3, prmt_ecl),
    ROW("prmt.ecr", B32, 3, prmt_ecr),
    ROW("prmt.rc16", B32, 3, prmt_rc16),
    ROW("lop3", B32, 4, lop3),
    ROW("dp4a.u32", U32, 3, dp4a_uu),
    ROW("dp4a.s32", S32, 3, dp4a_ss),
    {0},
};
// Plain moves, by the bytes of their type.
const ptx_scalar_t ptx_moves[] = {[1] = move_8, [2] = move_16, [4] = move_32, [8] = move_64};
