// SPDX-License-Identifier: Apache-2.0
// See split_scan.h.
//
//   h[0] = x[0],  h[i] = f(h[i - 1], x[i]),  i < n
//
// becomes, with blocks of L elements, of which m = (n - 1) // L have one after them,
//
//   t[b]         the last of the scan of block b alone                      b < m
//   c[0] = t[0], c[b] = f(c[b - 1], t[b])                                   b < m
//   h[b * L]     = f(c[b - 1], x[b * L]) for b > 0, and on as before        b < ceil(n / L)
//
// so that each element is read twice and written once, as in G. Blelloch, "Prefix sums and their
// applications" (1990), and D. Merrill, A. Grimshaw, "Parallel scan for stream architectures"
// (2009). Where n <= L there are no blocks before the last, and the first two kernels do nothing.
//
// CPUs take the axis in its order: a step costs what a product and a sum take one after the other,
// and with blocks there are two passes of these. On two cores that took 2.2 times as long (65,536
// steps of 1 and of 8 channels, `scripts/bench scan`).
//
// A tuple is what lowering made of it (lower_scan.c): value k is where(i == 0, x_k, f_k), and f_k
// is made of PRIORs, of the x and of what does not change along the axis.
#include "fuse/split_scan.h"

#include "fuse/body.h"
#include "runtime/base/dtype.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

#define LEAST_BLOCK 128 // elements of a block
#define MOST_BLOCKS 512 // which one thread goes through
#define BUSY_ROWS 65536 // for so many threads one pass is better than two
#define MOST_TUPLE 16   // values

typedef struct scan_t {
  dt_program_t *program;
  const dt_kernel_t *kernel;
  const dt_stage_t *stage;
  dt_sym_t i, n; // the loop along the axis
  uint32_t count;
  uint32_t element[MOST_TUPLE], joined[MOST_TUPLE], row[MOST_TUPLE]; // of value k
  dt_sym_t length, before, blocks;                                   // L, m and ceil(n / L)
  dt_buffer_id_t totals[MOST_TUPLE], carried[MOST_TUPLE];
} scan_t;

// ---- Which kernels --------------------------------------------------------------------------------
static bool depends(const scan_t *s, dt_sym_t e) {
  return e.id && dt__sym_depends(s->program->env, e, s->i);
}

// The instruction itself, not its arguments, changes along the axis.
static bool moves(const scan_t *s, const dt_inst_t *inst) {
  if (inst->kind != DT_INST_LOAD)
    return depends(s, inst->sym) || depends(s, inst->extent);
  uint32_t rank = dt__program_buffer(s->program, inst->buffer)->rank;
  for (uint32_t d = 0; d < rank; d++)
    if (depends(s, inst->index[d]))
      return true;
  return false;
}

static uint32_t place_in(const scan_t *s, const uint32_t *list, uint32_t id) {
  uint32_t k = 0;
  while (k < s->count && list[k] != id)
    k++;
  return k;
}

// What an instruction is made of, itself included.
typedef struct made_of_t {
  uint32_t elements; // a bit each
  bool moving;       // something that changes along the axis
  bool prior;
  bool free; // nothing that does, but for elements and the tuple before
} made_of_t;

static made_of_t made_of(const scan_t *s, const made_of_t *all, uint32_t id) {
  const dt_inst_t *inst = &s->stage->insts.items[id];
  bool moving = moves(s, inst), prior = inst->kind == DT_INST_PRIOR;
  made_of_t own = {.moving = moving, .prior = prior, .free = !moving};
  if (prior)
    own.free = place_in(s, s->row, inst->row) < s->count;
  for (int k = 0; k < 4; k++) {
    uint32_t arg = k < 3 ? inst->args[k] : inst->mask;
    if (arg == DT_NO_INST)
      continue;
    own.elements |= all[arg].elements;
    own.moving = own.moving || all[arg].moving;
    own.prior = own.prior || all[arg].prior;
    own.free = own.free && all[arg].free;
  }
  uint32_t k = place_in(s, s->element, id);
  if (k < s->count) {
    own.elements |= 1u << k;
    own.free = true;
  }
  return own;
}

