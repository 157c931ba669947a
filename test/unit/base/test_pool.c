// SPDX-License-Identifier: Apache-2.0
// The kernel pool: every item is visited exactly once, whoever calls and however the range is cut;
// chunk boundaries do not depend on timing; a forked child still gets its work done.
#include "test/support/check.h"

#include "runtime/base/memory.h"
#include "runtime/base/pool.h"
#include "runtime/base/thread.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST_ITEMS 5000

typedef struct range_t {
  int64_t count, grain;
  uint32_t width;
  unsigned char visits[MOST_ITEMS]; // plain: each item has one writer, as the caller then sees
  unsigned char starts[MOST_ITEMS]; // 1 where a chunk begins
  _Atomic bool busy[64];            // by worker
  _Atomic int faults;
} range_t;

static void visit(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  range_t *range = arg;
  bool sane = worker < range->width && begin >= 0 && begin < end && end <= range->count &&
              (end - begin >= range->grain || range->count < range->grain);
  if (!sane || atomic_exchange(&range->busy[worker], true)) {
    (void)atomic_fetch_add(&range->faults, 1);
    return;
  }
  range->starts[begin] = 1;
  for (int64_t i = begin; i < end; i++)
    range->visits[i]++;
  atomic_store(&range->busy[worker], false);
}

static void check_range(dt_pool_t *pool, range_t *range, int64_t count, int64_t grain) {
  memset(range, 0, sizeof(*range));
  range->count = count;
  range->grain = grain;
  range->width = dt__pool_width(pool);
  dt__pool_run(pool, count, grain, visit, range);
  int faults = atomic_load(&range->faults);
  if (faults)
    fail_msg("count %lld grain %lld: %d faulty chunks", (long long)count, (long long)grain, faults);
  for (int64_t i = 0; i < MOST_ITEMS; i++) {
    int expected = i < count;
    if (range->visits[i] != expected)
      fail_msg("count %lld grain %lld: item %lld visited %d times, expected %d", (long long)count,
               (long long)grain, (long long)i, range->visits[i], expected);
  }
}

static void test_ranges(void **state) {
  (void)state;
  const uint32_t widths[] = {1, 2, 3, 8};
  const int64_t counts[] = {0, 1, 2, 3, 7, 8, 63, 64, 65, 1000, MOST_ITEMS};
  const int64_t grains[] = {1, 2, 7, 64, 1000, 100000};
  range_t *range = dt__alloc(sizeof(*range));
  for (size_t w = 0; w < sizeof(widths) / sizeof(widths[0]); w++) {
    dt_pool_t *pool;
    assert_null(dt__pool_create(widths[w], NULL, &pool));
    assert_int_equal(dt__pool_width(pool), widths[w]);
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
      for (size_t g = 0; g < sizeof(grains) / sizeof(grains[0]); g++)
        for (int repeat = 0; repeat < 20; repeat++)
          check_range(pool, range, counts[c], grains[g]);
    dt__pool_destroy(pool);
  }
  dt__free(range);
  dt__pool_destroy(NULL);
}

typedef struct wide_t {
  int64_t count;
  _Atomic int64_t items, lowest, highest;
} wide_t;

static void add_items(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  (void)worker;
  wide_t *wide = arg;
  (void)atomic_fetch_add(&wide->items, end - begin);
  if (begin == 0)
    (void)atomic_fetch_add(&wide->lowest, 1);
  if (end == wide->count)
    (void)atomic_fetch_add(&wide->highest, 1);
}

static void test_extreme_counts(void **state) {
  (void)state;
  dt_pool_t *pool;
  assert_null(dt__pool_create(4, NULL, &pool));
  const int64_t counts[] = {INT64_MAX, INT64_MAX - 1, ((int64_t)1 << 47) + 5};
  for (size_t i = 0; i < 3; i++) {
    wide_t wide = {.count = counts[i]};
    dt__pool_run(pool, counts[i], 0, add_items, &wide); // a grain below 1 counts as 1
    assert_true(atomic_load(&wide.items) == counts[i]);
    assert_int_equal(atomic_load(&wide.lowest), 1);
    assert_int_equal(atomic_load(&wide.highest), 1);
  }
  wide_t wide = {.count = -5};
  dt__pool_run(pool, -5, 1, add_items, &wide);
  assert_int_equal(atomic_load(&wide.items), 0);
  dt__pool_destroy(pool);
}

static void test_boundaries_are_fixed(void **state) {
  (void)state;
  dt_pool_t *pool;
  assert_null(dt__pool_create(3, NULL, &pool));
  range_t *first = dt__alloc(sizeof(*first)), *again = dt__alloc(sizeof(*again));
  check_range(pool, first, 1234, 10);
  int chunks = 0;
  for (int i = 0; i < MOST_ITEMS; i++)
    chunks += first->starts[i];
  assert_int_equal(chunks, 12); // four a thread
  for (int repeat = 0; repeat < 50; repeat++) {
    check_range(pool, again, 1234, 10);
    assert_memory_equal(first->starts, again->starts, sizeof(first->starts));
  }
  dt__free(first);
  dt__free(again);
  dt__pool_destroy(pool);
}

