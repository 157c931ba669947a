// SPDX-License-Identifier: Apache-2.0
// Attention of few rows of queries (fuse/attention.h), as where one token after another is made:
// 16 rows are a tile, whatever there is of them, and its keys are shared out. Of every 128 keys the
// warps of a block have 16 each, and the blocks of a cluster take such 128 in turn:
//
//   each warp:     m = -inf, l = 0, C = 0, by row; its keys and values come by a ring of its own
//                  for each 16 keys: as in chain_keys.c
//   each block:    M = max of m;  L = sum of l 2^((m - M) log2 e);  C of all warps, so scaled
//   each cluster:  the same of its blocks, by the first one, which has C / L and what follows
//
// A warp waits for its own copies, and before the end for nothing else: as many bytes are on their
// way as rings have room for. Sums are made in the order of warps and blocks. Rows that are not
// there are zeros; where the tile's upper half never is, nothing is made for it between the
// products. Maxima of -inf, NaN, infinities and roundings are as chain_keys.c says. No keys make
// zeros: a sum of nothing.
#include "backend_cuda/emit/chain_scores.h"
#include "backend_cuda/emit/ptx.h"
#include "backend_llvm/emit/aligned.h"
#include "backend_llvm/emit/index.h"
#include "backend_llvm/emit/loops.h"
#include "fuse/attention.h"

#include "runtime/base/status.h"

#define LOG2_E 1.4426950408889634
#define WARPS DT_ATTENTION_WARPS
#define TALL DT_ATTENTION_FEW
#define PAIR (2 * WORD) // a row's maximum and sum
#define MOST_BLOCKS 8   // of a cluster

typedef struct shares_t {
  dt_scores_t s;
  dt_attention_t a;
  bool aligned;       // this version copies units
  uint32_t rows;      // of a thread: 1 where the upper half of the tile is never there, else 2
  uint32_t ring;      // blocks of keys,
  uint32_t stage;     // and bytes of one
  uint32_t blocks;    // of the cluster
  uint32_t joined_at; // bytes: where pairs of the block's rows are
  LLVMValueRef slots[DT_ATTENTION_MOST / 2]; // C
  LLVMValueRef max[2], sum[2];               // slots, by row of this thread
  LLVMValueRef ring_at; // slot, i32: byte of the ring where the keys to be taken are
} shares_t;

// ---- Form -----------------------------------------------------------------------------------------
static void lay_out(shares_t *q) {
  dt_scores_t *s = &q->s;
  s->row_pitch = dt__attention_pitch(s->depth);
  s->col_pitch = dt__attention_pitch(s->cols);
  s->sums_pitch = dt__attention_sums_pitch(s->cols);
  q->stage = dt__attention_share_bytes(s->depth, s->cols);
  s->k_at = TALL * s->row_pitch;
  s->v_at = s->k_at + DT_MATMUL_SHARE_KEYS * s->row_pitch;
  s->sums_at = 0; // in the place of all of them
  s->parts_at = WARPS * TALL * s->sums_pitch;
  q->joined_at = s->parts_at + WARPS * TALL * PAIR;
  s->bytes = dt__attention_shares_bytes(s->depth, s->cols, q->ring);
}

static bool has_low_rows(const dt_program_t *program, const shares_t *q) {
  int64_t n = 0;
  return dt__sym_is_const(program->env, q->s.score_plan.a.extent, &n) && n <= TALL / 2;
}

static dt_status_t open_shares(dt_program_t *program, const dt_cuda_chain_t *chain, bool strict,
                               shares_t *out) {
  *out = (shares_t){.s = {.vectors = 1, .warps_m = 1, .warps_n = WARPS, .steps = 1}};
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
  out->ring = tile->ring;
  out->blocks = dt__matmul_cluster(tile);
  if (tile->tile_rows != TALL || WARPS != DT_CHAIN_WARPS || out->blocks > MOST_BLOCKS)
    return DT_FAIL(DT_E_INTERNAL, "chain: tiles of %u rows in clusters of %u", tile->tile_rows,
                   out->blocks);
  s->low_rows = has_low_rows(program, out);
  out->rows = s->low_rows ? 1 : 2;
  lay_out(out);
  return NULL;
}

