// SPDX-License-Identifier: Apache-2.0
// OUTER_LANES with iterations of the loop before the last side by side: copies of a vector are of
// these, not of further lanes (schedule.h, lower/loop/beside.c).
#include "backend_llvm/emit/index.h"
#include "backend_llvm/emit/loops.h"

static void all_stages(dt_body_t *k) {
  for (uint32_t s = 0; s < k->kernel->stages.len; s++)
    dt__stage_emit(k, s);
}

// Vectors of the last loop, each for as many copies, which are of the loop before it.
static void beside_vectors(dt_body_t *k, uint32_t copies, LLVMValueRef from, LLVMValueRef to) {
  dt_emit_t *m = k->m;
  uint32_t level = k->item_level + 1;
  bool whole = dt__blocks_are_whole(k);
  if (!dt__outer_enter(k, 0, k->kernel->stages.len))
    return;
  LLVMValueRef n =
      LLVMBuildAnd(m->b, LLVMBuildSub(m->b, to, from, ""), dt__emit_i64(m, -(int64_t)k->lanes), "");
  LLVMValueRef middle = whole ? to : LLVMBuildAdd(m->b, from, n, "");
  k->copies = copies;
  k->lane_base = dt__loop_open(k, level, from, middle, k->lanes);
  all_stages(k);
  dt__loop_close(k, level);
  if (!whole) {
    dt__bind_lane(k, level);
    k->lane_base = dt__loop_open(k, level, middle, to, k->lanes);
    k->masks[0] = dt__tail_mask(k, LLVMBuildSub(m->b, to, k->lane_base, ""));
    for (uint32_t c = 1; c < copies; c++)
      k->masks[c] = k->masks[0];
    all_stages(k);
    dt__loop_close(k, level);
  }
  for (uint32_t c = 0; c < copies; c++)
    k->masks[c] = NULL;
  k->copies = 1;
}

// All iterations of the loop before the last: side by side, then those that are left, one by one.
void dt__beside_item(dt_body_t *k, LLVMValueRef from, LLVMValueRef to) {
  dt_emit_t *m = k->m;
  uint32_t loop = k->kernel->n_loops - 2, beside = k->schedule->outer.beside;
  LLVMValueRef end = dt__index_scalar(k, k->kernel->extents[loop]);
  dt__body_at(k, 1);
  LLVMValueRef left = LLVMBuildURem(m->b, end, dt__emit_i64(m, beside), "");
  LLVMValueRef ends[3] = {dt__emit_i64(m, 0), LLVMBuildSub(m->b, end, left, ""), end};
  for (uint32_t pass = 0; pass < 2; pass++) {
    uint32_t copies = pass ? 1 : beside;
    LLVMValueRef at = dt__loop_open(k, 2, ends[pass], ends[pass + 1], copies);
    dt__bind_symbol(k, k->kernel->vars[loop], 2, at);
    k->beside = k->kernel->vars[loop];
    k->item_level = 2;
    beside_vectors(k, copies, from, to);
    k->item_level = 1;
    k->beside = DT_SYM_NONE_ID;
    dt__loop_close(k, 2);
  }
}
