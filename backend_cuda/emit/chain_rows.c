// SPDX-License-Identifier: Apache-2.0
// Rows of a chain, into slabs. Where they are short enough to stay in registers a part of a warp
// takes a row, so that all rows of a tile wait for memory at once:
//
//   team of 8:   lanes  0 … 7 │ 8 … 15 │ 16 … 23 │ 24 … 31     warp w, next pass: 32 rows further
//                row   w * 4  │ + 1    │ + 2     │ + 3
//
// All teams of a warp walk together: past the last row they do it again, and store nothing. Longer
// rows, and rows that vectors do not fit, are taken by whole warps, one after another.
#include "backend_cuda/emit/chain.h"
#include "backend_cuda/emit/ptx.h"
#include "backend_llvm/emit/aligned.h"
#include "backend_llvm/emit/grid.h"
#include "backend_llvm/emit/index.h"
#include "backend_llvm/emit/loops.h"
#include "backend_llvm/emit/resident.h"

#include <string.h>

#define ITEM DT_CHAIN_ITEM
#define PART DT_CHAIN_PART
#define ROUND DT_CHAIN_ROUND

static LLVMValueRef warp_of(dt_emit_t *m) {
  return LLVMBuildLShr(m->b, dt__chain_thread(m), dt__emit_i64(m, 5), "");
}

static LLVMValueRef lane_of(dt_emit_t *m) {
  return LLVMBuildAnd(m->b, dt__chain_thread(m), dt__emit_i64(m, DT_WARP - 1), "");
}

static LLVMValueRef lesser(dt_emit_t *m, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildSelect(m->b, LLVMBuildICmp(m->b, LLVMIntSLT, a, b, ""), a, b, "");
}

// Past the tile's last row that exists, at PART.
static LLVMValueRef end_of(dt_chain_item_t *t, LLVMValueRef extent) {
  dt_emit_t *m = t->k->m;
  return lesser(m, LLVMBuildNSWAdd(m->b, t->first_row, dt__emit_i64(m, t->tile_rows), ""), extent);
}

static void begin_version(dt_chain_item_t *t, LLVMValueRef rank, uint32_t team, uint32_t lanes,
                          bool aligned) {
  dt_body_t *k = t->k;
  k->lanes = lanes;
  k->aligned = aligned;
  k->team = team;
  k->rank = rank;
  k->item_level = ROUND;
}

// ---- A warp a row ---------------------------------------------------------------------------------
// Every warp has LOCALs of its own. `bases` is what they are for the first.
static void own_locals(dt_body_t *k, LLVMValueRef *bases) {
  dt_emit_t *m = k->m;
  uint32_t n = m->program.buffers.len;
  dt_sym_t *offsets = DT_ARENA_ARRAY(&m->arena, dt_sym_t, n + 1);
  if (!offsets) {
    dt__emit_fail(m, DT_NO_MEMORY());
    return;
  }
  LLVMValueRef bytes = dt__index_scalar(k, dt__scratch_layout(m, k->kernel, k->schedule, offsets));
  dt__body_at(k, PART);
  LLVMValueRef own = LLVMBuildMul(m->b, warp_of(m), bytes, "");
  for (uint32_t i = 0; i < n; i++)
    if (offsets[i].id)
      k->bases[i] = dt__emit_offset(m, dt__chain_address_anew(m, bases[i]), own);
}

// By vectors of so many lanes where `wanted` (i1; NULL: always).
static void walk_warps(dt_chain_item_t *t, LLVMValueRef wanted, uint32_t lanes, bool aligned) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  uint32_t m_loop = k->kernel->n_loops - 1, n = m->program.buffers.len;
  LLVMValueRef *bases = k->bases;
  k->bases = DT_ARENA_ARRAY(&m->arena, LLVMValueRef, n + 1);
  if (!k->bases) {
    k->bases = bases;
    dt__emit_fail(m, DT_NO_MEMORY());
    return;
  }
  memcpy(k->bases, bases, n * sizeof(*bases));
  LLVMValueRef extent = dt__index_scalar(k, k->kernel->extents[m_loop]);
  dt__scope_open(k, PART, wanted);
  own_locals(k, bases);
  k->base_level = PART;
  LLVMValueRef end = end_of(t, extent);
  LLVMValueRef start = LLVMBuildNSWAdd(m->b, t->first_row, warp_of(m), "");
  LLVMValueRef lane = lane_of(m);
  dt__chain_wait(t);
  LLVMValueRef row = dt__loop_open(k, ROUND, start, end, DT_CHAIN_WARPS);
  dt__bind_symbol(k, k->kernel->vars[m_loop], ROUND, row);
  begin_version(t, lane, DT_WARP, lanes, aligned);
  dt__stages_emit(k, false);
  dt__body_at(k, ROUND);
  if (dt__kernel_has_locals(&m->program, k->kernel))
    m->device->sync(k);
  dt__loop_close(k, ROUND);
  dt__scope_close(k, PART);
  k->bases = bases;
  k->base_level = ITEM;
}

