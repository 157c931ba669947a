// SPDX-License-Identifier: Apache-2.0
// Fused operators of com.microsoft over dynamic dims: compiled and evaluated, against formulas in
// double. Attention: test_onnx_ops_mha.c and test_onnx_ops_gqa.c. onnxruntime 1.32.0 was asked
// about all but BiasSplitGelu, which it has on GPUs only, and Gelu, and answers alike.
#include "test/unit/frontends/onnx_rig.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 2048 };

static const int64_t shapes[][2] = {{2, 5}, {1, 1}, {3, 7}, {0, 4}, {4, 2}};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

// ---- Activations ------------------------------------------------------------------------------------
static double gelu(double x) { return x * (1 + erf(x / sqrt(2))) / 2; }

// The first half of the last dim times the gelu of the second.
static void test_split_gelu(void **state) {
  fixture_t *fixture = *state;
  static const int64_t widths[] = {5, 1, 8, 3, 2};
  static double biased[MOST], plain[MOST];
  rig_model_t model = rig_open(
      fixture, INPUT("x", "1", OPEN("b") OPEN("s") OPEN("w"))
                   INPUT("c", "1", OPEN("w")) "node { op_type 'BiasSplitGelu' " MS
                                              "input 'x' input 'c' output 'y' } "
                                              "node { op_type 'BiasSplitGelu' " MS
                                              "input 'x' output 'z' } " OUTPUT("y") OUTPUT("z"));
  for (size_t s = 0; s < N_SHAPES; s++) {
    int64_t b = shapes[s][0], l = shapes[s][1], half = widths[s], width = 2 * half;
    const int64_t sizes[] = {b, l, width};
    dt_tensor_t *in[] = {rig_floats(fixture, 3, sizes), rig_floats(fixture, 1, &width)};
    for (int64_t k = 0; k < b * l * half; k++) {
      int64_t at = k / half * width + k % half;
      double left = rig_get(in[0], at), right = rig_get(in[0], at + half);
      plain[k] = left * gelu(right);
      biased[k] = (left + rig_get(in[1], k % half)) * gelu(right + rig_get(in[1], k % half + half));
    }
    const rig_want_t want[] = {{"BiasSplitGelu", 3, {b, l, half}, biased, 2e-6},
                               {"without a bias", 3, {b, l, half}, plain, 2e-6}};
    rig_run(fixture, &model, in, 2, want);
  }
  rig_close(&model, 1);
}

// Of x plus a vector, and of x.
static void test_gelus(void **state) {
  fixture_t *fixture = *state;
  static double values[4][MOST];
  rig_model_t model = rig_open(
      fixture,
      INPUT("x", "1", OPEN("b") OPEN("s") OPEN("w")) INPUT(
          "c", "1", OPEN("w")) "node { op_type 'BiasGelu' " MS "input 'x' input 'c' output 'p' } "
                               "node { op_type 'FastGelu' " MS "input 'x' input 'c' output 'q' } "
                               "node { op_type 'QuickGelu' " MS "input 'x' output 'r' " REAL(
                                   "alpha", "0.75") "} node { op_type 'Gelu' " MS
                                                    "input 'x' output 's' } " OUTPUT("p")
                                                        OUTPUT("q") OUTPUT("r") OUTPUT("s"));
  for (size_t s = 0; s < N_SHAPES; s++) {
    int64_t b = shapes[s][0], l = shapes[s][1], width = (int64_t)s + 1;
    const int64_t sizes[] = {b, l, width};
    dt_tensor_t *in[] = {rig_floats(fixture, 3, sizes), rig_floats(fixture, 1, &width)};
    for (int64_t k = 0; k < b * l * width; k++) {
      double x = 4 * rig_get(in[0], k), y = x + rig_get(in[1], k % width);
      rig_put(in[0], k, x);
      values[0][k] = gelu(y);
      values[1][k] = y * (1 + tanh(sqrt(2 / acos(-1)) * (y + 0.044715 * y * y * y))) / 2;
      values[2][k] = x / (1 + exp(-0.75 * x));
      values[3][k] = gelu(x);
    }
    rig_want_t want[4];
    static const char *const names[] = {"BiasGelu", "FastGelu", "QuickGelu", "Gelu"};
    for (int k = 0; k < 4; k++)
      want[k] = (rig_want_t){names[k], 3, {b, l, width}, values[k], 2e-6};
    rig_run(fixture, &model, in, 2, want);
  }
  rig_close(&model, 1);
}

