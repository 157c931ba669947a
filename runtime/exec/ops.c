// SPDX-License-Identifier: Apache-2.0
// Ops of users: a runtime's list (include/ductile/op.h).
#include "ductile/op.h"

#include "runtime/base/memory.h"
#include "runtime/base/options.h"
#include "runtime/base/status.h"
#include "runtime/exec/library.h"
#include "runtime/exec/runtime.h"
#include "runtime/trace/hooks.h"
#include "runtime/trace/op_list.h"

// `options` NULL: the op `name` is taken out.
static dt_status_t make_list(const dt_runtime_t *runtime, const dt_op_options_t *options,
                             const char *name, dt_hooks_t **out) {
  dt_op_list_t *ops = NULL;
  dt_op_def_t *def = NULL;
  DT_TRY(options ? dt__op_list_add(runtime->hooks->ops, options, &ops, &def)
                 : dt__op_list_remove(runtime->hooks->ops, name, &ops));
  dt_status_t status = dt__hooks_with_ops(runtime->hooks, ops, out);
  if (!status && def) { // from here on it is the op's
    def->options.closure_free = options->closure_free;
    def->library = dt__library_retain(dt__library_opening(runtime));
  }
  dt__op_list_release(ops);
  return status;
}

// The lists that take the place of the runtime's, which nobody needs any more where they are made.
static dt_status_t change(dt_runtime_t *runtime, const dt_op_options_t *options, const char *name) {
  dt_hooks_t *made = NULL, *old = NULL;
  if (!runtime)
    return DT_FAIL(DT_E_ARGUMENT, "runtime: NULL");
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "in a child after fork");
  DT_TRY(dt__turn_outside(runtime->turn, "another list of ops"));
  dt__mutex_lock(&runtime->turn->mutex);
  dt_status_t status = make_list(runtime, options, name, &made);
  if (!status) {
    old = runtime->hooks;
    runtime->hooks = made;
  }
  dt__mutex_unlock(&runtime->turn->mutex);
  dt__hooks_release(old); // may free a closure
  return status;
}

static dt_status_t add(dt_runtime_t *runtime, const dt_op_options_t *options) {
  dt_op_options_t own;
  char *identity = NULL;
  if (!options)
    return DT_FAIL(DT_E_ARGUMENT, "options: NULL");
  DT_TRY(DT_OPTIONS_TAKE(dt_op_options_t, &own, options));
  DT_TRY(dt__library_identity(dt__library_opening(runtime), own.identity ? own.identity : own.name,
                              &identity, &own.identity));
  dt_status_t status = change(runtime, &own, NULL);
  dt__free(identity);
  return status;
}

dt_status_t dt_op_register(dt_runtime_t *runtime, const dt_op_options_t *options) {
  return dt__status_annotate(add(runtime, options), "dt_op_register");
}

dt_status_t dt_op_remove(dt_runtime_t *runtime, const char *name) {
  return dt__status_annotate(change(runtime, NULL, name), "dt_op_remove");
}

bool dt_op_exists(dt_runtime_t *runtime, const char *name) {
  if (!runtime || !name || dt__forked())
    return false;
  dt__mutex_lock(&runtime->turn->mutex);
  bool found = dt__op_list_find(runtime->hooks->ops, name) != NULL;
  dt__mutex_unlock(&runtime->turn->mutex);
  return found;
}
