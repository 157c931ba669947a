// SPDX-License-Identifier: Apache-2.0
// Products by multiply-adds of single threads: f32, f64 and integers, and halves where every
// rounding must stand in its order. The 32 threads of a warp stand in 4 rows of 8; each has
// rows / 4 x width / 8 sums. Vectors are read from shared memory along whichever loop is innermost
// there, so which rows and columns a thread has depends on it:
//
//   k innermost    row i of thread y is y + 4 i: 4 (columns: 8) neighbouring rows are read at a
//                  time, which pitches keep in different banks
//   m innermost    vectors of V rows: i stands at (i / V) * 4 V + y V + i % V
#include "backend_cuda/emit/matmul.h"
#include "backend_cuda/emit/ptx.h"

#define MAX_SIDE 64 // of MAX_SUMS over the least rows or columns, among 4 or 8 threads
#define MAX_STEP 4  // elements of k at a time

// What a thread reads of one operand.
typedef struct side_t {
  const dt_operand_t *o;
  uint32_t threads, n; // of the warp along this side; rows or columns of a thread
  uint32_t lanes;      // of a vector, where k is not innermost
  LLVMValueRef at;     // byte of shared memory where the thread begins, i32
  LLVMValueRef v[MAX_STEP][MAX_SIDE];
} side_t;

#define MANY_SUMS 96 // which leave few registers

// Multiply-adds written out for a thread. More are a loop: the assembler would take seconds for
// them, and keep more of what they read than there are registers, of halves sooner, which each take
// one of their own.
#define MAX_WRITTEN 1024
#define MAX_WRITTEN_HALVES 256

static uint32_t step_of(const dt_tile_t *t) {
  return dt_dtype_size(t->plan.dtype) == 8 || t->n_sums > MANY_SUMS ? 2 : 4;
}

static side_t side_of(dt_tile_t *t, const dt_operand_t *o) {
  bool is_a = o == &t->plan.a;
  side_t s = {.o = o, .threads = is_a ? 4 : 8};
  s.n = (is_a ? t->plan.matmul->group_rows : t->plan.matmul->group_cols) / s.threads;
  s.lanes = s.n < step_of(t) ? s.n : step_of(t);
  return s;
}

// The thread among its warp's rows (columns).
static LLVMValueRef thread_of(dt_tile_t *t, const side_t *s) {
  dt_emit_t *m = t->k->m;
  if (s->threads == 8)
    return LLVMBuildAnd(m->b, t->lane, dt__emit_i32(m, 7), "");
  return LLVMBuildLShr(m->b, t->lane, dt__emit_i32(m, 3), "");
}

// Row (column) `i` of the thread in its warp's part, less that of i = 0, which is `unit` times the
// thread.
static uint32_t unit_of(const side_t *s) { return s->o->along_k ? 1 : s->lanes; }

static uint32_t place_of(const side_t *s, uint32_t i) {
  if (s->o->along_k)
    return s->threads * i;
  return i / s->lanes * s->threads * s->lanes + i % s->lanes;
}

// First row (column) of the thread in the tile.
static LLVMValueRef first_of(dt_tile_t *t, const side_t *s) {
  bool is_a = s->o == &t->plan.a;
  uint32_t size = is_a ? t->plan.matmul->group_rows : t->plan.matmul->group_cols;
  LLVMValueRef warp = dt__matmul_step(t, is_a ? t->warp_row : t->warp_col, size, 0);
  return LLVMBuildAdd(t->k->m->b, warp, dt__matmul_step(t, thread_of(t, s), unit_of(s), 0), "");
}

static uint32_t element_of(const side_t *s) { return (uint32_t)dt_dtype_size(s->o->dtype); }

static void begin_side(dt_tile_t *t, side_t *s, LLVMValueRef ring) {
  dt_emit_t *m = t->k->m;
  uint32_t part = t->plan.matmul->depth / t->plan.parts, element = element_of(s);
  uint32_t by_row = s->o->along_k ? s->o->pitch : element;
  uint32_t by_k = s->o->along_k ? element : s->o->pitch;
  s->at = LLVMBuildAdd(m->b, ring, dt__matmul_step(t, first_of(t, s), by_row, s->o->offset), "");
  if (t->plan.parts > 1)
    s->at = LLVMBuildAdd(m->b, s->at, dt__matmul_step(t, t->slice, part * by_k, 0), "");
}

static LLVMValueRef part_of(dt_tile_t *t, const side_t *s, LLVMValueRef vector, uint32_t i) {
  dt_emit_t *m = t->k->m;
  LLVMValueRef value = LLVMBuildExtractElement(m->b, vector, dt__emit_i32(m, i), "");
  return s->o->dtype == t->plan.dtype ? value : dt__emit_cast(m, s->o->dtype, t->plan.dtype, value);
}

// Fills s->v[0 … step - 1] from element `at` of k on.
static void read_along_k(dt_tile_t *t, side_t *s, uint32_t at, uint32_t step) {
  uint32_t element = element_of(s);
  for (uint32_t i = 0; i < s->n; i++) {
    LLVMValueRef from = dt__matmul_shared(t, s->at, place_of(s, i) * s->o->pitch + at * element);
    LLVMValueRef vector = dt__emit_load_at(t->k->m, s->o->dtype, step, from, step * element, false);
    for (uint32_t x = 0; x < step; x++)
      s->v[x][i] = part_of(t, s, vector, x);
  }
}