// ---- Normalisation ----------------------------------------------------------------------------------
// n elements of a row; beta may be NULL.
static void normalise(const double *x, int64_t n, bool centred, const dt_tensor_t *scale,
                      const dt_tensor_t *beta, double *out) {
  double mean = 0, square = 0;
  for (int64_t k = 0; k < n && centred; k++)
    mean += x[k] / (double)n;
  for (int64_t k = 0; k < n; k++)
    square += (x[k] - mean) * (x[k] - mean) / (double)n;
  for (int64_t k = 0; k < n; k++)
    out[k] =
        (x[k] - mean) / sqrt(square + 1e-3) * rig_get(scale, k) + (beta ? rig_get(beta, k) : 0);
}

// What is added to x: one more for each element, one for all batches, or that without their dim.
static const struct {
  const char *name, *op, *dims;
  bool centred, beta, bias;
  uint32_t rank;
  int64_t batches; // 0: as many as x
} skips[] = {
    {"both", "SkipLayerNormalization", OPEN("b") OPEN("s"), true, true, true, 3, 0},
    {"no bias", "SkipLayerNormalization", OPEN("b") OPEN("s"), true, true, false, 3, 0},
    {"no beta", "SkipLayerNormalization", OPEN("b") OPEN("s"), true, false, true, 3, 0},
    {"one batch", "SkipLayerNormalization", SIZE(1) OPEN("s"), true, true, false, 3, 1},
    {"no batch", "SkipLayerNormalization", OPEN("s"), true, true, true, 2, 1},
    {"simplified", "SkipSimplifiedLayerNormalization", OPEN("b") OPEN("s"), false, false, false, 3,
     0},
    {"simplified, bias", "SkipSimplifiedLayerNormalization", OPEN("b") OPEN("s"), false, false,
     true, 3, 0},
};

static void check_skip(fixture_t *fixture, size_t which) {
  static double sums[MOST], values[MOST];
  char graph[2048], beta[32] = "";
  bool has_beta = skips[which].beta, has_bias = skips[which].bias;
  if (skips[which].centred) // its fourth input, which the simplified one has not
    (void)snprintf(beta, sizeof beta, "input '%s'", has_beta ? "beta" : "");
  (void)snprintf(graph, sizeof graph,
                 INPUT("x", "1", OPEN("b") OPEN("s") SIZE(6)) INPUT("skip", "1", "%s" SIZE(6))
                     INPUT("g", "1", SIZE(6)) "%s%s node { op_type '%s' " MS REAL(
                         "epsilon", "1e-3") "input 'x' input 'skip' input 'g' %s input '%s' output "
                                            "'y' output '' output '' "
                                            "output 'sum' } " OUTPUT("y") OUTPUT("sum"),
                 skips[which].dims, has_beta ? INPUT("beta", "1", SIZE(6)) : "",
                 has_bias ? INPUT("bias", "1", SIZE(6)) : "", skips[which].op, beta,
                 has_bias ? "bias" : "");
  rig_model_t model = rig_open(fixture, graph);
  for (size_t s = 0; s < N_SHAPES; s++) {
    int64_t b = shapes[s][0], l = shapes[s][1], n = 6;
    const int64_t x[] = {b, l, n}, skip[] = {skips[which].batches ? 1 : b, l, n};
    dt_tensor_t *in[] = {rig_floats(fixture, 3, x),
                         rig_floats(fixture, skips[which].rank, skip + 3 - skips[which].rank),
                         rig_floats(fixture, 1, &n), has_beta ? rig_floats(fixture, 1, &n) : NULL,
                         has_bias ? rig_floats(fixture, 1, &n) : NULL};
    for (int64_t k = 0; k < b * l * n; k++)
      sums[k] = rig_get(in[0], k) + rig_get(in[1], skips[which].batches ? k % (l * n) : k) +
                (has_bias ? rig_get(in[4], k % n) : 0);
    for (int64_t row = 0; row < b * l; row++)
      normalise(sums + row * n, n, skips[which].centred, in[2], in[3], values + row * n);
    const rig_want_t want[] = {{skips[which].name, 3, {b, l, n}, values, 5e-6},
                               {skips[which].name, 3, {b, l, n}, sums, 1e-6}};
    rig_run(fixture, &model, in, 5, want);
  }
  rig_close(&model, 1);
}

