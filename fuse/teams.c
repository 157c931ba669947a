// SPDX-License-Identifier: Apache-2.0
// See teams.h.
//
//   INNER_LANES  a row is walked by a group, or by a block where it is long
//   OUTER_LANES  maps over one loop: a block takes neighbouring vectors; over several: a group
//                where the last loop is long enough for it, else each thread takes a vector of its
//                own. With loops inside each thread walks them for its own vector
//   SERIAL       each thread takes an iteration
//   TILES        maps that read along one loop and write along another: a block takes a square
//   TEAM_MATMUL  a block takes a tile (operands_device.c)
#include "fuse/teams.h"

#include "fuse/loops.h"
#include "fuse/operands.h"
#include "runtime/base/status.h"

// The numbers of rows and maps are measured by bench/bench_gpu.c: `scripts/test-gpu run bench`.
#define HALF 2        // bytes
#define LONG_ROW 1024 // elements from which a row is worth a block
#define MAP_UNROLL 4  // vectors of a thread under way at once
#define MAP_GROUPS 2
#define ROW_UNROLL 4

// Puts `first` before the schedules that the kernel has, to be taken where `predicate` holds; a
// predicate that is known decides now.
static dt_status_t prefer(dt_program_t *program, dt_kernel_t *kernel, dt_schedule_t first,
                          dt_sym_t predicate) {
  int64_t holds = 0;
  if (dt__sym_is_const(program->env, predicate, &holds)) {
    if (holds) {
      kernel->schedules.items[0] = first;
      kernel->schedules.len = 1;
    }
    return NULL;
  }
  first.predicate = predicate;
  if (!DT_VEC_PUSH(program->arena, &kernel->schedules, first))
    return DT_NO_MEMORY();
  for (uint32_t i = kernel->schedules.len - 1; i > 0; i--)
    kernel->schedules.items[i] = kernel->schedules.items[i - 1];
  kernel->schedules.items[0] = first;
  return NULL;
}

// Elements that one grid item walks in its longest stage.
static dt_sym_t row_length(dt_program_t *program, const dt_kernel_t *kernel) {
  dt_symenv_t *env = program->env;
  dt_sym_t most = dt__sym_const(env, 1);
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    dt_sym_t length = dt__sym_const(env, 1);
    for (uint32_t v = 0; v < stage->n_loops; v++)
      length = dt__sym_mul(env, length, stage->extents[v]);
    most = dt__sym_max(env, most, length);
  }
  return most;
}

// The one extent of all inner loops, where stages have one loop or none; else none.
static dt_sym_t one_extent(dt_program_t *program, const dt_kernel_t *kernel) {
  dt_sym_t extent = DT_SYM_NONE_ID;
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    if (stage->n_loops > 1)
      return DT_SYM_NONE_ID;
    if (!stage->n_loops)
      continue;
    if (extent.id && !dt__sym_known_eq(program->env, extent, stage->extents[0]))
      return DT_SYM_NONE_ID;
    extent = stage->extents[0];
  }
  for (uint32_t v = 0; v < kernel->n_loops && extent.id; v++)
    if (dt__sym_depends(program->env, extent, kernel->vars[v]))
      return DT_SYM_NONE_ID;
  return extent;
}

static uint32_t count_walks(const dt_kernel_t *kernel) {
  uint32_t walks = 0;
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    walks += kernel->stages.items[s].n_loops > 0;
  return walks;
}

dt_status_t dt__schedule_offer(dt_program_t *program, dt_kernel_t *kernel, dt_schedule_t schedule,
                               dt_sym_t condition, bool *done) {
  int64_t holds = 0;
  bool known = dt__sym_is_const(program->env, condition, &holds);
  if (*done || (known && !holds))
    return NULL;
  *done = known;
  schedule.predicate = known ? DT_SYM_NONE_ID : condition;
  return DT_VEC_PUSH(program->arena, &kernel->schedules, schedule) ? NULL : DT_NO_MEMORY();
}

dt_sym_t dt__row_extent(dt_program_t *program, const dt_kernel_t *kernel) {
  return count_walks(kernel) < 2 ? DT_SYM_NONE_ID : one_extent(program, kernel);
}

// Rows that are walked more than once stay in registers where they are short enough; room is left
// for other rows under way. Rows walked often wait often, and want more threads. Longest first.
// Measured by bench/bench_gpu.c (softmax, layernorm, rmsnorm): `scripts/test-gpu run bench`.
typedef struct resident_row_t {
  uint32_t groups, unroll, room;
} resident_row_t;
static const resident_row_t resident_twice[] = {{4, 8, 5}, {4, 2, 0}, {1, 4, 0}, {1, 1, 0}};
static const resident_row_t resident_often[] = {{8, 4, 4}, {4, 2, 0}, {1, 4, 0}, {1, 1, 0}};
#define ROOM_FOR_ONE 5 // where nothing is walked but the row itself
#define N_RESIDENT (sizeof(resident_twice) / sizeof(resident_twice[0]))
_Static_assert(N_RESIDENT == sizeof(resident_often) / sizeof(resident_often[0]), "N_RESIDENT");

