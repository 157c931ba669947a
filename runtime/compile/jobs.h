// SPDX-License-Identifier: Apache-2.0
// The compile threads. Jobs live in their submitter's memory. Jobs in groups that somebody waits
// for run at the host's priority; detached jobs run on a thread in the background, with helpers for
// groups of its own.
#ifndef DT_RUNTIME_COMPILE_JOBS_H
#define DT_RUNTIME_COMPILE_JOBS_H

#include "runtime/base/tasks.h"

typedef struct dt_jobs dt_jobs_t;

typedef struct dt_job_t {
  struct dt_job_t *next;        // the queue's
  struct dt_job_group_t *group; // guarded by the queue's mutex; NULL: detached
  int64_t due_ns;               // of a detached job: not before this time (dt__now_ns)
  dt_status_t (*run)(void *arg);
  void *arg;
  // For timelines: what it does, for what, and which part of that it is, if it has several. They
  // stay until `run` is entered.
  const char *what, *of;
  uint32_t variant, part;
  int64_t queued_ns;  // 0: not known
  dt_status_t status; // what `run` returned; the submitter's when the group is done
} dt_job_t;

// `threads` for groups, and one in the background with `helpers`, which are started when it first
// has more than one job to do.
dt_status_t dt__jobs_create(uint32_t threads, uint32_t helpers, dt_jobs_t **out) DT_MUST_USE;
void dt__jobs_destroy(dt_jobs_t *jobs); // finishes what is queued, joins the threads; NULL allowed
// Has the threads end when what is queued is done, and waits for none.
void dt__jobs_stop(dt_jobs_t *jobs);
// Where those who run jobs say what they do.
dt_task_board_t *dt__jobs_board(dt_jobs_t *jobs);
// Runs `n` jobs on the compile threads, at most `most` at a time (0: as many as there are threads),
// and waits for all of them. The next one of a group queues behind what others have queued, so that
// groups of many jobs keep none of few waiting. Returns the first failure in the order of the
// array. From the thread in the background: there and on its helpers, all of them. Not from a
// compile thread. DT_E_FORKED in a child after fork.
dt_status_t dt__jobs_run(dt_jobs_t *jobs, dt_job_t *items, uint32_t n, uint32_t most) DT_MUST_USE;
// Queues a job that nobody waits for, to begin after `delay_ns` at the earliest. It stays the
// submitter's until `run` is entered, and is not touched any more once `run` was; what `run`
// returns is dropped. dt__jobs_destroy runs it if it has not been. DT_E_FORKED in a child after
// fork.
dt_status_t dt__jobs_post(dt_jobs_t *jobs, dt_job_t *job, int64_t delay_ns) DT_MUST_USE;
// Takes a posted job back; false: its `run` was entered, or it is not there.
bool dt__jobs_cancel(dt_jobs_t *jobs, dt_job_t *job);

#endif // DT_RUNTIME_COMPILE_JOBS_H