// Value `k` of the tuple, as lowering makes it.
static bool take_value(scan_t *s, uint32_t k) {
  const dt_reduction_t *reduction = &s->stage->reductions.items[k];
  const dt_inst_t *value = &s->stage->insts.items[reduction->value];
  if (!dt__reduction_is_last(reduction->kind) || value->kind != DT_INST_SCALAR ||
      value->op != DT_SCALAR_where)
    return false;
  const dt_inst_t *first = &s->stage->insts.items[value->args[0]];
  dt_symenv_t *env = s->program->env;
  dt_sym_t begins = dt__sym_eq(env, s->i, dt__sym_const(env, 0));
  s->element[k] = value->args[1];
  s->joined[k] = value->args[2];
  s->row[k] = reduction->row;
  return first->kind == DT_INST_INDEX && first->dtype == DT_BOOL && first->sym.id == begins.id;
}

// The elements can be told from each other and from all else that f is made of.
static dt_status_t are_apart(const scan_t *s, bool *out) {
  uint32_t n = s->stage->insts.len;
  made_of_t *all = DT_ARENA_ARRAY(s->program->arena, made_of_t, (size_t)n + 1);
  if (!all)
    return DT_NO_MEMORY();
  for (uint32_t id = 0; id < n; id++)
    all[id] = made_of(s, all, id);
  *out = true;
  for (uint32_t k = 0; k < s->count; k++) {
    const made_of_t *element = &all[s->element[k]];
    *out = *out && element->elements == 1u << k && element->moving && !element->prior &&
           all[s->joined[k]].free;
  }
  return NULL;
}

static bool has_plain_body(const dt_program_t *program, const dt_kernel_t *kernel) {
  const dt_stage_t *stage = &kernel->stages.items[0];
  for (uint32_t k = 0; k < stage->insts.len; k++) {
    dt_inst_kind_t kind = stage->insts.items[k].kind;
    if (kind == DT_INST_BIND || kind == DT_INST_ROW || kind == DT_INST_RUNNING ||
        kind == DT_INST_SOUND || kind == DT_INST_WHOLE)
      return false;
  }
  for (uint32_t k = 0; k < stage->stores.len; k++)
    if (stage->stores.items[k].revises || stage->stores.items[k].whole)
      return false;
  return !dt__kernel_updates(program, kernel);
}

static dt_status_t take_scan(scan_t *s, bool *out) {
  const dt_kernel_t *kernel = s->kernel;
  *out = false;
  if (kernel->schedules.len || kernel->stages.len != 1 || kernel->slices || kernel->chain ||
      kernel->external || kernel->n_loops + 1 > DT_MAX_RANK || kernel->n_loops + 1 > DT_MAX_LOOPS)
    return NULL;
  s->stage = &kernel->stages.items[0];
  s->count = s->stage->reductions.len;
  if (s->stage->n_loops != 1 || !s->count || s->count > MOST_TUPLE ||
      !has_plain_body(s->program, kernel))
    return NULL;
  s->i = s->stage->vars[0];
  s->n = s->stage->extents[0];
  for (uint32_t k = 0; k < s->count; k++)
    if (!take_value(s, k))
      return NULL;
  return are_apart(s, out);
}

static bool has_floats(const scan_t *s) {
  for (uint32_t k = 0; k < s->count; k++)
    if (dt__dtype_is_float(s->stage->reductions.items[k].dtype))
      return true;
  return false;
}

// ---- Pieces ---------------------------------------------------------------------------------------
static dt_sym_t literal(const scan_t *s, int64_t value) {
  return dt__sym_const(s->program->env, value);
}

// The most that a block has: as few as keep the device busy, and as leave few blocks.
static dt_sym_t most_elements(const scan_t *s) {
  dt_symenv_t *env = s->program->env;
  dt_sym_t all = s->n;
  for (uint32_t v = 0; v < s->kernel->n_loops; v++)
    all = dt__sym_mul(env, all, s->kernel->extents[v]);
  dt_sym_t share = dt__sym_floordiv(env, all, literal(s, BUSY_ROWS));
  dt_sym_t least = dt__sym_ceildiv(env, s->n, literal(s, MOST_BLOCKS));
  return dt__sym_max(env, dt__sym_max(env, literal(s, LEAST_BLOCK), least), share);
}

