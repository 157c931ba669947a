// SPDX-License-Identifier: Apache-2.0
// See channels.h. A convolution comes as weights times the windows of x, columns of which are
// places: each call packs the windows, and places that fill no vector are computed for nothing. The
// other way round places are rows, and output channels columns. Then the weights are what is
// packed, once, lanes run over channels, which are literals, and a place's channels are read one
// behind the other:
//
//   outer n, k, p   sum over q  w[k, q // 9, (q // 3) % 3, q % 3] * x[n, q // 9, p // W + …, …]
//   outer n, p, k   sum over dy, dx, c  x[n, c, p // W + dy, p % W + dx] * w[k, c, dy, dx]
//
// This wants the channels of x and of the result innermost in memory, and so those of all
// temporaries that kernels walk along with them: a loop that is the index of such a dim makes the
// dims that it is the index of elsewhere such dims, too. Arguments and results stay as they are: x
// is copied where nothing else stands in between.
#include "fuse/channels.h"

#include "fuse/body.h"
#include "fuse/loops.h"
#include "fuse/matmul_rows.h"
#include "fuse/operands.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

#define LEAST_CHANNELS 16 // of the result; fewer would leave most lanes empty
#define LEAST_TERMS 16    // of the sum
// Products for each element that is copied into another order and back, from which on one turned
// convolution by itself is faster. `scripts/bench conv` (bench/bench_conv.c) measures.
#define COPY_TERMS 512

// A load that wants a dim of its buffer innermost, and gets a copy where it lies otherwise.
typedef struct want_t {
  uint32_t kernel, stage, load, dim;
  uint32_t next; // 1 + the next one of the kernel, or 0
} want_t;

typedef struct channels_t {
  dt_program_t *program;
  dt_flow_t *flow;
  const dt_target_t *target;
  dt_fixed_t fixed;
  bool *open;                    // by buffer, [id - 1]: a temporary that may take an order
  uint32_t *refused;             // by buffer: dims that are not to be, as bits
  uint8_t *dim;                  // by buffer: 1 + the dim that is to be innermost; 0: none
  bool *turned;                  // by kernel
  dt_kernel_t kept;              // the kernel that was turned last, as it was
  bool alone;                    // it is worth copies of x and of its result
  bool from_argument, to_result; // the search came to one whose dim lies otherwise
  DT_VEC(want_t) wants;
  uint32_t *wanted;       // by kernel: 1 + the newest of its wants, or 0
  DT_VEC(uint32_t) queue; // buffers, by [id - 1], that the search has reached
} channels_t;

// ---- What may take an order -----------------------------------------------------------------------

static void close_stage(const channels_t *c, const dt_stage_t *stage) {
  for (uint32_t i = 0; i < stage->insts.len; i++) {
    const dt_inst_t *inst = &stage->insts.items[i];
    if (dt__inst_reads(inst).id && inst->kind != DT_INST_LOAD)
      c->open[inst->buffer.id - 1] = false;
  }
  for (uint32_t i = 0; i < stage->stores.len; i++)
    if (stage->stores.items[i].whole || stage->stores.items[i].revises)
      c->open[stage->stores.items[i].buffer.id - 1] = false;
}

static dt_status_t begin(channels_t *c) {
  const dt_program_t *program = c->program;
  uint32_t n = program->buffers.len;
  c->open = DT_ARENA_ARRAY(program->arena, bool, n + 1);
  c->dim = DT_ARENA_ARRAY(program->arena, uint8_t, n + 1);
  c->turned = DT_ARENA_ARRAY(program->arena, bool, program->kernels.len + 1);
  c->wanted = DT_ARENA_ARRAY(program->arena, uint32_t, program->kernels.len + 1);
  if (!c->open || !c->dim || !c->turned || !c->wanted)
    return DT_NO_MEMORY();
  for (uint32_t b = 0; b < n; b++)
    c->open[b] = program->buffers.items[b].kind == DT_BUFFER_TEMP &&
                 !program->buffers.items[b].layout && !dt__buffer_is_readback(program, b + 1);
  for (uint32_t k = 0; k < program->kernels.len; k++)
    for (uint32_t s = 0; s < program->kernels.items[k].stages.len; s++)
      close_stage(c, &program->kernels.items[k].stages.items[s]);
  return NULL;
}

