// SPDX-License-Identifier: Apache-2.0
// Calls on a device, from the public interface down to the fake driver: order without waiting,
// results that outlive everything, numbers read back, checks told later, constants.
#include "ductile/experimental.h"
#include "test/support/folder.h"
#include "test/unit/cuda/exec/exec_fake.h"

#include <string.h>

static dt_tensor_t *call(fake_fixture_t *f, dt_function_t *function, dt_tensor_t **inputs,
                         uint32_t n) {
  dt_tensor_t *out = NULL;
  expect_ok(dt_call(f->session, function, inputs, n, &out, 1, NULL));
  return out;
}

static void expect_line(dt_session_t *session, dt_tensor_t *tensor, int64_t n, float first,
                        float step) {
  float data[4096];
  assert_int_equal(dt_tensor_count(tensor), n);
  expect_ok(dt_tensor_read(session, tensor, data, (size_t)n * sizeof(float)));
  for (int64_t k = 0; k < n; k++)
    if (data[k] != first + step * (float)k)
      fail_msg("element %lld: got %f", (long long)k, (double)data[k]);
}

// ---- Order ----------------------------------------------------------------------------------------

static void calls_are_queued_and_read_in_order(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 8; seed++) {
    fake_begin(seed);
    fake_fixture_t f = fake_fixture_open();
    dt_function_t *add = function_named(f.runtime, "add", NULL);
    dt_tensor_t *host = host_f32(1000, 1, 2), *x = tensor_upload(f.session, host);
    dt_tensor_t *once = call(&f, add, (dt_tensor_t *[]){x, x}, 2);
    uint64_t waits = fake_cuda_calls(DT_CUDA_SYM_stream_synchronize);
    dt_tensor_t *twice = call(&f, add, (dt_tensor_t *[]){once, x}, 2);
    dt_tensor_release(x); // while it is in use
    dt_tensor_release(once);
    dt_tensor_t *given[1] = {twice};
    expect_told(dt_call(f.session, add, (dt_tensor_t *[]){twice, twice}, 2, given, 1, NULL),
                DT_E_ARGUMENT, "overlaps");
    assert_int_equal(fake_cuda_calls(DT_CUDA_SYM_stream_synchronize), waits);
    assert_int_equal(dt_tensor_device(twice), DT_CUDA);
    expect_line(f.session, twice, 1000, 3, 6);
    assert_int_equal(stats_of(add).variants, 1);
    assert_int_equal(stats_of(add).launches, 4); // of two calls
    assert_true(stats_of(add).device_load_ns > 0);
    RELEASE(host, twice);
    dt_function_release(add);
    fake_fixture_close(&f);
    fake_end();
  }
}

// Kernels after the first one of a call come early, on streams of our own, unless that is turned
// off.
static void kernels_come_early(void **state) {
  (void)state;
  enum { OWN, LENT, OFF, WAYS };
  for (int way = OWN; way < WAYS; way++) {
    fake_begin(3);
    variable_set("DUCTILE_EARLY_LAUNCH", way == OFF ? "0" : "1");
    fake_fixture_t f = fake_fixture_open();
    dt_session_t *own = f.session;
    if (way == LENT)
      expect_ok(open_session(f.runtime, 0, dt_session_stream(own), &f.session));
    dt_function_t *add = function_named(f.runtime, "add", NULL);
    dt_tensor_t *host = host_f32(100, 1, 2), *x = tensor_upload(f.session, host);
    dt_tensor_t *once = call(&f, add, (dt_tensor_t *[]){x, x}, 2);
    dt_tensor_t *twice = call(&f, add, (dt_tensor_t *[]){once, x}, 2); // after a kernel of a call
    expect_line(f.session, twice, 100, 3, 6);
    assert_int_equal(fake_cuda_calls(DT_CUDA_SYM_launch), 4);
    assert_int_equal(fake_cuda_early(), way == OWN ? 2 : 0);
    assert_int_equal(fake_cuda_ordered(), way == OWN ? 2 : 0);
    RELEASE(host, x, once, twice);
    dt_function_release(add);
    if (way == LENT) {
      dt_session_destroy(f.session);
      f.session = own;
    }
    fake_fixture_close(&f);
    fake_end();
  }
  variable_set("DUCTILE_EARLY_LAUNCH", NULL);
}

