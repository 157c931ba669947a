// SPDX-License-Identifier: Apache-2.0
// What the tests of CUDA graph trees share: sessions on the fake driver, programs, vectors filled
// with one value.
#ifndef DT_TESTS_UNIT_PYTORCH_CUDAGRAPHS_TEST_H
#define DT_TESTS_UNIT_PYTORCH_CUDAGRAPHS_TEST_H

#include "test/fake_cuda/fake_cuda.h"
#include "test/support/fixture.h"

typedef struct tree_t {
  dt_runtime_t *runtime;
  dt_session_t *session; // on device 0
} tree_t;
// Both fit a setup and a teardown of cmocka. The second also looks for violations and leaks.
int tree_open(void **state);
int tree_close(void **state);
dt_session_t *session_on(tree_t *tree, int32_t ordinal, void *stream);

// A function in mode reduce-overhead, of up to two vectors.
dt_function_t *tree_function(tree_t *tree, dt_program_fn_t program, void *closure,
                             uint32_t n_inputs, uint32_t n_outputs, dt_dynamic_t dynamic);
dt_status_t plus_one(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure);
dt_status_t twice(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure);
dt_status_t sum_of_two(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure);
// x + 1 and x * 2.
dt_status_t two_results(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure);
// x * w, of a constant w[1]: the closure.
dt_status_t times_weight(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure);

// `n` elements of `value` where the session runs.
dt_tensor_t *filled(dt_session_t *session, int64_t n, float value);
// The new result of a call with one input.
dt_tensor_t *call_one(dt_session_t *session, dt_function_t *function, dt_tensor_t *x);
// The same, looked at and released.
void call_and_check(dt_session_t *session, dt_function_t *function, dt_tensor_t *x, float expected);
void expect_filled(dt_session_t *session, dt_tensor_t *tensor, int64_t n, float value);

dt_session_counters_t tree_stats(dt_session_t *session);
// Places, graphs assembled and calls that ran as graphs so far; none was skipped.
void expect_tree(dt_session_t *session, uint64_t places, uint64_t builds, uint64_t calls);
#define IN_TREE(name) TEST_WITH(name, tree_open, tree_close)

#endif // DT_TESTS_UNIT_PYTORCH_CUDAGRAPHS_TEST_H
