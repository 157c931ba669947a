// SPDX-License-Identifier: Apache-2.0
// Lists of CPUs and of NUMA nodes, from made-up trees of the system's files.
#include "test/support/check.h"

#include "runtime/base/cpus.h"
#include "runtime/base/memory.h"
#include "runtime/base/system.h"
#include "test/support/folder.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static char root[FOLDER_BYTES];

static int setup(void **state) {
  (void)state;
  folder_make(root);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  return folder_drop(root);
}

static void put(const char *name, const char *text) {
  char path[64];
  (void)snprintf(path, sizeof(path), "/sys/devices/system/node/%s", name);
  file_put(root, path, text);
}

// CPUs below 12, but for 3.
static cpu_set_t allowed(void) {
  cpu_set_t set = {0};
  for (size_t cpu = 0; cpu < 12; cpu++)
    if (cpu != 3)
      CPU_SET(cpu, &set);
  return set;
}

static dt_status_t parse(const char *text, dt_cpus_t *out) {
  const cpu_set_t may = allowed();
  return dt__cpus_parse(text, root, &may, out);
}

// `expected` has a character for each CPU from 0 on: x where it is in the set.
static void expect_set(const char *text, const char *expected) {
  dt_cpus_t cpus;
  char got[CPU_SETSIZE + 1] = "";
  expect_ok(parse(text, &cpus));
  assert_true(cpus.given);
  for (size_t k = 0; k < CPU_SETSIZE; k++)
    got[k] = CPU_ISSET(k, &cpus.set) ? 'x' : '.';
  for (size_t k = CPU_SETSIZE; k > 0 && got[k - 1] == '.'; k--)
    got[k - 1] = '\0';
  if (strcmp(got, expected) != 0)
    fail_msg("%s: %s; expected %s", text, got, expected);
}

static void expect_refused(const char *text, dt_code_t code, const char *told) {
  dt_cpus_t cpus;
  expect_told(parse(text, &cpus), code, told);
}

static void lists(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int count; // 0: refused
  } cases[] = {{"0", 1},      {"0-3,8", 5},   {"3,3", 1},         {"7-7", 1},
               {"1023", 1},   {"", 0},        {",", 0},           {"0,", 0},
               {"-1", 0},     {"3-1", 0},     {"0-", 0},          {"x", 0},
               {"0 1", 0},    {"1024", 0},    {"0-1024", 0},      {"99999999999999999999", 0},
               {"0-3-5", 0},  {"node", 0},    {"node:", 0},       {"node:0,", 0},
               {"node0", 0},  {"node:x", 0},  {"node:-1", 0},     {"node:1024", 0},
               {"Node:0", 0}, {" node:0", 0}, {"node:node:0", 0}, {"0,node:0-", 0}};
  put("online", "0\n");
  put("node0/cpulist", "0-1\n");
  for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
    dt_cpus_t cpus;
    if (!cases[k].count) {
      expect_refused(cases[k].text, DT_E_ARGUMENT,
                     "expected CPUs below 1024, as in 0-3,8, and then nodes, as in node:0,1");
      continue;
    }
    expect_ok(parse(cases[k].text, &cpus));
    assert_int_equal(CPU_COUNT(&cpus.set), cases[k].count);
  }
}

// Two nodes whose CPUs take turns, one with memory alone, one that the process may not run on.
static void put_machine(void) {
  put("online", "0-2,5\n");
  put("node0/cpulist", "0-1,4-5,12\n");
  put("node1/cpulist", "2-3,6-7\n");
  put("node2/cpulist", "\n");
  put("node5/cpulist", "3,12-99\n");
}

static void nodes(void **state) {
  (void)state;
  put_machine();
  expect_set("node:0", "xx..xx");
  expect_set("node:1", "..x...xx");
  expect_set("node:0,1", "xxx.xxxx");
  expect_set("node:0-1", "xxx.xxxx");
  expect_set("node:0,node:1", "xxx.xxxx");
  // CPUs by their own numbers, which nothing is cut off, and those of a node.
  expect_set("3,11,node:1", "..xx..xx...x");
  expect_set("2,node:1,1", "..x...xx");
}

static void refused_nodes(void **state) {
  (void)state;
  put_machine();
  expect_refused("node:3", DT_E_ARGUMENT, "there is no node 3; there are nodes 0-2,5");
  expect_refused("node:0,1023", DT_E_ARGUMENT, "there is no node 1023");
  expect_refused("node:1-5", DT_E_ARGUMENT, "node 2 has no CPUs; there are nodes 0-2,5");
  expect_refused("0,node:5", DT_E_ARGUMENT, "may not run on any CPU of node 5 (3,12-99); taskset");
}

static void files_that_say_nothing(void **state) {
  static const char *const bad[] = {"x\n",   "0-\n", "1,\n", "3-1\n", "0-1024\n", " 0\n",
                                    "0 1\n", "-\n",  ",\n",  "0;1\n", "0x1\n",    "1023-1025\n"};
  (void)state;
  expect_refused("node:0", DT_E_UNSUPPORTED, "/sys/devices/system/node/online cannot be read");
  expect_set("0-1", "xx"); // which needs none of it
  put("online", "0-1\n");
  expect_refused("node:1", DT_E_UNSUPPORTED, "node/node1/cpulist cannot be read");
  for (size_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
    put("node0/cpulist", bad[k]);
    expect_refused("node:0", DT_E_UNSUPPORTED, "node0/cpulist: '");
    put("node0/cpulist", "0");
    put("online", bad[k]);
    expect_refused("node:0", DT_E_UNSUPPORTED, "node/online: '");
    put("online", "0");
    expect_set("node:0", "x");
  }
  put("online", "\n");
  expect_refused("node:0", DT_E_ARGUMENT, "there is no node 0");
}

// Each file operation and each allocation fails once: the same set, or a status.
static void what_fails_is_told(void **state) {
  (void)state;
  put_machine();
  dt_cpus_t cpus;
  (void)dt__system_fail_at(DT_SYSTEM_FILE, UINT64_MAX, EIO, false);
  expect_set("node:0,1", "xxx.xxxx");
  uint64_t calls = dt__system_fail_at(DT_SYSTEM_FILE, 0, 0, false);
  assert_true(calls > 8);
  for (uint64_t n = 1; n <= calls; n++) {
    (void)dt__system_fail_at(DT_SYSTEM_FILE, n, EIO, false);
    dt_status_t status = parse("node:0,1", &cpus);
    assert_true(!status || dt_status_code(status) == DT_E_UNSUPPORTED);
    dt_status_free(status);
    (void)dt__system_fail_at(DT_SYSTEM_FILE, n, DT_SYSTEM_SHORT, true);
    expect_set("node:0,1", "xxx.xxxx");
  }
  (void)dt__system_fail_at(DT_SYSTEM_FILE, 0, 0, false);
  for (uint64_t n = 1; n <= 3; n++) {
    (void)dt__heap_fail_at(n, false);
    dt_status_t status = parse("node:0,1", &cpus);
    (void)dt__heap_fail_at(0, false);
    assert_int_not_equal(dt_status_code(status), DT_OK);
    dt_status_free(status);
  }
}

#define IN_FOLDER(name) TEST_WITH(name, setup, teardown)
RUN_TESTS(IN_FOLDER(lists), IN_FOLDER(nodes), IN_FOLDER(refused_nodes),
          IN_FOLDER(files_that_say_nothing), IN_FOLDER(what_fails_is_told))
