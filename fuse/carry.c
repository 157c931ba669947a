// SPDX-License-Identifier: Apache-2.0
// Writes the state of loops in place. A trip computes its new state in temporaries and copies them
// last of all, so other passes need not know of state. The kernel that makes such a temporary can
// often write the state itself. It can if no kernel after it needs the old state, and if it reads
// only that element of the old state that it writes. Kernels that read the temporary later then
// read the new state. In the same way a scatter can revise its operand instead of a copy.
#include "fuse/body.h"
#include "fuse/place.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

// Who uses a buffer. Kernels that go are emptied first and leave their places in the end.
typedef struct use_t {
  uint32_t section;         // 1 + the only run that touches it; SEVERAL; 0: none
  bool decides;             // about a region
  DT_VEC(uint32_t) kernels; // in order
} use_t;
#define SEVERAL UINT32_MAX

typedef struct carry_t {
  dt_program_t *program;
  use_t *uses;                     // [buffer - 1]
  uint32_t copy;                   // the kernel in question
  dt_buffer_id_t from, to;         // it copies this temporary into that state
  uint32_t maker;                  // the one kernel that writes `from`
  const dt_program_region_t *loop; // whose trips they are in
} carry_t;

// ---- Who uses what ----------------------------------------------------------------------------------
static bool touch(const dt_program_t *program, use_t *use, uint32_t k) {
  uint32_t section = program->kernels.items[k].section + 1;
  use->section = use->section == 0 || use->section == section ? section : SEVERAL;
  bool listed = use->kernels.len && use->kernels.items[use->kernels.len - 1] == k;
  return listed || DT_VEC_PUSH(program->arena, &use->kernels, k);
}

static bool touch_stage(const dt_program_t *program, use_t *uses, const dt_stage_t *stage,
                        uint32_t k) {
  bool good = true;
  for (uint32_t i = 0; good && i < stage->stores.len; i++)
    good = touch(program, &uses[stage->stores.items[i].buffer.id - 1], k);
  for (uint32_t i = 0; good && i < stage->insts.len; i++)
    if (dt__inst_reads(&stage->insts.items[i]).id)
      good = touch(program, &uses[stage->insts.items[i].buffer.id - 1], k);
  return good;
}

static dt_status_t find_uses(const dt_program_t *program, use_t **out) {
  use_t *uses = *out = DT_ARENA_ARRAY(program->arena, use_t, program->buffers.len + 1);
  bool good = uses != NULL;
  for (uint32_t k = 0; k < program->kernels.len; k++)
    for (uint32_t s = 0; good && s < program->kernels.items[k].stages.len; s++)
      good = touch_stage(program, uses, &program->kernels.items[k].stages.items[s], k);
  for (uint32_t i = 0; good && i < program->regions.len; i++)
    uses[program->regions.items[i].predicate.id - 1].decides = true;
  return good ? NULL : DT_NO_MEMORY();
}

// Only kernels of that one's section use it, and not the host.
static bool in_run(const dt_program_t *program, const use_t *use, uint32_t kernel) {
  return !use->decides && use->section == program->kernels.items[kernel].section + 1;
}

static void rename_in(dt_stage_t *stage, dt_buffer_id_t from, dt_buffer_id_t to) {
  for (uint32_t i = 0; i < stage->stores.len; i++)
    if (stage->stores.items[i].buffer.id == from.id)
      stage->stores.items[i].buffer = to;
  for (uint32_t i = 0; i < stage->insts.len; i++)
    if (dt__inst_reads(&stage->insts.items[i]).id == from.id)
      stage->insts.items[i].buffer = to;
}

// `kernel` in its place; mostly it is the last.
static bool add_user(dt_arena_t *arena, use_t *use, uint32_t kernel) {
  if (!DT_VEC_PUSH(arena, &use->kernels, kernel))
    return false;
  for (uint32_t i = use->kernels.len - 1; i && use->kernels.items[i - 1] > kernel; i--) {
    use->kernels.items[i] = use->kernels.items[i - 1];
    use->kernels.items[i - 1] = kernel;
  }
  return true;
}

