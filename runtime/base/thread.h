// SPDX-License-Identifier: Apache-2.0
// Ranked mutexes, condition variables and threads with large stacks.
#ifndef DT_RUNTIME_BASE_THREAD_H
#define DT_RUNTIME_BASE_THREAD_H

#include "runtime/base/life.h"

#include <pthread.h>

// A thread may only lock a mutex of higher rank than those it holds (checked in debug builds).
typedef enum dt_lock_rank_t {
  DT_RANK_REPORT = 4,
  DT_RANK_LIFE = 5,
  DT_RANK_RUNTIME = 10,
  DT_RANK_BUDGET = 15,
  DT_RANK_FUNCTION = 20,
  DT_RANK_COMPILE = 30,
  DT_RANK_WORKERS = 35,
  DT_RANK_SESSION = 40,
  DT_RANK_RECLAIM = 50,
  DT_RANK_GRAPHS = 51,
  DT_RANK_DEVICES = 52,
  DT_RANK_DEVICE = 54,
  DT_RANK_STREAMS = 56,
  DT_RANK_FORMS = 58,
  DT_RANK_POOL = 60,
  DT_RANK_PASSES = 65,
  DT_RANK_TIMER = 67,
  DT_RANK_PROFILE = 68,
  DT_RANK_PERF = 69,
  DT_RANK_MODEL = 70,
  DT_RANK_TASK_BOARD = 80,
  DT_RANK_TASKS = 81,
  DT_RANK_LOG = 90,
} dt_lock_rank_t;

typedef struct dt_mutex_t {
  pthread_mutex_t mutex;
  dt_lock_rank_t rank;
} dt_mutex_t;

dt_status_t dt__mutex_init(dt_mutex_t *mutex, dt_lock_rank_t rank) DT_MUST_USE;
void dt__mutex_fini(dt_mutex_t *mutex);
void dt__mutex_lock(dt_mutex_t *mutex);
void dt__mutex_unlock(dt_mutex_t *mutex);
// Waits on `cond` with `mutex` held.
void dt__cond_wait(pthread_cond_t *cond, dt_mutex_t *mutex);
// The same until `when_ns` of dt__now_ns at the latest, INT64_MAX: without end. The condition was
// made by dt__cond_init.
void dt__cond_wait_until(pthread_cond_t *cond, dt_mutex_t *mutex, int64_t when_ns);
void dt__cond_init(pthread_cond_t *cond);

// Starts a joinable thread: 8 MiB stack, all signals blocked but those that it causes itself (the
// host's handlers see our faults), low scheduling priority when `background` is true, named `name`
// (at most 15 characters).
dt_status_t dt__thread_start(pthread_t *out, const char *name, bool background,
                             void *(*run)(void *), void *arg) DT_MUST_USE;

// Monotonic nanoseconds.
int64_t dt__now_ns(void);

#endif // DT_RUNTIME_BASE_THREAD_H
