// SPDX-License-Identifier: Apache-2.0
// Networks of convolutions of 8 bits made at random, against the evaluator in every bit: their sums
// become bytes by shifts, so that no number is rounded. Dense, grouped and depthwise ones, zero
// points, residuals, joined branches, pools, maxima and padding between them, over sizes that
// change, strides of arguments, and bytes that are extreme. Channels are innermost inside, at all
// widths of vectors that CPUs have.
#include "test/support/fixture.h"

#include <stdio.h>
#include <string.h>

enum { NETS = 40, STEPS = 6, MOST_CONSTANTS = 64 };

typedef struct net_t {
  uint64_t seed;
  rng_t rng; // begins anew with each trace
  dt_tensor_t *constants[MOST_CONSTANTS];
  uint32_t n_constants; // used by this trace
  uint32_t n_made;
  int64_t channels; // of the argument
  dt_dtype_t dtype;
} net_t;

static int setup(void **state) { return fixture_open(state, 2, 19); }

static int64_t pick(net_t *net, const int64_t *values, size_t n) {
  return values[rng_between(&net->rng, 0, (int64_t)n - 1)];
}
#define PICK(net, ...)                                                                             \
  pick(net, (const int64_t[]){__VA_ARGS__},                                                        \
       sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static int64_t lowest(dt_dtype_t dtype) { return dtype == DT_I8 ? -128 : 0; }

// Every third one is at an end.
static void fill(rng_t *rng, dt_tensor_t *t) {
  uint8_t *data = dt_tensor_data(t);
  for (int64_t i = 0; i < dt_tensor_count(t); i++) {
    int64_t value = rng_between(rng, 0, 255), kind = rng_between(rng, 0, 5);
    data[i] = (uint8_t)(kind == 0 ? 128 : kind == 1 ? 127 : kind == 2 ? 255 : value);
  }
}

// The same bytes in every trace of the network.
static dt_value_t constant(dt_trace_t *t, net_t *net, dt_dtype_t dtype, const int64_t sizes[4]) {
  uint32_t k = net->n_constants++;
  char name[16];
  assert_true(k < MOST_CONSTANTS);
  if (k == net->n_made) {
    rng_t rng = {net->seed * 1000 + k};
    expect_ok(dt_tensor_create_empty(dtype, 4, sizes, &net->constants[net->n_made++]));
    fill(&rng, net->constants[k]);
  }
  snprintf(name, sizeof name, "w%u", k);
  return dt_constant(t, name, net->constants[k]);
}

typedef struct image_t {
  dt_value_t v; // of the network's dtype
  int64_t channels;
} image_t;

static dt_value_t wide(dt_trace_t *t, dt_value_t x, int64_t zero) {
  x = dt_cast(t, x, DT_I32);
  return zero ? dt_sub(t, x, dt_scalar(t, DT_I32, (double)zero)) : x;
}

static dt_value_t clamped(dt_trace_t *t, const net_t *net, dt_value_t x) {
  double low = (double)lowest(net->dtype);
  x = dt_maximum(t, x, dt_scalar(t, DT_I32, low));
  return dt_cast(t, dt_minimum(t, x, dt_scalar(t, DT_I32, low + 255)), net->dtype);
}

// Sums of that many products, with a number for each channel, as bytes.
static dt_value_t narrowed(dt_trace_t *t, net_t *net, image_t sum, int64_t terms) {
  int64_t shift = 0;
  while (((int64_t)1 << shift) < terms)
    shift++;
  dt_value_t more = constant(t, net, DT_I8, (int64_t[]){1, sum.channels, 1, 1});
  dt_value_t x = dt_add(t, sum.v, dt_cast(t, more, DT_I32));
  x = dt_shift_right(t, x, dt_scalar(t, DT_I32, (double)(shift / 2 + 6)));
  x = dt_add(t, x, dt_scalar(t, DT_I32, (double)rng_between(&net->rng, 0, 200)));
  return clamped(t, net, x);
}

typedef struct shape_t {
  int64_t rows, kernel, stride, dilation, groups;
} shape_t;

// Padded so that there is a place for every size, and by one more where the network likes.
static image_t convolved(dt_trace_t *t, net_t *net, image_t x, shape_t shape, bool same) {
  dt_window_t windows[2];
  int64_t channels = x.channels / shape.groups;
  memset(windows, 0, sizeof windows);
  for (int d = 0; d < 2; d++) {
    int64_t reach = shape.dilation * (shape.kernel - 1);
    int64_t more = same ? 0 : rng_between(&net->rng, 0, 1);
    windows[d].stride = dt_sym_const(t, shape.stride);
    windows[d].dilation = dt_sym_const(t, shape.dilation);
    windows[d].low = dt_sym_const(t, reach / 2);
    windows[d].high = dt_sym_const(t, reach - reach / 2 + more);
  }
  dt_dtype_t dtype = PICK(net, DT_I8, DT_I8, DT_U8) == DT_I8 ? DT_I8 : DT_U8;
  dt_value_t w =
      constant(t, net, dtype, (int64_t[]){shape.rows, channels, shape.kernel, shape.kernel});
  int64_t zero = lowest(net->dtype) + PICK(net, 0, 128, 117, 255);
  dt_value_t sum =
      dt_conv(t, wide(t, x.v, zero), wide(t, w, dtype == DT_U8 ? 128 : 0), windows, shape.groups);
  image_t made = {sum, shape.rows};
  made.v = narrowed(t, net, made, channels * shape.kernel * shape.kernel);
  return made;
}

static image_t dense(dt_trace_t *t, net_t *net, image_t x) {
  shape_t shape = {.rows = PICK(net, 16, 17, 24, 40, 64, 5),
                   .kernel = PICK(net, 1, 3, 3, 2, 5),
                   .stride = PICK(net, 1, 1, 2, 3),
                   .dilation = PICK(net, 1, 1, 2),
                   .groups = 1};
  return convolved(t, net, x, shape, false);
}

static image_t depthwise(dt_trace_t *t, net_t *net, image_t x) {
  shape_t shape = {.rows = x.channels * (x.channels < 40 ? PICK(net, 1, 1, 2) : 1),
                   .kernel = PICK(net, 3, 3, 5, 7),
                   .stride = PICK(net, 1, 1, 2),
                   .dilation = PICK(net, 1, 1, 2),
                   .groups = x.channels};
  return convolved(t, net, x, shape, false);
}

static image_t grouped(dt_trace_t *t, net_t *net, image_t x) {
  int64_t groups = x.channels % 2 ? 1 : 2;
  shape_t shape = {.rows = groups * PICK(net, 3, 16, 20), .kernel = 3, .groups = groups};
  shape.stride = shape.dilation = 1;
  return convolved(t, net, x, shape, false);
}

static image_t residual(dt_trace_t *t, net_t *net, image_t x) {
  shape_t shape = {.rows = x.channels, .kernel = 3, .stride = 1, .dilation = 1, .groups = 1};
  image_t y = convolved(t, net, x, shape, true);
  shape.kernel = 1;
  y = convolved(t, net, y, shape, true);
  y.v = clamped(t, net, dt_add(t, wide(t, y.v, 100), wide(t, x.v, 0)));
  return y;
}

static image_t pooled(dt_trace_t *t, net_t *net, image_t x) {
  dt_window_t windows[2];
  memset(windows, 0, sizeof windows);
  for (int d = 0; d < 2; d++) {
    windows[d].size = dt_sym_const(t, 3);
    windows[d].stride = dt_sym_const(t, PICK(net, 1, 2));
    windows[d].low = windows[d].high = dt_sym_const(t, 1);
  }
  x.v = dt_max_pool(t, x.v, windows, 0, NULL);
  return x;
}

// Each channel plus what all its places say.
static image_t gated(dt_trace_t *t, net_t *net, image_t x) {
  dt_value_t all = dt_amax(t, x.v, 2, (const int32_t[]){2, 3}, true);
  shape_t shape = {.rows = x.channels, .kernel = 1, .stride = 1, .dilation = 1, .groups = 1};
  image_t gate = convolved(t, net, (image_t){all, x.channels}, shape, true);
  x.v = clamped(t, net, dt_add(t, wide(t, x.v, 0), wide(t, gate.v, 90)));
  return x;
}

static image_t joined(dt_trace_t *t, net_t *net, image_t x) {
  shape_t shape = {.rows = PICK(net, 16, 8), .kernel = 3, .stride = 1, .dilation = 1, .groups = 1};
  image_t y = convolved(t, net, x, shape, true);
  return (image_t){dt_concat(t, 2, (const dt_value_t[]){x.v, y.v}, 1), x.channels + y.channels};
}

static image_t viewed(dt_trace_t *t, net_t *net, image_t x) {
  dt_sym_t one = dt_sym_const(t, 1), zero = dt_sym_const(t, 0);
  const dt_sym_t low[4] = {zero, zero, one, zero}, high[4] = {zero, zero, zero, one};
  x.v = PICK(net, 0, 1) ? dt_transpose(t, x.v, 2, 3) : dt_pad(t, x.v, low, high, 77);
  return x;
}

typedef image_t (*part_t)(dt_trace_t *t, net_t *net, image_t x);
static const part_t parts[] = {dense,  dense, depthwise, grouped, residual,
                               pooled, gated, joined,    viewed};

static dt_status_t program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  net_t *net = closure;
  image_t x = {in[0], net->channels};
  net->rng = (rng_t){net->seed};
  net->n_constants = 0;
  x = dense(t, net, x);
  for (int k = 0; k < STEPS; k++)
    x = parts[rng_between(&net->rng, 0, sizeof parts / sizeof parts[0] - 1)](t, net, x);
  out[0] = x.v;
  return NULL;
}

