// SPDX-License-Identifier: Apache-2.0
// Devices: what they can do, and their primary contexts, which are shared with whatever else in the
// process uses the device.
#include "backend_cuda/driver/driver.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#define LEAST_MAJOR 8

static dt_status_t read_attributes(dt_cuda_device_t *device) {
  const struct {
    int attribute;
    int *out;
  } wanted[] = {
      {DT_CU_ATTR_CAPABILITY_MAJOR, &device->major},
      {DT_CU_ATTR_CAPABILITY_MINOR, &device->minor},
      {DT_CU_ATTR_PROCESSORS, &device->processors},
      {DT_CU_ATTR_SHARED_PER_BLOCK, &device->shared_per_block},
      {DT_CU_ATTR_SHARED_PER_PROCESSOR, &device->shared_per_processor},
      {DT_CU_ATTR_THREADS_PER_PROCESSOR, &device->threads_per_processor},
      {DT_CU_ATTR_REGISTERS_PER_BLOCK, &device->registers_per_block},
  };
  const dt_cuda_t *cuda = device->cuda;
  for (size_t k = 0; k < sizeof(wanted) / sizeof(wanted[0]); k++)
    DT_TRY(
        DT_CUDA_CALL(cuda, device_attribute, wanted[k].out, wanted[k].attribute, device->ordinal));
  int l2 = 0, warp = 0, ranges = 0, pools = 0;
  DT_TRY(DT_CUDA_CALL(cuda, device_attribute, &l2, DT_CU_ATTR_L2_BYTES, device->ordinal));
  DT_TRY(DT_CUDA_CALL(cuda, device_attribute, &warp, DT_CU_ATTR_WARP_SIZE, device->ordinal));
  DT_TRY(DT_CUDA_CALL(cuda, device_attribute, &ranges, DT_CU_ATTR_VIRTUAL_MEMORY, device->ordinal));
  DT_TRY(DT_CUDA_CALL(cuda, device_attribute, &pools, DT_CU_ATTR_MEMORY_POOLS, device->ordinal));
  device->l2_bytes = l2;
  if (device->major < LEAST_MAJOR || warp != 32)
    return DT_FAIL(DT_E_UNSUPPORTED, "%s has compute capability %d.%d; expected at least %d.0",
                   device->name, device->major, device->minor, LEAST_MAJOR);
  if (!ranges || !pools)
    return DT_FAIL(DT_E_UNSUPPORTED, "%s: the driver offers no virtual memory management",
                   device->name);
  return NULL;
}

static dt_status_t open_device(dt_cuda_device_t *device, int ordinal) {
  const dt_cuda_t *cuda = device->cuda;
  int count = 0;
  DT_TRY(DT_CUDA_CALL(cuda, device_count, &count));
  if (ordinal < 0 || ordinal >= count)
    return DT_FAIL(DT_E_UNSUPPORTED, "CUDA device %d of %d visible ones", ordinal, count);
  DT_TRY(DT_CUDA_CALL(cuda, device_get, &device->ordinal, ordinal));
  DT_TRY(DT_CUDA_CALL(cuda, device_name, device->name, (int)sizeof(device->name), device->ordinal));
  DT_TRY(read_attributes(device));
  size_t bytes = 0;
  DT_TRY(DT_CUDA_CALL(cuda, device_memory, &bytes, device->ordinal));
  device->memory_bytes = (int64_t)bytes;
  dt_cu_mem_prop_t prop = {.type = 1, .location = {.type = 1, .id = device->ordinal}};
  DT_TRY(DT_CUDA_CALL(cuda, range_granularity, &bytes, &prop, 0));
  device->granularity = (int64_t)bytes;
  return DT_CUDA_CALL(cuda, primary_retain, &device->context, device->ordinal);
}

dt_status_t dt__cuda_device_create(const dt_cuda_t *cuda, int ordinal, dt_cuda_device_t **out) {
  *out = NULL;
  dt_cuda_device_t *device = dt__calloc(1, sizeof(*device));
  if (!device)
    return DT_NO_MEMORY();
  device->cuda = cuda;
  dt_status_t status = open_device(device, ordinal);
  if (status) {
    dt__free(device);
    return status;
  }
  *out = device;
  return NULL;
}

void dt__cuda_device_destroy(dt_cuda_device_t *device) {
  if (!device)
    return;
  (void)device->cuda->primary_release(device->ordinal);
  dt__disk_cache_close(device->cache);
  dt__free(device);
}

dt_status_t dt__cuda_enter(dt_cuda_device_t *device) {
  int lost = atomic_load_explicit(&device->lost, memory_order_relaxed);
  if (lost)
    return dt__cuda_status(device->cuda, lost, "an earlier call on this device");
  // Who gives something back has no later chance: what may pass is tried again.
  dt_cu_result_t result = device->cuda->context_push(device->context);
  if (result != DT_CU_SUCCESS && !dt__cuda_is_fatal(result))
    result = device->cuda->context_push(device->context);
  return dt__cuda_check(device, result, dt__cuda_symbol(DT_CUDA_SYM_context_push));
}

void dt__cuda_leave(dt_cuda_device_t *device) {
  dt_cu_context_t popped;
  (void)device->cuda->context_pop(&popped);
}

bool dt__cuda_is_lost(const dt_cuda_device_t *device) {
  return atomic_load_explicit(&device->lost, memory_order_relaxed) != 0;
}

dt_status_t dt__cuda_check(dt_cuda_device_t *device, dt_cu_result_t result, const char *what) {
  if (dt__cuda_is_fatal(result)) {
    int none = 0;
    (void)atomic_compare_exchange_strong(&device->lost, &none, result);
  }
  return dt__cuda_status(device->cuda, result, what);
}
