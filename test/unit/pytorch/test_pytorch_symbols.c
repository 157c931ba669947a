// SPDX-License-Identifier: Apache-2.0
// Behaviours of PyTorch 2's symbolic reasoning, by number, on environments (on traces:
// test_pytorch_traces.c). Where our default makes fewer or other assumptions (0 and 1 are ordinary
// sizes, equal hints say nothing), our count is tested, and PyTorch's under the declaration that
// stands for its policy.
#include "test/unit/symshape/sym_test.h"

typedef struct guards_t {
  uint32_t count;
  dt_sym_t last;
} guards_t;

static void on_assume(void *user, dt_symenv_t *env, dt_sym_t cond, const dt_origin_t *origin) {
  (void)env, (void)origin;
  guards_t *guards = user;
  guards->count++;
  guards->last = cond;
}

static const dt_origin_t here = {"test", "test.c", 1};

static dt_symenv_t *env_of(guards_t *guards) {
  dt_symenv_t *env;
  expect_ok(dt__symenv_create(&env));
  *guards = (guards_t){0};
  dt__symenv_on_assume(env, on_assume, guards);
  return env;
}

static dt_sym_t size(dt_symenv_t *env, int64_t lo, int64_t hint) {
  return dt__sym_new(env, DT_SYMBOL_SIZE, (dt_range_t){lo, INT64_MAX}, &hint, "size");
}
static dt_sym_t integer(dt_symenv_t *env, int64_t hint) {
  return dt__sym_new(env, DT_SYMBOL_INT, UNBOUNDED, &hint, "integer");
}
static dt_sym_t data(dt_symenv_t *env) {
  return dt__sym_new(env, DT_SYMBOL_UNBACKED, UNBOUNDED, NULL, "data");
}

static bool ask(dt_symenv_t *env, const char *cond) {
  bool yes;
  expect_ok(dt__sym_decide(env, P(cond), false, &here, &yes));
  return yes;
}
static int64_t as_int(dt_symenv_t *env, const char *e) {
  int64_t value;
  expect_ok(dt__sym_specialize(env, P(e), &here, &value));
  return value;
}
static void check_known(dt_symenv_t *env, const char *cond, dt_tri_t want, int line) {
  dt_tri_t known = dt__sym_known(env, P(cond));
  if (known != want)
    fail_msg("line %d: %s is %d, expected %d", line, cond, (int)known, (int)want);
}
#define KNOWN(cond) check_known(env, cond, DT_TRUE, __LINE__)
#define KNOWN_FALSE(cond) check_known(env, cond, DT_FALSE, __LINE__)
#define NOT_KNOWN(cond) check_known(env, cond, DT_UNKNOWN, __LINE__)
// A check at run time: a fact from here on, but no guard.
#define CHECK(cond) expect_ok(dt__sym_learn_at(env, P(cond), &here))
#define LAST(text) check_text(env, guards.last, (text), "the guard", __FILE__, __LINE__)

static void behaviour_40_int_of_a_size_guards_its_value(void **state) {
  (void)state;
  guards_t guards;
  dt_symenv_t *env = env_of(&guards);
  size(env, 0, 2);
  assert_int_equal(as_int(env, "s0"), 2);
  assert_int_equal(guards.count, 1);
  LAST("s0 == 2");
  dt__symenv_destroy(env);
}

static void behaviour_41_rounded_quotients_guard_the_quotient(void **state) {
  (void)state;
  static const struct {
    const char *e, *guard;
    int64_t value;
  } rows[] = {{"truncdiv(s0, 2)", "s0//2 == 3", 3},
              {"s0//2", "s0//2 == 3", 3},
              {"ceildiv(s0, 2)", "(s0 + 1)//2 == 4", 4}};
  for (int k = 0; k < 3; k++) {
    guards_t guards;
    dt_symenv_t *env = env_of(&guards);
    size(env, 0, 7);
    assert_int_equal(as_int(env, rows[k].e), rows[k].value);
    assert_int_equal(guards.count, 1);
    LAST(rows[k].guard);
    NOT_KNOWN("s0 == 7"); // the quotient, not the size
    dt__symenv_destroy(env);
  }
}

