// SPDX-License-Identifier: Apache-2.0
// The environment: first failures, limits, clones, running out of memory, and its speed.
#include "test/unit/symshape/sym_test.h"

#include "runtime/base/thread.h"

static void test_symbols(void **state) {
  (void)state;
  dt_symenv_t *env;
  expect_ok(dt__symenv_create(&env));
  char name[] = "batch";
  int64_t hint = 3;
  dt_sym_t s = dt__sym_new(env, DT_SYMBOL_SIZE, UNBOUNDED, &hint, name);
  memset(name, 'x', 5);
  dt_symbol_info_t info = dt__symbol_info(env, 0);
  assert_string_equal(info.name, "batch");
  assert_int_equal(info.range.lo, 0);
  assert_int_equal(info.range.hi, DT_SIZE_LIMIT - 1);
  assert_true(info.has_hint && info.hint == 3);
  assert_int_equal(dt__symbol_sym(env, 0).id, s.id);
  assert_int_equal(dt__symenv_symbol_count(env), 1);
  // A loop of one step is 0; one that never runs is still a symbol.
  dt_sym_t one = dt__sym_new_loop(env, dt__sym_const(env, 1));
  assert_int_equal(dt__sym_simplify(env, one).id, dt__sym_const(env, 0).id);
  assert_int_not_equal(dt__sym_new_loop(env, dt__sym_const(env, 0)).id, 0);
  expect_ok(dt__symenv_status(env));
  assert_int_equal(dt__sym_new(env, DT_SYMBOL_INT, (dt_range_t){3, 2}, NULL, "").id, 0);
  expect_code(dt__symenv_status(env), DT_E_ARGUMENT);
  expect_code(dt__symenv_status(env), DT_E_ARGUMENT); // each time
  dt__symenv_destroy(env);
  dt__symenv_destroy(NULL);
}

static void test_none(void **state) {
  (void)state;
  dt_symenv_t *env;
  expect_ok(dt__symenv_create(&env));
  dt_sym_t none = DT_SYM_NONE_ID, one = dt__sym_const(env, 1);
  assert_int_equal(dt__sym_add(env, none, one).id, 0);
  assert_int_equal(dt__sym_mul(env, one, none).id, 0);
  assert_int_equal(dt__sym_floordiv(env, none, none).id, 0);
  assert_int_equal(dt__sym_mod(env, one, none).id, 0);
  assert_int_equal(dt__sym_min(env, none, one).id, 0);
  assert_int_equal(dt__sym_select(env, none, one, one).id, 0);
  assert_int_equal(dt__sym_eq(env, one, none).id, 0);
  assert_int_equal(dt__sym_lt(env, none, one).id, 0);
  assert_int_equal(dt__sym_and(env, none, one).id, 0);
  assert_int_equal(dt__sym_not(env, none).id, 0);
  assert_int_equal(dt__sym_simplify(env, none).id, 0);
  assert_int_equal(dt__sym_subst(env, none, &one, &one, 0).id, 0);
  assert_int_equal(dt__sym_new_loop(env, none).id, 0);
  assert_int_equal(dt__sym_known(env, none), DT_UNKNOWN);
  expect_ok(dt__symenv_status(env)); // none in, none out, but nothing failed here
  dt_origin_t here = {"op", NULL, 0};
  bool yes;
  expect_code(dt__sym_decide(env, none, false, &here, &yes), DT_E_INTERNAL);
  // Literals that overflow.
  dt_sym_t big = dt__sym_const(env, INT64_MAX);
  assert_int_equal(dt__sym_add(env, big, one).id, 0);
  expect_code(dt__symenv_status(env), DT_E_LIMIT);
  expect_code(dt__sym_require(env, none, &here, "what"), DT_E_LIMIT);
  dt__symenv_destroy(env);
}

