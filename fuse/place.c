// SPDX-License-Identifier: Apache-2.0
// See place.h; what the places must satisfy stands in plan.c.
#include "fuse/place.h"

#include "fuse/body.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

#define ALIGN 64
#define TYPICAL 64 // value of a symbol without a hint, where only fit is asked

typedef struct slot_t {
  dt_sym_t bytes;
  uint32_t last;    // kernel that reads its present tenant last
  uint32_t tenant;  // buffer id
  uint32_t segment; // in which it was made
} slot_t;

typedef struct life_t {
  uint32_t first, last; // kernels that write and read it; first > last: never used
} life_t;

typedef struct places_t {
  dt_program_t *program;
  life_t *lives;     // [buffer - 1]
  int64_t *typical;  // by symbol
  uint32_t *slot_of; // [buffer - 1]: 1 + its slot, or 0
  DT_VEC(slot_t) slots;
} places_t;

dt_sym_t dt__placed_bytes(dt_program_t *program, dt_buffer_id_t id) {
  dt_symenv_t *env = program->env;
  dt_sym_t size =
      dt__sym_const(env, (int64_t)dt_dtype_size(dt__program_buffer(program, id)->dtype));
  dt_sym_t count = dt__buffer_count(program, id);
  if (program->device_sized)
    count = dt__program_most(program, count);
  dt_sym_t bytes = dt__sym_mul(env, count, size);
  dt_sym_t align = dt__sym_const(env, ALIGN);
  return dt__sym_mul(env, dt__sym_ceildiv(env, bytes, align), align);
}

// ---- Lives ----------------------------------------------------------------------------------------

static void reads_at(life_t *life, uint32_t k) { life->last = life->last > k ? life->last : k; }

// An item is read by the host between the kernels of two segments.
static void find_item_lives(const dt_program_t *program, life_t *lives) {
  for (uint32_t g = 1; g < program->segments.len; g++)
    for (uint32_t k = program->segments.items[g - 1].item_end;
         k < program->segments.items[g].item_end; k++)
      if (program->segments.items[g - 1].kernel_end)
        reads_at(&lives[program->items.items[k].buffer.id - 1],
                 program->segments.items[g - 1].kernel_end - 1);
}

// Kernels of device sizes read items and gates where they begin, each up to the last one; and no
// kernel is done with them before others have begun.
static void find_device_lives(const dt_program_t *program, life_t *lives) {
  uint32_t n = program->kernels.len;
  for (uint32_t k = 0; k < program->items.len && program->device_sized; k++)
    reads_at(&lives[program->items.items[k].buffer.id - 1], n);
  for (uint32_t k = 0; k < n; k++)
    if (program->kernels.items[k].gate.id)
      reads_at(&lives[program->kernels.items[k].gate.id - 1], n);
}

static bool within(const life_t *life, const dt_program_slices_t *slices) {
  return life->first >= slices->first && life->last < slices->end;
}

// Kernels that run slice after slice use what comes from outside, or goes outside, until the last
// slice ends. What only they use lives and dies in each slice.
static void spread_over_slices(const dt_program_t *program, life_t *lives) {
  for (uint32_t i = 0; i < program->slices.len; i++) {
    const dt_program_slices_t *slices = &program->slices.items[i];
    for (uint32_t b = 0; b < program->buffers.len; b++) {
      life_t *life = &lives[b];
      if (within(life, slices))
        continue;
      if (life->first >= slices->first && life->first < slices->end)
        life->first = slices->first;
      if (life->last >= slices->first && life->last < slices->end)
        life->last = slices->end - 1;
    }
  }
}

// What a loop finds when it begins must last until its last trip ends; predicates are read by the
// host where regions begin, and by loops after each trip. Inner loops come after outer ones.
static void spread_over_regions(const dt_program_t *program, life_t *lives) {
  for (uint32_t i = program->regions.len; i-- > 0;) {
    const dt_program_region_t *region = &program->regions.items[i];
    if (region->first == region->end)
      continue;
    reads_at(&lives[region->predicate.id - 1], region->first);
    for (uint32_t b = 0; b < program->buffers.len && region->kind == DT_REGION_WHILE; b++) {
      life_t *life = &lives[b];
      if (life->first < region->first && life->last >= region->first && life->last < region->end)
        life->last = region->end - 1;
    }
  }
}

// Kernels of a chain run at one time.
static void spread_over_chains(const dt_program_t *program, life_t *lives) {
  for (uint32_t k = 0; k < program->kernels.len;) {
    dt_chain_t chain = dt__kernel_chain(program, k);
    for (uint32_t b = 0; b < program->buffers.len && chain.end > k + 1; b++) {
      if (lives[b].first > chain.first && lives[b].first < chain.end)
        lives[b].first = chain.first;
      if (lives[b].last >= chain.first && lives[b].last < chain.end)
        lives[b].last = chain.end - 1;
    }
    k = chain.end;
  }
}