static void behaviour_42_one_is_an_ordinary_size(void **state) {
  (void)state;
  guards_t guards;
  dt_symenv_t *env = env_of(&guards);
  size(env, 0, 5); // ours: any size
  size(env, 2, 5); // as when 0 and 1 are specialised
  assert_true(ask(env, "s1 != 1"));
  assert_int_equal(guards.count, 0);
  assert_true(ask(env, "s0 != 1"));
  assert_int_equal(guards.count, 1);
  LAST("s0 != 1");
  dt__symenv_destroy(env);
}

static void behaviour_43_equal_hints_say_nothing(void **state) {
  (void)state;
  guards_t guards;
  dt_symenv_t *env = env_of(&guards);
  size(env, 0, 5);
  size(env, 0, 5);
  assert_true(ask(env, "s0 == s0")); // one symbol for both: a declared name, or duck sizing
  assert_int_equal(guards.count, 0);
  assert_true(ask(env, "s0 == s1"));
  assert_int_equal(guards.count, 1);
  dt__symenv_destroy(env);
}

static void behaviour_44_a_size_as_a_condition(void **state) {
  (void)state;
  guards_t guards;
  dt_symenv_t *env = env_of(&guards);
  size(env, 0, 5); // 0 is an ordinary size: it must be told apart
  size(env, 1, 5);
  assert_true(ask(env, "s1"));
  assert_int_equal(guards.count, 0);
  assert_true(ask(env, "s0"));
  assert_int_equal(guards.count, 1);
  assert_true(ask(env, "s0"));
  assert_int_equal(guards.count, 1);
  dt__symenv_destroy(env);
}

static void behaviour_47_a_checked_value_replaces_the_symbol(void **state) {
  (void)state;
  guards_t guards;
  dt_symenv_t *env = env_of(&guards);
  data(env);
  CHECK("u0 == 0");
  GIVES("u0", "0");
  assert_true(ask(env, "u0 == 0"));
  assert_int_equal(guards.count, 0);
  dt__symenv_destroy(env);
}

static void behaviour_48_a_checked_order_answers_its_relatives(void **state) {
  (void)state;
  guards_t guards;
  dt_symenv_t *env = env_of(&guards);
  data(env);
  size(env, 0, 5);
  CHECK("u0 < s1");
  KNOWN("u0 < s1");
  KNOWN("u0 != s1");
  KNOWN_FALSE("s1 < u0");
  KNOWN_FALSE("s1 <= u0");
  KNOWN_FALSE("u0 == s1");
  assert_int_equal(guards.count, 0);
  dt__symenv_destroy(env);
}

static void behaviour_49_the_newest_symbol_by_number(void **state) {
  (void)state;
  guards_t guards;
  dt_symenv_t *env = env_of(&guards);
  dt_sym_t sum = dt__sym_const(env, 0);
  uint32_t newest;
  for (int k = 0; k < 11; k++)
    sum = dt__sym_add(env, sum, data(env));
  assert_true(dt__sym_newest_unbacked(env, P("u0 + u1 == 10"), &newest));
  assert_int_equal(newest, 1);
  assert_true(dt__sym_newest_unbacked(env, dt__sym_eq(env, sum, dt__sym_const(env, 10)), &newest));
  assert_int_equal(newest, 10); // u10 comes after u9
  size(env, 0, 3);
  assert_true(dt__sym_newest_unbacked(env, P("s11 + u3"), &newest));
  assert_int_equal(newest, 3);
  assert_false(dt__sym_newest_unbacked(env, P("s11 + 1"), &newest));
  dt__symenv_destroy(env);
}

static void behaviour_50_never_replaced_by_what_is_newer(void **state) {
  (void)state;
  static const char *const checks[] = {"u0 == u1*4", "u0 == 10 - u1", "u0 == u1 + s2"};
  for (int k = 0; k < 3; k++) {
    guards_t guards;
    dt_symenv_t *env = env_of(&guards);
    data(env);
    data(env);
    size(env, 0, 4);
    CHECK(checks[k]);
    GIVES("u0", "u0");
    uint32_t newest;
    assert_true(dt__sym_newest_unbacked(env, dt__sym_simplify(env, P("u0")), &newest));
    assert_int_equal(newest, 0);
    KNOWN(checks[k]);
    dt__symenv_destroy(env);
  }
}

