// SPDX-License-Identifier: Apache-2.0
// See merge.h. Everything here relies on one fact that joining kernels established: within an outer
// iteration, stages see only what earlier stages of the same outer iteration wrote to the buffers
// they share.
#include "fuse/merge.h"

#include "fuse/body.h"
#include "fuse/prune.h"
#include "runtime/base/status.h"

#include <string.h>

typedef struct merge_ctx_t {
  dt_program_t *program;
  dt_kernel_t *kernel;
  uint32_t *loads;
  const dt_stage_t *source;               // the stage whose stores answer loads
  const dt_sym_t *source_vars, *own_vars; // of `source`, and what they are called in the reader
  dt_stage_t *into;
  uint32_t *values; // joining: value of each of source's stores in `into`
  uint32_t copied;  // forwarding: 1 when `values` is filled
} merge_ctx_t;

static uint32_t store_of(const dt_stage_t *stage, dt_buffer_id_t buffer) {
  for (uint32_t k = 0; k < stage->stores.len; k++)
    if (stage->stores.items[k].buffer.id == buffer.id)
      return k;
  return UINT32_MAX;
}

static bool loads_from(const dt_stage_t *reader, const dt_stage_t *writer) {
  for (uint32_t k = 0; k < reader->insts.len; k++) {
    dt_buffer_id_t buffer = dt__inst_reads(&reader->insts.items[k]);
    if (buffer.id && store_of(writer, buffer) != UINT32_MAX)
      return true;
  }
  return false;
}

static void count_stage(const dt_stage_t *stage, uint32_t *loads, bool add) {
  for (uint32_t k = 0; k < stage->insts.len; k++)
    if (dt__inst_reads(&stage->insts.items[k]).id)
      loads[stage->insts.items[k].buffer.id - 1] += add ? 1U : UINT32_MAX;
}

static bool scatters(const dt_program_t *program, const dt_stage_t *stage) {
  for (uint32_t k = 0; k < stage->stores.len; k++)
    if (dt__store_scatters(program, &stage->stores.items[k]))
      return true;
  return false;
}

// ---- Sizes ----------------------------------------------------------------------------------------

dt_kernel_size_t dt__kernel_size(const dt_kernel_t *kernel) {
  dt_kernel_size_t size = {.stages = kernel->stages.len};
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    size.insts += kernel->stages.items[s].insts.len;
    size.stores += kernel->stages.items[s].stores.len;
  }
  return size;
}

bool dt__sizes_fit(const dt_kernel_size_t *a, const dt_kernel_size_t *b) {
  return a->stages + b->stages <= DT_MOST_STAGES && a->insts + b->insts <= DT_MOST_INSTS &&
         a->stores + b->stores <= DT_MOST_STORES;
}

// ---- Forwarding -----------------------------------------------------------------------------------

static dt_status_t forward_load(dt_body_copy_t *copy, const dt_inst_t *load, void *user,
                                uint32_t *out) {
  merge_ctx_t *ctx = user;
  *out = DT_NO_INST;
  uint32_t store = store_of(ctx->source, load->buffer);
  if (store == UINT32_MAX)
    return NULL;
  if (!ctx->copied) {
    dt_body_copy_t body = {
        .program = ctx->program, .into = copy->into, .from = ctx->source, .mask = DT_NO_INST};
    DT_TRY(dt__body_copy(&body));
    for (uint32_t k = 0; k < ctx->source->stores.len; k++)
      ctx->values[k] = body.map[ctx->source->stores.items[k].value];
    ctx->copied = 1;
  }
  return dt__body_masked(ctx->program, copy->into, load, ctx->values[store], out);
}

