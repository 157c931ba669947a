// SPDX-License-Identifier: Apache-2.0
// Attention and rotary embedding of com.microsoft.
#include "frontends/onnx/import/attention.h"

#include <math.h>

// Where `keep` (0 and 1, or bool) is 0, a number is added to scores.
static dt_value_t penalty(dt_imp_node_t *n, dt_value_t keep, dt_dtype_t dtype) {
  double filter = dt__imp_float(n, "mask_filter_value", -10000.0);
  keep = dt__imp_as(n, keep, DT_BOOL);
  return dt_where(n->t, keep, dt_scalar(n->t, dtype, 0.0), dt_scalar(n->t, dtype, filter));
}

static void add_bias(dt_imp_node_t *n, dt_imp_attention_t *a, dt_value_t bias) {
  a->bias = a->bias.id ? dt_add(n->t, a->bias, bias) : bias;
}

// Whether a key's place is below its batch's length: [batch, 1, 1, total].
static dt_value_t below(dt_imp_node_t *n, dt_value_t lengths, dt_sym_t total) {
  lengths = dt__imp_trailing(n, dt__imp_as(n, lengths, DT_I64), 3);
  return dt_lt(n->t, dt__imp_index(n, DT_I64, total, 0), lengths);
}

// A mask of rank 1 has lengths, of rank 2 [batch, total], of rank 3 [batch, length, total].
static void add_mask(dt_imp_node_t *n, dt_imp_attention_t *a, uint32_t k) {
  if (!dt__imp_has(n, k) || dt__imp_failed(n))
    return;
  dt_value_t mask = dt__imp_in(n, k);
  uint32_t rank = dt__imp_rank(n, k);
  dt_sym_t batch = dt_dim(n->t, a->q, 0), total = dt_dim(n->t, a->k, 2);
  if (rank == 1 && dt_sym_true(n->t, dt_sym_eq(n->t, dt_dim(n->t, mask, 0), batch)))
    mask = below(n, mask, total);
  else if (rank == 2)
    mask = dt_unsqueeze(n->t, dt_unsqueeze(n->t, mask, 1), 1);
  else if (rank == 3)
    mask = dt_unsqueeze(n->t, mask, 1);
  else if (!dt__imp_failed(n))
    dt__imp_fail(n, DT_E_UNSUPPORTED,
                 "input %u, a mask of rank %u; lengths, [batch, total] and [batch, length, total] "
                 "are supported",
                 k, rank);
  if (!dt__imp_failed(n))
    add_bias(n, a, penalty(n, mask, dt_value_dtype(n->t, a->q)));
}

static void add_causal(dt_imp_node_t *n, dt_imp_attention_t *a) {
  dt_sym_t length = dt_dim(n->t, a->q, 2), total = dt_dim(n->t, a->k, 2);
  if (dt__imp_int(n, "unidirectional", 0))
    dt__imp_keep(n, a, dt__imp_causal(n, length, total, dt_sym_sub(n->t, total, length)));
}

// Part `at` of `count` along the last dim.
static dt_value_t columns(dt_imp_node_t *n, dt_value_t x, dt_sym_t at, dt_sym_t count) {
  return dt_slice(n->t, x, -1, at, count, 1);
}

static dt_value_t behind(dt_imp_node_t *n, dt_value_t past, dt_value_t x) {
  const dt_value_t both[] = {past, x};
  return dt_concat(n->t, 2, both, 2);
}

static const char *check_heads(dt_imp_node_t *n) {
  return dt__imp_int(n, "num_heads", 0) > 0 ? NULL : "attribute \"num_heads\" is not positive";
}

// ---- Attention --------------------------------------------------------------------------------------
const char *dt__imp_check_ms_Attention(dt_imp_node_t *n) {
  if (dt__imp_int(n, "do_rotary", 0) || dt__imp_int(n, "past_present_share_buffer", 0))
    return "attributes \"do_rotary\" and \"past_present_share_buffer\" are not supported";
  return check_heads(n);
}

// Half `which` of [2, batch, heads, past, head].
static dt_value_t half_of(dt_imp_node_t *n, uint32_t k, int64_t which) {
  dt_value_t one = dt_slice(n->t, dt__imp_in(n, k), 0, dt__imp_lit(n, which), dt__imp_lit(n, 1), 1);
  return dt_squeeze(n->t, one, 0);
}

