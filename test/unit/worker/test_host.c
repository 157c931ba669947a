// SPDX-License-Identifier: Apache-2.0
// usage: WORKER [SCENE PATH]. What a host has to do with its own children, signals and descriptors
// is as if there were no workers. Each scene is a process of its own.
#include "test/unit/worker/rig.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static const char *worker_program;

// In scenes: says what is wrong and ends with 1.
#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
      _exit(1);                                                                                    \
    }                                                                                              \
  } while (0)

static void check_ok(dt_status_t status) {
  if (status)
    (void)fprintf(stderr, "%s\n", dt_status_message(status));
  CHECK(!status);
}

static dt_runtime_t *opened(const char *path, uint32_t threads) {
  dt_runtime_t *runtime = NULL;
  check_ok(runtime_open(path, threads, &runtime));
  return runtime;
}

static void run_some(dt_runtime_t *runtime, uint64_t first, uint64_t n) {
  for (uint64_t k = first; k < first + n; k++) {
    uint64_t sum = 0;
    check_ok(function_run(runtime, k, 1, &sum));
  }
}

static void kill_all(const char *path) {
  pid_t pids[16];
  uint32_t n = worker_pids(path, pids, 16);
  CHECK(n > 0);
  for (uint32_t k = 0; k < n; k++)
    CHECK(kill(pids[k], SIGKILL) == 0);
}

// ---- Children -----------------------------------------------------------------------------------------
static _Atomic int signals_seen;
static _Atomic bool over;

static void on_child(int signal) {
  (void)signal;
  (void)atomic_fetch_add(&signals_seen, 1);
}

static void *wait_for_any(void *opaque) {
  int *found = opaque;
  while (!atomic_load(&over)) {
    if (waitpid(-1, NULL, WNOHANG) > 0)
      (*found)++;
  }
  return NULL;
}

// Waits for any child find none and no SIGCHLD comes, whether workers are started, end or die.
static void scene_waits(const char *path) {
  int found = 0;
  pthread_t thread;
  CHECK(signal(SIGCHLD, on_child) != SIG_ERR);
  CHECK(pthread_create(&thread, NULL, wait_for_any, &found) == 0);
  dt_runtime_t *runtime = opened(path, 2);
  for (uint64_t k = 0; k < 3; k++) {
    run_some(runtime, 2 * k, 2);
    kill_all(path);
    sleep_ms(20);
  }
  dt_runtime_release(runtime);
  CHECK(worker_none(path, 10));
  atomic_store(&over, true);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(found == 0);
  CHECK(atomic_load(&signals_seen) == 0);
}

