// SPDX-License-Identifier: Apache-2.0
// LLVM objects of a unit, types, literals and function attributes. access.c has memory accesses,
// scalar.c scalar ops.
#include "backend_llvm/emit/context.h"

#include "backend_llvm/emit/statics.h"
#include "runtime/base/life.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t machines_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t tune_once = PTHREAD_ONCE_INIT;
static char tune[64]; // LLVM's name of this machine's model, which follows from dt_target_t.tune

static void find_tune(void) {
  char *name = LLVMGetHostCPUName();
  (void)snprintf(tune, sizeof(tune), "%s", name ? name : "");
  LLVMDisposeMessage(name);
}

static void enter_x86(void) {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
}

static dt_llvm_machine_t x86 = {"x86_64-unknown-linux-gnu", enter_x86, false};

static dt_status_t find_machine(dt_llvm_machine_t *kind, LLVMTargetRef *out) {
  char *message = NULL;
  (void)pthread_mutex_lock(&machines_lock);
  if (!kind->entered)
    kind->enter();
  kind->entered = true;
  bool missing = LLVMGetTargetFromTriple(kind->triple, out, &message);
  (void)pthread_mutex_unlock(&machines_lock);
  if (!missing)
    return NULL;
  dt_status_t status = DT_FAIL(DT_E_COMPILE, "code generator: %s", message ? message : "");
  LLVMDisposeMessage(message);
  return status;
}

dt_status_t dt__emit_machine(dt_emit_t *m, dt_llvm_machine_t *kind, const dt_target_t *described,
                             LLVMCodeGenOptLevel level) {
  LLVMTargetRef target = NULL;
  DT_TRY(find_machine(kind, &target));
  m->machine = LLVMCreateTargetMachine(target, kind->triple, described->cpu, described->features,
                                       level, LLVMRelocPIC, LLVMCodeModelSmall);
  if (!m->machine)
    return DT_FAIL(DT_E_COMPILE, "code generator: no machine for CPU '%s'", described->cpu);
  LLVMSetTarget(m->module, kind->triple);
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(m->machine);
  LLVMSetModuleDataLayout(m->module, layout);
  LLVMDisposeTargetData(layout);
  return NULL;
}

dt_status_t dt__emit_open(dt_emit_t *m, const dt_program_t *program, const dt_target_t *target,
                          const char *name) {
  memset(m, 0, sizeof(*m));
  DT_TRY(dt__generator_enter());
  dt__llvm_keep_statics();
  m->entered = true;
  m->target = target;
  dt__arena_init(&m->arena, 0);
  dt_status_t status = NULL;
  if (program) {
    m->arena.watch = program->arena->watch;
    m->program = *program;
    status = dt__symenv_clone(program->env, &m->env);
  }
  if (status) {
    dt__emit_fini(m);
    return status;
  }
  m->program.arena = &m->arena;
  m->program.env = m->env;
  m->context = LLVMContextCreate();
  m->module = LLVMModuleCreateWithNameInContext(name, m->context);
  m->b = LLVMCreateBuilderInContext(m->context);
  m->math = (dt_emit_math_t){m->context, m->module, m->b, NULL};
  m->t_i1 = LLVMInt1TypeInContext(m->context);
  m->t_i8 = LLVMInt8TypeInContext(m->context);
  m->t_i16 = LLVMInt16TypeInContext(m->context);
  m->t_i32 = LLVMInt32TypeInContext(m->context);
  m->t_i64 = LLVMInt64TypeInContext(m->context);
  m->t_f32 = LLVMFloatTypeInContext(m->context);
  m->t_f64 = LLVMDoubleTypeInContext(m->context);
  m->t_ptr = LLVMPointerTypeInContext(m->context, 0);
  m->t_void = LLVMVoidTypeInContext(m->context);
  return NULL;
}

dt_status_t dt__emit_init(dt_emit_t *m, const dt_program_t *program, const dt_target_t *target,
                          const dt_compile_options_t *options, const char *name) {
  DT_TRY(dt__emit_open(m, program, target, name));
  dt_status_t status = dt__emit_machine(m, &x86, target->host ? target->host : target,
                                        dt__llvm_level(options)->machine);
  if (status)
    dt__emit_fini(m);
  return status;
}

void dt__emit_fini(dt_emit_t *m) {
  if (m->b)
    LLVMDisposeBuilder(m->b);
  if (m->module)
    LLVMDisposeModule(m->module);
  if (m->machine)
    LLVMDisposeTargetMachine(m->machine);
  if (m->context)
    LLVMContextDispose(m->context);
  dt__symenv_destroy(m->env);
  dt__arena_fini(&m->arena);
  dt_status_free(m->failure);
  if (m->entered)
    dt__generator_leave();
  memset(m, 0, sizeof(*m));
}

void dt__emit_fail(dt_emit_t *m, dt_status_t status) {
  m->failure = dt__status_join(m->failure, status);
}

