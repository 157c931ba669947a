// SPDX-License-Identifier: Apache-2.0
// Operators of ONNX that compute element by element or reduce, over dynamic dims: compiled and
// evaluated, against formulas in double; and what is known of sizes, against C.
#include "test/unit/frontends/onnx_rig.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- Models -----------------------------------------------------------------------------------------
#define INTS(name, dims, values)                                                                   \
  "initializer { name '" name "' data_type 7 " dims "int64_data [ " values " ] } "
#define NUMBER(name, value) "initializer { name '" name "' data_type 1 float_data [ " value " ] } "

typedef struct wanted_t {
  const char *what;
  int64_t count;
  const double *values;
  double rtol; // of f32; integers are exact
} wanted_t;

static void expect_values(const dt_tensor_t *got, const wanted_t *want, int64_t at) {
  assert_int_equal(dt_tensor_count(got), want->count);
  for (int64_t k = 0; k < want->count; k++) {
    double a = rig_get(got, k), b = want->values[k], away = fabs(a - b);
    double allowed = dt_tensor_dtype(got) == DT_F32 ? 1e-6 + want->rtol * fabs(b) : 0;
    if (a == b || (float)a == (float)b || (isnan(a) && isnan(b)) || away <= allowed)
      continue;
    fail_msg("%s at size %lld, element %lld: got %.9g, expected %.9g", want->what, (long long)at,
             (long long)k, a, b);
  }
}

// Both functions on the same inputs, against want[0 … n_out-1].
static void run(const fixture_t *fixture, const rig_model_t *model, dt_tensor_t *const *in,
                uint32_t n_in, const wanted_t *want, int64_t at) {
  dt_function_t *const functions[] = {model->compiled, model->evaluated};
  for (int which = 0; which < 2; which++) {
    dt_tensor_t *out[RIG_MOST_OUT] = {0};
    expect_ok(dt_call(fixture->session, functions[which], in, n_in, out, model->n_out, NULL));
    for (uint32_t k = 0; k < model->n_out; k++) {
      expect_values(out[k], &want[k], at);
      dt_tensor_release(out[k]);
    }
  }
}

// ---- Formulas ---------------------------------------------------------------------------------------
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double softplus(double x) { return x > 30 ? x : log1p(exp(x)); }
static double celu(double x) { return x > 0 ? x : 2 * expm1(x / 2); }
static double elu(double x) { return x < 0 ? expm1(x) : x; }
static double gelu(double x) { return x * (1 + erf(x / sqrt(2))) / 2; }
static double clamp(double x, double low, double high) {
  return x < low ? low : x > high ? high : x;
}
static double hard_sigmoid(double x) { return clamp((double)0.2F * x + 0.5, 0, 1); }
static double hard_swish(double x) { return x * clamp(x / 6 + 0.5, 0, 1); }
static double leaky(double x) { return x < 0 ? 0.25 * x : x; }
static double mish(double x) { return x * tanh(softplus(x)); }
static double selu(double x) {
  return (double)1.05070102214813232421875F *
         (x > 0 ? x : (double)1.67326319217681884765625F * expm1(x));
}
static double softsign(double x) { return x / (1 + fabs(x)); }
static double swish(double x) { return x * sigmoid(0.5 * x); }
static double thresholded(double x) { return x > 1 ? x : 0; }
static double shrink(double x) { return x < -0.5 ? x + 0.25 : x > 0.5 ? x - 0.25 : 0; }
static double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
static double is_minus_infinity(double x) { return isinf(x) && x < 0; }
static double is_nan(double x) { return isnan(x); }
static double clip(double x) { return isnan(x) ? x : clamp(x, -1, 2); }
static double reciprocal(double x) { return 1 / x; }

static const struct {
  const char *op, *attributes;
  double (*fn)(double);
} formulas[] = {
    {"Abs", "", fabs},
    {"Ceil", "", ceil},
    {"Celu", REAL("alpha", "2.0"), celu},
    {"Clip", "", clip},
    {"Elu", "", elu},
    {"Floor", "", floor},
    {"Gelu", "", gelu},
    {"HardSigmoid", "", hard_sigmoid},
    {"HardSwish", "", hard_swish},
    {"IsInf", INT("detect_positive", "0"), is_minus_infinity},
    {"IsNaN", "", is_nan},
    {"LeakyRelu", REAL("alpha", "0.25"), leaky},
    {"Mish", "", mish},
    {"Reciprocal", "", reciprocal},
    {"Round", "", rint},
    {"Selu", "", selu},
    {"Shrink", REAL("bias", "0.25"), shrink},
    {"Sigmoid", "", sigmoid},
    {"Sign", "", sign},
    {"Softplus", "", softplus},
    {"Softsign", "", softsign},
    {"Swish", REAL("alpha", "0.5"), swish},
    {"ThresholdedRelu", "", thresholded},
};
enum { N_FORMULAS = sizeof formulas / sizeof formulas[0], MOST_ELEMENTS = 700 };

