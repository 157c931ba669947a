// SPDX-License-Identifier: Apache-2.0
// One tile of C by one block:
//
//   global memory        shared memory, a ring of tiles              registers
//   A rows  x K   ──►   [ A0 B0 ][ A1 B1 ][ A2 B2 ][ A3 B3 ]  ──►   rows x width sums of each warp
//   B K x columns        in use     └─ on their way ─┘                       │
//                                                                            ▼
//   C, and what follows it   ◄── later stages, by rows ──   C tile, in place of the ring
//
//   copy what is constant of the first tiles, but for what is left of the ring
//   wait for the work before this launch (early.h)
//   copy the rest of them
//   for each tile t along k:
//     wait until tile t is there, for all threads; nobody works on tile t - 1 any more
//     sums += A_t * B_t
//     copy tile t + ring - 1 to the place of t - 1 (multiply-adds: before this tile's)
//
// Groups of warps, which multiply by themselves, may still work on tile t - 1 then, and what is
// copied is tile t + ring - 2 to the place of t - 2.
//
// Copies are asynchronous where all accesses are aligned (cp.async, 16 bytes, zeros where the
// matrix ends), else by element; kernel.c and chain.c make both versions of the whole. Warps that
// share the depth of tiles have a C tile each, which are added in their order when they are read,
// so that results do not depend on timing. Blocks of a cluster have a part of k each, and then some
// of the rows: they read one another's C tiles, in the order of blocks and of these.
#include "backend_cuda/emit/matmul.h"

#include "backend_cuda/emit/early.h"
#include "backend_cuda/emit/ptx.h"
#include "backend_llvm/emit/index.h"
#include "backend_llvm/emit/loops.h"

#define MANY_ROWS 128   // of tiles for matrices that have more of them than there are processors
#define ROWS_TOGETHER 8 // tiles that share columns of B and stay near each other in time

LLVMValueRef dt__matmul_i32(dt_tile_t *t, uint32_t value) { return dt__emit_i32(t->k->m, value); }

LLVMValueRef dt__matmul_step(dt_tile_t *t, LLVMValueRef x, uint32_t by, uint32_t plus) {
  LLVMBuilderRef b = t->k->m->b;
  LLVMValueRef product = LLVMBuildMul(b, x, dt__matmul_i32(t, by), "");
  return plus ? LLVMBuildAdd(b, product, dt__matmul_i32(t, plus), "") : product;
}

LLVMValueRef dt__matmul_shared(dt_tile_t *t, LLVMValueRef at, uint32_t plus) {
  dt_emit_t *m = t->k->m;
  LLVMValueRef here = LLVMBuildGEP2(m->b, m->t_i8, t->base, &at, 1, "");
  LLVMValueRef step = dt__emit_i32(m, plus);
  return plus ? LLVMBuildGEP2(m->b, m->t_i8, here, &step, 1, "") : here;
}

// ---- Scopes -------------------------------------------------------------------------------------------
void dt__scope_open(dt_body_t *k, uint32_t level, LLVMValueRef wanted) {
  dt_emit_t *m = k->m;
  dt_scope_t *scope = &k->scopes[level];
  dt__body_at(k, level - 1);
  scope->block = dt__emit_block(m, k->fn, "part");
  scope->exit = dt__emit_block(m, k->fn, "next");
  scope->memo.len = 0;
  if (wanted)
    LLVMBuildCondBr(m->b, wanted, scope->block, scope->exit);
  else
    LLVMBuildBr(m->b, scope->block);
  dt__body_at(k, level);
}

void dt__scope_close(dt_body_t *k, uint32_t level) {
  dt_scope_t *scope = &k->scopes[level];
  dt__body_at(k, level);
  LLVMBuildBr(k->m->b, scope->exit);
  scope->memo.len = 0;
  k->scopes[level - 1].block = scope->exit;
  dt__body_at(k, level - 1);
}

// ---- Places -------------------------------------------------------------------------------------------
static void place_thread(dt_tile_t *t) {
  dt_emit_t *m = t->k->m;
  const dt_matmul_plan_t *p = &t->plan;
  t->tid = dt__ptx_thread(m);
  t->lane = LLVMBuildAnd(m->b, t->tid, dt__emit_i32(m, DT_WARP - 1), "");
  LLVMValueRef warp = LLVMBuildLShr(m->b, t->tid, dt__emit_i32(m, 5), "");
  LLVMValueRef cols = dt__emit_i32(m, p->warps_n), rows = dt__emit_i32(m, p->warps_m);
  t->warp_col = LLVMBuildURem(m->b, warp, cols, "");
  warp = LLVMBuildUDiv(m->b, warp, cols, "");
  t->warp_row = LLVMBuildURem(m->b, warp, rows, "");
  t->slice = LLVMBuildUDiv(m->b, warp, rows, "");
}

