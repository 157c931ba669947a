// SPDX-License-Identifier: Apache-2.0
// Behaviours of unbacked symbols, by number: sizes that data gives are asked about without a guard,
// stated by checks, which refuse the calls that break them, pinned, and divided back; and nothing
// outside of a tensor is touched whatever the numbers are.
#include "test/unit/pytorch/calls_test.h"

#include "runtime/trace/trace.h"
#include "test/support/report_as_text.h"

#include <string.h>

// The question that goes on without an answer: it never guards, and takes what it is told to.
static void behaviour_61_guard_or_false_takes_the_false_branch(void **state) {
  (void)state;
  dt_symenv_t *env = NULL;
  expect_ok(dt__symenv_create(&env));
  dt_sym_t u = dt__sym_new(env, DT_SYMBOL_UNBACKED, (dt_range_t){0, 9}, NULL, "item");
  const dt_origin_t origin = {"item", __FILE__, __LINE__};
  bool answer = true;
  expect_ok(
      dt__sym_decide(env, dt__sym_eq(env, u, dt__sym_const(env, 1)), false, &origin, &answer));
  assert_false(answer);
  assert_int_equal(dt__sym_known(env, dt__sym_eq(env, u, dt__sym_const(env, 1))), DT_UNKNOWN);
  expect_ok(dt__sym_decide(env, dt__sym_eq(env, u, u), false, &origin, &answer));
  assert_true(answer);
  dt__symenv_destroy(env);
}

static v_t make_sum_check(dt_trace_t *t, const v_t *in) {
  dt_sym_t u = dt_item(t, in[0]), a = dt_dim(t, in[1], 0), b = dt_dim(t, in[1], 1);
  dt_check(t, dt_sym_eq(t, dt_sym_add(t, u, dt_sym_add(t, a, b)), number(t, 102)), "sum is 102");
  return dt_add(t, in[1], dt_cast(t, in[0], DT_F32));
}

static v_t make_sum_check_then_pin(dt_trace_t *t, const v_t *in) {
  v_t out = make_sum_check(t, in);
  (void)dt_sym_int(t, dt_dim(t, in[1], 0));
  return out;
}

static void behaviour_62_a_sum_with_data_is_checked(void **state) {
  (void)state;
  static const make_t makes[] = {make_sum_check, make_sum_check_then_pin};
  const dt_answer_t answers[] = {compiled_answer(), DT_ANSWER_EVALUATOR};
  double want[100];
  for (int k = 0; k < 100; k++)
    want[k] = 50;
  for (int m = 0; m < 2; m++)
    for (int a = 0; a < 2; a++) {
      rig_t rig;
      begin_with(&rig, makes[m], "im", answers[a]);
      EXPECT(&rig, TENSORS(INT(50), zeros(2, 50)), 2, N(2, 50), want);
      REFUSED(&rig, TENSORS(INT(51), zeros(2, 50)), DT_E_SHAPE, "sum is 102");
      EXPECT(&rig, TENSORS(INT(50), zeros(2, 50)), 2, N(2, 50), want);
      REFUSED(&rig, TENSORS(INT(50), zeros(2, 49)), DT_E_SHAPE, "sum is 102");
      assert_int_equal(variants_of(rig.function), 1);
      rig_fini(&rig);
    }
}

static v_t make_not_five(dt_trace_t *t, const v_t *in) {
  dt_check(t, dt_sym_eq(t, dt_sym_eq(t, dt_item(t, in[0]), number(t, 5)), number(t, 0)),
           "not five");
  return dt_neg(t, in[0]);
}

static v_t make_one_is_five(dt_trace_t *t, const v_t *in) {
  dt_sym_t a = dt_sym_eq(t, dt_item(t, in[0]), number(t, 5));
  dt_sym_t b = dt_sym_eq(t, dt_item(t, in[1]), number(t, 5));
  dt_check(t, dt_sym_le(t, number(t, 1), dt_sym_add(t, a, b)), "one is five");
  return dt_add(t, in[0], in[1]);
}

