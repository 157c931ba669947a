// SPDX-License-Identifier: Apache-2.0
// See order.h.
#include "fuse/order.h"

#include "runtime/base/status.h"

#include <string.h>

static void at_least(uint32_t *value, uint32_t other) { *value = *value > other ? *value : other; }

// Stores of `kernel` to each buffer are added to `counts`, or taken away. What updates an argument
// is not counted: nobody waits for it.
static void count_stores(const dt_program_t *program, const dt_kernel_t *kernel, uint32_t *counts,
                         bool add) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].stores.len; i++) {
      uint32_t b = kernel->stages.items[s].stores.items[i].buffer.id - 1;
      if (program->buffers.items[b].kind != DT_BUFFER_INPUT)
        counts[b] += add ? 1U : UINT32_MAX;
    }
}

// The buffer that the kernel revises, if any: it waits for what others store there.
static dt_buffer_id_t revised(const dt_kernel_t *kernel) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].stores.len; i++)
      if (kernel->stages.items[s].stores.items[i].revises)
        return kernel->stages.items[s].stores.items[i].buffer;
  return (dt_buffer_id_t){0};
}

// ---- Segments -------------------------------------------------------------------------------------

typedef struct segments_t {
  dt_program_t *program;
  uint32_t *kernels, *readbacks; // what is looked for
  // By buffer, [id - 1]: the first segment in which kernels may read it, the first at whose
  // beginning the host may, and the stores to it in kernels to come.
  uint32_t *readable, *host_readable, *left;
  uint32_t n_bound; // readbacks whose segments are known
  uint32_t *floor;  // by kernel: the segment that the others of its region need
} segments_t;

static dt_status_t bind_readbacks(segments_t *s, uint32_t n) {
  for (; s->n_bound < n; s->n_bound++) {
    uint32_t b = s->program->readbacks.items[s->n_bound].buffer.id - 1;
    uint32_t segment = s->n_bound ? s->readbacks[s->n_bound - 1] : 0;
    if (s->left[b])
      return DT_FAIL(DT_E_INTERNAL, "fuse: readback %u is used before it is written", s->n_bound);
    at_least(&segment, s->host_readable[b]);
    s->readbacks[s->n_bound] = segment;
  }
  return NULL;
}

static void note_stores(segments_t *s, const dt_kernel_t *kernel, uint32_t segment, bool once) {
  for (uint32_t t = 0; t < kernel->stages.len; t++)
    for (uint32_t i = 0; i < kernel->stages.items[t].stores.len; i++) {
      uint32_t b = kernel->stages.items[t].stores.items[i].buffer.id - 1;
      at_least(&s->readable[b], segment);
      at_least(&s->host_readable[b], once ? 0 : segment + 1);
    }
  count_stores(s->program, kernel, s->left, false);
}

static dt_status_t find_segment(segments_t *s, uint32_t k) {
  const dt_kernel_t *kernel = &s->program->kernels.items[k];
  uint32_t readbacks = dt__kernel_readbacks(s->program, kernel), segment = 0;
  DT_TRY(bind_readbacks(s, readbacks));
  if (readbacks)
    segment = s->readbacks[readbacks - 1];
  at_least(&segment, s->floor[k]);
  for (uint32_t t = 0; t < kernel->stages.len; t++)
    for (uint32_t i = 0; i < kernel->stages.items[t].insts.len; i++) {
      dt_buffer_id_t buffer = dt__inst_reads(&kernel->stages.items[t].insts.items[i]);
      if (buffer.id)
        at_least(&segment, s->readable[buffer.id - 1]);
    }
  if (revised(kernel).id)
    at_least(&segment, s->readable[revised(kernel).id - 1]);
  s->kernels[k] = segment;
  note_stores(s, kernel, segment, k < s->program->n_once);
  return NULL;
}

