// SPDX-License-Identifier: Apache-2.0
// Rows in registers. If a row has at most team * lanes * unroll elements, each thread has the same
// vectors of it in every stage. So a later stage reuses what an earlier one loaded or stored:
//
//   stage 0   max of x[i]            loads x
//   stage 1   L[i] = exp(x[i] - m)   uses x from registers, and keeps L there
//   stage 2   y[i] = L[i] / s        uses L
//
// Vectors past the row's end are read at the row's beginning instead, take no part in reductions
// and are not stored. Lengths are multiples of a vector here. Ragged rows occur only in SLABs:
// their last vector is read and stored whole, with zeros after the row's end.
#include "backend_llvm/emit/resident.h"
#include "backend_llvm/emit/body.h"
#include "backend_llvm/emit/index.h"
#include "backend_llvm/emit/loops.h"

bool dt__row_is_resident(dt_body_t *k) {
  return k->m->device && dt__schedule_is_resident(k->schedule);
}

// Which lanes of the vector at `at` are in the row.
static LLVMValueRef lanes_inside(dt_body_t *k, LLVMValueRef at, LLVMValueRef extent) {
  dt_emit_t *m = k->m;
  LLVMValueRef left = LLVMBuildTrunc(m->b, LLVMBuildNSWSub(m->b, extent, at, ""), m->t_i32, "");
  return LLVMBuildICmp(m->b, LLVMIntSLT, dt__emit_ramp(m->t_i32, k->lanes, 1),
                       dt__emit_splat(m, left, k->lanes), "");
}

void dt__resident_open(dt_body_t *k, uint32_t level, LLVMValueRef extent) {
  dt_emit_t *m = k->m;
  dt_scope_t *scope = &k->scopes[level];
  dt__body_at(k, level - 1);
  scope->block = k->scopes[level - 1].block;
  scope->memo.len = 0;
  k->lane_base = dt__own_start(k, dt__emit_i64(m, 0));
  for (uint32_t c = 0; c < k->copies && !k->resident.full; c++) {
    LLVMValueRef shift = dt__emit_i64(m, (int64_t)(c * k->lanes * k->team));
    LLVMValueRef at = LLVMBuildNSWAdd(m->b, k->lane_base, shift, "");
    k->resident.inside[c] = LLVMBuildICmp(m->b, LLVMIntSLT, at, extent, "");
    k->masks[c] = k->resident.ragged ? lanes_inside(k, at, extent)
                                     : dt__emit_splat(m, k->resident.inside[c], k->lanes);
  }
}

void dt__resident_close(dt_body_t *k, uint32_t level) {
  k->scopes[level - 1].block = k->scopes[level].block;
  k->scopes[level].memo.len = 0;
  for (uint32_t c = 0; c < DT_MAX_UNROLL; c++)
    k->resident.inside[c] = k->masks[c] = NULL;
  dt__body_at(k, level - 1);
}

// ---- What is kept ----------------------------------------------------------------------------------

// The lane variable of the first stage that has a loop, for that of this one.
static dt_sym_t canonical(dt_body_t *k, const dt_stage_t *stage, dt_sym_t offset) {
  const dt_kernel_t *kernel = k->kernel;
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *first = &kernel->stages.items[s];
    if (first->n_loops)
      return dt__sym_subst(k->m->env, offset, &stage->vars[0], &first->vars[0], 1);
  }
  return offset;
}

bool dt__resident_find(dt_body_t *k, dt_buffer_id_t buffer, dt_sym_t offset, dt_lanes_t *out) {
  dt_sym_t at = canonical(k, k->stage, offset);
  for (uint32_t i = 0; i < k->resident.kept.len; i++) {
    const dt_resident_t *kept = &k->resident.kept.items[i];
    if (kept->buffer.id != buffer.id || kept->offset.id != at.id)
      continue;
    *out = kept->value;
    return true;
  }
  return false;
}

void dt__resident_put(dt_body_t *k, dt_buffer_id_t buffer, dt_sym_t offset,
                      const dt_lanes_t *value) {
  dt_resident_t kept = {
      .buffer = buffer, .offset = canonical(k, k->stage, offset), .value = *value};
  if (!DT_VEC_PUSH(&k->m->arena, &k->resident.kept, kept))
    dt__emit_fail(k->m, DT_NO_MEMORY());
}

void dt__resident_store(dt_body_t *k, dt_buffer_id_t buffer, dt_sym_t offset,
                        const dt_lanes_t *value) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < k->resident.kept.len; i++)
    if (k->resident.kept.items[i].buffer.id != buffer.id)
      k->resident.kept.items[n++] = k->resident.kept.items[i];
  k->resident.kept.len = n;
  if (value)
    dt__resident_put(k, buffer, offset, value);
}

// ---- LOCAL buffers without memory -------------------------------------------------------------------

// Every access of a stage to the buffer stands at one place of the row: *at, set by the first.
static bool stage_agrees(dt_body_t *k, const dt_stage_t *stage, dt_buffer_id_t buffer,
                         dt_sym_t *at) {
  for (uint32_t i = 0; i < stage->insts.len + stage->stores.len; i++) {
    bool load = i < stage->insts.len;
    const dt_inst_t *inst = load ? &stage->insts.items[i] : NULL;
    const dt_store_t *store = load ? NULL : &stage->stores.items[i - stage->insts.len];
    if ((load ? dt__inst_reads(inst).id : store->buffer.id) != buffer.id)
      continue;
    dt_sym_t coef, rest;
    int64_t step = 0;
    bool plain =
        load ? inst->kind == DT_INST_LOAD && inst->mask == DT_NO_INST : store->mask == DT_NO_INST;
    if (!plain || !stage->n_loops)
      return false;
    dt_sym_t offset = dt__access_offset(k, buffer, load ? inst->index : store->index);
    if (!dt__sym_linear(k->m->env, offset, stage->vars[0], &coef, &rest) ||
        !dt__sym_is_const(k->m->env, coef, &step) || step != 1)
      return false;
    dt_sym_t own = canonical(k, stage, offset);
    if (at->id && at->id != own.id)
      return false;
    *at = own;
  }
  return true;
}

bool dt__resident_owns(dt_body_t *k, dt_buffer_id_t buffer) {
  if (dt__program_buffer(&k->m->program, buffer)->kind != DT_BUFFER_LOCAL &&
      buffer.id != k->resident.held.id)
    return false;
  dt_sym_t at = {0};
  for (uint32_t s = 0; s < k->kernel->stages.len; s++)
    if (!stage_agrees(k, &k->kernel->stages.items[s], buffer, &at))
      return false;
  return true;
}
