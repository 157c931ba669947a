// SPDX-License-Identifier: Apache-2.0
// The definitions of scalar ops by hand-computed values, casts, and the tables' agreement.
#include "test/support/check.h"

#include "lower/graph/graph.h"
#include "lower/graph/philox.h"
#include "lower/graph/scalar.h"
#include "runtime/base/dtype.h"

#include <math.h>
#include <string.h>

#define LOW8 (-128)
#define U64_MAX_BITS (-1) // all bits set

static dt_scalar_t eval_int(dt_scalar_op_t op, dt_dtype_t dtype, int64_t a, int64_t b) {
  const dt_scalar_t args[3] = {{.i = a}, {.i = b}, {.i = 0}};
  return dt__scalar_eval(op, dtype, args);
}

static void test_integers(void **state) {
  (void)state;
  static const struct {
    dt_scalar_op_t op;
    dt_dtype_t dtype;
    int64_t a, b, want;
  } cases[] = {
      {DT_SCALAR_neg, DT_I8, LOW8, 0, LOW8},
      {DT_SCALAR_neg, DT_U8, 1, 0, 255},
      {DT_SCALAR_neg, DT_I64, INT64_MIN, 0, INT64_MIN},
      {DT_SCALAR_abs, DT_I8, LOW8, 0, LOW8},
      {DT_SCALAR_abs, DT_I32, -7, 0, 7},
      {DT_SCALAR_abs, DT_U64, U64_MAX_BITS, 0, U64_MAX_BITS},
      {DT_SCALAR_sign, DT_I16, -300, 0, -1},
      {DT_SCALAR_sign, DT_U64, U64_MAX_BITS, 0, 1},
      {DT_SCALAR_sign, DT_U8, 0, 0, 0},
      {DT_SCALAR_add, DT_I8, 127, 1, LOW8},
      {DT_SCALAR_add, DT_U8, 255, 1, 0},
      {DT_SCALAR_add, DT_I64, INT64_MAX, 1, INT64_MIN},
      {DT_SCALAR_sub, DT_U32, 0, 1, 4294967295},
      {DT_SCALAR_sub, DT_U64, 0, 1, U64_MAX_BITS},
      {DT_SCALAR_mul, DT_I16, 300, 300, 24464},
      {DT_SCALAR_mul, DT_I64, INT64_MIN, -1, INT64_MIN},
      {DT_SCALAR_div, DT_I32, -7, 2, -3},
      {DT_SCALAR_div, DT_I32, 7, 0, 0},
      {DT_SCALAR_div, DT_I8, LOW8, -1, LOW8},
      {DT_SCALAR_div, DT_I64, INT64_MIN, -1, INT64_MIN},
      {DT_SCALAR_div, DT_U64, U64_MAX_BITS, 2, INT64_MAX},
      {DT_SCALAR_mod, DT_I32, -7, 3, 2},
      {DT_SCALAR_mod, DT_I32, 7, -3, -2},
      {DT_SCALAR_mod, DT_I32, -6, 3, 0},
      {DT_SCALAR_mod, DT_I32, 7, 0, 0},
      {DT_SCALAR_mod, DT_I64, INT64_MIN, -1, 0},
      {DT_SCALAR_mod, DT_U64, U64_MAX_BITS, 10, 5},
      {DT_SCALAR_fmod, DT_I32, -7, 3, -1},
      {DT_SCALAR_fmod, DT_I32, 7, -3, 1},
      {DT_SCALAR_fmod, DT_I32, 7, 0, 0},
      {DT_SCALAR_fmod, DT_I64, INT64_MIN, -1, 0},
      {DT_SCALAR_maximum, DT_U64, U64_MAX_BITS, 1, U64_MAX_BITS},
      {DT_SCALAR_maximum, DT_I64, -1, 1, 1},
      {DT_SCALAR_minimum, DT_U64, U64_MAX_BITS, 1, 1},
      {DT_SCALAR_minimum, DT_I64, -1, 1, -1},
      {DT_SCALAR_eq, DT_I8, 3, 3, 1},
      {DT_SCALAR_ne, DT_BOOL, 1, 0, 1},
      {DT_SCALAR_lt, DT_U64, U64_MAX_BITS, 1, 0},
      {DT_SCALAR_lt, DT_I64, -1, 1, 1},
      {DT_SCALAR_le, DT_U64, 1, U64_MAX_BITS, 1},
      {DT_SCALAR_gt, DT_U64, U64_MAX_BITS, 1, 1},
      {DT_SCALAR_ge, DT_I32, 4, 4, 1},
      {DT_SCALAR_logical_not, DT_BOOL, 1, 0, 0},
      {DT_SCALAR_logical_and, DT_BOOL, 1, 0, 0},
      {DT_SCALAR_logical_or, DT_BOOL, 1, 0, 1},
      {DT_SCALAR_logical_xor, DT_BOOL, 1, 1, 0},
      {DT_SCALAR_where, DT_I64, 1, 42, 42},
      {DT_SCALAR_pow, DT_I32, 3, 4, 81},
      {DT_SCALAR_pow, DT_I32, 0, 0, 1},
      {DT_SCALAR_pow, DT_I32, 0, -1, 0},
      {DT_SCALAR_pow, DT_I32, 2, -1, 0},
      {DT_SCALAR_pow, DT_I32, -1, -3, -1},
      {DT_SCALAR_pow, DT_I32, -1, -4, 1},
      {DT_SCALAR_pow, DT_I64, -1, INT64_MIN, 1},
      {DT_SCALAR_pow, DT_I8, -3, 3, -27},
      {DT_SCALAR_pow, DT_I8, 3, 5, -13},
      {DT_SCALAR_pow, DT_U8, 3, 255, 171},
      {DT_SCALAR_pow, DT_U64, 3, U64_MAX_BITS, -6148914691236517205},
      {DT_SCALAR_pow, DT_I64, 2, 64, 0},
      {DT_SCALAR_bit_not, DT_U8, 5, 0, 250},
      {DT_SCALAR_bit_not, DT_I16, 5, 0, -6},
      {DT_SCALAR_bit_and, DT_I8, -2, 7, 6},
      {DT_SCALAR_bit_or, DT_U8, 128, 1, 129},
      {DT_SCALAR_bit_xor, DT_I64, -1, 1, -2},
      {DT_SCALAR_shift_left, DT_U8, 129, 1, 2},
      {DT_SCALAR_shift_left, DT_I8, 64, 1, LOW8},
      {DT_SCALAR_shift_left, DT_I32, 1, 32, 0},
      {DT_SCALAR_shift_left, DT_I64, 1, -1, 0},
      {DT_SCALAR_shift_right, DT_U64, U64_MAX_BITS, 63, 1},
      {DT_SCALAR_shift_right, DT_U16, 4, 16, 0},
      {DT_SCALAR_shift_right, DT_I8, -128, 3, -16},
      {DT_SCALAR_shift_right, DT_I32, -5, 99, -1},
      {DT_SCALAR_shift_right, DT_I32, 5, -1, 0},
      {DT_SCALAR_where, DT_I64, 0, 42, 0},
  };
  for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
    int64_t got = eval_int(cases[k].op, cases[k].dtype, cases[k].a, cases[k].b).i;
    if (got != cases[k].want)
      print_error("%s %s(%lld, %lld): expected %lld, got %lld\n", dt_dtype_name(cases[k].dtype),
                  dt__scalar_info(cases[k].op)->name, (long long)cases[k].a, (long long)cases[k].b,
                  (long long)cases[k].want, (long long)got);
    assert_int_equal(got, cases[k].want);
  }
}

