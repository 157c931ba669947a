// SPDX-License-Identifier: Apache-2.0
// What a kernel and its schedule fix of the matrix template: how operands lie in shared memory, who
// computes what, and how many bytes a block needs. Bytes are the same whichever way operands lie,
// so that they follow from the schedule and the element sizes alone.
#include "backend_cuda/emit/matmul.h"
#include "backend_llvm/emit/aligned.h"

// With more tiles, one may be multiplied while the next one's copies are awaited.
#define LEAST_RING 3
#define PAD 16 // bytes after a row of a tile: ldmatrix and 16-byte accesses then meet no bank twice

static dt_status_t refuse(const dt_kernel_t *kernel, const char *why) {
  return DT_FAIL(DT_E_INTERNAL, "matrix template of kernel %s: %s", kernel->name, why);
}

static bool steps_by_one(dt_program_t *program, const dt_inst_t *load, dt_sym_t var) {
  dt_sym_t offset = dt__buffer_offset(program, load->buffer, load->index), coef, rest;
  int64_t step = 0;
  return dt__sym_linear(program->env, offset, var, &coef, &rest) &&
         dt__sym_is_const(program->env, coef, &step) && step == 1;
}

static bool is_linear(dt_program_t *program, const dt_inst_t *load, dt_sym_t var) {
  dt_sym_t offset = dt__buffer_offset(program, load->buffer, load->index), coef, rest;
  return dt__sym_linear(program->env, offset, var, &coef, &rest);
}

static bool sums_linearly(dt_program_t *program, const dt_stage_t *stage, const dt_inst_t *load) {
  for (uint32_t v = 0; v < stage->n_loops; v++)
    if (!is_linear(program, load, stage->vars[v]))
      return false;
  return true;
}

// The load is of the element that `var` counts in the last dim.
static bool reads_row(const dt_program_t *program, const dt_inst_t *load, dt_sym_t var) {
  return load->index[dt__program_buffer(program, load->buffer)->rank - 1].id == var.id;
}

static bool has_binds(const dt_stage_t *stage) {
  for (uint32_t i = 0; i < stage->insts.len; i++)
    if (stage->insts.items[i].kind == DT_INST_BIND)
      return true;
  return false;
}

static uint32_t most(uint32_t a, uint32_t b) { return a > b ? a : b; }

// Bytes of one operand's tile, the larger of both layouts.
static uint32_t tile_bytes(const dt_operand_t *o, uint32_t depth) {
  uint32_t element = (uint32_t)dt_dtype_size(o->dtype);
  if (o->panels)
    return o->length * depth * element;
  return most(o->length * (depth * element + PAD), depth * (o->length * element + PAD));
}

static void lay_out(dt_program_t *program, const dt_kernel_t *kernel, uint32_t depth,
                    dt_operand_t *o) {
  const dt_stage_t *stage = &kernel->stages.items[0];
  const dt_inst_t *load = &stage->insts.items[o->load];
  bool by_k = steps_by_one(program, load, stage->vars[stage->n_loops - 1]);
  bool by_var = steps_by_one(program, load, o->var);
  dt_buffer_kind_t kind = dt__program_buffer(program, load->buffer)->kind;
  bool plain = load->dtype == o->dtype && load->args[0] == DT_NO_INST && !has_binds(stage) &&
               kind != DT_BUFFER_LOCAL;
  bool one = stage->n_loops == 1 && load->mask == DT_NO_INST;
  bool apart = !kernel->chain && dt__matmul_tests_apart(program, stage, load->mask);
  bool padded = DT_SLAB_UNIT % (depth * dt_dtype_size(o->dtype)) == 0;
  o->along_k = by_k || !by_var;
  o->copy = DT_COPY_ELEMENTS;
  o->mask = load->mask;
  o->scattered = !is_linear(program, load, o->var);
  if (plain && one && kind == DT_BUFFER_SLAB)
    o->copy = padded && reads_row(program, load, stage->vars[0]) ? DT_COPY_SLAB : DT_COPY_ELEMENTS;
  else if (plain && sums_linearly(program, stage, load) &&
           ((by_k && (one || apart) && !(kernel->chain && o->scattered)) || (by_var && one)))
    o->copy = DT_COPY_UNITS; // from unit to unit, and from tile to tile, by strides
  o->inner = o->along_k ? depth : o->length;
  o->outer = o->along_k ? o->length : depth;
  o->pitch = o->panels ? DT_PANEL_BYTES : o->inner * (uint32_t)dt_dtype_size(o->dtype) + PAD;
}

