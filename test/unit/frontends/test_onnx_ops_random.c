// SPDX-License-Identifier: Apache-2.0
// Random numbers of models: which bits each node draws (docs/onnx.md), from compiled code and from
// the evaluator, in loops of both kinds, with a seed of the node's, the function's and the call's.
#include "test/unit/frontends/onnx_rig.h"

#include "lower/graph/philox.h"

#include <math.h>
#include <string.h>

#define MODEL(graph) "ir_version 8 opset_import { version 21 } graph { name 'draws' " graph "} "
#define INTS(name, values) "attribute { name '" name "' type 7 ints [ " values " ] } "
#define NODE(op, rest) "node { op_type '" op "' " rest "} "
#define I64S(name, dims, values)                                                                   \
  "initializer { name '" name "' data_type 7 " dims "int64_data [ " values " ] } "
#define F32S(name, dims, values)                                                                   \
  "initializer { name '" name "' data_type 1 " dims "float_data [ " values " ] } "

// ---- Functions --------------------------------------------------------------------------------------
typedef struct drawing_t {
  onnx_bytes_t bytes;
  dt_onnx_t *file;
  dt_function_t *functions[2]; // compiled, evaluated
} drawing_t;

static void drawing_open(const fixture_t *f, const char *text, uint64_t seed, bool seed_input,
                         drawing_t *out) {
  *out = (drawing_t){.bytes = onnx_make(&dt__onnx_model_message, text)};
  expect_ok(dt_onnx_open_memory(out->bytes.data, out->bytes.len, NULL, &out->file));
  for (int k = 0; k < 2; k++) {
    const dt_function_options_t about = {.struct_size = sizeof(about),
                                         .answer = k ? DT_ANSWER_EVALUATOR : compiled_answer()};
    const dt_onnx_function_options_t options = {
        .struct_size = sizeof(options), .function = &about, .seed = seed, .seed_input = seed_input};
    expect_ok(dt_onnx_function_create(f->runtime, out->file, &options, &out->functions[k]));
  }
}

static void drawing_close(drawing_t *drawing) {
  for (int k = 0; k < 2; k++)
    dt_function_release(drawing->functions[k]);
  dt_onnx_close(drawing->file);
  onnx_free(&drawing->bytes);
}

// One output; the caller releases it.
static dt_tensor_t *draw(const fixture_t *f, const drawing_t *drawing, int which,
                         dt_tensor_t *const *in, uint32_t n_in) {
  dt_tensor_t *out = NULL;
  expect_ok(dt_call(f->session, drawing->functions[which], in, n_in, &out, 1, NULL));
  return out;
}

// ---- What is expected -------------------------------------------------------------------------------
typedef struct key_t {
  uint64_t seed, offset;
} key_t;

// FNV-1a over names with a 0 behind each, the outer one first, folded to 52 bits.
static uint64_t place_of(const char *const *names, uint32_t n) {
  uint64_t hash = 0xcbf29ce484222325;
  for (uint32_t k = 0; k < n; k++)
    for (size_t i = 0; i <= strlen(names[k]); i++)
      hash = (hash ^ (unsigned char)names[k][i]) * 0x100000001b3;
  return (hash ^ hash >> 52) & (((uint64_t)1 << 52) - 1);
}

static key_t named(uint64_t seed, const char *name) { return (key_t){seed, place_of(&name, 1)}; }

static uint64_t bits_at(key_t key, uint64_t index) {
  uint32_t words[4];
  dt__philox(key.seed, key.offset, index, words);
  return (uint64_t)words[1] << 32 | words[0];
}
static double uniform_at(key_t key, int64_t index) {
  return ldexp((double)(bits_at(key, (uint64_t)index) >> 40), -24);
}

static void expect_uniform(const dt_tensor_t *got, key_t key, int64_t first, int64_t n,
                           const char *what) {
  for (int64_t k = 0; k < n; k++)
    if (rig_get(got, first + k) != uniform_at(key, k))
      fail_msg("%s, element %lld: %.9g, expected %.9g", what, (long long)(first + k),
               rig_get(got, first + k), uniform_at(key, k));
}

// ---- Seeds ------------------------------------------------------------------------------------------
#define LIKE(op, out, more) NODE(op, "input 'x' output '" out "' " more)

