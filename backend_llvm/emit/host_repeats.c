// SPDX-License-Identifier: Apache-2.0
// Launches that repeat: kernels of sections that are equal but for their buffers (the calls of one
// subgraph), and kernels of constants, one like another. One function launches them, with a table
// of addresses for each time.
#include "backend_llvm/emit/host_body.h"

#include "runtime/base/hash.h"
#include "runtime/base/status.h"

// Of fewer kernels a call costs more than code that repeats saves.
enum { MANY = 32 };

// ---- Steps ----------------------------------------------------------------------------------------
// Kernels that are launched by one: chains, and what runs in slices.
static uint32_t unit_end(const dt_program_t *program, uint32_t k) {
  const dt_program_slices_t *slices = dt__kernel_slices(program, k);
  uint32_t end = slices ? slices->end : k + 1;
  while (end < program->kernels.len && program->kernels.items[end].chain &&
         program->kernels.items[end].chain == program->kernels.items[end - 1].chain)
    end++;
  return end;
}

static uint32_t step_end(const dt_program_t *program, uint32_t first, uint32_t last) {
  uint32_t section = program->kernels.items[first].section, end = unit_end(program, first);
  while (section && end < last && program->kernels.items[end].section == section)
    end = unit_end(program, end);
  return end < last ? end : last;
}

// ---- Steps that are alike -------------------------------------------------------------------------
static bool alike_slices(const dt_program_t *program, uint32_t a, uint32_t b) {
  const dt_program_slices_t *x = dt__kernel_slices(program, a), *y = dt__kernel_slices(program, b);
  if (!x || !y)
    return !x && !y;
  return x->extent.id == y->extent.id && x->step.id == y->step.id && x->begin == y->begin &&
         x->count == y->count && a - x->first == b - y->first && x->end - a == y->end - b;
}

static bool alike_schedules(const dt_host_program_t *p, uint32_t a, uint32_t b) {
  const dt_unit_map_t *map = p->map;
  const dt_kernel_t *x = &p->m->program.kernels.items[a], *y = &p->m->program.kernels.items[b];
  bool alike = x->schedules.len == y->schedules.len;
  for (uint32_t s = 0; alike && s < x->schedules.len; s++)
    alike = map->code_of_kernel[map->first_code[a] + s] ==
                map->code_of_kernel[map->first_code[b] + s] &&
            x->schedules.items[s].predicate.id == y->schedules.items[s].predicate.id;
  return alike;
}

// Both are left out where their result is there without them, or neither is.
static bool alike_copies(const dt_program_t *program, const dt_kernel_t *x, const dt_kernel_t *y) {
  dt_buffer_id_t from, to;
  return dt__kernel_copies_result(program, x, &from, &to) ==
             dt__kernel_copies_result(program, y, &from, &to) &&
         dt__kernel_copies_whole(program, x, &from, &to) ==
             dt__kernel_copies_whole(program, y, &from, &to);
}

// Equal code of equal symbols, over equal loops: what differs are buffers.
static bool alike_kernels(const dt_host_program_t *p, uint32_t a, uint32_t b) {
  const dt_program_t *program = &p->m->program;
  const dt_kernel_t *x = &program->kernels.items[a], *y = &program->kernels.items[b];
  const dt_kernel_params_t *of_x = &p->params[a], *of_y = &p->params[b];
  if (x->external || y->external || x->n_loops != y->n_loops || !x->gate.id != !y->gate.id ||
      of_x->n_buffers != of_y->n_buffers || of_x->n_symbols != of_y->n_symbols ||
      dt__kernel_chain(program, a).end - a != dt__kernel_chain(program, b).end - b ||
      !alike_copies(program, x, y))
    return false;
  for (uint32_t i = 0; i < x->n_loops; i++)
    if (x->extents[i].id != y->extents[i].id)
      return false;
  for (uint32_t i = 0; i < of_x->n_symbols; i++)
    if (of_x->symbols[i] != of_y->symbols[i])
      return false;
  return alike_schedules(p, a, b) && alike_slices(program, a, b);
}

static bool alike_steps(const dt_host_program_t *p, const dt_host_step_t *a,
                        const dt_host_step_t *b) {
  bool alike = a->end - a->first == b->end - b->first;
  for (uint32_t k = 0; alike && k < a->end - a->first; k++)
    alike = alike_kernels(p, a->first + k, b->first + k);
  return alike;
}