static dt_tensor_t *hard_tensor(fixture_t *fixture, uint32_t rank, const int64_t *sizes) {
  static const float hard[] = {0.0F, -0.0F, 0.5F, -0.5F, 1.5F, 2.5F, -2.5F, 80.0F, -80.0F};
  dt_tensor_t *made = tensor_f32(&fixture->rng, rank, sizes);
  float *data = dt_tensor_data(made);
  for (int64_t k = 0; k < dt_tensor_count(made); k++)
    data[k] = k % 3 == 0 ? hard[k / 3 % 9] : 4 * data[k];
  return made;
}

static void test_formulas(void **state) {
  fixture_t *fixture = *state;
  static const int64_t shapes[][2] = {{4, 7}, {0, 3}, {1, 1}, {1, 5}, {33, 17}};
  static double values[N_FORMULAS][MOST_ELEMENTS];
  wanted_t want[N_FORMULAS];
  char graph[12288] =
      INPUT("x", "1", OPEN("a") OPEN("b")) NUMBER("low", "-1.0") NUMBER("high", "2.0");
  for (int k = 0; k < N_FORMULAS; k++) {
    size_t used = strlen(graph);
    bool clips = strcmp(formulas[k].op, "Clip") == 0;
    (void)snprintf(graph + used, sizeof graph - used,
                   "node { op_type '%s' input 'x' %s output 'y%d' %s } output { name 'y%d' } ",
                   formulas[k].op, clips ? "input 'low' input 'high'" : "", k,
                   formulas[k].attributes, k);
  }
  rig_model_t model = rig_open_at(fixture, 24, graph);
  for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
    dt_tensor_t *x = hard_tensor(fixture, 2, shapes[s]);
    float *data = dt_tensor_data(x);
    if (dt_tensor_count(x) > 20) {
      data[1] = INFINITY;
      data[2] = -INFINITY;
      data[4] = NAN;
    }
    for (int k = 0; k < N_FORMULAS; k++) {
      for (int64_t i = 0; i < dt_tensor_count(x); i++)
        values[k][i] = formulas[k].fn((double)data[i]);
      want[k] = (wanted_t){formulas[k].op, dt_tensor_count(x), values[k], 2e-6};
    }
    run(fixture, &model, &x, 1, want, shapes[s][0]);
    dt_tensor_release(x);
  }
  rig_close(&model, 1);
}

// ---- Along the middle of three dims -----------------------------------------------------------------
// Each fills y (of rows * columns elements, or of x's) from x[rows][n][columns].
typedef struct block_t {
  int64_t rows, n, columns;
  const float *x;
} block_t;

static double at(const block_t *b, int64_t row, int64_t k, int64_t column) {
  return (double)b->x[(row * b->n + k) * b->columns + column];
}

typedef double (*line_fn_t)(const double *line, int64_t n);

static double line_sum(const double *line, int64_t n) {
  double made = 0;
  for (int64_t k = 0; k < n; k++)
    made += line[k];
  return made;
}
static double line_l1(const double *line, int64_t n) {
  double made = 0;
  for (int64_t k = 0; k < n; k++)
    made += fabs(line[k]);
  return made;
}
static double line_squares(const double *line, int64_t n) {
  double made = 0;
  for (int64_t k = 0; k < n; k++)
    made += line[k] * line[k];
  return made;
}
static double line_l2(const double *line, int64_t n) { return sqrt(line_squares(line, n)); }
static double line_max(const double *line, int64_t n) {
  double made = -INFINITY;
  for (int64_t k = 0; k < n; k++)
    made = fmax(made, line[k]);
  return made;
}
static double line_mean(const double *line, int64_t n) { return line_sum(line, n) / (double)n; }
static double line_log_sum_exp(const double *line, int64_t n) {
  double made = 0;
  for (int64_t k = 0; k < n; k++)
    made += exp(line[k]);
  return log(made);
}
static double line_prod(const double *line, int64_t n) {
  double made = 1;
  for (int64_t k = 0; k < n; k++)
    made *= line[k];
  return made;
}
static double line_last_max(const double *line, int64_t n) {
  int64_t made = 0;
  for (int64_t k = 0; k < n; k++)
    made = line[k] >= line[made] ? k : made;
  return (double)made;
}

