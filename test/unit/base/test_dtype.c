// SPDX-License-Identifier: Apache-2.0
// Element types and the hash.
#include "test/support/check.h"

#include "runtime/base/dtype.h"
#include "runtime/base/hash.h"

#include <string.h>

static void test_known(void **state) {
  (void)state;
  const struct {
    dt_dtype_t dtype;
    const char *name;
    size_t bytes;
    dt_dtype_kind_t kind;
  } cases[] = {
      {DT_BOOL, "bool", 1, DT_KIND_BOOL},
      {DT_I8, "i8", 1, DT_KIND_SINT},
      {DT_I16, "i16", 2, DT_KIND_SINT},
      {DT_I32, "i32", 4, DT_KIND_SINT},
      {DT_I64, "i64", 8, DT_KIND_SINT},
      {DT_U8, "u8", 1, DT_KIND_UINT},
      {DT_U16, "u16", 2, DT_KIND_UINT},
      {DT_U32, "u32", 4, DT_KIND_UINT},
      {DT_U64, "u64", 8, DT_KIND_UINT},
      {DT_F32, "f32", 4, DT_KIND_FLOAT},
      {DT_F64, "f64", 8, DT_KIND_FLOAT},
      {DT_F16, "f16", 2, DT_KIND_FLOAT},
      {DT_BF16, "bf16", 2, DT_KIND_FLOAT},
      {DT_F8E4M3FN, "f8e4m3fn", 1, DT_KIND_FLOAT},
      {DT_F8E5M2, "f8e5m2", 1, DT_KIND_FLOAT},
      {DT_F8E4M3FNUZ, "f8e4m3fnuz", 1, DT_KIND_FLOAT},
      {DT_F8E5M2FNUZ, "f8e5m2fnuz", 1, DT_KIND_FLOAT},
      {DT_F8E8M0, "f8e8m0", 1, DT_KIND_FLOAT},
      {DT_F4E2M1, "f4e2m1", 1, DT_KIND_FLOAT},
      {DT_I4, "i4", 1, DT_KIND_SINT},
      {DT_U4, "u4", 1, DT_KIND_UINT},
      {DT_I2, "i2", 1, DT_KIND_SINT},
      {DT_U2, "u2", 1, DT_KIND_UINT},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    dt_dtype_t dtype = cases[i].dtype;
    dt_dtype_kind_t kind = cases[i].kind;
    assert_string_equal(dt_dtype_name(dtype), cases[i].name);
    assert_int_equal(dt_dtype_size(dtype), cases[i].bytes);
    assert_int_equal(dt__dtype_kind(dtype), kind);
    assert_int_equal(dt__dtype_parse(cases[i].name, strlen(cases[i].name)), dtype);
    assert_true(dt__dtype_is_valid(dtype));
    bool half = dtype == DT_F16 || dtype == DT_BF16;
    assert_int_equal(dt__dtype_is_half(dtype), half);
    assert_int_equal(dt__dtype_computed(dtype), half ? DT_F32 : dtype);
    assert_int_equal(dt__dtype_is_bool(dtype), kind == DT_KIND_BOOL);
    assert_int_equal(dt__dtype_is_float(dtype), kind == DT_KIND_FLOAT);
    assert_int_equal(dt__dtype_is_int(dtype), kind == DT_KIND_SINT || kind == DT_KIND_UINT);
    assert_int_equal(dt__dtype_is_signed(dtype), kind == DT_KIND_SINT || kind == DT_KIND_FLOAT);
  }
}

static void test_bounds(void **state) {
  (void)state;
  static const struct {
    dt_dtype_t dtype;
    int64_t low, high;
  } cases[] = {{DT_BOOL, 0, 1},
               {DT_I8, INT8_MIN, INT8_MAX},
               {DT_I16, INT16_MIN, INT16_MAX},
               {DT_I32, INT32_MIN, INT32_MAX},
               {DT_I64, INT64_MIN, INT64_MAX},
               {DT_U8, 0, UINT8_MAX},
               {DT_U16, 0, UINT16_MAX},
               {DT_U32, 0, UINT32_MAX},
               {DT_U64, 0, INT64_MAX},
               {DT_I4, -8, 7},
               {DT_U4, 0, 15},
               {DT_I2, -2, 1},
               {DT_U2, 0, 3}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    dt_dtype_bounds_t bounds = dt__dtype_bounds(cases[i].dtype);
    assert_true(bounds.low == cases[i].low && bounds.high == cases[i].high);
  }
}

static void test_unknown(void **state) {
  (void)state;
  const int values[] = {0, 24, 25, 26, 1000, -1};
  for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
    dt_dtype_t dtype = (dt_dtype_t)values[i];
    assert_string_equal(dt_dtype_name(dtype), "none");
    assert_int_equal(dt_dtype_size(dtype), 0);
    assert_false(dt__dtype_is_valid(dtype));
  }
  assert_int_equal(dt__dtype_parse("f32x", 4), DT_DTYPE_NONE);
  assert_int_equal(dt__dtype_parse("f32x", 3), DT_F32);
  assert_int_equal(dt__dtype_parse("none", 4), DT_DTYPE_NONE);
  assert_int_equal(dt__dtype_parse("", 0), DT_DTYPE_NONE);
}

static void test_hash(void **state) {
  (void)state;
  const char data[] = "some bytes that are hashed";
  uint64_t hash = dt__hash(data, sizeof(data), 0);
  assert_true(hash == dt__hash(data, sizeof(data), 0));
  assert_true(hash != dt__hash(data, sizeof(data), 1));
  assert_true(hash != dt__hash(data, sizeof(data) - 1, 0));
  assert_true(dt__hash(NULL, 0, 0) == dt__hash(data, 0, 0));
  assert_true(dt__hash_mix(1, 2) != dt__hash_mix(2, 1));
  assert_true(dt__hash_mix(1, 2) == dt__hash_mix(1, 2));
  assert_true(dt__hash_mix(0, 0) != 0);
}

RUN_TESTS(TEST(test_known), TEST(test_bounds), TEST(test_unknown), TEST(test_hash))
