// SPDX-License-Identifier: Apache-2.0
// One unit from loop IR to an object file: emission, the checks on the IR, LLVM's passes, code
// generation. Errors that LLVM reports become statuses.
#include "backend_llvm/emit/compile.h"

#include "backend_llvm/emit/body.h"
#include "backend_llvm/emit/host.h"
#include "backend_llvm/emit/loops.h"
#include "runtime/base/life.h"
#include "runtime/base/log.h"

#include <stdio.h>
#include <string.h>

// Kernels are vectorised and unrolled as they are emitted; what is left is promotion of stack
// slots, reducing of literals and common subexpressions. The host program is glue.
#define KERNEL_PASSES                                                                              \
  "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,"                   \
  "loop-mssa(licm),gvn,instcombine<no-verify-fixpoint>,simplifycfg,dce)"
#define HOST_PASSES "function(sroa,early-cse,instsimplify)"
// Of kernels in their quick form, which is the same IR: the same bits.
#define QUICK_PASSES "function(sroa,early-cse<memssa>,instsimplify)"

#define MANY_LAUNCHES 64 // `scripts/bench start` shows what it spares (docs/performance.md)

static const dt_llvm_level_t levels[DT_LLVM_LEVELS] = {{"default<O0>", LLVMCodeGenLevelNone},
                                                       {"default<O1>", LLVMCodeGenLevelLess},
                                                       {"default<O2>", LLVMCodeGenLevelDefault},
                                                       {"default<O3>", LLVMCodeGenLevelAggressive}};

const dt_llvm_level_t *dt__llvm_level(const dt_compile_options_t *options) {
  static const dt_llvm_level_t usual = {NULL, LLVMCodeGenLevelDefault};
  static const dt_llvm_level_t quick = {NULL, LLVMCodeGenLevelNone};
  if (options && options->llvm_level)
    return &levels[(options->llvm_level - 1) % DT_LLVM_LEVELS];
  return options && options->quick ? &quick : &usual;
}

// LLVM's quick selection, and no optional pass, for everything but what kernels share: the inner
// loops of products. Registers are allocated as ever.
static void hasten(dt_emit_t *m) {
  static const char *const names[] = {"optnone", "noinline"};
  for (LLVMValueRef f = LLVMGetFirstFunction(m->module); f; f = LLVMGetNextFunction(f)) {
    if (LLVMIsDeclaration(f) || LLVMGetLinkage(f) == LLVMInternalLinkage)
      continue;
    for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
      unsigned kind = LLVMGetEnumAttributeKindForName(names[k], strlen(names[k]));
      LLVMAddAttributeAtIndex(f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                              LLVMCreateEnumAttribute(m->context, kind, 0));
    }
  }
}

static void on_diagnostic(LLVMDiagnosticInfoRef info, void *user) {
  dt_emit_t *m = user;
  if (LLVMGetDiagInfoSeverity(info) != LLVMDSError)
    return;
  char *text = LLVMGetDiagInfoDescription(info);
  dt__emit_fail(m, DT_FAIL(DT_E_COMPILE, "code generator: %s", text ? text : ""));
  LLVMDisposeMessage(text);
}

dt_status_t dt__emit_take_failure(dt_emit_t *m) {
  dt_status_t status = m->failure;
  m->failure = NULL;
  return status || !m->env ? status : dt__symenv_status(m->env);
}

// An expression that could not be made is none; what then fails for want of it is a consequence.
static dt_status_t first_cause(dt_emit_t *m, dt_status_t status) {
  dt_status_t cause = status ? dt__symenv_status(m->env) : NULL;
  if (!cause)
    return status;
  dt_status_free(status);
  return cause;
}

static dt_status_t emit_code(dt_emit_t *m, const dt_unit_map_t *map, uint32_t code) {
  dt_code_origin_t origin = map->origin_of_code[code];
  const dt_kernel_t *kernel = &m->program.kernels.items[origin.kernel];
  char name[32];
  snprintf(name, sizeof(name), "dt_k%u", code);
  dt__emit_kernel(m, kernel, &kernel->schedules.items[origin.schedule], name);
  return dt__status_annotate(dt__emit_take_failure(m), "kernel %s", kernel->name);
}

static dt_status_t emit_unit(dt_emit_t *m, const dt_unit_map_t *map, uint32_t unit) {
  if (unit + 1 == map->n_units) {
    DT_TRY(dt__emit_host(m, map));
    return dt__emit_take_failure(m);
  }
  for (uint32_t code = 0; code < map->n_codes; code++)
    if (map->unit_of_code[code] == unit) {
      DT_TRY(dt__generator_check());
      DT_TRY(emit_code(m, map, code));
    }
  return NULL;
}

static bool verify_wanted(const dt_compile_options_t *options) {
#ifndef NDEBUG
  (void)options;
  return true;
#else
  return options && options->verify;
#endif
}

// LLVM's own look costs a hundredth of a compile and is made where asked; the allow-list always is.
static dt_status_t verify_module(dt_emit_t *m, bool host, const dt_compile_options_t *options) {
  char *message = NULL;
  LLVMBool broken =
      verify_wanted(options) && LLVMVerifyModule(m->module, LLVMReturnStatusAction, &message);
  dt_status_t status =
      broken ? DT_FAIL(DT_E_INTERNAL, "emitted code is malformed: %s", message ? message : "")
             : NULL;
  LLVMDisposeMessage(message);
  return status ? status : dt__emit_check(m, host);
}

