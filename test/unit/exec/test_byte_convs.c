// SPDX-License-Identifier: Apache-2.0
// Convolutions of integers of 8 bits with constant weights, by compiled code and by the evaluator:
// every pair of signs, zero points at both ends and between, padding, strides, groups, channels
// that fill no word, in one depth of k and in two; sizes of 0, 1 and around a vector.
#include "ductile/pattern.h"
#include "test/support/fixture.h"

#include <string.h>

typedef struct byte_conv_t {
  dt_dtype_t x_dtype, w_dtype;
  int64_t x_zero, w_zero;
  int64_t channels, rows, kernel, stride, padding, groups;
  bool taken; // by ductile.integer_conv, or there is nothing to do
  dt_tensor_t *w;
  int64_t dilation; // 0: 1
} byte_conv_t;

static byte_conv_t cases[] = {
    {DT_U8, DT_I8, 117, 0, 5, 9, 3, 1, 1, 1, true, NULL, 0},
    {DT_U8, DT_I8, 0, 0, 64, 16, 3, 1, 1, 1, true, NULL, 0},
    {DT_U8, DT_I8, 0, 0, 33, 40, 1, 1, 0, 1, true, NULL, 0},
    {DT_U8, DT_U8, 255, 128, 7, 20, 3, 2, 1, 1, true, NULL, 0},
    {DT_U8, DT_U8, 128, 0, 6, 8, 1, 1, 0, 1, true, NULL, 0},
    {DT_U8, DT_U8, 3, 7, 6, 8, 3, 1, 1, 1, false, NULL, 0},
    {DT_I8, DT_I8, -128, 0, 130, 17, 3, 1, 1, 1, true, NULL, 0},
    {DT_I8, DT_I8, 127, 0, 3, 10, 7, 2, 3, 1, true, NULL, 0},
    {DT_I8, DT_U8, -5, 0, 4, 12, 5, 1, 2, 1, true, NULL, 0},
    {DT_I8, DT_I8, 11, 0, 12, 24, 3, 1, 1, 2, true, NULL, 0},
    {DT_U8, DT_I8, 9, 0, 6, 6, 3, 1, 1, 6, true, NULL, 0},
    // Several depths of k, whose words are the innermost of its loops.
    {DT_U8, DT_I8, 3, 0, 4, 16, 17, 1, 16, 1, true, NULL, 2},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static int setup(void **state) { return fixture_open(state, 2, 11); }

static dt_value_t less(dt_trace_t *t, dt_value_t x, int64_t zero) {
  x = dt_cast(t, x, DT_I32);
  return zero ? dt_sub(t, x, dt_scalar(t, DT_I32, (double)zero)) : x;
}

static dt_status_t program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const byte_conv_t *c = closure;
  dt_window_t windows[2];
  memset(windows, 0, sizeof windows);
  for (int d = 0; d < 2; d++) {
    windows[d].stride = dt_sym_const(t, c->stride);
    windows[d].dilation = dt_sym_const(t, c->dilation ? c->dilation : 1);
    windows[d].low = windows[d].high = dt_sym_const(t, c->padding);
  }
  dt_value_t w = less(t, dt_constant(t, "w", c->w), c->w_zero);
  dt_value_t y = dt_conv(t, less(t, in[0], c->x_zero), w, windows, (uint32_t)c->groups);
  out[0] = dt_add(t, y, dt_scalar(t, DT_I32, 3));
  return NULL;
}

static dt_tensor_t *bytes(rng_t *rng, dt_dtype_t dtype, const int64_t sizes[4]) {
  dt_tensor_t *made = NULL;
  expect_ok(dt_tensor_create_empty(dtype, 4, sizes, &made));
  for (int64_t k = 0; k < dt_tensor_count(made); k++) {
    int64_t value = rng_between(rng, 0, 255);
    ((uint8_t *)dt_tensor_data(made))[k] = (uint8_t)(value % 3 ? value : value % 2 ? 128 : 127);
  }
  return made;
}

static uint64_t count_of(fixture_t *f) {
  dt_pattern_t *pattern = NULL;
  expect_ok(dt_runtime_find_pattern(f->runtime, "ductile.integer_conv", &pattern));
  uint64_t n = dt_pattern_count(pattern);
  dt_pattern_release(pattern);
  return n;
}

// One of u8 and i8 without zero points and padding is what it should be.
static bool is_taken(const byte_conv_t *c) {
  return c->taken && (c->x_zero || c->w_zero || c->w_dtype == c->x_dtype || c->padding);
}

static void check(fixture_t *fixture, dt_function_t *const functions[2], const byte_conv_t *c,
                  const int64_t sizes[4]) {
  dt_tensor_t *x = bytes(&fixture->rng, c->x_dtype, sizes), *y[2] = {NULL, NULL};
  for (int k = 0; k < 2; k++)
    expect_ok(dt_call(fixture->session, functions[k], &x, 1, &y[k], 1, NULL));
  assert_memory_equal(dt_tensor_data(y[0]), dt_tensor_data(y[1]),
                      (size_t)dt_tensor_count(y[1]) * sizeof(int32_t));
  RELEASE(x, y[0], y[1]);
}

static void test_convs(void **state) {
  static const int64_t lengths[][3] = {{1, 7, 9}, {2, 1, 1}, {0, 5, 5}, {1, 14, 33}, {3, 6, 16}};
  fixture_t *fixture = *state;
  for (size_t i = 0; i < CASES; i++) {
    byte_conv_t *c = &cases[i];
    dt_dim_decl_t dims[4];
    dt_function_t *functions[2];
    memset(dims, 0, sizeof(dims));
    dims[1] = (dt_dim_decl_t){.is_static = true, .value = c->channels};
    dt_input_decl_t input = {.name = "x", .dtype = c->x_dtype, .rank = 4, .dims = dims};
    dt_function_options_t options = options_of(1, &input);
    uint64_t before = count_of(fixture);
    c->w = bytes(&fixture->rng, c->w_dtype,
                 (int64_t[]){c->rows, c->channels / c->groups, c->kernel, c->kernel});
    for (int k = 0; k < 2; k++) {
      options.answer = k ? DT_ANSWER_EVALUATOR : compiled_answer();
      functions[k] = function_of(fixture, program, c, &options);
    }
    for (size_t n = 0; n < sizeof(lengths) / sizeof(lengths[0]); n++)
      check(fixture, functions, c,
            (int64_t[]){lengths[n][0], c->channels, lengths[n][1], lengths[n][2]});
    if (compiled_answer() == DT_ANSWER_COMPILED)
      assert_int_equal(count_of(fixture) > before, is_taken(c));
    dt_function_release(functions[0]);
    dt_function_release(functions[1]);
    dt_tensor_release(c->w);
  }
}

RUN_TESTS_WITH(setup, fixture_close, TEST(test_convs))
