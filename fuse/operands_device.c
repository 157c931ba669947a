// SPDX-License-Identifier: Apache-2.0
// Matrix products on devices. Operands stay where they are, at any strides; a team of threads
// copies tiles of them to shared memory. The tile is chosen here, by sizes that the call knows: the
// largest one with enough tiles to keep the processors busy. Few rows take a flat tile, since a
// square one would be mostly empty. In the smallest tiles groups share the depth, not rows and
// columns: then there is work for many processors, and each takes a short time.
#include "fuse/operands.h"

#include "fuse/body.h"
#include "fuse/teams.h"
#include "runtime/base/dtype.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#define TEAM_GROUPS 8
#define FEW_ROWS 16
#define RING 4 // three tiles on their way while one is worked on
#define ALL 8  // eighths
#define LONG_SUM 2048

typedef struct tile_t {
  uint32_t tile_rows, tile_cols;
  uint32_t depth;      // bytes
  uint32_t rows, cols; // of a group
  uint32_t ring;
} tile_t;

typedef enum tile_kind_t {
  TILE_LARGE,
  TILE_SMALL,
  TILE_TINY,
  TILE_FLAT,
  TILE_NARROW,
  TILE_MEDIUM,     // between the two
  TILE_GROUP_DEEP, // for groups that multiply together, as those that follow
  TILE_GROUP_WIDE,
  TILE_GROUP_LARGE,
  TILE_GROUP_HALF,
  TILE_GROUP_SMALL,
  TILE_KINDS
} tile_kind_t;

// By bytes of an element of the factors (2, 4, 8): rows of a tile are 64 … 512 bytes, for teams of
// TEAM_GROUPS groups of 32 threads. Sums take at most 64 registers of a thread and the largest ring
// is below 99 KiB, but for groups that multiply together: processors that have these have room for
// one block of any of their tiles, and for two of large ones. Empty: none.
// Measured once on one H200, as the ways below (docs/performance.md, "Matrix products on a GPU");
// `scripts/test-gpu run bench-models` shows their effect.
static const tile_t tiles[3][TILE_KINDS] = {
    {[TILE_LARGE] = {128, 128, 64, 64, 32, RING},
     [TILE_SMALL] = {64, 64, 128, 32, 32, RING},
     [TILE_TINY] = {32, 32, 256, 32, 32, RING},
     [TILE_FLAT] = {16, 64, 256, 16, 16, RING},
     [TILE_NARROW] = {16, 16, 512, 16, 16, RING},
     [TILE_MEDIUM] = {16, 32, 512, 16, 32, RING},
     [TILE_GROUP_DEEP] = {128, 256, 128, 16, 256, 4},
     [TILE_GROUP_WIDE] = {128, 192, 128, 16, 192, 4},
     [TILE_GROUP_LARGE] = {128, 128, 128, 16, 128, 3},
     [TILE_GROUP_HALF] = {64, 128, 128, 16, 128, 4},
     [TILE_GROUP_SMALL] = {64, 64, 256, 16, 64, 4}},
    {[TILE_LARGE] = {128, 128, 64, 32, 64, RING},
     [TILE_SMALL] = {64, 64, 128, 32, 32, RING},
     [TILE_FLAT] = {16, 64, 256, 16, 32, RING}},
    {[TILE_LARGE] = {64, 64, 128, 32, 32, RING},
     [TILE_SMALL] = {32, 32, 128, 16, 32, RING},
     [TILE_FLAT] = {16, 64, 256, 16, 32, RING}},
};

static const char *refusal(dt_program_t *program, const dt_contraction_t *c,
                           const dt_target_t *target) {
  dt_dtype_t dtype = c->stage->reductions.items[0].dtype;
  size_t bytes = dt_dtype_size(dtype);
  if (dtype == DT_BOOL || (bytes != 4 && bytes != 8))
    return "sums of this element size have no template";
  if (dt__target_groups(target) != TEAM_GROUPS)
    return "teams are not of 8 groups";
  return dt__contraction_refusal(program, c, 1);
}

// What lies in shared memory: halves where both factors are, else what is summed.
static size_t factor_bytes(const dt_contraction_t *c) {
  dt_dtype_t a = c->stage->insts.items[c->a].dtype, b = c->stage->insts.items[c->b].dtype;
  return a == b && dt__dtype_is_half(a) ? 2 : dt_dtype_size(c->stage->reductions.items[0].dtype);
}

static const tile_t *tile_of(const dt_contraction_t *c, tile_kind_t kind) {
  size_t bytes = factor_bytes(c);
  return &tiles[bytes == 2 ? 0 : bytes == 4 ? 1 : 2][kind];
}

