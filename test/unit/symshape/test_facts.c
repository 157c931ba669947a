// SPDX-License-Identifier: Apache-2.0
// Learning: what follows from facts, and the three tiers of questions with their messages.
#include "test/unit/symshape/sym_test.h"

typedef struct row_t {
  const char *facts[4]; // learned in order
  const char *in, *out;
} row_t;

static const row_t rows[] = {
    // Equalities replace the younger symbol, or the one that is solved for.
    {{"s0 == s1"}, "s1 + s0", "s0*2"},
    {{"s1 == s0"}, "s1", "s0"},
    {{"s0 == 4"}, "s0*s1 + s0", "s1*4 + 4"},
    {{"s0*2 == s1"}, "s1//2", "s0"},
    {{"s0*2 == s1"}, "s1%2", "0"},
    {{"s0 == s1 + s2"}, "s0 - s2", "s1"},
    {{"s0 + 1 == s1"}, "s1 - s0", "1"},
    {{"s0 + 1 == s1"}, "0 < s1", "1"},
    {{"s2 == s0*s1"}, "s2//s1", "s0"},
    {{"s2 == s0*s1", "s0 == 3"}, "s2", "s1*3"},
    {{"s1 == s0", "s2 == s1", "s0 == 7"}, "s2 + s1", "14"},
    {{"u10 == s0"}, "u10", "s0"},
    // What data binds says nothing of the sizes that were there before it.
    {{"u10 == s0"}, "s0 <= 100", "s0 <= 100"},
    {{"s0 <= u10"}, "s0 <= 100", "s0 <= 100"},
    {{"s0 == u10 + 1"}, "s0 - u10", "1"},
    {{"s0*2 == s1*3"}, "s0%3", "0"},
    {{"s0*2 == s1*3"}, "s1%2", "0"},
    {{"s0*s1 == s1*s2"}, "s0*s1*4 == s1*s2*4", "1"},
    {{"s0*s1 == 12"}, "s0*s1*s2", "s2*12"},
    {{"s0*s1 == 12"}, "0 < s0", "1"},
    {{"s0*s1 == 12"}, "s0 <= 12", "1"},
    {{"s0 < s1 and s1 == 5"}, "s0 < 5", "1"},
    // Bounds.
    {{"0 < s0"}, "min(s0, 1)", "1"},
    {{"s0 != 0"}, "1 <= s0", "1"},
    {{"4 <= s0", "s0 <= 4"}, "s0*2", "8"},
    {{"s0 < 1"}, "s0", "0"},
    {{"s0 + s1 <= 10"}, "s0 <= 10", "1"},
    {{"s0*s3 <= 1024"}, "s0 <= 1024", "1"},
    {{"s0//8 <= 3"}, "s0 < 32", "1"},
    {{"4 <= s0//8"}, "31 < s0", "1"},
    {{"max(s0, s1) <= s2"}, "s0 <= s2", "1"},
    {{"s2 <= min(s0, s1)"}, "s1 < s2", "0"},
    {{"s0 < s1", "s1 < s2"}, "s0 + 1 < s2", "1"},
    {{"s0 < s1", "s1 < s2", "s2 < s3"}, "s0 + 2 < s3", "1"},
    {{"s3 <= s13", "s2 < s3", "s1 < s2", "s0 < s1"}, "s0 + 3 <= s13", "1"},
    {{"s0 <= s1"}, "min(s0, s1)", "s0"},
    {{"s0 <= s1"}, "min(s0*s2, s1*s2)", "s0*s2"},
    {{"s0 <= s1"}, "i6 < s1", "1"},
    {{"s0 <= 1"}, "s0 == 2", "0"},
    {{"s0 == s1 or s0 == 1"}, "s0 == 1 or s1 == s0", "1"},
    {{"s0 != s1"}, "select(s0 == s1, n4, n5)", "n5"},
    {{"n4 < n5"}, "n5 <= n4", "0"},
    {{"s13 != 8"}, "9 <= s13", "1"},
    // A replaced symbol's bounds hold for what replaces it; facts about it are asked again.
    {{"s1 <= 8", "s1 == s0*2"}, "s0 <= 4", "1"},
    {{"s0 < s1", "s1 == 5"}, "s0 <= 4", "1"},
    {{"s0 == 1 or s1 == 1", "s0 == 3"}, "s1", "1"},
    {{"s13 == s0"}, "8 <= s0", "1"},
    // A fact never takes an answer away.
    {{"s0 < s1"}, "s0//2 <= s0", "1"},
    {{"s0//2 <= 100"}, "s0//2 <= s0", "1"},
    {{"s0%2 == 0"}, "s0//2 <= s0", "1"},
    {{"s0//2 <= s1", "s1 <= s0"}, "s0//2 <= s0", "1"},
    {{"s0//2 == s1"}, "s1 <= s0", "1"},
    {{"s0 <= s1*s2"}, "s1*(s0//2) <= s0*s1", "1"},
    // Bounds that move are read by the facts before them.
    {{"s0 < s1", "s1 < s2", "s2 <= 10"}, "s0 <= 8", "1"},
    {{"s0 + 4 <= s1", "3 <= s0"}, "7 <= s1", "1"},
    {{"s0 <= 2 or 10 <= s1", "5 <= s0"}, "10 <= s1", "1"},
    {{"s0*s1 <= 100", "20 <= s0"}, "s1 <= 5", "1"},
    {{"s0 != 4", "s0 != 5", "4 <= s0", "s0 <= 6"}, "s0", "6"},
    {{"(s0//4)%3 == 1", "9 <= s0", "s0 <= 16"}, "s0", "16"},
    {{"s0*s0 == 49", "1 <= s0", "s0 <= 50"}, "s0", "7"},
    {{"s0//3 == 1", "s0%3 == 0"}, "s0", "3"},
    {{"s0//3 == 1", "s0%3 == 0"}, "exactdiv(s0, 3)", "1"},
    // Data sizes are never replaced by later ones.
    {{"u10*3 == s0"}, "u10*3 == s0", "1"},
    {{"u10*3 == s0"}, "s0%3", "s0%3"}, // s0 may be used before u10 is read
    // Divisibility.
    {{"s0%8 == 0"}, "(s0//8)*8", "s0"},
    {{"s0%8 == 0"}, "s0%4", "0"},
    {{"s0%8 == 0"}, "(s0*s1)%8", "0"},
    {{"s0%8 == 0"}, "(s0 + 3)%8", "3"},
    {{"s0%8 == 0"}, "s0 == 12", "0"},
    {{"s0%8 == 0"}, "s0//8 == (s0 + 7)//8", "1"},
    {{"s0%8 == 0"}, "(s0//8)*2 == s0//4", "1"},
    {{"s0%8 == 3"}, "(s0//8)*8", "s0 - 3"},
    {{"s0%8 == 3"}, "(s0//2)%4", "1"},
    {{"s0%8 == 6"}, "((s0%12)%2)", "0"},
    {{"s0%24 == 8"}, "(s0//8)%3", "1"},
    {{"(s0 + 3)%8 == 0"}, "s0%4", "1"},
    {{"s0%4 == 1", "s0%3 == 2"}, "s0%12", "5"},
    {{"s1%s3 == 0"}, "(s1//s3)*s3", "s1"},
    {{"s1%8 == 0", "s1 == s0"}, "s0%8", "0"},
    {{"s0%8 == 0", "s0 <= 15", "1 <= s0"}, "s0 == 8", "1"},
    // A loop whose extent is 1 stands still.
    {{"s0 == 1"}, "i6 <= 0", "1"},
    {{"s0 == 1"}, "i6*32 + n4", "n4"},
};

