// SPDX-License-Identifier: Apache-2.0
// Weights of few bytes. MatMulNBits over constant weights, whose codes stay in panels: bits,
// blocks, zeros, depths that are no whole blocks, and rows from 0 on, with products of floats and
// of integers, compiled and evaluated, against formulas in double. Numbers that are not finite go
// where they belong. And weights that a function rounds to bf16.
#include "test/unit/frontends/onnx_rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum zeros_t { MIDDLE, BYTES, FLOATS } zeros_t; // where none are given: half of the range

typedef struct case_t {
  int bits, block, depth, columns;
  zeros_t zeros;
  bool integers;
} case_t;

// Weights as the model has them, and as numbers.
typedef struct weights_t {
  const case_t *of;
  int blocks, zero_bytes;
  uint8_t *codes, *zeros; // packed
  float *scales, *points;
} weights_t;

static void *room(size_t count, size_t size) {
  void *made = calloc(count + 1, size);
  if (!made)
    fail_msg("no memory");
  return made;
}

static int code_at(const uint8_t *row, int k, int bits) {
  int each = 8 / bits;
  return row[k / each] >> (k % each * bits) & ((1 << bits) - 1);
}

static weights_t weights_of(fixture_t *fixture, const case_t *c) {
  weights_t w = {.of = c, .blocks = (c->depth + c->block - 1) / c->block};
  size_t rows = (size_t)c->columns, blocks = rows * (size_t)w.blocks;
  size_t bytes = blocks * (size_t)(c->block * c->bits / 8);
  w.zero_bytes = (w.blocks * c->bits + 7) / 8;
  w.codes = room(bytes, 1);
  w.zeros = room(rows * (size_t)w.zero_bytes, 1);
  w.scales = room(blocks, sizeof(float));
  w.points = room(blocks, sizeof(float));
  for (size_t k = 0; k < bytes; k++)
    w.codes[k] = (uint8_t)rng_between(&fixture->rng, 0, 255);
  for (size_t k = 0; k < rows * (size_t)w.zero_bytes; k++)
    w.zeros[k] = (uint8_t)rng_between(&fixture->rng, 0, 255);
  for (size_t k = 0; k < blocks; k++) {
    w.scales[k] = (float)rng_between(&fixture->rng, 1, 64) / 4096;
    w.points[k] = (float)rng_between(&fixture->rng, 0, 64) / 8;
  }
  return w;
}

static void weights_free(weights_t *w) {
  free(w->codes);
  free(w->zeros);
  free(w->scales);
  free(w->points);
}

static double weight(const weights_t *w, int n, int k) {
  const case_t *c = w->of;
  int block = n * w->blocks + k / c->block, row = w->blocks * c->block * c->bits / 8;
  double scale = (double)w->scales[block], zero = 1 << (c->bits - 1);
  if (c->zeros == BYTES)
    zero = code_at(w->zeros + n * w->zero_bytes, k / c->block, c->bits);
  if (c->zeros == FLOATS)
    zero = (double)w->points[block];
  if (c->integers && !isfinite(scale))
    scale = NAN;
  return (code_at(w->codes + n * row, k, c->bits) - zero) * scale;
}

// ---- The model --------------------------------------------------------------------------------------
typedef struct text_t {
  char *at;
  size_t used, size;
} text_t;

static void put(text_t *text, const char *piece) {
  size_t n = strlen(piece);
  if (text->used + n + 1 > text->size) {
    text->size = 2 * (text->used + n + 1);
    text->at = realloc(text->at, text->size);
    if (!text->at)
      fail_msg("no memory");
  }
  memcpy(text->at + text->used, piece, n + 1);
  text->used += n;
}

static void put_constant(text_t *text, const char *name, int dtype, int rows, int columns,
                         const void *data, size_t bytes) {
  char piece[128];
  (void)snprintf(piece, sizeof piece,
                 "initializer { name '%s' data_type %d dims %d dims %d raw_data '", name, dtype,
                 rows, columns);
  put(text, piece);
  for (size_t k = 0; k < bytes; k++) {
    (void)snprintf(piece, sizeof piece, "\\x%02x", ((const unsigned char *)data)[k]);
    put(text, piece);
  }
  put(text, "' } ");
}

