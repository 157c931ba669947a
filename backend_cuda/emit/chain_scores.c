// SPDX-License-Identifier: Apache-2.0
// Chains of product, rows, product whose rows are short enough to stay in registers all the way (as
// in FlashAttention-2, but for the rescaling: rows are whole here). Everything is copied to shared
// memory at once. Tensor cores leave a quad of threads 16 rows x 16 columns as
//
//   thread q of four:  row g, and row g + 8, each with columns 4 q … 4 q + 3
//
// where B's columns stand in another order in shared memory: of 16, those with number 4 c + 2 b + e
// are row 8 b + 2 c + e. That is how a team of four threads with vectors of 4 lanes walks a row
// (backend_llvm/emit/resident.c), so the row kernel runs on these registers; and what it makes is
// operand A of the next product as tensor cores want it, where B's rows stand in the same order.
// Warps side by side take 16 columns of a row in turn, and are one team with more threads:
//
//   Q, K ─► scores ─► stages ─► row stages, both rows of a thread together ─► · V ─► parts of C
//                               each fold: own columns, quad, then warps              │ shared
//                               memory in their order, through shared memory    later stages ◄┘
//
// Rows that end anywhere do: past the end columns take no part in folds, and are zeros for the
// product.
#include "backend_cuda/emit/chain.h"
#include "backend_cuda/emit/ptx.h"

#include <string.h>

#define ITEM DT_CHAIN_ITEM
#define PART DT_CHAIN_PART
#define STEP 3 // so many rows of the tile as warps have
#define ROUND 4
#define BLOCK 16 // rows, columns and depth that one read of fragments covers
#define HALF 2   // bytes
#define UNIT 8   // halves of one copy
#define PAD 16   // bytes, after rows in shared memory
#define QUAD 4   // threads
#define LANES 4
#define WORD 4         // bytes of a sum
#define SUMS_PAD 32    // bytes, after rows of sums: stores of pairs then meet no bank twice
#define MOST_DEPTH 128 // of the first product, and columns of the second
#define MOST_VECTORS 4 // of a row that a thread has
#define ALWAYS 128     // columns that there is always room for
#define MOST_ROWS 4    // blocks of rows that warps have at once
#define MEMBERS 3

typedef struct scores_t {
  dt_chain_item_t *t;
  dt_body_t *k;
  dt_emit_t *m;
  const dt_kernel_t *score, *rows, *head;
  const dt_schedule_t *schedules[MEMBERS];
  dt_matmul_plan_t score_plan, head_plan;
  dt_buffer_id_t made, weights; // SLABs: of scores, and of what the rows make of them
  bool open;                    // rows read nothing but these along the row: any length will do
  uint32_t depth, cols;         // of both products
  uint32_t warps_m, warps_n, n_folds;
  uint32_t steps; // by which warps take the tile's rows, those side by side at once
  // One version.
  uint32_t vectors; // of a row that a thread has
  bool whole;       // vectors are: all in the row or none
  bool full;        // all are in the row
  uint32_t k_at, v_at, sums_at, parts_at, bytes, row_pitch, col_pitch, sums_pitch; // bytes
  LLVMValueRef shared;
  LLVMValueRef tid, lane, quad_lane, warp_row, warp_col; // i32
  LLVMValueRef above;                                    // i32: the tile's rows before the step
  LLVMValueRef extent_m, extent_n, row[2], live[2];      // i64, i1; rows of this thread
  LLVMValueRef sums[MOST_DEPTH / 2];                     // scores, then of the second product
  LLVMValueRef values[2][MOST_VECTORS];                  // scores, vectors
  LLVMValueRef fragments[MOST_VECTORS][4];               // of operand A
  LLVMValueRef group[LANES];                             // being finished
  uint32_t first;                                        // of them
  uint32_t folded;                                       // folds so far
} scores_t;

// ---- Form -----------------------------------------------------------------------------------------
static bool has_binds(const dt_stage_t *stage) {
  for (uint32_t i = 0; i < stage->insts.len; i++)
    if (stage->insts.items[i].kind == DT_INST_BIND || stage->insts.items[i].kind == DT_INST_SEARCH)
      return true;
  return false;
}

static dt_buffer_kind_t kind_of(const dt_program_t *program, dt_buffer_id_t id) {
  return dt__program_buffer(program, id)->kind;
}

// After a product: plain values, elements stored.
static bool follows_plainly(const dt_program_t *program, const dt_kernel_t *kernel) {
  for (uint32_t s = 1; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    if (stage->n_loops || stage->folds.len || has_binds(stage))
      return false;
  }
  return !dt__kernel_has_locals(program, kernel);
}

// The only store of the product that makes scores.
static bool stores_scores(scores_t *s, const dt_program_t *program) {
  uint32_t n = 0;
  for (uint32_t i = 1; i < s->score->stages.len; i++) {
    const dt_stage_t *stage = &s->score->stages.items[i];
    for (uint32_t j = 0; j < stage->stores.len; j++, n++) {
      s->made = stage->stores.items[j].buffer;
      if (kind_of(program, s->made) != DT_BUFFER_SLAB || stage->stores.items[j].mask != DT_NO_INST)
        return false;
    }
  }
  return n == 1;
}

static bool at_own_place(const dt_program_t *program, const dt_stage_t *stage, dt_buffer_id_t id,
                         const dt_sym_t *index, uint32_t mask) {
  return mask == DT_NO_INST &&
         index[dt__program_buffer(program, id)->rank - 1].id == stage->vars[0].id;
}

static bool moves_with(const dt_program_t *program, dt_sym_t e, dt_sym_t var) {
  uint32_t symbols[64], own = 0;
  uint32_t n = dt__sym_symbols(program->env, e, symbols, 64);
  bool known = dt__sym_is_symbol(program->env, var, &own) && n <= 64;
  for (uint32_t i = 0; i < n && known; i++)
    if (symbols[i] == own)
      return true;
  return !known;
}

