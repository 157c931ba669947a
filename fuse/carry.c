// SPDX-License-Identifier: Apache-2.0
// State of loops written in place. A trip computes its new state in temporaries and copies them
// last of all, so that passes may do as they like before. In the end the kernel that makes such a
// temporary can often write the state itself: when no kernel after it needs the old state, and it
// reads of that only the element that it writes. Who reads the temporary after it reads the new
// state instead. In the same way what a scatter starts from is revised itself instead of a copy.
#include "fuse/body.h"
#include "fuse/place.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

typedef struct carry_t {
  dt_program_t *program;
  uint32_t copy;            // the kernel in question
  dt_buffer_id_t from, to;  // it copies this temporary into that state
  uint32_t maker;           // the one kernel that writes `from`
  dt_program_region_t loop; // whose trips they are in
} carry_t;

// The load and the store go over buffers of one layout in step.
static bool copies_each(const dt_buffer_t *from, const dt_buffer_t *to, const dt_inst_t *load,
                        const dt_store_t *store) {
  if (from->rank != to->rank || from->dtype != to->dtype)
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
      kernel->stages.items[0].folds.len || kernel->slices || kernel->chain)
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

// One kernel of the same run makes the temporary, and only kernels of the run read it, of which no
// other hands on state.
static bool has_maker(carry_t *c) {
  const dt_program_t *program = c->program;
  uint32_t run = program->kernels.items[c->copy].run, makers = 0;
  if (dt__buffer_is_item(program, c->from.id))
    return false;
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    const dt_kernel_t *kernel = &program->kernels.items[k];
    bool makes = dt__kernel_stores_to(kernel, c->from.id), uses = reads(kernel, c->from);
    if ((makes || uses) && kernel->run != run)
      return false;
    if (uses && k != c->copy && (dt__kernel_carries(program, kernel) || kernel->chain))
      return false;
    c->maker = makes ? k : c->maker;
    makers += makes;
  }
  for (uint32_t i = 0; i < program->regions.len; i++)
    if (program->regions.items[i].predicate.id == c->from.id)
      return false;
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
  for (uint32_t k = c->maker + 1; k < c->loop.end; k++)
    if (reads(&program->kernels.items[k], c->to) ||
        (k != c->copy && dt__kernel_stores_to(&program->kernels.items[k], c->to.id)))
      return false;
  for (uint32_t i = 0; i < program->regions.len; i++) {
    const dt_program_region_t *region = &program->regions.items[i];
    if (region->predicate.id == c->to.id && region->first > c->maker && region->first < c->loop.end)
      return false; // the host needs it
  }
  if (!reads(maker, c->to))
    return true;
  for (uint32_t i = 0; i < maker->schedules.len; i++)
    if (maker->schedules.items[i].kind == DT_SCHEDULE_MATMUL)
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

// From kernel `first` on, what is stored to and read of `from` is so of `to`.
static void rename_buffer(dt_program_t *program, uint32_t first, dt_buffer_id_t from,
                          dt_buffer_id_t to) {
  for (uint32_t k = first; k < program->kernels.len; k++)
    for (uint32_t s = 0; s < program->kernels.items[k].stages.len; s++) {
      dt_stage_t *stage = &program->kernels.items[k].stages.items[s];
      for (uint32_t i = 0; i < stage->stores.len; i++)
        if (stage->stores.items[i].buffer.id == from.id)
          stage->stores.items[i].buffer = to;
      for (uint32_t i = 0; i < stage->insts.len; i++)
        if (dt__inst_reads(&stage->insts.items[i]).id == from.id)
          stage->insts.items[i].buffer = to;
    }
}

static dt_status_t drop_kernel(dt_program_t *program, uint32_t at) {
  for (uint32_t k = at; k + 1 < program->kernels.len; k++)
    program->kernels.items[k] = program->kernels.items[k + 1];
  program->kernels.len--;
  DT_TRY(dt__program_settle_slices(program));
  return dt__program_settle_regions(program);
}

