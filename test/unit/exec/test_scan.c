// SPDX-License-Identifier: Apache-2.0
// Calls of scans against loops over their definition: recurrences along either axis and from either
// end at many sizes, halves that are joined in f32, scans in loops, loops along an axis with and
// without values that they go along, maps; and scans from graph IR text.
#include "test/support/fixture.h"

#include <math.h>
#include <string.h>

static int setup(void **state) { return fixture_open(state, 2, 11); }

// ---- h = a h + b ----------------------------------------------------------------------------------
typedef struct way_t {
  int32_t axis;
  uint32_t flags;
} way_t;

static dt_status_t recur(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_mul(t, in[0], in[2]);
  out[1] = dt_add(t, dt_mul(t, in[2], in[1]), in[3]);
  return NULL;
}

static dt_status_t recurrence(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const way_t *way = closure;
  dt_associative_scan(t, recur, NULL, 2, in, way->axis, way->flags, out);
  return NULL;
}

static dt_function_t *two_of_two(fixture_t *fixture, dt_program_fn_t program, void *closure) {
  static const dt_dim_decl_t dims[2] = {{.name = "m"}, {.name = "n"}};
  const dt_input_decl_t inputs[2] = {{.name = "a", .dtype = DT_F32, .rank = 2, .dims = dims},
                                     {.name = "b", .dtype = DT_F32, .rank = 2, .dims = dims}};
  dt_function_options_t options = options_of(2, inputs);
  options.n_outputs = 2;
  return function_of(fixture, program, closure, &options);
}

// Both results at every element, by the definition in f64.
static void check_recurrence(const way_t *way, int64_t m, int64_t n, dt_tensor_t *const *in,
                             dt_tensor_t *const *out) {
  const float *a = dt_tensor_data(in[0]), *b = dt_tensor_data(in[1]);
  const float *got[2] = {dt_tensor_data(out[0]), dt_tensor_data(out[1])};
  int64_t rows = way->axis ? m : n, steps = way->axis ? n : m;
  int64_t row = way->axis ? n : 1, step = way->axis ? 1 : n;
  for (int64_t r = 0; r < rows; r++) {
    double product = 1, h = 0;
    for (int64_t i = 0; i < steps; i++) {
      int64_t at = r * row + (way->flags & DT_SCAN_BACKWARDS ? steps - 1 - i : i) * step;
      product *= (double)a[at];
      h = (double)a[at] * h + (double)b[at];
      if (!(fabs((double)got[0][at] - product) <= 1e-5) || !(fabs((double)got[1][at] - h) <= 1e-4))
        fail_msg("axis %d flags %u [%d, %d] at %d: %g and %g, expected %g and %g", way->axis,
                 way->flags, (int)m, (int)n, (int)at, (double)got[0][at], (double)got[1][at],
                 product, h);
    }
  }
}

static void test_recurrences(void **state) {
  static const int64_t sizes[] = {0, 1, 2, 5, 33, 130};
  static const way_t ways[] = {{0, 0}, {1, 0}, {0, DT_SCAN_BACKWARDS}, {-1, DT_SCAN_BACKWARDS}};
  fixture_t *fixture = *state;
  for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
    way_t way = ways[w];
    dt_function_t *function = two_of_two(fixture, recurrence, &way);
    for (size_t k = 0; k < 36; k++) {
      const int64_t shape[2] = {sizes[k / 6], sizes[k % 6]};
      dt_tensor_t *in[2], *out[2] = {NULL, NULL};
      for (int i = 0; i < 2; i++)
        in[i] = tensor_f32(&fixture->rng, 2, shape);
      for (int64_t i = 0; i < dt_tensor_count(in[0]); i++)
        ((float *)dt_tensor_data(in[0]))[i] *= 0.9f;
      expect_ok(dt_call(fixture->session, function, in, 2, out, 2, NULL));
      expect_sizes(out[1], 2, shape);
      check_recurrence(&way, shape[0], shape[1], in, out);
      RELEASE(in[0], in[1], out[0], out[1]);
    }
    assert_int_equal(variants_of(function), 1);
    dt_function_release(function);
  }
}

