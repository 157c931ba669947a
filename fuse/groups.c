// SPDX-License-Identifier: Apache-2.0
// Norms over groups of channels. Exporters write them by a reshape, [n, C, H, W] as [n, G, C / G *
// H * W], so that all that is made of groups has loops (n, g, x), and reads channel g * (C / G) + x
// // (H * W). With channels innermost such a sum would walk memory in steps. Here these kernels and
// their temporaries get the dims of the image, and a sum of a group one value for each of its
// channels, so that everything is a map over (n, c, h, w) that reads values at (n, c). Sums are
// made in steps, each with lanes on channels:
//
//   s[n, g]    = sum over x     f(n, g, x)
//
//   a[n, h, c] = sum over w     f(n, c, h, w)
//   b[n, c]    = sum over h     a[n, h, c]
//   s[n, c]    = sum over c'    b[n, c // (C / G) * (C / G) + c']
//
// Elements of temporaries keep their place in the row-major order of their dims, so whoever else
// reads one finds it by that place.
#include "fuse/groups.h"

#include "fuse/loops.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

// ---- Loops of kernels -----------------------------------------------------------------------------

// A kernel of one result, a map or a sum: its last stage stores it.
static const dt_store_t *result_of(const dt_kernel_t *kernel) {
  const dt_stage_t *last = &kernel->stages.items[kernel->stages.len - 1];
  return &last->stores.items[0];
}

static bool is_sum(const dt_program_t *program, const dt_kernel_t *kernel) {
  uint32_t a = 0, b = 0;
  if (kernel->stages.len != 2 || kernel->schedules.len || dt__kernel_updates(program, kernel) ||
      dt__kernel_is_product(kernel, &a, &b) || dt__kernel_in_order(kernel))
    return false;
  const dt_stage_t *first = &kernel->stages.items[0], *last = &kernel->stages.items[1];
  return first->n_loops > 0 && first->reductions.len == 1 && first->stores.len == 0 &&
         !dt__reduction_is_arg(first->reductions.items[0].kind) &&
         !dt__reduction_is_last(first->reductions.items[0].kind) && last->n_loops == 0 &&
         last->reductions.len == 0 && last->stores.len == 1 &&
         last->stores.items[0].mask == DT_NO_INST && !last->stores.items[0].revises &&
         !last->stores.items[0].whole;
}

static bool is_map(const dt_program_t *program, const dt_kernel_t *kernel) {
  return !kernel->external && !kernel->schedules.len && dt__kernel_is_map(program, kernel) &&
         result_of(kernel)->mask == DT_NO_INST;
}

static bool is_loop(const dt_kernel_t *kernel, dt_sym_t e) {
  for (uint32_t v = 0; v < kernel->n_loops; v++)
    if (kernel->vars[v].id == e.id)
      return true;
  return false;
}

static bool is_zero(const dt_program_t *program, dt_sym_t e) {
  int64_t value = 1;
  return dt__sym_is_const(program->env, e, &value) && value == 0;
}

// The result's index is the outer loops, all of them in their order, with zeros between.
static bool stores_plainly(const dt_program_t *program, const dt_kernel_t *kernel) {
  const dt_store_t *store = result_of(kernel);
  uint32_t v = 0, rank = dt__program_buffer(program, store->buffer)->rank;
  for (uint32_t d = 0; d < rank; d++) {
    if (v < kernel->n_loops && store->index[d].id == kernel->vars[v].id)
      v++;
    else if (!is_zero(program, store->index[d]))
      return false;
  }
  return v == kernel->n_loops;
}

static dt_sym_t product_of(dt_symenv_t *env, const dt_sym_t *sizes, uint32_t from, uint32_t to) {
  dt_sym_t all = dt__sym_const(env, 1);
  for (uint32_t d = from; d < to; d++)
    all = dt__sym_mul(env, all, sizes[d]);
  return all;
}

// ---- What a norm is of ------------------------------------------------------------------------------

static const dt_buffer_t *source_of(const dt_groups_t *g, const dt_norm_t *norm) {
  return &g->program->buffers.items[norm->source];
}

static dt_sym_t places_of(const dt_groups_t *g, const dt_norm_t *norm) {
  const dt_buffer_t *source = source_of(g, norm);
  return product_of(g->program->env, source->sizes, norm->dim + 1, source->rank);
}

