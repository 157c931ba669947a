// SPDX-License-Identifier: Apache-2.0
// Compiled look-up beside calls: it comes by itself and covers every variant in the end, answers
// stay right while variants arrive in many threads, functions go while it is being made, and a
// child after fork waits for nothing. Sizes are the variants here, and the evaluator answers, so
// that there are many at little cost.
#include "test/support/check.h"
#include "test/support/process.h"

#include "backend_llvm/jit/jit.h"
#include "ductile/ductile.h"
#include "ductile/experimental.h"
#include "runtime/base/status.h"
#include "runtime/exec/decide.h"

#include <sched.h>

enum { SIZES = 48, THREADS = 4, CALLS = 400 };

static dt_status_t exact(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  (void)dt_sym_int(trace, dt_dim(trace, in[0], 0));
  out[0] = dt_add(trace, in[0], in[0]);
  return NULL;
}

static dt_function_t *make_function(dt_runtime_t *runtime) {
  static const dt_dim_decl_t dims[] = {{.name = "n"}};
  static const dt_input_decl_t inputs[] = {{.name = "x", .dtype = DT_F32, .rank = 1, .dims = dims}};
  const dt_function_options_t options = {.name = "exact",
                                         .n_inputs = 1,
                                         .n_outputs = 1,
                                         .inputs = inputs,
                                         .answer = DT_ANSWER_EVALUATOR,
                                         .variant_limit = SIZES};
  dt_function_t *function = NULL;
  expect_ok(dt_function_create(runtime, exact, NULL, &options, &function));
  return function;
}

// x + x for n ones; false: a failure, or a wrong answer.
static bool call_ok(dt_session_t *session, dt_function_t *function, int64_t n) {
  float ones[SIZES];
  for (int k = 0; k < SIZES; k++)
    ones[k] = 1;
  dt_tensor_desc_t desc = {.dtype = DT_F32, .rank = 1, .sizes = &n, .data = ones};
  dt_tensor_t *input = NULL, *output = NULL;
  dt_status_t status = dt_tensor_create(&desc, &input);
  if (!status)
    status = dt_call(session, function, &input, 1, &output, 1, NULL);
  bool good = !status && dt_tensor_count(output) == n;
  for (int64_t i = 0; good && i < n; i++)
    good = ((const float *)dt_tensor_data(output))[i] == 2;
  dt_status_free(status);
  dt_tensor_release(input);
  dt_tensor_release(output);
  return good;
}

// How many variants the decider covers, once it covers all; 0 when that does not come about.
static uint32_t wait_until_covered(dt_function_t *function) {
  int64_t begin = dt__now_ns();
  while (dt__now_ns() - begin < 60000000000) {
    dt__mutex_lock(&function->mutex);
    const dt_variant_list_t *list = atomic_load_explicit(&function->list, memory_order_relaxed);
    uint32_t n = list->decider && list->decider->n == list->n ? list->n : 0;
    dt__mutex_unlock(&function->mutex);
    if (n)
      return n;
    (void)sched_yield();
  }
  return 0;
}

static void test_one_variant(void **state) {
  (void)state;
  dt_runtime_t *runtime = NULL;
  dt_session_t *session = NULL;
  expect_ok(dt_runtime_create(NULL, &runtime));
  expect_ok(dt_session_create(runtime, NULL, &session));
  dt_function_t *function = make_function(runtime);
  assert_true(call_ok(session, function, 3));
  if (dt__jit()) {
    assert_int_equal(wait_until_covered(function), 1);
    assert_int_equal(function->decider.failed, 0);
  }
  assert_true(call_ok(session, function, 3));
  assert_true(call_ok(session, function, 5)); // a miss of the decider
  dt_function_counters_t stats = {.struct_size = sizeof stats};
  expect_ok(dt_function_counters(function, &stats));
  assert_int_equal(stats.compiles, 2);
  assert_int_equal(stats.misses, 2);
  dt_function_release(function);
  dt_session_destroy(session);
  dt_runtime_release(runtime);
}

typedef struct worker_t {
  pthread_t thread;
  dt_runtime_t *runtime;
  dt_function_t *function;
  uint64_t seed;
  uint32_t wrong;
} worker_t;

