// SPDX-License-Identifier: Apache-2.0
// Rows of A that lie anywhere, as windows do: k is several loops, and along the last of them, a
// run, elements are neighbours. The place of a row does not depend on k, nor that of a run on the
// row. So rows are found once a tile, and runs once a depth, which may begin and end within one:
//
//   k        | dy 0, dx and c    | dy 1              | dy 2              |
//   depths   |         0              |         1              |    2    |
//
// Each piece of a run is copied for all rows before the next one. What its last vector writes
// beyond it belongs to the next piece, or lies behind the depth, where rows of the copy have room.
#include "backend_llvm/emit/body.h"
#include "backend_llvm/emit/index.h"
#include "backend_llvm/emit/matmul.h"

// The place of A's element: of its row, and the steps of k's loops.
typedef struct place_t {
  dt_sym_t row, step[DT_MAX_LOOPS];
} place_t;

static const dt_inst_t *load_of_a(const dt_kernel_t *kernel, uint32_t a) {
  return &kernel->stages.items[0].insts.items[a];
}

static bool find_place(dt_emit_t *m, const dt_kernel_t *kernel, uint32_t a, place_t *out) {
  const dt_stage_t *stage = &kernel->stages.items[0];
  const dt_inst_t *load = load_of_a(kernel, a);
  out->row = dt__access_place(&m->program, kernel, load->buffer, load->index);
  for (uint32_t v = 0; v < stage->n_loops; v++)
    if (!dt__sym_linear(m->env, out->row, stage->vars[v], &out->step[v], &out->row))
      return false;
  return true;
}

bool dt__matmul_rows_run(dt_emit_t *m, const dt_kernel_t *kernel, const dt_matmul_t *matmul) {
  place_t place;
  int64_t last = 0;
  return find_place(m, kernel, matmul->a, &place) &&
         dt__sym_is_const(m->env, place.step[kernel->stages.items[0].n_loops - 1], &last) &&
         last == 1;
}

bool dt__matmul_has_runs(dt_emit_t *m, const dt_kernel_t *kernel, const dt_matmul_t *matmul) {
  place_t place;
  dt_sym_t step, rest;
  return find_place(m, kernel, matmul->a, &place) &&
         (kernel->stages.items[0].n_loops > 1 ||
          !dt__sym_linear(m->env, place.row, kernel->vars[kernel->n_loops - 2], &step, &rest));
}

static LLVMValueRef smaller(dt_emit_t *m, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildSelect(m->b, LLVMBuildICmp(m->b, LLVMIntSLT, a, b, ""), a, b, "");
}

LLVMValueRef dt__matmul_find_rows(dt_body_t *k, LLVMValueRef first_row, LLVMValueRef rows,
                                  LLVMValueRef end) {
  dt_emit_t *m = k->m;
  const dt_matmul_t *matmul = &k->schedule->matmul;
  LLVMValueRef table = dt__body_slot(k, m->t_i64, matmul->tile_rows * DT_MATMUL_BIG_ROWS);
  LLVMValueRef last = LLVMBuildSub(m->b, rows, dt__emit_i64(m, 1), "");
  place_t place;
  (void)find_place(m, k->kernel, matmul->a, &place); // verified
  LLVMValueRef row = dt__loop_open(k, 2, dt__emit_i64(m, 0), end, 1);
  LLVMValueRef own = LLVMBuildAdd(m->b, first_row, smaller(m, row, last), "");
  dt__bind_symbol(k, k->kernel->vars[k->kernel->n_loops - 2], 2, own);
  LLVMValueRef at = dt__index_scalar(k, place.row);
  dt__body_at(k, 2);
  LLVMBuildStore(m->b, at, dt__emit_element(m, m->t_i64, table, row));
  dt__loop_close(k, 2);
  return table;
}

// ---- Copying --------------------------------------------------------------------------------------
typedef struct runs_t {
  dt_body_t *k;
  dt_dtype_t from, to; // halves become f32
  int64_t stride;      // from one row of the copy to the next
  uint32_t lanes;
  uint32_t level;
  LLVMValueRef table, a_copy, begin, end; // rows of the copy
} runs_t;

// In elements: rows have room for as many sums, and bytes lie in words.
static int64_t stride_of(dt_dtype_t sum, dt_dtype_t element) {
  size_t size = dt_dtype_size(sum);
  return dt__matmul_a_stride(size) * (int64_t)(size / dt_dtype_size(element));
}

static void copy_vector(const runs_t *r, LLVMValueRef from, LLVMValueRef to, LLVMValueRef at,
                        LLVMValueRef mask) {
  dt_emit_t *m = r->k->m;
  LLVMValueRef source = dt__emit_element(m, dt__emit_memory_type(m, r->from), from, at);
  LLVMValueRef value = dt__emit_load(m, r->from, r->lanes, source, mask, NULL);
  value = dt__emit_cast(m, r->from, r->to, value);
  dt__emit_store(m, r->to, value, dt__emit_element(m, dt__emit_type(m, r->to), to, at), NULL);
}

