// SPDX-License-Identifier: Apache-2.0
// Cases of ops on elements, of folds, views, composites and matrix products; see cases.h.
#include "test/conform/cases_rows.h"

#include "lower/graph/scalar.h"

// ---- Programs -------------------------------------------------------------------------------------
// Those of one form are made from ops.def, and so are their cases.
#define FOLD(op, id, n, ...)                                                                       \
  MAKE(op##_##id, dt_##op(t, x[0], n, (const int32_t[]){__VA_ARGS__}, (n) == 1))
#define MAKE_unary(op) MAKE(op, dt_##op(t, x[0]))
#define MAKE_binary(op) MAKE(op, dt_##op(t, x[0], x[1]))
#define MAKE_reduce(op) FOLD(op, rows, 1, 1) FOLD(op, columns, 1, 0) FOLD(op, whole, 2, 0, 1)
#define MAKE_argreduce(op)
#define MAKE_along(op)
#define MAKE_own(op)
#define MAKE_none(op)
#define OP(name, arity, flags, dtype_rule, shape_rule, decompose, lower, eval, build, derivative,  \
           batch, doc)                                                                             \
  MAKE_##build(name)
#include "lower/graph/ops.def"

MAKE(where, dt_where(t, x[0], x[1], x[2]))
MAKE(philox, dt_philox(t, x[0], x[1], x[2]))
MAKE(cast_f16, dt_cast(t, x[0], DT_F16))
MAKE(cast_bf16, dt_cast(t, x[0], DT_BF16))
MAKE(cast_f32, dt_cast(t, x[0], DT_F32))
MAKE(cast_f64, dt_cast(t, x[0], DT_F64))
MAKE(cast_i32, dt_cast(t, x[0], DT_I32))
MAKE(cast_i64, dt_cast(t, x[0], DT_I64))
MAKE(cast_i8, dt_cast(t, x[0], DT_I8))
MAKE(cast_u8, dt_cast(t, x[0], DT_U8))
MAKE(cast_u64, dt_cast(t, x[0], DT_U64))
MAKE(cast_bool, dt_cast(t, x[0], DT_BOOL))
// To a low-bit dtype and back.
MAKE(cast_f8, dt_cast(t, dt_cast(t, x[0], DT_F8E4M3FN), DT_F32))
MAKE(cast_e8m0, dt_cast(t, dt_cast(t, x[0], DT_F8E8M0), DT_F32))
MAKE(cast_f4, dt_cast(t, dt_cast(t, x[0], DT_F4E2M1), DT_F32))
MAKE(cast_i4, dt_cast(t, dt_cast(t, x[0], DT_I4), DT_I8))
MAKE(cast_u2, dt_cast(t, dt_cast(t, x[0], DT_U2), DT_U8))
static v_t make_bitcast(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  static const dt_dtype_t words[] = {[1] = DT_U8, [2] = DT_U16, [4] = DT_U32, [8] = DT_U64};
  return dt_bitcast(t, dt_bitcast(t, x[0], words[dt_dtype_size(dtype)]), dtype);
}
MAKE(argmax_rows, dt_argmax(t, x[0], 1, false))
MAKE(argmax_columns, dt_argmax(t, x[0], 0, true))
MAKE(argmin_rows, dt_argmin(t, x[0], -1, true))
MAKE(argmin_columns, dt_argmin(t, x[0], 0, false))
MAKE(softmax_rows, dt_softmax(t, x[0], -1))
MAKE(softmax_columns, dt_softmax(t, x[0], 0))
MAKE(log_softmax_rows, dt_log_softmax(t, x[0], -1))
MAKE(log_softmax_columns, dt_log_softmax(t, x[0], 0))
MAKE(layer_norm, dt_layer_norm(t, x[0], x[1], x[2], 1e-5))
MAKE(rms_norm, dt_rms_norm(t, x[0], x[1], 1e-5))
// Rows of one number, and of zeros: what is divided by is the root of epsilon alone, which no half
// holds.
#define TINY_EPSILON 1e-12
MAKE(layer_norm_constant,
     dt_layer_norm(t,
                   dt_expand(t, x[0], 2,
                             (const dt_sym_t[]){dt_dim(t, x[0], 0), dt_dim(t, x[1], 0)}),
                   x[1], x[2], TINY_EPSILON))