static void *call_main(void *opaque) {
  worker_t *worker = opaque;
  dt_session_t *session = NULL;
  dt_status_t status = dt_session_create(worker->runtime, NULL, &session);
  worker->wrong += status != NULL;
  dt_status_free(status);
  for (uint32_t i = 0; session && i < CALLS; i++) {
    worker->seed = worker->seed * 6364136223846793005u + 1442695040888963407u;
    uint64_t most = 1 + (uint64_t)i * (SIZES - 1) / CALLS; // sizes come bit by bit
    worker->wrong +=
        !call_ok(session, worker->function, 1 + (int64_t)((worker->seed >> 33) % most));
  }
  dt_session_destroy(session);
  return NULL;
}

static void test_calls_while_variants_arrive(void **state) {
  (void)state;
  dt_runtime_t *runtime = NULL;
  dt_session_t *session = NULL;
  expect_ok(dt_runtime_create(NULL, &runtime));
  expect_ok(dt_session_create(runtime, NULL, &session));
  dt_function_t *function = make_function(runtime);
  worker_t workers[THREADS];
  for (uint32_t k = 0; k < THREADS; k++) {
    workers[k] = (worker_t){.runtime = runtime, .function = function, .seed = k};
    assert_int_equal(pthread_create(&workers[k].thread, NULL, call_main, &workers[k]), 0);
  }
  for (uint32_t k = 0; k < THREADS; k++) {
    assert_int_equal(pthread_join(workers[k].thread, NULL), 0);
    assert_int_equal(workers[k].wrong, 0);
  }
  for (int64_t n = 1; n <= SIZES; n++)
    assert_true(call_ok(session, function, n));
  if (dt__jit()) {
    assert_int_equal(wait_until_covered(function), SIZES);
    assert_int_equal(function->decider.failed, 0);
  }
  dt_function_counters_t before = {.struct_size = sizeof before}, after = before;
  expect_ok(dt_function_counters(function, &before));
  for (int64_t n = SIZES; n >= 1; n--)
    assert_true(call_ok(session, function, n));
  expect_ok(dt_function_counters(function, &after));
  assert_int_equal(after.misses, before.misses);
  assert_int_equal(after.variants, SIZES);
  dt_function_release(function);
  dt_session_destroy(session);
  dt_runtime_release(runtime);
}

static void test_release_while_building(void **state) {
  (void)state;
  dt_runtime_t *runtime = NULL;
  dt_session_t *session = NULL;
  expect_ok(dt_runtime_create(NULL, &runtime));
  expect_ok(dt_session_create(runtime, NULL, &session));
  for (int round = 0; round < 24; round++) {
    dt_function_t *function = make_function(runtime);
    for (int64_t n = 1; n <= 1 + round % 5; n++)
      assert_true(call_ok(session, function, n));
    for (int k = 0; k < 40 * (round % 7); k++)
      (void)sched_yield();
    dt_function_release(function);
  }
  dt_session_destroy(session);
  dt_runtime_release(runtime);
}

typedef struct inherited_t {
  dt_runtime_t *runtime;
  dt_session_t *session;
  dt_function_t *function;
} inherited_t;

static int release_inherited(void *opaque) {
  const inherited_t *inherited = opaque;
  bool refused = !call_ok(inherited->session, inherited->function, 2);
  dt_function_release(inherited->function);
  dt_session_destroy(inherited->session);
  dt_runtime_release(inherited->runtime);
  return refused ? 0 : 1;
}

// The child of a process that builds: nothing of it may hang.
static void test_fork_while_building(void **state) {
  (void)state;
  dt_runtime_t *runtime = NULL;
  dt_session_t *session = NULL;
  expect_ok(dt_runtime_create(NULL, &runtime));
  expect_ok(dt_session_create(runtime, NULL, &session));
  dt_function_t *function = make_function(runtime);
  for (int64_t n = 1; n <= 8; n++)
    assert_true(call_ok(session, function, n));
  inherited_t inherited = {runtime, session, function};
  assert_int_equal(process_child(release_inherited, &inherited, 60), 0);
  dt_function_release(function);
  dt_session_destroy(session);
  dt_runtime_release(runtime);
}

RUN_TESTS(TEST(test_one_variant), TEST(test_calls_while_variants_arrive),
          TEST(test_release_while_building), TEST(test_fork_while_building))
