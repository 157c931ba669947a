// SPDX-License-Identifier: Apache-2.0
// See worker_spawn.h.
//
//   caller ── clone, signal 0 ──► middle ── clone ──► worker: setsid, exec
//      ◄──── waits by its number ── ends at once, so that init takes the worker over
//
// A child that was cloned with no signal to send is found only by waits that ask for such children,
// and its end sends no signal. But exec makes an ordinary child of it. So the middle process has no
// signal and never execs, and the worker is not our child. Both share our memory until they exec or
// end, while the caller's thread stands still. So nothing is copied, however large the process is,
// and no handler of pthread_atfork runs. Both make only system calls.
//
// If orphans go to this process (number 1 of a container, a subreaper), the worker becomes its
// child after all. Then it is waited for by number when it is given up.
#include "runtime/compile/worker_spawn.h"

#include "runtime/base/status.h"
#include "runtime/base/system.h"
#include "runtime/compile/worker_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x00001000
#endif

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

#define STACK_BYTES ((size_t)64 << 10)
#define MOST_WAIT_MS 1000 // for the end of what was killed

// Sanitizers keep books of their own on threads and stacks, which know nothing of these.
#define BARE __attribute__((no_sanitize("address", "thread", "undefined")))

#if defined(__SANITIZE_THREAD__)
// Theirs takes what it starts for a fork of all this process.
int __clone(int (*run)(void *), void *stack, int flags, void *arg, ...);
#define CLONE __clone
#else
#define CLONE clone
#endif

// Shared by the three of them.
typedef struct start_t {
  const char *path;
  char *const *arguments, *const *environment;
  int socket;
  char *stack; // of the worker, until it execs
  int pid, handle;
  int failure; // errno of what did not work
} start_t;

// ---- The worker, before exec ------------------------------------------------------------------------
// System calls by number: a library may have put itself in front of their functions.
BARE static void close_from(long first) {
  if (syscall(SYS_close_range, first, ~0u, 0) == 0)
    return;
  for (long fd = first; fd < 1 << 16; fd++) // kernels older than 5.9
    (void)syscall(SYS_close, fd);
}

BARE static int run_worker(void *opaque) {
  start_t *start = opaque;
  (void)syscall(SYS_setsid);
  long moved = start->socket == DT_WORKER_FD ? syscall(SYS_fcntl, DT_WORKER_FD, F_SETFD, 0)
                                             : syscall(SYS_dup3, start->socket, DT_WORKER_FD, 0);
  long null = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR, 0);
  for (long fd = 0; fd < DT_WORKER_FD; fd++) {
    if (null < 0)
      (void)syscall(SYS_close, fd);
    else if (null != fd)
      (void)syscall(SYS_dup3, null, fd, 0);
  }
  close_from(DT_WORKER_FD + 1);
  if (moved >= 0)
    (void)syscall(SYS_execve, start->path, start->arguments, start->environment);
  start->failure = errno;
  (void)syscall(SYS_exit_group, 127);
  return 0;
}

// ---- The one in the middle --------------------------------------------------------------------------
BARE static int run_middle(void *opaque) {
  start_t *start = opaque;
  int flags = CLONE_VM | CLONE_VFORK | SIGCHLD;
  char *top = start->stack + STACK_BYTES;
  start->pid = CLONE(run_worker, top, flags | CLONE_PIDFD, start, &start->handle);
  if (start->pid < 0 && errno == EINVAL) { // kernels older than 5.2
    start->handle = -1;
    start->pid = CLONE(run_worker, top, flags, start);
  }
  if (start->pid < 0)
    start->failure = errno;
  (void)syscall(SYS_exit_group, 0);
  return 0;
}

// ---- The caller -------------------------------------------------------------------------------------
// With all signals blocked, since a handler that ran in the others would run on our memory.
static void start_quietly(start_t *start, char *stacks) {
  sigset_t all, before;
  (void)sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, &before);
  int saved = errno;
  start->stack = stacks + STACK_BYTES;
  int middle = CLONE(run_middle, stacks + STACK_BYTES, CLONE_VM | CLONE_VFORK | CLONE_FILES, start);
  if (middle < 0)
    start->failure = errno;
  while (middle > 0 && waitpid(middle, NULL, __WALL) < 0 && errno == EINTR) {
  }
  errno = saved;
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static dt_status_t start_process(start_t *start) {
  char *stacks = dt__sys_map(2 * STACK_BYTES, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stacks == MAP_FAILED)
    return DT_NO_MEMORY();
  start_quietly(start, stacks);
  (void)munmap(stacks, 2 * STACK_BYTES);
  if (!start->failure)
    return NULL;
  if (start->handle >= 0)
    (void)dt__sys_close(start->handle);
  return DT_FAIL(start->failure == ENOMEM ? DT_E_NO_MEMORY : DT_E_UNSUPPORTED,
                 "cannot run the worker %s: %s", start->path, strerror(start->failure));
}

dt_status_t dt__process_start(const char *path, char *const environment[], dt_process_t *out) {
  *out = (dt_process_t){-1, -1, -1};
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    return DT_FAIL(DT_E_UNSUPPORTED, "cannot make a socket for a worker: %s", strerror(errno));
  char *arguments[] = {(char *)(uintptr_t)path, NULL};
  start_t start = {.path = path,
                   .arguments = arguments,
                   .environment = environment,
                   .socket = pair[1],
                   .handle = -1};
  dt_status_t status = start_process(&start);
  (void)dt__sys_close(pair[1]);
  if (status) {
    (void)dt__sys_close(pair[0]);
    return status;
  }
  *out = (dt_process_t){pair[0], start.handle, start.pid};
  return NULL;
}

// Where it is our child it leaves a record behind, which is asked for by handle: its number may be
// another's by now, and that may be a child that the host waits for. ECHILD elsewhere.
static void collect(const dt_process_t *process) {
  siginfo_t info;
  (void)waitid((idtype_t)P_PIDFD, (id_t)process->handle, &info, WEXITED | WNOHANG | __WALL);
}

void dt__process_kill(dt_process_t *process) {
  if (process->handle < 0)
    return; // it ends when the socket does
  if (syscall(SYS_pidfd_send_signal, process->handle, SIGKILL, NULL, 0) == 0) {
    struct pollfd end = {.fd = process->handle, .events = POLLIN};
    (void)poll(&end, 1, MOST_WAIT_MS);
  }
  collect(process);
}

void dt__process_close(dt_process_t *process) {
  if (process->socket >= 0)
    (void)dt__sys_close(process->socket);
  if (process->handle >= 0) {
    collect(process);
    (void)dt__sys_close(process->handle);
  }
  *process = (dt_process_t){-1, -1, -1};
}