static const struct {
  const char *op, *attributes;
  line_fn_t fn;
} lines[] = {
    {"ArgMax", INT("axis", "1") INT("select_last_index", "1") INT("keepdims", "0"), line_last_max},
    {"ReduceL1", "", line_l1},
    {"ReduceL2", "", line_l2},
    {"ReduceLogSumExp", "", line_log_sum_exp},
    {"ReduceMax", "", line_max},
    {"ReduceMean", "", line_mean},
    {"ReduceProd", "", line_prod},
    {"ReduceSum", "", line_sum},
    {"ReduceSumSquare", "", line_squares},
};
enum { N_LINES = sizeof lines / sizeof lines[0] };

// Products of what stands behind each element, and sums of what stands before it.
static void running(const block_t *b, double *products, double *sums) {
  for (int64_t row = 0; row < b->rows; row++)
    for (int64_t column = 0; column < b->columns; column++)
      for (int64_t k = 0; k < b->n; k++) {
        double product = 1, sum = 0;
        for (int64_t i = 0; i < b->n; i++) {
          product *= i > k ? at(b, row, i, column) : 1;
          sum += i <= k ? at(b, row, i, column) : 0;
        }
        products[(row * b->n + k) * b->columns + column] = product;
        sums[(row * b->n + k) * b->columns + column] = sum;
      }
}

static void reduced(const block_t *b, line_fn_t fn, double *out) {
  double line[64];
  for (int64_t row = 0; row < b->rows; row++)
    for (int64_t column = 0; column < b->columns; column++) {
      for (int64_t k = 0; k < b->n; k++)
        line[k] = at(b, row, k, column);
      out[row * b->columns + column] = fn(line, b->n);
    }
}

// Of which sums and products are exact, and of which many are equal.
static dt_tensor_t *simple_tensor(fixture_t *fixture, uint32_t rank, const int64_t *sizes) {
  static const float simple[] = {1.0F, -2.0F, 0.5F, 2.0F, -1.0F, -0.5F, 0.25F};
  dt_tensor_t *made = tensor_f32(&fixture->rng, rank, sizes);
  for (int64_t k = 0; k < dt_tensor_count(made); k++)
    ((float *)dt_tensor_data(made))[k] = simple[rng_between(&fixture->rng, 0, 6)];
  return made;
}

static void check_lines(fixture_t *fixture, const rig_model_t *model, const int64_t *sizes) {
  static double values[N_LINES + 2][MOST_ELEMENTS];
  wanted_t want[N_LINES + 2];
  dt_tensor_t *x = simple_tensor(fixture, 3, sizes);
  const block_t b = {sizes[0], sizes[1], sizes[2], dt_tensor_data(x)};
  for (int k = 0; k < N_LINES; k++) {
    reduced(&b, lines[k].fn, values[k]);
    want[k] = (wanted_t){lines[k].op, sizes[0] * sizes[2], values[k], 1e-5};
  }
  running(&b, values[N_LINES], values[N_LINES + 1]);
  want[N_LINES] = (wanted_t){"CumProd", dt_tensor_count(x), values[N_LINES], 1e-5};
  want[N_LINES + 1] = (wanted_t){"CumSum", dt_tensor_count(x), values[N_LINES + 1], 1e-5};
  run(fixture, model, &x, 1, want, sizes[1]);
  dt_tensor_release(x);
}

static void test_lines(void **state) {
  fixture_t *fixture = *state;
  static const int64_t shapes[][3] = {{2, 5, 3}, {3, 1, 1}, {2, 0, 4}, {0, 4, 2}, {3, 33, 5}};
  char graph[8192] = INPUT("x", "1", OPEN("a") OPEN("b") OPEN("c")) INTS("axes", "dims 1 ", "-2")
      INTS("axis", "", "1");
  for (int k = 0; k < N_LINES; k++) {
    size_t used = strlen(graph);
    bool reduces = strncmp(lines[k].op, "Reduce", 6) == 0;
    (void)snprintf(graph + used, sizeof graph - used,
                   "node { op_type '%s' input 'x' %s output 'y%d' %s } output { name 'y%d' } ",
                   lines[k].op, reduces ? "input 'axes' " INT("keepdims", "0") : "", k,
                   lines[k].attributes, k);
  }
  (void)strcat(graph, "node { op_type 'CumProd' input 'x' input 'axis' output 'p' " INT(
                          "reverse", "1") INT("exclusive", "1") "} " OUTPUT("p"));
  (void)strcat(graph, "node { op_type 'CumSum' input 'x' input 'axis' output 's' } " OUTPUT("s"));
  rig_model_t model = rig_open_at(fixture, 26, graph);
  for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
    check_lines(fixture, &model, shapes[s]);
  rig_close(&model, 1);
}

