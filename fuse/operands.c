// SPDX-License-Identifier: Apache-2.0
// Operands of matrix products. If the target has a template for a reduction of a product, the
// product gets operands in the template's layout. A kernel of its own packs B into panels. It runs
// once if B is constant, and it takes in B's producers as its prologue. If A is made of constants
// alone and B is not, each tile packs B itself. A is copied only if its rows are not plain. The
// pass comes before those that join kernels, so that they see packing and copying kernels like any
// other.
#include "fuse/operands.h"

#include "fuse/body.h"
#include "fuse/codes.h"
#include "fuse/fuse.h"
#include "fuse/loops.h"
#include "fuse/matmul_rows.h"
#include "fuse/prune.h"
#include "fuse/winograd.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

// Register tiles of one task, in each direction. Measured by bench/bench_matmul.c, others, too:
// `scripts/bench matmul M N K TILE_ROWS TILE_COLS`.
#define TILE_PANELS 4
// The same where tasks pack their panels: more rows, for all of which a panel is packed once.
// `scripts/bench conv` (bench/bench_conv.c) measures them.
#define OWN_ROWS 16
#define OWN_PANELS 2
// Places of an image in a register tile, and hundredths of the time that a tile of one vector takes
// beside half of one of two: each place is loaded for half as many multiply-adds.
#define MOST_PLACES 14
#define NARROW_COST 110

static bool load_uses(dt_program_t *program, const dt_inst_t *load, dt_sym_t var) {
  return dt__index_uses(program, load->index, dt__program_buffer(program, load->buffer)->rank, var);
}

bool dt__extent_below(dt_program_t *program, dt_sym_t extent, int64_t limit) {
  return dt__sym_range(program->env, extent).hi < limit;
}

static bool uses_terms(dt_program_t *program, const dt_stage_t *stage, const dt_inst_t *load) {
  for (uint32_t v = 0; v < stage->n_loops; v++)
    if (!load_uses(program, load, stage->vars[v]))
      return false;
  return true;
}

static dt_sym_t all_terms(dt_program_t *program, const dt_stage_t *stage) {
  dt_sym_t all = stage->extents[0];
  for (uint32_t v = 1; v < stage->n_loops; v++)
    all = dt__sym_mul(program->env, all, stage->extents[v]);
  return all;
}

static bool mask_uses(dt_program_t *program, const dt_stage_t *stage, const dt_inst_t *load,
                      dt_sym_t var) {
  return load->mask != DT_NO_INST &&
         dt__sym_depends(program->env, stage->insts.items[load->mask].sym, var);
}

// What `load` and `other` lack to be A and B; NULL: they are.
static const char *roles_lack(dt_program_t *program, const dt_contraction_t *c,
                              const dt_inst_t *load, const dt_inst_t *other) {
  if (!uses_terms(program, c->stage, load) || !uses_terms(program, c->stage, other))
    return "what is summed does not move both operands";
  if (load_uses(program, load, c->n) || !load_uses(program, other, c->n))
    return "columns do not move one operand alone";
  if (mask_uses(program, c->stage, load, c->n) || mask_uses(program, c->stage, other, c->m))
    return "a mask moves with the other operand";
  bool one = dt__extent_below(program, c->kernel->extents[c->n_batch], 2);
  if ((!load_uses(program, load, c->m) && !one) || load_uses(program, other, c->m))
    return "rows do not move the other operand alone";
  return NULL;
}

bool dt__product_roles(dt_program_t *program, dt_kernel_t *kernel, dt_contraction_t *out,
                       const char **out_why) {
  uint32_t x = 0, y = 0;
  const char *why = NULL, *swapped = NULL;
  if (out_why)
    *out_why = NULL;
  if (!dt__kernel_is_product(kernel, &x, &y))
    return false;
  dt_stage_t *stage = &kernel->stages.items[0];
  *out = (dt_contraction_t){.kernel = kernel,
                            .stage = stage,
                            .m = kernel->vars[kernel->n_loops - 2],
                            .n = kernel->vars[kernel->n_loops - 1],
                            .k = stage->vars[stage->n_loops - 1],
                            .extent_n = kernel->extents[kernel->n_loops - 1],
                            .extent_k = all_terms(program, stage),
                            .n_batch = kernel->n_loops - 2};
  const dt_inst_t *insts = stage->insts.items;
  why = roles_lack(program, out, &insts[x], &insts[y]);
  if (why)
    swapped = roles_lack(program, out, &insts[y], &insts[x]);
  if (why && swapped) {
    if (out_why) // the one that has n is the nearer
      *out_why = load_uses(program, &insts[y], out->n) ? why : swapped;
    return false;
  }
  const dt_inst_t *product = &insts[stage->reductions.items[0].value];
  out->a = why ? y : x;
  out->b = why ? x : y;
  out->a_factor = product->args[why ? 1 : 0];
  out->b_factor = product->args[why ? 0 : 1];
  return true;
}

