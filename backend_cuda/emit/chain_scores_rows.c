// SPDX-License-Identifier: Apache-2.0
// What follows the products of a chain whose scores stay in registers: scores out of the first
// one's sums, the row kernel on them, which leaves operand A of the second, and the stages after
// that one.
#include "backend_cuda/emit/chain_scores.h"
#include "backend_cuda/emit/ptx.h"
#include "backend_llvm/emit/index.h"
#include "backend_llvm/emit/loops.h"
#include "backend_llvm/emit/reductions.h"
#include "backend_llvm/emit/resident.h"

#include <string.h>

// ---- What follows a product -----------------------------------------------------------------------
static void load_group(dt_body_t *k, void *user) {
  dt_scores_t *s = user;
  dt_emit_t *m = k->m;
  dt_lanes_t *row = &k->rows[k->kernel->stages.items[0].reductions.items[0].row];
  dt__body_at(k, k->lane_level);
  row->varying = true;
  row->v[0] = LLVMGetPoison(LLVMVectorType(m->t_f32, k->lanes));
  for (uint32_t i = 0; i < k->lanes; i++)
    row->v[0] = LLVMBuildInsertElement(m->b, row->v[0], s->group[s->first + i], i32(m, i), "");
}

// The later stages on s->group, the elements from column `at` (i64) on, by so many lanes.
static void follow(dt_scores_t *s, LLVMValueRef at, uint32_t lanes) {
  dt_body_t *k = s->k;
  k->lanes = lanes;
  k->aligned = lanes > 1;
  k->item_level = ROUND;
  dt__outer_vector(k, at, 1, 1, k->kernel->stages.len, load_group, s);
  k->outer_lanes = k->axis = false;
}

// Rows are short here.
static LLVMValueRef columns_end(dt_scores_t *s) {
  return LLVMBuildTrunc(s->m->b, s->extent_n, s->m->t_i32, "");
}

LLVMValueRef dt__scores_column(dt_scores_t *s, uint32_t c) {
  dt_emit_t *m = s->m;
  LLVMValueRef col = add(m, times(m, s->warp_col, BLOCK), times(m, s->quad_lane, LANES));
  return add(m, col, i32(m, c * BLOCK * s->warps_n));
}

// Four scores of row r: vectors that reach past the row's end are computed at its last columns.
static LLVMValueRef score_group(dt_scores_t *s, uint32_t r, uint32_t c) {
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  uint32_t lanes = s->whole ? LANES : 1;
  LLVMTypeRef type = dt__emit_type(m, dt__program_buffer(&m->program, s->made)->dtype);
  LLVMValueRef out = LLVMGetPoison(LLVMVectorType(type, LANES));
  for (uint32_t i = 0; i < LANES; i++)
    s->group[i] = s->sums[(c * 2 + i / 2) * 4 + r * 2 + i % 2];
  LLVMValueRef last = LLVMBuildSub(m->b, columns_end(s), i32(m, lanes), "");
  if (s->first_col)
    last = LLVMBuildSub(m->b, s->extent_n, dt__emit_i64(m, lanes), "");
  for (s->first = 0; s->first < LANES; s->first += lanes) {
    dt__body_at(k, ROUND);
    LLVMValueRef at = add(m, dt__scores_column(s, c), i32(m, s->first));
    if (s->first_col)
      at = LLVMBuildNSWAdd(m->b, wide(m, at), s->first_col, "");
    at = s->full ? at : lesser(m, at, last);
    follow(s, s->first_col ? at : wide(m, at), lanes);
    dt__body_at(k, ROUND);
    if (lanes == LANES)
      return k->resident.held_value;
    LLVMValueRef one = LLVMBuildExtractElement(m->b, k->resident.held_value, i32(m, 0), "");
    out = LLVMBuildInsertElement(m->b, out, one, i32(m, s->first), "");
  }
  return out;
}

void dt__scores_make(dt_scores_t *s) {
  dt_body_t *k = s->k;
  if (!dt__scores_take(s, s->score, s->schedules[0]))
    return;
  dt__scores_begin_stage(s);
  k->resident.held = s->made;
  for (uint32_t r = 0; r < (s->low_rows ? 1U : 2U) && !s->m->failure; r++) {
    dt__level_enter(k, ROUND);
    dt__bind_symbol(k, s->score_plan.a.var, ROUND, s->row[r]);
    for (uint32_t c = 0; c < s->vectors && !s->m->failure; c++)
      s->values[r][c] = score_group(s, r, c);
    dt__level_leave(k, ROUND);
  }
  s->first = 0;
  k->resident.held = (dt_buffer_id_t){0};
}

