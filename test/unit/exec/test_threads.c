// SPDX-License-Identifier: Apache-2.0
// Many callers at once: the first call is compiled once, updates are never seen by halves, and
// functions come and go while others are called.
#include "test/support/subjects.h"

#include <pthread.h>
#include <stdatomic.h>

#define THREADS 8
#define CALLS 1000

typedef struct worker_t {
  pthread_t thread;
  dt_runtime_t *runtime;
  dt_function_t *function;
  pthread_barrier_t *start;
  _Atomic bool *stop;
  uint32_t id;
  _Atomic int wrong; // counted, since cmocka's checks belong to the main thread
} worker_t;

static dt_tensor_t *vector(int64_t n, float value) {
  dt_tensor_t *tensor = NULL;
  dt_status_t status = dt_tensor_create_empty(DT_F32, 1, &n, &tensor);
  dt_status_free(status);
  for (int64_t i = 0; tensor && i < n; i++)
    ((float *)dt_tensor_data(tensor))[i] = value;
  return tensor;
}

static bool uniform(dt_tensor_t *tensor, float value) {
  for (int64_t i = 0; i < dt_tensor_count(tensor); i++) {
    if (((const float *)dt_tensor_data(tensor))[i] != value)
      return false;
  }
  return true;
}

static void *add_main(void *opaque) {
  worker_t *worker = opaque;
  dt_session_t *session = NULL;
  dt_status_t status = dt_session_create(worker->runtime, NULL, &session);
  worker->wrong += status != NULL;
  dt_status_free(status);
  (void)pthread_barrier_wait(worker->start);
  for (int64_t i = 0; session && i < CALLS; i++) {
    int64_t n = (i * 37 + worker->id) % 3000;
    dt_tensor_t *inputs[] = {vector(n, (float)worker->id), vector(n, 0.5f)}, *out = NULL;
    status = dt_call(session, worker->function, inputs, 2, &out, 1, NULL);
    worker->wrong += status != NULL || !uniform(out, (float)worker->id + 0.5f);
    dt_status_free(status);
    RELEASE(inputs[0], inputs[1], out);
  }
  dt_session_destroy(session);
  return NULL;
}

static void start_all(worker_t *workers, dt_runtime_t *runtime, dt_function_t *function,
                      pthread_barrier_t *start, _Atomic bool *stop, void *(*run)(void *)) {
  assert_int_equal(pthread_barrier_init(start, NULL, THREADS), 0);
  for (uint32_t i = 0; i < THREADS; i++) {
    workers[i].runtime = runtime;
    workers[i].function = function;
    workers[i].start = start;
    workers[i].stop = stop;
    workers[i].id = i;
    atomic_init(&workers[i].wrong, 0);
    assert_int_equal(pthread_create(&workers[i].thread, NULL, run, &workers[i]), 0);
  }
}

static void join_all(worker_t *workers, pthread_barrier_t *start) {
  int wrong = 0;
  for (uint32_t i = 0; i < THREADS; i++) {
    assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    wrong += workers[i].wrong;
  }
  assert_int_equal(pthread_barrier_destroy(start), 0);
  assert_int_equal(wrong, 0);
}

static void test_racing_first_call(void **state) {
  (void)state;
  dt_runtime_options_t options = {.struct_size = sizeof(options), .threads = 3};
  dt_runtime_t *runtime = NULL;
  expect_ok(dt_runtime_create(&options, &runtime));
  dt_function_t *add = subject_function(runtime, &add_subject, NULL, compiled_answer());
  worker_t workers[THREADS];
  pthread_barrier_t start;
  start_all(workers, runtime, add, &start, NULL, add_main);
  join_all(workers, &start);
  dt_function_counters_t stats = {.struct_size = sizeof(stats)};
  expect_ok(dt_function_counters(add, &stats));
  assert_int_equal(stats.variants, 1);
  assert_int_equal(stats.compiles, 1);
  assert_int_equal(stats.calls, THREADS * CALLS);
  assert_in_range(stats.misses, 1, THREADS);
  dt_function_release(add);
  dt_runtime_release(runtime);
}

// ---- Failures while others wait ---------------------------------------------------------------------

static _Atomic int failures_left;

static dt_status_t flaky_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                 void *closure) {
  (void)closure;
  if (atomic_fetch_sub(&failures_left, 1) > 0)
    dt_trace_fail(t, DT_E_STATE, "not yet");
  out[0] = dt_add(t, in[0], in[1]);
  return NULL;
}

// Calls until it is answered, and counts in `id` how often it was refused.
static void *flaky_main(void *opaque) {
  worker_t *worker = opaque;
  dt_session_t *session = NULL;
  dt_status_t status = dt_session_create(worker->runtime, NULL, &session);
  worker->wrong += status != NULL;
  dt_status_free(status);
  worker->id = 0;
  (void)pthread_barrier_wait(worker->start);
  dt_tensor_t *x = vector(3, 1), *out = NULL;
  while (session && !out && worker->id < 100) {
    status = dt_call(session, worker->function, (dt_tensor_t *[]){x, x}, 2, &out, 1, NULL);
    worker->id += status != NULL;
    worker->wrong += status && dt_status_code(status) != DT_E_STATE;
    dt_status_free(status);
  }
  worker->wrong += !out || !uniform(out, 2);
  RELEASE(x, out);
  dt_session_destroy(session);
  return NULL;
}

