// SPDX-License-Identifier: Apache-2.0
// Calls as CUDA graphs: one graph for every size, launches that vary in number, what is skipped and
// why, budgets, freezing, failures. test_graph_memory.c is about results and the memory of
// sessions.
#include "test/unit/cuda/graphs/graph_calls.h"

#include "backend_cuda/place/place.h"
#include "ductile/experimental.h"
#include "runtime/base/memory.h"
#include "test/support/folder.h"

#include <string.h>

static void expect_skip(dt_session_t *session, dt_function_t *function, uint64_t skips,
                        const char *why) {
  dt_session_counters_t stats = session_stats(session);
  dt_function_counters_t own = stats_of(function);
  assert_int_equal(stats.graph_skips, skips);
  assert_non_null(stats.graph_skip);
  assert_non_null(own.graph_skip);
  if (!strstr(stats.graph_skip, why) || !strstr(own.graph_skip, why))
    fail_msg("skipped by: %s; %s", stats.graph_skip, own.graph_skip);
}

// ---- Sizes ----------------------------------------------------------------------------------------

// In any order, with 0 and 1 and back: one place, one graph, nothing but arguments and grids set.
static void one_graph_serves_every_size(void **state) {
  (void)state;
  static const int64_t sizes[] = {7, 0, 1, 64, 60000, 1, 0, 7, 7, 59999, 0, 60000, 2};
  for (uint64_t seed = 1; seed <= 6; seed++) {
    fake_begin(seed);
    fake_fixture_t f = fake_fixture_open();
    dt_function_t *add = function_named(f.runtime, "add", NULL);
    dt_tensor_t *host = host_f32(60000, 1, 1), *base = tensor_upload(f.session, host);
    uint64_t n = sizeof(sizes) / sizeof(sizes[0]);
    for (uint64_t k = 0; k < n; k++) {
      dt_tensor_t *x = first_of(base, sizes[(k * seed) % n]);
      dt_tensor_t *sum = graph_call(f.session, add, 2, x);
      expect_ramp(f.session, sum, dt_tensor_count(x), 2, 2);
      RELEASE(x, sum);
    }
    dt_session_counters_t stats = session_stats(f.session);
    assert_int_equal(stats.graph_calls, n);
    assert_int_equal(stats.graph_skips, 0);
    assert_null(stats.graph_skip);
    assert_int_equal(stats.builds, 1);
    assert_int_equal(stats.places, 1);
    assert_int_equal(stats.executables, 1);
    assert_int_equal(stats.executable_nodes, 2);
    assert_int_equal(stats.functions_set, 0);
    assert_int_equal(stats_of(add).graph_calls, n);
    fake_graph_counts_t counts;
    fake_cuda_graphs(&counts);
    assert_int_equal(counts.instantiations, 1);
    assert_int_equal(counts.launches, n);
    assert_int_equal(fake_cuda_calls(DT_CUDA_SYM_launch), 0);
    RELEASE(host, base);
    dt_function_release(add);
    fake_fixture_close(&f);
    fake_end();
  }
}

// A call of a new size leaves the grid as it is, unless most of it would be idle; an equal call
// sets what is wanted: for much work as many blocks as are of use and some room, as far as a grid
// goes.
static void grids_are_set_by_equal_calls(void **state) {
  (void)state;
  static const struct {
    int64_t items;
    uint64_t first, second; // grids set by then
  } calls[] = {{10, 0, 0}, {4000000, 0, 1},    {4001000, 1, 1},    {3999000, 1, 1},
               {10, 2, 2}, {4100000000, 2, 3}, {4200000000, 3, 4}, {INT64_MAX, 4, 5}};
  fake_begin(4);
  fake_fixture_t f = fake_fixture_open();
  dt_function_t *pieces = function_named(f.runtime, "pieces", NULL);
  dt_tensor_t *host = host_f32(10, 1, 1), *x = tensor_upload(f.session, host);
  for (size_t k = 0; k < sizeof(calls) / sizeof(calls[0]); k++) {
    set_items(calls[k].items);
    dt_tensor_t *part = first_of(x, 10 - (int64_t)(k % 2)); // so that the host program runs
    for (uint32_t round = 0; round < 3; round++) {
      dt_tensor_t *out = graph_call(f.session, pieces, 1, part);
      expect_ramp(f.session, out, dt_tensor_count(part), 2, 2);
      if (session_stats(f.session).grids_set != (round ? calls[k].second : calls[k].first))
        fail_msg("%zu, %u: %llu", k, round, (unsigned long long)session_stats(f.session).grids_set);
      RELEASE(out);
    }
    RELEASE(part);
  }
  set_items(0);
  assert_int_equal(session_stats(f.session).builds, 1);
  assert_int_equal(session_stats(f.session).graph_skips, 0);
  assert_int_equal(session_stats(f.session).shared_set, 0);
  RELEASE(host, x);
  dt_function_release(pieces);
  fake_fixture_close(&f);
  fake_end();
}

