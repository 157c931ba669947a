// SPDX-License-Identifier: Apache-2.0
// dt_constant_update: all variants see the new data, what was computed from the old is computed
// again, and a refused update changes nothing.
#include "test/support/subjects.h"

// As many threads as by default.
static int setup(void **state) { return fixture_open(state, 0, 1); }

static dt_tensor_t *weights(float value) { return tensor_full(value, 1, SIZES(4)); }

// scale's answer for ones: sum(w * w).
static void expect_scale(fixture_t *fixture, dt_function_t *scale, bool strided, float expected) {
  int64_t n = 5;
  dt_tensor_t *base = tensor_full(1, 1, SIZES(10)), *out = NULL;
  const int64_t stride = strided ? 2 : 1;
  dt_tensor_t *x = tensor_over(DT_F32, 1, &n, &stride, dt_tensor_data(base));
  expect_ok(dt_call(fixture->session, scale, &x, 1, &out, 1, NULL));
  dt_tensor_t *want = tensor_full(expected, 1, &n);
  expect_close(out, want, 0, 1e-6, strided ? "strided" : "contiguous");
  RELEASE(want, out, x, base);
}

static void run_updates(fixture_t *fixture, dt_answer_t answer) {
  dt_tensor_t *first = weights(1);
  dt_function_t *scale = subject_function(fixture->runtime, &scale_subject, first, answer);
  dt_tensor_t *second = weights(2), *third = weights(3);
  expect_told(dt_constant_update(scale, "w", second), DT_E_ARGUMENT, "prepare");
  expect_scale(fixture, scale, false, 4);
  expect_ok(dt_constant_update(scale, "w", second));
  expect_scale(fixture, scale, false, 16);
  // A variant made after the update sees it too.
  expect_scale(fixture, scale, true, 16);
  assert_int_equal(variants_of(scale), 2);
  expect_ok(dt_constant_update(scale, "w", third));
  expect_scale(fixture, scale, false, 36);
  expect_scale(fixture, scale, true, 36);
  // The function keeps what it uses.
  RELEASE(first, second, third);
  expect_scale(fixture, scale, true, 36);
  dt_function_release(scale);
}

static void test_updates(void **state) { run_updates(*state, compiled_answer()); }
static void test_updates_evaluator(void **state) { run_updates(*state, DT_ANSWER_EVALUATOR); }

static void test_refused_updates(void **state) {
  fixture_t *fixture = *state;
  dt_tensor_t *first = weights(1);
  dt_function_t *scale =
      subject_function(fixture->runtime, &scale_subject, first, compiled_answer());
  expect_ok(dt_function_prepare(scale, NULL));
  dt_tensor_t *longer = tensor_full(1, 1, SIZES(5));
  dt_tensor_t *matrix = tensor_full(1, 2, SIZES(4, 1));
  dt_tensor_t *ints = tensor_i64(1, SIZES(4), VALUES(1, 2, 3, 4));
  dt_tensor_t *eight = tensor_full(1, 1, SIZES(8)), *strided = NULL;
  dt_tensor_desc_t desc = {.dtype = DT_F32,
                           .rank = 1,
                           .sizes = SIZES(4),
                           .strides = SIZES(2),
                           .data = dt_tensor_data(eight)};
  expect_ok(dt_tensor_create(&desc, &strided));
  expect_code(dt_constant_update(NULL, "w", longer), DT_E_ARGUMENT);
  expect_code(dt_constant_update(scale, NULL, longer), DT_E_ARGUMENT);
  expect_code(dt_constant_update(scale, "w", NULL), DT_E_ARGUMENT);
  expect_told(dt_constant_update(scale, "v", first), DT_E_ARGUMENT, "'v'");
  expect_told(dt_constant_update(scale, "w", longer), DT_E_SHAPE, "f32[5]");
  expect_told(dt_constant_update(scale, "w", matrix), DT_E_SHAPE, "f32[4, 1]");
  expect_told(dt_constant_update(scale, "w", ints), DT_E_DTYPE, "i64[4]");
  expect_told(dt_constant_update(scale, "w", strided), DT_E_SHAPE, "contiguous");
  expect_scale(fixture, scale, false, 4);
  RELEASE(strided, eight, ints, matrix, longer, first);
  dt_function_release(scale);
}

static void count_release(void *user) { (*(int *)user)++; }