// Takes the scalar stage `from` into stage `to`.
static dt_status_t forward(dt_program_t *program, dt_kernel_t *kernel, uint32_t from, uint32_t to,
                           uint32_t *loads) {
  dt_stage_t *reader = &kernel->stages.items[to], fresh;
  dt_stage_t source = kernel->stages.items[from];
  merge_ctx_t ctx = {.program = program, .kernel = kernel, .source = &source};
  ctx.values = DT_ARENA_ARRAY(program->arena, uint32_t, source.stores.len + 1);
  if (!ctx.values)
    return DT_NO_MEMORY();
  dt__stage_start(&fresh, reader);
  dt_body_copy_t copy = {.program = program,
                         .into = &fresh,
                         .from = reader,
                         .mask = DT_NO_INST,
                         .hook = forward_load,
                         .user = &ctx};
  DT_TRY(dt__body_copy(&copy));
  DT_TRY(dt__body_copy_results(&copy));
  DT_TRY(dt__prune_stage(program, &fresh));
  count_stage(reader, loads, false);
  count_stage(&fresh, loads, true);
  *reader = fresh;
  return NULL;
}

static dt_status_t forward_all(dt_program_t *program, dt_kernel_t *kernel, uint32_t *loads) {
  for (uint32_t to = 1; to < kernel->stages.len; to++)
    for (uint32_t from = to; from-- > 0;) {
      const dt_stage_t *source = &kernel->stages.items[from];
      if (source->n_loops == 0 && source->reductions.len == 0 && !scatters(program, source) &&
          loads_from(&kernel->stages.items[to], source))
        DT_TRY(forward(program, kernel, from, to, loads));
    }
  return NULL;
}

// ---- Joining --------------------------------------------------------------------------------------

static bool same_loops(dt_program_t *program, const dt_stage_t *a, const dt_stage_t *b) {
  if (a->n_loops != b->n_loops || a->insts.len + b->insts.len > DT_MOST_STAGE_INSTS)
    return false;
  for (uint32_t k = 0; k < a->n_loops; k++)
    if (!dt__sym_known_eq(program->env, a->extents[k], b->extents[k]))
      return false;
  return true;
}

static bool uses_rows_of(const dt_stage_t *reader, const dt_stage_t *definer) {
  for (uint32_t k = 0; k < reader->insts.len; k++)
    for (uint32_t f = 0; f < definer->reductions.len; f++)
      if (reader->insts.items[k].kind == DT_INST_ROW &&
          reader->insts.items[k].row == definer->reductions.items[f].row)
        return true;
  return false;
}

// Every load in `b` of what `a` stores is at the element that `a` stores in the same iteration.
static bool passes_elementwise(dt_program_t *program, const dt_stage_t *a, const dt_stage_t *b) {
  for (uint32_t k = 0; k < b->insts.len; k++) {
    const dt_inst_t *load = &b->insts.items[k];
    if (load->kind != DT_INST_LOAD)
      continue;
    uint32_t s = store_of(a, load->buffer);
    if (s == UINT32_MAX)
      continue;
    uint32_t rank = dt__program_buffer(program, load->buffer)->rank;
    for (uint32_t d = 0; d < rank; d++) {
      dt_sym_t at = b->n_loops
                        ? dt__sym_subst(program->env, load->index[d], b->vars, a->vars, b->n_loops)
                        : load->index[d];
      if (at.id != a->stores.items[s].index[d].id)
        return false;
    }
  }
  return true;
}

static bool may_join(dt_program_t *program, const dt_kernel_t *kernel, uint32_t i, uint32_t j) {
  const dt_stage_t *a = &kernel->stages.items[i], *b = &kernel->stages.items[j];
  if (!same_loops(program, a, b) || uses_rows_of(b, a) || !passes_elementwise(program, a, b) ||
      (scatters(program, a) && loads_from(b, a)))
    return false;
  // A stage without loops next to a reduction over nothing means the same, but keep the two apart:
  // a reduction stage reduces in every iteration, and there is one.
  if (a->n_loops == 0 && (a->reductions.len || b->reductions.len))
    return false;
  for (uint32_t k = i + 1; k < j; k++) {
    const dt_stage_t *between = &kernel->stages.items[k];
    if (uses_rows_of(b, between) || loads_from(b, between))
      return false;
  }
  return true;
}

static dt_status_t join_load(dt_body_copy_t *copy, const dt_inst_t *load, void *user,
                             uint32_t *out) {
  merge_ctx_t *ctx = user;
  *out = DT_NO_INST;
  uint32_t store = store_of(ctx->source, load->buffer);
  if (store == UINT32_MAX)
    return NULL;
  return dt__body_masked(ctx->program, copy->into, load, ctx->values[store], out);
}

