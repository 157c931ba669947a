// SPDX-License-Identifier: Apache-2.0
// See check.h.
#include "test/support/check.h"

#include <string.h>

static void expect(const char *what, dt_status_t status, dt_code_t code, const char *const *parts,
                   const char *file, int line) {
  dt_code_t actual = dt_status_code(status);
  const char *message = dt_status_message(status);
  while (*parts && strstr(message, *parts))
    parts++;
  bool good = actual == code && !*parts;
  if (!good)
    print_error("%s%sgot %s (%s); expected %s with '%s'\n", what, *what ? ": " : "",
                dt_code_name(actual), message, dt_code_name(code), *parts ? *parts : "");
  dt_status_free(status);
  _assert_true(good, "status", file, line);
}

void expect_ok_at(dt_status_t status, const char *file, int line) {
  expect("", status, DT_OK, EACH_OF(""), file, line);
}

void expect_told_at(dt_status_t status, dt_code_t code, const char *part, const char *file,
                    int line) {
  expect("", status, code, EACH_OF(part), file, line);
}

void expect_told_of_at(const char *what, dt_status_t status, dt_code_t code, const char *part,
                       const char *file, int line) {
  expect(what, status, code, EACH_OF(part), file, line);
}

void expect_parts_at(dt_status_t status, dt_code_t code, const char *const *parts, const char *file,
                     int line) {
  expect("", status, code, parts, file, line);
}

void expect_same_text(const char *what, const char *actual, const char *expected) {
  if (strcmp(actual, expected) != 0)
    fail_msg("%s: expected\n%s\ngot\n%s", what, expected, actual);
}
