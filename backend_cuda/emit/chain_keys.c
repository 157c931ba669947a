// SPDX-License-Identifier: Apache-2.0
// Attention with scores for a block of keys at a time (fuse/attention.h), after FlashAttention-2
// (Dao, 2023): a warp has 16 rows of queries, all in registers but for what comes from shared
// memory:
//
//   m = -inf, l = 0, C = 0, by row
//   for each block of 64 keys:
//     x = stages of (Q · Kᵀ), as chain_scores.c has them in registers
//     n = max(m, max of x);  a = 2^((m - n) log2 e);  p = 2^((x - n) log2 e)
//     l = l a + sum of p;  C = C a + p · V;  m = n
//   C / l, and the stages after the second product
//
// Keys and values of the next block are on their way meanwhile, by units of 16 bytes where operands
// are aligned, else by elements. A row whose maximum is -inf so far has p = 0, and is NaN where it
// stays so, as a softmax of such a row is. p is rounded before it is multiplied, as weights are.
#include "backend_cuda/emit/chain_scores.h"
#include "backend_cuda/emit/ptx.h"
#include "backend_llvm/emit/aligned.h"
#include "backend_llvm/emit/index.h"
#include "backend_llvm/emit/loops.h"
#include "fuse/attention.h"

#include "runtime/base/status.h"

#define LOG2_E 1.4426950408889634

typedef struct keys_t {
  dt_scores_t s;
  dt_attention_t a;
  bool aligned;                              // this version copies units
  uint32_t k_stage, v_stage;                 // bytes of a block
  LLVMValueRef slots[DT_ATTENTION_MOST / 2]; // C
  LLVMValueRef max[2], sum[2];               // slots, by row of this thread
} keys_t;

// ---- Form -----------------------------------------------------------------------------------------
static void lay_out(keys_t *q) {
  dt_scores_t *s = &q->s;
  s->row_pitch = dt__attention_pitch(s->depth);
  s->col_pitch = dt__attention_pitch(s->cols);
  s->sums_pitch = dt__attention_sums_pitch(s->cols);
  q->k_stage = DT_ATTENTION_KEYS * s->row_pitch;
  q->v_stage = DT_ATTENTION_KEYS * s->col_pitch;
  s->k_at = DT_ATTENTION_ROWS * s->row_pitch;
  s->v_at = s->k_at + DT_ATTENTION_STAGES * q->k_stage;
  s->sums_at = 0; // in the place of all of them
  s->bytes = dt__attention_bytes(s->depth, s->cols);
}

static dt_status_t open_keys(dt_program_t *program, const dt_cuda_chain_t *chain, bool strict,
                             keys_t *out) {
  *out = (keys_t){.s = {.vectors = MOST_VECTORS}};
  dt_scores_t *s = &out->s;
  if (strict || !dt__chain_attention(program, chain->kernels, &out->a))
    return DT_FAIL(DT_E_INTERNAL, "chain: kernels from %u on are no attention",
                   chain->kernels.first);
  s->score = out->a.score;
  s->rows = out->a.rows;
  s->head = out->a.head;
  s->made = out->a.scores;
  s->weights = out->a.weights;
  s->depth = out->a.depth;
  s->cols = out->a.cols;
  const dt_kernel_t *kernels[MEMBERS] = {s->score, s->rows, s->head};
  for (uint32_t i = 0; i < MEMBERS; i++)
    s->schedules[i] = &kernels[i]->schedules.items[chain->schedule];
  DT_TRY(dt__matmul_plan(program, s->score, s->schedules[0], strict, &s->score_plan));
  DT_TRY(dt__matmul_plan(program, s->head, s->schedules[2], strict, &s->head_plan));
  const dt_team_matmul_t *tile = &s->schedules[2]->team_matmul;
  s->warps_m = tile->tile_rows / BLOCK;
  s->warps_n = s->steps = 1;
  if (tile->tile_rows != DT_ATTENTION_ROWS || s->warps_m != DT_CHAIN_WARPS ||
      tile->keys != DT_ATTENTION_KEYS || DT_ATTENTION_KEYS != MOST_VECTORS * BLOCK)
    return DT_FAIL(DT_E_INTERNAL, "chain: tiles of %u rows and %u keys", tile->tile_rows,
                   tile->keys);
  lay_out(out);
  return NULL;
}

dt_status_t dt__chain_keys_plan(dt_program_t *program, bool strict, dt_cuda_chain_t *chain) {
  keys_t q;
  DT_TRY(open_keys(program, chain, strict, &q));
  chain->shared_bytes = (q.s.bytes + 63) & ~63U;
  chain->blocks = q.s.cols > DT_ATTENTION_MOST / 2 || q.s.depth > DT_ATTENTION_MOST / 2 ? 1 : 2;
  return NULL;
}