dt_status_t dt__chain_shares_plan(dt_program_t *program, bool strict, dt_cuda_chain_t *chain) {
  shares_t q;
  DT_TRY(open_shares(program, chain, strict, &q));
  chain->shared_bytes = (q.s.bytes + 63) & ~63U;
  chain->blocks = q.s.cols > DT_ATTENTION_MOST / 2 || q.s.depth > DT_ATTENTION_MOST / 2 ? 1 : 2;
  return NULL;
}

// ---- Copies ---------------------------------------------------------------------------------------
// 16 rows of an operand on their way to shared memory by one warp, from row `first` (i64) of it on;
// `to` (i32) is where the first one stands.
typedef struct rows_t {
  const dt_operand_t *o;
  dt_sym_t outer, inner, extent;
  LLVMValueRef first, to;
  uint32_t pitch, elements;
  bool ordered;
} rows_t;

// dt__scores_place of a number known here.
static uint32_t place_of(uint32_t row) {
  return (row >> 1 & 1) * 8 + (row >> 2 & 3) * 2 + (row & 1);
}

// One unit, element by element: those that are there, else zeros.
static LLVMValueRef read_unit(shares_t *q, LLVMValueRef from, LLVMValueRef inside) {
  dt_emit_t *m = q->s.m;
  dt_dtype_t dtype = q->s.score_plan.a.dtype;
  LLVMValueRef unit = LLVMConstNull(LLVMVectorType(dt__emit_type(m, dtype), UNIT));
  LLVMValueRef safe = LLVMBuildSelect(m->b, inside, from, q->s.k->dead, "");
  for (uint32_t e = 0; e < UNIT; e++) {
    // Where there is nothing the first element of what is there is read again.
    LLVMValueRef step =
        LLVMBuildSelect(m->b, inside, dt__emit_i64(m, e * HALF), dt__emit_i64(m, 0), "");
    LLVMValueRef one = dt__emit_load(m, dtype, 0, dt__emit_offset(m, safe, step), NULL, NULL);
    unit = LLVMBuildInsertElement(m->b, unit, one, i32(m, e), "");
  }
  return LLVMBuildSelect(m->b, inside, unit, LLVMConstNull(LLVMTypeOf(unit)), "");
}

// Inside of `level` - 1, where `wanted`; kernel and stage are at hand.
static void copy_rows(shares_t *q, uint32_t level, LLVMValueRef wanted, const rows_t *p) {
  dt_scores_t *s = &q->s;
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  const dt_inst_t *load = &k->stage->insts.items[p->o->load];
  uint32_t units = dt__scores_units(p->elements), each = DT_WARP / units;
  LLVMValueRef stride = dt__chain_stride(k, load, p->outer);
  LLVMValueRef extent = dt__index_scalar(k, p->extent);
  dt__body_at(k, level - 1);
  dt__scope_open(k, level, wanted);
  LLVMValueRef row = LLVMBuildUDiv(m->b, s->lane, i32(m, units), "");
  LLVMValueRef inner = times(m, LLVMBuildURem(m->b, s->lane, i32(m, units), ""), UNIT);
  LLVMValueRef at = LLVMBuildNSWAdd(m->b, p->first, wide(m, row), "");
  dt__bind_symbol(k, p->outer, level, at);
  dt__bind_symbol(k, p->inner, level, wide(m, inner));
  dt_sym_t offset = dt__access_offset(k, load->buffer, load->index);
  LLVMValueRef from = dt__access_address(k, load->buffer, offset, level).at[0];
  dt__body_at(k, level);
  LLVMValueRef to = times(m, p->ordered ? dt__scores_place(m, row) : row, p->pitch);
  to = add(m, add(m, to, times(m, inner, HALF)), p->to);
  LLVMValueRef left = LLVMBuildNSWSub(m->b, extent, at, "");
  left = narrow(m, lesser(m, left, dt__emit_i64(m, BLOCK)));
  LLVMValueRef in_row = below(m, inner, i32(m, p->elements));
  for (uint32_t i = 0; i < BLOCK; i += each) { // bits that `row` does not have
    LLVMValueRef inside = both(m, below(m, i32(m, i), left), in_row);
    LLVMValueRef here =
        dt__emit_offset(m, from, LLVMBuildMul(m->b, stride, dt__emit_i64(m, i), ""));
    LLVMValueRef there = shared_at(m, s->shared, to, (p->ordered ? place_of(i) : i) * p->pitch);
    if (q->aligned)
      dt__ptx_copy(m, there, here, LLVMBuildSelect(m->b, inside, i32(m, 16), i32(m, 0), ""));
    else
      dt__emit_store_at(m, s->score_plan.a.dtype, read_unit(q, here, inside), there, 16);
  }
  dt__scope_close(k, level);
}

