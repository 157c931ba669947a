// SPDX-License-Identifier: Apache-2.0
// Operands of products on devices, read where they lie. Copies to shared memory can widen nothing,
// but they skip what is outside of an image as easily as what is outside of a matrix. So what only
// moves elements, zeros around them included, and what widens halves, goes into the product's own
// reads, and the temporaries between are not made:
//
//   cast f32 x -> pad -> windows times w     ->     windows of x, masked by the image, times w
//
// Padding goes in where the other factor is constant, as in convolutions: elsewhere the padded
// matrix has rows that are copied faster.
#include "fuse/operands.h"

#include "fuse/body.h"
#include "fuse/flow.h"
#include "fuse/prune.h"
#include "runtime/base/dtype.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

#define MOST_STEPS 8 // from an operand back to what it is made of

typedef struct direct_t {
  dt_program_t *program;
  dt_flow_t *flow;
  dt_fixed_t fixed;
} direct_t;

// One load on its way into another kernel's stage.
typedef struct source_t {
  uint32_t load;             // of the product's stage
  const dt_kernel_t *maker;  // of what it reads
  dt_sym_t at[DT_MAX_LOOPS]; // the maker's loops, as the load's place says
} source_t;

static bool is_zero(const dt_stage_t *stage, uint32_t inst) {
  static const dt_scalar_t zero;
  const dt_inst_t *it = inst == DT_NO_INST ? NULL : &stage->insts.items[inst];
  return !it || (it->kind == DT_INST_CONST && !memcmp(&it->value, &zero, sizeof(zero)));
}

static bool is_mask(const dt_stage_t *stage, uint32_t inst) {
  return inst == DT_NO_INST || stage->insts.items[inst].kind == DT_INST_INDEX;
}

// The load that all of a map's body is, with zeros outside of its mask; `widens`: or the cast of
// one. DT_NO_INST: it is more.
static uint32_t only_load(const dt_stage_t *body, bool widens) {
  uint32_t value = body->stores.items[0].value, n = 1;
  const dt_inst_t *inst = &body->insts.items[value];
  if (widens) {
    if (inst->kind != DT_INST_CAST || inst->dtype != DT_F32)
      return DT_NO_INST;
    value = inst->args[0];
    inst = &body->insts.items[value];
    n++;
    if (!dt__dtype_is_half(inst->dtype))
      return DT_NO_INST;
  }
  if (inst->kind != DT_INST_LOAD || !is_mask(body, inst->mask) || !is_zero(body, inst->args[0]))
    return DT_NO_INST;
  n += inst->mask != DT_NO_INST ? 1 : 0;
  n += inst->args[0] != DT_NO_INST ? 1 : 0;
  return body->insts.len == n ? value : DT_NO_INST;
}

// Whether what load `id` of the stage reads is made by moving elements, or, where it may, by
// widening them.
static bool find_source(const direct_t *d, const dt_stage_t *stage, uint32_t id, bool widens,
                        bool pads, source_t *out) {
  const dt_program_t *program = d->program;
  const dt_inst_t *load = &stage->insts.items[id];
  const dt_buffer_t *buffer = dt__program_buffer(program, load->buffer);
  uint32_t k = dt__flow_writer(d->flow, load->buffer.id - 1);
  if (buffer->kind != DT_BUFFER_TEMP || k == DT_FLOW_NONE || load->args[0] != DT_NO_INST)
    return false;
  *out = (source_t){.load = id, .maker = &program->kernels.items[k]};
  if (out->maker->schedules.len || !dt__kernel_is_map(program, out->maker))
    return false;
  const dt_stage_t *body = &out->maker->stages.items[0];
  uint32_t from = only_load(body, widens);
  bool masked = from != DT_NO_INST && body->insts.items[from].mask != DT_NO_INST;
  return from != DT_NO_INST && body->stores.items[0].mask == DT_NO_INST &&
         !(masked && (!pads || load->mask != DT_NO_INST)) &&
         dt__map_invert(program, out->maker, load, out->at);
}

