// SPDX-License-Identifier: Apache-2.0
// Which products are convolutions, or like them, and how they are turned (channels.c says why).
#include "fuse/channels_private.h"
#include "fuse/loops.h"
#include "fuse/matmul_rows.h"
#include "fuse/operands.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#define LEAST_CHANNELS 16 // of the result; fewer would leave most lanes empty
#define LEAST_TERMS 16    // of the sum
// Products for each element that is copied into another order and back, from which on one turned
// convolution by itself is faster. `scripts/bench conv` (bench/bench_conv.c) measures.
#define COPY_TERMS 512

// The one dim of x that moves with loops of the sum and not with the place; x's rank: none.
static uint32_t find_channels(const dt_channels_t *c, const dt_stage_t *stage, const dt_inst_t *x,
                              dt_sym_t place) {
  dt_symenv_t *env = c->program->env;
  uint32_t rank = dt__program_buffer(c->program, x->buffer)->rank, found = rank;
  for (uint32_t d = 0; d < rank; d++) {
    bool moves = dt__expr_uses_any(c->program, x->index[d], stage->vars, stage->n_loops);
    if (!moves || dt__sym_depends(env, x->index[d], place))
      continue;
    if (found != rank)
      return rank;
    found = d;
  }
  return found;
}

// The loop of the sum that `e` is, as its number, or n_loops.
static uint32_t term_loop(const dt_stage_t *stage, dt_sym_t e) {
  uint32_t v = 0;
  while (v < stage->n_loops && stage->vars[v].id != e.id)
    v++;
  return v;
}

static void put_last(dt_stage_t *stage, uint32_t v) {
  dt_sym_t var = stage->vars[v], extent = stage->extents[v];
  for (; v + 1 < stage->n_loops; v++) {
    stage->vars[v] = stage->vars[v + 1];
    stage->extents[v] = stage->extents[v + 1];
  }
  stage->vars[v] = var;
  stage->extents[v] = extent;
}

// Every loop of the sum has a literal extent, and x moves linearly with it.
static bool terms_are_plain(const dt_channels_t *c, const dt_stage_t *stage, const dt_inst_t *x) {
  dt_symenv_t *env = c->program->env;
  dt_sym_t coef, rest;
  for (uint32_t v = 0; v < stage->n_loops; v++) {
    if (!dt__sym_is_const(env, stage->extents[v], NULL))
      return false;
    for (uint32_t d = 0; d < dt__program_buffer(c->program, x->buffer)->rank; d++)
      if (!dt__sym_linear(env, x->index[d], stage->vars[v], &coef, &rest))
        return false;
  }
  return true;
}

// Whether there is a template for x times w: of integers of 8 bits as they are, or of what is
// multiplied.
static bool has_template(const dt_channels_t *c, const dt_contraction_t *roles) {
  const dt_inst_t *insts = roles->stage->insts.items;
  const dt_inst_t *w = &insts[roles->a], *x = &insts[roles->b];
  const char *why = NULL;
  if (dt_dtype_size(w->dtype) != 1 || dt_dtype_size(x->dtype) != 1) {
    w = &insts[roles->a_factor];
    x = &insts[roles->b_factor];
  }
  dt_dtype_t sum = roles->stage->reductions.items[0].dtype;
  return dt__matmul_row(c->target, x->dtype, w->dtype, sum, &why) != NULL;
}

