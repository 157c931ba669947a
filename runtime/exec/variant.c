// SPDX-License-Identifier: Apache-2.0
// Variants: a traced program with its guards and code. A variant is immutable, and lives until its
// function ends or the budget takes it (evict.c). bind.c has the bindings of its constants.
#include "runtime/exec/variant.h"

#include "guards/modes.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/exec/explain.h"
#include "runtime/exec/runtime.h"
#include "runtime/exec/swap.h"

#include <string.h>

// The shape of a call's results: rank and dtype of each, and how many sizes all have together.
static dt_status_t take_outputs(const dt_function_t *function, dt_variant_t *variant) {
  const dt_graph_t *graph = variant->traced->graph;
  if (graph->outputs.len != function->n_outputs || graph->inputs.len != function->n_inputs)
    return DT_FAIL(DT_E_INTERNAL, "traced %u inputs and %u outputs of %u and %u", graph->inputs.len,
                   graph->outputs.len, function->n_inputs, function->n_outputs);
  variant->outputs = dt__calloc(function->n_outputs, sizeof(*variant->outputs));
  if (!variant->outputs)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < function->n_outputs; k++) {
    const dt_node_t *node = dt__graph_node(graph, graph->outputs.items[k]);
    const dt_graph_order_t *order = dt__graph_order(graph, k);
    dt_output_info_t info = {.dtype = node->dtype, .rank = node->rank};
    for (uint32_t d = 0; order && d < node->rank; d++)
      info.order = dt__order_with(info.order, d, order->dims[d]);
    variant->outputs[k] = info;
    variant->n_output_sizes += node->rank;
  }
  return NULL;
}

static dt_status_t trace(dt_function_t *function, const dt_variant_request_t *how,
                         dt_traced_t **out) {
  dt_trace_policy_t policy = {
      .user = how->policy, .literal = dt__policy_literal, .capture = dt__policy_capture};
  dt_trace_request_t request = {.program = function->program,
                                .closure = function->closure,
                                .n_inputs = function->n_inputs,
                                .n_outputs = function->n_outputs,
                                .inputs = function->inputs,
                                .spread = function->takes_elements ? NULL : function->spread,
                                .outputs = function->outputs,
                                .place = dt__modes_place(how->modes),
                                .example = how->inputs,
                                .layout = how->layout,
                                .no_hints = how->generic,
                                .policy = &policy,
                                .watch = how->watch,
                                .hooks = function->hooks};
  return dt__trace_run(&request, out);
}

static bool compiles(const dt_function_t *function, const dt_variant_request_t *how) {
  return function->answer == DT_ANSWER_COMPILED && !how->evaluated;
}

static dt_status_t create_guards(const dt_traced_t *traced, uint64_t modes, uint64_t mask,
                                 dt_guards_t **out) {
  dt_guard_context_t context = {
      .modes = modes & mask, .modes_mask = mask, .shared = traced->shared};
  return dt__guards_create(traced->graph, traced->conds.items, traced->conds.len, &context, out);
}

// Of the modes, code depends on the place, and on this one where the function does not say it.
static uint64_t modes_mask(const dt_function_t *function) {
  return DT_MODES_PLACE | (function->strict_fp ? 0 : DT_MODES_STRICT_FP);
}

uint64_t dt__variant_modes(const dt_function_t *function, dt_device_t place, bool strict_fp) {
  return dt__modes_of_place(place) | (strict_fp && !function->strict_fp ? DT_MODES_STRICT_FP : 0);
}

dt_status_t dt__variant_guards(const dt_function_t *function, const dt_traced_t *traced,
                               uint64_t modes, dt_guards_t **out) {
  return create_guards(traced, modes, modes_mask(function), out);
}

// Guards of what was traced for calls of these modes.
static dt_status_t make_guards(const dt_function_t *function, uint64_t modes, bool compiled,
                               dt_variant_t *variant) {
  DT_TRY(take_outputs(function, variant));
  DT_TRY(
      create_guards(variant->traced, modes, compiled ? modes_mask(function) : 0, &variant->guards));
  variant->n_symbols = dt__guards_symbol_count(variant->guards);
  return NULL;
}

// Where it runs, and whose code it has.
static dt_status_t take_place(const dt_function_t *function, uint64_t modes,
                              dt_variant_t *variant) {
  variant->place = dt__modes_place(modes);
  variant->strict_fp = function->strict_fp || (modes & DT_MODES_STRICT_FP);
  return dt__runtime_place(function->runtime, dt__place_device(variant->place),
                           dt__place_ordinal(variant->place), &variant->home);
}

// Once variant->compiled is there.
static dt_status_t take_code(const dt_function_t *function, dt_variant_t *variant) {
  variant->id = dt__runtime_ids(function->runtime, variant->compiled->n_segments);
  if (variant->home->kind->adopt)
    DT_TRY(variant->home->kind->adopt(variant));
  // The frame's arrays are sized once for guards and code.
  if (variant->compiled->n_symbols > variant->n_symbols)
    variant->n_symbols = variant->compiled->n_symbols;
  if (variant->compiled->n_output_sizes != variant->n_output_sizes)
    return DT_FAIL(DT_E_INTERNAL, "compiled code gives %u output sizes; expected %u",
                   variant->compiled->n_output_sizes, variant->n_output_sizes);
  return NULL;
}