// This warp's of the 128 keys and values from number `first` on, to byte `at` (i32) of the ring, as
// one group; what is not there is zero.
static void copy_keys(shares_t *q, uint32_t level, LLVMValueRef first, LLVMValueRef at) {
  dt_scores_t *s = &q->s;
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  const dt_operand_t *b = &s->score_plan.b, *v = &s->head_plan.b;
  if (!dt__scores_take(s, s->score, s->schedules[0]))
    return;
  dt__scores_begin_stage(s);
  dt__body_at(k, level - 1);
  dt__scores_place_thread(s);
  LLVMValueRef above = times(m, s->warp_col, BLOCK);
  first = LLVMBuildNSWAdd(m->b, first, wide(m, above), "");
  LLVMValueRef to = add(m, add(m, at, times(m, above, s->row_pitch)), i32(m, s->k_at));
  copy_rows(
      q, level, NULL,
      &(rows_t){b, b->var, k->stage->vars[0], b->extent, first, to, s->row_pitch, s->depth, true});
  if (!dt__scores_take(s, s->head, s->schedules[2]))
    return;
  dt__scores_begin_stage(s);
  dt__body_at(k, level - 1);
  to = add(m, add(m, at, times(m, above, s->col_pitch)), i32(m, s->v_at));
  copy_rows(q, level, NULL,
            &(rows_t){v, k->stage->vars[0], v->var, k->stage->extents[0], first, to, s->col_pitch,
                      s->cols, true});
  dt__ptx_copies_commit(m);
}

// By the first warp.
static void copy_queries(shares_t *q) {
  dt_scores_t *s = &q->s;
  dt_emit_t *m = s->m;
  const dt_operand_t *a = &s->score_plan.a;
  if (!dt__scores_take(s, s->score, s->schedules[0]))
    return;
  dt__scores_begin_stage(s);
  dt__body_at(s->k, PART);
  LLVMValueRef first = LLVMBuildICmp(m->b, LLVMIntEQ, s->warp_col, i32(m, 0), "");
  copy_rows(q, STEP, first,
            &(rows_t){a, a->var, s->k->stage->vars[0], a->extent, s->t->first_row, i32(m, 0),
                      s->row_pitch, s->depth, false});
  dt__ptx_copies_commit(m);
}

// Keys from one block of this team's to the next, and its first.
static uint32_t keys_apart(const shares_t *q) { return DT_MATMUL_SHARE_KEYS * q->blocks; }

static LLVMValueRef first_key(shares_t *q) {
  dt_emit_t *m = q->s.m;
  LLVMValueRef rank = q->s.t->rank;
  return rank ? wide(m, times(m, rank, DT_MATMUL_SHARE_KEYS)) : dt__emit_i64(m, 0);
}

// All of the ring but one block, which the loop begins with.
static void copy_first(shares_t *q) {
  dt_body_t *k = q->s.k;
  dt_emit_t *m = q->s.m;
  LLVMValueRef number = dt__loop_open(k, STEP, dt__emit_i64(m, 0), dt__emit_i64(m, q->ring - 1), 1);
  LLVMValueRef first = LLVMBuildMul(m->b, number, dt__emit_i64(m, keys_apart(q)), "");
  first = LLVMBuildNSWAdd(m->b, first, first_key(q), "");
  copy_keys(q, ROUND, first, times(m, narrow(m, number), q->stage));
  dt__body_at(k, STEP);
  dt__loop_close(k, STEP);
}

