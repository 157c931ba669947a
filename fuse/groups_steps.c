// SPDX-License-Identifier: Apache-2.0
// Sums of groups in steps, each with lanes on channels (groups.c says which), and copies of what
// stands once for a group, so that it stands once for each channel.
#include "fuse/groups.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

static const dt_norm_t *norm_of(const dt_groups_t *g, uint32_t k) {
  if (k >= g->n_kernels || !g->of_kernel[k])
    return NULL;
  const dt_norm_t *norm = &g->norms.items[g->of_kernel[k] - 1];
  return norm->dropped ? NULL : norm;
}

bool dt__groups_has_steps(const dt_groups_t *g, uint32_t k) {
  return norm_of(g, k) && g->program->kernels.items[k].stages.len == 2;
}

// ---- Steps ------------------------------------------------------------------------------------------

static dt_status_t add_buffer(dt_program_t *program, const dt_kernel_t *kernel, dt_dtype_t dtype,
                              dt_buffer_id_t *out) {
  dt_buffer_t buffer = {.kind = DT_BUFFER_TEMP, .dtype = dtype, .rank = kernel->n_loops};
  memcpy(buffer.sizes, kernel->extents, kernel->n_loops * sizeof(dt_sym_t));
  return dt__program_add_buffer(program, &buffer, out);
}

static const dt_sym_t *index_copy(const dt_program_t *program, const dt_sym_t *index, uint32_t n) {
  dt_sym_t *out = DT_ARENA_ARRAY(program->arena, dt_sym_t, n + 1);
  if (out)
    memcpy(out, index, n * sizeof(*out));
  return out;
}

// The kernel stores its row in a new temporary that its outer loops count.
static dt_status_t store_part(dt_program_t *program, dt_kernel_t *kernel, dt_buffer_id_t *out) {
  dt_reduction_t *sum = &kernel->stages.items[0].reductions.items[0];
  dt_stage_t last = {0};
  DT_TRY(add_buffer(program, kernel, sum->dtype, out));
  dt_inst_t row = {.kind = DT_INST_ROW,
                   .dtype = sum->dtype,
                   .args = {DT_NO_INST, DT_NO_INST, DT_NO_INST},
                   .mask = DT_NO_INST,
                   .row = sum->row};
  dt_store_t store = {.buffer = *out, .mask = DT_NO_INST};
  DT_TRY(dt__stage_add(program, &last, &row, &store.value));
  store.index = index_copy(program, kernel->vars, kernel->n_loops);
  if (!store.index || !DT_VEC_PUSH(program->arena, &last.stores, store))
    return DT_NO_MEMORY();
  kernel->stages.items[1] = last;
  return NULL;
}

// Stage 0 of the kernel adds up what lies at `index` of a buffer, over one loop.
static dt_status_t add_up(dt_program_t *program, dt_kernel_t *kernel, dt_buffer_id_t from,
                          dt_sym_t loop, const dt_sym_t *index) {
  dt_stage_t *stage = &kernel->stages.items[0];
  dt_reduction_t sum = stage->reductions.items[0];
  uint32_t symbol = 0;
  dt_stage_t fresh = {.n_loops = 1, .vars = {loop}};
  if (dt__sym_is_symbol(program->env, loop, &symbol))
    fresh.extents[0] = dt__symbol_extent(program->env, symbol);
  dt_inst_t load = {.kind = DT_INST_LOAD,
                    .dtype = sum.dtype,
                    .args = {DT_NO_INST, DT_NO_INST, DT_NO_INST},
                    .mask = DT_NO_INST,
                    .buffer = from,
                    .index = index};
  DT_TRY(dt__stage_add(program, &fresh, &load, &sum.value));
  if (!DT_VEC_PUSH(program->arena, &fresh.reductions, sum))
    return DT_NO_MEMORY();
  *stage = fresh;
  return NULL;
}

