// SPDX-License-Identifier: Apache-2.0
// Rows of A that a micro-kernel reads where they lie. Windows of neighbouring places stand at one
// distance, so that a group of rows needs no copy: what it multiplies is found by the first row's
// place, that distance and the place of a run. Groups that go on in another row of the image, and
// those whose rows would fight for sets of the first-level cache, are copied.
//
//   k       | run | run | run | run | run |     a block: whole runs, or a piece of a long one
//   blocks  |        0        |     1     |
#include "backend_llvm/emit/body.h"
#include "backend_llvm/emit/index.h"
#include "backend_llvm/emit/matmul.h"

#define CROWDED 2048 // bytes; rows at multiples of it meet in few sets

bool dt__matmul_in_place(dt_emit_t *m, const dt_kernel_t *kernel, const dt_matmul_t *matmul) {
  const dt_stage_t *stage = &kernel->stages.items[0];
  const dt_inst_t *a = &stage->insts.items[matmul->a], *b = &stage->insts.items[matmul->b];
  return dt__matmul_has_runs(m, kernel, matmul) && a->dtype == stage->reductions.items[0].dtype &&
         b->dtype == a->dtype && dt_dtype_size(a->dtype) >= 4;
}

static LLVMValueRef table_at(dt_emit_t *m, LLVMValueRef table, LLVMValueRef at) {
  return LLVMBuildLoad2(m->b, m->t_i64, dt__emit_element(m, m->t_i64, table, at), "");
}

// Whether the rows from `first` on, as many as there are below `end`, stand `step` apart.
static LLVMValueRef stand_apart(dt_body_t *k, LLVMValueRef table, LLVMValueRef first,
                                LLVMValueRef end, LLVMValueRef step) {
  dt_emit_t *m = k->m;
  LLVMValueRef all = LLVMConstInt(m->t_i1, 1, 0), begin = table_at(m, table, first);
  for (uint32_t r = 2; r < k->schedule->matmul.rows; r++) {
    LLVMValueRef row = LLVMBuildAdd(m->b, first, dt__emit_i64(m, r), "");
    LLVMValueRef want = LLVMBuildMul(m->b, step, dt__emit_i64(m, r), "");
    LLVMValueRef is = LLVMBuildSub(m->b, table_at(m, table, row), begin, "");
    LLVMValueRef right = LLVMBuildICmp(m->b, LLVMIntEQ, is, want, "");
    LLVMValueRef none = LLVMBuildICmp(m->b, LLVMIntSGE, row, end, "");
    all = LLVMBuildAnd(m->b, all,
                       LLVMBuildSelect(m->b, none, LLVMConstInt(m->t_i1, 1, 0), right, ""), "");
  }
  return all;
}

LLVMValueRef dt__matmul_find_steps(dt_body_t *k, LLVMValueRef table, LLVMValueRef end) {
  dt_emit_t *m = k->m;
  const dt_matmul_t *matmul = &k->schedule->matmul;
  int64_t size = (int64_t)dt_dtype_size(k->kernel->stages.items[0].reductions.items[0].dtype);
  LLVMValueRef steps =
      dt__body_slot(k, m->t_i64, matmul->tile_rows * DT_MATMUL_BIG_ROWS / matmul->rows + 1);
  LLVMValueRef zero = dt__emit_i64(m, 0), one = dt__emit_i64(m, 1);
  LLVMValueRef row = dt__loop_open(k, 2, zero, end, matmul->rows);
  LLVMValueRef second = LLVMBuildAdd(m->b, row, one, "");
  LLVMValueRef alone = LLVMBuildICmp(m->b, LLVMIntSGE, second, end, "");
  second = LLVMBuildSelect(m->b, alone, row, second, "");
  LLVMValueRef step = LLVMBuildSub(m->b, table_at(m, table, second), table_at(m, table, row), "");
  LLVMValueRef crowd = LLVMBuildAnd(m->b, step, dt__emit_i64(m, CROWDED / size - 1), "");
  LLVMValueRef good = LLVMBuildICmp(m->b, LLVMIntNE, crowd, zero, "");
  good = LLVMBuildAnd(m->b, good, stand_apart(k, table, row, end, step), "");
  step = LLVMBuildSelect(m->b, good, step, zero, "");
  step = LLVMBuildSelect(m->b, alone, one, step, "");
  LLVMValueRef at = LLVMBuildUDiv(m->b, row, dt__emit_i64(m, matmul->rows), "");
  LLVMBuildStore(m->b, step, dt__emit_element(m, m->t_i64, steps, at));
  dt__loop_close(k, 2);
  return steps;
}