static void behaviour_51_bounds_in_any_spelling(void **state) {
  (void)state;
  static const char *const above[] = {"not(u0 <= 4)", "4 < u0", "not(u0 < 5)", "5 <= u0"};
  static const char *const below[] = {"u0 < 4", "not(4 <= u0)", "u0 <= 3", "not(3 < u0)"};
  for (int k = 0; k < 4; k++) {
    guards_t guards;
    dt_symenv_t *env = env_of(&guards);
    data(env);
    CHECK(above[k]);
    KNOWN("u0 != 3");
    KNOWN("u0 != 4");
    KNOWN("4 < u0");
    KNOWN("5 <= u0");
    NOT_KNOWN("u0 != 5");
    dt__symenv_destroy(env);
    env = env_of(&guards);
    data(env);
    CHECK(below[k]);
    KNOWN("u0 != 5");
    KNOWN("u0 != 4");
    KNOWN("u0 < 4");
    KNOWN("u0 <= 3");
    NOT_KNOWN("u0 != 3");
    dt__symenv_destroy(env);
    // The same by guards on sizes that have hints, and by the opposite where the answer is no.
    for (int side = 0; side < 2; side++) {
      env = env_of(&guards);
      size(env, 0, side ? 2 : 9);
      bool yes;
      dt_sym_t s = dt__symbol_sym(env, 0), five = dt__sym_const(env, 5);
      expect_ok(dt__sym_decide(env, dt__sym_le(env, five, s), false, &here, &yes));
      assert_int_equal(yes, !side);
      assert_int_equal(guards.count, 1);
      check_known(env, "4 < s0", side ? DT_FALSE : DT_TRUE, __LINE__);
      check_known(env, "s0 == 4", side ? DT_UNKNOWN : DT_FALSE, __LINE__);
      check_known(env, "s0 != 5", side ? DT_TRUE : DT_UNKNOWN, __LINE__);
      assert_int_equal(guards.count, 1);
      dt__symenv_destroy(env);
    }
  }
}

static void behaviour_52_known_without_a_guard(void **state) {
  (void)state;
  guards_t guards;
  dt_symenv_t *env = env_of(&guards);
  for (int k = 0; k < 5; k++)
    size(env, 2, 3 + k);
  KNOWN("s3 < s2*s3");
  KNOWN("(s3 + s3)%2 == 0");
  NOT_KNOWN("s2 != s3");
  NOT_KNOWN("s2 < s3*s4");
  assert_int_equal(guards.count, 0);
  dt__symenv_destroy(env);
}

static void behaviour_53_select_guards_when_it_is_forced(void **state) {
  (void)state;
  guards_t guards;
  dt_symenv_t *env = env_of(&guards);
  size(env, 0, 5);
  size(env, 0, 4);
  dt_sym_t chosen = dt__sym_select(env, P("s0 <= s1"), P("s0 + 1"), P("s1*2"));
  assert_int_equal(guards.count, 0);
  int64_t value;
  expect_ok(dt__sym_specialize(env, chosen, &here, &value));
  assert_int_equal(value, 8);
  assert_int_equal(guards.count, 1);
  LAST("select(s0 <= s1, s0 + 1, s1*2) == 8");
  dt__symenv_destroy(env);
}

static void behaviour_54_nested_maxima(void **state) {
  (void)state;
  guards_t guards;
  dt_symenv_t *env = env_of(&guards);
  data(env);
  KNOWN("max(1, max(257, u0)) == max(257, u0)");
  assert_int_equal(guards.count, 0);
  dt__symenv_destroy(env);
}

static void behaviour_55_division_by_what_has_no_bounds(void **state) {
  (void)state;
  guards_t guards;
  dt_symenv_t *env = env_of(&guards);
  integer(env, 3);
  integer(env, 7);
  integer(env, 6);
  assert_true(ask(env, "n0*(n1//n0) == n2"));
  assert_int_equal(guards.count, 1);
  KNOWN("n0*(n1//n0) == n2");
  expect_ok(dt__symenv_status(env));
  dt__symenv_destroy(env);
}

