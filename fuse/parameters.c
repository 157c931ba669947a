// SPDX-License-Identifier: Apache-2.0
// Kernels that are equal but for numbers become equal: the numbers in which they differ become
// parameters, so that one code serves them all. Stands behind the plan, since every number is there
// by then, and needs schedules.
//
// Loads and stores are by offset from here on: what a buffer's sizes and strides make of an index
// is all that code knows of them. A kernel is read as a list of items, its key, in which a number
// that may become a parameter is left open. Kernels with one key are a group. Of its open numbers
// those stay literals that are the same in all of it, and those that go together in all of it are
// one parameter. Its range is that of the group.
//
// What stays in the key decides how code is made, or makes it quick:
//   - the schedule: lanes, unrolled vectors, blocks, tiles;
//   - what lanes and loops that are written out multiply: literal steps between neighbours, but in
//     kernels that run once, such as those that pack weights, for which no call waits twice;
//   - extents of loops that are written out, or that leave less than all vectors of an iteration
//     (reductions would be split otherwise); those around a division, which is done by a
//     reciprocal where there are enough of them;
//   - divisors, and all inside of a division, a minimum, a choice;
//   - whether a short extent under lanes is a whole number of iterations: it is then a parameter
//     times that; 0 and 1.
#include "fuse/fuse.h"
#include "lower/loop/kernel.h"
#include "runtime/base/dtype.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"

#include <string.h>

// What an item of a key is, and how many follow that belong to it.
typedef enum item_t {
  ITEM_OPEN = 1, // a number that may become a parameter
  ITEM_WHOLE,    // the same, of so many: 1
  ITEM_LITERAL,  // 1
  ITEM_SYMBOL,   // its number in the kernel: 1
  ITEM_FREE,     // where it is met first: its kind and range: 3
  ITEM_OP,       // of an expression, and how many arguments: 2
  ITEM_SCALED,   // a product with a number that is open; how many other factors: 1
  ITEM_INST,
  ITEM_STORE,
  ITEM_REDUCTION,
  ITEM_LOOPS,
  ITEM_LOCAL,
} item_t;

typedef struct member_t {
  dt_kernel_t *kernel;
  DT_VEC(int64_t) key;
  DT_VEC(int64_t) numbers; // that are open in it
  uint64_t hash;           // of the key
  uint64_t shapes;         // of its buffers
  uint32_t next;           // 1 + the next member of its group; 0: none
  bool first;              // of its group
  bool one_block;          // the last outer loop is one block at most
} member_t;

// A symbol of a kernel, and what it is rewritten to.
typedef struct symbol_t {
  uint32_t symbol;
  dt_sym_t old, now;
} symbol_t;

#define MOST_FIXED (DT_MAX_LOOPS + 1)

// One way through a kernel: reads it, or with `values` rewrites it.
typedef struct walk_t {
  dt_program_t *program;
  dt_symenv_t *env;
  member_t *member;
  const dt_schedule_t *schedule;
  DT_VEC(symbol_t) symbols; // in order of first use
  DT_VEC(dt_buffer_id_t) buffers;
  dt_sym_t last;                       // the last outer loop's variable, as it was
  uint32_t fixed[MOST_FIXED], n_fixed; // symbols whose factors stay literals
  bool once;                           // a function's constants are computed, and no call waits
  const dt_sym_t *values;              // by open number; NULL: reads
  uint32_t at;                         // the next one
  bool failed;
} walk_t;

static void put(walk_t *w, int64_t item) {
  if (!w->values)
    w->failed |= !DT_VEC_PUSH(w->program->arena, &w->member->key, item);
}

// ---- Symbols --------------------------------------------------------------------------------------
static uint32_t find_symbol(const walk_t *w, uint32_t symbol) {
  uint32_t at = 0;
  while (at < w->symbols.len && w->symbols.items[at].symbol != symbol)
    at++;
  return at;
}

