// SPDX-License-Identifier: Apache-2.0
// Limits on what a runtime holds, with sessions on a device: variants leave while their work is
// queued, without a wait for it; checks of theirs are told all the same; graphs and idle sessions'
// memory go; what the caller captured stays. Answers are right, and in the end nothing is left.
#include "test/unit/cuda/graphs/graph_calls.h"

#include "backend_cuda/place/place.h"
#include "ductile/experimental.h"
#include "runtime/base/status.h"
#include "runtime/exec/decide.h"
#include "test/support/report_as_text.h"

#include <pthread.h>
#include <string.h>

enum { FUNCTIONS = 12, N = 24 };
#define PAGES ((uint64_t)2 << 20) // what a session maps at least

static dt_runtime_stats_t runtime_stats(dt_runtime_t *runtime) {
  dt_runtime_stats_t stats = {.struct_size = sizeof(stats)};
  expect_ok(dt_runtime_stats(runtime, &stats));
  return stats;
}

static fake_fixture_t open_limited(uint64_t max_bytes, uint64_t max_device_bytes) {
  fake_fixture_t f = {0};
  dt_runtime_options_t options = {.threads = 1,
                                  .compile_threads = 1,
                                  .max_bytes = max_bytes,
                                  .max_device_bytes = max_device_bytes};
  expect_ok(dt_runtime_create(&options, &f.runtime));
  expect_ok(open_session(f.runtime, 0, NULL, &f.session));
  return f;
}

// What a decider is being made over stays meanwhile: without one it does not depend on when.
static dt_function_t *function_without(dt_runtime_t *runtime, const char *name, void *closure) {
  dt_function_t *function = function_named(runtime, name, closure);
  dt__decider_stop(function);
  return function;
}

// ---- Scaling --------------------------------------------------------------------------------------

// Function k multiplies by 4 (k + 1)²: its weights are four times k + 1.
typedef struct scales_t {
  dt_function_t *functions[FUNCTIONS];
  dt_tensor_t *weights[FUNCTIONS];
} scales_t;

static scales_t make_scales(dt_runtime_t *runtime) {
  scales_t scales;
  for (int k = 0; k < FUNCTIONS; k++) {
    scales.weights[k] = host_f32(4, (float)k + 1, 0);
    scales.functions[k] = function_without(runtime, "scale", scales.weights[k]);
  }
  return scales;
}

static void drop_scales(scales_t *scales) {
  release_tensors(scales->weights, FUNCTIONS);
  for (int k = 0; k < FUNCTIONS; k++)
    dt_function_release(scales->functions[k]);
}

static float factor(int k) { return 4 * (float)((k + 1) * (k + 1)); }

static dt_tensor_t *scaled(dt_session_t *session, const scales_t *scales, int k, dt_tensor_t *x,
                           const dt_call_options_t *how) {
  dt_tensor_t *out = NULL;
  expect_ok(dt_call(session, scales->functions[k], &x, 1, &out, 1, how));
  return out;
}

// Device bytes of one such variant, constants included.
static uint64_t variant_bytes(void) {
  fake_begin(1);
  fake_fixture_t f = fake_fixture_open();
  scales_t scales = make_scales(f.runtime);
  dt_tensor_t *host = host_f32(N, 1, 1), *x = tensor_upload(f.session, host);
  dt_tensor_t *out = scaled(f.session, &scales, 0, x, NULL);
  uint64_t bytes = runtime_stats(f.runtime).device_bytes;
  assert_int_equal(session_stats(f.session).pool_bytes, 0); // it is all the variant's
  expect_ok(dt_session_wait(f.session));
  RELEASE(host, x, out);
  drop_scales(&scales);
  assert_int_equal(runtime_stats(f.runtime).device_bytes, 0);
  fake_fixture_close(&f);
  fake_end();
  assert_true(bytes > 16 + 64); // a copy of the weights, what is computed of them, and code
  return bytes;
}