static void test_rows(void **state) {
  (void)state;
  uint32_t failures = 0;
  for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
    dt_symenv_t *env = standard_env();
    dt_sym_t early = P(rows[k].in);
    for (int f = 0; f < 4 && rows[k].facts[f]; f++)
      expect_ok(dt__sym_learn(env, P(rows[k].facts[f])));
    dt_sym_t e[2] = {dt__sym_simplify(env, early), dt__sym_simplify(env, P(rows[k].in))};
    for (int way = 0; way < 2; way++) {
      dt_text_t text;
      dt__text_init(&text);
      dt__sym_print(env, e[way], &text);
      if (strcmp(dt__text_str(&text), rows[k].out) != 0) {
        print_error("after %s: %s (built %s) gives %s, expected %s\n", rows[k].facts[0], rows[k].in,
                    way ? "after" : "before", dt__text_str(&text), rows[k].out);
        failures++;
      }
      dt__text_fini(&text);
    }
    expect_ok(dt__symenv_status(env));
    dt__symenv_destroy(env);
  }
  assert_int_equal(failures, 0);
}

// A condition on data is no reason for anything that may be used before its newest number is read.
static void test_late_facts(void **state) {
  (void)state;
  static const struct {
    const char *facts[3], *question;
    dt_tri_t answer;
  } cases[] = {
      {{"u1 < u2", "u2 <= s0"}, "u1 < s0", DT_UNKNOWN},
      {{"u1 < u2", "u2 <= s0"}, "u1 + u2 < s0 + u2", DT_UNKNOWN},
      {{"u1 < u2", "u2 <= s0"}, "u2 <= s0 + 3", DT_TRUE},
      {{"u1 < u2", "u2 <= s0"}, "u1 + 1 <= u2 + 5", DT_TRUE},
      {{"u1 <= s0"}, "u1 < s0 + 1", DT_TRUE},
      {{"5 <= u2", "u2 <= u1"}, "5 <= u1", DT_UNKNOWN},
      {{"5 <= u1", "u1 <= u2"}, "5 <= u2", DT_TRUE},
      {{"3 <= u2", "u1 == u2 + 4"}, "7 <= u1", DT_UNKNOWN},
      {{"u1 == u2 + 4"}, "u2 == u1 - 4", DT_TRUE},
      {{"u2 <= 9", "u2 == s0"}, "s0 <= 9", DT_UNKNOWN},
      {{"u2 == s0", "u2 <= 9"}, "s0 <= 9", DT_TRUE}, // stated of s0 itself, by then
      {{"u2%8 == 0", "u2 == s0"}, "s0%8 == 0", DT_UNKNOWN},
      {{"s0 <= 9", "u2 == s0"}, "u2 <= 9", DT_TRUE},
      {{"4*s0 == u1*8 + 4"}, "s0%2 == 1", DT_UNKNOWN},
      {{"u1 == 5"}, "u1 <= 5", DT_TRUE},
  };
  for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
    dt_symenv_t *env = NULL;
    const dt_range_t any = {0, INT64_MAX};
    expect_ok(dt__symenv_create(&env));
    (void)dt__sym_new(env, DT_SYMBOL_SIZE, any, NULL, "");
    (void)dt__sym_new(env, DT_SYMBOL_UNBACKED, any, NULL, "");
    (void)dt__sym_new(env, DT_SYMBOL_UNBACKED, any, NULL, "");
    for (int f = 0; f < 3 && cases[k].facts[f]; f++)
      expect_ok(dt__sym_learn(env, P(cases[k].facts[f])));
    dt_tri_t answer = dt__sym_known(env, P(cases[k].question));
    if (answer != cases[k].answer)
      print_error("after %s: %s is %d, expected %d\n", cases[k].facts[0], cases[k].question,
                  (int)answer, (int)cases[k].answer);
    assert_int_equal(answer, cases[k].answer);
    dt__symenv_destroy(env);
  }
}

