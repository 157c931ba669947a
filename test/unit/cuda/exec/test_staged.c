// SPDX-License-Identifier: Apache-2.0
// Inputs on the host in calls of a session on a device, launched plainly and as graphs: copied by
// the call, in order, into memory that stays where it is; the host's memory is free at once.
#include "ductile/experimental.h"
#include "test/unit/cuda/graphs/graph_calls.h"

#include <string.h>

static const dt_call_options_t plain = {.struct_size = sizeof(dt_call_options_t),
                                        .mode = DT_CALL_PLAIN};

typedef struct way_t {
  fake_fixture_t f;
  dt_function_t *add;
  const dt_call_options_t *options;
} way_t;

static way_t way_open(uint64_t seed, bool graphs) {
  way_t w = {.options = graphs ? &as_graph : &plain};
  fake_begin(seed);
  w.f = fake_fixture_open();
  w.add = function_named(w.f.runtime, "add", NULL);
  return w;
}

static void way_close(way_t *w) {
  dt_function_release(w->add);
  fake_fixture_close(&w->f);
  fake_end();
}

static dt_tensor_t *add(way_t *w, dt_tensor_t *a, dt_tensor_t *b) {
  dt_tensor_t *out = NULL;
  expect_ok(dt_call(w->f.session, w->add, (dt_tensor_t *[]){a, b}, 2, &out, 1, w->options));
  return out;
}

// Both kinds of input, one host tensor twice, odd sizes up and down again. The caller's memory is
// overwritten as soon as the call has returned.
static void sizes_change_and_memory_is_free_at_once(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 6; seed++) {
    way_t w = way_open(seed, seed & 1);
    static const int64_t sizes[] = {5, 1, 0, 300, 7, 1000, 5};
    dt_tensor_t *outs[7], *there_base = NULL;
    int64_t most = 1000;
    expect_ok(dt_tensor_create_on(w.f.session, DT_F32, 1, &most, &there_base));
    dt_tensor_t *filled = host_f32(most, 2, 2);
    expect_ok(dt_tensor_copy(w.f.session, filled, there_base));
    uint64_t waits = fake_cuda_calls(DT_CUDA_SYM_stream_synchronize);
    for (uint32_t k = 0; k < 7; k++) {
      dt_tensor_t *host = host_f32(sizes[k], 1, 1);
      dt_tensor_t *there = first_of(there_base, sizes[k]);
      outs[k] = k & 1 ? add(&w, host, host) : add(&w, host, there);
      memset(dt_tensor_data(host), 0x7f, (size_t)sizes[k] * sizeof(float));
      dt_tensor_release(host);
      dt_tensor_release(there);
    }
    if (!(seed & 1)) // mapping more of what is in use waits for nothing
      assert_int_equal(fake_cuda_calls(DT_CUDA_SYM_stream_synchronize), waits);
    for (uint32_t k = 0; k < 7; k++)
      expect_ramp(w.f.session, outs[k], sizes[k], k & 1 ? 2 : 3, k & 1 ? 2 : 3);
    dt_session_counters_t stats = session_stats(w.f.session);
    assert_int_equal(stats.staged_inputs, 10);
    assert_int_equal(stats.staged_bytes, sizeof(float) * (2 * (1 + 300 + 1000) + 5 + 0 + 7 + 5));
    assert_true(stats.staging_bytes > 0);
    release_tensors(outs, 7);
    RELEASE(there_base, filled);
    way_close(&w);
  }
}

// Equal calls are equal to their graph: the copies go to where they went.
static void nothing_is_set_when_sizes_stay(void **state) {
  (void)state;
  way_t w = way_open(7, true);
  for (uint32_t k = 0; k < 5; k++) {
    dt_tensor_t *host = host_f32(64, (float)k, 1), *out = add(&w, host, host);
    expect_ramp(w.f.session, out, 64, 2 * (float)k, 2);
    RELEASE(host, out);
    expect_ok(dt_step_begin(w.f.session));
  }
  dt_session_counters_t stats = session_stats(w.f.session);
  assert_int_equal(stats.graph_calls, 5);
  assert_int_equal(stats.builds, 1);
  assert_int_equal(stats.unchanged_calls, 4);
  way_close(&w);
}

