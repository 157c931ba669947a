// SPDX-License-Identifier: Apache-2.0
// A pattern with two outputs, a residual sum and its norm, over encoders of 12 layers as exporters
// write them: how often it matches, that the answers stay, and why 20 others that nearly fit do
// not.
#include "test/unit/frontends/onnx_export.h"
#include "test/unit/frontends/onnx_rig.h"

#include "ductile/pattern.h"

#include <stdlib.h>
#include <string.h>

enum { LAYERS = 12 };

static int setup(void **state) { return fixture_open(state, 1, 11); }

// ---- The pattern --------------------------------------------------------------------------------
enum { A, B, GAMMA, BETA, EPSILON, TWO, BIAS, WILDCARDS }; // programs leave the last ones out

// How its program and its wildcards differ from what exporters write.
typedef enum spelling_t {
  AS_WRITTEN,
  LINEAR_FIRST, // the first addend is itself a sum with a constant, as behind a product
  NORM_AS_OP,
  BY_RSQRT,
  EPSILON_LAST,
  SQUARE_BY_MUL,
  MEAN_MINUS,
  MEAN_OF_TWO_AXES,
  BY_MAXIMUM,
  BETA_TAKEN,
  BETA_FIRST,
  SUM_OF_THREE,
  NORM_OF_DIFFERENCE,
  WITH_RELU,
  SUM_INSIDE, // the sum is no output
  CUBED,
  LARGE_EPSILON,
  WIDE,
  IN_F64,
  MATRICES,
  NEGATED,
  GAMMA_COMPUTED,
  ADDEND_CONSTANT,
  CHECKED,
  SPELLINGS
} spelling_t;

static dt_value_t squared(dt_trace_t *t, spelling_t how, dt_value_t x, dt_value_t two) {
  return how == SQUARE_BY_MUL ? dt_mul(t, x, x) : dt_pow(t, x, two);
}

static dt_value_t mean_of(dt_trace_t *t, spelling_t how, dt_value_t x) {
  const int32_t axes[] = {-1, -2};
  return how == BY_MAXIMUM ? dt_amax(t, x, 1, axes, true)
                           : dt_mean(t, x, how == MEAN_OF_TWO_AXES ? 2 : 1, axes, true);
}

static dt_value_t sum_of(dt_trace_t *t, spelling_t how, const dt_value_t *in) {
  switch (how) {
  case LINEAR_FIRST:
    return dt_add(t, dt_add(t, in[BIAS], in[A]), in[B]);
  case SUM_OF_THREE:
    return dt_add(t, dt_add(t, in[A], in[B]), dt_exp(t, in[B]));
  case NORM_OF_DIFFERENCE:
    return dt_sub(t, in[A], in[B]);
  case WITH_RELU:
    return dt_add(t, dt_relu(t, in[A]), in[B]);
  default:
    return dt_add(t, in[A], how == NEGATED ? dt_neg(t, in[B]) : in[B]);
  }
}

// centred / sqrt(mean(centred²) + epsilon), and other ways.
static dt_value_t scaled(dt_trace_t *t, spelling_t how, dt_value_t sum, const dt_value_t *in) {
  dt_value_t mean = mean_of(t, how, sum);
  dt_value_t centred = how == MEAN_MINUS ? dt_sub(t, mean, sum) : dt_sub(t, sum, mean);
  dt_value_t variance = dt_mean(t, squared(t, how, centred, in[TWO]), 1, (int32_t[]){-1}, true);
  if (how == EPSILON_LAST)
    return dt_div(t, centred, dt_add(t, dt_sqrt(t, variance), in[EPSILON]));
  variance = dt_add(t, variance, in[EPSILON]);
  return how == BY_RSQRT ? dt_mul(t, centred, dt_rsqrt(t, variance))
                         : dt_div(t, centred, dt_sqrt(t, variance));
}

