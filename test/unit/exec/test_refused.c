// SPDX-License-Identifier: Apache-2.0
// Calls that are refused for their arguments: they use up no limit, the same ones again cost a
// look-up, and none is refused by what held for another.
#include "test/support/fixture.h"

#include "runtime/base/control.h"
#include "runtime/base/memory.h"
#include "runtime/exec/function.h"

#include <stdatomic.h>
#include <time.h>

static int setup(void **state) { return fixture_open(state, 2, 3); }

static const dt_input_decl_t two_vectors[] = {{.name = "x", .dtype = DT_F32, .rank = 1},
                                              {.name = "y", .dtype = DT_F32, .rank = 1}};

static int64_t seconds(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}

// x + y, whose sizes must be equal or 1; counts its traces, and wants *most >= 5 where there is
// one.
typedef struct sum_t {
  uint32_t traces;
  const int64_t *most;
} sum_t;

static dt_status_t sum(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  sum_t *own = closure;
  own->traces++;
  if (own->most &&
      !dt_sym_true(t, dt_sym_le(t, dt_sym_const(t, 5), dt_capture(t, "most", own->most))))
    dt_trace_fail(t, DT_E_ARGUMENT, "too few");
  out[0] = dt_add(t, in[0], in[1]);
  return NULL;
}

static dt_status_t call_sizes(fixture_t *fixture, dt_function_t *function, int64_t n, int64_t m) {
  dt_tensor_t *in[2] = {tensor_full(1, 1, &n), tensor_full(2, 1, &m)}, *out = NULL;
  dt_status_t status = dt_call(fixture->session, function, in, 2, &out, 1, NULL);
  if (!status)
    assert_int_equal(dt_tensor_sizes(out)[0], n == 1 ? m : n);
  RELEASE(in[0], in[1], out);
  return status;
}

static dt_function_t *sum_function(fixture_t *fixture, sum_t *own, dt_dynamic_t dynamic) {
  dt_function_options_t options = options_of(2, two_vectors);
  options.dynamic = dynamic;
  options.limit_action = DT_LIMIT_ERROR;
  return function_of(fixture, sum, own, &options);
}

static void test_refusals_use_up_no_limit(void **state) {
  fixture_t *fixture = *state;
  for (int dynamic = DT_DYNAMIC_SYMBOLIC; dynamic <= DT_DYNAMIC_STATIC; dynamic++) {
    sum_t own = {0};
    dt_function_t *function = sum_function(fixture, &own, (dt_dynamic_t)dynamic);
    for (int64_t k = 0; k < 300; k++)
      expect_told(call_sizes(fixture, function, 3 + k, 4 + k), DT_E_SHAPE, "add");
    assert_int_equal(stats_of(function).compiles, 0);
    assert_int_equal(stats_of(function).failed_calls, 300);
    expect_ok(call_sizes(fixture, function, 7, 7));
    for (int64_t k = 0; k < 300; k++)
      expect_told(call_sizes(fixture, function, 3 + k, 4 + k), DT_E_SHAPE, "add");
    assert_int_equal(stats_of(function).compiles, 1);
    expect_ok(call_sizes(fixture, function, 1, 9)); // not what was compiled
    assert_int_equal(stats_of(function).compiles, 2);
    dt_function_release(function);
  }
}

static void test_the_same_again_is_a_look_up(void **state) {
  fixture_t *fixture = *state;
  sum_t own = {0};
  dt_function_t *function = sum_function(fixture, &own, DT_DYNAMIC_AUTOMATIC);
  expect_ok(call_sizes(fixture, function, 4, 4));
  own.traces = 0;
  int64_t begin = seconds();
  for (int k = 0; k < 300; k++)
    expect_told(call_sizes(fixture, function, 3, 4), DT_E_SHAPE, "add");
  // Once, once more where what was learned has changed by it, and again when that is forgotten.
  assert_true(own.traces <= 3 + (uint64_t)(seconds() - begin));
  expect_ok(call_sizes(fixture, function, 4, 4));
  expect_ok(call_sizes(fixture, function, 3, 3));
  dt_function_release(function);
}

static void test_captures_are_part_of_it(void **state) {
  fixture_t *fixture = *state;
  static int64_t most; // outlives the function
  sum_t own = {.most = &most};
  dt_function_t *function = sum_function(fixture, &own, DT_DYNAMIC_SYMBOLIC);
  for (int round = 0; round < 3; round++) {
    most = 4;
    expect_told(call_sizes(fixture, function, 3, 3), DT_E_ARGUMENT, "too few");
    expect_told(call_sizes(fixture, function, 3, 3), DT_E_ARGUMENT, "too few");
    most = 5 + round;
    expect_ok(call_sizes(fixture, function, 3, 3));
  }
  // With a variant that reads it, its value is remembered.
  own.traces = 0;
  most = 3;
  int64_t begin = seconds();
  for (int k = 0; k < 100; k++)
    expect_told(call_sizes(fixture, function, 3, 3), DT_E_ARGUMENT, "too few");
  assert_true(own.traces <= 2 + (uint64_t)(seconds() - begin));
  dt_function_release(function);
}

