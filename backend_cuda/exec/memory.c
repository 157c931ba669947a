// SPDX-License-Identifier: Apache-2.0
// Device memory as storages. Nothing here waits for the device: memory is freed in the order of the
// stream it belongs to, or after an event on every stream.
#include "backend_cuda/exec/gpu.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"

typedef struct dt_cuda_memory_t {
  dt_storage_t storage;          // first
  dt_cuda_gpu_t *gpu;            // a reference
  dt_cuda_stream_t *stream;      // a reference; NULL: whatever stream used it
  struct dt_cuda_memory_t *next; // while it waits for the end of a capture
} dt_cuda_memory_t;

// The GPU's own stream goes on after all that is queued on the others by now. Where that cannot be
// said, it is waited for. Context current, streams_mutex held.
static void fence(dt_cuda_gpu_t *gpu) {
  const dt_cuda_t *cuda = gpu->device->cuda;
  for (dt_cuda_stream_t *stream = gpu->streams; stream; stream = stream->next) {
    int capturing = 0;
    dt_cu_event_t event = NULL;
    if (stream->lent && cuda->stream_capturing(stream->handle, &capturing) == DT_CU_SUCCESS &&
        capturing)
      continue; // nothing of it runs
    bool good = cuda->event_create(&event, DT_CU_EVENT_NO_TIMING) == DT_CU_SUCCESS &&
                cuda->event_record(event, stream->handle) == DT_CU_SUCCESS &&
                cuda->stream_wait(gpu->own, event, 0) == DT_CU_SUCCESS;
    if (!good)
      (void)cuda->stream_synchronize(stream->handle);
    if (event)
      (void)cuda->event_destroy(event);
  }
}

// Context current.
static dt_status_t mark(dt_cuda_gpu_t *gpu, dt_cu_event_t *out) {
  dt_cu_event_t event = NULL;
  DT_CUDA_TRY(gpu->device, event_create, &event, DT_CU_EVENT_NO_TIMING);
  dt__mutex_lock(&gpu->streams_mutex);
  fence(gpu);
  dt_cu_result_t result = gpu->device->cuda->event_record(event, gpu->own);
  dt__mutex_unlock(&gpu->streams_mutex);
  if (result != DT_CU_SUCCESS)
    (void)gpu->device->cuda->event_destroy(event);
  else
    *out = event;
  return dt__cuda_check(gpu->device, result, dt__cuda_symbol(DT_CUDA_SYM_event_record));
}

dt_status_t dt__cuda_gpu_mark(dt_cuda_gpu_t *gpu, dt_cu_event_t *out) {
  *out = NULL;
  DT_TRY(dt__cuda_enter(gpu->device));
  dt_status_t status = mark(gpu, out);
  dt__cuda_leave(gpu->device);
  return status;
}

// Context current, streams_mutex held. False: the stream is being captured.
static bool free_now(const dt_cuda_memory_t *memory) {
  dt_cuda_gpu_t *gpu = memory->gpu;
  const dt_cuda_t *cuda = gpu->device->cuda;
  dt_cu_stream_t handle = gpu->own;
  int capturing = 0;
  if (memory->stream) {
    handle = memory->stream->handle;
    if (memory->stream->lent && cuda->stream_capturing(handle, &capturing) == DT_CU_SUCCESS &&
        capturing)
      return false;
  } else {
    fence(gpu);
  }
  dt_cu_result_t result = cuda->mem_free_async(dt__cuda_address(memory->storage.data), handle);
  dt_status_free(dt__cuda_check(gpu->device, result, dt__cuda_symbol(DT_CUDA_SYM_mem_free_async)));
  return true;
}

void dt__cuda_memory_flush(dt_cuda_stream_t *stream) {
  dt_cuda_memory_t *memory = stream->waiting;
  stream->waiting = NULL;
  while (memory) {
    dt_cuda_memory_t *next = memory->next;
    if (!free_now(memory)) {
      memory->next = stream->waiting;
      stream->waiting = memory;
    } else {
      dt__cuda_gpu_release(memory->gpu); // never the last: the stream has one
      dt__free(memory);
    }
    memory = next;
  }
}

