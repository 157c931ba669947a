// SPDX-License-Identifier: Apache-2.0
// Matrix products on devices: operands stay where they are, at any strides, and a team of threads
// copies tiles of them to the memory that it shares. What is chosen here is the tile, by sizes that
// are known at the call: the largest one where there are enough of them for all processors, a small
// one elsewhere, and a flat one for few rows, of which a square one would be mostly empty.
#include "fuse/operands.h"

#include "fuse/body.h"
#include "fuse/teams.h"
#include "runtime/base/dtype.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#define WARP 32
#define FEW_ROWS 16
#define RING 4 // three tiles on their way while one is worked on

typedef struct tile_t {
  uint32_t tile_rows, tile_cols;
  uint32_t depth; // bytes
  uint32_t rows, width;
} tile_t;

typedef enum tile_kind_t { TILE_LARGE, TILE_SMALL, TILE_FLAT, TILE_KINDS } tile_kind_t;

// By bytes of an element of the factors (2, 4, 8): rows of a tile are 64 … 256 bytes, the largest
// ring is below 99 KiB, and sums take at most 64 registers of a thread.
static const tile_t tiles[3][TILE_KINDS] = {
    {{128, 128, 64, 64, 32}, {64, 64, 128, 32, 32}, {16, 64, 256, 16, 16}},
    {{128, 128, 64, 32, 64}, {64, 64, 128, 32, 32}, {16, 64, 256, 16, 32}},
    {{64, 64, 128, 32, 32}, {32, 32, 128, 16, 32}, {16, 64, 256, 16, 32}},
};

static const char *refusal(dt_program_t *program, const dt_contraction_t *c,
                           const dt_target_t *target) {
  int64_t n = 0;
  dt_dtype_t dtype = c->stage->folds.items[0].dtype;
  size_t bytes = dt_dtype_size(dtype);
  if (dtype == DT_BOOL || (bytes != 4 && bytes != 8))
    return "sums of this element size have no template";
  if (target->block_threads != 8 * WARP)
    return "teams are not of 8 warps";
  for (uint32_t v = 0; v < c->kernel->n_loops; v++)
    if (dt__sym_is_const(program->env, c->kernel->extents[v], &n) && n == 0)
      return "it has no elements";
  if (dt__sym_is_const(program->env, c->extent_k, &n) && n == 0)
    return "it is a sum of nothing";
  if (dt__sym_is_const(program->env, c->extent_n, &n) && n < 4)
    return "fewer than 4 columns";
  return NULL;
}

// What lies in shared memory: halves where both factors are, else what is summed.
static size_t factor_bytes(const dt_contraction_t *c) {
  dt_dtype_t a = c->stage->insts.items[c->a].dtype, b = c->stage->insts.items[c->b].dtype;
  return a == b && dt__dtype_is_half(a) ? 2 : dt_dtype_size(c->stage->folds.items[0].dtype);
}

static dt_schedule_t schedule_of(const dt_contraction_t *c, const dt_target_t *target,
                                 tile_kind_t kind) {
  size_t bytes = factor_bytes(c), sum = dt_dtype_size(c->stage->folds.items[0].dtype);
  const tile_t *tile = &tiles[bytes == 2 ? 0 : bytes == 4 ? 1 : 2][kind];
  return (dt_schedule_t){.kind = DT_SCHEDULE_MATMUL,
                         .lanes = target->vector_bytes / (uint32_t)sum,
                         .unroll = 1,
                         .block = 1,
                         .grain = 1,
                         .team = target->block_threads,
                         .matmul = {.a = c->a,
                                    .b = c->b,
                                    .width = tile->width,
                                    .rows = tile->rows,
                                    .tile_rows = tile->tile_rows,
                                    .tile_cols = tile->tile_cols,
                                    .depth = tile->depth / (uint32_t)bytes,
                                    .ring = RING}};
}