// Whether the dims behind it have one element each.
static bool is_innermost(const dt_program_t *program, const dt_buffer_t *buffer, uint32_t dim) {
  int64_t size = 0;
  for (uint32_t d = dim + 1; d < buffer->rank; d++)
    if (!dt__sym_is_const(program->env, buffer->sizes[d], &size) || size != 1)
      return false;
  return true;
}

// The loop that `e` is, or is a literal away from; none: it is something else.
static dt_sym_t loop_of(const dt_program_t *program, dt_sym_t e) {
  dt_symenv_t *env = program->env;
  dt_sym_view_t view = dt__sym_view(env, e);
  uint32_t symbol = 0;
  if (view.op == DT_SYM_ADD && view.n_args == 2) {
    dt_sym_t a = view.args[0], b = view.args[1];
    e = dt__sym_is_const(env, a, NULL) ? b : dt__sym_is_const(env, b, NULL) ? a : e;
  }
  bool loop =
      dt__sym_is_symbol(env, e, &symbol) && dt__symbol_info(env, symbol).kind == DT_SYMBOL_LOOP;
  return loop ? e : DT_SYM_NONE_ID;
}

// Whether a product that stays as it is can have `dim` of the buffer innermost: templates want rows
// of A and store rows of C.
static bool product_allows(channels_t *c, dt_kernel_t *kernel, uint32_t id, uint32_t dim) {
  dt_contraction_t roles;
  if (!dt__contraction_roles(c->program, kernel, &roles, NULL))
    return true;
  const dt_inst_t *a = &roles.stage->insts.items[roles.a], *b = &roles.stage->insts.items[roles.b];
  if (a->buffer.id == id && a->index[dim].id != roles.k.id)
    return false;
  if (b->buffer.id == id && dt__is_fixed(c->program, &c->fixed, a->buffer))
    return false;
  for (uint32_t s = 1; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].stores.len; i++) {
      const dt_store_t *store = &kernel->stages.items[s].stores.items[i];
      if (store->buffer.id == id && store->index[dim].id != roles.n.id)
        return false;
    }
  return true;
}

// Dims that are better not innermost: a sum over parts of one and others, as the groups of a norm
// are, would walk it in steps. What maps make such a buffer of is the same, since they go into the
// sum.
static dt_status_t refuse(channels_t *c, dt_buffer_id_t id, uint32_t dims) {
  uint32_t b = id.id - 1;
  if ((c->refused[b] | dims) == c->refused[b])
    return NULL;
  c->refused[b] |= dims;
  return DT_VEC_PUSH(c->program->arena, &c->queue, b) ? NULL : DT_NO_MEMORY();
}

static dt_status_t refuse_parts(channels_t *c, const dt_stage_t *stage) {
  const dt_program_t *program = c->program;
  for (uint32_t i = 0; i < stage->insts.len && stage->reductions.len; i++) {
    const dt_inst_t *inst = &stage->insts.items[i];
    uint32_t dims = 0;
    if (inst->kind != DT_INST_LOAD)
      continue;
    for (uint32_t d = 0; d < dt__program_buffer(program, inst->buffer)->rank; d++)
      if (!dt__sym_is_const(program->env, inst->index[d], NULL) &&
          !loop_of(program, inst->index[d]).id)
        dims |= 1u << d;
    DT_TRY(refuse(c, inst->buffer, dims));
  }
  return NULL;
}

// Dims of an access that move with one of the loops.
static uint32_t walked_dims(const dt_program_t *program, dt_buffer_id_t id, const dt_sym_t *index,
                            const dt_sym_t *loops, uint32_t n) {
  uint32_t dims = 0;
  for (uint32_t d = 0; d < dt__program_buffer(program, id)->rank; d++) {
    dt_sym_t loop = loop_of(program, index[d]);
    for (uint32_t v = 0; loop.id && v < n; v++)
      dims |= loops[v].id == loop.id ? 1u << d : 0;
  }
  return dims;
}

