// SPDX-License-Identifier: Apache-2.0
// How compiles take sizes, what limits and freezing do, runtime modes, and that none of it is
// silent.
#include "test/support/subjects.h"

#include "runtime/base/log.h"
#include "test/support/report_as_text.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int setup(void **state) { return fixture_open(state, 3, 11); }

// Needs the first size as a number.
static dt_status_t pinned(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  (void)dt_sym_int(t, dt_dim(t, in[0], 0));
  out[0] = dt_neg(t, in[0]);
  return NULL;
}

static const dt_input_decl_t one_vector[] = {{.name = "x", .dtype = DT_F32, .rank = 1}};
static const dt_input_decl_t one_matrix[] = {{.name = "x", .dtype = DT_F32, .rank = 2}};

static dt_status_t call_sizes(fixture_t *fixture, dt_function_t *function, uint32_t rank,
                              const int64_t *sizes) {
  dt_tensor_t *x = tensor_full(2, rank, sizes), *want = tensor_full(-2, rank, sizes), *out = NULL;
  dt_status_t status = dt_call(fixture->session, function, &x, 1, &out, 1, NULL);
  if (!status)
    expect_close(out, want, 0, 0, "negated");
  RELEASE(x, want, out);
  return status;
}

static dt_status_t call_n(fixture_t *fixture, dt_function_t *function, int64_t n) {
  return call_sizes(fixture, function, 1, &n);
}

// ---- Static first -----------------------------------------------------------------------------------
static void test_only_what_changes_is_promoted(void **state) {
  fixture_t *fixture = *state;
  dt_function_options_t options = options_of(1, one_matrix);
  options.dynamic = DT_DYNAMIC_AUTOMATIC;
  dt_function_t *function = function_of(fixture, negate_program, NULL, &options);
  static const int64_t rows[][3] = {
      // sizes, compiles after the call
      {4, 8, 1}, {4, 8, 1}, {5, 8, 2}, {6, 8, 2}, {0, 8, 2}, {1, 8, 2}, {6, 9, 3}, {7, 1, 3},
  };
  for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
    expect_ok(call_sizes(fixture, function, 2, rows[k]));
    assert_int_equal(stats_of(function).compiles, rows[k][2]);
  }
  assert_int_equal(stats_of(function).promotions, 2);
  dt_function_release(function);
}

// Dims of one name change together, and a derived dim follows.
static void test_names_and_derived_dims_follow(void **state) {
  fixture_t *fixture = *state;
  static const dt_dim_decl_t a[] = {{.name = "n"}, {.name = "n"}};
  static const dt_dim_decl_t b[] = {{.of = "n", .offset = 1}};
  static const dt_input_decl_t inputs[] = {{.name = "a", .dtype = DT_F32, .rank = 2, .dims = a},
                                           {.name = "b", .dtype = DT_F32, .rank = 1, .dims = b}};
  dt_function_options_t options = options_of(2, inputs);
  options.dynamic = DT_DYNAMIC_AUTOMATIC;
  dt_function_t *function = function_of(fixture, negate_program, NULL, &options);
  for (int64_t n = 3; n < 8; n++) {
    dt_tensor_t *out = NULL,
                *in[2] = {tensor_full(1, 2, SIZES(n, n)), tensor_full(1, 1, SIZES(n + 1))};
    expect_ok(dt_call(fixture->session, function, in, 2, &out, 1, NULL));
    RELEASE(out, in[1]);
    out = NULL;
    in[1] = tensor_full(1, 1, SIZES(n));
    expect_told(dt_call(fixture->session, function, in, 2, &out, 1, NULL), DT_E_SHAPE,
                "b.size(0) == a.size(0) + 1");
    RELEASE(in[0], in[1]);
  }
  assert_int_equal(stats_of(function).compiles, 2);
  assert_int_equal(stats_of(function).promotions, 1);
  dt_function_release(function);
}

static void test_strided_arguments_are_static_first(void **state) {
  fixture_t *fixture = *state;
  dt_function_options_t options = options_of(1, one_matrix);
  options.dynamic = DT_DYNAMIC_AUTOMATIC;
  dt_function_t *function = function_of(fixture, negate_program, NULL, &options);
  for (int64_t n = 3; n < 7; n++) {
    dt_tensor_t *base = tensor_f32(&fixture->rng, 2, SIZES(n, 5)), *out = NULL;
    dt_tensor_t *x = tensor_transposed(base);
    expect_ok(dt_call(fixture->session, function, &x, 1, &out, 1, NULL));
    for (int64_t i = 0; i < 5; i++)
      for (int64_t j = 0; j < n; j++)
        assert_true(((float *)dt_tensor_data(out))[i * n + j] ==
                    -((float *)dt_tensor_data(base))[j * 5 + i]);
    RELEASE(out, x, base);
  }
  assert_int_equal(stats_of(function).compiles, 2);
  dt_function_release(function);
}