// ---- Copies ---------------------------------------------------------------------------------------
// Rows of an operand on their way to shared memory, from row `first` (i64) of it on; `to` (i32) is
// where the first one stands.
typedef struct rows_t {
  const dt_operand_t *o;
  dt_sym_t outer, inner, extent;
  LLVMValueRef first, to;
  uint32_t rows, pitch, elements;
  bool ordered;
} rows_t;

// One unit, element by element: those that are there, else zeros.
static LLVMValueRef read_unit(keys_t *q, LLVMValueRef from, LLVMValueRef inside) {
  dt_emit_t *m = q->s.m;
  LLVMTypeRef half = dt__emit_type(m, q->s.score_plan.a.dtype);
  LLVMValueRef unit = LLVMConstNull(LLVMVectorType(half, UNIT));
  LLVMValueRef safe = LLVMBuildSelect(m->b, inside, from, q->s.k->dead, "");
  for (uint32_t e = 0; e < UNIT; e++) {
    // Where there is nothing the first element of what is there is read again.
    LLVMValueRef step =
        LLVMBuildSelect(m->b, inside, dt__emit_i64(m, e * HALF), dt__emit_i64(m, 0), "");
    LLVMValueRef one =
        dt__emit_load(m, q->s.score_plan.a.dtype, 0, dt__emit_offset(m, safe, step), NULL, NULL);
    unit = LLVMBuildInsertElement(m->b, unit, one, i32(m, e), "");
  }
  return LLVMBuildSelect(m->b, inside, unit, LLVMConstNull(LLVMTypeOf(unit)), "");
}

// Inside of `level` - 1; kernel and stage are at hand.
static void copy_rows(keys_t *q, uint32_t level, const rows_t *p) {
  dt_scores_t *s = &q->s;
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  const dt_inst_t *load = &k->stage->insts.items[p->o->load];
  uint32_t units = dt__scores_units(p->elements), each = s->score_plan.threads / units;
  LLVMValueRef stride = dt__chain_stride(k, load, p->outer);
  LLVMValueRef extent = dt__index_scalar(k, p->extent);
  dt__body_at(k, level - 1);
  LLVMValueRef tid = dt__ptx_thread(m);
  LLVMValueRef row = LLVMBuildUDiv(m->b, tid, i32(m, units), "");
  LLVMValueRef inner = times(m, LLVMBuildURem(m->b, tid, i32(m, units), ""), UNIT);
  bool few = p->rows < each;
  dt__scope_open(k, level, few ? below(m, row, i32(m, p->rows)) : NULL);
  LLVMValueRef at = LLVMBuildNSWAdd(m->b, p->first, wide(m, row), "");
  dt__bind_symbol(k, p->outer, level, at);
  dt__bind_symbol(k, p->inner, level, wide(m, inner));
  dt_sym_t offset = dt__access_offset(k, load->buffer, load->index);
  LLVMValueRef from = dt__access_address(k, load->buffer, offset, level).at[0];
  dt__body_at(k, level);
  LLVMValueRef to = times(m, p->ordered ? dt__scores_place(m, row) : row, p->pitch);
  to = add(m, add(m, to, times(m, inner, HALF)), p->to);
  LLVMValueRef left = LLVMBuildNSWSub(m->b, extent, at, "");
  LLVMValueRef in_row = below(m, inner, i32(m, p->elements));
  for (uint32_t i = 0; i < (few ? 1 : p->rows / each); i++) {
    LLVMValueRef inside = both(m, below(m, dt__emit_i64(m, i * each), left), in_row);
    LLVMValueRef shift = LLVMBuildMul(m->b, stride, dt__emit_i64(m, i * each), "");
    LLVMValueRef here = dt__emit_offset(m, from, shift);
    LLVMValueRef there = shared_at(m, s->shared, to, i * each * p->pitch);
    if (q->aligned)
      dt__ptx_copy(m, there, here, LLVMBuildSelect(m->b, inside, i32(m, 16), i32(m, 0), ""));
    else
      dt__emit_store_at(m, s->score_plan.a.dtype, read_unit(q, here, inside), there, 16);
  }
  dt__scope_close(k, level);
}

static LLVMValueRef stage_of(keys_t *q, LLVMValueRef first, uint32_t bytes) {
  dt_emit_t *m = q->s.m;
  LLVMValueRef number = LLVMBuildUDiv(m->b, first, dt__emit_i64(m, q->s.vectors * BLOCK), "");
  return times(m, low_bits(m, narrow(m, number), DT_ATTENTION_STAGES - 1), bytes);
}

