// SPDX-License-Identifier: Apache-2.0
// Products of halves by tensor cores: 16 x 16 of A times 16 x 8 of B, sums in f32. Fragments are
// read from shared memory as four 8 x 8 matrices at a time, transposed on the way where k is not
// innermost there:
//
//   of A   [rows 0-7, k 0-7] [rows 8-15, k 0-7] [rows 0-7, k 8-15] [rows 8-15, k 8-15]
//   of B   [k 0-7, columns 0-7] [k 8-15, columns 0-7] [k 0-7, columns 8-15] [k 8-15, columns 8-15]
//
// Thread l of a warp has columns 2 (l % 4) and the next one of rows l / 4 and l / 4 + 8 of each
// 16 x 8 sums.
#include "backend_cuda/emit/matmul.h"
#include "backend_cuda/emit/ptx.h"

#define BLOCK 16 // rows, columns and depth that one read of fragments covers
#define MAX_BLOCKS 8
#define HALF 2 // bytes

// Byte of shared memory, i32, of the row of an 8 x 8 matrix that this lane hands in, for the warp's
// first block. Matrix number i is the second one along m or n where bit `side` of i is set, and
// along k where the other bit is.
static LLVMValueRef begin(dt_tile_t *t, const dt_operand_t *o, LLVMValueRef ring) {
  dt_emit_t *m = t->k->m;
  bool is_a = o == &t->plan.a;
  uint32_t size = is_a ? t->plan.matmul->group_rows : t->plan.matmul->group_cols;
  LLVMValueRef one = dt__emit_i32(m, 1), row = LLVMBuildAnd(m->b, t->lane, dt__emit_i32(m, 7), "");
  LLVMValueRef bits[2];
  for (uint32_t i = 0; i < 2; i++)
    bits[i] = LLVMBuildAnd(m->b, LLVMBuildLShr(m->b, t->lane, dt__emit_i32(m, 3 + i), ""), one, "");
  LLVMValueRef along = dt__matmul_step(t, is_a ? bits[0] : bits[1], 8, 0);
  LLVMValueRef deep = dt__matmul_step(t, is_a ? bits[1] : bits[0], 8, 0);
  if (o->along_k)
    along = LLVMBuildAdd(m->b, along, row, "");
  else
    deep = LLVMBuildAdd(m->b, deep, row, "");
  along =
      LLVMBuildAdd(m->b, along, dt__matmul_step(t, is_a ? t->warp_row : t->warp_col, size, 0), "");
  if (t->plan.parts > 1) {
    uint32_t part = t->plan.matmul->depth / t->plan.parts;
    deep = LLVMBuildAdd(m->b, deep, dt__matmul_step(t, t->slice, part, 0), "");
  }
  LLVMValueRef inner = o->along_k ? deep : along, outer = o->along_k ? along : deep;
  LLVMValueRef at = LLVMBuildAdd(m->b, dt__matmul_step(t, outer, o->pitch, o->offset),
                                 dt__matmul_step(t, inner, HALF, 0), "");
  return LLVMBuildAdd(m->b, ring, at, "");
}

// Fragments of block `along` of the warp's rows or columns, and block `deep` of its depth.
static void read_block(dt_tile_t *t, const dt_operand_t *o, LLVMValueRef at, uint32_t along,
                       uint32_t deep, LLVMValueRef out[4]) {
  uint32_t inner = BLOCK * (o->along_k ? deep : along), outer = BLOCK * (o->along_k ? along : deep);
  LLVMValueRef from = dt__matmul_shared(t, at, outer * o->pitch + inner * HALF);
  dt__ptx_matrices(t->k->m, from, !o->along_k, out);
}

dt_operand_place_t dt__matmul_mma_place(dt_tile_t *t) {
  dt_emit_t *m = t->k->m;
  LLVMValueRef row = LLVMBuildLShr(m->b, t->lane, dt__emit_i32(m, 2), "");
  LLVMValueRef pair = LLVMBuildAnd(m->b, t->lane, dt__emit_i32(m, 3), "");
  row = LLVMBuildAdd(m->b, row, dt__matmul_step(t, t->warp_row, t->plan.matmul->group_rows, 0), "");
  LLVMValueRef deep = dt__matmul_step(t, pair, 2, 0);
  if (t->plan.parts > 1) {
    uint32_t part = t->plan.matmul->depth / t->plan.parts;
    deep = LLVMBuildAdd(m->b, deep, dt__matmul_step(t, t->slice, part, 0), "");
  }
  return (dt_operand_place_t){.var = row, .k = deep, .to = dt__emit_i32(m, 0)};
}

