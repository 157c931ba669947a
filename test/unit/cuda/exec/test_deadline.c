// SPDX-License-Identifier: Apache-2.0
// Deadlines and cancelling on a device, on the fake driver, which interprets the PTX: at each look
// that a call takes one ends it, with its status. Nothing more is queued then, what is queued runs
// out, arguments are updated whole or not at all, and the next call is right, whether kernels are
// launched one by one or as a graph. The fake driver looks at memory and at the order of work.
#include "test/unit/cuda/exec/size_programs.h"

#include "ductile/experimental.h"
#include "runtime/base/control.h"
#include "runtime/base/thread.h"
#include "test/fake_cuda/fake_cuda.h"
#include "test/late/programs.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#define MS 1000000
#define LATE_NS (20000 * (int64_t)MS) // after which a call that should have ended hangs
enum { N = 9 };

// ---- Programs -------------------------------------------------------------------------------------
static const dt_input_decl_t vector_and_trips[] = {
    {.name = "x", .dtype = DT_F32, .rank = 1},
    {.name = "trips",
     .dtype = DT_I64,
     .rank = 1,
     .dims = &(dt_dim_decl_t){.is_static = true, .value = 1}}};

static dt_value_t part_of_sum(dt_trace_t *t, dt_value_t x) {
  const int32_t first[] = {0}; // the product and the sum are kernels of their own
  dt_value_t all = dt_matmul(t, dt_unsqueeze(t, x, 1), dt_unsqueeze(t, x, 0));
  return dt_tanh(t, dt_sum(t, all, 1, first, false));
}
static dt_status_t several(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = part_of_sum(t, part_of_sum(t, part_of_sum(t, in[0])));
  return NULL;
}
static dt_status_t updates(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t next = part_of_sum(t, part_of_sum(t, in[0]));
  out[0] = dt_neg(t, next);
  dt_update(t, in[0], next);
  return NULL;
}
static dt_status_t loops(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = late_loop(t, in[0], dt_squeeze(t, in[1], 0));
  return NULL;
}

static const subject_t several_subject = {"several", several, 2, 1, vector_and_trips};
static const subject_t updates_subject = {"updates", updates, 2, 1, vector_and_trips};
static const subject_t loops_subject = {"loops", loops, 2, 1, vector_and_trips};

// ---- Places ---------------------------------------------------------------------------------------
typedef struct place_t {
  dt_runtime_t *runtime;
  dt_session_t *device;
  dt_function_t *function;
  const subject_t *subject;
  dt_tensor_t *x, *more; // `more` on the host where it is a number
  float first[N];
} place_t;

static dt_tensor_t *upload(place_t *place, dt_tensor_t *host) {
  dt_tensor_t *out = tensor_upload(place->device, host);
  expect_ok(dt_session_wait(place->device));
  return out;
}

static void set_x(place_t *place) {
  int64_t n = N;
  dt_tensor_desc_t desc = {
      .struct_size = sizeof(desc), .dtype = DT_F32, .rank = 1, .sizes = &n, .data = place->first};
  dt_tensor_t *host = NULL;
  expect_ok(dt_tensor_create(&desc, &host));
  expect_ok(dt_tensor_copy(place->device, host, place->x));
  expect_ok(dt_session_wait(place->device));
  dt_tensor_release(host);
}

static void set_more(place_t *place, int64_t value) {
  bool number = place->subject == &sizes_unbounded;
  int64_t one = 1;
  dt_tensor_t *host = number ? tensor_i64(0, NULL, &value) : tensor_i64(1, &one, &value);
  dt_tensor_release(place->more);
  place->more = upload(place, host);
  dt_tensor_release(host);
}

static place_t open_place(const subject_t *subject) {
  fake_cuda_reset(17);
  place_t place = {.subject = subject};
  dt_runtime_options_t options = {.threads = 1, .compile_threads = 1};
  dt_session_options_t on = {.struct_size = sizeof(on), .device = DT_CUDA};
  int64_t n = N;
  expect_ok(dt_runtime_create(&options, &place.runtime));
  expect_ok(dt_session_create(place.runtime, &on, &place.device));
  place.function = subject_function(place.runtime, subject, NULL, DT_ANSWER_COMPILED);
  for (int k = 0; k < N; k++)
    place.first[k] = (float)(k - 2) / 16;
  expect_ok(dt_tensor_create_on(place.device, DT_F32, 1, &n, &place.x));
  set_x(&place);
  set_more(&place, 3);
  return place;
}

