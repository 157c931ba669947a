// SPDX-License-Identifier: Apache-2.0
// What a host brings: its threads and its memory, for many callers at once. The same bits as on the
// runtime's own, whichever way the host runs the parts of a kernel, and no tensor and no block of a
// call in other memory.
#include "test/support/subjects.h"
#include "test/unit/exec/host_kit.h"

#include <stdatomic.h>
#include <string.h>

#define WIDTH ((uint32_t)HOST_WIDTH)

// ---- Executors ------------------------------------------------------------------------------------

static _Atomic uint32_t asked, most_parts; // how often, and for how many parts at most

static void note(uint32_t n) {
  atomic_fetch_add(&asked, 1);
  for (uint32_t most = atomic_load(&most_parts); n > most;)
    if (atomic_compare_exchange_weak(&most_parts, &most, n))
      break;
}

static void run_forward(void *user, uint32_t n, dt_part_fn_t fn, void *arg) {
  (void)user;
  note(n);
  for (uint32_t k = 0; k < n; k++)
    fn(arg, k);
}

static void run_backward(void *user, uint32_t n, dt_part_fn_t fn, void *arg) {
  (void)user;
  note(n);
  for (uint32_t k = n; k-- > 0;)
    fn(arg, k);
}

static void run_last(void *user, uint32_t n, dt_part_fn_t fn, void *arg) {
  (void)user;
  note(n);
  fn(arg, n - 1);
}

static void run_none(void *user, uint32_t n, dt_part_fn_t fn, void *arg) {
  (void)user, (void)fn, (void)arg;
  note(n);
}

static void run_apart(void *user, uint32_t n, dt_part_fn_t fn, void *arg) {
  note(n);
  host_apart(user, n, fn, arg);
}

static const struct {
  const char *name;
  void (*run)(void *user, uint32_t n, dt_part_fn_t fn, void *arg);
} executors[] = {{"forward", run_forward},
                 {"backward", run_backward},
                 {"last", run_last},
                 {"none", run_none},
                 {"apart", run_apart}};

// ---- Runtimes and answers -------------------------------------------------------------------------

static host_heap_t heap = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static dt_runtime_t *hosted(void (*run)(void *, uint32_t, dt_part_fn_t, void *), bool with_heap) {
  const dt_executor_t executor = {sizeof(executor), run, NULL};
  const dt_allocator_t allocator = {sizeof(allocator), host_take, host_give, &heap};
  const dt_runtime_options_t options = {.struct_size = sizeof(options),
                                        .threads = WIDTH,
                                        .compile_threads = 2,
                                        .allocator = with_heap ? &allocator : NULL,
                                        .executor = run ? &executor : NULL};
  dt_runtime_t *runtime = NULL;
  expect_ok(dt_runtime_create(&options, &runtime));
  return runtime;
}

#define SIZES_OF_ROWS 3
static const int64_t rows[SIZES_OF_ROWS] = {1, 37, 700};

typedef struct work_t {
  mlp_t mlp;
  dt_tensor_t *in[SIZES_OF_ROWS], *wide[SIZES_OF_ROWS]; // of the mlp; of the columns
} work_t;

static void work_init(work_t *w) {
  rng_t rng = {7};
  mlp_init(&w->mlp, &rng);
  for (int k = 0; k < SIZES_OF_ROWS; k++) {
    w->in[k] = tensor_f32(&rng, 3, SIZES(3, rows[k], 16));
    w->wide[k] = tensor_f32(&rng, 2, SIZES(rows[k], 513));
  }
}

static void work_fini(work_t *w) {
  for (int k = 0; k < SIZES_OF_ROWS; k++)
    RELEASE(w->in[k], w->wide[k]);
  mlp_fini(&w->mlp);
}

typedef struct functions_t {
  dt_function_t *mlp, *columns;
} functions_t;

static functions_t functions_on(dt_runtime_t *runtime, work_t *w) {
  return (functions_t){subject_function(runtime, &mlp_subject, &w->mlp, compiled_answer()),
                       subject_function(runtime, &columns_subject, NULL, compiled_answer())};
}