static void behaviour_63_checks_of_unequal_and_of_either(void **state) {
  (void)state;
  rig_t rig;
  begin(&rig, make_not_five, "i");
  EXPECT(&rig, TENSORS(INT(100)), 0, NULL, D(-100));
  REFUSED(&rig, TENSORS(INT(5)), DT_E_SHAPE, "not five");
  expect_compiles(&rig, 1);
  rig_fini(&rig);
  begin(&rig, make_one_is_five, "ii");
  EXPECT(&rig, TENSORS(INT(5), INT(1)), 0, NULL, D(6));
  EXPECT(&rig, TENSORS(INT(1), INT(5)), 0, NULL, D(6));
  REFUSED(&rig, TENSORS(INT(1), INT(1)), DT_E_SHAPE, "one is five");
  expect_compiles(&rig, 1);
  rig_fini(&rig);
}

static v_t make_double(dt_trace_t *t, const v_t *in) { return dt_add(t, in[0], in[0]); }

// Every dim is what others call unbacked: sizes of 1 are nothing special.
static void behaviour_64_no_shape_guard_for_one_and_many(void **state) {
  (void)state;
  rig_t rig;
  double want[20] = {0};
  char *text = NULL;
  begin(&rig, make_double, "m");
  EXPECT(&rig, TENSORS(zeros(1, 1)), 2, N(1, 1), want);
  EXPECT(&rig, TENSORS(zeros(4, 5)), 2, N(4, 5), want);
  expect_compiles(&rig, 1);
  expect_ok(report_as_text(rig.function, NULL, 0, DT_REPORT_VARIANTS, &text));
  assert_null(strstr(text, "=="));
  dt_text_free(text);
  rig_fini(&rig);
}

static v_t make_same_size(dt_trace_t *t, const v_t *in) {
  v_t a = dt_masked_select(t, in[0], dt_lt(t, in[0], dt_scalar(t, DT_F32, 0)));
  v_t b = dt_masked_select(t, in[1], dt_lt(t, in[1], dt_scalar(t, DT_F32, 0)));
  dt_check(t, dt_sym_eq(t, dt_dim(t, a, 0), dt_dim(t, b, 0)), "as many in both");
  return dt_add(t, a, b);
}

static void behaviour_65_unequal_sizes_from_data_are_refused(void **state) {
  (void)state;
  rig_t rig;
  begin(&rig, make_same_size, "xx");
  EXPECT(&rig, TENSORS(F32(1, N(3), -1, 2, -3), F32(1, N(2), -5, -6)), 1, N(2), D(-6, -9));
  REFUSED(&rig, TENSORS(F32(1, N(3), -1, 2, -3), F32(1, N(2), -5, 6)), DT_E_SHAPE,
          "as many in both");
  EXPECT(&rig, TENSORS(F32(1, N(3), 1, 2, -3), F32(1, N(1), -5)), 1, N(1), D(-8));
  expect_compiles(&rig, 1);
  rig_fini(&rig);
}

static v_t make_square(dt_trace_t *t, const v_t *in) {
  dt_sym_t u = dt_item(t, in[0]), sizes[2] = {u, u};
  return dt_neg(t, dt_reshape(t, in[1], 2, sizes));
}

// Strides of 2, then of 1. The stride of the first is a symbol of its variant, so that dense
// arguments need no other one.
static void behaviour_66_views_by_data_of_strided_arguments(void **state) {
  (void)state;
  rig_t rig;
  begin(&rig, make_square, "ix");
  static float memory[128];
  double want[49];
  for (int k = 0; k < 128; k++)
    memory[k] = (float)k;
  for (int64_t stride = 2; stride >= 1; stride--)
    for (int64_t side = 2; side <= 7; side += 5) {
      const int64_t size = side * side;
      dt_tensor_t *x = tensor_over(DT_F32, 1, &size, &stride, memory);
      for (int64_t k = 0; k < size; k++)
        want[k] = -(double)(k * stride);
      EXPECT(&rig, TENSORS(INT(side), x), 2, N(side, side), want);
      expect_compiles(&rig, 1);
    }
  REFUSED(&rig, TENSORS(INT(3), F32(1, N(4), 1, 2, 3, 4)), DT_E_SHAPE, "reshape");
  rig_fini(&rig);
}