// Whether loops over the row load one buffer at most, and LOCALs.
static bool walks_one(const dt_program_t *program, const dt_kernel_t *kernel) {
  uint32_t one = 0;
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    for (uint32_t i = 0; i < stage->insts.len && stage->n_loops; i++) {
      dt_buffer_id_t id = dt__inst_reads(&stage->insts.items[i]);
      if (!id.id || dt__program_buffer(program, id)->kind == DT_BUFFER_LOCAL)
        continue;
      if (one && one != id.id)
        return false;
      one = id.id;
    }
  }
  return true;
}

static dt_status_t inner_teams(dt_program_t *program, dt_kernel_t *kernel,
                               const dt_target_t *target) {
  dt_symenv_t *env = program->env;
  dt_schedule_t *schedule = &kernel->schedules.items[0];
  if (schedule->unroll > ROW_UNROLL)
    schedule->unroll = ROW_UNROLL;
  schedule->team = target->block_threads;
  dt_schedule_t own = *schedule;
  dt_sym_t extent = dt__row_extent(program, kernel);
  if (!extent.id) {
    own.team = dt__target_warp(target);
    return prefer(program, kernel, own,
                  dt__sym_le(env, row_length(program, kernel), dt__sym_const(env, LONG_ROW)));
  }
  own.inner.resident = true;
  const resident_row_t *rows = count_walks(kernel) > 2 ? resident_often : resident_twice;
  for (size_t i = 0; i < N_RESIDENT; i++) {
    own.team = rows[i].groups * dt__target_warp(target);
    own.unroll = rows[i].unroll;
    own.room = rows == resident_often && rows[i].room && walks_one(program, kernel) ? ROOM_FOR_ONE
                                                                                    : rows[i].room;
    int64_t most = (int64_t)own.team * own.lanes * own.unroll;
    dt_sym_t some = dt__sym_le(env, dt__sym_const(env, 1), extent);
    dt_sym_t fits = dt__sym_le(env, extent, dt__sym_const(env, most));
    DT_TRY(prefer(program, kernel, own, dt__sym_and(env, some, fits)));
  }
  return NULL;
}

// ---- Tiles ------------------------------------------------------------------------------------------

// Elements of a tile's side, by the bytes of what goes through shared memory, and the least extents
// that are worth one. Measured by bench/bench_gpu.c: `bench_gpu --case transpose`.
#define TILE_SIDE 64
#define LEAST_SIDE 16

// The outer loop that loads walk by single elements while they jump along the last one; and the
// bytes of one element of each such load. -1: none, or several.
static int crossing_loop(dt_program_t *program, const dt_kernel_t *kernel, size_t *out_bytes) {
  const dt_stage_t *stage = &kernel->stages.items[0];
  dt_sym_t last = kernel->vars[kernel->n_loops - 1];
  int found = -1;
  *out_bytes = 0;
  for (uint32_t i = 0; i < stage->insts.len; i++) {
    const dt_inst_t *inst = &stage->insts.items[i];
    if (inst->kind != DT_INST_LOAD ||
        dt__access_step(program, inst->buffer, inst->index, last) != DT_STEP_STRIDED)
      continue;
    int own = -1;
    for (uint32_t v = 0; v + 1 < kernel->n_loops; v++)
      if (dt__access_step(program, inst->buffer, inst->index, kernel->vars[v]) == DT_STEP_UNIT)
        own = (int)v;
    if (own < 0 || (found >= 0 && found != own))
      return -1;
    found = own;
    *out_bytes += dt_dtype_size(inst->dtype);
  }
  return found;
}

static bool stores_run_along(dt_program_t *program, const dt_kernel_t *kernel) {
  const dt_stage_t *stage = &kernel->stages.items[0];
  for (uint32_t i = 0; i < stage->insts.len; i++)
    if (stage->insts.items[i].kind == DT_INST_BIND)
      return false;
  for (uint32_t i = 0; i < stage->stores.len; i++)
    if (dt__access_step(program, stage->stores.items[i].buffer, stage->stores.items[i].index,
                        kernel->vars[kernel->n_loops - 1]) != DT_STEP_UNIT)
      return false;
  return true;
}

static void move_loop(dt_kernel_t *kernel, uint32_t from, uint32_t to) {
  dt_sym_t var = kernel->vars[from], extent = kernel->extents[from];
  for (uint32_t v = from; v < to; v++) {
    kernel->vars[v] = kernel->vars[v + 1];
    kernel->extents[v] = kernel->extents[v + 1];
  }
  kernel->vars[to] = var;
  kernel->extents[to] = extent;
}