// Keys and values from number `first` on, as two groups; what is not there is zero.
static void copy_block(keys_t *q, uint32_t level, LLVMValueRef first) {
  dt_scores_t *s = &q->s;
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  const dt_operand_t *b = &s->score_plan.b, *v = &s->head_plan.b;
  if (!dt__scores_take(s, s->score, s->schedules[0]))
    return;
  dt__scores_begin_stage(s);
  dt__body_at(k, level - 1);
  LLVMValueRef to = add(m, stage_of(q, first, q->k_stage), i32(m, s->k_at));
  copy_rows(q, level,
            &(rows_t){b, b->var, k->stage->vars[0], b->extent, first, to, s->vectors * BLOCK,
                      s->row_pitch, s->depth, true});
  dt__ptx_copies_commit(m);
  if (!dt__scores_take(s, s->head, s->schedules[2]))
    return;
  dt__scores_begin_stage(s);
  dt__body_at(k, level - 1);
  to = add(m, stage_of(q, first, q->v_stage), i32(m, s->v_at));
  copy_rows(q, level,
            &(rows_t){v, k->stage->vars[0], v->var, k->stage->extents[0], first, to,
                      s->vectors * BLOCK, s->col_pitch, s->cols, true});
  dt__ptx_copies_commit(m);
}

static void copy_queries(keys_t *q) {
  dt_scores_t *s = &q->s;
  const dt_operand_t *a = &s->score_plan.a;
  if (!dt__scores_take(s, s->score, s->schedules[0]))
    return;
  dt__scores_begin_stage(s);
  dt__body_at(s->k, PART);
  copy_rows(q, STEP,
            &(rows_t){a, a->var, s->k->stage->vars[0], a->extent, s->t->first_row, i32(s->m, 0),
                      s->warps_m * BLOCK, s->row_pitch, s->depth, false});
}

// ---- One block of keys ----------------------------------------------------------------------------
static LLVMValueRef quad_join(keys_t *q, LLVMValueRef value, const char *join) {
  dt_emit_t *m = q->s.m;
  for (uint32_t distance = 1; distance < QUAD; distance *= 2) {
    LLVMValueRef other = m->device->exchange(q->s.k, value, distance);
    value =
        join ? dt__emit_intrinsic2(m, join, value, other) : LLVMBuildFAdd(m->b, value, other, "");
  }
  return value;
}

static LLVMValueRef power(keys_t *q, LLVMValueRef x, LLVMValueRef less) {
  dt_emit_t *m = q->s.m;
  LLVMValueRef log = LLVMConstReal(m->t_f32, LOG2_E);
  LLVMValueRef by = LLVMBuildFMul(m->b, LLVMBuildFSub(m->b, x, less, ""), log, "");
  return dt__ptx_power(m, by);
}

// The elements of row r, cast to f32; -inf past the end of rows.
static void widen(keys_t *q, uint32_t r, LLVMValueRef end, LLVMValueRef *out) {
  dt_scores_t *s = &q->s;
  dt_emit_t *m = s->m;
  dt_dtype_t dtype = dt__program_buffer(&m->program, s->made)->dtype;
  LLVMValueRef none = LLVMConstReal(m->t_f32, -__builtin_inf());
  for (uint32_t c = 0; c < s->vectors; c++) {
    LLVMValueRef vector = s->values[r][c];
    if (dtype != DT_F32)
      vector = dt__emit_cast(m, dtype, DT_F32, vector);
    else if (q->a.round != DT_F32)
      vector = dt__emit_cast(m, q->a.round, DT_F32, dt__emit_cast(m, DT_F32, q->a.round, vector));
    for (uint32_t i = 0; i < LANES; i++) {
      LLVMValueRef x = LLVMBuildExtractElement(m->b, vector, i32(m, i), "");
      if (!s->full) {
        LLVMValueRef col = add(m, dt__scores_column(s, c), i32(m, i));
        x = LLVMBuildSelect(m->b, below(m, col, end), x, none, "");
      }
      out[c * LANES + i] = x;
    }
  }
}