// ---- Part of a warp a row -------------------------------------------------------------------------
static bool keeps_locals(dt_body_t *k) {
  for (uint32_t s = 0; s < k->kernel->stages.len; s++)
    for (uint32_t i = 0; i < k->kernel->stages.items[s].stores.len; i++) {
      dt_buffer_id_t id = k->kernel->stages.items[s].stores.items[i].buffer;
      if (dt__program_buffer(&k->m->program, id)->kind == DT_BUFFER_LOCAL &&
          !dt__resident_owns(k, id))
        return false;
    }
  return true;
}

// The access is to the row of a SLAB by neighbours, from its beginning, or to what registers hold.
static bool in_slab(dt_body_t *k, const dt_stage_t *stage, dt_buffer_id_t id, const dt_sym_t *index,
                    uint32_t mask) {
  dt_buffer_kind_t kind = dt__program_buffer(&k->m->program, id)->kind;
  return kind == DT_BUFFER_LOCAL || (kind == DT_BUFFER_SLAB && mask == DT_NO_INST &&
                                     dt__offset_aligned(k, dt__access_offset(k, id, index),
                                                        stage->vars[0], k->schedule->lanes));
}

// Rows that are in slabs alone: vectors may reach past their ends.
static bool is_ragged(dt_body_t *k) {
  for (uint32_t s = 0; s < k->kernel->stages.len; s++) {
    const dt_stage_t *stage = &k->kernel->stages.items[s];
    for (uint32_t i = 0; i < stage->insts.len; i++) {
      const dt_inst_t *inst = &stage->insts.items[i];
      if (dt__inst_reads(inst).id && (inst->kind != DT_INST_LOAD || !stage->n_loops ||
                                      !in_slab(k, stage, inst->buffer, inst->index, inst->mask)))
        return false;
    }
    for (uint32_t i = 0; i < stage->stores.len; i++) {
      const dt_store_t *store = &stage->stores.items[i];
      if (!stage->n_loops || !in_slab(k, stage, store->buffer, store->index, store->mask))
        return false;
    }
  }
  return true;
}

// Teams of so many threads, of which each has so many vectors of a row.
static void walk_teams(dt_chain_item_t *t, LLVMValueRef wanted, uint32_t team, uint32_t vectors,
                       bool ragged) {
  dt_body_t *k = t->k;
  const dt_schedule_t *schedule = k->schedule;
  dt_schedule_t own_schedule = *schedule;
  own_schedule.team = team;
  own_schedule.unroll = vectors;
  k->schedule = &own_schedule;
  dt_emit_t *m = k->m;
  uint32_t m_loop = k->kernel->n_loops - 1, in_warp = DT_WARP / team;
  LLVMValueRef extent = dt__index_scalar(k, k->kernel->extents[m_loop]), *bases = k->bases;
  dt__scope_open(k, PART, wanted);
  k->bases = dt__chain_shared_bases(t);
  if (!k->bases) {
    k->bases = bases;
    return;
  }
  k->base_level = PART;
  LLVMValueRef each = dt__emit_i64(m, in_warp), wide = dt__emit_i64(m, team);
  LLVMValueRef own = LLVMBuildUDiv(m->b, lane_of(m), wide, "");
  LLVMValueRef rank = LLVMBuildURem(m->b, lane_of(m), wide, "");
  LLVMValueRef start =
      LLVMBuildNSWAdd(m->b, t->first_row, LLVMBuildMul(m->b, warp_of(m), each, ""), "");
  LLVMValueRef last = LLVMBuildNSWSub(m->b, extent, dt__emit_i64(m, 1), "");
  dt__chain_wait(t);
  LLVMValueRef first =
      dt__loop_open(k, ROUND, start, end_of(t, extent), DT_CHAIN_WARPS * (int64_t)in_warp);
  dt__ptx_no_unroll(m);
  LLVMValueRef row = LLVMBuildNSWAdd(m->b, first, own, "");
  k->chain.live = LLVMBuildICmp(m->b, LLVMIntSLT, row, extent, "");
  dt__bind_symbol(k, k->kernel->vars[m_loop], ROUND, lesser(m, row, last));
  begin_version(t, rank, team, k->schedule->lanes, true);
  k->resident.ragged = ragged;
  dt__stages_emit(k, true);
  k->resident.ragged = false;
  k->chain.live = NULL;
  dt__body_at(k, ROUND);
  dt__loop_close(k, ROUND);
  dt__scope_close(k, PART);
  k->schedule = schedule;
  k->bases = bases;
  k->base_level = ITEM;
}

