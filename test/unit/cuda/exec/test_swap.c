// SPDX-License-Identifier: Apache-2.0
// Code that is replaced under traffic: calls on several threads, plain and as graphs, go on giving
// the same answers, graphs set their nodes to the new functions, and nothing is left behind.
#include "test/support/subjects.h"

#include "runtime/exec/swap.h"
#include "test/fake_cuda/fake_cuda.h"

#include <pthread.h>

#define CALLERS 3
#define CALLS 24
#define SWAPS 3

static dt_status_t rows_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  (void)closure;
  dt_value_t rows = dt_softmax(t, in[0], -1);
  out[0] = dt_matmul(t, rows, in[1]);
  return NULL;
}

static const dt_dim_decl_t x_dims[] = {{.name = "rows"}, {.name = "width"}};
static const dt_dim_decl_t w_dims[] = {{.name = "width"}, {.name = "columns"}};
static const dt_input_decl_t inputs[] = {{.name = "x", .dtype = DT_F32, .rank = 2, .dims = x_dims},
                                         {.name = "w", .dtype = DT_F32, .rank = 2, .dims = w_dims}};
static const subject_t subject = {"rows", rows_program, 2, 1, inputs};

typedef struct caller_t {
  dt_runtime_t *runtime;
  dt_function_t *function, *oracle;
  dt_call_mode_t mode;
  uint64_t seed;
  dt_session_counters_t stats;
  uint32_t wrong;
} caller_t;

static dt_tensor_t *moved(dt_session_t *session, dt_tensor_t *from, bool to_device) {
  dt_tensor_t *to = NULL;
  if (to_device)
    expect_ok(dt_tensor_create_on(session, dt_tensor_dtype(from), dt_tensor_rank(from),
                                  dt_tensor_sizes(from), &to));
  else
    expect_ok(dt_tensor_create_empty(dt_tensor_dtype(from), dt_tensor_rank(from),
                                     dt_tensor_sizes(from), &to));
  expect_ok(dt_tensor_copy(session, from, to));
  return to;
}

static bool equal(dt_tensor_t *got, dt_tensor_t *want) {
  const float *a = dt_tensor_data(got), *b = dt_tensor_data(want);
  for (int64_t k = 0; k < dt_tensor_count(want); k++)
    if (!(a[k] - b[k] < 1e-5f && b[k] - a[k] < 1e-5f))
      return false;
  return true;
}

static void call_once(caller_t *own, dt_session_t *host, dt_session_t *device, rng_t *rng,
                      int64_t rows) {
  const int64_t x[] = {rows, 5}, w[] = {5, 3};
  dt_tensor_t *in[] = {tensor_f32(rng, 2, x), tensor_f32(rng, 2, w)};
  dt_tensor_t *there[] = {moved(device, in[0], true), moved(device, in[1], true)};
  dt_tensor_t *got = NULL, *want = NULL;
  const dt_call_options_t options = {.struct_size = sizeof(options), .mode = own->mode};
  expect_ok(dt_call(device, own->function, there, 2, &got, 1, &options));
  expect_ok(dt_call(host, own->oracle, in, 2, &want, 1, NULL));
  dt_tensor_t *back = moved(device, got, false);
  expect_ok(dt_session_wait(device));
  own->wrong += !equal(back, want);
  dt_tensor_t *all[] = {in[0], in[1], there[0], there[1], got, want, back};
  for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++)
    dt_tensor_release(all[k]);
}

static void *run_calls(void *opaque) {
  caller_t *own = opaque;
  dt_session_t *host = NULL, *device = NULL;
  dt_session_options_t on = {.struct_size = sizeof(on), .device = DT_CUDA};
  rng_t rng = {own->seed};
  expect_ok(dt_session_create(own->runtime, NULL, &host));
  expect_ok(dt_session_create(own->runtime, &on, &device));
  for (int64_t k = 0; k < CALLS; k++)
    call_once(own, host, device, &rng, 1 + k % 7);
  own->stats.struct_size = sizeof(own->stats);
  expect_ok(dt_session_counters(device, &own->stats));
  dt_session_destroy(device);
  dt_session_destroy(host);
  return NULL;
}