static void results_outlive_sessions_and_runtimes(void **state) {
  (void)state;
  fake_begin(3);
  fake_fixture_t f = fake_fixture_open();
  dt_function_t *add = function_named(f.runtime, "add", NULL);
  dt_tensor_t *host = host_f32(64, 0, 1), *x = tensor_upload(f.session, host);
  dt_tensor_t *sum = call(&f, add, (dt_tensor_t *[]){x, x}, 2);
  dt_function_release(add); // with its kernels in flight
  fake_fixture_close(&f);
  assert_true(fake_cuda_bytes() > 0);
  RELEASE(host, x, sum);
  fake_end();
}

static void sessions_are_ordered_by_events(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 8; seed++) {
    fake_begin(seed);
    fake_fixture_t f = fake_fixture_open();
    dt_session_t *other = NULL;
    expect_ok(open_session(f.runtime, 0, NULL, &other));
    dt_function_t *add = function_named(f.runtime, "add", NULL);
    dt_tensor_t *host = host_f32(100, 0, 1), *x = tensor_upload(f.session, host);
    dt_tensor_t *sum = call(&f, add, (dt_tensor_t *[]){x, x}, 2), *more = NULL;
    dt_event_t *made = NULL, *used = NULL;
    bool done = false;
    expect_ok(dt_event_create(f.session, &made));
    expect_ok(dt_event_create(other, &used));
    expect_ok(dt_event_query(made, &done));
    assert_true(done); // not recorded yet
    expect_ok(dt_event_record(f.session, made));
    expect_ok(dt_event_wait(other, made));
    expect_ok(dt_call(other, add, (dt_tensor_t *[]){sum, sum}, 2, &more, 1, NULL));
    expect_ok(dt_event_record(other, used));
    expect_ok(dt_event_wait(f.session, used));
    dt_tensor_release(sum); // goes back behind the other session's use
    expect_line(other, more, 100, 0, 4);
    expect_ok(dt_event_query(used, &done));
    assert_true(done);
    dt_event_destroy(made);
    dt_event_destroy(used);
    RELEASE(host, x, more);
    dt_function_release(add);
    dt_session_destroy(other);
    fake_fixture_close(&f);
    fake_end();
  }
}

static void a_missing_event_is_seen_by_the_fake(void **state) {
  (void)state;
  fake_begin(5);
  fake_fixture_t f = fake_fixture_open();
  dt_session_t *other = NULL;
  expect_ok(open_session(f.runtime, 0, NULL, &other));
  dt_function_t *add = function_named(f.runtime, "add", NULL);
  expect_ok(dt_function_prepare(
      add, &(dt_prepare_options_t){.device = DT_CUDA})); // loading waits for everything
  dt_tensor_t *host = host_f32(100, 0, 1), *x = tensor_upload(f.session, host), *sum = NULL;
  expect_ok(dt_call(other, add, (dt_tensor_t *[]){x, x}, 2, &sum, 1, NULL));
  assert_true(fake_cuda_violations(NULL) > 0);
  expect_ok(dt_session_wait(f.session));
  expect_ok(dt_session_wait(other));
  RELEASE(host, x, sum);
  dt_function_release(add);
  dt_session_destroy(other);
  fake_fixture_close(&f);
}

static void a_lent_stream_is_used_and_left(void **state) {
  (void)state;
  fake_begin(9);
  dt_runtime_t *runtime = NULL;
  expect_ok(
      dt_runtime_create(&(dt_runtime_options_t){.threads = 1, .compile_threads = 1}, &runtime));
  dt_session_t *own = NULL, *lent = NULL;
  expect_ok(open_session(runtime, 0, NULL, &own));
  expect_ok(open_session(runtime, 0, dt_session_stream(own), &lent)); // any stream will do
  assert_ptr_equal(dt_session_stream(lent), dt_session_stream(own));
  dt_tensor_t *host = host_f32(32, 1, 1), *x = tensor_upload(lent, host);
  dt_session_destroy(lent);
  expect_line(own, x, 32, 1, 1);
  dt_session_destroy(own); // and the stream with it
  RELEASE(host, x);
  dt_runtime_release(runtime);
  fake_end();
}