// Blocks of one length, but for the last one.
static dt_sym_t block_length(const scan_t *s) {
  dt_symenv_t *env = s->program->env;
  dt_sym_t one = literal(s, 1), blocks = dt__sym_ceildiv(env, s->n, most_elements(s));
  return dt__sym_max(env, one, dt__sym_ceildiv(env, s->n, dt__sym_max(env, one, blocks)));
}

static dt_status_t add(const scan_t *s, dt_stage_t *stage, dt_inst_t inst, uint32_t *out) {
  if (inst.kind != DT_INST_SCALAR)
    inst.args[0] = inst.args[1] = inst.args[2] = DT_NO_INST;
  return dt__stage_add(s->program, stage, &inst, out);
}

static dt_status_t add_test(const scan_t *s, dt_stage_t *stage, dt_sym_t cond, uint32_t *out) {
  return add(s, stage,
             (dt_inst_t){.kind = DT_INST_INDEX, .dtype = DT_BOOL, .sym = cond, .mask = DT_NO_INST},
             out);
}

static dt_status_t add_where(const scan_t *s, dt_stage_t *stage, uint32_t test, uint32_t yes,
                             uint32_t no, uint32_t *out) {
  dt_inst_t where = {.kind = DT_INST_SCALAR,
                     .dtype = stage->insts.items[yes].dtype,
                     .op = DT_SCALAR_where,
                     .args = {test, yes, no},
                     .mask = DT_NO_INST};
  return add(s, stage, where, out);
}

// Element [at, rows…] of a buffer of one element a block and row.
static dt_status_t add_load(const scan_t *s, dt_stage_t *stage, dt_buffer_id_t buffer, dt_sym_t at,
                            uint32_t mask, uint32_t *out) {
  dt_sym_t index[DT_MAX_RANK] = {at};
  memcpy(index + 1, s->kernel->vars, s->kernel->n_loops * sizeof(*index));
  return add(s, stage,
             (dt_inst_t){.kind = DT_INST_LOAD,
                         .dtype = dt__program_buffer(s->program, buffer)->dtype,
                         .buffer = buffer,
                         .index = index,
                         .mask = mask},
             out);
}

static dt_status_t add_store(const scan_t *s, dt_stage_t *stage, dt_buffer_id_t buffer, dt_sym_t at,
                             uint32_t value) {
  dt_sym_t *index = DT_ARENA_ARRAY(s->program->arena, dt_sym_t, s->kernel->n_loops + 1);
  if (!index)
    return DT_NO_MEMORY();
  index[0] = at;
  memcpy(index + 1, s->kernel->vars, s->kernel->n_loops * sizeof(*index));
  dt_store_t store = {.buffer = buffer, .index = index, .value = value, .mask = DT_NO_INST};
  return DT_VEC_PUSH(s->program->arena, &stage->stores, store) ? NULL : DT_NO_MEMORY();
}

static dt_status_t add_last(const scan_t *s, dt_stage_t *stage, uint32_t k, uint32_t value) {
  dt_reduction_t last = s->stage->reductions.items[k];
  last.value = value;
  last.row = k;
  return DT_VEC_PUSH(s->program->arena, &stage->reductions, last) ? NULL : DT_NO_MEMORY();
}

static dt_status_t add_buffers(const scan_t *s, dt_buffer_id_t *out) {
  for (uint32_t k = 0; k < s->count; k++) {
    dt_buffer_t buffer = {.kind = DT_BUFFER_TEMP,
                          .dtype = s->stage->reductions.items[k].dtype,
                          .rank = s->kernel->n_loops + 1,
                          .sizes = {s->before}};
    memcpy(buffer.sizes + 1, s->kernel->extents, s->kernel->n_loops * sizeof(dt_sym_t));
    DT_TRY(dt__program_add_buffer(s->program, &buffer, &out[k]));
  }
  return NULL;
}