static void take_row(keys_t *q, uint32_t r, LLVMValueRef end, LLVMValueRef *out_factor) {
  dt_scores_t *s = &q->s;
  dt_emit_t *m = s->m;
  LLVMValueRef x[MOST_VECTORS * LANES], none = LLVMConstReal(m->t_f32, -__builtin_inf());
  uint32_t n = s->vectors * LANES;
  widen(q, r, end, x);
  LLVMValueRef most = x[0], all = NULL;
  for (uint32_t i = 1; i < n; i++)
    most = dt__emit_intrinsic2(m, "llvm.maximum", most, x[i]);
  most = quad_join(q, most, "llvm.maximum");
  LLVMValueRef before = LLVMBuildLoad2(m->b, m->t_f32, q->max[r], "");
  most = dt__emit_intrinsic2(m, "llvm.maximum", before, most);
  LLVMValueRef empty = LLVMBuildFCmp(m->b, LLVMRealOEQ, most, none, "");
  LLVMValueRef less = LLVMBuildSelect(m->b, empty, LLVMConstNull(m->t_f32), most, "");
  LLVMValueRef factor = power(q, before, less);
  LLVMTypeRef lanes = LLVMVectorType(m->t_f32, LANES);
  for (uint32_t c = 0; c < s->vectors; c++) {
    LLVMValueRef p = LLVMGetPoison(lanes);
    for (uint32_t i = 0; i < LANES; i++) {
      LLVMValueRef one = power(q, x[c * LANES + i], less);
      p = LLVMBuildInsertElement(m->b, p, one, i32(m, i), "");
      all = all ? LLVMBuildFAdd(m->b, all, one, "") : one;
    }
    LLVMValueRef words = dt__emit_cast(m, DT_F32, s->head_plan.a.dtype, p);
    words = LLVMBuildBitCast(m->b, words, LLVMVectorType(m->t_i32, 2), "");
    for (uint32_t i = 0; i < 2; i++)
      s->fragments[c][i * 2 + r] = LLVMBuildExtractElement(m->b, words, i32(m, i), "");
  }
  LLVMValueRef sum = LLVMBuildLoad2(m->b, m->t_f32, q->sum[r], "");
  sum = LLVMBuildFAdd(m->b, LLVMBuildFMul(m->b, sum, factor, ""), all, "");
  LLVMBuildStore(m->b, sum, q->sum[r]);
  LLVMBuildStore(m->b, most, q->max[r]);
  *out_factor = factor;
}

static uint32_t count_of(const keys_t *q) { return fragments_in(q->s.cols) * 8; }

// C times the rows' factors, for the product to add to.
static void rescale(keys_t *q, const LLVMValueRef factors[2]) {
  dt_emit_t *m = q->s.m;
  for (uint32_t i = 0; i < count_of(q); i++) {
    LLVMValueRef own = LLVMBuildLoad2(m->b, m->t_f32, q->slots[i], "");
    q->s.sums[i] = LLVMBuildFMul(m->b, own, factors[i / 2 % 2], "");
  }
}

// Keys from number `first` on, at STEP; `full`: there are as many as a block has.
static void emit_block(keys_t *q, LLVMValueRef first, bool full) {
  dt_scores_t *s = &q->s;
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  s->full = full;
  s->first_col = first;
  dt__ptx_copies_wait(m, 1);
  dt__cuda_block_sync(m);
  LLVMValueRef next = LLVMBuildNSWAdd(m->b, first, dt__emit_i64(m, s->vectors * BLOCK), "");
  copy_block(q, ROUND, next);
  dt__body_at(k, STEP);
  dt__scores_place_thread(s);
  dt__scores_place_rows(s);
  s->k_stage = stage_of(q, first, q->k_stage);
  dt__scores_multiply(s);
  dt__scores_make(s);
  dt__body_at(k, STEP);
  dt__scores_place_thread(s);
  LLVMValueRef end = narrow(m, LLVMBuildNSWSub(m->b, s->extent_n, first, "")), factors[2];
  for (uint32_t r = 0; r < 2 && !m->failure; r++)
    take_row(q, r, end, &factors[r]);
  if (m->failure)
    return;
  dt__ptx_copies_wait(m, 2);
  dt__cuda_block_sync(m);
  rescale(q, factors);
  s->v_stage = stage_of(q, first, q->v_stage);
  dt__scores_add_rows(s);
  for (uint32_t i = 0; i < count_of(q); i++)
    LLVMBuildStore(m->b, s->sums[i], q->slots[i]);
}

// ---- Items ----------------------------------------------------------------------------------------
static void begin_sums(keys_t *q) {
  dt_body_t *k = q->s.k;
  dt_emit_t *m = q->s.m;
  for (uint32_t i = 0; i < count_of(q); i++) {
    q->slots[i] = dt__body_slot(k, m->t_f32, 1);
    LLVMBuildStore(m->b, LLVMConstNull(m->t_f32), q->slots[i]);
  }
  for (uint32_t r = 0; r < 2; r++) {
    q->max[r] = dt__body_slot(k, m->t_f32, 1);
    q->sum[r] = dt__body_slot(k, m->t_f32, 1);
    LLVMBuildStore(m->b, LLVMConstReal(m->t_f32, -__builtin_inf()), q->max[r]);
    LLVMBuildStore(m->b, LLVMConstNull(m->t_f32), q->sum[r]);
  }
}

