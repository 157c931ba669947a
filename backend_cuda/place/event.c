// SPDX-License-Identifier: Apache-2.0
// Events of a GPU. They may outlive sessions and runtimes.
#include "backend_cuda/place/place.h"

#include "runtime/base/status.h"

typedef struct cuda_event_t {
  dt_event_t event;   // first
  dt_cuda_gpu_t *gpu; // a reference
  dt_cu_event_t handle;
} cuda_event_t;

static dt_status_t make_handle(dt_cuda_gpu_t *gpu, dt_cu_event_t *out) {
  DT_TRY(dt__cuda_enter(gpu->device));
  dt_cu_result_t result = gpu->device->cuda->event_create(out, DT_CU_EVENT_NO_TIMING);
  dt__cuda_leave(gpu->device);
  return dt__cuda_check(gpu->device, result, dt__cuda_symbol(DT_CUDA_SYM_event_create));
}

dt_status_t dt__cuda_event_make(dt_session_t *session, dt_event_t **out) {
  dt_cuda_gpu_t *gpu = dt__cuda_session(session)->gpu;
  cuda_event_t *own = dt__calloc(1, sizeof(*own));
  if (!own)
    return DT_NO_MEMORY();
  dt_status_t status = make_handle(gpu, &own->handle);
  if (status) {
    dt__free(own);
    return status;
  }
  own->gpu = gpu;
  dt__cuda_gpu_retain(gpu);
  *out = &own->event;
  return NULL;
}

dt_status_t dt__cuda_event_record(dt_session_t *session, dt_event_t *event) {
  const dt_cuda_session_t *there = dt__cuda_session(session);
  const cuda_event_t *own = (const cuda_event_t *)event;
  if (there->gpu != own->gpu)
    return DT_FAIL(DT_E_ARGUMENT, "event: made on another device than the session's");
  dt_cuda_device_t *device = own->gpu->device;
  DT_TRY(dt__cuda_enter(device));
  dt_cu_result_t result = device->cuda->event_record(own->handle, there->stream->handle);
  dt__cuda_leave(device);
  return dt__cuda_check(device, result, dt__cuda_symbol(DT_CUDA_SYM_event_record));
}

dt_status_t dt__cuda_event_wait(dt_session_t *session, dt_event_t *event) {
  const dt_cuda_session_t *there = dt__cuda_session(session);
  const cuda_event_t *own = (const cuda_event_t *)event;
  dt_cuda_device_t *device = there->gpu->device;
  DT_TRY(dt__cuda_enter(device));
  dt_cu_result_t result = device->cuda->stream_wait(there->stream->handle, own->handle, 0);
  dt__cuda_leave(device);
  return dt__cuda_check(device, result, dt__cuda_symbol(DT_CUDA_SYM_stream_wait));
}

// An event that waits are queued on may be destroyed at once: they stay.
dt_status_t dt__cuda_hand_over(dt_session_t *session, void *stream) {
  const dt_cuda_session_t *there = dt__cuda_session(session);
  dt_cuda_device_t *device = there->gpu->device;
  dt_cu_event_t event = NULL;
  DT_TRY(make_handle(there->gpu, &event));
  DT_TRY(dt__cuda_enter(device));
  uint32_t symbol = DT_CUDA_SYM_event_record;
  dt_cu_result_t result = device->cuda->event_record(event, there->stream->handle);
  if (result == DT_CU_SUCCESS) {
    symbol = DT_CUDA_SYM_stream_wait;
    result = device->cuda->stream_wait(stream, event, 0);
  }
  (void)device->cuda->event_destroy(event);
  dt__cuda_leave(device);
  return dt__cuda_check(device, result, dt__cuda_symbol(symbol));
}

dt_status_t dt__cuda_event_settle(dt_event_t *event) {
  const cuda_event_t *own = (const cuda_event_t *)event;
  dt_cuda_device_t *device = own->gpu->device;
  DT_TRY(dt__cuda_enter(device));
  dt_cu_result_t result = device->cuda->event_synchronize(own->handle);
  dt__cuda_leave(device);
  return dt__cuda_check(device, result, dt__cuda_symbol(DT_CUDA_SYM_event_synchronize));
}

dt_status_t dt__cuda_event_query(dt_event_t *event, bool *out_done) {
  const cuda_event_t *own = (const cuda_event_t *)event;
  dt_cuda_device_t *device = own->gpu->device;
  DT_TRY(dt__cuda_enter(device));
  dt_cu_result_t result = device->cuda->event_query(own->handle);
  dt__cuda_leave(device);
  *out_done = result == DT_CU_SUCCESS;
  if (result == DT_CU_NOT_READY)
    return NULL;
  return dt__cuda_check(device, result, dt__cuda_symbol(DT_CUDA_SYM_event_query));
}

void dt__cuda_event_destroy(dt_event_t *event) {
  cuda_event_t *own = (cuda_event_t *)event;
  dt_status_t status = dt__cuda_enter(own->gpu->device);
  if (!status) {
    (void)own->gpu->device->cuda->event_destroy(own->handle);
    dt__cuda_leave(own->gpu->device);
  }
  dt_status_free(status); // a lost context has nothing to give back
  dt__cuda_gpu_release(own->gpu);
  dt__free(own);
}
