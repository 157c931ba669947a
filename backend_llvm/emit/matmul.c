// SPDX-License-Identifier: Apache-2.0
// The matrix template: one grid item computes a tile of C = A * B and runs the later stages
// (epilogue) on it, row by row, with lanes on n.
//
//   for each DEPTH of k:                          (B's panels of this depth stay in cache)
//     copy A's rows of the tile, this depth, to scratch, but for those that are read where they lie
//       (matmul_place.c): rows lie at a stride that spreads them over the sets of the first-level
//       cache, and addresses become literals
//     for each panel of B in the tile:
//       for each group of `rows` rows:            micro-kernel: rows x width accumulators
//         C tile (scratch) = or += A rows * panel
//   for each row: the later stages, their row value loaded from the C tile
//
// Sums of products of 8-bit integers take four elements of k at a time, as one word: A's copy and
// the panels are words then, as if of i32, and a step adds four products to each sum.
//
// Micro-kernels (matmul_micro.h) are for a group of rows, for half a group, and for one row, or for
// more sizes where panels are narrower than what is multiplied. The remaining rows of a tile are
// padded to one of these by repeating the last row; the copies of A and C have room for whole
// groups. If B's panel holds codes, a tile of more rows than one group decodes it to scratch first.
#include "backend_llvm/emit/matmul.h"
#include "backend_llvm/emit/body.h"
#include "backend_llvm/emit/index.h"
#include "backend_llvm/emit/loops.h"
#include "backend_llvm/emit/matmul_micro.h"
#include "fuse/matmul_rows.h"
#include "runtime/base/dtype.h"

static const dt_inst_t *stage0_inst(const dt_kernel_t *kernel, uint32_t id) {
  return &kernel->stages.items[0].insts.items[id];
}

static const dt_inst_t *arg(const dt_kernel_t *kernel, const dt_inst_t *of, uint32_t k) {
  return stage0_inst(kernel, of->args[k]);
}

static bool is_op(const dt_inst_t *inst, dt_scalar_op_t op) {
  return inst->kind == DT_INST_SCALAR && inst->op == op;
}

static bool is_plain_load(const dt_inst_t *inst) {
  return inst->kind == DT_INST_LOAD && inst->mask == DT_NO_INST;
}

// ---- Factors -------------------------------------------------------------------------------------------
// `factor` is load `a`, or its cast.
static bool stands_for(const dt_kernel_t *kernel, uint32_t factor, uint32_t a) {
  const dt_inst_t *inst = stage0_inst(kernel, factor);
  return factor == a || (inst->kind == DT_INST_CAST && inst->args[0] == a);
}

// `factor` is the integers `load` times a scale.
static bool is_scaled(const dt_kernel_t *kernel, uint32_t factor, uint32_t load,
                      uint32_t *out_scales) {
  const dt_inst_t *inst = stage0_inst(kernel, factor);
  if (!is_op(inst, DT_SCALAR_mul) || !stands_for(kernel, inst->args[0], load) ||
      !is_plain_load(arg(kernel, inst, 1)) || arg(kernel, inst, 1)->dtype != DT_F32)
    return false;
  *out_scales = inst->args[1];
  return true;
}

// Codes are the load itself, or some of its bits.
static bool are_codes(const dt_kernel_t *kernel, uint32_t codes, const dt_matmul_t *matmul) {
  const dt_inst_t *inst = stage0_inst(kernel, codes);
  int64_t mask = ((int64_t)1 << matmul->bits) - 1;
  if (matmul->bits == 8)
    return codes == matmul->b;
  if (!is_op(inst, DT_SCALAR_bit_and) || arg(kernel, inst, 1)->kind != DT_INST_CONST ||
      arg(kernel, inst, 1)->value.i != mask)
    return false;
  inst = arg(kernel, inst, 0);
  return is_op(inst, DT_SCALAR_shift_right) && inst->args[0] == matmul->b &&
         arg(kernel, inst, 1)->kind == DT_INST_INDEX;
}