static bool is_sum(const dt_kernel_t *kernel) {
  return kernel->schedules.len == 0 && kernel->stages.len > 0 &&
         kernel->stages.items[0].reductions.len == 1 &&
         kernel->stages.items[0].reductions.items[0].kind == DT_REDUCE_SUM;
}

// The innermost loop before the last that moves one of two loads alone, of which the last loop
// moves the other alone; n_loops: there is none.
static uint32_t find_rows(dt_program_t *program, const dt_kernel_t *kernel, const dt_inst_t *a,
                          const dt_inst_t *b) {
  uint32_t n = kernel->n_loops - 1;
  if (load_uses(program, a, kernel->vars[n])) {
    const dt_inst_t *other = a;
    a = b;
    b = other;
  }
  if (load_uses(program, a, kernel->vars[n]) || !load_uses(program, b, kernel->vars[n]))
    return kernel->n_loops;
  for (uint32_t v = n; v-- > 0;)
    if (load_uses(program, a, kernel->vars[v]) && !load_uses(program, b, kernel->vars[v]))
      return v;
  return kernel->n_loops;
}

// A loop over one row in front of the last loop.
static dt_status_t add_row(dt_program_t *program, dt_kernel_t *kernel) {
  uint32_t at = kernel->n_loops - 1;
  kernel->vars[at + 1] = kernel->vars[at];
  kernel->extents[at + 1] = kernel->extents[at];
  kernel->extents[at] = dt__sym_const(program->env, 1);
  kernel->vars[at] = dt__sym_new_loop(program->env, kernel->extents[at]);
  kernel->n_loops++;
  return dt__symenv_status(program->env);
}

dt_status_t dt__contraction_loops(dt_program_t *program, dt_kernel_t *kernel, bool one_row) {
  uint32_t x = 0, y = 0;
  if (!is_sum(kernel) || dt__stage_in_order(&kernel->stages.items[0]))
    return NULL;
  DT_TRY(dt__drop_unit_loops(program, kernel));
  if (kernel->n_loops == 0 || !dt__stage_is_contraction(&kernel->stages.items[0], &x, &y))
    return NULL;
  const dt_inst_t *insts = kernel->stages.items[0].insts.items;
  uint32_t m = find_rows(program, kernel, &insts[x], &insts[y]);
  if (m < kernel->n_loops)
    dt__kernel_move_loop(kernel, m, kernel->n_loops - 2);
  else if (one_row && kernel->n_loops < DT_MAX_LOOPS)
    return add_row(program, kernel);
  return NULL;
}

bool dt__contraction_roles(dt_program_t *program, dt_kernel_t *kernel, dt_contraction_t *out,
                           const char **out_why) {
  uint32_t x = 0, y = 0;
  if (out_why)
    *out_why = NULL;
  return dt__kernel_is_contraction(kernel, &x, &y) &&
         dt__product_roles(program, kernel, out, out_why);
}

// A is read in place when a step in k is one element and it moves linearly in m and the batch
// loops.
static bool rows_are_plain(dt_program_t *program, const dt_contraction_t *c) {
  const dt_inst_t *a = &c->stage->insts.items[c->a];
  if (a->mask != DT_NO_INST)
    return false;
  dt_sym_t offset = dt__buffer_offset(program, a->buffer, a->index), coef, rest;
  int64_t step = 0;
  if (!dt__sym_linear(program->env, offset, c->k, &coef, &rest) ||
      !dt__sym_is_const(program->env, coef, &step) || step != 1)
    return false;
  for (uint32_t v = 0; v + 1 < c->kernel->n_loops; v++) {
    if (!dt__sym_linear(program->env, rest, c->kernel->vars[v], &coef, &rest))
      return false;
  }
  return true;
}

// A's rows may lie anywhere, if each is runs of neighbours along the last of k's loops: tiles copy
// them.
static bool rows_are_runs(dt_program_t *program, const dt_contraction_t *c) {
  const dt_inst_t *a = &c->stage->insts.items[c->a];
  dt_sym_t rest = dt__buffer_offset(program, a->buffer, a->index), coef = rest;
  int64_t step = 0;
  for (uint32_t v = 0; v < c->stage->n_loops; v++)
    if (!dt__sym_linear(program->env, rest, c->stage->vars[v], &coef, &rest))
      return false;
  return a->mask == DT_NO_INST && dt__sym_is_const(program->env, coef, &step) && step == 1;
}

