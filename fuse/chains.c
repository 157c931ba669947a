// SPDX-License-Identifier: Apache-2.0
// Chains (devices): one launch runs a product and the kernels that make its operand A row by row.
// What they pass on is then a slab of a team's rows instead of a whole matrix in memory:
//
//   scores[b, m, n] = Σ q · k, then what follows ─► softmax over n ─► Σ over n of it · v
//   mean and deviation of row m, normalised row m                  ─► Σ over k of it · w
//
// Of one row of queries, too, whose products are none before, for want of an m.
//
// Every team that takes other columns of the same rows computes the members again. So a kernel
// becomes a member only if that is cheap: its rows have a small, known length, and scores are
// followed by few columns. Legality is equality of index expressions: the makers' loops are the
// head's, under other names.
#include "fuse/attention.h"
#include "fuse/body.h"
#include "fuse/flow.h"
#include "fuse/fuse.h"
#include "fuse/loops.h"
#include "fuse/operands.h"
#include "fuse/order.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

// `scripts/test-gpu run bench-models` shows what the sizes bring.
#define MEMBERS 3       // a product, rows, the head
#define ROW_BYTES 4096  // of a slab, where rows alone are made
#define FEW_COLUMNS 128 // of a head whose makers are worth making again for some of them
#define NO_KERNEL UINT32_MAX

typedef struct chains_t {
  dt_program_t *program;
  const dt_target_t *target;
  bool strict_fp;
  dt_flow_t flow;
  uint32_t *segments;   // by kernel
  bool *constant;       // by kernel
  bool *asked;          // by kernel: it was tried as a head
  uint32_t n;           // chains so far
  DT_VEC(uint32_t) own; // buffers of one kernel
} chains_t;

// A temporary that one member makes for the next, or for itself.
typedef struct link_t {
  dt_buffer_id_t buffer;
  uint32_t column; // the dim that no shared loop moves
  bool alone;      // nobody else reads it
} link_t;

typedef struct chain_t {
  uint32_t members[MEMBERS], n; // kernels, the head last
  uint32_t n_shared;            // loops
  // What the loops of each member are called in the head; none: a product's columns.
  dt_sym_t names[MEMBERS][DT_MAX_LOOPS];
  link_t links[MEMBERS]; // what members 0 … n - 2 make
} chain_t;

// ---- Accesses -------------------------------------------------------------------------------------

static uint32_t loop_of(const dt_sym_t *vars, uint32_t n, dt_sym_t var) {
  uint32_t v = 0;
  while (v < n && vars[v].id != var.id)
    v++;
  return v;
}

static uint32_t loads_of(const dt_kernel_t *kernel, uint32_t id) {
  uint32_t n = 0;
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].insts.len; i++)
      n += dt__inst_reads(&kernel->stages.items[s].insts.items[i]).id == id;
  return n;
}

static bool runs_once(const chains_t *c, dt_sym_t extent) {
  int64_t n = 0;
  return dt__sym_is_const(c->program->env, extent, &n) && n == 1;
}

// Loops that run once are in no place, so not among those `used`: each of the maker's is the
// reader's next one. How many there are.
static uint32_t match_single(const chains_t *c, const dt_kernel_t *maker, const dt_kernel_t *reader,
                             uint32_t n, uint32_t used, dt_sym_t *names) {
  uint32_t other = 0, seen = 0;
  for (uint32_t own = 0; own < n; own++) {
    if (used >> own & 1 || !runs_once(c, maker->extents[own]))
      continue;
    while (other < n && !runs_once(c, reader->extents[other]))
      other++;
    if (other == n)
      break;
    names[own] = reader->vars[other++];
    seen++;
  }
  return seen;
}