// `length` elements, whole vectors and the rest, in loops of the level behind those of rows.
static void copy_piece(const runs_t *r, LLVMValueRef from, LLVMValueRef to, LLVMValueRef length) {
  dt_body_t *k = r->k;
  dt_emit_t *m = k->m;
  dt__body_at(k, r->level + 1);
  LLVMValueRef whole = LLVMBuildAnd(m->b, length, dt__emit_i64(m, -(int64_t)r->lanes), "");
  LLVMValueRef at = dt__loop_open(k, r->level + 2, dt__emit_i64(m, 0), whole, r->lanes);
  copy_vector(r, from, to, at, NULL);
  dt__loop_close(k, r->level + 2);
  at = dt__loop_open(k, r->level + 2, whole, length, r->lanes);
  LLVMValueRef left = LLVMBuildTrunc(m->b, LLVMBuildSub(m->b, length, at, ""), m->t_i32, "");
  LLVMValueRef mask = LLVMBuildICmp(m->b, LLVMIntULT, dt__emit_ramp(m->t_i32, r->lanes, 1),
                                    dt__emit_splat(m, left, r->lanes), "");
  copy_vector(r, from, to, at, mask);
  dt__loop_close(k, r->level + 2);
}

// The piece that begins at `place`, apart from the row's own, for all rows.
static void copy_rows(const runs_t *r, LLVMValueRef place, LLVMValueRef to, LLVMValueRef length) {
  dt_body_t *k = r->k;
  dt_emit_t *m = k->m;
  const dt_inst_t *load = load_of_a(k->kernel, k->schedule->matmul.a);
  LLVMValueRef base = k->bases[load->buffer.id - 1];
  LLVMValueRef stride = dt__emit_i64(m, r->stride);
  LLVMValueRef row = dt__loop_open(k, r->level + 1, r->begin, r->end, 1);
  LLVMValueRef own =
      LLVMBuildLoad2(m->b, m->t_i64, dt__emit_element(m, m->t_i64, r->table, row), "");
  LLVMValueRef from = dt__emit_element(m, dt__emit_memory_type(m, r->from), base,
                                       LLVMBuildAdd(m->b, own, place, ""));
  LLVMValueRef at = LLVMBuildAdd(m->b, LLVMBuildMul(m->b, row, stride, ""), to, "");
  copy_piece(r, from, dt__emit_element(m, dt__emit_type(m, r->to), r->a_copy, at), length);
  dt__loop_close(k, r->level + 1);
}

// Where run number `run` begins, apart from the row's own place; *out_step: how far on the next one
// does, where there is but one loop of them.
LLVMValueRef dt__matmul_run_place(dt_body_t *k, LLVMValueRef run, uint32_t level,
                                  LLVMValueRef *out_step) {
  dt_emit_t *m = k->m;
  const dt_stage_t *stage = &k->kernel->stages.items[0];
  place_t place;
  (void)find_place(m, k->kernel, k->schedule->matmul.a, &place); // verified
  LLVMValueRef all = dt__emit_i64(m, 0);
  *out_step = all;
  for (uint32_t v = stage->n_loops - 1; v-- > 0;) {
    LLVMValueRef extent = dt__index_scalar(k, stage->extents[v]);
    LLVMValueRef step = *out_step = dt__index_scalar(k, place.step[v]);
    dt__body_at(k, level);
    LLVMValueRef digit = v ? LLVMBuildURem(m->b, run, extent, "") : run;
    run = v ? LLVMBuildUDiv(m->b, run, extent, "") : run;
    all = LLVMBuildAdd(m->b, all, LLVMBuildMul(m->b, digit, step, ""), "");
  }
  return all;
}

void dt__matmul_copy_runs(dt_body_t *k, dt_dtype_t to, const dt_matmul_rows_t *rows,
                          LLVMValueRef first_k, LLVMValueRef depth, uint32_t level) {
  dt_emit_t *m = k->m;
  const dt_stage_t *stage = &k->kernel->stages.items[0];
  const dt_inst_t *load = load_of_a(k->kernel, k->schedule->matmul.a);
  runs_t r = {.k = k,
              .from = load->dtype,
              .to = to,
              .stride = stride_of(stage->reductions.items[0].dtype, to),
              .level = level,
              .table = rows->table,
              .a_copy = k->scratch,
              .begin = rows->begin,
              .end = rows->end};
  r.lanes = m->target->vector_bytes / (uint32_t)dt_dtype_size(r.to);
  LLVMValueRef run_length = dt__index_scalar(k, stage->extents[stage->n_loops - 1]), step;
  dt__body_at(k, level - 1);
  LLVMValueRef last_k = LLVMBuildAdd(m->b, first_k, depth, "");
  LLVMValueRef first = LLVMBuildUDiv(m->b, first_k, run_length, "");
  LLVMValueRef runs = LLVMBuildAdd(m->b, last_k, run_length, "");
  runs = LLVMBuildUDiv(m->b, LLVMBuildSub(m->b, runs, dt__emit_i64(m, 1), ""), run_length, "");
  LLVMValueRef run = dt__loop_open(k, level, first, runs, 1);
  LLVMValueRef begin = LLVMBuildMul(m->b, run, run_length, "");
  LLVMValueRef stop = smaller(m, LLVMBuildAdd(m->b, begin, run_length, ""), last_k);
  LLVMValueRef within = LLVMBuildICmp(m->b, LLVMIntSLT, begin, first_k, "");
  LLVMValueRef from = LLVMBuildSelect(m->b, within, first_k, begin, "");
  LLVMValueRef at = dt__matmul_run_place(k, run, level, &step);
  at = LLVMBuildAdd(m->b, at, LLVMBuildSub(m->b, from, begin, ""), "");
  copy_rows(&r, at, LLVMBuildSub(m->b, from, first_k, ""), LLVMBuildSub(m->b, stop, from, ""));
  dt__loop_close(k, level);
}