// While a lent stream is captured only what needs no memory and no wait is done.
static void a_capture_allows_plain_launches(void **state) {
  (void)state;
  fake_begin(9);
  fake_fixture_t f = fake_fixture_open();
  dt_session_t *lent = NULL;
  expect_ok(open_session(f.runtime, 0, dt_session_stream(f.session), &lent));
  dt_function_t *add = function_named(f.runtime, "add", NULL);
  dt_function_t *gather = function_named(f.runtime, "gather", NULL);
  dt_function_t *select = function_named(f.runtime, "select", NULL);
  const int64_t some[] = {0};
  dt_tensor_t *host = host_f32(32, 1, 1), *x = tensor_upload(lent, host), *out = NULL,
              *fresh = NULL;
  dt_tensor_t *ids = host_i64(1, some), *at = tensor_upload(lent, ids);
  dt_tensor_t *large = NULL, *dead = NULL;
  int64_t n = 1 << 20;
  expect_ok(dt_tensor_create_on(lent, DT_F32, 1, &n, &large));
  expect_ok(dt_tensor_create_on(lent, DT_F32, 1, &n, &dead));
  expect_ok(dt_call(lent, add, (dt_tensor_t *[]){x, x}, 2, &out, 1, NULL));
  expect_ok(dt_function_prepare(gather, &(dt_prepare_options_t){.device = DT_CUDA}));
  expect_ok(dt_function_prepare(select, &(dt_prepare_options_t){.device = DT_CUDA}));
  set_capturing(lent, true);
  expect_ok(dt_call(lent, add, (dt_tensor_t *[]){x, x}, 2, &out, 1, NULL));
  expect_told(dt_call(lent, add, (dt_tensor_t *[]){x, x}, 2, &fresh, 1, NULL), DT_E_UNSUPPORTED,
              "captured");
  expect_told(dt_call(lent, add, (dt_tensor_t *[]){large, large}, 2, &dead, 1, NULL),
              DT_E_UNSUPPORTED, "larger sizes");
  expect_told(dt_call(lent, gather, (dt_tensor_t *[]){x, at}, 2, &fresh, 1, NULL), DT_E_UNSUPPORTED,
              "checks data");
  expect_told(dt_call(lent, select, &x, 1, &fresh, 1, NULL), DT_E_UNSUPPORTED, "captured");
  expect_told(dt_tensor_create_on(lent, DT_F32, 1, &n, &fresh), DT_E_UNSUPPORTED, "captured");
  expect_told(dt_tensor_copy(lent, host, x), DT_E_UNSUPPORTED, "captured");
  expect_told(dt_session_wait(lent), DT_E_UNSUPPORTED, "captured");
  uint64_t frees = fake_cuda_calls(DT_CUDA_SYM_mem_free_async);
  dt_tensor_release(dead); // kept until the capture has ended
  assert_int_equal(fake_cuda_calls(DT_CUDA_SYM_mem_free_async), frees);
  dt_session_t *second = NULL;
  expect_told(open_session(f.runtime, 0, dt_session_stream(f.session), &second), DT_E_UNSUPPORTED,
              "captured");
  set_capturing(lent, false);
  expect_line(lent, out, 32, 2, 2);
  RELEASE(host, x, out, ids, at, large);
  dt_function_release(add);
  dt_function_release(gather);
  dt_function_release(select);
  dt_session_destroy(lent);
  fake_fixture_close(&f);
  fake_end();
}

// ---- Memory ---------------------------------------------------------------------------------------