// dt_load_hook_t: the maker's own load, and what it makes of it.
static dt_status_t answer(dt_body_copy_t *copy, const dt_inst_t *load, void *user, uint32_t *out) {
  const source_t *source = user;
  const dt_stage_t *body = &source->maker->stages.items[0];
  if (load->buffer.id != body->stores.items[0].buffer.id)
    return NULL;
  dt_body_copy_t moved = {
      .program = copy->program, .into = copy->into, .from = body, .mask = load->mask};
  for (uint32_t v = 0; v < source->maker->n_loops; v++)
    DT_TRY(dt__body_rename(&moved, source->maker->vars[v], source->at[v]));
  DT_TRY(dt__body_copy(&moved));
  for (uint32_t i = 0; i < body->insts.len; i++) // zero is what masks leave
    if (body->insts.items[i].kind == DT_INST_LOAD)
      copy->into->insts.items[moved.map[i]].args[0] = DT_NO_INST;
  *out = moved.map[body->stores.items[0].value];
  return NULL;
}

static dt_status_t replace(const direct_t *d, dt_stage_t *stage, source_t *source) {
  dt_stage_t fresh;
  dt__stage_start(&fresh, stage);
  dt_body_copy_t copy = {.program = d->program,
                         .into = &fresh,
                         .from = stage,
                         .mask = DT_NO_INST,
                         .hook = answer,
                         .user = source};
  DT_TRY(dt__body_copy(&copy));
  DT_TRY(dt__body_copy_results(&copy));
  DT_TRY(dt__prune_stage(d->program, &fresh));
  *stage = fresh;
  return NULL;
}

// One step back from one of the two factors; *out: it was made.
static dt_status_t step_back(const direct_t *d, dt_kernel_t *kernel, bool widens, bool *out) {
  dt_stage_t *stage = &kernel->stages.items[0];
  uint32_t factors[2];
  *out = false;
  if (!dt__kernel_is_product(kernel, &factors[0], &factors[1]))
    return NULL;
  for (uint32_t i = 0; i < 2 && !*out; i++) {
    const dt_inst_t *load = &stage->insts.items[factors[i]];
    const dt_inst_t *other = &stage->insts.items[factors[1 - i]];
    bool pads = dt__is_fixed(d->program, &d->fixed, other->buffer) &&
                !dt__is_fixed(d->program, &d->fixed, load->buffer);
    source_t source;
    *out = load->buffer.id != other->buffer.id &&
           (find_source(d, stage, factors[i], false, pads, &source) ||
            (widens && load->dtype == DT_F32 &&
             find_source(d, stage, factors[i], true, pads, &source)));
    if (*out)
      DT_TRY(replace(d, stage, &source));
  }
  return NULL;
}

// Tiles hold one dtype.
static bool is_uniform(const dt_kernel_t *kernel) {
  uint32_t a = 0, b = 0;
  if (!dt__kernel_is_product(kernel, &a, &b))
    return false;
  const dt_inst_t *insts = kernel->stages.items[0].insts.items;
  return insts[a].dtype == insts[b].dtype;
}

static dt_status_t read_directly(const direct_t *d, dt_kernel_t *kernel, bool widens, bool *out) {
  dt_kernel_t fresh = *kernel;
  bool more = true, any = false;
  *out = false;
  if (!dt__kernel_copy(d->program, &fresh))
    return DT_NO_MEMORY();
  for (uint32_t n = 0; more && n < MOST_STEPS; n++) {
    DT_TRY(step_back(d, &fresh, widens, &more));
    any = any || more;
  }
  *out = any && is_uniform(&fresh);
  if (*out)
    *kernel = fresh;
  return NULL;
}

dt_status_t dt__operands_direct(dt_program_t *program, dt_flow_t *flow, bool *out_changed) {
  direct_t d = {.program = program, .flow = flow};
  uint32_t a = 0, b = 0;
  *out_changed = false;
  DT_TRY(dt__find_fixed(program, &d.fixed));
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    dt_kernel_t *kernel = &program->kernels.items[k];
    bool done = false;
    if (kernel->schedules.len || !dt__kernel_is_product(kernel, &a, &b))
      continue;
    DT_TRY(read_directly(&d, kernel, true, &done));
    if (!done)
      DT_TRY(read_directly(&d, kernel, false, &done));
    if (done)
      DT_LOG(DT_LOG_FUSION, 1, "%s: operands are read where they lie", kernel->name);
    *out_changed = *out_changed || done;
  }
  return dt__symenv_status(program->env);
}
