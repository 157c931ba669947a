// SPDX-License-Identifier: Apache-2.0
// Behaviours of kernels over dynamic shapes, by number: right answers by compiled code where data
// decides sizes, bounds, branches and lengths of results, and how often is compiled.
#include "test/unit/pytorch/calls_test.h"

#include "lower/passes/passes.h"
#include "runtime/trace/trace.h"

#include <math.h>

static dt_sym_t absolute(dt_trace_t *t, dt_sym_t a) {
  return dt_sym_max(t, a, dt_sym_sub(t, number(t, 0), a));
}

// ---- Uniform values, slices and pads --------------------------------------------------------------
static v_t make_plus_nothing(dt_trace_t *t, const v_t *in) {
  dt_sym_t n = dt_dim(t, in[0], 0);
  v_t none = dt_sub(t, dt_full(t, DT_I64, 1, 1, &n), dt_scalar(t, DT_I64, 1));
  return dt_add(t, in[0], none);
}

// The graph that is lowered: nothing but the argument. What is left to run is the copy that makes a
// result of it. (Of floats x + 0 is not x where x is -0, so it is one kernel that reads x alone.)
static void behaviour_68_a_uniform_zero_adds_no_kernel(void **state) {
  (void)state;
  dt_input_decl_t inputs[1];
  make_t make = make_plus_nothing;
  dt_trace_request_t request = {.name = "f",
                                .program = program,
                                .closure = &make,
                                .n_inputs = declare("j", inputs),
                                .n_outputs = 1,
                                .inputs = inputs};
  dt_traced_t *traced = NULL;
  const dt_graph_t *graph = NULL;
  expect_ok(dt__trace_run(&request, &traced));
  expect_ok(dt__pass_fold(&traced->arena, traced->graph, &graph));
  expect_ok(dt__pass_dce(&traced->arena, graph, &graph));
  assert_int_equal(graph->nodes.len, 1);
  assert_int_equal(graph->nodes.items[0].op, DT_OP_input);
  dt__traced_destroy(traced);
  rig_t rig;
  begin(&rig, make, "j");
  EXPECT(&rig, TENSORS(I64(1, N(3), 1, 2, 3)), 1, N(3), D(1, 2, 3));
  EXPECT(&rig, TENSORS(I64(1, N(2), 7, -8)), 1, N(2), D(7, -8));
  expect_compiles(&rig, 1);
  if (compiled_answer() == DT_ANSWER_COMPILED)
    assert_int_equal(rig_stats(&rig).kernels, 1);
  rig_fini(&rig);
}

static v_t make_filled(dt_trace_t *t, const v_t *in) {
  dt_sym_t n = dt_item(t, in[0]), sizes[2] = {n, n};
  return dt_full(t, DT_F32, 7, 2, sizes);
}

static void behaviour_69_a_filled_square_of_a_number(void **state) {
  (void)state;
  rig_t rig;
  double want[16];
  for (int k = 0; k < 16; k++)
    want[k] = 7;
  begin(&rig, make_filled, "i");
  EXPECT(&rig, TENSORS(INT(3)), 2, N(3, 3), want);
  EXPECT(&rig, TENSORS(INT(4)), 2, N(4, 4), want);
  EXPECT(&rig, TENSORS(INT(0)), 2, N(0, 0), want);
  REFUSED(&rig, TENSORS(INT(-1)), DT_E_SHAPE, "full");
  REFUSED(&rig, TENSORS(INT(INT64_C(1) << 50)), DT_E_SHAPE, "full");
  REFUSED(&rig, TENSORS(INT(INT64_C(1) << 46)), DT_E_LIMIT, "");
  expect_compiles(&rig, 1);
  rig_fini(&rig);
}

static v_t make_slice_by_sizes(dt_trace_t *t, const v_t *in) {
  dt_sym_t way = dt_sym_sub(t, dt_dim(t, in[1], 0), dt_dim(t, in[2], 0)), zero = number(t, 0);
  v_t parts[2] = {dt_slice_range(t, in[0], 0, zero, way, 1),
                  dt_slice_range(t, in[0], 0, zero, absolute(t, way), 1)};
  return dt_concat(t, 2, parts, 0);
}

