// SPDX-License-Identifier: Apache-2.0
// Error bounds against code that really rounds every op to float: they must hold, must not be
// infinite where nothing jumps, must be infinite where something does, and must not be absurdly
// wide.
#include "lower/graph/eval_compare.h"
#include "lower/graph/eval_private.h"
#include "runtime/base/dtype.h"
#include "test/support/graph_fixture.h"

#include <math.h>

static uint64_t seed = 88172645463325252u;

static uint64_t next_random(void) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return seed;
}

// In [-scale, scale], as a float.
static float random_float(float scale) {
  return scale * ((float)(next_random() % 2000001) / 1e6f - 1.0f);
}

// ---- Scalar ops: two in a row, each rounded to float --------------------------------------------
static float rounded_op(dt_scalar_op_t op, float x, float y) {
  const dt_scalar_t args[2] = {{.f = (double)x}, {.f = (double)y}};
  return (float)dt__scalar_eval(op, DT_F32, args).f;
}

static void check_pair(dt_scalar_op_t first, dt_scalar_op_t second, uint64_t *uncertain,
                       uint64_t *total) {
  float x = random_float(4), y = random_float(4), z = random_float(4);
  float got = rounded_op(second, rounded_op(first, x, y), z);
  dt_approx_t inner =
      dt__approx_2(first, DT_F32, dt__approx_real((double)x), dt__approx_real((double)y));
  dt_approx_t outer = dt__approx_2(second, DT_F32, inner, dt__approx_real((double)z));
  dt_eval_value_t value = {.dtype = DT_F32, .count = 1, .data = &outer.v, .bound = &outer.b};
  dt_eval_report_t report;
  bool good = dt__eval_compare(&value, &got, NULL, &report);
  if (!good)
    print_error("%s(%s(%.9g, %.9g), %.9g): expected %.17g +- %g, got %.9g\n",
                dt__scalar_info(second)->name, dt__scalar_info(first)->name, (double)x, (double)y,
                (double)z, outer.v.f, outer.b, (double)got);
  assert_true(good);
  *uncertain += (uint64_t)report.uncertain;
  (*total)++;
}

static void test_scalar_pairs(void **state) {
  (void)state;
  uint64_t uncertain = 0, total = 0;
  for (uint32_t a = 1; a < DT_SCALAR_COUNT; a++) {
    for (uint32_t b = 1; b < DT_SCALAR_COUNT; b++) {
      const dt_scalar_info_t *first = dt__scalar_info((dt_scalar_op_t)a);
      const dt_scalar_info_t *second = dt__scalar_info((dt_scalar_op_t)b);
      bool floats = (first->domain == 'F' || first->domain == 'N') && !first->result_bool &&
                    (second->domain == 'F' || second->domain == 'N') && !second->result_bool;
      for (uint32_t k = 0; k < 100 && floats; k++)
        check_pair((dt_scalar_op_t)a, (dt_scalar_op_t)b, &uncertain, &total);
    }
  }
  if (uncertain * 50 > total)
    print_error("%llu of %llu uncertain\n", (unsigned long long)uncertain,
                (unsigned long long)total);
  assert_true(total > 50000);
  assert_true(uncertain * 50 <= total); // under 2 %
}

// ---- Halves: computed in float, and rounded after each op ---------------------------------------
static double half_op(dt_dtype_t half, dt_scalar_op_t op, double x, double y) {
  dt_scalar_t made = {.f = (double)rounded_op(op, (float)x, (float)y)};
  return dt__scalar_cast(DT_F32, half, made).f;
}

static dt_approx_t half_approx(dt_dtype_t half, dt_scalar_op_t op, dt_approx_t x, dt_approx_t y) {
  return dt__approx_stored(half, dt__approx_2(op, half, x, y));
}

static double random_half(dt_dtype_t half) {
  return dt__scalar_cast(DT_F32, half, (dt_scalar_t){.f = (double)random_float(4)}).f;
}