static void traffic_sees_no_swap(void **state) {
  (void)state;
  dt_runtime_t *runtime = NULL;
  dt_runtime_options_t options = {.threads = 1, .compile_threads = 2};
  fake_cuda_reset(7);
  expect_ok(dt_runtime_create(&options, &runtime));
  dt_function_t *function = subject_function(runtime, &subject, NULL, DT_ANSWER_COMPILED);
  dt_function_t *oracle = subject_function(runtime, &subject, NULL, DT_ANSWER_EVALUATOR);
  dt_status_t early = dt__function_recompile(function);
  assert_int_equal(dt_status_code(early), DT_E_STATE);
  dt_status_free(early);
  expect_ok(dt_function_prepare(function, &(dt_prepare_options_t){.device = DT_CUDA}));
  caller_t callers[CALLERS];
  pthread_t threads[CALLERS];
  for (uint32_t k = 0; k < CALLERS; k++) {
    callers[k] = (caller_t){.runtime = runtime,
                            .function = function,
                            .oracle = oracle,
                            .mode = k ? DT_CALL_REDUCE_OVERHEAD : DT_CALL_PLAIN,
                            .seed = 11 + k};
    assert_int_equal(pthread_create(&threads[k], NULL, run_calls, &callers[k]), 0);
  }
  for (uint32_t k = 0; k < SWAPS; k++)
    expect_ok(dt__function_recompile(function));
  for (uint32_t k = 0; k < CALLERS; k++) {
    assert_int_equal(pthread_join(threads[k], NULL), 0);
    assert_int_equal(callers[k].wrong, 0);
    assert_int_equal(callers[k].stats.graph_calls, k ? CALLS : 0);
    assert_int_equal(callers[k].stats.builds, k ? 1 : 0);
  }
  // A session that was set before a swap is set anew after it, and not built.
  caller_t last = {
      .runtime = runtime, .function = function, .oracle = oracle, .mode = DT_CALL_REDUCE_OVERHEAD};
  dt_session_t *host = NULL, *device = NULL;
  dt_session_options_t on = {.struct_size = sizeof(on), .device = DT_CUDA};
  rng_t rng = {3};
  expect_ok(dt_session_create(runtime, NULL, &host));
  expect_ok(dt_session_create(runtime, &on, &device));
  call_once(&last, host, device, &rng, 4);
  expect_ok(dt__function_recompile(function));
  call_once(&last, host, device, &rng, 4);
  dt_session_counters_t stats = {.struct_size = sizeof(stats)};
  expect_ok(dt_session_counters(device, &stats));
  assert_int_equal(last.wrong, 0);
  assert_true(stats.functions_set > 0);
  assert_true(stats.builds <= 1);
  dt_session_destroy(device);
  dt_session_destroy(host);
  dt_function_release(function);
  dt_function_release(oracle);
  dt_runtime_release(runtime);
  const char *first = NULL;
  if (fake_cuda_violations(&first))
    fail_msg("%s", first);
  assert_int_equal(fake_cuda_held(), 0);
}

// Callers need their cores: code for traffic is made by a quarter of the threads, one unit each.
static void replacing_takes_few_threads(void **state) {
  (void)state;
  dt_runtime_t *runtime = NULL;
  dt_runtime_options_t options = {.threads = 1, .compile_threads = 4};
  fake_cuda_reset(9);
  expect_ok(dt_runtime_create(&options, &runtime));
  dt_function_t *function = subject_function(runtime, &subject, NULL, DT_ANSWER_COMPILED);
  expect_ok(dt_function_prepare(function, &(dt_prepare_options_t){.device = DT_CUDA}));
  uint64_t first = fake_cuda_calls(DT_CUDA_SYM_module_load);
  expect_ok(dt__function_recompile(function));
  uint64_t again = fake_cuda_calls(DT_CUDA_SYM_module_load) - first;
  assert_true(first > 1); // enough for several threads
  assert_int_equal(again, 1);
  dt_function_release(function);
  dt_runtime_release(runtime);
}

RUN_TESTS(TEST(traffic_sees_no_swap), TEST(replacing_takes_few_threads))