static void test_floats(void **state) {
  (void)state;
  static const struct {
    dt_scalar_op_t op;
    double a, b, want;
  } cases[] = {
      {DT_SCALAR_neg, 2, 0, -2},
      {DT_SCALAR_abs, -INFINITY, 0, INFINITY},
      {DT_SCALAR_sign, -3, 0, -1},
      {DT_SCALAR_sign, NAN, 0, NAN},
      {DT_SCALAR_exp, 0, 0, 1},
      {DT_SCALAR_exp, -INFINITY, 0, 0},
      {DT_SCALAR_expm1, 1e-20, 0, 1e-20},
      {DT_SCALAR_log, 0, 0, -INFINITY},
      {DT_SCALAR_log, -1, 0, NAN},
      {DT_SCALAR_log1p, 1e-20, 0, 1e-20},
      {DT_SCALAR_log2, 8, 0, 3},
      {DT_SCALAR_sqrt, 9, 0, 3},
      {DT_SCALAR_sqrt, -1, 0, NAN},
      {DT_SCALAR_rsqrt, 4, 0, 0.5},
      {DT_SCALAR_rsqrt, 0, 0, INFINITY},
      {DT_SCALAR_reciprocal, 4, 0, 0.25},
      {DT_SCALAR_reciprocal, -0.0, 0, -INFINITY},
      {DT_SCALAR_sin, 0, 0, 0},
      {DT_SCALAR_cos, 0, 0, 1},
      {DT_SCALAR_tan, 0, 0, 0},
      {DT_SCALAR_asin, 0, 0, 0},
      {DT_SCALAR_asin, 2, 0, NAN},
      {DT_SCALAR_acos, 1, 0, 0},
      {DT_SCALAR_atan, 0, 0, 0},
      {DT_SCALAR_sinh, 0, 0, 0},
      {DT_SCALAR_cosh, 0, 0, 1},
      {DT_SCALAR_tanh, INFINITY, 0, 1},
      {DT_SCALAR_asinh, -INFINITY, 0, -INFINITY},
      {DT_SCALAR_acosh, 1, 0, 0},
      {DT_SCALAR_acosh, 0.5, 0, NAN},
      {DT_SCALAR_atanh, 1, 0, INFINITY},
      {DT_SCALAR_atanh, -2, 0, NAN},
      {DT_SCALAR_erf, -INFINITY, 0, -1},
      {DT_SCALAR_sigmoid, 0, 0, 0.5},
      {DT_SCALAR_sigmoid, -1000, 0, 0},
      {DT_SCALAR_floor, -1.5, 0, -2},
      {DT_SCALAR_ceil, -1.5, 0, -1},
      {DT_SCALAR_trunc, -1.5, 0, -1},
      {DT_SCALAR_round, 2.5, 0, 2},
      {DT_SCALAR_round, 3.5, 0, 4},
      {DT_SCALAR_round, -0.5, 0, 0},
      {DT_SCALAR_add, 1, 2, 3},
      {DT_SCALAR_add, INFINITY, -INFINITY, NAN},
      {DT_SCALAR_sub, 1, 2, -1},
      {DT_SCALAR_mul, 0, INFINITY, NAN},
      {DT_SCALAR_div, 1, 0, INFINITY},
      {DT_SCALAR_div, 0, 0, NAN},
      {DT_SCALAR_mod, -7, 3, 2},
      {DT_SCALAR_mod, 7, -3, -2},
      {DT_SCALAR_mod, 5.5, 2, 1.5},
      {DT_SCALAR_mod, 1, 0, NAN},
      {DT_SCALAR_fmod, -7, 3, -1},
      {DT_SCALAR_fmod, 1, INFINITY, 1},
      {DT_SCALAR_pow, 2, 10, 1024},
      {DT_SCALAR_pow, -8, 1.0 / 3, NAN},
      {DT_SCALAR_maximum, 1, NAN, NAN},
      {DT_SCALAR_maximum, NAN, 1, NAN},
      {DT_SCALAR_maximum, 1, 2, 2},
      {DT_SCALAR_minimum, NAN, 1, NAN},
      {DT_SCALAR_minimum, 1, 2, 1},
  };
  for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
    const dt_scalar_t args[2] = {{.f = cases[k].a}, {.f = cases[k].b}};
    double got = dt__scalar_eval(cases[k].op, DT_F32, args).f;
    bool same = isnan(cases[k].want) ? isnan(got) : got == cases[k].want;
    if (!same)
      print_error("%s(%g, %g): expected %.17g, got %.17g\n", dt__scalar_info(cases[k].op)->name,
                  cases[k].a, cases[k].b, cases[k].want, got);
    assert_true(same);
  }
  static const double pairs[][2] = {{1, 2}, {2, 2}, {NAN, 1}, {NAN, NAN}};
  static const int64_t wants[4][6] = {// eq ne lt le gt ge
                                      {0, 1, 1, 1, 0, 0},
                                      {1, 0, 0, 1, 0, 1},
                                      {0, 1, 0, 0, 0, 0},
                                      {0, 1, 0, 0, 0, 0}};
  static const dt_scalar_op_t compares[6] = {DT_SCALAR_eq, DT_SCALAR_ne, DT_SCALAR_lt,
                                             DT_SCALAR_le, DT_SCALAR_gt, DT_SCALAR_ge};
  for (size_t p = 0; p < 4; p++) {
    for (size_t c = 0; c < 6; c++) {
      const dt_scalar_t args[2] = {{.f = pairs[p][0]}, {.f = pairs[p][1]}};
      int64_t got = dt__scalar_eval(compares[c], DT_F64, args).i;
      if (got != wants[p][c])
        print_error("%s(%g, %g): got %lld\n", dt__scalar_info(compares[c])->name, pairs[p][0],
                    pairs[p][1], (long long)got);
      assert_int_equal(got, wants[p][c]);
    }
  }
  assert_int_equal(dt__scalar_eval(DT_SCALAR_isnan, DT_F32, &(dt_scalar_t){.f = NAN}).i, 1);
  assert_int_equal(dt__scalar_eval(DT_SCALAR_isinf, DT_F32, &(dt_scalar_t){.f = -INFINITY}).i, 1);
  assert_int_equal(dt__scalar_eval(DT_SCALAR_isinf, DT_F32, &(dt_scalar_t){.f = NAN}).i, 0);
}

