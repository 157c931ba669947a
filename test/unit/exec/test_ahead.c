// SPDX-License-Identifier: Apache-2.0
// What is known of results before any call, and buffers that take results of any size that fits.
#include "test/support/subjects.h"

#include "runtime/base/memory.h"

#include <stdlib.h>
#include <string.h>

static int setup(void **state) { return fixture_open(state, 2, 5); }

static const dt_input_decl_t two_rows[] = {
    {.name = "x",
     .dtype = DT_F32,
     .rank = 2,
     .dims = (const dt_dim_decl_t[]){{.name = "batch"}, {.name = "seq", .max = 4096}}},
    {.name = "y", .dtype = DT_F32, .rank = 1}};

// Rows twice as long and one more, a constant's width, the length of y, and a scalar.
static dt_status_t shapes(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t both[] = {in[0], in[0]};
  dt_sym_t three = dt_sym_const(t, 3), zero = dt_sym_const(t, 0), one = dt_sym_const(t, 1);
  dt_sym_t low[] = {zero, zero}, high[] = {zero, one};
  out[0] = dt_pad(t, dt_concat(t, 2, both, 1), low, high, 0);
  out[1] = dt_full(t, DT_I64, 7, 1, &three);
  out[2] = dt_mul(t, in[1], in[1]);
  out[3] = dt_sum(t, in[1], 1, (const int32_t[]){0}, false);
  return NULL;
}

// As many ones as the data says.
static dt_status_t as_many(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_sym_t n = dt_item(t, in[0]);
  out[0] = dt_full(t, DT_F32, 1, 1, &n);
  return NULL;
}

static const dt_input_decl_t one_number[] = {{.name = "n", .dtype = DT_I64, .rank = 0}};
static const dt_input_decl_t one_vector[] = {{.name = "x", .dtype = DT_F32, .rank = 1}};

static void expect_spec(const dt_spec_t *spec, const char *name, dt_dtype_t dtype, uint32_t rank) {
  assert_string_equal(spec->name, name);
  assert_int_equal(spec->dtype, dtype);
  assert_true(spec->ranked);
  assert_int_equal(spec->rank, rank);
}

static void expect_dim(const dt_spec_t *spec, uint32_t d, int64_t size, const char *text) {
  assert_int_equal(spec->sizes[d], size);
  assert_string_equal(spec->dims[d], text);
}

// ---- Before any call ------------------------------------------------------------------------------
static void test_outputs_are_told(void **state) {
  fixture_t *fixture = *state;
  const dt_output_decl_t named[4] = {{.name = "long"}, {.name = "sevens"}};
  dt_function_options_t options = options_of(2, two_rows);
  options.n_outputs = 4;
  options.outputs = named;
  options.output_size = sizeof(named[0]);
  dt_function_t *function = function_of(fixture, shapes, NULL, &options);
  for (int round = 0; round < 2; round++) {
    dt_specs_t *specs = NULL;
    expect_ok(dt_function_outputs(function, &specs));
    assert_int_equal(specs->n, 4);
    expect_spec(specs->items[0], "long", DT_F32, 2);
    expect_dim(specs->items[0], 0, -1, "batch");
    expect_dim(specs->items[0], 1, -1, "seq*2 + 1");
    expect_spec(specs->items[1], "sevens", DT_I64, 1);
    expect_dim(specs->items[1], 0, 3, "3");
    expect_spec(specs->items[2], "", DT_F32, 1);
    expect_dim(specs->items[2], 0, -1, "y.size(0)");
    expect_spec(specs->items[3], "", DT_F32, 0);
    dt_specs_free(specs);
    assert_int_equal(stats_of(function).compiles, 0);
    assert_int_equal(stats_of(function).variants, 0);
  }
  dt_function_release(function);
}

static void test_outputs_of_data(void **state) {
  fixture_t *fixture = *state;
  dt_function_options_t options = options_of(1, one_number);
  dt_function_t *function = function_of(fixture, as_many, NULL, &options);
  dt_specs_t *specs = NULL;
  expect_ok(dt_function_outputs(function, &specs));
  expect_spec(specs->items[0], "", DT_F32, 1);
  expect_dim(specs->items[0], 0, -1, "?");
  dt_specs_free(specs);
  dt_function_release(function);
}

// A function of fixed sizes has none before a call, and tells of its first variant after it.
static void test_outputs_of_a_static_function(void **state) {
  fixture_t *fixture = *state;
  dt_function_options_t options = options_of(1, one_vector);
  options.dynamic = DT_DYNAMIC_STATIC;
  dt_function_t *function = function_of(fixture, double_program, NULL, &options);
  dt_specs_t *specs = (dt_specs_t *)(void *)&options;
  expect_code(dt_function_outputs(function, &specs), DT_E_STATE);
  assert_null(specs);
  dt_tensor_t *x = tensor_full(1, 1, SIZES(5)), *out = NULL;
  expect_ok(dt_call(fixture->session, function, &x, 1, &out, 1, NULL));
  expect_ok(dt_function_outputs(function, &specs));
  expect_dim(specs->items[0], 0, 5, "5");
  dt_specs_free(specs);
  RELEASE(x, out);
  dt_function_release(function);
}