static void test_prepare(void **state) {
  fixture_t *fixture = *state;
  dt_function_options_t options = options_of(1, one_vector);
  options.dynamic = DT_DYNAMIC_STATIC;
  dt_function_t *function = function_of(fixture, negate_program, NULL, &options);
  expect_told(dt_function_prepare(function, NULL), DT_E_STATE, "static");
  expect_ok(call_n(fixture, function, 3));
  dt_function_release(function);
  options.dynamic = DT_DYNAMIC_AUTOMATIC;
  function = function_of(fixture, negate_program, NULL, &options);
  expect_ok(dt_function_prepare(function, NULL));
  for (int64_t n = 0; n < 5; n++)
    expect_ok(call_n(fixture, function, n));
  assert_int_equal(stats_of(function).compiles, 1);
  dt_function_release(function);
  // A mark, too, may ask for the sizes of a call.
  static const dt_dim_decl_t dims[] = {{.mark = DT_MARK_STATIC}};
  static const dt_input_decl_t marked[] = {{.name = "x", .dtype = DT_F32, .rank = 1, .dims = dims}};
  options = options_of(1, marked);
  function = function_of(fixture, negate_program, NULL, &options);
  expect_told(dt_function_prepare(function, NULL), DT_E_STATE, "is marked static");
  dt_function_release(function);
}

static void test_bad_options(void **state) {
  fixture_t *fixture = *state;
  dt_function_t *function = NULL;
  dt_function_options_t options = options_of(1, one_vector);
  options.dynamic = (dt_dynamic_t)3;
  expect_told(dt_function_create(fixture->runtime, negate_program, NULL, &options, &function),
              DT_E_ARGUMENT, "dynamic: 3");
  options = options_of(1, one_vector);
  options.limit_action = (dt_limit_action_t)-1;
  expect_told(dt_function_create(fixture->runtime, negate_program, NULL, &options, &function),
              DT_E_ARGUMENT, "limit_action: -1");
  options = options_of(1, one_vector);
  options.compile_limit = UINT32_MAX;
  expect_told(dt_function_create(fixture->runtime, negate_program, NULL, &options, &function),
              DT_E_ARGUMENT, "compile_limit");
}

// A mark of a hard dim is told with the function's name once, the dim, the op and the line.
static void test_a_dim_that_must_be_dynamic(void **state) {
  fixture_t *fixture = *state;
  static const dt_dim_decl_t dims[] = {{.mark = DT_MARK_DYNAMIC}};
  static const dt_input_decl_t inputs[] = {{.name = "x", .dtype = DT_F32, .rank = 1, .dims = dims}};
  dt_function_options_t options = options_of(1, inputs);
  options.name = "minilm";
  dt_function_t *function = function_of(fixture, pinned, NULL, &options);
  dt_status_t status = call_n(fixture, function, 5);
  const char *message = dt_status_message(status);
  const char *first = strstr(message, "minilm");
  if (!first || strstr(first + 1, "minilm") || !strstr(message, "argument 0 \"x\", dim 0") ||
      !strstr(message, "sym_int") || !strstr(message, "test_policy.c:"))
    fail_msg("%s", message);
  expect_code(status, DT_E_SHAPE);
  assert_int_equal(variants_of(function), 0);
  dt_function_release(function);
}

static void test_names_are_said_once(void **state) {
  fixture_t *fixture = *state;
  dt_function_options_t options = options_of(1, one_vector);
  options.name = "minilm";
  dt_function_t *function = function_of(fixture, negate_program, NULL, &options);
  dt_status_t status = call_sizes(fixture, function, 2, SIZES(2, 2));
  assert_string_equal(dt_status_message(status),
                      "function minilm: argument 0 \"x\": rank 2; expected 1");
  expect_code(status, DT_E_SHAPE);
  dt_function_release(function);
}

// ---- Limits -----------------------------------------------------------------------------------------
// Keeps the log's lines, as far as they fit.
static void keep_lines(void *user, const char *line, size_t len) {
  char *text = user;
  size_t at = strlen(text);
  if (at + len < 4096) {
    memcpy(text + at, line, len);
    text[at + len] = '\0';
  }
}

