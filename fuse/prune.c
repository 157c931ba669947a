// SPDX-License-Identifier: Apache-2.0
// Removes dead code: stores nobody reads, instructions no result needs, empty stages, idle kernels.
// Runs from the last kernel to the first, so one pass is enough. Checked indices (BIND) stay, since
// they can fail, unless another kernel makes the same check (checks.c); others where they are used.
#include "fuse/prune.h"
#include "fuse/body.h"
#include "fuse/fuse.h"
#include "runtime/base/status.h"

#include <string.h>

static void mark(bool *live, uint32_t inst) {
  if (inst != DT_NO_INST)
    live[inst] = true;
}

static void mark_reduction(bool *live, bool *kept, const dt_stage_t *stage, uint32_t reduction) {
  kept[reduction] = true;
  mark(live, stage->reductions.items[reduction].value);
  mark(live, stage->reductions.items[reduction].index);
}

// What stores, checks and the reductions already kept need; a running value that is needed keeps
// its reduction.
// One that reads what the iteration before left keeps its reduction, too, whose value stands behind
// it: then the walk begins again.
static bool mark_needed(const dt_stage_t *stage, const dt_inst_t *inst, bool *live, bool *kept) {
  bool again = false;
  for (int a = 0; a < 3; a++)
    mark(live, inst->args[a]);
  mark(live, inst->mask);
  if (inst->kind != DT_INST_RUNNING && inst->kind != DT_INST_PRIOR)
    return false;
  for (uint32_t f = 0; f < stage->reductions.len; f++)
    if (stage->reductions.items[f].row == inst->row) {
      again = again || (inst->kind == DT_INST_PRIOR && !kept[f]);
      mark_reduction(live, kept, stage, f);
    }
  return again;
}

// Whether a store, or a live instruction behind instruction k, is at a place that it binds.
static bool is_bound_for(dt_program_t *program, const dt_stage_t *stage, uint32_t k,
                         const bool *live) {
  dt_sym_t sym = stage->insts.items[k].sym;
  for (uint32_t i = k + 1; i < stage->insts.len; i++) {
    const dt_inst_t *inst = &stage->insts.items[i];
    if (live[i] && inst->kind == DT_INST_INDEX && dt__sym_depends(program->env, inst->sym, sym))
      return true;
    if (live[i] && inst->kind == DT_INST_LOAD &&
        dt__index_uses(program, inst->index, dt__program_buffer(program, inst->buffer)->rank, sym))
      return true;
  }
  for (uint32_t i = 0; i < stage->stores.len; i++) {
    const dt_store_t *store = &stage->stores.items[i];
    if (dt__index_uses(program, store->index, dt__program_buffer(program, store->buffer)->rank,
                       sym))
      return true;
  }
  return false;
}

static void find_live(dt_program_t *program, const dt_stage_t *stage, bool *live, bool *kept) {
  for (uint32_t k = 0; k < stage->stores.len; k++) {
    mark(live, stage->stores.items[k].value);
    mark(live, stage->stores.items[k].mask);
  }
  for (uint32_t k = 0; k < stage->reductions.len; k++)
    if (kept[k])
      mark_reduction(live, kept, stage, k);
  for (bool again = true; again;) {
    again = false;
    for (uint32_t k = stage->insts.len; k-- > 0;) {
      const dt_inst_t *inst = &stage->insts.items[k];
      if (dt__inst_checks(inst) ||
          (inst->kind == DT_INST_BIND && is_bound_for(program, stage, k, live)))
        live[k] = true;
      if (live[k])
        again = mark_needed(stage, &stage->insts.items[k], live, kept) || again;
    }
  }
}

static uint32_t renumbered(const uint32_t *map, uint32_t inst) {
  return inst == DT_NO_INST ? DT_NO_INST : map[inst];
}

// Drops what is not needed when all reductions for which `row_used` says so are.
static dt_status_t prune_stage(dt_program_t *program, dt_stage_t *stage, const bool *row_used) {
  uint32_t n = stage->insts.len;
  bool *live = DT_ARENA_ARRAY(program->arena, bool, n + 1);
  bool *kept_reductions = DT_ARENA_ARRAY(program->arena, bool, stage->reductions.len + 1);
  uint32_t *map = DT_ARENA_ARRAY(program->arena, uint32_t, n + 1);
  if (!live || !map || !kept_reductions)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < stage->reductions.len; k++)
    kept_reductions[k] = !row_used || row_used[stage->reductions.items[k].row];
  find_live(program, stage, live, kept_reductions);
  uint32_t kept = 0;
  for (uint32_t k = 0; k < n; k++) {
    if (!live[k])
      continue;
    dt_inst_t inst = stage->insts.items[k];
    for (int a = 0; a < 3; a++)
      inst.args[a] = renumbered(map, inst.args[a]);
    inst.mask = renumbered(map, inst.mask);
    map[k] = kept;
    stage->insts.items[kept++] = inst;
  }
  stage->insts.len = kept;
  for (uint32_t k = 0; k < stage->stores.len; k++) {
    stage->stores.items[k].value = map[stage->stores.items[k].value];
    stage->stores.items[k].mask = renumbered(map, stage->stores.items[k].mask);
  }
  uint32_t reductions = 0;
  for (uint32_t k = 0; k < stage->reductions.len; k++) {
    dt_reduction_t reduction = stage->reductions.items[k];
    if (!kept_reductions[k])
      continue;
    reduction.value = map[reduction.value];
    reduction.index = renumbered(map, reduction.index);
    stage->reductions.items[reductions++] = reduction;
  }
  stage->reductions.len = reductions;
  return NULL;
}

