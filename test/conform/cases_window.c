// SPDX-License-Identifier: Apache-2.0
// Cases of windows, convolutions and pools; see cases.h. Padding makes windows fit at all sizes.
#include "test/conform/cases_rows.h"

// ---- Programs -------------------------------------------------------------------------------------
// A window of literals; 0 is left out.
static dt_window_t window(dt_trace_t *t, int64_t size, int64_t stride, int64_t dilation,
                          int64_t low, int64_t high) {
  dt_window_t made = {0};
  const int64_t from[] = {size, stride, dilation, low, high};
  dt_sym_t *to[] = {&made.size, &made.stride, &made.dilation, &made.low, &made.high};
  for (int k = 0; k < 5; k++)
    if (from[k])
      *to[k] = dt_sym_const(t, from[k]);
  return made;
}

// What takes in[0], in[1] (and in[2], a bias) and two windows.
#define CONV(id, groups, ...)                                                                      \
  static v_t make_##id(dt_trace_t *t, in_t x, dt_dtype_t dtype) {                                  \
    const dt_window_t w[] = {__VA_ARGS__};                                                         \
    (void)dtype;                                                                                   \
    return dt_conv(t, x[0], x[1], w, groups);                                                      \
  }
#define W(...) window(t, 0, __VA_ARGS__)
CONV(conv_same, 1, W(1, 1, 2, 1), W(1, 1, 1, 2))
CONV(conv_plain, 1, W(0, 0, 0, 0), W(0, 0, 0, 0))
CONV(conv_strided, 1, W(2, 1, 2, 1), W(1, 2, 2, 3))
CONV(conv_groups, 2, W(1, 0, 1, 1), W(2, 0, 1, 1))
CONV(conv_depthwise, 4, W(2, 1, 1, 1), W(1, 0, 1, 1))
CONV(conv_line, 1, W(2, 1, 1, 2))
static v_t make_conv_bias(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  v_t bias = dt_reshape(t, x[2], 3,
                        (dt_sym_t[]){dt_dim(t, x[2], 0), dt_sym_const(t, 1), dt_sym_const(t, 1)});
  return dt_relu(t, dt_add(t, make_conv_same(t, x, dtype), bias));
}
// Work before it, which windows would repeat.
static v_t make_conv_after(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  return make_conv_same(t, (v_t[]){dt_mul(t, dt_relu(t, x[0]), dt_neg(t, x[0])), x[1]}, dtype);
}
// The kernel has m columns.
static v_t make_conv_sized(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  dt_window_t w[2] = {{.stride = {0}}, {.stride = dt_sym_const(t, 3)}};
  w[1].low = w[1].high = dt_dim(t, x[1], 3);
  (void)dtype;
  return dt_conv(t, x[0], x[1], w, 1);
}
// The kernel has m / 2 + 1 rows and n / 2 + 1 columns: signs of products of such sizes are known by
// their factors only.
static v_t make_conv_both(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  dt_sym_t zero = dt_sym_const(t, 0), one = dt_sym_const(t, 1), two = dt_sym_const(t, 2);
  const dt_sym_t none[] = {zero, zero, zero, zero}, high[] = {zero, zero, one, one};
  const dt_window_t w[] = {W(1, 1, 2, 2), W(1, 1, 2, 2)};
  v_t kernel = dt_pad(t, x[1], none, high, 1);
  (void)dtype;
  for (int32_t k = 2; k < 4; k++) {
    dt_sym_t half = dt_sym_floordiv(t, dt_dim(t, x[1], k), two);
    kernel = dt_slice(t, kernel, k, zero, dt_sym_add(t, half, one), 1);
  }
  return dt_conv(t, x[0], kernel, w, 1);
}
// Four dims as five: the kernel's third is 2 x 2.
static v_t deep(dt_trace_t *t, v_t x) {
  dt_sym_t two = dt_sym_const(t, 2);
  return dt_reshape(t, x, 5,
                    (dt_sym_t[]){dt_dim(t, x, 0), dt_dim(t, x, 1), two, two, dt_dim(t, x, 3)});
}
static v_t cube(dt_trace_t *t, v_t x) {
  return dt_reshape(t, x, 5,
                    (dt_sym_t[]){dt_sym_const(t, 1), dt_dim(t, x, 0), dt_dim(t, x, 1),
                                 dt_dim(t, x, 2), dt_dim(t, x, 3)});
}
static v_t make_conv_cube(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  const dt_window_t w[] = {W(1, 1, 0, 0), W(2, 1, 1, 1), W(1, 2, 1, 2)};
  (void)dtype;
  return dt_conv(t, cube(t, x[0]), deep(t, x[1]), w, 1);
}
static v_t make_conv_cube_groups(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  const dt_window_t w[] = {W(1, 1, 0, 0), W(2, 1, 1, 1), W(1, 2, 1, 2)};
  (void)dtype;
  return dt_conv(t, cube(t, x[0]), deep(t, x[1]), w, 2);
}
static v_t make_conv_cube_depthwise(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  const dt_window_t w[] = {W(1, 1, 0, 0), W(2, 1, 1, 1), W(1, 2, 1, 2)};
  (void)dtype;
  return dt_conv(t, cube(t, x[0]), deep(t, x[1]), w, 4);
}