static v_t make_slice_by_items(dt_trace_t *t, const v_t *in) {
  dt_sym_t way = dt_sym_sub(t, dt_item(t, in[1]), dt_item(t, in[2])), zero = number(t, 0);
  v_t parts[2] = {dt_slice_range(t, in[0], 0, zero, way, 1),
                  dt_slice_range(t, in[0], 0, zero, absolute(t, way), 1)};
  return dt_concat(t, 2, parts, 0);
}

static void behaviour_70_slices_by_differences_of_both_signs(void **state) {
  (void)state;
  rig_t rig;
  begin(&rig, make_slice_by_sizes, "xxx");
  EXPECT(&rig, TENSORS(FIVE, F32(1, N(3), 0, 0, 0), F32(1, N(1), 0)), 1, N(4), D(1, 2, 1, 2));
  EXPECT(&rig, TENSORS(FIVE, F32(1, N(1), 0), F32(1, N(3), 0, 0, 0)), 1, N(5), D(1, 2, 3, 1, 2));
  EXPECT(&rig, TENSORS(FIVE, F32(1, N(1), 0), F32(1, N(1), 0)), 1, N(0), D(0));
  expect_compiles(&rig, 1);
  rig_fini(&rig);
  begin(&rig, make_slice_by_items, "xii");
  EXPECT(&rig, TENSORS(FIVE, INT(3), INT(1)), 1, N(4), D(1, 2, 1, 2));
  EXPECT(&rig, TENSORS(FIVE, INT(1), INT(3)), 1, N(5), D(1, 2, 3, 1, 2));
  EXPECT(&rig, TENSORS(FIVE, INT(9), INT(0)), 1, N(10), D(1, 2, 3, 4, 5, 1, 2, 3, 4, 5));
  EXPECT(&rig, TENSORS(FIVE, INT(0), INT(9)), 1, N(5), D(1, 2, 3, 4, 5));
  expect_compiles(&rig, 1);
  rig_fini(&rig);
}

// y over the middle of x: from half of its size on.
static v_t make_slice_scatter(dt_trace_t *t, const v_t *in) {
  dt_sym_t half = dt_sym_floordiv(t, dt_dim(t, in[0], 0), number(t, 2)), zero = number(t, 0);
  v_t parts[2] = {dt_slice_range(t, in[0], 0, zero, half, 1),
                  dt_slice_range(t, in[1], 0, half, number(t, INT64_MAX), 1)};
  return dt_concat(t, 2, parts, 0);
}

static v_t make_pad_to_blocks(dt_trace_t *t, const v_t *in) {
  dt_sym_t n = dt_dim(t, in[0], 0), block = dt_dim(t, in[1], 0), one = number(t, 1);
  dt_sym_t up = dt_sym_floordiv(t, dt_sym_add(t, n, dt_sym_sub(t, block, one)), block);
  dt_sym_t high = dt_sym_sub(t, dt_sym_mul(t, up, block), n), low = number(t, 0);
  return dt_pad(t, in[0], &low, &high, -1);
}

static void behaviour_71_halves_and_rounded_up_pads_are_exact(void **state) {
  (void)state;
  rig_t rig;
  begin(&rig, make_slice_scatter, "xx");
  EXPECT(&rig, TENSORS(F32(1, N(4), 1, 2, 3, 4), F32(1, N(4), 5, 6, 7, 8)), 1, N(4), D(1, 2, 7, 8));
  EXPECT(&rig, TENSORS(F32(1, N(3), 1, 2, 3), F32(1, N(3), 5, 6, 7)), 1, N(3), D(1, 6, 7));
  expect_compiles(&rig, 1);
  rig_fini(&rig);
  begin(&rig, make_pad_to_blocks, "xx");
  EXPECT(&rig, TENSORS(F32(1, N(3), 1, 2, 3), F32(1, N(2), 0, 0)), 1, N(4), D(1, 2, 3, -1));
  EXPECT(&rig, TENSORS(F32(1, N(3), 1, 2, 3), F32(1, N(3), 0, 0, 0)), 1, N(3), D(1, 2, 3));
  EXPECT(&rig, TENSORS(F32(1, N(1), 1), F32(1, N(4), 0, 0, 0, 0)), 1, N(4), D(1, -1, -1, -1));
  expect_compiles(&rig, 1);
  rig_fini(&rig);
}

