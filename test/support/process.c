// SPDX-License-Identifier: Apache-2.0
// See process.h.
#include "test/support/process.h"

#include <dirent.h>
#include <stdio.h>
#include <time.h>

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
