// SPDX-License-Identifier: Apache-2.0
// Products of com.microsoft with weights of few bits or of integers, and its rotation, over dynamic
// dims: compiled and evaluated, against formulas in double. onnxruntime 1.32.0 answers alike where
// it takes the form: zero points in floats it refuses for 8 bits.
#include "test/unit/frontends/onnx_rig.h"

#include <math.h>
#include <stdio.h>

enum { MOST = 2048, ROWS = 5, BLOCK = 16 }; // rows of the weights

static const int64_t shapes[][2] = {{2, 3}, {1, 1}, {3, 5}, {0, 2}};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

// ---- Weights of 2, 4 and 8 bits ---------------------------------------------------------------------
typedef enum zeros_t { MIDDLE, BYTES, FLOATS } zeros_t; // where none are given: half of the range

typedef struct weights_t {
  int bits, depth, blocks; // a block is 16 values of a row
  zeros_t zeros;
  bool bias;
} weights_t;

enum { A, B, SCALES, ZEROS, BIAS, N_IN };

// Value `k` of a row of `bytes` bytes, the lowest bits first.
static double bits_at(const dt_tensor_t *tensor, int64_t row, int64_t bytes, int64_t k, int bits) {
  int64_t each = 8 / bits, byte = (int64_t)rig_get(tensor, row * bytes + k / each);
  return (double)(byte >> (k % each * bits) & ((1 << bits) - 1));
}

static double weight(const weights_t *w, dt_tensor_t *const *in, int64_t row, int64_t k) {
  int64_t block = row * w->blocks + k / BLOCK, bytes = (int64_t)w->blocks * BLOCK * w->bits / 8;
  int64_t zero_bytes = ((int64_t)w->blocks * w->bits + 7) / 8;
  double zero = w->zeros == MIDDLE   ? 1 << (w->bits - 1)
                : w->zeros == FLOATS ? rig_get(in[ZEROS], block)
                                     : bits_at(in[ZEROS], row, zero_bytes, k / BLOCK, w->bits);
  return (bits_at(in[B], row, bytes, k, w->bits) - zero) * rig_get(in[SCALES], block);
}

static void check_bits(fixture_t *fixture, const weights_t *w) {
  static double values[MOST];
  const int64_t blob = BLOCK * w->bits / 8, scales = ROWS * w->blocks, rows = ROWS;
  const int64_t packed[] = {ROWS, w->blocks, blob};
  const int64_t zeros = ROWS * (((int64_t)w->blocks * w->bits + 7) / 8);
  char graph[2048], what[64], zero_dims[96] = "";
  (void)snprintf(what, sizeof what, "%d bits, depth %d, zeros %d", w->bits, w->depth, w->zeros);
  if (w->zeros)
    (void)snprintf(zero_dims, sizeof zero_dims, INPUT("z", "%d", "dim { dim_value %d } "),
                   w->zeros == BYTES ? 2 : 1, (int)(w->zeros == BYTES ? zeros : scales));
  (void)snprintf(
      graph, sizeof graph,
      INPUT("a", "1", OPEN("b") OPEN("s") "dim { dim_value %d } ")
          INPUT("w", "2", SIZE(5) "dim { dim_value %d } dim { dim_value %d } ")
              INPUT("k", "1",
                    "dim { dim_value %d } ") "%s%s node { op_type "
                                             "'MatMulNBits' " MS INT("K", "%d") INT("N", "5")
                                                 INT("bits", "%d") INT(
                                                     "block_size",
                                                     "16") "input 'a' input 'w' input 'k' input "
                                                           "'%s' input '' "
                                                           "input '%s' output 'y' } " OUTPUT("y"),
      w->depth, w->blocks, (int)blob, (int)scales, zero_dims,
      w->bias ? INPUT("c", "1", SIZE(5)) : "", w->depth, w->bits, w->zeros ? "z" : "",
      w->bias ? "c" : "");
  rig_model_t model = rig_open(fixture, graph);
  for (size_t s = 0; s < N_SHAPES; s++) {
    const int64_t a[] = {shapes[s][0], shapes[s][1], w->depth};
    dt_tensor_t *in[N_IN] = {rig_floats(fixture, 3, a),
                             rig_integers(fixture, DT_U8, 0, 255, 3, packed),
                             rig_floats(fixture, 1, &scales),
                             w->zeros == BYTES    ? rig_integers(fixture, DT_U8, 0, 255, 1, &zeros)
                             : w->zeros == FLOATS ? rig_floats(fixture, 1, &scales)
                                                  : NULL,
                             w->bias ? rig_floats(fixture, 1, &rows) : NULL};
    for (int64_t k = 0; k < a[0] * a[1] * ROWS; k++) {
      values[k] = w->bias ? rig_get(in[BIAS], k % ROWS) : 0;
      for (int64_t i = 0; i < w->depth; i++)
        values[k] += rig_get(in[A], k / ROWS * w->depth + i) * weight(w, in, k % ROWS, i);
    }
    const rig_want_t want = {what, 3, {a[0], a[1], ROWS}, values, 2e-5};
    rig_run(fixture, &model, in, N_IN, &want);
  }
  rig_close(&model, 1);
}

