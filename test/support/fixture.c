// SPDX-License-Identifier: Apache-2.0
// See fixture.h.
#include "test/support/fixture.h"

#include <stdio.h>
#include <stdlib.h>

enum { SKIPPED = 77 };

// A test that is told to run for a CPU of more features than this one has is skipped.
dt_runtime_t *runtime_of(uint32_t threads) {
  dt_runtime_options_t options = {.struct_size = sizeof(options), .threads = threads};
  dt_runtime_t *runtime = NULL;
  dt_status_t status = dt_runtime_create(&options, &runtime);
  if (getenv("DUCTILE_CPU") && dt_status_code(status) == DT_E_UNSUPPORTED) {
    printf("SKIP: %s\n", dt_status_message(status));
    exit(SKIPPED);
  }
  expect_ok(status);
  return runtime;
}

dt_session_t *session_of(dt_runtime_t *runtime) {
  dt_session_t *session = NULL;
  expect_ok(dt_session_create(runtime, NULL, &session));
  return session;
}

int fixture_open(void **state, uint32_t threads, uint64_t seed) {
  static fixture_t fixture;
  fixture = (fixture_t){.rng = {seed}};
  fixture.runtime = runtime_of(threads);
  fixture.session = session_of(fixture.runtime);
  *state = &fixture;
  return 0;
}

int fixture_close(void **state) {
  fixture_end(*state);
  return 0;
}

fixture_t fixture_on(dt_device_t device, uint32_t threads) {
  dt_runtime_options_t options = {
      .struct_size = sizeof(options), .threads = threads, .compile_threads = 2};
  dt_session_options_t on = {.struct_size = sizeof(on), .device = device};
  fixture_t fixture = {0};
  expect_ok(dt_runtime_create(&options, &fixture.runtime));
  expect_ok(dt_session_create(fixture.runtime, &on, &fixture.session));
  return fixture;
}

void fixture_end(const fixture_t *fixture) {
  dt_session_destroy(fixture->session);
  dt_runtime_release(fixture->runtime);
}

dt_tensor_t *tensor_upload(dt_session_t *session, dt_tensor_t *host) {
  dt_tensor_t *out = NULL;
  expect_ok(dt_tensor_create_on(session, dt_tensor_dtype(host), dt_tensor_rank(host),
                                dt_tensor_sizes(host), &out));
  expect_ok(dt_tensor_copy(session, host, out));
  return out;
}

dt_tensor_t *tensor_download(dt_session_t *session, dt_tensor_t *tensor) {
  dt_tensor_t *out =
      tensor_empty(dt_tensor_dtype(tensor), dt_tensor_rank(tensor), dt_tensor_sizes(tensor));
  expect_ok(dt_tensor_copy(session, tensor, out));
  return out;
}

dt_answer_t compiled_answer(void) {
#ifdef DT_HAVE_LLVM
  return DT_ANSWER_COMPILED;
#else
  return DT_ANSWER_EVALUATOR;
#endif
}

dt_function_options_t options_of(uint32_t n, const dt_input_decl_t *inputs) {
  return (dt_function_options_t){.struct_size = sizeof(dt_function_options_t),
                                 .name = "f",
                                 .n_inputs = n,
                                 .n_outputs = 1,
                                 .inputs = inputs,
                                 .answer = compiled_answer()};
}

dt_function_t *function_of(fixture_t *fixture, dt_program_fn_t program, void *closure,
                           const dt_function_options_t *options) {
  dt_function_t *function = NULL;
  expect_ok(dt_function_create(fixture->runtime, program, closure, options, &function));
  return function;
}

dt_function_counters_t stats_of(dt_function_t *function) {
  dt_function_counters_t stats = {.struct_size = sizeof(stats)};
  expect_ok(dt_function_counters(function, &stats));
  return stats;
}

uint32_t variants_of(dt_function_t *function) { return stats_of(function).variants; }
