// SPDX-License-Identifier: Apache-2.0
// What quantised models are made of: products and convolutions of dequantised integers of 8 bits,
// quantised again, sums of such, and functions of one such integer, by compiled code and by the
// evaluator. Sums of integers are exact here and rounded there, so that a quantised answer may be
// one step away, in few places.
#include "ductile/pattern.h"
#include "test/support/fixture.h"

#include <string.h>

static int setup(void **state) { return fixture_open(state, 2, 23); }

static dt_tensor_t *bytes(rng_t *rng, dt_dtype_t dtype, uint32_t rank, const int64_t *sizes) {
  dt_tensor_t *made = NULL;
  expect_ok(dt_tensor_create_empty(dtype, rank, sizes, &made));
  for (int64_t k = 0; k < dt_tensor_count(made); k++) {
    int64_t value = rng_between(rng, 0, 255);
    ((uint8_t *)dt_tensor_data(made))[k] = (uint8_t)(value % 3 ? value : value % 2 ? 128 : 127);
  }
  return made;
}

static dt_value_t real(dt_trace_t *t, dt_value_t x, double zero, dt_value_t scale) {
  x = dt_cast(t, x, DT_F32);
  x = zero != 0 ? dt_sub(t, x, dt_scalar(t, DT_F32, zero)) : x;
  return dt_mul(t, x, scale);
}

static dt_value_t quantised(dt_trace_t *t, dt_value_t x, double scale, double zero,
                            dt_dtype_t dtype) {
  double low = dtype == DT_I8 ? -128 : 0;
  x = dt_add(t, dt_round(t, dt_div(t, x, dt_scalar(t, DT_F32, scale))), dt_scalar(t, DT_F32, zero));
  x = dt_maximum(t, x, dt_scalar(t, DT_F32, low));
  return dt_cast(t, dt_minimum(t, x, dt_scalar(t, DT_F32, low + 255)), dtype);
}

static uint64_t count_of(fixture_t *f, const char *name) {
  dt_pattern_t *pattern = NULL;
  expect_ok(dt_runtime_find_pattern(f->runtime, name, &pattern));
  uint64_t n = dt_pattern_count(pattern);
  dt_pattern_release(pattern);
  return n;
}

// Bytes that are at most one step apart, and mostly the same.
static void expect_near(const dt_tensor_t *a, const dt_tensor_t *b) {
  bool is_signed = dt_tensor_dtype(a) == DT_I8;
  int64_t apart = 0, n = dt_tensor_count(a);
  assert_int_equal(n, dt_tensor_count(b));
  for (int64_t k = 0; k < n; k++) {
    uint8_t x = ((const uint8_t *)dt_tensor_data(a))[k];
    uint8_t y = ((const uint8_t *)dt_tensor_data(b))[k];
    int step = is_signed ? (int8_t)x - (int8_t)y : x - y;
    if (step < -1 || step > 1)
      fail_msg("element %lld: %d and %d", (long long)k, (int)x, (int)y);
    apart += step != 0;
  }
  assert_true(apart * 50 <= n + 50);
}

static void make(fixture_t *f, dt_program_fn_t program, void *closure, dt_dtype_t dtype,
                 uint32_t rank, const dt_dim_decl_t *dims, dt_function_t *out[2]) {
  dt_input_decl_t input = {.name = "x", .dtype = dtype, .rank = rank, .dims = dims};
  dt_function_options_t options = options_of(1, &input);
  options.n_outputs = 2;
  for (int k = 0; k < 2; k++) {
    options.answer = k ? DT_ANSWER_EVALUATOR : compiled_answer();
    out[k] = function_of(f, program, closure, &options);
  }
}