// Fills s->v[x] for element `at` of k.
static void read_across_k(dt_tile_t *t, side_t *s, uint32_t at, uint32_t x) {
  uint32_t element = element_of(s);
  for (uint32_t i = 0; i < s->n; i += s->lanes) {
    LLVMValueRef from = dt__matmul_shared(t, s->at, place_of(s, i) * element + at * s->o->pitch);
    LLVMValueRef vector =
        dt__emit_load_at(t->k->m, s->o->dtype, s->lanes, from, s->lanes * element, false);
    for (uint32_t l = 0; l < s->lanes; l++)
      s->v[x][i + l] = part_of(t, s, vector, l);
  }
}

// What is read by single elements of k is read just before it is used: registers are few.
static void step_over(dt_tile_t *t, side_t *a, side_t *b, uint32_t at, LLVMValueRef *sums) {
  dt_emit_t *m = t->k->m;
  side_t *sides[2] = {a, b};
  uint32_t step = step_of(t);
  for (uint32_t i = 0; i < 2; i++)
    if (sides[i]->o->along_k)
      read_along_k(t, sides[i], at, step);
  for (uint32_t x = 0; x < step; x++) {
    for (uint32_t i = 0; i < 2; i++)
      if (!sides[i]->o->along_k)
        read_across_k(t, sides[i], at + x, x);
    for (uint32_t i = 0; i < a->n; i++)
      for (uint32_t j = 0; j < b->n; j++)
        sums[i * b->n + j] = dt__emit_mul_add(m, a->v[x][i], b->v[x][j], sums[i * b->n + j]);
  }
}

// Steps of k that are written out: all of the thread's part, or what divides it.
static uint32_t written_of(const dt_tile_t *t, uint32_t part) {
  uint32_t most = t->plan.a.dtype == t->plan.dtype ? MAX_WRITTEN : MAX_WRITTEN_HALVES;
  uint32_t steps = step_of(t);
  while (part % (2 * steps) == 0 && 2 * steps * t->n_sums <= most)
    steps *= 2;
  return steps;
}

static void advance(dt_tile_t *t, side_t *s, LLVMValueRef k) {
  uint32_t by_k = s->o->along_k ? element_of(s) : s->o->pitch;
  s->at = LLVMBuildAdd(t->k->m->b, s->at, dt__matmul_step(t, k, by_k, 0), "");
}

static void multiply_steps(dt_tile_t *t, side_t *a, side_t *b, uint32_t steps) {
  dt_emit_t *m = t->k->m;
  LLVMValueRef sums[DT_MATMUL_MAX_SUMS];
  for (uint32_t i = 0; i < t->n_sums; i++)
    sums[i] = LLVMBuildLoad2(m->b, t->type, t->sums[i], "");
  for (uint32_t k = 0; k < steps; k += step_of(t))
    step_over(t, a, b, k, sums);
  for (uint32_t i = 0; i < t->n_sums; i++)
    LLVMBuildStore(m->b, sums[i], t->sums[i]);
}

void dt__matmul_fma(dt_tile_t *t, LLVMValueRef at) {
  dt_emit_t *m = t->k->m;
  side_t a = side_of(t, &t->plan.a), b = side_of(t, &t->plan.b);
  uint32_t part = t->plan.matmul->depth / t->plan.parts, steps = written_of(t, part);
  uint32_t level = t->level + 2;
  begin_side(t, &a, at);
  begin_side(t, &b, at);
  if (steps == part) {
    multiply_steps(t, &a, &b, part);
    return;
  }
  LLVMValueRef k = dt__loop_open(t->k, level, dt__emit_i64(m, 0), dt__emit_i64(m, part), steps);
  dt__ptx_no_unroll(m);
  k = LLVMBuildTrunc(m->b, k, m->t_i32, "");
  advance(t, &a, k);
  advance(t, &b, k);
  multiply_steps(t, &a, &b, steps);
  dt__loop_close(t->k, level);
}

void dt__matmul_fma_store(dt_tile_t *t, LLVMValueRef at) {
  dt_emit_t *m = t->k->m;
  side_t a = side_of(t, &t->plan.a), b = side_of(t, &t->plan.b);
  uint32_t element = (uint32_t)dt_dtype_size(t->plan.dtype);
  uint32_t lanes = b.o->along_k ? 1 : b.lanes;
  LLVMValueRef row = dt__matmul_step(t, first_of(t, &a), t->plan.c_pitch, 0);
  at = LLVMBuildAdd(m->b, at, row, "");
  at = LLVMBuildAdd(m->b, at, dt__matmul_step(t, first_of(t, &b), element, 0), "");
  LLVMTypeRef type = LLVMVectorType(t->type, lanes);
  for (uint32_t i = 0; i < a.n; i++)
    for (uint32_t j = 0; j < b.n; j += lanes) {
      uint32_t plus = place_of(&a, i) * t->plan.c_pitch + place_of(&b, j) * element;
      LLVMValueRef to = dt__matmul_shared(t, at, plus), all = LLVMGetPoison(type);
      for (uint32_t l = 0; l < lanes; l++) {
        LLVMValueRef one = LLVMBuildLoad2(m->b, t->type, t->sums[i * b.n + j + l], "");
        all = LLVMBuildInsertElement(m->b, all, one, dt__emit_i32(m, l), "");
      }
      dt__emit_store_at(m, t->plan.dtype, all, to, lanes * element);
    }
}
