// SPDX-License-Identifier: Apache-2.0
// Every call of the driver fails in turn, once and for good, over the whole life of sessions,
// tensors, functions and events: each failure is a status, nothing crashes, nothing stays behind,
// and what did not fail goes on. Of calls that are many some are taken; test_exec_sweep.c takes all
// of a smaller life.
#include "test/unit/cuda/exec/exec_fake.h"

#include "runtime/base/memory.h"

#include <string.h>

// The thread sanitizer takes long over the fake's reserved ranges.
#ifdef __SANITIZE_THREAD__
#define CLOSE 1u
#define STEPS 40u
#else
#define CLOSE 8u
#define STEPS 9u
#endif

static uint32_t n_failed;

// Whether it succeeded; a failure is of an expected code. What the linker says is about code.
static bool went(dt_status_t status) {
  dt_code_t code = dt_status_code(status);
  bool links = code == DT_E_COMPILE && strstr(dt_status_message(status), "cuLink");
  if (status && code != DT_E_NO_MEMORY && code != DT_E_DEVICE && !links)
    fail_msg("%s: %s", dt_code_name(code), dt_status_message(status));
  n_failed += status != NULL;
  dt_status_free(status);
  return !status;
}

static void use_function(fake_fixture_t *f, const char *name, dt_tensor_t **inputs, uint32_t n,
                         dt_tensor_t *w) {
  dt_function_t *function = function_named(f->runtime, name, w);
  dt_tensor_t *out = NULL;
  if (went(dt_call(f->session, function, inputs, n, &out, 1, NULL))) {
    size_t bytes = (size_t)dt_tensor_count(out) * 4;
    void *data = dt__alloc(bytes);
    if (went(dt_tensor_read(f->session, out, data, bytes)) && strcmp(name, "add") == 0)
      for (size_t k = 0; k < bytes / 4; k++)
        assert_true(((float *)data)[k] == 2 * (float)k);
    dt__free(data);
  } else {
    assert_null(out);
  }
  if (w && out)
    (void)went(dt_constant_update(function, "w", w));
  dt_tensor_release(out);
  dt_function_release(function);
}

static void use_session(fake_fixture_t *f, dt_tensor_t *host, dt_tensor_t *ids) {
  dt_tensor_t *x = NULL, *at = NULL, *w = host_f32(4, 1, 1);
  dt_event_t *event = NULL;
  int64_t n = dt_tensor_count(host), three = 3;
  bool good = went(dt_tensor_create_on(f->session, DT_F32, 1, &n, &x));
  good = good && went(dt_tensor_copy(f->session, host, x));
  good = good && went(dt_tensor_create_on(f->session, DT_I64, 1, &three, &at));
  good = good && went(dt_tensor_copy(f->session, ids, at));
  if (good) {
    set_scratch(200000);
    use_function(f, "add", (dt_tensor_t *[]){x, x}, 2, NULL);
    set_scratch(0);
    use_function(f, "gather", (dt_tensor_t *[]){x, at}, 2, NULL);
    use_function(f, "select", &x, 1, NULL);
    use_function(f, "scale", &x, 1, w);
    if (went(dt_event_create(f->session, &event)) && went(dt_event_record(f->session, event)))
      (void)went(dt_event_wait(f->session, event));
    bool done = false;
    if (event)
      (void)went(dt_event_query(event, &done));
    dt_event_destroy(event);
  }
  dt_tensor_release(x);
  dt_tensor_release(at);
  dt_tensor_release(w);
}

static void live(dt_runtime_t *runtime, dt_tensor_t *host, dt_tensor_t *ids) {
  fake_fixture_t f = {.runtime = runtime};
  if (!went(open_session(f.runtime, 0, NULL, &f.session)))
    return;
  use_session(&f, host, ids);
  (void)went(dt_session_wait(f.session));
  dt_session_destroy(f.session);
}

// Of each of the driver's functions the first `close` calls, then one of `step`.
static void run_all(bool sticky, dt_cu_result_t result, uint64_t close, uint64_t step) {
  const int64_t some[] = {2, 0, 1};
  dt_runtime_options_t options = {.threads = 1, .compile_threads = 1};
  uint32_t struck = 0;
  fake_begin(11);
  fake_fixture_t first_use = fake_fixture_open(); // a process opens the driver once
  fake_fixture_close(&first_use);
  dt_tensor_t *host = host_f32(700000, 0, 1), *ids = host_i64(3, some);
  for (int sym = 0; sym < DT_CUDA_SYM_COUNT; sym++) {
    for (uint64_t n = 0;; n += n < close ? 1 : step) {
      fake_begin(n + 1);
      dt_runtime_t *runtime = NULL;
      expect_ok(dt_runtime_create(&options, &runtime));
      uint64_t before = fake_cuda_calls((dt_cuda_sym_t)sym);
      fake_cuda_fail((dt_cuda_sym_t)sym, n, result, sticky);
      n_failed = 0;
      live(runtime, host, ids);
      dt_runtime_release(runtime);
      bool reached = fake_cuda_calls((dt_cuda_sym_t)sym) > before + n;
      struck += reached;
      const char *first = "";
      if (!sticky && fake_cuda_violations(&first) && !releases_something((dt_cuda_sym_t)sym))
        fail_msg("%s, call %llu: %s", dt__cuda_symbol((dt_cuda_sym_t)sym), (unsigned long long)n,
                 first);
      if (!sticky && !releases_something((dt_cuda_sym_t)sym) && fake_cuda_held())
        fail_msg("%s, call %llu: %u left", dt__cuda_symbol((dt_cuda_sym_t)sym),
                 (unsigned long long)n, fake_cuda_held());
      if (!reached)
        break;
    }
  }
  assert_true(struck > 10 * close);
  dt_tensor_release(host);
  dt_tensor_release(ids);
}