static void behaviour_56_floor_and_exact_division_share_facts(void **state) {
  (void)state;
  guards_t guards;
  dt_symenv_t *env = env_of(&guards);
  size(env, 0, 3);
  assert_true(ask(env, "s0//3 == 1"));
  assert_true(ask(env, "s0%3 == 0"));
  assert_int_equal(guards.count, 2);
  KNOWN("s0//3 == 1");
  KNOWN("exactdiv(s0, 3) == 1");
  dt__symenv_destroy(env);
  // A fact about the exact form answers the floor form, and the other way round.
  env = env_of(&guards);
  size(env, 0, 12);
  assert_true(ask(env, "s0%4 == 0"));
  assert_true(ask(env, "exactdiv(s0, 4) <= 9"));
  KNOWN("s0//4 < 10");
  KNOWN("s0 == (s0//4)*4");
  assert_int_equal(guards.count, 2);
  dt__symenv_destroy(env);
}

// Some order of the dims makes each stride the product of the sizes before it; dims of size 1 do
// not matter.
static dt_sym_t dense(dt_symenv_t *env, int rank, const dt_sym_t *sizes, const dt_sym_t *strides) {
  dt_sym_t any = dt__sym_const(env, 0), one = dt__sym_const(env, 1);
  for (int first = 0; first < rank; first++) {
    dt_sym_t ok = one, product = one;
    for (int k = 0; k < rank; k++) {
      int d = (first + k) % rank;
      dt_sym_t fits = dt__sym_eq(env, strides[d], product);
      ok = dt__sym_and(env, ok, dt__sym_or(env, dt__sym_eq(env, sizes[d], one), fits));
      product = dt__sym_mul(env, product, sizes[d]);
    }
    any = dt__sym_or(env, any, ok);
  }
  return any;
}

static void behaviour_57_dense_layouts_of_data_sizes(void **state) {
  (void)state;
  guards_t guards;
  dt_symenv_t *env = env_of(&guards);
  for (int k = 0; k < 4; k++)
    data(env);
  static const struct {
    int rank;
    const char *sizes[2], *strides[2];
    bool dense;
  } rows[] = {{2, {"u0", "2"}, {"2", "1"}, true},
              {2, {"2", "u0"}, {"1", "2"}, true},
              {1, {"u0"}, {"1"}, true},
              {1, {"1"}, {"u0"}, true},
              {2, {"u0", "u1"}, {"u2", "u3"}, false}};
  for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
    dt_sym_t sizes[2], strides[2];
    for (int d = 0; d < rows[k].rank; d++) {
      sizes[d] = P(rows[k].sizes[d]);
      strides[d] = P(rows[k].strides[d]);
    }
    bool yes;
    expect_ok(dt__sym_decide(env, dense(env, rows[k].rank, sizes, strides), false, &here, &yes));
    assert_int_equal(yes, rows[k].dense);
  }
  assert_int_equal(guards.count, 0);
  expect_ok(dt__symenv_status(env));
  dt__symenv_destroy(env);
}

static void behaviour_58_the_guard_of_a_half(void **state) {
  (void)state;
  guards_t guards;
  dt_symenv_t *env = env_of(&guards);
  size(env, 0, 8);
  assert_int_equal(as_int(env, "truncdiv(s0, 2)"), 4);
  int64_t values[1] = {8}, truth;
  assert_true(dt__sym_eval(env, guards.last, values, &truth) && truth);
  values[0] = 7;
  assert_true(dt__sym_eval(env, guards.last, values, &truth) && !truth);
  dt__symenv_destroy(env);
}

static void behaviour_59_sums_of_distinct_symbols(void **state) {
  (void)state;
  guards_t guards;
  dt_symenv_t *env = env_of(&guards);
  enum { N = 600 };
  dt_sym_t up = dt__sym_const(env, 0), down = up;
  for (int k = 0; k < N; k++)
    size(env, 0, k);
  for (int k = 0; k < N; k++) {
    up = dt__sym_add(env, up, dt__symbol_sym(env, (uint32_t)k));
    down = dt__sym_add(env, down, dt__symbol_sym(env, (uint32_t)(N - 1 - k)));
  }
  assert_int_equal(env->rule_hits[DT_RULE_SUM_MERGE], 0); // nothing is alike in them
  assert_int_equal(up.id, down.id);
  GIVES("s0 + s1 + s2", "s0 + s1 + s2");
  assert_int_equal(env->rule_hits[DT_RULE_SUM_MERGE], 0);
  GIVES("s0 + s1 + s0", "s0*2 + s1");
  assert_true(env->rule_hits[DT_RULE_SUM_MERGE] > 0);
  GIVES("s0 + s1 + 1", "s0 + s1 + 1");
  assert_int_equal(P("s1 + s0 + s0").id, P("s0 + s1 + s0").id);
  assert_int_equal(P("1 + s1 + s0").id, P("s0 + s1 + 1").id);
  dt__symenv_destroy(env);
}