// ---- Rows -----------------------------------------------------------------------------------------
static LLVMValueRef quad_join(shares_t *q, LLVMValueRef value, const char *join) {
  dt_emit_t *m = q->s.m;
  for (uint32_t distance = 1; distance < QUAD; distance *= 2) {
    LLVMValueRef other = m->device->exchange(q->s.k, value, distance);
    value =
        join ? dt__emit_intrinsic2(m, join, value, other) : LLVMBuildFAdd(m->b, value, other, "");
  }
  return value;
}

static LLVMValueRef greater(dt_emit_t *m, LLVMValueRef a, LLVMValueRef b) {
  return dt__emit_intrinsic2(m, "llvm.maximum", a, b);
}

static LLVMValueRef power(dt_emit_t *m, LLVMValueRef x, LLVMValueRef less) {
  LLVMValueRef log = LLVMConstReal(m->t_f32, LOG2_E);
  return dt__ptx_power(m, LLVMBuildFMul(m->b, LLVMBuildFSub(m->b, x, less, ""), log, ""));
}

// What is taken from a row's elements whose maximum is this: nothing has an exponential of 0.
static LLVMValueRef base_of(dt_emit_t *m, LLVMValueRef most) {
  LLVMValueRef none = LLVMConstReal(m->t_f32, -__builtin_inf());
  LLVMValueRef empty = LLVMBuildFCmp(m->b, LLVMRealOEQ, most, none, "");
  return LLVMBuildSelect(m->b, empty, LLVMConstNull(m->t_f32), most, "");
}

// The four elements of row r, cast to f32; -inf past the end of rows.
static void widen(shares_t *q, uint32_t r, LLVMValueRef end, LLVMValueRef out[LANES]) {
  dt_scores_t *s = &q->s;
  dt_emit_t *m = s->m;
  dt_dtype_t dtype = dt__program_buffer(&m->program, s->made)->dtype;
  LLVMValueRef none = LLVMConstReal(m->t_f32, -__builtin_inf()), vector = s->values[r][0];
  if (dtype != DT_F32)
    vector = dt__emit_cast(m, dtype, DT_F32, vector);
  else if (q->a.round != DT_F32)
    vector = dt__emit_cast(m, q->a.round, DT_F32, dt__emit_cast(m, DT_F32, q->a.round, vector));
  for (uint32_t i = 0; i < LANES; i++) {
    out[i] = LLVMBuildExtractElement(m->b, vector, i32(m, i), "");
    LLVMValueRef col = add(m, dt__scores_column(s, 0), i32(m, i));
    if (!s->full)
      out[i] = LLVMBuildSelect(m->b, below(m, col, end), out[i], none, "");
  }
}

static void take_row(shares_t *q, uint32_t r, LLVMValueRef end, LLVMValueRef *out_factor) {
  dt_scores_t *s = &q->s;
  dt_emit_t *m = s->m;
  LLVMValueRef x[LANES], most, all = NULL, p = LLVMGetPoison(LLVMVectorType(m->t_f32, LANES));
  widen(q, r, end, x);
  most = greater(m, greater(m, x[0], x[1]), greater(m, x[2], x[3]));
  LLVMValueRef before = LLVMBuildLoad2(m->b, m->t_f32, q->max[r], "");
  most = greater(m, before, quad_join(q, most, "llvm.maximum"));
  LLVMValueRef less = base_of(m, most);
  *out_factor = power(m, before, less);
  for (uint32_t i = 0; i < LANES; i++) {
    LLVMValueRef one = power(m, x[i], less);
    p = LLVMBuildInsertElement(m->b, p, one, i32(m, i), "");
    all = all ? LLVMBuildFAdd(m->b, all, one, "") : one;
  }
  LLVMValueRef words = dt__emit_cast(m, DT_F32, s->head_plan.a.dtype, p);
  words = LLVMBuildBitCast(m->b, words, LLVMVectorType(m->t_i32, 2), "");
  for (uint32_t i = 0; i < 2; i++)
    s->fragments[0][i * 2 + r] = LLVMBuildExtractElement(m->b, words, i32(m, i), "");
  LLVMValueRef sum = LLVMBuildLoad2(m->b, m->t_f32, q->sum[r], "");
  sum = LLVMBuildFAdd(m->b, LLVMBuildFMul(m->b, sum, *out_factor, ""), all, "");
  LLVMBuildStore(m->b, sum, q->sum[r]);
  LLVMBuildStore(m->b, most, q->max[r]);
}

