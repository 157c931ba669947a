// SPDX-License-Identifier: Apache-2.0
// Detached jobs of the compile threads: run once, in order, not before their time, never after they
// were taken back, and all before the threads end.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/compile/jobs.h"

#include "runtime/base/status.h"
#include "runtime/base/thread.h"

#include <stdatomic.h>

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

static void ok(dt_status_t status) {
  if (status)
    fail_msg("%s", dt_status_message(status));
}

static void test_posted_runs(void **state) {
  (void)state;
  dt_jobs_t *jobs = NULL;
  ok(dt__jobs_create(1, &jobs));
  count_t count = {0};
  dt_job_t job = {.run = run_count, .arg = &count}, group = {.run = run_nothing};
  ok(dt__jobs_post(jobs, &job, 0));
  ok(dt__jobs_run(jobs, &group, 1)); // behind it in the queue
  assert_int_equal(count.runs, 1);
  assert_false(dt__jobs_cancel(jobs, &job));
  dt__jobs_destroy(jobs);
  assert_int_equal(count.runs, 1);
}

static void test_delayed(void **state) {
  (void)state;
  dt_jobs_t *jobs = NULL;
  ok(dt__jobs_create(2, &jobs));
  count_t early = {0}, late = {0};
  dt_job_t first = {.run = run_count, .arg = &late}, second = {.run = run_count, .arg = &early};
  int64_t begin = dt__now_ns();
  ok(dt__jobs_post(jobs, &first, 40000000));
  ok(dt__jobs_post(jobs, &second, 10000000));
  while (!atomic_load(&late.runs) || !atomic_load(&early.runs)) {
    dt_job_t group = {.run = run_nothing}; // others go on meanwhile
    ok(dt__jobs_run(jobs, &group, 1));
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
  ok(dt__jobs_create(1, &jobs));
  count_t counts[3] = {{0}, {0}, {0}};
  dt_job_t items[3];
  for (int k = 0; k < 3; k++) {
    items[k] = (dt_job_t){.run = run_count, .arg = &counts[k]};
    ok(dt__jobs_post(jobs, &items[k], 3600000000000));
  }
  assert_true(dt__jobs_cancel(jobs, &items[1]));
  assert_false(dt__jobs_cancel(jobs, &items[1]));
  dt__jobs_destroy(jobs); // what waits is run, not forgotten
  assert_int_equal(counts[0].runs, 1);
  assert_int_equal(counts[1].runs, 0);
  assert_int_equal(counts[2].runs, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_posted_runs),
      cmocka_unit_test(test_delayed),
      cmocka_unit_test(test_cancelled),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
