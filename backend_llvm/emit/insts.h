// SPDX-License-Identifier: Apache-2.0
// The instructions of a stage as code, and its stores.
#ifndef DT_BACKEND_LLVM_EMIT_INSTS_H
#define DT_BACKEND_LLVM_EMIT_INSTS_H

#include "backend_llvm/emit/body.h"

// Levels and lane dependence of every instruction of the stage, and bindings of its loop symbols.
dt_status_t dt__stage_enter(dt_body_t *k, uint32_t stage_index) DT_MUST_USE;
dt_lanes_t dt__inst_value(dt_body_t *k, uint32_t inst);
// Says what the instruction is worth where the stage's innermost code goes, instead of making it.
void dt__inst_preset(dt_body_t *k, uint32_t inst, LLVMValueRef value);
// Its vector in copy `c`, or scalar when the lane axis is none.
LLVMValueRef dt__inst_lane(dt_body_t *k, uint32_t inst, uint32_t c, bool vector);
// Emits the BIND instructions of `level`; they make blocks, so the scope must still be open.
void dt__stage_binds(dt_body_t *k, uint32_t level);
void dt__stage_stores(dt_body_t *k); // stores.c
// Lanes in reverse order; NULL gives NULL. The value of the first lane where `mask` is true.
LLVMValueRef dt__lanes_reverse(dt_body_t *k, LLVMValueRef value);
LLVMValueRef dt__lanes_first(dt_body_t *k, LLVMValueRef mask, LLVMValueRef vector);

#endif // DT_BACKEND_LLVM_EMIT_INSTS_H