#define TRANSPOSED(id, groups, more, ...)                                                          \
  static v_t make_##id(dt_trace_t *t, in_t x, dt_dtype_t dtype) {                                  \
    dt_window_t w[] = {__VA_ARGS__};                                                               \
    w[0].extra = dt_sym_const(t, more);                                                            \
    (void)dtype;                                                                                   \
    return dt_conv_transpose(t, x[0], x[1], w, groups);                                            \
  }
TRANSPOSED(transposed, 1, 1, W(2, 1, 1, 0), W(1, 2, 1, 1))
TRANSPOSED(transposed_groups, 2, 3, W(3, 1, 2, 0), W(2, 1, 0, 0))
TRANSPOSED(transposed_depthwise, 4, 0, W(2, 1, 0, 0), W(2, 2, 1, 1))
TRANSPOSED(transposed_line, 1, 2, W(3, 1, 0, 0))

static v_t make_windows(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  const dt_sym_t two[2] = {dt_sym_const(t, 2), dt_sym_const(t, 2)};
  const dt_window_t w[2] = {window(t, 3, 2, 1, 0, 0), window(t, 2, 1, 2, 0, 0)};
  (void)dtype;
  return dt_windows(t, dt_pad(t, x[0], two, two, 1), 2, w);
}
static v_t make_windows_sum(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  return dt_sum(t, make_windows(t, x, dtype), 2, (int32_t[]){2, 3}, false);
}
static v_t make_overlap(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  const dt_window_t w[2] = {W(2, 1, 1, 0), W(1, 3, 2, 0)};
  dt_sym_t sizes[2] = {
      dt_sym_add(t, dt_sym_mul(t, dt_dim(t, x[0], 2), dt_sym_const(t, 2)), dt_sym_const(t, 3)),
      dt_sym_add(t, dt_dim(t, x[0], 3), dt_sym_const(t, 1))};
  (void)dtype;
  return dt_overlap_add(t, x[0], 2, w, sizes);
}

#define POOLS {window(t, 3, 2, 1, 2, 1), window(t, 2, 1, 2, 1, 2)}
static v_t make_max(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  const dt_window_t w[] = POOLS;
  (void)dtype;
  return dt_max_pool(t, x[0], w, 0, NULL);
}
static v_t make_max_places(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  const dt_window_t w[] = POOLS;
  v_t places;
  (void)dtype;
  (void)dt_max_pool(t, x[0], w, DT_POOL_CEIL, &places);
  return places;
}
static v_t make_max_columns(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  const dt_window_t w[] = POOLS;
  v_t places;
  (void)dtype;
  (void)dt_max_pool(t, x[0], w, DT_POOL_COLUMN_MAJOR, &places);
  return places;
}
static v_t make_max_after(dt_trace_t *t, in_t x, dt_dtype_t dtype) {
  return make_max(t, (v_t[]){dt_exp(t, x[0])}, dtype);
}
#define MEAN(id, flags)                                                                            \
  static v_t make_##id(dt_trace_t *t, in_t x, dt_dtype_t dtype) {                                  \
    const dt_window_t w[] = POOLS;                                                                 \
    (void)dtype;                                                                                   \
    return dt_avg_pool(t, x[0], w, flags);                                                         \
  }
MEAN(mean, 0)
MEAN(mean_ceil, DT_POOL_CEIL)
MEAN(mean_padding, DT_POOL_COUNT_PADDING)
MEAN(mean_padding_ceil, DT_POOL_COUNT_PADDING | DT_POOL_CEIL)
#define NORM(id, p)                                                                                \
  static v_t make_##id(dt_trace_t *t, in_t x, dt_dtype_t dtype) {                                  \
    const dt_window_t w[] = POOLS;                                                                 \
    (void)dtype;                                                                                   \
    return dt_lp_pool(t, x[0], w, DT_POOL_CEIL, p);                                                \
  }
NORM(norm_1, 1)
NORM(norm_2, 2)
NORM(norm_3, 3)

