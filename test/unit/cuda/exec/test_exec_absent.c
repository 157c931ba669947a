// SPDX-License-Identifier: Apache-2.0
// A machine without a CUDA driver: devices are refused with a status that names the library, and
// the CPU works.
#include "test/support/check.h"

#include "ductile/ductile.h"

#include <string.h>

static void expect_absent(dt_status_t status) {
  assert_int_equal(dt_status_code(status), DT_E_UNSUPPORTED);
  assert_non_null(strstr(dt_status_message(status), "no CUDA driver"));
  assert_non_null(strstr(dt_status_message(status), "/nowhere/libcuda.so.1"));
  dt_status_free(status);
}

static void devices_are_refused(void **state) {
  (void)state;
  dt_runtime_t *runtime = NULL;
  dt_session_t *session = (dt_session_t *)(uintptr_t)1;
  dt_device_info_t info = {.struct_size = sizeof(info)};
  int32_t count = 7;
  assert_null(dt_runtime_create(NULL, &runtime));
  expect_absent(dt_device_count(runtime, DT_CUDA, &count));
  assert_int_equal(count, 0);
  expect_absent(dt_device_info(runtime, DT_CUDA, 0, &info));
  dt_session_options_t options = {.device = DT_CUDA};
  expect_absent(dt_session_create(runtime, &options, &session));
  assert_null(session);
  assert_null(dt_session_create(runtime, NULL, &session));
  dt_session_destroy(session);
  dt_runtime_release(runtime);
}

RUN_TESTS(TEST(devices_are_refused))
