// SPDX-License-Identifier: Apache-2.0
// Copying a stage's body into another one with symbols replaced.
#include "lower/loop/loop_private.h"
#include "runtime/base/status.h"

#include <string.h>

typedef struct inliner_t {
  dt_program_t *program;
  DT_VEC(dt_sym_t) from;
  DT_VEC(dt_sym_t) to;
} inliner_t;

static dt_status_t rename_symbol(inliner_t *ctx, dt_sym_t from, dt_sym_t to) {
  dt_arena_t *arena = ctx->program->arena;
  if (!DT_VEC_PUSH(arena, &ctx->from, from) || !DT_VEC_PUSH(arena, &ctx->to, to))
    return DT_NO_MEMORY();
  return NULL;
}

static dt_sym_t subst(inliner_t *ctx, dt_sym_t e) {
  return dt__sym_subst(ctx->program->env, e, ctx->from.items, ctx->to.items, ctx->from.len);
}

// A bind keeps its meaning under another symbol: its uses, which follow it, are renamed. Where the
// target already binds the same value, that symbol serves.
static dt_status_t inline_bind(inliner_t *ctx, dt_stage_t *into, dt_inst_t *inst, uint32_t *out) {
  dt_sym_t old = inst->sym;
  inst->extent = subst(ctx, inst->extent);
  *out = dt__stage_find(ctx->program, into, inst);
  if (*out == DT_NO_INST) {
    inst->sym = dt__program_new_data(ctx->program, inst->extent);
    DT_TRY(dt__stage_add(ctx->program, into, inst, out));
  }
  return rename_symbol(ctx, old, into->insts.items[*out].sym);
}

static dt_status_t inline_inst(inliner_t *ctx, dt_stage_t *into, dt_inst_t *inst, uint32_t *out) {
  if (inst->kind == DT_INST_BIND)
    return inline_bind(ctx, into, inst, out);
  dt_sym_t index[DT_MAX_RANK];
  if (inst->kind == DT_INST_INDEX)
    inst->sym = subst(ctx, inst->sym);
  if (inst->kind == DT_INST_LOAD) {
    uint32_t rank = dt__program_buffer(ctx->program, inst->buffer)->rank;
    for (uint32_t d = 0; d < rank; d++)
      index[d] = subst(ctx, inst->index[d]);
    inst->index = index;
  }
  return dt__stage_add(ctx->program, into, inst, out);
}

dt_status_t dt__stage_inline(dt_program_t *program, dt_stage_t *into, const dt_stage_t *from,
                             const dt_sym_t *from_vars, const dt_sym_t *to_exprs, uint32_t n_vars,
                             uint32_t row_base, uint32_t *map) {
  inliner_t ctx = {.program = program};
  for (uint32_t k = 0; k < n_vars; k++)
    DT_TRY(rename_symbol(&ctx, from_vars[k], to_exprs[k]));
  for (uint32_t i = 0; i < from->insts.len; i++) {
    dt_inst_t inst = from->insts.items[i];
    for (uint32_t k = 0; k < 3; k++)
      if (inst.args[k] != DT_NO_INST)
        inst.args[k] = map[inst.args[k]];
    if (inst.mask != DT_NO_INST)
      inst.mask = map[inst.mask];
    inst.row += row_base;
    DT_TRY(inline_inst(&ctx, into, &inst, &map[i]));
  }
  return dt__symenv_status(program->env);
}
