// SPDX-License-Identifier: Apache-2.0
// See worker_limits.h. LLVM ends a process by abort or by a fault if memory runs out or one of its
// assumptions does not hold. The handler sends the reason, in a frame made without allocating:
//
//   REASON SIGNAL           memory, processor, budget or signal, and the signal's number
//   the end of standard error
#include "runtime/compile/worker_limits.h"

#include "runtime/compile/worker_wire.h"

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true // their shadows take more than any limit
#else
#define SANITIZED false
#endif

#define MOST_WORDS 600 // bytes of standard error that are told
#define SIGNAL_STACK ((size_t)32 << 10)
#define CLOSE_TO_LIMIT ((uint64_t)24 << 20)
#define ROOM_BESIDE ((uint64_t)512 << 20) // of addresses: stacks, reserved but not used

// Set before the working thread runs, or by it.
static uint64_t limit_bytes, limit_seconds;
static uint64_t budget; // nanoseconds, of the request under way

static const int caught[] = {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGXCPU, SIGPROF, SIGSYS};
#define N_CAUGHT (sizeof(caught) / sizeof(caught[0]))

// ---- Last words -------------------------------------------------------------------------------------
// Bytes of private memory that can be written, as RLIMIT_DATA counts them: /proc/self/statm's sixth
// number, in pages. 0: not known.
static uint64_t data_bytes(void) {
  char text[256];
  int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
  if (fd >= 0)
    (void)close(fd);
  if (n <= 0)
    return 0;
  text[n] = '\0';
  uint64_t pages = 0;
  int field = 0;
  for (const char *at = text; *at && field <= 5; at++) {
    if (*at == ' ')
      field++;
    else if (field == 5 && *at >= '0' && *at <= '9')
      pages = pages * 10 + (uint64_t)(*at - '0');
  }
  return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static bool memory_is_short(const char *words) {
  if (strstr(words, "bad_alloc") || strstr(words, "out of memory") || strstr(words, "length_error"))
    return true;
  return limit_bytes && data_bytes() + CLOSE_TO_LIMIT >= limit_bytes;
}

static const char *reason_of(int signal, const char *words) {
  if (signal == SIGPROF)
    return "budget";
  if (signal == SIGXCPU)
    return "processor";
  return memory_is_short(words) ? "memory" : "signal";
}

// The end of what stands in standard error, which is a file in memory.
static size_t read_words(char *out, size_t room) {
  off_t end = lseek(STDERR_FILENO, 0, SEEK_END);
  off_t from = end > (off_t)room ? end - (off_t)room : 0;
  ssize_t n = end > 0 ? pread(STDERR_FILENO, out, room, from) : 0;
  return n > 0 ? (size_t)n : 0;
}

static void on_signal(int signal) {
  static char words[MOST_WORDS + 1], frame[MOST_WORDS + 64];
  size_t n = read_words(words, MOST_WORDS), at = 0;
  words[n] = '\0';
  const char *reason = reason_of(signal, words);
  while (reason[at]) {
    frame[at] = reason[at];
    at++;
  }
  frame[at++] = ' ';
  frame[at++] = (char)('0' + signal / 10 % 10);
  frame[at++] = (char)('0' + signal % 10);
  frame[at++] = '\n';
  memcpy(frame + at, words, n);
  uint64_t used = signal == SIGPROF ? budget + 1 : 0;
  dt_frame_head_t head = dt__wire_head(DT_FRAME_DIED, frame, at + n, used);
  if (send(DT_WORKER_FD, &head, sizeof(head), MSG_NOSIGNAL) == (ssize_t)sizeof(head))
    (void)!send(DT_WORKER_FD, frame, at + n, MSG_NOSIGNAL);
  _exit(1);
}

void dt__worker_catch_signals(void) {
  static char stack[SIGNAL_STACK];
  stack_t alternative = {.ss_sp = stack, .ss_size = sizeof(stack)};
  struct sigaction action = {.sa_flags = SA_ONSTACK | (int)SA_RESETHAND};
  sigset_t set;
  action.sa_handler = on_signal;
  (void)sigfillset(&action.sa_mask);
  (void)sigemptyset(&set);
  (void)sigaltstack(&alternative, NULL);
  for (size_t k = 0; k < N_CAUGHT; k++) {
    (void)sigaction(caught[k], &action, NULL);
    (void)sigaddset(&set, caught[k]);
  }
  (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

// ---- Limits -----------------------------------------------------------------------------------------
static void set_limit(int what, uint64_t value) {
  struct rlimit limit;
  if (getrlimit((__rlimit_resource_t)what, &limit) != 0)
    return;
  if (limit.rlim_max == RLIM_INFINITY || value < limit.rlim_max)
    limit.rlim_cur = (rlim_t)value;
  (void)setrlimit((__rlimit_resource_t)what, &limit);
}

static uint64_t mapped_bytes(void) {
  unsigned long pages = 0;
  FILE *file = fopen("/proc/self/statm", "re");
  if (!file)
    return 0;
  int n = fscanf(file, "%lu", &pages);
  (void)fclose(file);
  return n == 1 ? (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

// What counts is memory that is written; addresses are limited too, for kernels that do not count
// that.
void dt__worker_limit(uint64_t mib, uint64_t seconds) {
  limit_seconds = seconds;
  if (!mib || SANITIZED)
    return;
  limit_bytes = mib << 20;
  set_limit(RLIMIT_DATA, limit_bytes);
  set_limit(RLIMIT_AS, mapped_bytes() + limit_bytes + ROOM_BESIDE);
}

static void lift_limit(int what) {
  struct rlimit limit;
  if (getrlimit((__rlimit_resource_t)what, &limit) != 0)
    return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit((__rlimit_resource_t)what, &limit);
}

void dt__worker_lift(void) {
  if (!limit_bytes)
    return;
  lift_limit(RLIMIT_DATA);
  lift_limit(RLIMIT_AS);
}

static void set_timer(int64_t ns) {
  struct itimerval timer = {
      .it_value = {.tv_sec = ns / 1000000000, .tv_usec = (suseconds_t)(ns % 1000000000 / 1000)}};
  if (ns > 0 && !timer.it_value.tv_sec && !timer.it_value.tv_usec)
    timer.it_value.tv_usec = 1;
  (void)setitimer(ITIMER_PROF, &timer, NULL);
}

// The limit is on all that the process used in its life, so it moves along.
void dt__worker_budget_begin(int64_t budget_ns) {
  struct rusage used;
  if (limit_seconds && getrusage(RUSAGE_SELF, &used) == 0)
    set_limit(RLIMIT_CPU,
              (uint64_t)used.ru_utime.tv_sec + (uint64_t)used.ru_stime.tv_sec + limit_seconds + 2);
  budget = budget_ns > 0 ? (uint64_t)budget_ns : 0;
  if (budget_ns > 0)
    set_timer(budget_ns);
}

void dt__worker_budget_end(void) { set_timer(0); }

// ---- The beginning ----------------------------------------------------------------------------------
static void reset_signals(void) {
  struct sigaction plain = {.sa_flags = 0};
  sigset_t none;
  plain.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; signal++)
    (void)sigaction(signal, &plain, NULL); // refused for SIGKILL, SIGSTOP and the C library's own
  plain.sa_handler = SIG_IGN;
  (void)sigaction(SIGPIPE, &plain, NULL);
  (void)sigemptyset(&none);
  (void)pthread_sigmask(SIG_SETMASK, &none, NULL);
}

void dt__worker_prepare(void) {
  reset_signals();
  set_limit(RLIMIT_CORE, 0);
  (void)mallopt(M_ARENA_MAX, 1); // each further one reserves 64 MiB of addresses
  int words = memfd_create("ductile-worker", MFD_CLOEXEC);
  if (words >= 0) {
    (void)dup2(words, STDERR_FILENO);
    (void)close(words);
  }
  int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (score >= 0) {
    (void)!write(score, "800", 3);
    (void)close(score);
  }
}
