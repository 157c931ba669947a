// SPDX-License-Identifier: Apache-2.0
// Printing and parsing, and reading: linear form, substitution, symbols, ranges, evaluation.
#include "test/unit/symshape/sym_test.h"

static void test_print(void **state) {
  (void)state;
  dt_symenv_t *env = standard_env();
  static const char *const same[] = {
      "none of these is simplified further",
      "s0",
      "-s0",
      "-5",
      "s0 - s1",
      "-s0*3 + s1",
      "s0*s1*384 + 2",
      "(s0*384 + s1)//33",
      "(s0//8)*8",
      "(s0//s3)//s1",
      "min(s0, 4)",
      "max(s0, s1, s2)",
      "s0 == s1",
      "s0 < s1 and s1 < s2",
      "s2 != 4 and (s0 == 4 or s0 < s1)",
      "select(s0 == 1, s1, s0)",
      "n4%(-4)",
      "(-4)//n4",
      "n4*-9223372036854775808",
      "-9223372036854775808",
      "n4 + (-9223372036854775808)",
      "n4*9223372036854775807",
      "n4 + (s0 < s1)*3",
      "s1*(s0%7)",
      "-(n4%7)*2 + n5%3",
      "min(s0, max(s1, 3)) - 2",
  };
  for (size_t k = 1; k < sizeof same / sizeof same[0]; k++)
    GIVES(same[k], same[k]);
  GIVES("  ( s1 ) *s0  ; a comment", "s0*s1");
  GIVES("- s0*3", "-s0*3");
  GIVES("s0 -3", "s0 - 3");
  GIVES("not(not(n4))", "n4 != 0");
  expect_ok(dt__symenv_status(env));
  dt__symenv_destroy(env);
}

static void test_parse_errors(void **state) {
  (void)state;
  static const char *const bad[] = {
      "",   "s",         "s99",    "i0",    "s00",    "s0 +", "(s0",    "min(s0)",
      "x0", "select(1)", "s0 // ", "not()", "min s0", "s-1",  "foo(3)", "99999999999999999999"};
  dt_symenv_t *env = standard_env();
  for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
    dt_scan_t scan;
    dt_sym_t e;
    dt__scan_init(&scan, bad[k], strlen(bad[k]), "test");
    dt_status_t status = dt__sym_parse(env, &scan, &e);
    if (!status) {
      print_error("'%s' was parsed\n", bad[k]);
      fail();
    }
    assert_int_equal(e.id, 0);
    assert_int_equal(dt_status_code(status), DT_E_FORMAT);
    dt_status_free(status);
  }
  // An arrow and a word that only begins with "and" end an expression.
  const char *text = "s0 -> andante";
  dt_scan_t scan;
  dt_sym_t e;
  dt__scan_init(&scan, text, strlen(text), "test");
  expect_ok(dt__sym_parse(env, &scan, &e));
  assert_true(dt__scan_accept(&scan, "->"));
  // Deep nesting is refused, not a stack overflow.
  static char deep[20001];
  memset(deep, '(', 20000);
  dt__scan_init(&scan, deep, 20000, "test");
  expect_code(dt__sym_parse(env, &scan, &e), DT_E_FORMAT);
  expect_ok(dt__symenv_status(env));
  dt__symenv_destroy(env);
}

static void check_linear(dt_symenv_t *env, const char *text, const char *var, const char *coef,
                         const char *rest) {
  dt_sym_t a, b;
  bool linear = dt__sym_linear(env, P(text), P(var), &a, &b);
  if (!coef) {
    assert_false(linear);
    return;
  }
  assert_true(linear);
  check_text(env, a, coef, text, __FILE__, __LINE__);
  check_text(env, b, rest, text, __FILE__, __LINE__);
}

static void test_linear(void **state) {
  (void)state;
  dt_symenv_t *env = standard_env();
  check_linear(env, "(i6*s1 + i7)*384 + i8", "i6", "s1*384", "i7*384 + i8");
  check_linear(env, "(i6*s1 + i7)*384 + i8", "i8", "1", "s1*i6*384 + i7*384");
  check_linear(env, "(i6*s1 + i7)*384 + i8", "i9", "0", "s1*i6*384 + i7*384 + i8");
  check_linear(env, "n4//8 + i6", "i6", "1", "n4//8");
  check_linear(env, "n4//8 + i6", "n4", NULL, NULL);
  check_linear(env, "n4*n4", "n4", NULL, NULL);
  check_linear(env, "n4*(n4//8)", "n4", NULL, NULL);
  check_linear(env, "7", "n4", "0", "7");
  dt__symenv_destroy(env);
}

static void test_subst(void **state) {
  (void)state;
  dt_symenv_t *env = standard_env();
  dt_sym_t from[2] = {P("i6"), P("i7")}, to[2] = {P("i7"), P("i6")};
  dt_sym_t e = dt__sym_subst(env, P("i6*384 + i7"), from, to, 2); // all at once
  check_text(env, e, "i6 + i7*384", "swap", __FILE__, __LINE__);
  to[0] = P("i11//s1");
  to[1] = P("i11%s1");
  e = dt__sym_subst(env, P("i6*s1 + i7"), from, to, 2);
  check_text(env, e, "i11", "one loop for two", __FILE__, __LINE__);
  e = dt__sym_subst(env, P("s0 + 1"), from, to, 2);
  check_text(env, e, "s0 + 1", "nothing to do", __FILE__, __LINE__);
  e = dt__sym_subst(env, P("min(s2, i6//8)"), from, from, 2);
  check_text(env, e, "min(s2, i6//8)", "identity", __FILE__, __LINE__);
  dt_sym_t bad = P("s0 + 1");
  assert_int_equal(dt__sym_subst(env, P("s0"), &bad, to, 1).id, 0);
  expect_code(dt__symenv_status(env), DT_E_ARGUMENT);
  dt__symenv_destroy(env);
}