static bool walks_loads(scores_t *s, const dt_program_t *program, const dt_stage_t *stage) {
  for (uint32_t i = 0; i < stage->insts.len; i++) {
    const dt_inst_t *inst = &stage->insts.items[i];
    dt_buffer_id_t id = dt__inst_reads(inst);
    if (!id.id)
      continue;
    dt_buffer_kind_t kind = kind_of(program, id);
    bool own = kind == DT_BUFFER_LOCAL || id.id == s->made.id;
    if (own && !at_own_place(program, stage, id, inst->index, inst->mask))
      return false;
    if (!own && kind == DT_BUFFER_SLAB)
      return false;
    for (uint32_t d = 0; d < dt__program_buffer(program, id)->rank && !own; d++)
      if (moves_with(program, inst->index[d], stage->vars[0]))
        s->open = false;
    if (!own && inst->mask != DT_NO_INST)
      s->open = false;
  }
  return true;
}

static bool walks_stage(scores_t *s, const dt_program_t *program, const dt_stage_t *stage) {
  dt_buffer_id_t weights = s->weights;
  if (stage->n_loops != 1 || has_binds(stage) ||
      stage->extents[0].id != s->score->extents[s->score->n_loops - 1].id ||
      !walks_loads(s, program, stage))
    return false;
  for (uint32_t i = 0; i < stage->stores.len; i++) {
    const dt_store_t *store = &stage->stores.items[i];
    bool local = kind_of(program, store->buffer) == DT_BUFFER_LOCAL;
    if ((!local && store->buffer.id != weights.id) ||
        !at_own_place(program, stage, store->buffer, store->index, store->mask))
      return false;
  }
  for (uint32_t i = 0; i < stage->folds.len; i++) {
    const dt_fold_t *fold = &stage->folds.items[i];
    if (fold->kind == DT_FOLD_ARGMAX || fold->kind == DT_FOLD_ARGMIN || fold->dtype != DT_F32 ||
        stage->insts.items[fold->value].dtype != DT_F32)
      return false;
  }
  s->n_folds += stage->folds.len;
  return true;
}

static bool has_size(const dt_program_t *program, dt_sym_t extent, uint32_t *out) {
  int64_t n = 0;
  if (!dt__sym_is_const(program->env, extent, &n) || n < 1 || n > MOST_DEPTH || n % UNIT)
    return false;
  *out = (uint32_t)n;
  return true;
}

static bool copies_fit(const scores_t *s) {
  const dt_operand_t *q = &s->score_plan.a, *k = &s->score_plan.b, *v = &s->head_plan.b;
  return s->score_plan.tensor && s->head_plan.tensor && q->copy == DT_COPY_UNITS && q->along_k &&
         k->copy == DT_COPY_UNITS && k->along_k && s->head_plan.a.copy == DT_COPY_NONE &&
         v->copy == DT_COPY_UNITS && !v->along_k && s->schedules[2]->lanes == LANES;
}

static bool take_form(scores_t *s, dt_program_t *program, dt_chain_t chain, uint32_t schedule,
                      bool strict) {
  if (chain.end - chain.first != MEMBERS)
    return false;
  const dt_kernel_t *kernels = &program->kernels.items[chain.first];
  *s = (scores_t){.score = &kernels[0], .rows = &kernels[1], .head = &kernels[2], .open = true};
  for (uint32_t i = 0; i < MEMBERS; i++)
    s->schedules[i] = &kernels[i].schedules.items[schedule];
  if (s->schedules[0]->kind != DT_SCHEDULE_MATMUL ||
      s->schedules[1]->kind != DT_SCHEDULE_INNER_LANES || strict)
    return false;
  dt_status_t status = dt__matmul_plan(program, s->score, s->schedules[0], strict, &s->score_plan);
  if (!status)
    status = dt__matmul_plan(program, s->head, s->schedules[2], strict, &s->head_plan);
  if (status) {
    dt_status_free(status); // whoever plans the members for good says so
    return false;
  }
  const dt_stage_t *last = &s->head->stages.items[0];
  s->weights = last->insts.items[s->head_plan.a.load].buffer;
  if (!copies_fit(s) || !stores_scores(s, program) || !follows_plainly(program, s->score) ||
      !follows_plainly(program, s->head) ||
      !has_size(program, s->score->stages.items[0].extents[0], &s->depth) ||
      !has_size(program, s->head_plan.b.extent, &s->cols))
    return false;
  for (uint32_t i = 0; i < s->rows->stages.len; i++)
    if (!walks_stage(s, program, &s->rows->stages.items[i]))
      return false;
  uint32_t blocks = s->schedules[2]->matmul.tile_rows / BLOCK;
  s->warps_m = blocks < MOST_ROWS ? blocks : MOST_ROWS;
  s->steps = blocks / s->warps_m;
  s->warps_n = DT_CHAIN_WARPS / s->warps_m;
  return true;
}

// ---- Layout ---------------------------------------------------------------------------------------
// A power of two, so that rows are shared out evenly.
static uint32_t units_in_row(uint32_t elements) {
  uint32_t units = 1;
  while (units * UNIT < elements || units * UNIT < BLOCK)
    units *= 2;
  return units;
}

static uint32_t pitch_of(uint32_t elements) { return units_in_row(elements) * UNIT * HALF + PAD; }

static uint32_t fragments_in(uint32_t elements) { return (elements + BLOCK - 1) / BLOCK; }

static uint32_t columns_of(const scores_t *s) { return s->vectors * BLOCK * s->warps_n; }

static void lay_out(scores_t *s, uint32_t vectors) {
  uint32_t tall = s->warps_m * BLOCK, all = tall * s->steps;
  s->vectors = vectors;
  s->row_pitch = pitch_of(s->depth);
  s->col_pitch = pitch_of(s->cols);
  s->sums_pitch = fragments_in(s->cols) * BLOCK * WORD + SUMS_PAD;
  s->k_at = all * s->row_pitch;
  uint32_t front = s->k_at + columns_of(s) * s->row_pitch;
  uint32_t sums = tall * s->warps_n * s->sums_pitch;
  s->sums_at = s->steps > 1 ? front : 0; // in the place of Q and K where these are done with
  s->v_at = front > s->sums_at + sums ? front : s->sums_at + sums;
  s->parts_at = s->v_at + columns_of(s) * s->col_pitch;
  s->bytes = s->parts_at + s->n_folds * tall * s->warps_n * WORD;
}

