// SPDX-License-Identifier: Apache-2.0
// Random numbers have the bits that random.h says, element by element: from compiled code with any
// number of threads, from the evaluator, on devices (the fake driver runs the PTX) and as CUDA
// graphs, for all sizes, in views, and fused with what reads them. What is expected is computed
// here, from blocks of the generator that unit.graph.scalar compares with published answers.
#include "test/support/subjects.h"

#include "lower/graph/philox.h"
#include "runtime/base/half.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- The program ----------------------------------------------------------------------------------
// f(x f32[rows, width], seed, offset, p f32, low i32, high i32). Each draw has an own offset.
enum {
  BITS,
  UNIFORM,
  UNIFORM_64,
  UNIFORM_16,
  UNIFORM_B16,
  NORMAL,
  NORMAL_64,
  INTEGERS,
  CHANCE,
  DROPPED,
  KEPT,
  TURNED, // BITS with exchanged dims, computed again
  SUMS,   // of the rows of UNIFORM
  PIECE,  // every other row of BITS
  KEYED,  // bits where each row has a seed of its own
  N_OUTPUTS
};
enum { X, SEED, OFFSET, P, LOW, HIGH, N_INPUTS };

static dt_value_t shifted(dt_trace_t *t, const dt_value_t *in, int draw) {
  return dt_add(t, in[OFFSET], dt_scalar(t, DT_I64, draw));
}

static dt_status_t program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  const dt_sym_t sizes[2] = {dt_dim(t, in[X], 0), dt_dim(t, in[X], 1)}, zero = dt_sym_const(t, 0);
  const int32_t last = -1;
  dt_value_t seed = in[SEED], p = dt_expand(t, in[P], 2, sizes);
  out[BITS] = dt_random_bits(t, seed, shifted(t, in, BITS), 2, sizes);
  out[UNIFORM] = dt_random_uniform(t, DT_F32, seed, shifted(t, in, UNIFORM), 2, sizes);
  out[UNIFORM_64] = dt_random_uniform(t, DT_F64, seed, shifted(t, in, UNIFORM_64), 2, sizes);
  out[UNIFORM_16] = dt_random_uniform(t, DT_F16, seed, shifted(t, in, UNIFORM_16), 2, sizes);
  out[UNIFORM_B16] = dt_random_uniform(t, DT_BF16, seed, shifted(t, in, UNIFORM_B16), 2, sizes);
  out[NORMAL] = dt_random_normal(t, DT_F32, seed, shifted(t, in, NORMAL), 2, sizes);
  out[NORMAL_64] = dt_random_normal(t, DT_F64, seed, shifted(t, in, NORMAL_64), 2, sizes);
  out[INTEGERS] =
      dt_random_integers(t, seed, shifted(t, in, INTEGERS), in[LOW], in[HIGH], 2, sizes);
  out[CHANCE] = dt_bernoulli(t, seed, shifted(t, in, CHANCE), p);
  out[DROPPED] = dt_dropout(t, seed, shifted(t, in, DROPPED), in[X], in[P], &out[KEPT]);
  dt_value_t again = dt_random_bits(t, seed, shifted(t, in, BITS), 2, sizes);
  out[TURNED] = dt_transpose(t, again, 0, 1);
  dt_value_t uniform = dt_random_uniform(t, DT_F32, seed, shifted(t, in, UNIFORM), 2, sizes);
  out[SUMS] = dt_sum(t, dt_cast(t, uniform, DT_F64), 1, &last, false);
  dt_sym_t half = dt_sym_floordiv(t, sizes[0], dt_sym_const(t, 2));
  out[PIECE] = dt_slice(t, again, 0, zero, half, 2);
  dt_value_t rows = dt_unsqueeze(t, dt_iota(t, DT_I64, 1, sizes, 0), 1);
  out[KEYED] = dt_random_bits(t, dt_add(t, rows, seed), (dt_value_t){0}, 2, sizes);
  return NULL;
}

