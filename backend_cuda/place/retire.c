// SPDX-License-Identifier: Apache-2.0
// Variants that leave a GPU. They go in two steps, since calls leave work behind. When no call is
// in a variant, an event is recorded behind all that is queued anywhere: nothing that comes after
// it is the variant's, as nobody finds it any more. When that event has passed its code is
// unloaded, without a wait. Records of checks that may tell of it are read or forgotten before:
// they have references (records.h).
#include "backend_cuda/place/place.h"

#include "runtime/base/status.h"
#include "runtime/exec/evict.h"

// The event behind all work that may be the variant's has passed, or will never.
static bool is_done(dt_retired_t *item) {
  const dt_variant_t *variant = (const dt_variant_t *)item;
  dt_cuda_device_t *device = dt__cuda_gpu_of(variant->home)->device;
  dt_status_t status = dt__cuda_enter(device);
  bool done = true;
  if (!status) {
    done = device->cuda->event_query((dt_cu_event_t)variant->behind) != DT_CU_NOT_READY;
    dt__cuda_leave(device);
  }
  dt_status_free(status); // what is lost runs no more
  return done;
}

// Asked again, as a runtime that ends asks nobody: then the device is waited for.
static void end(dt_retired_t *item) {
  dt_variant_t *variant = (dt_variant_t *)item;
  dt_cuda_device_t *device = dt__cuda_gpu_of(variant->home)->device;
  variant->done = variant->behind && is_done(item);
  dt_status_t status = variant->behind ? dt__cuda_enter(device) : NULL;
  if (variant->behind && !status) {
    (void)device->cuda->event_destroy((dt_cu_event_t)variant->behind);
    dt__cuda_leave(device);
  }
  dt_status_free(status);
  dt__variant_release(variant);
}

void dt__cuda_variant_retire(dt_variant_t *variant) {
  dt_retired_t *item = &variant->retired;
  dt_runtime_t *runtime = variant->runtime;
  if (atomic_load_explicit(&variant->captured, memory_order_relaxed)) {
    dt__variant_stay(variant);
    return;
  }
  for (uint32_t k = 0; k < variant->compiled->n_segments; k++)
    dt__graph_forget(dt__cuda_graphs(runtime), variant->id + k);
  dt_cu_event_t behind = NULL;
  dt_status_free(
      dt__cuda_gpu_mark(dt__cuda_gpu_of(variant->home), &behind)); // else it is waited for
  variant->behind = behind;
  item->destroy = end;
  item->ready = variant->behind ? is_done : NULL;
  dt__reclaim_retire(runtime->reclaim, item);
  atomic_store_explicit(&runtime->garbage, true, memory_order_relaxed);
}

// ---- Code -----------------------------------------------------------------------------------------

// Graphs of it will need the kernel that sets conditions; no call is to wait for that.
dt_status_t dt__cuda_variant_adopt(dt_variant_t *variant) {
  dt_cuda_gpu_t *gpu = dt__cuda_gpu_of(variant->home);
  dt_kernel_fn_t fn = NULL;
  if (!variant->compiled->n_regions)
    return NULL;
  DT_TRY(dt__cuda_enter(gpu->device));
  dt_status_t status = dt__cuda_gpu_setter(gpu, &fn);
  dt__cuda_leave(gpu->device);
  return status;
}

void dt__cuda_variant_unload(dt_variant_t *variant) {
  if (!variant->compiled || !variant->compiled->device_code)
    return;
  for (uint32_t k = 0; k < variant->compiled->n_segments && !variant->done; k++)
    dt__graph_forget(dt__cuda_graphs(variant->runtime), variant->id + k);
  dt_status_t status = variant->done ? NULL : dt__cuda_gpu_wait(dt__cuda_gpu_of(variant->home));
  dt_status_free(status); // what is lost runs no more
  dt__compiled_unload(variant->compiled);
}
