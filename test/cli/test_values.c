// SPDX-License-Identifier: Apache-2.0
// Elements as numbers, comparing, sizes of sweeps and traces, options.
#include "test/support/check.h"

#include "cli/check.h"
#include "cli/cli.h"
#include "cli/elements.h"
#include "cli/options.h"
#include "cli/sweep.h"

#include <math.h>
#include <string.h>

// ---- Elements -------------------------------------------------------------------------------------
// Every half there is goes to a number and back.
static void test_halves(void **state) {
  (void)state;
  for (uint32_t bits = 0; bits < 65536; bits++) {
    for (int k = 0; k < 2; k++) {
      dt_dtype_t dtype = k ? DT_BF16 : DT_F16;
      uint16_t half = (uint16_t)bits, again = 0;
      double value = cli_element(dtype, &half, 0);
      assert_true(cli_element_set(dtype, &again, 0, value));
      if (isnan(value))
        assert_true(isnan(cli_element(dtype, &again, 0)));
      else if (again != half)
        fail_msg("%s %04x: %g, back %04x", dt_dtype_name(dtype), half, value, again);
    }
  }
}

static void test_rounding(void **state) {
  (void)state;
  static const struct {
    double value;
    uint16_t bits;
  } rows[] = {
      {1.0, 0x3c00},           {-2.0, 0xc000},        {65504, 0x7bff},       {65519.9, 0x7bff},
      {65520, 0x7c00},         {1e300, 0x7c00},       {0x1p-24, 0x0001},     {0x1p-25, 0x0000},
      {0x1.8p-25, 0x0001},     {0x1.ff8p-15, 0x03ff}, {0x1.ffcp-15, 0x0400}, {1 + 0x1p-11, 0x3c00},
      {1 + 0x1.8p-10, 0x3c02}, {0x1.ffep0, 0x4000},   {-0.0, 0x8000},
  };
  for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
    uint16_t half = 0;
    assert_true(cli_element_set(DT_F16, &half, 0, rows[k].value));
    if (half != rows[k].bits)
      fail_msg("%a: %04x, expected %04x", rows[k].value, half, rows[k].bits);
  }
}

static void test_integers(void **state) {
  (void)state;
  for (int dtype = DT_BOOL; dtype <= DT_U64; dtype++) {
    bool is_signed = dtype >= DT_I8 && dtype <= DT_I64;
    size_t bits = dtype == DT_BOOL ? 1 : 8 * dt_dtype_size((dt_dtype_t)dtype);
    uint64_t memory = 0;
    int64_t high = bits == 64 ? INT64_MAX : (INT64_C(1) << (bits - is_signed)) - 1;
    int64_t low = is_signed ? -high - 1 : 0;
    assert_true(cli_element_set_integer((dt_dtype_t)dtype, &memory, 0, high));
    assert_true(cli_element_integer((dt_dtype_t)dtype, &memory, 0) == high);
    assert_true(cli_element_set_integer((dt_dtype_t)dtype, &memory, 0, low));
    assert_true(cli_element_integer((dt_dtype_t)dtype, &memory, 0) == low);
    if (bits < 64)
      assert_false(cli_element_set_integer((dt_dtype_t)dtype, &memory, 0, high + 1));
    if (low == 0 || bits < 64)
      assert_false(cli_element_set_integer((dt_dtype_t)dtype, &memory, 0, low - 1));
    assert_false(cli_element_set((dt_dtype_t)dtype, &memory, 0, 0.5));
    assert_false(cli_element_set((dt_dtype_t)dtype, &memory, 0, 1e19));
    assert_false(cli_element_set((dt_dtype_t)dtype, &memory, 0, (double)NAN));
  }
}

// ---- Comparing ------------------------------------------------------------------------------------
static dt_tensor_t *tensor_of(dt_dtype_t dtype, int64_t n, const double *values) {
  dt_tensor_t *tensor = NULL;
  assert_null(dt_tensor_create_empty(dtype, 1, &n, &tensor));
  for (int64_t k = 0; k < n; k++)
    assert_true(cli_element_set(dtype, dt_tensor_data(tensor), k, values[k]));
  return tensor;
}