static dt_status_t spelled(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  spelling_t how = *(const spelling_t *)closure;
  out[1] = sum_of(t, how, in);
  if (how == NORM_AS_OP) {
    out[0] = dt_layer_norm(t, out[1], in[GAMMA], in[BETA], 1e-12);
    return NULL;
  }
  dt_value_t norm = scaled(t, how, out[1], in);
  if (how == BETA_FIRST) {
    out[0] = dt_mul(t, dt_add(t, norm, in[BETA]), in[GAMMA]);
    return NULL;
  }
  norm = dt_mul(t, norm, how == GAMMA_COMPUTED ? dt_exp(t, in[GAMMA]) : in[GAMMA]);
  out[0] = how == BETA_TAKEN ? dt_sub(t, norm, in[BETA]) : dt_add(t, norm, in[BETA]);
  return NULL;
}

// The library's op, with the epsilon as it was written.
static dt_status_t as_op(dt_match_t *match, dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                         void *closure) {
  spelling_t how = *(const spelling_t *)closure;
  double epsilon = 0;
  assert_true(dt_match_literal(match, "epsilon", &epsilon));
  out[1] = sum_of(t, how, in);
  out[0] = dt_layer_norm(t, out[1], in[GAMMA], in[BETA], epsilon);
  return NULL;
}

static bool is_two(double number, void *closure) {
  return number == (*(const spelling_t *)closure == CUBED ? 3 : 2);
}
static bool is_epsilon(double number, void *closure) {
  return *(const spelling_t *)closure == LARGE_EPSILON ? number > 1e-9 : number < 1e-3;
}
static const char *refuse(dt_match_t *match, void *closure) {
  (void)match;
  return *(const spelling_t *)closure == CHECKED ? "not today" : NULL;
}

static uint32_t n_wildcards(spelling_t how) {
  return how == LINEAR_FIRST    ? WILDCARDS
         : how == SQUARE_BY_MUL ? TWO
         : how == NORM_AS_OP    ? EPSILON
                                : BIAS;
}

static dt_pattern_t *make_pattern(spelling_t *how) {
  const bool is_ranked = *how == MATRICES || *how == WIDE;
  const dt_dim_decl_t dims[3] = {{.name = NULL}, {.name = NULL}, {.is_static = true, .value = 16}};
  const dt_wildcard_t wildcards[] = {
      {.name = "a",
       .dtype = *how == IN_F64 ? DT_F64 : DT_DTYPE_NONE,
       .kind = *how == ADDEND_CONSTANT ? DT_WILDCARD_CONSTANT : DT_WILDCARD_VALUE,
       .ranked = is_ranked,
       .rank = *how == MATRICES ? 2
               : is_ranked      ? 3
                                : 0,
       .dims = *how == WIDE ? dims : NULL},
      {.name = "b"},
      {.name = "gamma", .ranked = true, .rank = 1},
      {.name = "beta", .ranked = true, .rank = 1},
      {.name = "epsilon", .kind = DT_WILDCARD_LITERAL, .accepts = is_epsilon},
      {.name = "two", .kind = DT_WILDCARD_LITERAL, .accepts = is_two},
      {.name = "bias", .kind = DT_WILDCARD_CONSTANT}};
  const dt_pattern_options_t options = {.struct_size = sizeof options,
                                        .name = "sum_and_norm",
                                        .point = DT_POINT_TRACED,
                                        .n_wildcards = n_wildcards(*how),
                                        .n_outputs = *how == SUM_INSIDE ? 1 : 2,
                                        .wildcard_size = sizeof wildcards[0],
                                        .dim_size = sizeof dims[0],
                                        .wildcards = wildcards};
  dt_pattern_t *made = NULL;
  expect_ok(dt_pattern_create(spelled, as_op, refuse, how, &options, &made));
  return made;
}

// ---- Encoders -----------------------------------------------------------------------------------
static dt_function_t *encoder(const fixture_t *f, bool pre, dt_answer_t answer,
                              onnx_bytes_t *bytes) {
  char *text = export_text(LAYERS, pre);
  *bytes = onnx_make(&dt__onnx_model_message, text);
  free(text);
  dt_onnx_t *file = NULL;
  expect_ok(dt_onnx_open_memory(bytes->data, bytes->len, NULL, &file));
  dt_function_t *made = rig_function(f, file, answer);
  dt_onnx_close(file);
  return made;
}

