// SPDX-License-Identifier: Apache-2.0
// CUDA graph trees (behaviours 108 to 118): calls that elsewhere have no graph, streams, freezing
// and giving back, devices.
#include "ductile/experimental.h"
#include "test/unit/pytorch/cudagraphs_test.h"

#include <string.h>

// ---- 108 to 111: what runs as a graph -------------------------------------------------------------

// x += y; the sum is given out, too.
static dt_status_t accumulate(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t sum = dt_add(t, in[0], in[1]);
  dt_update(t, in[0], sum);
  out[0] = dt_add(t, sum, dt_scalar(t, DT_F32, 1));
  return NULL;
}

// PyTorch skips a function that writes to a fresh input. Ours runs it: on a new tensor at each
// call, on one buffer, and on a result of the path.
static void behaviour_108_updates_in_place_are_graphs(void **state) {
  tree_t *tree = *state;
  dt_session_t *s = tree->session;
  dt_function_t *f = tree_function(tree, accumulate, NULL, 2, 1, DT_DYNAMIC_SYMBOLIC);
  dt_function_t *g = tree_function(tree, plus_one, NULL, 1, 1, DT_DYNAMIC_SYMBOLIC);
  dt_tensor_t *buffer = filled(s, 20, 0), *y = filled(s, 20, 2);
  for (uint32_t k = 1; k <= 4; k++) {
    dt_tensor_t *fresh = filled(s, 20, 10), *managed = call_one(s, g, y);
    dt_tensor_t *const updated[] = {fresh, buffer, managed};
    const float expected[] = {12, 2 * (float)k, 5};
    for (uint32_t j = 0; j < 3; j++) {
      dt_tensor_t *out = NULL;
      expect_ok(dt_call(s, f, (dt_tensor_t *[]){updated[j], y}, 2, &out, 1, NULL));
      expect_filled(s, updated[j], 20, expected[j]);
      expect_filled(s, out, 20, expected[j] + 1);
      dt_tensor_release(out);
    }
    RELEASE(fresh, managed);
    expect_ok(dt_step_begin(s));
  }
  expect_tree(s, 4, 4, 16);
  RELEASE(buffer, y);
  dt_function_release(f);
  dt_function_release(g);
}

// PyTorch skips what has a CPU input or two devices. Ours copies an input on the host to the
// device, as part of a call that is a graph; numbers stay on the host. What is on another device is
// named, and so is an input on the host that the program updates.
static void behaviour_109_inputs_on_the_host_are_staged(void **state) {
  tree_t *tree = *state;
  dt_session_t *s = tree->session, *other = session_on(tree, 1, NULL);
  dt_function_t *f = tree_function(tree, sum_of_two, NULL, 2, 1, DT_DYNAMIC_SYMBOLIC);
  const int64_t n = 20;
  dt_function_t *g = tree_function(tree, accumulate, NULL, 2, 1, DT_DYNAMIC_SYMBOLIC);
  dt_tensor_t *x = filled(s, n, 1), *host = tensor_full(2, 1, &n), *there = filled(other, n, 3);
  dt_tensor_t *out = NULL;
  expect_told(dt_call(s, g, (dt_tensor_t *[]){host, x}, 2, &out, 1, NULL), DT_E_ARGUMENT,
              "updates");
  expect_told(dt_call(s, f, (dt_tensor_t *[]){x, there}, 2, &out, 1, NULL), DT_E_ARGUMENT, "y");
  assert_null(out);
  assert_int_equal(tree_stats(s).graph_skips, 0);
  expect_ok(dt_call(s, f, (dt_tensor_t *[]){x, host}, 2, &out, 1, NULL));
  expect_filled(s, out, n, 3);
  dt_tensor_release(out);
  out = NULL;
  expect_ok(dt_call(s, f, (dt_tensor_t *[]){x, x}, 2, &out, 1, NULL));
  expect_filled(s, out, n, 2);
  expect_tree(s, 1, 1, 2);
  assert_int_equal(tree_stats(s).staged_inputs, 1);
  expect_ok(dt_session_wait(other));
  RELEASE(x, host, there, out);
  dt_function_release(f);
  dt_function_release(g);
  dt_session_destroy(other);
}

static dt_status_t two_chains(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  const int32_t axis = 0;
  dt_value_t a = dt_sub(t, in[0], dt_amax(t, in[0], 1, &axis, true));
  dt_value_t b = dt_sub(t, in[1], dt_amax(t, in[1], 1, &axis, true));
  out[0] = dt_sub(t, a, dt_sum(t, b, 1, &axis, true));
  return NULL;
}

