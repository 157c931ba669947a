// SPDX-License-Identifier: Apache-2.0
// Sizes on which kernels and the host program must agree: grid axes and scratch. As expressions, so
// that both sides make code of the same thing.
#include "backend_llvm/emit/body.h"

uint32_t dt__grid_axes(dt_emit_t *m, const dt_kernel_t *kernel, const dt_schedule_t *schedule,
                       dt_sym_t *out_extents) {
  uint32_t n = kernel->n_loops;
  for (uint32_t i = 0; i < n; i++)
    out_extents[i] = kernel->extents[i];
  if (schedule->kind == DT_SCHEDULE_OUTER_LANES)
    out_extents[n - 1] =
        dt__sym_ceildiv(m->env, kernel->extents[n - 1], dt__sym_const(m->env, schedule->block));
  if (schedule->kind == DT_SCHEDULE_MATMUL) {
    dt_sym_t rows = dt__sym_const(m->env, schedule->matmul.tile_rows);
    dt_sym_t cols = dt__sym_const(m->env, schedule->matmul.tile_cols);
    out_extents[n - 2] = dt__sym_ceildiv(m->env, kernel->extents[n - 1], cols);
    out_extents[n - 1] = dt__sym_ceildiv(m->env, kernel->extents[n - 2], rows);
  }
  return n;
}

static dt_sym_t round_up(dt_emit_t *m, dt_sym_t bytes) {
  dt_sym_t unit = dt__sym_const(m->env, 64);
  return dt__sym_mul(m->env, dt__sym_ceildiv(m->env, bytes, unit), unit);
}

// The matrix template keeps its copy of A's rows, then its C tile, in front of the LOCAL buffers.
static int64_t matmul_bytes(const dt_kernel_t *kernel, const dt_schedule_t *schedule) {
  if (schedule->kind != DT_SCHEDULE_MATMUL)
    return 0;
  int64_t element = (int64_t)dt_dtype_size(kernel->stages.items[0].folds.items[0].dtype);
  const dt_matmul_t *matmul = &schedule->matmul;
  int64_t a = matmul->tile_rows * dt__matmul_a_stride((size_t)element) * element;
  int64_t c = (int64_t)matmul->tile_rows * matmul->tile_cols * element;
  return ((a + 63) & ~(int64_t)63) + ((c + 63) & ~(int64_t)63);
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
  int64_t copies = lanes ? (int64_t)schedule->lanes * schedule->unroll : 1;
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
