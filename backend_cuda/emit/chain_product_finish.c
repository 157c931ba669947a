// SPDX-License-Identifier: Apache-2.0
// What follows a product of a chain: the kernel's later stages on its sums, out of registers. Where
// several warps share the depth they hand their sums to each other first.
#include "backend_cuda/emit/chain_product.h"
#include "backend_llvm/emit/loops.h"

static LLVMValueRef exchange(dt_product_t *p, LLVMValueRef value) {
  uint32_t team = p->k->team;
  p->k->team = DT_WARP;
  value = p->m->device->exchange(p->k, value, 1);
  p->k->team = team;
  return value;
}

// Four neighbours of one row: of 16 rows number i, the upper or lower 8, of 16 columns number j.
static void take_group(dt_product_t *p, uint32_t i, uint32_t low, uint32_t j,
                       LLVMValueRef out[GROUP]) {
  dt_emit_t *m = p->m;
  uint32_t cols = p->tile->group_cols / BLOCK;
  LLVMValueRef v[2][2];
  for (uint32_t half = 0; half < 2; half++)
    for (uint32_t e = 0; e < 2; e++)
      v[half][e] = LLVMBuildLoad2(m->b, m->t_f32,
                                  p->sums[((i * cols + j) * 2 + half) * 4 + low * 2 + e], "");
  LLVMValueRef odd = LLVMBuildICmp(m->b, LLVMIntNE, bit(m, p->lane, 0), i32(m, 0), "");
  for (uint32_t e = 0; e < 2; e++) {
    if (p->plan.b.along_k) {
      out[e] = v[0][e];
      out[2 + e] = v[1][e];
      continue;
    }
    LLVMValueRef got = exchange(p, LLVMBuildSelect(m->b, odd, v[0][e], v[1][e], ""));
    out[e] = LLVMBuildSelect(m->b, odd, got, v[0][e], "");
    out[2 + e] = LLVMBuildSelect(m->b, odd, v[1][e], got, "");
  }
}

// Which four columns of 16 the thread has, in fours.
static LLVMValueRef own_group(dt_product_t *p) {
  dt_emit_t *m = p->m;
  LLVMValueRef low = bit(m, p->lane, 0), high = bit(m, p->lane, 1);
  return p->plan.b.along_k ? add(m, low, times(m, high, 2)) : add(m, times(m, low, 2), high);
}

static void load_group(dt_body_t *k, void *user) {
  dt_product_t *p = user;
  dt_emit_t *m = k->m;
  dt_lanes_t *row = &k->rows[k->kernel->stages.items[0].reductions.items[0].row];
  dt__body_at(k, k->lane_level);
  row->varying = true;
  for (uint32_t c = 0; c < k->copies; c++) {
    row->v[c] = LLVMGetPoison(LLVMVectorType(m->t_f32, k->lanes));
    for (uint32_t i = 0; i < k->lanes; i++)
      row->v[c] = LLVMBuildInsertElement(m->b, row->v[c], p->group[c][p->first + i], i32(m, i), "");
  }
}

// The later stages on p->group, by vectors or one by one; `four`: number of the four columns in the
// tile (i32), `live`: there is such a row (i1). At `level`, where the row is bound, with the next
// one for itself. What is outside of the matrix is computed at its edge, and not stored.
static void finish_group(dt_product_t *p, LLVMValueRef first_col, LLVMValueRef four,
                         LLVMValueRef live, uint32_t lanes, uint32_t level) {
  dt_body_t *k = p->k;
  dt_emit_t *m = p->m;
  uint32_t stages = k->kernel->stages.len;
  for (p->first = 0; p->first < GROUP; p->first += lanes) {
    dt__body_at(k, level);
    LLVMValueRef shift = add(m, times(m, four, GROUP), i32(m, p->first));
    LLVMValueRef at = LLVMBuildNSWAdd(m->b, first_col, wide(m, shift), "");
    k->chain.live = live;
    if (!dt__product_whole_columns(p)) {
      LLVMValueRef last = LLVMBuildNSWSub(m->b, p->extent_n, dt__emit_i64(m, lanes), "");
      k->chain.live = LLVMBuildAnd(m->b, live, below(m, at, p->extent_n), "");
      at = lesser(m, at, last);
    }
    k->lanes = lanes;
    k->aligned = lanes > 1;
    k->item_level = level;
    dt__outer_vector(k, at, 1, 1, stages, load_group, p);
    k->chain.live = NULL;
  }
  p->first = 0;
  k->outer_lanes = k->axis = false;
}