// ---- Blocks -----------------------------------------------------------------------------------------

static LLVMValueRef smaller(dt_emit_t *m, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildSelect(m->b, LLVMBuildICmp(m->b, LLVMIntSLT, a, b, ""), a, b, "");
}

static LLVMValueRef at_least_one(dt_emit_t *m, LLVMValueRef a) {
  LLVMValueRef one = dt__emit_i64(m, 1);
  return LLVMBuildSelect(m->b, LLVMBuildICmp(m->b, LLVMIntSGT, a, one, ""), a, one, "");
}

static LLVMValueRef ceil_div(dt_emit_t *m, LLVMValueRef a, LLVMValueRef b) {
  LLVMValueRef more = LLVMBuildSub(m->b, LLVMBuildAdd(m->b, a, b, ""), dt__emit_i64(m, 1), "");
  return LLVMBuildUDiv(m->b, more, b, "");
}

dt_matmul_blocks_t dt__matmul_blocks(dt_body_t *k, LLVMValueRef extent_k) {
  dt_emit_t *m = k->m;
  const dt_stage_t *stage = &k->kernel->stages.items[0];
  LLVMValueRef most = dt__emit_i64(m, DT_MATMUL_DEPTH);
  LLVMValueRef run = dt__index_scalar(k, stage->extents[stage->n_loops - 1]);
  dt__body_at(k, 1);
  run = at_least_one(m, run);
  dt_matmul_blocks_t b = {.terms = extent_k, .run = run};
  b.is_short = LLVMBuildICmp(m->b, LLVMIntSLE, run, most, "");
  // Runs of one loop stand at one distance; with more loops it is not the same for all.
  LLVMValueRef several = stage->n_loops == 2 ? at_least_one(m, LLVMBuildUDiv(m->b, most, run, ""))
                                             : dt__emit_i64(m, 1);
  b.pieces = ceil_div(m, run, most);
  b.piece = ceil_div(m, run, b.pieces);
  b.whole = LLVMBuildMul(m->b, several, run, "");
  b.n = LLVMBuildMul(m->b, at_least_one(m, ceil_div(m, extent_k, b.whole)), b.pieces, "");
  return b;
}

void dt__matmul_begin_block(dt_body_t *k, dt_matmul_blocks_t *b, LLVMValueRef block) {
  dt_emit_t *m = k->m;
  LLVMValueRef number = LLVMBuildUDiv(m->b, block, b->pieces, "");
  LLVMValueRef within = LLVMBuildURem(m->b, block, b->pieces, "");
  LLVMValueRef first = LLVMBuildMul(m->b, number, b->whole, "");
  within = LLVMBuildMul(m->b, within, b->piece, "");
  LLVMValueRef of_runs = smaller(m, b->whole, LLVMBuildSub(m->b, b->terms, first, ""));
  LLVMValueRef of_run = smaller(m, b->piece, LLVMBuildSub(m->b, b->run, within, ""));
  b->first_k = LLVMBuildAdd(m->b, first, within, "");
  b->depth = LLVMBuildSelect(m->b, b->is_short, of_runs, of_run, "");
  b->length = smaller(m, b->run, b->depth); // of nothing no run is read
  LLVMValueRef runs = LLVMBuildUDiv(m->b, b->depth, b->run, "");
  b->runs = LLVMBuildSelect(m->b, b->is_short, runs, dt__emit_i64(m, 1), "");
  b->place = dt__matmul_run_place(k, LLVMBuildUDiv(m->b, first, b->run, ""), 2, &b->run_step);
  b->place = LLVMBuildAdd(m->b, b->place, within, "");
}