static void test_contradictions(void **state) {
  (void)state;
  static const char *const pairs[][2] = {
      {"s0 == 3", "s0 == 4"},   {"s0 < s1", "s1 <= s0"},      {"s0%8 == 0", "s0%4 == 1"},
      {"s13 < s0", "s0 == 4"},  {"s0 == s1", "s0 + 1 == s1"}, {"s0 <= 3", "s0 == s1 + 4"},
      {"s0 == s1", "s0 != s1"},
  };
  for (size_t k = 0; k < sizeof pairs / sizeof pairs[0]; k++) {
    dt_symenv_t *env = standard_env();
    dt_sym_t second = P(pairs[k][1]);
    expect_ok(dt__sym_learn(env, P(pairs[k][0])));
    expect_code(dt__sym_learn(env, second), DT_E_INTERNAL);
    dt__symenv_destroy(env);
    // The program's own checks are the program's to mend.
    dt_origin_t check = {"check", "model.c", 7};
    env = standard_env();
    second = P(pairs[k][1]);
    expect_ok(dt__sym_learn_at(env, P(pairs[k][0]), &check));
    expect_code(dt__sym_learn_at(env, second, &check), DT_E_SHAPE);
    dt__symenv_destroy(env);
  }
}

typedef struct seen_t {
  uint32_t count;
  dt_sym_t last;
  dt_origin_t origin;
} seen_t;

