// SPDX-License-Identifier: Apache-2.0
// Fold rules: for each id a graph before and after, that the rule fired, and that values stayed the
// same (NaN, infinities, zeros of both signs and extreme integers included).
#include "lower/graph/eval.h"
#include "lower/passes/passes.h"
#include "runtime/base/dtype.h"
#include "runtime/base/log.h"
#include "test/support/graph_fixture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct case_t {
  const char *id;
  const char *before, *after; // lines inside the braces; `after` NULL: the rule must not fire
} case_t;

// Inputs of the cases.
#define X "  %1 = input \"x\" f32[s0, s1] strides [s1, 1] contiguous\n"
#define I "  %1 = input \"x\" i32[s0] strides [1] contiguous\n"
#define F "  %1 = input \"x\" f32[s0] strides [1] contiguous\n"
#define B "  %1 = input \"x\" bool[s0] strides [1] contiguous\n"
// Node %2 … %4: a literal of s0 elements.
#define LITERAL(dtype, value)                                                                      \
  "  %2 = scalar {dtype = " dtype ", value = " value "} : " dtype "[]\n"                           \
  "  %3 = reshape %2 {syms = [1]} : " dtype "[1]\n"                                                \
  "  %4 = expand %3 {syms = [s0]} : " dtype "[s0]\n"

