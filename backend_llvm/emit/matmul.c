// SPDX-License-Identifier: Apache-2.0
// The matrix template: one grid item computes a tile of C = A * B and runs the later stages
// (epilogue) on it, row by row, with lanes on n.
//
//   for each DEPTH of k:                          (B's panels of this depth stay in cache)
//     copy A's rows of the tile, this depth, to scratch: rows lie at a stride that spreads them
//       over the sets of the first-level cache, and addresses become literals
//     for each panel of B in the tile:
//       for each group of `rows` rows:            micro-kernel: rows x width accumulators
//         C tile (scratch) = or += A rows * panel
//   for each row: the later stages, their row value loaded from the C tile
//
// Sums of products of 8-bit integers take four elements of k at a time, as one word: A's copy and
// the panels are words then, as if of i32, and a step adds four products to each sum.
//
// Micro-kernels are internal functions, shared by all kernels of the unit: for a group of rows, for
// half a group, and for one row. The remaining rows of a tile are padded to one of these by
// repeating the last row; the copies of A and C have room for whole groups. With one row, several
// sets of accumulators take turns over k, so that multiply-adds do not wait for each other. Under
// strict_fp there is one set.
#include "backend_llvm/emit/matmul.h"
#include "backend_llvm/emit/body.h"
#include "backend_llvm/emit/index.h"
#include "backend_llvm/emit/loops.h"
#include "fuse/matmul_rows.h"

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
#define MAX_SETS 4 // sets of accumulators, and steps over k in one iteration

static const dt_inst_t *stage0_inst(const dt_kernel_t *kernel, uint32_t id) {
  return &kernel->stages.items[0].insts.items[id];
}

// `factor` is load `a`, or its cast.
static bool stands_for(const dt_kernel_t *kernel, uint32_t factor, uint32_t a) {
  const dt_inst_t *inst = stage0_inst(kernel, factor);
  return factor == a || (inst->kind == DT_INST_CAST && inst->args[0] == a);
}

static bool is_product_of(const dt_kernel_t *kernel, uint32_t value, uint32_t a, uint32_t b) {
  const dt_inst_t *inst = stage0_inst(kernel, value);
  return inst->kind == DT_INST_SCALAR && inst->op == DT_SCALAR_mul &&
         ((stands_for(kernel, inst->args[0], a) && stands_for(kernel, inst->args[1], b)) ||
          (stands_for(kernel, inst->args[0], b) && stands_for(kernel, inst->args[1], a)));
}

static bool loads_plainly(const dt_kernel_t *kernel, uint32_t id) {
  if (id >= kernel->stages.items[0].insts.len)
    return false;
  const dt_inst_t *inst = stage0_inst(kernel, id);
  return inst->kind == DT_INST_LOAD && inst->mask == DT_NO_INST;
}

// Panels of one byte are of words.
static bool is_of_words(const dt_kernel_t *kernel, const dt_matmul_t *t) {
  return dt_dtype_size(stage0_inst(kernel, t->b)->dtype) == 1;
}

// What the tile's copy of A holds.
static dt_dtype_t copied(const dt_kernel_t *kernel, const dt_matmul_t *t) {
  return is_of_words(kernel, t) ? stage0_inst(kernel, t->a)->dtype
                                : kernel->stages.items[0].reductions.items[0].dtype;
}

// Elements of k that one step takes.
static int64_t k_step(const dt_kernel_t *kernel, const dt_matmul_t *t) {
  return is_of_words(kernel, t) ? DT_MATMUL_WORD : 1;
}

// A is copied, and may be converted on the way: halves for a product of f32.
static bool operands_fit(const dt_kernel_t *kernel, const dt_matmul_t *t, dt_dtype_t dtype) {
  if (!loads_plainly(kernel, t->a) || !loads_plainly(kernel, t->b))
    return false;
  dt_dtype_t a = stage0_inst(kernel, t->a)->dtype, b = stage0_inst(kernel, t->b)->dtype;
  return is_of_words(kernel, t)
             ? a != b && (a == DT_U8 || a == DT_I8) && dtype == DT_I32
             : b == dtype && (a == dtype || (dtype == DT_F32 && dt__dtype_is_half(a)));
}

