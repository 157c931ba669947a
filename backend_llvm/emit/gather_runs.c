// SPDX-License-Identifier: Apache-2.0
// Vectors whose elements are not neighbours in memory, without a gather, which costs as much as a
// dozen loads. Every second element is taken from two vectors of neighbours. A vector over the
// columns of windows crosses the ends of rows: it is assembled of its few runs of neighbours. The
// number of runs is computed at run time, once for all iterations that move the whole vector by the
// same amount.
#include "backend_llvm/emit/gather_runs.h"
#include "backend_llvm/emit/body.h"
#include "backend_llvm/emit/index.h"
#include "backend_llvm/emit/insts.h"

enum { KEY_RUNS = 7, MOST_RUNS = 4 };

// ---- One run ------------------------------------------------------------------------------------
static LLVMValueRef every_second(dt_body_t *k, LLVMValueRef low, LLVMValueRef high,
                                 uint32_t from_high) {
  LLVMValueRef order[DT_MAX_LANES];
  uint32_t half = k->lanes / 2, lanes = dt__emit_lanes(LLVMTypeOf(low));
  for (uint32_t i = 0; i < k->lanes; i++)
    order[i] = dt__emit_i32(k->m, i < half ? 2 * i : lanes + from_high + 2 * (i - half));
  return LLVMBuildShuffleVector(k->m->b, low, high, LLVMConstVector(order, k->lanes), "");
}

// The mask of the elements that every second one of is wanted where `mask` says so.
static LLVMValueRef spread(dt_body_t *k, LLVMValueRef mask, bool high) {
  LLVMValueRef order[DT_MAX_LANES], none = LLVMConstNull(LLVMTypeOf(mask));
  uint32_t first = high ? k->lanes / 2 : 0;
  for (uint32_t i = 0; i < k->lanes; i++)
    order[i] = dt__emit_i32(k->m, i % 2 ? k->lanes : first + i / 2);
  return LLVMBuildShuffleVector(k->m->b, mask, none, LLVMConstVector(order, k->lanes), "");
}

static LLVMValueRef load_pairs(dt_body_t *k, dt_dtype_t dtype, LLVMValueRef at, LLVMValueRef mask,
                               LLVMValueRef other) {
  dt_emit_t *m = k->m;
  LLVMTypeRef element = dt__emit_memory_type(m, dtype);
  // Without a mask nothing behind the last element may be read.
  uint32_t back = mask ? 0 : 1;
  LLVMValueRef behind = dt__emit_element(m, element, at, dt__emit_i64(m, k->lanes - back));
  LLVMValueRef low =
      dt__emit_load(m, dtype, k->lanes, at, mask ? spread(k, mask, false) : NULL, NULL);
  LLVMValueRef high =
      dt__emit_load(m, dtype, k->lanes, behind, mask ? spread(k, mask, true) : NULL, NULL);
  LLVMValueRef all = every_second(k, low, high, back);
  return other ? LLVMBuildSelect(m->b, mask, all, other, "") : all;
}

static LLVMValueRef load_run(dt_body_t *k, dt_dtype_t dtype, int64_t step, LLVMValueRef at,
                             LLVMValueRef mask, LLVMValueRef other) {
  return step == 1 ? dt__emit_load(k->m, dtype, k->lanes, at, mask, other)
                   : load_pairs(k, dtype, at, mask, mask ? other : NULL);
}

static bool lanes_fit(const dt_body_t *k, dt_dtype_t dtype) {
  const dt_target_t *target = k->m->target;
  return !k->m->device && target->vector_bytes >= 32 && dtype != DT_BOOL && k->lanes >= 4 &&
         (dt_dtype_size(dtype) >= 4 || target->masked_memory);
}

// ---- Where runs begin ---------------------------------------------------------------------------
typedef struct runs_t {
  dt_sym_t varying, uniform; // terms of the offset that differ between lanes, and the others
  uint32_t level;            // of `varying`
  int64_t step;              // from lane to lane within a run
  bool alternate;            // even lanes are thought to be one run, odd ones another
} runs_t;

// What neighbouring lanes of a run are apart: a literal that the column or its remainder by the
// length of a row is multiplied by. 0: the term does not tell.
static int64_t step_of(dt_body_t *k, dt_sym_t term) {
  dt_symenv_t *env = k->m->env;
  dt_sym_view_t view = dt__sym_view(env, term);
  if (view.op == DT_SYM_MOD)
    return 1;
  int64_t step = 1, literal;
  if (dt__lane_step(k, term, &step))
    return step;
  step = 1;
  bool found = false;
  for (uint32_t i = 0; view.op == DT_SYM_MUL && i < view.n_args; i++) {
    dt_sym_t factor = dt__sym_view(env, term).args[i];
    if (dt__sym_view(env, factor).op == DT_SYM_MOD && !found)
      found = true;
    else if (dt__sym_is_const(env, factor, &literal))
      step *= literal;
    else
      return 0;
  }
  return found ? step : 0;
}