// ---- Branches -------------------------------------------------------------------------------------
static dt_status_t sine(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  (void)closure;
  out[0] = dt_sin(t, in[0]);
  return NULL;
}
static dt_status_t cosine(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  (void)closure;
  out[0] = dt_cos(t, in[0]);
  return NULL;
}
static v_t make_constant_branch(dt_trace_t *t, const v_t *in) {
  v_t out;
  dt_cond(t, dt_scalar(t, DT_BOOL, 1), sine, cosine, NULL, 1, in, 1, &out);
  return out;
}

static void behaviour_88_a_constant_condition_keeps_one_branch(void **state) {
  (void)state;
  rig_t rig;
  begin(&rig, make_constant_branch, "x");
  EXPECT(&rig, TENSORS(F32(1, N(2), 0, 1)), 1, N(2), D(0, sin(1)));
  EXPECT(&rig, TENSORS(F32(1, N(1), 2)), 1, N(1), D(sin(2)));
  expect_compiles(&rig, 1);
  rig_fini(&rig);
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1};
  make_t make = make_constant_branch;
  dt_trace_request_t request = {
      .program = program, .closure = &make, .n_inputs = 1, .n_outputs = 1, .inputs = &input};
  dt_traced_t *traced = NULL;
  expect_ok(dt__trace_run(&request, &traced));
  uint32_t sines = 0, others = 0;
  for (uint32_t k = 0; k < traced->graph->nodes.len; k++) {
    sines += traced->graph->nodes.items[k].op == DT_OP_sin;
    others += traced->graph->nodes.items[k].op == DT_OP_cos ||
              traced->graph->nodes.items[k].op == DT_OP_cond;
  }
  assert_int_equal(sines, 1);
  assert_int_equal(others, 0);
  dt__traced_destroy(traced);
}

// ---- Selections, items and lists -----------------------------------------------------------------
static v_t make_nonzero(dt_trace_t *t, const v_t *in) { return dt_nonzero(t, in[0]); }

static v_t make_masked(dt_trace_t *t, const v_t *in) {
  return dt_masked_select(t, in[0], dt_lt(t, dt_scalar(t, DT_F32, 0), in[0]));
}

static v_t make_item_sized(dt_trace_t *t, const v_t *in) {
  dt_sym_t n = dt_item(t, dt_cast(t, dt_amax(t, in[0], 0, NULL, false), DT_I64));
  return dt_add(t, dt_full(t, DT_F32, 0, 1, &n), dt_iota(t, DT_F32, 1, &n, 0));
}

static v_t make_select_of_ones(dt_trace_t *t, const v_t *in) {
  dt_sym_t u = dt_item(t, in[0]);
  v_t ones = dt_full(t, DT_F32, 1, 1, &u);
  return dt_gather(t, ones, in[1], 0);
}

// [1, u] x [u, 1]
static v_t make_inner_product(dt_trace_t *t, const v_t *in) {
  v_t picked = dt_masked_select(t, in[0], dt_lt(t, dt_scalar(t, DT_F32, 0), in[0]));
  dt_sym_t u = dt_dim(t, picked, 0), one = number(t, 1);
  v_t row = dt_reshape(t, picked, 2, (dt_sym_t[]){one, u});
  return dt_matmul(t, row, dt_reshape(t, picked, 2, (dt_sym_t[]){u, one}));
}