// A bound says how far the half may be, with no last place to spare, and is mostly 0: the rounding
// that both make is the same.
static void check_half_pair(dt_dtype_t half, dt_scalar_op_t first, dt_scalar_op_t second,
                            uint64_t *certain) {
  double x = random_half(half), y = random_half(half), z = random_half(half);
  double got = half_op(half, second, half_op(half, first, x, y), z);
  dt_approx_t inner = half_approx(half, first, dt__approx_real(x), dt__approx_real(y));
  dt_approx_t outer = half_approx(half, second, inner, dt__approx_real(z));
  bool good = isnan(got) ? isnan(outer.v.f) : got == outer.v.f || fabs(got - outer.v.f) <= outer.b;
  if (!good)
    print_error("%s %s(%s(%.9g, %.9g), %.9g): expected %.17g +- %g, got %.9g\n",
                dt_dtype_name(half), dt__scalar_info(second)->name, dt__scalar_info(first)->name, x,
                y, z, outer.v.f, outer.b, got);
  assert_true(good);
  *certain += outer.b == 0.0;
}

static void test_half_pairs(void **state) {
  (void)state;
  static const dt_scalar_op_t ops[] = {
      DT_SCALAR_add, DT_SCALAR_sub,  DT_SCALAR_mul,     DT_SCALAR_div,     DT_SCALAR_pow,
      DT_SCALAR_exp, DT_SCALAR_tanh, DT_SCALAR_sigmoid, DT_SCALAR_maximum, DT_SCALAR_neg};
  const size_t n = sizeof(ops) / sizeof(ops[0]);
  uint64_t certain = 0, total = 0;
  for (uint32_t h = 0; h < 2; h++)
    for (size_t a = 0; a < n; a++)
      for (size_t b = 0; b < n; b++)
        for (uint32_t k = 0; k < 300; k++, total++)
          check_half_pair(h ? DT_BF16 : DT_F16, ops[a], ops[b], &certain);
  if (certain * 100 < total * 95)
    print_error("%llu of %llu certain\n", (unsigned long long)certain, (unsigned long long)total);
  assert_true(certain * 100 >= total * 95);
}

