// SPDX-License-Identifier: Apache-2.0
// Binary search as internal functions of a unit, one for each dtype, width and kind. All lanes of a
// vector search together until the last one has found its place. Every access lies in [0, count),
// whatever order the elements are in.
#include "backend_llvm/emit/context.h"

#include <stdio.h>

enum { ARG_BASE, ARG_COUNT, ARG_STRIDE, ARG_WANTED, ARG_DEAD, N_ARGS };

// The elements at positions `middle`, read where `open`.
static LLVMValueRef probe(dt_emit_t *m, LLVMValueRef fn, dt_dtype_t dtype, LLVMValueRef middle,
                          LLVMValueRef open) {
  uint32_t lanes = dt__emit_lanes(LLVMTypeOf(middle));
  LLVMValueRef stride = LLVMGetParam(fn, ARG_STRIDE);
  if (lanes)
    stride = dt__emit_splat(m, stride, lanes);
  LLVMValueRef at = dt__emit_element(m, dt__emit_memory_type(m, dtype), LLVMGetParam(fn, ARG_BASE),
                                     LLVMBuildMul(m->b, middle, stride, ""));
  if (!lanes)
    return dt__emit_load(m, dtype, 0, at, NULL, NULL);
  return dt__emit_gather(m, dtype, at, open, NULL, LLVMGetParam(fn, ARG_DEAD));
}

static void search_body(dt_emit_t *m, LLVMValueRef fn, dt_dtype_t dtype, bool inclusive) {
  LLVMValueRef wanted = LLVMGetParam(fn, ARG_WANTED), count = LLVMGetParam(fn, ARG_COUNT);
  uint32_t lanes = dt__emit_lanes(LLVMTypeOf(wanted));
  LLVMTypeRef type = dt__emit_widen(m->t_i64, lanes);
  LLVMBasicBlockRef entry = dt__emit_block(m, fn, "entry"), head = dt__emit_block(m, fn, "head");
  LLVMBasicBlockRef body = dt__emit_block(m, fn, "body"), done = dt__emit_block(m, fn, "done");
  LLVMPositionBuilderAtEnd(m->b, entry);
  LLVMValueRef zero = LLVMConstNull(type), all = lanes ? dt__emit_splat(m, count, lanes) : count;
  LLVMBuildBr(m->b, head);
  LLVMPositionBuilderAtEnd(m->b, head);
  LLVMValueRef low = LLVMBuildPhi(m->b, type, ""), high = LLVMBuildPhi(m->b, type, "");
  LLVMValueRef open = LLVMBuildICmp(m->b, LLVMIntSLT, low, high, "");
  LLVMValueRef any = lanes ? dt__emit_intrinsic1(m, "llvm.vector.reduce.or", open) : open;
  LLVMBuildCondBr(m->b, any, body, done);
  LLVMPositionBuilderAtEnd(m->b, body);
  LLVMValueRef middle =
      LLVMBuildLShr(m->b, LLVMBuildAdd(m->b, low, high, ""), dt__emit_int(type, 1), "");
  LLVMValueRef args[2] = {probe(m, fn, dtype, middle, open), wanted};
  LLVMValueRef less = dt__emit_scalar_op(m, inclusive ? DT_SCALAR_le : DT_SCALAR_lt, dtype, args);
  LLVMValueRef up = LLVMBuildAnd(m->b, open, less, "");
  LLVMValueRef down = LLVMBuildAnd(m->b, open, LLVMBuildNot(m->b, less, ""), "");
  LLVMValueRef after = LLVMBuildAdd(m->b, middle, dt__emit_int(type, 1), "");
  LLVMValueRef next_low = LLVMBuildSelect(m->b, up, after, low, "");
  LLVMValueRef next_high = LLVMBuildSelect(m->b, down, middle, high, "");
  LLVMBuildBr(m->b, head);
  LLVMBasicBlockRef from[2] = {entry, body};
  LLVMAddIncoming(low, (LLVMValueRef[]){zero, next_low}, from, 2);
  LLVMAddIncoming(high, (LLVMValueRef[]){all, next_high}, from, 2);
  LLVMPositionBuilderAtEnd(m->b, done);
  LLVMBuildRet(m->b, low);
}

LLVMValueRef dt__emit_search(dt_emit_t *m, const dt_search_t *search, LLVMValueRef wanted) {
  char name[64];
  uint32_t lanes = dt__emit_lanes(LLVMTypeOf(wanted));
  snprintf(name, sizeof(name), "dt_search_%s_%u_%s", dt_dtype_name(search->dtype), lanes,
           search->inclusive ? "le" : "lt");
  LLVMTypeRef params[N_ARGS] = {m->t_ptr, m->t_i64, m->t_i64, LLVMTypeOf(wanted), m->t_ptr};
  LLVMTypeRef type = LLVMFunctionType(dt__emit_widen(m->t_i64, lanes), params, N_ARGS, 0);
  LLVMValueRef fn = LLVMGetNamedFunction(m->module, name);
  if (!fn) {
    LLVMBasicBlockRef at = LLVMGetInsertBlock(m->b);
    fn = dt__emit_function(m, name, type, false);
    search_body(m, fn, search->dtype, search->inclusive);
    dt__emit_resume(m, at);
  }
  LLVMValueRef args[N_ARGS] = {search->base, search->count, search->stride, wanted, search->dead};
  return LLVMBuildCall2(m->b, type, fn, args, N_ARGS, "");
}