// Replaced data is let go once no call can see it, without waiting for the function's end.
// A result given over a weight would change what later calls read.
static void test_outputs_over_constants(void **state) {
  fixture_t *fixture = *state;
  for (int answer = 0; answer < 2; answer++) {
    dt_tensor_t *w = weights(1), *x = weights(1), *whole = w, *part = NULL, *own = weights(0);
    dt_function_t *scale = subject_function(fixture->runtime, &scale_subject, w,
                                            answer ? DT_ANSWER_EVALUATOR : compiled_answer());
    dt_tensor_desc_t desc = {
        .dtype = DT_F32, .rank = 1, .sizes = SIZES(1), .data = (float *)dt_tensor_data(w) + 3};
    dt_tensor_t *one = tensor_full(1, 1, SIZES(1));
    expect_ok(dt_tensor_create(&desc, &part));
    for (int round = 0; round < 2; round++) { // before there is a variant, and after
      expect_told(dt_call(fixture->session, scale, &x, 1, &whole, 1, NULL), DT_E_ARGUMENT,
                  "output 0 overlaps constant 'w'");
      expect_told(dt_call(fixture->session, scale, &one, 1, &part, 1, NULL), DT_E_ARGUMENT,
                  "output 0 overlaps constant 'w'");
      expect_ok(dt_call(fixture->session, scale, &x, 1, &own, 1, NULL));
    }
    for (int k = 0; k < 4; k++)
      assert_true(((float *)dt_tensor_data(w))[k] == 1);
    RELEASE(part, one, own, x, w);
    dt_function_release(scale);
  }
}

static void test_old_data_is_released(void **state) {
  fixture_t *fixture = *state;
  dt_tensor_t *first = weights(1);
  dt_function_t *scale =
      subject_function(fixture->runtime, &scale_subject, first, compiled_answer());
  expect_ok(dt_function_prepare(scale, NULL));
  static float memory[4] = {2, 2, 2, 2};
  int released = 0;
  dt_tensor_desc_t desc = {.dtype = DT_F32,
                           .rank = 1,
                           .sizes = SIZES(4),
                           .data = memory,
                           .release = count_release,
                           .user = &released};
  dt_tensor_t *lent = NULL;
  expect_ok(dt_tensor_create(&desc, &lent));
  expect_ok(dt_constant_update(scale, "w", lent));
  dt_tensor_release(lent);
  expect_scale(fixture, scale, false, 16);
  assert_int_equal(released, 0);
  expect_ok(dt_constant_update(scale, "w", first));
  assert_int_equal(released, 1);
  expect_scale(fixture, scale, false, 4);
  dt_tensor_release(first);
  dt_function_release(scale);
}

// x * w, by w's number where there are three of x.
static dt_status_t take(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_tensor_t *w = closure;
  if (dt_sym_int(t, dt_dim(t, in[0], 0)) == 3) {
    dt_constant_taken(t, "w");
    dt_constant_taken(t, "w");
    out[0] = dt_mul(t, in[0], dt_scalar(t, DT_F32, *(float *)dt_tensor_data(w)));
  } else {
    out[0] = dt_mul(t, in[0], dt_constant(t, "w", w));
  }
  return dt_trace_status(t);
}

static dt_status_t call_take(fixture_t *fixture, dt_function_t *function, int64_t n, float *out) {
  dt_tensor_t *x = tensor_full(1, 1, &n), *y = NULL;
  dt_status_t status = dt_call(fixture->session, function, &x, 1, &y, 1, NULL);
  *out = y ? *(float *)dt_tensor_data(y) : 0;
  RELEASE(x, y);
  return status;
}

static void test_taken_numbers(void **state) {
  fixture_t *fixture = *state;
  const dt_input_decl_t input = {.dtype = DT_F32, .rank = 1};
  dt_function_options_t options = options_of(1, &input);
  int64_t one = 1;
  dt_tensor_t *first = tensor_full(2, 1, &one), *second = tensor_full(5, 1, &one);
  float y = 0;
  // The update comes first: a trace that takes the old number is refused, others go on.
  dt_function_t *function = function_of(fixture, take, first, &options);
  expect_ok(call_take(fixture, function, 7, &y));
  assert_true(y == 2);
  expect_ok(dt_constant_update(function, "w", second));
  expect_told(call_take(fixture, function, 3, &y), DT_E_UNSUPPORTED, "'w' was updated, but");
  expect_ok(call_take(fixture, function, 7, &y));
  assert_true(y == 5);
  dt_function_release(function);
  // The number was taken first: no update.
  function = function_of(fixture, take, first, &options);
  expect_ok(call_take(fixture, function, 7, &y));
  expect_ok(call_take(fixture, function, 3, &y));
  assert_true(y == 2);
  expect_told(dt_constant_update(function, "w", second), DT_E_UNSUPPORTED, "'w': elements of it");
  expect_ok(call_take(fixture, function, 7, &y));
  assert_true(y == 2);
  dt_function_release(function);
  RELEASE(first, second);
}

RUN_TESTS_WITH(setup, fixture_close, TEST(test_taken_numbers), TEST(test_updates),
               TEST(test_updates_evaluator), TEST(test_refused_updates),
               TEST(test_outputs_over_constants), TEST(test_old_data_is_released))