static void test_edges(void **state) {
  (void)state;
  const dt_approx_t near_zero = {.v = {.f = 1e-8}, .b = 1e-7}, five = {.v = {.f = 5}, .b = 0};
  const dt_approx_t near_five = {.v = {.f = 5}, .b = 1e-6}, nan = {.v = {.f = NAN}, .b = 0};
  const dt_approx_t inf = {.v = {.f = INFINITY}, .b = 0};
  // Poles and ends of domains within the bound.
  assert_true(isinf(dt__approx_1(DT_SCALAR_reciprocal, DT_F32, near_zero).b));
  assert_true(isinf(dt__approx_2(DT_SCALAR_div, DT_F32, five, near_zero).b));
  assert_true(isinf(dt__approx_1(DT_SCALAR_log, DT_F32, near_zero).b));
  assert_true(isinf(dt__approx_1(DT_SCALAR_sqrt, DT_F32, near_zero).b));
  assert_true(
      isinf(dt__approx_1(DT_SCALAR_tan, DT_F32, (dt_approx_t){.v = {.f = M_PI_2}, .b = 1e-6}).b));
  // Steps: the bound is the step.
  dt_approx_t step = dt__approx_1(DT_SCALAR_floor, DT_F32, near_five);
  assert_true(step.v.f == 5 && step.b == 1);
  assert_true(dt__approx_1(DT_SCALAR_floor, DT_F32, five).b == 0);
  // Comparisons: uncertain only where the intervals touch.
  assert_true(isinf(dt__approx_2(DT_SCALAR_lt, DT_F32, near_five, five).b));
  assert_true(dt__approx_2(DT_SCALAR_lt, DT_F32, near_zero, five).b == 0);
  assert_true(dt__approx_2(DT_SCALAR_eq, DT_F32, five, five).b == 0);
  assert_true(dt__approx_2(DT_SCALAR_lt, DT_F32, near_five, nan).b == 0);
  assert_true(dt__approx_2(DT_SCALAR_lt, DT_F32, near_five, inf).b == 0);
  // NaN and infinities are certain.
  assert_true(dt__approx_2(DT_SCALAR_add, DT_F32, near_five, nan).b == 0);
  assert_true(dt__approx_2(DT_SCALAR_mul, DT_F32, near_five, inf).b == 0);
  assert_true(dt__approx_2(DT_SCALAR_div, DT_F32, inf, near_five).b == 0);
  assert_true(isinf(dt__approx_2(DT_SCALAR_mul, DT_F32, near_zero, inf).b));
  // Overflow of float is uncertain; a choice between close values is not.
  assert_true(isinf(dt__approx_1(DT_SCALAR_exp, DT_F32, (dt_approx_t){.v = {.f = 100}}).b));
  assert_true(isfinite(dt__approx_1(DT_SCALAR_exp, DT_F64, (dt_approx_t){.v = {.f = 100}}).b));
  const dt_approx_t choice[3] = {
      {.v = {.i = 1}, .b = INFINITY}, five, {.v = {.f = 5.5}, .b = 0.25}};
  dt_approx_t chosen = dt__approx_scalar(DT_SCALAR_where, DT_F32, choice);
  assert_true(chosen.v.f == 5 && chosen.b == 0.75);
  // Casts.
  assert_true(isinf(dt__approx_cast(DT_F32, DT_I32, near_five).b));
  assert_true(dt__approx_cast(DT_F32, DT_I32, (dt_approx_t){.v = {.f = 5.5}, .b = 0.1}).b == 0);
  assert_true(isinf(dt__approx_cast(DT_F32, DT_BOOL, near_zero).b));
  // Integers: uncertainty spreads, except through what decides alone.
  const dt_approx_t no = {.v = {.i = 0}}, maybe = {.v = {.i = 1}, .b = INFINITY};
  assert_true(dt__approx_2(DT_SCALAR_logical_and, DT_BOOL, no, maybe).b == 0);
  assert_true(isinf(dt__approx_2(DT_SCALAR_logical_or, DT_BOOL, no, maybe).b));
  assert_true(isinf(dt__approx_2(DT_SCALAR_add, DT_I32, no, maybe).b));
}

// Exact arithmetic has no bound; inexact has one.
static void test_exact(void **state) {
  (void)state;
  static const struct {
    dt_scalar_op_t op;
    double a, b;
    bool exact;
  } cases[] = {
      {DT_SCALAR_add, 3, 4, true},         {DT_SCALAR_add, 1, 0x1p-30, false},
      {DT_SCALAR_sub, 1, 1, true},         {DT_SCALAR_mul, 3, 0.5, true},
      {DT_SCALAR_mul, 16777215, 3, false}, {DT_SCALAR_div, 1, 4, true},
      {DT_SCALAR_div, 1, 3, false},        {DT_SCALAR_sqrt, 9, 0, true},
      {DT_SCALAR_sqrt, 2, 0, false},       {DT_SCALAR_reciprocal, 8, 0, true},
      {DT_SCALAR_reciprocal, 3, 0, false}, {DT_SCALAR_neg, 0.1, 0, true},
      {DT_SCALAR_maximum, 0.1, 0.2, true}, {DT_SCALAR_round, 2.5, 0, true},
      {DT_SCALAR_fmod, 7.5, 2, true},      {DT_SCALAR_exp, 1, 0, false},
  };
  for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
    double b =
        dt__approx_2(cases[k].op, DT_F32, dt__approx_real(cases[k].a), dt__approx_real(cases[k].b))
            .b;
    if ((b == 0) != cases[k].exact)
      print_error("%s(%g, %g): bound %g\n", dt__scalar_info(cases[k].op)->name, cases[k].a,
                  cases[k].b, b);
    assert_int_equal(b == 0, cases[k].exact);
  }
}

// ---- Rows ---------------------------------------------------------------------------------------
#define ROWS 7
#define COLUMNS 61

typedef void (*float_row_fn_t)(const float *x, int64_t n, float *y);

static void sum_floats(const float *x, int64_t n, float *y) {
  float sum = 0;
  for (int64_t k = 0; k < n; k++)
    sum += x[k];
  *y = sum;
}