static void end_sums(keys_t *q) {
  dt_scores_t *s = &q->s;
  dt_emit_t *m = s->m;
  LLVMValueRef factors[2];
  for (uint32_t r = 0; r < 2; r++) {
    LLVMValueRef sum = quad_join(q, LLVMBuildLoad2(m->b, m->t_f32, q->sum[r], ""), NULL);
    factors[r] = LLVMBuildFDiv(m->b, LLVMConstReal(m->t_f32, 1), sum, "");
  }
  rescale(q, factors);
}

static void emit_version(keys_t *q, LLVMValueRef wanted) {
  dt_scores_t *s = &q->s;
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  dt__scope_open(k, PART, wanted);
  k->base_level = PART;
  dt__chain_wait(s->t);
  dt__scores_place_thread(s);
  s->above = i32(m, 0);
  copy_queries(q);
  dt__body_at(k, PART);
  copy_block(q, STEP, dt__emit_i64(m, 0));
  dt__body_at(k, PART);
  begin_sums(q);
  int64_t keys = (int64_t)s->vectors * BLOCK;
  LLVMValueRef rest = LLVMBuildURem(m->b, s->extent_n, dt__emit_i64(m, keys), "");
  LLVMValueRef whole = LLVMBuildNSWSub(m->b, s->extent_n, rest, "");
  LLVMValueRef first = dt__loop_open(k, STEP, dt__emit_i64(m, 0), whole, (uint32_t)keys);
  dt__ptx_no_unroll(m);
  emit_block(q, first, true);
  dt__body_at(k, STEP);
  dt__loop_close(k, STEP);
  dt__body_at(k, PART);
  dt__scope_open(k, STEP, below(m, whole, s->extent_n));
  emit_block(q, whole, false);
  dt__scope_close(k, STEP);
  dt__body_at(k, PART);
  dt__ptx_copies_wait(m, 0);
  dt__cuda_block_sync(m);
  dt__level_enter(k, STEP);
  dt__scores_place_thread(s);
  end_sums(q);
  dt__scores_finish(s);
  dt__body_at(k, STEP);
  dt__cuda_block_sync(m); // the next item's copies go to where these sums are
  dt__level_leave(k, STEP);
  dt__body_at(k, PART);
  dt__scope_close(k, PART);
  k->base_level = ITEM;
  s->first_col = NULL;
}

// Where copies go by units and what follows the products by vectors, at level 0; NULL: never.
static LLVMValueRef is_aligned(keys_t *q) {
  dt_scores_t *s = &q->s;
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  const dt_kernel_t *kernels[2] = {s->score, s->head};
  const dt_schedule_t *schedules[2] = {s->schedules[0], s->schedules[2]};
  LLVMValueRef all = NULL;
  for (uint32_t i = 0; i < 2; i++) {
    if (!dt__scores_take(s, kernels[i], schedules[i]))
      return NULL;
    dt__scores_begin_stage(s);
    LLVMValueRef units = dt__cuda_matmul_aligned(k), vectors = dt__lanes_aligned(k, LANES);
    if (i == 0) {
      s->extent_m = dt__index_scalar(k, s->score_plan.a.extent);
      s->extent_n = dt__index_scalar(k, s->score_plan.b.extent);
    }
    dt__body_at(k, 0);
    if (!units || !vectors)
      return NULL;
    units = both(m, units, vectors);
    all = all ? both(m, all, units) : units;
  }
  return all;
}

void dt__chain_keys(dt_chain_item_t *t) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  keys_t q;
  dt_status_t status = open_keys(&m->program, t->chain, m->target->strict_fp, &q);
  if (status) {
    dt__emit_fail(m, status);
    return;
  }
  q.s.t = t;
  q.s.k = k;
  q.s.m = m;
  q.s.shared = dt__cuda_shared_base(m);
  LLVMValueRef aligned = is_aligned(&q);
  if (m->failure)
    return;
  dt__body_at(k, ITEM);
  if (aligned) {
    q.aligned = q.s.whole = true;
    emit_version(&q, aligned);
    dt__body_at(k, ITEM);
    aligned = LLVMBuildNot(m->b, aligned, "");
  }
  q.aligned = q.s.whole = false;
  emit_version(&q, aligned);
}