// The next member reads with `index` what `store` made. True: `index` is the store's index, in
// which each of the maker's first n_shared loops stands under the name of a `shared` loop of the
// reader with the same extent. The dim *column, where the store has a loop of its own, may be
// anything. Fills names.
static bool match_index(const chains_t *c, const dt_kernel_t *maker, const dt_store_t *store,
                        const dt_sym_t *index, const dt_kernel_t *reader, const chain_t *chain,
                        uint32_t *column, dt_sym_t *names) {
  dt_program_t *program = c->program;
  uint32_t rank = dt__program_buffer(program, store->buffer)->rank, n = chain->n_shared, seen = 0;
  uint32_t used = 0; // bits
  for (uint32_t d = 0; d < rank; d++) {
    uint32_t own = loop_of(maker->vars, n, store->index[d]);
    uint32_t other = loop_of(reader->vars, n, index[d]);
    int64_t at = 0;
    if (own < n) {
      if (other == n || maker->extents[own].id != reader->extents[other].id ||
          (names[own].id && names[own].id != reader->vars[other].id))
        return false;
      names[own] = reader->vars[other];
      used |= 1U << own;
      seen++;
    } else if (dt__sym_is_const(program->env, store->index[d], &at)) {
      if (store->index[d].id != index[d].id)
        return false;
    } else if (*column == UINT32_MAX || *column == d) {
      *column = d;
      if (dt__expr_uses_any(program, store->index[d], maker->vars, n) ||
          dt__expr_uses_any(program, index[d], reader->vars, n))
        return false;
    } else {
      return false;
    }
  }
  seen += match_single(c, maker, reader, n, used, names);
  for (uint32_t v = 0; v < n; v++)
    for (uint32_t w = 0; w < v; w++)
      if (names[v].id == names[w].id)
        return false;
  return seen == n && *column != UINT32_MAX;
}

// The store's column is one loop alone: the maker's last outer one, or its stage's.
static bool stores_by_column(const dt_kernel_t *maker, const dt_store_t *store, uint32_t stage,
                             uint32_t column, uint32_t n_shared) {
  const dt_stage_t *own = &maker->stages.items[stage];
  if (maker->n_loops > n_shared)
    return own->n_loops == 0 && store->index[column].id == maker->vars[n_shared].id;
  return own->n_loops == 1 && store->index[column].id == own->vars[0].id;
}

// ---- Who may be a member ----------------------------------------------------------------------------

static bool is_product(const dt_kernel_t *kernel) {
  return kernel->schedules.len && dt__schedule_is_product(&kernel->schedules.items[0]);
}

// Products of one chain take tiles of as many rows.
static bool same_sums(const dt_kernel_t *a, const dt_kernel_t *b) {
  return a->stages.items[0].reductions.items[0].dtype ==
         b->stages.items[0].reductions.items[0].dtype;
}

static bool scatters(const dt_program_t *program, const dt_kernel_t *kernel) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].stores.len; i++)
      if (dt__store_scatters(program, &kernel->stages.items[s].stores.items[i]))
        return true;
  return false;
}

// What depends on constants alone is computed once, not in every call.
static bool may_be_member(const chains_t *c, uint32_t k) {
  const dt_kernel_t *kernel = &c->program->kernels.items[k];
  return !c->constant[k] && !kernel->chain && !kernel->slices &&
         !dt__kernel_updates(c->program, kernel) && !dt__kernel_in_order(kernel) &&
         !(is_product(kernel) && kernel->stages.items[0].n_loops > 1) &&
         !scatters(c->program, kernel);
}

// Rows: reductions and maps, each over one loop at most. Several threads of a chain share a row, so
// that what is reduced there may not depend on the order.
static bool makes_rows(const chains_t *c, const dt_kernel_t *kernel, uint32_t n_shared) {
  if (c->strict_fp && dt__kernel_has_order(kernel))
    return false;
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    if (kernel->stages.items[s].n_loops > 1)
      return false;
  return kernel->schedules.len == 0 && kernel->n_loops == n_shared &&
         dt__kernel_has_reductions(kernel);
}

// The kernel that makes buffer `id`, where no other one does; NO_KERNEL: no such.
static uint32_t maker_of(const chains_t *c, dt_buffer_id_t id, uint32_t reader) {
  const dt_buffer_t *buffer = dt__program_buffer(c->program, id);
  if ((buffer->kind != DT_BUFFER_TEMP && buffer->kind != DT_BUFFER_OUTPUT) ||
      !dt__layout_is_order(buffer->layout, buffer->rank) ||
      dt__buffer_is_readback(c->program, id.id))
    return NO_KERNEL;
  uint32_t k = dt__flow_writer(&c->flow, id.id - 1);
  return k != DT_FLOW_NONE && k != reader && c->segments[k] == c->segments[reader] &&
                 may_be_member(c, k)
             ? k
             : NO_KERNEL;
}

