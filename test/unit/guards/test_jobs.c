// SPDX-License-Identifier: Apache-2.0
// Detached jobs of the compile threads: run once, in order, not before their time, never after they
// were taken back, and all before the threads end.
#include "test/support/check.h"

#include "runtime/base/status.h"
#include "runtime/base/thread.h"
#include "runtime/compile/jobs.h"

#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef struct count_t {
  _Atomic int runs;
  _Atomic int64_t at_ns;
} count_t;

static dt_status_t run_count(void *opaque) {
  count_t *count = opaque;
  atomic_store(&count->at_ns, dt__now_ns());
  (void)atomic_fetch_add(&count->runs, 1);
  return DT_FAIL(DT_E_INTERNAL, "what a detached job returns is dropped");
}

static dt_status_t run_nothing(void *opaque) {
  (void)opaque;
  return NULL;
}

// The niceness of the thread that a job runs on, and how long it is kept.
typedef struct place_t {
  _Atomic int nice, runs;
  _Atomic bool go;
} place_t;

static dt_status_t run_place(void *opaque) {
  place_t *place = opaque;
  place->nice = getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid));
  (void)atomic_fetch_add(&place->runs, 1);
  while (!atomic_load(&place->go))
    (void)sched_yield();
  return NULL;
}

static void wait_for(_Atomic int *runs, int n) {
  for (int64_t begin = dt__now_ns(); atomic_load(runs) < n; (void)sched_yield()) {
    if (dt__now_ns() - begin > 20000000000)
      fail_msg("a posted job did not run");
  }
}

static void test_posted_runs(void **state) {
  (void)state;
  dt_jobs_t *jobs = NULL;
  expect_ok(dt__jobs_create(1, 0, &jobs));
  count_t count = {0};
  dt_job_t job = {.run = run_count, .arg = &count};
  expect_ok(dt__jobs_post(jobs, &job, 0));
  wait_for(&count.runs, 1);
  assert_false(dt__jobs_cancel(jobs, &job));
  dt__jobs_destroy(jobs);
  assert_int_equal(count.runs, 1);
}

// What is waited for runs at the host's priority, also while the background is busy, and what is
// not, below it.
static void test_priorities(void **state) {
  (void)state;
  dt_jobs_t *jobs = NULL;
  int own = getpriority(PRIO_PROCESS, 0);
  expect_ok(dt__jobs_create(2, 0, &jobs));
  place_t later = {0}, now[4] = {0};
  dt_job_t job = {.run = run_place, .arg = &later}, group[4];
  expect_ok(dt__jobs_post(jobs, &job, 0));
  wait_for(&later.runs, 1);
  for (int k = 0; k < 4; k++) {
    now[k].go = true;
    group[k] = (dt_job_t){.run = run_place, .arg = &now[k]};
  }
  expect_ok(dt__jobs_run(jobs, group, 4, 0));
  for (int k = 0; k < 4; k++)
    assert_int_equal(now[k].nice, own);
  assert_int_equal(later.nice, own + 10 < 19 ? own + 10 : 19);
  later.go = true;
  dt__jobs_destroy(jobs);
}

// How many of a group run at once, and at most did.
typedef struct crowd_t {
  _Atomic int now, most, runs;
} crowd_t;

static dt_status_t run_crowd(void *opaque) {
  crowd_t *crowd = opaque;
  const struct timespec nap = {.tv_nsec = 1000000};
  int now = atomic_fetch_add(&crowd->now, 1) + 1, most = atomic_load(&crowd->most);
  while (now > most && !atomic_compare_exchange_weak(&crowd->most, &most, now))
    continue;
  (void)nanosleep(&nap, NULL);
  (void)atomic_fetch_sub(&crowd->now, 1);
  (void)atomic_fetch_add(&crowd->runs, 1);
  return NULL;
}

enum { CROWD = 60 };

static void test_most_at_once(void **state) {
  (void)state;
  dt_jobs_t *jobs = NULL;
  expect_ok(dt__jobs_create(4, 0, &jobs));
  for (uint32_t most = 1; most <= 3; most++) {
    crowd_t crowd = {0};
    dt_job_t group[CROWD];
    for (int k = 0; k < CROWD; k++)
      group[k] = (dt_job_t){.run = run_crowd, .arg = &crowd};
    expect_ok(dt__jobs_run(jobs, group, CROWD, most));
    assert_int_equal(crowd.runs, CROWD);
    assert_true(crowd.most <= (int)most);
  }
  dt__jobs_destroy(jobs);
}

typedef struct large_t {
  dt_jobs_t *jobs;
  crowd_t crowd;
} large_t;

static void *run_large(void *opaque) {
  large_t *large = opaque;
  static dt_job_t group[10 * CROWD];
  for (int k = 0; k < 10 * CROWD; k++)
    group[k] = (dt_job_t){.run = run_crowd, .arg = &large->crowd};
  expect_ok(dt__jobs_run(large->jobs, group, 10 * CROWD, 0));
  return NULL;
}

