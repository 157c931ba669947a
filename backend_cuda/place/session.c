// SPDX-License-Identifier: Apache-2.0
// Sessions on a GPU: their making and their end, waiting for them, and what they hold.
#include "backend_cuda/place/place.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"

// ---- Making ---------------------------------------------------------------------------------------

static void close_session(dt_session_t *session) {
  dt_cuda_session_t *own = session->own;
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
    dt__cuda_leave(gpu->device);
  }
  dt_status_free(status); // a lost context has nothing to give back
  dt__readbacks_fini(&own->readbacks, session);
  dt__free(own->graphs.key);
  if (own->pool)
    dt__graph_pool_leave(own->pool);
  dt__graph_pool_release(own->pool);
  dt__cuda_region_free(&own->scratch, gpu);
  dt__cuda_region_free(&own->staged_region, gpu);
  dt__staged_fini(&own->staged);
  if (own->stream)
    dt__cuda_stream_close(own->stream);
  dt__cuda_stream_release(own->stream);
  dt__cuda_gpu_release(gpu);
}

void dt__cuda_session_close(dt_session_t *session) {
  dt_cuda_session_t *own = session->own;
  if (dt__forked()) // a child has no device of its parent's
    return;
  dt__graph_tree_fini(&own->graphs.tree, own->store);
  close_session(session);
}

dt_status_t dt__cuda_session_open(dt_session_t *session, const dt_session_options_t *options) {
  dt_cuda_gpu_t *gpu = dt__cuda_gpu_of(session->home);
  dt_cuda_session_t *own = session->own;
  own->gpu = gpu;
  own->store = dt__cuda_graphs(session->runtime);
  dt__cuda_gpu_retain(gpu);
  DT_TRY(dt__graph_pool_create(gpu, &own->pool));
  DT_TRY(dt__cuda_stream_create(gpu, options->stream, &own->stream));
  DT_TRY(dt__cuda_enter(gpu->device));
  dt_status_t status = dt__records_init(&own->records, gpu->device);
  dt__cuda_leave(gpu->device);
  return status;
}

// ---- Waiting --------------------------------------------------------------------------------------

dt_status_t dt__cuda_session_settle(dt_session_t *session) {
  dt_cuda_session_t *own = session->own;
  DT_TRY(dt__cuda_stream_wait(own->stream));
  return dt__records_settle(&own->records);
}

dt_status_t dt__cuda_session_may_wait(const dt_session_t *session) {
  return dt__cuda_stream_check(dt__cuda_session(session)->stream, "a wait");
}

void *dt__cuda_session_stream(const dt_session_t *session) {
  return (void *)dt__cuda_session(session)->stream->handle;
}

// ---- Memory ---------------------------------------------------------------------------------------

uint64_t dt__cuda_session_bytes(const dt_session_t *session) {
  const dt_cuda_session_t *own = session->own;
  return own->pool->region.bytes + own->scratch.bytes + own->staged_region.bytes;
}

// False: it had as much before.
static bool note(dt_session_t *session) {
  const dt_cuda_session_t *own = session->own;
  _Atomic uint64_t *held = session->held;
  uint64_t host = own->staging.base ? 2 * DT_CUDA_STAGING_ROOM : 0;
  uint64_t device = dt__cuda_session_bytes(session);
  if (atomic_load_explicit(&held[DT_MEMORY_HOST], memory_order_relaxed) == host &&
      atomic_load_explicit(&held[DT_MEMORY_DEVICE], memory_order_relaxed) == device)
    return false;
  atomic_store_explicit(&held[DT_MEMORY_HOST], host, memory_order_relaxed);
  atomic_store_explicit(&held[DT_MEMORY_DEVICE], device, memory_order_relaxed);
  return true;
}

void dt__cuda_session_note(dt_session_t *session) {
  if (note(session))
    dt__budget_keep(&session->runtime->budget);
}

// Whether all that was queued on the session's stream has been done. Context current.
static bool is_idle(const dt_cuda_session_t *own) {
  const dt_cuda_t *cuda = own->gpu->device->cuda;
  dt_cu_stream_t stream = own->stream->handle;
  int capturing = 0;
  if (own->stream->lent &&
      (cuda->stream_capturing(stream, &capturing) != DT_CU_SUCCESS || capturing))
    return false; // to ask it anything else would end the capture
  return cuda->stream_query(stream) == DT_CU_SUCCESS;
}

void dt__cuda_session_give(dt_session_t *session) {
  dt_cuda_session_t *own = session->own;
  dt_status_t status = own->captured ? NULL : dt__cuda_enter(own->gpu->device);
  bool idle = false;
  if (!own->captured && !status) {
    idle = is_idle(own);
    dt__cuda_leave(own->gpu->device);
  }
  dt_status_free(status); // a lost context has nothing to give back
  if (idle) {
    dt__cuda_session_drop(own);
    (void)note(session);
  }
}
