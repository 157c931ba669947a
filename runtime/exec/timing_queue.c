// SPDX-License-Identifier: Apache-2.0
// See timing_queue.h. The device's clock is that of its events, from one to the next. Where it
// stands by the host's is not known, but no piece begins before it was queued: the latest such
// bound is right to some microseconds, as soon as one piece came upon an idle queue.
#include "runtime/exec/timing_queue.h"

#include "runtime/base/process.h"
#include "runtime/exec/runtime.h"
#include "runtime/exec/session.h"

#define MARKS (2 * DT_MOST_PIECES)

static uint32_t mark_of(uint64_t piece, bool behind) {
  return 2 * (uint32_t)(piece % DT_MOST_PIECES) + behind;
}

static dt_timed_piece_t *piece_at(dt_timed_queue_t *queue, uint64_t number) {
  return &queue->pieces[number % DT_MOST_PIECES];
}

// ---- Life -------------------------------------------------------------------------------------------

void dt__timed_queue_release(dt_timed_queue_t *queue) {
  if (!queue || atomic_fetch_sub_explicit(&queue->refs, 1, memory_order_acq_rel) != 1)
    return;
  dt__mutex_fini(&queue->mutex);
  dt__free(queue);
}

static dt_timed_queue_t *make(dt_session_t *session, dt_profile_t *profile) {
  const dt_place_timer_t *timer = session->home->kind->timer;
  dt_timed_queue_t *queue = dt__calloc(1, sizeof(*queue));
  if (!queue)
    return NULL;
  dt_status_t status = dt__mutex_init(&queue->mutex, DT_RANK_TIMER);
  queue->own = status ? NULL : timer->open(session, MARKS);
  if (!queue->own) {
    if (!status)
      dt__mutex_fini(&queue->mutex);
    dt_status_free(status);
    dt__free(queue);
    return NULL;
  }
  atomic_init(&queue->refs, 2);
  queue->timer = timer;
  queue->profile = profile;
  queue->place = session->place;
  dt__mutex_lock(&profile->mutex);
  queue->number = ++profile->n_queues;
  queue->next = profile->queues;
  profile->queues = queue;
  dt__mutex_unlock(&profile->mutex);
  return queue;
}

dt_timed_queue_t *dt__timed_queue_of(dt_session_t *session, dt_recorder_t *recorder) {
  dt_timed_queue_t *queue = recorder->kept;
  if (queue && (atomic_load_explicit(&queue->ended, memory_order_acquire) ||
                queue->profile != recorder->profile)) {
    dt__timed_queue_release(queue);
    queue = NULL;
  }
  if (!queue && session->home->kind->timer)
    queue = make(session, recorder->profile);
  recorder->kept = queue;
  return queue;
}

static void end_queue(dt_timed_queue_t *queue) {
  if (!dt__forked()) // a child has no device of its parent's
    queue->timer->close(queue->own);
  atomic_store_explicit(&queue->ended, true, memory_order_release);
  dt__timed_queue_release(queue);
}

void dt__timed_queues_end(dt_profile_t *profile) {
  for (dt_timed_queue_t *queue = profile->queues, *next; queue; queue = next) {
    next = queue->next;
    end_queue(queue);
  }
  profile->queues = NULL;
}

// ---- Adding up --------------------------------------------------------------------------------------

// When the piece began and ended, by the device's clock.
typedef struct times_t {
  double begin, end;
} times_t;

static void count_launch(dt_timed_t *timed, const dt_timed_piece_t *piece, uint64_t ns) {
  timed->device.kernels_ns += ns;
  if (!piece->site)
    return;
  dt_timed_site_t *site = &timed->sites[piece->site - 1];
  site->launches++;
  site->ticks += ns;
  site->least = ns < site->least ? ns : site->least;
  site->most = ns > site->most ? ns : site->most;
  if (piece->link)
    timed->shapes[piece->link - 1].launches[piece->site - 1]++;
}

static void count_copy(dt_profile_copies_t *copies, const dt_timed_piece_t *piece, uint64_t ns) {
  copies->copies++;
  copies->bytes += piece->bytes;
  copies->total_ns += ns;
}

static uint64_t tick_at(const dt_timed_queue_t *queue, double at_ns, double tick_ns) {
  return queue->profile->begin.tick + (uint64_t)((at_ns + queue->ahead_ns) / tick_ns);
}

// The profile's mutex held. `gap`: since the piece before.
static void count(dt_timed_queue_t *queue, const dt_timed_piece_t *piece, times_t at, double gap,
                  double tick_ns) {
  dt_timed_t *timed = piece->timed;
  dt_timed_device_t *device = &timed->device;
  double queued = (double)(piece->queued - queue->profile->begin.tick) * tick_ns;
  uint64_t ns = (uint64_t)(at.end - at.begin + 0.5);
  if (queued - at.begin > queue->ahead_ns)
    queue->ahead_ns = queued - at.begin;
  if (piece->first) {
    device->calls++;
    device->behind_ns += (uint64_t)(at.begin + queue->ahead_ns - queued);
  } else {
    device->idle_ns += (uint64_t)(gap + 0.5);
    device->total_ns += (uint64_t)(gap + 0.5);
  }
  device->total_ns += ns;
  if (piece->kind == DT_STAMP_TO_DEVICE)
    count_copy(&device->to_device, piece, ns);
  else if (piece->kind == DT_STAMP_FROM_DEVICE)
    count_copy(&device->from_device, piece, ns);
  else
    count_launch(timed, piece, ns);
  dt__profile_put(queue->profile,
                  &(dt_timed_event_t){.begin = tick_at(queue, at.begin, tick_ns),
                                      .end = tick_at(queue, at.end, tick_ns),
                                      .thread = (uint64_t)(uintptr_t)queue,
                                      .of = timed,
                                      .kind = (uint32_t)piece->kind,
                                      .index = piece->site ? piece->site - 1 : UINT32_MAX});
}

