// SPDX-License-Identifier: Apache-2.0
// Every row of reductions.def: the value it starts from changes no value of any dtype that it
// takes.
#include "test/support/check.h"

#include "lower/loop/loop.h"
#include "runtime/base/dtype.h"

#include <math.h>

static bool equal(dt_dtype_t dtype, dt_scalar_t a, dt_scalar_t b) {
  if (!dt__dtype_is_float(dtype))
    return a.i == b.i;
  return a.f == b.f || (isnan(a.f) && isnan(b.f));
}

// Zero, one, the ends of the dtype and, of floats, NaN.
static uint32_t some_values(dt_dtype_t dtype, dt_scalar_t *out) {
  const dt_scalar_t zero = {.i = 0}, one = {.i = 1}, nan = {.f = NAN};
  uint32_t n = 0;
  out[n++] = dt__scalar_cast(DT_I64, dtype, zero);
  out[n++] = dt__scalar_cast(DT_I64, dtype, one);
  out[n++] = dt__scalar_lowest(dtype);
  out[n++] = dt__scalar_highest(dtype);
  if (dt__dtype_is_float(dtype))
    out[n++] = nan;
  return n;
}

static void check_start(dt_reduction_kind_t kind, dt_dtype_t dtype) {
  const dt_reduction_info_t *info = dt__reduction_info(kind);
  dt_scalar_t values[8], start = dt__reduction_identity(kind, dtype);
  uint32_t n = some_values(dtype, values);
  for (uint32_t v = 0; v < n; v++) {
    const dt_scalar_t pair[2] = {start, values[v]};
    dt_scalar_t joined = dt__scalar_eval(info->combine, dtype, pair);
    // Of a place, the combination says whether the start beats the value.
    bool right = info->place ? joined.i == 0 : equal(dtype, joined, values[v]);
    if (!right)
      print_error("reduction %s of %s starts from a value that changes value %u\n", info->name,
                  dt_dtype_name(dtype), v);
    assert_true(right);
  }
}

static void test_starts(void **state) {
  (void)state;
  for (int kind = 0; kind < DT_REDUCE_COUNT; kind++)
    for (int dtype = 1; dtype < DT_LOW_DTYPES; dtype++)
      if (dt__dtype_is_valid((dt_dtype_t)dtype) &&
          !dt__reduction_is_last((dt_reduction_kind_t)kind) &&
          dt__reduction_info((dt_reduction_kind_t)kind)->logic == (dtype == DT_BOOL))
        check_start((dt_reduction_kind_t)kind, (dt_dtype_t)dtype);
}

// One that joins nothing takes any dtype, since its values say how they are joined.
static void test_last(void **state) {
  (void)state;
  const dt_reduction_info_t *last = dt__reduction_info(DT_REDUCE_LAST);
  assert_true(last->numbers && last->logic && !last->place && !last->ordered);
  assert_true(dt__reduction_is_last(DT_REDUCE_LAST));
  for (int kind = 0; kind < DT_REDUCE_COUNT; kind++) {
    const dt_reduction_info_t *info = dt__reduction_info((dt_reduction_kind_t)kind);
    if (kind != DT_REDUCE_LAST)
      assert_true(!dt__reduction_is_last((dt_reduction_kind_t)kind) &&
                  info->numbers != info->logic);
  }
  assert_false(dt__reduction_is_last(DT_REDUCE_COUNT));
}

static void test_names(void **state) {
  (void)state;
  for (int kind = 0; kind < DT_REDUCE_COUNT; kind++)
    assert_non_null(dt__reduction_info((dt_reduction_kind_t)kind)->name);
  assert_null(dt__reduction_info(DT_REDUCE_COUNT));
}

static void test_ends(void **state) {
  (void)state;
  assert_int_equal(dt__scalar_lowest(DT_I8).i, -128);
  assert_int_equal(dt__scalar_highest(DT_I8).i, 127);
  assert_int_equal(dt__scalar_lowest(DT_U16).i, 0);
  assert_int_equal(dt__scalar_highest(DT_U16).i, 65535);
  assert_int_equal(dt__scalar_lowest(DT_I64).i, INT64_MIN);
  assert_int_equal(dt__scalar_highest(DT_I64).i, INT64_MAX);
  assert_int_equal((uint64_t)dt__scalar_highest(DT_U64).i, UINT64_MAX);
  assert_true(dt__scalar_highest(DT_BF16).f == INFINITY);
  assert_true(dt__scalar_lowest(DT_F64).f == -INFINITY);
}

RUN_TESTS(TEST(test_starts), TEST(test_last), TEST(test_names), TEST(test_ends))