static bool take_zeros(const dt_kernel_t *kernel, uint32_t zeros, dt_panel_t *out) {
  const dt_inst_t *inst = stage0_inst(kernel, zeros);
  out->zeros = DT_NO_INST;
  out->zero = inst->value.f;
  if (inst->kind == DT_INST_CONST)
    return inst->dtype == DT_F32;
  out->zeros = inst->kind == DT_INST_CAST ? inst->args[0] : zeros;
  inst = stage0_inst(kernel, out->zeros);
  out->zeros_held = inst->dtype;
  out->zero = 0;
  return is_plain_load(inst) && (inst->dtype == DT_U8 || inst->dtype == DT_F32);
}

// (codes - zeros) * scales
static bool is_decoded(const dt_kernel_t *kernel, uint32_t factor, const dt_matmul_t *matmul,
                       dt_panel_t *out) {
  const dt_inst_t *inst = stage0_inst(kernel, factor), *less = NULL;
  if (!is_op(inst, DT_SCALAR_mul) || !is_op(arg(kernel, inst, 0), DT_SCALAR_sub))
    return false;
  less = arg(kernel, inst, 0);
  out->scales = inst->args[1];
  inst = stage0_inst(kernel, out->scales);
  return is_plain_load(inst) && inst->dtype == DT_F32 &&
         arg(kernel, less, 0)->kind == DT_INST_CAST &&
         are_codes(kernel, arg(kernel, less, 0)->args[0], matmul) &&
         take_zeros(kernel, less->args[1], out);
}

bool dt__matmul_panel(const dt_kernel_t *kernel, const dt_matmul_t *matmul, dt_panel_t *out) {
  const dt_stage_t *stage = &kernel->stages.items[0];
  const dt_inst_t *product = stage0_inst(kernel, stage->reductions.items[0].value);
  *out = (dt_panel_t){.held = stage0_inst(kernel, matmul->b)->dtype,
                      .bits = matmul->bits,
                      .block = matmul->block,
                      .scales = DT_NO_INST,
                      .zeros = DT_NO_INST,
                      .a_scales = DT_NO_INST};
  if (!is_op(product, DT_SCALAR_mul))
    return false;
  uint32_t a = product->args[0], b = product->args[1];
  if (!matmul->bits)
    return (stands_for(kernel, a, matmul->a) && stands_for(kernel, b, matmul->b)) ||
           (stands_for(kernel, b, matmul->a) && stands_for(kernel, a, matmul->b));
  return is_decoded(kernel, b, matmul, out) &&
         (matmul->dots ? is_scaled(kernel, a, matmul->a, &out->a_scales) : a == matmul->a);
}

static bool loads_plainly(const dt_kernel_t *kernel, uint32_t id) {
  return id < kernel->stages.items[0].insts.len && is_plain_load(stage0_inst(kernel, id));
}

// Panels of one byte are of words, but for codes.
static bool is_of_words(const dt_kernel_t *kernel, const dt_matmul_t *t) {
  return !t->bits && dt_dtype_size(stage0_inst(kernel, t->b)->dtype) == 1;
}

// What the tile's copy of A holds.
static dt_dtype_t copied(const dt_kernel_t *kernel, const dt_matmul_t *t) {
  return is_of_words(kernel, t) || t->dots ? stage0_inst(kernel, t->a)->dtype
                                           : kernel->stages.items[0].reductions.items[0].dtype;
}

// Elements of k that one step takes.
static int64_t k_step(const dt_kernel_t *kernel, const dt_matmul_t *t) {
  return is_of_words(kernel, t) || t->dots ? DT_MATMUL_WORD : 1;
}

// A is copied, and may be converted on the way: halves for a product of f32. B's halves and codes
// are where they are multiplied.
static bool operands_fit(const dt_kernel_t *kernel, const dt_matmul_t *t, dt_dtype_t dtype) {
  if (!loads_plainly(kernel, t->a) || !loads_plainly(kernel, t->b))
    return false;
  dt_dtype_t a = stage0_inst(kernel, t->a)->dtype, b = stage0_inst(kernel, t->b)->dtype;
  if (is_of_words(kernel, t))
    return a != b && (a == DT_U8 || a == DT_I8) && dtype == DT_I32;
  bool halves = dtype == DT_F32 && !t->own_panels;
  if (t->dots ? a != DT_I8 : a != dtype && !(dtype == DT_F32 && dt__dtype_is_half(a)))
    return false;
  return t->bits ? b == DT_U8 && halves : b == dtype || (halves && dt__dtype_is_half(b));
}