// A map kernel that stores `factor`, taken from the contraction's body, into `into` at its own
// loops.
typedef struct operand_kernel_t {
  uint32_t n_loops;
  dt_sym_t vars[DT_MAX_LOOPS], extents[DT_MAX_LOOPS];
  uint32_t n_renames;
  dt_sym_t from[DT_MAX_LOOPS], to[DT_MAX_LOOPS];
  dt_sym_t condition; // loads are masked by it; none: no mask
  uint32_t inner;     // this loop, by 1 + its number, runs inside of all others; 0: none
} operand_kernel_t;

static void set_loops(const operand_kernel_t *shape, dt_kernel_t *kernel, dt_stage_t *stage) {
  for (uint32_t v = 0; v < shape->n_loops; v++) {
    bool inside = v + 1 == shape->inner;
    uint32_t *n = inside ? &stage->n_loops : &kernel->n_loops;
    (inside ? stage->vars : kernel->vars)[*n] = shape->vars[v];
    (inside ? stage->extents : kernel->extents)[(*n)++] = shape->extents[v];
  }
}

static dt_status_t add_operand_kernel(dt_program_t *program, const dt_contraction_t *c,
                                      uint32_t factor, const operand_kernel_t *shape,
                                      dt_buffer_id_t into, const char *name, dt_kernel_t *out) {
  memset(out, 0, sizeof(*out));
  out->name = name;
  dt_stage_t stage = {0}, source = {0};
  set_loops(shape, out, &stage);
  // What it needs, a mask and a fill value perhaps, are the instructions up to it.
  source.insts.items = c->stage->insts.items;
  source.insts.len = factor + 1;
  dt_body_copy_t copy = {.program = program, .into = &stage, .from = &source, .mask = DT_NO_INST};
  for (uint32_t v = 0; v < shape->n_renames; v++)
    DT_TRY(dt__body_rename(&copy, shape->from[v], shape->to[v]));
  if (shape->condition.id) {
    dt_inst_t mask = {.kind = DT_INST_INDEX,
                      .dtype = DT_BOOL,
                      .args = {DT_NO_INST, DT_NO_INST, DT_NO_INST},
                      .mask = DT_NO_INST,
                      .sym = shape->condition};
    DT_TRY(dt__stage_add(program, &stage, &mask, &copy.mask));
  }
  DT_TRY(dt__body_copy(&copy));
  dt_sym_t *index = DT_ARENA_ARRAY(program->arena, dt_sym_t, shape->n_loops);
  if (!index)
    return DT_NO_MEMORY();
  memcpy(index, shape->vars, shape->n_loops * sizeof(*index));
  dt_store_t store = {
      .buffer = into, .index = index, .value = copy.map[factor], .mask = DT_NO_INST};
  if (!DT_VEC_PUSH(program->arena, &stage.stores, store))
    return DT_NO_MEMORY();
  DT_TRY(dt__prune_stage(program, &stage)); // the other operand's load came along
  return DT_VEC_PUSH(program->arena, &out->stages, stage) ? NULL : DT_NO_MEMORY();
}

static dt_status_t shape_add_loop(dt_program_t *program, operand_kernel_t *shape, dt_sym_t extent,
                                  dt_sym_t replaces, dt_sym_t *out_var) {
  dt_sym_t var = dt__sym_new_loop(program->env, extent);
  shape->vars[shape->n_loops] = var;
  shape->extents[shape->n_loops++] = extent;
  if (replaces.id) {
    shape->from[shape->n_renames] = replaces;
    shape->to[shape->n_renames++] = var;
  }
  *out_var = var;
  return dt__symenv_status(program->env);
}

// Whether what `load` reads depends on batch loop v. One that runs at most once is no part of any
// place, but a buffer that may be empty is read only where the loop does run.
static bool runs_with(dt_program_t *program, const dt_contraction_t *c, const dt_inst_t *load,
                      uint32_t v) {
  if (load_uses(program, load, c->kernel->vars[v]))
    return true;
  const dt_buffer_t *buffer = dt__program_buffer(program, load->buffer);
  dt_range_t times = dt__sym_range(program->env, c->kernel->extents[v]);
  for (uint32_t d = 0; d < buffer->rank && times.lo < 1 && times.hi < 2; d++)
    if (dt__sym_range(program->env, buffer->sizes[d]).lo < 1)
      return true;
  return false;
}

