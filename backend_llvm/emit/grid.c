// SPDX-License-Identifier: Apache-2.0
// Sizes on which kernels and the host program must agree: grid axes and scratch. They are
// expressions, so that both sides emit code for the same thing.
#include "backend_llvm/emit/grid.h"
#include "backend_llvm/emit/body.h"
#include "backend_llvm/emit/matmul.h"

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
  int64_t enough = 4 * (int64_t)dt__target_threads(m->target);
  return dt__sym_le(m->env, dt__sym_const(m->env, enough), tiles);
}

void dt__matmul_tile(dt_emit_t *m, const dt_kernel_t *kernel, const dt_schedule_t *schedule,
                     dt_sym_t *out_rows, dt_sym_t *out_cols) {
  int64_t rows = schedule->product.tile_rows, cols = schedule->product.tile_cols;
  if (schedule->kind == DT_SCHEDULE_TEAM_MATMUL) { // there are schedules for several sizes instead
    *out_rows = dt__sym_const(m->env, rows);
    *out_cols = dt__sym_const(m->env, cols);
    return;
  }
  if (schedule->matmul.across.id) {
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

// Items of a chain for each processor, where there are so many tiles: all of them are then under
// way at once, and each has as many tiles as any other. `scripts/test-gpu
// run bench-models` shows its effect.
#define CHAIN_ITEMS 2

// There is always a group: makers may store more than slabs, whatever the head's columns are.
static dt_sym_t chain_groups(dt_emit_t *m, const dt_kernel_t *kernel, const dt_team_matmul_t *tile,
                             dt_sym_t rows, dt_sym_t cols) {
  dt_symenv_t *env = m->env;
  dt_sym_t one = dt__sym_const(env, 1), made = rows;
  if (cols.id == one.id)
    return one;
  for (uint32_t i = 0; i + 2 < kernel->n_loops; i++)
    made = dt__sym_mul(env, made, kernel->extents[i]);
  int64_t processors = dt__target_threads(m->target);
  if (dt__matmul_for_groups(tile))
    return dt__chain_groups(env, processors, made, cols);
  int64_t wanted = CHAIN_ITEMS * processors;
  dt_sym_t all = dt__sym_mul(env, made, cols);
  dt_sym_t each = dt__sym_ceildiv(env, all, dt__sym_const(env, wanted));
  return dt__sym_max(env, one, dt__sym_ceildiv(env, cols, dt__sym_max(env, one, each)));
}

uint32_t dt__grid_axes(dt_emit_t *m, const dt_kernel_t *kernel, const dt_schedule_t *schedule,
                       dt_sym_t *out_extents) {
  uint32_t n = kernel->n_loops;
  for (uint32_t i = 0; i < n; i++)
    out_extents[i] = kernel->extents[i];
  if (schedule->kind == DT_SCHEDULE_OUTER_LANES)
    out_extents[n - 1] = dt__sym_ceildiv(m->env, kernel->extents[n - 1],
                                         dt__sym_const(m->env, schedule->outer.block));
  if (schedule->kind == DT_SCHEDULE_OUTER_LANES && schedule->outer.beside)
    out_extents[n - 2] = dt__sym_const(m->env, 1);
  if (schedule->kind == DT_SCHEDULE_TILES)
    for (uint32_t i = n - 2; i < n; i++)
      out_extents[i] =
          dt__sym_ceildiv(m->env, kernel->extents[i], dt__sym_const(m->env, schedule->tiles.side));
  if (dt__schedule_is_product(schedule)) {
    dt_sym_t rows, cols;
    dt__matmul_tile(m, kernel, schedule, &rows, &cols);
    out_extents[n - 2] = dt__sym_ceildiv(m->env, kernel->extents[n - 1], cols);
    dt_sym_t all = kernel->extents[n - 2];
    if (schedule->kind == DT_SCHEDULE_MATMUL && schedule->matmul.across.id)
      all = dt__winograd_squares(m->env, all, schedule->matmul.across, NULL);
    out_extents[n - 1] = dt__sym_ceildiv(m->env, all, rows);
  }
  // Blocks of a cluster are neighbours in the grid.
  if (schedule->kind == DT_SCHEDULE_TEAM_MATMUL && schedule->team_matmul.cluster)
    out_extents[n - 1] = dt__sym_mul(m->env, out_extents[n - 1],
                                     dt__sym_const(m->env, schedule->team_matmul.cluster));
  if (kernel->chain && dt__schedule_is_product(schedule)) {
    dt_sym_t rows = out_extents[n - 1], cols = out_extents[n - 2];
    out_extents[n - 2] = rows;
    out_extents[n - 1] = chain_groups(m, kernel, &schedule->team_matmul, rows, cols);
  }
  return n;
}

// ---- Bundles --------------------------------------------------------------------------------------
uint32_t dt__bundle_threads(const dt_program_t *program, const dt_target_t *target,
                            dt_kernel_chain_t bundle) {
  uint32_t fewest = target->block_threads;
  for (uint32_t k = bundle.first; k < bundle.end; k++) {
    uint32_t team = program->kernels.items[k].schedules.items[0].team;
    fewest = team > dt__target_warp(target) && team < fewest ? team : fewest;
  }
  return fewest;
}

dt_sym_t dt__bundled_blocks(dt_emit_t *m, const dt_kernel_t *kernel, uint32_t threads) {
  const dt_schedule_t *schedule = &kernel->schedules.items[0];
  dt_sym_t axes[DT_MAX_LOOPS], blocks = dt__sym_const(m->env, 1);
  uint32_t n = dt__grid_axes(m, kernel, schedule, axes);
  for (uint32_t i = 0; i < n; i++)
    blocks = dt__sym_mul(m->env, blocks, axes[i]);
  blocks = dt__sym_ceildiv(m->env, blocks, dt__sym_const(m->env, threads / schedule->team));
  if (!schedule->most)
    return blocks;
  int64_t most = (int64_t)schedule->most * dt__target_threads(m->target);
  return dt__sym_min(m->env, blocks, dt__sym_const(m->env, most));
}

dt_sym_t dt__bundle_blocks(dt_emit_t *m, dt_kernel_chain_t bundle) {
  uint32_t threads = dt__bundle_threads(&m->program, m->target, bundle);
  dt_sym_t all = dt__sym_const(m->env, 0);
  for (uint32_t k = bundle.first; k < bundle.end; k++)
    all = dt__sym_add(m->env, all, dt__bundled_blocks(m, &m->program.kernels.items[k], threads));
  return all;
}

dt_sym_t dt__grid_grain(dt_emit_t *m, const dt_kernel_t *kernel, const dt_schedule_t *schedule) {
  int64_t grain = schedule->grain > 0 ? schedule->grain : 1;
  dt_sym_t own = dt__schedule_grain(&m->program, kernel, schedule);
  if (schedule->kind != DT_SCHEDULE_MATMUL || schedule->matmul.across.id)
    return own;
  int64_t fewer = grain / (DT_MATMUL_BIG_ROWS * DT_MATMUL_BIG_COLS);
  dt_sym_t of_big = dt__sym_const(m->env, fewer > 0 ? fewer : 1);
  return dt__sym_select(m->env, matmul_is_big(m, kernel, schedule), of_big, own);
}

static dt_sym_t round_up(dt_emit_t *m, dt_sym_t bytes) {
  dt_sym_t unit = dt__sym_const(m->env, 64);
  return dt__sym_mul(m->env, dt__sym_ceildiv(m->env, bytes, unit), unit);
}

// The matrix template keeps its copy of A's rows, then its C tile, then a panel that it packs, in
// front of the LOCAL buffers; that of a team has memory of its own.
static int64_t matmul_bytes(const dt_kernel_t *kernel, const dt_schedule_t *schedule) {
  if (schedule->kind != DT_SCHEDULE_MATMUL)
    return 0;
  int64_t element = (int64_t)dt_dtype_size(kernel->stages.items[0].reductions.items[0].dtype);
  const dt_matmul_t *matmul = &schedule->matmul;
  if (matmul->across.id)
    return dt__winograd_bytes(matmul, (size_t)element);
  return dt__matmul_a_bytes(matmul, (size_t)element) + dt__matmul_c_bytes(matmul, (size_t)element) +
         dt__matmul_panel_bytes(kernel, matmul, (size_t)element);
}

typedef DT_VEC(uint32_t) buffers_t; // [id - 1]

static bool add_used(dt_emit_t *m, buffers_t *used, dt_buffer_kind_t kind, dt_buffer_id_t id) {
  if (!id.id || dt__program_buffer(&m->program, id)->kind != kind)
    return true;
  for (uint32_t i = 0; i < used->len; i++)
    if (used->items[i] == id.id - 1)
      return true;
  if (!DT_VEC_PUSH(&m->arena, used, id.id - 1))
    return false;
  for (uint32_t i = used->len - 1; i && used->items[i - 1] > used->items[i]; i--) {
    uint32_t kept = used->items[i];
    used->items[i] = used->items[i - 1];
    used->items[i - 1] = kept;
  }
  return true;
}

// Adds buffers of `kind` that the kernel uses, in the program's order.
static void find_used(dt_emit_t *m, const dt_kernel_t *kernel, dt_buffer_kind_t kind,
                      buffers_t *used) {
  bool good = true;
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    for (uint32_t i = 0; i < stage->insts.len && good; i++)
      if (stage->insts.items[i].kind == DT_INST_LOAD)
        good = add_used(m, used, kind, stage->insts.items[i].buffer);
    for (uint32_t i = 0; i < stage->stores.len && good; i++)
      good = add_used(m, used, kind, stage->stores.items[i].buffer);
  }
  if (!good)
    dt__emit_fail(m, DT_NO_MEMORY());
}

// From `at` on; where that ends. `out_offsets` may be NULL.
static dt_sym_t place_locals(dt_emit_t *m, const dt_kernel_t *kernel, const dt_schedule_t *schedule,
                             dt_sym_t base, dt_sym_t *out_offsets) {
  dt_sym_t at = dt__sym_const(m->env, matmul_bytes(kernel, schedule));
  buffers_t used = {0};
  find_used(m, kernel, DT_BUFFER_LOCAL, &used);
  bool lanes = schedule->kind == DT_SCHEDULE_OUTER_LANES || dt__schedule_is_product(schedule);
  int64_t copies = lanes ? dt__local_stride(schedule) : 1;
  for (uint32_t i = 0; i < used.len; i++) {
    const dt_buffer_t *buffer = &m->program.buffers.items[used.items[i]];
    dt_sym_t count = dt__buffer_count(&m->program, (dt_buffer_id_t){used.items[i] + 1});
    dt_sym_t each = dt__sym_const(m->env, (int64_t)dt_dtype_size(buffer->dtype) * copies);
    if (out_offsets)
      out_offsets[used.items[i]] = base.id ? dt__sym_add(m->env, base, at) : at;
    at = dt__sym_add(m->env, at, round_up(m, dt__sym_mul(m->env, count, each)));
  }
  return at;
}

dt_sym_t dt__scratch_layout(dt_emit_t *m, const dt_kernel_t *kernel, const dt_schedule_t *schedule,
                            dt_sym_t *out_offsets) {
  return place_locals(m, kernel, schedule, DT_SYM_NONE_ID, out_offsets);
}

// ---- Chains ---------------------------------------------------------------------------------------
dt_sym_t dt__slab_pitch(dt_emit_t *m, const dt_buffer_t *slab) {
  dt_symenv_t *env = m->env;
  int64_t element = (int64_t)dt_dtype_size(slab->dtype), pad = m->target->slab_pad;
  dt_sym_t part = dt__sym_const(env, m->target->slab_unit / element);
  dt_sym_t parts = dt__sym_ceildiv(env, slab->sizes[slab->rank - 1], part);
  return dt__sym_add(env, dt__sym_mul(env, parts, part), dt__sym_const(env, pad / element));
}

// Offsets of what member `k` has for itself, from `at` on; its bytes.
static dt_sym_t member_scratch(dt_emit_t *m, const dt_kernel_t *kernel,
                               const dt_schedule_t *schedule, dt_sym_t at, dt_sym_t *out_offsets) {
  dt_sym_t bytes = place_locals(m, kernel, schedule, at, out_offsets);
  bool rows = !dt__schedule_is_product(schedule);
  return rows ? dt__sym_mul(m->env, bytes, dt__sym_const(m->env, dt__target_groups(m->target)))
              : bytes;
}

static dt_sym_t place_slabs(dt_emit_t *m, dt_kernel_chain_t chain, const dt_schedule_t *schedule,
                            dt_sym_t *out_offsets) {
  dt_sym_t at = dt__sym_const(m->env, 0);
  dt_sym_t rows = dt__sym_const(m->env, schedule->product.tile_rows);
  buffers_t used = {0};
  for (uint32_t k = chain.first; k < chain.end; k++)
    find_used(m, &m->program.kernels.items[k], DT_BUFFER_SLAB, &used);
  for (uint32_t i = 0; i < used.len; i++) {
    if (out_offsets)
      out_offsets[used.items[i]] = at;
    const dt_buffer_t *slab = &m->program.buffers.items[used.items[i]];
    dt_sym_t row = dt__sym_mul(m->env, dt__slab_pitch(m, slab),
                               dt__sym_const(m->env, (int64_t)dt_dtype_size(slab->dtype)));
    at = dt__sym_add(m->env, at, round_up(m, dt__sym_mul(m->env, rows, row)));
  }
  return at;
}

dt_sym_t dt__chain_scratch(dt_emit_t *m, uint32_t head, uint32_t s, dt_sym_t *out_offsets) {
  dt_kernel_chain_t chain = dt__kernel_chain(&m->program, head);
  const dt_kernel_t *kernels = m->program.kernels.items;
  if (dt__chain_is_bundle(&m->program, chain))
    return dt__sym_const(m->env, 0);
  if (!kernels[head].chain)
    return dt__scratch_layout(m, &kernels[head], &kernels[head].schedules.items[s], out_offsets);
  const dt_schedule_t *schedule = &kernels[head].schedules.items[s];
  if (schedule->kind == DT_SCHEDULE_TEAM_MATMUL && schedule->team_matmul.keys)
    return dt__sym_const(m->env, 0); // no row is ever there as a whole
  dt_sym_t slabs = place_slabs(m, chain, schedule, out_offsets);
  dt_sym_t most = dt__sym_const(m->env, 0);
  for (uint32_t k = chain.first; k < chain.end; k++)
    most = dt__sym_max(
        m->env, most,
        member_scratch(m, &kernels[k], &kernels[k].schedules.items[s], slabs, out_offsets));
  return dt__sym_add(m->env, slabs, most);
}