// Puts kernel k in front of the chain as the maker of `buffer`, which the first member reads;
// false: it does not fit.
static bool add_maker(chains_t *c, chain_t *chain, uint32_t k, dt_buffer_id_t buffer) {
  const dt_kernel_t *maker = &c->program->kernels.items[k];
  const dt_kernel_t *reader = &c->program->kernels.items[chain->members[0]];
  dt_sym_t names[DT_MAX_LOOPS] = {0};
  link_t link = {.buffer = buffer, .column = UINT32_MAX};
  uint32_t stage = 0;
  const dt_store_t *store = dt__kernel_only_store(maker, buffer.id, &stage);
  if (!store || chain->n == MEMBERS)
    return false;
  for (uint32_t s = 0; s < reader->stages.len; s++)
    for (uint32_t i = 0; i < reader->stages.items[s].insts.len; i++) {
      const dt_inst_t *load = &reader->stages.items[s].insts.items[i];
      if (dt__inst_reads(load).id == buffer.id &&
          (load->kind != DT_INST_LOAD ||
           !match_index(c, maker, store, load->index, reader, chain, &link.column, names)))
        return false;
    }
  if (!stores_by_column(maker, store, stage, link.column, chain->n_shared))
    return false;
  link.alone = c->flow.loads[buffer.id - 1] == loads_of(reader, buffer.id) &&
               !dt__buffer_visible(dt__program_buffer(c->program, buffer));
  for (uint32_t v = 0; v < chain->n_shared; v++) { // as the head calls them
    uint32_t other = loop_of(reader->vars, chain->n_shared, names[v]);
    names[v] = chain->names[0][other];
  }
  memmove(&chain->members[1], &chain->members[0], chain->n * sizeof(*chain->members));
  memmove(&chain->names[1], &chain->names[0], chain->n * sizeof(*chain->names));
  memmove(&chain->links[1], &chain->links[0], (chain->n - 1) * sizeof(*chain->links));
  chain->members[0] = k;
  chain->links[0] = link;
  memcpy(chain->names[0], names, sizeof(names));
  chain->n++;
  return true;
}

// ---- What is worth it -------------------------------------------------------------------------------

static dt_sym_t columns_of(const chains_t *c, const link_t *link) {
  return dt__program_buffer(c->program, link->buffer)->sizes[link->column];
}

static bool short_rows(const chains_t *c, const link_t *link) {
  int64_t n = 0, size = (int64_t)dt_dtype_size(dt__program_buffer(c->program, link->buffer)->dtype);
  return dt__sym_is_const(c->program->env, columns_of(c, link), &n) && n <= ROW_BYTES / size;
}

// Takes in scores: a product whose elements nobody else needs. Its rows must be as long as the call
// says, or it must be one of many products.
static bool add_scores(chains_t *c, chain_t *chain, const dt_kernel_t *head) {
  dt_program_t *program = c->program;
  const dt_kernel_t *rows = &program->kernels.items[chain->members[0]];
  int64_t n = 0;
  if (!dt__sym_is_const(program->env, head->extents[head->n_loops - 1], &n) || n > FEW_COLUMNS)
    return false;
  for (uint32_t s = 0; s < rows->stages.len; s++)
    for (uint32_t i = 0; i < rows->stages.items[s].insts.len; i++) {
      dt_buffer_id_t id = dt__inst_reads(&rows->stages.items[s].insts.items[i]);
      uint32_t k = id.id ? maker_of(c, id, chain->members[0]) : NO_KERNEL;
      dt_contraction_t roles;
      if (k == NO_KERNEL || !is_product(&program->kernels.items[k]) ||
          program->kernels.items[k].n_loops != chain->n_shared + 1 ||
          !same_sums(&program->kernels.items[k], head) ||
          !dt__contraction_roles(program, &program->kernels.items[k], &roles, NULL) ||
          !add_maker(c, chain, k, id))
        continue;
      bool open = !dt__sym_is_const(program->env, columns_of(c, &chain->links[0]), NULL);
      return chain->links[0].alone && (open || chain->n_shared > 1);
    }
  return false;
}

static bool writes_for(const chains_t *c, const chain_t *chain, uint32_t id, uint32_t *out) {
  for (uint32_t i = 0; i < chain->n; i++)
    if (dt__kernel_stores_to(&c->program->kernels.items[chain->members[i]], id)) {
      *out = i;
      return true;
    }
  return false;
}

