// SPDX-License-Identifier: Apache-2.0
// Whether iterations of the last but one outer loop can run side by side, where lanes are on the
// last one: every access that moves with either does so linearly, by neighbours along the lanes, so
// that an iteration's addresses are those of the one before, moved by a number.
#include "lower/loop/loop.h"

static bool moves_along(dt_program_t *program, const dt_kernel_t *kernel, dt_buffer_id_t buffer,
                        const dt_sym_t *index) {
  dt_symenv_t *env = program->env;
  dt_sym_t lane = kernel->vars[kernel->n_loops - 1], beside = kernel->vars[kernel->n_loops - 2];
  dt_sym_t place = dt__access_place(program, kernel, buffer, index), coef, rest;
  int64_t step = 0;
  if (dt__program_buffer(program, buffer)->kind == DT_BUFFER_LOCAL)
    return false;
  if (!dt__sym_depends(env, place, lane))
    return !dt__sym_depends(env, place, beside);
  return dt__sym_linear(env, place, lane, &coef, &rest) && dt__sym_is_const(env, coef, &step) &&
         step == 1 && !dt__sym_depends(env, coef, beside) &&
         dt__sym_linear(env, rest, beside, &coef, &rest);
}

static bool inst_moves_along(dt_program_t *program, const dt_kernel_t *kernel,
                             const dt_inst_t *inst) {
  switch (inst->kind) {
  case DT_INST_LOAD:
    return inst->mask == DT_NO_INST && moves_along(program, kernel, inst->buffer, inst->index);
  case DT_INST_CONST:
  case DT_INST_SCALAR:
  case DT_INST_CAST:
  case DT_INST_BITS:
  case DT_INST_ROW:
    return true;
  default:
    return false;
  }
}

bool dt__kernel_runs_beside(dt_program_t *program, const dt_kernel_t *kernel) {
  if (kernel->n_loops < 2)
    return false;
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    for (uint32_t v = 0; v < stage->n_loops; v++)
      if (dt__sym_depends(program->env, stage->extents[v], kernel->vars[kernel->n_loops - 1]) ||
          dt__sym_depends(program->env, stage->extents[v], kernel->vars[kernel->n_loops - 2]))
        return false;
    for (uint32_t i = 0; i < stage->insts.len; i++)
      if (!inst_moves_along(program, kernel, &stage->insts.items[i]))
        return false;
    for (uint32_t i = 0; i < stage->stores.len; i++) {
      const dt_store_t *store = &stage->stores.items[i];
      if (store->mask != DT_NO_INST || store->revises || store->whole ||
          !moves_along(program, kernel, store->buffer, store->index))
        return false;
    }
  }
  return true;
}