// Results are reals, and the same quantised.
static void compare(fixture_t *f, dt_function_t *const functions[2], dt_dtype_t dtype,
                    uint32_t rank, const int64_t *sizes, const char *what) {
  dt_tensor_t *x = bytes(&f->rng, dtype, rank, sizes), *y[2][2] = {{NULL, NULL}, {NULL, NULL}};
  for (int k = 0; k < 2; k++)
    expect_ok(dt_call(f->session, functions[k], &x, 1, y[k], 2, NULL));
  expect_close(y[0][0], y[1][0], 1e-4, 1e-3, what);
  expect_near(y[0][1], y[1][1]);
  RELEASE(x, y[0][0], y[0][1], y[1][0], y[1][1]);
}

// ---- Products -------------------------------------------------------------------------------------
typedef struct product_t {
  const char *what;
  dt_dtype_t a_dtype, b_dtype, y_dtype;
  double a_zero, b_zero;
  int64_t k, n;
  bool columns, turned; // a scale for each column; B is stored as [n, k]
  bool taken;
  dt_tensor_t *b, *scales, *bias;
} product_t;

static product_t products[] = {
    {"one scale", DT_U8, DT_I8, DT_U8, 117, 0, 64, 48, false, false, true, NULL, NULL, NULL},
    {"columns", DT_U8, DT_I8, DT_U8, 3, 0, 33, 17, true, false, true, NULL, NULL, NULL},
    {"turned", DT_U8, DT_I8, DT_I8, 255, 5, 130, 20, true, true, true, NULL, NULL, NULL},
    {"signed", DT_I8, DT_I8, DT_I8, -128, 0, 7, 9, false, false, true, NULL, NULL, NULL},
    {"unsigned", DT_U8, DT_U8, DT_U8, 128, 128, 16, 40, false, true, true, NULL, NULL, NULL},
    {"one term", DT_U8, DT_I8, DT_U8, 0, 0, 1, 8, true, false, true, NULL, NULL, NULL},
    {"too long", DT_U8, DT_I8, DT_U8, 9, 0, 33026, 4, false, false, false, NULL, NULL, NULL},
};

static dt_status_t multiply(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const product_t *p = closure;
  dt_value_t scale = p->columns ? dt_constant(t, "s", p->scales) : dt_scalar(t, DT_F32, 0.0117);
  if (p->columns && p->turned)
    scale = dt_unsqueeze(t, scale, -1);
  dt_value_t b = real(t, dt_constant(t, "b", p->b), p->b_zero, scale);
  b = p->turned ? dt_transpose(t, b, 0, 1) : b;
  dt_value_t y = dt_matmul(t, real(t, in[0], p->a_zero, dt_scalar(t, DT_F32, 0.0231)), b);
  out[0] = dt_add(t, y, dt_constant(t, "c", p->bias));
  out[1] = quantised(t, dt_add(t, y, dt_constant(t, "c", p->bias)), 0.37, 100, p->y_dtype);
  return NULL;
}

static void test_products(void **state) {
  fixture_t *f = *state;
  for (size_t i = 0; i < sizeof(products) / sizeof(products[0]); i++) {
    product_t *p = &products[i];
    const dt_dim_decl_t dims[3] = {
        {.name = "batch"}, {.name = "m"}, {.is_static = true, .value = p->k}};
    const int64_t shape[2] = {p->turned ? p->n : p->k, p->turned ? p->k : p->n};
    dt_function_t *functions[2];
    uint64_t before = count_of(f, "ductile.real_product");
    p->b = bytes(&f->rng, p->b_dtype, 2, shape);
    p->scales = tensor_f32(&f->rng, 1, &p->n);
    p->bias = tensor_f32(&f->rng, 1, &p->n);
    for (int64_t k = 0; k < p->n; k++)
      ((float *)dt_tensor_data(p->scales))[k] = 0.004F + 0.001F * (float)(k % 7);
    make(f, multiply, p, p->a_dtype, 3, dims, functions);
    for (int64_t m = 0; m < 5; m++)
      compare(f, functions, p->a_dtype, 3, (int64_t[]){m == 3 ? 2 : 1, m * m + (m > 2), p->k},
              p->what);
    if (compiled_answer() == DT_ANSWER_COMPILED)
      assert_int_equal(count_of(f, "ductile.real_product") > before, p->taken);
    dt_function_release(functions[0]);
    dt_function_release(functions[1]);
    RELEASE(p->b, p->scales, p->bias);
  }
}