// Few of many variants have room. Nobody waits, but now and then for a result.
static void variants_go_and_come(void **state) {
  (void)state;
  uint64_t room = 3 * variant_bytes();
  for (uint64_t seed = 1; seed <= 4; seed++) {
    fake_begin(seed);
    fake_fixture_t f = open_limited(0, room);
    scales_t scales = make_scales(f.runtime);
    dt_tensor_t *host = host_f32(N, 1, 1), *x = tensor_upload(f.session, host), *outs[FUNCTIONS];
    uint32_t few = 0;
    for (int round = 0; round < 3; round++) {
      for (int k = 0; k < FUNCTIONS; k++) {
        outs[k] = scaled(f.session, &scales, k, x, NULL);
        assert_true(runtime_stats(f.runtime).device_bytes <= room);
      }
      for (int k = 0; k < FUNCTIONS; k++)
        expect_ramp(f.session, outs[k], N, factor(k), factor(k));
      release_tensors(outs, FUNCTIONS);
      for (int k = 0; k < 50; k++)
        expect_ok(dt_session_wait(f.session)); // what went is done, and goes
      few = few ? few : fake_cuda_held();
      assert_int_equal(fake_cuda_held(), few);
    }
    dt_runtime_stats_t stats = runtime_stats(f.runtime);
    assert_int_equal(stats.max_device_bytes, room);
    assert_int_equal(stats.evicted_variants, 3 * FUNCTIONS - 3);
    assert_int_equal(stats.evicted_device_bytes, stats.evicted_variants * room / 3);
    assert_true(stats.evicted_bytes > 0);
    assert_int_equal(stats_of(scales.functions[0]).compiles, 3);
    char *text = NULL;
    expect_ok(report_as_text(scales.functions[0], NULL, 0, DT_REPORT_VARIANTS, &text));
    assert_non_null(strstr(text, "3 more went for the runtime's limits on memory\n"));
    dt_text_free(text);
    RELEASE(host, x);
    drop_scales(&scales);
    fake_fixture_close(&f);
    fake_end();
  }
}

// The host's limit takes variants of devices, too, and the host's memory of device sessions.
static void the_limit_of_the_host_holds(void **state) {
  (void)state;
  fake_begin(2);
  fake_fixture_t f = open_limited(1, 0);
  scales_t scales = make_scales(f.runtime);
  dt_tensor_t *host = host_f32(N, 1, 1), *x = tensor_upload(f.session, host);
  assert_true(runtime_stats(f.runtime).bytes >= 2 * DT_CUDA_STAGING_ROOM);
  expect_ok(dt_session_wait(f.session));
  dt_session_t *second = NULL;
  expect_ok(open_session(f.runtime, 0, NULL, &second));
  for (int k = 0; k < FUNCTIONS; k++) {
    dt_tensor_t *out = scaled(second, &scales, k, x, NULL);
    expect_ok(dt_session_wait(second));
    expect_ramp(second, out, N, factor(k), factor(k));
    dt_tensor_release(out);
  }
  dt_runtime_stats_t stats = runtime_stats(f.runtime);
  assert_true(stats.evicted_variants >= FUNCTIONS - 1);
  assert_true(stats.trims >= 1);
  uint64_t one = stats.evicted_bytes / stats.evicted_variants;
  assert_true(stats.bytes < 2 * DT_CUDA_STAGING_ROOM + 2 * one); // the second's, and the last one
  RELEASE(host, x);
  dt_session_destroy(second);
  drop_scales(&scales);
  fake_fixture_close(&f);
  fake_end();
}

