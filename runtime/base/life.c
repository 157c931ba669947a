// SPDX-License-Identifier: Apache-2.0
// See life.h. Nothing here has a destructor, and the library is never unloaded, so our threads may
// run until the process is gone: only what they use of other libraries can end before them.
#include "runtime/base/life.h"

#include "runtime/base/status.h"
#include "runtime/base/system.h"
#include "runtime/base/thread.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// A part of a compile takes a fraction of this also on a busy machine; what takes longer is left
// alone.
#define LONGEST_WAIT_NS 10000000000
#define FIRST_LOOK_NS 100000000
#define LAST_LOOK_NS 500000000

// ---- Lives and forks ------------------------------------------------------------------------------

static pthread_once_t once = PTHREAD_ONCE_INIT;
static dt_mutex_t lives_mutex = {.mutex = PTHREAD_MUTEX_INITIALIZER, .rank = DT_RANK_LIFE};
static dt_life_t *lives;           // guarded by lives_mutex
static _Atomic uint32_t n_lives;   // counted before the mutex is taken, and after it was given up
static _Atomic uint32_t n_threads; // our own
static _Atomic bool in_child;
static pthread_key_t thread_key;
static bool has_thread_key;
static _Atomic bool main_is_met; // its end is seen

static _Atomic bool watching; // for the last thread

static void at_fork_in_child(void) {
  atomic_store_explicit(&n_threads, 0, memory_order_relaxed);
  atomic_store_explicit(&watching, false, memory_order_relaxed);
  atomic_store_explicit(&main_is_met, has_thread_key && pthread_getspecific(thread_key),
                        memory_order_relaxed);
  if (atomic_load_explicit(&n_lives, memory_order_relaxed))
    atomic_store_explicit(&in_child, true, memory_order_relaxed);
}

bool dt__forked(void) { return atomic_load_explicit(&in_child, memory_order_relaxed); }

static void at_exit(void);
static void thread_ended(void *unused);

// The exit handler stands behind those of the libraries that we are linked with, which were loaded
// before, and so runs before them. Without memory for a handler its case is not seen; nothing else
// depends on it.
static void set_handlers(void) {
  (void)pthread_atfork(NULL, NULL, at_fork_in_child);
  (void)atexit(at_exit);
}

void dt__life_begin(dt_life_t *life, void (*end_threads)(dt_life_t *life)) {
  (void)pthread_once(&once, set_handlers);
  (void)atomic_fetch_add_explicit(&n_lives, 1, memory_order_relaxed);
  dt__mutex_lock(&lives_mutex);
  *life = (dt_life_t){.next = lives, .at = &lives, .end_threads = end_threads};
  if (lives)
    lives->at = &life->next;
  lives = life;
  dt__mutex_unlock(&lives_mutex);
  dt__life_meet_thread();
}

void dt__life_end(dt_life_t *life) {
  if (dt__forked())
    return;
  dt__mutex_lock(&lives_mutex);
  *life->at = life->next;
  if (life->next)
    life->next->at = life->at;
  dt__mutex_unlock(&lives_mutex);
  (void)atomic_fetch_sub_explicit(&n_lives, 1, memory_order_relaxed);
}

// ---- Exit -----------------------------------------------------------------------------------------

#define GATE_SHUT 0x80000000u
static _Atomic uint32_t gate; // threads inside code generators, and GATE_SHUT once the process ends
static _Thread_local uint32_t inside; // of them this one

static dt_status_t ending(void) {
  return DT_FAIL(DT_E_STATE, "the process is ending: nothing is compiled any more");
}

dt_status_t dt__generator_check(void) {
  return atomic_load_explicit(&gate, memory_order_relaxed) & GATE_SHUT ? ending() : NULL;
}

dt_status_t dt__generator_enter(void) {
  inside++;
  if (!(atomic_fetch_add_explicit(&gate, 1, memory_order_acquire) & GATE_SHUT))
    return NULL;
  dt__generator_leave();
  return ending();
}

