// SPDX-License-Identifier: Apache-2.0
// What calls bring besides tensors of any layout: integers, booleans, captures, aligned data,
// memory that is updated, and the runtime's modes; and which of it needs a variant of its own.
#include "test/support/subjects.h"

#include "runtime/base/memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static int setup(void **state) { return fixture_open(state, 2, 23); }

// A rank-0 tensor of an integer type or bool.
static dt_tensor_t *scalar(dt_dtype_t dtype, int64_t value) {
  dt_tensor_t *tensor = tensor_empty(dtype, 0, NULL);
  memcpy(dt_tensor_data(tensor), &value, dt_dtype_size(dtype)); // little-endian
  return tensor;
}

// ---- Integers ---------------------------------------------------------------------------------------

// n + 10 * flag, as many times as max(n, 0) % 7.
static dt_status_t count_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                 void *closure) {
  (void)closure;
  dt_sym_t n = dt_int_value(t, in[0]), flag = dt_int_value(t, in[1]);
  dt_sym_t size = dt_sym_mod(t, dt_sym_max(t, n, dt_sym_const(t, 0)), dt_sym_const(t, 7));
  dt_sym_t sum = dt_sym_add(t, n, dt_sym_mul(t, flag, dt_sym_const(t, 10)));
  dt_value_t both[2] = {
      dt_size_value(t, sum),
      dt_add(t, in[0], dt_where(t, in[1], dt_scalar(t, DT_I64, 10), dt_scalar(t, DT_I64, 0)))};
  out[0] = dt_expand(t, dt_maximum(t, both[0], both[1]), 1, &size);
  return NULL;
}

static void expect_count(fixture_t *fixture, dt_function_t *function, dt_dtype_t dtype,
                         int64_t value, bool flag) {
  dt_tensor_t *in[2] = {scalar(dtype, value), scalar(DT_BOOL, flag)}, *out = NULL;
  expect_ok(dt_call(fixture->session, function, in, 2, &out, 1, NULL));
  assert_int_equal(dt_tensor_count(out), value < 0 ? 0 : value % 7);
  for (int64_t i = 0; i < dt_tensor_count(out); i++)
    assert_int_equal(((int64_t *)dt_tensor_data(out))[i], value + (flag ? 10 : 0));
  RELEASE(out, in[0], in[1]);
}

static void test_integers_of_every_dtype(void **state) {
  fixture_t *fixture = *state;
  static const struct {
    dt_dtype_t dtype;
    int64_t low, high;
  } rows[] = {{DT_I8, INT8_MIN, INT8_MAX},    {DT_I16, INT16_MIN, INT16_MAX},
              {DT_I32, INT32_MIN, INT32_MAX}, {DT_I64, -((int64_t)1 << 60), (int64_t)1 << 60},
              {DT_U8, 0, UINT8_MAX},          {DT_U16, 0, UINT16_MAX},
              {DT_U32, 0, UINT32_MAX}};
  for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
    dt_input_decl_t inputs[] = {{.name = "n", .dtype = rows[k].dtype, .kind = DT_INPUT_INTEGER},
                                {.name = "flag", .dtype = DT_BOOL, .kind = DT_INPUT_BOOLEAN}};
    dt_function_options_t options = options_of(2, inputs);
    dt_function_t *function = function_of(fixture, count_program, NULL, &options);
    for (int round = 0; round < 8; round++) {
      expect_count(fixture, function, rows[k].dtype, rows[k].low, round & 1);
      expect_count(fixture, function, rows[k].dtype, rows[k].high, round & 1);
      expect_count(fixture, function, rows[k].dtype, round, round & 1);
    }
    assert_int_equal(variants_of(function), 1);
    dt_function_release(function);
  }
}