// Copies of constants that variants share count once, and for as long as one of them is there.
static void shared_copies_count_once(void **state) {
  (void)state;
  enum { MANY = 4096 };
  fake_begin(3);
  fake_fixture_t f = open_limited(0, (uint64_t)1 << 40);
  dt_tensor_t *host = host_f32(N, 1, 1), *x = tensor_upload(f.session, host);
  dt_tensor_t *w = host_f32(MANY, 2, 0), *other = host_f32(MANY, 3, 0);
  dt_function_t *function = function_without(f.runtime, "scale", w);
  dt_tensor_t *outs[2] = {NULL};
  expect_ok(dt_call(f.session, function, &x, 1, &outs[0], 1, NULL));
  uint64_t one = runtime_stats(f.runtime).device_bytes;
  assert_true(one >= MANY * sizeof(float));
  expect_ok(dt_runtime_mode_set(f.runtime, DT_MODE_STRICT_FP, 1));
  expect_ok(dt_call(f.session, function, &x, 1, &outs[1], 1, NULL));
  assert_int_equal(stats_of(function).variants, 2);
  uint64_t both = runtime_stats(f.runtime).device_bytes, code = both - one;
  assert_int_equal(one, MANY * sizeof(float) + code);
  expect_ok(dt_constant_update(function, "w", other));
  assert_int_equal(runtime_stats(f.runtime).device_bytes, both);
  // One of them goes; what it shared stays.
  f.runtime->budget.max_bytes[DT_MEMORY_DEVICE] = one;
  dt__budget_keep(&f.runtime->budget);
  assert_int_equal(stats_of(function).variants, 1);
  assert_int_equal(runtime_stats(f.runtime).device_bytes, one);
  assert_int_equal(runtime_stats(f.runtime).evicted_device_bytes, code);
  f.runtime->budget.max_bytes[DT_MEMORY_DEVICE] = 1;
  dt__budget_keep(&f.runtime->budget);
  assert_int_equal(runtime_stats(f.runtime).device_bytes, 0);
  assert_int_equal(runtime_stats(f.runtime).evicted_device_bytes, both);
  expect_ok(dt_session_wait(f.session));
  RELEASE(host, x, w, other, outs[0], outs[1]);
  dt_function_release(function);
  fake_fixture_close(&f);
  fake_end();
}

// ---- Checks ---------------------------------------------------------------------------------------

typedef struct lookup_t {
  dt_function_t *gather;
  dt_tensor_t *table, *ids, *out;
} lookup_t;

// A call whose check will fail, queued.
static lookup_t look_up_wrongly(const fake_fixture_t *f) {
  static const int64_t bad[] = {1, 7, 9};
  lookup_t l = {.gather = function_without(f->runtime, "gather", NULL)};
  dt_tensor_t *table = host_f32(3, 10, 1), *ids = host_i64(3, bad);
  l.table = tensor_upload(f->session, table);
  l.ids = tensor_upload(f->session, ids);
  RELEASE(table, ids);
  expect_ok(dt_call(f->session, l.gather, (dt_tensor_t *[]){l.table, l.ids}, 2, &l.out, 1, NULL));
  return l;
}

// The variant leaves before its check is told. In some rounds only the record keeps it by then
// (`settled`), or its function goes, too.
static void tell_late(uint64_t seed, bool settled, bool released) {
  fake_begin(seed);
  fake_fixture_t f = open_limited(0, 1);
  dt_session_t *second = NULL;
  expect_ok(open_session(f.runtime, 0, NULL, &second));
  scales_t scales = make_scales(f.runtime);
  dt_tensor_t *host = host_f32(N, 1, 1), *x = tensor_upload(second, host), *outs[FUNCTIONS];
  lookup_t l = look_up_wrongly(&f);
  uint64_t before = runtime_stats(f.runtime).evicted_variants;
  for (int k = 0; k < FUNCTIONS; k++)
    outs[k] = scaled(second, &scales, k, x, NULL);
  assert_true(runtime_stats(f.runtime).evicted_variants >= before + FUNCTIONS - 1);
  assert_int_equal(stats_of(l.gather).variants, 0);
  for (int k = 0; settled && k < 200; k++)
    expect_ok(dt_session_wait(second)); // the event behind all work passes
  if (released)
    dt_function_release(l.gather);
  expect_told(dt_session_wait(f.session), DT_E_RANGE, "function gather: gather: index of ids: 7");
  expect_ok(dt_session_wait(f.session));
  for (int k = 0; k < FUNCTIONS; k++)
    expect_ramp(second, outs[k], N, factor(k), factor(k));
  release_tensors(outs, FUNCTIONS);
  RELEASE(host, x, l.table, l.ids, l.out);
  if (!released)
    dt_function_release(l.gather);
  drop_scales(&scales);
  dt_session_destroy(second);
  fake_fixture_close(&f);
  fake_end();
}

static void checks_are_told_after_all(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 3; seed++)
    for (int which = 0; which < 4; which++)
      tell_late(seed, which & 1, which & 2);
}

