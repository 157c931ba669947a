// SPDX-License-Identifier: Apache-2.0
// Calls as CUDA graphs on the programs of exec_fake.h: what their tests share.
#ifndef DT_TESTS_UNIT_CUDA_GRAPHS_GRAPH_CALLS_H
#define DT_TESTS_UNIT_CUDA_GRAPHS_GRAPH_CALLS_H

#include "ductile/experimental.h"
#include "test/unit/cuda/exec/exec_fake.h"

#include <stdlib.h>

static const dt_call_options_t as_graph = {.struct_size = sizeof(dt_call_options_t),
                                           .mode = DT_CALL_REDUCE_OVERHEAD};

static inline dt_session_counters_t session_stats(dt_session_t *session) {
  dt_session_counters_t stats = {.struct_size = sizeof(stats)};
  expect_ok(dt_session_counters(session, &stats));
  return stats;
}

// One input or, for "add", two times the same. The result is new.
static inline dt_tensor_t *graph_call(dt_session_t *session, dt_function_t *function,
                                      uint32_t n_inputs, dt_tensor_t *x) {
  dt_tensor_t *out = NULL;
  expect_ok(dt_call(session, function, (dt_tensor_t *[]){x, x}, n_inputs, &out, 1, &as_graph));
  return out;
}

// The first `n` elements of the device's tensor `base`, which must outlive it.
static inline dt_tensor_t *first_of(dt_tensor_t *base, int64_t n) {
  dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                           .dtype = dt_tensor_dtype(base),
                           .device = DT_CUDA,
                           .rank = 1,
                           .sizes = &n,
                           .data = dt_tensor_data(base)};
  dt_tensor_t *out = NULL;
  expect_ok(dt_tensor_create(&desc, &out));
  return out;
}

// The elements are first, first + step, …; some of many are looked at.
static inline void expect_ramp(dt_session_t *session, dt_tensor_t *tensor, int64_t n, float first,
                               float step) {
  assert_int_equal(dt_tensor_count(tensor), n);
  float *data = malloc((size_t)(n + 1) * sizeof(*data));
  assert_non_null(data);
  expect_ok(dt_tensor_read(session, tensor, data, (size_t)n * sizeof(*data)));
  for (int64_t k = 0; k < n; k += k < 300 || k > n - 300 ? 1 : 97)
    if (data[k] != first + step * (float)k)
      fail_msg("element %lld of %lld: got %f", (long long)k, (long long)n, (double)data[k]);
  free(data);
}

#endif // DT_TESTS_UNIT_CUDA_GRAPHS_GRAPH_CALLS_H