// Before operator set 13 all dims from the axis on are one.
static void test_flattened_softmax(void **state) {
  fixture_t *fixture = *state;
  rig_model_t model = rig_open_at(
      fixture, 11,
      INPUT("x", "1",
            OPEN("a") OPEN("b")
                OPEN("c")) "node { op_type 'Softmax' input 'x' output 'y' } " OUTPUT("y"));
  for (int64_t n = 0; n < 4; n++) {
    const int64_t sizes[] = {3, n, 2};
    double values[24];
    dt_tensor_t *x = tensor_f32(&fixture->rng, 3, sizes);
    const float *data = dt_tensor_data(x);
    for (int64_t k = 0; k < 6 * n; k++) {
      double sum = 0;
      for (int64_t i = 0; i < 2 * n; i++)
        sum += exp((double)data[k / (2 * n) * 2 * n + i]);
      values[k] = exp((double)data[k]) / sum;
    }
    const wanted_t want = {"Softmax", 6 * n, values, 1e-5};
    run(fixture, &model, &x, 1, &want, n);
    dt_tensor_release(x);
  }
  rig_close(&model, 1);
}

// ---- Quantised --------------------------------------------------------------------------------------
// Scales for each column of x, and for each three rows of it.
static void test_quantised(void **state) {
  fixture_t *fixture = *state;
  rig_model_t model = rig_open_at(
      fixture, 21,
      INPUT("x", "1", OPEN("a") OPEN("b")) INPUT("s", "1", OPEN("b")) INPUT("z", "3", OPEN("b"))
          INPUT("t", "1",
                OPEN("c") OPEN(
                    "b")) "node { op_type 'QuantizeLinear' input 'x' input 's' input 'z' output "
                          "'q' } "
                          "node { op_type 'DequantizeLinear' input 'q' input 's' input 'z' output "
                          "'d' } "
                          "node { op_type 'QuantizeLinear' input 'x' input 't' output 'r' " INT(
                              "axis", "0") INT("block_size", "3")
                              INT("output_dtype", "2") "} " OUTPUT("q") OUTPUT("d") OUTPUT("r"));
  static const int64_t shapes[][3] = {{5, 4, 2}, {3, 1, 1}, {0, 2, 0}, {10, 7, 4}};
  for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
    int64_t a = shapes[k][0], b = shapes[k][1], c = shapes[k][2];
    const int64_t blocks[] = {c, b};
    double q[80], d[80], r[80];
    dt_tensor_t *in[4] = {hard_tensor(fixture, 2, shapes[k]), tensor_f32(&fixture->rng, 1, &b),
                          NULL, tensor_f32(&fixture->rng, 2, blocks)};
    expect_ok(dt_tensor_create_empty(DT_I8, 1, &b, &in[2]));
    float *x = dt_tensor_data(in[0]), *s = dt_tensor_data(in[1]), *t = dt_tensor_data(in[3]);
    int8_t *z = dt_tensor_data(in[2]);
    for (int64_t i = 0; i < b; i++) {
      s[i] = 0.25F + fabsf(s[i]);
      z[i] = (int8_t)(i * 31 - 60);
    }
    for (int64_t i = 0; i < c * b; i++)
      t[i] = 0.125F + fabsf(t[i]);
    for (int64_t i = 0; i < a * b; i++) {
      q[i] = clamp((double)rintf(x[i] / s[i % b]) + z[i % b], -128, 127);
      d[i] = (q[i] - z[i % b]) * (double)s[i % b];
      r[i] = clamp((double)rintf(x[i] / t[i / b / 3 * b + i % b]), 0, 255);
    }
    const wanted_t want[] = {{"q", a * b, q, 0}, {"d", a * b, d, 1e-6}, {"r", a * b, r, 0}};
    run(fixture, &model, in, 4, want, a);
    release_tensors(in, 4);
  }
  rig_close(&model, 1);
}