// ---- Functions ---------------------------------------------------------------------------------------
static void add_attribute(dt_emit_t *m, LLVMValueRef fn, const char *name) {
  unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
  LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                          LLVMCreateEnumAttribute(m->context, kind, 0));
}

static void add_text_attribute(dt_emit_t *m, LLVMValueRef fn, const char *key, const char *value) {
  LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                          LLVMCreateStringAttribute(m->context, key, (unsigned)strlen(key), value,
                                                    (unsigned)strlen(value)));
}

// What instructions cost there is the machine's own, where the code is for this one.
static void add_tuning(dt_emit_t *m, LLVMValueRef fn) {
  const dt_target_t *host = m->target->host ? m->target->host : m->target;
  if (!host->tune[0])
    return;
  (void)pthread_once(&tune_once, find_tune);
  add_text_attribute(m, fn, "tune-cpu", tune);
}

// Nothing unwinds through generated code and no library function may be assumed. The vector width
// is stated because several CPUs' tuning would otherwise halve 512-bit vectors.
LLVMValueRef dt__emit_function(dt_emit_t *m, const char *name, LLVMTypeRef type, bool exported) {
  LLVMValueRef fn = LLVMAddFunction(m->module, name, type);
  LLVMSetLinkage(fn, exported ? LLVMExternalLinkage : LLVMInternalLinkage);
  LLVMSetVisibility(fn, exported ? LLVMHiddenVisibility : LLVMDefaultVisibility);
  add_attribute(m, fn, "nounwind");
  add_text_attribute(m, fn, "no-builtins", "");
  if (m->device)
    return fn;
  const char *bits = m->target->vector_bytes == 64   ? "512"
                     : m->target->vector_bytes == 32 ? "256"
                                                     : "128";
  add_text_attribute(m, fn, "prefer-vector-width", bits);
  add_text_attribute(m, fn, "min-legal-vector-width", bits);
  add_text_attribute(m, fn, "frame-pointer", "none");
  add_tuning(m, fn);
  return fn;
}

void dt__emit_keep_bits(dt_emit_t *m, LLVMValueRef fn) { add_attribute(m, fn, "noimplicitfloat"); }

void dt__emit_noinline(dt_emit_t *m, LLVMValueRef fn) { add_attribute(m, fn, "noinline"); }

LLVMBasicBlockRef dt__emit_block(dt_emit_t *m, LLVMValueRef fn, const char *name) {
  return LLVMAppendBasicBlockInContext(m->context, fn, name);
}

void dt__emit_resume(dt_emit_t *m, LLVMBasicBlockRef block) {
  LLVMValueRef last = LLVMGetBasicBlockTerminator(block);
  if (last)
    LLVMPositionBuilderBefore(m->b, last);
  else
    LLVMPositionBuilderAtEnd(m->b, block);
}

// ---- Types -------------------------------------------------------------------------------------------
LLVMTypeRef dt__emit_memory_type(const dt_emit_t *m, dt_dtype_t dtype) {
  if (dtype == DT_F32 || dtype == DT_F64)
    return dtype == DT_F32 ? m->t_f32 : m->t_f64;
  switch (dt_dtype_size(dtype)) {
  case 1:
    return m->t_i8;
  case 2:
    return m->t_i16;
  case 4:
    return m->t_i32;
  default:
    return m->t_i64;
  }
}

LLVMTypeRef dt__emit_type(const dt_emit_t *m, dt_dtype_t dtype) {
  return dtype == DT_BOOL ? m->t_i1 : dt__emit_memory_type(m, dtype);
}

uint32_t dt__emit_lanes(LLVMTypeRef type) {
  return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetVectorSize(type) : 0;
}

LLVMTypeRef dt__emit_widen(LLVMTypeRef scalar, uint32_t lanes) {
  return lanes ? LLVMVectorType(scalar, lanes) : scalar;
}

LLVMTypeRef dt__emit_like(LLVMValueRef value, LLVMTypeRef scalar) {
  return dt__emit_widen(scalar, dt__emit_lanes(LLVMTypeOf(value)));
}

// ---- Literals ----------------------------------------------------------------------------------------
static LLVMTypeRef scalar_of(LLVMTypeRef type) {
  return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type;
}

static LLVMValueRef repeat(LLVMValueRef literal, LLVMTypeRef type) {
  uint32_t lanes = dt__emit_lanes(type);
  if (!lanes)
    return literal;
  LLVMValueRef each[DT_MAX_LANES];
  for (uint32_t i = 0; i < lanes; i++)
    each[i] = literal;
  return LLVMConstVector(each, lanes);
}

LLVMValueRef dt__emit_int(LLVMTypeRef type, int64_t value) {
  LLVMTypeRef scalar = scalar_of(type);
  uint32_t bits = LLVMGetIntTypeWidth(scalar);
  uint64_t kept = bits < 64 ? (uint64_t)value & (((uint64_t)1 << bits) - 1) : (uint64_t)value;
  return repeat(LLVMConstInt(scalar, kept, 0), type);
}

