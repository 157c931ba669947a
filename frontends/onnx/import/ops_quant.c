// SPDX-License-Identifier: Apache-2.0
// Quantised arithmetic: integers that stand for (integer - zero point) * scale.
#include "frontends/onnx/import/compute.h"
#include "frontends/onnx/import/conv.h"
#include "frontends/onnx/import/known.h"
#include "frontends/onnx/import/windows.h"

#include "runtime/base/dtype.h"

// All elements of input k are this number.
static bool is_all(dt_imp_node_t *n, uint32_t k, int64_t *out) {
  const dt_imp_known_t *known = dt__imp_known(n, k);
  bool same = known && known->n > 0 && dt__imp_is_literal(n, known->items[0].sym, out);
  for (uint32_t i = 1; same && i < known->n; i++) {
    int64_t other = 0;
    same = dt__imp_is_literal(n, known->items[i].sym, &other) && other == *out;
  }
  return same;
}

// Whether input k is there and is not 0 everywhere: what is added to integers alone.
static bool has_zero_point(dt_imp_node_t *n, uint32_t k) {
  int64_t all = 0;
  return dt__imp_has(n, k) && !(is_all(n, k, &all) && all == 0);
}

// ---- Scales and zero points over a tensor -----------------------------------------------------------
// Element i of input `v` along `axis` serves elements i * block … of x.
static dt_value_t over_blocks(dt_imp_node_t *n, dt_value_t v, dt_value_t x, int32_t axis,
                              int64_t block) {
  dt_sym_t size = dt_dim(n->t, x, axis);
  dt_value_t index = dt_iota(n->t, DT_I64, 1, &size, 0);
  return dt_gather(n->t, v, dt_div(n->t, index, dt_scalar(n->t, DT_I64, (double)block)), axis);
}

// A scale or a zero point so that it broadcasts against x: one for all, one for each index of the
// attribute's axis, or one for each block along it. A zero point beside one scale is one, too.
static dt_value_t spread(dt_imp_node_t *n, uint32_t k, dt_value_t x) {
  dt_value_t v = dt__imp_scalar(n, dt__imp_in(n, k));
  int64_t block = dt__imp_int(n, "block_size", 0);
  if (dt__imp_failed(n) || dt_value_rank(n->t, v) == 0)
    return v;
  if (k == 2 && dt_value_rank(n->t, dt__imp_in(n, 1)) == 0)
    return dt_reshape(n->t, v, 0, NULL);
  uint32_t rank = dt_value_rank(n->t, x), given = dt_value_rank(n->t, v);
  int32_t axis = (int32_t)dt__imp_dim_of(n, dt__imp_int(n, "axis", 1), rank);
  if (block > 0 && given == rank)
    return over_blocks(n, v, x, axis, block);
  if (block != 0 || given != 1)
    dt__imp_fail(n, DT_E_SHAPE, "input %u has rank %u, the tensor rank %u, blocks %lld elements", k,
                 given, rank, (long long)block);
  for (uint32_t i = (uint32_t)axis + 1; i < rank; i++)
    v = dt_unsqueeze(n->t, v, -1);
  return v;
}

// ---- To integers ------------------------------------------------------------------------------------
static bool range_of(dt_imp_node_t *n, dt_dtype_t dtype, double *low, double *high) {
  static const struct {
    dt_dtype_t dtype;
    double low, high;
  } ranges[] = {{DT_U8, 0, 255}, {DT_I8, -128, 127}, {DT_U16, 0, 65535}, {DT_I16, -32768, 32767},
                {DT_U4, 0, 15},  {DT_I4, -8, 7},     {DT_U2, 0, 3},      {DT_I2, -2, 1}};
  for (uint32_t k = 0; k < sizeof(ranges) / sizeof(ranges[0]); k++)
    if (ranges[k].dtype == dtype) {
      *low = ranges[k].low;
      *high = ranges[k].high;
      return true;
    }
  dt__imp_fail(n, DT_E_UNSUPPORTED, "quantised integers of type %s", dt_dtype_name(dtype));
  return false;
}

