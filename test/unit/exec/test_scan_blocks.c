// SPDX-License-Identifier: Apache-2.0
// Associative scans, which a device runs in blocks (fuse/split_scan.c) and a CPU in their order:
// tuples of floats and of integers, with what is captured and what is fused with them, at lengths
// around those of blocks, against their definition; the same bits whatever the threads.
#include "test/support/fixture.h"

#include <math.h>

#define MOST 66000
#define CHANNELS 3

// (a, b), (c, d) -> (a c, c b + d + captured), of channels that are known to be few.
static dt_status_t recur(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const dt_value_t *captured = closure;
  out[0] = dt_mul(t, in[0], in[2]);
  out[1] = dt_add(t, dt_mul(t, in[2], in[1]), in[3]);
  if (captured->id)
    out[1] = dt_mul(t, out[1], *captured);
  return NULL;
}

typedef struct form_t {
  bool channels, backwards, captures;
} form_t;

static dt_status_t recurrence(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const form_t *form = closure;
  dt_value_t one = form->captures
                       ? dt_amax(t, dt_mul(t, in[0], dt_scalar(t, DT_F32, 0)), 0, NULL, false)
                       : (dt_value_t){0};
  // 1, which nobody knows.
  dt_value_t captured = form->captures ? dt_exp(t, one) : one, pair[2];
  pair[0] = dt_mul(t, in[0], dt_scalar(t, DT_F32, 0.5)); // fused with the scan
  pair[1] = in[1];
  dt_associative_scan(t, recur, &captured, 2, pair, 0,
                      form->backwards ? (uint32_t)DT_SCAN_BACKWARDS : 0, out);
  out[0] = dt_neg(t, out[0]);
  return NULL;
}

static dt_function_t *make(fixture_t *fixture, form_t *form) {
  static const dt_dim_decl_t dims[2] = {{.name = "n"}, {.is_static = true, .value = CHANNELS}};
  const dt_input_decl_t inputs[2] = {
      {.name = "a", .dtype = DT_F32, .rank = form->channels ? 2 : 1, .dims = dims},
      {.name = "b", .dtype = DT_F32, .rank = form->channels ? 2 : 1, .dims = dims}};
  dt_function_options_t options = options_of(2, inputs);
  options.n_outputs = 2;
  return function_of(fixture, recurrence, form, &options);
}

static void check(const form_t *form, int64_t n, dt_tensor_t *const *in, dt_tensor_t *const *out) {
  const float *a = dt_tensor_data(in[0]), *b = dt_tensor_data(in[1]);
  const float *products = dt_tensor_data(out[0]), *sums = dt_tensor_data(out[1]);
  int64_t channels = form->channels ? CHANNELS : 1;
  for (int64_t c = 0; c < channels; c++) {
    double product = 1, h = 0;
    for (int64_t i = 0; i < n; i++) {
      int64_t at = (form->backwards ? n - 1 - i : i) * channels + c;
      product *= 0.5 * (double)a[at];
      h = 0.5 * (double)a[at] * h + (double)b[at];
      if (!(fabs((double)products[at] + product) <= 1e-5) || !(fabs((double)sums[at] - h) <= 1e-4))
        fail_msg("%d of %d, channel %d: %g and %g, expected %g and %g", (int)i, (int)n, (int)c,
                 (double)products[at], (double)sums[at], -product, h);
    }
  }
}

static void run(dt_device_t device, const int64_t *lengths, size_t n_lengths) {
  fixture_t fixture = fixture_on(device, 3);
  rng_t rng = {3};
  for (int k = 0; k < 5; k++) {
    form_t form = {.channels = k & 1, .backwards = k & 2, .captures = k == 4};
    dt_function_t *function = make(&fixture, &form);
    for (size_t l = 0; l < n_lengths; l++) {
      const int64_t shape[2] = {lengths[l], CHANNELS};
      dt_tensor_t *in[2], *there[2], *out[2] = {NULL}, *back[2];
      if (form.captures && !lengths[l])
        continue;
      for (int i = 0; i < 2; i++) {
        in[i] = tensor_f32(&rng, form.channels ? 2 : 1, shape);
        there[i] = device == DT_CPU ? in[i] : tensor_upload(fixture.session, in[i]);
      }
      expect_ok(dt_call(fixture.session, function, there, 2, out, 2, NULL));
      for (int i = 0; i < 2; i++)
        back[i] = device == DT_CPU ? out[i] : tensor_download(fixture.session, out[i]);
      check(&form, lengths[l], in, back);
      RELEASE(in[0], in[1], out[0], out[1]);
      if (device != DT_CPU)
        RELEASE(there[0], there[1], back[0], back[1]);
    }
    assert_int_equal(variants_of(function), 1);
    dt_function_release(function);
  }
  fixture_end(&fixture);
}