// A map that reads rows and writes columns.
static dt_status_t tile_teams(dt_program_t *program, dt_kernel_t *kernel,
                              const dt_target_t *target) {
  dt_symenv_t *env = program->env;
  size_t bytes = 0;
  if (kernel->n_loops < 2 || kernel->stages.len != 1 || !stores_run_along(program, kernel))
    return NULL;
  int crossing = crossing_loop(program, kernel, &bytes);
  int64_t side = bytes <= 8 ? TILE_SIDE : TILE_SIDE / 2;
  if (crossing < 0 || side * (side + 1) * (int64_t)bytes > target->tile_bytes)
    return NULL;
  uint32_t n = kernel->n_loops;
  move_loop(kernel, (uint32_t)crossing, n - 2);
  dt_schedule_t tiles = {.kind = DT_SCHEDULE_TILES,
                         .lanes = 1,
                         .unroll = 1,
                         .grain = 1,
                         .team = target->block_threads,
                         .tiles = {.side = side}};
  dt_sym_t least = dt__sym_const(env, LEAST_SIDE);
  dt_sym_t wide = dt__sym_and(env, dt__sym_le(env, least, kernel->extents[n - 2]),
                              dt__sym_le(env, least, kernel->extents[n - 1]));
  return prefer(program, kernel, tiles, wide);
}

// ---- Maps -------------------------------------------------------------------------------------------

// Whether lanes read and write nothing wider than `bytes`.
static bool lanes_are_narrow(dt_program_t *program, const dt_kernel_t *kernel, size_t bytes) {
  dt_sym_t last = kernel->vars[kernel->n_loops - 1];
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    for (uint32_t i = 0; i < stage->insts.len; i++) {
      const dt_inst_t *inst = &stage->insts.items[i];
      if (inst->kind == DT_INST_LOAD && dt_dtype_size(inst->dtype) > bytes &&
          dt__access_step(program, inst->buffer, inst->index, last) != DT_STEP_NONE)
        return false;
    }
    for (uint32_t i = 0; i < stage->stores.len; i++)
      if (dt_dtype_size(dt__program_buffer(program, stage->stores.items[i].buffer)->dtype) > bytes)
        return false;
  }
  return true;
}

static dt_status_t outer_teams(dt_program_t *program, dt_kernel_t *kernel,
                               const dt_target_t *target) {
  dt_schedule_t *schedule = &kernel->schedules.items[0];
  schedule->team = 1;
  schedule->unroll = 1;
  schedule->outer.block = schedule->lanes;
  if (dt__has_inner_loops(kernel) || dt__kernel_has_locals(program, kernel))
    return NULL;
  uint32_t unroll = MAP_UNROLL;
  if (lanes_are_narrow(program, kernel, HALF)) { // a vector of halves has 16 bytes, too
    schedule->lanes *= 2;
    schedule->outer.block *= 2;
    unroll /= 2;
  }
  uint32_t group = dt__target_warp(target);
  if (kernel->n_loops == 1) {
    schedule->team = MAP_GROUPS * group;
    schedule->unroll = unroll;
    schedule->most = target->map_blocks;
    schedule->outer.block = (int64_t)schedule->team * schedule->lanes * schedule->unroll;
    return NULL;
  }
  // Longer last loops get larger teams, so that all threads have something to do.
  const struct {
    uint32_t team, unroll, most;
  } maps[] = {{group, 1, 0}, {MAP_GROUPS * group, unroll, target->map_blocks}};
  dt_schedule_t own = *schedule;
  for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
    own.team = maps[i].team;
    own.unroll = maps[i].unroll;
    own.most = maps[i].most;
    own.outer.block = (int64_t)own.team * own.lanes * own.unroll;
    dt_sym_t extent = kernel->extents[kernel->n_loops - 1];
    dt_sym_t is_long =
        dt__sym_le(program->env, dt__sym_const(program->env, own.outer.block), extent);
    DT_TRY(prefer(program, kernel, own, is_long));
  }
  return tile_teams(program, kernel, target);
}

dt_status_t dt__schedule_teams(dt_program_t *program, dt_kernel_t *kernel,
                               const dt_target_t *target) {
  dt_schedule_t *schedule = &kernel->schedules.items[0];
  if (dt__schedule_is_product(schedule))
    return dt__matmul_teams(program, kernel, target);
  if (schedule->kind == DT_SCHEDULE_INNER_LANES)
    return inner_teams(program, kernel, target);
  if (schedule->kind == DT_SCHEDULE_OUTER_LANES)
    return outer_teams(program, kernel, target);
  schedule->team = 1;
  return NULL;
}