static void dump_module(dt_emit_t *m, const dt_compile_options_t *options, uint32_t order,
                        const char *stage) {
  if (!options || !options->dump_name || !dt__dump_on(stage))
    return;
  char *text = LLVMPrintModuleToString(m->module);
  dt__dump(options->dump_name, options->dump_variant, order, stage, text);
  LLVMDisposeMessage(text);
}

// What becomes code, after all passes.
static void log_module(dt_emit_t *m, const dt_compile_options_t *options, uint32_t order) {
  if (!dt__log_on(DT_LOG_OUTPUT_CODE, 1))
    return;
  char *text = LLVMPrintModuleToString(m->module);
  dt__log_write(DT_LOG_OUTPUT_CODE, "%s.%u, unit %u\n%s",
                options && options->dump_name ? options->dump_name : "program",
                options ? options->dump_variant : 0, order, text);
  LLVMDisposeMessage(text);
}

static dt_status_t run_passes(dt_emit_t *m, const char *passes) {
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  LLVMErrorRef error = LLVMRunPasses(m->module, passes, m->machine, options);
  LLVMDisposePassBuilderOptions(options);
  if (!error)
    return dt__emit_take_failure(m);
  char *message = LLVMGetErrorMessage(error);
  dt_status_t status = DT_FAIL(DT_E_COMPILE, "code generator: %s", message ? message : "");
  LLVMDisposeErrorMessage(message);
  return status;
}

static dt_status_t emit_object(dt_emit_t *m, void **out_object, size_t *out_bytes) {
  char *message = NULL;
  LLVMMemoryBufferRef buffer = NULL;
  LLVMCodeGenFileType type = m->device ? LLVMAssemblyFile : LLVMObjectFile;
  if (LLVMTargetMachineEmitToMemoryBuffer(m->machine, m->module, type, &message, &buffer)) {
    dt_status_t status = DT_FAIL(DT_E_COMPILE, "code generator: %s", message ? message : "");
    LLVMDisposeMessage(message);
    return status;
  }
  size_t bytes = LLVMGetBufferSize(buffer);
  char *copy = dt__alloc(bytes + 1);
  if (copy) {
    memcpy(copy, LLVMGetBufferStart(buffer), bytes);
    copy[bytes] = '\0'; // text ends
  }
  LLVMDisposeMemoryBuffer(buffer);
  if (!copy)
    return DT_NO_MEMORY();
  dt_status_t status = dt__emit_take_failure(m);
  if (status) {
    dt__free(copy);
    return status;
  }
  *out_object = copy;
  *out_bytes = bytes;
  return NULL;
}

dt_status_t dt__emit_finish(dt_emit_t *m, const char *passes, bool host,
                            const dt_compile_options_t *options, uint32_t order, void **out_object,
                            size_t *out_bytes) {
  LLVMContextSetDiagnosticHandler(m->context, on_diagnostic, m);
  DT_TRY(dt__emit_take_failure(m));
  dump_module(m, options, 2 * order, "llvm");
  DT_TRY(verify_module(m, host, options));
  DT_TRY(dt__generator_check());
  if (passes) {
    DT_TRY(run_passes(m, passes));
    const char *settled = m->device && m->device->settle ? m->device->settle(m) : NULL;
    if (settled)
      DT_TRY(run_passes(m, settled));
    dump_module(m, options, 2 * order + 1, "llvm");
  }
  if (!host && options && options->quick_kernels)
    hasten(m);
  log_module(m, options, order);
  DT_TRY(dt__generator_check());
  return emit_object(m, out_object, out_bytes);
}

static const char *kernel_passes(const dt_emit_t *m, const dt_compile_options_t *options) {
  if (options && options->quick_kernels)
    return QUICK_PASSES;
  uint32_t level = m->target->llvm_level;
  return level ? levels[(level - 1) % DT_LLVM_LEVELS].passes : KERNEL_PASSES;
}

static dt_status_t compile(dt_emit_t *m, const dt_unit_map_t *map, uint32_t unit,
                           const dt_compile_options_t *options, void **out_object,
                           size_t *out_bytes) {
  bool host = unit + 1 == map->n_units;
  const char *passes = dt__llvm_level(options)->passes;
  LLVMContextSetDiagnosticHandler(m->context, on_diagnostic, m);
  DT_TRY(emit_unit(m, map, unit));
  if (!passes)
    passes = host ? HOST_PASSES : kernel_passes(m, options);
  return dt__emit_finish(m, passes, host, options, unit, out_object, out_bytes);
}

// A host program of many launches is straight code, run once a call and small beside its kernels.
static dt_compile_options_t options_of(const dt_program_t *program, const dt_unit_map_t *map,
                                       uint32_t unit, const dt_compile_options_t *options) {
  dt_compile_options_t own = options ? *options : (dt_compile_options_t){0};
  own.quick |= unit + 1 == map->n_units && program->kernels.len > MANY_LAUNCHES;
  return own;
}

dt_status_t dt__llvm_compile_unit(const dt_program_t *program, const dt_unit_map_t *map,
                                  uint32_t unit, const dt_target_t *target,
                                  const dt_compile_options_t *options, void **out_object,
                                  size_t *out_bytes) {
  *out_object = NULL;
  *out_bytes = 0;
  if (unit >= map->n_units)
    return DT_FAIL(DT_E_ARGUMENT, "unit %u of %u", unit, map->n_units);
  char name[32];
  snprintf(name, sizeof(name), "ductile.%u", unit);
  dt_emit_t m;
  dt_compile_options_t own = options_of(program, map, unit, options);
  DT_TRY(dt__emit_init(&m, program, target, &own, name));
  dt_status_t status = first_cause(&m, compile(&m, map, unit, &own, out_object, out_bytes));
  dt__emit_fini(&m);
  return status;
}