// ---- Calls ----------------------------------------------------------------------------------------

// Rows of bytes with gaps between them, where `gap` is not 0.
static void compare(fixture_t *fixture, dt_function_t *const functions[2], const net_t *net,
                    const int64_t sizes[4], int64_t gap) {
  const int64_t wider[4] = {sizes[0], sizes[1], sizes[2], sizes[3] + gap};
  dt_tensor_t *base = NULL, *y[2] = {NULL, NULL};
  expect_ok(dt_tensor_create_empty(net->dtype, 4, wider, &base));
  fill(&fixture->rng, base);
  dt_tensor_t *x = tensor_over(net->dtype, 4, sizes, dt_tensor_strides(base), dt_tensor_data(base));
  for (int k = 0; k < 2; k++)
    expect_ok(dt_call(fixture->session, functions[k], &x, 1, &y[k], 1, NULL));
  assert_int_equal(dt_tensor_count(y[0]), dt_tensor_count(y[1]));
  if (memcmp(dt_tensor_data(y[0]), dt_tensor_data(y[1]), (size_t)dt_tensor_count(y[0])))
    fail_msg("network %llu at %lld x %lld x %lld", (unsigned long long)net->seed,
             (long long)sizes[0], (long long)sizes[2], (long long)sizes[3]);
  RELEASE(x, base, y[0], y[1]);
}