// ---- Convolutions ---------------------------------------------------------------------------------
typedef struct conv_t {
  const char *what;
  dt_dtype_t x_dtype, w_dtype;
  double x_zero;
  int64_t channels, rows, kernel, stride, padding, groups;
  bool each;   // a scale for each kernel
  bool affine; // what follows is scaled and shifted by channel
  dt_tensor_t *w, *scales, *bias;
} conv_t;

static conv_t convs[] = {
    {"dense", DT_U8, DT_I8, 117, 24, 32, 3, 1, 1, 1, false, true, NULL, NULL, NULL},
    {"each", DT_U8, DT_I8, 0, 33, 20, 3, 2, 1, 1, true, true, NULL, NULL, NULL},
    {"reals", DT_U8, DT_I8, 5, 16, 16, 1, 1, 0, 1, true, false, NULL, NULL, NULL},
    {"stem", DT_I8, DT_I8, -9, 3, 40, 7, 2, 3, 1, false, true, NULL, NULL, NULL},
    {"depthwise", DT_U8, DT_I8, 130, 24, 24, 3, 1, 1, 24, true, true, NULL, NULL, NULL},
    {"groups", DT_U8, DT_I8, 255, 8, 32, 3, 1, 1, 2, false, true, NULL, NULL, NULL},
};

static dt_status_t convolve(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const conv_t *c = closure;
  dt_window_t windows[2];
  const dt_sym_t by_kernel[4] = {dt_sym_const(t, c->rows), dt_sym_const(t, 1), dt_sym_const(t, 1),
                                 dt_sym_const(t, 1)};
  const dt_sym_t by_channel[4] = {by_kernel[1], by_kernel[0], by_kernel[1], by_kernel[1]};
  memset(windows, 0, sizeof(windows));
  for (int d = 0; d < 2; d++) {
    windows[d].stride = dt_sym_const(t, c->stride);
    windows[d].dilation = dt_sym_const(t, 1);
    windows[d].low = windows[d].high = dt_sym_const(t, c->padding);
  }
  dt_value_t scale = dt_scalar(t, DT_F32, 0.013);
  if (c->each)
    scale = dt_reshape(t, dt_constant(t, "s", c->scales), 4, by_kernel);
  dt_value_t w = real(t, dt_constant(t, "w", c->w), 0, scale);
  dt_value_t x = real(t, in[0], c->x_zero, dt_scalar(t, DT_F32, 0.02));
  dt_value_t y = dt_conv(t, x, w, windows, c->groups);
  y = dt_add(t, y, dt_reshape(t, dt_constant(t, "c", c->bias), 4, by_channel));
  if (!c->affine) { // another user: the division stays
    out[0] = dt_relu(t, y);
    out[1] = quantised(t, y, 0.9, 7, DT_U8);
    return NULL;
  }
  dt_value_t q = quantised(t, y, 0.9, 7, DT_U8); // which two read
  out[0] = dt_sigmoid(t, real(t, q, 7, dt_scalar(t, DT_F32, 0.01)));
  out[1] = quantised(t, dt_mul(t, out[0], real(t, q, 7, dt_scalar(t, DT_F32, 0.9))), 0.8, 3, DT_I8);
  return NULL;
}