// All leave while the device has done none of their work (to load code would wait for it: nothing
// is compiled meanwhile), and go one by one as it does: launches, graphs, and one whose check
// fails.
static void what_is_at_work_goes(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 4; seed++) {
    fake_begin(seed);
    fake_fixture_t f = open_limited(0, (uint64_t)1 << 40);
    dt_session_t *second = NULL;
    expect_ok(open_session(f.runtime, 0, NULL, &second));
    scales_t scales = make_scales(f.runtime);
    dt_tensor_t *host = host_f32(N, 1, 1), *x = tensor_upload(f.session, host), *outs[FUNCTIONS];
    for (int k = 0; k < FUNCTIONS; k++)
      dt_tensor_release(scaled(f.session, &scales, k, x, k % 2 ? &as_graph : NULL));
    lookup_t l = look_up_wrongly(&f);
    for (int k = 0; k < FUNCTIONS; k++)
      outs[k] = scaled(f.session, &scales, k, x, k % 2 ? &as_graph : NULL);
    f.runtime->budget.max_bytes[DT_MEMORY_DEVICE] = 1;
    dt__budget_keep(&f.runtime->budget);
    assert_int_equal(runtime_stats(f.runtime).evicted_variants, FUNCTIONS + 1);
    uint64_t waits = fake_cuda_calls(DT_CUDA_SYM_stream_synchronize);
    dt__runtime_collect(f.runtime); // nobody is inside: they leave
    dt__runtime_collect(f.runtime);
    assert_int_equal(fake_cuda_calls(DT_CUDA_SYM_module_unload), 0); // all asked, none was done
    for (int k = 0; k < 200; k++)
      dt__runtime_collect(f.runtime);
    assert_int_equal(fake_cuda_calls(DT_CUDA_SYM_module_unload), FUNCTIONS);
    assert_int_equal(fake_cuda_calls(DT_CUDA_SYM_stream_synchronize), waits);
    expect_told(dt_session_wait(f.session), DT_E_RANGE, "function gather: gather: index of ids: 7");
    assert_int_equal(fake_cuda_calls(DT_CUDA_SYM_module_unload), FUNCTIONS + 1);
    for (int k = 0; k < FUNCTIONS; k++)
      expect_ramp(f.session, outs[k], N, factor(k), factor(k));
    release_tensors(outs, FUNCTIONS);
    RELEASE(host, x, l.table, l.ids, l.out);
    dt_function_release(l.gather);
    drop_scales(&scales);
    dt_session_destroy(second);
    fake_fixture_close(&f);
    fake_end();
  }
}

// A session ends with a check that nobody asked for, of a variant that went.
static void a_session_ends_untold(void **state) {
  (void)state;
  fake_begin(5);
  fake_fixture_t f = open_limited(0, 1);
  dt_session_t *second = NULL;
  expect_ok(open_session(f.runtime, 0, NULL, &second));
  scales_t scales = make_scales(f.runtime);
  dt_tensor_t *host = host_f32(N, 1, 1), *x = tensor_upload(second, host), *outs[2];
  lookup_t l = look_up_wrongly(&f);
  for (int k = 0; k < 2; k++)
    outs[k] = scaled(second, &scales, k, x, NULL);
  assert_int_equal(stats_of(l.gather).variants, 0);
  RELEASE(host, x, l.table, l.ids, l.out, outs[0], outs[1]);
  dt_function_release(l.gather);
  drop_scales(&scales);
  fake_fixture_close(&f);
  dt_session_destroy(second);
  fake_end();
}

// ---- Waits ----------------------------------------------------------------------------------------

// To take a variant, while the device is at it, waits for nothing: not where it leaves, and not
// where it ends. Without constants, which a compile waits for.
static void nothing_waits_for_what_goes(void **state) {
  (void)state;
  enum { MANY = 20 };
  fake_begin(7);
  fake_fixture_t f = open_limited(0, 1);
  dt_tensor_t *host = host_f32(N, 1, 1), *x = tensor_upload(f.session, host);
  dt_tensor_t *outs[MANY] = {NULL}, *again = NULL;
  dt_function_t *functions[MANY];
  expect_ok(dt_session_wait(f.session));
  uint64_t waits = fake_cuda_calls(DT_CUDA_SYM_stream_synchronize);
  for (int k = 0; k < MANY; k++) {
    functions[k] = function_without(f.runtime, "pieces", NULL);
    expect_ok(dt_call(f.session, functions[k], &x, 1, &outs[k], 1, k % 2 ? &as_graph : NULL));
  }
  for (int k = 0; k < 30; k++) { // each asks what is done
    dt_tensor_release(again);
    again = NULL;
    expect_ok(dt_call(f.session, functions[MANY - 1], &x, 1, &again, 1, NULL));
  }
  assert_true(runtime_stats(f.runtime).evicted_variants >= MANY - 1);
  assert_true(fake_cuda_calls(DT_CUDA_SYM_module_unload) > 0);
  assert_int_equal(fake_cuda_calls(DT_CUDA_SYM_stream_synchronize), waits);
  for (int k = 0; k < MANY; k++) {
    expect_ramp(f.session, outs[k], N, 2, 2);
    dt_function_release(functions[k]);
  }
  release_tensors(outs, MANY);
  RELEASE(host, x, again);
  fake_fixture_close(&f);
  fake_end();
}

