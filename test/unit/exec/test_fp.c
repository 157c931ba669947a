// SPDX-License-Identifier: Apache-2.0
// Threads whose floats are not as C begins with them: programs linked with -ffast-math flush
// denormals, others round upwards or trap. Results have the same bits, no trap is taken, and the
// thread gets back what it had; also where it made the runtime.
#include "test/support/subjects.h"

#include <string.h>

#if defined(__x86_64__)
#define FLUSH 0x8040u   // denormals, in operands and in results (Intel SDM 1, 10.2.3)
#define UPWARDS 0x4000u // rounding
#define TRAPS 0x0680u   // of invalid operations, division by zero and overflow, where these are 0
static const uint32_t controls[] = {0x1F80u | FLUSH, 0x1F80u | UPWARDS, 0x1F80u & ~TRAPS,
                                    (0x1F80u & ~TRAPS) | FLUSH | UPWARDS};

static uint32_t get_control(void) { return __builtin_ia32_stmxcsr() & ~0x3Fu; }
static void set_control(uint32_t control) { __builtin_ia32_ldmxcsr(control); }
#else
static const uint32_t controls[] = {1u << 24}; // FPCR.FZ
static uint32_t get_control(void) {
  uint64_t control;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  return (uint32_t)control;
}
static void set_control(uint32_t control) {
  __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)control));
}
#endif

#define ROWS 96
#define COLUMNS 257

// Denormals, numbers whose products are, others whose sums round, infinities and a NaN.
static dt_tensor_t *numbers(void) {
  rng_t rng = {3};
  dt_tensor_t *tensor = tensor_f32(&rng, 2, SIZES(ROWS, COLUMNS));
  float *at = dt_tensor_data(tensor);
  for (int64_t i = 0; i < ROWS * COLUMNS; i++)
    at[i] *= i % 3 == 0 ? 1e-39f : i % 3 == 1 ? 1e-20f : 1.0f;
  at[5 * COLUMNS] = 1.0f / 0.0f;
  at[6 * COLUMNS] = 0.0f / 0.0f;
  return tensor;
}

// x * x * 0.1, and the sums of rows.
static dt_status_t program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t square = dt_mul(t, in[0], in[0]);
  out[0] = dt_mul(t, square, dt_scalar(t, DT_F32, 0.1));
  out[1] = dt_sum(t, in[0], 1, &(int32_t){1}, false);
  return NULL;
}

static dt_function_t *make(dt_runtime_t *runtime, dt_answer_t answer) {
  static const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 2};
  dt_function_options_t options = options_of(1, &input);
  options.n_outputs = 2;
  options.answer = answer;
  dt_function_t *function = NULL;
  expect_ok(dt_function_create(runtime, program, NULL, &options, &function));
  return function;
}

static void call(dt_session_t *session, dt_function_t *function, dt_tensor_t *in,
                 dt_tensor_t **out) {
  out[0] = out[1] = NULL;
  expect_ok(dt_call(session, function, &in, 1, out, 2, NULL));
}

static void expect_same(dt_tensor_t *const *a, dt_tensor_t *const *b) {
  for (int k = 0; k < 2; k++)
    assert_memory_equal(dt_tensor_data(a[k]), dt_tensor_data(b[k]), dt_tensor_bytes(b[k]));
}

static void check(dt_answer_t answer, uint32_t threads) {
  dt_tensor_t *in = numbers(), *want[2], *got[2];
  fixture_t f = fixture_on(DT_CPU, threads);
  dt_function_t *function = make(f.runtime, answer);
  call(f.session, function, in, want);
  dt_function_release(function);
  for (size_t k = 0; k < sizeof(controls) / sizeof(controls[0]); k++) {
    uint32_t before = get_control();
    set_control(controls[k]);
    fixture_t own = fixture_on(DT_CPU, threads); // its threads inherit that
    function = make(own.runtime, answer);
    call(own.session, function, in, got);
    uint32_t after = get_control();
    set_control(before);
    assert_int_equal(after, controls[k]);
    expect_same(got, want);
    RELEASE(got[0], got[1]);
    call(own.session, function, in, got);
    expect_same(got, want);
    RELEASE(got[0], got[1]);
    dt_function_release(function);
    fixture_end(&own);
  }
  RELEASE(in, want[0], want[1]);
  fixture_end(&f);
}

static void test_compiled(void **state) {
  (void)state;
  check(compiled_answer(), 1);
  check(compiled_answer(), 4);
}

static void test_evaluated(void **state) {
  (void)state;
  check(DT_ANSWER_EVALUATOR, 1);
}

RUN_TESTS(TEST(test_compiled), TEST(test_evaluated))