// The dims from `dim` on are (groups, then all of a group).
static bool has_places(const dt_groups_t *g, const dt_norm_t *norm, const dt_sym_t *sizes,
                       uint32_t rank) {
  dt_symenv_t *env = g->program->env;
  int64_t groups = 0;
  if (rank < norm->dim + 2 || !dt__sym_is_const(env, sizes[norm->dim], &groups) ||
      groups != norm->groups)
    return false;
  for (uint32_t d = 0; d < norm->dim; d++)
    if (sizes[d].id != source_of(g, norm)->sizes[d].id)
      return false;
  dt_sym_t all = dt__sym_mul(env, dt__sym_const(env, norm->each), places_of(g, norm));
  return dt__sym_known_eq(env, product_of(env, sizes, norm->dim + 1, rank), all);
}

// One value a group.
static bool has_sums(const dt_groups_t *g, const dt_norm_t *norm, const dt_sym_t *sizes,
                     uint32_t rank) {
  int64_t size = 0;
  if (rank < norm->dim + 1 || !dt__sym_is_const(g->program->env, sizes[norm->dim], &size) ||
      size != norm->groups)
    return false;
  for (uint32_t d = 0; d < norm->dim; d++)
    if (sizes[d].id != source_of(g, norm)->sizes[d].id)
      return false;
  for (uint32_t d = norm->dim + 1; d < rank; d++)
    if (!dt__sym_is_const(g->program->env, sizes[d], &size) || size != 1)
      return false;
  return true;
}

// ---- A kernel with the loops of the image -------------------------------------------------------------

typedef struct opened_t {
  dt_sym_t channel;             // a loop, or zero
  dt_sym_t places[DT_MAX_RANK]; // by dim of the source behind its channels: a loop, or zero
  dt_sym_t at;                  // the number of the element in its group
} opened_t;

static dt_sym_t loop_over(dt_symenv_t *env, dt_sym_t extent) {
  int64_t size = 0;
  return dt__sym_is_const(env, extent, &size) && size == 1 ? dt__sym_const(env, 0)
                                                           : dt__sym_new_loop(env, extent);
}

static opened_t new_loops(const dt_groups_t *g, const dt_norm_t *norm) {
  dt_symenv_t *env = g->program->env;
  const dt_buffer_t *source = source_of(g, norm);
  opened_t o = {.channel = loop_over(env, source->sizes[norm->dim])};
  o.at = dt__sym_mod(env, o.channel, dt__sym_const(env, norm->each));
  for (uint32_t d = norm->dim + 1; d < source->rank; d++) {
    o.places[d] = loop_over(env, source->sizes[d]);
    o.at = dt__sym_add(env, dt__sym_mul(env, o.at, source->sizes[d]), o.places[d]);
  }
  return o;
}

static dt_sym_t group_of(const dt_groups_t *g, const dt_norm_t *norm, const opened_t *o) {
  dt_symenv_t *env = g->program->env;
  return dt__sym_floordiv(env, o->channel, dt__sym_const(env, norm->each));
}

// Loop `n` of those that count a group's elements, of these extents.
static dt_sym_t digit(dt_symenv_t *env, dt_sym_t at, const dt_sym_t *extents, uint32_t n,
                      uint32_t count) {
  dt_sym_t e = dt__sym_floordiv(env, at, product_of(env, extents, n + 1, count));
  return n ? dt__sym_mod(env, e, extents[n]) : e;
}

// What replaces the loops of a kernel of the norm: those that count groups, and their elements.
typedef struct renames_t {
  uint32_t n;
  dt_sym_t from[DT_MAX_LOOPS * 2], to[DT_MAX_LOOPS * 2];
} renames_t;

static void rename_loop(renames_t *r, dt_sym_t from, dt_sym_t to) {
  r->from[r->n] = from;
  r->to[r->n++] = to;
}

