// SPDX-License-Identifier: Apache-2.0
// Squares of a map that reads along the last loop but one and writes along the last one (a
// transpose). Threads load with neighbours along the one loop, hand each other what they loaded in
// shared memory, and go on with neighbours along the other. Rows in shared memory are one element
// longer than the square, so that two threads of a warp never meet in a bank.
#include "backend_cuda/emit/device.h"
#include "backend_llvm/emit/index.h"
#include "backend_llvm/emit/insts.h"

#include "runtime/base/status.h"

#include <stdio.h>

#define ITEM 1
#define ROUND 2
#define POINT 3 // levels

typedef struct tile_t {
  dt_body_t *k;
  uint32_t side;
  LLVMValueRef first[2]; // of the square, in the last two loops
  LLVMValueRef at[2];    // of this thread in this round, from there
  LLVMValueRef rank;     // of this thread in the block: points are its own, not the team's
  bool whole;            // no part of the square is outside
  bool *crosses;         // by instruction: loaded along the last loop but one
} tile_t;

static bool moves_with(dt_body_t *k, const dt_inst_t *inst, dt_sym_t var) {
  dt_sym_t offset = dt__access_offset(k, inst->buffer, inst->index), coef, rest;
  int64_t step = 0;
  return dt__sym_linear(k->m->env, offset, var, &coef, &rest) &&
         dt__sym_is_const(k->m->env, coef, &step) && step == 1;
}

static dt_status_t find_crossing(tile_t *t) {
  dt_body_t *k = t->k;
  const dt_kernel_t *kernel = k->kernel;
  const dt_stage_t *stage = &kernel->stages.items[0];
  dt_sym_t row = kernel->vars[kernel->n_loops - 2], col = kernel->vars[kernel->n_loops - 1];
  t->crosses = DT_ARENA_ARRAY(&k->m->arena, bool, stage->insts.len + 1);
  if (!t->crosses)
    return DT_NO_MEMORY();
  for (uint32_t i = 0; i < stage->insts.len; i++) {
    const dt_inst_t *inst = &stage->insts.items[i];
    if (inst->kind != DT_INST_LOAD)
      continue;
    dt_sym_t offset = dt__access_offset(k, inst->buffer, inst->index);
    t->crosses[i] = moves_with(k, inst, row) && !moves_with(k, inst, col) &&
                    dt__sym_depends(k->m->env, offset, col);
  }
  return NULL;
}

// The place of this thread's element of load `inst` in shared memory.
static LLVMValueRef place(tile_t *t, uint32_t inst) {
  dt_emit_t *m = t->k->m;
  char name[64];
  (void)snprintf(name, sizeof(name), "dt_tile_%s_%u", LLVMGetValueName(t->k->fn), inst);
  LLVMTypeRef type = dt__emit_memory_type(m, t->k->kernel->stages.items[0].insts.items[inst].dtype);
  uint32_t pitch = t->side + 1;
  LLVMValueRef all = dt__cuda_shared(m, name, LLVMArrayType2(type, (uint64_t)t->side * pitch));
  LLVMValueRef at = LLVMBuildMul(m->b, t->at[1], dt__emit_i64(m, pitch), "");
  at = LLVMBuildTrunc(m->b, LLVMBuildAdd(m->b, at, t->at[0], ""), m->t_i32, "");
  return LLVMBuildGEP2(m->b, type, all, &at, 1, "");
}

static void keep_loads(tile_t *t) {
  dt_body_t *k = t->k;
  const dt_stage_t *stage = k->stage;
  for (uint32_t i = 0; i < stage->insts.len; i++) {
    if (!t->crosses[i])
      continue;
    LLVMValueRef value = dt__inst_value(k, i).v[0];
    dt__body_at(k, POINT);
    dt__emit_store(k->m, stage->insts.items[i].dtype, value, place(t, i), NULL);
  }
}

static void finish(tile_t *t) {
  dt_body_t *k = t->k;
  const dt_stage_t *stage = k->stage;
  dt__body_at(k, POINT);
  for (uint32_t i = 0; i < stage->insts.len; i++)
    if (t->crosses[i])
      dt__inst_preset(k, i,
                      dt__emit_load(k->m, stage->insts.items[i].dtype, 0, place(t, i), NULL, NULL));
  dt__stage_stores(k);
}

