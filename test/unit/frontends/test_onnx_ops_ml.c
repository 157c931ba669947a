// SPDX-License-Identifier: Apache-2.0
// Operators of ai.onnx.ml that are arithmetic, over dynamic dims: compiled and evaluated, against
// formulas in double.
#include "test/unit/frontends/onnx_rig.h"

#include <math.h>
#include <stdio.h>

enum { MOST = 600 };

static const int64_t shapes[][2] = {{4, 3}, {1, 1}, {0, 5}, {7, 1}, {33, 17}, {3, 0}};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

// Element types of inputs as ONNX numbers them.
static const struct {
  dt_dtype_t dtype;
  const char *number;
} kinds[] = {{DT_F32, "1"}, {DT_F64, "11"}, {DT_I32, "6"}, {DT_I64, "7"}};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

// Values from -6 to 6, in quarters where the dtype has them. The second row is zeros, the third
// without a positive element, the fourth is small, and the fifth's norms are below 1e-30.
static dt_tensor_t *rows(fixture_t *fixture, dt_dtype_t dtype, const int64_t *sizes) {
  bool floats = dtype == DT_F32 || dtype == DT_F64;
  double unit = floats ? 0.25 : 1;
  dt_tensor_t *made = rig_integers(fixture, dtype, 0, 0, 2, sizes);
  for (int64_t k = 0; k < dt_tensor_count(made); k++) {
    int64_t most = (int64_t)(6 / unit), row = k / sizes[1];
    double value = (double)rng_between(&fixture->rng, -most, row == 2 ? -1 : most) * unit;
    value = floats && row == 3   ? ldexp(value, -24)
            : floats && row == 4 ? ldexp(value, -110)
                                 : value;
    rig_put(made, k, row == 1 ? 0 : value);
  }
  return made;
}

// ---- Normalizer -------------------------------------------------------------------------------------
// The norm of a row of n elements of x; ONNX's own evaluator takes a maximum of absolute values.
static double norm_of(int which, const dt_tensor_t *x, int64_t from, int64_t n) {
  double made = 0;
  for (int64_t k = from; k < from + n; k++) {
    double each = fabs(rig_get(x, k));
    made = which == 0 ? fmax(made, each) : made + (which == 1 ? each : each * each);
  }
  return fmax(which == 2 ? sqrt(made) : made, 1e-30);
}

static void check_normalizer(fixture_t *fixture, int kind) {
  static double values[3][MOST];
  static const char *const names[] = {"MAX", "L1", "L2"};
  char graph[1024];
  (void)snprintf(graph, sizeof graph, INPUT("x", "%s", OPEN("a") OPEN("b")) "%s",
                 kinds[kind].number,
                 "node { op_type 'Normalizer' " ML "input 'x' output 'p' } "
                 "node { op_type 'Normalizer' " ML "input 'x' output 'q' " TEXT(
                     "norm", "L1") "} "
                                   "node { op_type 'Normalizer' " ML
                                   "input 'x' output 'r' " TEXT("norm", "L2") "} " OUTPUT("p")
                                       OUTPUT("q") OUTPUT("r"));
  rig_model_t model = rig_open(fixture, graph);
  for (size_t s = 0; s < N_SHAPES; s++) {
    dt_tensor_t *x = rows(fixture, kinds[kind].dtype, shapes[s]);
    int64_t n = shapes[s][1];
    rig_want_t want[3];
    for (int which = 0; which < 3; which++) {
      for (int64_t k = 0; k < dt_tensor_count(x); k++)
        values[which][k] = rig_get(x, k) / norm_of(which, x, k / n * n, n);
      want[which] = (rig_want_t){names[which], 2, {shapes[s][0], n}, values[which], 2e-6};
    }
    rig_run(fixture, &model, &x, 1, want);
  }
  rig_close(&model, 1);
}

static void test_normalizer(void **state) {
  for (int kind = 0; kind < N_KINDS; kind++)
    check_normalizer(*state, kind);
}