// round(x) + zero, saturated. `zero` of id 0: none.
static dt_value_t saturated(dt_imp_node_t *n, dt_value_t x, dt_value_t zero, dt_dtype_t dtype) {
  double low = 0, high = 0;
  if (dt__imp_failed(n) || !range_of(n, dtype, &low, &high))
    return x;
  x = dt_round(n->t, dt__imp_widen(n, x));
  if (zero.id)
    x = dt_add(n->t, x, dt_cast(n->t, zero, dt_value_dtype(n->t, x)));
  x = dt_maximum(n->t, x, dt__imp_like(n, x, low));
  x = dt_minimum(n->t, x, dt__imp_like(n, x, high));
  return dt_cast(n->t, x, dtype);
}

// An attribute of a type where 0 says nothing.
static dt_dtype_t optional_dtype(dt_imp_node_t *n, const char *name, dt_dtype_t otherwise) {
  return dt__imp_int(n, name, 0) == 0 ? otherwise : dt__imp_attr_dtype(n, name, otherwise);
}

const char *dt__imp_check_quantised(dt_imp_node_t *n) {
  if (optional_dtype(n, "output_dtype", DT_U8) == DT_DTYPE_NONE)
    return "an output of an element type that is not supported";
  return optional_dtype(n, "precision", DT_F32) == DT_DTYPE_NONE
             ? "arithmetic of an element type that is not supported"
             : NULL;
}

// Their zero point is 0.
static bool is_low_float(dt_dtype_t dtype) {
  return dt__dtype_is_low(dtype) && dt__dtype_is_float(dtype);
}

void dt__imp_make_QuantizeLinear(dt_imp_node_t *n) {
  dt_value_t x = dt__imp_in(n, 0), zero = {0}, scale = spread(n, 1, x);
  dt_dtype_t to =
      dt__imp_has(n, 2) ? dt__imp_dtype(n, 2) : optional_dtype(n, "output_dtype", DT_U8);
  // An i32 has more digits than an f32.
  dt_dtype_t otherwise = dt__imp_is_float(dt__imp_dtype(n, 0)) ? dt__imp_dtype(n, 1) : DT_F64;
  dt_dtype_t in = optional_dtype(n, "precision", otherwise);
  if (has_zero_point(n, 2))
    zero = spread(n, 2, x);
  if (dt__imp_failed(n))
    return;
  dt_value_t ratio = dt_div(n->t, dt_cast(n->t, x, in), dt_cast(n->t, scale, in));
  dt__imp_out(n, 0,
              is_low_float(to) ? dt_cast_as(n->t, ratio, to, dt__imp_cast_how(n))
                               : saturated(n, ratio, zero, to));
}

void dt__imp_make_DynamicQuantizeLinear(dt_imp_node_t *n) {
  dt_trace_t *t = n->t;
  dt_value_t x = dt__imp_in(n, 0), zero = dt__imp_like(n, x, 0);
  dt_value_t high = dt_maximum(t, zero, dt_amax(t, x, 0, NULL, false));
  dt_value_t low = dt_minimum(t, zero, dt_amin(t, x, 0, NULL, false));
  dt_value_t width = dt_sub(t, high, low), one = dt__imp_like(n, x, 1);
  dt_value_t some = dt_where(t, dt_eq(t, width, zero), one, width);
  dt_value_t scale = dt_div(t, some, dt__imp_like(n, x, 255));
  dt_value_t none = {0};
  dt_value_t at = saturated(n, dt_div(t, dt_neg(t, low), scale), none, DT_U8);
  dt__imp_out(n, 0, saturated(n, dt_div(t, x, scale), at, DT_U8));
  dt__imp_out(n, 1, scale);
  dt__imp_out(n, 2, at);
}