// All points of the square, neighbouring threads along loop `along` of the two.
static void walk(tile_t *t, uint32_t along, void (*point)(tile_t *t)) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  const dt_kernel_t *kernel = k->kernel;
  uint32_t n = kernel->n_loops, rows = k->team / t->side;
  dt__body_at(k, ITEM);
  LLVMValueRef size = dt__emit_i64(m, t->side);
  LLVMValueRef near = LLVMBuildURem(m->b, t->rank, size, ""),
               far = LLVMBuildUDiv(m->b, t->rank, size, "");
  LLVMValueRef round = dt__loop_open(k, ROUND, dt__emit_i64(m, 0), size, rows);
  t->at[along] = near;
  t->at[1 - along] = LLVMBuildNSWAdd(m->b, round, far, "");
  LLVMValueRef inside = LLVMConstInt(m->t_i1, 1, 0), here[2];
  for (uint32_t i = 0; i < 2; i++) {
    LLVMValueRef extent = dt__index_scalar(k, kernel->extents[n - 2 + i]);
    dt__body_at(k, ROUND);
    here[i] = LLVMBuildNSWAdd(m->b, t->first[i], t->at[i], "");
    if (!t->whole)
      inside = LLVMBuildAnd(m->b, inside, LLVMBuildICmp(m->b, LLVMIntSLT, here[i], extent, ""), "");
  }
  LLVMValueRef times = LLVMBuildZExt(m->b, inside, m->t_i64, "");
  (void)dt__loop_open(k, POINT, dt__emit_i64(m, 0), times, 1);
  for (uint32_t i = 0; i < 2; i++)
    dt__bind_symbol(k, kernel->vars[n - 2 + i], POINT, here[i]);
  k->stage_level = POINT;
  dt_status_t status = dt__stage_enter(k, 0);
  if (status)
    dt__emit_fail(m, status);
  else
    point(t);
  dt__loop_close(k, POINT);
  dt__loop_close(k, ROUND);
}

void dt__cuda_tile(dt_body_t *k, LLVMValueRef row, LLVMValueRef col) {
  dt_emit_t *m = k->m;
  tile_t t = {.k = k, .side = (uint32_t)k->schedule->tiles.side, .rank = k->rank};
  dt_status_t status = find_crossing(&t);
  if (status) {
    dt__emit_fail(m, status);
    return;
  }
  k->axis = false;
  k->rank = NULL;
  dt__body_at(k, ITEM);
  LLVMValueRef side = dt__emit_i64(m, t.side), first[2] = {row, col};
  LLVMValueRef whole = LLVMConstInt(m->t_i1, 1, 0);
  for (uint32_t i = 0; i < 2; i++) {
    LLVMValueRef extent = dt__index_scalar(k, k->kernel->extents[k->kernel->n_loops - 2 + i]);
    dt__body_at(k, ITEM);
    t.first[i] = LLVMBuildNSWMul(m->b, first[i], side, "");
    LLVMValueRef end = LLVMBuildNSWAdd(m->b, t.first[i], side, "");
    whole = LLVMBuildAnd(m->b, whole, LLVMBuildICmp(m->b, LLVMIntSLE, end, extent, ""), "");
  }
  dt_scope_t *item = &k->scopes[ITEM];
  uint32_t known = item->memo.len;
  LLVMBasicBlockRef ways[2] = {dt__emit_block(m, k->fn, "part"),
                               dt__emit_block(m, k->fn, "square")};
  LLVMBasicBlockRef done = dt__emit_block(m, k->fn, "done");
  LLVMBuildCondBr(m->b, whole, ways[1], ways[0]);
  for (uint32_t i = 0; i < 2; i++) {
    t.whole = i;
    item->block = ways[i];
    item->memo.len = known; // what one way computes the other does not see
    walk(&t, 0, keep_loads);
    m->device->sync(k);
    walk(&t, 1, finish);
    LLVMBuildBr(m->b, done);
  }
  item->block = done;
  item->memo.len = known;
  dt__body_at(k, ITEM);
  k->rank = t.rank;
  m->device->sync(k); // the next square's loads overwrite
}
