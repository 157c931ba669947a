// SPDX-License-Identifier: Apache-2.0
// Fused operators of com.microsoft, as ONNX Runtime's exporters write them for transformers:
// normalisation, activations, products. Attention: ops_ms_attention.c.
#include "frontends/onnx/import/conv.h"

// ---- Normalisation ----------------------------------------------------------------------------------
static dt_value_t added(dt_imp_node_t *n, dt_value_t x, uint32_t k) {
  return dt__imp_has(n, k) ? dt_add(n->t, x, dt__imp_in(n, k)) : x;
}

static dt_value_t zeros_like(dt_imp_node_t *n, dt_value_t x) {
  dt_sym_t sizes[DT_MAX_RANK];
  uint32_t rank = dt__imp_shape(n, x, sizes);
  return dt_full(n->t, dt__imp_failed(n) ? DT_F32 : dt_value_dtype(n->t, x), 0.0, rank, sizes);
}

// Statistics that only training reads.
const char *dt__imp_check_skip_norm(dt_imp_node_t *n) {
  return dt__imp_wants(n, 1) || dt__imp_wants(n, 2) ? "outputs 1 and 2 are not supported" : NULL;
}

void dt__imp_make_SkipLayerNormalization(dt_imp_node_t *n) {
  dt_value_t x = dt_add(n->t, dt__imp_in(n, 0), dt__imp_in(n, 1)), scale = dt__imp_in(n, 2);
  x = added(n, x, 4);
  dt_value_t bias = dt__imp_has(n, 3) ? dt__imp_in(n, 3) : zeros_like(n, scale);
  dt__imp_out(n, 0, dt_layer_norm(n->t, x, scale, bias, dt__imp_float(n, "epsilon", 1e-12F)));
  dt__imp_out(n, 3, x);
}

void dt__imp_make_SkipSimplifiedLayerNormalization(dt_imp_node_t *n) {
  dt_value_t x = dt_add(n->t, dt__imp_in(n, 0), dt__imp_in(n, 1)), scale = dt__imp_in(n, 2);
  x = added(n, x, 3);
  dt__imp_out(n, 0, dt_rms_norm(n->t, x, scale, dt__imp_float(n, "epsilon", 1e-12F)));
  dt__imp_out(n, 3, x);
}

const char *dt__imp_check_SimplifiedLayerNormalization(dt_imp_node_t *n) {
  return dt__imp_wants(n, 1) ? "output 1 is not supported" : NULL;
}

void dt__imp_make_SimplifiedLayerNormalization(dt_imp_node_t *n) {
  dt_value_t x = dt__imp_in(n, 0), scale = dt__imp_in(n, 1);
  uint32_t rank = dt__imp_rank(n, 0);
  uint32_t axis = dt__imp_dim_of(n, dt__imp_int(n, "axis", -1), rank);
  if (dt__imp_rank(n, 1) != rank - axis && !dt__imp_failed(n))
    dt__imp_fail(n, DT_E_SHAPE, "input 1 has rank %u; %u dims are normalised", dt__imp_rank(n, 1),
                 rank - axis);
  dt_dtype_t dtype = dt__imp_dtype(n, 1);
  x = dt__imp_as(n, x, dtype);
  dt__imp_out(n, 0, dt_rms_norm(n->t, x, scale, dt__imp_float(n, "epsilon", 1e-5F)));
}

// Rows of a table of positions: those given, or 0, 1, ….
static dt_value_t positions(dt_imp_node_t *n, dt_value_t ids) {
  dt_value_t table = dt__imp_in(n, 3);
  if (dt__imp_has(n, 8))
    return dt_gather(n->t, table, dt__imp_in(n, 8), 0);
  return dt_slice(n->t, table, 0, dt__imp_lit(n, 0), dt_dim(n->t, ids, 1), 1);
}