static void check_like(const fixture_t *f, const drawing_t *drawing, dt_tensor_t *const *in,
                       uint32_t n_in, key_t key, const char *what) {
  for (int which = 0; which < 2; which++)
    for (int again = 0; again < 2; again++) {
      dt_tensor_t *y = draw(f, drawing, which, in, n_in);
      expect_uniform(y, key, 0, dt_tensor_count(in[0]), what);
      dt_tensor_release(y);
    }
}

static void test_seeds(void **state) {
  fixture_t *f = *state;
  static const char text[] = MODEL(INPUT("x", "1", OPEN("n") SIZE(3))
                                       LIKE("RandomUniformLike", "name", "") OUTPUT("name"));
  const uint64_t seeds[] = {0, 1, 0xfedcba9876543210};
  static const int64_t lengths[] = {5, 0, 40};
  for (size_t s = 0; s < 3; s++) {
    drawing_t own, given;
    int64_t seed = (int64_t)seeds[s];
    drawing_open(f, text, seeds[s], false, &own);
    drawing_open(f, text, 0, true, &given);
    for (size_t k = 0; k < 3; k++) {
      dt_tensor_t *in[2] = {tensor_f32(&f->rng, 2, SIZES(lengths[k], 3)),
                            tensor_i64(0, NULL, &seed)};
      check_like(f, &own, in, 1, named(seeds[s], "name"), "the function's seed");
      check_like(f, &given, in, 2, named(seeds[s], "name"), "the call's seed");
      RELEASE(in[0], in[1]);
    }
    drawing_close(&own);
    drawing_close(&given);
  }
}

// Of 1.5, and again of the same; the function's seed does not matter.
static void test_own_seed(void **state) {
  fixture_t *f = *state;
  static const char text[] =
      MODEL(INPUT("x", "1", OPEN("n")) LIKE("RandomUniformLike", "a", REAL("seed", "1.5"))
                LIKE("RandomUniformLike", "b", REAL("seed", "1.5"))
                    NODE("Sub", "input 'a' input 'b' output 'zero' ")
                        NODE("Add", "input 'a' input 'zero' output 'y' ") OUTPUT("y"));
  const key_t key = {((uint64_t)1 << 32) | 0x3fc00000, 0};
  drawing_t drawing;
  drawing_open(f, text, 99, false, &drawing);
  dt_tensor_t *x = tensor_f32(&f->rng, 1, SIZES(50));
  check_like(f, &drawing, &x, 1, key, "the node's seed");
  dt_tensor_release(x);
  drawing_close(&drawing);
}

static void test_options(void **state) {
  fixture_t *f = *state;
  onnx_bytes_t bytes =
      onnx_make(&dt__onnx_model_message,
                MODEL(INPUT("x", "1", OPEN("n")) LIKE("RandomUniformLike", "y", "") OUTPUT("y")));
  const dt_onnx_function_options_t both = {
      .struct_size = sizeof(both), .seed = 5, .seed_input = true};
  dt_onnx_t *file = NULL;
  dt_function_t *function = NULL;
  expect_ok(dt_onnx_open_memory(bytes.data, bytes.len, NULL, &file));
  expect_told(dt_onnx_function_create(f->runtime, file, &both, &function), DT_E_ARGUMENT,
              "seed is 5, and calls give it");
  assert_null(function);
  dt_onnx_close(file);
  onnx_free(&bytes);
}

// ---- Laws -------------------------------------------------------------------------------------------
static void test_scaled(void **state) {
  fixture_t *f = *state;
  static const char text[] =
      MODEL(NODE("RandomUniform",
                 "output 'u' " INTS("shape", "64 64") REAL("low", "-3") REAL("high", "5"))
                NODE("RandomNormal",
                     "output 'v' " INTS("shape", "64 64") REAL("mean", "2") REAL("scale", "3")
                         INT("dtype", "11")) NODE("Cast", "input 'v' output 'w' " INT("to", "1"))
                    NODE("Concat", "input 'u' input 'w' output 'y' " INT("axis", "0")) OUTPUT("y"));
  const key_t key = named(3, "u");
  double sum = 0, squares = 0;
  drawing_t drawing;
  drawing_open(f, text, 3, false, &drawing);
  for (int which = 0; which < 2; which++) {
    dt_tensor_t *y = draw(f, &drawing, which, NULL, 0);
    sum = squares = 0;
    for (int64_t k = 0; k < 4096; k++) {
      assert_true(fabs(rig_get(y, k) - (8 * uniform_at(key, k) - 3)) < 1e-6);
      sum += rig_get(y, 4096 + k);
      squares += rig_get(y, 4096 + k) * rig_get(y, 4096 + k);
    }
    dt_tensor_release(y);
    assert_true(fabs(sum / 4096 - 2) < 5 * 3.0 / 64);
    assert_true(fabs(squares / 4096 - 13) < 1.5);
  }
  drawing_close(&drawing);
}