MAKE(rms_norm_zero, dt_rms_norm(t, dt_mul(t, x[0], dt_scalar(t, dtype, 0)), x[1], TINY_EPSILON))
MAKE(matmul, dt_matmul(t, x[0], x[1]))
MAKE(matmul_bias, dt_relu(t, dt_add(t, dt_matmul(t, x[0], x[1]), x[2])))
MAKE(matmul_transposed, dt_matmul(t, x[0], dt_transpose(t, x[1], -1, -2)))
MAKE(reshape_flat, dt_reshape(t, x[0], 1, (const dt_sym_t[]){dt_sym_const(t, -1)}))
MAKE(reshape_swap,
     dt_reshape(t, x[0], 2, (const dt_sym_t[]){dt_dim(t, x[0], 1), dt_dim(t, x[0], 0)}))
MAKE(reshape_transposed, dt_reshape(t, dt_transpose(t, x[0], 0, 1), 2,
                                    (const dt_sym_t[]){dt_dim(t, x[0], 0), dt_dim(t, x[0], 1)}))
MAKE(permute, dt_permute(t, x[0], (const int32_t[]){2, 0, 1}))
MAKE(transpose, dt_transpose(t, x[0], 0, 1))
MAKE(expand,
     dt_expand(t, x[0], 3,
               (const dt_sym_t[]){dt_dim(t, x[1], 1), dt_dim(t, x[1], 0), dt_dim(t, x[0], 1)}))
MAKE(slice_half, dt_slice(t, x[0], 1, dt_sym_floordiv(t, dt_dim(t, x[0], 1), dt_sym_const(t, 2)),
                          dt_sym_sub(t, dt_dim(t, x[0], 1),
                                     dt_sym_floordiv(t, dt_dim(t, x[0], 1), dt_sym_const(t, 2))),
                          1))
MAKE(slice_even, dt_slice(t, x[0], 0, dt_sym_const(t, 0),
                          dt_sym_floordiv(t, dt_sym_add(t, dt_dim(t, x[0], 0), dt_sym_const(t, 1)),
                                          dt_sym_const(t, 2)),
                          2))
MAKE(slice_columns,
     dt_slice(t, x[0], 1, dt_sym_const(t, 0),
              dt_sym_floordiv(t, dt_sym_add(t, dt_dim(t, x[0], 1), dt_sym_const(t, 1)),
                              dt_sym_const(t, 2)),
              2))
MAKE(slice_reversed, dt_slice(t, x[0], 1, dt_sym_sub(t, dt_dim(t, x[0], 1), dt_sym_const(t, 1)),
                              dt_dim(t, x[0], 1), -1))
MAKE(concat_rows, dt_concat(t, 3, (const dt_value_t[]){x[0], x[1], x[0]}, 0))
MAKE(concat_columns, dt_concat(t, 2, (const dt_value_t[]){x[0], x[1]}, 1))
static v_t make_pad(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  (void)dtype;
  const dt_sym_t low[2] = {dt_sym_const(t, 1), dt_dim(t, x[0], 0)};
  const dt_sym_t high[2] = {dt_sym_const(t, 0), dt_sym_const(t, 3)};
  return dt_pad(t, x[0], low, high, 1);
}
MAKE(gather_rows, dt_gather(t, x[0], x[1], 0))
MAKE(gather_columns, dt_gather(t, dt_transpose(t, x[0], 0, 1), x[1], 1))
MAKE(iota_rows,
     dt_add(t, x[0],
            dt_iota(t, dtype, 2, (const dt_sym_t[]){dt_dim(t, x[0], 0), dt_dim(t, x[0], 1)}, 0)))
MAKE(iota_columns,
     dt_iota(t, dtype, 2, (const dt_sym_t[]){dt_dim(t, x[0], 0), dt_dim(t, x[0], 1)}, -1))
