// SPDX-License-Identifier: Apache-2.0
// Passes of users: a runtime's list, and what a new function takes of it.
#include "runtime/base/memory.h"
#include "runtime/base/options.h"
#include "runtime/base/status.h"
#include "runtime/exec/decide.h"
#include "runtime/exec/explain.h"
#include "runtime/exec/library.h"
#include "runtime/exec/runtime.h"
#include "runtime/trace/rewrites.h"

#include <string.h>

dt_status_t dt__passes_begin(dt_runtime_t *runtime) {
  DT_TRY(dt__hooks_create(&runtime->hooks));
  DT_TRY(dt__rewrites_add(runtime->hooks, &runtime->hooks));
  runtime->turn = runtime->hooks->turn;
  return NULL;
}

void dt__passes_end(dt_runtime_t *runtime) { dt__hooks_release(runtime->hooks); }

dt_status_t dt__passes_choose(dt_runtime_t *runtime, const char *chosen, dt_hooks_t **out) {
  dt_hooks_t *hooks = dt__hooks_share(runtime->turn, &runtime->hooks);
  dt_status_t status = dt__hooks_choose(hooks, chosen, out);
  dt__hooks_release(hooks);
  return status;
}

typedef struct change_t {
  dt_point_t point; // 0: the pass `options->name` is taken out
  dt_pass_fn_t pass;
  void *closure;
  const dt_pass_options_t *options;
  dt_pattern_t *pattern; // that is added; NULL: none is
  dt_library_t *library; // that brings it; NULL: none does
} change_t;

static dt_status_t make_list(void *arg, const dt_hooks_t *old, dt_hooks_t **out) {
  const change_t *c = arg;
  if (c->pattern)
    return dt__hooks_add_pattern(old, c->pattern, c->options, c->library, out);
  if (c->point)
    return dt__hooks_add(old, c->point, c->pass, c->closure, c->options, c->library, out);
  return dt__hooks_remove(old, c->options->name, out);
}

static dt_status_t change(dt_runtime_t *runtime, const change_t *asked) {
  change_t c = *asked;
  dt_pass_options_t options = c.pattern ? dt__pattern_options(c.pattern) : *c.options;
  char *identity = NULL;
  c.library = dt__library_opening(runtime);
  c.options = &options;
  DT_TRY(dt__library_identity(c.library, options.identity ? options.identity : options.name,
                              &identity, &options.identity));
  dt_status_t status =
      dt__hooks_change(runtime->turn, &runtime->hooks, "another list of passes", make_list, &c);
  dt__free(identity);
  return status;
}

static dt_status_t add(dt_runtime_t *runtime, dt_point_t point, dt_pass_fn_t pass, void *closure,
                       const dt_pass_options_t *options) {
  dt_pass_options_t own;
  if (!runtime || !options)
    return DT_FAIL(DT_E_ARGUMENT, "%s: NULL", runtime ? "options" : "runtime");
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "in a child after fork");
  DT_TRY(DT_OPTIONS_TAKE(dt_pass_options_t, &own, options));
  if (!point)
    return DT_FAIL(DT_E_ARGUMENT, "point 0; expected one of DT_POINT_*");
  return change(runtime, &(change_t){point, pass, closure, &own, NULL, NULL});
}

dt_status_t dt_runtime_add_pass(dt_runtime_t *runtime, dt_point_t point, dt_pass_fn_t pass,
                                void *closure, const dt_pass_options_t *options) {
  return dt__status_annotate(add(runtime, point, pass, closure, options), "dt_runtime_add_pass");
}

dt_status_t dt_runtime_remove_pass(dt_runtime_t *runtime, const char *name) {
  dt_pass_options_t options = {.name = name};
  dt_status_t status = !runtime       ? DT_FAIL(DT_E_ARGUMENT, "runtime: NULL")
                       : dt__forked() ? DT_FAIL(DT_E_FORKED, "in a child after fork")
                                      : change(runtime, &(change_t){.options = &options});
  return dt__status_annotate(status, "dt_runtime_remove_pass");
}

// ---- Patterns -----------------------------------------------------------------------------------
dt_status_t dt_runtime_add_pattern(dt_runtime_t *runtime, dt_pattern_t *pattern) {
  dt_status_t status = !runtime || !pattern
                           ? DT_FAIL(DT_E_ARGUMENT, "%s: NULL", runtime ? "pattern" : "runtime")
                       : dt__forked() ? DT_FAIL(DT_E_FORKED, "in a child after fork")
                                      : change(runtime, &(change_t){.pattern = pattern});
  return dt__status_annotate(status, "dt_runtime_add_pattern");
}

static dt_status_t find_pattern(dt_runtime_t *runtime, const char *name, dt_pattern_t **out) {
  if (!runtime || !name || !out)
    return DT_FAIL(DT_E_ARGUMENT, "%s: NULL", !runtime ? "runtime" : !name ? "name" : "out");
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "in a child after fork");
  dt_hooks_t *hooks = dt__hooks_share(runtime->turn, &runtime->hooks);
  dt_pattern_t *pattern = dt__hooks_pattern(hooks, name);
  *out = pattern ? dt__pattern_retain(pattern) : NULL;
  dt__hooks_release(hooks);
  return *out ? NULL : DT_FAIL(DT_E_ARGUMENT, "name: the runtime has no pattern \"%.64s\"", name);
}

dt_status_t dt_runtime_find_pattern(dt_runtime_t *runtime, const char *name, dt_pattern_t **out) {
  if (out)
    *out = NULL;
  return dt__status_annotate(find_pattern(runtime, name, out), "dt_runtime_find_pattern");
}