static void behaviour_72_selections_and_item_sizes(void **state) {
  (void)state;
  rig_t rig;
  begin(&rig, make_nonzero, "m");
  EXPECT(&rig, TENSORS(F32(2, N(2, 3), 0, 5, 0, -1, 0, NAN)), 2, N(3, 2), D(0, 1, 1, 0, 1, 2));
  EXPECT(&rig, TENSORS(zeros(4, 4)), 2, N(0, 2), D(0));
  EXPECT(&rig, TENSORS(zeros(0, 4)), 2, N(0, 2), D(0));
  expect_compiles(&rig, 1);
  rig_fini(&rig);
  begin(&rig, make_masked, "x");
  EXPECT(&rig, TENSORS(F32(1, N(5), 1, -2, 3, 0, 5)), 1, N(3), D(1, 3, 5));
  EXPECT(&rig, TENSORS(F32(1, N(1), -2)), 1, N(0), D(0));
  expect_compiles(&rig, 1);
  rig_fini(&rig);
  begin(&rig, make_item_sized, "x");
  EXPECT(&rig, TENSORS(F32(1, N(2), 1, 4)), 1, N(4), D(0, 1, 2, 3));
  EXPECT(&rig, TENSORS(F32(1, N(1), 0)), 1, N(0), D(0));
  expect_compiles(&rig, 1);
  rig_fini(&rig);
  begin(&rig, make_select_of_ones, "ij");
  EXPECT(&rig, TENSORS(INT(4), I64(1, N(3), 0, 3, -4)), 1, N(3), D(1, 1, 1));
  REFUSED(&rig, TENSORS(INT(3), I64(1, N(3), 0, 3, -1)), DT_E_RANGE, "gather");
  expect_compiles(&rig, 1);
  rig_fini(&rig);
  begin(&rig, make_inner_product, "x");
  EXPECT(&rig, TENSORS(F32(1, N(4), 1, -2, 3, 4)), 2, N(1, 1), D(26));
  EXPECT(&rig, TENSORS(F32(1, N(2), -1, -2)), 2, N(1, 1), D(0));
  expect_compiles(&rig, 1);
  rig_fini(&rig);
}

static v_t make_cat(dt_trace_t *t, const v_t *in) {
  dt_sym_t a = dt_item(t, in[0]), b = dt_item(t, in[1]);
  v_t parts[3] = {dt_iota(t, DT_F32, 1, &a, 0), dt_full(t, DT_F32, 5, 1, &a),
                  dt_full(t, DT_F32, 9, 1, &b)};
  return dt_concat(t, 3, parts, 0);
}

static v_t make_split(dt_trace_t *t, const v_t *in) {
  dt_sym_t sizes[2] = {dt_item(t, in[0]), dt_item(t, in[1])};
  v_t parts[2];
  dt_split(t, in[2], 0, 2, sizes, parts);
  return dt_concat(t, 2, (v_t[]){dt_neg(t, parts[1]), parts[0]}, 0);
}

static void behaviour_73_concat_and_split_by_data(void **state) {
  (void)state;
  rig_t rig;
  begin(&rig, make_cat, "ii");
  EXPECT(&rig, TENSORS(INT(2), INT(1)), 1, N(5), D(0, 1, 5, 5, 9));
  EXPECT(&rig, TENSORS(INT(0), INT(3)), 1, N(3), D(9, 9, 9));
  expect_compiles(&rig, 1);
  rig_fini(&rig);
  begin(&rig, make_split, "iix");
  EXPECT(&rig, TENSORS(INT(2), INT(3), FIVE), 1, N(5), D(-3, -4, -5, 1, 2));
  EXPECT(&rig, TENSORS(INT(5), INT(0), FIVE), 1, N(5), D(1, 2, 3, 4, 5));
  REFUSED(&rig, TENSORS(INT(2), INT(2), FIVE), DT_E_SHAPE, "split");
  REFUSED(&rig, TENSORS(INT(-1), INT(6), FIVE), DT_E_SHAPE, "split");
  expect_compiles(&rig, 1);
  rig_fini(&rig);
}