// Blocks of codes are whole groups, and a depth is whole blocks or lies in one.
static bool blocks_fit(dt_emit_t *m, const dt_kernel_t *kernel, const dt_matmul_t *t) {
  int64_t depth = DT_MATMUL_DEPTH * k_step(kernel, t);
  if (!t->bits)
    return !t->dots;
  return (t->bits == 2 || t->bits == 4 || t->bits == 8) && t->block >= 16 && t->block % 16 == 0 &&
         (depth % t->block == 0 || t->block % depth == 0) &&
         (!t->dots || (m->target->dot_products && !m->target->strict_fp));
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
  dt_panel_t panel;
  if (reduction->kind != DT_REDUCE_SUM || !operands_fit(kernel, t, dtype) ||
      !(t->across.id || dt__matmul_panel(kernel, t, &panel)) || !blocks_fit(m, kernel, t))
    return refuse(kernel, "its first stage is not the sum of a product of two loads");
  const char *why = NULL;
  dt_dtype_t b = is_of_words(kernel, t) ? stage0_inst(kernel, t->b)->dtype : dtype;
  if (!dt__matmul_row(m->target, t->dots ? dtype : copied(kernel, t), b, dtype, &why))
    return refuse(kernel, why);
  if (t->across.id && (why = dt__winograd_refusal(m, kernel, schedule)))
    return refuse(kernel, why);
  uint32_t lanes = m->target->vector_bytes / (uint32_t)dt_dtype_size(dtype);
  if (t->rows < 1 || t->rows > 32 || t->width == 0 || t->width % lanes != 0 ||
      t->width / lanes > 4 || t->tile_rows == 0 || t->tile_rows % t->rows != 0 ||
      t->tile_cols == 0 || t->tile_cols % t->width != 0 || t->tile_cols % schedule->lanes != 0)
    return refuse(kernel, "its tiles do not fit each other");
  if (t->across.id)
    return NULL;
  if (!dt__matmul_rows_run(m, kernel, t) || (t->dots && dt__matmul_has_runs(m, kernel, t)))
    return refuse(kernel, "its left operand is not contiguous over k");
  return NULL;
}

// ---- One tile ------------------------------------------------------------------------------------------
typedef struct tile_t {
  dt_body_t *k;
  const dt_matmul_t *schedule;
  dt_dtype_t dtype, a_dtype; // of sums, and of the copy of A
  int64_t k_step;
  LLVMTypeRef type;
  dt_panel_t panel;                              // of B
  LLVMValueRef a_copy, c_tile, sides;            // scratch
  LLVMValueRef plain;                            // scratch: a panel that the tile packs or decodes
  LLVMValueRef first_row, rows, first_col, cols; // of this tile
  LLVMValueRef grouped, left; // rows in whole groups, and in the one call after them
  LLVMValueRef few;           // panels are dear to decode: no more rows than a group has
  LLVMValueRef table;         // where rows of A begin, if they are runs
  LLVMValueRef steps;         // by group: how far apart they stand, if some may be read in place
  dt_matmul_blocks_t blocks;  // then
  LLVMValueRef c_row;         // the row the later stages work on
  uint32_t row_value;
} tile_t;

// Rows that micro-kernels have, the most first: of plain panels, and of narrower ones.
static uint32_t sizes_of(const tile_t *t, bool narrow, uint32_t out[8]) {
  uint32_t group = t->schedule->rows, n = 0;
  static const uint32_t few[] = {8, 6, 4, 3, 2, 1};
  out[n++] = group;
  if (!narrow && group / 2 > 1)
    out[n++] = group / 2;
  if (!narrow && group > 1)
    out[n++] = 1;
  for (uint32_t i = 0; narrow && i < sizeof(few) / sizeof(few[0]); i++)
    if (few[i] < group)
      out[n++] = few[i];
  return n;
}

static bool is_narrow(const tile_t *t) { return t->panel.bits || t->panel.held != t->a_dtype; }

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

