// SPDX-License-Identifier: Apache-2.0
// Random numbers follow the laws that random.h names: moments, frequencies, independence of
// neighbours, of seeds and of offsets. Seeds are fixed, so that an answer is right or wrong for
// good; bounds are five deviations and more of what chance does.
#include "test/support/subjects.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1 << 18 };

// ---- Draws ----------------------------------------------------------------------------------------
// f(like f32[n], seed, offset, a f32) of one kind.
typedef enum law_t { UNIFORM, NORMAL, NORMAL_64, DICE, CHANCE, DROPOUT, PERMUTATION } law_t;

static dt_status_t draw(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const dt_sym_t n = dt_dim(t, in[0], 0);
  dt_value_t seed = in[1], offset = in[2], zero = dt_scalar(t, DT_I64, 0);
  switch (*(const law_t *)closure) {
  case UNIFORM:
    out[0] = dt_random_uniform(t, DT_F64, seed, offset, 1, &n);
    break;
  case NORMAL:
    out[0] = dt_random_normal(t, DT_F32, seed, offset, 1, &n);
    break;
  case NORMAL_64:
    out[0] = dt_random_normal(t, DT_F64, seed, offset, 1, &n);
    break;
  case DICE:
    out[0] = dt_random_integers(t, seed, offset, zero, dt_scalar(t, DT_I64, 6), 1, &n);
    break;
  case CHANCE:
    out[0] = dt_bernoulli(t, seed, offset, dt_expand(t, in[3], 1, &n));
    break;
  case DROPOUT:
    out[0] = dt_dropout(t, seed, offset, in[0], in[3], NULL);
    break;
  default:
    out[0] = dt_random_permutation(t, seed, offset, n);
  }
  out[0] = dt_cast(t, out[0], DT_F64);
  return NULL;
}

typedef struct source_t {
  fixture_t *f;
  dt_function_t *function;
  law_t law;
} source_t;

static void source_open(source_t *s, fixture_t *f, law_t law) {
  static const dt_dim_decl_t dims[] = {{.name = "n"}};
  static const dt_input_decl_t inputs[] = {
      {.name = "like", .dtype = DT_F32, .rank = 1, .dims = dims},
      {.name = "seed", .dtype = DT_I64},
      {.name = "offset", .dtype = DT_I64},
      {.name = "a", .dtype = DT_F32}};
  static const subject_t subject = {"draw", draw, 4, 1, inputs};
  s->f = f;
  s->law = law;
  s->function = subject_function(f->runtime, &subject, &s->law, compiled_answer());
}

// n numbers; the caller frees them.
static double *draw_n(source_t *s, int64_t n, int64_t seed, int64_t offset, float a) {
  dt_tensor_t *in[4] = {tensor_full(1, 1, &n), tensor_i64(0, NULL, &seed),
                        tensor_i64(0, NULL, &offset), tensor_from(DT_F32, 0, NULL, &a)};
  dt_tensor_t *out = NULL;
  expect_ok(dt_call(s->f->session, s->function, in, 4, &out, 1, NULL));
  double *numbers = malloc((size_t)(n ? n : 1) * sizeof(*numbers));
  memcpy(numbers, dt_tensor_data(out), (size_t)n * sizeof(*numbers));
  release_tensors(in, 4);
  dt_tensor_release(out);
  return numbers;
}

// ---- Measures -------------------------------------------------------------------------------------
static double moment(const double *x, int64_t n, double mean, int power) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++)
    sum += pow(x[i] - mean, power);
  return sum / (double)n;
}

static void expect_about(double got, double want, double deviation, const char *what) {
  if (!(fabs(got - want) <= 5 * deviation))
    fail_msg("%s: %.9g, expected %.9g within 5 times %.3g", what, got, want, deviation);
}

// The correlation of pairs that should have none.
static void expect_apart(const double *a, const double *b, int64_t n, const char *what) {
  double ma = moment(a, n, 0, 1), mb = moment(b, n, 0, 1), sum = 0;
  for (int64_t i = 0; i < n; i++)
    sum += (a[i] - ma) * (b[i] - mb);
  double scale = sqrt(moment(a, n, ma, 2) * moment(b, n, mb, 2)) * (double)n;
  expect_about(sum / scale, 0, 1 / sqrt((double)n), what);
}

// Chi-square of numbers that fall into `cells` equally likely ones.
static void expect_even(const double *x, int64_t n, double cells, const char *what) {
  uint32_t counts[256] = {0};
  double expected = (double)n / cells, sum = 0;
  for (int64_t i = 0; i < n; i++) {
    assert_true(x[i] >= 0 && x[i] < cells);
    counts[(int)x[i]]++;
  }
  for (int k = 0; k < (int)cells; k++)
    sum += ((double)counts[k] - expected) * ((double)counts[k] - expected) / expected;
  expect_about(sum, cells - 1, sqrt(2 * (cells - 1)), what);
}

