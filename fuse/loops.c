// SPDX-License-Identifier: Apache-2.0
// See loops.h.
#include "fuse/loops.h"

#include "fuse/body.h"
#include "runtime/base/status.h"

#include <string.h>

dt_step_t dt__access_step(dt_program_t *program, dt_buffer_id_t buffer, const dt_sym_t *index,
                          dt_sym_t var) {
  dt_sym_t coef, rest, offset = dt__buffer_offset(program, buffer, index);
  if (!dt__sym_depends(program->env, offset, var))
    return DT_STEP_NONE;
  if (!dt__sym_linear(program->env, offset, var, &coef, &rest))
    return DT_STEP_OTHER;
  int64_t step = 0;
  if (!dt__sym_is_const(program->env, coef, &step))
    return DT_STEP_STRIDED;
  return step == 0 ? DT_STEP_NONE : step == 1 ? DT_STEP_UNIT : DT_STEP_STRIDED;
}

// By instruction of the stage: its value changes as `var` steps.
static void find_varying(dt_program_t *program, const dt_stage_t *stage, dt_sym_t var,
                         bool *out_varying) {
  for (uint32_t i = 0; i < stage->insts.len; i++) {
    const dt_inst_t *inst = &stage->insts.items[i];
    bool varying = inst->sym.id && dt__sym_depends(program->env, inst->sym, var);
    if (inst->kind == DT_INST_LOAD)
      varying = dt__access_step(program, inst->buffer, inst->index, var) != DT_STEP_NONE;
    for (uint32_t k = 0; k < 3; k++)
      varying |= inst->args[k] < i && out_varying[inst->args[k]];
    out_varying[i] = varying;
  }
}

dt_status_t dt__count_gathers(dt_program_t *program, const dt_stage_t *stage, dt_sym_t var,
                              dt_step_count_t *count) {
  bool any = false;
  for (uint32_t i = 0; i < stage->insts.len; i++)
    any |= stage->insts.items[i].kind == DT_INST_BIND;
  bool *varying = any ? DT_ARENA_ARRAY(program->arena, bool, stage->insts.len) : NULL;
  if (!varying)
    return any ? DT_NO_MEMORY() : NULL;
  find_varying(program, stage, var, varying);
  for (uint32_t i = 0; i < stage->insts.len; i++) {
    const dt_inst_t *bind = &stage->insts.items[i];
    if (bind->kind != DT_INST_BIND || !varying[i])
      continue;
    for (uint32_t k = 0; k < stage->insts.len; k++) {
      const dt_inst_t *load = &stage->insts.items[k];
      uint32_t rank =
          load->kind == DT_INST_LOAD ? dt__program_buffer(program, load->buffer)->rank : 0;
      count->other += dt__index_uses(program, load->index, rank, bind->sym);
    }
  }
  return NULL;
}

bool dt__has_inner_loops(const dt_kernel_t *kernel) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    if (kernel->stages.items[s].n_loops)
      return true;
  return false;
}

void dt__kernel_move_loop(dt_kernel_t *kernel, uint32_t from, uint32_t to) {
  dt_sym_t var = kernel->vars[from], extent = kernel->extents[from];
  for (uint32_t v = from; v < to; v++) {
    kernel->vars[v] = kernel->vars[v + 1];
    kernel->extents[v] = kernel->extents[v + 1];
  }
  kernel->vars[to] = var;
  kernel->extents[to] = extent;
}

static void count_one(dt_step_t step, bool store, dt_step_count_t *count) {
  count->none += step == DT_STEP_NONE;
  count->unit += step == DT_STEP_UNIT;
  count->strided += step == DT_STEP_STRIDED;
  count->other += step == DT_STEP_OTHER;
  count->unit_stores += store && step == DT_STEP_UNIT;
  count->strided_stores += store && step > DT_STEP_UNIT;
}

void dt__count_steps(dt_program_t *program, const dt_stage_t *stage, dt_sym_t var,
                     dt_step_count_t *count) {
  for (uint32_t i = 0; i < stage->insts.len; i++) {
    const dt_inst_t *load = &stage->insts.items[i];
    if (load->kind == DT_INST_LOAD)
      count_one(dt__access_step(program, load->buffer, load->index, var), false, count);
  }
  for (uint32_t i = 0; i < stage->stores.len; i++) {
    const dt_store_t *store = &stage->stores.items[i];
    count_one(dt__access_step(program, store->buffer, store->index, var), true, count);
  }
}

// ---- Merging --------------------------------------------------------------------------------------