// An equal call does not even compare; the second generation finds everything where it was.
static void an_equal_call_sets_nothing(void **state) {
  (void)state;
  fake_begin(3);
  fake_fixture_t f = fake_fixture_open();
  dt_function_t *add = function_named(f.runtime, "add", NULL);
  dt_tensor_t *host = host_f32(100, 1, 1), *x = tensor_upload(f.session, host);
  for (uint32_t k = 0; k < 5; k++) {
    dt_tensor_t *once = graph_call(f.session, add, 2, x);
    dt_tensor_t *twice = graph_call(f.session, add, 2, once);
    expect_ramp(f.session, twice, 100, 4, 4);
    RELEASE(once, twice);
    expect_ok(dt_step_begin(f.session));
  }
  dt_session_counters_t stats = session_stats(f.session);
  assert_int_equal(stats.graph_calls, 10);
  assert_int_equal(stats.unchanged_calls, 8);
  assert_int_equal(stats.nodes_set, 0);
  assert_int_equal(stats.builds, 2);
  assert_int_equal(stats.generation, 6);
  assert_int_equal(stats_of(add).launches, 20);
  RELEASE(host, x);
  dt_function_release(add);
  fake_fixture_close(&f);
  fake_end();
}

// ---- Slices ---------------------------------------------------------------------------------------

// A graph grows to the most launches that were needed; with fewer the rest has empty work.
static void launches_vary_in_number(void **state) {
  (void)state;
  // Sizes, and how many graphs were assembled by then.
  static const int64_t steps[][2] = {{40, 1},  {16, 1},  {0, 1},   {33, 1},  {100, 2},
                                     {40, 2},  {100, 2}, {1, 2},   {0, 2},   {112, 2},
                                     {113, 3}, {16, 3},  {500, 4}, {113, 4}, {500, 4}};
  for (uint64_t seed = 1; seed <= 4; seed++) {
    fake_begin(seed);
    fake_fixture_t f = fake_fixture_open();
    dt_function_t *pieces = function_named(f.runtime, "pieces", NULL);
    dt_tensor_t *host = host_f32(500, 1, 1), *base = tensor_upload(f.session, host);
    int64_t most = 0;
    for (size_t k = 0; k < sizeof(steps) / sizeof(steps[0]); k++) {
      dt_tensor_t *x = first_of(base, steps[k][0]);
      dt_tensor_t *out = graph_call(f.session, pieces, 1, x);
      expect_ramp(f.session, out, steps[k][0], 2, 2);
      most = most > steps[k][0] ? most : steps[k][0];
      dt_session_counters_t stats = session_stats(f.session);
      assert_int_equal(stats.builds, steps[k][1]);
      assert_int_equal(stats.executable_nodes, (most + FAKE_PIECE - 1) / FAKE_PIECE);
      RELEASE(x, out);
    }
    assert_int_equal(session_stats(f.session).graph_skips, 0);
    RELEASE(host, base);
    dt_function_release(pieces);
    fake_fixture_close(&f);
    fake_end();
  }
}

// No launch at all at first: a graph without nodes.
static void a_call_without_launches_is_a_graph_too(void **state) {
  (void)state;
  fake_begin(5);
  fake_fixture_t f = fake_fixture_open();
  dt_function_t *pieces = function_named(f.runtime, "pieces", NULL);
  dt_tensor_t *host = host_f32(20, 1, 1), *base = tensor_upload(f.session, host);
  for (int64_t n = 0; n <= 20; n += 10) {
    dt_tensor_t *x = first_of(base, n), *out = graph_call(f.session, pieces, 1, x);
    expect_ramp(f.session, out, n, 2, 2);
    RELEASE(x, out);
  }
  assert_int_equal(session_stats(f.session).graph_calls, 3);
  RELEASE(host, base);
  dt_function_release(pieces);
  fake_fixture_close(&f);
  fake_end();
}

