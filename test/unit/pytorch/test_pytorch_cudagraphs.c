// SPDX-License-Identifier: Apache-2.0
// CUDA graph trees (behaviours 90 to 107): which calls share a graph, what a tree has, what is set
// instead of being recorded again. Ours are built, not captured: no warm-up, one graph for every
// size, arguments and addresses set.
#include "ductile/experimental.h"
#include "test/unit/pytorch/cudagraphs_test.h"

// ---- 90 to 96: the tree ---------------------------------------------------------------------------

// PyTorch: two roots. Ours: one, and nothing is assembled later.
static void behaviour_90_two_shapes_are_one_root(void **state) {
  tree_t *tree = *state;
  dt_session_t *s = tree->session;
  dt_function_t *f = tree_function(tree, plus_one, NULL, 1, 1, DT_DYNAMIC_SYMBOLIC);
  dt_tensor_t *small = filled(s, 20, 1), *large = filled(s, 40, 2);
  for (uint32_t k = 0; k < 8; k++)
    call_and_check(s, f, k / 2 % 2 ? large : small, k / 2 % 2 ? 3 : 2);
  expect_tree(s, 1, 1, 8);
  assert_int_equal(tree_stats(s).path_length, 1); // no children
  assert_int_equal(stats_of(f).variants, 1);
  RELEASE(small, large);
  dt_function_release(f);
}

static void behaviour_91_a_function_called_twice_is_a_path(void **state) {
  tree_t *tree = *state;
  dt_session_t *s = tree->session;
  dt_function_t *f = tree_function(tree, plus_one, NULL, 1, 1, DT_DYNAMIC_SYMBOLIC);
  dt_tensor_t *x = filled(s, 20, 1);
  for (uint32_t k = 1; k <= 5; k++) {
    dt_tensor_t *once = call_one(s, f, x), *again = call_one(s, f, once);
    expect_filled(s, again, 20, 3);
    assert_int_equal(tree_stats(s).path_length, 2);
    expect_tree(s, 2, 2, 2 * k);
    RELEASE(once, again);
    expect_ok(dt_step_begin(s));
  }
  dt_tensor_release(x);
  dt_function_release(f);
}

// What nobody holds is no reason for a path: both calls are roots, and a held one has a child.
static void behaviour_92_dropped_results_end_the_path(void **state) {
  tree_t *tree = *state;
  dt_session_t *s = tree->session;
  dt_function_t *f = tree_function(tree, plus_one, NULL, 1, 1, DT_DYNAMIC_SYMBOLIC);
  dt_function_t *g = tree_function(tree, twice, NULL, 1, 1, DT_DYNAMIC_SYMBOLIC);
  dt_tensor_t *x = filled(s, 20, 1);
  for (uint32_t k = 0; k < 3; k++) {
    call_and_check(s, f, x, 2);
    assert_int_equal(tree_stats(s).path_length, 1);
    call_and_check(s, g, x, 2);
    assert_int_equal(tree_stats(s).path_length, 1);
  }
  expect_tree(s, 2, 2, 6);
  dt_tensor_t *held = call_one(s, f, x);
  call_and_check(s, g, held, 4);
  assert_int_equal(tree_stats(s).path_length, 2);
  expect_tree(s, 3, 3, 8);
  RELEASE(x, held);
  dt_function_release(f);
  dt_function_release(g);
}

static void behaviour_93_a_new_branch_after_others_ran(void **state) {
  tree_t *tree = *state;
  dt_session_t *s = tree->session;
  dt_function_t *f = tree_function(tree, plus_one, NULL, 1, 1, DT_DYNAMIC_SYMBOLIC);
  dt_function_t *g = tree_function(tree, twice, NULL, 1, 1, DT_DYNAMIC_SYMBOLIC);
  dt_tensor_t *x = filled(s, 20, 1);
  for (uint32_t k = 0; k < 6; k++) {
    dt_tensor_t *first = call_one(s, f, x);
    assert_int_equal(tree_stats(s).live_results, 1);
    dt_tensor_t *second = call_one(s, k < 3 ? f : g, first); // the branch is new at 3
    assert_int_equal(tree_stats(s).live_results, 2);
    expect_filled(s, second, 20, k < 3 ? 3 : 4);
    expect_filled(s, first, 20, 2);
    RELEASE(first, second);
    assert_int_equal(tree_stats(s).live_results, 0);
    expect_ok(dt_step_begin(s));
  }
  expect_tree(s, 3, 3, 12);
  dt_tensor_release(x);
  dt_function_release(f);
  dt_function_release(g);
}

