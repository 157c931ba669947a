// SPDX-License-Identifier: Apache-2.0
// Inputs on the host (runtime/exec/staged.h) on a GPU: they lie in a region of the session's, one
// behind the other, and are copied in the order of its stream.
#include "backend_cuda/place/place.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/exec/timing.h"

#include <string.h>

#define ALIGNMENT ((size_t)512) // of each input's first byte

// ---- Places ---------------------------------------------------------------------------------------

static dt_status_t grow(dt_cuda_session_t *own, size_t bytes) {
  dt_cuda_region_t *region = &own->staged_region;
  if (bytes <= region->bytes)
    return NULL;
  if (own->graphs.frozen) {
    own->graphs.frozen_growths++;
    DT_LOG(DT_LOG_GRAPHS, 1, "a frozen session takes %zu bytes for inputs on the host", bytes);
  }
  return dt__status_annotate(dt__cuda_region_grow(region, own->gpu, bytes),
                             "%zu bytes for inputs that are on the host", bytes);
}

dt_status_t dt__stage_place(dt_call_t *call) {
  dt_cuda_session_t *own = call->session->own;
  dt_staged_input_t input;
  size_t at = 0;
  DT_TRY(dt__staged_begin(&own->staged, call));
  if (own->staged.n == 0)
    return NULL;
  DT_TRY(dt__cuda_stream_check(own->stream, "an input on the host"));
  DT_TRY(dt__cuda_region_reserve(&own->staged_region, own->gpu));
  for (uint32_t k = 0; dt__staged_next(&own->staged, &k, &input);) {
    size_t begin = (at + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    dt__staged_put(&input, dt__cuda_pointer(own->staged_region.base + begin));
    at = begin + input.bytes;
  }
  DT_TRY(grow(own, at));
  own->staged_end = at;
  dt__staged_enter(&own->staged, call);
  return NULL;
}

// ---- Copies ---------------------------------------------------------------------------------------

// All of them by one copy, which has the gaps between them, too.
static dt_status_t copy_at_once(dt_cuda_session_t *own) {
  dt_staged_input_t input;
  char *room = NULL;
  if (own->staged_end == 0)
    return NULL;
  DT_TRY(dt__cuda_stage_room(&own->staging, own->gpu->device, own->staged_end, &room));
  for (uint32_t k = 0; dt__staged_next(&own->staged, &k, &input);)
    if (input.bytes)
      memcpy(room + (dt__cuda_address(input.to) - own->staged_region.base), input.from,
             input.bytes);
  return dt__cuda_stage_send(&own->staging, own->gpu->device, own->stream->handle,
                             own->staged_region.base, own->staged_end);
}

static dt_status_t copy_each(dt_cuda_session_t *own, dt_pool_t *pool) {
  dt_staged_input_t input;
  for (uint32_t k = 0; dt__staged_next(&own->staged, &k, &input);)
    DT_TRY(dt__cuda_stage_in(&own->staging, own->gpu->device, pool, own->stream->handle,
                             dt__cuda_address(input.to), input.from, input.bytes));
  return NULL;
}

dt_status_t dt__stage_copy(const dt_call_t *call, const dt_variant_t *variant) {
  dt_cuda_session_t *own = call->session->own;
  dt_staged_input_t input;
  dt_recorder_t *recorder = call->recorder;
  uint64_t bytes = 0;
  if (own->staged.n == 0)
    return NULL;
  DT_TRY(dt__staged_check(&own->staged, call, variant));
  dt_stamp_t *stamp =
      recorder ? dt__record_queue(recorder, DT_STAMP_TO_DEVICE, NULL, NULL, 0) : NULL;
  DT_TRY(own->staged_end <= DT_CUDA_STAGING_ROOM ? copy_at_once(own)
                                                 : copy_each(own, call->session->runtime->pool));
  own->staged_count += own->staged.n;
  for (uint32_t k = 0; dt__staged_next(&own->staged, &k, &input);)
    bytes += dt__tensor_bytes(input.given);
  own->staged_bytes += bytes;
  if (stamp) {
    dt__record_queued(recorder, stamp, bytes);
    dt__record_part(recorder, DT_PROFILE_MEMORY);
  }
  return NULL;
}
