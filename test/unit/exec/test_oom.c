// SPDX-License-Identifier: Apache-2.0
// Allocation N fails, N = 1, 2, …, until a whole sequence goes through: every failure is a clean
// DT_E_NO_MEMORY, nothing leaks (the sanitizer build tells), and what survived works afterwards.
#include "test/support/subjects.h"

#include "ductile/pattern.h"
#include "runtime/base/memory.h"

#define MOST_ALLOCATIONS 20000

typedef struct sequence_t {
  dt_runtime_t *runtime; // NULL: the sequence makes its own
  const subject_t *subject;
  void *closure;
  dt_answer_t answer;
  dt_tensor_t **inputs;
  dt_tensor_t *update; // for constant "w", or NULL
} sequence_t;

static dt_status_t create_function(const sequence_t *sequence, dt_runtime_t *runtime,
                                   dt_function_t **out) {
  dt_function_options_t options = {.name = sequence->subject->name,
                                   .n_inputs = sequence->subject->n_inputs,
                                   .n_outputs = 1,
                                   .inputs = sequence->subject->inputs,
                                   .answer = sequence->answer};
  return dt_function_create(runtime, sequence->subject->program, sequence->closure, &options, out);
}

// Create, call, update, call again; everything made is released, whatever failed.
static dt_status_t run_once(const sequence_t *sequence) {
  dt_runtime_t *runtime = sequence->runtime;
  dt_session_t *session = NULL;
  dt_function_t *function = NULL;
  dt_tensor_t *out[2] = {0};
  dt_status_t status = NULL;
  if (runtime) {
    dt_runtime_retain(runtime);
  } else {
    dt_runtime_options_t options = {.threads = 2, .compile_threads = 1};
    status = dt_runtime_create(&options, &runtime);
  }
  if (!status)
    status = dt_session_create(runtime, NULL, &session);
  if (!status)
    status = create_function(sequence, runtime, &function);
  if (!status)
    status =
        dt_call(session, function, sequence->inputs, sequence->subject->n_inputs, &out[0], 1, NULL);
  if (!status && sequence->update)
    status = dt_constant_update(function, "w", sequence->update);
  if (!status)
    status =
        dt_call(session, function, sequence->inputs, sequence->subject->n_inputs, &out[1], 1, NULL);
  RELEASE(out[0], out[1]);
  dt_function_release(function);
  dt_session_destroy(session);
  dt_runtime_release(runtime);
  return status;
}

static void run_all(const sequence_t *sequence) {
  for (uint64_t n = 1; n < MOST_ALLOCATIONS; n++) {
    (void)dt__heap_fail_at(n, false);
    dt_status_t status = run_once(sequence);
    uint64_t counted = dt__heap_fail_at(0, false);
    if (counted < n) {
      expect_ok(status);
      print_message("%s: %llu allocations\n", sequence->subject->name, (unsigned long long)counted);
      return;
    }
    // A failed log line or dump is no failure of the call, so success is right as well.
    if (status)
      expect_code(status, DT_E_NO_MEMORY);
  }
  fail_msg("more than %d allocations", MOST_ALLOCATIONS);
}

static void test_runtime(void **state) {
  (void)state;
  int64_t n = 3;
  dt_tensor_t *x = tensor_full(1, 1, &n);
  dt_tensor_t *inputs[] = {x, x};
  sequence_t sequence = {.subject = &add_subject, .answer = DT_ANSWER_EVALUATOR, .inputs = inputs};
  run_all(&sequence);
  dt_tensor_release(x);
}

static void run_compiled(const subject_t *subject, dt_tensor_t **inputs, void *closure,
                         dt_tensor_t *update) {
  dt_runtime_t *runtime = NULL;
  dt_runtime_options_t options = {.threads = 2, .compile_threads = 1};
  expect_ok(dt_runtime_create(&options, &runtime));
  sequence_t sequence = {.runtime = runtime,
                         .subject = subject,
                         .closure = closure,
                         .answer = compiled_answer(),
                         .inputs = inputs,
                         .update = update};
  run_all(&sequence);
  dt_runtime_release(runtime);
}

static void test_softmax(void **state) {
  (void)state;
  rng_t rng = {3};
  dt_tensor_t *x = tensor_f32(&rng, 2, SIZES(5, 40));
  run_compiled(&softmax_subject, &x, NULL, NULL);
  dt_tensor_release(x);
}

static void test_constants(void **state) {
  (void)state;
  dt_tensor_t *x = tensor_full(1, 1, SIZES(6));
  dt_tensor_t *w = tensor_full(2, 1, SIZES(4));
  dt_tensor_t *next = tensor_full(3, 1, SIZES(4));
  run_compiled(&scale_subject, &x, w, next);
  RELEASE(x, w, next);
}

static void test_mlp(void **state) {
  (void)state;
  rng_t rng = {3};
  mlp_t mlp;
  mlp_init(&mlp, &rng);
  dt_tensor_t *x = tensor_f32(&rng, 3, SIZES(2, 5, 16));
  run_compiled(&mlp_subject, &x, &mlp, NULL);
  dt_tensor_release(x);
  mlp_fini(&mlp);
}