static dt_tensor_t *called(fixture_t *f, dt_function_t *function, int64_t batch, int64_t length) {
  const int64_t sizes[] = {batch, length};
  f->rng = (rng_t){5};
  dt_tensor_t *in[] = {rig_integers(f, DT_I64, 0, EXPORT_WORDS - 1, 2, sizes),
                       rig_integers(f, DT_I64, 0, 1, 2, sizes)};
  dt_tensor_t *out = NULL;
  expect_ok(dt_call(f->session, function, in, 2, &out, 1, NULL));
  RELEASE(in[0], in[1]);
  return out;
}

static void expect_matches(fixture_t *f, spelling_t how, bool pre, dt_answer_t answer,
                           uint64_t expected) {
  onnx_bytes_t bytes[2];
  dt_function_t *without = encoder(f, pre, DT_ANSWER_EVALUATOR, &bytes[0]);
  dt_pattern_t *pattern = make_pattern(&how);
  expect_ok(dt_runtime_add_pattern(f->runtime, pattern));
  dt_function_t *with = encoder(f, pre, answer, &bytes[1]);
  static const int64_t sizes[][2] = {{2, 5}, {1, 1}, {3, 9}, {0, 4}};
  for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
    dt_tensor_t *got = called(f, with, sizes[k][0], sizes[k][1]);
    dt_tensor_t *want = called(f, without, sizes[k][0], sizes[k][1]);
    expect_close(got, want, 1e-4, 1e-4, "with the pattern");
    RELEASE(got, want);
  }
  assert_int_equal(dt_pattern_count(pattern), expected);
  expect_ok(dt_runtime_remove_pass(f->runtime, "sum_and_norm"));
  dt_function_release(with);
  dt_function_release(without);
  dt_pattern_release(pattern);
  onnx_free(&bytes[0]);
  onnx_free(&bytes[1]);
}

// Behind the embeddings and in each layer twice.
static void test_each_norm_matches_once(void **state) {
  expect_matches(*state, AS_WRITTEN, false, DT_ANSWER_EVALUATOR, 1 + 2 * LAYERS);
  expect_matches(*state, LINEAR_FIRST, false, DT_ANSWER_EVALUATOR, 2 * LAYERS);
}

// The sums are used by the next sum, too.
static void test_sums_that_go_on(void **state) {
  expect_matches(*state, AS_WRITTEN, true, compiled_answer(), 1 + 2 * LAYERS);
}

