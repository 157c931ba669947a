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
#include "backend_cuda/emit/chain_attention.h"
#include "backend_cuda/emit/ptx.h"
#include "backend_llvm/emit/loops.h"

#include "runtime/base/status.h"

#define WARPS DT_ATTENTION_WARPS
#define TALL DT_ATTENTION_FEW
#define PAIR (2 * WORD) // a row's maximum and sum
#define MOST_BLOCKS 8   // of a cluster

typedef struct shares_t {
  dt_attend_t base;
  uint32_t ring;        // blocks of keys,
  uint32_t stage;       // and bytes of one
  uint32_t blocks;      // of the cluster
  uint32_t joined_at;   // bytes: where pairs of the block's rows are
  LLVMValueRef ring_at; // slot, i32: byte of the ring where the keys to be taken are
} shares_t;

// ---- Form -----------------------------------------------------------------------------------------
static void lay_out(shares_t *q) {
  dt_scores_t *s = &q->base.s;
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
  return dt__sym_is_const(program->env, q->base.s.score_plan.a.extent, &n) && n <= TALL / 2;
}

static dt_status_t open_shares(dt_program_t *program, const dt_cuda_chain_t *chain, bool strict,
                               shares_t *out) {
  *out = (shares_t){.base.s = {.vectors = 1, .warps_m = 1, .warps_n = WARPS, .steps = 1}};
  dt_scores_t *s = &out->base.s;
  DT_TRY(dt__attend_open(program, chain, strict, &out->base));
  const dt_team_matmul_t *tile = &s->schedules[2]->team_matmul;
  out->ring = tile->ring;
  out->blocks = dt__matmul_cluster(tile);
  if (tile->tile_rows != TALL || WARPS != DT_CHAIN_WARPS || out->blocks > MOST_BLOCKS)
    return DT_FAIL(DT_E_INTERNAL, "chain: tiles of %u rows in clusters of %u", tile->tile_rows,
                   out->blocks);
  s->low_rows = has_low_rows(program, out);
  out->base.rows = s->low_rows ? 1 : 2;
  lay_out(out);
  return NULL;
}

dt_status_t dt__chain_shares_plan(dt_program_t *program, bool strict, dt_cuda_chain_t *chain) {
  shares_t q;
  DT_TRY(open_shares(program, chain, strict, &q));
  dt__attend_plan(&q.base, chain);
  return NULL;
}

// ---- Copies ---------------------------------------------------------------------------------------
// 16 rows of an operand by one warp, inside of `level` - 1; kernel and stage are at hand.
static void copy_rows(shares_t *q, uint32_t level, dt_rows_copy_t p) {
  p.threads = DT_WARP;
  p.thread = q->base.s.lane;
  p.place.rows = BLOCK;
  p.by_elements = !q->base.aligned;
  p.narrow_left = true;
  dt__scores_copy_rows(&q->base.s, level, &p);
}

// This warp's of the 128 keys and values from number `first` on, to byte `at` (i32) of the ring, as
// one group; what is not there is zero.
static void copy_keys(shares_t *q, uint32_t level, LLVMValueRef first, LLVMValueRef at) {
  dt_scores_t *s = &q->base.s;
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
  copy_rows(q, level,
            (dt_rows_copy_t){.o = b,
                             .outer = b->var,
                             .inner = k->stage->vars[0],
                             .extent = b->extent,
                             .first = first,
                             .place.pitch = s->row_pitch,
                             .to = to,
                             .elements = s->depth,
                             .ordered = true});
  if (!dt__scores_take(s, s->head, s->schedules[2]))
    return;
  dt__scores_begin_stage(s);
  dt__body_at(k, level - 1);
  to = add(m, add(m, at, times(m, above, s->col_pitch)), i32(m, s->v_at));
  copy_rows(q, level,
            (dt_rows_copy_t){.o = v,
                             .outer = k->stage->vars[0],
                             .inner = v->var,
                             .extent = k->stage->extents[0],
                             .first = first,
                             .place.pitch = s->col_pitch,
                             .to = to,
                             .elements = s->cols,
                             .ordered = true});
  dt__ptx_copies_commit(m);
}

// By the first warp.
static void copy_queries(shares_t *q) {
  dt_scores_t *s = &q->base.s;
  dt_emit_t *m = s->m;
  const dt_operand_t *a = &s->score_plan.a;
  if (!dt__scores_take(s, s->score, s->schedules[0]))
    return;
  dt__scores_begin_stage(s);
  dt__body_at(s->k, PART);
  LLVMValueRef first = LLVMBuildICmp(m->b, LLVMIntEQ, s->warp_col, i32(m, 0), "");
  copy_rows(q, STEP,
            (dt_rows_copy_t){.o = a,
                             .outer = a->var,
                             .inner = s->k->stage->vars[0],
                             .extent = a->extent,
                             .first = s->t->first_row,
                             .place.pitch = s->row_pitch,
                             .elements = s->depth,
                             .wanted = first});
  dt__ptx_copies_commit(m);
}