static void test_limits(void **state) {
  (void)state;
  // Depth.
  dt_symenv_t *env;
  expect_ok(dt__symenv_create(&env));
  dt_sym_t n = dt__sym_new(env, DT_SYMBOL_INT, UNBOUNDED, NULL, "");
  dt_sym_t m = dt__sym_new(env, DT_SYMBOL_INT, UNBOUNDED, NULL, ""), e = n;
  int depth = 0;
  for (; e.id && depth < 100000; depth++)
    e = dt__sym_mod(env, m, dt__sym_add(env, e, m));
  assert_int_equal(e.id, 0);
  assert_true(depth > 100);
  expect_code(dt__symenv_status(env), DT_E_LIMIT);
  dt__symenv_destroy(env);
  // Sharing: the tree doubles while nodes are few.
  expect_ok(dt__symenv_create(&env));
  n = dt__sym_new(env, DT_SYMBOL_INT, UNBOUNDED, NULL, "");
  m = dt__sym_new(env, DT_SYMBOL_INT, UNBOUNDED, NULL, "");
  e = n;
  for (depth = 0; e.id && depth < 1000; depth++)
    e = dt__sym_mod(env, dt__sym_floordiv(env, e, m), dt__sym_add(env, e, m));
  assert_int_equal(e.id, 0);
  expect_code(dt__symenv_status(env), DT_E_LIMIT);
  dt__symenv_destroy(env);
  // Terms, one sum and by products.
  expect_ok(dt__symenv_create(&env));
  e = dt__sym_const(env, 1);
  dt_sym_t product = e;
  for (int k = 0; k < 5000; k++)
    e = dt__sym_add(env, e, dt__sym_new(env, DT_SYMBOL_SIZE, UNBOUNDED, NULL, ""));
  assert_int_equal(e.id, 0);
  expect_code(dt__symenv_status(env), DT_E_LIMIT);
  dt__symenv_destroy(env);
  expect_ok(dt__symenv_create(&env));
  product = dt__sym_const(env, 1);
  for (int k = 0; k < 40; k++) {
    dt_sym_t a = dt__sym_new(env, DT_SYMBOL_SIZE, UNBOUNDED, NULL, "");
    product = dt__sym_mul(env, product, dt__sym_add(env, a, dt__sym_const(env, 1)));
  }
  assert_int_equal(product.id, 0);
  expect_code(dt__symenv_status(env), DT_E_LIMIT);
  dt__symenv_destroy(env);
}

static void check_same(const dt_symenv_t *a, const dt_symenv_t *b, dt_sym_t e) {
  dt_text_t x, y;
  dt__text_init(&x);
  dt__text_init(&y);
  dt__sym_print(a, e, &x);
  dt__sym_print(b, e, &y);
  assert_string_equal(dt__text_str(&x), dt__text_str(&y));
  dt__text_fini(&x);
  dt__text_fini(&y);
}

static void test_clone(void **state) {
  (void)state;
  dt_symenv_t *env = standard_env(), *twin;
  expect_ok(dt__sym_learn(env, P("s1 == s0*2")));
  expect_ok(dt__sym_learn(env, P("s0 < s2 and s0%8 == 0")));
  dt_sym_t kept = P("(s2*n4 + i6)//s3");
  dt__symenv_freeze(env);
  expect_ok(dt__symenv_clone(env, &twin));
  for (uint32_t id = 0; id < env->n_nodes; id++)
    check_same(env, twin, (dt_sym_t){.id = id});
  assert_int_equal(dt__symenv_symbol_count(twin), dt__symenv_symbol_count(env));
  // The same questions give the same ids in both, and neither disturbs the other.
  static const char *const asked[] = {"s1 - s0", "s0%4", "s0 < s2", "(i6*s1 + i7)//s1", "s2//7"};
  for (size_t k = 0; k < sizeof asked / sizeof asked[0]; k++) {
    dt_sym_t a = P(asked[k]);
    dt_symenv_t *keep = env;
    env = twin;
    dt_sym_t b = P(asked[k]);
    env = keep;
    assert_int_equal(a.id, b.id);
    check_same(env, twin, a);
  }
  assert_int_equal(dt__sym_new(twin, DT_SYMBOL_SIZE, UNBOUNDED, NULL, "").id, 0); // frozen too
  dt__symenv_destroy(env);
  check_same(twin, twin, kept);
  env = twin;
  GIVES("s1", "s0*2");
  dt__symenv_destroy(twin);
}