static void test_outputs_refused(void **state) {
  (void)state;
  dt_specs_t *specs = NULL;
  expect_told(dt_function_outputs(NULL, &specs), DT_E_ARGUMENT, "function: NULL");
  dt_specs_free(NULL);
}

// Without memory nothing is told, and nothing is lost.
static void test_outputs_without_memory(void **state) {
  fixture_t *fixture = *state;
  dt_function_options_t options = options_of(2, two_rows);
  options.n_outputs = 4;
  dt_function_t *function = function_of(fixture, shapes, NULL, &options);
  uint64_t n = 1;
  for (dt_code_t code = DT_E_NO_MEMORY; code == DT_E_NO_MEMORY; n++) {
    dt_specs_t *specs = NULL;
    (void)dt__heap_fail_at(n, false);
    dt_status_t status = dt_function_outputs(function, &specs);
    (void)dt__heap_fail_at(0, false);
    code = dt_status_code(status);
    dt_status_free(status);
    assert_true((code == DT_OK) == (specs != NULL));
    assert_true(code == DT_OK || code == DT_E_NO_MEMORY);
    dt_specs_free(specs);
  }
  assert_true(n > 10);
  dt_function_release(function);
}

// ---- Buffers --------------------------------------------------------------------------------------
static dt_tensor_t *buffer_over(dt_dtype_t dtype, void *data, uint64_t room) {
  const int64_t none = 0;
  const dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                                 .dtype = dtype,
                                 .rank = 1,
                                 .sizes = &none,
                                 .data = data,
                                 .room = room};
  dt_tensor_t *tensor = NULL;
  expect_ok(dt_tensor_create(&desc, &tensor));
  assert_int_equal(dt_tensor_room(tensor), room);
  return tensor;
}

static void test_buffers_take_what_fits(void **state) {
  fixture_t *fixture = *state;
  _Alignas(64) float data[20];
  for (int answer = 0; answer < 2; answer++) {
    dt_function_options_t options = options_of(1, one_vector);
    options.answer = answer ? DT_ANSWER_EVALUATOR : compiled_answer();
    dt_function_t *function = function_of(fixture, double_program, NULL, &options);
    dt_tensor_t *buffer = buffer_over(DT_F32, data, 16 * sizeof(float));
    for (int64_t n = 16; n >= 0; n -= 4) {
      dt_tensor_t *x = tensor_full(3, 1, &n);
      memset(data, 0, sizeof(data));
      expect_ok(dt_call(fixture->session, function, &x, 1, &buffer, 1, NULL));
      assert_int_equal(dt_tensor_rank(buffer), 1);
      assert_int_equal(dt_tensor_sizes(buffer)[0], n);
      assert_int_equal(dt_tensor_count(buffer), n);
      assert_ptr_equal(dt_tensor_data(buffer), data);
      for (int64_t k = 0; k < 20; k++)
        assert_true(data[k] == (k < n ? 6.0F : 0.0F));
      dt_tensor_release(x);
    }
    dt_tensor_t *x = tensor_full(3, 1, SIZES(17));
    memset(data, 0, sizeof(data));
    expect_told(dt_call(fixture->session, function, &x, 1, &buffer, 1, NULL), DT_E_SHAPE,
                "the result has 68 bytes; the buffer has room for 64");
    for (int64_t k = 0; k < 20; k++)
      assert_true(data[k] == 0);
    RELEASE(x, buffer);
    dt_function_release(function);
  }
}

// A rank that it did not have, and an order that the function asks for.
static void test_buffers_take_ranks_and_orders(void **state) {
  fixture_t *fixture = *state;
  _Alignas(64) float data[64];
  const uint32_t turned[] = {1, 0};
  const dt_output_decl_t columns = {.order = turned, .rank = 2};
  for (int ordered = 0; ordered < 2; ordered++) {
    dt_function_options_t options =
        options_of(1, (const dt_input_decl_t[]){{.name = "x", .dtype = DT_F32, .rank = 2}});
    options.outputs = ordered ? &columns : NULL;
    options.output_size = sizeof(columns);
    dt_function_t *function = function_of(fixture, double_program, NULL, &options);
    dt_tensor_t *buffer = buffer_over(DT_F32, data, sizeof(data));
    dt_tensor_t *x = tensor_full(1, 2, SIZES(3, 5));
    for (int k = 0; k < 15; k++)
      ((float *)dt_tensor_data(x))[k] = (float)k;
    expect_ok(dt_call(fixture->session, function, &x, 1, &buffer, 1, NULL));
    assert_int_equal(dt_tensor_rank(buffer), 2);
    assert_int_equal(dt_tensor_strides(buffer)[0], ordered ? 1 : 5);
    assert_int_equal(dt_tensor_strides(buffer)[1], ordered ? 3 : 1);
    for (int r = 0; r < 3; r++)
      for (int c = 0; c < 5; c++)
        assert_true(data[ordered ? c * 3 + r : r * 5 + c] == 2.0F * (float)(r * 5 + c));
    RELEASE(x, buffer);
    dt_function_release(function);
  }
}

