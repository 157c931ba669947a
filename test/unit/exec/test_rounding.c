// SPDX-License-Identifier: Apache-2.0
// Each operation rounds: what one kernel computes of a product is what another one stored of it, so
// that differences of equal numbers are 0, on CPUs and on devices (the fake driver runs the PTX),
// in vectors and behind them.
#include "test/support/subjects.h"

// ---- Programs -------------------------------------------------------------------------------------
// Numbers with all bits of the dtype, from f32.
static dt_value_t full(dt_trace_t *t, dt_value_t x, dt_dtype_t dtype) {
  return dt_div(t, dt_cast(t, x, dtype), dt_scalar(t, dtype, 3));
}

typedef struct form_t {
  const char *name;
  dt_value_t (*of)(dt_trace_t *t, dt_value_t x, dt_value_t y); // y is x * x, rounded
} form_t;

static dt_value_t less_stored(dt_trace_t *t, dt_value_t x, dt_value_t y) {
  return dt_sub(t, dt_mul(t, x, x), y);
}
static dt_value_t stored_less(dt_trace_t *t, dt_value_t x, dt_value_t y) {
  return dt_sub(t, y, dt_mul(t, x, x));
}
static dt_value_t plus_negated(dt_trace_t *t, dt_value_t x, dt_value_t y) {
  return dt_add(t, dt_mul(t, x, x), dt_neg(t, y));
}
// The imaginary part of z times its conjugate, z = x + x i.
static dt_value_t conjugate(dt_trace_t *t, dt_value_t x, dt_value_t y) {
  (void)y;
  return dt_add(t, dt_mul(t, x, dt_neg(t, x)), dt_mul(t, x, x));
}
// Of one number.
static dt_value_t variance(dt_trace_t *t, dt_value_t x, dt_value_t y) {
  const int32_t last[] = {-1};
  (void)y;
  x = dt_unsqueeze(t, x, 1);
  dt_value_t mean = dt_mean(t, x, 1, last, false);
  dt_value_t squares = dt_mean(t, dt_mul(t, x, x), 1, last, false);
  return dt_sub(t, squares, dt_mul(t, mean, mean));
}
static const form_t forms[] = {{"x x - y", less_stored},
                               {"y - x x", stored_less},
                               {"x x + -y", plus_negated},
                               {"x -x + x x", conjugate},
                               {"E[x x] - E[x] E[x]", variance}};
#define N_FORMS (sizeof(forms) / sizeof(forms[0]))

static dt_status_t square(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t x = full(t, in[0], *(const dt_dtype_t *)closure);
  out[0] = dt_mul(t, x, x);
  return NULL;
}

static dt_status_t rests(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t x = full(t, in[0], *(const dt_dtype_t *)closure);
  for (uint32_t k = 0; k < N_FORMS; k++)
    out[k] = dt_cast(t, forms[k].of(t, x, in[1]), DT_F32);
  return NULL;
}

// ---- Calls ----------------------------------------------------------------------------------------
static void expect_zeros(fixture_t *place, dt_tensor_t *rest, dt_dtype_t dtype, const char *form) {
  dt_tensor_t *here = tensor_empty(DT_F32, 1, dt_tensor_sizes(rest));
  expect_ok(dt_tensor_copy(place->session, rest, here));
  expect_ok(dt_session_wait(place->session));
  for (int64_t i = 0; i < dt_tensor_count(here); i++) {
    float value = ((const float *)dt_tensor_data(here))[i];
    if (value != 0)
      fail_msg("%s of %s: element %lld of %lld is %g; expected 0", form, dt_dtype_name(dtype),
               (long long)i, (long long)dt_tensor_count(here), (double)value);
  }
  dt_tensor_release(here);
}

static void check(fixture_t *place, dt_function_t *const functions[2], dt_dtype_t dtype,
                  dt_tensor_t *x) {
  dt_tensor_t *in[2] = {x, NULL}, *out[N_FORMS] = {NULL};
  expect_ok(dt_call(place->session, functions[0], in, 1, &in[1], 1, NULL));
  expect_ok(dt_call(place->session, functions[1], in, 2, out, N_FORMS, NULL));
  for (uint32_t k = 0; k < N_FORMS; k++) {
    expect_zeros(place, out[k], dtype, forms[k].name);
    dt_tensor_release(out[k]);
  }
  dt_tensor_release(in[1]);
}

static void check_dtype(fixture_t *place, dt_dtype_t dtype) {
  static const int64_t lengths[] = {0, 1, 3, 70, 517};
  static const dt_dim_decl_t n[] = {{.name = "n"}};
  const dt_input_decl_t inputs[] = {{.name = "x", .dtype = DT_F32, .rank = 1, .dims = n},
                                    {.name = "y", .dtype = dtype, .rank = 1, .dims = n}};
  const subject_t subjects[] = {{"square", square, 1, 1, inputs},
                                {"rests", rests, 2, N_FORMS, inputs}};
  dt_function_t *functions[2];
  rng_t rng = {20261122};
  for (uint32_t k = 0; k < 2; k++)
    functions[k] = subject_function(place->runtime, &subjects[k], &dtype, DT_ANSWER_COMPILED);
  for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
    dt_tensor_t *x = tensor_f32(&rng, 1, &lengths[k]);
    check(place, functions, dtype, x);
    dt_tensor_release(x);
  }
  for (uint32_t k = 0; k < 2; k++) {
    assert_int_equal(variants_of(functions[k]), 1);
    dt_function_release(functions[k]);
  }
}

static void check_device(dt_device_t device) {
  static const dt_dtype_t dtypes[] = {DT_F64, DT_F32, DT_F16, DT_BF16};
  fixture_t place = fixture_on(device, 1);
  for (size_t k = 0; k < sizeof(dtypes) / sizeof(dtypes[0]); k++)
    check_dtype(&place, dtypes[k]);
  fixture_end(&place);
}

static void test_cpu(void **state) {
  (void)state;
  check_device(DT_CPU);
}

static void test_cuda(void **state) {
  (void)state;
  check_device(DT_CUDA);
}

RUN_TESTS(TEST(test_cpu), TEST(test_cuda))