static dt_status_t join(dt_program_t *program, dt_kernel_t *kernel, uint32_t i, uint32_t j,
                        uint32_t *loads) {
  dt_stage_t a = kernel->stages.items[i], b = kernel->stages.items[j], fresh;
  merge_ctx_t ctx = {.program = program, .kernel = kernel, .source = &a};
  ctx.values = DT_ARENA_ARRAY(program->arena, uint32_t, a.stores.len + 1);
  if (!ctx.values)
    return DT_NO_MEMORY();
  dt__stage_start(&fresh, &a);
  dt_body_copy_t first = {.program = program, .into = &fresh, .from = &a, .mask = DT_NO_INST};
  DT_TRY(dt__body_copy(&first));
  DT_TRY(dt__body_copy_results(&first));
  for (uint32_t k = 0; k < a.stores.len; k++)
    ctx.values[k] = first.map[a.stores.items[k].value];
  dt_body_copy_t second = {.program = program,
                           .into = &fresh,
                           .from = &b,
                           .mask = DT_NO_INST,
                           .hook = join_load,
                           .user = &ctx};
  for (uint32_t k = 0; k < b.n_loops; k++)
    if (b.vars[k].id != a.vars[k].id)
      DT_TRY(dt__body_rename(&second, b.vars[k], a.vars[k]));
  DT_TRY(dt__body_copy(&second));
  DT_TRY(dt__body_copy_results(&second));
  DT_TRY(dt__prune_stage(program, &fresh));
  count_stage(&a, loads, false);
  count_stage(&b, loads, false);
  count_stage(&fresh, loads, true);
  kernel->stages.items[i] = fresh;
  for (uint32_t k = j; k + 1 < kernel->stages.len; k++)
    kernel->stages.items[k] = kernel->stages.items[k + 1];
  kernel->stages.len--;
  return NULL;
}

static dt_status_t join_all(dt_program_t *program, dt_kernel_t *kernel, uint32_t n_fixed,
                            uint32_t *loads) {
  for (uint32_t i = n_fixed; i < kernel->stages.len; i++)
    for (uint32_t j = i + 1; j < kernel->stages.len;) {
      if (may_join(program, kernel, i, j))
        DT_TRY(join(program, kernel, i, j, loads));
      else
        j++;
    }
  return NULL;
}

// ---- LOCAL buffers --------------------------------------------------------------------------------

static uint32_t loads_inside(const dt_kernel_t *kernel, dt_buffer_id_t buffer) {
  uint32_t n = 0;
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t k = 0; k < kernel->stages.items[s].insts.len; k++) {
      const dt_inst_t *inst = &kernel->stages.items[s].insts.items[k];
      n += inst->kind == DT_INST_LOAD && inst->buffer.id == buffer.id;
    }
  return n;
}

// Dims of `store` that move with the inner loops; the others are fixed within an outer iteration.
static uint32_t inner_dims(dt_program_t *program, const dt_kernel_t *kernel,
                           const dt_stage_t *stage, const dt_store_t *store, uint32_t *dims) {
  uint32_t n = 0, rank = dt__program_buffer(program, store->buffer)->rank;
  for (uint32_t d = 0; d < rank; d++) {
    bool inner = false, outer = false;
    for (uint32_t v = 0; v < stage->n_loops; v++)
      inner = inner || dt__sym_depends(program->env, store->index[d], stage->vars[v]);
    for (uint32_t v = 0; v < kernel->n_loops; v++)
      outer = outer || dt__sym_depends(program->env, store->index[d], kernel->vars[v]);
    if (inner && outer)
      return UINT32_MAX; // a dim both move: no LOCAL of smaller rank
    if (inner)
      dims[n++] = d;
  }
  return n;
}

static dt_status_t pick(dt_program_t *program, const dt_sym_t *index, const uint32_t *dims,
                        uint32_t n, const dt_sym_t **out) {
  dt_sym_t *picked = DT_ARENA_ARRAY(program->arena, dt_sym_t, n + 1);
  if (!picked)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < n; k++)
    picked[k] = index[dims[k]];
  *out = picked;
  return NULL;
}

