// SPDX-License-Identifier: Apache-2.0
// dt_constant_update of a model's initializers: all uses see the new data, or it is refused because
// elements of them are numbers in what was traced.
#include "test/unit/frontends/onnx_rig.h"

#include <string.h>

static int setup(void **state) { return fixture_open(state, 2, 31); }

#define INIT2(name, a, b)                                                                          \
  "initializer { name '" name "' data_type 7 dims 2 int64_data [ " a " " b " ] } "

// r: c as sizes; m and g: c, and d, as data; s: one element; p: sizes through a fold.
static const char graph[] = INIT2("c", "2", "2")
    INIT2("d", "3", "5") "initializer { name 's' data_type 1 dims 1 float_data [ 2 ] } " INIT2(
        "p", "4", "1") INPUT("x", "1", SIZE(4)) INPUT("y", "7", OPEN("n") SIZE(2))
        INPUT("i", "7", OPEN("k")) OUTPUT("r") OUTPUT("m") OUTPUT("g") OUTPUT("h") OUTPUT("t")
            OUTPUT("q") "node { op_type 'Reshape' input 'x' input 'c' output 'r' } "
                        "node { op_type 'Mul' input 'y' input 'c' output 'm' } "
                        "node { op_type 'Gather' input 'c' input 'i' output 'g' } "
                        "node { op_type 'Mul' input 'y' input 'd' output 'h' } "
                        "node { op_type 'Mul' input 'x' input 's' output 't' } "
                        "node { op_type 'Neg' input 'p' output 'pn' } "
                        "node { op_type 'Neg' input 'pn' output 'pp' } "
                        "node { op_type 'Reshape' input 'x' input 'pp' output 'q' } ";

static dt_tensor_t *pair(int64_t a, int64_t b) {
  return tensor_i64(1, (int64_t[]){2}, (int64_t[]){a, b});
}

static void call(fixture_t *fixture, dt_function_t *function, dt_tensor_t *out[6]) {
  dt_tensor_t *x = tensor_full(1.5f, 1, (int64_t[]){4});
  dt_tensor_t *y = tensor_i64(2, (int64_t[]){2, 2}, (int64_t[]){1, 2, 3, 4});
  dt_tensor_t *i = tensor_i64(1, (int64_t[]){3}, (int64_t[]){1, 0, 1});
  dt_tensor_t *in[] = {x, y, i};
  memset(out, 0, 6 * sizeof(out[0]));
  expect_ok(dt_call(fixture->session, function, in, 3, out, 6, NULL));
  release_tensors(in, 3);
}

static void drop(dt_tensor_t *out[6]) { release_tensors(out, 6); }

static void expect_i64(const dt_tensor_t *tensor, int64_t n, const int64_t *values) {
  for (int64_t k = 0; k < n; k++)
    assert_int_equal(((const int64_t *)dt_tensor_data((dt_tensor_t *)tensor))[k], values[k]);
}

static void expect_first(dt_tensor_t *out[6], const int64_t h[4]) {
  assert_int_equal(dt_tensor_sizes(out[0])[0], 2);
  assert_int_equal(dt_tensor_sizes(out[0])[1], 2);
  expect_i64(out[1], 4, (int64_t[]){2, 4, 6, 8});
  expect_i64(out[2], 3, (int64_t[]){2, 2, 2});
  expect_i64(out[3], 4, h);
  assert_true(((float *)dt_tensor_data(out[4]))[0] == 3.0f);
  assert_int_equal(dt_tensor_sizes(out[5])[0], 4);
}

static void update_all(fixture_t *fixture, dt_function_t *function) {
  dt_tensor_t *out[6], *next = pair(4, 1), *more = pair(10, 20);
  dt_tensor_t *single = tensor_full(7.0f, 1, (int64_t[]){1});
  static const int64_t before[] = {3, 10, 9, 20}, after[] = {10, 40, 30, 80};
  call(fixture, function, out);
  expect_first(out, before);
  drop(out);
  // All uses, or none.
  expect_told(dt_constant_update(function, "c", next), DT_E_UNSUPPORTED, "'c'");
  expect_told(dt_constant_update(function, "c", next), DT_E_UNSUPPORTED, "with the new data");
  expect_told(dt_constant_update(function, "p", next), DT_E_UNSUPPORTED, "'p'");
  expect_told(dt_constant_update(function, "s", single), DT_E_UNSUPPORTED, "'s'");
  expect_told(dt_constant_update(function, "none", next), DT_E_ARGUMENT, "'none'");
  call(fixture, function, out);
  expect_first(out, before);
  drop(out);
  expect_ok(dt_constant_update(function, "d", more));
  call(fixture, function, out);
  expect_first(out, after);
  drop(out);
  dt_tensor_release(next);
  dt_tensor_release(more);
  dt_tensor_release(single);
}

static void test_update(void **state) {
  rig_model_t model = rig_open(*state, graph);
  update_all(*state, model.compiled);
  update_all(*state, model.evaluated);
  rig_close(&model, 1);
}

RUN_TESTS(TEST_WITH(test_update, setup, fixture_close))