// A job that comes while a group of many is at work is not the last one.
static void test_many_keep_none_waiting(void **state) {
  (void)state;
  large_t large = {0};
  pthread_t thread;
  dt_job_t one = {.run = run_nothing};
  expect_ok(dt__jobs_create(1, 0, &large.jobs));
  assert_int_equal(pthread_create(&thread, NULL, run_large, &large), 0);
  wait_for(&large.crowd.runs, 1);
  expect_ok(dt__jobs_run(large.jobs, &one, 1, 0));
  int runs = atomic_load(&large.crowd.runs);
  (void)pthread_join(thread, NULL);
  assert_true(runs < 10 * CROWD);
  dt__jobs_destroy(large.jobs);
}

// A job in the background that has jobs of its own: `helpers` and it are at them, below the host's
// priority, while compile threads do what somebody waits for.
typedef struct helped_t {
  dt_jobs_t *jobs;
  crowd_t crowd;
  place_t places[8];
  _Atomic int runs;
} helped_t;

static dt_status_t run_helped(void *opaque) {
  helped_t *helped = opaque;
  dt_job_t group[CROWD + 8];
  for (int k = 0; k < CROWD; k++)
    group[k] = (dt_job_t){.run = run_crowd, .arg = &helped->crowd};
  for (int k = 0; k < 8; k++) {
    helped->places[k].go = true;
    group[CROWD + k] = (dt_job_t){.run = run_place, .arg = &helped->places[k]};
  }
  expect_ok(dt__jobs_run(helped->jobs, group, CROWD + 8, 1));
  (void)atomic_fetch_add(&helped->runs, 1);
  return NULL;
}

static void test_helpers(void **state) {
  (void)state;
  int own = getpriority(PRIO_PROCESS, 0), below = own + 10 < 19 ? own + 10 : 19;
  for (int helpers = 0; helpers <= 3; helpers += 3) {
    helped_t helped = {0};
    expect_ok(dt__jobs_create(1, (uint32_t)helpers, &helped.jobs));
    dt_job_t job = {.run = run_helped, .arg = &helped}, waited = {.run = run_nothing};
    expect_ok(dt__jobs_post(helped.jobs, &job, 0));
    wait_for(&helped.crowd.runs, 1);
    expect_ok(dt__jobs_run(helped.jobs, &waited, 1, 0));
    wait_for(&helped.runs, 1);
    assert_int_equal(helped.crowd.runs, CROWD);
    assert_true(helped.crowd.most <= helpers + 1);
    assert_true(helpers == 0 || helped.crowd.most > 1);
    for (int k = 0; k < 8; k++)
      assert_int_equal(helped.places[k].nice, below);
    dt__jobs_destroy(helped.jobs);
  }
}

// Threads that end while it is at it leave nothing undone.
static void test_helpers_end(void **state) {
  (void)state;
  for (int round = 0; round < 20; round++) {
    helped_t helped = {0};
    expect_ok(dt__jobs_create(1, 2, &helped.jobs));
    dt_job_t job = {.run = run_helped, .arg = &helped};
    expect_ok(dt__jobs_post(helped.jobs, &job, 0));
    if (round & 1)
      wait_for(&helped.crowd.runs, 1 + round);
    dt__jobs_destroy(helped.jobs);
    assert_int_equal(helped.crowd.runs, CROWD);
    assert_int_equal(helped.runs, 1);
  }
}

static void test_delayed(void **state) {
  (void)state;
  dt_jobs_t *jobs = NULL;
  expect_ok(dt__jobs_create(2, 0, &jobs));
  count_t early = {0}, late = {0};
  dt_job_t first = {.run = run_count, .arg = &late}, second = {.run = run_count, .arg = &early};
  int64_t begin = dt__now_ns();
  expect_ok(dt__jobs_post(jobs, &first, 40000000));
  expect_ok(dt__jobs_post(jobs, &second, 10000000));
  while (!atomic_load(&late.runs) || !atomic_load(&early.runs)) {
    dt_job_t group = {.run = run_nothing}; // others go on meanwhile
    expect_ok(dt__jobs_run(jobs, &group, 1, 0));
    if (dt__now_ns() - begin > 20000000000)
      fail_msg("a delayed job did not run");
  }
  assert_true(late.at_ns - begin >= 40000000);
  assert_true(early.at_ns - begin >= 10000000);
  dt__jobs_destroy(jobs);
}

static void test_cancelled(void **state) {
  (void)state;
  dt_jobs_t *jobs = NULL;
  expect_ok(dt__jobs_create(1, 0, &jobs));
  count_t counts[3] = {{0}, {0}, {0}};
  dt_job_t items[3];
  for (int k = 0; k < 3; k++) {
    items[k] = (dt_job_t){.run = run_count, .arg = &counts[k]};
    expect_ok(dt__jobs_post(jobs, &items[k], 3600000000000));
  }
  assert_true(dt__jobs_cancel(jobs, &items[1]));
  assert_false(dt__jobs_cancel(jobs, &items[1]));
  dt__jobs_destroy(jobs); // what waits is run, not forgotten
  assert_int_equal(counts[0].runs, 1);
  assert_int_equal(counts[1].runs, 0);
  assert_int_equal(counts[2].runs, 1);
}

RUN_TESTS(TEST(test_posted_runs), TEST(test_priorities), TEST(test_most_at_once),
          TEST(test_many_keep_none_waiting), TEST(test_helpers), TEST(test_helpers_end),
          TEST(test_delayed), TEST(test_cancelled))