static dt_status_t make_local(dt_program_t *program, dt_kernel_t *kernel, uint32_t s, uint32_t at,
                              uint32_t *loads) {
  dt_store_t *store = &kernel->stages.items[s].stores.items[at];
  dt_buffer_id_t old = store->buffer;
  const dt_buffer_t *temp = dt__program_buffer(program, old);
  uint32_t dims[DT_MAX_RANK];
  uint32_t n = inner_dims(program, kernel, &kernel->stages.items[s], store, dims);
  if (n == UINT32_MAX)
    return NULL;
  dt_buffer_t local = {.kind = DT_BUFFER_LOCAL, .dtype = temp->dtype, .rank = n};
  for (uint32_t k = 0; k < n; k++)
    local.sizes[k] = temp->sizes[dims[k]];
  dt_buffer_id_t id;
  DT_TRY(dt__program_add_buffer(program, &local, &id));
  store->buffer = id;
  DT_TRY(pick(program, store->index, dims, n, &store->index));
  for (uint32_t t = 0; t < kernel->stages.len; t++)
    for (uint32_t k = 0; k < kernel->stages.items[t].insts.len; k++) {
      dt_inst_t *inst = &kernel->stages.items[t].insts.items[k];
      if (inst->kind != DT_INST_LOAD || inst->buffer.id != old.id)
        continue;
      inst->buffer = id;
      DT_TRY(pick(program, inst->index, dims, n, &inst->index));
    }
  // The new buffer's loads need no count: LOCAL buffers are judged by their own kernel alone.
  loads[old.id - 1] = 0;
  return NULL;
}

static dt_status_t localise(dt_program_t *program, dt_kernel_t *kernel, uint32_t *loads) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t k = 0; k < kernel->stages.items[s].stores.len; k++) {
      dt_buffer_id_t buffer = kernel->stages.items[s].stores.items[k].buffer;
      const dt_buffer_t *temp = dt__program_buffer(program, buffer);
      if (temp->kind != DT_BUFFER_TEMP || !dt__layout_is_order(temp->layout, temp->rank) ||
          scatters(program, &kernel->stages.items[s]))
        continue;
      uint32_t inside = loads_inside(kernel, buffer);
      if (inside && inside == loads[buffer.id - 1])
        DT_TRY(make_local(program, kernel, s, k, loads));
    }
  return NULL;
}

// Drops stores of TEMP buffers that nobody reads and stages that then do nothing.
static dt_status_t drop_dead(dt_program_t *program, dt_kernel_t *kernel, uint32_t *loads) {
  for (uint32_t s = kernel->stages.len; s-- > 0;) {
    dt_stage_t *stage = &kernel->stages.items[s];
    uint32_t kept = 0;
    for (uint32_t k = 0; k < stage->stores.len; k++) {
      const dt_buffer_t *buffer = dt__program_buffer(program, stage->stores.items[k].buffer);
      if (buffer->kind != DT_BUFFER_TEMP || loads[stage->stores.items[k].buffer.id - 1])
        stage->stores.items[kept++] = stage->stores.items[k];
    }
    stage->stores.len = kept;
    count_stage(stage, loads, false);
    DT_TRY(dt__prune_stage(program, stage));
    count_stage(stage, loads, true);
  }
  uint32_t kept = 0;
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    bool bind = false;
    for (uint32_t k = 0; k < stage->insts.len; k++)
      bind = bind || stage->insts.items[k].kind == DT_INST_BIND;
    if (stage->stores.len || stage->reductions.len || bind)
      kernel->stages.items[kept++] = *stage;
  }
  kernel->stages.len = kept;
  return NULL;
}

dt_status_t dt__merge_stages(dt_program_t *program, dt_kernel_t *kernel, uint32_t n_fixed,
                             uint32_t *loads) {
  DT_TRY(forward_all(program, kernel, loads));
  DT_TRY(join_all(program, kernel, n_fixed, loads));
  return drop_dead(program, kernel, loads);
}

dt_status_t dt__merge_localise(dt_program_t *program, dt_kernel_t *kernel, uint32_t *loads) {
  return localise(program, kernel, loads);
}
