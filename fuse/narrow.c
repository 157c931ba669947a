// SPDX-License-Identifier: Apache-2.0
// Temporaries that hold less than they take. Those of f32 become halves (f16, bf16) if all their
// values are halves: every op on halves rounds its result, and the next op casts it back. They
// become integers of 8 bits, on CPUs, if all their values are made of one such integer and literals
// by few ops, as dequantised ones are. Fusion often leaves the temporary behind these steps, where
// it takes two or four times the memory. The steps move to the loads, so only the number of bytes
// changes.
#include "fuse/body.h"
#include "fuse/flow.h"
#include "fuse/fuse.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#include <string.h>

#define MOST_STEPS 4

// An op of one value, whose other operands are literals.
typedef struct step_t {
  dt_inst_t inst;
  uint32_t from;         // which operand the value is
  dt_inst_t literals[3]; // the others
} step_t;

// How stored values are made of narrow ones, the first step last.
typedef struct way_t {
  dt_dtype_t narrow;
  uint32_t n;
  step_t steps[MOST_STEPS];
} way_t;

typedef struct narrow_t {
  dt_program_t *program;
  bool bytes; // are taken, too
  dt_flow_t flow;
  dt_buffer_id_t buffer;
  way_t way;
} narrow_t;

static bool is_literal(const dt_stage_t *stage, uint32_t inst) {
  return stage->insts.items[inst].kind == DT_INST_CONST;
}

static bool take_step(const dt_stage_t *stage, const dt_inst_t *inst, step_t *out) {
  uint32_t values = 0;
  *out = (step_t){.inst = *inst};
  if (inst->kind != DT_INST_CAST && inst->kind != DT_INST_SCALAR)
    return false;
  for (uint32_t k = 0; k < 3; k++) {
    if (inst->args[k] == DT_NO_INST)
      continue;
    if (is_literal(stage, inst->args[k])) {
      out->literals[k] = stage->insts.items[inst->args[k]];
      continue;
    }
    values++;
    out->from = k;
  }
  return values == 1;
}

static bool is_narrow(dt_dtype_t dtype, uint32_t steps) {
  return dt__dtype_is_half(dtype) ? steps == 1 : dtype == DT_U8 || dtype == DT_I8;
}

// The narrow instruction that `value` is made of, and how; or DT_NO_INST.
static uint32_t find_way(const dt_stage_t *stage, uint32_t value, way_t *out) {
  for (out->n = 0; out->n < MOST_STEPS;) {
    const dt_inst_t *inst = &stage->insts.items[value];
    step_t *step = &out->steps[out->n];
    if (!take_step(stage, inst, step))
      return DT_NO_INST;
    out->n++;
    value = inst->args[step->from];
    out->narrow = stage->insts.items[value].dtype;
    if (inst->kind == DT_INST_CAST && is_narrow(out->narrow, out->n))
      return value;
  }
  return DT_NO_INST;
}

static bool same_step(const step_t *a, const step_t *b) {
  bool same = a->inst.kind == b->inst.kind && a->inst.dtype == b->inst.dtype &&
              a->inst.op == b->inst.op && a->from == b->from;
  for (uint32_t k = 0; k < 3 && same && a->inst.kind == DT_INST_SCALAR; k++)
    same = a->literals[k].kind == b->literals[k].kind &&
           a->literals[k].dtype == b->literals[k].dtype &&
           memcmp(&a->literals[k].value, &b->literals[k].value, sizeof(dt_scalar_t)) == 0;
  return same;
}

static bool same_way(const way_t *a, const way_t *b) {
  bool same = a->narrow == b->narrow && a->n == b->n;
  for (uint32_t k = 0; k < a->n && same; k++)
    same = same_step(&a->steps[k], &b->steps[k]);
  return same;
}

static bool is_operand(const dt_kernel_t *kernel, uint32_t stage, uint32_t inst) {
  for (uint32_t s = 0; s < kernel->schedules.len && stage == 0; s++) {
    const dt_schedule_t *schedule = &kernel->schedules.items[s];
    // Where B is made of codes, so are scales and zeros; of squares all is read as it lies.
    bool all = schedule->kind == DT_SCHEDULE_MATMUL &&
               (schedule->matmul.bits || schedule->matmul.across.id);
    if (dt__schedule_is_product(schedule) &&
        (all || schedule->product.a == inst || schedule->product.b == inst))
      return true;
  }
  return false;
}

// Whether no product of the stage reads the buffer as it is, and nothing that would not do the same
// with narrow values: fills would have to be made of such, too.
static bool may_read_narrow(const dt_kernel_t *kernel, uint32_t at, uint32_t id) {
  const dt_stage_t *stage = &kernel->stages.items[at];
  for (uint32_t i = 0; i < stage->insts.len; i++) {
    const dt_inst_t *inst = &stage->insts.items[i];
    if (dt__inst_reads(inst).id == id &&
        (inst->kind != DT_INST_LOAD || inst->args[0] != DT_NO_INST || is_operand(kernel, at, i)))
      return false;
  }
  return true;
}

// Zeros that masks leave stay zeros through casts alone.
static bool reads_unmasked(const dt_stage_t *stage, uint32_t id) {
  for (uint32_t i = 0; i < stage->insts.len; i++)
    if (dt__inst_reads(&stage->insts.items[i]).id == id && stage->insts.items[i].mask != DT_NO_INST)
      return false;
  return true;
}