// Vectors of rows of ALWAYS columns.
static uint32_t usual_vectors(const scores_t *s) {
  uint32_t vectors = ALWAYS / BLOCK / s->warps_n;
  return vectors ? vectors : 1;
}

static uint32_t most_vectors(const scores_t *s) {
  uint32_t vectors = 2 * usual_vectors(s);
  return vectors < MOST_VECTORS ? vectors : MOST_VECTORS;
}

uint32_t dt__chain_scores_bytes(dt_program_t *program, bool strict, dt_cuda_chain_t *chain) {
  scores_t s;
  if (!take_form(&s, program, chain->kernels, chain->schedule, strict))
    return 0;
  chain->bare = s.warps_m == MOST_ROWS; // only rows of usual length have such tiles
  chain->covered = s.open ? most_vectors(&s) * BLOCK * s.warps_n : 0;
  lay_out(&s, usual_vectors(&s));
  uint32_t slabs =
      2 * s.steps * s.warps_m * BLOCK * (DT_SLAB_ALIGNMENT + PAD); // are there, and not used
  return s.bytes > slabs ? s.bytes - slabs : 64;
}

// ---- Small things ---------------------------------------------------------------------------------
static LLVMValueRef i32(scores_t *s, uint32_t value) { return dt__emit_i32(s->m, value); }

static LLVMValueRef add(scores_t *s, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildAdd(s->m->b, a, b, "");
}

static LLVMValueRef times(scores_t *s, LLVMValueRef a, uint32_t by) {
  return LLVMBuildMul(s->m->b, a, i32(s, by), "");
}

static LLVMValueRef low_bits(scores_t *s, LLVMValueRef a, uint32_t mask) {
  return LLVMBuildAnd(s->m->b, a, i32(s, mask), "");
}

static LLVMValueRef down(scores_t *s, LLVMValueRef a, uint32_t by) {
  return LLVMBuildLShr(s->m->b, a, i32(s, by), "");
}

static LLVMValueRef wide(scores_t *s, LLVMValueRef a) {
  return LLVMBuildZExt(s->m->b, a, s->m->t_i64, "");
}

static LLVMValueRef below(scores_t *s, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildICmp(s->m->b, LLVMIntSLT, a, b, "");
}

static LLVMValueRef lesser(scores_t *s, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildSelect(s->m->b, below(s, a, b), a, b, "");
}

static LLVMValueRef both(scores_t *s, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildAnd(s->m->b, a, b, "");
}

static LLVMValueRef shared_at(scores_t *s, LLVMValueRef byte, uint32_t plus) {
  LLVMValueRef at = plus ? add(s, byte, i32(s, plus)) : byte;
  return LLVMBuildGEP2(s->m->b, s->m->t_i8, s->shared, &at, 1, "");
}

static bool take(scores_t *s, const dt_kernel_t *kernel, const dt_schedule_t *schedule) {
  dt_status_t status = dt__body_take(s->k, kernel, schedule);
  if (status)
    dt__emit_fail(s->m, status);
  return !status;
}

// ---- Copies ---------------------------------------------------------------------------------------
// Rows of an operand that stand in shared memory: element (outer, inner) at row `outer`.
typedef struct panel_t {
  const dt_operand_t *o;
  dt_sym_t outer, inner, outer_extent, inner_extent;
  LLVMValueRef first; // i64: row 0 of the panel
  uint32_t rows, at, pitch, units;
  bool ordered; // columns of tensor cores' B: in the order that the head of this file tells
} panel_t;

// Where column `col` of 16 stands.
static LLVMValueRef place_of(scores_t *s, LLVMValueRef col) {
  LLVMValueRef high = low_bits(s, col, ~15U);
  LLVMValueRef pair = low_bits(s, down(s, col, 2), 3), b = low_bits(s, down(s, col, 1), 1);
  LLVMValueRef row = add(s, add(s, times(s, b, 8), times(s, pair, 2)), low_bits(s, col, 1));
  return LLVMBuildOr(s->m->b, high, row, "");
}

// Bytes from one row to the next; a size, known to the whole kernel.
static LLVMValueRef stride_of(scores_t *s, const dt_inst_t *load, dt_sym_t var) {
  dt_body_t *k = s->k;
  dt_sym_t offset = dt__access_offset(k, load->buffer, load->index), coef, rest;
  if (!dt__sym_linear(s->m->env, offset, var, &coef, &rest)) {
    dt__emit_fail(s->m, DT_FAIL(DT_E_INTERNAL, "chain: an operand is not linear"));
    return dt__emit_i64(s->m, 0);
  }
  LLVMValueRef stride = dt__index_scalar(k, coef);
  dt__body_at(k, 0);
  return LLVMBuildMul(s->m->b, stride, dt__emit_i64(s->m, HALF), "");
}

// Zeros outside of the matrix. At PART; kernel and stage are at hand.
static void copy_panel(scores_t *s, const panel_t *p) {
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  const dt_inst_t *load = &k->stage->insts.items[p->o->load];
  uint32_t each = s->score_plan.threads / p->units; // rows at a time
  LLVMValueRef stride = stride_of(s, load, p->outer);
  LLVMValueRef extent = dt__index_scalar(k, p->outer_extent);
  int64_t inner_extent = 0;
  (void)dt__sym_is_const(m->env, p->inner_extent, &inner_extent);
  dt__body_at(k, PART);
  LLVMValueRef row = LLVMBuildUDiv(m->b, s->tid, i32(s, p->units), "");
  LLVMValueRef inner = times(s, LLVMBuildURem(m->b, s->tid, i32(s, p->units), ""), UNIT);
  bool few = p->rows < each;
  dt__scope_open(k, STEP, few ? below(s, row, i32(s, p->rows)) : NULL);
  LLVMValueRef at = LLVMBuildNSWAdd(m->b, p->first, wide(s, row), "");
  dt__bind_symbol(k, p->outer, STEP, at);
  dt__bind_symbol(k, p->inner, STEP, wide(s, inner));
  dt_sym_t offset = dt__access_offset(k, load->buffer, load->index);
  LLVMValueRef from = dt__access_address(k, load->buffer, offset, STEP).at[0];
  dt__body_at(k, STEP);
  LLVMValueRef to = times(s, p->ordered ? place_of(s, row) : row, p->pitch);
  to = add(s, to, times(s, inner, HALF));
  LLVMValueRef left = LLVMBuildNSWSub(m->b, extent, at, "");
  left = LLVMBuildTrunc(m->b, lesser(s, left, dt__emit_i64(m, p->rows)), m->t_i32, "");
  LLVMValueRef in_row = below(s, inner, i32(s, (uint32_t)inner_extent));
  for (uint32_t i = 0; i < (few ? 1 : p->rows / each); i++) {
    LLVMValueRef inside = both(s, below(s, i32(s, i * each), left), in_row);
    LLVMValueRef bytes = LLVMBuildSelect(m->b, inside, i32(s, 16), i32(s, 0), "");
    LLVMValueRef shift = LLVMBuildMul(m->b, stride, dt__emit_i64(m, i * each), "");
    dt__ptx_copy(m, shared_at(s, to, p->at + i * each * p->pitch), dt__emit_offset(m, from, shift),
                 bytes);
  }
  dt__scope_close(k, STEP);
}

