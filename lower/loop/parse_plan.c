// SPDX-License-Identifier: Apache-2.0
// Reads everything around kernels from text: results, readbacks, the memory plan and its segments.
#include "lower/loop/parse_private.h"
#include "runtime/base/status.h"

dt_status_t dt__loop_parse_outputs(dt_loop_parser_t *p) {
  do {
    dt_buffer_id_t id;
    DT_TRY(dt__loop_parse_buffer(p, &id));
    if (!DT_VEC_PUSH(p->arena, &p->program->outputs, id))
      return DT_NO_MEMORY();
  } while (dt__scan_accept(p->scan, ","));
  return NULL;
}

dt_status_t dt__loop_parse_once(dt_loop_parser_t *p) {
  return dt__loop_parse_u32(p, &p->program->n_once);
}

dt_status_t dt__loop_parse_device_sized(dt_loop_parser_t *p) {
  p->program->device_sized = true;
  return NULL;
}

dt_status_t dt__loop_parse_host_reads(dt_loop_parser_t *p) {
  return dt__loop_parse_string(p, &p->program->segments_reason);
}

dt_status_t dt__loop_parse_offset(dt_loop_parser_t *p) {
  dt_buffer_id_t id;
  DT_TRY(dt__loop_parse_buffer(p, &id));
  DT_TRY(dt__scan_expect(p->scan, "="));
  return dt__sym_parse(p->env, p->scan, &p->program->offsets.items[id.id - 1]);
}

dt_status_t dt__loop_parse_block(dt_loop_parser_t *p) {
  return dt__sym_parse(p->env, p->scan, &p->program->block_bytes);
}

dt_status_t dt__loop_parse_kept(dt_loop_parser_t *p) {
  return dt__sym_parse(p->env, p->scan, &p->program->once_bytes);
}

dt_status_t dt__loop_parse_readback(dt_loop_parser_t *p) {
  dt_readback_t readback = {0};
  DT_TRY(dt__loop_parse_buffer(p, &readback.buffer));
  DT_TRY(dt__scan_expect(p->scan, "binds"));
  DT_TRY(dt__loop_parse_id(p, 'u', &readback.symbol));
  if (readback.symbol >= dt__symenv_symbol_count(p->env) ||
      dt__symbol_info(p->env, readback.symbol).kind != DT_SYMBOL_UNBACKED)
    return dt__scan_fail(p->scan, "there is no symbol u%u", readback.symbol);
  DT_TRY(dt__loop_parse_string(p, &readback.what));
  DT_TRY(dt__scan_expect(p->scan, "op"));
  DT_TRY(dt__loop_parse_string(p, &readback.origin.op));
  if (dt__scan_accept_word(p->scan, "most"))
    DT_TRY(dt__sym_parse(p->env, p->scan, &readback.most));
  return DT_VEC_PUSH(p->arena, &p->program->readbacks, readback) ? NULL : DT_NO_MEMORY();
}

dt_status_t dt__loop_parse_segment(dt_loop_parser_t *p) {
  dt_program_segment_t segment = {0};
  DT_TRY(dt__scan_expect(p->scan, "readbacks"));
  DT_TRY(dt__loop_parse_u32(p, &segment.readback_end));
  DT_TRY(dt__scan_expect(p->scan, "kernels"));
  DT_TRY(dt__loop_parse_u32(p, &segment.kernel_end));
  DT_TRY(dt__scan_expect(p->scan, "block"));
  DT_TRY(dt__sym_parse(p->env, p->scan, &segment.block_bytes));
  return DT_VEC_PUSH(p->arena, &p->program->segments, segment) ? NULL : DT_NO_MEMORY();
}

static dt_status_t parse_symbol(dt_loop_parser_t *p, const char *word, uint32_t *out) {
  DT_TRY(dt__scan_expect(p->scan, word));
  DT_TRY(dt__loop_parse_id(p, 'p', out));
  if (*out >= dt__symenv_symbol_count(p->env) ||
      dt__symbol_info(p->env, *out).kind != DT_SYMBOL_SLICE)
    return dt__scan_fail(p->scan, "there is no symbol p%u", *out);
  return NULL;
}

dt_status_t dt__loop_parse_slices(dt_loop_parser_t *p) {
  dt_program_slices_t slices = {0};
  DT_TRY(dt__scan_expect(p->scan, "kernels"));
  DT_TRY(dt__loop_parse_u32(p, &slices.first));
  DT_TRY(dt__loop_parse_u32(p, &slices.end));
  DT_TRY(dt__scan_expect(p->scan, "over"));
  DT_TRY(dt__sym_parse(p->env, p->scan, &slices.extent));
  DT_TRY(dt__scan_expect(p->scan, "step"));
  DT_TRY(dt__sym_parse(p->env, p->scan, &slices.step));
  DT_TRY(parse_symbol(p, "begin", &slices.begin));
  DT_TRY(parse_symbol(p, "count", &slices.count));
  if (slices.first >= slices.end || slices.end > p->program->kernels.len)
    return dt__scan_fail(p->scan, "slices of kernels %u to %u of %u", slices.first, slices.end,
                         p->program->kernels.len);
  for (uint32_t k = slices.first; k < slices.end; k++)
    p->program->kernels.items[k].slices = p->program->slices.len + 1;
  return DT_VEC_PUSH(p->arena, &p->program->slices, slices) ? NULL : DT_NO_MEMORY();
}

dt_status_t dt__loop_parse_section(dt_loop_parser_t *p, uint32_t *out) {
  DT_TRY(dt__loop_parse_u32(p, out));
  if (p->program->n_sections <= *out)
    p->program->n_sections = *out + 1;
  return NULL;
}

static const char *region_kind(uint32_t k) { return dt__region_kind_name((dt_region_kind_t)k); }

dt_status_t dt__loop_parse_region(dt_loop_parser_t *p) {
  dt_program_region_t region = {0};
  uint32_t kind = 0, last = 0;
  DT_TRY(dt__loop_parse_name(p, region_kind, DT_REGION_CASE + 1, "region", &kind));
  region.kind = (dt_region_kind_t)kind;
  if (region.kind == DT_REGION_CASE) {
    DT_TRY(dt__loop_parse_u32(p, &region.index));
    DT_TRY(dt__scan_expect(p->scan, "of"));
    DT_TRY(dt__loop_parse_u32(p, &region.n));
  }
  DT_TRY(dt__loop_parse_buffer(p, &region.predicate));
  DT_TRY(dt__scan_expect(p->scan, "sections"));
  DT_TRY(dt__loop_parse_u32(p, &region.section_first));
  DT_TRY(dt__loop_parse_section(p, &last));
  region.section_end = last;
  return DT_VEC_PUSH(p->arena, &p->program->regions, region) ? NULL : DT_NO_MEMORY();
}