static void test_skips(void **state) {
  for (size_t k = 0; k < sizeof skips / sizeof skips[0]; k++)
    check_skip(*state, k);
}

// Words, places and kinds are rows of tables; the mask's sums are lengths.
static void test_embedding(void **state) {
  fixture_t *fixture = *state;
  static double sums[MOST], values[MOST], lengths[8];
  rig_model_t model = rig_open(
      fixture,
      INPUT("ids", "6", OPEN("b") OPEN("s")) INPUT("kinds", "6", OPEN("b") OPEN("s"))
          INPUT("w", "1", SIZE(9) SIZE(6)) INPUT("p", "1", SIZE(12) SIZE(6)) INPUT(
              "t", "1", SIZE(2) SIZE(6)) INPUT("g", "1", SIZE(6)) INPUT("c", "1", SIZE(6))
              INPUT("m", "6", OPEN("b") OPEN("s")) "node { op_type 'EmbedLayerNormalization' " MS
                  REAL("epsilon", "1e-3") "input 'ids' input 'kinds' input 'w' input 'p' input 't' "
                                          "input 'g' input 'c' input 'm' "
                                          "output 'y' output 'n' output 'x' } " OUTPUT("y")
                                              OUTPUT("n") OUTPUT("x"));
  for (size_t s = 0; s < N_SHAPES; s++) {
    int64_t b = shapes[s][0], l = shapes[s][1], n = 6;
    dt_tensor_t *in[] = {rig_integers(fixture, DT_I32, 0, 8, 2, shapes[s]),
                         rig_integers(fixture, DT_I32, 0, 1, 2, shapes[s]),
                         rig_floats(fixture, 2, (const int64_t[]){9, 6}),
                         rig_floats(fixture, 2, (const int64_t[]){12, 6}),
                         rig_floats(fixture, 2, (const int64_t[]){2, 6}),
                         rig_floats(fixture, 1, &n),
                         rig_floats(fixture, 1, &n),
                         rig_integers(fixture, DT_I32, 0, 1, 2, shapes[s])};
    memset(lengths, 0, sizeof lengths);
    for (int64_t row = 0; row < b * l; row++) {
      int64_t word = (int64_t)rig_get(in[0], row), kind = (int64_t)rig_get(in[1], row);
      for (int64_t k = 0; k < n; k++)
        sums[row * n + k] = rig_get(in[2], word * n + k) + rig_get(in[3], row % l * n + k) +
                            rig_get(in[4], kind * n + k);
      normalise(sums + row * n, n, true, in[5], in[6], values + row * n);
      lengths[row / l] += rig_get(in[7], row);
    }
    const rig_want_t want[] = {{"embedded", 3, {b, l, n}, values, 5e-6},
                               {"lengths", 1, {b}, lengths, 0},
                               {"sums", 3, {b, l, n}, sums, 1e-6}};
    rig_run(fixture, &model, in, 8, want);
  }
  rig_close(&model, 1);
}