// ---- C --------------------------------------------------------------------------------------------
static uint32_t count_of(const shares_t *q) { return fragments_in(q->s.cols) * 8; }

// Of the thread's two rows, element i's.
static uint32_t row_of(uint32_t i) { return i / 2 % 2; }

static void begin_sums(shares_t *q) {
  dt_body_t *k = q->s.k;
  dt_emit_t *m = q->s.m;
  for (uint32_t i = 0; i < count_of(q); i++) {
    if (row_of(i) >= q->rows)
      continue;
    q->slots[i] = dt__body_slot(k, m->t_f32, 1);
    LLVMBuildStore(m->b, LLVMConstNull(m->t_f32), q->slots[i]);
  }
  for (uint32_t r = 0; r < q->rows; r++) {
    q->max[r] = dt__body_slot(k, m->t_f32, 1);
    q->sum[r] = dt__body_slot(k, m->t_f32, 1);
    LLVMBuildStore(m->b, LLVMConstReal(m->t_f32, -__builtin_inf()), q->max[r]);
    LLVMBuildStore(m->b, LLVMConstNull(m->t_f32), q->sum[r]);
  }
  q->ring_at = dt__body_slot(k, m->t_i32, 1);
  LLVMBuildStore(m->b, i32(m, 0), q->ring_at);
}

// s->sums: C times the rows' factors; zeros for rows that are never there.
static void rescale(shares_t *q, const LLVMValueRef factors[2]) {
  dt_emit_t *m = q->s.m;
  for (uint32_t i = 0; i < count_of(q); i++) {
    uint32_t r = row_of(i);
    q->s.sums[i] = LLVMConstNull(m->t_f32);
    if (r < q->rows)
      q->s.sums[i] =
          LLVMBuildFMul(m->b, LLVMBuildLoad2(m->b, m->t_f32, q->slots[i], ""), factors[r], "");
  }
}

// ---- One block of keys ----------------------------------------------------------------------------
// Byte of the ring one block before or after byte `at`.
static LLVMValueRef beside(shares_t *q, LLVMValueRef at, bool before) {
  dt_emit_t *m = q->s.m;
  uint32_t last = (q->ring - 1) * q->stage, edge = before ? 0 : last;
  LLVMValueRef step = add(m, at, i32(m, before ? 0U - q->stage : q->stage));
  LLVMValueRef turn = LLVMBuildICmp(m->b, LLVMIntEQ, at, i32(m, edge), "");
  return LLVMBuildSelect(m->b, turn, i32(m, last - edge), step, "");
}

// Keys from number `first` on, at STEP; `full`: there are as many as a block has, else it is the
// last.
static void emit_block(shares_t *q, LLVMValueRef first, bool full) {
  dt_scores_t *s = &q->s;
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  s->full = full;
  s->first_col = first;
  LLVMValueRef at = LLVMBuildLoad2(m->b, m->t_i32, q->ring_at, ""), factors[2] = {NULL};
  dt__ptx_copies_wait(m, q->ring - 2);
  dt__ptx_warp_sync(m);
  if (full) {
    LLVMValueRef ahead = dt__emit_i64(m, (int64_t)(q->ring - 1) * keys_apart(q));
    copy_keys(q, ROUND, LLVMBuildNSWAdd(m->b, first, ahead, ""), beside(q, at, true));
    dt__body_at(k, STEP);
    LLVMBuildStore(m->b, beside(q, at, false), q->ring_at);
  }
  dt__scores_place_thread(s);
  dt__scores_place_rows(s);
  s->k_stage = s->v_stage = at;
  dt__scores_multiply(s);
  dt__scores_make(s);
  dt__body_at(k, STEP);
  dt__scores_place_thread(s);
  LLVMValueRef end = narrow(m, LLVMBuildNSWSub(m->b, s->extent_n, first, ""));
  s->fragments[0][1] = s->fragments[0][3] = i32(m, 0);
  for (uint32_t r = 0; r < q->rows && !m->failure; r++)
    take_row(q, r, end, &factors[r]);
  if (m->failure)
    return;
  rescale(q, factors);
  dt__scores_add_rows(s);
  for (uint32_t i = 0; i < count_of(q); i++)
    if (row_of(i) < q->rows)
      LLVMBuildStore(m->b, s->sums[i], q->slots[i]);
}

