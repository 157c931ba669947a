// SPDX-License-Identifier: Apache-2.0
// CUDA's own parameters: every row takes its range and nothing else, and a runtime asks for them.
#include "test/support/check.h"

#include "backend_cuda/place/params.h"
#include "ductile/ductile.h"
#include "test/support/param_rows.h"

#include <stdlib.h>

static void test_rows(void **state) {
  (void)state;
  size_t n = 0;
  const dt_param_row_t *rows = dt__cuda_params_rows(&n);
  assert_in_range(n, 1, 64);
  expect_param_rows(rows, n, sizeof(dt_cuda_params_t));
}

static void expect_no_runtime(const char *name, const char *value, const char *range) {
  dt_runtime_t *runtime = (dt_runtime_t *)(uintptr_t)1;
  assert_int_equal(setenv(name, value, 1), 0);
  expect_parts(dt_runtime_create(NULL, &runtime), DT_E_ARGUMENT, EACH_OF(name, value, range));
  assert_null(runtime);
  (void)unsetenv(name);
}

// Also where there is no device: what is said is wrong whether it matters today or not.
static void test_runtimes_refuse(void **state) {
  (void)state;
  expect_no_runtime("DUCTILE_GRAPH_MIB", "-1", "from 0 to 1048576");
  expect_no_runtime("DUCTILE_GRAPH_CODES", "-2", "from -1 to 1048576");
  expect_no_runtime("DUCTILE_CUDA_POOL_MIB", "1048577", "from 0 to 1048576");
  expect_no_runtime("DUCTILE_GRAPHS", "maybe", "0 or 1");
  expect_no_runtime("DUCTILE_EARLY_LAUNCH", "2", "0 or 1");
  dt_runtime_t *runtime = NULL;
  expect_ok(dt_runtime_create(NULL, &runtime));
  dt_runtime_release(runtime);
}

RUN_TESTS(TEST(test_rows), TEST(test_runtimes_refuse))