// Of three blocks, the last of them whole and in part.
static void test_bits(void **state) {
  static const int bits[] = {2, 4, 8}, depths[] = {48, 40};
  for (int at = 0; at < 18; at++) {
    const weights_t w = {bits[at % 3], depths[at / 3 % 2], 3, (zeros_t)(at / 6), at % 4 == 1};
    check_bits(*state, &w);
  }
}

// ---- Integers ---------------------------------------------------------------------------------------
// Bytes by bytes, each column of the second with a scale and a zero.
static void test_integers(void **state) {
  fixture_t *fixture = *state;
  static double values[MOST];
  rig_model_t model = rig_open(
      fixture,
      INPUT("a", "2", OPEN("b") OPEN("s") OPEN("k")) INPUT("w", "3", OPEN("k") SIZE(5)) INPUT(
          "as", "1", "") INPUT("ws", "1", SIZE(5)) INPUT("az", "2", "") INPUT("wz", "3", SIZE(5))
          INPUT("c", "1", SIZE(5)) "node { op_type 'MatMulIntegerToFloat' " MS
                                   "input 'a' input 'w' input 'as' input 'ws' "
                                   "input 'az' input 'wz' input 'c' output 'y' } " OUTPUT("y"));
  for (size_t s = 0; s < N_SHAPES; s++) {
    int64_t depth = (int64_t)s * 4 + 1, n = ROWS;
    const int64_t a[] = {shapes[s][0], shapes[s][1], depth}, w[] = {depth, n};
    dt_tensor_t *in[] = {rig_integers(fixture, DT_U8, 0, 255, 3, a),
                         rig_integers(fixture, DT_I8, -128, 127, 2, w),
                         rig_floats(fixture, 0, NULL),
                         rig_floats(fixture, 1, &n),
                         rig_integers(fixture, DT_U8, 0, 255, 0, NULL),
                         rig_integers(fixture, DT_I8, -128, 127, 1, &n),
                         rig_floats(fixture, 1, &n)};
    for (int64_t k = 0; k < a[0] * a[1] * n; k++) {
      double sum = 0;
      for (int64_t i = 0; i < depth; i++)
        sum += (rig_get(in[0], k / n * depth + i) - rig_get(in[4], 0)) *
               (rig_get(in[1], i * n + k % n) - rig_get(in[5], k % n));
      values[k] = sum * rig_get(in[2], 0) * rig_get(in[3], k % n) + rig_get(in[6], k % n);
    }
    const rig_want_t want = {"MatMulIntegerToFloat", 3, {a[0], a[1], n}, values, 2e-6};
    rig_run(fixture, &model, in, 7, &want);
  }
  rig_close(&model, 1);
}

// The first operand in 255 steps from its least element, or 0, to its greatest. Its elements are
// made to lie on steps, so that no rounding decides.
static void test_dynamic(void **state) {
  fixture_t *fixture = *state;
  static double values[MOST];
  rig_model_t model = rig_open(
      fixture, INPUT("a", "1", OPEN("b") OPEN("s") OPEN("k")) INPUT("w", "3", OPEN("k") SIZE(5))
                   INPUT("ws", "1", SIZE(5)) INPUT("wz", "3", SIZE(5))
                       INPUT("c", "1", SIZE(5)) "node { op_type 'DynamicQuantizeMatMul' " MS
                                                "input 'a' input 'w' input 'ws' input 'wz' "
                                                "input 'c' output 'y' } " OUTPUT("y"));
  for (size_t s = 0; s + 1 < N_SHAPES; s++) {
    int64_t depth = (int64_t)s * 4 + 2, n = ROWS;
    const int64_t a[] = {shapes[s][0], shapes[s][1], depth}, w[] = {depth, n};
    dt_tensor_t *in[] = {rig_integers(fixture, DT_I32, -55, 200, 3, a),
                         rig_integers(fixture, DT_I8, -128, 127, 2, w), rig_floats(fixture, 1, &n),
                         rig_integers(fixture, DT_I8, -128, 127, 1, &n),
                         rig_floats(fixture, 1, &n)};
    dt_tensor_t *steps = in[0];
    in[0] = rig_floats(fixture, 3, a);
    rig_put(steps, 0, -55);
    rig_put(steps, 1, 200);
    for (int64_t k = 0; k < dt_tensor_count(steps); k++)
      rig_put(in[0], k, rig_get(steps, k) * 0.125);
    for (int64_t k = 0; k < a[0] * a[1] * n; k++) {
      double sum = 0;
      for (int64_t i = 0; i < depth; i++)
        sum += rig_get(steps, k / n * depth + i) *
               (rig_get(in[1], i * n + k % n) - rig_get(in[3], k % n));
      values[k] = sum * 0.125 * rig_get(in[2], k % n) + rig_get(in[4], k % n);
    }
    dt_tensor_release(steps);
    const rig_want_t want = {"DynamicQuantizeMatMul", 3, {a[0], a[1], n}, values, 2e-6};
    rig_run(fixture, &model, in, 5, &want);
  }
  rig_close(&model, 1);
}

