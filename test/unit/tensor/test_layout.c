// SPDX-License-Identifier: Apache-2.0
// Layouts: canonical strides, contiguity, the span of strided elements, and every refusal.
#include "test/support/check.h"

#include "runtime/tensor/tensor.h"

#include <string.h>

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})
#define LIMIT DT_SIZE_LIMIT

typedef struct case_t {
  const char *what;
  dt_dtype_t dtype;
  uint32_t rank;
  const int64_t *sizes, *strides, *expected; // expected: canonical strides
  int64_t count;
  bool contiguous;
  int64_t low, high;
} case_t;

static void test_accepted(void **state) {
  (void)state;
  const case_t cases[] = {
      {"scalar", DT_F32, 0, NULL, NULL, DIMS(0), 1, true, 0, 4},
      {"vector", DT_F64, 1, DIMS(5), NULL, DIMS(1), 5, true, 0, 40},
      {"matrix", DT_F32, 2, DIMS(3, 4), NULL, DIMS(4, 1), 12, true, 0, 48},
      {"matrix told", DT_F32, 2, DIMS(3, 4), DIMS(4, 1), DIMS(4, 1), 12, true, 0, 48},
      {"transposed", DT_F32, 2, DIMS(3, 4), DIMS(1, 3), DIMS(1, 3), 12, false, 0, 48},
      {"broadcast", DT_I8, 2, DIMS(3, 4), DIMS(0, 1), DIMS(0, 1), 12, false, 0, 4},
      {"reversed", DT_I32, 1, DIMS(5), DIMS(-1), DIMS(-1), 5, false, -16, 4},
      {"both ways", DT_I16, 2, DIMS(3, 5), DIMS(10, -2), DIMS(10, -2), 15, false, -16, 42},
      {"ones", DT_F32, 3, DIMS(1, 4, 1), DIMS(77, 1, -9), DIMS(4, 1, 1), 4, true, 0, 16},
      {"all ones", DT_F32, 2, DIMS(1, 1), DIMS(INT64_MIN, INT64_MAX), DIMS(1, 1), 1, true, 0, 4},
      {"gap", DT_F32, 2, DIMS(2, 3), DIMS(5, 1), DIMS(5, 1), 6, false, 0, 32},
      {"empty", DT_F32, 1, DIMS(0), DIMS(9), DIMS(1), 0, true, 0, 0},
      {"empty inner", DT_F32, 3, DIMS(3, 0, 4), DIMS(9, 9, 9), DIMS(0, 4, 1), 0, true, 0, 0},
      {"empty, wild strides", DT_F32, 2, DIMS(0, 5), DIMS(INT64_MAX, INT64_MIN), DIMS(5, 1), 0,
       true, 0, 0},
      {"rank 8", DT_U8, 8, DIMS(2, 1, 2, 1, 2, 1, 2, 1), NULL, DIMS(8, 8, 4, 4, 2, 2, 1, 1), 16,
       true, 0, 16},
      {"largest", DT_I8, 1, DIMS(LIMIT - 1), NULL, DIMS(1), LIMIT - 1, true, 0, LIMIT - 1},
      {"largest span", DT_I8, 1, DIMS(2), DIMS(LIMIT - 2), DIMS(LIMIT - 2), 2, false, 0, LIMIT - 1},
      {"large by broadcast", DT_F64, 2, DIMS(1 << 20, 1 << 20), DIMS(0, 0), DIMS(0, 0),
       (int64_t)1 << 40, false, 0, 8},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    const case_t *c = &cases[i];
    dt_layout_t layout;
    dt_status_t status = dt__layout_set(&layout, c->dtype, c->rank, c->sizes, c->strides);
    if (status)
      fail_msg("%s: %s", c->what, dt_status_message(status));
    for (uint32_t dim = 0; dim < DT_MAX_RANK; dim++) {
      int64_t size = dim < c->rank ? c->sizes[dim] : 0;
      int64_t stride = dim < c->rank ? c->expected[dim] : 0;
      if (layout.sizes[dim] != size || layout.strides[dim] != stride)
        fail_msg("%s dim %u: got %lld:%lld, expected %lld:%lld", c->what, dim,
                 (long long)layout.sizes[dim], (long long)layout.strides[dim], (long long)size,
                 (long long)stride);
    }
    if (layout.count != c->count || layout.contiguous != c->contiguous || layout.low != c->low ||
        layout.high != c->high)
      fail_msg("%s: got count %lld contiguous %d bytes [%lld, %lld), expected %lld %d [%lld, %lld)",
               c->what, (long long)layout.count, layout.contiguous, (long long)layout.low,
               (long long)layout.high, (long long)c->count, c->contiguous, (long long)c->low,
               (long long)c->high);
    assert_int_equal(layout.dtype, c->dtype);
    assert_int_equal(layout.rank, c->rank);
  }
}