static void begin_stage(scores_t *s) {
  dt_body_t *k = s->k;
  k->stage_index = 0;
  k->stage = &k->kernel->stages.items[0];
  k->axis = k->outer_lanes = k->acc_vector = k->resident = false;
  k->team = s->score_plan.threads;
  k->rank = NULL;
  k->lanes = 1;
  k->aligned = true;
  k->item_level = STEP;
}

// Q and K, then V, as two groups.
static void copy_all(scores_t *s) {
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  const dt_operand_t *q = &s->score_plan.a, *b = &s->score_plan.b, *v = &s->head_plan.b;
  LLVMValueRef none = dt__emit_i64(m, 0);
  if (!take(s, s->score, s->schedules[0]))
    return;
  begin_stage(s);
  dt_sym_t deep = k->stage->vars[0], depth = k->stage->extents[0];
  uint32_t units = units_in_row(s->depth);
  copy_panel(s, &(panel_t){q, q->var, deep, q->extent, depth, s->t->first_row,
                           s->steps * s->warps_m * BLOCK, 0, s->row_pitch, units, false});
  copy_panel(s, &(panel_t){b, b->var, deep, b->extent, depth, none, columns_of(s), s->k_at,
                           s->row_pitch, units, true});
  dt__ptx_copies_commit(m);
  if (!take(s, s->head, s->schedules[2]))
    return;
  begin_stage(s);
  copy_panel(s, &(panel_t){v, k->stage->vars[0], v->var, k->stage->extents[0], v->extent, none,
                           columns_of(s), s->v_at, s->col_pitch, units_in_row(s->cols), true});
  dt__ptx_copies_commit(m);
}

// ---- Products -------------------------------------------------------------------------------------
// Again for each part of the work: then nothing of it takes registers from the others.
static void place_thread(scores_t *s) {
  dt_emit_t *m = s->m;
  s->tid = dt__ptx_thread(m);
  s->lane = low_bits(s, s->tid, DT_WARP - 1);
  s->quad_lane = low_bits(s, s->lane, QUAD - 1);
  LLVMValueRef warp = down(s, s->tid, 5);
  s->warp_col = LLVMBuildURem(m->b, warp, i32(s, s->warps_n), "");
  s->warp_row = LLVMBuildUDiv(m->b, warp, i32(s, s->warps_n), "");
}

// This thread's two rows of the step from the tile's row s->above on, or the matrix' last one.
static void place_rows(scores_t *s) {
  dt_emit_t *m = s->m;
  LLVMValueRef row = add(s, times(s, s->warp_row, BLOCK), down(s, s->lane, 2));
  LLVMValueRef last = LLVMBuildNSWSub(m->b, s->extent_m, dt__emit_i64(m, 1), "");
  for (uint32_t r = 0; r < 2; r++) {
    LLVMValueRef own = wide(s, add(s, add(s, row, s->above), i32(s, r * BLOCK / 2)));
    s->row[r] = lesser(s, LLVMBuildNSWAdd(m->b, s->t->first_row, own, ""), last);
  }
}

static void multiply_scores(scores_t *s) {
  dt_emit_t *m = s->m;
  LLVMValueRef a[4], b[4], row = low_bits(s, s->lane, 15), high = down(s, s->lane, 4);
  LLVMValueRef a_at = add(s, add(s, times(s, s->warp_row, BLOCK), row), s->above);
  a_at = times(s, a_at, s->row_pitch);
  a_at = add(s, a_at, times(s, high, 16));
  LLVMValueRef col = add(s, low_bits(s, s->lane, 7), times(s, high, 8));
  LLVMValueRef b_at = times(s, add(s, times(s, s->warp_col, BLOCK), col), s->row_pitch);
  b_at = add(s, b_at, times(s, low_bits(s, down(s, s->lane, 3), 1), 16));
  for (uint32_t i = 0; i < s->vectors * 8; i++)
    s->sums[i] = LLVMConstNull(m->t_f32);
  for (uint32_t deep = 0; deep < fragments_in(s->depth); deep++) {
    dt__ptx_matrices(m, shared_at(s, a_at, deep * BLOCK * HALF), false, a);
    for (uint32_t c = 0; c < s->vectors; c++) {
      uint32_t from = s->k_at + c * BLOCK * s->warps_n * s->row_pitch + deep * BLOCK * HALF;
      dt__ptx_matrices(m, shared_at(s, b_at, from), false, b);
      for (uint32_t half = 0; half < 2; half++)
        dt__ptx_multiply(m, s->score_plan.a.dtype, a, &b[half * 2], &s->sums[(c * 2 + half) * 4]);
    }
  }
}

