// SPDX-License-Identifier: Apache-2.0
// Tensors over borrowed and owned memory: getters, lifetimes, rebinding, refusals.
#include "test/support/check.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"
#include "runtime/tensor/tensor.h"

#include <string.h>

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

static void count_release(void *user) { (*(int *)user)++; }

static void test_borrowed(void **state) {
  (void)state;
  float data[12] = {0};
  int released = 0;
  int64_t sizes[2] = {3, 4};
  dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                           .dtype = DT_F32,
                           .rank = 2,
                           .sizes = sizes,
                           .data = data,
                           .release = count_release,
                           .user = &released};
  dt_tensor_t *tensor;
  assert_null(dt_tensor_create(&desc, &tensor));
  sizes[0] = 99; // they were copied
  assert_int_equal(dt_tensor_dtype(tensor), DT_F32);
  assert_int_equal(dt_tensor_device(tensor), DT_CPU);
  assert_int_equal(dt_tensor_rank(tensor), 2);
  assert_int_equal(dt_tensor_sizes(tensor)[0], 3);
  assert_int_equal(dt_tensor_sizes(tensor)[1], 4);
  assert_int_equal(dt_tensor_strides(tensor)[0], 4);
  assert_int_equal(dt_tensor_strides(tensor)[1], 1);
  assert_ptr_equal(dt_tensor_data(tensor), data);
  assert_int_equal(dt_tensor_count(tensor), 12);
  assert_int_equal(dt__tensor_bytes(tensor), 48);
  assert_true(dt__tensor_is_contiguous(tensor));
  dt_tensor_retain(tensor);
  dt_tensor_release(tensor);
  assert_int_equal(released, 0);
  dt_tensor_release(tensor);
  assert_int_equal(released, 1);
  dt_tensor_retain(NULL);
  dt_tensor_release(NULL);
}

static void test_zeroed_desc(void **state) {
  (void)state;
  int64_t value = 5;
  dt_tensor_desc_t desc = {.dtype = DT_I64, .data = &value}; // struct_size 0, a scalar
  dt_tensor_t *tensor;
  assert_null(dt_tensor_create(&desc, &tensor));
  assert_int_equal(dt_tensor_rank(tensor), 0);
  assert_int_equal(dt_tensor_count(tensor), 1);
  dt_tensor_release(tensor);

  desc = (dt_tensor_desc_t){.dtype = DT_F32, .rank = 1, .sizes = DIMS(0)}; // no data needed
  assert_null(dt_tensor_create(&desc, &tensor));
  assert_int_equal(dt_tensor_count(tensor), 0);
  assert_null(dt_tensor_data(tensor));
  dt_tensor_release(tensor);
  desc.data = (char *)&value + 1; // nor an aligned one
  assert_null(dt_tensor_create(&desc, &tensor));
  dt_tensor_release(tensor);
}

static void test_refused(void **state) {
  (void)state;
  _Alignas(8) char data[64] = {0};
  int released = 0;
  const dt_tensor_desc_t good = {.struct_size = sizeof(good),
                                 .dtype = DT_F32,
                                 .rank = 1,
                                 .sizes = DIMS(4),
                                 .data = data,
                                 .release = count_release,
                                 .user = &released};
  dt_tensor_t *tensor = (dt_tensor_t *)data;
  expect_told(dt_tensor_create(NULL, &tensor), DT_E_ARGUMENT, "desc: NULL");
  assert_null(tensor);
  expect_told(dt_tensor_create(&good, NULL), DT_E_ARGUMENT, "out: NULL");

  dt_tensor_desc_t desc = good;
  desc.struct_size = 8;
  expect_told(dt_tensor_create(&desc, &tensor), DT_E_ARGUMENT, "struct_size: 8; expected 72");
  desc.struct_size = UINT32_MAX;
  expect_told(dt_tensor_create(&desc, &tensor), DT_E_ARGUMENT, "struct_size: 4294967295");
  desc = good;
  desc.device = (dt_device_t)DT_DEVICES;
  expect_told(dt_tensor_create(&desc, &tensor), DT_E_ARGUMENT, "device: 4");
  desc.device = (dt_device_t)7;
  expect_told(dt_tensor_create(&desc, &tensor), DT_E_ARGUMENT, "device: 7");
  desc = good;
  desc.dtype = (dt_dtype_t)50;
  expect_told(dt_tensor_create(&desc, &tensor), DT_E_DTYPE, "dtype: 50");
  desc = good;
  desc.rank = 9;
  expect_told(dt_tensor_create(&desc, &tensor), DT_E_SHAPE, "rank: 9; expected at most 8");
  desc = good;
  desc.sizes = DIMS(-4);
  expect_told(dt_tensor_create(&desc, &tensor), DT_E_SHAPE, "sizes[0]: -4");
  desc = good;
  desc.strides = DIMS(INT64_MAX);
  expect_told(dt_tensor_create(&desc, &tensor), DT_E_SHAPE, "strides[0]: 9223372036854775807");
  desc = good;
  desc.data = NULL;
  expect_told(dt_tensor_create(&desc, &tensor), DT_E_ARGUMENT, "data: NULL");
  desc = good;
  desc.data = data + 2;
  expect_told(dt_tensor_create(&desc, &tensor), DT_E_ARGUMENT, "not aligned to the 4 bytes of f32");
  desc.dtype = DT_I16;
  assert_null(dt_tensor_create(&desc, &tensor)); // two bytes are enough for this one
  assert_int_equal(released, 0);                 // no failure released anything
  dt_tensor_release(tensor);
  assert_int_equal(released, 1);
}

