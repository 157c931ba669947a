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
#define LONG_SUM 1024
#define DEEP_SUM 2048
#define FULL 5 // of FULL + 1 parts

typedef struct tile_t {
  uint32_t tile_rows, tile_cols;
  uint32_t depth;      // bytes
  uint32_t rows, cols; // of a group
  uint32_t ring;
  uint32_t cluster; // teams that share the depth; 0: none does
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
  TILE_GROUP_SMALL,
  TILE_GROUP_HALF, // with the longest ring, of which a processor has but one, as those that follow
  TILE_GROUP_LARGE_ALONE,
  TILE_GROUP_SMALL_ALONE,
  TILE_GROUP_SMALL_LONG,   // for long sums
  TILE_GROUP_LARGE_SHARED, // for longer ones, by clusters
  TILE_GROUP_SMALL_SHARED,
  TILE_KINDS
} tile_kind_t;

// By bytes of an element of the factors (2, 4, 8): rows of a tile are 64 … 512 bytes, for teams of
// TEAM_GROUPS groups of 32 threads. Sums take at most 64 registers of a thread and the largest ring
// is below 99 KiB, but for groups that multiply together: processors that have these have room for
// one block of any of their tiles, and for two of GROUP_LARGE and GROUP_SMALL. Empty: none.
// Clusters are of two, which a pair of processors has: four leave some of them without work.
// Measured once on one H200, as the ways below (docs/performance.md, "Matrix products on a GPU");
// `scripts/test-gpu run bench-models` shows their effect.
static const tile_t tiles[3][TILE_KINDS] = {
    {[TILE_LARGE] = {128, 128, 64, 64, 32, RING, 0},
     [TILE_SMALL] = {64, 64, 128, 32, 32, RING, 0},
     [TILE_TINY] = {32, 32, 256, 32, 32, RING, 0},
     [TILE_FLAT] = {16, 64, 256, 16, 16, RING, 0},
     [TILE_NARROW] = {16, 16, 512, 16, 16, RING, 0},
     [TILE_MEDIUM] = {16, 32, 512, 16, 32, RING, 0},
     [TILE_GROUP_DEEP] = {128, 256, 128, 16, 256, 4, 0},
     [TILE_GROUP_WIDE] = {128, 192, 128, 16, 192, 4, 0},
     [TILE_GROUP_LARGE] = {128, 128, 128, 16, 128, 3, 0},
     [TILE_GROUP_SMALL] = {64, 64, 256, 16, 64, 3, 0},
     [TILE_GROUP_HALF] = {64, 128, 256, 16, 128, 4, 0},
     [TILE_GROUP_LARGE_ALONE] = {128, 128, 256, 16, 128, 3, 0},
     [TILE_GROUP_SMALL_ALONE] = {64, 64, 256, 16, 64, 4, 0},
     [TILE_GROUP_SMALL_LONG] = {64, 64, 512, 16, 64, 3, 0},
     [TILE_GROUP_LARGE_SHARED] = {128, 128, 256, 16, 128, 3, 2},
     [TILE_GROUP_SMALL_SHARED] = {64, 64, 512, 16, 64, 3, 2}},
    {[TILE_LARGE] = {128, 128, 64, 32, 64, RING, 0},
     [TILE_SMALL] = {64, 64, 128, 32, 32, RING, 0},
     [TILE_FLAT] = {16, 64, 256, 16, 32, RING, 0}},
    {[TILE_LARGE] = {64, 64, 128, 32, 32, RING, 0},
     [TILE_SMALL] = {32, 32, 128, 16, 32, RING, 0},
     [TILE_FLAT] = {16, 64, 256, 16, 32, RING, 0}},
};

// Tiles find their elements of a sum over several loops by runs of neighbours along the last one.
static bool has_runs(dt_program_t *program, const dt_stage_t *stage, uint32_t load) {
  const dt_inst_t *inst = &stage->insts.items[load];
  dt_sym_t rest = dt__buffer_offset(program, inst->buffer, inst->index), coef = rest;
  int64_t step = 0;
  for (uint32_t v = 0; v < stage->n_loops; v++)
    if (!dt__sym_is_const(program->env, stage->extents[v], NULL) ||
        !dt__sym_linear(program->env, rest, stage->vars[v], &coef, &rest))
      return false;
  return dt__sym_is_const(program->env, coef, &step) && step == 1 &&
         dt_dtype_size(inst->dtype) > 1; // bytes would be widened before
}

const char *dt__operands_device_refusal(dt_program_t *program, const dt_contraction_t *c,
                                        const dt_target_t *target) {
  dt_dtype_t dtype = c->stage->reductions.items[0].dtype;
  size_t bytes = dt_dtype_size(dtype);
  if (dtype == DT_BOOL || (bytes != 4 && bytes != 8))
    return "sums of this element size have no template";
  if (dt__target_groups(target) != TEAM_GROUPS)
    return "teams are not of 8 groups";
  if (c->stage->n_loops > 1 &&
      !(has_runs(program, c->stage, c->a) && has_runs(program, c->stage, c->b)))
    return "it sums over several loops";
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
                                         .ring = tile->ring,
                                         .cluster = tile->cluster}};
}