// Keys from one block of this team's to the next, and its first.
static uint32_t keys_apart(const shares_t *q) { return DT_MATMUL_SHARE_KEYS * q->blocks; }

static LLVMValueRef first_key(shares_t *q) {
  dt_emit_t *m = q->base.s.m;
  LLVMValueRef rank = q->base.s.t->rank;
  return rank ? wide(m, times(m, rank, DT_MATMUL_SHARE_KEYS)) : dt__emit_i64(m, 0);
}

// All of the ring but one block, which the loop begins with.
static void copy_first(shares_t *q) {
  dt_body_t *k = q->base.s.k;
  dt_emit_t *m = q->base.s.m;
  LLVMValueRef number = dt__loop_open(k, STEP, dt__emit_i64(m, 0), dt__emit_i64(m, q->ring - 1), 1);
  LLVMValueRef first = LLVMBuildMul(m->b, number, dt__emit_i64(m, keys_apart(q)), "");
  first = LLVMBuildNSWAdd(m->b, first, first_key(q), "");
  copy_keys(q, ROUND, first, times(m, narrow(m, number), q->stage));
  dt__body_at(k, STEP);
  dt__loop_close(k, STEP);
}

// ---- One block of keys ----------------------------------------------------------------------------
static void take_row(shares_t *q, uint32_t r, LLVMValueRef end, LLVMValueRef *out_factor) {
  dt_emit_t *m = q->base.s.m;
  LLVMValueRef x[LANES];
  dt__attend_widen(&q->base, r, end, x);
  LLVMValueRef most = greater(m, greater(m, x[0], x[1]), greater(m, x[2], x[3]));
  dt__attend_take_row(&q->base, r, x, most, out_factor);
}

// s->sums: C times the rows' factors; zeros for rows that are never there.
static void rescale(shares_t *q, const LLVMValueRef factors[2]) {
  dt_emit_t *m = q->base.s.m;
  for (uint32_t i = 0; i < dt__attend_sums(&q->base); i++) {
    uint32_t r = dt__attend_row_of(i);
    q->base.s.sums[i] = LLVMConstNull(m->t_f32);
    if (r < q->base.rows)
      q->base.s.sums[i] =
          LLVMBuildFMul(m->b, LLVMBuildLoad2(m->b, m->t_f32, q->base.slots[i], ""), factors[r], "");
  }
}

// Byte of the ring one block before or after byte `at`.
static LLVMValueRef beside(shares_t *q, LLVMValueRef at, bool before) {
  dt_emit_t *m = q->base.s.m;
  uint32_t last = (q->ring - 1) * q->stage, edge = before ? 0 : last;
  LLVMValueRef step = add(m, at, i32(m, before ? 0U - q->stage : q->stage));
  LLVMValueRef turn = LLVMBuildICmp(m->b, LLVMIntEQ, at, i32(m, edge), "");
  return LLVMBuildSelect(m->b, turn, i32(m, last - edge), step, "");
}

// Keys from number `first` on, at STEP; `full`: there are as many as a block has, else it is the
// last.
static void emit_block(shares_t *q, LLVMValueRef first, bool full) {
  dt_scores_t *s = &q->base.s;
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
  for (uint32_t r = 0; r < q->base.rows && !m->failure; r++)
    take_row(q, r, end, &factors[r]);
  if (m->failure)
    return;
  rescale(q, factors);
  dt__scores_add_rows(s);
  for (uint32_t i = 0; i < dt__attend_sums(&q->base); i++)
    if (dt__attend_row_of(i) < q->base.rows)
      LLVMBuildStore(m->b, s->sums[i], q->base.slots[i]);
}

static void emit_blocks(shares_t *q) {
  dt_scores_t *s = &q->base.s;
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
  out.base = dt__attend_base(m, out.max);
  for (uint32_t i = 0; i < n; i++) {
    out.factors[i] = dt__attend_power(m, max[i], out.base);
    LLVMValueRef part = LLVMBuildFMul(m->b, sum[i], out.factors[i], "");
    out.sum = out.sum ? LLVMBuildFAdd(m->b, out.sum, part, "") : part;
  }
  return out;
}

// What sums are divided by, as a factor.
static LLVMValueRef share_of(shares_t *q, LLVMValueRef sum) {
  dt_emit_t *m = q->base.s.m;
  LLVMValueRef one = LLVMConstReal(m->t_f32, 1);
  LLVMValueRef none = LLVMBuildICmp(m->b, LLVMIntEQ, q->base.s.extent_n, dt__emit_i64(m, 0), "");
  return LLVMBuildFDiv(m->b, one, LLVMBuildSelect(m->b, none, one, sum, ""), "");
}

