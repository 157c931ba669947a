// SPDX-License-Identifier: Apache-2.0
// Copies of programs: every pointer into the program's arena is followed.
#include "lower/graph/external.h"
#include "lower/loop/loop_private.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"

static bool copy_text(dt_arena_t *arena, const char **text) {
  if (!*text)
    return true;
  *text = dt__arena_strdup(arena, *text);
  return *text != NULL;
}

static bool copy_index(const dt_program_t *copy, dt_buffer_id_t buffer, const dt_sym_t **index) {
  if (!*index || !buffer.id)
    return true;
  *index = dt__exprs_copy(copy->arena, *index, dt__program_buffer(copy, buffer)->rank);
  return *index != NULL;
}

static bool copy_stage(const dt_program_t *copy, dt_stage_t *stage) {
  dt_arena_t *arena = copy->arena;
  bool good = DT_VEC_COPY(arena, &stage->insts) && DT_VEC_COPY(arena, &stage->stores) &&
              DT_VEC_COPY(arena, &stage->reductions);
  for (uint32_t i = 0; good && i < stage->insts.len; i++)
    good = copy_index(copy, stage->insts.items[i].buffer, &stage->insts.items[i].index);
  for (uint32_t i = 0; good && i < stage->stores.len; i++)
    good = copy_index(copy, stage->stores.items[i].buffer, &stage->stores.items[i].index);
  return good;
}

bool dt__kernel_copy(const dt_program_t *program, dt_kernel_t *kernel) {
  dt_arena_t *arena = program->arena;
  bool good = copy_text(arena, &kernel->name) && DT_VEC_COPY(arena, &kernel->stages) &&
              DT_VEC_COPY(arena, &kernel->schedules);
  for (uint32_t s = 0; good && s < kernel->stages.len; s++)
    good = copy_stage(program, &kernel->stages.items[s]);
  return good;
}

void dt__kernel_renumber(dt_kernel_t *kernel, const uint32_t *ids) {
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    dt_stage_t *stage = &kernel->stages.items[s];
    for (uint32_t i = 0; i < stage->stores.len; i++)
      stage->stores.items[i].buffer.id = ids[stage->stores.items[i].buffer.id - 1];
    for (uint32_t i = 0; i < stage->insts.len; i++)
      if (dt__inst_reads(&stage->insts.items[i]).id)
        stage->insts.items[i].buffer.id = ids[stage->insts.items[i].buffer.id - 1];
  }
}

static bool copy_texts(dt_program_t *copy) {
  bool good = copy_text(copy->arena, &copy->segments_reason);
  for (uint32_t i = 0; good && i < copy->checks.len; i++)
    good = copy_text(copy->arena, &copy->checks.items[i].what);
  for (uint32_t i = 0; good && i < copy->readbacks.len; i++)
    good = copy_text(copy->arena, &copy->readbacks.items[i].what);
  return good;
}

static bool copy_layouts(dt_program_t *copy) {
  bool good = true;
  for (uint32_t b = 0; good && b < copy->buffers.len; b++) {
    dt_buffer_t *buffer = &copy->buffers.items[b];
    if (!buffer->layout)
      continue;
    buffer->layout = dt__arena_copy(copy->arena, buffer->layout, sizeof(*buffer->layout));
    good = buffer->layout != NULL;
  }
  return good;
}

static bool copy_parts(dt_program_t *copy) {
  dt_arena_t *arena = copy->arena;
  bool good = DT_VEC_COPY(arena, &copy->buffers) && DT_VEC_COPY(arena, &copy->kernels) &&
              DT_VEC_COPY(arena, &copy->checks) && DT_VEC_COPY(arena, &copy->outputs) &&
              DT_VEC_COPY(arena, &copy->readbacks) && DT_VEC_COPY(arena, &copy->segments) &&
              DT_VEC_COPY(arena, &copy->slices) && DT_VEC_COPY(arena, &copy->regions) &&
              DT_VEC_COPY(arena, &copy->offsets) && DT_VEC_COPY(arena, &copy->externals) &&
              copy_layouts(copy) && copy_texts(copy);
  for (uint32_t k = 0; good && k < copy->externals.len; k++) {
    dt_graph_external_t *external = DT_ARENA_NEW(arena, dt_graph_external_t);
    good = external && dt__external_copy(arena, copy->externals.items[k], external);
    copy->externals.items[k] = external;
  }
  for (uint32_t k = 0; good && k < copy->kernels.len; k++)
    good = dt__kernel_copy(copy, &copy->kernels.items[k]);
  return good;
}

dt_status_t dt__program_copy(dt_arena_t *arena, const dt_program_t *program, dt_program_t **out) {
  *out = NULL;
  dt_program_t *copy = dt__arena_copy(arena, program, sizeof(*program));
  if (!copy)
    return DT_NO_MEMORY();
  copy->arena = arena;
  if (!copy_parts(copy))
    return DT_NO_MEMORY();
  if (program->graph) {
    dt_graph_t *graph = NULL;
    DT_TRY(dt__graph_copy(arena, program->graph, &graph));
    copy->graph = graph;
  }
  *out = copy;
  return NULL;
}