static void test_newer_desc(void **state) {
  (void)state;
  struct {
    dt_tensor_desc_t desc;
    uint64_t later;
  } newer = {.desc = {.struct_size = sizeof(newer), .dtype = DT_F32, .rank = 1, .sizes = DIMS(0)}};
  dt_tensor_t *tensor;
  assert_null(dt_tensor_create(&newer.desc, &tensor));
  dt_tensor_release(tensor);
  newer.later = 1;
  expect_told(dt_tensor_create(&newer.desc, &tensor), DT_E_UNSUPPORTED, "struct_size: 80");
}

static void test_owned(void **state) {
  (void)state;
  const int64_t rows[] = {0, 1, 2, 100, 100000};
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    dt_tensor_t *tensor;
    assert_null(dt_tensor_create_empty(DT_F64, 2, DIMS(rows[i], 3), &tensor));
    assert_int_equal((uintptr_t)dt_tensor_data(tensor) % 64, 0);
    assert_int_equal(dt_tensor_count(tensor), rows[i] * 3);
    assert_int_equal(dt_tensor_strides(tensor)[0], 3);
    memset(dt_tensor_data(tensor), 1, dt__tensor_bytes(tensor));
    dt_tensor_release(tensor);
  }
  dt_tensor_t *tensor = NULL;
  expect_told(dt_tensor_create_empty(DT_F64, 1, DIMS(-1), &tensor), DT_E_SHAPE, "sizes[0]: -1");
  expect_told(dt_tensor_create_empty(DT_DTYPE_NONE, 0, NULL, &tensor), DT_E_DTYPE, "dtype");
  expect_told(dt_tensor_create_empty(DT_F64, 0, NULL, NULL), DT_E_ARGUMENT, "out");
  expect_told(dt_tensor_create_empty(DT_I8, 1, DIMS(DT_SIZE_LIMIT), &tensor), DT_E_SHAPE,
              "sizes[0]");
  assert_null(tensor);
}

static void test_without_memory(void **state) {
  (void)state;
  dt_tensor_t *tensor;
  for (uint64_t n = 1; n <= 2; n++) {
    (void)dt__heap_fail_at(n, false);
    dt_status_t status = dt_tensor_create_empty(DT_F32, 1, DIMS(1000), &tensor);
    (void)dt__heap_fail_at(0, false);
    expect_told(status, DT_E_NO_MEMORY, "out of memory");
    assert_null(tensor);
  }
  float value = 0;
  int released = 0;
  dt_tensor_desc_t desc = {
      .dtype = DT_F32, .data = &value, .release = count_release, .user = &released};
  (void)dt__heap_fail_at(1, false);
  dt_status_t status = dt_tensor_create(&desc, &tensor);
  (void)dt__heap_fail_at(0, false);
  expect_told(status, DT_E_NO_MEMORY, "out of memory");
  assert_int_equal(released, 0);
}