// Columns of one product for queries, keys and values.
static void project(dt_imp_node_t *n, dt_imp_attention_t *a) {
  dt_imp_ints_t hidden;
  int64_t heads = dt__imp_int(n, "num_heads", 1);
  dt_value_t all = dt_matmul(n->t, dt__imp_in(n, 0), dt__imp_in(n, 1)), parts[3];
  if (dt__imp_has(n, 2))
    all = dt_add(n->t, all, dt__imp_in(n, 2));
  if (dt__imp_failed(n))
    return;
  bool given = dt__imp_attr_ints(n, "qkv_hidden_sizes", &hidden) && hidden.len == 3;
  dt_sym_t each = dt_dim(n->t, all, -1), at = dt__imp_lit(n, 0);
  if (!given)
    each = dt_sym_exactdiv(n->t, each, dt__imp_lit(n, 3));
  for (uint32_t k = 0; k < 3; k++) {
    dt_sym_t count = given ? dt__imp_lit(n, hidden.items[k]) : each;
    parts[k] = dt__imp_split_heads(n, columns(n, all, at, count), heads);
    at = dt_sym_add(n->t, at, count);
  }
  a->q = parts[0];
  a->k = parts[1];
  a->v = parts[2];
}

void dt__imp_make_ms_Attention(dt_imp_node_t *n) {
  dt_imp_attention_t a = {.masked = -INFINITY, .scale = dt__imp_float(n, "scale", 0.0)};
  project(n, &a);
  if (dt__imp_has(n, 4)) {
    a.k = behind(n, half_of(n, 4, 0), a.k);
    a.v = behind(n, half_of(n, 4, 1), a.v);
  }
  if (dt__imp_failed(n))
    return;
  add_mask(n, &a, 3);
  if (dt__imp_has(n, 5))
    add_bias(n, &a, dt__imp_in(n, 5));
  add_causal(n, &a);
  dt__imp_out(n, 0, dt__imp_join_heads(n, dt__imp_attend(n, &a, NULL)));
  const dt_value_t present[] = {dt_unsqueeze(n->t, a.k, 0), dt_unsqueeze(n->t, a.v, 0)};
  if (dt__imp_wants(n, 1))
    dt__imp_out(n, 1, dt_concat(n->t, 2, present, 0));
}

// ---- MultiHeadAttention -----------------------------------------------------------------------------
enum { QUERY, KEY, VALUE, BIAS, PADDING, SCORE_BIAS, PAST_KEY, PAST_VALUE, PAST_LENGTH, BEAMS };

const char *dt__imp_check_MultiHeadAttention(dt_imp_node_t *n) {
  if (dt__imp_has(n, PAST_LENGTH) || dt__imp_has(n, BEAMS))
    return "inputs 8 and 9, buffers that past and present share, are not supported";
  return check_heads(n);
}

// Part `which` of [batch, length, heads, parts, head], with its part of the bias.
static dt_value_t packed(dt_imp_node_t *n, dt_value_t x, int64_t which) {
  dt_sym_t sizes[DT_MAX_RANK];
  dt_value_t one = dt_slice(n->t, x, 3, dt__imp_lit(n, which), dt__imp_lit(n, 1), 1);
  one = dt_squeeze(n->t, one, 3);
  if (dt__imp_has(n, BIAS) && dt__imp_shape(n, one, sizes) == 4) {
    dt_sym_t count = dt_sym_mul(n->t, sizes[2], sizes[3]);
    dt_sym_t at = dt_sym_mul(n->t, count, dt__imp_lit(n, which));
    dt_value_t bias = columns(n, dt__imp_in(n, BIAS), at, count);
    one = dt_add(n->t, one, dt_reshape(n->t, bias, 2, &sizes[2]));
  }
  return dt_transpose(n->t, one, 1, 2);
}

// An operand of rank 3 with its columns of the bias; one of rank 4 has its heads split off, and its
// bias in it.
static dt_value_t projected(dt_imp_node_t *n, uint32_t k, dt_sym_t *at) {
  dt_value_t x = dt__imp_in(n, k);
  if (dt__imp_rank(n, k) == 4 || dt__imp_failed(n))
    return x;
  dt_sym_t count = dt_dim(n->t, x, -1);
  if (dt__imp_has(n, BIAS))
    x = dt_add(n->t, x, columns(n, dt__imp_in(n, BIAS), *at, count));
  *at = dt_sym_add(n->t, *at, count);
  return dt__imp_split_heads(n, x, dt__imp_int(n, "num_heads", 1));
}