static const dt_dim_decl_t dims[] = {{.name = "rows"}, {.name = "width"}};
static const dt_input_decl_t inputs[N_INPUTS] = {
    [X] = {.name = "x", .dtype = DT_F32, .rank = 2, .dims = dims},
    [SEED] = {.name = "seed", .dtype = DT_I64},
    [OFFSET] = {.name = "offset", .dtype = DT_I64, .kind = DT_INPUT_INTEGER},
    [P] = {.name = "p", .dtype = DT_F32},
    [LOW] = {.name = "low", .dtype = DT_I32},
    [HIGH] = {.name = "high", .dtype = DT_I32}};
static const subject_t subject = {"draws", program, N_INPUTS, N_OUTPUTS, inputs};

// ---- What is expected -----------------------------------------------------------------------------
typedef struct want_t {
  int64_t rows, width;
  uint64_t seed, offset;
  float p;
  int32_t low, high;
} want_t;

static uint64_t bits_at(uint64_t seed, uint64_t offset, uint64_t index) {
  uint32_t words[4];
  dt__philox(seed, offset, index, words);
  return (uint64_t)words[1] << 32 | words[0];
}
static uint64_t draw_at(const want_t *w, int draw, int64_t i) {
  return bits_at(w->seed, w->offset + (uint64_t)draw, (uint64_t)i);
}
static double uniform_at(const want_t *w, int draw, int64_t i, int digits) {
  return ldexp((double)(draw_at(w, draw, i) >> (64 - digits)), -digits);
}
static double box_muller(double u, double v, double least) {
  return sqrt(-2 * log(fmax(u, least))) * cos(2 * M_PI * v);
}
static double normal_at(const want_t *w, int64_t i) {
  uint64_t bits = draw_at(w, NORMAL, i);
  float u = (float)(uint32_t)(bits >> 32), v = (float)(int32_t)(uint32_t)bits;
  return box_muller(ldexp((double)u, -32), ldexp((double)v, -32), 0x1p-33);
}
static double normal_64_at(const want_t *w, int64_t i) {
  double u = (double)draw_at(w, NORMAL_64, 2 * i);
  double v = (double)(int64_t)draw_at(w, NORMAL_64, 2 * i + 1);
  return box_muller(ldexp(u, -64), ldexp(v, -64), 0x1p-65);
}
static int64_t integer_at(const want_t *w, int64_t i) {
  __extension__ typedef unsigned __int128 wide_t;
  uint64_t span = w->high > w->low ? (uint64_t)((int64_t)w->high - w->low) : 0;
  return w->low + (int64_t)(uint64_t)(((wide_t)draw_at(w, INTEGERS, i) * span) >> 64);
}
// NaN stays, and is above nothing.
static float ratio_of(const want_t *w) { return isnan(w->p) ? w->p : fminf(fmaxf(w->p, 0), 1); }
static float dropped_at(const want_t *w, float x, int64_t i) {
  float q = ratio_of(w);
  return (float)uniform_at(w, DROPPED, i, 24) >= q ? x * (1 / (1 - q)) : 0;
}

// ---- Comparing ------------------------------------------------------------------------------------
#define ELEMENT(tensor, type, i) (((const type *)dt_tensor_data(tensor))[i])

static void expect_near(double got, double want, double bound, const char *what, int64_t i) {
  if (!(fabs(got - want) <= bound))
    fail_msg("%s, element %lld: %.17g, expected %.17g", what, (long long)i, got, want);
}

static void check_floats(const want_t *w, dt_tensor_t *const *out, const float *x, int64_t i) {
  assert_true((double)ELEMENT(out[UNIFORM], float, i) == uniform_at(w, UNIFORM, i, 24));
  assert_true(ELEMENT(out[UNIFORM_64], double, i) == uniform_at(w, UNIFORM_64, i, 53));
  double half = dt__f16_widen(ELEMENT(out[UNIFORM_16], dt_f16_t, i));
  assert_true(half == uniform_at(w, UNIFORM_16, i, 11));
  double brain = dt__bf16_widen(ELEMENT(out[UNIFORM_B16], dt_bf16_t, i));
  assert_true(brain == uniform_at(w, UNIFORM_B16, i, 8));
  expect_near((double)ELEMENT(out[NORMAL], float, i), normal_at(w, i), 4e-6, "normal", i);
  expect_near(ELEMENT(out[NORMAL_64], double, i), normal_64_at(w, i), 1e-14, "normal f64", i);
  double kept = (double)dropped_at(w, x[i], i); // the evaluator rounds less often
  expect_near((double)ELEMENT(out[DROPPED], float, i), kept, 2e-7 * fabs(kept), "dropout", i);
}

