// SPDX-License-Identifier: Apache-2.0
// usage: WORKER FAKE. Workers that answer wrongly, hang, are stopped, or have too little memory:
// each call that asked gets a status that says what happened, and the process goes on.
#include "test/unit/worker/rig.h"

#include "runtime/compile/decide.h"
#include "runtime/exec/runtime.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *worker_program, *fake_program;

// ---- Answers that are none ----------------------------------------------------------------------------
typedef struct fault_t {
  const char *name;
  dt_code_t code;
  const char *part;
} fault_t;

static const fault_t faults[] = {
    {"garbage", DT_E_COMPILE, "no answer"},
    {"truncated", DT_E_COMPILE, "killed, twice"},
    {"half_a_head", DT_E_COMPILE, "killed, twice"},
    {"bad_hash", DT_E_COMPILE, "no answer"},
    {"huge", DT_E_COMPILE, "no answer"},
    {"large_and_silent", DT_E_COMPILE, "DUCTILE_WORKER_SECONDS"},
    {"wrong_kind", DT_E_COMPILE, "no answer"},
    {"no_object", DT_E_COMPILE, "no code"},
    {"no_elf", DT_E_COMPILE, "object"},
    {"wild_elf", DT_E_COMPILE, "object"},
    {"no_function", DT_E_COMPILE, "has no function dt_k0"},
    {"no_code", DT_E_COMPILE, "no status"},
    {"ok_code", DT_E_COMPILE, "no status"},
    {"words", DT_E_COMPILE, "signal"},
    {"silent", DT_E_COMPILE, "DUCTILE_WORKER_SECONDS"},
    {"hangs", DT_E_COMPILE, "DUCTILE_WORKER_SECONDS"},
    {"gone", DT_E_COMPILE, "killed, twice"},
    {"killed", DT_E_COMPILE, "killed, twice"},
    {"shut", DT_E_COMPILE, "killed, twice"},
};

static void test_answers(void **state) {
  (void)state;
  worker_variable("DUCTILE_WORKER_SECONDS", 1);
  for (size_t k = 0; k < sizeof(faults) / sizeof(faults[0]); k++) {
    char name[64], path[256];
    uint64_t sum = 0;
    dt_runtime_t *runtime = NULL;
    (void)snprintf(name, sizeof(name), "fake.%s", faults[k].name);
    worker_link(fake_program, name, path);
    expect_ok(runtime_open(path, 1, &runtime));
    expect_told_of(faults[k].name, function_run(runtime, 1, 1, &sum), faults[k].code,
                   faults[k].part);
    dt_runtime_release(runtime);
    assert_true(worker_none(path, 10));
    worker_unlink(path);
  }
  worker_variable("DUCTILE_WORKER_SECONDS", 60);
}

// The same of a decision.
static void test_decisions(void **state) {
  (void)state;
  char path[256];
  dt_runtime_t *runtime = NULL;
  dt_native_t *native = NULL;
  dt_decide_fn_t decide = NULL;
  worker_link(fake_program, "fake.no_function", path);
  expect_ok(runtime_open(path, 1, &runtime));
  expect_told_of("a decision",
                 dt__decide_compile(runtime->compiler, NULL, 0, "f", &native, &decide),
                 DT_E_COMPILE, "has no function dt_decide");
  assert_null(native);
  assert_null(decide);
  dt_runtime_release(runtime);
  assert_true(worker_none(path, 10));
  worker_unlink(path);
}

static void refuse_runtime(const char *program, const char *name, dt_code_t code,
                           const char *part) {
  char path[256];
  dt_runtime_t *runtime = NULL;
  worker_link(program, name, path);
  expect_told_of(name, runtime_open(path, 1, &runtime), code, part);
  assert_null(runtime);
  assert_true(worker_none(path, 10));
  worker_unlink(path);
}

// A program that is no worker, one of another build, none at all.
static void test_programs(void **state) {
  (void)state;
  dt_runtime_t *runtime = NULL;
  refuse_runtime("/bin/true", "no-worker", DT_E_COMPILE, "ended at once");
  refuse_runtime(fake_program, "fake.mute", DT_E_COMPILE, "ended at once");
  refuse_runtime(fake_program, "fake.foreign", DT_E_UNSUPPORTED, "another build");
  expect_told_of("a path of nothing", runtime_open("/nowhere/ductile-worker", 1, &runtime),
                 DT_E_UNSUPPORTED, "worker_path");
  expect_told_of("a file that is no program", runtime_open("/etc/passwd", 1, &runtime),
                 DT_E_UNSUPPORTED, "cannot be run");
  assert_int_equal(setenv("DUCTILE_ISOLATION", "container", 1), 0);
  expect_told_of("a word", dt_runtime_create(NULL, &runtime), DT_E_ARGUMENT, "DUCTILE_ISOLATION");
  assert_int_equal(unsetenv("DUCTILE_ISOLATION"), 0);
}

// What failed twice because of its worker is not tried a third time.
static void test_killers(void **state) {
  (void)state;
  char path[256];
  uint64_t sum = 0;
  dt_runtime_t *runtime = NULL;
  worker_link(fake_program, "fake.gone", path);
  expect_ok(runtime_open(path, 1, &runtime));
  for (int k = 0; k < 2; k++)
    expect_told_of("a death", function_run(runtime, 1, 1, &sum), DT_E_COMPILE, "killed, twice");
  double begin = now_seconds();
  expect_told_of("the third", function_run(runtime, 1, 1, &sum), DT_E_COMPILE, "not tried again");
  assert_true(now_seconds() - begin < 5);
  expect_told_of("another", function_run(runtime, 2, 1, &sum), DT_E_COMPILE, "killed, twice");
  dt_runtime_release(runtime);
  worker_unlink(path);
}

