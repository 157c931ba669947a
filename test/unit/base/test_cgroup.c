// SPDX-License-Identifier: Apache-2.0
// How many processors' worth of time control groups allow, from made-up trees of both versions.
#include "test/support/check.h"

#include "runtime/base/process.h"
#include "runtime/base/system.h"
#include "test/support/folder.h"

#include <errno.h>

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

static void put(const char *name, const char *text) { file_put(root, name, text); }

static void put_proc(const char *groups, const char *mounts) {
  put("/proc/self/cgroup", groups);
  put("/proc/self/mountinfo", mounts);
}

#define OTHER "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
#define UNIFIED OTHER "30 22 0:26 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw\n"
#define CPU(at)                                                                                    \
  OTHER "33 22 0:30 " at " /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"

static void version_2(void **state) {
  (void)state;
  put_proc("0::/a.slice/b.scope\n", UNIFIED);
  assert_int_equal(dt__cgroup_cores(root), 0);
  put("/sys/fs/cgroup/a.slice/b.scope/cpu.max", "max 100000\n");
  assert_int_equal(dt__cgroup_cores(root), 0);
  put("/sys/fs/cgroup/a.slice/b.scope/cpu.max", "150000 100000\n");
  assert_int_equal(dt__cgroup_cores(root), 2);
  put("/sys/fs/cgroup/a.slice/b.scope/cpu.max", "1000 100000\n");
  assert_int_equal(dt__cgroup_cores(root), 1);
  put("/sys/fs/cgroup/a.slice/b.scope/cpu.max", "800000 100000\n");
  assert_int_equal(dt__cgroup_cores(root), 8);
  // What a group above allows holds, too.
  put("/sys/fs/cgroup/a.slice/cpu.max", "300000 100000\n");
  assert_int_equal(dt__cgroup_cores(root), 3);
  put("/sys/fs/cgroup/cpu.max", "200000 100000\n");
  assert_int_equal(dt__cgroup_cores(root), 2);
}

static void version_1(void **state) {
  (void)state;
  put_proc("5:memory:/m\n4:cpu,cpuacct:/a\n0::/u\n", CPU("/") "34 22 0:31 / /sys/fs/cgroup/unified "
                                                              "rw - cgroup2 cgroup2 rw\n");
  put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n");
  put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  assert_int_equal(dt__cgroup_cores(root), 0);
  put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "250000\n");
  assert_int_equal(dt__cgroup_cores(root), 3);
  put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "0\n");
  assert_int_equal(dt__cgroup_cores(root), 0);
}

// A container sees its own group where groups are mounted, whatever its path is outside.
static void mounted_groups(void **state) {
  (void)state;
  put_proc("4:cpu,cpuacct:/docker/abc/inner\n", CPU("/docker/abc"));
  put("/sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_quota_us", "400000\n");
  put("/sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_period_us", "100000\n");
  assert_int_equal(dt__cgroup_cores(root), 4);
  put_proc("4:cpu,cpuacct:/docker/abcdef\n", CPU("/docker/abc"));
  put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n");
  put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  assert_int_equal(dt__cgroup_cores(root), 2);
  put_proc("0::/../../outside\n", OTHER "30 22 0:26 /../.. /c\\040d rw - cgroup2 cgroup2 rw\n");
  put("/c d/cpu.max", "100000 100000\n");
  assert_int_equal(dt__cgroup_cores(root), 1);
}

static void nonsense_is_no_limit(void **state) {
  static const char *const texts[] = {
      "", "\n\n", ":", "0:", "0::", "::::", "0::/x\n::", " - - -", "a b - c d", "1:cpu"};
  (void)state;
  put("/sys/fs/cgroup/x/cpu.max", "1 2 3 x");
  for (size_t k = 0; k < sizeof(texts) / sizeof(texts[0]); k++)
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
      put_proc(texts[k], texts[i]);
      assert_int_equal(dt__cgroup_cores(root), 0);
    }
  assert_int_equal(dt__cgroup_cores("/nowhere"), 0);
  put_proc("0::/a\n", UNIFIED);
  static const char *const limits[] = {"", "max", "-5 100000", "100000", "5 0", "x y", "5 -1"};
  for (size_t k = 0; k < sizeof(limits) / sizeof(limits[0]); k++) {
    put("/sys/fs/cgroup/a/cpu.max", limits[k]);
    assert_int_equal(dt__cgroup_cores(root), 0);
  }
}

static void what_cannot_be_read_is_no_limit(void **state) {
  (void)state;
  put_proc("0::/a\n", UNIFIED);
  put("/sys/fs/cgroup/a/cpu.max", "300000 100000\n");
  (void)dt__system_fail_at(DT_SYSTEM_FILE, UINT64_MAX, EIO, false);
  assert_int_equal(dt__cgroup_cores(root), 3);
  uint64_t calls = dt__system_fail_at(DT_SYSTEM_FILE, 0, 0, false);
  assert_true(calls > 8);
  for (uint64_t n = 1; n <= calls; n++) {
    (void)dt__system_fail_at(DT_SYSTEM_FILE, n, EIO, false);
    int cores = dt__cgroup_cores(root);
    assert_true(cores == 0 || cores == 3);
    (void)dt__system_fail_at(DT_SYSTEM_FILE, n, EINTR, false);
    assert_int_equal(dt__cgroup_cores(root), 3);
    (void)dt__system_fail_at(DT_SYSTEM_FILE, n, DT_SYSTEM_SHORT, true);
    assert_int_equal(dt__cgroup_cores(root), 3);
  }
  (void)dt__system_fail_at(DT_SYSTEM_FILE, 0, 0, false);
  assert_true(dt__core_count() >= 1);
}

#define IN_FOLDER(name) TEST_WITH(name, setup, teardown)
RUN_TESTS(IN_FOLDER(version_2), IN_FOLDER(version_1), IN_FOLDER(mounted_groups),
          IN_FOLDER(nonsense_is_no_limit), IN_FOLDER(what_cannot_be_read_is_no_limit))
