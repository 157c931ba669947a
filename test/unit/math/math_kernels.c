// SPDX-License-Identifier: Apache-2.0
// Builds, optimises and links the loops that the test of elementary functions runs.
#include "test/unit/math/math_kernels.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Error.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <stdio.h>
#include <stdlib.h>

struct math_jit_t {
  LLVMOrcLLJITRef jit;
  LLVMTargetMachineRef machine;
  math_kernel_t made[MATH_KERNELS][2];
};

static bool failed(LLVMErrorRef error) {
  if (!error)
    return false;
  char *text = LLVMGetErrorMessage(error);
  fprintf(stderr, "LLVM: %s\n", text);
  LLVMDisposeErrorMessage(text);
  return true;
}

static LLVMTargetMachineRef make_machine(const char *triple, const char *cpu,
                                         const char *features) {
  LLVMTargetRef target;
  char *text = NULL;
  if (LLVMGetTargetFromTriple(triple, &target, &text)) {
    fprintf(stderr, "LLVM: %s\n", text);
    LLVMDisposeMessage(text);
    return NULL;
  }
  return LLVMCreateTargetMachine(target, triple, cpu, features, LLVMCodeGenLevelDefault,
                                 LLVMRelocPIC, LLVMCodeModelJITDefault);
}

static LLVMTargetMachineRef host_machine(const char *want_cpu) {
  char *triple = LLVMGetDefaultTargetTriple();
  char *cpu = LLVMGetHostCPUName(), *features = LLVMGetHostCPUFeatures();
  LLVMTargetMachineRef machine =
      want_cpu ? make_machine(triple, want_cpu, "") : make_machine(triple, cpu, features);
  LLVMDisposeMessage(triple);
  LLVMDisposeMessage(cpu);
  LLVMDisposeMessage(features);
  return machine;
}

math_jit_t *math_jit_create(const char *cpu) {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  math_jit_t *jit = calloc(1, sizeof *jit);
  if (!jit)
    return NULL;
  jit->machine = host_machine(cpu);
  LLVMTargetMachineRef own = host_machine(cpu);
  if (!jit->machine || !own)
    goto fail;
  LLVMOrcLLJITBuilderRef builder = LLVMOrcCreateLLJITBuilder();
  LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(
      builder, LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(own));
  if (failed(LLVMOrcCreateLLJIT(&jit->jit, builder)))
    goto fail;
  // Without FMA the target calls libm's fma; nothing else external may be asked for.
  LLVMOrcDefinitionGeneratorRef process;
  if (failed(LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess(
          &process, LLVMOrcLLJITGetGlobalPrefix(jit->jit), NULL, NULL)))
    goto fail;
  if (cpu)
    LLVMOrcJITDylibAddGenerator(LLVMOrcLLJITGetMainJITDylib(jit->jit), process);
  else
    LLVMOrcDisposeDefinitionGenerator(process);
  return jit;
fail:
  math_jit_destroy(jit);
  return NULL;
}

void math_jit_destroy(math_jit_t *jit) {
  if (!jit)
    return;
  if (jit->jit)
    (void)failed(LLVMOrcDisposeLLJIT(jit->jit));
  if (jit->machine)
    LLVMDisposeTargetMachine(jit->machine);
  free(jit);
}

static LLVMValueRef element(LLVMBuilderRef at, LLVMTypeRef scalar, LLVMTypeRef type,
                            LLVMValueRef base, LLVMValueRef i, bool store, LLVMValueRef value) {
  LLVMValueRef address = LLVMBuildGEP2(at, scalar, base, &i, 1, "");
  LLVMValueRef access =
      store ? LLVMBuildStore(at, value, address) : LLVMBuildLoad2(at, type, address, "");
  LLVMSetAlignment(access, LLVMGetTypeKind(scalar) == LLVMDoubleTypeKind ? 8 : 4);
  return access;
}

// void name(ptr x, ptr y, ptr out, i64 n); lanes 0 for scalars.
static void build_loop(LLVMContextRef context, LLVMModuleRef module, const char *name, int fn,
                       bool wide, unsigned lanes) {
  LLVMTypeRef ptr = LLVMPointerTypeInContext(context, 0), i64 = LLVMInt64TypeInContext(context);
  LLVMTypeRef params[4] = {ptr, ptr, ptr, i64};
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(context), params, 4, 0);
  LLVMValueRef f = LLVMAddFunction(module, name, type);
  unsigned noalias = LLVMGetEnumAttributeKindForName("noalias", 7);
  for (unsigned k = 1; k <= 3; k++)
    LLVMAddAttributeAtIndex(f, k, LLVMCreateEnumAttribute(context, noalias, 0));
  const char width[] = "prefer-vector-width";
  LLVMAddAttributeAtIndex(f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                          LLVMCreateStringAttribute(context, width, sizeof width - 1, "512", 3));
  LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(context, f, "entry");
  LLVMBasicBlockRef loop = LLVMAppendBasicBlockInContext(context, f, "loop");
  LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(context, f, "done");
  LLVMBuilderRef at = LLVMCreateBuilderInContext(context);
  LLVMPositionBuilderAtEnd(at, entry);
  LLVMBuildBr(at, loop);
  LLVMPositionBuilderAtEnd(at, loop);
  LLVMValueRef i = LLVMBuildPhi(at, i64, "i");
  LLVMTypeRef scalar = wide ? LLVMDoubleTypeInContext(context) : LLVMFloatTypeInContext(context);
  LLVMTypeRef value_type = lanes ? LLVMVectorType(scalar, lanes) : scalar;
  LLVMValueRef x = element(at, scalar, value_type, LLVMGetParam(f, 0), i, false, NULL);
  dt_emit_math_t emit = {.context = context, .module = module, .builder = at};
  LLVMValueRef y;
  if (fn == MATH_POW)
    y = dt__emit_pow(&emit, x, element(at, scalar, value_type, LLVMGetParam(f, 1), i, false, NULL));
  else if (fn == MATH_NDTR)
    y = dt__emit_ndtr(&emit, x);
  else
    y = dt__emit_math(&emit, (dt_math_fn_t)fn, x);
  element(at, scalar, value_type, LLVMGetParam(f, 2), i, true, y);
  LLVMValueRef next = LLVMBuildAdd(at, i, LLVMConstInt(i64, lanes ? lanes : 1, 0), "");
  LLVMValueRef more = LLVMBuildICmp(at, LLVMIntULT, next, LLVMGetParam(f, 3), "");
  LLVMBuildCondBr(at, more, loop, done);
  LLVMValueRef from[2] = {LLVMConstInt(i64, 0, 0), next};
  LLVMBasicBlockRef blocks[2] = {entry, LLVMGetInsertBlock(at)};
  LLVMAddIncoming(i, from, blocks, 2);
  LLVMPositionBuilderAtEnd(at, done);
  LLVMBuildRetVoid(at);
  LLVMDisposeBuilder(at);
}