static void test_convs(void **state) {
  static const int64_t places[][3] = {{1, 7, 9}, {2, 1, 1}, {0, 5, 5}, {1, 14, 33}, {3, 6, 16}};
  fixture_t *f = *state;
  for (size_t i = 0; i < sizeof(convs) / sizeof(convs[0]); i++) {
    conv_t *c = &convs[i];
    const dt_dim_decl_t dims[4] = {
        {.name = "n"}, {.is_static = true, .value = c->channels}, {.name = "h"}, {.name = "w"}};
    dt_function_t *functions[2];
    const char *name = c->affine ? "ductile.conv_affine" : "ductile.real_conv";
    uint64_t before = count_of(f, name);
    c->w = bytes(&f->rng, c->w_dtype, 4,
                 (int64_t[]){c->rows, c->channels / c->groups, c->kernel, c->kernel});
    c->scales = tensor_f32(&f->rng, 1, &c->rows);
    c->bias = tensor_f32(&f->rng, 1, &c->rows);
    for (int64_t k = 0; k < c->rows; k++)
      ((float *)dt_tensor_data(c->scales))[k] = 0.004F + 0.001F * (float)(k % 7);
    make(f, convolve, c, c->x_dtype, 4, dims, functions);
    for (size_t n = 0; n < sizeof(places) / sizeof(places[0]); n++) {
      const int64_t sizes[4] = {places[n][0], c->channels, places[n][1], places[n][2]};
      dt_tensor_t *x = bytes(&f->rng, c->x_dtype, 4, sizes), *y[2][2] = {{NULL}, {NULL}};
      for (int k = 0; k < 2; k++)
        expect_ok(dt_call(f->session, functions[k], &x, 1, y[k], 2, NULL));
      expect_close(y[0][0], y[1][0], 1e-4, c->affine ? 4e-3 : 1e-3, c->what); // a step of 0.01 / 4
      expect_near(y[0][1], y[1][1]);
      RELEASE(x, y[0][0], y[0][1], y[1][0], y[1][1]);
    }
    if (compiled_answer() == DT_ANSWER_COMPILED)
      assert_true(count_of(f, name) > before);
    dt_function_release(functions[0]);
    dt_function_release(functions[1]);
    RELEASE(c->w, c->scales, c->bias);
  }
}

// ---- Sums -----------------------------------------------------------------------------------------
// Of two images and a row, in each order and sign.
static dt_status_t add_up(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const conv_t *c = closure;
  dt_value_t a = real(t, in[0], 131, dt_scalar(t, DT_F32, 0.0207));
  dt_value_t b = real(t, dt_bit_not(t, in[0]), 0, dt_scalar(t, DT_F32, 0.0113));
  dt_value_t row = dt_constant(t, "c", c->bias);
  dt_value_t sum = dt_sub(t, dt_add(t, a, b), row);
  dt_value_t turned = dt_sub(t, row, dt_sub(t, b, a));
  out[0] = dt_cast(t, quantised(t, sum, 0.03, 118, DT_U8), DT_F32);
  out[0] = dt_add(t, out[0], dt_cast(t, quantised(t, a, 0.1, 3, DT_I8), DT_F32));
  out[1] = quantised(t, turned, 0.031, -7, DT_I8);
  return NULL;
}

static void test_sums(void **state) {
  fixture_t *f = *state;
  conv_t row = {.rows = 21};
  const dt_dim_decl_t dims[2] = {{.name = "m"}, {.is_static = true, .value = row.rows}};
  dt_function_t *functions[2];
  uint64_t before = count_of(f, "ductile.quantised_sum");
  row.bias = tensor_f32(&f->rng, 1, &row.rows);
  make(f, add_up, &row, DT_U8, 2, dims, functions);
  for (int64_t m = 0; m < 40; m = 2 * m + 1) {
    const int64_t sizes[2] = {m, row.rows};
    dt_tensor_t *x = bytes(&f->rng, DT_U8, 2, sizes), *y[2][2] = {{NULL}, {NULL}};
    for (int k = 0; k < 2; k++)
      expect_ok(dt_call(f->session, functions[k], &x, 1, y[k], 2, NULL));
    expect_close(y[0][0], y[1][0], 0, 2, "sums"); // two steps, of which each may be one apart
    expect_near(y[0][1], y[1][1]);
    RELEASE(x, y[0][0], y[0][1], y[1][0], y[1][1]);
  }
  if (compiled_answer() == DT_ANSWER_COMPILED)
    assert_int_equal(count_of(f, "ductile.quantised_sum"), before + 3);
  dt_function_release(functions[0]);
  dt_function_release(functions[1]);
  dt_tensor_release(row.bias);
}