// Loops for the batch loops that `load` depends on; `index` receives them as the contraction sees
// them.
static dt_status_t shape_add_batch(dt_program_t *program, const dt_contraction_t *c,
                                   const dt_inst_t *load, operand_kernel_t *shape,
                                   dt_buffer_t *buffer, dt_sym_t *index) {
  for (uint32_t v = 0; v < c->n_batch; v++) {
    if (!runs_with(program, c, load, v))
      continue;
    dt_sym_t var;
    index[buffer->rank] = c->kernel->vars[v];
    buffer->sizes[buffer->rank++] = c->kernel->extents[v];
    DT_TRY(shape_add_loop(program, shape, c->kernel->extents[v], c->kernel->vars[v], &var));
  }
  return NULL;
}

// Batch dims of the packed or copied operand plus `extra` dims must fit a buffer's rank.
static bool rank_fits(dt_program_t *program, const dt_contraction_t *c, const dt_inst_t *load,
                      uint32_t extra) {
  uint32_t rank = extra;
  for (uint32_t v = 0; v < c->n_batch; v++)
    rank += runs_with(program, c, load, v);
  return rank <= DT_MAX_RANK;
}

static dt_status_t replace_factor(dt_program_t *program, const dt_contraction_t *c, uint32_t factor,
                                  dt_buffer_id_t buffer, const dt_sym_t *index, uint32_t rank) {
  dt_sym_t *copy = DT_ARENA_ARRAY(program->arena, dt_sym_t, rank);
  if (!copy)
    return DT_NO_MEMORY();
  memcpy(copy, index, rank * sizeof(*copy));
  dt_inst_t *inst = &c->stage->insts.items[factor];
  inst->kind = DT_INST_LOAD;
  inst->buffer = buffer;
  inst->index = copy;
  inst->mask = DT_NO_INST;
  inst->args[0] = DT_NO_INST;
  return NULL;
}

// A copy of `factor`, what `load` reads or its cast, over the batch loops and two more.
static dt_status_t copy_factor(dt_program_t *program, const dt_contraction_t *c, uint32_t factor,
                               uint32_t from, const dt_sym_t vars[2], const dt_sym_t extents[2],
                               const char *name, dt_kernel_t *out) {
  dt_inst_t load = c->stage->insts.items[from];
  operand_kernel_t shape = {0};
  dt_buffer_t buffer = {.kind = DT_BUFFER_TEMP, .dtype = c->stage->insts.items[factor].dtype};
  dt_sym_t index[DT_MAX_RANK], var;
  DT_TRY(shape_add_batch(program, c, &load, &shape, &buffer, index));
  for (uint32_t d = 0; d < 2; d++) {
    index[buffer.rank] = vars[d];
    buffer.sizes[buffer.rank++] = extents[d];
    DT_TRY(shape_add_loop(program, &shape, extents[d], vars[d], &var));
  }
  dt_buffer_id_t id;
  DT_TRY(dt__program_add_buffer(program, &buffer, &id));
  DT_TRY(add_operand_kernel(program, c, factor, &shape, id, name, out));
  return replace_factor(program, c, factor, id, index, buffer.rank);
}

// Words are of the elements as they are; else they are cast on the way.
static dt_status_t copy_rows(dt_program_t *program, const dt_contraction_t *c, bool words,
                             dt_kernel_t *out) {
  const dt_sym_t vars[2] = {c->m, c->k};
  const dt_sym_t extents[2] = {c->kernel->extents[c->n_batch], c->extent_k};
  return copy_factor(program, c, words ? c->a : c->a_factor, c->a, vars, extents, "rows", out);
}

// An integer of 8 bits that is cast where it is multiplied.
static bool is_small(const dt_contraction_t *c, uint32_t load, uint32_t factor) {
  return load != factor && dt_dtype_size(c->stage->insts.items[load].dtype) == 1;
}

dt_status_t dt__contraction_widen(dt_program_t *program, const dt_contraction_t *c,
                                  dt_kernel_t *before, uint32_t *n_before) {
  dt_sym_t extent_m = c->kernel->extents[c->n_batch];
  const dt_sym_t a[2] = {c->m, c->k}, of_a[2] = {extent_m, c->extent_k};
  const dt_sym_t b[2] = {c->k, c->n}, of_b[2] = {c->extent_k, c->extent_n};
  bool small_a = is_small(c, c->a, c->a_factor), small_b = is_small(c, c->b, c->b_factor);
  if (small_a)
    DT_TRY(copy_factor(program, c, c->a_factor, c->a, a, of_a, "rows", &before[(*n_before)++]));
  if (small_b)
    DT_TRY(copy_factor(program, c, c->b_factor, c->b, b, of_b, "columns", &before[(*n_before)++]));
  return small_a || small_b ? dt__prune_stage(program, c->stage) : NULL;
}

