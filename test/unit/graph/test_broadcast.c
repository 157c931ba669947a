// SPDX-License-Identifier: Apache-2.0
// Broadcasting and literals of a shape: which sizes come out, and which guards are asked for, with
// hints of every kind and without.
#include "test/support/graph_fixture.h"

#include <math.h>
#include <string.h>

static void test_known(void **state) {
  (void)state;
  graph_fixture_t f;
  graph_fixture_init(&f);
  dt_sym_t s0 = size_symbol(&f, 5), one = literal(&f, 1), four = literal(&f, 4);
  dt_node_id_t x = input(&f, "x", DT_F32, 2, (dt_sym_t[]){s0, one});
  dt_node_id_t y = input(&f, "y", DT_F32, 1, &four);
  dt_node_id_t z = input(&f, "z", DT_F32, 0, NULL);
  dt_node_id_t same = input(&f, "", DT_F32, 2, (dt_sym_t[]){s0, four});
  dt_node_id_t values[4] = {x, y, z, same};
  expect_ok(dt__graph_broadcast(f.graph, values, 4, NULL));
  for (uint32_t k = 0; k < 4; k++)
    assert_string_equal(type_of(&f, values[k]), "f32[s0, 4]");
  assert_int_equal(values[3].id, same.id); // already of the shape
  assert_int_equal(f.assumed, 0);
  expect_ok(dt__graph_verify(f.graph));
  expect_ok(dt__graph_broadcast(f.graph, values, 0, NULL));
  graph_fixture_fini(&f);
}

// Pairs of hints; what is asked, and what size comes out.
static void check_pair(int64_t a_hint, int64_t b_hint, const char *guard, const char *type) {
  graph_fixture_t f;
  graph_fixture_init(&f);
  dt_sym_t a = size_symbol(&f, a_hint), b = size_symbol(&f, b_hint);
  dt_node_id_t values[2] = {input(&f, "x", DT_F32, 1, &a), input(&f, "y", DT_F32, 1, &b)};
  expect_ok(dt__graph_broadcast(f.graph, values, 2, NULL));
  if (f.assumed != 1 || strcmp(f.last, guard) != 0)
    print_error("hints %lld, %lld: expected the guard \"%s\", got %u, last \"%s\"\n",
                (long long)a_hint, (long long)b_hint, guard, f.assumed, f.last);
  assert_int_equal(f.assumed, 1);
  assert_string_equal(f.last, guard);
  assert_string_equal(type_of(&f, values[0]), type);
  expect_ok(dt__graph_verify(f.graph));
  // The sum needs nothing more, and neither does a second time, from facts alone.
  (void)add(&f, DT_OP_add, 2, values, NULL);
  dt__symenv_freeze(f.env);
  dt_node_id_t again[2] = {{1}, {2}};
  expect_ok(dt__graph_broadcast(f.graph, again, 2, NULL));
  (void)add(&f, DT_OP_add, 2, again, NULL);
  assert_int_equal(f.assumed, 1);
  assert_string_equal(type_of(&f, again[0]), type);
  graph_fixture_fini(&f);
}

static void test_unknown(void **state) {
  (void)state;
  check_pair(5, 5, "s0 == s1", "f32[s0]");
  check_pair(NO_HINT, NO_HINT, "s0 == s1", "f32[s0]");
  check_pair(5, NO_HINT, "s0 == s1", "f32[s0]");
  check_pair(NO_HINT, 1, "s0 == s1", "f32[s0]");
}