// Who uses `from` uses `to` from now on.
static dt_status_t rename_buffer(dt_program_t *program, use_t *uses, dt_buffer_id_t from,
                                 dt_buffer_id_t to) {
  const use_t *old = &uses[from.id - 1];
  for (uint32_t i = 0; i < old->kernels.len; i++) {
    dt_kernel_t *kernel = &program->kernels.items[old->kernels.items[i]];
    for (uint32_t s = 0; s < kernel->stages.len; s++)
      rename_in(&kernel->stages.items[s], from, to);
    if (!add_user(program->arena, &uses[to.id - 1], old->kernels.items[i]))
      return DT_NO_MEMORY();
  }
  return NULL;
}

static void empty(dt_program_t *program, uint32_t kernel) {
  program->kernels.items[kernel].stages.len = 0;
}

static dt_status_t drop_empty(dt_program_t *program) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < program->kernels.len; k++)
    if (program->kernels.items[k].stages.len)
      program->kernels.items[n++] = program->kernels.items[k];
  program->kernels.len = n;
  DT_TRY(dt__program_settle_slices(program));
  return dt__program_settle_regions(program);
}

// ---- Copies ---------------------------------------------------------------------------------------
// The load and the store go over buffers of one layout in step.
static bool copies_each(const dt_buffer_t *from, const dt_buffer_t *to, const dt_inst_t *load,
                        const dt_store_t *store) {
  if (from->rank != to->rank || from->dtype != to->dtype || !dt__layouts_same(from, to))
    return false;
  for (uint32_t d = 0; d < from->rank; d++)
    if (from->sizes[d].id != to->sizes[d].id || from->strides[d].id != to->strides[d].id ||
        load->index[d].id != store->index[d].id)
      return false;
  return true;
}

// The kernel does nothing but copy a whole temporary into state, element by element.
static bool is_copy(carry_t *c) {
  const dt_program_t *program = c->program;
  const dt_kernel_t *kernel = &program->kernels.items[c->copy];
  if (kernel->stages.len != 1 || kernel->stages.items[0].stores.len != 1 ||
      kernel->stages.items[0].reductions.len || kernel->slices || kernel->chain)
    return false;
  const dt_stage_t *stage = &kernel->stages.items[0];
  const dt_store_t *store = &stage->stores.items[0];
  const dt_inst_t *load = &stage->insts.items[store->value];
  if (load->kind != DT_INST_LOAD || load->mask != DT_NO_INST || store->mask != DT_NO_INST)
    return false;
  c->from = load->buffer;
  c->to = store->buffer;
  const dt_buffer_t *a = dt__program_buffer(program, c->from);
  const dt_buffer_t *b = dt__program_buffer(program, c->to);
  if (a->kind != DT_BUFFER_TEMP || b->kind != DT_BUFFER_STATE || !b->index)
    return false;
  return copies_each(a, b, load, store);
}

static bool reads(const dt_kernel_t *kernel, dt_buffer_id_t id) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].insts.len; i++)
      if (dt__inst_reads(&kernel->stages.items[s].insts.items[i]).id == id.id)
        return true;
  return false;
}

// One kernel of the same section makes the temporary, and only kernels of the section read it, of
// which no other hands on state.
static bool has_maker(carry_t *c) {
  const dt_program_t *program = c->program;
  const use_t *use = &c->uses[c->from.id - 1];
  uint32_t makers = 0;
  if (dt__buffer_is_readback(program, c->from.id) || !in_run(program, use, c->copy))
    return false;
  for (uint32_t i = 0; i < use->kernels.len; i++) {
    uint32_t k = use->kernels.items[i];
    const dt_kernel_t *kernel = &program->kernels.items[k];
    bool makes = dt__kernel_stores_to(kernel, c->from.id), uses = reads(kernel, c->from);
    if (uses && k != c->copy && (dt__kernel_carries(program, kernel) || kernel->chain))
      return false;
    c->maker = makes ? k : c->maker;
    makers += makes;
  }
  return makers == 1 && c->maker < c->copy;
}