static rig_model_t model_of(fixture_t *fixture, const weights_t *w) {
  const case_t *c = w->of;
  text_t text = {0};
  char piece[512];
  int row = w->blocks * c->block * c->bits / 8;
  size_t columns = (size_t)c->columns, blocks = columns * (size_t)w->blocks;
  (void)snprintf(piece, sizeof piece, INPUT("a", "1", OPEN("m") "dim { dim_value %d } "), c->depth);
  put(&text, piece);
  put_constant(&text, "w", 2, c->columns, row, w->codes, columns * (size_t)row);
  put_constant(&text, "k", 1, c->columns, w->blocks, w->scales, blocks * sizeof(float));
  if (c->zeros == BYTES)
    put_constant(&text, "z", 2, c->columns, w->zero_bytes, w->zeros,
                 columns * (size_t)w->zero_bytes);
  if (c->zeros == FLOATS)
    put_constant(&text, "z", 1, c->columns, w->blocks, w->points, blocks * sizeof(float));
  (void)snprintf(piece, sizeof piece,
                 "node { op_type 'MatMulNBits' " MS INT("K", "%d") INT("N", "%d") INT("bits", "%d")
                     INT("block_size", "%d") INT("accuracy_level", "%d") "input 'a' input 'w' "
                                                                         "input 'k' %s output 'y' "
                                                                         "} " OUTPUT("y"),
                 c->depth, c->columns, c->bits, c->block, c->integers ? 4 : 0,
                 c->zeros ? "input 'z'" : "");
  put(&text, piece);
  rig_model_t model = rig_open(fixture, text.at);
  free(text.at);
  return model;
}

// ---- Calls ------------------------------------------------------------------------------------------
// Whole steps, of which 127 are in each block, so that quantising them changes nothing.
static dt_tensor_t *steps(fixture_t *fixture, const case_t *c, int64_t rows) {
  const int64_t sizes[] = {rows, c->depth};
  dt_tensor_t *a = rig_floats(fixture, 2, sizes);
  for (int64_t k = 0; k < rows * c->depth; k++) {
    int64_t at = k % c->depth;
    double step = ldexp(1, (int)(at / c->block % 3) - 8);
    int64_t number = at % c->block ? rng_between(&fixture->rng, -127, 127) : k % 2 ? 127 : -127;
    rig_put(a, k, (double)number * step);
  }
  return a;
}

static dt_tensor_t *left(fixture_t *fixture, const case_t *c, int64_t rows) {
  const int64_t sizes[] = {rows, c->depth};
  return c->integers ? steps(fixture, c, rows) : rig_floats(fixture, 2, sizes);
}

// Of products of integers a block that is not finite is none at all.
static double element(const case_t *c, const dt_tensor_t *a, int64_t m, int k) {
  double own = rig_get(a, m * c->depth + k);
  int first = k / c->block * c->block;
  for (int i = first; c->integers && i < first + c->block && i < c->depth; i++)
    if (!isfinite(rig_get(a, m * c->depth + i)))
      return NAN;
  return own;
}

static void check_rows(fixture_t *fixture, const weights_t *w, const rig_model_t *model,
                       dt_tensor_t *a, const char *what) {
  const case_t *c = w->of;
  int64_t rows = dt_tensor_sizes(a)[0];
  double *values = room((size_t)(rows * c->columns), sizeof(double));
  double *row = room((size_t)c->depth, sizeof(double));
  for (int64_t m = 0; m < rows; m++) {
    for (int k = 0; k < c->depth; k++)
      row[k] = element(c, a, m, k);
    for (int n = 0; n < c->columns; n++)
      for (int k = 0; k < c->depth; k++)
        values[m * c->columns + n] += row[k] * weight(w, n, k);
  }
  const rig_want_t want = {what, 2, {rows, c->columns}, values, 2e-5};
  rig_run(fixture, model, &a, 1, &want);
  free(row);
  free(values);
}

static void check(fixture_t *fixture, const case_t *c) {
  static const int64_t rows[] = {1, 0, 2, 3, 5, 8, 9, 33};
  char what[128];
  weights_t w = weights_of(fixture, c);
  rig_model_t model = model_of(fixture, &w);
  (void)snprintf(what, sizeof what, "%d bits, block %d, %d by %d, zeros %d%s", c->bits, c->block,
                 c->depth, c->columns, c->zeros, c->integers ? ", integers" : "");
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    check_rows(fixture, &w, &model, left(fixture, c, rows[i]), what);
  rig_close(&model, 1);
  weights_free(&w);
}

// Depths: within a block, whole blocks, one element more, beyond what a tile takes at once.
static void test_blocks(void **state) {
  static const int bits[] = {2, 4, 8};
  static const struct {
    int block, depth, columns;
  } forms[] = {{16, 48, 5},   {16, 41, 37},    {32, 289, 32},  {32, 33, 70},
               {64, 1100, 9}, {128, 1024, 40}, {256, 200, 33}, {1024, 1500, 6}};
  for (int at = 0; at < 8; at++)
    for (int b = 0; b < 3; b++)
      for (int integers = 0; integers < 2; integers++) {
        const case_t c = {bits[b],           forms[at].block,         forms[at].depth,
                          forms[at].columns, (zeros_t)((at + b) % 3), integers != 0};
        check(*state, &c);
      }
}