// PyTorch restores checkpoints of its allocator where branches part. Ours has none to restore: both
// branches find the pool as the path left it, and their graphs are there for good.
static void behaviour_94_two_branches_need_no_checkpoint(void **state) {
  tree_t *tree = *state;
  dt_session_t *s = tree->session;
  dt_function_t *f = tree_function(tree, plus_one, NULL, 1, 1, DT_DYNAMIC_SYMBOLIC);
  dt_function_t *g = tree_function(tree, twice, NULL, 1, 1, DT_DYNAMIC_SYMBOLIC);
  dt_tensor_t *x = filled(s, 20, 1);
  uint64_t set = 0;
  for (uint32_t k = 0; k < 10; k++) {
    dt_tensor_t *first = call_one(s, f, x), *second = call_one(s, k % 2 ? f : g, first);
    expect_filled(s, second, 20, k % 2 ? 3 : 4);
    RELEASE(first, second);
    expect_ok(dt_step_begin(s));
    set = k == 1 ? tree_stats(s).nodes_set : set;
  }
  expect_tree(s, 3, 3, 20);
  assert_int_equal(tree_stats(s).nodes_set, set); // everything is where it was
  dt_tensor_release(x);
  dt_function_release(f);
  dt_function_release(g);
}

static void behaviour_95_a_result_dies_between_calls(void **state) {
  tree_t *tree = *state;
  dt_session_t *s = tree->session;
  dt_function_t *f = tree_function(tree, two_results, NULL, 1, 2, DT_DYNAMIC_SYMBOLIC);
  dt_function_t *g = tree_function(tree, twice, NULL, 1, 1, DT_DYNAMIC_SYMBOLIC);
  dt_tensor_t *x = filled(s, 20, 1);
  for (uint32_t k = 0; k < 4; k++) {
    dt_tensor_t *results[2] = {NULL};
    expect_ok(dt_call(s, f, &x, 1, results, 2, NULL));
    assert_int_equal(tree_stats(s).live_results, 2);
    const void *freed = dt_tensor_data(results[0]);
    dt_tensor_release(results[0]);
    assert_int_equal(tree_stats(s).live_results, 1);
    dt_tensor_t *next = call_one(s, g, results[1]);
    assert_ptr_equal(dt_tensor_data(next), freed); // its memory goes to the call after it
    expect_filled(s, next, 20, 4);
    expect_filled(s, results[1], 20, 2);
    RELEASE(next, results[1]);
    assert_int_equal(tree_stats(s).live_results, 0);
    expect_ok(dt_step_begin(s));
  }
  expect_tree(s, 2, 2, 8);
  dt_tensor_release(x);
  dt_function_release(f);
  dt_function_release(g);
}

// PyTorch: a second child. Ours: the place's graph is set for the other address.
static void behaviour_96_a_result_at_another_address_is_set(void **state) {
  tree_t *tree = *state;
  dt_session_t *s = tree->session;
  dt_function_t *f = tree_function(tree, two_results, NULL, 1, 2, DT_DYNAMIC_SYMBOLIC);
  dt_function_t *g = tree_function(tree, twice, NULL, 1, 1, DT_DYNAMIC_SYMBOLIC);
  dt_tensor_t *x[2] = {filled(s, 20, 1), filled(s, 2000, 1)};
  void *at[2] = {NULL};
  for (uint32_t k = 0; k < 6; k++) {
    dt_tensor_t *results[2] = {NULL};
    expect_ok(dt_call(s, f, &x[k % 2], 1, results, 2, NULL));
    at[k % 2] = dt_tensor_data(results[1]);
    dt_tensor_t *next = call_one(s, g, results[1]);
    expect_filled(s, next, k % 2 ? 2000 : 20, 4);
    RELEASE(results[0], results[1], next);
    expect_ok(dt_step_begin(s));
  }
  assert_ptr_not_equal(at[0], at[1]);
  expect_tree(s, 2, 2, 12);
  RELEASE(x[0], x[1]);
  dt_function_release(f);
  dt_function_release(g);
}

