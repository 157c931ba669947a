// SPDX-License-Identifier: Apache-2.0
// dt_call's contract: what is refused and how it is told, outputs, layouts, statistics. After every
// refusal the function still works.
#include "test/support/process.h"
#include "test/support/subjects.h"

#include "runtime/base/log.h"
#include "test/support/report_as_text.h"

#include <string.h>

static int setup(void **state) { return fixture_open(state, 2, 7); }

static dt_function_t *compiled(fixture_t *fixture, const subject_t *subject) {
  return subject_function(fixture->runtime, subject, NULL, compiled_answer());
}

// a + b of `n` elements works.
static void expect_add_works(fixture_t *fixture, dt_function_t *add, int64_t n) {
  dt_tensor_t *inputs[2] = {tensor_full(1.5f, 1, &n), tensor_full(2.25f, 1, &n)}, *out = NULL;
  dt_tensor_t *expected = tensor_full(3.75f, 1, &n);
  expect_ok(dt_call(fixture->session, add, inputs, 2, &out, 1, NULL));
  expect_close(out, expected, 0, 0, "add");
  RELEASE(inputs[0], inputs[1], expected, out);
}

static void test_refused_arguments(void **state) {
  fixture_t *fixture = *state;
  dt_session_t *session = fixture->session;
  dt_function_t *add = compiled(fixture, &add_subject);
  dt_tensor_t *three = tensor_full(1, 1, SIZES(3));
  dt_tensor_t *four = tensor_full(1, 1, SIZES(4));
  dt_tensor_t *matrix = tensor_full(1, 2, SIZES(3, 1));
  dt_tensor_t *ints = tensor_i64(1, SIZES(3), VALUES(1, 2, 3));
  dt_tensor_t *good[2] = {three, three}, *out = NULL;
  // Before anything is compiled, and then against the guards of a variant.
  for (int round = 0; round < 2; round++) {
    uint32_t variants = variants_of(add);
    expect_code(dt_call(NULL, add, good, 2, &out, 1, NULL), DT_E_ARGUMENT);
    expect_code(dt_call(session, NULL, good, 2, &out, 1, NULL), DT_E_ARGUMENT);
    expect_told(dt_call(session, add, good, 1, &out, 1, NULL), DT_E_ARGUMENT, "expected 2 and 1");
    expect_told(dt_call(session, add, good, 2, &out, 2, NULL), DT_E_ARGUMENT, "expected 2 and 1");
    expect_code(dt_call(session, add, NULL, 2, &out, 1, NULL), DT_E_ARGUMENT);
    expect_code(dt_call(session, add, good, 2, NULL, 1, NULL), DT_E_ARGUMENT);
    expect_told(dt_call(session, add, (dt_tensor_t *[]){three, NULL}, 2, &out, 1, NULL),
                DT_E_ARGUMENT, "argument 'b'");
    expect_told(dt_call(session, add, (dt_tensor_t *[]){three, four}, 2, &out, 1, NULL), DT_E_SHAPE,
                "b");
    expect_told(dt_call(session, add, (dt_tensor_t *[]){matrix, three}, 2, &out, 1, NULL),
                DT_E_SHAPE, "a");
    expect_told(dt_call(session, add, (dt_tensor_t *[]){three, ints}, 2, &out, 1, NULL), DT_E_DTYPE,
                "b");
    assert_null(out);
    assert_int_equal(variants_of(add), variants);
    expect_add_works(fixture, add, 5);
  }
  assert_int_equal(variants_of(add), 1);
  RELEASE(three, four, matrix, ints);
  dt_function_release(add);
}