// ---- Frozen ---------------------------------------------------------------------------------------

static void frozen_sessions_assemble_nothing(void **state) {
  (void)state;
  fake_begin(6);
  fake_fixture_t f = fake_fixture_open();
  dt_function_t *pieces = function_named(f.runtime, "pieces", NULL);
  dt_function_t *add = function_named(f.runtime, "add", NULL);
  dt_tensor_t *host = host_f32(600000, 1, 1), *base = tensor_upload(f.session, host);
  dt_tensor_t *x = first_of(base, 40), *longer = first_of(base, 90), *out = NULL;
  dt_tensor_release(graph_call(f.session, pieces, 1, x));
  expect_ok(dt_session_freeze(f.session, true));
  out = graph_call(f.session, pieces, 1, longer); // more launches than nodes
  expect_ramp(f.session, out, 90, 2, 2);
  expect_skip(f.session, pieces, 1, "frozen");
  dt_tensor_release(out);
  out = graph_call(f.session, pieces, 1, x); // the graph is as it was
  expect_ramp(f.session, out, 40, 2, 2);
  assert_int_equal(session_stats(f.session).graph_calls, 2);
  assert_int_equal(session_stats(f.session).builds, 1);
  assert_int_equal(session_stats(f.session).executable_nodes, 3);
  dt_tensor_release(out);
  out = graph_call(f.session, add, 2, base); // no graph, and more memory
  expect_ramp(f.session, out, 600000, 2, 2);
  expect_skip(f.session, add, 2, "frozen");
  dt_session_counters_t stats = session_stats(f.session);
  assert_int_equal(stats.frozen_builds, 2);
  assert_int_equal(stats.frozen_growths, 1);
  dt_tensor_release(out);
  expect_ok(dt_session_freeze(f.session, false));
  dt_tensor_release(graph_call(f.session, add, 2, base));
  out = graph_call(f.session, pieces, 1, longer);
  expect_ramp(f.session, out, 90, 2, 2);
  assert_int_equal(session_stats(f.session).graph_calls, 4);
  RELEASE(host, base, x, longer, out);
  dt_function_release(pieces);
  dt_function_release(add);
  fake_fixture_close(&f);
  fake_end();
}

// ---- Budgets --------------------------------------------------------------------------------------

// 1 MiB is 204 kernels.
static void the_budget_takes_graphs_away(void **state) {
  (void)state;
  fake_begin(7);
  variable_set("DUCTILE_GRAPH_MIB", "1");
  fake_fixture_t f = fake_fixture_open();
  variable_set("DUCTILE_GRAPH_MIB", NULL);
  dt_session_t *other = NULL;
  expect_ok(open_session(f.runtime, 0, NULL, &other));
  dt_function_t *pieces = function_named(f.runtime, "pieces", NULL);
  dt_tensor_t *host = host_f32(300 * FAKE_PIECE, 1, 1), *base = tensor_upload(f.session, host);
  dt_tensor_t *x = first_of(base, 120 * FAKE_PIECE), *out = NULL;
  expect_ok(dt_session_wait(f.session));
  for (uint32_t k = 0; k < 6; k++) { // only one of the two has room
    out = graph_call(k % 2 ? other : f.session, pieces, 1, x);
    expect_ramp(k % 2 ? other : f.session, out, 120 * FAKE_PIECE, 2, 2);
    dt_tensor_release(out);
  }
  assert_int_equal(session_stats(f.session).builds, 3);
  assert_int_equal(session_stats(other).builds, 3);
  assert_int_equal(session_stats(f.session).executables, 0);
  assert_int_equal(session_stats(other).executables, 1);
  assert_int_equal(session_stats(other).executable_bytes, 120 * 5120);
  // What all of the budget has no room for takes nothing from anybody, and leaves the smaller
  // graph.
  out = graph_call(f.session, pieces, 1, base);
  expect_ramp(f.session, out, 300 * FAKE_PIECE, 2, 2);
  expect_skip(f.session, pieces, 1, "GRAPH_MIB");
  dt_tensor_release(out);
  out = graph_call(other, pieces, 1, base);
  expect_ramp(other, out, 300 * FAKE_PIECE, 2, 2);
  expect_skip(other, pieces, 1, "GRAPH_MIB");
  dt_tensor_release(out);
  assert_int_equal(session_stats(other).executables, 1);
  dt_tensor_release(graph_call(other, pieces, 1, x));
  assert_int_equal(session_stats(other).builds, 3);
  expect_ok(dt_session_wait(other));
  RELEASE(host, base, x);
  dt_function_release(pieces);
  dt_session_destroy(other);
  fake_fixture_close(&f);
  fake_end();
}