static void blocks_grow_in_place_and_scratch_spills(void **state) {
  (void)state;
  fake_begin(4);
  fake_fixture_t f = fake_fixture_open();
  dt_function_t *add = function_named(f.runtime, "add", NULL);
  const int64_t sizes[] = {10, 1 << 20, 100, 3 << 20};
  uint64_t bytes = 0;
  for (uint32_t k = 0; k < 4; k++) {
    set_scratch(k == 3 ? 200000
                       : 1000); // two teams of 200000 bytes are more than a block may share
    dt_tensor_t *host = host_f32(sizes[k], 1, 0), *x = tensor_upload(f.session, host);
    dt_tensor_t *sum = call(&f, add, (dt_tensor_t *[]){x, x}, 2);
    float *read = dt_tensor_data(host);
    expect_ok(dt_tensor_read(f.session, sum, read, (size_t)sizes[k] * 4));
    for (int64_t i = 0; i < sizes[k]; i++)
      if (read[i] != 2)
        fail_msg("element %lld: got %f", (long long)i, (double)read[i]);
    assert_true(dt_session_bytes(f.session) >= bytes);
    bytes = dt_session_bytes(f.session);
    RELEASE(host, x, sum);
  }
  set_scratch(0);
  // 132 processors with 4 blocks of 2 teams each.
  assert_true(bytes >= (12u << 20) + 132u * 4 * 2 * 200000);
  assert_int_equal(fake_cuda_calls(DT_CUDA_SYM_range_reserve), 2);
  dt_function_release(add);
  fake_fixture_close(&f);
  fake_end();
}

static void empty_tensors_need_no_memory(void **state) {
  (void)state;
  fake_begin(4);
  fake_fixture_t f = fake_fixture_open();
  dt_function_t *add = function_named(f.runtime, "add", NULL);
  dt_tensor_t *host = host_f32(0, 0, 0), *x = tensor_upload(f.session, host);
  dt_tensor_t *sum = call(&f, add, (dt_tensor_t *[]){x, x}, 2);
  expect_line(f.session, sum, 0, 0, 0);
  assert_int_equal(fake_cuda_calls(DT_CUDA_SYM_mem_alloc_async), 0);
  assert_int_equal(fake_cuda_calls(DT_CUDA_SYM_launch), 0);
  RELEASE(host, x, sum);
  dt_function_release(add);
  fake_fixture_close(&f);
  fake_end();
}

static void copies_go_every_way(void **state) {
  (void)state;
  fake_begin(6);
  fake_fixture_t f = fake_fixture_open();
  int64_t n = 3 << 20, sizes[2] = {3, 2}, turned[2] = {1, 3}, gaps[2] = {4, 2};
  dt_tensor_t *host = host_f32(n, 5, 0.5f), *back = host_f32(n, 0, 0);
  dt_tensor_t *x = tensor_upload(f.session, host), *y = tensor_upload(f.session, back);
  expect_ok(dt_tensor_copy(f.session, x, y));
  expect_ok(dt_tensor_copy(f.session, y, back));
  assert_memory_equal(dt_tensor_data(back), dt_tensor_data(host), (size_t)n * 4);
  // Pinned memory is copied when its turn comes.
  void *pinned = NULL;
  expect_ok(dt_host_alloc(f.session, (size_t)n * 4, &pinned));
  dt_tensor_desc_t desc = {
      .struct_size = sizeof(desc), .dtype = DT_F32, .rank = 1, .sizes = &n, .data = pinned};
  dt_tensor_t *held = NULL;
  expect_ok(dt_tensor_create(&desc, &held));
  memset(pinned, 0, (size_t)n * 4);
  expect_ok(dt_tensor_copy(f.session, y, held));
  assert_true(((float *)pinned)[7] == 0);
  expect_ok(dt_session_wait(f.session));
  assert_memory_equal(pinned, dt_tensor_data(host), (size_t)n * 4);
  // Equal strides without gaps, and ones with.
  desc = (dt_tensor_desc_t){.struct_size = sizeof(desc),
                            .dtype = DT_F32,
                            .device = DT_CUDA,
                            .rank = 2,
                            .sizes = sizes,
                            .strides = turned,
                            .data = dt_tensor_data(x)};
  dt_tensor_t *a = NULL, *b = NULL;
  expect_ok(dt_tensor_create(&desc, &a));
  desc.data = dt_tensor_data(y);
  expect_ok(dt_tensor_create(&desc, &b));
  expect_ok(dt_tensor_copy(f.session, a, b));
  desc.strides = gaps;
  expect_ok(dt_tensor_rebind(a, &desc));
  expect_told(dt_tensor_copy(f.session, a, b), DT_E_UNSUPPORTED, "gaps");
  expect_told(dt_tensor_copy(f.session, x, b), DT_E_SHAPE, "rank");
  desc.ordinal = 1;
  expect_ok(dt_tensor_rebind(a, &desc));
  assert_int_equal(dt_tensor_ordinal(a), 1);
  expect_told(dt_tensor_copy(f.session, a, b), DT_E_ARGUMENT, "from: on CUDA device 1");
  expect_told(dt_tensor_read(f.session, x, pinned, 4), DT_E_ARGUMENT, "bytes: 4");
  expect_ok(dt_session_wait(f.session));
  RELEASE(host, back, x, y, held, a, b);
  dt_host_free(f.session, pinned);
  fake_fixture_close(&f);
  fake_end();
}

