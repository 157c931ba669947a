// SPDX-License-Identifier: Apache-2.0
// Operators as only the tools of onnxruntime write them: integers in and out of float formulas, a
// recurrent network with integer weights, normalisation in operator sets that do not have it yet.
// Compiled and evaluated, against formulas in double.
#include "test/unit/frontends/onnx_rig.h"

#include <math.h>

enum { MOST = 4096 };

// What stands for x: x / scale + zero, to nearest even, in u8.
static double quantised(double x, double scale, double zero) {
  return fmin(fmax(nearbyint(x / scale) + zero, 0), 255);
}

// ---- QLinearSoftmax, QLinearAveragePool -------------------------------------------------------------
#define NUMBER(name, dtype, field, value)                                                          \
  "initializer { name '" name "' data_type " dtype " " field " [ " value " ] } "
#define SCALES                                                                                     \
  NUMBER("xs", "1", "float_data", "0.0371")                                                        \
  NUMBER("xz", "2", "int32_data", "117")                                                           \
  NUMBER("ys", "1", "float_data", "0.00413") NUMBER("yz", "2", "int32_data", "3")
#define QUANTISED_NODE(op, out, more)                                                              \
  "node { op_type '" op "' " MS                                                                    \
  "input 'x' input 'xs' input 'xz' input 'ys' input 'yz' output '" out "' " more "} "

static double real_of(const dt_tensor_t *x, int64_t k) {
  return (rig_get(x, k) - 117) * (double)0.0371F;
}

// Softmax over `len` elements from `first` on.
static void softmax(const dt_tensor_t *x, int64_t first, int64_t len, double *out) {
  double sum = 0;
  for (int64_t k = first; k < first + len; k++)
    sum += exp(real_of(x, k));
  for (int64_t k = first; k < first + len; k++)
    out[k] = quantised(exp(real_of(x, k)) / sum, (double)0.00413F, 3);
}

static void test_softmax(void **state) {
  fixture_t *fixture = *state;
  static const int64_t shapes[][3] = {{2, 3, 5}, {1, 1, 1}, {4, 2, 17}, {0, 3, 4}, {3, 7, 2}};
  static double rows[MOST], parts[MOST];
  rig_model_t model = rig_open(
      fixture,
      INPUT("x", "2", OPEN("a") OPEN("b") OPEN("c"))
          SCALES QUANTISED_NODE("QLinearSoftmax", "y", INT("axis", "-1") INT("opset", "13"))
              QUANTISED_NODE("QLinearSoftmax", "z", INT("axis", "1") INT("opset", "11")) OUTPUT("y")
                  OUTPUT("z"));
  for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
    const int64_t *n = shapes[s];
    dt_tensor_t *x = rig_integers(fixture, DT_U8, 0, 255, 3, n);
    for (int64_t k = 0; k < n[0] * n[1]; k++)
      softmax(x, k * n[2], n[2], rows);
    for (int64_t k = 0; k < n[0]; k++)
      softmax(x, k * n[1] * n[2], n[1] * n[2], parts);
    const rig_want_t want[] = {{"of rows", 3, {n[0], n[1], n[2]}, rows, 0},
                               {"of all dims from 1 on", 3, {n[0], n[1], n[2]}, parts, 0}};
    rig_run(fixture, &model, &x, 1, want);
  }
  rig_close(&model, 1);
}

static void test_average(void **state) {
  fixture_t *fixture = *state;
  static const int64_t lengths[] = {6, 2, 9, 4};
  static double values[MOST];
  rig_model_t model = rig_open(
      fixture,
      INPUT("x", "2", OPEN("a") SIZE(2) OPEN("l")) NUMBER("xs", "1", "float_data", "0.0371")
          NUMBER("xz", "2", "int32_data", "117") NUMBER("ys", "1", "float_data", "0.0413")
              NUMBER("yz", "2", "int32_data", "101") QUANTISED_NODE(
                  "QLinearAveragePool", "y",
                  "attribute { name 'kernel_shape' type 7 ints 2 } attribute { name 'strides' type "
                  "7 ints 1 } ") OUTPUT("y"));
  for (size_t s = 0; s < sizeof lengths / sizeof lengths[0]; s++) {
    int64_t l = lengths[s], made = l - 1;
    const int64_t sizes[] = {3, 2, l};
    dt_tensor_t *x = rig_integers(fixture, DT_U8, 0, 255, 3, sizes);
    for (int64_t k = 0; k < 6 * made; k++) {
      int64_t at = k / made * l + k % made;
      values[k] = quantised((real_of(x, at) + real_of(x, at + 1)) / 2, (double)0.0413F, 101);
    }
    const rig_want_t want[] = {{"QLinearAveragePool", 3, {3, 2, made}, values, 0}};
    rig_run(fixture, &model, &x, 1, want);
  }
  rig_close(&model, 1);
}

// ---- DynamicQuantizeLSTM ----------------------------------------------------------------------------
enum { WIDTH = 3, HIDDEN = 2, GATES = 4 * HIDDEN };

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

// Integer weights [columns, gates] of one direction with a scale a gate's column.
typedef struct weights_t {
  const dt_tensor_t *integers, *scales, *zero;
} weights_t;

static double weight(const weights_t *w, int64_t direction, int64_t columns, int64_t row,
                     int64_t gate) {
  double q = rig_get(w->integers, (direction * columns + row) * GATES + gate);
  return (q - rig_get(w->zero, direction)) * rig_get(w->scales, direction * GATES + gate);
}

