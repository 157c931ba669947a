// SPDX-License-Identifier: Apache-2.0
// Convolutions of 3 x 3 that are made in squares of 2 x 2 places, beside the sum over windows in
// doubles: small integers in every bit; floats, also where elements of very different sizes lie
// side by side, within the bound of docs/fusion.md; numbers that are none; windows of zeros. Sizes
// are odd and even, 0, 1 and more than a tile, with padding and without, in one depth of channels
// and in two, and columns fill panels or do not.
#include "test/support/fixture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct conv_t {
  int64_t channels, rows, low, high; // padding, the same in both directions
  int64_t stride, dilation;
  dt_tensor_t *w;
} conv_t;

static conv_t convs[] = {
    {32, 32, 1, 1, 1, 1, NULL},
    {48, 40, 0, 0, 1, 1, NULL},
    {160, 33, 1, 0, 1, 1, NULL},
    {64, 100, 2, 2, 1, 1, NULL},
    {272, 160, 1, 1, 1, 1, NULL},
    // Those that are made as sums over windows.
    {32, 32, 1, 1, 2, 1, NULL},
    {32, 48, 2, 2, 1, 2, NULL},
    {40, 32, 1, 1, 1, 1, NULL},
};
enum { CONVS = sizeof convs / sizeof convs[0] };

static const int64_t images[][3] = {{1, 7, 7},  {2, 4, 6},  {1, 2, 3},  {1, 3, 2}, {1, 9, 33},
                                    {3, 5, 12}, {1, 16, 2}, {0, 4, 4},  {2, 3, 3}, {1, 15, 14},
                                    {1, 1, 1},  {1, 1, 5},  {1, 11, 1}, {1, 4, 17}};
enum { IMAGES = sizeof images / sizeof images[0] };

static int setup(void **state) { return fixture_open(state, 2, 11); }

// The convolution and its negative: one by itself may be made otherwise.
static dt_status_t program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const conv_t *c = closure;
  dt_window_t windows[2];
  memset(windows, 0, sizeof windows);
  for (int d = 0; d < 2; d++) {
    windows[d].stride = dt_sym_const(t, c->stride);
    windows[d].dilation = dt_sym_const(t, c->dilation);
    windows[d].low = dt_sym_const(t, c->low);
    windows[d].high = dt_sym_const(t, c->high);
  }
  dt_value_t w = dt_constant(t, "w", c->w);
  for (int k = 0; k < 2; k++, w = dt_neg(t, w))
    out[k] = dt_conv(t, in[0], w, windows, 1);
  return NULL;
}

static dt_function_t *function_for(fixture_t *fixture, conv_t *c) {
  const dt_dim_decl_t dims[4] = {
      {.name = "n"}, {.is_static = true, .value = c->channels}, {.name = "h"}, {.name = "w"}};
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 4, .dims = dims};
  dt_function_options_t options = options_of(1, &input);
  options.n_outputs = 2;
  return function_of(fixture, program, c, &options);
}

static void make_weights(conv_t *c, rng_t *rng, bool integers) {
  const int64_t sizes[4] = {c->rows, c->channels, 3, 3};
  c->w = tensor_f32(rng, 4, sizes);
  float *data = dt_tensor_data(c->w);
  for (int64_t k = 0; integers && k < dt_tensor_count(c->w); k++)
    data[k] = (float)rng_between(rng, -3, 3);
}

// Places of the result along `size` of x; 0 or less: none.
static int64_t places_of(const conv_t *c, int64_t size) {
  int64_t more = size + c->low + c->high - 2 * c->dilation - 1;
  return more < 0 ? 0 : more / c->stride + 1;
}

// ---- The model ------------------------------------------------------------------------------------
typedef struct place_t {
  double sum;       // of x * w
  double magnitude; // of |x| times the largest |w| of its channel
} place_t;

static place_t model(const conv_t *c, dt_tensor_t *x, const int64_t at[4]) {
  const int64_t *sizes = dt_tensor_sizes(x);
  const float *data = dt_tensor_data(x), *w = dt_tensor_data(c->w);
  place_t out = {0, 0};
  double largest = 0;
  w += at[1] * c->channels * 9;
  for (int64_t k = 0; k < c->channels * 9; k++) {
    for (int64_t i = k % 9 == 0 ? 0 : 9; i < 9; i++)
      largest = fmax(i ? largest : 0, fabs((double)w[k + i]));
    int64_t y = at[2] * c->stride + k / 3 % 3 * c->dilation - c->low;
    int64_t z = at[3] * c->stride + k % 3 * c->dilation - c->low;
    if (y < 0 || z < 0 || y >= sizes[2] || z >= sizes[3])
      continue;
    double element = (double)data[((at[0] * sizes[1] + k / 9) * sizes[2] + y) * sizes[3] + z];
    out.sum += element * (double)w[k];
    out.magnitude += fabs(element) * largest;
  }
  return out;
}

