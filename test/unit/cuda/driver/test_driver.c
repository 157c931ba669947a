// SPDX-License-Identifier: Apache-2.0
// The driver table and devices, on the fake driver: what is read, what every failing call gives,
// and that nothing stays behind.
#include "test/support/check.h"

#include "test/fake_cuda/fake_cuda.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static const char *library;

static const dt_cuda_t *open_fake(void) {
  const dt_cuda_t *cuda = NULL;
  fake_cuda_reset(1);
  assert_null(dt__cuda_open(library, &cuda));
  return cuda;
}

static void a_device_tells_what_it_can_do(void **state) {
  (void)state;
  const dt_cuda_t *cuda = open_fake();
  assert_int_equal(cuda->version, 13000);
  dt_cuda_device_t *device = NULL;
  assert_null(dt__cuda_device_create(cuda, 1, &device));
  assert_string_equal(device->name, "Fake GPU 1");
  assert_int_equal(device->major, 9);
  assert_int_equal(device->processors, 132);
  assert_int_equal(device->shared_per_block, 232448);
  assert_int_equal(device->granularity, 2 << 20);
  assert_int_equal(fake_cuda_held(), 1);
  dt__cuda_device_destroy(device);
  assert_int_equal(fake_cuda_held(), 0);
  assert_int_equal(fake_cuda_violations(NULL), 0);
}

static void an_unknown_device_is_refused(void **state) {
  (void)state;
  const dt_cuda_t *cuda = open_fake();
  for (int ordinal = -1; ordinal <= 2; ordinal += 3) {
    dt_cuda_device_t *device = NULL;
    dt_status_t status = dt__cuda_device_create(cuda, ordinal, &device);
    assert_int_equal(dt_status_code(status), DT_E_UNSUPPORTED);
    assert_null(device);
    dt_status_free(status);
  }
  assert_int_equal(fake_cuda_held(), 0);
}

// Each function in turn, at each of its calls, until nothing fails any more.
static void every_failing_call_gives_a_status(void **state) {
  (void)state;
  const dt_cuda_t *cuda = open_fake();
  uint32_t failed = 0;
  for (int sym = 0; sym < DT_CUDA_SYM_COUNT; sym++) {
    for (uint64_t n = 0; n < 32; n++) {
      fake_cuda_reset(1);
      fake_cuda_fail((dt_cuda_sym_t)sym, n, DT_CU_OUT_OF_MEMORY, n % 2 == 1);
      dt_cuda_device_t *device = NULL;
      dt_status_t status = dt__cuda_device_create(cuda, 0, &device);
      if (!status) {
        dt__cuda_device_destroy(device);
        assert_int_equal(fake_cuda_held(), 0);
        break;
      }
      failed++;
      assert_null(device);
      assert_int_equal(dt_status_code(status), DT_E_NO_MEMORY);
      const char *name = dt__cuda_symbol((dt_cuda_sym_t)sym);
      assert_non_null(strstr(dt_status_message(status), name));
      dt_status_free(status);
      assert_int_equal(fake_cuda_held(), 0);
    }
  }
  assert_true(failed >= 15);
}

// Any number that a driver may answer with is a status about the device, with the number in it.
static void unknown_results_are_the_devices(void **state) {
  (void)state;
  const dt_cuda_t *cuda = open_fake();
  static const dt_cu_result_t more[] = {INT_MIN, -7, 12345, INT_MAX};
  for (dt_cu_result_t k = 1; k < 1004; k++) {
    dt_cu_result_t result = k < 1000 ? k : more[k - 1000];
    char number[24];
    (void)snprintf(number, sizeof(number), "(%d): ", result);
    dt_status_t status = dt__cuda_status(cuda, result, "cuAnything");
    dt_code_t code = dt_status_code(status);
    if (!strstr(dt_status_message(status), number) || code == DT_E_INTERNAL ||
        (k >= 1000 && code != DT_E_DEVICE) || (dt__cuda_is_fatal(result) && code != DT_E_DEVICE))
      fail_msg("%d: %s: %s", result, dt_code_name(code), dt_status_message(status));
    dt_status_free(status);
  }
  // It is not lost by that.
  dt_cuda_device_t *device = NULL;
  assert_null(dt__cuda_device_create(cuda, 0, &device));
  dt_status_t status = dt__cuda_check(device, 12345, "cuAnything");
  assert_int_equal(dt_status_code(status), DT_E_DEVICE);
  dt_status_free(status);
  assert_false(dt__cuda_is_lost(device));
  assert_null(dt__cuda_enter(device));
  dt__cuda_leave(device);
  dt__cuda_device_destroy(device);
  assert_int_equal(fake_cuda_held(), 0);
}

static void a_lost_context_fails_fast(void **state) {
  (void)state;
  const dt_cuda_t *cuda = open_fake();
  dt_cuda_device_t *device = NULL;
  assert_null(dt__cuda_device_create(cuda, 0, &device));
  assert_null(dt__cuda_enter(device));
  dt_cu_ptr_t ptr = 0;
  fake_cuda_fail(DT_CUDA_SYM_mem_alloc, 0, DT_CU_ILLEGAL_ADDRESS, true);
  dt_status_t status = dt__cuda_check(device, cuda->mem_alloc(&ptr, 64), "cuMemAlloc");
  assert_int_equal(dt_status_code(status), DT_E_DEVICE);
  assert_non_null(strstr(dt_status_message(status), "CUDA_ERROR_ILLEGAL_ADDRESS"));
  dt_status_free(status);
  dt__cuda_leave(device);
  uint64_t before = fake_cuda_calls(DT_CUDA_SYM_context_push);
  status = dt__cuda_enter(device);
  assert_int_equal(dt_status_code(status), DT_E_DEVICE);
  dt_status_free(status);
  assert_int_equal(fake_cuda_calls(DT_CUDA_SYM_context_push), before);
  dt__cuda_device_destroy(device);
  assert_int_equal(fake_cuda_held(), 0);
}

static void the_callers_context_stays_current(void **state) {
  (void)state;
  const dt_cuda_t *cuda = open_fake();
  dt_cuda_device_t *mine = NULL, *other = NULL;
  assert_null(dt__cuda_device_create(cuda, 0, &mine));
  assert_null(dt__cuda_device_create(cuda, 1, &other));
  dt_cu_context_t now = NULL;
  assert_null(dt__cuda_enter(mine));
  assert_null(dt__cuda_enter(other));
  assert_int_equal(cuda->context_current(&now), 0);
  assert_ptr_equal(now, other->context);
  dt__cuda_leave(other);
  assert_int_equal(cuda->context_current(&now), 0);
  assert_ptr_equal(now, mine->context);
  dt__cuda_leave(mine);
  assert_int_equal(cuda->context_current(&now), 0);
  assert_null(now);
  dt__cuda_device_destroy(mine);
  dt__cuda_device_destroy(other);
}

int main(int argc, char **argv) {
  assert_int_equal(argc, 2);
  library = argv[1];
  const struct CMUnitTest tests[] = {
      TEST(a_device_tells_what_it_can_do),     TEST(an_unknown_device_is_refused),
      TEST(every_failing_call_gives_a_status), TEST(unknown_results_are_the_devices),
      TEST(a_lost_context_fails_fast),         TEST(the_callers_context_stays_current),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
