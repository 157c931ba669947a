// SPDX-License-Identifier: Apache-2.0
// Deciders: compiled look-up of variants, built on compile threads while the interpreter answers.
//
// A decider covers the first variants of a list; later ones are interpreted. It is rebuilt at once
// when the interpreted part has grown to a good fraction of the compiled part. Otherwise it is
// rebuilt when interpreted variants have waited many times as long as a build takes. So a function
// whose variants come one by one spends a small, bounded share of its time on deciders, and no
// variant is interpreted for long. Where all code was kept, and no code generator is open, none is
// opened for the guards of a few variants.
#include "runtime/exec/decide.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/compile/codegen.h"

#include <string.h>

#define GROWTH 4    // at once when a quarter as much is interpreted as compiled,
#define PATIENCE 20 // else after this many times the last build took,
#define LEAST_WAIT_NS 5000000
#define MOST_WAIT_NS 1000000000
// Variants whose guards are worth loading a code generator for, where all code was kept.
#define MANY 8

void dt__decider_destroy(dt_decider_t *decider) {
  if (!decider)
    return;
  dt__native_unload(decider->native);
  dt__free(decider);
}

static void destroy_retired_decider(dt_retired_t *item) {
  dt__decider_destroy((dt_decider_t *)(void *)item);
}

static void destroy_retired_list(dt_retired_t *item) { dt__free(item); }

// ---- Building -------------------------------------------------------------------------------------
// The guards that a decider is made over, as the list had them. No variant goes while it is made.
typedef struct snapshot_t {
  const dt_guards_t **programs;
  uint32_t n;
} snapshot_t;

// Mutex held.
static dt_status_t take_snapshot(const dt_function_t *function, snapshot_t *out) {
  const dt_variant_list_t *list = atomic_load_explicit(&function->list, memory_order_relaxed);
  out->n = list->n;
  out->programs = dt__calloc(list->n, sizeof(*out->programs));
  if (!out->programs)
    return DT_NO_MEMORY();
  for (uint32_t i = 0; i < list->n; i++)
    out->programs[i] = list->items[i]->guards;
  return NULL;
}

static dt_status_t make_decider(const dt_function_t *function, const snapshot_t *snapshot,
                                dt_decider_t **out) {
  dt_decider_t *decider = dt__calloc(1, sizeof(*decider));
  if (!decider)
    return DT_NO_MEMORY();
  decider->n = snapshot->n;
  const dt_decide_kept_t *kept = function->decider.kept;
  dt_status_t status = NULL;
  if (kept)
    status =
        dt__decide_find(kept, snapshot->programs, snapshot->n, &decider->native, &decider->decide);
  decider->kept = decider->native != NULL;
  if (!status && !decider->native)
    status = dt__decide_compile(function->runtime->compiler, snapshot->programs, snapshot->n,
                                function->name, &decider->native, &decider->decide);
  if (status) {
    dt__decider_destroy(decider);
    return status;
  }
  *out = decider;
  return NULL;
}

// Whether the list still begins with what the decider was made over.
static bool still_begins(const dt_variant_list_t *list, const snapshot_t *snapshot) {
  for (uint32_t i = 0; i < snapshot->n; i++) {
    if (i >= list->n || list->items[i]->guards != snapshot->programs[i])
      return false;
  }
  return true;
}

// The same list with the decider. Takes `decider` also on failure. Mutex held.
static dt_status_t publish(dt_function_t *function, const snapshot_t *snapshot,
                           dt_decider_t *decider) {
  dt_variant_list_t *old = atomic_load_explicit(&function->list, memory_order_relaxed);
  size_t bytes = sizeof(*old) + old->n * sizeof(old->items[0]);
  bool fits = still_begins(old, snapshot);
  dt_variant_list_t *list = fits ? dt__alloc(bytes) : NULL;
  if (!list) {
    dt__decider_destroy(decider);
    function->decider.again |= !fits;
    return fits ? DT_NO_MEMORY() : NULL;
  }
  memcpy(list, old, bytes);
  list->retired = (dt_retired_t){0};
  list->decider = decider;
  atomic_store_explicit(&function->list, list, memory_order_release);
  dt_reclaim_t *reclaim = function->runtime->reclaim;
  // Older lists that are still read may have the old decider too: their readers came before.
  dt_decider_t *before = (dt_decider_t *)(uintptr_t)old->decider;
  if (before) {
    before->retired.destroy = destroy_retired_decider;
    dt__reclaim_retire(reclaim, &before->retired);
  }
  old->retired.destroy = destroy_retired_list;
  dt__reclaim_retire(reclaim, &old->retired);
  atomic_store_explicit(&function->runtime->garbage, true, memory_order_relaxed);
  function->decider.made++;
  return NULL;
}

