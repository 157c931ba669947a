// SPDX-License-Identifier: Apache-2.0
// Results against what is expected.
#include "cli/check.h"
#include "cli/elements.h"
#include "cli/low.h"
#include "cli/tensor_file.h"

#include <math.h>
#include <string.h>

static bool same_sizes(const dt_tensor_t *a, const dt_tensor_t *b) {
  uint32_t rank = dt_tensor_rank(a);
  return rank == dt_tensor_rank(b) &&
         (rank == 0 || memcmp(dt_tensor_sizes(a), dt_tensor_sizes(b), rank * sizeof(int64_t)) == 0);
}

// What is usual for a dtype: a product's worth of its own rounding, and of numbers that cancel out,
// of what their row holds. Types without a row are those of 8 bits and less.
static const struct {
  dt_dtype_t dtype;
  double rtol, scale;
} usual[] = {
    {DT_F64, 1e-6, 1e-12},
    {DT_F32, CLI_ONNX_RTOL, 1e-5},
    {DT_F16, 4e-3, 1e-3},
    {DT_BF16, 3e-2, 8e-3},
};

static cli_tolerance_t tolerance_of(const cli_tolerance_t *said, dt_dtype_t dtype) {
  cli_tolerance_t own = {.rtol = 0.13, .atol = CLI_ONNX_ATOL, .scale = 0.07};
  for (size_t k = 0; k < sizeof(usual) / sizeof(usual[0]); k++)
    if (usual[k].dtype == dtype)
      own = (cli_tolerance_t){usual[k].rtol, CLI_ONNX_ATOL, usual[k].scale};
  // Who says how far numbers may be apart means those near 0, too.
  return (cli_tolerance_t){said->rtol >= 0 ? said->rtol : own.rtol,
                           said->atol >= 0 ? said->atol : own.atol,
                           said->scale >= 0  ? said->scale
                           : said->atol >= 0 ? 0
                                             : own.scale};
}

static bool close_enough(double actual, double expected, const cli_tolerance_t *tolerance,
                         double largest) {
  if (isnan(actual) || isnan(expected))
    return isnan(actual) && isnan(expected);
  if (isinf(actual) || isinf(expected))
    return actual == expected;
  double allowed = tolerance->atol + tolerance->rtol * fabs(expected);
  return fabs(actual - expected) <= fmax(allowed, tolerance->scale * largest);
}

static void add_error(double actual, double expected, cli_errors_t *errors) {
  double away = fabs(actual - expected);
  if (!isfinite(away))
    return;
  errors->absolute = fmax(errors->absolute, away);
  if (expected != 0)
    errors->relative = fmax(errors->relative, away / fabs(expected));
}

// The largest finite number of the row that element `at` begins.
static double largest_of(const dt_tensor_t *tensor, int64_t at, int64_t row) {
  double largest = 0;
  for (int64_t k = at; k < at + row; k++) {
    double value = fabs(cli_element(dt_tensor_dtype(tensor), dt_tensor_data(tensor), k));
    largest = isfinite(value) ? fmax(largest, value) : largest;
  }
  return largest;
}

// "[2, 0, 1]" of an element's number.
static void index_text(const dt_tensor_t *tensor, int64_t at, char *out, size_t room) {
  int64_t index[DT_MAX_RANK];
  uint32_t rank = dt_tensor_rank(tensor);
  size_t len = 0;
  for (uint32_t d = rank; d-- > 0;) {
    index[d] = at % dt_tensor_sizes(tensor)[d];
    at /= dt_tensor_sizes(tensor)[d];
  }
  len += (size_t)snprintf(out, room, "[");
  for (uint32_t d = 0; d < rank; d++)
    len +=
        (size_t)snprintf(out + len, room - len, "%s%lld", d > 0 ? ", " : "", (long long)index[d]);
  (void)snprintf(out + len, room - len, "]");
}

