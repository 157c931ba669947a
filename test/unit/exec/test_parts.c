// SPDX-License-Identifier: Apache-2.0
// Programs over sizes that are declared multiples of 4, or found to be: halves, quarters, groups of
// channels with their planes, what is halved and doubled again. Whole numbers, so that sums are
// exact, by compiled code and by the evaluator.
#include "test/support/fixture.h"

#include <string.h>

#define CHANNELS 6
#define GROUPS 2

static int setup(void **state) { return fixture_open(state, 2, 7); }

// [n, c, h, w] summed over squares of `by` elements.
static dt_value_t shrunk(dt_trace_t *t, dt_value_t x, int64_t by) {
  dt_sym_t step = dt_sym_const(t, by), sizes[6];
  for (int32_t d = 0; d < 2; d++)
    sizes[d] = dt_dim(t, x, d);
  for (int32_t d = 0; d < 2; d++) {
    sizes[2 + 2 * d] = dt_sym_floordiv(t, dt_dim(t, x, 2 + d), step);
    sizes[3 + 2 * d] = step;
  }
  return dt_sum(t, dt_reshape(t, x, 6, sizes), 2, (const int32_t[]){3, 5}, false);
}

// Each element `by` times in both directions.
static dt_value_t grown(dt_trace_t *t, dt_value_t x, int64_t by) {
  dt_sym_t step = dt_sym_const(t, by), sizes[6], joined[4];
  for (int32_t d = 0; d < 2; d++) {
    joined[d] = sizes[d] = dt_dim(t, x, d);
    sizes[2 + 2 * d] = dt_dim(t, x, 2 + d);
    sizes[3 + 2 * d] = step;
    joined[2 + d] = dt_sym_mul(t, sizes[2 + 2 * d], step);
  }
  x = dt_expand(t, dt_unsqueeze(t, dt_unsqueeze(t, x, 3), 5), 6, sizes);
  return dt_reshape(t, x, 4, joined);
}

// Less the sum of its group of channels: a flat row, as norms have it, and back.
static dt_value_t normed(dt_trace_t *t, dt_value_t x) {
  dt_sym_t sizes[4], flat[3] = {dt_dim(t, x, 0), dt_sym_const(t, GROUPS)};
  for (int32_t d = 0; d < 4; d++)
    sizes[d] = dt_dim(t, x, d);
  flat[2] = dt_sym_mul(t, dt_sym_mul(t, dt_sym_const(t, CHANNELS / GROUPS), sizes[2]), sizes[3]);
  dt_value_t rows = dt_reshape(t, x, 3, flat);
  rows = dt_sub(t, rows, dt_sum(t, rows, 1, (const int32_t[]){2}, true));
  return dt_reshape(t, rows, 4, sizes);
}

static dt_status_t program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t half = normed(t, shrunk(t, in[0], 2)), quarter = normed(t, shrunk(t, half, 2));
  dt_value_t up = dt_concat(t, 2, (const dt_value_t[]){grown(t, quarter, 2), half}, 1);
  dt_value_t top[2] = {grown(t, up, 2), in[0]};
  out[0] = dt_concat(t, 2, top, 1);
  out[1] = quarter;
  return NULL;
}

static dt_function_t *make(fixture_t *fixture, int64_t multiple, dt_answer_t answer) {
  dt_dim_decl_t dims[4];
  memset(dims, 0, sizeof(dims));
  dims[1] = (dt_dim_decl_t){.is_static = true, .value = CHANNELS};
  dims[2].multiple_of = dims[3].multiple_of = multiple;
  dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 4, .dims = dims};
  dt_function_options_t options = options_of(1, &input);
  options.n_outputs = 2;
  options.answer = answer;
  return function_of(fixture, program, NULL, &options);
}

static void expect_same(dt_tensor_t *got, dt_tensor_t *want) {
  for (int32_t d = 0; d < 4; d++)
    assert_int_equal(dt_tensor_sizes(got)[d], dt_tensor_sizes(want)[d]);
  assert_memory_equal(dt_tensor_data(got), dt_tensor_data(want),
                      (size_t)dt_tensor_count(want) * sizeof(float));
}

static void check(fixture_t *fixture, dt_function_t *compiled, dt_function_t *evaluated,
                  const int64_t sizes[4]) {
  dt_tensor_t *x = tensor_full(0, 4, sizes), *got[2] = {NULL, NULL}, *want[2] = {NULL, NULL};
  for (int64_t k = 0; k < dt_tensor_count(x); k++)
    ((float *)dt_tensor_data(x))[k] = (float)rng_between(&fixture->rng, -3, 3);
  expect_ok(dt_call(fixture->session, compiled, &x, 1, got, 2, NULL));
  expect_ok(dt_call(fixture->session, evaluated, &x, 1, want, 2, NULL));
  for (int k = 0; k < 2; k++) {
    expect_same(got[k], want[k]);
    RELEASE(got[k], want[k]);
  }
  dt_tensor_release(x);
}

static void test_multiples(void **state) {
  static const int64_t lengths[] = {4, 0, 8, 12, 20, 36, 64};
  fixture_t *fixture = *state;
  for (int declared = 0; declared < 2; declared++) {
    int64_t multiple = declared ? 4 : 0;
    dt_function_t *compiled = make(fixture, multiple, compiled_answer());
    dt_function_t *evaluated = make(fixture, multiple, DT_ANSWER_EVALUATOR);
    for (size_t h = 0; h < sizeof(lengths) / sizeof(lengths[0]); h++)
      for (size_t w = 0; w < sizeof(lengths) / sizeof(lengths[0]); w++)
        check(fixture, compiled, evaluated,
              (int64_t[]){(int64_t)(h + w) % 3, CHANNELS, lengths[h], lengths[w]});
    dt_tensor_t *odd = tensor_full(0, 4, (int64_t[]){1, CHANNELS, 8, 6}), *out[2] = {NULL, NULL};
    expect_code(dt_call(fixture->session, compiled, &odd, 1, out, 2, NULL), DT_E_SHAPE);
    dt_tensor_release(odd);
    dt_function_release(compiled);
    dt_function_release(evaluated);
  }
}

RUN_TESTS_WITH(setup, fixture_close, TEST(test_multiples))