// Enters `level` for the tile's row number `row` (i32), or the matrix' last one; whether it is
// that.
static LLVMValueRef enter_row(dt_product_t *p, LLVMValueRef row, uint32_t level) {
  dt_body_t *k = p->k;
  dt_emit_t *m = p->m;
  dt__level_enter(k, level);
  LLVMValueRef at = LLVMBuildNSWAdd(m->b, p->t->first_row, wide(m, row), "");
  LLVMValueRef last = LLVMBuildNSWSub(m->b, p->extent_m, dt__emit_i64(m, 1), "");
  LLVMValueRef live = below(m, at, p->extent_m);
  dt__bind_symbol(k, p->plan.a.var, level, lesser(m, at, last));
  return live;
}

static LLVMValueRef first_row_of(dt_product_t *p) {
  dt_emit_t *m = p->m;
  LLVMValueRef row = LLVMBuildLShr(m->b, p->lane, i32(m, 2), "");
  return add(m, row, times(m, p->warp_row, p->tile->group_rows));
}

// Which four columns of the tile the thread has of the warp's block number j, in fours.
static LLVMValueRef own_four(dt_product_t *p, uint32_t j) {
  dt_emit_t *m = p->m;
  LLVMValueRef four = times(m, p->warp_col, p->tile->group_cols / GROUP);
  return add(m, add(m, four, own_group(p)), i32(m, j * BLOCK / GROUP));
}

// Groups j … j + n - 1 of one row at once, where all columns exist: what follows reads for all of
// them before it stores the first.
static void finish_groups(dt_product_t *p, LLVMValueRef first_col, uint32_t j, uint32_t n,
                          LLVMValueRef live, uint32_t level) {
  dt_emit_t *m = p->m;
  dt_body_t *k = p->k;
  uint32_t team = k->team;
  dt__body_at(k, level);
  LLVMValueRef at = wide(m, times(m, own_four(p, j), GROUP));
  k->team = BLOCK / GROUP; // threads that have a row's neighbours
  k->chain.live = live;
  k->lanes = GROUP;
  k->aligned = true;
  k->item_level = level;
  dt__outer_vector(k, LLVMBuildNSWAdd(m->b, first_col, at, ""), n, 1, k->kernel->stages.len,
                   load_group, p);
  k->chain.live = NULL;
  k->team = team;
  k->outer_lanes = k->axis = false;
}

// As many of a row's groups as are finished at once; they divide it.
static uint32_t together(dt_product_t *p, uint32_t lanes) {
  uint32_t cols = p->tile->group_cols / BLOCK, n = TOGETHER;
  if (!p->plan.groups || lanes != GROUP || !dt__product_whole_columns(p))
    return 1;
  while (cols % n)
    n--;
  return n;
}

// The thread's groups j … j + n - 1 of its rows' number r.
static void finish_part(dt_product_t *p, LLVMValueRef first_col, uint32_t r, uint32_t j, uint32_t n,
                        uint32_t lanes, uint32_t level) {
  dt_body_t *k = p->k;
  dt__body_at(k, level);
  for (uint32_t i = 0; i < n; i++)
    take_group(p, r / 2, r % 2, j + i, p->group[i]);
  LLVMValueRef live = enter_row(p, add(p->m, first_row_of(p), i32(p->m, r * 8)), level + 1);
  dt__body_at(k, level + 1);
  if (n > 1)
    finish_groups(p, first_col, j, n, live, level + 1);
  else
    finish_group(p, first_col, own_four(p, j), live, lanes, level + 1);
  dt__level_leave(k, level + 1);
}

// Every warp has all of the sums that it made.
static void finish_own(dt_product_t *p, LLVMValueRef first_col, uint32_t lanes, uint32_t level) {
  uint32_t cols = p->tile->group_cols / BLOCK, n = together(p, lanes);
  for (uint32_t r = 0; r < p->tile->group_rows / 8; r++)
    for (uint32_t j = 0; j < cols; j += n)
      finish_part(p, first_col, r, j, n, lanes, level);
}