typedef struct refusal_t {
  dt_code_t code;
  dt_dtype_t dtype;
  uint32_t rank;
  const int64_t *sizes, *strides;
  const char *says[3];
} refusal_t;

static void test_refused(void **state) {
  (void)state;
  const refusal_t cases[] = {
      {DT_E_DTYPE, DT_DTYPE_NONE, 0, NULL, NULL, {"dtype", "0", "no element type"}},
      {DT_E_DTYPE, (dt_dtype_t)24, 0, NULL, NULL, {"dtype", "24", ""}},
      {DT_E_SHAPE, DT_U4, 1, DIMS(3), DIMS(2), {"strides[0]", "u4", "contiguous stride 1"}},
      {DT_E_SHAPE, DT_U2, 2, DIMS(LIMIT / 2, 5), NULL, {"from dim 0", "140737488355328", ""}},
      {DT_E_SHAPE, DT_F32, 9, DIMS(1, 1, 1, 1, 1, 1, 1, 1, 1), NULL, {"rank", "9", "8"}},
      {DT_E_SHAPE, DT_F32, UINT32_MAX, DIMS(1), NULL, {"rank", "4294967295", "8"}},
      {DT_E_ARGUMENT, DT_F32, 2, NULL, NULL, {"sizes", "NULL", "2"}},
      {DT_E_SHAPE, DT_F32, 2, DIMS(3, -1), NULL, {"sizes[1]", "-1", "0 or more"}},
      {DT_E_SHAPE, DT_F32, 2, DIMS(INT64_MIN, 1), NULL, {"sizes[0]", "-9223372036854775808", ""}},
      {DT_E_SHAPE, DT_I8, 1, DIMS(LIMIT), NULL, {"sizes[0]", "140737488355328", "less than"}},
      {DT_E_SHAPE, DT_I8, 1, DIMS(INT64_MAX), NULL, {"sizes[0]", "9223372036854775807", ""}},
      {DT_E_SHAPE, DT_F64, 1, DIMS(LIMIT / 8), NULL, {"140737488355328 bytes of f64", "less", ""}},
      {DT_E_SHAPE, DT_I8, 2, DIMS(LIMIT / 2, 2), NULL, {"from dim 0", "140737488355328", ""}},
      {DT_E_SHAPE, DT_I8, 2, DIMS(LIMIT - 1, LIMIT - 1), NULL, {"more than", "from dim 0", ""}},
      {DT_E_SHAPE, DT_I8, 3, DIMS(0, LIMIT - 1, LIMIT - 1), NULL, {"from dim 1", "counted", ""}},
      {DT_E_SHAPE, DT_I8, 1, DIMS(2), DIMS(LIMIT - 1), {"strides[0]", "140737488355327", "span"}},
      {DT_E_SHAPE, DT_I8, 1, DIMS(2), DIMS(-(LIMIT - 1)), {"strides[0]", "-140737488355327", ""}},
      {DT_E_SHAPE, DT_F32, 1, DIMS(3), DIMS(INT64_MAX), {"strides[0]", "size 3", ""}},
      {DT_E_SHAPE, DT_F32, 1, DIMS(2), DIMS(INT64_MIN), {"strides[0]", "size 2", ""}},
      {DT_E_SHAPE, DT_F32, 1, DIMS(2), DIMS(INT64_MAX / 4), {"strides[0]", "", ""}},
      {DT_E_SHAPE, DT_I8, 2, DIMS(2, 2), DIMS(LIMIT / 2, -LIMIT / 2), {"strides[1]", "span", ""}},
      {DT_E_SHAPE, DT_I8, 2, DIMS(2, 2), DIMS(INT64_MAX - 1, -2), {"strides[0]", "span", ""}},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    const refusal_t *c = &cases[i];
    dt_layout_t layout, before;
    memset(&layout, 0xAB, sizeof(layout));
    memcpy(&before, &layout, sizeof(layout));
    dt_status_t status = dt__layout_set(&layout, c->dtype, c->rank, c->sizes, c->strides);
    if (dt_status_code(status) != c->code)
      fail_msg("case %zu: got %s '%s', expected %s", i, dt_code_name(dt_status_code(status)),
               dt_status_message(status), dt_code_name(c->code));
    for (int s = 0; s < 3; s++)
      if (c->says[s] && !strstr(dt_status_message(status), c->says[s]))
        fail_msg("case %zu: '%s' does not say '%s'", i, dt_status_message(status), c->says[s]);
    assert_memory_equal(&layout, &before, sizeof(layout));
    dt_status_free(status);
  }
}

RUN_TESTS(TEST(test_accepted), TEST(test_refused))