static dt_status_t refuse(const dt_kernel_t *kernel, const char *why) {
  return DT_FAIL(DT_E_INTERNAL, "matrix template of kernel %s: %s", kernel->name, why);
}

dt_status_t dt__matmul_verify(dt_emit_t *m, const dt_kernel_t *kernel,
                              const dt_schedule_t *schedule) {
  const dt_matmul_t *t = &schedule->matmul;
  const dt_stage_t *stage = &kernel->stages.items[0];
  bool teams = schedule->kind == DT_SCHEDULE_TEAM_MATMUL;
  if (teams != dt__target_has_teams(m->target))
    return refuse(kernel, "its schedule is another device's");
  if (teams)
    return NULL; // the device's code generator verifies what it relies on
  if (kernel->n_loops < 2 || stage->n_loops == 0 || stage->reductions.len != 1 ||
      stage->stores.len != 0)
    return refuse(kernel, "its first stage is not one reduction over loops");
  if (stage->n_loops > 1 && t->own_panels)
    return refuse(kernel, "its tiles pack panels over several loops");
  const dt_reduction_t *reduction = &stage->reductions.items[0];
  dt_dtype_t dtype = reduction->dtype;
  if (reduction->kind != DT_REDUCE_SUM || !operands_fit(kernel, t, dtype) ||
      !is_product_of(kernel, reduction->value, t->a, t->b))
    return refuse(kernel, "its first stage is not the sum of a product of two loads");
  const char *why = NULL;
  dt_dtype_t b = is_of_words(kernel, t) ? stage0_inst(kernel, t->b)->dtype : dtype;
  if (!dt__matmul_row(m->target, copied(kernel, t), b, dtype, &why))
    return refuse(kernel, why);
  uint32_t lanes = m->target->vector_bytes / (uint32_t)dt_dtype_size(dtype);
  if (t->rows < 1 || t->rows > 32 || t->width == 0 || t->width % lanes != 0 ||
      t->width / lanes > 4 || t->tile_rows == 0 || t->tile_rows % t->rows != 0 ||
      t->tile_cols == 0 || t->tile_cols % t->width != 0 || t->tile_cols % schedule->lanes != 0)
    return refuse(kernel, "its tiles do not fit each other");
  if (!dt__matmul_rows_run(m, kernel, t))
    return refuse(kernel, "its left operand is not contiguous over k");
  return NULL;
}