static void test_frozen_goes_first(void **state) {
  fixture_t *fixture = *state;
  sum_t own = {0};
  dt_function_t *function = sum_function(fixture, &own, DT_DYNAMIC_SYMBOLIC);
  expect_code(call_sizes(fixture, function, 3, 4), DT_E_SHAPE);
  expect_ok(dt_function_freeze(function, true));
  expect_code(call_sizes(fixture, function, 3, 4), DT_E_STATE);
  expect_ok(dt_function_freeze(function, false));
  expect_code(call_sizes(fixture, function, 3, 4), DT_E_SHAPE);
  dt_function_release(function);
}

// ---- Memory that is shared --------------------------------------------------------------------------

static dt_status_t update_first(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[0], in[1]);
  dt_update(t, in[0], out[0]);
  return NULL;
}

static dt_tensor_t *at(float *data, int64_t n) {
  dt_tensor_t *tensor = NULL;
  dt_tensor_desc_t desc = {.dtype = DT_F32, .rank = 1, .sizes = &n, .data = data};
  expect_ok(dt_tensor_create(&desc, &tensor));
  return tensor;
}

// The same sizes in memory that overlaps in part, and in memory that does not.
static void test_overlap_is_part_of_it(void **state) {
  fixture_t *fixture = *state;
  float data[16] = {0};
  dt_function_options_t options = options_of(2, two_vectors);
  dt_function_t *function = function_of(fixture, update_first, NULL, &options);
  for (int round = 0; round < 6; round++) {
    dt_tensor_t *in[2] = {at(data, 4), at(data + (round % 2 ? 8 : 2), 4)}, *out = NULL;
    dt_status_t status = dt_call(fixture->session, function, in, 2, &out, 1, NULL);
    if (round % 2)
      expect_ok(status);
    else
      expect_told(status, DT_E_ARGUMENT, "overlap");
    RELEASE(out, in[0], in[1]);
  }
  dt_function_release(function);
}

// A layout that is refused says nothing about another, nor an integer about another.
static dt_status_t rows(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_sym_t sizes[2] = {dt_int_value(t, in[1]), dt_sym_const(t, 2)};
  out[0] = dt_reshape(t, in[0], 2, sizes);
  return NULL;
}

static void test_numbers_are_part_of_it(void **state) {
  fixture_t *fixture = *state;
  static const dt_input_decl_t inputs[] = {
      {.name = "x", .dtype = DT_F32, .rank = 1},
      {.name = "rows", .dtype = DT_I64, .kind = DT_INPUT_INTEGER}};
  dt_function_options_t options = options_of(2, inputs);
  dt_function_t *function = function_of(fixture, rows, NULL, &options);
  dt_tensor_t *x = tensor_full(1, 1, SIZES(6));
  for (int64_t n = 0; n < 7; n++) {
    dt_tensor_t *in[2] = {x, tensor_i64(0, NULL, &n)}, *out = NULL;
    dt_status_t status = dt_call(fixture->session, function, in, 2, &out, 1, NULL);
    if (n == 3)
      expect_ok(status);
    else
      expect_code(status, DT_E_SHAPE);
    RELEASE(out, in[1]);
  }
  dt_tensor_release(x);
  dt_function_release(function);
}

// ---- What is no refusal, and no compile either -----------------------------------------------------

// A compile that finds no memory may be asked for again, however often.
static void test_no_memory_uses_up_no_limit(void **state) {
  fixture_t *fixture = *state;
  sum_t own = {0};
  dt_function_options_t options = options_of(2, two_vectors);
  options.limit_action = DT_LIMIT_ERROR;
  options.compile_limit = 1;
  dt_function_t *function = function_of(fixture, sum, &own, &options);
  int failed = 0;
  for (uint64_t n = 1; n < 400 && !stats_of(function).variants; n += 3) {
    int64_t size = 6;
    dt_tensor_t *in[2] = {tensor_full(1, 1, &size), tensor_full(2, 1, &size)}, *out = NULL;
    (void)dt__heap_fail_at(n, false);
    dt_status_t status = dt_call(fixture->session, function, in, 2, &out, 1, NULL);
    (void)dt__heap_fail_at(0, false);
    if (status)
      expect_code(status, DT_E_NO_MEMORY);
    failed += status != NULL;
    RELEASE(out, in[0], in[1]);
  }
  assert_true(failed > 3);
  expect_ok(call_sizes(fixture, function, 6, 6));
  assert_int_equal(stats_of(function).compiles, 1);
  dt_function_release(function);
}