typedef struct caller_t {
  dt_pool_t *pool;
  uint64_t seed;
  int rounds;
  bool naps;
} caller_t;

static void *call_many(void *arg) {
  caller_t *caller = arg;
  range_t *range = dt__alloc(sizeof(*range));
  for (int i = 0; i < caller->rounds; i++) {
    caller->seed = caller->seed * 6364136223846793005u + 1442695040888963407u;
    uint64_t bits = caller->seed >> 33;
    int64_t count = bits % 8 == 0 ? (int64_t)(bits >> 3) % MOST_ITEMS : (int64_t)(bits >> 3) % 40;
    int64_t grain = 1 + (int64_t)(bits >> 20) % 5;
    check_range(caller->pool, range, count, grain);
    if (caller->naps && i % 16 == 0)
      (void)usleep(100); // long enough for the workers to fall asleep
  }
  dt__free(range);
  return NULL;
}

static void run_callers(int callers, uint32_t width, int rounds, bool naps) {
  dt_pool_t *pool;
  assert_null(dt__pool_create(width, NULL, &pool));
  caller_t all[32];
  pthread_t threads[32];
  for (int i = 0; i < callers; i++) {
    all[i] = (caller_t){.pool = pool, .seed = (uint64_t)i + 1, .rounds = rounds, .naps = naps};
    assert_null(dt__thread_start(&threads[i], "caller", false, call_many, &all[i]));
  }
  for (int i = 0; i < callers; i++)
    (void)pthread_join(threads[i], NULL);
  dt__pool_destroy(pool);
}

// ---- Levels ---------------------------------------------------------------------------------------

typedef struct levels_t {
  dt_pool_t *pool;
  dt_pool_level_t level;  // of the range that is there first
  _Atomic bool helped;    // it has its worker
  _Atomic bool urged;     // the other range has begun
  _Atomic uint32_t late;  // chunks that the worker took of the first after that, before the other's
  _Atomic uint32_t taken; // of the other, by the worker
} levels_t;

// Waits until it is so, for as long as a slow machine may need.
static void wait_until(const _Atomic bool *flag) {
  for (int k = 0; k < 50000 && !*flag; k++)
    (void)usleep(200);
}

// The caller's chunk lasts until the other range has begun, and so does the worker's.
static void first_chunk(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  levels_t *l = arg;
  (void)begin, (void)end;
  l->late += worker && l->urged && !l->taken;
  if (worker)
    l->helped = true;
  wait_until(&l->urged);
  if (!worker)
    (void)usleep(1000); // the worker comes first to what is left
}

static void *run_first(void *arg) {
  levels_t *l = arg;
  dt__pool_run_at(l->pool, l->level, 8, 1, first_chunk, l);
  return NULL;
}

static void urgent_chunk(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  levels_t *l = arg;
  (void)begin, (void)end;
  l->taken += worker != 0;
  l->urged = true;
  for (int k = 0; k < 50000 && !l->taken; k++)
    (void)usleep(200);
}

// The pool's worker is at one range when another begins that goes first: it leaves the one at once.
static void test_urgent_ranges_go_first(void **state) {
  (void)state;
  for (dt_pool_level_t level = DT_POOL_NORMAL; level < DT_POOL_LEVELS; level++) {
    levels_t l = {.level = level};
    pthread_t thread;
    assert_null(dt__pool_create(2, NULL, &l.pool));
    assert_null(dt__thread_start(&thread, "first", false, run_first, &l));
    wait_until(&l.helped);
    dt__pool_run_at(l.pool, level - 1, 2, 1, urgent_chunk, &l);
    (void)pthread_join(thread, NULL);
    assert_int_equal(l.taken, 1);
    assert_int_equal(l.late, 0);
    dt__pool_destroy(l.pool);
  }
}

static void test_concurrent_callers(void **state) {
  (void)state;
  run_callers(4, 4, 4000, false);
  run_callers(4, 8, 1000, true);
}

// More callers than job slots: the late ones do their own work.
static void test_more_callers_than_slots(void **state) {
  (void)state;
  run_callers(24, 3, 400, false);
}

static void slow_chunk(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  (void)worker;
  (void)usleep(begin == 0 ? 0 : 20000); // the caller finishes first and has to sleep
  (void)atomic_fetch_add((_Atomic int64_t *)arg, end - begin);
}

static void test_caller_waits_long(void **state) {
  (void)state;
  dt_pool_t *pool;
  assert_null(dt__pool_create(4, NULL, &pool));
  for (int i = 0; i < 5; i++) {
    _Atomic int64_t items = 0;
    dt__pool_run(pool, 4, 1, slow_chunk, &items);
    assert_int_equal(atomic_load(&items), 4);
  }
  dt__pool_destroy(pool);
}

// ---- Cores that others want -----------------------------------------------------------------------