// ---- Micro-kernels -------------------------------------------------------------------------------------
typedef struct micro_t {
  dt_emit_t *m;
  dt_dtype_t dtype; // of sums; also of what is multiplied, where that is no words
  bool words, a_signed;
  uint32_t rows, vectors, lanes, sets;
  LLVMValueRef fn, a, b, c, depth, again, c_stride;
  LLVMValueRef acc[MAX_SETS * 32 * 4]; // [set][row][vector]
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
  int64_t row = (int64_t)(t->vectors * t->lanes) * (int64_t)dt_dtype_size(t->dtype);
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
static LLVMValueRef add_dots(dt_emit_t *m, LLVMValueRef u, LLVMValueRef i, LLVMValueRef sums) {
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
  if (!t->words)
    return dt__emit_mul_add(t->m, a, b, sums);
  return t->a_signed ? add_dots(t->m, b, a, sums) : add_dots(t->m, a, b, sums);
}

// One step over k at element `at` (i64) plus `step`: every row's element of A times the panel's
// row.
static void micro_step(micro_t *t, LLVMValueRef at, uint32_t step) {
  dt_emit_t *m = t->m;
  LLVMTypeRef type = dt__emit_type(m, t->dtype);
  uint32_t set = step % t->sets;
  LLVMValueRef a = dt__emit_element(m, type, t->a, at);
  LLVMValueRef width = dt__emit_i64(m, (int64_t)t->vectors * t->lanes);
  LLVMValueRef b = dt__emit_element(m, type, t->b, LLVMBuildMul(m->b, at, width, ""));
  LLVMValueRef panel[4];
  for (uint32_t v = 0; v < t->vectors; v++) {
    LLVMValueRef from = dt__emit_i64(m, (int64_t)((step * t->vectors + v) * t->lanes));
    panel[v] = dt__emit_load(m, t->dtype, t->lanes, dt__emit_element(m, type, b, from), NULL, NULL);
  }
  prefetch_panel(t, b, step);
  for (uint32_t r = 0; r < t->rows; r++) {
    int64_t from = (int64_t)r * dt__matmul_a_stride(dt_dtype_size(t->dtype)) + step;
    LLVMValueRef one = dt__emit_load(
        m, t->dtype, 0, dt__emit_element(m, type, a, dt__emit_i64(m, from)), NULL, NULL);
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

// void (A, B panel, C, depth, C stride, again): `rows` rows times one panel.
static LLVMValueRef micro_function(dt_emit_t *m, dt_dtype_t dtype, dt_dtype_t a, uint32_t rows,
                                   uint32_t width) {
  char name[64];
  snprintf(name, sizeof(name), "dt_micro_%s_%ux%u", dt_dtype_name(a), rows, width);
  LLVMValueRef made = LLVMGetNamedFunction(m->module, name);
  if (made)
    return made;
  LLVMBasicBlockRef at = LLVMGetInsertBlock(m->b);
  LLVMTypeRef params[6] = {m->t_ptr, m->t_ptr, m->t_ptr, m->t_i64, m->t_i64, m->t_i1};
  LLVMValueRef fn = dt__emit_function(m, name, LLVMFunctionType(m->t_void, params, 6, 0), false);
  dt__emit_noinline(m, fn);
  uint32_t lanes = m->target->vector_bytes / (uint32_t)dt_dtype_size(dtype);
  micro_t t = {.m = m,
               .dtype = dtype,
               .words = a != dtype,
               .a_signed = a == DT_I8,
               .rows = rows,
               .vectors = width / lanes,
               .lanes = lanes,
               .sets = sets_for(m, dtype, rows),
               .fn = fn,
               .a = LLVMGetParam(fn, 0),
               .b = LLVMGetParam(fn, 1),
               .c = LLVMGetParam(fn, 2),
               .depth = LLVMGetParam(fn, 3),
               .c_stride = LLVMGetParam(fn, 4),
               .again = LLVMGetParam(fn, 5)};
  LLVMPositionBuilderAtEnd(m->b, dt__emit_block(m, fn, "entry"));
  micro_begin(&t);
  LLVMValueRef at_k = dt__emit_i64(m, 0);
  if (t.sets > 1)
    at_k = micro_loop(&t, at_k, LLVMBuildAnd(m->b, t.depth, dt__emit_i64(m, -(int64_t)t.sets), ""),
                      t.sets);
  (void)micro_loop(&t, at_k, t.depth, 1);
  micro_end(&t);
  dt__emit_resume(m, at);
  return fn;
}

// ---- One tile ------------------------------------------------------------------------------------------
typedef struct tile_t {
  dt_body_t *k;
  const dt_matmul_t *schedule;
  dt_dtype_t dtype, a_dtype; // of sums, and of the copy of A
  int64_t k_step;
  LLVMTypeRef type;
  LLVMValueRef a_copy, c_tile, panel;            // scratch; the panel: where tiles pack theirs
  LLVMValueRef first_row, rows, first_col, cols; // of this tile
  LLVMValueRef grouped, left; // rows in whole groups, and in the one call after them
  LLVMValueRef table;         // where rows of A begin, if they are runs
  LLVMValueRef c_row;         // the row the later stages work on
  uint32_t row_value;
} tile_t;

static uint32_t half_group(uint32_t group) { return group / 2; }

static LLVMValueRef smaller(dt_body_t *k, LLVMValueRef a, LLVMValueRef b) {
  LLVMValueRef less = LLVMBuildICmp(k->m->b, LLVMIntSLT, a, b, "");
  return LLVMBuildSelect(k->m->b, less, a, b, "");
}

// The address of stage 0's load `id`, with the loop variables as bound, at `level`.
static LLVMValueRef operand_address(dt_body_t *k, uint32_t id, uint32_t level) {
  const dt_inst_t *inst = stage0_inst(k->kernel, id);
  dt_sym_t offset = dt__access_offset(k, inst->buffer, inst->index);
  return dt__access_address(k, inst->buffer, offset, level).at[0];
}

// depth elements from `from` to `to`, by vectors; halves become f32.
static void copy_row(tile_t *t, LLVMValueRef from, LLVMValueRef to, LLVMValueRef depth) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  uint32_t lanes = m->target->vector_bytes / (uint32_t)dt_dtype_size(t->a_dtype);
  dt_dtype_t source = stage0_inst(k->kernel, t->schedule->a)->dtype;
  dt__body_at(k, 3);
  LLVMValueRef whole = LLVMBuildAnd(m->b, depth, dt__emit_i64(m, -(int64_t)lanes), "");
  LLVMValueRef counters[2] = {dt__emit_i64(m, 0), whole};
  LLVMValueRef ends[2] = {whole, depth};
  for (uint32_t i = 0; i < 2; i++) {
    uint32_t step = i == 0 ? lanes : 0;
    LLVMValueRef at = dt__loop_open(k, 4, counters[i], ends[i], step ? step : 1);
    LLVMValueRef value =
        dt__emit_load(m, source, step,
                      dt__emit_element(m, dt__emit_memory_type(m, source), from, at), NULL, NULL);
    value = dt__emit_cast(m, source, t->a_dtype, value);
    dt__emit_store(m, t->a_dtype, value, dt__emit_element(m, dt__emit_type(m, t->a_dtype), to, at),
                   NULL);
    dt__loop_close(k, 4);
  }
}

static void copy_a(tile_t *t, LLVMValueRef first_k, LLVMValueRef depth) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  const dt_kernel_t *kernel = k->kernel;
  LLVMValueRef end = LLVMBuildAdd(m->b, t->grouped, t->left, "");
  if (t->table) {
    dt__matmul_copy_runs(k, t->a_dtype, t->table, end, first_k, depth);
    return;
  }
  LLVMValueRef row = dt__loop_open(k, 3, dt__emit_i64(m, 0), end, 1);
  LLVMValueRef last = LLVMBuildSub(m->b, t->rows, dt__emit_i64(m, 1), "");
  dt__bind_symbol(k, kernel->vars[kernel->n_loops - 2], 3,
                  LLVMBuildAdd(m->b, t->first_row, smaller(k, row, last), ""));
  dt__bind_symbol(k, kernel->stages.items[0].vars[0], 2, first_k);
  LLVMValueRef from = operand_address(k, t->schedule->a, 3);
  dt__body_at(k, 3);
  LLVMValueRef stride = dt__emit_i64(m, dt__matmul_a_stride(dt_dtype_size(t->dtype)));
  LLVMValueRef to = dt__emit_element(m, t->type, t->a_copy, LLVMBuildMul(m->b, row, stride, ""));
  copy_row(t, from, to, depth);
  dt__loop_close(k, 3);
}

static void call_micro(tile_t *t, uint32_t rows, LLVMValueRef row, LLVMValueRef panel,
                       LLVMValueRef col, LLVMValueRef depth, LLVMValueRef again) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  LLVMValueRef fn = micro_function(m, t->dtype, t->a_dtype, rows, t->schedule->width);
  LLVMValueRef stride = dt__emit_i64(m, dt__matmul_a_stride(dt_dtype_size(t->dtype)));
  LLVMValueRef c_stride = dt__emit_i64(m, dt__matmul_c_stride(t->schedule));
  LLVMValueRef a = dt__emit_element(m, t->type, t->a_copy, LLVMBuildMul(m->b, row, stride, ""));
  LLVMValueRef c_at = LLVMBuildAdd(m->b, LLVMBuildMul(m->b, row, c_stride, ""), col, "");
  LLVMValueRef args[6] = {a,     panel,    dt__emit_element(m, t->type, t->c_tile, c_at),
                          depth, c_stride, again};
  LLVMBuildCall2(m->b, LLVMGlobalGetValueType(fn), fn, args, 6, "");
}