static const case_t cases[] = {
    {"ew_scalars",
     F LITERAL("f32", "2") "  %5 = exp %4 : f32[s0]\n  %6 = add %1, %5 : f32[s0]\n  return %6\n",
     F LITERAL("f32", "7.38905621") "  %5 = add %1, %4 : f32[s0]\n  return %5\n"},
    {"ew_scalars", // integers wrap
     I LITERAL("i32", "2147483647") "  %5 = add %4, %4 : i32[s0]\n  return %5\n",
     I LITERAL("i32", "-2") "  return %4\n"},
    {"ew_scalars", // NaN stays computed
     F LITERAL("f32", "-1") "  %5 = sqrt %4 : f32[s0]\n  return %5\n", NULL},
    {"literal_right", F LITERAL("f32", "3") "  %5 = mul %4, %1 : f32[s0]\n  return %5\n",
     F LITERAL("f32", "3") "  %5 = mul %1, %4 : f32[s0]\n  return %5\n"},
    {"literal_right", F LITERAL("f32", "3") "  %5 = sub %4, %1 : f32[s0]\n  return %5\n", NULL},
    {"size_literal",
     "  %1 = size {syms = [12]} : i64[]\n  %2 = size {syms = [s0]} : i64[]\n"
     "  %3 = add %2, %1 : i64[]\n  return %3\n",
     "  %1 = scalar {dtype = i64, value = 12} : i64[]\n  %2 = size {syms = [s0]} : i64[]\n"
     "  %3 = add %2, %1 : i64[]\n  return %3\n"},
    {"view_literal",
     F LITERAL("f32", "2") "  %5 = slice %4 {syms = [0, s0], steps = [1]} : f32[s0]\n"
                           "  %6 = reshape %5 {syms = [s0, 1]} : f32[s0, 1]\n"
                           "  %7 = permute %6 {axes = [1, 0]} : f32[1, s0]\n  return %7\n",
     F "  %2 = scalar {dtype = f32, value = 2} : f32[]\n"
       "  %3 = reshape %2 {syms = [1, 1]} : f32[1, 1]\n"
       "  %4 = expand %3 {syms = [1, s0]} : f32[1, s0]\n  return %4\n"},
    {"where_known",
     F LITERAL("bool", "0") "  %5 = neg %1 : f32[s0]\n"
                            "  %6 = where %4, %1, %5 : f32[s0]\n  return %6\n",
     F "  %2 = neg %1 : f32[s0]\n  return %2\n"},
    {"cast_same", F "  %2 = cast %1 {dtype = f32} : f32[s0]\n  return %2\n", F "  return %1\n"},
    {"cast_cast",
     F "  %2 = cast %1 {dtype = f64} : f64[s0]\n  %3 = cast %2 {dtype = i32} : i32[s0]\n"
       "  return %3\n",
     F "  %2 = cast %1 {dtype = i32} : i32[s0]\n  return %2\n"},
    {"cast_cast",
     I "  %2 = cast %1 {dtype = i64} : i64[s0]\n  %3 = cast %2 {dtype = f32} : f32[s0]\n"
       "  return %3\n",
     I "  %2 = cast %1 {dtype = f32} : f32[s0]\n  return %2\n"},
    {"cast_cast", // saturates on the way
     I "  %2 = cast %1 {dtype = f64} : f64[s0]\n  %3 = cast %2 {dtype = i8} : i8[s0]\n"
       "  return %3\n",
     NULL},
    {"cast_cast", // loses on the way
     I "  %2 = cast %1 {dtype = f32} : f32[s0]\n  %3 = cast %2 {dtype = f64} : f64[s0]\n"
       "  return %3\n",
     NULL},
    {"cast_cast",
     I "  %2 = cast %1 {dtype = u64} : u64[s0]\n  %3 = cast %2 {dtype = f64} : f64[s0]\n"
       "  return %3\n",
     NULL},
    {"cast_cast",
     I "  %2 = cast %1 {dtype = bool} : bool[s0]\n  %3 = cast %2 {dtype = i32} : i32[s0]\n"
       "  return %3\n",
     NULL},
    {"reshape_reshape",
     X "  %2 = reshape %1 {syms = [s0*s1]} : f32[s0*s1]\n"
       "  %3 = reshape %2 {syms = [s1, s0]} : f32[s1, s0]\n  return %3\n",
     X "  %2 = reshape %1 {syms = [s1, s0]} : f32[s1, s0]\n  return %2\n"},
    {"permute_permute",
     "  %1 = input \"x\" f32[s0, s1, 3] strides [s1*3, 3, 1] contiguous\n"
     "  %2 = permute %1 {axes = [1, 2, 0]} : f32[s1, 3, s0]\n"
     "  %3 = permute %2 {axes = [1, 0, 2]} : f32[3, s1, s0]\n  return %3\n",
     "  %1 = input \"x\" f32[s0, s1, 3] strides [s1*3, 3, 1] contiguous\n"
     "  %2 = permute %1 {axes = [2, 1, 0]} : f32[3, s1, s0]\n  return %2\n"},
    {"expand_expand",
     "  %1 = input \"x\" f32[1, s1, 1] strides [s1, 1, 1] contiguous\n"
     "  %2 = expand %1 {syms = [s0, s1, 1]} : f32[s0, s1, 1]\n"
     "  %3 = expand %2 {syms = [s0, s1, 4]} : f32[s0, s1, 4]\n  return %3\n",
     "  %1 = input \"x\" f32[1, s1, 1] strides [s1, 1, 1] contiguous\n"
     "  %2 = expand %1 {syms = [s0, s1, 4]} : f32[s0, s1, 4]\n  return %2\n"},
    {"slice_slice",
     "  %1 = input \"x\" f32[s0 + 9] strides [1] contiguous\n"
     "  %2 = slice %1 {syms = [1, s0 + 4], steps = [1]} : f32[s0 + 4]\n"
     "  %3 = slice %2 {syms = [s0 + 3, 2], steps = [-2]} : f32[2]\n  return %3\n",
     "  %1 = input \"x\" f32[s0 + 9] strides [1] contiguous\n"
     "  %2 = slice %1 {syms = [s0 + 4, 2], steps = [-2]} : f32[2]\n  return %2\n"},
    {"slice_slice", // backwards twice
     F "  %2 = slice %1 {syms = [s0 - 1, s0], steps = [-1]} : f32[s0]\n"
       "  %3 = slice %2 {syms = [s0 - 1, s0], steps = [-1]} : f32[s0]\n  return %3\n",
     F "  return %1\n"},
    {"reshape_same", X "  %2 = reshape %1 {syms = [s0, s1]} : f32[s0, s1]\n  return %2\n",
     X "  return %1\n"},
    {"expand_same", X "  %2 = expand %1 {syms = [s0, s1]} : f32[s0, s1]\n  return %2\n",
     X "  return %1\n"},
    {"permute_same", X "  %2 = permute %1 {axes = [0, 1]} : f32[s0, s1]\n  return %2\n",
     X "  return %1\n"},
    {"slice_whole",
     X "  %2 = slice %1 {syms = [0, s0, 0, s1], steps = [1, 1]} : f32[s0, s1]\n  return %2\n",
     X "  return %1\n"},
    {"slice_whole",
     X "  %2 = slice %1 {syms = [0, s0, s1 - 1, s1], steps = [1, -1]} : f32[s0, s1]\n"
       "  return %2\n",
     NULL},
    {"pad_nothing", X "  %2 = pad %1 {syms = [0, 0, 0, 0], value = 1} : f32[s0, s1]\n  return %2\n",
     X "  return %1\n"},
    {"concat_one", X "  %2 = concat %1 {axes = [1]} : f32[s0, s1]\n  return %2\n",
     X "  return %1\n"},
    {"pad_pad",
     X "  %2 = pad %1 {syms = [1, 0, s0, 2], value = 1} : f32[s0 + 1, s0 + s1 + 2]\n"
       "  %3 = pad %2 {syms = [1, 3, 0, 0], value = 1} : f32[s0 + 5, s0 + s1 + 2]\n  return %3\n",
     X "  %2 = pad %1 {syms = [2, 3, s0, 2], value = 1} : f32[s0 + 5, s0 + s1 + 2]\n"
       "  return %2\n"},
    {"pad_pad", // by another value
     F "  %2 = pad %1 {syms = [1, 0], value = 1} : f32[s0 + 1]\n"
       "  %3 = pad %2 {syms = [1, 0], value = 0} : f32[s0 + 2]\n  return %3\n",
     NULL},
    {"slice_pad",
     X "  %2 = pad %1 {syms = [0, 7, 0, s0], value = 0} : f32[s0 + 7, s0 + s1]\n"
       "  %3 = slice %2 {syms = [0, s0, 0, s1], steps = [1, 1]} : f32[s0, s1]\n  return %3\n",
     X "  return %1\n"},
    {"slice_pad", // of a part of it
     F "  %2 = pad %1 {syms = [3, 3], value = 0} : f32[s0 + 6]\n"
       "  %3 = slice %2 {syms = [2, s0], steps = [1]} : f32[s0]\n  return %3\n",
     NULL},
    {"slice_concat",
     X "  %2 = neg %1 : f32[s0, s1]\n"
       "  %3 = concat %1, %2 {axes = [1]} : f32[s0, s1*2]\n"
       "  %4 = slice %3 {syms = [0, s0, s1, s1], steps = [1, 1]} : f32[s0, s1]\n  return %4\n",
     X "  %2 = neg %1 : f32[s0, s1]\n  return %2\n"},
    {"slice_concat", // of both
     F "  %2 = neg %1 : f32[s0]\n"
       "  %3 = concat %1, %2 {axes = [0]} : f32[s0*2]\n"
       "  %4 = slice %3 {syms = [1, s0], steps = [1]} : f32[s0]\n  return %4\n",
     NULL},
    {"concat_concat",
     F "  %2 = neg %1 : f32[s0]\n"
       "  %3 = concat %1, %2 {axes = [0]} : f32[s0*2]\n"
       "  %4 = concat %2, %3, %3 {axes = [0]} : f32[s0*5]\n  return %4\n",
     F "  %2 = neg %1 : f32[s0]\n"
       "  %3 = concat %2, %1, %2, %1, %2 {axes = [0]} : f32[s0*5]\n  return %3\n"},
    {"concat_concat", // along another axis
     X "  %2 = concat %1, %1 {axes = [0]} : f32[s0*2, s1]\n"
       "  %3 = concat %2, %2 {axes = [1]} : f32[s0*2, s1*2]\n  return %3\n",
     NULL},
    {"concat_slices",
     "  %1 = input \"x\" f32[s0 + s1, 4] strides [4, 1] contiguous\n"
     "  %2 = slice %1 {syms = [0, s0, 0, 4], steps = [1, 1]} : f32[s0, 4]\n"
     "  %3 = slice %1 {syms = [s0, s1, 0, 4], steps = [1, 1]} : f32[s1, 4]\n"
     "  %4 = concat %2, %3 {axes = [0]} : f32[s0 + s1, 4]\n  return %4\n",
     "  %1 = input \"x\" f32[s0 + s1, 4] strides [4, 1] contiguous\n  return %1\n"},
    {"concat_slices", // in another order
     "  %1 = input \"x\" f32[s0 + s1, 4] strides [4, 1] contiguous\n"
     "  %2 = slice %1 {syms = [0, s0, 0, 4], steps = [1, 1]} : f32[s0, 4]\n"
     "  %3 = slice %1 {syms = [s0, s1, 0, 4], steps = [1, 1]} : f32[s1, 4]\n"
     "  %4 = concat %3, %2 {axes = [0]} : f32[s0 + s1, 4]\n  return %4\n",
     NULL},
    {"concat_slices", // some of the parts
     "  %1 = input \"x\" f32[12] strides [1] contiguous\n"
     "  %2 = slice %1 {syms = [8, 2], steps = [-2]} : f32[2]\n"
     "  %3 = slice %1 {syms = [4, 2], steps = [-2]} : f32[2]\n"
     "  %4 = concat %1, %2, %3 {axes = [0]} : f32[16]\n  return %4\n",
     "  %1 = input \"x\" f32[12] strides [1] contiguous\n"
     "  %2 = slice %1 {syms = [8, 4], steps = [-2]} : f32[4]\n"
     "  %3 = concat %1, %2 {axes = [0]} : f32[16]\n  return %3\n"},
    {"neg_neg", F "  %2 = neg %1 : f32[s0]\n  %3 = neg %2 : f32[s0]\n  return %3\n",
     F "  return %1\n"},
    {"not_not",
     B "  %2 = logical_not %1 : bool[s0]\n  %3 = logical_not %2 : bool[s0]\n  return %3\n",
     B "  return %1\n"},
    {"abs_abs", F "  %2 = abs %1 : f32[s0]\n  %3 = abs %2 : f32[s0]\n  return %3\n",
     F "  %2 = abs %1 : f32[s0]\n  return %2\n"},
    {"sign_sign", F "  %2 = sign %1 : f32[s0]\n  %3 = sign %2 : f32[s0]\n  return %3\n",
     F "  %2 = sign %1 : f32[s0]\n  return %2\n"},
    {"abs_neg", I "  %2 = neg %1 : i32[s0]\n  %3 = abs %2 : i32[s0]\n  return %3\n",
     I "  %2 = abs %1 : i32[s0]\n  return %2\n"},
    {"floor_whole", F "  %2 = ceil %1 : f32[s0]\n  %3 = floor %2 : f32[s0]\n  return %3\n",
     F "  %2 = ceil %1 : f32[s0]\n  return %2\n"},
    {"ceil_whole", F "  %2 = floor %1 : f32[s0]\n  %3 = ceil %2 : f32[s0]\n  return %3\n",
     F "  %2 = floor %1 : f32[s0]\n  return %2\n"},
    {"trunc_whole", F "  %2 = round %1 : f32[s0]\n  %3 = trunc %2 : f32[s0]\n  return %3\n",
     F "  %2 = round %1 : f32[s0]\n  return %2\n"},
    {"round_whole", F "  %2 = trunc %1 : f32[s0]\n  %3 = round %2 : f32[s0]\n  return %3\n",
     F "  %2 = trunc %1 : f32[s0]\n  return %2\n"},
    {"add_zero", I LITERAL("i32", "0") "  %5 = add %1, %4 : i32[s0]\n  return %5\n",
     I "  return %1\n"},
    {"add_minus_zero", F LITERAL("f32", "-0") "  %5 = add %1, %4 : f32[s0]\n  return %5\n",
     F "  return %1\n"},
    {"add_minus_zero", F LITERAL("f32", "0") "  %5 = add %1, %4 : f32[s0]\n  return %5\n", NULL},
    {"sub_zero", F LITERAL("f32", "0") "  %5 = sub %1, %4 : f32[s0]\n  return %5\n",
     F "  return %1\n"},
    {"sub_zero", F LITERAL("f32", "-0") "  %5 = sub %1, %4 : f32[s0]\n  return %5\n", NULL},
    {"sub_same", I "  %2 = sub %1, %1 : i32[s0]\n  return %2\n",
     I LITERAL("i32", "0") "  return %4\n"},
    {"sub_same", F "  %2 = sub %1, %1 : f32[s0]\n  return %2\n", NULL},
    {"mul_one", F LITERAL("f32", "1") "  %5 = mul %1, %4 : f32[s0]\n  return %5\n",
     F "  return %1\n"},
    {"one_mul", F LITERAL("f32", "1") "  %5 = mul %4, %1 : f32[s0]\n  return %5\n",
     F "  return %1\n"},
    {"mul_zero", I LITERAL("i32", "0") "  %5 = mul %1, %4 : i32[s0]\n  return %5\n",
     I LITERAL("i32", "0") "  return %4\n"},
    {"mul_zero", F LITERAL("f32", "0") "  %5 = mul %1, %4 : f32[s0]\n  return %5\n", NULL},
    {"div_one", I LITERAL("i32", "1") "  %5 = div %1, %4 : i32[s0]\n  return %5\n",
     I "  return %1\n"},
    {"div_power", F LITERAL("f32", "-8") "  %5 = div %1, %4 : f32[s0]\n  return %5\n",
     F LITERAL("f32", "-0.125") "  %5 = mul %1, %4 : f32[s0]\n  return %5\n"},
    {"div_power", F LITERAL("f32", "3") "  %5 = div %1, %4 : f32[s0]\n  return %5\n", NULL},
    {"div_power", // the reciprocal is a denormal
     F LITERAL("f32", "1.70141183e+38") "  %5 = div %1, %4 : f32[s0]\n  return %5\n", NULL},
    {"pow_zero", F LITERAL("f32", "-0") "  %5 = pow %1, %4 : f32[s0]\n  return %5\n",
     F LITERAL("f32", "1") "  return %4\n"},
    {"pow_zero", I LITERAL("i32", "0") "  %5 = pow %1, %4 : i32[s0]\n  return %5\n",
     I LITERAL("i32", "1") "  return %4\n"},
    {"pow_one", F LITERAL("f32", "1") "  %5 = pow %1, %4 : f32[s0]\n  return %5\n",
     F "  return %1\n"},
    {"pow_two", F LITERAL("f32", "2") "  %5 = pow %1, %4 : f32[s0]\n  return %5\n",
     F "  %2 = mul %1, %1 : f32[s0]\n  return %2\n"},
    {"pow_minus_one", F LITERAL("f32", "-1") "  %5 = pow %1, %4 : f32[s0]\n  return %5\n",
     F "  %2 = reciprocal %1 : f32[s0]\n  return %2\n"},
    {"pow_minus_one", // no reciprocal of integers
     I LITERAL("i32", "-1") "  %5 = pow %1, %4 : i32[s0]\n  return %5\n", NULL},
    {"max_same", F "  %2 = maximum %1, %1 : f32[s0]\n  return %2\n", F "  return %1\n"},
    {"min_same", F "  %2 = minimum %1, %1 : f32[s0]\n  return %2\n", F "  return %1\n"},
    {"and_same", B "  %2 = logical_and %1, %1 : bool[s0]\n  return %2\n", B "  return %1\n"},
    {"or_same", B "  %2 = logical_or %1, %1 : bool[s0]\n  return %2\n", B "  return %1\n"},
    {"and_literal", B LITERAL("bool", "1") "  %5 = logical_and %1, %4 : bool[s0]\n  return %5\n",
     B "  return %1\n"},
    {"and_literal", B LITERAL("bool", "0") "  %5 = logical_and %1, %4 : bool[s0]\n  return %5\n",
     B LITERAL("bool", "0") "  return %4\n"},
    {"or_literal", B LITERAL("bool", "0") "  %5 = logical_or %4, %1 : bool[s0]\n  return %5\n",
     B "  return %1\n"},
    {"or_literal", B LITERAL("bool", "1") "  %5 = logical_or %1, %4 : bool[s0]\n  return %5\n",
     B LITERAL("bool", "1") "  return %4\n"},
    {"where_same",
     B "  %2 = input \"y\" f32[s0] strides [1] contiguous\n"
       "  %3 = where %1, %2, %2 : f32[s0]\n  return %3\n",
     B "  %2 = input \"y\" f32[s0] strides [1] contiguous\n  return %2\n"},
};
#define N_CASES (sizeof(cases) / sizeof(cases[0]))