static void check_whole(const want_t *w, dt_tensor_t *const *out, int64_t i) {
  int64_t row = i / w->width, column = i % w->width;
  uint64_t bits = draw_at(w, BITS, i);
  assert_int_equal(ELEMENT(out[BITS], uint64_t, i), bits);
  assert_int_equal(ELEMENT(out[TURNED], uint64_t, column * w->rows + row), bits);
  if (row % 2 == 0 && row / 2 < w->rows / 2)
    assert_int_equal(ELEMENT(out[PIECE], uint64_t, row / 2 * w->width + column), bits);
  uint64_t keyed = bits_at(w->seed + (uint64_t)row, 0, (uint64_t)i);
  assert_int_equal(ELEMENT(out[KEYED], uint64_t, i), keyed);
  assert_int_equal(ELEMENT(out[INTEGERS], int32_t, i), integer_at(w, i));
  bool chance = uniform_at(w, CHANCE, i, 24) < (double)w->p;
  assert_int_equal(ELEMENT(out[CHANCE], uint8_t, i), chance);
  bool kept = uniform_at(w, DROPPED, i, 24) >= (double)ratio_of(w);
  assert_int_equal(ELEMENT(out[KEPT], uint8_t, i), kept);
}

static void check_sums(const want_t *w, dt_tensor_t *sums) {
  for (int64_t row = 0; row < w->rows; row++) {
    double sum = 0;
    for (int64_t i = row * w->width; i < (row + 1) * w->width; i++)
      sum += uniform_at(w, UNIFORM, i, 24);
    expect_near(ELEMENT(sums, double, row), sum, 1e-12 * sum, "sum", row); // exact but for order
  }
}

static void check_answers(const want_t *w, dt_tensor_t *const *out, const float *x) {
  for (int64_t i = 0; i < w->rows * w->width; i++) {
    check_whole(w, out, i);
    check_floats(w, out, x, i);
  }
  check_sums(w, out[SUMS]);
}

// ---- Calls ----------------------------------------------------------------------------------------
static void check_call(const fixture_t *place, dt_function_t *function, const want_t *w,
                       dt_call_mode_t mode) {
  const dt_call_options_t options = {.struct_size = sizeof(options), .mode = mode};
  rng_t rng = {17};
  int64_t seed = (int64_t)w->seed, offset = (int64_t)w->offset;
  dt_tensor_t *x = tensor_f32(&rng, 2, SIZES(w->rows, w->width)), *out[N_OUTPUTS] = {NULL};
  dt_tensor_t *in[N_INPUTS] = {
      [X] = tensor_upload(place->session, x),
      [SEED] = tensor_i64(0, NULL, &seed),
      [OFFSET] = tensor_i64(0, NULL, &offset),
      [P] = tensor_from(DT_F32, 0, NULL, &w->p),
      [LOW] = tensor_from(DT_I32, 0, NULL, &w->low),
      [HIGH] = tensor_from(DT_I32, 0, NULL, &w->high),
  };
  expect_ok(dt_call(place->session, function, in, N_INPUTS, out, N_OUTPUTS, &options));
  dt_tensor_t *here[N_OUTPUTS];
  for (int k = 0; k < N_OUTPUTS; k++)
    here[k] = tensor_download(place->session, out[k]);
  expect_ok(dt_session_wait(place->session));
  check_answers(w, here, dt_tensor_data(x));
  release_tensors(here, N_OUTPUTS);
  release_tensors(out, N_OUTPUTS);
  release_tensors(in, N_INPUTS);
  dt_tensor_release(x);
}