static void add_symbol(walk_t *w, dt_sym_t old, dt_sym_t now) {
  symbol_t own = {.old = old, .now = now};
  if (dt__sym_is_symbol(w->env, old, &own.symbol))
    w->failed |= !DT_VEC_PUSH(w->program->arena, &w->symbols, own);
  else
    w->failed = true; // a loop that is known to have one iteration
}

static void read_symbol(walk_t *w, uint32_t symbol) {
  uint32_t at = find_symbol(w, symbol);
  if (at == w->symbols.len) {
    dt_symbol_info_t info = dt__symbol_info(w->env, symbol);
    dt_sym_t own = dt__symbol_sym(w->env, symbol);
    put(w, ITEM_FREE);
    put(w, (int64_t)info.kind);
    put(w, info.range.lo);
    put(w, info.range.hi);
    add_symbol(w, own, own);
  }
  put(w, ITEM_SYMBOL);
  put(w, at);
}

// ---- Expressions ----------------------------------------------------------------------------------
// An expression's arguments, which building others does not move.
static const dt_sym_t *arguments(walk_t *w, const dt_sym_view_t *view) {
  dt_sym_t *args = DT_ARENA_ARRAY(w->program->arena, dt_sym_t, view->n_args + 1);
  if (args)
    memcpy(args, view->args, view->n_args * sizeof(*args));
  w->failed |= !args;
  return args;
}

static void read_fixed(walk_t *w, dt_sym_t e) {
  dt_sym_view_t view = dt__sym_view(w->env, e);
  if (view.op == DT_SYM_CONST) {
    put(w, ITEM_LITERAL);
    put(w, view.value);
    return;
  }
  if (view.op == DT_SYM_SYMBOL) {
    read_symbol(w, view.symbol);
    return;
  }
  put(w, ITEM_OP);
  put(w, (int64_t)view.op);
  put(w, view.n_args);
  for (uint32_t i = 0; i < view.n_args; i++)
    read_fixed(w, dt__sym_view(w->env, e).args[i]);
}

// Nothing in `e` becomes a parameter.
static dt_sym_t visit_fixed(walk_t *w, dt_sym_t e) {
  if (!w->values) {
    read_fixed(w, e);
    return e;
  }
  for (uint32_t i = 0; i < w->symbols.len; i++) {
    const symbol_t *own = &w->symbols.items[i];
    if (own->old.id != own->now.id && dt__sym_depends(w->env, e, own->old))
      e = dt__sym_subst(w->env, e, &own->old, &own->now, 1);
  }
  return e;
}

// An open number, of which the key says `item`.
static dt_sym_t visit_open(walk_t *w, item_t item, int64_t value) {
  if (w->values)
    return w->values[w->at++];
  put(w, (int64_t)item);
  w->failed |= !DT_VEC_PUSH(w->program->arena, &w->member->numbers, value);
  return DT_SYM_NONE_ID;
}

static dt_sym_t visit_literal(walk_t *w, dt_sym_t e) { return visit_fixed(w, e); }

// `n` times a whole number.
static dt_sym_t visit_whole(walk_t *w, int64_t value, int64_t n) {
  dt_sym_t open = visit_open(w, ITEM_WHOLE, value / n);
  put(w, n);
  return w->values ? dt__sym_mul(w->env, dt__sym_const(w->env, n), open) : open;
}

static bool is_fixed(const walk_t *w, dt_sym_t e) {
  uint32_t symbols[64], n = dt__sym_symbols(w->env, e, symbols, 64);
  bool fixed = n > 64;
  for (uint32_t i = 0; i < n && !fixed; i++)
    for (uint32_t k = 0; k < w->n_fixed && !fixed; k++)
      fixed = symbols[i] == w->fixed[k];
  return fixed;
}

// A literal that is worth no parameter: it comes from no size.
static bool is_plain(int64_t value) { return value >= -1 && value <= 1; }

