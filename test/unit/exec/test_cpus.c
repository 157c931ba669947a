// SPDX-License-Identifier: Apache-2.0
// Sets of CPUs: what the runtime's threads run on, and how many there are then; the thread that
// makes the runtime stays where it is.
#include "test/support/fixture.h"
#include "test/support/folder.h"

#include "runtime/base/cpus.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

static cpu_set_t own_set(void) {
  cpu_set_t set;
  assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
  return set;
}

static size_t first_cpu(void) {
  cpu_set_t set = own_set();
  size_t cpu = 0;
  while (!CPU_ISSET(cpu, &set))
    cpu++;
  return cpu;
}

static dt_status_t make(const char *cpus, dt_runtime_t **out) {
  const dt_runtime_options_t options = {.struct_size = sizeof(options), .cpus = cpus};
  return dt_runtime_create(&options, out);
}

enum { MANY = 256 };
typedef struct {
  pid_t ids[MANY];
  size_t count;
} threads_t;

static threads_t threads_now(void) {
  threads_t now = {.count = 0};
  DIR *folder = opendir("/proc/self/task");
  assert_non_null(folder);
  for (const struct dirent *entry; (entry = readdir(folder)) != NULL && now.count < MANY;)
    if (entry->d_name[0] != '.')
      now.ids[now.count++] = (pid_t)atoi(entry->d_name);
  (void)closedir(folder);
  return now;
}

static bool is_among(const threads_t *threads, pid_t id) {
  for (size_t k = 0; k < threads->count; k++)
    if (threads->ids[k] == id)
      return true;
  return false;
}

// The threads that came since `before`, and how many of them may run elsewhere than on `cpu`. (By
// their names they cannot be told: a thread that has not run yet has its maker's.)
static void count_threads(const threads_t *before, size_t cpu, int *out_all, int *out_elsewhere) {
  threads_t now = threads_now();
  *out_all = *out_elsewhere = 0;
  for (size_t k = 0; k < now.count; k++) {
    cpu_set_t set;
    if (is_among(before, now.ids[k]) || sched_getaffinity(now.ids[k], sizeof(set), &set) != 0)
      continue;
    *out_all += 1;
    *out_elsewhere += CPU_COUNT(&set) != 1 || !CPU_ISSET(cpu, &set);
  }
}

static void test_threads(void **state) {
  (void)state;
  char text[16];
  size_t cpu = first_cpu();
  cpu_set_t before = own_set();
  threads_t others = threads_now();
  (void)snprintf(text, sizeof(text), "%zu", cpu);
  for (int by_variable = 0; by_variable < 2; by_variable++) {
    dt_runtime_t *runtime = NULL;
    if (by_variable)
      variable_set("DUCTILE_CPUS", text);
    expect_ok(make(by_variable ? NULL : text, &runtime));
    variable_set("DUCTILE_CPUS", NULL);
    cpu_set_t after = own_set();
    assert_true(CPU_EQUAL(&before, &after));
    dt_device_info_t info = {.struct_size = sizeof(info)};
    expect_ok(dt_device_info(runtime, DT_CPU, 0, &info));
    assert_int_equal(info.processors, 1); // one a CPU of the set
    int all = 0, elsewhere = 0;
    count_threads(&others, cpu, &all, &elsewhere);
    assert_true(all >= 2); // one that compiles, one in the background
    assert_int_equal(elsewhere, 0);
    dt_runtime_release(runtime);
  }
}

static void test_lists(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int count; // 0: refused
  } cases[] = {{"0", 1},    {"0-3,8", 5}, {"3,3", 1},    {"7-7", 1},
               {"1023", 1}, {"", 0},      {",", 0},      {"0,", 0},
               {"-1", 0},   {"3-1", 0},   {"0-", 0},     {"x", 0},
               {"0 1", 0},  {"1024", 0},  {"0-1024", 0}, {"99999999999999999999", 0},
               {"0-3-5", 0}};
  for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
    dt_cpus_t cpus;
    dt_status_t status = dt__cpus_parse(cases[k].text, &cpus);
    if (cases[k].count) {
      expect_ok(status);
      assert_int_equal(CPU_COUNT(&cpus.set), cases[k].count);
    } else {
      expect_told(status, DT_E_ARGUMENT, "expected CPUs below 1024, as in 0-3,8");
    }
  }
}

static void test_refused(void **state) {
  (void)state;
  dt_runtime_t *runtime = NULL;
  char text[32];
  cpu_set_t before = own_set();
  (void)snprintf(text, sizeof(text), "%zu,1023", first_cpu());
  expect_told(make(text, &runtime), DT_E_ARGUMENT, "may not run on CPU 1023");
  assert_null(runtime);
  expect_told(make("zero", &runtime), DT_E_ARGUMENT, "'zero' at 'zero'");
  cpu_set_t after = own_set();
  assert_true(CPU_EQUAL(&before, &after));
}

RUN_TESTS(TEST(test_threads), TEST(test_lists), TEST(test_refused))