// Places that one loop counts, as many as a product of sizes: a row of them is as long as the last
// of these.
static dt_status_t split_places(dt_program_t *program, dt_kernel_t *kernel) {
  dt_symenv_t *env = program->env;
  dt_stage_t *stage = &kernel->stages.items[0], fresh;
  dt_sym_t all = stage->extents[0], row = DT_SYM_NONE_ID;
  dt_sym_view_t view = dt__sym_view(env, all);
  for (uint32_t i = 0; view.op == DT_SYM_MUL && i < view.n_args; i++)
    if (dt__sym_is_symbol(env, view.args[i], NULL))
      row = view.args[i];
  if (stage->n_loops != 1 || !row.id)
    return NULL;
  dt_sym_t rows = dt__sym_floordiv(env, all, row);
  if (!dt__sym_known_true(env, dt__sym_lt(env, dt__sym_const(env, 0), row)) ||
      !dt__sym_known_eq(env, dt__sym_mul(env, rows, row), all))
    return NULL;
  dt__stage_start(&fresh, stage);
  dt_body_copy_t copy = {.program = program, .into = &fresh, .from = stage, .mask = DT_NO_INST};
  fresh.n_loops = 2;
  fresh.extents[0] = rows;
  fresh.extents[1] = row;
  fresh.vars[0] = dt__sym_new_loop(env, rows);
  fresh.vars[1] = dt__sym_new_loop(env, row);
  dt_sym_t at = dt__sym_add(env, dt__sym_mul(env, fresh.vars[0], row), fresh.vars[1]);
  DT_TRY(dt__body_rename(&copy, stage->vars[0], at));
  DT_TRY(dt__body_copy(&copy));
  DT_TRY(dt__body_copy_results(&copy));
  *stage = fresh;
  return dt__symenv_status(env);
}

// The first loop over places goes in front of the channels.
static void move_rows(dt_kernel_t *kernel) {
  dt_stage_t *stage = &kernel->stages.items[0];
  uint32_t last = kernel->n_loops++ - 1;
  kernel->vars[last + 1] = kernel->vars[last];
  kernel->extents[last + 1] = kernel->extents[last];
  kernel->vars[last] = stage->vars[0];
  kernel->extents[last] = stage->extents[0];
  stage->n_loops--;
  memmove(stage->vars, stage->vars + 1, stage->n_loops * sizeof(*stage->vars));
  memmove(stage->extents, stage->extents + 1, stage->n_loops * sizeof(*stage->extents));
}

dt_status_t dt__groups_steps(const dt_groups_t *g, uint32_t k, const dt_kernel_t *kernel,
                             dt_kernel_t *out, uint32_t *out_n) {
  dt_program_t *program = g->program;
  dt_symenv_t *env = program->env;
  const dt_norm_t *norm = norm_of(g, k);
  dt_sym_t each = dt__sym_const(env, norm->each), index[DT_MAX_LOOPS];
  uint32_t last = kernel->n_loops - 1, n = 0;
  dt_buffer_id_t part;
  for (uint32_t i = 0; i < DT_GROUP_STEPS; i++) {
    out[i] = *kernel;
    if (!dt__kernel_copy(program, &out[i]))
      return DT_NO_MEMORY();
  }
  DT_TRY(split_places(program, &out[0]));
  bool rows = out[0].stages.items[0].n_loops > 1;
  if (rows) {
    move_rows(&out[n]);
    dt_sym_t row = dt__sym_new_loop(env, out[n].extents[last]);
    DT_TRY(store_part(program, &out[n++], &part));
    memcpy(index, kernel->vars, last * sizeof(*index));
    index[last] = row;
    index[last + 1] = kernel->vars[last];
    DT_TRY(add_up(program, &out[n], part, row, index));
  }
  DT_TRY(store_part(program, &out[n++], &part));
  memcpy(index, kernel->vars, last * sizeof(*index));
  dt_sym_t one = dt__sym_new_loop(env, each), channel = kernel->vars[last];
  index[last] = dt__sym_add(env, dt__sym_mul(env, dt__sym_floordiv(env, channel, each), each), one);
  DT_TRY(add_up(program, &out[n++], part, one, index));
  *out_n = n;
  DT_LOG(DT_LOG_FUSION, 1, "%s: channels first, then groups of %lld", kernel->name,
         (long long)norm->each);
  return NULL;
}