static void read_operands(dt_imp_node_t *n, dt_imp_attention_t *a) {
  dt_sym_t at = dt__imp_lit(n, 0);
  bool all = dt__imp_rank(n, QUERY) == 5;
  bool pair = !all && dt__imp_has(n, KEY) && dt__imp_rank(n, KEY) == 5;
  if (pair && dt__imp_has(n, BIAS)) {
    dt__imp_fail(n, DT_E_UNSUPPORTED, "a bias with packed keys and values");
    return;
  }
  a->q = all ? packed(n, dt__imp_in(n, QUERY), 0) : projected(n, QUERY, &at);
  a->k = all    ? packed(n, dt__imp_in(n, QUERY), 1)
         : pair ? packed(n, dt__imp_in(n, KEY), 0)
                : projected(n, KEY, &at);
  a->v = all    ? packed(n, dt__imp_in(n, QUERY), 2)
         : pair ? packed(n, dt__imp_in(n, KEY), 1)
                : projected(n, VALUE, &at);
}

void dt__imp_make_MultiHeadAttention(dt_imp_node_t *n) {
  dt_imp_attention_t a = {.masked = -INFINITY,
                          .scale = dt__imp_float(n, "scale", 0.0),
                          .wants_scores = dt__imp_wants(n, 3)};
  dt_value_t scores = {0};
  read_operands(n, &a);
  if (dt__imp_has(n, PAST_KEY))
    a.k = behind(n, dt__imp_in(n, PAST_KEY), a.k);
  if (dt__imp_has(n, PAST_VALUE))
    a.v = behind(n, dt__imp_in(n, PAST_VALUE), a.v);
  if (dt__imp_failed(n))
    return;
  add_mask(n, &a, PADDING);
  if (dt__imp_has(n, SCORE_BIAS))
    add_bias(n, &a, dt__imp_in(n, SCORE_BIAS));
  add_causal(n, &a);
  dt__imp_out(n, 0, dt__imp_join_heads(n, dt__imp_attend(n, &a, &scores)));
  dt__imp_out(n, 1, a.k);
  dt__imp_out(n, 2, a.v);
  dt__imp_out(n, 3, scores);
}

// ---- RotaryEmbedding --------------------------------------------------------------------------------
const char *dt__imp_check_ms_RotaryEmbedding(dt_imp_node_t *n) {
  return dt__imp_int(n, "is_packed_batching", 0)
             ? "attribute \"is_packed_batching\" is not supported"
             : NULL;
}

// Rows of a cache at positions [batch, length], with a dim of 1 for the heads.
static dt_value_t angles(dt_imp_node_t *n, uint32_t cache, dt_value_t positions, int32_t heads) {
  dt_value_t rows = dt_gather(n->t, dt__imp_in(n, cache), positions, 0);
  return dt_unsqueeze(n->t, rows, heads);
}

// Input k as [batch, length]; one number is the first position.
static dt_value_t read_positions(dt_imp_node_t *n, uint32_t k, dt_sym_t length) {
  dt_value_t given = dt__imp_as(n, dt__imp_in(n, k), DT_I64);
  if (dt__imp_rank(n, k) == 2 || dt__imp_failed(n))
    return given;
  dt_value_t steps = dt__imp_index(n, DT_I64, length, 0);
  return dt_unsqueeze(n->t, dt_add(n->t, given, steps), 0);
}

void dt__imp_make_ms_RotaryEmbedding(dt_imp_node_t *n) {
  dt_value_t x = dt__imp_in(n, 0), cos = dt__imp_in(n, 2);
  dt_sym_t sizes[DT_MAX_RANK], split[4];
  uint32_t rank = dt__imp_shape(n, x, sizes);
  int64_t heads = dt__imp_int(n, "num_heads", 0);
  if (rank != 3 && rank != 4 && !dt__imp_failed(n))
    dt__imp_fail(n, DT_E_SHAPE, "input 0 has rank %u; expected 3 or 4", rank);
  if (dt__imp_failed(n))
    return;
  if (rank == 3) {
    dt_sym_t two = dt__imp_lit(n, 2);
    dt_sym_t head = heads > 0 ? dt_sym_exactdiv(n->t, sizes[2], dt__imp_lit(n, heads))
                              : dt_sym_mul(n->t, dt_dim(n->t, cos, -1), two);
    split[0] = sizes[0];
    split[1] = sizes[1];
    split[2] = heads > 0 ? dt__imp_lit(n, heads) : dt_sym_exactdiv(n->t, sizes[2], head);
    split[3] = head;
    x = dt_reshape(n->t, x, 4, split);
  }
  int32_t at = rank == 3 ? 2 : 1;
  dt_value_t positions = read_positions(n, 1, sizes[rank == 3 ? 1 : 2]);
  x = dt__imp_rotate(n, x, angles(n, 2, positions, at), angles(n, 3, positions, at),
                     dt__imp_int(n, "interleaved", 0) != 0);
  dt__imp_out(n, 0, rank == 3 ? dt_reshape(n->t, x, rank, sizes) : x);
}

