// SPDX-License-Identifier: Apache-2.0
// See place.h; plan.c has the conditions that places must satisfy.
#include "fuse/place.h"

#include "fuse/body.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

#define ALIGN 64
#define TYPICAL 64 // value of a symbol without a hint, where only fit is asked

typedef struct slot_t {
  dt_sym_t bytes;
  int64_t typical; // of `bytes`, where is_known
  bool is_known;
  uint32_t last;    // kernel that reads its present tenant last
  uint32_t tenant;  // buffer id
  uint32_t segment; // in which it was made
  uint32_t next;    // 1 + another slot that the same kernel reads last; 0: none
} slot_t;

typedef struct life_t {
  uint32_t first, last; // kernels that write and read it; first > last: never used
} life_t;

typedef struct places_t {
  dt_program_t *program;
  life_t *lives;         // [buffer - 1]
  int64_t *typical;      // by symbol
  uint32_t *slot_of;     // [buffer - 1]: 1 + its slot, or 0
  uint32_t *section_end; // by kernel: the last of those around it that are of its section
  DT_VEC(slot_t) slots;
  uint32_t *ending;      // by kernel: 1 + the first slot that it reads last, or 0
  DT_VEC(uint32_t) free; // slots, by their typical bytes, then in the order of making
  DT_VEC(uint32_t) odd;  // free ones whose typical bytes are not known, in that order
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

// A readback is read by the host between the kernels of two segments.
static void find_item_lives(const dt_program_t *program, life_t *lives) {
  for (uint32_t g = 1; g < program->segments.len; g++)
    for (uint32_t k = program->segments.items[g - 1].readback_end;
         k < program->segments.items[g].readback_end; k++)
      if (program->segments.items[g - 1].kernel_end)
        reads_at(&lives[program->readbacks.items[k].buffer.id - 1],
                 program->segments.items[g - 1].kernel_end - 1);
}

// Kernels of device sizes read readbacks and gates where they begin, so these live to the last
// kernel: a kernel may begin before an earlier one is done.
static void find_device_lives(const dt_program_t *program, life_t *lives) {
  uint32_t n = program->kernels.len;
  for (uint32_t k = 0; k < program->readbacks.len && program->device_sized; k++)
    reads_at(&lives[program->readbacks.items[k].buffer.id - 1], n);
  for (uint32_t k = 0; k < n; k++)
    if (program->kernels.items[k].gate.id)
      reads_at(&lives[program->kernels.items[k].gate.id - 1], n);
}

static bool within(const life_t *life, const dt_program_slices_t *slices) {
  return life->first >= slices->first && life->last < slices->end;
}

// Kernels that run slice after slice use what comes from outside, or goes outside, until the last
// slice ends. What only they use lives and dies in each slice.
static void spread_over_slices(const dt_program_t *program, life_t *life) {
  uint32_t n = program->kernels.len;
  const dt_program_slices_t *at_first =
      life->first < n ? dt__kernel_slices(program, life->first) : NULL;
  const dt_program_slices_t *at_last =
      life->last < n ? dt__kernel_slices(program, life->last) : NULL;
  if (at_first == at_last)
    return;
  if (at_first)
    life->first = at_first->first;
  if (at_last)
    life->last = at_last->end - 1;
}

// Kernels of a chain run at one time.
static void spread_over_chain(const dt_program_t *program, life_t *life) {
  if (life->first < program->kernels.len)
    life->first = dt__kernel_chain(program, life->first).first;
  if (life->last < program->kernels.len)
    life->last = dt__kernel_chain(program, life->last).end - 1;
}

// ---- Lives in loops -------------------------------------------------------------------------------

// Loops that regions are, one in another.
typedef struct loops_t {
  uint32_t *inner;  // by kernel: 1 + the innermost WHILE that it lies in, or 0
  uint32_t *parent; // by region: the same
} loops_t;

static dt_status_t find_loops(const dt_program_t *program, loops_t *out) {
  out->inner = DT_ARENA_ARRAY(program->arena, uint32_t, program->kernels.len + 1);
  out->parent = DT_ARENA_ARRAY(program->arena, uint32_t, program->regions.len + 1);
  if (!out->inner || !out->parent)
    return DT_NO_MEMORY();
  for (uint32_t i = 0; i < program->regions.len; i++) { // inner ones come after outer ones
    const dt_program_region_t *region = &program->regions.items[i];
    if (region->kind != DT_REGION_WHILE || region->first == region->end)
      continue;
    out->parent[i] = out->inner[region->first];
    for (uint32_t k = region->first; k < region->end; k++)
      out->inner[k] = i + 1;
  }
  return NULL;
}

// What a loop finds when it begins must last until its last trip ends. Of loops number low …
// high - 1.
static void spread_over_loops(const dt_program_t *program, const loops_t *loops, uint32_t low,
                              uint32_t high, life_t *life) {
  uint32_t at = life->last < program->kernels.len ? loops->inner[life->last] : 0;
  for (; at; at = loops->parent[at - 1]) {
    const dt_program_region_t *region = &program->regions.items[at - 1];
    if (at - 1 >= low && at - 1 < high && life->first < region->first)
      life->last = region->end - 1;
  }
}

// Predicates are read by the host where regions begin, and by loops after each trip: not by the
// loops inside of them.
static dt_status_t spread_over_regions(const dt_program_t *program, life_t *lives) {
  uint32_t n = program->regions.len;
  loops_t loops = {0};
  if (n == 0)
    return NULL;
  DT_TRY(find_loops(program, &loops));
  // By buffer: loops before this number are yet to be looked at.
  uint32_t *left = DT_ARENA_ARRAY(program->arena, uint32_t, program->buffers.len + 1);
  if (!left)
    return DT_NO_MEMORY();
  for (uint32_t b = 0; b < program->buffers.len; b++)
    left[b] = n;
  for (uint32_t i = n; i-- > 0;) {
    const dt_program_region_t *region = &program->regions.items[i];
    uint32_t b = region->predicate.id - 1;
    if (region->first == region->end)
      continue;
    spread_over_loops(program, &loops, i + 1, left[b], &lives[b]);
    reads_at(&lives[b], region->first);
    left[b] = i + 1;
  }
  for (uint32_t b = 0; b < program->buffers.len; b++)
    spread_over_loops(program, &loops, 0, left[b], &lives[b]);
  return NULL;
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
  for (uint32_t b = 0; b < program->buffers.len; b++) {
    spread_over_slices(program, &lives[b]);
    spread_over_chain(program, &lives[b]);
  }
  p->lives = lives;
  return spread_over_regions(program, lives);
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
    int64_t value = info.has_hint  ? info.hint
                    : info.divisor ? p->typical[info.whole] / info.divisor
                                   : TYPICAL;
    value = value > info.range.hi ? info.range.hi : value;
    p->typical[k] = value < info.range.lo ? info.range.lo : value;
  }
  return NULL;
}

