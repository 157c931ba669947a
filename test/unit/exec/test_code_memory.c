// SPDX-License-Identifier: Apache-2.0
// Processes that may not make memory executable: code runs through a second view of a memory file,
// and where that is forbidden, too, the runtime says so. Each case is a process of its own, since
// such rules hold for a process's life.
#include "test/support/subjects.h"

#include "backend_llvm/load/code.h"
#include "runtime/base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65 // since Linux 6.3
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

enum { GOOD = 0, NO_SUCH_RULE = 77 };

// Whether some mapping may be written and run; whether code lies in a memory file; how many
// mappings there are, and how many of them are code's (an allocator has and drops its own).
typedef struct maps_t {
  bool both, twice;
  uint32_t n, code;
} maps_t;

static maps_t look_at_maps(void) {
  maps_t seen = {0};
  char line[512];
  FILE *file = fopen("/proc/self/maps", "re");
  while (file && fgets(line, sizeof(line), file)) {
    const char *rights = strchr(line, ' ');
    bool file_of_code = strstr(line, "memfd:ductile-code") != NULL;
    seen.n++;
    seen.code += file_of_code || (rights && rights[3] == 'x');
    seen.both = seen.both || (rights && rights[2] == 'w' && rights[3] == 'x');
    seen.twice = seen.twice || (rights && rights[3] == 'x' && file_of_code);
  }
  if (file)
    (void)fclose(file);
  return seen;
}

static int next_descriptor(void) {
  int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  (void)close(fd);
  return fd;
}

// One function compiled, called and compared; 0, or which step failed.
static int compile_and_call(dt_runtime_t *runtime, dt_session_t *session) {
  const subject_t *subject = &softmax_subject;
  dt_function_t *functions[2];
  dt_tensor_t *outputs[2] = {NULL, NULL};
  rng_t rng = {9};
  dt_tensor_t *x = tensor_f32(&rng, 2, (int64_t[]){5, 33});
  for (int k = 0; k < 2; k++)
    functions[k] =
        subject_function(runtime, subject, NULL, k ? DT_ANSWER_EVALUATOR : DT_ANSWER_COMPILED);
  int step = 0;
  for (int k = 0; k < 2 && !step; k++) {
    dt_status_t status = dt_call(session, functions[k], &x, 1, &outputs[k], 1, NULL);
    if (status) {
      print_error("%s\n", dt_status_message(status));
      step = 10 + k;
    }
    dt_status_free(status);
  }
  for (int64_t k = 0; !step && k < (int64_t)5 * 33; k++) {
    float got = ((float *)dt_tensor_data(outputs[0]))[k];
    float expected = ((float *)dt_tensor_data(outputs[1]))[k];
    if (!(got - expected < 1e-5f && expected - got < 1e-5f))
      step = 12;
  }
  for (int k = 0; k < 2; k++) {
    dt_tensor_release(outputs[k]);
    dt_function_release(functions[k]);
  }
  dt_tensor_release(x);
  return step;
}

// By whether code must lie in memory files.
static int run_code(bool twice) {
  dt_runtime_options_t options = {
      .struct_size = sizeof(options), .threads = 2, .compile_threads = 1};
  dt_runtime_t *runtime = NULL;
  dt_session_t *session = NULL;
  dt_status_t status = dt_runtime_create(&options, &runtime);
  if (!status)
    status = dt_session_create(runtime, NULL, &session);
  if (status) {
    print_error("%s\n", dt_status_message(status));
    return 1;
  }
  dt_function_t *kept = subject_function(runtime, &add_subject, NULL, DT_ANSWER_COMPILED);
  if (dt_function_prepare(kept, NULL))
    return 2;
  maps_t seen = look_at_maps();
  if (seen.both || seen.twice != twice)
    return 3;
  int step = compile_and_call(runtime, session);
  // What a function had goes with it.
  seen = look_at_maps();
  int fd = next_descriptor();
  for (int k = 0; k < 12 && !step; k++)
    step = compile_and_call(runtime, session);
  // A compile that nobody waits for may be under way at either look: two mappings and a descriptor.
  // Twelve functions that kept theirs would be more, for good.
  maps_t after = look_at_maps();
  int later_fd = next_descriptor();
  for (int tries = 0; tries < 1000 && (after.code > seen.code + 2 || later_fd > fd); tries++) {
    (void)usleep(10000);
    after = look_at_maps();
    later_fd = next_descriptor();
  }
  if (!step && (after.both || after.code > seen.code + 2 || later_fd > fd)) {
    print_error("mappings of code: %u, then %u; next descriptor: %d, then %d\n", seen.code,
                after.code, fd, later_fd);
    step = 4;
  }
  dt_function_release(kept);
  dt_session_destroy(session);
  dt_runtime_release(runtime);
  return step;
}

// ---- Rules ----------------------------------------------------------------------------------------

