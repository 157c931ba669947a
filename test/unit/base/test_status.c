// SPDX-License-Identifier: Apache-2.0
// Statuses: codes, messages, context, ownership, and what is left of them without memory.
#include "test/support/check.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <string.h>

static void test_ok_is_null(void **state) {
  (void)state;
  assert_int_equal(dt_status_code(NULL), DT_OK);
  assert_string_equal(dt_status_message(NULL), "");
  assert_string_equal(dt__status_file(NULL), "");
  dt_status_free(NULL);
  assert_null(dt__status_annotate(NULL, "context %d", 1));
  assert_null(dt__status_join(NULL, NULL));
  assert_null(dt__status_recode(NULL, DT_E_IO));
  assert_null(dt__status_clone(NULL));
}

static void test_make(void **state) {
  (void)state;
  dt_status_t status = DT_FAIL(DT_E_SHAPE, "size %d, expected %s", 3, "4");
  int line = __LINE__ - 1;
  assert_int_equal(dt_status_code(status), DT_E_SHAPE);
  assert_string_equal(dt_status_message(status), "size 3, expected 4");
  assert_int_equal(dt__status_line(status), line);
  assert_non_null(strstr(dt__status_file(status), "test_status.c"));
  dt_status_free(status);
}

static void test_long_message(void **state) {
  (void)state;
  char text[5000];
  memset(text, 'x', sizeof(text) - 1);
  text[sizeof(text) - 1] = '\0';
  dt_status_t status = DT_FAIL(DT_E_FORMAT, "%s!", text);
  assert_int_equal(strlen(dt_status_message(status)), sizeof(text));
  dt_status_free(status);
}

static void test_annotate(void **state) {
  (void)state;
  dt_status_t status = DT_FAIL(DT_E_IO, "cannot open");
  int line = dt__status_line(status);
  status = dt__status_annotate(status, "file %s", "a.onnx");
  status = dt__status_annotate(status, "model %d", 7);
  assert_string_equal(dt_status_message(status), "model 7: file a.onnx: cannot open");
  assert_int_equal(dt_status_code(status), DT_E_IO);
  assert_int_equal(dt__status_line(status), line);
  dt_status_free(status);
}

static void test_join_keeps_the_first(void **state) {
  (void)state;
  dt_status_t first = DT_FAIL(DT_E_IO, "first"), second = DT_FAIL(DT_E_STATE, "second");
  dt_status_t both = dt__status_join(first, second);
  assert_ptr_equal(both, first);
  both = dt__status_join(both, NULL);
  assert_ptr_equal(both, first);
  both = dt__status_join(NULL, both);
  assert_ptr_equal(both, first);
  dt_status_free(both);
}

static void test_recode(void **state) {
  (void)state;
  dt_status_t status = DT_FAIL(DT_E_ARGUMENT, "axis 9");
  int line = dt__status_line(status);
  status = dt__status_recode(status, DT_E_FORMAT);
  assert_int_equal(dt_status_code(status), DT_E_FORMAT);
  assert_string_equal(dt_status_message(status), "axis 9");
  assert_int_equal(dt__status_line(status), line);
  dt_status_free(status);
}

static void test_clone_is_independent(void **state) {
  (void)state;
  dt_status_t status = DT_FAIL(DT_E_RANGE, "index 9");
  dt_status_t copy = dt__status_clone(status);
  assert_ptr_not_equal(copy, status);
  dt_status_free(status);
  assert_string_equal(dt_status_message(copy), "index 9");
  assert_int_equal(dt_status_code(copy), DT_E_RANGE);
  dt_status_free(copy);
}

static void test_without_memory(void **state) {
  (void)state;
  for (int code = DT_E_ARGUMENT; code <= DT_E_CANCELLED; code++) {
    (void)dt__heap_fail_at(1, true);
    dt_status_t status = DT_FAIL((dt_code_t)code, "lost %d", code);
    dt_status_t copy = dt__status_clone(status);
    (void)dt__heap_fail_at(0, false);
    assert_non_null(status);
    assert_int_equal(dt_status_code(status), code);
    assert_true(dt_status_message(status)[0] != '\0');
    assert_ptr_equal(copy, status);
    assert_ptr_equal(dt__status_annotate(status, "context"), status);
    // Static statuses are shared: another code is another status.
    status = dt__status_recode(status, DT_E_IO);
    assert_int_equal(dt_status_code(status), DT_E_IO);
    assert_int_equal(dt_status_code(copy), code);
    dt_status_free(status);
    dt_status_free(status); // a static status survives it
  }
  // The failure is kept where only its context or copy has no room.
  dt_status_t kept = DT_FAIL(DT_E_COMPILE, "kept");
  (void)dt__heap_fail_at(1, true);
  assert_ptr_equal(dt__status_annotate(kept, "context"), kept);
  dt_status_t copy = dt__status_clone(kept);
  (void)dt__heap_fail_at(0, false);
  assert_string_equal(dt_status_message(kept), "kept");
  assert_int_equal(dt_status_code(copy), DT_E_COMPILE);
  dt_status_free(kept);
}

static void test_bad_code(void **state) {
  (void)state;
  const int codes[] = {0, -1, DT_E_CANCELLED + 1, 1000};
  for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
    dt_status_t status = DT_FAIL((dt_code_t)codes[i], "bad");
    assert_int_equal(dt_status_code(status), DT_E_INTERNAL);
    dt_status_free(status);
  }
}

static void test_names(void **state) {
  (void)state;
  assert_string_equal(dt_code_name(DT_OK), "DT_OK");
  assert_string_equal(dt_code_name(DT_E_SHAPE), "DT_E_SHAPE");
  assert_string_equal(dt_code_name(DT_E_INTERNAL), "DT_E_INTERNAL");
  assert_string_equal(dt_code_name((dt_code_t)99), "DT_E_UNKNOWN");
  assert_string_equal(dt_version(), "0.1.0");
}

static dt_status_t tries(bool fail, int *reached) {
  DT_TRY(fail ? DT_FAIL(DT_E_LIMIT, "no") : NULL);
  *reached = 1;
  return NULL;
}

static void test_try(void **state) {
  (void)state;
  int reached = 0;
  dt_status_t status = tries(true, &reached);
  assert_int_equal(dt_status_code(status), DT_E_LIMIT);
  assert_int_equal(reached, 0);
  dt_status_free(status);
  assert_null(tries(false, &reached));
  assert_int_equal(reached, 1);
}

RUN_TESTS(TEST(test_ok_is_null), TEST(test_make), TEST(test_long_message), TEST(test_annotate),
          TEST(test_join_keeps_the_first), TEST(test_recode), TEST(test_clone_is_independent),
          TEST(test_without_memory), TEST(test_bad_code), TEST(test_names), TEST(test_try))