// The driver refuses what an eviction asks it for, once: it waits then, or asks again.
static void refusals_of_the_driver_lose_nothing(void **state) {
  (void)state;
  static const dt_cuda_sym_t syms[] = {DT_CUDA_SYM_event_create, DT_CUDA_SYM_event_record,
                                       DT_CUDA_SYM_event_query,  DT_CUDA_SYM_stream_wait,
                                       DT_CUDA_SYM_stream_query, DT_CUDA_SYM_context_push};
  for (size_t s = 0; s < sizeof(syms) / sizeof(syms[0]); s++)
    for (uint64_t n = 0; n < 12; n++) {
      fake_begin(n);
      fake_fixture_t f = open_limited(1, 1);
      static const int64_t good[] = {2, 0, 1};
      dt_tensor_t *host = host_f32(3, 10, 1), *table = tensor_upload(f.session, host);
      dt_tensor_t *numbers = host_i64(3, good), *ids = tensor_upload(f.session, numbers);
      dt_function_t *functions[4];
      for (int k = 0; k < 4; k++)
        functions[k] = function_without(f.runtime, "gather", NULL);
      fake_cuda_fail(syms[s], n, DT_CU_OUT_OF_MEMORY, false);
      for (int k = 0; k < 12; k++) {
        dt_tensor_t *out = NULL;
        dt_status_t status =
            dt_call(f.session, functions[k % 4], (dt_tensor_t *[]){table, ids}, 2, &out, 1, NULL);
        assert_true(!status || dt_status_code(status) == DT_E_NO_MEMORY);
        dt_status_free(status);
        dt_tensor_release(out);
      }
      dt_status_free(dt_session_wait(f.session));
      assert_true(runtime_stats(f.runtime).evicted_variants > 2);
      for (int k = 0; k < 4; k++)
        dt_function_release(functions[k]);
      RELEASE(host, table, numbers, ids);
      fake_fixture_close(&f);
      fake_end();
    }
}

// ---- Captures -------------------------------------------------------------------------------------

// What was captured may be replayed: its code and its session's memory stay, whatever the limits.
static void what_was_captured_stays(void **state) {
  (void)state;
  fake_begin(6);
  fake_fixture_t f = open_limited(1, 1);
  dt_session_t *lent = NULL, *second = NULL;
  expect_ok(open_session(f.runtime, 0, dt_session_stream(f.session), &lent));
  expect_ok(open_session(f.runtime, 0, NULL, &second));
  dt_function_t *add = function_without(f.runtime, "add", NULL);
  scales_t scales = make_scales(f.runtime);
  dt_tensor_t *host = host_f32(N, 1, 1), *x = tensor_upload(second, host), *out = NULL;
  expect_ok(dt_session_wait(second));
  expect_ok(dt_call(lent, add, (dt_tensor_t *[]){x, x}, 2, &out, 1, NULL));
  set_capturing(lent, true);
  expect_ok(dt_call(lent, add, (dt_tensor_t *[]){x, x}, 2, &out, 1, NULL));
  set_capturing(lent, false);
  expect_ok(dt_session_wait(lent));
  assert_int_equal(dt_session_bytes(lent), PAGES);
  for (int k = 0; k < FUNCTIONS; k++) {
    dt_tensor_t *other = scaled(second, &scales, k, x, NULL);
    expect_ramp(second, other, N, factor(k), factor(k));
    dt_tensor_release(other);
  }
  assert_true(runtime_stats(f.runtime).evicted_variants >= FUNCTIONS - 1);
  assert_int_equal(stats_of(add).variants, 1);
  assert_int_equal(dt_session_bytes(lent), PAGES);
  RELEASE(host, x, out);
  dt_function_release(add);
  drop_scales(&scales);
  dt_session_destroy(lent);
  dt_session_destroy(second);
  fake_fixture_close(&f);
  fake_end();
}