static LLVMValueRef ceil_div(dt_emit_t *m, LLVMValueRef n, uint32_t by) {
  LLVMValueRef up = LLVMBuildNSWAdd(m->b, n, dt__emit_i64(m, (int64_t)by - 1), "");
  return LLVMBuildUDiv(m->b, up, dt__emit_i64(m, by), "");
}

static LLVMValueRef lesser(dt_emit_t *m, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildSelect(m->b, LLVMBuildICmp(m->b, LLVMIntSLT, a, b, ""), a, b, "");
}

// Grid items go down a column of tiles. They are dealt out again so that the ones under way at a
// time stand in a few rows and several columns: what they read of A and B is then less.
static void deal_tile(dt_body_t *k, LLVMValueRef *col, LLVMValueRef *row) {
  dt_emit_t *m = k->m;
  const dt_team_matmul_t *tile = &k->schedule->team_matmul;
  const dt_sym_t *extents = &k->kernel->extents[k->kernel->n_loops - 2];
  LLVMValueRef extent_m = dt__index_scalar(k, extents[0]);
  LLVMValueRef extent_n = dt__index_scalar(k, extents[1]);
  dt__body_at(k, 0);
  LLVMValueRef rows = ceil_div(m, extent_m, tile->tile_rows);
  LLVMValueRef cols = dt__at_least_one(k, ceil_div(m, extent_n, tile->tile_cols));
  LLVMValueRef together = dt__emit_i64(m, ROWS_TOGETHER);
  LLVMValueRef group_items = LLVMBuildMul(m->b, cols, together, "");
  dt__body_at(k, 1);
  LLVMValueRef item = LLVMBuildAdd(m->b, LLVMBuildMul(m->b, *col, rows, ""), *row, "");
  LLVMValueRef group = LLVMBuildUDiv(m->b, item, group_items, "");
  LLVMValueRef first = LLVMBuildMul(m->b, group, together, "");
  LLVMValueRef in_group = LLVMBuildSub(m->b, item, LLVMBuildMul(m->b, group, group_items, ""), "");
  LLVMValueRef size = lesser(m, LLVMBuildSub(m->b, rows, first, ""), together);
  *row = LLVMBuildAdd(m->b, first, LLVMBuildURem(m->b, in_group, size, ""), "");
  *col = LLVMBuildUDiv(m->b, in_group, size, "");
}

// The tiles along k that are this block's: all of them, or those of its rank in the cluster.
static void place_depth(dt_tile_t *t) {
  dt_emit_t *m = t->k->m;
  uint32_t depth = t->plan.matmul->depth, n = dt__matmul_cluster(t->plan.matmul);
  t->begin = dt__emit_i64(m, 0);
  t->end = ceil_div(m, t->extent_k, depth);
  if (!t->rank)
    return;
  LLVMValueRef each = ceil_div(m, t->end, n);
  t->begin = LLVMBuildMul(m->b, LLVMBuildZExt(m->b, t->rank, m->t_i64, ""), each, "");
  t->end = lesser(m, t->end, LLVMBuildNSWAdd(m->b, t->begin, each, ""));
  LLVMValueRef last = LLVMBuildMul(m->b, t->end, dt__emit_i64(m, depth), "");
  t->extent_k = lesser(m, t->extent_k, last);
}

// ---- The pipeline -------------------------------------------------------------------------------------
static void clear_sums(dt_tile_t *t) {
  dt_body_t *k = t->k;
  t->n_sums = t->plan.matmul->group_rows * t->plan.matmul->group_cols / DT_WARP;
  for (uint32_t i = 0; i < t->n_sums; i++) {
    t->sums[i] = dt__body_slot(k, t->type, 1);
    LLVMBuildStore(k->m->b, LLVMConstNull(t->type), t->sums[i]);
  }
}

