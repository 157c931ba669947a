// SPDX-License-Identifier: Apache-2.0
// The compile threads. Work is coarse (milliseconds and more), so one mutex and two conditions do.
#include "runtime/compile/jobs.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"

#include <stdio.h>

struct dt_jobs {
  dt_mutex_t mutex;    // guards all below
  pthread_cond_t work; // a job was queued, or `stopping`
  pthread_cond_t done; // a group came to its end
  dt_job_t *first, **end;
  bool stopping;
  uint32_t n_threads;
  pthread_t *threads;
};

static void *thread_main(void *opaque) {
  dt_jobs_t *jobs = opaque;
  dt__mutex_lock(&jobs->mutex);
  for (;;) {
    while (!jobs->first && !jobs->stopping)
      dt__cond_wait(&jobs->work, &jobs->mutex);
    dt_job_t *job = jobs->first;
    if (!job)
      break; // stopping, and nothing is left
    jobs->first = job->next;
    if (!jobs->first)
      jobs->end = &jobs->first;
    dt__mutex_unlock(&jobs->mutex);
    dt_status_t status = job->run(job->arg);
    dt__mutex_lock(&jobs->mutex);
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
  (void)pthread_cond_init(&jobs->work, NULL); // cannot fail on Linux without attributes
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

dt_status_t dt__jobs_run(dt_jobs_t *jobs, dt_job_t *items, uint32_t n) {
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "compile threads do not live in a child after fork; make a new "
                                "process by exec, or fork before the runtime is made");
  uint32_t left = n;
  dt__mutex_lock(&jobs->mutex);
  for (uint32_t i = 0; i < n; i++) {
    items[i].next = NULL;
    items[i].left = &left;
    items[i].status = NULL;
    *jobs->end = &items[i];
    jobs->end = &items[i].next;
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
