// SPDX-License-Identifier: Apache-2.0
// The verifier of regions: they nest, their kernels stand side by side, and predicates are written
// before they are read. A buffer written in a region is read only inside of it, unless it is STATE.
#include "lower/loop/verify_private.h"
#include "runtime/base/status.h"

static bool contains(const dt_program_region_t *region, uint32_t section) {
  return section >= region->section_first && section < region->section_end;
}

static dt_status_t verify_nesting(const dt_loop_verifier_t *v, uint32_t at) {
  const dt_program_t *program = v->program;
  const dt_program_region_t *region = &program->regions.items[at];
  if (!dt__region_kind_name(region->kind) || region->section_first == 0 ||
      region->section_first >= region->section_end || region->section_end > program->n_sections)
    return dt__loop_verify_fail(v, "region %u: sections %u to %u of %u", at, region->section_first,
                                region->section_end, program->n_sections);
  const dt_program_region_t *before = at ? &program->regions.items[at - 1] : NULL;
  const dt_program_region_t *around =
      region->parent ? &program->regions.items[region->parent - 1] : NULL;
  if (before && region->section_first < before->section_first)
    return dt__loop_verify_fail(v, "region %u begins before region %u", at, at - 1);
  if (around && region->section_end > around->section_end)
    return dt__loop_verify_fail(v, "region %u lies over the end of region %u", at,
                                region->parent - 1);
  if (region->kind == DT_REGION_ELSE && dt__region_if(program, at) == UINT32_MAX)
    return dt__loop_verify_fail(v, "region %u is an else without its if", at);
  bool cases = region->kind == DT_REGION_CASE;
  if (cases && (region->index >= region->n || region->n > DT_MOST_CASES ||
                dt__region_cases(program, at) == UINT32_MAX ||
                (region->index + 1 < region->n && dt__region_next_case(program, at) == UINT32_MAX)))
    return dt__loop_verify_fail(v, "region %u is case %u of %u that are not side by side", at,
                                region->index, region->n);
  return NULL;
}

// What regions and kernels know of each other, and that segments end outside of regions.
static dt_status_t verify_kernels(const dt_loop_verifier_t *v) {
  const dt_program_t *program = v->program;
  bool settled = false;
  DT_TRY(dt__program_is_settled(program, &settled));
  if (!settled)
    return dt__loop_verify_fail(v, "regions and kernels do not know of each other");
  for (uint32_t s = 0; s < program->segments.len; s++) {
    uint32_t end = program->segments.items[s].kernel_end;
    uint32_t at = end > program->n_once ? program->kernels.items[end - 1].region : 0;
    for (; at; at = program->regions.items[at - 1].parent)
      if (program->regions.items[at - 1].end > end)
        return dt__loop_verify_fail(v, "region %u goes over the end of segment %u", at - 1, s);
  }
  return NULL;
}

static bool writes(const dt_program_t *program, uint32_t first, uint32_t end, uint32_t id) {
  for (uint32_t k = first; k < end; k++)
    if (dt__kernel_stores_to(&program->kernels.items[k], id))
      return true;
  return false;
}

static dt_status_t verify_predicate(const dt_loop_verifier_t *v, uint32_t at) {
  const dt_program_t *program = v->program;
  const dt_program_region_t *region = &program->regions.items[at];
  uint32_t id = region->predicate.id;
  if (id == 0 || id > program->buffers.len)
    return dt__loop_verify_fail(v, "region %u: predicate %u of %u buffers", at, id,
                                program->buffers.len);
  const dt_buffer_t *buffer = dt__program_buffer(program, region->predicate);
  bool loop = region->kind == DT_REGION_WHILE;
  dt_dtype_t dtype = region->kind == DT_REGION_CASE ? DT_U8 : DT_BOOL;
  if (buffer->rank || buffer->dtype != dtype || buffer->kind == DT_BUFFER_LOCAL ||
      buffer->kind == DT_BUFFER_SLAB ||
      (loop && (buffer->kind != DT_BUFFER_STATE || buffer->index != at + 1)))
    return dt__loop_verify_fail(v, "region %u: buffer %u, which is %s, is no predicate of it", at,
                                id, dt__buffer_kind_name(buffer->kind));
  if (region->first == region->end)
    return NULL;
  bool memory = buffer->kind == DT_BUFFER_INPUT || buffer->kind == DT_BUFFER_CONSTANT;
  uint32_t writer = v->first_writer[id - 1];
  if (!memory && (!writer || writer > region->first))
    return dt__loop_verify_fail(v, "region %u begins before its predicate is written", at);
  if (loop != writes(program, region->first, region->end, id) && !memory)
    return dt__loop_verify_fail(v, "region %u %s its predicate", at,
                                loop ? "never changes" : "changes");
  return NULL;
}