static void test_limit_error(void **state) {
  fixture_t *fixture = *state;
  dt_function_options_t options = options_of(1, one_vector);
  options.dynamic = DT_DYNAMIC_STATIC;
  options.limit_action = DT_LIMIT_ERROR;
  options.variant_limit = 2;
  dt_function_t *function = function_of(fixture, negate_program, NULL, &options);
  for (int64_t n = 1; n < 5; n++) {
    if (n <= 2)
      expect_ok(call_n(fixture, function, n));
    else
      expect_told(call_n(fixture, function, n), DT_E_LIMIT, "2 variants are the limit");
  }
  expect_ok(call_n(fixture, function, 1));
  expect_ok(call_n(fixture, function, 2));
  dt_function_counters_t stats = stats_of(function);
  assert_int_equal(stats.compiles, 2);
  assert_int_equal(stats.limit_misses, 2);
  assert_int_equal(stats.failed_calls, 2);
  dt_function_release(function);
}

static void test_limit_generic(void **state) {
  fixture_t *fixture = *state;
  dt_function_options_t options = options_of(1, one_vector);
  options.dynamic = DT_DYNAMIC_STATIC;
  options.variant_limit = 2;
  dt_function_t *function = function_of(fixture, negate_program, NULL, &options);
  for (int64_t n = 0; n < 20; n++)
    expect_ok(call_n(fixture, function, n));
  dt_function_counters_t stats = stats_of(function);
  assert_int_equal(stats.compiles, 3);
  assert_int_equal(stats.variants, 3);
  assert_int_equal(stats.limit_misses, 1);
  dt_function_release(function);
  // A program that needs a number cannot be made generic. It is tried once.
  options.dynamic = DT_DYNAMIC_SYMBOLIC;
  function = function_of(fixture, pinned, NULL, &options);
  for (int64_t n = 1; n < 6; n++) {
    if (n <= 2)
      expect_ok(call_n(fixture, function, n));
    else
      expect_told(call_n(fixture, function, n), DT_E_LIMIT, "no generic variant (");
  }
  expect_told(call_n(fixture, function, 7), DT_E_LIMIT, "sym_int");
  expect_told(call_n(fixture, function, 7), DT_E_LIMIT, "2 variants are the limit");
  expect_ok(call_n(fixture, function, 1));
  stats = stats_of(function);
  assert_int_equal(stats.compiles, 3);
  assert_int_equal(stats.variants, 2);
  assert_int_equal(stats.limit_misses, 5);
  dt_function_release(function);
}

static void test_limit_evaluator(void **state) {
  fixture_t *fixture = *state;
  dt_function_options_t options = options_of(1, one_vector);
  options.limit_action = DT_LIMIT_EVALUATOR;
  options.variant_limit = 1;
  dt_function_t *function = function_of(fixture, pinned, NULL, &options);
  for (int64_t n = 1; n < 6; n++)
    expect_ok(call_n(fixture, function, n));
  expect_told(call_sizes(fixture, function, 2, SIZES(2, 2)), DT_E_SHAPE, "rank 2");
  dt_function_counters_t stats = stats_of(function);
  assert_int_equal(stats.compiles, 1);
  assert_int_equal(stats.variants, 1);
  assert_int_equal(stats.limit_misses, 4);
  assert_int_equal(stats.evaluator_calls, compiled_answer() == DT_ANSWER_COMPILED ? 4 : 5);
  assert_int_equal(stats.calls, 5);

  // A session that has seen no symbol yet is answered as well.
  dt_session_t *fresh = NULL;
  expect_ok(dt_session_create(fixture->runtime, NULL, &fresh));
  dt_tensor_t *x = tensor_full(2, 1, SIZES(7)), *out = NULL;
  expect_ok(dt_call(fresh, function, &x, 1, &out, 1, NULL));
  assert_true(((float *)dt_tensor_data(out))[6] == -2);
  RELEASE(x, out);
  dt_session_destroy(fresh);
  dt_function_release(function);
}

// Failed compiles count, too.
static dt_status_t never(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)in, (void)out, (void)closure;
  dt_trace_fail(t, DT_E_STATE, "never");
  return NULL;
}

static void test_compile_limit(void **state) {
  fixture_t *fixture = *state;
  dt_function_options_t options = options_of(1, one_vector);
  options.limit_action = DT_LIMIT_ERROR;
  options.compile_limit = 3;
  dt_function_t *function = function_of(fixture, never, NULL, &options);
  for (int64_t n = 0; n < 3; n++)
    expect_told(call_n(fixture, function, n), DT_E_STATE, "never");
  expect_told(call_n(fixture, function, 9), DT_E_LIMIT, "3 compiles are the limit");
  assert_int_equal(stats_of(function).compiles, 3);
  dt_function_release(function);
}