static void emit_blocks(shares_t *q) {
  dt_scores_t *s = &q->s;
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  LLVMValueRef keys = dt__emit_i64(m, DT_MATMUL_SHARE_KEYS);
  LLVMValueRef rest = LLVMBuildURem(m->b, s->extent_n, keys, "");
  LLVMValueRef whole = LLVMBuildNSWSub(m->b, s->extent_n, rest, "");
  LLVMValueRef first = dt__loop_open(k, STEP, first_key(q), whole, keys_apart(q));
  dt__ptx_no_unroll(m);
  emit_block(q, first, true);
  dt__body_at(k, STEP);
  dt__loop_close(k, STEP);
  dt__body_at(k, PART);
  LLVMValueRef some = below(m, whole, s->extent_n);
  if (s->t->rank) {
    LLVMValueRef turn = LLVMBuildUDiv(m->b, whole, keys, "");
    turn = narrow(m, LLVMBuildURem(m->b, turn, dt__emit_i64(m, q->blocks), ""));
    some = both(m, some, LLVMBuildICmp(m->b, LLVMIntEQ, turn, s->t->rank, ""));
  }
  dt__scope_open(k, STEP, some);
  emit_block(q, whole, false);
  dt__scope_close(k, STEP);
  dt__body_at(k, PART);
}

// ---- Joining --------------------------------------------------------------------------------------
// A row's maximum and sum, of several parts; and what each part's sums are times.
typedef struct joined_t {
  LLVMValueRef max, sum, base, factors[MOST_BLOCKS];
} joined_t;
_Static_assert(WARPS <= MOST_BLOCKS, "parts of one block, or of one cluster");

// Of pairs in memory, in order.
static joined_t join(dt_emit_t *m, const LLVMValueRef *at, uint32_t n) {
  LLVMValueRef max[MOST_BLOCKS], sum[MOST_BLOCKS];
  joined_t out = {0};
  for (uint32_t i = 0; i < n; i++) {
    LLVMValueRef pair = dt__emit_load_at(m, DT_F32, 2, at[i], PAIR, false);
    max[i] = LLVMBuildExtractElement(m->b, pair, i32(m, 0), "");
    sum[i] = LLVMBuildExtractElement(m->b, pair, i32(m, 1), "");
    out.max = out.max ? greater(m, out.max, max[i]) : max[i];
  }
  out.base = base_of(m, out.max);
  for (uint32_t i = 0; i < n; i++) {
    out.factors[i] = power(m, max[i], out.base);
    LLVMValueRef part = LLVMBuildFMul(m->b, sum[i], out.factors[i], "");
    out.sum = out.sum ? LLVMBuildFAdd(m->b, out.sum, part, "") : part;
  }
  return out;
}

// What sums are divided by, as a factor.
static LLVMValueRef share_of(shares_t *q, LLVMValueRef sum) {
  dt_emit_t *m = q->s.m;
  LLVMValueRef one = LLVMConstReal(m->t_f32, 1);
  LLVMValueRef none = LLVMBuildICmp(m->b, LLVMIntEQ, q->s.extent_n, dt__emit_i64(m, 0), "");
  return LLVMBuildFDiv(m->b, one, LLVMBuildSelect(m->b, none, one, sum, ""), "");
}

static void put_pair(shares_t *q, LLVMValueRef max, LLVMValueRef sum, LLVMValueRef at) {
  dt_emit_t *m = q->s.m;
  LLVMValueRef pair = LLVMGetPoison(LLVMVectorType(m->t_f32, 2));
  pair = LLVMBuildInsertElement(m->b, pair, max, i32(m, 0), "");
  pair = LLVMBuildInsertElement(m->b, pair, sum, i32(m, 1), "");
  dt__emit_store_at(m, DT_F32, pair, at, PAIR);
}