// The order of steps is the axis's, whatever the threads do.
static void test_threads_agree(void **state) {
  fixture_t *fixture = *state;
  const int64_t shape[2] = {257, 190};
  way_t way = {0, 0};
  dt_tensor_t *in[2] = {tensor_f32(&fixture->rng, 2, shape), tensor_f32(&fixture->rng, 2, shape)};
  dt_tensor_t *out[2][2] = {{NULL}};
  for (uint32_t k = 0; k < 2; k++) {
    fixture_t own = fixture_on(DT_CPU, 1 + 3 * k);
    dt_function_t *function = two_of_two(&own, recurrence, &way);
    expect_ok(dt_call(own.session, function, in, 2, out[k], 2, NULL));
    dt_function_release(function);
    fixture_end(&own);
  }
  for (int k = 0; k < 2; k++)
    assert_memory_equal(dt_tensor_data(out[0][k]), dt_tensor_data(out[1][k]),
                        (size_t)(shape[0] * shape[1]) * sizeof(float));
  RELEASE(in[0], in[1], out[0][0], out[0][1], out[1][0], out[1][1]);
}

// ---- Halves ---------------------------------------------------------------------------------------
static dt_status_t add_up(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  *(dt_dtype_t *)closure = dt_value_dtype(t, in[1]);
  out[0] = dt_add(t, in[0], in[1]);
  return NULL;
}

static dt_status_t sums(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t halves = dt_cast(t, in[0], DT_BF16);
  dt_associative_scan(t, add_up, closure, 1, &halves, 0, 0, out);
  out[0] = dt_cast(t, out[0], DT_F32);
  return NULL;
}

// Sums of 1 would stay at 256 if each was rounded to bf16.
static void test_halves_are_joined_in_f32(void **state) {
  fixture_t *fixture = *state;
  const int64_t n = 1000;
  dt_dtype_t seen = DT_DTYPE_NONE;
  dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1};
  dt_function_options_t options = options_of(1, &input);
  dt_function_t *function = function_of(fixture, sums, &seen, &options);
  dt_tensor_t *x = tensor_full(1, 1, &n), *y = NULL;
  expect_ok(dt_call(fixture->session, function, &x, 1, &y, 1, NULL));
  assert_int_equal(seen, DT_F32);
  assert_true(((float *)dt_tensor_data(y))[n - 1] == 1000.0f);
  RELEASE(x, y);
  dt_function_release(function);
}

// ---- Bits -----------------------------------------------------------------------------------------
// The sum so far is rounded to a low-bit dtype.
static dt_status_t add_low(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t low = dt_cast(t, in[0], *(const dt_dtype_t *)closure);
  out[0] = dt_add(t, dt_cast(t, low, DT_F32), in[1]);
  return NULL;
}

static dt_status_t join_bits(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t bits = dt_bit_or(t, dt_bitcast(t, in[0], DT_U32), dt_bitcast(t, in[1], DT_U32));
  out[0] = dt_bitcast(t, bits, DT_F32);
  return NULL;
}

static dt_status_t low_scans(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_associative_scan(t, add_low, closure, 1, in, 0, 0, &out[0]);
  dt_associative_scan(t, join_bits, NULL, 1, in, 0, 0, &out[1]);
  return NULL;
}

static void test_bits(void **state) {
  static const dt_dtype_t dtypes[] = {DT_F8E4M3FN, DT_F8E5M2FNUZ, DT_F8E8M0, DT_F4E2M1,
                                      DT_I4,       DT_U4,         DT_I2,     DT_U2};
  fixture_t *fixture = *state;
  dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1};
  for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
    dt_dtype_t dtype = dtypes[d];
    dt_function_options_t options = options_of(1, &input);
    options.n_outputs = 2;
    dt_function_t *function = function_of(fixture, low_scans, &dtype, &options);
    options.answer = DT_ANSWER_EVALUATOR;
    dt_function_t *oracle = function_of(fixture, low_scans, &dtype, &options);
    for (int64_t n = 1; n < 20; n += 6) {
      dt_tensor_t *x = tensor_f32(&fixture->rng, 1, &n), *got[2] = {NULL}, *want[2] = {NULL};
      for (int64_t k = 0; k < n; k++)
        ((float *)dt_tensor_data(x))[k] *= 3;
      expect_ok(dt_call(fixture->session, oracle, &x, 1, want, 2, NULL));
      expect_ok(dt_call(fixture->session, function, &x, 1, got, 2, NULL));
      for (int k = 0; k < 2; k++)
        expect_close(got[k], want[k], 0, 0, dt_dtype_name(dtype));
      RELEASE(x, got[0], got[1], want[0], want[1]);
    }
    dt_function_release(function);
    dt_function_release(oracle);
  }
}

