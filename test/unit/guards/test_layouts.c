// SPDX-License-Identifier: Apache-2.0
// Guards over inputs: dtype, rank, sizes and strides, swept against the same tests written in C;
// and what people read: the printed program and the explanation of each kind of miss.
#include "guards/record.h"
#include "test/unit/guards/guard_test.h"

#include <string.h>

// ---- Headers ------------------------------------------------------------------------------------
static void test_headers(void **state) {
  (void)state;
  guard_fixture_t f;
  guard_fixture_init(&f);
  dt_sym_t sizes[2] = {size_symbol(&f, 0, 99, ""), literal(&f, 4)};
  add_input(&f, "x", DT_F32, 2, sizes);
  make_guards(&f);
  for (int dtype = DT_BOOL; dtype <= DT_F64; dtype++) {
    for (uint32_t rank = 0; rank <= DT_MAX_RANK && dt_dtype_size((dt_dtype_t)dtype); rank++) {
      int64_t all[DT_MAX_RANK] = {2, 4, 1, 1, 1, 1, 1, 1};
      set_input(&f, 0, (dt_dtype_t)dtype, rank, all, NULL);
      bool expected = dtype == DT_F32 && rank == 2;
      if (hit(&f) != expected)
        fail_msg("dtype %d rank %u: expected %d", dtype, rank, expected);
    }
  }
  guard_fixture_fini(&f);
}

static void test_no_inputs_and_scalars(void **state) {
  (void)state;
  guard_fixture_t f;
  guard_fixture_init(&f);
  make_guards(&f);
  assert_true(hit(&f));
  assert_int_equal(dt__guards_count(f.guards), 0);
  expect_same_text("print", text_of(&f), "");
  guard_fixture_fini(&f);
  guard_fixture_init(&f);
  add_input(&f, "", DT_I64, 0, NULL);
  make_guards(&f);
  set_input(&f, 0, DT_I64, 0, NULL, NULL);
  assert_true(hit(&f));
  int64_t one = 1;
  set_input(&f, 0, DT_I64, 1, &one, NULL);
  assert_false(hit(&f));
  expect_same_text(
      "why", why(&f),
      "expected argument 0 is i64 of rank 0 on the host, contiguous, got i64 of rank 1 on "
      "the host, contiguous (argument)");
  guard_fixture_fini(&f);
}

// ---- Sizes --------------------------------------------------------------------------------------
// x [s0, 3], y [s0, s1], z [2*s0 + 1, s1]: literal, shared symbol, expression.
static void test_sizes(void **state) {
  (void)state;
  guard_fixture_t f;
  guard_fixture_init(&f);
  dt_sym_t a = size_symbol(&f, 0, DT_SIZE_LIMIT - 1, "batch");
  dt_sym_t b = size_symbol(&f, 1, 4, "seq");
  dt_sym_t odd = dt__sym_add(f.env, dt__sym_mul(f.env, a, literal(&f, 2)), literal(&f, 1));
  // The expression comes first: it may use what later inputs bind.
  add_input(&f, "z", DT_U8, 2, (dt_sym_t[]){odd, b});
  add_input(&f, "x", DT_U8, 2, (dt_sym_t[]){a, literal(&f, 3)});
  add_input(&f, "y", DT_U8, 2, (dt_sym_t[]){a, b});
  make_guards(&f);
  uint32_t hits = 0;
  for (int64_t code = 0; code < 6 * 6 * 6 * 6 * 6; code++) {
    int64_t z[2] = {code % 6, code / 6 % 6}, x[2] = {code / 36 % 6, 3},
            y[2] = {code / 216 % 6, code / 1296 % 6};
    set_input(&f, 0, DT_U8, 2, z, NULL);
    set_input(&f, 1, DT_U8, 2, x, NULL);
    set_input(&f, 2, DT_U8, 2, y, NULL);
    bool expected = z[0] == 2 * x[0] + 1 && y[0] == x[0] && z[1] == y[1] && y[1] >= 1 && y[1] <= 4;
    if (hit(&f) != expected)
      fail_msg("z %d %d, x %d, y %d %d: expected %d", (int)z[0], (int)z[1], (int)x[0], (int)y[0],
               (int)y[1], expected);
    hits += expected;
  }
  assert_int_equal(hits, 3 * 4); // x[0] of 0, 1 and 2
  int64_t x[2] = {2, 4};
  set_input(&f, 1, DT_U8, 2, x, NULL);
  assert_false(hit(&f));
  guard_fixture_fini(&f);
}