static void set_target(LLVMModuleRef module, LLVMTargetMachineRef machine) {
  char *triple = LLVMGetTargetMachineTriple(machine);
  LLVMSetTarget(module, triple);
  LLVMDisposeMessage(triple);
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
  LLVMSetModuleDataLayout(module, layout);
  LLVMDisposeTargetData(layout);
}

static bool optimise(LLVMModuleRef module, LLVMTargetMachineRef machine) {
  char *text = NULL;
  if (LLVMVerifyModule(module, LLVMReturnStatusAction, &text)) {
    fprintf(stderr, "LLVM: %s\n", text);
    LLVMDisposeMessage(text);
    return false;
  }
  LLVMDisposeMessage(text);
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  // The scalar loop must stay scalar.
  LLVMPassBuilderOptionsSetLoopVectorization(options, 0);
  LLVMPassBuilderOptionsSetSLPVectorization(options, 0);
  LLVMPassBuilderOptionsSetLoopUnrolling(options, 0);
  bool bad = failed(LLVMRunPasses(module, "default<O2>", machine, options));
  LLVMDisposePassBuilderOptions(options);
  return !bad;
}

bool math_jit_compile(math_jit_t *jit, int fn, bool wide, math_kernel_t *out) {
  *out = jit->made[fn][wide];
  if (out->vector)
    return true;
  LLVMContextRef context = LLVMContextCreate();
  LLVMModuleRef module = LLVMModuleCreateWithNameInContext("math", context);
  set_target(module, jit->machine);
  char vector[32], scalar[32];
  snprintf(vector, sizeof vector, "v_%d_%d", fn, wide);
  snprintf(scalar, sizeof scalar, "s_%d_%d", fn, wide);
  build_loop(context, module, vector, fn, wide, wide ? 8 : 16);
  build_loop(context, module, scalar, fn, wide, 0);
  if (!optimise(module, jit->machine))
    return false;
  LLVMOrcThreadSafeContextRef shared = LLVMOrcCreateNewThreadSafeContextFromLLVMContext(context);
  LLVMOrcThreadSafeModuleRef owned = LLVMOrcCreateNewThreadSafeModule(module, shared);
  LLVMOrcDisposeThreadSafeContext(shared);
  LLVMOrcJITDylibRef main_library = LLVMOrcLLJITGetMainJITDylib(jit->jit);
  if (failed(LLVMOrcLLJITAddLLVMIRModule(jit->jit, main_library, owned)))
    return false;
  LLVMOrcExecutorAddress a = 0, b = 0;
  if (failed(LLVMOrcLLJITLookup(jit->jit, &a, vector)) ||
      failed(LLVMOrcLLJITLookup(jit->jit, &b, scalar)))
    return false;
  out->vector = (math_loop_t)(uintptr_t)a;
  out->scalar = (math_loop_t)(uintptr_t)b;
  jit->made[fn][wide] = *out;
  return true;
}

bool math_print_assembly(const math_jit_t *jit, int fn, bool wide, bool ptx) {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  LLVMTargetMachineRef machine =
      ptx ? make_machine("nvptx64-nvidia-cuda", "sm_90a", "") : jit->machine;
  if (!machine)
    return false;
  LLVMContextRef context = LLVMContextCreate();
  LLVMModuleRef module = LLVMModuleCreateWithNameInContext("math", context);
  set_target(module, machine);
  build_loop(context, module, "loop", fn, wide, ptx ? 0 : wide ? 8 : 16);
  LLVMMemoryBufferRef text = NULL;
  char *message = NULL;
  bool ok = optimise(module, machine) && !LLVMTargetMachineEmitToMemoryBuffer(
                                             machine, module, LLVMAssemblyFile, &message, &text);
  if (ok)
    fwrite(LLVMGetBufferStart(text), 1, LLVMGetBufferSize(text), stdout);
  if (message)
    LLVMDisposeMessage(message);
  if (text)
    LLVMDisposeMemoryBuffer(text);
  LLVMDisposeModule(module);
  LLVMContextDispose(context);
  if (ptx)
    LLVMDisposeTargetMachine(machine);
  return ok;
}