static dt_status_t refuse_sources(channels_t *c, uint32_t b) {
  const dt_program_t *program = c->program;
  uint32_t k = dt__flow_writer(c->flow, b);
  if (k == DT_FLOW_NONE || !dt__kernel_is_map(program, &program->kernels.items[k]))
    return NULL;
  const dt_stage_t *stage = &program->kernels.items[k].stages.items[0];
  const dt_store_t *store = &stage->stores.items[0];
  dt_sym_t loops[DT_MAX_RANK];
  uint32_t n = 0;
  for (uint32_t d = 0; d < program->buffers.items[b].rank; d++)
    if (c->refused[b] >> d & 1)
      loops[n++] = loop_of(program, store->index[d]);
  for (uint32_t i = 0; i < stage->insts.len; i++) {
    const dt_inst_t *inst = &stage->insts.items[i];
    if (inst->kind == DT_INST_LOAD)
      DT_TRY(refuse(c, inst->buffer, walked_dims(program, inst->buffer, inst->index, loops, n)));
  }
  return NULL;
}

static dt_status_t find_refused(channels_t *c) {
  const dt_program_t *program = c->program;
  uint32_t x = 0, y = 0;
  c->refused = DT_ARENA_ARRAY(program->arena, uint32_t, program->buffers.len + 1);
  if (!c->refused)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    const dt_kernel_t *kernel = &program->kernels.items[k];
    for (uint32_t s = 0; s < kernel->stages.len && !dt__kernel_is_contraction(kernel, &x, &y); s++)
      DT_TRY(refuse_parts(c, &kernel->stages.items[s]));
  }
  for (uint32_t i = 0; i < c->queue.len; i++)
    DT_TRY(refuse_sources(c, c->queue.items[i]));
  c->queue.len = 0;
  return NULL;
}

// Whether all users of the buffer are content with `dim` innermost.
static dt_status_t allows(channels_t *c, uint32_t b, uint32_t dim, bool *out) {
  *out = false;
  if (!c->open[b] || c->refused[b] >> dim & 1)
    return NULL;
  DT_TRY(dt__flow_users(c->flow, b));
  for (uint32_t u = 0; u < c->flow->users.len; u++) {
    uint32_t k = c->flow->users.items[u];
    if (!c->turned[k] && !product_allows(c, &c->program->kernels.items[k], b + 1, dim))
      return NULL;
  }
  *out = true;
  return NULL;
}

// ---- Turning a product ----------------------------------------------------------------------------

