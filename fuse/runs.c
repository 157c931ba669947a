// SPDX-License-Identifier: Apache-2.0
// Fusion of programs with regions, run by run. While a pass looks at one run, the program holds
// that run's kernels alone, and every buffer that other runs touch (or that decides about a region)
// is called what passes know already:
//   an argument, where the run reads it; arguments are never dropped, moved or taken apart
//   a result, where the run writes it
//   an argument that is updated, where the last kernels of a loop's trip write the loop's state:
//   they stay last, nothing is inlined into them, and all that reads the old state comes before
// So no kernel, and no part of one, goes over the border of a region, and nothing is made more
// often than the program says. Kernels of constants alone leave their regions when the program is
// planned.
#include "fuse/body.h"
#include "fuse/fuse.h"
#include "runtime/base/status.h"

#include <string.h>

#define SHARED UINT32_MAX // touched by several runs

typedef struct runs_t {
  dt_program_t *program;
  uint32_t *owner;         // by buffer, [id - 1]: 1 + the only run that touches it, SHARED, or 0
  dt_buffer_kind_t *kinds; // by buffer, [id - 1]: what it is
  DT_VEC(dt_kernel_t) kernels;
  DT_VEC(dt_program_slices_t) slices;
  uint32_t n_chains;
} runs_t;

// ---- Who touches what -----------------------------------------------------------------------------
static void touch(runs_t *r, uint32_t id, uint32_t run) {
  uint32_t *owner = &r->owner[id - 1];
  *owner = *owner == 0 || *owner == run + 1 ? run + 1 : SHARED;
}

static void find_owners(runs_t *r) {
  const dt_program_t *program = r->program;
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    const dt_kernel_t *kernel = &program->kernels.items[k];
    for (uint32_t s = 0; s < kernel->stages.len; s++) {
      const dt_stage_t *stage = &kernel->stages.items[s];
      for (uint32_t i = 0; i < stage->stores.len; i++)
        touch(r, stage->stores.items[i].buffer.id, kernel->run);
      for (uint32_t i = 0; i < stage->insts.len; i++)
        if (dt__inst_reads(&stage->insts.items[i]).id)
          touch(r, stage->insts.items[i].buffer.id, kernel->run);
    }
  }
  for (uint32_t i = 0; i < program->regions.len; i++)
    r->owner[program->regions.items[i].predicate.id - 1] = SHARED;
}

static bool writes(const dt_program_t *view, uint32_t id) {
  for (uint32_t k = 0; k < view->kernels.len; k++)
    if (dt__kernel_stores_to(&view->kernels.items[k], id))
      return true;
  return false;
}

// What buffer `id` is to the run that `view` holds.
static dt_buffer_kind_t seen_as(const runs_t *r, const dt_program_t *view, uint32_t id,
                                uint32_t run) {
  const dt_buffer_t *buffer = &view->buffers.items[id - 1];
  bool shared = r->owner[id - 1] == SHARED;
  if (buffer->kind == DT_BUFFER_STATE && buffer->index &&
      r->program->regions.items[buffer->index - 1].run_end == run + 1)
    return DT_BUFFER_INPUT;
  if (buffer->kind == DT_BUFFER_STATE ||
      (shared && (buffer->kind == DT_BUFFER_TEMP || buffer->kind == DT_BUFFER_OUTPUT)))
    return writes(view, id) ? DT_BUFFER_OUTPUT : DT_BUFFER_INPUT;
  return buffer->kind;
}

// ---- One run --------------------------------------------------------------------------------------
// The slices that kernels of the run name, renumbered from 1.
static dt_status_t take_slices(runs_t *r, dt_program_t *view) {
  uint32_t least = UINT32_MAX, most = 0;
  memset(&view->slices, 0, sizeof(view->slices));
  for (uint32_t k = 0; k < view->kernels.len; k++) {
    uint32_t own = view->kernels.items[k].slices;
    least = own && own < least ? own : least;
    most = own > most ? own : most;
  }
  for (uint32_t i = least; i <= most; i++)
    if (!DT_VEC_PUSH(view->arena, &view->slices, r->program->slices.items[i - 1]))
      return DT_NO_MEMORY();
  for (uint32_t k = 0; k < view->kernels.len; k++)
    if (view->kernels.items[k].slices)
      view->kernels.items[k].slices -= least - 1;
  return NULL;
}