static void close_place(place_t *place) {
  const char *first = "";
  dt_tensor_release(place->x);
  dt_tensor_release(place->more);
  dt_function_release(place->function);
  dt_session_destroy(place->device);
  dt_runtime_release(place->runtime);
  if (fake_cuda_violations(&first))
    fail_msg("%s: violation: %s", place->subject->name, first);
  if (fake_cuda_held())
    fail_msg("%s: %u things are still held", place->subject->name, fake_cuda_held());
}

static const dt_cancel_t never = {0};

static dt_status_t call(place_t *place, dt_call_mode_t mode, const dt_cancel_t *cancel,
                        int64_t deadline_ns, dt_tensor_t **out) {
  dt_tensor_t *in[] = {place->x, place->more};
  dt_call_options_t how = {
      .struct_size = sizeof(how), .mode = mode, .deadline_ns = deadline_ns, .cancel = cancel};
  *out = NULL;
  dt_status_t status = dt_call(place->device, place->function, in, 2, out, 1, &how);
  assert_int_equal(status == NULL, *out != NULL);
  return status;
}

typedef struct seen_t {
  float out[N], x[N];
} seen_t;

static void read_x(place_t *place, float *to) {
  expect_ok(dt_tensor_read(place->device, place->x, to, N * sizeof(float)));
}

// A call with nothing to end it, from the first x on.
static seen_t call_right(place_t *place, dt_call_mode_t mode) {
  seen_t seen;
  dt_tensor_t *out = NULL;
  expect_ok(dt_step_begin(place->device));
  set_x(place);
  expect_ok(call(place, mode, NULL, 0, &out));
  expect_ok(dt_tensor_read(place->device, out, seen.out, sizeof(seen.out)));
  read_x(place, seen.x);
  dt_tensor_release(out);
  return seen;
}

// ---- At every look --------------------------------------------------------------------------------
static dt_code_t code_at(uint64_t n) { return n % 2 ? DT_E_CANCELLED : DT_E_DEADLINE; }

// Whether the n-th look came.
static bool end_at(place_t *place, dt_call_mode_t mode, uint64_t n, const seen_t *right) {
  float x[N];
  dt_tensor_t *out = NULL;
  expect_ok(dt_step_begin(place->device));
  set_x(place);
  (void)dt__control_end_at(n, code_at(n));
  dt_status_t status = call(place, mode, &never, 0, &out);
  bool came = dt__control_end_at(0, DT_OK) >= n;
  uint64_t launches = fake_cuda_calls(DT_CUDA_SYM_launch);
  if (dt_status_code(status) != (came ? code_at(n) : DT_OK))
    fail_msg("%s, look %d: %s: %s", place->subject->name, (int)n,
             dt_code_name(dt_status_code(status)), dt_status_message(status));
  expect_ok(dt_session_wait(place->device));
  assert_int_equal(fake_cuda_calls(DT_CUDA_SYM_launch), launches);
  read_x(place, x);
  if (memcmp(x, status ? place->first : right->x, sizeof(x)) != 0)
    fail_msg("%s, look %d: x is neither old nor new", place->subject->name, (int)n);
  dt_status_free(status);
  dt_tensor_release(out);
  seen_t again = call_right(place, mode);
  assert_memory_equal(&again, right, sizeof(again));
  return came;
}

static void sweep(const subject_t *subject, dt_call_mode_t mode, uint64_t least) {
  place_t place = open_place(subject);
  seen_t right = call_right(&place, DT_CALL_PLAIN);
  uint64_t n = 1;
  while (end_at(&place, mode, n, &right))
    n++;
  print_message("%s, mode %d: %d looks\n", subject->name, (int)mode, (int)n - 1);
  if (n - 1 < least)
    fail_msg("%s: %d looks, expected at least %d", subject->name, (int)n - 1, (int)least);
  close_place(&place);
}