// Steps over `depth` elements of k: words are whole, with zeros in the panel, by which what A's
// copy has there is multiplied, and segments are, too.
static LLVMValueRef steps_of(tile_t *t, LLVMValueRef depth) {
  dt_emit_t *m = t->k->m;
  int64_t by = dt__panel_has_dots(&t->panel) ? dt__panel_segment(&t->panel) : t->k_step;
  LLVMValueRef more = LLVMBuildAdd(m->b, depth, dt__emit_i64(m, by - 1), "");
  return LLVMBuildUDiv(m->b, more, dt__emit_i64(m, by), "");
}

// The sum of `n` integers of 8 bits from `at` on.
static LLVMValueRef sum_bytes(dt_emit_t *m, LLVMValueRef at, int64_t n) {
  LLVMTypeRef wide = LLVMVectorType(m->t_i32, 16);
  LLVMValueRef sum = LLVMConstNull(wide);
  for (int64_t i = 0; i < n; i += 16) {
    LLVMValueRef bytes =
        dt__emit_load(m, DT_I8, 16, dt__emit_offset(m, at, dt__emit_i64(m, i)), NULL, NULL);
    sum = LLVMBuildAdd(m->b, sum, LLVMBuildSExt(m->b, bytes, wide, ""), "");
  }
  return dt__emit_intrinsic1(m, "llvm.vector.reduce.add", sum);
}

// Of each segment of A's row, whose copy is at `to`: its scale, and the sum of its integers. Behind
// the depth there are zeros then.
static void make_sides(tile_t *t, LLVMValueRef row, LLVMValueRef to, LLVMValueRef first_k,
                       LLVMValueRef depth) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  const int64_t segment = dt__panel_segment(&t->panel);
  LLVMValueRef n = steps_of(t, depth), sides;
  LLVMValueRef end = LLVMBuildMul(m->b, n, dt__emit_i64(m, segment), "");
  sides = LLVMBuildMul(m->b, row, dt__emit_i64(m, dt__matmul_side_stride(t->schedule)), "");
  sides = dt__emit_element(m, m->t_f32, t->sides, sides);
  LLVMValueRef at = dt__loop_open(k, 4, depth, end, 1);
  dt__emit_store(m, DT_I8, dt__emit_int(m->t_i8, 0), dt__emit_offset(m, to, at), NULL);
  dt__loop_close(k, 4);
  at = dt__loop_open(k, 4, dt__emit_i64(m, 0), n, 1);
  LLVMValueRef first = LLVMBuildMul(m->b, at, dt__emit_i64(m, segment), "");
  LLVMValueRef sum = sum_bytes(m, dt__emit_offset(m, to, first), segment);
  dt__bind_symbol(k, k->kernel->stages.items[0].vars[0], 4, LLVMBuildAdd(m->b, first_k, first, ""));
  LLVMValueRef from = operand_address(k, t->panel.a_scales, 4);
  dt__body_at(k, 4);
  LLVMValueRef scale = dt__emit_load(m, DT_F32, 0, from, NULL, NULL);
  LLVMValueRef side = LLVMBuildMul(m->b, at, dt__emit_i64(m, 2), "");
  dt__emit_store(m, DT_F32, scale, dt__emit_element(m, m->t_f32, sides, side), NULL);
  side = LLVMBuildAdd(m->b, side, dt__emit_i64(m, 1), "");
  dt__emit_store(m, DT_F32, LLVMBuildSIToFP(m->b, sum, m->t_f32, ""),
                 dt__emit_element(m, m->t_f32, sides, side), NULL);
  dt__loop_close(k, 4);
}

// Group `row` of rows is read where it lies; *out_step: how far apart they stand there.
static LLVMValueRef lies_well(tile_t *t, LLVMValueRef row, LLVMValueRef *out_step) {
  dt_emit_t *m = t->k->m;
  LLVMValueRef at = LLVMBuildUDiv(m->b, row, dt__emit_i64(m, t->schedule->rows), "");
  *out_step = LLVMBuildLoad2(m->b, m->t_i64, dt__emit_element(m, m->t_i64, t->steps, at), "");
  return LLVMBuildICmp(m->b, LLVMIntNE, *out_step, dt__emit_i64(m, 0), "");
}