// ---- Values ---------------------------------------------------------------------------------------------
static void fill(dt_dtype_t dtype, uint64_t *data, size_t n) {
  static const double reals[] = {1.5, -2.25, 0.0, -0.0, NAN, INFINITY, -INFINITY, 1e-40, 3e38, -7};
  static const int64_t wholes[] = {5, -7, 0, 1, INT64_MAX, INT64_MIN, INT32_MAX, INT32_MIN, 300};
  for (size_t k = 0; k < n; k++) {
    char *at = (char *)data + k * dt_dtype_size(dtype);
    dt_scalar_t value = {.f = reals[k % 10]};
    if (!dt__dtype_is_float(dtype))
      value = dt__scalar_cast(DT_I64, dtype, (dt_scalar_t){.i = wholes[k % 9]});
    dt__scalar_store(dtype, at, value);
  }
}

static void evaluate(const dt_graph_t *graph, const int64_t *symbols, dt_arena_t *arena,
                     dt_eval_value_t *out) {
  static uint64_t data[2][4096];
  dt_eval_arg_t args[2];
  int64_t sizes[2][DT_MAX_RANK], strides[2][DT_MAX_RANK];
  for (uint32_t k = 0; k < graph->inputs.len; k++) {
    const dt_graph_input_t *in = &graph->inputs.items[k];
    for (uint32_t d = 0; d < in->rank; d++) {
      assert_true(dt__sym_eval(graph->env, in->sizes[d], symbols, &sizes[k][d]));
      assert_true(dt__sym_eval(graph->env, in->strides[d], symbols, &strides[k][d]));
    }
    fill(in->dtype, data[k], 4096);
    args[k] = (dt_eval_arg_t){data[k], sizes[k], strides[k]};
  }
  expect_ok(dt__graph_eval(graph, symbols, args, NULL, arena, out));
}