// ---- 97 to 102: results ---------------------------------------------------------------------------

// Outputs that are one value.
static dt_status_t five_of_two(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  dt_value_t pair[2];
  dt_status_t status = two_results(t, in, pair, closure);
  for (uint32_t k = 0; k < 5; k++)
    out[k] = pair[k % 2];
  return status;
}

// PyTorch: five outputs on two storages. Ours: five blocks, each held by its own tensor alone.
static void behaviour_97_equal_outputs_have_memory_of_their_own(void **state) {
  tree_t *tree = *state;
  dt_session_t *s = tree->session;
  dt_function_t *f = tree_function(tree, five_of_two, NULL, 1, 5, DT_DYNAMIC_SYMBOLIC);
  dt_tensor_t *x = filled(s, 20, 3), *results[5] = {NULL};
  expect_ok(dt_call(s, f, &x, 1, results, 5, NULL));
  for (uint32_t k = 0; k < 5; k++) {
    expect_filled(s, results[k], 20, k % 2 ? 6 : 4);
    for (uint32_t j = 0; j < k; j++)
      assert_ptr_not_equal(dt_tensor_data(results[j]), dt_tensor_data(results[k]));
  }
  for (uint32_t k = 0; k < 5; k++) {
    assert_int_equal(tree_stats(s).live_results, 5 - k);
    dt_tensor_release(results[k]);
  }
  assert_int_equal(tree_stats(s).live_results, 0);
  expect_tree(s, 1, 1, 1);
  dt_tensor_release(x);
  dt_function_release(f);
}

// A new tensor for each call, at the same address in each generation; while one is held, the next
// has another address.
static void behaviour_98_results_are_where_they_were(void **state) {
  tree_t *tree = *state;
  dt_session_t *s = tree->session;
  dt_function_t *f = tree_function(tree, plus_one, NULL, 1, 1, DT_DYNAMIC_SYMBOLIC);
  dt_tensor_t *x = filled(s, 20, 1), *y = filled(s, 20, 7);
  const void *at = NULL;
  for (uint32_t k = 0; k < 4; k++) {
    dt_tensor_t *first = call_one(s, f, x), *second = call_one(s, f, y);
    if (k)
      assert_ptr_equal(dt_tensor_data(first), at);
    at = dt_tensor_data(first);
    assert_ptr_not_equal(dt_tensor_data(second), at);
    expect_filled(s, first, 20, 2);
    expect_filled(s, second, 20, 8);
    RELEASE(first, second);
    expect_ok(dt_step_begin(s));
  }
  assert_int_equal(tree_stats(s).unchanged_calls, 6);
  expect_tree(s, 2, 2, 8);
  RELEASE(x, y);
  dt_function_release(f);
}

static void release_tensor(void *user) { dt_tensor_release(user); }

static void behaviour_99_a_slice_keeps_the_result_alive(void **state) {
  tree_t *tree = *state;
  dt_session_t *s = tree->session;
  dt_function_t *f = tree_function(tree, plus_one, NULL, 1, 1, DT_DYNAMIC_SYMBOLIC);
  dt_tensor_t *x = filled(s, 20, 1), *y = filled(s, 20, 5), *slice = NULL;
  const int64_t five = 5;
  dt_tensor_t *whole = call_one(s, f, x);
  dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                           .dtype = DT_F32,
                           .device = DT_CUDA,
                           .rank = 1,
                           .sizes = &five,
                           .data = (float *)dt_tensor_data(whole) + 10,
                           .release = release_tensor,
                           .user = whole}; // takes the reference
  expect_ok(dt_tensor_create(&desc, &slice));
  assert_int_equal(tree_stats(s).live_results, 1);
  call_and_check(s, f, y, 6); // has memory elsewhere
  expect_filled(s, slice, 5, 2);
  dt_tensor_release(slice);
  assert_int_equal(tree_stats(s).live_results, 0);
  RELEASE(x, y);
  dt_function_release(f);
}

// The parameter itself, an input itself, and a sum.
static dt_status_t as_they_are(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  out[0] = dt_constant(t, "w", closure);
  out[1] = in[0];
  out[2] = dt_add(t, in[0], in[0]);
  return NULL;
}