// ---- Laws -----------------------------------------------------------------------------------------
static void test_uniform(void **state) {
  source_t s;
  source_open(&s, *state, UNIFORM);
  double *x = draw_n(&s, N, 1, 0, 0), *seed = draw_n(&s, N, 2, 0, 0);
  double *offset = draw_n(&s, N, 1, 1, 0), *upper = draw_n(&s, N, 1 + ((int64_t)1 << 32), 0, 0);
  double mean = moment(x, N, 0, 1);
  expect_about(mean, 0.5, sqrt(1.0 / 12 / N), "mean");
  expect_about(moment(x, N, 0.5, 2), 1.0 / 12, sqrt(1.0 / 180 / N), "variance");
  expect_apart(x, x + 1, N - 1, "neighbours");
  expect_apart(x, x + 512, N - 512, "far neighbours");
  expect_apart(x, seed, N, "seeds");
  expect_apart(x, upper, N, "seeds that differ above 32 bits");
  expect_apart(x, offset, N, "offsets");
  for (int64_t i = 0; i < N; i++)
    x[i] *= 256;
  expect_even(x, N, 256, "upper bits");
  for (int64_t i = 0; i < N; i++)
    x[i] = fmod(x[i] * 65536, 256);
  expect_even(x, N, 256, "lower bits");
  free(x);
  free(seed);
  free(offset);
  free(upper);
  dt_function_release(s.function);
}

static void check_normal(fixture_t *f, law_t law) {
  source_t s;
  source_open(&s, f, law);
  double *x = draw_n(&s, N, 3, 0, 0), most = law == NORMAL ? 6.77 : 9.5;
  expect_about(moment(x, N, 0, 1), 0, sqrt(1.0 / N), "mean");
  expect_about(moment(x, N, 0, 2), 1, sqrt(2.0 / N), "variance");
  expect_about(moment(x, N, 0, 3), 0, sqrt(15.0 / N), "third moment");
  expect_about(moment(x, N, 0, 4), 3, sqrt(96.0 / N), "fourth moment");
  expect_about(moment(x, N, 0, 6), 15, sqrt(10170.0 / N), "sixth moment");
  expect_apart(x, x + 1, N - 1, "neighbours");
  for (int64_t i = 0; i < N; i++) {
    assert_true(fabs(x[i]) < most);
    x[i] = 64 * erfc(-x[i] * M_SQRT1_2); // 128 times the probability of what is below
  }
  expect_even(x, N, 128, "quantiles");
  free(x);
  dt_function_release(s.function);
}
static void test_normal(void **state) {
  check_normal(*state, NORMAL);
  check_normal(*state, NORMAL_64);
}

static void test_integers(void **state) {
  source_t s;
  source_open(&s, *state, DICE);
  double *x = draw_n(&s, N, 4, 9, 0);
  expect_even(x, N, 6, "dice");
  expect_apart(x, x + 1, N - 1, "neighbours");
  free(x);
  dt_function_release(s.function);
}

static void test_chances(void **state) {
  static const float chances[] = {0, 0.01f, 0.3f, 0.9f, 1};
  source_t s, d;
  source_open(&s, *state, CHANCE);
  source_open(&d, *state, DROPOUT);
  for (size_t k = 0; k < sizeof(chances) / sizeof(chances[0]); k++) {
    double p = (double)chances[k], deviation = sqrt(p * (1 - p) / N);
    double *x = draw_n(&s, N, 5, 0, chances[k]), *y = draw_n(&d, N, 5, 1, chances[k]);
    expect_about(moment(x, N, 0, 1), p, deviation, "chance");
    if (p < 1)
      expect_about(moment(y, N, 0, 1), 1, deviation / (1 - p) + 1e-7, "mean behind dropout");
    for (int64_t i = 0; i < N && p == 1; i++)
      assert_true(y[i] == 0);
    free(x);
    free(y);
  }
  dt_function_release(s.function);
  dt_function_release(d.function);
}

// ---- Permutations ---------------------------------------------------------------------------------
static void expect_permutation(const double *x, int64_t n) {
  unsigned char *seen = calloc((size_t)n + 1, 1);
  for (int64_t i = 0; i < n; i++) {
    assert_true(x[i] >= 0 && x[i] < (double)n && x[i] == floor(x[i]));
    assert_false(seen[(int64_t)x[i]]);
    seen[(int64_t)x[i]] = 1;
  }
  free(seen);
}

static void test_permutations(void **state) {
  static const int64_t sizes[] = {0, 1, 2, 3, 17, 1000, 5000};
  source_t s;
  source_open(&s, *state, PERMUTATION);
  for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++)
    for (int64_t seed = 0; seed < 3; seed++) {
      double *x = draw_n(&s, sizes[k], seed, 0, 0);
      expect_permutation(x, sizes[k]);
      free(x);
    }
  double places[1200];
  for (int64_t k = 0; k < 1200; k++) { // each order of three is as likely as any other
    double *x = draw_n(&s, 3, 11, k, 0);
    places[k] = x[0] * 2 + (x[1] > x[2]);
    free(x);
  }
  expect_even(places, 1200, 6, "orders of three");
  dt_function_release(s.function);
}

static int setup(void **state) { return fixture_open(state, 2, 7); }

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST_WITH(test_uniform, setup, fixture_close), TEST_WITH(test_normal, setup, fixture_close),
      TEST_WITH(test_integers, setup, fixture_close), TEST_WITH(test_chances, setup, fixture_close),
      TEST_WITH(test_permutations, setup, fixture_close)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
