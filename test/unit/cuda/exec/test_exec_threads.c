// SPDX-License-Identifier: Apache-2.0
// Sessions of several threads on one device: shared code and constants, which are replaced
// meanwhile.
#include "test/unit/cuda/exec/exec_fake.h"

#include <pthread.h>

typedef struct caller_t {
  pthread_t thread;
  dt_runtime_t *runtime;
  dt_function_t *add, *scale;
  dt_tensor_t *w;
  dt_status_t status;
  uint32_t wrong;
} caller_t;

static dt_status_t call_and_read(dt_session_t *session, dt_function_t *function,
                                 dt_tensor_t **inputs, uint32_t n, float *data) {
  dt_tensor_t *out = NULL;
  dt_status_t status = dt_call(session, function, inputs, n, &out, 1, NULL);
  if (!status)
    status = dt_tensor_read(session, out, data, 64 * sizeof(float));
  dt_tensor_release(out);
  return status;
}

static dt_status_t call_many(caller_t *caller, dt_session_t *session, dt_tensor_t *host) {
  int64_t n = 64;
  dt_tensor_t *x = NULL;
  float data[64];
  dt_status_t status = dt_tensor_create_on(session, DT_F32, 1, &n, &x);
  if (!status)
    status = dt_tensor_copy(session, host, x);
  for (uint32_t k = 0; !status && k < 60; k++) {
    dt_tensor_t *inputs[] = {x, x};
    status = call_and_read(session, caller->add, inputs, 2, data);
    caller->wrong += !status && data[5] != 10;
    if (!status)
      status = call_and_read(session, caller->scale, inputs, 1, data);
    caller->wrong += !status && data[2] != 2 * 30;
    if (!status && k % 10 == 3)
      status = dt_constant_update(caller->scale, "w", caller->w);
  }
  dt_tensor_release(x);
  return status;
}

static void *caller_main(void *arg) {
  caller_t *caller = arg;
  dt_session_t *session = NULL;
  dt_tensor_t *host = host_f32(64, 0, 1);
  caller->status = open_session(caller->runtime, 0, NULL, &session);
  if (!caller->status)
    caller->status = call_many(caller, session, host);
  dt_tensor_release(host);
  dt_session_destroy(session);
  return NULL;
}

// Sessions of several threads, with constants that are replaced while all of them run.
static void callers_work_side_by_side(void **state) {
  (void)state;
  fake_begin(21);
  fake_fixture_t f = fake_fixture_open();
  dt_tensor_t *w = host_f32(4, 1, 1);
  caller_t callers[3] = {{0}};
  dt_function_t *add = function_named(f.runtime, "add", NULL);
  dt_function_t *scale = function_named(f.runtime, "scale", w);
  expect_ok(dt_function_prepare(scale, &(dt_prepare_options_t){.device = DT_CUDA}));
  for (uint32_t k = 0; k < 3; k++) {
    callers[k].runtime = f.runtime;
    callers[k].add = add;
    callers[k].scale = scale;
    callers[k].w = w;
    assert_int_equal(pthread_create(&callers[k].thread, NULL, caller_main, &callers[k]), 0);
  }
  for (uint32_t k = 0; k < 3; k++) {
    assert_int_equal(pthread_join(callers[k].thread, NULL), 0);
    expect_ok(callers[k].status);
    assert_int_equal(callers[k].wrong, 0);
  }
  dt_tensor_release(w);
  dt_function_release(add);
  dt_function_release(scale);
  fake_fixture_close(&f);
  fake_end();
}

RUN_TESTS(TEST(callers_work_side_by_side))
