// SPDX-License-Identifier: Apache-2.0
// Programs of several parts that are equal but for their sizes: their kernels share code with
// parameters. Answers are those of a runtime whose kernels have codes of their own, in every bit.
#include "test/support/subjects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAMS 40
#define MOST_PARTS 4
#define MOST_STEPS 6
#define RANK 3

typedef enum step_t {
  STEP_MAP,
  STEP_CENTRE,
  STEP_FRAME,
  STEP_SOFTMAX,
  STEP_PRODUCT,
  STEP_CONV,
  STEP_POOL,
  STEP_TURN,
  STEP_TWICE,
  STEP_COLUMNS,
  STEP_RUNNING,
  STEP_PART,
  STEP_QUOTIENT,
  STEPS
} step_t;

// What all parts do, and the sizes of each.
typedef struct parts_t {
  uint32_t n, n_steps;
  step_t steps[MOST_STEPS];
  int64_t sizes[MOST_PARTS][RANK];
} parts_t;

static int64_t below(rng_t *rng, int64_t n) { return (int64_t)rng_below(rng, (uint32_t)n); }

// Sizes around whole vectors and their multiples.
static int64_t draw_size(rng_t *rng) {
  static const int64_t whole[] = {16, 32, 48, 64, 96, 128};
  return rng_below(rng, 3) ? rng_between(rng, 3, 75) : whole[rng_below(rng, 6)];
}

static parts_t draw(rng_t *rng) {
  parts_t parts = {.n = 2 + rng_below(rng, MOST_PARTS - 1),
                   .n_steps = 1 + rng_below(rng, MOST_STEPS)};
  for (uint32_t k = 0; k < parts.n_steps; k++)
    parts.steps[k] = (step_t)below(rng, STEPS);
  for (uint32_t k = 0; k < parts.n; k++)
    for (uint32_t d = 0; d < RANK; d++)
      parts.sizes[k][d] = k && rng_below(rng, 3) == 0 ? parts.sizes[0][d] : draw_size(rng);
  return parts;
}

// ---- Steps: x[c, h, w] to a value of rank 3 --------------------------------------------------------
static const int32_t first_axis[] = {0}, last_axis[] = {2};

static dt_value_t conv(dt_trace_t *t, dt_value_t x) {
  dt_sym_t one = dt_sym_const(t, 1), three = dt_sym_const(t, 3), six = dt_sym_const(t, 6);
  dt_sym_t image[4] = {one, dt_dim(t, x, 0), dt_dim(t, x, 1), dt_dim(t, x, 2)};
  dt_sym_t weights[4] = {six, image[1], three, three};
  dt_sym_t result[3] = {six, image[2], image[3]};
  dt_window_t windows[2] = {{.low = one, .high = one}, {.low = one, .high = one}};
  dt_value_t w = dt_sin(t, dt_iota(t, DT_F32, 4, weights, 1));
  w = dt_add(t, w, dt_cos(t, dt_iota(t, DT_F32, 4, weights, 3)));
  return dt_reshape(t, dt_conv(t, dt_reshape(t, x, 4, image), w, windows, 1), 3, result);
}

static dt_value_t pool(dt_trace_t *t, dt_value_t x) {
  dt_sym_t one = dt_sym_const(t, 1), three = dt_sym_const(t, 3);
  dt_sym_t image[4] = {one, dt_dim(t, x, 0), dt_dim(t, x, 1), dt_dim(t, x, 2)};
  dt_window_t window = {.size = three, .low = one, .high = one};
  dt_window_t windows[2] = {window, window};
  return dt_reshape(t, dt_avg_pool(t, dt_reshape(t, x, 4, image), windows, 0), 3, image + 1);
}

// The rows of x among each other, and with x again.
static dt_value_t product(dt_trace_t *t, dt_value_t x) {
  dt_sym_t whole[3] = {dt_dim(t, x, 0), dt_dim(t, x, 1), dt_dim(t, x, 2)};
  dt_sym_t flat[2] = {whole[0], dt_sym_mul(t, whole[1], whole[2])};
  dt_value_t y = dt_reshape(t, x, 2, flat);
  dt_value_t z = dt_tanh(t, dt_matmul(t, y, dt_transpose(t, y, 0, 1)));
  return dt_reshape(t, dt_matmul(t, z, y), 3, whole);
}

static dt_value_t part(dt_trace_t *t, dt_value_t x) {
  dt_sym_t two = dt_sym_const(t, 2);
  return dt_slice(t, x, 1, two, dt_sym_sub(t, dt_dim(t, x, 1), two), 1);
}