// Where a column's place takes divisions to find, as for windows, it is found once for all of k.
static bool moves_linearly(dt_program_t *program, const dt_inst_t *load, dt_sym_t var) {
  dt_sym_t coef, rest, offset = dt__buffer_offset(program, load->buffer, load->index);
  return dt__sym_linear(program->env, offset, var, &coef, &rest);
}

static bool is_multiple(dt_symenv_t *env, dt_sym_t extent, dt_sym_t of) {
  return dt__sym_known_eq(env, dt__sym_mod(env, extent, of), dt__sym_const(env, 0));
}

// What loops of the contraction count, `v`, `extent` times, in blocks of `by`: a dim and a loop of
// blocks now; `whole` is the expression that, with the loop within a block, it becomes.
typedef struct blocked_t {
  dt_sym_t v, extent, by, block, within, whole;
} blocked_t;

static dt_status_t add_blocks(dt_program_t *program, operand_kernel_t *shape, dt_buffer_t *buffer,
                              dt_sym_t *index, blocked_t *d) {
  dt_symenv_t *env = program->env;
  dt_sym_t blocks = dt__sym_ceildiv(env, d->extent, d->by);
  index[buffer->rank] = dt__sym_floordiv(env, d->v, d->by);
  buffer->sizes[buffer->rank++] = blocks;
  return shape_add_loop(program, shape, blocks, DT_SYM_NONE_ID, &d->block);
}

// The dim and the loop within a block. Where the last block may have a rest, loads are masked.
static dt_status_t add_within(dt_program_t *program, operand_kernel_t *shape, dt_buffer_t *buffer,
                              dt_sym_t *index, blocked_t *d) {
  dt_symenv_t *env = program->env;
  index[buffer->rank] = dt__sym_mod(env, d->v, d->by);
  buffer->sizes[buffer->rank++] = d->by;
  DT_TRY(shape_add_loop(program, shape, d->by, DT_SYM_NONE_ID, &d->within));
  d->whole = dt__sym_add(env, dt__sym_mul(env, d->block, d->by), d->within);
  dt_sym_t inside = dt__sym_lt(env, d->whole, d->extent);
  if (!is_multiple(env, d->extent, d->by))
    shape->condition = shape->condition.id ? dt__sym_and(env, shape->condition, inside) : inside;
  return NULL;
}

// The same as two: the place in a vector of `lanes`, and which of the two vectors.
static dt_status_t add_pairs(dt_program_t *program, operand_kernel_t *shape, dt_buffer_t *buffer,
                             dt_sym_t *index, blocked_t *d, uint32_t lanes) {
  dt_symenv_t *env = program->env;
  dt_sym_t n = dt__sym_const(env, lanes), two = dt__sym_const(env, 2), lane, vector;
  dt_sym_t within = dt__sym_mod(env, d->v, d->by);
  index[buffer->rank] = dt__sym_mod(env, within, n);
  buffer->sizes[buffer->rank++] = n;
  DT_TRY(shape_add_loop(program, shape, n, DT_SYM_NONE_ID, &lane));
  index[buffer->rank] = dt__sym_floordiv(env, within, n);
  buffer->sizes[buffer->rank++] = two;
  DT_TRY(shape_add_loop(program, shape, two, DT_SYM_NONE_ID, &vector));
  d->within = dt__sym_add(env, dt__sym_mul(env, vector, n), lane);
  d->whole = dt__sym_add(env, dt__sym_mul(env, d->block, d->by), d->within);
  if (!is_multiple(env, d->extent, d->by))
    shape->condition = dt__sym_lt(env, d->whole, d->extent);
  return NULL;
}

static void rename_to(operand_kernel_t *shape, dt_sym_t from, dt_sym_t to) {
  shape->from[shape->n_renames] = from;
  shape->to[shape->n_renames++] = to;
}

// What the stage's loops count together.
static dt_sym_t number_of_term(dt_program_t *program, const dt_stage_t *stage) {
  dt_symenv_t *env = program->env;
  dt_sym_t all = stage->vars[0];
  for (uint32_t v = 1; v < stage->n_loops; v++)
    all = dt__sym_add(env, dt__sym_mul(env, all, stage->extents[v]), stage->vars[v]);
  return all;
}

// The stage's loops as the digits of `all`.
static void rename_terms(dt_program_t *program, const dt_stage_t *stage, dt_sym_t all,
                         operand_kernel_t *shape) {
  for (uint32_t v = stage->n_loops; v-- > 0;) {
    rename_to(shape, stage->vars[v], v ? dt__sym_mod(program->env, all, stage->extents[v]) : all);
    all = dt__sym_floordiv(program->env, all, stage->extents[v]);
  }
}