static void test_refused_outputs(void **state) {
  fixture_t *fixture = *state;
  dt_session_t *session = fixture->session;
  dt_function_t *add = compiled(fixture, &add_subject);
  int64_t n = 6;
  dt_tensor_t *inputs[2] = {tensor_full(1, 1, &n), tensor_full(2, 1, &n)};
  dt_tensor_t *bad[] = {
      tensor_full(0, 1, SIZES(5)),
      tensor_full(0, 2, SIZES(6, 1)),
      tensor_i64(1, SIZES(6), VALUES(0, 0, 0, 0, 0, 0)),
  };
  static const dt_code_t codes[] = {DT_E_SHAPE, DT_E_SHAPE, DT_E_DTYPE};
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    dt_tensor_t *out = bad[i];
    expect_told(dt_call(session, add, inputs, 2, &out, 1, NULL), codes[i], "output 0");
    assert_ptr_equal(out, bad[i]);
    dt_tensor_release(bad[i]);
  }
  // Every other element of twelve: not contiguous.
  dt_tensor_t *twelve = tensor_full(0, 1, SIZES(12)), *strided = NULL;
  dt_tensor_desc_t desc = {
      .dtype = DT_F32, .rank = 1, .sizes = &n, .strides = SIZES(2), .data = dt_tensor_data(twelve)};
  expect_ok(dt_tensor_create(&desc, &strided));
  expect_told(dt_call(session, add, inputs, 2, &strided, 1, NULL), DT_E_SHAPE, "contiguous");
  RELEASE(strided, twelve);
  // An argument itself, and memory that shares one element with it.
  dt_tensor_t *same = inputs[1];
  expect_told(dt_call(session, add, inputs, 2, &same, 1, NULL), DT_E_ARGUMENT,
              "overlaps argument 'b'");
  dt_tensor_t *eleven = tensor_full(3, 1, SIZES(11)), *head = NULL, *tail = NULL;
  desc =
      (dt_tensor_desc_t){.dtype = DT_F32, .rank = 1, .sizes = &n, .data = dt_tensor_data(eleven)};
  expect_ok(dt_tensor_create(&desc, &head));
  desc.data = (float *)dt_tensor_data(eleven) + 5;
  expect_ok(dt_tensor_create(&desc, &tail));
  expect_told(dt_call(session, add, (dt_tensor_t *[]){inputs[0], head}, 2, &tail, 1, NULL),
              DT_E_ARGUMENT, "overlaps");
  RELEASE(head, tail, eleven, inputs[0], inputs[1]);
  expect_add_works(fixture, add, 6);
  dt_function_release(add);
}

static void test_indices_out_of_range(void **state) {
  fixture_t *fixture = *state;
  dt_function_t *gather = compiled(fixture, &gather_subject);
  dt_tensor_t *table = tensor_f32(&fixture->rng, 2, SIZES(5, 3));
  static const int64_t good[] = {4, 0, -5, -1}, bad[][4] = {{0, 5, 1, 2}, {0, 1, 2, -6}};
  int64_t four = 4;
  for (size_t i = 0; i < 2; i++) {
    dt_tensor_t *ids = tensor_i64(1, &four, good), *out = NULL;
    expect_ok(dt_call(fixture->session, gather, (dt_tensor_t *[]){table, ids}, 2, &out, 1, NULL));
    const float *rows = dt_tensor_data(table), *got = dt_tensor_data(out);
    for (int64_t k = 0; k < 4; k++)
      assert_memory_equal(&got[3 * k], &rows[3 * (good[k] < 0 ? good[k] + 5 : good[k])],
                          3 * sizeof(float));
    RELEASE(ids, out);
    out = NULL;
    ids = tensor_i64(1, &four, bad[i]);
    expect_told(dt_call(fixture->session, gather, (dt_tensor_t *[]){table, ids}, 2, &out, 1, NULL),
                DT_E_RANGE, i == 0 ? "5" : "-6");
    assert_null(out);
    dt_tensor_release(ids);
  }
  assert_int_equal(variants_of(gather), 1);
  dt_tensor_release(table);
  dt_function_release(gather);
}

static void test_strided_arguments(void **state) {
  fixture_t *fixture = *state;
  dt_function_t *columns = compiled(fixture, &columns_subject);
  for (int64_t i = 0; i < 4; i++) {
    int64_t rows = 2 + 3 * i, width = 9 - 2 * i;
    dt_tensor_t *base = tensor_f32(&fixture->rng, 2, SIZES(rows, width));
    dt_tensor_t *views[2] = {base, tensor_transposed(base)};
    for (int k = 0; k < 2; k++) {
      dt_tensor_t *out = NULL;
      expect_ok(dt_call(fixture->session, columns, &views[k], 1, &out, 1, NULL));
      int64_t n = k == 0 ? width : rows, sum_over = k == 0 ? rows : width;
      dt_tensor_t *expected = tensor_full(0, 1, &n);
      for (int64_t c = 0; c < n; c++) {
        double sum = 0;
        for (int64_t r = 0; r < sum_over; r++)
          sum +=
              (double)((const float *)dt_tensor_data(base))[k == 0 ? r * width + c : c * width + r];
        ((float *)dt_tensor_data(expected))[c] = (float)sum;
      }
      expect_close(out, expected, 1e-5, 0, k == 0 ? "contiguous" : "transposed");
      RELEASE(expected, out);
    }
    RELEASE(views[1], base);
    assert_int_equal(variants_of(columns), 2);
  }
  dt_function_release(columns);
}