// Of a map loops of the result's dims behind the groups count elements, of a sum its inner loops.
static renames_t renames_of(const dt_groups_t *g, const dt_norm_t *norm, const dt_kernel_t *kernel,
                            const opened_t *o) {
  dt_symenv_t *env = g->program->env;
  const dt_store_t *store = result_of(kernel);
  const dt_buffer_t *result = dt__program_buffer(g->program, store->buffer);
  renames_t r = {0};
  if (is_loop(kernel, store->index[norm->dim]))
    rename_loop(&r, store->index[norm->dim], group_of(g, norm, o));
  if (kernel->stages.len == 2) {
    const dt_stage_t *stage = &kernel->stages.items[0];
    for (uint32_t v = 0; v < stage->n_loops; v++)
      rename_loop(&r, stage->vars[v], digit(env, o->at, stage->extents, v, stage->n_loops));
    return r;
  }
  for (uint32_t d = norm->dim + 1; d < result->rank; d++)
    if (is_loop(kernel, store->index[d]))
      rename_loop(&r, store->index[d],
                  digit(env, o->at, result->sizes + norm->dim + 1, d - norm->dim - 1,
                        result->rank - norm->dim - 1));
  return r;
}

// The load reads the source at the channel and place that the loops count.
static bool reads_image(const dt_groups_t *g, const dt_norm_t *norm, const dt_kernel_t *kernel,
                        const dt_sym_t *index) {
  dt_symenv_t *env = g->program->env;
  const dt_store_t *store = result_of(kernel);
  for (uint32_t d = 0; d < norm->dim; d++)
    if (index[d].id != store->index[d].id)
      return false;
  opened_t o = new_loops(g, norm);
  renames_t r = renames_of(g, norm, kernel, &o);
  for (uint32_t d = norm->dim; d < source_of(g, norm)->rank; d++) {
    dt_sym_t want = d == norm->dim ? o.channel : o.places[d];
    if (dt__sym_subst(env, index[d], r.from, r.to, r.n).id != want.id)
      return false;
  }
  return true;
}

// ---- Finding norms ----------------------------------------------------------------------------------

static bool is_open(const dt_groups_t *g, uint32_t b) {
  return b < g->n_buffers && !g->stays[b] && !g->of_buffer[b] &&
         g->program->buffers.items[b].kind == DT_BUFFER_TEMP;
}

// The kernel's loops are those of the norm: what it makes has its dims, or is a value a group.
static bool fits(const dt_groups_t *g, const dt_norm_t *norm, const dt_kernel_t *kernel) {
  const dt_program_t *program = g->program;
  bool sum = is_sum(program, kernel);
  if ((!sum && !is_map(program, kernel)) || !stores_plainly(program, kernel))
    return false;
  const dt_buffer_t *result = dt__program_buffer(program, result_of(kernel)->buffer);
  if (!sum)
    return has_places(g, norm, result->sizes, result->rank) ||
           has_sums(g, norm, result->sizes, result->rank);
  const dt_stage_t *stage = &kernel->stages.items[0];
  dt_symenv_t *env = program->env;
  dt_sym_t all = dt__sym_mul(env, dt__sym_const(env, norm->each), places_of(g, norm));
  return has_sums(g, norm, result->sizes, result->rank) &&
         dt__sym_known_eq(env, product_of(env, stage->extents, 0, stage->n_loops), all);
}

static dt_status_t take(dt_groups_t *g, uint32_t n, uint32_t k) {
  dt_norm_t *norm = &g->norms.items[n];
  const dt_kernel_t *kernel = &g->program->kernels.items[k];
  dt_buffer_id_t id = result_of(kernel)->buffer;
  const dt_buffer_t *result = dt__program_buffer(g->program, id);
  g->of_kernel[k] = g->of_buffer[id.id - 1] = n + 1;
  g->holds_sums[id.id - 1] =
      kernel->stages.len == 2 || has_sums(g, norm, result->sizes, result->rank);
  norm->sums |= kernel->stages.len == 2;
  return DT_VEC_PUSH(g->program->arena, &norm->kernels, k) &&
                 DT_VEC_PUSH(g->program->arena, &norm->buffers, id.id - 1)
             ? NULL
             : DT_NO_MEMORY();
}