static void on_assume(void *user, dt_symenv_t *env, dt_sym_t cond, const dt_origin_t *origin) {
  seen_t *seen = user;
  (void)env;
  seen->count++;
  seen->last = cond;
  seen->origin = *origin;
}

static const dt_origin_t here = {"matmul", "model.c", 12};

static dt_symenv_t *hinted_env(seen_t *seen) {
  dt_symenv_t *env;
  expect_ok(dt__symenv_create(&env));
  int64_t hints[] = {8, 5, 384};
  dt__sym_new(env, DT_SYMBOL_SIZE, UNBOUNDED, &hints[0], "batch");
  dt__sym_new(env, DT_SYMBOL_SIZE, UNBOUNDED, &hints[1], "ids.size(1)");
  dt__sym_new(env, DT_SYMBOL_SIZE, UNBOUNDED, &hints[2], "w.size(0)");
  dt__sym_new(env, DT_SYMBOL_UNBACKED, (dt_range_t){0, INT64_MAX}, NULL, "nonzero");
  *seen = (seen_t){0};
  dt__symenv_on_assume(env, on_assume, seen);
  return env;
}

static void test_decide(void **state) {
  (void)state;
  seen_t seen;
  dt_symenv_t *env = hinted_env(&seen);
  bool yes;
  expect_ok(dt__sym_decide(env, P("0 <= s0"), false, &here, &yes)); // known
  assert_true(yes);
  assert_int_equal(seen.count, 0);
  expect_ok(dt__sym_decide(env, P("s0 == 8"), false, &here, &yes)); // by hint
  assert_true(yes);
  assert_int_equal(seen.count, 1);
  check_text(env, seen.last, "s0 == 8", "the assumption", __FILE__, __LINE__);
  assert_string_equal(seen.origin.op, "matmul");
  expect_ok(dt__sym_decide(env, P("s0 < 3"), true, &here, &yes)); // follows
  assert_false(yes);
  assert_int_equal(seen.count, 1);
  expect_ok(dt__sym_decide(env, P("s1 < 3"), true, &here, &yes)); // false by hint
  assert_false(yes);
  check_text(env, seen.last, "3 <= s1", "the assumption", __FILE__, __LINE__);
  assert_int_equal(seen.count, 2);
  expect_ok(dt__sym_decide(env, P("u3 == 1"), false, &here, &yes)); // no hint: no guard
  assert_false(yes);
  expect_ok(dt__sym_decide(env, P("u3 == 1"), true, &here, &yes));
  assert_true(yes);
  assert_int_equal(seen.count, 2);
  dt__symenv_destroy(env);
}

static void test_require(void **state) {
  (void)state;
  seen_t seen;
  dt_symenv_t *env = hinted_env(&seen);
  expect_ok(dt__sym_require(env, P("s2 == 384"), &here, "inner dims must be equal"));
  assert_int_equal(seen.count, 1);
  expect_ok(dt__sym_require(env, P("s2 < 385"), &here, "fits")); // follows
  assert_int_equal(seen.count, 1);
  expect_ok(dt__sym_require(env, P("u3 <= s0"), &here, "count")); // assumed without a hint
  assert_int_equal(seen.count, 2);
  assert_int_equal(dt__sym_known(env, P("u3 < s0 + 1")), DT_TRUE);
  expect_parts(dt__sym_require(env, P("s1 == 384"), &here, "inner dims must be equal"), DT_E_SHAPE,
               EACH_OF("matmul: inner dims must be equal", "s1 == 384", "have 5 and 384",
                       "ids.size(1) = 5", "model.c:12"));
  expect_code(dt__sym_require(env, P("0 == 1"), &here, "never"), DT_E_SHAPE);
  assert_int_equal(seen.count, 2);
  dt__symenv_destroy(env);
}