static void test_casts(void **state) {
  (void)state;
  static const struct {
    dt_dtype_t to;
    double from;
    int64_t want;
  } to_int[] = {
      {DT_I32, 1.9, 1},
      {DT_I32, -1.9, -1},
      {DT_I32, NAN, 0},
      {DT_I32, INFINITY, INT32_MAX},
      {DT_I32, -1e300, INT32_MIN},
      {DT_I8, 127.5, 127},
      {DT_I8, 128, 127},
      {DT_I8, -128.9, LOW8},
      {DT_U8, -0.5, 0},
      {DT_U8, 256, 255},
      {DT_U8, 255.9, 255},
      {DT_I64, 0x1p63, INT64_MAX},
      {DT_I64, -0x1p63, INT64_MIN},
      {DT_U64, 0x1p64, U64_MAX_BITS},
      {DT_U64, 0x1p63, INT64_MIN},
      {DT_BOOL, 0.5, 1},
      {DT_BOOL, -0.0, 0},
      {DT_BOOL, NAN, 1},
  };
  for (size_t k = 0; k < sizeof(to_int) / sizeof(to_int[0]); k++) {
    int64_t got = dt__scalar_cast(DT_F64, to_int[k].to, (dt_scalar_t){.f = to_int[k].from}).i;
    if (got != to_int[k].want)
      print_error("%g to %s: expected %lld, got %lld\n", to_int[k].from,
                  dt_dtype_name(to_int[k].to), (long long)to_int[k].want, (long long)got);
    assert_int_equal(got, to_int[k].want);
  }
  static const struct {
    dt_dtype_t from, to;
    int64_t value, want;
  } ints[] = {
      {DT_I64, DT_I8, 300, 44},         {DT_I64, DT_I8, 200, -56},
      {DT_I32, DT_U8, -1, 255},         {DT_I8, DT_U64, -1, -1},
      {DT_U64, DT_I32, -1, -1},         {DT_I32, DT_BOOL, 256, 1},
      {DT_BOOL, DT_I64, 1, 1},          {DT_U32, DT_I64, 4294967295, 4294967295},
      {DT_U32, DT_I32, 4294967295, -1},
  };
  for (size_t k = 0; k < sizeof(ints) / sizeof(ints[0]); k++) {
    dt_scalar_t got = dt__scalar_cast(ints[k].from, ints[k].to, (dt_scalar_t){.i = ints[k].value});
    assert_int_equal(got.i, ints[k].want);
  }
  // One rounding: 2^24 + 1 + tiny goes up only when it is not rounded to f64 first.
  dt_scalar_t odd = {.i = ((int64_t)1 << 54) + ((int64_t)1 << 30) + 1};
  assert_true(dt__scalar_cast(DT_I64, DT_F32, odd).f == 0x1p54 + 0x1p31);
  assert_true(dt__scalar_cast(DT_U64, DT_F64, (dt_scalar_t){.i = -1}).f == 0x1p64);
  assert_true(dt__scalar_cast(DT_F64, DT_F32, (dt_scalar_t){.f = 0.1}).f == (double)0.1f);
  assert_true(dt__scalar_cast(DT_F32, DT_F64, (dt_scalar_t){.f = 0.1}).f == 0.1);
  // Halfway to the next bf16, and a little more than f64 or f32 would keep of it.
  dt_scalar_t above = {.i = ((int64_t)1 << 62) + ((int64_t)1 << 54) + 1};
  assert_true(dt__scalar_cast(DT_I64, DT_BF16, above).f == 0x1p62 + 0x1p55);
  above.i--;
  assert_true(dt__scalar_cast(DT_I64, DT_BF16, above).f == 0x1p62);
  assert_true(dt__scalar_cast(DT_I64, DT_BF16, (dt_scalar_t){.i = INT64_MIN}).f == -0x1p63);
  assert_true(dt__scalar_cast(DT_U64, DT_BF16, (dt_scalar_t){.i = -1}).f == 0x1p64);
  assert_true(dt__scalar_cast(DT_I64, DT_F16, (dt_scalar_t){.i = 2049}).f == 2048);
  assert_true(isinf(dt__scalar_cast(DT_I32, DT_F16, (dt_scalar_t){.i = 65520}).f));
  dt_scalar_t twice = {.f = 1 + 0x1p-11 + 0x1p-40};
  assert_true(dt__scalar_cast(DT_F64, DT_F16, twice).f == 1 + 0x1p-10);
  assert_int_equal(dt__scalar_cast(DT_F16, DT_I8, (dt_scalar_t){.f = 300}).i, 127);
}

