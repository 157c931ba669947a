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

#include "fuse/channels_private.h"
#include "fuse/operands.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

#define ROUNDS 4 // of searches, after which no norm is opened

// ---- What may take an order -----------------------------------------------------------------------

static void close_stage(const dt_channels_t *c, const dt_stage_t *stage) {
  for (uint32_t i = 0; i < stage->insts.len; i++) {
    const dt_inst_t *inst = &stage->insts.items[i];
    if (dt__inst_reads(inst).id && inst->kind != DT_INST_LOAD)
      c->open[inst->buffer.id - 1] = false;
  }
  for (uint32_t i = 0; i < stage->stores.len; i++)
    if (stage->stores.items[i].whole || stage->stores.items[i].revises)
      c->open[stage->stores.items[i].buffer.id - 1] = false;
}

static dt_status_t begin(dt_channels_t *c) {
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

// The loop that `e` goes along where it steps by one, whatever else `e` moves with: a literal, or
// whole multiples of the loop's extent.
static dt_sym_t lanes_of(const dt_program_t *program, dt_sym_t e) {
  dt_symenv_t *env = program->env;
  dt_sym_view_t view = dt__sym_view(env, e);
  dt_sym_t found = loop_of(program, e);
  int64_t extent = 0, factor = 0;
  for (uint32_t i = 0; !found.id && view.op == DT_SYM_ADD && i < view.n_args; i++)
    if (loop_of(program, view.args[i]).id && dt__sym_is_symbol(env, view.args[i], NULL))
      found = view.args[i];
  if (!found.id || view.op != DT_SYM_ADD || found.id == loop_of(program, e).id)
    return found;
  uint32_t symbol = 0;
  (void)dt__sym_is_symbol(env, found, &symbol);
  if (!dt__sym_is_const(env, dt__symbol_extent(env, symbol), &extent))
    return DT_SYM_NONE_ID;
  for (uint32_t i = 0; i < view.n_args; i++) {
    dt_sym_t arg = dt__sym_view(env, e).args[i];
    dt_sym_view_t term = dt__sym_view(env, arg);
    if (arg.id == found.id || term.op == DT_SYM_CONST)
      continue;
    if (term.op != DT_SYM_MUL || !dt__sym_is_const(env, term.args[0], &factor) || factor % extent)
      return DT_SYM_NONE_ID;
  }
  return found;
}

// Whether a product that stays as it is can have `dim` of the buffer innermost: templates want rows
// of A and store rows of C.
static bool product_allows(dt_channels_t *c, dt_kernel_t *kernel, uint32_t id, uint32_t dim) {
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
static dt_status_t refuse(dt_channels_t *c, dt_buffer_id_t id, uint32_t dims) {
  uint32_t b = id.id - 1;
  if ((c->refused[b] | dims) == c->refused[b])
    return NULL;
  c->refused[b] |= dims;
  return DT_VEC_PUSH(c->program->arena, &c->queue, b) ? NULL : DT_NO_MEMORY();
}

static bool is_inner(const dt_stage_t *stage, dt_sym_t loop) {
  for (uint32_t v = 0; v < stage->n_loops; v++)
    if (stage->vars[v].id == loop.id)
      return true;
  return false;
}

// The dim of a load that a stage adds up is walked by one loop, be it a part of the dim that is not
// added up.
static bool is_walked(const dt_program_t *program, const dt_stage_t *stage, dt_sym_t e) {
  dt_sym_t lanes = lanes_of(program, e);
  return loop_of(program, e).id || (lanes.id && !is_inner(stage, lanes));
}

static dt_status_t refuse_parts(dt_channels_t *c, const dt_stage_t *stage) {
  const dt_program_t *program = c->program;
  for (uint32_t i = 0; i < stage->insts.len && stage->reductions.len; i++) {
    const dt_inst_t *inst = &stage->insts.items[i];
    uint32_t dims = 0;
    if (inst->kind != DT_INST_LOAD)
      continue;
    for (uint32_t d = 0; d < dt__program_buffer(program, inst->buffer)->rank; d++)
      if (!dt__sym_is_const(program->env, inst->index[d], NULL) &&
          !is_walked(program, stage, inst->index[d]))
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

static dt_status_t refuse_sources(dt_channels_t *c, uint32_t b) {
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

static dt_status_t find_refused(dt_channels_t *c) {
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
dt_status_t dt__channels_allow(dt_channels_t *c, uint32_t b, uint32_t dim, bool *out) {
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

// ---- What goes along ------------------------------------------------------------------------------

dt_status_t dt__channels_reach(dt_channels_t *c, uint32_t b, uint32_t dim) {
  c->dim[b] = (uint8_t)(dim + 1);
  return DT_VEC_PUSH(c->program->arena, &c->queue, b) ? NULL : DT_NO_MEMORY();
}

dt_status_t dt__channels_want(dt_channels_t *c, dt_want_t want) {
  want.next = c->wanted[want.kernel];
  c->wanted[want.kernel] = c->wants.len + 1;
  return DT_VEC_PUSH(c->program->arena, &c->wants, want) ? NULL : DT_NO_MEMORY();
}

static bool is_wanted(const dt_channels_t *c, uint32_t k, uint32_t stage, uint32_t load) {
  for (uint32_t w = c->wanted[k]; w; w = c->wants.items[w - 1].next)
    if (c->wants.items[w - 1].stage == stage && c->wants.items[w - 1].load == load)
      return true;
  return false;
}

// The dim of an access that the loop is the index of, or its rank.
static uint32_t walked_dim(const dt_program_t *program, dt_buffer_id_t id, const dt_sym_t *index,
                           dt_sym_t loop) {
  uint32_t d = 0, rank = dt__program_buffer(program, id)->rank;
  while (d < rank && lanes_of(program, index[d]).id != loop.id)
    d++;
  return d;
}

// An argument or a result whose channels lie otherwise.
static void see_edge(dt_channels_t *c, dt_buffer_id_t id, uint32_t dim) {
  const dt_buffer_t *buffer = dt__program_buffer(c->program, id);
  int64_t step = 0;
  if (dim == buffer->rank || is_innermost(c->program, buffer, dim) ||
      (dt__sym_is_const(c->program->env, buffer->strides[dim], &step) && step == 1))
    return;
  c->from_argument |= buffer->kind == DT_BUFFER_INPUT;
  c->to_result |= buffer->kind == DT_BUFFER_OUTPUT;
}

static dt_status_t go_along(dt_channels_t *c, dt_buffer_id_t id, const dt_sym_t *index,
                            dt_sym_t loop) {
  uint32_t dim = walked_dim(c->program, id, index, loop);
  bool allowed = false;
  see_edge(c, id, dim);
  if (!c->open[id.id - 1] || c->dim[id.id - 1] || dim == dt__program_buffer(c->program, id)->rank)
    return NULL;
  DT_TRY(dt__channels_allow(c, id.id - 1, dim, &allowed));
  return allowed ? dt__channels_reach(c, id.id - 1, dim) : NULL;
}

static dt_status_t go_in_stage(dt_channels_t *c, const dt_stage_t *stage, dt_sym_t loop) {
  for (uint32_t i = 0; i < stage->insts.len; i++)
    if (stage->insts.items[i].kind == DT_INST_LOAD)
      DT_TRY(go_along(c, stage->insts.items[i].buffer, stage->insts.items[i].index, loop));
  for (uint32_t i = 0; i < stage->stores.len; i++)
    DT_TRY(go_along(c, stage->stores.items[i].buffer, stage->stores.items[i].index, loop));
  return NULL;
}

// Weights whose channels are that loop follow, in a copy that is made once.
static dt_status_t want_weights(dt_channels_t *c, uint32_t k, uint32_t s, dt_sym_t loop) {
  const dt_program_t *program = c->program;
  const dt_stage_t *stage = &program->kernels.items[k].stages.items[s];
  for (uint32_t i = 0; i < stage->insts.len; i++) {
    const dt_inst_t *load = &stage->insts.items[i];
    if (load->kind != DT_INST_LOAD || !dt__is_fixed(program, &c->fixed, load->buffer))
      continue;
    uint32_t dim = walked_dim(program, load->buffer, load->index, loop);
    if (dim < dt__program_buffer(program, load->buffer)->rank && !is_wanted(c, k, s, i))
      DT_TRY(dt__channels_want(c, (dt_want_t){.kernel = k, .stage = s, .load = i, .dim = dim}));
  }
  return NULL;
}

static dt_status_t go_in_kernel(dt_channels_t *c, uint32_t k, dt_sym_t loop) {
  for (uint32_t s = 0; loop.id && s < c->program->kernels.items[k].stages.len; s++) {
    DT_TRY(go_in_stage(c, &c->program->kernels.items[k].stages.items[s], loop));
    DT_TRY(want_weights(c, k, s, loop));
  }
  return NULL;
}

static dt_status_t spread(dt_channels_t *c, uint32_t b) {
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
          DT_TRY(go_in_kernel(c, users[u], lanes_of(program, stage->insts.items[i].index[dim])));
      for (uint32_t i = 0; i < stage->stores.len; i++)
        if (stage->stores.items[i].buffer.id == b + 1)
          DT_TRY(go_in_kernel(c, users[u], lanes_of(program, stage->stores.items[i].index[dim])));
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

static dt_inst_t *wanting(dt_program_t *program, const dt_want_t *want) {
  return &program->kernels.items[want->kernel].stages.items[want->stage].insts.items[want->load];
}

static bool is_met(dt_program_t *program, const dt_want_t *want) {
  const dt_buffer_t *buffer = dt__program_buffer(program, wanting(program, want)->buffer);
  int64_t step = 0;
  return !want->size.id &&
         (is_innermost(program, buffer, want->dim) ||
          (dt__sym_is_const(program->env, buffer->strides[want->dim], &step) && step == 1));
}

// What the copy has behind the dim's end is zero.
static dt_status_t add_end(dt_program_t *program, dt_stage_t *stage, dt_sym_t at, dt_sym_t end,
                           uint32_t *out_mask) {
  dt_inst_t mask = {.kind = DT_INST_INDEX,
                    .dtype = DT_BOOL,
                    .args = {DT_NO_INST, DT_NO_INST, DT_NO_INST},
                    .mask = DT_NO_INST,
                    .sym = dt__sym_lt(program->env, at, end)};
  return dt__stage_add(program, stage, &mask, out_mask);
}

// A kernel that copies all of the buffer with the dim innermost, for the load to read.
static dt_status_t add_copy(dt_program_t *program, const dt_want_t *want, dt_kernel_t *out) {
  dt_inst_t *wanter = wanting(program, want);
  dt_buffer_t buffer = *dt__program_buffer(program, wanter->buffer);
  dt_stage_t stage = {0};
  dt_buffer_id_t id;
  memset(out, 0, sizeof(*out));
  out->name = "channels";
  out->section = program->kernels.items[want->kernel].section;
  out->n_loops = buffer.rank;
  for (uint32_t d = 0; d < buffer.rank; d++) {
    bool wider = d == want->dim && want->size.id;
    out->extents[d] = wider ? want->size : buffer.sizes[d];
    out->vars[d] = dt__sym_new_loop(program->env, out->extents[d]);
  }
  dt_buffer_t copy = {.kind = DT_BUFFER_TEMP, .dtype = buffer.dtype, .rank = buffer.rank};
  memcpy(copy.sizes, out->extents, sizeof(copy.sizes));
  DT_TRY(set_order(program, &copy, want->dim));
  DT_TRY(dt__program_add_buffer(program, &copy, &id));
  dt_inst_t load = {.kind = DT_INST_LOAD,
                    .dtype = buffer.dtype,
                    .args = {DT_NO_INST, DT_NO_INST, DT_NO_INST},
                    .mask = DT_NO_INST,
                    .buffer = wanter->buffer,
                    .index = out->vars};
  if (want->size.id)
    DT_TRY(add_end(program, &stage, out->vars[want->dim], buffer.sizes[want->dim], &load.mask));
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

typedef struct dt_kernels_t {
  DT_VEC(dt_kernel_t) all;
} dt_kernels_t;

static dt_status_t push(const dt_channels_t *c, dt_kernels_t *to, const dt_kernel_t *kernel) {
  return DT_VEC_PUSH(c->program->arena, &to->all, *kernel) ? NULL : DT_NO_MEMORY();
}

// Copies in front of kernel k for what it wants and has not.
static dt_status_t add_copies(dt_channels_t *c, uint32_t k, dt_kernels_t *to) {
  dt_program_t *program = c->program;
  dt_kernel_t *kernel = &program->kernels.items[k], copy;
  for (uint32_t w = c->wanted[k]; w; w = c->wants.items[w - 1].next) {
    if (is_met(program, &c->wants.items[w - 1]))
      continue;
    DT_TRY(add_copy(program, &c->wants.items[w - 1], &copy));
    DT_TRY(push(c, to, &copy));
  }
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].insts.len; i++) {
      bool made = false;
      DT_TRY(dt__groups_spread(&c->groups, k, kernel, s, i, &copy, &made));
      if (made)
        DT_TRY(push(c, to, &copy));
    }
  return NULL;
}

// Kernels with copies in front of them, and sums of groups in steps.
static dt_status_t add_kernels(dt_channels_t *c) {
  dt_program_t *program = c->program;
  dt_kernels_t kernels = {0};
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    dt_kernel_t steps[DT_GROUP_STEPS] = {program->kernels.items[k]};
    uint32_t n = 1;
    DT_TRY(add_copies(c, k, &kernels));
    steps[0] = program->kernels.items[k];
    if (dt__groups_has_steps(&c->groups, k))
      DT_TRY(dt__groups_steps(&c->groups, k, &program->kernels.items[k], steps, &n));
    for (uint32_t i = 0; i < n; i++)
      DT_TRY(push(c, &kernels, &steps[i]));
  }
  program->kernels.items = kernels.all.items;
  program->kernels.len = kernels.all.len;
  program->kernels.cap = kernels.all.cap;
  return NULL;
}

// ---- The search -----------------------------------------------------------------------------------

// The program as it was, to begin anew from.
typedef struct dt_kept_t {
  dt_kernel_t *kernels;
  dt_buffer_t *buffers;
  uint32_t n_buffers;
} dt_kept_t;

static dt_status_t keep(const dt_program_t *program, dt_kept_t *out) {
  out->n_buffers = program->buffers.len;
  out->kernels = dt__arena_copy(program->arena, program->kernels.items,
                                program->kernels.len * sizeof(*out->kernels));
  out->buffers = dt__arena_copy(program->arena, program->buffers.items,
                                program->buffers.len * sizeof(*out->buffers));
  return out->kernels && out->buffers ? NULL : DT_NO_MEMORY();
}

static void restore(dt_program_t *program, const dt_kept_t *kept) {
  memcpy(program->kernels.items, kept->kernels, program->kernels.len * sizeof(*kept->kernels));
  memcpy(program->buffers.items, kept->buffers, kept->n_buffers * sizeof(*kept->buffers));
  program->buffers.len = kept->n_buffers;
}

static dt_status_t search(dt_channels_t *c) {
  dt_program_t *program = c->program;
  DT_TRY(begin(c));
  for (uint32_t k = 0; k < program->kernels.len; k++)
    DT_TRY(dt__channels_rows(c, k));
  DT_TRY(find_refused(c));
  for (uint32_t k = 0; k < program->kernels.len; k++)
    DT_TRY(dt__channels_turn(c, k));
  uint32_t n = c->wants.len;
  c->n_turned = 0;
  for (uint32_t k = 0; k < program->kernels.len; k++)
    c->n_turned += c->turned[k] ? 1 : 0;
  for (uint32_t i = 0; i < n; i++) {
    const dt_want_t *w = &c->wants.items[i];
    uint32_t b = wanting(program, w)->buffer.id - 1;
    bool allowed = false;
    see_edge(c, wanting(program, w)->buffer, w->dim);
    if (c->dim[b])
      continue;
    DT_TRY(dt__channels_allow(c, b, w->dim, &allowed));
    if (allowed)
      DT_TRY(dt__channels_reach(c, b, w->dim));
  }
  for (uint32_t i = 0; i < c->queue.len; i++)
    DT_TRY(spread(c, c->queue.items[i]));
  return NULL;
}

// Whether channels are innermost where norms were opened for that; the others are dropped, or, in
// the last round, all.
static bool opened_rightly(dt_channels_t *c, bool last) {
  bool right = true;
  for (uint32_t n = 0; n < c->groups.norms.len; n++) {
    const dt_norm_t *norm = &c->groups.norms.items[n];
    right = right && (norm->dropped || c->dim[norm->source] == norm->dim + 1);
  }
  for (uint32_t n = 0; !right && n < c->groups.norms.len; n++) {
    dt_norm_t *norm = &c->groups.norms.items[n];
    norm->dropped = norm->dropped || last || c->dim[norm->source] != norm->dim + 1;
  }
  return right;
}

dt_status_t dt__channels_innermost(dt_program_t *program, const dt_target_t *target,
                                   dt_flow_t *flow, bool *out_changed) {
  dt_channels_t c = {.program = program, .flow = flow, .target = target};
  dt_kept_t kept;
  *out_changed = false;
  if (target->strict_fp)
    return NULL;
  DT_TRY(dt__find_fixed(program, &c.fixed));
  DT_TRY(begin(&c));
  DT_TRY(keep(program, &kept));
  DT_TRY(dt__groups_find(program, flow, c.open, &c.groups));
  dt_channels_t fresh = c;
  uint32_t round = 0;
  do {
    fresh.groups = c.groups;
    c = fresh;
    restore(program, &kept);
    DT_TRY(dt__groups_open(&c.groups));
    DT_TRY(search(&c));
  } while (!opened_rightly(&c, ++round == ROUNDS));
  // Devices would copy what they do not turn element by element.
  bool lone = c.n_turned == 1 && c.from_argument && c.to_result && !c.alone;
  if (c.n_turned == 0 || (lone && !dt__target_has_teams(target))) {
    restore(program, &kept);
    return dt__symenv_status(program->env);
  }
  for (uint32_t i = 0; i < c.queue.len; i++) {
    uint32_t b = c.queue.items[i];
    DT_TRY(set_order(program, &program->buffers.items[b], c.dim[b] - 1u));
  }
  *out_changed = true;
  return add_kernels(&c);
}
