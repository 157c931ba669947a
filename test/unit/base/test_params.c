// SPDX-License-Identifier: Apache-2.0
// Parameters: defaults, overrides, refusals that name variable, value and range.
#include "test/support/check.h"

#include "runtime/base/params.h"
#include "test/support/param_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int clear_environment(void **state) {
  (void)state;
  size_t n = 0;
  const dt_param_row_t *rows = dt__params_rows(&n);
  for (size_t i = 0; i < n; i++) {
    char name[64];
    (void)snprintf(name, sizeof(name), "DUCTILE_%s", rows[i].name);
    unsetenv(name);
  }
  return 0;
}

static void test_defaults(void **state) {
  (void)state;
  dt_params_t params;
  memset(&params, 0xAB, sizeof(params));
  assert_null(dt__params_load(&params));
  assert_string_equal(params.log, "");
  assert_string_equal(params.dump_dir, "ductile-dump");
  assert_int_equal(params.threads, 0);
  assert_int_equal(params.variant_limit, 32);
  assert_false(params.strict_fp);
}

static void test_overrides(void **state) {
  (void)state;
  setenv("DUCTILE_THREADS", "1024", 1);
  setenv("DUCTILE_VARIANT_LIMIT", "1", 1);
  setenv("DUCTILE_STRICT_FP", "on", 1);
  setenv("DUCTILE_VERIFY", "0", 1);
  setenv("DUCTILE_LOG", "guards:2,recompiles", 1);
  setenv("DUCTILE_DUMP_DIR", "", 1); // empty counts as unset
  dt_params_t params;
  assert_null(dt__params_load(&params));
  assert_int_equal(params.threads, 1024);
  assert_int_equal(params.variant_limit, 1);
  assert_true(params.strict_fp);
  assert_false(params.verify);
  assert_string_equal(params.log, "guards:2,recompiles");
  assert_string_equal(params.dump_dir, "ductile-dump");
}

static void check_refused(const char *name, const char *value, const char *range) {
  setenv(name, value, 1);
  dt_params_t params;
  expect_parts(dt__params_load(&params), DT_E_ARGUMENT, EACH_OF(name, value, range));
  unsetenv(name);
}

static void test_refusals(void **state) {
  (void)state;
  check_refused("DUCTILE_THREADS", "1025", "0 to 1024");
  check_refused("DUCTILE_THREADS", "-1", "0 to 1024");
  check_refused("DUCTILE_THREADS", "4x", "0 to 1024");
  check_refused("DUCTILE_THREADS", "four", "0 to 1024");
  check_refused("DUCTILE_THREADS", "99999999999999999999", "0 to 1024");
  check_refused("DUCTILE_VARIANT_LIMIT", "0", "1 to 4096");
  check_refused("DUCTILE_VERIFY", "2", "0 or 1");
  char text[300];
  memset(text, 'a', sizeof(text) - 1);
  text[256] = '\0';
  setenv("DUCTILE_CPU", text, 1);
  dt_params_t params;
  expect_told(dt__params_load(&params), DT_E_ARGUMENT,
              "DUCTILE_CPU has 256 characters, at most 255");
  text[255] = '\0';
  setenv("DUCTILE_CPU", text, 1);
  assert_null(dt__params_load(&params));
  assert_string_equal(params.cpu, text);
}

static void test_rows(void **state) {
  (void)state;
  size_t n = 0;
  const dt_param_row_t *rows = dt__params_rows(&n);
  expect_param_rows(rows, n, sizeof(dt_params_t));
}

RUN_TESTS(cmocka_unit_test_setup(test_defaults, clear_environment),
          cmocka_unit_test_setup(test_overrides, clear_environment),
          cmocka_unit_test_setup(test_refusals, clear_environment),
          cmocka_unit_test_setup(test_rows, clear_environment))