// A scale or an element that is not finite is met by what it multiplies alone.
static void test_not_finite(void **state) {
  fixture_t *fixture = *state;
  for (int which = 0; which < 12; which++) {
    const case_t c = {which % 2 ? 4 : 8, 32, 100, 37, which % 3 ? BYTES : MIDDLE, which >= 6};
    weights_t w = weights_of(fixture, &c);
    w.scales[3 * w.blocks + 1] = INFINITY;
    w.scales[4 * w.blocks + 3] = -INFINITY;
    w.scales[36 * w.blocks] = NAN;
    // Of one sign, so that what is infinite stays it.
    memset(w.codes + 5 * w.blocks * 4 * c.bits, 0xff, (size_t)(w.blocks * 4 * c.bits));
    memset(w.zeros + 5 * w.zero_bytes, 0, (size_t)w.zero_bytes);
    w.scales[5 * w.blocks + 2] = INFINITY;
    rig_model_t model = model_of(fixture, &w);
    for (int64_t rows = 1; rows <= 17; rows += 4) {
      dt_tensor_t *a = left(fixture, &c, rows);
      for (int64_t k = 0; k < c.depth && which % 2; k++)
        rig_put(a, k, fabs(rig_get(a, k)) + (c.integers ? 0 : 1));
      if (rows > 4) {
        rig_put(a, 2 * c.depth + 40, NAN);
        rig_put(a, 3 * c.depth + 99, INFINITY);
      }
      check_rows(fixture, &w, &model, a, "not finite");
    }
    rig_close(&model, 1);
    weights_free(&w);
  }
}

// ---- Threads ----------------------------------------------------------------------------------------
static dt_tensor_t *answer_of(const fixture_t *fixture, const rig_model_t *model, dt_tensor_t *a) {
  dt_tensor_t *out = NULL;
  expect_ok(dt_call(fixture->session, model->compiled, &a, 1, &out, 1, NULL));
  return out;
}

static void test_threads(void **state) {
  fixture_t *one = *state;
  fixture_t other = fixture_on(DT_CPU, 3);
  for (int integers = 0; integers < 2; integers++) {
    const case_t c = {4, 32, 516, 700, BYTES, integers != 0};
    weights_t w = weights_of(one, &c);
    rig_model_t models[] = {model_of(one, &w), model_of(&other, &w)};
    for (int64_t rows = 1; rows < 100; rows = rows * 3 + 1) {
      dt_tensor_t *a = left(one, &c, rows);
      dt_tensor_t *x = answer_of(one, &models[0], a), *y = answer_of(&other, &models[1], a);
      assert_memory_equal(dt_tensor_data(x), dt_tensor_data(y),
                          (size_t)(rows * c.columns) * sizeof(float));
      dt_tensor_release(x);
      dt_tensor_release(y);
      dt_tensor_release(a);
    }
    rig_close(&models[0], 1);
    rig_close(&models[1], 1);
    weights_free(&w);
  }
  fixture_end(&other);
}

// ---- Weights in bf16 --------------------------------------------------------------------------------
enum { WIDE = 70, DEEP = 300 };