dt_status_t dt__prune_stage(dt_program_t *program, dt_stage_t *stage) {
  return prune_stage(program, stage, NULL);
}

static bool stage_is_idle(const dt_stage_t *stage) {
  if (stage->stores.len || stage->reductions.len)
    return false;
  for (uint32_t k = 0; k < stage->insts.len; k++)
    if (dt__inst_checks(&stage->insts.items[k]))
      return false;
  return true;
}

// Rows that later stages read.
static void find_used_rows(const dt_kernel_t *kernel, bool *used) {
  memset(used, 0, kernel->n_rows * sizeof(*used));
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t k = 0; k < kernel->stages.items[s].insts.len; k++) {
      const dt_inst_t *inst = &kernel->stages.items[s].insts.items[k];
      if (inst->kind == DT_INST_ROW)
        used[inst->row] = true;
    }
}

// Loads of each buffer, counted afresh; a kernel's own are subtracted as its code goes.
static void count_loads(const dt_kernel_t *kernel, uint32_t *loads, bool add) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t k = 0; k < kernel->stages.items[s].insts.len; k++) {
      const dt_inst_t *inst = &kernel->stages.items[s].insts.items[k];
      if (dt__inst_reads(inst).id)
        loads[inst->buffer.id - 1] += add ? 1U : UINT32_MAX;
    }
}

// Others read the store's buffer; what joins updates reads what it revises itself.
static bool is_read(const dt_stage_t *stage, const dt_store_t *store, const uint32_t *loads) {
  uint32_t own = 0;
  for (uint32_t k = 0; store->revises && k < stage->insts.len; k++)
    own += dt__inst_reads(&stage->insts.items[k]).id == store->buffer.id;
  return loads[store->buffer.id - 1] > own;
}

dt_status_t dt__prune_kernel(dt_program_t *program, dt_kernel_t *kernel, uint32_t *loads) {
  bool *row_used = DT_ARENA_ARRAY(program->arena, bool, kernel->n_rows + 1);
  if (!row_used)
    return DT_NO_MEMORY();
  for (uint32_t s = kernel->stages.len; s-- > 0;) {
    dt_stage_t *stage = &kernel->stages.items[s];
    uint32_t stores = 0;
    for (uint32_t k = 0; k < stage->stores.len; k++) {
      dt_buffer_id_t buffer = stage->stores.items[k].buffer;
      if (is_read(stage, &stage->stores.items[k], loads) ||
          dt__buffer_visible(dt__program_buffer(program, buffer)))
        stage->stores.items[stores++] = stage->stores.items[k];
    }
    stage->stores.len = stores;
    find_used_rows(kernel, row_used);
    count_loads(kernel, loads, false);
    DT_TRY(prune_stage(program, stage, row_used));
    count_loads(kernel, loads, true);
  }
  uint32_t kept = 0;
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    if (!stage_is_idle(&kernel->stages.items[s]))
      kernel->stages.items[kept++] = kernel->stages.items[s];
  kernel->stages.len = kept;
  return NULL;
}

static dt_status_t prune_kernels(dt_program_t *program) {
  uint32_t *loads = DT_ARENA_ARRAY(program->arena, uint32_t, program->buffers.len + 1);
  if (!loads)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < program->kernels.len; k++)
    count_loads(&program->kernels.items[k], loads, true);
  dt__count_readbacks(program, loads);
  for (uint32_t k = program->kernels.len; k-- > 0;)
    DT_TRY(dt__prune_kernel(program, &program->kernels.items[k], loads));
  uint32_t kept = 0;
  for (uint32_t k = 0; k < program->kernels.len; k++)
    if (program->kernels.items[k].stages.len)
      program->kernels.items[kept++] = program->kernels.items[k];
  program->kernels.len = kept;
  return NULL;
}

// Checks that go may have been the only readers of what others compute.
dt_status_t dt__fuse_prune(dt_program_t *program, const dt_target_t *target) {
  (void)target;
  for (bool again = true; again;) {
    DT_TRY(prune_kernels(program));
    DT_TRY(dt__prune_checks(program, &again));
  }
  return NULL;
}