static void mean_floats(const float *x, int64_t n, float *y) {
  sum_floats(x, n, y);
  *y *= 1.0f / (float)n;
}

static void var_floats(const float *x, int64_t n, float *y) {
  float mean, sum = 0;
  mean_floats(x, n, &mean);
  for (int64_t k = 0; k < n; k++)
    sum += (x[k] - mean) * (x[k] - mean);
  *y = sum / (float)n;
}

static void prod_floats(const float *x, int64_t n, float *y) {
  *y = 1;
  for (int64_t k = 0; k < n; k++)
    *y *= x[k];
}

static void softmax_floats(const float *x, int64_t n, float *y) {
  float largest = -INFINITY, sum = 0;
  for (int64_t k = 0; k < n; k++)
    largest = fmaxf(largest, x[k]);
  for (int64_t k = 0; k < n; k++)
    sum += y[k] = expf(x[k] - largest);
  for (int64_t k = 0; k < n; k++)
    y[k] *= 1.0f / sum;
}

static void log_softmax_floats(const float *x, int64_t n, float *y) {
  float largest = -INFINITY, sum = 0;
  for (int64_t k = 0; k < n; k++)
    largest = fmaxf(largest, x[k]);
  for (int64_t k = 0; k < n; k++)
    sum += expf(x[k] - largest);
  for (int64_t k = 0; k < n; k++)
    y[k] = x[k] - largest - logf(sum);
}

static void layer_norm_floats(const float *x, int64_t n, float *y) {
  float mean, var;
  mean_floats(x, n, &mean);
  var_floats(x, n, &var);
  for (int64_t k = 0; k < n; k++)
    y[k] = (x[k] - mean) * (1.0f / sqrtf(var + 1e-5f)) * 0.7f + 0.7f;
}

static void rms_norm_floats(const float *x, int64_t n, float *y) {
  float sum = 0;
  for (int64_t k = 0; k < n; k++)
    sum += x[k] * x[k];
  for (int64_t k = 0; k < n; k++)
    y[k] = x[k] / sqrtf(sum / (float)n + 1e-5f) * 0.7f;
}

static void gelu_floats(const float *x, int64_t n, float *y) {
  for (int64_t k = 0; k < n; k++)
    y[k] = 0.5f * x[k] * (1.0f + erff(x[k] * 0.70710678f));
}

static void gelu_tanh_floats(const float *x, int64_t n, float *y) {
  for (int64_t k = 0; k < n; k++)
    y[k] = 0.5f * x[k] * (1.0f + tanhf(0.79788456f * (x[k] + 0.044715f * x[k] * x[k] * x[k])));
}

static void silu_floats(const float *x, int64_t n, float *y) {
  for (int64_t k = 0; k < n; k++)
    y[k] = x[k] * (1.0f / (1.0f + expf(-x[k])));
}