// ---- 60: conditions that leave one value for each size --------------------------------------------
static const char *const puzzle[] = {
    // Relations first, then what pins each size.
    "s3*s0 == 24",
    "s4 == s0*5",
    "s5 + s3 == 10",
    "s6*2 == s4 - 16",
    "s1 == s6*s0",
    "s1 - s2*4 == s0",
    "(s0 + s3)%11 == 0",
    "s4//s6 == 3",
    "s4%s0 == 0",
    "s2 + s5 < s4",
    "s2*s3 < 100",
    "s5 != s3",
    "max(s2, s5) <= 25",
    "min(s2, s0) == 8",
    "s1//s3 == 32",
    "s7*s7 == 49",
    "s7 == s5 or s7 == s3",
    "s8 + s7 <= s6",
    "s8*2 + 1 == 11",
    "s9 == s8*s7 + s2",
    "(s9 + s2)%s9 == s2",
    "s9//8 == 7",
    // s0: 8
    "2 <= s0",
    "s0 <= 30",
    "s0%4 == 0",
    "(s0//4)%3 == 2",
    "s0 != 20",
    "s0*s0 <= 399",
    // s1: 96
    "s1 < 200",
    "64 < s1",
    "s1%32 == 0",
    "(s1//32)%4 == 3",
    "(s1 + 3)%9 == 0",
    "s1 != 128",
    // s2: 22
    "(s2*5 + 3)%7 == 1",
    "s2%3 == 1",
    "10 <= s2",
    "s2//4 <= 8",
    "s2 != 43",
    // s3: 3
    "1 <= s3",
    "s3 < 12",
    "s3%2 == 1",
    "(s3*7)%5 == 1",
    "s3 != 8",
    // s4: 40
    "s4%8 == 0",
    "s4 <= 100",
    "30 < s4",
    "(s4//8)%5 == 0",
    "s4 != 80",
    // s5: 7
    "s5 <= 10",
    "5 <= s5",
    "(s5 + 1)%4 == 0",
    "s5*3 < 30",
    // s6: 12
    "s6 < 20",
    "9 < s6",
    "s6%4 == 0",
    "s6 != 16",
    // s7, s8, s9
    "1 <= s7",
    "s7 <= 60",
    "s8 <= 50",
    "s9 <= 200",
};
// 65 conditions.
enum { PUZZLE = sizeof puzzle / sizeof puzzle[0], N_SIZES = 10, DOMAIN = 128 };

typedef struct search_t {
  dt_symenv_t *env; // without facts
  dt_sym_t conds[PUZZLE];
  uint32_t last[PUZZLE]; // the last symbol in each
  int64_t values[N_SIZES], found[N_SIZES];
  int solutions;
} search_t;

// Tries all values for symbol `at` and those after it.
static void search(search_t *s, uint32_t at) {
  if (at == N_SIZES) {
    memcpy(s->found, s->values, sizeof s->found);
    s->solutions++;
    return;
  }
  for (s->values[at] = 0; s->values[at] < DOMAIN; s->values[at]++) {
    bool ok = true;
    for (int k = 0; ok && k < PUZZLE; k++) {
      int64_t truth;
      ok = s->last[k] != at || (dt__sym_eval(s->env, s->conds[k], s->values, &truth) && truth);
    }
    if (ok)
      search(s, at + 1);
  }
}

static dt_symenv_t *puzzle_env(void) {
  dt_symenv_t *env;
  expect_ok(dt__symenv_create(&env));
  for (int k = 0; k < N_SIZES; k++)
    dt__sym_new(env, DT_SYMBOL_SIZE, UNBOUNDED, NULL, "");
  return env;
}