// ---- Rows -----------------------------------------------------------------------------------------
// What is known of one of the thread's two rows.
typedef struct row_t {
  dt_lanes_t *values;
  DT_VEC(dt_resident_t) kept;
} row_t;

// Where a stage reads (weights: stores) the SLAB: that stage, and the offset.
static const dt_stage_t *find_access(dt_scores_t *s, dt_buffer_id_t id, dt_sym_t *out_offset) {
  for (uint32_t i = 0; i < s->rows->stages.len; i++) {
    const dt_stage_t *stage = &s->rows->stages.items[i];
    for (uint32_t j = 0; j < stage->insts.len; j++)
      if (dt__inst_reads(&stage->insts.items[j]).id == id.id) {
        *out_offset = dt__access_offset(s->k, id, stage->insts.items[j].index);
        return stage;
      }
    for (uint32_t j = 0; j < stage->stores.len; j++)
      if (stage->stores.items[j].buffer.id == id.id) {
        *out_offset = dt__access_offset(s->k, id, stage->stores.items[j].index);
        return stage;
      }
  }
  dt__emit_fail(s->m, DT_FAIL(DT_E_INTERNAL, "chain: rows of %s lost a slab", s->rows->name));
  return NULL;
}

static void enter_row(dt_scores_t *s, row_t *row, uint32_t r) {
  dt_body_t *k = s->k;
  dt__level_enter(k, ROUND);
  dt__bind_symbol(k, s->score_plan.a.var, ROUND, s->row[r]);
  k->rows = row->values;
  memcpy(&k->resident.kept, &row->kept, sizeof(k->resident.kept));
}

static void leave_row(dt_scores_t *s, row_t *row) {
  memcpy(&row->kept, &s->k->resident.kept, sizeof(row->kept));
  dt__level_leave(s->k, ROUND);
}

// What warps side by side have of a reduction's rows: each hands in its part, and joins all of them
// in the order of warps.
static LLVMValueRef part_at(dt_scores_t *s, uint32_t reduction, uint32_t r) {
  dt_emit_t *m = s->m;
  LLVMValueRef row = add(m, times(m, s->warp_row, BLOCK), down(m, s->lane, 2));
  LLVMValueRef at = times(m, add(m, row, i32(m, r * BLOCK / 2)), s->warps_n * WORD);
  return add(m, at, i32(m, s->parts_at + reduction * s->warps_m * BLOCK * s->warps_n * WORD));
}

static void hand_in(dt_scores_t *s, const dt_stage_t *stage, row_t rows[2]) {
  dt_emit_t *m = s->m;
  dt_body_t *k = s->k;
  dt__body_at(k, STEP);
  LLVMValueRef first = LLVMBuildICmp(m->b, LLVMIntEQ, s->quad_lane, i32(m, 0), "");
  dt__scope_open(k, ROUND, first);
  for (uint32_t i = 0; i < stage->reductions.len; i++)
    for (uint32_t r = 0; r < 2; r++) {
      LLVMValueRef at = add(m, part_at(s, s->reduced + i, r), times(m, s->warp_col, WORD));
      dt__emit_store_at(m, DT_F32, rows[r].values[stage->reductions.items[i].row].v[0],
                        shared_at(m, s->shared, at, 0), WORD);
    }
  dt__scope_close(k, ROUND);
}

static LLVMValueRef join_parts(dt_scores_t *s, const dt_reduction_t *reduction, LLVMValueRef at) {
  dt_emit_t *m = s->m;
  uint32_t lanes = s->warps_n < 4 ? s->warps_n : 4;
  LLVMValueRef all = NULL;
  for (uint32_t w = 0; w < s->warps_n; w += lanes) {
    LLVMValueRef some = dt__emit_load_at(m, DT_F32, lanes, shared_at(m, s->shared, at, w * WORD),
                                         lanes * WORD, false);
    for (uint32_t i = 0; i < lanes; i++) {
      LLVMValueRef one = LLVMBuildExtractElement(m->b, some, i32(m, i), "");
      all = all ? dt__reduction_join(s->k, reduction, all, one) : one;
    }
  }
  return all;
}

static void join_warps(dt_scores_t *s, const dt_stage_t *stage, row_t rows[2]) {
  dt_body_t *k = s->k;
  if (!stage->reductions.len || s->warps_n == 1)
    return;
  dt__scores_place_thread(s);
  hand_in(s, stage, rows);
  dt__cuda_block_sync(s->m);
  for (uint32_t i = 0; i < stage->reductions.len; i++)
    for (uint32_t r = 0; r < 2; r++) {
      const dt_reduction_t *reduction = &stage->reductions.items[i];
      LLVMValueRef all = join_parts(s, reduction, part_at(s, s->reduced + i, r));
      rows[r].values[reduction->row] = (dt_lanes_t){.v = {all}};
    }
  s->reduced += stage->reductions.len;
  dt__body_at(k, STEP);
}

