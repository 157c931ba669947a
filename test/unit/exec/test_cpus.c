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
#include <unistd.h>

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

// Of the node of a CPU that this thread may run on; of a node that there is not.
static void test_nodes(void **state) {
  (void)state;
  char path[96], text[32];
  int node = -1;
  for (int k = 0; node < 0 && k < 64; k++) {
    (void)snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/cpu%zu", k, first_cpu());
    node = access(path, F_OK) == 0 ? k : -1;
  }
  if (node < 0)
    skip();
  cpu_set_t own = own_set();
  dt_cpus_t set;
  (void)snprintf(text, sizeof(text), "node:%d", node);
  expect_ok(dt__cpus_read(text, &set));
  assert_true(CPU_ISSET(first_cpu(), &set.set));
  CPU_OR(&own, &own, &set.set);
  cpu_set_t may = own_set();
  assert_true(CPU_EQUAL(&own, &may)); // none but these
  dt_runtime_t *runtime = NULL;
  expect_ok(make(text, &runtime));
  dt_device_info_t info = {.struct_size = sizeof(info)};
  expect_ok(dt_device_info(runtime, DT_CPU, 0, &info));
  assert_in_range(info.processors, 1, CPU_COUNT(&set.set)); // control groups may allow fewer
  dt_runtime_release(runtime);
  expect_told(make("node:1023", &runtime), DT_E_ARGUMENT, "there is no node 1023; there are nodes");
  assert_null(runtime);
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

RUN_TESTS(TEST(test_threads), TEST(test_nodes), TEST(test_refused))
