// SPDX-License-Identifier: Apache-2.0
// Attention on a GPU whose scores are made a block of keys at a time (backend_cuda/emit/
// chain_keys.c), against the evaluator: sizes of heads, lengths on both sides of a block and of
// whole vectors, more queries than keys and fewer, heads apart or side by side in memory, operands
// that lie at odd places, added masks, causal ones with rows that see nothing, NaN and infinities.
// `--draws N` draws so many.
#include "test/support/fixture.h"

#include "runtime/base/half.h"
#include "test/fake_cuda/fake_cuda.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t draws = 4;

typedef struct attention_t {
  dt_dtype_t dtype;
  int64_t d, dv;
  bool packed;       // heads side by side: [b, s, h, d], seen as [b, h, s, d]
  int64_t skew;      // elements in front of each row, which are not read
  bool causal, mask; // both add what they know to scores
  bool plain;        // scores are not scaled
} attention_t;

enum { HEADS = 2 };

// Heads in front of places, without the elements that are not read.
static dt_value_t seen(dt_trace_t *t, const attention_t *a, dt_value_t x, int64_t d) {
  static const int32_t order[] = {0, 2, 1, 3};
  if (a->skew)
    x = dt_slice(t, x, -1, dt_sym_const(t, a->skew), dt_sym_const(t, d), 1);
  return a->packed ? dt_permute(t, x, order) : x;
}

static dt_value_t causal(dt_trace_t *t, dt_value_t scores) {
  const dt_sym_t one = dt_sym_const(t, 1);
  const dt_sym_t rows[2] = {dt_dim(t, scores, -2), one}, keys[2] = {one, dt_dim(t, scores, -1)};
  dt_value_t some = dt_lt(t, dt_iota(t, DT_I64, 2, keys, 1), dt_iota(t, DT_I64, 2, rows, 0));
  return dt_where(t, some, scores, dt_full(t, dt_value_dtype(t, scores), -INFINITY, 0, NULL));
}

static dt_status_t program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const attention_t *a = closure;
  dt_value_t q = seen(t, a, in[0], a->d), k = seen(t, a, in[1], a->d), v = seen(t, a, in[2], a->dv);
  dt_value_t scores = dt_matmul(t, q, dt_transpose(t, k, -1, -2));
  if (!a->plain)
    scores = dt_mul(t, scores, dt_full(t, a->dtype, 1.0 / sqrt((double)a->d), 0, NULL));
  if (a->mask)
    scores = dt_add(t, scores, in[3]);
  if (a->causal)
    scores = causal(t, scores);
  dt_value_t made = dt_matmul(t, dt_softmax(t, scores, -1), v);
  static const int32_t order[] = {0, 2, 1, 3};
  out[0] = dt_cast(t, a->packed ? dt_permute(t, made, order) : made, DT_F32);
  return NULL;
}

static dt_tensor_t *halves(rng_t *rng, dt_dtype_t dtype, const int64_t sizes[4], double scale,
                           bool odd) {
  dt_tensor_t *numbers = tensor_f32(rng, 4, sizes), *made = tensor_empty(dtype, 4, sizes);
  float *from = dt_tensor_data(numbers);
  int64_t count = dt_tensor_count(made);
  static const float values[] = {NAN, INFINITY, -INFINITY};
  for (int i = 0; odd && i < 3 && count; i++)
    from[rng_between(rng, 0, count - 1)] = values[i] / (float)scale;
  for (int64_t i = 0; i < count; i++)
    if (dtype == DT_F16)
      ((dt_f16_t *)dt_tensor_data(made))[i] = dt__f16_round(from[i] * scale);
    else
      ((dt_bf16_t *)dt_tensor_data(made))[i] = dt__bf16_round(from[i] * scale);
  RELEASE(numbers);
  return made;
}

// A row of places with gaps, as inputs are declared.
static void sizes_of(const attention_t *a, int64_t b, int64_t s, int64_t d, int64_t out[4]) {
  out[0] = b;
  out[1] = a->packed ? s : HEADS;
  out[2] = a->packed ? HEADS : s;
  out[3] = d + a->skew;
}

typedef struct made_t {
  dt_function_t *code, *evaluator;
} made_t;

