// SPDX-License-Identifier: Apache-2.0
// Recurrent networks: RNN, GRU, LSTM. What the inputs bring to all steps is one product outside of
// the loop; a step is a product of the hidden state (GRU: two where the reset gate comes first).
#include "frontends/onnx/import/loop.h"
#include "frontends/onnx/import/walk.h"

#include <ctype.h>
#include <string.h>

// ---- Activations ------------------------------------------------------------------------------------
typedef struct act_t act_t;
struct act_t {
  const char *name; // lower case
  dt_value_t (*make)(dt_trace_t *t, dt_value_t x, double alpha, double beta);
  bool has_alpha, has_beta;
  double alpha, beta;
};

static dt_value_t lit(dt_trace_t *t, dt_value_t like, double value) {
  return dt_scalar(t, dt_value_dtype(t, like), value);
}

static dt_value_t act_relu(dt_trace_t *t, dt_value_t x, double a, double b) {
  (void)a, (void)b;
  return dt_relu(t, x);
}
static dt_value_t act_tanh(dt_trace_t *t, dt_value_t x, double a, double b) {
  (void)a, (void)b;
  return dt_tanh(t, x);
}
static dt_value_t act_sigmoid(dt_trace_t *t, dt_value_t x, double a, double b) {
  (void)a, (void)b;
  return dt_sigmoid(t, x);
}
static dt_value_t act_affine(dt_trace_t *t, dt_value_t x, double a, double b) {
  return dt_add(t, dt_mul(t, x, lit(t, x, a)), lit(t, x, b));
}
static dt_value_t act_leaky(dt_trace_t *t, dt_value_t x, double a, double b) {
  (void)b;
  return dt_where(t, dt_lt(t, x, lit(t, x, 0)), dt_mul(t, x, lit(t, x, a)), x);
}
static dt_value_t act_threshold(dt_trace_t *t, dt_value_t x, double a, double b) {
  (void)b;
  return dt_where(t, dt_ge(t, x, lit(t, x, a)), x, lit(t, x, 0));
}
static dt_value_t act_scaled(dt_trace_t *t, dt_value_t x, double a, double b) {
  return dt_mul(t, dt_tanh(t, dt_mul(t, x, lit(t, x, b))), lit(t, x, a));
}
static dt_value_t act_hard(dt_trace_t *t, dt_value_t x, double a, double b) {
  return dt_minimum(t, dt_maximum(t, act_affine(t, x, a, b), lit(t, x, 0)), lit(t, x, 1));
}
static dt_value_t act_elu(dt_trace_t *t, dt_value_t x, double a, double b) {
  (void)b;
  return dt_where(t, dt_lt(t, x, lit(t, x, 0)), dt_mul(t, dt_expm1(t, x), lit(t, x, a)), x);
}
static dt_value_t act_softsign(dt_trace_t *t, dt_value_t x, double a, double b) {
  (void)a, (void)b;
  return dt_div(t, x, dt_add(t, dt_abs(t, x), lit(t, x, 1)));
}
// log(1 + e^x) without overflow: max(x, 0) + log(1 + e^-|x|).
static dt_value_t act_softplus(dt_trace_t *t, dt_value_t x, double a, double b) {
  (void)a, (void)b;
  return dt_add(t, dt_relu(t, x), dt_log1p(t, dt_exp(t, dt_neg(t, dt_abs(t, x)))));
}

static const act_t acts[] = {
    {"affine", act_affine, true, true, 1, 0},
    {"elu", act_elu, true, false, 1, 0},
    {"hardsigmoid", act_hard, true, true, 0.2, 0.5},
    {"leakyrelu", act_leaky, true, false, 0.01, 0},
    {"relu", act_relu, false, false, 0, 0},
    {"scaledtanh", act_scaled, true, true, 1.7159, 0.6667},
    {"sigmoid", act_sigmoid, false, false, 0, 0},
    {"softplus", act_softplus, false, false, 0, 0},
    {"softsign", act_softsign, false, false, 0, 0},
    {"tanh", act_tanh, false, false, 0, 0},
    {"thresholdedrelu", act_threshold, true, false, 1, 0},
};

static bool same_name(dt_onnx_str_t text, const char *lower) {
  for (size_t k = 0; k < text.len; k++)
    if (!lower[k] || tolower((unsigned char)text.at[k]) != lower[k])
      return false;
  return lower[text.len] == 0;
}

static const act_t *find_act(dt_onnx_str_t name) {
  for (size_t k = 0; k < sizeof(acts) / sizeof(acts[0]); k++)
    if (same_name(name, acts[k].name))
      return &acts[k];
  return NULL;
}