static void test_normalizer_of_a_vector(void **state) {
  fixture_t *fixture = *state;
  rig_model_t model = rig_open(
      fixture,
      INPUT("x", "1", OPEN("a")) "node { op_type 'Normalizer' " ML
                                 "input 'x' output 'y' " TEXT("norm", "L2") "} " OUTPUT("y"));
  for (int64_t n = 0; n < 20; n += 3) {
    dt_tensor_t *x = rig_floats(fixture, 1, &n);
    double values[20];
    for (int64_t k = 0; k < n; k++)
      values[k] = rig_get(x, k) / norm_of(2, x, 0, n);
    const rig_want_t want = {"a vector", 1, {n}, values, 2e-6};
    rig_run(fixture, &model, &x, 1, &want);
  }
  rig_close(&model, 1);
}

// ---- Scaler -----------------------------------------------------------------------------------------
// One factor and offset, those of each column, and none.
static void check_scaler(fixture_t *fixture, int kind) {
  static const double offsets[] = {0.5, -1, 2}, factors[] = {2, 0.125, -3};
  double one[64], each[64], none[64];
  char graph[1024];
  (void)snprintf(
      graph, sizeof graph, INPUT("x", "%s", OPEN("a") SIZE(3)) "%s", kinds[kind].number,
      "node { op_type 'Scaler' " ML "input 'x' output 'p' " REALS("offset", "1.5")
          REALS("scale", "0.25") "} "
                                 "node { op_type 'Scaler' " ML
                                 "input 'x' output 'q' " REALS("offset", "0.5 -1.0 2.0")
                                     REALS("scale",
                                           "2.0 0.125 -3.0") "} "
                                                             "node { op_type 'Scaler' " ML
                                                             "input 'x' output 'r' } " OUTPUT("p")
                                                                 OUTPUT("q") OUTPUT("r"));
  rig_model_t model = rig_open(fixture, graph);
  for (int64_t a = 0; a < 20; a = 2 * a + 1) {
    const int64_t sizes[] = {a, 3};
    dt_tensor_t *x = rows(fixture, kinds[kind].dtype, sizes);
    for (int64_t k = 0; k < 3 * a; k++) {
      none[k] = rig_get(x, k);
      one[k] = (none[k] - 1.5) * 0.25;
      each[k] = (none[k] - offsets[k % 3]) * factors[k % 3];
    }
    const rig_want_t want[] = {{"one for all", 2, {a, 3}, one, 1e-6},
                               {"one for each column", 2, {a, 3}, each, 1e-6},
                               {"none", 2, {a, 3}, none, 0}};
    rig_run(fixture, &model, &x, 1, want);
  }
  rig_close(&model, 1);
}

static void test_scaler(void **state) {
  for (int kind = 0; kind < N_KINDS; kind++)
    check_scaler(*state, kind);
}

// ---- Binarizer --------------------------------------------------------------------------------------
// Bounds between two integers, on one, and none given; the results have the dtype of x.
static void check_binarizer(fixture_t *fixture, int kind) {
  static const double bounds[] = {-1.5, 2.5, 2, 0};
  static double values[4][MOST];
  char graph[1024];
  (void)snprintf(
      graph, sizeof graph, INPUT("x", "%s", OPEN("a") OPEN("b")) "%s", kinds[kind].number,
      "node { op_type 'Binarizer' " ML "input 'x' output 'p' " REAL(
          "threshold",
          "-1.5") "} "
                  "node { op_type 'Binarizer' " ML "input 'x' output 'q' " REAL(
                      "threshold",
                      "2.5") "} "
                             "node { op_type 'Binarizer' " ML "input 'x' output 'r' " REAL(
                                 "threshold", "2.0") "} "
                                                     "node { op_type 'Binarizer' " ML
                                                     "input 'x' output 's' } " OUTPUT("p")
                                                         OUTPUT("q") OUTPUT("r") OUTPUT("s"));
  rig_model_t model = rig_open(fixture, graph);
  for (size_t s = 0; s < N_SHAPES; s++) {
    dt_tensor_t *x = rows(fixture, kinds[kind].dtype, shapes[s]);
    rig_want_t want[4];
    for (int which = 0; which < 4; which++) {
      for (int64_t k = 0; k < dt_tensor_count(x); k++)
        values[which][k] = rig_get(x, k) > bounds[which];
      want[which] = (rig_want_t){
          dt_dtype_name(kinds[kind].dtype), 2, {shapes[s][0], shapes[s][1]}, values[which], 0};
    }
    rig_run(fixture, &model, &x, 1, want);
  }
  rig_close(&model, 1);
}

