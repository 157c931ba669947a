// SPDX-License-Identifier: Apache-2.0
// The memory of sessions whose calls run as graphs: as much as the largest sizes or the larger
// branch need, results that stay where they are while they are held, and what is said of results
// whose generation has ended.
#include "test/unit/cuda/graphs/graph_calls.h"

#include "backend_cuda/place/place.h"
#include "ductile/experimental.h"

// The thread sanitizer takes long over the fake's work.
#ifdef __SANITIZE_THREAD__
enum { SHAPES = 300, GENERATIONS = 300 };
#else
enum { SHAPES = 1000, GENERATIONS = 10000 };
#endif

static uint64_t next_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

// ---- How much -------------------------------------------------------------------------------------

// A chain of two calls, whose results are released.
static void chain(fake_fixture_t *f, dt_function_t *add, dt_tensor_t *base, int64_t n, bool look) {
  dt_tensor_t *x = first_of(base, n), *once = graph_call(f->session, add, 2, x);
  dt_tensor_t *twice = graph_call(f->session, add, 2, once);
  if (look)
    expect_ramp(f->session, twice, n, 4, 4);
  RELEASE(x, once, twice);
}

// Any order of sizes takes what the largest of them takes alone; a few are of 4 MB and more.
static void the_pool_is_that_of_the_largest_sizes(void **state) {
  (void)state;
  enum { MOST = 1300000 };
  uint64_t random = 5, bytes[2] = {0};
  int64_t largest = 0;
  for (int alone = 0; alone < 2; alone++) {
    fake_begin(1);
    fake_fixture_t f = fake_fixture_open();
    dt_function_t *add = function_named(f.runtime, "add", NULL);
    dt_tensor_t *host = host_f32(MOST, 1, 1), *base = tensor_upload(f.session, host);
    for (uint32_t k = 0; !alone && k < SHAPES; k++) {
      uint64_t kind = next_random(&random) % 100;
      int64_t n = (int64_t)(next_random(&random) % (kind < 3 ? MOST : kind < 90 ? 3000 : 3));
      largest = largest > n ? largest : n;
      chain(&f, add, base, n, k % 7 == 0);
    }
    chain(&f, add, base, largest, true);
    dt_session_counters_t stats = session_stats(f.session);
    bytes[alone] = stats.pool_bytes;
    assert_int_equal(stats.builds, 2);
    assert_int_equal(stats.live_results, 0);
    assert_int_equal(stats.graph_skips, 0);
    RELEASE(host, base);
    dt_function_release(add);
    fake_fixture_close(&f);
    fake_end();
  }
  assert_true(largest > MOST / 2);
  assert_int_equal(bytes[0], bytes[1]);
}

typedef struct path_t {
  dt_function_t *add, *pieces, *scale;
  dt_tensor_t *small, *large;
} path_t;

// add, then one of two branches: scale at the small size, or pieces and add at the large one; all
// results are held until the generation ends.
static void generation(fake_fixture_t *f, const path_t *path, bool large, bool look) {
  dt_tensor_t *x = large ? path->large : path->small, *results[3] = {NULL};
  expect_ok(dt_step_begin(f->session));
  results[0] = graph_call(f->session, path->add, 2, x);
  if (large) {
    results[1] = graph_call(f->session, path->pieces, 1, path->small);
    results[2] = graph_call(f->session, path->add, 2, results[0]);
  } else {
    results[1] = graph_call(f->session, path->scale, 1, results[0]);
    results[2] = graph_call(f->session, path->add, 2, results[1]);
  }
  if (look)
    expect_ramp(f->session, results[2], dt_tensor_count(x), large ? 4 : 120, large ? 4 : 120);
  release_tensors(results, 3);
}

static void two_branches_take_what_the_larger_takes(void **state) {
  (void)state;
  uint64_t bytes[2] = {0};
  for (int alone = 0; alone < 2; alone++) {
    fake_begin(2);
    fake_fixture_t f = fake_fixture_open();
    dt_tensor_t *w = host_f32(4, 1, 1), *host = host_f32(600000, 1, 1);
    path_t path = {.add = function_named(f.runtime, "add", NULL),
                   .pieces = function_named(f.runtime, "pieces", NULL),
                   .scale = function_named(f.runtime, "scale", w),
                   .large = tensor_upload(f.session, host)};
    path.small = first_of(path.large, 50);
    for (uint32_t k = 0; k < (alone ? 3 : GENERATIONS); k++) {
      bool large = alone || k == 1 || (k > 2 && k % 101 == 0);
      generation(&f, &path, large, k % 50 < 2 || large);
    }
    dt_session_counters_t stats = session_stats(f.session);
    bytes[alone] = stats.pool_bytes;
    assert_int_equal(stats.builds, alone ? 3 : 5); // the first call is of both ways
    assert_int_equal(stats.places, alone ? 3 : 5);
    assert_int_equal(stats.graph_skips, 0);
    if (!alone)
      assert_int_equal(stats.generation, GENERATIONS + 1);
    RELEASE(w, host, path.small, path.large);
    dt_function_release(path.add);
    dt_function_release(path.pieces);
    dt_function_release(path.scale);
    fake_fixture_close(&f);
    fake_end();
  }
  assert_int_equal(bytes[0], bytes[1]);
}