// ---- Programs that branch, check and fail -----------------------------------------------------------

static dt_status_t branch_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  (void)closure;
  dt_sym_t n = dt_dim(t, in[0], 0);
  bool is_small = dt_sym_true(t, dt_sym_lt(t, n, dt_sym_const(t, 10)));
  out[0] = is_small ? dt_neg(t, in[0]) : dt_abs(t, in[0]);
  return NULL;
}

static dt_status_t pinned_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  (void)closure;
  (void)dt_sym_int(t, dt_dim(t, in[0], 0));
  out[0] = dt_neg(t, in[0]);
  return NULL;
}

static dt_status_t even_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  (void)closure;
  dt_sym_t n = dt_dim(t, in[0], 0);
  dt_check(t, dt_sym_eq(t, dt_sym_mod(t, n, dt_sym_const(t, 2)), dt_sym_const(t, 0)),
           "an even number of elements");
  out[0] = dt_neg(t, in[0]);
  return NULL;
}

static dt_status_t failing_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                   void *closure) {
  int *left = closure;
  if (*left > 0) {
    (*left)--;
    dt_trace_fail(t, DT_E_STATE, "not yet");
  }
  out[0] = dt_neg(t, in[0]);
  return NULL;
}

static const dt_input_decl_t one_vector[] = {{.name = "x", .dtype = DT_F32, .rank = 1}};

static dt_status_t call_one(fixture_t *fixture, dt_function_t *function, int64_t n, float value,
                            float expected) {
  dt_tensor_t *x = tensor_full(value, 1, &n), *out = NULL;
  dt_status_t status = dt_call(fixture->session, function, &x, 1, &out, 1, NULL);
  if (!status) {
    dt_tensor_t *want = tensor_full(expected, 1, &n);
    expect_close(out, want, 0, 0, "call_one");
    dt_tensor_release(want);
  } else {
    assert_null(out);
  }
  RELEASE(out, x);
  return status;
}

static void test_branches_make_variants(void **state) {
  fixture_t *fixture = *state;
  const subject_t subject = {"branch", branch_program, 1, 1, one_vector};
  dt_function_t *branch = compiled(fixture, &subject);
  expect_code(dt_function_prepare(branch, NULL), DT_E_STATE);
  for (int round = 0; round < 2; round++) {
    expect_ok(call_one(fixture, branch, 3, -2, 2));
    expect_ok(call_one(fixture, branch, 9, -2, 2));
    expect_ok(call_one(fixture, branch, 10, 5, 5));
    expect_ok(call_one(fixture, branch, 5000, 5, 5));
    expect_ok(call_one(fixture, branch, 0, 5, -5));
  }
  assert_int_equal(variants_of(branch), 2);
  dt_function_release(branch);
}

static void test_variant_limit(void **state) {
  fixture_t *fixture = *state;
  dt_function_options_t options = {.name = "pinned",
                                   .n_inputs = 1,
                                   .n_outputs = 1,
                                   .inputs = one_vector,
                                   .answer = compiled_answer(),
                                   .variant_limit = 2};
  dt_function_t *pinned = NULL;
  expect_ok(dt_function_create(fixture->runtime, pinned_program, NULL, &options, &pinned));
  expect_ok(call_one(fixture, pinned, 3, 1, -1));
  expect_ok(call_one(fixture, pinned, 4, 1, -1));
  expect_told(call_one(fixture, pinned, 5, 1, -1), DT_E_LIMIT, "2 variants");
  expect_ok(call_one(fixture, pinned, 3, 1, -1));
  assert_int_equal(variants_of(pinned), 2);
  dt_function_release(pinned);
}