// ---- Devices of arguments -------------------------------------------------------------------------

// On another device; on the host they are staged (test_staged.c).
static void arguments_elsewhere_are_refused(void **state) {
  (void)state;
  fake_begin(2);
  fake_fixture_t f = fake_fixture_open();
  dt_function_t *add = function_named(f.runtime, "add", NULL);
  dt_tensor_t *host = host_f32(8, 0, 1), *x = tensor_upload(f.session, host), *out = NULL;
  dt_session_t *cpu = NULL, *second = NULL;
  expect_ok(dt_session_create(f.runtime, NULL, &cpu));
  expect_ok(open_session(f.runtime, 1, NULL, &second));
  expect_told(
      dt_call(second, add, (dt_tensor_t *[]){host, x}, 2, &out, 1, NULL), DT_E_ARGUMENT,
      "argument 1 \"b\": on CUDA device 0, and the session runs on CUDA device 1; copy it there "
      "by dt_tensor_copy");
  expect_told(dt_call(cpu, add, (dt_tensor_t *[]){x, x}, 2, &out, 1, NULL), DT_E_ARGUMENT,
              "on CUDA device 0, and the session runs on the CPU");
  expect_told(dt_call(second, add, (dt_tensor_t *[]){x, x}, 2, &out, 1, NULL), DT_E_ARGUMENT,
              "on CUDA device 0, and the session runs on CUDA device 1");
  assert_int_equal(stats_of(add).compiles, 0);
  out = host;
  expect_told(dt_call(f.session, add, (dt_tensor_t *[]){x, x}, 2, &out, 1, NULL), DT_E_ARGUMENT,
              "output 0 is on the CPU");
  expect_told(dt_tensor_copy(second, x, host), DT_E_ARGUMENT, "from: on CUDA device 0");
  expect_ok(dt_session_wait(f.session));
  dt_session_destroy(cpu);
  dt_session_destroy(second);
  RELEASE(host, x);
  dt_function_release(add);
  fake_fixture_close(&f);
  fake_end();
}

static void each_device_has_its_variant(void **state) {
  (void)state;
  fake_begin(2);
  fake_fixture_t f = fake_fixture_open();
  dt_function_t *add = function_named(f.runtime, "add", NULL);
  dt_session_t *second = NULL;
  expect_ok(open_session(f.runtime, 1, NULL, &second));
  expect_ok(dt_function_prepare(add, &(dt_prepare_options_t){.device = DT_CUDA, .ordinal = 1}));
  expect_ok(dt_function_prepare(add, &(dt_prepare_options_t){.device = DT_CUDA, .ordinal = 1}));
  assert_int_equal(stats_of(add).variants, 1);
  dt_tensor_t *host = host_f32(8, 0, 1), *x = tensor_upload(f.session, host), *out = NULL;
  out = call(&f, add, (dt_tensor_t *[]){x, x}, 2);
  expect_line(f.session, out, 8, 0, 2);
  assert_int_equal(stats_of(add).variants, 2);
  expect_ok(dt_function_prepare(add, &(dt_prepare_options_t){.device = DT_CUDA}));
  assert_int_equal(stats_of(add).variants, 2);
  dt_report_t *report = NULL;
  expect_ok(dt_function_report(add, NULL, 0, &report));
  assert_int_equal(report->variants[0]->device, DT_CUDA);
  assert_int_equal(report->variants[0]->ordinal, 1);
  char *text = NULL;
  expect_ok(dt_report_text(report, DT_REPORT_VARIANTS, &text));
  assert_non_null(strstr(text, "on CUDA device 1 sees"));
  assert_non_null(strstr(text, "the session runs on CUDA device 0"));
  dt_text_free(text);
  dt_report_free(report);
  RELEASE(host, x, out);
  dt_function_release(add);
  dt_session_destroy(second);
  fake_fixture_close(&f);
  fake_end();
}