// One op over rows of random floats, against `fn`.
static void check_rows(dt_op_t op, float_row_fn_t fn, bool reduces, float scale, double widest) {
  graph_fixture_t f;
  graph_fixture_init(&f);
  int64_t sizes[2] = {ROWS, COLUMNS}, strides[2] = {COLUMNS, 1}, inner = COLUMNS, one = 1;
  float x[ROWS * COLUMNS], y[ROWS * COLUMNS], scales[COLUMNS];
  for (int64_t k = 0; k < ROWS * COLUMNS; k++)
    x[k] = random_float(scale);
  for (int64_t k = 0; k < COLUMNS; k++)
    scales[k] = 0.7f;
  dt_node_id_t in[3] = {fixed(&f, "x", DT_F32, 2, sizes), {0}, {0}};
  uint32_t n = (uint32_t)dt__op_info(op)->arity;
  for (uint32_t k = 1; k < n; k++)
    in[k] = fixed(&f, "", DT_F32, 1, &inner);
  dt_attrs_t attrs = {.n_axes = 1, .floats = {1e-5}};
  attrs.axes[0] = 1;
  expect_ok(dt__graph_add_output(f.graph, add(&f, op, n, in, &attrs)));
  const dt_eval_arg_t args[3] = {
      {x, sizes, strides}, {scales, &inner, &one}, {scales, &inner, &one}};
  const dt_eval_options_t options = {.error_bounds = true};
  dt_eval_value_t value;
  expect_ok(dt__graph_eval(f.graph, NULL, args, &options, &f.arena, &value));
  for (int64_t row = 0; row < ROWS; row++)
    fn(x + row * COLUMNS, COLUMNS, y + row * (reduces ? 1 : COLUMNS));
  dt_eval_report_t report;
  bool good = dt__eval_compare(&value, y, NULL, &report);
  double relative = 0;
  for (int64_t k = 0; k < value.count; k++)
    relative = fmax(relative, value.bound[k] / (fabs(value.data[k].f) + 1e-3));
  if (!good || report.uncertain || relative > widest) {
    dt_text_t text;
    dt__text_init(&text);
    dt__eval_report_print(&value, &report, &text);
    print_error("%s: %s, widest bound %g\n", dt__op_info(op)->name, dt__text_str(&text), relative);
    dt__text_fini(&text);
  }
  assert_true(good);
  assert_int_equal(report.uncertain, 0);
  assert_true(relative <= widest);
  graph_fixture_fini(&f);
}

static void test_rows(void **state) {
  (void)state;
  seed = 12187338501704634256u; // the rows do not depend on how many ops were tried before
  for (uint32_t k = 0; k < 20; k++) {
    check_rows(DT_OP_sum, sum_floats, true, 10, 1e-2);
    check_rows(DT_OP_mean, mean_floats, true, 10, 1e-2);
    check_rows(DT_OP_var, var_floats, true, 3, 1e-4);
    check_rows(DT_OP_prod, prod_floats, true, 1, 1e-4);
    check_rows(DT_OP_softmax, softmax_floats, false, 8, 1e-4);
    check_rows(DT_OP_log_softmax, log_softmax_floats, false, 8, 1e-4);
    check_rows(DT_OP_layer_norm, layer_norm_floats, false, 5, 1e-2);
    check_rows(DT_OP_rms_norm, rms_norm_floats, false, 5, 1e-4);
    check_rows(DT_OP_gelu, gelu_floats, false, 6, 1e-2);
    check_rows(DT_OP_gelu_tanh, gelu_tanh_floats, false, 6, 1e-2);
    check_rows(DT_OP_silu, silu_floats, false, 20, 1e-2);
  }
}

// A product of which some order comes upon infinity or zero on the way: nothing is known. Else an
// infinite product is one.
static void test_prod_between(void **state) {
  (void)state;
  static const float rows[5][3] = {
      {1e-30f, 1e-30f, -INFINITY}, {1e30f, 1e-40f, 1e30f}, {1e30f, 1e30f, 1e-30f},
      {2, -3, INFINITY},           {1e-30f, 3, -INFINITY},
  };
  static const float products[5] = {NAN, 1e20f, 1e30f, -INFINITY, -INFINITY};
  graph_fixture_t f;
  graph_fixture_init(&f);
  int64_t sizes[2] = {5, 3}, strides[2] = {3, 1};
  dt_node_id_t in = fixed(&f, "x", DT_F32, 2, sizes);
  dt_attrs_t attrs = {.n_axes = 1, .axes = {1}};
  expect_ok(dt__graph_add_output(f.graph, add(&f, DT_OP_prod, 1, &in, &attrs)));
  const dt_eval_arg_t arg = {rows, sizes, strides};
  const dt_eval_options_t options = {.error_bounds = true};
  dt_eval_value_t value;
  dt_eval_report_t report;
  expect_ok(dt__graph_eval(f.graph, NULL, &arg, &options, &f.arena, &value));
  for (int64_t k = 0; k < 5; k++)
    assert_int_equal(isinf(value.bound[k]), k < 3);
  assert_true(dt__eval_compare(&value, products, NULL, &report));
  assert_int_equal(report.uncertain, 3);
  graph_fixture_fini(&f);
}

