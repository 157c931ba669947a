// SPDX-License-Identifier: Apache-2.0
// A selective state space layer: h[i] = exp(-delta[i] decay) h[i-1] + delta[i] u[i] b[i] for each
// channel and state, and y[i] = the sum of h[i] c[i] over the states (Gu and Dao, "Mamba", 2023).
// The recurrence is one associative scan. docs/passes.md explains it.
#include "ductile/ductile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define CHANNELS 3
#define STATES 4

static void must(dt_status_t status) {
  if (!status)
    return;
  fprintf(stderr, "%s\n", dt_status_message(status));
  exit(1);
}

// ---- The program --------------------------------------------------------------------------------
// (a1, b1) and then (a2, b2): h becomes a2 (a1 h + b1) + b2.
static dt_status_t join(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_mul(t, in[0], in[2]);
  out[1] = dt_add(t, dt_mul(t, in[2], in[1]), in[3]);
  return NULL;
}

// u, delta: [batch, length, channels]; decay: [channels, states]; b, c: [batch, length, states].
static dt_status_t layer(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const int32_t last = 3, before_last = 2;
  dt_value_t delta = dt_unsqueeze(t, dt_log1p(t, dt_exp(t, in[1])), last);
  dt_value_t b = dt_unsqueeze(t, in[3], before_last), c = dt_unsqueeze(t, in[4], before_last);
  dt_value_t pair[2], h[2];
  (void)closure;
  pair[0] = dt_exp(t, dt_neg(t, dt_mul(t, delta, in[2])));
  pair[1] = dt_mul(t, dt_mul(t, delta, dt_unsqueeze(t, in[0], last)), b);
  dt_associative_scan(t, join, NULL, 2, pair, 1, 0, h);
  out[0] = dt_sum(t, dt_mul(t, h[1], c), 1, &last, false);
  return NULL;
}

// ---- The same by hand ---------------------------------------------------------------------------
static float softplus(float x) { return log1pf(expf(x)); }

static const float *numbers(dt_tensor_t *tensor) { return (const float *)dt_tensor_data(tensor); }

static float by_hand(dt_tensor_t *const *in, int64_t batch, int64_t length, int64_t channel) {
  const float *u = numbers(in[0]), *delta = numbers(in[1]), *decay = numbers(in[2]);
  const float *b = numbers(in[3]), *c = numbers(in[4]);
  float h[STATES] = {0}, y = 0;
  for (int64_t i = 0; i < length; i++) {
    int64_t at = (batch * length + i) * CHANNELS + channel, row = (batch * length + i) * STATES;
    float step = softplus(delta[at]);
    y = 0;
    for (int64_t s = 0; s < STATES; s++) {
      h[s] = expf(-step * decay[channel * STATES + s]) * h[s] + step * u[at] * b[row + s];
      y += h[s] * c[row + s];
    }
  }
  return y;
}

// ---- Calls --------------------------------------------------------------------------------------
static dt_tensor_t *waves(uint32_t rank, const int64_t *sizes, float pitch) {
  dt_tensor_t *tensor = NULL;
  must(dt_tensor_create_empty(DT_F32, rank, sizes, &tensor));
  for (int64_t k = 0; k < dt_tensor_count(tensor); k++)
    ((float *)dt_tensor_data(tensor))[k] = fabsf(sinf(pitch * (float)(k + 1)));
  return tensor;
}

static void call(dt_session_t *session, dt_function_t *function, int64_t batch, int64_t length) {
  static const int64_t of_decay[] = {CHANNELS, STATES};
  const int64_t of_channels[] = {batch, length, CHANNELS}, of_states[] = {batch, length, STATES};
  dt_tensor_t *in[] = {waves(3, of_channels, 0.3F), waves(3, of_channels, 0.7F),
                       waves(2, of_decay, 1.1F), waves(3, of_states, 0.5F),
                       waves(3, of_states, 0.9F)};
  dt_tensor_t *y = NULL;
  must(dt_call(session, function, in, 5, &y, 1, NULL));
  float last = ((const float *)dt_tensor_data(y))[dt_tensor_count(y) - 1];
  float expected = by_hand(in, batch - 1, length, CHANNELS - 1);
  printf("%d x %4d: last %.4f, %s\n", (int)batch, (int)length, (double)last,
         fabsf(last - expected) <= 1e-4F * fabsf(expected) ? "as by hand" : "not as by hand");
  for (int k = 0; k < 5; k++)
    dt_tensor_release(in[k]);
  dt_tensor_release(y);
}

int main(void) {
  dt_dim_decl_t dims[3] = DT_ZERO, rows[3] = DT_ZERO, table[2] = DT_ZERO;
  dims[0].name = "batch", dims[1].name = "length", dims[2].name = "channels";
  rows[0].name = "batch", rows[1].name = "length", rows[2].name = "states";
  table[0].name = "channels", table[1].name = "states";
  static const char *const names[] = {"u", "delta", "decay", "b", "c"};
  dt_input_decl_t inputs[5] = DT_ZERO;
  for (int k = 0; k < 5; k++) {
    inputs[k].name = names[k];
    inputs[k].dtype = DT_F32;
    inputs[k].rank = k == 2 ? 2 : 3;
    inputs[k].dims = k == 2 ? table : k < 2 ? dims : rows;
  }
  dt_function_options_t options = DT_ZERO;
  options.struct_size = sizeof options;
  options.name = "state_space";
  options.n_inputs = 5;
  options.n_outputs = 1;
  options.inputs = inputs;
  options.input_size = sizeof inputs[0];
  options.dim_size = sizeof dims[0];
  dt_runtime_t *runtime = NULL;
  dt_session_t *session = NULL;
  dt_function_t *function = NULL;
  must(dt_runtime_create(NULL, &runtime));
  must(dt_session_create(runtime, NULL, &session));
  must(dt_function_create(runtime, layer, NULL, &options, &function));
  static const int64_t sizes[][2] = {{2, 5}, {1, 1}, {3, 1000}, {8, 77}};
  for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++)
    call(session, function, sizes[k][0], sizes[k][1]);
  dt_function_release(function);
  dt_session_destroy(session);
  dt_runtime_release(runtime);
  return 0;
}
