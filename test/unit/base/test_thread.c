// SPDX-License-Identifier: Apache-2.0
// Mutexes and their ranks, threads, forks, clocks.
#include "test/support/check.h"

#include "runtime/base/memory.h"
#include "runtime/base/process.h"
#include "runtime/base/thread.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct shared_t {
  dt_mutex_t mutex;
  pthread_cond_t cond;
  int64_t total;
  int arrived;
} shared_t;

static void *add_many(void *arg) {
  shared_t *shared = arg;
  for (int i = 0; i < 10000; i++) {
    dt__mutex_lock(&shared->mutex);
    shared->total++;
    dt__mutex_unlock(&shared->mutex);
  }
  dt__mutex_lock(&shared->mutex);
  shared->arrived++;
  (void)pthread_cond_signal(&shared->cond);
  dt__mutex_unlock(&shared->mutex);
  return NULL;
}

static void test_mutex(void **state) {
  (void)state;
  shared_t shared = {.cond = PTHREAD_COND_INITIALIZER};
  assert_null(dt__mutex_init(&shared.mutex, DT_RANK_SESSION));
  pthread_t threads[4];
  for (int i = 0; i < 4; i++)
    assert_null(dt__thread_start(&threads[i], "add", false, add_many, &shared));
  dt__mutex_lock(&shared.mutex);
  while (shared.arrived < 4)
    dt__cond_wait(&shared.cond, &shared.mutex);
  int64_t total = shared.total;
  dt__mutex_unlock(&shared.mutex);
  for (int i = 0; i < 4; i++)
    (void)pthread_join(threads[i], NULL);
  assert_int_equal(total, 40000);
  dt__mutex_fini(&shared.mutex);
}

static void test_ranks_in_order(void **state) {
  (void)state;
  dt_mutex_t low, high;
  assert_null(dt__mutex_init(&low, DT_RANK_FUNCTION));
  assert_null(dt__mutex_init(&high, DT_RANK_POOL));
  for (int i = 0; i < 3; i++) {
    dt__mutex_lock(&low);
    dt__mutex_lock(&high);
    if (i == 1) { // not the reverse order
      dt__mutex_unlock(&low);
      dt__mutex_unlock(&high);
    } else {
      dt__mutex_unlock(&high);
      dt__mutex_unlock(&low);
    }
  }
  dt__mutex_fini(&low);
  dt__mutex_fini(&high);
}

// Whether the library was built with rank checks is seen from the outside: the child dies or not.
static void test_ranks_out_of_order(void **state) {
  (void)state;
#ifdef NDEBUG
  skip();
#else
  dt_mutex_t low, high;
  assert_null(dt__mutex_init(&low, DT_RANK_FUNCTION));
  assert_null(dt__mutex_init(&high, DT_RANK_POOL));
  pid_t child = fork();
  if (child == 0) {
    (void)signal(SIGILL, SIG_DFL);
    (void)signal(SIGTRAP, SIG_DFL);
    (void)close(STDERR_FILENO);
    dt__mutex_lock(&high);
    dt__mutex_lock(&low);
    _exit(0);
  }
  int result = 0;
  assert_int_equal(waitpid(child, &result, 0), child);
  assert_true(WIFSIGNALED(result));
  dt__mutex_fini(&low);
  dt__mutex_fini(&high);
#endif
}

typedef struct seen_t {
  char name[16];
  int nice;
  bool all_blocked, any_fault_blocked;
  size_t stack;
} seen_t;

static void *look(void *arg) {
  seen_t *seen = arg;
  (void)pthread_getname_np(pthread_self(), seen->name, sizeof(seen->name));
  seen->nice = getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid));
  sigset_t mask;
  (void)pthread_sigmask(SIG_SETMASK, NULL, &mask);
  seen->all_blocked = sigismember(&mask, SIGINT) && sigismember(&mask, SIGTERM) &&
                      sigismember(&mask, SIGCHLD) && sigismember(&mask, SIGALRM);
  const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
  for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
    seen->any_fault_blocked |= sigismember(&mask, faults[i]) != 0;
  pthread_attr_t attr;
  (void)pthread_getattr_np(pthread_self(), &attr);
  void *low;
  (void)pthread_attr_getstack(&attr, &low, &seen->stack);
  (void)pthread_attr_destroy(&attr);
  return arg;
}

static void test_thread(void **state) {
  (void)state;
  int own_nice = getpriority(PRIO_PROCESS, 0);
  for (int background = 0; background < 2; background++) {
    seen_t seen = {.nice = -100};
    pthread_t thread;
    assert_null(dt__thread_start(&thread, "a-name-longer-than-fits", background != 0, look, &seen));
    void *result = NULL;
    (void)pthread_join(thread, &result);
    assert_ptr_equal(result, &seen);
    assert_string_equal(seen.name, "a-name-longer-t");
    assert_int_equal(seen.nice, !background ? own_nice : own_nice < 9 ? own_nice + 10 : 19);
    assert_true(seen.all_blocked);
    assert_false(seen.any_fault_blocked);
    assert_true(seen.stack >= ((size_t)8 << 20));
  }
  sigset_t mask; // the caller's own mask is as before
  (void)pthread_sigmask(SIG_SETMASK, NULL, &mask);
  assert_int_equal(sigismember(&mask, SIGINT), 0);
}

// A fault on our threads reaches the host's handler, on the stack that it gave the signal or ours.
static void on_fault(int signal_number) {
  (void)signal_number;
  _exit(42);
}

