// SPDX-License-Identifier: Apache-2.0
// Copies between pageable host memory and the device, through pinned halves. The driver would stage
// such copies by itself, but waits for the device where this need not.
#include "backend_cuda/exec/gpu.h"

#include "runtime/base/status.h"

#include <string.h>

#define HALF DT_CUDA_STAGING_ROOM
#define PIECE ((size_t)64)        // copies begin at multiples of it
#define SLICE ((size_t)128 << 10) // what a thread of the pool fills at a time
_Static_assert(HALF % PIECE == 0, "a half may be filled");

static dt_status_t open_staging(dt_cuda_staging_t *staging, dt_cuda_device_t *device) {
  if (staging->base)
    return NULL;
  for (int k = 0; k < 2; k++) {
    if (!staging->events[k])
      DT_CUDA_TRY(device, event_create, &staging->events[k], DT_CU_EVENT_NO_TIMING);
  }
  void *base = NULL;
  DT_CUDA_TRY(device, host_alloc, &base, 2 * HALF, DT_CU_HOST_PORTABLE);
  staging->base = base;
  return NULL;
}

// Waits for the last use of a half.
static dt_status_t settle(dt_cuda_staging_t *staging, dt_cuda_device_t *device, uint32_t half) {
  if (!staging->busy[half])
    return NULL;
  DT_CUDA_TRY(device, event_synchronize, staging->events[half]);
  staging->busy[half] = false;
  return NULL;
}

// After a copy was queued. One that no event can follow is waited for at once.
static dt_status_t mark(dt_cuda_staging_t *staging, dt_cuda_device_t *device, dt_cu_stream_t stream,
                        uint32_t half) {
  dt_cu_result_t result = device->cuda->event_record(staging->events[half], stream);
  staging->busy[half] = result == DT_CU_SUCCESS;
  if (result == DT_CU_SUCCESS)
    return NULL;
  (void)device->cuda->stream_synchronize(stream);
  return dt__cuda_check(device, result, dt__cuda_symbol(DT_CUDA_SYM_event_record));
}

dt_status_t dt__cuda_stage_room(dt_cuda_staging_t *staging, dt_cuda_device_t *device, size_t bytes,
                                char **out) {
  DT_TRY(open_staging(staging, device));
  if (bytes > HALF - staging->used) {
    staging->next = 1 - staging->next;
    staging->used = 0;
  }
  if (staging->used == 0)
    DT_TRY(settle(staging, device, staging->next));
  *out = staging->base + staging->next * HALF + staging->used;
  return NULL;
}

dt_status_t dt__cuda_stage_send(dt_cuda_staging_t *staging, dt_cuda_device_t *device,
                                dt_cu_stream_t stream, dt_cu_ptr_t to, size_t bytes) {
  uint32_t half = staging->next;
  DT_CUDA_TRY(device, copy_to_device, to, staging->base + half * HALF + staging->used, bytes,
              stream);
  staging->used += (bytes + PIECE - 1) / PIECE * PIECE;
  return mark(staging, device, stream, half);
}

typedef struct filled_t {
  char *to;
  const char *from;
  size_t bytes;
} filled_t;

static void fill_some(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const filled_t *filled = arg;
  size_t from = (size_t)begin * SLICE, to = (size_t)end * SLICE;
  (void)worker;
  memcpy(filled->to + from, filled->from + from, (to < filled->bytes ? to : filled->bytes) - from);
}

static void fill(dt_pool_t *pool, char *to, const void *from, size_t bytes) {
  filled_t filled = {to, from, bytes};
  int64_t slices = (int64_t)((bytes + SLICE - 1) / SLICE);
  if (pool)
    dt__pool_run(pool, slices, 1, fill_some, &filled);
  else
    fill_some(&filled, 0, slices, 0);
}

dt_status_t dt__cuda_stage_in(dt_cuda_staging_t *staging, dt_cuda_device_t *device, dt_pool_t *pool,
                              dt_cu_stream_t stream, dt_cu_ptr_t to, const void *from,
                              size_t bytes) {
  for (size_t at = 0; at < bytes; at += HALF) {
    size_t part = bytes - at < HALF ? bytes - at : HALF;
    char *room = NULL;
    DT_TRY(dt__cuda_stage_room(staging, device, part, &room));
    fill(pool, room, (const char *)from + at, part);
    DT_TRY(dt__cuda_stage_send(staging, device, stream, to + at, part));
  }
  return NULL;
}

// Queues the copy of the part that begins at `at` into the next half.
static dt_status_t fetch(dt_cuda_staging_t *staging, dt_cuda_device_t *device,
                         dt_cu_stream_t stream, dt_cu_ptr_t from, size_t bytes) {
  uint32_t half = staging->next;
  DT_TRY(settle(staging, device, half));
  DT_CUDA_TRY(device, copy_to_host, staging->base + half * HALF, from, bytes, stream);
  staging->next = 1 - half;
  return mark(staging, device, stream, half);
}

dt_status_t dt__cuda_stage_out(dt_cuda_staging_t *staging, dt_cuda_device_t *device,
                               dt_cu_stream_t stream, void *to, dt_cu_ptr_t from, size_t bytes) {
  DT_TRY(open_staging(staging, device));
  staging->used = 0; // either half is waited for before it is used
  // The device copies one part while the host empties the one before it.
  size_t fetched = 0;
  for (size_t done = 0; done < bytes;) {
    while (fetched < bytes && fetched - done < 2 * HALF) {
      size_t part = bytes - fetched < HALF ? bytes - fetched : HALF;
      DT_TRY(fetch(staging, device, stream, from + fetched, part));
      fetched += part;
    }
    size_t part = bytes - done < HALF ? bytes - done : HALF;
    uint32_t older = fetched - done > HALF ? staging->next : 1 - staging->next;
    DT_TRY(settle(staging, device, older));
    memcpy((char *)to + done, staging->base + older * HALF, part);
    done += part;
  }
  return NULL;
}

void dt__cuda_staging_fini(dt_cuda_staging_t *staging, dt_cuda_device_t *device) {
  const dt_cuda_t *cuda = device->cuda;
  for (uint32_t half = 0; half < 2; half++) {
    if (staging->busy[half])
      (void)cuda->event_synchronize(staging->events[half]);
    if (staging->events[half])
      (void)cuda->event_destroy(staging->events[half]);
  }
  if (staging->base)
    (void)cuda->host_free(staging->base);
  *staging = (dt_cuda_staging_t){0};
}
