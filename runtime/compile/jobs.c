// SPDX-License-Identifier: Apache-2.0
// The compile threads. Work is coarse (milliseconds and more), so one mutex and a few conditions
// do.
//
// A thread may lower its priority but, without privileges, not raise it again. So work that
// somebody waits for and work that nobody waits for have their own threads: the compile threads
// proper at the host's priority, and one in the background with its helpers. Neither does the
// other's work: a caller's part would run at the wrong priority, or wait behind a part that can
// wait. Helpers take parts of what the one in the background does, and nothing else.
#include "runtime/compile/jobs.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"

#include <stdio.h>
#include <time.h>

// Jobs that somebody waits for; in the waiter's memory.
typedef struct dt_job_group_t {
  dt_job_t *items;
  uint32_t n, next; // next: the first that is not queued yet
  uint32_t left;    // that have not run
} group_t;

// A queue with its threads.
typedef struct lane_t {
  dt_jobs_t *jobs;
  pthread_cond_t work; // a job was queued, or `stopping`
  dt_job_t *first, **end;
  dt_job_t *later; // jobs that are not due, in no order; of the background lane
  uint32_t n_threads, most_threads;
  pthread_t *threads;
} lane_t;

// The thread in the background has nobody work for it at the host's priority.
static _Thread_local bool in_background;

struct dt_jobs {
  dt_task_board_t board;
  dt_mutex_t mutex;    // guards all below
  pthread_cond_t done; // a group came to its end
  lane_t waited, background;
  lane_t helping; // parts of the one group that the thread in the background waits for
  bool stopping;
};

static void put(lane_t *lane, dt_job_t *job) {
  job->next = NULL;
  job->queued_ns = dt__task_begin(&lane->jobs->board);
  *lane->end = job;
  lane->end = &job->next;
}

// Queues what has become due, or everything when stopping. Gives the time when more will be, or
// INT64_MAX. Mutex held.
static int64_t queue_due(lane_t *lane) {
  int64_t next = INT64_MAX;
  int64_t now = lane->later ? dt__now_ns() : 0;
  for (dt_job_t **at = &lane->later; *at;) {
    dt_job_t *job = *at;
    if (job->due_ns <= now || lane->jobs->stopping) {
      *at = job->next;
      put(lane, job);
      continue;
    }
    next = job->due_ns < next ? job->due_ns : next;
    at = &job->next;
  }
  return next;
}

// Mutex held.
static void wait_until(lane_t *lane, int64_t when_ns) {
  if (when_ns == INT64_MAX) {
    dt__cond_wait(&lane->work, &lane->jobs->mutex);
    return;
  }
  struct timespec when = {.tv_sec = when_ns / 1000000000, .tv_nsec = when_ns % 1000000000};
  (void)pthread_cond_timedwait(&lane->work, &lane->jobs->mutex.mutex, &when);
}

// The first that is queued; NULL: none. Mutex held.
static dt_job_t *take_queued(lane_t *lane) {
  dt_job_t *job = lane->first;
  if (!job)
    return NULL;
  lane->first = job->next;
  if (!lane->first)
    lane->end = &lane->first;
  return job;
}

// The next job to run; NULL: stopping, and nothing is left. Mutex held.
static dt_job_t *take(lane_t *lane) {
  for (;;) {
    int64_t next = queue_due(lane);
    dt_job_t *job = take_queued(lane);
    if (job)
      return job;
    if (lane->jobs->stopping)
      return NULL;
    wait_until(lane, next);
  }
}

// A detached job's memory may be gone once it has run.
static dt_status_t run_told(dt_jobs_t *jobs, const dt_job_t *job) {
  int64_t begin = dt__task_begin(&jobs->board), queued = job->queued_ns;
  const char *what = job->what ? job->what : "work";
  char of[DT_TASK_TEXT] = "", part[24] = "";
  if (begin && job->part)
    (void)snprintf(part, sizeof(part), ", part %u", job->part);
  if (begin && job->of)
    (void)snprintf(of, sizeof(of), "%.36s.%u%s", job->of, job->variant, part);
  dt_status_t status = job->run(job->arg);
  dt__task_end(&jobs->board, begin, queued, what, of);
  return status;
}

