// SPDX-License-Identifier: Apache-2.0
// The life of a profile. The runtime has a reference while it runs, its maker one until it frees
// it, and each call that records into it. The runtime's goes by epoch, since calls look for a
// profile without a lock.
#include "runtime/exec/timing.h"

#include "runtime/base/options.h"
#include "runtime/base/status.h"
#include "runtime/exec/runtime.h"
#include "runtime/exec/timing_queue.h"

#define MOST_EVENTS (16u << 20)
#define EVENTS 65536u

static void destroy(dt_profile_t *profile) {
  dt__timed_queues_end(profile);
  dt__profile_free_sums(profile);
  dt__tasks_release(profile->tasks);
  dt__mutex_fini(&profile->mutex);
  dt__free(profile);
}

void dt__profile_release(dt_profile_t *profile) {
  if (atomic_fetch_sub_explicit(&profile->refs, 1, memory_order_acq_rel) == 1)
    destroy(profile);
}

static void release_retired(dt_retired_t *item) {
  dt__profile_release((dt_profile_t *)(void *)item);
}

static dt_status_t init(dt_profile_t *profile, uint32_t most_events) {
  DT_TRY(dt__mutex_init(&profile->mutex, DT_RANK_PROFILE));
  profile->most_events = most_events;
  profile->events = dt__calloc(most_events, sizeof(*profile->events));
  dt_status_t status = profile->events ? dt__tasks_make(&profile->tasks) : DT_NO_MEMORY();
  if (!status)
    return NULL;
  dt__free(profile->events);
  dt__mutex_fini(&profile->mutex);
  return status;
}

static dt_task_board_t *board_of(dt_runtime_t *runtime) {
  return dt__jobs_board(dt__compiler_jobs(runtime->compiler));
}

static dt_status_t start(dt_runtime_t *runtime, const dt_profile_options_t *options,
                         dt_profile_t **out) {
  dt_profile_options_t own;
  DT_TRY(DT_OPTIONS_TAKE(dt_profile_options_t, &own, options));
  if (!runtime)
    return DT_FAIL(DT_E_ARGUMENT, "runtime: NULL");
  if (own.most_events > MOST_EVENTS)
    return DT_FAIL(DT_E_ARGUMENT, "most_events: %u; expected at most %u", own.most_events,
                   MOST_EVENTS);
  if (own.flags & ~DT_PROFILE_WHOLE_GRAPHS)
    return DT_FAIL(DT_E_ARGUMENT, "flags: %#llx; expected DT_PROFILE_* joined by or",
                   (unsigned long long)own.flags);
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "called in a child after fork");
  dt_profile_t *profile = dt__calloc(1, sizeof(*profile));
  if (!profile)
    return DT_NO_MEMORY();
  dt_status_t status = init(profile, own.most_events ? own.most_events : EVENTS);
  if (status) {
    dt__free(profile);
    return status;
  }
  atomic_init(&profile->refs, 2);
  profile->runtime = runtime;
  profile->whole_graphs = own.flags & DT_PROFILE_WHOLE_GRAPHS;
  profile->retired.destroy = release_retired;
  profile->begin = dt__ticks_begin();
  dt_profile_t *none = NULL;
  if (!atomic_compare_exchange_strong_explicit(&runtime->profile, &none, profile,
                                               memory_order_acq_rel, memory_order_acquire)) {
    destroy(profile);
    return DT_FAIL(DT_E_STATE, "the runtime has a profile that runs; stop it first");
  }
  dt_runtime_retain(runtime);
  dt__task_board_put(board_of(runtime), profile->tasks);
  *out = profile;
  return NULL;
}

dt_status_t dt_profile_start(dt_runtime_t *runtime, const dt_profile_options_t *options,
                             dt_profile_t **out) {
  if (!out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_profile_start: out: NULL; expected where to put the profile");
  *out = NULL;
  return dt__status_annotate(start(runtime, options, out), "dt_profile_start");
}

// Two threads may stop it at the same time: one of them finds it running.
static void stop(dt_profile_t *profile) {
  dt_runtime_t *runtime = profile->runtime;
  dt_profile_t *running = profile;
  if (!atomic_compare_exchange_strong_explicit(&runtime->profile, &running, NULL,
                                               memory_order_acq_rel, memory_order_relaxed))
    return;
  if (dt__forked()) {
    dt__profile_release(profile);
    return;
  }
  dt__task_board_take(board_of(runtime), profile->tasks);
  dt__mutex_lock(&profile->mutex);
  profile->stopped_ns = dt__now_ns();
  dt__mutex_unlock(&profile->mutex);
  dt__reclaim_retire(runtime->reclaim, &profile->retired);
  dt__runtime_collect(runtime);
}

dt_status_t dt_profile_stop(dt_profile_t *profile) {
  if (!profile)
    return DT_FAIL(DT_E_ARGUMENT, "dt_profile_stop: profile: NULL");
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "dt_profile_stop in a child after fork");
  stop(profile);
  return NULL;
}

void dt_profile_free(dt_profile_t *profile) {
  if (!profile)
    return;
  dt_runtime_t *runtime = profile->runtime;
  stop(profile);
  dt__profile_release(profile);
  dt_runtime_release(runtime);
}

const char *dt_profile_part_name(dt_profile_part_t part) {
  static const char *const names[DT_PROFILE_PARTS] = {"arguments", "guards", "compile",  "plan",
                                                      "memory",    "host",   "kernels",  "wait",
                                                      "evaluator", "finish", "recording"};
  return (uint32_t)part < DT_PROFILE_PARTS ? names[part] : "unknown";
}
