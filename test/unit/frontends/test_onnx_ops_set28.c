// SPDX-License-Identifier: Apache-2.0
// What operator set 28 and IR version 14 brought: remainders of floats with the divisor's sign,
// shifts of signed integers, blocks in columns first, gated activations, element types of 6 bits.
#include "test/unit/frontends/onnx_rig.h"

#include <math.h>

static int setup(void **state) { return fixture_open(state, 2, 28); }

static const double hard[] = {0.0, -0.0, 1.5, -1.5, 7.25, -7.25, INFINITY, -INFINITY, NAN, 3, -3};
enum { N_HARD = sizeof hard / sizeof hard[0], N_PAIRS = N_HARD * N_HARD };

// From the operator's own list of cases.
static double remainder_of(double x, double y) {
  if (isnan(x) || isnan(y) || isinf(x) || y == 0)
    return NAN;
  if (x == 0)
    return copysign(0.0, y);
  if (isinf(y))
    return (x > 0) == (y > 0) ? x : y;
  double rest = x - floor(x / y) * y;
  return rest == 0 ? copysign(0.0, y) : rest;
}

static double gated(double a, double b) { return a / (1 + exp(-0.5 * a)) * b; }

static void test_pairs(void **state) {
  fixture_t *fixture = *state;
  rig_model_t model = rig_open_at(
      fixture, 28,
      INPUT("x", "1", OPEN("n")) INPUT(
          "y", "1",
          OPEN("n")) "node { op_type 'Mod' input 'x' input 'y' output 'z' } output { name 'z' } "
                     "node { op_type 'SwiGLU' input 'x' input 'y' output 'g' " REAL(
                         "alpha", "0.5") "} output { name 'g' } ");
  for (int64_t n = N_PAIRS; n >= 0; n -= N_PAIRS) {
    double mods[N_PAIRS], gates[N_PAIRS];
    dt_tensor_t *in[] = {rig_floats(fixture, 1, &n), rig_floats(fixture, 1, &n)};
    for (int64_t k = 0; k < n; k++) {
      double x = hard[k / N_HARD], y = hard[k % N_HARD];
      rig_put(in[0], k, x);
      rig_put(in[1], k, y);
      mods[k] = remainder_of(x, y);
      gates[k] = gated(x, y);
    }
    const rig_want_t want[] = {{"Mod", 1, {n}, mods, 0}, {"SwiGLU", 1, {n}, gates, 1e-6}};
    rig_run(fixture, &model, in, 2, want);
  }
  rig_close(&model, 1);
}

static void test_shifts(void **state) {
  fixture_t *fixture = *state;
  static const int64_t values[] = {1, -1, 100, -100, 127, -128, 5}, by[] = {1, 2, 3, 1, 7, 8, -1};
  static const double left[] = {2, -4, 32, 56, -128, 0, 0}, right[] = {0, -1, 12, -50, 0, -1, 0};
  rig_model_t model = rig_open_at(
      fixture, 28,
      INPUT("x", "3", OPEN("n")) INPUT(
          "y", "3", OPEN("n")) "node { op_type 'BitShift' input 'x' input 'y' output "
                               "'l' " TEXT("direction",
                                           "LEFT") "} output { name 'l' } node { op_type "
                                                   "'BitShift' input 'x' input 'y' output "
                                                   "'r' " TEXT("direction",
                                                               "RIGHT") "} output { name 'r' } ");
  const int64_t n = 7;
  dt_tensor_t *in[] = {rig_integers(fixture, DT_I8, 0, 0, 1, &n),
                       rig_integers(fixture, DT_I8, 0, 0, 1, &n)};
  for (int64_t k = 0; k < n; k++) {
    rig_put(in[0], k, (double)values[k]);
    rig_put(in[1], k, (double)by[k]);
  }
  const rig_want_t want[] = {{"left", 1, {n}, left, 0}, {"right", 1, {n}, right, 0}};
  rig_run(fixture, &model, in, 2, want);
  rig_close(&model, 1);
}

static void test_columns_first(void **state) {
  fixture_t *fixture = *state;
  rig_model_t model = rig_open_at(
      fixture, 28,
      INPUT("x", "1",
            OPEN("n") OPEN("c") OPEN("h") OPEN(
                "w")) "node { op_type 'SpaceToDepth' input 'x' output 'y' " INT("blocksize", "2")
          TEXT("mode", "CRD") "} output { name 'y' } ");
  static const int64_t shapes[][4] = {{1, 1, 2, 2}, {2, 3, 4, 6}, {0, 2, 2, 2}, {2, 2, 2, 4}};
  for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
    const int64_t *d = shapes[s], high = d[2] / 2, wide = d[3] / 2;
    double expected[256];
    dt_tensor_t *x = rig_floats(fixture, 4, d);
    int64_t at = 0;
    for (int64_t n = 0; n < d[0]; n++)
      for (int64_t c = 0; c < d[1] * 4; c++)
        for (int64_t i = 0; i < high * wide; i++) {
          int64_t row = i / wide * 2 + c / 2 % 2, column = i % wide * 2 + c % 2;
          expected[at++] = rig_get(x, ((n * d[1] + c / 4) * d[2] + row) * d[3] + column);
        }
    const rig_want_t want = {"blocks", 4, {d[0], d[1] * 4, high, wide}, expected, 0};
    rig_run(fixture, &model, &x, 1, &want);
  }
  rig_close(&model, 1);
}

// Their tensors are read, with bytes as the format says, and no function takes them.
static void test_six_bits(void **state) {
  fixture_t *fixture = *state;
  onnx_bytes_t bytes =
      onnx_make(&dt__onnx_model_message,
                "ir_version 14 opset_import { version 28 } graph { " INPUT(
                    "x", "27", OPEN("n")) "output { name 'x' } initializer { name 'w' data_type 28 "
                                          "dims 5 raw_data '\\x01\\x02\\x03"
                                          "\\x04' } }");
  dt_onnx_t *file = NULL;
  dt_function_t *function = NULL;
  expect_ok(dt_onnx_open_memory(bytes.data, bytes.len, NULL, &file));
  assert_int_equal(dt_onnx_input(file, 0)->dtype, DT_DTYPE_NONE);
  expect_told(dt_onnx_function_create(fixture->runtime, file, NULL, &function), DT_E_UNSUPPORTED,
              "FLOAT6E2M3");
  dt_onnx_close(file);
  onnx_free(&bytes);
}

RUN_TESTS_WITH(setup, fixture_close, TEST(test_pairs), TEST(test_shifts), TEST(test_columns_first),
               TEST(test_six_bits))