static void functions_end(const functions_t *f) {
  dt_function_release(f->mlp);
  dt_function_release(f->columns);
}

#define RESULTS (2 * SIZES_OF_ROWS)

// One answer; a status counts as wrong, since cmocka's checks belong to the main thread.
static dt_tensor_t *answer(dt_session_t *session, const functions_t *f, work_t *w, int k) {
  dt_tensor_t *out = NULL, **in = k % 2 ? &w->wide[k / 2] : &w->in[k / 2];
  dt_status_free(dt_call(session, k % 2 ? f->columns : f->mlp, in, 1, &out, 1, NULL));
  return out;
}

static bool same(dt_tensor_t *a, dt_tensor_t *b) {
  return a && b && dt_tensor_bytes(a) == dt_tensor_bytes(b) &&
         memcmp(dt_tensor_data(a), dt_tensor_data(b), dt_tensor_bytes(a)) == 0;
}

static void answer_all(dt_runtime_t *runtime, work_t *w, dt_tensor_t **out) {
  dt_session_t *session = session_of(runtime);
  functions_t f = functions_on(runtime, w);
  for (int k = 0; k < RESULTS; k++)
    assert_non_null(out[k] = answer(session, &f, w, k));
  functions_end(&f);
  dt_session_destroy(session);
}

// ---- Tests ----------------------------------------------------------------------------------------

static void test_executors(void **state) {
  (void)state;
  work_t w;
  dt_tensor_t *want[RESULTS], *got[RESULTS];
  work_init(&w);
  dt_runtime_t *own = hosted(NULL, false);
  answer_all(own, &w, want);
  dt_runtime_release(own);
  for (size_t e = 0; e < sizeof(executors) / sizeof(executors[0]); e++) {
    asked = most_parts = 0;
    dt_runtime_t *runtime = hosted(executors[e].run, false);
    answer_all(runtime, &w, got);
    dt_runtime_release(runtime);
    for (int k = 0; k < RESULTS; k++) {
      if (!same(got[k], want[k]))
        fail_msg("%s: result %d has other bits", executors[e].name, k);
      RELEASE(got[k]);
    }
    if (compiled_answer() == DT_ANSWER_COMPILED) // the evaluator is no kernel
      assert_in_range(most_parts, 2, WIDTH);
  }
  for (int k = 0; k < RESULTS; k++)
    RELEASE(want[k]);
  work_fini(&w);
}

// Session blocks, scratch, results, packed constants: all of it, and all comes back.
static void test_memory(void **state) {
  (void)state;
  work_t w;
  dt_tensor_t *want[RESULTS];
  work_init(&w);
  dt_runtime_t *own = hosted(NULL, false), *runtime = hosted(NULL, true);
  answer_all(own, &w, want);
  dt_runtime_release(own);
  dt_session_t *session = session_of(runtime);
  functions_t f = functions_on(runtime, &w);
  size_t results = 0;
  dt_tensor_t *got[RESULTS], *made = NULL;
  for (int k = 0; k < RESULTS; k++) {
    assert_non_null(got[k] = answer(session, &f, &w, k));
    assert_true(same(got[k], want[k]));
    assert_true(host_has(&heap, dt_tensor_data(got[k])));
    results += dt_tensor_bytes(got[k]);
  }
  expect_ok(dt_tensor_create_on(session, DT_F32, 1, SIZES(5), &made));
  assert_true(host_has(&heap, dt_tensor_data(made)));
  RELEASE(made);
  dt_runtime_stats_t stats = {.struct_size = sizeof(stats)};
  expect_ok(dt_runtime_stats(runtime, &stats));
  assert_int_equal(stats.warm_bytes, 0);
  assert_true(stats.session_bytes > 0 || compiled_answer() != DT_ANSWER_COMPILED);
  // The session also counts its own arrays, which are small.
  assert_in_range(heap.bytes, results + stats.packed_bytes,
                  results + stats.packed_bytes + stats.session_bytes);
  functions_end(&f);
  dt_session_destroy(session);
  dt_runtime_release(runtime);
  assert_int_equal(heap.n, RESULTS); // tensors outlive the runtime
  for (int k = 0; k < RESULTS; k++)
    RELEASE(got[k], want[k]);
  assert_int_equal(heap.n, 0);
  work_fini(&w);
}