// ---- The table ------------------------------------------------------------------------------------
#define IMAGE 1, 4, DIM_M, DIM_N
#define CASE(op, form, dtypes, make, ...)                                                          \
  {"window",      op,    form,       dtypes, sizeof((input_t[]){__VA_ARGS__}) / sizeof(input_t),   \
   {__VA_ARGS__}, false, make_##make}

const case_t window_cases[] = {
    CASE("window", "", T_F32 | T_F16 | T_BOOL, windows, ANY(2, DIM_M, DIM_N)),
    CASE("window", "sum", T_F32, windows_sum, FINITE(2, DIM_M, DIM_N)),
    CASE("overlap_add", "exact", T_F64 | T_F16, overlap, SMALL(4, 3, 2, DIM_M, DIM_N)),
    CASE("overlap_add", "specials", T_F32, overlap, ANY(4, 3, 2, DIM_M, DIM_N)),
    CASE("conv", "exact", T_NUMBER, conv_same, SMALL(4, 1, 2, DIM_M, DIM_N), SMALL(4, 5, 2, 3, 3)),
    CASE("conv", "strided", T_FLOAT, conv_strided, FINITE(4, IMAGE), FINITE(4, 6, 4, 2, 3)),
    CASE("conv", "specials", T_F32, conv_strided, ANY(4, IMAGE), ANY(4, 6, 4, 2, 3)),
    CASE("conv", "of one element", T_F32, conv_plain, FINITE(4, IMAGE), FINITE(4, 6, 4, 1, 1)),
    CASE("conv", "few rows", T_F32, conv_same, SMALL(4, IMAGE), SMALL(4, 3, 4, 3, 3)),
    CASE("conv", "groups of few", T_F32, conv_groups, SMALL(4, IMAGE), SMALL(4, 6, 2, 2, 1)),
    CASE("conv", "groups", T_F32, conv_groups, SMALL(4, IMAGE), SMALL(4, 12, 2, 2, 1)),
    CASE("conv", "depthwise", T_F32 | T_F16, conv_depthwise, SMALL(4, IMAGE), SMALL(4, 4, 1, 2, 2)),
    CASE("conv", "depthwise twice", T_F32, conv_depthwise, SMALL(4, IMAGE), SMALL(4, 8, 1, 2, 2)),
    CASE("conv", "depthwise specials", T_F32, conv_depthwise, ANY(4, IMAGE), ANY(4, 4, 1, 2, 2)),
    CASE("conv", "bias", T_F32, conv_bias, SMALL(4, IMAGE), SMALL(4, 5, 4, 3, 3), SMALL(1, 5)),
    CASE("conv", "after", T_F32, conv_after, SMALL(4, IMAGE), SMALL(4, 5, 4, 3, 3)),
    CASE("conv", "both sizes", T_F32, conv_both, SMALL(4, 1, 2, DIM_M, DIM_N),
         SMALL(4, 5, 2, DIM_M, DIM_N)),
    CASE("conv", "line", T_F32, conv_line, SMALL(3, DIM_M, 4, DIM_N), SMALL(3, 5, 4, 3)),
    CASE("conv", "cube", T_F32, conv_cube, SMALL(4, 4, 3, DIM_M, DIM_N), SMALL(4, 5, 4, 4, 2)),
    CASE("conv", "cube groups", T_F32, conv_cube_groups, SMALL(4, 4, 3, DIM_M, DIM_N),
         SMALL(4, 10, 2, 4, 2)),
    CASE("conv", "cube depthwise", T_F32, conv_cube_depthwise, SMALL(4, 4, 3, DIM_M, DIM_N),
         SMALL(4, 4, 1, 4, 2)),
    {"window",
     "conv",
     "kernel of any size",
     T_F32,
     2,
     {SMALL(4, 1, 2, 4, DIM_N), SMALL(4, 5, 2, 2, DIM_M)},
     true,
     make_conv_sized},
    CASE("conv_transpose", "exact", T_F64, transposed, SMALL(4, 1, 2, DIM_M, DIM_N),
         SMALL(4, 2, 3, 3, 3)),
    CASE("conv_transpose", "floats", T_FLOAT, transposed, FINITE(4, IMAGE), FINITE(4, 4, 3, 3, 3)),
    CASE("conv_transpose", "specials", T_F32, transposed, ANY(4, IMAGE), ANY(4, 4, 3, 3, 3)),
    CASE("conv_transpose", "groups", T_F32, transposed_groups, SMALL(4, IMAGE),
         SMALL(4, 4, 3, 2, 3)),
    CASE("conv_transpose", "depthwise", T_F32, transposed_depthwise, SMALL(4, IMAGE),
         SMALL(4, 4, 1, 3, 3)),
    CASE("conv_transpose", "line", T_F32, transposed_line, SMALL(3, DIM_M, 4, DIM_N),
         SMALL(3, 4, 5, 2)),
    CASE("window", "max pool", T_NUMBER, max, ANY(4, IMAGE)),
    CASE("window", "max pool, places", T_F32 | T_F16, max_places, ANY(4, IMAGE)),
    CASE("window", "max pool, places by columns", T_F32, max_columns, SMALL(4, IMAGE)),
    CASE("window", "max pool after", T_F32, max_after, FINITE(4, IMAGE)),
    CASE("window", "mean pool", T_FLOAT, mean, FINITE(4, IMAGE)),
    CASE("window", "mean pool, ceil", T_F32, mean_ceil, FINITE(4, IMAGE)),
    CASE("window", "mean pool, padding", T_F32, mean_padding, ANY(4, IMAGE)),
    CASE("window", "mean pool, padding and ceil", T_F32, mean_padding_ceil, FINITE(4, IMAGE)),
    CASE("window", "norm pool 1", T_F32, norm_1, FINITE(4, IMAGE)),
    CASE("window", "norm pool 2", T_F32, norm_2, FINITE(4, IMAGE)),
    CASE("window", "norm pool 3", T_F32, norm_3, FINITE(4, IMAGE)),
};
const uint32_t n_window_cases = sizeof(window_cases) / sizeof(window_cases[0]);