static dt_sym_t visit_product(walk_t *w, const dt_sym_t *args, uint32_t n, int64_t literal) {
  put(w, ITEM_SCALED);
  put(w, n - 1);
  dt_sym_t product = visit_open(w, ITEM_OPEN, literal);
  for (uint32_t i = 0; i < n; i++) {
    if (dt__sym_is_const(w->env, args[i], NULL))
      continue;
    dt_sym_t factor = visit_fixed(w, args[i]);
    product = w->values ? dt__sym_mul(w->env, product, factor) : factor;
  }
  return product;
}

static dt_sym_t visit_term(walk_t *w, dt_sym_t e) {
  dt_sym_view_t view = dt__sym_view(w->env, e);
  int64_t literal = 0;
  bool scaled = false;
  if (view.op == DT_SYM_CONST)
    return is_plain(view.value) ? visit_literal(w, e) : visit_open(w, ITEM_OPEN, view.value);
  for (uint32_t i = 0; view.op == DT_SYM_MUL && !scaled && i < view.n_args; i++)
    scaled = dt__sym_is_const(w->env, view.args[i], &literal);
  if (!scaled || is_plain(literal) || (!w->once && is_fixed(w, e)))
    return visit_fixed(w, e);
  const dt_sym_t *args = arguments(w, &view);
  return args ? visit_product(w, args, view.n_args, literal) : e;
}

typedef dt_sym_t (*visit_fn_t)(walk_t *w, dt_sym_t e);
typedef dt_sym_t (*join_fn_t)(dt_symenv_t *env, dt_sym_t a, dt_sym_t b);

static dt_sym_t visit_each(walk_t *w, const dt_sym_view_t *view, visit_fn_t visit, join_fn_t join) {
  const dt_sym_t *args = arguments(w, view);
  put(w, ITEM_OP);
  put(w, (int64_t)view->op);
  put(w, view->n_args);
  dt_sym_t all = DT_SYM_NONE_ID;
  for (uint32_t i = 0; args && i < view->n_args; i++) {
    dt_sym_t own = visit(w, args[i]);
    all = i && w->values ? join(w->env, all, own) : own;
  }
  return all;
}

static dt_sym_t visit_sum(walk_t *w, dt_sym_t e) {
  dt_sym_view_t view = dt__sym_view(w->env, e);
  return view.op == DT_SYM_ADD ? visit_each(w, &view, visit_term, dt__sym_add) : visit_term(w, e);
}

static dt_sym_t not_of(dt_symenv_t *env, dt_sym_t a, dt_sym_t b) {
  (void)b;
  return dt__sym_not(env, a);
}

// A condition on sums, or a sum.
static dt_sym_t visit_value(walk_t *w, dt_sym_t e) {
  dt_sym_view_t view = dt__sym_view(w->env, e);
  switch (view.op) {
  case DT_SYM_AND:
    return visit_each(w, &view, visit_value, dt__sym_and);
  case DT_SYM_OR:
    return visit_each(w, &view, visit_value, dt__sym_or);
  case DT_SYM_LT:
    return visit_each(w, &view, visit_sum, dt__sym_lt);
  case DT_SYM_LE:
    return visit_each(w, &view, visit_sum, dt__sym_le);
  case DT_SYM_NOT: {
    dt_sym_t own = visit_each(w, &view, visit_value, not_of);
    return w->values ? dt__sym_not(w->env, own) : own;
  }
  default:
    return visit_sum(w, e);
  }
}

// Behind so many elements a rest costs nothing.
#define LONG_LOOP 1024

static bool is_short_whole(int64_t value, int64_t group) {
  return value % group == 0 && value < LONG_LOOP;
}

// ---- Loops ----------------------------------------------------------------------------------------
static bool is_matmul(const walk_t *w) { return w->schedule->kind == DT_SCHEDULE_MATMUL; }

// The vectors of one iteration under lanes, in elements.
static int64_t group_of(const dt_schedule_t *s) { return (int64_t)s->lanes * s->unroll; }

