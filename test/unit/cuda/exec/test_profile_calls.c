// SPDX-License-Identifier: Apache-2.0
// Profiles of calls on a device, on programs that are made by hand: each piece of work has the time
// that the fake driver gave it, in plain calls and in graphs, over several sessions and threads,
// while profiles begin and end, and whatever of the driver fails. No event stays behind.
#include "test/unit/cuda/graphs/graph_calls.h"

#include "ductile/profile.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

// Between the events around it.
#define LAUNCH_NS ((uint64_t)FAKE_KERNEL_NS + FAKE_EVENT_NS)

static dt_profile_t *start(dt_runtime_t *runtime, bool whole_graphs) {
  const dt_profile_options_t options = {.struct_size = sizeof(options),
                                        .flags = whole_graphs ? DT_PROFILE_WHOLE_GRAPHS : 0};
  dt_profile_t *profile = NULL;
  expect_ok(dt_profile_start(runtime, &options, &profile));
  return profile;
}

static dt_profile_report_t *report_of(dt_profile_t *profile) {
  dt_profile_report_t *report = NULL;
  expect_ok(dt_profile_report(profile, &report));
  return report;
}

// Milliseconds are floats.
static void expect_ns(uint64_t got, uint64_t want, uint64_t pieces) {
  if (got > want + pieces || want > got + pieces)
    fail_msg("%llu ns; expected %llu", (unsigned long long)got, (unsigned long long)want);
}

static void expect_row(const dt_profile_kernel_t *kernel, uint64_t launches, uint64_t each_ns) {
  assert_int_equal(kernel->launches, launches);
  expect_ns(kernel->total_ns, launches * each_ns, launches);
  expect_ns(kernel->min_ns, each_ns, 1);
  expect_ns(kernel->max_ns, each_ns, 1);
  assert_int_equal(kernel->busy_ns, 0);
  assert_int_equal(kernel->wait_ns, 0);
}

static const dt_profile_variant_t *variant_named(const dt_profile_report_t *report,
                                                 const char *name) {
  for (uint32_t k = 0; k < report->n_variants; k++)
    if (strcmp(report->variants[k]->function, name) == 0)
      return report->variants[k];
  fail_msg("no variant of %s", name);
  return NULL;
}

static dt_tensor_t *upload(fake_fixture_t *f, int64_t n) {
  dt_tensor_t *host = host_f32(n, 1, 1), *there = NULL;
  expect_ok(dt_tensor_create_on(f->session, DT_F32, 1, &n, &there));
  expect_ok(dt_tensor_copy(f->session, host, there));
  dt_tensor_release(host);
  return there;
}

static void call(dt_session_t *session, dt_function_t *function, uint32_t n_inputs, dt_tensor_t *x,
                 const dt_call_options_t *options) {
  dt_tensor_t *out = NULL;
  expect_ok(dt_call(session, function, (dt_tensor_t *[]){x, x}, n_inputs, &out, 1, options));
  dt_tensor_release(out);
}

// ---- Plain calls ------------------------------------------------------------------------------------