static v_t make_item_twice(dt_trace_t *t, const v_t *in) {
  dt_sym_t a = dt_item(t, in[0]), b = dt_item(t, in[0]);
  dt_check(t, dt_sym_eq(t, a, b), "one number");
  dt_sym_t twice = dt_sym_add(t, a, b);
  return dt_iota(t, DT_I64, 1, &twice, 0);
}

static v_t make_infinite(dt_trace_t *t, const v_t *in) {
  v_t high = dt_eq(t, in[0], dt_scalar(t, DT_F32, INFINITY));
  v_t low = dt_eq(t, in[0], dt_scalar(t, DT_F32, -INFINITY));
  dt_sym_t n = dt_sym_add(t, dt_item(t, high), dt_sym_mul(t, number(t, 2), dt_item(t, low)));
  return dt_size_value(t, n);
}

static void behaviour_74_an_item_read_twice_and_infinities(void **state) {
  (void)state;
  rig_t rig;
  begin(&rig, make_item_twice, "i");
  EXPECT(&rig, TENSORS(INT(2)), 1, N(4), D(0, 1, 2, 3));
  EXPECT(&rig, TENSORS(INT(1)), 1, N(2), D(0, 1));
  rig_fini(&rig);
  begin(&rig, make_infinite, "f");
  EXPECT(&rig, TENSORS(F32(0, NULL, INFINITY)), 0, NULL, D(1));
  EXPECT(&rig, TENSORS(F32(0, NULL, -INFINITY)), 0, NULL, D(2));
  EXPECT(&rig, TENSORS(F32(0, NULL, 1e38f)), 0, NULL, D(0));
  expect_compiles(&rig, 1);
  rig_fini(&rig);
}

enum { LIST = 320 };
static v_t make_list_sum(dt_trace_t *t, const v_t *in) {
  dt_sym_t total = number(t, 0), one = number(t, 1);
  for (int64_t k = 0; k < LIST; k++)
    total = dt_sym_add(t, total, dt_item(t, dt_slice(t, in[0], 0, number(t, k), one, 1)));
  return dt_iota(t, DT_I64, 1, &total, 0);
}

static void behaviour_75_a_list_of_320_numbers_sums_to_a_size(void **state) {
  (void)state;
  rig_t rig;
  int64_t values[LIST];
  double want[2 * LIST];
  for (int k = 0; k < LIST; k++)
    values[k] = k % 3;
  for (int k = 0; k < 2 * LIST; k++)
    want[k] = k;
  begin(&rig, make_list_sum, "j");
  EXPECT(&rig, TENSORS(tensor_from(DT_I64, 1, N(LIST), values)), 1, N(319), want);
  values[0] = 2;
  EXPECT(&rig, TENSORS(tensor_from(DT_I64, 1, N(LIST), values)), 1, N(321), want);
  values[0] = -1000;
  REFUSED(&rig, TENSORS(tensor_from(DT_I64, 1, N(LIST), values)), DT_E_SHAPE, "iota");
  expect_compiles(&rig, 1);
  double seconds = (double)rig_stats(&rig).compile_ns / 1e9;
  print_message("compiled in %.2f s\n", seconds);
  assert_true(seconds < 30);
  rig_fini(&rig);
}

// ---- Numbers as arguments -------------------------------------------------------------------------
// sqrt … atan of a number, as a value and as a size.
static v_t make_functions(dt_trace_t *t, const v_t *in) {
  v_t x = dt_cast(t, dt_size_value(t, dt_item(t, in[0])), DT_F64), small = x, values[9];
  small = dt_mul(t, x, dt_scalar(t, DT_F64, 0.015625));
  values[0] = dt_sqrt(t, x);
  values[1] = dt_cos(t, x);
  values[2] = dt_cosh(t, small);
  values[3] = dt_sin(t, x);
  values[4] = dt_sinh(t, small);
  values[5] = dt_tan(t, x);
  values[6] = dt_tanh(t, small);
  values[7] = dt_asin(t, small);
  values[8] = dt_atan(t, x);
  for (int k = 0; k < 9; k++)
    values[k] = dt_unsqueeze(t, values[k], 0);
  return dt_concat(t, 9, values, 0);
}

