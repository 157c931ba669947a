// SPDX-License-Identifier: Apache-2.0
// Micro-kernels of integers: A and B are integers with a scale for each block of k. Within a
// segment, a block or a part of one, four products at a time are summed as integers, exactly; then
//
//   C += (sum - zero of B * sum of A's integers) * (scale of A * scale of B)
//
// Codes past the last element of k are 0, so that segments are whole.
#include "backend_llvm/emit/matmul_micro.h"

enum { MOST = 16 * 4 }; // sums of a register tile

typedef struct dots_t {
  dt_emit_t *m;
  const dt_micro_form_t *form;
  const dt_micro_args_t *args;
  LLVMValueRef fn;
  uint32_t rows, vectors, lanes;
  LLVMTypeRef ints, floats;
  LLVMValueRef sums[MOST], acc[MOST]; // of the segment, of all: [row][vector]
} dots_t;

static uint32_t count(const dots_t *d) { return d->rows * d->vectors; }

static LLVMValueRef c_address(dots_t *d, uint32_t i) {
  dt_emit_t *m = d->m;
  LLVMValueRef at = LLVMBuildMul(m->b, d->args->c_stride, dt__emit_i64(m, i / d->vectors), "");
  at = LLVMBuildAdd(m->b, at, dt__emit_i64(m, (int64_t)(i % d->vectors) * d->lanes), "");
  return dt__emit_element(m, m->t_f32, d->args->c, at);
}

// Loop variable and `n` values that go round; the loop runs at least once.
typedef struct turn_t {
  LLVMBasicBlockRef before, loop;
  LLVMValueRef at, phis[MOST];
} turn_t;

static turn_t open_turn(dots_t *d, const char *name, LLVMTypeRef type, LLVMValueRef *values) {
  dt_emit_t *m = d->m;
  turn_t t = {.before = LLVMGetInsertBlock(m->b), .loop = dt__emit_block(m, d->fn, name)};
  LLVMBuildBr(m->b, t.loop);
  LLVMPositionBuilderAtEnd(m->b, t.loop);
  t.at = LLVMBuildPhi(m->b, m->t_i64, "");
  for (uint32_t i = 0; i < count(d); i++) {
    t.phis[i] = LLVMBuildPhi(m->b, type, "");
    LLVMAddIncoming(t.phis[i], &values[i], &t.before, 1);
    values[i] = t.phis[i];
  }
  return t;
}

static void close_turn(dots_t *d, turn_t *t, LLVMValueRef end, LLVMValueRef *values) {
  dt_emit_t *m = d->m;
  LLVMBasicBlockRef last = LLVMGetInsertBlock(m->b), done = dt__emit_block(m, d->fn, "end");
  LLVMValueRef next = LLVMBuildNSWAdd(m->b, t->at, dt__emit_i64(m, 1), "");
  LLVMBuildCondBr(m->b, LLVMBuildICmp(m->b, LLVMIntSLT, next, end, ""), t->loop, done);
  LLVMAddIncoming(t->at, (LLVMValueRef[]){dt__emit_i64(m, 0), next},
                  (LLVMBasicBlockRef[]){t->before, last}, 2);
  for (uint32_t i = 0; i < count(d); i++)
    LLVMAddIncoming(t->phis[i], &values[i], &last, 1);
  LLVMPositionBuilderAtEnd(m->b, done);
}

// A word of each of the codes in `words`: number `part` of those in every byte.
static LLVMValueRef part_of(dots_t *d, LLVMValueRef words, uint32_t part) {
  dt_emit_t *m = d->m;
  uint32_t bits = d->form->panel->bits;
  int64_t mask = ((1 << bits) - 1) * 0x01010101LL;
  if (part)
    words = LLVMBuildLShr(m->b, words, dt__emit_int(d->ints, (int64_t)part * bits), "");
  return bits == 8 ? words : LLVMBuildAnd(m->b, words, dt__emit_int(d->ints, mask), "");
}

// The products of group `at` of k, of words of four.
static void multiply_group(dots_t *d, LLVMValueRef at) {
  dt_emit_t *m = d->m;
  uint32_t parts = 8 / d->form->panel->bits;
  LLVMValueRef from = LLVMBuildMul(m->b, at, dt__emit_i64(m, d->form->width), "");
  LLVMValueRef words[4];
  for (uint32_t v = 0; v < d->vectors; v++) {
    LLVMValueRef word = LLVMBuildAdd(m->b, from, dt__emit_i64(m, (int64_t)v * d->lanes), "");
    words[v] = dt__emit_load(m, DT_I32, d->lanes, dt__emit_element(m, m->t_i32, d->args->b, word),
                             NULL, NULL);
  }
  LLVMValueRef a = LLVMBuildMul(m->b, at, dt__emit_i64(m, parts), "");
  a = dt__emit_element(m, m->t_i32, d->args->a, a);
  for (uint32_t part = 0; part < parts; part++) {
    LLVMValueRef codes[4];
    for (uint32_t v = 0; v < d->vectors; v++)
      codes[v] = part_of(d, words[v], part);
    for (uint32_t r = 0; r < d->rows; r++) {
      int64_t to = (int64_t)r * dt__matmul_a_stride(sizeof(float)) + part;
      LLVMValueRef one = dt__emit_load(
          m, DT_I32, 0, dt__emit_element(m, m->t_i32, a, dt__emit_i64(m, to)), NULL, NULL);
      LLVMValueRef all = dt__emit_splat(m, one, d->lanes);
      for (uint32_t v = 0; v < d->vectors; v++) {
        LLVMValueRef *sum = &d->sums[r * d->vectors + v];
        *sum = dt__emit_add_dots(m, codes[v], all, *sum);
      }
    }
  }
}