__attribute__((no_sanitize("undefined", "address"))) static void *fault(void *arg) {
  *(volatile int *)arg = 1;
  return NULL;
}

static void test_fault_is_seen(void **state) {
  (void)state;
  pid_t child = fork();
  if (child == 0) {
    struct sigaction action = {.sa_handler = on_fault};
    (void)sigaction(SIGSEGV, &action, NULL);
    pthread_t thread;
    dt_status_t status = dt__thread_start(&thread, "fault", false, fault, NULL);
    dt_status_free(status);
    (void)pthread_join(thread, NULL);
    _exit(0);
  }
  int result = 0;
  assert_int_equal(waitpid(child, &result, 0), child);
  assert_true(WIFEXITED(result));
  assert_int_equal(WEXITSTATUS(result), 42);
}

static void test_thread_without_memory(void **state) {
  (void)state;
  pthread_t thread;
  (void)dt__heap_fail_at(1, true);
  dt_status_t status = dt__thread_start(&thread, "none", false, look, NULL);
  (void)dt__heap_fail_at(0, false);
  assert_int_equal(dt_status_code(status), DT_E_NO_MEMORY);
  dt_status_free(status);
}

static void end_nothing(dt_life_t *life) { (void)life; }

// Whether a child of a fork at this moment may start threads, and knows.
static bool child_works(void) {
  pid_t child = fork();
  if (child == 0) {
    pthread_t thread;
    seen_t seen = {.nice = -100};
    bool forked = dt__forked();
    dt_status_t status = dt__thread_start(&thread, "none", false, look, &seen);
    bool started = status == NULL;
    if (started)
      (void)pthread_join(thread, NULL);
    bool right = forked ? dt_status_code(status) == DT_E_FORKED : started && seen.nice > -100;
    dt_status_free(status);
    _exit(!right ? 2 : forked ? 1 : 0);
  }
  int result = -1;
  assert_int_equal(waitpid(child, &result, 0), child);
  assert_true(WIFEXITED(result));
  assert_int_not_equal(WEXITSTATUS(result), 2);
  return WEXITSTATUS(result) == 0;
}

// Only a fork while something lives spoils the child, and only the child.
static void test_fork(void **state) {
  (void)state;
  dt_life_t first, second;
  assert_true(child_works());
  dt__life_begin(&first, end_nothing);
  assert_false(child_works());
  dt__life_begin(&second, end_nothing);
  dt__life_end(&first);
  assert_false(child_works());
  assert_false(dt__forked());
  dt__life_end(&second);
  assert_true(child_works());
  assert_false(dt__forked());
}

// ---- Code generators at exit ------------------------------------------------------------------------

static _Atomic bool may_leave;
static int64_t exit_began_ns;

static void *generate(void *arg) {
  dt_status_t status = dt__generator_enter();
  dt_status_free(status);
  atomic_store(&may_leave, true);
  while (!(status = dt__generator_check()))
    (void)sched_yield();
  dt_status_free(status);
  const struct timespec part = {.tv_nsec = 50000000}; // what is left of it
  (void)nanosleep(&part, NULL);
  dt__generator_leave();
  return arg;
}

// Runs behind the library's handler, which was registered later.
static void after_exit(void) {
  dt_status_t status = dt__generator_enter();
  bool shut = dt_status_code(status) == DT_E_STATE;
  dt_status_free(status);
  int64_t took = dt__now_ns() - exit_began_ns;
  _exit(shut && took >= 50000000 && took < 5000000000 ? 7 : 8);
}

// Exit waits for the part that a generator is in, and then nobody enters. The thread that ends the
// process may be inside one itself.
static void test_exit_waits(void **state) {
  (void)state;
  for (int inside = 0; inside < 2; inside++) {
    pid_t child = fork();
    if (child == 0) {
      pthread_t thread;
      dt_life_t life;
      (void)atexit(after_exit);
      dt__life_begin(&life, end_nothing);
      dt_status_t status = dt__thread_start(&thread, "generate", false, generate, NULL);
      if (!status)
        (void)pthread_detach(thread);
      while (!status && !atomic_load(&may_leave))
        (void)sched_yield();
      dt_status_free(status);
      if (inside) {
        status = dt__generator_enter();
        dt_status_free(status);
      }
      exit_began_ns = dt__now_ns();
      exit(0);
    }
    int result = 0;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    assert_int_equal(WEXITSTATUS(result), 7);
  }
}

static void test_process(void **state) {
  (void)state;
  int64_t before = dt__now_ns();
  assert_true(before > 0);
  assert_true(dt__now_ns() >= before);
  int cores = dt__core_count();
  assert_true(cores >= 1);
  int64_t resident = dt__resident_bytes();
  assert_true(resident > 0);
  size_t bytes = (size_t)64 << 20;
  char *block = dt__alloc(bytes);
  for (size_t i = 0; i < bytes; i += 4096)
    ((volatile char *)block)[i] = 1;
  int64_t grown = dt__resident_bytes() - resident;
  dt__free(block);
  if (grown < (int64_t)bytes / 2)
    fail_msg("resident grew by %lld, expected about %zu", (long long)grown, bytes);
}

RUN_TESTS(TEST(test_mutex), TEST(test_ranks_in_order), TEST(test_ranks_out_of_order),
          TEST(test_fault_is_seen), TEST(test_exit_waits), TEST(test_thread),
          TEST(test_thread_without_memory), TEST(test_fork), TEST(test_process))
