// SPDX-License-Identifier: Apache-2.0
// Functions whose program replays graph IR text: of a file, or of another function's trace.
#include "ductile/ir.h"

#include "runtime/base/file.h"
#include "runtime/base/options.h"
#include "runtime/base/status.h"
#include "runtime/base/text.h"
#include "runtime/exec/decide.h"
#include "runtime/exec/explain.h"
#include "runtime/exec/miss.h"
#include "runtime/trace/replay.h"

#include <fcntl.h>

static void free_replay(void *replay) { dt__replay_destroy(replay); }

static dt_status_t check_options(const dt_function_options_t *options) {
  if (options->n_inputs || options->inputs || options->n_outputs || options->closure_free)
    return DT_FAIL(DT_E_ARGUMENT, "options: the text gives inputs, outputs and closure: leave them "
                                  "0");
  return NULL;
}

// A graph as text, and its constants' tensors (NULL: their data are the text's).
typedef struct source_t {
  const char *text;
  size_t len;
  const char *file;
  dt_tensor_t *const *constants;
  uint32_t n_constants;
} source_t;

static dt_status_t create(dt_runtime_t *runtime, const source_t *source,
                          const dt_function_options_t *options, dt_function_t **out) {
  if (!source->text || !source->file || !options)
    return DT_FAIL(DT_E_ARGUMENT, "%s: NULL",
                   !source->text   ? "text"
                   : !source->file ? "file"
                                   : "options");
  dt_function_options_t all;
  DT_TRY(DT_OPTIONS_TAKE(dt_function_options_t, &all, options));
  DT_TRY(check_options(&all));
  dt_replay_t *replay = NULL;
  DT_TRY(dt__replay_create(source->text, source->len, source->file, source->constants,
                           source->n_constants, &replay));
  all.inputs = dt__replay_inputs(replay, &all.n_inputs);
  all.input_size = sizeof(dt_input_decl_t); // ours, whatever the caller's are
  all.dim_size = sizeof(dt_dim_decl_t);
  all.n_outputs = dt__replay_n_outputs(replay);
  if (!all.outputs) {
    all.outputs = dt__replay_outputs(replay);
    all.output_size = sizeof(dt_output_decl_t);
  }
  all.closure_free = free_replay;
  dt_status_t status = dt_function_create(runtime, dt__replay_program, replay, &all, out);
  if (status)
    dt__replay_destroy(replay);
  return status;
}