// A variant's traced graph with all that it is made of: the variant may go in the meantime.
typedef struct snapshot_t {
  dt_arena_t arena;
  dt_symenv_t *env;
  dt_graph_t *graph;
  dt_device_t device; // that the variant is for
  bool strict_fp;     // its code
} snapshot_t;

static bool own_text(dt_arena_t *arena, const char **text, const char **last, const char **copy) {
  if (!*text)
    return true;
  if (*text != *last) {
    *last = *text;
    *copy = dt__arena_strdup(arena, *text);
  }
  *text = *copy;
  return *copy != NULL;
}

static dt_status_t own_texts(dt_arena_t *arena, const dt_graph_t *graph) {
  const char *last[2] = {NULL, NULL}, *copy[2] = {NULL, NULL};
  for (uint32_t k = 0; k < graph->nodes.len; k++) {
    dt_origin_t *origin = &graph->nodes.items[k].origin;
    if (!own_text(arena, &origin->file, &last[0], &copy[0]) ||
        !own_text(arena, &origin->op, &last[1], &copy[1]))
      return DT_NO_MEMORY();
  }
  for (uint32_t k = 0; k < graph->controls.len; k++)
    for (uint32_t b = 0; b < dt__control_own_n(&graph->controls.items[k]); b++)
      DT_TRY(own_texts(arena, graph->controls.items[k].bodies[b]));
  return NULL;
}

// Of constants, those of one element.
static dt_status_t own_constants(dt_arena_t *arena, const dt_graph_t *graph) {
  for (uint32_t k = 0; k < graph->constants.len; k++) {
    dt_graph_constant_t *constant = &graph->constants.items[k];
    bool one = true;
    for (uint32_t d = 0; d < constant->rank; d++)
      one = one && constant->sizes[d] == 1;
    const void *data = constant->data;
    constant->data = one ? dt__arena_copy(arena, data, dt_dtype_size(constant->dtype)) : NULL;
    if (one && !constant->data)
      return DT_NO_MEMORY();
  }
  return NULL;
}

static dt_status_t take_snapshot(void *arg, const dt_variant_t *variant,
                                 dt_tensor_t *const *inputs) {
  snapshot_t *s = arg;
  (void)inputs;
  DT_TRY(dt__symenv_clone(variant->traced->env, &s->env));
  DT_TRY(dt__graph_copy(&s->arena, variant->traced->graph, &s->graph));
  DT_TRY(own_texts(&s->arena, s->graph));
  DT_TRY(own_constants(&s->arena, s->graph));
  s->graph->env = s->env;
  s->device = variant->place;
  s->strict_fp = variant->strict_fp;
  return dt__graph_rehome_controls(s->graph);
}

typedef struct explain_t {
  const dt_pattern_t *pattern;
  dt_text_t text;
} explain_t;

static dt_status_t explain_graph(dt_rewriter_t *rewriter, void *closure) {
  explain_t *explain = closure;
  uint32_t depth = dt_rewriter_depth(rewriter);
  if (depth)
    dt__text_printf(&explain->text, "in a body, depth %u: ", depth);
  return dt__pattern_explain(explain->pattern, rewriter, &explain->text);
}

// A pass that only explains.
static dt_status_t explain_snapshot(dt_hooks_t *hooks, snapshot_t *s, explain_t *explain) {
  const dt_graph_t *same = NULL;
  const dt_site_t site = {
      .point = DT_POINT_BEFORE_DECOMPOSE, .device = s->device, .hooks = hooks, .keep = &s->arena};
  DT_TRY(dt__hooks_enter(hooks, NULL));
  dt_status_t status =
      dt__pass_run("explain", explain_graph, explain, &site, &s->arena, s->graph, &same);
  dt__hooks_leave(hooks);
  return status;
}

static dt_status_t explain_function(const dt_pattern_t *pattern, dt_function_t *function,
                                    dt_tensor_t *const *inputs, uint32_t n_inputs, char **out) {
  snapshot_t s = {.env = NULL};
  explain_t explain = {.pattern = pattern};
  DT_TRY(dt__turn_outside(function->runtime->turn, "an explanation"));
  dt__arena_init(&s.arena, 0);
  dt__text_init(&explain.text);
  dt_status_t status = dt__with_traced(function, inputs, n_inputs, take_snapshot, &s);
  if (!status && s.strict_fp && pattern->inexact)
    dt__text_put(&explain.text, "left out where floats are computed in order (strict_fp)\n");
  if (!status)
    status = explain_snapshot(function->hooks, &s, &explain);
  if (!status) {
    *out = dt__strdup(dt__text_str(&explain.text));
    status = *out ? NULL : DT_NO_MEMORY();
  }
  dt__text_fini(&explain.text);
  dt__symenv_destroy(s.env);
  dt__arena_fini(&s.arena);
  return status;
}

dt_status_t dt_pattern_explain_function(dt_pattern_t *pattern, dt_function_t *function,
                                        dt_tensor_t *const *inputs, uint32_t n_inputs, char **out) {
  dt_status_t status = NULL;
  if (!pattern || !function || !out)
    status = DT_FAIL(DT_E_ARGUMENT, "%s: NULL",
                     !pattern    ? "pattern"
                     : !function ? "function"
                                 : "out");
  if (out)
    *out = NULL;
  if (!status)
    status = explain_function(pattern, function, inputs, n_inputs, out);
  return dt__status_annotate(status, "dt_pattern_explain_function");
}