static void check(fixture_t *fixture, net_t *net) {
  static const int64_t places[][3] = {{1, 7, 7}, {2, 1, 1}, {1, 3, 20}, {2, 9, 2}, {0, 4, 4}};
  const dt_dim_decl_t dims[4] = {
      {.name = "n"}, {.is_static = true, .value = net->channels}, {.name = "h"}, {.name = "w"}};
  const dt_input_decl_t input = {.name = "x", .dtype = net->dtype, .rank = 4, .dims = dims};
  dt_function_options_t options = options_of(1, &input);
  dt_function_t *functions[2];
  functions[0] = function_of(fixture, program, net, &options);
  options.answer = DT_ANSWER_EVALUATOR;
  functions[1] = function_of(fixture, program, net, &options);
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
    const int64_t sizes[4] = {places[i][0], net->channels, places[i][1], places[i][2]};
    compare(fixture, functions, net, sizes, 0);
    if (i == 0)
      compare(fixture, functions, net, sizes, 3);
  }
  dt_function_release(functions[0]);
  dt_function_release(functions[1]);
}

static void test_networks(void **state) {
  fixture_t *fixture = *state;
  for (uint64_t seed = 1; seed <= NETS; seed++) {
    net_t net = {.seed = seed,
                 .channels = seed % 3 ? 3 + (int64_t)(seed % 5) * 7 : 1,
                 .dtype = seed % 4 ? DT_U8 : DT_I8};
    check(fixture, &net);
    release_tensors(net.constants, net.n_made);
  }
}

RUN_TESTS_WITH(setup, fixture_close, TEST(test_networks))