static made_t make(fixture_t *f, attention_t *a) {
  dt_dim_decl_t dims[4][4] = {0};
  dt_input_decl_t inputs[4] = {0};
  static const char *const names[] = {"q", "k", "v", "mask"};
  for (int i = 0; i < 4; i++) {
    int place = a->packed ? 1 : 2;
    dims[i][0].name = "b";
    dims[i][place].name = i ? "keys" : "queries";
    dims[i][3 - place] = (dt_dim_decl_t){.is_static = true, .value = HEADS};
    dims[i][3] = (dt_dim_decl_t){.is_static = true, .value = (i == 2 ? a->dv : a->d) + a->skew};
    inputs[i] = (dt_input_decl_t){.name = names[i], .dtype = a->dtype, .rank = 4, .dims = dims[i]};
  }
  const dt_dim_decl_t one = {.is_static = true, .value = 1};
  dims[3][1] = dims[3][2] = one;
  dims[3][3] = (dt_dim_decl_t){.name = "keys"};
  dt_function_options_t options = options_of(a->mask ? 4 : 3, inputs);
  made_t made = {.code = function_of(f, program, a, &options)};
  options.answer = DT_ANSWER_EVALUATOR;
  made.evaluator = function_of(f, program, a, &options);
  return made;
}

// What is set in operands, at random in queries or in each last value of a column of its own.
typedef enum odd_t { NOTHING_ODD, ODD_QUERIES, ODD_LAST_VALUES } odd_t;
// ORDER(odd_t)
static const char *const odd_names[] = {"", ", odd queries", ", odd last values"};

static void set_half(dt_dtype_t dtype, dt_tensor_t *x, int64_t at, float value) {
  if (dtype == DT_F16)
    ((dt_f16_t *)dt_tensor_data(x))[at] = dt__f16_round(value);
  else
    ((dt_bf16_t *)dt_tensor_data(x))[at] = dt__bf16_round(value);
}

// Of the last key, in the last head.
static void set_last_values(const attention_t *a, dt_tensor_t *v) {
  static const float values[] = {NAN, INFINITY, -INFINITY};
  int64_t count = dt_tensor_count(v);
  for (int64_t i = 0; i < 3 && count; i++)
    set_half(a->dtype, v, count - 1 - i * 2, values[i]);
}

static void compare(fixture_t *f, dt_session_t *host, const made_t *made, const attention_t *a,
                    const int64_t lengths[3], odd_t odd) {
  int64_t sizes[4];
  dt_tensor_t *x[4] = {0}, *there[4] = {0}, *y = NULL, *z = NULL;
  uint32_t n = a->mask ? 4 : 3;
  for (uint32_t i = 0; i < n; i++) {
    sizes_of(a, lengths[0], lengths[i ? 2 : 1], i == 2 ? a->dv : a->d, sizes);
    if (i == 3)
      memcpy(sizes, SIZES(lengths[0], 1, 1, lengths[2]), sizeof(sizes));
    x[i] = halves(&f->rng, a->dtype, sizes, i == 3 ? 4 : 1.5, odd == ODD_QUERIES && i == 0);
    if (odd == ODD_LAST_VALUES && i == 2)
      set_last_values(a, x[i]);
    there[i] = tensor_upload(f->session, x[i]);
  }
  char what[160];
  snprintf(what, sizeof what, "%s d %lld %lld%s%s%s skew %lld: %lld x %lld queries x %lld keys%s",
           dt_dtype_name(a->dtype), (long long)a->d, (long long)a->dv, a->packed ? " packed" : "",
           a->causal ? " causal" : "", a->mask ? " mask" : "", (long long)a->skew,
           (long long)lengths[0], (long long)lengths[1], (long long)lengths[2], odd_names[odd]);
  expect_ok(dt_call(f->session, made->code, there, n, &y, 1, NULL));
  expect_ok(dt_call(host, made->evaluator, x, n, &z, 1, NULL));
  dt_tensor_t *back = tensor_download(f->session, y);
  double tolerance = a->dtype == DT_F16 ? 8e-3 : 6e-2;
  expect_close(back, z, tolerance, tolerance, what);
  release_tensors(x, n);
  release_tensors(there, n);
  RELEASE(y, z, back);
}

static void check(fixture_t *f, dt_session_t *host, attention_t *a, const int64_t (*lengths)[3],
                  size_t n) {
  made_t made = make(f, a);
  for (size_t i = 0; i < n; i++)
    compare(f, host, &made, a, lengths[i], NOTHING_ODD);
  compare(f, host, &made, a, lengths[0], ODD_QUERIES);
  if (a->causal && lengths[0][1] < lengths[0][2]) // which no row sees
    compare(f, host, &made, a, lengths[0], ODD_LAST_VALUES);
  assert_int_equal(stats_of(made.code).evaluator_calls, 0);
  dt_function_release(made.code);
  dt_function_release(made.evaluator);
}

