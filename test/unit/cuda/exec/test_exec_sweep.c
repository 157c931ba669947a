// SPDX-License-Identifier: Apache-2.0
// Two small lives of a device: load, copy in, run, copy out, unload; and the same with calls that
// run as graphs, which are built, set, grown, taken away and trimmed. Every single call of the
// driver that they make fails in turn, once and for good. Where it fails once, what was asked for
// next works, and nothing stays behind but what the driver did not take back; where the context is
// lost, each later call says so at once. test_exec_failures.c samples a larger life.
#include "ductile/experimental.h"
#include "test/support/folder.h"
#include "test/unit/cuda/graphs/graph_calls.h"

#include <string.h>

enum { COUNT = 8, MOST = 300000 };

// The thread sanitizer takes long over the fake's reserved ranges: it gets some.
#ifdef __SANITIZE_THREAD__
enum { STEP = 16 };
#else
enum { STEP = 1 };
#endif

typedef struct sweep_t {
  dt_code_t expected; // of failures
  bool again;         // what fails is tried once more, and works
  uint32_t told;      // failures so far, in this life
} sweep_t;

// Whether it went well, at once.
static bool went(sweep_t *s, dt_status_t status) {
  dt_code_t code = dt_status_code(status);
  if (status && code != s->expected)
    fail_msg("%s: %s; expected %s", dt_code_name(code), dt_status_message(status),
             dt_code_name(s->expected));
  if (code == DT_E_DEVICE && !strstr(dt_status_message(status), "context is lost"))
    fail_msg("%s", dt_status_message(status));
  s->told += status != NULL;
  dt_status_free(status);
  return !status;
}

// The expression's value: whether it went well, at once or (where that is expected) again.
#define GOES(s, expr) (went((s), (expr)) || ((s)->again && again_at((expr), __LINE__)))
static bool again_at(dt_status_t status, int line) {
  expect_ok_at(status, __FILE__, line);
  return true;
}

static void run(sweep_t *s, dt_session_t *session, dt_function_t *add, dt_tensor_t *x) {
  dt_tensor_t *inputs[] = {x, x}, *out = NULL;
  float data[COUNT] = {0};
  if (GOES(s, dt_call(session, add, inputs, 2, &out, 1, NULL)) &&
      GOES(s, dt_tensor_read(session, out, data, sizeof(data))))
    for (uint32_t k = 0; k < COUNT; k++)
      assert_true(data[k] == 2 * (float)k);
  dt_tensor_release(out);
}

static void live_plain(sweep_t *s, dt_tensor_t *host) {
  dt_runtime_options_t options = {.threads = 1, .compile_threads = 1};
  dt_runtime_t *runtime = NULL;
  dt_session_t *session = NULL;
  dt_tensor_t *x = NULL;
  int64_t n = COUNT;
  expect_ok(dt_runtime_create(&options, &runtime));
  dt_function_t *add = function_named(runtime, "add", NULL);
  if (GOES(s, open_session(runtime, 0, NULL, &session)) &&
      GOES(s, dt_tensor_create_on(session, DT_F32, 1, &n, &x)) &&
      GOES(s, dt_tensor_copy(session, host, x))) {
    run(s, session, add, x);
    run(s, session, add, x); // once more: what failed has broken nothing
    run(s, session, add, host);
    (void)GOES(s, dt_session_wait(session));
  }
  dt_tensor_release(x);
  dt_function_release(add);
  dt_session_destroy(session);
  dt_runtime_release(runtime);
}

// ---- A life with graphs ---------------------------------------------------------------------------

// 2 x, at the first `n` elements of x. Kept ones are released by the caller.
static dt_tensor_t *run_graph(sweep_t *s, dt_session_t *session, dt_function_t *function,
                              uint32_t n_inputs, dt_tensor_t *x, int64_t n) {
  static float data[MOST];
  dt_tensor_t *part = first_of(x, n), *inputs[] = {part, part}, *out = NULL;
  if (GOES(s, dt_call(session, function, inputs, n_inputs, &out, 1, &as_graph)) &&
      GOES(s, dt_tensor_read(session, out, data, (size_t)n * sizeof(float))))
    for (int64_t k = 0; k < n; k++)
      assert_true(data[k] == 2 * (float)k);
  dt_tensor_release(part);
  return out;
}

// Sizes that set arguments and grids, a second place, more launches than there are nodes, more
// memory, more graphs than the budget has, generations, a trim.
static void run_graphs(sweep_t *s, dt_session_t *session, dt_function_t *add, dt_function_t *pieces,
                       dt_tensor_t *x) {
  static const int64_t sizes[] = {8, 1, 0, 300, MOST};
  for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++)
    dt_tensor_release(run_graph(s, session, add, 2, x, sizes[k]));
  dt_tensor_t *held = run_graph(s, session, add, 2, x, 100), *kept = NULL;
  dt_tensor_release(run_graph(s, session, add, 2, x, 7));
  (void)GOES(s, dt_step_begin(session));
  for (int64_t n = 20; n <= 200 * FAKE_PIECE; n *= 8) // the last leaves the others no room
    dt_tensor_release(run_graph(s, session, pieces, 1, x, n));
  dt_tensor_release(held);
  dt_tensor_t *on_host = host_f32(6, 0, 1), *staged[] = {on_host, on_host}, *sum = NULL;
  (void)GOES(s, dt_call(session, add, staged, 2, &sum, 1, &as_graph));
  RELEASE(on_host, sum);
  held = run_graph(s, session, add, 2, x, 9);
  if (held && GOES(s, dt_tensor_keep(session, held, &kept)))
    (void)GOES(s, dt_session_trim(session));
  dt_tensor_release(held);
  dt_tensor_release(kept);
  dt_tensor_release(run_graph(s, session, add, 2, x, 10));
}

