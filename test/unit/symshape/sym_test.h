// SPDX-License-Identifier: Apache-2.0
// What the tests of symbolic sizes share: a standard set of symbols, and text in and out.
#ifndef DT_TESTS_SYM_TEST_H
#define DT_TESTS_SYM_TEST_H

#include "test/support/check.h"
#include <stdio.h>
#include <string.h>

#include "symshape/sym_private.h"

#define UNBOUNDED ((dt_range_t){INT64_MIN, INT64_MAX})

static inline dt_sym_t parse_at(dt_symenv_t *env, const char *text, const char *file, int line) {
  dt_scan_t scan;
  dt_sym_t e;
  dt__scan_init(&scan, text, strlen(text), "test");
  expect_ok_at(dt__sym_parse(env, &scan, &e), file, line);
  if (!dt__scan_end(&scan)) {
    print_error("%s:%d: text is left over in '%s'\n", file, line, text);
    fail();
  }
  return e;
}
#define P(text) parse_at(env, (text), __FILE__, __LINE__)

static inline void check_text(dt_symenv_t *env, dt_sym_t e, const char *want, const char *from,
                              const char *file, int line) {
  dt_text_t text;
  dt__text_init(&text);
  dt__sym_print(env, e, &text);
  bool same = strcmp(dt__text_str(&text), want) == 0;
  if (!same)
    print_error("%s:%d: %s gives %s, expected %s\n", file, line, from, dt__text_str(&text), want);
  dt__text_fini(&text);
  assert_true(same);
}
// The text simplifies to the other text.
#define GIVES(text, want)                                                                          \
  check_text(env, dt__sym_simplify(env, P(text)), (want), (text), __FILE__, __LINE__)

// s0 s1 s2 sizes; s3 a size >= 1; n4 n5 any integers; i6 < s0; i7 < s1; i8 < 384; i9 < 32;
// u10 in [0, 100]; i11 < s0*s1; i12 < (s0 + 31)//32; s13 in [8, 15]; n14 in [0, 1].
static inline dt_symenv_t *standard_env(void) {
  dt_symenv_t *env;
  expect_ok(dt__symenv_create(&env));
  for (int k = 0; k < 3; k++)
    dt__sym_new(env, DT_SYMBOL_SIZE, UNBOUNDED, NULL, "");
  dt__sym_new(env, DT_SYMBOL_SIZE, (dt_range_t){1, INT64_MAX}, NULL, "");
  dt__sym_new(env, DT_SYMBOL_INT, UNBOUNDED, NULL, "");
  dt__sym_new(env, DT_SYMBOL_INT, UNBOUNDED, NULL, "");
  dt__sym_new_loop(env, P("s0"));
  dt__sym_new_loop(env, P("s1"));
  dt__sym_new_loop(env, P("384"));
  dt__sym_new_loop(env, P("32"));
  dt__sym_new(env, DT_SYMBOL_UNBACKED, (dt_range_t){0, 100}, NULL, "");
  dt__sym_new_loop(env, P("s0*s1"));
  dt__sym_new_loop(env, P("(s0 + 31)//32"));
  dt__sym_new(env, DT_SYMBOL_SIZE, (dt_range_t){8, 15}, NULL, "");
  dt__sym_new(env, DT_SYMBOL_INT, (dt_range_t){0, 1}, NULL, "");
  expect_ok(dt__symenv_status(env));
  return env;
}

#endif // DT_TESTS_SYM_TEST_H