// Where the sizes at hand say that one is repeated, all three cases stay possible.
static void test_dynamic(void **state) {
  (void)state;
  static const int64_t hints[][2] = {{1, 1}, {1, 5}, {5, 1}, {1, 0}};
  for (size_t k = 0; k < sizeof(hints) / sizeof(hints[0]); k++) {
    graph_fixture_t f;
    graph_fixture_init(&f);
    dt_sym_t a = size_symbol(&f, hints[k][0]), b = size_symbol(&f, hints[k][1]);
    dt_node_id_t values[2] = {input(&f, "x", DT_F32, 1, &a), input(&f, "y", DT_F32, 1, &b)};
    expect_ok(dt__graph_broadcast(f.graph, values, 2, NULL));
    if (f.assumed != 1)
      print_error("hints %lld, %lld: last guard \"%s\"\n", (long long)hints[k][0],
                  (long long)hints[k][1], f.last);
    assert_int_equal(f.assumed, 1);
    dt_sym_t size = dt__graph_node(f.graph, values[0])->sizes[0];
    assert_int_equal(size.id, dt__graph_node(f.graph, values[1])->sizes[0].id);
    static const int64_t cases[][3] = {{1, 1, 1}, {1, 7, 7}, {7, 1, 7}, {7, 7, 7},
                                       {1, 0, 0}, {0, 1, 0}, {0, 0, 0}};
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
      int64_t got = -1;
      assert_true(dt__sym_eval(f.env, size, cases[c], &got));
      assert_int_equal(got, cases[c][2]);
    }
    (void)add(&f, DT_OP_add, 2, values, NULL);
    expect_ok(dt__graph_verify(f.graph));
    dt__symenv_freeze(f.env);
    dt_node_id_t again[2] = {{1}, {2}};
    expect_ok(dt__graph_broadcast(f.graph, again, 2, NULL));
    (void)add(&f, DT_OP_add, 2, again, NULL);
    assert_int_equal(f.assumed, 1);
    graph_fixture_fini(&f);
  }
}

static void check_refused(graph_fixture_t *f, dt_node_id_t x, dt_node_id_t y,
                          const char *const *parts) {
  dt_node_id_t values[2] = {x, y};
  dt_origin_t origin = {.op = "add", .file = "model.c", .line = 12};
  expect_parts(dt__graph_broadcast(f->graph, values, 2, &origin), DT_E_SHAPE, parts);
}

static void test_refused(void **state) {
  (void)state;
  graph_fixture_t f;
  graph_fixture_init(&f);
  dt_node_id_t x = fixed(&f, "x", DT_F32, 2, (int64_t[]){3, 4});
  dt_node_id_t y = fixed(&f, "y", DT_F32, 1, (int64_t[]){5});
  check_refused(&f, x, y,
                (const char *const[]){"model.c:12: add: sizes must be equal or 1 in dim 1: 4 (of x "
                                      "[3, 4]) and 5 (of y [5])",
                                      NULL});
  dt_sym_t a = size_symbol(&f, 4), b = size_symbol(&f, 5);
  dt_node_id_t p = input(&f, "p", DT_F32, 1, &a), q = input(&f, "q", DT_F32, 1, &b);
  check_refused(&f, p, q, (const char *const[]){"s0 (of p [s0]) and s1 (of q [s1])", NULL});
  assert_int_equal(f.assumed, 0);
  graph_fixture_fini(&f);
}

static void test_full(void **state) {
  (void)state;
  graph_fixture_t f;
  graph_fixture_init(&f);
  dt_sym_t sizes[2] = {size_symbol(&f, NO_HINT), literal(&f, 0)};
  dt_node_id_t id;
  expect_ok(dt__graph_full(f.graph, DT_F32, 0.1, 2, sizes, NULL, &id));
  assert_string_equal(type_of(&f, id), "f32[s0, 0]");
  expect_ok(dt__graph_full(f.graph, DT_I8, -128, 0, NULL, NULL, &id));
  assert_string_equal(type_of(&f, id), "i8[]");
  expect_ok(dt__graph_full(f.graph, DT_U64, 0x1p63, 0, NULL, NULL, &id));
  assert_int_equal(dt__graph_node(f.graph, id)->attrs->ints[0], INT64_MIN);
  static const struct {
    dt_dtype_t dtype;
    double value;
  } bad[] = {{DT_I8, 128},     {DT_I8, 0.5},     {DT_U8, -1},          {DT_BOOL, 2},
             {DT_U64, 0x1p64}, {DT_I64, 0x1p63}, {DT_I32, (double)NAN}};
  for (size_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
    dt_status_t status = dt__graph_full(f.graph, bad[k].dtype, bad[k].value, 0, NULL, NULL, &id);
    if (dt_status_code(status) != DT_E_ARGUMENT)
      print_error("%s %g was taken\n", dt_dtype_name(bad[k].dtype), bad[k].value);
    assert_int_equal(dt_status_code(status), DT_E_ARGUMENT);
    dt_status_free(status);
  }
  assert_int_equal(f.assumed, 0);
  graph_fixture_fini(&f);
}

RUN_TESTS(TEST(test_known), TEST(test_unknown), TEST(test_dynamic), TEST(test_refused),
          TEST(test_full))
