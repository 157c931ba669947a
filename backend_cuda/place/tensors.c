// SPDX-License-Identifier: Apache-2.0
// Memory of a session on a GPU: tensors, copies between there and the host, pinned memory.
#include "backend_cuda/place/place.h"

#include "runtime/base/status.h"

// ---- Making ---------------------------------------------------------------------------------------

dt_status_t dt__cuda_memory(const dt_place_t *place, dt_session_t *session, size_t bytes,
                            dt_storage_t **out) {
  dt_cuda_stream_t *stream = session ? dt__cuda_session(session)->stream : NULL;
  return dt__cuda_memory_create(dt__cuda_gpu_of(place), stream, bytes, out);
}

// ---- Copying --------------------------------------------------------------------------------------

static bool is_pinned(const dt_cuda_t *cuda, void *host) {
  dt_cu_ptr_t device = 0;
  return cuda->host_device_ptr(&device, host, 0) == DT_CU_SUCCESS;
}

// Context current.
static dt_status_t queue_copy(dt_session_t *session, dt_device_t from_place, void *from,
                              dt_device_t to_place, void *to, size_t bytes) {
  dt_cuda_session_t *own = session->own;
  dt_cuda_device_t *device = own->gpu->device;
  dt_cu_stream_t stream = own->stream->handle;
  if (from_place != DT_CPU && to_place != DT_CPU) {
    DT_CUDA_TRY(device, copy_on_device, dt__cuda_address(to), dt__cuda_address(from), bytes,
                stream);
    return NULL;
  }
  void *host = from_place == DT_CPU ? from : to;
  if (is_pinned(device->cuda, host)) {
    if (host == from)
      DT_CUDA_TRY(device, copy_to_device, dt__cuda_address(to), from, bytes, stream);
    else
      DT_CUDA_TRY(device, copy_to_host, to, dt__cuda_address(from), bytes, stream);
    return NULL;
  }
  DT_TRY(dt__cuda_stream_check(own->stream, "a copy of memory that is not pinned"));
  if (host == from)
    return dt__cuda_stage_in(&own->staging, device, session->runtime->pool, stream,
                             dt__cuda_address(to), from, bytes);
  return dt__cuda_stage_out(&own->staging, device, stream, to, dt__cuda_address(from), bytes);
}

dt_status_t dt__cuda_copy(dt_session_t *session, dt_device_t from_place, void *from,
                          dt_device_t to_place, void *to, size_t bytes) {
  dt_cuda_session_t *own = session->own;
  DT_TRY(dt__cuda_enter(own->gpu->device));
  dt_status_t status = queue_copy(session, from_place, from, to_place, to, bytes);
  dt__cuda_session_note(session);
  dt__cuda_leave(own->gpu->device);
  return status;
}

// ---- Pinned memory --------------------------------------------------------------------------------

dt_status_t dt__cuda_host_alloc(dt_session_t *session, size_t bytes, void **out) {
  dt_cuda_session_t *own = session->own;
  dt_cuda_device_t *device = own->gpu->device;
  DT_TRY(dt__cuda_stream_check(own->stream, "pinned memory"));
  DT_TRY(dt__cuda_enter(device));
  dt_status_t status =
      dt__cuda_check(device, device->cuda->host_alloc(out, bytes, DT_CU_HOST_PORTABLE),
                     dt__cuda_symbol(DT_CUDA_SYM_host_alloc));
  dt__cuda_leave(device);
  return status;
}

void dt__cuda_host_free(dt_session_t *session, void *ptr) {
  dt_cuda_device_t *device = dt__cuda_session(session)->gpu->device;
  dt_status_t status = dt__cuda_enter(device);
  if (!status) {
    (void)device->cuda->host_free(ptr);
    dt__cuda_leave(device);
  }
  dt_status_free(status);
}
