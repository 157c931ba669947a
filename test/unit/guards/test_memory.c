// SPDX-License-Identifier: Apache-2.0
// Guards on memory: alignment, arguments that are one another's memory, that share none of it, and
// layouts in which two indices name one element; the last two against brute force.
#include "test/unit/guards/guard_test.h"

#include <string.h>

static _Alignas(64) char block[256];

static void test_alignment(void **state) {
  (void)state;
  guard_fixture_t f;
  guard_fixture_init(&f);
  dt_graph_input_t input = {.name = "x", .dtype = DT_F32, .rank = 1, .align = 16};
  input.sizes[0] = size_symbol(&f, 0, DT_SIZE_LIMIT - 1, "");
  input.strides[0] = literal(&f, 1);
  input.contiguous = true;
  dt_node_id_t id;
  expect_ok(dt__graph_add_input(f.graph, &input, &id));
  make_guards(&f);
  int64_t n = 4;
  for (int64_t offset = 0; offset < 64; offset += 4) {
    set_input_at(&f, 0, DT_F32, 1, &n, NULL, block + offset);
    assert_int_equal(hit(&f), offset % 16 == 0);
  }
  set_input_at(&f, 0, DT_F32, 1, &n, NULL, block + 4);
  assert_string_equal(
      why(&f), "expected x is aligned to 16 bytes, got an address 4 bytes past one (alignment)");
  guard_fixture_fini(&f);
}

// Three inputs of free sizes; the call writes into the first.
static void three(guard_fixture_t *f, const uint32_t *shared) {
  guard_fixture_init(f);
  for (uint32_t k = 0; k < 3; k++) {
    dt_sym_t s = size_symbol(f, 0, DT_SIZE_LIMIT - 1, "");
    add_input(f, (const char *[]){"x", "y", "z"}[k], DT_U8, 1, &s);
  }
  add_update(f, 0);
  f->context.shared = shared;
  make_guards(f);
}

static void place(guard_fixture_t *f, uint32_t k, int64_t offset, int64_t n) {
  set_input_at(f, k, DT_U8, 1, &n, NULL, block + offset);
}

static bool apart(const int64_t *a, const int64_t *b) {
  return a[1] == 0 || b[1] == 0 || a[0] + a[1] <= b[0] || b[0] + b[1] <= a[0];
}

static void test_disjoint(void **state) {
  (void)state;
  guard_fixture_t f;
  three(&f, NULL);
  for (int64_t at = 0; at < 12; at++) {
    for (int64_t n = 0; n < 6; n++) {
      for (int64_t third = 0; third < 12; third += 3) {
        const int64_t x[2] = {4, 4}, y[2] = {at, n}, z[2] = {third, 3};
        place(&f, 0, x[0], x[1]);
        place(&f, 1, y[0], y[1]);
        place(&f, 2, z[0], z[1]);
        // Nothing is written into y or z, so these may share what they like.
        assert_int_equal(hit(&f), apart(x, y) && apart(x, z));
      }
    }
  }
  place(&f, 1, 4, 4);
  place(&f, 2, 20, 4);
  assert_false(hit(&f));
  assert_non_null(strstr(why(&f), "no byte in common with x, got the same address"));
  guard_fixture_fini(&f);
}

static void test_same_memory(void **state) {
  (void)state;
  guard_fixture_t f;
  const uint32_t shared[3] = {0, 0, 2};
  three(&f, shared);
  place(&f, 0, 0, 4);
  place(&f, 1, 0, 4);
  place(&f, 2, 8, 4);
  assert_true(hit(&f));
  place(&f, 1, 0, 3); // the same address, but less of it
  assert_false(hit(&f));
  place(&f, 1, 4, 4);
  assert_false(hit(&f));
  assert_non_null(strstr(why(&f), "y is the memory of x, got another address"));
  place(&f, 1, 0, 4);
  place(&f, 2, 3, 4);
  assert_false(hit(&f));
  guard_fixture_fini(&f);
}