// Past the row's end the second product has zeros.
static LLVMValueRef within(dt_scores_t *s, uint32_t c, LLVMValueRef value) {
  dt_emit_t *m = s->m;
  LLVMTypeRef pair = LLVMVectorType(m->t_i32, 2);
  LLVMValueRef end = columns_end(s), at = dt__scores_column(s, c);
  if (s->full)
    return LLVMBuildBitCast(m->b, value, pair, "");
  if (s->whole) {
    value = LLVMBuildBitCast(m->b, value, pair, "");
    return LLVMBuildSelect(m->b, below(m, at, end), value, LLVMConstNull(pair), "");
  }
  LLVMValueRef each =
      LLVMBuildAdd(m->b, dt__emit_splat(m, at, LANES), dt__emit_ramp(m->t_i32, LANES, 1), "");
  LLVMValueRef inside = below(m, each, dt__emit_splat(m, end, LANES));
  value = LLVMBuildSelect(m->b, inside, value, LLVMConstNull(LLVMTypeOf(value)), "");
  return LLVMBuildBitCast(m->b, value, pair, "");
}

static void take_fragments(dt_scores_t *s, row_t rows[2]) {
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  dt_sym_t offset = {0};
  dt__scores_place_thread(s);
  k->stage = find_access(s, s->weights, &offset);
  for (uint32_t r = 0; r < 2 && !m->failure; r++) {
    dt_lanes_t value = {0};
    memcpy(&k->resident.kept, &rows[r].kept, sizeof(k->resident.kept));
    if (!dt__resident_find(k, s->weights, offset, &value)) {
      dt__emit_fail(m, DT_FAIL(DT_E_INTERNAL, "chain: rows of %s are not kept", s->rows->name));
      return;
    }
    for (uint32_t c = 0; c < s->vectors; c++) {
      LLVMValueRef words = within(s, c, value.v[c]);
      for (uint32_t i = 0; i < 2; i++)
        s->fragments[c][i * 2 + r] = LLVMBuildExtractElement(m->b, words, i32(m, i), "");
    }
  }
}

static bool begin_rows(dt_scores_t *s, row_t rows[2]) {
  dt_emit_t *m = s->m;
  dt_body_t *k = s->k;
  dt_sym_t offset = {0};
  k->stage = find_access(s, s->made, &offset);
  for (uint32_t r = 0; r < 2 && k->stage; r++) {
    rows[r] = (row_t){.values = DT_ARENA_ARRAY(&m->arena, dt_lanes_t, s->rows->n_rows + 1)};
    if (!rows[r].values) {
      dt__emit_fail(m, DT_NO_MEMORY());
      return false;
    }
    dt_lanes_t made = {.varying = true};
    memcpy(made.v, s->values[r], s->vectors * sizeof(*made.v));
    memset(&k->resident.kept, 0, sizeof(k->resident.kept));
    dt__resident_put(k, s->made, offset, &made);
    memcpy(&rows[r].kept, &k->resident.kept, sizeof(k->resident.kept));
  }
  return k->stage && !m->failure;
}

void dt__scores_make_rows(dt_scores_t *s) {
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  row_t rows[2];
  dt_schedule_t own = *s->schedules[1];
  own.lanes = LANES;
  own.unroll = s->vectors;
  own.team = QUAD * s->warps_n;
  own.inner.resident = true;
  if (!dt__scores_take(s, s->rows, &own) || !begin_rows(s, rows))
    return;
  LLVMValueRef rank = add(m, times(m, s->warp_col, QUAD), s->quad_lane);
  k->lanes = LANES;
  k->aligned = s->whole;
  k->team = own.team;
  k->joined = QUAD;
  k->rank = wide(m, rank);
  k->item_level = k->stage_level = ROUND;
  k->axis = k->resident.on = true;
  k->resident.ragged = !s->whole;
  k->resident.full = s->full;
  k->resident.held = s->weights;
  s->reduced = 0;
  for (uint32_t i = 0; i < s->rows->stages.len && !m->failure; i++) {
    for (uint32_t r = 0; r < 2; r++) {
      enter_row(s, &rows[r], r);
      dt__stage_emit(k, i);
      leave_row(s, &rows[r]);
    }
    join_warps(s, &s->rows->stages.items[i], rows);
  }
  take_fragments(s, rows);
  k->resident.held = (dt_buffer_id_t){0};
  k->joined = 0;
  k->resident.ragged = k->resident.full = k->resident.on = k->axis = false;
}