static int deny_gain(void) {
  return prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) == 0 ? GOOD : NO_SUCH_RULE;
}

// Refuses mprotect with PROT_EXEC, as MemoryDenyWriteExecute did on older systems; and memory
// files.
static int filter_calls(bool files_too) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 5, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, files_too ? SECCOMP_RET_ERRNO | EPERM : SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    return NO_SUCH_RULE;
  return GOOD;
}

static int without_rules(void) { return run_code(false); }

static int under_deny_gain(void) {
  int rule = deny_gain();
  return rule ? rule : run_code(true);
}

static int under_filter(void) {
  int rule = filter_calls(false);
  return rule ? rule : run_code(true);
}

// A rule that comes when the runtime is made already.
static int under_late_rule(void) {
  dt_runtime_t *runtime = NULL;
  dt_session_t *session = NULL;
  dt_runtime_options_t options = {.struct_size = sizeof(options), .compile_threads = 1};
  if (dt_runtime_create(&options, &runtime) || dt_session_create(runtime, NULL, &session) ||
      compile_and_call(runtime, session))
    return 5;
  if (deny_gain() != GOOD)
    return NO_SUCH_RULE;
  int step = compile_and_call(runtime, session);
  if (!step && look_at_maps().both)
    step = 6;
  dt_session_destroy(session);
  dt_runtime_release(runtime);
  return step;
}

static int where_nothing_works(void) {
  int rule = filter_calls(true);
  if (rule)
    return rule;
  dt_runtime_t *runtime = (dt_runtime_t *)(uintptr_t)1;
  dt_status_t status = dt_runtime_create(NULL, &runtime);
  const char *told = dt_status_message(status);
  bool good = dt_status_code(status) == DT_E_UNSUPPORTED && !runtime && strstr(told, "mprotect") &&
              strstr(told, "memfd_create") && strstr(told, "MemoryDenyWriteExecute");
  print_message("%s\n", told);
  dt_status_free(status);
  return good ? GOOD : 7;
}

static void run_apart(int (*run)(void), const char *rule) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0)
    _exit(run());
  int result = 0;
  assert_int_equal(waitpid(child, &result, 0), child);
  if (WIFEXITED(result) && WEXITSTATUS(result) == NO_SUCH_RULE) {
    print_message("left out: this system does not know %s\n", rule);
    return;
  }
  if (!WIFEXITED(result) || WEXITSTATUS(result) != GOOD)
    fail_msg("%s: %s %d", rule, WIFEXITED(result) ? "step" : "signal",
             WIFEXITED(result) ? WEXITSTATUS(result) : WTERMSIG(result));
}

static void test_no_rules(void **state) {
  (void)state;
  run_apart(without_rules, "nothing");
}

static void test_deny_gain(void **state) {
  (void)state;
  run_apart(under_deny_gain, "PR_SET_MDWE");
  run_apart(under_late_rule, "PR_SET_MDWE");
}

static void test_filter(void **state) {
  (void)state;
  run_apart(under_filter, "system-call filters");
}

static void test_nothing_works(void **state) {
  (void)state;
  run_apart(where_nothing_works, "system-call filters");
}

// ---- One call refused -----------------------------------------------------------------------------

// A sanitizer maps memory of its own at any time.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS_MAPS false
#else
#define COUNTS_MAPS true
#endif

static int refuse_each(void) {
  static const int errors[] = {EACCES, EPERM, ENOMEM, EINVAL};
  int fd = next_descriptor();
  uint32_t refused = 0;
  for (size_t e = 0; e < 4; e++)
    for (uint64_t n = 1; n < 12; n++)
      for (int sticky = 0; sticky < 2; sticky++) {
        uint32_t before = look_at_maps().n;
        (void)dt__system_fail_at(DT_SYSTEM_MAPPING, n, errors[e], sticky);
        dt_status_t status = dt__code_probe();
        uint64_t made = dt__system_fail_at(DT_SYSTEM_MAPPING, 0, 0, false);
        dt_code_t code = dt_status_code(status);
        refused += status != NULL;
        dt_status_free(status);
        bool right = errors[e] == ENOMEM ? !status || code == DT_E_NO_MEMORY
                     : sticky            ? code == (n <= 2 ? DT_E_UNSUPPORTED : DT_OK)
                                         : code == DT_OK;
        if (!right || made == 0 || next_descriptor() != fd ||
            (COUNTS_MAPS && look_at_maps().n > before + 1)) {
          print_error("error %d at call %d, sticky %d: code %d\n", errors[e], (int)n, sticky,
                      (int)code);
          return 8;
        }
      }
  return refused > 8 ? GOOD : 9;
}

static void test_each_mapping_refused(void **state) {
  (void)state;
  run_apart(refuse_each, "faults");
}

RUN_TESTS(TEST(test_no_rules), TEST(test_deny_gain), TEST(test_filter), TEST(test_nothing_works),
          TEST(test_each_mapping_refused))