static void test_binarizer(void **state) {
  for (int kind = 0; kind < N_KINDS; kind++)
    check_binarizer(*state, kind);
}

// Bounds that no integer of the input's dtype reaches, and what no number is above.
static void test_binarizer_of_far_bounds(void **state) {
  fixture_t *fixture = *state;
  rig_model_t model = rig_open(
      fixture,
      INPUT("x", "6", OPEN("a")) "node { op_type 'Binarizer' " ML "input 'x' output 'p' " REAL(
          "threshold", "3e9") "} "
                              "node { op_type 'Binarizer' " ML "input 'x' output 'q' " REAL(
                                  "threshold", "-3e9") "} "
                                                       "node { op_type 'Binarizer' " ML
                                                       "input 'x' output 'r' " REAL(
                                                           "threshold", "nan") "} " OUTPUT("p")
                                                           OUTPUT("q") OUTPUT("r"));
  const int64_t n = 4;
  static const double hard[] = {INT32_MIN, -1, 1, INT32_MAX}, zeros[4], ones[] = {1, 1, 1, 1};
  dt_tensor_t *x = rig_integers(fixture, DT_I32, 0, 0, 1, &n);
  for (int64_t k = 0; k < n; k++)
    rig_put(x, k, hard[k]);
  const rig_want_t want[] = {
      {"above all", 1, {n}, zeros, 0}, {"below all", 1, {n}, ones, 0}, {"NaN", 1, {n}, zeros, 0}};
  rig_run(fixture, &model, &x, 1, want);
  rig_close(&model, 1);
}

// ---- ArrayFeatureExtractor --------------------------------------------------------------------------
// Columns by an input of any number of them, of a matrix and of a vector.
static void check_extractor(fixture_t *fixture, int kind) {
  double two[64], one[64];
  char graph[1024];
  (void)snprintf(graph, sizeof graph,
                 INPUT("x", "%s", OPEN("a") OPEN("b")) INPUT("v", "%s", OPEN("b"))
                     INPUT("at", "7", SIZE(1) OPEN("k")) "%s",
                 kinds[kind].number, kinds[kind].number,
                 "node { op_type 'ArrayFeatureExtractor' " ML "input 'x' input 'at' output 'p' } "
                 "node { op_type 'ArrayFeatureExtractor' " ML
                 "input 'v' input 'at' output 'q' } " OUTPUT("p") OUTPUT("q"));
  static const int64_t sets[][3] = {{4, 3, 5}, {1, 7, 1}, {0, 2, 3}, {9, 4, 0}, {6, 2, 7}};
  rig_model_t model = rig_open(fixture, graph);
  for (size_t s = 0; s < sizeof sets / sizeof sets[0]; s++) {
    int64_t a = sets[s][0], b = sets[s][1], n = sets[s][2];
    dt_tensor_t *in[] = {rows(fixture, kinds[kind].dtype, sets[s]),
                         rig_integers(fixture, kinds[kind].dtype, -9, 9, 1, &b),
                         rig_integers(fixture, DT_I64, 0, b - 1, 2, (const int64_t[]){1, n})};
    for (int64_t k = 0; k < n; k++) {
      int64_t column = (int64_t)rig_get(in[2], k);
      one[k] = rig_get(in[1], column);
      for (int64_t row = 0; row < a; row++)
        two[row * n + k] = rig_get(in[0], row * b + column);
    }
    const rig_want_t want[] = {{"a matrix", 2, {a, n}, two, 0}, {"a vector", 2, {1, n}, one, 0}};
    rig_run(fixture, &model, in, 3, want);
  }
  rig_close(&model, 1);
}

static void test_extractor(void **state) {
  for (int kind = 0; kind < N_KINDS; kind++)
    check_extractor(*state, kind);
}

static int open_all(void **state) { return fixture_open(state, 1, 7); }

RUN_TESTS_WITH(open_all, fixture_close, TEST(test_normalizer), TEST(test_normalizer_of_a_vector),
               TEST(test_scaler), TEST(test_binarizer), TEST(test_binarizer_of_far_bounds),
               TEST(test_extractor))