void dt__imp_make_EmbedLayerNormalization(dt_imp_node_t *n) {
  const int32_t last = -1;
  dt_value_t ids = dt__imp_in(n, 0), scale = dt__imp_in(n, 5), bias = dt__imp_in(n, 6);
  dt_value_t x = dt_add(n->t, dt_gather(n->t, dt__imp_in(n, 2), ids, 0), positions(n, ids));
  if (dt__imp_has(n, 1) && dt__imp_has(n, 4))
    x = dt_add(n->t, x, dt_gather(n->t, dt__imp_in(n, 4), dt__imp_in(n, 1), 0));
  dt__imp_out(n, 0, dt_layer_norm(n->t, x, scale, bias, dt__imp_float(n, "epsilon", 1e-12F)));
  if (dt__imp_wants(n, 1) && dt__imp_has(n, 7)) {
    dt__imp_out(n, 1, dt_sum(n->t, dt__imp_in(n, 7), 1, &last, false));
  } else if (dt__imp_wants(n, 1) && !dt__imp_failed(n)) {
    dt_sym_t batch = dt_dim(n->t, ids, 0);
    dt__imp_out(n, 1, dt_full(n->t, DT_I32, 0.0, 1, &batch));
  }
  dt__imp_out(n, 2, x);
}

// ---- Activations ------------------------------------------------------------------------------------
void dt__imp_make_FastGelu(dt_imp_node_t *n) {
  dt__imp_out(n, 0, dt_gelu_tanh(n->t, added(n, dt__imp_in(n, 0), 1)));
}

void dt__imp_make_BiasGelu(dt_imp_node_t *n) {
  dt__imp_out(n, 0, dt_gelu(n->t, added(n, dt__imp_in(n, 0), 1)));
}

void dt__imp_make_QuickGelu(dt_imp_node_t *n) {
  dt_value_t x = dt__imp_in(n, 0);
  dt_value_t steep = dt__imp_times(n, x, dt__imp_float(n, "alpha", 1.702F));
  dt__imp_out(n, 0, dt_mul(n->t, x, dt_sigmoid(n->t, steep)));
}

// The first half of the last dim times the gelu of the second.
void dt__imp_make_BiasSplitGelu(dt_imp_node_t *n) {
  dt_value_t x = added(n, dt__imp_in(n, 0), 1);
  if (dt__imp_failed(n))
    return;
  dt_sym_t half = dt_sym_exactdiv(n->t, dt_dim(n->t, x, -1), dt__imp_lit(n, 2));
  dt_value_t left = dt_slice(n->t, x, -1, dt__imp_lit(n, 0), half, 1);
  dt_value_t right = dt_slice(n->t, x, -1, half, half, 1);
  dt__imp_out(n, 0, dt_mul(n->t, left, dt_gelu(n->t, right)));
}

typedef enum activation_t {
  RELU,
  LEAKY_RELU,
  CLIP,
  TANH,
  SIGMOID,
  HARD_SIGMOID,
  HARD_SWISH,
  NONE
} activation_t;
static const char *const activations[] = {"Relu",    "LeakyRelu",   "Clip",      "Tanh",
                                          "Sigmoid", "HardSigmoid", "HardSwish", ""};

static int find_activation(dt_imp_node_t *n) {
  for (int k = RELU; k <= NONE; k++)
    if (dt__imp_str_is(n, "activation", "", activations[k]))
      return k;
  return -1;
}

static dt_value_t hard_sigmoid(dt_imp_node_t *n, dt_value_t x, double a, double b) {
  x = dt__imp_plus(n, dt__imp_times(n, x, a), b);
  return dt_minimum(n->t, dt_maximum(n->t, x, dt__imp_like(n, x, 0.0)), dt__imp_like(n, x, 1.0));
}