static bool divides(const dt_stage_t *stage) {
  for (uint32_t i = 0; i < stage->insts.len; i++)
    if (stage->insts.items[i].kind == DT_INST_SCALAR && stage->insts.items[i].op == DT_SCALAR_div)
      return true;
  return false;
}

static dt_sym_t visit_outer_extent(walk_t *w, uint32_t v) {
  const dt_kernel_t *kernel = w->member->kernel;
  int64_t value = 0, group = group_of(w->schedule);
  if (!dt__sym_is_const(w->env, kernel->extents[v], &value) || value < 2)
    return visit_fixed(w, kernel->extents[v]);
  bool lanes = w->schedule->kind == DT_SCHEDULE_OUTER_LANES && v + 1 == kernel->n_loops;
  if (lanes && !w->values)
    w->member->one_block = value <= w->schedule->outer.block;
  if (lanes && is_short_whole(value, group) && w->schedule->outer.block % group == 0)
    return visit_whole(w, value, group);
  return visit_open(w, ITEM_OPEN, value);
}

static dt_sym_t visit_inner_extent(walk_t *w, uint32_t s, uint32_t v) {
  const dt_stage_t *stage = &w->member->kernel->stages.items[s];
  int64_t value = 0, group = group_of(w->schedule);
  if (!dt__sym_is_const(w->env, stage->extents[v], &value) || value < 2)
    return visit_fixed(w, stage->extents[v]);
  if (is_matmul(w) && s == 0)
    return visit_open(w, ITEM_OPEN, value);
  bool lanes = w->schedule->kind == DT_SCHEDULE_INNER_LANES && v + 1 == stage->n_loops;
  if (value <= DT_WRITTEN_OUT || divides(stage) || (lanes && value < group))
    return visit_fixed(w, stage->extents[v]);
  return lanes && is_short_whole(value, group) ? visit_whole(w, value, group)
                                               : visit_open(w, ITEM_OPEN, value);
}

// Rewriting makes loops anew, in their order.
static void visit_loop(walk_t *w, dt_sym_t *var, dt_sym_t *extent, dt_sym_t now) {
  dt_sym_t old = *var;
  if (w->values) {
    *extent = now;
    *var = dt__sym_new_loop(w->env, now);
  }
  add_symbol(w, old, *var);
}

static void visit_outer(walk_t *w) {
  dt_kernel_t *kernel = w->member->kernel;
  put(w, ITEM_LOOPS);
  put(w, kernel->n_loops);
  if (kernel->n_loops)
    w->last = kernel->vars[kernel->n_loops - 1];
  for (uint32_t v = 0; v < kernel->n_loops; v++)
    visit_loop(w, &kernel->vars[v], &kernel->extents[v], visit_outer_extent(w, v));
}

static void fix(walk_t *w, dt_sym_t var) {
  uint32_t symbol = 0;
  if (w->n_fixed < MOST_FIXED && dt__sym_is_symbol(w->env, var, &symbol))
    w->fixed[w->n_fixed++] = symbol;
}

// Inner loops of the stage, and what of all loops multiplies literals alone.
static void visit_inner(walk_t *w, uint32_t s) {
  dt_kernel_t *kernel = w->member->kernel;
  dt_stage_t *stage = &kernel->stages.items[s];
  const dt_schedule_t *schedule = w->schedule;
  bool outer = schedule->kind == DT_SCHEDULE_OUTER_LANES ||
               (is_matmul(w) && (s || schedule->matmul.own_panels));
  put(w, ITEM_LOOPS);
  put(w, stage->n_loops);
  w->n_fixed = 0;
  if (outer && kernel->n_loops)
    fix(w, w->last);
  for (uint32_t v = 0; v < stage->n_loops; v++) {
    int64_t value = DT_WRITTEN_OUT + 1;
    (void)dt__sym_is_const(w->env, stage->extents[v], &value);
    bool lanes = schedule->kind == DT_SCHEDULE_INNER_LANES && v + 1 == stage->n_loops;
    if (lanes || (value <= DT_WRITTEN_OUT && !is_matmul(w)))
      fix(w, stage->vars[v]);
    visit_loop(w, &stage->vars[v], &stage->extents[v], visit_inner_extent(w, s, v));
  }
}

