// SPDX-License-Identifier: Apache-2.0
// The comparator: bounds, last places, NaN, infinities, integers, bool bytes, uncertain elements.
#include "test/support/check.h"

#include "lower/graph/eval_compare.h"

#include <float.h>
#include <math.h>
#include <string.h>

static bool compare_f32(double expected, double bound, float got, dt_eval_report_t *report) {
  dt_scalar_t data = {.f = expected};
  dt_eval_value_t value = {
      .dtype = DT_F32, .rank = 1, .sizes = {1}, .count = 1, .data = &data, .bound = &bound};
  return dt__eval_compare(&value, &got, NULL, report);
}

static void test_floats(void **state) {
  (void)state;
  static const struct {
    double expected, bound;
    float got;
    bool good;
  } cases[] = {
      {1.0, 0, 1.0f, true},
      {1.0, 0, 1.0f + FLT_EPSILON, true}, // one last place
      {1.0, 0, 1.0f + 2 * FLT_EPSILON, false},
      {0.1, 0, 0.1f, true},
      {1.0, 1e-3, 1.001f, true},
      {1.0, 1e-3, 1.002f, false},
      {0.0, 0, -0.0f, true},
      {0.0, 0, 1e-30f, false},
      {(double)NAN, 0, NAN, true},
      {(double)NAN, 0, 1.0f, false},
      {1.0, 0.5, NAN, false},
      {(double)INFINITY, 0, INFINITY, true},
      {(double)INFINITY, 1, -INFINITY, false},
      {(double)INFINITY, 1, FLT_MAX, false},
      {1.0, 1, INFINITY, false},
      {1e39, 0, INFINITY, true}, // rounds to an infinity
      {1e39, 0, -INFINITY, false},
      {(double)FLT_MAX, 1e38, INFINITY, true}, // may have overflowed
      {1e39, 1e39, FLT_MAX, true},
      {1e39, 0, FLT_MAX, false},
  };
  for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
    dt_eval_report_t report;
    bool good = compare_f32(cases[k].expected, cases[k].bound, cases[k].got, &report);
    if (good != cases[k].good)
      print_error("expected %.9g +- %g, got %.9g: %s\n", cases[k].expected, cases[k].bound,
                  (double)cases[k].got, good ? "taken" : "refused");
    assert_int_equal(good, cases[k].good);
    assert_int_equal(report.compared, 1);
    assert_int_equal(report.wrong, !good);
  }
}

static void test_halves(void **state) {
  (void)state;
  static const struct {
    dt_dtype_t dtype;
    double expected, bound;
    uint16_t got;
    bool good;
  } cases[] = {
      {DT_F16, 1.0, 0, 0x3c00, true},          {DT_F16, 1.0, 0, 0x3c01, true}, // one last place
      {DT_F16, 1.0, 0, 0x3c02, false},         {DT_F16, 1.0, 0, 0x3bff, true},
      {DT_F16, 1.0, 0.01, 0x3c0a, true},       {DT_F16, 65519.0, 0, 0x7bff, true},
      {DT_F16, 65520.0, 0, 0x7c00, true}, // rounds to an infinity
      {DT_F16, 65504.0, 0, 0x7c00, false},     {DT_F16, 0x1p-24, 0, 0x0002, true},
      {DT_F16, 0x1p-24, 0, 0x0003, false},     {DT_F16, (double)NAN, 0, 0xfe00, true},
      {DT_F16, (double)NAN, 0, 0x7c00, false}, {DT_BF16, 1.0, 0, 0x3f81, true},
      {DT_BF16, 1.0, 0, 0x3f82, false},        {DT_BF16, -2.0, 0, 0xc000, true},
      {DT_BF16, -2.0, 0, 0x4000, false},
  };
  for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
    dt_scalar_t data = {.f = cases[k].expected};
    double bound = cases[k].bound;
    dt_eval_value_t value = {.dtype = cases[k].dtype,
                             .rank = 1,
                             .sizes = {1},
                             .count = 1,
                             .data = &data,
                             .bound = &bound};
    dt_eval_report_t report;
    bool good = dt__eval_compare(&value, &cases[k].got, NULL, &report);
    if (good != cases[k].good)
      print_error("%s: expected %.9g +- %g, got %04x: %s\n", dt_dtype_name(cases[k].dtype),
                  cases[k].expected, bound, cases[k].got, good ? "taken" : "refused");
    assert_int_equal(good, cases[k].good);
  }
}

static void test_reports(void **state) {
  (void)state;
  dt_scalar_t data[4] = {{.f = 1.0}, {.f = 2.0}, {.f = 3.0}, {.f = 4.0}};
  double bound[4] = {0, INFINITY, 0, 0};
  float got[4] = {1.0f, 77.0f, 3.5f, 9.0f};
  dt_eval_value_t value = {
      .dtype = DT_F32, .rank = 1, .sizes = {4}, .count = 4, .data = data, .bound = bound};
  dt_eval_report_t report;
  assert_false(dt__eval_compare(&value, got, NULL, &report));
  assert_int_equal(report.index, 2);
  assert_int_equal(report.wrong, 2);
  assert_int_equal(report.uncertain, 1);
  assert_int_equal(report.compared, 3);
  assert_true(report.expected.f == 3.0 && report.got.f == 3.5);
  dt_text_t text;
  dt__text_init(&text);
  dt__eval_report_print(&value, &report, &text);
  assert_non_null(
      strstr(dt__text_str(&text),
             "element 2: expected 3, got 3.5 (allowed 0); 2 wrong, 3 compared, 1 uncertain"));
  dt__text_fini(&text);
  const dt_eval_tolerance_t loose = {.rtol = 0.1, .atol = 10};
  assert_true(dt__eval_compare(&value, got, &loose, &report));
  value.count = 0;
  assert_true(dt__eval_compare(&value, NULL, NULL, &report));
  assert_int_equal(report.compared, 0);
}

static void test_integers(void **state) {
  (void)state;
  dt_scalar_t data[3] = {{.i = -1}, {.i = 5}, {.i = 7}};
  double bound[3] = {0, 0, INFINITY};
  int8_t got[3] = {-1, 5, 99};
  dt_eval_value_t value = {
      .dtype = DT_I8, .rank = 1, .sizes = {3}, .count = 3, .data = data, .bound = bound};
  dt_eval_report_t report;
  assert_true(dt__eval_compare(&value, got, NULL, &report));
  assert_int_equal(report.uncertain, 1);
  got[1] = 4;
  const dt_eval_tolerance_t loose = {.atol = 10};
  assert_false(dt__eval_compare(&value, got, &loose, &report)); // tolerance is for floats
  assert_int_equal(report.index, 1);
  assert_int_equal(report.expected.i, 5);
  assert_int_equal(report.got.i, 4);
  dt_scalar_t truth = {.i = 1};
  uint8_t byte = 1;
  dt_eval_value_t flag = {.dtype = DT_BOOL, .count = 1, .data = &truth};
  assert_true(dt__eval_compare(&flag, &byte, NULL, &report));
  byte = 255;
  assert_false(dt__eval_compare(&flag, &byte, NULL, &report));
}

RUN_TESTS(TEST(test_floats), TEST(test_halves), TEST(test_reports), TEST(test_integers))
