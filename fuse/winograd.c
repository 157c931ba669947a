// SPDX-License-Identifier: Apache-2.0
// Winograd's F(2 x 2, 3 x 3) (dt_target_t.fast_conv). Four places of the result, 2 x 2, are made of
// a square of 4 x 4 places of x with 16 multiplications for each pair of channels, where sums over
// windows take 36:
//
//   V = T d T',  U = G w G',  M[r, s] = sum over c of V[r, s, c] U[r, s, c],  result = S M S'
//
//       | 1  0 -1  0 |       | 1    0    0  |
//   T = | 0  1  1  0 |   G = | 1/2  1/2 1/2 |   S = | 1  1  1  0 |
//       | 0 -1  1  0 |       | 1/2 -1/2 1/2 |       | 0  1 -1 -1 |
//       | 0  1  0 -1 |       | 0    0    1  |
//
// The kernel stays the sum over windows that it is, of weights that are made of U again,
//
//   outer n, p, k   sum over dy, dx, c   x[n, c, p // W + dy, p % W + dx] * w(U, dy, dx, c, k)
//
// with w in the middle of a row of three the difference of two of U's. Its schedule says that code
// may make V and M of a tile instead, which differs in rounding alone, and makes whatever is not
// finite by the sum itself. U is made once.
#include "fuse/winograd.h"

#include "fuse/body.h"
#include "fuse/loops.h"
#include "fuse/prune.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

// What transforming costs is shared by the channels on the other side. U, of 64 bytes for each pair
// of channels, is 16/9 of the weights: where it leaves the second-level cache long before all
// places are made, there must be many of them. `scripts/bench cpu` measures these numbers.
#define LEAST_CHANNELS 32
#define MANY_PAIRS (256 * 256)
#define MOST_PAIRS (512 * 512)
#define MANY_PLACES 128
#define CHANNEL_UNIT 16 // lanes of any target
#define TILE_SQUARES 28 // squares of a tile, about
#define SIDE 4          // of a square

// Where A's load moves along the image.
typedef struct image_t {
  uint32_t down, across;     // dims
  uint32_t rows, cols;       // loops of the sum that move them
  dt_sym_t width;            // places of a row
  int64_t channels, columns; // of the sum, of the result
} image_t;

// ---- What is taken --------------------------------------------------------------------------------

// `e` is a place's row or column, and a literal.
static bool is_place(dt_symenv_t *env, dt_sym_t e, dt_sym_t m, dt_sym_op_t op, dt_sym_t *width) {
  dt_sym_view_t view = dt__sym_view(env, e);
  if (view.op == DT_SYM_ADD && view.n_args == 2) {
    dt_sym_t a = view.args[0], b = view.args[1];
    if (dt__sym_is_const(env, a, NULL))
      view = dt__sym_view(env, b);
    else if (dt__sym_is_const(env, b, NULL))
      view = dt__sym_view(env, a);
  }
  if (view.op != op || view.n_args != 2 || view.args[0].id != m.id)
    return false;
  *width = view.args[1];
  return true;
}

// The dim whose index is row (or column) `op` of the place, moved by one loop of the sum by ones.
static bool find_dim(dt_program_t *program, const dt_contraction_t *c, dt_sym_op_t op,
                     uint32_t *out_dim, uint32_t *out_loop, dt_sym_t *width) {
  const dt_inst_t *a = &c->stage->insts.items[c->a];
  dt_sym_t coef, rest;
  int64_t step = 0;
  for (uint32_t d = 0; d < dt__program_buffer(program, a->buffer)->rank; d++)
    for (uint32_t v = 0; v < 2; v++)
      if (dt__sym_linear(program->env, a->index[d], c->stage->vars[v], &coef, &rest) &&
          dt__sym_is_const(program->env, coef, &step) && step == 1 &&
          is_place(program->env, rest, c->m, op, width)) {
        *out_dim = d;
        *out_loop = v;
        return true;
      }
  return false;
}

static bool finds_image(dt_program_t *program, const dt_contraction_t *c, image_t *out) {
  const dt_inst_t *a = &c->stage->insts.items[c->a];
  dt_sym_t width = DT_SYM_NONE_ID;
  if (!find_dim(program, c, DT_SYM_FLOORDIV, &out->down, &out->rows, &out->width) ||
      !find_dim(program, c, DT_SYM_MOD, &out->across, &out->cols, &width) ||
      width.id != out->width.id || out->rows == out->cols)
    return false;
  for (uint32_t d = 0; d < dt__program_buffer(program, a->buffer)->rank; d++)
    for (uint32_t v = 0; v < 3; v++) {
      dt_sym_t loop = v < 2 ? c->stage->vars[v] : c->m;
      if (d != out->down && d != out->across && dt__sym_depends(program->env, a->index[d], loop))
        return false;
    }
  return true;
}