static void test_parts(void **state) {
  (void)state;
  dt_symenv_t *env = standard_env(), *twin;
  dt_sym_t old = P("s0//2 + s1");
  expect_ok(dt__sym_learn(env, P("s0 == (s0//4)*4")));
  expect_ok(dt__sym_learn(env, P("s0 <= 50")));
  dt__symenv_freeze(env);
  dt_symbol_info_t info = dt__symbol_info(env, 0);
  assert_int_equal(info.modulus, 4);
  assert_int_equal(info.residue, 0);
  uint32_t part = dt__symenv_symbol_count(env);
  assert_int_not_equal(dt__sym_new_part(env, 0, 4).id, 0);
  info = dt__symbol_info(env, part);
  assert_int_equal(info.kind, DT_SYMBOL_SIZE);
  assert_int_equal(info.whole, 0);
  assert_int_equal(info.divisor, 4);
  assert_int_equal(info.range.lo, 0);
  assert_int_equal(info.range.hi, 12);
  GIVES("s0", "s15*4");
  GIVES("s0//2", "s15*2");
  GIVES("(s0//4)*2", "s15*2");
  GIVES("s0//3", "(s15*4)//3");
  check_text(env, dt__sym_simplify(env, old), "s1 + s15*2", "s0//2 + s1", __FILE__, __LINE__);
  // Rows of halves: a flat index over them moves linearly.
  GIVES("((s0//4)*2)*(i6//((s0//4)*2)) + i6%(s0//2)", "i6");
  dt_text_t text;
  dt_scan_t scan;
  dt__text_init(&text);
  expect_ok(dt__symenv_write(env, &text));
  dt__scan_init(&scan, dt__text_str(&text), text.len, "environment");
  expect_ok(dt__symenv_read(&scan, &twin));
  info = dt__symbol_info(twin, part);
  assert_int_equal(info.whole, 0);
  assert_int_equal(info.divisor, 4);
  dt__text_fini(&text);
  dt__symenv_destroy(twin);
  expect_ok(dt__symenv_status(env));
  // Of sizes alone, and not of ones that are no multiples.
  assert_int_equal(dt__sym_new_part(env, 4, 2).id, 0);
  dt__symenv_destroy(env);
  env = standard_env();
  expect_ok(dt__sym_learn(env, P("s0%4 == 1")));
  assert_int_equal(dt__sym_new_part(env, 0, 2).id, 0);
  expect_code(dt__symenv_status(env), DT_E_ARGUMENT);
  dt__symenv_destroy(env);
  env = standard_env();
  assert_int_equal(dt__sym_new_part(env, 1, 3).id, 0); // nothing is known of it
  dt__symenv_destroy(env);
}

// Operations have as many arguments as they need.
static void test_counts_of_arguments(void **state) {
  (void)state;
  static const char *const nodes[] = {"n 5 0 0 1 1",   "n 3 0 0 1 1",    "n 4 0 0 1 1",
                                      "n 9 0 0 2 1 1", "n 16 0 0 2 1 1", "n 3 0 0 0",
                                      "n 5 7 0 2 1 1"};
  for (size_t k = 0; k < sizeof(nodes) / sizeof(nodes[0]); k++) {
    dt_symenv_t *env = NULL;
    dt_text_t text;
    dt_scan_t scan;
    dt__text_init(&text);
    dt__text_printf(&text, "environment 0 0 3 0 0 1 0 0\nn 1 5 0 0\n%s\nend\n", nodes[k]);
    dt__scan_init(&scan, dt__text_str(&text), text.len, "environment");
    expect_told(dt__symenv_read(&scan, &env), DT_E_FORMAT, "arguments");
    assert_null(env);
    dt__text_fini(&text);
  }
}

// What an expression was learned to be equal to, in a text that says so of `id`.
static dt_status_t read_with(dt_symenv_t *env, dt_sym_t id, dt_sym_t rep) {
  dt_symenv_t *twin = NULL;
  dt_text_t text, forged;
  dt_scan_t scan;
  dt__text_init(&text);
  dt__text_init(&forged);
  expect_ok(dt__symenv_write(env, &text));
  const char *all = dt__text_str(&text), *end = strstr(all, "\nend");
  assert_non_null(end);
  dt__text_write(&forged, all, (size_t)(end - all) + 1);
  dt__text_printf(&forged, "l %u %u %lld %lld 0", id.id, rep.id, (long long)INT64_MIN,
                  (long long)INT64_MAX);
  dt__text_put(&forged, end);
  dt__scan_init(&scan, dt__text_str(&forged), forged.len, "environment");
  dt_status_t status = dt__symenv_read(&scan, &twin);
  dt__text_fini(&text);
  dt__text_fini(&forged);
  dt__symenv_destroy(twin);
  return status;
}