static double processor_seconds(void) {
  struct timespec used;
  (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}

typedef struct returns_t {
  _Atomic int64_t items;
  _Atomic uint32_t by_workers;
} returns_t;

static void lasting_chunk(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  returns_t *r = arg;
  int64_t until = dt__now_ns() + (worker ? 1100000 : 2000000);
  while (dt__now_ns() < until) {
  }
  r->items += end - begin;
  r->by_workers += worker != 0;
}

static void *run_lasting(void *arg) {
  returns_t *r = ((void **)arg)[1];
  for (int k = 0; k < 6; k++)
    dt__pool_run(((void **)arg)[0], 16, 1, lasting_chunk, r);
  return NULL;
}

// Each chunk lasts longer than a worker keeps a core without offering it, so that workers leave
// after each and come back; when all is done nothing is left that keeps them awake.
static void test_workers_return(void **state) {
  (void)state;
  dt_pool_t *pool;
  returns_t r = {.items = 0};
  assert_null(dt__pool_create(4, NULL, &pool));
  pthread_t others[2];
  void *arg[] = {pool, &r};
  for (int k = 0; k < 2; k++)
    assert_null(dt__thread_start(&others[k], "caller", false, run_lasting, arg));
  (void)run_lasting(arg);
  for (int k = 0; k < 2; k++)
    (void)pthread_join(others[k], NULL);
  assert_int_equal(r.items, 3 * 6 * 16);
  // Once a job, without coming back, would be three workers' 54 chunks at most.
  assert_true(r.by_workers > 60);
  (void)usleep(50000);
  double before = processor_seconds();
  (void)usleep(200000);
  assert_true(processor_seconds() - before < 0.1);
  dt__pool_destroy(pool);
}

static void count_items(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  (void)worker;
  (void)atomic_fetch_add((_Atomic int64_t *)arg, end - begin);
}

static void test_create_refuses(void **state) {
  (void)state;
  dt_pool_t *pool = (dt_pool_t *)1;
  dt_status_t status = dt__pool_create(0, NULL, &pool);
  assert_int_equal(dt_status_code(status), DT_E_ARGUMENT);
  assert_null(pool);
  dt_status_free(status);
  expect_code(dt__pool_create(100000, NULL, &pool), DT_E_ARGUMENT);
  // Whichever allocation fails, the workers started so far are stopped.
  uint64_t n = 1;
  for (;; n++) {
    (void)dt__heap_fail_at(n, false);
    status = dt__pool_create(3, NULL, &pool);
    (void)dt__heap_fail_at(0, false);
    if (!status)
      break;
    assert_int_equal(dt_status_code(status), DT_E_NO_MEMORY);
    assert_null(pool);
    dt_status_free(status);
  }
  assert_int_equal(n, 5); // the pool, its workers, two threads: none other
  dt__pool_destroy(pool);
}

static void end_nothing(dt_life_t *life) { (void)life; }

static void test_fork(void **state) {
  (void)state;
  dt_life_t life;
  dt_pool_t *pool;
  dt__life_begin(&life, end_nothing);
  assert_null(dt__pool_create(4, NULL, &pool));
  _Atomic int64_t items = 0;
  dt__pool_run(pool, 1000, 1, count_items, &items);
  pid_t child = fork();
  if (child == 0) {
    atomic_store(&items, 0);
    dt__pool_run(pool, 1000, 1, count_items, &items);
    bool right = atomic_load(&items) == 1000;
    dt__pool_destroy(pool);
    dt_status_t status = dt__pool_create(4, NULL, &pool);
    right = right && dt_status_code(status) == DT_E_FORKED;
    dt_status_free(status);
    _exit(right ? 0 : 1);
  }
  int result = -1;
  assert_int_equal(waitpid(child, &result, 0), child);
  assert_true(WIFEXITED(result));
  assert_int_equal(WEXITSTATUS(result), 0);
  dt__pool_run(pool, 1000, 1, count_items, &items);
  assert_int_equal(atomic_load(&items), 2000);
  dt__pool_destroy(pool);
  dt__life_end(&life);
}

// Prints what a launch costs; a limit would only measure the machine.
static void test_print_cost(void **state) {
  (void)state;
  dt_pool_t *pool;
  assert_null(dt__pool_create(2, NULL, &pool));
  enum { ROUNDS = 20000 };
  _Atomic int64_t items = 0;
  int64_t best = INT64_MAX;
  for (int repeat = 0; repeat < 5; repeat++) {
    int64_t begin = dt__now_ns();
    for (int i = 0; i < ROUNDS; i++)
      dt__pool_run(pool, 2, 1, count_items, &items);
    int64_t spent = dt__now_ns() - begin;
    best = spent < best ? spent : best;
  }
  print_message("a range of two empty chunks: %lld ns\n", (long long)(best / ROUNDS));
  assert_int_equal(atomic_load(&items), 2 * ROUNDS * 5);
  dt__pool_destroy(pool);
}

RUN_TESTS(TEST(test_ranges), TEST(test_extreme_counts), TEST(test_boundaries_are_fixed),
          TEST(test_urgent_ranges_go_first), TEST(test_concurrent_callers),
          TEST(test_more_callers_than_slots), TEST(test_caller_waits_long),
          TEST(test_workers_return), TEST(test_create_refuses), TEST(test_fork),
          TEST(test_print_cost))