// Calls the micro-kernel for `rows` rows where `wanted`, as a block of its own.
static void call_if(tile_t *t, LLVMValueRef wanted, uint32_t rows, LLVMValueRef row,
                    LLVMValueRef panel, LLVMValueRef col, LLVMValueRef depth, LLVMValueRef again) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  LLVMBasicBlockRef some = dt__emit_block(m, k->fn, "rows"),
                    next = dt__emit_block(m, k->fn, "next");
  LLVMBuildCondBr(m->b, wanted, some, next);
  LLVMPositionBuilderAtEnd(m->b, some);
  call_micro(t, rows, row, panel, col, depth, again);
  LLVMBuildBr(m->b, next);
  k->scopes[3].block = next;
  dt__body_at(k, 3);
}

// All rows of the tile against one panel: whole groups in a loop, then the rest.
static void multiply_panel(tile_t *t, LLVMValueRef panel, LLVMValueRef col, LLVMValueRef depth,
                           LLVMValueRef again) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  uint32_t group = t->schedule->rows;
  LLVMValueRef row = dt__loop_open(k, 4, dt__emit_i64(m, 0), t->grouped, group);
  call_micro(t, group, row, panel, col, depth, again);
  dt__loop_close(k, 4);
  if (half_group(group) > 1) {
    LLVMValueRef some =
        LLVMBuildICmp(m->b, LLVMIntEQ, t->left, dt__emit_i64(m, half_group(group)), "");
    call_if(t, some, half_group(group), t->grouped, panel, col, depth, again);
  }
  if (group > 1) {
    LLVMValueRef one = LLVMBuildICmp(m->b, LLVMIntEQ, t->left, dt__emit_i64(m, 1), "");
    call_if(t, one, 1, t->grouped, panel, col, depth, again);
  }
}

