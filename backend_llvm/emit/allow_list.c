// SPDX-License-Identifier: Apache-2.0
// The list of what generated IR may contain. A mistake in emission (or memory corruption before it)
// becomes a status here instead of code that jumps to a wrong address.
#include "backend_llvm/emit/host.h"

#include <string.h>

static bool opcode_allowed(LLVMOpcode opcode) {
  static const LLVMOpcode allowed[] = {LLVMRet,
                                       LLVMBr,
                                       LLVMAdd,
                                       LLVMFAdd,
                                       LLVMSub,
                                       LLVMFSub,
                                       LLVMMul,
                                       LLVMFMul,
                                       LLVMUDiv,
                                       LLVMSDiv,
                                       LLVMFDiv,
                                       LLVMURem,
                                       LLVMSRem,
                                       LLVMShl,
                                       LLVMLShr,
                                       LLVMAShr,
                                       LLVMAnd,
                                       LLVMOr,
                                       LLVMXor,
                                       LLVMAlloca,
                                       LLVMLoad,
                                       LLVMStore,
                                       LLVMGetElementPtr,
                                       LLVMTrunc,
                                       LLVMZExt,
                                       LLVMSExt,
                                       LLVMFPToUI,
                                       LLVMFPToSI,
                                       LLVMUIToFP,
                                       LLVMSIToFP,
                                       LLVMFPTrunc,
                                       LLVMFPExt,
                                       LLVMBitCast,
                                       LLVMICmp,
                                       LLVMFCmp,
                                       LLVMPHI,
                                       LLVMCall,
                                       LLVMSelect,
                                       LLVMExtractElement,
                                       LLVMInsertElement,
                                       LLVMShuffleVector,
                                       LLVMExtractValue,
                                       LLVMInsertValue,
                                       LLVMAtomicCmpXchg,
                                       LLVMFNeg,
                                       LLVMUnreachable,
                                       LLVMFreeze};
  for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++)
    if (allowed[i] == opcode)
      return true;
  return false;
}

static bool intrinsic_allowed(const char *name) {
  static const char *const allowed[] = {"llvm.masked.load",
                                        "llvm.masked.store",
                                        "llvm.masked.gather",
                                        "llvm.masked.scatter",
                                        "llvm.fma",
                                        "llvm.fabs",
                                        "llvm.sqrt",
                                        "llvm.floor",
                                        "llvm.ceil",
                                        "llvm.trunc",
                                        "llvm.rint",
                                        "llvm.roundeven",
                                        "llvm.copysign",
                                        "llvm.fptosi.sat",
                                        "llvm.fptoui.sat",
                                        "llvm.vector.reduce.or",
                                        "llvm.vector.reduce.add",
                                        "llvm.vector.reduce.fadd",
                                        "llvm.vector.reduce.fmul",
                                        "llvm.cttz",
                                        "llvm.ctlz",
                                        "llvm.prefetch",
                                        "llvm.smul.with.overflow",
                                        "llvm.sadd.with.overflow",
                                        "llvm.is.fpclass",
                                        "llvm.maximum",
                                        "llvm.minimum",
                                        "llvm.smax",
                                        "llvm.smin",
                                        "llvm.umax",
                                        "llvm.umin",
                                        "llvm.abs",
                                        "llvm.fshl",
                                        "llvm.ldexp",
                                        "llvm.maxnum",
                                        "llvm.minnum",
                                        "llvm.x86.avx512.vpdpbusd",
                                        "llvm.x86.avx512.permvar.sf.512",
                                        "llvm.x86.avx512.vpermi2var.qi",
                                        "llvm.x86.avx512.pmaddw.d",
                                        "llvm.x86.avx2.pmadd.wd",
                                        "llvm.x86.sse2.pmadd.wd"};
  for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++) {
    size_t len = strlen(allowed[i]);
    if (strncmp(name, allowed[i], len) == 0 && (name[len] == '.' || name[len] == '\0'))
      return true;
  }
  return false;
}

// What devices have besides: their own registers, barriers and exchanges, and inline instructions.
static bool device_allowed(LLVMOpcode opcode) {
  return opcode == LLVMAddrSpaceCast || opcode == LLVMPtrToInt || opcode == LLVMIntToPtr;
}

static bool device_intrinsic(const dt_emit_t *m, const char *name) {
  const char *prefix = m->device ? m->device->intrinsics : NULL;
  return prefix && strncmp(name, prefix, strlen(prefix)) == 0;
}

// A CPU has none but the empty one that hides loops' counters.
static bool asm_allowed(const dt_emit_t *m, LLVMValueRef callee) {
  size_t bytes = 0;
  (void)LLVMGetInlineAsmAsmString(callee, &bytes);
  return m->device || bytes == 0;
}

static dt_status_t check_call(const dt_emit_t *m, LLVMValueRef call, bool host) {
  LLVMValueRef callee = LLVMGetCalledValue(call);
  if (LLVMIsAInlineAsm(callee) && asm_allowed(m, callee))
    return NULL;
  if (!LLVMIsAFunction(callee))
    return host ? NULL : DT_FAIL(DT_E_INTERNAL, "emitted code calls through a pointer");
  size_t len;
  const char *name = LLVMGetValueName2(callee, &len);
  bool known = intrinsic_allowed(name) || device_intrinsic(m, name);
  if (!LLVMIsDeclaration(callee) || (LLVMGetIntrinsicID(callee) != 0 && known))
    return NULL;
  return DT_FAIL(DT_E_INTERNAL, "emitted code calls '%s', which is not on the list", name);
}

static dt_status_t check_function(const dt_emit_t *m, LLVMValueRef fn, bool host) {
  for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(fn); block;
       block = LLVMGetNextBasicBlock(block)) {
    for (LLVMValueRef inst = LLVMGetFirstInstruction(block); inst;
         inst = LLVMGetNextInstruction(inst)) {
      LLVMOpcode opcode = LLVMGetInstructionOpcode(inst);
      if (!opcode_allowed(opcode) && !(m->device && device_allowed(opcode)))
        return DT_FAIL(DT_E_INTERNAL, "emitted code has instruction %d, which is not on the list",
                       (int)opcode);
      if (opcode == LLVMCall)
        DT_TRY(check_call(m, inst, host));
    }
  }
  return NULL;
}

dt_status_t dt__emit_check(dt_emit_t *m, bool host) {
  for (LLVMValueRef global = LLVMGetFirstGlobal(m->module); global;
       global = LLVMGetNextGlobal(global))
    if (!m->device || LLVMGetPointerAddressSpace(LLVMTypeOf(global)) != 3)
      return DT_FAIL(DT_E_INTERNAL, "emitted code has a global variable");
  for (LLVMValueRef fn = LLVMGetFirstFunction(m->module); fn; fn = LLVMGetNextFunction(fn))
    DT_TRY(check_function(m, fn, host));
  return NULL;
}