static void test_read(void **state) {
  (void)state;
  dt_symenv_t *env = standard_env();
  dt_sym_t e = P("min(s2, s0*s2) + n5//s1");
  uint32_t symbols[8] = {0};
  assert_int_equal(dt__sym_symbols(env, e, symbols, 8), 4);
  uint32_t want[] = {0, 1, 2, 5};
  assert_memory_equal(symbols, want, sizeof want);
  symbols[2] = 99;
  assert_int_equal(dt__sym_symbols(env, e, symbols, 2), 4);
  assert_int_equal(symbols[2], 99);
  assert_true(dt__sym_depends(env, e, P("n5")));
  assert_false(dt__sym_depends(env, e, P("n4")));
  dt_range_t r = dt__sym_range(env, P("s13*2 - 1"));
  assert_int_equal(r.lo, 15);
  assert_int_equal(r.hi, 29);
  r = dt__sym_range(env, P("n4%8"));
  assert_int_equal(r.lo, 0);
  assert_int_equal(r.hi, 7);
  r = dt__sym_range(env, P("i12"));
  assert_int_equal(r.lo, 0);
  assert_int_equal(r.hi, (DT_SIZE_LIMIT + 30) / 32 - 1);
  r = dt__sym_range(env, P("s0*s1"));
  assert_int_equal(r.lo, 0);
  assert_true(r.hi == INT64_MAX);
  int64_t value;
  uint32_t symbol;
  assert_true(dt__sym_is_const(env, P("2 + 3"), &value));
  assert_int_equal(value, 5);
  assert_true(dt__sym_is_symbol(env, P("n4"), &symbol));
  assert_int_equal(symbol, 4);
  assert_false(dt__sym_is_symbol(env, P("n4 + 1"), NULL));
  dt_sym_view_t view = dt__sym_view(env, P("s0*384 + 2"));
  assert_int_equal(view.op, DT_SYM_ADD);
  assert_int_equal(view.n_args, 2);
  assert_int_equal(dt__sym_view(env, view.args[0]).op, DT_SYM_MUL);
  assert_int_equal(dt__sym_view(env, view.args[1]).value, 2);
  assert_int_equal(dt__symbol_extent(env, 6).id, P("s0").id);
  assert_int_equal(dt__symbol_extent(env, 0).id, 0);
  dt__symenv_destroy(env);
}

static void check_eval(dt_symenv_t *env, const char *text, int64_t n4, int64_t n5, bool ok,
                       int64_t want) {
  int64_t values[32] = {0}, got = 0;
  values[4] = n4;
  values[5] = n5;
  bool has = dt__sym_eval(env, P(text), values, &got);
  if (has != ok || (ok && got != want)) {
    print_error("%s at %lld, %lld: %d %lld, expected %d %lld\n", text, (long long)n4, (long long)n5,
                has, (long long)got, ok, (long long)want);
    fail();
  }
}

static void test_eval(void **state) {
  (void)state;
  dt_symenv_t *env = standard_env();
  check_eval(env, "n4 + n5", INT64_MAX, 1, false, 0);
  check_eval(env, "n4 + n5", INT64_MAX, -1, true, INT64_MAX - 1);
  check_eval(env, "n4*n5 - n4*n5", INT64_MAX, INT64_MAX, true, 0);
  check_eval(env, "n4*n4*4 - n5*n4*4", INT64_MAX, INT64_MAX, true, 0); // exact inside
  check_eval(env, "n4*n4*n5", INT64_MAX, INT64_MAX, false, 0);
  check_eval(env, "n4//n5", 7, 0, false, 0);
  check_eval(env, "n4%n5", 7, 0, false, 0);
  check_eval(env, "n4//n5", INT64_MIN, -1, false, 0);
  check_eval(env, "n4%n5", INT64_MIN, -1, true, 0);
  check_eval(env, "n4//n5", -7, 2, true, -4);
  check_eval(env, "n4%n5", -7, 2, true, 1);
  check_eval(env, "n4%n5", 7, -2, true, -1);
  check_eval(env, "select(n5 == 0, 1, n4//n5)", 3, 0, true, 1); // the other branch is not looked at
  check_eval(env, "n4 == 0 and n4//n5 == 1", 3, 0, true, 0);
  check_eval(env, "n4 != 0 and n4//n5 == 1", 3, 0, false, 0);
  int64_t hint;
  assert_false(dt__sym_hint(env, P("n4"), &hint));
  assert_true(dt__sym_hint(env, P("7 - 3"), &hint));
  assert_int_equal(hint, 4);
  dt__symenv_destroy(env);
}

RUN_TESTS(TEST(test_print), TEST(test_parse_errors), TEST(test_linear), TEST(test_subst),
          TEST(test_read), TEST(test_eval))
