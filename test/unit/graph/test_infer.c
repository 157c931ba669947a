// SPDX-License-Identifier: Apache-2.0
// Inference of element-wise ops, leaves, reductions, indexing, norms and matmul: results, guards,
// refusals and how these read. Also the checker's refusals. Views have test_views.c.
#include "test/support/graph_fixture.h"

#include <stdio.h>
#include <string.h>

#define IDS(...) ((dt_node_id_t[]){__VA_ARGS__})

static dt_attrs_t with_axes(uint32_t n, int32_t a, int32_t b, uint32_t keepdims) {
  dt_attrs_t attrs = {0};
  attrs.n_axes = n;
  attrs.axes[0] = a;
  attrs.axes[1] = b;
  attrs.keepdims = keepdims;
  return attrs;
}

static void test_same(void **state) {
  (void)state;
  graph_fixture_t f;
  graph_fixture_init(&f);
  dt_sym_t s0 = size_symbol(&f, 7), s1 = size_symbol(&f, 7), four = literal(&f, 4);
  dt_node_id_t x = input(&f, "x", DT_F32, 2, (dt_sym_t[]){s0, four});
  dt_node_id_t y = input(&f, "y", DT_F32, 2, (dt_sym_t[]){s0, literal(&f, 5)});
  refuse(&f, DT_OP_add, 2, IDS(x, y), NULL, DT_E_SHAPE,
         EACH_OF("add: sizes must be equal in dim 1: expected 4 (of x [s0, 4]), got 5 (of y [s0, "
                 "5]); use expand or reshape"));
  assert_int_equal(f.assumed, 0);
  dt_node_id_t z = input(&f, "z", DT_F32, 2, (dt_sym_t[]){s1, four});
  assert_string_equal(type_of(&f, add(&f, DT_OP_add, 2, IDS(x, z), NULL)), "f32[s0, 4]");
  assert_int_equal(f.assumed, 1);
  assert_string_equal(f.last, "s0 == s1");
  (void)add(&f, DT_OP_mul, 2, IDS(z, x), NULL); // asked once
  assert_int_equal(f.assumed, 1);
  dt_node_id_t flat = input(&f, "", DT_F32, 1, &four);
  refuse(&f, DT_OP_add, 2, IDS(x, flat), NULL, DT_E_SHAPE,
         EACH_OF("argument 0 has 2, argument 1 has 1", "inputs x f32[s0, 4], %6 f32[4]"));
  dt_sym_t s2 = size_symbol(&f, 8);
  dt_node_id_t other = input(&f, "w", DT_F32, 2, (dt_sym_t[]){s2, four});
  refuse(&f, DT_OP_add, 2, IDS(x, other), NULL, DT_E_SHAPE,
         EACH_OF("dim 0", "of x", "of w [s2, 4]"));
  expect_ok(dt__graph_verify(f.graph));
  graph_fixture_fini(&f);
}