// Panels have k's loops one inside of another, so that all of them count as the last one. Words may
// begin in one round of a loop and end in the next: there each loop is what it is.
static void bind_first(const tile_t *t, LLVMValueRef first_k) {
  dt_body_t *k = t->k;
  const dt_stage_t *stage = &k->kernel->stages.items[0];
  LLVMValueRef left = first_k;
  for (uint32_t v = stage->n_loops; v-- > 0;) {
    LLVMValueRef digit = v + 1 < stage->n_loops ? dt__emit_i64(k->m, 0) : first_k;
    if (t->k_step > 1 && stage->n_loops > 1) {
      LLVMValueRef extent = dt__index_scalar(k, stage->extents[v]);
      dt__body_at(k, 2);
      digit = v ? LLVMBuildURem(k->m->b, left, extent, "") : left;
      left = LLVMBuildUDiv(k->m->b, left, extent, "");
    }
    dt__bind_symbol(k, stage->vars[v], 2, digit);
  }
}

static void multiply_depth(tile_t *t, LLVMValueRef first_k, LLVMValueRef extent_k) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  const dt_kernel_t *kernel = k->kernel;
  LLVMValueRef left = LLVMBuildSub(m->b, extent_k, first_k, "");
  LLVMValueRef depth = smaller(k, left, dt__emit_i64(m, DT_MATMUL_DEPTH * t->k_step));
  LLVMValueRef again = LLVMBuildICmp(m->b, LLVMIntNE, first_k, dt__emit_i64(m, 0), "");
  copy_a(t, first_k, depth);
  // Words of the panel are whole, with zeros; what A's copy has there is multiplied by them.
  LLVMValueRef more = LLVMBuildAdd(m->b, depth, dt__emit_i64(m, t->k_step - 1), "");
  LLVMValueRef steps = LLVMBuildUDiv(m->b, more, dt__emit_i64(m, t->k_step), "");
  bind_first(t, first_k);
  LLVMValueRef col = dt__loop_open(k, 3, dt__emit_i64(m, 0), t->cols, (int64_t)t->schedule->width);
  dt__bind_symbol(k, kernel->vars[kernel->n_loops - 1], 3,
                  LLVMBuildAdd(m->b, t->first_col, col, ""));
  LLVMValueRef panel = t->panel;
  if (panel)
    dt__matmul_pack(k, 4, LLVMBuildAdd(m->b, t->first_col, col, ""),
                    LLVMBuildAdd(m->b, t->first_col, t->cols, ""), first_k, depth, panel);
  else
    panel = operand_address(k, t->schedule->b, 3);
  multiply_panel(t, panel, col, steps, again);
  dt__loop_close(k, 3);
}