static void launches_copies_and_waits(void **state) {
  (void)state;
  fake_begin(3);
  fake_fixture_t f = fake_fixture_open();
  dt_function_t *add = function_named(f.runtime, "add", NULL);
  dt_function_t *select = function_named(f.runtime, "select", NULL);
  dt_tensor_t *x = upload(&f, 40), *host = host_f32(40, 1, 1);
  call(f.session, add, 2, x, NULL); // nobody counts it
  dt_profile_t *profile = start(f.runtime, false);
  for (int k = 0; k < 5; k++)
    call(f.session, add, 2, x, NULL);
  for (int k = 0; k < 3; k++)
    call(f.session, add, 2, host, NULL);
  for (int k = 0; k < 2; k++)
    call(f.session, select, 1, x, NULL);
  expect_ok(dt_profile_stop(profile));
  call(f.session, add, 2, x, NULL); // nor this one
  dt_profile_report_t *report = report_of(profile);
  assert_int_equal(report->calls, 10);
  assert_int_equal(report->lost, 0);
  assert_true(report->named > 0.9 && report->named < 1.001);
  const dt_profile_variant_t *adds = variant_named(report, "add");
  const dt_profile_variant_t *selects = variant_named(report, "select");
  assert_int_equal(adds->device, DT_CUDA);
  assert_int_equal(adds->device_calls, 8);
  assert_int_equal(adds->untimed, 0);
  assert_int_equal(adds->n_kernels, 2);
  expect_row(adds->kernels[0], 8, LAUNCH_NS);
  expect_row(adds->kernels[1], 8, LAUNCH_NS);
  assert_int_equal(adds->kernels[0]->code, FAKE_ADD);
  assert_int_equal(adds->kernels[1]->code, FAKE_COPY);
  // One copy for both inputs.
  assert_int_equal(adds->to_device.copies, 3);
  assert_int_equal(adds->to_device.bytes, 3 * 2 * 40 * sizeof(float));
  assert_int_equal(adds->from_device.copies, 0);
  expect_ns(adds->kernels_ns, 16 * LAUNCH_NS, 16);
  expect_ns(adds->idle_ns, (8 + 3) * FAKE_EVENT_NS, 11);
  expect_ns(adds->device_ns, adds->kernels_ns + adds->to_device.total_ns + adds->idle_ns, 30);
  double shares = adds->kernels[0]->share + adds->kernels[1]->share;
  assert_true(shares > 0.9 && shares < 1);
  assert_true(adds->memory_bytes_per_s > 1e12);
  // What is read back is waited for.
  assert_int_equal(selects->n_kernels, 2);
  assert_int_equal(selects->from_device.copies, 2);
  assert_int_equal(selects->from_device.bytes, 16);
  expect_ns(selects->from_device.total_ns, 2 * (8 + FAKE_EVENT_NS), 2);
  assert_true(selects->parts_ns[DT_PROFILE_WAIT] > 0);
  dt_profile_report_free(report);
  dt_profile_free(profile);
  RELEASE(x, host);
  dt_function_release(add);
  dt_function_release(select);
  fake_fixture_close(&f);
  fake_end();
}

// More launches than a queue has room for: in one call, and in calls that nobody waits for.
static void many_pieces_are_all_timed(void **state) {
  (void)state;
  enum { N = 700 * FAKE_PIECE, CALLS = 300 };
  fake_begin(4);
  fake_fixture_t f = fake_fixture_open();
  dt_function_t *pieces = function_named(f.runtime, "pieces", NULL);
  dt_function_t *add = function_named(f.runtime, "add", NULL);
  dt_tensor_t *x = upload(&f, N), *few = upload(&f, 8);
  dt_profile_t *profile = start(f.runtime, false);
  for (int k = 0; k < 2; k++)
    call(f.session, pieces, 1, x, NULL);
  for (int k = 0; k < CALLS; k++)
    call(f.session, add, 2, few, NULL);
  dt_profile_report_t *report = report_of(profile);
  const dt_profile_variant_t *long_ones = variant_named(report, "pieces");
  const dt_profile_variant_t *adds = variant_named(report, "add");
  assert_int_equal(long_ones->n_kernels, 1);
  expect_row(long_ones->kernels[0], 2 * 700, LAUNCH_NS);
  expect_row(adds->kernels[0], CALLS, LAUNCH_NS);
  expect_row(adds->kernels[1], CALLS, LAUNCH_NS);
  assert_int_equal(long_ones->untimed + adds->untimed, 0);
  assert_int_equal(long_ones->device_calls, 2);
  assert_int_equal(adds->device_calls, CALLS);
  dt_profile_report_free(report);
  dt_profile_free(profile);
  RELEASE(x, few);
  dt_function_release(add);
  dt_function_release(pieces);
  fake_fixture_close(&f);
  fake_end();
}