// Replacements that lead back to themselves would never end.
static void test_replacements_in_a_circle_are_refused(void **state) {
  (void)state;
  dt_symenv_t *env = standard_env();
  dt_sym_t s0 = P("s0"), sum = P("s0 + s1"), product = P("s0*s1"), other = P("s2*s2");
  expect_ok(read_with(env, s0, other));
  expect_ok(read_with(env, product, sum));
  expect_told(read_with(env, s0, s0), DT_E_FORMAT, "leads back");
  expect_told(read_with(env, s0, sum), DT_E_FORMAT, "leads back");
  expect_told(read_with(env, s0, product), DT_E_FORMAT, "leads back");
  dt__symenv_destroy(env);
}

// A whole scenario; every failure must be a status.
static dt_status_t scenario(void) {
  dt_symenv_t *env = NULL, *twin = NULL;
  dt_text_t text;
  dt__text_init(&text);
  dt_status_t status;
  DT_TRY_GOTO(dt__symenv_create(&env), done);
  int64_t hint = 24;
  dt_sym_t s[40], sum = dt__sym_const(env, 0), wide = sum;
  for (int k = 0; k < 40; k++) {
    s[k] = dt__sym_new(env, DT_SYMBOL_SIZE, UNBOUNDED, &hint, "size");
    sum = dt__sym_add(env, sum, dt__sym_mul(env, s[k], dt__sym_const(env, k + 1)));
    wide = dt__sym_max(env, wide, s[k]);
  }
  dt_sym_t i = dt__sym_new_loop(env, s[0]), j = dt__sym_new_loop(env, s[1]);
  dt_sym_t flat = dt__sym_add(env, dt__sym_mul(env, i, s[1]), j);
  dt_sym_t quotient = dt__sym_floordiv(env, flat, s[1]);
  dt_origin_t here = {"op", "file", 1};
  bool yes;
  DT_TRY_GOTO(dt__sym_require(env, dt__sym_eq(env, s[2], s[3]), &here, "equal"), done);
  DT_TRY_GOTO(
      dt__sym_require(env, dt__sym_le(env, s[4], dt__sym_add(env, s[5], s[6])), &here, "le"), done);
  dt_sym_t rest = dt__sym_mod(env, s[7], dt__sym_const(env, 8));
  DT_TRY_GOTO(dt__sym_learn(env, dt__sym_eq(env, rest, dt__sym_const(env, 0))), done);
  dt_sym_t either = dt__sym_or(env, dt__sym_lt(env, s[8], s[9]), dt__sym_le(env, s[10], s[11]));
  DT_TRY_GOTO(dt__sym_decide(env, either, true, &here, &yes), done);
  dt_sym_t u = dt__sym_new(env, DT_SYMBOL_UNBACKED, (dt_range_t){0, 99}, NULL, "data");
  dt_sym_t ten = dt__sym_const(env, 10);
  DT_TRY_GOTO(dt__sym_learn_at(env, dt__sym_eq(env, dt__sym_mul(env, u, ten), s[14]), &here), done);
  DT_TRY_GOTO(dt__sym_learn(env, dt__sym_le(env, s[15], dt__sym_mul(env, s[16], s[17]))), done);
  DT_TRY_GOTO(dt__sym_learn(env, dt__sym_le(env, s[16], ten)), done);
  DT_TRY_GOTO(dt__sym_learn(env, dt__sym_eq(env, s[15], dt__sym_add(env, s[18], ten))), done);
  sum = dt__sym_add(env, sum, dt__sym_truncdiv(env, dt__sym_sub(env, s[19], s[18]), s[17]));
  sum = dt__sym_add(env, sum, dt__sym_shr(env, dt__sym_abs(env, u), s[17]));
  sum = dt__sym_simplify(env, sum);
  sum = dt__sym_subst(env, sum, &s[20], &flat, 1);
  dt__sym_print(env, sum, &text);
  DT_TRY_GOTO(dt__text_status(&text), done);
  DT_TRY_GOTO(dt__symenv_clone(env, &twin), done);
  wide = dt__sym_select(twin, dt__sym_ne(twin, s[12], s[13]), wide, quotient);
  DT_TRY_GOTO(dt__symenv_status(env), done);
  DT_TRY_GOTO(dt__symenv_status(twin), done);
  status =
      wide.id && sum.id && quotient.id == i.id ? NULL : DT_FAIL(DT_E_INTERNAL, "a wrong answer");
done:
  dt__text_fini(&text);
  dt__symenv_destroy(twin);
  dt__symenv_destroy(env);
  return status;
}