static void test_matmul(void **state) {
  (void)state;
  graph_fixture_t f;
  graph_fixture_init(&f);
  enum { M = 5, K = 33, N = 4 };
  int64_t a_sizes[2] = {M, K}, a_strides[2] = {K, 1}, b_sizes[2] = {K, N}, b_strides[2] = {N, 1};
  dt_node_id_t in[2] = {fixed(&f, "a", DT_F32, 2, a_sizes), fixed(&f, "b", DT_F32, 2, b_sizes)};
  expect_ok(dt__graph_add_output(f.graph, add(&f, DT_OP_matmul, 2, in, NULL)));
  for (uint32_t whole = 0; whole < 2; whole++) {
    float a[M * K], b[K * N], c[M * N];
    for (int64_t k = 0; k < M * K; k++)
      a[k] = whole ? truncf(random_float(9)) : random_float(3);
    for (int64_t k = 0; k < K * N; k++)
      b[k] = whole ? truncf(random_float(9)) : random_float(3);
    for (int64_t m = 0; m < M; m++) {
      for (int64_t n = 0; n < N; n++) {
        c[m * N + n] = 0;
        for (int64_t k = 0; k < K; k++)
          c[m * N + n] += a[m * K + k] * b[k * N + n];
      }
    }
    const dt_eval_arg_t args[2] = {{a, a_sizes, a_strides}, {b, b_sizes, b_strides}};
    const dt_eval_options_t options = {.error_bounds = true};
    dt_eval_value_t value;
    dt_eval_report_t report;
    expect_ok(dt__graph_eval(f.graph, NULL, args, &options, &f.arena, &value));
    assert_true(dt__eval_compare(&value, c, NULL, &report));
    assert_int_equal(report.uncertain, 0);
    for (int64_t k = 0; k < M * N; k++) {
      // Sums of small integers are exact; an off-by-one there must not hide in a bound.
      assert_int_equal(value.bound[k] == 0, whole);
      assert_true(value.bound[k] < 1e-3);
    }
    c[7] += 0.5f;
    assert_false(dt__eval_compare(&value, c, NULL, &report));
    assert_int_equal(report.index, 7);
  }
  graph_fixture_fini(&f);
}

// The place of a largest element is uncertain only where rounding may change it.
static void test_argmax(void **state) {
  (void)state;
  graph_fixture_t f;
  graph_fixture_init(&f);
  int64_t sizes[2] = {3, 3}, strides[2] = {3, 1};
  static const float x[9] = {1, 2, 3, 1, 1, 0.5f, 0.1f, 0.1f, 0};
  dt_node_id_t in = fixed(&f, "x", DT_F32, 2, sizes);
  dt_node_id_t moved = add(&f, DT_OP_exp, 1, &in, NULL); // gives bounds
  dt_attrs_t attrs = {.n_axes = 1, .axes = {1}};
  expect_ok(dt__graph_add_output(f.graph, add(&f, DT_OP_argmax, 1, &in, &attrs)));
  expect_ok(dt__graph_add_output(f.graph, add(&f, DT_OP_argmax, 1, &moved, &attrs)));
  const dt_eval_arg_t arg = {x, sizes, strides};
  const dt_eval_options_t options = {.error_bounds = true};
  dt_eval_value_t out[2];
  expect_ok(dt__graph_eval(f.graph, NULL, &arg, &options, &f.arena, out));
  static const int64_t want[3] = {2, 0, 0};
  for (int64_t k = 0; k < 3; k++) {
    assert_int_equal(out[0].data[k].i, want[k]);
    assert_true(out[0].bound[k] == 0); // exact ties go to the first
    assert_int_equal(out[1].data[k].i, want[k]);
    assert_int_equal(isinf(out[1].bound[k]) != 0, k > 0);
  }
  graph_fixture_fini(&f);
}

RUN_TESTS(TEST(test_scalar_pairs), TEST(test_half_pairs), TEST(test_edges), TEST(test_exact),
          TEST(test_rows), TEST(test_prod_between), TEST(test_matmul), TEST(test_argmax))
