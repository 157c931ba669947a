// SPDX-License-Identifier: Apache-2.0
// See teams.h.
//
//   INNER_LANES  a row is walked by a warp, or by a block where it is long
//   OUTER_LANES  maps over one loop: a block takes neighbouring vectors; over several: a warp where
//                the last loop is long enough for it, else each thread takes a vector of its own.
//                With loops inside each thread walks them for its own vector
//   SERIAL       each thread takes an iteration
//   MATMUL       a block takes a tile (operands_device.c)
#include "fuse/teams.h"

#include "fuse/operands.h"
#include "runtime/base/status.h"

#define WARP 32
#define LONG_ROW 1024 // elements from which a row is worth a block
#define MAP_UNROLL 2  // vectors of a thread under way at once
#define ROW_UNROLL 4

static bool has_inner_loops(const dt_kernel_t *kernel) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    if (kernel->stages.items[s].n_loops)
      return true;
  return false;
}

static bool has_locals(const dt_program_t *program, const dt_kernel_t *kernel) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].stores.len; i++) {
      dt_buffer_id_t id = kernel->stages.items[s].stores.items[i].buffer;
      if (dt__program_buffer(program, id)->kind == DT_BUFFER_LOCAL)
        return true;
    }
  return false;
}

// Puts `first` before the schedule that the kernel has, to be taken where `predicate` holds; a
// predicate that is known decides now.
static dt_status_t prefer(dt_program_t *program, dt_kernel_t *kernel, dt_schedule_t first,
                          dt_sym_t predicate) {
  dt_schedule_t *last = &kernel->schedules.items[0];
  int64_t holds = 0;
  if (dt__sym_is_const(program->env, predicate, &holds)) {
    if (holds)
      *last = first;
    return NULL;
  }
  dt_schedule_t second = *last;
  first.predicate = predicate;
  *last = first;
  return DT_VEC_PUSH(program->arena, &kernel->schedules, second) ? NULL : DT_NO_MEMORY();
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

static dt_status_t inner_teams(dt_program_t *program, dt_kernel_t *kernel,
                               const dt_target_t *target) {
  dt_schedule_t *schedule = &kernel->schedules.items[0];
  if (schedule->unroll > ROW_UNROLL)
    schedule->unroll = ROW_UNROLL;
  schedule->team = target->block_threads;
  dt_schedule_t warp = *schedule;
  warp.team = WARP;
  dt_sym_t is_short = dt__sym_le(program->env, row_length(program, kernel),
                                 dt__sym_const(program->env, LONG_ROW));
  return prefer(program, kernel, warp, is_short);
}

static dt_status_t outer_teams(dt_program_t *program, dt_kernel_t *kernel,
                               const dt_target_t *target) {
  dt_schedule_t *schedule = &kernel->schedules.items[0];
  schedule->team = 1;
  schedule->unroll = 1;
  schedule->block = schedule->lanes;
  if (has_inner_loops(kernel) || has_locals(program, kernel))
    return NULL;
  if (kernel->n_loops == 1) {
    schedule->team = target->block_threads;
    schedule->unroll = MAP_UNROLL;
    schedule->block = (int64_t)schedule->team * schedule->lanes * schedule->unroll;
    return NULL;
  }
  dt_schedule_t warp = *schedule;
  warp.team = WARP;
  warp.block = (int64_t)WARP * warp.lanes;
  dt_sym_t extent = kernel->extents[kernel->n_loops - 1];
  dt_sym_t is_long =
      dt__sym_le(program->env, dt__sym_const(program->env, warp.block), extent);
  return prefer(program, kernel, warp, is_long);
}

dt_status_t dt__schedule_teams(dt_program_t *program, dt_kernel_t *kernel,
                               const dt_target_t *target) {
  dt_schedule_t *schedule = &kernel->schedules.items[0];
  if (schedule->kind == DT_SCHEDULE_MATMUL)
    return dt__matmul_teams(program, kernel, target);
  if (schedule->kind == DT_SCHEDULE_INNER_LANES)
    return inner_teams(program, kernel, target);
  if (schedule->kind == DT_SCHEDULE_OUTER_LANES)
    return outer_teams(program, kernel, target);
  schedule->team = 1;
  return NULL;
}
