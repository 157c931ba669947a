// SPDX-License-Identifier: Apache-2.0
// Inference of reshape, permute, expand, slice, pad and concat: sizes, guards and refusals.
#include "test/support/graph_fixture.h"

#include <string.h>

static dt_attrs_t with_syms(uint32_t n, const dt_sym_t *syms) {
  dt_attrs_t attrs = {0};
  attrs.n_syms = n;
  memcpy(attrs.syms, syms, n * sizeof(*syms));
  return attrs;
}
#define SYMS(n, ...) with_syms(n, (dt_sym_t[]){__VA_ARGS__})

static void test_reshape(void **state) {
  (void)state;
  graph_fixture_t f;
  graph_fixture_init(&f);
  dt_sym_t s0 = size_symbol(&f, 6), s1 = size_symbol(&f, 3), open = literal(&f, -1);
  dt_sym_t twelve = literal(&f, 12), big = literal(&f, 64);
  dt_node_id_t x = input(&f, "x", DT_F32, 3, (dt_sym_t[]){s0, twelve, big});
  dt_attrs_t attrs = SYMS(2, s0, open);
  assert_string_equal(type_of(&f, add(&f, DT_OP_reshape, 1, &x, &attrs)), "f32[s0, 768]");
  attrs = SYMS(2, open, literal(&f, 768));
  assert_string_equal(type_of(&f, add(&f, DT_OP_reshape, 1, &x, &attrs)), "f32[s0, 768]");
  attrs = SYMS(1, open);
  assert_string_equal(type_of(&f, add(&f, DT_OP_reshape, 1, &x, &attrs)), "f32[s0*768]");
  attrs = SYMS(3, literal(&f, 3), s0, open);
  assert_string_equal(type_of(&f, add(&f, DT_OP_reshape, 1, &x, &attrs)), "f32[3, s0, 256]");
  attrs = SYMS(1, dt__sym_mul(f.env, s0, literal(&f, 768)));
  (void)add(&f, DT_OP_reshape, 1, &x, &attrs);
  assert_int_equal(f.assumed, 0);
  // Divisible by the hint: a guard.
  attrs = SYMS(2, literal(&f, 1536), open);
  dt_node_id_t half = add(&f, DT_OP_reshape, 1, &x, &attrs);
  assert_int_equal(f.assumed, 1);
  int64_t got = 0;
  assert_true(
      dt__sym_eval(f.env, dt__graph_node(f.graph, half)->sizes[1], (int64_t[]){6, 3}, &got));
  assert_int_equal(got, 3);
  // By another symbol, which may be 0: the hint 6 * 768 / 3 fits.
  attrs = SYMS(2, s1, open);
  dt_node_id_t by = add(&f, DT_OP_reshape, 1, &x, &attrs);
  assert_true(dt__sym_eval(f.env, dt__graph_node(f.graph, by)->sizes[1], (int64_t[]){6, 3}, &got));
  assert_int_equal(got, 1536);
  assert_true(dt__sym_eval(f.env, dt__graph_node(f.graph, by)->sizes[1], (int64_t[]){0, 0}, &got));
  assert_int_equal(got, 0);
  attrs = SYMS(2, s0, literal(&f, 700));
  refuse(&f, DT_OP_reshape, 1, &x, &attrs, DT_E_SHAPE,
         EACH_OF("the number of elements must stay the same: s0*768 (of x [s0, 12, 64]), asked for "
                 "s0*700 [s0, 700]"));
  attrs = SYMS(2, open, open);
  refuse(&f, DT_OP_reshape, 1, &x, &attrs, DT_E_ARGUMENT, EACH_OF("only one size may be -1"));
  attrs = SYMS(2, literal(&f, -2), s0);
  refuse(&f, DT_OP_reshape, 1, &x, &attrs, DT_E_SHAPE,
         EACH_OF("size of dim 0 must not be negative"));
  expect_ok(dt__graph_verify(f.graph));
  graph_fixture_fini(&f);
}

static void test_reshape_empty(void **state) {
  (void)state;
  graph_fixture_t f;
  graph_fixture_init(&f);
  dt_node_id_t x = fixed(&f, "x", DT_F32, 2, (int64_t[]){0, 4});
  dt_node_id_t scalar = fixed(&f, "r", DT_F32, 0, NULL);
  dt_attrs_t attrs = SYMS(2, literal(&f, 8), literal(&f, -1));
  assert_string_equal(type_of(&f, add(&f, DT_OP_reshape, 1, &x, &attrs)), "f32[8, 0]");
  attrs = SYMS(2, literal(&f, 0), literal(&f, -1));
  refuse(&f, DT_OP_reshape, 1, &x, &attrs, DT_E_SHAPE, EACH_OF("another size is 0"));
  attrs = SYMS(2, literal(&f, 5), literal(&f, 0));
  assert_string_equal(type_of(&f, add(&f, DT_OP_reshape, 1, &x, &attrs)), "f32[5, 0]");
  attrs = SYMS(2, literal(&f, 1), literal(&f, -1));
  assert_string_equal(type_of(&f, add(&f, DT_OP_reshape, 1, &scalar, &attrs)), "f32[1, 1]");
  dt_attrs_t none = {0};
  assert_string_equal(type_of(&f, add(&f, DT_OP_reshape, 1, &scalar, &none)), "f32[]");
  refuse(&f, DT_OP_reshape, 1, &x, &none, DT_E_SHAPE, EACH_OF("0 (of x [0, 4]), asked for 1 []"));
  graph_fixture_fini(&f);
}

