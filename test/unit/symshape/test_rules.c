// SPDX-License-Identifier: Apache-2.0
// The rewrite rules: for each, expressions it must simplify, and that it was the rule that did it.
#include "test/unit/symshape/sym_test.h"

#define NO_RULE DT_RULE_COUNT

static const char *const rule_names[] = {
#define RULE(id, doc) #id,
#include "symshape/rules.def"
};

typedef struct row_t {
  dt_rule_t rule;
  const char *in, *out;
} row_t;
#define R(rule, in, out) {DT_RULE_##rule, in, out}
#define KEEP(in, out) {NO_RULE, in, out}

static const row_t rows[] = {
    // Sums and products.
    R(SUM_MERGE, "s0 + 3 + s0*2 - 3", "s0*3"),
    R(SUM_MERGE, "s0 - s0", "0"),
    KEEP("s1 + s0", "s0 + s1"),
    R(SUM_MERGE, "i9 + s1*32 + s0*384 + s1", "s0*384 + s1*33 + i9"),
    R(PRODUCT_DISTRIBUTE, "(s0 + 4)*3", "s0*3 + 12"),
    R(PRODUCT_DISTRIBUTE, "(i6*s1 + i7)*384 + i8", "s1*i6*384 + i7*384 + i8"),
    R(PRODUCT_DISTRIBUTE, "(s0 + 1)*(s0 - 1)", "s0*s0 - 1"),
    R(SUM_DIVMOD, "(n4//s3)*s3 + n4%s3", "n4"),
    R(SUM_DIVMOD, "8*(n4//8) + n4%8", "n4"),
    R(SUM_DIVMOD, "s1*(16*(n4//8) + 2*(n4%8)) + 5", "s1*n4*2 + 5"),
    R(SUM_DIVMOD, "12*(n4//12) + 4*((n4//4)%3) + n4%4", "n4"),
    R(SUM_DIGITS, "4*((n4//4)%3) + n4%4", "n4%12"),
    R(SUM_DIGITS, "s0*(s1*((n4//s1)%s13) + n4%s1) + 7", "s0*(n4%(s1*s13)) + 7"),
    R(SUM_DIGITS, "20*((n4//4)%5) + 5*(n4%4)", "(n4%20)*5"),
    KEEP("s1*((n4//s1)%s3) + n4%s1", "s1*((n4//s1)%s3) + n4%s1"), // their product may not fit
    KEEP("4*((n4//4)%(-3)) + n4%4", "n4%4 + ((n4//4)%(-3))*4"),
    KEEP("3*((n4//4)%3) + n4%4", "n4%4 + ((n4//4)%3)*3"),
    KEEP("8*(n4//8) + 2*(n4%8)", "(n4//8)*8 + (n4%8)*2"),
    R(SUM_EXACT_DIV, "(select(s0 == 1, 6, 10)//4)*4", "select(s0 == 1, 6, 10) - 2"),
    R(RANGE_VALUE, "s13//(-16)", "-1"),
    // Quotients and remainders.
    R(DIV_ONE, "n4//1", "n4"),
    R(DIV_ONE, "n4%1", "0"),
    R(DIV_ONE, "0//s0", "0"),
    R(DIV_LITERALS, "(-7)//2", "-4"),
    R(DIV_LITERALS, "(-7)%2", "1"),
    R(DIV_LITERALS, "7%(-2)", "-1"),
    KEEP("7//0", "7//0"),
    KEEP("s0//0", "s0//0"),
    KEEP("s0%0", "s0%0"),
    R(DIV_SELF, "(s0*n4)//n4", "s0"),
    R(DIV_SELF, "(s0*n4)%n4", "0"),
    R(DIV_SELF, "(s0*s1 + s0)//(s1 + 1)", "s0"),
    R(DIV_SELF, "n4//n4", "1"),
    R(DIV_SELF, "(n4*6)//(-3)", "-n4*2"),
    R(DIV_SPLIT, "(i7*32 + i9)//32", "i7"),
    R(DIV_SPLIT, "(i7*32 + i9)%32", "i9"),
    R(DIV_SPLIT, "(i6*s1 + i7)//s1", "i6"),
    R(DIV_SPLIT, "(i6*s1 + i7)%s1", "i7"),
    R(DIV_SPLIT, "i7//s1", "0"),
    R(DIV_SPLIT, "i7%s1", "i7"),
    R(DIV_SPLIT, "(i6*s1*384 + i7*384 + i8)//(s1*384)", "i6"),
    R(DIV_SPLIT, "(i6*s1*384 + i7*384 + i8)%(s1*384)", "i7*384 + i8"),
    R(DIV_SPLIT, "((i6*s1*384 + i7*384 + i8)//384)%s1", "i7"),
    R(DIV_SPLIT, "(i6*s1 + i6 + i7)//(s1 + 1)", "i6"),
    R(DIV_SPLIT, "(i7*s0 + i6)//(s0*s1)", "0"),
    R(DIV_SPLIT, "(i11//s1)//s0", "0"),
    R(DIV_SELF, "(i11//s1)*s1//s1", "i11//s1"),
    R(DIV_SPLIT, "(i7 - s1)//s1", "-1"),
    R(DIV_NEGATIVE_ONE, "(s0*s1 - 1)//s1", "s0 - 1"),
    R(DIV_QUOTIENT_RANGE, "(s13 + 8)//16", "1"),
    R(DIV_QUOTIENT_RANGE, "(s13 + 8)%16", "s13 - 8"),
    R(DIV_CANCEL, "(s0*4)//8", "s0//2"),
    R(DIV_CANCEL, "(s0*4 + 6)//8", "(s0 + 1)//2"),
    R(DIV_CANCEL, "(n4*4 + 3)%8", "(n4%2)*4 + 3"),
    R(DIV_CANCEL, "(i6*32 + i9)//64", "i6//2"),
    R(DIV_CANCEL, "(i6*s1 + i7)//(s1*2)", "i6//2"),
    R(DIV_CANCEL, "(n4*s1)//(s1*s2)", "n4//s2"),
    R(DIV_CANCEL, "(n4*6 + n5*4)//8", "(n4*3 + n5*2)//4"),
    // n4 may be -1 and the products fit, but not n5*2 alone.
    KEEP("(n4*n5*2)//(n4*3)", "(n4*n5*2)//(n4*3)"),
    R(DIV_CANCEL, "(n4*n5)//(n4*3)", "n5//3"),
    R(DIV_CANCEL, "(n4*n14*4)//(n4*3)", "(n14*4)//3"),
    R(DIV_EXTRACT, "(s0*8 + s1)//8", "s0 + s1//8"),
    R(DIV_EXTRACT, "(s0*s1*8 + s2 + 9)//8", "s0*s1 + (s2 + 1)//8 + 1"),
    R(DIV_EXTRACT, "(n4*8 + s1)%8", "s1%8"),
    // n4//n5 has no value for -2^63 and -1, but the whole may have one.
    KEEP("(s0*n5 + n4)//n5", "(s0*n5 + n4)//n5"),
    R(DIV_EXTRACT, "(s0*n5 + n4)%n5", "n4%n5"),
    R(DIV_EXTRACT, "(s0*n5 + s1)//n5", "s0 + s1//n5"),
    R(DIV_EXTRACT, "(s0*3 + n4)//(-3)", "-s0 + n4//(-3)"),
    R(DIV_NEGATED, "(-s0)//8", "-((s0 + 7)//8)"),
    R(DIV_NEGATED, "-((-s0 - s1 + 3)//4)", "(s0 + s1)//4"),
    KEEP("(-n4)//8", "(-n4)//8"),
    R(DIV_NESTED, "(n4//3)//5", "n4//15"),
    R(DIV_NESTED, "((s0 - 1)//2 + 1)//2", "(s0 + 1)//4"),
    R(DIV_OF_MOD, "(n4%12)//4", "(n4//4)%3"),
    R(DIV_OF_MOD, "(i9%12)//4", "(i9//4)%3"),
    R(MOD_OF_MOD, "(n4%12)%4", "n4%4"),
    R(MOD_OF_MOD, "(s0%8 + s1)%8", "(s0 + s1)%8"),
    R(MOD_COEFFICIENT, "(s0*35)%32", "(s0*3)%32"),
    R(MOD_CONGRUENCE, "select(s0 == 1, 6, 10)%4", "2"),
    R(DIV_EXTRACT, "(s0*32 + s1)//s1", "(s0*32)//s1 + 1"),
    // Shifts.
    R(SHIFT_LITERAL, "shl(n4, 3)", "n4*8"),
    R(SHIFT_LITERAL, "shl(n4, 0)", "n4"),
    R(SHIFT_LITERAL, "shl(1, 62)", "4611686018427387904"),
    KEEP("shl(n4, 63)", "shl(n4, 63)"),
    KEEP("shl(n4, -1)", "shl(n4, -1)"),
    R(SHIFT_LITERAL, "shr(n4, 3)", "n4//8"),
    R(SHIFT_LITERAL, "shr(n4, 63)", "(n4//4611686018427387904)//2"),
    R(SHIFT_LITERAL, "shr(s0, 63)", "0"),
    KEEP("shr(n4, 64)", "shr(n4, 64)"),
    R(SHIFT_LITERAL, "shr(shl(s0, 4), 2)", "s0*4"),
    R(SHIFT_SAME, "shl(0, n4)", "0"),
    R(SHIFT_SAME, "shr(-1, n4)", "-1"),
    R(SHIFT_SAME, "shr(0, n4)", "0"),
    R(SHIFT_BACK, "shr(shl(n4, n5), n5)", "n4"),
    R(ORDER_PROVED, "0 <= shr(s0, n4)", "1"),
    R(ORDER_PROVED, "shl(n14, u10) < 0", "0"),
    KEEP("shl(s0, n4)//2", "shl(s0, n4)//2"),
    // C's division.
    R(TRUNC_FLOOR, "truncdiv(s0, 2)", "s0//2"),
    R(TRUNC_FLOOR, "truncmod(-s0 - 1, -3)", "(-s0 + 2)%(-3)"),
    R(TRUNC_NEGATED, "truncdiv(-s0, 2)", "-(s0//2)"),
    R(TRUNC_NEGATED, "truncmod(-s0, 5)", "-(s0%5)"),
    R(TRUNC_NEGATED, "truncdiv(s0, -4)", "-(s0//4)"),
    R(TRUNC_NEGATED, "truncmod(s0, -4)", "s0%4"),
    R(TRUNC_SELECT, "truncdiv(s0 - s1, 2)", "select(s0 < s1, -((-s0 + s1)//2), (s0 - s1)//2)"),
    R(TRUNC_SELECT, "truncmod(s0 - 9, 4)", "select(s0 <= 8, -((-s0 + 1)%4), (s0 + 3)%4)"),
    R(TRUNC_ADJUST, "truncdiv(n4, 3)", "select(n4%3 != 0 and n4 < 0, n4//3 + 1, n4//3)"),
    R(TRUNC_ADJUST, "truncmod(n4, 3)", "select(n4%3 != 0 and n4 < 0, n4%3 - 3, n4%3)"),
    // Forms of others.
    KEEP("abs(s0)", "s0"),
    KEEP("abs(-s0)", "s0"),
    KEEP("abs(n4)", "max(n4, -n4)"),
    KEEP("ceildiv(s0, 8)", "(s0 + 7)//8"),
    KEEP("exactdiv(s0*6, 3)", "s0*2"),
    // Smallest, largest.
    R(MINMAX_LITERALS, "min(4, min(n4, 7))", "min(n4, 4)"),
    R(MINMAX_LITERALS, "max(4, max(n4, 7))", "max(n4, 7)"),
    R(MINMAX_FLAT, "min(s0, min(s1, s0))", "min(s0, s1)"),
    R(MINMAX_BOUND, "min(s0, s0 + 1)", "s0"),
    R(MINMAX_BOUND, "max(s0, -1)", "s0"),
    R(MINMAX_BOUND, "min(i6, s0 - 1)", "i6"),
    R(MINMAX_BOUND, "max(i6*s1 + i7, s0*s1)", "s0*s1"),
    R(MINMAX_BOUND, "max(min(s0, s1), s1)", "s1"),
    // Selection.
    R(SELECT_KNOWN, "select(0 <= s0, n4, n5)", "n4"),
    R(SELECT_SAME, "select(s0 == 1, n4, n4)", "n4"),
    R(SELECT_SAME, "select(s0 < s1, 1, 0)", "s0 < s1"),
    R(SELECT_FLIP, "select(s0 != 1, n4, n5)", "select(s0 == 1, n5, n4)"),
    R(SELECT_FLIP, "select(s0 < s1, 0, 1)", "s1 <= s0"),
    R(SELECT_EQUAL, "select(s0 == s1, s0, s1)", "s1"),
    R(SELECT_EQUAL, "select(s0 == 1, 1, s0)", "s0"),
    R(SELECT_NESTED, "select(s0 == 1, select(s0 == 1, n4, n5), s2)", "select(s0 == 1, n4, s2)"),
    R(SELECT_NESTED, "select(s0 == 1, s2, select(s0 == 1, n4, n5))", "select(s0 == 1, s2, n5)"),
    // Order.
    R(ORDER_LITERALS, "3 < 3", "0"),
    R(ORDER_PROVED, "i6 < s0", "1"),
    R(ORDER_PROVED, "s0 <= i6", "0"),
    R(ORDER_PROVED, "i6*s1 + i7 < s0*s1", "1"),
    R(ORDER_PROVED, "i6*s1*384 + i7*384 + i8 < s0*s1*384", "1"),
    R(ORDER_PROVED, "0 < s0 + 1", "1"),
    R(ORDER_PROVED, "0 <= s0", "1"),
    R(ORDER_PROVED, "i12*32 < s0", "1"),
    R(ORDER_PROVED, "i11//s1 < s0", "1"),
    R(ORDER_PROVED, "i11%s1 < s1", "1"),
    R(ORDER_PROVED, "i6*2 + 1 < s0*2", "1"),
    R(ORDER_PROVED, "s0 < s0*s3 + 1", "1"),
    R(ORDER_PROVED, "min(s0, s1) <= s1", "1"),
    R(ORDER_PROVED, "select(s0 == 1, i7, i7 + s1) < s1*2", "1"),
    R(ORDER_PROVED, "(s0//8)*8 <= s0", "1"),
    R(ORDER_PROVED, "0 < s1 + i7", "1"),
    R(ORDER_PROVED, "s0//2 <= s0", "1"),
    R(ORDER_PROVED, "0 <= s0*s1 - s1*(s0//2)", "1"),
    R(ORDER_PROVED, "(s0 + 1)//2 <= s0", "1"),
    R(ORDER_PROVED, "s0//s3 <= s0", "1"),
    R(ORDER_PROVED, "0 <= abs(n4)", "1"),
    R(ORDER_PROVED, "0 <= abs(s0 - s1)", "1"),
    R(ORDER_PROVED, "0 <= n4*n4*n4*n4 + n5*n5", "1"),
    R(ORDER_PROVED, "min(n4, 7 - n4) <= 3", "1"),
    R(ORDER_SIDES, "s0 - s1 < 0", "s0 < s1"),
    R(ORDER_SIDES, "s0 + s1 + 4 <= s1 + s2", "s0 + 3 < s2"),
    R(ORDER_SIDES, "s0*s1 + s2 < s1*s2 + s2", "s0*s1 < s1*s2"),
    R(ORDER_SIDES, "n4 + 1 < n4 + n5 + 1", "0 < n5"),
    R(ORDER_GCD, "s0*4 < 10", "s0 <= 2"),
    R(ORDER_SIDES, "n4 - n5 < 0", "n4 < n5"),
    KEEP("n4 - n5 < 3", "n4 - n5 < 3"),
    KEEP("0 < s0", "0 < s0"),
    KEEP("4 <= s0", "4 <= s0"),
    R(ORDER_BOOL, "(s0 < s1)*3 < 2", "s1 <= s0"),
    R(ORDER_BOOL, "1 <= (s0 < s1)", "s0 < s1"),
    // Equality.
    R(EQUAL_SAME, "s0*2 == s0 + s0", "1"),
    R(EQUAL_SAME, "s0 + 1 == s0", "0"),
    R(EQUAL_PROVED, "i6 == s0", "0"),
    R(EQUAL_PROVED, "s13 == 7", "0"),
    R(EQUAL_CONGRUENCE, "s0*2 == s1*2 + 1", "0"),
    R(EQUAL_SIDES, "s1 == s0", "s0 == s1"),
    R(EQUAL_SIDES, "s0*s1*64 == s1*s2*64", "s0*s1 == s1*s2"),
    R(EQUAL_SIDES, "s0 - 4 == 0", "s0 == 4"),
    R(EQUAL_SCALED, "(select(s0 == 1, 8, 16)//8)*2 == select(s0 == 1, 8, 16)//4", "1"),
    R(EQUAL_BOOL, "(s0 < s1) == 0", "s1 <= s0"),
    R(EQUAL_BOOL, "(s0 < s1) == 1", "s0 < s1"),
    R(EQUAL_BOOL, "(s0 < s1)*3 == 0", "s1 <= s0"),
    // Not, and, or.
    R(NOT_PUSH, "not(s0 < s1)", "s1 <= s0"),
    R(NOT_PUSH, "not(s0 == s1)", "s0 != s1"),
    R(NOT_PUSH, "not(s0 < s1 and s2 == 4)", "s2 != 4 or s1 <= s0"),
    R(JUNCTION_FLAT, "s0 < s1 and 1 and s0 < s1", "s0 < s1"),
    R(JUNCTION_FLAT, "s0 < s1 or 3", "1"),
    R(JUNCTION_FLAT, "s0 < s1 and 0", "0"),
    R(JUNCTION_COMPLEMENT, "s0 < s1 and s1 <= s0", "0"),
    R(JUNCTION_COMPLEMENT, "s0 == s1 or s0 != s1", "1"),
};

