// SPDX-License-Identifier: Apache-2.0
// Calls of convolutions with constant weights against sums over the definition, and of their
// negatives beside them, since one by itself may be made otherwise: tiles that pack windows, and
// those whose rows are places. Widths are such that a vector meets one row, two, a few, or very
// many, every element or every second, in one depth of k and in several. Numbers are small
// integers: sums are exact.
#include "test/support/fixture.h"

#include <string.h>

typedef struct conv_case_t {
  const char *what;
  int64_t channels, rows, kernel, stride, dilation, padding;
  bool transposed;
  dt_tensor_t *w;
} conv_case_t;

static conv_case_t cases[] = {
    {"1x1", 5, 9, 1, 1, 1, 0, false, NULL},
    {"1x1 of every second", 5, 9, 1, 2, 1, 0, false, NULL},
    {"3x3", 3, 9, 3, 1, 1, 1, false, NULL},
    {"3x3, two depths", 30, 6, 3, 1, 1, 1, false, NULL},
    {"3x3 of every second", 3, 17, 3, 2, 1, 1, false, NULL},
    {"3x3 of every third", 3, 5, 3, 3, 1, 1, false, NULL},
    {"2x2, dilated", 4, 6, 2, 1, 2, 1, false, NULL},
    {"many rows", 2, 140, 3, 1, 1, 1, false, NULL},
    {"3x3, few rows", 3, 2, 3, 1, 1, 1, false, NULL},
    {"5x5, few rows", 1, 3, 5, 1, 1, 2, false, NULL},
    {"5x5 of every second, few rows", 1, 3, 5, 2, 1, 2, false, NULL},
    {"7x7, few rows", 1, 2, 7, 1, 1, 3, false, NULL},
    {"1x1, places as rows", 16, 16, 1, 1, 1, 0, false, NULL},
    {"1x1, places as rows, 300 deep", 300, 17, 1, 1, 1, 0, false, NULL},
    {"1x1 of every second, places as rows", 19, 33, 1, 2, 1, 0, false, NULL},
    {"3x3, places as rows", 8, 64, 3, 1, 1, 1, false, NULL},
    {"3x3, places as rows, three depths", 70, 24, 3, 1, 1, 1, false, NULL},
    {"3x3 of every second, places as rows", 16, 40, 3, 2, 1, 1, false, NULL},
    {"3x3 of every third, places as rows", 5, 16, 3, 3, 1, 2, false, NULL},
    {"2x2, dilated, places as rows", 20, 130, 2, 1, 3, 2, false, NULL},
    {"3x3, dilated, every second, places as rows", 300, 16, 3, 2, 2, 2, false, NULL},
    {"7x7 of every second, places as rows", 3, 48, 7, 2, 1, 3, false, NULL},
    {"transposed 4x4", 3, 2, 4, 2, 1, 1, true, NULL},
    {"transposed 2x2", 3, 2, 2, 2, 1, 0, true, NULL},
    {"transposed 3x3 by 2", 3, 2, 3, 2, 1, 1, true, NULL},
    {"transposed 2x2 by 3", 3, 2, 2, 3, 1, 0, true, NULL},
    {"transposed 3x3, dilated", 3, 2, 3, 2, 2, 2, true, NULL},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static int setup(void **state) { return fixture_open(state, 2, 5); }

static dt_status_t program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const conv_case_t *c = closure;
  dt_window_t windows[2];
  memset(windows, 0, sizeof windows);
  for (int d = 0; d < 2; d++) {
    windows[d].stride = dt_sym_const(t, c->stride);
    windows[d].dilation = dt_sym_const(t, c->dilation);
    windows[d].low = windows[d].high = dt_sym_const(t, c->padding);
  }
  dt_value_t w = dt_constant(t, "w", c->w);
  for (int k = 0; k < 2; k++, w = dt_neg(t, w))
    out[k] = c->transposed ? dt_conv_transpose(t, in[0], w, windows, 1)
                           : dt_conv(t, in[0], w, windows, 1);
  return NULL;
}

static dt_tensor_t *integers(rng_t *rng, const int64_t sizes[4]) {
  dt_tensor_t *made = tensor_full(0, 4, sizes);
  for (int64_t k = 0; k < dt_tensor_count(made); k++)
    ((float *)dt_tensor_data(made))[k] = (float)rng_between(rng, -3, 3);
  return made;
}

static float at(dt_tensor_t *x, const int64_t index[4]) {
  const int64_t *sizes = dt_tensor_sizes(x);
  int64_t offset = 0;
  for (int d = 0; d < 4; d++) {
    if (index[d] < 0 || index[d] >= sizes[d])
      return 0;
    offset = offset * sizes[d] + index[d];
  }
  return ((const float *)dt_tensor_data(x))[offset];
}

