// SPDX-License-Identifier: Apache-2.0
// Programs whose checks contradict each other, the declarations or the call, some of them only by
// what follows from a number in data: the call, or dt_function_prepare, gets a status about that.
#include "test/support/fixture.h"

static int setup(void **state) { return fixture_open(state, 2, 5); }

// x of any size and a number, by which programs that read it from data find u.
static const dt_input_decl_t inputs[] = {{.name = "x", .dtype = DT_F32, .rank = 1},
                                         {.name = "number", .dtype = DT_I64, .rank = 0}};

static dt_status_t call(fixture_t *fixture, dt_function_t *function, int64_t n, int64_t number) {
  dt_tensor_t *in[2] = {tensor_full(1, 1, &n), tensor_i64(0, NULL, &number)}, *out = NULL;
  dt_status_t status = dt_call(fixture->session, function, in, 2, &out, 1, NULL);
  if (status)
    assert_null(out);
  RELEASE(in[0], in[1], out);
  return status;
}

// ---- What follows from checks of data ---------------------------------------------------------------
// Sizes u and 4 of parts say that x has at least 4 elements; that holds when u is read, and before
// that only where somebody asks.
static dt_status_t parts(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t part[2] = {{0}, {0}};
  dt_sym_t sizes[2] = {dt_item(t, in[1]), dt_sym_const(t, 4)};
  (void)closure;
  dt_split(t, in[0], 0, 2, sizes, part);
  out[0] = dt_neg(t, part[1]);
  return NULL;
}

// The same said by a check, of a number that is a size already.
static dt_status_t rest(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_sym_t u = dt_item(t, in[1]), n = dt_dim(t, in[0], 0);
  dt_value_t made = dt_full(t, DT_F32, 1, 1, &u);
  (void)closure;
  dt_check(t, dt_sym_eq(t, dt_sym_add(t, u, dt_sym_const(t, 4)), n), "four are left");
  out[0] = dt_neg(t, dt_reshape(t, made, 1, &u));
  return NULL;
}

static void test_too_small_for_the_data(void **state) {
  fixture_t *fixture = *state;
  static const dt_program_fn_t programs[] = {parts, rest};
  for (size_t p = 0; p < 2; p++)
    for (int dynamic = DT_DYNAMIC_SYMBOLIC; dynamic <= DT_DYNAMIC_STATIC; dynamic++) {
      dt_function_options_t options = options_of(2, inputs);
      options.dynamic = (dt_dynamic_t)dynamic;
      dt_function_t *function = function_of(fixture, programs[p], NULL, &options);
      for (int round = 0; round < 2; round++) {
        for (int64_t u = -2; u < 3; u++)
          expect_code(call(fixture, function, 2, u), DT_E_SHAPE);
        expect_code(call(fixture, function, 6, 1), DT_E_SHAPE);
        expect_ok(call(fixture, function, 6, 2));
        expect_ok(call(fixture, function, 4, 0));
      }
      dt_function_release(function);
    }
}

// One element is repeated as often as data says, also by a variant that was made for more of them.
static dt_status_t repeated(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_sym_t u = dt_item(t, in[1]);
  (void)closure;
  out[0] = dt_neg(t, dt_expand(t, in[0], 1, &u));
  return NULL;
}

static void test_expand_by_data(void **state) {
  fixture_t *fixture = *state;
  dt_function_options_t options = options_of(2, inputs);
  dt_function_t *function = function_of(fixture, repeated, NULL, &options);
  expect_ok(call(fixture, function, 3, 3));
  expect_code(call(fixture, function, 3, 1), DT_E_SHAPE);
  expect_ok(call(fixture, function, 1, 4));
  expect_ok(call(fixture, function, 1, 0));
  expect_code(call(fixture, function, 1, -1), DT_E_SHAPE);
  dt_function_release(function);
}

// Leading sizes of a product, one of data, are equal or one of them is 1, at each call anew.
static dt_status_t batches(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_sym_t one = dt_sym_const(t, 1), three = dt_sym_const(t, 3);
  dt_sym_t a[] = {dt_item(t, in[1]), one, three}, b[] = {dt_dim(t, in[0], 0), one, one};
  dt_sym_t wide[] = {b[0], three, one};
  (void)closure;
  dt_value_t columns = dt_expand(t, dt_reshape(t, in[0], 3, b), 3, wide);
  out[0] = dt_matmul(t, dt_full(t, DT_F32, 1, 3, a), columns);
  return NULL;
}

static void test_batches_by_data(void **state) {
  fixture_t *fixture = *state;
  static const int64_t right[][3] = {{3, 3, 3}, {1, 4, 4}, {4, 1, 4},
                                     {1, 1, 1}, {1, 0, 0}, {0, 1, 0}};
  dt_function_options_t options = options_of(2, inputs);
  dt_function_t *function = function_of(fixture, batches, NULL, &options);
  for (size_t k = 0; k < sizeof(right) / sizeof(right[0]); k++) {
    dt_tensor_t *in[2] = {tensor_full(1, 1, &right[k][0]), tensor_i64(0, NULL, &right[k][1])};
    dt_tensor_t *out = NULL;
    expect_ok(dt_call(fixture->session, function, in, 2, &out, 1, NULL));
    assert_int_equal(dt_tensor_sizes(out)[0], right[k][2]);
    for (int64_t i = 0; i < right[k][2]; i++)
      assert_true(((const float *)dt_tensor_data(out))[i] == 3.0f);
    RELEASE(in[0], in[1], out);
  }
  expect_code(call(fixture, function, 3, 2), DT_E_SHAPE);
  dt_function_release(function);
}