static void test_looks(void **state) {
  (void)state;
  sweep(&several_subject, DT_CALL_PLAIN, 4);
  sweep(&updates_subject, DT_CALL_PLAIN, 4);
  sweep(&loops_subject, DT_CALL_PLAIN, 8);
  sweep(&sizes_unbounded, DT_CALL_PLAIN, 5);
}

static void test_looks_of_graphs(void **state) {
  (void)state;
  sweep(&several_subject, DT_CALL_REDUCE_OVERHEAD, 2);
  sweep(&updates_subject, DT_CALL_REDUCE_OVERHEAD, 2);
  sweep(&loops_subject, DT_CALL_REDUCE_OVERHEAD, 8);
  sweep(&sizes_unbounded, DT_CALL_REDUCE_OVERHEAD, 3);
}

// ---- Loops without an end -------------------------------------------------------------------------
static void *cancel_soon(void *opaque) {
  const struct timespec nap = {.tv_nsec = 30 * MS};
  (void)nanosleep(&nap, NULL);
  dt_cancel_request(opaque);
  return NULL;
}

static void expect_stopped(place_t *place, dt_call_mode_t mode, dt_cancel_t *cancel,
                           int64_t deadline, dt_code_t code) {
  dt_tensor_t *out = NULL;
  int64_t begin = dt__now_ns();
  expect_code(call(place, mode, cancel, deadline, &out), code);
  expect_ok(dt_session_wait(place->device)); // what was queued runs out
  assert_true(dt__now_ns() - begin < LATE_NS);
}

static void test_endless(void **state) {
  (void)state;
  place_t place = open_place(&loops_subject);
  static const dt_call_mode_t modes[] = {DT_CALL_PLAIN, DT_CALL_REDUCE_OVERHEAD};
  for (int k = 0; k < 2; k++) {
    set_more(&place, 3);
    seen_t right = call_right(&place, modes[k]);
    assert_true(right.out[1] == place.first[1] + 3);
    set_more(&place, (int64_t)1 << 62);
    expect_stopped(&place, modes[k], NULL, dt__now_ns() + 50 * (int64_t)MS, DT_E_DEADLINE);
    dt_cancel_t cancel = {0};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, &cancel), 0);
    expect_stopped(&place, modes[k], &cancel, 0, DT_E_CANCELLED);
    (void)pthread_join(thread, NULL);
    set_more(&place, 3);
    seen_t again = call_right(&place, modes[k]);
    assert_memory_equal(&again, &right, sizeof(right));
  }
  dt_function_counters_t stats = stats_of(place.function);
  assert_int_equal(stats.graph_skips, 2); // a graph's loops end for nobody
  assert_non_null(strstr(stats.graph_skip, "a deadline or a flag"));
  assert_int_equal(stats.graph_calls, 2);
  close_place(&place);
}

// ---- Waiting for a compile ------------------------------------------------------------------------
static void test_compile(void **state) {
  (void)state;
  place_t place = open_place(&several_subject);
  dt_tensor_t *out = NULL;
  expect_code(call(&place, DT_CALL_PLAIN, NULL, dt__now_ns() + MS, &out), DT_E_DEADLINE);
  dt_cancel_t cancel = {.requested = 1};
  dt_prepare_options_t prepare = {
      .struct_size = sizeof(prepare), .device = DT_CUDA, .cancel = &cancel};
  dt_status_t status = dt_function_prepare(place.function, &prepare);
  if (status) // its compile may have been done
    expect_code(status, DT_E_CANCELLED);
  seen_t right = call_right(&place, DT_CALL_PLAIN), again = call_right(&place, DT_CALL_PLAIN);
  assert_memory_equal(&again, &right, sizeof(right));
  assert_int_equal(stats_of(place.function).variants, 1);
  close_place(&place);
  place = open_place(&several_subject);
  expect_code(call(&place, DT_CALL_PLAIN, NULL, dt__now_ns() + MS, &out), DT_E_DEADLINE);
  close_place(&place); // and nobody asks again
}

RUN_TESTS(TEST(test_looks), TEST(test_looks_of_graphs), TEST(test_endless), TEST(test_compile))