// ---- GroupQueryAttention ----------------------------------------------------------------------------
enum { PAST_K = 3, PAST_V, LENGTHS, TOTAL, COS, SIN, POSITIONS, GQA_BIAS, SINK };

const char *dt__imp_check_GroupQueryAttention(dt_imp_node_t *n) {
  if (dt__imp_int(n, "kv_num_heads", 0) < 1)
    return "attribute \"kv_num_heads\" is not positive";
  if (dt__imp_has(n, SINK))
    return "input 11, a score that each head has for nothing, is not supported";
  if (dt__imp_int(n, "qk_output", 0) || dt__imp_wants(n, 3))
    return "scores as an output are not supported";
  if (dt__imp_int(n, "kv_cache_bit_width", 0))
    return "a cache of quantised keys and values is not supported";
  return check_heads(n);
}

// Of one tensor [batch, length, (heads + 2 * shared) * head], or of three.
static void read_grouped(dt_imp_node_t *n, dt_imp_attention_t *a) {
  int64_t heads = dt__imp_int(n, "num_heads", 1), shared = dt__imp_int(n, "kv_num_heads", 1);
  dt_value_t q = dt__imp_in(n, QUERY), k, v;
  if (dt__imp_has(n, KEY)) {
    k = dt__imp_in(n, KEY);
    v = dt__imp_in(n, VALUE);
  } else {
    dt_sym_t all = dt__imp_failed(n) ? (dt_sym_t){0} : dt_dim(n->t, q, -1);
    dt_sym_t head = dt_sym_exactdiv(n->t, all, dt__imp_lit(n, heads + 2 * shared));
    dt_sym_t own = dt_sym_mul(n->t, head, dt__imp_lit(n, heads));
    dt_sym_t other = dt_sym_mul(n->t, head, dt__imp_lit(n, shared));
    k = columns(n, q, own, other);
    v = columns(n, q, dt_sym_add(n->t, own, other), other);
    q = columns(n, q, dt__imp_lit(n, 0), own);
  }
  a->q = dt__imp_split_heads(n, q, heads);
  a->k = dt__imp_split_heads(n, k, shared);
  a->v = dt__imp_split_heads(n, v, shared);
}

// What the cache holds before this call, for each batch: 0 where all there is comes now.
static dt_value_t past_lengths(dt_imp_node_t *n, dt_sym_t length) {
  dt_value_t all = dt__imp_as(n, dt__imp_in(n, LENGTHS), DT_I64); // less 1
  uint32_t rank = dt__imp_rank(n, LENGTHS);
  dt_sym_t flat = dt__imp_lit(n, -1);
  if (rank != 1)
    all = dt_reshape(n->t, all, 1, &flat);
  dt_sym_t first = dt_sym_eq(n->t, dt__imp_sym(n, TOTAL, 0), length);
  dt_value_t before =
      dt_add(n->t, all, dt_size_value(n->t, dt_sym_sub(n->t, dt__imp_lit(n, 1), length)));
  dt_value_t kept = dt_size_value(n->t, dt_sym_sub(n->t, dt__imp_lit(n, 1), first));
  return dt_mul(n->t, before, kept);
}

