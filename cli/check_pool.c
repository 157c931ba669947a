// SPDX-License-Identifier: Apache-2.0
// Processes that check folders. This process makes no runtime, so that its children may; it hands
// out one folder at a time by a pipe and gets a verdict back by another. A child that dies, or that
// does not answer in time and is killed, costs the folder it was at, and another takes its place.
#include "cli/check.h"
#include "cli/tensor_file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST_JOBS 256

typedef struct worker_t {
  pid_t pid; // 0: none
  int to, from;
  bool busy;
  uint32_t folder;
  int64_t deadline_ms; // of a busy one; INT64_MAX: none
  size_t got;          // bytes of the verdict so far
  cli_verdict_t verdict;
} worker_t;

typedef struct pool_t {
  const cli_checking_t *checking;
  const cli_folders_t *folders;
  uint32_t n_workers, next; // next: the first folder that nobody has
  worker_t workers[MOST_JOBS];
  cli_verdict_t *verdicts; // one a folder
  bool *done;
} pool_t;

static int64_t now_ms(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// ---- In a child -----------------------------------------------------------------------------------
static bool read_whole(int fd, void *to, size_t bytes) {
  size_t got = 0;
  while (got < bytes) {
    ssize_t n = read(fd, (char *)to + got, bytes - got);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    got += (size_t)n;
  }
  return true;
}

static bool write_whole(int fd, const void *from, size_t bytes) {
  size_t put = 0;
  while (put < bytes) {
    ssize_t n = write(fd, (const char *)from + put, bytes - put);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    put += (size_t)n;
  }
  return true;
}

// A runtime whose sessions can be on the device: that there is none is no folder's refusal.
static dt_status_t make_runtime(const cli_checking_t *checking, dt_runtime_t **out) {
  dt_runtime_options_t about = {.struct_size = sizeof(about),
                                .threads = checking->threads,
                                .compile_threads = checking->compile_threads};
  dt_session_options_t where = {.struct_size = sizeof(where),
                                .device = checking->place.device,
                                .ordinal = checking->place.ordinal};
  dt_session_t *session = NULL;
  dt_status_t status = dt_runtime_create(&about, out);
  if (!status)
    status = dt_session_create(*out, &where, &session);
  dt_session_destroy(session);
  if (status) {
    dt_runtime_release(*out);
    *out = NULL;
  }
  return status;
}

static void check_one(const cli_checking_t *checking, dt_runtime_t **runtime, const char *path,
                      cli_verdict_t *verdict) {
  dt_status_t status = *runtime ? NULL : make_runtime(checking, runtime);
  if (!status) {
    cli_check_folder(checking, *runtime, path, verdict);
    return;
  }
  *verdict = (cli_verdict_t){.folder = verdict->folder, .outcome = CLI_ERROR};
  (void)snprintf(verdict->reason, CLI_MESSAGE, "%s", dt_status_message(status));
  dt_status_free(status);
}

static int serve(const pool_t *pool, int from, int to) {
  dt_runtime_t *runtime = NULL;
  cli_verdict_t verdict = {0};
  while (read_whole(from, &verdict.folder, sizeof(verdict.folder))) {
    check_one(pool->checking, &runtime, pool->folders->items[verdict.folder].path, &verdict);
    if (!write_whole(to, &verdict, sizeof(verdict)))
      break;
  }
  dt_runtime_release(runtime);
  return 0;
}

// ---- Workers --------------------------------------------------------------------------------------
static void close_pipe(const int ends[2]) {
  (void)close(ends[0]);
  (void)close(ends[1]);
}

static bool start(pool_t *pool, worker_t *worker) {
  int jobs[2], answers[2];
  *worker = (worker_t){.deadline_ms = INT64_MAX};
  if (pipe2(jobs, O_CLOEXEC) != 0)
    return false;
  if (pipe2(answers, O_CLOEXEC) != 0) {
    close_pipe(jobs);
    return false;
  }
  (void)fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGPIPE, SIG_IGN);
    // The ends that lead to other workers would keep them from seeing that this process ended.
    for (uint32_t k = 0; k < pool->n_workers; k++) {
      if (pool->workers[k].pid > 0) {
        (void)close(pool->workers[k].to);
        (void)close(pool->workers[k].from);
      }
    }
    (void)close(jobs[1]);
    (void)close(answers[0]);
    exit(serve(pool, jobs[0], answers[1]));
  }
  (void)close(jobs[0]);
  (void)close(answers[1]);
  if (pid < 0) {
    (void)close(jobs[1]);
    (void)close(answers[0]);
    return false;
  }
  worker->pid = pid;
  worker->to = jobs[1];
  worker->from = answers[0];
  return true;
}

// Waits for the child; how it ended.
static int stop(worker_t *worker) {
  int status = 0;
  (void)close(worker->to);
  (void)close(worker->from);
  while (waitpid(worker->pid, &status, 0) < 0 && errno == EINTR)
    continue;
  worker->pid = 0;
  return status;
}

static void fail_folder(pool_t *pool, worker_t *worker, const char *reason) {
  cli_verdict_t *verdict = &pool->verdicts[worker->folder];
  *verdict = (cli_verdict_t){.folder = worker->folder, .outcome = CLI_ERROR};
  (void)snprintf(verdict->reason, CLI_MESSAGE, "%s", reason);
  pool->done[worker->folder] = true;
  worker->busy = false;
}

