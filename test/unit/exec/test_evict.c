// SPDX-License-Identifier: Apache-2.0
// A runtime with a limit on what it holds: variants and idle sessions' memory go, answers stay
// right, and what goes uses up no other limit.
#include "test/support/fixture.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define FUNCTIONS 6
#define SHAPES 5
#define CALLERS 4

static dt_status_t rows_sum(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  out[0] = dt_add(t, dt_sum(t, in[0], 1, (const int32_t[]){0}, false),
                  dt_scalar(t, DT_F32, *(const double *)closure));
  return NULL;
}

static dt_status_t squares(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t all = dt_matmul(t, dt_unsqueeze(t, in[0], 1), dt_unsqueeze(t, in[0], 0));
  out[0] = dt_matmul(t, all, all);
  return NULL;
}

static const dt_input_decl_t one_vector[] = {{.name = "x", .dtype = DT_F32, .rank = 1}};
static const double added[FUNCTIONS] = {0, 1, 2, 3, 4, 5};

static dt_runtime_t *runtime_with(uint64_t max_bytes) {
  dt_runtime_t *runtime = NULL;
  expect_ok(dt_runtime_create(
      &(dt_runtime_options_t){.threads = 1, .compile_threads = 1, .max_bytes = max_bytes},
      &runtime));
  return runtime;
}

static dt_runtime_stats_t stats_of_runtime(dt_runtime_t *runtime) {
  dt_runtime_stats_t stats = {.struct_size = sizeof(stats)};
  expect_ok(dt_runtime_stats(runtime, &stats));
  return stats;
}

// What a decider is being made over stays until it is made: waits until `bytes` are not exceeded.
static dt_runtime_stats_t settled(dt_runtime_t *runtime, uint64_t bytes) {
  dt_runtime_stats_t stats = stats_of_runtime(runtime);
  for (int k = 0; k < 3000 && stats.bytes > bytes; k++) {
    (void)usleep(10000);
    stats = stats_of_runtime(runtime);
  }
  return stats;
}

static dt_function_t *sum_function(dt_runtime_t *runtime, int k, dt_function_options_t options) {
  fixture_t fixture = {.runtime = runtime};
  options.dynamic = DT_DYNAMIC_STATIC;
  return function_of(&fixture, rows_sum, (void *)(uintptr_t)&added[k], &options);
}

// 0: wrong; else n + added[k] came out.
static bool answers(dt_session_t *session, dt_function_t *function, int k, int64_t n) {
  dt_tensor_t *x = tensor_full(1, 1, &n), *out = NULL;
  dt_status_t status = dt_call(session, function, &x, 1, &out, 1, NULL);
  bool right = !status && *(const float *)dt_tensor_data(out) == (float)(n + k);
  if (status)
    print_error("%s\n", dt_status_message(status));
  dt_status_free(status);
  RELEASE(x, out);
  return right;
}

// Far more variants than there is room for, each compiled again and again.
static void test_variants_go_and_come(void **state) {
  (void)state;
  dt_runtime_t *runtime = runtime_with(200000);
  dt_session_t *session = NULL;
  dt_function_t *functions[FUNCTIONS];
  dt_function_options_t options = options_of(1, one_vector);
  options.compile_limit = 4;
  options.variant_limit = SHAPES + 1;
  options.limit_action = DT_LIMIT_ERROR;
  expect_ok(dt_session_create(runtime, NULL, &session));
  for (int k = 0; k < FUNCTIONS; k++)
    functions[k] = sum_function(runtime, k, options);
  for (int64_t round = 0; round < 3; round++)
    for (int64_t n = 1; n <= SHAPES; n++)
      for (int k = 0; k < FUNCTIONS; k++) {
        (void)settled(runtime, 200000); // what cannot go yet counts against compile_limit
        assert_true(answers(session, functions[k], k, n));
      }
  dt_runtime_stats_t stats = settled(runtime, 200000);
  assert_int_equal(stats.max_bytes, 200000);
  assert_true(stats.evicted_variants > FUNCTIONS * SHAPES);
  assert_true(stats.bytes <= stats.max_bytes);
  for (int k = 0; k < FUNCTIONS; k++) {
    assert_true(stats_of(functions[k]).compiles > options.compile_limit);
    dt_function_release(functions[k]);
  }
  dt_session_destroy(session);
  assert_int_equal(stats_of_runtime(runtime).bytes, 0);
  dt_runtime_release(runtime);
}

// With room for all nothing goes, and what was used last stays.
static void test_what_is_used_stays(void **state) {
  (void)state;
  dt_runtime_t *runtime = runtime_with((uint64_t)1 << 40);
  dt_session_t *session = NULL;
  expect_ok(dt_session_create(runtime, NULL, &session));
  dt_function_t *function = sum_function(runtime, 3, options_of(1, one_vector));
  for (int64_t n = 1; n <= SHAPES; n++)
    assert_true(answers(session, function, 3, n));
  assert_int_equal(stats_of_runtime(runtime).evicted_variants, 0);
  assert_int_equal(variants_of(function), SHAPES);
  uint64_t room = stats_of_runtime(runtime).bytes;
  dt_function_release(function);
  dt_session_destroy(session);
  dt_runtime_release(runtime);

  runtime = runtime_with(room * 7 / 10);
  expect_ok(dt_session_create(runtime, NULL, &session));
  function = sum_function(runtime, 3, options_of(1, one_vector));
  for (int64_t n = 1; n <= SHAPES; n++) {
    assert_true(answers(session, function, 3, n));
    assert_true(answers(session, function, 3, 1)); // the oldest, always in use
  }
  assert_true(settled(runtime, room * 7 / 10).evicted_variants > 0);
  uint64_t compiles = stats_of(function).compiles;
  assert_int_equal(compiles, SHAPES); // the one in use was never made again
  dt_function_release(function);
  dt_session_destroy(session);
  dt_runtime_release(runtime);
}