// The device has room for one executable of two: the other one's goes; for none: kernel by kernel.
static void the_device_has_no_memory_for_graphs(void **state) {
  (void)state;
  fake_begin(8);
  fake_cuda_graph_memory(1000, 0, 1500);
  fake_fixture_t f = fake_fixture_open();
  dt_function_t *add = function_named(f.runtime, "add", NULL);
  dt_function_t *pieces = function_named(f.runtime, "pieces", NULL);
  dt_tensor_t *host = host_f32(30, 1, 1), *x = tensor_upload(f.session, host), *out = NULL;
  for (uint32_t k = 0; k < 4; k++) {
    out = graph_call(f.session, k % 2 ? pieces : add, k % 2 ? 1 : 2, x);
    expect_ramp(f.session, out, 30, 2, 2);
    dt_tensor_release(out);
  }
  dt_session_counters_t stats = session_stats(f.session);
  assert_int_equal(stats.graph_calls, 4);
  assert_int_equal(stats.builds, 4);
  assert_int_equal(stats.executables, 1);
  fake_cuda_graph_memory(1000, 0, 500);
  out = graph_call(f.session, add, 2, x);
  expect_ramp(f.session, out, 30, 2, 2);
  expect_skip(f.session, add, 1, "memory");
  RELEASE(host, x, out);
  dt_function_release(add);
  dt_function_release(pieces);
  fake_fixture_close(&f);
  fake_end();
}

// A graph that another session left behind runs with this one's memory, though all that calls name
// is equal.
static void a_graph_left_behind_is_set_anew(void **state) {
  (void)state;
  fake_begin(9);
  fake_fixture_t f = fake_fixture_open();
  dt_session_t *first = NULL, *second = NULL;
  dt_function_t *pieces = function_named(f.runtime, "pieces", NULL);
  dt_tensor_t *host = host_f32(10, 1, 1), *x = tensor_upload(f.session, host), *out = NULL;
  expect_ok(dt_session_wait(f.session));
  expect_ok(dt_tensor_create_on(f.session, DT_F32, 1, dt_tensor_sizes(x), &out));
  expect_ok(dt_session_wait(f.session));
  set_scratch(200000);
  expect_ok(open_session(f.runtime, 0, NULL, &first));
  expect_ok(dt_call(first, pieces, &x, 1, &out, 1, &as_graph));
  dt_session_destroy(first); // with its scratch
  expect_ok(open_session(f.runtime, 0, NULL, &second));
  expect_ok(dt_call(second, pieces, &x, 1, &out, 1, &as_graph));
  expect_ramp(second, out, 10, 2, 2);
  assert_int_equal(session_stats(second).builds, 0);
  assert_int_equal(session_stats(second).unchanged_calls, 0);
  assert_int_equal(session_stats(second).graph_calls, 1);
  set_scratch(0);
  dt_session_destroy(second);
  RELEASE(host, x, out);
  dt_function_release(pieces);
  fake_fixture_close(&f);
  fake_end();
}

// ---- Skips ----------------------------------------------------------------------------------------