// Kernel k belongs to it, too, where it can.
static dt_status_t try_take(dt_groups_t *g, uint32_t n, uint32_t k) {
  const dt_kernel_t *kernel = &g->program->kernels.items[k];
  if (g->of_kernel[k] || !kernel->stages.len ||
      !kernel->stages.items[kernel->stages.len - 1].stores.len ||
      !fits(g, &g->norms.items[n], kernel))
    return NULL;
  uint32_t b = result_of(kernel)->buffer.id - 1;
  return is_open(g, b) && dt__flow_writer(g->flow, b) == k ? take(g, n, k) : NULL;
}

static dt_status_t take_users(dt_groups_t *g, uint32_t n, uint32_t b) {
  DT_TRY(dt__flow_users(g->flow, b));
  for (uint32_t u = 0; u < g->flow->users.len; u++)
    DT_TRY(try_take(g, n, g->flow->users.items[u]));
  return NULL;
}

static bool has_loops(const dt_program_t *program, const dt_buffer_t *source, uint32_t from) {
  int64_t size = 0;
  for (uint32_t d = from; d < source->rank; d++)
    if (!dt__sym_is_const(program->env, source->sizes[d], &size) || size != 1)
      return true;
  return false;
}

// Whether the load is of groups of a buffer's channels; *out: the norm.
static bool begins_norm(const dt_groups_t *g, const dt_kernel_t *kernel, const dt_inst_t *load,
                        dt_norm_t *out) {
  const dt_program_t *program = g->program;
  const dt_buffer_t *source = dt__program_buffer(program, load->buffer);
  const dt_store_t *store = result_of(kernel);
  const dt_buffer_t *result = dt__program_buffer(program, store->buffer);
  uint32_t d = 0;
  int64_t channels = 0, groups = 0;
  while (d < source->rank && d < result->rank && load->index[d].id == store->index[d].id)
    d++;
  if (d + 1 >= source->rank || d >= result->rank || !is_open(g, load->buffer.id - 1) ||
      !dt__sym_is_const(program->env, source->sizes[d], &channels) ||
      !dt__sym_is_const(program->env, result->sizes[d], &groups) || groups <= 0 ||
      channels % groups || channels <= groups || !has_loops(program, source, d + 1))
    return false;
  *out = (dt_norm_t){
      .source = load->buffer.id - 1, .dim = d, .groups = groups, .each = channels / groups};
  return fits(g, out, kernel) && reads_image(g, out, kernel, load->index);
}

static dt_status_t begin_norm(dt_groups_t *g, uint32_t k) {
  const dt_kernel_t *kernel = &g->program->kernels.items[k];
  dt_norm_t norm;
  if (g->of_kernel[k] || (!is_sum(g->program, kernel) && !is_map(g->program, kernel)) ||
      !stores_plainly(g->program, kernel))
    return NULL;
  const dt_stage_t *stage = &kernel->stages.items[0];
  for (uint32_t i = 0; i < stage->insts.len; i++) {
    if (stage->insts.items[i].kind != DT_INST_LOAD ||
        !begins_norm(g, kernel, &stage->insts.items[i], &norm))
      continue;
    uint32_t n = g->norms.len, b = result_of(kernel)->buffer.id - 1;
    if (!is_open(g, b) || dt__flow_writer(g->flow, b) != k)
      continue;
    if (!DT_VEC_PUSH(g->program->arena, &g->norms, norm))
      return DT_NO_MEMORY();
    g->stays[norm.source] = true;
    DT_TRY(take(g, n, k));
    DT_TRY(take_users(g, n, norm.source));
    for (uint32_t at = 0; at < g->norms.items[n].buffers.len; at++)
      DT_TRY(take_users(g, n, g->norms.items[n].buffers.items[at]));
    return NULL;
  }
  return NULL;
}

