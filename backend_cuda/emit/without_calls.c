// SPDX-License-Identifier: Apache-2.0
// Kernels whose groups of warps multiply together must not call anything: where the assembler sees
// a call of code that it does not know it waits for each product at once. The driver's linker takes
// PTX as code to be linked, and there long division of integers, quotients of floats and square
// roots are calls of its own functions. So these kernels divide by instructions, here, after LLVM's
// passes, which know more of divisions than of what they are made of. All results have the bits
// that the calls give:
//
//   integers   where both fit 32 bits, by these. Else r, a little less than 1 / b by two of
//              Newton's steps: q = trunc(a r) is never too large, and too small by (a / b) 2^-47
//              and one at most; the rest's own quotient by r makes it right but for one more.
//   a / b      of floats, in double: q = a r, q + (a - q b) r. A float's quotient is further from
//              the middle between two floats than a double's last place, so rounding twice is
//              rounding once (Figueroa, "When is double rounding innocuous?", 1995).
//   sqrt x     in double as well, by Goldschmidt's step and one of Newton's.
//
// r begins as rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64 give it, with 20 digits that are right.
// Where there are groups of warps doubles are as fast as the rest (compute capability 9.0).
#include "backend_cuda/emit/without_calls.h"

#include "backend_cuda/emit/device.h"

#include <string.h>

#define MARK "dt-together"
#define LESS 0x1.fffffffffffep-1 // 1 - 2^-48

void dt__cuda_multiplies_together(dt_emit_t *m) {
  LLVMValueRef fn = LLVMGetBasicBlockParent(LLVMGetInsertBlock(m->b));
  LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                          LLVMCreateStringAttribute(m->context, MARK, sizeof(MARK) - 1, "", 0));
}

// ---- What stands for a call -----------------------------------------------------------------------
typedef LLVMValueRef make_t(dt_emit_t *m, LLVMValueRef a, LLVMValueRef b);

static LLVMValueRef fma_of(dt_emit_t *m, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
  LLVMValueRef args[3] = {a, b, c};
  LLVMTypeRef type = LLVMTypeOf(a);
  return dt__emit_intrinsic(m, "llvm.fma", &type, 1, args, 3);
}

static LLVMValueRef real(dt_emit_t *m, double value) { return LLVMConstReal(m->t_f64, value); }

static LLVMValueRef estimate(dt_emit_t *m, const char *name, LLVMValueRef x) {
  return dt__emit_intrinsic(m, name, NULL, 0, &x, 1);
}

// About 1 / b: *first as it begins, and with all digits.
static LLVMValueRef inverse(dt_emit_t *m, LLVMValueRef b, LLVMValueRef *first) {
  LLVMValueRef r = *first = estimate(m, "llvm.nvvm.rcp.approx.ftz.d", b);
  LLVMValueRef minus = LLVMBuildFNeg(m->b, b, "");
  for (uint32_t step = 0; step < 2; step++)
    r = fma_of(m, r, fma_of(m, minus, r, real(m, 1)), r);
  return r;
}

static LLVMValueRef long_quotient(dt_emit_t *m, LLVMValueRef a, LLVMValueRef b) {
  LLVMValueRef first, r = inverse(m, LLVMBuildUIToFP(m->b, b, m->t_f64, ""), &first);
  LLVMValueRef all = LLVMConstNull(m->t_i64), rest = a;
  r = LLVMBuildFMul(m->b, r, real(m, LESS), "");
  for (uint32_t step = 0; step < 2; step++) {
    LLVMValueRef part = LLVMBuildFMul(m->b, LLVMBuildUIToFP(m->b, rest, m->t_f64, ""), r, "");
    part = LLVMBuildFPToUI(m->b, part, m->t_i64, "");
    all = LLVMBuildAdd(m->b, all, part, "");
    rest = LLVMBuildSub(m->b, rest, LLVMBuildMul(m->b, part, b, ""), "");
  }
  LLVMValueRef more = LLVMBuildICmp(m->b, LLVMIntUGE, rest, b, "");
  return LLVMBuildAdd(m->b, all, LLVMBuildZExt(m->b, more, m->t_i64, ""), "");
}

// At the end of the function's only block.
static LLVMValueRef quotient(dt_emit_t *m, LLVMValueRef a, LLVMValueRef b) {
  LLVMValueRef fn = LLVMGetBasicBlockParent(LLVMGetInsertBlock(m->b));
  LLVMBasicBlockRef few = dt__emit_block(m, fn, "few"), many = dt__emit_block(m, fn, "many");
  LLVMBasicBlockRef end = dt__emit_block(m, fn, "end");
  LLVMValueRef high = LLVMBuildLShr(m->b, LLVMBuildOr(m->b, a, b, ""), dt__emit_i64(m, 32), "");
  LLVMBuildCondBr(m->b, LLVMBuildICmp(m->b, LLVMIntEQ, high, LLVMConstNull(m->t_i64), ""), few,
                  many);
  LLVMPositionBuilderAtEnd(m->b, few);
  LLVMValueRef q[2];
  q[0] = LLVMBuildUDiv(m->b, LLVMBuildTrunc(m->b, a, m->t_i32, ""),
                       LLVMBuildTrunc(m->b, b, m->t_i32, ""), "");
  q[0] = LLVMBuildZExt(m->b, q[0], m->t_i64, "");
  LLVMBuildBr(m->b, end);
  LLVMPositionBuilderAtEnd(m->b, many);
  q[1] = long_quotient(m, a, b);
  LLVMBuildBr(m->b, end);
  LLVMPositionBuilderAtEnd(m->b, end);
  LLVMValueRef out = LLVMBuildPhi(m->b, m->t_i64, "");
  LLVMBasicBlockRef from[2] = {few, many};
  LLVMAddIncoming(out, q, from, 2);
  return out;
}

