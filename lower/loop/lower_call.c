// SPDX-License-Identifier: Apache-2.0
// Lowering of `call`: the body's kernels are sections of their own, so that nothing is fused over
// the border. A later call of the same body, whose operands are read in the same way, gets copies
// of the first one's kernels in other buffers. They have the same symbols, by which fusion knows
// their sections for equal (fuse/sections.c) and makes them once.
#include "lower/loop/lower_private.h"
#include "runtime/base/status.h"

#include <string.h>

// Where something of a program begins and ends.
typedef struct span_t {
  uint32_t first, end;
} span_t;

struct dt_lowered_call_t {
  dt_lowered_call_t *next;
  const dt_graph_t *body;
  const bool *wanted; // by output
  uint32_t n_operands;
  const dt_lowered_t *operands;
  const dt_lowered_t *outputs; // those that are wanted
  span_t kernels, buffers /* by id - 1 */, sections, regions;
};

// ---- Calls that are alike -----------------------------------------------------------------------
// By buffer of the one call, [id - 1]: that of the other one; 0: not said yet.
typedef struct mapping_t {
  uint32_t *to, *from; // and the other way
} mapping_t;

static bool is_alike_buffer(const dt_buffer_t *a, const dt_buffer_t *b) {
  return dt__buffers_alike(a, b) && (a->kind != DT_BUFFER_STATE || a->index == b->index);
}

static bool join(const dt_program_t *program, const mapping_t *map, dt_buffer_id_t a,
                 dt_buffer_id_t b) {
  uint32_t *to = &map->to[a.id - 1], *from = &map->from[b.id - 1];
  if ((*to && *to != b.id) || (*from && *from != a.id) ||
      !is_alike_buffer(dt__program_buffer(program, a), dt__program_buffer(program, b)))
    return false;
  *to = b.id;
  *from = a.id;
  return true;
}

// Both are read at the same places by the same expressions.
static bool is_alike(dt_lowering_t *ctx, const mapping_t *map, const dt_lowered_t *a,
                     const dt_lowered_t *b) {
  dt_sym_t one[DT_MAX_RANK], other[DT_MAX_RANK];
  dt_inst_t x, y;
  if (a->rank != b->rank || a->read.kind != b->read.kind || a->read.dtype != b->read.dtype)
    return false;
  for (uint32_t d = 0; d < a->rank; d++)
    if ((a->places[d].id != 0) != (b->places[d].id != 0))
      return false;
  dt__lower_substitute(ctx, a, a->places, &x, one);
  dt__lower_substitute(ctx, b, a->places, &y, other);
  if (x.mask != DT_NO_INST || y.mask != DT_NO_INST)
    return false;
  if (x.kind == DT_INST_CONST)
    return memcmp(&x.value, &y.value, sizeof(x.value)) == 0;
  if (x.kind == DT_INST_INDEX)
    return x.sym.id == y.sym.id;
  if (x.kind != DT_INST_LOAD || !join(ctx->program, map, x.buffer, y.buffer))
    return false;
  uint32_t rank = dt__program_buffer(ctx->program, x.buffer)->rank;
  for (uint32_t d = 0; d < rank; d++)
    if (one[d].id != other[d].id)
      return false;
  return true;
}

// The buffers of the call's operands into `map`; true: `call` serves.
static bool serves(dt_lowering_t *ctx, const dt_lowered_call_t *call,
                   const dt_lowered_call_t *other, const mapping_t *map) {
  if (call->body != other->body || call->n_operands != other->n_operands)
    return false;
  for (uint32_t k = 0; k < call->body->outputs.len; k++)
    if (call->wanted[k] != other->wanted[k])
      return false;
  for (uint32_t k = call->kernels.first; k < call->kernels.end; k++)
    if (ctx->program->kernels.items[k].external)
      return false; // a call of a user's op is one of the program's
  memset(map->to, 0, ctx->program->buffers.len * sizeof(*map->to));
  memset(map->from, 0, ctx->program->buffers.len * sizeof(*map->from));
  for (uint32_t k = 0; k < call->n_operands; k++)
    if (!is_alike(ctx, map, &call->operands[k], &other->operands[k]))
      return false;
  return true;
}

// ---- Copies -------------------------------------------------------------------------------------
static dt_status_t copy_buffers(dt_program_t *program, const dt_lowered_call_t *call,
                                uint32_t regions, uint32_t *to) {
  for (uint32_t k = call->buffers.first; k < call->buffers.end; k++) {
    dt_buffer_t buffer = program->buffers.items[k];
    dt_buffer_id_t made;
    if (buffer.kind == DT_BUFFER_STATE && buffer.index)
      buffer.index += regions - call->regions.first;
    DT_TRY(dt__program_add_buffer(program, &buffer, &made));
    to[k] = made.id;
  }
  return NULL;
}