// Half the lane's number, as of windows that overlap at a stride of 2.
static bool is_half_lane(dt_body_t *k, dt_sym_t term) {
  dt_symenv_t *env = k->m->env;
  dt_sym_view_t view = dt__sym_view(env, term);
  int64_t literal, step;
  return view.op == DT_SYM_FLOORDIV && dt__sym_is_const(env, view.args[1], &literal) &&
         literal == 2 && dt__lane_step(k, dt__sym_view(env, term).args[0], &step) && step == 1;
}

static bool split_offset(dt_body_t *k, dt_sym_t offset, uint32_t level, runs_t *out) {
  dt_symenv_t *env = k->m->env;
  dt_sym_view_t view = dt__sym_view(env, offset);
  dt_sym_t zero = dt__sym_const(env, 0);
  bool varying;
  *out = (runs_t){.varying = zero, .uniform = zero};
  if (view.op != DT_SYM_ADD)
    return false;
  for (uint32_t i = 0; i < view.n_args; i++) {
    dt_sym_t term = dt__sym_view(env, offset).args[i];
    uint32_t own;
    dt__index_info(k, term, &own, &varying);
    dt_sym_t *part = varying ? &out->varying : &out->uniform;
    *part = dt__sym_add(env, *part, term);
    if (varying && out->step == 0)
      out->step = step_of(k, term);
    out->alternate = out->alternate || (varying && is_half_lane(k, term));
  }
  dt__index_info(k, out->varying, &out->level, &varying);
  if (out->alternate)
    return varying && out->level <= level;
  return varying && (out->step == 1 || out->step == 2) && out->level < level;
}

// Parts of what is known of a vector's runs, kept by number.
enum { RUN_FROM = 0, RUN_MASK = MOST_RUNS, RUN_MORE = 2 * MOST_RUNS, RUN_PARTS = RUN_MORE + 3 };

static LLVMValueRef any_lane(dt_body_t *k, LLVMValueRef mask) {
  LLVMTypeRef bits = LLVMIntTypeInContext(k->m->context, k->lanes);
  LLVMValueRef all = LLVMBuildBitCast(k->m->b, mask, bits, "");
  return LLVMBuildICmp(k->m->b, LLVMIntNE, all, LLVMConstNull(bits), "");
}

// RUN_FROM: where the runs of even and of odd lanes begin. RUN_MORE: that they are none.
static void find_turns(dt_body_t *k, LLVMValueRef offsets, uint32_t c, dt_lanes_t *parts) {
  dt_emit_t *m = k->m;
  LLVMValueRef halves[DT_MAX_LANES], order[DT_MAX_LANES];
  for (uint32_t i = 0; i < k->lanes; i++) {
    halves[i] = dt__emit_i64(m, i / 2);
    order[i] = dt__emit_i32(m, i % 2);
  }
  LLVMValueRef shifts = LLVMBuildSub(m->b, offsets, LLVMConstVector(halves, k->lanes), "");
  LLVMValueRef firsts =
      LLVMBuildShuffleVector(m->b, shifts, shifts, LLVMConstVector(order, k->lanes), "");
  for (uint32_t r = 0; r < 2; r++)
    parts[RUN_FROM + r].v[c] = LLVMBuildExtractElement(m->b, shifts, dt__emit_i64(m, r), "");
  parts[RUN_MORE].v[c] = any_lane(k, LLVMBuildICmp(m->b, LLVMIntNE, shifts, firsts, ""));
}

// RUN_MORE: whether there are more runs than one, than two, than MOST_RUNS.
static void find_runs(dt_body_t *k, const runs_t *runs, LLVMValueRef offsets, uint32_t c,
                      dt_lanes_t *parts) {
  dt_emit_t *m = k->m;
  LLVMValueRef shifts =
      LLVMBuildSub(m->b, offsets, dt__emit_ramp(m->t_i64, k->lanes, runs->step), "");
  LLVMValueRef left = LLVMConstAllOnes(LLVMVectorType(m->t_i1, k->lanes));
  uint32_t more = RUN_MORE;
  for (uint32_t r = 0; r < MOST_RUNS; r++) {
    LLVMValueRef from = dt__lanes_first(k, left, shifts);
    LLVMValueRef same =
        LLVMBuildICmp(m->b, LLVMIntEQ, shifts, dt__emit_splat(m, from, k->lanes), "");
    parts[RUN_FROM + r].v[c] = from;
    parts[RUN_MASK + r].v[c] = LLVMBuildAnd(m->b, left, same, "");
    left = LLVMBuildAnd(m->b, left, LLVMBuildNot(m->b, same, ""), "");
    if (r < 2 || r + 1 == MOST_RUNS)
      parts[more++].v[c] = any_lane(k, left);
  }
}