static bool tell_different(const dt_tensor_t *actual, const dt_tensor_t *expected, int64_t n,
                           int64_t first, const cli_errors_t *errors, char reason[CLI_MESSAGE]) {
  char index[256], got[CLI_ELEMENT_TEXT], wanted[CLI_ELEMENT_TEXT], most[96] = "";
  dt_dtype_t dtype = dt_tensor_dtype(expected);
  index_text(expected, first, index, sizeof(index));
  cli_element_text(dtype, dt_tensor_data(actual), first, got);
  cli_element_text(dtype, dt_tensor_data(expected), first, wanted);
  if (cli_is_float(dtype))
    (void)snprintf(most, sizeof(most), "; at most %.3g absolute, %.3g relative", errors->absolute,
                   errors->relative);
  return cli_wrong(reason, "%lld of %lld elements differ, at first %s: %s, expected %s%s",
                   (long long)n, (long long)dt_tensor_count(expected), index, got, wanted, most);
}

// One row, or all elements that have no row.
static int64_t compare_row(const dt_tensor_t *actual, const dt_tensor_t *expected, int64_t at,
                           int64_t row, const cli_tolerance_t *tolerance, cli_errors_t *errors,
                           int64_t *first) {
  dt_dtype_t dtype = dt_tensor_dtype(expected);
  const void *a = dt_tensor_data(actual), *b = dt_tensor_data(expected);
  bool floats = cli_is_float(dtype);
  double largest = floats && tolerance->scale > 0 ? largest_of(expected, at, row) : 0;
  int64_t n = 0;
  for (int64_t k = at; k < at + row; k++) {
    bool equal = false;
    if (floats) {
      double x = cli_element(dtype, a, k), y = cli_element(dtype, b, k);
      add_error(x, y, errors);
      equal = close_enough(x, y, tolerance, largest);
    } else {
      equal = cli_element_integer(dtype, a, k) == cli_element_integer(dtype, b, k);
    }
    if (!equal && n++ == 0 && *first < 0)
      *first = k;
  }
  return n;
}

static bool compare_elements(const dt_tensor_t *actual, const dt_tensor_t *expected,
                             const cli_tolerance_t *tolerance, cli_errors_t *errors,
                             char reason[CLI_MESSAGE]) {
  uint32_t rank = dt_tensor_rank(expected);
  int64_t n = 0, first = -1, count = dt_tensor_count(expected);
  int64_t row = rank ? dt_tensor_sizes(expected)[rank - 1] : 1;
  cli_errors_t own = {0, 0};
  for (int64_t at = 0; at < count; at += row)
    n += compare_row(actual, expected, at, row, tolerance, &own, &first);
  if (errors) {
    errors->absolute = fmax(errors->absolute, own.absolute);
    errors->relative = fmax(errors->relative, own.relative);
  }
  return n == 0 || tell_different(actual, expected, n, first, &own, reason);
}

static bool compare_low(const dt_tensor_t *actual, const dt_tensor_t *expected,
                        const cli_tolerance_t *tolerance, cli_errors_t *errors,
                        char reason[CLI_MESSAGE]) {
  dt_tensor_t *a = NULL, *b = NULL;
  dt_status_t status = cli_widen(actual, &a);
  if (!status)
    status = cli_widen(expected, &b);
  bool same = status ? cli_wrong(reason, "%s", dt_status_message(status))
                     : compare_elements(a, b, tolerance, errors, reason);
  dt_status_free(status);
  dt_tensor_release(a);
  dt_tensor_release(b);
  return same;
}

bool cli_compare_sizes(const dt_tensor_t *actual, const dt_tensor_t *expected,
                       char reason[CLI_MESSAGE]) {
  char got[CLI_SIZES_TEXT], wanted[CLI_SIZES_TEXT];
  if (dt_tensor_dtype(expected) == dt_tensor_dtype(actual) && same_sizes(actual, expected))
    return true;
  cli_sizes_text(actual, got);
  cli_sizes_text(expected, wanted);
  return cli_wrong(reason, "%s, expected %s", got, wanted);
}

bool cli_compare(const dt_tensor_t *actual, const dt_tensor_t *expected,
                 const cli_tolerance_t *tolerance, cli_errors_t *errors, char reason[CLI_MESSAGE]) {
  dt_dtype_t dtype = dt_tensor_dtype(expected);
  if (!cli_compare_sizes(actual, expected, reason))
    return false;
  cli_tolerance_t own = tolerance_of(tolerance, dtype);
  return (cli_is_low(dtype) ? compare_low : compare_elements)(actual, expected, &own, errors,
                                                              reason);
}
