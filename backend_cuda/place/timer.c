// SPDX-License-Identifier: Apache-2.0
// Profiles on a GPU: marks are events, made at their first use, and launches, graphs and copies of
// a recorded call stand between two of them. So no launch of such a call comes early.
#include "backend_cuda/place/place.h"

#include "runtime/base/status.h"
#include "runtime/exec/timing.h"

// ---- Marks ------------------------------------------------------------------------------------------

typedef struct cuda_timer_t {
  dt_cuda_gpu_t *gpu; // a reference
  uint32_t n;
  dt_cu_event_t events[]; // NULL: not made yet
} cuda_timer_t;

static void *open_timer(dt_session_t *session, uint32_t n) {
  cuda_timer_t *timer = dt__calloc(1, sizeof(*timer) + n * sizeof(timer->events[0]));
  if (!timer)
    return NULL;
  timer->gpu = dt__cuda_session(session)->gpu;
  timer->n = n;
  dt__cuda_gpu_retain(timer->gpu);
  return timer;
}

static bool enter(void *opaque) {
  const cuda_timer_t *timer = opaque;
  dt_status_t status = dt__cuda_enter(timer->gpu->device);
  bool entered = status == NULL;
  dt_status_free(status);
  return entered;
}

static void leave(void *opaque) { dt__cuda_leave(((cuda_timer_t *)opaque)->gpu->device); }

static void close_timer(void *opaque) {
  cuda_timer_t *timer = opaque;
  if (enter(timer)) { // a lost context has nothing to give back
    for (uint32_t k = 0; k < timer->n; k++)
      if (timer->events[k])
        (void)timer->gpu->device->cuda->event_destroy(timer->events[k]);
    leave(timer);
  }
  dt__cuda_gpu_release(timer->gpu);
  dt__free(timer);
}

static bool mark(void *opaque, dt_session_t *session, uint32_t index) {
  cuda_timer_t *timer = opaque;
  const dt_cuda_t *cuda = timer->gpu->device->cuda;
  dt_cu_event_t *event = &timer->events[index];
  if (!*event && cuda->event_create(event, 0) != DT_CU_SUCCESS)
    *event = NULL;
  return *event &&
         cuda->event_record(*event, dt__cuda_session(session)->stream->handle) == DT_CU_SUCCESS;
}

static bool wait(void *opaque, uint32_t index) {
  const cuda_timer_t *timer = opaque;
  return timer->gpu->device->cuda->event_synchronize(timer->events[index]) == DT_CU_SUCCESS;
}

static bool between(void *opaque, uint32_t from, uint32_t to, double *out_ns) {
  const cuda_timer_t *timer = opaque;
  float ms = 0;
  dt_cu_result_t result =
      timer->gpu->device->cuda->event_elapsed(&ms, timer->events[from], timer->events[to]);
  *out_ns = ms > 0 ? (double)ms * 1e6 : 0;
  return result == DT_CU_SUCCESS;
}

const dt_place_timer_t dt__cuda_timer = {.open = open_timer,
                                         .close = close_timer,
                                         .mark = mark,
                                         .enter = enter,
                                         .leave = leave,
                                         .wait = wait,
                                         .between = between};

void dt__cuda_rates(const dt_place_t *place, double *out_bytes_per_s, int64_t *out_near_bytes) {
  const dt_cuda_device_t *device = dt__cuda_gpu_of(place)->device;
  const dt_cuda_t *cuda = device->cuda;
  int khz = 0, bits = 0; // two transfers a clock, over so many bits; a driver need not say
  if (cuda->device_attribute(&khz, DT_CU_ATTR_MEMORY_KHZ, device->ordinal) != DT_CU_SUCCESS ||
      cuda->device_attribute(&bits, DT_CU_ATTR_MEMORY_BITS, device->ordinal) != DT_CU_SUCCESS)
    khz = bits = 0;
  *out_bytes_per_s = 2e3 * khz * bits / 8;
  *out_near_bytes = device->l2_bytes;
}

// ---- Calls ------------------------------------------------------------------------------------------

void dt__cuda_launch_recorded(dt_frame_t *frame, dt_kernel_fn_t fn, const uint64_t *words,
                              int64_t count, int64_t grain) {
  dt_cuda_frame_t *own = (dt_cuda_frame_t *)frame;
  dt_recorder_t *recorder = own->queued.call->recorder;
  const void *site = __builtin_return_address(0);
  if (own->graph.launch.status || count <= 0)
    return;
  own->graph.launch.follows = false;
  dt_stamp_t *stamp = dt__record_queue(recorder, DT_STAMP_LAUNCH, site, fn, frame->kernel);
  dt__cuda_launch(frame, fn, words, count, grain);
  dt__record_queued(recorder, stamp, 0);
  own->graph.launch.follows = false;
}

dt_status_t dt__cuda_record_begin(const dt_call_t *call) {
  const dt_cuda_session_t *own = call->session->own;
  int capturing = 0;
  if (own->stream->lent)
    DT_CUDA_TRY(own->gpu->device, stream_capturing, own->stream->handle, &capturing);
  if (capturing) // nobody may wait for what is captured
    call->recorder->queue = NULL;
  return NULL;
}
