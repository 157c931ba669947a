// SPDX-License-Identifier: Apache-2.0
// Events: the order of work between sessions.
#include "runtime/exec/session_device.h"

#include "runtime/base/status.h"

struct dt_event_t {
  dt_cuda_gpu_t *gpu; // a reference; NULL: of a session on the CPU, whose work has always ended
  dt_cu_event_t handle;
};

static dt_status_t make_handle(dt_cuda_gpu_t *gpu, dt_cu_event_t *out) {
  DT_TRY(dt__cuda_enter(gpu->device));
  dt_cu_result_t result = gpu->device->cuda->event_create(out, DT_CU_EVENT_NO_TIMING);
  dt__cuda_leave(gpu->device);
  return dt__cuda_check(gpu->device, result, dt__cuda_symbol(DT_CUDA_SYM_event_create));
}

dt_status_t dt_event_create(dt_session_t *session, dt_event_t **out) {
  if (!session || !out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_event_create: %s: NULL", session ? "out" : "session");
  *out = NULL;
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "dt_event_create in a child after fork");
  dt_event_t *event = dt__calloc(1, sizeof(*event));
  if (!event)
    return DT_NO_MEMORY();
  if (session->device) {
    dt_cuda_gpu_t *gpu = session->device->gpu;
    dt_status_t status = make_handle(gpu, &event->handle);
    if (status) {
      dt__free(event);
      return dt__status_annotate(status, "dt_event_create");
    }
    event->gpu = gpu;
    dt__cuda_gpu_retain(gpu);
  }
  *out = event;
  return NULL;
}

static dt_status_t use(dt_session_t *session, dt_event_t *event,
                       dt_status_t (*run)(dt_session_t *session, dt_event_t *event)) {
  if (!session || !event)
    return DT_FAIL(DT_E_ARGUMENT, "%s: NULL", session ? "event" : "session");
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "called in a child after fork");
  DT_TRY(dt__session_begin(session));
  dt_status_t status = run(session, event);
  dt__session_end(session);
  return status;
}

static dt_status_t record(dt_session_t *session, dt_event_t *event) {
  dt_cuda_gpu_t *gpu = session->device ? session->device->gpu : NULL;
  if (gpu != event->gpu)
    return DT_FAIL(DT_E_ARGUMENT, "event: made on another device than the session's");
  if (!gpu)
    return NULL;
  DT_TRY(dt__cuda_enter(gpu->device));
  dt_cu_result_t result =
      gpu->device->cuda->event_record(event->handle, session->device->stream->handle);
  dt__cuda_leave(gpu->device);
  return dt__cuda_check(gpu->device, result, dt__cuda_symbol(DT_CUDA_SYM_event_record));
}

dt_status_t dt_event_record(dt_session_t *session, dt_event_t *event) {
  return dt__status_annotate(use(session, event, record), "dt_event_record");
}

static dt_status_t wait(dt_session_t *session, dt_event_t *event) {
  if (!event->gpu)
    return NULL;
  dt_cuda_gpu_t *gpu = session->device ? session->device->gpu : event->gpu;
  dt_cuda_sym_t sym = session->device ? DT_CUDA_SYM_stream_wait : DT_CUDA_SYM_event_synchronize;
  DT_TRY(dt__cuda_enter(gpu->device));
  const dt_cuda_t *cuda = gpu->device->cuda;
  dt_cu_result_t result = session->device
                              ? cuda->stream_wait(session->device->stream->handle, event->handle, 0)
                              : cuda->event_synchronize(event->handle);
  dt__cuda_leave(gpu->device);
  return dt__cuda_check(gpu->device, result, dt__cuda_symbol(sym));
}

dt_status_t dt_event_wait(dt_session_t *session, dt_event_t *event) {
  return dt__status_annotate(use(session, event, wait), "dt_event_wait");
}

dt_status_t dt_event_query(dt_event_t *event, bool *out_done) {
  if (!event || !out_done)
    return DT_FAIL(DT_E_ARGUMENT, "dt_event_query: %s: NULL", event ? "out_done" : "event");
  *out_done = !event->gpu;
  if (!event->gpu)
    return NULL;
  dt_cuda_device_t *device = event->gpu->device;
  DT_TRY(dt__cuda_enter(device));
  dt_cu_result_t result = device->cuda->event_query(event->handle);
  dt__cuda_leave(device);
  *out_done = result == DT_CU_SUCCESS;
  if (result == DT_CU_NOT_READY)
    return NULL;
  return dt__status_annotate(
      dt__cuda_check(device, result, dt__cuda_symbol(DT_CUDA_SYM_event_query)), "dt_event_query");
}

void dt_event_destroy(dt_event_t *event) {
  if (!event)
    return;
  if (event->gpu) {
    dt_status_t status = dt__cuda_enter(event->gpu->device);
    if (!status) {
      (void)event->gpu->device->cuda->event_destroy(event->handle);
      dt__cuda_leave(event->gpu->device);
    }
    dt_status_free(status); // a lost context has nothing to give back
    dt__cuda_gpu_release(event->gpu);
  }
  dt__free(event);
}