static void lose(pool_t *pool, worker_t *worker, const char *late) {
  char reason[128];
  if (late)
    (void)kill(worker->pid, SIGKILL);
  int status = stop(worker);
  if (!late && WIFSIGNALED(status))
    (void)snprintf(reason, sizeof(reason), "the process crashed: %s", strsignal(WTERMSIG(status)));
  else
    (void)snprintf(reason, sizeof(reason), "%s",
                   late ? late : "the process ended without an answer");
  if (worker->busy)
    fail_folder(pool, worker, reason);
}

// ---- Work -----------------------------------------------------------------------------------------
static bool hand_out(pool_t *pool, worker_t *worker) {
  if (worker->pid == 0 && !start(pool, worker))
    return false;
  worker->folder = pool->next++;
  worker->busy = true;
  worker->got = 0;
  worker->deadline_ms =
      pool->checking->timeout_s ? now_ms() + (int64_t)pool->checking->timeout_s * 1000 : INT64_MAX;
  if (!write_whole(worker->to, &worker->folder, sizeof(worker->folder)))
    lose(pool, worker, NULL);
  return true;
}

static void take_answer(pool_t *pool, worker_t *worker) {
  ssize_t n = read(worker->from, (char *)&worker->verdict + worker->got,
                   sizeof(worker->verdict) - worker->got);
  if (n < 0 && (errno == EINTR || errno == EAGAIN))
    return;
  if (n <= 0) {
    lose(pool, worker, NULL);
    return;
  }
  worker->got += (size_t)n;
  if (worker->got < sizeof(worker->verdict))
    return;
  worker->verdict.reason[CLI_MESSAGE - 1] = '\0';
  pool->verdicts[worker->folder] = worker->verdict;
  pool->done[worker->folder] = true;
  worker->busy = false;
}

static void wait_for_any(pool_t *pool) {
  struct pollfd polled[MOST_JOBS];
  int64_t first = INT64_MAX, now = now_ms();
  for (uint32_t k = 0; k < pool->n_workers; k++) {
    const worker_t *worker = &pool->workers[k];
    polled[k] = (struct pollfd){.fd = worker->busy ? worker->from : -1, .events = POLLIN};
    if (worker->busy && worker->deadline_ms < first)
      first = worker->deadline_ms;
  }
  int64_t wait = first == INT64_MAX ? -1 : first <= now ? 0 : first - now;
  (void)poll(polled, pool->n_workers, wait > 3600000 ? 3600000 : (int)wait);
  now = now_ms();
  for (uint32_t k = 0; k < pool->n_workers; k++) {
    worker_t *worker = &pool->workers[k];
    char late[64];
    if (worker->busy && polled[k].revents) {
      take_answer(pool, worker);
    } else if (worker->busy && worker->deadline_ms <= now) {
      (void)snprintf(late, sizeof(late), "no answer within %u s", pool->checking->timeout_s);
      lose(pool, worker, late);
    }
  }
}

static bool busy(const pool_t *pool) {
  for (uint32_t k = 0; k < pool->n_workers; k++)
    if (pool->workers[k].busy)
      return true;
  return false;
}

static void check_here(const pool_t *pool, uint32_t folder) {
  dt_runtime_t *runtime = NULL;
  pool->verdicts[folder].folder = folder;
  check_one(pool->checking, &runtime, pool->folders->items[folder].path, &pool->verdicts[folder]);
  dt_runtime_release(runtime);
  pool->done[folder] = true;
}

// A round: everybody has something to do, and somebody is done.
static bool work(pool_t *pool) {
  if (pool->n_workers == 0) {
    check_here(pool, pool->next++);
    return true;
  }
  for (uint32_t k = 0; k < pool->n_workers; k++) {
    if (!pool->workers[k].busy && pool->next < pool->folders->n &&
        !hand_out(pool, &pool->workers[k]))
      return busy(pool);
  }
  wait_for_any(pool);
  return true;
}

bool cli_check_all(const cli_checking_t *checking, const cli_folders_t *folders, uint32_t jobs,
                   void (*tell)(void *user, const cli_folder_t *folder,
                                const cli_verdict_t *verdict),
                   void *user, char message[CLI_MESSAGE]) {
  pool_t *pool = calloc(1, sizeof(*pool));
  cli_verdict_t *verdicts = calloc(folders->n + 1, sizeof(*verdicts));
  bool *done = calloc(folders->n + 1, sizeof(*done));
  bool good = pool && verdicts && done;
  if (!good)
    (void)cli_wrong(message, "no memory");
  if (good) {
    *pool = (pool_t){.checking = checking,
                     .folders = folders,
                     .n_workers = jobs < MOST_JOBS ? jobs : MOST_JOBS,
                     .verdicts = verdicts,
                     .done = done};
  }
  void (*before)(int) = signal(SIGPIPE, SIG_IGN);
  for (uint32_t told = 0; good && told < folders->n;) {
    good = work(pool) || cli_wrong(message, "no process can be made: %s", strerror(errno));
    for (; good && told < folders->n && done[told]; told++)
      tell(user, &folders->items[told], &verdicts[told]);
  }
  for (uint32_t k = 0; pool && k < pool->n_workers; k++) {
    if (pool->workers[k].pid > 0)
      (void)stop(&pool->workers[k]);
  }
  (void)signal(SIGPIPE, before);
  free(pool);
  free(verdicts);
  free(done);
  return good;
}