// A kernel over blocks, outermost, and rows.
static dt_kernel_t over_blocks(const scan_t *s, dt_sym_t blocks, dt_sym_t *out_block) {
  dt_kernel_t made = {.name = s->kernel->name,
                      .n_loops = s->kernel->n_loops + 1,
                      .section = s->kernel->section,
                      .n_rows = s->count};
  *out_block = made.vars[0] = dt__sym_new_loop(s->program->env, blocks);
  made.extents[0] = blocks;
  memcpy(made.vars + 1, s->kernel->vars, s->kernel->n_loops * sizeof(dt_sym_t));
  memcpy(made.extents + 1, s->kernel->extents, s->kernel->n_loops * sizeof(dt_sym_t));
  return made;
}

// ---- The three kernels ----------------------------------------------------------------------------
// What copies PRIORs: rows are numbered as values are, and where a block begins it may be what the
// blocks before it carried.
typedef struct from_t {
  const scan_t *s;
  uint32_t begins;              // an instruction, or DT_NO_INST: nothing is carried
  uint32_t carried[MOST_TUPLE]; // by value
} from_t;

static dt_status_t prior_of(dt_body_copy_t *copy, const dt_inst_t *inst, void *user,
                            uint32_t *out) {
  from_t *from = user;
  uint32_t k = place_in(from->s, from->s->row, inst->row), prior = 0;
  dt_inst_t own = *inst;
  own.row = k;
  DT_TRY(dt__stage_add(copy->program, copy->into, &own, &prior));
  *out = prior;
  if (from->begins == DT_NO_INST)
    return NULL;
  return add_where(from->s, copy->into, from->begins, from->carried[k], prior, out);
}

// t[b]: the body with the first element of the block as it is. Its blocks are whole.
static dt_status_t make_totals(scan_t *s, dt_kernel_t *out) {
  dt_symenv_t *env = s->program->env;
  dt_sym_t block, j = dt__sym_new_loop(env, s->length);
  *out = over_blocks(s, s->before, &block);
  dt_sym_t at = dt__sym_add(env, dt__sym_mul(env, block, s->length), j);
  dt_stage_t scan = {.n_loops = 1, .vars = {j}, .extents = {s->length}}, store = {0};
  from_t from = {.s = s, .begins = DT_NO_INST};
  dt_body_copy_t copy = {.program = s->program,
                         .into = &scan,
                         .from = s->stage,
                         .mask = DT_NO_INST,
                         .prior_hook = prior_of,
                         .user = &from};
  uint32_t first = 0;
  DT_TRY(dt__body_rename(&copy, s->i, at));
  DT_TRY(dt__body_copy(&copy));
  DT_TRY(add_test(s, &scan, dt__sym_eq(env, j, literal(s, 0)), &first));
  for (uint32_t k = 0; k < s->count; k++) {
    uint32_t value = 0, row = 0;
    DT_TRY(add_where(s, &scan, first, copy.map[s->element[k]], copy.map[s->joined[k]], &value));
    DT_TRY(add_last(s, &scan, k, value));
    DT_TRY(add(s, &store,
               (dt_inst_t){.kind = DT_INST_ROW,
                           .dtype = s->stage->reductions.items[k].dtype,
                           .row = k,
                           .mask = DT_NO_INST},
               &row));
    DT_TRY(add_store(s, &store, s->totals[k], block, row));
  }
  return DT_VEC_PUSH(s->program->arena, &out->stages, scan) &&
                 DT_VEC_PUSH(s->program->arena, &out->stages, store)
             ? NULL
             : DT_NO_MEMORY();
}

