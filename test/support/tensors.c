// SPDX-License-Identifier: Apache-2.0
// See tensors.h.
#include "test/support/tensors.h"

#include <math.h>
#include <string.h>

dt_tensor_t *tensor_empty(dt_dtype_t dtype, uint32_t rank, const int64_t *sizes) {
  dt_tensor_t *tensor = NULL;
  expect_ok(dt_tensor_create_empty(dtype, rank, sizes, &tensor));
  return tensor;
}

dt_tensor_t *tensor_from(dt_dtype_t dtype, uint32_t rank, const int64_t *sizes, const void *data) {
  dt_tensor_t *tensor = tensor_empty(dtype, rank, sizes);
  size_t bytes = dt_tensor_bytes(tensor);
  if (bytes)
    memcpy(dt_tensor_data(tensor), data, bytes);
  return tensor;
}

dt_tensor_t *tensor_i64(uint32_t rank, const int64_t *sizes, const int64_t *values) {
  return tensor_from(DT_I64, rank, sizes, values);
}

dt_tensor_t *tensor_integer(int64_t value) { return tensor_i64(0, NULL, &value); }

dt_tensor_t *tensor_boolean(bool value) { return tensor_from(DT_BOOL, 0, NULL, &value); }

dt_tensor_t *tensor_f32(rng_t *rng, uint32_t rank, const int64_t *sizes) {
  dt_tensor_t *tensor = tensor_empty(DT_F32, rank, sizes);
  float *data = dt_tensor_data(tensor);
  for (int64_t i = 0; i < dt_tensor_count(tensor); i++)
    data[i] = rng_float(rng);
  return tensor;
}

dt_tensor_t *tensor_full(float value, uint32_t rank, const int64_t *sizes) {
  dt_tensor_t *tensor = tensor_empty(DT_F32, rank, sizes);
  float *data = dt_tensor_data(tensor);
  for (int64_t i = 0; i < dt_tensor_count(tensor); i++)
    data[i] = value;
  return tensor;
}

dt_tensor_t *tensor_over(dt_dtype_t dtype, uint32_t rank, const int64_t *sizes,
                         const int64_t *strides, void *data) {
  dt_tensor_desc_t desc = {
      .dtype = dtype, .rank = rank, .sizes = sizes, .strides = strides, .data = data};
  dt_tensor_t *tensor = NULL;
  expect_ok(dt_tensor_create(&desc, &tensor));
  return tensor;
}

dt_tensor_t *tensor_transposed(dt_tensor_t *base) {
  int64_t sizes[DT_MAX_RANK], strides[DT_MAX_RANK];
  uint32_t rank = dt_tensor_rank(base);
  for (uint32_t k = 0; k < rank; k++) {
    uint32_t from = k == 0 ? 1 : k == 1 ? 0 : k;
    sizes[k] = dt_tensor_sizes(base)[from];
    strides[k] = dt_tensor_strides(base)[from];
  }
  return tensor_over(dt_tensor_dtype(base), rank, sizes, strides, dt_tensor_data(base));
}

void release_tensors(dt_tensor_t *const *tensors, size_t n) {
  for (size_t k = 0; k < n; k++)
    dt_tensor_release(tensors[k]);
}

void expect_sizes(const dt_tensor_t *tensor, uint32_t rank, const int64_t *sizes) {
  assert_int_equal(dt_tensor_rank(tensor), rank);
  for (uint32_t k = 0; k < rank; k++)
    assert_int_equal(dt_tensor_sizes(tensor)[k], sizes[k]);
}

void expect_close(dt_tensor_t *actual, dt_tensor_t *expected, double atol, double rtol,
                  const char *what) {
  expect_sizes(actual, dt_tensor_rank(expected), dt_tensor_sizes(expected));
  const float *got = dt_tensor_data(actual), *want = dt_tensor_data(expected);
  for (int64_t i = 0; i < dt_tensor_count(actual); i++) {
    if (isnan(got[i]) && isnan(want[i]))
      continue;
    double difference = fabs((double)got[i] - (double)want[i]);
    if (got[i] != want[i] && !(difference <= atol + rtol * fabs((double)want[i]))) {
      print_error("%s: element %lld: got %.9g; expected %.9g\n", what, (long long)i, (double)got[i],
                  (double)want[i]);
      fail();
    }
  }
}