static void each_call_fails_once(void **state) {
  (void)state;
  run_all(false, DT_CU_OUT_OF_MEMORY, CLOSE, STEPS);
}

static void the_context_is_lost_at_each_call(void **state) {
  (void)state;
  run_all(true, DT_CU_ILLEGAL_ADDRESS, CLOSE, 2 * STEPS);
}

// What a newer driver may say, and an older one says of handles that are none.
static void results_without_a_meaning(void **state) {
  (void)state;
  run_all(false, 12345, 1, 100 * STEPS);
  run_all(false, DT_CU_INVALID_VALUE, 1, 100 * STEPS);
}

// The part of a session's life that the heap may fail in; functions are there already.
static void live_short(dt_runtime_t *runtime, dt_function_t *const *functions, dt_tensor_t *host) {
  dt_session_t *session = NULL;
  dt_tensor_t *x = NULL, *out[3] = {NULL};
  dt_event_t *event = NULL;
  int64_t n = dt_tensor_count(host);
  float data[64];
  if (!went(open_session(runtime, 0, NULL, &session)))
    return;
  bool good = went(dt_tensor_create_on(session, DT_F32, 1, &n, &x));
  good = good && went(dt_tensor_copy(session, host, x));
  for (uint32_t k = 0; good && k < 3; k++) {
    dt_tensor_t *inputs[] = {x, x};
    good = went(dt_call(session, functions[k], inputs, k ? 1 : 2, &out[k], 1, NULL));
  }
  if (good)
    good = went(dt_tensor_read(session, out[0], data, sizeof(data)));
  if (went(dt_event_create(session, &event)))
    dt_event_destroy(event);
  (void)went(dt_session_wait(session));
  dt_tensor_release(x);
  for (uint32_t k = 0; k < 3; k++)
    dt_tensor_release(out[k]);
  dt_session_destroy(session);
}

static void each_allocation_fails(void **state) {
  (void)state;
  dt_runtime_options_t options = {.threads = 1, .compile_threads = 1};
  dt_tensor_t *host = host_f32(64, 0, 1), *w = host_f32(4, 1, 1);
  uint32_t failing = 0;
  for (uint64_t n = 1;; n += n < 8 * CLOSE ? 1 : STEPS) {
    fake_begin(n);
    dt_runtime_t *runtime = NULL;
    expect_ok(dt_runtime_create(&options, &runtime));
    dt_function_t *functions[] = {function_named(runtime, "add", NULL),
                                  function_named(runtime, "select", NULL),
                                  function_named(runtime, "scale", w)};
    n_failed = 0;
    (void)dt__heap_fail_at(n, false);
    live_short(runtime, functions, host);
    (void)dt__heap_fail_at(0, false);
    for (uint32_t k = 0; k < 3; k++)
      dt_function_release(functions[k]);
    dt_runtime_release(runtime);
    fake_end();
    if (!n_failed && n > 400)
      break;
    failing += n_failed > 0;
  }
  assert_true(failing > 3 * CLOSE);
  dt_tensor_release(host);
  dt_tensor_release(w);
}

// A lost device fails at once, and the CPU goes on.
static void the_cpu_goes_on(void **state) {
  (void)state;
  fake_begin(1);
  fake_fixture_t f = fake_fixture_open();
  dt_function_t *add = function_named(f.runtime, "add", NULL);
  dt_tensor_t *host = host_f32(8, 0, 1), *x = tensor_upload(f.session, host), *out = NULL;
  dt_tensor_t *inputs[] = {x, x}, *hosts[] = {host, host};
  fake_cuda_fail(DT_CUDA_SYM_launch, 0, DT_CU_ILLEGAL_ADDRESS, true);
  expect_told(dt_call(f.session, add, inputs, 2, &out, 1, NULL), DT_E_DEVICE, "context is lost");
  uint64_t calls = fake_cuda_calls(DT_CUDA_SYM_context_push);
  expect_told(dt_call(f.session, add, inputs, 2, &out, 1, NULL), DT_E_DEVICE,
              "earlier call on this device");
  expect_told(dt_session_wait(f.session), DT_E_DEVICE, "lost");
  assert_int_equal(fake_cuda_calls(DT_CUDA_SYM_context_push), calls);
#ifdef DT_HAVE_LLVM
  dt_session_t *cpu = NULL;
  expect_ok(dt_session_create(f.runtime, NULL, &cpu));
  expect_ok(dt_call(cpu, add, hosts, 2, &out, 1, NULL));
  assert_true(((float *)dt_tensor_data(out))[7] == 14);
  dt_tensor_release(out);
  dt_session_destroy(cpu);
#else
  (void)hosts;
#endif
  dt_tensor_release(host);
  dt_tensor_release(x);
  dt_function_release(add);
  fake_fixture_close(&f);
}

RUN_TESTS(TEST(each_call_fails_once), TEST(the_context_is_lost_at_each_call),
          TEST(results_without_a_meaning), TEST(each_allocation_fails), TEST(the_cpu_goes_on))