// The one dim of x that moves with loops of the sum and not with the place; x's rank: none.
static uint32_t find_channels(const channels_t *c, const dt_stage_t *stage, const dt_inst_t *x,
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
static bool terms_are_plain(const channels_t *c, const dt_stage_t *stage, const dt_inst_t *x) {
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

// Weights times what a call computes, with enough to do for each place. Integers of 8 bits stay:
// their words are of neighbours along one loop.
static bool is_candidate(channels_t *c, dt_kernel_t *kernel, dt_contraction_t *roles) {
  dt_program_t *program = c->program;
  const char *why = NULL;
  int64_t rows = 0, terms = 0;
  if (kernel->schedules.len || kernel->n_loops > 3 ||
      !dt__contraction_roles(program, kernel, roles, NULL) || kernel->stages.len != 2)
    return false;
  const dt_inst_t *insts = roles->stage->insts.items;
  const dt_inst_t *w = &insts[roles->a], *x = &insts[roles->b];
  const dt_stage_t *last = &kernel->stages.items[1];
  if (dt_dtype_size(w->dtype) == 1 && dt_dtype_size(x->dtype) == 1)
    return false;
  return dt__is_fixed(program, &c->fixed, w->buffer) &&
         !dt__is_fixed(program, &c->fixed, x->buffer) && x->mask == DT_NO_INST &&
         w->mask == DT_NO_INST && last->stores.len == 1 &&
         dt__sym_is_const(program->env, kernel->extents[kernel->n_loops - 2], &rows) &&
         rows >= LEAST_CHANNELS && dt__sym_is_const(program->env, roles->extent_k, &terms) &&
         terms >= LEAST_TERMS &&
         dt__matmul_row(c->target, insts[roles->b_factor].dtype, insts[roles->a_factor].dtype,
                        roles->stage->reductions.items[0].dtype, &why) != NULL;
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

static dt_status_t reach(channels_t *c, uint32_t b, uint32_t dim) {
  c->dim[b] = (uint8_t)(dim + 1);
  return DT_VEC_PUSH(c->program->arena, &c->queue, b) ? NULL : DT_NO_MEMORY();
}

static dt_status_t want(channels_t *c, uint32_t k, uint32_t stage, uint32_t load, uint32_t dim) {
  want_t want = {.kernel = k, .stage = stage, .load = load, .dim = dim, .next = c->wanted[k]};
  c->wanted[k] = c->wants.len + 1;
  return DT_VEC_PUSH(c->program->arena, &c->wants, want) ? NULL : DT_NO_MEMORY();
}

static bool is_wanted(const channels_t *c, uint32_t k, uint32_t stage, uint32_t load) {
  for (uint32_t w = c->wanted[k]; w; w = c->wants.items[w - 1].next)
    if (c->wants.items[w - 1].stage == stage && c->wants.items[w - 1].load == load)
      return true;
  return false;
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
static dt_status_t turn(channels_t *c, uint32_t k) {
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
  DT_TRY(allows(c, store->buffer.id - 1, own, &allowed));
  c->turned[k] = allowed;
  if (!allowed)
    return NULL;
  put_last(roles.stage, loop);
  c->alone = worth_copies(program, &fresh, &roles);
  c->kept = program->kernels.items[k];
  program->kernels.items[k] = fresh;
  DT_LOG(DT_LOG_FUSION, 1, "%s: places are rows", fresh.name);
  DT_TRY(want(c, k, 0, roles.a, dim));
  return c->dim[store->buffer.id - 1] ? NULL : reach(c, store->buffer.id - 1, own);
}

// ---- What goes along ------------------------------------------------------------------------------

// The dim of an access that the loop is the index of, or its rank.
static uint32_t walked_dim(const dt_program_t *program, dt_buffer_id_t id, const dt_sym_t *index,
                           dt_sym_t loop) {
  uint32_t d = 0, rank = dt__program_buffer(program, id)->rank;
  while (d < rank && loop_of(program, index[d]).id != loop.id)
    d++;
  return d;
}

// An argument or a result whose channels lie otherwise.
static void see_edge(channels_t *c, dt_buffer_id_t id, uint32_t dim) {
  const dt_buffer_t *buffer = dt__program_buffer(c->program, id);
  int64_t step = 0;
  if (dim == buffer->rank || is_innermost(c->program, buffer, dim) ||
      (dt__sym_is_const(c->program->env, buffer->strides[dim], &step) && step == 1))
    return;
  c->from_argument |= buffer->kind == DT_BUFFER_INPUT;
  c->to_result |= buffer->kind == DT_BUFFER_OUTPUT;
}

static dt_status_t go_along(channels_t *c, dt_buffer_id_t id, const dt_sym_t *index,
                            dt_sym_t loop) {
  uint32_t dim = walked_dim(c->program, id, index, loop);
  bool allowed = false;
  see_edge(c, id, dim);
  if (!c->open[id.id - 1] || c->dim[id.id - 1] || dim == dt__program_buffer(c->program, id)->rank)
    return NULL;
  DT_TRY(allows(c, id.id - 1, dim, &allowed));
  return allowed ? reach(c, id.id - 1, dim) : NULL;
}

static dt_status_t go_in_stage(channels_t *c, const dt_stage_t *stage, dt_sym_t loop) {
  for (uint32_t i = 0; i < stage->insts.len; i++)
    if (stage->insts.items[i].kind == DT_INST_LOAD)
      DT_TRY(go_along(c, stage->insts.items[i].buffer, stage->insts.items[i].index, loop));
  for (uint32_t i = 0; i < stage->stores.len; i++)
    DT_TRY(go_along(c, stage->stores.items[i].buffer, stage->stores.items[i].index, loop));
  return NULL;
}

// Weights whose channels are that loop follow, in a copy that is made once.
static dt_status_t want_weights(channels_t *c, uint32_t k, uint32_t s, dt_sym_t loop) {
  const dt_program_t *program = c->program;
  const dt_stage_t *stage = &program->kernels.items[k].stages.items[s];
  for (uint32_t i = 0; i < stage->insts.len; i++) {
    const dt_inst_t *load = &stage->insts.items[i];
    if (load->kind != DT_INST_LOAD || !dt__is_fixed(program, &c->fixed, load->buffer))
      continue;
    uint32_t dim = walked_dim(program, load->buffer, load->index, loop);
    if (dim < dt__program_buffer(program, load->buffer)->rank && !is_wanted(c, k, s, i))
      DT_TRY(want(c, k, s, i, dim));
  }
  return NULL;
}

static dt_status_t go_in_kernel(channels_t *c, uint32_t k, dt_sym_t loop) {
  for (uint32_t s = 0; loop.id && s < c->program->kernels.items[k].stages.len; s++) {
    DT_TRY(go_in_stage(c, &c->program->kernels.items[k].stages.items[s], loop));
    DT_TRY(want_weights(c, k, s, loop));
  }
  return NULL;
}

static dt_status_t spread(channels_t *c, uint32_t b) {
  dt_program_t *program = c->program;
  uint32_t x = 0, y = 0, dim = c->dim[b] - 1u, n = 0;
  DT_TRY(dt__flow_users(c->flow, b));
  n = c->flow->users.len;
  uint32_t *users = DT_ARENA_ARRAY(program->arena, uint32_t, n + 1);
  if (!users)
    return DT_NO_MEMORY();
  memcpy(users, c->flow->users.items, n * sizeof(*users));
  for (uint32_t u = 0; u < n; u++) {
    const dt_kernel_t *kernel = &program->kernels.items[users[u]];
    if (c->turned[users[u]] || dt__kernel_is_contraction(kernel, &x, &y))
      continue;
    for (uint32_t s = 0; s < kernel->stages.len; s++) {
      const dt_stage_t *stage = &kernel->stages.items[s];
      for (uint32_t i = 0; i < stage->insts.len; i++)
        if (stage->insts.items[i].kind == DT_INST_LOAD && stage->insts.items[i].buffer.id == b + 1)
          DT_TRY(go_in_kernel(c, users[u], loop_of(program, stage->insts.items[i].index[dim])));
      for (uint32_t i = 0; i < stage->stores.len; i++)
        if (stage->stores.items[i].buffer.id == b + 1)
          DT_TRY(go_in_kernel(c, users[u], loop_of(program, stage->stores.items[i].index[dim])));
    }
  }
  return NULL;
}

// ---- Orders ---------------------------------------------------------------------------------------

static dt_status_t set_order(dt_program_t *program, dt_buffer_t *buffer, uint32_t dim) {
  uint8_t order[DT_MAX_RANK];
  uint32_t n = 0;
  if (is_innermost(program, buffer, dim))
    return NULL;
  for (uint32_t d = 0; d < buffer->rank; d++)
    if (d != dim)
      order[n++] = (uint8_t)d;
  order[n++] = (uint8_t)dim;
  DT_TRY(dt__layout_of_order(program->arena, order, n, &buffer->layout));
  dt__buffer_set_strides(program->env, buffer);
  return NULL;
}

static dt_inst_t *wanting(dt_program_t *program, const want_t *want) {
  return &program->kernels.items[want->kernel].stages.items[want->stage].insts.items[want->load];
}

static bool is_met(dt_program_t *program, const want_t *want) {
  const dt_buffer_t *buffer = dt__program_buffer(program, wanting(program, want)->buffer);
  int64_t step = 0;
  return is_innermost(program, buffer, want->dim) ||
         (dt__sym_is_const(program->env, buffer->strides[want->dim], &step) && step == 1);
}

// A kernel that copies all of the buffer with the dim innermost, for the load to read.
static dt_status_t add_copy(dt_program_t *program, const want_t *want, dt_kernel_t *out) {
  dt_inst_t *wanter = wanting(program, want);
  dt_buffer_t buffer = *dt__program_buffer(program, wanter->buffer);
  dt_stage_t stage = {0};
  dt_buffer_id_t id;
  memset(out, 0, sizeof(*out));
  out->name = "channels";
  out->section = program->kernels.items[want->kernel].section;
  out->n_loops = buffer.rank;
  for (uint32_t d = 0; d < buffer.rank; d++) {
    out->extents[d] = buffer.sizes[d];
    out->vars[d] = dt__sym_new_loop(program->env, buffer.sizes[d]);
  }
  dt_buffer_t copy = {.kind = DT_BUFFER_TEMP, .dtype = buffer.dtype, .rank = buffer.rank};
  memcpy(copy.sizes, buffer.sizes, sizeof(copy.sizes));
  DT_TRY(set_order(program, &copy, want->dim));
  DT_TRY(dt__program_add_buffer(program, &copy, &id));
  dt_inst_t load = {.kind = DT_INST_LOAD,
                    .dtype = buffer.dtype,
                    .args = {DT_NO_INST, DT_NO_INST, DT_NO_INST},
                    .mask = DT_NO_INST,
                    .buffer = wanter->buffer,
                    .index = out->vars};
  dt_store_t store = {.buffer = id, .mask = DT_NO_INST};
  DT_TRY(dt__stage_add(program, &stage, &load, &store.value));
  dt_sym_t *index = DT_ARENA_ARRAY(program->arena, dt_sym_t, buffer.rank + 1);
  if (!index)
    return DT_NO_MEMORY();
  memcpy(index, out->vars, buffer.rank * sizeof(*index));
  store.index = index;
  wanter->buffer = id;
  return DT_VEC_PUSH(program->arena, &stage.stores, store) &&
                 DT_VEC_PUSH(program->arena, &out->stages, stage)
             ? NULL
             : DT_NO_MEMORY();
}

// Puts copies in front of each kernel for what it wants and has not.
static dt_status_t add_copies(channels_t *c) {
  dt_program_t *program = c->program;
  DT_VEC(dt_kernel_t) kernels = {0};
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    for (uint32_t w = c->wanted[k]; w; w = c->wants.items[w - 1].next) {
      dt_kernel_t copy;
      if (is_met(program, &c->wants.items[w - 1]))
        continue;
      DT_TRY(add_copy(program, &c->wants.items[w - 1], &copy));
      if (!DT_VEC_PUSH(program->arena, &kernels, copy))
        return DT_NO_MEMORY();
    }
    if (!DT_VEC_PUSH(program->arena, &kernels, program->kernels.items[k]))
      return DT_NO_MEMORY();
  }
  program->kernels.items = kernels.items;
  program->kernels.len = kernels.len;
  program->kernels.cap = kernels.cap;
  return NULL;
}

dt_status_t dt__channels_innermost(dt_program_t *program, const dt_target_t *target,
                                   dt_flow_t *flow, bool *out_changed) {
  channels_t c = {.program = program, .flow = flow, .target = target};
  *out_changed = false;
  if (dt__target_has_teams(target) || target->strict_fp)
    return NULL;
  DT_TRY(dt__find_fixed(program, &c.fixed));
  DT_TRY(begin(&c));
  DT_TRY(find_refused(&c));
  for (uint32_t k = 0; k < program->kernels.len; k++)
    DT_TRY(turn(&c, k));
  uint32_t n = c.wants.len;
  for (uint32_t i = 0; i < n; i++) {
    const want_t *w = &c.wants.items[i];
    uint32_t b = wanting(program, w)->buffer.id - 1;
    bool allowed = false;
    see_edge(&c, wanting(program, w)->buffer, w->dim);
    if (c.dim[b])
      continue;
    DT_TRY(allows(&c, b, w->dim, &allowed));
    if (allowed)
      DT_TRY(reach(&c, b, w->dim));
  }
  for (uint32_t i = 0; i < c.queue.len; i++)
    DT_TRY(spread(&c, c.queue.items[i]));
  if (n == 1 && c.from_argument && c.to_result && !c.alone) {
    program->kernels.items[c.wants.items[0].kernel] = c.kept;
    return dt__symenv_status(program->env);
  }
  for (uint32_t i = 0; i < c.queue.len; i++) {
    uint32_t b = c.queue.items[i];
    DT_TRY(set_order(program, &program->buffers.items[b], c.dim[b] - 1u));
  }
  *out_changed = n != 0;
  return *out_changed ? add_copies(&c) : dt__symenv_status(program->env);
}