static dt_schedule_t schedule_of(const dt_contraction_t *c, const dt_target_t *target,
                                 tile_kind_t kind) {
  size_t bytes = factor_bytes(c), sum = dt_dtype_size(c->stage->reductions.items[0].dtype);
  const tile_t *tile = tile_of(c, kind);
  return (dt_schedule_t){.kind = DT_SCHEDULE_TEAM_MATMUL,
                         .lanes = target->vector_bytes / (uint32_t)sum,
                         .unroll = 1,
                         .grain = 1,
                         .team = target->block_threads,
                         .team_matmul = {.a = c->a,
                                         .b = c->b,
                                         .tile_rows = tile->tile_rows,
                                         .tile_cols = tile->tile_cols,
                                         .groups = dt__target_groups(target),
                                         .group_rows = tile->rows,
                                         .group_cols = tile->cols,
                                         .depth = tile->depth / (uint32_t)bytes,
                                         .ring = tile->ring}};
}

static dt_status_t take(dt_program_t *program, const void *with, dt_kernel_t *kernel,
                        const dt_target_t *target, dt_kernel_t *before, uint32_t *n_before) {
  dt_contraction_t c;
  const char *why = NULL;
  (void)with;
  DT_TRY(dt__contraction_loops(program, kernel, false));
  bool product = dt__contraction_roles(program, kernel, &c, &why);
  if (product)
    why = refusal(program, &c, target);
  if (why)
    DT_LOG(DT_LOG_FUSION, 1, "%s: no matrix template: %s", kernel->name, why);
  if (why || !product)
    return NULL;
  DT_TRY(dt__contraction_widen(program, &c, before, n_before));
  if (!dt__contraction_roles(program, kernel, &c, NULL))
    return DT_FAIL(DT_E_INTERNAL, "fuse: %s lost its matrix form", kernel->name);
  dt_schedule_t schedule = schedule_of(&c, target, TILE_LARGE);
  return DT_VEC_PUSH(program->arena, &kernel->schedules, schedule) ? NULL : DT_NO_MEMORY();
}

dt_status_t dt__operands_device(dt_program_t *program, const dt_target_t *target) {
  return dt__operands_each(program, target, take, NULL);
}

// Whether there are so many tiles of a kind, or more.
static dt_sym_t many(dt_program_t *program, const dt_contraction_t *c, tile_kind_t kind,
                     uint32_t least) {
  dt_symenv_t *env = program->env;
  const dt_kernel_t *kernel = c->kernel;
  const tile_t *tile = tile_of(c, kind);
  uint32_t n = kernel->n_loops;
  dt_sym_t rows = dt__sym_const(env, tile->tile_rows), cols = dt__sym_const(env, tile->tile_cols);
  dt_sym_t count = dt__sym_mul(env, dt__sym_ceildiv(env, kernel->extents[n - 2], rows),
                               dt__sym_ceildiv(env, kernel->extents[n - 1], cols));
  for (uint32_t v = 0; v + 2 < n; v++)
    count = dt__sym_mul(env, count, kernel->extents[v]);
  return dt__sym_le(env, dt__sym_const(env, least), count);
}

// No more of them than processors: all are under way at once, none waits for another.
static dt_sym_t at_once(dt_program_t *program, const dt_contraction_t *c, const dt_target_t *target,
                        tile_kind_t kind) {
  return dt__sym_not(program->env, many(program, c, kind, dt__target_threads(target) + 1));
}

// Whether the matrix fills more than half of a tile in both directions.
static dt_sym_t fills(dt_program_t *program, const dt_contraction_t *c, const tile_t *tile) {
  dt_symenv_t *env = program->env;
  uint32_t n = c->kernel->n_loops;
  const dt_sym_t *extents = c->kernel->extents;
  dt_sym_t tall = dt__sym_lt(env, dt__sym_const(env, tile->tile_rows / 2), extents[n - 2]);
  dt_sym_t wide = dt__sym_lt(env, dt__sym_const(env, tile->tile_cols / 2), extents[n - 1]);
  return dt__sym_and(env, tall, wide);
}

// One way to run a product: its tile, and what must hold for it besides that no way before it was
// taken.
typedef struct way_t {
  tile_kind_t kind;
  unsigned when;    // bits
  uint32_t eighths; // of the processors, for which there are tiles at least
  tile_kind_t more; // MORE: of these there are more than processors
} way_t;
enum {
  FEW = 1,    // at most FEW_ROWS rows
  FILLED = 2, // the matrix fills more than half of a tile
  ONCE = 4,   // no more tiles than processors
  MORE = 8,
  DEEP = 16 // long sums
};