void dt__generator_leave(void) {
  inside--;
  if (atomic_fetch_sub_explicit(&gate, 1, memory_order_release) & GATE_SHUT)
    (void)syscall(SYS_futex, (void *)&gate, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

// Takes no lock: whoever calls exit may hold any of ours. It may also be inside a generator itself,
// and then does not come back to it.
static void at_exit(void) {
  if (dt__forked())
    return; // with the parent's count, and none of its threads
  int64_t until = dt__now_ns() + LONGEST_WAIT_NS;
  uint32_t now = atomic_fetch_or_explicit(&gate, GATE_SHUT, memory_order_acquire) | GATE_SHUT;
  while ((now & ~GATE_SHUT) > inside) {
    int64_t left = until - dt__now_ns();
    if (left <= 0)
      return;
    struct timespec wait = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
    (void)syscall(SYS_futex, (void *)&gate, FUTEX_WAIT_PRIVATE, now, &wait, NULL, 0);
    now = atomic_load_explicit(&gate, memory_order_acquire);
  }
}

// ---- The last thread ------------------------------------------------------------------------------
// A process whose main thread ends by pthread_exit goes on until its last thread ends, and ours
// would never. So when a thread that used the library ends, and the main thread with it, before it
// or unseen after it, a thread looks from time to time whether only ours are left, and then has
// them end. A main thread that loads the library is seen, whether it uses it or not.

void dt__life_thread_begins(void) {
  (void)atomic_fetch_add_explicit(&n_threads, 1, memory_order_relaxed);
}

void dt__life_thread_ends(void) {
  (void)atomic_fetch_sub_explicit(&n_threads, 1, memory_order_relaxed);
}

// The state and the number of threads in a stat file of proc; false: it cannot be read.
static bool read_stat(const char *path, char *out_state, long *out_threads) {
  char text[1024];
  int fd = dt__sys_open(AT_FDCWD, path, O_RDONLY, 0);
  if (fd < 0)
    return false;
  ssize_t len = dt__sys_read(fd, text, sizeof(text) - 1);
  (void)dt__sys_close(fd);
  text[len > 0 ? len : 0] = '\0';
  const char *behind = strrchr(text, ')'); // of the name, which may have any bytes
  return behind && sscanf(behind,
                          ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d "
                          "%*d %*d %ld",
                          out_state, out_threads) == 2;
}

static bool main_has_ended(long *out_threads) {
  char state = 0, path[64];
  (void)snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)getpid());
  return read_stat(path, &state, out_threads) && (state == 'Z' || state == 'X');
}

// The main thread is counted still.
static bool only_ours_are_left(void) {
  long threads = 0;
  return main_has_ended(&threads) &&
         threads - 1 == (long)atomic_load_explicit(&n_threads, memory_order_relaxed);
}

static void end_all_threads(void) {
  dt__mutex_lock(&lives_mutex);
  for (dt_life_t *life = lives; life; life = life->next)
    life->end_threads(life);
  dt__mutex_unlock(&lives_mutex);
}

// A thread of ours that is about to end is counted by the system a little longer than by us, and
// one that begins the other way round: so it must be seen twice, and is soon looked for again.
static void *watch_orphans(void *unused) {
  (void)unused;
  long pause = FIRST_LOOK_NS;
  int seen = 0;
  while (seen < 2 && atomic_load_explicit(&n_lives, memory_order_relaxed)) {
    (void)nanosleep(&(struct timespec){.tv_nsec = seen ? FIRST_LOOK_NS : pause}, NULL);
    pause = pause * 5 / 4 < LAST_LOOK_NS ? pause * 5 / 4 : LAST_LOOK_NS;
    seen = only_ours_are_left() ? seen + 1 : 0;
  }
  if (seen == 2)
    end_all_threads();
  else
    atomic_store_explicit(&watching, false, memory_order_relaxed);
  return NULL;
}

// Runs when a host's thread ends, on that thread; not at exit.
static void thread_ended(void *unused) {
  (void)unused;
  long threads = 0;
  bool main_ends = syscall(SYS_gettid) == getpid() || main_has_ended(&threads) ||
                   !atomic_load_explicit(&main_is_met, memory_order_relaxed);
  if (dt__forked() || !main_ends || !atomic_load_explicit(&n_lives, memory_order_relaxed) ||
      atomic_exchange_explicit(&watching, true, memory_order_relaxed))
    return;
  pthread_t thread;
  dt_status_t status = dt__thread_start(&thread, "dt-orphans", true, watch_orphans, NULL);
  if (status)
    atomic_store_explicit(&watching, false, memory_order_relaxed);
  else
    (void)pthread_detach(thread);
  dt_status_free(status);
}

void dt__life_meet_thread(void) {
  if (!has_thread_key || pthread_getspecific(thread_key) ||
      pthread_setspecific(thread_key, &thread_key) != 0)
    return;
  if (syscall(SYS_gettid) == getpid())
    atomic_store_explicit(&main_is_met, true, memory_order_relaxed);
}

// When the library is loaded, most often by the main thread.
__attribute__((constructor)) static void meet_loader(void) {
  has_thread_key = pthread_key_create(&thread_key, thread_ended) == 0;
  if (syscall(SYS_gettid) == getpid())
    dt__life_meet_thread();
}
