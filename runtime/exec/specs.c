// SPDX-License-Identifier: Apache-2.0
// What is known of a function's results before a call: read from a trace of the declared inputs, or
// from a variant where the program needs a call's sizes.
#include "runtime/base/status.h"
#include "runtime/base/text.h"
#include "runtime/exec/function.h"
#include "runtime/exec/miss.h"

#include <ctype.h>
#include <stdlib.h>

typedef struct specs_t {
  dt_specs_t head; // first: what callers see
  dt_arena_t arena;
} specs_t;

// ---- Dims -----------------------------------------------------------------------------------------
// The symbol that a printed expression names at `at` ("s12"), and the text behind it; NULL: none.
static const char *symbol_at(const dt_symenv_t *env, const char *at, uint32_t *out) {
  char *end = NULL;
  if (!islower((unsigned char)at[0]) || !isdigit((unsigned char)at[1]))
    return NULL;
  unsigned long symbol = strtoul(at + 1, &end, 10);
  if (isalnum((unsigned char)*end) || symbol >= dt__symenv_symbol_count(env))
    return NULL;
  *out = (uint32_t)symbol;
  return end;
}

// The expression with the names of dims in the place of symbols.
static void put_named(const dt_symenv_t *env, dt_sym_t size, dt_text_t *out) {
  dt_text_t bare;
  dt__text_init(&bare);
  dt__sym_print(env, size, &bare);
  char before = ' ';
  for (const char *at = dt__text_str(&bare); *at;) {
    uint32_t symbol = 0;
    const char *end = isalnum((unsigned char)before) ? NULL : symbol_at(env, at, &symbol);
    const char *name = end ? dt__symbol_info(env, symbol).name : "";
    if (name[0])
      dt__text_put(out, name);
    else
      dt__text_write(out, at, end ? (size_t)(end - at) : 1);
    before = end ? '0' : *at;
    at = end ? end : at + 1;
  }
  out->failed = out->failed || bare.failed;
  dt__text_fini(&bare);
}

static const char *dim_text(dt_arena_t *arena, const dt_symenv_t *env, dt_sym_t size) {
  uint32_t newest = 0;
  if (dt__sym_newest_unbacked(env, size, &newest))
    return "?";
  dt_text_t text;
  dt__text_init(&text);
  put_named(env, size, &text);
  const char *own = text.failed ? NULL : dt__arena_strdup(arena, dt__text_str(&text));
  dt__text_fini(&text);
  return own;
}

// ---- Results --------------------------------------------------------------------------------------
static const dt_spec_t *take_output(dt_arena_t *arena, const dt_function_t *function,
                                    const dt_graph_t *graph, uint32_t index) {
  const dt_node_t *node = dt__graph_node(graph, graph->outputs.items[index]);
  const char *name = function->outputs ? function->outputs[index].name : NULL;
  dt_spec_t *out = DT_ARENA_NEW(arena, dt_spec_t);
  int64_t *sizes = DT_ARENA_ARRAY(arena, int64_t, node->rank + 1);
  const char **dims = DT_ARENA_ARRAY(arena, const char *, node->rank + 1);
  if (!out || !sizes || !dims)
    return NULL;
  for (uint32_t k = 0; k < node->rank; k++) {
    if (!dt__sym_is_const(graph->env, node->sizes[k], &sizes[k]))
      sizes[k] = -1;
    dims[k] = dim_text(arena, graph->env, node->sizes[k]);
    if (!dims[k])
      return NULL;
  }
  *out = (dt_spec_t){.name = dt__arena_strdup(arena, name ? name : ""),
                     .dtype = node->dtype,
                     .ranked = true,
                     .rank = node->rank,
                     .sizes = sizes,
                     .dims = dims};
  return out->name ? out : NULL;
}

static dt_status_t take_graph(specs_t *specs, const dt_function_t *function,
                              const dt_graph_t *graph) {
  uint32_t n = function->n_outputs;
  const dt_spec_t **items = DT_ARENA_ARRAY(&specs->arena, const dt_spec_t *, n + 1);
  if (!items)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < n; k++) {
    items[k] = take_output(&specs->arena, function, graph, k);
    if (!items[k])
      return DT_NO_MEMORY();
  }
  specs->head = (dt_specs_t){.n = n, .items = items};
  return NULL;
}

// Of the first variant; *out_some: there is one. Under the mutex the list stays.
static dt_status_t take_first(specs_t *specs, dt_function_t *function, bool *out_some) {
  dt_status_t status = NULL;
  dt__mutex_lock(&function->mutex);
  const dt_variant_list_t *list = atomic_load_explicit(&function->list, memory_order_relaxed);
  *out_some = list->n > 0;
  if (list->n > 0)
    status = take_graph(specs, function, list->items[0]->traced->graph);
  dt__mutex_unlock(&function->mutex);
  return status;
}

// A program that cannot be traced without a call may have been traced by one.
static dt_status_t collect(specs_t *specs, dt_function_t *function) {
  dt_variant_t *variant = NULL;
  bool some = false;
  dt_status_t status = dt__function_trace(function, &variant);
  dt_code_t code = dt_status_code(status);
  if (!status)
    status = take_graph(specs, function, variant->traced->graph);
  dt__variant_destroy(variant);
  if (code != DT_E_STATE && code != DT_E_UNSUPPORTED)
    return status;
  dt_status_t first = take_first(specs, function, &some);
  if (!some)
    return status;
  dt_status_free(status);
  return first;
}

dt_status_t dt_function_outputs(dt_function_t *function, dt_specs_t **out) {
  if (out)
    *out = NULL;
  if (!function || !out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_function_outputs: %s: NULL", function ? "out" : "function");
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "dt_function_outputs in a child after fork");
  specs_t *specs = dt__calloc(1, sizeof(*specs));
  if (!specs)
    return DT_NO_MEMORY();
  dt__arena_init(&specs->arena, 1024);
  dt_status_t status = collect(specs, function);
  if (status) {
    dt_specs_free(&specs->head);
    return dt__status_annotate(status, "function %s: outputs", function->name);
  }
  *out = &specs->head;
  return NULL;
}

void dt_specs_free(dt_specs_t *head) {
  if (!head)
    return;
  specs_t *specs = (specs_t *)(void *)head;
  dt__arena_fini(&specs->arena);
  dt__free(specs);
}