// Mutex held, but not while the job runs.
static void run_job(lane_t *lane, dt_job_t *job) {
  dt_jobs_t *jobs = lane->jobs;
  group_t *group = job->group;
  dt__mutex_unlock(&jobs->mutex);
  dt_status_t status = run_told(jobs, job);
  if (!group)
    dt_status_free(status);
  dt__mutex_lock(&jobs->mutex);
  if (!group)
    return; // its memory may be gone
  job->status = status;
  if (group->next < group->n) // this thread takes it, or what stands before it
    put(lane, &group->items[group->next++]);
  if (--group->left == 0)
    (void)pthread_cond_broadcast(&jobs->done);
}

static void *thread_main(void *opaque) {
  lane_t *lane = opaque;
  dt_jobs_t *jobs = lane->jobs;
  in_background = lane == &jobs->background;
  dt__mutex_lock(&jobs->mutex);
  for (dt_job_t *job; (job = take(lane)) != NULL;)
    run_job(lane, job);
  dt__mutex_unlock(&jobs->mutex);
  return NULL;
}

dt_task_board_t *dt__jobs_board(dt_jobs_t *jobs) { return &jobs->board; }

void dt__jobs_stop(dt_jobs_t *jobs) {
  dt__mutex_lock(&jobs->mutex);
  jobs->stopping = true;
  (void)pthread_cond_broadcast(&jobs->waited.work);
  (void)pthread_cond_broadcast(&jobs->background.work);
  (void)pthread_cond_broadcast(&jobs->helping.work);
  dt__mutex_unlock(&jobs->mutex);
}

static void join_lane(lane_t *lane) {
  for (uint32_t i = 0; i < lane->n_threads; i++)
    (void)pthread_join(lane->threads[i], NULL);
}

static void jobs_free(dt_jobs_t *jobs) {
  // A child after fork has a copy of conditions that the parent's threads wait on: destroying those
  // would wait for threads that are not here.
  if (!dt__forked()) {
    (void)pthread_cond_destroy(&jobs->waited.work);
    (void)pthread_cond_destroy(&jobs->background.work);
    (void)pthread_cond_destroy(&jobs->helping.work);
    (void)pthread_cond_destroy(&jobs->done);
    dt__mutex_fini(&jobs->mutex);
    dt__task_board_fini(&jobs->board);
  }
  dt__free(jobs->waited.threads);
  dt__free(jobs->background.threads);
  dt__free(jobs->helping.threads);
  dt__free(jobs);
}