static dt_status_t replace(const carry_t *c) {
  dt_program_t *program = c->program;
  DT_LOG(DT_LOG_MEMORY, 1, "%s writes the state of its loop in place",
         program->kernels.items[c->maker].name);
  rename_buffer(program, c->maker, c->from, c->to);
  return drop_kernel(program, c->copy);
}

// ---- Revised copies -----------------------------------------------------------------------------------
// A scatter copies what it starts from and revises the copy. Where nobody needs what was copied
// any more the copy is left out, and the original revised.
typedef struct revised_t {
  dt_program_t *program;
  uint32_t copy, reviser;  // the kernels
  dt_buffer_id_t from, to; // what is copied, and the copy
} revised_t;

// The kernel does nothing but copy a whole buffer to a temporary of the same layout.
static bool copies_whole(revised_t *r) {
  const dt_program_t *program = r->program;
  const dt_kernel_t *kernel = &program->kernels.items[r->copy];
  if (kernel->stages.len != 1 || kernel->stages.items[0].stores.len != 1 ||
      kernel->stages.items[0].folds.len || kernel->stages.items[0].n_loops || kernel->slices ||
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

// One kernel revises the copy, nothing else stores to it, and all who use it are of the copy's run.
static bool has_reviser(revised_t *r) {
  const dt_program_t *program = r->program;
  uint32_t run = program->kernels.items[r->copy].run, revisers = 0;
  if (dt__buffer_is_item(program, r->to.id) || dt__buffer_is_item(program, r->from.id))
    return false;
  for (uint32_t i = 0; i < program->regions.len; i++)
    if (program->regions.items[i].predicate.id == r->to.id ||
        program->regions.items[i].predicate.id == r->from.id)
      return false;
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    const dt_kernel_t *kernel = &program->kernels.items[k];
    bool stores = dt__kernel_stores_to(kernel, r->to.id);
    if ((stores || reads(kernel, r->to)) && (kernel->run != run || kernel->chain || kernel->slices))
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
  uint32_t run = program->kernels.items[r->copy].run;
  bool state = from->kind == DT_BUFFER_STATE;
  if (!state && program->items.len)
    return false; // segments may yet move a reader of the original behind its revision
  uint32_t end = state ? program->regions.items[from->index - 1].end : program->kernels.len;
  *out_carry = UINT32_MAX;
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    const dt_kernel_t *kernel = &program->kernels.items[k];
    bool stores = dt__kernel_stores_to(kernel, r->from.id), uses = reads(kernel, r->from);
    if (!state && (stores || uses) && kernel->run != run)
      return false;
    if (k >= r->reviser && k < end && uses)
      return false;
    if (k <= r->copy || k >= end || !stores)
      continue;
    carry_t c = {.program = r->program, .copy = k};
    if (!state || *out_carry != UINT32_MAX || !is_copy(&c) || c.from.id != r->to.id)
      return false;
    *out_carry = k;
  }
  return !state || *out_carry != UINT32_MAX;
}

static dt_status_t revise_originals(dt_program_t *program) {
  for (uint32_t k = program->n_once; k < program->kernels.len; k++) {
    revised_t r = {.program = program, .copy = k};
    uint32_t carry = 0;
    if (!copies_whole(&r) || !has_reviser(&r) || !is_done_with(&r, &carry))
      continue;
    DT_LOG(DT_LOG_MEMORY, 1, "%s revises its operand in place",
           program->kernels.items[r.reviser].name);
    if (carry != UINT32_MAX)
      DT_TRY(drop_kernel(program, carry));
    rename_buffer(program, k, r.to, r.from);
    DT_TRY(drop_kernel(program, k));
    k--;
  }
  return NULL;
}

dt_status_t dt__carry_in_place(dt_program_t *program) {
  for (uint32_t k = program->n_once; k < program->kernels.len; k++) {
    carry_t c = {.program = program, .copy = k};
    if (!program->regions.len || !dt__kernel_carries(program, &program->kernels.items[k]) ||
        !is_copy(&c))
      continue;
    c.loop = program->regions.items[dt__program_buffer(program, c.to)->index - 1];
    if (!has_maker(&c) || !is_free(&c))
      continue;
    DT_TRY(replace(&c));
    k--;
  }
  return revise_originals(program);
}
