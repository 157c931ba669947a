// SPDX-License-Identifier: Apache-2.0
// What the machine has, asked without LLVM, is what LLVM says of it; levels are sets, and one that
// the machine lacks something of is refused.
#include "test/support/check.h"

#include "backend_llvm/emit/llvm_compat.h"
#include "backend_llvm/host/cpu.h"
#include "backend_llvm/host/target.h"
#include "runtime/base/status.h"

#include <stdio.h>
#include <string.h>

static const char *const names[DT_CPU_FEATURES] = {
#define FEATURE(id, name, level, leaf, part, reg, bit, state) [DT_CPU_##id] = name,
#include "backend_llvm/host/features.def"
};

static bool listed(const char *features, const char *name) {
  char wanted[64];
  size_t len = (size_t)snprintf(wanted, sizeof(wanted), "+%s", name);
  for (const char *at = features; (at = strstr(at, wanted)) != NULL; at += len)
    if (at[len] == '\0' || at[len] == ',')
      return true;
  return false;
}

static void test_host_as_llvm_sees_it(void **state) {
  (void)state;
  char *features = LLVMGetHostCPUFeatures();
  dt_cpu_set_t set = dt__cpu_host();
  assert_true(set != 0);
  for (uint32_t k = 0; k < DT_CPU_FEATURES; k++)
    if (dt__cpu_has(set, (dt_cpu_feature_t)k) != listed(features, names[k]))
      fail_msg("%s: %s, but LLVM says %s", names[k],
               dt__cpu_has(set, (dt_cpu_feature_t)k) ? "there" : "not there", features);
  LLVMDisposeMessage(features);
}

static void test_levels(void **state) {
  (void)state;
  static const char *const levels[] = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};
  dt_cpu_set_t before = 0, set = 0;
  for (int k = 0; k < 4; k++) {
    assert_true(dt__cpu_level(levels[k], &set));
    assert_int_equal(before & ~set, 0);
    assert_true((set != before) == (k > 0));
    assert_string_equal(dt__cpu_level_within(set), levels[k]);
    // With one feature less it is the level below, also where others are there.
    for (uint32_t f = 0; f < DT_CPU_FEATURES; f++)
      if (dt__cpu_has(set & ~before, (dt_cpu_feature_t)f))
        assert_string_equal(dt__cpu_level_within(~((dt_cpu_set_t)1 << f)), levels[k - 1]);
    before = set;
  }
  static const char *const more[] = {"x86-64-v3+vnni", "x86-64-v4+vnni"};
  for (int k = 0; k < 2; k++) {
    dt_cpu_set_t level = 0;
    assert_true(dt__cpu_level(levels[2 + k], &level));
    assert_true(dt__cpu_level(more[k], &set));
    assert_int_equal(level & ~set, 0);
    assert_true(dt__cpu_has(set & ~level, k ? DT_CPU_avx512vnni : DT_CPU_avxvnni));
    assert_string_equal(dt__cpu_level_within(set), levels[2 + k]);
    assert_true(dt__cpu_set(levels[2 + k], k ? "+avx512vnni" : "+nothing,+avxvnni,") == set);
  }
  assert_true(dt__cpu_set("x86-64-v2", "avx,-avx2,+") == dt__cpu_set("x86-64-v2", ""));
  assert_false(dt__cpu_level("x86-64-v5", &set));
  assert_int_equal(set, 0);
}

static void test_targets(void **state) {
  (void)state;
  static const struct {
    const char *cpu;
    uint32_t bytes, registers;
    bool fma, half;
  } rows[] = {{"x86-64-v2", 16, 16, false, false},
              {"x86-64-v3", 32, 16, true, true},
              {"x86-64-v4", 64, 32, true, true}};
  dt_target_t target;
  for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
    expect_ok(dt__host_target(rows[k].cpu, 3, &target));
    assert_string_equal(target.cpu, rows[k].cpu);
    assert_string_equal(target.features, "");
    assert_string_equal(target.tune, "");
    assert_int_equal(target.vector_bytes, rows[k].bytes);
    assert_int_equal(target.vector_registers, rows[k].registers);
    assert_int_equal(target.fma, rows[k].fma);
    assert_int_equal(target.half_convert, rows[k].half);
    assert_int_equal(target.threads, 3);
  }
  expect_ok(dt__host_target("x86-64-v4+vnni", 1, &target));
  assert_string_equal(target.cpu, "x86-64-v4");
  assert_string_equal(target.features, "+avx512vnni");
  expect_told(dt__host_target("x86-64", 1, &target), DT_E_ARGUMENT, "use x86-64-v2");
  expect_told(dt__host_target("znver4", 1, &target), DT_E_ARGUMENT, "'znver4' is not known");
  // The host's: the largest level in it, and the rest by name.
  dt_cpu_set_t level = 0, rest = dt__cpu_host();
  expect_ok(dt__host_target("", 1, &target));
  assert_true(dt__cpu_level(target.cpu, &level));
  assert_true(target.tune[0] != '\0');
  assert_int_equal(level & ~rest, 0);
  for (uint32_t k = 0; k < DT_CPU_FEATURES; k++)
    assert_int_equal(listed(target.features, names[k]),
                     dt__cpu_has(rest & ~level, (dt_cpu_feature_t)k));
}

static void test_more_than_the_host_has(void **state) {
  (void)state;
  static const char *const levels[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v3+vnni",
                                       "x86-64-v4+vnni"};
  expect_ok(dt__host_runs(""));
  expect_ok(dt__host_runs(NULL));
  for (size_t k = 0; k < sizeof(levels) / sizeof(levels[0]); k++) {
    dt_cpu_set_t set = 0;
    assert_true(dt__cpu_level(levels[k], &set));
    if (set & ~dt__cpu_host())
      expect_told(dt__host_runs(levels[k]), DT_E_UNSUPPORTED, "but this machine lacks");
    else
      expect_ok(dt__host_runs(levels[k]));
  }
  expect_told(dt__host_runs("x86-64-v9"), DT_E_ARGUMENT, "is not known");
}

RUN_TESTS(TEST(test_host_as_llvm_sees_it), TEST(test_levels), TEST(test_targets),
          TEST(test_more_than_the_host_has))
