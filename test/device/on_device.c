// SPDX-License-Identifier: Apache-2.0
// See on_device.h. A strided tensor is copied as the bytes from its first to its last element.
#include "test/device/on_device.h"

#include "ductile/device.h"
#include "ductile/experimental.h"

#include <stdlib.h>
#include <string.h>

// The CPU where nothing is said, or no such device.
static dt_session_options_t where(void) {
  const char *name = getenv("DUCTILE_TEST_DEVICE");
  dt_session_options_t options = {.struct_size = sizeof(options)};
  if (name)
    dt_status_free(dt_device_parse(name, &options.device, &options.ordinal));
  return options;
}

bool on_device(void) { return where().device != DT_CPU; }

bool on_device_graphs(void) {
  const char *graphs = getenv("DUCTILE_REDUCE_OVERHEAD");
  return on_device() && graphs && strcmp(graphs, "1") == 0;
}

bool on_device_were_graphs(const dt_function_counters_t *stats, uint64_t *out_graphs,
                           const char **out_why) {
  *out_graphs = stats->graph_calls;
  *out_why = stats->graph_skip ? stats->graph_skip : "calls are missing";
  if (stats->graph_calls + stats->graph_skips != stats->calls)
    return false;
  return stats->graph_skips == 0 || stats->kernels == 0;
}

dt_status_t on_device_session(dt_runtime_t *runtime, dt_session_t **out) {
  const dt_session_options_t options = where();
  return dt_session_create(runtime, &options, out);
}

typedef struct span_t {
  int64_t low, high; // elements from element (0, …, 0): the first, and one past the last
} span_t;

static span_t span_of(const dt_tensor_t *t) {
  span_t span = {0, 1};
  if (dt_tensor_count(t) == 0)
    return (span_t){0, 0};
  for (uint32_t d = 0; d < dt_tensor_rank(t); d++) {
    int64_t reach = (dt_tensor_sizes(t)[d] - 1) * dt_tensor_strides(t)[d];
    *(reach < 0 ? &span.low : &span.high) += reach;
  }
  return span;
}

static void release_base(void *user) { dt_tensor_release(user); }

// A view of `base`, which it takes, with the layout of `host`.
static dt_status_t view(dt_tensor_t *base, const dt_tensor_t *host, int64_t first,
                        dt_tensor_t **out) {
  dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                           .dtype = dt_tensor_dtype(host),
                           .device = where().device,
                           .rank = dt_tensor_rank(host),
                           .sizes = dt_tensor_sizes(host),
                           .strides = dt_tensor_strides(host),
                           .data = (char *)dt_tensor_data(base) + first,
                           .release = release_base,
                           .user = base};
  dt_status_t status = dt_tensor_create(&desc, out);
  if (status)
    dt_tensor_release(base);
  return status;
}

dt_status_t on_device_take(dt_session_t *session, dt_tensor_t *host, dt_tensor_t **out) {
  *out = NULL;
  if (!on_device()) {
    dt_tensor_retain(host);
    *out = host;
    return NULL;
  }
  span_t span = span_of(host);
  int64_t size = (int64_t)dt_dtype_size(dt_tensor_dtype(host)),
          bytes = (span.high - span.low) * size;
  dt_tensor_t *flat = NULL, *base = NULL;
  dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                           .dtype = DT_U8,
                           .rank = 1,
                           .sizes = &bytes,
                           .data = (char *)dt_tensor_data(host) + span.low * size};
  dt_status_t status = dt_tensor_create(&desc, &flat);
  if (!status)
    status = dt_tensor_create_on(session, DT_U8, 1, &bytes, &base);
  if (!status)
    status = dt_tensor_copy(session, flat, base);
  dt_tensor_release(flat);
  if (status) {
    dt_tensor_release(base);
    return status;
  }
  return view(base, host, -span.low * size, out);
}

dt_status_t on_device_bring(dt_session_t *session, dt_tensor_t *tensor, dt_tensor_t **out) {
  *out = NULL;
  if (!on_device()) {
    dt_tensor_retain(tensor);
    *out = tensor;
    return NULL;
  }
  dt_status_t status = dt_tensor_create_empty(dt_tensor_dtype(tensor), dt_tensor_rank(tensor),
                                              dt_tensor_sizes(tensor), out);
  size_t bytes = (size_t)dt_tensor_count(tensor) * dt_dtype_size(dt_tensor_dtype(tensor));
  if (!status)
    status = dt_tensor_read(session, tensor, dt_tensor_data(*out), bytes);
  if (status) {
    dt_tensor_release(*out);
    *out = NULL;
  }
  return status;
}

// ---- Calls ------------------------------------------------------------------------------------------
#define MOST 64

static dt_status_t take_arguments(dt_session_t *session, const dt_input_decl_t *decls,
                                  dt_tensor_t *const *inputs, uint32_t n, dt_tensor_t **there) {
  dt_status_t status = NULL;
  for (uint32_t k = 0; k < n && !status; k++) {
    if (decls[k].kind == DT_INPUT_TENSOR && inputs[k]) {
      status = on_device_take(session, inputs[k], &there[k]);
    } else {
      dt_tensor_retain(inputs[k]);
      there[k] = inputs[k];
    }
  }
  return status;
}

static dt_status_t bring_results(dt_session_t *session, dt_tensor_t *const *got,
                                 dt_tensor_t **outputs, uint32_t n) {
  for (uint32_t k = 0; k < n; k++) {
    dt_tensor_t *host = NULL;
    dt_status_t status = on_device_bring(session, got[k], &host);
    if (status)
      return status;
    if (!outputs[k]) {
      outputs[k] = host;
      continue;
    }
    memcpy(dt_tensor_data(outputs[k]), dt_tensor_data(host),
           (size_t)dt_tensor_count(host) * dt_dtype_size(dt_tensor_dtype(host)));
    dt_tensor_release(host);
  }
  return NULL;
}

static void release_all(dt_tensor_t **tensors, uint32_t n) {
  for (uint32_t k = 0; k < n; k++)
    dt_tensor_release(tensors[k]);
}

dt_status_t on_device_call(dt_session_t *session, dt_function_t *function,
                           const dt_input_decl_t *decls, dt_tensor_t *const *inputs,
                           uint32_t n_inputs, dt_tensor_t **outputs, uint32_t n_outputs) {
  if (!on_device() || n_inputs > MOST || n_outputs > MOST)
    return dt_call(session, function, inputs, n_inputs, outputs, n_outputs, NULL);
  dt_tensor_t *there[MOST] = {NULL}, *got[MOST] = {NULL}, *made[MOST] = {NULL};
  dt_status_t status = take_arguments(session, decls, inputs, n_inputs, there);
  for (uint32_t k = 0; k < n_outputs && !status; k++)
    if (outputs[k])
      status = on_device_take(session, outputs[k], &got[k]);
  if (!status)
    status = dt_call(session, function, there, n_inputs, got, n_outputs, NULL);
  memcpy(made, outputs, n_outputs * sizeof(*made));
  if (!status)
    status = dt_session_wait(session);
  if (!status)
    status = bring_results(session, got, made, n_outputs);
  for (uint32_t k = 0; k < n_outputs; k++) {
    if (status && !outputs[k])
      dt_tensor_release(made[k]);
    else
      outputs[k] = made[k];
  }
  release_all(there, n_inputs);
  release_all(got, n_outputs);
  return status;
}

dt_status_t on_device_prepare(dt_function_t *function) {
  const dt_prepare_options_t options = {.device = where().device};
  return dt_function_prepare(function, &options);
}