// The first stage's row value in the lanes of this vector.
static void load_row_value(dt_body_t *k, void *user) {
  tile_t *t = user;
  dt_emit_t *m = k->m;
  dt__body_at(k, k->lane_level);
  LLVMValueRef at = LLVMBuildSub(m->b, k->lane_base, t->first_col, "");
  dt_lanes_t *row = &k->rows[t->row_value];
  row->varying = true;
  for (uint32_t c = 0; c < k->copies; c++) {
    LLVMValueRef from = LLVMBuildAdd(m->b, at, dt__emit_i64(m, (int64_t)(c * k->lanes)), "");
    row->v[c] = dt__emit_load(m, t->dtype, k->lanes, dt__emit_element(m, t->type, t->c_row, from),
                              NULL, NULL);
  }
}

static void finish_rows(tile_t *t) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  const dt_kernel_t *kernel = k->kernel;
  LLVMValueRef row = dt__loop_open(k, 2, dt__emit_i64(m, 0), t->rows, 1);
  dt__bind_symbol(k, kernel->vars[kernel->n_loops - 2], 2,
                  LLVMBuildAdd(m->b, t->first_row, row, ""));
  LLVMValueRef at = LLVMBuildMul(m->b, row, dt__emit_i64(m, dt__matmul_c_stride(t->schedule)), "");
  t->c_row = dt__emit_element(m, t->type, t->c_tile, at);
  LLVMValueRef end = LLVMBuildAdd(m->b, t->first_col, t->cols, "");
  k->item_level = 2;
  dt__outer_vectors(k, t->first_col, end, false, 1, kernel->stages.len, load_row_value, t);
  k->item_level = 1;
  dt__loop_close(k, 2);
}

static LLVMValueRef tile_extent(dt_body_t *k, dt_sym_t total, LLVMValueRef first,
                                LLVMValueRef tile) {
  LLVMValueRef all = dt__index_scalar(k, total);
  dt__body_at(k, 1);
  return smaller(k, LLVMBuildSub(k->m->b, all, first, ""), tile);
}

// Splits the tile's rows into whole groups and one call of the smallest micro-kernel that takes the
// rest; the last kernel takes a rest of more than half a group, as a group of its own.
static void group_rows(tile_t *t) {
  dt_emit_t *m = t->k->m;
  uint32_t group = t->schedule->rows, half = half_group(group);
  LLVMValueRef size = dt__emit_i64(m, group), zero = dt__emit_i64(m, 0), one = dt__emit_i64(m, 1);
  LLVMValueRef rest = LLVMBuildURem(m->b, t->rows, size, "");
  LLVMValueRef many =
      LLVMBuildICmp(m->b, LLVMIntSGT, rest, dt__emit_i64(m, half > 1 ? half : 1), "");
  LLVMValueRef extra = LLVMBuildSelect(m->b, many, LLVMBuildSub(m->b, size, rest, ""), zero, "");
  LLVMValueRef padded = LLVMBuildAdd(m->b, t->rows, extra, "");
  rest = LLVMBuildSelect(m->b, many, zero, rest, "");
  t->grouped = LLVMBuildSub(m->b, padded, rest, "");
  LLVMValueRef some = LLVMBuildICmp(m->b, LLVMIntSGT, rest, one, "");
  t->left = LLVMBuildSelect(m->b, some, dt__emit_i64(m, half), rest, "");
}

