// SPDX-License-Identifier: Apache-2.0
// Reserved ranges of device addresses; see gpu.h. Mapping more pages waits for no kernel, and what
// kernels were given stays where it is. A mapping keeps its pages, so their handles are let go.
#include "backend_cuda/exec/gpu.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <string.h>

#define MOST_RESERVED ((size_t)64 << 30)

static size_t round_up(size_t bytes, size_t granule) {
  return (bytes + granule - 1) / granule * granule;
}

static dt_status_t reserve(dt_cuda_region_t *region, const dt_cuda_gpu_t *gpu, size_t granule) {
  dt_cuda_device_t *device = gpu->device;
  if (region->base)
    return NULL;
  size_t bytes = (size_t)device->memory_bytes;
  bytes = round_up(bytes < MOST_RESERVED ? bytes : MOST_RESERVED, granule);
  DT_CUDA_TRY(device, range_reserve, &region->base, bytes, 0, 0, 0);
  region->reserved = bytes;
  return NULL;
}

static bool reserve_end(dt_cuda_region_t *region) {
  if (region->n_ends < region->ends_cap)
    return true;
  uint32_t cap = region->ends_cap ? 2 * region->ends_cap : 8;
  size_t *ends = dt__calloc(cap, sizeof(*ends));
  if (!ends)
    return false;
  if (region->n_ends)
    memcpy(ends, region->ends, region->n_ends * sizeof(*ends));
  dt__free(region->ends);
  region->ends = ends;
  region->ends_cap = cap;
  return true;
}

// Maps `bytes` behind what is mapped.
static dt_status_t map(dt_cuda_region_t *region, dt_cuda_device_t *device, size_t bytes) {
  const dt_cuda_t *cuda = device->cuda;
  const dt_cu_mem_prop_t prop = {.type = 1, .location = {.type = 1, .id = device->ordinal}};
  const dt_cu_access_t access = {.location = {.type = 1, .id = device->ordinal}, .flags = 3};
  dt_cu_ptr_t at = region->base + region->bytes;
  dt_cu_mem_t pages = 0;
  if (!reserve_end(region))
    return DT_NO_MEMORY();
  DT_CUDA_TRY(device, pages_create, &pages, bytes, &prop, 0);
  dt_status_t status = dt__cuda_check(device, cuda->pages_map(at, bytes, 0, pages, 0),
                                      dt__cuda_symbol(DT_CUDA_SYM_pages_map));
  (void)cuda->pages_release(pages);
  DT_TRY(status);
  status = dt__cuda_check(device, cuda->pages_access(at, bytes, &access, 1),
                          dt__cuda_symbol(DT_CUDA_SYM_pages_access));
  if (status) {
    (void)cuda->pages_unmap(at, bytes);
    return status;
  }
  region->bytes += bytes;
  region->ends[region->n_ends++] = region->bytes;
  return NULL;
}

static dt_status_t grow(dt_cuda_region_t *region, const dt_cuda_gpu_t *gpu, size_t bytes) {
  dt_cuda_device_t *device = gpu->device;
  size_t granule = (size_t)device->granularity;
  DT_TRY(reserve(region, gpu, granule));
  if (bytes > region->reserved)
    return DT_FAIL(DT_E_NO_MEMORY, "%zu bytes of device memory; at most %zu fit %s", bytes,
                   region->reserved, device->name);
  return map(region, device, round_up(bytes, granule) - region->bytes);
}

dt_status_t dt__cuda_region_reserve(dt_cuda_region_t *region, dt_cuda_gpu_t *gpu) {
  if (region->base)
    return NULL;
  DT_TRY(dt__cuda_enter(gpu->device));
  dt_status_t status = reserve(region, gpu, (size_t)gpu->device->granularity);
  dt__cuda_leave(gpu->device);
  return status;
}

dt_status_t dt__cuda_region_grow(dt_cuda_region_t *region, dt_cuda_gpu_t *gpu, size_t bytes) {
  if (bytes <= region->bytes)
    return NULL;
  DT_TRY(dt__cuda_enter(gpu->device));
  dt_status_t status = grow(region, gpu, bytes);
  dt__cuda_leave(gpu->device);
  return status;
}

// Context current. False: the driver did not take them.
static bool unmap_last(dt_cuda_region_t *region, const dt_cuda_t *cuda) {
  size_t begin = region->n_ends > 1 ? region->ends[region->n_ends - 2] : 0;
  if (cuda->pages_unmap(region->base + begin, region->bytes - begin) != DT_CU_SUCCESS)
    return false;
  region->n_ends--;
  region->bytes = begin;
  return true;
}

void dt__cuda_region_trim(dt_cuda_region_t *region, dt_cuda_gpu_t *gpu, size_t keep) {
  if (keep >= region->bytes)
    return;
  dt_status_t status = dt__cuda_enter(gpu->device);
  if (!status) {
    while (region->n_ends && (region->n_ends > 1 ? region->ends[region->n_ends - 2] : 0) >= keep) {
      if (!unmap_last(region, gpu->device->cuda))
        break;
    }
    dt__cuda_leave(gpu->device);
  }
  dt_status_free(status); // a lost context has nothing to give back
}

void dt__cuda_region_free(dt_cuda_region_t *region, dt_cuda_gpu_t *gpu) {
  dt_status_t status = region->base ? dt__cuda_enter(gpu->device) : NULL;
  if (!status && region->base) {
    const dt_cuda_t *cuda = gpu->device->cuda;
    // Addresses that pages could not be taken from stay reserved.
    if (!region->bytes || cuda->pages_unmap(region->base, region->bytes) == DT_CU_SUCCESS)
      (void)cuda->range_release(region->base, region->reserved);
    dt__cuda_leave(gpu->device);
  }
  dt_status_free(status); // a lost context has nothing to give back
  dt__free(region->ends);
  *region = (dt_cuda_region_t){0};
}
