// SPDX-License-Identifier: Apache-2.0
// Code for the scalar op philox, over scalars and vectors: ten rounds without a loop.
//
// Devices have 32-bit words and a product of two of them in 64 bits. Vectors of CPUs multiply the
// lower halves of 64-bit lanes. So words of CPUs stay in such lanes, with anything above them until
// the end.
#include "lower/graph/philox.h"
#include "backend_llvm/emit/context.h"
#include "runtime/base/dtype.h"

typedef struct philox_t {
  dt_emit_t *m;
  LLVMTypeRef wide, word; // i64, and i32 for devices; of the operands' lanes
} philox_t;

// The lower half of a 64-bit value, as a word, and the upper one.
static LLVMValueRef low_word(const philox_t *p, LLVMValueRef wide) {
  return p->word == p->wide ? wide : LLVMBuildTrunc(p->m->b, wide, p->word, "");
}
static LLVMValueRef high_word(const philox_t *p, LLVMValueRef wide) {
  return low_word(p, LLVMBuildLShr(p->m->b, wide, dt__emit_int(p->wide, 32), ""));
}

// The word's value, with nothing above it.
static LLVMValueRef value_of(const philox_t *p, LLVMValueRef word) {
  if (p->word == p->wide)
    return LLVMBuildAnd(p->m->b, word, dt__emit_int(p->wide, UINT32_MAX), "");
  return LLVMBuildZExt(p->m->b, word, p->wide, "");
}

// The product of a word and a constant: its halves. Devices multiply twice.
typedef struct product_t {
  LLVMValueRef low, high;
} product_t;
static product_t product(const philox_t *p, LLVMValueRef word, uint32_t by) {
  LLVMValueRef wide = LLVMBuildMul(p->m->b, value_of(p, word), dt__emit_int(p->wide, by), "");
  product_t halves = {wide, high_word(p, wide)};
  if (p->word != p->wide)
    halves.low = LLVMBuildMul(p->m->b, word, dt__emit_int(p->word, by), "");
  return halves;
}

static LLVMValueRef mixed(const philox_t *p, LLVMValueRef high, LLVMValueRef word,
                          LLVMValueRef key) {
  return LLVMBuildXor(p->m->b, LLVMBuildXor(p->m->b, high, key, ""), word, "");
}

static LLVMValueRef grown(const philox_t *p, LLVMValueRef key, uint32_t by) {
  return LLVMBuildAdd(p->m->b, key, dt__emit_int(p->word, by), "");
}

static LLVMValueRef extended(const philox_t *p, dt_dtype_t dtype, LLVMValueRef x) {
  if (dt_dtype_size(dtype) == 8)
    return x;
  return dt__dtype_is_signed(dtype) ? LLVMBuildSExt(p->m->b, x, p->wide, "")
                                    : LLVMBuildZExt(p->m->b, x, p->wide, "");
}

LLVMValueRef dt__emit_philox(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef *args) {
  philox_t p = {.m = m, .wide = dt__emit_like(args[0], m->t_i64)};
  p.word = m->device ? dt__emit_like(args[0], m->t_i32) : p.wide;
  LLVMValueRef seed = extended(&p, dtype, args[0]), offset = extended(&p, dtype, args[1]);
  LLVMValueRef index = extended(&p, dtype, args[2]);
  LLVMValueRef key[2] = {low_word(&p, seed), high_word(&p, seed)};
  LLVMValueRef c[4] = {low_word(&p, index), high_word(&p, index), low_word(&p, offset),
                       high_word(&p, offset)};
  for (uint32_t round = 0; round < DT_PHILOX_ROUNDS; round++) {
    product_t a = product(&p, c[0], DT_PHILOX_M0), b = product(&p, c[2], DT_PHILOX_M1);
    c[0] = mixed(&p, b.high, c[1], key[0]);
    c[1] = b.low;
    c[2] = mixed(&p, a.high, c[3], key[1]);
    c[3] = a.low;
    key[0] = grown(&p, key[0], DT_PHILOX_W0);
    key[1] = grown(&p, key[1], DT_PHILOX_W1);
  }
  LLVMValueRef upper = LLVMBuildShl(m->b, value_of(&p, c[1]), dt__emit_int(p.wide, 32), "");
  LLVMValueRef bits = LLVMBuildOr(m->b, upper, value_of(&p, c[0]), "");
  if (dt_dtype_size(dtype) == 8)
    return bits;
  return LLVMBuildTrunc(m->b, bits, LLVMTypeOf(args[0]), "");
}
