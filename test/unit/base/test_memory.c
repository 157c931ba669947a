// SPDX-License-Identifier: Apache-2.0
// Heap, fault injection, checked arithmetic and arenas.
#include "test/support/check.h"

#include "runtime/base/memory.h"
#include "runtime/base/process.h"

#include <string.h>

static void test_heap(void **state) {
  (void)state;
  char *zero = dt__alloc(0), *other = dt__alloc(0);
  assert_non_null(zero);
  assert_non_null(other);
  assert_ptr_not_equal(zero, other);
  dt__free(zero);
  dt__free(other);
  dt__free(NULL);

  unsigned char *items = dt__calloc(7, 13);
  for (size_t i = 0; i < 7 * 13; i++)
    assert_int_equal(items[i], 0);
  items[90] = 42;
  items = dt__realloc(items, 100000);
  assert_int_equal(items[90], 42);
  dt__free(items);
  items = dt__realloc(NULL, 10);
  assert_non_null(items);
  dt__free(items);

  char *copy = dt__strdup("text");
  assert_string_equal(copy, "text");
  dt__free(copy);
}

// The heap is what the build says it is: its own count knows of what is allocated here.
static void test_whose_heap(void **state) {
  (void)state;
#ifdef DT_HEAP_IS_JEMALLOC
  size_t bytes = (size_t)48 << 20;
  uint64_t before = dt__heap_bytes();
  void *block = dt__alloc(bytes);
  void *aligned = dt__alloc_aligned(bytes, 64);
  uint64_t with = dt__heap_bytes();
  dt__free(block);
  dt__free(aligned);
  assert_true(with - before >= 2 * bytes && with - before < 3 * bytes);
  assert_true(dt__heap_bytes() - before < bytes / 4);
#else
  assert_int_equal(dt__heap_bytes(), 0);
#endif
}

// Memory in pieces of many sizes goes back to the system when it is asked to.
static void test_trim(void **state) {
  (void)state;
  dt__heap_trim(); // does nothing bad on a heap of any kind
#ifdef DT_HEAP_IS_JEMALLOC
  enum { PIECES = 4000 };
  static void *pieces[PIECES];
  dt__heap_trim();
  int64_t before = dt__resident_bytes();
  size_t all = 0;
  for (size_t k = 0; k < PIECES; k++) {
    size_t bytes = 1000 + k * 37 % 60000;
    pieces[k] = dt__alloc(bytes);
    memset(pieces[k], 1, bytes);
    all += bytes;
  }
  int64_t with = dt__resident_bytes();
  for (size_t k = 0; k < PIECES; k++)
    dt__free(pieces[k]);
  dt__heap_trim();
  int64_t after = dt__resident_bytes();
  assert_true(with - before > (int64_t)all / 2);
  if (after - before > (int64_t)all / 10)
    fail_msg("%lld bytes of %zu stayed", (long long)(after - before), all);
#endif
}

static void test_heap_refuses_overflow(void **state) {
  (void)state;
  assert_null(dt__calloc(SIZE_MAX, 2));
  assert_null(dt__calloc(SIZE_MAX / 2, 3));
  void *none = dt__calloc(0, 8);
  assert_non_null(none);
  dt__free(none);
}

static void test_aligned(void **state) {
  (void)state;
  for (size_t alignment = 1; alignment <= 4096; alignment *= 2) {
    for (size_t bytes = 0; bytes < 300; bytes += 37) {
      char *ptr = dt__alloc_aligned(bytes, alignment);
      assert_non_null(ptr);
      assert_int_equal((uintptr_t)ptr % alignment, 0);
      memset(ptr, 1, bytes);
      dt__free(ptr);
    }
  }
}

static void test_injection(void **state) {
  (void)state;
  (void)dt__heap_fail_at(2, false);
  void *first = dt__alloc(1);
  void *second = dt__alloc(1);
  void *third = dt__calloc(1, 1);
  uint64_t counted = dt__heap_fail_at(0, false);
  assert_non_null(first);
  assert_null(second);
  assert_non_null(third);
  assert_int_equal(counted, 3);
  dt__free(third);

  (void)dt__heap_fail_at(1, true);
  assert_null(dt__alloc(1));
  assert_null(dt__calloc(1, 1));
  assert_null(dt__alloc_aligned(1, 64));
  assert_null(dt__realloc(first, 10));
  assert_null(dt__strdup("x"));
  assert_int_equal(dt__heap_fail_at(UINT64_MAX, false), 5);
  first = dt__realloc(first, 10);
  assert_non_null(first);
  assert_int_equal(dt__heap_fail_at(0, false), 1);
  dt__free(first);
}