// Whether the row's length is one that so many threads and vectors hold; i1, at ITEM.
static LLVMValueRef is_short(dt_body_t *k, uint32_t team, uint32_t vectors) {
  dt_emit_t *m = k->m;
  uint32_t s = 0;
  while (!k->kernel->stages.items[s].n_loops)
    s++;
  LLVMValueRef extent = dt__index_scalar(k, k->kernel->stages.items[s].extents[0]);
  int64_t most = (int64_t)team * k->schedule->lanes * vectors;
  dt__body_at(k, ITEM);
  LLVMValueRef some = LLVMBuildICmp(m->b, LLVMIntSLE, dt__emit_i64(m, 1), extent, "");
  LLVMValueRef fits = LLVMBuildICmp(m->b, LLVMIntSLE, extent, dt__emit_i64(m, most), "");
  return LLVMBuildAnd(m->b, some, fits, "");
}

static bool is_known(LLVMValueRef condition, bool what) {
  return LLVMIsAConstantInt(condition) && (LLVMConstIntGetZExtValue(condition) != 0) == what;
}

static LLVMValueRef both(dt_emit_t *m, LLVMValueRef a, LLVMValueRef b) {
  return a && b ? LLVMBuildAnd(m->b, a, b, "") : a ? a : b;
}

// Code for rows that registers hold. Rows of unknown length get versions for more and more vectors,
// then for more threads, since what lies past a row's end costs as much as the row. Lengths that
// hardly ever come here (`covered`) get none. Returns which rows are left (i1). *all: short rows
// are all there are, but for alignment and slabs in global memory.
static LLVMValueRef short_rows(dt_chain_item_t *t, LLVMValueRef aligned, bool ragged, bool *all) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  uint32_t team = k->schedule->team, most = k->schedule->unroll;
  LLVMValueRef left = both(m, ragged ? NULL : aligned, t->chain->in_shared), taken = NULL;
  *all = is_known(is_short(k, team, most), true);
  for (uint32_t vectors = *all ? most : 1; team <= DT_WARP;) {
    if (*all || team * vectors * k->schedule->lanes > t->chain->covered) {
      LLVMValueRef fits = is_short(k, team, vectors), wanted = both(m, left, fits);
      if (!is_known(wanted, false))
        walk_teams(t, wanted, team, vectors, ragged);
      dt__body_at(k, ITEM);
      left = both(m, left, LLVMBuildNot(m->b, fits, ""));
      taken = taken ? LLVMBuildOr(m->b, taken, wanted, "") : wanted;
    }
    if (*all)
      break;
    team = vectors == most ? 2 * team : team;
    vectors = vectors * 2 < most ? vectors * 2 : most;
  }
  return taken ? LLVMBuildNot(m->b, taken, "") : LLVMConstInt(m->t_i1, 1, 0);
}

void dt__chain_rows(dt_chain_item_t *t) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  uint32_t lanes = t->chain->bare ? 1 : k->schedule->lanes;
  LLVMValueRef aligned = lanes > 1 ? dt__lanes_aligned(k, lanes) : NULL, left = NULL;
  bool resident = dt__schedule_is_resident(k->schedule) && lanes > 1 && keeps_locals(k),
       all = false;
  bool ragged = resident && is_ragged(k);
  if (ragged || (resident && aligned))
    left = short_rows(t, aligned, ragged, &all);
  if (aligned && !all) {
    walk_warps(t, both(m, left, aligned), lanes, true);
    dt__body_at(k, ITEM);
    left = both(m, left, LLVMBuildNot(m->b, aligned, ""));
  }
  if (!left || !is_known(left, false))
    walk_warps(t, left, 1, false);
  dt__body_at(k, ITEM);
  dt__cuda_block_sync(m);
}
