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
#define DEVICE_UNIT 16 // bytes

// The loop of the sum that `e` is, as its number, or n_loops.
static uint32_t term_loop(const dt_stage_t *stage, dt_sym_t e) {
  uint32_t v = 0;
  while (v < stage->n_loops && stage->vars[v].id != e.id)
    v++;
  return v;
}

// The dim of x that is a loop of the sum, whatever the place; x's rank: none. Where windows are as
// high as the image, they have one place along it, and its height is such a dim, too: the longest
// one is taken.
static uint32_t find_channels(const dt_channels_t *c, const dt_stage_t *stage, const dt_inst_t *x) {
  uint32_t rank = dt__program_buffer(c->program, x->buffer)->rank, found = rank;
  int64_t longest = 0, extent = 0;
  for (uint32_t d = 0; d < rank; d++) {
    uint32_t v = term_loop(stage, x->index[d]);
    if (v == stage->n_loops || !dt__sym_is_const(c->program->env, stage->extents[v], &extent) ||
        extent <= longest)
      continue;
    found = d;
    longest = extent;
  }
  return found;
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
// multiplied. Devices find out once both lie as they are wanted.
static bool has_template(const dt_channels_t *c, const dt_contraction_t *roles) {
  const dt_inst_t *insts = roles->stage->insts.items;
  if (dt__target_has_teams(c->target))
    return dt_dtype_size(insts[roles->a].dtype) > 1 && dt_dtype_size(insts[roles->b].dtype) > 1 &&
           !dt__operands_device_refusal(c->program, roles, c->target);
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
         !dt__is_fixed(program, &c->fixed, x->buffer) &&
         (x->mask == DT_NO_INST || dt__target_has_teams(c->target)) && w->mask == DT_NO_INST &&
         last->stores.len == 1 &&
         dt__sym_is_const(program->env, kernel->extents[kernel->n_loops - 2], &rows) &&
         rows >= LEAST_CHANNELS && dt__sym_is_const(program->env, roles->extent_k, &terms) &&
         terms >= LEAST_TERMS && has_template(c, roles);
}

// ---- Rows that are taken apart --------------------------------------------------------------------
// A transposed convolution multiplies by rows (o, e), o channels of e elements of a window each,
// and whoever adds up windows reads row o * e + …, where neighbours of o stand e apart. As (e, o)
// they are neighbours.

// How the kernel reads dim `dim` of the buffer: o * each + rest, o a loop over `channels`.
typedef struct rows_t {
  dt_buffer_id_t id;
  uint32_t dim;
  int64_t rows, each;
} rows_t;

static bool take_apart(const dt_program_t *program, const dt_kernel_t *kernel, const rows_t *r,
                       dt_sym_t e, dt_sym_t *loop, dt_sym_t *rest, int64_t *each) {
  dt_symenv_t *env = program->env;
  for (uint32_t v = 0; v < kernel->n_loops; v++) {
    dt_sym_t coef;
    int64_t extent = 0;
    *loop = kernel->vars[v];
    if (!dt__sym_is_const(env, kernel->extents[v], &extent) || extent < LEAST_CHANNELS ||
        !dt__sym_linear(env, e, *loop, &coef, rest) || !dt__sym_is_const(env, coef, each) ||
        *each <= 1 || *each * extent != r->rows)
      continue;
    dt_range_t range = dt__sym_range(env, *rest);
    if (range.lo >= 0 && range.hi < *each)
      return true;
  }
  return false;
}

// All that read the rows take them apart alike; `puts`: they read them in the other order from now
// on.
static dt_status_t visit_readers(dt_channels_t *c, uint32_t k, rows_t *r, bool puts, bool *out) {
  dt_program_t *program = c->program;
  dt_symenv_t *env = program->env;
  *out = false;
  DT_TRY(dt__flow_users(c->flow, r->id.id - 1));
  for (uint32_t u = 0; u < c->flow->users.len; u++) {
    dt_kernel_t *kernel = &program->kernels.items[c->flow->users.items[u]];
    if (c->flow->users.items[u] == k)
      continue;
    if (puts && !dt__kernel_copy(program, kernel))
      return DT_NO_MEMORY();
    for (uint32_t s = 0; s < kernel->stages.len; s++)
      for (uint32_t i = 0; i < kernel->stages.items[s].insts.len; i++) {
        dt_inst_t *load = &kernel->stages.items[s].insts.items[i];
        dt_sym_t loop, rest;
        int64_t each = 0;
        if (dt__inst_reads(load).id != r->id.id)
          continue;
        if (load->kind != DT_INST_LOAD ||
            !take_apart(program, kernel, r, load->index[r->dim], &loop, &rest, &each) ||
            (r->each && r->each != each))
          return NULL;
        r->each = each;
        if (puts) // the copy's own
          ((dt_sym_t *)(uintptr_t)load->index)[r->dim] =
              dt__sym_add(env, loop, dt__sym_mul(env, rest, dt__sym_const(env, r->rows / each)));
      }
  }
  *out = r->each != 0;
  return NULL;
}

static uint32_t dim_of(const dt_program_t *program, const dt_store_t *store, dt_sym_t var) {
  uint32_t d = 0, rank = dt__program_buffer(program, store->buffer)->rank;
  while (d < rank && store->index[d].id != var.id)
    d++;
  return d;
}

dt_status_t dt__channels_rows(dt_channels_t *c, uint32_t k) {
  dt_program_t *program = c->program;
  dt_symenv_t *env = program->env;
  dt_kernel_t *kernel = &program->kernels.items[k];
  dt_contraction_t roles;
  bool apart = false;
  if (!is_candidate(c, kernel, &roles))
    return NULL;
  const dt_store_t *store = &kernel->stages.items[1].stores.items[0];
  rows_t r = {.id = store->buffer, .dim = dim_of(program, store, roles.m)};
  if (!c->open[r.id.id - 1] || dt__flow_writer(c->flow, r.id.id - 1) != k ||
      r.dim == dt__program_buffer(program, r.id)->rank ||
      !dt__sym_is_const(env, kernel->extents[kernel->n_loops - 2], &r.rows))
    return NULL;
  DT_TRY(visit_readers(c, k, &r, false, &apart));
  if (!apart)
    return NULL;
  DT_TRY(visit_readers(c, k, &r, true, &apart));
  if (!dt__kernel_copy(program, kernel))
    return DT_NO_MEMORY();
  dt_stage_t *stage = &kernel->stages.items[0];
  dt_sym_t channels = dt__sym_const(env, r.rows / r.each), each = dt__sym_const(env, r.each);
  dt_sym_t row = dt__sym_add(env, dt__sym_mul(env, dt__sym_mod(env, roles.m, channels), each),
                             dt__sym_floordiv(env, roles.m, channels));
  for (uint32_t i = 0; i < stage->insts.len; i++) {
    dt_inst_t *load = &stage->insts.items[i];
    if (load->kind != DT_INST_LOAD)
      continue;
    dt_sym_t *index = (dt_sym_t *)(uintptr_t)load->index; // the copy's own
    for (uint32_t d = 0; d < dt__program_buffer(program, load->buffer)->rank; d++)
      index[d] = dt__sym_subst(env, index[d], &roles.m, &row, 1);
  }
  DT_LOG(DT_LOG_FUSION, 1, "%s: rows of %lld channels", kernel->name, (long long)r.rows / r.each);
  return dt__symenv_status(env);
}

static void exchange(dt_sym_t *a, dt_sym_t *b) {
  dt_sym_t kept = *a;
  *a = *b;
  *b = kept;
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

// The loop is the index of one dim of the load, and moves no other.
static bool moves_one_dim(const dt_channels_t *c, const dt_inst_t *load, dt_sym_t var) {
  uint32_t n = 0;
  for (uint32_t d = 0; d < dt__program_buffer(c->program, load->buffer)->rank; d++)
    n += dt__sym_depends(c->program->env, load->index[d], var) ? 1 : 0;
  return n == 1;
}

// Devices copy units of whole vectors. Few channels of an argument, which is copied anyway, get as
// many more, of zeros, as make up one; *out_size: how many there are then, or none.
static dt_status_t fill_units(dt_channels_t *c, dt_kernel_t *kernel, uint32_t loop,
                              dt_contraction_t *roles, dt_sym_t *out_size) {
  dt_program_t *program = c->program;
  dt_stage_t *stage = roles->stage, fresh;
  const dt_inst_t *x = &stage->insts.items[roles->a];
  int64_t channels = 0, unit = DEVICE_UNIT / (int64_t)dt_dtype_size(x->dtype);
  if (!dt__target_has_teams(c->target) || c->open[x->buffer.id - 1] ||
      !dt__sym_is_const(program->env, stage->extents[loop], &channels) || channels % unit == 0 ||
      !moves_one_dim(c, x, stage->vars[loop]) ||
      !moves_one_dim(c, &stage->insts.items[roles->b], stage->vars[loop]))
    return NULL;
  *out_size = dt__sym_const(program->env, (channels + unit - 1) / unit * unit);
  dt_sym_t var = dt__sym_new_loop(program->env, *out_size);
  dt__stage_start(&fresh, stage);
  dt_body_copy_t copy = {.program = program, .into = &fresh, .from = stage, .mask = DT_NO_INST};
  DT_TRY(dt__body_rename(&copy, stage->vars[loop], var));
  DT_TRY(dt__body_copy(&copy));
  DT_TRY(dt__body_copy_results(&copy));
  fresh.vars[loop] = var;
  fresh.extents[loop] = *out_size;
  *stage = fresh;
  return dt__product_roles(program, kernel, roles, NULL)
             ? dt__symenv_status(program->env)
             : DT_FAIL(DT_E_INTERNAL, "fuse: %s lost its matrix form", kernel->name);
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
  uint32_t dim = find_channels(c, roles.stage, x), own = dim_of(program, store, roles.n);
  uint32_t loop = dim < rank ? term_loop(roles.stage, x->index[dim]) : roles.stage->n_loops;
  dt_sym_t channels = dim < rank ? x->index[dim] : DT_SYM_NONE_ID;
  const dt_inst_t *w = &roles.stage->insts.items[roles.b];
  uint32_t w_rank = dt__program_buffer(program, w->buffer)->rank, channels_of_w = 0;
  while (channels_of_w < w_rank && w->index[channels_of_w].id != channels.id)
    channels_of_w++;
  bool allowed = false;
  if (loop == roles.stage->n_loops || own == dt__program_buffer(program, store->buffer)->rank ||
      !terms_are_plain(c, roles.stage, x) ||
      (dt__target_has_teams(c->target) && channels_of_w == w_rank))
    return NULL;
  c->turned[k] = true;
  DT_TRY(dt__channels_allow(c, store->buffer.id - 1, own, &allowed));
  c->turned[k] = allowed;
  if (!allowed)
    return NULL;
  dt_sym_t wide = DT_SYM_NONE_ID;
  DT_TRY(fill_units(c, &fresh, loop, &roles, &wide));
  put_last(roles.stage, loop);
  c->alone = worth_copies(program, &fresh, &roles);
  program->kernels.items[k] = fresh;
  DT_LOG(DT_LOG_FUSION, 1, "%s: places are rows", fresh.name);
  DT_TRY(dt__channels_want(c, (dt_want_t){.kernel = k, .load = roles.a, .dim = dim, .size = wide}));
  if (dt__target_has_teams(c->target)) // nothing packs them
    DT_TRY(dt__channels_want(
        c, (dt_want_t){.kernel = k, .load = roles.b, .dim = channels_of_w, .size = wide}));
  return c->dim[store->buffer.id - 1] ? NULL : dt__channels_reach(c, store->buffer.id - 1, own);
}