// The variant for all sizes at the limit goes, too, and is made again.
static void test_generic_again(void **state) {
  (void)state;
  dt_runtime_t *runtime = runtime_with(1); // nothing may stay
  dt_session_t *session = NULL;
  dt_function_options_t options = options_of(1, one_vector);
  options.compile_limit = 1;
  expect_ok(dt_session_create(runtime, NULL, &session));
  dt_function_t *first = sum_function(runtime, 1, options);
  dt_function_t *second = sum_function(runtime, 2, options);
  for (int64_t n = 1; n < 8; n++) {
    assert_true(answers(session, first, 1, n));
    assert_true(answers(session, second, 2, n));
  }
  dt_function_release(first);
  dt_function_release(second);
  dt_session_destroy(session);
  dt_runtime_release(runtime);
}

// ---- Sessions -----------------------------------------------------------------------------------------

static void call_squares(dt_session_t *session, dt_function_t *function, int64_t n) {
  dt_tensor_t *x = tensor_full(2, 1, &n), *out = NULL;
  expect_ok(dt_call(session, function, &x, 1, &out, 1, NULL));
  assert_true(((const float *)dt_tensor_data(out))[n * n - 1] == (float)(16 * n));
  RELEASE(x, out);
}

static void test_idle_sessions_give(void **state) {
  (void)state;
  if (compiled_answer() != DT_ANSWER_COMPILED)
    return;
  dt_runtime_t *runtime = runtime_with(6 << 20);
  dt_session_t *sessions[3];
  dt_function_options_t options = options_of(1, one_vector);
  fixture_t fixture = {.runtime = runtime};
  dt_function_t *function = function_of(&fixture, squares, NULL, &options);
  for (int k = 0; k < 3; k++)
    expect_ok(dt_session_create(runtime, NULL, &sessions[k]));
  for (int round = 0; round < 3; round++)
    for (int k = 0; k < 3; k++) {
      call_squares(sessions[k], function, 900); // 3.2 MB and more
      assert_true(dt_session_bytes(sessions[k]) >= 900 * 900 * 4);
    }
  assert_true(stats_of_runtime(runtime).trims >= 6);
  for (int k = 0; k < 3; k++)
    dt_session_destroy(sessions[k]);
  dt_function_release(function);
  dt_runtime_release(runtime);
}

// ---- Threads ------------------------------------------------------------------------------------------

typedef struct caller_t {
  dt_runtime_t *runtime;
  dt_function_t **functions;
  int id, wrong;
} caller_t;

static void *call_all(void *opaque) {
  caller_t *caller = opaque;
  dt_session_t *session = NULL;
  dt_status_t status = dt_session_create(caller->runtime, NULL, &session);
  caller->wrong += status != NULL;
  dt_status_free(status);
  for (int i = 0; i < 60 && session; i++) {
    int k = (i * 7 + caller->id) % FUNCTIONS;
    caller->wrong += !answers(session, caller->functions[k], k, 1 + (i + caller->id) % SHAPES);
  }
  dt_session_destroy(session);
  return NULL;
}

static void test_threads(void **state) {
  (void)state;
  static const uint64_t limits[] = {1, 150000};
  for (int which = 0; which < 2; which++) {
    dt_runtime_t *runtime = runtime_with(limits[which]);
    dt_function_t *functions[FUNCTIONS];
    caller_t callers[CALLERS];
    pthread_t threads[CALLERS];
    dt_function_options_t options = options_of(1, one_vector);
    options.answer = which ? compiled_answer() : DT_ANSWER_EVALUATOR; // quick to make
    for (int k = 0; k < FUNCTIONS; k++)
      functions[k] = sum_function(runtime, k, options);
    for (int i = 0; i < CALLERS; i++) {
      callers[i] = (caller_t){.runtime = runtime, .functions = functions, .id = i};
      assert_int_equal(pthread_create(&threads[i], NULL, call_all, &callers[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) {
      assert_int_equal(pthread_join(threads[i], NULL), 0);
      assert_int_equal(callers[i].wrong, 0);
    }
    assert_true(stats_of_runtime(runtime).evicted_variants > 0);
    for (int k = 0; k < FUNCTIONS; k++)
      dt_function_release(functions[k]);
    dt_runtime_release(runtime);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_variants_go_and_come),
      TEST(test_what_is_used_stays),
      TEST(test_generic_again),
      TEST(test_idle_sessions_give),
      TEST(test_threads),
  };
  // Memory made ready in the background comes when it comes.
  if (setenv("DUCTILE_WARM_MIB", "0", 1) != 0)
    return 1;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
