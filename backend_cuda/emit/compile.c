// SPDX-License-Identifier: Apache-2.0
// One unit of kernels to PTX text.
#include "backend_cuda/emit/emit.h"

#include "backend_cuda/emit/early.h"
#include "backend_cuda/emit/kernel.h"
#include "backend_cuda/emit/matmul.h"
#include "backend_llvm/emit/grid.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <stdio.h>

// As for CPUs (backend_llvm/emit/compile.c), and: addresses get the space of memory that they are
// known to be in, and small functions become part of their callers.
#define KERNEL_PASSES                                                                              \
  "function(sroa,early-cse<memssa>,infer-address-spaces,instcombine<no-verify-fixpoint>,"          \
  "simplifycfg,loop-mssa(licm),gvn,instcombine<no-verify-fixpoint>,infer-address-spaces,"          \
  "simplifycfg,loop-unroll<O2;partial;runtime;no-upperbound>,instcombine<no-verify-fixpoint>,"     \
  "simplifycfg,dce)"

static void enter_nvptx(void) {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
}

static dt_llvm_machine_t nvptx = {"nvptx64-nvidia-cuda", enter_nvptx, false};

// The entry whose first code is `code`.
static dt_status_t emit_entry(dt_emit_t *m, const dt_unit_map_t *map, uint32_t code) {
  uint32_t n = 0, members = 0;
  for (uint32_t i = code; i < map->n_codes; i++)
    members += map->entry_of_code[i] == code;
  dt_code_origin_t *codes = DT_ARENA_ARRAY(&m->arena, dt_code_origin_t, members);
  if (!codes)
    return DT_NO_MEMORY();
  for (uint32_t i = code; i < map->n_codes; i++)
    if (map->entry_of_code[i] == code)
      codes[n++] = map->origin_of_code[i];
  char name[32];
  (void)snprintf(name, sizeof(name), "dt_k%u", code);
  dt_status_t status = dt__cuda_emit_entry(m, codes, n, name);
  if (!status)
    status = dt__emit_take_failure(m);
  return dt__status_annotate(status, "kernel %s", m->program.kernels.items[codes[0].kernel].name);
}

static dt_status_t emit_entries(dt_emit_t *m, const dt_unit_map_t *map, uint32_t unit) {
  for (uint32_t code = 0; code < map->n_codes; code++)
    if (map->unit_of_code[code] == unit && map->entry_of_code[code] == code)
      DT_TRY(emit_entry(m, map, code));
  return NULL;
}

// Units are linked into one piece of code: functions of each unit's own get names of its own.
static void name_own_functions(dt_emit_t *m, uint32_t unit) {
  for (LLVMValueRef fn = LLVMGetFirstFunction(m->module); fn; fn = LLVMGetNextFunction(fn)) {
    if (LLVMGetLinkage(fn) != LLVMInternalLinkage)
      continue;
    size_t bytes = 0;
    char name[128];
    int written = snprintf(name, sizeof(name), "%s_u%u", LLVMGetValueName2(fn, &bytes), unit);
    LLVMSetValueName2(fn, name,
                      (size_t)written < sizeof(name) ? (size_t)written : sizeof(name) - 1);
  }
}

dt_status_t dt__cuda_compile_unit(const dt_program_t *program, const dt_unit_map_t *map,
                                  uint32_t unit, const dt_target_t *target,
                                  const dt_compile_options_t *options, char **out_text,
                                  size_t *out_bytes) {
  *out_text = NULL;
  *out_bytes = 0;
  if (unit + 1 >= map->n_units)
    return DT_FAIL(DT_E_ARGUMENT, "unit %u of %u kernel units", unit, map->n_units - 1);
  char name[32];
  (void)snprintf(name, sizeof(name), "ductile.%u", unit);
  dt_emit_t m;
  DT_TRY(dt__emit_open(&m, program, target, name));
  m.device = &dt__cuda_device_emit;
  // Under strict_fp functions have the bits that CPUs give them.
  m.math.fast = target->strict_fp ? NULL : &dt__cuda_device_emit.fast;
  dt_status_t status = dt__emit_machine(&m, &nvptx, target, LLVMCodeGenLevelDefault);
  if (!status)
    status = dt__cuda_slabs_stride(&m);
  if (!status)
    status = emit_entries(&m, map, unit);
  name_own_functions(&m, unit);
  void *text = NULL;
  if (!status)
    status = dt__emit_finish(&m, KERNEL_PASSES, false, options, unit, &text, out_bytes);
  dt__emit_fini(&m);
  char *ptx = text;
  if (!status && dt__cuda_waits(target))
    status = dt__cuda_settle_waits(&ptx, out_bytes);
  if (!status && options && options->dump_name && dt__dump_on("ptx"))
    dt__dump(options->dump_name, options->dump_variant, 2 * unit + 1, "ptx", ptx);
  if (status) {
    dt__free(ptx);
    ptx = NULL;
  }
  *out_text = ptx;
  return status;
}

