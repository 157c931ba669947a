// SPDX-License-Identifier: Apache-2.0
// Budgets of a compile: what is over ends the work with a status that names it, and arenas under a
// watch give back what they took.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"
#include "runtime/base/watch.h"

static void expect(dt_status_t status, dt_code_t code, const char *part) {
  assert_int_equal(dt_status_code(status), code);
  if (!strstr(dt_status_message(status), part))
    fail_msg("'%s' has no '%s'", dt_status_message(status), part);
  dt_status_free(status);
}

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
  expect(dt__watch_check(&watch), DT_E_LIMIT, "max_compile_ns");
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
  expect(dt__watch_explain(&watch, DT_NO_MEMORY()), DT_E_LIMIT, "DUCTILE_COMPILE_MIB");
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
  expect(dt__watch_check(&watch), DT_E_STATE, "nobody waits");
  assert_null(dt__arena_alloc(&arena, 1 << 20));
  dt__arena_fini(&arena);
  assert_int_equal(watch.bytes, 0);
}

// Of failures, want of memory alone may be the watch's doing, and may be none of it.
static void test_explain(void **state) {
  (void)state;
  dt_watch_t watch;
  dt__watch_init(&watch, NULL);
  expect(dt__watch_explain(&watch, DT_NO_MEMORY()), DT_E_NO_MEMORY, "out of memory");
  expect(dt__watch_explain(NULL, DT_NO_MEMORY()), DT_E_NO_MEMORY, "out of memory");
  assert_null(dt__watch_explain(&watch, NULL));
  dt__watch_stop(&watch, DT_E_STATE);
  expect(dt__watch_explain(&watch, DT_FAIL(DT_E_SHAPE, "shape")), DT_E_SHAPE, "shape");
  expect(dt__watch_explain(&watch, DT_NO_MEMORY()), DT_E_STATE, "nobody waits");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_without_limits), cmocka_unit_test(test_time),
      cmocka_unit_test(test_memory),         cmocka_unit_test(test_stop),
      cmocka_unit_test(test_explain),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
