// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/import/attention.h"

#include <math.h>

// ---- Heads ------------------------------------------------------------------------------------------
dt_value_t dt__imp_split_heads(dt_imp_node_t *n, dt_value_t x, int64_t heads) {
  dt_sym_t sizes[DT_MAX_RANK];
  if (dt__imp_shape(n, x, sizes) != 3) {
    if (!dt__imp_failed(n))
      dt__imp_fail(n, DT_E_SHAPE, "an operand is not of rank 3");
    return x;
  }
  sizes[3] = dt_sym_exactdiv(n->t, sizes[2], dt__imp_lit(n, heads));
  sizes[2] = dt__imp_lit(n, heads);
  return dt_transpose(n->t, dt_reshape(n->t, x, 4, sizes), 1, 2);
}

dt_value_t dt__imp_join_heads(dt_imp_node_t *n, dt_value_t x) {
  dt_sym_t sizes[DT_MAX_RANK];
  dt_value_t turned = dt_transpose(n->t, x, 1, 2);
  if (dt__imp_shape(n, turned, sizes) != 4)
    return x;
  sizes[2] = dt_sym_mul(n->t, sizes[2], sizes[3]);
  return dt_reshape(n->t, turned, 3, sizes);
}

void dt__imp_keep(dt_imp_node_t *n, dt_imp_attention_t *a, dt_value_t keep) {
  (void)n;
  if (a->n_keep < DT_IMP_MOST_KEEPS)
    a->keep[a->n_keep++] = keep;
}

dt_value_t dt__imp_causal(dt_imp_node_t *n, dt_sym_t length, dt_sym_t total, dt_sym_t first) {
  dt_value_t row = dt__imp_index(n, DT_I64, length, 1);
  dt_value_t column = dt__imp_index(n, DT_I64, total, 0);
  int64_t literal = 1;
  if (!dt_sym_constant(n->t, first, &literal) || literal != 0)
    row = dt_add(n->t, row, dt_size_value(n->t, first));
  return dt_le(n->t, column, row);
}

// ---- Groups -----------------------------------------------------------------------------------------
// Several heads of q for one of k and v: heads are two dims then, so that k and v are not copied.
typedef struct groups_t {
  bool several;
  dt_sym_t heads, shared, each; // heads = shared * each
} groups_t;

static groups_t find_groups(dt_imp_node_t *n, const dt_imp_attention_t *a) {
  groups_t g = {.heads = dt_dim(n->t, a->q, 1), .shared = dt_dim(n->t, a->k, 1)};
  bool same = false;
  g.several = !dt_sym_known(n->t, dt_sym_eq(n->t, g.heads, g.shared), &same) || !same;
  if (g.several)
    g.each = dt_sym_exactdiv(n->t, g.heads, g.shared);
  return g;
}

// [b, heads, …] → [b, shared, each, …]
static dt_value_t split_groups(dt_imp_node_t *n, const groups_t *g, dt_value_t x) {
  dt_sym_t sizes[DT_MAX_RANK];
  if (!g->several || dt__imp_shape(n, x, sizes) != 4)
    return x;
  const dt_sym_t split[] = {sizes[0], g->shared, g->each, sizes[2], sizes[3]};
  return dt_reshape(n->t, x, 5, split);
}

static dt_value_t join_groups(dt_imp_node_t *n, const groups_t *g, dt_value_t x) {
  dt_sym_t sizes[DT_MAX_RANK];
  if (!g->several || dt__imp_shape(n, x, sizes) != 5)
    return x;
  const dt_sym_t joined[] = {sizes[0], g->heads, sizes[3], sizes[4]};
  return dt_reshape(n->t, x, 4, joined);
}

// A mask or bias of rank 0 to 4, for scores of split heads.
static dt_value_t split_mask(dt_imp_node_t *n, const groups_t *g, dt_value_t mask) {
  dt_sym_t sizes[DT_MAX_RANK];
  uint32_t rank = dt__imp_shape(n, mask, sizes);
  int64_t heads = 0;
  if (!g->several || rank < 3)
    return mask;
  if (rank == 3)
    mask = dt_unsqueeze(n->t, mask, 0);
  rank = dt__imp_shape(n, mask, sizes);
  if (dt__imp_failed(n) || (dt_sym_constant(n->t, sizes[1], &heads) && heads == 1))
    return dt_unsqueeze(n->t, mask, 2);
  sizes[1] = g->heads;
  return split_groups(n, g, dt_expand(n->t, mask, 4, sizes));
}

// ---- Attention --------------------------------------------------------------------------------------
static bool is_half(dt_dtype_t dtype) { return dtype == DT_F16 || dtype == DT_BF16; }

// x * scale^power
static dt_value_t scaled(dt_imp_node_t *n, const dt_imp_attention_t *a, dt_value_t x,
                         double power) {
  int64_t head = 0;
  dt_sym_t size = dt_dim(n->t, a->q, -1);
  if (a->scale != 0.0)
    return dt__imp_times(n, x, pow(a->scale, power));
  if (dt_sym_constant(n->t, size, &head))
    return dt__imp_times(n, x, head > 0 ? pow(1.0 / sqrt((double)head), power) : 1.0);
  dt_value_t root = dt_rsqrt(n->t, dt_cast(n->t, dt_size_value(n->t, size), DT_F32));
  root = power == 1.0 ? root : dt_sqrt(n->t, root);
  return dt_mul(n->t, x, dt__imp_as(n, root, dt_value_dtype(n->t, x)));
}