// It writes the call's record, or reads it.
static bool kernel_checks(const dt_kernel_t *kernel) {
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    for (uint32_t i = 0; i < stage->insts.len; i++)
      if (dt__inst_checks(&stage->insts.items[i]) || stage->insts.items[i].kind == DT_INST_SOUND)
        return true;
  }
  return false;
}

static bool launch_checks(const dt_program_t *program, uint32_t head) {
  dt_kernel_chain_t chain = dt__kernel_chain(program, head);
  for (uint32_t k = chain.first; k < chain.end; k++)
    if (kernel_checks(&program->kernels.items[k]))
      return true;
  return false;
}

// Where data says how many grid items there are the grid is for the most that there may be: most
// blocks would have nothing to do.
#define SIZED_BLOCKS 32 // a multiprocessor

static uint32_t useful_blocks(const dt_program_t *program, const dt_kernel_t *kernel,
                              const dt_schedule_t *schedule) {
  bool sized = false;
  for (uint32_t v = 0; v < kernel->n_loops && program->device_sized; v++)
    sized |= dt__expr_readbacks(program, kernel->extents[v]) != 0;
  return sized && !schedule->most ? SIZED_BLOCKS : schedule->most;
}

dt_status_t dt__cuda_kernel_info(dt_program_t *program, const dt_unit_map_t *map, uint32_t code,
                                 const dt_target_t *target, dt_cuda_kernel_info_t *out) {
  dt_code_origin_t origin = map->origin_of_code[code];
  const dt_kernel_t *kernel = &program->kernels.items[origin.kernel];
  const dt_schedule_t *schedule = &kernel->schedules.items[origin.schedule];
  dt_kernel_params_t params = {0};
  dt_text_t text;
  dt__text_init(&text);
  dt_status_t status =
      dt__chain_print(program, dt__kernel_chain(program, origin.kernel), &params, &text);
  dt__text_fini(&text);
  DT_TRY(status);
  uint32_t team = schedule->team ? schedule->team : 1, shared_bytes = 0;
  dt_matmul_plan_t plan = {0};
  dt_cuda_chain_t chain = {0};
  dt_kernel_chain_t launched = dt__kernel_chain(program, origin.kernel);
  bool bundle = dt__chain_is_bundle(program, launched);
  if (kernel->chain && !bundle)
    DT_TRY(dt__cuda_chain(program, origin.kernel, origin.schedule, target->strict_fp, &chain));
  else if (schedule->kind == DT_SCHEDULE_TEAM_MATMUL)
    DT_TRY(dt__matmul_plan(program, kernel, schedule, target->strict_fp, &plan));
  shared_bytes = kernel->chain ? chain.shared_bytes : plan.shared_bytes;
  uint32_t threads = bundle ? dt__bundle_threads(program, target, launched)
                            : dt__cuda_block_threads(target, schedule);
  *out =
      (dt_cuda_kernel_info_t){.threads = threads,
                              .teams = bundle ? 1 : threads / team,
                              .n_words = params.n_buffers + params.n_symbols,
                              .unit = map->unit_of_code[code],
                              .behind = code - map->entry_of_code[code],
                              .member = map->member_of_code[code],
                              .waits = dt__cuda_waits(target),
                              .checks = launch_checks(program, origin.kernel),
                              .most_blocks = bundle ? 0 : useful_blocks(program, kernel, schedule),
                              .shared_bytes = shared_bytes};
  return NULL;
}
