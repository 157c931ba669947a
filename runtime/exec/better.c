// SPDX-License-Identifier: Apache-2.0
// See better.h. One job a function makes one variant after another, oldest first.
#include "runtime/exec/better.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/compile/early.h"
#include "runtime/exec/apart.h"
#include "runtime/exec/function.h"
#include "runtime/exec/runtime.h"
#include "runtime/exec/swap.h"

// A process that answers one call and ends does not begin.
#define BEGIN_NS 20000000

// Mutex held; NULL: there is none left.
static dt_variant_t *next_quick(const dt_function_t *function) {
  const dt_variant_list_t *list = atomic_load_explicit(&function->list, memory_order_relaxed);
  for (uint32_t k = 0; k < list->n; k++) {
    dt_variant_t *variant = list->items[k];
    if (variant->compiled && variant->compiled->quick && !variant->stays_quick)
      return variant;
  }
  return NULL;
}

// The mutex held, but not while it compiles.
static void better(dt_function_t *function, dt_variant_t *variant) {
  dt_better_t *own = &function->better;
  dt__watch_init(&own->watch, &function->runtime->budgets);
  function->pins++; // the variant stays
  dt__variant_retain(variant);
  dt__mutex_unlock(&function->mutex);
  dt_status_t status = dt__variant_recompile(function, variant, &own->watch);
  dt__mutex_lock(&function->mutex);
  function->pins--;
  own->made += status == NULL;
  variant->stays_quick = status != NULL;
  if (status && !own->stopped)
    DT_LOG(DT_LOG_COMPILE, 1, "%s.%u keeps its quick kernels: %s", function->name, variant->number,
           dt_status_message(status));
  dt_status_free(status);
  dt__variant_release(variant);
}

// The job. The function cannot go before it has unlocked for the last time: dt__better_stop waits.
static dt_status_t run(void *opaque) {
  dt_function_t *function = opaque;
  dt_better_t *own = &function->better;
  dt__mutex_lock(&function->mutex);
  for (dt_variant_t *variant; !own->stopped && (variant = next_quick(function)) != NULL;)
    better(function, variant);
  own->posted = false;
  (void)pthread_cond_broadcast(&function->idle);
  dt_runtime_t *runtime = function->runtime; // waits for its jobs before it goes
  dt__mutex_unlock(&function->mutex);
  dt__budget_keep(&runtime->budget); // nothing of the function could be taken meanwhile
  return NULL;
}

// Mutex held: all that is made early is begun before this job, and ended before it begins.
static bool begun_early(const dt_function_t *function) {
  const dt_variant_t *variant = next_quick(function);
  return variant && variant->compiled->early;
}

static void stop_early(const dt_function_t *function) {
  const dt_variant_list_t *list = atomic_load_explicit(&function->list, memory_order_relaxed);
  for (uint32_t k = 0; list && k < list->n; k++)
    if (list->items[k]->compiled)
      dt__early_stop(list->items[k]->compiled->early);
}

void dt__better_request(dt_function_t *function) {
  dt_better_t *own = &function->better;
  if (own->posted || own->stopped || !next_quick(function))
    return;
  own->job = (dt_job_t){.run = run, .arg = function, .what = "best forms", .of = function->name};
  dt_status_t status = dt__jobs_post(dt__compiler_jobs(function->runtime->compiler), &own->job,
                                     begun_early(function) ? 0 : BEGIN_NS);
  own->posted = !status;
  dt_status_free(status);
}

void dt__better_stop(dt_function_t *function) {
  dt_better_t *own = &function->better;
  if (dt__forked())
    return; // nobody compiles here
  dt__mutex_lock(&function->mutex);
  own->stopped = true;
  dt__watch_stop(&own->watch, DT_E_CANCELLED);
  stop_early(function);
  if (own->posted && dt__jobs_cancel(dt__compiler_jobs(function->runtime->compiler), &own->job))
    own->posted = false;
  while (own->posted)
    dt__cond_wait(&function->idle, &function->mutex);
  dt__mutex_unlock(&function->mutex);
}

dt_status_t dt__better_wait(dt_function_t *function, dt_control_t *control) {
  while (function->better.posted)
    DT_TRY(dt__build_wait(function, control));
  return NULL;
}