static v_t make_add(dt_trace_t *t, const v_t *in) { return dt_add(t, in[0], in[1]); }

static void behaviour_67_broadcasting_is_asked_of_equal_sizes_once(void **state) {
  (void)state;
  rig_t rig;
  double want[100] = {0};
  begin(&rig, make_add, "mm");
  EXPECT(&rig, TENSORS(zeros(1, 10), zeros(1, 10)), 2, N(1, 10), want);
  EXPECT(&rig, TENSORS(zeros(1, 1), zeros(1, 1)), 2, N(1, 1), want);
  EXPECT(&rig, TENSORS(zeros(10, 10), zeros(10, 10)), 2, N(10, 10), want);
  EXPECT(&rig, TENSORS(zeros(10, 10), zeros(1, 10)), 2, N(10, 10), want);
  expect_compiles(&rig, rig_stats(&rig).variants);
  assert_true(rig_stats(&rig).variants <= 2);
  rig_fini(&rig);
}

static v_t make_pinned(dt_trace_t *t, const v_t *in) {
  dt_sym_t u = dt_item(t, in[0]), five = number(t, 5);
  dt_check(t, dt_sym_le(t, five, u), "at least five");
  dt_check(t, dt_sym_le(t, u, five), "at most five");
  int64_t pinned = dt_sym_int(t, u); // known without a guard, or the trace fails
  dt_sym_t n = number(t, pinned);
  return dt_iota(t, DT_I64, 1, &n, 0);
}

static v_t make_unpinned(dt_trace_t *t, const v_t *in) {
  dt_sym_t u = dt_item(t, in[0]);
  dt_check(t, dt_sym_le(t, number(t, 5), u), "at least five");
  dt_sym_t n = number(t, dt_sym_int(t, u));
  return dt_iota(t, DT_I64, 1, &n, 0);
}

static v_t make_pinned_by_equality(dt_trace_t *t, const v_t *in) {
  dt_sym_t u = dt_item(t, in[0]);
  dt_check(t, dt_sym_eq(t, u, number(t, 5)), "five");
  dt_sym_t n = number(t, dt_sym_int(t, u));
  return dt_iota(t, DT_I64, 1, &n, 0);
}

static void behaviour_76_checks_of_both_sides_pin_a_number(void **state) {
  (void)state;
  rig_t rig;
  begin(&rig, make_unpinned, "i");
  REFUSED(&rig, TENSORS(INT(5)), DT_E_STATE, "sym_int");
  rig_fini(&rig);
  static const make_t makes[] = {make_pinned, make_pinned_by_equality};
  for (int k = 0; k < 2; k++) {
    begin(&rig, makes[k], "i");
    EXPECT(&rig, TENSORS(INT(5)), 1, N(5), D(0, 1, 2, 3, 4));
    REFUSED(&rig, TENSORS(INT(4)), DT_E_SHAPE, "five");
    REFUSED(&rig, TENSORS(INT(6)), DT_E_SHAPE, "five");
    expect_compiles(&rig, 1);
    rig_fini(&rig);
  }
}

// A dim of ten times a number gives the number back, with nothing to check.
static v_t make_tenfold(dt_trace_t *t, const v_t *in) {
  dt_sym_t u = dt_item(t, in[0]), ten = number(t, 10), wide = dt_sym_mul(t, u, ten);
  v_t x = dt_iota(t, DT_I64, 1, &wide, 0);
  dt_sym_t back = dt_sym_floordiv(t, dt_dim(t, x, 0), ten);
  if (back.id != u.id)
    dt_trace_fail(t, DT_E_INTERNAL, "the quotient is another size");
  return dt_sum(t, dt_reshape(t, x, 2, (dt_sym_t[]){back, ten}), 1, (int32_t[]){1}, false);
}