// ---- Their buffers --------------------------------------------------------------------------------
static uint32_t count_params(const dt_host_program_t *p, const dt_host_step_t *step) {
  uint32_t n = 0;
  for (uint32_t k = step->first; k < step->end; k++)
    n += p->params[k].n_buffers;
  return n;
}

// The buffers of a step, each once, and those that stand for them in the other one; false: one
// stands for two.
static bool pair_buffers(const dt_host_program_t *p, dt_host_step_t *one, dt_host_step_t *other,
                         dt_buffer_id_t *ones, dt_buffer_id_t *others) {
  uint32_t n = 0;
  bool good = true;
  for (uint32_t k = 0; good && k < one->end - one->first; k++) {
    const dt_kernel_params_t *x = &p->params[one->first + k], *y = &p->params[other->first + k];
    for (uint32_t i = 0; good && i < x->n_buffers; i++) {
      uint32_t *stand = &p->stands[x->buffers[i].id - 1];
      good = !*stand || *stand == y->buffers[i].id;
      if (!*stand) {
        ones[n] = x->buffers[i];
        others[n++] = y->buffers[i];
      }
      *stand = y->buffers[i].id;
    }
  }
  for (uint32_t i = 0; i < n; i++)
    p->stands[ones[i].id - 1] = 0;
  if (good) {
    one->n_buffers = other->n_buffers = n;
    one->buffers = ones;
    other->buffers = others;
  }
  return good;
}

// Steps of which no earlier one is alike, by hash.
typedef struct found_t {
  uint32_t *heads, *next; // by hash: 1 + the newest; by step: 1 + the one before it; 0: none
  uint32_t mask;
} found_t;

// Of what alike steps have in common.
static uint64_t hash_of(const dt_host_program_t *p, const dt_host_step_t *step) {
  const dt_unit_map_t *map = p->map;
  uint64_t hash = dt__hash_mix(step->end - step->first, 0);
  for (uint32_t k = step->first; k < step->end; k++) {
    hash = dt__hash_mix(p->params[k].n_buffers, hash);
    if (p->m->program.kernels.items[k].schedules.len)
      hash = dt__hash_mix(map->code_of_kernel[map->first_code[k]], hash);
    for (uint32_t i = 0; i < p->params[k].n_symbols; i++)
      hash = dt__hash_mix(p->params[k].symbols[i], hash);
  }
  return hash;
}

static dt_status_t find_like(const dt_host_program_t *p, dt_host_step_t *steps, uint32_t at,
                             found_t *found) {
  dt_arena_t *arena = &p->m->arena;
  uint32_t *head = &found->heads[hash_of(p, &steps[at]) & found->mask];
  for (uint32_t k = *head; k--; k = found->next[k]) {
    if (!alike_steps(p, &steps[k], &steps[at]))
      continue;
    uint32_t n = count_params(p, &steps[at]);
    dt_buffer_id_t *ones = DT_ARENA_ARRAY(arena, dt_buffer_id_t, (size_t)n + 1);
    dt_buffer_id_t *others = DT_ARENA_ARRAY(arena, dt_buffer_id_t, (size_t)n + 1);
    if (!ones || !others)
      return DT_NO_MEMORY();
    if (!pair_buffers(p, &steps[k], &steps[at], ones, others))
      continue;
    steps[at].of = k + 1;
    steps[k].repeated = true;
    return NULL;
  }
  found->next[at] = *head;
  *head = at + 1;
  return NULL;
}

dt_status_t dt__host_steps(const dt_host_program_t *p, uint32_t first, uint32_t last, bool repeats,
                           dt_host_step_t **out, uint32_t *out_n) {
  const dt_program_t *program = &p->m->program;
  dt_arena_t *arena = &p->m->arena;
  uint32_t n = 0, slots = 1;
  found_t found = {NULL, NULL, 0};
  while (slots < last - first)
    slots *= 2;
  found.mask = slots - 1;
  found.heads = DT_ARENA_ARRAY(arena, uint32_t, slots);
  found.next = DT_ARENA_ARRAY(arena, uint32_t, (size_t)(last - first) + 1);
  dt_host_step_t *steps = *out = DT_ARENA_ARRAY(arena, dt_host_step_t, (size_t)(last - first) + 1);
  if (!steps || !found.heads || !found.next)
    return DT_NO_MEMORY();
  for (uint32_t k = first; k < last; k = steps[n++].end) {
    steps[n] = (dt_host_step_t){.first = k, .end = step_end(program, k, last)};
    if (repeats || (last - first >= MANY && program->kernels.items[k].section))
      DT_TRY(find_like(p, steps, n, &found));
  }
  *out_n = n;
  return NULL;
}
