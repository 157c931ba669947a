// SPDX-License-Identifier: Apache-2.0
// The device as a caller sees it: nothing has happened before somebody waits, and its memory is its
// own.
#include "test/place/device.h"
#include "test/support/subjects.h"

#include <sys/wait.h>
#include <unistd.h>

static int setup(void **state) {
  const dt_session_options_t there = {.struct_size = sizeof(there), .device = INTERPRETER};
  int failed = fixture_open(state, 1, 5);
  fixture_t *fixture = *state;
  dt_session_destroy(fixture->session);
  expect_ok(dt_session_create(fixture->runtime, &there, &fixture->session));
  return failed;
}

static float read_first(dt_session_t *session, dt_tensor_t *tensor) {
  float values[64] = {0};
  expect_ok(dt_tensor_read(session, tensor, values, (size_t)dt_tensor_count(tensor) * 4));
  return values[0];
}

// In a child, since it ends it.
static bool can_touch(const dt_tensor_t *tensor) {
  int status = 0;
  pid_t child = fork();
  if (child == 0) {
    (void)signal(SIGSEGV, SIG_DFL);
    _exit(*(volatile const char *)dt_tensor_data(tensor) * 0);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFEXITED(status);
}

// An update of x, so that calls show in which order they are made.
static dt_status_t add_one(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_mul(t, in[0], in[0]);
  dt_update(t, in[0], dt_add(t, in[0], dt_scalar(t, DT_F32, 1)));
  return NULL;
}

static void test_calls_are_queued(void **state) {
  fixture_t *fixture = *state;
  const int64_t n = 1;
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1};
  dt_function_options_t options = options_of(1, &input);
  dt_function_t *function = function_of(fixture, add_one, NULL, &options);
  dt_tensor_t *host = tensor_full(3, 1, &n), *x = NULL, *out[2] = {NULL};
  dt_event_t *event = NULL;
  bool done = false;
  expect_ok(dt_tensor_create_on(fixture->session, DT_F32, 1, &n, &x));
  expect_ok(dt_tensor_copy(fixture->session, host, x));
  *(float *)dt_tensor_data(host) = 70; // it has been read
  expect_told(dt_call(fixture->session, function, &host, 1, &out[0], 1, NULL), DT_E_ARGUMENT,
              "on the host");
  expect_ok(dt_call(fixture->session, function, &x, 1, &out[0], 1, NULL));
  assert_true(*(const float *)device_reach(dt_tensor_data(x)) == 3); // the copy was waited for
  expect_ok(dt_event_create(fixture->session, &event));
  expect_ok(dt_call(fixture->session, function, &x, 1, &out[1], 1, NULL));
  assert_true(*(const float *)device_reach(dt_tensor_data(x)) == 4);
  expect_ok(dt_event_record(fixture->session, event));
  expect_ok(dt_event_query(event, &done));
  assert_true(done && *(const float *)device_reach(dt_tensor_data(x)) == 5);
  assert_true(read_first(fixture->session, out[0]) == 9 &&
              read_first(fixture->session, out[1]) == 16);
  assert_false(can_touch(x) || can_touch(out[0]));
  assert_true(can_touch(host));
  dt_event_destroy(event);
  dt_tensor_release(host), dt_tensor_release(x);
  dt_tensor_release(out[0]), dt_tensor_release(out[1]);
  dt_function_release(function);
}

// A failed check is told once, by who waits.
static void test_failures_come_late(void **state) {
  fixture_t *fixture = *state;
  dt_function_t *gather =
      subject_function(fixture->runtime, &gather_subject, NULL, DT_ANSWER_COMPILED);
  const int64_t sizes[] = {5, 3}, n = 1, six = 6;
  dt_tensor_t *in[] = {tensor_full(1, 2, sizes), tensor_i64(1, &n, &six)}, *out = NULL;
  expect_ok(dt_call(fixture->session, gather, in, 2, &out, 1, NULL));
  expect_told(dt_session_wait(fixture->session), DT_E_RANGE, "6 is outside [-5, 5)");
  expect_ok(dt_session_wait(fixture->session));
  dt_tensor_release(out), dt_tensor_release(in[0]), dt_tensor_release(in[1]);
  dt_function_release(gather);
}

static void test_memory_goes_back(void **state) {
  fixture_t *fixture = *state;
  mlp_t mlp;
  mlp_init(&mlp, &fixture->rng);
  dt_function_t *layers =
      subject_function(fixture->runtime, &mlp_subject, &mlp, DT_ANSWER_COMPILED);
  dt_tensor_t *x = tensor_full(2, 3, (const int64_t[]){2, 3, 16}), *out = NULL;
  expect_ok(dt_call(fixture->session, layers, &x, 1, &out, 1, NULL));
  assert_true(dt_session_bytes(fixture->session) > 0);
  expect_ok(dt_session_trim(fixture->session)); // behind what is queued
  assert_int_equal(dt_session_bytes(fixture->session), 0);
  assert_true(read_first(fixture->session, out) != 0);
  dt_tensor_release(x), dt_tensor_release(out);
  dt_function_release(layers);
  mlp_fini(&mlp);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_calls_are_queued, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_failures_come_late, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_memory_goes_back, setup, fixture_close)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
