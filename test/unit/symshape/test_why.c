// SPDX-License-Identifier: Apache-2.0
// Why a symbol is what it is: the conditions that fixed or narrowed it, in order, with who asked;
// and the words for a condition that was false as it was built.
#include "test/unit/symshape/sym_test.h"

static const dt_origin_t add_at = {"add", "model.c", 12}, view_at = {"reshape", "model.c", 31};

// The reasons of a symbol as "cond (op:line); …".
static void check_facts(dt_symenv_t *env, uint32_t symbol, const char *want) {
  dt_sym_fact_t facts[16];
  uint32_t n = dt__symbol_facts(env, symbol, facts, 16);
  dt_text_t text;
  dt__text_init(&text);
  for (uint32_t k = 0; k < n; k++) {
    dt__text_put(&text, k ? "; " : "");
    dt__sym_print(env, facts[k].cond, &text);
    if (facts[k].origin.op)
      dt__text_printf(&text, " (%s:%d)", facts[k].origin.op, facts[k].origin.line);
  }
  assert_string_equal(dt__text_str(&text), want);
  dt__text_fini(&text);
}

static dt_symenv_t *hinted_env(void) {
  dt_symenv_t *env;
  expect_ok(dt__symenv_create(&env));
  int64_t hints[] = {8, 8, 16, 5};
  dt__sym_new(env, DT_SYMBOL_SIZE, UNBOUNDED, &hints[0], "a.size(0)");
  dt__sym_new(env, DT_SYMBOL_SIZE, UNBOUNDED, &hints[1], "b.size(0)");
  dt__sym_new(env, DT_SYMBOL_SIZE, UNBOUNDED, &hints[2], "c.size(0)");
  dt__sym_new(env, DT_SYMBOL_SIZE, UNBOUNDED, &hints[3], "d.size(0)");
  return env;
}

static void test_chain(void **state) {
  (void)state;
  dt_symenv_t *env = hinted_env();
  check_facts(env, 0, "");
  expect_ok(dt__sym_require(env, P("s0 == s1"), &add_at, "equal"));
  bool yes;
  expect_ok(dt__sym_decide(env, P("s2 < 10"), false, &view_at, &yes)); // false: 10 <= s2
  expect_ok(dt__sym_require(env, P("s2 == s0 + s1"), &add_at, "sum"));
  expect_ok(dt__sym_require(env, P("s0 <= 20"), &view_at, "small"));
  check_facts(env, 1, "s0 == s1 (add:12)");
  check_facts(env, 2, "10 <= s2 (reshape:31); s0*2 == s2 (add:12)");
  // The bound of the sum came to s0 with it.
  check_facts(env, 0, "s0*2 == s2 (add:12); s0 <= 20 (reshape:31)");
  check_facts(env, 3, "");
  // What says nothing new is no reason.
  expect_ok(dt__sym_require(env, P("s0 < 50"), &add_at, "follows"));
  check_facts(env, 0, "s0*2 == s2 (add:12); s0 <= 20 (reshape:31)");
  // A remainder, then the value; a declared fact has no origin.
  expect_ok(dt__sym_require(env, P("s3%5 == 0"), &view_at, "whole"));
  expect_ok(dt__sym_learn(env, P("1 <= s3")));
  int64_t value;
  expect_ok(dt__sym_specialize(env, P("s3"), &add_at, &value));
  check_facts(env, 3, "s3%5 == 0 (reshape:31); 0 < s3; s3 == 5 (add:12)");
  // A clone keeps them, and goes on with its own.
  dt_symenv_t *twin;
  expect_ok(dt__symenv_clone(env, &twin));
  expect_ok(dt__sym_learn(twin, dt__sym_le(twin, dt__symbol_sym(twin, 0), dt__sym_const(twin, 9))));
  dt__symenv_destroy(env);
  check_facts(twin, 3, "s3%5 == 0 (reshape:31); 0 < s3; s3 == 5 (add:12)");
  check_facts(twin, 0, "s0*2 == s2 (add:12); s0 <= 20 (reshape:31); s0 <= 9");
  assert_int_equal(dt__symbol_facts(twin, 99, NULL, 0), 0);
  assert_int_equal(dt__symbol_facts(twin, 0, NULL, 0), 3);
  dt__symenv_destroy(twin);
}

// One condition may narrow another symbol by way of facts that were there before.
static void test_propagated(void **state) {
  (void)state;
  dt_symenv_t *env = hinted_env();
  expect_ok(dt__sym_require(env, P("s0 + s3 <= s2"), &add_at, "room"));
  expect_ok(dt__sym_require(env, P("s2 <= 40"), &view_at, "small"));
  check_facts(env, 2, "s2 <= 40 (reshape:31)");
  check_facts(env, 0, "s2 <= 40 (reshape:31)");
  assert_int_equal(dt__symbol_info(env, 0).range.hi, 40);
  dt__symenv_destroy(env);
}

// A comparison that is false as it is built is a literal, but its sides are in the message.
static void test_refused(void **state) {
  (void)state;
  dt_symenv_t *env = hinted_env();
  expect_ok(dt__sym_require(env, P("s3 <= 5"), &add_at, "few"));
  dt_sym_t cond = dt__sym_eq(env, P("s3"), dt__sym_const(env, 384));
  assert_int_equal(cond.id, dt__sym_const(env, 0).id);
  cond = dt__sym_eq(env, P("s3*2"), P("384"));
  expect_parts(dt__sym_require(env, cond, &view_at, "inner dims must be equal"), DT_E_SHAPE,
               EACH_OF("reshape: inner dims must be equal", "expected s3*2 == 384, have 10 and 384",
                       "s3 is d.size(0) = 5", "model.c:31"));
  // A literal that is no comparison says nothing about the last one.
  (void)dt__sym_eq(env, P("s3"), P("7"));
  cond = dt__sym_const(env, 0);
  expect_told(dt__sym_require(env, cond, &view_at, "never"), DT_E_SHAPE, "false for all sizes");
  dt__symenv_destroy(env);
}

RUN_TESTS(TEST(test_chain), TEST(test_propagated), TEST(test_refused))