// A deadline and a flag likewise.
static void test_ended_uses_up_no_limit(void **state) {
  fixture_t *fixture = *state;
  sum_t own = {0};
  dt_function_options_t options = options_of(2, two_vectors);
  options.limit_action = DT_LIMIT_ERROR;
  options.compile_limit = 1;
  dt_function_t *function = function_of(fixture, sum, &own, &options);
  const dt_cancel_t cancel = {0};
  dt_call_options_t how = {.struct_size = sizeof(how), .cancel = &cancel};
  for (uint64_t n = 1; n < 20; n++) {
    int64_t size = 6;
    dt_tensor_t *in[2] = {tensor_full(1, 1, &size), tensor_full(2, 1, &size)}, *out = NULL;
    (void)dt__control_end_at(n, n % 2 ? DT_E_DEADLINE : DT_E_CANCELLED);
    dt_status_t status = dt_call(fixture->session, function, in, 2, &out, 1, &how);
    bool came = dt__control_end_at(0, DT_OK) >= n;
    if (came)
      expect_code(status, n % 2 ? DT_E_DEADLINE : DT_E_CANCELLED);
    else
      expect_ok(status);
    RELEASE(out, in[0], in[1]);
  }
  expect_ok(call_sizes(fixture, function, 6, 6));
  assert_int_equal(stats_of(function).compiles, 1);
  dt_function_release(function);
}

// Variants that read the same captures share one list of them.
static void test_captures_do_not_grow(void **state) {
  fixture_t *fixture = *state;
  int64_t most = 7;
  sum_t own = {.most = &most};
  dt_function_t *function = sum_function(fixture, &own, DT_DYNAMIC_STATIC);
  expect_ok(call_sizes(fixture, function, 2, 2));
  const int64_t *const *captures = atomic_load(&function->list)->captures;
  assert_non_null(captures);
  for (int64_t n = 3; n < 7; n++) {
    expect_ok(call_sizes(fixture, function, n, n));
    assert_ptr_equal(atomic_load(&function->list)->captures, captures);
  }
  assert_int_equal(stats_of(function).variants, 5);
  dt_function_release(function);
}

// A program that writes the integer that the call was given, behind the library's back.
typedef struct writer_t {
  dt_tensor_t *number;
  int64_t to;
} writer_t;

static dt_status_t write_number(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  writer_t *own = closure;
  dt_sym_t n = dt_int_value(t, in[1]);
  bool few = dt_sym_true(t, dt_sym_le(t, n, dt_sym_const(t, 5)));
  out[0] = few ? dt_neg(t, in[0]) : dt_abs(t, in[0]);
  *(int64_t *)dt_tensor_data(own->number) = own->to;
  return NULL;
}

static void test_arguments_that_change(void **state) {
  fixture_t *fixture = *state;
  static const dt_input_decl_t inputs[] = {
      {.name = "x", .dtype = DT_F32, .rank = 1},
      {.name = "n", .dtype = DT_I64, .kind = DT_INPUT_INTEGER}};
  const int64_t size = 6, three = 3;
  writer_t own = {.number = tensor_i64(0, NULL, &three), .to = 9};
  dt_function_options_t options = options_of(2, inputs);
  options.limit_action = DT_LIMIT_ERROR;
  options.compile_limit = 1;
  dt_function_t *function = function_of(fixture, write_number, &own, &options);
  dt_tensor_t *in[2] = {tensor_full(1, 1, &size), own.number}, *out = NULL;
  for (int k = 0; k < 3; k++) {
    *(int64_t *)dt_tensor_data(own.number) = three;
    expect_told(dt_call(fixture->session, function, in, 2, &out, 1, NULL), DT_E_STATE,
                "were changed");
    assert_null(out);
  }
  own.to = three;
  *(int64_t *)dt_tensor_data(own.number) = three;
  expect_ok(dt_call(fixture->session, function, in, 2, &out, 1, NULL));
  assert_true(((float *)dt_tensor_data(out))[0] == -1);
  assert_int_equal(stats_of(function).compiles, 1);
  RELEASE(out, in[0], own.number);
  dt_function_release(function);
}

RUN_TESTS_WITH(setup, fixture_close, TEST(test_refusals_use_up_no_limit),
               TEST(test_the_same_again_is_a_look_up), TEST(test_captures_are_part_of_it),
               TEST(test_frozen_goes_first), TEST(test_overlap_is_part_of_it),
               TEST(test_numbers_are_part_of_it), TEST(test_no_memory_uses_up_no_limit),
               TEST(test_ended_uses_up_no_limit), TEST(test_captures_do_not_grow),
               TEST(test_arguments_that_change))