// Weights 0, 1, 2, 0, 5 and 0: as often as they say, and never those of 0.
static void test_multinomial(void **state) {
  fixture_t *f = *state;
  static const char text[] = MODEL(INPUT("x", "1", OPEN("n") SIZE(6)) NODE(
      "Multinomial", "input 'x' output 'y' " INT("sample_size", "4000") INT("dtype", "7"))
                                       OUTPUT("y"));
  static const double weights[] = {0, 1, 2, 0, 5, 0};
  drawing_t drawing;
  drawing_open(f, text, 1, false, &drawing);
  float logits[12];
  for (int k = 0; k < 12; k++)
    logits[k] = (float)log(weights[k % 6]) + (k < 6 ? 0 : 700);
  dt_tensor_t *x = tensor_from(DT_F32, 2, SIZES(2, 6), logits);
  for (int which = 0; which < 2; which++) {
    dt_tensor_t *y = draw(f, &drawing, which, &x, 1);
    for (int64_t row = 0; row < 2; row++) {
      double counts[6] = {0};
      for (int64_t k = 0; k < 4000; k++)
        counts[(int)rig_get(y, row * 4000 + k)]++;
      for (int k = 0; k < 6; k++)
        if (fabs(counts[k] - 500 * weights[k]) > 5 * sqrt(500 * weights[k]))
          fail_msg("class %d: %g of 4000, expected %g", k, counts[k], 500 * weights[k]);
    }
    dt_tensor_release(y);
  }
  dt_tensor_release(x);
  drawing_close(&drawing);
}

static void test_bernoulli(void **state) {
  fixture_t *f = *state;
  static const char text[] = MODEL(INPUT("x", "1", OPEN("n")) NODE(
      "Bernoulli", "input 'x' output 'y' " INT("dtype", "7")) OUTPUT("y"));
  drawing_t drawing;
  drawing_open(f, text, 8, false, &drawing);
  float chances[100];
  for (int k = 0; k < 100; k++)
    chances[k] = (float)k / 99;
  dt_tensor_t *x = tensor_from(DT_F32, 1, SIZES(100), chances);
  for (int which = 0; which < 2; which++) {
    dt_tensor_t *y = draw(f, &drawing, which, &x, 1);
    for (int64_t k = 0; k < 100; k++)
      assert_true(rig_get(y, k) == (uniform_at(named(8, "y"), k) < (double)chances[k]));
    dt_tensor_release(y);
  }
  dt_tensor_release(x);
  drawing_close(&drawing);
}

// ---- Dropout ----------------------------------------------------------------------------------------
// In training where the first element is positive: data decide.
static void test_dropout(void **state) {
  fixture_t *f = *state;
  static const char text[] =
      MODEL(INPUT("x", "1", OPEN("n")) F32S("ratio", "", "0.25") F32S("none", "", "0")
                I64S("first", "", "0") NODE("Gather", "input 'x' input 'first' output 'g' ")
                    NODE("Greater", "input 'g' input 'none' output 'on' ")
                        NODE("Dropout", "input 'x' input 'ratio' input 'on' output 'y' " INT(
                                            "seed", "-9")) OUTPUT("y"));
  const key_t key = {(uint64_t)-9, 0};
  drawing_t drawing;
  drawing_open(f, text, 0, false, &drawing);
  for (int on = 0; on < 2; on++) {
    dt_tensor_t *x = tensor_f32(&f->rng, 1, SIZES(77));
    rig_put(x, 0, on ? 1 : -1);
    for (int which = 0; which < 2; which++) {
      dt_tensor_t *y = draw(f, &drawing, which, &x, 1);
      for (int64_t k = 0; k < 77; k++) {
        bool kept = !on || uniform_at(key, k) >= 0.25;
        double want = kept ? rig_get(x, k) * (on ? 4.0 / 3 : 1) : 0;
        assert_true(fabs(rig_get(y, k) - want) <= 2e-7 * fabs(want));
      }
      dt_tensor_release(y);
    }
    dt_tensor_release(x);
  }
  drawing_close(&drawing);
}