static bool is_literal(const dt_program_t *program, dt_sym_t e, int64_t *out) {
  return dt__sym_is_const(program->env, e, out);
}

static bool is_worth_it(const dt_program_t *program, const dt_contraction_t *c,
                        const image_t *image) {
  int64_t pairs = image->channels * image->columns, places = 0;
  if (image->channels < LEAST_CHANNELS || image->columns < LEAST_CHANNELS ||
      image->channels % CHANNEL_UNIT || pairs > MOST_PAIRS)
    return false;
  dt_sym_t extent = c->kernel->extents[c->kernel->n_loops - 2];
  return pairs <= MANY_PAIRS ||
         (dt__sym_hint(program->env, extent, &places) && places >= MANY_PLACES);
}

static bool is_taken(dt_program_t *program, const dt_target_t *target, const dt_contraction_t *c,
                     image_t *out) {
  const dt_stage_t *stage = c->stage;
  int64_t rows = 0, cols = 0;
  if (!target->fast_conv || stage->n_loops != 3 || c->a != c->a_factor || c->b != c->b_factor)
    return false;
  const dt_inst_t *a = &stage->insts.items[c->a], *b = &stage->insts.items[c->b];
  if (a->dtype != DT_F32 || b->dtype != DT_F32 || a->mask != DT_NO_INST || b->mask != DT_NO_INST ||
      !is_literal(program, stage->extents[0], &rows) || rows != 3 ||
      !is_literal(program, stage->extents[1], &cols) || cols != 3 ||
      !is_literal(program, stage->extents[2], &out->channels) ||
      !is_literal(program, c->extent_n, &out->columns) || !is_worth_it(program, c, out))
    return false;
  for (uint32_t v = 0; v < c->n_batch; v++)
    if (dt__index_uses(program, b->index, dt__program_buffer(program, b->buffer)->rank,
                       c->kernel->vars[v]))
      return false;
  return finds_image(program, c, out);
}

// ---- Bodies ---------------------------------------------------------------------------------------
typedef struct body_t {
  dt_program_t *program;
  dt_stage_t *stage;
  dt_status_t failed;
} body_t;

static uint32_t add(body_t *b, dt_inst_t inst) {
  uint32_t id = DT_NO_INST;
  if (!b->failed)
    b->failed = dt__stage_add(b->program, b->stage, &inst, &id);
  return id;
}

static uint32_t scalar(body_t *b, dt_scalar_op_t op, uint32_t x, uint32_t y) {
  return add(b, (dt_inst_t){.kind = DT_INST_SCALAR,
                            .dtype = DT_F32,
                            .op = op,
                            .args = {x, y, DT_NO_INST},
                            .mask = DT_NO_INST});
}

static uint32_t index_of(body_t *b, dt_dtype_t dtype, dt_sym_t e) {
  return add(b, (dt_inst_t){.kind = DT_INST_INDEX,
                            .dtype = dtype,
                            .args = {DT_NO_INST, DT_NO_INST, DT_NO_INST},
                            .mask = DT_NO_INST,
                            .sym = e});
}

static uint32_t literal_of(body_t *b, double value) {
  return add(b, (dt_inst_t){.kind = DT_INST_CONST,
                            .dtype = DT_F32,
                            .args = {DT_NO_INST, DT_NO_INST, DT_NO_INST},
                            .mask = DT_NO_INST,
                            .value = {.f = value}});
}

static const dt_sym_t *kept(body_t *b, const dt_sym_t *index, uint32_t rank) {
  dt_sym_t *copy = dt__arena_copy(b->program->arena, index, rank * sizeof(*index));
  if (!copy && !b->failed)
    b->failed = DT_NO_MEMORY();
  return copy;
}

static uint32_t load_of(body_t *b, dt_buffer_id_t buffer, const dt_sym_t *index, uint32_t mask) {
  return add(b, (dt_inst_t){.kind = DT_INST_LOAD,
                            .dtype = DT_F32,
                            .args = {DT_NO_INST, DT_NO_INST, DT_NO_INST},
                            .mask = mask,
                            .buffer = buffer,
                            .index = kept(b, index, dt__program_buffer(b->program, buffer)->rank)});
}

// ---- Weights --------------------------------------------------------------------------------------