static void behaviour_78_math_functions_of_a_number(void **state) {
  (void)state;
  rig_t rig;
  begin(&rig, make_functions, "i");
  for (int n = 0; n < 60; n += 7) {
    double x = n, y = x / 64;
    EXPECT(&rig, TENSORS(INT(n)), 1, N(9),
           D(sqrt(x), cos(x), cosh(y), sin(x), sinh(y), tan(x), tanh(y), asin(y), atan(x)));
  }
  expect_compiles(&rig, 1);
  rig_fini(&rig);
}

static v_t make_float_argument(dt_trace_t *t, const v_t *in) {
  v_t x = dt_sub(t, dt_add(t, in[0], in[1]), dt_scalar(t, DT_F32, 1));
  return dt_div(t, dt_mul(t, x, in[1]), dt_add(t, in[1], dt_scalar(t, DT_F32, 3)));
}

static void behaviour_79_a_float_argument_compiles_once(void **state) {
  (void)state;
  rig_t rig;
  begin(&rig, make_float_argument, "xf");
  for (int k = 0; k < 20; k++) {
    float f = (float)k * 0.25f;
    double want[2];
    for (int e = 0; e < 2; e++)
      want[e] = ((double)(e + 1) + (double)f - 1) * (double)f / ((double)f + 3);
    EXPECT(&rig, TENSORS(F32(1, N(2), 1, 2), F32(0, NULL, f)), 1, N(2), want);
  }
  expect_compiles(&rig, 1);
  rig_fini(&rig);
}

// ---- Pads by data ---------------------------------------------------------------------------------
static v_t make_pad_by_data(dt_trace_t *t, const v_t *in) {
  dt_sym_t low = dt_item(t, in[0]), high = dt_item(t, in[1]);
  return dt_pad(t, in[2], &low, &high, 0);
}

static void behaviour_87_pads_by_data_of_either_sign(void **state) {
  (void)state;
  rig_t rig;
  begin(&rig, make_pad_by_data, "iix");
  EXPECT(&rig, TENSORS(INT(1), INT(2), F32(1, N(2), 5, 6)), 1, N(5), D(0, 5, 6, 0, 0));
  EXPECT(&rig, TENSORS(INT(-1), INT(0), FIVE), 1, N(4), D(2, 3, 4, 5));
  EXPECT(&rig, TENSORS(INT(-2), INT(-2), FIVE), 1, N(1), D(3));
  EXPECT(&rig, TENSORS(INT(1), INT(-5), FIVE), 1, N(1), D(0));
  REFUSED(&rig, TENSORS(INT(-3), INT(-3), FIVE), DT_E_SHAPE, "pad");
  expect_compiles(&rig, 1);
  rig_fini(&rig);
}

RUN_TESTS_WITH(calls_open, calls_close, TEST(behaviour_68_a_uniform_zero_adds_no_kernel),
               TEST(behaviour_69_a_filled_square_of_a_number),
               TEST(behaviour_70_slices_by_differences_of_both_signs),
               TEST(behaviour_71_halves_and_rounded_up_pads_are_exact),
               TEST(behaviour_72_selections_and_item_sizes),
               TEST(behaviour_73_concat_and_split_by_data),
               TEST(behaviour_74_an_item_read_twice_and_infinities),
               TEST(behaviour_75_a_list_of_320_numbers_sums_to_a_size),
               TEST(behaviour_78_math_functions_of_a_number),
               TEST(behaviour_79_a_float_argument_compiles_once),
               TEST(behaviour_87_pads_by_data_of_either_sign),
               TEST(behaviour_88_a_constant_condition_keeps_one_branch))
