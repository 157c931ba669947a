// SPDX-License-Identifier: Apache-2.0
// Budgets of a compile: what is over ends the work with a status that names it, and arenas under a
// watch give back what they took.
#include "test/support/check.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"
#include "runtime/base/watch.h"

// At least that much processor time of this thread.
static void burn_ns(int64_t ns) {
  volatile uint64_t sum = 0;
  for (int64_t end = dt__now_ns() + ns; dt__now_ns() < end;)
    for (uint32_t k = 0; k < 1000; k++)
      sum += k;
}

static void test_without_limits(void **state) {
  (void)state;
  dt_watch_t watch;
  dt__watch_init(&watch, NULL);
  dt__watch_enter(&watch);
  burn_ns(1000000);
  assert_true(dt__watch_take(&watch, UINT64_C(1) << 40));
  assert_null(dt__watch_check(&watch));
  assert_null(dt__watch_check(NULL));
  assert_true(dt__watch_take(NULL, 1));
  dt__watch_give(NULL, 1);
}

static void test_time(void **state) {
  (void)state;
  dt_watch_t watch, other;
  dt_watch_limits_t limits = {.max_ns = 20000000};
  dt__watch_init(&watch, &limits);
  dt__watch_init(&other, &limits);
  burn_ns(40000000); // before it: nothing to do with it
  dt__watch_enter(&watch);
  assert_null(dt__watch_check(&watch));
  burn_ns(200000000);
  expect_told(dt__watch_check(&watch), DT_E_LIMIT, "max_compile_ns");
  assert_null(dt__watch_check(&other)); // of which this thread never said that it works for it
}

static void test_memory(void **state) {
  (void)state;
  dt_watch_t watch;
  dt_watch_limits_t limits = {.max_bytes = 1 << 20};
  dt__watch_init(&watch, &limits);
  dt_arena_t first = {.watch = &watch}, second;
  dt__arena_init_like(&second, &first);
  assert_non_null(dt__arena_alloc(&first, 500000));
  assert_non_null(dt__arena_alloc(&second, 400000));
  assert_true(watch.bytes >= 900000);
  dt__arena_fini(&second);
  assert_non_null(dt__arena_alloc(&second, 400000)); // given back, and still watched
  assert_null(dt__watch_check(&watch));
  assert_null(dt__arena_alloc(&second, 400000));
  expect_told(dt__watch_explain(&watch, DT_NO_MEMORY()), DT_E_LIMIT, "DUCTILE_COMPILE_MIB");
  assert_null(dt__arena_alloc(&second, 1 << 20)); // once over, the work is to end
  dt__arena_fini(&first);
  dt__arena_fini(&second);
  assert_int_equal(watch.bytes, 0);
}

static void test_stop(void **state) {
  (void)state;
  dt_watch_t watch;
  dt__watch_init(&watch, NULL);
  dt_arena_t arena = {.watch = &watch};
  assert_non_null(dt__arena_alloc(&arena, 1000));
  dt__watch_stop(&watch, DT_E_STATE);
  expect_told(dt__watch_check(&watch), DT_E_STATE, "nobody waits");
  assert_null(dt__arena_alloc(&arena, 1 << 20));
  dt__arena_fini(&arena);
  assert_int_equal(watch.bytes, 0);
}

// Of failures, want of memory alone may be the watch's doing, and may be none of it.
static void test_explain(void **state) {
  (void)state;
  dt_watch_t watch;
  dt__watch_init(&watch, NULL);
  expect_told(dt__watch_explain(&watch, DT_NO_MEMORY()), DT_E_NO_MEMORY, "out of memory");
  expect_told(dt__watch_explain(NULL, DT_NO_MEMORY()), DT_E_NO_MEMORY, "out of memory");
  assert_null(dt__watch_explain(&watch, NULL));
  dt__watch_stop(&watch, DT_E_STATE);
  expect_told(dt__watch_explain(&watch, DT_FAIL(DT_E_SHAPE, "shape")), DT_E_SHAPE, "shape");
  expect_told(dt__watch_explain(&watch, DT_NO_MEMORY()), DT_E_STATE, "nobody waits");
}

RUN_TESTS(TEST(test_without_limits), TEST(test_time), TEST(test_memory), TEST(test_stop),
          TEST(test_explain))