// Chains of one program are one graph. Work on the host between two calls is between two graphs of
// one path; nothing waits for it but what uses its results.
static void behaviour_110_work_on_the_host_between_graphs(void **state) {
  tree_t *tree = *state;
  dt_session_t *s = tree->session, *host = NULL;
  expect_ok(dt_session_create(tree->runtime, NULL, &host));
  dt_function_t *f = tree_function(tree, two_chains, NULL, 2, 1, DT_DYNAMIC_SYMBOLIC);
  dt_function_t *g = tree_function(tree, twice, NULL, 1, 1, DT_DYNAMIC_SYMBOLIC);
  const int64_t n = 20;
  dt_tensor_t *x = filled(s, n, 4), *there = tensor_full(5, 1, &n);
  for (uint32_t k = 0; k < 3; k++) {
    dt_tensor_t *first = NULL, *on_host = NULL;
    expect_ok(dt_call(s, f, (dt_tensor_t *[]){x, x}, 2, &first, 1, NULL));
    expect_ok(dt_call(host, g, &there, 1, &on_host, 1, NULL));
    assert_true(((float *)dt_tensor_data(on_host))[7] == 10);
    dt_tensor_t *second = call_one(s, g, first);
    expect_filled(s, second, n, 0);
    assert_int_equal(tree_stats(s).path_length, 2);
    RELEASE(first, second, on_host);
    expect_ok(dt_step_begin(s));
  }
  expect_tree(s, 2, 2, 6);
  assert_int_equal(tree_stats(s).executables, 2);
  RELEASE(x, there);
  dt_function_release(f);
  dt_function_release(g);
  dt_session_destroy(host);
}

static dt_status_t positive(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_masked_select(t, in[0], dt_gt(t, in[0], dt_scalar(t, DT_F32, 0)));
  return NULL;
}

// PyTorch skips what reads a number. Ours is a chain of graphs, with a wait between two of them.
static void behaviour_111_sizes_from_data_are_a_chain_of_graphs(void **state) {
  tree_t *tree = *state;
  dt_session_t *s = tree->session;
  dt_function_t *f = tree_function(tree, positive, NULL, 1, 1, DT_DYNAMIC_SYMBOLIC);
  for (uint32_t k = 0; k < 4; k++) {
    dt_tensor_t *x = filled(s, 20, k % 2 ? 3 : -3), *out = call_one(s, f, x);
    expect_filled(s, out, k % 2 ? 20 : 0, 3);
    assert_int_equal(tree_stats(s).graph_calls, k + 1);
    assert_int_equal(tree_stats(s).path_length, 2);
    assert_int_equal(stats_of(f).readbacks, k + 1);
    RELEASE(x, out);
    expect_ok(dt_step_begin(s));
  }
  expect_tree(s, 2, 2, 4);
  dt_function_release(f);
}

// ---- 113 to 115: inputs, streams, freezing --------------------------------------------------------

static dt_tensor_t *view_of(dt_tensor_t *base, uint32_t rank, const int64_t *sizes,
                            const int64_t *strides, int64_t first) {
  dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                           .dtype = DT_F32,
                           .device = DT_CUDA,
                           .rank = rank,
                           .sizes = sizes,
                           .strides = strides,
                           .data = (float *)dt_tensor_data(base) + first};
  dt_tensor_t *view = NULL;
  expect_ok(dt_tensor_create(&desc, &view));
  return view;
}

// Inputs are read where they are, at any alignment that the dtype allows; nothing is copied.
static void behaviour_113_misaligned_and_expanded_inputs(void **state) {
  tree_t *tree = *state;
  dt_session_t *s = tree->session;
  dt_function_t *f = tree_function(tree, plus_one, NULL, 1, 1, DT_DYNAMIC_SYMBOLIC);
  dt_tensor_t *base = filled(s, 64, 4);
  const int64_t n = 40, apart = 0;
  uint64_t copies = fake_cuda_calls(DT_CUDA_SYM_copy_on_device);
  for (int64_t k = 0; k < 6; k++) {
    dt_tensor_t *view = view_of(base, 1, &n, NULL, k);
    call_and_check(s, f, view, 5);
    dt_tensor_release(view);
  }
  expect_tree(s, 1, 1, 6);
  dt_tensor_t *expanded = view_of(base, 1, &n, &apart, 3);
  call_and_check(s, f, expanded, 5);
  call_and_check(s, f, expanded, 5);
  dt_session_counters_t stats = tree_stats(s);
  assert_int_equal(stats.graph_calls, 8);
  assert_int_equal(stats.builds, stats_of(f).variants);
  assert_int_equal(fake_cuda_calls(DT_CUDA_SYM_copy_on_device), copies);
  RELEASE(base, expanded);
  dt_function_release(f);
}