// ---- Products ---------------------------------------------------------------------------------------
static double relu(double x) { return fmax(x, 0); }
static double leaky(double x) { return x < 0 ? 0.25 * x : x; }
static double clip(double x) { return fmin(fmax(x, -0.5), 0.75); }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double hard_sigmoid(double x) { return fmin(fmax(0.5 * x + 0.25, 0), 1); }
static double hard_swish(double x) { return x * fmin(fmax(x / 6 + 0.5, 0), 1); }
static double same(double x) { return x; }

static const struct {
  const char *name, *params;
  double (*fn)(double);
  bool added;
} activations[] = {
    {"Relu", "", relu, false},
    {"LeakyRelu", REALS("activation_params", "0.25"), leaky, true},
    {"Clip", REALS("activation_params", "-0.5 0.75"), clip, false},
    {"Tanh", "", tanh, true},
    {"Sigmoid", "", sigmoid, false},
    {"HardSigmoid", REALS("activation_params", "0.5 0.25"), hard_sigmoid, true},
    {"HardSwish", "", hard_swish, true},
    {"", "", same, true},
};

// A convolution of 2 channels into 3 by windows of 3 x 3, what is added to it, and its activation.
static void convolve(dt_tensor_t *const *in, int64_t b, int64_t h, int64_t w, double (*fn)(double),
                     double *out) {
  for (int64_t k = 0; k < b * 3 * h * w; k++) {
    int64_t x = k % w, y = k / w % h, c = k / w / h % 3, batch = k / w / h / 3;
    double sum = rig_get(in[2], c) + (in[3] ? rig_get(in[3], k) : 0);
    for (int64_t at = 0; at < 18; at++) {
      int64_t from = at / 9, row = y + at / 3 % 3, column = x + at % 3;
      sum += rig_get(in[0], ((batch * 2 + from) * (h + 2) + row) * (w + 2) + column) *
             rig_get(in[1], c * 18 + at);
    }
    out[k] = fn(sum);
  }
}

static void check_convolution(fixture_t *fixture, size_t which) {
  static const int64_t sets[][3] = {{2, 4, 3}, {1, 1, 1}, {3, 2, 6}};
  static double values[MOST];
  char graph[2048];
  bool added = activations[which].added;
  (void)snprintf(graph, sizeof graph,
                 INPUT("x", "1", OPEN("b") SIZE(2) OPEN("h") OPEN("w"))
                     INPUT("k", "1", SIZE(3) SIZE(2) SIZE(3) SIZE(3))
                         INPUT("c", "1", SIZE(3)) "%s node { op_type 'FusedConv' " MS TEXT(
                             "activation",
                             "%s") "%s input 'x' input 'k' input 'c' %s output 'y' } " OUTPUT("y"),
                 added ? INPUT("z", "1", OPEN("b") SIZE(3) OPEN("oh") OPEN("ow")) : "",
                 activations[which].name, activations[which].params, added ? "input 'z'" : "");
  rig_model_t model = rig_open(fixture, graph);
  for (size_t s = 0; s < sizeof sets / sizeof sets[0]; s++) {
    int64_t b = sets[s][0], h = sets[s][1], w = sets[s][2], c = 3;
    const int64_t x[] = {b, 2, h + 2, w + 2}, k[] = {3, 2, 3, 3}, z[] = {b, 3, h, w};
    dt_tensor_t *in[] = {rig_floats(fixture, 4, x), rig_floats(fixture, 4, k),
                         rig_floats(fixture, 1, &c), added ? rig_floats(fixture, 4, z) : NULL};
    convolve(in, b, h, w, activations[which].fn, values);
    const rig_want_t want = {activations[which].name, 4, {b, 3, h, w}, values, 1e-5};
    rig_run(fixture, &model, in, 4, &want);
  }
  rig_close(&model, 1);
}