// Seeds and offsets of few and of all bits, chances at the ends, spans of one number and of all.
static const want_t wants[] = {
    {1, 1, 0, 0, 0.5f, 0, 10},
    {7, 13, 42, 0, 0.25f, -5, 6},
    {64, 129, UINT64_MAX, UINT64_MAX - 3, 0.75f, INT32_MIN, INT32_MAX},
    {0, 5, 1, 2, 0.5f, 0, 2},
    {9, 0, 1, 2, 0.5f, 0, 2},
    {1, 257, 0x123456789abcdef0, (uint64_t)1 << 40, 0, 3, 4},
    {33, 1, 7, 0x7fffffffffffffff, 1, 9, 2},
    {5, 64, 7, 1, NAN, 2, 2},
};

static void check_place(dt_device_t device, uint32_t threads, dt_answer_t answer,
                        dt_call_mode_t mode) {
  fixture_t place = fixture_on(device, threads);
  dt_function_t *function = subject_function(place.runtime, &subject, NULL, answer);
  for (size_t k = 0; k < sizeof(wants) / sizeof(wants[0]); k++)
    for (int again = 0; again < 2; again++)
      check_call(&place, function, &wants[k], mode);
  dt_function_release(function);
  fixture_end(&place);
}

static void test_cpu(void **state) {
  (void)state;
  static const uint32_t threads[] = {1, 2, 3, 16};
  for (size_t k = 0; k < sizeof(threads) / sizeof(threads[0]); k++)
    check_place(DT_CPU, threads[k], DT_ANSWER_COMPILED, DT_CALL_DEFAULT);
}
static void test_evaluator(void **state) {
  (void)state;
  check_place(DT_CPU, 1, DT_ANSWER_EVALUATOR, DT_CALL_DEFAULT);
}
static void test_cuda(void **state) {
  (void)state;
  check_place(DT_CUDA, 1, DT_ANSWER_COMPILED, DT_CALL_DEFAULT);
}
static void test_graphs(void **state) {
  (void)state;
  check_place(DT_CUDA, 1, DT_ANSWER_COMPILED, DT_CALL_REDUCE_OVERHEAD);
}

// ---- Without fusion -------------------------------------------------------------------------------
// A big call, of which threads take pieces, and the same cut into kernels of one op each.
static dt_status_t layers(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t x = in[0];
  (void)closure;
  for (int k = 0; k < 3; k++) {
    dt_value_t offset = dt_scalar(t, DT_I64, k), ratio = dt_scalar(t, DT_F32, 0.25);
    x = dt_dropout(t, in[1], offset, dt_softmax(t, dt_add(t, x, x), 1), ratio, NULL);
  }
  out[0] = x;
  return NULL;
}

static dt_tensor_t *layers_of(uint32_t threads, dt_tensor_t *const in[2]) {
  fixture_t place = fixture_on(DT_CPU, threads);
  static const dt_input_decl_t declared[] = {
      {.name = "x", .dtype = DT_F32, .rank = 2, .dims = dims}, {.name = "seed", .dtype = DT_I64}};
  const subject_t s = {"layers", layers, 2, 1, declared};
  dt_function_t *function = subject_function(place.runtime, &s, NULL, DT_ANSWER_COMPILED);
  dt_tensor_t *out = NULL;
  expect_ok(dt_call(place.session, function, in, 2, &out, 1, NULL));
  dt_function_release(function);
  fixture_end(&place);
  return out;
}

static void test_unfused(void **state) {
  (void)state;
  rng_t rng = {3};
  int64_t seed = 5;
  dt_tensor_t *in[2] = {tensor_f32(&rng, 2, SIZES(301, 517)), tensor_i64(0, NULL, &seed)};
  dt_tensor_t *fused = layers_of(4, in);
  assert_int_equal(setenv("DUCTILE_WITHOUT", "inline,stages,prune", 1), 0);
  dt_tensor_t *apart = layers_of(1, in);
  assert_int_equal(unsetenv("DUCTILE_WITHOUT"), 0);
  for (int64_t i = 0; i < dt_tensor_count(fused); i++)
    if ((ELEMENT(fused, float, i) == 0) != (ELEMENT(apart, float, i) == 0))
      fail_msg("element %lld is dropped by one of both", (long long)i);
  RELEASE(fused, apart, in[0], in[1]);
}

RUN_TESTS(TEST(test_cpu), TEST(test_evaluator), TEST(test_cuda), TEST(test_graphs),
          TEST(test_unfused))