static void test_refused_integers(void **state) {
  fixture_t *fixture = *state;
  static const dt_input_decl_t inputs[] = {
      {.name = "n", .dtype = DT_I32, .kind = DT_INPUT_INTEGER},
      {.name = "flag", .dtype = DT_BOOL, .kind = DT_INPUT_BOOLEAN}};
  dt_function_options_t options = options_of(2, inputs);
  dt_function_t *function = function_of(fixture, count_program, NULL, &options);
  dt_tensor_t *flag = scalar(DT_BOOL, 1), *out = NULL;
  dt_tensor_t *wide = scalar(DT_I64, 3);
  dt_tensor_t *vector = tensor_i64(1, SIZES(1), VALUES(3));
  expect_told(dt_call(fixture->session, function, (dt_tensor_t *[]){wide, flag}, 2, &out, 1, NULL),
              DT_E_DTYPE, "argument 0 \"n\": dtype i64; expected i32");
  expect_code(
      dt_call(fixture->session, function, (dt_tensor_t *[]){vector, flag}, 2, &out, 1, NULL),
      DT_E_DTYPE);
  assert_int_equal(variants_of(function), 0);
  RELEASE(flag, wide, vector);
  dt_function_release(function);
}

// ---- Captures ---------------------------------------------------------------------------------------

typedef struct holder_t {
  int64_t first, second;
} holder_t;

static dt_status_t holder_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  const holder_t *holder = closure;
  dt_sym_t second = dt_capture(t, "second", &holder->second);
  dt_sym_t sum = second;
  // Read by those variants alone where the second is odd.
  if (dt_sym_true(t, dt_sym_eq(t, dt_sym_mod(t, second, dt_sym_const(t, 2)), dt_sym_const(t, 1))))
    sum = dt_sym_add(t, sum, dt_capture(t, "first", &holder->first));
  out[0] = dt_add(t, in[0], dt_size_value(t, sum));
  return NULL;
}

static const dt_input_decl_t one_i64[] = {{.name = "x", .dtype = DT_I64}};

static void expect_sum(fixture_t *fixture, dt_function_t *function, const holder_t *holder) {
  dt_tensor_t *x = scalar(DT_I64, 1000), *out = NULL;
  expect_ok(dt_call(fixture->session, function, &x, 1, &out, 1, NULL));
  assert_int_equal(*(int64_t *)dt_tensor_data(out),
                   1000 + holder->second + (holder->second % 2 ? holder->first : 0));
  RELEASE(out, x);
}

static void test_captures(void **state) {
  fixture_t *fixture = *state;
  holder_t holder = {0};
  for (int dynamic = DT_DYNAMIC_SYMBOLIC; dynamic <= DT_DYNAMIC_STATIC; dynamic++) {
    dt_function_options_t options = options_of(1, one_i64);
    options.dynamic = (dt_dynamic_t)dynamic;
    dt_function_t *function = function_of(fixture, holder_program, &holder, &options);
    for (int64_t k = 0; k < 12; k++) {
      holder.second = k / 2;
      holder.first = k * 3;
      expect_sum(fixture, function, &holder);
      expect_sum(fixture, function, &holder);
    }
    // symbolic: even, odd. automatic: 0; even or odd 1 with the first at 6; the first dynamic;
    // even.
    static const uint32_t expected[] = {2, 4, 9};
    assert_int_equal(variants_of(function), expected[dynamic]);
    dt_function_release(function);
  }
}

static dt_status_t moving_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  static int64_t other = 5;
  int64_t *calls = closure;
  dt_sym_t k = dt_capture(t, "k", (*calls)++ ? &other : calls);
  out[0] = dt_add(t, in[0], dt_size_value(t, k));
  (void)dt_sym_int(t, k);
  return NULL;
}

static void test_a_capture_keeps_its_address(void **state) {
  fixture_t *fixture = *state;
  int64_t calls = 0;
  dt_function_options_t options = options_of(1, one_i64);
  dt_function_t *function = function_of(fixture, moving_program, &calls, &options);
  dt_tensor_t *x = scalar(DT_I64, 1), *out = NULL;
  expect_ok(dt_call(fixture->session, function, &x, 1, &out, 1, NULL));
  dt_tensor_release(out);
  out = NULL;
  calls = 7;
  expect_told(dt_call(fixture->session, function, &x, 1, &out, 1, NULL), DT_E_ARGUMENT,
              "\"k\" stood for another address");
  dt_tensor_release(x);
  dt_function_release(function);
}

// A thread counts a capture up while another calls: each result is that of one value, and they
// never go back.
typedef struct racer_t {
  int64_t value;
  _Atomic bool stop;
} racer_t;

