// SPDX-License-Identifier: Apache-2.0
// Sizes on which kernels and the host program must agree: grid axes and scratch. As expressions, so
// that both sides make code of the same thing.
#include "backend_llvm/emit/body.h"

// 1 where tiles of the larger size are enough for every thread to have several.
static dt_sym_t matmul_is_big(dt_emit_t *m, const dt_kernel_t *kernel,
                              const dt_schedule_t *schedule) {
  uint32_t n = kernel->n_loops;
  dt_sym_t rows = dt__sym_const(m->env, (int64_t)schedule->matmul.tile_rows * DT_MATMUL_BIG_ROWS);
  dt_sym_t cols = dt__sym_const(m->env, dt__matmul_c_stride(&schedule->matmul));
  dt_sym_t tiles = dt__sym_mul(m->env, dt__sym_ceildiv(m->env, kernel->extents[n - 2], rows),
                               dt__sym_ceildiv(m->env, kernel->extents[n - 1], cols));
  for (uint32_t i = 0; i + 2 < n; i++)
    tiles = dt__sym_mul(m->env, tiles, kernel->extents[i]);
  int64_t enough = 4 * (int64_t)(m->target->threads ? m->target->threads : 1);
  return dt__sym_le(m->env, dt__sym_const(m->env, enough), tiles);
}

void dt__matmul_tile(dt_emit_t *m, const dt_kernel_t *kernel, const dt_schedule_t *schedule,
                     dt_sym_t *out_rows, dt_sym_t *out_cols) {
  int64_t rows = schedule->matmul.tile_rows, cols = schedule->matmul.tile_cols;
  if (schedule->team) { // there are schedules for several sizes instead
    *out_rows = dt__sym_const(m->env, rows);
    *out_cols = dt__sym_const(m->env, cols);
    return;
  }
  dt_sym_t big = matmul_is_big(m, kernel, schedule);
  *out_rows = dt__sym_select(m->env, big, dt__sym_const(m->env, rows * DT_MATMUL_BIG_ROWS),
                             dt__sym_const(m->env, rows));
  *out_cols = dt__sym_select(m->env, big, dt__sym_const(m->env, cols * DT_MATMUL_BIG_COLS),
                             dt__sym_const(m->env, cols));
}

uint32_t dt__grid_axes(dt_emit_t *m, const dt_kernel_t *kernel, const dt_schedule_t *schedule,
                       dt_sym_t *out_extents) {
  uint32_t n = kernel->n_loops;
  for (uint32_t i = 0; i < n; i++)
    out_extents[i] = kernel->extents[i];
  if (schedule->kind == DT_SCHEDULE_OUTER_LANES)
    out_extents[n - 1] =
        dt__sym_ceildiv(m->env, kernel->extents[n - 1], dt__sym_const(m->env, schedule->block));
  if (schedule->kind == DT_SCHEDULE_TILES)
    for (uint32_t i = n - 2; i < n; i++)
      out_extents[i] =
          dt__sym_ceildiv(m->env, kernel->extents[i], dt__sym_const(m->env, schedule->block));
  if (schedule->kind == DT_SCHEDULE_MATMUL) {
    dt_sym_t rows, cols;
    dt__matmul_tile(m, kernel, schedule, &rows, &cols);
    out_extents[n - 2] = dt__sym_ceildiv(m->env, kernel->extents[n - 1], cols);
    out_extents[n - 1] = dt__sym_ceildiv(m->env, kernel->extents[n - 2], rows);
  }
  return n;
}

dt_sym_t dt__grid_grain(dt_emit_t *m, const dt_kernel_t *kernel, const dt_schedule_t *schedule) {
  int64_t grain = schedule->grain > 0 ? schedule->grain : 1;
  dt_sym_t own = dt__sym_const(m->env, grain);
  if (schedule->kind != DT_SCHEDULE_MATMUL || schedule->team)
    return own;
  int64_t fewer = grain / (DT_MATMUL_BIG_ROWS * DT_MATMUL_BIG_COLS);
  dt_sym_t of_big = dt__sym_const(m->env, fewer > 0 ? fewer : 1);
  return dt__sym_select(m->env, matmul_is_big(m, kernel, schedule), of_big, own);
}

static dt_sym_t round_up(dt_emit_t *m, dt_sym_t bytes) {
  dt_sym_t unit = dt__sym_const(m->env, 64);
  return dt__sym_mul(m->env, dt__sym_ceildiv(m->env, bytes, unit), unit);
}

// The matrix template keeps its copy of A's rows, then its C tile, in front of the LOCAL buffers;
// that of a team has memory of its own.
static int64_t matmul_bytes(const dt_kernel_t *kernel, const dt_schedule_t *schedule) {
  if (schedule->kind != DT_SCHEDULE_MATMUL || schedule->team)
    return 0;
  int64_t element = (int64_t)dt_dtype_size(kernel->stages.items[0].folds.items[0].dtype);
  const dt_matmul_t *matmul = &schedule->matmul;
  int64_t c =
      (int64_t)matmul->tile_rows * DT_MATMUL_BIG_ROWS * dt__matmul_c_stride(matmul) * element;
  return dt__matmul_a_bytes(matmul, (size_t)element) + ((c + 63) & ~(int64_t)63);
}

static void mark_local(const dt_emit_t *m, bool *used, dt_buffer_id_t id) {
  if (id.id && dt__program_buffer(&m->program, id)->kind == DT_BUFFER_LOCAL)
    used[id.id - 1] = true;
}

static void mark_locals(const dt_emit_t *m, const dt_kernel_t *kernel, bool *used) {
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    for (uint32_t i = 0; i < stage->insts.len; i++)
      if (stage->insts.items[i].kind == DT_INST_LOAD)
        mark_local(m, used, stage->insts.items[i].buffer);
    for (uint32_t i = 0; i < stage->stores.len; i++)
      mark_local(m, used, stage->stores.items[i].buffer);
  }
}

dt_sym_t dt__scratch_layout(dt_emit_t *m, const dt_kernel_t *kernel, const dt_schedule_t *schedule,
                            dt_sym_t *out_offsets) {
  dt_sym_t at = dt__sym_const(m->env, matmul_bytes(kernel, schedule));
  bool *used = DT_ARENA_ARRAY(&m->arena, bool, m->program.buffers.len + 1);
  if (!used) {
    dt__emit_fail(m, DT_NO_MEMORY());
    return at;
  }
  mark_locals(m, kernel, used);
  bool lanes = schedule->kind == DT_SCHEDULE_OUTER_LANES || schedule->kind == DT_SCHEDULE_MATMUL;
  int64_t copies = lanes ? dt__local_stride(schedule) : 1;
  for (uint32_t i = 0; i < m->program.buffers.len; i++) {
    if (!used[i])
      continue;
    const dt_buffer_t *buffer = &m->program.buffers.items[i];
    dt_sym_t count = dt__buffer_count(&m->program, (dt_buffer_id_t){i + 1});
    dt_sym_t each = dt__sym_const(m->env, (int64_t)dt_dtype_size(buffer->dtype) * copies);
    if (out_offsets)
      out_offsets[i] = at;
    at = dt__sym_add(m->env, at, round_up(m, dt__sym_mul(m->env, count, each)));
  }
  return at;
}
