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

// A buffer that the run in question touches.
typedef struct used_t {
  uint32_t id;
  bool written;
  dt_buffer_kind_t kind, seen; // what it is, and what it is to the run
} used_t;

typedef struct runs_t {
  dt_program_t *program;
  uint32_t n_tables; // buffers that the tables have room for
  uint32_t *owner;   // by buffer, [id - 1]: 1 + the only run that touches it, SHARED, or 0
  uint32_t *place;   // by buffer, [id - 1]: where it stands in `used`, where it does
  DT_VEC(used_t) used;
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

static bool use(runs_t *r, uint32_t id, bool written) {
  uint32_t at = r->place[id - 1];
  bool listed = at < r->used.len && r->used.items[at].id == id;
  if (!listed) {
    at = r->place[id - 1] = r->used.len;
    used_t used = {.id = id, .kind = dt__program_buffer(r->program, (dt_buffer_id_t){id})->kind};
    if (!DT_VEC_PUSH(r->program->arena, &r->used, used))
      return false;
  }
  r->used.items[at].written |= written;
  return true;
}

// What the kernels of `view` touch.
static dt_status_t find_used(runs_t *r, const dt_program_t *view) {
  bool good = true;
  r->used.len = 0;
  for (uint32_t k = 0; good && k < view->kernels.len; k++)
    for (uint32_t s = 0; good && s < view->kernels.items[k].stages.len; s++) {
      const dt_stage_t *stage = &view->kernels.items[k].stages.items[s];
      for (uint32_t i = 0; good && i < stage->stores.len; i++)
        good = use(r, stage->stores.items[i].buffer.id, true);
      for (uint32_t i = 0; good && i < stage->insts.len; i++)
        if (dt__inst_reads(&stage->insts.items[i]).id)
          good = use(r, stage->insts.items[i].buffer.id, false);
    }
  return good ? NULL : DT_NO_MEMORY();
}

// What the buffer is to run `run`.
static dt_buffer_kind_t seen_as(const runs_t *r, const used_t *used, uint32_t run) {
  const dt_buffer_t *buffer = &r->program->buffers.items[used->id - 1];
  bool shared = r->owner[used->id - 1] == SHARED;
  if (buffer->kind == DT_BUFFER_STATE && buffer->index &&
      r->program->regions.items[buffer->index - 1].run_end == run + 1)
    return DT_BUFFER_INPUT;
  if (buffer->kind == DT_BUFFER_STATE ||
      (shared && (buffer->kind == DT_BUFFER_TEMP || buffer->kind == DT_BUFFER_OUTPUT)))
    return used->written ? DT_BUFFER_OUTPUT : DT_BUFFER_INPUT;
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
  uint32_t run = program->kernels.items[first].run;
  memset(&view.kernels, 0, sizeof(view.kernels));
  memset(&view.regions, 0, sizeof(view.regions));
  view.n_runs = 0;
  for (uint32_t k = first; k < end; k++)
    if (!DT_VEC_PUSH(program->arena, &view.kernels, program->kernels.items[k]))
      return DT_NO_MEMORY();
  DT_TRY(take_slices(r, &view));
  DT_TRY(find_used(r, &view));
  for (uint32_t i = 0; i < r->used.len; i++)
    r->used.items[i].seen = seen_as(r, &r->used.items[i], run);
  for (uint32_t i = 0; i < r->used.len; i++)
    view.buffers.items[r->used.items[i].id - 1].kind = r->used.items[i].seen;
  dt_status_t status = pass(&view, target);
  // What a pass made something else (a temporary its kernel's own) stays that.
  for (uint32_t i = 0; i < r->used.len; i++) {
    dt_buffer_t *buffer = &view.buffers.items[r->used.items[i].id - 1];
    if (buffer->kind == r->used.items[i].seen)
      buffer->kind = r->used.items[i].kind;
  }
  program->buffers = view.buffers;
  program->offsets = view.offsets;
  program->checks = view.checks;
  DT_TRY(status);
  return keep(r, &view, run);
}

// The tables by buffer have room for those that passes add: they belong to one run.
static dt_status_t make_room(runs_t *r) {
  uint32_t n = r->program->buffers.len, before = r->n_tables;
  if (n <= before && before)
    return NULL;
  uint32_t *owner = r->owner, *place = r->place;
  r->n_tables = n + n / 2 + 1;
  r->owner = DT_ARENA_ARRAY(r->program->arena, uint32_t, r->n_tables);
  r->place = DT_ARENA_ARRAY(r->program->arena, uint32_t, r->n_tables);
  if (!r->owner || !r->place)
    return DT_NO_MEMORY();
  if (before) {
    memcpy(r->owner, owner, before * sizeof(*owner));
    memcpy(r->place, place, before * sizeof(*place));
  }
  return NULL;
}

dt_status_t dt__fuse_each_run(dt_program_t *program, const dt_target_t *target, dt_fuse_fn_t pass) {
  runs_t r = {.program = program};
  if (program->regions.len == 0)
    return pass(program, target);
  DT_TRY(make_room(&r));
  find_owners(&r);
  for (uint32_t first = 0, end = 0; first < program->kernels.len; first = end) {
    uint32_t run = program->kernels.items[first].run;
    while (end < program->kernels.len && program->kernels.items[end].run == run)
      end++;
    DT_TRY(fuse_run(&r, first, end, target, pass));
    DT_TRY(make_room(&r));
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