// ---- Checks that exclude each other -----------------------------------------------------------------
// Each is possible; there is no size for both.
static dt_status_t quotient(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_sym_t n = dt_dim(t, in[0], 0), m = dt_dim(t, in[1], 0);
  (void)closure;
  dt_check(t, dt_sym_lt(t, dt_sym_const(t, 0), dt_sym_floordiv(t, n, m)), "one whole");
  dt_check(t, dt_sym_lt(t, n, m), "less than one");
  out[0] = dt_neg(t, in[0]);
  return NULL;
}

static void test_checks_exclude_each_other(void **state) {
  fixture_t *fixture = *state;
  static const dt_input_decl_t two[] = {{.name = "x", .dtype = DT_F32, .rank = 1},
                                        {.name = "y", .dtype = DT_F32, .rank = 1}};
  dt_function_options_t options = options_of(2, two);
  dt_function_t *function = function_of(fixture, quotient, NULL, &options);
  expect_told(dt_function_prepare(function, NULL), DT_E_SHAPE, "contradicts");
  const int64_t sizes[][2] = {{5, 2}, {2, 5}};
  for (size_t k = 0; k < 2; k++) {
    dt_tensor_t *in[2] = {tensor_full(1, 1, &sizes[k][0]), tensor_full(1, 1, &sizes[k][1])};
    dt_tensor_t *out = NULL;
    expect_told(dt_call(fixture->session, function, in, 2, &out, 1, NULL), DT_E_SHAPE,
                k ? "one whole" : "less than one");
    RELEASE(in[0], in[1]);
  }
  dt_function_release(function);
}

// ---- Sizes at the limit -----------------------------------------------------------------------------
#ifdef DT_HAVE_LLVM
static dt_status_t sums(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_sum(t, dt_cumsum(t, in[0], 0, DT_CUMSUM_INCLUSIVE), 0, NULL, false);
  return NULL;
}

// One element that is seen as nearly as many as there may be; rounded up they are too many.
static void test_steps_reach_the_limit(void **state) {
  fixture_t *fixture = *state;
  static const dt_input_decl_t bytes[] = {{.name = "x", .dtype = DT_I8, .rank = 1}};
  int8_t one = 1;
  const int64_t size = ((int64_t)1 << 47) - 5, stride = 0;
  dt_tensor_desc_t desc = {
      .dtype = DT_I8, .rank = 1, .sizes = &size, .strides = &stride, .data = &one};
  for (int dynamic = DT_DYNAMIC_SYMBOLIC; dynamic <= DT_DYNAMIC_STATIC; dynamic++) {
    dt_function_options_t options = options_of(1, bytes);
    options.dynamic = (dt_dynamic_t)dynamic;
    dt_function_t *function = function_of(fixture, sums, NULL, &options);
    dt_tensor_t *x = NULL, *out = NULL;
    expect_ok(dt_tensor_create(&desc, &x));
    expect_code(dt_call(fixture->session, function, &x, 1, &out, 1, NULL), DT_E_LIMIT);
    dt_tensor_release(x);
    dt_function_release(function);
  }
}
#endif

// A dim of which nothing is known while tracing: what selections make of it on the way is as large
// as other sizes, and no reason to refuse.
static dt_status_t places(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_nonzero(t, in[0]);
  return NULL;
}

static void test_unbacked_dims_have_no_other_limit(void **state) {
  fixture_t *fixture = *state;
  static const dt_dim_decl_t dims[] = {{.mark = DT_MARK_UNBACKED}, {.value = 3, .is_static = true}};
  static const dt_input_decl_t rows[] = {{.name = "x", .dtype = DT_F32, .rank = 2, .dims = dims}};
  dt_function_options_t options = options_of(1, rows);
  dt_function_t *function = function_of(fixture, places, NULL, &options);
  for (int64_t n = 0; n < 4; n++) {
    const int64_t sizes[] = {n, 3};
    dt_tensor_t *x = tensor_full(1, 2, sizes), *out = NULL;
    expect_ok(dt_call(fixture->session, function, &x, 1, &out, 1, NULL));
    assert_int_equal(dt_tensor_sizes(out)[0], 3 * n);
    RELEASE(x, out);
  }
  assert_int_equal(variants_of(function), 1);
  dt_function_release(function);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_too_small_for_the_data),
      TEST(test_expand_by_data),
      TEST(test_batches_by_data),
      TEST(test_checks_exclude_each_other),
#ifdef DT_HAVE_LLVM
      TEST(test_steps_reach_the_limit),
#endif
      TEST(test_unbacked_dims_have_no_other_limit),
  };
  return cmocka_run_group_tests(tests, setup, fixture_close);
}