static void test_permute(void **state) {
  (void)state;
  graph_fixture_t f;
  graph_fixture_init(&f);
  dt_sym_t sizes[3] = {size_symbol(&f, NO_HINT), literal(&f, 4), literal(&f, 5)};
  dt_node_id_t x = input(&f, "x", DT_F32, 3, sizes);
  dt_attrs_t attrs = {.n_axes = 3, .axes = {2, 0, 1}};
  assert_string_equal(type_of(&f, add(&f, DT_OP_permute, 1, &x, &attrs)), "f32[5, s0, 4]");
  attrs.axes[0] = 1;
  refuse(&f, DT_OP_permute, 1, &x, &attrs, DT_E_ARGUMENT, EACH_OF("axis 1 is named twice"));
  attrs.axes[0] = 3;
  refuse(&f, DT_OP_permute, 1, &x, &attrs, DT_E_ARGUMENT, EACH_OF("axis 3 is not in [0, 3)"));
  attrs.n_axes = 2;
  refuse(&f, DT_OP_permute, 1, &x, &attrs, DT_E_ARGUMENT, EACH_OF("all 3 dims"));
  graph_fixture_fini(&f);
}

static void expand_case(int64_t in_hint, int64_t out_hint, dt_code_t code, const char *guard) {
  graph_fixture_t f;
  graph_fixture_init(&f);
  dt_sym_t in = size_symbol(&f, in_hint), out = size_symbol(&f, out_hint);
  dt_node_id_t x = input(&f, "x", DT_F32, 1, &in);
  dt_attrs_t attrs = SYMS(1, out);
  if (code != DT_OK) {
    refuse(&f, DT_OP_expand, 1, &x, &attrs, code,
           EACH_OF(
               "expand: dim 0 must have size 1 or be kept: expected s0 (of x [s0]), asked for s1"));
  } else {
    (void)add(&f, DT_OP_expand, 1, &x, &attrs);
    if (strcmp(f.last, guard) != 0)
      print_error("hints %lld, %lld: expected \"%s\", got \"%s\"\n", (long long)in_hint,
                  (long long)out_hint, guard, f.last);
    assert_int_equal(f.assumed, 1);
    assert_string_equal(f.last, guard);
    (void)add(&f, DT_OP_expand, 1, &x, &attrs); // answered already
    assert_int_equal(f.assumed, 1);
  }
  graph_fixture_fini(&f);
}

static void test_expand(void **state) {
  (void)state;
  graph_fixture_t f;
  graph_fixture_init(&f);
  dt_sym_t s0 = size_symbol(&f, 5), s1 = size_symbol(&f, 6), one = literal(&f, 1);
  dt_node_id_t x = input(&f, "x", DT_F32, 2, (dt_sym_t[]){s0, one});
  dt_attrs_t attrs = SYMS(2, s0, s1);
  assert_string_equal(type_of(&f, add(&f, DT_OP_expand, 1, &x, &attrs)), "f32[s0, s1]");
  attrs = SYMS(2, s0, literal(&f, 0));
  assert_string_equal(type_of(&f, add(&f, DT_OP_expand, 1, &x, &attrs)), "f32[s0, 0]");
  attrs = SYMS(2, s0, literal(&f, -4));
  refuse(&f, DT_OP_expand, 1, &x, &attrs, DT_E_SHAPE, EACH_OF("must not be negative"));
  attrs = SYMS(1, s0);
  refuse(&f, DT_OP_expand, 1, &x, &attrs, DT_E_SHAPE, EACH_OF("the rank stays the same (2), 1"));
  assert_int_equal(f.assumed, 0);
  graph_fixture_fini(&f);
  expand_case(5, 5, DT_OK, "s0 == s1");
  expand_case(NO_HINT, NO_HINT, DT_OK, "s0 == s1");
  expand_case(NO_HINT, 1, DT_OK, "s0 == s1");
  expand_case(5, 7, DT_E_SHAPE, NULL);
  expand_case(5, 1, DT_E_SHAPE, NULL);
  expand_case(1, 5, DT_OK, "s0 == s1 or s0 == 1");
  expand_case(1, 1, DT_OK, "s0 == s1 or s0 == 1");
  expand_case(1, 0, DT_OK, "s0 == s1 or s0 == 1");
}

