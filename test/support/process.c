// SPDX-License-Identifier: Apache-2.0
// See process.h.
#include "test/support/process.h"

#include <dirent.h>
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE 5000 // milliseconds

static long count_entries(const char *path) {
  DIR *folder = opendir(path);
  long entries = 0;
  if (!folder)
    return -1;
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
    entries += entry->d_name[0] != '.';
  (void)closedir(folder);
  return entries;
}

long process_descriptors(void) {
  long entries = count_entries("/proc/self/fd");
  return entries < 0 ? entries : entries - 1; // the folder's own
}

long process_mappings(void) {
  FILE *file = fopen("/proc/self/maps", "re");
  long lines = 0;
  if (!file)
    return -1;
  for (int c; (c = fgetc(file)) != EOF;)
    lines += c == '\n';
  (void)fclose(file);
  return lines;
}

long process_threads(long expected) {
  const struct timespec pause = {.tv_nsec = 1000000};
  long threads = count_entries("/proc/self/task");
  for (int k = 0; k < PATIENCE && threads > expected; k++) {
    (void)nanosleep(&pause, NULL);
    threads = count_entries("/proc/self/task");
  }
  return threads;
}

#ifdef __SANITIZE_ADDRESS__
#define TRIES 4
#else
#define TRIES 1
#endif

static void write_stack(int signal_number) {
  void *frames[64];
  backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
  (void)signal(signal_number, SIG_DFL);
  (void)raise(signal_number); // once the handler has returned
}

static void run_in_child(int (*run)(void *arg), void *arg, unsigned seconds) {
  (void)signal(SIGALRM, write_stack);
  (void)alarm(seconds);
  _exit(run(arg));
}

int process_child(int (*run)(void *arg), void *arg, unsigned seconds) {
  void *frame;
  (void)backtrace(&frame, 1); // the first one loads a library
  for (int tries = 0; tries < TRIES; tries++) {
    pid_t child = fork();
    if (child == 0)
      run_in_child(run, arg, seconds);
    int how = 0;
    if (child < 0 || waitpid(child, &how, 0) != child)
      return -1;
    if (WIFEXITED(how))
      return WEXITSTATUS(how);
    (void)fprintf(stderr, "a child ended by signal %d\n", WTERMSIG(how));
    if (WTERMSIG(how) != SIGALRM)
      return -1;
  }
  return -1;
}
