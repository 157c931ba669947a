// SPDX-License-Identifier: Apache-2.0
// Regions of programs: where their kernels stand, and which region is inside which. verify_region.c
// has the conditions that they must satisfy.
#include "lower/loop/loop_private.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <stdlib.h>
#include <string.h>

static bool has_section(const dt_program_region_t *region, uint32_t section) {
  return section >= region->section_first && section < region->section_end;
}

// Neighbours of one section: kernels [first, end).
typedef struct span_t {
  uint32_t section, first, end;
} span_t;

static int compare_runs(const void *a, const void *b) {
  const span_t *x = a, *y = b;
  return x->section != y->section ? (x->section > y->section) - (x->section < y->section)
                                  : (x->first > y->first) - (x->first < y->first);
}

// In the order of sections; how many there are.
static uint32_t find_spans(const dt_program_t *program, span_t *spans) {
  uint32_t n = 0;
  for (uint32_t k = program->n_once; k < program->kernels.len; k++) {
    uint32_t section = program->kernels.items[k].section;
    if (n == 0 || spans[n - 1].section != section)
      spans[n++] = (span_t){.section = section, .first = k};
    spans[n - 1].end = k + 1;
  }
  qsort(spans, n, sizeof(*spans), compare_runs);
  return n;
}

// The first span of the section, or behind it.
static uint32_t lower_bound(const span_t *spans, uint32_t n, uint32_t section) {
  uint32_t low = 0, high = n;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (spans[middle].section < section)
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
  for (uint32_t i = lower_bound(spans, n, region->section_first);
       i < n && spans[i].section < region->section_end; i++) {
    region->first = members && region->first < spans[i].first ? region->first : spans[i].first;
    region->end = region->end > spans[i].end ? region->end : spans[i].end;
    members += spans[i].end - spans[i].first;
  }
  return members;
}

// From region `at` - 1 outwards, 1 + the first that goes on behind the section.
static uint32_t still_open(const dt_program_region_t *regions, uint32_t at, uint32_t section) {
  while (at && regions[at - 1].section_end <= section)
    at = regions[at - 1].parent;
  return at;
}

// What a kernel is told.
typedef struct place_t {
  uint32_t region, begins;
} place_t;

static void place_kernels(const dt_program_region_t *regions, uint32_t n_regions,
                          const span_t *spans, uint32_t n, place_t *places) {
  uint32_t next = 0, inner = 0;
  for (uint32_t i = 0; i < n; i++) {
    for (; next < n_regions && regions[next].section_first <= spans[i].section; next++)
      inner = next + 1;
    inner = still_open(regions, inner, spans[i].section);
    for (uint32_t k = spans[i].first; k < spans[i].end; k++)
      places[k].region = inner;
  }
}

// `regions`: a copy of the program's; `places`: by kernel, zero.
static dt_status_t find_places(const dt_program_t *program, span_t *spans,
                               dt_program_region_t *regions, place_t *places) {
  uint32_t n = find_spans(program, spans), n_regions = program->regions.len;
  for (uint32_t i = 0; i < n_regions; i++) {
    uint32_t members = settle(&regions[i], spans, n);
    if (regions[i].end - regions[i].first != members)
      return DT_FAIL(DT_E_INTERNAL, "region %u: its %u kernels stand apart", i, members);
    regions[i].parent = still_open(regions, i, regions[i].section_first);
    regions[i].same = 0;
  }
  place_kernels(regions, n_regions, spans, n, places);
  for (uint32_t i = n_regions; i-- > 0;) {
    if (regions[i].first == regions[i].end)
      continue;
    regions[i].same = places[regions[i].first].begins;
    places[regions[i].first].begins = i + 1;
  }
  return NULL;
}

typedef dt_status_t (*settled_fn_t)(dt_program_t *program, const dt_program_region_t *regions,
                                    const place_t *places, bool *out);

static dt_status_t with_places(dt_program_t *program, settled_fn_t fn, bool *out) {
  size_t n = program->kernels.len, n_regions = program->regions.len;
  span_t *spans = dt__calloc(n + 1, sizeof(*spans));
  place_t *places = dt__calloc(n + 1, sizeof(*places));
  dt_program_region_t *regions = dt__calloc(n_regions + 1, sizeof(*regions));
  dt_status_t status = spans && places && regions ? NULL : DT_NO_MEMORY();
  if (!status && n_regions) {
    memcpy(regions, program->regions.items, n_regions * sizeof(*regions));
    status = find_places(program, spans, regions, places);
  }
  if (!status)
    status = fn(program, regions, places, out);
  dt__free(spans);
  dt__free(places);
  dt__free(regions);
  return status;
}