dt_status_t dt__operands_device(dt_program_t *program, const dt_target_t *target) {
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    dt_kernel_t *kernel = &program->kernels.items[k];
    dt_contraction_t c;
    if (!dt__contraction_roles(program, kernel, &c))
      continue;
    const char *why = refusal(program, &c, target);
    if (why) {
      DT_LOG(DT_LOG_FUSION, 1, "%s: no matrix template: %s", kernel->name, why);
      continue;
    }
    dt_schedule_t schedule = schedule_of(&c, target, TILE_LARGE);
    if (!DT_VEC_PUSH(program->arena, &kernel->schedules, schedule))
      return DT_NO_MEMORY();
  }
  return dt__symenv_status(program->env);
}

// Whether there are so many tiles that every processor has one, and the matrix fills more than half
// of one in both directions.
static dt_sym_t enough(dt_program_t *program, const dt_kernel_t *kernel, const dt_matmul_t *tile,
                       const dt_target_t *target) {
  dt_symenv_t *env = program->env;
  uint32_t n = kernel->n_loops;
  dt_sym_t rows = dt__sym_const(env, tile->tile_rows), cols = dt__sym_const(env, tile->tile_cols);
  dt_sym_t count = dt__sym_mul(env, dt__sym_ceildiv(env, kernel->extents[n - 2], rows),
                               dt__sym_ceildiv(env, kernel->extents[n - 1], cols));
  for (uint32_t v = 0; v + 2 < n; v++)
    count = dt__sym_mul(env, count, kernel->extents[v]);
  dt_sym_t many = dt__sym_le(env, dt__sym_const(env, target->threads ? target->threads : 1), count);
  dt_sym_t tall = dt__sym_lt(env, dt__sym_const(env, tile->tile_rows / 2), kernel->extents[n - 2]);
  dt_sym_t wide = dt__sym_lt(env, dt__sym_const(env, tile->tile_cols / 2), kernel->extents[n - 1]);
  return dt__sym_and(env, many, dt__sym_and(env, tall, wide));
}

// Adds `schedule` where `condition` holds and none before it was taken; *done when it surely is.
static dt_status_t offer(dt_program_t *program, dt_kernel_t *kernel, dt_schedule_t schedule,
                         dt_sym_t condition, bool *done) {
  int64_t holds = 0;
  bool known = dt__sym_is_const(program->env, condition, &holds);
  if (*done || (known && !holds))
    return NULL;
  *done = known;
  schedule.predicate = known ? DT_SYM_NONE_ID : condition;
  return DT_VEC_PUSH(program->arena, &kernel->schedules, schedule) ? NULL : DT_NO_MEMORY();
}

dt_status_t dt__matmul_teams(dt_program_t *program, dt_kernel_t *kernel,
                             const dt_target_t *target) {
  dt_contraction_t c;
  if (!dt__contraction_roles(program, kernel, &c))
    return DT_FAIL(DT_E_INTERNAL, "fuse: %s lost its matrix form", kernel->name);
  dt_schedule_t first = kernel->schedules.items[0];
  dt_schedule_t flat = schedule_of(&c, target, TILE_FLAT);
  dt_schedule_t large = schedule_of(&c, target, TILE_LARGE);
  dt_schedule_t small = schedule_of(&c, target, TILE_SMALL);
  flat.lanes = large.lanes = small.lanes = first.lanes;
  kernel->schedules.len = 0;
  dt_sym_t rows = kernel->extents[kernel->n_loops - 2];
  dt_sym_t few = dt__sym_le(program->env, rows, dt__sym_const(program->env, FEW_ROWS));
  bool done = false;
  DT_TRY(offer(program, kernel, flat, few, &done));
  // Slabs of large tiles would leave no room for others.
  if (!kernel->chain)
    DT_TRY(offer(program, kernel, large, enough(program, kernel, &large.matmul, target), &done));
  DT_TRY(offer(program, kernel, small, dt__sym_const(program->env, 1), &done));
  return dt__symenv_status(program->env);
}