// Half floats are scaled before the product, which might overflow.
static dt_value_t product(dt_imp_node_t *n, const dt_imp_attention_t *a, const groups_t *g) {
  dt_value_t q = split_groups(n, g, a->q), k = a->k;
  bool early = is_half(dt_value_dtype(n->t, q));
  if (early) {
    q = scaled(n, a, q, 0.5);
    k = scaled(n, a, k, 0.5);
  }
  k = dt_transpose(n->t, k, -1, -2);
  dt_value_t scores = dt_matmul(n->t, q, g->several ? dt_unsqueeze(n->t, k, 2) : k);
  return early ? scores : scaled(n, a, scores, 1.0);
}

static dt_value_t masked(dt_imp_node_t *n, const dt_imp_attention_t *a, const groups_t *g,
                         dt_value_t scores) {
  if (a->bias.id) {
    dt_value_t bias = dt__imp_as(n, a->bias, dt_value_dtype(n->t, scores));
    scores = dt_add(n->t, scores, split_mask(n, g, bias));
  }
  for (uint32_t k = 0; k < a->n_keep; k++)
    scores =
        dt_where(n->t, split_mask(n, g, a->keep[k]), scores, dt__imp_like(n, scores, a->masked));
  return scores;
}

// e^x / (1 + sum of e^x)
static dt_value_t smooth_softmax(dt_imp_node_t *n, dt_value_t x) {
  const int32_t last = -1;
  dt_value_t zero = dt__imp_like(n, x, 0.0);
  dt_value_t most = dt_maximum(n->t, dt_amax(n->t, x, 1, &last, true), zero);
  dt_value_t part = dt_exp(n->t, dt_sub(n->t, x, most));
  dt_value_t sum =
      dt_add(n->t, dt_sum(n->t, part, 1, &last, true), dt_exp(n->t, dt_neg(n->t, most)));
  return dt_div(n->t, part, sum);
}

dt_value_t dt__imp_attend(dt_imp_node_t *n, const dt_imp_attention_t *a, dt_value_t *out_scores) {
  if (dt__imp_failed(n))
    return (dt_value_t){0};
  dt_value_t shown[4];
  groups_t g = find_groups(n, a);
  dt_value_t scores = shown[DT_IMP_SCORES_SCALED] = product(n, a, &g);
  if (a->softcap != 0.0) {
    scores = dt_tanh(n->t, dt__imp_times(n, scores, 1.0 / a->softcap));
    scores = dt__imp_times(n, scores, a->softcap);
  }
  shown[DT_IMP_SCORES_CAPPED] = scores;
  scores = shown[DT_IMP_SCORES_BIASED] = masked(n, a, &g, scores);
  if (dt__imp_failed(n))
    return scores;
  dt_dtype_t dtype = dt_value_dtype(n->t, scores);
  if (a->softmax != DT_DTYPE_NONE)
    scores = dt__imp_as(n, scores, a->softmax);
  dt_value_t weights = a->smooth ? smooth_softmax(n, scores) : dt_softmax(n->t, scores, -1);
  weights = shown[DT_IMP_SCORES_SOFTMAX] = dt__imp_as(n, weights, dtype);
  if (a->wants_scores)
    *out_scores = join_groups(n, &g, shown[a->show]);
  dt_value_t v = g.several ? dt_unsqueeze(n->t, a->v, 2) : a->v;
  return join_groups(n, &g, dt_matmul(n->t, weights, v));
}

// ---- Rotation ---------------------------------------------------------------------------------------
dt_value_t dt__imp_rotate(dt_imp_node_t *n, dt_value_t x, dt_value_t cos, dt_value_t sin,
                          bool interleaved) {
  if (dt__imp_failed(n))
    return x;
  dt_sym_t half = dt_dim(n->t, cos, -1), all = dt_dim(n->t, x, -1), zero = dt__imp_lit(n, 0);
  dt_sym_t turned = dt_sym_mul(n->t, half, dt__imp_lit(n, 2));
  dt_sym_t second = interleaved ? dt__imp_lit(n, 1) : half;
  int64_t step = interleaved ? 2 : 1;
  dt_dtype_t dtype = dt_value_dtype(n->t, x);
  cos = dt__imp_as(n, cos, dtype);
  sin = dt__imp_as(n, sin, dtype);
  dt_value_t a = dt_slice(n->t, x, -1, zero, half, step);
  dt_value_t b = dt_slice(n->t, x, -1, second, half, step);
  dt_value_t parts[3] = {
      dt_sub(n->t, dt_mul(n->t, cos, a), dt_mul(n->t, sin, b)),
      dt_add(n->t, dt_mul(n->t, sin, a), dt_mul(n->t, cos, b)),
  };
  uint32_t n_parts = 2;
  if (interleaved) {
    dt_sym_t sizes[DT_MAX_RANK];
    parts[0] = dt_unsqueeze(n->t, parts[0], -1);
    parts[1] = dt_unsqueeze(n->t, parts[1], -1);
    uint32_t rank = dt__imp_shape(n, x, sizes);
    sizes[rank > 0 ? rank - 1 : 0] = turned;
    parts[0] = dt_reshape(n->t, dt_concat(n->t, 2, parts, -1), rank, sizes);
    n_parts = 1;
  }
  bool whole = false;
  if (!dt_sym_known(n->t, dt_sym_eq(n->t, turned, all), &whole) || !whole)
    parts[n_parts++] = dt_slice(n->t, x, -1, turned, dt_sym_sub(n->t, all, turned), 1);
  return n_parts == 1 ? parts[0] : dt_concat(n->t, n_parts, parts, -1);
}