dt_status_t dt__groups_find(dt_program_t *program, dt_flow_t *flow, const bool *open,
                            dt_groups_t *out) {
  uint32_t n = program->buffers.len, m = program->kernels.len;
  *out = (dt_groups_t){.program = program,
                       .flow = flow,
                       .n_buffers = n,
                       .n_kernels = m,
                       .of_buffer = DT_ARENA_ARRAY(program->arena, uint32_t, n + 1),
                       .of_kernel = DT_ARENA_ARRAY(program->arena, uint32_t, m + 1),
                       .holds_sums = DT_ARENA_ARRAY(program->arena, bool, n + 1),
                       .stays = DT_ARENA_ARRAY(program->arena, bool, n + 1),
                       .opened = DT_ARENA_ARRAY(program->arena, uint32_t, m + 1)};
  if (!out->of_buffer || !out->of_kernel || !out->holds_sums || !out->stays || !out->opened)
    return DT_NO_MEMORY();
  for (uint32_t b = 0; b < n; b++)
    out->stays[b] = !open[b];
  for (uint32_t k = 0; k < m; k++)
    DT_TRY(begin_norm(out, k));
  for (uint32_t i = 0; i < out->norms.len; i++)
    out->norms.items[i].dropped = !out->norms.items[i].sums;
  return dt__symenv_status(program->env);
}

// ---- Opening them -----------------------------------------------------------------------------------

// The index of an element of a temporary of the norm, by its index before. `o`: the loops of a
// kernel of the norm, or NULL.
static const dt_sym_t *opened_index(const dt_groups_t *g, const dt_norm_t *norm, dt_buffer_id_t id,
                                    const dt_sym_t *index, const opened_t *o) {
  dt_program_t *program = g->program;
  dt_symenv_t *env = program->env;
  const dt_buffer_t *buffer = dt__program_buffer(program, id), *source = source_of(g, norm);
  uint32_t dim = norm->dim, count = buffer->rank - dim - 1;
  const dt_sym_t *sizes = buffer->sizes + dim + 1;
  dt_sym_t *out = DT_ARENA_ARRAY(program->arena, dt_sym_t, DT_MAX_RANK), at;
  if (!out)
    return NULL;
  memcpy(out, index, buffer->rank * sizeof(*out));
  dt_sym_t each = dt__sym_const(env, norm->each);
  bool own = o && index[dim].id == group_of(g, norm, o).id;
  if (g->holds_sums[id.id - 1]) {
    out[dim] = own ? o->channel : dt__sym_mul(env, index[dim], each);
    return out;
  }
  for (uint32_t d = 0; own && d < count; d++)
    own = index[dim + 1 + d].id == digit(env, o->at, sizes, d, count).id;
  if (own) {
    out[dim] = o->channel;
    memcpy(out + dim + 1, o->places + dim + 1, (source->rank - dim - 1) * sizeof(*out));
    return out;
  }
  at = index[dim];
  for (uint32_t d = 0; d < count; d++)
    at = dt__sym_add(env, dt__sym_mul(env, at, sizes[d]), index[dim + 1 + d]);
  for (uint32_t d = dim; d < source->rank; d++)
    out[d] = digit(env, at, source->sizes + dim, d - dim, source->rank - dim);
  return out;
}

static dt_status_t open_accesses(const dt_groups_t *g, const dt_norm_t *norm, dt_stage_t *stage,
                                 const opened_t *o) {
  uint32_t own = (uint32_t)(norm - g->norms.items) + 1;
  for (uint32_t i = 0; i < stage->insts.len; i++) {
    dt_inst_t *load = &stage->insts.items[i];
    if (load->kind == DT_INST_LOAD && load->buffer.id <= g->n_buffers &&
        g->of_buffer[load->buffer.id - 1] == own &&
        !(load->index = opened_index(g, norm, load->buffer, load->index, o)))
      return DT_NO_MEMORY();
  }
  for (uint32_t i = 0; i < stage->stores.len; i++) {
    dt_store_t *store = &stage->stores.items[i];
    if (store->buffer.id <= g->n_buffers && g->of_buffer[store->buffer.id - 1] == own &&
        !(store->index = opened_index(g, norm, store->buffer, store->index, o)))
      return DT_NO_MEMORY();
  }
  return NULL;
}

static void add_loop(dt_symenv_t *env, uint32_t *n, dt_sym_t *vars, dt_sym_t *extents,
                     dt_sym_t var) {
  uint32_t symbol = 0;
  if (!dt__sym_is_symbol(env, var, &symbol))
    return;
  vars[*n] = var;
  extents[(*n)++] = dt__symbol_extent(env, symbol);
}

