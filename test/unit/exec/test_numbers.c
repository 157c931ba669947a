// SPDX-License-Identifier: Apache-2.0
// Numbers that programs make of sizes, of integers and of what is read from data, and take for
// data: where they do not fit in 64 bits the call gets a status, from compiled code as from the
// evaluator, on the CPU and on devices (the fake driver runs the PTX); where they fit they are
// right.
#include "test/support/subjects.h"

// ---- Programs -------------------------------------------------------------------------------------
static dt_status_t item_times(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_size_value(t, dt_sym_mul(t, dt_item(t, in[0]), dt_sym_const(t, 4)));
  return NULL;
}
static dt_status_t item_square(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  dt_sym_t k = dt_item(t, in[0]);
  (void)closure;
  out[0] = dt_size_value(t, dt_sym_floordiv(t, dt_sym_mul(t, k, k), dt_sym_const(t, 3)));
  return NULL;
}
static dt_status_t item_next(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_size_value(t, dt_sym_add(t, dt_item(t, in[0]), dt_sym_const(t, 1)));
  return NULL;
}

static const struct {
  dt_program_fn_t program;
  int64_t k, expected; // 0: refused
} cases[] = {
    {item_times, 3, 12},
    {item_times, ((int64_t)1 << 62) + 1, 0},
    {item_times, -((int64_t)1 << 61) - 1, 0},
    {item_times, ((int64_t)1 << 61) - 1, INT64_MAX - 3},
    {item_square, 3037000499, 3037000499LL * 3037000499LL / 3},
    {item_square, 3037000500, 0},
    {item_next, INT64_MAX, 0},
    {item_next, INT64_MAX - 1, INT64_MAX},
};
#define N_CASES (sizeof(cases) / sizeof(cases[0]))

// ---- Calls ----------------------------------------------------------------------------------------
static void check(dt_runtime_t *runtime, dt_session_t *session, dt_input_kind_t kind,
                  dt_answer_t answer, size_t index) {
  const dt_input_decl_t inputs[] = {{.name = "k", .dtype = DT_I64, .rank = 0, .kind = kind}};
  subject_t subject = {"f", cases[index].program, 1, 1, inputs};
  dt_function_t *function = subject_function(runtime, &subject, NULL, answer);
  const int64_t ks[] = {5, cases[index].k};
  for (int call = 0; call < 2; call++) {
    dt_tensor_t *k = tensor_i64(0, NULL, &ks[call]), *out = NULL;
    int64_t got = 0;
    dt_status_t status = dt_call(session, function, &k, 1, &out, 1, NULL);
    if (!status)
      status = dt_tensor_read(session, out, &got, sizeof(got));
    bool good = call == 0 || cases[index].expected;
    if (good && status)
      fail_msg("case %zu, call %d: %s", index, call, dt_status_message(status));
    if (!good && (dt_status_code(status) != DT_E_SHAPE && dt_status_code(status) != DT_E_LIMIT))
      fail_msg("case %zu: got %s, %lld; expected a refusal", index,
               dt_code_name(dt_status_code(status)), (long long)got);
    if (good && call == 1 && got != cases[index].expected)
      fail_msg("case %zu: got %lld; expected %lld", index, (long long)got,
               (long long)cases[index].expected);
    dt_status_free(status);
    RELEASE(out, k);
  }
  dt_function_release(function);
}

static void check_all(dt_device_t device, dt_answer_t answer) {
  static const dt_input_kind_t kinds[] = {DT_INPUT_TENSOR, DT_INPUT_INTEGER};
  fixture_t place = fixture_on(device, 1);
  for (size_t k = 0; k < 2; k++)
    for (size_t index = 0; index < N_CASES; index++)
      check(place.runtime, place.session, kinds[k], answer, index);
  fixture_end(&place);
}

static void test_cpu(void **state) {
  (void)state;
  check_all(DT_CPU, compiled_answer());
}
static void test_evaluator(void **state) {
  (void)state;
  check_all(DT_CPU, DT_ANSWER_EVALUATOR);
}
static void test_cuda(void **state) {
  (void)state;
  check_all(DT_CUDA, DT_ANSWER_COMPILED);
}

RUN_TESTS(TEST(test_cpu), TEST(test_evaluator), TEST(test_cuda))