// Groups that are not.
static void copy_groups(tile_t *t, LLVMValueRef end, LLVMValueRef first_k, LLVMValueRef depth) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  LLVMValueRef group = dt__emit_i64(m, t->schedule->rows), step;
  LLVMValueRef row = dt__loop_open(k, 3, dt__emit_i64(m, 0), end, t->schedule->rows);
  LLVMValueRef stop = smaller(k, LLVMBuildAdd(m->b, row, group, ""), end);
  LLVMValueRef well = lies_well(t, row, &step);
  dt_matmul_rows_t rows = {t->table, row, LLVMBuildSelect(m->b, well, row, stop, "")};
  dt__matmul_copy_runs(k, t->a_dtype, &rows, first_k, depth, 4);
  dt__loop_close(k, 3);
}

static void copy_a(tile_t *t, LLVMValueRef first_k, LLVMValueRef depth) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  const dt_kernel_t *kernel = k->kernel;
  LLVMValueRef end = LLVMBuildAdd(m->b, t->grouped, t->left, "");
  if (t->steps) {
    copy_groups(t, end, first_k, depth);
    return;
  }
  if (t->table) {
    dt_matmul_rows_t rows = {t->table, dt__emit_i64(m, 0), end};
    dt__matmul_copy_runs(k, t->a_dtype, &rows, first_k, depth, 3);
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
  if (dt__panel_has_dots(&t->panel))
    make_sides(t, row, to, first_k, depth);
  dt__loop_close(k, 3);
}

// A panel of B for some columns, as micro-kernels get it.
typedef struct columns_t {
  const dt_panel_t *form;
  LLVMValueRef at, scales, zeros; // addresses
  LLVMValueRef col, depth, again;
} columns_t;

// Where a group's rows are: in the copy, or where they lie.
static void find_a(tile_t *t, LLVMValueRef row, dt_micro_args_t *args) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  LLVMValueRef stride = dt__emit_i64(m, dt__matmul_a_stride(dt_dtype_size(t->dtype))), step;
  args->a = dt__emit_element(m, t->type, t->a_copy, LLVMBuildMul(m->b, row, stride, ""));
  if (!t->steps)
    return;
  const dt_matmul_blocks_t *b = &t->blocks;
  LLVMValueRef well = lies_well(t, row, &step);
  LLVMValueRef place =
      LLVMBuildLoad2(m->b, m->t_i64, dt__emit_element(m, m->t_i64, t->table, row), "");
  place = LLVMBuildAdd(m->b, place, b->place, "");
  LLVMValueRef base = k->bases[stage0_inst(k->kernel, t->schedule->a)->buffer.id - 1];
  args->a = LLVMBuildSelect(m->b, well, dt__emit_element(m, t->type, base, place), args->a, "");
  args->a_stride = LLVMBuildSelect(m->b, well, step, stride, "");
  args->depth = LLVMBuildSelect(m->b, well, b->length, args->depth, "");
  args->runs = LLVMBuildSelect(m->b, well, b->runs, dt__emit_i64(m, 1), "");
  args->run_step = LLVMBuildSelect(m->b, well, b->run_step, dt__emit_i64(m, 0), "");
}

static void call_micro(tile_t *t, uint32_t rows, LLVMValueRef row, const columns_t *b) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  LLVMValueRef c_stride = dt__emit_i64(m, dt__matmul_c_stride(t->schedule));
  LLVMValueRef c_at = LLVMBuildAdd(m->b, LLVMBuildMul(m->b, row, c_stride, ""), b->col, "");
  dt_micro_form_t form = {.sum = t->dtype,
                          .a = t->a_dtype,
                          .rows = rows,
                          .width = t->schedule->width,
                          .panel = b->form,
                          .in_place = t->steps != NULL};
  dt_micro_args_t args = {.b = b->at,
                          .c = dt__emit_element(m, t->type, t->c_tile, c_at),
                          .depth = b->depth,
                          .c_stride = c_stride,
                          .again = b->again,
                          .scales = b->scales,
                          .zeros = b->zeros};
  if (dt__panel_has_dots(b->form)) {
    args.side_stride = dt__emit_i64(m, dt__matmul_side_stride(t->schedule));
    args.sides =
        dt__emit_element(m, m->t_f32, t->sides, LLVMBuildMul(m->b, row, args.side_stride, ""));
  }
  find_a(t, row, &args);
  dt__matmul_micro(m, &form, &args);
}

