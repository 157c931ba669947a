// SPDX-License-Identifier: Apache-2.0
// Regions of programs: where their kernels stand, and who lies in whom. What they must satisfy
// stands in verify_region.c.
#include "lower/loop/loop_private.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <stdlib.h>

static bool has_run(const dt_program_region_t *region, uint32_t run) {
  return run >= region->run_first && run < region->run_end;
}

// Neighbours of one run: kernels [first, end).
typedef struct span_t {
  uint32_t run, first, end;
} span_t;

static int compare_runs(const void *a, const void *b) {
  const span_t *x = a, *y = b;
  return x->run != y->run ? (x->run > y->run) - (x->run < y->run)
                          : (x->first > y->first) - (x->first < y->first);
}

// In the order of runs; how many there are.
static uint32_t find_spans(const dt_program_t *program, span_t *spans) {
  uint32_t n = 0;
  for (uint32_t k = program->n_once; k < program->kernels.len; k++) {
    uint32_t run = program->kernels.items[k].run;
    if (n == 0 || spans[n - 1].run != run)
      spans[n++] = (span_t){.run = run, .first = k};
    spans[n - 1].end = k + 1;
  }
  qsort(spans, n, sizeof(*spans), compare_runs);
  return n;
}

// The first span of run `run`, or behind it.
static uint32_t lower_bound(const span_t *spans, uint32_t n, uint32_t run) {
  uint32_t low = 0, high = n;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (spans[middle].run < run)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// How many kernels the region has.
static uint32_t settle(dt_program_region_t *region, const span_t *spans, uint32_t n) {
  uint32_t members = 0;
  region->first = region->end = 0;
  for (uint32_t i = lower_bound(spans, n, region->run_first);
       i < n && spans[i].run < region->run_end; i++) {
    region->first = members && region->first < spans[i].first ? region->first : spans[i].first;
    region->end = region->end > spans[i].end ? region->end : spans[i].end;
    members += spans[i].end - spans[i].first;
  }
  return members;
}

dt_status_t dt__program_settle_regions(dt_program_t *program) {
  if (program->regions.len == 0)
    return NULL;
  span_t *spans = dt__calloc(program->kernels.len, sizeof(*spans));
  if (!spans)
    return DT_NO_MEMORY();
  uint32_t n = find_spans(program, spans);
  dt_status_t status = NULL;
  for (uint32_t i = 0; i < program->regions.len && !status; i++) {
    dt_program_region_t *region = &program->regions.items[i];
    uint32_t members = settle(region, spans, n);
    if (region->end - region->first != members)
      status = DT_FAIL(DT_E_INTERNAL, "region %u: its %u kernels stand apart", i, members);
  }
  dt__free(spans);
  return status;
}

uint32_t dt__region_at(const dt_program_t *program, uint32_t k, uint32_t after) {
  for (uint32_t i = after; i < program->regions.len; i++) {
    const dt_program_region_t *region = &program->regions.items[i];
    if (region->first == k && region->end > k)
      return i;
  }
  return UINT32_MAX;
}

uint32_t dt__region_if(const dt_program_t *program, uint32_t other) {
  const dt_program_region_t *own = &program->regions.items[other];
  for (uint32_t i = other; i-- > 0;) {
    const dt_program_region_t *region = &program->regions.items[i];
    if (region->kind == DT_REGION_IF && region->run_end == own->run_first &&
        region->predicate.id == own->predicate.id)
      return i;
  }
  return UINT32_MAX;
}

uint32_t dt__region_next_case(const dt_program_t *program, uint32_t one) {
  const dt_program_region_t *own = &program->regions.items[one];
  for (uint32_t i = one + 1; i < program->regions.len; i++) {
    const dt_program_region_t *region = &program->regions.items[i];
    if (region->run_first == own->run_end)
      return region->kind == DT_REGION_CASE && region->index == own->index + 1 &&
                     region->n == own->n && region->predicate.id == own->predicate.id
                 ? i
                 : UINT32_MAX;
  }
  return UINT32_MAX;
}

uint32_t dt__region_cases(const dt_program_t *program, uint32_t one) {
  for (uint32_t i = one + 1; i-- > 0;) {
    uint32_t at = i;
    if (program->regions.items[i].kind != DT_REGION_CASE || program->regions.items[i].index)
      continue;
    while (at != one && at != UINT32_MAX)
      at = dt__region_next_case(program, at);
    if (at == one)
      return i;
  }
  return UINT32_MAX;
}

uint32_t dt__region_of_run(const dt_program_t *program, uint32_t run) {
  for (uint32_t i = program->regions.len; i-- > 0;)
    if (has_run(&program->regions.items[i], run))
      return i;
  return UINT32_MAX;
}

bool dt__kernel_carries(const dt_program_t *program, const dt_kernel_t *kernel) {
  for (uint32_t s = 0; s < kernel->stages.len && program->regions.len; s++)
    for (uint32_t k = 0; k < kernel->stages.items[s].stores.len; k++) {
      dt_buffer_id_t id = kernel->stages.items[s].stores.items[k].buffer;
      const dt_buffer_t *buffer = dt__program_buffer(program, id);
      if (buffer->kind == DT_BUFFER_STATE && buffer->index &&
          has_run(&program->regions.items[buffer->index - 1], kernel->run))
        return true;
    }
  return false;
}