// ---- Bodies ---------------------------------------------------------------------------------------
static void note_shape(walk_t *w, const dt_buffer_t *buffer) {
  uint64_t *hash = &w->member->shapes;
  for (uint32_t d = 0; d < buffer->rank; d++)
    *hash = dt__hash_mix(buffer->sizes[d].id, dt__hash_mix(buffer->strides[d].id, *hash));
  *hash = dt__hash_mix(buffer->rank, *hash);
}

static void visit_buffer(walk_t *w, dt_buffer_id_t id) {
  const dt_buffer_t *buffer = dt__program_buffer(w->program, id);
  uint32_t at = 0;
  while (at < w->buffers.len && w->buffers.items[at].id != id.id)
    at++;
  if (at == w->buffers.len) {
    w->failed |= !DT_VEC_PUSH(w->program->arena, &w->buffers, id);
    if (!w->values)
      note_shape(w, buffer);
  }
  put(w, at);
  put(w, buffer->kind == DT_BUFFER_LOCAL);
  put(w, (int64_t)buffer->dtype);
  put(w, buffer->rank != 0);
}

static void visit_place(walk_t *w, dt_buffer_id_t id, const dt_sym_t **index) {
  uint32_t rank = dt__program_buffer(w->program, id)->rank;
  visit_buffer(w, id);
  if (!rank)
    return;
  dt_sym_t offset = visit_sum(w, dt__buffer_offset(w->program, id, *index));
  if (!w->values)
    return;
  dt_sym_t *now = DT_ARENA_ARRAY(w->program->arena, dt_sym_t, rank);
  w->failed |= !now;
  for (uint32_t d = 0; now && d < rank; d++)
    now[d] = d ? dt__sym_const(w->env, 0) : offset;
  if (now)
    *index = now;
}

static void visit_inst(walk_t *w, dt_inst_t *inst) {
  put(w, ITEM_INST);
  put(w, (int64_t)inst->kind);
  put(w, (int64_t)inst->dtype);
  for (uint32_t k = 0; k < 3; k++)
    put(w, inst->args[k]);
  put(w, inst->mask);
  put(w, inst->kind == DT_INST_SCALAR ? (int64_t)inst->op : 0);
  put(w, inst->kind == DT_INST_CONST ? inst->value.i : 0);
  put(w, inst->row);
  if (inst->kind == DT_INST_LOAD)
    visit_place(w, inst->buffer, &inst->index);
  if (inst->kind != DT_INST_INDEX)
    return;
  dt_sym_t now = visit_value(w, inst->sym);
  if (w->values)
    inst->sym = now;
}

static void visit_stage(walk_t *w, uint32_t s) {
  dt_stage_t *stage = &w->member->kernel->stages.items[s];
  visit_inner(w, s);
  for (uint32_t i = 0; i < stage->insts.len; i++)
    visit_inst(w, &stage->insts.items[i]);
  for (uint32_t i = 0; i < stage->stores.len; i++) {
    dt_store_t *store = &stage->stores.items[i];
    put(w, ITEM_STORE);
    put(w, store->value);
    put(w, store->mask);
    put(w, store->revises);
    visit_place(w, store->buffer, &store->index);
  }
  for (uint32_t i = 0; i < stage->reductions.len; i++) {
    const dt_reduction_t *reduction = &stage->reductions.items[i];
    put(w, ITEM_REDUCTION);
    put(w, (int64_t)reduction->kind);
    put(w, (int64_t)reduction->dtype);
    put(w, reduction->value);
    put(w, reduction->index);
    put(w, reduction->row);
  }
}