static void runs_parts(dt_body_t *k, const runs_t *runs, dt_lanes_t *parts) {
  uint64_t key = (uint64_t)KEY_RUNS << 56 | (uint64_t)(k->stage_index + 1) << 40 |
                 (uint64_t)runs->varying.id * 16;
  bool found = true;
  for (uint32_t p = 0; p < RUN_PARTS; p++)
    found = found && dt__memo_find(k, runs->level, key + p, &parts[p]);
  if (found)
    return;
  dt_lanes_t offsets = dt__index_eval(k, runs->varying);
  for (uint32_t p = 0; p < RUN_PARTS; p++)
    parts[p] = (dt_lanes_t){.varying = true};
  for (uint32_t c = 0; c < k->copies; c++) {
    LLVMValueRef vector = dt__lanes_vector(k, &offsets, c, runs->level);
    dt__body_at(k, runs->level);
    if (runs->alternate)
      find_turns(k, vector, c, parts);
    else
      find_runs(k, runs, vector, c, parts);
  }
  for (uint32_t p = 0; p < RUN_PARTS; p++)
    dt__memo_put(k, runs->level, key + p, parts[p]);
}

// ---- Loads --------------------------------------------------------------------------------------
typedef struct place_t {
  dt_body_t *k;
  const dt_inst_t *load;
  int64_t step;
  LLVMValueRef base; // of the whole vector
  LLVMValueRef mask, other;
  const dt_lanes_t *parts;
  uint32_t c;
} place_t;

static LLVMValueRef load_parts(const place_t *p, uint32_t n) {
  dt_emit_t *m = p->k->m;
  LLVMTypeRef element = dt__emit_memory_type(m, p->load->dtype);
  LLVMValueRef value = p->other;
  for (uint32_t r = 0; r < n; r++) {
    LLVMValueRef at = dt__emit_element(m, element, p->base, p->parts[RUN_FROM + r].v[p->c]);
    LLVMValueRef mask = n > 1 ? p->parts[RUN_MASK + r].v[p->c] : NULL;
    if (p->mask)
      mask = mask ? LLVMBuildAnd(m->b, mask, p->mask, "") : p->mask;
    value = load_run(p->k, p->load->dtype, p->step, at, mask, value);
  }
  return value;
}

static LLVMValueRef gather_all(const place_t *p, LLVMValueRef offsets) {
  dt_emit_t *m = p->k->m;
  LLVMTypeRef element = dt__emit_memory_type(m, p->load->dtype);
  return dt__emit_gather(m, p->load->dtype, dt__emit_element(m, element, p->base, offsets), p->mask,
                         p->other, p->k->dead);
}

// One of the ways to load the vector, which the scope goes on after: as many parts as it has runs.
static LLVMValueRef choose(const place_t *p, uint32_t level, LLVMValueRef offsets) {
  static const uint32_t counts[3] = {1, 2, MOST_RUNS};
  dt_body_t *k = p->k;
  dt_emit_t *m = k->m;
  LLVMBasicBlockRef end = dt__emit_block(m, k->fn, "loaded"), from[4];
  LLVMValueRef values[4];
  for (uint32_t way = 0; way < 4; way++) {
    if (way < 3) {
      LLVMBasicBlockRef own = dt__emit_block(m, k->fn, "runs"),
                        next = dt__emit_block(m, k->fn, "more");
      LLVMBuildCondBr(m->b, p->parts[RUN_MORE + way].v[p->c], next, own);
      LLVMPositionBuilderAtEnd(m->b, own);
      values[way] = load_parts(p, counts[way]);
      from[way] = LLVMGetInsertBlock(m->b);
      LLVMBuildBr(m->b, end);
      LLVMPositionBuilderAtEnd(m->b, next);
    } else {
      values[way] = gather_all(p, offsets);
      from[way] = LLVMGetInsertBlock(m->b);
      LLVMBuildBr(m->b, end);
    }
  }
  k->scopes[level].block = end;
  dt__body_at(k, level);
  LLVMValueRef value = LLVMBuildPhi(m->b, LLVMTypeOf(values[0]), "");
  LLVMAddIncoming(value, values, from, 4);
  return value;
}

// The even lanes of a mask, or the odd ones: as halves of wider numbers, since a shuffle of bits is
// made bit by bit.
static LLVMValueRef every_other(dt_body_t *k, LLVMValueRef mask, bool odd) {
  dt_emit_t *m = k->m;
  LLVMTypeRef pairs = LLVMVectorType(m->t_i64, k->lanes / 2);
  LLVMTypeRef evens = LLVMVectorType(m->t_i32, k->lanes / 2);
  LLVMValueRef wide = LLVMBuildSExt(m->b, mask, LLVMVectorType(m->t_i32, k->lanes), "");
  wide = LLVMBuildBitCast(m->b, wide, pairs, "");
  LLVMValueRef each = odd ? wide : LLVMBuildTrunc(m->b, wide, evens, "");
  return LLVMBuildICmp(m->b, LLVMIntSLT, each, LLVMConstNull(LLVMTypeOf(each)), "");
}