// On the caller's stream from the first call on: what is queued there next sees the result.
static void behaviour_114_results_on_a_lent_stream(void **state) {
  tree_t *tree = *state;
  dt_session_t *s = tree->session, *lent = session_on(tree, 0, dt_session_stream(s));
  dt_function_t *f = tree_function(tree, plus_one, NULL, 1, 1, DT_DYNAMIC_SYMBOLIC);
  dt_tensor_t *x = filled(s, 20, 1);
  const dt_call_options_t plain = {.mode = DT_CALL_PLAIN};
  for (uint32_t k = 0; k < 3; k++) {
    dt_tensor_t *first = call_one(lent, f, x), *next = NULL;
    // Kernels of the session that the stream is of, with no wait in between.
    expect_ok(dt_call(s, f, &first, 1, &next, 1, &plain));
    expect_filled(s, next, 20, 3);
    RELEASE(first, next);
  }
  expect_tree(lent, 1, 1, 3);
  expect_ok(dt_session_wait(lent));
  dt_tensor_release(x);
  dt_function_release(f);
  dt_session_destroy(lent);
}

static void behaviour_115_run_only_and_reset(void **state) {
  tree_t *tree = *state;
  dt_session_t *s = tree->session;
  dt_function_t *f = tree_function(tree, plus_one, NULL, 1, 1, DT_DYNAMIC_SYMBOLIC);
  dt_function_t *g = tree_function(tree, twice, NULL, 1, 1, DT_DYNAMIC_SYMBOLIC);
  dt_tensor_t *x = filled(s, 20, 1), *longer = filled(s, 70, 4);
  call_and_check(s, f, x, 2);
  expect_ok(dt_session_freeze(s, true));
  call_and_check(s, f, longer, 5); // known, at any size
  call_and_check(s, g, x, 2);      // new: right, and without a graph
  dt_session_counters_t stats = tree_stats(s);
  assert_int_equal(stats.graph_calls, 2);
  assert_int_equal(stats.builds, 1);
  assert_int_equal(stats.frozen_builds, 1);
  assert_non_null(strstr(stats.graph_skip, "frozen"));
  expect_ok(dt_session_freeze(s, false));
  call_and_check(s, g, x, 2);
  assert_int_equal(tree_stats(s).executables, 2);

  expect_ok(dt_session_trim(s));
  stats = tree_stats(s);
  assert_int_equal(stats.places, 0);
  assert_int_equal(stats.executables, 0);
  assert_int_equal(stats.live_results, 0);
  assert_int_equal(stats.pool_bytes, 0);
  call_and_check(s, f, x, 2);
  RELEASE(x, longer);
  dt_function_release(f);
  dt_function_release(g);
  fake_graph_counts_t counts;
  dt_session_destroy(s);
  tree->session = session_on(tree, 0, NULL);
  fake_cuda_graphs(&counts);
  assert_int_equal(counts.live, 0); // executables end with their functions
}

// ---- 118: devices ---------------------------------------------------------------------------------

// Each session has a pool, a path and a stream of its own; a device that no session ran graphs on
// has none of them.
static void behaviour_118_devices_and_sessions_have_their_own(void **state) {
  tree_t *tree = *state;
  dt_session_t *none = tree->session;
  dt_session_t *on[2] = {session_on(tree, 1, NULL), session_on(tree, 1, NULL)};
  dt_function_t *f = tree_function(tree, plus_one, NULL, 1, 1, DT_DYNAMIC_SYMBOLIC);
  dt_tensor_t *x[2] = {filled(on[0], 20, 1), filled(on[1], 90, 2)}, *held[2] = {NULL};
  for (uint32_t k = 0; k < 4; k++) {
    dt_session_t *s = on[k % 2];
    dt_tensor_release(held[k % 2]);
    held[k % 2] = call_one(s, f, x[k % 2]);
    if (k == 2)
      expect_ok(dt_step_begin(on[1])); // ends nothing of the other's
  }
  for (uint32_t k = 0; k < 2; k++) {
    expect_filled(on[k], held[k], k ? 90 : 20, (float)k + 2);
    expect_tree(on[k], 1, 1, 2);
    assert_int_equal(tree_stats(on[k]).live_results, 1);
    assert_true(tree_stats(on[k]).pool_bytes > 0);
  }
  assert_int_equal(tree_stats(none).pool_bytes, 0);
  expect_tree(none, 0, 0, 0);
  // The same function on the first device: code, and a graph, of that device.
  dt_tensor_t *here = filled(none, 20, 6);
  call_and_check(none, f, here, 7);
  expect_tree(none, 1, 1, 1);
  assert_int_equal(stats_of(f).variants, 2);
  RELEASE(x[0], x[1], held[0], held[1], here);
  dt_function_release(f);
  dt_session_destroy(on[0]);
  dt_session_destroy(on[1]);
}

RUN_TESTS(IN_TREE(behaviour_108_updates_in_place_are_graphs),
          IN_TREE(behaviour_109_inputs_on_the_host_are_staged),
          IN_TREE(behaviour_110_work_on_the_host_between_graphs),
          IN_TREE(behaviour_111_sizes_from_data_are_a_chain_of_graphs),
          IN_TREE(behaviour_113_misaligned_and_expanded_inputs),
          IN_TREE(behaviour_114_results_on_a_lent_stream),
          IN_TREE(behaviour_115_run_only_and_reset),
          IN_TREE(behaviour_118_devices_and_sessions_have_their_own))
