// SPDX-License-Identifier: Apache-2.0
// What a session notes of its calls while a profile runs. Only the calling thread writes here, but
// for spans; what is noted goes to the profile when the call ends, or when there is no more room.
#include "runtime/exec/timing.h"

#include "runtime/exec/runtime.h"
#include "runtime/exec/session.h"
#include "runtime/exec/timing_queue.h"

#include <string.h>

// ---- Calls ------------------------------------------------------------------------------------------

static dt_recorder_t *make(dt_session_t *session) {
  dt_recorder_t *recorder = dt__alloc(sizeof(*recorder));
  if (!recorder)
    return NULL;
  memset(recorder, 0, offsetof(dt_recorder_t, stamps));
  recorder->n_spans = dt__pool_width(session->runtime->pool);
  size_t bytes = recorder->n_spans * sizeof(dt_span_t);
  recorder->spans = dt__alloc_aligned(bytes, _Alignof(dt_span_t));
  if (!recorder->spans) {
    dt__free(recorder);
    return NULL;
  }
  memset(recorder->spans, 0, bytes);
  return recorder;
}

dt_recorder_t *dt__record_begin(dt_session_t *session, dt_function_t *function) {
  dt_profile_t *profile = atomic_load_explicit(&session->runtime->profile, memory_order_acquire);
  if (!profile)
    return NULL;
  if (!session->recorder)
    session->recorder = make(session);
  dt_recorder_t *recorder = session->recorder;
  if (!recorder) {
    dt__profile_lose(profile);
    return NULL;
  }
  (void)atomic_fetch_add_explicit(&profile->refs, 1, memory_order_relaxed);
  recorder->profile = profile;
  recorder->counter = profile->begin.counter;
  recorder->thread = dt__thread_id();
  recorder->function = function;
  recorder->place = session->place;
  recorder->session = session;
  recorder->variant = NULL;
  recorder->last = recorder->n = 0;
  recorder->launched = recorder->waited = recorder->untimed = recorder->split_graphs = 0;
  recorder->fresh = true;
  if (session->home->kind->timer)
    recorder->queue = dt__timed_queue_of(session, recorder);
  memset(recorder->parts, 0, sizeof(recorder->parts));
  recorder->began = recorder->at = dt__ticks_now(recorder->counter);
  return recorder;
}

void dt__record_variant(dt_recorder_t *recorder, dt_variant_t *variant, const int64_t *symbols) {
  recorder->variant = variant;
  recorder->symbols = symbols;
  recorder->last = 0;
}

void dt__record_drop(dt_recorder_t *recorder) {
  recorder->variant = NULL;
  recorder->n = 0;
}

void dt__record_end(dt_recorder_t *recorder, bool answered) {
  dt_profile_t *profile = recorder->profile;
  dt__record_part(recorder, DT_PROFILE_FINISH);
  if (answered)
    dt__profile_count(profile, recorder);
  dt__timed_queue_done(recorder);
  recorder->n = 0;
  recorder->profile = NULL;
  dt__profile_release(profile);
}

void dt__recorder_free(dt_recorder_t *recorder) {
  if (!recorder)
    return;
  dt__timed_queue_release(recorder->kept);
  dt__free(recorder->spans);
  dt__free(recorder);
}

// ---- Stamps -----------------------------------------------------------------------------------------

static dt_stamp_t *add(dt_recorder_t *recorder, dt_stamp_kind_t kind) {
  if (recorder->n == DT_MOST_STAMPS)
    dt__profile_take(recorder->profile, recorder);
  dt_stamp_t *stamp = &recorder->stamps[recorder->n++];
  stamp->kind = kind;
  stamp->thread = recorder->thread;
  return stamp;
}

static uint64_t pass(dt_recorder_t *recorder, dt_profile_part_t part) {
  dt_stamp_t *stamp = add(recorder, DT_STAMP_PART);
  uint64_t now = dt__ticks_now(recorder->counter);
  stamp->part = part;
  stamp->begin = recorder->at;
  stamp->end = now;
  uint64_t passed = now - recorder->at;
  recorder->parts[part] += passed;
  recorder->at = now;
  return passed;
}

void dt__record_part(dt_recorder_t *recorder, dt_profile_part_t part) {
  (void)pass(recorder, part);
  recorder->launched = recorder->waited = 0; // was a part of it
}

void dt__record_run(dt_recorder_t *recorder) {
  uint64_t all = pass(recorder, DT_PROFILE_KERNELS);
  uint64_t launched = recorder->launched < all ? recorder->launched : all;
  uint64_t waited = recorder->waited < all - launched ? recorder->waited : all - launched;
  recorder->parts[DT_PROFILE_KERNELS] -= all - launched;
  recorder->parts[DT_PROFILE_WAIT] += waited;
  recorder->parts[DT_PROFILE_HOST] += all - launched - waited;
  recorder->launched = recorder->waited = 0;
}

dt_stamp_t *dt__record_launch(dt_recorder_t *recorder, const void *site, dt_kernel_fn_t fn,
                              int64_t kernel) {
  dt_stamp_t *stamp = add(recorder, DT_STAMP_LAUNCH);
  stamp->site = site;
  stamp->fn = fn;
  stamp->kernel = kernel > 0 && kernel < UINT32_MAX ? (uint32_t)kernel : 0;
  stamp->busy = stamp->wait = 0;
  stamp->piece = NULL;
  stamp->begin = dt__ticks_now(recorder->counter);
  return stamp;
}

void dt__record_launched(dt_recorder_t *recorder, dt_stamp_t *launch) {
  launch->end = dt__ticks_now(recorder->counter);
  recorder->launched += launch->end - launch->begin;
}

void dt__record_shared(dt_recorder_t *recorder, dt_stamp_t *launch) {
  dt__record_launched(recorder, launch);
  uint64_t own = 0;
  for (uint32_t k = 0; k < recorder->n_spans; k++) {
    launch->busy += recorder->spans[k].busy;
    own += recorder->spans[k].thread == recorder->thread ? recorder->spans[k].busy : 0;
  }
  uint64_t all = launch->end - launch->begin;
  launch->wait = all > own ? all - own : 0;
  for (uint32_t k = 0; k < recorder->n_spans; k++) {
    dt_span_t *span = &recorder->spans[k];
    if (!span->begin)
      continue;
    dt_stamp_t *share = add(recorder, DT_STAMP_SHARE);
    share->begin = span->begin;
    share->end = span->end;
    share->thread = span->thread;
    *span = (dt_span_t){0};
  }
}