static bool is_power(uint32_t n) { return n && (n & (n - 1)) == 0; }

static bool fits_warps(const dt_matmul_plan_t *p) {
  const dt_team_matmul_t *m = p->matmul;
  uint32_t step = p->tensor ? 16 : 4;
  return m->group_rows % 16 == 0 && m->group_cols % 16 == 0 && p->slices &&
         m->depth / p->slices % step == 0 &&
         p->warps_m * p->warps_n * p->slices * DT_WARP == p->threads &&
         m->group_rows * m->group_cols / DT_WARP <= DT_MATMUL_MAX_SUMS && is_power(p->threads) &&
         is_power(m->tile_rows) && is_power(m->depth) && is_power(m->group_rows) &&
         ((is_power(m->tile_cols) && is_power(m->group_cols)) || dt__matmul_for_groups(m)) &&
         m->tile_cols <= p->threads &&
         m->tile_rows * m->depth * dt_dtype_size(p->a.dtype) / 16 <=
             DT_MATMUL_MAX_UNITS * p->threads &&
         m->tile_rows <= p->threads && m->depth <= p->threads && m->ring >= 2 &&
         m->tile_rows * m->depth >= p->threads && m->tile_cols * m->depth >= p->threads;
}

// Whole panels both ways, whose rows threads share out by eights, as their order repeats. Of A in a
// chain warps read fragments.
static bool fits_panels(const dt_matmul_plan_t *p) {
  const dt_operand_t *operands[2] = {&p->a, &p->b};
  for (uint32_t i = 0; i < 2; i++) {
    uint32_t wide = DT_PANEL_BYTES / (uint32_t)dt_dtype_size(operands[i]->dtype);
    uint32_t rows = p->threads * 16 / DT_PANEL_BYTES;
    if (!operands[i]->panels)
      continue;
    if (operands[i]->length % wide || p->matmul->depth % wide || rows % 8 ||
        operands[i]->outer % rows || operands[i]->copy == DT_COPY_SLAB)
      return false;
  }
  return true;
}

static dt_status_t check_form(const dt_kernel_t *kernel, const dt_team_matmul_t *m) {
  const dt_stage_t *stage = &kernel->stages.items[0];
  if (kernel->n_loops < 2 || kernel->stages.len < 1 || stage->n_loops == 0 ||
      (stage->n_loops > 1 && kernel->chain) || stage->reductions.len != 1 ||
      stage->stores.len != 0 || stage->reductions.items[0].kind != DT_REDUCE_SUM)
    return refuse(kernel, "its first stage is not one reduction over loops");
  size_t bytes = dt_dtype_size(stage->reductions.items[0].dtype);
  if ((bytes != 4 && bytes != 8) || m->a >= stage->insts.len || m->b >= stage->insts.len ||
      stage->insts.items[m->a].kind != DT_INST_LOAD ||
      stage->insts.items[m->b].kind != DT_INST_LOAD)
    return refuse(kernel, "its first stage is not the sum of a product of two loads");
  return NULL;
}