static void test_compare(void **state) {
  (void)state;
  const double inf = (double)INFINITY, nan = (double)NAN;
  static const double ten = 10;
  const struct {
    dt_dtype_t dtype;
    double actual, expected;
    bool equal; // with rtol 0.01 and atol 0.001
  } rows[] = {
      {DT_F32, 1, 1, true},           {DT_F32, 1.0105, 1, true},   {DT_F32, 1.0125, 1, false},
      {DT_F64, -0.0009, 0, true},     {DT_F64, 0.0011, 0, false},  {DT_F32, nan, nan, true},
      {DT_F32, nan, 1, false},        {DT_F32, 1, nan, false},     {DT_F32, inf, inf, true},
      {DT_F32, -inf, inf, false},     {DT_F32, inf, nan, false},   {DT_F32, 3e38, inf, false},
      {DT_F32, inf, 3e38, false},     {DT_F16, 0.0, -0.0, true},   {DT_BF16, 2, 2.03125, false},
      {DT_I32, 1000, 1000, true},     {DT_I32, 1001, 1000, false}, {DT_BOOL, 1, 0, false},
      {DT_U64, 0x1p62, 0x1p62, true}, {DT_U8, 255, 254, false},
  };
  char reason[CLI_MESSAGE];
  const cli_tolerance_t tolerance = {0.01, 0.001, 0};
  for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
    dt_tensor_t *a = tensor_of(rows[k].dtype, 1, &rows[k].actual);
    dt_tensor_t *b = tensor_of(rows[k].dtype, 1, &rows[k].expected);
    if (cli_compare(a, b, &tolerance, NULL, reason) != rows[k].equal)
      fail_msg("row %zu: %g and %g", k, rows[k].actual, rows[k].expected);
    dt_tensor_release(a);
    dt_tensor_release(b);
  }
  dt_tensor_t *a = tensor_of(DT_F32, 1, &ten), *b = tensor_of(DT_F64, 1, &ten);
  assert_false(cli_compare(a, b, &tolerance, NULL, reason));
  assert_string_equal(reason, "1 f32, expected 1 f64");
  dt_tensor_release(a);
  // A dim more, and integers that f64 does not tell apart.
  assert_null(dt_tensor_create_empty(DT_F64, 0, NULL, &a));
  assert_false(cli_compare(a, b, &tolerance, NULL, reason));
  assert_string_equal(reason, "f64, expected 1 f64");
  dt_tensor_release(a);
  dt_tensor_release(b);
  int64_t sizes[2] = {2, 2};
  assert_null(dt_tensor_create_empty(DT_I64, 2, sizes, &a));
  assert_null(dt_tensor_create_empty(DT_I64, 2, sizes, &b));
  for (int64_t k = 0; k < 4; k++) {
    ((int64_t *)dt_tensor_data(a))[k] = INT64_MAX - (k == 2);
    ((int64_t *)dt_tensor_data(b))[k] = INT64_MAX;
  }
  assert_false(cli_compare(a, b, &tolerance, NULL, reason));
  assert_string_equal(reason, "1 of 4 elements differ, at first [1, 0]: 9223372036854775806, "
                              "expected 9223372036854775807");
  dt_tensor_release(a);
  dt_tensor_release(b);
}

// What is usual goes by the dtype, and near 0 by the largest number of the row; who says an
// absolute tolerance means those near 0, too.
static void test_usual_tolerances(void **state) {
  (void)state;
  const struct {
    dt_dtype_t dtype;
    double away; // of an element that should be 0, in a row with a 1000
    double atol; // below 0: what is usual
    bool equal;
  } rows[] = {
      {DT_F32, 0.009, -1, true},   {DT_F32, 0.011, -1, false}, {DT_F64, 0.9e-9, -1, true},
      {DT_F64, 1e-6, -1, false},   {DT_F16, 0.9, -1, true},    {DT_F16, 1.1, -1, false},
      {DT_BF16, 7.5, -1, true},    {DT_BF16, 8.5, -1, false},  {DT_F32, 0.009, 0, false},
      {DT_F32, 0.009, 0.01, true},
  };
  char reason[CLI_MESSAGE];
  for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
    const cli_tolerance_t tolerance = {-1, rows[k].atol, -1};
    cli_errors_t errors = {0, 0};
    dt_tensor_t *a = tensor_of(rows[k].dtype, 2, (const double[]){1000, rows[k].away});
    dt_tensor_t *b = tensor_of(rows[k].dtype, 2, (const double[]){1000, 0});
    if (cli_compare(a, b, &tolerance, &errors, reason) != rows[k].equal)
      fail_msg("row %zu: %g", k, rows[k].away);
    assert_true(fabs(errors.absolute - rows[k].away) <= 0.02 * rows[k].away);
    assert_true(errors.relative == 0);
    assert_true(rows[k].equal || strstr(reason, "; at most "));
    dt_tensor_release(a);
    dt_tensor_release(b);
  }
  // A row of its own has no larger number to go by.
  int64_t sizes[2] = {2, 1};
  dt_tensor_t *a = NULL, *b = NULL;
  assert_null(dt_tensor_create_empty(DT_F32, 2, sizes, &a));
  assert_null(dt_tensor_create_empty(DT_F32, 2, sizes, &b));
  memcpy(dt_tensor_data(a), (const float[]){1000, 0.009F}, 8);
  memcpy(dt_tensor_data(b), (const float[]){1000, 0}, 8);
  assert_false(cli_compare(a, b, &(cli_tolerance_t){-1, -1, -1}, NULL, reason));
  dt_tensor_release(a);
  dt_tensor_release(b);
}