static void test_checked_arithmetic(void **state) {
  (void)state;
  int64_t value = 5;
  assert_false(dt__mul_i64(INT64_MAX, 2, &value));
  assert_false(dt__mul_i64(INT64_MIN, -1, &value));
  assert_true(dt__mul_i64(INT64_MIN, 1, &value));
  assert_true(value == INT64_MIN);
  assert_false(dt__add_i64(INT64_MAX, 1, &value));
  assert_true(dt__add_i64(INT64_MAX, -1, &value));
  assert_true(value == INT64_MAX - 1);
  size_t size = 0;
  assert_false(dt__mul_size(SIZE_MAX, 2, &size));
  assert_false(dt__add_size(SIZE_MAX, 1, &size));
  assert_true(dt__add_size(SIZE_MAX - 1, 1, &size));
  assert_true(size == SIZE_MAX);
}

static void test_arena(void **state) {
  (void)state;
  dt_arena_t arena;
  dt__arena_init(&arena, 256);
  unsigned char *all[400];
  // From 0 to 399 bytes: inside a block, over a block's end, larger than a block.
  for (size_t bytes = 0; bytes < 400; bytes++) {
    all[bytes] = dt__arena_alloc(&arena, bytes);
    assert_non_null(all[bytes]);
    assert_int_equal((uintptr_t)all[bytes] % 16, 0);
    for (size_t i = 0; i < bytes; i++)
      assert_int_equal(all[bytes][i], 0);
    memset(all[bytes], (int)(bytes % 251), bytes);
  }
  for (size_t bytes = 0; bytes < 400; bytes++)
    for (size_t i = 0; i < bytes; i++)
      assert_int_equal(all[bytes][i], bytes % 251);
  assert_ptr_not_equal(all[0], all[1]);
  assert_true(arena.total_bytes >= 399 * 400 / 2);
  dt__arena_fini(&arena);
  assert_int_equal(arena.total_bytes, 0);
  assert_non_null(dt__arena_alloc(&arena, 10)); // may be used again
  dt__arena_fini(&arena);
  dt__arena_fini(&arena);
}

static void test_arena_large_keeps_the_block(void **state) {
  (void)state;
  dt_arena_t arena;
  dt__arena_init(&arena, 4096);
  char *before = dt__arena_alloc(&arena, 16);
  char *large = dt__arena_alloc(&arena, 100000);
  char *after = dt__arena_alloc(&arena, 16);
  assert_non_null(large);
  memset(large, 1, 100000);
  assert_true(after > before && after - before < 4096);
  dt__arena_fini(&arena);
}

static void test_arena_text(void **state) {
  (void)state;
  dt_arena_t arena;
  dt__arena_init(&arena, 0);
  assert_string_equal(dt__arena_strdup(&arena, ""), "");
  assert_string_equal(dt__arena_strdup(&arena, "abc"), "abc");
  assert_string_equal(dt__arena_printf(&arena, "%s-%d", "x", 12), "x-12");
  dt__arena_fini(&arena);
}

static void test_arena_without_memory(void **state) {
  (void)state;
  dt_arena_t arena;
  dt__arena_init(&arena, 64);
  assert_null(dt__arena_alloc(&arena, SIZE_MAX));
  assert_null(dt__arena_alloc(&arena, SIZE_MAX - 15));
  (void)dt__heap_fail_at(1, true);
  assert_null(dt__arena_alloc(&arena, 1));
  assert_null(dt__arena_strdup(&arena, "x"));
  assert_null(dt__arena_printf(&arena, "%d", 1));
  (void)dt__heap_fail_at(0, false);
  assert_int_equal(arena.total_bytes, 0);
  assert_non_null(dt__arena_alloc(&arena, 1));
  dt__arena_fini(&arena);
}

static void test_vec(void **state) {
  (void)state;
  dt_arena_t arena;
  dt__arena_init(&arena, 128);
  DT_VEC(int64_t) items = {0};
  for (int64_t i = 0; i < 1000; i++)
    assert_true(DT_VEC_PUSH(&arena, &items, i * i));
  assert_int_equal(items.len, 1000);
  for (int64_t i = 0; i < 1000; i++)
    assert_int_equal(items.items[i], i * i);
  void *nothing = NULL;
  uint32_t cap = 0;
  assert_false(dt__arena_grow(&arena, &nothing, &cap, UINT32_MAX, SIZE_MAX / 2));
  assert_int_equal(cap, 0);
  assert_true(dt__arena_grow(&arena, &nothing, &cap, 0, 8));
  assert_null(nothing);
  dt__arena_fini(&arena);
}

RUN_TESTS(TEST(test_heap), TEST(test_whose_heap), TEST(test_trim), TEST(test_heap_refuses_overflow),
          TEST(test_aligned), TEST(test_injection), TEST(test_checked_arithmetic), TEST(test_arena),
          TEST(test_arena_large_keeps_the_block), TEST(test_arena_text),
          TEST(test_arena_without_memory), TEST(test_vec))