// ---- What nearly fits ---------------------------------------------------------------------------
// As far as the nearest one.
static const char *const goldens[SPELLINGS] = {
    [NORM_AS_OP] = "pattern sum_and_norm: 0 matches\n"
                   "no node is its first output: wanted layer_norm\n",
    [BY_RSQRT] = "pattern sum_and_norm: 0 matches\n"
                 "nearest misses:\n"
                 "  at %44 (add, node of \"v36\" (Add, operator set 13):21), 2 of 16 nodes "
                 "found: %36 (div, node of \"v32\" (Div, operator set 13):19): wanted mul, "
                 "found div\n",
    [EPSILON_LAST] = "pattern sum_and_norm: 0 matches\n"
                     "nearest misses:\n"
                     "  at %44 (add, node of \"v36\" (Add, operator set 13):21), 8 of 16 nodes "
                     "found: %34 (sqrt, node of \"v31\" (Sqrt, operator set 13):18): wanted add, "
                     "found sqrt\n",
    [SQUARE_BY_MUL] = "pattern sum_and_norm: 0 matches\n"
                      "nearest misses:\n"
                      "  at %44 (add, node of \"v36\" (Add, operator set 13):21), 11 of 15 nodes "
                      "found: %28 (pow, node of \"v27\" (Pow, operator set 13):15): wanted mul, "
                      "found pow\n",
    [MEAN_MINUS] = "pattern sum_and_norm: 0 matches\n"
                   "nearest misses:\n"
                   "  at %44 (add, node of \"v36\" (Add, operator set 13):21), 4 of 16 nodes "
                   "found: %21 (add, node of \"v23\" (Add, operator set 13):12): wanted mean, "
                   "found add\n",
    [MEAN_OF_TWO_AXES] =
        "pattern sum_and_norm: 0 matches\n"
        "nearest misses:\n"
        "  at %44 (add, node of \"v36\" (Add, operator set 13):21), 16 of 16 nodes "
        "found: %22 (mean, node of \"v24\" (ReduceMean, operator set 13):13): wanted "
        "axes [1, 2], found [2]\n",
    [BY_MAXIMUM] = "pattern sum_and_norm: 0 matches\n"
                   "nearest misses:\n"
                   "  at %44 (add, node of \"v36\" (Add, operator set 13):21), 7 of 16 nodes "
                   "found: %22 (mean, node of \"v24\" (ReduceMean, operator set 13):13): wanted "
                   "amax, found mean\n",
    [BETA_TAKEN] = "pattern sum_and_norm: 0 matches\n"
                   "nearest misses:\n"
                   "  at %9 (sub, node of \"v8\" (Sub, operator set 13):4), 1 of 16 nodes found: "
                   "%6 (scalar, node of \"v8\" (Sub, operator set 13):4): wanted mul, found "
                   "scalar\n",
    [BETA_FIRST] = "pattern sum_and_norm: 0 matches\n"
                   "nearest misses:\n"
                   "  at %125 (mul, node of \"v141\" (Mul, operator set 13):86), 2 of 16 nodes "
                   "found: %112 (constant, node of \"v135\" (Add, operator set 13):82): wanted "
                   "div, found constant\n",
    [SUM_OF_THREE] = "pattern sum_and_norm: 0 matches\n"
                     "nearest misses:\n"
                     "  at %109 (add, node of \"v131\" (Add, operator set 13):80), 8 of 18 nodes "
                     "found: %21 (add, node of \"v23\" (Add, operator set 13):12): wanted exp, "
                     "found add\n",
    [NORM_OF_DIFFERENCE] =
        "pattern sum_and_norm: 0 matches\n"
        "nearest misses:\n"
        "  at %44 (add, node of \"v36\" (Add, operator set 13):21), 4 of 16 nodes "
        "found: %21 (add, node of \"v23\" (Add, operator set 13):12): wanted sub, "
        "found add\n",
    [WITH_RELU] = "pattern sum_and_norm: 0 matches\n"
                  "nearest misses:\n"
                  "  at %44 (add, node of \"v36\" (Add, operator set 13):21), 5 of 17 nodes "
                  "found: %15 (gather, node of \"v12\" (Gather, operator set 13):6): wanted "
                  "relu, found gather\n",
    [SUM_INSIDE] = "pattern sum_and_norm: 1 match\n"
                   "  at %1424 (add, node of \"v1536\" (Add, operator set 13):957)\n"
                   "nearest misses:\n"
                   "  at %44 (add, node of \"v36\" (Add, operator set 13):21), 16 of 16 nodes "
                   "found: %21 (add, node of \"v23\" (Add, operator set 13):12): inside of the "
                   "match, and used outside by %86 (add, node of \"v118\" (Add, operator set "
                   "13):71)\n",
    [CUBED] = "pattern sum_and_norm: 0 matches\n"
              "nearest misses:\n"
              "  at %44 (add, node of \"v36\" (Add, operator set 13):21), 12 of 16 nodes "
              "found: %25 (scalar, node of \"v27\" (Pow, operator set 13):15): \"two\" does "
              "not accept 2\n",
    [LARGE_EPSILON] = "pattern sum_and_norm: 0 matches\n"
                      "nearest misses:\n"
                      "  at %44 (add, node of \"v36\" (Add, operator set 13):21), 13 of 16 nodes "
                      "found: %30 (scalar, node of \"v30\" (Add, operator set 13):17): \"epsilon\" "
                      "does not accept 1e-12\n",
    [WIDE] = "pattern sum_and_norm: 0 matches\n"
             "nearest misses:\n"
             "  at %44 (add, node of \"v36\" (Add, operator set 13):21), 5 of 16 nodes "
             "found: %15 (gather, node of \"v12\" (Gather, operator set 13):6): dim 2: size "
             "8 is not known to be 16\n",
    [IN_F64] = "pattern sum_and_norm: 0 matches\n"
               "nearest misses:\n"
               "  at %44 (add, node of \"v36\" (Add, operator set 13):21), 5 of 16 nodes "
               "found: %15 (gather, node of \"v12\" (Gather, operator set 13):6): wanted "
               "dtype f64 for \"a\", found f32\n",
    [MATRICES] = "pattern sum_and_norm: 0 matches\n"
                 "nearest misses:\n"
                 "  at %44 (add, node of \"v36\" (Add, operator set 13):21), 5 of 16 nodes "
                 "found: %15 (gather, node of \"v12\" (Gather, operator set 13):6): wanted rank "
                 "2 for \"a\", found 3\n",
    [NEGATED] = "pattern sum_and_norm: 0 matches\n"
                "nearest misses:\n"
                "  at %44 (add, node of \"v36\" (Add, operator set 13):21), 6 of 17 nodes "
                "found: %19 (gather, node of \"v22\" (Gather, operator set 13):11): wanted "
                "neg, found gather\n",
    [GAMMA_COMPUTED] =
        "pattern sum_and_norm: 0 matches\n"
        "nearest misses:\n"
        "  at %44 (add, node of \"v36\" (Add, operator set 13):21), 14 of 17 nodes "
        "found: %37 (constant, node of \"v34\" (Mul, operator set 13):20): wanted exp, "
        "found constant\n",
    [ADDEND_CONSTANT] =
        "pattern sum_and_norm: 0 matches\n"
        "nearest misses:\n"
        "  at %44 (add, node of \"v36\" (Add, operator set 13):21), 5 of 16 nodes "
        "found: %15 (gather, node of \"v12\" (Gather, operator set 13):6): wanted a "
        "constant for \"a\"\n",
    [CHECKED] = "pattern sum_and_norm: 0 matches\n"
                "nearest misses:\n"
                "  at %44 (add, node of \"v36\" (Add, operator set 13):21), 16 of 16 nodes "
                "found: the check: not today\n",
};