static void scene_ignores(const char *path) {
  CHECK(signal(SIGCHLD, SIG_IGN) != SIG_ERR);
  CHECK(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
  dt_runtime_t *runtime = opened(path, 2);
  run_some(runtime, 0, 2);
  kill_all(path);
  run_some(runtime, 2, 2);
  dt_runtime_release(runtime);
}

// Its own children are waited for as ever, while workers come and go.
static void scene_forks(const char *path) {
  dt_runtime_t *runtime = opened(path, 2);
  for (int k = 0; k < 8; k++) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child)
      _exit(k + 10);
    run_some(runtime, (uint64_t)k, 1);
    if (k % 3 == 0)
      kill_all(path);
    int status = 0;
    CHECK(waitpid(-1, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == k + 10);
  }
  // A child has the runtime, too: it may release what it will never use.
  pid_t child = fork();
  CHECK(child >= 0);
  if (!child) {
    dt_runtime_release(runtime);
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  run_some(runtime, 100, 2);
  dt_runtime_release(runtime);
}

// Where orphans come to this process it finds nothing of ours afterwards.
static void scene_reaper(const char *path) {
  CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  dt_runtime_t *runtime = opened(path, 2);
  run_some(runtime, 0, 1);
  kill_all(path);
  run_some(runtime, 1, 1);
  dt_runtime_release(runtime);
  // Those that end by themselves leave a record, as any orphan does that comes to such a process.
  double end = now_seconds() + 10;
  while (waitpid(-1, NULL, __WALL | WNOHANG) >= 0)
    CHECK(now_seconds() < end);
  CHECK(errno == ECHILD);
}

// ---- Threads ------------------------------------------------------------------------------------------
typedef struct caller_t {
  dt_runtime_t *runtime;
  uint64_t seed;
} caller_t;

static void *call_and_end(void *opaque) {
  const caller_t *caller = opaque;
  run_some(caller->runtime, caller->seed, 1);
  return NULL;
}

static void scene_threads(const char *path) {
  pthread_t threads[32];
  caller_t callers[32];
  dt_runtime_t *runtime = opened(path, 4);
  for (uint64_t k = 0; k < 32; k++) {
    callers[k] = (caller_t){runtime, k};
    CHECK(pthread_create(&threads[k], NULL, call_and_end, &callers[k]) == 0);
  }
  for (int k = 0; k < 32; k++)
    CHECK(pthread_join(threads[k], NULL) == 0);
  run_some(runtime, 40, 2);                   // the threads that asked for the first ones are gone
  CHECK(worker_pids(path, NULL, 0) <= 4 + 1); // one more compile thread is in the background
  dt_runtime_release(runtime);
}

// ---- Descriptors, sessions ----------------------------------------------------------------------------
#define MOST_DESCRIPTORS 256

// `known`: those that were open before and are none of ours.
static void check_own_descriptors(const bool known[MOST_DESCRIPTORS]) {
  DIR *all = opendir("/proc/self/fd");
  CHECK(all);
  for (struct dirent *entry; (entry = readdir(all)) != NULL;) {
    int fd = atoi(entry->d_name), flags = fcntl(fd, F_GETFD);
    if (entry->d_name[0] == '.' || (fd < MOST_DESCRIPTORS && known[fd]))
      continue;
    CHECK(flags < 0 || (flags & FD_CLOEXEC));
  }
  (void)closedir(all);
}

static void scene_descriptors(const char *path) {
  int ends[2];
  char byte = 0;
  pid_t pids[8];
  bool known[MOST_DESCRIPTORS];
  for (int fd = 0; fd < MOST_DESCRIPTORS; fd++)
    known[fd] = fcntl(fd, F_GETFD) >= 0;
  CHECK(pipe(ends) == 0); // both may be inherited
  CHECK(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
  dt_runtime_t *runtime = opened(path, 1);
  run_some(runtime, 0, 1);
  uint32_t n = (uint32_t)worker_pids(path, pids, 8);
  CHECK(n >= 1 && n <= 2); // one more where the background's thread has made a decision
  for (uint32_t k = 0; k < n; k++)
    CHECK(getsid(pids[k]) == pids[k]); // a terminal's signals do not reach it
  CHECK(close(ends[1]) == 0);
  CHECK(read(ends[0], &byte, 1) == 0); // nobody else has it open
  CHECK(close(ends[0]) == 0);
  check_own_descriptors(known);
  dt_runtime_release(runtime);
}

// ---- The host's end -----------------------------------------------------------------------------------
// Tells that it runs, and does so until it is killed.
static void scene_sits(const char *path) {
  dt_runtime_t *runtime = opened(path, 1);
  run_some(runtime, 0, 1);
  (void)!write(STDOUT_FILENO, "x", 1);
  for (;;)
    (void)pause();
}

// The same with a child that has the worker's socket open and lives on.
static void scene_sits_with_child(const char *path) {
  dt_runtime_t *runtime = opened(path, 1);
  run_some(runtime, 0, 1);
  if (fork() == 0) {
    (void)close(STDOUT_FILENO);
    sleep_ms(20000);
    _exit(0);
  }
  (void)!write(STDOUT_FILENO, "x", 1);
  for (;;)
    (void)pause();
}

static void scene_exits(const char *path) { // with nothing released, a compile under way
  dt_function_t *function = NULL;
  dt_runtime_t *runtime = opened(path, 1);
  run_some(runtime, 0, 1);
  check_ok(function_make(runtime, 7, 20, &function));
  exit(0);
}

typedef struct scene_t {
  const char *name;
  void (*run)(const char *path);
} scene_t;

static const scene_t scenes[] = {{"waits", scene_waits},
                                 {"ignores", scene_ignores},
                                 {"forks", scene_forks},
                                 {"reaper", scene_reaper},
                                 {"threads", scene_threads},
                                 {"descriptors", scene_descriptors},
                                 {"exits", scene_exits},
                                 {"sits", scene_sits},
                                 {"sits_with_child", scene_sits_with_child}};

static int run_scene(const char *name, const char *path) {
  for (size_t k = 0; k < sizeof(scenes) / sizeof(scenes[0]); k++) {
    if (strcmp(scenes[k].name, name) != 0)
      continue;
    scenes[k].run(path);
    return 0;
  }
  return 2;
}

// ---- Tests --------------------------------------------------------------------------------------------
static pid_t spawn_scene(const char *scene, const char *path, int out) {
  pid_t pid = 0;
  char *arguments[] = {(char *)(uintptr_t)"/proc/self/exe", (char *)(uintptr_t)worker_program,
                       (char *)(uintptr_t)scene, (char *)(uintptr_t)path, NULL};
  posix_spawn_file_actions_t actions;
  assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
  if (out >= 0)
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO), 0);
  assert_int_equal(posix_spawn(&pid, "/proc/self/exe", &actions, NULL, arguments, environ), 0);
  (void)posix_spawn_file_actions_destroy(&actions);
  return pid;
}

