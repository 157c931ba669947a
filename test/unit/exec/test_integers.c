// SPDX-License-Identifier: Apache-2.0
// Inputs of kind DT_INPUT_INTEGERS: small tensors whose elements are sizes, axes, amounts. They are
// symbols an element, whatever the tensor's layout; and a call is told what does not fit.
#include "test/support/fixture.h"

#include "ductile/explain.h"
#include "runtime/base/memory.h"
#include "test/support/report_as_text.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int setup(void **state) { return fixture_open(state, 2, 31); }

#define MOST 64
static const dt_dim_decl_t n_of[MOST + 2] = {
    [0] = {.is_static = true, .value = 0},   [1] = {.is_static = true, .value = 1},
    [2] = {.is_static = true, .value = 2},   [3] = {.is_static = true, .value = 3},
    [64] = {.is_static = true, .value = 64}, [65] = {.is_static = true, .value = 65}};
#define INTEGERS(called, type, n)                                                                  \
  {.name = (called), .dtype = (type), .rank = 1, .dims = &n_of[n], .kind = DT_INPUT_INTEGERS}

// `n` elements of an integer type or bool, `step` elements apart (0: contiguous), in `memory`.
static dt_tensor_t *numbers(dt_dtype_t dtype, int64_t n, const int64_t *values, int64_t step,
                            int64_t *memory) {
  size_t bytes = dt_dtype_size(dtype);
  int64_t stride = step ? step : 1, first = step < 0 ? -step * (n - 1) : 0;
  for (int64_t i = 0; i < n; i++)
    memcpy((char *)memory + (size_t)(first + i * stride) * bytes, &values[i], bytes);
  dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                           .dtype = dtype,
                           .rank = 1,
                           .sizes = &n,
                           .strides = &stride,
                           .data = (char *)memory + (size_t)first * bytes};
  dt_tensor_t *tensor = NULL;
  expect_ok(dt_tensor_create(&desc, &tensor));
  return tensor;
}

// ---- As sizes ---------------------------------------------------------------------------------------

// x of any sizes, as [shape[0], shape[1]].
static dt_status_t reshape_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                   void *closure) {
  (void)closure;
  uint32_t n = 0, none = 7;
  const dt_sym_t *shape = dt_int_elements(t, in[1], &n);
  if (dt_trace_status(t))
    return NULL;
  assert_int_equal(n, 2);
  assert_null(dt_int_elements(t, in[0], &none));
  assert_int_equal(none, 0);
  out[0] = dt_neg(t, dt_reshape(t, in[0], n, shape));
  return NULL;
}

static const dt_input_decl_t reshape_inputs[] = {{.name = "x", .dtype = DT_F32, .rank = 1},
                                                 INTEGERS("shape", DT_I64, 2)};

static void expect_reshaped(dt_session_t *session, dt_function_t *function, dt_dtype_t dtype,
                            const int64_t *shape, int64_t step) {
  int64_t memory[8], count = shape[0] * shape[1];
  dt_tensor_t *x = tensor_full(3, 1, &count), *out = NULL;
  dt_tensor_t *y = numbers(dtype, 2, shape, step, memory);
  expect_ok(dt_call(session, function, (dt_tensor_t *[]){x, y}, 2, &out, 1, NULL));
  assert_int_equal(dt_tensor_rank(out), 2);
  assert_memory_equal(dt_tensor_sizes(out), shape, 2 * sizeof(*shape));
  for (int64_t i = 0; i < count; i++)
    assert_true(((float *)dt_tensor_data(out))[i] == -3);
  RELEASE(out, x, y);
}

static const int64_t shapes[][2] = {{2, 3}, {3, 2}, {1, 6}, {6, 1}, {0, 4},
                                    {4, 0}, {0, 0}, {1, 1}, {5, 9}};
#define N_SHAPES (sizeof(shapes) / sizeof(shapes[0]))

