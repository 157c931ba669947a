// SPDX-License-Identifier: Apache-2.0
// A program whose launches vary in number with its sizes: an attention whose scores do not fit the
// second-level cache runs some heads at a time (fuse/slices.c). As a graph it has as many nodes as
// the most launches so far, and empty work where there are fewer.
#include "tests/unit/exec/exec_test.h"

#include "runtime/exec/session_device.h"
#include "tests/fake_cuda/fake_cuda.h"

enum { HEADS = 3, WIDTH = 4, L2 = 2048 };

static dt_status_t attention(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t scores = dt_matmul(t, in[0], dt_transpose(t, in[1], 2, 3));
  out[0] = dt_matmul(t, dt_softmax(t, scores, 2), in[2]);
  return NULL;
}

static const dt_dim_decl_t dims[] = {{.name = "batch"},
                                     {.is_static = true, .value = HEADS},
                                     {.name = "length"},
                                     {.is_static = true, .value = WIDTH}};
static const dt_input_decl_t inputs[] = {{.name = "q", .dtype = DT_F32, .rank = 4, .dims = dims},
                                         {.name = "k", .dtype = DT_F32, .rank = 4, .dims = dims},
                                         {.name = "v", .dtype = DT_F32, .rank = 4, .dims = dims}};
static const subject_t subject = {"attention", attention, 3, 1, inputs};

typedef struct place_t {
  dt_runtime_t *runtime;
  dt_session_t *host, *device;
  dt_function_t *function, *oracle;
  rng_t rng;
} place_t;

// One call as a graph, one by the evaluator.
static void compare(place_t *place, int64_t batch, int64_t length) {
  static const dt_call_options_t as_graph = {.mode = DT_CALL_REDUCE_OVERHEAD};
  const int64_t sizes[] = {batch, HEADS, length, WIDTH};
  dt_tensor_t *host[3], *there[3] = {NULL}, *got = NULL, *want = NULL, *back = NULL;
  for (uint32_t k = 0; k < 3; k++) {
    host[k] = tensor_f32(&place->rng, 4, sizes);
    expect_ok(dt_tensor_create_on(place->device, DT_F32, 4, sizes, &there[k]));
    expect_ok(dt_tensor_copy(place->device, host[k], there[k]));
  }
  expect_ok(dt_call_with(place->device, place->function, there, 3, &got, 1, &as_graph));
  expect_ok(dt_call(place->host, place->oracle, host, 3, &want, 1));
  expect_ok(dt_tensor_create_empty(DT_F32, 4, sizes, &back));
  expect_ok(dt_tensor_copy(place->device, got, back));
  expect_close(back, want, 1e-5, 1e-4, "attention");
  for (uint32_t k = 0; k < 3; k++) {
    dt_tensor_release(host[k]);
    dt_tensor_release(there[k]);
  }
  dt_tensor_release(got);
  dt_tensor_release(want);
  dt_tensor_release(back);
}

static void slices_are_nodes(void **state) {
  (void)state;
  static const int64_t sizes[][2] = {{1, 3},  {2, 20}, {1, 3}, {0, 5}, {2, 33}, {2, 20},
                                     {1, 40}, {3, 1},  {2, 0}, {1, 1}, {2, 33}};
  place_t place = {.rng = {11}};
  fake_cuda_reset(11);
  fake_cuda_processors(2); // the cache counts for each
  dt_runtime_options_t options = {.threads = 1, .compile_threads = 1};
  dt_session_options_t on = {.struct_size = sizeof(on), .device = DT_CUDA};
  expect_ok(dt_runtime_create(&options, &place.runtime));
  expect_ok(dt_session_create(place.runtime, &place.host));
  expect_ok(dt_session_create_on(place.runtime, &on, &place.device));
  place.device->device->gpu->device->l2_bytes = L2;
  place.function = subject_function(place.runtime, &subject, NULL, DT_ANSWER_COMPILED);
  place.oracle = subject_function(place.runtime, &subject, NULL, DT_ANSWER_EVALUATOR);
  dt_session_stats_t stats = {.struct_size = sizeof(stats)};
  uint64_t nodes = 0, grown = 0, fewer = 0, n = sizeof(sizes) / sizeof(sizes[0]);
  for (uint64_t k = 0; k < n; k++) {
    uint64_t builds = stats.builds;
    compare(&place, sizes[k][0], sizes[k][1]);
    expect_ok(dt_session_stats(place.device, &stats));
    grown += stats.executable_nodes > nodes;
    fewer += stats.builds == builds;
    assert_true(stats.executable_nodes >= nodes);
    nodes = stats.executable_nodes;
  }
  assert_int_equal(stats.graph_calls, n);
  assert_int_equal(stats.graph_skips, 0);
  assert_int_equal(stats.builds, grown);
  assert_true(grown >= 2 && fewer >= 4);
  assert_int_equal(stats.executables, 1);
  print_message("%llu kernels at most, assembled %llu times\n", (unsigned long long)nodes,
                (unsigned long long)grown);
  dt_function_release(place.function);
  dt_function_release(place.oracle);
  dt_session_destroy(place.device);
  dt_session_destroy(place.host);
  dt_runtime_release(place.runtime);
  const char *first = "";
  if (fake_cuda_violations(&first))
    fail_msg("%s", first);
  assert_int_equal(fake_cuda_held(), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(slices_are_nodes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