typedef struct merge_t {
  dt_program_t *program;
  dt_sym_t high, low, low_extent, whole;
  bool tests;      // conditions may be made by divisions
  bool loose;      // accesses may move otherwise than by steps of it, and are found by divisions
  uint32_t packed; // 1 + a load that is found by the number of all loops; 0: none
} merge_t;

// offset == c * low_extent * high + c * low + rest.
static bool walks_as_one(const merge_t *m, dt_buffer_id_t buffer, const dt_sym_t *index) {
  dt_symenv_t *env = m->program->env;
  dt_sym_t offset = dt__buffer_offset(m->program, buffer, index), high, low, rest;
  if (!dt__sym_linear(env, offset, m->high, &high, &rest) ||
      !dt__sym_linear(env, rest, m->low, &low, &rest))
    return false;
  return dt__sym_known_eq(env, high, dt__sym_mul(env, low, m->low_extent));
}

static bool uses_either(const merge_t *m, dt_sym_t expr) {
  return expr.id && (dt__sym_depends(m->program->env, expr, m->high) ||
                     dt__sym_depends(m->program->env, expr, m->low));
}

// Values of the variables themselves would need a division in every iteration.
static bool stage_knows_neither(const merge_t *m, const dt_stage_t *stage) {
  for (uint32_t i = 0; i < stage->insts.len; i++) {
    const dt_inst_t *inst = &stage->insts.items[i];
    bool mask = m->tests && inst->kind == DT_INST_INDEX && inst->dtype == DT_BOOL;
    if (inst->kind != DT_INST_LOAD && !mask &&
        (uses_either(m, inst->sym) || uses_either(m, inst->extent)))
      return false;
  }
  for (uint32_t v = 0; v < stage->n_loops; v++)
    if (uses_either(m, stage->extents[v]))
      return false;
  return true;
}

static bool stage_walks_as_one(const merge_t *m, const dt_stage_t *stage) {
  for (uint32_t i = 0; i < stage->insts.len && !m->loose; i++) {
    const dt_inst_t *inst = &stage->insts.items[i];
    if (inst->kind == DT_INST_LOAD && i + 1 != m->packed &&
        !walks_as_one(m, inst->buffer, inst->index))
      return false;
  }
  for (uint32_t i = 0; i < stage->stores.len && !m->loose; i++)
    if (!walks_as_one(m, stage->stores.items[i].buffer, stage->stores.items[i].index))
      return false;
  return stage_knows_neither(m, stage);
}

// The stage over the merged loop; *linear says whether every address is still linear in it.
static dt_status_t rewrite(const merge_t *m, const dt_stage_t *from, dt_stage_t *out,
                           bool *linear) {
  dt_program_t *program = m->program;
  dt__stage_start(out, from);
  dt_body_copy_t copy = {.program = program, .into = out, .from = from, .mask = DT_NO_INST};
  DT_TRY(dt__body_rename(&copy, m->high, dt__sym_floordiv(program->env, m->whole, m->low_extent)));
  DT_TRY(dt__body_rename(&copy, m->low, dt__sym_mod(program->env, m->whole, m->low_extent)));
  DT_TRY(dt__body_copy(&copy));
  DT_TRY(dt__body_copy_results(&copy));
  dt_step_count_t count = {0};
  dt__count_steps(program, out, m->whole, &count);
  uint32_t may = m->packed ? 1 : 0;
  *linear = *linear && (m->loose || count.other <= may);
  return dt__symenv_status(program->env);
}

static void close_gap(uint32_t *n, dt_sym_t *vars, dt_sym_t *extents, uint32_t at, dt_sym_t var,
                      dt_sym_t extent) {
  vars[at] = var;
  extents[at] = extent;
  for (uint32_t k = at + 1; k + 1 < *n; k++) {
    vars[k] = vars[k + 1];
    extents[k] = extents[k + 1];
  }
  (*n)--;
}

static merge_t start(dt_program_t *program, const dt_sym_t *vars, const dt_sym_t *extents,
                     uint32_t at, dt_sym_t *extent) {
  *extent = dt__sym_mul(program->env, extents[at], extents[at + 1]);
  return (merge_t){.program = program,
                   .high = vars[at],
                   .low = vars[at + 1],
                   .low_extent = extents[at + 1],
                   .whole = dt__sym_new_loop(program->env, *extent)};
}

