// SPDX-License-Identifier: Apache-2.0
// Loads of lanes that are not neighbours, by a few loads of neighbours instead of a gather.
#ifndef DT_BACKEND_LLVM_EMIT_GATHER_RUNS_H
#define DT_BACKEND_LLVM_EMIT_GATHER_RUNS_H

#include "backend_llvm/emit/index.h"

// Whether a load with an address a lane (DT_ACCESS_EACH) is better put together of neighbours, and
// that load, of copy `c`; lanes off in `mask` (NULL: none) are `other` (NULL: 0). The scope of
// `level` may go on in another block.
bool dt__gather_runs_apply(dt_body_t *k, const dt_inst_t *load, dt_sym_t offset, uint32_t level);
LLVMValueRef dt__gather_runs_load(dt_body_t *k, const dt_inst_t *load, dt_sym_t offset,
                                  uint32_t level, const dt_address_t *address, uint32_t c,
                                  LLVMValueRef mask, LLVMValueRef other);

#endif // DT_BACKEND_LLVM_EMIT_GATHER_RUNS_H