static bool typical_bytes(const places_t *p, dt_sym_t bytes, int64_t *out) {
  *out = 0;
  return dt__sym_eval(p->program->env, bytes, p->typical, out);
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
  return p->section_end[life->first] >= life->last &&
         p->program->buffers.items[id - 1].kind == DT_BUFFER_TEMP;
}

// No region begins or ends in the life.
static bool in_one_region(const places_t *p, uint32_t id) {
  const life_t *life = &p->lives[id - 1];
  bool one = p->program->buffers.items[id - 1].kind == DT_BUFFER_TEMP;
  for (uint32_t i = 0; i < p->program->regions.len && one; i++) {
    const dt_program_region_t *region = &p->program->regions.items[i];
    one = (life->first >= region->first && life->first < region->end) ==
          (life->last >= region->first && life->last < region->end);
  }
  return one;
}

// Buffer `fresh`, first written by kernel k, may take the place of `old`, last read by it.
static bool replaces_in_place(const places_t *p, uint32_t old, uint32_t fresh, uint32_t k) {
  const dt_program_t *program = p->program;
  const dt_kernel_t *kernel = &program->kernels.items[k];
  const dt_buffer_t *a = &program->buffers.items[old - 1], *b = &program->buffers.items[fresh - 1];
  uint32_t stage = 0;
  const dt_store_t *store = dt__kernel_only_store(kernel, fresh, &stage);
  if (!store || p->lives[old - 1].first >= k || a->rank != b->rank ||
      dt_dtype_size(a->dtype) != dt_dtype_size(b->dtype) ||
      !dt__syms_same(a->rank, a->sizes, b->sizes) || !dt__layouts_same(a, b))
    return false;
  if (kernel->external)
    return dt__call_takes_place(program, kernel, old, fresh) && in_one_region(p, old) &&
           in_one_region(p, fresh) && !dt__buffer_is_readback(program, old);
  if (dt__store_scatters(program, store))
    return false;
  if (!in_one_run(p, old) || !in_one_run(p, fresh))
    return false; // another trip reads the one, or a branch that is not taken writes the other
  const dt_program_slices_t *slices = dt__kernel_slices(program, k);
  if (slices && !(within(&p->lives[old - 1], slices) && within(&p->lives[fresh - 1], slices)))
    return false; // other slices read the one, or wrote the other
  for (uint32_t i = 0; i < kernel->schedules.len; i++)
    if (dt__schedule_is_product(&kernel->schedules.items[i]))
      return false; // a template reads its operands in an order of its own
  for (uint32_t i = 0; i < program->readbacks.len; i++)
    if (program->readbacks.items[i].buffer.id == old)
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

// Bytes that want a slot.
typedef struct want_t {
  dt_sym_t bytes;
  int64_t typical;
  bool is_known;
  uint32_t readbacks; // that must be bound before its size is known
  // The best so far.
  uint32_t best;
  int64_t misfit;
} want_t;

// How badly they fit a slot; 0 is exact. Typical sizes only choose among right answers. Of slots
// that fit as well the one that was made first is taken.
static void offer(const places_t *p, want_t *want, uint32_t s) {
  const dt_program_t *program = p->program;
  const slot_t *slot = &p->slots.items[s];
  int64_t misfit = INT64_MAX / 2;
  if (program->segments.len &&
      want->readbacks > program->segments.items[slot->segment].readback_end)
    return;
  if (slot->bytes.id == want->bytes.id)
    misfit = 0;
  else if (slot->is_known && want->is_known)
    misfit = 1 + (slot->typical > want->typical ? slot->typical - want->typical
                                                : want->typical - slot->typical);
  if (misfit > want->misfit || (misfit == want->misfit && s > want->best))
    return;
  want->best = s;
  want->misfit = misfit;
}

// The first free slot of at least so many bytes.
static uint32_t lower_bound(const places_t *p, int64_t typical, uint32_t made) {
  uint32_t low = 0, high = p->free.len;
  while (low < high) {
    uint32_t middle = (low + high) / 2, s = p->free.items[middle];
    int64_t own = p->slots.items[s].typical;
    if (own < typical || (own == typical && s < made))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// Free slots of about the bytes that are wanted: all of those size, the next larger and the next
// smaller one.
static void offer_free(const places_t *p, want_t *want) {
  uint32_t at = lower_bound(p, want->typical, 0), same = at;
  for (; same < p->free.len; same++) {
    const slot_t *slot = &p->slots.items[p->free.items[same]];
    if (slot->typical != want->typical || want->misfit == 0)
      break;
    offer(p, want, p->free.items[same]);
  }
  if (same < p->free.len)
    offer(p, want, p->free.items[same]);
  if (at > 0) // of those of one size, the one that was made first
    offer(p, want, p->free.items[lower_bound(p, p->slots.items[p->free.items[at - 1]].typical, 0)]);
}

// For buffer b, which kernel k is the first to write.
static uint32_t best_slot(const places_t *p, uint32_t b, uint32_t k, want_t *want) {
  want->best = UINT32_MAX;
  want->misfit = INT64_MAX;
  // Where slots are known in some segments only, or sizes to none, all are looked at.
  bool all = p->program->segments.len > 1 || !want->is_known;
  if (!all)
    offer_free(p, want);
  for (uint32_t i = 0; all && i < p->free.len; i++)
    offer(p, want, p->free.items[i]);
  for (uint32_t i = 0; i < p->odd.len; i++)
    offer(p, want, p->odd.items[i]);
  for (uint32_t s = p->ending[k]; s; s = p->slots.items[s - 1].next)
    if (replaces_in_place(p, p->slots.items[s - 1].tenant, b + 1, k))
      offer(p, want, s - 1);
  return want->best;
}

static void take_from(uint32_t *items, uint32_t *len, uint32_t at) {
  memmove(items + at, items + at + 1, (*len - at - 1) * sizeof(*items));
  (*len)--;
}

// The slot is free no more, or read last by another kernel than k.
static void take_slot(places_t *p, uint32_t s, uint32_t k) {
  const slot_t *slot = &p->slots.items[s];
  for (uint32_t *at = &p->ending[k]; *at; at = &p->slots.items[*at - 1].next)
    if (*at == s + 1) {
      *at = slot->next;
      return;
    }
  if (slot->is_known) {
    take_from(p->free.items, &p->free.len, lower_bound(p, slot->typical, s));
    return;
  }
  for (uint32_t i = 0; i < p->odd.len; i++)
    if (p->odd.items[i] == s) {
      take_from(p->odd.items, &p->odd.len, i);
      return;
    }
}

// What kernel k read last is free.
static dt_status_t free_ended(places_t *p, uint32_t k) {
  dt_arena_t *arena = p->program->arena;
  for (uint32_t next = 0, s = p->ending[k]; s; s = next) {
    const slot_t *slot = &p->slots.items[s - 1];
    next = slot->next;
    if (!slot->is_known) {
      if (!DT_VEC_PUSH(arena, &p->odd, s - 1))
        return DT_NO_MEMORY();
      continue;
    }
    uint32_t at = lower_bound(p, slot->typical, s - 1);
    if (!DT_VEC_PUSH(arena, &p->free, 0))
      return DT_NO_MEMORY();
    memmove(p->free.items + at + 1, p->free.items + at,
            (p->free.len - at - 1) * sizeof(*p->free.items));
    p->free.items[at] = s - 1;
  }
  return NULL;
}

static dt_status_t place(places_t *p, uint32_t b, uint32_t k, uint32_t segment) {
  dt_program_t *program = p->program;
  want_t want = {.bytes = dt__placed_bytes(program, (dt_buffer_id_t){b + 1})};
  want.is_known = typical_bytes(p, want.bytes, &want.typical);
  want.readbacks = dt__expr_readbacks(program, want.bytes);
  uint32_t best = best_slot(p, b, k, &want);
  if (best == UINT32_MAX) {
    best = p->slots.len;
    slot_t fresh = {.bytes = want.bytes, .segment = segment};
    if (!DT_VEC_PUSH(program->arena, &p->slots, fresh))
      return DT_NO_MEMORY();
  } else {
    take_slot(p, best, k);
  }
  slot_t *slot = &p->slots.items[best];
  slot->bytes = dt__sym_max(program->env, slot->bytes, want.bytes);
  slot->is_known = typical_bytes(p, slot->bytes, &slot->typical);
  slot->last = p->lives[b].last;
  slot->tenant = b + 1;
  slot->next = p->ending[slot->last];
  p->ending[slot->last] = best + 1;
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

// The buffers that each kernel is the first to write, in their order: 1 + the first, and 1 + the
// next one.
typedef struct firsts_t {
  uint32_t *first, *next;
} firsts_t;

static dt_status_t find_firsts(const places_t *p, firsts_t *out) {
  const dt_program_t *program = p->program;
  out->first = DT_ARENA_ARRAY(program->arena, uint32_t, program->kernels.len + 1);
  out->next = DT_ARENA_ARRAY(program->arena, uint32_t, program->buffers.len + 1);
  if (!out->first || !out->next)
    return DT_NO_MEMORY();
  for (uint32_t b = program->buffers.len; b-- > 0;) {
    uint32_t k = p->lives[b].first;
    if (!is_placed(&program->buffers.items[b]) || k >= program->kernels.len)
      continue;
    out->next[b] = out->first[k];
    out->first[k] = b + 1;
  }
  return NULL;
}

static dt_status_t start(places_t *p) {
  dt_program_t *program = p->program;
  uint32_t n = program->kernels.len;
  p->slot_of = DT_ARENA_ARRAY(program->arena, uint32_t, program->buffers.len + 1);
  p->section_end = DT_ARENA_ARRAY(program->arena, uint32_t, n + 1);
  p->ending = DT_ARENA_ARRAY(program->arena, uint32_t, (size_t)n + 2);
  if (!p->slot_of || !p->section_end || !p->ending)
    return DT_NO_MEMORY();
  for (uint32_t k = n; k-- > 0;)
    p->section_end[k] =
        k + 1 < n && program->kernels.items[k].section == program->kernels.items[k + 1].section
            ? p->section_end[k + 1]
            : k;
  DT_TRY(find_lives(p));
  return find_typical(p);
}

dt_status_t dt__place_temps(dt_program_t *program) {
  uint32_t segment = 0;
  places_t p = {.program = program};
  firsts_t firsts = {0};
  DT_TRY(start(&p));
  DT_TRY(find_firsts(&p, &firsts));
  for (uint32_t k = program->n_once; k < program->kernels.len; k++) {
    while (segment < program->segments.len && k >= program->segments.items[segment].kernel_end)
      segment++;
    if (k)
      DT_TRY(free_ended(&p, k - 1));
    for (uint32_t b = firsts.first[k]; b; b = firsts.next[b - 1])
      DT_TRY(place(&p, b - 1, k, segment));
  }
  DT_LOG(DT_LOG_MEMORY, 1, "%u slots for the temporaries of %u buffers", p.slots.len,
         program->buffers.len);
  return set_offsets(&p);
}