MAKE(size, dt_mul(t, x[0], dt_cast(t, dt_size_value(t, dt_dim(t, x[0], 1)), dtype)))
MAKE(scalar, dt_add(t, x[0], dt_scalar(t, dtype, 3)))
MAKE(input, x[0])
// Numbers of 1 to 7, by and by, made once a dtype and kept by this table: of seven elements, or of
// 8 rows of 4, 8 or 12 columns.
enum { CONSTANT_SEVEN, CONSTANT_4, CONSTANT_8, CONSTANT_12, CONSTANTS };
static v_t constant_of(dt_trace_t *t, dt_dtype_t dtype, int which) {
  static dt_tensor_t *tensors[DT_F64 + 1][CONSTANTS];
  static const char *const names[CONSTANTS] = {"c", "c4", "c8", "c12"};
  const int64_t seven = 7, sizes[2] = {8, (int64_t)4 * which};
  dt_tensor_t **made = &tensors[dtype][which];
  if (!*made) {
    dt_status_t status = which == CONSTANT_SEVEN ? dt_tensor_create_empty(dtype, 1, &seven, made)
                                                 : dt_tensor_create_empty(dtype, 2, sizes, made);
    if (status) {
      dt_status_free(status);
      return (v_t){0};
    }
    for (int64_t k = 0; k < (which == CONSTANT_SEVEN ? seven : sizes[0] * sizes[1]); k++) {
      char *at = (char *)dt_tensor_data(*made) + (size_t)k * dt_dtype_size(dtype);
      dt__scalar_store(dtype, at, dt__scalar_cast(DT_I64, dtype, (dt_scalar_t){.i = k % 7 + 1}));
    }
  }
  return dt_constant(t, names[which], *made);
}
static v_t make_constant(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  return dt_mul(t, dt_sum(t, constant_of(t, dtype, CONSTANT_SEVEN), 0, NULL, true), x[0]);
}
static v_t sum_last(dt_trace_t *t, v_t x) { return dt_sum(t, x, 1, (const int32_t[]){-1}, true); }
// Products with constants beside one with an argument; devices make one of the former.
static v_t make_matmul_grouped(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  v_t a = sum_last(t, dt_matmul(t, x[0], constant_of(t, dtype, CONSTANT_4)));
  v_t b = sum_last(t, dt_matmul(t, x[0], constant_of(t, dtype, CONSTANT_8)));
  v_t c = sum_last(t, dt_matmul(t, x[0], constant_of(t, dtype, CONSTANT_12)));
  return dt_add(t, dt_sub(t, dt_add(t, a, b), c), dt_matmul(t, x[0], x[1]));
}
// One row, times a matrix that is constant, and times what is made of one.
static v_t make_matmul_row(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  v_t w = constant_of(t, dtype, CONSTANT_12);
  return dt_add(t, dt_matmul(t, x[0], w), dt_matmul(t, x[0], dt_mul(t, w, w)));
}
// Times matrices of one number: the sums of a row are all the same, and what is made of them; a
// bias makes them differ.
static v_t make_matmul_number(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  const dt_sym_t eight = dt_sym_const(t, 8), twelve = dt_sym_const(t, 12);
  v_t a = dt_matmul(t, x[0], dt_full(t, dtype, 2, 2, (const dt_sym_t[]){eight, twelve}));
  v_t b = dt_matmul(t, dt_neg(t, a), dt_full(t, dtype, 3, 2, (const dt_sym_t[]){twelve, eight}));
  return dt_add(t, dt_maximum(t, a, dt_neg(t, a)),
                dt_matmul(t, dt_add(t, b, x[0]), constant_of(t, dtype, CONSTANT_12)));
}
// Integers of 8 bits, less a number for each row or column, of every pair of signs; one of a
// constant.
static v_t less(dt_trace_t *t, v_t x, dt_dtype_t dtype, v_t zero) {
  return dt_sub(t, dt_cast(t, dt_cast(t, x, dtype), DT_I32), zero);
}
static v_t make_matmul_bytes(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  static const dt_dtype_t signs[4][2] = {
      {DT_U8, DT_I8}, {DT_U8, DT_U8}, {DT_I8, DT_I8}, {DT_I8, DT_U8}};
  v_t sum = {0},
      row = dt_cast(t, dt_slice(t, x[0], 1, dt_sym_const(t, 0), dt_sym_const(t, 1), 1), DT_I32);
  for (int k = 0; k < 4; k++) {
    v_t a = less(t, x[0], signs[k][0], k % 2 ? row : dt_scalar(t, DT_I32, 3));
    v_t b = less(t, x[1], signs[k][1], dt_scalar(t, DT_I32, k == 1 ? 128 : k));
    v_t y = dt_matmul(t, a, b);
    sum = sum.id ? dt_add(t, dt_mul(t, sum, dt_scalar(t, DT_I32, 31)), y) : y;
  }
  v_t w = less(t, constant_of(t, DT_U8, CONSTANT_12), DT_U8, dt_scalar(t, DT_I32, 4));
  v_t last = dt_matmul(t, less(t, x[0], DT_I8, row), w);
  return dt_cast(t, dt_add(t, sum, dt_sum(t, last, 1, (const int32_t[]){-1}, true)), dtype);
}
// The same in a batch, of which one operand is turned, with a number for each of its rows.
static v_t make_matmul_bytes_turned(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  dt_sym_t zero = dt_sym_const(t, 0), one = dt_sym_const(t, 1);
  v_t column = dt_cast(t, dt_slice(t, x[1], 1, zero, one, 1), DT_I32), sum = {0};
  for (int k = 0; k < 2; k++) {
    v_t a = less(t, x[0], DT_U8, dt_scalar(t, DT_I32, 5 * k));
    v_t b = dt_transpose(t, less(t, x[1], k ? DT_U8 : DT_I8, column), 0, 1);
    v_t y = dt_matmul(t, a, b);
    sum = sum.id ? dt_add(t, sum, y) : y;
  }
  return dt_cast(t, sum, dtype);
}
// Rows of constants as biases, and views of what is left, one times the other's transpose.
static v_t make_matmul_attends(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  v_t w = constant_of(t, dtype, CONSTANT_8);
  dt_sym_t one = dt_sym_const(t, 1);
  v_t row = dt_slice(t, w, 0, one, one, 1), other = dt_slice(t, w, 0, dt_sym_const(t, 2), one, 1);
  v_t q = dt_add(t, dt_matmul(t, x[0], w), row);
  v_t k = dt_add(t, dt_matmul(t, x[0], dt_transpose(t, w, 0, 1)), other);
  return dt_matmul(t, q, dt_transpose(t, k, -1, -2));
}
// ---- Cases ----------------------------------------------------------------------------------------
// What a dtype rule lets in, of the dtypes tried here. Cases of two operands are written out below:
// they differ in what the second is and in what is tried of their forms.
#define DTYPES_float_only T_FLOAT
#define DTYPES_float_test T_FLOAT
#define DTYPES_number T_NUMBER
#define DTYPES_integer T_INT
#define DTYPES_logic T_BOOL
// What is folded: any values, but products of small numbers, and means of finite ones.
#define FILL_sum ANY
#define FILL_prod SMALL
#define FILL_amax ANY
#define FILL_amin ANY
#define FILL_any ANY
#define FILL_all ANY
#define FILL_mean FINITE
#define FILL_var FINITE
#define ROW_unary(op, dtypes) {"unary", #op, "", dtypes, 1, {ANY(2, MN)}, false, make_##op},
#define ROW_binary(op, dtypes)
#define ROW_reduce(op, dtypes)                                                                     \
  {"reduce", #op, "rows", dtypes, 1, {FILL_##op(2, MN)}, false, make_##op##_rows},                 \
      {"reduce", #op, "columns", dtypes, 1, {FILL_##op(2, MN)}, false, make_##op##_columns},       \
      {"reduce", #op, "whole", dtypes, 1, {FILL_##op(2, MN)}, false, make_##op##_whole},
#define ROW_argreduce(op, dtypes)
#define ROW_along(op, dtypes)
#define ROW_own(op, dtypes)
#define ROW_none(op, dtypes)

const case_t cases[] = {
#define OP(name, arity, flags, dtype_rule, shape_rule, decompose, lower, eval, build, derivative,  \
           batch, doc)                                                                             \
  ROW_##build(name, DTYPES_##dtype_rule)
#include "lower/graph/ops.def"
    {"unary", "ndtr", "of gelu", T_FLOAT, 1, {ANY(2, MN)}, false, make_gelu},
    {"unary", "cast", "to f16", T_ALL, 1, {ANY(2, MN)}, false, make_cast_f16},
    {"unary", "cast", "to bf16", T_ALL, 1, {ANY(2, MN)}, false, make_cast_bf16},
    {"unary", "cast", "to f32", T_ALL, 1, {ANY(2, MN)}, false, make_cast_f32},
    {"unary", "cast", "to f64", T_ALL, 1, {ANY(2, MN)}, false, make_cast_f64},
    {"unary", "cast", "to i32", T_ALL, 1, {ANY(2, MN)}, false, make_cast_i32},
    {"unary", "cast", "to i64", T_ALL, 1, {ANY(2, MN)}, false, make_cast_i64},
    {"unary", "cast", "to i8", T_ALL, 1, {ANY(2, MN)}, false, make_cast_i8},
    {"unary", "cast", "to u8", T_ALL, 1, {ANY(2, MN)}, false, make_cast_u8},
    {"unary", "cast", "to u64", T_ALL, 1, {ANY(2, MN)}, false, make_cast_u64},
    {"unary", "cast", "to bool", T_ALL, 1, {ANY(2, MN)}, false, make_cast_bool},
    {"unary", "cast", "to f8e4m3fn", T_ALL, 1, {ANY(2, MN)}, false, make_cast_f8},
    {"unary", "cast", "to f8e8m0", T_ALL, 1, {ANY(2, MN)}, false, make_cast_e8m0},
    {"unary", "cast", "to f4e2m1", T_ALL, 1, {ANY(2, MN)}, false, make_cast_f4},
    {"unary", "cast", "to i4", T_ALL, 1, {ANY(2, MN)}, false, make_cast_i4},
    {"unary", "cast", "to u2", T_ALL, 1, {ANY(2, MN)}, false, make_cast_u2},
    {"unary", "bitcast", "and back", T_NUMBER, 1, {ANY(2, MN)}, false, make_bitcast},
    {"unary", "scalar", "", T_NUMBER, 1, {ANY(2, MN)}, false, make_scalar},
    {"unary", "input", "", T_ALL, 1, {ANY(2, MN)}, false, make_input},
    {"unary", "constant", "", T_NUMBER, 1, {ANY(2, MN)}, false, make_constant},
    {"binary", "add", "", T_NUMBER, 2, {ANY(2, MN), ANY(2, MN)}, false, make_add},
    {"binary", "add", "row", T_F32, 2, {ANY(2, MN), ANY(1, DIM_N)}, false, make_add},
    {"binary", "add", "outer", T_F32, 2, {ANY(2, DIM_M, 1), ANY(2, 1, DIM_N)}, false, make_add},
    {"binary", "sub", "", T_NUMBER, 2, {ANY(2, MN), ANY(2, MN)}, false, make_sub},
    {"binary", "sub", "row", T_F32, 2, {ANY(2, MN), ANY(1, DIM_N)}, false, make_sub},
    {"binary", "sub", "outer", T_F32, 2, {ANY(2, DIM_M, 1), ANY(2, 1, DIM_N)}, false, make_sub},
    {"binary", "mul", "", T_NUMBER, 2, {ANY(2, MN), ANY(2, MN)}, false, make_mul},
    {"binary", "mul", "row", T_F32, 2, {ANY(2, MN), ANY(1, DIM_N)}, false, make_mul},
    {"binary", "mul", "outer", T_F32, 2, {ANY(2, DIM_M, 1), ANY(2, 1, DIM_N)}, false, make_mul},
    {"binary", "div", "", T_NUMBER, 2, {ANY(2, MN), ANY(2, MN)}, false, make_div},
    {"binary", "div", "row", T_F32, 2, {ANY(2, MN), ANY(1, DIM_N)}, false, make_div},
    {"binary", "div", "outer", T_F32, 2, {ANY(2, DIM_M, 1), ANY(2, 1, DIM_N)}, false, make_div},
    {"binary", "mod", "", T_NUMBER, 2, {ANY(2, MN), ANY(2, MN)}, false, make_mod},
    {"binary", "mod", "row", T_F32, 2, {ANY(2, MN), ANY(1, DIM_N)}, false, make_mod},
    {"binary", "mod", "outer", T_F32, 2, {ANY(2, DIM_M, 1), ANY(2, 1, DIM_N)}, false, make_mod},
    {"binary", "fmod", "", T_NUMBER, 2, {ANY(2, MN), ANY(2, MN)}, false, make_fmod},
    {"binary", "fmod", "row", T_F32, 2, {ANY(2, MN), ANY(1, DIM_N)}, false, make_fmod},
    {"binary", "fmod", "outer", T_F32, 2, {ANY(2, DIM_M, 1), ANY(2, 1, DIM_N)}, false, make_fmod},
    {"binary", "maximum", "", T_NUMBER, 2, {ANY(2, MN), ANY(2, MN)}, false, make_maximum},
    {"binary", "maximum", "row", T_F32, 2, {ANY(2, MN), ANY(1, DIM_N)}, false, make_maximum},
    {"binary",
     "maximum",
     "outer",
     T_F32,
     2,
     {ANY(2, DIM_M, 1), ANY(2, 1, DIM_N)},
     false,
     make_maximum},
    {"binary", "minimum", "", T_NUMBER, 2, {ANY(2, MN), ANY(2, MN)}, false, make_minimum},
    {"binary", "minimum", "row", T_F32, 2, {ANY(2, MN), ANY(1, DIM_N)}, false, make_minimum},
    {"binary",
     "minimum",
     "outer",
     T_F32,
     2,
     {ANY(2, DIM_M, 1), ANY(2, 1, DIM_N)},
     false,
     make_minimum},
    {"binary", "lt", "", T_NUMBER, 2, {ANY(2, MN), ANY(2, MN)}, false, make_lt},
    {"binary", "lt", "row", T_F32, 2, {ANY(2, MN), ANY(1, DIM_N)}, false, make_lt},
    {"binary", "lt", "outer", T_F32, 2, {ANY(2, DIM_M, 1), ANY(2, 1, DIM_N)}, false, make_lt},
    {"binary", "le", "", T_NUMBER, 2, {ANY(2, MN), ANY(2, MN)}, false, make_le},
    {"binary", "le", "row", T_F32, 2, {ANY(2, MN), ANY(1, DIM_N)}, false, make_le},
    {"binary", "le", "outer", T_F32, 2, {ANY(2, DIM_M, 1), ANY(2, 1, DIM_N)}, false, make_le},
    {"binary", "gt", "", T_NUMBER, 2, {ANY(2, MN), ANY(2, MN)}, false, make_gt},
    {"binary", "gt", "row", T_F32, 2, {ANY(2, MN), ANY(1, DIM_N)}, false, make_gt},
    {"binary", "gt", "outer", T_F32, 2, {ANY(2, DIM_M, 1), ANY(2, 1, DIM_N)}, false, make_gt},
    {"binary", "ge", "", T_NUMBER, 2, {ANY(2, MN), ANY(2, MN)}, false, make_ge},
    {"binary", "ge", "row", T_F32, 2, {ANY(2, MN), ANY(1, DIM_N)}, false, make_ge},
    {"binary", "ge", "outer", T_F32, 2, {ANY(2, DIM_M, 1), ANY(2, 1, DIM_N)}, false, make_ge},
    {"binary", "pow", "", T_FLOAT, 2, {ANY(2, MN), ANY(2, MN)}, false, make_pow},
    {"binary", "pow", "integers", T_INT, 2, {ANY(2, MN), SMALL(2, MN)}, false, make_pow},
    {"binary", "bit_and", "", T_INT, 2, {ANY(2, MN), ANY(2, MN)}, false, make_bit_and},
    {"binary", "bit_or", "", T_INT, 2, {ANY(2, MN), ANY(2, MN)}, false, make_bit_or},
    {"binary", "bit_xor", "", T_INT, 2, {ANY(2, MN), ANY(2, MN)}, false, make_bit_xor},
    {"binary", "shift_left", "", T_INT, 2, {ANY(2, MN), SMALL(2, MN)}, false, make_shift_left},
    {"binary", "shift_right", "", T_INT, 2, {ANY(2, MN), SMALL(2, MN)}, false, make_shift_right},
    {"binary", "pow", "row", T_FLOAT, 2, {ANY(2, MN), ANY(1, DIM_N)}, false, make_pow},
    {"binary", "pow", "outer", T_FLOAT, 2, {ANY(2, DIM_M, 1), ANY(2, 1, DIM_N)}, false, make_pow},
    {"binary", "eq", "", T_ALL, 2, {ANY(2, MN), ANY(2, MN)}, false, make_eq},
    {"binary", "eq", "row", T_ALL, 2, {ANY(2, MN), ANY(1, DIM_N)}, false, make_eq},
    {"binary", "eq", "outer", T_ALL, 2, {ANY(2, DIM_M, 1), ANY(2, 1, DIM_N)}, false, make_eq},
    {"binary", "ne", "", T_ALL, 2, {ANY(2, MN), ANY(2, MN)}, false, make_ne},
    {"binary", "ne", "row", T_ALL, 2, {ANY(2, MN), ANY(1, DIM_N)}, false, make_ne},
    {"binary", "ne", "outer", T_ALL, 2, {ANY(2, DIM_M, 1), ANY(2, 1, DIM_N)}, false, make_ne},
    {"binary", "logical_and", "", T_BOOL, 2, {ANY(2, MN), ANY(2, MN)}, false, make_logical_and},
    {"binary",
     "logical_and",
     "row",
     T_BOOL,
     2,
     {ANY(2, MN), ANY(1, DIM_N)},
     false,
     make_logical_and},
    {"binary",
     "logical_and",
     "outer",
     T_BOOL,
     2,
     {ANY(2, DIM_M, 1), ANY(2, 1, DIM_N)},
     false,
     make_logical_and},
    {"binary", "logical_or", "", T_BOOL, 2, {ANY(2, MN), ANY(2, MN)}, false, make_logical_or},
    {"binary", "logical_or", "row", T_BOOL, 2, {ANY(2, MN), ANY(1, DIM_N)}, false, make_logical_or},
    {"binary",
     "logical_or",
     "outer",
     T_BOOL,
     2,
     {ANY(2, DIM_M, 1), ANY(2, 1, DIM_N)},
     false,
     make_logical_or},
    {"binary", "logical_xor", "", T_BOOL, 2, {ANY(2, MN), ANY(2, MN)}, false, make_logical_xor},
    {"binary",
     "logical_xor",
     "row",
     T_BOOL,
     2,
     {ANY(2, MN), ANY(1, DIM_N)},
     false,
     make_logical_xor},
    {"binary",
     "logical_xor",
     "outer",
     T_BOOL,
     2,
     {ANY(2, DIM_M, 1), ANY(2, 1, DIM_N)},
     false,
     make_logical_xor},
    {"binary", "add", "scalar", T_F32, 2, {ANY(2, MN), ANY(0, 0)}, false, make_add},
    {"binary",
     "where",
     "",
     T_ALL,
     3,
     {{DT_BOOL, FILL_ANY, 2, {MN}}, ANY(2, MN), ANY(2, MN)},
     false,
     make_where},
    {"binary",
     "where",
     "broadcast",
     T_FLOAT,
     3,
     {{DT_BOOL, FILL_ANY, 1, {DIM_N}}, ANY(2, MN), ANY(2, DIM_M, 1)},
     false,
     make_where},
    {"binary", "philox", "", T_INT, 3, {ANY(2, MN), ANY(2, MN), ANY(2, MN)}, false, make_philox},
    {"binary",
     "philox",
     "keys",
     T_INT,
     3,
     {ANY(0, 0), ANY(2, DIM_M, 1), ANY(2, MN)},
     false,
     make_philox},
    {"reduce", "argmax", "rows", T_NUMBER, 1, {ANY(2, MN)}, false, make_argmax_rows},
    {"reduce", "argmax", "columns", T_NUMBER, 1, {ANY(2, MN)}, false, make_argmax_columns},
    {"reduce", "argmin", "rows", T_NUMBER, 1, {ANY(2, MN)}, false, make_argmin_rows},
    {"reduce", "argmin", "columns", T_NUMBER, 1, {ANY(2, MN)}, false, make_argmin_columns},
    {"view", "reshape", "flat", T_ALL, 1, {ANY(2, MN)}, false, make_reshape_flat},
    {"view", "reshape", "swap", T_ALL, 1, {ANY(2, MN)}, false, make_reshape_swap},
    {"view", "reshape", "transposed", T_ALL, 1, {ANY(2, MN)}, false, make_reshape_transposed},
    {"view", "permute", "", T_ALL, 1, {ANY(3, DIM_M, 3, DIM_N)}, false, make_permute},
    {"view", "permute", "transpose", T_ALL, 1, {ANY(2, MN)}, false, make_transpose},
    {"view", "expand", "", T_ALL, 2, {ANY(2, 1, DIM_N), ANY(2, DIM_M, 5)}, false, make_expand},
    {"view", "slice", "half", T_ALL, 1, {ANY(2, MN)}, false, make_slice_half},
    {"view", "slice", "even", T_ALL, 1, {ANY(2, MN)}, false, make_slice_even},
    {"view", "slice", "columns", T_ALL, 1, {ANY(2, MN)}, false, make_slice_columns},
    {"view", "slice", "reversed", T_ALL, 1, {ANY(2, MN)}, false, make_slice_reversed},
    {"view",
     "concat",
     "rows",
     T_ALL,
     2,
     {ANY(2, DIM_M, DIM_N), ANY(2, 3, DIM_N)},
     false,
     make_concat_rows},
    {"view",
     "concat",
     "columns",
     T_ALL,
     2,
     {ANY(2, DIM_M, DIM_N), ANY(2, DIM_M, 5)},
     false,
     make_concat_columns},
    {"view", "pad", "", T_NUMBER, 1, {ANY(2, MN)}, false, make_pad},
    {"view",
     "gather",
     "rows",
     T_ALL,
     2,
     {ANY(2, MN), {DT_I64, FILL_INDEX_M, 2, {DIM_N, 3}}},
     true,
     make_gather_rows},
    {"view",
     "gather",
     "columns",
     T_NUMBER,
     2,
     {ANY(2, MN), {DT_I32, FILL_INDEX_M, 1, {7}}},
     true,
     make_gather_columns},
    {"view", "iota", "rows", T_NUMBER, 1, {ANY(2, MN)}, false, make_iota_rows},
    {"view", "iota", "columns", T_NUMBER, 1, {ANY(2, MN)}, false, make_iota_columns},
    {"view", "size", "", T_NUMBER, 1, {ANY(2, MN)}, false, make_size},
    {"composite", "softmax", "rows", T_FLOAT, 1, {FINITE(2, MN)}, false, make_softmax_rows},
    {"composite", "log_softmax", "rows", T_FLOAT, 1, {FINITE(2, MN)}, false, make_log_softmax_rows},
    {"composite", "softmax", "columns", T_FLOAT, 1, {FINITE(2, MN)}, false, make_softmax_columns},
    {"composite",
     "log_softmax",
     "columns",
     T_FLOAT,
     1,
     {FINITE(2, MN)},
     false,
     make_log_softmax_columns},
    {"composite", "softmax", "specials", T_FLOAT, 1, {ANY(2, MN)}, false, make_softmax_rows},
    {"composite",
     "layer_norm",
     "",
     T_FLOAT,
     3,
     {FINITE(2, MN), FINITE(1, DIM_N), FINITE(1, DIM_N)},
     false,
     make_layer_norm},
    {"composite",
     "layer_norm",
     "wide",
     T_FLOAT,
     3,
     {FINITE(3, MN, 40), FINITE(1, 40), FINITE(1, 40)},
     false,
     make_layer_norm},
    {"composite",
     "rms_norm",
     "",
     T_FLOAT,
     2,
     {FINITE(2, MN), FINITE(1, DIM_N)},
     false,
     make_rms_norm},
    {"composite",
     "layer_norm",
     "constant rows",
     T_FLOAT,
     3,
     {SMALL(2, DIM_M, 1), SMALL(1, DIM_N), SMALL(1, DIM_N)},
     false,
     make_layer_norm_constant},
    {"composite",
     "rms_norm",
     "zero rows",
     T_FLOAT,
     2,
     {SMALL(2, MN), SMALL(1, DIM_N)},
     false,
     make_rms_norm_zero},
    {"matmul",
     "matmul",
     "exact",
     T_NUMBER,
     2,
     {SMALL(2, DIM_M, 33), SMALL(2, 33, DIM_N)},
     false,
     make_matmul},
    {"matmul",
     "matmul",
     "exact inner",
     T_NUMBER,
     2,
     {SMALL(2, 5, DIM_M), SMALL(2, DIM_M, DIM_N)},
     false,
     make_matmul},
    {"matmul",
     "matmul",
     "exact batch",
     T_NUMBER,
     2,
     {SMALL(3, 3, DIM_M, 8), SMALL(3, 3, 8, DIM_N)},
     false,
     make_matmul},
    {"matmul",
     "matmul",
     "exact shared",
     T_NUMBER,
     2,
     {SMALL(3, 2, DIM_M, 8), SMALL(2, 8, DIM_N)},
     false,
     make_matmul},
    {"matmul",
     "matmul",
     "exact one row a batch",
     T_NUMBER,
     2,
     {SMALL(4, 1, DIM_M, 1, 8), SMALL(2, 8, DIM_N)},
     false,
     make_matmul},
    {"matmul",
     "matmul",
     "exact by head",
     T_NUMBER,
     2,
     {SMALL(4, DIM_M, 1, 1, 8), SMALL(3, 3, 8, DIM_N)},
     false,
     make_matmul},
    {"matmul",
     "matmul",
     "exact one column",
     T_NUMBER,
     2,
     {SMALL(2, DIM_N, 8), SMALL(3, DIM_M, 8, 1)},
     false,
     make_matmul},
    {"matmul",
     "matmul",
     "exact one number",
     T_NUMBER,
     1,
     {SMALL(2, DIM_M, 8)},
     false,
     make_matmul_number},
    {"matmul", "matmul", "exact one row", T_NUMBER, 1, {SMALL(2, 1, 8)}, false, make_matmul_row},
    {"matmul",
     "matmul",
     "exact bias",
     T_NUMBER,
     3,
     {SMALL(2, DIM_M, 8), SMALL(2, 8, DIM_N), SMALL(1, DIM_N)},
     false,
     make_matmul_bias},
    {"matmul",
     "matmul",
     "exact transposed",
     T_NUMBER,
     2,
     {SMALL(3, 2, DIM_M, 8), SMALL(3, 2, DIM_N, 8)},
     false,
     make_matmul_transposed},
    {"matmul",
     "matmul",
     "exact grouped",
     T_NUMBER,
     2,
     {SMALL(2, DIM_M, 8), SMALL(2, 8, 5)},
     false,
     make_matmul_grouped},
    {"matmul",
     "matmul",
     "exact grouped biases",
     T_NUMBER,
     1,
     {SMALL(3, 2, DIM_M, 8)},
     false,
     make_matmul_attends},
    {"matmul",
     "matmul",
     "exact bytes",
     T_INT,
     2,
     {SMALL(2, DIM_M, 8), SMALL(2, 8, DIM_N)},
     false,
     make_matmul_bytes},
    {"matmul",
     "matmul",
     "exact bytes turned",
     T_INT,
     2,
     {SMALL(3, 2, DIM_M, 8), SMALL(2, DIM_N, 8)},
     false,
     make_matmul_bytes_turned},
    {"matmul",
     "matmul",
     "floats",
     T_FLOAT,
     2,
     {FINITE(2, DIM_M, 70), FINITE(2, 70, DIM_N)},
     false,
     make_matmul},
    {"matmul",
     "matmul",
     "specials",
     T_FLOAT,
     2,
     {ANY(2, DIM_M, 8), ANY(2, 8, DIM_N)},
     false,
     make_matmul},
};
const uint32_t n_cases = sizeof(cases) / sizeof(cases[0]);