// ---- Results that are held ------------------------------------------------------------------------

static void held_results_keep_their_block(void **state) {
  (void)state;
  uint64_t random = 9;
  fake_begin(3);
  fake_fixture_t f = fake_fixture_open();
  dt_function_t *add = function_named(f.runtime, "add", NULL);
  dt_tensor_t *host = host_f32(5000, 1, 1), *base = tensor_upload(f.session, host);
  dt_tensor_t *held[8] = {NULL};
  int64_t sizes[8] = {0};
  for (uint32_t k = 0; k < 400; k++) {
    uint32_t at = (uint32_t)(next_random(&random) % 8);
    dt_tensor_release(held[at]);
    sizes[at] = (int64_t)(next_random(&random) % 5000);
    dt_tensor_t *x = first_of(base, sizes[at]);
    held[at] = graph_call(f.session, add, 2, x);
    dt_tensor_release(x);
    uint32_t other = (uint32_t)(next_random(&random) % 8);
    if (held[other])
      expect_ramp(f.session, held[other], sizes[other], 2, 2);
  }
  uint64_t bytes = 0, live = 0;
  for (uint32_t k = 0; k < 8; k++) {
    expect_ramp(f.session, held[k], sizes[k], 2, 2);
    bytes += (uint64_t)sizes[k] * 4;
    live += sizes[k] > 0;
  }
  dt_session_counters_t stats = session_stats(f.session);
  assert_int_equal(stats.live_results, live);
  assert_int_equal(stats.live_bytes, bytes);
  assert_int_equal(stats.graph_skips, 0);
  release_tensors(held, 8);
  assert_int_equal(session_stats(f.session).live_bytes, 0);
  RELEASE(host, base);
  dt_function_release(add);
  fake_fixture_close(&f);
  fake_end();
}

// Held results of a session that is gone, and of a function that is gone, are as they were.
static void results_outlive_sessions_and_functions(void **state) {
  (void)state;
  fake_begin(4);
  fake_fixture_t f = fake_fixture_open();
  dt_session_t *own = NULL;
  expect_ok(open_session(f.runtime, 0, NULL, &own));
  dt_function_t *add = function_named(f.runtime, "add", NULL);
  dt_function_t *pieces = function_named(f.runtime, "pieces", NULL);
  dt_tensor_t *host = host_f32(1000, 1, 1), *x = tensor_upload(own, host);
  dt_tensor_t *sum = graph_call(own, add, 2, x), *twice = graph_call(own, pieces, 1, sum);
  dt_function_release(add); // the session keeps a place of it
  dt_tensor_t *again = graph_call(own, pieces, 1, sum);
  expect_ramp(own, again, 1000, 4, 4);
  expect_ok(dt_session_wait(own));
  dt_session_destroy(own);
  expect_ramp(f.session, sum, 1000, 2, 2);
  expect_ramp(f.session, twice, 1000, 4, 4);
  dt_tensor_t *more = graph_call(f.session, pieces, 1, twice);
  expect_ramp(f.session, more, 1000, 8, 8);
  RELEASE(host, x, sum, twice, again, more);
  dt_function_release(pieces);
  fake_fixture_close(&f);
  fake_end();
}

// A tensor given as output is the caller's, kept ones too; both live on.
static void given_and_kept_tensors_do_not_end(void **state) {
  (void)state;
  fake_begin(5);
  fake_fixture_t f = fake_fixture_open();
  dt_function_t *add = function_named(f.runtime, "add", NULL);
  dt_tensor_t *host = host_f32(100, 1, 1), *x = tensor_upload(f.session, host);
  dt_tensor_t *given = NULL, *kept = NULL, *keep_of_kept = NULL;
  expect_ok(dt_tensor_create_on(f.session, DT_F32, 1, dt_tensor_sizes(x), &given));
  for (uint32_t k = 0; k < 5; k++) {
    expect_ok(dt_call(f.session, add, (dt_tensor_t *[]){x, x}, 2, &given, 1, &as_graph));
    dt_tensor_t *sum = graph_call(f.session, add, 2, given);
    expect_ok(dt_tensor_keep(f.session, sum, &kept));
    expect_ok(dt_step_begin(f.session));
    dt_tensor_t *other = graph_call(f.session, add, 2, kept); // where `sum` lay
    expect_ramp(f.session, given, 100, 2, 2);
    expect_ramp(f.session, kept, 100, 4, 4);
    expect_ramp(f.session, other, 100, 8, 8);
    expect_ok(dt_tensor_keep(f.session, kept, &keep_of_kept));
    expect_ramp(f.session, keep_of_kept, 100, 4, 4);
    RELEASE(sum, kept, other, keep_of_kept);
  }
  RELEASE(host, x, given);
  dt_function_release(add);
  fake_fixture_close(&f);
  fake_end();
}