static void put_pair(shares_t *q, LLVMValueRef max, LLVMValueRef sum, LLVMValueRef at) {
  dt_emit_t *m = q->base.s.m;
  LLVMValueRef pair = LLVMGetPoison(LLVMVectorType(m->t_f32, 2));
  pair = LLVMBuildInsertElement(m->b, pair, max, i32(m, 0), "");
  pair = LLVMBuildInsertElement(m->b, pair, sum, i32(m, 1), "");
  dt__emit_store_at(m, DT_F32, pair, at, PAIR);
}

// Pairs of this warp's rows to where all warps find them. At STEP.
static void hand_pairs(shares_t *q) {
  dt_scores_t *s = &q->base.s;
  dt_emit_t *m = s->m;
  LLVMValueRef max[2], sum[2];
  for (uint32_t r = 0; r < q->base.rows; r++) {
    max[r] = LLVMBuildLoad2(m->b, m->t_f32, q->base.max[r], "");
    sum[r] = dt__attend_quad(&q->base, LLVMBuildLoad2(m->b, m->t_f32, q->base.sum[r], ""), NULL);
  }
  LLVMValueRef row = add(m, times(m, s->warp_col, TALL), down(m, s->lane, 2));
  LLVMValueRef at = times(m, row, PAIR);
  dt__scope_open(s->k, ROUND, LLVMBuildICmp(m->b, LLVMIntEQ, s->quad_lane, i32(m, 0), ""));
  for (uint32_t r = 0; r < q->base.rows; r++)
    put_pair(q, max[r], sum[r], shared_at(m, s->shared, at, s->parts_at + r * BLOCK / 2 * PAIR));
  dt__scope_close(s->k, ROUND);
  dt__cuda_block_sync(m);
}

// s->sums as the block's maximum has them, or the result where there are no other blocks; then the
// block's pairs are for these. At STEP.
static void join_warps(shares_t *q) {
  dt_scores_t *s = &q->base.s;
  dt_emit_t *m = s->m;
  LLVMValueRef factors[2] = {NULL}, row = times(m, down(m, s->lane, 2), PAIR), at[WARPS];
  joined_t rows[2];
  hand_pairs(q);
  for (uint32_t r = 0; r < q->base.rows; r++) {
    for (uint32_t w = 0; w < WARPS; w++)
      at[w] = shared_at(m, s->shared, row, s->parts_at + (w * TALL + r * BLOCK / 2) * PAIR);
    rows[r] = join(m, at, WARPS);
    LLVMValueRef max = LLVMBuildLoad2(m->b, m->t_f32, q->base.max[r], "");
    factors[r] = dt__attend_power(m, max, rows[r].base);
    if (q->blocks == 1)
      factors[r] = LLVMBuildFMul(m->b, factors[r], share_of(q, rows[r].sum), "");
  }
  rescale(q, factors);
  if (q->blocks == 1)
    return;
  LLVMValueRef number = LLVMBuildOr(m->b, s->warp_col, s->quad_lane, "");
  dt__scope_open(s->k, ROUND, LLVMBuildICmp(m->b, LLVMIntEQ, number, i32(m, 0), ""));
  for (uint32_t r = 0; r < q->base.rows; r++)
    put_pair(q, rows[r].max, rows[r].sum,
             shared_at(m, s->shared, row, q->joined_at + r * BLOCK / 2 * PAIR));
  dt__scope_close(s->k, ROUND);
}

// Runs `make` for each four neighbours of a row that is there, at ROUND inside of STEP, as
// dt__scores_finish_sums takes them; `at`: where those of the first warp are.
static void each_four(shares_t *q, void (*make)(shares_t *q, LLVMValueRef row, LLVMValueRef at)) {
  dt_scores_t *s = &q->base.s;
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
  return dt__emit_load_at(q->base.s.m, DT_F32, LANES, at, LANES * WORD, false);
}

static void add_warps(shares_t *q, LLVMValueRef row, LLVMValueRef at) {
  dt_scores_t *s = &q->base.s;
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
  dt_scores_t *s = &q->base.s;
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
  dt_scores_t *s = &q->base.s;
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
static void emit_version(void *own, LLVMValueRef wanted) {
  shares_t *q = own;
  dt_scores_t *s = &q->base.s;
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
  dt__attend_begin_sums(&q->base);
  q->ring_at = dt__body_slot(k, m->t_i32, 1);
  LLVMBuildStore(m->b, i32(m, 0), q->ring_at);
  emit_blocks(q);
  finish(q);
  dt__body_at(k, PART);
  dt__scope_close(k, PART);
  k->base_level = ITEM;
  s->first_col = NULL;
}

void dt__chain_shares(dt_chain_item_t *t) {
  dt_emit_t *m = t->k->m;
  shares_t q;
  dt_status_t status = open_shares(&m->program, t->chain, m->target->strict_fp, &q);
  if (status) {
    dt__emit_fail(m, status);
    return;
  }
  dt__attend_item(&q.base, t);
  dt__attend_versions(&q.base, emit_version, &q);
}