// Calls the micro-kernel for `rows` rows where `wanted`, as a block of its own.
static void call_if(tile_t *t, LLVMValueRef wanted, uint32_t rows, const columns_t *b) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  LLVMBasicBlockRef some = dt__emit_block(m, k->fn, "rows"),
                    next = dt__emit_block(m, k->fn, "next");
  LLVMBuildCondBr(m->b, wanted, some, next);
  LLVMPositionBuilderAtEnd(m->b, some);
  call_micro(t, rows, t->grouped, b);
  LLVMBuildBr(m->b, next);
  k->scopes[3].block = next;
  dt__body_at(k, 3);
}

// All rows of the tile against one panel: whole groups in a loop, then the rest.
static void multiply_panel(tile_t *t, const columns_t *b) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  uint32_t group = t->schedule->rows, sizes[8];
  uint32_t n = sizes_of(t, is_narrow(t), sizes);
  LLVMValueRef row = dt__loop_open(k, 4, dt__emit_i64(m, 0), t->grouped, group);
  call_micro(t, group, row, b);
  dt__loop_close(k, 4);
  for (uint32_t i = 1; i < n; i++)
    call_if(t, LLVMBuildICmp(m->b, LLVMIntEQ, t->left, dt__emit_i64(m, sizes[i]), ""), sizes[i], b);
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

// More rows than a group has read the panel decoded.
static void multiply_decoded(tile_t *t, columns_t *b) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  static const dt_panel_t plain = {
      .held = DT_F32, .scales = DT_NO_INST, .zeros = DT_NO_INST, .a_scales = DT_NO_INST};
  dt_micro_form_t form = {
      .sum = t->dtype, .a = t->a_dtype, .rows = 0, .width = t->schedule->width, .panel = b->form};
  dt_micro_args_t args = {.b = b->at, .depth = b->depth, .scales = b->scales, .zeros = b->zeros};
  LLVMBasicBlockRef few = dt__emit_block(m, k->fn, "few"), many = dt__emit_block(m, k->fn, "many");
  LLVMBasicBlockRef next = dt__emit_block(m, k->fn, "multiplied");
  LLVMBuildCondBr(m->b, t->few, few, many);
  k->scopes[3].block = few;
  dt__body_at(k, 3);
  multiply_panel(t, b);
  LLVMBuildBr(m->b, next);
  k->scopes[3].block = many;
  dt__body_at(k, 3);
  dt__matmul_decode(m, &form, &args, t->plain);
  columns_t decoded = {
      .form = &plain, .at = t->plain, .col = b->col, .depth = b->depth, .again = b->again};
  multiply_panel(t, &decoded);
  LLVMBuildBr(m->b, next);
  k->scopes[3].block = next;
  dt__body_at(k, 3);
}