static void *count_up(void *opaque) {
  racer_t *racer = opaque;
  for (int64_t k = 1; !atomic_load(&racer->stop); k++)
    __atomic_store_n(&racer->value, k, __ATOMIC_RELAXED);
  return NULL;
}

static dt_status_t twice_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                 void *closure) {
  racer_t *racer = closure;
  dt_sym_t k = dt_capture(t, "k", &racer->value);
  dt_value_t pair[2] = {dt_unsqueeze(t, dt_add(t, in[0], dt_size_value(t, k)), 0),
                        dt_unsqueeze(t, dt_sub(t, in[0], dt_size_value(t, k)), 0)};
  out[0] = dt_concat(t, 2, pair, 0);
  return NULL;
}

static void test_captures_that_change_meanwhile(void **state) {
  fixture_t *fixture = *state;
  for (int dynamic = DT_DYNAMIC_SYMBOLIC; dynamic <= DT_DYNAMIC_AUTOMATIC; dynamic++) {
    racer_t racer = {0};
    pthread_t thread;
    dt_function_options_t options = options_of(1, one_i64);
    options.dynamic = (dt_dynamic_t)dynamic;
    dt_function_t *function = function_of(fixture, twice_program, &racer, &options);
    assert_int_equal(pthread_create(&thread, NULL, count_up, &racer), 0);
    dt_tensor_t *x = scalar(DT_I64, 0);
    int64_t last = 0;
    for (int k = 0; k < 2000; k++) {
      dt_tensor_t *out = NULL;
      expect_ok(dt_call(fixture->session, function, &x, 1, &out, 1, NULL));
      const int64_t *got = dt_tensor_data(out);
      assert_true(got[0] == -got[1] && got[0] >= last);
      last = got[0];
      dt_tensor_release(out);
    }
    atomic_store(&racer.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(variants_of(function) <= 2);
    dt_tensor_release(x);
    dt_function_release(function);
  }
}

// ---- Alignment --------------------------------------------------------------------------------------
static void test_alignment(void **state) {
  fixture_t *fixture = *state;
  static _Alignas(256) float memory[128];
  static const dt_input_decl_t inputs[] = {
      {.name = "x", .dtype = DT_F32, .rank = 1, .alignment = 128}};
  dt_function_options_t options = options_of(1, inputs);
  dt_function_t *function = function_of(fixture, negate_program, NULL, &options);
  int64_t n = 8;
  for (int round = 0; round < 2; round++) {
    for (int offset = 0; offset <= 64; offset += 4) {
      dt_tensor_desc_t desc = {.dtype = DT_F32, .rank = 1, .sizes = &n, .data = &memory[offset]};
      dt_tensor_t *x = NULL, *out = NULL;
      expect_ok(dt_tensor_create(&desc, &x));
      dt_status_t status = dt_call(fixture->session, function, &x, 1, &out, 1, NULL);
      if (offset % 32 == 0)
        expect_ok(status);
      else
        expect_told(status, DT_E_ARGUMENT, "expected 128");
      RELEASE(out, x);
    }
  }
  assert_int_equal(variants_of(function), 1);
  dt_function_release(function);
}

// ---- Modes ------------------------------------------------------------------------------------------
// x * x - y as sums of two products each, the second added in one rounding or two.
static dt_status_t rest(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t columns[] = {dt_unsqueeze(t, in[1], 1), dt_unsqueeze(t, in[0], 1)};
  dt_value_t rows[] = {dt_unsqueeze(t, in[1], 0), dt_unsqueeze(t, in[0], 0)};
  rows[0] = dt_sub(t, dt_sub(t, rows[0], rows[0]), dt_scalar(t, DT_F32, 1));
  out[0] = dt_matmul(t, dt_concat(t, 2, columns, 1), dt_concat(t, 2, rows, 0));
  return NULL;
}

static float rest_of(fixture_t *fixture, dt_function_t *function, dt_tensor_t *const *in) {
  dt_tensor_t *out = NULL;
  expect_ok(dt_call(fixture->session, function, in, 2, &out, 1, NULL));
  float value = *(float *)dt_tensor_data(out);
  dt_tensor_release(out);
  return value;
}

static void test_strict_fp_is_guarded(void **state) {
  fixture_t *fixture = *state;
  if (compiled_answer() != DT_ANSWER_COMPILED)
    return; // the evaluator's answers depend on no mode
  static const dt_input_decl_t inputs[] = {{.name = "x", .dtype = DT_F32, .rank = 1},
                                           {.name = "y", .dtype = DT_F32, .rank = 1}};
  dt_function_options_t options = options_of(2, inputs);
  dt_function_t *function = function_of(fixture, rest, NULL, &options);
  options.strict_fp = true;
  dt_function_t *strict = function_of(fixture, rest, NULL, &options);
  int64_t n = 40;
  float x = 1.0f + 0x1p-20f, square = x * x;
  dt_tensor_t *in[2] = {tensor_full(x, 1, &n), tensor_full(square, 1, &n)};
  float loose = rest_of(fixture, function, in);
  for (int round = 0; round < 3; round++) {
    expect_ok(dt_runtime_mode_set(fixture->runtime, DT_MODE_STRICT_FP, 1));
    assert_true(rest_of(fixture, function, in) == 0);
    assert_true(rest_of(fixture, strict, in) == 0);
    expect_ok(dt_runtime_mode_set(fixture->runtime, DT_MODE_STRICT_FP, 0));
    assert_true(rest_of(fixture, function, in) == loose);
    expect_ok(dt_runtime_mode_set(fixture->runtime, DT_MODE_DETERMINISTIC, (uint32_t)round & 1));
    assert_true(rest_of(fixture, function, in) == loose);
  }
  expect_ok(dt_runtime_mode_set(fixture->runtime, DT_MODE_DETERMINISTIC, 0));
#if defined(__x86_64__)
  if (__builtin_cpu_supports("fma"))
    assert_true(loose == 0x1p-40f);
#endif
  assert_int_equal(variants_of(function), 2);
  assert_int_equal(variants_of(strict), 1);
  RELEASE(in[0], in[1]);
  dt_function_release(function);
  dt_function_release(strict);
}

// ---- Updates (by the evaluator) -----------------------------------------------------------------------

// a becomes a + b; the result is what a is then, twice.
static dt_status_t add_to(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_update(t, in[0], dt_add(t, in[0], in[1]));
  out[0] = dt_add(t, in[0], in[0]);
  return NULL;
}

static const dt_input_decl_t two_matrices[] = {{.name = "a", .dtype = DT_F32, .rank = 2},
                                               {.name = "b", .dtype = DT_F32, .rank = 2}};

static dt_tensor_t *strided(float *data, const int64_t *sizes, const int64_t *strides) {
  return tensor_over(DT_F32, 2, sizes, strides, data);
}

static void test_updates(void **state) {
  fixture_t *fixture = *state;
  dt_function_options_t options = options_of(2, two_matrices);
  options.answer = compiled_answer();
  dt_function_t *function = function_of(fixture, add_to, NULL, &options);
  static float memory[64];
  for (int k = 0; k < 64; k++)
    memory[k] = (float)k;
  // A transposed 3 x 2 view, every second column of rows of ten, backwards.
  dt_tensor_t *a = strided(memory + 30, SIZES(3, 2), SIZES(-2, 10));
  dt_tensor_t *b = tensor_full(100, 2, SIZES(3, 2)), *out = NULL;
  expect_ok(dt_call(fixture->session, function, (dt_tensor_t *[]){a, b}, 2, &out, 1, NULL));
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 2; j++) {
      int at = 30 - 2 * i + 10 * j;
      assert_true(memory[at] == (float)at + 100);
      assert_true(((float *)dt_tensor_data(out))[2 * i + j] == 2 * ((float)at + 100));
    }
  }
  for (int k = 0; k < 64; k++)
    assert_true(memory[k] == (float)k || memory[k] == (float)k + 100);
  assert_true(memory[29] == 29 && memory[31] == 31 && memory[41] == 41);
  dt_tensor_release(out);
  out = NULL;
  // The same memory twice: a + a.
  expect_ok(dt_call(fixture->session, function, (dt_tensor_t *[]){b, b}, 2, &out, 1, NULL));
  assert_true(((float *)dt_tensor_data(b))[5] == 200);
  assert_true(((float *)dt_tensor_data(out))[5] == 400);
  dt_tensor_release(out);
  out = NULL;
  // Overlap in part, and indices that share an element: refused, whatever variants there are.
  dt_tensor_t *next = strided(memory + 31, SIZES(3, 2), SIZES(-2, 10));
  dt_tensor_t *spread = strided(memory, SIZES(3, 2), SIZES(0, 1));
  for (int round = 0; round < 2; round++) {
    uint32_t variants = variants_of(function);
    expect_told(dt_call(fixture->session, function, (dt_tensor_t *[]){a, next}, 2, &out, 1, NULL),
                DT_E_ARGUMENT, "overlaps argument 1 \"b\" in part");
    expect_told(dt_call(fixture->session, function, (dt_tensor_t *[]){spread, b}, 2, &out, 1, NULL),
                DT_E_ARGUMENT, "one element");
    assert_int_equal(variants_of(function), variants);
    assert_true(memory[31] == 31);
    assert_null(out);
  }
  RELEASE(next, spread, a, b);
  dt_function_release(function);
}