// ---- Rotation ---------------------------------------------------------------------------------------
static const struct {
  const char *name;
  bool turned, pairs, first; // [batch, heads, length, 8]; neighbours; one position for all
  int64_t half;              // of 8 elements twice as many are turned
} rotations[] = {
    {"halves", false, false, false, 4},         {"pairs", false, true, false, 4},
    {"heads in front", true, false, false, 4},  {"from one position on", false, false, true, 4},
    {"a part in halves", true, false, true, 2}, {"a part in pairs", false, true, false, 2},
};

static void check_rotation(fixture_t *fixture, size_t which) {
  static double values[MOST];
  bool turned = rotations[which].turned, pairs = rotations[which].pairs;
  bool first = rotations[which].first;
  int64_t half = rotations[which].half;
  char graph[2048];
  (void)snprintf(
      graph, sizeof graph,
      "%s%s" INPUT("cos", "1", SIZE(20) "dim { dim_value %d } ")
          INPUT("sin", "1", SIZE(20) "dim { dim_value %d } ") "node { op_type 'RotaryEmbedding' " MS
              INT("interleaved", "%d") INT("num_heads", "2") INT(
                  "rotary_embedding_dim",
                  "%d") "input 'x' input 'at' input 'cos' input 'sin' output 'y' } " OUTPUT("y"),
      turned ? INPUT("x", "1", OPEN("b") SIZE(2) OPEN("s") SIZE(8))
             : INPUT("x", "1", OPEN("b") OPEN("s") SIZE(16)),
      first ? INPUT("at", "7", SIZE(1)) : INPUT("at", "7", OPEN("b") OPEN("s")), (int)half,
      (int)half, pairs, half < 4 ? (int)(2 * half) : 0);
  rig_model_t model = rig_open(fixture, graph);
  for (size_t s = 0; s < N_SHAPES; s++) {
    int64_t b = shapes[s][0], l = shapes[s][1], one = 1;
    const int64_t heads[] = {b, 2, l, 8}, joined[] = {b, l, 16}, table[] = {20, half};
    dt_tensor_t *in[] = {turned ? rig_floats(fixture, 4, heads) : rig_floats(fixture, 3, joined),
                         first ? rig_integers(fixture, DT_I64, 0, 9, 1, &one)
                               : rig_integers(fixture, DT_I64, 0, 19, 2, shapes[s]),
                         rig_floats(fixture, 2, table), rig_floats(fixture, 2, table)};
    for (int64_t k = 0; k < b * l * 16; k++) {
      int64_t i = k % 8, row = turned ? k / 8 % l : k / 16 % l, batch = k / 16 / l;
      int64_t place =
          first ? (int64_t)rig_get(in[1], 0) + row : (int64_t)rig_get(in[1], batch * l + row);
      int64_t pair = pairs ? i / 2 : i % half, left = k - i + (pairs ? 2 * pair : pair);
      bool second = pairs ? i % 2 != 0 : i >= half;
      double x = rig_get(in[0], left), y = rig_get(in[0], left + (pairs ? 1 : half));
      double c = rig_get(in[2], place * half + (i < 2 * half ? pair : 0));
      double d = rig_get(in[3], place * half + (i < 2 * half ? pair : 0));
      values[k] = i >= 2 * half ? rig_get(in[0], k) : second ? d * x + c * y : c * x - d * y;
    }
    const rig_want_t want = {rotations[which].name,
                             turned ? 4 : 3,
                             {b, turned ? 2 : l, turned ? l : 16, 8},
                             values,
                             2e-6};
    rig_run(fixture, &model, in, 4, &want);
  }
  rig_close(&model, 1);
}

static void test_rotations(void **state) {
  for (size_t k = 0; k < sizeof rotations / sizeof rotations[0]; k++)
    check_rotation(*state, k);
}

static int open_all(void **state) { return fixture_open(state, 1, 7); }

RUN_TESTS_WITH(open_all, fixture_close, TEST(test_bits), TEST(test_integers), TEST(test_dynamic),
               TEST(test_rotations))