// ---- What a node is ---------------------------------------------------------------------------------
typedef enum kind_t { KIND_RNN, KIND_GRU, KIND_LSTM } kind_t;
static const uint32_t n_gates[] = {1, 3, 4}, n_acts[] = {1, 2, 3};

static const dt_onnx_strs_t *act_names(const dt_imp_node_t *n) {
  const dt_onnx_attribute_t *attr = dt__imp_find_attr(n->frame, n->node, "activations");
  return attr && attr->type == DT_ONNX_ATTR_STRINGS && attr->strings.len > 0 ? &attr->strings
                                                                             : NULL;
}

static const char *check(dt_imp_node_t *n, kind_t kind) {
  const dt_onnx_strs_t *names = act_names(n);
  bool both = dt__imp_str_is(n, "direction", "forward", "bidirectional");
  if (!both && !dt__imp_str_is(n, "direction", "forward", "forward") &&
      !dt__imp_str_is(n, "direction", "forward", "reverse"))
    return "attribute \"direction\" is none of forward, reverse, bidirectional";
  if (names && names->len != n_acts[kind] * (both ? 2 : 1))
    return "attribute \"activations\" has not one name for each function of each direction";
  for (uint32_t k = 0; names && k < names->len; k++)
    if (!find_act(names->items[k]))
      return "attribute \"activations\" names a function that is not known";
  return NULL;
}

const char *dt__imp_check_RNN(dt_imp_node_t *n) { return check(n, KIND_RNN); }
const char *dt__imp_check_GRU(dt_imp_node_t *n) { return check(n, KIND_GRU); }
const char *dt__imp_check_LSTM(dt_imp_node_t *n) { return check(n, KIND_LSTM); }

typedef struct dir_t { // one direction
  act_t act[3];
  bool reversed;
  dt_value_t x;       // [L, B, gates * H]: what the inputs bring, biases included
  dt_value_t r;       // [H, gates * H]
  dt_value_t peep[3]; // LSTM: [H] for i, o, f; none: id 0
  dt_value_t rb_h;    // GRU: bias of R for the hidden gate [H] where it is not in `x`; none: id 0
  dt_value_t h, c;    // at first, [B, H]
} dir_t;

typedef struct net_t {
  kind_t kind;
  uint32_t n_dirs, n_state; // n_state: of one direction
  bool batch_first, wants_y, input_forget, linear_before_reset;
  bool quantised; // weights are integers [D, columns, gates * H], scales and zero points inputs
  double clip;    // 0: none
  dt_sym_t length, batch, hidden;
  dt_value_t lengths; // [B, 1] i64; id 0: all are `length`
  dir_t dirs[2];
} net_t;

static void read_acts(dt_imp_node_t *n, net_t *net) {
  static const char *const defaults[][3] = {
      {"tanh"}, {"sigmoid", "tanh"}, {"sigmoid", "tanh", "tanh"}};
  const dt_onnx_strs_t *names = act_names(n);
  dt_imp_reals_t alphas, betas;
  uint32_t alpha = 0, beta = 0;
  (void)dt__imp_attr_floats(n, "activation_alpha", &alphas);
  (void)dt__imp_attr_floats(n, "activation_beta", &betas);
  for (uint32_t k = 0; k < net->n_dirs * n_acts[net->kind]; k++) {
    uint32_t which = k % n_acts[net->kind];
    const char *usual = defaults[net->kind][which];
    dt_onnx_str_t name = names ? names->items[k] : (dt_onnx_str_t){usual, strlen(usual)};
    act_t *act = &net->dirs[k / n_acts[net->kind]].act[which];
    *act = *find_act(name); // the check has seen it
    if (act->has_alpha && alpha < alphas.len)
      act->alpha = alphas.items[alpha++];
    if (act->has_beta && beta < betas.len)
      act->beta = betas.items[beta++];
  }
}

// ---- A step -----------------------------------------------------------------------------------------
typedef struct step_t {
  dt_imp_node_t *n;
  const net_t *net;
  const dir_t *dir;
  dt_value_t x, h, c; // x: [B, gates * H]
} step_t;

static dt_value_t gate(const step_t *s, dt_value_t all, uint32_t first, uint32_t count) {
  dt_sym_t at = dt_sym_mul(s->n->t, s->net->hidden, dt_sym_const(s->n->t, first));
  dt_sym_t size = dt_sym_mul(s->n->t, s->net->hidden, dt_sym_const(s->n->t, count));
  return dt_slice(s->n->t, all, -1, at, size, 1);
}