// A LOCAL buffer is as many elements, one behind another.
static void visit_local(walk_t *w, dt_buffer_id_t id) {
  dt_buffer_t *buffer = dt__program_buffer(w->program, id);
  if (buffer->kind != DT_BUFFER_LOCAL || !buffer->rank)
    return;
  put(w, ITEM_LOCAL);
  dt_sym_t count = visit_sum(w, dt__buffer_count(w->program, id));
  if (!w->values)
    return;
  buffer->rank = 1;
  buffer->layout = NULL;
  buffer->sizes[0] = count;
  dt__buffer_set_strides(w->env, buffer);
}

static void visit_schedule(walk_t *w) {
  const dt_schedule_t *s = w->schedule;
  const dt_matmul_t *m = &s->matmul;
  put(w, (int64_t)s->kind);
  put(w, s->lanes);
  put(w, s->unroll);
  if (s->kind == DT_SCHEDULE_OUTER_LANES) {
    put(w, s->outer.block == group_of(s)); // or any: join_blocks
    put(w, s->outer.beside);
    if (!w->values)
      w->member->shapes = dt__hash_mix((uint64_t)s->outer.block, 0);
  }
  if (s->kind != DT_SCHEDULE_MATMUL)
    return;
  const uint32_t fields[] = {m->a, m->b, m->tile_rows, m->tile_cols, m->width, m->rows};
  for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
    put(w, fields[i]);
  put(w, m->own_panels);
  put(w, m->bits);
  put(w, m->block);
  put(w, m->dots);
}

static bool runs_once(const dt_program_t *program, const dt_kernel_t *kernel) {
  const dt_stage_t *last = &kernel->stages.items[kernel->stages.len - 1];
  return last->stores.len &&
         dt__program_buffer(program, last->stores.items[0].buffer)->kind == DT_BUFFER_ONCE;
}

static dt_status_t visit_kernel(dt_program_t *program, member_t *member, const dt_sym_t *values) {
  walk_t w = {.program = program,
              .env = program->env,
              .member = member,
              .schedule = &member->kernel->schedules.items[0],
              .once = runs_once(program, member->kernel),
              .values = values};
  put(&w, w.once);
  visit_schedule(&w);
  visit_outer(&w);
  for (uint32_t s = 0; s < member->kernel->stages.len; s++)
    visit_stage(&w, s);
  for (uint32_t b = 0; b < w.buffers.len; b++)
    visit_local(&w, w.buffers.items[b]);
  put(&w, member->kernel->n_rows);
  DT_TRY(dt__symenv_status(program->env));
  if (values)
    member->kernel->by_offset = true;
  return w.failed ? DT_NO_MEMORY() : NULL;
}

// ---- Groups ---------------------------------------------------------------------------------------
static bool has_parameters_kind(dt_inst_kind_t kind) {
  switch (kind) {
  case DT_INST_CONST:
  case DT_INST_INDEX:
  case DT_INST_LOAD:
  case DT_INST_SCALAR:
  case DT_INST_CAST:
  case DT_INST_BITS:
  case DT_INST_ROW:
  case DT_INST_RUNNING:
  case DT_INST_PRIOR:
    return true;
  default:
    return false;
  }
}

static bool has_symbols(const dt_symenv_t *env, uint32_t n, const dt_sym_t *vars) {
  for (uint32_t v = 0; v < n; v++)
    if (!dt__sym_is_symbol(env, vars[v], NULL))
      return false;
  return true;
}

static bool has_squares(const dt_schedule_t *schedule) {
  return schedule->kind == DT_SCHEDULE_MATMUL && schedule->matmul.across.id;
}

// What is looked at by others as it is, or bound by data, stays as it is.
static bool may_share(const dt_program_t *program, const dt_kernel_t *kernel) {
  dt_buffer_id_t from, to;
  bool good = !kernel->external && !kernel->chain && !kernel->gate.id &&
              kernel->schedules.len == 1 && !kernel->schedules.items[0].predicate.id &&
              !kernel->schedules.items[0].team && !has_squares(&kernel->schedules.items[0]) &&
              !kernel->by_offset && has_symbols(program->env, kernel->n_loops, kernel->vars) &&
              !dt__kernel_copies_result(program, kernel, &from, &to) &&
              !dt__kernel_copies_whole(program, kernel, &from, &to);
  for (uint32_t s = 0; good && s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    good = has_symbols(program->env, stage->n_loops, stage->vars);
    for (uint32_t i = 0; good && i < stage->insts.len; i++)
      good = has_parameters_kind(stage->insts.items[i].kind);
  }
  return good;
}