static dt_value_t activated(dt_imp_node_t *n, dt_value_t x, const char *params) {
  dt_imp_reals_t given = {0};
  double a = 0.0, b = 0.0;
  if (dt__imp_attr_floats(n, params, &given)) {
    a = given.len > 0 ? given.items[0] : 0.0;
    b = given.len > 1 ? given.items[1] : 0.0;
  }
  dt_value_t zero = dt__imp_like(n, x, 0.0);
  switch ((activation_t)find_activation(n)) {
  case RELU:
    return dt_relu(n->t, x);
  case LEAKY_RELU:
    return dt_where(n->t, dt_lt(n->t, x, zero), dt__imp_times(n, x, a), x);
  case CLIP:
    return dt_minimum(n->t, dt_maximum(n->t, x, dt__imp_like(n, x, a)), dt__imp_like(n, x, b));
  case TANH:
    return dt_tanh(n->t, x);
  case SIGMOID:
    return dt_sigmoid(n->t, x);
  case HARD_SIGMOID:
    return hard_sigmoid(n, x, a, b);
  case HARD_SWISH:
    return dt_mul(n->t, x, hard_sigmoid(n, x, 1.0 / 6.0, 0.5));
  case NONE:
  default:
    return x;
  }
}

// ---- Products ---------------------------------------------------------------------------------------
const char *dt__imp_check_FusedConv(dt_imp_node_t *n) {
  return find_activation(n) < 0 ? "attribute \"activation\" has a value that is not supported"
                                : dt__imp_check_windows(n);
}

void dt__imp_make_FusedConv(dt_imp_node_t *n) {
  dt_value_t y = dt__imp_convolve(n, dt__imp_in(n, 0), dt__imp_in(n, 1));
  y = added(n, dt__imp_add_bias(n, y, 2, dt__imp_rank(n, 0)), 3);
  dt__imp_out(n, 0, activated(n, y, "activation_params"));
}

// Dim 0 goes in front of the last one, and the last two change places.
static dt_value_t turned(dt_imp_node_t *n, dt_value_t x, const char *batch, const char *swap) {
  int32_t axes[DT_MAX_RANK];
  uint32_t rank = dt__imp_failed(n) ? 0 : dt_value_rank(n->t, x);
  if (rank < 2)
    return x;
  for (uint32_t k = 0; k < rank; k++)
    axes[k] = (int32_t)k;
  for (uint32_t k = 0; dt__imp_int(n, batch, 0) && k + 1 < rank; k++)
    axes[k] = k + 2 < rank ? (int32_t)k + 1 : 0;
  if (dt__imp_int(n, swap, 0)) {
    int32_t last = axes[rank - 1];
    axes[rank - 1] = axes[rank - 2];
    axes[rank - 2] = last;
  }
  return dt_permute(n->t, x, axes);
}

void dt__imp_make_FusedMatMul(dt_imp_node_t *n) {
  dt_value_t a = turned(n, dt__imp_in(n, 0), "transBatchA", "transA");
  dt_value_t b = turned(n, dt__imp_weights(n, 1), "transBatchB", "transB");
  dt__imp_out(n, 0, dt__imp_times(n, dt_matmul(n->t, a, b), dt__imp_float(n, "alpha", 1.0)));
}

// ---- Weights of few bits ----------------------------------------------------------------------------
const char *dt__imp_check_MatMulNBits(dt_imp_node_t *n) {
  int64_t bits = dt__imp_int(n, "bits", 4), block = dt__imp_int(n, "block_size", 0);
  if (bits != 2 && bits != 4 && bits != 8)
    return "attribute \"bits\" is not 2, 4 or 8";
  if (block < 16 || block > 65536 || (block & (block - 1)) != 0)
    return "attribute \"block_size\" is no power of two from 16 on";
  if (dt__imp_int(n, "K", 0) < 1 || dt__imp_int(n, "N", 0) < 1)
    return "attributes \"K\" and \"N\" must be positive";
  return dt__imp_has(n, 4) ? "input 4, an order of groups, is not supported" : NULL;
}

// Bytes [rows, columns, …] as values of `bits` bits, the lowest first: [rows, count].
static dt_value_t unpacked(dt_imp_node_t *n, dt_value_t x, int64_t bits, dt_sym_t rows,
                           dt_sym_t count) {
  dt_sym_t bytes[] = {rows, dt__imp_lit(n, -1)}, per = dt__imp_lit(n, 8 / bits);
  x = dt_reshape(n->t, x, 2, bytes);
  if (bits < 8) {
    dt_value_t by =
        dt_mul(n->t, dt_iota(n->t, DT_U8, 1, &per, 0), dt__imp_like(n, x, (double)bits));
    x = dt_shift_right(n->t, dt_unsqueeze(n->t, x, 2), by);
    x = dt_bit_and(n->t, x, dt__imp_like(n, x, (1 << bits) - 1));
  }
  return dt_slice(n->t, dt_reshape(n->t, x, 2, bytes), 1, dt__imp_lit(n, 0), count, 1);
}