// Pairs of this warp's rows to where all warps find them. At STEP.
static void hand_pairs(shares_t *q) {
  dt_scores_t *s = &q->s;
  dt_emit_t *m = s->m;
  LLVMValueRef max[2], sum[2];
  for (uint32_t r = 0; r < q->rows; r++) {
    max[r] = LLVMBuildLoad2(m->b, m->t_f32, q->max[r], "");
    sum[r] = quad_join(q, LLVMBuildLoad2(m->b, m->t_f32, q->sum[r], ""), NULL);
  }
  LLVMValueRef row = add(m, times(m, s->warp_col, TALL), down(m, s->lane, 2));
  LLVMValueRef at = times(m, row, PAIR);
  dt__scope_open(s->k, ROUND, LLVMBuildICmp(m->b, LLVMIntEQ, s->quad_lane, i32(m, 0), ""));
  for (uint32_t r = 0; r < q->rows; r++)
    put_pair(q, max[r], sum[r], shared_at(m, s->shared, at, s->parts_at + r * BLOCK / 2 * PAIR));
  dt__scope_close(s->k, ROUND);
  dt__cuda_block_sync(m);
}

// s->sums as the block's maximum has them, or the result where there are no other blocks; then the
// block's pairs are for these. At STEP.
static void join_warps(shares_t *q) {
  dt_scores_t *s = &q->s;
  dt_emit_t *m = s->m;
  LLVMValueRef factors[2] = {NULL}, row = times(m, down(m, s->lane, 2), PAIR), at[WARPS];
  joined_t rows[2];
  hand_pairs(q);
  for (uint32_t r = 0; r < q->rows; r++) {
    for (uint32_t w = 0; w < WARPS; w++)
      at[w] = shared_at(m, s->shared, row, s->parts_at + (w * TALL + r * BLOCK / 2) * PAIR);
    rows[r] = join(m, at, WARPS);
    LLVMValueRef max = LLVMBuildLoad2(m->b, m->t_f32, q->max[r], "");
    factors[r] = power(m, max, rows[r].base);
    if (q->blocks == 1)
      factors[r] = LLVMBuildFMul(m->b, factors[r], share_of(q, rows[r].sum), "");
  }
  rescale(q, factors);
  if (q->blocks == 1)
    return;
  LLVMValueRef number = LLVMBuildOr(m->b, s->warp_col, s->quad_lane, "");
  dt__scope_open(s->k, ROUND, LLVMBuildICmp(m->b, LLVMIntEQ, number, i32(m, 0), ""));
  for (uint32_t r = 0; r < q->rows; r++)
    put_pair(q, rows[r].max, rows[r].sum,
             shared_at(m, s->shared, row, q->joined_at + r * BLOCK / 2 * PAIR));
  dt__scope_close(s->k, ROUND);
}

// Runs `make` for each four neighbours of a row that is there, at ROUND inside of STEP, as
// dt__scores_finish_sums takes them; `at`: where those of the first warp are.
static void each_four(shares_t *q, void (*make)(shares_t *q, LLVMValueRef row, LLVMValueRef at)) {
  dt_scores_t *s = &q->s;
  dt_emit_t *m = s->m;
  uint32_t fours = s->cols / LANES, all = TALL * fours;
  LLVMValueRef live = times(m, s->live_rows, fours);
  for (uint32_t i = 0; i < all && !m->failure; i += s->head_plan.threads) {
    dt__body_at(s->k, STEP);
    LLVMValueRef number = add(m, s->tid, i32(m, i));
    dt__scope_open(s->k, ROUND, below(m, number, live));
    LLVMValueRef row = LLVMBuildUDiv(m->b, number, i32(m, fours), "");
    LLVMValueRef four = LLVMBuildURem(m->b, number, i32(m, fours), "");
    make(q, row, add(m, times(m, row, s->sums_pitch), times(m, four, LANES * WORD)));
    dt__scope_close(s->k, ROUND);
  }
}

static LLVMValueRef load_four(shares_t *q, LLVMValueRef at) {
  return dt__emit_load_at(q->s.m, DT_F32, LANES, at, LANES * WORD, false);
}

static void add_warps(shares_t *q, LLVMValueRef row, LLVMValueRef at) {
  dt_scores_t *s = &q->s;
  dt_emit_t *m = s->m;
  LLVMValueRef all = NULL;
  (void)row;
  for (uint32_t w = 0; w < WARPS; w++) {
    LLVMValueRef one = load_four(q, shared_at(m, s->shared, at, w * TALL * s->sums_pitch));
    all = all ? LLVMBuildFAdd(m->b, all, one, "") : one;
  }
  dt__emit_store_at(m, DT_F32, all, shared_at(m, s->shared, at, s->sums_at), LANES * WORD);
}