// One scale for all, and a zero point that is a list of one.
static void test_quantised_as_a_whole(void **state) {
  fixture_t *fixture = *state;
  rig_model_t model = rig_open_at(
      fixture, 21,
      INPUT("x", "1", OPEN("a")) INPUT("s", "1", "") INPUT(
          "z", "3",
          OPEN("one")) "node { op_type 'QuantizeLinear' input 'x' input 's' input 'z' output 'q' } "
                       "node { op_type 'DequantizeLinear' input 'q' input 's' input 'z' output 'd' "
                       "} " OUTPUT("q") OUTPUT("d"));
  static const int64_t one = 1, lengths[] = {5, 1, 0, 9};
  for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
    double q[9], d[9];
    dt_tensor_t *in[3] = {hard_tensor(fixture, 1, &lengths[k]), tensor_full(0.5F, 0, NULL), NULL};
    expect_ok(dt_tensor_create_empty(DT_I8, 1, &one, &in[2]));
    *(int8_t *)dt_tensor_data(in[2]) = -7;
    for (int64_t i = 0; i < lengths[k]; i++) {
      q[i] = clamp((double)rintf(((const float *)dt_tensor_data(in[0]))[i] / 0.5F) - 7, -128, 127);
      d[i] = (q[i] + 7) * 0.5;
    }
    const wanted_t want[] = {{"q", lengths[k], q, 0}, {"d", lengths[k], d, 1e-6}};
    run(fixture, &model, in, 3, want, (int64_t)k);
    release_tensors(in, 3);
  }
  rig_close(&model, 1);
}

// A sum, a product and a concatenation of bytes, and a product of matrices of which the second is
// turned and each column has a scale.
#define BYTE(name, value) "initializer { name '" name "' data_type 2 int32_data [ " value " ] } "
#define QUANTS "input 'a' input 'half' input 'four' input 'b' input 'quarter' input 'nine' "

static double byte_of(double x) { return clamp(rint(x), 0, 255); }

static void test_bytes(void **state) {
  fixture_t *fixture = *state;
  rig_model_t model = rig_open_at(
      fixture, 18,
      INPUT("a", "2", OPEN("m") OPEN("k")) INPUT("b", "2", OPEN("m") OPEN("k")) INPUT(
          "s", "1", OPEN("m")) NUMBER("half", "0.5") NUMBER("quarter", "0.25") NUMBER("one", "1.0")
          BYTE("four", "4") BYTE("nine", "9") BYTE(
              "ten",
              "10") "node { op_type 'QLinearAdd' " MS QUANTS "input 'one' input 'ten' output 'x' } "
                    "node { op_type 'QLinearMul' " MS QUANTS "input 'one' input 'ten' output 'y' } "
                    "node { op_type 'QLinearConcat' " MS "input 'one' input 'ten' " QUANTS
                    "output 'z' " INT(
                        "axis", "-1") "} node { op_type 'QGemm' " MS
                                      "input 'a' input 'half' input 'four' input 'b' input 's' "
                                      "input 'nine' output 'w' " INT("transB", "1") "} " OUTPUT("x")
                                          OUTPUT("y") OUTPUT("z") OUTPUT("w"));
  static const int64_t shapes[][2] = {{3, 4}, {1, 1}, {0, 3}, {5, 9}};
  for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
    int64_t m = shapes[s][0], k = shapes[s][1], count = m * k;
    double x[50], y[50], z[100], w[50] = {0};
    dt_tensor_t *in[3] = {NULL, NULL, tensor_f32(&fixture->rng, 1, &m)};
    for (int i = 0; i < 2; i++)
      expect_ok(dt_tensor_create_empty(DT_U8, 2, shapes[s], &in[i]));
    uint8_t *a = dt_tensor_data(in[0]), *b = dt_tensor_data(in[1]);
    const float *scale = dt_tensor_data(in[2]);
    for (int64_t i = 0; i < count; i++) {
      a[i] = (uint8_t)rng_between(&fixture->rng, 0, 255);
      b[i] = (uint8_t)rng_between(&fixture->rng, 0, 255);
      double left = (a[i] - 4) * 0.5, right = (b[i] - 9) * 0.25;
      x[i] = clamp(rint(left + right) + 10, 0, 255);
      y[i] = clamp(rint(left * right) + 10, 0, 255);
      z[i / k * 2 * k + i % k] = byte_of(rint(left) + 10);
      z[i / k * 2 * k + k + i % k] = byte_of(rint(right) + 10);
    }
    for (int64_t i = 0; i < m * m * k; i++)
      w[i / k] += (a[i / k / m * k + i % k] - 4) * (b[i / k % m * k + i % k] - 9) * 0.5 *
                  (double)scale[i / k % m];
    const wanted_t want[] = {{"QLinearAdd", count, x, 0},
                             {"QLinearMul", count, y, 0},
                             {"QLinearConcat", 2 * count, z, 0},
                             {"QGemm", m * m, w, 1e-5}};
    run(fixture, &model, in, 3, want, m);
    release_tensors(in, 3);
  }
  rig_close(&model, 1);
}

