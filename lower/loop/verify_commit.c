// SPDX-License-Identifier: Apache-2.0
// The verifier of the commit point: a call that fails leaves the arguments that it updates
// unchanged. Kernels that update come last and cannot fail. If the host cannot know before them
// whether a check failed (devices), a gate must stop them.
#include "lower/loop/verify_private.h"
#include "runtime/base/status.h"

// ---- Updates of arguments ---------------------------------------------------------------------------
// What a revision joins its updates with; verify_body.c sees that it is at the same place.
static bool is_revised(const dt_stage_t *stage, dt_buffer_id_t id) {
  for (uint32_t k = 0; k < stage->stores.len; k++)
    if (stage->stores.items[k].revises && stage->stores.items[k].buffer.id == id.id)
      return true;
  return false;
}

static dt_status_t verify_reads(const dt_loop_verifier_t *v, const dt_stage_t *stage) {
  for (uint32_t i = 0; i < stage->insts.len; i++) {
    const dt_inst_t *inst = &stage->insts.items[i];
    dt_buffer_id_t read = dt__inst_reads(inst);
    if (dt__inst_checks(inst))
      return dt__loop_verify_fail(v, "it updates an argument and makes check %u", inst->check);
    if (read.id && dt__program_buffer(v->program, read)->kind == DT_BUFFER_INPUT &&
        !is_revised(stage, read))
      return dt__loop_verify_fail(v, "it updates an argument and reads buffer %u", read.id);
  }
  return NULL;
}

static dt_status_t verify_updates(const dt_loop_verifier_t *v) {
  const dt_kernel_t *kernel = v->kernel;
  if (kernel->slices)
    return dt__loop_verify_fail(v, "it updates an argument a slice at a time");
  if (v->program->regions.len && kernel->region)
    return dt__loop_verify_fail(v, "it updates an argument where data decides whether it runs");
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    DT_TRY(verify_reads(v, stage));
    for (uint32_t k = 0; k < stage->stores.len; k++) {
      dt_buffer_id_t id = stage->stores.items[k].buffer;
      if (dt__program_buffer(v->program, id)->kind != DT_BUFFER_INPUT)
        return dt__loop_verify_fail(v, "it updates an argument and writes buffer %u", id.id);
    }
  }
  return NULL;
}

// ---- Gate -------------------------------------------------------------------------------------------
static bool checks(const dt_inst_t *inst) { return dt__inst_checks(inst); }
static bool asks(const dt_inst_t *inst) { return inst->kind == DT_INST_SOUND; }

static bool has_inst(const dt_kernel_t *kernel, bool (*is)(const dt_inst_t *inst)) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].insts.len; i++)
      if (is(&kernel->stages.items[s].insts.items[i]))
        return true;
  return false;
}

// What says whether all checks held is computed by one kernel, behind all of them, and is the gate
// of all that updates.
static dt_status_t verify_gate(dt_loop_verifier_t *v) {
  const dt_program_t *program = v->program;
  dt_buffer_id_t gate = dt__program_commit_gate(program);
  bool found = false;
  for (v->kernel_at = 0; v->kernel_at < program->kernels.len; v->kernel_at++) {
    v->kernel = &program->kernels.items[v->kernel_at];
    if (found && (has_inst(v->kernel, checks) || has_inst(v->kernel, asks)))
      return dt__loop_verify_fail(v, "it comes after the gate of updates and checks something");
    found |= has_inst(v->kernel, asks);
    if (gate.id && dt__kernel_updates(program, v->kernel) && v->kernel->gate.id != gate.id)
      return dt__loop_verify_fail(v, "it updates an argument behind gate %u; expected %u",
                                  v->kernel->gate.id, gate.id);
  }
  v->kernel = NULL;
  return found && !gate.id ? dt__loop_verify_fail(v, "the gate of updates is stored nowhere")
                           : NULL;
}

dt_status_t dt__loop_verify_commit(dt_loop_verifier_t *v) {
  const dt_program_t *program = v->program;
  uint32_t commit = dt__program_commit(program);
  for (v->kernel_at = commit; v->kernel_at < program->kernels.len; v->kernel_at++) {
    v->kernel = &program->kernels.items[v->kernel_at];
    if (!dt__kernel_updates(program, v->kernel))
      return dt__loop_verify_fail(v, "it comes after a kernel that updates an argument");
    DT_TRY(verify_updates(v));
  }
  v->kernel = NULL;
  return verify_gate(v);
}