// ---- What stands once a group -------------------------------------------------------------------------

// The dim of a load that is a channel's group, or the rank; *out_channel: the loop.
static uint32_t group_dim(const dt_groups_t *g, const dt_norm_t *norm, const dt_inst_t *load,
                          dt_sym_t *out_channel) {
  dt_symenv_t *env = g->program->env;
  uint32_t d = 0, rank = dt__program_buffer(g->program, load->buffer)->rank;
  for (; d < rank; d++) {
    dt_sym_view_t view = dt__sym_view(env, load->index[d]);
    int64_t by = 0;
    if (view.op != DT_SYM_FLOORDIV)
      continue;
    *out_channel = view.args[0];
    if (dt__sym_is_const(env, view.args[1], &by) && by == norm->each &&
        dt__sym_is_symbol(env, *out_channel, NULL))
      break;
  }
  return d;
}

dt_status_t dt__groups_spread(const dt_groups_t *g, uint32_t k, dt_kernel_t *kernel, uint32_t s,
                              uint32_t i, dt_kernel_t *out, bool *out_made) {
  dt_program_t *program = g->program;
  dt_symenv_t *env = program->env;
  const dt_norm_t *norm = norm_of(g, k);
  dt_inst_t *load = &kernel->stages.items[s].insts.items[i];
  *out_made = false;
  if (!norm || load->kind != DT_INST_LOAD || load->mask != DT_NO_INST ||
      dt__program_buffer(program, load->buffer)->kind != DT_BUFFER_CONSTANT)
    return NULL;
  dt_buffer_t copy = *dt__program_buffer(program, load->buffer);
  dt_sym_t channel = DT_SYM_NONE_ID, index[DT_MAX_RANK];
  uint32_t dim = group_dim(g, norm, load, &channel);
  if (dim == copy.rank)
    return NULL;
  dt_buffer_t fresh = {.kind = DT_BUFFER_TEMP, .dtype = copy.dtype, .rank = copy.rank};
  memset(out, 0, sizeof(*out));
  out->name = "spread";
  out->section = kernel->section;
  for (uint32_t d = 0; d < copy.rank; d++) {
    dt_sym_t each = dt__sym_const(env, d == dim ? norm->each : 1);
    fresh.sizes[d] = dt__sym_mul(env, copy.sizes[d], each);
    out->extents[d] = fresh.sizes[d];
    out->vars[d] = dt__sym_new_loop(env, fresh.sizes[d]);
    index[d] = dt__sym_floordiv(env, out->vars[d], each);
  }
  out->n_loops = copy.rank;
  dt_stage_t stage = {0};
  dt_inst_t from = {.kind = DT_INST_LOAD,
                    .dtype = copy.dtype,
                    .args = {DT_NO_INST, DT_NO_INST, DT_NO_INST},
                    .mask = DT_NO_INST,
                    .buffer = load->buffer,
                    .index = index};
  dt_store_t store = {.mask = DT_NO_INST, .index = index_copy(program, out->vars, copy.rank)};
  DT_TRY(dt__program_add_buffer(program, &fresh, &store.buffer));
  DT_TRY(dt__stage_add(program, &stage, &from, &store.value));
  if (!store.index || !DT_VEC_PUSH(program->arena, &stage.stores, store) ||
      !DT_VEC_PUSH(program->arena, &out->stages, stage))
    return DT_NO_MEMORY();
  dt_sym_t *at = DT_ARENA_ARRAY(program->arena, dt_sym_t, copy.rank + 1);
  if (!at)
    return DT_NO_MEMORY();
  memcpy(at, load->index, copy.rank * sizeof(*at));
  at[dim] = channel;
  load->index = at;
  load->buffer = store.buffer;
  *out_made = true;
  return dt__symenv_status(env);
}