// ---- From integers ----------------------------------------------------------------------------------
void dt__imp_make_DequantizeLinear(dt_imp_node_t *n) {
  dt_value_t q = dt__imp_in(n, 0), scale = dt_cast(n->t, spread(n, 1, q), DT_F32);
  dt_dtype_t to = optional_dtype(n, "output_dtype", dt__imp_dtype(n, 1));
  dt_value_t x = dt_cast(n->t, q, DT_F32);
  int64_t all = 0;
  bool same = !dt__imp_has(n, 2) || is_all(n, 2, &all);
  if (!same)
    x = dt_sub(n->t, x, dt_cast(n->t, spread(n, 2, q), DT_F32));
  else if (all)
    x = dt_sub(n->t, x, dt_scalar(n->t, DT_F32, (double)all));
  dt__imp_out_as(n, 0, dt_mul(n->t, x, scale), to);
}

// ---- Products ---------------------------------------------------------------------------------------
// A parameter of a product's left side: one, one a row, or with the rows' dims and a 1.
static dt_value_t of_rows(dt_imp_node_t *n, uint32_t k) {
  dt_value_t v = dt__imp_scalar(n, dt__imp_in(n, k));
  return !dt__imp_failed(n) && dt_value_rank(n->t, v) == 1 ? dt_unsqueeze(n->t, v, -1) : v;
}

// Of its right side: one, one a column, or with a 1 and the columns.
static dt_value_t of_columns(dt_imp_node_t *n, uint32_t k) {
  return dt__imp_scalar(n, dt__imp_in(n, k));
}

typedef dt_value_t (*side_fn_t)(dt_imp_node_t *n, uint32_t k);

static dt_value_t centred(dt_imp_node_t *n, uint32_t k, uint32_t zero, side_fn_t side) {
  dt_value_t x = dt_cast(n->t, dt__imp_in(n, k), DT_I32);
  int64_t all = 0;
  if (!dt__imp_has(n, zero) || dt__imp_failed(n))
    return x;
  if (!is_all(n, zero, &all))
    return dt_sub(n->t, x, dt_cast(n->t, side(n, zero), DT_I32));
  return all ? dt_sub(n->t, x, dt_scalar(n->t, DT_I32, (double)all)) : x;
}

void dt__imp_make_MatMulInteger(dt_imp_node_t *n) {
  dt_value_t a = centred(n, 0, 2, of_rows), b = centred(n, 1, 3, of_columns);
  dt__imp_out(n, 0, dt_matmul(n->t, a, b));
}

void dt__imp_make_QLinearMatMul(dt_imp_node_t *n) {
  dt_value_t a = centred(n, 0, 2, of_rows), b = centred(n, 3, 5, of_columns);
  dt_value_t left = dt_cast(n->t, of_rows(n, 1), DT_F32);
  dt_value_t right = dt_cast(n->t, of_columns(n, 4), DT_F32);
  dt_value_t made = dt_cast(n->t, of_rows(n, 6), DT_F32);
  dt_value_t scale = dt_div(n->t, dt_mul(n->t, left, right), made);
  dt_value_t x = dt_cast(n->t, dt_matmul(n->t, a, b), DT_F32);
  dt__imp_out(n, 0, saturated(n, dt_mul(n->t, x, scale), of_rows(n, 7), dt__imp_dtype(n, 7)));
}

// ---- Convolutions -----------------------------------------------------------------------------------
// A parameter of kernels: one, or one for each.
static dt_value_t of_kernels(dt_imp_node_t *n, uint32_t k) {
  dt_value_t v = dt__imp_scalar(n, dt__imp_in(n, k));
  uint32_t rank = dt__imp_rank(n, 0);
  if (dt__imp_failed(n) || dt_value_rank(n->t, v) == 0)
    return v;
  return dt__imp_trailing(n, v, rank > 1 ? rank - 1 : 0);
}