// One that was captured when it had left its list already stays loaded until the runtime ends.
static void one_captured_on_its_way_stays(void **state) {
  (void)state;
  fake_begin(6);
  fake_fixture_t f = open_limited(0, (uint64_t)1 << 40);
  scales_t scales = make_scales(f.runtime);
  dt_tensor_t *host = host_f32(N, 1, 1), *x = tensor_upload(f.session, host);
  dt_tensor_t *out = scaled(f.session, &scales, 0, x, NULL);
  dt_variant_t *variant = atomic_load(&scales.functions[0]->list)->items[0];
  f.runtime->budget.max_bytes[DT_MEMORY_DEVICE] = 1;
  dt__budget_keep(&f.runtime->budget);
  assert_int_equal(stats_of(scales.functions[0]).variants, 0);
  atomic_store(&variant->captured, true); // as by a call that is inside
  for (int k = 0; k < 50; k++)
    expect_ok(dt_session_wait(f.session));
  assert_ptr_equal(f.runtime->captured, variant);
  assert_int_equal(fake_cuda_calls(DT_CUDA_SYM_module_unload), 0);
  RELEASE(host, x, out);
  drop_scales(&scales);
  fake_fixture_close(&f);
  fake_end();
}

// ---- Sessions -------------------------------------------------------------------------------------

// Sessions that have nothing queued give their memory; one that has keeps it.
static void idle_sessions_give(void **state) {
  (void)state;
  enum { LARGE = 300000 };
  fake_begin(8);
  fake_fixture_t f = open_limited(0, 3 * PAGES);
  dt_session_t *second = NULL;
  expect_ok(open_session(f.runtime, 0, NULL, &second));
  dt_function_t *add = function_without(f.runtime, "add", NULL);
  dt_tensor_t *host = host_f32(LARGE, 1, 1), *x = tensor_upload(f.session, host);
  dt_tensor_t *y = tensor_upload(second, host), *outs[3] = {NULL};
  expect_ok(dt_session_wait(second));
  expect_ok(dt_call(f.session, add, (dt_tensor_t *[]){x, x}, 2, &outs[0], 1, NULL));
  assert_int_equal(dt_session_bytes(f.session), PAGES);
  f.runtime->budget.max_bytes[DT_MEMORY_DEVICE] = PAGES + PAGES / 2;
  expect_ok(dt_call(second, add, (dt_tensor_t *[]){y, y}, 2, &outs[1], 1, NULL));
  assert_int_equal(dt_session_bytes(f.session), PAGES); // at work
  assert_int_equal(runtime_stats(f.runtime).trims, 0);
  expect_ramp(f.session, outs[0], LARGE, 2, 2);
  dt__budget_keep(&f.runtime->budget);
  assert_int_equal(dt_session_bytes(f.session), 0);
  assert_int_equal(runtime_stats(f.runtime).trims, 1);
  expect_ok(dt_call(f.session, add, (dt_tensor_t *[]){x, x}, 2, &outs[2], 1, NULL));
  expect_ramp(f.session, outs[2], LARGE, 2, 2);
  expect_ramp(second, outs[1], LARGE, 2, 2);
  expect_ok(dt_session_trim(second));
  expect_ok(dt_session_trim(f.session));
  dt_runtime_stats_t stats = runtime_stats(f.runtime);
  assert_true(stats.device_bytes < PAGES && stats.bytes < PAGES); // of both nothing is left
  RELEASE(host, x, y, outs[0], outs[1], outs[2]);
  dt_function_release(add);
  dt_session_destroy(second);
  fake_fixture_close(&f);
  fake_end();
}

// ---- Graphs ---------------------------------------------------------------------------------------