// In chains slabs of other tiles would leave no room. Elsewhere, where groups multiply together,
// they are the smallest tiles of which no processor has two, and then the largest.
static const way_t plain_ways[] = {
    {TILE_FLAT, FEW, 0, 0}, {TILE_LARGE, FILLED, ALL, 0}, {TILE_SMALL, 0, 0, 0}};
static const way_t chain_ways[] = {{TILE_FLAT, FEW, 0, 0}, {TILE_SMALL, 0, 0, 0}};
static const way_t half_ways[] = {{TILE_NARROW, ONCE, 0, 0},
                                  {TILE_FLAT, FEW, 0, 0},
                                  {TILE_LARGE, FILLED, ALL, 0},
                                  {TILE_SMALL, 0, ALL / 2, 0},
                                  {TILE_TINY, 0, 0, 0}};
static const way_t group_ways[] = {
    {TILE_NARROW, ONCE, 0, 0},
    {TILE_MEDIUM, FEW, 0, 0},
    {TILE_GROUP_SMALL, ONCE, ALL / 4, 0},
    {TILE_GROUP_WIDE, FILLED | ONCE | MORE, ALL * 3 / 4, TILE_GROUP_HALF},
    {TILE_GROUP_DEEP, FILLED | DEEP, ALL * 3 / 4, 0},
    {TILE_GROUP_LARGE, FILLED | MORE, 0, TILE_GROUP_HALF},
    {TILE_GROUP_HALF, 0, ALL / 4, 0},
    {TILE_TINY, 0, 0, 0}};
#define WAYS(list)                                                                                 \
  (ways_t) { (list), sizeof(list) / sizeof((list)[0]) }
typedef struct ways_t {
  const way_t *items;
  size_t n;
} ways_t;

static ways_t ways_of(const dt_contraction_t *c, const dt_target_t *target) {
  if (c->kernel->chain)
    return WAYS(chain_ways);
  if (factor_bytes(c) != 2)
    return WAYS(plain_ways);
  return target->matrix_groups && !target->strict_fp ? WAYS(group_ways) : WAYS(half_ways);
}

static dt_sym_t condition_of(dt_program_t *program, const dt_contraction_t *c,
                             const dt_target_t *target, const way_t *way) {
  dt_symenv_t *env = program->env;
  dt_sym_t all = dt__sym_const(env, 1), rows = c->kernel->extents[c->kernel->n_loops - 2];
  if (way->when & FEW)
    all = dt__sym_and(env, all, dt__sym_le(env, rows, dt__sym_const(env, FEW_ROWS)));
  if (way->when & FILLED)
    all = dt__sym_and(env, all, fills(program, c, tile_of(c, way->kind)));
  if (way->when & DEEP)
    all = dt__sym_and(env, all, dt__sym_le(env, dt__sym_const(env, LONG_SUM), c->extent_k));
  if (way->eighths)
    all = dt__sym_and(
        env, all,
        many(program, c, way->kind, (dt__target_threads(target) * way->eighths + ALL - 1) / ALL));
  if (way->when & ONCE)
    all = dt__sym_and(env, all, at_once(program, c, target, way->kind));
  if (way->when & MORE)
    all = dt__sym_and(env, all, dt__sym_not(env, at_once(program, c, target, way->more)));
  return all;
}

// Whether few rows always are so few tiles that a way before this one, ONCE, takes them.
static bool is_passed(dt_program_t *program, const dt_contraction_t *c, const dt_target_t *target,
                      ways_t ways, size_t way) {
  int64_t columns = 0;
  if (!(ways.items[way].when & FEW) || way == 0 || ways.items[0].when != ONCE ||
      c->kernel->n_loops != 2 || !dt__sym_is_const(program->env, c->kernel->extents[1], &columns))
    return false;
  return (columns - 1) / tile_of(c, ways.items[0].kind)->tile_cols + 1 <=
         dt__target_threads(target);
}

dt_status_t dt__matmul_teams(dt_program_t *program, dt_kernel_t *kernel,
                             const dt_target_t *target) {
  dt_contraction_t c;
  if (!dt__contraction_roles(program, kernel, &c, NULL))
    return DT_FAIL(DT_E_INTERNAL, "fuse: %s lost its matrix form", kernel->name);
  uint32_t lanes = kernel->schedules.items[0].lanes;
  ways_t ways = ways_of(&c, target);
  bool done = false;
  kernel->schedules.len = 0;
  for (size_t i = 0; i < ways.n; i++) {
    if (is_passed(program, &c, target, ways, i))
      continue;
    dt_schedule_t schedule = schedule_of(&c, target, ways.items[i].kind);
    schedule.lanes = lanes;
    dt_sym_t condition = condition_of(program, &c, target, &ways.items[i]);
    DT_TRY(dt__schedule_offer(program, kernel, schedule, condition, &done));
  }
  return dt__symenv_status(program->env);
}
