// SPDX-License-Identifier: Apache-2.0
// CUDA's row among the places: GPUs are opened through the driver at their first use.
#include "backend_cuda/place/place.h"

#include "backend_cuda/codegen/codegen.h"
#include "runtime/base/disk_cache.h"
#include "runtime/base/status.h"

#include <string.h>

static dt_status_t count(const dt_runtime_t *runtime, int32_t *out) {
  const dt_cuda_t *cuda = NULL;
  int n = 0;
  DT_TRY(dt__cuda_open(dt__cuda_shared(runtime)->params.cuda, &cuda));
  DT_TRY(DT_CUDA_CALL(cuda, device_count, &n));
  *out = n;
  return NULL;
}

static dt_status_t open_gpu(const dt_runtime_t *runtime, int32_t ordinal, dt_cuda_gpu_t **out) {
  const dt_cuda_params_t *params = &dt__cuda_shared(runtime)->params;
  const dt_cuda_t *cuda = NULL;
  DT_TRY(dt__cuda_open(params->cuda, &cuda));
  uint64_t keep = (uint64_t)params->cuda_pool_mib << 20;
  DT_TRY(dt__cuda_gpu_create(cuda, ordinal, keep, out));
  dt_cuda_device_t *device = (*out)->device;
  device->cache =
      dt__disk_cache_open(runtime->params.cache_dir, (uint64_t)runtime->params.cache_mib << 20);
  device->early = params->early_launch && device->major >= DT_CUDA_EARLY_MAJOR;
  return NULL;
}

static dt_status_t open_place(dt_runtime_t *runtime, int32_t ordinal, dt_place_t **out) {
  dt_cuda_place_t *own = dt__calloc(1, sizeof(*own));
  if (!own)
    return DT_NO_MEMORY();
  dt_status_t status = open_gpu(runtime, ordinal, &own->gpu);
  if (status) {
    dt__free(own);
    return status;
  }
  own->place = (dt_place_t){.kind = &dt__cuda_place,
                            .number = dt__place(DT_CUDA, ordinal),
                            .codegen = &dt__cuda_codegen,
                            .device = own->gpu->device};
  *out = &own->place;
  return NULL;
}

static void close_place(dt_place_t *place) {
  dt__cuda_gpu_release(dt__cuda_gpu_of(place));
  dt__free(place);
}

static void describe(const dt_place_t *place, const dt_runtime_t *runtime, dt_device_info_t *out) {
  (void)runtime;
  const dt_cuda_device_t *from = dt__cuda_gpu_of(place)->device;
  out->major = from->major;
  out->minor = from->minor;
  out->processors = from->processors;
  out->memory_bytes = from->memory_bytes;
  out->shared_bytes = from->shared_per_block;
  _Static_assert(sizeof(out->name) == sizeof(from->name), "names are copied whole");
  memcpy(out->name, from->name, sizeof(out->name));
}

static bool may_share(const dt_session_t *session, const dt_storage_t *storage) {
  const dt_cuda_session_t *own = session->own;
  return dt__cuda_memory_is_of(storage, own->stream);
}

const dt_place_kind_t dt__cuda_place = {.name = "CUDA device",
                                        .option = "cuda",
                                        .dlpack = 2,
                                        .memory = DT_MEMORY_DEVICE,
                                        .queues = true,
                                        .params = dt__cuda_params_rows,
                                        .begin = dt__cuda_graphs_begin,
                                        .end = dt__cuda_graphs_end,
                                        .count_runtime = dt__cuda_graphs_count,
                                        .count = count,
                                        .open = open_place,
                                        .close = close_place,
                                        .describe = describe,
                                        .rates = dt__cuda_rates,
                                        .timer = &dt__cuda_timer,
                                        .session_size = sizeof(dt_cuda_session_t),
                                        .session_open = dt__cuda_session_open,
                                        .session_close = dt__cuda_session_close,
                                        .session_bytes = dt__cuda_session_bytes,
                                        .settle = dt__cuda_session_settle,
                                        .give = dt__cuda_session_give,
                                        .trim = dt__cuda_session_trim,
                                        .step = dt__cuda_session_step,
                                        .freeze = dt__cuda_session_freeze,
                                        .stream = dt__cuda_session_stream,
                                        .count_session = dt__cuda_session_count,
                                        .enter = dt__cuda_call_enter,
                                        .leave = dt__cuda_call_leave,
                                        .call = dt__cuda_call,
                                        .result = dt__cuda_call_result,
                                        .may_share = may_share,
                                        .allocate = dt__cuda_memory,
                                        .copy = dt__cuda_copy,
                                        .may_wait = dt__cuda_session_may_wait,
                                        .host_alloc = dt__cuda_host_alloc,
                                        .host_free = dt__cuda_host_free,
                                        .upload = dt__cuda_constant_upload,
                                        .uploaded = dt__cuda_constants_uploaded,
                                        .once = dt__cuda_constants_once,
                                        .adopt = dt__cuda_variant_adopt,
                                        .retire = dt__cuda_variant_retire,
                                        .unload = dt__cuda_variant_unload,
                                        .event_create = dt__cuda_event_make,
                                        .event_record = dt__cuda_event_record,
                                        .event_wait = dt__cuda_event_wait,
                                        .event_settle = dt__cuda_event_settle,
                                        .event_query = dt__cuda_event_query,
                                        .event_destroy = dt__cuda_event_destroy,
                                        .hand_over = dt__cuda_hand_over};
