// SPDX-License-Identifier: Apache-2.0
// See chain_operand.h.
#include "backend_cuda/emit/chain_operand.h"
#include "backend_llvm/emit/index.h"

LLVMValueRef dt__chain_stride(dt_body_t *k, const dt_inst_t *load, dt_sym_t var) {
  dt_sym_t offset = dt__access_offset(k, load->buffer, load->index), coef, rest;
  if (!dt__sym_linear(k->m->env, offset, var, &coef, &rest)) {
    dt__emit_fail(k->m, DT_FAIL(DT_E_INTERNAL, "chain: an operand is not linear"));
    return dt__emit_i64(k->m, 0);
  }
  LLVMValueRef stride = dt__index_scalar(k, coef);
  dt__body_at(k, 0);
  return LLVMBuildMul(k->m->b, stride, dt__emit_i64(k->m, HALF), "");
}