// A branch in a loop.
static dt_status_t goes_on(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_lt(t, in[0], dt_scalar(t, DT_I64, 2));
  return NULL;
}
static dt_status_t summed(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_sub(t, in[0], dt_sum(t, in[0], 0, NULL, false));
  return NULL;
}
static dt_status_t trip(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t pred = dt_eq(t, in[0], dt_scalar(t, DT_I64, 0));
  out[0] = dt_add(t, in[0], dt_scalar(t, DT_I64, 1));
  dt_cond(t, pred, double_program, summed, closure, 1, &in[1], 1, &out[1]);
  return NULL;
}
static dt_status_t control_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                   void *closure) {
  dt_value_t state[2] = {dt_scalar(t, DT_I64, 0), in[0]};
  dt_while(t, goes_on, trip, closure, 2, state, 0, NULL, state);
  out[0] = state[1];
  return NULL;
}
static void test_control(void **state) {
  (void)state;
  static const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1};
  static const subject_t control = {"control", control_program, 1, 1, &input};
  rng_t rng = {3};
  dt_tensor_t *x = tensor_f32(&rng, 1, SIZES(5));
  run_compiled(&control, &x, NULL, NULL);
  dt_tensor_release(x);
}

// Two segments: how many ones there are is the sum of the squares.
static dt_status_t segments_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                    void *closure) {
  (void)closure;
  dt_value_t total = dt_sum(t, dt_mul(t, in[0], in[0]), 0, NULL, false);
  dt_sym_t k = dt_item(t, dt_cast(t, total, DT_I64));
  out[0] = dt_div(t, dt_full(t, DT_F32, 1, 1, &k), total);
  return NULL;
}
static const dt_input_decl_t segments_inputs[] = {{.name = "x", .dtype = DT_F32, .rank = 1}};
static const subject_t segments_subject = {"segments", segments_program, 1, 1, segments_inputs};

static void test_segments(void **state) {
  (void)state;
  dt_tensor_t *x = tensor_full(2, 1, SIZES(30));
  run_compiled(&segments_subject, &x, NULL, NULL);
  dt_tensor_release(x);
}

// A pattern is made, matches once and nearly once, and explains itself.
static dt_status_t pair(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[0], in[1]);
  out[1] = dt_mul(t, out[0], dt_sigmoid(t, out[0]));
  return NULL;
}
static dt_status_t put_pair(dt_match_t *m, dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                            void *closure) {
  (void)m;
  (void)closure;
  out[0] = dt_add(t, in[1], in[0]);
  out[1] = dt_silu(t, out[0]);
  return NULL;
}
static dt_status_t gated(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t both[2];
  (void)pair(t, (const dt_value_t[]){in[0], dt_scalar(t, DT_F32, 1)}, both, closure);
  out[0] = dt_add(t, both[0], dt_exp(t, both[1]));
  return NULL;
}

static dt_status_t use_pattern(dt_runtime_t *runtime, dt_pattern_t *pattern, dt_tensor_t *x) {
  static const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1};
  static const subject_t subject = {"gated", gated, 1, 1, &input};
  const sequence_t sequence = {.subject = &subject, .answer = DT_ANSWER_EVALUATOR};
  dt_session_t *session = NULL;
  dt_function_t *function = NULL;
  dt_tensor_t *out = NULL;
  char *text = NULL;
  dt_status_t status = dt_runtime_add_pattern(runtime, pattern);
  if (!status)
    status = dt_session_create(runtime, NULL, &session);
  if (!status)
    status = create_function(&sequence, runtime, &function);
  if (!status)
    status = dt_call(session, function, &x, 1, &out, 1, NULL);
  if (!status)
    status = dt_pattern_explain_function(pattern, function, &x, 1, &text);
  dt_text_free(text);
  RELEASE(out);
  dt_function_release(function);
  dt_session_destroy(session);
  return status;
}

static dt_status_t make_and_use_pattern(dt_tensor_t *x) {
  static const dt_dim_decl_t dim = {.name = "n"};
  static const dt_wildcard_t wildcards[] = {{.name = "a", .ranked = true, .rank = 1, .dims = &dim},
                                            {.name = "b", .same_dtype = "a"}};
  const dt_pattern_options_t options = {.struct_size = sizeof(options),
                                        .name = "pair",
                                        .point = DT_POINT_TRACED,
                                        .n_wildcards = 2,
                                        .n_outputs = 2,
                                        .wildcard_size = sizeof(wildcards[0]),
                                        .dim_size = sizeof(dim),
                                        .wildcards = wildcards};
  const dt_runtime_options_t one = {.threads = 1, .compile_threads = 1};
  dt_runtime_t *runtime = NULL;
  dt_pattern_t *pattern = NULL;
  dt_status_t status = dt_runtime_create(&one, &runtime);
  if (!status)
    status = dt_pattern_create(pair, put_pair, NULL, NULL, &options, &pattern);
  if (!status)
    status = use_pattern(runtime, pattern, x);
  if (!status)
    assert_int_equal(dt_pattern_count(pattern), 1);
  dt_pattern_release(pattern);
  dt_runtime_release(runtime);
  return status;
}

static void test_patterns(void **state) {
  (void)state;
  dt_tensor_t *x = tensor_full(2, 1, SIZES(3));
  uint64_t counted = UINT64_MAX;
  for (uint64_t n = 1; counted >= n && n < MOST_ALLOCATIONS; n++) {
    (void)dt__heap_fail_at(n, false);
    dt_status_t status = make_and_use_pattern(x);
    counted = dt__heap_fail_at(0, false);
    if (status)
      expect_code(status, DT_E_NO_MEMORY);
  }
  print_message("patterns: %llu allocations\n", (unsigned long long)counted);
  assert_true(counted > 50 && counted < MOST_ALLOCATIONS);
  RELEASE(x);
}

RUN_TESTS(TEST(test_runtime), TEST(test_softmax), TEST(test_constants), TEST(test_control),
          TEST(test_mlp), TEST(test_segments), TEST(test_patterns))