// A call that reads a number in between is two graphs on one path, with one wait between them. Its
// result, whose size data says, has memory of its own.
static void reading_calls_are_a_graph_a_segment(void **state) {
  (void)state;
  for (uint64_t seed = 10; seed < 14; seed++) {
    fake_begin(seed);
    fake_fixture_t f = fake_fixture_open();
    dt_function_t *select = function_named(f.runtime, "select", NULL);
    dt_function_t *add = function_named(f.runtime, "add", NULL);
    static const int64_t sizes[] = {10, 10, 500, 3, 10};
    for (uint64_t k = 1; k <= 5; k++) {
      int64_t n = sizes[k - 1], positive = n > 5 ? n - 5 : 0;
      dt_tensor_t *host = host_f32(n, -4, 1), *x = tensor_upload(f.session, host);
      dt_tensor_t *before = graph_call(f.session, add, 2, x);
      uint64_t waits = fake_cuda_calls(DT_CUDA_SYM_stream_synchronize);
      dt_tensor_t *out = graph_call(f.session, select, 1, x);
      if (k > 1) // with room for numbers
        assert_int_equal(fake_cuda_calls(DT_CUDA_SYM_stream_synchronize), waits + 1);
      dt_tensor_t *after = graph_call(f.session, add, 2, out);
      assert_int_equal(session_stats(f.session).graph_calls, 3 * k);
      assert_int_equal(session_stats(f.session).path_length, 4);
      expect_ramp(f.session, before, n, -8, 2);
      expect_ramp(f.session, after, positive, 2, 2);
      expect_ok(dt_step_begin(f.session)); // its memory is its own
      expect_ramp(f.session, out, positive, 1, 1);
      RELEASE(host, x, before, out, after);
    }
    dt_session_counters_t stats = session_stats(f.session);
    assert_int_equal(stats.graph_skips, 0);
    assert_int_equal(stats.places, 4);
    assert_int_equal(stats.builds, 4);
    dt_function_release(select);
    dt_function_release(add);
    fake_fixture_close(&f);
    fake_end();
  }
}

// A check on the number fails between the two: the first graph has run, and the next call begins
// anew.
static void a_chain_that_ends_early_leaves_a_path(void **state) {
  (void)state;
  fake_begin(9);
  fake_fixture_t f = fake_fixture_open();
  dt_function_t *select = function_named(f.runtime, "select", NULL);
  dt_tensor_t *host = host_f32(10, -4, 1), *x = tensor_upload(f.session, host), *none = NULL;
  for (uint32_t k = 0; k < 3; k++) {
    fake_cuda_fail(DT_CUDA_SYM_copy_to_host, 0, DT_CU_OUT_OF_MEMORY, false);
    expect_told(dt_call(f.session, select, &x, 1, &none, 1, &as_graph), DT_E_NO_MEMORY, "");
    assert_null(none);
    dt_tensor_t *out = graph_call(f.session, select, 1, x);
    expect_ramp(f.session, out, 5, 1, 1);
    dt_tensor_release(out);
    expect_ok(dt_step_begin(f.session));
  }
  assert_int_equal(session_stats(f.session).graph_calls, 3);
  RELEASE(host, x);
  dt_function_release(select);
  fake_fixture_close(&f);
  fake_end();
}

// A path has 1024 calls; then calls are skipped, until the generation ends: by dt_step_begin, or
// because nobody holds a result of it.
static void paths_have_an_end(void **state) {
  (void)state;
  for (int by_release = 0; by_release < 2; by_release++) {
    fake_begin(11);
    fake_fixture_t f = fake_fixture_open();
    dt_function_t *pieces = function_named(f.runtime, "pieces", NULL);
    dt_tensor_t *host = host_f32(10, 1, 1), *x = tensor_upload(f.session, host);
    dt_tensor_t *held = graph_call(f.session, pieces, 1, x);
    for (uint32_t k = 1; k < 1024; k++)
      dt_tensor_release(graph_call(f.session, pieces, 1, x));
    assert_int_equal(session_stats(f.session).graph_skips, 0);
    assert_int_equal(session_stats(f.session).path_length, 1024);
    dt_tensor_t *out = graph_call(f.session, pieces, 1, x);
    expect_ramp(f.session, out, 10, 2, 2);
    expect_skip(f.session, pieces, 1, "dt_step_begin");
    expect_ramp(f.session, held, 10, 2, 2);
    RELEASE(out, held);
    if (!by_release)
      expect_ok(dt_step_begin(f.session));
    out = graph_call(f.session, pieces, 1, x);
    expect_ramp(f.session, out, 10, 2, 2);
    dt_session_counters_t stats = session_stats(f.session);
    assert_int_equal(stats.graph_skips, 1);
    assert_int_equal(stats.path_length, 1);
    assert_int_equal(stats.generation, 2);
    assert_int_equal(stats.places, 1024);
    RELEASE(host, x, out);
    dt_function_release(pieces);
    fake_fixture_close(&f);
    fake_end();
  }
}