static void multiply_depth(tile_t *t, LLVMValueRef first_k, LLVMValueRef depth) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  const dt_kernel_t *kernel = k->kernel;
  columns_t b = {.form = &t->panel};
  b.again = LLVMBuildICmp(m->b, LLVMIntNE, first_k, dt__emit_i64(m, 0), "");
  copy_a(t, first_k, depth);
  b.depth = steps_of(t, depth);
  bind_first(t, first_k);
  b.col = dt__loop_open(k, 3, dt__emit_i64(m, 0), t->cols, (int64_t)t->schedule->width);
  dt__bind_symbol(k, kernel->vars[kernel->n_loops - 1], 3,
                  LLVMBuildAdd(m->b, t->first_col, b.col, ""));
  b.at = t->plain;
  if (t->schedule->own_panels)
    dt__matmul_pack(k, 4, LLVMBuildAdd(m->b, t->first_col, b.col, ""),
                    LLVMBuildAdd(m->b, t->first_col, t->cols, ""), first_k, depth, b.at);
  else
    b.at = operand_address(k, t->schedule->b, 3);
  if (t->panel.bits)
    b.scales = operand_address(k, t->panel.scales, 3);
  if (t->panel.bits && t->panel.zeros != DT_NO_INST)
    b.zeros = operand_address(k, t->panel.zeros, 3);
  dt__body_at(k, 3);
  if (t->few)
    multiply_decoded(t, &b);
  else
    multiply_panel(t, &b);
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
// rest; the last kernel takes a rest of more than that as a group of its own.
static void group_rows(tile_t *t) {
  dt_emit_t *m = t->k->m;
  uint32_t group = t->schedule->rows, sizes[8], n = sizes_of(t, is_narrow(t), sizes);
  LLVMValueRef size = dt__emit_i64(m, group), zero = dt__emit_i64(m, 0);
  LLVMValueRef rest = LLVMBuildURem(m->b, t->rows, size, "");
  LLVMValueRef whole = LLVMBuildSub(m->b, t->rows, rest, "");
  t->grouped = LLVMBuildAdd(m->b, whole, size, "");
  t->left = zero;
  for (uint32_t i = 1; i < n; i++) {
    LLVMValueRef takes = LLVMBuildICmp(m->b, LLVMIntSLE, rest, dt__emit_i64(m, sizes[i]), "");
    t->grouped = LLVMBuildSelect(m->b, takes, whole, t->grouped, "");
    t->left = LLVMBuildSelect(m->b, takes, dt__emit_i64(m, sizes[i]), t->left, "");
  }
  LLVMValueRef none = LLVMBuildICmp(m->b, LLVMIntEQ, rest, zero, "");
  t->grouped = LLVMBuildSelect(m->b, none, whole, t->grouped, "");
  t->left = LLVMBuildSelect(m->b, none, zero, t->left, "");
  bool dear = t->panel.bits ? !dt__panel_has_dots(&t->panel) : t->panel.held == DT_F16;
  if (dear)
    t->few = LLVMBuildICmp(m->b, LLVMIntSLE, t->rows, size, "");
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

// With nothing to sum the loop still runs once, over a depth of 0, and stores zeros.
static void multiply_all(tile_t *t, LLVMValueRef extent_k) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  LLVMValueRef one = dt__emit_i64(m, 1), zero = dt__emit_i64(m, 0);
  if (t->steps) {
    t->blocks = dt__matmul_blocks(k, extent_k);
    dt__matmul_begin_block(k, &t->blocks, dt__loop_open(k, 2, zero, t->blocks.n, 1));
    multiply_depth(t, t->blocks.first_k, t->blocks.depth);
    dt__loop_close(k, 2);
    return;
  }
  LLVMValueRef some = LLVMBuildICmp(m->b, LLVMIntSGT, extent_k, one, "");
  LLVMValueRef end = LLVMBuildSelect(m->b, some, extent_k, one, "");
  int64_t most = DT_MATMUL_DEPTH * t->k_step;
  LLVMValueRef first_k = dt__loop_open(k, 2, zero, end, most);
  LLVMValueRef left = LLVMBuildSub(m->b, extent_k, first_k, "");
  multiply_depth(t, first_k, smaller(k, left, dt__emit_i64(m, most)));
  dt__loop_close(k, 2);
}

void dt__matmul_item(dt_body_t *k, LLVMValueRef tile_col, LLVMValueRef tile_row) {
  dt_emit_t *m = k->m;
  const dt_kernel_t *kernel = k->kernel;
  const dt_matmul_t *schedule = &k->schedule->matmul;
  const dt_reduction_t *reduction = &kernel->stages.items[0].reductions.items[0];
  if (schedule->across.id) {
    dt__winograd_item(k, tile_col, tile_row);
    return;
  }
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
  (void)dt__matmul_panel(kernel, schedule, &t.panel); // verified
  t.c_tile = dt__emit_offset(m, k->scratch, dt__emit_i64(m, a_bytes));
  int64_t c_bytes = dt__matmul_c_bytes(schedule, dt_dtype_size(reduction->dtype));
  t.plain = t.sides = dt__emit_offset(m, t.c_tile, dt__emit_i64(m, c_bytes));
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
    if (dt__matmul_in_place(m, kernel, schedule)) {
      t.steps = dt__matmul_find_steps(k, t.table, all);
      dt__body_at(k, 1);
    }
  }
  multiply_all(&t, extent_k);
  finish_rows(&t);
}
