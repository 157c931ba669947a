// SPDX-License-Identifier: Apache-2.0
// Deadlines and cancelling: a call ends soon after, wherever it is (inside a kernel, in a loop that
// would take for ever, in the evaluator, waiting for a compile), with its own status; the next call
// is right, bits are those of a call without a deadline, and what is updated is updated whole or
// not at all. Times allowed here are generous: they tell a hang from an end. What was measured is
// in docs/testing.md.
#include "test/support/subjects.h"

#include "runtime/base/thread.h"
#include "test/late/programs.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#define MS 1000000
#define LATE_NS (4000 * (int64_t)MS) // after which a call that should have ended hangs

static int setup(void **state) { return fixture_open(state, 2, 1); }

// ---- Programs -------------------------------------------------------------------------------------
static const dt_input_decl_t inputs[] = {{.name = "x", .dtype = DT_F32, .rank = 1},
                                         {.name = "trips", .dtype = DT_I64, .rank = 0}};

// What one kernel makes is put into x.
static dt_status_t heavy_update(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  (void)closure;
  out[0] = dt_neg(t, in[0]);
  dt_update(t, in[0], late_kernel(t, in[0]));
  return NULL;
}

static dt_status_t large(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  out[0] = late_compile(t, in[0], *(const int *)closure, 0);
  return NULL;
}

static dt_function_t *make(fixture_t *f, dt_program_fn_t program, void *closure,
                           dt_answer_t answer) {
  subject_t subject = {"f", program, 2, 1, inputs};
  return subject_function(f->runtime, &subject, closure, answer);
}

// ---- Calls ----------------------------------------------------------------------------------------
typedef struct args_t {
  dt_tensor_t *in[2];
} args_t;

static args_t make_args(int64_t n, int64_t trips) {
  rng_t rng = {20261123};
  return (args_t){{tensor_f32(&rng, 1, &n), tensor_i64(0, NULL, &trips)}};
}
static void drop_args(args_t *args) { RELEASE(args->in[0], args->in[1]); }

static dt_status_t call(dt_session_t *session, dt_function_t *function, const args_t *args,
                        int64_t deadline_ns, const dt_cancel_t *cancel, dt_tensor_t **out) {
  dt_call_options_t options = {
      .struct_size = sizeof(options), .deadline_ns = deadline_ns, .cancel = cancel};
  *out = NULL;
  return dt_call(session, function, args->in, 2, out, 1, &options);
}

// Ends with the code, and in time.
static void expect_ended(fixture_t *f, dt_function_t *function, const args_t *args, int64_t after,
                         const char *what) {
  dt_tensor_t *out = NULL;
  int64_t begin = dt__now_ns();
  dt_status_t status = call(f->session, function, args, begin + after, NULL, &out);
  int64_t took = dt__now_ns() - begin;
  if (dt_status_code(status) != DT_E_DEADLINE || took > after + LATE_NS || took < after)
    fail_msg("%s: %s (%s) after %.3f ms; expected DT_E_DEADLINE after %.3f", what,
             dt_code_name(dt_status_code(status)), dt_status_message(status), (double)took / MS,
             (double)after / MS);
  assert_null(out);
  dt_status_free(status);
}

static void test_loop(void **state) {
  fixture_t *f = *state;
  static const dt_answer_t answers[] = {DT_ANSWER_COMPILED, DT_ANSWER_EVALUATOR};
  for (int k = 0; k < 2; k++) {
    dt_answer_t answer = k ? answers[1] : compiled_answer();
    dt_function_t *function = make(f, late_loop_program, NULL, answer);
    args_t few = make_args(3, 5), many = make_args(3, (int64_t)1 << 62);
    dt_tensor_t *out = NULL;
    expect_ok(call(f->session, function, &few, 0, NULL, &out));
    dt_tensor_release(out);
    expect_ended(f, function, &many, 30 * MS, "a loop of 2^62 trips");
    expect_ok(call(f->session, function, &few, dt__now_ns() + 20000 * (int64_t)MS, NULL, &out));
    assert_true(((float *)dt_tensor_data(out))[1] ==
                (float)(((float *)dt_tensor_data(few.in[0]))[1] + 5));
    dt_tensor_release(out);
    drop_args(&few);
    drop_args(&many);
    dt_function_release(function);
  }
}

// A kernel of seconds, cut into pieces: bits stay what they are.
static void test_kernel(void **state) {
  fixture_t *f = *state;
  dt_function_t *function = make(f, late_kernel_program, NULL, compiled_answer());
  static const int64_t sizes[] = {1, 7, 333, 1024};
  for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
    args_t args = make_args(sizes[k], 0);
    dt_tensor_t *plain = NULL, *timed = NULL;
    expect_ok(call(f->session, function, &args, 0, NULL, &plain));
    expect_ok(call(f->session, function, &args, dt__now_ns() + 60000 * (int64_t)MS, NULL, &timed));
    assert_memory_equal(dt_tensor_data(plain), dt_tensor_data(timed), (size_t)sizes[k] * 4);
    RELEASE(plain, timed);
    drop_args(&args);
  }
  args_t long_args = make_args(60000, 0);
  if (compiled_answer() == DT_ANSWER_COMPILED)
    expect_ended(f, function, &long_args, 50 * MS, "inside of a kernel");
  drop_args(&long_args);
  dt_function_release(function);
}

