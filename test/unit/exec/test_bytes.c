// SPDX-License-Identifier: Apache-2.0
// Bytes: limits on what a call takes, giving it back, and results' sizes before a call.
#include "test/support/subjects.h"

#include <stdlib.h>

static int setup(void **state) { return fixture_open(state, 2, 5); }

// Sums along a matrix product with itself: keeps n * n numbers between kernels.
static dt_status_t squares(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t column = dt_unsqueeze(t, in[0], 1), row = dt_unsqueeze(t, in[0], 0);
  dt_value_t all = dt_matmul(t, column, row);
  out[0] = dt_matmul(t, all, all);
  return NULL;
}

// As many ones as the data says.
static dt_status_t as_many(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_sym_t n = dt_item(t, in[0]);
  out[0] = dt_full(t, DT_F32, 1, 1, &n);
  return NULL;
}

static const dt_input_decl_t one_vector[] = {{.name = "x", .dtype = DT_F32, .rank = 1}};
static const dt_input_decl_t one_number[] = {{.name = "n", .dtype = DT_I64, .rank = 0}};

static dt_status_t call_n(fixture_t *fixture, dt_function_t *function, int64_t n) {
  dt_tensor_t *x = tensor_full(1, 1, &n), *out = NULL;
  dt_status_t status = dt_call(fixture->session, function, &x, 1, &out, 1, NULL);
  RELEASE(x, out);
  return status;
}

// ---- The limit of a call ------------------------------------------------------------------------------

static void test_results_count(void **state) {
  fixture_t *fixture = *state;
  if (compiled_answer() != DT_ANSWER_COMPILED)
    return;
  dt_function_options_t options = options_of(1, one_vector);
  options.max_call_bytes = 4000;
  dt_function_t *function = function_of(fixture, double_program, NULL, &options);
  for (int round = 0; round < 2; round++) {
    expect_ok(call_n(fixture, function, 1000));
    expect_told(call_n(fixture, function, 1001), DT_E_LIMIT, "needs 4004 bytes");
    expect_told(call_n(fixture, function, 1001), DT_E_LIMIT, "4000 are allowed (max_call_bytes");
    expect_told(call_n(fixture, function, 1001), DT_E_LIMIT, "'x'[1001]");
  }
  // Memory that the caller brings is his own affair.
  int64_t n = 5000;
  dt_tensor_t *x = tensor_full(1, 1, &n), *out = tensor_full(0, 1, &n);
  expect_ok(dt_call(fixture->session, function, &x, 1, &out, 1, NULL));
  RELEASE(x, out);
  assert_int_equal(stats_of(function).compiles, 1);
  dt_function_release(function);
}

static void test_blocks_count(void **state) {
  fixture_t *fixture = *state;
  if (compiled_answer() != DT_ANSWER_COMPILED)
    return;
  dt_function_options_t options = options_of(1, one_vector);
  options.max_call_bytes = 1 << 20;
  dt_function_t *function = function_of(fixture, squares, NULL, &options);
  dt_session_t *session = NULL;
  expect_ok(dt_session_create(fixture->runtime, NULL, &session));
  fixture_t own = {.runtime = fixture->runtime, .session = session};
  expect_ok(call_n(&own, function, 100));
  uint64_t held = dt_session_bytes(session);
  expect_told(call_n(&own, function, 4000), DT_E_LIMIT, "max_call_bytes");
  assert_int_equal(dt_session_bytes(session), held); // nothing was taken for it
  expect_ok(call_n(&own, function, 90));
  dt_session_destroy(session);
  dt_function_release(function);
}

static void test_sizes_from_data_count(void **state) {
  (void)state;
  if (compiled_answer() != DT_ANSWER_COMPILED)
    return;
  assert_int_equal(setenv("DUCTILE_MAX_CALL_MIB", "1", 1), 0);
  dt_runtime_t *runtime = NULL;
  fixture_t own = {0};
  expect_ok(dt_runtime_create(NULL, &runtime));
  assert_int_equal(unsetenv("DUCTILE_MAX_CALL_MIB"), 0);
  own.runtime = runtime;
  expect_ok(dt_session_create(runtime, NULL, &own.session));
  dt_function_options_t options = options_of(1, one_number);
  dt_function_t *function = function_of(&own, as_many, NULL, &options);
  for (int64_t k = 0; k < 4; k++) {
    int64_t n = k % 2 ? (int64_t)1 << 40 : 1000 * k;
    dt_tensor_t *number = tensor_i64(0, NULL, &n), *out = NULL;
    dt_status_t status = dt_call(own.session, function, &number, 1, &out, 1, NULL);
    if (k % 2)
      expect_told(status, DT_E_LIMIT, "DUCTILE_MAX_CALL_MIB");
    else
      expect_ok(status);
    RELEASE(number, out);
  }
  dt_function_release(function);
  dt_session_destroy(own.session);
  dt_runtime_release(runtime);
}