static void test_memory(void **state) {
  (void)state;
  for (uint32_t k = 1; k < DT_DTYPE_END; k++) {
    dt_dtype_t dtype = (dt_dtype_t)k;
    if (!dt__dtype_is_valid(dtype))
      continue;
    unsigned char bytes[16] = {0};
    dt_scalar_t one = {.i = 1}, low = {.i = 0};
    if (dt__dtype_is_float(dtype)) {
      one.f = 1.0;
      low.f = -0.1;
    } else {
      low = dt__scalar_cast(DT_F64, dtype, (dt_scalar_t){.f = -INFINITY});
    }
    dt__scalar_store(dtype, bytes + 1, one);
    assert_int_equal(bytes[0], 0);
    assert_int_equal(bytes[1 + dt_dtype_size(dtype)], 0);
    assert_int_equal(dt__scalar_load(dtype, bytes + 1).i, one.i);
    dt__scalar_store(dtype, bytes + 1, low);
    dt_scalar_t back = dt__scalar_load(dtype, bytes + 1);
    dt_scalar_t want = dt__scalar_cast(DT_F64, dtype, low);
    assert_int_equal(back.i, dt__dtype_is_float(dtype) ? want.i : low.i);
  }
}

// ---- Random bits --------------------------------------------------------------------------------
typedef struct known_block_t {
  uint64_t seed, offset, index;
  uint32_t words[4];
} known_block_t;
// The answers that the authors of Philox publish for philox4x32-10, for a counter of zeros, of ones
// and of digits of pi.
static const known_block_t known_blocks[] = {
    {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {0x299f31d0a4093822,
     0x0370734413198a2e,
     0x85a308d3243f6a88,
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

static void test_philox(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof(known_blocks) / sizeof(known_blocks[0]); k++) {
    const known_block_t *b = &known_blocks[k];
    uint32_t words[4];
    dt__philox(b->seed, b->offset, b->index, words);
    for (int i = 0; i < 4; i++)
      assert_int_equal(words[i], b->words[i]);
    const dt_scalar_t args[3] = {
        {.i = (int64_t)b->seed}, {.i = (int64_t)b->offset}, {.i = (int64_t)b->index}};
    uint64_t want = (uint64_t)b->words[1] << 32 | b->words[0];
    assert_int_equal(dt__scalar_eval(DT_SCALAR_philox, DT_U64, args).i, (int64_t)want);
    assert_int_equal(dt__scalar_eval(DT_SCALAR_philox, DT_I64, args).i, (int64_t)want);
  }
  // Narrower operands are extended, the result keeps its low bits.
  const dt_scalar_t ones[3] = {{.i = -1}, {.i = -1}, {.i = -1}};
  assert_int_equal(dt__scalar_eval(DT_SCALAR_philox, DT_I32, ones).i, 0x408f276d);
  assert_int_equal(dt__scalar_eval(DT_SCALAR_philox, DT_I8, ones).i, 0x6d);
  uint32_t words[4];
  dt__philox(255, 255, 255, words);
  const dt_scalar_t most[3] = {{.i = 255}, {.i = 255}, {.i = 255}};
  assert_int_equal(dt__scalar_eval(DT_SCALAR_philox, DT_U8, most).i, words[0] & 255);
}

static void test_tables(void **state) {
  (void)state;
  for (uint32_t k = 1; k < DT_SCALAR_COUNT; k++) {
    const dt_scalar_info_t *info = dt__scalar_info((dt_scalar_op_t)k);
    assert_int_equal(dt__scalar_find(info->name, strlen(info->name)), k);
    // Each has an op of its name, of the same arity, that lowers to it.
    dt_op_t op = dt__op_find(info->name, strlen(info->name));
    bool part = dt__op_info(op)->lower == DT_LOWER_part;
    assert_true(part || dt__op_info(op)->lower == DT_LOWER_ew);
    assert_int_equal(dt__op_info(op)->arity, info->arity);
  }
  for (uint32_t k = 1; k < DT_OP_COUNT; k++) {
    const dt_op_info_t *info = dt__op_info((dt_op_t)k);
    assert_int_equal(dt__op_find(info->name, strlen(info->name)), k);
    if (info->lower == DT_LOWER_ew)
      assert_int_not_equal(dt__scalar_find(info->name, strlen(info->name)), DT_SCALAR_NONE);
  }
  assert_int_equal(dt__op_find("ad", 2), DT_OP_NONE);
  assert_int_equal(dt__op_find("", 0), DT_OP_NONE);
  assert_int_equal(dt__scalar_find("adds", 4), DT_SCALAR_NONE);
  assert_string_equal(dt__op_info((dt_op_t)9999)->name, "none");
}

RUN_TESTS(TEST(test_integers), TEST(test_floats), TEST(test_casts), TEST(test_memory),
          TEST(test_philox), TEST(test_tables))