// One variant serves every shape, dtype by dtype, whatever the distance between elements.
static void test_sizes(void **state) {
  fixture_t *fixture = *state;
  static const dt_dtype_t dtypes[] = {DT_I64, DT_I32};
  static const dt_answer_t answers[] = {DT_ANSWER_COMPILED, DT_ANSWER_EVALUATOR};
  for (int k = 0; k < 4; k++) {
    dt_input_decl_t inputs[] = {reshape_inputs[0], INTEGERS("shape", dtypes[k % 2], 2)};
    dt_function_options_t options = options_of(2, inputs);
    options.answer = k < 2 ? compiled_answer() : answers[1];
    dt_function_t *function = function_of(fixture, reshape_program, NULL, &options);
    if (k == 1)
      expect_ok(dt_function_prepare(function, NULL));
    for (int64_t step = -3; step <= 3; step++)
      for (size_t i = 0; i < N_SHAPES; i++)
        expect_reshaped(fixture->session, function, dtypes[k % 2], shapes[i], step);
    assert_int_equal(variants_of(function), 1);
    dt_function_release(function);
  }
}

static void test_dynamic(void **state) {
  fixture_t *fixture = *state;
  // Symbolic; automatic: the first call's numbers, then a symbol for each, at last for the size of
  // x; static: each call's numbers.
  static const uint32_t expected[] = {1, 3, N_SHAPES};
  for (int dynamic = DT_DYNAMIC_SYMBOLIC; dynamic <= DT_DYNAMIC_STATIC; dynamic++) {
    dt_function_options_t options = options_of(2, reshape_inputs);
    options.dynamic = (dt_dynamic_t)dynamic;
    options.variant_limit = 32;
    dt_function_t *function = function_of(fixture, reshape_program, NULL, &options);
    for (int round = 0; round < 2; round++)
      for (size_t i = 0; i < N_SHAPES; i++)
        expect_reshaped(fixture->session, function, DT_I64, shapes[i], 0);
    assert_int_equal(variants_of(function), expected[dynamic]);
    dt_function_release(function);
  }
}

// ---- As values --------------------------------------------------------------------------------------

// All elements of all inputs as data, bool ones as 0 and 1, each sum with the number that the
// element is.
static dt_status_t values_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  const int *n_inputs = closure;
  for (int k = 0; k < *n_inputs; k++) {
    uint32_t n = 0;
    dt_sym_t sum = dt_sym_const(t, 0);
    const dt_sym_t *own = dt_int_elements(t, in[k], &n);
    for (uint32_t i = 0; own && i < n; i++)
      sum = dt_sym_add(t, sum, own[i]);
    assert_true(dt_trace_status(t) || dt_value_dtype(t, in[k]) == DT_I64);
    out[k] = dt_add(t, in[k], dt_size_value(t, sum));
  }
  return NULL;
}

static void expect_values(dt_tensor_t *out, int64_t n, const int64_t *values) {
  int64_t sum = 0;
  assert_int_equal(dt_tensor_count(out), n);
  for (int64_t i = 0; i < n; i++)
    sum += values[i];
  for (int64_t i = 0; i < n; i++)
    assert_int_equal(((int64_t *)dt_tensor_data(out))[i], values[i] + sum);
}

