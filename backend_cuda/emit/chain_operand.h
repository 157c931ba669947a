// SPDX-License-Identifier: Apache-2.0
// Operands of halves that tensor cores read from shared memory: what products (chain_product.c) and
// scores (chain_scores.c) of a chain have in common, and short names for the arithmetic on places
// that all of their code is made of. For those files alone.
#ifndef DT_BACKEND_CUDA_EMIT_CHAIN_OPERAND_H
#define DT_BACKEND_CUDA_EMIT_CHAIN_OPERAND_H

#include "backend_cuda/emit/chain.h"

#define ITEM DT_CHAIN_ITEM
#define PART DT_CHAIN_PART
#define BLOCK 16 // rows, columns and depth that one read of fragments covers
#define HALF 2   // bytes
#define UNIT 8   // halves of one copy
#define PAD 16   // bytes, after rows in shared memory

// Bytes from one step of `var` to the next in what `load` reads; a size, known to the whole kernel.
LLVMValueRef dt__chain_stride(dt_body_t *k, const dt_inst_t *load, dt_sym_t var);

// ---- Arithmetic -----------------------------------------------------------------------------------
static inline LLVMValueRef i32(dt_emit_t *m, uint32_t value) { return dt__emit_i32(m, value); }

static inline LLVMValueRef add(dt_emit_t *m, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildAdd(m->b, a, b, "");
}

static inline LLVMValueRef times(dt_emit_t *m, LLVMValueRef a, uint32_t by) {
  return LLVMBuildMul(m->b, a, i32(m, by), "");
}

static inline LLVMValueRef low_bits(dt_emit_t *m, LLVMValueRef a, uint32_t mask) {
  return LLVMBuildAnd(m->b, a, i32(m, mask), "");
}

static inline LLVMValueRef down(dt_emit_t *m, LLVMValueRef a, uint32_t by) {
  return LLVMBuildLShr(m->b, a, i32(m, by), "");
}

// Bit number `which`, as 0 or 1.
static inline LLVMValueRef bit(dt_emit_t *m, LLVMValueRef a, uint32_t which) {
  return low_bits(m, down(m, a, which), 1);
}

static inline LLVMValueRef wide(dt_emit_t *m, LLVMValueRef a) {
  return LLVMBuildZExt(m->b, a, m->t_i64, "");
}

static inline LLVMValueRef narrow(dt_emit_t *m, LLVMValueRef a) {
  return LLVMBuildTrunc(m->b, a, m->t_i32, "");
}

static inline LLVMValueRef below(dt_emit_t *m, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildICmp(m->b, LLVMIntSLT, a, b, "");
}

static inline LLVMValueRef lesser(dt_emit_t *m, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildSelect(m->b, below(m, a, b), a, b, "");
}

static inline LLVMValueRef both(dt_emit_t *m, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildAnd(m->b, a, b, "");
}

// The address of byte `byte` (i32) + `plus` from `base` on.
static inline LLVMValueRef shared_at(dt_emit_t *m, LLVMValueRef base, LLVMValueRef byte,
                                     uint32_t plus) {
  LLVMValueRef at = plus ? add(m, byte, i32(m, plus)) : byte;
  return LLVMBuildGEP2(m->b, m->t_i8, base, &at, 1, "");
}

#endif // DT_BACKEND_CUDA_EMIT_CHAIN_OPERAND_H