// ---- Losses -----------------------------------------------------------------------------------------
static void test_loss(void **state) {
  fixture_t *fixture = *state;
  rig_model_t model = rig_open_at(
      fixture, 13,
      INPUT("x", "1", OPEN("n") OPEN("c") OPEN("d")) INPUT("t", "7", OPEN("n") OPEN("d"))
          INPUT("w", "1",
                OPEN("c")) "node { op_type 'NegativeLogLikelihoodLoss' input 'x' input 't' "
                           "input 'w' output 'y' " INT("ignore_index", "-100") "} " OUTPUT("y"));
  for (int64_t n = 1; n < 6; n++) {
    const int64_t sizes[] = {n, 4, 3}, targets[] = {n, 3}, classes = 4;
    int64_t index[18];
    dt_tensor_t *x = tensor_f32(&fixture->rng, 3, sizes), *w = tensor_full(0.5F, 1, &classes);
    const float *data = dt_tensor_data(x);
    ((float *)dt_tensor_data(w))[2] = 2.0F;
    double sum = 0, weight = 0;
    for (int64_t k = 0; k < 3 * n; k++) {
      index[k] = k % 5 == 4 ? -100 : k % 5;
      double each = index[k] < 0 ? 0 : index[k] == 2 ? 2 : 0.5;
      weight += each;
      sum -= each == 0 ? 0 : each * (double)data[(k / 3 * 4 + index[k]) * 3 + k % 3];
    }
    double value = sum / weight;
    const wanted_t want = {"loss", 1, &value, 1e-5};
    dt_tensor_t *in[] = {x, tensor_i64(2, targets, index), w};
    run(fixture, &model, in, 3, &want, n);
    release_tensors(in, 3);
  }
  rig_close(&model, 1);
}

// ---- Numbers ----------------------------------------------------------------------------------------
// What is computed of the sizes a and b of the input, in i64.
#define NODE1(op, x, y, more) "node { op_type '" op "' input '" x "' output '" y "' " more "} "
#define NODE2(op, a, b, y) "node { op_type '" op "' input '" a "' input '" b "' output '" y "' } "
#define FLOATS(x, y) NODE1("Cast", x, y, INT("to", "1"))
#define WHOLE(x) NODE1("Cast", x, "y", INT("to", "7"))

static int64_t half(int64_t a, int64_t b) { return b * 0 + a / 2; }
static int64_t quarters(int64_t a, int64_t b) { return b * 0 + (a + 3) / 4; }
static int64_t half_even(int64_t a, int64_t b) { return (int64_t)rint((double)a / 2) + 0 * b; }
static int64_t collatz(int64_t a, int64_t b) { return 0 * b + (a % 2 == 0 ? a / 2 : 3 * a + 1); }
static int64_t distance(int64_t a, int64_t b) {
  return (a < b ? a : b) + 2 * (a < b ? b : a) - (a < b ? b - a : a - b);
}
static int64_t product(int64_t a, int64_t b) { return a * b + a + b + (a > b ? a : b); }
static int64_t not_less(int64_t a, int64_t b) { return a >= b && a != 3; }
static int64_t mixed(int64_t a, int64_t b) { return (int64_t)((double)a / 4 + 0.75) + 0 * b; }
static int64_t signs(int64_t a, int64_t b) {
  int64_t x = a - 5;
  return x / 2 + (x % 3 + 3) % 3 * 100 + b * b;
}
static int64_t chosen(int64_t a, int64_t b) { return (double)a * 0.5 > 2.0 ? a / 2 : b; }

static int64_t clipped(int64_t a, int64_t b) { return a < 2 ? 2 : a > b ? b : a; }