// Nobody may wait for what is captured, so it has no times; the calls are counted.
static void captures_are_not_timed(void **state) {
  (void)state;
  fake_begin(5);
  fake_fixture_t f = fake_fixture_open();
  void *stream = dt_session_stream(f.session);
  dt_session_t *lent = NULL;
  expect_ok(open_session(f.runtime, 0, stream, &lent));
  dt_function_t *add = function_named(f.runtime, "add", NULL);
  dt_tensor_t *x = upload(&f, 8);
  call(lent, add, 2, x, NULL);
  int64_t n = 8;
  dt_tensor_t *out = NULL;
  expect_ok(dt_tensor_create_on(f.session, DT_F32, 1, &n, &out));
  dt_profile_t *profile = start(f.runtime, false);
  uint64_t records = fake_cuda_calls(DT_CUDA_SYM_event_record);
  set_capturing(lent, true);
  expect_ok(dt_call(lent, add, (dt_tensor_t *[]){x, x}, 2, &out, 1, NULL));
  assert_int_equal(fake_cuda_calls(DT_CUDA_SYM_event_record), records);
  set_capturing(lent, false);
  dt_profile_report_t *report = report_of(profile);
  const dt_profile_variant_t *adds = variant_named(report, "add");
  assert_int_equal(adds->calls, 1);
  assert_int_equal(adds->device_calls, 0);
  assert_int_equal(adds->untimed, 2);
  assert_int_equal(adds->kernels[0]->launches, 0);
  dt_profile_report_free(report);
  dt_profile_free(profile);
  RELEASE(x, out);
  dt_function_release(add);
  dt_session_destroy(lent);
  fake_fixture_close(&f);
  fake_end();
}

// ---- Graphs -----------------------------------------------------------------------------------------

// Kernel by kernel, in the graph's place: what was assembled stays, and goes on afterwards.
static void graphs_are_split_for_their_kernels(void **state) {
  (void)state;
  fake_begin(6);
  fake_fixture_t f = fake_fixture_open();
  dt_function_t *add = function_named(f.runtime, "add", NULL);
  dt_tensor_t *x = upload(&f, 30), *out = NULL;
  dt_profile_t *profile = NULL;
  for (int k = 0; k < 12; k++) {
    if (k == 4)
      profile = start(f.runtime, false);
    if (k == 9)
      expect_ok(dt_profile_stop(profile));
    out = graph_call(f.session, add, 2, x);
    expect_ramp(f.session, out, 30, 2, 2);
    dt_tensor_release(out);
    expect_ok(dt_step_begin(f.session));
  }
  dt_session_counters_t stats = session_stats(f.session);
  assert_int_equal(stats.builds, 1);
  assert_int_equal(stats.unchanged_calls, 6); // but for the first, all that were not profiled
  dt_profile_report_t *report = report_of(profile);
  const dt_profile_variant_t *adds = variant_named(report, "add");
  assert_int_equal(adds->calls, 5);
  assert_int_equal(adds->split_graphs, 5);
  assert_int_equal(adds->n_kernels, 2);
  expect_row(adds->kernels[0], 5, LAUNCH_NS);
  expect_row(adds->kernels[1], 5, LAUNCH_NS);
  dt_profile_report_free(report);
  dt_profile_free(profile);
  RELEASE(x);
  dt_function_release(add);
  fake_fixture_close(&f);
  fake_end();
}

static void graphs_may_stay_whole(void **state) {
  (void)state;
  fake_begin(7);
  fake_fixture_t f = fake_fixture_open();
  dt_function_t *add = function_named(f.runtime, "add", NULL);
  dt_function_t *select = function_named(f.runtime, "select", NULL);
  dt_tensor_t *x = upload(&f, 30), *out = NULL;
  dt_profile_t *profile = start(f.runtime, true);
  for (int k = 0; k < 4; k++) {
    out = graph_call(f.session, add, 2, x);
    expect_ramp(f.session, out, 30, 2, 2);
    dt_tensor_release(out);
    RELEASE(graph_call(f.session, select, 1, x));
    expect_ok(dt_step_begin(f.session));
  }
  dt_profile_report_t *report = report_of(profile);
  const dt_profile_variant_t *adds = variant_named(report, "add");
  const dt_profile_variant_t *selects = variant_named(report, "select");
  assert_int_equal(adds->split_graphs, 0);
  assert_int_equal(adds->n_kernels, 1);
  expect_row(adds->kernels[0], 4, 2 * FAKE_KERNEL_NS + FAKE_EVENT_NS);
  assert_string_equal(adds->kernels[0]->name, "graph");
  assert_int_equal(adds->kernels[0]->code, UINT32_MAX);
  assert_int_equal(selects->n_kernels, 2); // one a segment
  expect_row(selects->kernels[0], 4, FAKE_KERNEL_NS + FAKE_EVENT_NS);
  expect_row(selects->kernels[1], 4, FAKE_KERNEL_NS + FAKE_EVENT_NS);
  assert_int_equal(selects->from_device.copies, 4);
  dt_profile_report_free(report);
  dt_profile_free(profile);
  RELEASE(x);
  dt_function_release(add);
  dt_function_release(select);
  fake_fixture_close(&f);
  fake_end();
}