// ---- After the end --------------------------------------------------------------------------------

#define ENDED "output 0 of function add, made by call 1 of generation 2, was overwritten by a"

static void ended_results_say_so(void **state) {
  (void)state;
  fake_begin(6);
  fake_fixture_t f = fake_fixture_open();
  dt_function_t *add = function_named(f.runtime, "add", NULL);
  dt_tensor_t *host = host_f32(100, 1, 1), *x = tensor_upload(f.session, host), *out = NULL;
  expect_ok(dt_step_begin(f.session));
  dt_tensor_t *first = graph_call(f.session, add, 2, x), *sum = graph_call(f.session, add, 2, x);
  expect_ok(dt_step_begin(f.session));
  float data[100];
  expect_told(dt_call(f.session, add, (dt_tensor_t *[]){x, sum}, 2, &out, 1, NULL), DT_E_STATE,
              ENDED);
  expect_told(dt_call(f.session, add, (dt_tensor_t *[]){x, sum}, 2, &out, 1, NULL), DT_E_STATE,
              "b");
  expect_told(dt_call(f.session, add, (dt_tensor_t *[]){sum, x}, 2, &out, 1, &as_graph), DT_E_STATE,
              ENDED);
  assert_null(out);
  out = sum;
  expect_told(dt_call(f.session, add, (dt_tensor_t *[]){x, x}, 2, &out, 1, &as_graph), DT_E_STATE,
              ENDED);
  assert_ptr_equal(out, sum);
  expect_told(dt_tensor_copy(f.session, sum, x), DT_E_STATE, ENDED);
  expect_told(dt_tensor_copy(f.session, x, sum), DT_E_STATE, ENDED);
  expect_told(dt_tensor_read(f.session, sum, data, sizeof(data)), DT_E_STATE, ENDED);
  out = x;
  expect_told(dt_tensor_keep(f.session, sum, &out), DT_E_STATE, ENDED);
  assert_null(out);
  expect_told(dt_tensor_read(f.session, first, data, sizeof(data)), DT_E_STATE, "made by call 0");
  assert_int_equal(dt_tensor_count(sum), 100); // what it was can still be asked
  expect_ramp(f.session, x, 100, 1, 1);
  dt_tensor_t *now = graph_call(f.session, add, 2, x);
  dt_tensor_release(sum); // does not touch what lies there now
  expect_ramp(f.session, now, 100, 2, 2);
  expect_told(dt_step_begin(NULL), DT_E_ARGUMENT, "NULL");
  expect_told(dt_tensor_keep(f.session, now, NULL), DT_E_ARGUMENT, "out: NULL");
  expect_told(dt_session_counters(f.session, NULL), DT_E_ARGUMENT, "counters: NULL");
  RELEASE(host, x, first, now);
  dt_function_release(add);
  fake_fixture_close(&f);
  fake_end();
}

// What is computed of an ended result's memory, queued before the end, is right.
static void work_queued_before_the_end_is_done(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 8; seed++) {
    fake_begin(seed);
    fake_fixture_t f = fake_fixture_open();
    dt_function_t *add = function_named(f.runtime, "add", NULL);
    dt_tensor_t *host = host_f32(64, 1, 1), *x = tensor_upload(f.session, host), *given = NULL;
    expect_ok(dt_tensor_create_on(f.session, DT_F32, 1, dt_tensor_sizes(x), &given));
    dt_tensor_t *sum = graph_call(f.session, add, 2, x);
    expect_ok(dt_call(f.session, add, (dt_tensor_t *[]){sum, sum}, 2, &given, 1, &as_graph));
    expect_ok(dt_step_begin(f.session));
    dt_tensor_t *other = graph_call(f.session, add, 2, given); // over `sum`
    expect_ramp(f.session, other, 64, 8, 8);
    expect_ramp(f.session, given, 64, 4, 4);
    RELEASE(host, x, given, sum, other);
    dt_function_release(add);
    fake_fixture_close(&f);
    fake_end();
  }
}

// ---- Trimming -------------------------------------------------------------------------------------