static dt_attrs_t slice(dt_sym_t start, dt_sym_t size, int64_t step) {
  dt_attrs_t attrs = SYMS(2, start, size);
  attrs.ints[0] = step;
  return attrs;
}

static void test_slice(void **state) {
  (void)state;
  graph_fixture_t f;
  graph_fixture_init(&f);
  dt_sym_t n = size_symbol(&f, 10), zero = literal(&f, 0), one = literal(&f, 1);
  dt_sym_t last = dt__sym_sub(f.env, n, one), two = literal(&f, 2), ten = literal(&f, 10);
  dt_node_id_t x = input(&f, "x", DT_F32, 1, &n), c = input(&f, "c", DT_F32, 1, &ten);
  dt_attrs_t attrs = slice(zero, n, 1); // everything
  assert_string_equal(type_of(&f, add(&f, DT_OP_slice, 1, &x, &attrs)), "f32[s0]");
  attrs = slice(last, n, -1); // reversed
  assert_string_equal(type_of(&f, add(&f, DT_OP_slice, 1, &x, &attrs)), "f32[s0]");
  attrs = slice(n, zero, 1); // nothing, from the end
  assert_string_equal(type_of(&f, add(&f, DT_OP_slice, 1, &x, &attrs)), "f32[0]");
  attrs = slice(zero, dt__sym_ceildiv(f.env, n, two), 2); // every second
  (void)add(&f, DT_OP_slice, 1, &c, &(dt_attrs_t){.n_syms = 2, .syms = {one, two}, .ints = {7}});
  if (f.assumed)
    print_error("unexpected guard \"%s\"\n", f.last);
  assert_int_equal(f.assumed, 0);
  attrs = slice(two, literal(&f, 3), 1); // needs s0 >= 5
  (void)add(&f, DT_OP_slice, 1, &x, &attrs);
  assert_int_equal(f.assumed, 1);
  attrs = slice(zero, literal(&f, 11), 1);
  refuse(&f, DT_OP_slice, 1, &c, &attrs, DT_E_SHAPE,
         EACH_OF("slice: the last element taken from dim 0 lies outside", "inputs c f32[10]"));
  refuse(&f, DT_OP_slice, 1, &x, &attrs, DT_E_SHAPE, EACH_OF("the last element")); // by hint
  attrs = slice(literal(&f, -1), one, 1);
  refuse(&f, DT_OP_slice, 1, &c, &attrs, DT_E_SHAPE, EACH_OF("the first element"));
  attrs = slice(ten, one, -1);
  refuse(&f, DT_OP_slice, 1, &c, &attrs, DT_E_SHAPE, EACH_OF("the first element"));
  attrs = slice(two, literal(&f, 4), -1);
  refuse(&f, DT_OP_slice, 1, &c, &attrs, DT_E_SHAPE, EACH_OF("the last element"));
  attrs = slice(zero, literal(&f, -1), 1);
  refuse(&f, DT_OP_slice, 1, &c, &attrs, DT_E_SHAPE, EACH_OF("must not be negative"));
  attrs = slice(zero, one, 0);
  refuse(&f, DT_OP_slice, 1, &c, &attrs, DT_E_ARGUMENT, EACH_OF("step of dim 0 is 0"));
  attrs.n_syms = 1;
  refuse(&f, DT_OP_slice, 1, &c, &attrs, DT_E_ARGUMENT, EACH_OF("2 sizes are needed, 1 given"));
  expect_ok(dt__graph_verify(f.graph));
  graph_fixture_fini(&f);
}