static dt_status_t find_all(segments_t *s) {
  const dt_program_t *program = s->program;
  uint32_t n = program->kernels.len, m = program->buffers.len;
  memset(s->readable, 0, m * sizeof(*s->readable));
  memset(s->host_readable, 0, m * sizeof(*s->host_readable));
  memset(s->left, 0, m * sizeof(*s->left));
  s->n_bound = 0;
  for (uint32_t k = 0; k < n; k++)
    count_stores(program, &program->kernels.items[k], s->left, true);
  for (uint32_t k = 0; k < n && program->readbacks.len; k++)
    DT_TRY(find_segment(s, k));
  return bind_readbacks(s, program->readbacks.len);
}

static bool raise(segments_t *s, uint32_t kernel, uint32_t segment) {
  bool raised = s->floor[kernel] < segment;
  at_least(&s->floor[kernel], segment);
  return raised;
}

// Kernels that run slice by slice do so in one segment, too. Whether that moves any of them.
static bool raise_slices(segments_t *s, uint32_t number) {
  const dt_program_t *program = s->program;
  uint32_t segment = 0;
  bool raised = false;
  for (uint32_t k = 0; k < program->kernels.len; k++)
    if (program->kernels.items[k].slices == number)
      at_least(&segment, s->kernels[k]);
  for (uint32_t k = 0; k < program->kernels.len; k++)
    if (program->kernels.items[k].slices == number)
      raised = raise(s, k, segment) || raised;
  return raised;
}

// A region runs in one segment: the last that one of its kernels needs, or its predicate. Whether
// that moves any of its kernels.
static bool raise_floors(segments_t *s) {
  const dt_program_t *program = s->program;
  bool raised = false;
  for (uint32_t i = 0; i < program->slices.len && program->readbacks.len; i++)
    raised = raise_slices(s, i + 1) || raised;
  for (uint32_t i = 0; i < program->regions.len && program->readbacks.len; i++) {
    const dt_program_region_t *region = &program->regions.items[i];
    uint32_t segment = s->readable[region->predicate.id - 1];
    for (uint32_t k = region->first; k < region->end; k++)
      at_least(&segment, s->kernels[k]);
    for (uint32_t k = region->first; k < region->end; k++)
      raised = raise(s, k, segment) || raised;
  }
  return raised;
}

dt_status_t dt__find_segments(dt_program_t *program, uint32_t **out_kernels,
                              uint32_t **out_readbacks) {
  uint32_t n = program->kernels.len, m = program->buffers.len, last = 0;
  dt_arena_t *arena = program->arena;
  segments_t s = {.program = program,
                  .kernels = DT_ARENA_ARRAY(arena, uint32_t, n + 1),
                  .readbacks = DT_ARENA_ARRAY(arena, uint32_t, program->readbacks.len + 1),
                  .readable = DT_ARENA_ARRAY(arena, uint32_t, m + 1),
                  .host_readable = DT_ARENA_ARRAY(arena, uint32_t, m + 1),
                  .left = DT_ARENA_ARRAY(arena, uint32_t, m + 1)};
  if (!s.kernels || !s.readbacks || !s.readable || !s.host_readable || !s.left)
    return DT_NO_MEMORY();
  s.floor = DT_ARENA_ARRAY(arena, uint32_t, n + 1);
  if (!s.floor)
    return DT_NO_MEMORY();
  do {
    DT_TRY(find_all(&s));
  } while (raise_floors(&s));
  for (uint32_t k = 0; k < n && program->readbacks.len; k++)
    at_least(&last, s.kernels[k]);
  if (program->readbacks.len)
    at_least(&last, s.readbacks[program->readbacks.len - 1]);
  for (uint32_t k = 0; k < n; k++)
    if (dt__kernel_updates(program, &program->kernels.items[k]))
      s.kernels[k] = last;
  *out_kernels = s.kernels;
  if (out_readbacks)
    *out_readbacks = s.readbacks;
  return NULL;
}