// [N, blocks, 1] of input k, given flat or not.
static dt_value_t per_block(dt_imp_node_t *n, dt_value_t x, dt_sym_t rows, dt_sym_t blocks) {
  const dt_sym_t sizes[] = {rows, blocks, dt__imp_lit(n, 1)};
  return dt_reshape(n->t, x, 3, sizes);
}

// Accuracy level 4: products may be of integers of 8 bits. `a` in whole steps, 127 to the largest
// of its block, of any sign. A block that is not finite, or a scale, gives NaN, so that it does not
// matter what is summed first.
static bool takes_integers(dt_imp_node_t *n) {
  return dt__imp_int(n, "accuracy_level", 0) == 4 && dt__imp_dtype(n, 0) != DT_F64 &&
         dt__imp_rank(n, 0) < DT_MAX_RANK;
}

static dt_value_t finite_or_nan(dt_imp_node_t *n, dt_value_t x) {
  return dt_add(n->t, x, dt_sub(n->t, x, x));
}

static dt_value_t in_steps(dt_imp_node_t *n, dt_value_t a, int64_t depth, int64_t block) {
  uint32_t rank = dt__imp_rank(n, 0);
  dt_sym_t sizes[DT_MAX_RANK + 1] = {{0}}, low[DT_MAX_RANK] = {{0}}, high[DT_MAX_RANK] = {{0}};
  int64_t blocks = (depth + block - 1) / block;
  const int32_t last = -1;
  for (uint32_t d = 0; d < rank; d++) {
    low[d] = dt__imp_lit(n, 0);
    high[d] = dt__imp_lit(n, d + 1 < rank ? 0 : blocks * block - depth);
    sizes[d] = dt__imp_size(n, 0, d);
  }
  a = depth % block ? dt_pad(n->t, a, low, high, 0) : a;
  sizes[rank - 1] = dt__imp_lit(n, blocks);
  sizes[rank] = dt__imp_lit(n, block);
  a = dt_reshape(n->t, a, rank + 1, sizes);
  dt_value_t most = dt_amax(n->t, dt_abs(n->t, a), 1, &last, true);
  dt_value_t step = finite_or_nan(n, dt_div(n->t, most, dt__imp_like(n, a, 127)));
  dt_value_t nothing = dt_eq(n->t, step, dt__imp_like(n, a, 0));
  dt_value_t q = dt_div(n->t, a, dt_where(n->t, nothing, dt__imp_like(n, a, 1), step));
  q = dt_cast(n->t, dt_round(n->t, q), DT_I8);
  a = dt_mul(n->t, dt_cast(n->t, q, DT_F32), step);
  sizes[rank - 1] = dt__imp_lit(n, blocks * block);
  a = dt_reshape(n->t, a, rank, sizes);
  return dt_slice(n->t, a, last, dt__imp_lit(n, 0), dt__imp_lit(n, depth), 1);
}