// The same of A where its rows are, `from` being the address of the thread's first pair of
// elements: of rows r and r + 8, then of the same 8 elements further.
static void read_rows(dt_tile_t *t, LLVMValueRef from, uint32_t along, uint32_t deep,
                      LLVMValueRef out[4]) {
  dt_emit_t *m = t->k->m;
  for (uint32_t i = 0; i < 4; i++) {
    LLVMValueRef rows = dt__emit_i64(m, along * BLOCK + i % 2 * 8);
    LLVMValueRef row = dt__emit_offset(m, from, LLVMBuildMul(m->b, t->units[0].by_row, rows, ""));
    LLVMValueRef step = dt__emit_i64(m, (deep * BLOCK + i / 2 * 8) * HALF);
    out[i] = dt__emit_load_at(m, DT_I32, 0, dt__emit_offset(m, row, step), 4, false);
  }
}

static LLVMValueRef rows_from(dt_tile_t *t, LLVMValueRef first_k) {
  dt_emit_t *m = t->k->m;
  LLVMValueRef deep = LLVMBuildZExt(m->b, t->units[0].k, m->t_i64, "");
  deep = LLVMBuildAdd(m->b, first_k, deep, "");
  return dt__emit_offset(m, t->units[0].from, LLVMBuildMul(m->b, deep, dt__emit_i64(m, HALF), ""));
}

void dt__matmul_mma(dt_tile_t *t, LLVMValueRef first_k, LLVMValueRef at) {
  dt_emit_t *m = t->k->m;
  const dt_team_matmul_t *tile = t->plan.matmul;
  uint32_t rows = tile->group_rows / BLOCK, cols = tile->group_cols / BLOCK;
  LLVMValueRef sums[DT_MATMUL_MAX_SUMS], a[MAX_BLOCKS][4], b[4];
  bool in_place = t->plan.a.copy == DT_COPY_NONE;
  LLVMValueRef a_at = in_place ? rows_from(t, first_k) : begin(t, &t->plan.a, at);
  LLVMValueRef b_at = begin(t, &t->plan.b, at);
  for (uint32_t i = 0; i < t->n_sums; i++)
    sums[i] = LLVMBuildLoad2(m->b, t->type, t->sums[i], "");
  for (uint32_t deep = 0; deep < tile->depth / t->plan.parts / BLOCK; deep++) {
    for (uint32_t i = 0; i < rows; i++)
      if (in_place)
        read_rows(t, a_at, i, deep, a[i]);
      else
        read_block(t, &t->plan.a, a_at, i, deep, a[i]);
    for (uint32_t j = 0; j < 2 * cols; j++) {
      if (j % 2 == 0)
        read_block(t, &t->plan.b, b_at, j / 2, deep, b);
      for (uint32_t i = 0; i < rows; i++)
        dt__ptx_multiply(m, t->plan.a.dtype, a[i], &b[j % 2 * 2], &sums[(i * 2 * cols + j) * 4]);
    }
  }
  for (uint32_t i = 0; i < t->n_sums; i++)
    LLVMBuildStore(m->b, sums[i], t->sums[i]);
}

// Two neighbouring sums at a time.
static void store_pair(dt_tile_t *t, uint32_t first, LLVMValueRef to) {
  dt_emit_t *m = t->k->m;
  LLVMValueRef pair = LLVMGetPoison(LLVMVectorType(t->type, 2));
  for (uint32_t i = 0; i < 2; i++) {
    LLVMValueRef one = LLVMBuildLoad2(m->b, t->type, t->sums[first + i], "");
    pair = LLVMBuildInsertElement(m->b, pair, one, dt__emit_i32(m, i), "");
  }
  dt__emit_store_at(m, DT_F32, pair, to, 8);
}

void dt__matmul_mma_store(dt_tile_t *t, LLVMValueRef at) {
  dt_emit_t *m = t->k->m;
  const dt_team_matmul_t *tile = t->plan.matmul;
  uint32_t rows = tile->group_rows / BLOCK, cols = 2 * tile->group_cols / BLOCK,
           pitch = t->plan.c_pitch;
  LLVMValueRef row = LLVMBuildLShr(m->b, t->lane, dt__emit_i32(m, 2), "");
  LLVMValueRef col = LLVMBuildAnd(m->b, t->lane, dt__emit_i32(m, 3), "");
  row = LLVMBuildAdd(m->b, row, dt__matmul_step(t, t->warp_row, tile->group_rows, 0), "");
  at = LLVMBuildAdd(m->b, at, dt__matmul_step(t, row, pitch, 0), "");
  at = LLVMBuildAdd(m->b, at, dt__matmul_step(t, col, 8, 0), "");
  at = LLVMBuildAdd(m->b, at, dt__matmul_step(t, t->warp_col, tile->group_cols * 4, 0), "");
  for (uint32_t i = 0; i < rows; i++)
    for (uint32_t j = 0; j < cols; j++)
      for (uint32_t half = 0; half < 2; half++) {
        uint32_t plus = (i * BLOCK + half * 8) * pitch + j * 8 * 4;
        store_pair(t, (i * cols + j) * 4 + half * 2, dt__matmul_shared(t, at, plus));
      }
}