// ---- Sessions and threads ---------------------------------------------------------------------------

typedef struct caller_t {
  dt_runtime_t *runtime;
  dt_function_t *add;
  bool graphs;
  _Atomic bool *end;
  uint64_t calls;
} caller_t;

static void *run_caller(void *opaque) {
  caller_t *caller = opaque;
  dt_session_t *session = NULL;
  expect_ok(open_session(caller->runtime, 0, NULL, &session));
  fake_fixture_t f = {caller->runtime, session};
  dt_tensor_t *x = upload(&f, 20);
  while (!atomic_load(caller->end)) {
    call(session, caller->add, 2, x, caller->graphs ? &as_graph : NULL);
    caller->calls++;
    if (caller->calls % 16 == 0)
      expect_ok(dt_session_wait(session));
    expect_ok(dt_step_begin(session));
  }
  RELEASE(x);
  dt_session_destroy(session);
  return NULL;
}

// Profiles begin, are read and end while sessions call, and may outlive what they saw. Each launch
// that a profile counts has its time, whoever made it.
static void others_call_meanwhile(void **state) {
  (void)state;
  enum { CALLERS = 3, PROFILES = 6 };
  fake_begin(8);
  fake_fixture_t f = fake_fixture_open();
  dt_function_t *add = function_named(f.runtime, "add", NULL);
  dt_tensor_t *x = upload(&f, 20);
  call(f.session, add, 2, x, NULL);
  RELEASE(x);
  _Atomic bool end = false;
  pthread_t threads[CALLERS];
  caller_t callers[CALLERS];
  for (int k = 0; k < CALLERS; k++) {
    callers[k] = (caller_t){f.runtime, add, k == 1, &end, 0};
    assert_int_equal(pthread_create(&threads[k], NULL, run_caller, &callers[k]), 0);
  }
  dt_profile_t *last = NULL;
  for (int k = 0; k < PROFILES; k++) {
    dt_profile_t *profile = start(f.runtime, k & 1);
    dt_profile_report_t *report = NULL;
    for (uint64_t calls = 0; calls < 30;) {
      dt_profile_report_free(report);
      report = report_of(profile);
      calls = report->calls;
    }
    if (k & 2)
      expect_ok(dt_profile_stop(profile));
    dt_profile_report_free(report);
    report = report_of(profile);
    const dt_profile_variant_t *adds = variant_named(report, "add");
    assert_int_equal(adds->untimed, 0);
    for (uint32_t i = 0; i < adds->n_kernels; i++)
      assert_true(adds->kernels[i]->total_ns >= adds->kernels[i]->launches * (LAUNCH_NS - 1));
    if (k & 2) // the calls under way, too, will have ended
      assert_true(adds->device_calls <= adds->calls);
    dt_profile_report_free(report);
    dt_profile_free(last);
    last = k + 1 < PROFILES ? NULL : profile;
    if (!last)
      dt_profile_free(profile);
  }
  expect_ok(dt_profile_stop(last));
  atomic_store(&end, true);
  for (int k = 0; k < CALLERS; k++)
    assert_int_equal(pthread_join(threads[k], NULL), 0);
  dt_function_release(add);
  fake_fixture_close(&f);
  // All of it has gone, but for what the profile keeps.
  dt_profile_report_t *report = report_of(last);
  const dt_profile_variant_t *adds = variant_named(report, "add");
  assert_int_equal(adds->device_calls, adds->calls);
  dt_profile_report_free(report);
  dt_profile_free(last);
  fake_end();
}