static void test_convolutions(void **state) {
  for (size_t k = 0; k < sizeof activations / sizeof activations[0]; k++)
    check_convolution(*state, k);
}

// Strides of [batch, rows, columns] as an operand is given: its last two dims swapped, and its
// batch in front of its last dim.
static void strides_of(const int64_t sizes[3], bool swap, bool batch, int64_t given[3],
                       int64_t out[3]) {
  const int inner[] = {0, swap ? 2 : 1, swap ? 1 : 2};
  const int order[] = {batch ? inner[1] : 0, batch ? 0 : inner[1], inner[2]};
  for (int k = 0; k < 3; k++)
    given[k] = sizes[order[k]];
  for (int k = 0; k < 3; k++)
    out[order[k]] = k == 0 ? given[1] * given[2] : k == 1 ? given[2] : 1;
}

// The dims of an operand, named by what they are.
static void name_dims(const char *names, bool swap, bool batch, char out[128]) {
  int64_t order[3], strides[3];
  strides_of((const int64_t[]){0, 1, 2}, swap, batch, order, strides);
  (void)snprintf(out, 128, OPEN("%c") OPEN("%c") OPEN("%c"), names[order[0]], names[order[1]],
                 names[order[2]]);
}

static void check_product(fixture_t *fixture, int flags) {
  static const int64_t sets[][4] = {{2, 3, 4, 5}, {1, 1, 6, 2}, {3, 2, 1, 7}, {2, 5, 3, 1}};
  bool ta = flags & 1, tb = flags & 2, ba = flags & 4, bb = flags & 8;
  static double values[MOST];
  char graph[2048], left[128], right[128];
  name_dims("brd", ta, ba, left);
  name_dims("bdc", tb, bb, right);
  (void)snprintf(graph, sizeof graph,
                 INPUT("a", "1", "%s")
                     INPUT("b", "1", "%s") "node { op_type 'FusedMatMul' " MS INT("transA", "%d")
                         INT("transB", "%d") INT("transBatchA", "%d") INT("transBatchB", "%d")
                             REAL("alpha", "0.5") "input 'a' input 'b' output 'y' } " OUTPUT("y"),
                 left, right, ta, tb, ba, bb);
  rig_model_t model = rig_open(fixture, graph);
  for (size_t s = 0; s < sizeof sets / sizeof sets[0]; s++) {
    int64_t n = sets[s][0], rows = sets[s][1], depth = sets[s][2], columns = sets[s][3];
    int64_t a[3], b[3], sa[3], sb[3];
    strides_of((const int64_t[]){n, rows, depth}, ta, ba, a, sa);
    strides_of((const int64_t[]){n, depth, columns}, tb, bb, b, sb);
    dt_tensor_t *in[] = {rig_floats(fixture, 3, a), rig_floats(fixture, 3, b)};
    for (int64_t k = 0; k < n * rows * columns; k++) {
      int64_t column = k % columns, row = k / columns % rows, batch = k / columns / rows;
      values[k] = 0;
      for (int64_t i = 0; i < depth; i++)
        values[k] += 0.5 * rig_get(in[0], batch * sa[0] + row * sa[1] + i * sa[2]) *
                     rig_get(in[1], batch * sb[0] + i * sb[1] + column * sb[2]);
    }
    char what[64];
    (void)snprintf(what, sizeof what, "FusedMatMul %d", flags);
    const rig_want_t want = {what, 3, {n, rows, columns}, values, 1e-5};
    rig_run(fixture, &model, in, 2, &want);
  }
  rig_close(&model, 1);
}

static void test_products(void **state) {
  for (int flags = 0; flags < 16; flags++)
    check_product(*state, flags);
}

static int open_all(void **state) { return fixture_open(state, 1, 7); }

RUN_TESTS_WITH(open_all, fixture_close, TEST(test_split_gelu), TEST(test_gelus), TEST(test_skips),
               TEST(test_embedding), TEST(test_convolutions), TEST(test_products))