// Without elements, one of rank 0, one, and the most there may be.
static void test_values(void **state) {
  fixture_t *fixture = *state;
  static const dt_input_decl_t inputs[] = {
      INTEGERS("none", DT_I64, 0),
      {.name = "one", .dtype = DT_I32, .kind = DT_INPUT_INTEGERS},
      INTEGERS(NULL, DT_I32, 1),
      INTEGERS("flags", DT_BOOL, 3),
      INTEGERS("most", DT_I64, MOST)};
  static const int64_t counts[] = {0, 1, 1, 3, MOST};
  int n_inputs = 5;
  for (int k = 0; k < 2; k++) {
    dt_function_options_t options = options_of(5, inputs);
    options.n_outputs = 5;
    options.answer = k ? DT_ANSWER_EVALUATOR : compiled_answer();
    dt_function_t *function = function_of(fixture, values_program, &n_inputs, &options);
    for (int round = 0; round < 4; round++) {
      int64_t values[5][MOST], memory[5][MOST];
      dt_tensor_t *in[5], *out[5] = {NULL};
      for (int i = 0; i < 5; i++) {
        for (int64_t j = 0; j < counts[i]; j++)
          values[i][j] = inputs[i].dtype == DT_BOOL ? rng_between(&fixture->rng, 0, 1)
                                                    : rng_between(&fixture->rng, -1000, 1000);
        in[i] = numbers(inputs[i].dtype, counts[i], values[i], 0, memory[i]);
      }
      dt_tensor_release(in[1]);
      in[1] = NULL;
      expect_ok(dt_tensor_create(&(dt_tensor_desc_t){.struct_size = sizeof(dt_tensor_desc_t),
                                                     .dtype = DT_I32,
                                                     .data = memory[1]},
                                 &in[1]));
      expect_ok(dt_call(fixture->session, function, in, 5, out, 5, NULL));
      for (int i = 0; i < 5; i++) {
        expect_values(out[i], counts[i], values[i]);
        RELEASE(in[i], out[i]);
      }
    }
    assert_int_equal(variants_of(function), 1);
    dt_function_release(function);
  }
}

// ---- As axes ----------------------------------------------------------------------------------------

// x transposed where axes[0] is 1: a variant an order.
static dt_status_t axes_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  (void)closure;
  uint32_t n = 0;
  const dt_sym_t *axes = dt_int_elements(t, in[0], &n);
  if (dt_trace_status(t))
    return NULL;
  int32_t order[2] = {(int32_t)dt_sym_int(t, axes[0]), (int32_t)dt_sym_int(t, axes[1])};
  out[0] = dt_trace_status(t) ? in[1] : dt_permute(t, in[1], order);
  return NULL;
}

static const dt_input_decl_t axes_inputs[] = {INTEGERS("axes", DT_I64, 2),
                                              {.name = "x", .dtype = DT_F32, .rank = 2}};

static void test_axes(void **state) {
  fixture_t *fixture = *state;
  dt_function_options_t options = options_of(2, axes_inputs);
  dt_function_t *function = function_of(fixture, axes_program, NULL, &options);
  for (int k = 0; k < 6; k++) {
    const int64_t order[2] = {k & 1, 1 - (k & 1)}, sizes[2] = {2 + k, 3};
    int64_t memory[2];
    dt_tensor_t *axes = numbers(DT_I64, 2, order, 0, memory);
    dt_tensor_t *x = tensor_f32(&fixture->rng, 2, sizes), *out = NULL;
    expect_ok(dt_call(fixture->session, function, (dt_tensor_t *[]){axes, x}, 2, &out, 1, NULL));
    assert_int_equal(dt_tensor_sizes(out)[0], sizes[order[0]]);
    assert_int_equal(dt_tensor_sizes(out)[1], sizes[order[1]]);
    RELEASE(axes, x, out);
  }
  assert_int_equal(variants_of(function), 2);
  char *text = NULL;
  expect_ok(report_as_text(function, NULL, 0, DT_REPORT_VARIANTS, &text));
  if (!strstr(text, "axes[1]"))
    fail_msg("no element's name in\n%s", text);
  dt_text_free(text);
  dt_function_release(function);
}

// ---- What is told -----------------------------------------------------------------------------------