static void test_dtypes(void **state) {
  (void)state;
  graph_fixture_t f;
  graph_fixture_init(&f);
  int64_t two = 2;
  dt_node_id_t b = fixed(&f, "b", DT_BOOL, 1, &two), i = fixed(&f, "i", DT_I32, 1, &two);
  dt_node_id_t l = fixed(&f, "l", DT_I64, 1, &two), x = fixed(&f, "x", DT_F32, 1, &two);
  dt_node_id_t d = fixed(&f, "d", DT_F64, 1, &two), c = fixed(&f, "c", DT_I8, 1, &two);
  refuse(&f, DT_OP_add, 2, IDS(x, d), NULL, DT_E_DTYPE,
         EACH_OF("add: argument 1 must be f32 like argument 0, got f64; use cast",
                 "inputs x f32[2], d f64[2]"));
  refuse(&f, DT_OP_add, 2, IDS(b, b), NULL, DT_E_DTYPE, EACH_OF("must be a number, got bool"));
  refuse(&f, DT_OP_exp, 1, &i, NULL, DT_E_DTYPE, EACH_OF("must be a float, got i32"));
  refuse(&f, DT_OP_isnan, 1, &i, NULL, DT_E_DTYPE, EACH_OF("got i32"));
  refuse(&f, DT_OP_lt, 2, IDS(b, b), NULL, DT_E_DTYPE, EACH_OF("must be a number"));
  refuse(&f, DT_OP_logical_and, 2, IDS(b, i), NULL, DT_E_DTYPE, EACH_OF("must be bool"));
  refuse(&f, DT_OP_logical_not, 1, &x, NULL, DT_E_DTYPE, EACH_OF("must be bool, got f32"));
  refuse(&f, DT_OP_where, 3, IDS(i, x, x), NULL, DT_E_DTYPE, EACH_OF("argument 0 must be bool"));
  refuse(&f, DT_OP_where, 3, IDS(b, x, d), NULL, DT_E_DTYPE,
         EACH_OF("argument 2 must be f32 like argument 1"));
  dt_attrs_t axis = with_axes(1, 0, 0, 0);
  refuse(&f, DT_OP_gather, 2, IDS(x, c), &axis, DT_E_DTYPE, EACH_OF("must be i32 or i64, got i8"));
  refuse(&f, DT_OP_sum, 1, &b, &axis, DT_E_DTYPE, EACH_OF("must be a number"));
  refuse(&f, DT_OP_any, 1, &x, &axis, DT_E_DTYPE, EACH_OF("must be bool"));
  refuse(&f, DT_OP_mean, 1, &i, &axis, DT_E_DTYPE, EACH_OF("must be a float"));
  refuse(&f, DT_OP_cast, 1, &x, NULL, DT_E_DTYPE, EACH_OF("0 is no dtype"));
  assert_string_equal(type_of(&f, add(&f, DT_OP_eq, 2, IDS(b, b), NULL)), "bool[2]");
  assert_string_equal(type_of(&f, add(&f, DT_OP_isinf, 1, &x, NULL)), "bool[2]");
  assert_string_equal(type_of(&f, add(&f, DT_OP_where, 3, IDS(b, l, l), NULL)), "i64[2]");
  assert_string_equal(type_of(&f, add(&f, DT_OP_argmax, 1, &i, &axis)), "i64[]");
  dt_attrs_t to = {0};
  to.dtype = DT_U8;
  assert_string_equal(type_of(&f, add(&f, DT_OP_cast, 1, &b, &to)), "u8[2]");
  graph_fixture_fini(&f);
}

static void test_arguments(void **state) {
  (void)state;
  graph_fixture_t f;
  graph_fixture_init(&f);
  dt_node_id_t x = fixed(&f, "x", DT_F32, 0, NULL);
  refuse(&f, DT_OP_add, 1, &x, NULL, DT_E_ARGUMENT,
         EACH_OF("add: 2 arguments are needed, 1 given"));
  refuse(&f, DT_OP_add, 2, IDS(x, {5}), NULL, DT_E_ARGUMENT, EACH_OF("argument 1 is no value"));
  refuse(&f, DT_OP_add, 2, IDS(x, {0}), NULL, DT_E_ARGUMENT, EACH_OF("argument 1 is no value"));
  refuse(&f, DT_OP_concat, 0, NULL, NULL, DT_E_ARGUMENT, EACH_OF("at least one"));
  refuse(&f, DT_OP_NONE, 0, NULL, NULL, DT_E_ARGUMENT, EACH_OF("is no op"));
  refuse(&f, DT_OP_COUNT, 0, NULL, NULL, DT_E_ARGUMENT, EACH_OF("is no op"));
  dt_attrs_t many = {0};
  many.n_axes = DT_MAX_RANK + 1;
  refuse(&f, DT_OP_sum, 1, &x, &many, DT_E_ARGUMENT, EACH_OF("9 axes given"));
  many.n_syms = 17;
  refuse(&f, DT_OP_reshape, 1, &x, &many, DT_E_ARGUMENT, EACH_OF("17 sizes given"));
  dt_attrs_t missing = {0};
  missing.n_syms = 1; // of the none expression
  refuse(&f, DT_OP_size, 0, NULL, &missing, DT_E_ARGUMENT, EACH_OF("size 0 is no expression"));
  dt_origin_t origin = {.op = "user add", .file = "model.c", .line = 30};
  dt_node_id_t id;
  int64_t two = 2;
  dt_node_id_t y = fixed(&f, "y", DT_F32, 1, &two);
  dt_status_t status = dt__graph_add(f.graph, DT_OP_add, IDS(x, y), 2, NULL, &origin, &id);
  assert_non_null(strstr(dt_status_message(status), "model.c:30: add: "));
  dt_status_free(status);
  // `out` may be an input.
  expect_ok(dt__graph_add(f.graph, DT_OP_neg, &x, 1, NULL, &origin, &x));
  assert_int_equal(x.id, 3);
  assert_string_equal(dt__graph_node(f.graph, x)->origin.op, "user add");
  assert_int_equal(dt__graph_node(f.graph, x)->inputs[0].id, 1);
  expect_code(dt__graph_add_output(f.graph, (dt_node_id_t){9}), DT_E_ARGUMENT);
  graph_fixture_fini(&f);
}

