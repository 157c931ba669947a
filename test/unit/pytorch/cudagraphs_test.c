// SPDX-License-Identifier: Apache-2.0
// See cudagraphs_test.h.
#include "test/unit/pytorch/cudagraphs_test.h"

#include "ductile/experimental.h"

#include <stdlib.h>

// ---- Sessions -------------------------------------------------------------------------------------

dt_session_t *session_on(tree_t *tree, int32_t ordinal, void *stream) {
  dt_session_options_t options = {
      .struct_size = sizeof(options), .device = DT_CUDA, .ordinal = ordinal, .stream = stream};
  dt_session_t *session = NULL;
  expect_ok(dt_session_create(tree->runtime, &options, &session));
  return session;
}

int tree_open(void **state) {
  static tree_t tree;
  fake_cuda_reset(90);
  dt_runtime_options_t options = {.struct_size = sizeof(options), .threads = 1};
  expect_ok(dt_runtime_create(&options, &tree.runtime));
  tree.session = session_on(&tree, 0, NULL);
  *state = &tree;
  return 0;
}

int tree_close(void **state) {
  tree_t *tree = *state;
  const char *first = "";
  dt_session_destroy(tree->session);
  dt_runtime_release(tree->runtime);
  if (fake_cuda_violations(&first))
    fail_msg("%s", first);
  assert_int_equal(fake_cuda_held(), 0);
  return 0;
}

// ---- Programs -------------------------------------------------------------------------------------

static dt_value_t one(dt_trace_t *t) { return dt_scalar(t, DT_F32, 1); }

dt_status_t plus_one(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[0], one(t));
  return NULL;
}

dt_status_t twice(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[0], in[0]);
  return NULL;
}

dt_status_t sum_of_two(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[0], in[1]);
  return NULL;
}

dt_status_t two_results(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[0], one(t));
  out[1] = dt_add(t, in[0], in[0]);
  return NULL;
}

dt_status_t times_weight(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  out[0] = dt_mul(t, in[0], dt_constant(t, "w", closure));
  return NULL;
}

dt_function_t *tree_function(tree_t *tree, dt_program_fn_t program, void *closure,
                             uint32_t n_inputs, uint32_t n_outputs, dt_dynamic_t dynamic) {
  static const dt_dim_decl_t dims[] = {{.name = "n"}};
  static const dt_input_decl_t inputs[] = {{.name = "x", .dtype = DT_F32, .rank = 1, .dims = dims},
                                           {.name = "y", .dtype = DT_F32, .rank = 1, .dims = dims}};
  dt_function_options_t options = {.struct_size = sizeof(options),
                                   .name = "f",
                                   .n_inputs = n_inputs,
                                   .n_outputs = n_outputs,
                                   .inputs = inputs,
                                   .dynamic = dynamic,
                                   .call_mode = DT_CALL_REDUCE_OVERHEAD};
  dt_function_t *function = NULL;
  expect_ok(dt_function_create(tree->runtime, program, closure, &options, &function));
  return function;
}

// ---- Calls ----------------------------------------------------------------------------------------

dt_tensor_t *filled(dt_session_t *session, int64_t n, float value) {
  dt_tensor_t *host = tensor_full(value, 1, &n), *out = NULL;
  expect_ok(dt_tensor_create_on(session, DT_F32, 1, &n, &out));
  expect_ok(dt_tensor_copy(session, host, out));
  dt_tensor_release(host);
  return out;
}

dt_tensor_t *call_one(dt_session_t *session, dt_function_t *function, dt_tensor_t *x) {
  dt_tensor_t *out = NULL;
  expect_ok(dt_call(session, function, &x, 1, &out, 1, NULL));
  return out;
}

void expect_filled(dt_session_t *session, dt_tensor_t *tensor, int64_t n, float value) {
  float *data = calloc((size_t)n + 1, sizeof(*data));
  assert_non_null(data);
  assert_int_equal(dt_tensor_count(tensor), n);
  expect_ok(dt_tensor_read(session, tensor, data, (size_t)n * sizeof(*data)));
  for (int64_t k = 0; k < n; k++)
    if (data[k] != value)
      fail_msg("element %lld: got %f; expected %f", (long long)k, (double)data[k], (double)value);
  free(data);
}

void call_and_check(dt_session_t *session, dt_function_t *function, dt_tensor_t *x,
                    float expected) {
  dt_tensor_t *out = call_one(session, function, x);
  expect_filled(session, out, dt_tensor_count(x), expected);
  dt_tensor_release(out);
}

// ---- Counts ---------------------------------------------------------------------------------------

dt_session_counters_t tree_stats(dt_session_t *session) {
  dt_session_counters_t stats = {.struct_size = sizeof(stats)};
  expect_ok(dt_session_counters(session, &stats));
  return stats;
}

void expect_tree(dt_session_t *session, uint64_t places, uint64_t builds, uint64_t calls) {
  dt_session_counters_t stats = tree_stats(session);
  if (stats.graph_skip)
    fail_msg("skipped: %s", stats.graph_skip);
  assert_int_equal(stats.places, places);
  assert_int_equal(stats.builds, builds);
  assert_int_equal(stats.graph_calls, calls);
}
