// SPDX-License-Identifier: Apache-2.0
// Losses, and steps of training that need no gradient of the model's own.
#include "frontends/onnx/import/compute.h"

// ---- Losses of classes ------------------------------------------------------------------------------
typedef struct targets_t {
  dt_value_t index;   // of the class, 0 where ignored
  dt_value_t ignored; // bool; id 0: none is
} targets_t;

static targets_t read_targets(dt_imp_node_t *n) {
  targets_t made = {.index = dt__imp_in(n, 1)};
  if (!dt__imp_has_attr(n, "ignore_index"))
    return made;
  dt_value_t ignore = dt__imp_like(n, made.index, (double)dt__imp_int(n, "ignore_index", 0));
  made.ignored = dt_eq(n->t, made.index, ignore);
  made.index = dt_where(n->t, made.ignored, dt__imp_like(n, made.index, 0), made.index);
  return made;
}

static dt_value_t unless_ignored(dt_imp_node_t *n, const targets_t *targets, dt_value_t x) {
  return targets->ignored.id ? dt_where(n->t, targets->ignored, dt__imp_like(n, x, 0), x) : x;
}

// x[i, index[i, …], …]
static dt_value_t picked(dt_imp_node_t *n, dt_value_t x, dt_value_t index) {
  dt_value_t made = dt_gather_elements(n->t, x, dt_unsqueeze(n->t, index, 1), 1);
  return dt_squeeze(n->t, made, 1);
}

// The weight of each target; id 0: all are 1.
static dt_value_t weights(dt_imp_node_t *n, const targets_t *targets, dt_value_t x) {
  if (dt__imp_has(n, 2))
    return unless_ignored(n, targets, dt_gather(n->t, dt__imp_in_wide(n, 2), targets->index, 0));
  if (!targets->ignored.id)
    return targets->ignored;
  return dt_cast(n->t, dt_logical_not(n->t, targets->ignored), dt_value_dtype(n->t, x));
}

static dt_value_t reduced(dt_imp_node_t *n, dt_value_t loss, dt_value_t weight) {
  if (dt__imp_str_is(n, "reduction", "mean", "none"))
    return loss;
  if (dt__imp_str_is(n, "reduction", "mean", "mean") && !weight.id)
    return dt_mean(n->t, loss, 0, NULL, false);
  dt_value_t sum = dt_sum(n->t, loss, 0, NULL, false);
  return dt__imp_str_is(n, "reduction", "mean", "sum")
             ? sum
             : dt_div(n->t, sum, dt_sum(n->t, weight, 0, NULL, false));
}

const char *dt__imp_check_loss(dt_imp_node_t *n) {
  static const char *const known[] = {"none", "sum", "mean"};
  for (uint32_t k = 0; k < 3; k++)
    if (dt__imp_str_is(n, "reduction", "mean", known[k]))
      return NULL;
  return "attribute \"reduction\" is neither \"none\", \"sum\" nor \"mean\"";
}

// Of logarithms of probabilities.
static void loss_of(dt_imp_node_t *n, dt_value_t x) {
  targets_t targets = read_targets(n);
  if (dt__imp_failed(n))
    return;
  if (dt_value_rank(n->t, x) < 2) {
    dt__imp_fail(n, DT_E_SHAPE, "input 0 has rank %u; expected 2 or more", dt_value_rank(n->t, x));
    return;
  }
  dt_value_t weight = weights(n, &targets, x);
  dt_value_t loss = dt_neg(n->t, picked(n, x, targets.index));
  if (dt__imp_has(n, 2))
    loss = dt_mul(n->t, loss, weight);
  loss = unless_ignored(n, &targets, loss);
  dt__imp_out_as(n, 0, reduced(n, loss, weight), dt__imp_dtype(n, 0));
}

void dt__imp_make_NegativeLogLikelihoodLoss(dt_imp_node_t *n) { loss_of(n, dt__imp_in_wide(n, 0)); }

void dt__imp_make_SoftmaxCrossEntropyLoss(dt_imp_node_t *n) {
  dt_value_t x = dt_log_softmax(n->t, dt__imp_in_wide(n, 0), 1);
  loss_of(n, x);
  if (dt__imp_wants(n, 1))
    dt__imp_out_as(n, 1, x, dt__imp_dtype(n, 0));
}

// ---- Steps of training ------------------------------------------------------------------------------
// Inputs are R, T, and then groups of as many tensors each: the parameters, their gradients, and
// `n_states` of state. The next parameters and states come out, group after group.
typedef struct step_t {
  dt_value_t rate, count; // R and T, of the parameter's dtype
  dt_value_t x, g, state[2];
} step_t;

typedef dt_value_t (*step_fn_t)(dt_imp_node_t *n, step_t *s); // the next x; state is replaced