static const struct {
  const char *what, *nodes;
  int64_t (*fn)(int64_t a, int64_t b);
} numbers[] = {
    {"floor(a / 2)",
     FLOATS("a", "f") NODE2("Mul", "f", "0.5", "g") NODE1("Floor", "g", "h", "") WHOLE("h"), half},
    {"ceil(a / 4)",
     FLOATS("a", "f") NODE2("Div", "f", "4.0", "g") NODE1("Ceil", "g", "h", "") WHOLE("h"),
     quarters},
    {"round(a / 2)",
     FLOATS("a", "f") NODE2("Mul", "f", "0.5", "g") NODE1("Round", "g", "h", "") WHOLE("h"),
     half_even},
    {"a is even",
     NODE2("Mod", "a", "2", "r") NODE2("Equal", "r", "0", "e") NODE2("Div", "a", "2", "d")
         NODE2("Mul", "a", "3", "m")
             NODE2("Add", "m", "1", "p") "node { op_type 'Where' input 'e' input 'd' "
                                         "input 'p' output 'y' } ",
     collatz},
    {"min, max, abs",
     NODE2("Min", "a", "b", "low") NODE2("Max", "a", "b", "high") NODE2("Mul", "high", "2", "m")
         NODE2("Sub", "a", "b", "d") NODE1("Abs", "d", "e", "") NODE2("Add", "low", "m", "s")
             NODE2("Sub", "s", "e", "y"),
     distance},
    {"reductions",
     NODE1("ReduceProd", "ab", "p", INT("keepdims", "0"))
         NODE1("ReduceSum", "ab", "q", INT("keepdims", "0"))
             NODE1("ReduceMax", "ab", "m",
                   INT("keepdims",
                       "0")) "node { op_type 'Sum' input 'p' input 'q' input 'm' output 'y' } ",
     product},
    {"logic",
     NODE2("Less", "a", "b", "l") NODE1("Not", "l", "n", "") NODE2("Equal", "a", "3", "e")
         NODE2("Xor", "n", "e", "o") NODE2("And", "o", "n", "t") WHOLE("t"),
     not_less},
    {"a / 4 + 0.75",
     FLOATS("a", "f") NODE2("Div", "f", "4.0", "g") NODE2("Add", "g", "0.75", "h") WHOLE("h"),
     mixed},
    {"clip", "node { op_type 'Clip' input 'a' input '2' input 'b' output 'y' } ", clipped},
    {"signs",
     NODE2("Sub", "a", "5", "t") NODE2("Div", "t", "2", "d") NODE2("Mod", "t", "3", "r")
         NODE2("Mul", "r", "100", "m") NODE2("Pow", "b", "2", "q") NODE2("Add", "d", "m", "e")
             NODE2("Add", "e", "q", "y"),
     signs},
    {"floats compared",
     FLOATS("a", "f") NODE2("Mul", "f", "0.5", "g") NODE2("Greater", "g", "2.0", "c")
         NODE1("Floor", "g", "h", "")
             FLOATS("b", "k") "node { op_type 'Where' "
                              "input 'c' input 'h' input 'k' output 'w' } " WHOLE("w"),
     chosen},
};

static const char literals[] =
    INTS("0", "", "0") INTS("1", "", "1") INTS("2", "", "2") INTS("3", "", "3") INTS("5", "", "5")
        INTS("100", "", "100") NUMBER("0.5", "0.5") NUMBER("4.0", "4.0") NUMBER("0.75", "0.75")
            NUMBER("2.0", "2.0") INPUT("x", "1", OPEN("m") OPEN("n")) NODE1("Shape", "x", "ab", "")
                NODE2("Gather", "ab", "0", "a") NODE2("Gather", "ab", "1", "b");

// One variant serves all sizes, and nothing is left to be read from data: a size is made of each.
static void check_numbers(fixture_t *fixture, size_t which) {
  char graph[4096];
  (void)snprintf(graph, sizeof graph, "%s%s%s", literals, numbers[which].nodes,
                 NODE2("Max", "y", "0", "u") NODE2("Unsqueeze", "u", "axes", "v")
                     NODE1("ConstantOfShape", "v", "z", "") OUTPUT("y") OUTPUT("z")
                         INTS("axes", "dims 1 ", "0"));
  rig_model_t model = rig_open_at(fixture, 18, graph);
  for (int64_t a = 11; a >= 0; a--) {
    const int64_t sizes[] = {a, 6}, size = numbers[which].fn(a, 6);
    static const double zeros[512] = {0};
    dt_tensor_t *x = tensor_f32(&fixture->rng, 2, sizes);
    double value = (double)size;
    const wanted_t want[] = {{numbers[which].what, 1, &value, 0},
                             {numbers[which].what, size > 0 ? size : 0, zeros, 0}};
    run(fixture, &model, &x, 1, want, a);
    dt_tensor_release(x);
  }
  if (compiled_answer() == DT_ANSWER_COMPILED)
    assert_int_equal(variants_of(model.compiled), 1);
  rig_close(&model, 1);
}

