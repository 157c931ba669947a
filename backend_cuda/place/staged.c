// SPDX-License-Identifier: Apache-2.0
// See staged.h.
#include "backend_cuda/place/place.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

#define ALIGNMENT ((size_t)512) // of each input's first byte

static bool is_staged(const dt_call_t *call, dt_tensor_t *const *given, uint32_t index) {
  return given[index]->device == DT_CPU && call->function->inputs[index].kind == DT_INPUT_TENSOR;
}

static uint32_t count_staged(const dt_call_t *call) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < call->function->n_inputs; i++)
    n += is_staged(call, call->inputs, i);
  return n;
}

// ---- Places ---------------------------------------------------------------------------------------

static dt_status_t reserve(dt_staged_t *staged, uint32_t n) {
  if (n <= staged->cap)
    return NULL;
  struct dt_tensor *tensors = dt__calloc(n, sizeof(*tensors));
  dt_tensor_t **inputs = dt__calloc(n, sizeof(dt_tensor_t *));
  if (!tensors || !inputs) {
    dt__free(tensors);
    dt__free(inputs);
    return DT_NO_MEMORY();
  }
  dt__free(staged->tensors);
  dt__free(staged->inputs);
  staged->tensors = tensors;
  staged->inputs = inputs;
  staged->cap = n;
  return NULL;
}

// The tensor as it will be at `at`: the same layout, gaps included.
static void stand_in(dt_staged_t *staged, uint32_t index, dt_device_t place,
                     const dt_tensor_t *host, size_t *at) {
  struct dt_tensor *own = &staged->tensors[index];
  dt_bytes_t reach = dt__tensor_reach(host);
  size_t begin = (*at + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  size_t lead = reach.end > reach.begin ? (uintptr_t)host->data - reach.begin : 0;
  *own = (struct dt_tensor){.refs = 1,
                            .dtype = host->dtype,
                            .device = place,
                            .rank = host->rank,
                            .count = host->count,
                            .contiguous = host->contiguous,
                            .data = dt__cuda_pointer(staged->region.base + begin + lead)};
  memcpy(own->sizes, host->sizes, sizeof(own->sizes));
  memcpy(own->strides, host->strides, sizeof(own->strides));
  staged->inputs[index] = own;
  *at = begin + (reach.end - reach.begin);
}

static dt_status_t grow(dt_cuda_session_t *own, size_t bytes) {
  dt_staged_t *staged = &own->staged;
  if (bytes <= staged->region.bytes)
    return NULL;
  if (own->graphs.frozen) {
    own->graphs.frozen_growths++;
    DT_LOG(DT_LOG_GRAPHS, 1, "a frozen session takes %zu bytes for inputs on the host", bytes);
  }
  return dt__status_annotate(dt__cuda_region_grow(&staged->region, own->gpu, bytes),
                             "%zu bytes for inputs that are on the host", bytes);
}

dt_status_t dt__stage_place(dt_call_t *call) {
  dt_cuda_session_t *own = call->session->own;
  dt_staged_t *staged = &own->staged;
  uint32_t n_inputs = call->function->n_inputs;
  size_t at = 0;
  staged->n = count_staged(call);
  if (staged->n == 0)
    return NULL;
  DT_TRY(dt__cuda_stream_check(own->stream, "an input on the host"));
  DT_TRY(reserve(staged, n_inputs));
  DT_TRY(dt__cuda_region_reserve(&staged->region, own->gpu));
  for (uint32_t i = 0; i < n_inputs; i++) {
    if (is_staged(call, call->inputs, i))
      stand_in(staged, i, call->session->place, call->inputs[i], &at);
    else
      staged->inputs[i] = call->inputs[i];
  }
  DT_TRY(grow(own, at));
  staged->bytes = at;
  staged->given = call->inputs;
  call->inputs = staged->inputs;
  return NULL;
}

// ---- Copies ---------------------------------------------------------------------------------------

static dt_status_t check_updates(const dt_call_t *call, const dt_variant_t *variant) {
  const dt_graph_t *graph = variant->traced->graph;
  for (uint32_t k = 0; k < graph->updates.len; k++) {
    uint32_t index = graph->updates.items[k].input;
    char name[96];
    if (is_staged(call, dt__cuda_session(call->session)->staged.given, index))
      return DT_FAIL(DT_E_ARGUMENT,
                     "%s: the program updates it, and it is on the host; make it by "
                     "dt_tensor_create_on, and get at the elements by dt_tensor_copy",
                     dt__input_name(call->function, index, name, sizeof(name)));
  }
  return NULL;
}

// All of them by one copy, which has the gaps between them, too.
static dt_status_t copy_at_once(const dt_call_t *call, dt_cuda_session_t *own) {
  dt_staged_t *staged = &own->staged;
  char *room = NULL;
  if (staged->bytes == 0)
    return NULL;
  DT_TRY(dt__cuda_stage_room(&own->staging, own->gpu->device, staged->bytes, &room));
  for (uint32_t i = 0; i < call->function->n_inputs; i++) {
    if (!is_staged(call, staged->given, i))
      continue;
    dt_bytes_t from = dt__tensor_reach(staged->given[i]);
    dt_bytes_t to = dt__tensor_reach(staged->inputs[i]);
    if (from.end > from.begin)
      memcpy(room + (to.begin - staged->region.base), dt__cuda_pointer(from.begin),
             from.end - from.begin);
  }
  return dt__cuda_stage_send(&own->staging, own->gpu->device, own->stream->handle,
                             staged->region.base, staged->bytes);
}

static dt_status_t copy_each(const dt_call_t *call, dt_cuda_session_t *own) {
  dt_staged_t *staged = &own->staged;
  for (uint32_t i = 0; i < call->function->n_inputs; i++) {
    if (!is_staged(call, staged->given, i))
      continue;
    dt_bytes_t from = dt__tensor_reach(staged->given[i]);
    dt_bytes_t to = dt__tensor_reach(staged->inputs[i]);
    DT_TRY(dt__cuda_stage_in(&own->staging, own->gpu->device, own->stream->handle, to.begin,
                             dt__cuda_pointer(from.begin), from.end - from.begin));
  }
  return NULL;
}

dt_status_t dt__stage_copy(const dt_call_t *call, const dt_variant_t *variant) {
  dt_cuda_session_t *own = call->session->own;
  dt_staged_t *staged = &own->staged;
  if (staged->n == 0)
    return NULL;
  DT_TRY(check_updates(call, variant));
  DT_TRY(staged->bytes <= DT_CUDA_STAGING_ROOM ? copy_at_once(call, own) : copy_each(call, own));
  staged->all_inputs += staged->n;
  for (uint32_t i = 0; i < call->function->n_inputs; i++)
    if (is_staged(call, staged->given, i))
      staged->all_bytes += dt__tensor_bytes(staged->given[i]);
  return NULL;
}

void dt__staged_fini(dt_staged_t *staged, dt_cuda_gpu_t *gpu) {
  dt__cuda_region_free(&staged->region, gpu);
  dt__free(staged->tensors);
  dt__free(staged->inputs);
  *staged = (dt_staged_t){0};
}