static void train(dt_imp_node_t *n, uint32_t n_states, step_fn_t step) {
  uint32_t len = (dt__imp_n_in(n) - 2) / (2 + n_states);
  if (dt__imp_n_in(n) != 2 + len * (2 + n_states)) {
    dt__imp_fail(n, DT_E_FORMAT, "%u inputs; expected 2 and %u for each parameter", dt__imp_n_in(n),
                 2 + n_states);
    return;
  }
  for (uint32_t k = 0; k < len && !dt__imp_failed(n); k++) {
    dt_dtype_t dtype = dt__imp_dtype(n, 2 + k);
    step_t s = {.rate = dt_cast(n->t, dt__imp_in(n, 0), dtype),
                .count = dt_cast(n->t, dt__imp_in(n, 1), dtype),
                .x = dt__imp_in(n, 2 + k),
                .g = dt__imp_in(n, 2 + len + k)};
    for (uint32_t i = 0; i < n_states; i++)
      s.state[i] = dt__imp_in(n, 2 + (2 + i) * len + k);
    dt__imp_out(n, k, step(n, &s));
    for (uint32_t i = 0; i < n_states; i++)
      dt__imp_out(n, (1 + i) * len + k, s.state[i]);
  }
}

static dt_value_t times(dt_imp_node_t *n, double by, dt_value_t x) {
  return dt_mul(n->t, dt__imp_like(n, x, by), x);
}

// The gradient with that of the norm's square.
static dt_value_t regular(dt_imp_node_t *n, const step_t *s) {
  double norm = dt__imp_float(n, "norm_coefficient", 0);
  return norm == 0 ? s->g : dt_add(n->t, times(n, norm, s->x), s->g);
}

static dt_value_t root(dt_imp_node_t *n, dt_value_t x) { // sqrt(x) + epsilon
  return dt_add(n->t, dt_sqrt(n->t, x), dt__imp_like(n, x, dt__imp_float(n, "epsilon", 0)));
}

static dt_value_t adagrad(dt_imp_node_t *n, step_t *s) {
  dt_trace_t *t = n->t;
  dt_value_t one = dt__imp_like(n, s->rate, 1), g = regular(n, s);
  dt_value_t decay = times(n, dt__imp_float(n, "decay_factor", 0), s->count);
  dt_value_t rate = dt_div(t, s->rate, dt_add(t, one, decay));
  s->state[0] = dt_add(t, s->state[0], dt_mul(t, g, g));
  return dt_sub(t, s->x, dt_div(t, dt_mul(t, rate, g), root(n, s->state[0])));
}

// 1 - by^count
static dt_value_t bias(dt_imp_node_t *n, const step_t *s, double by) {
  dt_value_t power = dt_pow(n->t, dt__imp_like(n, s->count, by), s->count);
  return dt_sub(n->t, dt__imp_like(n, s->count, 1), power);
}

static dt_value_t adam(dt_imp_node_t *n, step_t *s) {
  dt_trace_t *t = n->t;
  double alpha = dt__imp_float(n, "alpha", (double)0.9F);
  double beta = dt__imp_float(n, "beta", (double)0.999F);
  double post = dt__imp_float(n, "norm_coefficient_post", 0);
  dt_value_t g = regular(n, s), square = dt_mul(t, g, g);
  s->state[0] = dt_add(t, times(n, alpha, s->state[0]), times(n, 1 - alpha, g));
  s->state[1] = dt_add(t, times(n, beta, s->state[1]), times(n, 1 - beta, square));
  dt_value_t better =
      dt_div(t, dt_mul(t, s->rate, dt_sqrt(t, bias(n, s, beta))), bias(n, s, alpha));
  dt_value_t later = dt_gt(t, s->count, dt__imp_like(n, s->count, 0));
  dt_value_t rate = dt_where(t, later, better, s->rate);
  dt_value_t way = dt_mul(t, rate, dt_div(t, s->state[0], root(n, s->state[1])));
  return times(n, 1 - post, dt_sub(t, s->x, way));
}

static dt_value_t momentum(dt_imp_node_t *n, step_t *s) {
  dt_trace_t *t = n->t;
  double alpha = dt__imp_float(n, "alpha", 0);
  dt_value_t g = regular(n, s), one = dt__imp_like(n, s->count, 1);
  dt_value_t beta = dt__imp_like(n, s->count, dt__imp_float(n, "beta", 0));
  dt_value_t later = dt_gt(t, s->count, dt__imp_like(n, s->count, 0));
  dt_value_t share = dt_mul(t, dt_where(t, later, beta, one), g);
  s->state[0] = dt_add(t, times(n, alpha, s->state[0]), share);
  bool nesterov = dt__imp_str_is(n, "mode", "standard", "nesterov");
  dt_value_t way = nesterov ? dt_add(t, g, times(n, alpha, s->state[0])) : s->state[0];
  return dt_sub(t, s->x, dt_mul(t, s->rate, way));
}

const char *dt__imp_check_Momentum(dt_imp_node_t *n) {
  return dt__imp_str_is(n, "mode", "standard", "standard") ||
                 dt__imp_str_is(n, "mode", "standard", "nesterov")
             ? NULL
             : "attribute \"mode\" is neither \"standard\" nor \"nesterov\"";
}

void dt__imp_make_Adagrad(dt_imp_node_t *n) { train(n, 1, adagrad); }
void dt__imp_make_Adam(dt_imp_node_t *n) { train(n, 2, adam); }
void dt__imp_make_Momentum(dt_imp_node_t *n) { train(n, 1, momentum); }