dt_status_t dt__operands_one_row(dt_program_t *program, dt_kernel_t *kernel,
                                 const dt_target_t *target, bool *out_taken) {
  dt_contraction_t c;
  uint32_t n = kernel->n_loops;
  *out_taken = false;
  DT_TRY(dt__contraction_loops(program, kernel, true));
  if (kernel->n_loops != n + 1 || !dt__contraction_roles(program, kernel, &c, NULL) ||
      dt__operands_device_refusal(program, &c, target))
    return NULL;
  *out_taken = true;
  dt_schedule_t schedule = schedule_of(&c, target, TILE_LARGE);
  return DT_VEC_PUSH(program->arena, &kernel->schedules, schedule) ? NULL : DT_NO_MEMORY();
}

static dt_status_t take(dt_program_t *program, const void *with, dt_kernel_t *kernel,
                        const dt_target_t *target, dt_kernel_t *before, uint32_t *n_before) {
  dt_contraction_t c;
  const char *why = NULL;
  (void)with;
  DT_TRY(dt__contraction_loops(program, kernel, false));
  bool product = dt__product_roles(program, kernel, &c, &why);
  if (product)
    why = dt__operands_device_refusal(program, &c, target);
  if (why)
    DT_LOG(DT_LOG_FUSION, 1, "%s: no matrix template: %s", kernel->name, why);
  if (why || !product)
    return NULL;
  DT_TRY(dt__contraction_widen(program, &c, before, n_before));
  if (!dt__product_roles(program, kernel, &c, NULL))
    return DT_FAIL(DT_E_INTERNAL, "fuse: %s lost its matrix form", kernel->name);
  dt_schedule_t schedule = schedule_of(&c, target, TILE_LARGE);
  return DT_VEC_PUSH(program->arena, &kernel->schedules, schedule) ? NULL : DT_NO_MEMORY();
}

dt_status_t dt__operands_device(dt_program_t *program, const dt_target_t *target) {
  return dt__operands_each(program, target, take, NULL);
}

// How many teams have a tile of a kind, or a part of one.
static dt_sym_t teams_of(dt_program_t *program, const dt_contraction_t *c, tile_kind_t kind) {
  dt_symenv_t *env = program->env;
  const dt_kernel_t *kernel = c->kernel;
  const tile_t *tile = tile_of(c, kind);
  uint32_t n = kernel->n_loops;
  dt_sym_t rows = dt__sym_const(env, tile->tile_rows), cols = dt__sym_const(env, tile->tile_cols);
  dt_sym_t count = dt__sym_mul(env, dt__sym_ceildiv(env, kernel->extents[n - 2], rows),
                               dt__sym_ceildiv(env, kernel->extents[n - 1], cols));
  for (uint32_t v = 0; v + 2 < n; v++)
    count = dt__sym_mul(env, count, kernel->extents[v]);
  return tile->cluster ? dt__sym_mul(env, count, dt__sym_const(env, tile->cluster)) : count;
}

static uint32_t of_processors(const dt_target_t *target, uint32_t eighths) {
  return (dt__target_threads(target) * eighths + ALL - 1) / ALL;
}

// The processors have something to do for most of the time until the last tile is done.
static dt_sym_t fills_waves(dt_program_t *program, const dt_target_t *target, dt_sym_t teams) {
  dt_symenv_t *env = program->env;
  dt_sym_t all = dt__sym_const(env, dt__target_threads(target));
  dt_sym_t places = dt__sym_mul(env, dt__sym_ceildiv(env, teams, all), all);
  return dt__sym_le(env, dt__sym_mul(env, places, dt__sym_const(env, FULL)),
                    dt__sym_mul(env, teams, dt__sym_const(env, FULL + 1)));
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
  unsigned when;  // bits
  uint32_t least; // eighths of the processors, for which there are teams at least; 0: any
  uint32_t most;  // the same at most
} way_t;
enum {
  FEW = 1,    // at most FEW_ROWS rows
  FILLED = 2, // the matrix fills more than half of a tile
  LONG = 4,   // sums of LONG_SUM or more
  SHORT = 8,  // others
  DEEP = 16,  // sums of DEEP_SUM or more
  EASY = 32,  // few rows or short sums
  WAVES = 64  // processors are seldom idle at the end
};

// In chains slabs of other tiles would leave no room. Elsewhere, where groups multiply together,
// the smallest tiles of which no processor has two, and then the largest; a long sum is shared by
// as many processors as there are (docs/performance.md, "Matrix products on a GPU").
static const way_t plain_ways[] = {
    {TILE_FLAT, FEW, 0, 0}, {TILE_LARGE, FILLED, ALL, 0}, {TILE_SMALL, 0, 0, 0}};
