// SPDX-License-Identifier: Apache-2.0
// Operations on two numbers, against their definitions in wide numbers.
#include "test/support/check.h"

#include "symshape/apply.h"

typedef __int128 wide_t;

static wide_t floor_of(wide_t a, wide_t b) {
  wide_t q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

// False: there is no value.
static bool define(dt_sym_op_t op, wide_t a, wide_t b, wide_t *out) {
  bool divides = op == DT_SYM_FLOORDIV || op == DT_SYM_MOD;
  bool shifts = op == DT_SYM_SHL || op == DT_SYM_SHR;
  if ((divides && b == 0) || (shifts && (b < 0 || b > (op == DT_SYM_SHL ? 62 : 63))))
    return false;
  wide_t quotient = divides ? floor_of(a, b) : 0, power = shifts ? (wide_t)1 << b : 0;
  *out = op == DT_SYM_FLOORDIV ? quotient
         : op == DT_SYM_MOD    ? a - quotient * b
         : op == DT_SYM_SHL    ? a * power
         : op == DT_SYM_SHR    ? floor_of(a, power)
         : op == DT_SYM_MIN    ? (a < b ? a : b)
         : op == DT_SYM_MAX    ? (a > b ? a : b)
         : op == DT_SYM_EQ     ? a == b
         : op == DT_SYM_NE     ? a != b
         : op == DT_SYM_LT     ? a < b
                               : a <= b;
  return *out >= INT64_MIN && *out <= INT64_MAX;
}

static const int64_t numbers[] = {0,
                                  1,
                                  -1,
                                  2,
                                  -2,
                                  3,
                                  -3,
                                  7,
                                  -7,
                                  10,
                                  -10,
                                  31,
                                  32,
                                  62,
                                  63,
                                  64,
                                  -62,
                                  -63,
                                  INT32_MAX,
                                  INT32_MIN,
                                  INT64_MAX,
                                  INT64_MAX - 1,
                                  INT64_MIN + 1,
                                  INT64_MIN};
#define N (sizeof numbers / sizeof numbers[0])

static void test_definitions(void **state) {
  (void)state;
  static const dt_sym_op_t ops[] = {DT_SYM_FLOORDIV, DT_SYM_MOD, DT_SYM_SHL, DT_SYM_SHR, DT_SYM_MIN,
                                    DT_SYM_MAX,      DT_SYM_EQ,  DT_SYM_NE,  DT_SYM_LT,  DT_SYM_LE};
  for (size_t k = 0; k < sizeof ops / sizeof ops[0]; k++)
    for (size_t i = 0; i < N * N; i++) {
      int64_t a = numbers[i / N], b = numbers[i % N];
      wide_t expected = 0;
      bool known = define(ops[k], a, b, &expected);
      dt_sym_number_t got = dt__sym_apply(ops[k], a, b);
      if (got.known != known || (known && got.value != (int64_t)expected))
        fail_msg("operation %d of %lld, %lld: %s %lld, expected %s %lld", (int)ops[k], (long long)a,
                 (long long)b, got.known ? "a value" : "none", (long long)got.value,
                 known ? "a value" : "none", (long long)expected);
    }
}

static void test_others_have_none(void **state) {
  (void)state;
  static const dt_sym_op_t ops[] = {DT_SYM_NONE, DT_SYM_ADD, DT_SYM_MUL,
                                    DT_SYM_AND,  DT_SYM_NOT, DT_SYM_SELECT};
  for (size_t k = 0; k < sizeof ops / sizeof ops[0]; k++)
    assert_false(dt__sym_apply(ops[k], 1, 1).known);
}

RUN_TESTS(TEST(test_definitions), TEST(test_others_have_none))