dt_status_t dt_function_create_from_ir(dt_runtime_t *runtime, const char *text, size_t len,
                                       const char *file, const dt_function_options_t *options,
                                       dt_function_t **out) {
  if (!out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_function_create_from_ir: out: NULL");
  *out = NULL;
  const source_t source = {.text = text, .len = len, .file = file};
  return dt__status_annotate(create(runtime, &source, options, out), "dt_function_create_from_ir");
}

// ---- Graphs of functions ------------------------------------------------------------------------
dt_status_t dt__with_traced(dt_function_t *function, dt_tensor_t *const *given, uint32_t n_given,
                            dt_status_t (*use)(void *arg, const dt_variant_t *variant,
                                               dt_tensor_t *const *inputs),
                            void *arg) {
  DT_TRY(dt__asked_check(function, given, n_given, function));
  if (!given)
    return DT_FAIL(DT_E_ARGUMENT, "inputs: NULL");
  dt_arena_t arena;
  dt__arena_init(&arena, 4096);
  // Under the mutex the list stays, and with it what its variants hold.
  dt__mutex_lock(&function->mutex);
  const dt_variant_list_t *list = atomic_load_explicit(&function->list, memory_order_relaxed);
  dt_tensor_t *const *inputs = function->spread ? dt__asked_spread(&arena, function, given) : given;
  int64_t *symbols = DT_ARENA_ARRAY(&arena, int64_t, list->n_symbols + 1);
  dt_status_t status = inputs && symbols ? NULL : DT_NO_MEMORY();
  if (!status) {
    int64_t captured[DT_MOST_CAPTURES];
    dt_guard_args_t args =
        dt__guard_args(function, list, dt__asked_place(function, given), inputs, captured);
    const dt_variant_t *variant = dt__list_find(list, &args, symbols);
    status = variant
                 ? use(arg, variant, inputs)
                 : DT_FAIL(DT_E_STATE, "no variant takes these arguments; call with them first");
  }
  dt__mutex_unlock(&function->mutex);
  dt__arena_fini(&arena);
  return status;
}

static dt_status_t print_graph(void *arg, const dt_variant_t *variant, dt_tensor_t *const *inputs) {
  (void)inputs;
  dt__graph_print(variant->traced->graph, arg);
  return dt__text_status(arg);
}

dt_status_t dt_function_graph(dt_function_t *function, dt_tensor_t *const *inputs,
                              uint32_t n_inputs, char **out) {
  if (!function || !out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_function_graph: %s: NULL", function ? "out" : "function");
  dt_text_t text;
  dt__text_init(&text);
  dt_status_t status = dt__with_traced(function, inputs, n_inputs, print_graph, &text);
  *out = status ? NULL : dt__strdup(dt__text_str(&text));
  if (!status && !*out)
    status = DT_NO_MEMORY();
  dt__text_fini(&text);
  return dt__status_annotate(status, "dt_function_graph");
}

// ---- Export -------------------------------------------------------------------------------------
static dt_status_t write_graph(const dt_graph_t *graph, const char *path) {
  dt_text_t text;
  dt__text_init(&text);
  dt__graph_print_whole(graph, &text);
  dt_status_t status = dt__text_status(&text);
  if (!status)
    status =
        dt__file_replace(AT_FDCWD, path, 0666, &(dt_file_part_t){dt__text_str(&text), text.len}, 1);
  dt__text_fini(&text);
  return status;
}

static dt_status_t export_as(dt_function_t *function, dt_export_t form, const char *path) {
  dt_variant_t *variant = NULL;
  if (form == DT_EXPORT_PACKAGE)
    return DT_FAIL(DT_E_UNSUPPORTED, "packages of code are not written yet; DT_EXPORT_TEXT writes "
                                     "the graph");
  if (form != DT_EXPORT_TEXT)
    return DT_FAIL(DT_E_ARGUMENT, "form: %d is none", (int)form);
  DT_TRY(dt__function_trace(function, &variant));
  dt_status_t status = write_graph(variant->traced->graph, path);
  dt__variant_destroy(variant);
  return status;
}

dt_status_t dt_function_export(dt_function_t *function, dt_export_t form, const char *path) {
  if (!function || !path)
    return DT_FAIL(DT_E_ARGUMENT, "dt_function_export: %s: NULL", function ? "path" : "function");
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "dt_function_export in a child after fork");
  return dt__status_annotate(export_as(function, form, path), "function %s: export",
                             function->name);
}

// ---- Graphs with one output ---------------------------------------------------------------------
typedef struct cut_t {
  uint32_t node;
  dt_text_t text, what;
  dt_tensor_t **constants; // retained
  uint32_t n_constants;
} cut_t;

static dt_status_t keep_constants(cut_t *cut, const dt_traced_t *traced) {
  cut->constants = dt__calloc(traced->constants.len + 1, sizeof(dt_tensor_t *));
  if (!cut->constants)
    return DT_NO_MEMORY();
  for (; cut->n_constants < traced->constants.len; cut->n_constants++) {
    cut->constants[cut->n_constants] = traced->constants.items[cut->n_constants];
    dt_tensor_retain(cut->constants[cut->n_constants]);
  }
  return NULL;
}

static dt_status_t take_cut(void *arg, const dt_variant_t *variant, dt_tensor_t *const *inputs) {
  (void)inputs;
  cut_t *cut = arg;
  dt_graph_t graph = *variant->traced->graph;
  if (cut->node == 0 || cut->node > graph.nodes.len)
    return DT_FAIL(DT_E_ARGUMENT, "node: %u; expected 1 to %u", cut->node, graph.nodes.len);
  dt_node_id_t id = {cut->node};
  graph.outputs.items = &id;
  graph.outputs.len = 1;
  graph.orders.len = 0;
  graph.updates.len = 0;
  dt__graph_print(&graph, &cut->text);
  const dt_node_t *node = dt__graph_node(&graph, id);
  const dt_origin_t *origin = &node->origin;
  dt__text_printf(&cut->what, "%%%u = %s", cut->node, dt__op_info(node->op)->name);
  if (origin->file && origin->file[0])
    dt__text_printf(&cut->what, " (%s:%d)", origin->file, origin->line);
  DT_TRY(dt__text_status(&cut->text));
  DT_TRY(dt__text_status(&cut->what));
  return keep_constants(cut, variant->traced);
}

static dt_status_t create_cut(dt_function_t *function, dt_tensor_t *const *inputs,
                              uint32_t n_inputs, cut_t *cut, const dt_function_options_t *options,
                              char **out_what, dt_function_t **out) {
  DT_TRY(dt__with_traced(function, inputs, n_inputs, take_cut, cut));
  const source_t source = {.text = dt__text_str(&cut->text),
                           .len = cut->text.len,
                           .file = function->name,
                           .constants = cut->constants,
                           .n_constants = cut->n_constants};
  DT_TRY(create(function->runtime, &source, options, out));
  if (out_what && !(*out_what = dt__strdup(dt__text_str(&cut->what)))) {
    dt_function_release(*out);
    *out = NULL;
    return DT_NO_MEMORY();
  }
  return NULL;
}

dt_status_t dt_function_create_cut(dt_function_t *function, dt_tensor_t *const *inputs,
                                   uint32_t n_inputs, uint32_t node,
                                   const dt_function_options_t *options, char **out_what,
                                   dt_function_t **out) {
  if (out_what)
    *out_what = NULL;
  if (out)
    *out = NULL;
  if (!function || !out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_function_create_cut: %s: NULL",
                   function ? "out" : "function");
  cut_t cut = {.node = node};
  dt__text_init(&cut.text);
  dt__text_init(&cut.what);
  dt_status_t status = create_cut(function, inputs, n_inputs, &cut, options, out_what, out);
  for (uint32_t k = 0; k < cut.n_constants; k++)
    dt_tensor_release(cut.constants[k]);
  dt__free(cut.constants);
  dt__text_fini(&cut.text);
  dt__text_fini(&cut.what);
  return dt__status_annotate(status, "dt_function_create_cut");
}
