// SPDX-License-Identifier: Apache-2.0
// Every operation and form over all small integers, for operands of each sign that is declared or
// learned: what is built has the value that C gives, and prints and parses back to itself.
#include "test/unit/symshape/sym_test.h"

#define MOST 9

typedef struct form_t {
  const char *text;
  bool (*value)(int64_t a, int64_t b, int64_t *out); // false: no value
} form_t;

static int64_t floor_of(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

#define FORM(name, has, e)                                                                         \
  static bool name(int64_t a, int64_t b, int64_t *out) {                                           \
    (void)a, (void)b;                                                                              \
    if (!(has))                                                                                    \
      return false;                                                                                \
    *out = (e);                                                                                    \
    return true;                                                                                   \
  }
FORM(floordiv, b != 0, floor_of(a, b))
FORM(mod, b != 0, a - b * floor_of(a, b))
FORM(truncdiv, b != 0, a / b)
FORM(truncmod, b != 0, a % b)
FORM(ceildiv, b > 0, -floor_of(-a, b))
FORM(exactdiv, b != 0 && a % b == 0, a / b)
FORM(absolute, true, a < 0 ? -a : a)
FORM(distance, true, a < b ? b - a : a - b)
FORM(shl, b >= 0, a *((int64_t)1 << b))
FORM(shr, b >= 0, a >> b)
FORM(shl_3, true, a * 8)
FORM(shr_2, true, a >> 2)
FORM(shr_63, true, a < 0 ? -1 : 0)
FORM(back, b >= 0, a)
FORM(negated, true, floor_of(-a - b, 4))
FORM(unequal, true, a != b)
FORM(select, true, a < b ? a * 2 : b - a)
FORM(half_max, true, (a > 5 - a ? a : 5 - a))
FORM(cube, true, a * a * a - b * b)

static const form_t forms[] = {
    {"a//b", floordiv},
    {"a%b", mod},
    {"truncdiv(a, b)", truncdiv},
    {"truncmod(a, b)", truncmod},
    {"ceildiv(a, b)", ceildiv},
    {"exactdiv(a, b)", exactdiv},
    {"abs(a)", absolute},
    {"abs(a - b)", distance},
    {"shl(a, b)", shl},
    {"shr(a, b)", shr},
    {"shl(a, 3)", shl_3},
    {"shr(a, 2)", shr_2},
    {"shr(a, 63)", shr_63},
    {"shr(shl(a, b), b)", back},
    {"(-a - b)//4", negated},
    {"a != b", unequal},
    {"select(a < b, a*2, b - a)", select},
    {"max(a, 5 - a)", half_max},
    {"a*a*a - b*b", cube},
};

// n0 for a, n1 for b; letters inside of words stay.
static void spell(const char *form, char *out) {
  for (const char *c = form; *c; c++) {
    bool word = (c[1] >= 'a' && c[1] <= 'z') || (c > form && c[-1] >= 'a' && c[-1] <= 'z');
    if ((*c == 'a' || *c == 'b') && !word) {
      *out++ = 'n';
      *out++ = *c == 'a' ? '0' : '1';
    } else {
      *out++ = *c;
    }
  }
  *out = '\0';
}

static const dt_range_t ranges[] = {{-MOST, MOST}, {0, MOST}, {-MOST, 0}, {1, MOST}, {-MOST, -1}};
enum { RANGES = sizeof ranges / sizeof ranges[0] };

static uint64_t compare(dt_symenv_t *env, const form_t *form, dt_sym_t e, dt_range_t a,
                        dt_range_t b) {
  uint64_t n = 0;
  dt_range_t bounds = dt__sym_range(env, e);
  for (int64_t x = a.lo; x <= a.hi; x++)
    for (int64_t y = b.lo; y <= b.hi; y++) {
      int64_t values[2] = {x, y}, want, got = 0;
      if (!form->value(x, y, &want))
        continue;
      bool has = dt__sym_eval(env, e, values, &got);
      if (!has || got != want || want < bounds.lo || want > bounds.hi)
        fail_msg("%s at %lld, %lld: expected %lld, have %s%lld", form->text, (long long)x,
                 (long long)y, (long long)want, has ? "" : "no value ", (long long)got);
      n++;
    }
  return n;
}

static void test_all(void **state) {
  (void)state;
  uint64_t n = 0;
  for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++)
    for (int k = 0; k < 2 * RANGES * RANGES; k++) {
      dt_range_t a = ranges[k / 2 % RANGES], b = ranges[k / 2 / RANGES];
      bool learned = k % 2; // bounds known from the start, or learned after it was built
      dt_symenv_t *env;
      expect_ok(dt__symenv_create(&env));
      dt__sym_new(env, DT_SYMBOL_INT, learned ? UNBOUNDED : a, NULL, "");
      dt__sym_new(env, DT_SYMBOL_INT, learned ? UNBOUNDED : b, NULL, "");
      char text[64];
      spell(forms[f].text, text);
      dt_sym_t e = P(text);
      for (uint32_t s = 0; learned && s < 2; s++) {
        dt_range_t r = s ? b : a;
        dt_sym_t symbol = dt__symbol_sym(env, s);
        expect_ok(dt__sym_learn(env, dt__sym_le(env, dt__sym_const(env, r.lo), symbol)));
        expect_ok(dt__sym_learn(env, dt__sym_le(env, symbol, dt__sym_const(env, r.hi))));
      }
      n += compare(env, &forms[f], e, a, b);
      e = dt__sym_simplify(env, e);
      n += compare(env, &forms[f], e, a, b);
      dt_text_t printed;
      dt__text_init(&printed);
      dt__sym_print(env, e, &printed);
      assert_int_equal(P(dt__text_str(&printed)).id, e.id);
      dt__text_fini(&printed);
      expect_ok(dt__symenv_status(env));
      dt__symenv_destroy(env);
    }
  print_message("%llu values compared\n", (unsigned long long)n);
  assert_true(n > 100000);
}

// Counts that are none have no value, in every form of evaluation.
static void test_counts(void **state) {
  (void)state;
  dt_symenv_t *env;
  expect_ok(dt__symenv_create(&env));
  for (int k = 0; k < 2; k++)
    dt__sym_new(env, DT_SYMBOL_INT, UNBOUNDED, NULL, "");
  dt_sym_t left = P("shl(n0, n1)"), right = P("shr(n0, n1)");
  static const struct {
    int64_t a, count, left, right;
    bool has_left, has_right;
  } rows[] = {
      {1, 62, (int64_t)1 << 62, 0, true, true},
      {-2, 62, INT64_MIN, -1, true, true},
      {2, 62, 0, 0, false, true},
      {1, 63, 0, 0, false, true},
      {-1, 63, 0, -1, false, true},
      {INT64_MIN, 63, 0, -1, false, true},
      {INT64_MIN, 0, INT64_MIN, INT64_MIN, true, true},
      {1, 64, 0, 0, false, false},
      {1, -1, 0, 0, false, false},
      {0, INT64_MAX, 0, 0, false, false},
  };
  for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
    int64_t values[2] = {rows[k].a, rows[k].count}, got = 0;
    assert_int_equal(dt__sym_eval(env, left, values, &got), rows[k].has_left);
    if (rows[k].has_left)
      assert_int_equal(got, rows[k].left);
    assert_int_equal(dt__sym_eval(env, right, values, &got), rows[k].has_right);
    if (rows[k].has_right)
      assert_int_equal(got, rows[k].right);
  }
  dt__symenv_destroy(env);
}

RUN_TESTS(TEST(test_all), TEST(test_counts))
