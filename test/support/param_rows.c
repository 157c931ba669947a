// SPDX-License-Identifier: Apache-2.0
// See param_rows.h.
#include "test/support/param_rows.h"

#include "test/support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct case_t {
  const dt_param_row_t *rows, *row;
  size_t n;
  char *out; // the struct
  char name[64];
} case_t;

static void expect_refused(const case_t *c, const char *value, const char *range) {
  assert_int_equal(setenv(c->name, value, 1), 0);
  expect_parts(dt__params_read(c->rows, c->n, c->out), DT_E_ARGUMENT,
               EACH_OF(c->name, value, range));
}

static void read_ok(const case_t *c, const char *value) {
  assert_int_equal(setenv(c->name, value, 1), 0);
  expect_ok(dt__params_read(c->rows, c->n, c->out));
}

static void expect_number(const case_t *c, int64_t value) {
  char text[32];
  (void)snprintf(text, sizeof text, "%lld", (long long)value);
  read_ok(c, text);
  int64_t got;
  memcpy(&got, c->out + c->row->offset, sizeof got);
  assert_int_equal(got, value);
}

static void check_int(const case_t *c) {
  const dt_param_row_t *row = c->row;
  char range[64], text[32];
  (void)snprintf(range, sizeof range, "from %lld to %lld", (long long)row->min,
                 (long long)row->max);
  assert_in_range(row->value - row->min, 0, row->max - row->min);
  expect_number(c, row->min);
  expect_number(c, row->max);
  (void)snprintf(text, sizeof text, "%lld", (long long)row->min - 1);
  expect_refused(c, text, range);
  (void)snprintf(text, sizeof text, "%lld", (long long)row->max + 1);
  expect_refused(c, text, range);
  static const char *const malformed[] = {
      "four", "1x", "1.5", "0x1", "1 ", "-", "99999999999999999999"};
  for (size_t k = 0; k < sizeof malformed / sizeof malformed[0]; k++)
    expect_refused(c, malformed[k], range);
}

static void check_bool(const case_t *c) {
  read_ok(c, "1");
  assert_true(*(const bool *)(c->out + c->row->offset));
  read_ok(c, "0");
  assert_false(*(const bool *)(c->out + c->row->offset));
  static const char *const malformed[] = {"2", "-1", "maybe", "1 ", "01", "TRUE"};
  for (size_t k = 0; k < sizeof malformed / sizeof malformed[0]; k++)
    expect_refused(c, malformed[k], "0 or 1");
}

// A text's range is its length, and the message has that for the value.
static void check_text(const case_t *c) {
  char text[257];
  memset(text, 'a', sizeof text - 1);
  text[256] = '\0';
  assert_int_equal(setenv(c->name, text, 1), 0);
  expect_parts(dt__params_read(c->rows, c->n, c->out), DT_E_ARGUMENT,
               EACH_OF(c->name, "256 characters", "at most 255"));
  text[255] = '\0';
  read_ok(c, text);
  assert_string_equal(c->out + c->row->offset, text);
}

static void check_row(case_t *c) {
  const char *before = getenv(c->name);
  char *kept = before ? strdup(before) : NULL;
  if (c->row->type == DT_PARAM_INT)
    check_int(c);
  else if (c->row->type == DT_PARAM_BOOL)
    check_bool(c);
  else
    check_text(c);
  if (kept)
    (void)setenv(c->name, kept, 1);
  else
    (void)unsetenv(c->name);
  free(kept);
}

void expect_param_rows(const dt_param_row_t *rows, size_t n, size_t bytes) {
  case_t c = {.rows = rows, .n = n, .out = calloc(1, bytes)};
  assert_non_null(c.out);
  for (size_t i = 0; i < n; i++) {
    c.row = &rows[i];
    (void)snprintf(c.name, sizeof c.name, "DUCTILE_%s", rows[i].name);
    check_row(&c);
  }
  free(c.out);
}