// ---- Without memory -----------------------------------------------------------------------------------
static dt_status_t all_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  const int64_t *numbers = closure;
  dt_sym_t k = dt_sym_add(t, dt_int_value(t, in[1]), dt_capture(t, "k", &numbers[0]));
  dt_value_t sum = dt_add(t, in[0], dt_cast(t, dt_size_value(t, k), DT_F32));
  dt_update(t, in[0], sum);
  out[0] = dt_neg(t, in[0]);
  return NULL;
}

static void test_no_memory(void **state) {
  fixture_t *fixture = *state;
  static const dt_dim_decl_t dims[] = {{.name = "n", .multiple_of = 2}, {.of = "n", .offset = 1}};
  static const dt_input_decl_t inputs[] = {
      {.name = "x", .dtype = DT_F32, .rank = 2, .dims = dims, .alignment = 16},
      {.name = "k", .dtype = DT_I64, .kind = DT_INPUT_INTEGER}};
  int64_t numbers[1] = {3};
  for (uint64_t allocations = 1;; allocations++) {
    dt_function_options_t options = options_of(2, inputs);
    options.answer = compiled_answer();
    options.dynamic = DT_DYNAMIC_AUTOMATIC;
    options.variant_limit = 1;
    dt_tensor_t *in[2] = {tensor_full(1, 2, SIZES(2, 3)), scalar(DT_I64, 4)};
    dt_tensor_t *larger = tensor_full(1, 2, SIZES(4, 5));
    dt_tensor_t *first = NULL, *second = NULL;
    dt_function_t *function = NULL;
    (void)dt__heap_fail_at(allocations, false);
    dt_status_t status =
        dt_function_create(fixture->runtime, all_program, numbers, &options, &function);
    if (!status)
      status = dt_call(fixture->session, function, in, 2, &first, 1, NULL);
    if (!status)
      status = dt_call(fixture->session, function, (dt_tensor_t *[]){larger, in[1]}, 2, &second, 1,
                       NULL);
    (void)dt__heap_fail_at(0, false);
    bool failed = status != NULL;
    if (failed)
      expect_code(status, DT_E_NO_MEMORY);
    else
      assert_true(*(float *)dt_tensor_data(second) == -8);
    if (failed && function) { // it goes on working
      dt_tensor_t *again = NULL;
      expect_ok(dt_call(fixture->session, function, (dt_tensor_t *[]){larger, in[1]}, 2, &again, 1,
                        NULL));
      dt_tensor_release(again);
    }
    RELEASE(first, second, larger, in[0], in[1]);
    dt_function_release(function);
    if (!failed)
      break;
    assert_true(allocations < 5000);
  }
}

RUN_TESTS_WITH(setup, fixture_close, TEST(test_integers_of_every_dtype),
               TEST(test_refused_integers), TEST(test_captures),
               TEST(test_a_capture_keeps_its_address), TEST(test_captures_that_change_meanwhile),
               TEST(test_alignment), TEST(test_strict_fp_is_guarded), TEST(test_updates),
               TEST(test_no_memory))