void dt__imp_make_MatMulNBits(dt_imp_node_t *n) {
  int64_t bits = dt__imp_int(n, "bits", 4), block = dt__imp_int(n, "block_size", 32);
  int64_t depth = dt__imp_int(n, "K", 1), all = (depth + block - 1) / block;
  dt_sym_t rows = dt__imp_lit(n, dt__imp_int(n, "N", 1)), blocks = dt__imp_lit(n, all);
  dt_value_t a = dt__imp_in(n, 0), scale = per_block(n, dt__imp_in(n, 2), rows, blocks);
  dt_dtype_t dtype = dt__imp_dtype(n, 0), wide = dtype == DT_F64 ? DT_F64 : DT_F32, held;
  bool integers = takes_integers(n);
  dt_value_t w = unpacked(n, dt__imp_in(n, 1), bits, rows, dt__imp_lit(n, all * block));
  const dt_sym_t blocked[] = {rows, blocks, dt__imp_lit(n, block)};
  w = dt__imp_as(n, dt_reshape(n->t, w, 3, blocked), wide);
  dt_value_t zero = dt__imp_number(n, wide, (double)(1 << (bits - 1)));
  if (dt__imp_has(n, 3)) {
    held = dt__imp_dtype(n, 3);
    zero = dt__imp_in(n, 3);
    zero = held == DT_U8 ? unpacked(n, zero, bits, rows, blocks) : zero;
    zero = dt__imp_as(n, per_block(n, zero, rows, blocks), wide);
  }
  scale = dt__imp_as(n, scale, wide);
  w = dt_mul(n->t, dt_sub(n->t, w, zero), integers ? finite_or_nan(n, scale) : scale);
  const dt_sym_t joined[] = {rows, dt__imp_lit(n, all * block)};
  w = dt_reshape(n->t, integers ? w : dt__imp_as(n, w, dtype), 2, joined);
  w = dt_slice(n->t, w, 1, dt__imp_lit(n, 0), dt__imp_lit(n, depth), 1);
  a = integers ? in_steps(n, dt__imp_as(n, a, DT_F32), depth, block) : a;
  dt_value_t y = dt_matmul(n->t, a, dt_transpose(n->t, w, 0, 1));
  dt__imp_out(n, 0, added(n, dt__imp_as(n, y, dtype), 5));
}

// ---- Integers ---------------------------------------------------------------------------------------
// Input k in i32 without its zero point, input `zero`.
static dt_value_t centred(dt_imp_node_t *n, uint32_t k, uint32_t zero) {
  dt_value_t x = dt_cast(n->t, dt__imp_in(n, k), DT_I32);
  return dt__imp_has(n, zero) ? dt_sub(n->t, x, dt_cast(n->t, dt__imp_in(n, zero), DT_I32)) : x;
}

void dt__imp_make_MatMulIntegerToFloat(dt_imp_node_t *n) {
  dt_value_t y = dt_matmul(n->t, centred(n, 0, 4), centred(n, 1, 5));
  dt_value_t scale = dt_mul(n->t, dt__imp_in(n, 2), dt__imp_in(n, 3));
  y = dt_mul(n->t, dt__imp_as(n, y, dt__imp_dtype(n, 2)), scale);
  dt__imp_out(n, 0, added(n, y, 6));
}

// The left operand is quantised to u8 by what it holds.
void dt__imp_make_DynamicQuantizeMatMul(dt_imp_node_t *n) {
  dt_value_t a = dt__imp_in(n, 0), zero = dt__imp_like(n, a, 0.0), top = dt__imp_like(n, a, 255.0);
  dt_value_t most = dt_maximum(n->t, dt_amax(n->t, a, 0, NULL, false), zero);
  dt_value_t least = dt_minimum(n->t, dt_amin(n->t, a, 0, NULL, false), zero);
  dt_value_t step = dt_div(n->t, dt_sub(n->t, most, least), top);
  step = dt_where(n->t, dt_eq(n->t, step, zero), dt__imp_like(n, a, 1.0), step);
  dt_value_t origin = dt_round(n->t, dt_neg(n->t, dt_div(n->t, least, step)));
  dt_value_t q = dt_add(n->t, dt_round(n->t, dt_div(n->t, a, step)), origin);
  q = dt_cast(n->t, dt_minimum(n->t, dt_maximum(n->t, q, zero), top), DT_U8);
  q = dt_sub(n->t, dt_cast(n->t, q, DT_I32), dt_cast(n->t, origin, DT_I32));
  dt_value_t y = dt_matmul(n->t, q, centred(n, 1, 3));
  y = dt_mul(n->t, dt_cast(n->t, y, DT_F32), dt_mul(n->t, step, dt__imp_in(n, 2)));
  dt__imp_out(n, 0, added(n, y, 4));
}
