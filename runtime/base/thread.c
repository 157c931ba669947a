// SPDX-License-Identifier: Apache-2.0
// Ranked mutexes, threads and the clock.
//
// A debug build keeps the ranks that a thread holds and stops where one is taken out of order: such
// a fault is ours alone and no input can cause it.
#include "runtime/base/thread.h"

#include "runtime/base/fp.h"
#include "runtime/base/life.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/system.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define STACK_BYTES ((size_t)8 << 20)
#define BACKGROUND_NICE 10 // above the maker's; the kernel ends it at its most

// ---- Mutexes --------------------------------------------------------------------------------------

#ifndef NDEBUG
#define MOST_HELD 16
static _Thread_local dt_lock_rank_t held[MOST_HELD];
static _Thread_local uint32_t held_count;

static void stop(const char *what, int rank, int other) {
  (void)fprintf(stderr, "ductile: %s: rank %d while rank %d is held\n", what, rank, other);
  __builtin_trap();
}

static void rank_push(dt_lock_rank_t rank) {
  for (uint32_t i = 0; i < held_count; i++) {
    if (held[i] >= rank)
      stop("mutex locked out of order", (int)rank, (int)held[i]);
  }
  if (held_count == MOST_HELD)
    stop("too many mutexes held", (int)rank, (int)held[MOST_HELD - 1]);
  held[held_count++] = rank;
}

static void rank_pop(dt_lock_rank_t rank) {
  // Ranks held are distinct and rising, but may be released in any order.
  for (uint32_t i = held_count; i-- > 0;) {
    if (held[i] != rank)
      continue;
    memmove(&held[i], &held[i + 1], (held_count - i - 1) * sizeof(held[0]));
    held_count--;
    return;
  }
  stop("mutex unlocked that is not held", (int)rank, 0);
}
#else
static inline void rank_push(dt_lock_rank_t rank) { (void)rank; }
static inline void rank_pop(dt_lock_rank_t rank) { (void)rank; }
#endif

dt_status_t dt__mutex_init(dt_mutex_t *mutex, dt_lock_rank_t rank) {
  mutex->rank = rank;
  int failure = pthread_mutex_init(&mutex->mutex, NULL);
  if (failure)
    return DT_FAIL(DT_E_NO_MEMORY, "cannot make a mutex (error %d)", failure);
  return NULL;
}

void dt__mutex_fini(dt_mutex_t *mutex) { (void)pthread_mutex_destroy(&mutex->mutex); }

void dt__mutex_lock(dt_mutex_t *mutex) {
  rank_push(mutex->rank);
  (void)pthread_mutex_lock(&mutex->mutex);
}

void dt__mutex_unlock(dt_mutex_t *mutex) {
  dt_lock_rank_t rank = mutex->rank; // who locks it next may destroy it
  (void)pthread_mutex_unlock(&mutex->mutex);
  rank_pop(rank);
}

// The rank stays held meanwhile: the mutex is the thread's again before anything else runs.
void dt__cond_wait(pthread_cond_t *cond, dt_mutex_t *mutex) {
  (void)pthread_cond_wait(cond, &mutex->mutex);
}

void dt__cond_wait_until(pthread_cond_t *cond, dt_mutex_t *mutex, int64_t when_ns) {
  struct timespec when = {.tv_sec = when_ns / 1000000000, .tv_nsec = when_ns % 1000000000};
  if (when_ns == INT64_MAX)
    dt__cond_wait(cond, mutex);
  else
    (void)pthread_cond_timedwait(cond, &mutex->mutex, &when);
}

// Nothing of it can fail on Linux.
void dt__cond_init(pthread_cond_t *cond) {
  pthread_condattr_t attr;
  (void)pthread_condattr_init(&attr);
  (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  (void)pthread_cond_init(cond, &attr);
  (void)pthread_condattr_destroy(&attr);
}

// ---- Threads --------------------------------------------------------------------------------------

typedef struct thread_start_t {
  void *(*run)(void *);
  void *arg;
  char name[16];
  bool background;
} thread_start_t;

static const int own_faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};

static void *thread_main(void *opaque) {
  thread_start_t start = *(thread_start_t *)opaque;
  dt__free(opaque);
  (void)pthread_setname_np(pthread_self(), start.name);
  // On Linux a nice value belongs to the thread. That it cannot be lowered is no failure.
  if (start.background) {
    id_t self = (id_t)syscall(SYS_gettid);
    (void)setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + BACKGROUND_NICE);
  }
  (void)dt__fp_enter(); // whatever its maker has
  void *result = start.run(start.arg);
  dt__life_thread_ends();
  return result;
}

dt_status_t dt__thread_start(pthread_t *out, const char *name, bool background,
                             void *(*run)(void *), void *arg) {
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "cannot start thread '%s' in a child after fork", name);
  thread_start_t *start = dt__alloc(sizeof(*start));
  if (!start)
    return DT_NO_MEMORY();
  *start = (thread_start_t){.run = run, .arg = arg, .background = background};
  (void)snprintf(start->name, sizeof(start->name), "%s", name);

  pthread_attr_t attr;
  int failure = pthread_attr_init(&attr);
  if (!failure) {
    (void)pthread_attr_setstacksize(&attr, STACK_BYTES);
    // A thread inherits the mask of its maker, so it never runs with a signal unblocked that is
    // the host's. Those that a thread causes itself would end the process unseen if blocked.
    sigset_t mask, before;
    sigfillset(&mask);
    for (size_t i = 0; i < sizeof(own_faults) / sizeof(own_faults[0]); i++)
      sigdelset(&mask, own_faults[i]);
    (void)pthread_sigmask(SIG_SETMASK, &mask, &before);
    dt__life_thread_begins();
    failure = dt__sys_thread(out, &attr, thread_main, start);
    if (failure)
      dt__life_thread_ends();
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attr);
  }
  if (!failure)
    return NULL;
  dt__free(start);
  char reason[128];
  return DT_FAIL(DT_E_NO_MEMORY, "cannot start thread '%s': %s", name,
                 strerror_r(failure, reason, sizeof(reason)));
}

// ---- The clock ------------------------------------------------------------------------------------

int64_t dt__now_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