static void test_refused_declarations(void **state) {
  fixture_t *fixture = *state;
  static const dt_dim_decl_t dynamic[1], named[] = {{.name = "n", .is_static = true, .value = 2}};
  static const struct {
    dt_input_decl_t input;
    dt_code_t code;
    const char *told;
  } rows[] = {
      {INTEGERS("k", DT_F32, 2), DT_E_DTYPE, "expected i64, i32 or bool for integers"},
      {INTEGERS("k", DT_U8, 2), DT_E_DTYPE, "expected i64, i32 or bool for integers"},
      {INTEGERS("k", DT_I64, 65), DT_E_ARGUMENT, "a static dim (is_static, value) of 0 to 64"},
      {{.name = "k", .dtype = DT_I64, .rank = 1, .kind = DT_INPUT_INTEGERS},
       DT_E_ARGUMENT,
       "a static dim (is_static, value) of 0 to 64"},
      {{.name = "k", .dtype = DT_I64, .rank = 1, .dims = dynamic, .kind = DT_INPUT_INTEGERS},
       DT_E_ARGUMENT,
       "a static dim (is_static, value) of 0 to 64"},
      {{.name = "k", .dtype = DT_I64, .rank = 1, .dims = named, .kind = DT_INPUT_INTEGERS},
       DT_E_ARGUMENT,
       "a named dim"},
      {{.name = "k", .dtype = DT_I64, .rank = 2, .kind = DT_INPUT_INTEGERS},
       DT_E_ARGUMENT,
       "expected rank 0 or 1"},
      {{.name = "k", .dtype = DT_I64, .alignment = 8, .kind = DT_INPUT_INTEGERS},
       DT_E_ARGUMENT,
       "no alignment for integers"}};
  for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
    dt_function_options_t options = options_of(1, &rows[k].input);
    dt_function_t *function = NULL;
    expect_told(dt_function_create(fixture->runtime, axes_program, NULL, &options, &function),
                rows[k].code, rows[k].told);
    assert_null(function);
  }
}

// A call that does not fit is told so, and by a report, too; it makes no variant.
static void expect_refused(fixture_t *fixture, dt_function_t *function, dt_tensor_t **in,
                           dt_code_t code, const char *told, const char *remedy) {
  dt_tensor_t *out = NULL;
  dt_report_t *report = NULL;
  expect_told(dt_call(fixture->session, function, in, 2, &out, 1, NULL), code, told);
  assert_null(out);
  expect_ok(dt_function_report(function, in, 2, &report));
  assert_int_equal(report->refused, code);
  if (!strstr(report->refusal, told) || !strstr(report->refusal_remedy, remedy))
    fail_msg("%s; %s", report->refusal, report->refusal_remedy);
  dt_report_free(report);
}

static void test_refused_arguments(void **state) {
  fixture_t *fixture = *state;
  dt_function_options_t options = options_of(2, reshape_inputs);
  dt_function_t *function = function_of(fixture, reshape_program, NULL, &options);
  const int64_t six = 6, values[3] = {2, 3, 1}, matrix[2] = {1, 2};
  int64_t memory[3];
  dt_tensor_t *x = tensor_full(1, 1, &six), *out = NULL;
  dt_tensor_t *wrong[] = {numbers(DT_I32, 2, values, 0, memory),
                          numbers(DT_I64, 3, values, 0, memory), tensor_i64(2, matrix, values),
                          tensor_i64(0, NULL, values)};
  static const struct {
    dt_code_t code;
    const char *told, *remedy;
  } rows[] = {{DT_E_DTYPE, "argument 1 \"shape\": dtype i32; expected i64", "cast"},
              {DT_E_SHAPE, "argument 1 \"shape\", dim 0: size 3; expected 2", "with 2 elements"},
              {DT_E_SHAPE, "argument 1 \"shape\": rank 2; expected 1", "reshape"},
              {DT_E_SHAPE, "argument 1 \"shape\": rank 0; expected 1", "reshape"}};
  for (int k = 0; k < 4; k++) {
    expect_refused(fixture, function, (dt_tensor_t *[]){x, wrong[k]}, rows[k].code, rows[k].told,
                   rows[k].remedy);
    dt_tensor_release(wrong[k]);
  }
  expect_told(dt_call(fixture->session, function, (dt_tensor_t *[]){x, NULL}, 2, &out, 1, NULL),
              DT_E_ARGUMENT, "argument 'shape': NULL");
  expect_told(dt_call(fixture->session, function, (dt_tensor_t *[]){x, x, x}, 3, &out, 1, NULL),
              DT_E_ARGUMENT, "got 3 inputs and 1 outputs; expected 2 and 1");
  // Numbers that the program has no use for.
  dt_tensor_t *y = tensor_i64(1, &matrix[1], SIZES(4, 2));
  expect_told(dt_call(fixture->session, function, (dt_tensor_t *[]){x, y}, 2, &out, 1, NULL),
              DT_E_SHAPE, "reshape");
  assert_int_equal(variants_of(function), 0);
  // An output over the elements of a call that is good.
  expect_reshaped(fixture->session, function, DT_I64, shapes[0], 0);
  dt_tensor_t *over = NULL;
  ((int64_t *)dt_tensor_data(y))[0] = 1;
  ((int64_t *)dt_tensor_data(y))[1] = 1;
  const int64_t ones[2] = {1, 1};
  dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                           .dtype = DT_F32,
                           .rank = 2,
                           .sizes = ones,
                           .data = (char *)dt_tensor_data(y) + 12};
  expect_ok(dt_tensor_create(&desc, &over));
  dt_tensor_t *single = tensor_full(1, 1, ones);
  expect_told(dt_call(fixture->session, function, (dt_tensor_t *[]){single, y}, 2, &over, 1, NULL),
              DT_E_ARGUMENT, "overlaps argument 'shape[1]'");
  RELEASE(single, over, x, y);
  dt_function_release(function);
}

