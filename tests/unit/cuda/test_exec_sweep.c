// SPDX-License-Identifier: Apache-2.0
// A small life of a device: load, copy in, run, copy out, unload. Every single call of the driver
// that it makes fails in turn, once and for good. Where it fails once, what was asked for next
// works, and nothing stays behind but what the driver did not take back; where the context is lost,
// each later call says so at once. test_exec_failures.c samples a larger life.
#include "tests/unit/cuda/exec_fake.h"

#include <string.h>

enum { COUNT = 8 };

// The thread sanitizer takes long over the fake's reserved ranges: it gets some.
#ifdef __SANITIZE_THREAD__
enum { STEP = 16 };
#else
enum { STEP = 1 };
#endif

typedef struct sweep_t {
  dt_code_t expected; // of failures
  bool again;         // what fails is tried once more, and works
  uint32_t told;      // failures so far, in this life
} sweep_t;

// Whether it went well, at once.
static bool went(sweep_t *s, dt_status_t status) {
  dt_code_t code = dt_status_code(status);
  if (status && code != s->expected)
    fail_msg("%s: %s; expected %s", dt_code_name(code), dt_status_message(status),
             dt_code_name(s->expected));
  if (code == DT_E_DEVICE && !strstr(dt_status_message(status), "context is lost"))
    fail_msg("%s", dt_status_message(status));
  s->told += status != NULL;
  dt_status_free(status);
  return !status;
}

// The expression's value: whether it went well, at once or (where that is expected) again.
#define GOES(s, expr) (went((s), (expr)) || ((s)->again && again_at((expr), __LINE__)))
static bool again_at(dt_status_t status, int line) {
  ok_at(status, __FILE__, line);
  return true;
}

static void run(sweep_t *s, dt_session_t *session, dt_function_t *add, dt_tensor_t *x) {
  dt_tensor_t *inputs[] = {x, x}, *out = NULL;
  float data[COUNT] = {0};
  if (GOES(s, dt_call(session, add, inputs, 2, &out, 1)) &&
      GOES(s, dt_tensor_read(session, out, data, sizeof(data))))
    for (uint32_t k = 0; k < COUNT; k++)
      assert_true(data[k] == 2 * (float)k);
  dt_tensor_release(out);
}

static void live(sweep_t *s, dt_tensor_t *host) {
  dt_runtime_options_t options = {.threads = 1, .compile_threads = 1};
  dt_runtime_t *runtime = NULL;
  dt_session_t *session = NULL;
  dt_tensor_t *x = NULL;
  int64_t n = COUNT;
  OK(dt_runtime_create(&options, &runtime));
  dt_function_t *add = function_named(runtime, "add", NULL);
  if (GOES(s, open_session(runtime, 0, NULL, &session)) &&
      GOES(s, dt_tensor_create_on(session, DT_F32, 1, &n, &x)) &&
      GOES(s, dt_tensor_copy(session, host, x))) {
    run(s, session, add, x);
    run(s, session, add, x); // once more: what failed has broken nothing
    (void)GOES(s, dt_session_wait(session));
  }
  dt_tensor_release(x);
  dt_function_release(add);
  dt_session_destroy(session);
  dt_runtime_release(runtime);
}

// Calls of each function in a life without failures.
static uint64_t count_calls(dt_tensor_t *host, uint64_t counts[DT_CUDA_SYM_COUNT]) {
  sweep_t s = {.expected = DT_OK};
  uint64_t all = 0;
  fake_begin(1);
  live(&s, host);
  fake_end();
  assert_int_equal(s.told, 0);
  for (int sym = 0; sym < DT_CUDA_SYM_COUNT; sym++)
    all += counts[sym] = fake_cuda_calls((dt_cuda_sym_t)sym);
  return all;
}

typedef struct totals_t {
  uint64_t struck, told, kept;
} totals_t;

static void strike(dt_cuda_sym_t sym, uint64_t n, bool sticky, dt_tensor_t *host,
                   totals_t *totals) {
  const char *name = dt__cuda_symbol(sym), *first = "";
  sweep_t s = {.expected = sticky ? DT_E_DEVICE : DT_E_NO_MEMORY, .again = !sticky};
  fake_begin(n + 1);
  fake_cuda_fail(sym, n, sticky ? DT_CU_ILLEGAL_ADDRESS : DT_CU_OUT_OF_MEMORY, sticky);
  live(&s, host);
  if (fake_cuda_calls(sym) <= n)
    fail_msg("%s: call %llu was not reached", name, (unsigned long long)n);
  totals->struck++;
  totals->told += s.told > 0;
  if (sticky)
    return;
  if (s.told > 1)
    fail_msg("%s, call %llu: one failure was told %u times", name, (unsigned long long)n, s.told);
  if (fake_cuda_violations(&first))
    fail_msg("%s, call %llu: %s", name, (unsigned long long)n, first);
  if (fake_cuda_held() != releases_something(sym))
    fail_msg("%s, call %llu: %u things are held", name, (unsigned long long)n, fake_cuda_held());
  totals->kept += fake_cuda_held();
}

static void sweep(bool sticky) {
  uint64_t counts[DT_CUDA_SYM_COUNT], all, seen = 0;
  totals_t totals = {0};
  dt_tensor_t *host = host_f32(COUNT, 0, 1);
  fake_begin(1);
  fixture_t first_use = fixture_open(); // a process opens the driver once
  fixture_close(&first_use);
  all = count_calls(host, counts);
  for (int sym = 0; sym < DT_CUDA_SYM_COUNT; sym++)
    for (uint64_t n = 0; n < counts[sym]; n++)
      if (seen++ % STEP == 0)
        strike((dt_cuda_sym_t)sym, n, sticky, host, &totals);
  assert_int_equal(totals.struck, (all + STEP - 1) / STEP);
  print_message(
      "%llu of %llu calls, each failing %s: %llu told, %llu refused to take something back\n",
      (unsigned long long)totals.struck, (unsigned long long)all, sticky ? "for good" : "once",
      (unsigned long long)totals.told, (unsigned long long)totals.kept);
  dt_tensor_release(host);
}

static void each_call_fails_once(void **state) {
  (void)state;
  sweep(false);
}

static void the_context_is_lost_at_each_call(void **state) {
  (void)state;
  sweep(true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_call_fails_once),
      cmocka_unit_test(the_context_is_lost_at_each_call),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
