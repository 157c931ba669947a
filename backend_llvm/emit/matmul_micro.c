// SPDX-License-Identifier: Apache-2.0
// Micro-kernels are internal functions, shared by all kernels of a unit. With one row, several sets
// of accumulators take turns over k, so that multiply-adds do not wait for each other. Under
// strict_fp there is one set. Panels of halves and of codes are read as they lie, and elements made
// of them in registers, for each row of the panel once: few rows read as many bytes as there are.
// Many rows find the panel decoded (dt__matmul_decode). Rows of A are copied, and their stride a
// literal, which addresses take for nothing; or they are read in place: runs that lie apart.
#include "backend_llvm/emit/matmul_micro.h"
#include "fuse/matmul_rows.h"
#include "runtime/base/dtype.h"

#include <stdio.h>

// micro_step is the body of all rows: of elements, or of words.
#define MATMUL(name, a, b, sum, tile, k_step, needs, body)                                         \
  _Static_assert((DT_MATMUL_BODY_##body == DT_MATMUL_BODY_multiply_add && (k_step) == 1 &&         \
                  DT_##a == DT_##sum && DT_##b == DT_##sum) ||                                     \
                     (DT_MATMUL_BODY_##body == DT_MATMUL_BODY_dot && (k_step) == DT_MATMUL_WORD && \
                      DT_##sum == DT_I32),                                                         \
                 #name " needs a step of its own");
#include "fuse/matmul_rows.def"

// `scripts/bench matmul` measures both (bench/bench_matmul.c).
#define PREFETCH_BYTES 2048
#define MAX_SETS 4 // sets of accumulators, and steps over k in one iteration,
#define MANY_ROWS 6
#define MANY_STEPS 4 // but with so many rows or more

typedef struct micro_t {
  dt_emit_t *m;
  dt_dtype_t dtype;        // of sums; also of what is multiplied, where that is no words
  bool words_in, a_signed; // words of integers of 8 bits are multiplied
  uint32_t rows, vectors, lanes, sets;
  const dt_panel_t *panel;
  bool loose; // elements of k are taken one by one, from anywhere in a group
  LLVMValueRef fn, a, b, c, depth, again, c_stride, scales, zeros;
  LLVMValueRef a_stride, runs, run_step;    // NULL: A's rows are copied
  LLVMValueRef bases[8];                    // of every fourth row of A, where a run begins
  LLVMValueRef words[4], scale[4], zero[4]; // of the group of k, by vector
  LLVMValueRef acc[MAX_SETS * 32 * 4];      // [set][row][vector]
} micro_t;

static uint32_t acc_count(const micro_t *t) { return t->sets * t->rows * t->vectors; }

static LLVMTypeRef micro_vector(const micro_t *t) {
  return LLVMVectorType(dt__emit_type(t->m, t->dtype), t->lanes);
}

// Asks for the lines of the panel that will be read some steps later: they come from the
// second-level cache, or beyond in the first group of rows. With few rows the hardware keeps up by
// itself.
static void prefetch_panel(micro_t *t, LLVMValueRef b, uint32_t step) {
  dt_emit_t *m = t->m;
  int64_t row = (int64_t)(t->vectors * t->lanes) *
                (int64_t)(t->panel->bits ? DT_MATMUL_WORD : dt_dtype_size(t->panel->held));
  LLVMTypeRef type = m->t_ptr;
  for (int64_t line = 0; line < row && t->rows >= 4; line += 64) {
    LLVMValueRef at = dt__emit_offset(m, b, dt__emit_i64(m, PREFETCH_BYTES + step * row + line));
    LLVMValueRef args[4] = {at, dt__emit_i32(m, 0), dt__emit_i32(m, 3), dt__emit_i32(m, 1)};
    (void)dt__emit_intrinsic(m, "llvm.prefetch", &type, 1, args, 4);
  }
}

// The even and the odd ones of the four numbers in each word, as pairs of 16 bits.
static void split_pairs(dt_emit_t *m, LLVMValueRef words, bool is_signed, LLVMValueRef out[2]) {
  LLVMTypeRef halves = LLVMVectorType(m->t_i16, 2 * dt__emit_lanes(LLVMTypeOf(words)));
  LLVMValueRef pairs = LLVMBuildBitCast(m->b, words, halves, ""), eight = dt__emit_int(halves, 8);
  LLVMValueRef up = LLVMBuildShl(m->b, pairs, eight, "");
  for (uint32_t odd = 0; odd < 2; odd++)
    out[odd] = is_signed ? LLVMBuildAShr(m->b, odd ? pairs : up, eight, "")
                         : LLVMBuildLShr(m->b, odd ? pairs : up, eight, "");
}

static const char *by_bytes(uint32_t bytes, const char *at16, const char *at32, const char *at64) {
  return bytes == 64 ? at64 : bytes == 32 ? at32 : at16;
}

// To each sum the products of four u8 with four i8. Pairs of products fit their 32 bits, so that
// nothing saturates and both ways wrap as additions do.
LLVMValueRef dt__emit_add_dots(dt_emit_t *m, LLVMValueRef u, LLVMValueRef i, LLVMValueRef sums) {
  uint32_t bytes = m->target->vector_bytes;
  LLVMTypeRef numbers = LLVMVectorType(m->t_i8, bytes);
  if (m->target->dot_products == 2) {
    LLVMValueRef args[3] = {sums, LLVMBuildBitCast(m->b, u, numbers, ""),
                            LLVMBuildBitCast(m->b, i, numbers, "")};
    const char *name = by_bytes(bytes, "llvm.x86.avx512.vpdpbusd.128",
                                "llvm.x86.avx512.vpdpbusd.256", "llvm.x86.avx512.vpdpbusd.512");
    return dt__emit_intrinsic(m, name, NULL, 0, args, 3);
  }
  const char *name = by_bytes(bytes, "llvm.x86.sse2.pmadd.wd", "llvm.x86.avx2.pmadd.wd",
                              "llvm.x86.avx512.pmaddw.d.512");
  LLVMValueRef x[2], y[2];
  split_pairs(m, u, false, x);
  split_pairs(m, i, true, y);
  for (uint32_t odd = 0; odd < 2; odd++) {
    LLVMValueRef args[2] = {x[odd], y[odd]};
    sums = LLVMBuildAdd(m->b, sums, dt__emit_intrinsic(m, name, NULL, 0, args, 2), "");
  }
  return sums;
}

static LLVMValueRef multiply(const micro_t *t, LLVMValueRef a, LLVMValueRef b, LLVMValueRef sums) {
  if (!t->words_in)
    return dt__emit_mul_add(t->m, a, b, sums);
  return t->a_signed ? dt__emit_add_dots(t->m, b, a, sums) : dt__emit_add_dots(t->m, a, b, sums);
}

// ---- Panels --------------------------------------------------------------------------------------------
LLVMValueRef dt__panel_factor(dt_emit_t *m, dt_dtype_t held, LLVMValueRef from, LLVMValueRef row,
                              uint32_t width, uint32_t vector, uint32_t lanes) {
  LLVMValueRef at = LLVMBuildMul(m->b, row, dt__emit_i64(m, width), "");
  at = LLVMBuildAdd(m->b, at, dt__emit_i64(m, (int64_t)vector * lanes), "");
  LLVMValueRef value = dt__emit_load(
      m, held, lanes, dt__emit_element(m, dt__emit_memory_type(m, held), from, at), NULL, NULL);
  return held == DT_F32 ? value : dt__emit_cast(m, held, DT_F32, value);
}

// The words of the group of element `at` of k, and what its elements are made with. A tile's depth
// is whole blocks, or lies in one.
static void enter_group(micro_t *t, LLVMValueRef at) {
  dt_emit_t *m = t->m;
  const dt_panel_t *p = t->panel;
  uint32_t width = t->vectors * t->lanes;
  LLVMValueRef group = LLVMBuildUDiv(m->b, at, dt__emit_i64(m, dt__panel_group(p)), "");
  LLVMValueRef block = p->block < DT_MATMUL_DEPTH
                           ? LLVMBuildUDiv(m->b, at, dt__emit_i64(m, p->block), "")
                           : dt__emit_i64(m, 0);
  LLVMValueRef from = LLVMBuildMul(m->b, group, dt__emit_i64(m, width), "");
  for (uint32_t v = 0; v < t->vectors; v++) {
    LLVMValueRef word = LLVMBuildAdd(m->b, from, dt__emit_i64(m, (int64_t)v * t->lanes), "");
    t->words[v] = dt__emit_load(
        m, DT_I32, t->lanes, dt__emit_element(m, dt__emit_type(m, DT_I32), t->b, word), NULL, NULL);
    t->scale[v] = dt__panel_factor(m, DT_F32, t->scales, block, width, v, t->lanes);
    if (t->zeros)
      t->zero[v] = dt__panel_factor(m, p->zeros_held, t->zeros, block, width, v, t->lanes);
  }
  if (!t->loose)
    prefetch_panel(t, dt__emit_element(m, dt__emit_type(m, DT_I32), t->b, from), 0);
}

// How far element `at` + `step` of k stands above the lowest bit of its word, in every lane.
static LLVMValueRef place_in_word(micro_t *t, LLVMValueRef at, uint32_t step) {
  dt_emit_t *m = t->m;
  const int64_t bits = t->panel->bits, group = dt__panel_group(t->panel);
  LLVMTypeRef words = LLVMVectorType(m->t_i32, t->lanes);
  if (!t->loose)
    return dt__emit_int(words, 8 * (step % DT_MATMUL_WORD) + bits * (step / DT_MATMUL_WORD));
  LLVMValueRef in = LLVMBuildAnd(m->b, at, dt__emit_i64(m, group - 1), "");
  LLVMValueRef byte = LLVMBuildAnd(m->b, in, dt__emit_i64(m, DT_MATMUL_WORD - 1), "");
  LLVMValueRef above = LLVMBuildUDiv(m->b, in, dt__emit_i64(m, DT_MATMUL_WORD), "");
  LLVMValueRef place = LLVMBuildAdd(m->b, LLVMBuildMul(m->b, byte, dt__emit_i64(m, 8), ""),
                                    LLVMBuildMul(m->b, above, dt__emit_i64(m, bits), ""), "");
  return dt__emit_splat(m, LLVMBuildTrunc(m->b, place, m->t_i32, ""), t->lanes);
}

// Codes of few bits less one zero, as floats: a table of 16, of which the lowest bits of each lane
// take one.
static bool has_table(const micro_t *t) {
  return !t->zeros && t->panel->bits <= 4 && t->m->target->vector_bytes == 64;
}

static LLVMValueRef look_up(micro_t *t, LLVMValueRef codes) {
  dt_emit_t *m = t->m;
  LLVMValueRef table[16];
  uint32_t mask = (1u << t->panel->bits) - 1;
  for (uint32_t i = 0; i < 16; i++)
    table[i] = dt__emit_float(m->t_f32, (float)(i & mask) - (float)t->panel->zero);
  LLVMValueRef args[2] = {LLVMConstVector(table, 16), codes};
  return dt__emit_intrinsic(m, "llvm.x86.avx512.permvar.sf.512", NULL, 0, args, 2);
}

// Where zeros are integers of a byte, codes are taken as the low bits of 2^23 + code, less which
// and zero is exact.
#define ONE_UNIT 0x1p23

static bool has_integer_zeros(const micro_t *t) {
  return t->zeros ? t->panel->zeros_held == DT_U8
                  : t->panel->zero >= 0 && t->panel->zero <= 255 &&
                        t->panel->zero == (double)(int)t->panel->zero;
}

static LLVMValueRef centre(micro_t *t, LLVMValueRef codes, uint32_t v) {
  dt_emit_t *m = t->m;
  const dt_panel_t *p = t->panel;
  LLVMTypeRef floats = micro_vector(t), ints = LLVMTypeOf(codes);
  if (has_table(t))
    return look_up(t, codes);
  codes = LLVMBuildAnd(m->b, codes, dt__emit_int(ints, (1 << p->bits) - 1), "");
  if (!has_integer_zeros(t)) {
    LLVMValueRef zero = t->zeros ? t->zero[v] : dt__emit_float(floats, p->zero);
    return LLVMBuildFSub(m->b, LLVMBuildSIToFP(m->b, codes, floats, ""), zero, "");
  }
  codes = LLVMBuildOr(m->b, codes, dt__emit_int(ints, 0x4b000000), "");
  LLVMValueRef less = t->zeros
                          ? LLVMBuildFAdd(m->b, t->zero[v], dt__emit_float(floats, ONE_UNIT), "")
                          : dt__emit_float(floats, ONE_UNIT + p->zero);
  return LLVMBuildFSub(m->b, LLVMBuildBitCast(m->b, codes, floats, ""), less, "");
}

// (code - zero) * scale, each rounded, as the model has it.
static LLVMValueRef decode(micro_t *t, LLVMValueRef place, uint32_t v) {
  dt_emit_t *m = t->m;
  LLVMValueRef codes = LLVMBuildLShr(m->b, t->words[v], place, "");
  return LLVMBuildFMul(m->b, centre(t, codes, v), t->scale[v], "");
}

// Two vectors of bf16 lie in pairs: lane by lane, the first one's in the lower half of a word.
static void widen_pairs(micro_t *t, LLVMValueRef at, uint32_t step, LLVMValueRef out[4]) {
  dt_emit_t *m = t->m;
  LLVMTypeRef ints = LLVMVectorType(m->t_i32, t->lanes);
  LLVMValueRef b =
      dt__emit_element(m, m->t_i32, t->b, LLVMBuildMul(m->b, at, dt__emit_i64(m, t->lanes), ""));
  LLVMValueRef from = dt__emit_element(m, m->t_i32, b, dt__emit_i64(m, (int64_t)step * t->lanes));
  LLVMValueRef pairs = dt__emit_load(m, DT_I32, t->lanes, from, NULL, NULL);
  LLVMValueRef low = LLVMBuildShl(m->b, pairs, dt__emit_int(ints, 16), "");
  LLVMValueRef high = LLVMBuildAnd(m->b, pairs, dt__emit_int(ints, -0x10000), "");
  out[0] = LLVMBuildBitCast(m->b, low, micro_vector(t), "");
  out[1] = LLVMBuildBitCast(m->b, high, micro_vector(t), "");
  prefetch_panel(t, b, step);
}

// The panel's row of element `at` + `step` of k, as it is multiplied.
static void panel_row(micro_t *t, LLVMValueRef at, uint32_t step, LLVMValueRef out[4]) {
  dt_emit_t *m = t->m;
  const dt_panel_t *p = t->panel;
  if (p->bits) {
    if (step == 0)
      enter_group(t, at);
    LLVMValueRef place = place_in_word(t, at, step);
    for (uint32_t v = 0; v < t->vectors; v++)
      out[v] = decode(t, place, v);
    return;
  }
  if (p->held == DT_BF16 && t->vectors == 2) {
    widen_pairs(t, at, step, out);
    return;
  }
  dt_dtype_t held = t->words_in ? t->dtype : p->held;
  LLVMTypeRef type = dt__emit_memory_type(m, held);
  LLVMValueRef width = dt__emit_i64(m, (int64_t)t->vectors * t->lanes);
  LLVMValueRef b = dt__emit_element(m, type, t->b, LLVMBuildMul(m->b, at, width, ""));
  for (uint32_t v = 0; v < t->vectors; v++) {
    LLVMValueRef from = dt__emit_i64(m, (int64_t)((step * t->vectors + v) * t->lanes));
    out[v] = dt__emit_load(m, held, t->lanes, dt__emit_element(m, type, b, from), NULL, NULL);
    out[v] = held == t->dtype ? out[v] : dt__emit_cast(m, held, t->dtype, out[v]);
  }
  prefetch_panel(t, b, step);
}

static LLVMValueRef a_address(micro_t *t, LLVMValueRef at, uint32_t row, uint32_t step) {
  dt_emit_t *m = t->m;
  LLVMTypeRef type = dt__emit_type(m, t->dtype);
  LLVMValueRef a = dt__emit_element(m, type, t->bases[row / 4], at);
  LLVMValueRef more = LLVMBuildMul(m->b, t->a_stride, dt__emit_i64(m, row % 4), "");
  a = dt__emit_element(m, type, a, more);
  return dt__emit_element(m, type, a, dt__emit_i64(m, step));
}

// One step over k at element `at` (i64) plus `step`: every row's element of A times the panel's
// row.
static void micro_step(micro_t *t, LLVMValueRef at, uint32_t step) {
  dt_emit_t *m = t->m;
  uint32_t set = step % t->sets;
  LLVMValueRef panel[4];
  panel_row(t, at, step, panel);
  for (uint32_t r = 0; r < t->rows; r++) {
    LLVMValueRef one = dt__emit_load(m, t->dtype, 0, a_address(t, at, r, step), NULL, NULL);
    LLVMValueRef all = dt__emit_splat(m, one, t->lanes);
    for (uint32_t v = 0; v < t->vectors; v++) {
      LLVMValueRef *acc = &t->acc[(set * t->rows + r) * t->vectors + v];
      *acc = multiply(t, all, panel[v], *acc);
    }
  }
}

// A loop over k from `start` to `end` by `steps`, entered with t->acc and leaving it after the
// loop.
static LLVMValueRef micro_loop(micro_t *t, LLVMValueRef start, LLVMValueRef end, uint32_t steps) {
  dt_emit_t *m = t->m;
  LLVMBasicBlockRef before = LLVMGetInsertBlock(m->b);
  LLVMBasicBlockRef loop = dt__emit_block(m, t->fn, "k"), done = dt__emit_block(m, t->fn, "end");
  uint32_t n = acc_count(t);
  LLVMBuildCondBr(m->b, LLVMBuildICmp(m->b, LLVMIntSLT, start, end, ""), loop, done);
  LLVMPositionBuilderAtEnd(m->b, loop);
  LLVMValueRef at = LLVMBuildPhi(m->b, m->t_i64, "");
  LLVMValueRef phis[MAX_SETS * 32 * 4], entering[MAX_SETS * 32 * 4];
  for (uint32_t i = 0; i < n; i++) {
    entering[i] = t->acc[i];
    phis[i] = t->acc[i] = LLVMBuildPhi(m->b, micro_vector(t), "");
  }
  for (uint32_t s = 0; s < steps; s++)
    micro_step(t, at, s);
  LLVMValueRef next = LLVMBuildNSWAdd(m->b, at, dt__emit_i64(m, steps), "");
  LLVMBuildCondBr(m->b, LLVMBuildICmp(m->b, LLVMIntSLT, next, end, ""), loop, done);
  LLVMAddIncoming(at, (LLVMValueRef[]){start, next}, (LLVMBasicBlockRef[]){before, loop}, 2);
  for (uint32_t i = 0; i < n; i++)
    LLVMAddIncoming(phis[i], (LLVMValueRef[]){entering[i], t->acc[i]},
                    (LLVMBasicBlockRef[]){before, loop}, 2);
  LLVMPositionBuilderAtEnd(m->b, done);
  LLVMValueRef reached = LLVMBuildPhi(m->b, m->t_i64, "");
  LLVMAddIncoming(reached, (LLVMValueRef[]){start, next}, (LLVMBasicBlockRef[]){before, loop}, 2);
  for (uint32_t i = 0; i < n; i++) {
    LLVMValueRef left = LLVMBuildPhi(m->b, micro_vector(t), "");
    LLVMAddIncoming(left, (LLVMValueRef[]){entering[i], t->acc[i]},
                    (LLVMBasicBlockRef[]){before, loop}, 2);
    t->acc[i] = left;
  }
  return reached;
}

static LLVMValueRef c_address(micro_t *t, uint32_t row, uint32_t vector) {
  dt_emit_t *m = t->m;
  LLVMValueRef at = LLVMBuildMul(m->b, t->c_stride, dt__emit_i64(m, row), "");
  at = LLVMBuildAdd(m->b, at, dt__emit_i64(m, (int64_t)(vector * t->lanes)), "");
  return dt__emit_element(m, dt__emit_type(m, t->dtype), t->c, at);
}

// Starts from the C tile where `again` says so, else from zero.
static void micro_begin(micro_t *t) {
  dt_emit_t *m = t->m;
  LLVMBasicBlockRef entry = LLVMGetInsertBlock(m->b), more = dt__emit_block(m, t->fn, "more");
  LLVMBasicBlockRef start = dt__emit_block(m, t->fn, "start");
  LLVMBuildCondBr(m->b, t->again, more, start);
  LLVMPositionBuilderAtEnd(m->b, more);
  uint32_t n = t->rows * t->vectors;
  LLVMValueRef kept[32 * 4];
  for (uint32_t i = 0; i < n; i++)
    kept[i] = dt__emit_load(m, t->dtype, t->lanes, c_address(t, i / t->vectors, i % t->vectors),
                            NULL, NULL);
  LLVMBuildBr(m->b, start);
  LLVMPositionBuilderAtEnd(m->b, start);
  LLVMValueRef zero = LLVMConstNull(micro_vector(t));
  for (uint32_t i = 0; i < acc_count(t); i++)
    t->acc[i] = zero;
  for (uint32_t i = 0; i < n; i++) {
    t->acc[i] = LLVMBuildPhi(m->b, micro_vector(t), "");
    LLVMAddIncoming(t->acc[i], (LLVMValueRef[]){zero, kept[i]}, (LLVMBasicBlockRef[]){entry, more},
                    2);
  }
}

static void micro_end(micro_t *t) {
  dt_emit_t *m = t->m;
  uint32_t n = t->rows * t->vectors;
  bool real = dt__dtype_is_float(t->dtype);
  for (uint32_t half = t->sets / 2; half >= 1; half /= 2)
    for (uint32_t i = 0; i < half * n; i++) {
      LLVMValueRef a = t->acc[i], b = t->acc[half * n + i];
      t->acc[i] = real ? LLVMBuildFAdd(m->b, a, b, "") : LLVMBuildAdd(m->b, a, b, "");
    }
  for (uint32_t i = 0; i < n; i++)
    dt__emit_store(m, t->dtype, t->acc[i], c_address(t, i / t->vectors, i % t->vectors), NULL);
  LLVMBuildRetVoid(m->b);
}

static uint32_t sets_for(const dt_emit_t *m, dt_dtype_t dtype, uint32_t rows) {
  if (m->target->strict_fp && dt__dtype_is_float(dtype))
    return 1; // k in order
  return rows == 1 ? MAX_SETS : rows <= 3 ? 2 : 1;
}

// ---- Functions -----------------------------------------------------------------------------------------
enum { A, B, C, DEPTH, C_STRIDE, AGAIN, SCALES, ZEROS, SIDES, SIDE_STRIDE, N_PARAMS };
enum { A_STRIDE = SCALES, RUNS, RUN_STEP, IN_PLACE_PARAMS }; // where rows are read in place

static uint32_t count_params(const dt_micro_form_t *form) {
  const dt_panel_t *panel = form->panel;
  if (form->in_place)
    return IN_PLACE_PARAMS;
  return !panel->bits ? SCALES : dt__panel_has_dots(panel) ? N_PARAMS : SIDES;
}

// Equal names are equal code.
static void name_form(const dt_micro_form_t *form, const char *what, char *out, size_t size) {
  const dt_panel_t *p = form->panel;
  int n =
      snprintf(out, size, "dt_%s_%s_%ux%u", what, dt_dtype_name(form->a), form->rows, form->width);
  if (!p->bits && p->held != form->sum && dt__dtype_is_float(p->held))
    (void)snprintf(out + n, size - (size_t)n, "_%s", dt_dtype_name(p->held));
  if (p->bits)
    (void)snprintf(out + n, size - (size_t)n, "_%u_%lld_%s_%g%s", p->bits, (long long)p->block,
                   p->zeros == DT_NO_INST ? "at" : dt_dtype_name(p->zeros_held), p->zero,
                   dt__panel_has_dots(p) ? "_dots" : "");
  if (form->in_place)
    (void)snprintf(out + n, size - (size_t)n, "_in_place");
}

static micro_t start_micro(dt_emit_t *m, const dt_micro_form_t *form, LLVMValueRef fn,
                           const dt_micro_args_t *p) {
  uint32_t lanes = m->target->vector_bytes / (uint32_t)dt_dtype_size(form->sum);
  return (micro_t){.m = m,
                   .dtype = form->sum,
                   .words_in = form->a != form->sum,
                   .a_signed = form->a == DT_I8,
                   .rows = form->rows,
                   .vectors = form->width / lanes,
                   .lanes = lanes,
                   .sets = sets_for(m, form->sum, form->rows),
                   .panel = form->panel,
                   .fn = fn,
                   .a = p->a,
                   .b = p->b,
                   .c = p->c,
                   .depth = p->depth,
                   .c_stride = p->c_stride,
                   .again = p->again,
                   .scales = p->scales,
                   .zeros = p->zeros,
                   .a_stride = p->a_stride,
                   .runs = p->runs,
                   .run_step = p->run_step};
}

static void find_bases(micro_t *t, LLVMValueRef a) {
  dt_emit_t *m = t->m;
  for (uint32_t q = 0; q * 4 < t->rows; q++)
    t->bases[q] = dt__emit_element(m, dt__emit_type(m, t->dtype), a,
                                   LLVMBuildMul(m->b, t->a_stride, dt__emit_i64(m, q * 4), ""));
}

// All of k from the bases on, in iterations of `steps`.
static void micro_depth(micro_t *t, uint32_t steps) {
  dt_emit_t *m = t->m;
  LLVMValueRef at = dt__emit_i64(m, 0);
  if (steps > 1)
    at = micro_loop(t, at, LLVMBuildAnd(m->b, t->depth, dt__emit_i64(m, -(int64_t)steps), ""),
                    steps);
  t->loose = true;
  (void)micro_loop(t, at, t->depth, 1);
}

// The depth of each run, of which there is one at least.
static void micro_runs(micro_t *t, uint32_t steps) {
  dt_emit_t *m = t->m;
  LLVMBasicBlockRef before = LLVMGetInsertBlock(m->b), loop = dt__emit_block(m, t->fn, "run");
  LLVMBasicBlockRef done = dt__emit_block(m, t->fn, "done");
  LLVMTypeRef type = dt__emit_type(m, t->dtype);
  LLVMValueRef phis[MAX_SETS * 32 * 4], entering[MAX_SETS * 32 * 4], panel = t->b;
  uint32_t n = acc_count(t);
  LLVMBuildBr(m->b, loop);
  LLVMPositionBuilderAtEnd(m->b, loop);
  LLVMValueRef run = LLVMBuildPhi(m->b, m->t_i64, ""), zero = dt__emit_i64(m, 0);
  for (uint32_t i = 0; i < n; i++) {
    entering[i] = t->acc[i];
    phis[i] = t->acc[i] = LLVMBuildPhi(m->b, micro_vector(t), "");
  }
  LLVMValueRef row = LLVMBuildMul(m->b, run, t->depth, "");
  LLVMValueRef width = dt__emit_i64(m, (int64_t)t->vectors * t->lanes);
  t->b = dt__emit_element(m, type, panel, LLVMBuildMul(m->b, row, width, ""));
  find_bases(t, dt__emit_element(m, type, t->a, LLVMBuildMul(m->b, run, t->run_step, "")));
  micro_depth(t, steps);
  LLVMBasicBlockRef latch = LLVMGetInsertBlock(m->b);
  LLVMValueRef next = LLVMBuildNSWAdd(m->b, run, dt__emit_i64(m, 1), "");
  LLVMBuildCondBr(m->b, LLVMBuildICmp(m->b, LLVMIntSLT, next, t->runs, ""), loop, done);
  LLVMBasicBlockRef from[2] = {before, latch};
  LLVMAddIncoming(run, (LLVMValueRef[]){zero, next}, from, 2);
  for (uint32_t i = 0; i < n; i++)
    LLVMAddIncoming(phis[i], (LLVMValueRef[]){entering[i], t->acc[i]}, from, 2);
  LLVMPositionBuilderAtEnd(m->b, done);
}

// Steps of an iteration over k: a group of codes, or one for each set, or with many rows as many as
// leave the loop's own instructions no weight: a core whose other thread works takes half as many,
// and the loads and multiply-adds alone are 20 a step where vectors have 32 bytes.
static uint32_t steps_of(const micro_t *t) {
  if (t->panel->bits)
    return (uint32_t)dt__panel_group(t->panel);
  bool many = t->rows >= MANY_ROWS && !t->words_in && t->m->target->vector_bytes <= 32;
  return many ? MANY_STEPS : t->sets;
}

static void micro_body(micro_t *t) {
  uint32_t steps = steps_of(t);
  micro_begin(t);
  if (t->runs) {
    micro_runs(t, steps);
  } else {
    t->a_stride = dt__emit_i64(t->m, dt__matmul_a_stride(dt_dtype_size(t->dtype)));
    find_bases(t, t->a);
    micro_depth(t, steps);
  }
  micro_end(t);
}

static LLVMValueRef micro_function(dt_emit_t *m, const dt_micro_form_t *form) {
  char name[128];
  name_form(form, "micro", name, sizeof(name));
  LLVMValueRef made = LLVMGetNamedFunction(m->module, name);
  if (made)
    return made;
  LLVMBasicBlockRef at = LLVMGetInsertBlock(m->b);
  LLVMTypeRef params[N_PARAMS] = {m->t_ptr, m->t_ptr, m->t_ptr, m->t_i64, m->t_i64,
                                  m->t_i1,  m->t_ptr, m->t_ptr, m->t_ptr, m->t_i64};
  const dt_panel_t *p = form->panel;
  uint32_t n = count_params(form);
  for (uint32_t i = A_STRIDE; form->in_place && i < n; i++)
    params[i] = m->t_i64;
  LLVMValueRef fn = dt__emit_function(m, name, LLVMFunctionType(m->t_void, params, n, 0), false);
  dt__emit_noinline(m, fn);
  LLVMPositionBuilderAtEnd(m->b, dt__emit_block(m, fn, "entry"));
  dt_micro_args_t args = {.a = LLVMGetParam(fn, A),
                          .b = LLVMGetParam(fn, B),
                          .c = LLVMGetParam(fn, C),
                          .depth = LLVMGetParam(fn, DEPTH),
                          .c_stride = LLVMGetParam(fn, C_STRIDE),
                          .again = LLVMGetParam(fn, AGAIN),
                          .scales = p->bits ? LLVMGetParam(fn, SCALES) : NULL,
                          .zeros =
                              p->bits && p->zeros != DT_NO_INST ? LLVMGetParam(fn, ZEROS) : NULL,
                          .a_stride = form->in_place ? LLVMGetParam(fn, A_STRIDE) : NULL,
                          .runs = form->in_place ? LLVMGetParam(fn, RUNS) : NULL,
                          .run_step = form->in_place ? LLVMGetParam(fn, RUN_STEP) : NULL,
                          .sides = n > SIDES ? LLVMGetParam(fn, SIDES) : NULL,
                          .side_stride = n > SIDES ? LLVMGetParam(fn, SIDE_STRIDE) : NULL};
  if (dt__panel_has_dots(p)) {
    dt__matmul_dots(m, form, fn, &args);
  } else {
    micro_t t = start_micro(m, form, fn, &args);
    micro_body(&t);
  }
  dt__emit_resume(m, at);
  return fn;
}

void dt__matmul_micro(dt_emit_t *m, const dt_micro_form_t *form, const dt_micro_args_t *p) {
  LLVMValueRef fn = micro_function(m, form), none = LLVMConstNull(m->t_ptr);
  LLVMValueRef args[N_PARAMS] = {p->a,
                                 p->b,
                                 p->c,
                                 p->depth,
                                 p->c_stride,
                                 p->again,
                                 p->scales ? p->scales : none,
                                 p->zeros ? p->zeros : none,
                                 p->sides,
                                 p->side_stride};
  if (form->in_place) {
    args[A_STRIDE] = p->a_stride;
    args[RUNS] = p->runs;
    args[RUN_STEP] = p->run_step;
  }
  LLVMBuildCall2(m->b, LLVMGlobalGetValueType(fn), fn, args, count_params(form), "");
}

// void (to, B panel, depth, scales, zeros). What is behind the depth in its last group is written,
// too: the panel is whole there.
static LLVMValueRef decode_function(dt_emit_t *m, const dt_micro_form_t *form) {
  char name[128];
  name_form(form, "decode", name, sizeof(name));
  LLVMValueRef made = LLVMGetNamedFunction(m->module, name);
  if (made)
    return made;
  LLVMBasicBlockRef at = LLVMGetInsertBlock(m->b);
  LLVMTypeRef params[5] = {m->t_ptr, m->t_ptr, m->t_i64, m->t_ptr, m->t_ptr};
  LLVMValueRef fn = dt__emit_function(m, name, LLVMFunctionType(m->t_void, params, 5, 0), false);
  dt__emit_noinline(m, fn);
  LLVMBasicBlockRef entry = dt__emit_block(m, fn, "entry"), loop = dt__emit_block(m, fn, "k");
  LLVMBasicBlockRef done = dt__emit_block(m, fn, "end");
  dt_micro_args_t args = {.b = LLVMGetParam(fn, 1),
                          .depth = LLVMGetParam(fn, 2),
                          .scales = LLVMGetParam(fn, 3),
                          .zeros = form->panel->zeros != DT_NO_INST ? LLVMGetParam(fn, 4) : NULL};
  micro_t t = start_micro(m, form, fn, &args);
  t.rows = 4; // prefetches
  LLVMPositionBuilderAtEnd(m->b, entry);
  LLVMValueRef zero = dt__emit_i64(m, 0);
  LLVMBuildCondBr(m->b, LLVMBuildICmp(m->b, LLVMIntSLT, zero, t.depth, ""), loop, done);
  LLVMPositionBuilderAtEnd(m->b, loop);
  LLVMValueRef k = LLVMBuildPhi(m->b, m->t_i64, "");
  uint32_t group = (uint32_t)dt__panel_group(form->panel);
  for (uint32_t step = 0; step < group; step++) {
    LLVMValueRef row[4];
    panel_row(&t, k, step, row);
    LLVMValueRef to = LLVMBuildAdd(m->b, k, dt__emit_i64(m, step), "");
    to = LLVMBuildMul(m->b, to, dt__emit_i64(m, form->width), "");
    for (uint32_t v = 0; v < t.vectors; v++)
      dt__emit_store(
          m, t.dtype, row[v],
          dt__emit_element(m, dt__emit_type(m, t.dtype), LLVMGetParam(fn, 0),
                           LLVMBuildAdd(m->b, to, dt__emit_i64(m, (int64_t)v * t.lanes), "")),
          NULL);
  }
  LLVMValueRef next = LLVMBuildNSWAdd(m->b, k, dt__emit_i64(m, group), "");
  LLVMBuildCondBr(m->b, LLVMBuildICmp(m->b, LLVMIntSLT, next, t.depth, ""), loop, done);
  LLVMAddIncoming(k, (LLVMValueRef[]){zero, next}, (LLVMBasicBlockRef[]){entry, loop}, 2);
  LLVMPositionBuilderAtEnd(m->b, done);
  LLVMBuildRetVoid(m->b);
  dt__emit_resume(m, at);
  return fn;
}

void dt__matmul_decode(dt_emit_t *m, const dt_micro_form_t *form, const dt_micro_args_t *args,
                       LLVMValueRef to) {
  LLVMValueRef fn = decode_function(m, form), none = LLVMConstNull(m->t_ptr);
  LLVMValueRef list[5] = {to, args->b, args->depth, args->scales ? args->scales : none,
                          args->zeros ? args->zeros : none};
  LLVMBuildCall2(m->b, LLVMGlobalGetValueType(fn), fn, list, 5, "");
}