// ---- Sweeps ---------------------------------------------------------------------------------------
static void test_sweep(void **state) {
  (void)state;
  static const int64_t expected[][2] = {{1, 16}, {1, 48}, {1, 7}, {4, 16}, {4, 48}, {4, 7}};
  char message[CLI_MESSAGE];
  cli_sweep_t sweep = {0};
  assert_true(cli_sweep_add(&sweep, "batch=1,4", message));
  assert_true(cli_sweep_add(&sweep, "a=b=16..79:32,7", message));
  assert_int_equal(sweep.n_points, 6);
  for (uint64_t k = 0; k < 6; k++) {
    cli_dim_t dims[CLI_MOST_AXES];
    cli_sweep_point(&sweep, k, dims);
    assert_int_equal(dims[0].size, expected[k][0]);
    assert_int_equal(dims[1].size, expected[k][1]);
    assert_memory_equal(dims[1].name, "a=b", dims[1].len);
    assert_int_equal(dims[1].len, 3);
  }
  assert_false(cli_sweep_add(&sweep, "batch=1", message));
  cli_sweep_free(&sweep);
  static const char *const wrong[] = {"",      "x",       "=1",       "x=",          "x=1,",
                                      "x=a",   "x=-1",    "x=4..2",   "x=1..",       "x=1.2",
                                      "x=1:2", "x=1..2:", "x=1..2:0", "x=0..100000", "x=1..4:1:1"};
  for (size_t k = 0; k < sizeof(wrong) / sizeof(wrong[0]); k++) {
    if (cli_sweep_add(&sweep, wrong[k], message))
      fail_msg("%s: taken", wrong[k]);
    cli_sweep_free(&sweep);
  }
}

static void test_trace(void **state) {
  (void)state;
  cli_dim_t dims[CLI_MOST_AXES];
  char message[CLI_MESSAGE];
  assert_int_equal(cli_trace_line(" batch=4\tseq=0 # that", dims, message), 2);
  assert_int_equal(dims[0].size, 4);
  assert_int_equal(dims[1].len, 3);
  assert_int_equal(cli_trace_line("# nothing", dims, message), 0);
  assert_int_equal(cli_trace_line("", dims, message), 0);
  assert_int_equal(cli_trace_line("batch", dims, message), -1);
  assert_int_equal(cli_trace_line("batch=", dims, message), -1);
  assert_int_equal(cli_trace_line("batch=4,5", dims, message), -1);
  assert_int_equal(cli_trace_line("=4", dims, message), -1);
}

static void test_quantiles(void **state) {
  (void)state;
  double times[] = {5, 1, 4, 2, 3};
  assert_true(cli_quantile(times, 5, 0.5) == 3);
  assert_true(cli_quantile(times, 5, 0.99) == 5);
  assert_true(cli_quantile(times, 5, 0) == 1);
  assert_true(cli_quantile(times, 0, 0.5) == 0);
}

// ---- Options --------------------------------------------------------------------------------------
typedef struct options_t {
  bool flag;
  const char *text;
  uint32_t word, count;
  double real;
  int64_t deadline;
  cli_list_t list;
} options_t;