// PyTorch gives out the parameter's own memory. Ours gives a copy, which ends with the generation
// as every result does; the parameter and the input are as they were.
static void behaviour_100_parameters_and_inputs_given_out_are_copies(void **state) {
  tree_t *tree = *state;
  dt_session_t *s = tree->session;
  const int64_t four = 4;
  dt_tensor_t *w = tensor_full(9, 1, &four), *x = filled(s, 20, 3);
  dt_function_t *f = tree_function(tree, as_they_are, w, 1, 3, DT_DYNAMIC_SYMBOLIC);
  for (uint32_t k = 0; k < 3; k++) {
    dt_tensor_t *results[3] = {NULL}, *kept = NULL;
    float data[4];
    expect_ok(dt_call(s, f, &x, 1, results, 3, NULL));
    assert_ptr_not_equal(dt_tensor_data(results[1]), dt_tensor_data(x));
    assert_int_equal(tree_stats(s).live_results, 3);
    expect_filled(s, results[0], 4, 9);
    expect_filled(s, results[1], 20, 3);
    expect_filled(s, results[2], 20, 6);
    expect_ok(dt_tensor_keep(s, results[0], &kept));
    expect_ok(dt_step_begin(s));
    expect_told(dt_tensor_read(s, results[0], data, sizeof(data)), DT_E_STATE, "output 0");
    expect_filled(s, kept, 4, 9);
    expect_filled(s, x, 20, 3);
    RELEASE(results[0], results[1], results[2], kept);
  }
  expect_tree(s, 1, 1, 3);
  RELEASE(w, x);
  dt_function_release(f);
}

// All of x, and none of it.
static dt_status_t all_and_none(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  (void)closure;
  dt_value_t more = dt_add(t, in[0], dt_scalar(t, DT_F32, 1));
  out[0] = more;
  out[1] = dt_slice(t, more, 0, dt_sym_const(t, 0), dt_sym_const(t, 0), 1);
  return NULL;
}

// PyTorch counts a zero-length view of a real block as live. Ours have no block: not tracked, and
// there is nothing in them that could end.
static void behaviour_101_empty_results_take_no_place(void **state) {
  tree_t *tree = *state;
  dt_session_t *s = tree->session;
  dt_function_t *f = tree_function(tree, all_and_none, NULL, 1, 2, DT_DYNAMIC_SYMBOLIC);
  dt_tensor_t *x = filled(s, 20, 1), *empty = filled(s, 0, 1);
  for (uint32_t k = 0; k < 3; k++) {
    dt_tensor_t *results[2] = {NULL}, *none[2] = {NULL};
    expect_ok(dt_call(s, f, &x, 1, results, 2, NULL));
    assert_int_equal(tree_stats(s).live_results, 1);
    expect_filled(s, results[0], 20, 2);
    expect_filled(s, results[1], 0, 0);
    expect_ok(dt_call(s, f, &empty, 1, none, 2, NULL));
    assert_int_equal(tree_stats(s).live_results, 1);
    expect_ok(dt_step_begin(s));
    expect_filled(s, results[1], 0, 0);
    RELEASE(results[0], results[1], none[0], none[1]);
  }
  RELEASE(x, empty);
  dt_function_release(f);
}

static void behaviour_102_results_of_an_earlier_step_say_so(void **state) {
  tree_t *tree = *state;
  dt_session_t *s = tree->session;
  dt_function_t *f = tree_function(tree, plus_one, NULL, 1, 1, DT_DYNAMIC_SYMBOLIC);
  dt_tensor_t *x = filled(s, 20, 1), *old = call_one(s, f, x), *out = NULL;
  float data[20];
  expect_ok(dt_step_begin(s));
  dt_tensor_t *now = call_one(s, f, x);
  expect_told(dt_call(s, f, &old, 1, &out, 1, NULL), DT_E_STATE, "overwritten by a subsequent run");
  expect_told(dt_tensor_read(s, old, data, sizeof(data)), DT_E_STATE,
              "output 0 of function f, made by call 0 of generation 1");
  expect_filled(s, now, 20, 2);
  RELEASE(x, old, now);
  dt_function_release(f);
}

// ---- 103 to 107: what is set instead of being recorded ----------------------------------------------

