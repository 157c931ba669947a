// SPDX-License-Identifier: Apache-2.0
// Regions of programs: where their kernels stand, and who lies in whom. What they must satisfy
// stands in verify_region.c.
#include "lower/loop/loop_private.h"
#include "runtime/base/status.h"

static bool has_run(const dt_program_region_t *region, uint32_t run) {
  return run >= region->run_first && run < region->run_end;
}

dt_status_t dt__program_settle_regions(dt_program_t *program) {
  for (uint32_t i = 0; i < program->regions.len; i++) {
    dt_program_region_t *region = &program->regions.items[i];
    uint32_t members = 0;
    region->first = region->end = 0;
    for (uint32_t k = program->n_once; k < program->kernels.len; k++) {
      if (!has_run(region, program->kernels.items[k].run))
        continue;
      region->first = members ? region->first : k;
      region->end = k + 1;
      members++;
    }
    if (region->end - region->first != members)
      return DT_FAIL(DT_E_INTERNAL, "region %u: its %u kernels stand apart", i, members);
  }
  return NULL;
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
