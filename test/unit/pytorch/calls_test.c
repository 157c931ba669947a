// SPDX-License-Identifier: Apache-2.0
// See calls_test.h.
#include "test/unit/pytorch/calls_test.h"

#include "ductile/experimental.h"

#include <math.h>
#include <string.h>

#define MAX_INPUTS 4

dt_status_t program(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  const make_t *make = closure;
  out[0] = (*make)(t, in);
  return NULL;
}

static dt_runtime_t *runtime;

int calls_open(void **state) {
  (void)state;
  expect_ok(dt_runtime_create(NULL, &runtime));
  return 0;
}

int calls_close(void **state) {
  (void)state;
  dt_runtime_release(runtime);
  return 0;
}

void rig_fini(rig_t *rig) {
  dt_session_destroy(rig->session);
  dt_function_release(rig->function);
}

dt_function_counters_t rig_stats(const rig_t *rig) { return stats_of(rig->function); }

void expect_compiles(const rig_t *rig, uint64_t compiles) {
  assert_int_equal(rig_stats(rig).compiles, compiles);
}

dt_tensor_t *zeros(int64_t rows, int64_t columns) { return tensor_full(0, 2, N(rows, columns)); }

static dt_status_t call_with(rig_t *rig, uint32_t n, dt_tensor_t *const *inputs,
                             dt_tensor_t **out) {
  *out = NULL;
  dt_status_t status = dt_call(rig->session, rig->function, inputs, n, out, 1, NULL);
  release_tensors(inputs, n);
  return status;
}

void expect_answer(rig_t *rig, uint32_t n, dt_tensor_t *const *inputs, uint32_t rank,
                   const int64_t *sizes, const double *want, const char *file, int line) {
  dt_tensor_t *out = NULL;
  expect_ok_at(call_with(rig, n, inputs, &out), file, line);
  bool right = dt_tensor_rank(out) == rank;
  for (uint32_t k = 0; right && k < rank; k++)
    right = dt_tensor_sizes(out)[k] == sizes[k];
  if (!right)
    fail_msg("%s:%d: sizes differ", file, line);
  for (int64_t k = 0; k < dt_tensor_count(out); k++) {
    const void *data = dt_tensor_data(out);
    double got = dt_tensor_dtype(out) == DT_I64    ? (double)((const int64_t *)data)[k]
                 : dt_tensor_dtype(out) == DT_F64  ? ((const double *)data)[k]
                 : dt_tensor_dtype(out) == DT_BOOL ? (double)((const uint8_t *)data)[k]
                                                   : (double)((const float *)data)[k];
    bool close = got == want[k] || (isnan(got) && isnan(want[k])) ||
                 fabs(got - want[k]) <= 1e-6 * fabs(want[k]);
    if (!close)
      fail_msg("%s:%d: element %lld is %g, expected %g", file, line, (long long)k, got, want[k]);
  }
  dt_tensor_release(out);
}

void expect_refused(rig_t *rig, uint32_t n, dt_tensor_t *const *inputs, dt_code_t code,
                    const char *part, const char *file, int line) {
  dt_tensor_t *out = NULL;
  expect_told_at(call_with(rig, n, inputs, &out), code, part, file, line);
  assert_null(out);
}

uint32_t declare(const char *letters, dt_input_decl_t *out) {
  uint32_t n = 0;
  for (; letters[n]; n++) {
    char c = letters[n];
    out[n] = (dt_input_decl_t){.dtype = strchr("ij", c) ? DT_I64
                                        : c == 'b'      ? DT_BOOL
                                                        : DT_F32,
                               .rank = strchr("if", c) ? 0
                                       : c == 'm'      ? 2
                                                       : 1};
  }
  return n;
}

void begin_with(rig_t *rig, make_t make, const char *letters, dt_answer_t answer) {
  dt_input_decl_t inputs[MAX_INPUTS];
  const subject_t subject = {"behaviour", program, declare(letters, inputs), 1, inputs};
  rig->make = make;
  rig->function = subject_function(runtime, &subject, &rig->make, answer);
  expect_ok(dt_session_create(runtime, NULL, &rig->session));
}

void begin(rig_t *rig, make_t make, const char *letters) {
  begin_with(rig, make, letters, compiled_answer());
}
