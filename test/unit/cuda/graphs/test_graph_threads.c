// SPDX-License-Identifier: Apache-2.0
// Sessions of several threads whose graphs do not all fit the budget: they take each other's away
// all the time. Meanwhile results are released on another thread, functions end that sessions have
// places of, sessions end before their results, and constants are replaced.
#include "test/unit/cuda/graphs/graph_calls.h"

#include "backend_cuda/place/place.h"
#include "ductile/experimental.h"
#include "runtime/base/status.h"
#include "test/support/folder.h"

#include <pthread.h>

enum { CALLERS = 4, MOST = 100 * FAKE_PIECE, HELD = 64 };
#ifdef __SANITIZE_THREAD__
enum { ROUNDS = 200 };
#else
enum { ROUNDS = 400 };
#endif

// ---- Releasing elsewhere --------------------------------------------------------------------------

typedef struct reaper_t {
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t cond;
  dt_tensor_t *tensors[HELD];
  uint32_t n;
  bool ends;
} reaper_t;

static void *reap(void *arg) {
  reaper_t *reaper = arg;
  pthread_mutex_lock(&reaper->mutex);
  while (!reaper->ends || reaper->n) {
    if (!reaper->n) {
      pthread_cond_wait(&reaper->cond, &reaper->mutex);
      continue;
    }
    dt_tensor_t *tensor = reaper->tensors[--reaper->n];
    pthread_mutex_unlock(&reaper->mutex);
    dt_tensor_release(tensor);
    pthread_mutex_lock(&reaper->mutex);
  }
  pthread_mutex_unlock(&reaper->mutex);
  return NULL;
}

static void hand_over(reaper_t *reaper, dt_tensor_t *tensor) {
  pthread_mutex_lock(&reaper->mutex);
  bool room = reaper->n < HELD;
  if (room)
    reaper->tensors[reaper->n++] = tensor;
  pthread_cond_signal(&reaper->cond);
  pthread_mutex_unlock(&reaper->mutex);
  if (!room)
    dt_tensor_release(tensor);
}

// ---- Callers --------------------------------------------------------------------------------------

typedef struct caller_t {
  pthread_t thread;
  dt_runtime_t *runtime;
  dt_function_t *pieces, *scale;
  dt_tensor_t *w, *host;
  reaper_t *reaper;
  dt_session_t *session;
  dt_tensor_t *base;
  uint64_t random, graph_calls, builds;
  uint32_t wrong;
  dt_status_t status;
} caller_t;

static uint64_t next_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

static dt_status_t look(caller_t *c, dt_tensor_t *tensor, float step) {
  float data[MOST];
  size_t n = (size_t)dt_tensor_count(tensor);
  DT_TRY(dt_tensor_read(c->session, tensor, data, n * sizeof(float)));
  for (size_t k = 0; k < n; k++)
    c->wrong += data[k] != step * (float)k;
  return NULL;
}

static void check_budget(caller_t *c) {
  dt_graph_store_t *store = dt__cuda_graphs(c->runtime);
  dt__mutex_lock(&store->mutex);
  c->wrong += store->bytes > store->budget;
  dt__mutex_unlock(&store->mutex);
}

// Two calls of a generation; the first result is released elsewhere, at any time.
static dt_status_t pair(caller_t *c, dt_function_t *pieces, bool looks) {
  dt_tensor_t *x = first_of(c->base, (int64_t)(next_random(&c->random) % MOST));
  dt_tensor_t *twice = NULL, *scaled = NULL;
  dt_status_t status = dt_call(c->session, pieces, &x, 1, &twice, 1, &as_graph);
  if (!status)
    status = dt_call(c->session, c->scale, &twice, 1, &scaled, 1, &as_graph);
  if (!status && looks)
    status = look(c, scaled, 60);
  if (twice)
    hand_over(c->reaper, twice);
  if (scaled)
    hand_over(c->reaper, scaled);
  dt_tensor_release(x);
  check_budget(c);
  return status;
}

static dt_status_t open_own(caller_t *c) {
  DT_TRY(open_session(c->runtime, 0, NULL, &c->session));
  DT_TRY(dt_tensor_create_on(c->session, DT_F32, 1, dt_tensor_sizes(c->host), &c->base));
  return dt_tensor_copy(c->session, c->host, c->base);
}