static dt_status_t find_lives(places_t *p) {
  dt_program_t *program = p->program;
  life_t *lives = DT_ARENA_ARRAY(program->arena, life_t, program->buffers.len + 1);
  if (!lives)
    return DT_NO_MEMORY();
  for (uint32_t b = 0; b < program->buffers.len; b++)
    lives[b] = (life_t){.first = UINT32_MAX, .last = 0};
  for (uint32_t k = 0; k < program->kernels.len; k++)
    for (uint32_t s = 0; s < program->kernels.items[k].stages.len; s++) {
      const dt_stage_t *stage = &program->kernels.items[k].stages.items[s];
      for (uint32_t i = 0; i < stage->stores.len; i++) {
        life_t *life = &lives[stage->stores.items[i].buffer.id - 1];
        life->first = life->first < k ? life->first : k;
        reads_at(life, k);
      }
      for (uint32_t i = 0; i < stage->insts.len; i++) {
        dt_buffer_id_t buffer = dt__inst_reads(&stage->insts.items[i]);
        if (buffer.id)
          reads_at(&lives[buffer.id - 1], k);
      }
    }
  find_item_lives(program, lives);
  find_device_lives(program, lives);
  spread_over_slices(program, lives);
  spread_over_chains(program, lives);
  spread_over_regions(program, lives);
  p->lives = lives;
  return NULL;
}

// ---- Fit --------------------------------------------------------------------------------------------

static dt_status_t find_typical(places_t *p) {
  const dt_symenv_t *env = p->program->env;
  uint32_t n = dt__symenv_symbol_count(env);
  p->typical = DT_ARENA_ARRAY(p->program->arena, int64_t, n + 1);
  if (!p->typical)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < n; k++) {
    dt_symbol_info_t info = dt__symbol_info(env, k);
    int64_t value = info.has_hint ? info.hint : TYPICAL;
    value = value > info.range.hi ? info.range.hi : value;
    p->typical[k] = value < info.range.lo ? info.range.lo : value;
  }
  return NULL;
}

// How badly `bytes` fits a free slot; 0 is exact. Typical sizes only choose among right answers.
static int64_t misfit(const places_t *p, dt_sym_t slot, dt_sym_t bytes) {
  int64_t have = 0, want = 0;
  if (slot.id == bytes.id)
    return 0;
  if (!dt__sym_eval(p->program->env, slot, p->typical, &have) ||
      !dt__sym_eval(p->program->env, bytes, p->typical, &want))
    return INT64_MAX / 2;
  return 1 + (have > want ? have - want : want - have);
}

// ---- In place -----------------------------------------------------------------------------------------

bool dt__reads_before(const dt_program_t *program, const dt_kernel_t *kernel, const dt_inst_t *load,
                      uint32_t at, const dt_store_t *store, uint32_t stage) {
  const dt_stage_t *storing = &kernel->stages.items[stage];
  if (load->kind != DT_INST_LOAD || at > stage)
    return false;
  for (uint32_t d = 0; d < dt__program_buffer(program, load->buffer)->rank; d++) {
    bool inner = dt__expr_uses_any(program, store->index[d], storing->vars, storing->n_loops);
    bool outer = dt__expr_uses_any(program, store->index[d], kernel->vars, kernel->n_loops);
    if (inner && outer)
      return false;
    if ((at == stage || !inner) && load->index[d].id != store->index[d].id)
      return false;
  }
  return true;
}

static bool in_one_run(const places_t *p, uint32_t id) {
  const life_t *life = &p->lives[id - 1];
  const dt_program_t *program = p->program;
  for (uint32_t k = life->first; k < life->last; k++)
    if (program->kernels.items[k].run != program->kernels.items[k + 1].run)
      return false;
  return program->buffers.items[id - 1].kind == DT_BUFFER_TEMP;
}