static void trimming_keeps_what_lives(void **state) {
  (void)state;
  fake_begin(7);
  fake_fixture_t f = fake_fixture_open();
  dt_function_t *add = function_named(f.runtime, "add", NULL);
  dt_tensor_t *host = host_f32(2000000, 1, 1), *base = tensor_upload(f.session, host);
  dt_tensor_t *x = first_of(base, 100), *held = graph_call(f.session, add, 2, x);
  set_scratch(200000);
  dt_tensor_release(graph_call(f.session, add, 2, base));
  uint64_t before = session_stats(f.session).pool_bytes;
  assert_true(before > 16000000);
  assert_true(session_stats(f.session).scratch_bytes > 0);
  expect_ok(dt_session_trim(f.session));
  dt_session_counters_t stats = session_stats(f.session);
  assert_true(stats.pool_bytes < before / 2);
  assert_int_equal(stats.scratch_bytes, 0);
  assert_int_equal(stats.places, 0);
  assert_int_equal(stats.live_results, 1);
  assert_int_equal(stats.path_length, 2); // the generation goes on
  expect_ramp(f.session, held, 100, 2, 2);
  for (uint32_t k = 0; k < 3; k++) {
    dt_tensor_t *sum = graph_call(f.session, add, 2, k ? base : x);
    expect_ramp(f.session, sum, k ? 2000000 : 100, 2, 2);
    expect_ramp(f.session, held, 100, 2, 2);
    dt_tensor_release(sum);
  }
  set_scratch(0);
  RELEASE(held);
  expect_ok(dt_session_trim(f.session));
  assert_int_equal(session_stats(f.session).pool_bytes, 0);
  RELEASE(host, base, x);
  dt_function_release(add);
  fake_fixture_close(&f);
  fake_end();
}

// ---- Constants ------------------------------------------------------------------------------------

// Another address of a constant is set in the graph; nothing is assembled again.
static void updated_constants_are_set(void **state) {
  (void)state;
  fake_begin(8);
  fake_fixture_t f = fake_fixture_open();
  dt_tensor_t *w[2] = {host_f32(4, 1, 1), host_f32(4, 0, 1)};
  dt_function_t *scale = function_named(f.runtime, "scale", w[0]);
  dt_tensor_t *host = host_f32(50, 1, 1), *x = tensor_upload(f.session, host);
  for (uint32_t k = 0; k < 10; k++) {
    dt_tensor_t *out = graph_call(f.session, scale, 1, x);
    expect_ramp(f.session, out, 50, k % 2 ? 14 : 30, k % 2 ? 14 : 30);
    dt_tensor_release(out);
    expect_ok(dt_constant_update(scale, "w", w[(k + 1) % 2]));
  }
  dt_session_counters_t stats = session_stats(f.session);
  assert_int_equal(stats.builds, 1);
  assert_int_equal(stats.graph_calls, 10);
  RELEASE(w[0], w[1], host, x);
  dt_function_release(scale);
  fake_fixture_close(&f);
  fake_end();
}

// Whether a block needs more pages is asked of where it goes: behind results that live.
static void blocks_behind_results_need_pages(void **state) {
  (void)state;
  fake_begin(9);
  fake_fixture_t f = fake_fixture_open();
  dt_graph_pool_t *pool = dt__cuda_session(f.session)->pool;
  const dt_graph_maker_t maker = {.function = "hand"};
  const size_t page = (size_t)2 << 20;
  dt_storage_t *result = NULL;
  dt_cu_ptr_t block = 0;
  uint32_t live = 0;
  assert_true(dt__graph_pool_has(pool, 0, false));
  assert_false(dt__graph_pool_has(pool, 1, false));
  expect_ok(dt__graph_pool_take(pool, page, &maker, &result));
  expect_ok(dt__graph_pool_lease(pool, 0, false, &block));
  assert_int_equal(pool->region.bytes, page);
  assert_false(dt__graph_pool_has(pool, page / 2, false));
  assert_false(dt__graph_pool_has(pool, page / 2, true));
  dt__storage_release(result);
  (void)dt__graph_pool_sweep(pool, &live);
  assert_int_equal(live, 0);
  assert_true(dt__graph_pool_has(pool, page / 2, true));
  expect_ok(dt__graph_pool_lease(pool, page / 2, true, &block));
  assert_int_equal(pool->growths, 1);
  fake_fixture_close(&f);
  fake_end();
}

RUN_TESTS(TEST(the_pool_is_that_of_the_largest_sizes),
          TEST(two_branches_take_what_the_larger_takes), TEST(held_results_keep_their_block),
          TEST(results_outlive_sessions_and_functions), TEST(given_and_kept_tensors_do_not_end),
          TEST(ended_results_say_so), TEST(work_queued_before_the_end_is_done),
          TEST(trimming_keeps_what_lives), TEST(updated_constants_are_set),
          TEST(blocks_behind_results_need_pages))