// The cache in front, which may be longer than what it holds: then it stays as long.
static dt_value_t cached(dt_imp_node_t *n, uint32_t past, dt_value_t x, dt_value_t lengths) {
  dt_sym_t sizes[DT_MAX_RANK], low[DT_MAX_RANK], high[DT_MAX_RANK];
  if (!dt__imp_has(n, past))
    return x;
  dt_value_t cache = dt__imp_in(n, past);
  if (dt__imp_shape(n, cache, sizes) != 4)
    return x;
  dt_sym_t total = dt_sym_max(n->t, dt__imp_sym(n, TOTAL, 0), sizes[2]);
  for (uint32_t k = 0; k < 4; k++)
    low[k] = high[k] = dt__imp_lit(n, 0);
  high[2] = dt_sym_sub(n->t, total, sizes[2]);
  cache = dt_pad(n->t, cache, low, high, 0.0);
  return dt_update_slice(n->t, cache, x, lengths, 2, DT_UPDATE_CHECKED);
}

// Keys up to the query, and not before the window that it looks back: [batch, 1, length, total].
static void keep_causal(dt_imp_node_t *n, dt_imp_attention_t *a, dt_value_t lengths) {
  dt_sym_t length = dt_dim(n->t, a->q, 2), total = dt_dim(n->t, a->k, 2);
  int64_t window = dt__imp_int(n, "local_window_size", -1);
  dt_value_t row =
      dt_add(n->t, dt__imp_trailing(n, lengths, 3), dt__imp_index(n, DT_I64, length, 1));
  dt_value_t column = dt__imp_index(n, DT_I64, total, 0);
  dt__imp_keep(n, a, dt_le(n->t, column, row));
  if (window > 0) {
    dt_value_t first = dt_sub(n->t, row, dt_size_value(n->t, dt__imp_lit(n, window)));
    dt__imp_keep(n, a, dt_gt(n->t, column, first));
  }
}

// A bias of scores has columns for the keys that there are; a longer cache has more, which no query
// sees.
static dt_value_t widened(dt_imp_node_t *n, dt_value_t bias, dt_sym_t total) {
  dt_sym_t sizes[DT_MAX_RANK], low[DT_MAX_RANK], high[DT_MAX_RANK];
  bool same = false;
  uint32_t rank = dt__imp_shape(n, bias, sizes);
  if (rank != 4 || (dt_sym_known(n->t, dt_sym_eq(n->t, sizes[3], total), &same) && same))
    return bias;
  for (uint32_t k = 0; k < rank; k++)
    low[k] = high[k] = dt__imp_lit(n, 0);
  high[3] = dt_sym_sub(n->t, total, sizes[3]);
  return dt_pad(n->t, bias, low, high, 0.0);
}

static void rotate(dt_imp_node_t *n, dt_imp_attention_t *a, dt_value_t lengths) {
  bool interleaved = dt__imp_int(n, "rotary_interleaved", 0) != 0;
  dt_sym_t length = dt_dim(n->t, a->q, 2);
  dt_value_t steps = dt__imp_index(n, DT_I64, length, 0);
  dt_value_t positions = dt__imp_has(n, POSITIONS)
                             ? dt__imp_in(n, POSITIONS)
                             : dt_add(n->t, dt__imp_trailing(n, lengths, 1), steps);
  dt_value_t cos = angles(n, COS, positions, 1), sin = angles(n, SIN, positions, 1);
  a->q = dt__imp_rotate(n, a->q, cos, sin, interleaved);
  a->k = dt__imp_rotate(n, a->k, cos, sin, interleaved);
}

void dt__imp_make_GroupQueryAttention(dt_imp_node_t *n) {
  dt_imp_attention_t a = {
      .masked = -INFINITY,
      .scale = dt__imp_float(n, "scale", 0.0),
      .softcap = dt__imp_float(n, "softcap", 0.0),
      .smooth = dt__imp_int(n, "smooth_softmax", 0) == 1,
  };
  read_grouped(n, &a);
  if (dt__imp_failed(n))
    return;
  dt_value_t lengths = past_lengths(n, dt_dim(n->t, a.q, 2));
  if (dt__imp_int(n, "do_rotary", 0))
    rotate(n, &a, lengths);
  a.k = cached(n, PAST_K, a.k, lengths);
  a.v = cached(n, PAST_V, a.v, lengths);
  if (dt__imp_failed(n))
    return;
  keep_causal(n, &a, lengths);
  if (dt__imp_has(n, GQA_BIAS))
    add_bias(n, &a, widened(n, dt__imp_in(n, GQA_BIAS), dt_dim(n->t, a.k, 2)));
  dt__imp_out(n, 0, dt__imp_join_heads(n, dt__imp_attend(n, &a, NULL)));
  dt__imp_out(n, 1, a.k);
  dt__imp_out(n, 2, a.v);
}