static void cut_behind_nearest(char *text) {
  char *at = strstr(text, "nearest misses:\n");
  char *end = at ? strchr(strchr(at, '\n') + 1, '\n') : NULL;
  if (end)
    end[1] = '\0';
}

static void test_misses_are_explained(void **state) {
  fixture_t *f = *state;
  onnx_bytes_t bytes;
  dt_function_t *function = encoder(f, true, DT_ANSWER_EVALUATOR, &bytes);
  dt_tensor_t *out = called(f, function, 2, 5);
  const int64_t sizes[] = {2, 5};
  dt_tensor_t *in[] = {rig_integers(f, DT_I64, 0, EXPORT_WORDS - 1, 2, sizes),
                       rig_integers(f, DT_I64, 0, 1, 2, sizes)};
  for (spelling_t how = NORM_AS_OP; how < SPELLINGS; how++) {
    dt_pattern_t *pattern = make_pattern(&how);
    char *text = NULL;
    expect_ok(dt_pattern_explain_function(pattern, function, in, 2, &text));
    cut_behind_nearest(text);
    expect_same_text("explanation", text, goldens[how]);
    dt_text_free(text);
    dt_pattern_release(pattern);
  }
  RELEASE(in[0], in[1], out);
  dt_function_release(function);
  onnx_free(&bytes);
}

#define OWN(name) TEST_WITH(name, setup, fixture_close)

RUN_TESTS(OWN(test_each_norm_matches_once), OWN(test_sums_that_go_on),
          OWN(test_misses_are_explained))