// Without updates nothing is asked of memory.
static void test_reads_only(void **state) {
  (void)state;
  guard_fixture_t f;
  guard_fixture_init(&f);
  for (uint32_t k = 0; k < 2; k++) {
    dt_sym_t s = size_symbol(&f, 0, DT_SIZE_LIMIT - 1, "");
    add_input(&f, "x", DT_U8, 1, &s);
  }
  make_guards(&f);
  place(&f, 0, 0, 4);
  place(&f, 1, 2, 4);
  assert_true(hit(&f));
  guard_fixture_fini(&f);
}

// Whether some element has two indices, by counting.
static bool overlaps(const int64_t *sizes, const int64_t *strides) {
  static bool seen[4096];
  memset(seen, 0, sizeof(seen));
  for (int64_t i = 0; i < sizes[0]; i++) {
    for (int64_t j = 0; j < sizes[1]; j++) {
      for (int64_t k = 0; k < sizes[2]; k++) {
        int64_t at = 2048 + i * strides[0] + j * strides[1] + k * strides[2];
        if (seen[at])
          return true;
        seen[at] = true;
      }
    }
  }
  return false;
}

static void test_no_overlap(void **state) {
  (void)state;
  guard_fixture_t f;
  guard_fixture_init(&f);
  dt_sym_t sizes[3], strides[3];
  for (uint32_t d = 0; d < 3; d++) {
    sizes[d] = size_symbol(&f, 0, DT_SIZE_LIMIT - 1, "");
    strides[d] = dt__sym_new(f.env, DT_SYMBOL_INT, (dt_range_t){INT64_MIN, INT64_MAX}, NULL, "");
  }
  add_strided(&f, "x", 3, sizes, strides);
  add_update(&f, 0);
  make_guards(&f);
  uint32_t accepted = 0, refused = 0;
  for (uint32_t n = 0; n < 4096; n++) {
    // Sizes 0 to 3, strides -6 to 9 and 12, in a mixed order.
    uint32_t r = n * 2654435761u;
    int64_t size[3], stride[3];
    for (uint32_t d = 0; d < 3; d++) {
      size[d] = r >> (4 * d) & 3;
      stride[d] = (int64_t)(r >> (12 + 5 * d) & 15) - 6;
    }
    set_input_at(&f, 0, DT_U8, 3, size, stride, block);
    bool clash = overlaps(f.inputs[0]->sizes, f.inputs[0]->strides);
    bool taken = hit(&f);
    // The rule may refuse layouts that nest in no order, but takes none that overlaps.
    if (taken && clash)
      fail_msg("sizes %d %d %d, strides %d %d %d overlap", (int)size[0], (int)size[1], (int)size[2],
               (int)stride[0], (int)stride[1], (int)stride[2]);
    accepted += taken;
    refused += !taken;
    if (f.inputs[0]->contiguous && !taken)
      fail_msg("a contiguous layout is refused");
  }
  assert_true(accepted > 500 && refused > 500);
  guard_fixture_fini(&f);
}

static void test_bad_pattern(void **state) {
  (void)state;
  guard_fixture_t f;
  guard_fixture_init(&f);
  dt_sym_t s = size_symbol(&f, 0, DT_SIZE_LIMIT - 1, "");
  add_input(&f, "x", DT_U8, 1, &s);
  add_input(&f, "y", DT_U8, 1, &s);
  add_update(&f, 0);
  const uint32_t shared[2] = {1, 1};
  f.context.shared = shared;
  expect_code(dt__guards_create(f.graph, NULL, 0, &f.context, &f.guards), DT_E_INTERNAL);
  guard_fixture_fini(&f);
}

RUN_TESTS(TEST(test_alignment), TEST(test_disjoint), TEST(test_same_memory), TEST(test_reads_only),
          TEST(test_no_overlap), TEST(test_bad_pattern))