static bool same_key(const member_t *a, const member_t *b) {
  return a->hash == b->hash && a->key.len == b->key.len && a->numbers.len == b->numbers.len &&
         memcmp(a->key.items, b->key.items, a->key.len * sizeof(*a->key.items)) == 0;
}

static bool same_numbers(const member_t *a, const member_t *b) {
  size_t bytes = a->numbers.len * sizeof(*a->numbers.items);
  return bytes == 0 || memcmp(a->numbers.items, b->numbers.items, bytes) == 0;
}

// Members of a group, in the order of their kernels.
typedef struct group_t {
  dt_program_t *program;
  member_t *members; // of all groups
  uint32_t first, n; // its first, and how many
  uint32_t n_numbers;
  uint32_t *slots; // by open number: 1 + the first that goes together with it; 0: a literal
} group_t;

#define EACH_MEMBER(group, m)                                                                      \
  for (uint32_t at_ = (group)->first + 1; at_ && ((m) = &(group)->members[at_ - 1]);               \
       at_ = (group)->members[at_ - 1].next)

static bool goes_with(const group_t *group, uint32_t a, uint32_t b) {
  const member_t *m;
  EACH_MEMBER(group, m)
  if (m->numbers.items[a] != m->numbers.items[b])
    return false;
  return true;
}

static bool is_same_in_all(const group_t *group, uint32_t number) {
  const member_t *m;
  int64_t value = group->members[group->first].numbers.items[number];
  EACH_MEMBER(group, m)
  if (m->numbers.items[number] != value)
    return false;
  return true;
}

static bool find_slots(group_t *group) {
  group->slots = DT_ARENA_ARRAY(group->program->arena, uint32_t, group->n_numbers + 1);
  if (!group->slots)
    return false;
  for (uint32_t i = 0; i < group->n_numbers; i++) {
    if (is_same_in_all(group, i))
      continue;
    uint32_t with = 0;
    while (with < i && (!group->slots[with] || !goes_with(group, i, with)))
      with++;
    group->slots[i] = with + 1;
  }
  return true;
}

static dt_sym_t make_parameter(const group_t *group, const member_t *member, uint32_t number) {
  const member_t *m;
  int64_t value = member->numbers.items[number];
  dt_range_t range = {value, value};
  EACH_MEMBER(group, m) {
    int64_t other = m->numbers.items[number];
    range.lo = other < range.lo ? other : range.lo;
    range.hi = other > range.hi ? other : range.hi;
  }
  return dt__sym_new(group->program->env, DT_SYMBOL_PARAMETER, range, &value, "");
}

// What stands for the open numbers of a member; those of an earlier one where they are the same.
static const dt_sym_t *values_of(const group_t *group, const member_t *member,
                                 const dt_sym_t **made) {
  const member_t *m;
  uint32_t at = 0;
  EACH_MEMBER(group, m) {
    if (m == member)
      break;
    if (same_numbers(m, member))
      return made[at];
    at++;
  }
  dt_sym_t *values = DT_ARENA_ARRAY(group->program->arena, dt_sym_t, group->n_numbers + 1);
  for (uint32_t i = 0; values && i < group->n_numbers; i++) {
    uint32_t slot = group->slots[i];
    values[i] = !slot          ? dt__sym_const(group->program->env, member->numbers.items[i])
                : slot - 1 < i ? values[slot - 1]
                               : make_parameter(group, member, i);
  }
  return values;
}

// One code serves them already.
static bool is_one_code(const group_t *group) {
  const member_t *first = &group->members[group->first], *m;
  EACH_MEMBER(group, m)
  if (m->shapes != first->shapes || !same_numbers(m, first))
    return false;
  return true;
}