LLVMValueRef dt__emit_float(LLVMTypeRef type, double value) {
  return repeat(LLVMConstReal(scalar_of(type), value), type);
}

LLVMValueRef dt__emit_i64(const dt_emit_t *m, int64_t value) {
  return LLVMConstInt(m->t_i64, (uint64_t)value, 0);
}

LLVMValueRef dt__emit_i32(const dt_emit_t *m, uint32_t value) {
  return LLVMConstInt(m->t_i32, value, 0);
}

LLVMValueRef dt__emit_constant(const dt_emit_t *m, dt_dtype_t dtype, dt_scalar_t value) {
  LLVMTypeRef type = dt__emit_type(m, dtype);
  if (dt__dtype_is_half(dtype)) {
    uint16_t bits = 0;
    dt__scalar_store(dtype, &bits, value);
    return dt__emit_int(type, bits);
  }
  if (dt__dtype_is_float(dtype))
    return LLVMConstReal(type, dtype == DT_F32 ? (double)(float)value.f : value.f);
  return dt__emit_int(type, dtype == DT_BOOL ? value.i != 0 : value.i);
}

LLVMValueRef dt__emit_splat(dt_emit_t *m, LLVMValueRef value, uint32_t lanes) {
  if (LLVMIsConstant(value) && !LLVMIsPoison(value) &&
      (LLVMIsAConstantInt(value) || LLVMIsAConstantFP(value)))
    return repeat(value, LLVMVectorType(LLVMTypeOf(value), lanes));
  LLVMTypeRef type = LLVMVectorType(LLVMTypeOf(value), lanes);
  LLVMValueRef poison = LLVMGetPoison(type);
  LLVMValueRef one = LLVMBuildInsertElement(m->b, poison, value, dt__emit_i64(m, 0), "");
  return LLVMBuildShuffleVector(m->b, one, poison, LLVMConstNull(LLVMVectorType(m->t_i32, lanes)),
                                "");
}

LLVMValueRef dt__emit_ramp(LLVMTypeRef scalar, uint32_t lanes, int64_t step) {
  LLVMValueRef each[DT_MAX_LANES];
  for (uint32_t i = 0; i < lanes; i++)
    each[i] = dt__emit_int(scalar, (int64_t)((uint64_t)step * i));
  return LLVMConstVector(each, lanes);
}

// ---- Calls -------------------------------------------------------------------------------------------
LLVMValueRef dt__emit_intrinsic(dt_emit_t *m, const char *name, LLVMTypeRef *types,
                                uint32_t n_types, LLVMValueRef *args, uint32_t n_args) {
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  if (id == 0) {
    dt__emit_fail(m, DT_FAIL(DT_E_COMPILE, "code generator: no intrinsic '%s'", name));
    return LLVMGetPoison(LLVMTypeOf(args[0]));
  }
  LLVMValueRef fn = LLVMGetIntrinsicDeclaration(m->module, id, types, n_types);
  LLVMTypeRef type = LLVMIntrinsicGetType(m->context, id, types, n_types);
  return LLVMBuildCall2(m->b, type, fn, args, n_args, "");
}

LLVMValueRef dt__emit_intrinsic1(dt_emit_t *m, const char *name, LLVMValueRef x) {
  LLVMTypeRef type = LLVMTypeOf(x);
  return dt__emit_intrinsic(m, name, &type, 1, &x, 1);
}

LLVMValueRef dt__emit_intrinsic2(dt_emit_t *m, const char *name, LLVMValueRef x, LLVMValueRef y) {
  LLVMTypeRef type = LLVMTypeOf(x);
  LLVMValueRef args[2] = {x, y};
  return dt__emit_intrinsic(m, name, &type, 1, args, 2);
}

LLVMValueRef dt__emit_mul_add(dt_emit_t *m, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
  LLVMTypeRef type = LLVMTypeOf(a);
  if (LLVMGetTypeKind(scalar_of(type)) == LLVMIntegerTypeKind)
    return LLVMBuildAdd(m->b, LLVMBuildMul(m->b, a, b, ""), c, "");
  if (m->target->strict_fp || !m->target->fma)
    return LLVMBuildFAdd(m->b, LLVMBuildFMul(m->b, a, b, ""), c, "");
  LLVMValueRef args[3] = {a, b, c};
  return dt__emit_intrinsic(m, "llvm.fma", &type, 1, args, 3);
}

LLVMValueRef dt__emit_offset(dt_emit_t *m, LLVMValueRef base, LLVMValueRef bytes) {
  return LLVMBuildGEP2(m->b, m->t_i8, base, &bytes, 1, "");
}

LLVMValueRef dt__emit_element(dt_emit_t *m, LLVMTypeRef element, LLVMValueRef base,
                              LLVMValueRef index) {
  return LLVMBuildGEP2(m->b, element, base, &index, 1, "");
}