static void test_limits_are_logged(void **state) {
  fixture_t *fixture = *state;
  static const struct {
    dt_limit_action_t action;
    const char *says;
  } rows[] = {{DT_LIMIT_GENERIC, "making the generic variant, at the limit of 1"},
              {DT_LIMIT_ERROR, "refused, at the limit of 1"},
              {DT_LIMIT_EVALUATOR, "answered by the evaluator, at the limit of 1"}};
  for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
    dt_function_options_t options = options_of(1, one_vector);
    options.dynamic = DT_DYNAMIC_STATIC;
    options.limit_action = rows[k].action;
    options.variant_limit = 1;
    dt_function_t *function = function_of(fixture, negate_program, NULL, &options);
    expect_ok(call_n(fixture, function, 1));
    static char text[4096];
    text[0] = '\0';
    expect_ok(dt_log_configure("recompiles"));
    dt_log_sink_set(keep_lines, text);
    dt_status_free(call_n(fixture, function, 2));
    dt_log_sink_set(NULL, NULL);
    expect_ok(dt_log_configure(""));
    if (!strstr(text, rows[k].says))
      fail_msg("expected '%s' in '%s'", rows[k].says, text);
    dt_function_release(function);
  }
}

// ---- Freezing ---------------------------------------------------------------------------------------
static void test_freeze(void **state) {
  fixture_t *fixture = *state;
  dt_function_options_t options = options_of(1, one_vector);
  dt_function_t *function = function_of(fixture, pinned, NULL, &options);
  expect_ok(dt_function_freeze(function, true));
  expect_told(dt_function_prepare(function, NULL), DT_E_STATE, "frozen and has no variant");
  expect_told(call_n(fixture, function, 3), DT_E_STATE, "frozen and has no variant");
  expect_ok(dt_function_freeze(function, false));
  expect_ok(call_n(fixture, function, 3));
  expect_ok(dt_function_freeze(function, true));
  expect_ok(call_n(fixture, function, 3));
  expect_told(call_n(fixture, function, 4), DT_E_STATE, "s0 == 3");
  expect_told(call_n(fixture, function, 4), DT_E_STATE, "s0 = 4");
  dt_function_counters_t stats = stats_of(function);
  assert_int_equal(stats.frozen_misses, 4);
  assert_int_equal(stats.compiles, 1);
  expect_ok(dt_function_freeze(function, false));
  expect_ok(call_n(fixture, function, 4));
  expect_code(dt_function_freeze(NULL, true), DT_E_ARGUMENT);
  dt_function_release(function);
}

// ---- Modes ------------------------------------------------------------------------------------------
static void test_modes(void **state) {
  fixture_t *fixture = *state;
  dt_runtime_t *runtime = fixture->runtime;
  static const struct {
    dt_mode_t mode;
    uint32_t most;
  } rows[] = {{DT_MODE_DETERMINISTIC, 1}, {DT_MODE_STRICT_FP, 1}, {DT_MODE_KERNEL_THREADS, 65535}};
  for (size_t k = 0; k < 3; k++) {
    assert_int_equal(dt_runtime_mode_get(runtime, rows[k].mode), 0);
    expect_ok(dt_runtime_mode_set(runtime, rows[k].mode, rows[k].most));
    expect_code(dt_runtime_mode_set(runtime, rows[k].mode, rows[k].most + 1), DT_E_ARGUMENT);
  }
  for (size_t k = 0; k < 3; k++) {
    assert_int_equal(dt_runtime_mode_get(runtime, rows[k].mode), rows[k].most);
    expect_ok(dt_runtime_mode_set(runtime, rows[k].mode, 0));
  }
  expect_code(dt_runtime_mode_set(NULL, DT_MODE_STRICT_FP, 0), DT_E_ARGUMENT);
  expect_code(dt_runtime_mode_set(runtime, (dt_mode_t)3, 0), DT_E_ARGUMENT);
  assert_int_equal(dt_runtime_mode_get(NULL, DT_MODE_STRICT_FP), 0);
}