static bool *find_needed(const scan_t *s) {
  uint32_t n = s->stage->insts.len;
  bool *needed = DT_ARENA_ARRAY(s->program->arena, bool, (size_t)n + 1);
  for (uint32_t k = 0; needed && k < s->count; k++)
    needed[s->joined[k]] = true;
  for (uint32_t id = n; needed && id-- > 0;) {
    const dt_inst_t *inst = &s->stage->insts.items[id];
    for (int k = 0; needed[id] && place_in(s, s->element, id) == s->count && k < 4; k++) {
      uint32_t arg = k < 3 ? inst->args[k] : inst->mask;
      if (arg != DT_NO_INST)
        needed[arg] = true;
    }
  }
  return needed;
}

// What the f are made of, of these elements.
static dt_status_t copy_joined(const scan_t *s, dt_stage_t *to, const uint32_t *elements,
                               uint32_t **out_map) {
  uint32_t n = s->stage->insts.len;
  uint32_t *map = *out_map = DT_ARENA_ARRAY(s->program->arena, uint32_t, (size_t)n + 1);
  const bool *needed = find_needed(s);
  if (!map || !needed)
    return DT_NO_MEMORY();
  for (uint32_t id = 0; id < n; id++) {
    dt_inst_t inst = s->stage->insts.items[id];
    uint32_t k = place_in(s, s->element, id);
    if (k < s->count)
      map[id] = elements[k];
    if (!needed[id] || k < s->count)
      continue;
    for (int a = 0; a < 3; a++)
      inst.args[a] = inst.args[a] == DT_NO_INST ? DT_NO_INST : map[inst.args[a]];
    inst.mask = inst.mask == DT_NO_INST ? DT_NO_INST : map[inst.mask];
    if (inst.kind == DT_INST_PRIOR)
      inst.row = place_in(s, s->row, inst.row);
    DT_TRY(dt__stage_add(s->program, to, &inst, &map[id]));
  }
  return NULL;
}

// c[b]: a scan over the blocks.
static dt_status_t make_carried(scan_t *s, dt_kernel_t *out) {
  dt_symenv_t *env = s->program->env;
  dt_sym_t block = dt__sym_new_loop(env, s->before);
  dt_stage_t scan = {.n_loops = 1, .vars = {block}, .extents = {s->before}};
  uint32_t elements[MOST_TUPLE], first = 0;
  uint32_t *map = NULL;
  *out = (dt_kernel_t){.name = s->kernel->name,
                       .n_loops = s->kernel->n_loops,
                       .section = s->kernel->section,
                       .n_rows = s->count};
  memcpy(out->vars, s->kernel->vars, sizeof(out->vars));
  memcpy(out->extents, s->kernel->extents, sizeof(out->extents));
  for (uint32_t k = 0; k < s->count; k++)
    DT_TRY(add_load(s, &scan, s->totals[k], block, DT_NO_INST, &elements[k]));
  DT_TRY(add_test(s, &scan, dt__sym_eq(env, block, literal(s, 0)), &first));
  DT_TRY(copy_joined(s, &scan, elements, &map));
  for (uint32_t k = 0; k < s->count; k++) {
    uint32_t value = 0;
    DT_TRY(add_where(s, &scan, first, elements[k], map[s->joined[k]], &value));
    DT_TRY(add_store(s, &scan, s->carried[k], block, value));
    DT_TRY(add_last(s, &scan, k, value));
  }
  return DT_VEC_PUSH(s->program->arena, &out->stages, scan) ? NULL : DT_NO_MEMORY();
}

