// SPDX-License-Identifier: Apache-2.0
// Ops on halves that a GPU makes of the halves themselves (backend_llvm/emit/halves.c), against the
// evaluator, bit by bit but for NaN: all pairs of a set that has zeros, subnormals, the ends of the
// range, infinities and NaN, in vectors and alone, for a GPU that multiplies bf16 by multiply-adds
// and for one that has all ops.
#include "test/support/fixture.h"
#include "test/support/folder.h"

#include <string.h>

enum { VALUES = 96, EDGES = 24, PAIRS = VALUES * VALUES, RESULTS = 14 };
enum { ABOVE_ONE = 14, BELOW_ONE = 16 }; // among the values

// Each of the fields with both signs, then numbers of all sizes.
static void fill_values(rng_t *rng, dt_dtype_t dtype, uint16_t out[VALUES]) {
  uint32_t fraction = dtype == DT_F16 ? 10 : 7, infinity = dtype == DT_F16 ? 0x7c00 : 0x7f80;
  uint32_t unit = 1U << fraction, one = dtype == DT_F16 ? 0x3c00 : 0x3f80;
  const uint32_t edges[EDGES / 2] = {0,   1,       3,       unit - 1,     unit,     unit + 1,
                                     one, one + 1, one - 1, infinity - 1, infinity, infinity + 1};
  for (uint32_t i = 0; i < EDGES; i++)
    out[i] = (uint16_t)(edges[i / 2] | (i & 1) << 15);
  for (uint32_t i = EDGES; i < VALUES; i++)
    out[i] = (uint16_t)rng_between(rng, 0, 0xffff);
}

static dt_status_t program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const dt_dtype_t dtype = *(const dt_dtype_t *)closure;
  dt_value_t x = in[0], y = in[1], product = dt_mul(t, x, y);
  out[0] = dt_add(t, x, y);
  out[1] = dt_sub(t, x, y);
  out[2] = product;
  out[3] = dt_maximum(t, x, y);
  out[4] = dt_minimum(t, x, y);
  out[5] = dt_neg(t, dt_add(t, x, y));
  out[6] = dt_abs(t, dt_sub(t, x, y));
  out[7] = dt_mul(t, x, dt_full(t, dtype, 0.08838834764831845, 0, NULL));
  out[8] = dt_add(t, product, x); // rounded twice: no multiply-add
  out[9] = dt_sub(t, y, product);
  out[10] = dt_relu(t, dt_sub(t, product, y));
  out[11] = dt_maximum(t, dt_neg(t, x), dt_abs(t, y));
  // The same number for all lanes, made outside of their loop.
  out[12] = dt_add(t, x, dt_mul(t, in[2], in[3]));
  out[13] = dt_sub(t, dt_mul(t, in[2], in[3]), y);
  return NULL;
}

static bool is_nan(dt_dtype_t dtype, uint16_t bits) {
  return (bits & 0x7fff) > (dtype == DT_F16 ? 0x7c00 : 0x7f80);
}

static void compare(dt_dtype_t dtype, dt_tensor_t *const x[2], dt_tensor_t *actual,
                    dt_tensor_t *expected, uint32_t which, const char *arch) {
  const uint16_t *a = dt_tensor_data(actual), *e = dt_tensor_data(expected);
  assert_int_equal(dt_tensor_count(actual), dt_tensor_count(expected));
  for (int64_t i = 0; i < dt_tensor_count(actual); i++)
    if (a[i] != e[i] && !(is_nan(dtype, a[i]) && is_nan(dtype, e[i])))
      fail_msg("%s on %s, result %u of %04x and %04x: got %04x, expected %04x",
               dt_dtype_name(dtype), arch, which, ((const uint16_t *)dt_tensor_data(x[0]))[i],
               ((const uint16_t *)dt_tensor_data(x[1]))[i], a[i], e[i]);
}

static void check(dt_dtype_t dtype, const char *arch) {
  static uint16_t values[VALUES], left[PAIRS], right[PAIRS];
  variable_set("FAKE_CUDA_ARCH", arch);
  fixture_t f = fixture_on(DT_CUDA, 2);
  dt_session_t *host = session_of(f.runtime);
  f.rng = (rng_t){dtype};
  const dt_dim_decl_t n = {.name = "n"}, one = {.is_static = true, .value = 1};
  dt_input_decl_t inputs[4];
  static const char *const names[] = {"x", "y", "a", "b"};
  for (uint32_t i = 0; i < 4; i++)
    inputs[i] =
        (dt_input_decl_t){.name = names[i], .dtype = dtype, .rank = 1, .dims = i < 2 ? &n : &one};
  dt_function_options_t options = options_of(4, inputs);
  options.n_outputs = RESULTS;
  dt_function_t *code = function_of(&f, program, &dtype, &options);
  options.answer = DT_ANSWER_EVALUATOR;
  dt_function_t *evaluator = function_of(&f, program, &dtype, &options);
  fill_values(&f.rng, dtype, values);
  for (uint32_t i = 0; i < PAIRS; i++) {
    left[i] = values[i / VALUES];
    right[i] = values[i % VALUES];
  }
  for (int64_t count = PAIRS; count > 5; count /= 99) { // whole vectors, and what is left of some
    dt_tensor_t *x[4], *there[4], *y[RESULTS] = {0}, *z[RESULTS] = {0};
    for (uint32_t i = 0; i < 4; i++) {
      const uint16_t *from[] = {left, right, values + ABOVE_ONE, values + BELOW_ONE};
      x[i] = tensor_from(dtype, 1, i < 2 ? &count : SIZES(1), from[i]);
      there[i] = tensor_upload(f.session, x[i]);
    }
    expect_ok(dt_call(f.session, code, there, 4, y, RESULTS, NULL));
    expect_ok(dt_call(host, evaluator, x, 4, z, RESULTS, NULL));
    for (uint32_t i = 0; i < RESULTS; i++) {
      dt_tensor_t *back = tensor_download(f.session, y[i]);
      compare(dtype, x, back, z[i], i, arch);
      RELEASE(back);
    }
    release_tensors(x, 4);
    release_tensors(there, 4);
    release_tensors(y, RESULTS);
    release_tensors(z, RESULTS);
  }
  assert_int_equal(stats_of(code).evaluator_calls, 0);
  dt_function_release(code);
  dt_function_release(evaluator);
  dt_session_destroy(host);
  fixture_end(&f);
}

static void test_f16(void **state) {
  (void)state;
  check(DT_F16, "90");
  check(DT_F16, "80");
}

static void test_bf16(void **state) {
  (void)state;
  check(DT_BF16, "90");
  check(DT_BF16, "80");
}

RUN_TESTS(TEST(test_f16), TEST(test_bf16))