static void test_pad_concat(void **state) {
  (void)state;
  graph_fixture_t f;
  graph_fixture_init(&f);
  dt_sym_t s0 = size_symbol(&f, 5), s1 = size_symbol(&f, 5), four = literal(&f, 4);
  dt_node_id_t x = input(&f, "x", DT_I8, 2, (dt_sym_t[]){s0, four});
  dt_node_id_t y = input(&f, "y", DT_I8, 2, (dt_sym_t[]){s1, four});
  dt_attrs_t attrs = SYMS(4, literal(&f, 1), s1, literal(&f, 0), literal(&f, 2));
  attrs.ints[0] = -1;
  dt_node_id_t padded = add(&f, DT_OP_pad, 1, &x, &attrs);
  int64_t got = 0;
  assert_true(
      dt__sym_eval(f.env, dt__graph_node(f.graph, padded)->sizes[0], (int64_t[]){5, 7}, &got));
  assert_int_equal(got, 13);
  attrs.ints[0] = 200;
  refuse(&f, DT_OP_pad, 1, &x, &attrs, DT_E_ARGUMENT, EACH_OF("200 does not fit i8"));
  attrs.syms[0] = literal(&f, -1);
  attrs.ints[0] = 0;
  refuse(&f, DT_OP_pad, 1, &x, &attrs, DT_E_SHAPE,
         EACH_OF("pad: the padding before of dim 0 must not be negative"));
  dt_attrs_t axis = {.n_axes = 1, .axes = {0}};
  dt_node_id_t pair[2] = {x, y};
  dt_node_id_t joined = add(&f, DT_OP_concat, 2, pair, &axis);
  assert_true(
      dt__sym_eval(f.env, dt__graph_node(f.graph, joined)->sizes[0], (int64_t[]){5, 7}, &got));
  assert_int_equal(got, 12);
  assert_string_equal(type_of(&f, add(&f, DT_OP_concat, 1, &x, &axis)), "i8[s0, 4]");
  assert_int_equal(f.assumed, 0);
  axis.axes[0] = 1;
  assert_string_equal(type_of(&f, add(&f, DT_OP_concat, 2, pair, &axis)), "i8[s0, 8]");
  assert_int_equal(f.assumed, 1);
  dt_node_id_t odd[2] = {x, fixed(&f, "z", DT_I8, 1, (int64_t[]){4})};
  refuse(&f, DT_OP_concat, 2, odd, &axis, DT_E_SHAPE, EACH_OF("argument 1 has 1; use reshape"));
  dt_node_id_t wide[2] = {x, fixed(&f, "w", DT_I8, 2, (int64_t[]){4, 3})};
  axis.axes[0] = 0;
  refuse(&f, DT_OP_concat, 2, wide, &axis, DT_E_SHAPE,
         EACH_OF("dim 1: expected 4 (of x [s0, 4]), got 3 (of w [4, 3]); only the joined dim"));
  graph_fixture_fini(&f);
}

// Passes copy nodes into new graphs after the environment was frozen: whatever was guarded when a
// node was built must then be known.
static void test_rebuild(void **state) {
  (void)state;
  graph_fixture_t f;
  graph_fixture_init(&f);
  dt_sym_t s0 = size_symbol(&f, 6), s1 = size_symbol(&f, 3), s2 = size_symbol(&f, 1);
  dt_sym_t s3 = size_symbol(&f, 12), n4;
  int64_t hint = 1;
  dt_range_t any = {-100, 100};
  n4 = dt__sym_new(f.env, DT_SYMBOL_INT, any, &hint, "n");
  dt_node_id_t x = input(&f, "x", DT_F32, 2, (dt_sym_t[]){s0, literal(&f, 4)});
  dt_node_id_t y = input(&f, "y", DT_F32, 1, &s2), z = input(&f, "z", DT_F32, 1, &s3);
  dt_attrs_t attrs = SYMS(2, s1, literal(&f, -1));
  (void)add(&f, DT_OP_reshape, 1, &x, &attrs);
  attrs = SYMS(2, literal(&f, 8), literal(&f, -1));
  (void)add(&f, DT_OP_reshape, 1, &x, &attrs);
  attrs = SYMS(2, literal(&f, 2), s3);
  (void)add(&f, DT_OP_reshape, 1, &x, &attrs);
  attrs = SYMS(1, s3);
  (void)add(&f, DT_OP_expand, 1, &y, &attrs);
  attrs = slice(n4, s1, 2);
  (void)add(&f, DT_OP_slice, 1, &z, &attrs);
  attrs = slice(s1, n4, -3);
  (void)add(&f, DT_OP_slice, 1, &z, &attrs);
  attrs = SYMS(2, n4, n4);
  (void)add(&f, DT_OP_pad, 1, &z, &attrs);
  uint32_t count = f.graph->nodes.len, asked = f.assumed;
  assert_true(asked >= 7);
  dt__symenv_freeze(f.env);
  for (uint32_t id = 1; id <= count; id++) {
    const dt_node_t node = f.graph->nodes.items[id - 1];
    dt_node_id_t copy = add(&f, node.op, node.n_inputs, node.inputs, node.attrs);
    const dt_node_t *made = dt__graph_node(f.graph, copy);
    assert_true(dt__attrs_equal(made->attrs, node.attrs));
    for (uint32_t k = 0; k < node.rank; k++)
      assert_true(dt__sym_known_eq(f.env, made->sizes[k], node.sizes[k]));
  }
  assert_int_equal(f.assumed, asked);
  expect_ok(dt__graph_verify(f.graph));
  graph_fixture_fini(&f);
}

RUN_TESTS(TEST(test_reshape), TEST(test_reshape_empty), TEST(test_permute), TEST(test_expand),
          TEST(test_slice), TEST(test_pad_concat), TEST(test_rebuild))