// ---- Functions of one byte ------------------------------------------------------------------------
typedef struct table_t {
  dt_dtype_t from, to;
  int kind;
} table_t;
enum { SIGMOID, GELU, SWISH, CHOICE, KINDS };

static dt_value_t function_of_one(dt_trace_t *t, dt_value_t x, int kind) {
  dt_value_t one = dt_scalar(t, DT_F32, 1), half = dt_scalar(t, DT_F32, 0.5);
  if (kind == SIGMOID)
    return dt_sigmoid(t, x);
  if (kind == GELU) {
    dt_value_t e = dt_erf(t, dt_div(t, x, dt_scalar(t, DT_F32, 1.4142135)));
    e = real(t, quantised(t, e, 0.0078, 127, DT_U8), 127, dt_scalar(t, DT_F32, 0.0078));
    return dt_mul(t, dt_mul(t, x, dt_add(t, e, one)), half);
  }
  if (kind == SWISH)
    return dt_mul(t, x, real(t, quantised(t, dt_sigmoid(t, x), 0.004, 0, DT_I8), 0, one));
  dt_value_t low = dt_exp(t, x), high = dt_sqrt(t, dt_abs(t, x));
  return dt_where(t, dt_lt(t, x, dt_scalar(t, DT_F32, 0)), low, high);
}

// By element, and by one element for all, which code treats otherwise.
static dt_status_t tabled(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const table_t *table = closure;
  dt_value_t first = dt_slice(t, in[0], 0, dt_sym_const(t, 0), dt_sym_const(t, 1), 1);
  dt_value_t x[2] = {in[0], first};
  for (int k = 0; k < 2; k++) {
    x[k] = real(t, x[k], table->from == DT_U8 ? 131 : -7, dt_scalar(t, DT_F32, 0.041));
    x[k] = quantised(t, function_of_one(t, x[k], table->kind), 0.023, 9, table->to);
  }
  out[0] = dt_cast(t, dt_add(t, dt_cast(t, in[0], DT_I32), dt_cast(t, x[1], DT_I32)), DT_F32);
  out[1] = x[0];
  return NULL;
}

static void test_tables(void **state) {
  fixture_t *f = *state;
  static const dt_dtype_t dtypes[2] = {DT_U8, DT_I8};
  for (int k = 0; k < 4 * KINDS; k++) {
    table_t table = {dtypes[k & 1], dtypes[k >> 1 & 1], k >> 2};
    const dt_dim_decl_t dims[1] = {{.name = "n", .min = 1}};
    dt_function_t *functions[2];
    make(f, tabled, &table, table.from, 1, dims, functions);
    for (int64_t n = 1; n < 900; n = 3 * n + 1) {
      dt_tensor_t *x = bytes(&f->rng, table.from, 1, &n), *y[2][2] = {{NULL}, {NULL}};
      for (int64_t i = 0; i < n; i++)
        ((uint8_t *)dt_tensor_data(x))[i] = (uint8_t)(i + k);
      for (int side = 0; side < 2; side++)
        expect_ok(dt_call(f->session, functions[side], &x, 1, y[side], 2, NULL));
      expect_close(y[0][0], y[1][0], 0, 1, "one for all");
      expect_near(y[0][1], y[1][1]);
      RELEASE(x, y[0][0], y[0][1], y[1][0], y[1][1]);
    }
    dt_function_release(functions[0]);
    dt_function_release(functions[1]);
  }
}

RUN_TESTS_WITH(setup, fixture_close, TEST(test_products), TEST(test_convs), TEST(test_sums),
               TEST(test_tables))