static void the_evaluator_stays_on_the_cpu(void **state) {
  (void)state;
  fake_begin(2);
  fake_fixture_t f = fake_fixture_open();
  const dt_input_decl_t one = {.name = "x", .dtype = DT_F32, .rank = 1};
  dt_function_options_t options = {
      .name = "slow", .n_inputs = 1, .n_outputs = 1, .inputs = &one, .answer = DT_ANSWER_EVALUATOR};
  dt_function_t *slow = NULL;
  expect_ok(dt_function_create(f.runtime, select_program, NULL, &options, &slow));
  dt_tensor_t *host = host_f32(8, 0, 1), *x = tensor_upload(f.session, host), *out = NULL;
  expect_told(dt_call(f.session, slow, &x, 1, &out, 1, NULL), DT_E_UNSUPPORTED, "on the CPU only");
  expect_told(dt_function_prepare(slow, &(dt_prepare_options_t){.device = DT_CUDA}),
              DT_E_UNSUPPORTED, "on the CPU only");
  RELEASE(host, x);
  dt_function_release(slow);
  fake_fixture_close(&f);
  fake_end();
}

// ---- Numbers, checks, constants -------------------------------------------------------------------

static void numbers_are_read_between_segments(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 4; seed++) {
    fake_begin(seed);
    fake_fixture_t f = fake_fixture_open();
    dt_function_t *select = function_named(f.runtime, "select", NULL);
    dt_tensor_t *host = host_f32(100, -9.5f, 1), *x = tensor_upload(f.session, host);
    dt_tensor_t *out = call(&f, select, &x, 1);
    expect_line(f.session, out, 90, 0.5f, 1);
    assert_int_equal(stats_of(select).readbacks, 1);
    RELEASE(host, x, out);
    dt_function_release(select);
    fake_fixture_close(&f);
    fake_end();
  }
}

static void failed_checks_are_told_later(void **state) {
  (void)state;
  fake_begin(3);
  fake_fixture_t f = fake_fixture_open();
  dt_function_t *gather = function_named(f.runtime, "gather", NULL);
  const int64_t good[] = {2, 0, 1}, bad[] = {1, 7, 9};
  dt_tensor_t *host = host_f32(3, 10, 1), *table = tensor_upload(f.session, host);
  dt_tensor_t *ids = host_i64(3, good), *x = tensor_upload(f.session, ids);
  dt_tensor_t *wrong = host_i64(3, bad), *y = tensor_upload(f.session, wrong);
  dt_tensor_t *out[4] = {NULL};
  expect_ok(dt_call(f.session, gather, (dt_tensor_t *[]){table, x}, 2, &out[0], 1, NULL));
  expect_ok(dt_call(f.session, gather, (dt_tensor_t *[]){table, y}, 2, &out[1], 1, NULL));
  float data[3];
  expect_told(dt_tensor_read(f.session, out[0], data, sizeof(data)), DT_E_RANGE, "index of ids: 7");
  expect_ok(dt_tensor_read(f.session, out[0], data, sizeof(data))); // told once
  assert_true(data[0] == 12 && data[1] == 10 && data[2] == 11);
  expect_ok(dt_call(f.session, gather, (dt_tensor_t *[]){table, y}, 2, &out[2], 1, NULL));
  expect_told(dt_session_wait(f.session), DT_E_RANGE, "function gather");
  expect_ok(dt_session_wait(f.session));
  // The next call tells it, once the device has come so far.
  dt_tensor_release(out[2]);
  out[2] = NULL;
  expect_ok(dt_call(f.session, gather, (dt_tensor_t *[]){table, y}, 2, &out[2], 1, NULL));
  dt_event_t *event = NULL;
  bool done = false;
  expect_ok(dt_event_create(f.session, &event));
  expect_ok(dt_event_record(f.session, event));
  while (!done)
    expect_ok(dt_event_query(event, &done));
  dt_event_destroy(event);
  expect_told(dt_call(f.session, gather, (dt_tensor_t *[]){table, x}, 2, &out[3], 1, NULL),
              DT_E_RANGE, "an earlier call of this session");
  assert_null(out[3]);
  expect_ok(dt_call(f.session, gather, (dt_tensor_t *[]){table, x}, 2, &out[3], 1, NULL));
  expect_ok(dt_session_wait(f.session));
  RELEASE(host, table, ids, x, wrong, y, out[0], out[1], out[2], out[3]);
  dt_function_release(gather);
  fake_fixture_close(&f);
  fake_end();
}