// Weights times what a call computes, with enough to do for each place.
static bool is_candidate(dt_channels_t *c, dt_kernel_t *kernel, dt_contraction_t *roles) {
  dt_program_t *program = c->program;
  int64_t rows = 0, terms = 0;
  if (kernel->schedules.len || kernel->n_loops > 3 ||
      !dt__contraction_roles(program, kernel, roles, NULL) || kernel->stages.len != 2)
    return false;
  const dt_inst_t *insts = roles->stage->insts.items;
  const dt_inst_t *w = &insts[roles->a], *x = &insts[roles->b];
  const dt_stage_t *last = &kernel->stages.items[1];
  return dt__is_fixed(program, &c->fixed, w->buffer) &&
         !dt__is_fixed(program, &c->fixed, x->buffer) && x->mask == DT_NO_INST &&
         w->mask == DT_NO_INST && last->stores.len == 1 &&
         dt__sym_is_const(program->env, kernel->extents[kernel->n_loops - 2], &rows) &&
         rows >= LEAST_CHANNELS && dt__sym_is_const(program->env, roles->extent_k, &terms) &&
         terms >= LEAST_TERMS && has_template(c, roles);
}

static void exchange(dt_sym_t *a, dt_sym_t *b) {
  dt_sym_t kept = *a;
  *a = *b;
  *b = kept;
}

static uint32_t dim_of(const dt_program_t *program, const dt_store_t *store, dt_sym_t var) {
  uint32_t d = 0, rank = dt__program_buffer(program, store->buffer)->rank;
  while (d < rank && store->index[d].id != var.id)
    d++;
  return d;
}

// Enough is multiplied for each element of x and of the result.
static bool worth_copies(const dt_program_t *program, const dt_kernel_t *kernel,
                         const dt_contraction_t *roles) {
  const dt_stage_t *stage = roles->stage;
  int64_t rows = 0, channels = 0, terms = 0;
  return dt__sym_is_const(program->env, kernel->extents[kernel->n_loops - 1], &rows) &&
         dt__sym_is_const(program->env, stage->extents[stage->n_loops - 1], &channels) &&
         dt__sym_is_const(program->env, roles->extent_k, &terms) &&
         (double)rows * (double)terms >= COPY_TERMS * ((double)channels + (double)rows);
}

// Turns kernel k if its result can have its channels innermost.
dt_status_t dt__channels_turn(dt_channels_t *c, uint32_t k) {
  dt_program_t *program = c->program;
  dt_contraction_t roles;
  if (!is_candidate(c, &program->kernels.items[k], &roles))
    return NULL;
  dt_kernel_t fresh = program->kernels.items[k];
  if (!dt__kernel_copy(program, &fresh))
    return DT_NO_MEMORY();
  uint32_t n = fresh.n_loops;
  DT_TRY(dt__split_inner_loops(program, &fresh.stages.items[0]));
  exchange(&fresh.vars[n - 2], &fresh.vars[n - 1]);
  exchange(&fresh.extents[n - 2], &fresh.extents[n - 1]);
  if (!dt__product_roles(program, &fresh, &roles, NULL))
    return NULL;
  const dt_inst_t *x = &roles.stage->insts.items[roles.a];
  const dt_store_t *store = &fresh.stages.items[1].stores.items[0];
  uint32_t rank = dt__program_buffer(program, x->buffer)->rank;
  uint32_t dim = find_channels(c, roles.stage, x, roles.m), own = dim_of(program, store, roles.n);
  uint32_t loop = dim < rank ? term_loop(roles.stage, x->index[dim]) : roles.stage->n_loops;
  bool allowed = false;
  if (loop == roles.stage->n_loops || own == dt__program_buffer(program, store->buffer)->rank ||
      !terms_are_plain(c, roles.stage, x))
    return NULL;
  c->turned[k] = true;
  DT_TRY(dt__channels_allow(c, store->buffer.id - 1, own, &allowed));
  c->turned[k] = allowed;
  if (!allowed)
    return NULL;
  put_last(roles.stage, loop);
  c->alone = worth_copies(program, &fresh, &roles);
  c->kept = program->kernels.items[k];
  program->kernels.items[k] = fresh;
  DT_LOG(DT_LOG_FUSION, 1, "%s: places are rows", fresh.name);
  DT_TRY(dt__channels_want(c, k, 0, roles.a, dim));
  return c->dim[store->buffer.id - 1] ? NULL : dt__channels_reach(c, store->buffer.id - 1, own);
}