// All lengths in one variant: those of scores in registers, or in memory, are among them.
static void test_forms(void **state) {
  static const int64_t lengths[][3] = {{1, 70, 260},  {1, 128, 320}, {2, 65, 513}, {1, 5, 300},
                                       {1, 130, 100}, {0, 70, 300},  {1, 66, 258}};
  static const attention_t forms[] = {{DT_F16, 32, 32, false, 0, false, false, false},
                                      {DT_F16, 64, 64, true, 0, false, true, false},
                                      {DT_BF16, 64, 32, false, 0, true, false, false},
                                      {DT_F16, 16, 128, true, 3, true, true, false},
                                      {DT_BF16, 128, 8, true, 8, false, false, false},
                                      {DT_F16, 24, 40, false, 1, true, false, false},
                                      {DT_F16, 16, 24, false, 0, false, false, true}};
  fixture_t f = fixture_on(DT_CUDA, 2);
  dt_session_t *host = session_of(f.runtime);
  (void)state;
  f.rng = (rng_t){3};
  for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
    attention_t own = forms[i];
    check(&f, host, &own, lengths, sizeof(lengths) / sizeof(lengths[0]));
  }
  dt_session_destroy(host);
  fixture_end(&f);
}

static void test_drawn(void **state) {
  fixture_t f = fixture_on(DT_CUDA, 2);
  dt_session_t *host = session_of(f.runtime);
  (void)state;
  for (uint64_t seed = 1; seed <= draws; seed++) {
    f.rng = (rng_t){seed};
    static const int64_t heads[] = {8, 16, 32, 40, 64, 96, 128};
    attention_t a = {.dtype = rng_between(&f.rng, 0, 1) ? DT_F16 : DT_BF16,
                     .d = heads[rng_between(&f.rng, 0, 6)],
                     .dv = heads[rng_between(&f.rng, 0, 6)],
                     .packed = rng_between(&f.rng, 0, 1) != 0,
                     .skew = rng_between(&f.rng, 0, 2) ? 0 : rng_between(&f.rng, 1, 8),
                     .causal = rng_between(&f.rng, 0, 1) != 0,
                     .mask = rng_between(&f.rng, 0, 1) != 0,
                     .plain = !rng_between(&f.rng, 0, 3)};
    const int64_t lengths[2][3] = {{1, rng_between(&f.rng, 65, 140), rng_between(&f.rng, 257, 400)},
                                   {1, rng_between(&f.rng, 1, 140), rng_between(&f.rng, 1, 300)}};
    check(&f, host, &a, lengths, 2);
  }
  dt_session_destroy(host);
  fixture_end(&f);
}

// ---- Windows --------------------------------------------------------------------------------------

// Of 8 x 8 places of an image, whose rows lie at no fixed distance.
static dt_value_t windows(dt_trace_t *t, dt_value_t x) {
  const dt_sym_t n = dt_dim(t, x, 0), two = dt_sym_const(t, 2), eight = dt_sym_const(t, 8);
  const dt_sym_t apart[] = {n, two, eight, two, eight, dt_sym_const(t, 64)};
  const dt_sym_t rows[] = {n, dt_sym_const(t, 4), dt_sym_const(t, 64), dt_sym_const(t, 64)};
  static const int32_t order[] = {0, 1, 3, 2, 4, 5};
  return dt_reshape(t, dt_permute(t, dt_reshape(t, x, 6, apart), order), 4, rows);
}

static dt_status_t windowed(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t q = windows(t, in[0]), k = windows(t, in[1]), v = windows(t, in[2]);
  (void)closure;
  dt_value_t scores = dt_matmul(t, q, dt_transpose(t, k, -1, -2));
  scores = dt_mul(t, scores, dt_full(t, DT_F16, 0.125, 0, NULL));
  out[0] = dt_cast(t, dt_matmul(t, dt_softmax(t, scores, -1), v), DT_F32);
  return NULL;
}

