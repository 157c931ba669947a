// SPDX-License-Identifier: Apache-2.0
// See repeats.h.
#include "fuse/repeats.h"

#include "runtime/base/hash.h"
#include "runtime/base/status.h"

#include <string.h>

// By buffer, [id - 1]: the one that stands for it in the other section, or 0.
typedef struct match_t {
  const dt_program_t *program;
  const bool *shared;
  uint32_t *to, *from;            // from the first section to the second, and back
  DT_VEC(uint32_t) first, second; // those that have one, in order
} match_t;

// ---- Buffers ------------------------------------------------------------------------------------
static bool is_read_back(const dt_program_t *program, uint32_t id) {
  for (uint32_t i = 0; i < program->readbacks.len; i++)
    if (program->readbacks.items[i].buffer.id == id)
      return true;
  return false;
}

// A loop's state ends in another section each, so it stands for itself alone.
static bool alike_buffers(const match_t *m, uint32_t a, uint32_t b) {
  const dt_buffer_t *x = &m->program->buffers.items[a - 1], *y = &m->program->buffers.items[b - 1];
  if (a == b)
    return true;
  return dt__buffers_alike(x, y) && m->shared[a - 1] == m->shared[b - 1] &&
         x->kind != DT_BUFFER_STATE && !is_read_back(m->program, a) && !is_read_back(m->program, b);
}

static bool same_buffer(match_t *m, uint32_t a, uint32_t b) {
  if (!a || !b)
    return a == b;
  if (m->to[a - 1] || m->from[b - 1])
    return m->to[a - 1] == b && m->from[b - 1] == a;
  if (!alike_buffers(m, a, b) || !DT_VEC_PUSH(m->program->arena, &m->first, a) ||
      !DT_VEC_PUSH(m->program->arena, &m->second, b))
    return false;
  m->to[a - 1] = b;
  m->from[b - 1] = a;
  return true;
}

static void forget(match_t *m) {
  for (uint32_t i = 0; i < m->first.len; i++)
    m->to[m->first.items[i] - 1] = 0;
  for (uint32_t i = 0; i < m->second.len; i++)
    m->from[m->second.items[i] - 1] = 0;
  m->first.len = m->second.len = 0;
}

// ---- Kernels ------------------------------------------------------------------------------------
static bool same_exprs(const dt_sym_t *a, const dt_sym_t *b, uint32_t n) {
  for (uint32_t k = 0; a != b && k < n; k++)
    if (a[k].id != b[k].id)
      return false;
  return true;
}

static bool same_index(const match_t *m, uint32_t buffer, const dt_sym_t *a, const dt_sym_t *b) {
  if (!a || !b || !buffer)
    return a == b;
  return same_exprs(a, b, m->program->buffers.items[buffer - 1].rank);
}

static bool same_inst(match_t *m, const dt_inst_t *a, const dt_inst_t *b) {
  uint32_t reads = dt__inst_reads(a).id;
  return a->kind == b->kind && a->dtype == b->dtype && a->op == b->op && a->mask == b->mask &&
         memcmp(a->args, b->args, sizeof(a->args)) == 0 && a->row == b->row &&
         a->inclusive == b->inclusive && a->check == b->check && a->sym.id == b->sym.id &&
         a->extent.id == b->extent.id && memcmp(&a->value, &b->value, sizeof(a->value)) == 0 &&
         same_buffer(m, reads, dt__inst_reads(b).id) && same_index(m, reads, a->index, b->index);
}

static bool same_store(match_t *m, const dt_store_t *a, const dt_store_t *b) {
  return a->value == b->value && a->mask == b->mask && a->revises == b->revises &&
         a->whole == b->whole && same_buffer(m, a->buffer.id, b->buffer.id) &&
         same_index(m, a->buffer.id, a->index, b->index);
}

static bool same_reduction(const dt_reduction_t *a, const dt_reduction_t *b) {
  return a->kind == b->kind && a->value == b->value && a->index == b->index && a->row == b->row &&
         a->dtype == b->dtype;
}

static bool same_stage(match_t *m, const dt_stage_t *a, const dt_stage_t *b) {
  bool same = a->n_loops == b->n_loops && same_exprs(a->vars, b->vars, a->n_loops) &&
              same_exprs(a->extents, b->extents, a->n_loops) && a->insts.len == b->insts.len &&
              a->stores.len == b->stores.len && a->reductions.len == b->reductions.len;
  for (uint32_t i = 0; same && i < a->insts.len; i++)
    same = same_inst(m, &a->insts.items[i], &b->insts.items[i]);
  for (uint32_t i = 0; same && i < a->stores.len; i++)
    same = same_store(m, &a->stores.items[i], &b->stores.items[i]);
  for (uint32_t i = 0; same && i < a->reductions.len; i++)
    same = same_reduction(&a->reductions.items[i], &b->reductions.items[i]);
  return same;
}

// Both are in none, or in slices that are alike.
static bool same_slices(const dt_program_t *program, uint32_t a, uint32_t b) {
  if (!a || !b)
    return a == b;
  const dt_program_slices_t *x = &program->slices.items[a - 1], *y = &program->slices.items[b - 1];
  return x->extent.id == y->extent.id && x->step.id == y->step.id && x->begin == y->begin &&
         x->count == y->count;
}

