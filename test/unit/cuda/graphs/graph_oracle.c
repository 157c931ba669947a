// SPDX-License-Identifier: Apache-2.0
// See graph_oracle.h.
#include "test/unit/cuda/graphs/graph_oracle.h"

#include "test/fake_cuda/fake_cuda.h"

void graph_oracle_open(graph_oracle_t *own, const subject_t *subject, uint64_t seed,
                       int processors) {
  *own = (graph_oracle_t){.subject = subject, .rng = {seed}};
  fake_cuda_reset(seed);
  if (processors)
    fake_cuda_processors(processors);
  dt_runtime_options_t options = {.threads = 1, .compile_threads = 1};
  dt_session_options_t on = {.struct_size = sizeof(on), .device = DT_CUDA};
  expect_ok(dt_runtime_create(&options, &own->runtime));
  expect_ok(dt_session_create(own->runtime, NULL, &own->host));
  expect_ok(dt_session_create(own->runtime, &on, &own->device));
  own->function = subject_function(own->runtime, subject, NULL, DT_ANSWER_COMPILED);
  own->oracle = subject_function(own->runtime, subject, NULL, DT_ANSWER_EVALUATOR);
}

void graph_oracle_close(graph_oracle_t *own) {
  dt_function_release(own->function);
  dt_function_release(own->oracle);
  dt_session_destroy(own->device);
  dt_session_destroy(own->host);
  dt_runtime_release(own->runtime);
  const char *first = "";
  if (fake_cuda_violations(&first))
    fail_msg("%s", first);
  assert_int_equal(fake_cuda_held(), 0);
}

void graph_oracle_compare(graph_oracle_t *own, uint32_t rank, const int64_t *sizes) {
  static const dt_call_options_t as_graph = {.mode = DT_CALL_REDUCE_OVERHEAD};
  uint32_t n = own->subject->n_inputs;
  dt_tensor_t *host[4], *there[4] = {NULL}, *got = NULL, *want = NULL, *back = NULL;
  assert_true(n <= 4);
  for (uint32_t k = 0; k < n; k++) {
    host[k] = tensor_f32(&own->rng, rank, sizes);
    expect_ok(dt_tensor_create_on(own->device, DT_F32, rank, sizes, &there[k]));
    expect_ok(dt_tensor_copy(own->device, host[k], there[k]));
  }
  expect_ok(dt_call(own->device, own->function, there, n, &got, 1, &as_graph));
  expect_ok(dt_call(own->host, own->oracle, host, n, &want, 1, NULL));
  expect_ok(dt_tensor_create_empty(DT_F32, rank, sizes, &back));
  expect_ok(dt_tensor_copy(own->device, got, back));
  expect_close(back, want, 1e-5, 1e-4, own->subject->name);
  for (uint32_t k = 0; k < n; k++) {
    dt_tensor_release(host[k]);
    dt_tensor_release(there[k]);
  }
  dt_tensor_release(got);
  dt_tensor_release(want);
  dt_tensor_release(back);
}