static void test_numbers(void **state) {
  for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++)
    check_numbers(*state, k);
}

// The same in i8, which wraps where sizes leave it.
static void test_narrow_numbers(void **state) {
  static const struct {
    const char *what, *nodes;
    int64_t times, plus;
  } cases[] = {
      {"a * 20 in i8", NODE2("Mul", "n", "twenty", "z"), 20, 0},
      {"a + 120 in i8", NODE2("Add", "n", "many", "z"), 1, 120},
      {"-120 - a in i8", NODE1("Neg", "many", "l", "") NODE2("Sub", "l", "n", "z"), -1, -120},
      {"a * 20 * 20 in i8", NODE2("Mul", "n", "twenty", "m") NODE2("Mul", "m", "twenty", "z"), 400,
       0},
  };
  for (size_t which = 0; which < sizeof cases / sizeof cases[0]; which++) {
    char graph[4096];
    (void)snprintf(
        graph, sizeof graph, "%s%s%s%s", literals,
        INTS("120", "", "120") INTS("20", "", "20") NODE1("Cast", "20", "twenty", INT("to", "3"))
            NODE1("Cast", "120", "many", INT("to", "3")) NODE1("Cast", "a", "n", INT("to", "3")),
        cases[which].nodes, WHOLE("z") OUTPUT("y"));
    rig_model_t model = rig_open_at(*state, 18, graph);
    for (int64_t turn = 0; turn < 24; turn++) {
      int64_t a = turn * 7 % 12, sizes[] = {a, 6};
      double value = (double)(int8_t)(a * cases[which].times + cases[which].plus);
      dt_tensor_t *x = tensor_f32(&((fixture_t *)*state)->rng, 2, sizes);
      const wanted_t want = {cases[which].what, 1, &value, 0};
      run(*state, &model, &x, 1, &want, a);
      dt_tensor_release(x);
    }
    rig_close(&model, 4);
  }
}

// The format packs a tensor as one row: of [3, 3] in I4, the second row begins in the second byte.
static void test_packed_rows(void **state) {
  rig_model_t model = rig_open_at(
      *state, 25,
      INPUT("x", "1",
            OPEN("m")) "initializer { name 'w' data_type 22 dims 3 dims 3 int32_data [ 33 67 101 "
                       "135 9 ] } "
                       "initializer { name 'v' data_type 26 dims 5 int32_data [ 228 1 ] } " NODE1(
                           "Cast", "w", "wide", INT("to", "1"))
                           NODE1("Cast", "v", "v_wide", INT("to", "1"))
                               NODE2("Add", "wide", "x", "y") NODE2("Add", "v_wide", "x", "z")
                                   OUTPUT("y") OUTPUT("z"));
  static const double w[] = {1, 2, 3, 4, 5, 6, 7, -8, -7}, v[] = {0, 1, -2, -1, 1};
  int64_t one = 1;
  dt_tensor_t *x = tensor_full(0.0F, 1, &one);
  const wanted_t want[] = {{"rows of three i4", 9, w, 0}, {"five i2", 5, v, 0}};
  run(*state, &model, &x, 1, want, 1);
  dt_tensor_release(x);
  rig_close(&model, 1);
}

// An i64 that an f64 does not hold becomes the nearest f32, not the nearest of the nearest f64.
static void test_rounded_once(void **state) {
  rig_model_t model = rig_open_at(*state, 18,
                                  INPUT("x", "1", OPEN("m")) INTS("big", "", "9007199791611905")
                                      FLOATS("big", "f") NODE2("Add", "f", "x", "y") OUTPUT("y"));
  int64_t one = 1;
  double value = (double)(float)INT64_C(9007199791611905);
  dt_tensor_t *x = tensor_full(0.0F, 1, &one);
  const wanted_t want = {"2^53 + 2^29 + 1 as a float", 1, &value, 0};
  run(*state, &model, &x, 1, &want, 1);
  dt_tensor_release(x);
  rig_close(&model, 1);
}

static int open_all(void **state) { return fixture_open(state, 1, 7); }

RUN_TESTS_WITH(open_all, fixture_close, TEST(test_formulas), TEST(test_lines),
               TEST(test_flattened_softmax), TEST(test_quantised), TEST(test_quantised_as_a_whole),
               TEST(test_bytes), TEST(test_loss), TEST(test_numbers), TEST(test_narrow_numbers),
               TEST(test_rounded_once), TEST(test_packed_rows))