// One copy for all of a call where they are small; pieces where they are not, and a queue of calls
// that is longer than what is pinned.
static void copies_are_few_and_pinned_memory_is_bounded(void **state) {
  (void)state;
  enum { MANY = 1200000, CALLS = 4 };
  for (int graphs = 0; graphs < 2; graphs++) {
    way_t w = way_open(3, graphs);
    dt_tensor_t *a = host_f32(100, 1, 1), *b = host_f32(100, 5, 0), *outs[CALLS];
    RELEASE(add(&w, a, b));
    uint64_t copies = fake_cuda_calls(DT_CUDA_SYM_copy_to_device);
    uint64_t pinned = fake_cuda_calls(DT_CUDA_SYM_host_alloc);
    for (uint32_t k = 0; k < CALLS; k++)
      outs[k] = add(&w, a, b);
    assert_int_equal(fake_cuda_calls(DT_CUDA_SYM_copy_to_device), copies + CALLS);
    for (uint32_t k = 0; k < CALLS; k++)
      expect_ramp(w.f.session, outs[k], 100, 6, 1);
    release_tensors(outs, CALLS);
    dt_tensor_t *large = host_f32(MANY, 0, 1);
    for (uint32_t k = 0; k < 2; k++)
      outs[k] = add(&w, large, large);
    for (uint32_t k = 0; k < 2; k++)
      expect_ramp(w.f.session, outs[k], MANY, 0, 2);
    assert_int_equal(fake_cuda_calls(DT_CUDA_SYM_host_alloc), pinned);
    release_tensors(outs, 2);
    RELEASE(a, b, large);
    way_close(&w);
  }
}

// What cannot be staged says so, and leaves the session as it was.
static void refusals_name_the_tensor(void **state) {
  (void)state;
  way_t w = way_open(5, false);
  dt_tensor_t *host = host_f32(8, 1, 1), *out = host_f32(8, 0, 0), *none = NULL;
  expect_told(dt_call(w.f.session, w.add, (dt_tensor_t *[]){host, host}, 2, &out, 1, NULL),
              DT_E_ARGUMENT, "output 0");
  dt_session_t *lent = NULL;
  expect_ok(open_session(w.f.runtime, 0, dt_session_stream(w.f.session), &lent));
  set_capturing(lent, true);
  expect_told(dt_call(lent, w.add, (dt_tensor_t *[]){host, host}, 2, &none, 1, NULL),
              DT_E_UNSUPPORTED, "an input on the host");
  set_capturing(lent, false);
  dt_session_destroy(lent);
  none = add(&w, host, host);
  expect_ramp(w.f.session, none, 8, 2, 2);
  expect_ok(dt_session_trim(w.f.session));
  assert_int_equal(session_stats(w.f.session).staging_bytes, 0);
  dt_tensor_t *again = add(&w, host, host);
  expect_ramp(w.f.session, again, 8, 2, 2);
  RELEASE(host, out, none, again);
  way_close(&w);
}

// Guards are timed as a call would meet them, also by the first one with such inputs.
static void guards_are_timed(void **state) {
  (void)state;
  way_t w = way_open(5, false);
  dt_tensor_t *host = host_f32(8, 1, 1);
  RELEASE(add(&w, host, host));
  expect_ok(dt_session_trim(w.f.session)); // they need memory again
  double ns = 0;
  expect_ok(dt_function_guard_ns(w.f.session, w.add, (dt_tensor_t *[]){host, host}, 2, 5, &ns));
  assert_true(ns > 0);
  dt_tensor_t *out = add(&w, host, host);
  expect_ramp(w.f.session, out, 8, 2, 2);
  RELEASE(host, out);
  way_close(&w);
}

// A frozen session says that it took memory for them.
static void frozen_sessions_count_what_they_take(void **state) {
  (void)state;
  way_t w = way_open(5, true);
  dt_tensor_t *some = host_f32(8, 1, 1), *more = host_f32(2 << 20, 1, 1);
  RELEASE(add(&w, some, some));
  expect_ok(dt_session_freeze(w.f.session, true));
  RELEASE(add(&w, some, some));
  assert_int_equal(session_stats(w.f.session).frozen_growths, 0);
  RELEASE(add(&w, more, more));
  assert_true(session_stats(w.f.session).frozen_growths > 0);
  RELEASE(some, more);
  way_close(&w);
}

RUN_TESTS(TEST(sizes_change_and_memory_is_free_at_once), TEST(nothing_is_set_when_sizes_stay),
          TEST(copies_are_few_and_pinned_memory_is_bounded), TEST(refusals_name_the_tensor),
          TEST(guards_are_timed), TEST(frozen_sessions_count_what_they_take))
