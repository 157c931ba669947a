// SPDX-License-Identifier: Apache-2.0
// Guards that concern no single size: the runtime's modes, alignment that the graph relies on, and,
// if a call writes into its inputs, how these share memory.
#include "guards/build.h"
#include "guards/modes.h"

#include "runtime/base/status.h"

static const dt_origin_t modes_origin = {.op = "modes"};
static const dt_origin_t align_origin = {.op = "alignment"};
static const dt_origin_t update_origin = {.op = "update of an argument"};

// "strict_fp is off, deterministic is on": the modes in `mask`.
void dt__guard_put_modes(uint64_t modes, uint64_t mask, dt_text_t *out) {
  const char *join = "";
#define MODE(bit, name)                                                                            \
  if (mask & (bit)) {                                                                              \
    dt__text_printf(out, "%s%s is %s", join, name, modes & (bit) ? "on" : "off");                  \
    join = ", ";                                                                                   \
  }
  DT_MODES_NAMED(MODE)
#define KNOWN(bit, name) | (bit)
  uint64_t rest = mask & ~((uint64_t)0 DT_MODES_NAMED(KNOWN)) & ~DT_MODES_PLACE;
#undef KNOWN
#undef MODE
  // The CPU goes without saying beside other modes.
  dt_device_t place = dt__modes_place(modes);
  if ((mask & DT_MODES_PLACE) && (place != DT_CPU || !join[0])) {
    char name[32];
    dt__text_printf(out, "%sthe session runs on %s", join,
                    dt__place_name(place, name, sizeof(name)));
    join = ", ";
  }
  if (rest)
    dt__text_printf(out, "%smodes 0x%llx are 0x%llx", join, (unsigned long long)rest,
                    (unsigned long long)(modes & rest));
}

static dt_status_t modes_guard(dt_guard_build_t *build, const dt_guard_context_t *context) {
  if (!context || !context->modes_mask)
    return NULL;
  uint64_t value = context->modes & context->modes_mask;
  dt_guard_t g = {.kind = DT_GUARD_modes, .a = (int64_t)value, .b = (int64_t)context->modes_mask};
  dt_text_t text;
  dt__text_init(&text);
  dt__guard_put_modes(value, context->modes_mask, &text);
  return dt__guard_emit(build, g, &text, &modes_origin);
}

static dt_status_t align_guard(dt_guard_build_t *build, uint32_t k) {
  const dt_graph_input_t *input = &build->graph->inputs.items[k];
  if (input->align & (input->align - 1))
    return DT_FAIL(DT_E_INTERNAL, "guards: argument %u: alignment %u is no power of two", k,
                   input->align);
  if (input->align <= dt_dtype_size(input->dtype))
    return NULL;
  dt_guard_t g = {.kind = DT_GUARD_aligned, .input = (uint16_t)k, .a = input->align};
  dt_text_t text;
  dt__text_init(&text);
  dt__guard_put_input(build, k, &text);
  dt__text_printf(&text, " is aligned to %u bytes", input->align);
  return dt__guard_emit(build, g, &text, &align_origin);
}

// ---- Shared memory ------------------------------------------------------------------------------
static bool is_updated(const dt_graph_t *graph, uint32_t k) {
  for (uint32_t u = 0; u < graph->updates.len; u++) {
    if (graph->updates.items[u].input == k)
      return true;
  }
  return false;
}

// The first input with the same memory.
static uint32_t leader(const dt_guard_context_t *context, uint32_t k) {
  return context && context->shared ? context->shared[k] : k;
}

static bool group_is_updated(const dt_graph_t *graph, const dt_guard_context_t *context,
                             uint32_t first) {
  for (uint32_t k = 0; k < graph->inputs.len; k++) {
    if (leader(context, k) == first && is_updated(graph, k))
      return true;
  }
  return false;
}

static dt_status_t pair_guard(dt_guard_build_t *build, dt_guard_kind_t kind, uint32_t k,
                              uint32_t other) {
  dt_guard_t g = {.kind = (uint8_t)kind, .input = (uint16_t)k, .other = other};
  dt_text_t text;
  dt__text_init(&text);
  dt__guard_put_input(build, k, &text);
  dt__text_put(&text, kind == DT_GUARD_same_memory ? " is the memory of "
                                                   : " has no byte in common with ");
  dt__guard_put_input(build, other, &text);
  return dt__guard_emit(build, g, &text, &update_origin);
}

static dt_status_t overlap_guard(dt_guard_build_t *build, uint32_t k) {
  if (build->graph->inputs.items[k].contiguous)
    return NULL;
  dt_guard_t g = {.kind = DT_GUARD_no_overlap, .input = (uint16_t)k};
  dt_text_t text;
  dt__text_init(&text);
  dt__guard_put_input(build, k, &text);
  dt__text_put(&text, " has one index an element");
  return dt__guard_emit(build, g, &text, &update_origin);
}

// Groups of inputs with the same memory: each member against the first of its group, and the firsts
// of two groups against each other where one of the two is updated.
static dt_status_t memory_guards(dt_guard_build_t *build, const dt_guard_context_t *context) {
  const dt_graph_t *graph = build->graph;
  if (!graph->updates.len)
    return NULL;
  for (uint32_t k = 0; k < graph->inputs.len; k++) {
    uint32_t first = leader(context, k);
    if (first > k || leader(context, first) != first)
      return DT_FAIL(DT_E_INTERNAL,
                     "guards: argument %u shares the memory of argument %u, which is "
                     "not the first with it",
                     k, first);
    bool updated = group_is_updated(graph, context, first);
    if (first != k) {
      if (updated)
        DT_TRY(pair_guard(build, DT_GUARD_same_memory, k, first));
      continue;
    }
    if (updated)
      DT_TRY(overlap_guard(build, k));
    for (uint32_t j = 0; j < k; j++) {
      if (leader(context, j) == j && (updated || group_is_updated(graph, context, j)))
        DT_TRY(pair_guard(build, DT_GUARD_disjoint, k, j));
    }
  }
  return NULL;
}

dt_status_t dt__guard_collect_context(dt_guard_build_t *build, const dt_guard_context_t *context) {
  DT_TRY(modes_guard(build, context));
  for (uint32_t k = 0; k < build->graph->inputs.len; k++)
    DT_TRY(align_guard(build, k));
  return memory_guards(build, context);
}