static dt_status_t keep(runs_t *r, const dt_program_t *view, uint32_t run) {
  uint32_t base = r->slices.len, before = 0;
  for (uint32_t k = 0; k < view->kernels.len; k++) {
    dt_kernel_t kernel = view->kernels.items[k];
    uint32_t chain = kernel.chain;
    kernel.run = run;
    kernel.slices += kernel.slices ? base : 0;
    r->n_chains += chain && chain != before;
    kernel.chain = chain ? r->n_chains : 0;
    before = chain;
    if (!DT_VEC_PUSH(view->arena, &r->kernels, kernel))
      return DT_NO_MEMORY();
  }
  for (uint32_t i = 0; i < view->slices.len; i++)
    if (!DT_VEC_PUSH(view->arena, &r->slices, view->slices.items[i]))
      return DT_NO_MEMORY();
  return NULL;
}

// Kernels [first, end) are a run.
static dt_status_t fuse_run(runs_t *r, uint32_t first, uint32_t end, const dt_target_t *target,
                            dt_fuse_fn_t pass) {
  dt_program_t *program = r->program, view = *program;
  uint32_t n = program->buffers.len, run = program->kernels.items[first].run;
  memset(&view.kernels, 0, sizeof(view.kernels));
  memset(&view.regions, 0, sizeof(view.regions));
  view.n_runs = 0;
  for (uint32_t k = first; k < end; k++)
    if (!DT_VEC_PUSH(program->arena, &view.kernels, program->kernels.items[k]))
      return DT_NO_MEMORY();
  DT_TRY(take_slices(r, &view));
  dt_buffer_kind_t *seen = DT_ARENA_ARRAY(program->arena, dt_buffer_kind_t, (size_t)n + 1);
  if (!seen)
    return DT_NO_MEMORY();
  for (uint32_t b = 0; b < n; b++) {
    r->kinds[b] = view.buffers.items[b].kind;
    seen[b] = seen_as(r, &view, b + 1, run);
  }
  for (uint32_t b = 0; b < n; b++)
    view.buffers.items[b].kind = seen[b];
  dt_status_t status = pass(&view, target);
  // What a pass made something else (a temporary its kernel's own) stays that.
  for (uint32_t b = 0; b < n; b++)
    if (view.buffers.items[b].kind == seen[b])
      view.buffers.items[b].kind = r->kinds[b];
  program->buffers = view.buffers;
  program->offsets = view.offsets;
  program->checks = view.checks;
  DT_TRY(status);
  return keep(r, &view, run);
}

// The tables by buffer have room for those that passes add: they belong to one run.
static dt_status_t start(runs_t *r) {
  size_t n = (size_t)r->program->buffers.len + 1;
  r->owner = DT_ARENA_ARRAY(r->program->arena, uint32_t, n);
  r->kinds = DT_ARENA_ARRAY(r->program->arena, dt_buffer_kind_t, n);
  return r->owner && r->kinds ? NULL : DT_NO_MEMORY();
}

static dt_status_t grow(runs_t *r, uint32_t before) {
  uint32_t n = r->program->buffers.len;
  if (n == before)
    return NULL;
  uint32_t *owner = DT_ARENA_ARRAY(r->program->arena, uint32_t, (size_t)n + 1);
  r->kinds = DT_ARENA_ARRAY(r->program->arena, dt_buffer_kind_t, (size_t)n + 1);
  if (!owner || !r->kinds)
    return DT_NO_MEMORY();
  memcpy(owner, r->owner, before * sizeof(*owner));
  r->owner = owner;
  return NULL;
}

dt_status_t dt__fuse_each_run(dt_program_t *program, const dt_target_t *target, dt_fuse_fn_t pass) {
  runs_t r = {.program = program};
  if (program->regions.len == 0)
    return pass(program, target);
  DT_TRY(start(&r));
  find_owners(&r);
  for (uint32_t first = 0, end = 0; first < program->kernels.len; first = end) {
    uint32_t run = program->kernels.items[first].run, before = program->buffers.len;
    while (end < program->kernels.len && program->kernels.items[end].run == run)
      end++;
    DT_TRY(fuse_run(&r, first, end, target, pass));
    DT_TRY(grow(&r, before));
  }
  program->kernels.items = r.kernels.items;
  program->kernels.len = r.kernels.len;
  program->kernels.cap = r.kernels.cap;
  program->slices.items = r.slices.items;
  program->slices.len = r.slices.len;
  program->slices.cap = r.slices.cap;
  DT_TRY(dt__program_settle_slices(program));
  return dt__program_settle_regions(program);
}