static const way_t chain_ways[] = {{TILE_FLAT, FEW, 0, 0}, {TILE_SMALL, 0, 0, 0}};
static const way_t half_ways[] = {{TILE_NARROW, 0, 0, ALL},
                                  {TILE_FLAT, FEW, 0, 0},
                                  {TILE_LARGE, FILLED, ALL, 0},
                                  {TILE_SMALL, 0, ALL / 2, 0},
                                  {TILE_TINY, 0, 0, 0}};
static const way_t group_ways[] = {
    {TILE_NARROW, EASY, 0, ALL / 2},         {TILE_MEDIUM, FEW | SHORT, 0, 0},
    {TILE_GROUP_SMALL_SHARED, LONG, 0, ALL}, {TILE_GROUP_SMALL_LONG, LONG, 0, ALL},
    {TILE_GROUP_SMALL_ALONE, SHORT, 0, ALL}, {TILE_GROUP_LARGE_SHARED, FILLED | DEEP, 0, ALL},
    {TILE_GROUP_HALF, FILLED, 0, ALL},       {TILE_GROUP_LARGE_ALONE, FILLED, 0, ALL},
    {TILE_GROUP_WIDE, FILLED, 0, ALL},       {TILE_GROUP_DEEP, FILLED | DEEP | WAVES, 0, 0},
    {TILE_GROUP_LARGE, FILLED, 0, 0},        {TILE_GROUP_SMALL, 0, 0, 0}};
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

static dt_sym_t least_sum(dt_program_t *program, const dt_contraction_t *c, int64_t least) {
  return dt__sym_le(program->env, dt__sym_const(program->env, least), c->extent_k);
}

static dt_sym_t condition_of(dt_program_t *program, const dt_contraction_t *c,
                             const dt_target_t *target, const way_t *way) {
  dt_symenv_t *env = program->env;
  dt_sym_t rows = c->kernel->extents[c->kernel->n_loops - 2];
  dt_sym_t few = dt__sym_le(env, rows, dt__sym_const(env, FEW_ROWS));
  dt_sym_t is_long = least_sum(program, c, LONG_SUM), all = dt__sym_const(env, 1);
  dt_sym_t teams = teams_of(program, c, way->kind);
  if (way->when & FEW)
    all = dt__sym_and(env, all, few);
  if (way->when & EASY)
    all = dt__sym_and(env, all, dt__sym_or(env, few, dt__sym_not(env, is_long)));
  if (way->when & LONG)
    all = dt__sym_and(env, all, is_long);
  if (way->when & SHORT)
    all = dt__sym_and(env, all, dt__sym_not(env, is_long));
  if (way->when & DEEP)
    all = dt__sym_and(env, all, least_sum(program, c, DEEP_SUM));
  if (way->when & FILLED)
    all = dt__sym_and(env, all, fills(program, c, tile_of(c, way->kind)));
  if (way->when & WAVES)
    all = dt__sym_and(env, all, fills_waves(program, target, teams));
  if (way->least)
    all = dt__sym_and(
        env, all, dt__sym_le(env, dt__sym_const(env, of_processors(target, way->least)), teams));
  if (way->most)
    all = dt__sym_and(env, all,
                      dt__sym_le(env, teams, dt__sym_const(env, of_processors(target, way->most))));
  return all;
}

// Whether no number of rows takes this way: those of a single tile are too many for it already, or
// few of them always are so few tiles that the first way takes them.
static bool is_idle(dt_program_t *program, const dt_contraction_t *c, const dt_target_t *target,
                    ways_t ways, size_t at) {
  int64_t columns = 0;
  const way_t *way = &ways.items[at], *first = &ways.items[0];
  if (c->kernel->n_loops != 2 || !dt__sym_is_const(program->env, c->kernel->extents[1], &columns) ||
      columns < 1)
    return false;
  const tile_t *tile = tile_of(c, way->kind), *narrow = tile_of(c, TILE_NARROW);
  int64_t teams = ((columns - 1) / tile->tile_cols + 1) * (tile->cluster ? tile->cluster : 1);
  if (way->most && teams > of_processors(target, way->most))
    return true;
  return way->when & FEW && first->kind == TILE_NARROW &&
         (columns - 1) / narrow->tile_cols + 1 <= of_processors(target, first->most);
}

dt_status_t dt__matmul_teams(dt_program_t *program, dt_kernel_t *kernel,
                             const dt_target_t *target) {
  dt_contraction_t c;
  if (!dt__product_roles(program, kernel, &c, NULL))
    return DT_FAIL(DT_E_INTERNAL, "fuse: %s lost its matrix form", kernel->name);
  uint32_t lanes = kernel->schedules.items[0].lanes;
  ways_t ways = ways_of(&c, target);
  bool done = false;
  kernel->schedules.len = 0;
  for (size_t i = 0; i < ways.n; i++) {
    if (is_idle(program, &c, target, ways, i))
      continue;
    dt_schedule_t schedule = schedule_of(&c, target, ways.items[i].kind);
    schedule.lanes = lanes;
    dt_sym_t condition = condition_of(program, &c, target, &ways.items[i]);
    DT_TRY(dt__schedule_offer(program, kernel, schedule, condition, &done));
  }
  return dt__symenv_status(program->env);
}