dt_status_t dt__matmul_plan(dt_program_t *program, const dt_kernel_t *kernel,
                            const dt_schedule_t *schedule, bool strict, dt_matmul_plan_t *out) {
  const dt_team_matmul_t *m = &schedule->team_matmul;
  *out = (dt_matmul_plan_t){.matmul = m, .threads = schedule->team};
  DT_TRY(check_form(kernel, m));
  const dt_stage_t *stage = &kernel->stages.items[0];
  for (uint32_t v = 1; v < stage->n_loops; v++)
    if (!dt__sym_is_const(program->env, stage->extents[v], NULL))
      return refuse(kernel, "a loop of its sum has no literal extent");
  uint32_t n = kernel->n_loops;
  dt_dtype_t a = stage->insts.items[m->a].dtype, b = stage->insts.items[m->b].dtype;
  bool halves = a == b && dt__dtype_is_half(a);
  out->dtype = stage->reductions.items[0].dtype;
  out->tensor = halves && !strict;
  dt_dtype_t held = halves ? a : out->dtype;
  out->a = (dt_operand_t){.load = m->a,
                          .dtype = held,
                          .length = m->tile_rows,
                          .var = kernel->vars[n - 2],
                          .extent = kernel->extents[n - 2]};
  out->b = (dt_operand_t){.load = m->b,
                          .dtype = held,
                          .length = m->tile_cols,
                          .var = kernel->vars[n - 1],
                          .extent = kernel->extents[n - 1]};
  out->groups = out->tensor && dt__matmul_for_groups(m);
  out->b.panels = out->groups;
  out->a.panels = out->groups && !kernel->chain;
  lay_out(program, kernel, m->depth, &out->a);
  lay_out(program, kernel, m->depth, &out->b);
  out->warps_m = m->tile_rows / m->group_rows;
  out->warps_n = m->tile_cols / m->group_cols;
  out->slices = out->threads / DT_WARP / (out->warps_m * out->warps_n);
  out->parts = strict ? 1 : out->slices;
  // A thread's sums; half of a processor's registers are 128 a thread. As class_of in
  // backend_llvm/emit/units.c shares entries out.
  size_t words = m->group_rows * m->group_cols / DT_WARP * dt_dtype_size(out->dtype) / 4;
  bool alone = words > DT_HALF_SUMS || (words == DT_HALF_SUMS && !out->tensor) ||
               (out->groups && kernel->chain);
  out->blocks = alone ? 1 : 2;
  if (!fits_warps(out) || (out->groups && !fits_panels(out)))
    return refuse(kernel, "its tiles do not fit each other");
  if (out->tensor && out->a.copy == DT_COPY_SLAB)
    out->a.copy = DT_COPY_NONE;
  out->b.offset = out->a.copy == DT_COPY_NONE ? 0 : tile_bytes(&out->a, m->depth);
  out->ring_bytes = out->b.offset + tile_bytes(&out->b, m->depth);
  out->c_pitch = m->tile_cols * (uint32_t)dt_dtype_size(out->dtype) + 32;
  out->behind = out->groups && m->ring > LEAST_RING ? 1 : 0;
  out->ahead = m->ring - 1 - out->behind;
  out->c_bytes = out->c_pitch * m->tile_rows;
  uint32_t bytes = most(out->ring_bytes * m->ring, out->c_bytes * out->parts);
  out->shared_bytes = (bytes + 63) & ~63U;
  return NULL;
}

LLVMValueRef dt__cuda_matmul_aligned(dt_body_t *k) {
  dt_matmul_plan_t plan;
  dt_status_t status =
      dt__matmul_plan(&k->m->program, k->kernel, k->schedule, k->m->target->strict_fp, &plan);
  if (status) {
    dt__emit_fail(k->m, status);
    return NULL;
  }
  const dt_stage_t *stage = &k->kernel->stages.items[0];
  uint32_t last = stage->n_loops - 1;
  const dt_operand_t *operands[2] = {&plan.a, &plan.b};
  dt_load_walk_t walks[2];
  uint32_t n = 0;
  for (uint32_t i = 0; i < 2; i++) {
    const dt_operand_t *o = operands[i];
    if (o->copy == DT_COPY_ELEMENTS)
      return NULL;
    if (o->copy == DT_COPY_UNITS)
      walks[n++] = (dt_load_walk_t){.load = &stage->insts.items[o->load],
                                    .var = o->along_k ? stage->vars[last] : o->var,
                                    .extent = o->along_k ? stage->extents[last] : o->extent};
  }
  return dt__loads_aligned(k, walks, n, 16 / (uint32_t)dt_dtype_size(plan.a.dtype));
}