// What the evaluator keeps, and its results, which the data may say the sizes of.
static void test_evaluator_counts(void **state) {
  fixture_t *fixture = *state;
  dt_function_options_t options = options_of(1, one_vector);
  options.answer = DT_ANSWER_EVALUATOR;
  options.max_call_bytes = 1 << 20;
  dt_function_t *function = function_of(fixture, squares, NULL, &options);
  for (int round = 0; round < 2; round++) {
    expect_ok(call_n(fixture, function, 50));
    expect_told(call_n(fixture, function, 400), DT_E_LIMIT, "the evaluator needs");
    expect_told(call_n(fixture, function, 400), DT_E_LIMIT, "1048576 are allowed (max_call_bytes");
    expect_told(call_n(fixture, function, 400), DT_E_LIMIT, "'x'[400]");
  }
  dt_function_release(function);
}

// ---- Giving back --------------------------------------------------------------------------------------

static void test_trim(void **state) {
  fixture_t *fixture = *state;
  if (compiled_answer() != DT_ANSWER_COMPILED)
    return;
  dt_function_options_t options = options_of(1, one_vector);
  dt_function_t *function = function_of(fixture, squares, NULL, &options);
  for (int round = 0; round < 3; round++) {
    int64_t n = 600;
    dt_tensor_t *x = tensor_full(2, 1, &n), *out = NULL;
    expect_ok(dt_call(fixture->session, function, &x, 1, &out, 1, NULL));
    assert_true(dt_session_bytes(fixture->session) >= 600 * 600 * 4);
    expect_ok(dt_session_trim(fixture->session));
    assert_int_equal(dt_session_bytes(fixture->session), 0);
    const float *data = dt_tensor_data(out); // is its holder's
    for (int64_t k = 0; k < n * n; k += 997)
      assert_true(data[k] == 600 * 16);
    RELEASE(x, out);
  }
  dt_function_release(function);
}

// ---- Sizes of results ---------------------------------------------------------------------------------

static void test_output_sizes(void **state) {
  fixture_t *fixture = *state;
  for (int answer = 0; answer < 2; answer++) {
    dt_function_options_t options = options_of(1, one_vector);
    options.answer = answer ? DT_ANSWER_EVALUATOR : compiled_answer();
    dt_function_t *function = function_of(fixture, squares, NULL, &options);
    for (int64_t n = 0; n < 40; n += 13) {
      dt_output_shape_t shape = {0};
      dt_tensor_t *x = tensor_full(2, 1, &n);
      expect_ok(
          dt_function_output_sizes(fixture->session, function, &x, 1, &shape, sizeof(shape), 1));
      assert_int_equal(shape.dtype, DT_F32);
      assert_int_equal(shape.rank, 2);
      assert_int_equal(shape.sizes[0], n);
      assert_int_equal(shape.sizes[1], n);
      dt_tensor_release(x);
    }
    assert_int_equal(stats_of(function).compiles, 1);
    assert_int_equal(stats_of(function).calls, 0);
    expect_ok(call_n(fixture, function, 17));
    assert_int_equal(stats_of(function).compiles, 1);
    dt_function_release(function);
  }
}

static void test_output_sizes_from_data(void **state) {
  fixture_t *fixture = *state;
  dt_function_options_t options = options_of(1, one_number);
  dt_function_t *function = function_of(fixture, as_many, NULL, &options);
  dt_tensor_t *number = tensor_i64(0, NULL, SIZES(3));
  dt_output_shape_t shape = {0};
  expect_ok(
      dt_function_output_sizes(fixture->session, function, &number, 1, &shape, sizeof(shape), 1));
  assert_int_equal(shape.rank, 1);
  assert_int_equal(shape.sizes[0], -1);
  dt_tensor_release(number);
  dt_function_release(function);
}

static void test_output_sizes_refused(void **state) {
  fixture_t *fixture = *state;
  dt_function_options_t options = options_of(1, one_vector);
  dt_function_t *function = function_of(fixture, squares, NULL, &options);
  dt_tensor_t *x = tensor_full(1, 1, SIZES(3));
  dt_tensor_t *matrix = tensor_full(1, 2, SIZES(3, 1));
  dt_output_shape_t shape = {.rank = 99};
  const size_t bytes = sizeof(shape);
  expect_ok(dt_function_freeze(function, true));
  expect_told(dt_function_output_sizes(fixture->session, function, &x, 1, &shape, bytes, 1),
              DT_E_STATE, "frozen");
  expect_ok(dt_function_freeze(function, false));
  expect_code(dt_function_output_sizes(fixture->session, function, &matrix, 1, &shape, bytes, 1),
              DT_E_SHAPE);
  expect_code(dt_function_output_sizes(fixture->session, function, &x, 1, &shape, bytes, 2),
              DT_E_ARGUMENT);
  expect_code(dt_function_output_sizes(fixture->session, function, &x, 1, &shape, 8, 1),
              DT_E_ARGUMENT);
  expect_code(dt_function_output_sizes(NULL, function, &x, 1, &shape, bytes, 1), DT_E_ARGUMENT);
  assert_int_equal(shape.rank, 99);
  RELEASE(x, matrix);
  dt_function_release(function);
}

RUN_TESTS_WITH(setup, fixture_close, TEST(test_results_count), TEST(test_blocks_count),
               TEST(test_evaluator_counts), TEST(test_sizes_from_data_count), TEST(test_trim),
               TEST(test_output_sizes), TEST(test_output_sizes_from_data),
               TEST(test_output_sizes_refused))
