// SPDX-License-Identifier: Apache-2.0
// The devices of a runtime: opened when they are first asked for, kept until it ends.
#include "backend_cuda/exec/gpu.h"
#include "runtime/exec/exec.h"

#include "runtime/base/options.h"
#include "runtime/base/status.h"

#include <stdio.h>
#include <string.h>

static dt_status_t open_gpu(const dt_runtime_t *runtime, int32_t ordinal, dt_cuda_gpu_t **out) {
  const dt_cuda_t *cuda = NULL;
  DT_TRY(dt__cuda_open(runtime->params.cuda, &cuda));
  uint64_t keep = (uint64_t)runtime->params.cuda_pool_mib << 20;
  DT_TRY(dt__cuda_gpu_create(cuda, ordinal, keep, out));
  dt_cuda_device_t *device = (*out)->device;
  device->cache =
      dt__disk_cache_open(runtime->params.cache_dir, (uint64_t)runtime->params.cache_mib << 20);
  device->early = runtime->params.early_launch && device->major >= DT_CUDA_EARLY_MAJOR;
  return NULL;
}

dt_status_t dt__runtime_device(dt_runtime_t *runtime, int32_t ordinal, dt_cuda_gpu_t **out) {
  *out = NULL;
  if (ordinal < 0 || ordinal >= DT_MOST_ORDINALS)
    return DT_FAIL(DT_E_ARGUMENT, "ordinal: %d; expected 0 to %d", (int)ordinal,
                   DT_MOST_ORDINALS - 1);
  dt_status_t status = NULL;
  dt__mutex_lock(&runtime->devices_mutex);
  if (!runtime->gpus[ordinal])
    status = open_gpu(runtime, ordinal, &runtime->gpus[ordinal]);
  *out = runtime->gpus[ordinal];
  dt__mutex_unlock(&runtime->devices_mutex);
  return status;
}

dt_status_t dt__runtime_place(dt_runtime_t *runtime, dt_device_t place, dt_cuda_gpu_t **out) {
  *out = NULL;
  return place == DT_CPU ? NULL : dt__runtime_device(runtime, dt__place_ordinal(place), out);
}

// ---- API ------------------------------------------------------------------------------------------

static dt_status_t check(const dt_runtime_t *runtime, dt_device_t device, const void *out) {
  if (!runtime || !out)
    return DT_FAIL(DT_E_ARGUMENT, "%s: NULL", runtime ? "out" : "runtime");
  if (device != DT_CPU && device != DT_CUDA)
    return DT_FAIL(DT_E_ARGUMENT, "device: %d is no device", (int)device);
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "called in a child after fork");
  return NULL;
}

static dt_status_t count_devices(const dt_runtime_t *runtime, dt_device_t device, int32_t *out) {
  const dt_cuda_t *cuda = NULL;
  int count = 1;
  if (device == DT_CUDA) {
    DT_TRY(dt__cuda_open(runtime->params.cuda, &cuda));
    DT_TRY(DT_CUDA(cuda, device_count, &count));
  }
  *out = count;
  return NULL;
}

dt_status_t dt_device_count(dt_runtime_t *runtime, dt_device_t device, int32_t *out_count) {
  if (out_count)
    *out_count = 0;
  dt_status_t status = check(runtime, device, out_count);
  if (!status)
    status = count_devices(runtime, device, out_count);
  return dt__status_annotate(status, "dt_device_count");
}

static dt_status_t describe(dt_runtime_t *runtime, dt_device_t device, int32_t ordinal,
                            dt_device_info_t *out) {
  dt_cuda_gpu_t *gpu = NULL;
  if (device == DT_CPU) {
    if (ordinal != 0)
      return DT_FAIL(DT_E_ARGUMENT, "ordinal: %d; expected 0 for the CPU", (int)ordinal);
    out->processors = (int32_t)dt__pool_width(runtime->pool);
    (void)snprintf(out->name, sizeof(out->name), "CPU");
    return NULL;
  }
  DT_TRY(dt__runtime_device(runtime, ordinal, &gpu));
  const dt_cuda_device_t *from = gpu->device;
  out->major = from->major;
  out->minor = from->minor;
  out->processors = from->processors;
  out->memory_bytes = from->memory_bytes;
  out->shared_bytes = from->shared_per_block;
  _Static_assert(sizeof(out->name) == sizeof(from->name), "names are copied whole");
  memcpy(out->name, from->name, sizeof(out->name));
  return NULL;
}

dt_status_t dt_device_info(dt_runtime_t *runtime, dt_device_t device, int32_t ordinal,
                           dt_device_info_t *info) {
  dt_status_t status = check(runtime, device, info);
  if (status)
    return dt__status_annotate(status, "dt_device_info");
  dt_device_info_t all = {0};
  status = DT_RESULT_CHECK(dt_device_info_t, info);
  if (!status)
    status = describe(runtime, device, ordinal, &all);
  if (!status)
    DT_RESULT_GIVE(dt_device_info_t, info, &all);
  return dt__status_annotate(status, "dt_device_info");
}
