// SPDX-License-Identifier: Apache-2.0
// See ptx.h.
#include "backend_cuda/emit/ptx.h"

#include <string.h>

#define GLOBAL_SPACE 1

static LLVMValueRef call(dt_emit_t *m, const char *name, LLVMValueRef *args, uint32_t n) {
  return dt__emit_intrinsic(m, name, NULL, 0, args, n);
}

static LLVMValueRef inline_text(dt_emit_t *m, LLVMTypeRef result, const char *text,
                                const char *constraints) {
  LLVMTypeRef type = LLVMFunctionType(result, NULL, 0, 0);
  LLVMValueRef code = LLVMGetInlineAsm(type, text, strlen(text), constraints, strlen(constraints),
                                       true, false, LLVMInlineAsmDialectATT, false);
  return LLVMBuildCall2(m->b, type, code, NULL, 0, "");
}

LLVMValueRef dt__ptx_thread(dt_emit_t *m) {
  return inline_text(m, m->t_i32, "mov.u32 $0, %tid.x;", "=r");
}

LLVMValueRef dt__ptx_anew(dt_emit_t *m, LLVMValueRef value) {
  static const char text[] = "mov.b64 $0, $1;", constraints[] = "=l,l";
  LLVMTypeRef type = LLVMFunctionType(m->t_i64, &m->t_i64, 1, 0);
  LLVMValueRef code = LLVMGetInlineAsm(type, text, strlen(text), constraints, strlen(constraints),
                                       true, false, LLVMInlineAsmDialectATT, false);
  return LLVMBuildCall2(m->b, type, code, &value, 1, "");
}

void dt__ptx_no_unroll(dt_emit_t *m) {
  (void)inline_text(m, m->t_void, ".pragma \"nounroll\";", "");
}

void dt__ptx_copy(dt_emit_t *m, LLVMValueRef to, LLVMValueRef from, LLVMValueRef bytes) {
  LLVMTypeRef global = LLVMPointerTypeInContext(m->context, GLOBAL_SPACE);
  LLVMValueRef args[3] = {to, LLVMBuildAddrSpaceCast(m->b, from, global, ""), bytes};
  (void)call(m, "llvm.nvvm.cp.async.cg.shared.global.16.s", args, 3);
}

void dt__ptx_copies_commit(dt_emit_t *m) {
  LLVMValueRef none[1] = {dt__emit_i32(m, 0)};
  (void)call(m, "llvm.nvvm.cp.async.commit.group", none, 0);
}

void dt__ptx_copies_wait(dt_emit_t *m, uint32_t pending) {
  LLVMValueRef args[1] = {dt__emit_i32(m, pending)};
  (void)call(m, "llvm.nvvm.cp.async.wait.group", args, 1);
}

void dt__ptx_matrices(dt_emit_t *m, LLVMValueRef from, bool transposed, LLVMValueRef out[4]) {
  LLVMTypeRef type = LLVMTypeOf(from);
  const char *name = transposed ? "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16"
                                : "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16";
  LLVMValueRef all = dt__emit_intrinsic(m, name, &type, 1, &from, 1);
  for (uint32_t i = 0; i < 4; i++)
    out[i] = LLVMBuildExtractValue(m->b, all, i, "");
}

void dt__ptx_multiply(dt_emit_t *m, dt_dtype_t dtype, const LLVMValueRef a[4],
                      const LLVMValueRef b[2], LLVMValueRef c[4]) {
  const char *name = dtype == DT_F16 ? "llvm.nvvm.mma.m16n8k16.row.col.f32.f32"
                                     : "llvm.nvvm.mma.m16n8k16.row.col.bf16";
  LLVMTypeRef pair = LLVMVectorType(LLVMHalfTypeInContext(m->context), 2);
  LLVMValueRef args[10];
  for (uint32_t i = 0; i < 6; i++) {
    LLVMValueRef word = i < 4 ? a[i] : b[i - 4];
    args[i] = dtype == DT_F16 ? LLVMBuildBitCast(m->b, word, pair, "") : word;
  }
  for (uint32_t i = 0; i < 4; i++)
    args[6 + i] = c[i];
  LLVMValueRef all = call(m, name, args, 10);
  for (uint32_t i = 0; i < 4; i++)
    c[i] = LLVMBuildExtractValue(m->b, all, i, "");
}