// [batch…, n // width, k, n % width], or, of words, [batch…, n // width, k // 4, n % width, k % 4].
// `factor`: what is packed, the load or its cast. With `pairs`, vectors of so many lanes, two of
// which are a panel's row: [batch…, n // width, k, n % lanes, n % width // lanes].
static dt_status_t pack_columns(dt_program_t *program, const dt_contraction_t *c, uint32_t width,
                                uint32_t k_step, uint32_t factor, uint32_t pairs,
                                dt_kernel_t *out) {
  dt_symenv_t *env = program->env;
  dt_inst_t load = c->stage->insts.items[c->b];
  bool words = k_step > 1;
  operand_kernel_t shape = {0};
  dt_buffer_t buffer = {.kind = DT_BUFFER_TEMP, .dtype = c->stage->insts.items[factor].dtype};
  dt_sym_t index[DT_MAX_RANK], var;
  blocked_t n = {.v = c->n, .extent = c->extent_n, .by = dt__sym_const(env, width)};
  blocked_t k = {.v = number_of_term(program, c->stage),
                 .extent = c->extent_k,
                 .by = dt__sym_const(env, k_step)};
  DT_TRY(shape_add_batch(program, c, &load, &shape, &buffer, index));
  DT_TRY(add_blocks(program, &shape, &buffer, index, &n));
  if (words) {
    DT_TRY(add_blocks(program, &shape, &buffer, index, &k));
  } else {
    for (uint32_t v = 0; v < c->stage->n_loops; v++) {
      index[buffer.rank] = c->stage->vars[v];
      buffer.sizes[buffer.rank++] = c->stage->extents[v];
      DT_TRY(shape_add_loop(program, &shape, c->stage->extents[v], c->stage->vars[v], &var));
    }
    if (!moves_linearly(program, &load, c->n))
      shape.inner = shape.n_loops;
  }
  if (pairs)
    DT_TRY(add_pairs(program, &shape, &buffer, index, &n, pairs));
  else
    DT_TRY(add_within(program, &shape, &buffer, index, &n));
  rename_to(&shape, c->n, n.whole);
  if (words) {
    DT_TRY(add_within(program, &shape, &buffer, index, &k));
    rename_terms(program, c->stage, k.whole, &shape);
  }
  dt_buffer_id_t id;
  DT_TRY(dt__program_add_buffer(program, &buffer, &id));
  DT_TRY(add_operand_kernel(program, c, factor, &shape, id, "pack", out));
  return replace_factor(program, c, factor, id, index, buffer.rank);
}

const char *dt__contraction_refusal(dt_program_t *program, const dt_contraction_t *c,
                                    int64_t least_terms) {
  // A loop that never runs has no address that moves with it.
  for (uint32_t v = 0; v < c->kernel->n_loops; v++)
    if (dt__extent_below(program, c->kernel->extents[v], 1))
      return "it has no elements";
  if (dt__extent_below(program, c->extent_k, least_terms))
    return least_terms > 1 ? "it is a sum of at most one product" : "it is a sum of nothing";
  if (dt__extent_below(program, c->extent_n, 4))
    return "fewer than 4 columns";
  return NULL;
}

// A product with few columns, or one row of which B would be packed for this call only, is cheaper
// as plain loops.
static const char *refusal(dt_program_t *program, const dt_fixed_t *fixed,
                           const dt_contraction_t *c, bool words) {
  const dt_inst_t *a = &c->stage->insts.items[c->a], *b = &c->stage->insts.items[c->b];
  // Where there is one term at most there is no step from one to the next.
  const char *why = dt__contraction_refusal(program, c, 2);
  if (why)
    return why;
  if (!dt__is_fixed(program, fixed, b->buffer) &&
      dt__extent_below(program, c->kernel->extents[c->n_batch], 2))
    return "one row times a matrix that is not constant";
  if (!rank_fits(program, c, a, 2) || !rank_fits(program, c, b, words ? 4 : 3 + c->stage->n_loops))
    return "too many batch dims to pack";
  return NULL;
}

// Each term of B's place depends on the column or on k, but not on both: then a panel's lanes move
// together, and loads find out where they are neighbours.
static bool columns_move_together(dt_program_t *program, const dt_contraction_t *c) {
  const dt_inst_t *b = &c->stage->insts.items[c->b];
  dt_symenv_t *env = program->env;
  dt_sym_t offset = dt__buffer_offset(program, b->buffer, b->index);
  dt_sym_view_t view = dt__sym_view(env, offset);
  if (view.op != DT_SYM_ADD)
    return false;
  for (uint32_t i = 0; i < view.n_args; i++) {
    dt_sym_t term = dt__sym_view(env, offset).args[i];
    if (dt__sym_depends(env, term, c->n) && dt__sym_depends(env, term, c->k))
      return false;
  }
  return true;
}