// G times three numbers, `step` apart, as four.
static void transform(body_t *b, const uint32_t *w, uint32_t step, uint32_t half,
                      uint32_t out[SIDE]) {
  uint32_t outer = scalar(b, DT_SCALAR_add, w[0], w[2 * step]);
  out[0] = w[0];
  out[1] = scalar(b, DT_SCALAR_mul, scalar(b, DT_SCALAR_add, outer, w[step]), half);
  out[2] = scalar(b, DT_SCALAR_mul, scalar(b, DT_SCALAR_sub, outer, w[step]), half);
  out[3] = w[2 * step];
}

static void store_weights(body_t *b, const uint32_t w[9], dt_buffer_id_t into,
                          const dt_sym_t place[3]) {
  dt_symenv_t *env = b->program->env;
  uint32_t half = literal_of(b, 0.5), columns[SIDE * 3], row[SIDE];
  for (uint32_t x = 0; x < 3; x++) {
    transform(b, w + x, 3, half, row);
    for (uint32_t r = 0; r < SIDE; r++)
      columns[r * 3 + x] = row[r];
  }
  for (uint32_t r = 0; r < SIDE; r++) {
    transform(b, columns + (size_t)r * 3, 1, half, row);
    for (uint32_t s = 0; s < SIDE && !b->failed; s++) {
      const dt_sym_t index[5] = {dt__sym_const(env, r), dt__sym_const(env, s), place[0], place[1],
                                 place[2]};
      dt_store_t store = {
          .buffer = into, .index = kept(b, index, 5), .value = row[s], .mask = DT_NO_INST};
      if (!DT_VEC_PUSH(b->program->arena, &b->stage->stores, store))
        b->failed = DT_NO_MEMORY();
    }
  }
}

// U, [4, 4, k // width, c, k % width], with zeros behind the last column.
static dt_status_t add_weights(dt_program_t *program, const dt_contraction_t *c,
                               const image_t *image, uint32_t width, dt_buffer_id_t *out_id,
                               dt_kernel_t *out) {
  dt_symenv_t *env = program->env;
  const dt_inst_t from = c->stage->insts.items[c->b];
  uint32_t rank = dt__program_buffer(program, from.buffer)->rank, w[9], mask = DT_NO_INST;
  dt_sym_t by = dt__sym_const(env, width), four = dt__sym_const(env, SIDE);
  dt_stage_t stage = {0};
  body_t b = {.program = program, .stage = &stage};
  memset(out, 0, sizeof(*out));
  out->name = "transform";
  out->section = c->kernel->section;
  out->n_loops = 3;
  out->extents[0] = dt__sym_ceildiv(env, c->extent_n, by);
  out->extents[1] = c->stage->extents[2];
  out->extents[2] = by;
  for (uint32_t v = 0; v < 3; v++)
    out->vars[v] = dt__sym_new_loop(env, out->extents[v]);
  dt_buffer_t u = {.kind = DT_BUFFER_TEMP, .dtype = DT_F32, .rank = 5, .sizes = {four, four}};
  memcpy(u.sizes + 2, out->extents, 3 * sizeof(*u.sizes));
  DT_TRY(dt__program_add_buffer(program, &u, out_id));
  dt_sym_t column = dt__sym_add(env, dt__sym_mul(env, out->vars[0], by), out->vars[2]);
  if (image->columns % width)
    mask = index_of(&b, DT_BOOL, dt__sym_lt(env, column, c->extent_n));
  for (uint32_t i = 0; i < 9; i++) {
    const dt_sym_t loops[4] = {c->stage->vars[image->rows], c->stage->vars[image->cols], c->k,
                               c->n};
    const dt_sym_t now[4] = {dt__sym_const(env, i / 3), dt__sym_const(env, i % 3), out->vars[1],
                             column};
    dt_sym_t index[DT_MAX_RANK];
    for (uint32_t d = 0; d < rank; d++)
      index[d] = dt__sym_subst(env, from.index[d], loops, now, 4);
    w[i] = load_of(&b, from.buffer, index, mask);
  }
  store_weights(&b, w, *out_id, out->vars);
  DT_TRY(b.failed);
  return DT_VEC_PUSH(program->arena, &out->stages, stage) ? NULL : DT_NO_MEMORY();
}

// ---- The product ----------------------------------------------------------------------------------

static uint32_t either(body_t *b, uint32_t condition, uint32_t x, uint32_t y) {
  return add(b, (dt_inst_t){.kind = DT_INST_SCALAR,
                            .dtype = DT_F32,
                            .op = DT_SCALAR_where,
                            .args = {condition, x, y},
                            .mask = DT_NO_INST});
}