// The maker may write over what it reads, and nobody after it needs what it writes over.
static bool is_free(const carry_t *c) {
  const dt_program_t *program = c->program;
  const dt_kernel_t *maker = &program->kernels.items[c->maker];
  uint32_t stage = 0;
  const dt_store_t *store = dt__kernel_only_store(maker, c->from.id, &stage);
  if (!store || dt__store_scatters(program, store) || maker->slices || maker->chain ||
      dt__kernel_stores_to(maker, c->to.id) || reads(maker, c->from))
    return false;
  const use_t *use = &c->uses[c->to.id - 1];
  for (uint32_t i = 0; i < use->kernels.len; i++) {
    uint32_t k = use->kernels.items[i];
    if (k > c->maker && k < c->loop->end &&
        (reads(&program->kernels.items[k], c->to) ||
         (k != c->copy && dt__kernel_stores_to(&program->kernels.items[k], c->to.id))))
      return false;
  }
  const dt_program_region_t *end = program->regions.items + program->regions.len;
  for (const dt_program_region_t *region = c->loop + 1;
       region < end && region->section_first < c->loop->section_end; region++)
    if (region->predicate.id == c->to.id && region->first > c->maker &&
        region->first < c->loop->end)
      return false; // the host needs it
  if (!reads(maker, c->to))
    return true;
  for (uint32_t i = 0; i < maker->schedules.len; i++)
    if (dt__schedule_is_product(&maker->schedules.items[i]))
      return false; // reads its operands in an order of its own
  for (uint32_t s = 0; s < maker->stages.len; s++)
    for (uint32_t i = 0; i < maker->stages.items[s].insts.len; i++) {
      const dt_inst_t *inst = &maker->stages.items[s].insts.items[i];
      if (dt__inst_reads(inst).id == c->to.id &&
          !dt__reads_before(program, maker, inst, s, store, stage))
        return false;
    }
  return true;
}

// ---- Revised copies -----------------------------------------------------------------------------------
// A scatter copies what it starts from and revises the copy. Where nobody needs what was copied
// any more the copy is left out, and the original revised.
typedef struct revised_t {
  dt_program_t *program;
  use_t *uses;             // [buffer - 1]
  uint32_t copy, reviser;  // the kernels
  dt_buffer_id_t from, to; // what is copied, and the copy
} revised_t;

// The kernel does nothing but copy a whole buffer to a temporary of the same layout.
static bool copies_whole(revised_t *r) {
  const dt_program_t *program = r->program;
  const dt_kernel_t *kernel = &program->kernels.items[r->copy];
  if (kernel->stages.len != 1 || kernel->stages.items[0].stores.len != 1 ||
      kernel->stages.items[0].reductions.len || kernel->stages.items[0].n_loops || kernel->slices ||
      kernel->chain)
    return false;
  const dt_stage_t *stage = &kernel->stages.items[0];
  const dt_store_t *store = &stage->stores.items[0];
  const dt_inst_t *load = &stage->insts.items[store->value];
  if (load->kind != DT_INST_LOAD || load->mask != DT_NO_INST || store->mask != DT_NO_INST ||
      store->revises)
    return false;
  r->from = load->buffer;
  r->to = store->buffer;
  const dt_buffer_t *a = dt__program_buffer(program, r->from);
  const dt_buffer_t *b = dt__program_buffer(program, r->to);
  bool own = a->kind == DT_BUFFER_TEMP || (a->kind == DT_BUFFER_STATE && a->index);
  if (!own || b->kind != DT_BUFFER_TEMP)
    return false;
  return copies_each(a, b, load, store);
}

static bool is_revised_by(const dt_kernel_t *kernel, dt_buffer_id_t id) {
  return dt__kernel_revises(kernel) && dt__kernel_stores_to(kernel, id.id);
}