// Gates stand in the order i, o, f, c.
static void lstm(const dt_tensor_t *x, int64_t length, int64_t batch, const weights_t *w,
                 const weights_t *r, int64_t direction, double *y) {
  for (int64_t b = 0; b < batch; b++) {
    double h[HIDDEN] = {0}, c[HIDDEN] = {0};
    for (int64_t i = 0; i < length; i++) {
      int64_t step = direction ? length - 1 - i : i;
      double g[GATES] = {0};
      for (int64_t k = 0; k < GATES; k++) {
        for (int64_t j = 0; j < WIDTH; j++)
          g[k] += rig_get(x, (step * batch + b) * WIDTH + j) * weight(w, direction, WIDTH, j, k);
        for (int64_t j = 0; j < HIDDEN; j++)
          g[k] += h[j] * weight(r, direction, HIDDEN, j, k);
      }
      for (int64_t k = 0; k < HIDDEN; k++) {
        c[k] = sigmoid(g[2 * HIDDEN + k]) * c[k] + sigmoid(g[k]) * tanh(g[3 * HIDDEN + k]);
        h[k] = sigmoid(g[HIDDEN + k]) * tanh(c[k]);
        y[((step * 2 + direction) * batch + b) * HIDDEN + k] = h[k];
      }
    }
  }
}

static void test_lstm(void **state) {
  fixture_t *fixture = *state;
  static const int64_t shapes[][2] = {{5, 2}, {1, 1}, {9, 3}, {2, 4}};
  static double values[MOST];
  rig_model_t model = rig_open(
      fixture,
      INPUT("x", "1", OPEN("l") OPEN("b") SIZE(3)) INPUT("w", "3", SIZE(2) SIZE(3) SIZE(8))
          INPUT("r", "3", SIZE(2) SIZE(2) SIZE(8)) INPUT("ws", "1", SIZE(2) SIZE(8))
              INPUT("wz", "3", SIZE(2)) INPUT("rs", "1", SIZE(2) SIZE(8))
                  INPUT("rz", "3",
                        SIZE(2)) "node { op_type 'DynamicQuantizeLSTM' " MS
                                 "input 'x' input 'w' input 'r' input '' input '' input '' input "
                                 "'' input '' input 'ws' input 'wz' input 'rs' input 'rz' output "
                                 "'y' " INT("hidden_size", "2")
                                     TEXT("direction", "bidirectional") "} " OUTPUT("y"));
  for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
    int64_t l = shapes[s][0], b = shapes[s][1];
    const int64_t sizes[][3] = {{l, b, WIDTH}, {2, WIDTH, GATES}, {2, HIDDEN, GATES}, {2, GATES}};
    dt_tensor_t *in[] = {rig_floats(fixture, 3, sizes[0]),
                         rig_integers(fixture, DT_I8, -127, 127, 3, sizes[1]),
                         rig_integers(fixture, DT_I8, -127, 127, 3, sizes[2]),
                         rig_floats(fixture, 2, sizes[3]),
                         rig_integers(fixture, DT_I8, -9, 9, 1, sizes[3]),
                         rig_floats(fixture, 2, sizes[3]),
                         rig_integers(fixture, DT_I8, -9, 9, 1, sizes[3])};
    for (int64_t k = 0; k < 2 * GATES; k++) {
      rig_put(in[3], k, 0.005 * (1.5 + rig_get(in[3], k)));
      rig_put(in[5], k, 0.005 * (1.5 + rig_get(in[5], k)));
    }
    const weights_t w = {in[1], in[3], in[4]}, r = {in[2], in[5], in[6]};
    lstm(in[0], l, b, &w, &r, 0, values);
    lstm(in[0], l, b, &w, &r, 1, values);
    const rig_want_t want[] = {{"DynamicQuantizeLSTM", 4, {l, 2, b, HIDDEN}, values, 1e-5}};
    rig_run(fixture, &model, in, 7, want);
  }
  rig_close(&model, 2);
}

// ---- LayerNormalization -----------------------------------------------------------------------------
static void test_layer_norm(void **state) {
  fixture_t *fixture = *state;
  static const int64_t shapes[][2] = {{4, 6}, {1, 1}, {3, 17}, {0, 5}};
  static double values[MOST];
  rig_model_t model = rig_open_at(
      fixture, 11,
      INPUT("x", "1", OPEN("n") OPEN("w")) INPUT("g", "1", OPEN("w")) INPUT(
          "b", "1", OPEN("w")) "node { op_type 'LayerNormalization' input 'x' input 'g' input 'b' "
                               "output 'y' " INT("axis", "-1")
                                   REAL("epsilon", "0.001") "} " OUTPUT("y"));
  for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
    int64_t n = shapes[s][0], width = shapes[s][1];
    dt_tensor_t *in[] = {rig_floats(fixture, 2, shapes[s]), rig_floats(fixture, 1, &width),
                         rig_floats(fixture, 1, &width)};
    for (int64_t row = 0; row < n; row++) {
      double mean = 0, square = 0;
      for (int64_t k = 0; k < width; k++)
        mean += rig_get(in[0], row * width + k) / (double)width;
      for (int64_t k = 0; k < width; k++)
        square += pow(rig_get(in[0], row * width + k) - mean, 2) / (double)width;
      for (int64_t k = 0; k < width; k++)
        values[row * width + k] = (rig_get(in[0], row * width + k) - mean) /
                                      sqrt(square + (double)0.001F) * rig_get(in[1], k) +
                                  rig_get(in[2], k);
    }
    const rig_want_t want[] = {{"LayerNormalization", 2, {n, width}, values, 2e-6}};
    rig_run(fixture, &model, in, 3, want);
  }
  rig_close(&model, 1);
}

static int open_all(void **state) { return fixture_open(state, 1, 9); }

RUN_TESTS_WITH(open_all, fixture_close, TEST(test_softmax), TEST(test_average), TEST(test_lstm),
               TEST(test_layer_norm))