static void behaviour_60_conditions_leave_static_sizes(void **state) {
  (void)state;
  dt_symenv_t *env = puzzle_env();
  static search_t brute;
  brute = (search_t){.env = env};
  for (int k = 0; k < PUZZLE; k++) {
    uint32_t symbols[N_SIZES];
    brute.conds[k] = P(puzzle[k]);
    uint32_t n = dt__sym_symbols(env, brute.conds[k], symbols, N_SIZES);
    assert_true(n > 0);
    brute.last[k] = symbols[n - 1];
  }
  search(&brute, 0);
  assert_int_equal(brute.solutions, 1);
  dt__symenv_destroy(env);
  // In this order, in the opposite one, and in shuffled ones.
  uint64_t seed = 0x9e3779b97f4a7c15u;
  for (int order = 0; order < 20; order++) {
    int at[PUZZLE];
    for (int k = 0; k < PUZZLE; k++)
      at[k] = order == 1 ? PUZZLE - 1 - k : k;
    for (int k = PUZZLE - 1; order > 1 && k > 0; k--) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      int other = (int)((seed >> 33) % (uint64_t)(k + 1)), keep = at[k];
      at[k] = at[other];
      at[other] = keep;
    }
    env = puzzle_env();
    for (int k = 0; k < PUZZLE; k++)
      expect_ok(dt__sym_learn(env, P(puzzle[at[k]])));
    for (uint32_t k = 0; k < N_SIZES; k++) {
      dt_sym_t now = dt__sym_simplify(env, dt__symbol_sym(env, k));
      int64_t value = -1;
      if (!dt__sym_is_const(env, now, &value) || value != brute.found[k])
        fail_msg("order %d: s%u is %lld in [%lld, %lld], expected %lld", order, k, (long long)value,
                 (long long)dt__sym_range(env, now).lo, (long long)dt__sym_range(env, now).hi,
                 (long long)brute.found[k]);
    }
    dt__symenv_destroy(env);
  }
}

static void behaviour_86_a_sum_in_either_direction(void **state) {
  (void)state;
  guards_t guards;
  dt_symenv_t *env = env_of(&guards);
  for (int k = 0; k < 3; k++)
    data(env);
  CHECK("u0 == u1 + u2");
  KNOWN("u1 + u2 == u0");
  KNOWN("u0 - u2 == u1");
  KNOWN_FALSE("u1 + u2 + 1 == u0");
  assert_int_equal(guards.count, 0);
  dt__symenv_destroy(env);
}

static void behaviour_89_a_multiple_is_bound_by_division(void **state) {
  (void)state;
  guards_t guards;
  dt_symenv_t *env = env_of(&guards);
  size(env, 0, 40);
  data(env);
  CHECK("s0 == u1*10");
  KNOWN("u1*10 == s0");
  // Not of s0 alone, which may be used before u1 is read and the check is made.
  assert_int_equal(dt__sym_known(env, P("s0%10 == 0")), DT_UNKNOWN);
  KNOWN("0 <= u1");
  assert_int_equal(guards.count, 0);
  dt__symenv_destroy(env);
}

RUN_TESTS(TEST(behaviour_40_int_of_a_size_guards_its_value),
          TEST(behaviour_41_rounded_quotients_guard_the_quotient),
          TEST(behaviour_42_one_is_an_ordinary_size), TEST(behaviour_43_equal_hints_say_nothing),
          TEST(behaviour_44_a_size_as_a_condition),
          TEST(behaviour_47_a_checked_value_replaces_the_symbol),
          TEST(behaviour_48_a_checked_order_answers_its_relatives),
          TEST(behaviour_49_the_newest_symbol_by_number),
          TEST(behaviour_50_never_replaced_by_what_is_newer),
          TEST(behaviour_51_bounds_in_any_spelling), TEST(behaviour_52_known_without_a_guard),
          TEST(behaviour_53_select_guards_when_it_is_forced), TEST(behaviour_54_nested_maxima),
          TEST(behaviour_55_division_by_what_has_no_bounds),
          TEST(behaviour_56_floor_and_exact_division_share_facts),
          TEST(behaviour_57_dense_layouts_of_data_sizes), TEST(behaviour_58_the_guard_of_a_half),
          TEST(behaviour_59_sums_of_distinct_symbols),
          TEST(behaviour_60_conditions_leave_static_sizes),
          TEST(behaviour_86_a_sum_in_either_direction),
          TEST(behaviour_89_a_multiple_is_bound_by_division))
