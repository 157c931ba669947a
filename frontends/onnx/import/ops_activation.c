// SPDX-License-Identifier: Apache-2.0
// Activations. Formulas of several ops compute halves in f32 and round once.
#include "frontends/onnx/import/compute.h"

// ---- Of one op --------------------------------------------------------------------------------------
#define UNARY(op, build)                                                                           \
  void dt__imp_make_##op(dt_imp_node_t *n) { dt__imp_out(n, 0, build(n->t, dt__imp_in(n, 0))); }
UNARY(Relu, dt_relu)
UNARY(Sigmoid, dt_sigmoid)
#undef UNARY

void dt__imp_make_Gelu(dt_imp_node_t *n) {
  bool tanh = dt__imp_str_is(n, "approximate", "none", "tanh");
  dt_value_t x = dt__imp_in(n, 0);
  dt__imp_out(n, 0, tanh ? dt_gelu_tanh(n->t, x) : dt_gelu(n->t, x));
}

const char *dt__imp_check_Gelu(dt_imp_node_t *n) {
  return dt__imp_str_is(n, "approximate", "none", "none") ||
                 dt__imp_str_is(n, "approximate", "none", "tanh")
             ? NULL
             : "attribute \"approximate\" is neither \"none\" nor \"tanh\"";
}

// ---- Formulas ---------------------------------------------------------------------------------------
// max(x, 0) + log(1 + e^-|x|), which does not overflow.
static dt_value_t softplus(dt_imp_node_t *n, dt_value_t x) {
  dt_trace_t *t = n->t;
  dt_value_t tail = dt_log1p(t, dt_exp(t, dt_neg(t, dt_abs(t, x))));
  return dt_add(t, dt_maximum(t, x, dt__imp_like(n, x, 0)), tail);
}

static dt_value_t clamped(dt_imp_node_t *n, dt_value_t x) { // to [0, 1]
  dt_value_t low = dt_maximum(n->t, x, dt__imp_like(n, x, 0));
  return dt_minimum(n->t, low, dt__imp_like(n, x, 1));
}

static dt_value_t is_above(dt_imp_node_t *n, dt_value_t x, double bound) {
  return dt_gt(n->t, x, dt__imp_like(n, x, bound));
}

static dt_value_t is_below(dt_imp_node_t *n, dt_value_t x, double bound) {
  return dt_lt(n->t, x, dt__imp_like(n, x, bound));
}

// Defaults are what the format's tables print, as an f32.
static double attr(dt_imp_node_t *n, const char *name, float otherwise) {
  return dt__imp_float(n, name, (double)otherwise);
}

static dt_value_t celu(dt_imp_node_t *n, dt_value_t x) {
  double alpha = attr(n, "alpha", 1.0F);
  dt_value_t a = dt__imp_like(n, x, alpha), zero = dt__imp_like(n, x, 0);
  dt_value_t low = dt_minimum(n->t, zero, dt_mul(n->t, a, dt_expm1(n->t, dt_div(n->t, x, a))));
  return dt_add(n->t, dt_maximum(n->t, x, zero), low);
}

static dt_value_t elu(dt_imp_node_t *n, dt_value_t x) {
  dt_value_t low = dt__imp_times(n, dt_expm1(n->t, x), attr(n, "alpha", 1.0F));
  return dt_where(n->t, is_below(n, x, 0), low, x);
}

static dt_value_t hard_sigmoid(dt_imp_node_t *n, dt_value_t x) {
  return clamped(
      n, dt__imp_plus(n, dt__imp_times(n, x, attr(n, "alpha", 0.2F)), attr(n, "beta", 0.5F)));
}

static dt_value_t hard_swish(dt_imp_node_t *n, dt_value_t x) {
  dt_value_t sixth = dt_div(n->t, x, dt__imp_like(n, x, 6));
  return dt_mul(n->t, x, clamped(n, dt__imp_plus(n, sixth, 0.5)));
}

static dt_value_t leaky_relu(dt_imp_node_t *n, dt_value_t x) {
  return dt_where(n->t, is_below(n, x, 0), dt__imp_times(n, x, attr(n, "alpha", 0.01F)), x);
}

static dt_value_t mish(dt_imp_node_t *n, dt_value_t x) {
  return dt_mul(n->t, x, dt_tanh(n->t, softplus(n, x)));
}

// Operator set 6 gave the constants more digits.
static dt_value_t selu(dt_imp_node_t *n, dt_value_t x) {
  double alpha = attr(n, "alpha", n->opset < 6 ? 1.6732F : 1.67326319217681884765625F);
  double gamma = attr(n, "gamma", n->opset < 6 ? 1.0507F : 1.05070102214813232421875F);
  dt_value_t low = dt__imp_times(n, dt_expm1(n->t, x), alpha);
  return dt__imp_times(n, dt_where(n->t, is_above(n, x, 0), x, low), gamma);
}

static dt_value_t softsign(dt_imp_node_t *n, dt_value_t x) {
  return dt_div(n->t, x, dt__imp_plus(n, dt_abs(n->t, x), 1));
}

static dt_value_t swish(dt_imp_node_t *n, dt_value_t x) {
  return dt_mul(n->t, x, dt_sigmoid(n->t, dt__imp_times(n, x, attr(n, "alpha", 1.0F))));
}