static dt_status_t plus_integer(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  ++*(uint32_t *)closure;
  out[0] = dt_add(t, in[0], dt_cast(t, in[1], DT_F32));
  return NULL;
}

// PyTorch: 4 runs of the body for two keys (a warm-up and a recording each). Ours: one trace where
// integers are symbols, one for each where they are static.
static void behaviour_103_integers_make_no_graphs(void **state) {
  tree_t *tree = *state;
  dt_session_t *s = tree->session;
  static const dt_input_decl_t inputs[] = {
      {.name = "x", .dtype = DT_F32, .rank = 1},
      {.name = "k", .dtype = DT_I64, .kind = DT_INPUT_INTEGER}};
  static const int64_t keys[] = {2, 2, 2, 3, 3, 2, 3};
  for (int dynamic = DT_DYNAMIC_SYMBOLIC; dynamic <= DT_DYNAMIC_STATIC; dynamic += 2) {
    uint32_t traces = 0;
    uint64_t graphs = dynamic == DT_DYNAMIC_STATIC ? 2 : 1;
    dt_session_counters_t before = tree_stats(s);
    dt_function_options_t options = options_of(2, inputs);
    options.call_mode = DT_CALL_REDUCE_OVERHEAD;
    options.dynamic = (dt_dynamic_t)dynamic;
    dt_function_t *f = NULL;
    expect_ok(dt_function_create(tree->runtime, plus_integer, &traces, &options, &f));
    dt_tensor_t *x = filled(s, 20, 1);
    for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
      dt_tensor_t *key = tensor_i64(0, NULL, &keys[k]), *out = NULL;
      expect_ok(dt_call(s, f, (dt_tensor_t *[]){x, key}, 2, &out, 1, NULL));
      expect_filled(s, out, 20, 1 + (float)keys[k]);
      RELEASE(key, out);
    }
    assert_int_equal(traces, graphs);
    assert_int_equal(stats_of(f).variants, graphs);
    expect_tree(s, before.places + graphs, before.builds + graphs, before.graph_calls + 7);
    dt_tensor_release(x);
    dt_function_release(f);
  }
}

// PyTorch: a graph for each of three sizes, and a warning. Ours: one, and one a variant where each
// size is compiled for itself; neither is worth a warning.
static void behaviour_104_sizes_share_a_graph(void **state) {
  tree_t *tree = *state;
  dt_session_t *s = tree->session;
  static const int64_t sizes[] = {10, 20, 30, 20, 10, 0, 1, 30};
  for (int dynamic = DT_DYNAMIC_SYMBOLIC; dynamic <= DT_DYNAMIC_STATIC; dynamic += 2) {
    uint64_t graphs = dynamic == DT_DYNAMIC_STATIC ? 4 : 1, empty = graphs == 4;
    dt_session_counters_t before = tree_stats(s);
    dt_function_t *f = tree_function(tree, plus_one, NULL, 1, 1, (dt_dynamic_t)dynamic);
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
      dt_tensor_t *x = filled(s, sizes[k], (float)k);
      call_and_check(s, f, x, (float)k + 1);
      dt_tensor_release(x);
    }
    dt_session_counters_t stats = tree_stats(s);
    assert_int_equal(stats_of(f).variants, graphs + empty);
    // The variant of no elements has a graph, too, unless it has no kernel.
    assert_in_range(stats.builds - before.builds, graphs, graphs + empty);
    assert_int_equal(stats.places - before.places, stats.builds - before.builds);
    assert_int_equal(stats.graph_calls + stats.graph_skips, before.graph_calls + 8);
    dt_function_release(f);
  }
}