static LLVMValueRef sign_of(dt_emit_t *m, LLVMValueRef a) {
  return LLVMBuildAShr(m->b, a, dt__emit_i64(m, 63), "");
}

// The value, negated where `sign` is all ones.
static LLVMValueRef with_sign(dt_emit_t *m, LLVMValueRef a, LLVMValueRef sign) {
  return LLVMBuildSub(m->b, LLVMBuildXor(m->b, a, sign, ""), sign, "");
}

static LLVMValueRef size_of(dt_emit_t *m, LLVMValueRef a) { return with_sign(m, a, sign_of(m, a)); }

static LLVMValueRef signed_quotient(dt_emit_t *m, LLVMValueRef a, LLVMValueRef b) {
  LLVMValueRef sign = LLVMBuildXor(m->b, sign_of(m, a), sign_of(m, b), "");
  return with_sign(m, quotient(m, size_of(m, a), size_of(m, b)), sign);
}

// Where that makes no number, or a zero, which loses its sign, what the first estimate gives is
// right: zeros, infinities.
static LLVMValueRef float_quotient(dt_emit_t *m, LLVMValueRef a, LLVMValueRef b) {
  LLVMValueRef first, x = LLVMBuildFPExt(m->b, a, m->t_f64, "");
  LLVMValueRef y = LLVMBuildFPExt(m->b, b, m->t_f64, ""), r = inverse(m, y, &first);
  LLVMValueRef q = LLVMBuildFMul(m->b, x, r, "");
  LLVMValueRef left = fma_of(m, LLVMBuildFNeg(m->b, q, ""), y, x);
  q = fma_of(m, left, r, q);
  LLVMValueRef number = LLVMBuildFCmp(m->b, LLVMRealONE, q, real(m, 0), "");
  q = LLVMBuildSelect(m->b, number, q, LLVMBuildFMul(m->b, x, first, ""), "");
  return LLVMBuildFPTrunc(m->b, q, m->t_f32, "");
}

static LLVMValueRef float_root(dt_emit_t *m, LLVMValueRef a, LLVMValueRef unused) {
  (void)unused;
  LLVMValueRef x = LLVMBuildFPExt(m->b, a, m->t_f64, ""), half = real(m, 0.5);
  LLVMValueRef r = estimate(m, "llvm.nvvm.rsqrt.approx.ftz.d", x);
  LLVMValueRef root = LLVMBuildFMul(m->b, x, r, ""), h = LLVMBuildFMul(m->b, r, half, "");
  LLVMValueRef step = fma_of(m, LLVMBuildFNeg(m->b, root, ""), h, half);
  root = fma_of(m, root, step, root);
  h = fma_of(m, h, step, h);
  root = fma_of(m, fma_of(m, LLVMBuildFNeg(m->b, root, ""), root, x), h, root);
  LLVMValueRef none = LLVMBuildFCmp(m->b, LLVMRealOEQ, x, LLVMConstNull(m->t_f64), "");
  LLVMValueRef all = LLVMBuildFCmp(m->b, LLVMRealOEQ, x, real(m, __builtin_inf()), "");
  root = LLVMBuildSelect(m->b, LLVMBuildOr(m->b, none, all, ""), x, root, "");
  return LLVMBuildFPTrunc(m->b, root, m->t_f32, "");
}

// ---- Instead of what ------------------------------------------------------------------------------
typedef enum kind_t { WHOLES, SIGNED, FLOATS, ROOT, KINDS } kind_t;

static const struct {
  LLVMOpcode opcode, rest; // LLVMCall: none
  make_t *make;
  const char *name;
} kinds[KINDS] = {{LLVMUDiv, LLVMURem, quotient, "dt_quotient"},
                  {LLVMSDiv, LLVMSRem, signed_quotient, "dt_signed_quotient"},
                  {LLVMFDiv, LLVMCall, float_quotient, "dt_float_quotient"},
                  {LLVMCall, LLVMCall, float_root, "dt_float_root"}};

static LLVMTypeRef element(LLVMTypeRef type) {
  return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type;
}

static bool is_root(LLVMValueRef inst) {
  size_t bytes = 0;
  const char *name = LLVMGetValueName2(LLVMGetCalledValue(inst), &bytes);
  return strncmp(name, "llvm.sqrt.", 10) == 0;
}