// Whichever block the host refuses, the call says that there is no memory, and later ones answer.
static void test_no_memory(void **state) {
  (void)state;
  work_t w;
  work_init(&w);
  for (size_t at = 1;; at++) {
    dt_runtime_t *runtime = hosted(NULL, true);
    dt_session_t *session = session_of(runtime);
    functions_t f = functions_on(runtime, &w);
    dt_tensor_t *out = NULL;
    heap.taken = 0;
    heap.fails_at = at;
    dt_status_t status = dt_call(session, f.mlp, &w.in[1], 1, &out, 1, NULL);
    bool reached = heap.taken >= at;
    heap.fails_at = 0;
    if (reached) {
      expect_code(status, DT_E_NO_MEMORY);
      assert_null(out);
      expect_ok(dt_call(session, f.mlp, &w.in[1], 1, &out, 1, NULL));
    } else {
      expect_ok(status);
    }
    RELEASE(out);
    functions_end(&f);
    dt_session_destroy(session);
    dt_runtime_release(runtime);
    assert_int_equal(heap.n, 0);
    if (!reached)
      break;
  }
  work_fini(&w);
}

#define CALLERS 32
#define ROUNDS 6

typedef struct caller_t {
  pthread_t thread;
  dt_runtime_t *runtime;
  const functions_t *f;
  work_t *w;
  dt_tensor_t **want;
  int first;
  _Atomic int wrong;
} caller_t;

static void *call_all(void *opaque) {
  caller_t *own = opaque;
  dt_session_t *session = NULL;
  dt_status_free(dt_session_create(own->runtime, NULL, &session));
  own->wrong += session == NULL;
  for (int k = 0; session && k < ROUNDS; k++) {
    int which = (own->first + k) % RESULTS;
    dt_tensor_t *out = answer(session, own->f, own->w, which);
    own->wrong += !same(out, own->want[which]) || !host_has(&heap, dt_tensor_data(out));
    RELEASE(out);
  }
  dt_session_destroy(session);
  return NULL;
}

static void test_callers(void **state) {
  (void)state;
  work_t w;
  dt_tensor_t *want[RESULTS];
  work_init(&w);
  dt_runtime_t *own = hosted(NULL, false), *runtime = hosted(run_apart, true);
  answer_all(own, &w, want);
  dt_runtime_release(own);
  functions_t f = functions_on(runtime, &w);
  caller_t callers[CALLERS];
  for (int i = 0; i < CALLERS; i++) {
    callers[i] =
        (caller_t){.runtime = runtime, .f = &f, .w = &w, .want = want, .first = i % RESULTS};
    assert_int_equal(pthread_create(&callers[i].thread, NULL, call_all, &callers[i]), 0);
  }
  int wrong = 0;
  for (int i = 0; i < CALLERS; i++) {
    (void)pthread_join(callers[i].thread, NULL);
    wrong += callers[i].wrong;
  }
  assert_int_equal(wrong, 0);
  functions_end(&f);
  dt_runtime_release(runtime);
  assert_int_equal(heap.n, 0);
  for (int k = 0; k < RESULTS; k++)
    RELEASE(want[k]);
  work_fini(&w);
}

static void test_arguments(void **state) {
  (void)state;
  const dt_executor_t no_run = {0};
  const dt_allocator_t no_take = {.give = host_give}, no_give = {.take = host_take};
  dt_runtime_options_t options = {.struct_size = sizeof(options), .executor = &no_run};
  dt_runtime_t *runtime = NULL;
  expect_told(dt_runtime_create(&options, &runtime), DT_E_ARGUMENT, "executor: run: NULL");
  options = (dt_runtime_options_t){.struct_size = sizeof(options), .allocator = &no_take};
  expect_told(dt_runtime_create(&options, &runtime), DT_E_ARGUMENT, "allocator: take: NULL");
  options.allocator = &no_give;
  expect_told(dt_runtime_create(&options, &runtime), DT_E_ARGUMENT, "allocator: give: NULL");
}