static void behaviour_89_ten_times_a_number_divides_back(void **state) {
  (void)state;
  rig_t rig;
  begin(&rig, make_tenfold, "i");
  EXPECT(&rig, TENSORS(INT(2)), 1, N(2), D(45, 145));
  EXPECT(&rig, TENSORS(INT(0)), 1, N(0), D(0));
  expect_compiles(&rig, 1);
  rig_fini(&rig);
}

// ---- Nothing outside is touched ---------------------------------------------------------------------
static v_t make_slice_by_item(dt_trace_t *t, const v_t *in) {
  return dt_neg(t, dt_slice(t, in[1], 0, dt_item(t, in[0]), number(t, 2), 1));
}

// What holds of the first number by what is stated of the second must not be relied on before the
// second is read: its value comes from a kernel that runs in between.
static v_t make_ordered_items(dt_trace_t *t, const v_t *in) {
  dt_sym_t a = dt_item(t, in[0]);
  dt_check(t, dt_sym_le(t, number(t, 0), a), "not negative");
  v_t nothing = dt_minimum(t, dt_size_value(t, a), dt_scalar(t, DT_I64, 0));
  dt_sym_t b = dt_item(t, dt_add(t, dt_sum(t, in[1], 0, NULL, false), nothing));
  dt_check(t, dt_sym_lt(t, a, b), "in order");
  dt_check(t, dt_sym_le(t, b, dt_dim(t, in[2], 0)), "inside");
  v_t one = dt_cumsum(t, dt_slice(t, in[2], 0, a, number(t, 1), 1), 0, DT_CUMSUM_INCLUSIVE);
  dt_sym_t wide = b;
  return dt_add(t, one, dt_full(t, DT_F32, 1, 1, &wide));
}

static void test_far_numbers_touch_nothing_outside(void **state) {
  (void)state;
  rig_t rig;
  static const int64_t far[] = {4,         5,        -1, INT64_C(1) << 40, -(INT64_C(1) << 40),
                                INT64_MAX, INT64_MIN};
  begin(&rig, make_slice_by_item, "ix");
  EXPECT(&rig, TENSORS(INT(3), FIVE), 1, N(2), D(-4, -5));
  for (size_t k = 0; k < sizeof(far) / sizeof(far[0]); k++)
    REFUSED(&rig, TENSORS(INT(far[k]), FIVE), DT_E_SHAPE, "slice");
  expect_compiles(&rig, 1);
  rig_fini(&rig);
  begin(&rig, make_ordered_items, "ijx");
  EXPECT(&rig, TENSORS(INT(2), I64(1, N(2), 1, 3), FIVE), 1, N(4), D(4, 4, 4, 4));
  for (size_t k = 0; k < sizeof(far) / sizeof(far[0]); k++)
    REFUSED(&rig, TENSORS(INT(far[k]), I64(1, N(2), 1, 3), FIVE), DT_E_SHAPE, "");
  REFUSED(&rig, TENSORS(INT(2), I64(1, N(2), 1, 5), FIVE), DT_E_SHAPE, "inside");
  expect_compiles(&rig, 1);
  rig_fini(&rig);
}

RUN_TESTS_WITH(calls_open, calls_close, TEST(behaviour_61_guard_or_false_takes_the_false_branch),
               TEST(behaviour_62_a_sum_with_data_is_checked),
               TEST(behaviour_63_checks_of_unequal_and_of_either),
               TEST(behaviour_64_no_shape_guard_for_one_and_many),
               TEST(behaviour_65_unequal_sizes_from_data_are_refused),
               TEST(behaviour_66_views_by_data_of_strided_arguments),
               TEST(behaviour_67_broadcasting_is_asked_of_equal_sizes_once),
               TEST(behaviour_76_checks_of_both_sides_pin_a_number),
               TEST(behaviour_89_ten_times_a_number_divides_back),
               TEST(test_far_numbers_touch_nothing_outside))