// A failed trace belongs to one caller; those that waited for it try themselves.
static void test_failures_are_ones_own(void **state) {
  (void)state;
  dt_runtime_t *runtime = NULL;
  expect_ok(dt_runtime_create(NULL, &runtime));
  subject_t subject = add_subject;
  subject.program = flaky_program;
  dt_function_t *flaky = subject_function(runtime, &subject, NULL, compiled_answer());
  atomic_store(&failures_left, 5);
  worker_t workers[THREADS];
  pthread_barrier_t start;
  start_all(workers, runtime, flaky, &start, NULL, flaky_main);
  join_all(workers, &start);
  uint32_t refused = 0;
  for (uint32_t i = 0; i < THREADS; i++)
    refused += workers[i].id;
  assert_int_equal(refused, 5);
  dt_function_counters_t stats = {.struct_size = sizeof(stats)};
  expect_ok(dt_function_counters(flaky, &stats));
  assert_int_equal(stats.compiles, 6);
  assert_int_equal(stats.failed_calls, 5);
  assert_int_equal(stats.variants, 1);
  dt_function_release(flaky);
  dt_runtime_release(runtime);
}

// ---- Updates ----------------------------------------------------------------------------------------

// Every element of an answer belongs to one value of the constant.
static void *scale_main(void *opaque) {
  worker_t *worker = opaque;
  dt_session_t *session = NULL;
  dt_status_t status = dt_session_create(worker->runtime, NULL, &session);
  worker->wrong += status != NULL;
  dt_status_free(status);
  (void)pthread_barrier_wait(worker->start);
  float last = 0;
  while (session && !atomic_load(worker->stop)) {
    dt_tensor_t *x = vector(100 + worker->id, 1), *out = NULL;
    status = dt_call(session, worker->function, &x, 1, &out, 1, NULL);
    bool right = status == NULL;
    if (right) {
      float first = ((const float *)dt_tensor_data(out))[0];
      right = uniform(out, first) && first >= last; // values only grow below
      last = first;
    }
    worker->wrong += !right;
    dt_status_free(status);
    RELEASE(x, out);
  }
  dt_session_destroy(session);
  return NULL;
}

static void test_updates_racing_calls(void **state) {
  (void)state;
  dt_runtime_t *runtime = NULL;
  expect_ok(dt_runtime_create(NULL, &runtime));
  dt_tensor_t *weights = vector(4, 1);
  dt_function_t *scale = subject_function(runtime, &scale_subject, weights, compiled_answer());
  expect_ok(dt_function_prepare(scale, NULL));
  worker_t workers[THREADS];
  pthread_barrier_t start;
  _Atomic bool stop = false;
  start_all(workers, runtime, scale, &start, &stop, scale_main);
  for (int i = 2; i < 300; i++) {
    dt_tensor_t *next = vector(4, (float)i);
    expect_ok(dt_constant_update(scale, "w", next));
    dt_tensor_release(next);
  }
  atomic_store(&stop, true);
  join_all(workers, &start);
  dt_tensor_release(weights);
  dt_function_release(scale);
  dt_runtime_release(runtime);
}

// Makes, calls and releases functions of its own all the time.
static void *churn_main(void *opaque) {
  worker_t *worker = opaque;
  dt_session_t *session = NULL;
  dt_status_t status = dt_session_create(worker->runtime, NULL, &session);
  worker->wrong += status != NULL;
  dt_status_free(status);
  (void)pthread_barrier_wait(worker->start);
  dt_function_options_t options = {.name = "churn",
                                   .n_inputs = add_subject.n_inputs,
                                   .n_outputs = 1,
                                   .inputs = add_subject.inputs,
                                   .answer = compiled_answer()};
  for (int i = 0; session && i < 5; i++) {
    dt_function_t *function = NULL;
    status = dt_function_create(worker->runtime, add_subject.program, NULL, &options, &function);
    worker->wrong += status != NULL;
    dt_status_free(status);
    for (int64_t n = 0; function && n < 20; n++) {
      dt_tensor_t *x = vector(n * 50, 1.25f), *out = NULL;
      status = dt_call(session, function, (dt_tensor_t *[]){x, x}, 2, &out, 1, NULL);
      worker->wrong += status != NULL || !uniform(out, 2.5f);
      dt_status_free(status);
      RELEASE(x, out);
    }
    dt_function_release(function);
  }
  dt_session_destroy(session);
  return NULL;
}

static void test_functions_come_and_go(void **state) {
  (void)state;
  dt_runtime_t *runtime = NULL;
  expect_ok(dt_runtime_create(NULL, &runtime));
  worker_t workers[THREADS];
  pthread_barrier_t start;
  start_all(workers, runtime, NULL, &start, NULL, churn_main);
  join_all(workers, &start);
  dt_runtime_release(runtime);
}

RUN_TESTS(TEST(test_racing_first_call), TEST(test_failures_are_ones_own),
          TEST(test_updates_racing_calls), TEST(test_functions_come_and_go))