// Members read each other's results through links only. The member in front of the head may read
// its own, as copies (keep_copies).
static bool is_closed(const chains_t *c, const chain_t *chain) {
  for (uint32_t i = 0; i < chain->n; i++) {
    const dt_kernel_t *kernel = &c->program->kernels.items[chain->members[i]];
    for (uint32_t s = 0; s < kernel->stages.len; s++)
      for (uint32_t k = 0; k < kernel->stages.items[s].insts.len; k++) {
        dt_buffer_id_t id = dt__inst_reads(&kernel->stages.items[s].insts.items[k]);
        uint32_t writer = 0;
        if (!id.id || dt__program_buffer(c->program, id)->kind == DT_BUFFER_LOCAL ||
            !writes_for(c, chain, id.id, &writer) || (writer == i && i + 2 == chain->n))
          continue;
        bool handed = i == writer + 1 && chain->links[writer].buffer.id == id.id;
        if (!handed)
          return false;
      }
  }
  return true;
}

// ---- One row --------------------------------------------------------------------------------------
// Attention of one row of queries is no chain by itself: without a loop over rows its products are
// sums for each column, made of a vector.
typedef struct single_t {
  uint32_t members[MEMBERS]; // kernels: scores, rows, head
  dt_kernel_t before[MEMBERS];
} single_t;

static dt_kernel_t *single_of(const chains_t *c, const single_t *s, uint32_t at) {
  return &c->program->kernels.items[s->members[at]];
}

static bool sums_products(const chains_t *c, uint32_t k) {
  const dt_kernel_t *kernel = &c->program->kernels.items[k];
  uint32_t a = 0, b = 0;
  return kernel->stages.len && !kernel->schedules.len && kernel->n_loops &&
         kernel->n_loops < DT_MAX_LOOPS &&
         dt__stage_is_contraction(&kernel->stages.items[0], &a, &b);
}

// The kernel that makes what `reader` loads first of those of the form; NO_KERNEL: none does.
static uint32_t single_maker(const chains_t *c, uint32_t reader, bool product) {
  const dt_kernel_t *kernel = &c->program->kernels.items[reader];
  uint32_t n = kernel->n_loops;
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].insts.len; i++) {
      dt_buffer_id_t id = dt__inst_reads(&kernel->stages.items[s].insts.items[i]);
      uint32_t k = id.id ? maker_of(c, id, reader) : NO_KERNEL;
      if (k == NO_KERNEL)
        continue;
      const dt_kernel_t *maker = &c->program->kernels.items[k];
      if (product ? sums_products(c, k) && maker->n_loops == n + 1 : makes_rows(c, maker, n - 1))
        return k;
    }
  return NO_KERNEL;
}

static bool find_single(const chains_t *c, uint32_t k, single_t *out) {
  if (c->strict_fp || !sums_products(c, k) || !may_be_member(c, k))
    return false;
  out->members[2] = k;
  out->members[1] = single_maker(c, k, false);
  if (out->members[1] == NO_KERNEL)
    return false;
  out->members[0] = single_maker(c, out->members[1], true);
  for (uint32_t i = 0; i < MEMBERS && out->members[0] != NO_KERNEL; i++)
    out->before[i] = *single_of(c, out, i);
  return out->members[0] != NO_KERNEL;
}

// Gives all members a loop over one row; *out: they are attention that there is room for.
static dt_status_t add_row(chains_t *c, const single_t *s, bool *out) {
  dt_program_t *program = c->program;
  dt_kernel_t *rows = single_of(c, s, 1);
  dt_kernel_t *const kernels[MEMBERS] = {single_of(c, s, 0), rows, single_of(c, s, 2)};
  dt_attention_t found;
  *out = true;
  for (uint32_t i = 0; i < MEMBERS && *out; i += 2)
    DT_TRY(dt__operands_one_row(program, kernels[i], c->target, out));
  if (!*out)
    return NULL;
  rows->extents[rows->n_loops] = dt__sym_const(program->env, 1);
  rows->vars[rows->n_loops] = dt__sym_new_loop(program->env, rows->extents[rows->n_loops]);
  rows->n_loops++;
  *out = dt__attention_of(program, kernels, &found) &&
         dt__attention_ring(found.depth, found.cols, dt__attention_room(c->target));
  return dt__symenv_status(program->env);
}

