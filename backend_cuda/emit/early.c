// SPDX-License-Identifier: Apache-2.0
// See early.h.
#include "backend_cuda/emit/early.h"

#include "backend_cuda/driver/driver.h"
#include "backend_cuda/emit/early_text.h"

#include <stdlib.h>
#include <string.h>

#define GLOBAL_SPACE 1

bool dt__cuda_waits(const dt_target_t *target) {
  return strncmp(target->cpu, "sm_", 3) == 0 && atoi(target->cpu + 3) >= 10 * DT_CUDA_EARLY_MAJOR;
}

// ---- Instructions ---------------------------------------------------------------------------------

static void instruction(dt_emit_t *m, const char *text, const char *constraints, LLVMTypeRef *types,
                        LLVMValueRef *args, uint32_t n) {
  LLVMTypeRef type = LLVMFunctionType(m->t_void, types, n, 0);
  LLVMValueRef code = LLVMGetInlineAsm(type, text, strlen(text), constraints, strlen(constraints),
                                       true, false, LLVMInlineAsmDialectATT, false);
  (void)LLVMBuildCall2(m->b, type, code, args, n, "");
}

// LLVM says of its own intrinsic for this that it touches no memory; a wait that loads may pass is
// none.
//
// The launch after this one could begin with it, but then blocks of three launches are there at a
// time, and the smallest calls take longer (docs/performance.md).
void dt__cuda_wait_for_work(dt_emit_t *m) {
  if (!dt__cuda_waits(m->target))
    return;
  instruction(m, DT_EARLY_WAIT, "~{memory}", NULL, NULL, 0);
  instruction(m, "griddepcontrol.launch_dependents;", "", NULL, NULL, 0);
}

// ---- Constants ------------------------------------------------------------------------------------

bool dt__cuda_is_settled(const dt_body_t *k, dt_buffer_id_t buffer) {
  const dt_program_t *program = &k->m->program;
  dt_buffer_kind_t kind = dt__program_buffer(program, buffer)->kind;
  bool once = k->kernel < program->kernels.items + program->n_once;
  return (kind == DT_BUFFER_CONSTANT || (kind == DT_BUFFER_ONCE && !once)) &&
         !k->written[buffer.id - 1];
}

void dt__cuda_copy_early(dt_emit_t *m, LLVMValueRef to, LLVMValueRef from, LLVMValueRef bytes) {
  static const char text[] = DT_EARLY_MARK "\n\tcp.async.cg.shared.global [$0], [$1], 16, $2;";
  LLVMTypeRef global = LLVMPointerTypeInContext(m->context, GLOBAL_SPACE);
  LLVMTypeRef types[3] = {m->t_i64, m->t_i64, m->t_i32};
  LLVMValueRef here = LLVMBuildAddrSpaceCast(m->b, from, global, "");
  LLVMValueRef args[3] = {LLVMBuildPtrToInt(m->b, to, m->t_i64, ""),
                          LLVMBuildPtrToInt(m->b, here, m->t_i64, ""), bytes};
  instruction(m, text, "l,l,r,~{memory}", types, args, 3);
}