static dt_schedule_t *schedule_of(const member_t *m) { return &m->kernel->schedules.items[0]; }

// Blocks of maps come in one size for all: the largest. A loop that is one block stays one.
static bool join_blocks(const group_t *group) {
  const member_t *m;
  int64_t most = 0;
  if (schedule_of(&group->members[group->first])->kind != DT_SCHEDULE_OUTER_LANES)
    return true;
  EACH_MEMBER(group, m)
  most = schedule_of(m)->outer.block > most ? schedule_of(m)->outer.block : most;
  EACH_MEMBER(group, m)
  if (!m->one_block && schedule_of(m)->outer.block != most)
    return false;
  EACH_MEMBER(group, m)
  schedule_of(m)->outer.block = most;
  return true;
}

static dt_status_t share(group_t *group) {
  dt_arena_t *arena = group->program->arena;
  member_t *m;
  uint32_t at = 0;
  if (group->n < 2 || is_one_code(group) || !join_blocks(group))
    return NULL;
  const dt_sym_t **made = DT_ARENA_ARRAY(arena, const dt_sym_t *, group->n);
  if (!made || !find_slots(group))
    return DT_NO_MEMORY();
  EACH_MEMBER(group, m) {
    made[at] = values_of(group, m, made);
    if (!made[at])
      return DT_NO_MEMORY();
    DT_TRY(visit_kernel(group->program, m, made[at++]));
  }
  return NULL;
}

// ---- All of them ----------------------------------------------------------------------------------
typedef struct table_t {
  uint32_t *firsts, *lasts; // by hash: 1 + the first member of a group, and its last
  uint32_t mask;
} table_t;

static void put_member(member_t *members, uint32_t at, const table_t *table) {
  member_t *own = &members[at];
  uint32_t slot = (uint32_t)own->hash & table->mask;
  while (table->firsts[slot] && !same_key(&members[table->firsts[slot] - 1], own))
    slot = (slot + 1) & table->mask;
  own->first = !table->firsts[slot];
  if (own->first)
    table->firsts[slot] = at + 1;
  else
    members[table->lasts[slot] - 1].next = at + 1;
  table->lasts[slot] = at + 1;
}

static dt_status_t find_groups(dt_program_t *program, member_t *members, uint32_t *out_n) {
  dt_arena_t *arena = program->arena;
  table_t table = {.mask = 15};
  while (table.mask < 2 * program->kernels.len)
    table.mask = 2 * table.mask + 1;
  table.firsts = DT_ARENA_ARRAY(arena, uint32_t, (size_t)table.mask + 1);
  table.lasts = DT_ARENA_ARRAY(arena, uint32_t, (size_t)table.mask + 1);
  if (!table.firsts || !table.lasts)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    member_t *own = &members[*out_n];
    if (!may_share(program, &program->kernels.items[k]))
      continue;
    own->kernel = &program->kernels.items[k];
    DT_TRY(visit_kernel(program, own, NULL));
    own->hash = dt__hash(own->key.items, own->key.len * sizeof(*own->key.items), 0);
    put_member(members, (*out_n)++, &table);
  }
  return NULL;
}

dt_status_t dt__fuse_parameters(dt_program_t *program, const dt_target_t *target) {
  uint32_t n = 0;
  if (!target->parameters || program->kernels.len < 2)
    return NULL;
  member_t *members = DT_ARENA_ARRAY(program->arena, member_t, program->kernels.len);
  if (!members)
    return DT_NO_MEMORY();
  DT_TRY(find_groups(program, members, &n));
  for (uint32_t i = 0; i < n; i++) {
    group_t group = {.program = program, .members = members, .first = i};
    const member_t *m;
    if (!members[i].first)
      continue;
    EACH_MEMBER(&group, m)
    group.n++;
    group.n_numbers = members[i].numbers.len;
    DT_TRY(share(&group));
  }
  return NULL;
}