static void check_same_values(const case_t *c, const dt_graph_t *before, const dt_graph_t *after,
                              dt_arena_t *arena) {
  static const int64_t sizes[4][2] = {{0, 3}, {1, 0}, {3, 5}, {10, 10}};
  for (int k = 0; k < 4; k++) {
    dt_eval_value_t a, b;
    evaluate(before, sizes[k], arena, &a);
    evaluate(after, sizes[k], arena, &b);
    assert_int_equal(a.count, b.count);
    assert_int_equal(a.dtype, b.dtype);
    for (int64_t i = 0; i < a.count; i++) {
      bool real = dt__dtype_is_float(a.dtype);
      double x = a.data[i].f, y = b.data[i].f;
      bool same = !real      ? a.data[i].i == b.data[i].i
                  : isnan(x) ? isnan(y)
                  : x == 0.0 ? y == 0.0 && !signbit(x) == !signbit(y)
                             : x == y;
      // A literal that was computed is rounded to its dtype, where the evaluator rounds nothing.
      if (!same && real && strcmp(c->id, "ew_scalars") == 0)
        same = fabs(x - y) <= 1e-6;
      if (!same) {
        print_error("%s, sizes %lld %lld, element %lld: expected %.17g (%lld), got %.17g (%lld)\n",
                    c->id, (long long)sizes[k][0], (long long)sizes[k][1], (long long)i, x,
                    (long long)a.data[i].i, y, (long long)b.data[i].i);
        fail();
      }
    }
  }
}

