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

static bool close_enough(double actual, double expected, double rtol, double atol) {
  if (isnan(actual) || isnan(expected))
    return isnan(actual) && isnan(expected);
  if (isinf(actual) || isinf(expected))
    return actual == expected;
  return fabs(actual - expected) <= atol + rtol * fabs(expected);
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
                           int64_t first, char reason[CLI_MESSAGE]) {
  char index[256], got[CLI_ELEMENT_TEXT], wanted[CLI_ELEMENT_TEXT];
  dt_dtype_t dtype = dt_tensor_dtype(expected);
  index_text(expected, first, index, sizeof(index));
  cli_element_text(dtype, dt_tensor_data(actual), first, got);
  cli_element_text(dtype, dt_tensor_data(expected), first, wanted);
  return cli_wrong(reason, "%lld of %lld elements differ, at first %s: %s, expected %s",
                   (long long)n, (long long)dt_tensor_count(expected), index, got, wanted);
}

static bool compare_elements(const dt_tensor_t *actual, const dt_tensor_t *expected, double rtol,
                             double atol, char reason[CLI_MESSAGE]) {
  dt_dtype_t dtype = dt_tensor_dtype(expected);
  const void *a = dt_tensor_data(actual), *b = dt_tensor_data(expected);
  int64_t n = 0, first = 0;
  for (int64_t k = 0; k < dt_tensor_count(expected); k++) {
    bool equal = cli_is_float(dtype)
                     ? close_enough(cli_element(dtype, a, k), cli_element(dtype, b, k), rtol, atol)
                     : cli_element_integer(dtype, a, k) == cli_element_integer(dtype, b, k);
    if (equal)
      continue;
    if (n++ == 0)
      first = k;
  }
  return n == 0 || tell_different(actual, expected, n, first, reason);
}

static bool compare_low(const dt_tensor_t *actual, const dt_tensor_t *expected, double rtol,
                        double atol, char reason[CLI_MESSAGE]) {
  dt_tensor_t *a = NULL, *b = NULL;
  dt_status_t status = cli_widen(actual, &a);
  if (!status)
    status = cli_widen(expected, &b);
  bool same = status ? cli_wrong(reason, "%s", dt_status_message(status))
                     : compare_elements(a, b, rtol, atol, reason);
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

bool cli_compare(const dt_tensor_t *actual, const dt_tensor_t *expected, double rtol, double atol,
                 char reason[CLI_MESSAGE]) {
  dt_dtype_t dtype = dt_tensor_dtype(expected);
  if (!cli_compare_sizes(actual, expected, reason))
    return false;
  return cli_is_low(dtype) ? compare_low(actual, expected, rtol, atol, reason)
                           : compare_elements(actual, expected, rtol, atol, reason);
}
