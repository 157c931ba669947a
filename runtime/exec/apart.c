// SPDX-License-Identifier: Apache-2.0
// Compiles that may outlive the call that asked for them. Each has a thread that drives the compile
// and publishes its result. So a call whose deadline passes leaves at once, and others who wait get
// the variant. If nobody waits any more, the compile ends at its next unit.
#include "runtime/exec/apart.h"

#include "runtime/base/control.h"
#include "runtime/base/status.h"
#include "runtime/exec/function.h"
#include "runtime/exec/runtime.h"

// Freed by whoever is last with it: the call, or the thread.
typedef struct build_t {
  dt_function_t *function;
  dt_apart_t apart;
  bool done, left;    // guarded by the function's mutex: published; the call is gone
  dt_status_t status; // once done: publish's
} build_t;

// Nobody who waits is left: the build is for nothing. Mutex held.
static void leave(dt_function_t *function, dt_code_t code) {
  if (!function->waiting && function->watch)
    dt__watch_stop(function->watch, code);
}

dt_status_t dt__build_wait(dt_function_t *function, dt_control_t *control) {
  int64_t now = 0;
  function->waiting++;
  bool over = control && dt__control_look(control, &now);
  if (!over)
    dt__cond_wait_until(&function->idle, &function->mutex,
                        control ? dt__control_wake_ns(control, now) : INT64_MAX);
  over = control && dt__control_look(control, NULL);
  function->waiting--;
  dt_status_t status = over ? dt__control_status(control) : NULL;
  if (status)
    leave(function, dt_status_code(status));
  return status;
}

static void *thread_main(void *opaque) {
  build_t *build = opaque;
  dt_function_t *function = build->function;
  dt_cpus_t before;
  dt_status_free(dt__cpus_enter(&function->runtime->cpus, &before)); // its maker is a caller
  dt_status_t status = build->apart.compile(build->apart.user);
  dt__mutex_lock(&function->mutex);
  build->status = build->apart.publish(build->apart.user, status);
  build->done = true;
  bool left = build->left;
  (void)pthread_cond_broadcast(&function->idle);
  dt__mutex_unlock(&function->mutex);
  if (left) {
    dt_status_free(build->status);
    dt__free(build);
  }
  return NULL;
}

// The thread unlocks the mutex last of all, so that it is there to be joined at once.
void dt__build_join(dt_function_t *function) {
  if (!function->has_apart || dt__forked())
    return;
  (void)pthread_join(function->apart, NULL);
  function->has_apart = false;
}

void dt__build_end(dt_function_t *function) {
  if (dt__forked())
    return;
  dt__mutex_lock(&function->mutex);
  leave(function, DT_E_CANCELLED);
  dt__mutex_unlock(&function->mutex);
  dt__build_join(function);
}

dt_status_t dt__build_apart(dt_function_t *function, const dt_apart_t *apart, dt_control_t *control,
                            bool *out_started) {
  build_t *build = dt__calloc(1, sizeof(*build));
  *out_started = false;
  if (!build)
    return DT_NO_MEMORY();
  *build = (build_t){.function = function, .apart = *apart};
  dt_status_t status = dt__thread_start(&function->apart, "dt-compile", false, thread_main, build);
  if (status) {
    dt__free(build);
    return status;
  }
  function->has_apart = *out_started = true;
  function->builder = function->apart; // the calling thread may come again
  while (!build->done && !status)
    status = dt__build_wait(function, control);
  if (!build->done) {
    build->left = true;
    return status;
  }
  dt_status_free(status); // it is there all the same
  status = build->status;
  dt__free(build);
  return status;
}
