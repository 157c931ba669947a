// SPDX-License-Identifier: Apache-2.0
// A runtime and a session, and functions on them. For every test that calls functions.
#ifndef DT_TESTS_SUPPORT_FIXTURE_H
#define DT_TESTS_SUPPORT_FIXTURE_H

#include "ductile/ductile.h"
#include "ductile/experimental.h"
#include "test/support/tensors.h"

// What most tests of a group share. fixture_open() makes a runtime of `threads` threads and a
// session, and seeds the random numbers; both fit a setup and a teardown of cmocka.
typedef struct fixture_t {
  dt_runtime_t *runtime;
  dt_session_t *session;
  rng_t rng;
} fixture_t;
int fixture_open(void **state, uint32_t threads, uint64_t seed);
int fixture_close(void **state);

// The same where a test wants several, on any device: compiles have two threads.
fixture_t fixture_on(dt_device_t device, uint32_t threads);
void fixture_end(const fixture_t *fixture);

// One by one: the caller releases them.
dt_runtime_t *runtime_of(uint32_t threads);
dt_session_t *session_of(dt_runtime_t *runtime);

// A copy where the session runs; a copy on the host, there once the session was waited for.
dt_tensor_t *tensor_upload(dt_session_t *session, dt_tensor_t *host);
dt_tensor_t *tensor_download(dt_session_t *session, dt_tensor_t *tensor);

// Who answers "compiled" functions here: compiled code, or the evaluator in builds without a code
// generator.
dt_answer_t compiled_answer(void);

// Options of a function "f" with `n` inputs and one output, answered by compiled code.
dt_function_options_t options_of(uint32_t n, const dt_input_decl_t *inputs);
dt_function_t *function_of(fixture_t *fixture, dt_program_fn_t program, void *closure,
                           const dt_function_options_t *options);
dt_function_counters_t stats_of(dt_function_t *function);
uint32_t variants_of(dt_function_t *function);

#endif // DT_TESTS_SUPPORT_FIXTURE_H
