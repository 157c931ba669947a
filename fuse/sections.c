// SPDX-License-Identifier: Apache-2.0
// Fusion of programs with regions, section by section. A pass sees a program of one section's
// kernels and of the buffers that they touch, renumbered, so that a section costs what it contains
// and not what the program contains. A buffer that other sections touch (or that decides about a
// region) gets a kind that passes know:
//   an argument, where the section reads it; arguments are never dropped, moved or taken apart
//   a result, where the section writes it
//   an argument that is updated, where the last kernels of a loop's trip write the loop's state:
//   they stay last, nothing is inlined into them, and all that reads the old state comes before
// So no kernel, and no part of one, moves over the border of a region, and nothing is computed more
// often than the program says. Kernels of constants alone leave their regions when the program is
// planned.
//
// A section that equals an earlier one but for its buffers gets copies of what the pass made of
// that one. So the layers of a deep program, called by dt_subgraph, cost what one of them costs.
#include "fuse/body.h"
#include "fuse/fuse.h"
#include "fuse/repeats.h"
#include "runtime/base/status.h"

#include <stdlib.h>
#include <string.h>

#define SHARED UINT32_MAX // touched by several sections

// A buffer that the section in question touches. In its program the id is 1 + the place in the
// list.
typedef struct used_t {
  uint32_t id;
  bool written;
  dt_buffer_kind_t kind, seen; // what it is, and what it is to the section
} used_t;

typedef struct sections_t {
  dt_program_t *program;
  uint32_t *owner; // by buffer, [id - 1]: 1 + the only section that touches it, SHARED, or 0
  uint32_t *place; // by buffer, [id - 1]: where it stands in `used` while that is made, then its id
  DT_VEC(used_t) used;
  DT_VEC(dt_kernel_t) kernels;
  DT_VEC(dt_program_slices_t) slices;
  uint32_t n_chains;
} sections_t;

// ---- Who touches what -----------------------------------------------------------------------------
static void touch(sections_t *r, uint32_t id, uint32_t section) {
  uint32_t *owner = &r->owner[id - 1];
  *owner = *owner == 0 || *owner == section + 1 ? section + 1 : SHARED;
}

static void find_owners(sections_t *r) {
  const dt_program_t *program = r->program;
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    const dt_kernel_t *kernel = &program->kernels.items[k];
    for (uint32_t s = 0; s < kernel->stages.len; s++) {
      const dt_stage_t *stage = &kernel->stages.items[s];
      for (uint32_t i = 0; i < stage->stores.len; i++)
        touch(r, stage->stores.items[i].buffer.id, kernel->section);
      for (uint32_t i = 0; i < stage->insts.len; i++)
        if (dt__inst_reads(&stage->insts.items[i]).id)
          touch(r, stage->insts.items[i].buffer.id, kernel->section);
    }
  }
  for (uint32_t i = 0; i < program->regions.len; i++)
    r->owner[program->regions.items[i].predicate.id - 1] = SHARED;
}