static void drop_row(const chains_t *c, const single_t *s) {
  for (uint32_t i = 0; i < MEMBERS; i++)
    *single_of(c, s, i) = s->before[i];
}

// ---- Rewriting ------------------------------------------------------------------------------------

// For a kernel that reads what an earlier stage of it stored, in the same iteration. Teams that
// make rows again do not store them again, so the kernel keeps a copy. False: the accesses are of
// another form.
static bool copy_form(const chains_t *c, const dt_kernel_t *kernel, const dt_store_t *store,
                      uint32_t stage, uint32_t *out_column) {
  const dt_stage_t *own = &kernel->stages.items[stage];
  uint32_t rank = dt__program_buffer(c->program, store->buffer)->rank;
  *out_column = UINT32_MAX;
  if (own->n_loops != 1 || store->mask != DT_NO_INST)
    return false;
  for (uint32_t d = 0; d < rank; d++)
    if (store->index[d].id == own->vars[0].id && *out_column == UINT32_MAX)
      *out_column = d;
    else if (dt__expr_uses_any(c->program, store->index[d], own->vars, 1))
      return false;
  return *out_column != UINT32_MAX;
}

static dt_status_t read_instead(dt_program_t *program, dt_kernel_t *kernel, dt_buffer_id_t from,
                                dt_buffer_id_t to, uint32_t column, const dt_sym_t *front,
                                uint32_t n_front) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].insts.len; i++) {
      dt_inst_t *load = &kernel->stages.items[s].insts.items[i];
      if (dt__inst_reads(load).id != from.id)
        continue;
      dt_sym_t *index = DT_ARENA_ARRAY(program->arena, dt_sym_t, n_front + 1);
      if (!index)
        return DT_NO_MEMORY();
      for (uint32_t d = 0; d < n_front; d++) // there may be none
        index[d] = front[d];
      index[n_front] = load->index[column];
      load->index = index;
      load->buffer = to;
    }
  return NULL;
}

// Stores to `to` what `store` of the stage stores, in its place or beside it.
static dt_status_t store_too(dt_program_t *program, dt_stage_t *stage, const dt_store_t *store,
                             dt_buffer_id_t to, uint32_t column, const dt_sym_t *front,
                             uint32_t n_front, bool instead) {
  dt_sym_t *index = DT_ARENA_ARRAY(program->arena, dt_sym_t, n_front + 1);
  if (!index)
    return DT_NO_MEMORY();
  for (uint32_t d = 0; d < n_front; d++)
    index[d] = front[d];
  index[n_front] = store->index[column];
  dt_store_t made = *store;
  made.buffer = to;
  made.index = index;
  if (instead) {
    stage->stores.items[store - stage->stores.items] = made;
    return NULL;
  }
  return DT_VEC_PUSH(program->arena, &stage->stores, made) ? NULL : DT_NO_MEMORY();
}

// What kernel k stores and reads, in the order of the program's buffers.
static dt_status_t own_buffers(chains_t *c, uint32_t k) {
  const dt_flow_kernel_t *flow = &c->flow.kernels[k];
  c->own.len = 0;
  for (uint32_t i = 0; i < flow->n_writes; i++) {
    uint32_t b = flow->writes[i], at = c->own.len;
    if (c->program->buffers.items[b].kind == DT_BUFFER_LOCAL || !dt__flow_reads(&c->flow, k, b))
      continue;
    if (!DT_VEC_PUSH(c->program->arena, &c->own, b))
      return DT_NO_MEMORY();
    for (; at && c->own.items[at - 1] > b; at--)
      c->own.items[at] = c->own.items[at - 1];
    c->own.items[at] = b;
  }
  return NULL;
}