// ---- Inside of control ----------------------------------------------------------------------------
static dt_status_t below_three(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  (void)closure;
  out[0] = dt_lt(t, in[0], dt_scalar(t, DT_I64, 3));
  return NULL;
}

static dt_status_t sum_again(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_dtype_t seen;
  (void)closure;
  out[0] = dt_add(t, in[0], dt_scalar(t, DT_I64, 1));
  dt_associative_scan(t, add_up, &seen, 1, &in[1], 0, 0, &out[1]);
  return NULL;
}

static dt_status_t sum_thrice(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t state[2] = {dt_scalar(t, DT_I64, 0), in[0]};
  (void)closure;
  dt_while(t, below_three, sum_again, NULL, 2, state, 0, NULL, state);
  out[0] = state[1];
  return NULL;
}

static void test_in_a_loop(void **state) {
  fixture_t *fixture = *state;
  dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1};
  dt_function_options_t options = options_of(1, &input);
  dt_function_t *function = function_of(fixture, sum_thrice, NULL, &options);
  for (int64_t n = 0; n < 20; n += 3) {
    dt_tensor_t *x = tensor_full(1, 1, &n), *y = NULL;
    expect_ok(dt_call(fixture->session, function, &x, 1, &y, 1, NULL));
    for (int64_t k = 0; k < n; k++) // (k + 3 choose 3)
      assert_true(((float *)dt_tensor_data(y))[k] == (float)((k + 3) * (k + 2) * (k + 1) / 6));
    RELEASE(x, y);
  }
  dt_function_release(function);
}

// ---- Loops along an axis --------------------------------------------------------------------------
static dt_status_t fibonacci(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = in[1];
  out[1] = dt_add(t, in[0], in[1]);
  out[2] = in[0];
  return NULL;
}

static dt_status_t numbers(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t first[2] = {dt_scalar(t, DT_I64, 0), dt_scalar(t, DT_I64, 1)}, made[3];
  dt_scan(t, fibonacci, NULL, 2, first, 0, NULL, dt_dim(t, in[0], 0), 1, *(const uint32_t *)closure,
          made);
  out[0] = made[2];
  out[1] = made[0];
  return NULL;
}

static void test_scan_by_length(void **state) {
  fixture_t *fixture = *state;
  for (uint32_t flags = 0; flags < 2; flags++) {
    dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1};
    dt_function_options_t options = options_of(1, &input);
    options.n_outputs = 2;
    dt_function_t *function = function_of(fixture, numbers, &flags, &options);
    for (int64_t n = 0; n < 30; n += n < 3 ? 1 : 8) {
      dt_tensor_t *x = tensor_full(0, 1, &n), *out[2] = {NULL, NULL};
      expect_ok(dt_call(fixture->session, function, &x, 1, out, 2, NULL));
      expect_sizes(out[0], 1, &n);
      int64_t a = 0, b = 1;
      for (int64_t k = 0; k < n; k++) {
        int64_t at = flags ? n - 1 - k : k, next = a + b;
        assert_int_equal(((int64_t *)dt_tensor_data(out[0]))[at], a);
        a = b;
        b = next;
      }
      assert_int_equal(*(int64_t *)dt_tensor_data(out[1]), a);
      RELEASE(x, out[0], out[1]);
    }
    assert_true(variants_of(function) <= 2); // no trip at all, and others
    dt_function_release(function);
  }
}

static dt_status_t numbers_by_data(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                   void *closure) {
  dt_value_t first[2] = {dt_scalar(t, DT_I64, 0), dt_scalar(t, DT_I64, 1)}, made[3];
  dt_sym_t n = dt_item(t, in[0]);
  dt_check(t, dt_sym_le(t, dt_sym_const(t, 0), n), "a length is 0 or more");
  dt_scan(t, fibonacci, NULL, 2, first, 0, NULL, n, 1, *(const uint32_t *)closure, made);
  out[0] = made[2];
  return NULL;
}

static void test_scan_by_data(void **state) {
  static const int64_t want[] = {0, 1, 1, 2, 3, 5, 8};
  fixture_t *fixture = *state;
  for (uint32_t flags = 0; flags < 2; flags++) {
    dt_input_decl_t input = {.name = "n", .dtype = DT_I64};
    dt_function_options_t options = options_of(1, &input);
    dt_function_t *function = function_of(fixture, numbers_by_data, &flags, &options);
    for (int64_t n = 7; n >= 0; n--) {
      dt_tensor_t *length = tensor_integer(n), *out = NULL;
      expect_ok(dt_call(fixture->session, function, &length, 1, &out, 1, NULL));
      expect_sizes(out, 1, &n);
      for (int64_t k = 0; k < n; k++)
        assert_int_equal(((int64_t *)dt_tensor_data(out))[k], want[flags ? n - 1 - k : k]);
      RELEASE(length, out);
    }
    assert_int_equal(variants_of(function), 1);
    dt_function_release(function);
  }
}

