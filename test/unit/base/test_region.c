// SPDX-License-Identifier: Apache-2.0
// Growing keeps the base and the contents within the reserved range, and failures leave it usable.
#include "test/support/check.h"

#include "runtime/base/memory.h"
#include "runtime/base/region.h"

#include <string.h>

static void grows(void **state) {
  (void)state;
  dt_region_t region = {0};
  assert_true(dt__region_grow(&region, 0));
  assert_null(region.base);
  assert_true(dt__region_grow(&region, 100));
  assert_int_equal((uintptr_t)region.base % 64, 0);
  memset(region.base, 7, 100);
  char *base = region.base;
  for (size_t bytes = 1000; bytes < ((size_t)8 << 20); bytes *= 3) {
    assert_true(dt__region_grow(&region, bytes));
    assert_true(region.bytes >= bytes);
    region.base[bytes - 1] = 1;
    if (region.reserved) {
      assert_ptr_equal(region.base, base);
      assert_int_equal(region.base[99], 7);
    }
  }
  size_t held = region.bytes;
  assert_true(dt__region_grow(&region, 10));
  assert_int_equal(region.bytes, held);
  dt__region_free(&region);
  assert_null(region.base);
  assert_int_equal(region.bytes, 0);
  dt__region_free(&region);
}

static void fails_cleanly(void **state) {
  (void)state;
  dt_region_t region = {0};
  (void)dt__heap_fail_at(1, true); // neither the range nor the heap
  assert_false(dt__region_grow(&region, 4096));
  (void)dt__heap_fail_at(0, false);
  assert_null(region.base);
  assert_true(dt__region_grow(&region, 4096));
  bool ranges = region.reserved != 0; // sanitizer builds have none
  dt__region_free(&region);
  (void)dt__heap_fail_at(1, false); // no range: the heap instead; no ranges: that was the heap
  assert_int_equal(dt__region_grow(&region, 4096), ranges);
  (void)dt__heap_fail_at(0, false);
  assert_true(dt__region_grow(&region, 4096));
  memset(region.base, 1, 4096);
  assert_false(dt__region_grow(&region, SIZE_MAX - 10));
  dt__region_free(&region);
}

// Contents survive whether the region grows in place or moves; a failure leaves them where they
// were.
static void extends(void **state) {
  (void)state;
  for (int heap = 0; heap < 2; heap++) {
    dt_region_t region = {0};
    if (heap && dt__region_reserve(&region)) {
      dt__region_free(&region);
      (void)dt__heap_fail_at(1, false); // no range
    }
    assert_true(dt__region_extend(&region, 0, 100));
    (void)dt__heap_fail_at(0, false);
    for (int i = 0; i < 100; i++)
      region.base[i] = (char)i;
    char *base = region.base;
    (void)dt__heap_fail_at(1, true);
    if (!region.reserved) {
      assert_false(dt__region_extend(&region, 100, 100000));
      assert_ptr_equal(region.base, base);
    }
    (void)dt__heap_fail_at(0, false);
    assert_true(dt__region_extend(&region, 100, 100000));
    assert_true(region.bytes >= 100000);
    assert_int_equal((uintptr_t)region.base % 64, 0);
    region.base[99999] = 1;
    for (int i = 0; i < 100; i++)
      assert_int_equal(region.base[i], (char)i);
    assert_false(dt__region_extend(&region, 100, SIZE_MAX - 10));
    assert_int_equal(region.base[99], 99);
    dt__region_free(&region);
  }
}

RUN_TESTS(TEST(grows), TEST(fails_cleanly), TEST(extends))