// More calls than there are records, the function released while they run.
static void records_are_used_again_when_done(void **state) {
  (void)state;
  fake_begin(8);
  fake_fixture_t f = fake_fixture_open();
  dt_function_t *gather = function_named(f.runtime, "gather", NULL);
  const int64_t good[] = {2, 0, 1}, bad[] = {1, -9, 9};
  dt_tensor_t *host = host_f32(3, 10, 1), *table = tensor_upload(f.session, host);
  dt_tensor_t *ids = host_i64(3, good), *x = tensor_upload(f.session, ids);
  dt_tensor_t *wrong = host_i64(3, bad), *y = tensor_upload(f.session, wrong);
  uint32_t failures = 0, asked = 0;
  for (uint32_t k = 0; k < 500; k++) {
    dt_tensor_t *out = NULL;
    bool fails = k % 100 == 42;
    dt_status_t status =
        dt_call(f.session, gather, (dt_tensor_t *[]){table, fails ? y : x}, 2, &out, 1, NULL);
    failures += status != NULL;
    asked += fails && !status;
    if (status)
      assert_int_equal(dt_status_code(status), DT_E_RANGE);
    dt_status_free(status);
    dt_tensor_release(out);
    if (k == 20) {
      expect_ok(dt_session_wait(f.session)); // the ring goes on from the middle of a group
    }
  }
  dt_function_release(gather);
  for (;; failures++) {
    dt_status_t status = dt_session_wait(f.session);
    if (!status)
      break;
    dt_status_free(status);
  }
  assert_int_equal(asked, 5);
  assert_int_equal(failures, asked);
  RELEASE(host, table, ids, x, wrong, y);
  fake_fixture_close(&f);
  fake_end();
}

static void constants_are_copied_once_and_updated(void **state) {
  (void)state;
  fake_begin(7);
  fake_fixture_t f = fake_fixture_open();
  dt_tensor_t *w = host_f32(4, 1, 0), *v = host_f32(4, 2, 0);
  dt_function_t *scale = function_named(f.runtime, "scale", w);
  dt_tensor_t *host = host_f32(16, 0, 1), *x = tensor_upload(f.session, host);
  dt_tensor_t *first = call(&f, scale, &x, 1);
  expect_ok(dt_constant_update(scale, "w", v)); // the first call may run still
  dt_tensor_t *second = call(&f, scale, &x, 1);
  expect_line(f.session, first, 16, 0, 4);
  expect_line(f.session, second, 16, 0, 16);
  expect_told(dt_constant_update(scale, "w", x), DT_E_SHAPE, "constant 'w'");
  int64_t four = 4;
  dt_tensor_t *there = NULL;
  expect_ok(dt_tensor_create_on(f.session, DT_F32, 1, &four, &there));
  expect_told(dt_constant_update(scale, "w", there), DT_E_ARGUMENT, "expected a host tensor");
  RELEASE(host, x, first, second, w, v, there);
  dt_function_release(scale);
  fake_fixture_close(&f);
  fake_end();
}