// One kernel revises the copy, nothing else stores to it, and all who use it are of the copy's
// section.
static bool has_reviser(revised_t *r) {
  const dt_program_t *program = r->program;
  const use_t *use = &r->uses[r->to.id - 1];
  uint32_t revisers = 0;
  if (dt__buffer_is_readback(program, r->to.id) || dt__buffer_is_readback(program, r->from.id) ||
      !in_run(program, use, r->copy))
    return false;
  for (uint32_t i = 0; i < use->kernels.len; i++) {
    uint32_t k = use->kernels.items[i];
    const dt_kernel_t *kernel = &program->kernels.items[k];
    bool stores = dt__kernel_stores_to(kernel, r->to.id);
    if ((stores || reads(kernel, r->to)) && (kernel->chain || kernel->slices))
      return false;
    if (!stores || k == r->copy)
      continue;
    if (!is_revised_by(kernel, r->to) || k < r->copy)
      return false;
    r->reviser = k;
    revisers++;
  }
  return revisers == 1;
}

// Nobody reads the original from the revision on, nor writes it after the copy was taken; but that
// a loop's state takes over the copy at the end of the trip, which then is nothing to do.
static bool is_done_with(const revised_t *r, uint32_t *out_carry) {
  const dt_program_t *program = r->program;
  const dt_buffer_t *from = dt__program_buffer(program, r->from);
  const use_t *use = &r->uses[r->from.id - 1];
  bool state = from->kind == DT_BUFFER_STATE;
  uint32_t end = state ? program->regions.items[from->index - 1].end : program->kernels.len;
  *out_carry = UINT32_MAX;
  // Segments may yet move a reader of a temporary behind its revision.
  if (state ? use->decides : program->readbacks.len || !in_run(program, use, r->copy))
    return false;
  for (uint32_t i = 0; i < use->kernels.len; i++) {
    uint32_t k = use->kernels.items[i];
    const dt_kernel_t *kernel = &program->kernels.items[k];
    if (k <= r->copy || k >= end)
      continue;
    if (k >= r->reviser && reads(kernel, r->from))
      return false;
    if (!dt__kernel_stores_to(kernel, r->from.id))
      continue;
    carry_t c = {.program = r->program, .uses = r->uses, .copy = k};
    if (!state || *out_carry != UINT32_MAX || !is_copy(&c) || c.from.id != r->to.id)
      return false;
    *out_carry = k;
  }
  return !state || *out_carry != UINT32_MAX;
}

static dt_status_t revise_originals(dt_program_t *program, use_t *uses) {
  for (uint32_t k = program->n_once; k < program->kernels.len; k++) {
    revised_t r = {.program = program, .uses = uses, .copy = k};
    uint32_t carry = 0;
    if (!copies_whole(&r) || !has_reviser(&r) || !is_done_with(&r, &carry))
      continue;
    DT_LOG(DT_LOG_MEMORY, 1, "%s revises its operand in place",
           program->kernels.items[r.reviser].name);
    if (carry != UINT32_MAX)
      empty(program, carry);
    empty(program, k);
    DT_TRY(rename_buffer(program, uses, r.to, r.from));
  }
  return NULL;
}

static dt_status_t carry_states(dt_program_t *program, use_t *uses) {
  for (uint32_t k = program->n_once; program->regions.len && k < program->kernels.len; k++) {
    carry_t c = {.program = program, .uses = uses, .copy = k};
    if (!dt__kernel_carries(program, &program->kernels.items[k]) || !is_copy(&c))
      continue;
    c.loop = &program->regions.items[dt__program_buffer(program, c.to)->index - 1];
    if (!has_maker(&c) || !is_free(&c))
      continue;
    DT_LOG(DT_LOG_MEMORY, 1, "%s writes the state of its loop in place",
           program->kernels.items[c.maker].name);
    empty(program, k);
    DT_TRY(rename_buffer(program, uses, c.from, c.to));
  }
  return NULL;
}

dt_status_t dt__carry_in_place(dt_program_t *program) {
  use_t *uses = NULL;
  DT_TRY(find_uses(program, &uses));
  DT_TRY(carry_states(program, uses));
  DT_TRY(revise_originals(program, uses));
  return drop_empty(program);
}