// Whole or not at all, whenever it ends.
static void test_update(void **state) {
  fixture_t *f = *state;
  dt_function_t *function = make(f, heavy_update, NULL, compiled_answer());
  int64_t n = 700;
  args_t args = make_args(n, 0), again = make_args(n, 0);
  dt_tensor_t *out = NULL;
  expect_ok(call(f->session, function, &again, 0, NULL, &out));
  dt_tensor_release(out);
  float *x = dt_tensor_data(args.in[0]), *done = dt_tensor_data(again.in[0]), old[700];
  memcpy(old, x, sizeof(old));
  int ended = 0;
  for (int k = 0; k < 40; k++) {
    memcpy(x, old, sizeof(old));
    dt_status_t status =
        call(f->session, function, &args, dt__now_ns() + k * (int64_t)MS / 8, NULL, &out);
    if (status)
      expect_code(status, DT_E_DEADLINE);
    ended += status != NULL;
    assert_memory_equal(x, status ? old : done, sizeof(old));
    dt_tensor_release(out);
  }
  assert_true(ended > 0);
  drop_args(&args);
  drop_args(&again);
  dt_function_release(function);
}

// ---- Cancelling -----------------------------------------------------------------------------------
static void *cancel_soon(void *opaque) {
  const struct timespec nap = {.tv_nsec = 30 * MS};
  (void)nanosleep(&nap, NULL);
  dt_cancel_request(opaque);
  return NULL;
}

static void test_cancel(void **state) {
  fixture_t *f = *state;
  dt_function_t *function = make(f, late_loop_program, NULL, compiled_answer());
  args_t few = make_args(3, 5), many = make_args(3, (int64_t)1 << 62);
  dt_tensor_t *out = NULL;
  dt_cancel_t cancel = {0};
  pthread_t thread;
  expect_ok(call(f->session, function, &few, 0, &cancel, &out));
  dt_tensor_release(out);
  assert_int_equal(pthread_create(&thread, NULL, cancel_soon, &cancel), 0);
  int64_t begin = dt__now_ns();
  expect_told(call(f->session, function, &many, 0, &cancel, &out), DT_E_CANCELLED, "dt_cancel");
  assert_true(dt__now_ns() - begin < LATE_NS);
  (void)pthread_join(thread, NULL);
  expect_code(call(f->session, function, &few, 0, &cancel, &out), DT_E_CANCELLED);
  dt_cancel_reset(&cancel);
  expect_ok(call(f->session, function, &few, 0, &cancel, &out));
  dt_tensor_release(out);
  drop_args(&few);
  drop_args(&many);
  dt_function_release(function);
}

// ---- Compiles -------------------------------------------------------------------------------------
typedef struct caller_t {
  fixture_t *f;
  dt_function_t *function;
  dt_status_t status;
} caller_t;

static void *call_patiently(void *opaque) {
  caller_t *caller = opaque;
  dt_session_t *session = NULL;
  args_t args = make_args(5, 0);
  dt_tensor_t *out = NULL;
  caller->status = dt_session_create(caller->f->runtime, NULL, &session);
  if (!caller->status)
    caller->status = call(session, caller->function, &args, 0, NULL, &out);
  dt_tensor_release(out);
  dt_session_destroy(session);
  drop_args(&args);
  return NULL;
}

// Who leaves, leaves at once; who waits gets the variant of the same compile.
static void test_compile(void **state) {
  fixture_t *f = *state;
  int n = 60;
  dt_function_t *function = make(f, large, &n, compiled_answer());
  args_t args = make_args(5, 0);
  caller_t caller = {f, function, NULL};
  pthread_t thread;
  dt_tensor_t *out = NULL;
  dt_status_t status = call(f->session, function, &args, dt__now_ns() + 5 * MS, NULL, &out);
  if (compiled_answer() == DT_ANSWER_COMPILED)
    expect_code(status, DT_E_DEADLINE);
  assert_int_equal(pthread_create(&thread, NULL, call_patiently, &caller), 0);
  for (int k = 0; k < 5 && compiled_answer() == DT_ANSWER_COMPILED; k++) {
    int64_t begin = dt__now_ns();
    status = call(f->session, function, &args, begin + 5 * MS, NULL, &out);
    if (status)
      expect_code(status, DT_E_DEADLINE);
    dt_tensor_release(out);
    assert_true(dt__now_ns() - begin < LATE_NS);
  }
  (void)pthread_join(thread, NULL);
  expect_ok(caller.status);
  expect_ok(call(f->session, function, &args, 0, NULL, &out));
  dt_tensor_release(out);
  dt_function_counters_t stats = stats_of(function);
  assert_int_equal(stats.variants, 1);
  assert_true(stats.compiles <= 2); // those that nobody waited for do not count
  drop_args(&args);
  dt_function_release(function);
}

// A function that is released while its compile goes on for nobody; preparing has deadlines, too.
static void test_left(void **state) {
  fixture_t *f = *state;
  int n = 60;
  if (compiled_answer() != DT_ANSWER_COMPILED)
    return;
  dt_function_t *function = make(f, large, &n, DT_ANSWER_COMPILED);
  dt_cancel_t cancel = {.requested = 1};
  dt_prepare_options_t options = {.struct_size = sizeof(options),
                                  .deadline_ns = dt__now_ns() + 5 * MS};
  expect_code(dt_function_prepare(function, &options), DT_E_DEADLINE);
  options.cancel = &cancel;
  expect_code(dt_function_prepare(function, &options), DT_E_CANCELLED);
  dt_function_release(function);
}

RUN_TESTS(TEST_WITH(test_loop, setup, fixture_close), TEST_WITH(test_kernel, setup, fixture_close),
          TEST_WITH(test_update, setup, fixture_close),
          TEST_WITH(test_cancel, setup, fixture_close),
          TEST_WITH(test_compile, setup, fixture_close), TEST_WITH(test_left, setup, fixture_close))
