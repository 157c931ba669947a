// SPDX-License-Identifier: Apache-2.0
// LinearAttention: a state that each position changes and reads, one after another.
#include "frontends/onnx/import/attention.h"
#include "frontends/onnx/import/loop.h"

#include <math.h>

enum { QUERY, KEY, VALUE, PAST, DECAY, BETA };
static const char *const rules[] = {"linear", "gated", "delta", "gated_delta"};

static int find_rule(dt_imp_node_t *n) {
  for (int k = 0; k < 4; k++)
    if (dt__imp_str_is(n, "update_rule", "gated_delta", rules[k]))
      return k;
  return -1;
}

static bool is_gated(int rule) { return rule == 1 || rule == 3; }
static bool is_delta(int rule) { return rule >= 2; }

const char *dt__imp_check_LinearAttention(dt_imp_node_t *n) {
  int64_t heads = dt__imp_int(n, "q_num_heads", 0), shared = dt__imp_int(n, "kv_num_heads", 0);
  int rule = find_rule(n);
  if (rule < 0)
    return "attribute \"update_rule\" has a value that is not known";
  if (heads < 1 || shared < 1 || heads % shared != 0)
    return "attribute \"q_num_heads\" is no multiple of \"kv_num_heads\"";
  if (is_gated(rule) != dt__imp_has(n, DECAY) || is_delta(rule) != dt__imp_has(n, BETA))
    return "the update rule takes other inputs";
  return NULL;
}

// All is [batch, heads, length, …], in f32.
typedef struct linear_t {
  dt_value_t q, k, v, decay, beta;
  dt_sym_t length;
  dt_sym_t heads, shared, each; // heads = shared * each
} linear_t;

static dt_value_t heads_of(dt_imp_node_t *n, uint32_t k, int64_t heads) {
  return dt__imp_split_heads(n, dt__imp_as(n, dt__imp_in(n, k), DT_F32), heads);
}

// [batch, length, heads or 1, or heads * head].
static dt_value_t read_decay(dt_imp_node_t *n, int64_t heads) {
  return dt__imp_has(n, DECAY) ? heads_of(n, DECAY, heads) : (dt_value_t){0};
}

static dt_value_t read_beta(dt_imp_node_t *n, int64_t heads) {
  if (!dt__imp_has(n, BETA) || dt__imp_failed(n))
    return (dt_value_t){0};
  // One number for all heads, or one a head: a size that may be both is asked for.
  dt_sym_t last = dt_dim(n->t, dt__imp_in(n, BETA), -1), one = dt_sym_const(n->t, 1);
  return heads_of(n, BETA, dt_sym_guard_or(n->t, dt_sym_eq(n->t, last, one), false) ? 1 : heads);
}

static dt_value_t row(dt_imp_node_t *n, const dt_imp_trip_t *trip, const linear_t *l,
                      dt_value_t x) {
  return dt__imp_loop_row(n, trip, x, 2, false, l->length);
}

// sum over the state's rows of state * x: [batch, heads, head of v].
static dt_value_t retrieve(dt_imp_node_t *n, dt_value_t state, dt_value_t x) {
  const int32_t rows = -2;
  return dt_sum(n->t, dt_mul(n->t, state, dt_unsqueeze(n->t, x, -1)), 1, &rows, false);
}

// What the queries' heads read, several for one state.
static dt_value_t read_state(dt_imp_node_t *n, const linear_t *l, dt_value_t state, dt_value_t q) {
  dt_sym_t sizes[DT_MAX_RANK];
  if (dt__imp_shape(n, q, sizes) != 3)
    return q;
  const dt_sym_t split[] = {sizes[0], l->shared, l->each, sizes[2]};
  dt_value_t y = retrieve(n, dt_unsqueeze(n->t, state, 2), dt_reshape(n->t, q, 4, split));
  const dt_sym_t joined[] = {sizes[0], l->heads, dt_dim(n->t, y, -1)};
  return dt_reshape(n->t, y, 3, joined);
}

static void step(dt_imp_node_t *n, void *user, dt_imp_trip_t *trip) {
  const linear_t *l = user;
  dt_value_t state = trip->state[0], k = row(n, trip, l, l->k), v = row(n, trip, l, l->v);
  if (l->decay.id) {
    dt_value_t kept = dt_exp(n->t, row(n, trip, l, l->decay));
    state = dt_mul(n->t, state, dt_unsqueeze(n->t, kept, -1));
  }
  if (l->beta.id)
    v = dt_mul(n->t, row(n, trip, l, l->beta), dt_sub(n->t, v, retrieve(n, state, k)));
  dt_value_t product = dt_mul(n->t, dt_unsqueeze(n->t, k, -1), dt_unsqueeze(n->t, v, -2));
  state = dt_add(n->t, state, product);
  trip->next[0] = state;
  trip->rows[0] = read_state(n, l, state, row(n, trip, l, l->q));
}

static dt_value_t first_state(dt_imp_node_t *n, const linear_t *l) {
  if (dt__imp_has(n, PAST))
    return dt__imp_as(n, dt__imp_in(n, PAST), DT_F32);
  const dt_sym_t sizes[] = {dt_dim(n->t, l->q, 0), l->shared, dt_dim(n->t, l->k, 3),
                            dt_dim(n->t, l->v, 3)};
  return dt_full(n->t, DT_F32, 0.0, 4, sizes);
}

static dt_value_t scaled(dt_imp_node_t *n, double scale, dt_value_t x, dt_sym_t head) {
  int64_t size = 0;
  if (scale != 0.0)
    return dt__imp_times(n, x, scale);
  if (dt_sym_constant(n->t, head, &size) && size > 0)
    return dt__imp_times(n, x, 1.0 / sqrt((double)size));
  return dt_mul(n->t, x, dt_rsqrt(n->t, dt_cast(n->t, dt_size_value(n->t, head), DT_F32)));
}

void dt__imp_make_LinearAttention(dt_imp_node_t *n) {
  static const int32_t order[] = {1, 2, 0, 3}; // from [length, batch, heads, head]
  int64_t heads = dt__imp_int(n, "q_num_heads", 1), shared = dt__imp_int(n, "kv_num_heads", 1);
  linear_t l = {
      .q = heads_of(n, QUERY, heads),
      .k = heads_of(n, KEY, shared),
      .v = heads_of(n, VALUE, shared),
      .decay = read_decay(n, shared),
      .beta = read_beta(n, shared),
      .heads = dt__imp_lit(n, heads),
      .shared = dt__imp_lit(n, shared),
      .each = dt__imp_lit(n, heads / shared),
  };
  if (dt__imp_failed(n))
    return;
  l.length = dt_dim(n->t, l.q, 2);
  l.q = scaled(n, dt__imp_float(n, "scale", 0.0), l.q, dt_dim(n->t, l.q, 3));
  dt_value_t init = first_state(n, &l), state = {0}, rows = {0};
  const dt_imp_loop_t loop = {
      .body = step, .user = &l, .n_state = 1, .n_rows = 1, .init = &init, .bound = l.length};
  if (!dt__imp_loop(n, &loop, &state, &rows, NULL))
    return;
  dt_dtype_t dtype = dt__imp_dtype(n, QUERY);
  dt_value_t y = dt__imp_join_heads(n, dt_permute(n->t, rows, order));
  dt__imp_out(n, 0, dt__imp_as(n, y, dtype));
  dt__imp_out(n, 1, dt__imp_as(n, state, dt__imp_has(n, PAST) ? dt__imp_dtype(n, PAST) : dtype));
}