static dt_value_t apply(const step_t *s, uint32_t which, dt_value_t x) {
  dt_trace_t *t = s->n->t;
  const act_t *act = &s->dir->act[which];
  if (s->net->clip > 0)
    x = dt_minimum(t, dt_maximum(t, x, lit(t, x, -s->net->clip)), lit(t, x, s->net->clip));
  return act->make(t, x, act->alpha, act->beta);
}

static dt_value_t step_rnn(step_t *s) {
  dt_trace_t *t = s->n->t;
  return apply(s, 0, dt_add(t, s->x, dt_matmul(t, s->h, s->dir->r)));
}

// Gates stand in the order update (z), reset (r), hidden (h).
static dt_value_t step_gru(step_t *s) {
  dt_trace_t *t = s->n->t;
  dt_value_t hidden = {0}, both;
  if (s->net->linear_before_reset) {
    dt_value_t all = dt_matmul(t, s->h, s->dir->r);
    both = gate(s, all, 0, 2);
    hidden = gate(s, all, 2, 1);
    if (s->dir->rb_h.id)
      hidden = dt_add(t, hidden, s->dir->rb_h);
  } else {
    both = dt_matmul(t, s->h, gate(s, s->dir->r, 0, 2));
  }
  both = apply(s, 0, dt_add(t, gate(s, s->x, 0, 2), both));
  dt_value_t z = gate(s, both, 0, 1), r = gate(s, both, 1, 1);
  hidden = s->net->linear_before_reset ? dt_mul(t, r, hidden)
                                       : dt_matmul(t, dt_mul(t, r, s->h), gate(s, s->dir->r, 2, 1));
  hidden = apply(s, 1, dt_add(t, gate(s, s->x, 2, 1), hidden));
  return dt_add(t, dt_mul(t, dt_sub(t, lit(t, z, 1), z), hidden), dt_mul(t, z, s->h));
}

static dt_value_t peeped(const step_t *s, dt_value_t x, uint32_t which, dt_value_t c) {
  dt_trace_t *t = s->n->t;
  dt_value_t p = s->dir->peep[which];
  return p.id ? dt_add(t, x, dt_mul(t, p, c)) : x;
}

// Gates stand in the order input (i), output (o), forget (f), cell (c).
static dt_value_t step_lstm(step_t *s) {
  dt_trace_t *t = s->n->t;
  dt_value_t all = dt_add(t, s->x, dt_matmul(t, s->h, s->dir->r));
  dt_value_t i = apply(s, 0, peeped(s, gate(s, all, 0, 1), 0, s->c));
  dt_value_t f = s->net->input_forget ? dt_sub(t, lit(t, i, 1), i)
                                      : apply(s, 0, peeped(s, gate(s, all, 2, 1), 2, s->c));
  dt_value_t made = apply(s, 1, gate(s, all, 3, 1));
  s->c = dt_add(t, dt_mul(t, f, s->c), dt_mul(t, i, made));
  dt_value_t o = apply(s, 0, peeped(s, gate(s, all, 1, 1), 1, s->c));
  const act_t *act = &s->dir->act[2];
  return dt_mul(t, o, act->make(t, s->c, act->alpha, act->beta));
}

// One direction, of a net.
typedef struct run_t {
  const net_t *net;
  const dir_t *dir;
} run_t;

static void make_step(dt_imp_node_t *n, void *user, dt_imp_trip_t *trip) {
  static dt_value_t (*const steps[])(step_t *s) = {step_rnn, step_gru, step_lstm};
  const run_t *run = user;
  const net_t *net = run->net;
  const dir_t *dir = run->dir;
  const dt_value_t *state = trip->state;
  step_t s = {.n = n, .net = net, .dir = dir, .h = state[0]};
  dt_value_t old_c = s.c = net->n_state > 1 ? state[1] : (dt_value_t){0};
  s.x = dt__imp_loop_row(n, trip, dir->x, 0, dir->reversed, net->length);
  dt_value_t h = steps[net->kind](&s), row = h;
  if (net->lengths.id) {
    dt_sym_t last = dt_sym_sub(n->t, net->length, dt_sym_const(n->t, 1));
    dt_value_t at =
        dir->reversed ? dt_sub(n->t, dt_size_value(n->t, last), trip->index) : trip->index;
    dt_value_t inside = dt_lt(n->t, at, net->lengths);
    row = dt_where(n->t, inside, h, lit(n->t, h, 0));
    h = dt_where(n->t, inside, h, state[0]);
    if (old_c.id)
      s.c = dt_where(n->t, inside, s.c, old_c);
  }
  trip->next[0] = h;
  if (old_c.id)
    trip->next[1] = s.c;
  if (net->wants_y)
    trip->rows[0] = row;
}