static dt_value_t of_all(dt_imp_node_t *n, uint32_t k) {
  return dt__imp_scalar(n, dt__imp_in(n, k));
}

// Padding is of zero points, so zeros of what is centred.
void dt__imp_make_ConvInteger(dt_imp_node_t *n) {
  dt_value_t x = centred(n, 0, 2, of_all), w = centred(n, 1, 3, of_kernels);
  dt__imp_out(n, 0, dt__imp_convolve(n, x, w));
}

void dt__imp_make_QLinearConv(dt_imp_node_t *n) {
  uint32_t rank = dt__imp_rank(n, 0);
  dt_value_t x = centred(n, 0, 2, of_all), w = centred(n, 3, 5, of_kernels);
  dt_value_t sum = dt__imp_add_bias(n, dt__imp_convolve(n, x, w), 8, rank);
  dt_value_t kernels = of_all(n, 4);
  if (!dt__imp_failed(n) && dt_value_rank(n->t, kernels) == 1)
    kernels = dt__imp_per_channel(n, kernels, rank);
  dt_value_t scale = dt_div(n->t, dt_mul(n->t, of_all(n, 1), kernels), of_all(n, 6));
  dt_value_t y = dt_mul(n->t, dt_cast(n->t, sum, DT_F32), scale), zero = {0};
  if (has_zero_point(n, 7))
    zero = of_all(n, 7);
  dt__imp_out(n, 0, saturated(n, y, zero, dt__imp_dtype(n, 7)));
}

// ---- com.microsoft ----------------------------------------------------------------------------------
// Input k with its scale and zero point behind it, as f32.
static dt_value_t real_of(dt_imp_node_t *n, uint32_t k) {
  dt_value_t x = dt_cast(n->t, dt__imp_in(n, k), DT_F32);
  if (dt__imp_has(n, k + 2))
    x = dt_sub(n->t, x, dt_cast(n->t, of_all(n, k + 2), DT_F32));
  return dt_mul(n->t, x, dt_cast(n->t, of_all(n, k + 1), DT_F32));
}

// Sets the output, with its scale in input k and its zero point behind that.
static void quantised(dt_imp_node_t *n, dt_value_t x, uint32_t k, dt_dtype_t dtype) {
  dt_value_t zero = {0}, scaled = dt_div(n->t, x, dt_cast(n->t, of_all(n, k), DT_F32));
  if (has_zero_point(n, k + 1))
    zero = of_all(n, k + 1);
  dt__imp_out(n, 0, saturated(n, scaled, zero, dtype));
}

// Input k less its zero point, times how many of the result's steps one of its steps is. The
// contribution's text leaves open where sums are rounded; onnxruntime takes these ratios.
static dt_value_t steps_of(dt_imp_node_t *n, uint32_t k, uint32_t result) {
  dt_value_t x = dt_cast(n->t, dt__imp_in(n, k), DT_F32);
  if (dt__imp_has(n, k + 2))
    x = dt_sub(n->t, x, dt_cast(n->t, of_all(n, k + 2), DT_F32));
  dt_value_t own = dt_cast(n->t, of_all(n, k + 1), DT_F32);
  return dt_mul(n->t, x, dt_div(n->t, own, dt_cast(n->t, of_all(n, result), DT_F32)));
}

void dt__imp_make_QLinearAdd(dt_imp_node_t *n) {
  dt_value_t zero = {0}, sum = dt_add(n->t, steps_of(n, 0, 6), steps_of(n, 3, 6));
  if (has_zero_point(n, 7))
    zero = of_all(n, 7);
  dt__imp_out(n, 0, saturated(n, sum, zero, dt__imp_dtype(n, 0)));
}

void dt__imp_make_QLinearMul(dt_imp_node_t *n) {
  quantised(n, dt_mul(n->t, real_of(n, 0), real_of(n, 3)), 6, dt__imp_dtype(n, 0));
}

