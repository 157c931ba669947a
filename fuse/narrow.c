// SPDX-License-Identifier: Apache-2.0
// Temporaries of f32 become halves (f16, bf16) if all their values are halves. Every op on halves
// rounds its result, and the next op casts it back. Fusion often leaves the temporary behind the
// second cast, where it takes twice the memory. The cast moves to the loads, so only the number of
// bytes changes.
#include "fuse/body.h"
#include "fuse/flow.h"
#include "fuse/fuse.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#include <string.h>

typedef struct narrow_t {
  dt_program_t *program;
  dt_flow_t flow;
  dt_buffer_id_t buffer;
  dt_dtype_t from, to;
} narrow_t;

// The instruction of a half whose cast the store stores, or DT_NO_INST.
static uint32_t half_of(const dt_stage_t *stage, const dt_store_t *store) {
  const dt_inst_t *value = &stage->insts.items[store->value];
  if (value->kind != DT_INST_CAST)
    return DT_NO_INST;
  return dt__dtype_is_half(stage->insts.items[value->args[0]].dtype) ? value->args[0] : DT_NO_INST;
}

static bool is_operand(const dt_kernel_t *kernel, uint32_t stage, uint32_t inst) {
  for (uint32_t s = 0; s < kernel->schedules.len && stage == 0; s++) {
    const dt_schedule_t *schedule = &kernel->schedules.items[s];
    if (dt__schedule_is_product(schedule) &&
        (schedule->product.a == inst || schedule->product.b == inst))
      return true;
  }
  return false;
}

// Whether no product of the stage reads the buffer as it is, and nothing that would not do the same
// with halves: fills that are no values of halves would be rounded.
static bool may_read_halves(const dt_kernel_t *kernel, uint32_t at, uint32_t id) {
  const dt_stage_t *stage = &kernel->stages.items[at];
  for (uint32_t i = 0; i < stage->insts.len; i++) {
    const dt_inst_t *inst = &stage->insts.items[i];
    if (dt__inst_reads(inst).id == id &&
        (inst->kind != DT_INST_LOAD || inst->args[0] != DT_NO_INST || is_operand(kernel, at, i)))
      return false;
  }
  return true;
}

// Whether all that the stage stores to the buffer are casts of one half type, the same as before.
static bool stores_halves(const dt_stage_t *stage, uint32_t id, dt_dtype_t *type, bool *any) {
  for (uint32_t i = 0; i < stage->stores.len; i++) {
    if (stage->stores.items[i].buffer.id != id)
      continue;
    uint32_t half = half_of(stage, &stage->stores.items[i]);
    if (half == DT_NO_INST || (*any && stage->insts.items[half].dtype != *type))
      return false;
    *type = stage->insts.items[half].dtype;
    *any = true;
  }
  return true;
}

// Of the buffer whose users stand in the flow.
static bool holds_halves(const narrow_t *n, dt_dtype_t *out) {
  bool any = false;
  for (uint32_t u = 0; u < n->flow.users.len; u++) {
    const dt_kernel_t *kernel = &n->program->kernels.items[n->flow.users.items[u]];
    for (uint32_t s = 0; s < kernel->stages.len; s++)
      if (!may_read_halves(kernel, s, n->buffer.id) ||
          !stores_halves(&kernel->stages.items[s], n->buffer.id, out, &any))
        return false;
  }
  return any;
}

// A load of the buffer becomes one of the half, and a cast.
static dt_status_t load_half(dt_body_copy_t *copy, const dt_inst_t *load, void *user,
                             uint32_t *out) {
  const narrow_t *n = user;
  dt_program_t *program = copy->program;
  if (load->buffer.id != n->buffer.id || load->kind != DT_INST_LOAD)
    return NULL;
  dt_inst_t narrow = *load;
  narrow.dtype = n->to;
  dt_inst_t wide = {.kind = DT_INST_CAST,
                    .dtype = n->from,
                    .args = {DT_NO_INST, DT_NO_INST, DT_NO_INST},
                    .mask = DT_NO_INST};
  DT_TRY(dt__stage_add(program, copy->into, &narrow, &wide.args[0]));
  return dt__stage_add(program, copy->into, &wide, out);
}

static dt_status_t rewrite_stage(narrow_t *n, dt_kernel_t *kernel, uint32_t at) {
  dt_stage_t *stage = &kernel->stages.items[at], fresh;
  bool reads = false;
  for (uint32_t i = 0; i < stage->stores.len; i++)
    if (stage->stores.items[i].buffer.id == n->buffer.id)
      stage->stores.items[i].value = half_of(stage, &stage->stores.items[i]);
  for (uint32_t i = 0; i < stage->insts.len; i++)
    reads |= dt__inst_reads(&stage->insts.items[i]).id == n->buffer.id;
  if (!reads)
    return NULL;
  dt__stage_start(&fresh, stage);
  dt_body_copy_t copy = {.program = n->program,
                         .into = &fresh,
                         .from = stage,
                         .mask = DT_NO_INST,
                         .hook = load_half,
                         .user = n};
  DT_TRY(dt__body_copy(&copy));
  DT_TRY(dt__body_copy_results(&copy));
  for (uint32_t s = 0; s < kernel->schedules.len && at == 0; s++) {
    dt_schedule_t *schedule = &kernel->schedules.items[s];
    if (dt__schedule_is_product(schedule)) {
      schedule->product.a = copy.map[schedule->product.a];
      schedule->product.b = copy.map[schedule->product.b];
    }
  }
  *stage = fresh;
  return NULL;
}

static bool has_halves(const dt_program_t *program) {
  for (uint32_t k = 0; k < program->kernels.len; k++)
    for (uint32_t s = 0; s < program->kernels.items[k].stages.len; s++) {
      const dt_stage_t *stage = &program->kernels.items[k].stages.items[s];
      for (uint32_t i = 0; i < stage->insts.len; i++)
        if (dt__dtype_is_half(stage->insts.items[i].dtype))
          return true;
    }
  return false;
}

static dt_status_t narrow_all(dt_program_t *program) {
  narrow_t n = {.program = program};
  DT_TRY(dt__flow_init(program, &n.flow));
  for (uint32_t b = 0; b < program->buffers.len; b++) {
    dt_buffer_t *buffer = &program->buffers.items[b];
    n.buffer = (dt_buffer_id_t){b + 1};
    n.from = buffer->dtype;
    bool scratch = buffer->kind == DT_BUFFER_TEMP || buffer->kind == DT_BUFFER_LOCAL;
    if (!scratch || buffer->dtype != DT_F32)
      continue;
    DT_TRY(dt__flow_users(&n.flow, b));
    if (!holds_halves(&n, &n.to))
      continue;
    for (uint32_t u = 0; u < n.flow.users.len; u++) {
      dt_kernel_t *kernel = &program->kernels.items[n.flow.users.items[u]];
      for (uint32_t s = 0; s < kernel->stages.len; s++)
        DT_TRY(rewrite_stage(&n, kernel, s));
    }
    buffer->dtype = n.to;
  }
  return NULL;
}

dt_status_t dt__fuse_narrow(dt_program_t *program, const dt_target_t *target) {
  if (has_halves(program))
    DT_TRY(narrow_all(program));
  return dt__fuse_prune(program, target);
}