static void add_blocks(shares_t *q, LLVMValueRef row, LLVMValueRef at) {
  dt_scores_t *s = &q->s;
  dt_emit_t *m = s->m;
  LLVMValueRef own = shared_at(m, s->shared, at, s->sums_at), pairs[MOST_BLOCKS], all = NULL;
  LLVMValueRef pair = shared_at(m, s->shared, times(m, row, PAIR), q->joined_at);
  for (uint32_t b = 0; b < q->blocks; b++)
    pairs[b] = dt__ptx_cluster_place(m, pair, i32(m, b));
  joined_t joined = join(m, pairs, q->blocks);
  LLVMValueRef share = share_of(q, joined.sum);
  for (uint32_t b = 0; b < q->blocks; b++) {
    LLVMValueRef factor = dt__emit_splat(m, joined.factors[b], LANES);
    LLVMValueRef one = load_four(q, dt__ptx_cluster_place(m, own, i32(m, b)));
    one = LLVMBuildFMul(m->b, one, factor, "");
    all = all ? LLVMBuildFAdd(m->b, all, one, "") : one;
  }
  all = LLVMBuildFMul(m->b, all, dt__emit_splat(m, share, LANES), "");
  dt__emit_store_at(m, DT_F32, all, own, LANES * WORD);
}

// The sums of all warps, and the stages that follow them. At PART.
static void finish(shares_t *q) {
  dt_scores_t *s = &q->s;
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  dt__ptx_copies_wait(m, 0);
  dt__cuda_block_sync(m); // sums take the place of keys
  dt__level_enter(k, STEP);
  dt__scores_place_thread(s);
  join_warps(q);
  if (q->blocks == 1) {
    dt__scores_finish(s);
    dt__body_at(k, STEP);
    dt__cuda_block_sync(m); // the next item's copies go to where these sums are
    dt__level_leave(k, STEP);
    return;
  }
  dt__scores_hand_sums(s);
  each_four(q, add_warps);
  dt__body_at(k, STEP);
  dt__ptx_cluster_sync(m);
  dt__level_leave(k, STEP);
  dt__body_at(k, PART);
  dt__scope_open(k, STEP, LLVMBuildICmp(m->b, LLVMIntEQ, s->t->rank, i32(m, 0), ""));
  dt__scores_place_thread(s);
  each_four(q, add_blocks);
  s->warps_n = 1;
  dt__scores_finish_sums(s);
  s->warps_n = WARPS;
  dt__scope_close(k, STEP);
  dt__body_at(k, PART);
  dt__ptx_cluster_sync(m); // until nobody reads what is here, it stays
}

// ---- Items ----------------------------------------------------------------------------------------
static void emit_version(shares_t *q, LLVMValueRef wanted) {
  dt_scores_t *s = &q->s;
  dt_body_t *k = s->k;
  dt_emit_t *m = s->m;
  dt__scope_open(k, PART, wanted);
  k->base_level = PART;
  dt__chain_wait(s->t);
  dt__scores_place_thread(s);
  LLVMValueRef live = LLVMBuildNSWSub(m->b, s->extent_m, s->t->first_row, "");
  s->live_rows = narrow(m, lesser(m, live, dt__emit_i64(m, TALL)));
  s->above = i32(m, 0);
  copy_queries(q);
  dt__body_at(k, PART);
  copy_first(q);
  dt__body_at(k, PART);
  dt__ptx_copies_wait(m, q->ring - 1);
  dt__cuda_block_sync(m); // queries are there
  begin_sums(q);
  emit_blocks(q);
  finish(q);
  dt__body_at(k, PART);
  dt__scope_close(k, PART);
  k->base_level = ITEM;
  s->first_col = NULL;
}

// Where copies go by units and what follows the products by vectors, at level 0; NULL: never.
static LLVMValueRef is_aligned(shares_t *q) {
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

void dt__chain_shares(dt_chain_item_t *t) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  shares_t q;
  dt_status_t status = open_shares(&m->program, t->chain, m->target->strict_fp, &q);
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