static dt_status_t copy_call(dt_lowering_t *ctx, const dt_lowered_call_t *call, uint32_t *to,
                             dt_lowered_t *outputs) {
  dt_program_t *program = ctx->program;
  uint32_t section = dt__lower_new_section(ctx), first = call->sections.first;
  program->n_sections += call->sections.end - first - 1;
  DT_TRY(copy_buffers(program, call, program->regions.len, to));
  for (uint32_t k = call->regions.first; k < call->regions.end; k++) {
    dt_program_region_t region = program->regions.items[k];
    region.predicate.id = to[region.predicate.id - 1];
    region.section_first += section - first;
    region.section_end += section - first;
    if (!DT_VEC_PUSH(ctx->arena, &program->regions, region))
      return DT_NO_MEMORY();
  }
  for (uint32_t k = call->kernels.first; k < call->kernels.end; k++) {
    dt_kernel_t kernel = program->kernels.items[k];
    if (!dt__kernel_copy(program, &kernel))
      return DT_NO_MEMORY();
    dt__kernel_renumber(&kernel, to);
    kernel.section += section - first;
    if (!DT_VEC_PUSH(ctx->arena, &program->kernels, kernel))
      return DT_NO_MEMORY();
  }
  for (uint32_t k = 0; k < call->body->outputs.len; k++) {
    outputs[k] = call->outputs[k];
    if (call->wanted[k] && outputs[k].read.kind == DT_INST_LOAD)
      outputs[k].read.buffer.id = to[outputs[k].read.buffer.id - 1];
  }
  return NULL;
}

// ---- The call -----------------------------------------------------------------------------------
static dt_status_t lower_first(dt_lowering_t *ctx, dt_lowered_call_t *call, dt_lowered_t *outputs) {
  dt_program_t *program = ctx->program;
  dt_lowering_t inner;
  call->sections.first = dt__lower_new_section(ctx);
  call->kernels.first = program->kernels.len;
  call->buffers.first = program->buffers.len;
  call->regions.first = program->regions.len;
  DT_TRY(dt__lower_body(ctx, call->body, call->operands, call->wanted, &inner));
  call->sections.end = program->n_sections;
  call->kernels.end = program->kernels.len;
  call->buffers.end = program->buffers.len;
  call->regions.end = program->regions.len;
  for (uint32_t k = 0; k < call->body->outputs.len; k++)
    if (call->wanted[k])
      outputs[k] = inner.values[call->body->outputs.items[k].id - 1];
  call->outputs = outputs;
  call->next = *ctx->calls;
  *ctx->calls = call;
  return NULL;
}

static dt_status_t lower(dt_lowering_t *ctx, dt_lowered_call_t *call, dt_lowered_t *outputs) {
  // Room for the copy's buffers, too.
  uint32_t n = ctx->program->buffers.len;
  mapping_t map = {DT_ARENA_ARRAY(ctx->arena, uint32_t, (size_t)n + 1),
                   DT_ARENA_ARRAY(ctx->arena, uint32_t, (size_t)n + 1)};
  if (!map.to || !map.from)
    return DT_NO_MEMORY();
  const dt_lowered_call_t *first = *ctx->calls;
  while (first && !serves(ctx, first, call, &map))
    first = first->next;
  return first ? copy_call(ctx, first, map.to, outputs) : lower_first(ctx, call, outputs);
}

dt_status_t dt__lower_call(dt_lowering_t *ctx, dt_node_id_t id) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  const dt_graph_t *body = dt__graph_control(ctx->graph, node)->bodies[0];
  uint32_t n = body->outputs.len;
  dt_lowered_call_t *call = DT_ARENA_NEW(ctx->arena, dt_lowered_call_t);
  dt_lowered_t *operands = DT_ARENA_ARRAY(ctx->arena, dt_lowered_t, (size_t)node->n_inputs + 1);
  dt_lowered_t *outputs = DT_ARENA_ARRAY(ctx->arena, dt_lowered_t, (size_t)n + 1);
  bool *wanted = DT_ARENA_ARRAY(ctx->arena, bool, (size_t)n + 1);
  if (!call || !operands || !outputs || !wanted)
    return DT_NO_MEMORY();
  if (!ctx->next_result[id.id - 1])
    return NULL; // nobody reads anything of it
  for (uint32_t k = 0; k < node->n_inputs; k++)
    operands[k] = ctx->values[node->inputs[k].id - 1];
  for (uint32_t r = ctx->next_result[id.id - 1]; r; r = ctx->next_result[r - 1])
    wanted[dt__lower_node(ctx, (dt_node_id_t){r})->attrs->index] = true;
  *call = (dt_lowered_call_t){
      .body = body, .wanted = wanted, .n_operands = node->n_inputs, .operands = operands};
  DT_TRY(lower(ctx, call, outputs));
  for (uint32_t r = ctx->next_result[id.id - 1]; r; r = ctx->next_result[r - 1])
    ctx->values[r - 1] = outputs[dt__lower_node(ctx, (dt_node_id_t){r})->attrs->index];
  (void)dt__lower_new_section(ctx);
  return NULL;
}
