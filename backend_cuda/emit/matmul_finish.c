// SPDX-License-Identifier: Apache-2.0
// The stages after the product, over the C tile in shared memory. Threads stand side by side along
// rows, each with a few vectors of its own, and in as many rows as there are threads for. All loads
// for those vectors are under way before the first of them is stored. Stores take vectors where
// these are aligned, else single elements; each call of a kernel decides that apart from how
// operands are copied.
#include "backend_cuda/emit/matmul.h"
#include "backend_cuda/emit/ptx.h"
#include "backend_llvm/emit/aligned.h"
#include "backend_llvm/emit/index.h"
#include "backend_llvm/emit/loops.h"

#include <string.h>

#define VECTORS 4 // of a thread at once

// The sum of what the blocks' slices have of this vector, in their order.
static LLVMValueRef add_slices(dt_tile_t *t, LLVMValueRef at, uint32_t plus) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  uint32_t bytes = k->lanes * (uint32_t)dt_dtype_size(t->plan.dtype), parts = t->plan.parts;
  uint32_t all_parts = parts * dt__matmul_cluster(t->plan.matmul);
  LLVMValueRef all = NULL;
  for (uint32_t s = 0; s < all_parts; s++) {
    LLVMValueRef from = dt__matmul_shared(t, at, plus + s % parts * t->plan.c_bytes);
    if (t->rank)
      from = dt__ptx_cluster_place(m, from, dt__emit_i32(m, s / parts));
    LLVMValueRef one =
        dt__emit_load_at(m, t->plan.dtype, k->lanes, from, bytes < 16 ? bytes : 16, false);
    if (!all)
      all = one;
    else
      all = dt__dtype_is_float(t->plan.dtype) ? LLVMBuildFAdd(m->b, all, one, "")
                                              : LLVMBuildAdd(m->b, all, one, "");
  }
  return all;
}

// The first stage's row value in the lanes of these vectors.
static void load_sums(dt_body_t *k, void *user) {
  dt_tile_t *t = user;
  dt_emit_t *m = k->m;
  uint32_t element = (uint32_t)dt_dtype_size(t->plan.dtype);
  dt__body_at(k, k->lane_level);
  LLVMValueRef col = LLVMBuildSub(m->b, k->lane_base, t->first_col, "");
  col = LLVMBuildTrunc(m->b, col, m->t_i32, "");
  LLVMValueRef at = LLVMBuildAdd(m->b, dt__matmul_step(t, t->row, t->plan.c_pitch, 0),
                                 dt__matmul_step(t, col, element, 0), "");
  dt_lanes_t *row = &k->rows[k->kernel->stages.items[0].reductions.items[0].row];
  row->varying = true;
  for (uint32_t c = 0; c < k->copies; c++)
    row->v[c] = add_slices(t, at, c * k->lanes * k->team * element);
}

static LLVMValueRef end_of(dt_tile_t *t, LLVMValueRef first, uint32_t length, LLVMValueRef extent) {
  dt_emit_t *m = t->k->m;
  LLVMValueRef end = LLVMBuildNSWAdd(m->b, first, dt__emit_i64(m, length), "");
  LLVMValueRef less = LLVMBuildICmp(m->b, LLVMIntSLT, extent, end, "");
  return LLVMBuildSelect(m->b, less, extent, end, "");
}

// How many vectors a thread takes of one row. There are fewer where rows would be left without
// threads, or registers would not do for what slices have of them. It is one where vectors are
// single elements, where a chain's other members need the registers, and where there are LOCAL
// elements, of which a thread holds one vector. A block of a cluster has its part of the rows.
static uint32_t vectors_of(const dt_tile_t *t, uint32_t lanes) {
  const dt_team_matmul_t *tile = t->plan.matmul;
  uint32_t n = dt_dtype_size(t->plan.dtype) > 4 ? VECTORS / 2 : VECTORS;
  uint32_t rows = tile->tile_rows / dt__matmul_cluster(tile);
  uint32_t across = tile->tile_cols / lanes;
  if (lanes == 1 || t->k->kernel->chain || dt__kernel_has_locals(&t->k->m->program, t->k->kernel))
    return 1;
  while (n > 1 && (across % n || t->plan.threads / (across / n) > rows))
    n /= 2;
  return n;
}

