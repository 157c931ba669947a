// SPDX-License-Identifier: Apache-2.0
// Ranked mutexes, threads, fork detection, clocks and what the system says about this process.
//
// A debug build keeps the ranks that a thread holds and stops where one is taken out of order: such
// a fault is ours alone and no input can cause it.
#include "runtime/base/thread.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define STACK_BYTES ((size_t)8 << 20)
#define BACKGROUND_NICE 10

// ---- Fork detection -------------------------------------------------------------------------------

static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static _Atomic bool in_child;

static void mark_child(void) { atomic_store_explicit(&in_child, true, memory_order_relaxed); }

// Without memory for the handler a child is not detected; nothing else depends on it.
static void watch_forks(void) { (void)pthread_atfork(NULL, NULL, mark_child); }

bool dt__forked(void) {
  (void)pthread_once(&fork_once, watch_forks);
  return atomic_load_explicit(&in_child, memory_order_relaxed);
}

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
  (void)dt__forked(); // a runtime makes its mutexes first: from here on forks are seen
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

// ---- Threads --------------------------------------------------------------------------------------

typedef struct thread_start_t {
  void *(*run)(void *);
  void *arg;
  char name[16];
  bool background;
} thread_start_t;

static void *thread_main(void *opaque) {
  thread_start_t start = *(thread_start_t *)opaque;
  dt__free(opaque);
  (void)pthread_setname_np(pthread_self(), start.name);
  // On Linux a nice value belongs to the thread. That it cannot be lowered is no failure.
  if (start.background)
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), BACKGROUND_NICE);
  return start.run(start.arg);
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
    // A thread inherits the mask of its maker, so it never runs with a signal unblocked.
    sigset_t all, before;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    failure = pthread_create(out, &attr, thread_main, start);
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

// ---- The process ----------------------------------------------------------------------------------

int64_t dt__now_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t dt__resident_bytes(void) {
  int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return 0;
  char text[128];
  ssize_t len = read(fd, text, sizeof(text) - 1);
  (void)close(fd);
  if (len <= 0)
    return 0;
  text[len] = '\0';
  // The second field is the resident set in pages.
  long long total = 0, resident = 0;
  if (sscanf(text, "%lld %lld", &total, &resident) != 2)
    return 0;
  return (int64_t)resident * (int64_t)sysconf(_SC_PAGESIZE);
}

int dt__core_count(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    return CPU_COUNT(&set);
  long online = sysconf(_SC_NPROCESSORS_ONLN); // more cores than a cpu_set_t holds
  return online > 0 ? (int)online : 1;
}
