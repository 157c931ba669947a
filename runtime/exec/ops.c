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

typedef struct change_t {
  dt_runtime_t *runtime;
  const dt_op_options_t *options; // NULL: the op `name` is taken out
  const char *name;
} change_t;

static dt_status_t make_list(void *arg, const dt_hooks_t *old, dt_hooks_t **out) {
  const change_t *c = arg;
  dt_op_list_t *ops = NULL;
  dt_op_def_t *def = NULL;
  DT_TRY(c->options ? dt__op_list_add(old->ops, c->options, &ops, &def)
                    : dt__op_list_remove(old->ops, c->name, &ops));
  dt_status_t status = dt__hooks_with_ops(old, ops, out);
  if (!status && def) { // from here on it is the op's
    def->options.closure_free = c->options->closure_free;
    def->library = dt__library_retain(dt__library_opening(c->runtime));
  }
  dt__op_list_release(ops);
  return status;
}

static dt_status_t change(dt_runtime_t *runtime, const dt_op_options_t *options, const char *name) {
  change_t c = {runtime, options, name};
  if (!runtime)
    return DT_FAIL(DT_E_ARGUMENT, "runtime: NULL");
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "in a child after fork");
  return dt__hooks_change(runtime->turn, &runtime->hooks, "another list of ops", make_list, &c);
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
