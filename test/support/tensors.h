// SPDX-License-Identifier: Apache-2.0
// Tensors of a test's own numbers, and what is expected of answers. For every test that calls.
#ifndef DT_TESTS_SUPPORT_TENSORS_H
#define DT_TESTS_SUPPORT_TENSORS_H

#include "ductile/tensor.h"
#include "test/support/check.h"
#include "test/support/random.h"

#define SIZES(...) ((const int64_t[]){__VA_ARGS__})
#define VALUES(...) SIZES(__VA_ARGS__) // of i64

// ---- Contiguous tensors in the library's own memory -----------------------------------------------
dt_tensor_t *tensor_empty(dt_dtype_t dtype, uint32_t rank, const int64_t *sizes);
// Elements are copied from `data`.
dt_tensor_t *tensor_from(dt_dtype_t dtype, uint32_t rank, const int64_t *sizes, const void *data);
dt_tensor_t *tensor_i64(uint32_t rank, const int64_t *sizes, const int64_t *values);
dt_tensor_t *tensor_integer(int64_t value); // rank 0
dt_tensor_t *tensor_boolean(bool value);
dt_tensor_t *tensor_f32(rng_t *rng, uint32_t rank, const int64_t *sizes);
dt_tensor_t *tensor_full(float value, uint32_t rank, const int64_t *sizes);

// ---- Tensors over other memory --------------------------------------------------------------------
// Strides NULL: contiguous.
dt_tensor_t *tensor_over(dt_dtype_t dtype, uint32_t rank, const int64_t *sizes,
                         const int64_t *strides, void *data);
// Elements of `base` seen with its first two dims exchanged; `base` must outlive it.
dt_tensor_t *tensor_transposed(dt_tensor_t *base);

// ---- The end of them ------------------------------------------------------------------------------
void release_tensors(dt_tensor_t *const *tensors, size_t n);
#define RELEASE(...)                                                                               \
  release_tensors((dt_tensor_t *const[]){__VA_ARGS__},                                             \
                  sizeof((dt_tensor_t *const[]){__VA_ARGS__}) / sizeof(dt_tensor_t *))

// ---- Answers --------------------------------------------------------------------------------------
void expect_sizes(const dt_tensor_t *tensor, uint32_t rank, const int64_t *sizes);
// Every element of the f32 tensors within atol + rtol * |expected|, NaN like NaN, sizes equal.
void expect_close(dt_tensor_t *actual, dt_tensor_t *expected, double atol, double rtol,
                  const char *what);

#endif // DT_TESTS_SUPPORT_TENSORS_H
