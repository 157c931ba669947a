// SPDX-License-Identifier: Apache-2.0
// Guards on integers that are no sizes: arguments read from their tensors in every integer dtype,
// captures, and the modes of the runtime.
#include "runtime/base/dtype.h"
#include "test/unit/guards/guard_test.h"

#include <string.h>

static dt_sym_t integer(guard_fixture_t *f, const char *name) {
  return dt__sym_new(f->env, DT_SYMBOL_INT, (dt_range_t){INT64_MIN, INT64_MAX}, NULL, name);
}

static void test_every_dtype(void **state) {
  (void)state;
  static const struct {
    dt_dtype_t dtype;
    uint64_t bits;
    bool fits;
    int64_t value;
  } rows[] = {
      {DT_BOOL, 1, true, 1},
      {DT_BOOL, 0, true, 0},
      {DT_I8, 0xff, true, -1},
      {DT_U8, 0xff, true, 255},
      {DT_I16, 0x8000, true, -32768},
      {DT_U16, 0x8000, true, 32768},
      {DT_I32, 0xffffffff, true, -1},
      {DT_U32, 0xffffffff, true, 0xffffffff},
      {DT_I64, (uint64_t)INT64_MIN, true, INT64_MIN},
      {DT_U64, INT64_MAX, true, INT64_MAX},
      {DT_U64, (uint64_t)1 << 63, false, 0},
  };
  for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
    guard_fixture_t f;
    guard_fixture_init(&f);
    add_integer(&f, "n", rows[k].dtype, integer(&f, "n"));
    make_guards(&f);
    uint64_t bits = rows[k].bits;
    set_input_at(&f, 0, rows[k].dtype, 0, NULL, NULL, &bits);
    if (hit(&f) != rows[k].fits)
      fail_msg("%s: expected %d", dt_dtype_name(rows[k].dtype), rows[k].fits);
    if (rows[k].fits)
      assert_int_equal(f.symbols[0], rows[k].value);
    else
      assert_non_null(strstr(why(&f), "more than a signed 64-bit integer"));
    set_input_at(&f, 0, rows[k].dtype == DT_I64 ? DT_I32 : DT_I64, 0, NULL, NULL, &bits);
    assert_false(hit(&f));
    guard_fixture_fini(&f);
  }
}

static void test_value_against_size(void **state) {
  (void)state;
  guard_fixture_t f;
  guard_fixture_init(&f);
  dt_sym_t s = size_symbol(&f, 0, DT_SIZE_LIMIT - 1, "x.size(0)");
  add_input(&f, "x", DT_U8, 1, &s);
  add_integer(&f, "n", DT_I64, s);                                     // equal
  add_integer(&f, "m", DT_I32, dt__sym_add(f.env, s, literal(&f, 1))); // an expression
  make_guards(&f);
  int64_t size = 5, n = 5;
  int32_t m = 6;
  set_input(&f, 0, DT_U8, 1, &size, NULL);
  set_input_at(&f, 1, DT_I64, 0, NULL, NULL, &n);
  set_input_at(&f, 2, DT_I32, 0, NULL, NULL, &m);
  assert_true(hit(&f));
  n = 4;
  assert_false(hit(&f));
  assert_string_equal(why(&f), "expected n == s0, got 4, s0 = 5 (x.size(0)) (argument)");
  n = 5;
  m = 5;
  assert_false(hit(&f));
  assert_string_equal(why(&f),
                      "expected m == s0 + 1, got 5, expected 6 for s0 = 5 (x.size(0)) (argument)");
  guard_fixture_fini(&f);
}

// An argument that only says "integer" must be one of rank 0.
static void test_no_integer(void **state) {
  (void)state;
  guard_fixture_t f;
  guard_fixture_init(&f);
  add_integer(&f, "n", DT_I32, integer(&f, "n"));
  f.graph->inputs.items[0].dtype = DT_F32; // as no declaration would let it be
  expect_code(dt__guards_create(f.graph, NULL, 0, NULL, &f.guards), DT_E_INTERNAL);
  guard_fixture_fini(&f);
}

static void test_captures(void **state) {
  (void)state;
  guard_fixture_t f;
  guard_fixture_init(&f);
  dt_sym_t n = integer(&f, "config.n");
  add_capture(&f, "config.n", n);
  add_capture(&f, "config.k", literal(&f, 3));
  add_capture(&f, "config.twice", dt__sym_mul(f.env, n, literal(&f, 2)));
  add_cond(&f, dt__sym_lt(f.env, n, literal(&f, 10)), "slice", "model.c", 7);
  make_guards(&f);
  int64_t values[3] = {4, 3, 8};
  for (int k = 0; k < 3; k++)
    f.captures[k] = &values[k];
  assert_true(hit(&f));
  assert_int_equal(f.symbols[0], 4);
  values[1] = 2;
  assert_false(hit(&f));
  assert_string_equal(why(&f), "expected config.k == 3, got 2 (argument)");
  values[1] = 3;
  values[2] = 9;
  assert_false(hit(&f));
  values[0] = 10;
  values[2] = 20;
  assert_false(hit(&f));
  assert_string_equal(why(&f), "expected n0 <= 9, got n0 = 10 (config.n) (slice, model.c:7)");
  guard_fixture_fini(&f);
}

static void test_modes(void **state) {
  (void)state;
  guard_fixture_t f;
  guard_fixture_init(&f);
  f.context = (dt_guard_context_t){.modes = 0x5, .modes_mask = 0x7};
  make_guards(&f);
  assert_int_equal(dt__guards_count(f.guards), 1);
  for (f.modes = 0; f.modes < 32; f.modes++)
    assert_int_equal(hit(&f), (f.modes & 7) == 5);
  f.modes = 4;
  assert_string_equal(why(&f), "expected deterministic is on, strict_fp is off, modes 0x4 are 0x4, "
                               "got deterministic is off, "
                               "strict_fp is off, modes 0x4 are 0x4 (modes)");
  guard_fixture_fini(&f);
}

RUN_TESTS(TEST(test_every_dtype), TEST(test_value_against_size), TEST(test_no_integer),
          TEST(test_captures), TEST(test_modes))