// Two variants of one function have one copy of a constant; so have those of an update.
static void variants_share_copies(void **state) {
  (void)state;
  fake_begin(7);
  fake_fixture_t f = fake_fixture_open();
  const dt_input_decl_t one = {.name = "x", .dtype = DT_F32, .rank = 1};
  dt_tensor_t *w = host_f32(4, 1, 0), *v = host_f32(4, 2, 0);
  dt_function_options_t options = {.name = "scale", .n_inputs = 1, .n_outputs = 1, .inputs = &one};
  dt_function_t *scale = NULL;
  expect_ok(dt_function_create(f.runtime, scale_program, w, &options, &scale));
  dt_tensor_t *host = host_f32(16, 0, 1), *x = tensor_upload(f.session, host);
  uint64_t copies = fake_cuda_calls(DT_CUDA_SYM_copy_to_device);
  expect_ok(dt_function_prepare(scale, &(dt_prepare_options_t){.device = DT_CUDA}));
  assert_int_equal(fake_cuda_calls(DT_CUDA_SYM_copy_to_device), copies + 1);
  expect_ok(dt_runtime_mode_set(f.runtime, DT_MODE_STRICT_FP, 1)); // asks for another variant
  dt_tensor_t *first = call(&f, scale, &x, 1);
  assert_int_equal(stats_of(scale).variants, 2);
  assert_int_equal(fake_cuda_calls(DT_CUDA_SYM_copy_to_device), copies + 1);
  expect_ok(dt_constant_update(scale, "w", v));
  assert_int_equal(fake_cuda_calls(DT_CUDA_SYM_copy_to_device), copies + 2);
  dt_tensor_t *second = call(&f, scale, &x, 1);
  expect_line(f.session, first, 16, 0, 4);
  expect_line(f.session, second, 16, 0, 16);
  RELEASE(host, x, first, second, w, v);
  dt_function_release(scale);
  fake_fixture_close(&f);
  fake_end();
}

// ---- Devices --------------------------------------------------------------------------------------

static void devices_are_counted_and_described(void **state) {
  (void)state;
  fake_begin(1);
  dt_runtime_t *runtime = NULL;
  expect_ok(
      dt_runtime_create(&(dt_runtime_options_t){.threads = 2, .compile_threads = 1}, &runtime));
  int32_t count = 0;
  expect_ok(dt_device_count(runtime, DT_CPU, &count));
  assert_int_equal(count, 1);
  expect_ok(dt_device_count(runtime, DT_CUDA, &count));
  assert_int_equal(count, 2);
  dt_device_info_t info = {.struct_size = sizeof(info)};
  expect_ok(dt_device_info(runtime, DT_CUDA, 1, &info));
  assert_string_equal(info.name, "Fake GPU 1");
  assert_int_equal(info.major, 9);
  assert_int_equal(fake_cuda_pool_keep(), 256 << 20); // DUCTILE_CUDA_POOL_MIB
  expect_ok(dt_device_info(runtime, DT_CPU, 0, &info));
  assert_int_equal(info.processors, 2);
  expect_told(dt_device_info(runtime, DT_CUDA, 7, &info), DT_E_UNSUPPORTED, "device 7 of 2");
  dt_session_t *session = NULL;
  expect_told(dt_session_create(runtime, &(dt_session_options_t){.ordinal = 1}, &session),
              DT_E_ARGUMENT, "ordinal");
  expect_ok(dt_session_create(runtime, NULL, &session));
  expect_ok(dt_session_wait(session));
  assert_null(dt_session_stream(session));
  dt_session_destroy(session);
  dt_runtime_release(runtime);
  fake_end();
}

RUN_TESTS(TEST(calls_are_queued_and_read_in_order), TEST(kernels_come_early),
          TEST(results_outlive_sessions_and_runtimes), TEST(sessions_are_ordered_by_events),
          TEST(a_missing_event_is_seen_by_the_fake), TEST(a_lent_stream_is_used_and_left),
          TEST(a_capture_allows_plain_launches), TEST(blocks_grow_in_place_and_scratch_spills),
          TEST(empty_tensors_need_no_memory), TEST(copies_go_every_way),
          TEST(arguments_elsewhere_are_refused), TEST(each_device_has_its_variant),
          TEST(the_evaluator_stays_on_the_cpu), TEST(numbers_are_read_between_segments),
          TEST(failed_checks_are_told_later), TEST(records_are_used_again_when_done),
          TEST(constants_are_copied_once_and_updated), TEST(variants_share_copies),
          TEST(devices_are_counted_and_described))