// Byte of the ring that is `tiles` further than byte `at`, at most once around.
static LLVMValueRef ring_step(dt_tile_t *t, LLVMValueRef at, uint32_t tiles) {
  dt_emit_t *m = t->k->m;
  uint32_t all = t->plan.ring_bytes * t->plan.matmul->ring;
  LLVMValueRef next = LLVMBuildAdd(m->b, at, dt__emit_i32(m, t->plan.ring_bytes * tiles), "");
  LLVMValueRef around = LLVMBuildICmp(m->b, LLVMIntUGE, next, dt__emit_i32(m, all), "");
  LLVMValueRef less = LLVMBuildSub(m->b, next, dt__emit_i32(m, all), "");
  return LLVMBuildSelect(m->b, around, less, next, "");
}

static void copy_tile(dt_tile_t *t, uint32_t operands, LLVMValueRef tile, LLVMValueRef at) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  LLVMValueRef first_k = LLVMBuildMul(m->b, tile, dt__emit_i64(m, t->plan.matmul->depth), "");
  LLVMValueRef some = LLVMBuildICmp(m->b, LLVMIntSLT, tile, t->end, "");
  dt__matmul_copy(t, operands, first_k, at, some);
  if (t->asynchronous && !t->early)
    dt__ptx_copies_commit(m);
}

static void copy_first_tiles(dt_tile_t *t, uint32_t operands) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  uint32_t level = t->level + 1;
  LLVMValueRef number =
      dt__loop_open(k, level, dt__emit_i64(m, 0), dt__emit_i64(m, t->plan.ahead), 1);
  LLVMValueRef at = LLVMBuildTrunc(m->b, number, m->t_i32, "");
  LLVMValueRef tile = LLVMBuildNSWAdd(m->b, t->begin, number, "");
  copy_tile(t, operands, tile, dt__matmul_step(t, at, t->plan.ring_bytes, 0));
  dt__loop_close(k, level);
}

// What is constant does not wait for earlier work. Such copies are in the group of the first tile,
// which is complete a little later for it: where blocks have several tiles, one after the other,
// that is lost more often than the early start is won.
static void begin_tiles(dt_tile_t *t) {
  bool waits = t->k->least_level > 0 && !t->k->kernel->chain; // chains have waited by then
  uint32_t settled = waits && t->plan.matmul->tile_rows < MANY_ROWS ? dt__matmul_settled(t) : 0;
  if (settled) {
    t->early = true;
    copy_first_tiles(t, settled);
    t->early = false;
  }
  dt__body_at(t->k, t->level);
  if (waits)
    dt__cuda_wait_for_work(t->k->m);
  copy_first_tiles(t, DT_MATMUL_BOTH & ~settled);
}

static void multiply(dt_tile_t *t, LLVMValueRef tile, LLVMValueRef at) {
  LLVMValueRef depth = dt__emit_i64(t->k->m, t->plan.matmul->depth);
  if (t->plan.groups)
    dt__matmul_group_begin(t, at);
  else if (t->plan.tensor)
    dt__matmul_mma(t, LLVMBuildMul(t->k->m->b, tile, depth, ""), at);
  else
    dt__matmul_fma(t, at);
  if (t->plan.groups && !t->asynchronous)
    dt__matmul_group_end(t, 0);
}

// Tensor cores go on while the next copies are prepared; multiply-adds, and members of chains, have
// use for the registers that this takes.
static void step(dt_tile_t *t, LLVMValueRef tile) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  LLVMValueRef at = LLVMBuildLoad2(m->b, m->t_i32, t->ring_at, "");
  LLVMValueRef next = LLVMBuildNSWAdd(m->b, tile, dt__emit_i64(m, t->plan.ahead), "");
  bool early = t->plan.tensor && !k->kernel->chain;
  if (early)
    multiply(t, tile, at);
  copy_tile(t, DT_MATMUL_BOTH, next, ring_step(t, at, t->plan.ahead));
  dt__body_at(k, t->level + 1);
  if (!early)
    multiply(t, tile, at);
  if (t->plan.groups && t->asynchronous)
    dt__matmul_group_end(t, t->plan.behind);
  LLVMBuildStore(m->b, ring_step(t, at, 1), t->ring_at);
}