void dt__imp_make_QLinearSigmoid(dt_imp_node_t *n) {
  quantised(n, dt_sigmoid(n->t, real_of(n, 0)), 3, dt__imp_dtype(n, 0));
}

void dt__imp_make_QLinearLeakyRelu(dt_imp_node_t *n) {
  dt_value_t x = real_of(n, 0), zero = dt__imp_like(n, x, 0);
  dt_value_t low = dt__imp_times(n, x, dt__imp_float(n, "alpha", (double)0.01F));
  quantised(n, dt_where(n->t, dt_lt(n->t, x, zero), low, x), 3, dt__imp_dtype(n, 0));
}

void dt__imp_make_QLinearSoftmax(dt_imp_node_t *n) {
  dt_value_t made = dt__imp_softmax(n, real_of(n, 0), dt__imp_int(n, "opset", 13));
  quantised(n, made, 3, dt__imp_dtype(n, 0));
}

const char *dt__imp_check_QLinearAveragePool(dt_imp_node_t *n) {
  return dt__imp_int(n, "channels_last", 0) ? "channels that come last" : dt__imp_check_pool(n);
}

void dt__imp_make_QLinearAveragePool(dt_imp_node_t *n) {
  quantised(n, dt__imp_average(n, real_of(n, 0)), 3, dt__imp_dtype(n, 0));
}

void dt__imp_make_QLinearGlobalAveragePool(dt_imp_node_t *n) {
  int32_t axes[DT_MAX_RANK];
  uint32_t rank = dt__imp_rank(n, 0);
  bool last = dt__imp_int(n, "channels_last", 0) != 0;
  uint32_t count = rank > 2 ? dt__imp_axes_from(last ? 1 : 2, last ? rank - 1 : rank, axes) : 0;
  dt_value_t x = real_of(n, 0);
  quantised(n, count ? dt_mean(n->t, x, count, axes, true) : x, 3, dt__imp_dtype(n, 0));
}

void dt__imp_make_QLinearConcat(dt_imp_node_t *n) {
  uint32_t len = (dt__imp_n_in(n) - 2) / 3;
  dt_value_t *parts = DT_IMP_ARRAY(n, dt_value_t, len);
  for (uint32_t k = 0; parts && k < len; k++)
    parts[k] = real_of(n, 2 + 3 * k);
  uint32_t axis = dt__imp_dim_of(n, dt__imp_int(n, "axis", 0), dt__imp_rank(n, 2));
  if (parts && len > 0)
    quantised(n, dt_concat(n->t, len, parts, (int32_t)axis), 0, dt__imp_dtype(n, 1));
}

// The bias is in units of both scales.
void dt__imp_make_QGemm(dt_imp_node_t *n) {
  // Zero points are a column's of the product, so a row's of what is transposed.
  bool turned = dt__imp_int(n, "transB", 0) != 0;
  dt_value_t a = centred(n, 0, 2, of_all), b = centred(n, 3, 5, turned ? of_rows : of_columns);
  if (dt__imp_int(n, "transA", 0))
    a = dt_transpose(n->t, a, 0, 1);
  if (turned)
    b = dt_transpose(n->t, b, 0, 1);
  dt_value_t sum = dt_matmul(n->t, a, b);
  if (dt__imp_has(n, 6))
    sum = dt_add(n->t, sum, dt__imp_in(n, 6));
  dt_value_t scale = dt_mul(n->t, of_all(n, 1), of_columns(n, 4));
  scale = dt__imp_times(n, scale, dt__imp_float(n, "alpha", 1));
  dt_value_t y = dt_mul(n->t, dt_cast(n->t, sum, DT_F32), scale);
  if (dt__imp_has(n, 7))
    quantised(n, y, 7, dt__imp_dtype(n, dt__imp_has(n, 8) ? 8 : 0));
  else
    dt__imp_out(n, 0, y);
}