static dt_status_t wrong_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                 void *closure) {
  const int *way = closure;
  out[0] = in[0];
  if (*way == 0)
    dt_update(t, in[1], in[1]);
  else if (*way == 1)
    assert_null(dt_int_elements(t, in[1], NULL));
  else
    (void)dt_int_value(t, in[1]);
  return NULL;
}

static void test_wrong_programs(void **state) {
  fixture_t *fixture = *state;
  static const char *const told[] = {"update", "out_n: NULL", "int_value"};
  for (int way = 0; way < 3; way++) {
    dt_function_options_t options = options_of(2, reshape_inputs);
    dt_function_t *function = function_of(fixture, wrong_program, &way, &options);
    expect_told(dt_function_prepare(function, NULL), DT_E_ARGUMENT, told[way]);
    dt_function_release(function);
  }
}

// Positions in messages are those of the call, elements have names in reports, and what calls have
// shown is saved and loaded.
static void test_telling(void **state) {
  fixture_t *fixture = *state;
  dt_input_decl_t inputs[] = {axes_inputs[0], axes_inputs[1]};
  inputs[1].name = NULL;
  dt_function_options_t options = options_of(2, inputs);
  options.dynamic = DT_DYNAMIC_AUTOMATIC;
  dt_function_t *function = function_of(fixture, axes_program, NULL, &options);
  const int64_t order[2] = {1, 0}, other[2] = {0, 1}, sizes[2] = {2, 3};
  int64_t memory[2];
  dt_tensor_t *axes = numbers(DT_I64, 2, order, 0, memory);
  dt_tensor_t *x = tensor_f32(&fixture->rng, 2, sizes), *out = NULL;
  dt_tensor_t *in[2] = {axes, x}, *wrong[2] = {axes, axes};
  expect_ok(dt_call(fixture->session, function, in, 2, &out, 1, NULL));
  dt_tensor_release(out);
  out = NULL;
  expect_told(dt_call(fixture->session, function, wrong, 2, &out, 1, NULL), DT_E_DTYPE,
              "argument 1: dtype i64; expected f32");
  double ns = 0;
  expect_ok(dt_function_guard_ns(fixture->session, function, in, 2, 3, &ns));
  assert_string_equal(dt_function_input(function, 0)->name, "axes");
  assert_int_equal(dt_function_n_inputs(function), 2);
  memcpy(memory, other, sizeof(memory));
  char *text = NULL;
  dt_report_t *report = NULL;
  expect_ok(dt_function_report(function, in, 2, &report));
  expect_ok(dt_report_text(report, DT_REPORT_VARIANTS | DT_REPORT_CALL, &text));
  if (!strstr(text, "expected: axes[0] == 1\n") || !strstr(text, "argument 1.size(0)"))
    fail_msg("no names in\n%s", text);
  dt_report_free(report);
  dt_text_free(text);
  char path[64];
  (void)snprintf(path, sizeof(path), "integers-%ld.profile", (long)getpid());
  expect_ok(dt_function_profile_save(function, path));
  dt_function_t *second = function_of(fixture, axes_program, NULL, &options);
  expect_ok(dt_function_profile_load(second, path));
  (void)remove(path);
  dt_function_release(second);
  RELEASE(axes, x);
  dt_function_release(function);
}