static void test_leaves(void **state) {
  (void)state;
  graph_fixture_t f;
  graph_fixture_init(&f);
  dt_sym_t s0 = size_symbol(&f, NO_HINT);
  dt_attrs_t attrs = {0};
  attrs.dtype = DT_I8;
  attrs.ints[0] = 128;
  refuse(&f, DT_OP_scalar, 0, NULL, &attrs, DT_E_ARGUMENT, EACH_OF("128 does not fit i8"));
  attrs.ints[0] = -128;
  attrs.index = 77; // unread, so not kept
  dt_node_id_t id = add(&f, DT_OP_scalar, 0, NULL, &attrs);
  assert_int_equal(dt__graph_node(f.graph, id)->attrs->index, 0);
  dt_attrs_t again = {0};
  again.dtype = DT_I8;
  again.ints[0] = -128;
  again.floats[0] = 3.0; // a literal of an integer has none
  assert_true(
      dt__attrs_equal(dt__graph_node(f.graph, id)->attrs,
                      dt__graph_node(f.graph, add(&f, DT_OP_scalar, 0, NULL, &again))->attrs));
  dt_attrs_t iota = with_axes(1, 1, 0, 0);
  iota.dtype = DT_F32;
  iota.n_syms = 2;
  iota.syms[0] = s0;
  iota.syms[1] = literal(&f, 3);
  assert_string_equal(type_of(&f, add(&f, DT_OP_iota, 0, NULL, &iota)), "f32[s0, 3]");
  iota.syms[1] = literal(&f, -3);
  refuse(&f, DT_OP_iota, 0, NULL, &iota, DT_E_SHAPE,
         EACH_OF("the size of dim 1 must not be negative"));
  iota.syms[1] = literal(&f, DT_SIZE_LIMIT);
  refuse(&f, DT_OP_iota, 0, NULL, &iota, DT_E_LIMIT, EACH_OF("size 1 of the result"));
  iota.syms[0] = literal(&f, 1 << 20);
  iota.syms[1] = literal(&f, 1 << 25);
  refuse(&f, DT_OP_iota, 0, NULL, &iota, DT_E_LIMIT, EACH_OF("140737488355328 bytes"));
  iota.syms[0] = literal(&f, 0);
  assert_string_equal(type_of(&f, add(&f, DT_OP_iota, 0, NULL, &iota)), "f32[0, 33554432]");
  iota.axes[0] = 2;
  refuse(&f, DT_OP_iota, 0, NULL, &iota, DT_E_ARGUMENT, EACH_OF("axis 2 is not in [0, 2)"));
  iota.dtype = DT_BOOL;
  refuse(&f, DT_OP_iota, 0, NULL, &iota, DT_E_DTYPE, EACH_OF("not bool"));
  dt_attrs_t size = {0};
  size.n_syms = 1;
  size.syms[0] = s0;
  assert_string_equal(type_of(&f, add(&f, DT_OP_size, 0, NULL, &size)), "i64[]");
  refuse(&f, DT_OP_input, 0, NULL, NULL, DT_E_ARGUMENT, EACH_OF("there is no input 0"));
  refuse(&f, DT_OP_constant, 0, NULL, NULL, DT_E_ARGUMENT, EACH_OF("there is no constant 0"));
  graph_fixture_fini(&f);
}