// ---- Failures ---------------------------------------------------------------------------------------

// Where an event fails the call does not, and what has no time is said; where the call fails, none
// of it is counted. Nothing is left in either case.
static void failures_leave_no_event(void **state) {
  (void)state;
  static const dt_cuda_sym_t syms[] = {DT_CUDA_SYM_event_create,  DT_CUDA_SYM_event_record,
                                       DT_CUDA_SYM_event_elapsed, DT_CUDA_SYM_event_synchronize,
                                       DT_CUDA_SYM_context_push,  DT_CUDA_SYM_launch};
  static const uint64_t nth[] = {0, 1, 2, 3, 6, 9};
  uint64_t untimed = 0, failed = 0;
  for (size_t s = 0; s < sizeof(syms) / sizeof(syms[0]); s++)
    for (size_t i = 0; i < sizeof(nth) / sizeof(nth[0]); i++) {
      uint64_t n = nth[i];
      fake_begin(9);
      fake_fixture_t f = fake_fixture_open();
      dt_function_t *add = function_named(f.runtime, "add", NULL);
      dt_tensor_t *x = upload(&f, 8);
      call(f.session, add, 2, x, NULL);
      dt_profile_t *profile = start(f.runtime, n & 1);
      fake_cuda_fail(syms[s], n, DT_CU_OUT_OF_MEMORY, false);
      uint64_t good = 0;
      for (int k = 0; k < 4; k++) {
        dt_tensor_t *out = NULL;
        dt_status_t status =
            dt_call(f.session, add, (dt_tensor_t *[]){x, x}, 2, &out, 1, k & 1 ? &as_graph : NULL);
        good += status == NULL;
        if (status)
          assert_int_equal(dt_status_code(status), DT_E_NO_MEMORY);
        dt_status_free(status);
        dt_tensor_release(out);
      }
      dt_profile_report_t *report = report_of(profile);
      const dt_profile_variant_t *adds = variant_named(report, "add");
      assert_int_equal(adds->calls, good);
      bool graphs = (n & 1) != 0;
      uint64_t timed = 0;
      for (uint32_t k = 0; k < adds->n_kernels; k++)
        timed += adds->kernels[k]->launches;
      // With graphs a call may have one launch of two kernels.
      assert_true(timed + adds->untimed <= 2 * good);
      if (!graphs)
        assert_int_equal(timed + adds->untimed, 2 * good);
      untimed += adds->untimed;
      failed += 4 - good;
      dt_profile_report_free(report);
      dt_profile_free(profile);
      RELEASE(x);
      dt_function_release(add);
      fake_fixture_close(&f);
      const char *first = "";
      if (fake_cuda_violations(&first))
        fail_msg("violation: %s", first);
      assert_int_equal(fake_cuda_held(), 0);
    }
  assert_true(untimed > 0 && failed > 0);
}

// The context is lost in the middle: the report still comes.
static void a_lost_device_is_reported_on(void **state) {
  (void)state;
  fake_begin(10);
  fake_fixture_t f = fake_fixture_open();
  dt_function_t *add = function_named(f.runtime, "add", NULL);
  dt_tensor_t *x = upload(&f, 8);
  dt_profile_t *profile = start(f.runtime, false);
  call(f.session, add, 2, x, NULL);
  fake_cuda_fail(DT_CUDA_SYM_event_synchronize, 0, 700, true);
  dt_profile_report_t *report = report_of(profile);
  const dt_profile_variant_t *adds = variant_named(report, "add");
  assert_int_equal(adds->calls, 1);
  assert_int_equal(adds->untimed, 2);
  dt_profile_report_free(report);
  dt_profile_free(profile);
  RELEASE(x);
  dt_function_release(add);
  fake_fixture_close(&f);
  fake_cuda_reset(0);
}

RUN_TESTS(TEST(launches_copies_and_waits), TEST(many_pieces_are_all_timed),
          TEST(captures_are_not_timed), TEST(graphs_are_split_for_their_kernels),
          TEST(graphs_may_stay_whole), TEST(others_call_meanwhile), TEST(failures_leave_no_event),
          TEST(a_lost_device_is_reported_on))