// The trips' numbers, and what they add up to.
static dt_status_t count_trips(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[1], in[0]);
  out[1] = in[0];
  return NULL;
}

static dt_status_t numbered(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t zero = dt_scalar(t, DT_I64, 0), made[2];
  (void)closure;
  for (uint32_t k = 0; k < 2; k++) {
    dt_scan(t, count_trips, NULL, 1, &zero, 1, in, (dt_sym_t){0}, 1,
            DT_SCAN_NUMBERED | (k ? DT_SCAN_BACKWARDS : 0), made);
    out[k] = made[1];
  }
  out[2] = made[0];
  return NULL;
}

static void test_numbered(void **state) {
  fixture_t *fixture = *state;
  dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1};
  dt_function_options_t options = options_of(1, &input);
  options.n_outputs = 3;
  dt_function_t *function = function_of(fixture, numbered, NULL, &options);
  for (int64_t n = 0; n < 12; n += 3) {
    dt_tensor_t *x = tensor_full(0, 1, &n), *out[3] = {NULL, NULL, NULL};
    expect_ok(dt_call(fixture->session, function, &x, 1, out, 3, NULL));
    for (int64_t k = 0; k < n; k++) {
      assert_int_equal(((int64_t *)dt_tensor_data(out[0]))[k], k);
      assert_int_equal(((int64_t *)dt_tensor_data(out[1]))[k], n - 1 - k);
    }
    assert_int_equal(*(int64_t *)dt_tensor_data(out[2]), n * (n - 1) / 2);
    RELEASE(x, out[0], out[1], out[2]);
  }
  dt_function_release(function);
}

// x W + h U, of which W and U come from outside.
static dt_status_t cell(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const dt_value_t *weights = closure;
  dt_value_t h = dt_add(t, dt_matmul(t, in[1], weights[0]), dt_matmul(t, in[0], weights[1]));
  out[0] = dt_mul(t, h, dt_scalar(t, DT_F32, 0.25));
  out[1] = dt_tanh(t, h);
  return NULL;
}

static dt_status_t network(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const uint32_t *flags = closure;
  const dt_sym_t sizes[2] = {dt_dim(t, in[0], 1), dt_dim(t, in[1], 1)};
  dt_value_t weights[2] = {in[1], in[2]}, first = dt_full(t, DT_F32, 0, 2, sizes);
  dt_scan(t, cell, weights, 1, &first, 1, in, (dt_sym_t){0}, 1, *flags, out);
  return NULL;
}

// Compiled code and the evaluator agree.
static void test_network(void **state) {
  fixture_t *fixture = *state;
  const dt_input_decl_t inputs[3] = {{.name = "x", .dtype = DT_F32, .rank = 3},
                                     {.name = "w", .dtype = DT_F32, .rank = 2},
                                     {.name = "u", .dtype = DT_F32, .rank = 2}};
  for (uint32_t flags = 0; flags < 2; flags++) {
    dt_function_options_t options = options_of(3, inputs);
    options.n_outputs = 2;
    dt_function_t *function = function_of(fixture, network, &flags, &options);
    options.answer = DT_ANSWER_EVALUATOR;
    dt_function_t *oracle = function_of(fixture, network, &flags, &options);
    for (int64_t n = 0; n < 9; n += n < 2 ? 1 : 3) {
      const int64_t x[3] = {n, 3, 5}, w[2] = {5, 7}, u[2] = {7, 7};
      dt_tensor_t *in[3] = {tensor_f32(&fixture->rng, 3, x), tensor_f32(&fixture->rng, 2, w),
                            tensor_f32(&fixture->rng, 2, u)};
      dt_tensor_t *got[2] = {NULL, NULL}, *want[2] = {NULL, NULL};
      expect_ok(dt_call(fixture->session, function, in, 3, got, 2, NULL));
      expect_ok(dt_call(fixture->session, oracle, in, 3, want, 2, NULL));
      for (int k = 0; k < 2; k++)
        expect_close(got[k], want[k], 1e-4, 1e-4, "the network");
      RELEASE(in[0], in[1], in[2], got[0], got[1], want[0], want[1]);
    }
    dt_function_release(function);
    dt_function_release(oracle);
  }
}