static dt_status_t set(dt_program_t *program, const dt_program_region_t *regions,
                       const place_t *places, bool *out) {
  (void)out;
  memcpy(program->regions.items, regions, program->regions.len * sizeof(*regions));
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    program->kernels.items[k].region = places[k].region;
    program->kernels.items[k].begins = places[k].begins;
  }
  return NULL;
}

dt_status_t dt__program_settle_regions(dt_program_t *program) {
  return program->regions.len ? with_places(program, set, NULL) : NULL;
}

static dt_status_t compare(dt_program_t *program, const dt_program_region_t *regions,
                           const place_t *places, bool *out) {
  *out = true;
  for (uint32_t i = 0; i < program->regions.len; i++) {
    const dt_program_region_t *a = &regions[i], *b = &program->regions.items[i];
    *out = *out && a->first == b->first && a->end == b->end && a->parent == b->parent &&
           a->same == b->same;
  }
  for (uint32_t k = 0; k < program->kernels.len; k++)
    *out = *out && places[k].region == program->kernels.items[k].region &&
           places[k].begins == program->kernels.items[k].begins;
  return NULL;
}

dt_status_t dt__program_is_settled(const dt_program_t *program, bool *out) {
  *out = true;
  return program->regions.len ? with_places((dt_program_t *)(uintptr_t)program, compare, out)
                              : NULL;
}

// ---- Looking them up ------------------------------------------------------------------------------
uint32_t dt__region_at(const dt_program_t *program, uint32_t k, uint32_t after) {
  uint32_t at = program->regions.len ? program->kernels.items[k].begins : 0;
  while (at && at - 1 < after)
    at = program->regions.items[at - 1].same;
  return at - 1;
}

uint32_t dt__region_if(const dt_program_t *program, uint32_t other) {
  const dt_program_region_t *own = &program->regions.items[other];
  for (uint32_t i = other; i-- > own->parent;) {
    const dt_program_region_t *region = &program->regions.items[i];
    if (region->kind == DT_REGION_IF && region->section_end == own->section_first &&
        region->predicate.id == own->predicate.id)
      return i;
  }
  return UINT32_MAX;
}

// The region that begins where this one ends, or UINT32_MAX.
static uint32_t next_beside(const dt_program_t *program, uint32_t one) {
  uint32_t section_end = program->regions.items[one].section_end, i = one + 1;
  while (i < program->regions.len && program->regions.items[i].section_first < section_end)
    i++;
  return i < program->regions.len && program->regions.items[i].section_first == section_end
             ? i
             : UINT32_MAX;
}

uint32_t dt__region_else(const dt_program_t *program, uint32_t one) {
  uint32_t next = next_beside(program, one);
  const dt_program_region_t *own = &program->regions.items[one];
  if (next == UINT32_MAX || own->kind != DT_REGION_IF)
    return UINT32_MAX;
  const dt_program_region_t *region = &program->regions.items[next];
  return region->kind == DT_REGION_ELSE && region->predicate.id == own->predicate.id ? next
                                                                                     : UINT32_MAX;
}

uint32_t dt__region_next_case(const dt_program_t *program, uint32_t one) {
  uint32_t next = next_beside(program, one);
  const dt_program_region_t *own = &program->regions.items[one];
  if (next == UINT32_MAX)
    return UINT32_MAX;
  const dt_program_region_t *region = &program->regions.items[next];
  return region->kind == DT_REGION_CASE && region->index == own->index + 1 && region->n == own->n &&
                 region->predicate.id == own->predicate.id
             ? next
             : UINT32_MAX;
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

bool dt__kernel_carries(const dt_program_t *program, const dt_kernel_t *kernel) {
  for (uint32_t s = 0; s < kernel->stages.len && program->regions.len; s++)
    for (uint32_t k = 0; k < kernel->stages.items[s].stores.len; k++) {
      dt_buffer_id_t id = kernel->stages.items[s].stores.items[k].buffer;
      const dt_buffer_t *buffer = dt__program_buffer(program, id);
      if (buffer->kind == DT_BUFFER_STATE && buffer->index &&
          has_section(&program->regions.items[buffer->index - 1], kernel->section))
        return true;
    }
  return false;
}
