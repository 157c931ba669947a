// SPDX-License-Identifier: Apache-2.0
// Passes of users: a runtime's list, and what a new function takes of it.
#include "runtime/base/memory.h"
#include "runtime/base/options.h"
#include "runtime/base/status.h"
#include "runtime/exec/library.h"
#include "runtime/exec/runtime.h"
#include "runtime/trace/hooks.h"

dt_status_t dt__passes_begin(dt_runtime_t *runtime) {
  DT_TRY(dt__hooks_create(&runtime->hooks));
  runtime->turn = runtime->hooks->turn;
  return NULL;
}

void dt__passes_end(dt_runtime_t *runtime) { dt__hooks_release(runtime->hooks); }

dt_status_t dt__passes_choose(dt_runtime_t *runtime, const char *chosen, dt_hooks_t **out) {
  dt__mutex_lock(&runtime->turn->mutex);
  dt_hooks_t *hooks = dt__hooks_retain(runtime->hooks);
  dt__mutex_unlock(&runtime->turn->mutex);
  dt_status_t status = dt__hooks_choose(hooks, chosen, out);
  dt__hooks_release(hooks);
  return status;
}

typedef struct change_t {
  dt_point_t point; // 0: the pass `options->name` is taken out
  dt_pass_fn_t pass;
  void *closure;
  const dt_pass_options_t *options;
} change_t;

// The list that takes the place of `*hooks`, which nobody needs any more where it is made.
static dt_status_t change(dt_runtime_t *runtime, const change_t *c) {
  dt_hooks_t *made = NULL, *old = NULL;
  dt_library_t *library = dt__library_opening(runtime);
  dt_pass_options_t options = *c->options;
  char *identity = NULL;
  DT_TRY(dt__turn_outside(runtime->turn, "another list of passes"));
  DT_TRY(dt__library_identity(library, options.identity ? options.identity : options.name,
                              &identity, &options.identity));
  dt__mutex_lock(&runtime->turn->mutex);
  dt_status_t status = c->point ? dt__hooks_add(runtime->hooks, c->point, c->pass, c->closure,
                                                &options, library, &made)
                                : dt__hooks_remove(runtime->hooks, options.name, &made);
  if (!status) {
    old = runtime->hooks;
    runtime->hooks = made;
  }
  dt__mutex_unlock(&runtime->turn->mutex);
  dt__hooks_release(old); // may free a closure
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
  return change(runtime, &(change_t){point, pass, closure, &own});
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