// Whether all that the stage stores to the buffer is made in one way, the same as before.
static bool stores_narrow(const dt_stage_t *stage, uint32_t id, way_t *way, bool *any) {
  for (uint32_t i = 0; i < stage->stores.len; i++) {
    way_t own;
    if (stage->stores.items[i].buffer.id != id)
      continue;
    if (find_way(stage, stage->stores.items[i].value, &own) == DT_NO_INST ||
        (*any && !same_way(&own, way)))
      return false;
    *way = own;
    *any = true;
  }
  return true;
}

// Of the buffer whose users stand in the flow.
static bool holds_narrow(const narrow_t *n, way_t *out) {
  bool any = false, unmasked = true;
  for (uint32_t u = 0; u < n->flow.users.len; u++) {
    const dt_kernel_t *kernel = &n->program->kernels.items[n->flow.users.items[u]];
    for (uint32_t s = 0; s < kernel->stages.len; s++) {
      if (!may_read_narrow(kernel, s, n->buffer.id) ||
          !stores_narrow(&kernel->stages.items[s], n->buffer.id, out, &any))
        return false;
      unmasked = unmasked && reads_unmasked(&kernel->stages.items[s], n->buffer.id);
    }
  }
  bool casts = true;
  for (uint32_t k = 0; any && k < out->n; k++)
    casts = casts && out->steps[k].inst.kind == DT_INST_CAST;
  return any && (casts || unmasked) && (n->bytes || dt__dtype_is_half(out->narrow));
}

// A load of the buffer becomes one of the narrow value, and the steps from there.
static dt_status_t load_narrow(dt_body_copy_t *copy, const dt_inst_t *load, void *user,
                               uint32_t *out) {
  const narrow_t *n = user;
  dt_program_t *program = copy->program;
  if (load->buffer.id != n->buffer.id || load->kind != DT_INST_LOAD)
    return NULL;
  dt_inst_t narrow = *load;
  narrow.dtype = n->way.narrow;
  DT_TRY(dt__stage_add(program, copy->into, &narrow, out));
  for (uint32_t k = n->way.n; k-- > 0;) {
    const step_t *step = &n->way.steps[k];
    dt_inst_t inst = step->inst;
    for (uint32_t a = 0; a < 3; a++)
      if (a == step->from)
        inst.args[a] = *out;
      else if (inst.args[a] != DT_NO_INST)
        DT_TRY(dt__stage_add(program, copy->into, &step->literals[a], &inst.args[a]));
    DT_TRY(dt__stage_add(program, copy->into, &inst, out));
  }
  return NULL;
}

static dt_status_t rewrite_stage(narrow_t *n, dt_kernel_t *kernel, uint32_t at) {
  dt_stage_t *stage = &kernel->stages.items[at], fresh;
  bool reads = false;
  way_t way;
  for (uint32_t i = 0; i < stage->stores.len; i++)
    if (stage->stores.items[i].buffer.id == n->buffer.id)
      stage->stores.items[i].value = find_way(stage, stage->stores.items[i].value, &way);
  for (uint32_t i = 0; i < stage->insts.len; i++)
    reads |= dt__inst_reads(&stage->insts.items[i]).id == n->buffer.id;
  if (!reads)
    return NULL;
  dt__stage_start(&fresh, stage);
  dt_body_copy_t copy = {.program = n->program,
                         .into = &fresh,
                         .from = stage,
                         .mask = DT_NO_INST,
                         .hook = load_narrow,
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

static bool has_narrow(const dt_program_t *program) {
  for (uint32_t k = 0; k < program->kernels.len; k++)
    for (uint32_t s = 0; s < program->kernels.items[k].stages.len; s++) {
      const dt_stage_t *stage = &program->kernels.items[k].stages.items[s];
      for (uint32_t i = 0; i < stage->insts.len; i++)
        if (is_narrow(stage->insts.items[i].dtype, 1))
          return true;
    }
  return false;
}

static dt_status_t narrow_all(dt_program_t *program, bool bytes) {
  narrow_t n = {.program = program, .bytes = bytes};
  DT_TRY(dt__flow_init(program, &n.flow));
  for (uint32_t b = 0; b < program->buffers.len; b++) {
    dt_buffer_t *buffer = &program->buffers.items[b];
    n.buffer = (dt_buffer_id_t){b + 1};
    bool scratch = buffer->kind == DT_BUFFER_TEMP || buffer->kind == DT_BUFFER_LOCAL;
    if (!scratch || buffer->dtype != DT_F32)
      continue;
    DT_TRY(dt__flow_users(&n.flow, b));
    if (!holds_narrow(&n, &n.way))
      continue;
    for (uint32_t u = 0; u < n.flow.users.len; u++) {
      dt_kernel_t *kernel = &program->kernels.items[n.flow.users.items[u]];
      for (uint32_t s = 0; s < kernel->stages.len; s++)
        DT_TRY(rewrite_stage(&n, kernel, s));
    }
    buffer->dtype = n.way.narrow;
  }
  return NULL;
}

dt_status_t dt__fuse_narrow(dt_program_t *program, const dt_target_t *target) {
  if (has_narrow(program))
    DT_TRY(narrow_all(program, !dt__target_has_teams(target)));
  return dt__fuse_prune(program, target);
}
