// SPDX-License-Identifier: Apache-2.0
// See staged.h.
#include "runtime/exec/staged.h"

#include "runtime/base/memory.h"

#include <string.h>

static bool is_on_host(const dt_call_t *call, uint32_t index) {
  return call->inputs[index]->device == DT_CPU &&
         dt__is_tensor_kind(call->function->inputs[index].kind);
}

static uint32_t count(const dt_call_t *call) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < call->function->n_inputs; i++)
    n += is_on_host(call, i);
  return n;
}

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
  dt__staged_fini(staged);
  staged->tensors = tensors;
  staged->inputs = inputs;
  staged->cap = n;
  return NULL;
}

// The tensor as it will be at the place: the same layout, gaps included.
static void stand_in(struct dt_tensor *own, dt_device_t place, const dt_tensor_t *host) {
  *own = (struct dt_tensor){.refs = 1,
                            .dtype = host->dtype,
                            .device = place,
                            .rank = host->rank,
                            .count = host->count,
                            .contiguous = host->contiguous,
                            .order = host->order};
  memcpy(own->sizes, host->sizes, sizeof(own->sizes));
  memcpy(own->strides, host->strides, sizeof(own->strides));
}

dt_status_t dt__staged_begin(dt_staged_t *staged, const dt_call_t *call) {
  uint32_t n_inputs = call->function->n_inputs, n = count(call);
  staged->n = staged->n_inputs = 0;
  if (n == 0)
    return NULL;
  DT_TRY(reserve(staged, n_inputs));
  for (uint32_t i = 0; i < n_inputs; i++) {
    staged->inputs[i] = call->inputs[i];
    if (is_on_host(call, i)) {
      stand_in(&staged->tensors[i], call->session->place, call->inputs[i]);
      staged->inputs[i] = &staged->tensors[i];
    }
  }
  staged->n = n;
  staged->n_inputs = n_inputs;
  staged->given = call->inputs;
  return NULL;
}

static bool is_staged(const dt_staged_t *staged, uint32_t index) {
  return index < staged->n_inputs && staged->inputs[index] == &staged->tensors[index];
}

// From the first byte of a tensor to its element (0, …, 0).
static size_t lead_of(const dt_tensor_t *tensor) {
  return tensor->count ? (uintptr_t)tensor->data - dt__tensor_reach(tensor).begin : 0;
}

bool dt__staged_next(const dt_staged_t *staged, uint32_t *at, dt_staged_input_t *out) {
  while (*at < staged->n_inputs && !is_staged(staged, *at))
    ++*at;
  if (*at >= staged->n_inputs)
    return false;
  struct dt_tensor *own = &staged->tensors[*at];
  const dt_tensor_t *given = staged->given[*at];
  dt_bytes_t reach = dt__tensor_reach(given);
  size_t lead = lead_of(given);
  *out = (dt_staged_input_t){.tensor = own,
                             .given = given,
                             .from = (const void *)((uintptr_t)given->data - lead),
                             .to = (void *)((uintptr_t)own->data - lead),
                             .bytes = reach.end - reach.begin};
  ++*at;
  return true;
}

void dt__staged_put(const dt_staged_input_t *input, void *to) {
  input->tensor->data = (void *)((uintptr_t)to + lead_of(input->given));
}

void dt__staged_enter(dt_staged_t *staged, dt_call_t *call) {
  if (staged->n)
    call->inputs = staged->inputs;
}

dt_status_t dt__staged_check(const dt_staged_t *staged, const dt_call_t *call,
                             const dt_variant_t *variant) {
  const dt_graph_t *graph = variant->traced->graph;
  for (uint32_t k = 0; k < graph->updates.len && staged->n; k++) {
    uint32_t index = graph->updates.items[k].input;
    char name[96];
    if (is_staged(staged, index))
      return DT_FAIL(DT_E_ARGUMENT,
                     "%s: the program updates it, and it is on the host; make it by "
                     "dt_tensor_create_on, and get at the elements by dt_tensor_copy",
                     dt__input_name(call->function, index, name, sizeof(name)));
  }
  return NULL;
}

void dt__staged_fini(dt_staged_t *staged) {
  dt__free(staged->tensors);
  dt__free(staged->inputs);
  *staged = (dt_staged_t){0};
}