// ---- The second product's rows --------------------------------------------------------------------
static void hand_pair(dt_scores_t *s, LLVMValueRef at, uint32_t j, uint32_t r) {
  dt_emit_t *m = s->m;
  LLVMValueRef pair = LLVMGetPoison(LLVMVectorType(m->t_f32, 2));
  for (uint32_t i = 0; i < 2; i++)
    pair = LLVMBuildInsertElement(m->b, pair, s->sums[j * 4 + r * 2 + i], i32(m, i), "");
  uint32_t plus = s->sums_at + r * (BLOCK / 2) * s->sums_pitch + j * 8 * WORD;
  dt__emit_store_at(m, DT_F32, pair, shared_at(m, s->shared, at, plus), 2 * WORD);
}

// At STEP.
void dt__scores_hand_sums(dt_scores_t *s) {
  dt_emit_t *m = s->m;
  LLVMValueRef own = add(m, times(m, s->warp_row, BLOCK), down(m, s->lane, 2));
  LLVMValueRef row = add(m, own, times(m, s->warp_col, s->warps_m * BLOCK));
  LLVMValueRef at = add(m, times(m, row, s->sums_pitch), times(m, s->quad_lane, 2 * WORD));
  uint32_t n = fragments_in(s->cols) * 2;
  for (uint32_t j = 0; j < n && !s->live_rows; j++)
    for (uint32_t r = 0; r < 2; r++)
      hand_pair(s, at, j, r);
  for (uint32_t r = 0; r < (s->low_rows ? 1U : 2U) && s->live_rows; r++) {
    dt__scope_open(s->k, ROUND, below(m, add(m, own, i32(m, r * BLOCK / 2)), s->live_rows));
    for (uint32_t j = 0; j < n; j++)
      hand_pair(s, at, j, r);
    dt__scope_close(s->k, ROUND);
  }
  dt__cuda_block_sync(m);
}

// Four neighbours of a row, of all warps.
static void finish_group(dt_scores_t *s, LLVMValueRef number) {
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  uint32_t fours = s->cols / LANES;
  LLVMValueRef row = LLVMBuildUDiv(m->b, number, i32(m, fours), "");
  LLVMValueRef four = LLVMBuildURem(m->b, number, i32(m, fours), ""), all = NULL;
  LLVMValueRef from = add(m, times(m, row, s->sums_pitch), times(m, four, LANES * WORD));
  for (uint32_t w = 0; w < s->warps_n; w++) {
    LLVMValueRef at =
        shared_at(m, s->shared, from, s->sums_at + w * s->warps_m * BLOCK * s->sums_pitch);
    LLVMValueRef part = dt__emit_load_at(m, DT_F32, LANES, at, LANES * WORD, false);
    all = all ? LLVMBuildFAdd(m->b, all, part, "") : part;
  }
  for (uint32_t i = 0; i < LANES; i++)
    s->group[i] = LLVMBuildExtractElement(m->b, all, i32(m, i), "");
  LLVMValueRef at = LLVMBuildNSWAdd(m->b, s->t->first_row, wide(m, add(m, row, s->above)), "");
  LLVMValueRef last = LLVMBuildNSWSub(m->b, s->extent_m, dt__emit_i64(m, 1), "");
  k->chain.live = below(m, at, s->extent_m);
  dt__bind_symbol(k, s->head_plan.a.var, ROUND, lesser(m, at, last));
  uint32_t lanes = s->first_col && !s->whole ? 1 : LANES;
  for (s->first = 0; s->first < LANES; s->first += lanes) {
    dt__body_at(k, ROUND);
    follow(s, wide(m, add(m, times(m, four, LANES), i32(m, s->first))), lanes);
  }
  s->first = 0;
  k->chain.live = NULL;
}

void dt__scores_finish(dt_scores_t *s) {
  dt__scores_hand_sums(s);
  dt__scores_finish_sums(s);
}

void dt__scores_finish_sums(dt_scores_t *s) {
  dt_emit_t *m = s->m;
  dt_body_t *k = s->k;
  uint32_t groups = s->warps_m * BLOCK * s->cols / LANES, threads = s->head_plan.threads;
  if (!dt__scores_take(s, s->head, s->schedules[2]))
    return;
  dt__scores_begin_stage(s);
  for (uint32_t i = 0; i < groups && !m->failure; i += threads) {
    dt__body_at(k, STEP);
    LLVMValueRef number = add(m, s->tid, i32(m, i));
    LLVMValueRef end = i + threads > groups ? i32(m, groups) : NULL;
    if (s->live_rows)
      end = times(m, s->live_rows, s->cols / LANES);
    dt__scope_open(k, ROUND, end ? below(m, number, end) : NULL);
    finish_group(s, number);
    dt__scope_close(k, ROUND);
  }
}
