// SPDX-License-Identifier: Apache-2.0
// Attention and rotary embedding of the format's own operator sets.
#include "frontends/onnx/import/attention.h"

#include <math.h>

// ---- Attention --------------------------------------------------------------------------------------
enum { Q, K, V, MASK, PAST_KEY, PAST_VALUE, NONPAD };

const char *dt__imp_check_Attention(dt_imp_node_t *n) {
  int64_t show = dt__imp_int(n, "qk_matmul_output_mode", 0);
  if (show < 0 || show > 3)
    return "attribute \"qk_matmul_output_mode\" is not 0, 1, 2 or 3";
  dt_dtype_t softmax = dt__imp_attr_dtype(n, "softmax_precision", DT_F32);
  if (softmax < DT_F16 || softmax > DT_F64)
    return "attribute \"softmax_precision\" is no type of floats that is supported";
  return dt__imp_float(n, "scale", 1.0) <= 0.0 ? "attribute \"scale\" is not positive" : NULL;
}

// An operand of rank 3 with its heads split off; `past` in front along the lengths.
static dt_value_t operand(dt_imp_node_t *n, uint32_t k, const char *heads, uint32_t past) {
  dt_value_t x = dt__imp_in(n, k);
  int64_t count = dt__imp_int(n, heads, 0);
  if (dt__imp_rank(n, k) == 3 && count < 1 && !dt__imp_failed(n))
    dt__imp_fail(n, DT_E_FORMAT, "attribute \"%s\" is needed for inputs of rank 3", heads);
  if (dt__imp_failed(n))
    return x;
  if (dt_value_rank(n->t, x) == 3)
    x = dt__imp_split_heads(n, x, count);
  if (!past || !dt__imp_has(n, past))
    return x;
  const dt_value_t both[] = {dt__imp_in(n, past), x};
  return dt_concat(n->t, 2, both, 2);
}

// From operator set 24 on a mask may be shorter than the keys.
static dt_value_t read_mask(dt_imp_node_t *n, dt_sym_t total) {
  dt_value_t mask = dt__imp_in(n, MASK);
  dt_sym_t sizes[DT_MAX_RANK], low[DT_MAX_RANK], high[DT_MAX_RANK];
  uint32_t rank = dt__imp_shape(n, mask, sizes);
  bool same = false;
  if (n->opset < 24 || rank == 0 ||
      (dt_sym_known(n->t, dt_sym_eq(n->t, sizes[rank - 1], total), &same) && same))
    return mask;
  for (uint32_t k = 0; k < rank; k++)
    low[k] = high[k] = dt__imp_lit(n, 0);
  high[rank - 1] = dt_sym_sub(n->t, total, sizes[rank - 1]);
  return dt_pad(n->t, mask, low, high, dt__imp_dtype(n, MASK) == DT_BOOL ? 0.0 : -INFINITY);
}

static void add_masks(dt_imp_node_t *n, dt_imp_attention_t *a) {
  dt_sym_t length = dt_dim(n->t, a->q, 2), total = dt_dim(n->t, a->k, 2);
  if (dt__imp_has(n, MASK) && dt__imp_dtype(n, MASK) == DT_BOOL)
    dt__imp_keep(n, a, read_mask(n, total));
  else if (dt__imp_has(n, MASK))
    a->bias = read_mask(n, total);
  if (dt__imp_int(n, "is_causal", 0)) {
    dt_sym_t first =
        dt__imp_has(n, PAST_KEY) ? dt_dim(n->t, dt__imp_in(n, PAST_KEY), 2) : dt__imp_lit(n, 0);
    dt__imp_keep(n, a, dt__imp_causal(n, length, total, first));
  }
  if (dt__imp_has(n, NONPAD)) {
    dt_value_t lengths = dt__imp_trailing(n, dt__imp_in(n, NONPAD), 3);
    dt__imp_keep(n, a, dt_lt(n->t, dt__imp_index(n, DT_I64, total, 0), lengths));
  }
}

void dt__imp_make_Attention(dt_imp_node_t *n) {
  dt_imp_attention_t a = {
      .q = operand(n, Q, "q_num_heads", 0),
      .k = operand(n, K, "kv_num_heads", PAST_KEY),
      .v = operand(n, V, "kv_num_heads", PAST_VALUE),
      .masked = -INFINITY,
      .scale = dt__imp_float(n, "scale", 0.0),
      .softcap = dt__imp_float(n, "softcap", 0.0),
      .wants_scores = dt__imp_wants(n, 3),
      .show = (dt_imp_scores_t)dt__imp_int(n, "qk_matmul_output_mode", 0),
  };
  if (dt__imp_has_attr(n, "softmax_precision"))
    a.softmax = dt__imp_attr_dtype(n, "softmax_precision", DT_F32);
  if (dt__imp_failed(n))
    return;
  add_masks(n, &a);
  dt_value_t scores = {0}, y = dt__imp_attend(n, &a, &scores);
  dt__imp_out(n, 0, dt__imp_rank(n, Q) == 3 ? dt__imp_join_heads(n, y) : y);
  dt__imp_out(n, 1, a.k);
  dt__imp_out(n, 2, a.v);
  dt__imp_out(n, 3, scores);
}

// ---- RotaryEmbedding --------------------------------------------------------------------------------
// Rows of a cache for the positions, with a dim of 1 for the heads.
static dt_value_t angles(dt_imp_node_t *n, uint32_t k, int32_t heads) {
  dt_value_t cache = dt__imp_in(n, k);
  if (dt__imp_has(n, 3))
    cache = dt_gather(n->t, cache, dt__imp_in(n, 3), 0);
  return dt_unsqueeze(n->t, cache, heads);
}

// Of rank 4 heads come before positions, of rank 3 they are split off behind them.
void dt__imp_make_RotaryEmbedding(dt_imp_node_t *n) {
  dt_value_t x = dt__imp_in(n, 0);
  dt_sym_t sizes[DT_MAX_RANK], split[4];
  uint32_t rank = dt__imp_shape(n, x, sizes);
  int64_t heads = dt__imp_int(n, "num_heads", 0);
  if (dt__imp_failed(n))
    return;
  if (rank != 4 && (rank != 3 || heads < 1)) {
    dt__imp_fail(n, DT_E_SHAPE, "input 0 has rank %u; expected 4, or 3 and \"num_heads\"", rank);
    return;
  }
  if (rank == 3) {
    split[0] = sizes[0];
    split[1] = sizes[1];
    split[2] = dt__imp_lit(n, heads);
    split[3] = dt_sym_exactdiv(n->t, sizes[2], split[2]);
    x = dt_reshape(n->t, x, 4, split);
  }
  int32_t at = rank == 3 ? 2 : 1;
  bool interleaved = dt__imp_int(n, "interleaved", 0) != 0;
  x = dt__imp_rotate(n, x, angles(n, 1, at), angles(n, 2, at), interleaved);
  dt__imp_out(n, 0, rank == 3 ? dt_reshape(n->t, x, rank, sizes) : x);
}
