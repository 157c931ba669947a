// SPDX-License-Identifier: Apache-2.0
#include "test/late/programs.h"

static dt_status_t is_less(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_lt(t, in[0], in[2]);
  return NULL;
}

static dt_status_t add_one(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[0], dt_scalar(t, DT_I64, 1));
  out[1] = dt_add(t, in[1], dt_scalar(t, DT_F32, 1));
  return NULL;
}

dt_value_t late_loop(dt_trace_t *t, dt_value_t x, dt_value_t trips) {
  dt_value_t state[2] = {dt_scalar(t, DT_I64, 0), x};
  dt_while(t, is_less, add_one, NULL, 2, state, 1, &trips, state);
  return state[1];
}

dt_value_t late_kernel(dt_trace_t *t, dt_value_t x) {
  const int32_t last[] = {1};
  dt_value_t rows = dt_unsqueeze(t, x, 1), cols = dt_unsqueeze(t, x, 0);
  dt_value_t waves = dt_sin(t, dt_exp(t, dt_sin(t, dt_mul(t, rows, cols))));
  return dt_sum(t, dt_pow(t, dt_abs(t, waves), dt_abs(t, cols)), 1, last, false);
}

dt_value_t late_compile(dt_trace_t *t, dt_value_t x, int steps, int version) {
  const int32_t first[] = {0};
  dt_value_t least = dt_scalar(t, DT_F32, -1000.0 - version);
  for (int k = 0; k < steps; k++) {
    x = dt_maximum(t, x, least);
    dt_value_t total = dt_sum(t, dt_exp(t, dt_mul(t, x, dt_scalar(t, DT_F32, k))), 1, first, true);
    x = dt_sin(t, dt_add(t, dt_div(t, x, total), dt_scalar(t, DT_F32, 1.0 / (k + 1))));
  }
  return x;
}

dt_status_t late_loop_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = late_loop(t, in[0], in[1]);
  return NULL;
}

dt_status_t late_kernel_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  (void)closure;
  out[0] = late_kernel(t, in[0]);
  return NULL;
}