// Answers do not depend on it; what is no priority, or a device's, is refused.
static void test_priorities(void **state) {
  (void)state;
  dt_runtime_t *runtime = hosted(NULL, false);
  dt_session_options_t options = {.struct_size = sizeof(options)};
  dt_session_t *session = session_of(runtime);
  dt_function_t *function = subject_function(runtime, &columns_subject, NULL, compiled_answer());
  rng_t rng = {5};
  dt_tensor_t *in = tensor_f32(&rng, 2, SIZES(60, 700)), *want = NULL;
  expect_ok(dt_call(session, function, &in, 1, &want, 1, NULL));
  dt_session_destroy(session);
  for (options.priority = 0; options.priority <= DT_PRIORITY_LATER; options.priority++) {
    dt_tensor_t *out = NULL;
    expect_ok(dt_session_create(runtime, &options, &session));
    expect_ok(dt_call(session, function, &in, 1, &out, 1, NULL));
    assert_memory_equal(dt_tensor_data(out), dt_tensor_data(want), dt_tensor_bytes(want));
    RELEASE(out);
    dt_session_destroy(session);
  }
  expect_told(dt_session_create(runtime, &options, &session), DT_E_ARGUMENT,
              "priority: 3 is no dt_priority_t");
  options.priority = DT_PRIORITY_URGENT;
  options.device = DT_CUDA;
  expect_told(dt_session_create(runtime, &options, &session), DT_E_UNSUPPORTED,
              "give a stream that has the priority");
  RELEASE(in, want);
  dt_function_release(function);
  dt_runtime_release(runtime);
}

// Whether a call of `subject` with a tensor of these sizes hands parts to others.
static bool shares(dt_session_t *session, dt_function_t *function, int64_t rows_of, int64_t width) {
  rng_t rng = {9};
  dt_tensor_t *in = tensor_f32(&rng, 2, SIZES(rows_of, width)), *out = NULL;
  asked = 0;
  expect_ok(dt_call(session, function, &in, 1, &out, 1, NULL));
  RELEASE(in, out);
  return asked > 0;
}

// What is worth another thread is so at the call's own sizes, whichever the first call had.
static void test_grain(void **state) {
  (void)state;
  static const struct {
    int64_t rows, width;
    bool shares;
  } cases[] = {
      {8, 1, false}, {8, 100000, true}, {8, 4, false}, {1000, 3, false}, {4000, 700, true}};
  enum { CASES = sizeof(cases) / sizeof(cases[0]) };
  for (int first = 0; first < CASES && compiled_answer() == DT_ANSWER_COMPILED; first++) {
    dt_runtime_t *runtime = hosted(run_forward, false);
    dt_session_t *session = session_of(runtime);
    dt_function_t *function = subject_function(runtime, &softmax_subject, NULL, DT_ANSWER_COMPILED);
    (void)shares(session, function, cases[first].rows, cases[first].width);
    for (int k = 0; k < CASES; k++)
      if (shares(session, function, cases[k].rows, cases[k].width) != cases[k].shares)
        fail_msg("%lld x %lld, first called with %lld x %lld: %s", (long long)cases[k].rows,
                 (long long)cases[k].width, (long long)cases[first].rows,
                 (long long)cases[first].width, cases[k].shares ? "one thread" : "shared");
    assert_int_equal(variants_of(function), 1);
    dt_function_release(function);
    dt_session_destroy(session);
    dt_runtime_release(runtime);
  }
}

RUN_TESTS(TEST(test_executors), TEST(test_memory), TEST(test_no_memory), TEST(test_callers),
          TEST(test_arguments), TEST(test_priorities), TEST(test_grain))