// Parts of the second product's rows: of this warp's columns.
static void multiply_rows(scores_t *s) {
  dt_emit_t *m = s->m;
  uint32_t across = fragments_in(s->cols);
  LLVMValueRef b[4], row = low_bits(s, s->lane, 15);
  LLVMValueRef at = times(s, add(s, times(s, s->warp_col, BLOCK), row), s->col_pitch);
  at = add(s, at, times(s, down(s, s->lane, 4), 16));
  for (uint32_t i = 0; i < across * 8; i++)
    s->sums[i] = LLVMConstNull(m->t_f32);
  for (uint32_t c = 0; c < s->vectors; c++)
    for (uint32_t j = 0; j < across; j++) {
      uint32_t from = s->v_at + c * BLOCK * s->warps_n * s->col_pitch + j * BLOCK * HALF;
      dt__ptx_matrices(m, shared_at(s, at, from), true, b);
      for (uint32_t half = 0; half < 2; half++)
        dt__ptx_multiply(m, s->head_plan.a.dtype, s->fragments[c], &b[half * 2],
                         &s->sums[(j * 2 + half) * 4]);
    }
}

// ---- What follows a product -----------------------------------------------------------------------
static void load_group(dt_body_t *k, void *user) {
  scores_t *s = user;
  dt_emit_t *m = k->m;
  dt_lanes_t *row = &k->rows[k->kernel->stages.items[0].folds.items[0].row];
  dt__body_at(k, k->lane_level);
  row->varying = true;
  row->v[0] = LLVMGetPoison(LLVMVectorType(m->t_f32, k->lanes));
  for (uint32_t i = 0; i < k->lanes; i++)
    row->v[0] = LLVMBuildInsertElement(m->b, row->v[0], s->group[s->first + i], i32(s, i), "");
}

// The later stages on s->group, the elements from column `at` (i64) on, by so many lanes.
static void follow(scores_t *s, LLVMValueRef at, uint32_t lanes) {
  dt_body_t *k = s->k;
  k->lanes = lanes;
  k->aligned = lanes > 1;
  k->item_level = ROUND;
  dt__outer_vector(k, at, 1, 1, k->kernel->stages.len, load_group, s);
  k->outer_lanes = k->axis = false;
}

// Rows are short here.
static LLVMValueRef columns_end(scores_t *s) {
  return LLVMBuildTrunc(s->m->b, s->extent_n, s->m->t_i32, "");
}

// The first of this thread's columns in its vector number c.
static LLVMValueRef column_of(scores_t *s, uint32_t c) {
  LLVMValueRef col = add(s, times(s, s->warp_col, BLOCK), times(s, s->quad_lane, LANES));
  return add(s, col, i32(s, c * BLOCK * s->warps_n));
}

// Four scores of row r: vectors that reach past the row's end are computed at its last columns.
static LLVMValueRef score_group(scores_t *s, uint32_t r, uint32_t c) {
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  uint32_t lanes = s->whole ? LANES : 1;
  LLVMTypeRef type = dt__emit_type(m, dt__program_buffer(&m->program, s->made)->dtype);
  LLVMValueRef out = LLVMGetPoison(LLVMVectorType(type, LANES));
  for (uint32_t i = 0; i < LANES; i++)
    s->group[i] = s->sums[(c * 2 + i / 2) * 4 + r * 2 + i % 2];
  LLVMValueRef last = LLVMBuildSub(m->b, columns_end(s), i32(s, lanes), "");
  for (s->first = 0; s->first < LANES; s->first += lanes) {
    dt__body_at(k, ROUND);
    LLVMValueRef at = add(s, column_of(s, c), i32(s, s->first));
    follow(s, wide(s, s->full ? at : lesser(s, at, last)), lanes);
    dt__body_at(k, ROUND);
    if (lanes == LANES)
      return k->held_value;
    LLVMValueRef one = LLVMBuildExtractElement(m->b, k->held_value, i32(s, 0), "");
    out = LLVMBuildInsertElement(m->b, out, one, i32(s, s->first), "");
  }
  return out;
}

static void make_scores(scores_t *s) {
  dt_body_t *k = s->k;
  if (!take(s, s->score, s->schedules[0]))
    return;
  begin_stage(s);
  k->held = s->made;
  for (uint32_t r = 0; r < 2 && !s->m->failure; r++) {
    dt__level_enter(k, ROUND);
    dt__bind_symbol(k, s->score_plan.a.var, ROUND, s->row[r]);
    for (uint32_t c = 0; c < s->vectors && !s->m->failure; c++)
      s->values[r][c] = score_group(s, r, c);
    dt__level_leave(k, ROUND);
  }
  s->first = 0;
  k->held = (dt_buffer_id_t){0};
}

// ---- Rows -----------------------------------------------------------------------------------------
// What is known of one of the thread's two rows.
typedef struct row_t {
  dt_lanes_t *values;
  DT_VEC(dt_resident_t) kept;
} row_t;

// Where a stage reads (weights: stores) the SLAB: that stage, and the offset.
static const dt_stage_t *find_access(scores_t *s, dt_buffer_id_t id, dt_sym_t *out_offset) {
  for (uint32_t i = 0; i < s->rows->stages.len; i++) {
    const dt_stage_t *stage = &s->rows->stages.items[i];
    for (uint32_t j = 0; j < stage->insts.len; j++)
      if (dt__inst_reads(&stage->insts.items[j]).id == id.id) {
        *out_offset = dt__access_offset(s->k, id, stage->insts.items[j].index);
        return stage;
      }
    for (uint32_t j = 0; j < stage->stores.len; j++)
      if (stage->stores.items[j].buffer.id == id.id) {
        *out_offset = dt__access_offset(s->k, id, stage->stores.items[j].index);
        return stage;
      }
  }
  dt__emit_fail(s->m, DT_FAIL(DT_E_INTERNAL, "chain: rows of %s lost a slab", s->rows->name));
  return NULL;
}

static void enter_row(scores_t *s, row_t *row, uint32_t r) {
  dt_body_t *k = s->k;
  dt__level_enter(k, ROUND);
  dt__bind_symbol(k, s->score_plan.a.var, ROUND, s->row[r]);
  k->rows = row->values;
  memcpy(&k->kept, &row->kept, sizeof(k->kept));
}

static void leave_row(scores_t *s, row_t *row) {
  memcpy(&row->kept, &s->k->kept, sizeof(row->kept));
  dt__level_leave(s->k, ROUND);
}