// Buffer `fresh`, first written by kernel k, may take the place of `old`, last read by it.
static bool replaces_in_place(const places_t *p, uint32_t old, uint32_t fresh, uint32_t k) {
  const dt_program_t *program = p->program;
  const dt_kernel_t *kernel = &program->kernels.items[k];
  const dt_buffer_t *a = &program->buffers.items[old - 1], *b = &program->buffers.items[fresh - 1];
  uint32_t stage = 0;
  const dt_store_t *store = dt__kernel_only_store(kernel, fresh, &stage);
  if (!store || dt__store_scatters(program, store) || p->lives[old - 1].first >= k ||
      a->rank != b->rank || dt_dtype_size(a->dtype) != dt_dtype_size(b->dtype) ||
      memcmp(a->sizes, b->sizes, a->rank * sizeof(*a->sizes)) != 0)
    return false;
  if (!in_one_run(p, old) || !in_one_run(p, fresh))
    return false; // another trip reads the one, or a branch that is not taken writes the other
  const dt_program_slices_t *slices = dt__kernel_slices(program, k);
  if (slices && !(within(&p->lives[old - 1], slices) && within(&p->lives[fresh - 1], slices)))
    return false; // other slices read the one, or wrote the other
  for (uint32_t i = 0; i < kernel->schedules.len; i++)
    if (kernel->schedules.items[i].kind == DT_SCHEDULE_MATMUL)
      return false; // a template reads its operands in an order of its own
  for (uint32_t i = 0; i < program->items.len; i++)
    if (program->items.items[i].buffer.id == old)
      return false;
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].insts.len; i++) {
      const dt_inst_t *inst = &kernel->stages.items[s].insts.items[i];
      if (dt__inst_reads(inst).id == old &&
          !dt__reads_before(program, kernel, inst, s, store, stage))
        return false;
    }
  return true;
}

// ---- Slots ------------------------------------------------------------------------------------------

static uint32_t best_slot(const places_t *p, uint32_t b, uint32_t k, dt_sym_t bytes) {
  const dt_program_t *program = p->program;
  uint32_t best = UINT32_MAX, items = dt__expr_items(program, bytes);
  int64_t best_misfit = INT64_MAX;
  for (uint32_t s = 0; s < p->slots.len; s++) {
    const slot_t *slot = &p->slots.items[s];
    bool known =
        program->segments.len == 0 || items <= program->segments.items[slot->segment].item_end;
    bool free = slot->last < k || (slot->last == k && replaces_in_place(p, slot->tenant, b + 1, k));
    if (!free || !known)
      continue;
    int64_t fit = misfit(p, slot->bytes, bytes);
    if (fit < best_misfit) {
      best = s;
      best_misfit = fit;
    }
  }
  return best;
}

static dt_status_t place(places_t *p, uint32_t b, uint32_t k, uint32_t segment) {
  dt_program_t *program = p->program;
  dt_sym_t bytes = dt__placed_bytes(program, (dt_buffer_id_t){b + 1});
  uint32_t best = best_slot(p, b, k, bytes);
  if (best == UINT32_MAX) {
    best = p->slots.len;
    slot_t fresh = {.bytes = bytes, .segment = segment};
    if (!DT_VEC_PUSH(program->arena, &p->slots, fresh))
      return DT_NO_MEMORY();
  }
  slot_t *slot = &p->slots.items[best];
  slot->bytes = dt__sym_max(program->env, slot->bytes, bytes);
  slot->last = p->lives[b].last;
  slot->tenant = b + 1;
  p->slot_of[b] = best + 1;
  return NULL;
}

// Slots in the order in which they were made, which is that of their segments.
static dt_status_t set_offsets(places_t *p) {
  dt_program_t *program = p->program;
  dt_sym_t *starts = DT_ARENA_ARRAY(program->arena, dt_sym_t, p->slots.len + 1);
  if (!starts)
    return DT_NO_MEMORY();
  dt_sym_t at = dt__sym_const(program->env, 0);
  uint32_t segment = 0;
  for (uint32_t s = 0; s < p->slots.len; s++) {
    for (; segment < p->slots.items[s].segment; segment++)
      program->segments.items[segment].block_bytes = at;
    starts[s] = at;
    at = dt__sym_add(program->env, at, p->slots.items[s].bytes);
  }
  for (; segment < program->segments.len; segment++)
    program->segments.items[segment].block_bytes = at;
  program->block_bytes = at;
  for (uint32_t b = 0; b < program->buffers.len; b++)
    if (p->slot_of[b])
      program->offsets.items[b] = starts[p->slot_of[b] - 1];
  return NULL;
}

static bool is_placed(const dt_buffer_t *buffer) {
  return buffer->kind == DT_BUFFER_TEMP || buffer->kind == DT_BUFFER_STATE;
}

dt_status_t dt__place_temps(dt_program_t *program) {
  uint32_t n = program->buffers.len, segment = 0;
  places_t p = {.program = program, .slot_of = DT_ARENA_ARRAY(program->arena, uint32_t, n + 1)};
  if (!p.slot_of)
    return DT_NO_MEMORY();
  DT_TRY(find_lives(&p));
  DT_TRY(find_typical(&p));
  for (uint32_t k = program->n_once; k < program->kernels.len; k++) {
    while (segment < program->segments.len && k >= program->segments.items[segment].kernel_end)
      segment++;
    for (uint32_t b = 0; b < n; b++)
      if (is_placed(&program->buffers.items[b]) && p.lives[b].first == k)
        DT_TRY(place(&p, b, k, segment));
  }
  DT_LOG(DT_LOG_MEMORY, 1, "%u slots for the temporaries of %u buffers", p.slots.len, n);
  return set_offsets(&p);
}