static dt_value_t step(dt_trace_t *t, dt_value_t x, step_t what) {
  dt_sym_t one = dt_sym_const(t, 1), none = dt_sym_const(t, 0);
  dt_sym_t frame[3] = {none, one, one};
  switch (what) {
  case STEP_MAP:
    return dt_tanh(t, dt_mul(t, x, dt_exp(t, dt_neg(t, dt_mul(t, x, x)))));
  case STEP_CENTRE:
    return dt_sub(t, x, dt_mean(t, x, 1, last_axis, true));
  case STEP_FRAME:
    return dt_pad(t, x, frame, frame, 0.25);
  case STEP_SOFTMAX:
    return dt_softmax(t, x, -1);
  case STEP_PRODUCT:
    return product(t, x);
  case STEP_CONV:
    return conv(t, x);
  case STEP_POOL:
    return pool(t, x);
  case STEP_TURN:
    return dt_transpose(t, x, 1, 2);
  case STEP_TWICE:
    return dt_concat(t, 2, (const dt_value_t[]){x, dt_relu(t, x)}, 0);
  case STEP_COLUMNS:
    return dt_add(t, x, dt_sum(t, x, 1, first_axis, true));
  case STEP_RUNNING:
    return dt_cumsum(t, x, 2, DT_CUMSUM_INCLUSIVE);
  case STEP_PART:
    return part(t, x);
  default:
    return dt_div(t, x,
                  dt_add(t, dt_sum(t, dt_abs(t, x), 1, last_axis, true), dt_scalar(t, DT_F32, 1)));
  }
}

static dt_status_t program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const parts_t *parts = closure;
  for (uint32_t k = 0; k < parts->n; k++) {
    out[k] = in[k];
    for (uint32_t s = 0; s < parts->n_steps; s++)
      out[k] = step(t, out[k], parts->steps[s]);
  }
  return NULL;
}

// ---- Answers ---------------------------------------------------------------------------------------
static void answer(const parts_t *parts, bool strict, dt_tensor_t *const *in, dt_tensor_t **out) {
  fixture_t place = fixture_on(DT_CPU, 3);
  dt_dim_decl_t dims[MOST_PARTS][RANK] = {0};
  dt_input_decl_t inputs[MOST_PARTS] = {0};
  for (uint32_t k = 0; k < parts->n; k++) {
    for (uint32_t d = 0; d < RANK; d++)
      dims[k][d] = (dt_dim_decl_t){.is_static = true, .value = parts->sizes[k][d]};
    inputs[k] = (dt_input_decl_t){.dtype = DT_F32, .rank = RANK, .dims = dims[k]};
  }
  dt_function_options_t options = options_of(parts->n, inputs);
  options.n_outputs = parts->n;
  options.strict_fp = strict;
  union {
    const void *given;
    void *taken;
  } closure = {.given = parts};
  dt_function_t *function = function_of(&place, program, closure.taken, &options);
  expect_ok(dt_call(place.session, function, in, parts->n, out, parts->n, NULL));
  dt_function_release(function);
  fixture_end(&place);
}

static void expect_same(const dt_tensor_t *a, const dt_tensor_t *b, uint32_t which,
                        uint32_t part_) {
  size_t bytes = (size_t)dt_tensor_count(a) * sizeof(float);
  assert_int_equal(dt_tensor_count(a), dt_tensor_count(b));
  const char *x = dt_tensor_data(a), *y = dt_tensor_data(b);
  for (size_t i = 0; i < bytes; i++)
    if (x[i] != y[i])
      fail_msg("program %u, part %u: element %zu differs", which, part_, i / sizeof(float));
}

static void check(rng_t *rng, uint32_t which) {
  parts_t parts = draw(rng);
  bool strict = rng_below(rng, 4) == 0;
  dt_tensor_t *in[MOST_PARTS] = {0}, *apart[MOST_PARTS] = {0}, *together[MOST_PARTS] = {0};
  for (uint32_t k = 0; k < parts.n; k++)
    in[k] = tensor_f32(rng, RANK, parts.sizes[k]);
  assert_int_equal(setenv("DUCTILE_WITHOUT", "parameters", 1), 0);
  answer(&parts, strict, in, apart);
  assert_int_equal(unsetenv("DUCTILE_WITHOUT"), 0);
  answer(&parts, strict, in, together);
  for (uint32_t k = 0; k < parts.n; k++) {
    expect_same(together[k], apart[k], which, k);
    RELEASE(in[k], apart[k], together[k]);
  }
}

static void test_random(void **state) {
  (void)state;
  rng_t rng = {11};
  for (uint32_t k = 0; k < PROGRAMS; k++)
    check(&rng, k);
}

RUN_TESTS(TEST(test_random))