// ---- Real ones ----------------------------------------------------------------------------------------
// One that stands still is killed when its time is over; the next call gets another.
static void test_stopped(void **state) {
  (void)state;
  char path[256];
  pid_t pids[8];
  uint64_t sum = 0;
  dt_runtime_t *runtime = NULL;
  worker_link(worker_program, "stopped-worker", path);
  worker_variable("DUCTILE_WORKER_SECONDS", 1);
  expect_ok(runtime_open(path, 1, &runtime));
  assert_int_equal(worker_pids(path, pids, 8), 1);
  assert_int_equal(kill(pids[0], SIGSTOP), 0);
  double begin = now_seconds();
  expect_told_of("stopped", function_run(runtime, 1, 1, &sum), DT_E_COMPILE, "longer than 1 s");
  assert_true(now_seconds() - begin < 10);
  worker_variable("DUCTILE_WORKER_SECONDS", 60);
  expect_ok(function_run(runtime, 2, 1, &sum));
  dt_runtime_release(runtime);
  assert_true(worker_none(path, 10));
  worker_unlink(path);
}

// A worker that nothing is asked of ends; what is asked next starts another.
static void test_idle(void **state) {
  (void)state;
  char path[256];
  uint64_t sum = 0;
  dt_runtime_t *runtime = NULL;
  worker_link(worker_program, "idle-worker", path);
  worker_variable("DUCTILE_WORKER_IDLE_MS", 50);
  expect_ok(runtime_open(path, 1, &runtime));
  for (uint64_t k = 0; k < 3; k++) {
    assert_true(worker_none(path, 10));
    expect_ok(function_run(runtime, k, 1, &sum));
  }
  worker_variable("DUCTILE_WORKER_IDLE_MS", 30000);
  dt_runtime_release(runtime);
  worker_unlink(path);
}

// A signal that ends it is named.
static void test_signal(void **state) {
  (void)state;
  static const int signals[] = {SIGSEGV, SIGABRT, SIGBUS, SIGILL};
  char path[256];
  worker_link(worker_program, "signal-worker", path);
  for (size_t k = 0; k < sizeof(signals) / sizeof(signals[0]); k++) {
    pid_t pids[8];
    uint64_t sum = 0;
    char part[32];
    dt_runtime_t *runtime = NULL;
    expect_ok(runtime_open(path, 1, &runtime));
    assert_int_equal(worker_pids(path, pids, 8), 1);
    assert_int_equal(kill(pids[0], SIGSTOP), 0); // so that the signal finds it with a request
    assert_int_equal(kill(pids[0], signals[k]), 0);
    (void)snprintf(part, sizeof(part), "SIG%s", sigabbrev_np(signals[k]));
    // It dies as soon as it goes on, which is before or while it is asked: the former is no
    // failure.
    assert_int_equal(kill(pids[0], SIGCONT), 0);
    dt_status_t status = function_run(runtime, k, 1, &sum);
    if (status)
      expect_told_of(part, status, DT_E_COMPILE, part);
    expect_ok(function_run(runtime, k + 10, 1, &sum));
    dt_runtime_release(runtime);
    assert_true(worker_none(path, 10)); // it ends by itself
  }
  worker_unlink(path);
}

// From far too little memory to enough: a status that says so, or the right result.
static void test_memory(void **state) {
  (void)state;
  char path[256];
  uint64_t right = 0, refused = 0, calls = 0, sum = 0;
  dt_runtime_t *runtime = NULL;
  worker_link(worker_program, "memory-worker", path);
  expect_ok(runtime_open(NULL, 1, &runtime));
  expect_ok(function_run(runtime, 1, 2, &sum));
  dt_runtime_release(runtime);
  for (long level = 0; level < 50; level++, runtime = NULL) {
    uint64_t got = 0;
    worker_variable("DUCTILE_WORKER_MIB", 1 + level);
    dt_status_t status = runtime_open(path, 1, &runtime);
    if (!status) {
      calls++;
      status = function_run(runtime, 1, 2, &got);
    }
    if (status && dt_status_code(status) != DT_E_NO_MEMORY)
      fail_msg("%ld MiB: %s: %s", 1 + level, dt_code_name(dt_status_code(status)),
               dt_status_message(status));
    assert_true(status || got == sum);
    status ? refused++ : right++;
    dt_status_free(status);
    dt_runtime_release(runtime);
  }
  print_message("50 levels of memory: %llu calls, %llu right, %llu statuses\n",
                (unsigned long long)calls, (unsigned long long)right, (unsigned long long)refused);
  worker_variable("DUCTILE_WORKER_MIB", 2048);
  assert_true(worker_none(path, 10));
  worker_unlink(path);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  assert_true(right > 0 && refused > 0);
#endif
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {TEST(test_answers), TEST(test_decisions), TEST(test_programs),
                                     TEST(test_killers), TEST(test_stopped),   TEST(test_idle),
                                     TEST(test_signal),  TEST(test_memory)};
  if (argc != 3)
    return 2;
  worker_program = argv[1];
  fake_program = argv[2];
  return cmocka_run_group_tests(tests, NULL, NULL);
}