// ---- Loops ------------------------------------------------------------------------------------------
// `trips` rows of four: a loop of few trips is traced trip by trip, others are one loop.
#define ROWS_OF(trips)                                                                             \
  MODEL(I64S("trips", "", trips) "initializer { name 'more' data_type 9 int32_data [ 1 ] } " NODE( \
      "Loop", "input 'trips' input 'more' output 'rows' attribute { name 'body' type 5 g { "       \
              "name 'inside' input { name 'i' } input { name 'c' } "                               \
              "node { op_type 'Identity' input 'c' output 'd' } "                                  \
              "node { op_type 'RandomUniform' output 'row' " INTS(                                 \
                  "shape", "4") "} "                                                               \
                                "output { name 'd' } output { name 'row' } } } ") OUTPUT("rows"))

static void check_loop(const fixture_t *f, const char *text, int64_t trips) {
  static const char *const names[] = {"rows", "row"};
  drawing_t drawing;
  drawing_open(f, text, 6, false, &drawing);
  for (int which = 0; which < 2; which++) {
    dt_tensor_t *rows = draw(f, &drawing, which, NULL, 0);
    expect_sizes(rows, 2, SIZES(trips, 4));
    for (int64_t trip = 0; trip < trips; trip++) {
      const key_t apart = {6, UINT64_MAX};
      const key_t key = {bits_at(apart, (uint64_t)trip), place_of(names, 2)};
      expect_uniform(rows, key, 4 * trip, 4, "a trip");
    }
    dt_tensor_release(rows);
  }
  drawing_close(&drawing);
}

static void test_loops(void **state) {
  check_loop(*state, ROWS_OF("3"), 3);
  check_loop(*state, ROWS_OF("50"), 50);
}

// ---- Refusals ---------------------------------------------------------------------------------------
static void test_refusals(void **state) {
  fixture_t *f = *state;
  static const struct {
    const char *text, *says;
  } rows[] = {
      {MODEL(NODE("RandomUniform", "output 'y' " INTS("shape", "4") INT("dtype", "7")) OUTPUT("y")),
       "RandomUniform (operator set 21, output \"y\"): random numbers of an element type that is "
       "no "
       "float"},
      {MODEL(NODE("RandomNormal", "output 'y' ") OUTPUT("y")), "attribute \"shape\" is missing"},
      {MODEL(INPUT("x", "1", OPEN("n") SIZE(6))
                 NODE("Multinomial", "input 'x' output 'y' " INT("dtype", "1")) OUTPUT("y")),
       "classes that are neither int32 nor int64"},
  };
  for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
    onnx_bytes_t bytes = onnx_make(&dt__onnx_model_message, rows[k].text);
    dt_onnx_t *file = NULL;
    dt_function_t *function = NULL;
    expect_ok(dt_onnx_open_memory(bytes.data, bytes.len, NULL, &file));
    expect_told(dt_onnx_function_create(f->runtime, file, NULL, &function), DT_E_UNSUPPORTED,
                rows[k].says);
    dt_onnx_close(file);
    onnx_free(&bytes);
  }
}

static int setup(void **state) { return fixture_open(state, 2, 5); }

int main(void) {
  const struct CMUnitTest tests[] = {TEST_WITH(test_seeds, setup, fixture_close),
                                     TEST_WITH(test_own_seed, setup, fixture_close),
                                     TEST_WITH(test_options, setup, fixture_close),
                                     TEST_WITH(test_scaled, setup, fixture_close),
                                     TEST_WITH(test_multinomial, setup, fixture_close),
                                     TEST_WITH(test_bernoulli, setup, fixture_close),
                                     TEST_WITH(test_dropout, setup, fixture_close),
                                     TEST_WITH(test_loops, setup, fixture_close),
                                     TEST_WITH(test_refusals, setup, fixture_close)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
