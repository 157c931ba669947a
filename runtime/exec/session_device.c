// SPDX-License-Identifier: Apache-2.0
// Sessions on a device: their making and their end, and waiting for them.
#include "runtime/exec/session_device.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"

// ---- Making ---------------------------------------------------------------------------------------

static void device_free(dt_session_device_t *own) {
  dt_cuda_gpu_t *gpu = own->gpu;
  if (own->stream) {
    dt_status_t status = dt__cuda_stream_wait(own->stream);
    if (!status)
      status = dt__records_settle(&own->records);
    if (status)
      DT_LOG(DT_LOG_EXEC, 1, "a session ends with a failure that nobody asked for: %s",
             dt_status_message(status));
    dt_status_free(status);
  }
  dt__records_drop(&own->records);
  dt_status_t status = dt__cuda_enter(gpu->device);
  if (!status) {
    dt__records_fini(&own->records, gpu->device);
    dt__cuda_staging_fini(&own->staging, gpu->device);
    if (own->item_values)
      (void)gpu->device->cuda->host_free(own->item_values);
    if (own->flag)
      (void)gpu->device->cuda->host_free(own->flag);
    dt__cuda_leave(gpu->device);
  }
  dt_status_free(status); // a lost context has nothing to give back
  dt__free(own->item_addresses);
  dt__free(own->graphs.key);
  if (own->pool)
    dt__graph_pool_leave(own->pool);
  dt__graph_pool_release(own->pool);
  dt__cuda_region_free(&own->scratch, gpu);
  dt__staged_fini(&own->staged, gpu);
  if (own->stream)
    dt__cuda_stream_close(own->stream);
  dt__cuda_stream_release(own->stream);
  dt__cuda_gpu_release(gpu);
  dt__free(own);
}

void dt__session_device_destroy(dt_session_device_t *own) {
  if (own)
    device_free(own);
}

dt_status_t dt__session_device_create(dt_runtime_t *runtime, const dt_session_options_t *options,
                                      dt_session_device_t **out) {
  dt_cuda_gpu_t *gpu = NULL;
  DT_TRY(dt__runtime_device(runtime, options->ordinal, &gpu));
  dt_session_device_t *own = dt__calloc(1, sizeof(*own));
  if (!own)
    return DT_NO_MEMORY();
  own->gpu = gpu;
  dt__cuda_gpu_retain(gpu);
  dt_status_t status = dt__graph_pool_create(gpu, &own->pool);
  if (!status)
    status = dt__cuda_stream_create(gpu, options->stream, &own->stream);
  if (!status)
    status = dt__cuda_enter(gpu->device);
  if (!status) {
    status = dt__records_init(&own->records, gpu->device);
    dt__cuda_leave(gpu->device);
  }
  if (status) {
    device_free(own);
    return status;
  }
  *out = own;
  return NULL;
}

// ---- Waiting --------------------------------------------------------------------------------------

dt_status_t dt__session_settle(dt_session_t *session) {
  dt_session_device_t *own = session->device;
  if (!own)
    return NULL;
  DT_TRY(dt__cuda_stream_wait(own->stream));
  return dt__records_settle(&own->records);
}

dt_status_t dt_session_wait(dt_session_t *session) {
  if (!session)
    return DT_FAIL(DT_E_ARGUMENT, "dt_session_wait: session: NULL");
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "dt_session_wait in a child after fork");
  dt_status_t status = dt__session_begin(session);
  if (!status) {
    status = dt__session_settle(session);
    dt__session_end(session);
    if (atomic_load_explicit(&session->runtime->garbage, memory_order_relaxed))
      dt__runtime_collect(session->runtime);
  }
  return dt__status_annotate(status, "dt_session_wait");
}

void *dt_session_stream(const dt_session_t *session) {
  return session && session->device ? (void *)session->device->stream->handle : NULL;
}

// ---- Memory ---------------------------------------------------------------------------------------

uint64_t dt__session_device_bytes(const dt_session_device_t *own) {
  return own->pool->region.bytes + own->scratch.bytes + own->staged.region.bytes;
}

// False: it had as much before.
static bool note(dt_session_t *session) {
  const dt_session_device_t *own = session->device;
  _Atomic uint64_t *held = session->held;
  uint64_t host = own->staging.base ? 2 * DT_CUDA_STAGING_ROOM : 0;
  uint64_t device = dt__session_device_bytes(own);
  if (atomic_load_explicit(&held[DT_MEMORY_HOST], memory_order_relaxed) == host &&
      atomic_load_explicit(&held[DT_MEMORY_DEVICE], memory_order_relaxed) == device)
    return false;
  atomic_store_explicit(&held[DT_MEMORY_HOST], host, memory_order_relaxed);
  atomic_store_explicit(&held[DT_MEMORY_DEVICE], device, memory_order_relaxed);
  return true;
}

void dt__session_device_note(dt_session_t *session) {
  if (note(session))
    dt__budget_keep(&session->runtime->budget);
}

// Whether all that was queued on the session's stream has been done. Context current.
static bool is_idle(const dt_session_device_t *own) {
  const dt_cuda_t *cuda = own->gpu->device->cuda;
  dt_cu_stream_t stream = own->stream->handle;
  int capturing = 0;
  if (own->stream->lent &&
      (cuda->stream_capturing(stream, &capturing) != DT_CU_SUCCESS || capturing))
    return false; // to ask it anything else would end the capture
  return cuda->stream_query(stream) == DT_CU_SUCCESS;
}

void dt__session_device_give(dt_session_t *session) {
  dt_session_device_t *own = session->device;
  dt_status_t status = own->captured ? NULL : dt__cuda_enter(own->gpu->device);
  bool idle = false;
  if (!own->captured && !status) {
    idle = is_idle(own);
    dt__cuda_leave(own->gpu->device);
  }
  dt_status_free(status); // a lost context has nothing to give back
  if (idle) {
    dt__session_device_trim(own);
    (void)note(session);
  }
}