// ---- Maps -----------------------------------------------------------------------------------------
static dt_status_t plus(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  out[0] = dt_add(t, in[0], *(const dt_value_t *)closure);
  return NULL;
}

// A map in a map: an element of rank 0 and one of the row from outside of it.
static dt_status_t both(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t shift = in[1];
  (void)closure;
  dt_map(t, plus, &shift, 1, in, 1, &out[0]);
  out[1] = dt_sum(t, in[0], 0, NULL, false);
  return NULL;
}

static dt_status_t mapped(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_map(t, both, NULL, 2, in, 2, out);
  return NULL;
}

static void test_map(void **state) {
  fixture_t *fixture = *state;
  const dt_input_decl_t inputs[2] = {{.name = "x", .dtype = DT_F32, .rank = 2},
                                     {.name = "y", .dtype = DT_F32, .rank = 1}};
  dt_function_options_t options = options_of(2, inputs);
  options.n_outputs = 2;
  dt_function_t *function = function_of(fixture, mapped, NULL, &options);
  for (int64_t k = 0; k < 16; k++) {
    const int64_t m = k / 4, n = k % 4 + 1;
    dt_tensor_t *in[2] = {tensor_full(2, 2, SIZES(m, n)), tensor_f32(&fixture->rng, 1, &m)};
    dt_tensor_t *out[2] = {NULL, NULL};
    expect_ok(dt_call(fixture->session, function, in, 2, out, 2, NULL));
    expect_sizes(out[0], 2, SIZES(m, n));
    expect_sizes(out[1], 1, &m);
    for (int64_t i = 0; i < m * n; i++)
      assert_true(((float *)dt_tensor_data(out[0]))[i] ==
                  2 + ((float *)dt_tensor_data(in[1]))[i / n]);
    for (int64_t i = 0; i < m; i++)
      assert_true(((float *)dt_tensor_data(out[1]))[i] == 2.0f * (float)n);
    RELEASE(in[0], in[1], out[0], out[1]);
  }
  dt_function_release(function);
}

// ---- Text -----------------------------------------------------------------------------------------
// The larger of the sum so far, cut off at what is captured, and the element.
static const char *const text = "graph (s0: [0, 1000]) {\n"
                                "  %1 = input \"x\" f32[s0] strides [1] contiguous\n"
                                "  %2 = input \"most\" f32[] strides [] contiguous\n"
                                "  %3 = associative_scan %1, %2 {axes = [0]} combine {\n"
                                "    %1 = input \"\" f32[] strides [] contiguous\n"
                                "    %2 = input \"\" f32[] strides [] contiguous\n"
                                "    %3 = input \"\" f32[] strides [] contiguous\n"
                                "    %4 = add %1, %2 : f32[]\n"
                                "    %5 = minimum %4, %3 : f32[]\n"
                                "    return %5\n"
                                "  } : bool[]\n"
                                "  %4 = result %3 {index = 0} : f32[s0]\n"
                                "  return %4\n"
                                "}\n";

static void test_from_text(void **state) {
  fixture_t *fixture = *state;
  const int64_t n = 9;
  float five = 5;
  dt_function_options_t options = {
      .struct_size = sizeof(options), .name = "text", .answer = compiled_answer()};
  dt_function_t *function = NULL;
  expect_ok(dt_function_create_from_ir(fixture->runtime, text, strlen(text), "text.dtt", &options,
                                       &function));
  dt_tensor_t *in[2] = {tensor_full(1, 1, &n), tensor_from(DT_F32, 0, NULL, &five)}, *y = NULL;
  expect_ok(dt_call(fixture->session, function, in, 2, &y, 1, NULL));
  for (int64_t k = 0; k < n; k++)
    assert_true(((float *)dt_tensor_data(y))[k] == (float)(k < 4 ? k + 1 : 5));
  RELEASE(in[0], in[1], y);
  dt_function_release(function);
}

RUN_TESTS_WITH(setup, fixture_close, TEST(test_recurrences), TEST(test_threads_agree),
               TEST(test_halves_are_joined_in_f32), TEST(test_bits), TEST(test_in_a_loop),
               TEST(test_scan_by_length), TEST(test_scan_by_data), TEST(test_numbered),
               TEST(test_network), TEST(test_map), TEST(test_from_text))