static bool use(sections_t *r, uint32_t id, bool written) {
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

static int compare_used(const void *a, const void *b) {
  uint32_t x = ((const used_t *)a)->id, y = ((const used_t *)b)->id;
  return (x > y) - (x < y);
}

// What kernels [first, end) touch, in the program's order, and what tells of readbacks.
static dt_status_t find_used(sections_t *r, uint32_t first, uint32_t end) {
  const dt_program_t *program = r->program;
  bool good = true;
  r->used.len = 0;
  for (uint32_t k = first; good && k < end; k++)
    for (uint32_t s = 0; good && s < program->kernels.items[k].stages.len; s++) {
      const dt_stage_t *stage = &program->kernels.items[k].stages.items[s];
      for (uint32_t i = 0; good && i < stage->stores.len; i++)
        good = use(r, stage->stores.items[i].buffer.id, true);
      for (uint32_t i = 0; good && i < stage->insts.len; i++)
        if (dt__inst_reads(&stage->insts.items[i]).id)
          good = use(r, stage->insts.items[i].buffer.id, false);
    }
  for (uint32_t i = 0; good && i < program->readbacks.len; i++)
    good = use(r, program->readbacks.items[i].buffer.id, false);
  if (!good)
    return DT_NO_MEMORY();
  if (r->used.len)
    qsort(r->used.items, r->used.len, sizeof(*r->used.items), compare_used);
  return NULL;
}

// What the buffer is to the section.
static dt_buffer_kind_t seen_as(const sections_t *r, const used_t *used, uint32_t section) {
  const dt_buffer_t *buffer = &r->program->buffers.items[used->id - 1];
  bool shared = r->owner[used->id - 1] == SHARED;
  if (buffer->kind == DT_BUFFER_STATE && buffer->index &&
      r->program->regions.items[buffer->index - 1].section_end == section + 1)
    return DT_BUFFER_INPUT;
  if (buffer->kind == DT_BUFFER_STATE ||
      (shared && (buffer->kind == DT_BUFFER_TEMP || buffer->kind == DT_BUFFER_OUTPUT)))
    return used->written ? DT_BUFFER_OUTPUT : DT_BUFFER_INPUT;
  return buffer->kind;
}

// ---- The program of a section -------------------------------------------------------------------------
static dt_status_t take_kernels(sections_t *r, uint32_t first, uint32_t end, dt_program_t *view) {
  memset(&view->kernels, 0, sizeof(view->kernels));
  for (uint32_t k = first; k < end; k++) {
    dt__kernel_renumber(&r->program->kernels.items[k], r->place);
    if (!DT_VEC_PUSH(view->arena, &view->kernels, r->program->kernels.items[k]))
      return DT_NO_MEMORY();
  }
  return NULL;
}

static dt_status_t take_buffers(sections_t *r, uint32_t section, dt_program_t *view) {
  memset(&view->buffers, 0, sizeof(view->buffers));
  memset(&view->offsets, 0, sizeof(view->offsets));
  for (uint32_t i = 0; i < r->used.len; i++) {
    used_t *used = &r->used.items[i];
    dt_buffer_t buffer = r->program->buffers.items[used->id - 1];
    used->seen = buffer.kind = seen_as(r, used, section);
    if (!DT_VEC_PUSH(view->arena, &view->buffers, buffer) ||
        !DT_VEC_PUSH(view->arena, &view->offsets, DT_SYM_NONE_ID))
      return DT_NO_MEMORY();
    r->place[used->id - 1] = i + 1;
  }
  return NULL;
}

static dt_status_t take_readbacks(sections_t *r, dt_program_t *view) {
  memset(&view->readbacks, 0, sizeof(view->readbacks));
  for (uint32_t i = 0; i < r->program->readbacks.len; i++) {
    dt_readback_t readback = r->program->readbacks.items[i];
    readback.buffer.id = r->place[readback.buffer.id - 1];
    if (!DT_VEC_PUSH(view->arena, &view->readbacks, readback))
      return DT_NO_MEMORY();
  }
  return NULL;
}

// The slices that kernels of the section name, renumbered from 1.
static dt_status_t take_slices(sections_t *r, dt_program_t *view) {
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

static dt_status_t take(sections_t *r, uint32_t first, uint32_t end, dt_program_t *view) {
  uint32_t section = r->program->kernels.items[first].section;
  *view = *r->program;
  memset(&view->regions, 0, sizeof(view->regions));
  memset(&view->outputs, 0, sizeof(view->outputs));
  view->n_sections = 0;
  DT_TRY(find_used(r, first, end));
  DT_TRY(take_buffers(r, section, view));
  DT_TRY(take_kernels(r, first, end, view));
  DT_TRY(take_readbacks(r, view));
  return take_slices(r, view);
}

// What the pass made of buffers, and those that it added.
static dt_status_t keep_buffers(sections_t *r, const dt_program_t *view, uint32_t **out_ids) {
  dt_program_t *program = r->program;
  uint32_t *ids = *out_ids = DT_ARENA_ARRAY(program->arena, uint32_t, view->buffers.len + 1);
  if (!ids)
    return DT_NO_MEMORY();
  for (uint32_t i = 0; i < r->used.len; i++) {
    const used_t *used = &r->used.items[i];
    dt_buffer_t *buffer = &program->buffers.items[used->id - 1];
    *buffer = view->buffers.items[i];
    if (buffer->kind == used->seen) // what it was made (a temporary its kernel's own) it stays
      buffer->kind = used->kind;
    ids[i] = used->id;
  }
  for (uint32_t i = r->used.len; i < view->buffers.len; i++) {
    if (!DT_VEC_PUSH(program->arena, &program->buffers, view->buffers.items[i]) ||
        !DT_VEC_PUSH(program->arena, &program->offsets, view->offsets.items[i]))
      return DT_NO_MEMORY();
    ids[i] = program->buffers.len;
  }
  return NULL;
}

static dt_status_t keep_kernels(sections_t *r, const dt_program_t *view, uint32_t section,
                                const uint32_t *ids) {
  uint32_t base = r->slices.len, before = 0;
  for (uint32_t k = 0; k < view->kernels.len; k++) {
    dt_kernel_t kernel = view->kernels.items[k];
    uint32_t chain = kernel.chain;
    dt__kernel_renumber(&kernel, ids);
    kernel.section = section;
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

// Kernels [first, end) are a section.
static dt_status_t fuse_section(sections_t *r, uint32_t first, uint32_t end,
                                const dt_target_t *target, dt_fuse_fn_t pass) {
  uint32_t section = r->program->kernels.items[first].section, *ids = NULL;
  dt_program_t view;
  DT_TRY(take(r, first, end, &view));
  DT_TRY(pass(&view, target));
  r->program->checks = view.checks;
  DT_TRY(keep_buffers(r, &view, &ids));
  return keep_kernels(r, &view, section, ids);
}

// A call of a user's op is alone in its section, and stays as it is.
static bool is_call(const dt_kernel_t *kernel) { return kernel->external != 0; }

static dt_status_t keep_call(sections_t *r, const dt_kernel_t *kernel) {
  return DT_VEC_PUSH(r->program->arena, &r->kernels, *kernel) ? NULL : DT_NO_MEMORY();
}

// ---- Sections that repeat -------------------------------------------------------------------------
// What a pass made of a section: places in the new kernels and slices, and the buffers that it
// added.
typedef struct made_t {
  uint32_t kernel, kernel_end, slices, slices_end, buffer, buffer_end, chain;
} made_t;

// The buffers of `same` become what those of `one` were made, in copies of the added ones; `ids`:
// by buffer of the one.
static dt_status_t copy_buffers(sections_t *r, const dt_section_t *one, const dt_section_t *same,
                                const made_t *made, uint32_t *ids) {
  dt_program_t *program = r->program;
  for (uint32_t i = 0; i < one->n_buffers; i++) {
    uint32_t index = program->buffers.items[same->buffers[i] - 1].index;
    ids[one->buffers[i] - 1] = same->buffers[i];
    program->buffers.items[same->buffers[i] - 1] = program->buffers.items[one->buffers[i] - 1];
    program->buffers.items[same->buffers[i] - 1].index = index;
  }
  for (uint32_t i = made->buffer; i < made->buffer_end; i++) {
    dt_buffer_t buffer = program->buffers.items[i];
    if (!DT_VEC_PUSH(program->arena, &program->buffers, buffer) ||
        !DT_VEC_PUSH(program->arena, &program->offsets, DT_SYM_NONE_ID))
      return DT_NO_MEMORY();
    ids[i] = program->buffers.len;
  }
  return NULL;
}

static dt_status_t repeat_section(sections_t *r, const dt_section_t *one, const dt_section_t *same,
                                  const made_t *made) {
  dt_program_t *program = r->program;
  uint32_t section = program->kernels.items[same->first].section;
  uint32_t slices = r->slices.len, chains = r->n_chains;
  uint32_t *ids = DT_ARENA_ARRAY(program->arena, uint32_t, (size_t)program->buffers.len + 1);
  if (!ids)
    return DT_NO_MEMORY();
  DT_TRY(copy_buffers(r, one, same, made, ids));
  for (uint32_t i = made->slices; i < made->slices_end; i++) {
    dt_program_slices_t own = r->slices.items[i];
    if (!DT_VEC_PUSH(program->arena, &r->slices, own))
      return DT_NO_MEMORY();
  }
  for (uint32_t k = made->kernel; k < made->kernel_end; k++) {
    dt_kernel_t kernel = r->kernels.items[k];
    if (!dt__kernel_copy(program, &kernel))
      return DT_NO_MEMORY();
    dt__kernel_renumber(&kernel, ids);
    kernel.section = section;
    kernel.slices += kernel.slices ? slices - made->slices : 0;
    kernel.chain += kernel.chain ? chains - made->chain : 0;
    r->n_chains = kernel.chain > r->n_chains ? kernel.chain : r->n_chains;
    if (!DT_VEC_PUSH(program->arena, &r->kernels, kernel))
      return DT_NO_MEMORY();
  }
  return NULL;
}

static dt_status_t fuse_one(sections_t *r, const dt_section_t *section, const dt_target_t *target,
                            dt_fuse_fn_t pass, made_t *made) {
  const dt_kernel_t *first = &r->program->kernels.items[section->first];
  *made = (made_t){.kernel = r->kernels.len,
                   .slices = r->slices.len,
                   .buffer = r->program->buffers.len,
                   .chain = r->n_chains};
  DT_TRY(is_call(first) ? keep_call(r, first)
                        : fuse_section(r, section->first, section->end, target, pass));
  made->kernel_end = r->kernels.len;
  made->slices_end = r->slices.len;
  made->buffer_end = r->program->buffers.len;
  return NULL;
}

dt_status_t dt__fuse_each_section(dt_program_t *program, const dt_target_t *target,
                                  dt_fuse_fn_t pass) {
  sections_t r = {.program = program};
  if (program->n_sections == 0)
    return pass(program, target);
  r.owner = DT_ARENA_ARRAY(program->arena, uint32_t, program->buffers.len + 1);
  r.place = DT_ARENA_ARRAY(program->arena, uint32_t, program->buffers.len + 1);
  bool *shared = DT_ARENA_ARRAY(program->arena, bool, program->buffers.len + 1);
  if (!r.owner || !r.place || !shared)
    return DT_NO_MEMORY();
  find_owners(&r);
  for (uint32_t i = 0; i < program->buffers.len; i++)
    shared[i] = r.owner[i] == SHARED;
  dt_section_t *sections = NULL;
  uint32_t n = 0;
  DT_TRY(dt__find_sections(program, shared, &sections, &n));
  made_t *made = DT_ARENA_ARRAY(program->arena, made_t, (size_t)n + 1);
  if (!made)
    return DT_NO_MEMORY();
  for (uint32_t i = 0; i < n; i++) {
    uint32_t one = sections[i].same - 1;
    DT_TRY(sections[i].same ? repeat_section(&r, &sections[one], &sections[i], &made[one])
                            : fuse_one(&r, &sections[i], target, pass, &made[i]));
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