// Directions run one after the other, so that the weights of a step stay in the cache from step to
// step.
static bool run_dir(dt_imp_node_t *n, const net_t *net, uint32_t d, dt_value_t *out_state,
                    dt_value_t *out_rows) {
  const dir_t *dir = &net->dirs[d];
  run_t run = {net, dir};
  const dt_value_t init[2] = {dir->h, dir->c};
  const dt_imp_loop_t loop = {.body = make_step,
                              .user = &run,
                              .n_state = net->n_state,
                              .n_rows = net->wants_y,
                              .init = init,
                              .bound = net->length,
                              .reversed = &dir->reversed,
                              .like = &dir->h,
                              .unrolled = 1};
  return dt__imp_loop(n, &loop, out_state, out_rows, NULL);
}

// ---- Inputs -----------------------------------------------------------------------------------------
// Part `d` of the first dim.
static dt_value_t part(dt_imp_node_t *n, dt_value_t x, uint32_t d) {
  dt_value_t cut = dt_slice(n->t, x, 0, dt_sym_const(n->t, d), dt_sym_const(n->t, 1), 1);
  return dt_squeeze(n->t, cut, 0);
}

static dt_value_t cut(dt_imp_node_t *n, const net_t *net, dt_value_t x, uint32_t first,
                      uint32_t count) {
  return dt_slice(n->t, x, -1, dt_sym_mul(n->t, net->hidden, dt_sym_const(n->t, first)),
                  dt_sym_mul(n->t, net->hidden, dt_sym_const(n->t, count)), 1);
}

// W (input 1) or R (input 2) as [columns, gates * H].
static dt_value_t weights_of(dt_imp_node_t *n, const net_t *net, uint32_t k, uint32_t d) {
  dt_trace_t *t = n->t;
  dt_value_t w = part(n, dt__imp_in(n, k), d);
  if (!net->quantised)
    return dt_transpose(t, w, 0, 1);
  uint32_t at = k == 1 ? 8 : 10; // its scale, one or one a column; then its zero point
  dt_dtype_t dtype = dt__imp_dtype(n, at);
  dt_value_t zero = dt_cast(t, part(n, dt__imp_in(n, at + 1), d), dtype);
  return dt_mul(t, dt_sub(t, dt_cast(t, w, dtype), zero), part(n, dt__imp_in(n, at), d));
}

// Both biases as one, but what GRU adds behind the reset gate.
static dt_value_t bias_of(dt_imp_node_t *n, const net_t *net, uint32_t d, dt_value_t *out_rb_h) {
  uint32_t gates = n_gates[net->kind];
  dt_value_t all = part(n, dt__imp_in(n, 3), d); // [2 * gates * H]
  dt_value_t wb = cut(n, net, all, 0, gates), rb = cut(n, net, all, gates, gates);
  if (!net->linear_before_reset)
    return dt_add(n->t, wb, rb);
  *out_rb_h = cut(n, net, rb, 2, 1);
  dt_value_t parts[2] = {dt_add(n->t, cut(n, net, wb, 0, 2), cut(n, net, rb, 0, 2)),
                         cut(n, net, wb, 2, 1)};
  return dt_concat(n->t, 2, parts, 0);
}

// State at first: input k [D, B, H], batch first if the net is so; 0 without it.
static dt_value_t first_state(dt_imp_node_t *n, const net_t *net, uint32_t k, uint32_t d) {
  dt_sym_t sizes[2] = {net->batch, net->hidden};
  if (!dt__imp_has(n, k))
    return dt_full(n->t, dt__imp_dtype(n, 0), 0, 2, sizes);
  dt_value_t all = dt__imp_in(n, k);
  return part(n, net->batch_first ? dt_transpose(n->t, all, 0, 1) : all, d);
}