// The same bits whatever the threads, and no variant more.
static void test_kernel_threads(void **state) {
  fixture_t *fixture = *state;
  dt_function_t *softmax =
      subject_function(fixture->runtime, &softmax_subject, NULL, compiled_answer());
  dt_tensor_t *x = tensor_f32(&fixture->rng, 2, SIZES(700, 300));
  dt_tensor_t *first = NULL;
  expect_ok(dt_call(fixture->session, softmax, &x, 1, &first, 1, NULL));
  for (uint32_t threads = 1; threads <= 4; threads++) {
    dt_tensor_t *out = NULL;
    expect_ok(dt_runtime_mode_set(fixture->runtime, DT_MODE_KERNEL_THREADS, threads));
    expect_ok(dt_call(fixture->session, softmax, &x, 1, &out, 1, NULL));
    expect_close(out, first, 0, 0, "softmax");
    dt_tensor_release(out);
  }
  expect_ok(dt_runtime_mode_set(fixture->runtime, DT_MODE_KERNEL_THREADS, 0));
  assert_int_equal(variants_of(softmax), 1);
  RELEASE(first, x);
  dt_function_release(softmax);
}

// ---- Threads ----------------------------------------------------------------------------------------

#define CALLERS 3

typedef struct crowd_t {
  dt_runtime_t *runtime;
  dt_function_t *function;
  _Atomic bool stop;
  char path[64];
} crowd_t;

static void *call_many(void *opaque) {
  crowd_t *crowd = opaque;
  dt_session_t *session = NULL;
  expect_ok(dt_session_create(crowd->runtime, NULL, &session));
  fixture_t own = {.session = session};
  for (int64_t k = 0; k < 600; k++) {
    dt_status_t status = call_sizes(&own, crowd->function, 2, SIZES(k % 9, k % 5));
    if (status)
      expect_told(status, DT_E_STATE, "frozen"); // the other thread's doing
  }
  dt_session_destroy(session);
  return NULL;
}

static void *meddle(void *opaque) {
  crowd_t *crowd = opaque;
  // At least once: the callers may be done before this thread runs.
  for (uint32_t k = 0; k == 0 || !atomic_load(&crowd->stop); k++) {
    expect_ok(dt_function_freeze(crowd->function, k % 4 == 0));
    expect_ok(dt_runtime_mode_set(crowd->runtime, DT_MODE_KERNEL_THREADS, k % 3));
    expect_ok(dt_function_profile_save(crowd->function, crowd->path));
    expect_ok(dt_function_profile_load(crowd->function, crowd->path));
  }
  return NULL;
}

// Callers, a thread that freezes and thaws, and one profile saved and loaded all the while.
static void test_threads(void **state) {
  fixture_t *fixture = *state;
  static const dt_limit_action_t actions[] = {DT_LIMIT_GENERIC, DT_LIMIT_EVALUATOR};
  for (size_t k = 0; k < 2; k++) {
    dt_function_options_t options = options_of(1, one_matrix);
    options.answer = DT_ANSWER_EVALUATOR; // quick to make
    options.dynamic = k ? DT_DYNAMIC_STATIC : DT_DYNAMIC_AUTOMATIC;
    options.limit_action = actions[k];
    options.variant_limit = 8;
    crowd_t crowd = {.runtime = fixture->runtime,
                     .function = function_of(fixture, negate_program, NULL, &options)};
    (void)snprintf(crowd.path, sizeof(crowd.path), "/tmp/ductile-policy-%ld", (long)getpid());
    pthread_t callers[CALLERS], meddler;
    assert_int_equal(pthread_create(&meddler, NULL, meddle, &crowd), 0);
    for (int i = 0; i < CALLERS; i++)
      assert_int_equal(pthread_create(&callers[i], NULL, call_many, &crowd), 0);
    for (int i = 0; i < CALLERS; i++)
      assert_int_equal(pthread_join(callers[i], NULL), 0);
    atomic_store(&crowd.stop, true);
    assert_int_equal(pthread_join(meddler, NULL), 0);
    assert_int_equal(unlink(crowd.path), 0);
    if (variants_of(crowd.function) > (k ? 8u : 3u)) {
      char *text = NULL;
      expect_ok(report_as_text(crowd.function, NULL, 0, DT_REPORT_COMPILES, &text));
      fail_msg("%u variants: %s", variants_of(crowd.function), text);
    }
    dt_function_release(crowd.function);
  }
  expect_ok(dt_runtime_mode_set(fixture->runtime, DT_MODE_KERNEL_THREADS, 0));
}

RUN_TESTS_WITH(setup, fixture_close, TEST(test_only_what_changes_is_promoted),
               TEST(test_names_and_derived_dims_follow),
               TEST(test_strided_arguments_are_static_first), TEST(test_prepare),
               TEST(test_bad_options), TEST(test_a_dim_that_must_be_dynamic),
               TEST(test_names_are_said_once), TEST(test_limit_error), TEST(test_limit_generic),
               TEST(test_limit_evaluator), TEST(test_compile_limit), TEST(test_limits_are_logged),
               TEST(test_freeze), TEST(test_modes), TEST(test_kernel_threads), TEST(test_threads))