static void captured_and_switched_off(void **state) {
  (void)state;
  fake_begin(12);
  fake_fixture_t f = fake_fixture_open();
  dt_session_t *lent = NULL;
  expect_ok(open_session(f.runtime, 0, dt_session_stream(f.session), &lent));
  dt_function_t *add = function_named(f.runtime, "add", NULL);
  dt_tensor_t *host = host_f32(10, 1, 1), *x = tensor_upload(lent, host), *out = NULL;
  dt_tensor_release(graph_call(lent, add, 2, x));
  expect_ok(dt_tensor_create_on(lent, DT_F32, 1, dt_tensor_sizes(x), &out));
  set_capturing(lent, true);
  expect_ok(dt_call(lent, add, (dt_tensor_t *[]){x, x}, 2, &out, 1, &as_graph));
  set_capturing(lent, false);
  expect_ramp(lent, out, 10, 2, 2);
  expect_skip(lent, add, 1, "captures");
  const dt_call_options_t plain = {.mode = DT_CALL_PLAIN}, none = {.mode = (dt_call_mode_t)7};
  expect_ok(dt_call(lent, add, (dt_tensor_t *[]){x, x}, 2, &out, 1, &plain));
  assert_int_equal(session_stats(lent).graph_calls, 1);
  assert_int_equal(session_stats(lent).graph_skips, 1);
  expect_told(dt_call(lent, add, (dt_tensor_t *[]){x, x}, 2, &out, 1, &none), DT_E_ARGUMENT,
              "call mode: 7");
  RELEASE(host, x, out);
  dt_function_release(add);
  dt_session_destroy(lent);
  fake_fixture_close(&f);
  fake_end();

  fake_begin(12);
  variable_set("DUCTILE_GRAPHS", "0");
  f = fake_fixture_open();
  variable_set("DUCTILE_GRAPHS", NULL);
  add = function_named(f.runtime, "add", NULL);
  host = host_f32(10, 1, 1);
  x = tensor_upload(f.session, host);
  out = graph_call(f.session, add, 2, x);
  expect_ramp(f.session, out, 10, 2, 2);
  expect_skip(f.session, add, 1, "DUCTILE_GRAPHS is 0");
  RELEASE(host, x, out);
  dt_function_release(add);
  fake_fixture_close(&f);
  fake_end();
}

// ---- Checks of data -------------------------------------------------------------------------------

// Each call has a record of its own, so its node is set; what fails is told, what follows is right.
static void checks_are_told_behind_graphs(void **state) {
  (void)state;
  static const int64_t good[] = {2, 0, 1}, bad[] = {2, 0, 10};
  fake_begin(13);
  fake_fixture_t f = fake_fixture_open();
  dt_function_t *gather = function_named(f.runtime, "gather", NULL);
  dt_tensor_t *host = host_f32(10, 5, 1), *table = tensor_upload(f.session, host);
  for (uint32_t k = 0; k < 12; k++) {
    bool fails = k % 3 == 1;
    dt_tensor_t *where = host_i64(3, fails ? bad : good), *ids = tensor_upload(f.session, where);
    dt_tensor_t *out = NULL;
    float data[3] = {0};
    expect_ok(dt_call(f.session, gather, (dt_tensor_t *[]){table, ids}, 2, &out, 1, &as_graph));
    if (fails)
      expect_told(dt_session_wait(f.session), DT_E_RANGE, "gather: index of ids: 10 is outside");
    expect_ok(dt_tensor_read(f.session, out, data, sizeof(data)));
    assert_true(data[0] == 7 && data[1] == 5 && data[2] == (fails ? 0 : 6));
    RELEASE(where, ids, out);
  }
  assert_int_equal(session_stats(f.session).graph_calls, 12);
  assert_int_equal(session_stats(f.session).builds, 1);
  RELEASE(host, table);
  dt_function_release(gather);
  fake_fixture_close(&f);
  fake_end();
}

// ---- Host memory ----------------------------------------------------------------------------------