static void test_specialize(void **state) {
  (void)state;
  seen_t seen;
  dt_symenv_t *env = hinted_env(&seen);
  int64_t value;
  expect_ok(dt__sym_specialize(env, P("s0*2 + 1"), &here, &value));
  assert_int_equal(value, 17);
  assert_int_equal(seen.count, 1);
  expect_ok(dt__sym_specialize(env, P("s0"), &here, &value)); // follows from the first
  assert_int_equal(value, 8);
  assert_int_equal(seen.count, 1);
  expect_code(dt__sym_specialize(env, P("u3"), &here, &value), DT_E_STATE);
  dt__symenv_destroy(env);
}

static void test_freeze(void **state) {
  (void)state;
  seen_t seen;
  dt_symenv_t *env = hinted_env(&seen);
  expect_ok(dt__sym_require(env, P("s0 == s1 + 3"), &here, "three more"));
  dt__symenv_freeze(env);
  bool yes;
  int64_t value;
  expect_ok(dt__sym_decide(env, P("s1 < s0"), false, &here, &yes));
  assert_true(yes);
  expect_code(dt__sym_decide(env, P("s1 < 3"), false, &here, &yes), DT_E_STATE);
  expect_code(dt__sym_require(env, P("s1 == 5"), &here, "five"), DT_E_STATE);
  expect_code(dt__sym_specialize(env, P("s1"), &here, &value), DT_E_STATE);
  assert_int_equal(seen.count, 1);
  assert_int_not_equal(dt__sym_new_loop(env, P("s1")).id, 0);
  assert_int_not_equal(dt__sym_new(env, DT_SYMBOL_DATA, UNBOUNDED, NULL, "").id, 0);
  expect_ok(dt__symenv_status(env));
  assert_int_equal(dt__sym_new(env, DT_SYMBOL_SIZE, UNBOUNDED, NULL, "late").id, 0);
  expect_code(dt__symenv_status(env), DT_E_STATE);
  dt__symenv_destroy(env);
}

// A sum of n minima that is >= 0 says 2^n things, and each may be asked about the others: a few of
// them are learned, and a question stays cheap.
static void test_many_parts(void **state) {
  (void)state;
  dt_symenv_t *env;
  expect_ok(dt__symenv_create(&env));
  dt_text_t sum;
  dt__text_init(&sum);
  dt__text_put(&sum, "100 <= ");
  for (int k = 0; k < 10; k++) {
    dt__sym_new(env, DT_SYMBOL_SIZE, (dt_range_t){0, 1 << 20}, NULL, "");
    dt__sym_new(env, DT_SYMBOL_SIZE, (dt_range_t){0, 1 << 20}, NULL, "");
    dt__text_printf(&sum, "%smin(s%d - 7, s%d*2 - %d)", k ? " + " : "", 2 * k, 2 * k + 1, k);
  }
  dt_sym_t cond = P(dt__text_str(&sum));
  expect_ok(dt__sym_learn(env, cond));
  assert_int_equal(dt__sym_known(env, cond), DT_TRUE);
  assert_true(env->n_facts > 1 && env->n_facts <= 100);
  dt__text_fini(&sum);
  dt__symenv_destroy(env);
}

// A loop whose extent became a literal after it was made: its own bound still has a number of
// another residue at its end, which is no contradiction.
static void test_loop_residue(void **state) {
  (void)state;
  dt_symenv_t *env;
  expect_ok(dt__symenv_create(&env));
  dt__sym_new(env, DT_SYMBOL_SIZE, (dt_range_t){0, 4}, NULL, "");
  dt__sym_new_loop(env, P("s0"));
  expect_ok(dt__sym_learn(env, P("s0 == 3")));
  expect_ok(dt__sym_learn(env, P("i1%2 == 0")));
  assert_int_equal(dt__sym_known(env, P("i1 <= 2")), DT_TRUE);
  assert_int_equal(dt__sym_known(env, P("i1 == 0")), DT_UNKNOWN);
  assert_int_equal(dt__sym_known(env, P("i1 == 1")), DT_FALSE);
  dt__symenv_destroy(env);
}

RUN_TESTS(TEST(test_rows), TEST(test_late_facts), TEST(test_contradictions), TEST(test_decide),
          TEST(test_require), TEST(test_specialize), TEST(test_freeze), TEST(test_many_parts),
          TEST(test_loop_residue))