// Weights, or what is made of weights alone, times what a call computes, as in convolutions:
// packing B for all tiles at once would write and read more than it saves.
static bool tiles_pack(dt_program_t *program, const dt_fixed_t *fixed, const dt_contraction_t *c,
                       bool words) {
  const dt_inst_t *a = &c->stage->insts.items[c->a], *b = &c->stage->insts.items[c->b];
  return dt__is_fixed(program, fixed, a->buffer) &&
         dt__program_buffer(program, b->buffer)->kind != DT_BUFFER_CONSTANT &&
         b->mask == DT_NO_INST && (words || c->b == c->b_factor) &&
         columns_move_together(program, c);
}

// The register tile, and how many of them a task has in each direction.
static void set_tile(const dt_target_t *target, uint32_t tile, bool own, dt_matmul_t *out) {
  out->width = target->matmul_width[tile];
  out->rows = target->matmul_rows[tile];
  out->tile_rows = (own ? OWN_ROWS : TILE_PANELS) * out->rows;
  out->tile_cols = (own ? OWN_PANELS : TILE_PANELS) * out->width;
  out->own_panels = own;
}

// Columns that panels of `width` have room for.
static int64_t room(int64_t columns, int64_t width) {
  return (columns + width - 1) / width * width;
}

// The same where rows are places of an image: tall tiles, of one vector where two would be mostly
// empty in the last panel.
static void set_tile_of_places(dt_program_t *program, const dt_contraction_t *c, uint32_t lanes,
                               const dt_target_t *target, dt_matmul_t *out) {
  int64_t columns = 0;
  uint32_t vectors = out->width / lanes;
  if (vectors > 1 && dt__sym_is_const(program->env, c->extent_n, &columns) &&
      NARROW_COST * room(columns, lanes) <= 100 * room(columns, out->width))
    vectors = 1;
  uint32_t rows = (target->vector_registers - vectors - 1) / vectors;
  out->width = vectors * lanes;
  out->rows = rows < MOST_PLACES ? rows : MOST_PLACES;
  out->tile_rows = TILE_PANELS * out->rows;
}

static dt_status_t add_schedule(dt_program_t *program, const dt_contraction_t *c, uint32_t lanes,
                                dt_matmul_t matmul) {
  dt_schedule_t schedule = {
      .kind = DT_SCHEDULE_MATMUL, .lanes = lanes, .unroll = 1, .grain = 1, .matmul = matmul};
  return DT_VEC_PUSH(program->arena, &c->kernel->schedules, schedule) ? NULL : DT_NO_MEMORY();
}

// What takes are to be made into, and why not.
static const char *refusal_of_terms(dt_program_t *program, const dt_fixed_t *fixed,
                                    const dt_contraction_t *c, bool words, bool runs) {
  const char *why = refusal(program, fixed, c, words);
  if (!why && c->stage->n_loops > 1 && !runs)
    why = "it sums over several loops";
  return why;
}

// Weights of halves are packed as they are, and read at their bytes: micro-kernels widen them.
static bool stays_half(const dt_program_t *program, const dt_target_t *target,
                       const dt_fixed_t *fixed, const dt_contraction_t *c) {
  const dt_inst_t *b = &c->stage->insts.items[c->b];
  return c->b != c->b_factor && dt__is_fixed(program, fixed, b->buffer) &&
         (b->dtype == DT_BF16 || (b->dtype == DT_F16 && target->half_convert));
}

// Integers of 8 bits are taken as they are where there is a row for them, else what they are cast
// to.
static const dt_matmul_row_t *find_row(const dt_target_t *target, const dt_contraction_t *c,
                                       const char **why) {
  const dt_inst_t *insts = c->stage->insts.items;
  dt_dtype_t sum = c->stage->reductions.items[0].dtype;
  const dt_matmul_row_t *row = NULL;
  if (is_small(c, c->a, c->a_factor) && is_small(c, c->b, c->b_factor))
    row = dt__matmul_row(target, insts[c->a].dtype, insts[c->b].dtype, sum, why);
  return row ? row
             : dt__matmul_row(target, insts[c->a_factor].dtype, insts[c->b_factor].dtype, sum, why);
}

typedef struct facts_t {
  dt_fixed_t fixed;
  dt_access_t access;
} facts_t;