static void test_rows(void **state) {
  (void)state;
  uint32_t failures = 0;
  bool seen[DT_RULE_COUNT] = {false};
  for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
    dt_symenv_t *env = standard_env();
    memset(env->rule_hits, 0, sizeof env->rule_hits);
    dt_sym_t e = P(rows[k].in);
    dt_text_t text;
    dt__text_init(&text);
    dt__sym_print(env, e, &text);
    bool fired = rows[k].rule == NO_RULE || env->rule_hits[rows[k].rule];
    if (rows[k].rule != NO_RULE)
      seen[rows[k].rule] = true;
    if (strcmp(dt__text_str(&text), rows[k].out) != 0 || !fired) {
      print_error("%s gives %s, expected %s%s%s\n", rows[k].in, dt__text_str(&text), rows[k].out,
                  fired ? "" : "; did not fire: ", fired ? "" : rule_names[rows[k].rule]);
      failures++;
    }
    dt__text_fini(&text);
    expect_ok(dt__symenv_status(env));
    dt__symenv_destroy(env);
  }
  for (int r = 0; r < DT_RULE_COUNT; r++)
    if (!seen[r] && r != DT_RULE_FACT_VALUE) { // test_facts has that one
      print_error("no row for rule %s\n", rule_names[r]);
      failures++;
    }
  assert_int_equal(failures, 0);
}

RUN_TESTS(TEST(test_rows))