// ---- What is read and written -------------------------------------------------------------------
static dt_status_t verify_read(const dt_loop_verifier_t *v, uint32_t k, dt_buffer_id_t id) {
  const dt_program_t *program = v->program;
  const dt_buffer_t *buffer = dt__program_buffer(program, id);
  if (!id.id || buffer->kind == DT_BUFFER_STATE || buffer->kind == DT_BUFFER_ONCE ||
      !v->first_writer[id.id - 1])
    return NULL;
  // Every region around the one that wrote it is around the reader.
  uint32_t section = program->kernels.items[k].section;
  uint32_t at = program->kernels.items[v->first_writer[id.id - 1] - 1].region;
  for (; at; at = program->regions.items[at - 1].parent)
    if (!contains(&program->regions.items[at - 1], section))
      return dt__loop_verify_fail(v, "kernel %u reads buffer %u, which region %u writes", k, id.id,
                                  at - 1);
  return NULL;
}

// The last kernels of a trip write state alone, and read none of it.
static dt_status_t verify_carry(const dt_loop_verifier_t *v, uint32_t k) {
  const dt_program_t *program = v->program;
  const dt_kernel_t *kernel = &program->kernels.items[k];
  uint32_t region = kernel->region - 1;
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    for (uint32_t i = 0; i < stage->insts.len; i++) {
      dt_buffer_id_t id = dt__inst_reads(&stage->insts.items[i]);
      if (id.id && dt__program_buffer(program, id)->kind == DT_BUFFER_STATE &&
          dt__program_buffer(program, id)->index == region + 1)
        return dt__loop_verify_fail(v, "kernel %u hands on state and reads buffer %u", k, id.id);
    }
    for (uint32_t i = 0; i < stage->stores.len; i++) {
      dt_buffer_id_t id = stage->stores.items[i].buffer;
      const dt_buffer_t *buffer = dt__program_buffer(program, id);
      if (buffer->kind != DT_BUFFER_STATE || buffer->index != region + 1)
        return dt__loop_verify_fail(v, "kernel %u hands on state and writes buffer %u", k, id.id);
    }
  }
  bool last = k + 1 == program->regions.items[region].end;
  if (!last && !dt__kernel_carries(program, &program->kernels.items[k + 1]))
    return dt__loop_verify_fail(v, "kernel %u comes after the state was handed on", k + 1);
  return NULL;
}

static dt_status_t verify_kernel(const dt_loop_verifier_t *v, uint32_t k) {
  const dt_program_t *program = v->program;
  const dt_kernel_t *kernel = &program->kernels.items[k];
  if (kernel->section && kernel->section >= program->n_sections)
    return dt__loop_verify_fail(v, "kernel %u is of section %u of %u", k, kernel->section,
                                program->n_sections);
  for (uint32_t s = 0; s < kernel->stages.len && program->regions.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    for (uint32_t i = 0; i < stage->insts.len; i++)
      DT_TRY(verify_read(v, k, dt__inst_reads(&stage->insts.items[i])));
    for (uint32_t i = 0; i < stage->stores.len; i++) {
      dt_buffer_kind_t kind = dt__program_buffer(program, stage->stores.items[i].buffer)->kind;
      if ((kind == DT_BUFFER_OUTPUT || kind == DT_BUFFER_INPUT) && kernel->region)
        return dt__loop_verify_fail(v, "kernel %u of a region writes %s", k,
                                    dt__buffer_kind_name(kind));
    }
  }
  // Plans let other kernels write state, too: nothing is moved any more.
  return dt__kernel_carries(program, kernel) && !program->block_bytes.id ? verify_carry(v, k)
                                                                         : NULL;
}

static dt_status_t verify_one_run(const dt_loop_verifier_t *v, uint32_t first, uint32_t end,
                                  const char *what) {
  for (uint32_t k = first; k + 1 < end; k++)
    if (v->program->kernels.items[k].section != v->program->kernels.items[k + 1].section)
      return dt__loop_verify_fail(v, "%s of kernels of several sections", what);
  return NULL;
}

dt_status_t dt__loop_verify_regions(const dt_loop_verifier_t *v) {
  const dt_program_t *program = v->program;
  for (uint32_t b = 0; b < program->buffers.len; b++) {
    const dt_buffer_t *buffer = &program->buffers.items[b];
    if (buffer->kind == DT_BUFFER_STATE &&
        (buffer->index > program->regions.len ||
         (buffer->index && program->regions.items[buffer->index - 1].kind != DT_REGION_WHILE)))
      return dt__loop_verify_fail(v, "buffer %u is state of region %u of %u", b + 1, buffer->index,
                                  program->regions.len);
  }
  for (uint32_t i = 0; i < program->regions.len; i++)
    DT_TRY(verify_nesting(v, i));
  DT_TRY(verify_kernels(v));
  for (uint32_t i = 0; i < program->regions.len; i++)
    DT_TRY(verify_predicate(v, i));
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    dt_kernel_chain_t chain = dt__kernel_chain(program, k);
    DT_TRY(verify_kernel(v, k));
    DT_TRY(verify_one_run(v, chain.first, chain.end, "a chain"));
  }
  for (uint32_t i = 0; i < program->slices.len; i++)
    DT_TRY(
        verify_one_run(v, program->slices.items[i].first, program->slices.items[i].end, "slices"));
  return NULL;
}