static void test_windows(void **state) {
  const dt_dim_decl_t side = {.is_static = true, .value = 16};
  const dt_dim_decl_t dims[4] = {{.name = "n"}, side, side, {.is_static = true, .value = 64}};
  const dt_input_decl_t inputs[3] = {{.name = "q", .dtype = DT_F16, .rank = 4, .dims = dims},
                                     {.name = "k", .dtype = DT_F16, .rank = 4, .dims = dims},
                                     {.name = "v", .dtype = DT_F16, .rank = 4, .dims = dims}};
  fixture_t f = fixture_on(DT_CUDA, 2);
  dt_session_t *host = session_of(f.runtime);
  dt_function_options_t options = options_of(3, inputs);
  made_t made = {.code = function_of(&f, windowed, NULL, &options)};
  options.answer = DT_ANSWER_EVALUATOR;
  made.evaluator = function_of(&f, windowed, NULL, &options);
  (void)state;
  f.rng = (rng_t){5};
  for (int64_t n = 1; n <= 2; n++) {
    dt_tensor_t *x[3], *there[3], *y = NULL, *z = NULL;
    for (int i = 0; i < 3; i++) {
      x[i] = halves(&f.rng, DT_F16, SIZES(n, 16, 16, 64), 1, false);
      there[i] = tensor_upload(f.session, x[i]);
    }
    expect_ok(dt_call(f.session, made.code, there, 3, &y, 1, NULL));
    expect_ok(dt_call(host, made.evaluator, x, 3, &z, 1, NULL));
    dt_tensor_t *back = tensor_download(f.session, y);
    expect_close(back, z, 8e-3, 8e-3, "windows of an image");
    release_tensors(x, 3);
    release_tensors(there, 3);
    RELEASE(y, z, back);
  }
  dt_function_release(made.code);
  dt_function_release(made.evaluator);
  dt_session_destroy(host);
  fixture_end(&f);
}

// ---- Several items of a block ---------------------------------------------------------------------

// Of those of the batch that data names: blocks are then as many as keep a device busy, and each
// takes item after item.
static dt_status_t chosen(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t x = dt_gather(t, in[0], dt_squeeze(t, dt_nonzero(t, in[1]), 1), 0);
  (void)closure;
  dt_value_t scores = dt_matmul(t, x, dt_transpose(t, x, -1, -2));
  scores = dt_mul(t, scores, dt_full(t, DT_F16, 0.25, 0, NULL));
  static const int32_t batch[] = {0};
  out[0] =
      dt_mean(t, dt_cast(t, dt_matmul(t, dt_softmax(t, scores, -1), x), DT_F32), 1, batch, false);
  return NULL;
}

static void test_chosen(void **state) {
  enum { BATCH = 22, PLACES = 70, D = 8 };
  const dt_dim_decl_t dims[4] = {{.name = "n"},
                                 {.is_static = true, .value = HEADS},
                                 {.name = "s"},
                                 {.is_static = true, .value = D}};
  const dt_input_decl_t inputs[2] = {{.name = "x", .dtype = DT_F16, .rank = 4, .dims = dims},
                                     {.name = "which", .dtype = DT_F32, .rank = 1, .dims = dims}};
  fake_cuda_processors(1);
  fixture_t f = fixture_on(DT_CUDA, 2);
  dt_session_t *host = session_of(f.runtime);
  dt_function_options_t options = options_of(2, inputs);
  dt_function_t *code = function_of(&f, chosen, NULL, &options);
  options.answer = DT_ANSWER_EVALUATOR;
  dt_function_t *evaluator = function_of(&f, chosen, NULL, &options);
  (void)state;
  f.rng = (rng_t){9};
  float which[BATCH];
  for (int i = 0; i < BATCH; i++)
    which[i] = (float)(i != 3 && i != BATCH - 1);
  dt_tensor_t *x[2] = {halves(&f.rng, DT_F16, SIZES(BATCH, HEADS, PLACES, D), 1, false),
                       tensor_from(DT_F32, 1, SIZES(BATCH), which)};
  dt_tensor_t *there[2] = {tensor_upload(f.session, x[0]), tensor_upload(f.session, x[1])};
  dt_tensor_t *y = NULL, *z = NULL;
  expect_ok(dt_call(f.session, code, there, 2, &y, 1, NULL));
  expect_ok(dt_call(host, evaluator, x, 2, &z, 1, NULL));
  dt_tensor_t *back = tensor_download(f.session, y);
  expect_close(back, z, 8e-3, 8e-3, "attention of those that data names");
  release_tensors(x, 2);
  release_tensors(there, 2);
  RELEASE(y, z, back);
  dt_function_release(code);
  dt_function_release(evaluator);
  dt_session_destroy(host);
  fixture_end(&f);
  fake_cuda_processors(0);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {TEST(test_forms), TEST(test_drawn), TEST(test_windows),
                                     TEST(test_chosen)};
  if (argc == 3 && !strcmp(argv[1], "--draws"))
    draws = strtoull(argv[2], NULL, 10);
  (void)setenv("FAKE_CUDA_STRICT", "1", 0);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