// Byte of the sums of this lane's group 0 as the warp of that slice handed them on.
static LLVMValueRef handed(dt_product_t *p, LLVMValueRef slice) {
  dt_emit_t *m = p->m;
  uint32_t bytes = DT_WARP * GROUP * 4;
  LLVMValueRef warp = add(m, times(m, slice, p->plan.warps_m), p->warp_row);
  warp = add(m, times(m, warp, p->plan.warps_n), p->warp_col);
  LLVMValueRef at = add(m, times(m, warp, bytes * p->n_groups), times(m, p->lane, GROUP * 4));
  return add(m, at, i32(m, p->sums_at));
}

static void hand_on(dt_product_t *p, uint32_t level) {
  dt_emit_t *m = p->m;
  uint32_t cols = p->tile->group_cols / BLOCK;
  dt__body_at(p->k, level);
  LLVMValueRef at = handed(p, p->slice);
  for (uint32_t g = 0; g < p->n_groups; g++) {
    LLVMValueRef v[GROUP], all = LLVMGetPoison(LLVMVectorType(m->t_f32, GROUP));
    take_group(p, g / cols / 2, g / cols % 2, g % cols, v);
    for (uint32_t i = 0; i < GROUP; i++)
      all = LLVMBuildInsertElement(m->b, all, v[i], i32(m, i), "");
    dt__emit_store_at(m, DT_F32, all, shared_at(m, p->shared, at, g * DT_WARP * GROUP * 4), 16);
  }
  dt__cuda_block_sync(m);
}

// Warps that share the depth take turns at the groups.
static void finish_shared(dt_product_t *p, LLVMValueRef first_col, uint32_t lanes, uint32_t level) {
  dt_body_t *k = p->k;
  dt_emit_t *m = p->m;
  uint32_t cols = p->tile->group_cols / BLOCK;
  dt__body_at(k, level);
  LLVMValueRef group =
      dt__loop_open(k, level + 1, wide(m, p->slice), dt__emit_i64(m, p->n_groups), p->plan.slices);
  group = narrow(m, group);
  LLVMValueRef sum = NULL;
  for (uint32_t s = 0; s < p->plan.slices; s++) {
    LLVMValueRef at = add(m, handed(p, i32(m, s)), times(m, group, DT_WARP * GROUP * 4));
    LLVMValueRef part =
        dt__emit_load_at(m, DT_F32, GROUP, shared_at(m, p->shared, at, 0), 16, false);
    sum = sum ? LLVMBuildFAdd(m->b, sum, part, "") : part;
  }
  for (uint32_t i = 0; i < GROUP; i++)
    p->group[0][i] = LLVMBuildExtractElement(m->b, sum, i32(m, i), "");
  LLVMValueRef eighth = LLVMBuildUDiv(m->b, group, i32(m, cols), "");
  LLVMValueRef j = LLVMBuildURem(m->b, group, i32(m, cols), "");
  LLVMValueRef four = add(m, times(m, p->warp_col, p->tile->group_cols / GROUP), own_group(p));
  four = add(m, four, times(m, j, BLOCK / GROUP));
  LLVMValueRef live = enter_row(p, add(m, first_row_of(p), times(m, eighth, 8)), level + 2);
  finish_group(p, first_col, four, live, lanes, level + 2);
  dt__level_leave(k, level + 2);
  dt__loop_close(k, level + 1);
}

void dt__product_finish(dt_product_t *p, LLVMValueRef first_col, LLVMValueRef vectors) {
  dt_body_t *k = p->k;
  void (*own)(dt_product_t *, LLVMValueRef, uint32_t, uint32_t) =
      p->plan.slices > 1 ? finish_shared : finish_own;
  if (p->plan.slices > 1)
    hand_on(p, ROUND);
  int64_t cols = 0;
  bool whole = dt__sym_is_const(p->m->env, p->plan.b.extent, &cols) && cols % GROUP == 0;
  if (vectors) {
    dt__scope_open(k, ROUND + 1, whole ? NULL : vectors);
    own(p, first_col, GROUP, ROUND + 1);
    dt__scope_close(k, ROUND + 1);
  }
  if (whole)
    return;
  dt__body_at(k, ROUND);
  dt__scope_open(k, ROUND + 1, vectors ? LLVMBuildNot(p->m->b, vectors, "") : NULL);
  own(p, first_col, 1, ROUND + 1);
  dt__scope_close(k, ROUND + 1);
}