// U's row (or column) for one of w: 0, 1, 3.
static dt_sym_t row_of(dt_symenv_t *env, dt_sym_t loop) {
  return dt__sym_add(env, loop, dt__sym_floordiv(env, loop, dt__sym_const(env, 2)));
}

// A weight from row r of U, by column s, or in the middle of three by two; *out_load: the first.
static uint32_t weight_of_row(body_t *b, dt_buffer_id_t weights, const dt_sym_t place[5],
                              uint32_t middle, uint32_t *out_load) {
  dt_sym_t other[5];
  memcpy(other, place, sizeof(other));
  other[1] = dt__sym_const(b->program->env, 2);
  uint32_t first = load_of(b, weights, place, DT_NO_INST);
  uint32_t second = load_of(b, weights, other, DT_NO_INST);
  if (out_load)
    *out_load = first;
  return either(b, middle, scalar(b, DT_SCALAR_sub, first, second), first);
}

// The stage over dy, dx and c; *out_a, *out_b: the load of x, and that of U for dy = dx = 0.
static dt_status_t make_stage(dt_program_t *program, const dt_contraction_t *c,
                              const image_t *image, dt_buffer_id_t weights, uint32_t width,
                              dt_stage_t *out, uint32_t *out_a, uint32_t *out_b) {
  dt_symenv_t *env = program->env;
  const dt_stage_t *from = c->stage;
  const dt_inst_t x = from->insts.items[c->a];
  body_t b = {.program = program, .stage = out};
  dt_sym_t by = dt__sym_const(env, width), one = dt__sym_const(env, 1);
  dt_sym_t down = from->vars[image->rows], across = from->vars[image->cols];
  dt_sym_t place[5] = {row_of(env, down), row_of(env, across), dt__sym_floordiv(env, c->n, by),
                       c->k, dt__sym_mod(env, c->n, by)};
  memset(out, 0, sizeof(*out));
  out->n_loops = 3;
  out->vars[0] = down;
  out->vars[1] = across;
  out->vars[2] = c->k;
  memcpy(out->extents, from->extents, 3 * sizeof(*out->extents));
  uint32_t middle[2] = {index_of(&b, DT_BOOL, dt__sym_eq(env, down, one)),
                        index_of(&b, DT_BOOL, dt__sym_eq(env, across, one))};
  uint32_t first = weight_of_row(&b, weights, place, middle[1], out_b);
  place[0] = dt__sym_const(env, 2);
  uint32_t second = weight_of_row(&b, weights, place, middle[1], NULL);
  uint32_t w = either(&b, middle[0], scalar(&b, DT_SCALAR_sub, first, second), first);
  *out_a = load_of(&b, x.buffer, x.index, DT_NO_INST);
  dt_reduction_t sum = from->reductions.items[0];
  sum.value = scalar(&b, DT_SCALAR_mul, *out_a, w);
  DT_TRY(b.failed);
  return DT_VEC_PUSH(program->arena, &out->reductions, sum) ? NULL : DT_NO_MEMORY();
}

dt_status_t dt__take_winograd(dt_program_t *program, const dt_target_t *target,
                              const dt_contraction_t *c, uint32_t lanes, const dt_matmul_t *matmul,
                              dt_kernel_t *before, uint32_t *n_before, bool *taken) {
  dt_symenv_t *env = program->env;
  image_t image = {0};
  dt_buffer_id_t weights;
  *taken = false;
  if (!is_taken(program, target, c, &image))
    return NULL;
  uint32_t groups = TILE_SQUARES / matmul->rows;
  dt_schedule_t schedule = {
      .kind = DT_SCHEDULE_MATMUL, .lanes = lanes, .unroll = 1, .grain = 1, .matmul = *matmul};
  schedule.matmul.tile_rows = matmul->rows * (groups ? groups : 1);
  schedule.matmul.across = image.width;
  DT_TRY(add_weights(program, c, &image, matmul->width, &weights, &before[(*n_before)++]));
  dt_stage_t stage;
  DT_TRY(make_stage(program, c, &image, weights, matmul->width, &stage, &schedule.matmul.a,
                    &schedule.matmul.b));
  *c->stage = stage;
  *taken = true;
  DT_LOG(DT_LOG_FUSION, 1, "%s: four places at a time", c->kernel->name);
  if (!DT_VEC_PUSH(program->arena, &c->kernel->schedules, schedule))
    return DT_NO_MEMORY();
  return dt__symenv_status(env);
}