// How far a float may be from the sum: a quarter of the bound.
static double allowed(const conv_t *c, const place_t *place) {
  return (double)c->channels * 9 * 0x1p-24 * place->magnitude;
}

static bool agrees(const conv_t *c, const place_t *place, float got, double sign, bool exact) {
  double want = sign * place->sum;
  if (isnan(want) || isnan(got))
    return isnan(want) && isnan(got);
  if (isinf(want) || isinf(got))
    return (double)got == want;
  return fabs((double)got - want) <= (exact ? 0 : allowed(c, place));
}

static void check(fixture_t *fixture, dt_function_t *function, const conv_t *c, dt_tensor_t *x,
                  bool exact, const char *what) {
  dt_tensor_t *y[2] = {NULL, NULL};
  expect_ok(dt_call(fixture->session, function, &x, 1, y, 2, NULL));
  const int64_t *sizes = dt_tensor_sizes(y[0]), *from = dt_tensor_sizes(x);
  assert_int_equal(sizes[1], c->rows);
  assert_int_equal(sizes[2], places_of(c, from[2]));
  for (int64_t k = 0; k < dt_tensor_count(y[0]); k++) {
    int64_t rest = k, at[4];
    for (int d = 4; d-- > 0; rest /= sizes[d])
      at[d] = rest % sizes[d];
    place_t place = model(c, x, at);
    for (int i = 0; i < 2; i++) {
      float got = ((const float *)dt_tensor_data(y[i]))[k];
      if (!agrees(c, &place, got, i ? -1 : 1, exact))
        fail_msg("%s, %lld to %lld, %lld x %lld: [%lld, %lld, %lld, %lld] of %d is %g, the sum %g, "
                 "allowed %g",
                 what, (long long)c->channels, (long long)c->rows, (long long)from[2],
                 (long long)from[3], (long long)at[0], (long long)at[1], (long long)at[2],
                 (long long)at[3], i, (double)got, place.sum, exact ? 0 : allowed(c, &place));
    }
  }
  RELEASE(y[0], y[1]);
}

// ---- What x is made of ----------------------------------------------------------------------------
static float integer(rng_t *rng, const int64_t at[4]) {
  (void)at;
  return (float)rng_between(rng, -3, 3);
}

static float normal(rng_t *rng, const int64_t at[4]) {
  (void)at;
  return rng_float(rng);
}

// Some places are so large that their rounding drowns all others, of which windows have none of
// these, in each place of a square.
static float giants(rng_t *rng, const int64_t at[4]) {
  return at[2] % 5 == 1 && at[3] % 5 == 1 ? 1e30f * rng_float(rng) : rng_float(rng);
}

static float steps(rng_t *rng, const int64_t at[4]) {
  return ldexpf(rng_float(rng), (int)(at[2] * 5 - at[3] * 3) % 40);
}

static float any_size(rng_t *rng, const int64_t at[4]) {
  (void)at;
  return ldexpf(rng_float(rng), (int)rng_between(rng, -60, 60));
}

static float blank(rng_t *rng, const int64_t at[4]) {
  return at[3] > 3 || at[2] > 4 ? 0.0f : rng_float(rng);
}

// Near the largest: transforms overflow where sums over windows do not.
static float near_largest(rng_t *rng, const int64_t at[4]) {
  (void)at;
  return 0x1p119f * rng_float(rng);
}

static float not_finite(rng_t *rng, const int64_t at[4]) {
  static const float values[] = {NAN, INFINITY, -INFINITY, INFINITY};
  int64_t place = at[2] * 7 + at[3] * 5 + at[0];
  return at[1] % 16 == 3 && place % 11 == 0 ? values[(place / 11 + at[1]) % 4] : rng_float(rng);
}

typedef float (*element_fn_t)(rng_t *rng, const int64_t at[4]);
static const struct {
  const char *what;
  element_fn_t element;
  bool exact; // weights are integers, too
} subjects[] = {
    {"integers", integer, true},
    {"floats", normal, false},
    {"giants", giants, false},
    {"steps", steps, false},
    {"any size", any_size, false},
    {"blank", blank, false},
    {"near the largest", near_largest, false},
    {"not finite", not_finite, false},
};
enum { SUBJECTS = sizeof subjects / sizeof subjects[0] };