// False: the device does not say.
static bool time_piece(dt_timed_queue_t *queue, uint64_t number, double *out_gap, times_t *out) {
  const dt_timed_piece_t *piece = piece_at(queue, number);
  uint32_t front = mark_of(number, false), behind = mark_of(number, true);
  double gap = 0, ns = 0;
  if (queue->chained && !queue->timer->between(queue->own, queue->last, front, &gap))
    return false;
  if (!piece->cut && !queue->timer->between(queue->own, front, behind, &ns))
    return false;
  *out_gap = gap;
  *out = (times_t){queue->at_ns + gap, queue->at_ns + gap + ns};
  queue->chained = true;
  queue->last = piece->cut ? front : behind;
  queue->at_ns = out->end;
  return true;
}

static void take_piece(dt_timed_queue_t *queue, uint64_t number, bool passed, double tick_ns) {
  dt_timed_piece_t *piece = piece_at(queue, number);
  double gap = 0;
  times_t at;
  bool good = passed && time_piece(queue, number, &gap, &at);
  if (!good)
    queue->chained = false;
  if (!piece->timed)
    return;
  dt__mutex_lock(&queue->profile->mutex);
  if (good && !piece->cut)
    count(queue, piece, at, gap, tick_ns);
  else
    piece->timed->device.untimed++;
  dt__mutex_unlock(&queue->profile->mutex);
}

// The queue's mutex held. Pieces before `to`, which are done with.
static void take(dt_timed_queue_t *queue, uint64_t to) {
  uint64_t begin = atomic_load_explicit(&queue->begin, memory_order_relaxed);
  if (begin == to)
    return;
  double tick_ns = dt__ticks_ns(&queue->profile->begin);
  bool entered = queue->timer->enter(queue->own);
  bool passed =
      entered && queue->timer->wait(queue->own, mark_of(to - 1, !piece_at(queue, to - 1)->cut));
  for (uint64_t k = begin; k < to; k++)
    take_piece(queue, k, passed, tick_ns);
  if (entered)
    queue->timer->leave(queue->own);
  atomic_store_explicit(&queue->begin, to, memory_order_release);
}

void dt__timed_queues_take(dt_profile_t *profile) {
  dt__mutex_lock(&profile->mutex);
  dt_timed_queue_t *queue = profile->queues; // the list grows in front only
  dt__mutex_unlock(&profile->mutex);
  for (; queue; queue = queue->next) {
    dt__mutex_lock(&queue->mutex);
    take(queue, atomic_load_explicit(&queue->done, memory_order_acquire));
    dt__mutex_unlock(&queue->mutex);
  }
}

// ---- Pieces -----------------------------------------------------------------------------------------

void dt__timed_queue_done(dt_recorder_t *recorder) {
  dt_timed_queue_t *queue = recorder->queue;
  if (queue)
    atomic_store_explicit(&queue->done, queue->end, memory_order_release);
}

// The place of the piece before the first one stays as it is, since times are counted from there.
static bool has_room(const dt_timed_queue_t *queue) {
  return queue->end - atomic_load_explicit(&queue->begin, memory_order_acquire) <
         DT_MOST_PIECES - 1;
}

// Half of the pieces go, so that the device still has the others to do.
static void make_room(dt_recorder_t *recorder) {
  dt_timed_queue_t *queue = recorder->queue;
  dt__profile_take(recorder->profile, recorder);
  dt__timed_queue_done(recorder);
  dt__mutex_lock(&queue->mutex);
  uint64_t begin = atomic_load_explicit(&queue->begin, memory_order_relaxed);
  uint64_t half = queue->end - DT_MOST_PIECES / 2;
  take(queue, half > begin ? half : begin);
  dt__mutex_unlock(&queue->mutex);
}

static dt_timed_piece_t *begin_piece(dt_recorder_t *recorder, dt_stamp_kind_t kind) {
  dt_timed_queue_t *queue = recorder->queue;
  if (queue && !has_room(queue))
    make_room(recorder);
  uint64_t queued = dt__ticks_now(recorder->counter);
  if (!queue || !queue->timer->mark(queue->own, recorder->session, mark_of(queue->end, false))) {
    recorder->untimed++;
    return NULL;
  }
  dt_timed_piece_t *piece = piece_at(queue, queue->end++);
  *piece = (dt_timed_piece_t){.kind = kind, .first = recorder->fresh, .queued = queued};
  recorder->fresh = false;
  return piece;
}

dt_stamp_t *dt__record_queue(dt_recorder_t *recorder, dt_stamp_kind_t kind, const void *site,
                             dt_kernel_fn_t fn, int64_t kernel) {
  dt_timed_piece_t *piece = begin_piece(recorder, kind);
  dt_stamp_t *stamp = dt__record_launch(recorder, site, fn, kernel);
  stamp->kind = DT_STAMP_QUEUED;
  stamp->piece = piece;
  return stamp;
}

void dt__record_queued(dt_recorder_t *recorder, dt_stamp_t *stamp, uint64_t bytes) {
  dt_timed_queue_t *queue = recorder->queue;
  dt_timed_piece_t *piece = stamp->piece;
  if (piece) {
    piece->bytes = bytes;
    piece->cut = !queue->timer->mark(queue->own, recorder->session, mark_of(queue->end - 1, true));
  }
  dt__record_launched(recorder, stamp);
}