static dt_status_t lane_init(dt_jobs_t *jobs, lane_t *lane, uint32_t threads) {
  lane->jobs = jobs;
  lane->end = &lane->first;
  lane->most_threads = threads;
  pthread_condattr_t attr; // none of this can fail on Linux
  (void)pthread_condattr_init(&attr);
  (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  (void)pthread_cond_init(&lane->work, &attr);
  (void)pthread_condattr_destroy(&attr);
  lane->threads = dt__calloc(threads ? threads : 1, sizeof(*lane->threads));
  return lane->threads ? NULL : DT_NO_MEMORY();
}

static dt_status_t lane_start(lane_t *lane, const char *name, bool background) {
  for (uint32_t i = lane->n_threads; i < lane->most_threads; i++) {
    char own[16];
    (void)snprintf(own, sizeof(own), "%s-%u", name, i % 1000);
    DT_TRY(dt__thread_start(&lane->threads[i], own, background, thread_main, lane));
    lane->n_threads++;
  }
  return NULL;
}

dt_status_t dt__jobs_create(uint32_t threads, uint32_t helpers, dt_jobs_t **out) {
  *out = NULL;
  dt_jobs_t *jobs = dt__calloc(1, sizeof(*jobs));
  if (!jobs)
    return DT_NO_MEMORY();
  dt_status_t status = dt__mutex_init(&jobs->mutex, DT_RANK_COMPILE);
  if (status) {
    dt__free(jobs);
    return status;
  }
  status = dt__task_board_init(&jobs->board);
  if (status) {
    dt__mutex_fini(&jobs->mutex);
    dt__free(jobs);
    return status;
  }
  (void)pthread_cond_init(&jobs->done, NULL);
  status = dt__status_join(lane_init(jobs, &jobs->waited, threads),
                           lane_init(jobs, &jobs->background, 1));
  status = dt__status_join(status, lane_init(jobs, &jobs->helping, helpers));
  if (!status)
    status = lane_start(&jobs->waited, "dt-compile", false);
  if (!status)
    status = lane_start(&jobs->background, "dt-later", true);
  if (status) {
    dt__jobs_destroy(jobs);
    return status;
  }
  *out = jobs;
  return NULL;
}

void dt__jobs_destroy(dt_jobs_t *jobs) {
  if (!jobs)
    return;
  if (!dt__forked()) {
    dt__jobs_stop(jobs);
    join_lane(&jobs->waited);
    join_lane(&jobs->background); // which starts helpers
    join_lane(&jobs->helping);
  }
  jobs_free(jobs);
}

static dt_status_t forked_status(void) {
  return DT_FAIL(DT_E_FORKED, "compile threads do not live in a child after fork; make a new "
                              "process by exec, or fork before the runtime is made");
}

// How many threads the thread in the background has for `n` jobs, itself among them. Helpers are
// started, as many as can be had, at the priority of this thread.
static uint32_t with_helpers(dt_jobs_t *jobs, uint32_t n) {
  if (n > 1)
    dt_status_free(lane_start(&jobs->helping, "dt-helper", false));
  return jobs->helping.n_threads + 1;
}

dt_status_t dt__jobs_run(dt_jobs_t *jobs, dt_job_t *items, uint32_t n, uint32_t most) {
  if (dt__forked())
    return forked_status();
  group_t group = {.items = items, .n = n, .left = n};
  lane_t *lane = in_background ? &jobs->helping : &jobs->waited;
  uint32_t threads = in_background ? with_helpers(jobs, n) : lane->n_threads;
  most = !in_background && most && most < threads ? most : threads;
  for (uint32_t i = 0; i < n; i++) {
    items[i].group = &group;
    items[i].status = NULL;
  }
  dt__mutex_lock(&jobs->mutex);
  while (group.next < n && group.next < most)
    put(lane, &items[group.next++]);
  (void)pthread_cond_broadcast(&lane->work);
  for (dt_job_t *job; in_background && (job = take_queued(lane)) != NULL;)
    run_job(lane, job);
  while (group.left)
    dt__cond_wait(&jobs->done, &jobs->mutex);
  dt__mutex_unlock(&jobs->mutex);
  dt_status_t status = NULL;
  for (uint32_t i = 0; i < n; i++)
    status = dt__status_join(status, items[i].status);
  return status;
}

dt_status_t dt__jobs_post(dt_jobs_t *jobs, dt_job_t *job, int64_t delay_ns) {
  if (dt__forked())
    return forked_status();
  job->group = NULL;
  job->due_ns = delay_ns > 0 ? dt__now_ns() + delay_ns : 0;
  dt__mutex_lock(&jobs->mutex);
  lane_t *lane = &jobs->background;
  if (delay_ns > 0) {
    job->next = lane->later;
    lane->later = job;
  } else {
    put(lane, job);
  }
  (void)pthread_cond_broadcast(&lane->work);
  dt__mutex_unlock(&jobs->mutex);
  return NULL;
}

// Takes `job` out of a list; false: it is not in it.
static bool unlink_job(dt_job_t **list, dt_job_t *job) {
  while (*list && *list != job)
    list = &(*list)->next;
  if (!*list)
    return false;
  *list = job->next;
  return true;
}

bool dt__jobs_cancel(dt_jobs_t *jobs, dt_job_t *job) {
  if (dt__forked())
    return false;
  dt__mutex_lock(&jobs->mutex);
  lane_t *lane = &jobs->background;
  bool found = unlink_job(&lane->later, job);
  if (!found && unlink_job(&lane->first, job)) {
    found = true;
    lane->end = &lane->first;
    while (*lane->end)
      lane->end = &(*lane->end)->next;
  }
  dt__mutex_unlock(&jobs->mutex);
  return found;
}