// Halves are divided as floats; KINDS: the instruction is no call.
static kind_t kind_of(dt_emit_t *m, LLVMValueRef inst) {
  LLVMOpcode opcode = LLVMGetInstructionOpcode(inst);
  LLVMTypeRef type = element(LLVMTypeOf(inst));
  if (opcode == LLVMCall)
    return is_root(inst) && type != m->t_f64 ? ROOT : KINDS;
  if (opcode == LLVMFDiv)
    return type != m->t_f64 ? FLOATS : KINDS;
  for (kind_t k = WHOLES; k <= SIGNED; k++)
    if (opcode == kinds[k].opcode || opcode == kinds[k].rest)
      return type == m->t_i64 && !LLVMIsConstant(LLVMGetOperand(inst, 1)) ? k : KINDS;
  return KINDS;
}

static void mark(dt_emit_t *m, LLVMValueRef fn, const char *name) {
  unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
  LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                          LLVMCreateEnumAttribute(m->context, kind, 0));
}

// A function that becomes part of those that call it, when equal calls have become one.
static LLVMValueRef function_of(dt_emit_t *m, kind_t kind) {
  LLVMValueRef fn = LLVMGetNamedFunction(m->module, kinds[kind].name);
  if (fn)
    return fn;
  LLVMTypeRef type = kind < FLOATS ? m->t_i64 : m->t_f32, params[2] = {type, type};
  fn = LLVMAddFunction(m->module, kinds[kind].name, LLVMFunctionType(type, params, 2, false));
  LLVMSetLinkage(fn, LLVMInternalLinkage);
  static const char *const marks[] = {"alwaysinline", "memory", "nounwind", "willreturn"};
  for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
    mark(m, fn, marks[i]);
  LLVMPositionBuilderAtEnd(m->b, dt__emit_block(m, fn, "entry"));
  LLVMBuildRet(m->b, kinds[kind].make(m, LLVMGetParam(fn, 0), LLVMGetParam(fn, 1)));
  return fn;
}

static LLVMValueRef called(dt_emit_t *m, kind_t kind, bool rest, LLVMValueRef a, LLVMValueRef b) {
  LLVMValueRef fn = LLVMGetNamedFunction(m->module, kinds[kind].name), args[2] = {a, b};
  LLVMTypeRef own = LLVMTypeOf(a);
  bool halves = kind >= FLOATS && own != m->t_f32;
  for (uint32_t i = 0; halves && i < 2; i++)
    args[i] = LLVMBuildFPExt(m->b, args[i], m->t_f32, "");
  LLVMValueRef out = LLVMBuildCall2(m->b, LLVMGlobalGetValueType(fn), fn, args, 2, "");
  if (rest)
    out = LLVMBuildSub(m->b, a, LLVMBuildMul(m->b, out, b, ""), "");
  return halves ? LLVMBuildFPTrunc(m->b, out, own, "") : out;
}

static void replace(dt_emit_t *m, LLVMValueRef inst, kind_t kind) {
  (void)function_of(m, kind);
  LLVMPositionBuilderBefore(m->b, inst);
  LLVMValueRef a = LLVMGetOperand(inst, 0), b = kind == ROOT ? a : LLVMGetOperand(inst, 1);
  LLVMTypeRef type = LLVMTypeOf(inst);
  LLVMValueRef out = LLVMGetPoison(type);
  bool rest = kind < FLOATS && LLVMGetInstructionOpcode(inst) == kinds[kind].rest;
  if (element(type) == type)
    out = called(m, kind, rest, a, b);
  else
    for (uint32_t i = 0; i < LLVMGetVectorSize(type); i++) {
      LLVMValueRef at = dt__emit_i32(m, i);
      LLVMValueRef one = called(m, kind, rest, LLVMBuildExtractElement(m->b, a, at, ""),
                                LLVMBuildExtractElement(m->b, b, at, ""));
      out = LLVMBuildInsertElement(m->b, out, one, at, "");
    }
  LLVMReplaceAllUsesWith(inst, out);
  LLVMInstructionEraseFromParent(inst);
}

static bool replace_in(dt_emit_t *m, LLVMValueRef fn) {
  bool any = false;
  for (LLVMBasicBlockRef at = LLVMGetFirstBasicBlock(fn); at; at = LLVMGetNextBasicBlock(at))
    for (LLVMValueRef inst = LLVMGetFirstInstruction(at), next; inst; inst = next) {
      next = LLVMGetNextInstruction(inst);
      kind_t kind = kind_of(m, inst);
      if (kind == KINDS)
        continue;
      replace(m, inst, kind);
      any = true;
    }
  return any;
}

const char *dt__cuda_without_calls(dt_emit_t *m) {
  bool any = false;
  for (LLVMValueRef fn = LLVMGetFirstFunction(m->module); fn; fn = LLVMGetNextFunction(fn))
    if (LLVMGetStringAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, MARK,
                                      sizeof(MARK) - 1))
      any |= replace_in(m, fn);
  return any ? "function(early-cse),always-inline,function(early-cse,instcombine<no-verify-"
               "fixpoint>,simplifycfg,dce),"
               "globaldce"
             : NULL;
}