static void test_checks(void **state) {
  fixture_t *fixture = *state;
  const subject_t subject = {"even", even_program, 1, 1, one_vector};
  dt_function_t *even = compiled(fixture, &subject);
  for (int round = 0; round < 2; round++) {
    expect_ok(call_one(fixture, even, 4, 1, -1));
    expect_told(call_one(fixture, even, 5, 1, -1), DT_E_SHAPE, "an even number of elements");
    expect_ok(call_one(fixture, even, 0, 1, -1));
  }
  assert_int_equal(variants_of(even), 1);
  dt_function_release(even);
}

static void test_failing_program(void **state) {
  fixture_t *fixture = *state;
  int left = 2;
  const subject_t subject = {"failing", failing_program, 1, 1, one_vector};
  dt_function_t *function = subject_function(fixture->runtime, &subject, &left, compiled_answer());
  expect_told(call_one(fixture, function, 4, 1, -1), DT_E_STATE, "not yet");
  expect_told(call_one(fixture, function, 4, 1, -1), DT_E_STATE, "not yet");
  assert_int_equal(variants_of(function), 0);
  expect_ok(call_one(fixture, function, 4, 1, -1));
  dt_function_counters_t stats = {.struct_size = sizeof(stats)};
  expect_ok(dt_function_counters(function, &stats));
  assert_int_equal(stats.failed_calls, 2);
  assert_int_equal(stats.compiles, 3);
  assert_int_equal(stats.calls, 1);
  dt_function_release(function);
}

// ---- The rest ---------------------------------------------------------------------------------------

static void test_two_runtimes(void **state) {
  fixture_t *fixture = *state;
  dt_runtime_t *other = NULL;
  expect_ok(dt_runtime_create(NULL, &other));
  dt_function_t *add = subject_function(other, &add_subject, NULL, compiled_answer());
  int64_t n = 2;
  dt_tensor_t *x = tensor_full(1, 1, &n), *out = NULL;
  expect_told(dt_call(fixture->session, add, (dt_tensor_t *[]){x, x}, 2, &out, 1, NULL),
              DT_E_ARGUMENT, "runtimes");
  dt_tensor_release(x);
  dt_runtime_release(other); // the function holds a reference of its own
  dt_function_release(add);
}

static void test_statistics(void **state) {
  fixture_t *fixture = *state;
  dt_function_t *add = compiled(fixture, &add_subject);
  char *text = NULL;
  expect_ok(report_as_text(add, NULL, 0, DT_REPORT_VARIANTS, &text));
  assert_non_null(strstr(text, "add"));
  dt_text_free(text);
  double ns = -1;
  int64_t n = 8;
  dt_tensor_t *x = tensor_full(1, 1, &n);
  dt_tensor_t *inputs[] = {x, x};
  expect_code(dt_function_guard_ns(fixture->session, add, inputs, 2, 10, &ns), DT_E_STATE);
  for (int64_t i = 0; i < 10; i++)
    expect_add_works(fixture, add, i);
  dt_function_counters_t stats = {.struct_size = sizeof(stats)};
  expect_ok(dt_function_counters(add, &stats));
  assert_int_equal(stats.calls, 10);
  assert_int_equal(stats.misses, 1);
  assert_int_equal(stats.variants, 1);
  assert_int_equal(stats.compiles, 1);
  assert_true(stats.compile_ns > 0);
  if (compiled_answer() == DT_ANSWER_COMPILED) {
    assert_int_equal(stats.kernels, 1);
    assert_true(stats.code_bytes > 0);
  } else {
    assert_int_equal(stats.evaluator_calls, 10);
  }
  // A caller of an older version has a shorter struct: nothing behind it is touched.
  dt_function_counters_t old = {.struct_size = offsetof(dt_function_counters_t, calls),
                                .calls = 12345};
  expect_ok(dt_function_counters(add, &old));
  assert_int_equal(old.calls, 12345);
  assert_int_equal(old.compiles, 1);
  expect_ok(dt_function_guard_ns(fixture->session, add, inputs, 2, 100000, &ns));
  print_message("guards of add: %.1f ns\n", ns);
  assert_true(ns > 0 && ns < 100000);
  expect_ok(report_as_text(add, NULL, 0, DT_REPORT_VARIANTS, &text));
  assert_non_null(strchr(text, '\n'));
  dt_text_free(text);
  dt_tensor_release(x);
  dt_function_release(add);
}