// Room for the session's pages and few kernels of graphs: they go and come, in flight or not, and
// so do variants.
static void graphs_go_and_come(void **state) {
  (void)state;
  enum { MOST = 8 * FAKE_PIECE };
  for (uint64_t seed = 1; seed <= 3; seed++) {
    fake_begin(seed);
    fake_fixture_t f = open_limited(0, PAGES + 10 * DT_GRAPH_NODE_BYTES);
    dt_tensor_t *host = host_f32(MOST, 1, 1), *x = tensor_upload(f.session, host);
    scales_t scales = make_scales(f.runtime);
    dt_function_t *pieces = function_without(f.runtime, "pieces", NULL);
    for (int round = 0; round < 4; round++) {
      dt_tensor_t *outs[FUNCTIONS];
      expect_ok(dt_step_begin(f.session));
      for (int k = 0; k < FUNCTIONS; k++) {
        dt_tensor_t *some = first_of(x, 1 + (7 * k + round) % MOST);
        outs[k] = k % 3 ? graph_call(f.session, pieces, 1, some)
                        : scaled(f.session, &scales, k, some, &as_graph);
        dt_tensor_release(some);
        dt_runtime_stats_t stats = runtime_stats(f.runtime);
        assert_true(stats.device_bytes <= stats.max_device_bytes);
      }
      for (int k = 0; k < FUNCTIONS; k++) {
        float step = k % 3 ? 2 : factor(k);
        expect_ramp(f.session, outs[k], 1 + (7 * k + round) % MOST, step, step);
      }
      release_tensors(outs, FUNCTIONS);
    }
    dt_session_counters_t session = session_stats(f.session);
    dt_runtime_stats_t stats = runtime_stats(f.runtime);
    assert_int_equal(session.graph_calls, 4 * FUNCTIONS);
    assert_true(stats.evicted_graphs > FUNCTIONS);
    assert_true(session.builds > stats.evicted_graphs);
    assert_true(session.executable_bytes <= 10 * DT_GRAPH_NODE_BYTES);
    RELEASE(host, x);
    dt_function_release(pieces);
    drop_scales(&scales);
    fake_fixture_close(&f);
    fake_end();
  }
}

// A graph goes before a variant that was used as long ago; and what both were used for last stays.
static void graphs_go_first(void **state) {
  (void)state;
  fake_begin(9);
  fake_fixture_t f = open_limited((uint64_t)1 << 40, 0);
  scales_t scales = make_scales(f.runtime);
  dt_tensor_t *host = host_f32(N, 1, 1), *x = tensor_upload(f.session, host);
  RELEASE(scaled(f.session, &scales, 0, x, &as_graph));
  dt_runtime_stats_t stats = runtime_stats(f.runtime);
  assert_int_equal(session_stats(f.session).executables, 1);
  f.runtime->budget.max_bytes[DT_MEMORY_HOST] = stats.bytes - 1;
  dt_session_t *second = NULL; // who asks is in no call
  expect_ok(open_session(f.runtime, 0, NULL, &second));
  atomic_store(&f.session->used, UINT64_MAX - 1); // its staging is not to go
  dt__budget_keep(&f.runtime->budget);
  assert_int_equal(runtime_stats(f.runtime).evicted_graphs, 1);
  assert_int_equal(runtime_stats(f.runtime).evicted_variants, 0);
  assert_int_equal(runtime_stats(f.runtime).bytes, stats.bytes - DT_GRAPH_NODE_HOST_BYTES);
  dt_tensor_t *out = scaled(f.session, &scales, 0, x, &as_graph);
  expect_ramp(f.session, out, N, factor(0), factor(0));
  assert_int_equal(session_stats(f.session).builds, 2);
  dt_session_destroy(second);
  RELEASE(host, x, out);
  drop_scales(&scales);
  fake_fixture_close(&f);
  fake_end();
}

// ---- Threads --------------------------------------------------------------------------------------

enum { CALLERS = 3 };
#ifdef __SANITIZE_THREAD__
enum { ROUNDS = 60 };
#else
enum { ROUNDS = 150 };
#endif

typedef struct caller_t {
  pthread_t thread;
  dt_runtime_t *runtime;
  const scales_t *scales;
  dt_function_t *gather;
  int id;
  uint32_t wrong, told;
  dt_status_t status;
} caller_t;

static bool is_right(const float *data, int k) {
  bool right = true;
  for (int i = 0; i < N; i++)
    right = right && data[i] == factor(k) * (float)(i + 1);
  return right;
}