static const char *const words[] = {"one", "two", NULL};
static const cli_option_t rows[] = {
    {"flag", CLI_FLAG, offsetof(options_t, flag), NULL, "", NULL, 0, 0},
    {"text", CLI_TEXT, offsetof(options_t, text), "TEXT", "", NULL, 0, 0},
    {"word", CLI_WORD, offsetof(options_t, word), "WORD", "", words, 0, 0},
    {"count", CLI_COUNT, offsetof(options_t, count), "N", "", NULL, 2, 9},
    {"real", CLI_REAL, offsetof(options_t, real), "X", "", NULL, 0, 0},
    {"list", CLI_LIST, offsetof(options_t, list), "ITEM", "", NULL, 0, 0},
    CLI_ROW_DEADLINE(options_t, ""),
};
static const cli_command_t command = {.name = "test",
                                      .usage = "",
                                      .about = "",
                                      .exits = "",
                                      .options = rows,
                                      .n_options = 7,
                                      .operand = "file",
                                      .many = true};

static void test_options(void **state) {
  (void)state;
  static options_t options;
  cli_operands_t operands;
  int status = 0;
  char *line[] = {"test",    "a",    "--flag",   "--text=x=y", "--word", "two",
                  "--count", "9",    "b",        "-",          "--list", "1",
                  "--real",  "1e-3", "--list=2", "--",         "--flag", NULL};
  assert_true(cli_parse(&command, 17, line, &options, &operands, &status));
  assert_true(options.flag);
  assert_string_equal(options.text, "x=y");
  assert_int_equal(options.word, 1);
  assert_int_equal(options.count, 9);
  assert_true(options.real == 1e-3);
  assert_int_equal(options.list.n, 2);
  assert_string_equal(options.list.items[1], "2");
  assert_int_equal(operands.n, 4);
  assert_string_equal(operands.items[2], "-");
  assert_string_equal(operands.items[3], "--flag");
  static char *const wrong[][2] = {
      {"--nope", "1"},   {"--flag=1", "a"},   {"--word", "three"}, {"--count", "1"},
      {"--count", "10"}, {"--count", "5x"},   {"--count", "+5"},   {"--real", "-1"},
      {"--real", "inf"}, {"--real", "nan"},   {"--real", "1x"},    {"a", "--text"},
      {"-f", "a"},       {"--real", "1e999"}, {"--tex", "x"},      {"--texts", "x"},
  };
  for (size_t k = 0; k < sizeof(wrong) / sizeof(wrong[0]); k++) {
    char *words_of[] = {"test", wrong[k][0], wrong[k][1], NULL};
    if (cli_parse(&command, 3, words_of, &options, &operands, &status) || status != CLI_USAGE)
      fail_msg("%s %s: taken, status %d", wrong[k][0], wrong[k][1], status);
  }
}

static void test_times(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int64_t ns;
  } times[] = {{"1ns", 1},     {"500ms", 500000000},  {"2s", 2000000000},
               {"0.5us", 500}, {"1.5m", 90000000000}, {"24h", 86400000000000}};
  static const char *const wrong[] = {"",
                                      "5",
                                      "s",
                                      "0s",
                                      "0.1ns",
                                      "-1s",
                                      "1e3s",
                                      "1 s",
                                      "5x",
                                      "5sec",
                                      "24.1h",
                                      "1.2.3s",
                                      ".s",
                                      "inf",
                                      "nans",
                                      "0x10s",
                                      "1111111111111111111111111111111111s"};
  static options_t options;
  cli_operands_t operands;
  int status = 0;
  for (size_t k = 0; k < sizeof(times) / sizeof(times[0]); k++) {
    char *line[] = {"test", "--deadline", (char *)times[k].text, "a", NULL};
    options.deadline = 0;
    assert_true(cli_parse(&command, 4, line, &options, &operands, &status));
    assert_int_equal(options.deadline, times[k].ns);
    assert_true(cli_end_ns(options.deadline) > times[k].ns);
  }
  for (size_t k = 0; k < sizeof(wrong) / sizeof(wrong[0]); k++) {
    char *line[] = {"test", "--deadline", (char *)wrong[k], "a", NULL};
    if (cli_parse(&command, 4, line, &options, &operands, &status) || status != CLI_USAGE)
      fail_msg("--deadline %s: taken, status %d", wrong[k], status);
  }
  assert_int_equal(cli_end_ns(0), 0);
}

RUN_TESTS(TEST(test_halves), TEST(test_rounding), TEST(test_integers), TEST(test_compare),
          TEST(test_usual_tolerances), TEST(test_sweep), TEST(test_trace), TEST(test_quantiles),
          TEST(test_options), TEST(test_times))