enum { PARTS = 5, CALLS = 2 * PARTS };

// Whether it has to be tried again: there was no memory. Counts that.
static bool lacks_memory(dt_status_t status, uint32_t *failed) {
  dt_code_t code = dt_status_code(status);
  assert_true(code == DT_OK || code == DT_E_NO_MEMORY);
  *failed += status != NULL;
  dt_status_free(status);
  return status != NULL;
}

// Calls that grow a graph, and have a place each; the n-th allocation fails. What fails or is
// launched without a graph for it is counted, and tried again.
static uint32_t live(dt_runtime_t *runtime, dt_function_t *add, dt_function_t *pieces,
                     dt_tensor_t *const *parts, uint64_t n) {
  dt_session_t *session = NULL;
  dt_tensor_t *out[CALLS] = {NULL};
  uint32_t failed = 0;
  (void)dt__heap_fail_at(n, false);
  while (lacks_memory(open_session(runtime, 0, NULL, &session), &failed))
    ;
  for (uint32_t k = 0; k < CALLS; k++) {
    dt_tensor_t *x = parts[k / 2], *inputs[] = {x, x};
    while (lacks_memory(
        dt_call(session, k % 2 ? pieces : add, inputs, k % 2 ? 1 : 2, &out[k], 1, &as_graph),
        &failed))
      assert_null(out[k]);
  }
  (void)dt__heap_fail_at(0, false);
  for (uint32_t k = 0; k < CALLS; k++)
    expect_ramp(session, out[k], dt_tensor_count(parts[k / 2]), 2, 2);
  dt_session_counters_t stats = session_stats(session);
  assert_int_equal(stats.graph_calls + stats.graph_skips, CALLS);
  assert_in_range(stats.graph_skips, 0, 1);
  release_tensors(out, CALLS);
  dt_session_destroy(session);
  return failed + (uint32_t)stats.graph_skips;
}

static void each_allocation_fails(void **state) {
  (void)state;
  static const int64_t sizes[PARTS] = {40, 7, 700, 0, 699};
  fake_begin(14);
  fake_fixture_t f = fake_fixture_open();
  dt_function_t *add = function_named(f.runtime, "add", NULL);
  dt_function_t *pieces = function_named(f.runtime, "pieces", NULL);
  expect_ok(dt_function_prepare(add, &(dt_prepare_options_t){.device = DT_CUDA}));
  expect_ok(dt_function_prepare(pieces, &(dt_prepare_options_t){.device = DT_CUDA}));
  dt_tensor_t *host = host_f32(700, 1, 1), *base = tensor_upload(f.session, host), *parts[PARTS];
  for (uint32_t k = 0; k < PARTS; k++)
    parts[k] = first_of(base, sizes[k]);
  expect_ok(dt_session_wait(f.session));
  uint32_t struck = 0;
  for (uint64_t n = 1, missed = 0; missed < 40; n++) {
    uint32_t failed = live(f.runtime, add, pieces, parts, n);
    assert_in_range(failed, 0, 1);
    struck += failed;
    missed = failed ? 0 : missed + 1; // some are nobody's need: of a log, of a list kept ready
    (void)dt__graph_evict(dt__cuda_graphs(f.runtime), SIZE_MAX); // each life assembles its own
  }
  assert_true(struck > 50);
  print_message("%u allocations failed\n", struck);
  release_tensors(parts, PARTS);
  RELEASE(host, base);
  dt_function_release(add);
  dt_function_release(pieces);
  fake_fixture_close(&f);
  fake_end();
}

RUN_TESTS(TEST(one_graph_serves_every_size), TEST(grids_are_set_by_equal_calls),
          TEST(an_equal_call_sets_nothing), TEST(launches_vary_in_number),
          TEST(a_call_without_launches_is_a_graph_too), TEST(frozen_sessions_assemble_nothing),
          TEST(the_budget_takes_graphs_away), TEST(the_device_has_no_memory_for_graphs),
          TEST(a_graph_left_behind_is_set_anew), TEST(reading_calls_are_a_graph_a_segment),
          TEST(a_chain_that_ends_early_leaves_a_path), TEST(paths_have_an_end),
          TEST(captured_and_switched_off), TEST(checks_are_told_behind_graphs),
          TEST(each_allocation_fails))