static void read_dir(dt_imp_node_t *n, net_t *net, uint32_t d, dt_value_t x) {
  dir_t *dir = &net->dirs[d];
  dir->reversed = d == 1 || dt__imp_str_is(n, "direction", "forward", "reverse");
  dir->x = dt_matmul(n->t, x, weights_of(n, net, 1, d));
  dir->r = weights_of(n, net, 2, d);
  if (dt__imp_has(n, 3))
    dir->x = dt_add(n->t, dir->x, bias_of(n, net, d, &dir->rb_h));
  dir->h = first_state(n, net, 5, d);
  if (net->kind != KIND_LSTM)
    return;
  dir->c = first_state(n, net, 6, d);
  dt_value_t peeps = dt__imp_has(n, 7) ? part(n, dt__imp_in(n, 7), d) : (dt_value_t){0};
  for (uint32_t k = 0; k < 3 && peeps.id; k++)
    dir->peep[k] = cut(n, net, peeps, k, 1);
}

static bool read_net(dt_imp_node_t *n, kind_t kind, bool quantised, net_t *net) {
  dt_value_t x = dt__imp_in(n, 0), r = dt__imp_in(n, 2);
  if (dt__imp_failed(n))
    return false;
  if (dt__imp_rank(n, 0) != 3 || dt__imp_rank(n, 1) != 3 || dt__imp_rank(n, 2) != 3) {
    dt__imp_fail(n, DT_E_SHAPE, "X, W and R have ranks %u, %u and %u; expected 3",
                 dt__imp_rank(n, 0), dt__imp_rank(n, 1), dt__imp_rank(n, 2));
    return false;
  }
  net->kind = kind;
  net->quantised = quantised;
  net->n_dirs = dt__imp_str_is(n, "direction", "forward", "bidirectional") ? 2 : 1;
  net->n_state = kind == KIND_LSTM ? 2 : 1;
  net->batch_first = dt__imp_int(n, "layout", 0) != 0;
  net->wants_y = dt__imp_wants(n, 0);
  net->input_forget = dt__imp_int(n, "input_forget", 0) != 0;
  net->linear_before_reset = kind == KIND_GRU && dt__imp_int(n, "linear_before_reset", 0) != 0;
  net->clip = dt__imp_float(n, "clip", 0);
  if (net->batch_first)
    x = dt_transpose(n->t, x, 0, 1);
  net->length = dt_dim(n->t, x, 0);
  net->batch = dt_dim(n->t, x, 1);
  net->hidden = dt_dim(n->t, r, net->quantised ? 1 : 2);
  if (dt__imp_has(n, 4))
    net->lengths = dt_unsqueeze(n->t, dt_cast(n->t, dt__imp_in(n, 4), DT_I64), 1);
  read_acts(n, net);
  for (uint32_t d = 0; d < net->n_dirs; d++)
    read_dir(n, net, d, x);
  return !dt__imp_failed(n);
}

// ---- Outputs ----------------------------------------------------------------------------------------
// Values of the directions, joined at a new dim `axis`.
static dt_value_t join(dt_imp_node_t *n, uint32_t count, const dt_value_t *parts, uint32_t step,
                       int32_t axis) {
  dt_value_t each[2];
  for (uint32_t d = 0; d < count; d++)
    each[d] = dt_unsqueeze(n->t, parts[d * step], axis);
  return count == 1 ? each[0] : dt_concat(n->t, count, each, axis);
}

static void make(dt_imp_node_t *n, kind_t kind, bool quantised) {
  net_t *net = DT_IMP_ARRAY(n, net_t, 1);
  dt_value_t state[4], rows[2];
  if (!net || !read_net(n, kind, quantised, net))
    return;
  for (uint32_t d = 0; d < net->n_dirs; d++)
    if (!run_dir(n, net, d, state + (size_t)d * net->n_state, rows + d))
      return;
  if (net->wants_y) {
    dt_value_t y = join(n, net->n_dirs, rows, 1, 1); // [L, D, B, H]
    const int32_t order[4] = {2, 0, 1, 3};
    dt__imp_out(n, 0, net->batch_first ? dt_permute(n->t, y, order) : y);
  }
  for (uint32_t k = 0; k < net->n_state; k++)
    if (dt__imp_wants(n, k + 1))
      dt__imp_out(n, k + 1,
                  join(n, net->n_dirs, state + k, net->n_state, net->batch_first ? 1 : 0));
}

void dt__imp_make_RNN(dt_imp_node_t *n) { make(n, KIND_RNN, false); }
void dt__imp_make_GRU(dt_imp_node_t *n) { make(n, KIND_GRU, false); }
void dt__imp_make_LSTM(dt_imp_node_t *n) { make(n, KIND_LSTM, false); }
// Of com.microsoft. Inputs and states stay floats: nearer to the model than was quantised.
void dt__imp_make_DynamicQuantizeLSTM(dt_imp_node_t *n) { make(n, KIND_LSTM, true); }