static dt_status_t close_own(caller_t *c) {
  dt_session_counters_t stats = {.struct_size = sizeof(stats)};
  if (!c->session)
    return NULL;
  dt_status_t status = dt_session_wait(c->session);
  dt_status_t asked = dt_session_counters(c->session, &stats);
  c->graph_calls += stats.graph_calls;
  c->builds += stats.builds;
  dt_tensor_release(c->base);
  dt_session_destroy(c->session);
  c->base = NULL;
  c->session = NULL;
  return dt__status_join(status, asked);
}

// The session ends with a result that goes on.
static dt_status_t change_session(caller_t *c) {
  dt_tensor_t *x = first_of(c->base, 500), *held = NULL;
  dt_status_t status = dt_call(c->session, c->pieces, &x, 1, &held, 1, &as_graph);
  dt_tensor_release(x);
  DT_TRY(status);
  status = close_own(c);
  if (!status)
    status = open_own(c);
  if (!status)
    status = look(c, held, 2);
  hand_over(c->reaper, held);
  return status;
}

static dt_status_t round_of(caller_t *c, uint32_t k) {
  dt_session_counters_t stats = {.struct_size = sizeof(stats)};
  DT_TRY(pair(c, c->pieces, k % 3 == 0));
  if (k % 4 == 1)
    DT_TRY(dt_step_begin(c->session));
  if (k % 10 == 3)
    DT_TRY(dt_constant_update(c->scale, "w", c->w));
  if (k % 5 == 2)
    DT_TRY(dt_session_counters(c->session, &stats));
  if (k % 25 == 7) {
    dt_function_t *own = function_named(c->runtime, "pieces", NULL);
    dt_status_t status = pair(c, own, true);
    dt_function_release(own);
    DT_TRY(status);
  }
  if (k % 40 == 21)
    DT_TRY(dt_session_trim(c->session));
  return k % 30 == 29 ? change_session(c) : NULL;
}

static void *caller_main(void *arg) {
  caller_t *c = arg;
  c->status = open_own(c);
  for (uint32_t k = 0; !c->status && k < ROUNDS; k++)
    c->status = round_of(c, k);
  c->status = dt__status_join(c->status, close_own(c));
  return NULL;
}

static void sessions_take_graphs_from_each_other(void **state) {
  (void)state;
  fake_begin(31);
  variable_set("DUCTILE_GRAPH_MIB", "1"); // 204 kernels; pieces are up to 100
  fake_fixture_t f = fake_fixture_open();
  variable_set("DUCTILE_GRAPH_MIB", NULL);
  reaper_t reaper = {.mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
  dt_tensor_t *w = host_f32(4, 1, 1), *host = host_f32(MOST, 0, 1);
  caller_t callers[CALLERS] = {{0}};
  uint64_t graph_calls = 0;
  dt_function_t *pieces = function_named(f.runtime, "pieces", NULL);
  dt_function_t *scale = function_named(f.runtime, "scale", w);
  assert_int_equal(pthread_create(&reaper.thread, NULL, reap, &reaper), 0);
  for (uint32_t k = 0; k < CALLERS; k++) {
    callers[k] = (caller_t){.runtime = f.runtime,
                            .pieces = pieces,
                            .scale = scale,
                            .w = w,
                            .host = host,
                            .reaper = &reaper,
                            .random = k};
    assert_int_equal(pthread_create(&callers[k].thread, NULL, caller_main, &callers[k]), 0);
  }
  for (uint32_t k = 0; k < CALLERS; k++) {
    assert_int_equal(pthread_join(callers[k].thread, NULL), 0);
    expect_ok(callers[k].status);
    assert_int_equal(callers[k].wrong, 0);
    graph_calls += callers[k].graph_calls;
  }
  assert_true(graph_calls > CALLERS * ROUNDS);
  assert_true(dt__cuda_graphs(f.runtime)->evicted > CALLERS);
  print_message("%llu calls as graphs, %llu graphs taken away\n", (unsigned long long)graph_calls,
                (unsigned long long)dt__cuda_graphs(f.runtime)->evicted);
  pthread_mutex_lock(&reaper.mutex);
  reaper.ends = true;
  pthread_cond_signal(&reaper.cond);
  pthread_mutex_unlock(&reaper.mutex);
  assert_int_equal(pthread_join(reaper.thread, NULL), 0);
  RELEASE(w, host);
  dt_function_release(pieces);
  dt_function_release(scale);
  fake_fixture_close(&f);
  fake_end();
}

RUN_TESTS(TEST(sessions_take_graphs_from_each_other))