static void test_cpu(void **state) {
  static const int64_t lengths[] = {0, 1, 4097};
  (void)state;
  run(DT_CPU, lengths, sizeof lengths / sizeof lengths[0]);
}

static void test_device(void **state) {
  static const int64_t lengths[] = {0, 1, 128, 129, 257, 65537};
  (void)state;
  run(DT_CUDA, lengths, sizeof lengths / sizeof lengths[0]);
}

// ---- Integers -------------------------------------------------------------------------------------
// The largest so far, where it stands, and how many there were: exact. The last is the scan of what
// is the same everywhere, and goes in its order.
static dt_status_t largest(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t right = dt_ge(t, in[2], in[0]);
  out[0] = dt_where(t, right, in[2], in[0]);
  out[1] = dt_where(t, right, in[3], in[1]);
  return NULL;
}
static dt_status_t count(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[0], in[1]);
  return NULL;
}
static dt_status_t integers(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_sym_t n = dt_dim(t, in[0], 0);
  dt_value_t pair[2] = {in[0], dt_range(t, DT_I64, dt_sym_const(t, 0), n, dt_sym_const(t, 1))};
  dt_value_t ones = dt_full(t, DT_I64, 1, 1, &n);
  dt_associative_scan(t, largest, closure, 2, pair, 0, 0, out);
  dt_associative_scan(t, count, closure, 1, &ones, 0, 0, &out[2]);
  return NULL;
}

static void test_integers(void **state) {
  (void)state;
  for (int device = 0; device < 2; device++) {
    fixture_t fixture = fixture_on(device ? DT_CUDA : DT_CPU, 3);
    const dt_input_decl_t input = {.name = "x", .dtype = DT_I64, .rank = 1};
    dt_function_options_t options = options_of(1, &input);
    options.n_outputs = 3;
    dt_function_t *function = function_of(&fixture, integers, NULL, &options);
    static int64_t values[MOST];
    for (int64_t i = 0; i < MOST; i++)
      values[i] = i * 7919 % 10007 + i / 3;
    for (int64_t n = 1; n <= MOST; n = n * 5 + 3) {
      dt_tensor_t *x = tensor_i64(1, &n, values), *out[3] = {NULL}, *back[3];
      dt_tensor_t *there = device ? tensor_upload(fixture.session, x) : x;
      expect_ok(dt_call(fixture.session, function, &there, 1, out, 3, NULL));
      for (int k = 0; k < 3; k++)
        back[k] = device ? tensor_download(fixture.session, out[k]) : out[k];
      int64_t most = 0;
      for (int64_t i = 0; i < n; i++) {
        most = values[i] >= values[most] ? i : most;
        assert_int_equal(((int64_t *)dt_tensor_data(back[0]))[i], values[most]);
        assert_int_equal(((int64_t *)dt_tensor_data(back[1]))[i], most);
        assert_int_equal(((int64_t *)dt_tensor_data(back[2]))[i], i + 1);
      }
      if (device)
        RELEASE(there, back[0], back[1], back[2]);
      RELEASE(x, out[0], out[1], out[2]);
    }
    dt_function_release(function);
    fixture_end(&fixture);
  }
}

// ---- Bits -----------------------------------------------------------------------------------------
static void test_threads_agree(void **state) {
  const int64_t n = MOST;
  rng_t rng = {9};
  form_t form = {.channels = false};
  dt_tensor_t *in[2] = {tensor_f32(&rng, 1, &n), tensor_f32(&rng, 1, &n)}, *out[2][2] = {{NULL}};
  (void)state;
  for (uint32_t k = 0; k < 2; k++) {
    fixture_t fixture = fixture_on(DT_CPU, 1 + 3 * k);
    dt_function_t *function = make(&fixture, &form);
    expect_ok(dt_call(fixture.session, function, in, 2, out[k], 2, NULL));
    dt_function_release(function);
    fixture_end(&fixture);
  }
  for (int k = 0; k < 2; k++)
    assert_memory_equal(dt_tensor_data(out[0][k]), dt_tensor_data(out[1][k]),
                        (size_t)n * sizeof(float));
  RELEASE(in[0], in[1], out[0][0], out[0][1], out[1][0], out[1][1]);
}

RUN_TESTS(TEST(test_cpu), TEST(test_device), TEST(test_integers), TEST(test_threads_agree))