// ---- Cases ----------------------------------------------------------------------------------------------
static char logged[8192];

static void keep_log(void *user, const char *line, size_t len) {
  (void)user;
  size_t at = strlen(logged);
  (void)snprintf(logged + at, sizeof(logged) - at, "%.*s\n", (int)len, line);
}

static const char *body_of(const dt_text_t *text) {
  const char *body = strchr(dt__text_str(text), '\n');
  assert_non_null(body);
  return body + 1;
}

static void check_case(const case_t *c) {
  dt_arena_t arena;
  dt_symenv_t *env;
  dt_graph_t *graph;
  const dt_graph_t *folded, *clean;
  dt_scan_t scan;
  char text[4096], want[4096], rule[64];
  dt__arena_init(&arena, 0);
  expect_ok(dt__symenv_create(&env));
  (void)snprintf(text, sizeof(text), "graph (s0: [0, 99], s1: [0, 99]) {\n%s}\n", c->before);
  dt__scan_init(&scan, text, strlen(text), c->id);
  expect_ok(dt__graph_parse(&arena, env, &scan, &graph));
  dt__symenv_freeze(env); // no rule may ask for a guard
  logged[0] = '\0';
  expect_ok(dt_log_configure("lower.fold:1"));
  dt_log_sink_set(keep_log, NULL);
  expect_ok(dt__pass_fold(&arena, graph, &folded));
  dt_log_sink_set(NULL, NULL);
  expect_ok(dt_log_configure(""));
  expect_ok(dt__pass_dce(&arena, folded, &clean));
  expect_ok(dt__graph_verify(clean));
  (void)snprintf(rule, sizeof(rule), "%s: ", c->id);
  bool fired = strstr(logged, rule) != NULL;
  if (fired != (c->after != NULL)) {
    print_error("%s %s in\n%s\nthe log says: %s\n", c->id, fired ? "fired" : "did not fire", text,
                logged);
    fail();
  }
  dt_text_t got;
  dt__text_init(&got);
  dt__graph_print(clean, &got);
  (void)snprintf(want, sizeof(want), "%s}\n", c->after ? c->after : c->before);
  if (strcmp(want, body_of(&got)) != 0) {
    print_error("%s: expected\n%s\ngot\n%s\n", c->id, want, body_of(&got));
    fail();
  }
  check_same_values(c, graph, clean, &arena);
  // What is folded stays as it is.
  const dt_graph_t *again;
  expect_ok(dt__pass_fold(&arena, clean, &again));
  assert_ptr_equal(again, clean);
  dt__text_fini(&got);
  dt__symenv_destroy(env);
  dt__arena_fini(&arena);
}

static void test_cases(void **state) {
  (void)state;
  for (size_t k = 0; k < N_CASES; k++)
    check_case(&cases[k]);
}

static void test_every_rule(void **state) {
  (void)state;
  static const char *const ids[] = {
#define FOLD(id, op, dtypes, fn, doc) #id,
#include "lower/passes/fold_rules.def"
  };
  for (size_t r = 0; r < sizeof(ids) / sizeof(ids[0]); r++) {
    bool found = false;
    for (size_t k = 0; k < N_CASES; k++)
      found |= strcmp(cases[k].id, ids[r]) == 0 && cases[k].after;
    if (!found)
      print_error("%s has no case\n", ids[r]);
    assert_true(found);
  }
}

RUN_TESTS(TEST(test_cases), TEST(test_every_rule))