static void keep_line(void *user, const char *line, size_t len) {
  char *kept = user;
  if (len > 255)
    len = 255;
  memcpy(kept, line, len);
  kept[len] = '\0';
}

// Each miss is one line: the function, the guard with expected and actual, and what was decided.
static void test_misses_are_logged(void **state) {
  fixture_t *fixture = *state;
  const subject_t subject = {"pinned", pinned_program, 1, 1, one_vector};
  dt_function_t *pinned = compiled(fixture, &subject);
  char line[256] = "";
  expect_ok(dt_log_configure("recompiles"));
  dt_log_sink_set(keep_line, line);
  expect_ok(call_one(fixture, pinned, 3, 1, -1));
  assert_non_null(strstr(line, "pinned: no variant yet: making variant 0"));
  expect_ok(call_one(fixture, pinned, 4, 1, -1));
  assert_non_null(strstr(line, "making variant 1"));
  assert_non_null(strstr(line, "3"));
  assert_non_null(strstr(line, "4"));
  line[0] = '\0';
  expect_ok(call_one(fixture, pinned, 3, 1, -1));
  assert_string_equal(line, "");
  dt_log_sink_set(NULL, NULL);
  expect_ok(dt_log_configure(""));
  dt_function_release(pinned);
}

typedef struct nested_t {
  fixture_t *fixture;
  dt_function_t *function;
  dt_code_t code;
} nested_t;

static dt_status_t nested_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  nested_t *nested = closure;
  dt_status_t status = call_one(nested->fixture, nested->function, 3, 1, -1);
  nested->code = dt_status_code(status);
  dt_status_free(status);
  out[0] = dt_neg(t, in[0]);
  return NULL;
}

static void test_call_inside_own_program(void **state) {
  nested_t nested = {.fixture = *state};
  const subject_t subject = {"nested", nested_program, 1, 1, one_vector};
  nested.function = subject_function(nested.fixture->runtime, &subject, &nested, compiled_answer());
  expect_ok(call_one(nested.fixture, nested.function, 3, 1, -1));
  assert_int_equal(nested.code, DT_E_STATE);
  dt_function_release(nested.function);
}

typedef struct inherited_t {
  fixture_t *fixture;
  dt_function_t *function;
  dt_tensor_t *x;
} inherited_t;

static int call_inherited(void *opaque) {
  const inherited_t *inherited = opaque;
  dt_session_t *session = inherited->fixture->session;
  dt_tensor_t *inputs[] = {inherited->x, inherited->x}, *out = NULL;
  dt_status_t status = dt_call(session, inherited->function, inputs, 2, &out, 1, NULL);
  bool right = dt_status_code(status) == DT_E_FORKED && !out;
  dt_status_free(status);
  dt_runtime_t *runtime = NULL;
  status = dt_runtime_create(NULL, &runtime);
  right = right && dt_status_code(status) == DT_E_FORKED;
  dt_status_free(status);
  dt_function_release(inherited->function);
  dt_session_destroy(session);
  dt_runtime_release(inherited->fixture->runtime);
  return right ? 0 : 1;
}

static void test_child_after_fork(void **state) {
  fixture_t *fixture = *state;
  dt_function_t *add = compiled(fixture, &add_subject);
  expect_add_works(fixture, add, 3);
  int64_t n = 3;
  dt_tensor_t *x = tensor_full(1, 1, &n);
  inherited_t inherited = {fixture, add, x};
  assert_int_equal(process_child(call_inherited, &inherited, 60), 0);
  expect_add_works(fixture, add, 4);
  dt_tensor_release(x);
  dt_function_release(add);
}

RUN_TESTS_WITH(setup, fixture_close, TEST(test_refused_arguments), TEST(test_refused_outputs),
               TEST(test_indices_out_of_range), TEST(test_strided_arguments),
               TEST(test_branches_make_variants), TEST(test_variant_limit), TEST(test_checks),
               TEST(test_failing_program), TEST(test_two_runtimes), TEST(test_statistics),
               TEST(test_misses_are_logged), TEST(test_call_inside_own_program),
               TEST(test_child_after_fork))