// h: the body from what is carried, of the elements that there are.
static dt_status_t make_rest(scan_t *s, dt_kernel_t *out) {
  dt_symenv_t *env = s->program->env;
  dt_sym_t block, j = dt__sym_new_loop(env, s->length);
  *out = over_blocks(s, s->blocks, &block);
  dt_sym_t at = dt__sym_add(env, dt__sym_mul(env, block, s->length), j);
  dt_stage_t scan = {.n_loops = 1, .vars = {j}, .extents = {s->length}};
  from_t from = {.s = s};
  dt_body_copy_t copy = {.program = s->program,
                         .into = &scan,
                         .from = s->stage,
                         .prior_hook = prior_of,
                         .user = &from};
  uint32_t follows = 0;
  DT_TRY(add_test(s, &scan, dt__sym_lt(env, at, s->n), &copy.mask));
  DT_TRY(add_test(s, &scan, dt__sym_eq(env, j, literal(s, 0)), &from.begins));
  DT_TRY(add_test(s, &scan, dt__sym_lt(env, literal(s, 0), block), &follows));
  for (uint32_t k = 0; k < s->count; k++)
    DT_TRY(add_load(s, &scan, s->carried[k], dt__sym_sub(env, block, literal(s, 1)), follows,
                    &from.carried[k]));
  DT_TRY(dt__body_rename(&copy, s->i, at));
  DT_TRY(dt__body_copy(&copy));
  for (uint32_t k = 0; k < s->count; k++)
    DT_TRY(add_last(s, &scan, k, copy.map[s->stage->reductions.items[k].value]));
  for (uint32_t k = 0; k < s->stage->stores.len; k++) {
    dt_store_t store = s->stage->stores.items[k];
    store.index =
        dt__body_exprs(&copy, store.index, dt__program_buffer(s->program, store.buffer)->rank);
    store.value = copy.map[store.value];
    DT_TRY(dt__body_and(&copy, store.mask == DT_NO_INST ? DT_NO_INST : copy.map[store.mask],
                        copy.mask, &store.mask));
    if (!store.index || !DT_VEC_PUSH(s->program->arena, &scan.stores, store))
      return DT_NO_MEMORY();
  }
  return DT_VEC_PUSH(s->program->arena, &out->stages, scan) ? NULL : DT_NO_MEMORY();
}

// ---- All of it ------------------------------------------------------------------------------------
typedef struct made_t {
  DT_VEC(dt_kernel_t) kernels;
} made_t;

static dt_status_t put(dt_program_t *program, made_t *made, const dt_kernel_t *kernel) {
  return DT_VEC_PUSH(program->arena, &made->kernels, *kernel) ? NULL : DT_NO_MEMORY();
}

static bool is_wanted(const scan_t *s, const dt_target_t *target) {
  int64_t size = 0;
  if (target->strict_fp && has_floats(s))
    return false;
  return !dt__sym_is_const(s->program->env, s->n, &size) || size >= 2 * LEAST_BLOCK;
}

static dt_status_t split(dt_program_t *program, const dt_kernel_t *kernel,
                         const dt_target_t *target, made_t *made) {
  scan_t s = {.program = program, .kernel = kernel};
  bool is_scan = false;
  int64_t before = 1;
  DT_TRY(take_scan(&s, &is_scan));
  if (!is_scan || !is_wanted(&s, target))
    return put(program, made, kernel);
  dt_symenv_t *env = program->env;
  dt_kernel_t totals, carried, rest;
  s.length = block_length(&s);
  s.before = dt__sym_floordiv(
      env, dt__sym_max(env, literal(&s, 0), dt__sym_sub(env, s.n, literal(&s, 1))), s.length);
  if (dt__sym_is_const(env, s.before, &before) && before == 0)
    return put(program, made, kernel); // one block
  s.blocks = dt__sym_ceildiv(env, s.n, s.length);
  DT_TRY(add_buffers(&s, s.totals));
  DT_TRY(add_buffers(&s, s.carried));
  DT_TRY(make_totals(&s, &totals));
  DT_TRY(make_carried(&s, &carried));
  DT_TRY(make_rest(&s, &rest));
  DT_LOG(DT_LOG_FUSION, 1, "%s: a scan in blocks", kernel->name);
  DT_TRY(put(program, made, &totals));
  DT_TRY(put(program, made, &carried));
  return put(program, made, &rest);
}

dt_status_t dt__split_scans(dt_program_t *program, const dt_target_t *target) {
  made_t made = {{0}};
  if (!dt__target_has_teams(target))
    return NULL;
  for (uint32_t k = 0; k < program->kernels.len; k++)
    DT_TRY(split(program, &program->kernels.items[k], target, &made));
  program->kernels.items = made.kernels.items;
  program->kernels.len = made.kernels.len;
  program->kernels.cap = made.kernels.cap;
  return dt__symenv_status(program->env);
}
