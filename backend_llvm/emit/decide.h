// SPDX-License-Identifier: Apache-2.0
// A decision over guard programs (guards/tree.h) as one function,
//   int64_t dt_decide(const dt_guard_args_t *args, int64_t *symbols)
// which returns the first variant whose guards hold and fills its symbols, or returns -1.
#ifndef DT_BACKEND_LLVM_EMIT_DECIDE_H
#define DT_BACKEND_LLVM_EMIT_DECIDE_H

#include "backend_llvm/emit/context.h"
#include "guards/tree.h"

// Compiles the function. *out_object is owned by the caller (dt__free). On a compile thread.
dt_status_t dt__llvm_compile_decider(const dt_tree_t *tree, const dt_target_t *target,
                                     const dt_compile_options_t *options, void **out_object,
                                     size_t *out_bytes) DT_MUST_USE;

// ---- Between decide.c and decide_expr.c -----------------------------------------------------------
// Something loaded: in the trunk, whose blocks come before all others, or in one block.
typedef struct dt_loaded_t {
  LLVMValueRef trunk, local;
  uint32_t block; // of `local`
} dt_loaded_t;

typedef struct dt_decide_t {
  dt_emit_t m;
  const dt_tree_t *tree;
  LLVMTypeRef t_i128;
  LLVMValueRef fn, args, symbols;
  dt_loaded_t *slots, *inputs;
  dt_loaded_t lists[2]; // the arrays of inputs and of captures
  uint32_t block;       // the current one, from 1 on
  bool in_trunk;
  LLVMValueRef fn_mul; // the product of two i128, made on first use
} dt_decide_t;

// The slot's value in the current block.
LLVMValueRef dt__decide_slot(dt_decide_t *d, uint32_t slot);
// i1: the expression of an EXPR term has a value, and it is not 0.
LLVMValueRef dt__decide_expr(dt_decide_t *d, const dt_term_t *term);

#endif // DT_BACKEND_LLVM_EMIT_DECIDE_H