// What warps side by side have of a fold's rows: each hands in its part, and joins all of them in
// the order of warps.
static LLVMValueRef part_at(scores_t *s, uint32_t fold, uint32_t r) {
  LLVMValueRef row = add(s, times(s, s->warp_row, BLOCK), down(s, s->lane, 2));
  LLVMValueRef at = times(s, add(s, row, i32(s, r * BLOCK / 2)), s->warps_n * WORD);
  return add(s, at, i32(s, s->parts_at + fold * s->warps_m * BLOCK * s->warps_n * WORD));
}

static void hand_in(scores_t *s, const dt_stage_t *stage, row_t rows[2]) {
  dt_body_t *k = s->k;
  dt__body_at(k, STEP);
  LLVMValueRef first = LLVMBuildICmp(s->m->b, LLVMIntEQ, s->quad_lane, i32(s, 0), "");
  dt__scope_open(k, ROUND, first);
  for (uint32_t i = 0; i < stage->folds.len; i++)
    for (uint32_t r = 0; r < 2; r++) {
      LLVMValueRef at = add(s, part_at(s, s->folded + i, r), times(s, s->warp_col, WORD));
      dt__emit_store_at(s->m, DT_F32, rows[r].values[stage->folds.items[i].row].v[0],
                        shared_at(s, at, 0), WORD);
    }
  dt__scope_close(k, ROUND);
}

static LLVMValueRef join_parts(scores_t *s, const dt_fold_t *fold, LLVMValueRef at) {
  dt_emit_t *m = s->m;
  uint32_t lanes = s->warps_n < 4 ? s->warps_n : 4;
  LLVMValueRef all = NULL;
  for (uint32_t w = 0; w < s->warps_n; w += lanes) {
    LLVMValueRef some =
        dt__emit_load_at(m, DT_F32, lanes, shared_at(s, at, w * WORD), lanes * WORD, false);
    for (uint32_t i = 0; i < lanes; i++) {
      LLVMValueRef one = LLVMBuildExtractElement(m->b, some, i32(s, i), "");
      all = all ? dt__fold_join(s->k, fold, all, one) : one;
    }
  }
  return all;
}

static void join_warps(scores_t *s, const dt_stage_t *stage, row_t rows[2]) {
  dt_body_t *k = s->k;
  if (!stage->folds.len || s->warps_n == 1)
    return;
  place_thread(s);
  hand_in(s, stage, rows);
  dt__cuda_block_sync(s->m);
  for (uint32_t i = 0; i < stage->folds.len; i++)
    for (uint32_t r = 0; r < 2; r++) {
      const dt_fold_t *fold = &stage->folds.items[i];
      LLVMValueRef all = join_parts(s, fold, part_at(s, s->folded + i, r));
      rows[r].values[fold->row] = (dt_lanes_t){.v = {all}};
    }
  s->folded += stage->folds.len;
  dt__body_at(k, STEP);
}

// Past the row's end the second product has zeros.
static LLVMValueRef within(scores_t *s, uint32_t c, LLVMValueRef value) {
  dt_emit_t *m = s->m;
  LLVMTypeRef pair = LLVMVectorType(m->t_i32, 2);
  LLVMValueRef end = columns_end(s), at = column_of(s, c);
  if (s->full)
    return LLVMBuildBitCast(m->b, value, pair, "");
  if (s->whole) {
    value = LLVMBuildBitCast(m->b, value, pair, "");
    return LLVMBuildSelect(m->b, below(s, at, end), value, LLVMConstNull(pair), "");
  }
  LLVMValueRef each =
      LLVMBuildAdd(m->b, dt__emit_splat(m, at, LANES), dt__emit_ramp(m->t_i32, LANES, 1), "");
  LLVMValueRef inside = below(s, each, dt__emit_splat(m, end, LANES));
  value = LLVMBuildSelect(m->b, inside, value, LLVMConstNull(LLVMTypeOf(value)), "");
  return LLVMBuildBitCast(m->b, value, pair, "");
}

static void take_fragments(scores_t *s, row_t rows[2]) {
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  dt_sym_t offset = {0};
  place_thread(s);
  k->stage = find_access(s, s->weights, &offset);
  for (uint32_t r = 0; r < 2 && !m->failure; r++) {
    dt_lanes_t value = {0};
    memcpy(&k->kept, &rows[r].kept, sizeof(k->kept));
    if (!dt__resident_find(k, s->weights, offset, &value)) {
      dt__emit_fail(m, DT_FAIL(DT_E_INTERNAL, "chain: rows of %s are not kept", s->rows->name));
      return;
    }
    for (uint32_t c = 0; c < s->vectors; c++) {
      LLVMValueRef words = within(s, c, value.v[c]);
      for (uint32_t i = 0; i < 2; i++)
        s->fragments[c][i * 2 + r] = LLVMBuildExtractElement(m->b, words, i32(s, i), "");
    }
  }
}

static bool begin_rows(scores_t *s, row_t rows[2]) {
  dt_body_t *k = s->k;
  dt_sym_t offset = {0};
  k->stage = find_access(s, s->made, &offset);
  for (uint32_t r = 0; r < 2 && k->stage; r++) {
    rows[r] = (row_t){.values = DT_ARENA_ARRAY(&s->m->arena, dt_lanes_t, s->rows->n_rows + 1)};
    if (!rows[r].values) {
      dt__emit_fail(s->m, DT_NO_MEMORY());
      return false;
    }
    dt_lanes_t made = {.varying = true};
    memcpy(made.v, s->values[r], s->vectors * sizeof(*made.v));
    memset(&k->kept, 0, sizeof(k->kept));
    dt__resident_put(k, s->made, offset, &made);
    memcpy(&rows[r].kept, &k->kept, sizeof(k->kept));
  }
  return k->stage && !s->m->failure;
}