// ---- Strides ------------------------------------------------------------------------------------
static const int64_t stride_choices[] = {0, 1, 2, 3, 6, -1};
static const int64_t size_choices[] = {0, 1, 2, 3};

// What a guard on a stride means, from the tensor's sizes and the strides the caller wrote.
static bool stride_holds(const int64_t *sizes, const int64_t *strides, uint32_t dim,
                         int64_t expected) {
  return sizes[0] == 0 || sizes[1] == 0 || sizes[dim] == 1 || strides[dim] == expected;
}

// Runs `holds` and the guards on every small layout.
static void sweep_layouts(guard_fixture_t *f,
                          bool (*holds)(const int64_t *sizes, const int64_t *strides)) {
  for (uint32_t code = 0; code < 4 * 4 * 6 * 6; code++) {
    int64_t sizes[2] = {size_choices[code % 4], size_choices[code / 4 % 4]};
    int64_t strides[2] = {stride_choices[code / 16 % 6], stride_choices[code / 96]};
    set_input(f, 0, DT_U8, 2, sizes, strides);
    bool expected = holds(sizes, strides), actual = hit(f);
    if (actual != expected)
      fail_msg("sizes %d %d, strides %d %d: expected %s, got %s\n%s", (int)sizes[0], (int)sizes[1],
               (int)strides[0], (int)strides[1], expected ? "hit" : "miss", actual ? "hit" : "miss",
               text_of(f));
  }
}

static bool is_contiguous(const int64_t *sizes, const int64_t *strides) {
  return stride_holds(sizes, strides, 0, sizes[1]) && stride_holds(sizes, strides, 1, 1);
}
static bool has_unit_rows(const int64_t *sizes, const int64_t *strides) {
  return stride_holds(sizes, strides, 1, 1);
}
static bool is_transposed(const int64_t *sizes, const int64_t *strides) {
  return stride_holds(sizes, strides, 0, 1) && stride_holds(sizes, strides, 1, sizes[0]);
}
static bool is_doubled(const int64_t *sizes, const int64_t *strides) {
  return stride_holds(sizes, strides, 0, 2 * sizes[1]) && stride_holds(sizes, strides, 1, 1);
}
static bool any_layout(const int64_t *sizes, const int64_t *strides) {
  (void)sizes;
  (void)strides;
  return true;
}

static void begin_matrix(guard_fixture_t *f, dt_sym_t sizes[2]) {
  guard_fixture_init(f);
  sizes[0] = size_symbol(f, 0, DT_SIZE_LIMIT - 1, "rows");
  sizes[1] = size_symbol(f, 0, DT_SIZE_LIMIT - 1, "columns");
}

static dt_sym_t stride_symbol(guard_fixture_t *f, const char *name) {
  return dt__sym_new(f->env, DT_SYMBOL_INT, (dt_range_t){INT64_MIN, INT64_MAX}, NULL, name);
}