// A check that fails, told by who waits; and scaling, by a graph every other time.
static dt_status_t round_of(caller_t *c, dt_session_t *session, dt_tensor_t *x, dt_tensor_t *bad,
                            int i) {
  dt_tensor_t *out = NULL, *lost = NULL;
  int k = (5 * i + c->id) % FUNCTIONS;
  float data[N];
  if (i % 4 == 0) {
    DT_TRY(dt_call(session, c->gather, (dt_tensor_t *[]){x, bad}, 2, &lost, 1, NULL));
    dt_tensor_release(lost);
  }
  dt_status_t status =
      dt_call(session, c->scales->functions[k], &x, 1, &out, 1, i % 2 ? &as_graph : NULL);
  if (!status)
    status = dt_tensor_read(session, out, data, sizeof(data));
  if (dt_status_code(status) == DT_E_RANGE &&
      strstr(dt_status_message(status), "function gather: gather: index of ids: 99")) {
    dt_status_free(status);
    status = NULL;
    c->told++;
  } else if (!status) {
    c->wrong += !is_right(data, k);
  }
  dt_tensor_release(out);
  return status;
}

static void *caller_main(void *arg) {
  caller_t *c = arg;
  static const int64_t far[] = {99};
  int64_t n = N, one = 1;
  dt_session_t *session = NULL;
  dt_tensor_t *host = host_f32(N, 1, 1), *ids = host_i64(1, far), *x = NULL, *bad = NULL;
  c->status = open_session(c->runtime, 0, NULL, &session);
  if (!c->status)
    c->status = dt_tensor_create_on(session, DT_F32, 1, &n, &x);
  if (!c->status)
    c->status = dt_tensor_create_on(session, DT_I64, 1, &one, &bad);
  if (!c->status)
    c->status = dt_tensor_copy(session, host, x);
  if (!c->status)
    c->status = dt_tensor_copy(session, ids, bad);
  for (int i = 0; !c->status && i < ROUNDS; i++)
    c->status = round_of(c, session, x, bad, i);
  RELEASE(host, ids, x, bad);
  dt_session_destroy(session);
  return NULL;
}

// Sessions whose calls take each other's variants, graphs and memory all the time.
static void threads_take_from_each_other(void **state) {
  (void)state;
  uint64_t room = 3 * variant_bytes();
  fake_begin(17);
  fake_fixture_t f = open_limited(0, room);
  scales_t scales = make_scales(f.runtime);
  dt_function_t *gather = function_named(f.runtime, "gather", NULL);
  caller_t callers[CALLERS] = {{0}};
  for (int k = 0; k < CALLERS; k++) {
    callers[k] = (caller_t){.runtime = f.runtime, .scales = &scales, .gather = gather, .id = 4 * k};
    assert_int_equal(pthread_create(&callers[k].thread, NULL, caller_main, &callers[k]), 0);
  }
  for (int k = 0; k < CALLERS; k++) {
    assert_int_equal(pthread_join(callers[k].thread, NULL), 0);
    expect_ok(callers[k].status);
    assert_int_equal(callers[k].wrong, 0);
    assert_true(callers[k].told > 0);
  }
  dt_runtime_stats_t stats = runtime_stats(f.runtime);
  assert_true(stats.evicted_variants > 0);
  dt_function_release(gather);
  drop_scales(&scales);
  assert_int_equal(runtime_stats(f.runtime).device_bytes, 0);
  fake_fixture_close(&f);
  fake_end();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(variants_go_and_come),
      TEST(the_limit_of_the_host_holds),
      TEST(shared_copies_count_once),
      TEST(checks_are_told_after_all),
      TEST(what_is_at_work_goes),
      TEST(a_session_ends_untold),
      TEST(nothing_waits_for_what_goes),
      TEST(refusals_of_the_driver_lose_nothing),
      TEST(what_was_captured_stays),
      TEST(one_captured_on_its_way_stays),
      TEST(idle_sessions_give),
      TEST(graphs_go_and_come),
      TEST(graphs_go_first),
      TEST(threads_take_from_each_other),
  };
  // Memory made ready in the background comes when it comes.
  if (setenv("DUCTILE_WARM_MIB", "0", 1) != 0)
    return 1;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