static bool same_kernel(match_t *m, const dt_kernel_t *a, const dt_kernel_t *b) {
  bool same = a->n_loops == b->n_loops && same_exprs(a->vars, b->vars, a->n_loops) &&
              same_exprs(a->extents, b->extents, a->n_loops) && a->stages.len == b->stages.len &&
              a->n_rows == b->n_rows && !a->external && !b->external && !a->gate.id &&
              !b->gate.id && !a->chain == !b->chain &&
              same_slices(m->program, a->slices, b->slices) && a->schedules.len == b->schedules.len;
  if (same && a->schedules.len)
    same = memcmp(a->schedules.items, b->schedules.items,
                  a->schedules.len * sizeof(*a->schedules.items)) == 0;
  for (uint32_t s = 0; same && s < a->stages.len; s++)
    same = same_stage(m, &a->stages.items[s], &b->stages.items[s]);
  return same;
}

// ---- Sections -----------------------------------------------------------------------------------
static bool same_section(match_t *m, const dt_section_t *a, const dt_section_t *b) {
  const dt_kernel_t *kernels = m->program->kernels.items;
  bool same = a->end - a->first == b->end - b->first;
  for (uint32_t k = 0; same && k < a->end - a->first; k++) {
    const dt_kernel_t *x = &kernels[a->first + k], *y = &kernels[b->first + k];
    same = same_kernel(m, x, y);
    if (same && k) // chains begin and end at the same places
      same = (x->chain == x[-1].chain) == (y->chain == y[-1].chain) &&
             (x->slices == x[-1].slices) == (y->slices == y[-1].slices);
  }
  return same;
}

// Equal sections have equal ones.
static uint64_t hash_of(const dt_program_t *program, const dt_section_t *section) {
  uint64_t hash = dt__hash_mix(section->end - section->first, 0);
  for (uint32_t k = section->first; k < section->end; k++) {
    const dt_kernel_t *kernel = &program->kernels.items[k];
    hash = dt__hash_mix(kernel->stages.len, hash);
    for (uint32_t i = 0; i < kernel->n_loops; i++)
      hash = dt__hash_mix(kernel->vars[i].id, hash);
  }
  return hash;
}

static dt_status_t keep(match_t *m, dt_section_t *one, dt_section_t *other) {
  dt_arena_t *arena = m->program->arena;
  size_t bytes = m->first.len * sizeof(uint32_t);
  other->n_buffers = one->n_buffers = m->first.len;
  other->buffers = dt__arena_copy(arena, m->second.items, bytes);
  one->buffers = dt__arena_copy(arena, m->first.items, bytes);
  return one->buffers && other->buffers ? NULL : DT_NO_MEMORY();
}

// Sections that equal no earlier one, by hash.
typedef struct heads_t {
  uint32_t *newest, *before; // by hash, and by section: 1 + a section; 0: none
  uint32_t mask;
} heads_t;

static dt_status_t find_same(match_t *m, dt_section_t *sections, heads_t *heads, uint32_t at) {
  uint32_t *newest = &heads->newest[hash_of(m->program, &sections[at]) & heads->mask];
  for (uint32_t k = *newest; k--; k = heads->before[k]) {
    bool same = same_section(m, &sections[k], &sections[at]);
    dt_status_t status = same ? keep(m, &sections[k], &sections[at]) : NULL;
    forget(m);
    DT_TRY(status);
    if (same) {
      sections[at].same = k + 1;
      return NULL;
    }
  }
  heads->before[at] = *newest;
  *newest = at + 1;
  return NULL;
}

dt_status_t dt__find_sections(const dt_program_t *program, const bool *shared, dt_section_t **out,
                              uint32_t *out_n) {
  dt_arena_t *arena = program->arena;
  uint32_t n = 0, most = program->kernels.len;
  dt_section_t *sections = *out = DT_ARENA_ARRAY(arena, dt_section_t, (size_t)most + 1);
  heads_t heads = {.before = DT_ARENA_ARRAY(arena, uint32_t, (size_t)most + 1), .mask = 1};
  while (heads.mask < most)
    heads.mask = 2 * heads.mask + 1;
  heads.newest = DT_ARENA_ARRAY(arena, uint32_t, (size_t)heads.mask + 1);
  match_t m = {.program = program, .shared = shared};
  m.to = DT_ARENA_ARRAY(arena, uint32_t, (size_t)program->buffers.len + 1);
  m.from = DT_ARENA_ARRAY(arena, uint32_t, (size_t)program->buffers.len + 1);
  if (!sections || !heads.before || !heads.newest || !m.to || !m.from)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < most; n++) {
    uint32_t section = program->kernels.items[k].section;
    sections[n].first = k;
    while (k < most && program->kernels.items[k].section == section)
      k++;
    sections[n].end = k;
    DT_TRY(find_same(&m, sections, &heads, n));
  }
  *out_n = n;
  return NULL;
}