static dt_value_t thresholded_relu(dt_imp_node_t *n, dt_value_t x) {
  return dt_where(n->t, is_above(n, x, attr(n, "alpha", 1.0F)), x, dt__imp_like(n, x, 0));
}

#define FORMULA(op, build)                                                                         \
  void dt__imp_make_##op(dt_imp_node_t *n) {                                                       \
    dt__imp_out_as(n, 0, build(n, dt__imp_in_wide(n, 0)), dt__imp_dtype(n, 0));                    \
  }
FORMULA(Celu, celu)
FORMULA(Elu, elu)
FORMULA(HardSigmoid, hard_sigmoid)
FORMULA(HardSwish, hard_swish)
FORMULA(LeakyRelu, leaky_relu)
FORMULA(Mish, mish)
FORMULA(Selu, selu)
FORMULA(Softplus, softplus)
FORMULA(Softsign, softsign)
FORMULA(Swish, swish)
FORMULA(ThresholdedRelu, thresholded_relu)
#undef FORMULA

// A gate and what it lets through.
void dt__imp_make_SwiGLU(dt_imp_node_t *n) {
  dt_value_t gate = swish(n, dt__imp_in_wide(n, 0));
  dt__imp_out_as(n, 0, dt_mul(n->t, gate, dt__imp_in_wide(n, 1)), dt__imp_dtype(n, 0));
}

// Integers are shrunk as f64.
void dt__imp_make_Shrink(dt_imp_node_t *n) {
  dt_dtype_t dtype = dt__imp_dtype(n, 0);
  double bias = attr(n, "bias", 0.0F), bound = attr(n, "lambd", 0.5F);
  dt_value_t x = dt__imp_in_wide(n, 0);
  if (!dt__imp_is_float(dtype))
    x = dt_cast(n->t, x, DT_F64);
  dt_value_t high =
      dt_where(n->t, is_above(n, x, bound), dt__imp_plus(n, x, -bias), dt__imp_like(n, x, 0));
  dt__imp_out_as(n, 0, dt_where(n->t, is_below(n, x, -bound), dt__imp_plus(n, x, bias), high),
                 dtype);
}

void dt__imp_make_PRelu(dt_imp_node_t *n) {
  dt_value_t x = dt__imp_in_wide(n, 0), slope = dt__imp_in_wide(n, 1);
  dt_value_t low = dt_mul(n->t, x, slope);
  dt__imp_out_as(n, 0, dt_where(n->t, dt_lt(n->t, x, dt__imp_like(n, x, 0)), low, x),
                 dt__imp_dtype(n, 0));
}

// ---- Along an axis ----------------------------------------------------------------------------------
static dt_value_t hardmax(dt_trace_t *t, dt_value_t x, int32_t axis) {
  dt_sym_t sizes[DT_MAX_RANK];
  uint32_t rank = dt_value_rank(t, x);
  for (uint32_t k = 0; k < rank; k++)
    sizes[k] = dt_dim(t, x, (int32_t)k);
  dt_value_t index = dt_iota(t, DT_I64, rank, sizes, axis);
  return dt_cast(t, dt_eq(t, index, dt_argmax(t, x, axis, true)), dt_value_dtype(t, x));
}

typedef dt_value_t (*axis_fn_t)(dt_trace_t *t, dt_value_t x, int32_t axis);

// Dims from the axis on count as one.
static dt_value_t along_flattened(dt_imp_node_t *n, dt_value_t x, axis_fn_t fn) {
  dt_sym_t sizes[DT_MAX_RANK], flat[2] = {dt_sym_const(n->t, 1), dt_sym_const(n->t, 1)};
  uint32_t rank = dt__imp_rank(n, 0);
  int64_t given = dt__imp_int(n, "axis", 1);
  int64_t axis = given == rank ? given : (int32_t)dt__imp_dim_of(n, given, rank);
  if (dt__imp_failed(n))
    return x;
  for (uint32_t k = 0; k < rank; k++) {
    sizes[k] = dt_dim(n->t, x, (int32_t)k);
    flat[k >= axis] = dt_sym_mul(n->t, flat[k >= axis], sizes[k]);
  }
  return axis + 1 == rank
             ? fn(n->t, x, (int32_t)axis)
             : dt_reshape(n->t, fn(n->t, dt_reshape(n->t, x, 2, flat), 1), rank, sizes);
}

// x is of input 0's shape.
static dt_value_t along(dt_imp_node_t *n, dt_value_t x, int64_t opset, axis_fn_t fn) {
  if (opset < 13)
    return along_flattened(n, x, fn);
  int32_t axis = (int32_t)dt__imp_dim_of(n, dt__imp_int(n, "axis", -1), dt__imp_rank(n, 0));
  return dt__imp_failed(n) ? x : fn(n->t, x, axis);
}

dt_value_t dt__imp_softmax(dt_imp_node_t *n, dt_value_t x, int64_t opset) {
  return along(n, x, opset, dt_softmax);
}

#define ALONG(op, build)                                                                           \
  void dt__imp_make_##op(dt_imp_node_t *n) {                                                       \
    dt__imp_out(n, 0, along(n, dt__imp_in(n, 0), n->opset, build));                                \
  }
ALONG(Hardmax, hardmax)
ALONG(LogSoftmax, dt_log_softmax)
ALONG(Softmax, dt_softmax)
#undef ALONG