// ---- Threads, and no memory -------------------------------------------------------------------------

typedef struct caller_t {
  pthread_t thread;
  dt_session_t *session;
  dt_function_t *function;
  int64_t seed;
} caller_t;

static void *call_often(void *opaque) {
  caller_t *caller = opaque;
  for (int64_t k = 0; k < 200; k++) {
    const int64_t shape[2] = {(caller->seed + k) % 5, 1 + k % 7};
    expect_reshaped(caller->session, caller->function, DT_I64, shape, k % 3);
  }
  return NULL;
}

static void test_threads(void **state) {
  fixture_t *fixture = *state;
  dt_function_options_t options = options_of(2, reshape_inputs);
  dt_function_t *function = function_of(fixture, reshape_program, NULL, &options);
  caller_t callers[4];
  for (int k = 0; k < 4; k++) {
    callers[k] = (caller_t){.function = function, .seed = k};
    expect_ok(dt_session_create(fixture->runtime, NULL, &callers[k].session));
    assert_int_equal(pthread_create(&callers[k].thread, NULL, call_often, &callers[k]), 0);
  }
  for (int k = 0; k < 4; k++) {
    assert_int_equal(pthread_join(callers[k].thread, NULL), 0);
    dt_session_destroy(callers[k].session);
  }
  assert_int_equal(variants_of(function), 1);
  dt_function_release(function);
}

static void test_no_memory(void **state) {
  fixture_t *fixture = *state;
  const int64_t six = 6, shape[2] = {2, 3};
  int64_t memory[2];
  dt_tensor_t *x = tensor_full(1, 1, &six), *y = numbers(DT_I64, 2, shape, 0, memory);
  dt_tensor_t *in[2] = {x, y};
  bool failed = true;
  for (uint64_t allocations = 1; failed; allocations++) {
    dt_function_options_t options = options_of(2, reshape_inputs);
    dt_function_t *function = NULL;
    dt_session_t *session = NULL;
    dt_tensor_t *out = NULL;
    dt_report_t *report = NULL;
    expect_ok(dt_session_create(fixture->runtime, NULL, &session));
    (void)dt__heap_fail_at(allocations, false);
    dt_status_t status =
        dt_function_create(fixture->runtime, reshape_program, NULL, &options, &function);
    if (!status)
      status = dt_call(session, function, in, 2, &out, 1, NULL);
    if (!status)
      status = dt_function_report(function, in, 2, &report);
    (void)dt__heap_fail_at(0, false);
    failed = status != NULL;
    if (failed)
      expect_code(status, DT_E_NO_MEMORY);
    if (failed && function) // it goes on working
      expect_reshaped(session, function, DT_I64, shape, 0);
    dt_report_free(report);
    dt_tensor_release(out);
    dt_function_release(function);
    dt_session_destroy(session);
    assert_true(allocations < 5000);
  }
  RELEASE(x, y);
}

RUN_TESTS_WITH(setup, fixture_close, TEST(test_sizes), TEST(test_dynamic), TEST(test_values),
               TEST(test_axes), TEST(test_refused_declarations), TEST(test_refused_arguments),
               TEST(test_wrong_programs), TEST(test_telling), TEST(test_threads),
               TEST(test_no_memory))