static void test_declarations(void **state) {
  (void)state;
  graph_fixture_t f;
  graph_fixture_init(&f);
  float data[4] = {0};
  dt_node_id_t id;
  static const struct {
    dt_graph_constant_t constant;
    dt_code_t code;
  } bad[] = {
      {{.name = "k", .dtype = DT_F32, .rank = 1, .sizes = {4}}, DT_E_ARGUMENT},
      {{.dtype = DT_F32, .rank = 1, .sizes = {4}, .key = 1}, DT_E_ARGUMENT},
      {{.dtype = DT_DTYPE_NONE, .key = 1}, DT_E_DTYPE},
      {{.dtype = DT_F32, .rank = 9, .key = 1}, DT_E_LIMIT},
      {{.dtype = DT_F32, .rank = 1, .sizes = {-1}, .key = 1}, DT_E_SHAPE},
      {{.dtype = DT_F32, .rank = 2, .sizes = {INT64_C(1) << 40, INT64_C(1) << 40}, .key = 1},
       DT_E_LIMIT},
      {{.dtype = DT_F32, .rank = 2, .sizes = {0, INT64_C(1) << 46}, .key = 1}, DT_E_LIMIT},
  };
  for (size_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
    dt_status_t status = dt__graph_add_constant(f.graph, &bad[k].constant, NULL, &id);
    if (dt_status_code(status) != bad[k].code)
      print_error("case %zu: %s\n", k, dt_status_message(status));
    assert_int_equal(dt_status_code(status), bad[k].code);
    dt_status_free(status);
    assert_int_equal(f.graph->constants.len, 0);
  }
  dt_graph_constant_t good = {
      .name = NULL, .dtype = DT_F32, .rank = 1, .sizes = {4}, .data = data, .key = 3};
  expect_ok(dt__graph_add_constant(f.graph, &good, NULL, &id));
  assert_string_equal(type_of(&f, id), "f32[4]");
  assert_string_equal(f.graph->constants.items[0].name, "");
  dt_graph_input_t none = {.name = "x", .dtype = DT_F32, .rank = 1};
  expect_code(dt__graph_add_input(f.graph, &none, &id), DT_E_ARGUMENT);
  assert_int_equal(f.graph->inputs.len, 0);
  graph_fixture_fini(&f);
}

static void test_reductions(void **state) {
  (void)state;
  graph_fixture_t f;
  graph_fixture_init(&f);
  dt_sym_t sizes[3] = {size_symbol(&f, NO_HINT), literal(&f, 4), literal(&f, 0)};
  dt_node_id_t x = input(&f, "x", DT_F32, 3, sizes);
  dt_attrs_t attrs = with_axes(2, 0, 2, 0);
  assert_string_equal(type_of(&f, add(&f, DT_OP_sum, 1, &x, &attrs)), "f32[4]");
  attrs.keepdims = 9;
  dt_node_id_t kept = add(&f, DT_OP_amax, 1, &x, &attrs);
  assert_string_equal(type_of(&f, kept), "f32[1, 4, 1]");
  assert_int_equal(dt__graph_node(f.graph, kept)->attrs->keepdims, 1);
  attrs = with_axes(0, 0, 0, 0);
  assert_string_equal(type_of(&f, add(&f, DT_OP_var, 1, &x, &attrs)), "f32[s0, 4, 0]");
  attrs = with_axes(2, 2, 0, 0);
  refuse(&f, DT_OP_sum, 1, &x, &attrs, DT_E_ARGUMENT, EACH_OF("axes must ascend: 0 follows 2"));
  attrs = with_axes(2, 1, 1, 0);
  refuse(&f, DT_OP_sum, 1, &x, &attrs, DT_E_ARGUMENT, EACH_OF("1 follows 1"));
  attrs = with_axes(1, -1, 0, 0);
  refuse(&f, DT_OP_sum, 1, &x, &attrs, DT_E_ARGUMENT, EACH_OF("axis -1 is not in [0, 3)"));
  attrs = with_axes(2, 0, 1, 0);
  refuse(&f, DT_OP_argmax, 1, &x, &attrs, DT_E_ARGUMENT, EACH_OF("exactly one axis", "2 given"));
  attrs = with_axes(1, 2, 0, 1);
  assert_string_equal(type_of(&f, add(&f, DT_OP_argmin, 1, &x, &attrs)), "i64[s0, 4, 1]");
  assert_string_equal(type_of(&f, add(&f, DT_OP_softmax, 1, &x, &attrs)), "f32[s0, 4, 0]");
  attrs = with_axes(0, 0, 0, 0);
  refuse(&f, DT_OP_softmax, 1, &x, &attrs, DT_E_ARGUMENT, EACH_OF("exactly one axis"));
  assert_int_equal(f.assumed, 0);
  graph_fixture_fini(&f);
}