static float rounded(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static dt_onnx_t *product_file(int kind, const float *w, onnx_bytes_t *bytes) {
  static const char *const nodes[] = {"op_type 'MatMul'", "op_type 'Gemm'" INT("transB", "1"),
                                      "op_type 'FusedMatMul'" MS INT("transB", "1")};
  text_t text = {0};
  char piece[512];
  int rows = kind ? WIDE : DEEP, columns = kind ? DEEP : WIDE;
  put(&text, "ir_version 10 opset_import { version 21 } opset_import { domain 'com.microsoft' "
             "version 1 } graph { name 'g' ");
  (void)snprintf(piece, sizeof piece, INPUT("a", "1", OPEN("m") "dim { dim_value %d } "), DEEP);
  put(&text, piece);
  put_constant(&text, "w", 1, rows, columns, w, (size_t)(rows * columns) * sizeof(float));
  (void)snprintf(piece, sizeof piece, "node { %s input 'a' input 'w' output 'y' } " OUTPUT("y") "}",
                 nodes[kind]);
  put(&text, piece);
  *bytes = onnx_make(&dt__onnx_model_message, text.at);
  free(text.at);
  dt_onnx_t *file = NULL;
  expect_ok(dt_onnx_open_memory(bytes->data, bytes->len, NULL, &file));
  return file;
}

// The function's answer is that of `weights` (as the file has them), within what f32 rounds, and
// off from that of `own` by no more than bf16 changes these.
static void check_product(fixture_t *fixture, dt_function_t *function, int kind, int64_t rows,
                          const float *weights, const float *own) {
  const int64_t sizes[] = {rows, DEEP};
  dt_tensor_t *a = rig_floats(fixture, 2, sizes), *out = NULL;
  expect_ok(dt_call(fixture->session, function, &a, 1, &out, 1, NULL));
  for (int64_t m = 0; m < rows; m++)
    for (int64_t n = 0; n < WIDE; n++) {
      double sum = 0, exact = 0, all = 0;
      for (int64_t k = 0; k < DEEP; k++) {
        int64_t at = kind ? n * DEEP + k : k * WIDE + n;
        double x = rig_get(a, m * DEEP + k);
        sum += x * (double)weights[at];
        exact += x * (double)own[at];
        all += fabs(x * (double)own[at]);
      }
      double got = rig_get(out, m * WIDE + n);
      if (!(fabs(got - sum) <= 2e-6 * all) || !(fabs(got - exact) <= 0x1p-9 * all + 2e-6 * all))
        fail_msg("product %d, %lld rows: got %.9g, expected %.9g", kind, (long long)rows, got, sum);
    }
  dt_tensor_release(a);
  dt_tensor_release(out);
}

static void test_bf16(void **state) {
  fixture_t *fixture = *state;
  static float own[WIDE * DEEP], halves[WIDE * DEEP];
  for (size_t k = 0; k < WIDE * DEEP; k++) {
    own[k] = (float)rng_between(&fixture->rng, -100000, 100000) / 65536;
    halves[k] = rounded(own[k]);
  }
  for (int kind = 0; kind < 3; kind++) {
    onnx_bytes_t bytes;
    dt_onnx_t *file = product_file(kind, own, &bytes);
    const dt_answer_t who[] = {compiled_answer(), DT_ANSWER_EVALUATOR};
    for (int at = 0; at < 4; at++) {
      const dt_function_options_t about = {.struct_size = sizeof about, .answer = who[at / 2]};
      dt_onnx_function_options_t how = {.struct_size = sizeof how,
                                        .function = &about,
                                        .weights = at % 2 ? DT_BF16 : DT_DTYPE_NONE};
      dt_function_t *function = NULL;
      expect_ok(dt_onnx_function_create(fixture->runtime, file, &how, &function));
      for (int64_t rows = 0; rows < 60; rows = rows * 2 + 1)
        check_product(fixture, function, kind, rows, at % 2 ? halves : own, own);
      dt_function_release(function);
      how.weights = DT_F16;
      expect_told(dt_onnx_function_create(fixture->runtime, file, &how, &function), DT_E_ARGUMENT,
                  "weights is f16");
    }
    dt_onnx_close(file);
    onnx_free(&bytes);
  }
}

// ---- Weights that are halves ------------------------------------------------------------------------
static uint16_t half_of(float x, bool bf16) { // of what a half has
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if (bf16 || x == 0)
    return (uint16_t)(bits >> 16);
  uint32_t exponent = (bits >> 23 & 0xff) - 112;
  return (uint16_t)((bits >> 16 & 0x8000) | exponent << 10 | (bits >> 13 & 0x3ff));
}

static void test_halves(void **state) {
  fixture_t *fixture = *state;
  static float own[WIDE * DEEP];
  static uint16_t held[WIDE * DEEP];
  for (int kind = 0; kind < 4; kind++) {
    bool bf16 = kind % 2, turned = kind / 2;
    for (size_t k = 0; k < WIDE * DEEP; k++) {
      own[k] = (float)rng_between(&fixture->rng, -127, 127) / 64;
      held[k] = half_of(own[k], bf16);
    }
    text_t text = {0};
    char piece[512];
    (void)snprintf(piece, sizeof piece, INPUT("a", "1", OPEN("m") "dim { dim_value %d } "), DEEP);
    put(&text, piece);
    put_constant(&text, "h", bf16 ? 16 : 10, turned ? WIDE : DEEP, turned ? DEEP : WIDE, held,
                 sizeof held);
    (void)snprintf(
        piece, sizeof piece,
        "node { op_type 'Cast' " INT(
            "to", "1") "input 'h' output 'w' } "
                       "node { op_type 'Gemm' " INT(
                           "transB", "%d") "input 'a' input 'w' output 'y' } " OUTPUT("y"),
        turned);
    put(&text, piece);
    rig_model_t model = rig_open(fixture, text.at);
    free(text.at);
    for (int64_t rows = 0; rows < 60; rows = rows * 2 + 1) {
      check_product(fixture, model.compiled, turned, rows, own, own);
      check_product(fixture, model.evaluated, turned, rows, own, own);
    }
    rig_close(&model, 1);
  }
}

static int open_all(void **state) { return fixture_open(state, 1, 7); }

RUN_TESTS_WITH(open_all, fixture_close, TEST(test_blocks), TEST(test_not_finite),
               TEST(test_threads), TEST(test_bf16), TEST(test_halves))
