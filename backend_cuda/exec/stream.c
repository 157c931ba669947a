// SPDX-License-Identifier: Apache-2.0
// Streams: ones that callers lend and ones made here, known to their GPU while they are open.
#include "backend_cuda/exec/gpu.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"

static void link_stream(dt_cuda_stream_t *stream) {
  dt_cuda_gpu_t *gpu = stream->gpu;
  dt__mutex_lock(&gpu->streams_mutex);
  stream->next = gpu->streams;
  stream->link = &gpu->streams;
  if (stream->next)
    stream->next->link = &stream->next;
  gpu->streams = stream;
  stream->open = true;
  dt__mutex_unlock(&gpu->streams_mutex);
}

// streams_mutex held.
static void unlink_stream(dt_cuda_stream_t *stream) {
  if (!stream->open)
    return;
  *stream->link = stream->next;
  if (stream->next)
    stream->next->link = stream->link;
  stream->open = false;
}

static dt_status_t check_capture(const dt_cuda_stream_t *stream, const char *what) {
  int capturing = 0;
  if (!stream->lent)
    return NULL;
  DT_CUDA_TRY(stream->gpu->device, stream_capturing, stream->handle, &capturing);
  if (capturing)
    return DT_FAIL(DT_E_UNSUPPORTED,
                   "the caller's stream is being captured, and %s would need memory or a wait; end "
                   "the capture first",
                   what);
  return NULL;
}

dt_status_t dt__cuda_stream_check(const dt_cuda_stream_t *stream, const char *what) {
  if (!stream->lent)
    return NULL;
  DT_TRY(dt__cuda_enter(stream->gpu->device));
  dt_status_t status = check_capture(stream, what);
  dt__cuda_leave(stream->gpu->device);
  return status;
}

static dt_status_t open_stream(dt_cuda_stream_t *stream, dt_cu_stream_t lent) {
  stream->handle = lent;
  stream->lent = lent != NULL;
  if (lent)
    return check_capture(stream, "a session");
  DT_CUDA_TRY(stream->gpu->device, stream_create, &stream->handle, DT_CU_STREAM_NON_BLOCKING);
  return NULL;
}

dt_status_t dt__cuda_stream_create(dt_cuda_gpu_t *gpu, dt_cu_stream_t lent,
                                   dt_cuda_stream_t **out) {
  *out = NULL;
  dt_cuda_stream_t *stream = dt__calloc(1, sizeof(*stream));
  if (!stream)
    return DT_NO_MEMORY();
  atomic_init(&stream->refs, 1);
  stream->gpu = gpu;
  dt_status_t status = dt__cuda_enter(gpu->device);
  if (!status) {
    status = open_stream(stream, lent);
    dt__cuda_leave(gpu->device);
  }
  if (status) {
    dt__free(stream);
    return status;
  }
  dt__cuda_gpu_retain(gpu);
  link_stream(stream);
  *out = stream;
  return NULL;
}

void dt__cuda_stream_retain(dt_cuda_stream_t *stream) {
  (void)atomic_fetch_add_explicit(&stream->refs, 1, memory_order_relaxed);
}

void dt__cuda_stream_close(dt_cuda_stream_t *stream) {
  if (!stream->lent)
    return;
  dt_cuda_gpu_t *gpu = stream->gpu;
  dt_status_t status = dt__cuda_enter(gpu->device);
  dt__mutex_lock(&gpu->streams_mutex);
  unlink_stream(stream);
  stream->handle = gpu->own;
  stream->lent = false;
  if (!status)
    dt__cuda_memory_flush(stream);
  dt__mutex_unlock(&gpu->streams_mutex);
  if (!status)
    dt__cuda_leave(gpu->device);
  dt_status_free(status);
}

void dt__cuda_stream_release(dt_cuda_stream_t *stream) {
  if (!stream || atomic_fetch_sub_explicit(&stream->refs, 1, memory_order_acq_rel) != 1)
    return;
  dt_cuda_gpu_t *gpu = stream->gpu;
  dt_status_t status = dt__cuda_enter(gpu->device);
  dt__mutex_lock(&gpu->streams_mutex);
  bool own = !stream->lent && stream->handle != gpu->own;
  if (!status)
    dt__cuda_memory_flush(stream);
  unlink_stream(stream);
  dt__mutex_unlock(&gpu->streams_mutex);
  if (!status) {
    if (own)
      (void)gpu->device->cuda->stream_destroy(stream->handle); // lets its work end
    dt__cuda_leave(gpu->device);
  }
  dt_status_free(status); // a lost context has nothing to give back
  dt__free(stream);
  dt__cuda_gpu_release(gpu);
}

static dt_status_t wait(const dt_cuda_stream_t *stream) {
  DT_TRY(check_capture(stream, "a wait"));
  DT_CUDA_TRY(stream->gpu->device, stream_synchronize, stream->handle);
  return NULL;
}

dt_status_t dt__cuda_stream_wait(dt_cuda_stream_t *stream) {
  DT_TRY(dt__cuda_enter(stream->gpu->device));
  dt_status_t status = wait(stream);
  dt__cuda_leave(stream->gpu->device);
  return status;
}