static void make_rows(scores_t *s) {
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  row_t rows[2];
  dt_schedule_t own = *s->schedules[1];
  own.lanes = LANES;
  own.unroll = s->vectors;
  own.team = QUAD * s->warps_n;
  own.resident = true;
  if (!take(s, s->rows, &own) || !begin_rows(s, rows))
    return;
  LLVMValueRef rank = add(s, times(s, s->warp_col, QUAD), s->quad_lane);
  k->lanes = LANES;
  k->aligned = s->whole;
  k->team = own.team;
  k->joined = QUAD;
  k->rank = wide(s, rank);
  k->item_level = k->stage_level = ROUND;
  k->axis = k->resident = true;
  k->ragged = !s->whole;
  k->full = s->full;
  k->held = s->weights;
  s->folded = 0;
  for (uint32_t i = 0; i < s->rows->stages.len && !m->failure; i++) {
    for (uint32_t r = 0; r < 2; r++) {
      enter_row(s, &rows[r], r);
      dt__stage_emit(k, i);
      leave_row(s, &rows[r]);
    }
    join_warps(s, &s->rows->stages.items[i], rows);
  }
  take_fragments(s, rows);
  k->held = (dt_buffer_id_t){0};
  k->joined = 0;
  k->ragged = k->full = k->resident = k->axis = false;
}

// ---- The second product's rows --------------------------------------------------------------------
static void hand_sums(scores_t *s) {
  dt_emit_t *m = s->m;
  LLVMValueRef row = add(s, times(s, s->warp_row, BLOCK), down(s, s->lane, 2));
  row = add(s, row, times(s, s->warp_col, s->warps_m * BLOCK));
  LLVMValueRef at = add(s, times(s, row, s->sums_pitch), times(s, s->quad_lane, 2 * WORD));
  for (uint32_t j = 0; j < fragments_in(s->cols) * 2; j++)
    for (uint32_t r = 0; r < 2; r++) {
      LLVMValueRef pair = LLVMGetPoison(LLVMVectorType(m->t_f32, 2));
      for (uint32_t i = 0; i < 2; i++)
        pair = LLVMBuildInsertElement(m->b, pair, s->sums[j * 4 + r * 2 + i], i32(s, i), "");
      uint32_t plus = s->sums_at + r * (BLOCK / 2) * s->sums_pitch + j * 8 * WORD;
      dt__emit_store_at(m, DT_F32, pair, shared_at(s, at, plus), 2 * WORD);
    }
  dt__cuda_block_sync(m);
}

// Four neighbours of a row, of all warps.
static void finish_group(scores_t *s, LLVMValueRef number) {
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  uint32_t fours = s->cols / LANES;
  LLVMValueRef row = LLVMBuildUDiv(m->b, number, i32(s, fours), "");
  LLVMValueRef four = LLVMBuildURem(m->b, number, i32(s, fours), ""), all = NULL;
  LLVMValueRef from = add(s, times(s, row, s->sums_pitch), times(s, four, LANES * WORD));
  for (uint32_t w = 0; w < s->warps_n; w++) {
    LLVMValueRef at = shared_at(s, from, s->sums_at + w * s->warps_m * BLOCK * s->sums_pitch);
    LLVMValueRef part = dt__emit_load_at(m, DT_F32, LANES, at, LANES * WORD, false);
    all = all ? LLVMBuildFAdd(m->b, all, part, "") : part;
  }
  for (uint32_t i = 0; i < LANES; i++)
    s->group[i] = LLVMBuildExtractElement(m->b, all, i32(s, i), "");
  LLVMValueRef at = LLVMBuildNSWAdd(m->b, s->t->first_row, wide(s, add(s, row, s->above)), "");
  LLVMValueRef last = LLVMBuildNSWSub(m->b, s->extent_m, dt__emit_i64(m, 1), "");
  k->live = below(s, at, s->extent_m);
  dt__bind_symbol(k, s->head_plan.a.var, ROUND, lesser(s, at, last));
  follow(s, wide(s, times(s, four, LANES)), LANES);
  k->live = NULL;
}

static void finish(scores_t *s) {
  dt_body_t *k = s->k;
  uint32_t groups = s->warps_m * BLOCK * s->cols / LANES, threads = s->head_plan.threads;
  if (!take(s, s->head, s->schedules[2]))
    return;
  begin_stage(s);
  for (uint32_t i = 0; i < groups && !s->m->failure; i += threads) {
    dt__body_at(k, STEP);
    LLVMValueRef number = add(s, s->tid, i32(s, i));
    bool some = i + threads > groups;
    dt__scope_open(k, ROUND, some ? below(s, number, i32(s, groups)) : NULL);
    finish_group(s, number);
    dt__scope_close(k, ROUND);
  }
}

// ---- Versions -------------------------------------------------------------------------------------
static void emit_step(scores_t *s) {
  dt_emit_t *m = s->m;
  place_thread(s);
  place_rows(s);
  multiply_scores(s);
  make_scores(s);
  dt__body_at(s->k, STEP);
  make_rows(s);
  dt__body_at(s->k, STEP);
  dt__ptx_copies_wait(m, 0);
  dt__cuda_block_sync(m);
  place_thread(s);
  multiply_rows(s);
  hand_sums(s);
  finish(s);
  dt__body_at(s->k, STEP);
  dt__cuda_block_sync(m);
}

// One after another, up to the matrix' last row.
static void emit_steps(scores_t *s) {
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  uint32_t each = s->warps_m * BLOCK;
  if (s->steps == 1) {
    s->above = i32(s, 0);
    dt__level_enter(k, STEP);
    emit_step(s);
    dt__level_leave(k, STEP);
    return;
  }
  LLVMValueRef left = LLVMBuildNSWSub(m->b, s->extent_m, s->t->first_row, "");
  left = lesser(s, left, dt__emit_i64(m, (int64_t)s->steps * each));
  LLVMValueRef above = dt__loop_open(k, STEP, dt__emit_i64(m, 0), left, each);
  dt__ptx_no_unroll(m);
  s->above = LLVMBuildTrunc(m->b, above, m->t_i32, "");
  emit_step(s);
  dt__loop_close(k, STEP);
}

static void emit_version(scores_t *s, LLVMValueRef wanted) {
  dt_body_t *k = s->k;
  dt__scope_open(k, PART, wanted);
  k->base_level = PART;
  dt__chain_wait(s->t);
  place_thread(s);
  copy_all(s);
  dt__body_at(k, PART);
  dt__ptx_copies_wait(s->m, 1);
  dt__cuda_block_sync(s->m);
  emit_steps(s);
  dt__scope_close(k, PART);
  k->base_level = ITEM;
}