static void finish_rows(dt_tile_t *t, uint32_t lanes, bool aligned) {
  dt_body_t *k = t->k, before = *k;
  dt_emit_t *m = k->m;
  const dt_team_matmul_t *tile = t->plan.matmul;
  dt_schedule_t own = *k->schedule;
  own.unroll = vectors_of(t, lanes);
  uint32_t across = tile->tile_cols / lanes / own.unroll, down = t->plan.threads / across;
  LLVMValueRef rows = dt__index_scalar(k, t->plan.a.extent);
  LLVMValueRef cols = dt__index_scalar(k, t->plan.b.extent);
  dt__body_at(k, t->level + 1);
  t->tid = dt__ptx_thread(m);
  LLVMValueRef wide = dt__emit_i32(m, across);
  LLVMValueRef own_row = LLVMBuildUDiv(m->b, t->tid, wide, "");
  uint32_t block_rows = tile->tile_rows / dt__matmul_cluster(tile);
  LLVMValueRef first = t->first_row;
  if (t->rank) {
    LLVMValueRef above = dt__matmul_step(t, t->rank, block_rows, 0);
    first = LLVMBuildNSWAdd(m->b, first, LLVMBuildZExt(m->b, above, m->t_i64, ""), "");
  }
  LLVMValueRef start = LLVMBuildNSWAdd(m->b, first, LLVMBuildZExt(m->b, own_row, m->t_i64, ""), "");
  k->schedule = &own;
  k->lanes = lanes;
  k->aligned = aligned;
  k->team = across;
  k->rank = LLVMBuildZExt(m->b, LLVMBuildURem(m->b, t->tid, wide, ""), m->t_i64, "");
  LLVMValueRef last_row = end_of(t, first, block_rows, rows);
  if (down * across < t->plan.threads) { // those that are left have nothing
    LLVMValueRef some = LLVMBuildICmp(m->b, LLVMIntULT, own_row, dt__emit_i32(m, down), "");
    start = LLVMBuildSelect(m->b, some, start, last_row, "");
  }
  LLVMValueRef last_col = end_of(t, t->first_col, tile->tile_cols, cols);
  uint32_t level = t->level + 2;
  LLVMValueRef at = dt__loop_open(k, level, start, last_row, down);
  dt__bind_symbol(k, t->plan.a.var, level, at);
  t->row = LLVMBuildTrunc(m->b, LLVMBuildSub(m->b, at, t->first_row, ""), m->t_i32, "");
  k->item_level = level;
  dt__outer_vectors(k, t->first_col, last_col, own.unroll == 1, 1, k->kernel->stages.len, load_sums,
                    t);
  dt__loop_close(k, level);
  k->schedule = before.schedule;
  k->lanes = before.lanes;
  k->aligned = before.aligned;
  k->team = before.team;
  k->rank = before.rank;
  k->item_level = before.item_level;
}

// Every thread has its own copies of LOCAL elements, side by side.
static void own_locals(dt_tile_t *t) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  uint32_t lanes = k->schedule->lanes * k->schedule->unroll;
  for (uint32_t i = 0; i < m->program.buffers.len; i++) {
    const dt_buffer_t *buffer = &m->program.buffers.items[i];
    if (buffer->kind != DT_BUFFER_LOCAL || !k->bases[i])
      continue;
    int64_t bytes = (int64_t)lanes * (int64_t)dt_dtype_size(buffer->dtype);
    LLVMValueRef own = LLVMBuildZExt(m->b, dt__ptx_thread(m), m->t_i64, "");
    own = LLVMBuildMul(m->b, own, dt__emit_i64(m, bytes), "");
    k->bases[i] = dt__emit_offset(m, k->bases[i], own);
  }
}

void dt__matmul_finish(dt_tile_t *t) {
  dt_body_t *k = t->k;
  uint32_t lanes = k->schedule->lanes, n = k->m->program.buffers.len;
  LLVMValueRef aligned = lanes > 1 ? dt__lanes_aligned(k, lanes) : NULL;
  LLVMValueRef *bases = DT_ARENA_ARRAY(&k->m->arena, LLVMValueRef, n + 1);
  if (!bases) {
    dt__emit_fail(k->m, DT_NO_MEMORY());
    return;
  }
  memcpy(bases, k->bases, n * sizeof(*bases));
  dt__body_at(k, t->level);
  own_locals(t);
  if (aligned) {
    dt__scope_open(k, t->level + 1, aligned);
    finish_rows(t, lanes, true);
    dt__scope_close(k, t->level + 1);
    aligned = LLVMBuildNot(k->m->b, aligned, "");
  }
  dt__scope_open(k, t->level + 1, aligned);
  finish_rows(t, 1, false);
  dt__scope_close(k, t->level + 1);
  memcpy(k->bases, bases, n * sizeof(*bases));
}