static dt_tensor_t *image_of(fixture_t *fixture, const conv_t *c, const int64_t image[3],
                             element_fn_t element) {
  const int64_t sizes[4] = {image[0], c->channels, image[1], image[2]};
  dt_tensor_t *x = tensor_full(0, 4, sizes);
  float *data = dt_tensor_data(x);
  for (int64_t k = 0; k < dt_tensor_count(x); k++) {
    int64_t rest = k, at[4];
    for (int d = 4; d-- > 0; rest /= sizes[d])
      at[d] = rest % sizes[d];
    data[k] = element(&fixture->rng, at);
  }
  return x;
}

// ---- Tests ----------------------------------------------------------------------------------------
static void check_all(fixture_t *fixture, size_t subject) {
  for (size_t i = 0; i < CONVS; i++) {
    make_weights(&convs[i], &fixture->rng, subjects[subject].exact);
    dt_function_t *function = function_for(fixture, &convs[i]);
    // The widest convolutions see some of the images.
    for (size_t k = 0; k < IMAGES; k += convs[i].channels > 48 ? 4 : 1) {
      if (!places_of(&convs[i], images[k][1]) || !places_of(&convs[i], images[k][2]))
        continue;
      dt_tensor_t *x = image_of(fixture, &convs[i], images[k], subjects[subject].element);
      check(fixture, function, &convs[i], x, subjects[subject].exact, subjects[subject].what);
      dt_tensor_release(x);
    }
    assert_int_equal(variants_of(function), 1);
    dt_function_release(function);
    dt_tensor_release(convs[i].w);
  }
}

static void test_sums(void **state) {
  for (size_t s = 0; s < SUBJECTS; s++)
    check_all(*state, s);
}

// Weights that are not finite: what they touch is no number, the other channels are as ever.
static void test_weights_not_finite(void **state) {
  fixture_t *fixture = *state;
  conv_t *c = &convs[0];
  make_weights(c, &fixture->rng, false);
  float *w = dt_tensor_data(c->w);
  w[5 * c->channels * 9 + 40] = INFINITY;
  w[20 * c->channels * 9 + 7] = NAN;
  dt_function_t *function = function_for(fixture, c);
  dt_tensor_t *x = image_of(fixture, c, images[0], normal), *y[2] = {NULL, NULL};
  expect_ok(dt_call(fixture->session, function, &x, 1, y, 2, NULL));
  for (int64_t k = 0; k < dt_tensor_count(y[0]); k++) {
    const int64_t at[4] = {0, k / 49, k / 7 % 7, k % 7};
    float got = ((const float *)dt_tensor_data(y[0]))[k];
    place_t place = model(c, x, at);
    if (at[1] == 5 || at[1] == 20)
      assert_false(isfinite(got) && !isfinite(place.sum));
    else if (!agrees(c, &place, got, 1, false))
      fail_msg("channel %lld is %g, the sum %g", (long long)at[1], (double)got, place.sum);
  }
  RELEASE(x, y[0], y[1]);
  dt_function_release(function);
  dt_tensor_release(c->w);
}

// A square's bits depend on nothing but what it is made of.
static void test_threads(void **state) {
  fixture_t *fixture = *state, other = fixture_on(DT_CPU, 3);
  conv_t *c = &convs[3];
  make_weights(c, &fixture->rng, false);
  dt_function_t *one = function_for(fixture, c), *three = function_for(&other, c);
  dt_tensor_t *x = image_of(fixture, c, (int64_t[]){2, 21, 30}, blank);
  dt_tensor_t *y[2] = {NULL, NULL}, *z[2] = {NULL, NULL};
  expect_ok(dt_call(fixture->session, one, &x, 1, y, 2, NULL));
  expect_ok(dt_call(other.session, three, &x, 1, z, 2, NULL));
  assert_memory_equal(dt_tensor_data(y[0]), dt_tensor_data(z[0]),
                      (size_t)dt_tensor_count(y[0]) * sizeof(float));
  RELEASE(x, y[0], y[1], z[0], z[1]);
  dt_function_release(one);
  dt_function_release(three);
  fixture_end(&other);
  dt_tensor_release(c->w);
}

RUN_TESTS_WITH(setup, fixture_close, TEST(test_sums), TEST(test_weights_not_finite),
               TEST(test_threads))
