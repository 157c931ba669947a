// SPDX-License-Identifier: Apache-2.0
// The compile threads. Work is coarse (milliseconds and more), so one mutex and two conditions do.
#include "runtime/compile/jobs.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"

#include <stdio.h>
#include <time.h>

struct dt_jobs {
  dt_mutex_t mutex;    // guards all below
  pthread_cond_t work; // a job was queued, or `stopping`
  pthread_cond_t done; // a group came to its end
  dt_job_t *first, **end;
  dt_job_t *later; // detached jobs that are not due, in no order
  bool stopping;
  uint32_t n_threads;
  pthread_t *threads;
};

static void put(dt_jobs_t *jobs, dt_job_t *job) {
  job->next = NULL;
  *jobs->end = job;
  jobs->end = &job->next;
}

// Queues what has become due, or everything when stopping. Gives the time when more will be, or
// INT64_MAX. Mutex held.
static int64_t queue_due(dt_jobs_t *jobs) {
  int64_t next = INT64_MAX;
  int64_t now = jobs->later ? dt__now_ns() : 0;
  for (dt_job_t **at = &jobs->later; *at;) {
    dt_job_t *job = *at;
    if (job->due_ns <= now || jobs->stopping) {
      *at = job->next;
      put(jobs, job);
      continue;
    }
    next = job->due_ns < next ? job->due_ns : next;
    at = &job->next;
  }
  return next;
}

// Mutex held.
static void wait_until(dt_jobs_t *jobs, int64_t when_ns) {
  if (when_ns == INT64_MAX) {
    dt__cond_wait(&jobs->work, &jobs->mutex);
    return;
  }
  struct timespec when = {.tv_sec = when_ns / 1000000000, .tv_nsec = when_ns % 1000000000};
  (void)pthread_cond_timedwait(&jobs->work, &jobs->mutex.mutex, &when);
}

// The next job to run; NULL: stopping, and nothing is left. Mutex held.
static dt_job_t *take(dt_jobs_t *jobs) {
  for (;;) {
    int64_t next = queue_due(jobs);
    dt_job_t *job = jobs->first;
    if (job) {
      jobs->first = job->next;
      if (!jobs->first)
        jobs->end = &jobs->first;
      return job;
    }
    if (jobs->stopping)
      return NULL;
    wait_until(jobs, next);
  }
}

static void *thread_main(void *opaque) {
  dt_jobs_t *jobs = opaque;
  dt__mutex_lock(&jobs->mutex);
  for (dt_job_t *job; (job = take(jobs)) != NULL;) {
    bool detached = !job->left;
    dt__mutex_unlock(&jobs->mutex);
    dt_status_t status = job->run(job->arg);
    if (detached)
      dt_status_free(status);
    dt__mutex_lock(&jobs->mutex);
    if (detached)
      continue; // its memory may be gone
    job->status = status;
    if (--*job->left == 0)
      (void)pthread_cond_broadcast(&jobs->done);
  }
  dt__mutex_unlock(&jobs->mutex);
  return NULL;
}

static void stop_threads(dt_jobs_t *jobs) {
  dt__mutex_lock(&jobs->mutex);
  jobs->stopping = true;
  (void)pthread_cond_broadcast(&jobs->work);
  dt__mutex_unlock(&jobs->mutex);
  for (uint32_t i = 0; i < jobs->n_threads; i++)
    (void)pthread_join(jobs->threads[i], NULL);
}

static void jobs_free(dt_jobs_t *jobs) {
  // A child after fork has a copy of conditions that the parent's threads wait on: destroying those
  // would wait for threads that are not here.
  if (!dt__forked()) {
    (void)pthread_cond_destroy(&jobs->work);
    (void)pthread_cond_destroy(&jobs->done);
    dt__mutex_fini(&jobs->mutex);
  }
  dt__free(jobs->threads);
  dt__free(jobs);
}

dt_status_t dt__jobs_create(uint32_t threads, dt_jobs_t **out) {
  *out = NULL;
  dt_jobs_t *jobs = dt__calloc(1, sizeof(*jobs));
  if (!jobs)
    return DT_NO_MEMORY();
  jobs->end = &jobs->first;
  jobs->threads = dt__calloc(threads, sizeof(*jobs->threads));
  dt_status_t status =
      jobs->threads ? dt__mutex_init(&jobs->mutex, DT_RANK_COMPILE) : DT_NO_MEMORY();
  if (status) {
    dt__free(jobs->threads);
    dt__free(jobs);
    return status;
  }
  pthread_condattr_t attr; // none of this can fail on Linux
  (void)pthread_condattr_init(&attr);
  (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  (void)pthread_cond_init(&jobs->work, &attr);
  (void)pthread_condattr_destroy(&attr);
  (void)pthread_cond_init(&jobs->done, NULL);
  for (uint32_t i = 0; i < threads; i++) {
    char name[16];
    (void)snprintf(name, sizeof(name), "dt-compile-%u", i % 1000);
    status = dt__thread_start(&jobs->threads[i], name, true, thread_main, jobs);
    if (status) {
      dt__jobs_destroy(jobs);
      return status;
    }
    jobs->n_threads++;
  }
  *out = jobs;
  return NULL;
}

void dt__jobs_destroy(dt_jobs_t *jobs) {
  if (!jobs)
    return;
  if (!dt__forked())
    stop_threads(jobs);
  jobs_free(jobs);
}

static dt_status_t forked_status(void) {
  return DT_FAIL(DT_E_FORKED, "compile threads do not live in a child after fork; make a new "
                              "process by exec, or fork before the runtime is made");
}

dt_status_t dt__jobs_run(dt_jobs_t *jobs, dt_job_t *items, uint32_t n) {
  if (dt__forked())
    return forked_status();
  uint32_t left = n;
  dt__mutex_lock(&jobs->mutex);
  for (uint32_t i = 0; i < n; i++) {
    items[i].left = &left;
    items[i].status = NULL;
    put(jobs, &items[i]);
  }
  (void)pthread_cond_broadcast(&jobs->work);
  while (left)
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
  job->left = NULL;
  job->due_ns = delay_ns > 0 ? dt__now_ns() + delay_ns : 0;
  dt__mutex_lock(&jobs->mutex);
  if (delay_ns > 0) {
    job->next = jobs->later;
    jobs->later = job;
  } else {
    put(jobs, job);
  }
  (void)pthread_cond_broadcast(&jobs->work);
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
  bool found = unlink_job(&jobs->later, job);
  if (!found && unlink_job(&jobs->first, job)) {
    found = true;
    jobs->end = &jobs->first;
    while (*jobs->end)
      jobs->end = &(*jobs->end)->next;
  }
  dt__mutex_unlock(&jobs->mutex);
  return found;
}
