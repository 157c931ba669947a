// SPDX-License-Identifier: Apache-2.0
// A machine without a driver: a status, always the same one.
#include "test/support/check.h"

#include "backend_cuda/driver/driver.h"

#include <string.h>

static void absence_is_a_status(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    const dt_cuda_t *cuda = (const dt_cuda_t *)(uintptr_t)1;
    dt_status_t status = dt__cuda_open("/nowhere/libcuda.so.1", &cuda);
    assert_int_equal(dt_status_code(status), DT_E_UNSUPPORTED);
    assert_non_null(strstr(dt_status_message(status), "no CUDA driver"));
    assert_non_null(strstr(dt_status_message(status), "/nowhere/libcuda.so.1"));
    assert_null(cuda);
    dt_status_free(status);
  }
}

RUN_TESTS(TEST(absence_is_a_status))