static void test_norms(void **state) {
  (void)state;
  graph_fixture_t f;
  graph_fixture_init(&f);
  dt_sym_t sizes[3] = {size_symbol(&f, 2), size_symbol(&f, 3), literal(&f, 4)};
  dt_node_id_t x = input(&f, "x", DT_F32, 3, sizes);
  dt_node_id_t scale = input(&f, "scale", DT_F32, 1, sizes + 2);
  dt_node_id_t wide = input(&f, "wide", DT_F32, 2, sizes + 1);
  dt_node_id_t five = fixed(&f, "five", DT_F32, 1, (int64_t[]){5});
  dt_attrs_t attrs = {0};
  attrs.n_axes = 1;
  attrs.floats[0] = 1e-5;
  dt_node_id_t y = add(&f, DT_OP_layer_norm, 3, IDS(x, scale, scale), &attrs);
  assert_string_equal(type_of(&f, y), "f32[s0, s1, 4]");
  assert_true(dt__graph_node(f.graph, y)->attrs->floats[0] == (double)1e-5f);
  refuse(&f, DT_OP_layer_norm, 3, IDS(x, scale, five), &attrs, DT_E_SHAPE,
         EACH_OF("sizes must be equal in dims 2 and 0: expected 4 (of x", "got 5 (of five [5])"));
  refuse(&f, DT_OP_rms_norm, 2, IDS(x, wide), &attrs, DT_E_SHAPE,
         EACH_OF("argument 1 must have rank 1, the normalised dims, got 2"));
  attrs.n_axes = 2;
  (void)add(&f, DT_OP_rms_norm, 2, IDS(x, wide), &attrs);
  attrs.n_axes = 0;
  refuse(&f, DT_OP_rms_norm, 2, IDS(x, wide), &attrs, DT_E_ARGUMENT, EACH_OF("1 to 3 dims"));
  attrs.n_axes = 4;
  refuse(&f, DT_OP_rms_norm, 2, IDS(x, wide), &attrs, DT_E_ARGUMENT, EACH_OF("4 given"));
  assert_int_equal(f.assumed, 0);
  graph_fixture_fini(&f);
}

static void test_matmul(void **state) {
  (void)state;
  graph_fixture_t f;
  graph_fixture_init(&f);
  dt_sym_t b = size_symbol(&f, 2), m = size_symbol(&f, 3), k = literal(&f, 4);
  dt_sym_t n = size_symbol(&f, 5), j = size_symbol(&f, 4);
  dt_node_id_t x = input(&f, "x", DT_F32, 3, (dt_sym_t[]){b, m, k});
  dt_node_id_t w = input(&f, "w", DT_F32, 2, (dt_sym_t[]){k, n});
  dt_node_id_t batch = input(&f, "batch", DT_F32, 3, (dt_sym_t[]){b, j, n});
  assert_string_equal(type_of(&f, add(&f, DT_OP_matmul, 2, IDS(x, w), NULL)), "f32[s0, s1, s2]");
  assert_int_equal(f.assumed, 0);
  assert_string_equal(type_of(&f, add(&f, DT_OP_matmul, 2, IDS(x, batch), NULL)),
                      "f32[s0, s1, s2]");
  assert_int_equal(f.assumed, 1);
  assert_string_equal(f.last, "s3 == 4");
  dt_node_id_t bad = fixed(&f, "bad", DT_F32, 2, (int64_t[]){5, 6});
  refuse(
      &f, DT_OP_matmul, 2, IDS(x, bad), NULL, DT_E_SHAPE,
      EACH_OF("matmul: sizes must be equal in dims 2 and 0: expected 4 (of x [s0, s1, 4]), got 5 "
              "(of bad [5, 6])"));
  dt_node_id_t vector = fixed(&f, "v", DT_F32, 1, (int64_t[]){4});
  refuse(&f, DT_OP_matmul, 2, IDS(x, vector), NULL, DT_E_SHAPE, EACH_OF("rank 2 or more"));
  refuse(&f, DT_OP_matmul, 2, IDS(w, x), NULL, DT_E_SHAPE,
         EACH_OF("must have rank 2 or the first's"));
  graph_fixture_fini(&f);
}