static void test_buffers_of_results_that_data_size(void **state) {
  fixture_t *fixture = *state;
  _Alignas(64) float data[16];
  dt_function_options_t options = options_of(1, one_number);
  dt_function_t *function = function_of(fixture, as_many, NULL, &options);
  dt_tensor_t *buffer = buffer_over(DT_F32, data, 10 * sizeof(float));
  for (int64_t n = 0; n <= 12; n++) {
    dt_tensor_t *number = tensor_i64(0, NULL, &n);
    memset(data, 0, sizeof(data));
    dt_status_t status = dt_call(fixture->session, function, &number, 1, &buffer, 1, NULL);
    if (n <= 10) {
      expect_ok(status);
      assert_int_equal(dt_tensor_sizes(buffer)[0], n);
    } else {
      expect_told(status, DT_E_SHAPE, "the buffer has room for 40");
    }
    for (int64_t k = 0; k < 16; k++)
      assert_true(data[k] == (n <= 10 && k < n ? 1.0F : 0.0F));
    dt_tensor_release(number);
  }
  dt_tensor_release(buffer);
  dt_function_release(function);
}

// The whole buffer is the call's: nothing else may lie in it.
static void test_buffers_overlap(void **state) {
  fixture_t *fixture = *state;
  _Alignas(64) float data[32] = {0};
  dt_function_options_t options = options_of(1, one_vector);
  dt_function_t *function = function_of(fixture, double_program, NULL, &options);
  const dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                                 .dtype = DT_F32,
                                 .rank = 1,
                                 .sizes = SIZES(4),
                                 .data = data + 16};
  dt_tensor_t *x = NULL, *buffer = buffer_over(DT_F32, data, sizeof(data));
  expect_ok(dt_tensor_create(&desc, &x));
  expect_told(dt_call(fixture->session, function, &x, 1, &buffer, 1, NULL), DT_E_ARGUMENT,
              "overlaps");
  dt_tensor_release(buffer);
  buffer = buffer_over(DT_F32, data, 16 * sizeof(float));
  expect_ok(dt_call(fixture->session, function, &x, 1, &buffer, 1, NULL));
  dt_tensor_release(buffer);
  buffer = buffer_over(DT_I32, data, 16 * sizeof(float));
  expect_told(dt_call(fixture->session, function, &x, 1, &buffer, 1, NULL), DT_E_DTYPE, "got i32");
  RELEASE(x, buffer);
  dt_function_release(function);
}

static void test_buffers_refused(void **state) {
  (void)state;
  _Alignas(64) float data[8];
  dt_tensor_t *tensor = NULL;
  dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                           .dtype = DT_F32,
                           .rank = 1,
                           .sizes = SIZES(9),
                           .data = data,
                           .room = sizeof(data)};
  expect_told(dt_tensor_create(&desc, &tensor), DT_E_SHAPE, "room: 32 bytes; `sizes` need 36");
  desc.sizes = SIZES(4);
  desc.strides = SIZES(2);
  expect_told(dt_tensor_create(&desc, &tensor), DT_E_SHAPE, "strides");
  desc.strides = NULL;
  desc.room = (uint64_t)1 << 63;
  expect_told(dt_tensor_create(&desc, &tensor), DT_E_SHAPE, "room");
  desc.room = 32;
  desc.sizes = SIZES(0);
  desc.data = NULL;
  expect_told(dt_tensor_create(&desc, &tensor), DT_E_ARGUMENT, "data: NULL");
  desc.data = (char *)data + 1;
  expect_told(dt_tensor_create(&desc, &tensor), DT_E_ARGUMENT, "not aligned");
  assert_null(tensor);
}

RUN_TESTS_WITH(setup, fixture_close, TEST(test_outputs_are_told), TEST(test_outputs_of_data),
               TEST(test_outputs_of_a_static_function), TEST(test_outputs_refused),
               TEST(test_outputs_without_memory), TEST(test_buffers_take_what_fits),
               TEST(test_buffers_take_ranks_and_orders),
               TEST(test_buffers_of_results_that_data_size), TEST(test_buffers_overlap),
               TEST(test_buffers_refused))