static dt_status_t keep_copies(chains_t *c, uint32_t k, bool only_ask, bool *out_fits) {
  dt_program_t *program = c->program;
  dt_kernel_t *kernel = &program->kernels.items[k];
  *out_fits = true;
  DT_TRY(own_buffers(c, k));
  for (uint32_t i = 0; i < c->own.len; i++) {
    uint32_t b = c->own.items[i], stage = 0, column = 0;
    const dt_buffer_t *buffer = &program->buffers.items[b];
    if (!loads_of(kernel, b + 1))
      continue;
    const dt_store_t *store = dt__kernel_only_store(kernel, b + 1, &stage);
    *out_fits = store && copy_form(c, kernel, store, stage, &column);
    if (!*out_fits)
      return NULL;
    if (only_ask)
      continue;
    dt_buffer_t local = {.kind = DT_BUFFER_LOCAL, .dtype = buffer->dtype, .rank = 1};
    local.sizes[0] = kernel->stages.items[stage].extents[0];
    dt_buffer_id_t made;
    DT_TRY(dt__program_add_buffer(program, &local, &made));
    DT_TRY(read_instead(program, kernel, (dt_buffer_id_t){b + 1}, made, column, NULL, 0));
    DT_TRY(store_too(program, &kernel->stages.items[stage], store, made, column, NULL, 0, false));
  }
  return NULL;
}

// The kernel with its loops under the head's names, in the head's order.
static dt_status_t rename_member(chains_t *c, const chain_t *chain, uint32_t at,
                                 dt_kernel_t *kernel) {
  dt_program_t *program = c->program;
  const dt_kernel_t *head = &program->kernels.items[chain->members[chain->n - 1]];
  dt_stage_t *fresh = DT_ARENA_ARRAY(program->arena, dt_stage_t, kernel->stages.len + 1);
  if (!fresh)
    return DT_NO_MEMORY();
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    dt_stage_t *stage = &kernel->stages.items[s];
    dt__stage_start(&fresh[s], stage);
    dt_body_copy_t copy = {
        .program = program, .into = &fresh[s], .from = stage, .mask = DT_NO_INST};
    for (uint32_t v = 0; v < chain->n_shared; v++)
      DT_TRY(dt__body_rename(&copy, kernel->vars[v], chain->names[at][v]));
    DT_TRY(dt__body_copy(&copy));
    DT_TRY(dt__body_copy_results(&copy));
    for (uint32_t i = 0; s == 0 && i < kernel->schedules.len; i++) {
      dt_schedule_t *schedule = &kernel->schedules.items[i];
      if (!dt__schedule_is_product(schedule))
        continue;
      schedule->product.a = copy.map[schedule->product.a];
      schedule->product.b = copy.map[schedule->product.b];
    }
  }
  memcpy(kernel->stages.items, fresh, kernel->stages.len * sizeof(*fresh));
  memcpy(kernel->vars, head->vars, chain->n_shared * sizeof(*head->vars));
  memcpy(kernel->extents, head->extents, chain->n_shared * sizeof(*head->extents));
  return NULL;
}

// Link `at` becomes a slab.
static dt_status_t make_slab(chains_t *c, const chain_t *chain, uint32_t at, uint32_t n_shared) {
  dt_program_t *program = c->program;
  const link_t *link = &chain->links[at];
  const dt_buffer_t *from = dt__program_buffer(program, link->buffer);
  dt_kernel_t *maker = &program->kernels.items[chain->members[at]];
  dt_kernel_t *reader = &program->kernels.items[chain->members[at + 1]];
  uint32_t stage = 0;
  const dt_store_t *store = dt__kernel_only_store(maker, link->buffer.id, &stage);
  dt_buffer_t slab = {.kind = DT_BUFFER_SLAB, .dtype = from->dtype, .rank = n_shared + 1};
  dt_buffer_id_t made;
  if (!store)
    return DT_FAIL(DT_E_INTERNAL, "fuse: %s lost a store", maker->name);
  memcpy(slab.sizes, maker->extents, n_shared * sizeof(*slab.sizes));
  slab.sizes[n_shared] = from->sizes[link->column];
  DT_TRY(dt__program_add_buffer(program, &slab, &made));
  DT_TRY(read_instead(program, reader, link->buffer, made, link->column, maker->vars, n_shared));
  return store_too(program, &maker->stages.items[stage], store, made, link->column, maker->vars,
                   n_shared, link->alone);
}

