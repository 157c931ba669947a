// SPDX-License-Identifier: Apache-2.0
// Constants of variants on a device: copies in its memory, and what is computed from them once. All
// of it is complete when a binding exists, so that no call has to wait for it.
#include "backend_cuda/place/place.h"

#include "runtime/base/status.h"

// ---- Copies ---------------------------------------------------------------------------------------

dt_status_t dt__cuda_constant_upload(const dt_variant_t *variant, dt_pool_t *pool,
                                     const dt_tensor_t *tensor, dt_storage_t **out) {
  return dt__cuda_gpu_upload(dt__cuda_gpu_of(variant->home), pool, tensor->data,
                             dt__tensor_bytes(tensor), out);
}

dt_status_t dt__cuda_constants_uploaded(const dt_variant_t *variant) {
  return dt__cuda_gpu_settle(dt__cuda_gpu_of(variant->home));
}

// ---- Once -----------------------------------------------------------------------------------------

// Context current. `record` is pinned and zero.
static dt_status_t run_once(const dt_variant_t *variant, const dt_bindings_t *bindings,
                            dt_cuda_record_t *record, dt_cuda_region_t *scratch) {
  dt_cuda_gpu_t *gpu = dt__cuda_gpu_of(variant->home);
  const dt_compiled_t *compiled = variant->compiled;
  dt_cuda_launch_frame_t launch = {.frame = dt__once_frame(variant, bindings),
                                   .gpu = gpu,
                                   .stream = gpu->own,
                                   .scratch = scratch};
  launch.frame.launch = dt__cuda_launch;
  DT_CUDA_TRY(gpu->device, host_device_ptr, &launch.record, record, 0);
  launch.no_record = launch.record;
  compiled->once(&launch.frame);
  dt_cu_result_t result = gpu->device->cuda->stream_synchronize(gpu->own);
  DT_TRY(dt__status_join(
      launch.status,
      dt__cuda_check(gpu->device, result, dt__cuda_symbol(DT_CUDA_SYM_stream_synchronize))));
  dt_launch_record_t seen = {.value = record->value, .extent = record->extent};
  atomic_init(&seen.check, record->check);
  return dt__record_status(compiled, &seen);
}

static dt_status_t with_record(const dt_variant_t *variant, const dt_bindings_t *bindings) {
  dt_cuda_device_t *device = dt__cuda_gpu_of(variant->home)->device;
  dt_cuda_region_t scratch = {0};
  void *record = NULL;
  DT_CUDA_TRY(device, host_alloc, &record, sizeof(dt_cuda_record_t),
              DT_CU_HOST_PORTABLE | DT_CU_HOST_MAPPED);
  *(dt_cuda_record_t *)record = (dt_cuda_record_t){0};
  dt_status_t status = run_once(variant, bindings, record, &scratch);
  if (status) // some of it may run still
    (void)device->cuda->stream_synchronize(dt__cuda_gpu_of(variant->home)->own);
  dt__cuda_region_free(&scratch, dt__cuda_gpu_of(variant->home));
  (void)device->cuda->host_free(record);
  return status;
}

dt_status_t dt__cuda_constants_once(const dt_variant_t *variant, dt_bindings_t *bindings) {
  DT_TRY(dt__cuda_enter(dt__cuda_gpu_of(variant->home)->device));
  dt_status_t status = with_record(variant, bindings);
  dt__cuda_leave(dt__cuda_gpu_of(variant->home)->device);
  return dt__status_annotate(status, "what is computed from constants");
}