// All stages of the kernel over the merged loop, or NULL in *out where they cannot be.
static dt_status_t rewrite_kernel(const merge_t *m, const dt_kernel_t *kernel, dt_stage_t **out) {
  bool linear = true;
  *out = NULL;
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    if (!stage_walks_as_one(m, &kernel->stages.items[s]))
      return NULL;
  dt_stage_t *fresh = DT_ARENA_ARRAY(m->program->arena, dt_stage_t, kernel->stages.len + 1);
  if (!fresh)
    return DT_NO_MEMORY();
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    DT_TRY(rewrite(m, &kernel->stages.items[s], &fresh[s], &linear));
  *out = linear ? fresh : NULL;
  return NULL;
}

// Merges loops `at` and at + 1 of all the kernels, or of none.
static dt_status_t try_outer(dt_program_t *program, dt_kernel_t *const *kernels, uint32_t n,
                             uint32_t at, bool loose, bool tests) {
  dt_sym_t extent;
  merge_t m = start(program, kernels[0]->vars, kernels[0]->extents, at, &extent);
  m.loose = loose;
  m.tests = tests;
  dt_stage_t **fresh = DT_ARENA_ARRAY(program->arena, dt_stage_t *, n + 1);
  if (!fresh)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < n; k++) {
    DT_TRY(rewrite_kernel(&m, kernels[k], &fresh[k]));
    if (!fresh[k])
      return NULL;
  }
  for (uint32_t k = 0; k < n; k++) {
    dt_kernel_t *kernel = kernels[k];
    memcpy(kernel->stages.items, fresh[k], kernel->stages.len * sizeof(**fresh));
    close_gap(&kernel->n_loops, kernel->vars, kernel->extents, at, m.whole, extent);
  }
  return NULL;
}

dt_status_t dt__merge_shared_loops(dt_program_t *program, dt_kernel_t *const *kernels, uint32_t n,
                                   uint32_t end) {
  for (uint32_t at = end; at-- > 1;)
    DT_TRY(try_outer(program, kernels, n, at - 1, false, false));
  return dt__symenv_status(program->env);
}

dt_status_t dt__merge_outer_loops(dt_program_t *program, dt_kernel_t *kernel, uint32_t end) {
  return dt__merge_shared_loops(program, &kernel, 1, end);
}

// ---- Rows of products -------------------------------------------------------------------------------

static bool moves(dt_program_t *program, const dt_inst_t *load, const dt_kernel_t *kernel,
                  uint32_t at) {
  uint32_t rank = dt__program_buffer(program, load->buffer)->rank;
  return dt__index_uses(program, load->index, rank, kernel->vars[at]) ||
         dt__index_uses(program, load->index, rank, kernel->vars[at + 1]);
}

// Each row's place can be found by itself: its elements are neighbours along k, and all of its
// index is a sum.
static bool is_row_anywhere(dt_program_t *program, const dt_kernel_t *kernel,
                            const dt_inst_t *load) {
  const dt_stage_t *sums = &kernel->stages.items[0];
  dt_sym_t rest = dt__buffer_offset(program, load->buffer, load->index), step = DT_SYM_NONE_ID;
  for (uint32_t v = 0; v < sums->n_loops; v++)
    if (!dt__sym_linear(program->env, rest, sums->vars[v], &step, &rest))
      return false;
  int64_t last = 0;
  return sums->n_loops && dt__sym_is_const(program->env, step, &last) && last == 1;
}

// Rows of two loops that share B, where the inner one may be short: then finding each row's place
// by a division is little beside a tile of one row. What counts several dims is long.
static bool may_join_rows(dt_program_t *program, const dt_kernel_t *kernel, uint32_t at, uint32_t a,
                          uint32_t b, uint32_t tile_rows) {
  const dt_stage_t *sums = &kernel->stages.items[0];
  const dt_inst_t *left = &sums->insts.items[a], *right = &sums->insts.items[b];
  int64_t rows = 0;
  bool literal = dt__sym_is_const(program->env, kernel->extents[at + 1], &rows);
  bool is_short = literal ? rows < (int64_t)tile_rows
                          : dt__sym_is_symbol(program->env, kernel->extents[at + 1], NULL);
  return is_short && sums->insts.len == 3 && left->mask == DT_NO_INST &&
         right->mask == DT_NO_INST && !moves(program, right, kernel, at) &&
         is_row_anywhere(program, kernel, left);
}

dt_status_t dt__merge_places(dt_program_t *program, dt_kernel_t *kernel, uint32_t a, uint32_t b) {
  const dt_stage_t *sums = &kernel->stages.items[0];
  uint32_t n = kernel->n_loops;
  dt_sym_t coef, rest;
  if (n < 3 || moves(program, &sums->insts.items[b], kernel, n - 3) ||
      sums->insts.items[b].mask != DT_NO_INST ||
      !is_row_anywhere(program, kernel, &sums->insts.items[a]))
    return NULL;
  const dt_inst_t *left = &sums->insts.items[a];
  dt_sym_t offset = dt__buffer_offset(program, left->buffer, left->index);
  if (left->mask == DT_NO_INST &&
      dt__sym_linear(program->env, offset, kernel->vars[n - 2], &coef, &rest))
    return NULL;
  return try_outer(program, &kernel, 1, n - 3, true, true);
}