static void test_rebind(void **state) {
  (void)state;
  float first[4] = {0}, second[6] = {0};
  int first_released = 0, second_released = 0;
  dt_tensor_desc_t desc = {.dtype = DT_F32,
                           .rank = 1,
                           .sizes = DIMS(4),
                           .data = first,
                           .release = count_release,
                           .user = &first_released};
  dt_tensor_t *tensor;
  assert_null(dt_tensor_create(&desc, &tensor));

  dt_tensor_desc_t other = {.dtype = DT_I32,
                            .rank = 2,
                            .sizes = DIMS(2, 3),
                            .strides = DIMS(1, 2),
                            .data = second,
                            .release = count_release,
                            .user = &second_released};
  dt_tensor_desc_t bad = other;
  bad.sizes = DIMS(2, -3);
  expect_told(dt_tensor_rebind(tensor, &bad), DT_E_SHAPE, "dt_tensor_rebind: sizes[1]: -3");
  expect_told(dt_tensor_rebind(tensor, NULL), DT_E_ARGUMENT, "desc: NULL");
  assert_int_equal(first_released, 0);
  assert_ptr_equal(dt_tensor_data(tensor), first);
  assert_int_equal(dt_tensor_rank(tensor), 1);
  assert_int_equal(dt_tensor_dtype(tensor), DT_F32);

  (void)dt__heap_fail_at(1, true); // it does not allocate
  dt_status_t status = dt_tensor_rebind(tensor, &other);
  (void)dt__heap_fail_at(0, false);
  assert_null(status);
  assert_int_equal(first_released, 1);
  assert_int_equal(dt_tensor_rank(tensor), 2);
  assert_int_equal(dt_tensor_dtype(tensor), DT_I32);
  assert_int_equal(dt_tensor_count(tensor), 6);
  assert_int_equal(dt_tensor_strides(tensor)[1], 2);
  assert_false(dt__tensor_is_contiguous(tensor));
  dt_tensor_release(tensor);
  assert_int_equal(first_released, 1);
  assert_int_equal(second_released, 1);

  expect_told(dt_tensor_rebind(NULL, &other), DT_E_ARGUMENT, "tensor: NULL");
  assert_null(dt_tensor_create_empty(DT_F32, 0, NULL, &tensor));
  expect_told(dt_tensor_rebind(tensor, &other), DT_E_ARGUMENT, "owns its memory");
  dt_tensor_release(tensor);
}

static void test_over_storage(void **state) {
  (void)state;
  dt_storage_t *storage;
  assert_null(dt__storage_create(64, &storage));
  assert_int_equal((uintptr_t)storage->data % 64, 0);
  dt_tensor_t *all, *part, *reversed, *none, *bad;
  assert_null(dt__tensor_create_over(storage, 0, DT_F32, 1, DIMS(16), NULL, &all));
  assert_null(dt__tensor_create_over(storage, 32, DT_F32, 2, DIMS(2, 4), NULL, &part));
  assert_null(dt__tensor_create_over(storage, 60, DT_F32, 1, DIMS(16), DIMS(-1), &reversed));
  assert_null(dt__tensor_create_over(storage, 64, DT_F32, 1, DIMS(0), NULL, &none));
  dt__storage_release(storage); // the tensors keep it
  ((float *)dt_tensor_data(all))[15] = 2.5f;
  assert_true(((float *)dt_tensor_data(part))[7] == 2.5f);
  assert_true(((float *)dt_tensor_data(reversed))[0] == 2.5f);
  expect_told(dt__tensor_create_over(storage, 4, DT_F32, 1, DIMS(16), NULL, &bad), DT_E_INTERNAL,
              "64 bytes");
  expect_told(dt__tensor_create_over(storage, 2, DT_F32, 1, DIMS(1), NULL, &bad), DT_E_INTERNAL,
              "offset 2");
  expect_told(dt__tensor_create_over(storage, 56, DT_F32, 1, DIMS(16), DIMS(-1), &bad),
              DT_E_INTERNAL, "-60");
  expect_told(dt__tensor_create_over(storage, 68, DT_F32, 1, DIMS(0), NULL, &bad), DT_E_INTERNAL,
              "offset 68");
  dt_tensor_release(all);
  dt_tensor_release(none);
  dt_tensor_release(reversed);
  assert_true(((float *)dt_tensor_data(part))[7] == 2.5f);
  dt_tensor_release(part);

  expect_told(dt__storage_create((size_t)DT_SIZE_LIMIT, &storage), DT_E_LIMIT, "limit");
  assert_null(storage);
  assert_null(dt__storage_create(0, &storage));
  dt__storage_retain(storage);
  dt__storage_release(storage);
  dt__storage_release(storage);
  dt__storage_retain(NULL);
  dt__storage_release(NULL);
}

static void *share(void *arg) {
  for (int i = 0; i < 10000; i++) {
    dt_tensor_retain(arg);
    dt_tensor_release(arg);
  }
  dt_tensor_release(arg);
  return NULL;
}

static void test_shared_between_threads(void **state) {
  (void)state;
  float value = 0;
  int released = 0;
  dt_tensor_desc_t desc = {
      .dtype = DT_F32, .data = &value, .release = count_release, .user = &released};
  dt_tensor_t *tensor;
  assert_null(dt_tensor_create(&desc, &tensor));
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) {
    dt_tensor_retain(tensor);
    assert_null(dt__thread_start(&threads[i], "share", false, share, tensor));
  }
  dt_tensor_release(tensor);
  for (int i = 0; i < 4; i++)
    (void)pthread_join(threads[i], NULL);
  assert_int_equal(released, 1);
}

RUN_TESTS(TEST(test_borrowed), TEST(test_zeroed_desc), TEST(test_refused), TEST(test_newer_desc),
          TEST(test_owned), TEST(test_without_memory), TEST(test_rebind), TEST(test_over_storage),
          TEST(test_shared_between_threads))