static void play(const char *scene) {
  char path[256], name[64];
  int status = 0;
  (void)snprintf(name, sizeof(name), "host-%s", scene);
  worker_link(worker_program, name, path);
  pid_t pid = spawn_scene(scene, path, -1);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  if (status)
    fail_msg("%s: status %#x", scene, (unsigned)status);
  assert_true(worker_none(path, 10));
  worker_unlink(path);
}

static void test_waits(void **state) {
  (void)state;
  play("waits");
}
static void test_ignores(void **state) {
  (void)state;
  play("ignores");
}
static void test_forks(void **state) {
  (void)state;
  play("forks");
}
static void test_reaper(void **state) {
  (void)state;
  play("reaper");
}
static void test_threads(void **state) {
  (void)state;
  play("threads");
}
static void test_descriptors(void **state) {
  (void)state;
  play("descriptors");
}
static void test_exits(void **state) {
  (void)state;
  play("exits");
}

// A host that is killed takes its workers with it.
static void kill_host(const char *scene) {
  char path[256], byte = 0;
  int ends[2], status = 0;
  worker_link(worker_program, scene, path);
  assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
  pid_t pid = spawn_scene(scene, path, ends[1]);
  (void)close(ends[1]);
  assert_int_equal(read(ends[0], &byte, 1), 1);
  uint32_t n = (uint32_t)worker_pids(path, NULL, 0);
  assert_int_equal(kill(pid, SIGKILL), 0);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(n >= 1 && n <= 2);
  assert_true(worker_none(path, 5));
  (void)close(ends[0]);
  worker_unlink(path);
}

static void test_killed_host(void **state) {
  (void)state;
  kill_host("sits");
  kill_host("sits_with_child");
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      TEST(test_waits),   TEST(test_ignores),     TEST(test_forks), TEST(test_reaper),
      TEST(test_threads), TEST(test_descriptors), TEST(test_exits), TEST(test_killed_host)};
  if (argc < 2)
    return 2;
  worker_program = argv[1];
  if (argc == 4)
    return run_scene(argv[2], argv[3]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