static dt_status_t open_stage(const dt_groups_t *g, const dt_norm_t *norm, dt_stage_t *stage,
                              const renames_t *r, const opened_t *o) {
  dt_stage_t fresh;
  dt__stage_start(&fresh, stage);
  dt_body_copy_t copy = {.program = g->program, .into = &fresh, .from = stage, .mask = DT_NO_INST};
  for (uint32_t n = 0; n < r->n; n++)
    DT_TRY(dt__body_rename(&copy, r->from[n], r->to[n]));
  DT_TRY(dt__body_copy(&copy));
  DT_TRY(dt__body_copy_results(&copy));
  *stage = fresh;
  return open_accesses(g, norm, stage, o);
}

static dt_status_t open_kernel(const dt_groups_t *g, const dt_norm_t *norm, dt_kernel_t *kernel) {
  dt_program_t *program = g->program;
  dt_symenv_t *env = program->env;
  if (!dt__kernel_copy(program, kernel))
    return DT_NO_MEMORY();
  const dt_store_t *store = result_of(kernel);
  bool places = !g->holds_sums[store->buffer.id - 1];
  opened_t o = new_loops(g, norm);
  renames_t r = renames_of(g, norm, kernel, &o);
  uint32_t n = 0;
  for (uint32_t d = 0; d < norm->dim; d++)
    n += is_loop(kernel, store->index[d]); // they stand in this order
  add_loop(env, &n, kernel->vars, kernel->extents, o.channel);
  for (uint32_t d = norm->dim + 1; places && d < source_of(g, norm)->rank; d++)
    add_loop(env, &n, kernel->vars, kernel->extents, o.places[d]);
  kernel->n_loops = n;
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    DT_TRY(open_stage(g, norm, &kernel->stages.items[s], &r, &o));
  dt_stage_t *first = &kernel->stages.items[0];
  if (kernel->stages.len == 1)
    return NULL;
  first->n_loops = 0;
  for (uint32_t d = norm->dim + 1; d < source_of(g, norm)->rank; d++)
    add_loop(env, &first->n_loops, first->vars, first->extents, o.places[d]);
  return NULL;
}

// Others that read its temporaries.
static dt_status_t open_readers(const dt_groups_t *g, const dt_norm_t *norm, uint32_t b) {
  dt_program_t *program = g->program;
  uint32_t own = (uint32_t)(norm - g->norms.items) + 1;
  DT_TRY(dt__flow_users(g->flow, b));
  for (uint32_t u = 0; u < g->flow->users.len; u++) {
    uint32_t k = g->flow->users.items[u];
    dt_kernel_t *kernel = &program->kernels.items[k];
    if (g->of_kernel[k] == own || g->opened[k] == own)
      continue;
    g->opened[k] = own;
    if (!dt__kernel_copy(program, kernel))
      return DT_NO_MEMORY();
    for (uint32_t s = 0; s < kernel->stages.len; s++)
      DT_TRY(open_accesses(g, norm, &kernel->stages.items[s], NULL));
  }
  return NULL;
}

static void open_buffer(const dt_groups_t *g, const dt_norm_t *norm, uint32_t b) {
  dt_buffer_t *buffer = &g->program->buffers.items[b];
  const dt_buffer_t *source = source_of(g, norm);
  buffer->sizes[norm->dim] = source->sizes[norm->dim];
  if (!g->holds_sums[b]) {
    buffer->rank = source->rank;
    memcpy(buffer->sizes, source->sizes, sizeof(buffer->sizes));
  }
  dt__buffer_set_strides(g->program->env, buffer);
}

dt_status_t dt__groups_open(dt_groups_t *g) {
  dt_program_t *program = g->program;
  memset(g->opened, 0, g->n_kernels * sizeof(*g->opened));
  for (uint32_t n = 0; n < g->norms.len; n++) {
    const dt_norm_t *norm = &g->norms.items[n];
    if (norm->dropped)
      continue;
    for (uint32_t i = 0; i < norm->kernels.len; i++)
      DT_TRY(open_kernel(g, norm, &program->kernels.items[norm->kernels.items[i]]));
    for (uint32_t i = 0; i < norm->buffers.len; i++)
      DT_TRY(open_readers(g, norm, norm->buffers.items[i]));
    for (uint32_t i = 0; i < norm->buffers.len; i++)
      open_buffer(g, norm, norm->buffers.items[i]);
  }
  return dt__symenv_status(program->env);
}