static void test_strides(void **state) {
  (void)state;
  guard_fixture_t f;
  dt_sym_t s[2];
  begin_matrix(&f, s);
  add_input(&f, "x", DT_U8, 2, s);
  make_guards(&f);
  sweep_layouts(&f, is_contiguous);
  guard_fixture_fini(&f);

  begin_matrix(&f, s);
  add_strided(&f, "x", 2, s, (dt_sym_t[]){stride_symbol(&f, "x.stride(0)"), literal(&f, 1)});
  make_guards(&f);
  sweep_layouts(&f, has_unit_rows);
  int64_t sizes[2] = {2, 3}, strides[2] = {7, 1};
  set_input(&f, 0, DT_U8, 2, sizes, strides);
  assert_true(hit(&f));
  assert_int_equal(f.symbols[0], 2);
  assert_int_equal(f.symbols[1], 3);
  assert_int_equal(f.symbols[2], 7);
  guard_fixture_fini(&f);

  begin_matrix(&f, s);
  add_strided(&f, "x", 2, s, (dt_sym_t[]){literal(&f, 1), s[0]});
  make_guards(&f);
  sweep_layouts(&f, is_transposed);
  guard_fixture_fini(&f);

  begin_matrix(&f, s);
  add_strided(&f, "x", 2, s,
              (dt_sym_t[]){dt__sym_mul(f.env, s[1], literal(&f, 2)), literal(&f, 1)});
  make_guards(&f);
  sweep_layouts(&f, is_doubled);
  guard_fixture_fini(&f);

  begin_matrix(&f, s);
  add_strided(&f, "x", 2, s, (dt_sym_t[]){stride_symbol(&f, ""), stride_symbol(&f, "")});
  make_guards(&f);
  sweep_layouts(&f, any_layout);
  guard_fixture_fini(&f);
}