// What every version needs beside `all`, at level 0; NULL: never.
static LLVMValueRef fits(scores_t *s, LLVMValueRef all) {
  dt_body_t *k = s->k;
  LLVMValueRef own = NULL;
  if (!take(s, s->score, s->schedules[0]))
    return NULL;
  begin_stage(s);
  own = dt__cuda_matmul_aligned(k);
  s->extent_m = dt__index_scalar(k, s->score_plan.a.extent);
  s->extent_n = dt__index_scalar(k, s->score_plan.b.extent);
  dt__body_at(k, 0);
  if (!own || !take(s, s->head, s->schedules[2]))
    return NULL;
  all = both(s, all, own);
  begin_stage(s);
  own = dt__cuda_matmul_aligned(k);
  LLVMValueRef groups = dt__lanes_aligned(k, LANES);
  dt__body_at(k, 0);
  return own && groups ? both(s, all, both(s, own, groups)) : NULL;
}

// Where vectors are all in the row or none, at level 0; NULL: never.
static LLVMValueRef are_whole(scores_t *s) {
  dt_body_t *k = s->k;
  dt_schedule_t own = *s->schedules[1];
  own.lanes = LANES;
  if (!take(s, s->score, s->schedules[0]))
    return NULL;
  begin_stage(s);
  LLVMValueRef scores = dt__lanes_aligned(k, LANES);
  if (!scores || !take(s, s->rows, &own))
    return NULL;
  begin_stage(s);
  LLVMValueRef rows = dt__lanes_aligned(k, LANES);
  dt__body_at(k, 0);
  return rows ? both(s, scores, rows) : NULL;
}

// Rows are no longer than this version's, and there is memory, at level 0.
static LLVMValueRef is_short(scores_t *s, LLVMValueRef have) {
  dt_emit_t *m = s->m;
  LLVMValueRef most = dt__emit_i64(m, columns_of(s));
  LLVMValueRef some = below(s, dt__emit_i64(m, 0), s->extent_n);
  LLVMValueRef fit = LLVMBuildICmp(m->b, LLVMIntSLE, s->extent_n, most, "");
  LLVMValueRef room = LLVMBuildICmp(m->b, LLVMIntSLE, dt__emit_i64(m, s->bytes), have, "");
  return both(s, both(s, some, fit), room);
}

// Versions for so long rows, where `wanted`: for whole vectors, and for any.
static void emit_both(scores_t *s, LLVMValueRef wanted, LLVMValueRef whole) {
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  if (whole) {
    dt__body_at(k, ITEM);
    LLVMValueRef some = both(s, wanted, whole);
    s->whole = true;
    if (s->warps_m == MOST_ROWS) { // most of the work of rows that fill them
      LLVMValueRef most = dt__emit_i64(m, columns_of(s));
      LLVMValueRef full = LLVMBuildICmp(m->b, LLVMIntEQ, s->extent_n, most, "");
      s->full = true;
      emit_version(s, both(s, some, full));
      dt__body_at(k, ITEM);
      s->full = false;
      some = both(s, some, LLVMBuildNot(m->b, full, ""));
    }
    emit_version(s, some);
  }
  if (!s->open)
    return;
  dt__body_at(k, ITEM);
  s->whole = false;
  emit_version(s, whole ? both(s, wanted, LLVMBuildNot(m->b, whole, "")) : wanted);
}

static bool open_scores(scores_t *s, dt_body_t *k, const dt_cuda_chain_t *chain) {
  dt_emit_t *m = k->m;
  if (!take_form(s, &m->program, chain->kernels, chain->schedule, m->strict_fp))
    return false;
  s->k = k;
  s->m = m;
  s->shared = dt__cuda_shared_base(m);
  return true;
}

static LLVMValueRef memory_of(scores_t *s, const dt_cuda_chain_t *chain) {
  dt_sym_t scratch = dt__chain_scratch(s->m, chain->kernels.end - 1, chain->schedule, NULL);
  LLVMValueRef bytes = dt__index_scalar(s->k, scratch);
  dt__body_at(s->k, 0);
  return LLVMBuildAdd(s->m->b, bytes, dt__emit_i64(s->m, chain->shared_bytes), "");
}

LLVMValueRef dt__cuda_chain_scores(dt_body_t *k, const dt_cuda_chain_t *chain) {
  scores_t s;
  LLVMValueRef any = NULL;
  const dt_kernel_t *kernel = k->kernel;
  const dt_schedule_t *schedule = k->schedule;
  if (!open_scores(&s, k, chain))
    return NULL;
  LLVMValueRef wanted = fits(&s, chain->in_shared);
  LLVMValueRef whole = wanted ? are_whole(&s) : NULL;
  if (wanted && (whole || s.open)) {
    LLVMValueRef have = memory_of(&s, chain);
    for (uint32_t v = usual_vectors(&s); v <= most_vectors(&s); v *= 2) {
      lay_out(&s, v);
      LLVMValueRef own = is_short(&s, have);
      any = any ? LLVMBuildOr(k->m->b, any, own, "") : own;
    }
    any = both(&s, wanted, s.open ? any : both(&s, any, whole));
  }
  (void)take(&s, kernel, schedule);
  return any;
}

void dt__chain_scores(dt_chain_item_t *t) {
  scores_t s;
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  if (!open_scores(&s, k, t->chain) || !fits(&s, t->chain->in_shared))
    return;
  s.t = t;
  LLVMValueRef whole = are_whole(&s), have = memory_of(&s, t->chain), wanted = NULL;
  dt__body_at(k, ITEM);
  // What registers hold is not made again for other columns: the first group makes them all.
  wanted = LLVMBuildICmp(m->b, LLVMIntEQ, t->group, dt__emit_i64(m, 0), "");
  for (uint32_t v = usual_vectors(&s); v <= most_vectors(&s); v *= 2) {
    lay_out(&s, v);
    LLVMValueRef own = NULL;
    if (v < most_vectors(&s)) { // else it is all there is
      dt__body_at(k, 0);
      own = is_short(&s, have);
      dt__body_at(k, ITEM);
    }
    emit_both(&s, own ? both(&s, wanted, own) : wanted, whole);
    dt__body_at(k, ITEM);
    if (own)
      wanted = both(&s, wanted, LLVMBuildNot(m->b, own, ""));
  }
}
