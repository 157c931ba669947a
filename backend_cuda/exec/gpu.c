// SPDX-License-Identifier: Apache-2.0
// A GPU with the stream that belongs to nobody's session: constants go to the device on it.
#include "backend_cuda/exec/gpu.h"
#include "backend_cuda/exec/launch.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"

static void gpu_free(dt_cuda_gpu_t *gpu) {
  dt_status_t status = gpu->own ? dt__cuda_enter(gpu->device) : NULL;
  if (!status && gpu->own) {
    dt__cuda_staging_fini(&gpu->staging, gpu->device);
    (void)gpu->device->cuda->stream_synchronize(gpu->own);
    dt__cuda_code_unload(atomic_load_explicit(&gpu->setter, memory_order_relaxed));
    if (gpu->pool)
      (void)gpu->device->cuda->pool_destroy(gpu->pool);
    (void)gpu->device->cuda->stream_destroy(gpu->own);
    dt__cuda_leave(gpu->device);
  }
  dt_status_free(status);
  dt__cuda_device_destroy(gpu->device);
  dt__mutex_fini(&gpu->streams_mutex);
  dt__mutex_fini(&gpu->upload_mutex);
  dt__free(gpu);
}

static dt_status_t make_stream(dt_cuda_gpu_t *gpu) {
  DT_TRY(dt__cuda_enter(gpu->device));
  dt_cu_stream_t stream = NULL;
  dt_cu_result_t result = gpu->device->cuda->stream_create(&stream, DT_CU_STREAM_NON_BLOCKING);
  dt__cuda_leave(gpu->device);
  DT_TRY(dt__cuda_check(gpu->device, result, dt__cuda_symbol(DT_CUDA_SYM_stream_create)));
  gpu->own = stream;
  return NULL;
}

// Context current.
static dt_status_t open_pool(dt_cuda_gpu_t *gpu, uint64_t keep) {
  dt_cu_pool_prop_t prop = {.type = 1, .location = {.type = 1, .id = gpu->device->ordinal}};
  DT_CUDA_TRY(gpu->device, pool_create, &gpu->pool, &prop);
  DT_CUDA_TRY(gpu->device, pool_set, gpu->pool, DT_CU_POOL_RELEASE_THRESHOLD, &keep);
  return NULL;
}

static dt_status_t make_pool(dt_cuda_gpu_t *gpu, uint64_t keep) {
  DT_TRY(dt__cuda_enter(gpu->device));
  dt_status_t status = open_pool(gpu, keep);
  dt__cuda_leave(gpu->device);
  return status;
}

dt_status_t dt__cuda_gpu_create(const dt_cuda_t *cuda, int ordinal, uint64_t keep,
                                dt_cuda_gpu_t **out) {
  *out = NULL;
  dt_cuda_gpu_t *gpu = dt__calloc(1, sizeof(*gpu));
  if (!gpu)
    return DT_NO_MEMORY();
  atomic_init(&gpu->refs, 1);
  dt_status_t status = dt__mutex_init(&gpu->upload_mutex, DT_RANK_DEVICE);
  if (status) {
    dt__free(gpu);
    return status;
  }
  status = dt__mutex_init(&gpu->streams_mutex, DT_RANK_STREAMS);
  if (status) {
    dt__mutex_fini(&gpu->upload_mutex);
    dt__free(gpu);
    return status;
  }
  status = dt__cuda_device_create(cuda, ordinal, &gpu->device);
  if (!status)
    status = make_stream(gpu);
  if (!status)
    status = make_pool(gpu, keep);
  if (status) {
    gpu_free(gpu);
    return status;
  }
  *out = gpu;
  return NULL;
}

void dt__cuda_gpu_retain(dt_cuda_gpu_t *gpu) {
  (void)atomic_fetch_add_explicit(&gpu->refs, 1, memory_order_relaxed);
}

void dt__cuda_gpu_release(dt_cuda_gpu_t *gpu) {
  if (gpu && atomic_fetch_sub_explicit(&gpu->refs, 1, memory_order_acq_rel) == 1)
    gpu_free(gpu);
}

// Context current.
static dt_status_t wait_all(dt_cuda_gpu_t *gpu) {
  const dt_cuda_t *cuda = gpu->device->cuda;
  dt_status_t status = NULL;
  dt__mutex_lock(&gpu->streams_mutex);
  for (dt_cuda_stream_t *stream = gpu->streams; stream; stream = stream->next) {
    int capturing = 0;
    if (stream->lent && cuda->stream_capturing(stream->handle, &capturing) == DT_CU_SUCCESS &&
        capturing)
      continue;
    dt_cu_result_t result = cuda->stream_synchronize(stream->handle);
    status =
        dt__status_join(status, dt__cuda_check(gpu->device, result,
                                               dt__cuda_symbol(DT_CUDA_SYM_stream_synchronize)));
  }
  dt__mutex_unlock(&gpu->streams_mutex);
  dt_cu_result_t result = cuda->stream_synchronize(gpu->own);
  return dt__status_join(
      status, dt__cuda_check(gpu->device, result, dt__cuda_symbol(DT_CUDA_SYM_stream_synchronize)));
}

dt_status_t dt__cuda_gpu_wait(dt_cuda_gpu_t *gpu) {
  DT_TRY(dt__cuda_enter(gpu->device));
  dt_status_t status = wait_all(gpu);
  dt__cuda_leave(gpu->device);
  return status;
}

static dt_status_t copy_in(dt_cuda_gpu_t *gpu, dt_pool_t *pool, dt_cu_ptr_t to, const void *from,
                           size_t bytes) {
  if (bytes == 0)
    return NULL;
  DT_TRY(dt__cuda_enter(gpu->device));
  dt__mutex_lock(&gpu->upload_mutex);
  dt_status_t status =
      dt__cuda_stage_in(&gpu->staging, gpu->device, pool, gpu->own, to, from, bytes);
  dt__mutex_unlock(&gpu->upload_mutex);
  dt__cuda_leave(gpu->device);
  return status;
}

dt_status_t dt__cuda_gpu_upload(dt_cuda_gpu_t *gpu, dt_pool_t *pool, const void *from, size_t bytes,
                                dt_storage_t **out) {
  dt_storage_t *memory = NULL;
  *out = NULL;
  DT_TRY(dt__cuda_memory_queue(gpu, bytes, &memory));
  dt_status_t status = copy_in(gpu, pool, dt__cuda_address(memory->data), from, bytes);
  if (status)
    dt__storage_release(memory);
  else
    *out = memory;
  return status;
}

dt_status_t dt__cuda_gpu_settle(dt_cuda_gpu_t *gpu) {
  DT_TRY(dt__cuda_enter(gpu->device));
  dt_cu_result_t result = gpu->device->cuda->stream_synchronize(gpu->own);
  dt__cuda_leave(gpu->device);
  return dt__cuda_check(gpu->device, result, dt__cuda_symbol(DT_CUDA_SYM_stream_synchronize));
}