dt_status_t dt__merge_rows(dt_program_t *program, dt_kernel_t *kernel, uint32_t a, uint32_t b,
                           uint32_t tile_rows) {
  uint32_t n = kernel->n_loops;
  if (n < 3 || !may_join_rows(program, kernel, n - 3, a, b, tile_rows))
    return NULL;
  return try_outer(program, &kernel, 1, n - 3, true, false);
}

// ---- Columns of products ----------------------------------------------------------------------------
// Sums must wait for all of the product, so that what else reads it is no part of its kernel.
static void leave_out(const dt_kernel_t *kernel, bool *products) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].insts.len; i++) {
      dt_buffer_id_t read = dt__inst_reads(&kernel->stages.items[s].insts.items[i]);
      if (read.id)
        products[read.id - 1] = false;
    }
}

// By buffer, [id - 1]: a product's result that a template makes, and maps alone read.
static dt_status_t find_products(const dt_program_t *program, bool **out) {
  *out = DT_ARENA_ARRAY(program->arena, bool, program->buffers.len + 1);
  if (!*out)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    const dt_kernel_t *kernel = &program->kernels.items[k];
    if (!kernel->schedules.len || !kernel->stages.len)
      continue;
    const dt_stage_t *last = &kernel->stages.items[kernel->stages.len - 1];
    for (uint32_t s = 0; s < last->stores.len; s++)
      (*out)[last->stores.items[s].buffer.id - 1] = true;
  }
  for (uint32_t k = 0; k < program->kernels.len; k++)
    if (dt__has_inner_loops(&program->kernels.items[k]))
      leave_out(&program->kernels.items[k], *out);
  return NULL;
}

// Loops `at` and at + 1 together count along one dim of a product. *rows: its rows in memory, of
// which a tile finds each one's place by itself.
static bool count_columns(dt_program_t *program, const bool *products, const dt_kernel_t *kernel,
                          uint32_t at, bool *rows) {
  const dt_stage_t *stage = &kernel->stages.items[0];
  for (uint32_t i = 0; i < stage->insts.len; i++) {
    const dt_inst_t *load = &stage->insts.items[i];
    if (load->kind != DT_INST_LOAD || !products[load->buffer.id - 1])
      continue;
    const dt_buffer_t *buffer = dt__program_buffer(program, load->buffer);
    dt_sym_t last = load->index[buffer->rank - 1];
    *rows = buffer->layout && buffer->layout->order[buffer->rank - 1] != buffer->rank - 1;
    if (dt__sym_depends(program->env, last, kernel->vars[at]) &&
        dt__sym_depends(program->env, last, kernel->vars[at + 1]))
      return true;
  }
  return false;
}

dt_status_t dt__merge_columns(dt_program_t *program) {
  bool *products = NULL;
  DT_TRY(find_products(program, &products));
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    dt_kernel_t *kernel = &program->kernels.items[k];
    if (kernel->schedules.len || kernel->stages.len != 1 || kernel->stages.items[0].n_loops ||
        dt__kernel_updates(program, kernel))
      continue;
    for (uint32_t at = kernel->n_loops; at-- > 1;) {
      bool rows = false;
      if (count_columns(program, products, kernel, at - 1, &rows))
        DT_TRY(try_outer(program, &kernel, 1, at - 1, rows, false));
    }
  }
  return dt__symenv_status(program->env);
}

dt_status_t dt__merge_inner_loops(dt_program_t *program, dt_stage_t *stage, uint32_t packed) {
  for (uint32_t at = dt__stage_in_order(stage) ? 0 : stage->n_loops; at-- > 1;) {
    dt_sym_t extent;
    merge_t m = start(program, stage->vars, stage->extents, at - 1, &extent);
    m.packed = packed + 1;
    dt_stage_t fresh;
    bool linear = true;
    if (!stage_walks_as_one(&m, stage))
      continue;
    DT_TRY(rewrite(&m, stage, &fresh, &linear));
    if (!linear)
      continue;
    *stage = fresh;
    close_gap(&stage->n_loops, stage->vars, stage->extents, at - 1, m.whole, extent);
  }
  return dt__symenv_status(program->env);
}
