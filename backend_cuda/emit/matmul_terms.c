// SPDX-License-Identifier: Apache-2.0
// Sums over several loops, as the windows of a convolution: their terms are counted by one number,
// k, the last loop innermost. A mask that leaves out what is outside of an image says for each
// value of each loop but the last whether a row has an element there; a row's answers are the bits
// of one register, which is made once a tile:
//
//   bit      0   1   2  |  3   4   5        row p has (dy, dx, …) where bits dy and 3 + dx are set
//   loop     dy = 0 1 2 |  dx = 0 1 2
//
#include "backend_cuda/emit/matmul.h"
#include "backend_llvm/emit/index.h"

#define MOST_BITS 32

static uint32_t terms_of(dt_program_t *program, const dt_sym_t *mask) {
  dt_sym_view_t view = dt__sym_view(program->env, *mask);
  return view.op == DT_SYM_AND ? view.n_args : 1;
}

static dt_sym_t term_of(dt_program_t *program, const dt_sym_t *mask, uint32_t i) {
  dt_sym_view_t view = dt__sym_view(program->env, *mask);
  return view.op == DT_SYM_AND ? view.args[i] : *mask;
}

// The one loop that a condition moves with; n_loops: none, n_loops + 1: several.
static uint32_t loop_of(dt_program_t *program, const dt_stage_t *stage, dt_sym_t term) {
  uint32_t found = stage->n_loops;
  for (uint32_t v = 0; v < stage->n_loops; v++)
    if (dt__sym_depends(program->env, term, stage->vars[v]))
      found = found == stage->n_loops ? v : stage->n_loops + 1;
  return found;
}

static uint32_t extent_of(dt_program_t *program, const dt_stage_t *stage, uint32_t v) {
  int64_t extent = MOST_BITS + 1;
  (void)dt__sym_is_const(program->env, stage->extents[v], &extent);
  return extent < 0 || extent > MOST_BITS ? MOST_BITS + 1 : (uint32_t)extent;
}

bool dt__matmul_tests_apart(dt_program_t *program, const dt_stage_t *stage, uint32_t mask) {
  uint32_t bits = 0;
  if (mask == DT_NO_INST)
    return true;
  const dt_inst_t *inst = &stage->insts.items[mask];
  if (inst->kind != DT_INST_INDEX)
    return false;
  for (uint32_t v = 0; v + 1 < stage->n_loops; v++)
    bits += extent_of(program, stage, v);
  for (uint32_t i = 0; i < terms_of(program, &inst->sym); i++) {
    uint32_t v = loop_of(program, stage, term_of(program, &inst->sym, i));
    if (v + 1 == stage->n_loops || v > stage->n_loops)
      return false;
  }
  return bits <= MOST_BITS;
}

void dt__matmul_terms(dt_tile_t *t, LLVMValueRef at_k, LLVMValueRef *out) {
  dt_emit_t *m = t->k->m;
  const dt_stage_t *stage = t->k->stage;
  for (uint32_t v = stage->n_loops; v-- > 0;) {
    int64_t extent = 1;
    out[v] = at_k;
    if (v == 0)
      continue;
    (void)dt__sym_is_const(m->env, stage->extents[v], &extent);
    LLVMValueRef by = LLVMConstInt(LLVMTypeOf(at_k), (uint64_t)extent, false);
    LLVMValueRef rest = LLVMBuildUDiv(m->b, at_k, by, "");
    out[v] = LLVMBuildSub(m->b, at_k, LLVMBuildMul(m->b, rest, by, ""), "");
    at_k = rest;
  }
}

// All conditions that move with loop v, or with none, where it is at `value` and the others are at
// their first: i1. The row is bound above `level`.
static LLVMValueRef conditions(dt_tile_t *t, dt_sym_t mask, uint32_t v, uint32_t value,
                               uint32_t level) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  dt_program_t *program = &m->program;
  const dt_stage_t *stage = k->stage;
  LLVMValueRef all = LLVMConstInt(m->t_i1, 1, false);
  for (uint32_t i = 0; i < terms_of(program, &mask); i++) {
    dt_sym_t term = term_of(program, &mask, i);
    uint32_t own = loop_of(program, stage, term);
    if (own != v && own != stage->n_loops)
      continue;
    dt_sym_t at = dt__sym_const(m->env, value);
    if (own == v && own < stage->n_loops)
      term = dt__sym_subst(m->env, term, &stage->vars[v], &at, 1);
    LLVMValueRef holds = dt__index_scalar(k, term);
    dt__body_at(k, level);
    holds = LLVMBuildICmp(m->b, LLVMIntNE, holds, dt__emit_i64(m, 0), "");
    all = LLVMBuildAnd(m->b, all, holds, "");
  }
  return all;
}

LLVMValueRef dt__matmul_row_bits(dt_tile_t *t, uint32_t mask, uint32_t level) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  const dt_stage_t *stage = k->stage;
  dt_sym_t sym = stage->insts.items[mask].sym;
  LLVMValueRef bits = dt__emit_i32(m, 0);
  uint32_t at = 0;
  if (stage->n_loops == 1)
    return LLVMBuildZExt(m->b, conditions(t, sym, 1, 0, level), m->t_i32, "");
  for (uint32_t v = 0; v + 1 < stage->n_loops; v++)
    for (uint32_t e = 0; e < extent_of(&m->program, stage, v); e++, at++) {
      LLVMValueRef bit = LLVMBuildZExt(m->b, conditions(t, sym, v, e, level), m->t_i32, "");
      bit = LLVMBuildShl(m->b, bit, dt__emit_i32(m, at), "");
      bits = LLVMBuildOr(m->b, bits, bit, "");
    }
  return bits;
}

LLVMValueRef dt__matmul_row_has(dt_tile_t *t, LLVMValueRef bits, const LLVMValueRef *terms) {
  dt_emit_t *m = t->k->m;
  const dt_stage_t *stage = t->k->stage;
  LLVMValueRef has = bits;
  uint32_t at = 0;
  for (uint32_t v = 0; v + 1 < stage->n_loops; v++) {
    LLVMValueRef bit = LLVMBuildAdd(m->b, terms[v], dt__emit_i32(m, at), "");
    LLVMValueRef shifted = LLVMBuildLShr(m->b, bits, bit, "");
    shifted = LLVMBuildFreeze(m->b, shifted, ""); // past the sum's end there is no such bit
    has = v ? LLVMBuildAnd(m->b, has, shifted, "") : shifted;
    at += extent_of(&m->program, stage, v);
  }
  return LLVMBuildTrunc(m->b, has, m->t_i1, "");
}