static dt_status_t take(dt_program_t *program, const void *with, dt_kernel_t *kernel,
                        const dt_target_t *target, dt_kernel_t *before, uint32_t *n_before) {
  const facts_t *facts = with;
  const dt_fixed_t *fixed = &facts->fixed;
  dt_contraction_t c;
  const dt_matmul_row_t *row = NULL;
  const char *why = NULL;
  bool runs = false, words = false;
  *n_before = 0;
  DT_TRY(dt__contraction_loops(program, kernel, true));
  if (dt__product_roles(program, kernel, &c, &why)) {
    row = find_row(target, &c, &why);
    words = row && row->body == DT_MATMUL_BODY_dot;
    runs = (words || !is_small(&c, c.a, c.a_factor)) &&
           dt__is_fixed(program, fixed, c.stage->insts.items[c.b].buffer) &&
           rows_are_runs(program, &c);
    if (row)
      why = refusal_of_terms(program, fixed, &c, words, runs);
  }
  if (why)
    DT_LOG(DT_LOG_FUSION, 1, "%s: no matrix template for sums of %s: %s", kernel->name,
           dt_dtype_name(kernel->stages.items[0].reductions.items[0].dtype), why);
  if (why || !row)
    return NULL;
  dt_dtype_t sum = c.stage->reductions.items[0].dtype;
  uint32_t lanes = target->vector_bytes / (uint32_t)dt_dtype_size(sum);
  dt_matmul_t matmul = {0};
  set_tile(target, row->tile, c.stage->n_loops == 1 && tiles_pack(program, fixed, &c, words),
           &matmul);
  if (!matmul.own_panels && dt__is_fixed(program, fixed, c.stage->insts.items[c.b].buffer)) {
    const dt_codes_ctx_t codes = {
        .target = target, .access = &facts->access, .width = matmul.width};
    bool taken = false;
    DT_TRY(dt__take_codes(program, &codes, &c, &matmul, before, n_before, &taken));
    if (taken)
      return add_schedule(program, &c, lanes, matmul);
    DT_TRY(dt__read_halves(program, &facts->access, &c));
  }
  bool plain = rows_are_plain(program, &c) && (words || !is_small(&c, c.a, c.a_factor));
  const dt_inst_t *a = &c.stage->insts.items[c.a];
  if (runs && (!plain || dt__program_buffer(program, a->buffer)->layout)) {
    bool taken = false;
    set_tile_of_places(program, &c, lanes, target, &matmul);
    DT_TRY(dt__take_winograd(program, target, &c, lanes, &matmul, before, n_before, &taken));
    if (taken)
      return NULL;
  } else if (!plain) {
    DT_TRY(copy_rows(program, &c, words, &before[(*n_before)++]));
  }
  if (!matmul.own_panels) {
    bool half = !words && stays_half(program, target, fixed, &c);
    bool pairs = half && c.stage->insts.items[c.b].dtype == DT_BF16 && matmul.width == 2 * lanes;
    DT_TRY(pack_columns(program, &c, matmul.width, row->k_step, words || half ? c.b : c.b_factor,
                        pairs ? lanes : 0, &before[(*n_before)++]));
  }
  DT_TRY(dt__prune_stage(program, c.stage)); // loads whose casts are replaced
  if (!dt__product_roles(program, kernel, &c, NULL))
    return DT_FAIL(DT_E_INTERNAL, "fuse: %s lost its matrix form", kernel->name);
  DT_TRY(dt__merge_inner_loops(program, c.stage, words ? c.b : DT_NO_INST));
  matmul.a = c.a;
  matmul.b = c.b;
  DT_TRY(add_schedule(program, &c, lanes, matmul));
  return dt__symenv_status(program->env);
}

dt_status_t dt__operands_each(dt_program_t *program, const dt_target_t *target,
                              dt_operands_fn_t take_one, const void *with) {
  DT_VEC(dt_kernel_t) kernels = {0};
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    dt_kernel_t before[DT_CODES_BEFORE];
    uint32_t n_before = 0;
    DT_TRY(take_one(program, with, &program->kernels.items[k], target, before, &n_before));
    for (uint32_t b = 0; b < n_before; b++)
      if (!DT_VEC_PUSH(program->arena, &kernels, before[b]))
        return DT_NO_MEMORY();
    if (!DT_VEC_PUSH(program->arena, &kernels, program->kernels.items[k]))
      return DT_NO_MEMORY();
  }
  program->kernels.items = kernels.items;
  program->kernels.len = kernels.len;
  program->kernels.cap = kernels.cap;
  return dt__symenv_status(program->env);
}

dt_status_t dt__fuse_operands(dt_program_t *program, const dt_target_t *target) {
  if (dt__target_has_teams(target))
    return dt__operands_device(program, target);
  facts_t facts;
  DT_TRY(dt__find_fixed(program, &facts.fixed));
  DT_TRY(dt__access_build(program, &facts.access));
  return dt__operands_each(program, target, take, &facts);
}
