// SPDX-License-Identifier: Apache-2.0
// See launch.h. Grid items are independent, so a grid may be divided in any way.
#include "runtime/exec/launch.h"

#include "runtime/base/control.h"
#include "runtime/exec/timing.h"

typedef struct launch_t {
  const dt_launch_frame_t *frame;
  dt_launch_record_t *record;
  dt_kernel_fn_t fn;
  const uint64_t *words;
} launch_t;

static void run_range(void *opaque, int64_t begin, int64_t end, uint32_t worker) {
  const launch_t *launch = opaque;
  launch->fn(launch->words, begin, end,
             launch->frame->scratch + worker * launch->frame->scratch_stride, launch->record);
}

// As many chunks as threads may work: none is given more than one.
static int64_t grain_of(const dt_launch_frame_t *frame, int64_t count, int64_t grain) {
  int64_t most = frame->threads;
  return most && count / most >= grain ? (count + most - 1) / most : grain;
}

void dt__launch(dt_frame_t *frame, dt_kernel_fn_t fn, const uint64_t *words, int64_t count,
                int64_t grain) {
  const dt_launch_frame_t *outer = (const dt_launch_frame_t *)frame;
  // The pool would do the same; small kernels are worth the shorter way.
  if (count <= grain) {
    fn(words, 0, count, outer->scratch, &frame->record);
    return;
  }
  launch_t launch = {.frame = outer, .record = &frame->record, .fn = fn, .words = words};
  dt__pool_run_at(outer->pool, outer->level, count, grain_of(outer, count, grain), run_range,
                  &launch);
}

// Pieces are grown while they are soon done, so that the time between two looks stays near to this
// where items are alike; grid items are independent, so pieces mean what the whole does.
#define PIECE_NS 1000000

static int64_t next_size(int64_t size, int64_t took_ns, int64_t most) {
  if (took_ns < PIECE_NS / 2 && size < most)
    return size * (took_ns < PIECE_NS / 16 ? 8 : 2);
  return took_ns > 2 * PIECE_NS && size > 1 ? size / 2 : size;
}

static void run_pieces(void *opaque, int64_t begin, int64_t end, uint32_t worker) {
  const launch_t *launch = opaque;
  dt_control_t *control = launch->frame->frame.control;
  int64_t size = 1, before = 0, now = 0;
  if (dt__control_look(control, &before))
    return;
  for (int64_t at = begin; at < end;) {
    int64_t to = end - at > size ? at + size : end;
    run_range(opaque, at, to, worker);
    at = to;
    if (at == end || dt__control_look(control, &now))
      return;
    size = next_size(size, now - before, end - begin);
    before = now;
  }
}

void dt__launch_controlled(dt_frame_t *frame, dt_kernel_fn_t fn, const uint64_t *words,
                           int64_t count, int64_t grain) {
  const dt_launch_frame_t *outer = (const dt_launch_frame_t *)frame;
  launch_t launch = {.frame = outer, .record = &frame->record, .fn = fn, .words = words};
  if (count <= grain)
    run_pieces(&launch, 0, count, 0);
  else
    dt__pool_run_at(outer->pool, outer->level, count, grain_of(outer, count, grain), run_pieces,
                    &launch);
}

// ---- Launches that are noted ------------------------------------------------------------------------

typedef struct noted_t {
  launch_t launch; // first
  dt_range_fn_t run;
} noted_t;

static void run_noted(void *opaque, int64_t begin, int64_t end, uint32_t worker) {
  const noted_t *noted = opaque;
  const dt_recorder_t *recorder = noted->launch.frame->recorder;
  dt_span_t *span = &recorder->spans[worker];
  uint64_t at = dt__ticks_now(recorder->counter);
  noted->run(opaque, begin, end, worker);
  uint64_t done = dt__ticks_now(recorder->counter);
  if (!span->begin) {
    span->begin = at;
    span->thread = dt__thread_id();
  }
  span->end = done;
  span->busy += done - at;
}

void dt__launch_recorded(dt_frame_t *frame, dt_kernel_fn_t fn, const uint64_t *words, int64_t count,
                         int64_t grain) {
  const dt_launch_frame_t *outer = (const dt_launch_frame_t *)frame;
  dt_recorder_t *recorder = outer->recorder;
  dt_stamp_t *stamp = dt__record_launch(recorder, __builtin_return_address(0), fn, frame->kernel);
  if (outer->told || count <= grain) {
    (outer->told      ? dt__launch_told
     : frame->control ? dt__launch_controlled
                      : dt__launch)(frame, fn, words, count, grain);
    dt__record_launched(recorder, stamp);
    return;
  }
  noted_t noted = {{.frame = outer, .record = &frame->record, .fn = fn, .words = words},
                   frame->control ? run_pieces : run_range};
  dt__pool_run_at(outer->pool, outer->level, count, grain_of(outer, count, grain), run_noted,
                  &noted);
  dt__record_shared(recorder, stamp);
}