static void test_gather(void **state) {
  (void)state;
  graph_fixture_t f;
  graph_fixture_init(&f);
  dt_sym_t sizes[3] = {size_symbol(&f, NO_HINT), literal(&f, 4), literal(&f, 5)};
  dt_node_id_t x = input(&f, "x", DT_F32, 3, sizes);
  dt_sym_t places[2] = {size_symbol(&f, NO_HINT), literal(&f, 2)};
  dt_node_id_t i = input(&f, "i", DT_I64, 2, places);
  dt_node_id_t one = input(&f, "one", DT_I32, 0, NULL);
  dt_attrs_t attrs = with_axes(1, 1, 0, 0);
  assert_string_equal(type_of(&f, add(&f, DT_OP_gather, 2, IDS(x, i), &attrs)),
                      "f32[s0, s1, 2, 5]");
  assert_string_equal(type_of(&f, add(&f, DT_OP_gather, 2, IDS(x, one), &attrs)), "f32[s0, 5]");
  attrs.axes[0] = 3;
  refuse(&f, DT_OP_gather, 2, IDS(x, i), &attrs, DT_E_ARGUMENT, EACH_OF("axis 3 is not in [0, 3)"));
  int64_t ones[DT_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
  dt_node_id_t deep = fixed(&f, "deep", DT_I64, 7, ones);
  attrs.axes[0] = 0;
  refuse(&f, DT_OP_gather, 2, IDS(x, deep), &attrs, DT_E_LIMIT, EACH_OF("9 dims"));
  graph_fixture_fini(&f);
}

// Builds a sum, breaks one thing at a time, and puts it back.
static void test_verify(void **state) {
  (void)state;
  graph_fixture_t f;
  graph_fixture_init(&f);
  dt_sym_t sizes[2] = {size_symbol(&f, 3), literal(&f, 4)};
  dt_node_id_t x = input(&f, "x", DT_F32, 2, sizes);
  dt_attrs_t attrs = with_axes(1, 1, 0, 0);
  dt_node_id_t sum = add(&f, DT_OP_sum, 1, &x, &attrs);
  expect_ok(dt__graph_add_output(f.graph, sum));
  expect_ok(dt__graph_verify(f.graph));
  dt_node_t *node = &f.graph->nodes.items[sum.id - 1];
  dt_node_t good = *node;
  dt_attrs_t strange = *good.attrs;
  dt_node_id_t itself = sum;
  for (uint32_t k = 0; k < 8; k++) {
    *node = good;
    strange = *good.attrs;
    if (k == 0)
      node->dtype = DT_F64;
    else if (k == 1)
      node->rank = 2;
    else if (k == 2)
      node->sizes[0] = literal(&f, -1);
    else if (k == 3)
      node->inputs = &itself;
    else if (k == 4)
      node->n_inputs = 0;
    else if (k == 5)
      node->op = DT_OP_COUNT;
    else if (k == 6)
      strange.index = 3;
    else
      strange.axes[0] = 7;
    if (k >= 6)
      node->attrs = &strange;
    char what[16];
    (void)snprintf(what, sizeof(what), "case %u", k);
    expect_told_of(what, dt__graph_verify(f.graph), DT_E_FORMAT, "node %2");
  }
  *node = good;
  f.graph->outputs.items[0].id = 3;
  expect_code(dt__graph_verify(f.graph), DT_E_FORMAT);
  assert_int_equal(f.assumed, 0);
  graph_fixture_fini(&f);
}

RUN_TESTS(TEST(test_same), TEST(test_dtypes), TEST(test_arguments), TEST(test_leaves),
          TEST(test_declarations), TEST(test_reductions), TEST(test_norms), TEST(test_matmul),
          TEST(test_gather), TEST(test_verify))