// PyTorch: 4 to 6 graphs. Ours: one of each place, whatever parameter there is; also as a child and
// as a parent.
static void behaviour_105_swapped_parameters_are_set(void **state) {
  tree_t *tree = *state;
  dt_session_t *s = tree->session;
  const int64_t n = 1;
  dt_tensor_t *p[2] = {tensor_full(2, 1, &n), tensor_full(5, 1, &n)}, *x = filled(s, 20, 3);
  dt_function_t *f = tree_function(tree, times_weight, p[0], 1, 1, DT_DYNAMIC_SYMBOLIC);
  dt_function_t *g = tree_function(tree, plus_one, NULL, 1, 1, DT_DYNAMIC_SYMBOLIC);
  for (uint32_t k = 0; k < 6; k++) {
    float w = k % 2 ? 5 : 2;
    dt_tensor_t *alone = call_one(s, f, x), *after = call_one(s, g, alone);
    dt_tensor_t *child = call_one(s, f, after);
    expect_filled(s, alone, 20, 3 * w);
    expect_filled(s, after, 20, 3 * w + 1);
    expect_filled(s, child, 20, (3 * w + 1) * w);
    RELEASE(alone, after, child);
    expect_ok(dt_step_begin(s));
    expect_ok(dt_constant_update(f, "w", p[(k + 1) % 2]));
  }
  expect_tree(s, 3, 3, 18);
  RELEASE(p[0], p[1], x);
  dt_function_release(f);
  dt_function_release(g);
}

// There is no limit of recordings to pass, and so no call that is launched kernel by kernel for it.
static void behaviour_106_changed_addresses_are_never_too_many(void **state) {
  tree_t *tree = *state;
  dt_session_t *s = tree->session;
  dt_function_t *f = tree_function(tree, plus_one, NULL, 1, 1, DT_DYNAMIC_SYMBOLIC);
  dt_tensor_t *inputs[40];
  for (uint32_t k = 0; k < 40; k++) {
    inputs[k] = filled(s, 20, (float)k);
    call_and_check(s, f, inputs[k], (float)k + 1);
  }
  expect_tree(s, 1, 1, 40);
  release_tensors(inputs, 40);
  dt_function_release(f);
}

// PyTorch names the input whose address made it record again. Ours records nothing: what changed is
// counted, by node, and an equal call sets nothing.
static void behaviour_107_what_changed_is_counted(void **state) {
  tree_t *tree = *state;
  dt_session_t *s = tree->session;
  dt_function_t *f = tree_function(tree, sum_of_two, NULL, 2, 1, DT_DYNAMIC_SYMBOLIC);
  dt_tensor_t *a = filled(s, 20, 1), *b = filled(s, 20, 2), *c = filled(s, 20, 3);
  dt_tensor_t *const calls[][2] = {{a, b}, {a, b}, {a, c}, {a, c}, {c, c}, {b, a}};
  static const uint64_t set[] = {0, 0, 1, 1, 2, 3};
  for (uint32_t k = 0; k < 6; k++) {
    dt_tensor_t *out = NULL;
    expect_ok(dt_call(s, f, calls[k], 2, &out, 1, NULL));
    dt_session_counters_t stats = tree_stats(s);
    // Two tensors that are one may be a variant of their own; this program has none.
    assert_int_equal(stats.nodes_set, set[k]);
    assert_int_equal(stats.grids_set + stats.functions_set, 0);
    dt_tensor_release(out);
  }
  assert_int_equal(tree_stats(s).unchanged_calls, 2);
  expect_tree(s, 1, 1, 6);
  RELEASE(a, b, c);
  dt_function_release(f);
}

RUN_TESTS(IN_TREE(behaviour_90_two_shapes_are_one_root),
          IN_TREE(behaviour_91_a_function_called_twice_is_a_path),
          IN_TREE(behaviour_92_dropped_results_end_the_path),
          IN_TREE(behaviour_93_a_new_branch_after_others_ran),
          IN_TREE(behaviour_94_two_branches_need_no_checkpoint),
          IN_TREE(behaviour_95_a_result_dies_between_calls),
          IN_TREE(behaviour_96_a_result_at_another_address_is_set),
          IN_TREE(behaviour_97_equal_outputs_have_memory_of_their_own),
          IN_TREE(behaviour_98_results_are_where_they_were),
          IN_TREE(behaviour_99_a_slice_keeps_the_result_alive),
          IN_TREE(behaviour_100_parameters_and_inputs_given_out_are_copies),
          IN_TREE(behaviour_101_empty_results_take_no_place),
          IN_TREE(behaviour_102_results_of_an_earlier_step_say_so),
          IN_TREE(behaviour_103_integers_make_no_graphs),
          IN_TREE(behaviour_104_sizes_share_a_graph),
          IN_TREE(behaviour_105_swapped_parameters_are_set),
          IN_TREE(behaviour_106_changed_addresses_are_never_too_many),
          IN_TREE(behaviour_107_what_changed_is_counted))