// ---- Text ---------------------------------------------------------------------------------------
static void test_text(void **state) {
  (void)state;
  guard_fixture_t f;
  guard_fixture_init(&f);
  dt_sym_t a = size_symbol(&f, 1, 512, "ids.size(0)");
  dt_sym_t b = size_symbol(&f, 0, DT_SIZE_LIMIT - 1, "mask.size(0)");
  dt_sym_t n = stride_symbol(&f, "mask.stride(0)");
  add_input(&f, "ids", DT_U8, 2, (dt_sym_t[]){a, literal(&f, 4)});
  add_strided(&f, "mask", 3, (dt_sym_t[]){b, a, dt__sym_add(f.env, a, b)},
              (dt_sym_t[]){n, dt__sym_mul(f.env, n, literal(&f, 3)), literal(&f, 1)});
  add_cond(&f, dt__sym_lt(f.env, a, b), "add", "model.c", 12);
  add_cond(&f, dt__sym_ne(f.env, b, literal(&f, 7)), "branch", "model.c", 13);
  add_cond(&f, dt__sym_eq(f.env, dt__sym_mod(f.env, a, literal(&f, 2)), literal(&f, 1)), "reshape",
           "", 0);
  add_cond(&f, dt__sym_ne(f.env, dt__sym_mul(f.env, a, b), literal(&f, 24)), "limit", "model.c",
           15);
  make_guards(&f);
  const char *expected = "ids is u8 of rank 2 on the host, contiguous (argument)\n"
                         "mask is u8 of rank 3 on the host (argument)\n"
                         "ids.size(1) == 4 (argument)\n"
                         "mask.stride(2) == 1 (argument)\n"
                         "s0 = ids.size(0) (argument)\n"
                         "s1 = mask.size(0) (argument)\n"
                         "n2 = mask.stride(0) (argument)\n"
                         "mask.size(1) == s0 (argument)\n"
                         "1 <= s0 <= 512 (declared sizes)\n"
                         "s1 != 7 (branch, model.c:13)\n"
                         "s0%2 == 1 (reshape)\n"
                         "s0 < s1 (add, model.c:12)\n"
                         "mask.size(2) == s0 + s1 (argument)\n"
                         "mask.stride(1) == n2*3 (argument)\n"
                         "s0*s1 != 24 (limit, model.c:15)\n";
  expect_same_text("print", text_of(&f), expected);
  assert_int_equal(dt__guards_count(f.guards), 12);
  make_guards(&f);
  expect_same_text("print again", text_of(&f), expected);

  static const struct {
    int64_t ids[2], mask[3], strides[3];
    const char *why;
  } rows[] = {
      {{3, 5}, {4, 3, 7}, {1, 3, 1}, "expected ids.size(1) == 4, got 5 (argument)"},
      {{3, 4}, {4, 3, 7}, {1, 3, 2}, "expected mask.stride(2) == 1, got 2 (argument)"},
      {{3, 4},
       {4, 5, 7},
       {1, 3, 1},
       "expected mask.size(1) == s0, got 5, s0 = 3 (ids.size(0)) (argument)"},
      {{0, 4},
       {4, 0, 4},
       {1, 3, 1},
       "expected 1 <= s0 <= 512, got s0 = 0 (ids.size(0)) (declared sizes)"},
      {{3, 4},
       {7, 3, 10},
       {1, 3, 1},
       "expected s1 != 7, got s1 = 7 (mask.size(0)) (branch, model.c:13)"},
      {{2, 4}, {4, 2, 6}, {1, 3, 1}, "expected s0%2 == 1, got s0 = 2 (ids.size(0)) (reshape)"},
      {{5, 4},
       {4, 5, 9},
       {1, 3, 1},
       "expected s0 < s1, got s0 = 5 (ids.size(0)), s1 = 4 (mask.size(0)) (add, model.c:12)"},
      {{3, 4},
       {4, 3, 8},
       {1, 3, 1},
       "expected mask.size(2) == s0 + s1, got 8, expected 7 for s0 = 3 (ids.size(0)), s1 = 4 "
       "(mask.size(0)) (argument)"},
      {{3, 4},
       {4, 3, 7},
       {1, 4, 1},
       "expected mask.stride(1) == n2*3, got 4, expected 3 for n2 = 1 (mask.stride(0)) (argument)"},
      {{3, 4},
       {8, 3, 11},
       {1, 3, 1},
       "expected s0*s1 != 24, got s0 = 3 (ids.size(0)), s1 = 8 (mask.size(0)) (limit, model.c:15)"},
      {{3, 4}, {4, 3, 7}, {1, 3, 1}, ""},
  };
  for (uint32_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
    set_input(&f, 0, DT_U8, 2, rows[k].ids, NULL);
    set_input(&f, 1, DT_U8, 3, rows[k].mask, rows[k].strides);
    (void)hit(&f);
    expect_same_text("why", why(&f), rows[k].why);
  }
  guard_fixture_fini(&f);
}

// Learned equality replaces a symbol in the environment, yet both inputs' sizes are compared.
static void test_equal_sizes(void **state) {
  (void)state;
  guard_fixture_t f;
  guard_fixture_init(&f);
  dt_sym_t a = size_symbol(&f, 0, 99, "a"), b = size_symbol(&f, 0, 99, "b");
  add_input(&f, "x", DT_U8, 1, &a);
  add_input(&f, "y", DT_U8, 1, &b);
  dt_origin_t origin = {"add", "t.c", 1};
  expect_ok(dt__sym_require(f.env, dt__sym_eq(f.env, a, b), &origin, "equal"));
  assert_true(dt__sym_known_eq(f.env, a, b));
  dt__symenv_freeze(f.env);
  make_guards(&f);
  for (int64_t x = 0; x < 4; x++) {
    for (int64_t y = 0; y < 4; y++) {
      set_input(&f, 0, DT_U8, 1, &x, NULL);
      set_input(&f, 1, DT_U8, 1, &y, NULL);
      if (hit(&f) != (x == y))
        fail_msg("%d and %d: expected %d", (int)x, (int)y, x == y);
    }
  }
  guard_fixture_fini(&f);
}

RUN_TESTS(TEST(test_headers), TEST(test_no_inputs_and_scalars), TEST(test_sizes),
          TEST(test_strides), TEST(test_text), TEST(test_equal_sizes))