// Float `which` of row r's side, of segment `at`, in every lane.
static LLVMValueRef side(dots_t *d, LLVMValueRef at, uint32_t r, int64_t which) {
  dt_emit_t *m = d->m;
  LLVMValueRef from = LLVMBuildMul(m->b, d->args->side_stride, dt__emit_i64(m, r), "");
  from = LLVMBuildAdd(m->b, from, LLVMBuildMul(m->b, at, dt__emit_i64(m, 2), ""), "");
  from = LLVMBuildAdd(m->b, from, dt__emit_i64(m, which), "");
  LLVMValueRef one =
      dt__emit_load(m, DT_F32, 0, dt__emit_element(m, m->t_f32, d->args->sides, from), NULL, NULL);
  return dt__emit_splat(m, one, d->lanes);
}

// Scales the sums of segment `at`. The integers and their sums are below 2^24, but for zeros that
// are no integers: nothing is rounded before the scales.
static void scale_segment(dots_t *d, LLVMValueRef at) {
  dt_emit_t *m = d->m;
  const dt_panel_t *p = d->form->panel;
  int64_t segment = dt__panel_segment(p);
  LLVMValueRef block = LLVMBuildMul(m->b, at, dt__emit_i64(m, segment), "");
  block = p->block < DT_MATMUL_DEPTH * DT_MATMUL_WORD
              ? LLVMBuildUDiv(m->b, block, dt__emit_i64(m, p->block), "")
              : dt__emit_i64(m, 0);
  for (uint32_t v = 0; v < d->vectors; v++) {
    LLVMValueRef scale =
        dt__panel_factor(m, DT_F32, d->args->scales, block, d->form->width, v, d->lanes);
    LLVMValueRef zero = d->args->zeros ? dt__panel_factor(m, p->zeros_held, d->args->zeros, block,
                                                          d->form->width, v, d->lanes)
                                       : dt__emit_float(d->floats, p->zero);
    zero = LLVMBuildFNeg(m->b, zero, "");
    for (uint32_t r = 0; r < d->rows; r++) {
      uint32_t i = r * d->vectors + v;
      LLVMValueRef sum = LLVMBuildSIToFP(m->b, d->sums[i], d->floats, "");
      if (d->args->zeros || p->zero != 0)
        sum = dt__emit_mul_add(m, zero, side(d, at, r, 1), sum);
      LLVMValueRef by = LLVMBuildFMul(m->b, side(d, at, r, 0), scale, "");
      d->acc[i] = dt__emit_mul_add(m, sum, by, d->acc[i]);
    }
  }
}

// The C tile where `again` says so, else zeros.
static void begin(dots_t *d) {
  dt_emit_t *m = d->m;
  LLVMBasicBlockRef entry = LLVMGetInsertBlock(m->b), more = dt__emit_block(m, d->fn, "more");
  LLVMBasicBlockRef start = dt__emit_block(m, d->fn, "start");
  LLVMBuildCondBr(m->b, d->args->again, more, start);
  LLVMPositionBuilderAtEnd(m->b, more);
  LLVMValueRef zero = LLVMConstNull(d->floats), kept[MOST];
  for (uint32_t i = 0; i < count(d); i++)
    kept[i] = dt__emit_load(m, DT_F32, d->lanes, c_address(d, i), NULL, NULL);
  LLVMBuildBr(m->b, start);
  LLVMPositionBuilderAtEnd(m->b, start);
  for (uint32_t i = 0; i < count(d); i++) {
    d->acc[i] = LLVMBuildPhi(m->b, d->floats, "");
    LLVMAddIncoming(d->acc[i], (LLVMValueRef[]){zero, kept[i]}, (LLVMBasicBlockRef[]){entry, more},
                    2);
  }
}

void dt__matmul_dots(dt_emit_t *m, const dt_micro_form_t *form, LLVMValueRef fn,
                     const dt_micro_args_t *args) {
  uint32_t lanes = m->target->vector_bytes / (uint32_t)sizeof(float);
  dots_t d = {.m = m,
              .form = form,
              .args = args,
              .fn = fn,
              .rows = form->rows,
              .vectors = form->width / lanes,
              .lanes = lanes,
              .ints = LLVMVectorType(m->t_i32, lanes),
              .floats = LLVMVectorType(m->t_f32, lanes)};
  int64_t groups = dt__panel_segment(form->panel) / dt__panel_group(form->panel);
  begin(&d);
  turn_t segments = open_turn(&d, "segment", d.floats, d.acc);
  for (uint32_t i = 0; i < count(&d); i++)
    d.sums[i] = LLVMConstNull(d.ints);
  LLVMValueRef first = LLVMBuildMul(m->b, segments.at, dt__emit_i64(m, groups), "");
  turn_t turn = open_turn(&d, "group", d.ints, d.sums);
  multiply_group(&d, LLVMBuildAdd(m->b, first, turn.at, ""));
  close_turn(&d, &turn, dt__emit_i64(m, groups), d.sums);
  scale_segment(&d, segments.at);
  close_turn(&d, &segments, args->depth, d.acc);
  for (uint32_t i = 0; i < count(&d); i++)
    dt__emit_store(m, DT_F32, d.acc[i], c_address(&d, i), NULL);
  LLVMBuildRetVoid(m->b);
}