// The members, side by side by now, become a chain.
static dt_status_t build(chains_t *c, chain_t *chain) {
  dt_program_t *program = c->program;
  dt_kernel_t *kernels[MEMBERS];
  for (uint32_t i = 0; i < chain->n; i++) {
    kernels[i] = &program->kernels.items[chain->members[i]];
    kernels[i]->chain = c->n + 1;
  }
  uint32_t before = kernels[0]->n_loops;
  c->n++;
  for (uint32_t i = 0; i + 1 < chain->n; i++) {
    bool fits = true;
    DT_TRY(keep_copies(c, chain->members[i], false, &fits));
    DT_TRY(rename_member(c, chain, i, kernels[i]));
  }
  DT_TRY(dt__merge_shared_loops(program, kernels, chain->n, chain->n_shared));
  uint32_t n_shared = chain->n_shared - (before - kernels[0]->n_loops);
  for (uint32_t i = 0; i + 1 < chain->n; i++)
    DT_TRY(make_slab(c, chain, i, n_shared));
  return dt__symenv_status(program->env);
}

// ---- Search ---------------------------------------------------------------------------------------

// The longest chain that kernel k is the head of; n < 2: none.
static dt_status_t find_chain(chains_t *c, uint32_t k, chain_t *chain) {
  dt_program_t *program = c->program;
  dt_kernel_t *head = &program->kernels.items[k];
  dt_contraction_t roles;
  bool fits = true;
  *chain = (chain_t){.members = {k}, .n = 1, .n_shared = head->n_loops - 1};
  if (!is_product(head) || !may_be_member(c, k) ||
      !dt__contraction_roles(program, head, &roles, NULL) || chain->n_shared + 1 > DT_MAX_RANK)
    return NULL;
  memcpy(chain->names[0], head->vars, chain->n_shared * sizeof(*head->vars));
  const dt_inst_t *a = &head->stages.items[0].insts.items[roles.a];
  uint32_t rows = maker_of(c, a->buffer, k);
  if (rows == NO_KERNEL || a->mask != DT_NO_INST || loads_of(head, a->buffer.id) != 1 ||
      !makes_rows(c, &program->kernels.items[rows], chain->n_shared))
    return NULL;
  DT_TRY(keep_copies(c, rows, true, &fits));
  chain_t longer = *chain;
  if (!fits || !add_maker(c, &longer, rows, a->buffer))
    return NULL;
  chain_t longest = longer;
  if (add_scores(c, &longest, head))
    *chain = longest;
  else if (short_rows(c, &longer.links[0]))
    *chain = longer;
  return NULL;
}

static dt_status_t try_chain(chains_t *c, uint32_t k) {
  dt_program_t *program = c->program;
  chain_t chain;
  uint32_t first = 0;
  DT_TRY(find_chain(c, k, &chain));
  if (chain.n < 2 || !is_closed(c, &chain))
    return NULL;
  DT_TRY(dt__flow_gather(&c->flow, c->segments, chain.members, chain.n, &first));
  if (first == DT_FLOW_NONE)
    return NULL;
  DT_LOG(DT_LOG_FUSION, 1, "%s is run with what it reads, by one launch of %u kernels",
         program->kernels.items[k].name, chain.n);
  return build(c, &chain);
}

static dt_status_t try_head(chains_t *c, uint32_t k) {
  single_t single;
  bool row = false, found = find_single(c, k, &single);
  if (found)
    DT_TRY(add_row(c, &single, &row));
  if (!found || row)
    DT_TRY(try_chain(c, k));
  if (found && !c->program->kernels.items[k].chain)
    drop_row(c, &single);
  return NULL;
}

dt_status_t dt__fuse_chains(dt_program_t *program, const dt_target_t *target) {
  chains_t c = {.program = program, .target = target, .strict_fp = target->strict_fp};
  if (!dt__target_has_teams(target))
    return NULL;
  DT_TRY(dt__flow_init(program, &c.flow));
  DT_TRY(dt__find_segments(program, &c.segments, NULL));
  DT_TRY(dt__find_constant(program, &c.constant));
  c.asked = DT_ARENA_ARRAY(program->arena, bool, program->kernels.len + 1);
  if (!c.asked)
    return DT_NO_MEMORY();
  // What waits for a chain is put behind it, and may have been asked before.
  for (uint32_t k = c.flow.first; k != DT_FLOW_NONE; k = c.flow.kernels[k].next) {
    if (!c.asked[k])
      DT_TRY(try_head(&c, k));
    c.asked[k] = true;
  }
  DT_TRY(dt__flow_settle(&c.flow));
  return dt__symenv_status(program->env);
}