// Element [n, row, y, x] of the result.
static float expected(const conv_case_t *c, dt_tensor_t *x, const int64_t place[4]) {
  float sum = 0;
  for (int64_t k = 0; k < c->channels * c->kernel * c->kernel; k++) {
    int64_t step[2] = {k / c->kernel % c->kernel, k % c->kernel};
    int64_t from[4] = {place[0], k / (c->kernel * c->kernel), 0, 0};
    const int64_t ends[2] = {c->transposed ? from[1] : place[1],
                             c->transposed ? place[1] : from[1]};
    bool meets = true;
    for (int d = 0; d < 2; d++) {
      int64_t moved = c->transposed ? place[2 + d] + c->padding - step[d] * c->dilation
                                    : place[2 + d] * c->stride - c->padding + step[d] * c->dilation;
      meets = meets && (!c->transposed || (moved >= 0 && moved % c->stride == 0));
      from[2 + d] = c->transposed ? moved / c->stride : moved;
    }
    if (meets)
      sum += at(x, from) * at(c->w, (int64_t[]){ends[0], ends[1], step[0], step[1]});
  }
  return sum;
}

static void check(fixture_t *fixture, dt_function_t *function, const conv_case_t *c, int64_t height,
                  int64_t width) {
  dt_tensor_t *x = integers(&fixture->rng, (int64_t[]){2, c->channels, height, width});
  dt_tensor_t *both[2] = {NULL, NULL}, *y;
  expect_ok(dt_call(fixture->session, function, &x, 1, both, 2, NULL));
  y = both[0];
  const int64_t *sizes = dt_tensor_sizes(y);
  assert_int_equal(sizes[1], c->rows);
  for (int64_t k = 0; k < dt_tensor_count(y); k++) {
    int64_t rest = k, place[4];
    for (int d = 4; d-- > 0; rest /= sizes[d])
      place[d] = rest % sizes[d];
    float got = ((const float *)dt_tensor_data(y))[k], want = expected(c, x, place);
    if (got != want || ((const float *)dt_tensor_data(both[1]))[k] != -want)
      fail_msg("%s at %lld x %lld: element %lld is %g, expected %g", c->what, (long long)height,
               (long long)width, (long long)k, (double)got, (double)want);
  }
  RELEASE(x, both[0], both[1]);
}

static void test_constant_weights(void **state) {
  static const int64_t widths[] = {2, 3, 4, 5, 7, 8, 14, 15, 16, 17, 31, 33, 48, 67};
  fixture_t *fixture = *state;
  for (size_t i = 0; i < CASES; i++) {
    conv_case_t *c = &cases[i];
    const int64_t ends[2] = {c->transposed ? c->channels : c->rows,
                             c->transposed ? c->rows : c->channels};
    c->w = integers(&fixture->rng, (int64_t[]){ends[0], ends[1], c->kernel, c->kernel});
    dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 4};
    dt_function_options_t options = options_of(1, &input);
    options.n_outputs = 2;
    dt_function_t *function = function_of(fixture, program, c, &options);
    for (size_t k = 0; k < sizeof widths / sizeof widths[0]; k++)
      check(fixture, function, c, 2 + (int64_t)(k * 5 % 9), widths[k]);
    assert_int_equal(variants_of(function), 1);
    dt_function_release(function);
    dt_tensor_release(c->w);
  }
}

// ---- Lanes that take turns ----------------------------------------------------------------------
// x [2, n] to [2 n]: element i is that of x[i % 2] at i // 2.
static dt_status_t interleaved(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  (void)closure;
  dt_sym_t all = dt_sym_mul(t, dt_sym_const(t, 2), dt_dim(t, in[0], 1));
  out[0] = dt_reshape(t, dt_permute(t, in[0], (int32_t[]){1, 0}), 1, &all);
  return NULL;
}

static void test_turns(void **state) {
  static const dt_dtype_t dtypes[] = {DT_F32, DT_F64, DT_I32, DT_I16};
  fixture_t *fixture = *state;
  for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
    const dt_dim_decl_t dims[2] = {{.is_static = true, .value = 2}, {.name = "n"}};
    dt_input_decl_t input = {.name = "x", .dtype = dtypes[d], .rank = 2, .dims = dims};
    dt_function_options_t options = options_of(1, &input);
    dt_function_t *function = function_of(fixture, interleaved, NULL, &options);
    for (int64_t n = 1; n < 100; n += n < 40 ? 1 : 7) {
      dt_tensor_t *x = NULL, *y = NULL;
      expect_ok(dt_tensor_create_empty(dtypes[d], 2, (int64_t[]){2, n}, &x));
      size_t bytes = dt_dtype_size(dtypes[d]);
      unsigned char *from = dt_tensor_data(x);
      for (size_t k = 0; k < 2 * (size_t)n * bytes; k++)
        from[k] = (unsigned char)(k % 61);
      expect_ok(dt_call(fixture->session, function, &x, 1, &y, 1, NULL));
      const unsigned char *got = dt_tensor_data(y);
      for (size_t i = 0; i < 2 * (size_t)n; i++)
        assert_memory_equal(got + i * bytes, from + (i % 2 * (size_t)n + i / 2) * bytes, bytes);
      RELEASE(x, y);
    }
    dt_function_release(function);
  }
}

RUN_TESTS_WITH(setup, fixture_close, TEST(test_constant_weights), TEST(test_turns))