static void multiply_all(dt_tile_t *t) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  uint32_t ahead = t->plan.ahead, level = t->level + 1;
  t->ring_at = dt__body_slot(k, m->t_i32, 1);
  LLVMBuildStore(m->b, dt__emit_i32(m, 0), t->ring_at);
  begin_tiles(t);
  LLVMValueRef tile = dt__loop_open(k, level, t->begin, t->end, 1);
  if (t->plan.a.copy == DT_COPY_NONE || t->plan.groups) // addresses take registers enough
    dt__ptx_no_unroll(m);
  if (t->asynchronous)
    dt__ptx_copies_wait(m, ahead - 1);
  if (t->plan.groups)
    dt__ptx_fence_async(m);
  dt__cuda_block_sync(m);
  step(t, tile);
  dt__loop_close(k, level);
  if (t->plan.groups && t->plan.behind)
    dt__matmul_group_end(t, 0);
}

// The C tiles take the place of the ring, which nobody reads or fills any more.
static void gather_sums(dt_tile_t *t) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  if (t->asynchronous)
    dt__ptx_copies_wait(m, 0);
  dt__cuda_block_sync(m);
  LLVMValueRef own = NULL;
  if (t->plan.parts < t->plan.slices)
    own = LLVMBuildICmp(m->b, LLVMIntULT, t->slice, dt__emit_i32(m, t->plan.parts), "");
  dt__scope_open(k, t->level + 1, own);
  LLVMValueRef at = dt__matmul_step(t, t->slice, t->plan.c_bytes, 0);
  if (t->plan.tensor)
    dt__matmul_mma_store(t, at);
  else
    dt__matmul_fma_store(t, at);
  dt__scope_close(k, t->level + 1);
  if (t->rank)
    dt__ptx_cluster_sync(m);
  else
    dt__cuda_block_sync(m);
}

void dt__cuda_matmul_tile(dt_body_t *k, uint32_t level, LLVMValueRef first_row,
                          LLVMValueRef first_col, LLVMValueRef rank) {
  dt_emit_t *m = k->m;
  dt_tile_t t = {.k = k,
                 .level = level,
                 .asynchronous = k->aligned,
                 .first_row = first_row,
                 .first_col = first_col,
                 .rank = rank};
  dt_status_t status =
      dt__matmul_plan(&m->program, k->kernel, k->schedule, m->target->strict_fp, &t.plan);
  if (status) {
    dt__emit_fail(m, status);
    return;
  }
  t.type = dt__emit_type(m, t.plan.dtype);
  t.base = dt__cuda_shared_base(m);
  if (t.plan.groups)
    LLVMSetAlignment(t.base, 8 * DT_PANEL_BYTES); // after which places in panels repeat
  k->stage_index = 0;
  k->stage = &k->kernel->stages.items[0];
  k->axis = k->outer_lanes = k->acc_vector = false;
  k->item_level = level;
  dt_sym_t all = k->stage->extents[0];
  for (uint32_t v = 1; v < k->stage->n_loops; v++)
    all = dt__sym_mul(m->env, all, k->stage->extents[v]);
  t.extent_k = dt__index_scalar(k, all);
  dt__body_at(k, level);
  place_thread(&t);
  place_depth(&t);
  clear_sums(&t);
  dt__matmul_copy_begin(&t);
  multiply_all(&t);
  gather_sums(&t);
  dt__matmul_finish(&t);
  if (rank) { // until nobody reads what is here, it stays
    dt__body_at(k, level);
    dt__ptx_cluster_sync(m);
  }
}

void dt__cuda_matmul_item(dt_body_t *k, LLVMValueRef tile_col, LLVMValueRef tile_row) {
  dt_emit_t *m = k->m;
  const dt_team_matmul_t *tile = &k->schedule->team_matmul;
  LLVMValueRef rank = NULL;
  if (dt__matmul_cluster(tile) > 1) {
    LLVMValueRef n = dt__emit_i64(m, tile->cluster);
    rank = LLVMBuildTrunc(m->b, LLVMBuildURem(m->b, tile_row, n, ""), m->t_i32, "");
    tile_row = LLVMBuildUDiv(m->b, tile_row, n, "");
  }
  deal_tile(k, &tile_col, &tile_row);
  LLVMValueRef first_row = LLVMBuildMul(m->b, tile_row, dt__emit_i64(m, tile->tile_rows), "");
  LLVMValueRef first_col = LLVMBuildMul(m->b, tile_col, dt__emit_i64(m, tile->tile_cols), "");
  dt__cuda_matmul_tile(k, 1, first_row, first_col, rank);
}
