// SPDX-License-Identifier: Apache-2.0
// For every test that runs by cmocka: its headers, what is expected of a status, and the program's
// list of tests. Its neighbours have what is asked less often: tensors.h, fixture.h and subjects.h
// (calls), folder.h (files), param_rows.h, random.h, process.h.
#ifndef DT_TESTS_SUPPORT_CHECK_H
#define DT_TESTS_SUPPORT_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ductile/base.h"

// ---- Statuses: each is freed ----------------------------------------------------------------------
// Success, else the test fails with the message.
#define expect_ok(status) expect_ok_at((status), __FILE__, __LINE__)
// A failure with this code.
#define expect_code(status, code) expect_told_at((status), (code), "", __FILE__, __LINE__)
// The same, and its message contains `part`. The second form says which case of many it was.
#define expect_told(status, code, part) expect_told_at((status), (code), (part), __FILE__, __LINE__)
#define expect_told_of(what, status, code, part)                                                   \
  expect_told_of_at((what), (status), (code), (part), __FILE__, __LINE__)
// The same, and its message contains EACH_OF("this", "that").
#define expect_parts(status, code, parts)                                                          \
  expect_parts_at((status), (code), (parts), __FILE__, __LINE__)
#define EACH_OF(...) ((const char *const[]){__VA_ARGS__, NULL})

void expect_ok_at(dt_status_t status, const char *file, int line);
void expect_told_at(dt_status_t status, dt_code_t code, const char *part, const char *file,
                    int line);
void expect_told_of_at(const char *what, dt_status_t status, dt_code_t code, const char *part,
                       const char *file, int line);
void expect_parts_at(dt_status_t status, dt_code_t code, const char *const *parts, const char *file,
                     int line);

// ---- Texts ----------------------------------------------------------------------------------------
// Fails with both texts where they differ; `what` says whose they are.
void expect_same_text(const char *what, const char *actual, const char *expected);

// ---- The program's tests --------------------------------------------------------------------------
// main() of a program whose arguments say nothing: RUN_TESTS(TEST(this), TEST(that)).
// The second form makes something before the first test and drops it after the last one.
#define RUN_TESTS(...) RUN_TESTS_WITH(NULL, NULL, __VA_ARGS__)
#define RUN_TESTS_WITH(set_up, tear_down, ...)                                                     \
  int main(void) {                                                                                 \
    const struct CMUnitTest tests[] = {__VA_ARGS__};                                               \
    return cmocka_run_group_tests(tests, set_up, tear_down);                                       \
  }
#define TEST(name) cmocka_unit_test(name)
// A test with a set-up and a tear-down of its own.
#define TEST_WITH(name, set_up, tear_down) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif // DT_TESTS_SUPPORT_CHECK_H