static void test_no_memory(void **state) {
  (void)state;
  expect_ok(scenario());
  dt__heap_fail_at(UINT64_MAX, false); // counts only
  expect_ok(scenario());
  uint64_t total = dt__heap_fail_at(0, false);
  assert_true(total > 50);
  for (int sticky = 0; sticky < 2; sticky++)
    for (uint64_t n = 1; n <= total; n++) {
      dt__heap_fail_at(n, sticky != 0);
      dt_status_t status = scenario();
      dt__heap_fail_at(0, false);
      dt_code_t code = dt_status_code(status);
      if (code != DT_E_NO_MEMORY) {
        print_error("allocation %llu of %llu: %s %s\n", (unsigned long long)n,
                    (unsigned long long)total, dt_code_name(code), dt_status_message(status));
        dt_status_free(status);
        fail();
      }
      dt_status_free(status);
    }
  print_message("%llu allocations, each failed once\n", (unsigned long long)total);
}

// 500 sizes, 5,000 questions and as many index expressions, as a long trace asks them.
static void test_speed(void **state) {
  (void)state;
  int64_t begin = dt__now_ns();
  dt_symenv_t *env;
  expect_ok(dt__symenv_create(&env));
  dt_sym_t s[500];
  int64_t hint = 16;
  for (int k = 0; k < 500; k++)
    s[k] = dt__sym_new(env, DT_SYMBOL_SIZE, UNBOUNDED, &hint, "size");
  dt_origin_t here = {"op", "file", 1};
  uint64_t x = 88172645463325252u;
  for (int k = 0; k < 5000; k++) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    dt_sym_t a = s[x % 500], b = s[x / 500 % 500], c = s[x / 250000 % 500];
    dt_sym_t cond;
    switch (k % 5) {
    case 0:
      cond = dt__sym_eq(env, a, b);
      break;
    case 1:
      cond = dt__sym_le(env, a, dt__sym_add(env, b, c));
      break;
    case 2:
      cond = dt__sym_eq(env, dt__sym_mod(env, a, dt__sym_const(env, 8)), dt__sym_const(env, 0));
      break;
    case 3:
      cond = dt__sym_eq(env, dt__sym_mul(env, a, b), dt__sym_mul(env, b, c));
      break;
    default:
      cond = dt__sym_lt(env, dt__sym_const(env, k % 16), a);
      break;
    }
    bool yes;
    if (k % 50 < 5)
      expect_ok(dt__sym_decide(env, cond, false, &here, &yes));
    else
      (void)dt__sym_known(env, cond);
  }
  int64_t asked = dt__now_ns();
  for (int k = 0; k < 5000; k++) {
    dt_sym_t e0 = s[(k * 7) % 500], e1 = s[(k * 11 + 3) % 500];
    dt_sym_t i, j;
    if (k < 50) {
      i = dt__sym_new_loop(env, e0);
      j = dt__sym_new_loop(env, e1);
    } else {
      i = dt__symbol_sym(env, (uint32_t)(500 + (k % 50) * 2));
      j = dt__symbol_sym(env, (uint32_t)(501 + (k % 50) * 2));
      e1 = dt__symbol_extent(env, (uint32_t)(501 + (k % 50) * 2));
    }
    dt_sym_t flat = dt__sym_add(env, dt__sym_mul(env, i, e1), j);
    flat = dt__sym_add(env, dt__sym_mul(env, flat, dt__sym_const(env, 4 + k % 64)),
                       dt__sym_const(env, k % 4));
    dt_sym_t q = dt__sym_floordiv(env, flat, dt__sym_mul(env, e1, dt__sym_const(env, 4 + k % 64)));
    assert_int_not_equal(q.id, 0);
    (void)dt__sym_range(env, q);
  }
  int64_t end = dt__now_ns();
  expect_ok(dt__symenv_status(env));
  print_message("500 sizes, 5000 questions: %.1f ms; 5000 index expressions: %.1f ms; %u nodes, "
                "%u facts\n",
                (double)(asked - begin) / 1e6, (double)(end - asked) / 1e6, env->n_nodes,
                env->n_facts);
  dt__symenv_destroy(env);
}

RUN_TESTS(TEST(test_symbols), TEST(test_none), TEST(test_limits), TEST(test_clone),
          TEST(test_parts), TEST(test_no_memory), TEST(test_speed), TEST(test_counts_of_arguments),
          TEST(test_replacements_in_a_circle_are_refused))