// How many elements k has.
static LLVMValueRef all_terms(dt_body_t *k) {
  const dt_stage_t *stage = &k->kernel->stages.items[0];
  dt_sym_t all = stage->extents[0];
  for (uint32_t v = 1; v < stage->n_loops; v++)
    all = dt__sym_mul(k->m->env, all, stage->extents[v]);
  LLVMValueRef value = dt__index_scalar(k, all);
  dt__body_at(k, 1);
  return value;
}

void dt__matmul_item(dt_body_t *k, LLVMValueRef tile_col, LLVMValueRef tile_row) {
  dt_emit_t *m = k->m;
  const dt_kernel_t *kernel = k->kernel;
  const dt_matmul_t *schedule = &k->schedule->matmul;
  const dt_reduction_t *reduction = &kernel->stages.items[0].reductions.items[0];
  int64_t a_bytes = dt__matmul_a_bytes(schedule, dt_dtype_size(reduction->dtype));
  tile_t t = {.k = k,
              .schedule = schedule,
              .dtype = reduction->dtype,
              .a_dtype = copied(kernel, schedule),
              .k_step = k_step(kernel, schedule),
              .type = dt__emit_type(m, reduction->dtype),
              .a_copy = k->scratch,
              .row_value = reduction->row};
  k->stage_index = 0;
  k->stage = &kernel->stages.items[0];
  t.c_tile = dt__emit_offset(m, k->scratch, dt__emit_i64(m, a_bytes));
  if (schedule->own_panels) {
    int64_t c_bytes = dt__matmul_c_bytes(schedule, dt_dtype_size(reduction->dtype));
    t.panel = dt__emit_offset(m, t.c_tile, dt__emit_i64(m, c_bytes));
  }
  dt_sym_t tile[2];
  dt__matmul_tile(m, kernel, k->schedule, &tile[0], &tile[1]);
  LLVMValueRef tile_rows = dt__index_scalar(k, tile[0]), tile_cols = dt__index_scalar(k, tile[1]);
  dt__body_at(k, 1);
  t.first_row = LLVMBuildMul(m->b, tile_row, tile_rows, "");
  t.first_col = LLVMBuildMul(m->b, tile_col, tile_cols, "");
  t.rows = tile_extent(k, kernel->extents[kernel->n_loops - 2], t.first_row, tile_rows);
  t.cols = tile_extent(k, kernel->extents[kernel->n_loops - 1], t.first_col, tile_cols);
  group_rows(&t);
  LLVMValueRef extent_k = all_terms(k);
  if (dt__matmul_has_runs(m, kernel, schedule)) {
    LLVMValueRef all = LLVMBuildAdd(m->b, t.grouped, t.left, "");
    t.table = dt__matmul_find_rows(k, t.first_row, t.rows, all);
    dt__body_at(k, 1);
  }
  // With nothing to sum the loop still runs once, over a depth of 0, and stores zeros.
  LLVMValueRef one = dt__emit_i64(m, 1);
  LLVMValueRef some = LLVMBuildICmp(m->b, LLVMIntSGT, extent_k, one, "");
  LLVMValueRef end = LLVMBuildSelect(m->b, some, extent_k, one, "");
  LLVMValueRef first_k = dt__loop_open(k, 2, dt__emit_i64(m, 0), end, DT_MATMUL_DEPTH * t.k_step);
  multiply_depth(&t, first_k, extent_k);
  dt__loop_close(k, 2);
  finish_rows(&t);
}