static dt_haste_t haste_of(const dt_function_t *function, const dt_variant_request_t *how) {
  return how->quick ? (dt_haste_t)function->runtime->params.quick : DT_HASTE_NONE;
}

dt_status_t dt__variant_compile(dt_function_t *function, const dt_variant_request_t *how,
                                dt_variant_t *variant) {
  if (!compiles(function, how))
    return NULL;
  DT_TRY(take_place(function, how->modes, variant));
  dt_compile_request_t request = {.traced = variant->traced,
                                  .name = function->name,
                                  .variant = variant->number,
                                  .strict_fp = variant->strict_fp,
                                  .haste = haste_of(function, how),
                                  .codegen = variant->home->codegen,
                                  .device = variant->home->device,
                                  .watch = how->watch};
  dt_status_t status = dt__compile(function->runtime->compiler, &request, &variant->compiled);
  if (status)
    return dt__repro_failed(function, variant->traced, how, status);
  return take_code(function, variant);
}

static void tell_guards(const dt_function_t *function, const dt_variant_t *variant) {
  bool dump = dt__dump_on("guards");
  if (!dump && !dt__log_on(DT_LOG_GUARDS, 1))
    return;
  dt_text_t text;
  dt__text_init(&text);
  dt__guards_print(variant->guards, &text);
  if (!text.failed) {
    DT_LOG(DT_LOG_GUARDS, 1, "%s.%u: %u guards\n%s", function->name, variant->number,
           dt__guards_count(variant->guards), dt__text_str(&text));
    if (dump)
      dt__dump(function->name, variant->number, 90, "guards", dt__text_str(&text));
  }
  dt__text_fini(&text);
}

static dt_status_t create(dt_function_t *function, uint32_t number, dt_variant_t **out) {
  dt_variant_t *variant = *out = dt__calloc(1, sizeof(*variant));
  if (!variant)
    return DT_NO_MEMORY();
  variant->number = number;
  variant->id = dt__runtime_id(function->runtime);
  variant->runtime = function->runtime;
  atomic_init(&variant->refs, 1);
  return dt__runtime_place(function->runtime, DT_CPU, 0, &variant->home);
}

dt_status_t dt__variant_trace(dt_function_t *function, const dt_variant_request_t *request,
                              dt_variant_t **out) {
  dt_variant_t *variant = NULL;
  *out = NULL;
  dt_status_t status = create(function, request->number, &variant);
  if (!status)
    status = trace(function, request, &variant->traced);
  if (!status)
    status = make_guards(function, request->modes, compiles(function, request), variant);
  if (status) {
    dt__variant_destroy(variant);
    return status;
  }
  tell_guards(function, variant);
  dt__tell_dims(function, variant);
  *out = variant;
  return NULL;
}

dt_status_t dt__variant_adopt(dt_function_t *function, const dt_variant_request_t *request,
                              dt_traced_t *traced, dt_compiled_t *compiled, dt_variant_t **out) {
  dt_variant_t *variant = NULL;
  *out = NULL;
  dt_status_t status = create(function, request->number, &variant);
  if (!variant) {
    dt__traced_destroy(traced);
    dt__compiled_unload(compiled); // nothing was launched
    dt__compiled_destroy(compiled);
    return status;
  }
  variant->traced = traced;
  variant->compiled = compiled;
  variant->generic = request->generic;
  if (!status) // first: it unloads the code
    status = take_place(function, request->modes, variant);
  if (!status)
    status = make_guards(function, request->modes, true, variant);
  if (!status)
    status = take_code(function, variant);
  if (status) {
    dt__variant_destroy(variant);
    return status;
  }
  tell_guards(function, variant);
  *out = variant;
  return NULL;
}

void dt__variant_retain(dt_variant_t *variant) {
  (void)atomic_fetch_add_explicit(&variant->refs, 1, memory_order_relaxed);
}

void dt__variant_release(dt_variant_t *variant) {
  if (atomic_fetch_sub_explicit(&variant->refs, 1, memory_order_acq_rel) == 1)
    dt__variant_destroy(variant);
}

void dt__variant_destroy(dt_variant_t *variant) {
  if (!variant)
    return;
  dt__bindings_destroy(atomic_load_explicit(&variant->bindings, memory_order_acquire));
  if (variant->home && variant->home->kind->unload)
    variant->home->kind->unload(variant);
  dt__variant_drop_swapped(variant);
  dt__compiled_destroy(variant->compiled);
  dt__guards_destroy(variant->guards);
  dt__traced_destroy(variant->traced);
  dt__free(variant->outputs);
  dt__free(variant->once_symbols);
  dt__free(variant);
}