static LLVMValueRef load_turns(const place_t *p) {
  dt_body_t *k = p->k;
  dt_emit_t *m = k->m;
  LLVMTypeRef element = dt__emit_memory_type(m, p->load->dtype);
  LLVMValueRef each[2], order[DT_MAX_LANES];
  for (uint32_t r = 0; r < 2; r++) {
    LLVMValueRef at = dt__emit_element(m, element, p->base, p->parts[RUN_FROM + r].v[p->c]);
    LLVMValueRef mask = p->mask ? every_other(k, p->mask, r == 1) : NULL;
    each[r] = dt__emit_load(m, p->load->dtype, k->lanes / 2, at, mask, NULL);
  }
  for (uint32_t i = 0; i < k->lanes; i++)
    order[i] = dt__emit_i32(m, i / 2 + (i % 2) * (k->lanes / 2));
  LLVMValueRef all =
      LLVMBuildShuffleVector(m->b, each[0], each[1], LLVMConstVector(order, k->lanes), "");
  return p->other ? LLVMBuildSelect(m->b, p->mask, all, p->other, "") : all;
}

// The same where two runs take turns, or else lanes are gathered.
static LLVMValueRef choose_turns(const place_t *p, uint32_t level, LLVMValueRef offsets) {
  dt_body_t *k = p->k;
  dt_emit_t *m = k->m;
  LLVMBasicBlockRef ways[2] = {dt__emit_block(m, k->fn, "turns"), dt__emit_block(m, k->fn, "each")};
  LLVMBasicBlockRef end = dt__emit_block(m, k->fn, "loaded"), from[2];
  LLVMValueRef values[2];
  LLVMBuildCondBr(m->b, p->parts[RUN_MORE].v[p->c], ways[1], ways[0]);
  for (uint32_t way = 0; way < 2; way++) {
    LLVMPositionBuilderAtEnd(m->b, ways[way]);
    values[way] = way ? gather_all(p, offsets) : load_turns(p);
    from[way] = LLVMGetInsertBlock(m->b);
    LLVMBuildBr(m->b, end);
  }
  k->scopes[level].block = end;
  dt__body_at(k, level);
  LLVMValueRef value = LLVMBuildPhi(m->b, LLVMTypeOf(values[0]), "");
  LLVMAddIncoming(value, values, from, 2);
  return value;
}

bool dt__gather_runs_apply(dt_body_t *k, const dt_inst_t *load, dt_sym_t offset, uint32_t level) {
  runs_t runs;
  int64_t step;
  // Buffers with a copy for each lane have other addresses.
  if (!lanes_fit(k, load->dtype) ||
      dt__program_buffer(&k->m->program, load->buffer)->kind == DT_BUFFER_LOCAL)
    return false;
  if (dt__lane_step(k, offset, &step))
    return step == 2;
  // Code of this level may already go on in a deeper one: then it takes no more blocks.
  return !LLVMGetBasicBlockTerminator(k->scopes[level].block) &&
         split_offset(k, offset, level, &runs);
}

LLVMValueRef dt__gather_runs_load(dt_body_t *k, const dt_inst_t *load, dt_sym_t offset,
                                  uint32_t level, const dt_address_t *address, uint32_t c,
                                  LLVMValueRef mask, LLVMValueRef other) {
  dt_emit_t *m = k->m;
  runs_t runs;
  int64_t step;
  dt_lanes_t parts[RUN_PARTS];
  if (dt__lane_step(k, offset, &step)) {
    LLVMValueRef first = LLVMBuildExtractElement(m->b, address->at[c], dt__emit_i64(m, 0), "");
    return load_pairs(k, load->dtype, first, mask, mask ? other : NULL);
  }
  (void)split_offset(k, offset, level, &runs);
  runs_parts(k, &runs, parts);
  dt_lanes_t offsets = dt__index_eval(k, runs.varying);
  LLVMValueRef uniform = dt__index_scalar(k, runs.uniform);
  dt__body_at(k, level);
  LLVMTypeRef element = dt__emit_memory_type(m, load->dtype);
  place_t place = {.k = k,
                   .load = load,
                   .step = runs.step,
                   .base = dt__emit_element(m, element, k->bases[load->buffer.id - 1], uniform),
                   .mask = mask,
                   .other = other,
                   .parts = parts,
                   .c = c};
  return runs.alternate ? choose_turns(&place, level, offsets.v[c])
                        : choose(&place, level, offsets.v[c]);
}