// True: it is gone; false: it waits on its stream.
static bool give_back(dt_cuda_memory_t *memory) {
  if (!memory->storage.data)
    return true;
  dt_cuda_gpu_t *gpu = memory->gpu;
  dt_status_t status = dt__cuda_enter(gpu->device);
  if (status) {
    dt_status_free(status); // a lost context has nothing to give back
    return true;
  }
  dt__mutex_lock(&gpu->streams_mutex);
  bool gone = free_now(memory);
  if (!gone) {
    memory->next = memory->stream->waiting;
    memory->stream->waiting = memory;
  } else if (memory->stream && memory->stream->waiting) {
    dt__cuda_memory_flush(memory->stream);
  }
  dt__mutex_unlock(&gpu->streams_mutex);
  dt__cuda_leave(gpu->device);
  return gone;
}

static void destroy(dt_storage_t *storage) {
  dt_cuda_memory_t *memory = (dt_cuda_memory_t *)storage;
  dt_cuda_stream_t *stream = memory->stream;
  if (give_back(memory)) {
    dt__cuda_gpu_release(memory->gpu);
    dt__free(memory);
  }
  dt__cuda_stream_release(stream);
}

bool dt__cuda_memory_is_of(const dt_storage_t *storage, const dt_cuda_stream_t *stream) {
  return storage->destroy == destroy && ((const dt_cuda_memory_t *)storage)->stream == stream;
}

static dt_status_t allocate(dt_cuda_gpu_t *gpu, dt_cuda_stream_t *stream, size_t bytes,
                            dt_cu_ptr_t *out) {
  if (stream)
    DT_TRY(dt__cuda_stream_check(stream, "a new tensor"));
  DT_TRY(dt__cuda_enter(gpu->device));
  dt_cu_result_t result =
      gpu->device->cuda->mem_alloc_async(out, bytes, gpu->pool, stream ? stream->handle : gpu->own);
  dt__cuda_leave(gpu->device);
  return dt__cuda_check(gpu->device, result, dt__cuda_symbol(DT_CUDA_SYM_mem_alloc_async));
}

// `stream` NULL: the GPU's own.
static dt_status_t queue(dt_cuda_gpu_t *gpu, dt_cuda_stream_t *stream, size_t bytes,
                         dt_storage_t **out) {
  *out = NULL;
  if (bytes >= (size_t)DT_SIZE_LIMIT)
    return DT_FAIL(DT_E_LIMIT, "a storage of %zu bytes; the limit is %lld", bytes,
                   (long long)DT_SIZE_LIMIT - 1);
  dt_cuda_memory_t *memory = dt__calloc(1, sizeof(*memory));
  if (!memory)
    return DT_NO_MEMORY();
  dt_cu_ptr_t ptr = 0;
  dt_status_t status = bytes ? allocate(gpu, stream, bytes, &ptr) : NULL;
  if (status) {
    dt__free(memory);
    return dt__status_annotate(status, "%zu bytes of device memory", bytes);
  }
  memory->storage = (dt_storage_t){.refs = 1,
                                   .place = dt__place(DT_CUDA, gpu->device->ordinal),
                                   .bytes = bytes,
                                   .data = dt__cuda_pointer(ptr),
                                   .destroy = destroy};
  memory->gpu = gpu;
  dt__cuda_gpu_retain(gpu);
  memory->stream = stream;
  if (stream)
    dt__cuda_stream_retain(stream);
  *out = &memory->storage;
  return NULL;
}

dt_status_t dt__cuda_memory_queue(dt_cuda_gpu_t *gpu, size_t bytes, dt_storage_t **out) {
  return queue(gpu, NULL, bytes, out);
}

dt_status_t dt__cuda_memory_create(dt_cuda_gpu_t *gpu, dt_cuda_stream_t *stream, size_t bytes,
                                   dt_storage_t **out) {
  DT_TRY(queue(gpu, stream, bytes, out));
  // On the GPU's own stream anybody may use it at once.
  dt_status_t status = !stream && bytes ? dt__cuda_gpu_settle(gpu) : NULL;
  if (status) {
    dt__storage_release(*out);
    *out = NULL;
  }
  return status;
}