static void live_graphs(sweep_t *s, dt_tensor_t *host) {
  dt_runtime_options_t options = {.threads = 1, .compile_threads = 1};
  dt_runtime_t *runtime = NULL;
  dt_session_t *session = NULL;
  dt_tensor_t *x = NULL;
  variable_set("DUCTILE_GRAPH_MIB", "1"); // 204 kernels
  expect_ok(dt_runtime_create(&options, &runtime));
  variable_set("DUCTILE_GRAPH_MIB", NULL);
  dt_function_t *add = function_named(runtime, "add", NULL);
  dt_function_t *pieces = function_named(runtime, "pieces", NULL);
  if (GOES(s, open_session(runtime, 0, NULL, &session)) &&
      GOES(s, dt_tensor_create_on(session, DT_F32, 1, dt_tensor_sizes(host), &x)) &&
      GOES(s, dt_tensor_copy(session, host, x))) {
    run_graphs(s, session, add, pieces, x);
    dt_session_counters_t stats = session_stats(session);
    if (s->expected != DT_E_DEVICE)
      assert_true(stats.graph_calls >= 12); // of 13; that which failed may have been one
    (void)GOES(s, dt_session_wait(session));
  }
  dt_tensor_release(x);
  dt_function_release(add);
  dt_session_destroy(session);
  dt_function_release(pieces);
  dt_runtime_release(runtime);
}

// ---- Striking -------------------------------------------------------------------------------------

typedef void (*live_fn_t)(sweep_t *s, dt_tensor_t *host);

// Calls of each function in a life without failures.
static uint64_t count_calls(live_fn_t live, dt_tensor_t *host, uint64_t counts[DT_CUDA_SYM_COUNT]) {
  sweep_t s = {.expected = DT_OK};
  uint64_t all = 0;
  fake_begin(1);
  live(&s, host);
  fake_end();
  assert_int_equal(s.told, 0);
  for (int sym = 0; sym < DT_CUDA_SYM_COUNT; sym++)
    all += counts[sym] = fake_cuda_calls((dt_cuda_sym_t)sym);
  return all;
}

typedef struct totals_t {
  uint64_t struck, told, kept;
} totals_t;

static void strike(live_fn_t live, dt_cuda_sym_t sym, uint64_t n, bool sticky, dt_tensor_t *host,
                   totals_t *totals) {
  const char *name = dt__cuda_symbol(sym), *first = "";
  sweep_t s = {.expected = sticky ? DT_E_DEVICE : DT_E_NO_MEMORY, .again = !sticky};
  fake_begin(n + 1);
  fake_cuda_fail(sym, n, sticky ? DT_CU_ILLEGAL_ADDRESS : DT_CU_OUT_OF_MEMORY, sticky);
  live(&s, host);
  if (fake_cuda_calls(sym) <= n)
    fail_msg("%s: call %llu was not reached", name, (unsigned long long)n);
  totals->struck++;
  totals->told += s.told > 0;
  if (sticky)
    return;
  if (s.told > 1)
    fail_msg("%s, call %llu: one failure was told %u times", name, (unsigned long long)n, s.told);
  if (fake_cuda_violations(&first))
    fail_msg("%s, call %llu: %s", name, (unsigned long long)n, first);
  // Pages that a trim could not give back go with the session.
  bool later = sym == DT_CUDA_SYM_pages_unmap && fake_cuda_held() == 0;
  if (fake_cuda_held() != releases_something(sym) && !later)
    fail_msg("%s, call %llu: %u things are held", name, (unsigned long long)n, fake_cuda_held());
  totals->kept += fake_cuda_held();
}

static void sweep(live_fn_t live, int64_t n_host, bool sticky) {
  uint64_t counts[DT_CUDA_SYM_COUNT], all, seen = 0;
  totals_t totals = {0};
  dt_tensor_t *host = host_f32(n_host, 0, 1);
  fake_begin(1);
  fake_fixture_t first_use = fake_fixture_open(); // a process opens the driver once
  fake_fixture_close(&first_use);
  all = count_calls(live, host, counts);
  for (int sym = 0; sym < DT_CUDA_SYM_COUNT; sym++)
    for (uint64_t n = 0; n < counts[sym]; n++)
      if (seen++ % STEP == 0)
        strike(live, (dt_cuda_sym_t)sym, n, sticky, host, &totals);
  assert_int_equal(totals.struck, (all + STEP - 1) / STEP);
  print_message(
      "%llu of %llu calls, each failing %s: %llu told, %llu refused to take something back\n",
      (unsigned long long)totals.struck, (unsigned long long)all, sticky ? "for good" : "once",
      (unsigned long long)totals.told, (unsigned long long)totals.kept);
  dt_tensor_release(host);
}

static void each_call_fails_once(void **state) {
  (void)state;
  sweep(live_plain, COUNT, false);
}

static void the_context_is_lost_at_each_call(void **state) {
  (void)state;
  sweep(live_plain, COUNT, true);
}

static void each_call_fails_once_with_graphs(void **state) {
  (void)state;
  sweep(live_graphs, MOST, false);
}

static void the_context_is_lost_at_each_call_with_graphs(void **state) {
  (void)state;
  sweep(live_graphs, MOST, true);
}

RUN_TESTS(TEST(each_call_fails_once), TEST(the_context_is_lost_at_each_call),
          TEST(each_call_fails_once_with_graphs),
          TEST(the_context_is_lost_at_each_call_with_graphs))