static void post(dt_function_t *function);

// The job. The function cannot go before it has unlocked for the last time: dt__decider_stop waits.
static dt_status_t run_build(void *opaque) {
  dt_function_t *function = opaque;
  dt_decider_build_t *build = &function->decider;
  int64_t begin = dt__now_ns();
  snapshot_t snapshot = {0};
  dt_decider_t *decider = NULL;
  dt__mutex_lock(&function->mutex);
  build->running = true;
  build->again = false;
  dt_status_t status = build->stopped ? NULL : take_snapshot(function, &snapshot);
  dt__mutex_unlock(&function->mutex);
  if (!status && snapshot.n)
    status = make_decider(function, &snapshot, &decider);
  dt__mutex_lock(&function->mutex);
  if (decider)
    status = publish(function, &snapshot, decider);
  build->ns = dt__now_ns() - begin;
  build->all_ns += build->ns;
  if (status) {
    build->failed++;
    DT_LOG(DT_LOG_GUARDS, 1, "%s: no decider, guards are interpreted: %s", function->name,
           dt_status_message(status));
  } else {
    DT_LOG(DT_LOG_GUARDS, 2, "%s: decider over %u variants, %.2f ms", function->name, snapshot.n,
           (double)build->ns * 1e-6);
  }
  build->posted = build->running = false;
  if (build->again && !build->stopped)
    post(function);
  dt_status_free(status);
  dt__free(snapshot.programs);
  (void)pthread_cond_broadcast(&function->idle);
  dt_runtime_t *runtime = function->runtime; // waits for its jobs before it goes
  dt__mutex_unlock(&function->mutex);
  dt__budget_keep(&runtime->budget); // nothing of the function could be taken meanwhile
  return NULL;
}

// ---- Asking ---------------------------------------------------------------------------------------
static int64_t delay_ns(const dt_function_t *function) {
  const dt_variant_list_t *list = atomic_load_explicit(&function->list, memory_order_relaxed);
  uint32_t compiled = list->decider ? list->decider->n : 0;
  // Where variants were taken back the list has lost its decider, and may lose the next one as
  // soon.
  bool again = !compiled && function->excused;
  if (list->n - compiled > compiled / GROWTH && !again)
    return 0;
  int64_t wait = PATIENCE * function->decider.ns;
  return wait < LEAST_WAIT_NS ? LEAST_WAIT_NS : wait > MOST_WAIT_NS ? MOST_WAIT_NS : wait;
}

// Mutex held; the job is not posted.
static void post(dt_function_t *function) {
  dt_decider_build_t *build = &function->decider;
  build->job =
      (dt_job_t){.run = run_build, .arg = function, .what = "guards", .of = function->name};
  dt_status_t status = dt__jobs_post(dt__compiler_jobs(function->runtime->compiler), &build->job,
                                     delay_ns(function));
  build->posted = !status;
  build->failed += status != NULL;
  dt_status_free(status);
}

// Mutex held.
static bool is_worth_it(const dt_function_t *function) {
  const dt_variant_list_t *list = atomic_load_explicit(&function->list, memory_order_relaxed);
  const dt_decide_kept_t *kept = function->decider.kept;
  return (kept && kept->n == list->n) || list->n >= MANY ||
         dt__codegen_is_open(dt__compiler_workers(function->runtime->compiler));
}

void dt__decider_request(dt_function_t *function) {
  dt_decider_build_t *build = &function->decider;
  if (build->stopped || build->waits || !is_worth_it(function))
    return;
  if (build->running) {
    build->again = true;
    return;
  }
  dt_jobs_t *jobs = dt__compiler_jobs(function->runtime->compiler);
  // One that waits may be wanted sooner now.
  if (build->posted && (delay_ns(function) > 0 || !dt__jobs_cancel(jobs, &build->job)))
    return;
  post(function);
}

void dt__decider_stop(dt_function_t *function) {
  dt_decider_build_t *build = &function->decider;
  if (dt__forked())
    return; // nobody builds here
  dt__mutex_lock(&function->mutex);
  build->stopped = true;
  if (build->posted && dt__jobs_cancel(dt__compiler_jobs(function->runtime->compiler), &build->job))
    build->posted = false;
  while (build->posted)
    dt__cond_wait(&function->idle, &function->mutex);
  dt__mutex_unlock(&function->mutex);
}
